"""What `fheval aggregator` and `fheval party` share: which transport, and lines with the time in front."""

from __future__ import annotations

import logging
import sys
import time
from enum import Enum
from typing import Annotated

import typer


class TransportName(str, Enum):
    """What carries the bytes of rounds."""

    DIRECT = "direct"
    FLOWER = "flower"


Transport = Annotated[
    TransportName,
    typer.Option(help="direct: gRPC and mutual TLS, a round in a second; flower: for those who run Flower already."),
]


def say_with_time(words: str) -> None:
    """Print a line for the operator's log."""
    typer.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {words}", err=True)


def log_to_standard_error(name: str) -> None:
    """Let a logger of ours write one line an event, with the time."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    log = logging.getLogger(name)
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
