"""`fheval reproduce`: the paper's tables and figures beside the printed values, as rows and as a page."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fheval.cli import options
from fheval.engines import load_engine
from fheval.errors import ConfigError
from fheval.report.page import replace_file
from fheval_lab.cli import Quiet
from fheval_lab.cli.progress import weighted_bar

app = typer.Typer()

_NAMES = ("table1", "table2", "noise", "table3", "figure-points", "figure-parties", "security", "division", "all")


@app.command(
    epilog="Examples:\n\n"
    "fheval reproduce all --data data --out out\n\n"
    "fheval reproduce table2 --data data --out out --engine seal"
)
def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help=f"One of {', '.join(_NAMES)}.", autocompletion=lambda: list(_NAMES), show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where results go, and where finished parts are kept.", show_default=False),
    ],
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="The published evaluation data; what is missing is left out.")
    ] = Path("data"),
    engine: options.EngineName = None,
    quiet: Quiet = False,
) -> None:
    """The paper's tables and figures, run again beside the printed values.

    Writes JSON, CSV and one page of HTML. Started again with the same folders it goes on where it stopped; remove
    DIR/cells to measure anew.
    """
    # Figures are stated for one thread; the libraries read this when they are loaded.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out}: this is a file. Name a directory.")
    # scikit-learn and the rest take seconds to import: not for `fheval reproduce --help`.
    from fheval_lab.reproduce.cells import Workbench
    from fheval_lab.reproduce.page import reproduction_page
    from fheval_lab.reproduce.run import WITHOUT_DATA, chosen, left_out, run

    if not data.is_dir() and not WITHOUT_DATA.issuperset(chosen(what)):
        raise ConfigError(f"--data {data}: there is no such directory. Name the one that holds the published data.")
    setting = Workbench(data, load_engine(engine))
    with weighted_bar(quiet=quiet) as watch:
        outcomes = run(what, setting, out, watch)
    page = out / f"{what}.html"
    replace_file(page, reproduction_page(outcomes, datetime.now().astimezone()))
    if quiet:
        return
    console = Console(highlight=False)
    for outcome in outcomes:
        compared = sum(row.printed is not None for row in outcome.rows)
        console.print(f"{outcome.name:<15} {len(outcome.rows):>4} rows, {compared} beside a printed value")
    for why, parts in left_out(outcomes).items():
        others = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
        console.print(f"left out: {parts[0]}{others}: {why}", style="yellow", soft_wrap=True)
    console.print(f"page: {page}", soft_wrap=True)
