"""`--report`: the page is written whole, beside whatever else was asked for, and refused early where it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.session import Session


def test_evaluate_writes_the_page_beside_the_json(fheval: Session, parties: list[str], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = fheval("evaluate", *parties, "--json", "-", "--report", page)
    assert (done.status, done.err) == (0, "")
    text = page.read_text(encoding="utf-8")
    assert f"{done.json()['auc']:.4f}" in text
    assert text.startswith("<!doctype html>")
    assert text.endswith("</html>\n")
    for name in ("north.csv", "south.csv", "east.csv"):
        assert name in text


def test_people_see_the_panel_too(fheval: Session, parties: list[str], tmp_path: Path) -> None:
    done = fheval("evaluate", *parties, "--report", tmp_path / "report.html")
    assert done.status == 0
    assert "AUC over all parties" in done.out


def test_a_name_of_a_file_stays_text(fheval: Session, files: list[Path], tmp_path: Path) -> None:
    hostile = files[0].rename(files[0].with_name("<img src=x onerror=alert(1)>.csv"))
    words = [word for path in (hostile, *files[1:]) for word in ("--party", str(path))]
    page = tmp_path / "report.html"
    assert fheval("evaluate", *words, "--report", page).status == 0
    text = page.read_text(encoding="utf-8")
    assert "&lt;img src=x onerror=alert(1)&gt;.csv" in text
    assert "<img" not in text


def test_an_exact_release_is_written_with_its_warning(fheval: Session, parties: list[str], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert fheval("evaluate", *parties, "--protocol", "padded-verified", "--report", page).status == 0
    assert "This release is exact, which says more than the number" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("where", "complaint"), [("missing/report.html", "there is no directory"), (".", "this is a directory")]
)
def test_a_page_that_cannot_be_written_is_refused_before_the_round(
    fheval: Session, parties: list[str], tmp_path: Path, where: str, complaint: str
) -> None:
    done = fheval("evaluate", *parties, "--report", tmp_path / where)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("--report ")
    assert complaint in done.err


def test_a_refused_round_leaves_the_older_page_alone(fheval: Session, parties: list[str], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("older", encoding="utf-8")
    assert fheval("evaluate", *parties[:4], "--report", page).status == 1
    assert page.read_text(encoding="utf-8") == "older"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["report.html"]
