"""The player: all roles in one process, replaceable, with the messages that vaults exchange, and what each cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fheval import field, wire
from fheval.errors import CohortTooSmall, RemoteProtocolError, UndefinedMetric, VerificationFailed
from fheval.protocols import PROTOCOLS, padded, padded_verified, paper_semi_honest
from fheval.protocols import play as player
from fheval.protocols.base import Aggregator, Answer, Playing, Receipt, RoundFailed, Seat, Stage
from fheval.protocols.padding import Blinding
from fheval.protocols.play import Members, Watch, play
from fheval.protocols.round import Ending, PublicSetup, Round, SealedVerdict
from fheval.secrets import Secret, Stream, SystemRandomness
from protocols.rounds import ALL, CLEAR, MESSAGES, PADDED, Wiretap, a_round, contributions_of, curve, pooled

COUNTS = [curve(40, 70), curve(0, 25), curve(9, 1), curve(5, 5)]
RNG = SystemRandomness()


def members_of(round_: Round, watch: Watch | None = None) -> Members:
    own = contributions_of(round_, COUNTS[: len(round_.parties)])
    return Members(PROTOCOLS[round_.protocol], CLEAR, round_, own, RNG, watch)


# Whole rounds


@pytest.mark.parametrize("protocol", ALL)
@pytest.mark.parametrize("leader", ["hospital-1", "hospital-3"])
def test_a_round_ends_with_the_ratio_of_the_pooled_counts(protocol: str, leader: str) -> None:
    round_ = a_round(protocol, 4, leader=leader)
    verdict = play(PROTOCOLS[protocol], CLEAR, round_, contributions_of(round_, COUNTS), RNG)
    assert float(verdict.ratio()) == pytest.approx(pooled(COUNTS).auc(), abs=1e-4)
    assert (verdict.ending, verdict.roster, verdict.error) == (Ending.RELEASED, round_.parties, None)


@pytest.mark.parametrize("protocol", PADDED)
def test_what_is_returned_is_what_a_party_was_told_and_not_what_the_leader_opened(protocol: str) -> None:
    members = members_of(a_round(protocol, 4))
    verdict = members.play()
    assert list(members.verdicts) == ["hospital-1", "hospital-2"]
    assert verdict is members.verdicts["hospital-2"]
    assert (verdict.checked, members.verdicts["hospital-1"].checked) == (False, True)


@pytest.mark.parametrize("protocol", ALL)
def test_a_round_without_a_value_raises_why(protocol: str) -> None:
    round_ = a_round(protocol, 3)
    with pytest.raises(UndefinedMetric):
        play(PROTOCOLS[protocol], CLEAR, round_, contributions_of(round_, [curve(5, 0)] * 3), RNG)


def test_parties_without_a_contribution_are_not_heard_of() -> None:
    round_ = a_round("padded", 4)
    own = contributions_of(round_, COUNTS)
    del own["hospital-3"]
    verdict = play(PROTOCOLS["padded"], CLEAR, round_, own, RNG)
    assert verdict.roster == ("hospital-1", "hospital-2", "hospital-4")
    assert float(verdict.ratio()) == pytest.approx(pooled([COUNTS[i] for i in (0, 1, 3)]).auc(), abs=1e-4)


def test_too_few_parties_end_the_round_and_name_those_who_are_missing() -> None:
    round_ = a_round("padded", 4)
    own = contributions_of(round_, COUNTS)
    del own["hospital-3"], own["hospital-4"]
    with pytest.raises(RoundFailed, match="hospital-3, hospital-4") as caught:
        play(PROTOCOLS["padded"], CLEAR, round_, own, RNG)
    assert (caught.value.stage, caught.value.without) == (Stage.SUBMIT, frozenset({"hospital-3", "hospital-4"}))


# Roles that are replaced


class Doubling(padded_verified.Aggregator):
    """Counts everybody twice."""

    def receive(self, counts: padded.PaddedCounts) -> None:
        super().receive(counts)
        self.uploads.add(counts.values, counts.sender)


class Halving(padded.Aggregator):
    """Weighs the numerator half as much as the denominator."""

    def draw_blinding(self) -> list[Blinding]:
        found = super().draw_blinding()
        for (weights, _), prime in zip(found, self.layout.primes, strict=True):
            weights[:1] = field.multiply(weights[:1], pow(2, -1, prime), prime)
        return found


def test_another_aggregator_takes_the_place_of_the_protocols_own() -> None:
    members = members_of(a_round("padded-verified", 4))
    with pytest.raises(VerificationFailed):
        members.play(Doubling)
    assert members.verdicts["hospital-1"].ending is Ending.REFUSED
    # The parties were told that there is no result, and not why; the opener alone knows.
    assert members.verdicts["hospital-2"].ending is Ending.REFUSED
    assert members.verdicts["hospital-2"].error is None
    honest = members_of(a_round("padded-verified", 4))
    assert honest.play(padded_verified.Aggregator).verified


def test_where_nothing_is_verified_another_aggregators_answer_is_taken() -> None:
    truth = members_of(a_round("padded", 4, precision=None)).play().ratio()
    assert members_of(a_round("padded", 4, precision=None)).play(Halving).ratio() == truth / 2


class GivesUp(paper_semi_honest.Aggregator):
    """Hears everybody and says nothing."""

    def play(self) -> Playing:
        yield from self.gather()
        return ()


def test_an_aggregator_that_answers_nothing_gives_no_result_and_none_of_an_earlier_play() -> None:
    members = members_of(a_round("paper-semi-honest", 3))
    with pytest.raises(RemoteProtocolError, match="without an answer"):
        members.play(GivesUp)
    members.play()
    with pytest.raises(RemoteProtocolError, match="without an answer"):
        members.play(GivesUp)


class Refusing(type(PROTOCOLS["padded"])):  # type: ignore[misc]
    """A protocol one of whose parties does not go along."""

    def submit(self, seat: Seat, nonce: bytes) -> Any:
        if seat.me == "hospital-2":
            raise CohortTooSmall("hospital-2 has thought again.")
        return super().submit(seat, nonce)


@pytest.mark.parametrize("stage", [Stage.SUBMIT, Stage.PADS, Stage.BROADCAST])
def test_what_a_member_raises_is_raised(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    class AngryError(Exception):
        pass

    def answer(self: Any, seat: Seat, body: bytes) -> Answer:
        raise AngryError(seat.me)

    monkeypatch.setattr(padded.Padded, f"answer_{stage.value}", answer)
    with pytest.raises(AngryError, match="hospital-2" if stage is Stage.BROADCAST else "hospital-1"):
        members_of(a_round("padded", 4)).play()


def test_one_of_many_members_may_raise_and_later_ones_are_not_asked() -> None:
    round_ = a_round("padded", 4)
    own = contributions_of(round_, COUNTS)
    members = Members(Refusing(), CLEAR, round_, own, RNG)
    with pytest.raises(CohortTooSmall, match="thought again"):
        members.play()
    assert len(members.watch.sizes["party_upload"]) == 1


# The messages


@pytest.mark.parametrize("protocol", ALL)
def test_in_process_the_messages_are_those_of_vaults(protocol: str) -> None:
    """Every reply is what the protocol's own types read; nothing else passes between the roles."""
    round_ = a_round(protocol, 4)
    tap = Wiretap(round_, contributions_of(round_, COUNTS), RNG)
    tap.play()
    kinds = [type(message) for message in tap.messages]
    expected: list[Any] = [PublicSetup]
    for stage, (asked, answered) in MESSAGES[protocol].items():
        expected += [each for each in (asked, answered) if each] if stage is not Stage.SUBMIT else [answered] * 4
    assert kinds == expected
    assert [wire.encode(message) for message in tap.messages] == [data for _, data in tap.sent]
    assert all(message.round == round_.id for message in tap.messages)
    if protocol in PADDED:
        sealed = [message for message in tap.messages if isinstance(message, SealedVerdict)]
        assert sealed[0] == sealed[1]
    assert tap.messages[-1] == Receipt(round=round_.id)


@pytest.mark.parametrize("protocol", ALL)
def test_each_answer_is_what_the_protocol_answers_from_the_members_seat(protocol: str) -> None:
    round_ = a_round(protocol, 3)
    members = members_of(round_)
    members.rng = Stream(Secret(bytes(32)))
    seat = Seat(
        engine=CLEAR,
        round=round_,
        me="hospital-2",
        secrets=members.protocol.secrets_of(round_, members.secrets, "hospital-2"),
        rng=Stream(Secret(bytes(32))),
        contribution=members.contributions["hospital-2"],
    )
    upload = PROTOCOLS[protocol].answer(seat, Stage.SUBMIT, b"")
    found = wire.decode(members.answer("hospital-2", Stage.SUBMIT, b""), type(upload.body), sender="hospital-2")
    assert type(upload.body) is PROTOCOLS[protocol].aggregator.upload
    assert (found.round, found.sender) == (round_.id, "hospital-2")  # type: ignore[attr-defined]
    if protocol in PADDED:
        assert wire.encode(found) == wire.encode(upload.body)


def test_a_stage_that_the_protocol_does_not_have_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="paper-semi-honest has no stage 'pads'"):
        PROTOCOLS["paper-semi-honest"].step(Stage.PADS)


@pytest.mark.parametrize("protocol", ALL)
def test_sizes_are_those_of_the_messages(protocol: str) -> None:
    round_ = a_round(protocol, 4)
    tap = Wiretap(round_, contributions_of(round_, COUNTS), RNG)
    tap.play()
    sent: dict[str, list[int]] = {}
    for what, data in tap.sent:
        sent.setdefault(what, []).append(len(data))
    sizes = dict(tap.watch.sizes)
    assert sizes.pop("party_upload") == sent["submit, answered"]
    assert sizes.pop("keys") == sent["set-up"]
    assert sizes.pop("leader_upload", []) == sent.get("pads, answered", [])
    assert sizes.pop("result") == sent["result, asked"]
    assert sizes.pop("broadcast", []) == sent.get("broadcast, asked", [])
    assert sizes == {}


# The watch


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(player, "perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_the_work_of_a_role_within_anothers_is_counted_once(clock: Clock) -> None:
    told: list[str] = []
    watch = Watch(told.append)
    clock.now = 1.0
    with watch.working("aggregator"):
        clock.now = 3.0
        with watch.working("party"):
            clock.now = 10.0
        clock.now = 10.5
        with watch.working("leader"), watch.working("party"):
            clock.now = 20.5
        clock.now = 21.0
    clock.now = 50.0
    with watch.working("party"):
        clock.now = 51.0
    seconds = {role: watch.seconds[role] for role in ("aggregator", "party", "leader")}
    assert seconds == {"aggregator": 3.0, "party": 18.0, "leader": 0.0}
    assert told == ["party", "party", "leader", "aggregator", "party"]


def test_time_is_counted_also_when_the_work_fails(clock: Clock) -> None:
    watch = Watch()

    def fail() -> None:
        with watch.working("leader"):
            clock.now = 4.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    clock.now = 9.0
    with watch.working("party"):
        clock.now = 9.5
    assert (watch.seconds["leader"], watch.seconds["party"]) == (4.0, 0.5)


def test_seconds_go_to_the_role_that_worked(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only the steps move, each by a time of its own: a block of 4 uploads, one opening, one set-up."""

    def slow(owner: Any, name: str, seconds: float) -> None:
        honest = getattr(owner, name)

        def taking(*arguments: Any, **named: Any) -> Any:
            clock.now += seconds
            return honest(*arguments, **named)

        monkeypatch.setattr(owner, name, taking)

    slow(padded, "party_submit", 1.0)
    slow(padded, "leader_answer", 10.0)
    slow(padded, "leader_open", 100.0)
    slow(padded.Aggregator, "_take_block", 4000.0)
    slow(padded.Aggregator, "result", 10_000.0)
    slow(player, "leader_set_up", 100_000.0)
    slow(padded.Padded, "answer_broadcast", 0.25)
    watch = Watch()
    members_of(a_round("padded", 4), watch).play()
    found = {role: seconds for role, seconds in watch.seconds.items() if role}
    assert found == {"party": 4.25, "leader": 100_010.0, "decrypt": 100.0, "aggregator": 14_000.0}


def test_every_piece_of_work_is_told_as_it_ends() -> None:
    told: list[str] = []
    members_of(a_round("padded", 4), Watch(told.append)).play()
    assert told == ["leader", *["party"] * 4, "leader", "decrypt", "party", "aggregator"]


def test_uploads_are_made_when_the_aggregator_takes_them() -> None:
    """So that a thousand of them need not lie in memory at once."""
    seen: list[str] = []

    class Noting(padded.Aggregator):
        def receive(self, counts: padded.PaddedCounts) -> None:
            seen.append(f"took {counts.sender}")
            super().receive(counts)

    class Slow(Members):
        def answer(self, party: str, stage: Stage, body: bytes) -> bytes:
            seen.append(f"{stage.value} {party}")
            return super().answer(party, stage, body)

    round_ = a_round("padded", 3)
    Slow(PROTOCOLS["padded"], CLEAR, round_, contributions_of(round_, COUNTS[:3]), RNG).play(Noting)
    assert seen[:4] == ["submit hospital-1", "took hospital-1", "submit hospital-2", "took hospital-2"]


def test_keys_of_an_earlier_round_are_taken_over() -> None:
    first = members_of(a_round("padded", 4))
    setup = wire.decode(first.setup, PublicSetup, sender="hospital-1")
    round_ = a_round("padded", 4)
    later = Members(
        PROTOCOLS["padded"], CLEAR, round_, contributions_of(round_, COUNTS), RNG, keys=(first.secrets, setup)
    )
    assert later.secrets is first.secrets
    assert float(later.play().ratio()) == pytest.approx(float(first.play().ratio()), abs=1e-4)


def test_replies_come_from_those_who_are_asked() -> None:
    """Where all would open or be told the same, one speaks for all: not the leader, unless there is nobody else."""

    class Spying(Members):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.asked: list[tuple[Stage, str]] = []

        def replies(self, ask: Any) -> Iterator[tuple[str, bytes]]:
            for party, answer in super().replies(ask):
                self.asked.append((ask.stage, party))
                yield party, answer

    alone = a_round("padded", 1, minimum_cohort=1)
    for round_, told in ((a_round("padded", 3, leader="hospital-2"), "hospital-1"), (alone, "hospital-1")):
        members = Spying(
            PROTOCOLS["padded"], CLEAR, round_, contributions_of(round_, COUNTS[: len(round_.parties)]), RNG
        )
        members.play()
        submitted = [(Stage.SUBMIT, party) for party in round_.parties]
        leader = [(Stage.PADS, round_.leader), (Stage.RESULT, round_.leader)]
        assert members.asked == [*submitted, *leader, (Stage.BROADCAST, told)]


def test_every_aggregator_is_one_of_the_kind_that_can_be_replaced() -> None:
    assert all(issubclass(protocol.aggregator, Aggregator) for protocol in PROTOCOLS.values())
