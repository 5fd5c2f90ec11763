"""Where a result goes: one JSON object to standard output or a file, a page to a file; whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from fheval.errors import ConfigError
from fheval.report.account import Account
from fheval.report.files import replace_file
from fheval.report.round_page import round_page

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
    _write(target, round_page(account, datetime.now().astimezone()))


def _write(path: Path, text: str) -> None:
    if _is_special(path):
        path.write_text(text, encoding="utf-8")
    else:
        replace_file(path, text)


def _is_special(path: Path) -> bool:
    """A pipe or a device cannot be replaced; `--json >(jq .)` names one."""
    return path.exists() and not path.is_file()
