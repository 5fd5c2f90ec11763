"""The honest side of a round, ready to be attacked: parties have uploaded, and any aggregator may now answer.

A stage plays what the protocol's `run` plays, but lets many aggregators answer the same uploads, so that a try of a
strategy costs the aggregator's work only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from fheval import wire
from fheval.engines import Engine, Parameters
from fheval.metrics.forms import Contribution
from fheval.protocols import padded, padded_verified, padding, paper_malicious, paper_semi_honest
from fheval.protocols.padded import PaddedCounts, PaddedResult, PadSums, RosterNotice, SlotLayout
from fheval.protocols.round import AGGREGATOR, Outcome, PartySecrets, PublicSetup, Round, leader_set_up
from fheval.secrets import Randomness, Secret
from fheval.wire import Message

M = TypeVar("M", bound=Message)

Contributions = Mapping[str, Sequence[Contribution]]


def as_received(message: M, sender: str) -> M:
    """What the other side makes of the bytes of a message."""
    return wire.decode(wire.encode(message), type(message), sender=sender)


class Stage(ABC):
    """One round up to the point where the aggregator gets to work. `secrets` is what the parties share.

    A consortium keeps its seed from round to round, as it keeps its keys; without one, this round has its own.
    """

    secrets: PartySecrets
    setup: PublicSetup

    def __init__(
        self,
        engine: Engine,
        round_: Round,
        contributions: Contributions,
        rng: Randomness,
        seed: Secret[bytes] | None = None,
    ) -> None:
        self.engine = engine
        self.round = round_
        self.rng = rng
        self._seed = seed
        self.prepare(contributions)

    def set_up(self, sets: Sequence[Parameters]) -> None:
        """Make, or find, what the parties share."""
        secrets, self.setup = leader_set_up(self.engine, self.round, sets, self.rng)
        self.secrets = replace(secrets, seed=self._seed or secrets.seed)

    @abstractmethod
    def prepare(self, contributions: Contributions) -> None:
        """Set-up, leader; uploads, parties."""

    @abstractmethod
    def uploads(self) -> list[Any]:
        """What the parties sent, in the shape in which a strategy moves it about."""

    @abstractmethod
    def answer(self, aggregator_type: type[Any]) -> Message:
        """Let an aggregator of this type receive the uploads and answer."""

    @abstractmethod
    def open(self, result: Any) -> Outcome:
        """Open the answer as the parties do; raises where they refuse it."""

    def outcome(self, aggregator_type: type[Any]) -> Outcome:
        """What the parties end up with when this aggregator answers."""
        return self.open(as_received(self.answer(aggregator_type), AGGREGATOR))


class SemiHonestStage(Stage):
    """`paper-semi-honest`."""

    def prepare(self, contributions: Contributions) -> None:
        """Steps 1 to 4."""
        engine, round_ = self.engine, self.round
        self.set_up([paper_semi_honest.parameters(round_)])
        self.shares = [
            paper_semi_honest.party_submit(engine, round_, self.secrets, party, own)
            for party, (own,) in contributions.items()
        ]

    def uploads(self) -> list[Any]:
        """For each party its one run of ciphertexts."""
        return [(share.ciphertexts,) for share in self.shares]

    def answer(self, aggregator_type: type[paper_semi_honest.Aggregator]) -> Message:
        """Steps 5 to 8."""
        aggregator = aggregator_type(self.engine, self.round, self.setup, self.rng)
        for share in self.shares:
            aggregator.receive(share)
        return aggregator.result()

    def open(self, result: paper_semi_honest.BlindedResult) -> Outcome:
        """Step 9."""
        return paper_semi_honest.party_open(self.engine, self.round, self.secrets, result)


class MaliciousStage(Stage):
    """`paper-malicious`."""

    def prepare(self, contributions: Contributions) -> None:
        """Steps 1 to 8."""
        engine, round_ = self.engine, self.round
        self.set_up([paper_malicious.parameters(round_)])
        self.shares = [
            paper_malicious.party_submit(engine, round_, self.secrets, party, own, self.rng)
            for party, (own,) in contributions.items()
        ]

    def uploads(self) -> list[Any]:
        """For each party its runs of ciphertexts."""
        return [share.runs for share in self.shares]

    def answer(self, aggregator_type: type[paper_malicious.Aggregator]) -> Message:
        """Steps 9 to 11."""
        aggregator = aggregator_type(self.engine, self.round, self.setup, self.rng)
        for share in self.shares:
            aggregator.receive(share)
        return aggregator.result()

    def open(self, result: paper_malicious.BlindedResults) -> Outcome:
        """Step 12 and the verification."""
        return paper_malicious.party_open(self.engine, self.round, self.secrets, result)


class PaddedStage(Stage):
    """`padded`."""

    lay_out: Callable[[Round], SlotLayout] = staticmethod(padded.Layout.of)
    submit: Callable[[Round, PartySecrets, str, Sequence[Contribution]], PaddedCounts] = staticmethod(
        padded.party_submit
    )
    conclude: Callable[[Engine, Round, PartySecrets, RosterNotice, PaddedResult], Outcome] = staticmethod(
        padded.leader_open
    )

    def prepare(self, contributions: Contributions) -> None:
        """Step 1."""
        self.set_up(padding.parameter_sets(self.lay_out(self.round).primes))
        self.counts = [self.submit(self.round, self.secrets, party, own) for party, own in contributions.items()]
        self._pads: dict[tuple[str, ...], PadSums] = {}
        self._notice = RosterNotice(round=self.round.id, roster=self.round.parties)

    def uploads(self) -> list[Any]:
        """For each party its padded counts."""
        return [counts.values for counts in self.counts]

    def answer(self, aggregator_type: type[padded.Aggregator]) -> Message:
        """Steps 2 to 5."""
        aggregator = aggregator_type(self.engine, self.round, self.setup, self.rng)
        for counts in self.counts:
            aggregator.receive(counts)
        self._notice = as_received(aggregator.close(), AGGREGATOR)
        return aggregator.result(self._pads_for(self._notice))

    def _pads_for(self, notice: RosterNotice) -> PadSums:
        """Step 3; the leader answers a round once, so one answer serves every aggregator that tries."""
        if notice.roster not in self._pads:
            self._pads[notice.roster] = padded.leader_answer(
                self.engine, self.round, self.secrets, self.round.leader, notice, self.lay_out
            )
        return self._pads[notice.roster]

    def open(self, result: PaddedResult) -> Outcome:
        """Step 6."""
        return self.conclude(self.engine, self.round, self.secrets, self._notice, result)


class VerifiedStage(PaddedStage):
    """`padded-verified`."""

    lay_out = staticmethod(padded_verified.lay_out)
    submit = staticmethod(padded_verified.party_submit)
    conclude = staticmethod(padded_verified.leader_open)


STAGES: dict[str, type[Stage]] = {
    paper_semi_honest.NAME: SemiHonestStage,
    paper_malicious.NAME: MaliciousStage,
    padded.NAME: PaddedStage,
    padded_verified.NAME: VerifiedStage,
}
