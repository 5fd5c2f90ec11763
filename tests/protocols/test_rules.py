"""Who may take part, with what, and how often: every refusal names the step and the culprit, and spoils nothing."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import msgspec
import pytest

from fheval.errors import (
    CohortTooSmall,
    ConfigError,
    EngineError,
    LocalProtocolError,
    RemoteProtocolError,
    VerificationFailed,
)
from fheval.metrics.registry import auc_batch
from fheval.privacy.sampling import DiscreteLaplace
from fheval.protocols.padded import RosterNotice
from fheval.protocols.round import PublicSetup, Round
from protocols.rounds import (
    ALL,
    CLEAR,
    PADDED,
    PAPER,
    Cast,
    a_round,
    again,
    contributions_of,
    curve,
    exact,
    named,
    parameters_of,
    plain_batch,
    play,
    pooled,
)

COUNTS = [curve(3, 4), curve(0, 5), curve(7, 2), curve(1, 1)]
STEPS = {
    "padded": "PaddedCounts",
    "padded-verified": "PaddedCounts",
    "paper-semi-honest": "CountShare",
    "paper-malicious": "CountShares",
}


def changed(message: Any, **others: Any) -> Any:
    return msgspec.structs.replace(message, **others)


@pytest.fixture(params=ALL)
def cast(request: pytest.FixtureRequest) -> Cast:
    """Four parties, three of whom are enough where dropouts are allowed."""
    return Cast(a_round(request.param, 4))


def honest(cast: Cast) -> dict[str, Any]:
    """Everybody's contribution."""
    return contributions_of(cast.round, COUNTS)


def uploads(cast: Cast) -> dict[str, Any]:
    """Everybody's upload."""
    return {party: cast.upload(party, own) for party, own in honest(cast).items()}


def assert_right(cast: Cast, aggregator: Any, counts: list[Any]) -> None:
    """The round still gives the ratio of those who took part."""
    outcome = cast.open(cast.result_of(aggregator))
    assert float(outcome.ratio()) == pytest.approx(float(exact(pooled(counts))), abs=1e-4)


# Who sends


def test_a_stranger_is_refused(cast: Cast) -> None:
    aggregator, sent = cast.aggregator(), uploads(cast)
    with pytest.raises(RemoteProtocolError, match="not a party") as caught:
        aggregator.receive(changed(sent["hospital-1"], sender="stranger"))
    assert (caught.value.step, caught.value.culprit) == (STEPS[cast.round.protocol], "stranger")
    for message in sent.values():
        aggregator.receive(message)
    assert_right(cast, aggregator, COUNTS)


def test_a_second_upload_of_the_same_party_is_refused_and_not_counted(cast: Cast) -> None:
    aggregator = cast.served(honest(cast))
    with pytest.raises(RemoteProtocolError, match="twice") as caught:
        aggregator.receive(cast.upload("hospital-2", honest(cast)["hospital-2"]))
    assert (caught.value.step, caught.value.culprit) == (STEPS[cast.round.protocol], "hospital-2")
    assert_right(cast, aggregator, COUNTS)


def test_an_upload_of_another_round_is_refused(cast: Cast) -> None:
    earlier = cast.next()
    aggregator = cast.aggregator()
    with pytest.raises(RemoteProtocolError, match="another round") as caught:
        aggregator.receive(earlier.upload("hospital-1", honest(cast)["hospital-1"]))
    assert (caught.value.step, caught.value.culprit) == (STEPS[cast.round.protocol], "hospital-1")


def test_an_answer_of_another_round_is_refused(cast: Cast) -> None:
    result = cast.result_of(cast.served(honest(cast)))
    with pytest.raises(RemoteProtocolError, match="another round") as caught:
        cast.next().open(result)
    assert caught.value.culprit == "aggregator"


# How many


def test_the_aggregator_does_not_answer_for_too_few(cast: Cast) -> None:
    two = Cast(a_round(cast.round.protocol, 2))
    aggregator = two.served({party: honest(cast)[party] for party in two.round.parties})
    with pytest.raises(CohortTooSmall, match=r"Only 2 parties .* minimum cohort is 3"):
        two.result_of(aggregator)


def test_the_opening_party_accepts_no_answer_for_too_few(cast: Cast) -> None:
    careless = Cast(a_round(cast.round.protocol, 2, minimum_cohort=1))
    result = careless.result_of(careless.served({party: honest(cast)[party] for party in careless.round.parties}))
    careless.open(result)
    careful = Cast(again(careless.round, id=careless.round.id, minimum_cohort=3), keys=careless.keys)
    with pytest.raises(CohortTooSmall):
        careful.open(result)


@pytest.mark.parametrize("protocol", PADDED)
def test_the_leader_gives_no_pads_for_too_few(protocol: str) -> None:
    cast = Cast(a_round(protocol, 4))
    with pytest.raises(CohortTooSmall):
        cast.pads(RosterNotice(round=cast.round.id, roster=("hospital-1", "hospital-2"), nonces=bytes(32), covered=b""))


@pytest.mark.parametrize("protocol", PADDED)
@pytest.mark.parametrize(
    "roster", [("hospital-1", "hospital-2", "hospital-2"), ("hospital-1", "hospital-2", "stranger")], ids=str
)
def test_the_leader_gives_no_pads_for_an_impossible_roster(protocol: str, roster: tuple[str, ...]) -> None:
    cast = Cast(a_round(protocol, 4))
    with pytest.raises(RemoteProtocolError, match="unknown or repeated") as caught:
        cast.pads(RosterNotice(round=cast.round.id, roster=roster, nonces=bytes(48), covered=b""))
    assert (caught.value.step, caught.value.culprit) == ("roster", "aggregator")


@pytest.mark.parametrize("protocol", PADDED)
def test_the_leader_gives_no_pads_for_another_round(protocol: str) -> None:
    cast = Cast(a_round(protocol, 4))
    with pytest.raises(RemoteProtocolError, match="another round"):
        cast.pads(RosterNotice(round=cast.next().round.id, roster=cast.round.parties, nonces=bytes(64), covered=b""))


@pytest.mark.parametrize("protocol", PADDED)
def test_the_leader_takes_no_sum_of_another_length_than_an_upload(protocol: str) -> None:
    cast = Cast(a_round(protocol, 4))
    notice = cast.served(honest(cast)).close()
    for wrong in (b"", bytes(notice.covered)[:-8], bytes(notice.covered) + bytes(8)):
        with pytest.raises(RemoteProtocolError, match="The sum of all uploads has") as caught:
            cast.pads(changed(notice, covered=wrong))
        assert (caught.value.step, caught.value.culprit) == ("RosterNotice", "aggregator")


def test_a_round_is_answered_once(cast: Cast) -> None:
    aggregator = cast.served(honest(cast))
    cast.result_of(aggregator)
    with pytest.raises(LocalProtocolError, match="answered already"):
        cast.result_of(aggregator)


# With what


def test_the_wrong_number_of_ciphertexts_is_refused() -> None:
    for packing, expected in (("paper", 4), ("compact", 2)):
        cast = Cast(a_round("paper-semi-honest", 4, packing=packing))
        share = uploads(cast)["hospital-1"]
        assert len(share.ciphertexts) == expected
        with pytest.raises(RemoteProtocolError, match=f"sent 3 ciphertexts instead of {expected}") as caught:
            cast.aggregator().receive(changed(share, ciphertexts=(share.ciphertexts * 2)[:3]))
        assert (caught.value.step, caught.value.culprit) == ("CountShare", "hospital-1")


@pytest.mark.parametrize("packing", ["paper", "compact"])
def test_an_answer_with_the_wrong_number_of_ciphertexts_is_refused(packing: str) -> None:
    cast = Cast(a_round("paper-semi-honest", 4, packing=packing))
    result = cast.result_of(cast.served(honest(cast)))
    for ciphertexts in (result.ciphertexts[1:], (*result.ciphertexts, result.ciphertexts[0])):
        with pytest.raises(RemoteProtocolError, match="The aggregator's answer has") as caught:
            cast.open(changed(result, ciphertexts=ciphertexts))
        assert caught.value.culprit == "aggregator"


def test_the_wrong_number_of_runs_is_refused() -> None:
    cast = Cast(a_round("paper-malicious", 4))
    shares = uploads(cast)["hospital-1"]
    with pytest.raises(RemoteProtocolError, match="sent 1 runs instead of 2"):
        cast.aggregator().receive(changed(shares, runs=shares.runs[:1]))
    result = cast.result_of(cast.served(honest(cast)))
    with pytest.raises(VerificationFailed):
        cast.open(changed(result, runs=result.runs[:1]))


@pytest.mark.parametrize("protocol", PADDED)
@pytest.mark.parametrize("change", [lambda values: values[:-1], lambda values: values + bytes(8)], ids=["less", "more"])
def test_an_upload_of_the_wrong_size_is_left_out(protocol: str, change: Any) -> None:
    cast = Cast(a_round(protocol, 4))
    sent = uploads(cast)
    aggregator = cast.aggregator()
    for party in ("hospital-1", "hospital-2", "hospital-3"):
        aggregator.receive(sent[party])
    wrong = sent["hospital-4"]
    with pytest.raises(RemoteProtocolError, match="bytes of padded counts instead of") as caught:
        aggregator.receive(changed(wrong, values=change(bytes(wrong.values))))
    assert (caught.value.step, caught.value.culprit) == ("PaddedCounts", "hospital-4")
    assert_right(cast, aggregator, COUNTS[:3])


@pytest.mark.parametrize("protocol", PAPER)
def test_an_upload_that_is_refused_half_way_leaves_no_half_behind(protocol: str) -> None:
    """A retry of the same party is then counted once, in every sum."""
    cast = Cast(a_round(protocol, 4))
    sent = uploads(cast)
    aggregator = cast.aggregator()
    for party in ("hospital-1", "hospital-2", "hospital-3"):
        aggregator.receive(sent[party])
    good = sent["hospital-4"]
    if protocol == "paper-malicious":
        bad = changed(good, runs=(good.runs[0], (*good.runs[1][:3], bytes(good.runs[1][3])[:-1])))
    else:
        bad = changed(good, ciphertexts=(*good.ciphertexts[:3], bytes(good.ciphertexts[3])[:-1]))
    with pytest.raises(EngineError):
        aggregator.receive(bad)
    aggregator.receive(good)
    assert_right(cast, aggregator, COUNTS)


@pytest.mark.parametrize("protocol", PAPER)
@pytest.mark.parametrize("place", [0, 3])
def test_a_ciphertext_that_is_not_fresh_is_refused_before_anything_is_added(protocol: str, place: int) -> None:
    cast = Cast(a_round(protocol, 4))
    sent = uploads(cast)
    (chosen,) = parameters_of(cast.round)
    evaluator = cast.engine.evaluator(chosen, cast.public.keys[0])
    stale = evaluator.dump(evaluator.drop_level(evaluator.load(list_of(sent["hospital-2"])[place])))
    aggregator = cast.aggregator()
    aggregator.receive(sent["hospital-1"])
    with pytest.raises(EngineError):
        aggregator.receive(with_one(sent["hospital-2"], place, stale))
    for party in ("hospital-2", "hospital-3", "hospital-4"):
        aggregator.receive(sent[party])
    assert_right(cast, aggregator, COUNTS)


def list_of(message: Any) -> tuple[bytes, ...]:
    """The ciphertexts of an upload, of its last run where there are runs."""
    return message.runs[-1] if hasattr(message, "runs") else message.ciphertexts  # type: ignore[no-any-return]


def with_one(message: Any, place: int, data: bytes) -> Any:
    """The same upload with another ciphertext in one place."""
    ciphertexts = [*list_of(message)]
    ciphertexts[place] = data
    if hasattr(message, "runs"):
        return changed(message, runs=(*message.runs[:-1], tuple(ciphertexts)))
    return changed(message, ciphertexts=tuple(ciphertexts))


def test_a_set_up_with_the_wrong_number_of_keys_is_refused(cast: Cast) -> None:
    for keys in ((), cast.public.keys[1:], cast.public.keys * 2):
        setup = PublicSetup(round=cast.round.id, sender=cast.round.leader, keys=keys)
        with pytest.raises(RemoteProtocolError, match="public keys instead of") as caught:
            cast.protocol.aggregator(cast.engine, cast.round, setup, cast.rng)
        assert (caught.value.step, caught.value.culprit) == ("PublicSetup", "hospital-1")


# The roster of the padded protocols


@pytest.mark.parametrize("protocol", PADDED)
def test_nobody_gets_in_after_the_roster_was_closed(protocol: str) -> None:
    cast = Cast(a_round(protocol, 4))
    sent = uploads(cast)
    aggregator = cast.aggregator()
    for party in ("hospital-1", "hospital-2", "hospital-4"):
        aggregator.receive(sent[party])
    notice = aggregator.close()
    with pytest.raises(RemoteProtocolError, match="after the roster was closed") as caught:
        aggregator.receive(sent["hospital-3"])
    assert caught.value.culprit == "hospital-3"
    result = aggregator.result(cast.pads(notice))
    assert result.roster == ("hospital-1", "hospital-2", "hospital-4")
    assert float(cast.open(result).ratio()) == pytest.approx(pooled([COUNTS[i] for i in (0, 1, 3)]).auc(), abs=1e-4)


@pytest.mark.parametrize("protocol", PADDED)
def test_pads_that_do_not_fit_are_refused_and_the_right_ones_still_taken(protocol: str) -> None:
    cast = Cast(a_round(protocol, 4))
    aggregator = cast.served(honest(cast))
    notice = aggregator.close()
    pads = cast.pads(notice)
    other_roster = cast.pads(changed(notice, roster=notice.roster[:3], nonces=notice.nonces[:48]))
    for wrong in (
        other_roster,
        changed(other_roster, roster=notice.roster[::-1]),
        changed(pads, sender="hospital-2"),
        changed(pads, ciphertexts=pads.ciphertexts[1:]),
        changed(pads, ciphertexts=tuple(() for _ in pads.ciphertexts)),
    ):
        with pytest.raises(RemoteProtocolError, match="do not fit") as caught:
            aggregator.result(wrong)
        assert (caught.value.step, caught.value.culprit) == ("PadSums", wrong.sender)
    with pytest.raises(RemoteProtocolError, match="another round"):
        aggregator.result(changed(pads, round=cast.next().round.id))
    assert float(cast.open(aggregator.result(pads)).ratio()) == pytest.approx(pooled(COUNTS).auc(), abs=1e-4)


@pytest.mark.parametrize("protocol", PADDED)
def test_an_answer_covers_the_parties_that_the_leader_gave_pads_for(protocol: str) -> None:
    cast = Cast(a_round(protocol, 4))
    result = cast.result_of(cast.served(honest(cast)))
    for claimed in (result.roster[:3], result.roster[::-1]):
        with pytest.raises(RemoteProtocolError, match="other parties than it announced") as caught:
            cast.open(result, claimed)
        assert caught.value.culprit == "aggregator"


@pytest.mark.parametrize("protocol", PADDED)
def test_an_answer_that_lacks_ciphertexts_is_refused(protocol: str) -> None:
    cast = Cast(a_round(protocol, 4))
    result = cast.result_of(cast.served(honest(cast)))
    with pytest.raises(RemoteProtocolError):
        cast.open(changed(result, ciphertexts=result.ciphertexts[:-1]))
    with pytest.raises(RemoteProtocolError):
        cast.open(changed(result, ciphertexts=(*result.ciphertexts[:-1], ())))


@pytest.mark.parametrize("protocol", ["padded", "padded-verified", "paper-semi-honest"])
def test_a_party_that_drops_out_costs_nothing(protocol: str) -> None:
    cast = Cast(a_round(protocol, 4))
    there = {party: own for party, own in honest(cast).items() if party != "hospital-3"}
    outcome = cast.open(cast.result_of(cast.served(there)))
    assert outcome.roster == ("hospital-1", "hospital-2", "hospital-4")
    assert float(outcome.ratio()) == pytest.approx(pooled([COUNTS[i] for i in (0, 1, 3)]).auc(), abs=1e-4)


def test_a_party_that_drops_out_of_paper_malicious_is_named_and_the_rest_start_anew() -> None:
    cast = Cast(a_round("paper-malicious", 4))
    there = {party: own for party, own in honest(cast).items() if party != "hospital-3"}
    with pytest.raises(RemoteProtocolError, match="No shares arrived from hospital-3") as caught:
        cast.result_of(cast.served(there))
    assert (caught.value.step, caught.value.culprit) == ("CountShares", "hospital-3")
    restarted = cast.next(parties=tuple(there))
    outcome = restarted.open(restarted.result_of(restarted.served(there)))
    assert outcome.verified
    assert outcome.roster == ("hospital-1", "hospital-2", "hospital-4")
    assert outcome.ratio() == pytest.approx(pooled([COUNTS[i] for i in (0, 1, 3)]).auc(), abs=1e-7)


def test_an_answer_of_paper_malicious_without_someone_is_not_accepted() -> None:
    cast = Cast(a_round("paper-malicious", 4))
    result = cast.result_of(cast.served(honest(cast)))
    with pytest.raises(VerificationFailed):
        cast.open(changed(result, roster=result.roster[:3]))


@pytest.mark.parametrize("protocol", PADDED)
def test_after_a_dead_leader_a_new_round_has_a_new_leader_and_fresh_pads(protocol: str) -> None:
    dead = Cast(a_round(protocol, 4))
    first = uploads(dead)
    dead.served(honest(dead)).close()
    alive = dead.next(leader="hospital-2")
    second = uploads(alive)
    assert all(bytes(first[party].values) != bytes(second[party].values) for party in dead.round.parties)
    with pytest.raises(RemoteProtocolError, match="another round"):
        alive.aggregator().receive(first["hospital-1"])
    aggregator = alive.served(honest(alive))
    pads = alive.pads(aggregator.close())
    assert pads.sender == "hospital-2"
    assert float(alive.open(aggregator.result(pads)).ratio()) == pytest.approx(pooled(COUNTS).auc(), abs=1e-4)


@pytest.mark.parametrize("protocol", PADDED)
def test_an_upload_that_is_made_twice_has_two_pads(protocol: str) -> None:
    """A vault sends the same bytes again, from its ledger; one whose ledger was rolled back makes them anew."""
    cast = Cast(a_round(protocol, 4))
    for one, other in zip(uploads(cast).values(), uploads(cast).values(), strict=True):
        assert one.nonce != other.nonce
        assert one.values != other.values


@pytest.mark.parametrize("protocol", PADDED)
@pytest.mark.parametrize("nonce", [b"", bytes(15), bytes(17)], ids=len)
def test_an_upload_with_a_nonce_of_another_length_is_left_out(protocol: str, nonce: bytes) -> None:
    """It would shift those of all who come after it."""
    cast = Cast(a_round(protocol, 4))
    first, *_ = uploads(cast).values()
    with pytest.raises(RemoteProtocolError, match="sent a nonce of") as caught:
        cast.aggregator().receive(changed(first, nonce=nonce))
    assert caught.value.culprit == first.sender


# What a round may ask for


@pytest.mark.parametrize(
    ("protocol", "options", "message"),
    [
        ("padded-verified", {"runs": 0}, "runs is 0. Use a number from 1 to 8"),
        ("paper-malicious", {"precision": 1e-4}, "--precision exact"),
        ("paper-malicious", {"splits": 0}, "splits is 0. Use a number from 1 to"),
        ("paper-malicious", {"parties": 1, "minimum_cohort": 1}, "two parties or more"),
        ("paper-semi-honest", {"packing": "loose"}, "no packing 'loose'. Choose one of: paper, compact"),
        ("telepathy", {}, "no protocol 'telepathy'. Choose one of: padded, padded-verified, committee, paper-"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_keys_are_made(
    protocol: str, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_ = a_round(protocol, options.pop("parties", 3), **options)
    monkeypatch.setattr(type(CLEAR), "generate_keys", never)
    with pytest.raises(ConfigError, match=message):
        play(round_, contributions_of(round_, COUNTS[: len(round_.parties)]))


def never(*_: object) -> None:
    raise AssertionError("keys were made")


@pytest.mark.parametrize("protocol", PAPER)
def test_a_paper_protocol_answers_one_form_a_round(protocol: str) -> None:
    round_ = a_round(protocol, 3)
    with pytest.raises(ConfigError, match="one evaluation a round"):
        parameters_of(again(round_, batch=plain_batch(*round_.forms * 2)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parties": ("a", "b", "a"), "leader": "a"}, "named twice"),
        ({"leader": "stranger"}, "not a party"),
        ({"minimum_cohort": 0}, "minimum cohort"),
        ({"precision": 0.0}, "makes no sense"),
        ({"precision": -1e-4}, "makes no sense"),
        ({"precision": 1.0}, "makes no sense"),
        ({"precision": float("nan")}, "makes no sense"),
        ({"batch": None}, "at least one evaluation"),
        ({"max_samples": 0}, "max_samples must be between"),
        ({"max_samples": (1 << 62) + 1}, "max_samples must be between"),
    ],
    ids=str,
)
def test_a_round_that_contradicts_itself_cannot_be_described(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(a_round("padded", 3), **changes)


def test_every_change_of_a_round_changes_its_digest() -> None:
    round_ = a_round("padded", 3)
    changes: list[dict[str, Any]] = [
        {"id": "00" * 16},
        {"protocol": "padded-verified"},
        {"engine": "seal"},
        {"batch": plain_batch(*round_.forms)},
        {"batch": auc_batch(7, round_.max_samples)},
        {"parties": named(4)},
        {"parties": named(3)[::-1]},
        {"leader": "hospital-2"},
        {"precision": 1e-3},
        {"minimum_cohort": 2},
        {"max_samples": 5},
        {"options": (("runs", 4),)},
        {"options": (("runs", 5),)},
        {"options": (("packing", "compact"),)},
        {"study": b"?"},
        {"groups": ("F",)},
        {"checkers": ("hospital-2",)},
        {"batch": None, "sums": 3},
        {"slices": 2},
        {"batch": None, "sums": 3, "noise": DiscreteLaplace(1.0, 3)},
    ]
    assert {name for change in changes for name in change} == {each.name for each in fields(Round)}
    digests = [again(round_, **({"id": round_.id} | change)).digest for change in changes]
    assert len({round_.digest, *digests}) == 1 + len(changes)
