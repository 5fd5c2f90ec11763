"""More than one AUC of a consortium: several models, classes, intervals; every member's file in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray
from rich.console import Console

from fheval.aggregator.conductor import drive
from fheval.aggregator.round_in_play import Exchange
from fheval.cli.vault_views import rounds_json, rounds_table
from fheval.counting import Counts, Grid
from fheval.errors import CohortTooSmall, ConfigError
from fheval.party.columns import StudyColumns
from fheval.party.data_set import DataSet
from fheval.protocols.base import Stage
from fheval.report.wording import p_in_words
from fheval.secrets import SystemRandomness
from fheval.study import Study
from vault.trial import NAMES, PADDED, PicksTheFirst, Trial, Wire

GRID = Grid.even(25)
CLASSES = ("well", "cold", "flu")
ROWS_EACH = 5

Columns = dict[str, NDArray[Any]]


def made_rows(seed: int, patients: int = 30) -> Columns:
    """Rows of a party: a good model and a poor one, and each patient's rows all alike."""
    draw = np.random.default_rng(seed)
    label = draw.integers(0, 2, patients)
    good = np.clip(draw.normal(0.3 + 0.4 * label, 0.25), 0, 1)
    poor = np.clip(draw.normal(0.45 + 0.1 * label, 0.3), 0, 1)
    kind = draw.integers(0, 3, patients)
    noisy = draw.random((patients, 3)) + 0.8 * np.eye(3)[kind]
    shares = noisy / noisy.sum(axis=1, keepdims=True)
    alike = {"label": label, "new": good, "old": poor, "patient": np.arange(patients), "kind": kind}
    columns = alike | {f"risk_{name}": shares[:, number] for number, name in enumerate(CLASSES)}
    return {name: np.repeat(values, ROWS_EACH) for name, values in columns.items()}


ROWS = {name: made_rows(seed) for seed, name in enumerate(NAMES)}


def pooled(column: str, of: str | None = None) -> float:
    """The AUC of a column over all members' rows; with a class, for telling it from the rest."""
    labels = [each["label"] if of is None else each["kind"] == CLASSES.index(of) for each in ROWS.values()]
    scores = np.concatenate([each[column] for each in ROWS.values()])
    return Counts.from_scores(np.concatenate(labels).astype(int), scores, GRID).auc()


def write(trial: Trial, name: str, columns: Mapping[str, NDArray[Any]]) -> None:
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    trial.data(name).write_text("\n".join(lines) + "\n")


@pytest.fixture
def models(trial: Trial) -> Trial:
    """Vaults that allow two models and clusters; the first one's file has other names for everything."""
    for name, rows in ROWS.items():
        write(trial, name, {each: rows[each] for each in ("label", "old", "new", "patient")})
        trial.columns[name] = StudyColumns(cluster="patient")
    renamed = {"label": "died", "new": "v2", "old": "v1", "patient": "pid"}
    write(trial, NAMES[0], {renamed[each]: ROWS[NAMES[0]][each] for each in renamed})
    trial.columns[NAMES[0]] = StudyColumns(label="died", models={"new": "v2", "old": "v1"}, cluster="pid")
    trial.start()
    return trial


@pytest.fixture
def classes(trial: Trial) -> Trial:
    """Vaults with three classes; the first one's file numbers them."""
    for number, (name, rows) in enumerate(ROWS.items()):
        own = ("0", "1", "2") if number == 0 else CLASSES
        shares = {f"risk_{label}": rows[f"risk_{each}"] for label, each in zip(own, CLASSES, strict=True)}
        write(trial, name, {"label": np.array(own)[rows["kind"]]} | shares)
        trial.columns[name] = StudyColumns(models={"risk": "risk"}, classes=dict(zip(CLASSES, own, strict=True)))
    trial.start()
    return trial


def asked(trial: Trial, protocol: str = "padded", **changes: Any) -> list[dict[str, Any]]:
    """The rows that every member holds after a round, all the same."""
    report = trial.play(trial.study(protocol, grid=GRID, **changes))
    assert report.confirmed == NAMES
    found = [rounds_json([trial.last(name)])["rounds"][0]["results"] for name in NAMES]
    assert all(each == found[0] for each in found)
    rows: list[dict[str, Any]] = found[0]
    return rows


def asking(**changes: Any) -> Study:
    return replace(Study(protocol="padded", precision=1e-4, grid=GRID), **changes)


def row_of(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    (found,) = (row for row in rows if wanted.items() <= row.items())
    return found


# Several models


@pytest.mark.parametrize("protocol", PADDED)
def test_every_model_has_its_pooled_auc(models: Trial, protocol: str) -> None:
    rows = asked(models, protocol, models=("old", "new"), metrics=("auc", "recall@0.5"))
    assert [(row["metric"], row["model"]) for row in rows] == [
        (metric, model) for metric in ("auc", "recall@0.5") for model in ("old", "new")
    ]
    for model in ("old", "new"):
        assert row_of(rows, metric="auc", model=model)["value"] == pytest.approx(pooled(model), abs=1e-4)
    use = models.last("cedar").use
    assert use is not None
    assert use.releases == 4


@pytest.mark.parametrize("protocol", ["padded", "paper-semi-honest"])
def test_one_model_of_two(models: Trial, protocol: str) -> None:
    (row,) = asked(models, protocol, models=("new",))
    assert row["value"] == pytest.approx(pooled("new"), abs=1e-4)
    assert rounds_json([models.last("birch")])["rounds"][0]["auc"] == row["value"]


def test_the_only_model_needs_no_name(models: Trial) -> None:
    for name, column in zip(NAMES, ("v2", "new", "new", "new", "new"), strict=True):
        models.columns[name] = StudyColumns(label="died" if column == "v2" else None, models={"": column})
    models.start()
    (row,) = asked(models)
    assert row["value"] == pytest.approx(pooled("new"), abs=1e-4)


# Classes


def test_every_class_against_the_rest_and_their_mean(classes: Trial) -> None:
    rows = asked(classes, models=("risk",), classes=CLASSES)
    assert [row["class"] for row in rows] == [*CLASSES, "macro"]
    truth = {label: pooled(f"risk_{label}", of=label) for label in CLASSES}
    for label, value in truth.items():
        assert row_of(rows, **{"class": label})["value"] == pytest.approx(value, abs=1e-4)
    mean = sum(truth.values()) / len(truth)
    assert row_of(rows, **{"class": "macro"})["value"] == pytest.approx(mean, abs=1e-4)
    assert "auc" not in rounds_json([classes.last("birch")])["rounds"][0]
    use = classes.last("cedar").use
    assert use is not None
    assert use.releases == 3


def test_classes_of_a_model_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("label,score_a,score_b\na,0.9,0.1\nb,0.3,0.7\na,0.2,0.8\n")
    counted = DataSet(path).count(asking(grid=Grid.even(5), classes=("b", "a")), SystemRandomness())
    assert counted.rows == 3
    # Positives and negatives: one b among three rows, then two a.
    assert counted.contribution.table.reshape(2, 2, 4).sum(axis=2).tolist() == [[1, 2], [2, 1]]


# Intervals


def width(row: Mapping[str, Any]) -> float:
    return float(row["high"]) - float(row["low"])


def pooled_width(column: str, level: float) -> float:
    """How wide the interval is that the pooled rows give, drawn with replacement."""
    draw = np.random.default_rng(5)
    labels = np.concatenate([each["label"] for each in ROWS.values()])
    scores = np.concatenate([each[column] for each in ROWS.values()])
    chosen = [draw.integers(0, len(labels), len(labels)) for _ in range(400)]
    aucs = [Counts.from_scores(labels[rows], scores[rows], GRID).auc() for rows in chosen]
    low, high = np.quantile(aucs, [(1 - level) / 2, (1 + level) / 2])
    return float(high - low)


def test_intervals_and_the_difference_of_two_models(models: Trial) -> None:
    rows = asked(models, models=("old", "new"), replicates=200, interval=0.9)
    for model in ("old", "new"):
        row = row_of(rows, model=model)
        assert row["value"] == pytest.approx(pooled(model), abs=1e-4)
        assert row["low"] < row["value"] < row["high"]
        # The ends of 200 resamples scatter: by about a tenth of the width.
        assert width(row) == pytest.approx(pooled_width(model, 0.9), rel=0.5)
    difference = row_of(rows, model="old - new")
    assert difference["value"] == pytest.approx(pooled("old") - pooled("new"), abs=2e-4)
    assert difference["low"] < difference["value"] < difference["high"] < 0
    assert difference["p_value"] == pytest.approx(2 / 201)
    use = models.last("cedar").use
    assert use is not None
    assert use.releases == 2


def test_an_interval_over_patients_is_wider_than_one_over_their_rows(models: Trial) -> None:
    """All rows of a patient are alike, so there is a fifth of the information in them."""
    by_row, by_patient = (
        width(asked(models, models=("new",), replicates=200, interval=0.9, by_cluster=by_cluster)[0])
        for by_cluster in (False, True)
    )
    assert by_patient / by_row == pytest.approx(np.sqrt(ROWS_EACH), rel=0.4)


def test_the_table_and_the_json_show_intervals(models: Trial) -> None:
    rows = asked(models, models=("old", "new"), replicates=40, interval=0.9, by_cluster=True)
    (found,) = rounds_json([models.last("maple")])["rounds"]
    assert found["confidence"] == 0.9
    console = Console(width=160)
    with console.capture() as capture:
        console.print(rounds_table([models.last("maple")]))
    shown = capture.get()
    new, difference = row_of(rows, model="new"), row_of(rows, model="old - new")
    assert (
        f"auc, new {new['value']:.4f} ± {ceil(new['binning'] * 1e4) / 1e4:.4f} [{new['low']:.4f} to {new['high']:.4f}]"
        in shown
    )
    assert p_in_words(difference["p_value"], 40) in shown
    assert "in brackets: 90 % intervals" in shown


# Resamples are the vault's own, once a round


def test_a_lost_upload_with_resamples_comes_again_with_the_same_bytes(models: Trial) -> None:
    study = models.study(grid=GRID, models=("old", "new"), replicates=40, interval=0.95, by_cluster=True)
    wire = Wire(models)

    def exchange(asked: Exchange) -> dict[str, bytes]:
        replies = wire(asked)
        if asked.stage is Stage.SUBMIT:
            # Once more to the same vaults, and once more after they were started again.
            again = wire(asked)
            models.start()
            assert replies == again == wire(asked)
        return replies

    report = drive(models.conduct(study), exchange)
    assert report.confirmed == NAMES


def test_two_rounds_have_other_resamples(models: Trial) -> None:
    asking: dict[str, Any] = {"models": ("new",), "replicates": 40, "interval": 0.95}
    first, second = (asked(models, "padded-verified", **asking)[0] for _ in range(2))
    assert first["value"] == second["value"]
    assert (first["low"], first["high"]) != (second["low"], second["high"])


# What the operator decides


def test_a_member_that_did_not_accept_stays_away(models: Trial, caplog: pytest.LogCaptureFixture) -> None:
    models.unwilling.add("maple")
    report = models.play(models.study(grid=GRID, models=("old", "new")), rng=PicksTheFirst())
    assert report.dropped == ("maple",)
    assert "is not accepted here, or not ready" in caplog.text


def test_too_few_are_left_because_one_did_not_accept(models: Trial) -> None:
    models.unwilling.add("alder")
    models.stop("hazel", "maple")
    study = models.study(grid=GRID, models=("old", "new"))
    with pytest.raises(CohortTooSmall, match=r"Only 2 members answered .* The vault of alder refused"):
        models.play(study, rng=PicksTheFirst(), members=("alder", "birch", "cedar"))


COLUMNS = StudyColumns(models={"old": "v1"}, classes={"well": "0", "flu": "1"})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"models": ("old",)}, "--class names the class 'well', and the study has none by name"),
        ({"models": ("old",), "classes": ("well", "cold")}, "names the class 'flu', and the study has 'well', 'cold'"),
        ({"models": ("new",), "classes": ("well", "flu")}, "--score-column names the model 'old'"),
        ({"models": ("old", "v1"), "classes": ("well", "flu")}, "A model is named twice"),
        (
            {"models": ("old",), "classes": ("well", "flu"), "replicates": 40, "interval": 0.95, "by_cluster": True},
            "Name their column with --cluster-column",
        ),
    ],
)
def test_columns_that_do_not_fit_the_study(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        COLUMNS.translate(asking(**changes))


def test_a_study_in_the_names_of_the_file() -> None:
    own = COLUMNS.translate(asking(models=("old", "new"), classes=("cold", "flu", "well")))
    assert (own.models, own.classes) == (("v1", "new"), ("cold", "1", "0"))


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"models": {"a": "x", "b": "x"}}, "Two names stand for one model"),
        ({"models": {"a": ""}}, "A model has no name"),
        ({"classes": {"a": "", "b": "y"}}, "A class has no name"),
    ],
)
def test_columns_that_cannot_be(columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        StudyColumns(**columns)
