"""Help: nothing is cut short at 80 columns, no type stands behind a flag, every option says what it does."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from cli.session import Session
from fheval.cli import Deferred, installed_commands
from fheval.engines import _LOADERS


def commands() -> Iterator[tuple[str, ...]]:
    yield ()
    for name, module, summary in installed_commands():
        yield (name,)
        for below in getattr(Deferred(name, module, summary).load(), "commands", {}):
            yield name, below


def options_of(words: tuple[str, ...]) -> list[Any]:
    lines = {name: (module, summary) for name, module, summary in installed_commands()}
    command = Deferred(words[0], *lines[words[0]]).load()
    for word in words[1:]:
        command = command.commands[word]
    return [each for each in command.params if not getattr(each, "hidden", False)]


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_no_option_is_cut_short_at_80_columns(
    fheval: Session, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = fheval(*words, "--help")
    assert (done.status, done.err) == (0, "")
    assert "<bool>" not in done.out
    assert "╭" not in done.out
    for option in options_of(words) if words else []:
        for name in option.opts if option.param_type_name == "option" else []:
            assert re.search(rf"{re.escape(name)}(?![\w-])", done.out), name
    assert [line for line in done.out.splitlines() if len(line) > 80] == []
    # A name that is broken at its hyphen is not one that can be copied or searched for.
    assert [line for line in done.out.splitlines() if re.search(r"\w-$", line)] == []


@pytest.mark.parametrize("words", [each for each in commands() if each], ids=" ".join)
def test_every_option_says_what_it_is_for(words: tuple[str, ...]) -> None:
    assert [each.name for each in options_of(words) if not getattr(each, "help", None)] == []


def test_versions_and_engines_are_shown(fheval: Session) -> None:
    done = fheval("--version")
    assert re.match(r"fheval \d+\.\d+\.\d+\n", done.out)
    for name in _LOADERS:
        assert re.search(rf"^engine {name}: (\w+ [\d.]+|not installed)$", done.out, flags=re.MULTILINE)
    assert "engine seal: tenseal" in done.out
    assert "Python 3." in done.out


def test_hints_name_options_of_the_command(fheval: Session, tmp_path: Any) -> None:
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("label,score\n" + "1,0.9\n0,0.1\n" * 30, encoding="utf-8")
    parties = [word for name in "abc" for word in ("--party", str(tmp_path / f"{name}.csv"))]
    done = fheval("evaluate", *parties, "--max-samples", "100")
    assert done.status != 0
    assert "--max-samples" in done.err
    assert "max_samples" not in done.err


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("fheval eval", "evaluate"), ("fheval evaluate --pro", "--protocol"), ("fheval vault acc", "accept")],
)
def test_a_shell_can_complete(words: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"_FHEVAL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    program = "import sys; from fheval.cli import main; sys.argv[0] = 'fheval'; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert wanted in done.stdout.split()
