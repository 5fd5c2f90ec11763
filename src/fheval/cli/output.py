"""Where a result goes: one JSON object to standard output or a file, a page to a file, a panel to the terminal."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fheval.errors import ConfigError
from fheval.report.files import replace_file

if TYPE_CHECKING:
    from fheval.evaluation import PartyData, Result
    from fheval.report.account import Account
    from fheval.study import Study

STANDARD_OUTPUT = "-"


def check_targets(json: str | None, report: Path | None) -> None:
    """Refuse, before a round costs anybody time, files that could not be written afterwards."""
    check_target(json)
    if report is not None:
        _check_file("--report", report)


def check_target(target: str | None) -> None:
    """Refuse a file for JSON that could not be written."""
    if target is not None and target != STANDARD_OUTPUT:
        _check_file("--json", Path(target))


def _check_file(option: str, path: Path) -> None:
    if path.is_dir():
        raise ConfigError(f"{option} {path}: this is a directory. Name a file in it.")
    if not path.parent.is_dir():
        raise ConfigError(f"{option} {path}: there is no directory {path.parent}. Make it first.")
    if not os.access(path if _is_special(path) else path.parent, os.W_OK):
        raise ConfigError(f"{option} {path}: this user may not write there. Name another file.")


def write_json(target: str, content: Mapping[str, Any]) -> None:
    """Write one JSON object and a line break."""
    text = json.dumps(content, allow_nan=False) + "\n"
    if target == STANDARD_OUTPUT:
        typer.echo(text, nl=False)
    else:
        _write(Path(target), text)


def write_page(target: Path, account: Account) -> None:
    """Write the page that tells about an evaluation."""
    from fheval.report.round_page import round_page

    _write(target, round_page(account, datetime.now().astimezone()))


def run_and_deliver(
    study: Study,
    parties: Sequence[PartyData],
    files: Sequence[Path],
    *,
    engine: str | None,
    json: str | None,
    report: Path | None,
    quiet: bool,
) -> None:
    """Run one round in this process; write its JSON and page where asked for, and show it to people.

    `files` are those that the parties' data came from.
    """
    from fheval.evaluation import evaluate_study

    if quiet:
        result = evaluate_study(study, parties, engine=engine)
    else:
        from fheval.cli.progress import round_bar

        with round_bar(len(parties)) as on_work:
            result = evaluate_study(study, parties, engine=engine, on_work=on_work)
    if json is not None:
        write_json(json, result.to_dict())
    if report is not None:
        from fheval.report.account import account_of

        write_page(report, account_of(result, [file.name for file in files]))
    if json != STANDARD_OUTPUT:
        _show(result, quiet=quiet, written=json is not None)


def _show(result: Result, *, quiet: bool, written: bool) -> None:
    from rich.console import Console

    from fheval.cli.tables import quiet_lines, result_panel

    if not quiet:
        Console(highlight=False).print(result_panel(result))
    elif not written:
        typer.echo("\n".join(quiet_lines(result)))


def _write(path: Path, text: str) -> None:
    if _is_special(path):
        path.write_text(text, encoding="utf-8")
    else:
        replace_file(path, text)


def _is_special(path: Path) -> bool:
    """A pipe or a device cannot be replaced; `--json >(jq .)` names one."""
    return path.exists() and not path.is_file()
