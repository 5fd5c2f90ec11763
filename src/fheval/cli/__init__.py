"""The command `fheval`: its list of commands, how they end, and where their output goes.

A command's module is imported when it is called, so that `fheval --help` need not load numpy, Polars and the rest.
Whatever stops a command becomes one sentence on standard error and an exit status.
"""

from __future__ import annotations

import json as json_text
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points
from importlib.metadata import version as version_of
from io import TextIOWrapper as _TextFile
from pathlib import Path
from signal import SIGINT, siginterrupt
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fheval.errors import ConfigError, EngineError, FhevalError, InputError
from fheval.version import __version__

if TYPE_CHECKING:
    from fheval.evaluation import Result
    from fheval.report.account import Account

DONE = 0
REFUSED = 1
UNUSABLE = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
READER_LEFT = 141  # 128 + SIGPIPE

STANDARD_OUTPUT = "-"

# The base of all complaints about usage. Newer versions of typer bring their own copy of click along, so the class is
# reached through the one that typer exports.
_UsageError: Any = typer.BadParameter.__base__

_COMPLETION = ("install_completion", "show_completion")

# One line for each command: its name, the module that has its typer `app`, and the line that `fheval --help` shows.
COMMANDS = (
    ("demo", "fheval.cli.demo", "A real data set, five hospitals, both threat models, the pooled truth beside them."),
    ("evaluate", "fheval.cli.evaluate", "One round over one file for each party, all roles in this process."),
    ("simulate", "fheval.cli.simulate", "Split one data set at random among parties, then as evaluate."),
    ("study", "fheval.cli.study", "Begin a study, show it in words, check what it gives away."),
    ("consortium", "fheval.cli.consortium", "Run a consortium: authority, kits, signed policy."),
    ("vault", "fheval.cli.vault", "Keep a party's keys and data, and answer rounds as the policy allows."),
    ("aggregator", "fheval.cli.aggregator", "Run a consortium's aggregator, and start rounds."),
    ("verify", "fheval.cli.verify", "Check members' signed receipts of a round, offline."),
    ("party", "fheval.cli.party", "Connect a member's vault to the aggregator."),
)

# The distribution that each engine stands on, in the order of preference.
_ENGINES = {"openfhe": "openfhe", "seal": "tenseal"}

# Other distributions add theirs by an entry point of this group that names such a tuple.
ENTRY_POINTS = "fheval.commands"

# What fheval-lab adds; where it is missing, these say so.
OF_THE_LAB = ("reproduce", "attack", "bench", "baseline")

_app = typer.Typer(
    no_args_is_help=True,
    help="Evaluate a model over the private data of many parties: the AUC of the pooled data, from an aggregator "
    "that sees nothing.",
    epilog="Start with: fheval demo",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fheval {__version__}")
        typer.echo("\n".join(_about_engines()))
        raise typer.Exit


def _about_engines() -> Iterator[str]:
    """Which FHE libraries are installed, and the Python; none is loaded, which would take seconds."""
    for name, distribution in _ENGINES.items():
        try:
            yield f"engine {name}: {distribution} {version_of(distribution)}"
        except PackageNotFoundError:
            yield f"engine {name}: not installed"
    yield f"Python {sys.version.partition(' ')[0]}"


@_app.callback()
def _fheval(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show versions and engines, and exit."),
    ] = False,
) -> None:
    """Exists for the options that stand before any command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0: done; 1: refused by the protocol; 2: bad usage or input; 130: interrupted; 141: the reader of the output left.
    """
    return run_to_status(_root(), arguments)


def installed_commands() -> Iterator[tuple[str, str, str]]:
    """The commands of fheval itself, then those that other distributions add; each as a line of COMMANDS."""
    yield from COMMANDS
    for entry_point in entry_points(group=ENTRY_POINTS):
        yield from entry_point.load()


def _root() -> Any:
    root: Any = typer.main.get_command(_app)
    for name, module, summary in installed_commands():
        root.add_command(Deferred(name, module, summary))
    for name in OF_THE_LAB:
        if name not in root.commands:
            root.add_command(Missing(name, "fheval-lab"))
    return with_plain_help(root)


def with_plain_help(command: Any) -> Any:
    """The same command, and all commands below it, with help in one style."""

    def write(context: Any, formatter: Any) -> None:
        from fheval.cli.plain_help import write_help

        write_help(command, context, formatter)

    command.format_help = write
    for below in getattr(command, "commands", {}).values():
        with_plain_help(below)
    return command


class Deferred(TyperCommand):
    """Stands in the list of commands for one whose module is not imported yet.

    Newer versions of typer bring their own copy of click along, hence `Any` where click's classes would stand.
    """

    def __init__(self, name: str, module: str, summary: str) -> None:
        super().__init__(name=name, help=summary)
        self._module = module

    def load(self) -> Any:
        """Import the module and give the command, or the group of commands, that it has."""
        command: Any = typer.main.get_command(import_module(self._module).app)
        # Polars makes system calls go on after Ctrl-C: a command that waits for rows from a pipe would not hear it.
        siginterrupt(SIGINT, True)
        command.name = self.name
        # Each app on its own would offer to install shell completion; once, before any command, is enough.
        command.params = [option for option in command.params if option.name not in _COMPLETION]
        return with_plain_help(command)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Let the real command parse its arguments; it is then the one that its context invokes."""
        return self.load().make_context(info_name, args, parent=parent, **extra)


class Missing(TyperCommand):
    """Stands, unlisted, for a command of a distribution that is not installed, and says how to get it."""

    def __init__(self, name: str, distribution: str) -> None:
        super().__init__(name=name, hidden=True)
        self._distribution = distribution

    def make_context(self, *_: Any, **__: Any) -> Any:
        raise ConfigError(
            f"The command {self.name} is part of {self._distribution}, which is not installed. "
            f"Install {self._distribution} {__version__} beside fheval; in a checkout: pip install ./lab"
        )


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
        return _stop(_in_options(command, arguments, str(error)), status_of(error))
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


def _in_options(command: Any, arguments: Sequence[str] | None, message: str) -> str:
    """A message that speaks of parameters of Python, with the options that the command has for them."""
    words = [word for word in (sys.argv[1:] if arguments is None else arguments) if not word.startswith("-")]
    for word in words[:2]:
        below = getattr(command, "commands", {}).get(word)
        if below is None:
            break
        command = below.load() if isinstance(below, Deferred) else below
    options = {name for parameter in command.params for name in parameter.opts}

    def named(found: re.Match[str]) -> str:
        option = "--" + found[0].replace("_", "-")
        return option if option in options else found[0]

    return re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", named, message)


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


def check_targets(json: str | None, report: Path | None) -> None:
    """Refuse, before a round costs anybody time, files that could not be written afterwards."""
    check_target(json)
    if report is not None:
        check_file("--report", report)


def check_target(target: str | None) -> None:
    """Refuse a file for JSON that could not be written."""
    if target is not None and target != STANDARD_OUTPUT:
        check_file("--json", Path(target))


def check_file(option: str, path: Path) -> None:
    """Refuse a file that could not be written; `option` says which one it is."""
    if path.is_dir():
        raise ConfigError(f"{option} {path}: this is a directory. Name a file in it.")
    if not path.parent.is_dir():
        raise ConfigError(f"{option} {path}: there is no directory {path.parent}. Make it first.")
    if not os.access(path if _is_special(path) else path.parent, os.W_OK):
        raise ConfigError(f"{option} {path}: this user may not write there. Name another file.")


def write_json(target: str, content: Mapping[str, Any]) -> None:
    """Write one JSON object and a line break."""
    text = json_text.dumps(content, allow_nan=False) + "\n"
    if target == STANDARD_OUTPUT:
        typer.echo(text, nl=False)
    else:
        write_text(Path(target), text)


def write_page(target: Path, account: Account, when: datetime | None = None) -> None:
    """Write the page that tells about an evaluation, of this moment or of an earlier one."""
    from fheval.report.round_page import round_page

    write_text(target, round_page(account, when or datetime.now().astimezone()))


def write_markdown(target: Path, result: Result, account: Account) -> None:
    """Write what a paper and a model card take from an evaluation."""
    from fheval.report.markdown import round_markdown

    write_text(target, round_markdown(result, account, datetime.now().astimezone()))


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, or into a pipe."""
    if _is_special(path):
        path.write_text(text, encoding="utf-8")
    else:
        from fheval.report.page import replace_file

        replace_file(path, text)


def _is_special(path: Path) -> bool:
    """A pipe or a device cannot be replaced; `--json >(jq .)` names one."""
    return path.exists() and not path.is_file()
