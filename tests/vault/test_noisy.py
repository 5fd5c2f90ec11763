"""Rounds under noise: members learn noisy counts, noise is fresh in every upload, and a lineage's ε is spent."""

from __future__ import annotations

import shutil
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from fheval.aggregator.conductor import Report, drive
from fheval.cli.vault_views import result_of, rounds_json, status_json, status_table
from fheval.consortium import Rules, load_kit
from fheval.consortium.policy import Policy
from fheval.errors import CohortTooSmall, ConfigError, TransportError
from fheval.party.columns import StudyColumns
from fheval.party.messages import REFUSAL
from fheval.party.process import VaultFiles
from fheval.privacy.accounting import epsilon_of
from fheval.privacy.sampling import DiscreteGaussian, DiscreteLaplace
from fheval.protocols.base import Stage
from fheval.protocols.round import Ending, Verdict
from fheval.secrets import Randomness
from fheval.study import Study
from vault.requests import a_party, played_until
from vault.trial import NAMES, PADDED, POINTS, RULES, PicksTheFirst, Trial, Wire

Patch = pytest.MonkeyPatch
Refused = (CohortTooSmall, TransportError)
Draws = list[NDArray[np.int64]]

TERMS: dict[str, Any] = {"release": "noisy-curve", "epsilon": 1.0, "interval": 0.95, "minimum_cohort": 4}


@pytest.fixture
def drawn(monkeypatch: Patch) -> Draws:
    """Every share that any vault draws."""
    draws: Draws = []
    honest = DiscreteLaplace.share

    def share(noise: DiscreteLaplace, rng: Randomness, count: int) -> NDArray[np.int64]:
        found = honest(noise, rng, count)
        draws.append(found)
        return found

    monkeypatch.setattr(DiscreteLaplace, "share", share)
    return draws


def noisy(trial: Trial, protocol: str = "padded", **changes: Any) -> Study:
    return trial.study(protocol, **(TERMS | changes))


def play(trial: Trial, wire: Wire | None = None, protocol: str = "padded", **changes: Any) -> Report:
    conducting = trial.conduct(noisy(trial, protocol, **changes), rng=PicksTheFirst(), attempts=1)
    return drive(conducting, wire or Wire(trial))


def verdict_of(trial: Trial, name: str) -> Verdict:
    verdict = trial.last(name).verdict
    assert verdict is not None
    return verdict


def pooled(trial: Trial, names: tuple[str, ...] = NAMES) -> NDArray[np.int64]:
    """The counts of these members without noise: positives, then negatives, highest scores first."""
    lines = [line.split(",") for name in names for line in trial.data(name).read_text().splitlines()[1:]]
    labels, scores = np.array([int(a) for a, _ in lines]), np.array([float(b) for _, b in lines])
    edges = np.linspace(1, 0, POINTS)
    inside = [(scores <= high) & (scores > low) for high, low in pairwise(edges)]
    inside[-1] |= scores <= 0
    return np.array([int((labels[each] == label).sum()) for label in (1, 0) for each in inside])


# The round


@pytest.mark.parametrize("protocol", PADDED)
def test_every_member_holds_the_sum_of_counts_and_shares(trial: Trial, drawn: Draws, protocol: str) -> None:
    report = play(trial, protocol=protocol)
    assert report.roster == report.confirmed == NAMES
    assert [len(each) for each in drawn] == [2 * (POINTS - 1)] * len(NAMES)
    expected = pooled(trial) + np.sum(drawn, axis=0)
    for name in NAMES:
        verdict = verdict_of(trial, name)
        assert (verdict.ending, verdict.verified) == (Ending.RELEASED, True if protocol == "padded-verified" else None)
        assert list(verdict.counts) == expected.tolist()
    assert min(verdict.counts) < 0


def test_dropouts_take_their_noise_with_them_and_what_is_left_is_enough(trial: Trial, drawn: Draws) -> None:
    trial.stop("hazel")
    play(trial)
    rest = tuple(name for name in NAMES if name != "hazel")
    assert verdict_of(trial, "maple").roster == rest
    assert list(verdict_of(trial, "maple").counts) == (pooled(trial, rest) + np.sum(drawn, axis=0)).tolist()
    # Four parties, of which one may know its own share: three honest ones were counted on.
    assert trial.last("maple").study.noise == DiscreteLaplace(1.0, 3)
    trial.stop("maple")
    with pytest.raises(Refused):
        play(trial, name="below-the-least-cohort")


def test_an_aggregator_sees_as_many_bytes_as_without_noise(trial: Trial) -> None:
    """Noise changes values under pads, and no length but by the digits of a count in the sealed verdict: none."""
    wire, other = Wire(trial), Wire(trial)
    play(trial, wire)
    play(trial, other, epsilon=0.5)
    sizes = [[(stage, name, len(data)) for stage, name, data in each.replies] for each in (wire, other)]
    assert sizes[0] == sizes[1]


def test_what_the_operator_sees(trial: Trial) -> None:
    play(trial)
    (found,) = rounds_json([trial.last("maple")])["rounds"]
    assert [row["metric"] for row in found["results"]] == ["auc", "average-precision", "ks", "ece"]
    auc = found["results"][0]
    assert auc["low"] < auc["value"] < auc["high"]
    assert abs(auc["value"] - trial.pooled()) < 0.2
    assert (found["precision"], found["privacy"]["epsilon"], found["privacy"]["honest"]) == ("noisy", 1.0, 3)
    result = result_of(trial.last("maple"))
    assert result.auc == auc["value"]
    assert result.privacy is not None


def test_several_models_have_noise_for_all_that_a_row_touches(trial: Trial) -> None:
    for name in NAMES:
        lines = trial.data(name).read_text().splitlines()[1:]
        rows = "".join(f"{line},{1 - float(line.split(',')[1])}\n" for line in lines)
        trial.data(name).write_text("label,old,new\n" + rows)
        trial.columns[name] = StudyColumns(models={"old": "old", "new": "new"})
    trial.start()
    play(trial, models=("old", "new"))
    last = trial.last("maple")
    assert last.study.noise == DiscreteLaplace(0.5, 3)
    assert last.use is not None
    assert last.use.cost is not None
    assert last.use.cost.epsilon == pytest.approx(1.0)
    assert len(verdict_of(trial, "maple").counts) == 4 * (POINTS - 1)


# Fresh noise


def test_a_request_that_comes_again_gets_the_same_bytes_and_no_new_noise(trial: Trial, drawn: Draws) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT, **TERMS)
    name = a_party(round_)
    drawn.clear()
    first = trial.vaults[name].handle(asked[name])
    assert first != REFUSAL
    trial.start(name)
    assert trial.vaults[name].handle(asked[name]) == first
    assert len(drawn) == 1


def test_after_a_rollback_the_noise_is_another(trial: Trial, drawn: Draws) -> None:
    """Were it the same, the difference of two answers would show what was added to the data in between."""
    _, round_, asked = played_until(trial, Stage.SUBMIT, **TERMS)
    name = a_party(round_)
    drawn.clear()
    place = trial.ledger_path(name).parent
    trial.stop(name)
    shutil.copytree(place, trial.folder / "snapshot")
    trial.start(name)
    first = trial.vaults[name].handle(asked[name])
    trial.stop(name)
    shutil.rmtree(place)
    shutil.copytree(trial.folder / "snapshot", place)
    trial.start(name)
    second = trial.vaults[name].handle(asked[name])
    assert REFUSAL not in (first, second)
    assert first != second
    one, other = drawn
    assert not np.array_equal(one, other)


def test_what_is_prepared_has_no_noise_in_it(trial: Trial, drawn: Draws) -> None:
    """It would be the same in every round that is answered from it."""
    trial.accept(noisy(trial))
    assert not drawn
    play(trial)
    play(trial)
    assert len(drawn) == 2 * len(NAMES)
    assert len({each.tobytes() for each in drawn}) == len(drawn)


# What a lineage may spend


@pytest.fixture
def three(trial: Trial) -> Trial:
    """A consortium whose policy lets a lineage spend ε = 3."""
    trial.consortium.sign(msgspec.structs.replace(RULES, epsilon_per_lineage=3.0))
    trial.start()
    return trial


def spent(trial: Trial, name: str = "birch") -> float:
    return epsilon_of(trial.ledgers[name].privacy_spent(f"of-{name}"), 1e-6)


def test_the_fourth_round_is_not_answered_whatever_is_new(three: Trial) -> None:
    for _ in range(3):
        play(three)
    assert spent(three) == pytest.approx(3.0)
    with pytest.raises(Refused):
        play(three)
    # A restart, a file of other bytes, the study accepted anew, another study, another noise.
    three.start()
    with pytest.raises(Refused):
        play(three)
    for path in map(three.data, three.vaults):
        path.write_bytes(path.read_bytes() + b"1,0.5\n")
    three.prepare()
    with pytest.raises(Refused):
        play(three)
    three.accept(noisy(three), *three.vaults)
    with pytest.raises(Refused):
        play(three)
    with pytest.raises(Refused):
        play(three, name="another-study", epsilon=0.25)
    assert spent(three) == pytest.approx(3.0)


def test_all_vaults_say_so_and_their_refusals_are_alike(three: Trial, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        play(three)
    wire = Wire(three)
    with pytest.raises(Refused):
        play(three, wire)
    assert {data for stage, _, data in wire.replies if stage is Stage.SUBMIT} == {REFUSAL}
    assert "would have spent ε = 4; 3 are allowed" in caplog.text


def test_it_is_answered_when_the_guard_is_out(three: Trial, monkeypatch: Patch) -> None:
    for _ in range(3):
        play(three)
    monkeypatch.setattr(Policy, "check_privacy", lambda _self, _costs: None)
    play(three)
    assert spent(three) == pytest.approx(4.0)


def test_what_is_left_may_be_spent(three: Trial) -> None:
    play(three, epsilon=2.0)
    with pytest.raises(Refused):
        play(three, epsilon=1.5, name="too-much")
    play(three, epsilon=1.0, name="the-rest")
    assert spent(three) == pytest.approx(3.0)


def test_small_rounds_add_up_as_concentrated_privacy(three: Trial) -> None:
    """A hundred rounds of 0.05 would be 5 by plain addition, and are 2.8 beside δ = 1e-6."""
    ledger = three.ledgers["birch"]
    play(three, epsilon=0.05, name="small")
    cost = ledger.privacy_spent("of-birch")[0]
    assert epsilon_of([cost] * 100, 1e-6) < 3.0 < 100 * 0.05


def test_a_void_round_spends_nothing(three: Trial) -> None:
    """Nobody can have opened it: the aggregator loses all uploads but two, and the leader signs that it never will."""
    wire = Wire(three, lose=lambda asked, name: asked.stage is Stage.SUBMIT and name not in ("alder", "birch"))
    with pytest.raises(Refused):
        play(three, wire)
    assert spent(three, "birch") == 0.0


def test_an_operator_may_begin_anew_and_it_is_written_down(three: Trial) -> None:
    for _ in range(3):
        play(three)
    three.begin_anew()
    assert spent(three) == 0.0
    play(three)


def test_rounds_without_noise_spend_none_of_it(three: Trial) -> None:
    three.play()
    assert spent(three) == 0.0


def test_status_tells_what_was_spent(three: Trial) -> None:
    play(three)
    kit = load_kit(three.consortium.path("birch"), now=three.clock.now)
    files = VaultFiles.of(three.consortium.path("birch"), three.ledger_path("birch").parent)
    found = status_json(kit, three.ledgers["birch"], three.studies["birch"], files, running=True)
    (lineage,) = found["lineages"]
    assert (lineage["epsilon"], found["epsilon_per_lineage"]) == (pytest.approx(1.0), 3.0)
    console = Console(width=200)
    with console.capture() as capture:
        console.print(status_table(found))
    assert "ε = 1 of 3 spent under noise, beside δ = 1e-06" in capture.get()


def test_a_study_that_spends_more_in_a_round_than_is_allowed_in_all_is_not_signed(three: Trial) -> None:
    with pytest.raises(ConfigError, match="would spend more than ε = 3"):
        three.accept(noisy(three, epsilon=3.5))


@pytest.mark.parametrize("rules", [{"epsilon_per_lineage": 0.0}, {"delta_per_lineage": 1.0}])
def test_rules_that_cannot_be(trial: Trial, rules: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        trial.consortium.sign(Rules(**rules))  # type: ignore[arg-type]


def test_gaussian_rounds_are_kept_in_rho(trial: Trial, monkeypatch: Patch) -> None:
    many = noisy(trial, delta=1e-6)
    monkeypatch.setattr(Study, "noise", property(lambda _self: DiscreteGaussian(600.0, 3)))
    drive(trial.conduct(many, rng=PicksTheFirst(), attempts=1), Wire(trial))
    (cost,) = trial.ledgers["birch"].privacy_spent("of-birch")
    assert cost.epsilon is None
    assert cost.rho == pytest.approx(1 / 1200)
