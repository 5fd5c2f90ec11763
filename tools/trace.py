"""Through which modules a score file walks until it is a result: `python tools/trace.py [options of fheval evaluate]`.

Runs `fheval evaluate --quiet --json -` over three small files twice in this process, so that all is imported, and lists
the modules of the package whose functions were called the second time, in the order of their first call.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from fheval.cli import main

ROWS = "label,score\n" + "".join(f"{number % 3 == 0:d},{number % 17 / 20}\n" for number in range(60))


@contextmanager
def noting(calls: dict[str, str]) -> Iterator[None]:
    """Note the first function that is called in each module of the package."""

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        # An engine that does not load is tried again, which begins to import its module.
        if event == "call" and frame.f_code.co_name != "<module>" and f"{name}.".startswith("fheval."):
            calls.setdefault(name, frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def walk(options: list[str]) -> dict[str, str]:
    """The modules that an evaluation passes, each with the first function that was called in it."""
    calls: dict[str, str] = {}
    with TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        files = [Path(folder) / f"{name}.csv" for name in "abc"]
        for file in files:
            file.write_text(ROWS)
        words = ["evaluate", *(word for file in files for word in ("--party", str(file))), "--quiet", "--json", "-"]
        if main([*words, *options]) == 0:
            with noting(calls):
                main([*words, *options])
    return calls


if __name__ == "__main__":
    found = walk(sys.argv[1:])
    for module, function in found.items():
        print(f"{module:40} {function}")
    print(f"{len(found)} modules")
