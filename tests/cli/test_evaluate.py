"""`fheval evaluate`: the pooled AUC from files, as JSON and for people."""

from __future__ import annotations

import json
import os
import re
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cli.conftest import Data
from cli.session import Session, real_process
from fheval import Counts, Grid
from fheval.protocols import PROTOCOLS
from fheval.version import __version__

FIELDS: dict[str, type | tuple[type, ...]] = {
    "protocol": str,
    "engine": str,
    "parties": int,
    "decision_points": int,
    "auc": float,
    "binning": (float, type(None)),
    "results": list,
    "precision": (float, str),
    "verified": (bool, type(None)),
    "soundness_bits": (float, type(None)),
    "seconds": dict,
    "bytes": dict,
    "fheval": str,
}


def pooled(data: Data, grid: int | Grid) -> float:
    return sum((Counts.from_scores(*each, grid) for each in data), start=Counts.zero(grid)).auc()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_json_is_one_object_with_the_fields_of_the_contract(
    fheval: Session, parties: list[str], data: Data, protocol: str
) -> None:
    done = fheval("evaluate", *parties, "--protocol", protocol, "--decision-points", "100", "--json", "-")
    assert (done.status, done.err) == (0, "")
    result = done.json()
    assert set(result) - {"hiding_bits"} == set(FIELDS)
    for name, kind in FIELDS.items():
        assert isinstance(result[name], kind), name
    keeper = PROTOCOLS[protocol].keeper
    assert set(result["seconds"]) == {"party", keeper, "aggregator", "online", "decrypt"}
    assert set(result["bytes"]) == {"party_upload", f"{keeper}_upload", "keys", "result"}
    assert 0 < result["seconds"]["online"] < result["seconds"]["aggregator"]
    assert (result["protocol"], result["parties"], result["decision_points"]) == (protocol, 3, 100)
    assert result["fheval"] == __version__
    tolerance = 1e-6 if result["precision"] == "exact" else result["precision"]
    assert result["auc"] == pytest.approx(pooled(data, 100), abs=tolerance)


def test_padded_with_1000_points_is_what_is_asked_for_by_default(fheval: Session, parties: list[str]) -> None:
    result = fheval("evaluate", *parties, "--json", "-").json()
    assert (result["protocol"], result["decision_points"], result["precision"]) == ("padded", 1000, 1e-4)
    assert "hiding_bits" in result


@pytest.mark.parametrize(("protocol", "verified"), [("padded", None), ("padded-verified", True)])
def test_json_says_whether_the_result_was_verified(
    fheval: Session, parties: list[str], protocol: str, verified: bool | None
) -> None:
    result = fheval("evaluate", *parties, "--protocol", protocol, "--json", "-").json()
    assert result["verified"] is verified
    assert (result["soundness_bits"] is None) == (verified is None)


def test_counting_is_part_of_a_partys_time(
    fheval: Session, parties: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(step=20)
    monkeypatch.setattr("fheval.protocols.play.perf_counter", lambda: next(clock))
    # Every party counts, submits, and one of them is told the result; a look at the clock takes 20 seconds here.
    seconds = fheval("evaluate", *parties, "--json", "-").json()["seconds"]
    assert seconds["party"] == pytest.approx((3 + 3 + 1) * 20 / 3)


def test_files_of_every_kind_may_be_mixed(fheval: Session, tmp_path: Path, data: Data) -> None:
    frame = pl.DataFrame({"id": [7] * len(data[0][0]), "y": data[0][0], "s": data[0][1]})
    frame.write_parquet(tmp_path / "a.parquet")
    np.save(tmp_path / "b.npy", np.column_stack(data[1]))
    np.savetxt(tmp_path / "c.txt", np.column_stack(data[2]), fmt=["%d", "%.17g"])
    files = [word for name in ("a.parquet", "b.npy", "c.txt") for word in ("--party", str(tmp_path / name))]
    done = fheval("evaluate", *files, "--precision", "exact", "--json", "-")
    assert done.json()["auc"] == pytest.approx(pooled(data, 1000), abs=1e-12)


def test_columns_are_named_by_options(fheval: Session, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("truth,label,model\n1,0,0.9\n0,1,0.1\n")
    options = ["--party", str(file), "--minimum-cohort", "1", "--label-column", "truth", "--score-column", "model"]
    assert fheval("evaluate", *options, "--precision", "exact", "--json", "-").json()["auc"] == 1.0


def test_a_logit_grid_is_used(fheval: Session, parties: list[str], data: Data) -> None:
    options = ["--grid", "logit", "--decision-points", "9", "--precision", "exact"]
    result = fheval("evaluate", *parties, *options, "--json", "-").json()
    assert result["auc"] == pytest.approx(pooled(data, Grid.logit(9)), abs=1e-12)
    assert result["auc"] != pytest.approx(pooled(data, 9), abs=1e-6)


def test_points_may_be_listed_in_a_file(fheval: Session, parties: list[str], data: Data, tmp_path: Path) -> None:
    points = [0.9, 0.55, 0.5, 0.2]
    (tmp_path / "points.txt").write_text("".join(f"{point}\n" for point in points))
    options = ["--grid", str(tmp_path / "points.txt"), "--precision", "exact", "--json", "-"]
    result = fheval("evaluate", *parties, *options).json()
    assert result["decision_points"] == 4
    assert result["auc"] == pytest.approx(pooled(data, Grid.explicit(points)), abs=1e-12)


@pytest.mark.parametrize("option", ["--score-kind", "--scores"])
def test_scores_may_be_logits(fheval: Session, tmp_path: Path, option: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text("label,score\n1,3.5\n0,-2\n1,-0.5\n")
    arguments = ["evaluate", "--party", str(file), "--minimum-cohort", "1", "--precision", "exact", "--json", "-"]
    assert fheval(*arguments).status == 2
    assert fheval(*arguments, option, "logit").json()["auc"] == 1.0


def test_compact_packing_halves_the_upload(fheval: Session, parties: list[str]) -> None:
    options = ["--protocol", "paper-semi-honest", "--json", "-"]
    paper = fheval("evaluate", *parties, *options, "--packing", "paper").json()
    compact = fheval("evaluate", *parties, *options, "--packing", "compact").json()
    assert compact["bytes"]["party_upload"] == pytest.approx(paper["bytes"]["party_upload"] / 2, rel=0.01)


def test_splits_and_runs_reach_the_protocol(fheval: Session, parties: list[str]) -> None:
    def soundness(*options: str) -> float:
        bits = fheval("evaluate", *parties, "--decision-points", "25", *options, "--json", "-").json()["soundness_bits"]
        assert isinstance(bits, float)
        return bits

    assert soundness("--protocol", "paper-malicious", "--splits", "9") == pytest.approx(103, abs=0.5)
    # A forged AUC, or a forged binning error: one bit less than either.
    assert soundness("--protocol", "padded-verified") == pytest.approx(81.8)
    assert soundness("--protocol", "padded-verified", "--runs", "3") == pytest.approx(124.8)


def test_people_see_a_panel_with_the_digits_that_mean_something(
    fheval: Session, parties: list[str], data: Data
) -> None:
    done = fheval("evaluate", *parties, "--precision", "1e-3")
    assert (done.status, done.err) == (0, "")
    ((figure, binning),) = re.findall(r"(0\.\d+) ± (0\.\d+)(?=  to within 0\.001)", done.out)
    assert len(figure) == len(binning) == len("0.123")
    assert float(figure) == pytest.approx(pooled(data, 1000), abs=2e-3)
    for fact in ("padded", "clear", "decision points  1,000", "follows the protocol", "aggregator", "kB"):
        assert fact in done.out
    assert "denominator divides" not in done.out


def test_an_exact_release_warns_of_what_it_reveals(fheval: Session, parties: list[str]) -> None:
    done = fheval("evaluate", *parties, "--protocol", "padded-verified")
    words = " ".join(done.out.replace("│", " ").split())
    assert "says more than the number" in words
    assert "verified yes, soundness 2^-81.8" in words
    assert re.search(r"0\.\d{6} exact ", words)


@pytest.mark.parametrize(
    ("protocol", "places"), [("padded", 4), ("padded-verified", 6), ("paper-semi-honest", 6), ("paper-malicious", 5)]
)
def test_a_protocol_shows_as_many_decimals_as_it_carries(
    fheval: Session, parties: list[str], protocol: str, places: int
) -> None:
    done = fheval("evaluate", *parties, "--protocol", protocol, "--quiet")
    assert re.fullmatch(rf"0\.\d{{{places}}}\n", done.out)


def test_quiet_prints_the_auc_alone(fheval: Session, parties: list[str]) -> None:
    done = fheval("evaluate", *parties, "--quiet")
    assert re.fullmatch(r"0\.\d{4}\n", done.out)
    assert done.err == ""


def test_json_goes_to_a_file_beside_the_panel(fheval: Session, parties: list[str], tmp_path: Path) -> None:
    target = tmp_path / "out" / "result.json"
    target.parent.mkdir()
    target.write_text("older")
    done = fheval("evaluate", *parties, "--json", target)
    assert "AUC over all parties" in done.out
    assert json.loads(target.read_text())["parties"] == 3
    assert [path.name for path in target.parent.iterdir()] == ["result.json"]
    assert fheval("evaluate", *parties, "--json", target, "--quiet").out == ""


def test_a_json_file_is_as_readable_as_any_new_file(fheval: Session, parties: list[str], tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        fheval("evaluate", *parties, "--json", tmp_path / "result.json")
    finally:
        os.umask(before)
    assert (tmp_path / "result.json").stat().st_mode & 0o777 == 0o640


def test_json_may_go_to_a_device(fheval: Session, parties: list[str]) -> None:
    assert fheval("evaluate", *parties, "--json", os.devnull).status == 0
    assert not Path(os.devnull).is_file()


def test_with_a_real_engine(files: list[Path], data: Data) -> None:
    parties = [word for path in files for word in ("--party", path.name)]
    done = real_process("evaluate", *parties, "--json", "-", module=False, folder=files[0].parent)
    assert (done.status, done.err) == (0, "")
    result = done.json()
    assert result["engine"] in ("openfhe", "seal")
    assert result["auc"] == pytest.approx(pooled(data, 1000), abs=result["precision"])
