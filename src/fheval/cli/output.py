"""Where a result goes: one JSON object to standard output or, whole or not at all, to a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from fheval.errors import ConfigError
from fheval.report.files import replace_file

STANDARD_OUTPUT = "-"


def check_target(target: str | None) -> None:
    """Refuse, before a round costs anybody time, a file that could not be written afterwards."""
    if target is None or target == STANDARD_OUTPUT:
        return
    path = Path(target)
    if path.is_dir():
        raise ConfigError(f"--json {target}: this is a directory. Name a file in it.")
    if not path.parent.is_dir():
        raise ConfigError(f"--json {target}: there is no directory {path.parent}. Make it first.")
    if not os.access(path if _is_special(path) else path.parent, os.W_OK):
        raise ConfigError(f"--json {target}: this user may not write there. Name another file.")


def write_json(target: str, content: Mapping[str, Any]) -> None:
    """Write one JSON object and a line break."""
    text = json.dumps(content, allow_nan=False) + "\n"
    path = Path(target)
    if target == STANDARD_OUTPUT:
        typer.echo(text, nl=False)
    elif _is_special(path):
        path.write_text(text, encoding="utf-8")
    else:
        replace_file(path, text)


def _is_special(path: Path) -> bool:
    """A pipe or a device cannot be replaced; `--json >(jq .)` names one."""
    return path.exists() and not path.is_file()
