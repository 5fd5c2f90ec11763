"""Private metrics within an app of somebody's own: the quickstart in one process, and in Flower's simulation."""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from sklearn.metrics import roc_auc_score

import fheval.flower
from direct.vaults import Vaults
from fheval import ConfigError, InputError
from fheval.consortium import load_kit
from fheval.engines import load_engine
from fheval.flower.deposits import write_scores
from fheval.flower.environment import flower_environment, flower_program
from fheval.flower.processes import Child, free_port
from fheval.flower.records import ACTION, pack
from fheval.flower.training import SCORES_FOLDER
from fheval.party.accepted import AcceptedStudies
from fheval.party.core import VaultCore, utc_now
from fheval.party.ledger import Ledger
from flower.app_grid import AppGrid
from flower.parties import make_parties

pytestmark = pytest.mark.usefixtures("_as_an_app")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PARTIES = 4


class TrainingGrid(AppGrid):
    """The grid of a training run among parties in this process."""

    run = SimpleNamespace(run_id=1)

    def __init__(self, app: ClientApp, parties: int = PARTIES) -> None:
        configs: dict[int, Any] = {
            100 + number: {"partition-id": number, "num-partitions": parties} for number in range(parties)
        }
        super().__init__(app, configs, lambda _node, _group: False)
        self.types: list[str] = []

    def push_messages(self, messages: Any) -> list[str]:
        listed = list(messages)
        self.types += [message.metadata.message_type for message in listed]
        return super().push_messages(listed)

    def send_and_receive(self, messages: Any, **_: Any) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))


@pytest.fixture
def quickstart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The example's modules, with a temporary directory of their own for the trial."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES / "flower-quickstart"))
    client, task = (import_module(f"quickstart.{name}") for name in ("client_app", "task"))
    yield SimpleNamespace(client=client.app, task=task)
    for name in [name for name in sys.modules if name.split(".")[0] == "quickstart"]:
        del sys.modules[name]


def pooled_auc(task: Any, arrays: ArrayRecord, parties: int = PARTIES) -> float:
    (weights,) = arrays.to_numpy_ndarrays()
    rows = [task.load_data(number)[2:] for number in range(parties)]
    labels = np.concatenate([y for _, y in rows])
    return float(roc_auc_score(labels, np.concatenate([task.predict(weights, x) for x, _ in rows])))


def train(quickstart: Any, strategy: Any, rounds: int = 2) -> Any:
    grid = TrainingGrid(quickstart.client)
    start = ArrayRecord([np.zeros(quickstart.task.FEATURES)])
    return strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds), grid


def test_the_quickstart_shows_the_pooled_auc_each_round(quickstart: Any) -> None:
    strategy = fheval.flower.PrivateMetrics(FedAvg(), quickstart.task.TRIAL)
    result, _ = train(quickstart, strategy)
    assert sorted(strategy.results) == [1, 2]
    (row,) = strategy.results[2]
    shown = result.evaluate_metrics_clientapp[2]
    assert shown["private-auc"] == row.value
    assert "accuracy" in shown, "what the strategy itself found is still there"
    truth = pooled_auc(quickstart.task, result.arrays)
    assert row.binning is not None
    assert shown["private-auc"] == pytest.approx(truth, abs=row.binning + 1e-4)


def test_a_round_may_follow_every_second_evaluation(quickstart: Any) -> None:
    strategy = fheval.flower.PrivateMetrics(FedAvg(), quickstart.task.TRIAL, every=2)
    train(quickstart, strategy, rounds=3)
    assert sorted(strategy.results) == [2]


def test_intervals_come_along(quickstart: Any) -> None:
    trial = fheval.flower.trial(metrics=("auc", "brier"), ci=0.9, replicates=20, decision_points=50)
    app = fheval.flower.attach(ClientApp(), trial)
    grid = TrainingGrid(app)
    rng = np.random.default_rng(1)
    for context in grid._contexts.values():
        labels = rng.integers(0, 2, 200)
        fheval.flower.deposit(context, labels, 0.3 * labels + 0.7 * rng.random(200), study=trial)
    strategy = fheval.flower.PrivateMetrics(FedAvg(), trial)
    strategy._grid = cast(Any, grid)
    metrics = strategy.aggregate_evaluate(1, [])
    assert metrics is not None
    low, value, high = (cast(float, metrics[f"private-auc{ending}"]) for ending in ("-low", "", "-high"))
    assert low < value < high
    assert "private-brier" in metrics


def test_members_alone_learn_what_the_study_keeps_from_the_server(
    quickstart: Any, caplog: pytest.LogCaptureFixture
) -> None:
    trial = fheval.flower.trial(learns="members")
    grid = TrainingGrid(fheval.flower.attach(ClientApp(), trial))
    for context in grid._contexts.values():
        fheval.flower.deposit(context, [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], study=trial)
    strategy = fheval.flower.PrivateMetrics(FedAvg(), trial)
    strategy._grid = cast(Any, grid)
    with caplog.at_level(logging.INFO, logger="fheval.flower"):
        assert strategy.aggregate_evaluate(1, []) is None
    assert "are with the members" in caplog.text
    assert not strategy.results


def test_training_goes_on_when_a_round_fails(quickstart: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody has deposited anything, so that every vault refuses."""
    trial = fheval.flower.trial()
    strategy = fheval.flower.PrivateMetrics(FedAvg(), trial, timeout=0.2)
    strategy._grid = cast(Any, TrainingGrid(fheval.flower.attach(ClientApp(), trial)))
    with caplog.at_level(logging.WARNING, logger="fheval.flower"):
        assert strategy.aggregate_evaluate(1, []) is None
    assert "There are no private metrics of round 1" in caplog.text


def test_the_server_sees_no_label_and_no_score(quickstart: Any) -> None:
    """Of all bytes that pass, in training, evaluation and rounds, none holds the scores that were deposited."""
    trial = fheval.flower.trial()
    grid = TrainingGrid(fheval.flower.attach(ClientApp(), trial))
    scores = np.random.default_rng(5).random(100)
    for context in grid._contexts.values():
        fheval.flower.deposit(context, np.arange(100) % 2, scores, study=trial)
    strategy = fheval.flower.PrivateMetrics(FedAvg(), trial)
    strategy._grid = cast(Any, grid)
    assert strategy.aggregate_evaluate(1, []) is not None
    assert set(grid.types) == {f"query.{ACTION}"}
    seen = b"".join(grid.bytes_seen)
    assert not [score for score in scores if score.tobytes() in seen]


def context_of(**config: Any) -> Context:
    return Context(run_id=7, node_id=1, node_config=config, state=RecordDict(), run_config={})


def test_a_deployment_deposits_into_the_folder_that_its_supernode_names(tmp_path: Path) -> None:
    context = context_of(**{SCORES_FOLDER: str(tmp_path)})
    fheval.flower.deposit(context, [0, 1], np.array([[0.25], [0.75]]), study="sepsis-2026")
    path = tmp_path / "sepsis-2026.npy"
    assert np.load(path).tolist() == [[0.0, 0.25], [1.0, 0.75]]
    assert os.stat(path).st_mode & 0o007 == 0
    fheval.flower.deposit(context, [1], [0.5], study="sepsis-2026")
    assert [entry.name for entry in tmp_path.iterdir()] == ["sepsis-2026.npy"]


@pytest.mark.parametrize("study", ["../elsewhere", "a/b", "", "."])
def test_a_study_does_not_lead_out_of_the_folder(tmp_path: Path, study: str) -> None:
    with pytest.raises(ConfigError, match="Nobody said where"):
        fheval.flower.deposit(context_of(**{SCORES_FOLDER: str(tmp_path)}), [0, 1], [0.1, 0.2], study=study)
    with pytest.raises(ConfigError, match="--node-config"):
        fheval.flower.deposit(context_of(), [0, 1], [0.1, 0.2], study="sepsis")


def test_what_cannot_be_counted_is_not_deposited(tmp_path: Path) -> None:
    context = context_of(**{SCORES_FOLDER: str(tmp_path)})
    for labels, scores in (([0, 2], [0.1, 0.2]), ([0, 1], [0.1, np.nan]), ([0, 1], [0.1])):
        with pytest.raises(InputError):
            fheval.flower.deposit(context, labels, scores, study="sepsis")
    assert not list(tmp_path.iterdir())


def test_a_trial_is_for_simulations() -> None:
    with pytest.raises(ConfigError, match="for Flower's simulation"):
        fheval.flower.deposit(context_of(), [0, 1], [0.1, 0.2], study=fheval.flower.trial())
    with pytest.raises(ConfigError, match="aggregator's kit"):
        fheval.flower.PrivateMetrics(FedAvg(), "sepsis")
    with pytest.raises(ConfigError, match="1 or more"):
        fheval.flower.PrivateMetrics(FedAvg(), fheval.flower.trial(), every=0)


def test_other_names_are_those_of_the_strategy() -> None:
    inner = FedAvg(fraction_train=0.5)
    wrapped = fheval.flower.PrivateMetrics(inner, fheval.flower.trial())
    assert wrapped.fraction_train == 0.5
    with pytest.raises(AttributeError):
        _ = wrapped.nothing_of_the_kind
    with pytest.raises(AttributeError):
        _ = fheval.flower.nothing_of_the_kind


def added_lines(plain: Path, with_fheval: Path) -> list[str]:
    """The lines that the second app has and the first has not."""
    added = []
    for path in sorted(with_fheval.rglob("*")):
        if path.suffix in (".py", ".toml"):
            one, other = (each.read_text().splitlines() for each in (plain / path.relative_to(with_fheval), path))
            added += [line for line in difflib.ndiff(one, other) if line.startswith("+ ") and line[2:].strip()]
    return added


def test_the_quickstart_is_ten_lines_more_than_the_same_app_without() -> None:
    added = added_lines(EXAMPLES / "flower-plain", EXAMPLES / "flower-quickstart")
    assert 0 < len(added) <= 10, added
    removed = added_lines(EXAMPLES / "flower-quickstart", EXAMPLES / "flower-plain")
    assert len(removed) <= len(added), removed


@pytest.mark.slow
def test_flwr_run_starts_the_quickstart(quickstart: Any) -> None:
    """`flwr run` in simulation: every round shows a private AUC, the pooled one of that round's model."""
    # Ray puts sockets there, whose paths have room for a hundred characters; pytest's own folders take half of it.
    with tempfile.TemporaryDirectory(prefix="q-", dir="/tmp") as home:
        shown = run_app(EXAMPLES / "flower-quickstart", Path(home), parties=3)
    found = [float(number) for number in re.findall(r"'private-auc': ['\"]?([0-9.e+-]+)", shown)]
    assert len(found) >= 3, shown
    weights = np.zeros(quickstart.task.FEATURES)
    for private in found[:3]:
        rows = [quickstart.task.load_data(number)[:2] for number in range(3)]
        weights = np.mean([quickstart.task.train(weights, x, y) for x, y in rows], axis=0)
        truth = pooled_auc(quickstart.task, ArrayRecord([weights]), parties=3)
        # Rounding, and counting at a thousand decision points, whose bound for these rows is below 0.003.
        assert private == pytest.approx(truth, abs=0.003)


def run_app(app: Path, home: Path, *, parties: int) -> str:
    """Start an app with `flwr run` in simulation, on a SuperLink of our own, and return what it printed."""
    resources = f"num-supernodes={parties} client-resources-num-cpus=1 init-args-num-cpus=2"
    with superlink(home, "--simulation") as (_, environment):
        return run_to_its_end(app, environment, "--federation-config", resources)


@contextmanager
def superlink(home: Path, *options: str) -> Iterator[tuple[int, dict[str, str]]]:
    """A SuperLink on loopback for the time of a `with`: its port, and the environment in which `flwr` finds it."""
    port = free_port()
    (home / "flwr").mkdir()
    environment = {**flower_environment(home / "flwr"), "TMPDIR": str(home)}
    (home / "flwr" / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    command = [flower_program("flower-superlink"), "--insecure", "--host", "127.0.0.1", "--port", str(port)]
    child = Child([*command, "--disable-runtime-dependency-installation", *options], environment)
    try:
        yield port, environment
    finally:
        child.stop()


def run_to_its_end(app: Path, environment: dict[str, str], *options: str) -> str:
    """What an app printed that was started with `flwr run`, as soon as the SuperLink answers."""
    start = [flower_program("flwr"), "run", str(app), "here", "--format", "json", *options]
    deadline = time.monotonic() + 120
    while True:
        done = subprocess.run(start, env=environment, capture_output=True, text=True, timeout=120)
        if done.stdout.strip().startswith("{") and json.loads(done.stdout).get("success"):
            break
        assert time.monotonic() < deadline, done.stdout + done.stderr
        time.sleep(1)
    run = str(json.loads(done.stdout)["run-id"])
    log = [flower_program("flwr"), "log", run, "here", "--stream"]
    return subprocess.run(log, env=environment, capture_output=True, text=True, timeout=500).stdout


STUDY = "sepsis-2026"
MEMBERS = ("alder", "birch", "cedar")


def deployed(folder: Path, kit: Path) -> Path:
    """The quickstart, changed as docs/flower.md says for a deployment: a study's name in place of the trial."""
    app = folder / "app"
    shutil.copytree(EXAMPLES / "flower-quickstart", app)
    for name, changes in {
        "task.py": {'TRIAL = fheval.flower.trial(metrics="auc")': f'TRIAL = "{STUDY}"'},
        "client_app.py": {"attach(app, TRIAL)": "attach(app)"},
        # A vault looks for new data every fifteen seconds.
        "server_app.py": {"(FedAvg(), TRIAL)": f'(FedAvg(), TRIAL, "{kit}", wait=30)'},
    }.items():
        text = (app / "quickstart" / name).read_text()
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        (app / "quickstart" / name).write_text(text)
    pyproject = app / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("num-server-rounds = 3", "num-server-rounds = 1"))
    return app


@pytest.mark.slow
def test_the_quickstart_in_a_deployment() -> None:
    """SuperLink, SuperNodes and vaults as processes: what the app deposits is what members and server learn."""
    with tempfile.TemporaryDirectory(prefix="q-", dir="/tmp") as place:
        home = Path(place)
        vaults = Vaults(home, MEMBERS)
        vaults.found()
        vaults.sign(STUDY, 'protocol = "padded"\nlearns = "members and aggregator"\nrounds = 3\n')
        nodes = []
        try:
            for name in MEMBERS:
                (home / f"scores-{name}").mkdir()
                # An operator accepts what is there: the scores of some earlier model.
                write_scores(home / f"scores-{name}" / f"{STUDY}.npy", [0, 1] * 20, np.linspace(0, 1, 40))
                vaults.accept(name, STUDY, data=home / f"scores-{name}" / f"{STUDY}.npy")
            vaults.start()
            with superlink(home) as (port, environment):
                for number, name in enumerate(MEMBERS):
                    config = f'partition-id={number} vault="{vaults.kit(name)}/vault/vault.sock"'
                    nodes.append(
                        Child(
                            [
                                *(flower_program("flower-supernode"), "--insecure"),
                                *("--superlink", f"127.0.0.1:{port}", "--host", "127.0.0.1"),
                                *("--port", str(free_port())),
                                *("--node-config", f'{config} scores="{home}/scores-{name}"'),
                            ],
                            {**environment, "FLWR_HOME": str(home / f"node-{name}")},
                        )
                    )
                shown = run_to_its_end(deployed(home, vaults.kit("hub")), environment)
            deposited = np.concatenate([np.load(home / f"scores-{name}" / f"{STUDY}.npy") for name in MEMBERS])
            truth = roc_auc_score(deposited[:, 0], deposited[:, 1])
            assert len(deposited) == len(MEMBERS) * 400
            for name in MEMBERS:
                told = vaults.rounds(name)[-1]
                assert told["state"] == "released", shown
                assert told["auc"] == pytest.approx(truth, abs=told["binning"] + 1e-4)
            assert "private-auc" in shown
        finally:
            for node in nodes:
                node.stop()
            vaults.stop()


def test_a_deployment_asks_for_a_signed_study_by_its_name(tmp_path: Path) -> None:
    """With the aggregator's kit and vaults that have accepted the study; members alone learn this one."""
    parties = make_parties(tmp_path, 3)
    engine = load_engine()

    def door(context: Context, request: bytes) -> bytes:
        place = parties.root / parties.members[int(context.node_config["partition-id"])]
        with Ledger.open(place / "ledger.db") as ledger, AcceptedStudies.open(place / "studies.db") as studies:
            kit = load_kit(place / "kit", now=utc_now())
            return VaultCore(kit, ledger, studies, {engine.name: engine}).handle(request)

    strategy = fheval.flower.PrivateMetrics(FedAvg(), "padded", parties.root / "hub")
    strategy._grid = cast(Any, TrainingGrid(fheval.flower.attach(ClientApp(), door), parties=3))
    for _ in range(2):
        assert strategy.aggregate_evaluate(1, []) is None
    for name in parties.members:
        verdicts = parties.verdicts(name)
        assert len(verdicts) == 2
        assert verdicts[-1] is not None
        ratio = verdicts[-1].ratios[0]
        assert ratio is not None
        assert float(ratio) == pytest.approx(parties.pooled(), abs=1e-4)


def test_a_deployment_relays_to_the_socket_that_its_supernode_names(tmp_path: Path, caplog: Any) -> None:
    """Without a socket, or with one that nobody listens at, the server gets an empty record and the log has why."""
    app = fheval.flower.attach(ClientApp())
    message = Message(pack(b"request"), dst_node_id=1, message_type=f"query.{ACTION}")
    message.metadata.__dict__["_message_id"] = "1"
    for context in (context_of(), context_of(vault=str(tmp_path / "none.sock"))):
        reply = app(message, context)
        assert list(reply.content.config_records) == ["failed"]
    assert "does not know its vault" in caplog.text
