"""Files that are damaged, or change while they are counted: an error, never a crash or fewer rows than there are."""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fheval.counting import count_file, delimited, npy, parquet
from fheval.counting.readers import read_chunks, read_pair
from fheval.errors import InputError

ROWS = 20_000


@pytest.fixture(autouse=True)
def small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npy, "STRETCH_ROWS", 1000)
    monkeypatch.setattr(parquet, "SLICE_ROWS", 1000)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1 << 14)


def written(path: Path) -> Path:
    labels, scores = np.arange(ROWS) % 2, np.linspace(0, 1, ROWS)
    if path.suffix == ".npy":
        np.save(path, np.stack([labels, scores], axis=1))
    elif path.suffix == ".parquet":
        pl.DataFrame({"label": labels, "score": scores}).write_parquet(path)
    else:
        head = "label,score\n" if path.suffix == ".csv" else ""
        path.write_text(head + "".join(f"{y},{s:.6f}\n" for y, s in zip(labels, scores, strict=True)))
    return path


def later(path: Path) -> None:
    """Say that the file was written a second later, where clocks of files are coarse."""
    found = path.stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 10**9))


@pytest.mark.parametrize("ending", ["csv", "txt", "npy", "parquet"])
def test_a_file_that_does_not_change_counts_all_its_rows(tmp_path: Path, ending: str) -> None:
    assert count_file(written(tmp_path / f"a.{ending}")).samples == ROWS


@pytest.mark.parametrize("ending", ["csv", "txt", "npy"])
@pytest.mark.parametrize("left", [0.0, 0.3, 0.9])
def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path: Path, ending: str, left: float) -> None:
    """Cut at the end of a row where rows are text: what is left looks whole."""
    path = written(tmp_path / f"a.{ending}")
    chunks = read_chunks(path)
    next(chunks)
    cut = int(left * path.stat().st_size)
    if ending != "npy":
        cut = path.read_bytes().rfind(b"\n", 0, cut) + 1
    os.truncate(path, cut)
    with pytest.raises(InputError, match=r"has changed while it was read|shorter than its header says"):
        list(chunks)


@pytest.mark.parametrize("ending", ["csv", "txt", "npy", "parquet"])
def test_a_file_that_is_replaced_while_it_is_read_is_refused(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path / f"a.{ending}")
    chunks = read_chunks(path)
    next(chunks)
    os.replace(written(tmp_path / f"b.{ending}"), path)
    later(path)
    with pytest.raises(InputError, match="has changed while it was read"):
        list(chunks)


def test_a_file_of_scores_alone_is_watched_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels, scores = tmp_path / "y.npy", tmp_path / "s.npy"
    np.save(labels, np.arange(ROWS) % 2)
    np.save(scores, np.linspace(0, 1, ROWS))
    read = npy._Form._read

    def growing(form: npy._Form, *where: object) -> object:
        if form.path == scores:
            later(scores)
        return read(form, *where)  # type: ignore[arg-type]

    assert len(read_pair(labels, scores)[0]) == ROWS
    monkeypatch.setattr(npy._Form, "_read", growing)
    with pytest.raises(InputError, match="has changed while it was read"):
        read_pair(labels, scores)


def test_a_pipe_may_change(tmp_path: Path) -> None:
    rows = written(tmp_path / "a.txt").read_bytes()
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)

    writer = threading.Thread(target=pipe.write_bytes, args=(rows,), daemon=True)
    writer.start()
    assert count_file(pipe).samples == ROWS
    writer.join()


def test_arrays_in_columns_are_read_like_others(tmp_path: Path) -> None:
    rows = np.stack([np.arange(ROWS) % 2, np.linspace(0, 1, ROWS)], axis=1)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "columns.npy", np.asfortranarray(rows))
    assert count_file(tmp_path / "rows.npy") == count_file(tmp_path / "columns.npy")


@pytest.mark.parametrize("end", ["\r", "\r\r"])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_a_header_that_ends_in_a_carriage_return_alone_swallows_no_row(tmp_path: Path, end: str, ends: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"label,score{end}1,0.9{ends}0,0.4{ends}1,0.3{ends}".encode())
    with pytest.raises(InputError, match="a carriage return alone ends the header"):
        count_file(path)


def header(text: str, version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(text) + 1)
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + b"\n" + bytes(64)


SHAPES = ["-2, 2", "2, -2", "10**9, 2", "9" * 20 + ", 2", "True, 2", "2.5, 2", "'a', 2", "1" + "0" * 5000]
TYPES = ["'|O'", "''", "'|V0'", "5", "[]", "[('a',)]", "[('label', '<f8'), ('score',)]", "(" * 150, "'<f8", "lambda: 1"]


HEADERS = [
    *(header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({each}), }}") for each in SHAPES),
    *(header(f"{{'descr': {each}, 'fortran_order': False, 'shape': (2, 2), }}") for each in TYPES),
    *(header("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }", version)[:9] for version in (1, 2, 3)),
    header("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }", 9),
    header("{'descr': '<f8', 'fortran_order': 5, 'shape': (2, 2), }"),
    header("{'descr': '<f8'"),
    header(""),
]


@pytest.mark.parametrize("number", range(len(HEADERS)))
def test_odd_headers_are_refused(tmp_path: Path, number: int) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(HEADERS[number])
    with pytest.raises(InputError, match=r"a\.npy"):
        count_file(path)
