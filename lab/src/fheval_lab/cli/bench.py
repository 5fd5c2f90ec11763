"""`fheval bench`: the ratios that the documentation states, measured in one run on this machine."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fheval.cli import STANDARD_OUTPUT, check_target, options, write_json
from fheval.version import __version__

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
    quiet: options.Quiet = False,
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
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    title = "Aggregator, processor milliseconds"
    times = Table("engine", "protocol", title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("parties", "median", "smallest", "largest", "after the last upload"):
        times.add_column(name, justify="right")
    for one in content["measurements"]:
        spread = (f"{1000 * one[field]:.1f}" for field in ("seconds", "low", "high", "online"))
        times.add_row(one["engine"], one["name"], f"{one['parties']:,}", *spread)
    ratios = Table("engine", "ratio", title="Ratios of this run", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("median", "smallest", "largest", "limit", ""):
        ratios.add_column(name, justify="right")
    for one in content["ratios"]:
        verdict = "[green]holds[/]" if one["holds"] else "[red]exceeded[/]"
        figures = (f"{one[field]:.3g}" for field in ("value", "low", "high", "limit"))
        ratios.add_row(one["engine"], one["name"], *figures, verdict)
    console.print(times, _growth_table(content["growth"]), ratios)
    console.print(f"Threads: {content['threads']}; each time measured {content['repeats']} times.")


def _growth_table(lines: list[dict[str, Any]]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table("engine", "whole rounds", title="Growth with the parties", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("parties", "leader, s", "aggregator, s", "a party, ms", "memory, MB", ""):
        table.add_column(name, justify="right")
    for one in lines:
        figures = (one["leader"], one["aggregator"], 1000 * one["party"])
        verdict = "" if one["holds"] else "[red]exceeded[/]"
        shown = (f"{one['parties']:,}", *(f"{figure:.2f}" for figure in figures), f"{one['megabytes']:.0f}", verdict)
        table.add_row(one["engine"], one["name"], *shown)
    return table
