"""`fheval study`: a study to begin with, in words, and what it gives away."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.session import Session
from fheval.cli.study import trial_of
from fheval.study import Study

FIVE = 'metrics = ["precision", "recall", "specificity", "npv", "accuracy"]\nleast_rows = 1000\nrounds = 1\n'


def written(folder: Path, text: str) -> Path:
    file = folder / "study.toml"
    file.write_text(text)
    return file


def test_a_new_study_passes_its_own_check(fheval: Session, tmp_path: Path) -> None:
    file = tmp_path / "my study.toml"
    assert fheval("study", "new", file).status == 0
    assert Study.from_file(file).name == "my-study"
    done = fheval("study", "check", file)
    assert (done.status, done.err) == (0, "")
    assert "stay open" in done.out
    again = fheval("study", "new", file)
    assert again.status == 2
    assert "exists already" in again.err


def test_show_tells_it_in_words(fheval: Session, tmp_path: Path) -> None:
    done = fheval("study", "show", written(tmp_path, FIVE))
    assert (done.status, done.err) == (0, "")
    assert "precision, recall, specificity, npv and accuracy" in done.out


def test_the_contract_of_check(fheval: Session, tmp_path: Path) -> None:
    done = fheval("study", "check", written(tmp_path, FIVE), "--json", "-")
    assert done.status == 1
    found = done.json()
    assert {"reveals", "candidates", "precision_needed", "bytes", "numbers"} <= set(found)
    assert (found["reveals"], found["numbers"]) == ("counts", 5)
    assert found["candidates"] < 1
    assert 1e-4 < found["precision_needed"] < 0.1
    assert all(isinstance(size, int) and size > 0 for size in found["bytes"].values())
    assert all(found["seconds"][role] > 0 for role in ("party", "leader", "aggregator"))
    assert "Time on this machine, with 3 parties" in fheval("study", "check", written(tmp_path, FIVE)).out


def test_counts_are_an_informed_choice(fheval: Session, tmp_path: Path) -> None:
    done = fheval("study", "check", written(tmp_path, FIVE + 'reveals = "counts"\n'))
    assert (done.status, done.err) == (0, "")


def test_the_precision_that_is_proposed_passes(fheval: Session, tmp_path: Path) -> None:
    needed = fheval("study", "check", written(tmp_path, FIVE), "--json", "-").json()["precision_needed"]
    assert fheval("study", "check", written(tmp_path, FIVE + f"precision = {needed}\n")).status == 0


def test_more_rows_reveal_less(fheval: Session, tmp_path: Path) -> None:
    assert fheval("study", "check", written(tmp_path, FIVE), "--rows", "1000000").status == 0


def test_the_sizes_are_those_of_a_round(fheval: Session, tmp_path: Path) -> None:
    """Whatever is asked, and with other data and parties."""
    file = written(tmp_path, 'metrics = ["auc", "f1"]\ndecision_points = 30\n')
    told = fheval("study", "check", file, "--json", "-").json()["bytes"]
    parties: list[str | Path] = []
    for number in range(3):
        data = tmp_path / f"{number}.csv"
        data.write_text("label,score\n" + "".join(f"{row % 2},0.{row % 9}\n" for row in range(100 + 50 * number)))
        parties += ["--party", data]
    found = fheval("evaluate", *parties, "--study", file, "--json", "-").json()["bytes"]
    assert found == pytest.approx(told, rel=0.01)


@pytest.mark.parametrize(
    "text",
    [
        'classes = ["a", "b", "c"]\ndecision_points = 20\n',
        'metrics = ["mae", "r2"]\ntarget_range = [10, 120]\n',
        "interval = 0.9\nreplicates = 40\nby_cluster = true\ndecision_points = 20\n",
        'group_column = "sex"\ndecision_points = 20\n',
        'release = "curve"\nreveals = "counts"\ndecision_points = 20\n',
        'models = ["old", "new"]\ndecision_points = 20\nscores = "logit"\n',
    ],
)
def test_every_kind_of_study_has_sizes(fheval: Session, tmp_path: Path, text: str) -> None:
    done = fheval("study", "check", written(tmp_path, text), "--json", "-")
    assert done.err == ""
    assert done.json()["bytes"]["party_upload"] > 0


def rows_of(folder: Path) -> list[str | Path]:
    parties: list[str | Path] = []
    for number in range(3):
        data = folder / f"{number}.csv"
        data.write_text("label,score\n" + "".join(f"{row % 2},0.{row % 9}\n" for row in range(200)))
        parties += ["--party", data]
    return parties


def test_a_trial_says_that_its_numbers_give_the_counts(fheval: Session, tmp_path: Path) -> None:
    parties = rows_of(tmp_path)
    done = fheval("evaluate", *parties, "--metric", "accuracy", "--metric", "recall")
    assert done.status == 0
    assert "give away the counts" in done.out
    assert "give away the counts" not in fheval("evaluate", *parties).out
    coarse = fheval("evaluate", *parties, "--metric", "accuracy", "--precision", "0.1")
    assert "give away the counts" not in coarse.out


def test_a_trial_of_a_study_that_gives_more_than_it_says_is_refused(fheval: Session, tmp_path: Path) -> None:
    parties = rows_of(tmp_path)
    text = 'metrics = ["accuracy", "recall"]\nleast_rows = 500\nrounds = 1\n'
    refused = fheval("evaluate", *parties, "--study", written(tmp_path, text))
    assert refused.status == 1
    assert "says that it reveals ratios and gives the counts" in refused.err
    informed = fheval("evaluate", *parties, "--study", written(tmp_path, text + 'reveals = "counts"\n'))
    assert informed.status == 0


@pytest.mark.parametrize(
    "text",
    [
        'metrics = ["recall-gap"]\ngroup_column = "sex"\n',
        'metrics = ["brier"]\ngroup_column = "sex"\ngroups = ["F", "M"]\n',
        'metrics = ["concordance"]\ntarget_range = [0, 8]\ndecision_points = 20\n',
        'metrics = ["dor@0.999", "lr+@0.001", "precision@0.99", "auc-i2"]\ndecision_points = 5\n',
        'metrics = ["observed:10", "o/e:1", "expected:0.0101-0.0102"]\n',
        'metrics = ["observed:3", "dor@0.999", "npv@0.2"]\nscores = "logit"\n',
        'metrics = ["auc", "dor@7"]\ngrid = [9, 5, 1]\n',
        'metrics = ["lr-@0.9"]\nclasses = ["a", "b", "c"]\n',
    ],
)
def test_messages_of_any_study_are_measured(tmp_path: Path, text: str) -> None:
    """With rows of which everything that is asked has a value."""
    tried = trial_of(Study.from_file(written(tmp_path, text)))
    assert tried.bytes["party_upload"] > 0
    assert [row.error for row in tried.results if row.error] == []
