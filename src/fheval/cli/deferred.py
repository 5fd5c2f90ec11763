"""Stand-ins in the list of commands: for those that are imported when they are called, and for those not installed.

So `fheval --help` need not load numpy, Polars and the rest.
"""

from __future__ import annotations

from importlib import import_module
from signal import SIGINT, siginterrupt
from typing import Any

import typer
from typer.core import TyperCommand

from fheval.errors import ConfigError
from fheval.version import __version__

_COMPLETION = ("install_completion", "show_completion")


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
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Let the real command parse its arguments; it is then the one that its context invokes."""
        return self.load().make_context(info_name, args, parent=parent, **extra)


class Missing(TyperCommand):
    """Stands, unlisted, for a command of a distribution that is not installed, and says how to get it."""

    def __init__(self, name: str, distribution: str) -> None:
        super().__init__(name=name, hidden=True)
        self._distribution = distribution

    def make_context(self, *_: Any, **__: Any) -> Any:
        """Refuse, whatever the arguments are."""
        raise ConfigError(
            f"The command {self.name} is part of {self._distribution}, which is not installed. "
            f"Install {self._distribution} {__version__} beside fheval; in a checkout: pip install ./lab"
        )
