"""`fheval bench`: the ratios that the documentation states, measured in one run on this machine."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated, Any

import typer

from fheval.cli import STANDARD_OUTPUT, check_target, options, write_json
from fheval.version import __version__

app = typer.Typer()


@app.command(epilog="Examples:\n\nfheval bench\n\nfheval bench --engine seal --repeats 9 --json -")
def bench(
    engine: options.EngineName = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each time is measured; the median counts.")] = 5,
    samples: Annotated[int, typer.Option(min=1000, help="How many scores are counted.")] = 10**7,
    json: options.Json = None,
    quiet: options.Quiet = False,
) -> None:
    """Measure the aggregator of every protocol, and counting, in one run.

    Times are processor seconds of one thread, which other work on the machine disturbs little; FHE libraries use one
    thread unless OMP_NUM_THREADS says otherwise. Every engine that loads is measured against itself, all protocols in
    turn in each repetition, and a ratio is the median over the repetitions. The exit status is 1 if a ratio exceeds
    its limit.
    """
    check_target(json)
    # The libraries read this when they are loaded, which is why they are imported below.
    threads = os.environ.setdefault("OMP_NUM_THREADS", "1")
    from fheval.engines import available_engines, load_engine
    from fheval_lab.bench.suite import run_bench, work
    from fheval_lab.cli.progress import steps

    engines = [load_engine(name) for name in ([engine] if engine else available_engines())]
    with steps(len(engines) * (len(work()) + repeats) + 1, quiet=quiet) as on_step:
        result = run_bench(engines, repeats=repeats, samples=samples, on_step=on_step)
    content: dict[str, Any] = {
        "threads": threads,
        "repeats": repeats,
        "measurements": [asdict(each) for each in result.measurements],
        "ratios": [{**asdict(each), "holds": each.holds} for each in result.ratios],
        "fheval": __version__,
    }
    if json is not None:
        write_json(json, content)
    if json != STANDARD_OUTPUT and not quiet:
        _print_tables(content)
    if not result.holds:
        raise typer.Exit(1)


def _print_tables(content: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    title = "Aggregator, processor milliseconds"
    times = Table("engine", "protocol", title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("parties", "median", "smallest", "largest"):
        times.add_column(name, justify="right")
    for one in content["measurements"]:
        spread = (f"{1000 * one[field]:.1f}" for field in ("seconds", "low", "high"))
        times.add_row(one["engine"], one["name"], f"{one['parties']:,}", *spread)
    ratios = Table("engine", "ratio", title="Ratios of this run", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("median", "smallest", "largest", "limit", ""):
        ratios.add_column(name, justify="right")
    for one in content["ratios"]:
        verdict = "[green]holds[/]" if one["holds"] else "[red]exceeded[/]"
        figures = (f"{one[field]:.3g}" for field in ("value", "low", "high", "limit"))
        ratios.add_row(one["engine"], one["name"], *figures, verdict)
    console.print(times, ratios, f"Threads: {content['threads']}; each time measured {content['repeats']} times.")
