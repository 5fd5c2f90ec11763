"""Logs of long-running processes: a line an event on standard error, with the time, and never a colour."""

from __future__ import annotations

import logging
import sys

_LONGEST = 400


def log_to_standard_error(name: str) -> None:
    """Let one of our loggers write there."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    log = logging.getLogger(name)
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


def one_line(words: str) -> str:
    """What somebody else has said, as one line of a log: nothing that moves a cursor, and not without end."""
    return "".join(each if each.isprintable() else "?" for each in words[:_LONGEST])
