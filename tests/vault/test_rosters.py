"""Rosters that differ by a party or two would show what these parties have: no such pair of rounds is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fheval.aggregator.conductor import Report, drive
from fheval.counting import Grid
from fheval.errors import CohortTooSmall, TransportError
from fheval.party.rosters import too_close
from fheval.protocols.base import Stage
from fheval.secrets import Randomness, SystemRandomness
from vault.trial import NAMES, PADDED, PicksTheFirst, Trial, Wire

FOUR = NAMES[:4]
ABSENT = NAMES[4]


@pytest.mark.parametrize(
    ("other", "close"),
    [
        ("abcde", False),
        ("abcd", True),
        ("abcdef", True),
        ("abcfg", False),
        ("abc", True),
        ("ab", False),
        ("fgh", False),
    ],
)
def test_what_is_too_close(other: str, close: bool) -> None:
    assert too_close("abcde", other, 3) is close
    assert too_close(other, "abcde", 3) is close


class PicksTheLast(SystemRandomness):
    """Randomness with which the last of all members leads."""

    def draw(self, count: int) -> bytes:
        return bytes([4]) if count == 1 else super().draw(count)


def play(trial: Trial, members: Sequence[str], rng: Randomness, **changes: Any) -> Report:
    """A round as an aggregator calls it that does not care for earlier rosters."""
    return trial.play(trial.study(**changes), rng=rng, members=members, attempts=1)


RELEASE: dict[str, Any] = {
    "metrics": ("recall@0.5", "specificity@0.5"),
    "grid": Grid.explicit([1.0, 0.5, 0.0]),
    "precision": 1e-6,
}


def recall(trial: Trial, name: str) -> float:
    """What a member holds after its newest round."""
    verdict = trial.last(name).verdict
    assert verdict is not None
    ratio = verdict.ratios[0]
    assert ratio is not None
    return float(ratio)


def candidates(value: float, most: int) -> set[tuple[int, int]]:
    """All pairs of true positives and positives that round to a recall."""
    return {
        (round(value * total), total) for total in range(1, most) if abs(round(value * total) / total - value) < 1e-6
    }


def attack(trial: Trial, orders: Sequence[tuple[Sequence[str], Randomness]]) -> set[tuple[int, int]]:
    """A member takes both results, with and without the absent party, and knows that this party has at most 60 rows."""
    found: dict[int, set[tuple[int, int]]] = {}
    for members, rng in orders:
        play(trial, members, rng, **RELEASE)
        found[len(members)] = candidates(recall(trial, "alder"), 60 * len(members))
    return {
        (with_it[0] - without[0], with_it[1] - without[1])
        for with_it in found[5]
        for without in found[4]
        if 0 <= with_it[0] - without[0] <= with_it[1] - without[1] <= 60
    }


ORDERS: dict[str, list[tuple[Sequence[str], Randomness]]] = {
    "then it is left out": [(NAMES, PicksTheFirst()), (FOUR, PicksTheFirst())],
    "then it comes": [(FOUR, PicksTheFirst()), (NAMES, PicksTheFirst())],
    "then it comes, and leads": [(FOUR, PicksTheFirst()), (NAMES, PicksTheLast())],
}


def own_recall(trial: Trial, name: str) -> tuple[int, int]:
    """A party's own true positives at 0.5, and its positives."""
    labels, scores = np.loadtxt(trial.data(name), delimiter=",", skiprows=1, unpack=True)
    return int(((scores >= 0.5) & (labels == 1)).sum()), int(labels.sum())


@pytest.mark.parametrize("order", ORDERS)
def test_with_and_without_one_party(trial: Trial, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row by row what the audit did: both results together hold the absent party's own counts, and are not given."""
    with pytest.raises((TransportError, CohortTooSmall)):
        attack(trial, ORDERS[order])
    assert sum(each.verdict is not None for each in trial.ledgers["alder"].history()) == 1
    # Without the guards the same aggregator gets both, and few counts of the absent party remain possible.
    monkeypatch.setattr("fheval.party.steps.require_apart", lambda *_: None)
    monkeypatch.setattr("fheval.party.steps.require_witness", lambda *_: None)
    trial.begin_anew()
    left = attack(trial, ORDERS[order])
    assert own_recall(trial, ABSENT) in left
    everything = 61 * 62 // 2
    assert len(left) < everything / 4


@pytest.mark.parametrize("guard", ["require_apart", "require_witness"])
def test_each_guard_is_needed(trial: Trial, guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's for those who were there, the parties' for a leader that was not."""
    monkeypatch.setattr(f"fheval.party.steps.{guard}", lambda *_: None)
    order = "then it is left out" if guard == "require_apart" else "then it comes, and leads"
    for members, rng in ORDERS[order]:
        play(trial, members, rng)
    assert sum(each.verdict is not None for each in trial.ledgers["alder"].history()) == 2


@pytest.mark.parametrize("protocol", PADDED)
def test_the_same_roster_again_and_a_distant_one(trial: Trial, protocol: str) -> None:
    for members in (NAMES, NAMES, NAMES[:3][::-1]):
        if members == NAMES[:3][::-1]:
            # Two parties fewer: too close for a cohort of three.
            with pytest.raises((TransportError, CohortTooSmall)):
                play(trial, members, PicksTheFirst(), protocol=protocol)
        else:
            assert play(trial, members, PicksTheFirst(), protocol=protocol).roster == NAMES


def test_a_refused_roster_costs_nothing(trial: Trial) -> None:
    play(trial, NAMES, PicksTheFirst())
    for _ in range(3):
        with pytest.raises((TransportError, CohortTooSmall)):
            play(trial, FOUR, PicksTheFirst())
    (spent,) = trial.ledgers["birch"].spending()
    assert (spent.rounds, spent.void, spent.unknown) == (1, 3, 0)


def test_a_reset_lineage_forgets_its_rosters(trial: Trial) -> None:
    play(trial, NAMES, PicksTheFirst())
    trial.begin_anew()
    assert play(trial, FOUR, PicksTheFirst()).roster == FOUR


# An aggregator that remembers asks for nothing that would be refused


def test_a_conductor_leaves_out_who_was_not_there(trial: Trial) -> None:
    first = trial.play(members=FOUR)
    second = trial.play(earlier=[first.roster])
    assert (second.roster, second.dropped) == (FOUR, (ABSENT,))
    assert len(second.attempts) == 1


def test_a_conductor_says_who_is_missing(trial: Trial) -> None:
    first = trial.play()
    with pytest.raises(CohortTooSmall, match="maple were in an earlier round"):
        trial.play(members=FOUR, earlier=[first.roster])
    assert len(trial.ledgers["alder"].history()) == 1


def test_a_member_that_drops_out_on_the_way_ends_the_round_for_free(trial: Trial) -> None:
    first = trial.play()
    trial.stop("maple")
    with pytest.raises(CohortTooSmall, match="maple were in an earlier round"):
        trial.play(earlier=[first.roster], rng=PicksTheFirst())
    (spent,) = trial.ledgers["birch"].spending()
    assert (spent.rounds, spent.void, spent.unknown) == (1, 0, 0)


def test_a_member_whose_upload_is_lost_ends_the_round_for_free(trial: Trial) -> None:
    first = trial.play()
    wire = Wire(trial, lose=lambda asked, name: asked.stage is Stage.SUBMIT and name == "maple")
    with pytest.raises(CohortTooSmall, match="maple were in an earlier round"):
        drive(trial.conduct(trial.study(), PicksTheFirst(), earlier=[first.roster]), wire)
    (spent,) = trial.ledgers["birch"].spending()
    assert (spent.rounds, spent.void, spent.unknown) == (1, 1, 0)


def test_whoever_leads_was_there_before(trial: Trial) -> None:
    """Three more parties than before may come, and one of those who know leads."""
    trial.play(members=NAMES[:3])
    for _ in range(8):
        conducting = trial.conduct(trial.study(), earlier=[NAMES[:2]], attempts=1)
        asked = next(conducting)
        assert set(asked.requests) <= set(NAMES[:2])
        conducting.close()
