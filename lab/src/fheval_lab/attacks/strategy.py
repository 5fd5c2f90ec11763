"""The points at which an aggregator may leave the protocol, and what it knows when it does.

A strategy overrides the points that it uses and leaves the others honest. It speaks of uploads, runs and slots, and
not of ciphertexts: `paper_adversaries` and `padded_adversaries` carry it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Generic, TypeVar

from fheval.protocols import Protocol
from fheval.protocols.base import Stage
from fheval.secrets import Randomness

Upload = TypeVar("Upload")


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What the aggregator knows: the public shape of the round, and its own randomness.

    `slots` is how many products are added up for the X of one run, `anchor_slots` how many of them are the anchor's.
    """

    parties: int
    runs: int
    slots: int
    anchor_slots: int
    rng: Randomness


@dataclass(frozen=True, slots=True, kw_only=True)
class Tampering:
    """What is done to the slots of one run: X = Σ factor·(T + addition)·F + borrowed·Y.

    Factors that are not given are 1. With `rotated`, every T meets the F of its neighbour.
    """

    factors: Sequence[Fraction] = ()
    additions: Mapping[int, int] = field(default_factory=dict)
    rotated: bool = False
    borrowed: Fraction = Fraction(0)


HONEST = Tampering()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail(Generic[Upload]):
    """The uploads within the aggregator's reach: this round's, an earlier one's, and those that it makes itself."""

    inbox: Sequence[Upload]
    earlier: Sequence[Upload]
    forge: Callable[[], Upload]


class Strategy:
    """An aggregator's plan for one round; this one follows the protocol.

    It moves the AUC by about `shift` or more, None for far more: protocols that resist claim to catch what exceeds
    their tolerance. `needs` is a stage without which it makes no sense, `least_runs` how many runs it needs. With
    `answers` false, the answer holds no ciphertexts; with `garbles` true, `garble` changes what is in them.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    shift: ClassVar[float | None] = None
    needs: ClassVar[Stage] = Stage.SUBMIT
    least_runs: ClassVar[int] = 1
    answers: ClassVar[bool] = True
    garbles: ClassVar[bool] = False

    def __init__(self, known: Knowledge) -> None:
        self.known = known

    @classmethod
    def suits(cls, protocol: Protocol) -> bool:
        """Whether it makes sense against a protocol; those that resist compare two runs or more."""
        runs = 2 if protocol.resists else 1
        return runs >= cls.least_runs and cls.needs in [step.stage for step in protocol.steps]

    @classmethod
    def is_claimed(cls, protocol: Protocol) -> bool:
        """Whether a protocol claims to catch it."""
        return protocol.resists and (cls.shift is None or not protocol.tolerance)

    def choose_uploads(self, mail: Mail[Upload]) -> list[Upload]:
        """Which uploads are added up."""
        return list(mail.inbox)

    def announce(self, roster: Sequence[str]) -> list[str]:
        """Who the leader is told has arrived, where a protocol goes on without those who did not."""
        return list(roster)

    def tamper_with_runs(self) -> list[Tampering]:
        """What is done to the slots of each run."""
        return [self.tamper() for _ in range(self.known.runs)]

    def tamper(self) -> Tampering:
        """What is done to the slots of one run; asked for once a run."""
        return HONEST

    def sources(self) -> list[int]:
        """For each run the one whose answer is given for it."""
        return list(range(self.known.runs))

    def constants(self) -> tuple[int, int] | None:
        """X and Y to be returned instead of anything computed."""
        return None

    def garble(self, payload: bytes) -> bytes:
        """What stands inside a ciphertext of the answer; its envelope is put right again."""
        return payload
