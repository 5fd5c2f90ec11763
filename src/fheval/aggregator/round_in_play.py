"""One round among vaults, as the aggregator plays it: from the set-up of keys to the last confirmation."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fheval import wire
from fheval.consortium import Policy
from fheval.engines import Engine
from fheval.errors import EngineError, FhevalError, RemoteProtocolError
from fheval.party.context import RoundContext
from fheval.party.messages import (
    Broadcast,
    Claim,
    Epoch,
    KeySetUp,
    Pads,
    Receipt,
    Result,
    SetUp,
    Stage,
    Submission,
    Submit,
    request,
)
from fheval.party.roles import PaddedRoles, roles_of
from fheval.protocols.padded import PadSums
from fheval.protocols.round import PublicSetup, Round
from fheval.secrets import Randomness

Replies = Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One stage: what to send to whom."""

    stage: Stage
    round: str
    requests: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochKeys:
    """What the aggregator keeps of a set-up; nothing in it opens anything. Later rounds may use it again."""

    epoch: Epoch
    parties: tuple[str, ...]
    engine: str
    parameters: tuple[object, ...] = field(repr=False)
    public: PublicSetup = field(repr=False)
    box: bytes = field(repr=False)
    bundles: Mapping[str, bytes] = field(repr=False)

    def suit(self, round_: Round) -> bool:
        """Whether a round can run under these keys."""
        parameters = tuple(roles_of(round_).parameter_sets(round_))
        return (self.parties, self.engine, self.parameters) == (round_.parties, round_.engine, parameters)


Step = Generator[Exchange, Replies, Any]


class RoundFailed(Exception):  # noqa: N818 (it ends an attempt, not the evaluation)
    """The round cannot go on; `without` did not answer and is left out of the next attempt."""

    def __init__(self, why: str, without: frozenset[str] = frozenset()) -> None:
        super().__init__(why)
        self.without = without


class RoundInPlay:
    """One round, from the set-up of its keys to the last confirmation."""

    def __init__(self, round_: Round, policy: Policy, engine: Engine, rng: Randomness) -> None:
        self.round = round_
        self.roles = roles_of(round_)
        self.engine = engine
        self.rng = rng
        self.records = policy.roster(round_.parties)
        self.claims: list[Claim] = []
        self.want_answer: set[str] = set()
        # Where the keys are made in this very round; another epoch replaces it.
        self.context = RoundContext.of(round_, Epoch(id=round_.id, leader=round_.leader), self.records)

    def play(self, keys: EpochKeys | None) -> Step:
        """All stages; gives the roster, those who confirmed, and the keys."""
        reused = keys is not None
        if keys is None:
            keys = yield from self.set_up()
        self.context = RoundContext.of(self.round, keys.epoch, self.records)
        try:
            aggregator = self.roles.module.Aggregator(self.engine, self.round, keys.public, self.rng)
        except (EngineError, RemoteProtocolError) as error:
            raise self.leader_failed(str(error)) from error
        silent = yield from self.submit(aggregator, keys)
        self.require_enough(silent, reused)
        finish = self.finish_padded if isinstance(self.roles, PaddedRoles) else self.finish_paper
        confirmed = yield from finish(aggregator)
        return self.roster, confirmed, keys

    @property
    def roster(self) -> tuple[str, ...]:
        """Whose uploads were added, in the order of the round."""
        return tuple(claim.party for claim in self.claims)

    def set_up(self) -> Step:
        """Stage `setup`: the leader makes keys."""
        body = yield from self.ask_leader(Stage.SETUP, SetUp(round=self.round))
        try:
            made = wire.decode(body, KeySetUp, sender=self.round.leader)
        except RemoteProtocolError as error:
            raise self.leader_failed(str(error)) from error
        if set(made.bundles) != set(self.round.parties):
            raise self.leader_failed("Its set-up leaves parties out.")
        return EpochKeys(
            epoch=self.context.epoch,
            parties=self.round.parties,
            engine=self.round.engine,
            parameters=tuple(self.roles.parameter_sets(self.round)),
            public=made.public,
            box=bytes(made.box),
            bundles=made.bundles,
        )

    def submit(self, aggregator: Any, keys: EpochKeys) -> Step:
        """Stage `submit`: add every upload that is good; gives those who sent none."""
        replies = yield self.exchange(
            Stage.SUBMIT,
            {
                party: Submit(round=self.round, epoch=keys.epoch, bundle=keys.bundles[party], box=keys.box)
                for party in self.round.parties
            },
        )
        for party in self.round.parties:
            try:
                reply = self.context.open_reply(replies[party], party, Stage.SUBMIT)
                submission = wire.decode(reply.body, Submission, sender=party)
                aggregator.receive(wire.decode(submission.upload, self.roles.upload, sender=party))
            except (KeyError, RemoteProtocolError, EngineError):
                continue
            self.claims.append(self.context.claim(reply))
            if submission.wants_answer:
                self.want_answer.add(party)
        return frozenset(self.round.parties) - set(self.roster)

    def require_enough(self, silent: frozenset[str], reused: bool) -> None:
        """Give the round up where too few are left, where one dropout spoils it, or where the leader is gone."""
        enough = len(self.roster) >= self.round.minimum_cohort
        leads = isinstance(self.roles, PaddedRoles) and self.round.leader in silent
        if enough and not leads and not (silent and self.roles.all_or_none):
            return
        # Keys of an earlier round may have expired, which is nobody's fault.
        without = frozenset[str]() if reused else silent
        raise RoundFailed(f"no good upload came from {', '.join(sorted(silent))}.", without)

    def finish_padded(self, aggregator: Any) -> Step:
        """Stages `pads`, `result` and `broadcast`; gives those who confirmed."""
        leader, round_id = self.round.leader, self.round.id
        aggregator.close()
        body = yield from self.ask_leader(Stage.PADS, Pads(round=round_id, claims=tuple(self.claims)))
        try:
            answer = wire.encode(aggregator.result(wire.decode(body, PadSums, sender=leader)))
        except FhevalError as error:
            raise self.leader_failed(str(error)) from error
        asked = self.exchange(Stage.RESULT, {leader: Result(round=round_id, answer=answer)})
        replies = yield asked
        if leader not in replies:
            # The leader may have opened the answer: asking again costs less than one more release of the data.
            replies = yield asked
        self.good(replies, leader, Stage.RESULT)
        told = Broadcast(round=round_id, verdict=replies[leader])
        shown = Broadcast(round=round_id, verdict=replies[leader], answer=answer)
        replies = yield self.exchange(
            Stage.BROADCAST, {party: shown if party in self.want_answer else told for party in self.roster}
        )
        return self.confirmed(replies, Stage.BROADCAST)

    def finish_paper(self, aggregator: Any) -> Step:
        """Stage `result` to everyone; gives those who confirmed."""
        try:
            answer = wire.encode(aggregator.result())
        except FhevalError as error:
            raise RoundFailed(f"the uploads could not be evaluated. {error}") from error
        result = Result(round=self.round.id, answer=answer, claims=tuple(self.claims))
        replies = yield self.exchange(Stage.RESULT, dict.fromkeys(self.roster, result))
        return self.confirmed(replies, Stage.RESULT)

    def confirmed(self, replies: Replies, stage: Stage) -> tuple[str, ...]:
        """Those who sent a receipt."""
        names = []
        for party in self.roster:
            try:
                wire.decode(self.context.open_reply(replies[party], party, stage).body, Receipt, sender=party)
            except (KeyError, RemoteProtocolError):
                continue
            names.append(party)
        return tuple(names)

    def ask_leader(self, stage: Stage, message: wire.Message) -> Step:
        """One exchange with the leader; gives the content of its reply."""
        replies = yield self.exchange(stage, {self.round.leader: message})
        return self.good(replies, self.round.leader, stage)

    def good(self, replies: Replies, leader: str, stage: Stage) -> bytes:
        """The content of the leader's reply, or the end of this attempt."""
        try:
            return self.context.open_reply(replies[leader], leader, stage).body
        except KeyError:
            raise self.leader_failed(f"It did not answer at stage {stage.value}.") from None
        except RemoteProtocolError as error:
            raise self.leader_failed(str(error)) from error

    def leader_failed(self, why: str) -> RoundFailed:
        """The leader is replaced, and left out."""
        return RoundFailed(f"the leader {self.round.leader} failed. {why}", frozenset({self.round.leader}))

    def exchange(self, stage: Stage, messages: Mapping[str, wire.Message]) -> Exchange:
        """The requests of one stage; equal messages are encoded once."""
        encoded: dict[int, bytes] = {}
        for message in messages.values():
            if id(message) not in encoded:
                encoded[id(message)] = request(stage, message)
        return Exchange(
            stage=stage,
            round=self.round.id,
            requests={name: encoded[id(message)] for name, message in messages.items()},
        )
