"""Several `flwr` commands in one process: `python -m fheval.flower.console`.

Each command by itself would load much of Flower before it does anything, for seconds. This reads a JSON array of
arguments a line, lets each command print, and prints an `END` after it.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from importlib.metadata import entry_points

# ASCII's own separator of records, which no JSON contains.
END = "\x1e"


def main() -> None:
    """Run the commands of standard input, one after the other; their exit statuses say nothing."""
    (found,) = entry_points(group="console_scripts", name="flwr")
    flwr = found.load()
    for line in sys.stdin:
        with suppress(SystemExit):
            flwr(json.loads(line), standalone_mode=False)
        print(END, end="", flush=True)


if __name__ == "__main__":
    main()
