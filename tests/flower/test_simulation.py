"""The same apps among fifty parties in Flower's Ray simulation."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fheval.aggregator.orders import Order, OrderEnd
from fheval.flower.environment import flower_environment, flower_program
from fheval.flower.orders import place_order, read_end
from fheval.flower.processes import Child, free_port
from fheval.flower.state import STATE_VARIABLE, State
from flower.parties import Parties, make_parties

pytestmark = pytest.mark.slow

PARTIES = 50
APP = Path(__file__).with_name("simulated")
START_SECONDS = 90
ROUND_SECONDS = 300


class Simulation:
    """A SuperLink that simulates its SuperNodes with Ray."""

    def __init__(self, parties: Parties, state: State, port: int) -> None:
        self.state = state
        self.port = port
        self.environment = {
            **flower_environment(state.flower_home),
            STATE_VARIABLE: str(state.directory),
            "FHEVAL_SIMULATED": str(parties.root),
        }
        (state.flower_home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
        )

    @contextmanager
    def up(self) -> Iterator[None]:
        command = ["--simulation", "--insecure", "--host", "127.0.0.1", "--port", str(self.port)]
        child = Child(
            [flower_program("flower-superlink"), *command, "--disable-runtime-dependency-installation"],
            self.environment,
        )
        try:
            self._wait()
            yield
        finally:
            child.stop()

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        raise AssertionError("SuperLink was not ready")

    def run(self, name: str, order: Order) -> OrderEnd:
        place_order(self.state, name, order)
        resources = f"num-supernodes={PARTIES} client-resources-num-cpus=1 init-args-num-cpus=2"
        started = subprocess.run(
            [
                *(flower_program("flwr"), "run", str(APP), "here", "--format", "json"),
                *("--run-config", f'order="{name}"', "--federation-config", resources),
            ],
            env=self.environment,
            capture_output=True,
            timeout=START_SECONDS,
            check=True,
        )
        assert json.loads(started.stdout)["success"], started.stdout
        deadline = time.monotonic() + ROUND_SECONDS
        while (end := read_end(self.state, name)) is None:
            assert time.monotonic() < deadline, "the round did not end"
            time.sleep(0.5)
        return end


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    return make_parties(tmp_path_factory.mktemp("s"), PARTIES)


@pytest.fixture(scope="module")
def simulation(parties: Parties) -> Iterator[Simulation]:
    made = Simulation(parties, State.at(parties.root / "state"), free_port())
    with made.up():
        yield made


@pytest.mark.parametrize(
    ("protocol", "precision", "within"), [("padded", 1e-4, 1e-4), ("padded-verified", None, 1e-12)]
)
def test_fifty_parties(
    parties: Parties, simulation: Simulation, protocol: str, precision: float | None, within: float
) -> None:
    end = simulation.run(protocol.replace("-", ""), parties.order(protocol, timeout=200.0))
    summary = end.summary
    assert summary is not None, end.failure
    assert sorted(summary.roster) == list(parties.members)
    assert (summary.dropouts, summary.exchanges) == ((), 5)
    truth = parties.pooled()
    for name in parties.members:
        verdict = parties.verdicts(name)[-1]
        assert verdict is not None
        ratio = verdict.ratios[0]
        assert ratio is not None
        assert float(ratio) == pytest.approx(truth, abs=within)
