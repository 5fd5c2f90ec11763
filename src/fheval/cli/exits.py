"""How a command ends: exit statuses, and one sentence on standard error for everything that stops it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from io import TextIOWrapper as _TextFile
from typing import Any

import typer

from fheval.errors import ConfigError, EngineError, FhevalError, InputError

DONE = 0
REFUSED = 1
UNUSABLE = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
READER_LEFT = 141  # 128 + SIGPIPE

# The base of all complaints about usage. Newer versions of typer bring their own copy of click along, so the class is
# reached through the one that typer exports.
_UsageError: Any = typer.BadParameter.__base__


def status_of(error: FhevalError) -> int:
    """2 for a request or data that cannot work, whoever the peers are; 1 for what the protocol refused."""
    return UNUSABLE if isinstance(error, (ConfigError, InputError, EngineError)) else REFUSED


def run_to_status(command: Any, arguments: Sequence[str] | None) -> int:
    """Run a typer command; whatever stops it becomes one sentence and an exit status."""
    _replace_what_cannot_be_encoded()
    try:
        status = _run(command, arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        return _after_broken_pipe()
    return status


def _run(command: Any, arguments: Sequence[str] | None) -> int:
    try:
        status = command.main(arguments, prog_name="fheval", standalone_mode=False)
        return DONE if status is None else int(status)
    except FhevalError as error:
        return _stop(str(error), status_of(error))
    except _UsageError as error:
        return _stop(_usage(error), UNUSABLE)
    except BrokenPipeError:
        raise
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _stop(f"{name}{error.strerror or error}. Check the path, its permissions and the space.", UNUSABLE)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit as stop:
        # typer makes an exit status of 1 of a broken pipe; the protocol has refused nothing.
        if isinstance(stop.__context__, BrokenPipeError):
            return _after_broken_pipe()
        raise


def _usage(error: Any) -> str:
    # click and typer both suggest a command for a misspelt one: the first suggestion is enough.
    sentence = re.sub(r"( Did you mean [^?]*\?)( \(?Did you mean [^?]*\?\)?)+", r"\1", error.format_message())
    # The message is empty where no arguments were given and the help was printed instead.
    return f"{sentence} Try '{error.ctx.command_path} --help'." if sentence and error.ctx else sentence


def _stop(message: str, status: int) -> int:
    if message:
        typer.echo(message, err=True)
    return status


def _replace_what_cannot_be_encoded() -> None:
    """Print a question mark, and no traceback, where the terminal's encoding lacks a character."""
    if isinstance(sys.stdout, _TextFile):
        sys.stdout.reconfigure(errors="replace")


def _after_broken_pipe() -> int:
    """Let the interpreter's last flush of standard output go nowhere instead of failing again."""
    if isinstance(sys.__stdout__, _TextFile):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())
    return READER_LEFT
