"""A consortium of five vaults in one process, for the tests of the vault: kits and data on disk, plaintext engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from fheval.aggregator.conductor import Conducting, Report, conduct, drive
from fheval.aggregator.round_in_play import Exchange
from fheval.consortium import Policy, Rules, load_kit
from fheval.consortium.authority import create_authority
from fheval.consortium.signed_study import fit_to
from fheval.counting import Grid, count_file
from fheval.engines import Engine
from fheval.evaluation import Row
from fheval.evaluation.finished import finish
from fheval.party.accepted import Acceptance, AcceptedStudies
from fheval.party.columns import StudyColumns
from fheval.party.core import VaultCore
from fheval.party.ledger import History, Ledger
from fheval.party.prepare import accept_study, prepare_changed
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import Stage
from fheval.protocols.round import Round
from fheval.secrets import Randomness, SystemRandomness
from fheval.study import Study
from fheval_lab.clear import ClearEngine
from in_process import in_process
from keys_consortium import NOW, Consortium

# Of one length, so that messages have one length whoever sends them.
NAMES = ("alder", "birch", "cedar", "hazel", "maple")
ALL = ("padded", "padded-verified", "paper-semi-honest", "paper-malicious")
PADDED = ("padded", "padded-verified")
PAPER = ("paper-semi-honest", "paper-malicious")
RULES = Rules(releases_per_lineage=10_000)
POINTS = 40
CLEAR = ClearEngine()


def write_scores(path: Path, seed: int, rows: int = 60) -> None:
    """A party's file of labels and scores."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, rows)
    scores = np.clip(draw.normal(0.35 + 0.3 * labels, 0.2), 0, 1)
    if path.suffix == ".npy":
        np.save(path, np.column_stack([labels, scores]))
        return
    lines = (f"{label},{score}\n" for label, score in zip(labels, scores, strict=True))
    path.write_text("label,score\n" + "".join(lines))


class PicksTheFirst(SystemRandomness):
    """Randomness with which the first member leads; what is drawn by single bytes is otherwise of no importance."""

    def draw(self, count: int) -> bytes:
        return bytes(1) if count == 1 else super().draw(count)


@dataclass
class Clock:
    """The vaults' time, which a test may move."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Trial:
    """The consortium, and the vaults that are running; studies name those of `checking` their checkers.

    Vaults accept every study that is called, but for those that are `unwilling`.
    """

    folder: Path
    consortium: Consortium
    engine: Engine = CLEAR
    ending: str = ".csv"
    columns: dict[str, StudyColumns] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    vaults: dict[str, VaultCore] = field(default_factory=dict)
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    studies: dict[str, AcceptedStudies] = field(default_factory=dict)
    unwilling: set[str] = field(default_factory=set)
    checking: set[str] = field(default_factory=set)

    @property
    def policy(self) -> Policy:
        """The newest policy."""
        policy = self.consortium.authority.policy()
        assert policy is not None
        return policy

    def data(self, name: str) -> Path:
        """A member's file."""
        return self.folder / f"{name}{self.ending}"

    def ledger_path(self, name: str) -> Path:
        """A member's ledger."""
        state = self.folder / f"state-{name}"
        state.mkdir(mode=0o700, exist_ok=True)
        return state / "ledger.sqlite"

    def studies_path(self, name: str) -> Path:
        """A member's accepted studies."""
        return self.ledger_path(name).with_name("studies.sqlite")

    def start(self, *names: str) -> None:
        """Start vaults, or start them again."""
        for name in names or NAMES:
            self.stop(name)
            kit = load_kit(self.consortium.path(name), now=self.clock.now)
            self.ledgers[name] = Ledger.open(self.ledger_path(name))
            self.studies[name] = AcceptedStudies.open(self.studies_path(name))
            self.vaults[name] = VaultCore(
                kit,
                self.ledgers[name],
                self.studies[name],
                {self.engine.name: self.engine},
                clock=self.clock,
            )

    def stop(self, *names: str) -> None:
        """Stop vaults."""
        for name in names or NAMES:
            if name in self.vaults:
                del self.vaults[name]
                self.ledgers.pop(name).close()
                self.studies.pop(name).close()

    def study(self, protocol: str = "padded", **changes: Any) -> Study:
        """One AUC, or whatever else is asked."""
        standard: dict[str, Any] = {
            "protocol": protocol,
            "grid": Grid.even(POINTS),
            "precision": PROTOCOLS[protocol].default_precision,
            "max_samples": 1 << 16,
            "reveals": "counts",
            "checkers": tuple(sorted(self.checking)),
            "rounds": 3 if changes.get("replicates") else 1000,
        }
        plain = fit_to(Study(**(standard | changes)), self.policy)
        return replace(plain, name=plain.name or f"study-{plain.hash().hex()[:16]}")

    def accept(self, study: Study, *names: str) -> None:
        """Sign a study, and accept it in these vaults, or in all that run and have not yet."""
        _, signed = self.consortium.authority.sign_study(study)
        for name in names or tuple(self.vaults):
            known = self.studies[name].ready(study.hash()) is not None and not names
            if known or name in self.unwilling:
                continue
            columns = self.columns.get(name, StudyColumns())
            columns = replace(
                columns, models={each: columns.models[each] for each in columns.models if each in study.models}
            )
            acceptance = Acceptance(signed=signed, data=str(self.data(name)), columns=columns, lineage=f"of-{name}")
            accept_study(self.studies[name], acceptance, SystemRandomness(), now=self.clock.now)

    def prepare(self, *names: str) -> None:
        """Let vaults find their data changed."""
        for name in names or tuple(self.vaults):
            prepare_changed(self.studies[name], SystemRandomness(), now=self.clock.now)

    def round(self, study: Study, leader: str, parties: Sequence[str] = NAMES) -> Round:
        """A new round of a study, as an aggregator would call it."""
        self.accept(study)
        return study.round(study.call(SystemRandomness(), engine=self.engine.name, parties=parties, leader=leader))

    def conduct(
        self, study: Study, rng: Randomness | None = None, *, members: Sequence[str] = NAMES, **options: Any
    ) -> Conducting:
        """The aggregator's side."""
        self.accept(study)
        return conduct(study, members, self.policy, self.engine, rng or SystemRandomness(), **options)

    def handlers(self) -> Mapping[str, Callable[[bytes], bytes]]:
        """The running vaults, by name."""
        return {name: vault.handle for name, vault in self.vaults.items()}

    def play(self, study: Study | None = None, **options: Any) -> Report:
        """A whole evaluation among the running vaults."""
        return drive(self.conduct(study or self.study(), **options), lambda asked: in_process(self.handlers())(asked))

    def begin_anew(self) -> None:
        """Let all running members forget what was spent and which rosters there were."""
        for name in self.vaults:
            for lineage in {each.lineage for each in self.ledgers[name].spending()}:
                self.ledgers[name].reset_budget(lineage, "for the test", at=self.clock.now)

    def last(self, name: str) -> History:
        """A member's newest round."""
        return self.ledgers[name].history()[-1]

    def released(self, name: str) -> float:
        """The AUC that a member holds after its newest round."""
        verdict = self.last(name).verdict
        assert verdict is not None
        ratio, *_ = verdict.ratios
        assert ratio is not None
        return float(ratio)

    def rows(self, name: str) -> tuple[Row, ...]:
        """The numbers that a member holds after its newest round."""
        last = self.last(name)
        assert last.verdict is not None
        return finish(last.study, last.verdict).rows

    def pooled(self, names: Sequence[str] = NAMES) -> float:
        """The AUC over these members' data."""
        return reduce(add, (count_file(self.data(name), Grid.even(POINTS)) for name in names)).auc()


def make_consortium(folder: Path, rules: Rules = RULES) -> Consortium:
    """An authority and a kit for each member."""
    made = Consortium(create_authority(folder / "authority", "Trial", now=NOW))
    for name in NAMES:
        made.enrol(name)
    made.sign(rules)
    return made


@contextmanager
def running(folder: Path, consortium: Consortium, engine: Engine = CLEAR) -> Iterator[Trial]:
    """A trial with all vaults started, on fresh ledgers and fresh data."""
    trial = Trial(folder, consortium, engine)
    for seed, name in enumerate(NAMES):
        write_scores(trial.data(name), seed)
    trial.start()
    try:
        yield trial
    finally:
        trial.stop()


@dataclass
class Wire:
    """Everything that passed between the aggregator and the vaults, and a place to change it.

    `meddle` may return other bytes for a request; `lose` says which replies never arrive.
    """

    trial: Trial
    meddle: Callable[[Exchange, str, bytes], bytes] = lambda _exchange, _name, data: data
    lose: Callable[[Exchange, str], bool] = lambda _exchange, _name: False
    requests: list[tuple[Stage, str, bytes]] = field(default_factory=list)
    replies: list[tuple[Stage, str, bytes]] = field(default_factory=list)

    def __call__(self, asked: Exchange) -> dict[str, bytes]:
        arrived = {}
        for name, honest in asked.requests.items():
            if name not in self.trial.vaults:
                continue
            data = self.meddle(asked, name, honest)
            reply = self.trial.vaults[name].handle(data)
            self.requests.append((asked.stage, name, data))
            self.replies.append((asked.stage, name, reply))
            if not self.lose(asked, name):
                arrived[name] = reply
        return arrived

    def request(self, stage: Stage, name: str | None = None) -> bytes:
        """The last request of a stage, to anyone or to this member."""
        return next(d for s, n, d in reversed(self.requests) if s is stage and name in (None, n))

    def reply(self, stage: Stage, name: str | None = None) -> bytes:
        """The last reply of a stage, from anyone or from this member."""
        return next(d for s, n, d in reversed(self.replies) if s is stage and name in (None, n))
