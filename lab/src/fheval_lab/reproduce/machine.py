"""The machine that numbers come from, for the page and beside every measured cell."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fheval.version import __version__

_LIBRARIES = ("numpy", "openfhe", "tenseal", "opendp", "mpyc", "scikit-learn", "tensorflow")


def describe() -> dict[str, str]:
    """Processor, memory, system and the versions of what computes."""
    processor = _field("/proc/cpuinfo", "model name") or platform.processor() or "unknown processor"
    kilobytes = _field("/proc/meminfo", "MemTotal")
    return {
        "processor": f"{processor}, {os.cpu_count()} cores",
        "memory": f"{int(kilobytes.split()[0]) / 2**20:.0f} GiB" if kilobytes else "unknown",
        "system": f"{platform.system()} {platform.machine()}, {_distribution()}",
        "python": platform.python_version(),
        "libraries": ", ".join(f"{name} {found}" for name in _LIBRARIES if (found := _version(name))),
        "threads": f"{os.environ.get('OMP_NUM_THREADS', 'not limited')} (OMP_NUM_THREADS)",
        "fheval": __version__,
    }


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown release")
    except OSError:
        return platform.release()


def _field(file: str, name: str) -> str | None:
    if Path(file).is_file():
        for line in Path(file).read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
