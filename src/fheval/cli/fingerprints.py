"""Fingerprints that people read to each other over the telephone, and type in here."""

from __future__ import annotations

from pathlib import Path

import typer

from fheval.consortium.kit import POLICY_KEY
from fheval.errors import ConfigError


def heard(question: str) -> str:
    """Ask for one, without saying which one is expected: it is to be heard, not copied."""
    try:
        return str(typer.prompt(question))
    except typer.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise ConfigError(f"{question}? Nobody is there to say. Give it as an option.") from None
        raise


def heard_authority(kit: Path, given: str | None) -> str | None:
    """The authority's fingerprint for a kit that has no authority yet; none is needed for one that has."""
    if given is not None or (kit / POLICY_KEY).exists():
        return given
    return heard("The authority's fingerprint, as its operator reads it to you over the telephone")
