"""The exact AUC by MPC: the merging network, the codes of scores, the shares, and three real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fheval.errors import ConfigError, InputError, LocalProtocolError, TransportError, UndefinedMetric
from fheval.secrets import Secret, SystemRandomness, derive
from fheval_lab.baselines import mpc, optional
from fheval_lab.baselines.comparisons import FORMATS, MergeNetwork, common_format, merge_network
from fheval_lab.baselines.data import check_parties
from fheval_lab.baselines.mpc import mpc_auc, owners_share
from fheval_lab.baselines.mpc_worker import InheritedListenerLoop, Job, Report
from pairwise_auc import pairwise_auc

needs_mpyc = pytest.mark.skipif(find_spec("mpyc") is None, reason="MPyC is not installed")
needs_proc = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc")

WITH_TIES = [([1, 0, 0], [0.75, 0.5, 0.5]), ([1, 1, 0, 1], [0.5, 1.0, 0.75, 0.0])]


def apply(network: MergeNetwork, values: NDArray[np.float64]) -> NDArray[np.float64]:
    wires = values.copy()
    for layer in network.layers:
        first, second = wires[layer.first], wires[layer.second]
        wires[layer.first], wires[layer.second] = np.maximum(first, second), np.minimum(first, second)
    return wires[network.order]


@pytest.mark.parametrize(("left", "right"), list(product(range(8), repeat=2)))
def test_network_merges_every_pair_of_sorted_lists(left: int, right: int) -> None:
    """By the 0-1 principle, a network that merges all sorted lists of zeros and ones merges all sorted lists."""
    network = merge_network([left, right])
    for ones, other_ones in product(range(left + 1), range(right + 1)):
        lists = [1.0] * ones + [0.0] * (left - ones) + [1.0] * other_ones + [0.0] * (right - other_ones)
        merged = apply(network, np.array(lists))
        assert merged.tolist() == sorted(lists, reverse=True)


@given(st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=9))
def test_network_merges_many_lists(lists: list[list[int]]) -> None:
    laid_out = np.array([value for own in lists for value in sorted(own, reverse=True)], dtype=np.float64)
    network = merge_network([len(own) for own in lists])
    assert apply(network, laid_out).tolist() == sorted(laid_out.tolist(), reverse=True)


def test_layers_touch_no_position_twice() -> None:
    for layer in merge_network([5, 9, 2, 7]).layers:
        touched = [*layer.first.tolist(), *layer.second.tolist()]
        assert len(touched) == len(set(touched))


finite_doubles = st.floats(allow_nan=False, allow_infinity=False)
singles = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(finite_doubles, min_size=2, max_size=20) | st.lists(singles, min_size=2, max_size=20))
def test_codes_keep_order_and_ties(values: list[float]) -> None:
    scores = np.array(values)
    form = common_format([scores])
    codes = form.encode(scores)
    assert np.array_equal(
        np.sign(np.subtract.outer(codes.astype(object), codes.astype(object))).astype(int),
        np.greater.outer(scores, scores).astype(int) - np.less.outer(scores, scores).astype(int),
    )
    limit = 1 << (form.difference_bits(unit=False) - 1)
    assert all(abs(a - b) < limit for a, b in product(codes.tolist(), repeat=2))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20) | st.lists(st.floats(0, 1, width=32), min_size=2, max_size=9))
def test_unit_scores_need_fewer_bits(values: list[float]) -> None:
    scores = np.array(values)
    form = common_format([scores])
    codes = form.encode(scores).tolist()
    assert max(codes) - min(codes) < 1 << (form.difference_bits(unit=True) - 1)


def test_text_written_by_single_precision_code_is_recognised() -> None:
    singles = np.array([0.9906447, 0.1, 6.093567e-08, 1.0], dtype=np.float32)
    written = np.array([float(str(value)) for value in singles])
    assert common_format([written]).name == "float32 as decimal text"
    # A single itself and its decimal are different doubles, and must not become a tie.
    mixed = [written, singles.astype(np.float64)]
    assert common_format(mixed).name == "float64"


def test_formats_go_from_narrow_to_wide() -> None:
    widths = [form.difference_bits(unit=True) for form in FORMATS]
    assert widths == sorted(widths) == [31, 31, 63]


def shared(rng: SystemRandomness | None = None) -> tuple[list[Job], int]:
    owners = check_parties(WITH_TIES)
    plan = mpc._plan(owners)
    return owners_share(owners, plan, rng or SystemRandomness(), seconds=1), plan.modulus


def test_two_shares_give_the_sorted_samples() -> None:
    jobs, modulus = shared()
    labels = [(2 * int(one) - int(two)) % modulus for one, two in zip(jobs[0].labels, jobs[1].labels, strict=True)]
    others = [
        (3 * int(one) - int(three)) * pow(2, -1, modulus) % modulus
        for one, three in zip(jobs[0].labels, jobs[2].labels, strict=True)
    ]
    # Sorted by score, largest first, owner by owner.
    assert labels == others == [1, 0, 0, 1, 0, 1, 1]


def test_one_share_does_not_repeat() -> None:
    first, second = shared()[0][0], shared()[0][0]
    assert not set(first.scores) & set(second.scores)
    assert len(set(first.labels)) == len(first.labels)


def test_a_constant_generator_would_show() -> None:
    """The test above can fail: shares made from a fixed stream repeat."""

    class Fixed(SystemRandomness):
        def __init__(self) -> None:
            self._stream = derive(Secret(bytes(32)), "test")

        def draw(self, count: int) -> bytes:
            return self._stream.draw(count)

    first, second = shared(Fixed())[0][0], shared(Fixed())[0][0]
    assert first.scores == second.scores


def test_worker_serves_only_on_the_socket_it_is_given() -> None:
    listener = mpc._loopback_listener()
    loop = InheritedListenerLoop(listener)
    try:
        server = loop.run_until_complete(loop.create_server(asyncio.Protocol, port=0, ssl=None))
        assert [bound.getsockname() for bound in server.sockets] == [listener.getsockname()]
        assert listener.getsockname()[0] == "127.0.0.1"
        server.close()
        loop.run_until_complete(server.wait_closed())
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("numerators", "denominators", "error"),
    [
        (("3", "3", "4"), ("4", "4", "4"), LocalProtocolError),
        (("0", "0", "0"), ("0", "0", "0"), UndefinedMetric),
        (("5", "5", "5"), (str(1 << 80),) * 3, LocalProtocolError),
    ],
)
def test_reports_that_are_no_auc(
    numerators: tuple[str, ...], denominators: tuple[str, ...], error: type[Exception]
) -> None:
    plan = mpc._plan(check_parties(WITH_TIES))
    reports = [
        Report(numerator=numerator, denominator=denominator, seconds=1.0, bytes_sent=0)
        for numerator, denominator in zip(numerators, denominators, strict=True)
    ]
    with pytest.raises(error):
        mpc._agreed_fraction(reports, plan)


@needs_mpyc
def test_three_processes_find_the_exact_auc_with_ties() -> None:
    expected = pairwise_auc(WITH_TIES)
    result = mpc_auc(WITH_TIES, timeout=60)
    assert (result.numerator, result.denominator) == (expected.numerator, expected.denominator)
    assert result.auc == float(expected)
    assert (result.processes, result.parties, result.samples, result.score_bits) == (3, 2, 7, 31)
    assert result.comparisons == merge_network([3, 4]).comparisons + 6
    assert result.bytes_sent > 0


@needs_mpyc
def test_double_precision_and_negative_scores() -> None:
    parties = [([1, 1], [-5.5, 1e300]), ([0, 1, 0], [1e300, -1e-300, 1 / 3])]
    result = mpc_auc(parties, timeout=60)
    assert result.auc == float(pairwise_auc(parties))
    assert (result.score_format, result.score_bits) == ("float64", 65)


@needs_mpyc
def test_one_class_has_no_auc() -> None:
    with pytest.raises(UndefinedMetric, match="one class is missing"):
        mpc_auc([([1, 1], [0.5, 0.25]), ([1], [0.75])], timeout=60)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that a test starts."""
    processes: list[subprocess.Popen[bytes]] = []
    start = mpc._start

    def noting(*arguments: object) -> subprocess.Popen[bytes]:
        processes.append(start(*arguments))  # type: ignore[arg-type]
        return processes[-1]

    monkeypatch.setattr(mpc, "_start", noting)
    yield processes
    assert processes
    assert all(process.returncode is not None for process in processes)


@needs_mpyc
def test_the_time_limit_ends_all_processes(started: list[subprocess.Popen[bytes]]) -> None:
    with pytest.raises(TransportError, match="did not finish in its time limit"):
        mpc_auc(WITH_TIES, timeout=0.05)
    assert len(started) == 3


def test_a_process_that_fails_is_reported(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpc, "check_installed", lambda *_, **__: None)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(TransportError, match=r"ended with status 1 .*Try again"):
        mpc_auc(WITH_TIES, timeout=60)


def test_bad_options_and_data_are_refused() -> None:
    with pytest.raises(ConfigError, match="time limit"):
        mpc_auc(WITH_TIES, timeout=0)
    with pytest.raises(InputError, match="party 1, row 2"):
        mpc_auc([([1, 0], [0.5, float("nan")])])
    with pytest.raises(UndefinedMetric, match="single sample"):
        mpc._plan(check_parties([([1], [0.5])]))


def test_without_mpyc_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"needs mpyc.*pip install 'fheval-lab\[baselines\]'"):
        mpc_auc(WITH_TIES)


def random_parties(parties: int, samples: int, *, steps: int) -> list[tuple[list[int], list[float]]]:
    stream = derive(Secret(bytes(32)), "test data", parties, samples, steps)
    drawn = np.frombuffer(stream.draw(8 * parties * samples), dtype="<u4").reshape(parties, samples, 2)
    return [([0, 1, *(own[2:, 0] % 2).tolist()], ((own[:, 1] % (steps + 1)) / steps).tolist()) for own in drawn]


@needs_mpyc
@pytest.mark.slow
@pytest.mark.parametrize(("parties", "samples", "steps"), [(1, 40, 8), (3, 21, 10), (5, 30, 1000), (8, 50, 1 << 31)])
def test_exact_at_larger_sizes(parties: int, samples: int, steps: int) -> None:
    data = random_parties(parties, samples, steps=steps)
    result = mpc_auc(data, timeout=120)
    expected = pairwise_auc(data)
    assert (result.numerator, result.denominator) == (expected.numerator, expected.denominator)


CALLER = """
from fheval_lab.baselines.mpc import mpc_auc
mpc_auc([([0, 1] * 400, [i / 1001 for i in range(800)])] * 2, timeout=120)
"""


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until(condition: object, seconds: float) -> bool:
    assert callable(condition)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def listening_addresses(pid: int) -> set[str]:
    """Local addresses, in hexadecimal, of the sockets on which a process listens."""
    own = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            own.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    rows = [row.split() for table in ("tcp", "tcp6") for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in own}


@needs_mpyc
@needs_proc
@pytest.mark.slow
def test_processes_listen_on_loopback_only_and_end_with_their_caller() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    caller = subprocess.Popen([sys.executable, "-c", CALLER], env=environment)
    try:
        assert wait_until(lambda: len(children(caller.pid)) == 3, 20)
        workers = children(caller.pid)
        # Of three parties, the last one only connects to the others.
        assert wait_until(lambda: sum(bool(listening_addresses(worker)) for worker in workers) >= 2, 20)
        assert set().union(*map(listening_addresses, workers)) == {"0100007F"}  # 127.0.0.1
    finally:
        os.kill(caller.pid, signal.SIGKILL)
        caller.wait()
    assert wait_until(lambda: not any(Path(f"/proc/{worker}/fd/0").exists() for worker in workers), 10)
