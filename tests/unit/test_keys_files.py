"""Files of secrets: their mode from the first byte, and the refusals when they are read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fheval.consortium import files
from fheval.errors import ConfigError
from fheval.secrets import Secret


@pytest.fixture(autouse=True)
def _open_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_file_has_mode_0600_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "k"
    files.write_secret(path, Secret(b"hush"))
    assert mode(path) == 0o600
    assert files.read_secret(path).reveal() == b"hush"


def test_a_secret_file_is_closed_before_its_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("the machine died here")

    monkeypatch.setattr(os, "fchmod", fail)
    with pytest.raises(OSError, match="died"):
        files.write_secret(tmp_path / "k", Secret(b"hush"))
    assert mode(tmp_path / "k") == 0o600


def test_a_secret_file_is_never_overwritten(tmp_path: Path) -> None:
    files.write_secret(tmp_path / "k", Secret(b"old"))
    with pytest.raises(ConfigError, match="already exists"):
        files.write_secret(tmp_path / "k", Secret(b"new"))
    assert (tmp_path / "k").read_bytes() == b"old"


def test_a_link_is_not_followed_when_a_secret_is_written(tmp_path: Path) -> None:
    (tmp_path / "k").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="already exists"):
        files.write_secret(tmp_path / "k", Secret(b"hush"))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("wrong", [0o644, 0o640, 0o660, 0o604, 0o700, 0o400])
def test_another_mode_is_refused_with_the_remedy(tmp_path: Path, wrong: int) -> None:
    path = tmp_path / "k"
    files.write_secret(path, Secret(b"hush"))
    path.chmod(wrong)
    with pytest.raises(ConfigError, match=f"mode {wrong:04o}.*chmod 600 {path}"):
        files.read_secret(path)


def test_the_mode_of_the_file_counts_and_not_that_of_a_link(tmp_path: Path) -> None:
    files.write_secret(tmp_path / "k", Secret(b"hush"))
    (tmp_path / "k").chmod(0o644)
    (tmp_path / "link").symlink_to(tmp_path / "k")
    with pytest.raises(ConfigError, match="chmod 600"):
        files.read_secret(tmp_path / "link")


def test_a_secret_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_secret(tmp_path / "k", Secret(b"hush"))
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="belongs to user id"):
        files.read_secret(tmp_path / "k")


def test_what_is_missing_or_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file"):
        files.read_secret(tmp_path / "absent")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigError, match="not a regular file"):
        files.read_secret(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="not a regular file"):
        files.read_public(tmp_path)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_READ_LIMIT", 3)
    (tmp_path / "fits").write_bytes(b"abc")
    (tmp_path / "big").write_bytes(b"abcd")
    assert files.read_public(tmp_path / "fits") == b"abc"
    with pytest.raises(ConfigError, match="larger than 3 bytes"):
        files.read_public(tmp_path / "big")


def test_a_new_directory_is_closed_and_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "kit"
    with files.new_directory(target) as building:
        files.write_secret(building / "k", Secret(b"hush"))
        assert not target.exists()
    assert mode(target) == 0o700
    assert [path.name for path in target.iterdir()] == ["k"]
    assert [path.name for path in target.parent.iterdir()] == ["kit"]


def test_a_failure_leaves_no_directory_behind(tmp_path: Path) -> None:
    def build() -> None:
        with files.new_directory(tmp_path / "kit") as building:
            files.write_secret(building / "k", Secret(b"hush"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()
    assert list(tmp_path.iterdir()) == []


def test_an_existing_directory_or_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "mine").write_text("precious")
    with pytest.raises(ConfigError, match="already exists"), files.new_directory(tmp_path / "kit"):
        pass
    with pytest.raises(ConfigError, match="already exists"), files.new_directory(tmp_path / "kit" / "mine"):
        pass
    assert (tmp_path / "kit" / "mine").read_text() == "precious"


def test_replacing_leaves_one_file(tmp_path: Path) -> None:
    files.replace_public(tmp_path / "p", b"1")
    files.replace_public(tmp_path / "p", b"2")
    assert [path.name for path in tmp_path.iterdir()] == ["p"]
    assert files.read_public(tmp_path / "p") == b"2"


@pytest.mark.parametrize("wrong", [0o755, 0o750, 0o701, 0o770])
def test_an_open_directory_is_refused(tmp_path: Path, wrong: int) -> None:
    folder = files.private_subdirectory(tmp_path / "kit")
    files.check_private_directory(folder)
    folder.chmod(wrong)
    with pytest.raises(ConfigError, match=f"chmod 700 {folder}"):
        files.check_private_directory(folder)


def test_a_missing_directory_and_that_of_another_user_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="no directory"):
        files.check_private_directory(tmp_path / "absent")
    folder = files.private_subdirectory(tmp_path / "kit")
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="belongs to user id"):
        files.check_private_directory(folder)


def test_a_file_that_is_replaced_is_on_disk_before_its_name_and_its_name_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power cut may leave an empty file under the name, or the older one."""
    done: list[str] = []
    fsync, rename = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        done.append(f"{kind} on disk")
        fsync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        done.append("renamed")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    files.replace_private(tmp_path / "k", b"new")
    assert done == ["file on disk", "renamed", "folder on disk"]
