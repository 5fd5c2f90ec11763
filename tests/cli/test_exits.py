"""How commands end: the status says who is to blame, and one sentence says what to do."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from cli.session import Session, command, real_process
from fheval import errors
from fheval.cli import status_of

UNUSABLE = {
    errors.ConfigError,
    errors.InputError,
    errors.EngineError,
    errors.CapacityError,
    errors.PrecisionError,
}
REFUSED = {
    errors.LocalProtocolError,
    errors.UndefinedMetric,
    errors.CohortTooSmall,
    errors.TransportError,
}
REFUSED_WITH_CULPRIT = {errors.RemoteProtocolError, errors.VerificationFailed}


def _subclasses(kind: type[errors.FhevalError]) -> set[type[errors.FhevalError]]:
    below = {each for each in kind.__subclasses__() if each.__module__ == errors.__name__}
    return below.union(*(_subclasses(each) for each in below)) if below else set()


def test_every_error_has_its_status() -> None:
    assert _subclasses(errors.FhevalError) == UNUSABLE | REFUSED | REFUSED_WITH_CULPRIT
    assert {status_of(kind("Why.")) for kind in UNUSABLE} == {2}
    assert {status_of(kind("Why.")) for kind in REFUSED} == {1}
    assert {status_of(kind("Why.", step="submit", culprit="b")) for kind in REFUSED_WITH_CULPRIT} == {1}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.VerificationFailed(), 1),
        (errors.RemoteProtocolError("Party b lied. Start anew.", step="submit", culprit="b"), 1),
        (errors.CapacityError("Too many points. Use fewer."), 2),
    ],
)
def test_an_error_of_the_round_is_one_sentence_and_nothing_is_written(
    fheval: Session,
    parties: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: errors.FhevalError,
    status: int,
) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr("fheval.cli.evaluate.evaluate_study", refuse)
    target = tmp_path / "result.json"
    target.write_text("older")
    done = fheval("evaluate", *parties, "--json", target)
    assert (done.status, done.out, done.err) == (status, "", f"{error}\n")
    assert target.read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parties", "result.json"]


def test_too_few_parties_are_refused_by_the_protocol(fheval: Session, parties: list[str]) -> None:
    done = fheval("evaluate", *parties[:4], "--json", "-")
    assert (done.status, done.out) == (1, "")
    assert "minimum cohort is 3" in done.err
    assert fheval("evaluate", *parties[:4], "--minimum-cohort", "2").status == 0


@pytest.mark.parametrize("protocol", ["padded", "padded-verified", "paper-semi-honest", "paper-malicious"])
def test_one_class_in_all_is_an_undefined_metric(fheval: Session, tmp_path: Path, protocol: str) -> None:
    (tmp_path / "a.csv").write_text("label,score\n1,0.5\n1,0.25\n")
    done = fheval("evaluate", *["--party", str(tmp_path / "a.csv")] * 3, "--protocol", protocol)
    assert (done.status, done.out) == (1, "")
    assert "is undefined" in done.err
    assert "one class only" in done.err


def test_more_samples_than_the_public_bound_are_refused(fheval: Session, parties: list[str]) -> None:
    done = fheval("evaluate", *parties, "--max-samples", "50")
    assert done.status == 2
    assert "72 samples" in done.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "Missing option '--party'. Try 'fheval evaluate --help'."),
        (["--party", "a.csv", "--protocol", "secret"], "There is no protocol 'secret'. Choose one of: padded,"),
        (["--party", "a.csv", "--precision", "fine"], "--precision fine is no width between 0 and 1."),
        (["--party", "a.csv", "--precision", "nan"], "--precision nan is no width between 0 and 1."),
        (["--party", "a.csv", "--precision", "1"], "--precision 1 is no width between 0 and 1."),
        (["--party", "a.csv", "--grid", "evn"], "--grid evn is none of wide, even, logit, and no file."),
        (["--party", "a.csv", "--decision-points", "1"], "A curve needs at least 2 decision points, not 1."),
        (["--party", "a.csv", "--decision-points", "many"], "Invalid value for '--decision-points'"),
        (["--party", "a.csv", "--packing", "tight"], "Invalid value for '--packing': "),
        (["--party", "a.csv", "--scores", "a.txt"], "Invalid value for '--score-kind' / '--scores': "),
        (["--party", "a.csv", "--splits", "0"], "Invalid value for '--splits'"),
        (["--party", "a.csv", "--json", "none/a.json"], "--json none/a.json: there is no directory none."),
        (["--party", "a.csv", "--json", "."], "--json .: this is a directory."),
        (["a.csv"], "Missing option '--party'"),
    ],
)
def test_bad_usage(fheval: Session, options: list[str], sentence: str) -> None:
    done = fheval("evaluate", *options)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(sentence)
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "options", [["--decision-points", "4"], ["--score-kind", "logit"]], ids=["number of points", "kind of scores"]
)
def test_listed_points_leave_nothing_to_choose(
    fheval: Session, parties: list[str], tmp_path: Path, options: list[str]
) -> None:
    (tmp_path / "points.txt").write_text("1\n0.5\n0.25\n0\n")
    done = fheval("evaluate", *parties, "--grid", tmp_path / "points.txt", *options)
    assert done.status == 2
    assert f"Leave {options[0]} out." in done.err


def test_an_engine_that_does_not_load(capsys: pytest.CaptureFixture[str], parties: list[str]) -> None:
    done = Session(capsys)("evaluate", *parties, "--engine", "nothing")
    assert (done.status, done.err) == (2, "There is no engine 'nothing'. Choose one of: openfhe, seal.\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_closed_is_noticed_before_the_round(
    fheval: Session, parties: list[str], tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    done = fheval("evaluate", *parties, "--json", closed / "result.json")
    assert done.status == 2
    assert "may not write there" in done.err


def test_a_full_disk_leaves_no_part_of_a_file(
    fheval: Session, parties: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, target: Path) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(Path, "replace", full)
    done = fheval("evaluate", *parties, "--json", tmp_path / "result.json")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"{tmp_path / 'result.json'}: No space left on device.")
    assert [path.name for path in tmp_path.iterdir()] == ["parties"]


def test_an_interrupted_command_ends_quietly(tmp_path: Path) -> None:
    pipe = tmp_path / "slow.csv"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [*command(), "evaluate", *["--party", str(pipe)] * 3, "--json", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # Opening succeeds when the command opens the other end; from then on it waits for rows.
    with pipe.open("wb"):
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            # It came between Python's last look at signals and its read, where no program hears it.
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_a_reader_that_left_is_no_error_of_ours(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen([*command(), *arguments], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, "")


def test_a_character_that_the_terminal_lacks_is_replaced(parties: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = real_process("evaluate", "--party", "größe.csv", "--minimum-cohort", "1")
    assert (done.status, done.out) == (2, "")
    assert "Traceback" not in done.err
    assert real_process("--help").status == 0
