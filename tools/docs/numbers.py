"""Pages of measured figures, from the last run of each; `make numbers` runs them anew.

`python -m tools.docs.numbers [--data DIR] [--out DIR] [attack bench reproduce]` runs the commands and keeps their
JSON, with the day and the processor, in docs/numbers. The site shows what is kept: a site that measured when it was
built would show another machine's figures every time.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fheval_lab.cli.attack_tables import TITLES

KEPT = Path(__file__).resolve().parents[2] / "docs" / "numbers"
FHEVAL = Path(sys.executable).with_name("fheval")


def pages(folder: Path) -> dict[str, str]:
    """A page for each command, and one that lists them."""
    made = {name: _page(name, folder / f"{name}.json", tell) for name, tell in _TOLD.items()}
    index = (
        "# Figures\n\nWhat was measured last, and on which machine. The commands are part of `fheval-lab`.\n\n"
        + "\n".join(f"- [{name}]({name}.md): {_ABOUT[name]}" for name in _TOLD)
        + "\n"
    )
    return {"index": index, **made}


def _page(name: str, file: Path, tell: Callable[[Mapping[str, Any]], Iterable[str]]) -> str:
    head = f"# fheval {name}\n\n{_ABOUT[name][0].upper()}{_ABOUT[name][1:]}.\n"
    if not file.is_file():
        return f"{head}\nNo run is kept here yet: `make numbers`.\n"
    kept = json.loads(file.read_text(encoding="utf-8"))
    run = f"Last run on {kept['date']} with fheval {kept['fheval']}, on {kept['machine']}."
    return "\n\n".join([head, run, *tell(kept["found"])]) + "\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _attack(found: Mapping[str, Any]) -> Iterable[str]:
    for protocol in found["protocols"]:
        resists = protocol["claims_to_resist"]
        yield f"## {protocol['protocol']}"
        yield (
            "It claims to resist an aggregator that deviates: every attack below is to be caught, but for the chance "
            "that is stated with a result."
            if resists
            else "It relies on an aggregator that follows the protocol. What one could do that does not:"
        )
        yield _table(
            ["attack", "what is done", "tries", "caught", "largest shift of an accepted result"],
            [
                (each["name"], each["what"], each["tries"], each["caught"], _number(each["worst_shift"]))
                for each in protocol["attacks"]
            ],
        )
        for section, title in TITLES.items():
            if protocol.get(section):
                yield f"### {title}"
                yield _records(protocol[section])


def _bench(found: Mapping[str, Any]) -> Iterable[str]:
    yield f"Processor seconds of {found['threads']} thread, medians of {found['repeats']} repetitions."
    yield "## Ratios that are stated"
    yield _table(
        ["ratio", "engine", "median", "range", "limit", "holds"],
        [
            (
                each["name"],
                each["engine"],
                _number(each["value"], 3),
                "" if each["low"] == each["high"] else f"{_number(each['low'], 3)} to {_number(each['high'], 3)}",
                _number(each["limit"], 3),
                _number(each["holds"]),
            )
            for each in found["ratios"]
        ],
    )
    yield "## Measurements"
    yield _records(found["measurements"])
    yield "## Growth with the parties"
    yield _records(found["growth"])


def _reproduce(found: Mapping[str, Any]) -> Iterable[str]:
    yield f"**{found['verdict']}**"
    yield (
        "Below is every number beside which the paper prints one. Times are processor seconds of one thread; the "
        "paper's are of another machine."
    )
    for what, why in found["left_out"]:
        yield f"Left out: {what}. {why}"
    heads = ("data", "size", "decision_points", "parties", "column", "value", "std", "printed", "printed_std", "unit")
    titles = {"size": "samples", "decision_points": "points", "printed_std": "its std"}
    for name, rows in found["experiments"].items():
        compared = [row for row in rows if row.get("printed") is not None]
        yield f"## {name}"
        shown = [head for head in heads if any(row.get(head) is not None for row in compared)]
        if compared:
            cells = [[_number(row.get(head), digits=6) for head in shown] for row in compared]
            yield _table([titles.get(head, head) for head in shown], cells)
        if len(compared) < len(rows):
            others = len(rows) - len(compared)
            yield f"{others} numbers more, beside which none is printed, are on the page that the command writes."


def _records(records: Sequence[Mapping[str, Any]]) -> str:
    names = [name for name in dict.fromkeys(name for each in records for name in each) if not _nested(records, name)]
    return _table(names, [[_number(each.get(name)) for name in names] for each in records])


def _nested(records: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(isinstance(each.get(name), (list, dict)) for each in records)


def _number(value: object, digits: int = 4) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


_TOLD = {"attack": _attack, "bench": _bench, "reproduce": _reproduce}
_ABOUT = {
    "attack": "aggregators that deviate from each protocol, and how often each was caught",
    "bench": "ratios between protocols, measured in one run",
    "reproduce": "the paper's tables and figures beside the values that it prints",
}


def run(name: str, data: Path, kept_cells: Path | None = None) -> Mapping[str, Any]:
    """Run a command and give what it found; `reproduce` goes on with the cells that a folder has."""
    with TemporaryDirectory() as folder:
        if name != "reproduce":
            file = Path(folder) / "found.json"
            # `bench` ends with status 1 where a ratio exceeds its limit, which its page then shows.
            subprocess.run([FHEVAL, name, "--quiet", "--json", file], check=name != "bench")
            found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            return found
        out = kept_cells or Path(folder)
        subprocess.run([FHEVAL, name, "all", "--quiet", "--data", data, "--out", out], check=True)
        return collected(out, data)


def collected(folder: Path, data: Path) -> dict[str, Any]:
    """What `fheval reproduce all` wrote into a folder: its verdict, and the rows of every experiment."""
    from fheval_lab.reproduce.page import verdict
    from fheval_lab.reproduce.rows import Row
    from fheval_lab.reproduce.run import EXPERIMENTS, Reproduction

    written = {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in EXPERIMENTS}
    outcomes = [Reproduction(name, tuple(Row(**row) for row in each["rows"]), (), ()) for name, each in written.items()]
    return {
        "verdict": verdict(outcomes),
        "left_out": [
            (skip["what"], skip["why"].replace(str(data), "the folder of the data"))
            for each in written.values()
            for skip in each["skipped"]
        ],
        "experiments": {
            name: [{field: value for field, value in row.items() if value is not None} for row in each["rows"]]
            for name, each in written.items()
        },
    }


def keep(name: str, found: Mapping[str, Any]) -> None:
    """Write down what a command found, when, and on which processor."""
    from fheval.version import __version__

    about = {"date": date.today().isoformat(), "machine": _machine(), "fheval": __version__}
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{name}.json").write_text(json.dumps({**about, "found": found}, indent=1) + "\n", encoding="utf-8")


def _machine() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    return f"{model}, Python {platform.python_version()}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="the paper's published data, for reproduce")
    parser.add_argument("--out", type=Path, help="a folder of `fheval reproduce` to go on with; else all is run anew")
    parser.add_argument("commands", nargs="*", default=list(_TOLD))
    options = parser.parse_args()
    for command in options.commands:
        keep(command, run(command, options.data, options.out))
