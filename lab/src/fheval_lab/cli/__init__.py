"""The laboratory's commands; they appear in `fheval` where this distribution is installed."""

from __future__ import annotations

from typing import Annotated

import typer

# Of commands that find more than a number.
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar, and nothing on standard output.")]
