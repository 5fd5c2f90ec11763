"""The environment of Flower's processes: no telemetry, no look for updates, and nothing of the operator's own."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from fheval.errors import ConfigError

# A SuperNode shows its environment to whatever app the aggregator sends, so only these go on from ours.
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "PYTHONPATH", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")

_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "NO_COLOR": "1",
}

# Where Flower's programs are: beside this Python.
_PROGRAMS = str(Path(sys.executable).parent)

# How often a SuperExec looks for a new message. Flower's own second would be a fifth of what a message costs.
_TASK_POLL = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25"}


def flower_environment(home: Path) -> dict[str, str]:
    """Everything that Flower's processes find in their environment; `home` takes their files instead of ~/.flwr."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # Flower starts its own programs by name and finds them beside this Python only if we say where that is.
    path = os.pathsep.join([_PROGRAMS, os.environ.get("PATH", os.defpath)])
    return {**passed_on, **_QUIET, **_TASK_POLL, "PATH": path, "FLWR_HOME": str(home.absolute())}


def require_flower() -> None:
    """Raise `ConfigError` unless what the extra `flower` brings is installed; nothing of it is imported."""
    missing = [name for name in ("flwr", "h11") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"This command needs Flower, which is not installed here (missing: {', '.join(missing)}). "
            "Install fheval[flower], on Python 3.11 or newer."
        )


def flower_program(name: str) -> str:
    """The path of one of Flower's programs; a `ConfigError` says how to install them."""
    found = shutil.which(name, path=_PROGRAMS)
    if found is None:
        raise ConfigError(
            f"{name} is not installed beside {sys.executable}. Install fheval[flower], on Python 3.11 or newer."
        )
    return found
