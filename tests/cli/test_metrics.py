"""`fheval evaluate` and `simulate` beyond one AUC: metrics, models, classes, groups, intervals, curves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cli.session import Session
from metrics_oracle import pooled

ROWS = 150


@pytest.fixture(scope="module")
def frames() -> list[pl.DataFrame]:
    """Three hospitals with two models, two sexes, and patients who come twice."""
    rng = np.random.default_rng(11)
    made = []
    for _ in range(3):
        labels = rng.integers(0, 2, ROWS)
        made.append(
            pl.DataFrame(
                {
                    "patient": np.arange(ROWS) // 2,
                    "sex": rng.choice(["F", "M"], ROWS),
                    "label": labels,
                    "old": rng.random(ROWS),
                    "new": np.clip(0.4 * labels + 0.6 * rng.random(ROWS), 0, 1),
                }
            )
        )
    return made


@pytest.fixture
def hospitals(tmp_path: Path, frames: list[pl.DataFrame]) -> list[str]:
    words = []
    for number, frame in enumerate(frames):
        path = tmp_path / f"hospital-{number}.csv"
        frame.write_csv(path)
        words += ["--party", str(path)]
    return words


def test_metrics_models_and_groups_as_json(fheval: Session, hospitals: list[str], frames: list[pl.DataFrame]) -> None:
    done = fheval(
        *("evaluate", *hospitals, "--score-column", "old", "--score-column", "new", "--group-column", "sex"),
        *("--metric", "accuracy@0.4", "--metric", "brier", "--precision", "exact", "--json", "-"),
    )
    assert (done.status, done.err) == (0, "")
    result = done.json()
    assert "auc" not in result
    everyone = pl.concat(frames)
    assert len(result["results"]) == 2 * 2 * 3
    for row in result["results"]:
        assert set(row) == {"metric", "model", "class", "group", "value", "low", "high", "binning", "precision"}
        chosen = (
            everyone if row["group"] is None else everyone.filter(pl.col("sex") == row["group"].removeprefix("sex="))
        )
        expected = pooled(row["metric"], chosen["label"].to_numpy(), chosen[row["model"]].to_numpy())
        assert row["value"] == pytest.approx(expected, abs=2**-24)


def test_intervals_and_differences_as_json(fheval: Session, hospitals: list[str]) -> None:
    result = fheval(
        *("evaluate", *hospitals, "--score-column", "old", "--score-column", "new", "--cluster-column", "patient"),
        *("--ci", "0.9", "--replicates", "50", "--decision-points", "30", "--json", "-"),
    ).json()
    assert (result["confidence"], result["decision_points"]) == (0.9, 30)
    old, new, difference = result["results"]
    assert old["low"] <= old["value"] <= old["high"] < new["low"]
    assert (difference["model"], difference["p_value"]) == ("old - new", pytest.approx(2 / 51))


def test_intervals_leave_the_value_at_a_thousand_points(fheval: Session, hospitals: list[str]) -> None:
    result = fheval("evaluate", *hospitals, "--score-column", "new", "--ci", "0.95", "--json", "-").json()
    plain = fheval("evaluate", *hospitals, "--score-column", "new", "--json", "-").json()
    assert result["decision_points"] == plain["decision_points"] == 1000
    assert result["auc"] == result["results"][0]["value"] == pytest.approx(plain["auc"], abs=1e-4)


def test_people_see_a_table(fheval: Session, hospitals: list[str]) -> None:
    done = fheval(
        *("evaluate", *hospitals, "--score-column", "new", "--metric", "auc", "--metric", "npv@0", "--ci", "0.95"),
        *("--replicates", "40", "--decision-points", "20", "--group-column", "sex", "--minimum-group", "30"),
    )
    words = " ".join(done.out.split())
    assert "number value 95 % interval remark" in words
    assert "npv@0.0" in words
    assert "is undefined" in words
    assert "sex=F" in words
    assert "95 %, from resamples at the parties" in words


def test_a_suppressed_group_is_said_to_be(fheval: Session, hospitals: list[str]) -> None:
    options = ["--score-column", "new", "--group-column", "sex", "--minimum-group", "100", "--json", "-"]
    result = fheval("evaluate", *hospitals, *options).json()
    # No party holds a hundred of either sex: neither is even named.
    assert [row["group"] for row in result["results"]] == [None]


def test_quiet_prints_a_line_for_each_number(fheval: Session, hospitals: list[str]) -> None:
    done = fheval("evaluate", *hospitals, "--score-column", "new", "--metric", "auc", "--metric", "f1", "--quiet")
    lines = [line.split("\t") for line in done.out.splitlines()]
    assert [line[0] for line in lines] == ["auc new", "f1@0.5 new"]
    assert all(0 < float(line[1]) < 1 for line in lines)


def test_classes_by_the_name_of_their_columns(fheval: Session, tmp_path: Path) -> None:
    path = tmp_path / "animals.csv"
    path.write_text("label,p_cat,p_dog,p_owl\ncat,0.8,0.1,0.1\ndog,0.1,0.7,0.2\nowl,0.3,0.3,0.4\ncat,0.5,0.4,0.1\n")
    classes = [word for name in ("cat", "dog", "owl") for word in ("--class", name)]
    party = ["--party", str(path), "--minimum-cohort", "1", "--score-column", "p", *classes]
    options = ["--metric", "recall@0.35", "--precision", "exact", "--json", "-"]
    result = fheval("evaluate", *party, *options).json()
    found = {row["class"]: row["value"] for row in result["results"]}
    assert found == {"cat": 1.0, "dog": 1.0, "owl": 1.0, "macro": 1.0}


def test_regression(fheval: Session, tmp_path: Path) -> None:
    path = tmp_path / "pressure.csv"
    path.write_text("label,score\n120,118\n95,99\n140,150\n")
    options: list[str | Path] = [
        "--party",
        path,
        "--minimum-cohort",
        "1",
        "--metric",
        "mae",
        "--metric",
        "r2",
        "--precision",
        "exact",
    ]
    result = fheval("evaluate", *options, "--target-range", "60:220", "--json", "-").json()
    assert [row["value"] for row in result["results"]] == pytest.approx([16 / 3, 1 - 120 / 1016.6667], abs=1e-4)
    for wrong in ("60", "60:low", "220:60"):
        refused = fheval("evaluate", *options, "--target-range", wrong)
        assert refused.status == 2
        assert "range" in refused.err


def test_a_curve_needs_consent(fheval: Session, hospitals: list[str]) -> None:
    options = ["evaluate", *hospitals, "--score-column", "new", "--release", "curve", "--decision-points", "11"]
    refused = fheval(*options)
    assert (refused.status, refused.out) == (2, "")
    assert "curves are not allowed" in refused.err
    result = fheval(*options, "--allow-curves", "--json", "-").json()
    assert [row["metric"] for row in result["results"]] == ["auc", "average-precision", "ks", "ece"]
    assert len(result["curves"][0]["true_positives"]) == 11
    assert "which say far more than a metric" in " ".join(
        fheval(*options, "--allow-curves").out.replace("│", " ").split()
    )


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--metric", "aucc"], 2, "There is no metric 'aucc'"),
        (["--metric", "auc@0.5"], 2, "takes no threshold"),
        (["--ci", "0.99", "--replicates", "20"], 2, "do not carry an interval"),
        (["--metric", "f1", "--protocol", "paper-malicious"], 2, "one AUC a round"),
        (["--group-column", "ward"], 2, "no group column 'ward'"),
        (["--metric", "specificity@2"], 2, "no probability"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    fheval: Session, hospitals: list[str], options: list[str], status: int, message: str
) -> None:
    done = fheval("evaluate", *hospitals, "--score-column", "new", *options)
    assert (done.status, done.out) == (status, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_all_undefined_is_refused_by_the_protocol(fheval: Session, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,score\n1,0.5\n")
    done = fheval("evaluate", "--party", path, "--minimum-cohort", "1", "--metric", "specificity")
    assert done.status == 1
    assert done.err.startswith("specificity@0.5 is undefined: no sample is negative")


def test_simulate_takes_metrics_and_intervals(fheval: Session, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 300)
    np.savetxt(tmp_path / "y.txt", labels, fmt="%d")
    np.savetxt(tmp_path / "s.txt", np.clip(0.3 * labels + 0.7 * rng.random(300), 0, 1))
    files: list[str | Path] = ["--labels", tmp_path / "y.txt", "--scores", tmp_path / "s.txt", "--parties", "4"]
    options = ["--metric", "auc", "--metric", "log-loss", "--ci", "0.9", "--replicates", "40", "--json", "-"]
    result = fheval("simulate", *files, *options).json()
    for row in result["results"]:
        assert row["low"] < row["value"] < row["high"]
