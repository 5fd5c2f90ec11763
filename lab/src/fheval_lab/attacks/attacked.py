"""The honest side of a round, ready to be attacked: parties have uploaded, and any aggregator may now answer.

It is the player of all rounds, except that a member answers the same request with the same bytes, as a vault does: many
aggregators can answer the same uploads, so that a try of a strategy costs the aggregator's work only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fheval import wire
from fheval.errors import UndefinedMetric
from fheval.protocols.base import Aggregator, Seat, Stage
from fheval.protocols.play import Members
from fheval.protocols.round import PublicSetup, Verdict


class AttackedRound(Members):
    """The members of one round, who answer as many aggregators as try their luck."""

    _answers: dict[tuple[str, Stage, bytes], tuple[bytes, tuple[str, ...] | None]]

    def answer(self, party: str, stage: Stage, body: bytes) -> bytes:
        if not hasattr(self, "_answers"):
            self._answers = {}
        key = (party, stage, body)
        if key not in self._answers:
            self._answers[key] = super().answer(party, stage, body), self.rosters.get(party)
        data, roster = self._answers[key]
        if roster is not None:
            self.rosters[party] = roster
        self.said[party][stage] = data
        return data

    def seat(self, party: str) -> Seat:
        """As in a consortium: the members of a committee are shown what the others have signed."""
        seat = super().seat(party)
        if len(self.made) == 1:
            return seat
        signed = {
            (stage, name): self.protocol.digest(stage, data)
            for name, said in self.said.items()
            for stage, data in said.items()
        }
        return replace(seat, signed=signed)

    def uploads(self) -> list[Any]:
        kind = self.protocol.aggregator.upload
        sent = ((party, self.answer(party, Stage.SUBMIT, b"")) for party in self.round.parties)
        return [wire.decode(data, kind, sender=party) for party, data in sent]

    @property
    def public(self) -> PublicSetup:
        """The set-up as the aggregator reads it."""
        return wire.decode(self.setup, PublicSetup, sender=self.round.leader)

    def answer_of(self, kind: type[Aggregator]) -> bytes:
        """Let an aggregator of this type play until it has an answer."""
        playing = kind(self.engine, self.round, self.public, self.rng).play()
        ask = next(playing)
        while ask.stage is not self.protocol.opening:
            ask = playing.send(self.replies(ask))
        return next(iter(ask.bodies.values()))

    def answers_at(self, stage: Stage) -> list[bytes]:
        """What members have answered at a stage."""
        return [data for (_, asked, _), (data, _) in self._answers.items() if asked is stage]

    def open(self, answer: bytes) -> Verdict:
        """Open the answer as the parties do, or raise why they refuse it."""
        # Where the leader was told a roster, it gave pads for that one; elsewhere all parties uploaded.
        if self.protocol.opening is Stage.BROADCAST:
            return self._opened(self.protocol.answer(self.seat(self.round.leader), Stage.BROADCAST, answer).verdict)
        roster = self.rosters.get(self.round.leader, self.round.parties)
        return self.protocol.open(self.engine, self.round, self.secrets, roster, answer)

    @staticmethod
    def _opened(verdict: Verdict | None) -> Verdict:
        if verdict is None:
            raise UndefinedMetric
        if verdict.error is not None:
            raise verdict.error
        return verdict

    def outcome(self, kind: type[Aggregator]) -> Verdict:
        return self.open(self.answer_of(kind))
