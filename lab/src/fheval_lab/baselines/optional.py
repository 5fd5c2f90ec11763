"""Libraries that only a baseline needs: imported when it runs, with one sentence on how to get a missing one."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

from fheval.errors import ConfigError


def require(package: str, *, baseline: str, install: str, module: str | None = None) -> Any:
    """Import `module` (or `package` itself), or say that `baseline` needs it and how to install it."""
    check_installed(package, baseline=baseline, install=install)
    try:
        return importlib.import_module(module or package)
    except ImportError as error:
        raise ConfigError(
            f"{baseline} needs {package}, which is installed but does not load ({error}). "
            f"Install a version that fits this Python: {install}."
        ) from error


def check_installed(package: str, *, baseline: str, install: str) -> None:
    """Raise `ConfigError` unless the package can be found; it is not imported."""
    if find_spec(package) is None:
        raise ConfigError(f"{baseline} needs {package}, which is not installed. Install it: {install}.")
