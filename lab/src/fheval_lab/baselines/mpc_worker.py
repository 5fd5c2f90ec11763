"""One of the three computing processes of `mpc_auc`: merges secret-shared lists and opens the AUC, no more.

Started as `python -m fheval_lab.baselines.mpc_worker LISTENER` with MPyC's options, LISTENER being the descriptor of an
inherited socket that listens on loopback. It reads one `Job` line from standard input
and writes one `Report` line to standard output. It ends by itself: when the work is done, when its time is over, or
when standard input closes because the process that started it is gone.

What it sees: how many lists there are and how long each is, its own Shamir shares (one of three, any one says
nothing), and the opened values r·num and r·den for a uniform r that nobody knows, which say num/den in lowest
terms and no more.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import secrets
import socket
import sys
import threading
from typing import Any

import msgspec
import numpy as np

from fheval_lab.baselines.comparisons import MergeNetwork, merge_network

PROCESSES = 3


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What one process is given; `scores` and `labels` are its shares, as decimal text."""

    modulus: str
    difference_bits: int
    lengths: list[int]
    scores: list[str]
    labels: list[str]
    seconds: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What one process gives back: r·num and r·den modulo the prime, and what it cost."""

    numerator: str
    denominator: str
    seconds: float
    bytes_sent: int


class InheritedListenerLoop(asyncio.SelectorEventLoop):
    """An event loop that serves on the loopback socket it was given.

    MPyC itself listens on all interfaces, and on a port that another program may have taken in the meantime.
    """

    def __init__(self, listener: socket.socket) -> None:
        super().__init__()
        self._listener = listener

    async def create_server(self, protocol_factory: Any, *_: Any, **__: Any) -> asyncio.Server:
        return await super().create_server(protocol_factory, sock=self._listener)


def main() -> None:
    """Read the job, compute, report."""
    listener = socket.socket(fileno=int(sys.argv.pop(1)))
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    _end_with_parent()
    _end_after(job.seconds)
    asyncio.set_event_loop(InheritedListenerLoop(listener))
    # MPyC reads sys.argv when it is imported, and takes the event loop that is set by then.
    mpc = importlib.import_module("mpyc.runtime").mpc
    report = mpc.run(_compute(mpc, job))
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _end_after(seconds: float) -> None:
    timer = threading.Timer(seconds, os._exit, args=(1,))
    timer.daemon = True
    timer.start()


async def _compute(mpc: Any, job: Job) -> Report:
    loop = asyncio.get_running_loop()
    async with mpc:
        started = loop.time()
        integers = mpc.SecInt(job.difference_bits, p=int(job.modulus))
        rows = [[int(share) for share in row] for row in (job.scores, job.labels)]
        shares = integers.field.array(np.array(rows, dtype=object))
        merged = await _merge(mpc, integers.array(shares), merge_network(job.lengths))
        numerator, denominator = await _open_ratio(mpc, integers, *_area(mpc, merged))
        seconds = loop.time() - started
        sent = sum(peer.protocol.nbytes_sent for peer in mpc.parties if peer.pid != mpc.pid)
    return Report(numerator=str(numerator), denominator=str(denominator), seconds=seconds, bytes_sent=sent)


async def _merge(mpc: Any, rows: Any, network: MergeNetwork) -> Any:
    """Rows of scores and labels, sorted by score from the largest down."""
    for layer in network.layers:
        left, right = rows[:, layer.first], rows[:, layer.second]
        swap = left[0] < right[0]
        moved = swap * (right - left)
        rows = mpc.np_update(rows, (slice(None), layer.first), left + moved)
        rows = mpc.np_update(rows, (slice(None), layer.second), right - moved)
        # Waiting for each layer keeps the number of unfinished tasks, and so the memory, bounded.
        await mpc.gather(rows)
    return rows[:, network.order]


def _area(mpc: Any, merged: Any) -> tuple[Any, Any]:
    """num = Σ (TP + TP')·(FP − FP') over the ends of ties, TP' and FP' being those at the end before; den = 2·P·Q."""
    scores, labels = merged[0], merged[1]
    count = scores.shape[0]
    rank = np.arange(1, count + 1).astype(object)
    positives = mpc.np_cumsum(labels)
    last_of_tie = 1 - (scores[:-1] == scores[1:])
    ends = mpc.np_append(last_of_tie, np.ones(1, dtype=object))
    before = _values_at_previous_end(mpc, ends, mpc.np_vstack((ends * rank, ends * positives)))
    new_negatives = (rank - positives) - (before[0] - before[1])
    numerator = mpc.np_sum((ends * new_negatives) * (positives + before[1]))
    total = positives[count - 1]
    return numerator, 2 * total * (count - total)


def _values_at_previous_end(mpc: Any, ends: Any, values: Any) -> Any:
    """For every position the column of `values` at the nearest end of a tie before it, or zeros: log n rounds."""
    carried = mpc.np_vstack((values, mpc.np_reshape(ends, (1, -1))))
    distance = 1
    while distance < ends.shape[0]:
        later = carried[:, distance:]
        taken_over = (1 - later[2]) * carried[:, :-distance]
        carried = mpc.np_hstack((carried[:, :distance], later + taken_over))
        distance *= 2
    nothing = np.zeros((2, 1), dtype=object)
    return mpc.np_hstack((type(values)(values.sectype.field.array(nothing)), carried[:2, :-1]))


async def _open_ratio(mpc: Any, integers: Any, numerator: Any, denominator: Any) -> tuple[int, int]:
    """Open r·num and r·den, r being the sum of one uniform field element from each process."""
    field = integers.field
    own = integers(field(secrets.randbelow(field.modulus)))
    blind = mpc.sum(mpc.input(own))
    opened = await mpc.output([blind * numerator, blind * denominator])
    return int(opened[0]) % field.modulus, int(opened[1]) % field.modulus


if __name__ == "__main__":
    main()
