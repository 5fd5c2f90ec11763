"""The hub's figures as Prometheus reads them, on a port of this machine where it was asked for.

They count members, rounds and bytes, which the hub's operator sees anyway; no result is among them, since the hub has
none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from fheval.aggregator.orders import Summary
from fheval.errors import ConfigError

_REQUEST_SECONDS = 5.0


@dataclass(slots=True)
class Tally:
    """What the hub has done since it was started."""

    completed: int = 0
    failed: int = 0
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    last: float | None = None

    def ended(self, summary: Summary) -> None:
        """Note a round that was completed."""
        self.completed += 1
        self.sent += summary.bytes["sent"]
        self.received += summary.bytes["received"]
        self.seconds = summary.seconds["total"]
        self.last = time.time()

    def text(
        self, *, members: int, connected: int, arrivals: int, policy: int, running: bool, clock_difference: float
    ) -> str:
        """The figures in Prometheus' text format, version 0.0.4."""
        figures = (
            ("members", "gauge", "Members that the policy lists.", members),
            ("members_connected", "gauge", "Members that are connected.", connected),
            ("connections_total", "counter", "Connections taken from members.", arrivals),
            ("policy_version", "gauge", "Version of the policy.", policy),
            ("round_running", "gauge", "Whether a round is running.", int(running)),
            ("rounds_completed_total", "counter", "Rounds that were completed.", self.completed),
            ("rounds_failed_total", "counter", "Orders that ended without a round.", self.failed),
            ("round_seconds", "gauge", "How long the last round took.", round(self.seconds, 6)),
            ("last_round_timestamp_seconds", "gauge", "When the last round ended.", round(self.last or 0.0, 3)),
            ("sent_bytes_total", "counter", "Bytes of requests in completed rounds.", self.sent),
            ("received_bytes_total", "counter", "Bytes of replies in completed rounds.", self.received),
            ("clock_difference_seconds", "gauge", "The largest among connected members.", round(clock_difference, 3)),
        )
        return "".join(
            f"# HELP fheval_{name} {words}\n# TYPE fheval_{name} {kind}\nfheval_{name} {value}\n"
            for name, kind, words, value in figures
        )


@asynccontextmanager
async def telling(text: Callable[[], str], port: int | None) -> AsyncIterator[None]:
    """Answer every HTTP request on this port of the loopback interface with the text; without a port, none."""
    if port is None:
        yield
        return

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _REQUEST_SECONDS)
            body = text().encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\n"
            writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(one, "127.0.0.1", port, limit=1 << 14)
    except OSError as error:
        raise ConfigError(f"Port {port} cannot be listened on for metrics. Is it taken? Name another.") from error
    try:
        yield
    finally:
        server.close()
