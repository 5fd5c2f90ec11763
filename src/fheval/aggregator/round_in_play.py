"""One round among vaults, as the aggregator plays it: the protocol's own part, with signatures around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fheval import wire
from fheval.aggregator.owed import Owed, OwedFile
from fheval.consortium import Policy
from fheval.engines import Engine, Parameters
from fheval.errors import EngineError, RemoteProtocolError
from fheval.evaluation.finished import Finished
from fheval.party.context import RoundContext
from fheval.party.messages import (
    CHALLENGE_BYTES,
    REFUSAL,
    Bundles,
    Epoch,
    Hello,
    KeySetUp,
    Proof,
    Relay,
    SetUp,
    Submit,
    Tell,
    Void,
    request,
)
from fheval.party.rosters import too_close
from fheval.protocols import PROTOCOLS, Protocol
from fheval.protocols.base import Aggregator, Ask, Asked, RoundFailed, Stage
from fheval.protocols.round import Ending, PublicSetup, Round
from fheval.secrets import Randomness
from fheval.study import Study
from fheval.wire import Message

# What came back, by member; whoever is missing has dropped out.
Replies = Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One stage: what to send to whom.

    Where an answer is `needed`, everybody has spent a release and gets nothing for it without: it is worth a long wait.
    """

    stage: Stage
    round: str
    requests: Mapping[str, bytes] = field(repr=False)
    needed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochKeys:
    """What the aggregator keeps of a set-up; nothing in it opens anything. Later rounds may use it again.

    Of a committee `publics` and `boxes` have every member's, and `bundles` what all of them sealed for a party.
    """

    epoch: Epoch
    parties: tuple[str, ...]
    engine: str
    openers: tuple[str, ...]
    parameters: tuple[Parameters, ...] = field(repr=False)
    public: PublicSetup = field(repr=False)
    box: bytes = field(repr=False)
    bundles: Mapping[str, bytes] = field(repr=False)
    publics: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    boxes: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def box_of(self, party: str) -> bytes:
        """The FHE secret keys in the box that a party has the key to: the leader's or, of a committee, its own."""
        return self.boxes.get(party, self.box if party in self.openers else b"")

    def suit(self, protocol: Protocol, round_: Round) -> bool:
        """Whether a round can use these keys: its leader must have made them, and the same parties may open."""
        return (self.epoch.leader, self.parties, self.engine, self.openers, self.parameters) == (
            round_.leader,
            round_.parties,
            round_.engine,
            _openers(protocol, round_),
            tuple(protocol.parameter_sets(round_)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the aggregator was told of a round: the numbers that all of `by` have signed, or why there are none."""

    by: tuple[str, ...]
    numbers: Finished | None = None
    problem: str | None = None


def _openers(protocol: Protocol, round_: Round) -> tuple[str, ...]:
    return tuple(party for party in round_.parties if protocol.opens(round_, party))


def _agreed(tellers: Sequence[str], said: Mapping[str, Finished]) -> Told:
    silent = [name for name in tellers if name not in said]
    if silent or not said:
        return Told(by=tuple(said), problem=f"{', '.join(silent) or 'Nobody'} did not say what it came to.")
    first, *others = said.values()
    if not all(first.agrees_with(each) for each in others):
        found = ", ".join(f"{name}: {each.ending.value}" for name, each in said.items())
        return Told(by=tuple(said), problem=f"Those who opened it do not say the same ({found}).")
    if first.ending is not Ending.RELEASED:
        return Told(by=tuple(said), problem=f"There are no numbers: {first.ending.value}.")
    return Told(by=tuple(said), numbers=first)


Step = Generator[Exchange, Replies, Any]


class RoundInPlay:
    """One round, from the set-up of its keys to the last confirmation."""

    def __init__(
        self,
        study: Study,
        round_: Round,
        policy: Policy,
        engine: Engine,
        rng: Randomness,
        *,
        earlier: Collection[Collection[str]] = (),
        owed: OwedFile | None = None,
        opening: Callable[[tuple[str, ...]], None] = lambda _roster: None,
    ) -> None:
        self.study = study
        self.round = round_
        self.protocol = PROTOCOLS[study.protocol].of_round(round_)
        self.engine = engine
        self.rng = rng
        self.call = round_.call
        self.records = policy.roster(round_.parties)
        self.roster: tuple[str, ...] = ()
        self._proofs: dict[tuple[Stage, str], Proof] = {}
        self._complaints: dict[str, str] = {}
        self._answer = b""
        self._earlier = earlier
        self._silent: frozenset[str] = frozenset()
        self._asked: frozenset[str] = frozenset()
        self._owed = owed
        self._opening = opening
        # Where the keys are made in this very round; another epoch replaces it.
        self.context = RoundContext.of(round_, Epoch(id=round_.id, leader=round_.leader), self.records)

    def play(self, keys: EpochKeys | None) -> Step:
        """All stages; gives those who confirmed, and the keys."""
        if keys is None:
            keys = yield from self.set_up()
        self.context = RoundContext.of(self.round, keys.epoch, self.records)
        try:
            aggregator = self.protocol.aggregator(self.engine, self.round, keys.public, self.rng)
        except (EngineError, RemoteProtocolError) as error:
            raise self._leader_failed(str(error)) from error
        there = yield from self.find_members(aggregator)
        playing = aggregator.play()
        ask = next(playing)
        while True:
            exchange = self._exchange(ask, aggregator, keys, there)
            self._keep_before(exchange)
            replies = yield exchange
            self._silent = (self._silent | exchange.requests.keys()) - replies.keys()
            try:
                asked, ask = ask, playing.send(self._opened(ask.stage, replies))
                if asked.stage is Stage.SUBMIT:
                    self._require_apart(aggregator.roster, Stage.SUBMIT)
            except StopIteration as done:
                self._keep(self._outcome(exchange, done.value))
                return done.value, keys
            except RoundFailed as failed:
                told = [self._complaints[name] for name in sorted(failed.without) if name in self._complaints]
                if told and failed.stage is not Stage.SUBMIT:
                    raise RoundFailed(f"{failed} {' '.join(told)}", failed.stage, failed.without) from failed
                raise
            finally:
                self.roster = tuple(aggregator.roster)

    def _require_apart(self, roster: Sequence[str], stage: Stage) -> None:
        """Do not ask the leader for what it would refuse."""
        if any(too_close(roster, other, self.round.minimum_cohort) for other in self._earlier):
            missing = frozenset(self.round.parties).difference(roster)
            raise RoundFailed(
                f"without {', '.join(sorted(missing))} the roster would be too close to that of an earlier round.",
                stage,
                missing,
            )

    def set_up(self) -> Step:
        keepers = self.protocol.keepers(self.round)
        replies = yield self._requests(Stage.SETUP, dict.fromkeys(keepers, SetUp(call=self.call)))
        made = {keeper: self._made(keeper, replies) for keeper in keepers}
        alone = len(keepers) == 1
        leaders = made[self.round.leader]
        bundles = {
            party: wire.encode(Bundles(bundles=tuple(each.bundles[party] for each in made.values())))
            for party in self.round.parties
        }
        return EpochKeys(
            epoch=self.context.epoch,
            parties=self.round.parties,
            engine=self.round.engine,
            openers=_openers(self.protocol, self.round),
            parameters=tuple(self.protocol.parameter_sets(self.round)),
            public=leaders.public,
            box=bytes(leaders.box),
            bundles=leaders.bundles if alone else bundles,
            publics={} if alone else {keeper: wire.encode(each.public) for keeper, each in made.items()},
            boxes={} if alone else {keeper: bytes(each.box) for keeper, each in made.items()},
        )

    def _made(self, keeper: str, replies: Replies) -> KeySetUp:
        """What a keeper answered at `setup`."""
        try:
            made = wire.decode(
                bytes(self.context.open_reply(replies[keeper], keeper, Stage.SETUP).body), KeySetUp, sender=keeper
            )
        except KeyError:
            raise self._keeper_failed(keeper, "It did not answer at stage setup.") from None
        except RemoteProtocolError as error:
            raise self._keeper_failed(keeper, str(error)) from error
        if set(made.bundles) != set(self.round.parties):
            raise self._keeper_failed(keeper, "Its set-up leaves parties out.")
        return made

    def find_members(self, aggregator: Aggregator) -> Step:
        """Who is there, before anybody uploads and spends a release; too few, or without a keeper, end the round."""
        hello = Hello(challenge=self.rng.draw(CHALLENGE_BYTES.start))
        replies = yield self._requests(Stage.HELLO, dict.fromkeys(self.round.parties, hello))
        # A vault that refuses even this has no disk or memory to play with.
        there = [party for party in self.round.parties if replies.get(party, REFUSAL) != REFUSAL]
        missing = frozenset(self.round.parties).difference(there)
        lost = missing.intersection(self.protocol.keepers(self.round))
        if lost:
            names = " and ".join(sorted(lost))
            raise RoundFailed(
                f"the {self.protocol.keeper} {names} failed. It did not answer at stage hello.", Stage.SETUP, lost
            )
        if missing and (len(there) < self.round.minimum_cohort or aggregator.indispensable is Asked.EVERYONE):
            raise RoundFailed(f"no answer came from {', '.join(sorted(missing))}.", Stage.HELLO, missing)
        self._require_apart(there, Stage.HELLO)
        return frozenset(there)

    def _keep_before(self, exchange: Exchange) -> None:
        """Keep what members are owed if the aggregator ends in the middle of this exchange.

        Nobody uploads where that cannot be written; afterwards too much is spent to stop for want of room.
        """
        if exchange.stage is Stage.SUBMIT:
            self._keep(self._question_of_void(), on_disk=True)
        elif exchange.stage is self.protocol.steps[-1].stage:
            self._opening(self.roster)
            self._keep(self._outcome(exchange, ()))

    def _keep(self, owed: Owed, *, on_disk: bool = False) -> None:
        if self._owed is not None:
            self._owed.keep(owed, on_disk=on_disk)

    def _outcome(self, last: Exchange, confirmed: Collection[str]) -> Owed:
        """The outcome, for those who have not confirmed it."""
        requests = {name: body for name, body in last.requests.items() if name not in confirmed}
        return Owed(round=self.round.id, stage=last.stage, requests=requests, since=time.time())

    def _question_of_void(self) -> Owed:
        """For all who could open this round: to sign that they never will."""
        openers = self.protocol.openers(self.round)
        asked = self._requests(Stage.VOID, dict.fromkeys(openers, Void(call=self.call, epoch=self.context.epoch)))
        return Owed(
            round=self.round.id,
            stage=Stage.VOID,
            requests=dict(asked.requests),
            since=time.time(),
            openers=openers,
            uploaded=tuple(sorted(self._asked)),
            one_is_enough=self.protocol.one_voids,
        )

    def tell(self) -> Step:
        """After a round: what its leader and checkers say it came to; None where the aggregator is not to learn it.

        It is believed only if all of them have signed the same.
        """
        if self.study.learns == "members":
            return None
        tellers = [name for name in self.protocol.tellers(self.round) if name in self.roster]
        replies = yield self._requests(Stage.TELL, dict.fromkeys(tellers, Tell(round=self.round.id)))
        said: dict[str, Finished] = {}
        for name in tellers:
            try:
                body = self.context.open_reply(replies[name], name, Stage.TELL).body
                said[name] = wire.decode(bytes(body), Finished, sender=name)
            except (KeyError, RemoteProtocolError):
                continue
        return _agreed(tellers, said)

    def void(self) -> Step:
        """Have all who could open this round sign that they never will, and tell those who uploaded; whether it worked.

        Openers who were silent are not asked now: they are owed the question, and until then the round costs its
        releases. All who were asked to upload are told, since an upload may be lost on its way and yet be counted.
        """
        if not self._asked:
            return True
        owed = self._question_of_void()
        there = {name: body for name, body in owed.requests.items() if name not in self._silent}
        if there and (owed.one_is_enough or len(there) == len(owed.openers)):
            replies = yield Exchange(stage=Stage.VOID, round=self.round.id, requests=there)
            for name, reply in replies.items():
                owed.settle(name, reply)
        self._keep(owed)
        if owed.stage is Stage.VOID:
            return False
        told = yield Exchange(stage=owed.stage, round=self.round.id, requests=dict(owed.requests))
        for name, reply in told.items():
            owed.settle(name, reply)
        self._keep(owed)
        return True

    def _exchange(self, ask: Ask, aggregator: Aggregator, keys: EpochKeys, there: Collection[str]) -> Exchange:
        """What the protocol asks, in the words that vaults expect: with keys, proofs, and the answer for checkers."""
        if ask.stage in (Stage.OFFER, Stage.SUBMIT):
            if ask.stage is Stage.SUBMIT:
                self._asked = frozenset(there)
            return self._requests(
                ask.stage,
                {
                    party: Submit(
                        call=self.call,
                        epoch=keys.epoch,
                        bundle=keys.bundles[party],
                        box=keys.box_of(party),
                    )
                    for party in ask.bodies
                    if party in there
                },
            )
        if ask.stage is Stage.RESULT:
            (self._answer,) = set(ask.bodies.values())
        proofs = self._cited(ask.stage, aggregator)
        shown: dict[tuple[bytes, bool], Relay] = {}
        messages = {}
        for party, body in ask.bodies.items():
            checks = ask.stage is Stage.BROADCAST and party in self.round.checkers and party != self.round.leader
            if (body, checks) not in shown:
                answer = self._answer if checks else None
                publics = keys.publics if ask.stage is Stage.PADS else {}
                shown[body, checks] = Relay(
                    round=self.round.id, body=body, proofs=proofs, shown=answer, publics=dict(publics)
                )
            messages[party] = shown[body, checks]
        asked = self._requests(ask.stage, messages)
        # Who opens last is asked last, and is owed the outcome; whoever is asked before is needed for it.
        return replace(asked, needed=ask.stage.whole is not self.protocol.steps[-1].stage)

    def _cited(self, stage: Stage, aggregator: Aggregator) -> tuple[Proof, ...]:
        proofs: list[Proof] = []
        for cited in self.protocol.step(stage).cited:
            keepers = self.protocol.keepers(self.round)
            authors = aggregator.roster if cited is Stage.SUBMIT else keepers
            parts = cited.parts[: self.protocol.parts_of(self.round, cited)] if cited is not Stage.RESULT else (cited,)
            proofs += [self._proofs[part, party] for part in parts for party in authors]
        return tuple(proofs)

    def _opened(self, stage: Stage, replies: Replies) -> Iterator[tuple[str, bytes]]:
        """The replies that their members have signed for this stage, without the envelope."""
        for party in self.round.parties:
            if party not in replies:
                continue
            try:
                reply = self.context.open_reply(replies[party], party, stage)
            except RemoteProtocolError as error:
                self._complaints[party] = str(error)
                continue
            self._proofs[stage, party] = self.context.proof_of(reply)
            yield party, bytes(reply.body)

    def _leader_failed(self, why: str) -> RoundFailed:
        return self._keeper_failed(self.round.leader, why)

    def _keeper_failed(self, keeper: str, why: str) -> RoundFailed:
        return RoundFailed(f"the {self.protocol.keeper} {keeper} failed. {why}", Stage.SETUP, frozenset({keeper}))

    def _requests(self, stage: Stage, messages: Mapping[str, Message]) -> Exchange:
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
