"""What holds for every test and doctest: one thread, no deadlines, no module that cannot load here."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from hypothesis import settings

# pytest-xdist runs a process per core. The FHE libraries read this when they are loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Time on a shared machine says nothing about the code. With CI set, hypothesis has such a profile itself.
if "CI" not in os.environ:
    settings.register_profile("fheval", deadline=None)
    settings.load_profile("fheval")


# Collecting doctests imports every module, and these wrap a library that not every Python has.
collect_ignore = []
if find_spec("flwr") is None:
    collect_ignore.append("src/fheval/flower")
try:
    import openfhe  # noqa: F401  (where it is installed it may still not load)
except ImportError:
    collect_ignore.append("src/fheval/engines/openfhe")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What rounds took over each transport, side by side."""
    properties = [each.user_properties for each in terminalreporter.getreports("passed")]
    times = [words for each in properties for name, words in each if name == "round time"]
    if times:
        terminalreporter.section("what a round took")
        for words in times:
            terminalreporter.write_line(words)
