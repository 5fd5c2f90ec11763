"""What passes between an aggregator and a vault: one request and one reply for each stage of a round.

The aggregator's requests carry no signature, because nobody trusts it; a vault checks what they say against the policy,
the studies that its operator accepted, its own ledger and other members' signatures. A reply is either a `Reply`,
signed by its member for the round, the key epoch, the stage, the roster and the content, or `REFUSAL`, which is the
same bytes whatever the reason.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from fheval.protocols.base import Stage
from fheval.protocols.round import PublicSetup, Round, RoundCall
from fheval.wire import Blob, Message, encode


class Request(Message, frozen=True, kw_only=True):
    """Aggregator to vault: the stage, and the message of that stage as bytes."""

    stage: Stage
    body: Blob


class Epoch(Message, frozen=True, kw_only=True):
    """One set of keys: named after the round that it was made for, made by that round's leader."""

    id: str
    leader: str


class Proof(Message, frozen=True, kw_only=True):
    """That a member has signed, at an earlier stage of the round, content with this digest, and a nonce beside it."""

    party: str
    digest: bytes
    nonce: bytes
    signature: bytes


class Bundles(Message, frozen=True, kw_only=True):
    """What a party gets from every member of a committee, in their order: a sealed bundle each."""

    bundles: tuple[bytes, ...]


# Requests


CHALLENGE_BYTES = range(16, 65)


class Hello(Message, frozen=True, kw_only=True):
    """Who are you? Changes nothing, may be asked at any time. The challenge has 16 to 64 bytes."""

    challenge: bytes


class SetUp(Message, frozen=True, kw_only=True):
    """To the leader: make the keys for this round, and seal them for its parties."""

    call: RoundCall


class Submit(Message, frozen=True, kw_only=True):
    """To every party: send your upload; or, at stage `offer`, to the members of a committee: make your offers.

    `bundle` is the party's own, or has one from each member of a committee; `box` is for those who open answers.
    """

    call: RoundCall
    epoch: Epoch
    bundle: bytes
    box: Blob


class Relay(Message, frozen=True, kw_only=True):
    """Any later stage: the protocol's own message, and proofs of what it says about other members.

    `shown` is for the study's checkers: what the leader was given to open. `publics` are a committee's public keys, by
    member, for those who compute with them.
    """

    round: str
    body: Blob
    proofs: tuple[Proof, ...] = ()
    shown: Blob | None = None
    publics: dict[str, Blob] = msgspec.field(default_factory=dict)


class Tell(Message, frozen=True, kw_only=True):
    """To who opened a round that is over, and of which the aggregator may learn the result: say what it was."""

    round: str


class Void(Message, frozen=True, kw_only=True):
    """To whoever can open the round, which has failed: never do so."""

    call: RoundCall
    epoch: Epoch


class Voided(Message, frozen=True, kw_only=True):
    """To every party: all who could have opened the round have signed that they never will."""

    round: str
    proofs: tuple[Proof, ...]


# Replies


class Reply(Message, frozen=True, kw_only=True):
    """Vault to aggregator: the content of one stage, signed by the member. `round` is the challenge for `hello`.

    An upload has a fresh `nonce`, which the leader needs for the pad and nobody may change.
    """

    stage: Stage
    round: str
    sender: str
    body: Blob
    nonce: bytes = b""
    signature: bytes


class Greeting(Message, frozen=True, kw_only=True):
    """Answers `hello`: which member this is, under which policy, and which engines it can load."""

    member: str
    consortium: str
    policy_version: int
    engines: tuple[str, ...]


class KeySetUp(Message, frozen=True, kw_only=True):
    """Answers `setup`: public keys, the FHE secret keys in a box, and each party's own secrets in a sealed bundle."""

    public: PublicSetup
    box: Blob
    bundles: dict[str, bytes]


class Refusal(Message, frozen=True, kw_only=True):
    """Answers what is refused. The reason stays in the vault's log."""


REFUSAL = encode(Refusal())

# Every stage of a protocol but the first is a `Relay`. `tell` is answered by a `Finished`.
REQUESTS: dict[Stage, type[Message]] = {
    Stage.HELLO: Hello,
    Stage.SETUP: SetUp,
    Stage.OFFER: Submit,
    Stage.SUBMIT: Submit,
    Stage.TELL: Tell,
    Stage.VOID: Void,
    Stage.VOIDED: Voided,
}


# What is said of a round among 100,000 parties fits; only keys, uploads and answers are larger.
_CALL_LIMIT = 8 << 20

LIMITS: dict[Stage, int] = {
    Stage.HELLO: 1 << 10,
    Stage.SETUP: _CALL_LIMIT,
    Stage.VOID: _CALL_LIMIT,
    Stage.VOIDED: 3 * _CALL_LIMIT,
}


def request(stage: Stage, body: Message) -> bytes:
    """A request as it travels."""
    return encode(Request(stage=stage, body=encode(body)))


def binding(round_: Round, epoch: Epoch) -> str:
    """What signatures bind a message to: every word of the round's description, and the keys it runs under."""
    return sha256(b"fheval/1 vault round\0" + round_.digest + encode(epoch)).hexdigest()
