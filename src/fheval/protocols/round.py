"""What all protocols share: the round, its secrets, and what it ends with."""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from typing import Protocol

import msgspec

from fheval.engines import Engine, Parameters
from fheval.errors import CohortTooSmall, ConfigError, LocalProtocolError, RemoteProtocolError, UndefinedMetric
from fheval.metrics.forms import Form
from fheval.secrets import Randomness, Secret, new_seed
from fheval.wire import Message, encode

ROUND_ID_BYTES = 16

AGGREGATOR = "aggregator"

# A public bound on the samples of all parties together; every protocol sizes its numbers by it.
DEFAULT_MAX_SAMPLES = 1 << 24
# Counts are integers of 64 bits with a sign, and T^n is the sum of two.
MOST_SAMPLES = 1 << 62
# Six bytes each, and as many again for each tag.
MOST_SUMS = 1 << 20
DEFAULT_MINIMUM_COHORT = 3
DEFAULT_PRECISION = 1e-4
DEFAULT_RUNS = 1


class Round(Message, frozen=True, kw_only=True, cache_hash=True):
    """The public description of one evaluation; every party sees it and binds its messages to its digest.

    `precision` is the width of the release's rounding, None for an exact release. `question` is the encoded
    request (metrics, decision points) behind the forms: opaque here, but part of the digest. A round has forms or,
    where the parties consent to learn counts themselves, asks for so many `sums`: never both.
    """

    id: str
    protocol: str
    engine: str
    forms: tuple[Form, ...]
    parties: tuple[str, ...]
    leader: str
    precision: float | None
    minimum_cohort: int = DEFAULT_MINIMUM_COHORT
    max_samples: int = DEFAULT_MAX_SAMPLES
    splits: int = 4
    runs: int = DEFAULT_RUNS
    packing: str = "paper"
    question: bytes = b""
    sums: int = 0

    def __post_init__(self) -> None:
        if len(set(self.parties)) != len(self.parties):
            raise ConfigError("A party is named twice in the round. Give every party its own name.")
        if self.leader not in self.parties:
            raise ConfigError(f"The leader {self.leader!r} is not a party of the round. Pick one of the parties.")
        if self.minimum_cohort < 1:
            raise ConfigError("The minimum cohort must be at least 1.")
        if self.precision is not None and not 0 < self.precision < 1:
            raise ConfigError(f"A precision of {self.precision} makes no sense. Use a number such as 1e-4, or exact.")
        if not 1 <= self.max_samples <= MOST_SAMPLES:
            raise ConfigError(f"max_samples must be between 1 and {MOST_SAMPLES}. Use what the parties really have.")
        if not self.forms and not 1 <= self.sums <= MOST_SUMS:
            raise ConfigError(f"A round needs at least one evaluation, and has room for {MOST_SUMS} counts.")
        if self.forms and self.sums:
            raise ConfigError("A round releases ratios or counts. Ask for one of them.")

    def digest(self) -> bytes:
        """A hash over every field, to bind messages and derived randomness to this very round."""
        return _digest(self)

    def require_cohort(self, present: Sequence[str]) -> None:
        """Refuse to go on with fewer parties than the minimum cohort, or with strangers."""
        strangers = sorted(set(present) - set(self.parties))
        if strangers or len(set(present)) != len(present):
            raise RemoteProtocolError(
                f"The roster names unknown or repeated parties {strangers}. The round was aborted.",
                step="roster",
                culprit=AGGREGATOR,
            )
        self.require_parties(len(present))

    def require_parties(self, count: int) -> None:
        """Refuse to go on with fewer parties than the minimum cohort."""
        if count < self.minimum_cohort:
            raise CohortTooSmall(
                f"Only {count} parties are present and the minimum cohort is {self.minimum_cohort}. "
                "Wait for more parties and run a new round."
            )


@lru_cache(maxsize=16)
def _digest(round_: Round) -> bytes:
    # Every pad and every secret map asks for it, and a large batch has thousands of forms to encode.
    return sha256(encode(round_)).digest()


def new_round_id(rng: Randomness) -> str:
    """Draw the name of a round; it never repeats."""
    return rng.draw(ROUND_ID_BYTES).hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartySecrets:
    """What all parties share and the aggregator lacks: an FHE secret key per parameter set, and a seed."""

    keys: tuple[Secret[bytes], ...]
    seed: Secret[bytes]

    def to_bytes(self) -> Secret[bytes]:
        """Encode for sealing under another party's public key."""
        return Secret(msgspec.msgpack.encode(([key.reveal() for key in self.keys], self.seed.reveal())))

    @classmethod
    def from_bytes(cls, data: Secret[bytes]) -> PartySecrets:
        """Decode what `to_bytes` wrote."""
        keys, seed = msgspec.msgpack.decode(data.reveal(), type=tuple[tuple[bytes, ...], bytes])
        return cls(keys=tuple(Secret(key) for key in keys), seed=Secret(seed))


class PublicSetup(Message, frozen=True, kw_only=True):
    """Set-up, leader to aggregator: public and evaluation keys, one entry per parameter set."""

    round: str
    sender: str
    keys: tuple[bytes, ...]


def leader_set_up(
    engine: Engine, round_: Round, parameters: Sequence[Parameters], rng: Randomness
) -> tuple[PartySecrets, PublicSetup]:
    """Set-up, leader: make the FHE keys and the common seed.

    The secrets go to the other parties, sealed so that the aggregator cannot open them; the public part goes to
    the aggregator.
    """
    keys = [engine.generate_keys(chosen) for chosen in parameters]
    secrets = PartySecrets(keys=tuple(made.secret for made in keys), seed=new_seed(rng))
    return secrets, PublicSetup(round=round_.id, sender=round_.leader, keys=tuple(made.public for made in keys))


def require_keys(setup: PublicSetup, expected: int) -> None:
    """Refuse a set-up that lacks keys for some parameter set, or has too many."""
    if len(setup.keys) != expected:
        raise RemoteProtocolError(
            f"The set-up of {setup.sender} has {len(setup.keys)} public keys instead of {expected}. "
            "Ask for a new set-up.",
            step="PublicSetup",
            culprit=setup.sender,
        )


class AnswersOnce:
    """A role that answers a round once: a second answer, blinded anew, would tell more than the release allows."""

    _answered = False

    def answer_now(self) -> None:
        """Note that the answer is being given."""
        if self._answered:
            raise LocalProtocolError("This round has been answered already. Start a new round.")
        self._answered = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the parties hold at the end of a round: one ratio per form, and what stands behind it.

    A ratio is None where the form's denominator is zero; a round without any other is an `UndefinedMetric`.
    `hiding_bits` is the width of the blinding that hides the size of the denominator, where the release has one.
    """

    ratios: tuple[Fraction | float | None, ...]
    roster: tuple[str, ...]
    verified: bool | None = None
    soundness_bits: float | None = None
    hiding_bits: int | None = None

    def ratio(self, index: int = 0) -> Fraction | float:
        """The ratio of one form; `UndefinedMetric` where there is none."""
        found = self.ratios[index]
        if found is None:
            raise UndefinedMetric
        return found


class Post(Protocol):
    """How `run` hands bytes from role to role and says who is at work; the transport measures with it."""

    def working(self, role: str) -> AbstractContextManager[None]:
        """Everything inside is the work of `role`."""
        ...

    def carry(self, kind: str, message: Message) -> bytes:
        """Turn a message into the bytes that travel, and note their size under `kind`."""
        ...


def from_this_round(round_: Round, message_round: str, sender: str, step: str) -> None:
    """Refuse a message of another round."""
    if message_round != round_.id:
        raise RemoteProtocolError(
            f"A message from {sender} belongs to another round. The round was aborted.",
            step=step,
            culprit=sender,
        )


def from_a_party(parties: Container[str], sender: str, seen: Container[str], step: str) -> None:
    """Refuse a message of a stranger, and a second one of the same party."""
    if sender not in parties:
        raise RemoteProtocolError(
            f"{sender} is not a party of this round. Its message was dropped.", step=step, culprit=sender
        )
    if sender in seen:
        raise RemoteProtocolError(
            f"{sender} sent the same step twice. The round was aborted.", step=step, culprit=sender
        )
