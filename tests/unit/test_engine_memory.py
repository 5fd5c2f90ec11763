"""Files in memory, and what stands in for them where there are none."""

from __future__ import annotations

import gc
import os
import stat
from pathlib import Path

import pytest

from fheval.engines import container
from fheval.engines.container import MemoryFile


@pytest.fixture(params=["memory", "temporary file"])
def file(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemoryFile:
    if request.param == "temporary file":
        monkeypatch.setattr(container, "IN_MEMORY", False)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    elif not container.IN_MEMORY:
        pytest.skip("This system has no files in memory.")
    return MemoryFile()


def test_what_was_put_in_is_read_by_path(file: MemoryFile) -> None:
    for data in (b"a longer content", b"short", b"", b"x" * 100_000):
        assert Path(file.holding(data)).read_bytes() == data
        assert Path(file.holding(memoryview(data))).read_bytes() == data


def test_what_is_written_by_path_comes_out_and_stays_nowhere(file: MemoryFile) -> None:
    file.holding(b"what was there before, and is longer")
    assert file.written_by(lambda path: Path(path).write_bytes(b"new")) == b"new"
    assert Path(file.path).read_bytes() == b""


def test_wipe(file: MemoryFile) -> None:
    file.holding(b"hunter2")
    file.wipe()
    assert Path(file.path).read_bytes() == b""


def test_a_file_in_memory_has_no_name_on_a_disk() -> None:
    if not container.IN_MEMORY:
        pytest.skip("This system has no files in memory.")
    assert os.readlink(MemoryFile().path).startswith("/memfd:")


def test_a_temporary_file_is_private_and_goes_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(container, "IN_MEMORY", False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    file = MemoryFile()
    assert Path(file.path).parent == tmp_path
    assert stat.S_IMODE(os.stat(file.path).st_mode) == 0o600
    del file
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_descriptors_are_closed() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        MemoryFile().holding(b"x")
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 2
