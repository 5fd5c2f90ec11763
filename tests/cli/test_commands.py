"""The list of commands: what it shows, that every entry works, and that it loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cli.session import Session, real_process
from fheval.cli import COMMANDS, OF_THE_LAB, Deferred, installed_commands
from fheval.version import __version__

HEAVY = (
    *("numpy", "polars", "sklearn", "tenseal", "openfhe", "cryptography"),
    *("fheval.counting", "fheval.consortium", "fheval_lab.cli", "fheval_lab.attacks"),
)

NAMES = [name for name, _, _ in installed_commands()]


def test_version(fheval: Session) -> None:
    done = fheval("--version")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"fheval {__version__}\nengine ")


def test_help_lists_the_commands(fheval: Session) -> None:
    done = fheval("--help")
    assert (done.status, done.err) == (0, "")
    for name, _, summary in installed_commands():
        assert f" {name} " in done.out
        assert summary.split()[0] in done.out
    assert sorted(NAMES, key=lambda name: done.out.index(f"\n  {name} ")) == NAMES


def test_no_command_at_all_shows_the_help(fheval: Session) -> None:
    done = fheval()
    assert done.status == 2
    assert "Usage: fheval" in done.out + done.err


def test_a_misspelt_command(fheval: Session) -> None:
    done = fheval("simulat")
    assert (done.status, done.out) == (2, "")
    assert done.err == "No such command 'simulat'. Did you mean 'simulate'? Try 'fheval --help'.\n"


def test_a_command_misspelt_between_two(fheval: Session) -> None:
    done = fheval("evaluat")
    assert done.err == "No such command 'evaluat'. Did you mean 'evaluate', 'vault'? Try 'fheval --help'.\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_with_an_example(fheval: Session, name: str) -> None:
    done = fheval(name, "--help")
    assert (done.status, done.err) == (0, "")
    assert f"Usage: fheval {name}" in done.out
    assert f" fheval {name}" in done.out.replace(f"Usage: fheval {name}", "")
    assert "--install-completion" not in done.out


@pytest.mark.parametrize("name", ["demo", "evaluate", "simulate"])
def test_the_summary_in_the_list_is_the_commands_own(name: str) -> None:
    (entry,) = (entry for entry in COMMANDS if entry[0] == name)
    assert Deferred(*entry).load().help.splitlines()[0] == entry[2]


def test_the_help_says_what_arguments_are(fheval: Session) -> None:
    assert "One of table1" in fheval("reproduce", "--help").out
    assert "Name of the member" in fheval("consortium", "enroll", "--help").out


def test_python_m_fheval_and_the_script_are_the_same() -> None:
    as_module, as_script = real_process("--version"), real_process("--version", module=False)
    assert as_module == as_script
    assert as_module.out.startswith(f"fheval {__version__}\n")
    assert "Usage: fheval" in real_process("--help").out


def test_the_laboratory_adds_its_commands() -> None:
    assert [*(name for name, _, _ in COMMANDS), *OF_THE_LAB] == NAMES


@pytest.mark.parametrize("name", OF_THE_LAB)
def test_without_the_laboratory_its_commands_say_what_to_install(
    fheval: Session, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("fheval.cli.entry_points", lambda **_: ())
    for words in ([], ["--protocol", "padded"], ["--help"]):
        done = fheval(name, *words)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith(f"The command {name} is part of fheval-lab, which is not installed. Install ")
    assert f" {name} " not in fheval("--help").out


def test_help_and_version_load_nothing_heavy_of_their_own() -> None:
    program = f"""
import sys, fheval
before = set(sys.modules)
from fheval.cli import main
main(["--version"]), main(["--help"])
loaded = set(sys.modules) - before
print([name for name in {HEAVY!r} if name in loaded], file=sys.stderr)
print("fheval.cli" in loaded, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\nTrue\n"


def test_shells_complete_commands_and_protocols(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_FHEVAL_COMPLETE", "complete_bash")
    for words, position, expected in [
        ("fheval sim", 1, {"simulate"}),
        ("fheval evaluate --protocol padded", 3, {"padded", "padded-verified"}),
    ]:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(position))
        assert set(real_process().out.split()) == expected
