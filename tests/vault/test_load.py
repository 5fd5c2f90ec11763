"""Two hundred rounds in a row against five vaults in one process: no leak of memory, files or disk."""

from __future__ import annotations

import gc
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from fheval.engines import Engine, load_engine
from fheval.party.ledger import KEPT_ROUNDS
from fheval_lab.clear import ClearEngine
from keys_consortium import Consortium
from vault.trial import NAMES, RULES, Trial, running

ROUNDS = 200
# Caches fill during the first rounds, and the allocator settles.
WARM_UP = 40


def resident() -> int:
    """Bytes of memory that this process has in use."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    """Open files, sockets and pipes."""
    return len(os.listdir("/proc/self/fd"))


def large_rows(trial: Trial) -> int:
    """How many replies, bundles and boxes the ledgers keep."""
    found = 0
    for name in NAMES:
        with closing(sqlite3.connect(trial.ledger_path(name))) as connection:
            for table in ("replies", "epoch_bytes"):
                found += connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]  # noqa: S608
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts memory and files in /proc")
@pytest.mark.parametrize("engine", ["clear", "seal"], ids=["plaintext", "real FHE"])
def test_two_hundred_rounds(consortium: Consortium, folder: Path, engine: str) -> None:
    consortium.sign(msgspec.structs.replace(RULES, releases_per_lineage=ROUNDS))
    chosen: Engine = ClearEngine() if engine == "clear" else load_engine(engine)
    with running(folder, consortium, chosen) as trial:
        for number in range(ROUNDS):
            assert trial.play().confirmed == NAMES
            if number == WARM_UP:
                memory, files = resident(), descriptors()
        assert descriptors() <= files
        # A leak of one upload a round would be 25 MB, one of one key bundle 60 MB.
        assert resident() - memory < 8 << 20
        # Five stages at most, a bundle with its box, and of the newest rounds only.
        assert large_rows(trial) <= len(NAMES) * KEPT_ROUNDS * 6
        assert all(len(trial.ledgers[name].history()) == ROUNDS for name in NAMES)
        for name in NAMES:
            assert trial.released(name) == pytest.approx(trial.pooled(), abs=1e-4)
