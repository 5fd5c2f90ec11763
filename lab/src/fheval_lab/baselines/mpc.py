"""The exact AUC by multi-party computation, ties included, in the manner of ppAURORA (Ünal, Pfeifer, Akgün).

Data owners sort their samples and secret-share scores and labels among three computing processes (Shamir, any two
of three can reconstruct, one learns nothing), which run MPyC over loopback. They merge the sorted lists on shares,
test neighbouring scores for equality, and let the area step only where a tie ends, so that ties count as one half.
ppAURORA merges two lists by comparing them position by position over and over, quadratically in their length, and
opens the outcomes of some comparisons to be faster; a network of comparators (see `comparisons`) does it in n·log n and
opens none.

Reveals: to the computing processes, the number of owners and of each one's samples, the score format, and the AUC
as a fraction in lowest terms; nothing else unless two of the three collude or one deviates. Each comparison hides
its values statistically, to about 2^-39. The channels between the processes are plain loopback connections: this
measures the cost of the computation, it is no deployment.

Costs: at most about n·log2(n)·log2(owners)/2 + n secure comparisons for n samples, each in proportion to the bits of
a difference of scores (31 where scores are single precision in [0, 1], 63 where double). It does not depend on
decision points: there are none.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec
import numpy as np

from fheval.errors import ConfigError, LocalProtocolError, TransportError, UndefinedMetric
from fheval.field import rational
from fheval.secrets import Randomness, SystemRandomness, integer_below
from fheval_lab.baselines.comparisons import ScoreFormat, common_format, merge_network
from fheval_lab.baselines.data import ANY_FINITE, Parties, Samples, check_parties
from fheval_lab.baselines.mpc_worker import PROCESSES, Job, Report
from fheval_lab.baselines.optional import check_installed

# Statistical security of a comparison, in bits; MPyC's own default is 30.
HIDING_BITS = 40

# Mersenne primes: large enough for a comparison's mask, and for a fraction of two numbers up to n²/2.
MODULI = ((1 << 89) - 1, (1 << 107) - 1)

DEFAULT_TIMEOUT = 600.0

# A process ends itself this many seconds after the time at which it should have been ended.
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class MpcResult:
    """The exact AUC, numerator/denominator in lowest terms, and what it cost.

    `seconds` is the whole wall time, starting the processes included; `computing_seconds` is the protocol's alone;
    `bytes_sent` is the traffic between the processes.
    """

    auc: float
    numerator: int
    denominator: int
    seconds: float
    computing_seconds: float
    processes: int
    parties: int
    samples: int
    comparisons: int
    score_format: str
    score_bits: int
    bytes_sent: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """What everybody knows before the computation starts."""

    modulus: int
    lengths: tuple[int, ...]
    form: ScoreFormat
    difference_bits: int

    @property
    def samples(self) -> int:
        return sum(self.lengths)


def mpc_auc(parties: Parties, *, timeout: float = DEFAULT_TIMEOUT, rng: Randomness | None = None) -> MpcResult:
    """Compute the exact AUC among three processes on this machine; scores may be any finite numbers."""
    if not timeout > 0:
        raise ConfigError(f"The time limit must be a positive number of seconds, not {timeout}.")
    owners = check_parties(parties, ANY_FINITE)
    check_installed("mpyc", baseline="The exact AUC by MPC", install="pip install 'fheval-lab[baselines]'")
    started = time.monotonic()
    plan = _plan(owners)
    jobs = owners_share(owners, plan, rng or SystemRandomness(), seconds=timeout + _GRACE_SECONDS)
    reports = _run(jobs, deadline=started + timeout)
    numerator, denominator = _agreed_fraction(reports, plan)
    return MpcResult(
        auc=numerator / denominator,
        numerator=numerator,
        denominator=denominator,
        seconds=time.monotonic() - started,
        computing_seconds=max(report.seconds for report in reports),
        processes=PROCESSES,
        parties=len(owners),
        samples=plan.samples,
        comparisons=merge_network(plan.lengths).comparisons + plan.samples - 1,
        score_format=plan.form.name,
        score_bits=plan.difference_bits,
        bytes_sent=sum(report.bytes_sent for report in reports),
    )


def _plan(owners: Sequence[Samples]) -> _Plan:
    samples = sum(len(owner) for owner in owners)
    if samples < 2:
        raise UndefinedMetric("The AUC is undefined for a single sample. Add data that has both classes.")
    form = common_format([owner.scores for owner in owners])
    unit = all(float(owner.scores.min()) >= 0 and float(owner.scores.max()) <= 1 for owner in owners)
    bits = form.difference_bits(unit=unit)
    for modulus in MODULI:
        if modulus.bit_length() >= bits + HIDING_BITS + 2 and samples**4 < 2 * modulus:
            return _Plan(modulus, tuple(len(owner) for owner in owners), form, bits)
    raise ConfigError(f"{samples} samples are too many for the exact AUC by MPC. Use a protocol that counts.")


def owners_share(owners: Sequence[Samples], plan: _Plan, rng: Randomness, *, seconds: float) -> list[Job]:
    """Each owner sorts its samples by score, largest first, and splits them; job i holds the shares of process i."""
    scores: list[int] = []
    labels: list[int] = []
    for owner in owners:
        codes = plan.form.encode(owner.scores)
        order = np.argsort(-codes, kind="stable")
        scores += codes[order].tolist()
        labels += owner.labels[order].tolist()
    modulus, bits, lengths = plan.modulus, plan.difference_bits, list(plan.lengths)
    return [
        Job(modulus=str(modulus), difference_bits=bits, lengths=lengths, scores=one, labels=other, seconds=seconds)
        for one, other in zip(_shamir(scores, modulus, rng), _shamir(labels, modulus, rng), strict=True)
    ]


def _shamir(values: Sequence[int], modulus: int, rng: Randomness) -> list[list[str]]:
    """Shares of each value, one list for each process: value + slope·(i + 1) with a fresh uniform slope."""
    slopes = [integer_below(rng, modulus) for _ in values]
    return [
        [str((value + slope * point) % modulus) for value, slope in zip(values, slopes, strict=True)]
        for point in range(1, PROCESSES + 1)
    ]


def _agreed_fraction(reports: Sequence[Report], plan: _Plan) -> tuple[int, int]:
    """The AUC in lowest terms from r·num and r·den, which all processes must have opened alike."""
    if len({(report.numerator, report.denominator) for report in reports}) != 1:
        raise LocalProtocolError("The computing processes opened different results. Please report this as a bug.")
    blinded = int(reports[0].denominator)
    if not blinded:
        raise UndefinedMetric("The AUC is undefined: one class is missing. Add data that has both classes.")
    quotient = int(reports[0].numerator) * pow(blinded, -1, plan.modulus)
    fraction = rational(quotient, plan.modulus, plan.samples**2 // 2)
    if fraction is None:
        raise LocalProtocolError("The opened result is no AUC. Please report this as a bug.")
    return fraction


def _run(jobs: Sequence[Job], deadline: float) -> list[Report]:
    """Start one process for each job and collect the reports; no process outlives this call."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(_loopback_listener()) for _ in jobs]
        addresses = [f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]
        logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in jobs]
        # Threads hand out the jobs: a process that does not read must not hold up the time limit.
        threads = stack.enter_context(ThreadPoolExecutor(len(jobs)))
        workers = []
        for index, (listener, log) in enumerate(zip(listeners, logs, strict=True)):
            workers.append(_start(index, addresses, listener, log))
            stack.callback(_end, workers[-1])
        for worker, job, listener in zip(workers, jobs, listeners, strict=True):
            listener.close()
            threads.submit(_send, worker, job)
        _wait(workers, logs, deadline)
        return [_report(worker) for worker in workers]


def _loopback_listener() -> socket.socket:
    """A listening socket on a free port: made here and handed down, so that nobody can take the port in between."""
    return socket.create_server(("127.0.0.1", 0))


def _start(index: int, addresses: Sequence[str], listener: socket.socket, log: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "fheval_lab.baselines.mpc_worker", str(listener.fileno())]
    # Without pseudo-random secret sharing every random bit comes from the operating system. It is also faster here:
    # no square roots in the field.
    # uvloop, if installed, would put its own event loop in the place of the one that serves on loopback only.
    command += ["--no-prss", "--no-uvloop", "--no-log", "-K", str(HIDING_BITS), "-I", str(index)]
    for address in addresses:
        command += ["-P", address]
    package_root = str(Path(__file__).resolve().parents[2])
    search_path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(  # noqa: S603 (our own module, no shell)
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        pass_fds=[listener.fileno()],
        # Three processes on few cores gain nothing from threads inside numpy.
        env={**os.environ, "PYTHONPATH": search_path, "OMP_NUM_THREADS": "1"},
    )


def _send(worker: subprocess.Popen[bytes], job: Job) -> None:
    """Hand over the job and leave the pipe open: a process ends itself when it closes."""
    assert worker.stdin is not None  # noqa: S101 (it was opened as a pipe)
    with suppress(BrokenPipeError):  # it has ended already; `_wait` says why
        worker.stdin.write(msgspec.json.encode(job) + b"\n")
        worker.stdin.flush()


def _wait(workers: Sequence[subprocess.Popen[bytes]], logs: Sequence[IO[bytes]], deadline: float) -> None:
    while True:
        states = [worker.poll() for worker in workers]
        for state, log in zip(states, logs, strict=True):
            if state:
                raise TransportError(
                    f"A computing process of the MPC ended with status {state} ({_last_line(log)}). "
                    "Try again; if it happens again, check that MPyC works with this Python."
                )
        if None not in states:
            return
        if time.monotonic() > deadline:
            raise TransportError(
                "The exact AUC by MPC did not finish in its time limit, and its processes were ended. "
                "Give it more time or fewer samples: cost grows faster than their number."
            )
        time.sleep(0.02)


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _report(worker: subprocess.Popen[bytes]) -> Report:
    assert worker.stdout is not None  # noqa: S101 (it was opened as a pipe)
    try:
        return msgspec.json.decode(worker.stdout.read(), type=Report)
    except msgspec.DecodeError as error:
        raise TransportError(f"A computing process of the MPC gave no readable report ({error}). Try again.") from error


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # what it never read is still in the buffer
                pipe.close()
