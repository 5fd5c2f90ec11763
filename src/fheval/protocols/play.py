"""One player for every protocol: all roles of a round in one process, with the messages that vaults send.

`evaluate`, the attacks, the bench and the tests play rounds with this. What a consortium adds is around the messages
and not in them: signatures, and the seal under which the leader's keys travel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter

from fheval import wire
from fheval.engines import Engine
from fheval.errors import RemoteProtocolError
from fheval.protocols.base import Aggregator, Ask, Asked, Protocol, Seat, Stage, Step
from fheval.protocols.round import (
    AGGREGATOR,
    Contribution,
    Ending,
    PartySecrets,
    PublicSetup,
    Round,
    Verdict,
    leader_set_up,
)
from fheval.secrets import Randomness

Contributions = Mapping[str, Contribution]


class Watch:
    """Notes how long each role worked and how large each message was.

    `on_work` is called each time a role has finished a piece of work, for progress bars; `clock` gives seconds.
    """

    def __init__(self, on_work: Callable[[str], None] | None = None, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or perf_counter
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.sizes: defaultdict[str, list[int]] = defaultdict(list)
        self._before_last_upload = 0.0
        self._on_work = on_work
        self._role = ""
        self._since = self._clock()

    @contextmanager
    def working(self, role: str) -> Iterator[None]:
        """Everything inside is the work of `role`, and not of the role around it."""
        outer = self._turn_to(role)
        try:
            yield
        finally:
            self._turn_to(outer)
            if self._on_work:
                self._on_work(role)

    def uploaded(self) -> None:
        """Note that the aggregator is about to get an upload."""
        self._before_last_upload = self.seconds["aggregator"]

    @property
    def online(self) -> float:
        """What of the aggregator's work came after it got the last upload."""
        return self.seconds["aggregator"] - self._before_last_upload

    def _turn_to(self, role: str) -> str:
        now = self._clock()
        self.seconds[self._role] += now - self._since
        self._since = now
        before, self._role = self._role, role
        return before


class Members:
    """The members of a round, in this process: each has its own secrets, and answers what an aggregator asks.

    `secrets` are the leader's. `keys` are those of an earlier round; without them the leader makes new ones. All
    parties submit, but of those who would open or be told the same result only one does.
    """

    def __init__(
        self,
        protocol: Protocol,
        engine: Engine,
        round_: Round,
        contributions: Contributions,
        rng: Randomness,
        watch: Watch | None = None,
        keys: tuple[PartySecrets, PublicSetup] | None = None,
    ) -> None:
        self.protocol = protocol.of_round(round_)
        self.engine = engine
        self.round = round_
        self.contributions = contributions
        self.rng = rng
        self.watch = watch or Watch()
        self.verdicts: dict[str, Verdict] = {}
        self.rosters: dict[str, tuple[str, ...]] = {}
        self.said: dict[str, dict[Stage, bytes]] = defaultdict(dict)
        with self.watch.working(self.protocol.keeper):
            sets = self.protocol.parameter_sets(round_)
            self.made: dict[str, PartySecrets] = {}
            self.publics: dict[str, bytes] = {}
            for keeper in self.protocol.keepers(round_):
                self.made[keeper], setup = keys or leader_set_up(
                    engine, round_, sets, rng, keeper, hashed=self.protocol.hashed_keys
                )
                self.publics[keeper] = self._carried("keys", wire.encode(setup))
        self.setup = self.publics[round_.leader]

    def play(self, aggregator_type: type[Aggregator] | None = None) -> Verdict:
        """The whole round; gives what a party ends up with, or raises why there is nothing."""
        chosen = aggregator_type or self.protocol.aggregator
        self.verdicts.clear()
        with self.watch.working("aggregator"):
            setup = wire.decode(self.setup, PublicSetup, sender=self.round.leader)
            playing = chosen(self.engine, self.round, setup, self.rng).play()
            ask = next(playing)
            try:
                while True:
                    ask = playing.send(self.replies(ask))
            except StopIteration:
                pass
        if not self.verdicts:
            raise RemoteProtocolError(
                "The aggregator ended the round without an answer. Start a new round.",
                step="result",
                culprit=AGGREGATOR,
            )
        *_, verdict = self.verdicts.values()
        if verdict.ending is not Ending.RELEASED:
            raise next(each.error for each in self.verdicts.values() if each.error is not None)
        return verdict

    def replies(self, ask: Ask) -> Iterator[tuple[str, bytes]]:
        """The answers to one stage, each made when it is asked for."""
        step = self.protocol.step(ask.stage)
        for party in self._heard(ask, step):
            body = ask.bodies[party]
            with self.watch.working(step.role):
                answer = self.answer(party, ask.stage, body)
            if ask.stage in (Stage.RESULT, Stage.BROADCAST):
                self._carried(ask.stage.value, body)
            else:
                self._carried(f"{step.role}_upload", answer)
            if ask.stage is Stage.SUBMIT:
                self.watch.uploaded()
            yield party, answer

    def answer(self, party: str, stage: Stage, body: bytes) -> bytes:
        answered = self.protocol.answer(self.seat(party), stage, body)
        if answered.roster is not None:
            self.rosters[party] = answered.roster
        if answered.verdict is not None:
            self.verdicts[party] = answered.verdict
        self.said[party][stage] = wire.encode(answered.body)
        return self.said[party][stage]

    def seat(self, party: str) -> Seat:
        """A member's place in the round, as it is now."""
        return Seat(
            engine=self.engine,
            round=self.round,
            me=party,
            secrets=self.secrets_of(party),
            rng=self.rng,
            contribution=self.contributions.get(party),
            roster=self.rosters.get(party),
            said=self.said[party],
            publics=self.publics,
        )

    def secrets_of(self, party: str) -> PartySecrets:
        """What a party holds, from all who made keys."""
        given = [self.protocol.given(self.round, keeper, own, party) for keeper, own in self.made.items()]
        return self.protocol.joined(self.round, given)

    @property
    def secrets(self) -> PartySecrets:
        """What the leader made."""
        return self.made[self.round.leader]

    @secrets.setter
    def secrets(self, made: PartySecrets) -> None:
        self.made[self.round.leader] = made

    def _heard(self, ask: Ask, step: Step) -> Sequence[str]:
        asked = [party for party in ask.bodies if party in self.contributions]
        if step.asked is not Asked.ROSTER:
            return asked
        return [party for party in asked if party != self.round.leader][:1] or asked[:1]

    def _carried(self, kind: str, data: bytes) -> bytes:
        self.watch.sizes[kind].append(len(data))
        return data


def play(
    protocol: Protocol,
    engine: Engine,
    round_: Round,
    contributions: Contributions,
    rng: Randomness,
    watch: Watch | None = None,
) -> Verdict:
    """Play all roles of a round, from the set-up of keys to what a party learns; only bytes pass between them."""
    return Members(protocol, engine, round_, contributions, rng, watch).play()
