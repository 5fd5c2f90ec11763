"""An aggregator that lies to vaults which run as processes of their own, with default settings. `make e2e`.

The test is the aggregator: it asks the vaults on their sockets, as the members' relays do for whoever runs the hub.
What it does here is done in one process, with the guards in and out, by the tests that are named beside each attack.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from direct.vaults import Vaults
from fheval.cli import main
from fheval.errors import CohortTooSmall, FhevalError, TransportError
from fheval.party.messages import REFUSAL, Hello, Relay, Reply, Tell, request
from fheval.protocols import PROTOCOLS, padded_verified
from fheval.protocols.base import Stage
from fheval.wire import decode
from vault.requests import another, call_of, changed, proof_of, set_up

pytestmark = pytest.mark.slow

NAMES = ("alder", "birch", "cedar", "hazel")
POINTS = 20
COMMON = f'grid = "even"\ndecision_points = {POINTS}\nrounds = 40\n'
STUDIES = {
    "rounded": f'protocol = "padded"\n{COMMON}',
    "verified": f'protocol = "padded-verified"\n{COMMON}',
    "regression": 'protocol = "padded"\nmetrics = ["mae"]\ntarget_range = [0, 1]\nrounds = 40\n',
    "resampled": f'protocol = "padded"\ninterval = 0.9\nreplicates = 40\n{COMMON}',
}


@pytest.fixture(scope="module")
def vaults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vaults]:
    made = Vaults(tmp_path_factory.mktemp("v"), NAMES, studies=STUDIES)
    made.found(
        rows={
            "alder": (np.tile([0, 1], 5), np.linspace(0, 1, 10)),
            "birch": (np.tile([0, 1], 25_000), np.linspace(0, 1, 50_000)),
            "cedar": (np.ones(30), np.linspace(0, 1, 30)),
        }
    )
    try:
        made.start()
        yield made
    finally:
        made.stop()


def kind(reply: bytes) -> tuple[str, int]:
    """Which stage was answered, or that it was refused, and in how many bytes; fresh keys are of various lengths."""
    stage = "refused" if reply == REFUSAL else decode(reply, Reply, sender="vault").stage.value
    return stage, 0 if stage == Stage.SETUP.value else len(reply)


@pytest.mark.parametrize("study", ["rounded", "regression", "resampled"])
def test_replies_have_one_kind_and_length_whatever_the_rows(vaults: Vaults, study: str) -> None:
    """Ten rows, fifty thousand, one class; see tests/vault/test_nothing_shows.py."""
    asked = vaults.until(study, Stage.SUBMIT)
    call = call_of(asked.requests["birch"])
    seen = []
    for name in NAMES:
        if name == call.leader:
            continue
        honest = asked.requests[name]
        requests = [
            b"noise",
            request(Stage.HELLO, Hello(challenge=bytes(16))),
            request(Stage.TELL, Tell(round=call.id)),
            changed(honest, bundle=b"none"),
            set_up(another(call, leader=name)),
            set_up(another(call, leader=name, study=bytes(32))),
            honest,
            honest,
            request(Stage.RESULT, Relay(round=call.id, body=b"x")),
            honest,
        ]
        seen.append([kind(vaults.handle(name, data)) for data in requests])
    assert all(each == seen[0] for each in seen)
    assert [stage for stage, _ in seen[0]] == [
        *("refused", "hello", "refused", "refused", "setup", "refused", "submit", "submit", "refused", "refused")
    ]


def test_a_question_that_nobody_accepted_is_refused_by_all(vaults: Vaults) -> None:
    """Other bounds, another precision, a weaker protocol: each by the hash that it would have."""
    honest = call_of(vaults.until("verified", Stage.SUBMIT).requests["birch"])
    agreed = vaults.study("verified")
    changes: list[dict[str, Any]] = [{"most_rows_per_party": bound} for bound in (9, 10, 11, 60_000)]
    changes += [{"protocol": "padded", "precision": 1e-4}, {"precision": 1e-9}]
    for each in changes:
        other = msgspec.structs.replace(agreed, **each)
        assert {vaults.handle(name, set_up(another(honest, study=other.hash(), leader=name))) for name in NAMES} == {
            REFUSAL
        }


def test_a_weighted_answer_is_refused_and_nobody_says_so(vaults: Vaults, monkeypatch: pytest.MonkeyPatch) -> None:
    """See tests/adversary/test_strategies.py for the other ways to deviate."""

    class Weighting(padded_verified.Aggregator):
        def draw_blinding(self) -> Any:
            honest = super().draw_blinding()
            for weights, _ in honest:
                weights[::2] = 999
            return honest

    honest = vaults.conduct("verified", vaults.carry)
    monkeypatch.setattr(PROTOCOLS["padded-verified"], "aggregator", Weighting)
    forged = vaults.conduct("verified", vaults.carry)
    assert forged.confirmed == honest.confirmed == NAMES
    for name in NAMES:
        before, after = vaults.rounds(name)[-2:]
        assert (before["state"], after["state"]) == ("released", "refused")


def test_rosters_that_differ_by_one_are_not_both_opened(vaults: Vaults) -> None:
    """See tests/vault/test_rosters.py; this conductor does not leave anybody out by itself."""
    vaults.conduct("rounded", vaults.carry)
    with pytest.raises((TransportError, CohortTooSmall)):
        vaults.conduct("rounded", vaults.carry, members=NAMES[:3])
    assert vaults.rounds("alder")[-1]["state"] in ("void", "aborted")


def test_a_second_answer_for_the_same_round_is_not_opened(vaults: Vaults) -> None:
    """See tests/vault/test_once.py."""
    asked = vaults.until("rounded", Stage.RESULT)
    ((leader, honest),) = asked.requests.items()
    first = vaults.handle(leader, honest)
    assert first != REFUSAL
    assert vaults.handle(leader, honest) == first
    assert vaults.handle(leader, changed(honest, body=b"another")) == REFUSAL
    assert proof_of(first).party == leader


def test_a_byte_more_is_no_new_budget(vaults: Vaults, capsys: pytest.CaptureFixture[str]) -> None:
    """The policy allows ten numbers of a lineage; see tests/vault/test_budgets.py."""
    path = vaults.root / "alder.csv"
    released = 0
    with suppress(FhevalError):
        for _ in range(12):
            vaults.conduct("resampled", vaults.carry)
            released += 1
            path.write_bytes(path.read_bytes() + b"\n")
    # A test above had one of them.
    assert released in (9, 10)
    # Whoever was asked for keys there, and never for an upload, has one left.
    assert {spent(vaults, name, capsys) for name in NAMES} <= {9, 10}


def spent(vaults: Vaults, name: str, capsys: pytest.CaptureFixture[str]) -> int:
    capsys.readouterr()
    assert main(["vault", "status", "--kit", str(vaults.kit(name)), "--json", "-"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    return next(int(each["releases"]) for each in found["lineages"] if each["lineage"] == "resampled")


def test_too_many_rows_are_told_to_the_operator_alone(vaults: Vaults, capsys: pytest.CaptureFixture[str]) -> None:
    vaults.sign("small", f'protocol = "padded"\nmax_samples = 64\n{COMMON}')
    signed, data = str(vaults.signed("small")), str(Path(vaults.root / "birch.csv"))
    place = ("--kit", str(vaults.kit("birch")), signed, "--data", data, "--lineage", "small")
    assert main(["vault", "accept", *place, "--yes"]) == 2
    assert "the study allows 16 of each" in capsys.readouterr().err
    honest = call_of(vaults.until("rounded", Stage.SUBMIT).requests["birch"])
    asked = set_up(another(honest, study=vaults.study("small").hash(), leader="birch"))
    assert vaults.handle("birch", asked) == REFUSAL
