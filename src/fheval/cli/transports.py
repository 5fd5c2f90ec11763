"""What the commands of long-running processes share: which transport, lines with the time in front, a relay beside."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Annotated

import typer

from fheval.consortium.member_keys import TRANSPORT_DIRECTORY
from fheval.party.process import VaultFiles


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


@contextmanager
def relay_of(files: VaultFiles) -> Iterator[None]:
    """A vault's connection to the hub, in a process of its own; it ends with this one, however that ends."""
    place = ["--kit", str(files.kit / TRANSPORT_DIRECTORY), "--vault", str(files.socket)]
    command = [sys.executable, "-m", "fheval", "party", "up", *place, "--until-closed"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:  # noqa: S603 (this very Python, our own command)
        try:
            yield
        finally:
            child.terminate()
