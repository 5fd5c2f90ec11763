"""What a protocol consists of. Each is one object in one file; `fheval.protocols.PROTOCOLS` lists them.

A round is a series of stages. At each, the aggregator asks some of the members and goes on with what they answer:

    protocol.aggregator(…).play()      yields an `Ask` for each stage and is sent the `Replies`
    protocol.answer(seat, stage, body) is what a member answers

Nothing here opens a file, reads a clock, logs or waits. `fheval.protocols.play` plays all roles in one process; vaults
(`fheval.party`) and the conductor (`fheval.aggregator`) play the same functions and put signatures around them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from hashlib import sha256
from hmac import compare_digest
from typing import Any, ClassVar

from fheval.engines import Engine, Parameters
from fheval.errors import (
    ConfigError,
    EngineError,
    FhevalError,
    LocalProtocolError,
    RemoteProtocolError,
    UndefinedMetric,
)
from fheval.protocols.round import (
    AGGREGATOR,
    NONCE_BYTES,
    Contribution,
    Ending,
    OptionValue,
    PartySecrets,
    PublicSetup,
    Round,
    SealedVerdict,
    Verdict,
    from_a_party,
    from_this_round,
    leader_seal,
    party_unseal,
)
from fheval.secrets import Randomness
from fheval.wire import Message, decode, encode

# Whatever goes wrong while an answer is opened may depend on what was decrypted, and must look like success outside.
_FAILURES = (FhevalError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


class Stage(str, Enum):
    """What a member can be asked: `hello` at any time, `setup` for a new set of keys, the others once in a round.

    `tell` comes after a round, where the aggregator is to learn the result. `void` and `voided` end a round that has
    failed: nobody will open it, so that it has cost nobody a release.
    """

    HELLO = "hello"
    SETUP = "setup"
    OFFER = "offer"
    SUBMIT = "submit"
    PADS = "pads"
    MIX = "mix"
    OPEN = "open"
    RESULT = "result"
    BROADCAST = "broadcast"
    TELL = "tell"
    VOID = "void"
    VOIDED = "voided"
    # Further messages of one stage.
    PADS_2 = "pads-2"
    PADS_3 = "pads-3"
    PADS_4 = "pads-4"
    PADS_5 = "pads-5"
    PADS_6 = "pads-6"
    PADS_7 = "pads-7"
    PADS_8 = "pads-8"
    MIX_2 = "mix-2"
    MIX_3 = "mix-3"
    MIX_4 = "mix-4"
    MIX_5 = "mix-5"
    MIX_6 = "mix-6"
    MIX_7 = "mix-7"
    MIX_8 = "mix-8"

    @property
    def whole(self) -> Stage:
        """What a stage is a part of: an answer that is too long for one message is given in several stages."""
        return Stage(self.value.partition("-")[0])

    @property
    def part(self) -> int:
        """Which part it is, from 0."""
        return int(self.value.partition("-")[2] or 1) - 1

    @property
    def parts(self) -> tuple[Stage, ...]:
        """All stages that it can be asked in."""
        return _parts(self.whole)


@cache
def _parts(whole: Stage) -> tuple[Stage, ...]:
    return tuple(each for each in Stage if each.whole is whole)


class Asked(Enum):
    """Who is asked at a stage; those who uploaded are the roster."""

    EVERYONE = "everyone"
    ROSTER = "roster"
    LEADER = "leader"
    COMMITTEE = "members"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One stage of a protocol: who is asked, and under which role its time and bytes are shown.

    A message may speak of what members answered at an earlier stage, which it `cites`: `submit` where it names the
    parties whose uploads arrived, `result` where it is the leader's own answer, a committee's stages where it shows
    what its members answered there. Vaults demand their signatures.
    """

    stage: Stage
    asked: Asked
    role: str
    cites: Stage | None = None
    also_cites: Stage | None = None

    @property
    def cited(self) -> tuple[Stage, ...]:
        """The stages whose answers a message speaks of."""
        return tuple(stage for stage in (self.cites, self.also_cites) if stage is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A number or a choice of the protocol that a study may set; command line, TOML and Python offer it by its name."""

    name: str
    help: str
    default: OptionValue
    choices: tuple[str, ...] = ()
    least: int = 1
    most: int = 1 << 16

    def check(self, value: object) -> None:
        if self.choices:
            if value not in self.choices:
                raise ConfigError(f"There is no {self.name} {value!r}. Choose one of: {', '.join(self.choices)}.")
        elif not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise ConfigError(f"{self.name} is {value!r}. Use a number from {self.least} to {self.most}.")

    def of(self, round_: Round) -> Any:
        return dict(round_.options).get(self.name, self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What `who` sees in a round, for people; its time and bytes are kept under `role`."""

    role: str
    who: str
    sees: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A protocol for people who will read no formula.

    `aggregator` completes "an aggregator that …", `upload` and `leader_upload` say what it gets, `views` what the other
    roles see, `together` who learns more by working together. `steps` tell how a round goes once the parties have
    counted. An exact release is `exact` so, to so many decimals. Where nothing is verified, `unverified` says what a
    result rests on instead. A release of counts has other words where parties add noise, `under_noise`.
    """

    summary: str
    aggregator: str
    upload: str
    leader_upload: str
    views: tuple[View, ...]
    together: str
    steps: tuple[str, ...]
    exact: str = "exact"
    exact_decimals: int = 6
    unverified: str = "no: this protocol relies on an aggregator that follows it"
    under_noise: Words | None = None


class Telling:
    """How a verdict is put for those who have not opened the answer: as it is, where nobody knows the study."""

    def finished(self, verdict: Verdict) -> Verdict:
        return verdict

    def same(self, one: Verdict, other: Verdict) -> bool:
        """Whether two who opened the same answer have found the same."""
        return one == other


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A member's place in a round: what its steps may use.

    `contribution` is there when it submits. `roster` is what a leader gave pads for. `uploaded` names those who have
    proven to have uploaded, with their nonces; None where nobody proves anything, in trials. A checker opens the answer
    that it is `shown`. It is asked for one `part` of an answer. A leader knows which groups of the same data were
    `published_before`. What it finds it tells in the words of `telling`. `said` has what this member answered earlier
    in the round, `signed` the digests of what others have signed, None in trials, and `publics` the committee's public
    keys.
    """

    engine: Engine
    round: Round
    me: str
    secrets: PartySecrets
    rng: Randomness = field(repr=False)
    contribution: Contribution | None = field(default=None, repr=False)
    roster: tuple[str, ...] | None = None
    uploaded: Mapping[str, bytes] | None = None
    shown: bytes | None = field(default=None, repr=False)
    part: int = 0
    published_before: frozenset[str] = frozenset()
    telling: Telling = field(default_factory=Telling)
    said: Mapping[Stage, bytes] = field(default_factory=dict, repr=False)
    signed: Mapping[tuple[Stage, str], bytes] | None = field(default=None, repr=False)
    publics: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def own(self) -> Contribution:
        """What this member brings to the round."""
        if self.contribution is None:
            raise LocalProtocolError("A party submits and has counted nothing. Count first.")
        return self.contribution

    def require_uploads(self, roster: tuple[str, ...], nonces: bytes) -> None:
        """Refuse a roster other than of those who have proven to have uploaded, or other nonces than they signed."""
        if self.uploaded is not None and (roster, nonces) != (
            tuple(self.uploaded),
            b"".join(self.uploaded.values()),
        ):
            raise RemoteProtocolError(
                "The roster is not that of the uploads that were shown. The round was aborted.",
                step="roster",
                culprit=AGGREGATOR,
            )

    def require_signed(self, stage: Stage, party: str, digest: bytes) -> None:
        """Refuse what is said to be another member's answer and is not what that member has signed."""
        if self.signed is not None and not compare_digest(self.signed.get((stage, party), b""), digest):
            raise RemoteProtocolError(
                f"What {party} is said to have answered at stage {stage.value} is not what it signed. "
                "The round was aborted.",
                step=stage.value,
                culprit=AGGREGATOR,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a member answers, and what it notes for itself: a roster, a verdict, why it does not accept a result.

    An upload's `nonce` is signed so that it can be shown to the leader without the upload. `published` are the groups
    that a member of a committee has helped to open.
    """

    body: Message
    nonce: bytes = b""
    roster: tuple[str, ...] | None = None
    published: tuple[str, ...] | None = None
    verdict: Verdict | None = None
    complaint: str | None = None


class Receipt(Message, frozen=True, kw_only=True):
    """The last answer of a member: seen. It does not say whether the result was accepted."""

    round: str


@dataclass(frozen=True, slots=True)
class Ask:
    """One stage, as the aggregator asks: what goes to whom."""

    stage: Stage
    bodies: Mapping[str, bytes] = field(repr=False)


# Who answered what. Whoever is missing did not answer, or nothing that it had signed.
Replies = Iterable[tuple[str, bytes]]
# Gives those who confirmed the result at the end.
Playing = Generator[Ask, Replies, tuple[str, ...]]


class RoundFailed(FhevalError):  # noqa: N818 (a round, not this program, has failed)
    """The round cannot go on; those in `without` are to be left out of the next attempt."""

    def __init__(self, why: str, stage: Stage, without: frozenset[str] = frozenset()) -> None:
        super().__init__(why)
        self.stage = stage
        self.without = without


class Aggregator(ABC):
    """The aggregator of one protocol. It answers a round once: a second answer, blinded anew, would tell more.

    A party that drops out is left out, unless it is `indispensable`: the leader, the committee, or everyone. Then the
    round is over.
    """

    upload: ClassVar[type[Message]]
    indispensable: ClassVar[Asked | None] = None
    round: Round
    roster: list[str]
    _answered = False

    @abstractmethod
    def __init__(self, engine: Engine, round_: Round, setup: PublicSetup, rng: Randomness) -> None: ...

    @abstractmethod
    def receive(self, upload: Any) -> None:
        """Take one party's upload, or refuse it by an error."""

    @abstractmethod
    def play(self) -> Playing:
        """The whole round, from the first request to the last confirmation."""

    @property
    def keepers(self) -> tuple[str, ...]:
        """Who made the keys of the round."""
        return (self.round.leader,)

    def check_sender(self, upload: Any) -> None:
        """Refuse an upload of another round, of a stranger, and a party's second one."""
        step = type(upload).__name__
        from_this_round(self.round, upload.round, upload.sender, step)
        from_a_party(self.round.parties, upload.sender, self.roster, step)

    def answer_now(self) -> None:
        if self._answered:
            raise LocalProtocolError("This round has been answered already. Start a new round.")
        self._answered = True

    def gather(self) -> Generator[Ask, Replies, None]:
        """Ask everyone for an upload and take what is good; give up where too few come, or an indispensable one not."""
        round_ = self.round
        replies = yield Ask(Stage.SUBMIT, dict.fromkeys(round_.parties, b""))
        self.take(replies)
        # Each is on the roster once.
        all_came = len(self.roster) == len(round_.parties)
        silent = frozenset() if all_came else frozenset(round_.parties).difference(self.roster)
        missed = silent if self.indispensable is Asked.EVERYONE else silent.intersection(self.keepers)
        if len(self.roster) < round_.minimum_cohort or (self.indispensable and missed):
            raise RoundFailed(f"no good upload came from {', '.join(sorted(silent))}.", Stage.SUBMIT, silent)

    def take(self, replies: Replies) -> None:
        """Receive the uploads that are good, and leave out the others."""
        expected: Any = self.upload
        for party, data in replies:
            try:
                upload = decode(data, expected, sender=party)
                if upload.sender == party:
                    self.receive(upload)
            except (RemoteProtocolError, EngineError):
                continue

    def ask_leader(self, stage: Stage, message: Message, *, tries: int = 1) -> Generator[Ask, Replies, bytes]:
        """What the leader answers; without an answer the round is over."""
        leader = self.round.leader
        for _ in range(tries):
            for party, data in (yield Ask(stage, {leader: encode(message)})):
                if party == leader:
                    return data
        raise self.leader_failed(stage, f"It gave no good answer at stage {stage.value}.")

    def leader_failed(self, stage: Stage, why: str) -> RoundFailed:
        return RoundFailed(f"the leader {self.round.leader} failed. {why}", stage, frozenset({self.round.leader}))

    def ask_committee(
        self, stage: Stage, bodies: Mapping[str, bytes], *, tries: int = 2
    ) -> Generator[Ask, Replies, dict[str, bytes]]:
        """What every member of the committee answers; without one of them the round is over."""
        answers: dict[str, bytes] = {}
        for _ in range(tries):
            missing = {party: body for party, body in bodies.items() if party not in answers}
            if missing:
                answers.update((yield Ask(stage, missing)))
        lost = frozenset(bodies).difference(answers)
        if lost:
            raise self.members_failed(stage, lost, f"No good answer came at stage {stage.value}.")
        return {party: answers[party] for party in bodies}

    def members_failed(self, stage: Stage, lost: frozenset[str], why: str) -> RoundFailed:
        return RoundFailed(f"of the committee, {', '.join(sorted(lost))} failed. {why}", stage, lost)

    def tell_all(self, body: bytes) -> Playing:
        """Pass on to all parties what there is to open, and take their receipts."""
        replies = yield Ask(Stage.BROADCAST, dict.fromkeys(self.roster, body))
        return tuple(_confirmed(replies))

    def let_leader_open(self, result: Message) -> Playing:
        """Have the leader open the answer, and pass on to all parties what it says."""
        # The leader may have opened the answer: asking again costs less than one more release of the data.
        return (yield from self.tell_all((yield from self.ask_leader(Stage.RESULT, result, tries=2))))

    def let_all_open(self, evaluate: Callable[[], Message]) -> Playing:
        """Have every party open the answer; where it cannot be computed, the round is over."""
        try:
            result = evaluate()
        except FhevalError as error:
            raise RoundFailed(f"the uploads could not be evaluated. {error}", Stage.SUBMIT) from error
        replies = yield Ask(Stage.RESULT, dict.fromkeys(self.roster, encode(result)))
        return tuple(_confirmed(replies))


def _confirmed(replies: Replies) -> Iterable[str]:
    for party, data in replies:
        try:
            decode(data, Receipt, sender=party)
        except RemoteProtocolError:
            continue
        yield party


class Protocol(ABC):
    """A protocol: what it is called and promises, what it can be asked, and what each role does.

    `batch` protocols answer any number of ratio forms in one round, the others the paper's one. One with `groups` opens
    none that is small. One that `resists`
    claims to catch an aggregator that moves a ratio, by more than about `tolerance`. `default_precision` None is exact.
    `counts` is how the protocol lets the parties learn global counts themselves, where it can. One that `opens_exactly`
    shows exact fractions to who opens the answer, whatever the precision in which others are told. Who makes keys is
    called a `keeper` here: "leader", or "member" of a committee; with `hashed_keys`, others encrypt under its keys what
    it must not read, and nobody chooses their uniform part. The message of the stage `opening` has the answer. Before a
    keeper has answered any but the stages of
    `unopened`, nothing of the round is open, and it can be made void: by all who could open it or, with `one_voids`, by
    any one of them.
    """

    name: str
    words: Words
    batch: bool
    groups: bool = False
    resists: bool
    tolerance: float = 0.0
    default_precision: float | None
    opens_exactly: bool = False
    options: tuple[Option, ...] = ()
    steps: tuple[Step, ...]
    aggregator: type[Aggregator]
    counts: Protocol | None = None
    keeper: str = "leader"
    hashed_keys: bool = False
    one_voids: bool = False
    opening: Stage = Stage.RESULT
    unopened: frozenset[Stage] = frozenset({Stage.SETUP, Stage.OFFER, Stage.SUBMIT, Stage.VOID})

    @abstractmethod
    def parameter_sets(self, round_: Round) -> list[Parameters]:
        """The parameter sets that keys are made for; refuses, before anyone sends anything, what would not fit."""

    @abstractmethod
    def submit(self, seat: Seat, nonce: bytes) -> Message:
        """A party's upload. What hides it must depend on the nonce, which is never drawn twice."""

    @abstractmethod
    def open(
        self, engine: Engine, round_: Round, secrets: PartySecrets, roster: tuple[str, ...], answer: bytes
    ) -> Verdict:
        """Decrypt and, where the protocol does, verify the aggregator's answer for this roster; raises if it cannot."""

    @abstractmethod
    def opens(self, round_: Round, party: str) -> bool:
        """Whether a party opens answers, and so must hold the leader's FHE secret keys."""

    def keepers(self, round_: Round) -> tuple[str, ...]:
        """Who makes keys, and is asked what only they can answer: the leader, or the members of the committee."""
        return (round_.leader,)

    def keepers_wanted(self, options: Sequence[tuple[str, OptionValue]]) -> int:  # noqa: ARG002
        """How many keepers a round has, under these options of the study."""
        return 1

    def keepers_in_words(self, named: str, count: int, options: Sequence[tuple[str, OptionValue]]) -> str:  # noqa: ARG002
        """For people: who makes keys, of `count` whom a study names, and whom they must not work together with."""
        return f"Rounds are led by {named}, who makes the keys and must not work together with the aggregator."

    def require_named(self, named: Sequence[str], options: Sequence[tuple[str, OptionValue]]) -> None:
        """Refuse a study that leaves it to the aggregator who the members of a committee are."""
        wanted = self.keepers_wanted(options)
        if wanted > 1 and len(named) < wanted:
            raise ConfigError(
                f"The committee has {wanted} members, and the study names {len(named)}. Name them, and behind them "
                "those who may stand in, as its leaders."
            )

    def holds_keys(self, round_: Round, keeper: str, party: str) -> bool:  # noqa: ARG002 (one keeper's, or its own)
        """Whether a party gets the FHE secret keys that a keeper made."""
        return self.opens(round_, party)

    def given(self, round_: Round, keeper: str, own: PartySecrets, party: str) -> PartySecrets:  # noqa: ARG002
        """Keeper: what a party gets of its secrets."""
        return self.secrets_of(round_, own, party)

    def joined(self, round_: Round, parts: Sequence[PartySecrets]) -> PartySecrets:  # noqa: ARG002
        """Party: what it holds in all, from what every keeper gave it."""
        (alone,) = parts
        return alone

    def digest(self, stage: Stage, body: bytes) -> bytes:  # noqa: ARG002 (most answers are shown whole, or not at all)
        """What a member signs of its answer."""
        return sha256(body).digest()

    def secrets_of(self, round_: Round, leaders: PartySecrets, party: str) -> PartySecrets:
        """Leader: what a party gets of the epoch's secrets; nobody else gets the master."""
        return PartySecrets(
            seed=leaders.seed,
            pad_seed=leaders.pad_seed_of(party),
            keys=leaders.keys if self.opens(round_, party) else (),
            master=leaders.master if party == round_.leader else None,
        )

    def soundness_bits(self, round_: Round) -> float | None:  # noqa: ARG002 (a protocol that verifies overrides it)
        """A wrong answer passes the verification with this power of one half; None where nothing is verified."""
        return None

    def of_round(self, round_: Round) -> Protocol:
        """The protocol that plays a round: this one, or its way to release counts."""
        if not round_.sums:
            return self
        if self.counts is None:
            raise ConfigError(f"{self.name} has no release of counts. Ask for metrics, or choose another protocol.")
        return self.counts

    def step(self, stage: Stage) -> Step:
        for step in self.steps:
            if step.stage is stage.whole:
                return step
        raise RemoteProtocolError(
            f"{self.name} has no stage {stage.value!r}. The round was aborted.", step=stage.value, culprit=AGGREGATOR
        )

    def stages_of(self, round_: Round, me: str) -> tuple[Stage, ...]:
        """What a member is asked in a round, in this order."""
        kept = me in self.keepers(round_)
        mine = [step.stage for step in self.steps if kept or step.asked in (Asked.EVERYONE, Asked.ROSTER)]
        return tuple(part for stage in mine for part in stage.parts[: self.parts_of(round_, stage)])

    def parts_of(self, round_: Round, stage: Stage) -> int:  # noqa: ARG002 (most answers fit one message)
        """In how many messages a stage is answered."""
        return 1

    def may_void(self, round_: Round, answered: Iterable[Stage]) -> bool:  # noqa: ARG002 (the same for most rounds)
        """Whether a member that has answered these stages has not helped to open anything of the round."""
        return self.unopened.issuperset(answered)

    def openers(self, round_: Round) -> tuple[str, ...]:
        """The members without whom nobody can open the round: it is void once all of them refuse for good."""
        return round_.parties

    def tellers(self, round_: Round) -> tuple[str, ...]:
        """Who must all say the same before the aggregator believes it, where it is to learn the result."""
        tellers = {*self.keepers(round_), *round_.checkers}
        return tuple(party for party in round_.parties if party in tellers)

    @property
    def right_or_nothing(self) -> bool:
        """Whether numbers are right or refused, whatever the aggregator does, and nobody's rows decide which.

        Only then may it be told them: otherwise it would choose what is computed, or learn from a refusal.
        """
        return self.resists and not self.tolerance

    def told(self, round_: Round, verdict: Verdict) -> Verdict:  # noqa: ARG002 (what more an opener sees is up to it)
        """What those who do not open the answer are told of a verdict."""
        return verdict

    def answer(self, seat: Seat, stage: Stage, body: bytes) -> Answer:
        """A member's answer at a stage: `answer_submit`, and so on."""
        found: Answer = getattr(self, f"answer_{stage.whole.value}")(replace(seat, part=stage.part), body)
        return found

    def answer_submit(self, seat: Seat, _body: bytes) -> Answer:
        nonce = seat.rng.draw(NONCE_BYTES)
        return Answer(body=self.submit(seat, nonce), nonce=nonce)

    def opened(self, seat: Seat, roster: tuple[str, ...], answer: bytes) -> Verdict:
        """What is in the aggregator's answer, or that it was refused; nothing about it is raised."""
        try:
            verdict = self.open(seat.engine, seat.round, seat.secrets, roster, answer)
        except UndefinedMetric as error:
            verdict = Verdict(ending=Ending.UNDEFINED, roster=roster, error=error)
        except _FAILURES as error:
            verdict = Verdict(ending=Ending.REFUSED, roster=roster, error=error)
        return replace(verdict, answer=sha256(answer).digest(), checked=True)


class OpenedByAll(Protocol):
    """Every party opens the aggregator's answer, and holds the keys for it."""

    steps = (
        Step(stage=Stage.SUBMIT, asked=Asked.EVERYONE, role="party"),
        Step(stage=Stage.RESULT, asked=Asked.ROSTER, role="decrypt", cites=Stage.SUBMIT),
    )

    def opens(self, round_: Round, party: str) -> bool:  # noqa: ARG002
        return True

    def answer_result(self, seat: Seat, body: bytes) -> Answer:
        """Party: open the answer for those who have proven to have uploaded."""
        roster = seat.round.parties if seat.uploaded is None else tuple(seat.uploaded)
        return Answer(body=Receipt(round=seat.round.id), roster=roster, verdict=self.opened(seat, roster, body))


class OpenedByLeader(Protocol):
    """The leader opens the aggregator's answer, and tells the others through an aggregator that must not learn it."""

    steps: tuple[Step, ...] = (
        Step(stage=Stage.SUBMIT, asked=Asked.EVERYONE, role="party"),
        Step(stage=Stage.RESULT, asked=Asked.LEADER, role="decrypt", cites=Stage.SUBMIT),
        Step(stage=Stage.BROADCAST, asked=Asked.ROSTER, role="party", cites=Stage.RESULT),
    )

    def opens(self, round_: Round, party: str) -> bool:
        return party == round_.leader or party in round_.checkers

    def openers(self, round_: Round) -> tuple[str, ...]:
        """The leader: it alone speaks for the pads, and whoever checks opens only what the leader has opened."""
        return (round_.leader,)

    def answer_result(self, seat: Seat, body: bytes) -> Answer:
        """Leader: open the answer for those whose pads it gave, and seal what it found."""
        if seat.roster is None:
            raise RemoteProtocolError(
                "The answer came before the roster. The round was aborted.", step="result", culprit=AGGREGATOR
            )
        return self.sealed_answer(seat, seat.roster, body)

    def sealed_answer(self, seat: Seat, roster: tuple[str, ...], body: bytes) -> Answer:
        verdict = self.opened(seat, roster, body)
        told = seat.telling.finished(self.told(seat.round, verdict))
        sealed = leader_seal(seat.round, seat.secrets, told, seat.rng)
        return Answer(body=sealed, roster=None if seat.roster else roster, verdict=verdict)

    def answer_broadcast(self, seat: Seat, body: bytes) -> Answer:
        """Party: read what the leader found, and check it where the study names this member a checker."""
        round_ = seat.round
        told = party_unseal(round_, seat.secrets, decode(body, SealedVerdict, sender=round_.leader))
        round_.require_cohort(told.roster)
        if seat.me not in told.roster:
            raise RemoteProtocolError(
                "The leader's verdict does not cover this party. It was not recorded.",
                step=Stage.BROADCAST.value,
                culprit=round_.leader,
            )
        receipt = Receipt(round=round_.id)
        if seat.me == round_.leader:
            # It noted its verdict when it opened the answer.
            return Answer(body=receipt)
        return self._checked(seat, told, receipt) if seat.me in round_.checkers else Answer(body=receipt, verdict=told)

    def _checked(self, seat: Seat, told: Verdict, receipt: Receipt) -> Answer:
        """Party: accept the leader's verdict if the ciphertexts say the same.

        The leader names what it opened by a digest, where the aggregator can neither read nor write it. A party opens
        those very bytes or none: whoever holds the key and saw two blindings of one round would learn more than one
        release. The answer to the aggregator does not depend on what is found.
        """
        if seat.shown is None:
            complaint = "The aggregator left out the ciphertexts, which a checker must get."
        elif not compare_digest(sha256(seat.shown).digest(), told.answer):
            complaint = "The ciphertexts are not those that the leader says it opened. This vault did not open them."
        else:
            found = self.opened(seat, told.roster, seat.shown)
            mine = seat.telling.finished(self.told(seat.round, found))
            if seat.telling.same(mine, replace(told, checked=True)):
                return Answer(body=receipt, verdict=found)
            complaint = (
                f"The leader's outcome ({told.ending.value}) is not what this vault finds in the same ciphertexts "
                f"({found.ending.value}). Ask the other members what they hold."
            )
        # Not `REFUSED`, which is the leader's word for all: others may well have got a result.
        refused = Verdict(ending=Ending.REFUSED_BY_CHECK, roster=told.roster, answer=told.answer)
        return Answer(body=receipt, verdict=refused, complaint=complaint)
