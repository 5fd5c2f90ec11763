"""From requests to vaults that serve, with one bulletin and a small file for each member."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest

from cli.session import Session
from fheval.consortium import load_kit
from fheval.errors import ConfigError
from fheval.party.accepted import AcceptedStudies
from fheval.party.core import utc_now
from fheval.party.member_file import MemberFile
from fheval.party.process import VaultFiles
from vault.trial import write_scores

NAMES = ("alder", "birch", "cedar")
FINGERPRINT = re.compile(r"([0-9a-f]{4}-){7}[0-9a-f]{4}")


def fingerprint_in(text: str) -> str:
    found = FINGERPRINT.search(text)
    assert found is not None, text
    return found[0]


@pytest.fixture(autouse=True)
def _nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions get no answer, as under systemd."""
    monkeypatch.setattr("sys.stdin", StringIO(""))


@pytest.fixture
def heard(fheval: Session, tmp_path: Path) -> dict[str, str]:
    """Requests in a folder, an authority, and every fingerprint that was read over the telephone."""
    told = {
        name: fheval("consortium", "request", tmp_path / name, name, "--out", tmp_path / f"{name}.fhev")
        for name in NAMES
    }
    place = ("--aggregator", "127.0.0.1:9092", "--out", tmp_path / "hub.fhev")
    told["hub"] = fheval("consortium", "request", tmp_path / "hub", "hub", *place)
    told["authority"] = fheval("consortium", "init", tmp_path / "authority", "--name", "Trial")
    (tmp_path / "one.toml").write_text('name = "one"\nreveals = "counts"\ndecision_points = 20\n')
    return {name: fingerprint_in(each.out) for name, each in told.items()}


def publish(fheval: Session, root: Path, heard: dict[str, str]) -> None:
    files = [root / f"{name}.fhev" for name in ("hub", *NAMES)]
    said = [f"--heard={name}={heard[name]}" for name in ("hub", *NAMES)]
    done = fheval(
        "consortium",
        "publish",
        root / "authority",
        *files,
        *said,
        "--study",
        root / "one.toml",
        "--out",
        root / "c.fhev",
    )
    assert done.status == 0, done.err
    assert fingerprint_in(done.out) == heard["authority"]


def member_file(root: Path, heard: dict[str, str], **changes: str) -> Path:
    write_scores(root / "scores.csv", seed=1)
    lines = {"kit": "alder", "consortium": "c.fhev", "authority": heard["authority"]} | changes
    text = "".join(f'{name} = "{value}"\n' for name, value in lines.items())
    path = root / "member.toml"
    path.write_text(f'{text}[studies.one]\ndata = "scores.csv"\nlineage = "icu"\n')
    return path


def test_a_member_accepts_what_its_file_says(fheval: Session, tmp_path: Path, heard: dict[str, str]) -> None:
    publish(fheval, tmp_path, heard)
    path = member_file(tmp_path, heard)
    done = fheval("vault", "accept", path, "--yes")
    assert done.status == 0, done.err
    assert "policy version 1 of Trial" in done.out
    files = VaultFiles.of(tmp_path / "alder")
    with AcceptedStudies.read(files.studies) as studies:
        (standing,) = studies.all()
    assert standing.acceptance.data == str(tmp_path / "scores.csv")
    assert standing.acceptance.lineage == "icu"
    assert fheval("vault", "accept", path).out == "", "what was accepted is not asked again"


def test_nobody_there_to_answer_means_no(fheval: Session, tmp_path: Path, heard: dict[str, str]) -> None:
    publish(fheval, tmp_path, heard)
    done = fheval("vault", "accept", member_file(tmp_path, heard))
    assert "Study one is not accepted" in done.err
    assert not VaultFiles.of(tmp_path / "alder").studies.exists()


def test_a_wrong_fingerprint_anywhere_enrols_nobody(fheval: Session, tmp_path: Path, heard: dict[str, str]) -> None:
    files = [tmp_path / f"{name}.fhev" for name in ("hub", *NAMES)]
    said = [f"--heard={name}={heard['alder']}" for name in ("hub", *NAMES)]
    done = fheval("consortium", "publish", tmp_path / "authority", *files, *said, "--out", tmp_path / "c.fhev")
    assert done.status == 2
    assert "Do not enrol it" in done.err
    assert not list((tmp_path / "authority" / "members").iterdir())
    assert not (tmp_path / "c.fhev").exists()


def test_who_was_not_heard_is_not_enrolled(fheval: Session, tmp_path: Path, heard: dict[str, str]) -> None:
    """The question is asked; no answer comes."""
    done = fheval(
        "consortium", "publish", tmp_path / "authority", tmp_path / "alder.fhev", "--out", tmp_path / "c.fhev"
    )
    assert done.status != 0
    assert not list((tmp_path / "authority" / "members").iterdir())
    assert heard["alder"] not in done.out, "the operator must hear it, not copy it"
    stray = fheval(
        *("consortium", "publish", tmp_path / "authority", tmp_path / "alder.fhev"),
        *("--heard", f"elm={heard['alder']}", "--out", tmp_path / "c.fhev"),
    )
    assert "fits no request" in stray.err


def test_a_newer_bulletin_is_taken_over_and_an_older_one_is_not(
    fheval: Session, tmp_path: Path, heard: dict[str, str]
) -> None:
    publish(fheval, tmp_path, heard)
    path = member_file(tmp_path, heard)
    fheval("vault", "accept", path, "--yes")
    older = (tmp_path / "c.fhev").read_bytes()
    again = ("--releases-per-lineage", "5", "--out", tmp_path / "c.fhev")
    assert fheval("consortium", "publish", tmp_path / "authority", *again).status == 0
    assert "policy version 2" in fheval("vault", "accept", path, "--yes").out
    (tmp_path / "c.fhev").write_bytes(older)
    assert "goes on with 2" in fheval("vault", "accept", path, "--yes").err
    assert load_kit(tmp_path / "alder", now=utc_now()).policy.version == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"authority": "0000-" * 7 + "0000"}, "Do not use it"),
        ({"consortium": "none.fhev"}, "none.fhev"),
        ({"consortium": "one.toml"}, "no bulletin"),
        ({"kit": "elm"}, "There is no kit"),
        ({"kitt": "alder"}, "kitt"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(
    fheval: Session, tmp_path: Path, heard: dict[str, str], change: dict[str, str], reason: str
) -> None:
    publish(fheval, tmp_path, heard)
    done = fheval("vault", "up", member_file(tmp_path, heard, **change), "--yes")
    assert done.status == 2
    assert reason in done.err


def test_a_study_that_the_authority_has_not_signed_is_named(
    fheval: Session, tmp_path: Path, heard: dict[str, str]
) -> None:
    publish(fheval, tmp_path, heard)
    path = member_file(tmp_path, heard)
    path.write_text(path.read_text().replace("studies.one", "studies.two"))
    done = fheval("vault", "up", path, "--yes")
    assert done.status == 2
    assert "no study 'two'; it has: one" in done.err


@pytest.mark.parametrize("text", ["kit = ", "kit = 7", '[studies.one]\ndata = "a"\n', b"\xff"])
def test_a_broken_file_is_named(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "member.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=r"member\.toml"):
        MemberFile.read(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        MemberFile.read(tmp_path / "none.toml")
