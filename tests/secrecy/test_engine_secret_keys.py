"""A secret key stays nowhere that it only passed through: no file, in memory or on a disk, holds it afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine_roles import ENGINE_NAMES, Roles, engine_named
from fheval.engines import container, why_unavailable
from fheval.engines.container import MemoryFile
from fheval.engines.parameters import bfv_linear, plain_moduli

PARAMETERS = bfv_linear(plain_moduli(1)[0])
DESCRIPTORS = Path("/proc/self/fd")


def files_in_memory() -> Iterator[bytes]:
    """The content of every file in memory that this process has open."""
    for number in os.listdir(DESCRIPTORS):
        try:
            if os.readlink(DESCRIPTORS / number).startswith("/memfd:"):
                yield (DESCRIPTORS / number).read_bytes()
        except FileNotFoundError:
            continue


@pytest.fixture(scope="module", params=[name for name in ENGINE_NAMES if name != "clear"])
def roles(request: pytest.FixtureRequest) -> Roles:
    reason = why_unavailable(request.param)
    if reason is not None:
        pytest.skip(f"The engine {request.param} does not load here: {reason}")
    return Roles.fresh(engine_named(request.param), PARAMETERS)


def test_a_secret_key_leaves_no_trace_in_files(roles: Roles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "memfd_create") or not DESCRIPTORS.exists():
        pytest.skip("This system has no files in memory.")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    fresh = Roles.fresh(roles.engine, PARAMETERS)
    payload = fresh.payload(container.SECRET_KEY, fresh.keys.secret.reveal())
    piece = payload[len(payload) // 2 :][:64]
    assert not [data for data in files_in_memory() if piece in data]
    fresh.opened(fresh.loaded(np.ones(3, dtype=np.uint64)))
    assert not [data for data in files_in_memory() if piece in data]
    assert list(tmp_path.iterdir()) == []
    held = MemoryFile()
    held.holding(payload)
    assert [data for data in files_in_memory() if piece in data], "the search would have found it"


def test_public_keys_and_ciphertexts_do_not_hold_the_secret_key(roles: Roles) -> None:
    payload = roles.payload(container.SECRET_KEY, roles.keys.secret.reveal())
    pieces = [payload[start:][:32] for start in range(2000, len(payload) - 32, len(payload) // 50)]
    ciphertext = roles.holder.encrypt(np.ones(3, dtype=np.uint64))
    for piece in pieces:
        assert piece not in roles.keys.public
        assert piece not in ciphertext
