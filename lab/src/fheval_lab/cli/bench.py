"""`fheval bench`: the ratios that the documentation states, measured in one run on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fheval.cli import STANDARD_OUTPUT, check_target, options, write_json
from fheval.version import __version__
from fheval_lab.cli import Quiet

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer()


@app.command(epilog="Examples:\n\nfheval bench\n\nfheval bench --engine seal --repeats 9 --json -")
def bench(
    engine: options.EngineName = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each time is measured; the median counts.")] = 5,
    samples: Annotated[int, typer.Option(min=1000, help="How many scores are counted.")] = 10**7,
    most_parties: Annotated[
        int, typer.Option(min=0, help="Up to so many parties whole rounds are played, a line for each power of ten.")
    ] = 10**5,
    json: options.Json = None,
    quiet: Quiet = False,
) -> None:
    """Measure the aggregator of every protocol, counting, and how whole rounds grow with the parties, in one run.

    Times are processor seconds of one thread, which other work on the machine disturbs little; FHE libraries use one
    thread unless OMP_NUM_THREADS says otherwise. Every engine that loads is measured against itself, all protocols in
    turn in each repetition, and a ratio is the median over the repetitions. The exit status is 1 if a ratio exceeds
    its limit.
    """
    check_target(json)
    # The libraries read this when they are loaded, which is why they are imported below.
    threads = os.environ.setdefault("OMP_NUM_THREADS", "1")
    from fheval.engines import available_engines, load_engine
    from fheval.protocols import DEFAULT_PROTOCOL
    from fheval_lab.bench.growth import grow, powers_of_ten
    from fheval_lab.bench.suite import run_bench, work
    from fheval_lab.cli.progress import steps

    engines = [load_engine(name) for name in ([engine] if engine else available_engines())]
    growing = len(powers_of_ten(most_parties))
    with steps(len(engines) * (len(work()) + repeats + growing) + 1, quiet=quiet) as on_step:
        result = run_bench(engines, repeats=repeats, samples=samples, on_step=on_step)
        growth = []
        for each in engines:
            for line in grow(DEFAULT_PROTOCOL, each.name, most_parties):
                on_step(f"{each.name}: a whole round of {line.parties:,} parties")
                growth.append(line)
    content: dict[str, Any] = {
        "threads": threads,
        "repeats": repeats,
        "measurements": [asdict(each) for each in result.measurements],
        "growth": [each.to_dict() for each in growth],
        "ratios": [{**asdict(each), "holds": each.holds} for each in result.ratios],
        "fheval": __version__,
    }
    if json is not None:
        write_json(json, content)
    if json != STANDARD_OUTPUT and not quiet:
        _print_tables(content)
    if not result.holds or not all(each.holds for each in growth):
        raise typer.Exit(1)


def _print_tables(content: dict[str, Any]) -> None:
    """What was measured, engine by engine; what has none comes last."""
    from rich.console import Console

    console = Console(highlight=False)
    tables = {"measurements": _times, "growth": _growth, "ratios": _ratios}
    for engine in dict.fromkeys([*(one["engine"] for one in content["measurements"]), ""]):
        for name, table in tables.items():
            lines = [one for one in content[name] if one["engine"] == engine]
            if lines:
                console.print(table(f"{engine}: " if engine else "", lines))
    console.print(f"Threads: {content['threads']}; each time measured {content['repeats']} times.")


def _times(engine: str, lines: list[dict[str, Any]]) -> Table:
    shown = [
        (
            one["name"],
            f"{one['parties']:,}",
            *(f"{1000 * one[key]:.1f}" for key in ("seconds", "low", "high", "online")),
        )
        for one in lines
    ]
    heads = ("protocol", "parties", "median", "smallest", "largest", "after the last upload")
    return _table(f"{engine}the aggregator, processor milliseconds", heads, shown)


def _growth(engine: str, lines: list[dict[str, Any]]) -> Table:
    shown = [
        (
            one["name"],
            f"{one['parties']:,}",
            *(f"{figure:.2f}" for figure in (one["leader"], one["aggregator"], 1000 * one["party"])),
            f"{one['megabytes']:.0f}",
            "" if one["holds"] else "[red]exceeded[/]",
        )
        for one in lines
    ]
    heads = ("protocol", "parties", "leader, s", "aggregator, s", "a party, ms", "memory, MB", "")
    return _table(f"{engine}whole rounds as the parties grow", heads, shown)


def _ratios(engine: str, lines: list[dict[str, Any]]) -> Table:
    shown = [
        (
            one["name"],
            f"{one['value']:.3g}",
            "" if one["low"] == one["high"] else f"{one['low']:.3g} to {one['high']:.3g}",
            f"{one['limit']:.3g}",
            "[green]holds[/]" if one["holds"] else "[red]exceeded[/]",
        )
        for one in lines
    ]
    return _table(f"{engine}ratios of this run", ("ratio", "median", "range", "limit", ""), shown)


def _table(title: str, heads: tuple[str, ...], lines: Sequence[tuple[str, ...]]) -> Table:
    """Names in the first column, which alone may wrap, and figures in the others."""
    from rich import box
    from rich.table import Table

    table = Table(heads[0], title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for head in heads[1:]:
        table.add_column(head, justify="right")
    for line in lines:
        table.add_row(*line)
    return table
