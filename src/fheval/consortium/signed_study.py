"""Signed studies: what the members of a consortium may be asked, fixed by its authority before anyone counts.

A vault answers for studies that the authority signed and its own operator accepted, and for nothing else. The
aggregator only says which of them it wants a round of.
"""

from __future__ import annotations

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fheval.consortium.policy import Policy
from fheval.consortium.records import TrustAnchor, check_name, domain
from fheval.disclosure import require_as_declared
from fheval.errors import ConfigError, EngineError, RemoteProtocolError
from fheval.privacy.accounting import epsilon_of
from fheval.protocols import PROTOCOLS
from fheval.protocols.round import Round
from fheval.secrets import Secret, SystemRandomness
from fheval.study import DEFAULT_LEAST_ROWS, Study
from fheval.wire import Message, decode, encode, holds

_SIGNED = "study"

# Five times what an interval of 95 % asks for. Each is one more pass over a party's rows.
MOST_RESAMPLES = 1000

# Resamples of all rounds are drawn before the first, and have up to two megabytes a round.
MOST_RESAMPLED_ROUNDS = 100

# Below this an answer that "was verified" would mean little: 2^-40 is what is usually asked of a single guess.
LEAST_SOUNDNESS_BITS = 40.0


class SignedStudy(Message, frozen=True, kw_only=True):
    """A study's canonical bytes and the authority's Ed25519 signature over them."""

    study: bytes
    signature: bytes


def is_signed_study(data: bytes) -> bool:
    """Whether a file holds a signed study rather than, say, a policy."""
    return holds(data, SignedStudy)


def fit_to(study: Study, policy: Policy) -> Study:
    """The study as this consortium can sign it: a bound on each party's rows that keeps the sum of all in bounds."""
    if study.most_rows_per_party is not None:
        return study
    return msgspec.structs.replace(study, most_rows_per_party=study.max_samples // len(policy.members))


def check_study(study: Study, policy: Policy) -> None:
    """Refuse a study that no round among all members of the policy could follow; a `ConfigError` says why."""
    if not study.name:
        raise ConfigError('The study has no name. Give it one: name = "…"')
    check_name(study.name)
    if study.most_rows_per_party is None:
        raise ConfigError("The study does not say how many rows a party may bring. Set most_rows_per_party.")
    if study.least_rows_per_party < DEFAULT_LEAST_ROWS:
        raise ConfigError(
            f"A party of {study.least_rows_per_party} rows would count in a cohort. "
            f"Set least_rows_per_party to {DEFAULT_LEAST_ROWS} or more."
        )
    least = policy.rules.minimum_cohort
    if study.minimum_cohort < least:
        raise ConfigError(
            f"The study would go on with {study.minimum_cohort} parties, and the policy asks for at least {least}. "
            "Raise minimum_cohort."
        )
    cost, most = study.privacy_cost, policy.rules.epsilon_per_lineage
    if cost is not None and epsilon_of([cost], policy.rules.delta_per_lineage) > most * (1 + 1e-9):
        raise ConfigError(f"A round of the study would spend more than ε = {most:g}, which the policy allows in all.")
    names = [record.name for record in policy.members]
    for name in (*study.checkers, *study.leaders):
        if name not in names:
            raise ConfigError(f"The study names {name}, which is no member. Name members as checkers and leaders.")
    PROTOCOLS[study.protocol].require_named(study.leaders, study.options)
    call = study.call(SystemRandomness(), engine="", parties=names, leader=study.may_lead(names)[0])
    try:
        require_playable(study, study.round(call))
    except EngineError as error:
        raise ConfigError(str(error)) from error


def require_playable(study: Study, round_: Round) -> None:
    """Refuse a round that no vault plays, whatever its data; a `ConfigError` or `EngineError` says why."""
    if study.group_column is not None and not study.groups:
        raise ConfigError(
            f"The study groups by {study.group_column!r} and names no groups. Name them, such as "
            'groups = ["F", "M"]: nobody may look into the data for them.'
        )
    if study.replicates > MOST_RESAMPLES:
        raise ConfigError(f"The study asks for {study.replicates} resamples; {MOST_RESAMPLES} are allowed.")
    if study.replicates and study.rounds > MOST_RESAMPLED_ROUNDS:
        raise ConfigError(f"The study has {study.rounds} rounds with intervals; {MOST_RESAMPLED_ROUNDS} are allowed.")
    protocol = PROTOCOLS[study.protocol].of_round(round_)
    protocol.parameter_sets(round_)
    soundness = protocol.soundness_bits(round_)
    if soundness is not None and soundness < LEAST_SOUNDNESS_BITS:
        raise ConfigError(
            f"A wrong answer would pass this study's verification with probability 2^-{soundness:.0f}; "
            f"2^-{LEAST_SOUNDNESS_BITS:.0f} is the most that is accepted."
        )


def sign_study(study: Study, policy: Policy, key: Secret[Ed25519PrivateKey]) -> bytes:
    """Authority: check a study and sign it; one that would give away more than it says is refused."""
    check_study(study, policy)
    require_as_declared(study)
    body = study.to_bytes()
    return encode(SignedStudy(study=body, signature=key.reveal().sign(domain(_SIGNED) + body)))


def open_study(data: bytes, anchor: TrustAnchor) -> Study:
    """Member or aggregator: read a study, or refuse one that the authority did not sign."""
    signed = decode(data, SignedStudy, sender="authority")
    try:
        anchor.policy_key.verify(signed.signature, domain(_SIGNED) + signed.study)
    except InvalidSignature:
        raise RemoteProtocolError(
            "The study was not signed by this consortium's authority, or was altered afterwards. "
            "Get it from the authority again.",
            step="study",
            culprit="authority",
        ) from None
    return Study.from_bytes(signed.study)
