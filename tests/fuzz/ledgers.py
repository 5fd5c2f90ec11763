"""Damaged copies of a vault's state: each is refused in words, or is whole."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from fheval.errors import ConfigError
from fheval.party.accepted import AcceptedStudies
from fheval.party.ledger import History, Ledger
from fheval.protocols.base import Stage
from fheval.protocols.round import Contribution
from fheval.study import Study
from fuzz.damage import damage_files
from keys_consortium import NOW
from vault.trial import Trial

MEMBER = "alder"
PLACE = "the ledger of this kit"


@dataclass
class State:
    """A vault's directory after a few rounds, running and stopped, an earlier version of it, and what it says."""

    whole: tuple[Path, Path]
    earlier: Path
    history: list[History]
    releases: int
    replies: dict[tuple[str, Stage], bytes]
    study: Study
    contribution: Contribution


def make_state(trial: Trial, folder: Path) -> State:
    """Play, and copy a member's directory: while its vault runs all is in the write-ahead log, afterwards nothing."""
    study = trial.study()
    trial.ledgers[MEMBER].settle(PLACE, MEMBER, str(folder), "began", at=NOW)
    trial.play(study)
    earlier, running, stopped = (folder / name for name in ("earlier", "running", "stopped"))
    shutil.copytree(trial.ledger_path(MEMBER).parent, earlier)
    for _ in range(2):
        trial.play(study)
    shutil.copytree(trial.ledger_path(MEMBER).parent, running)
    ledger = trial.ledgers[MEMBER]
    history = ledger.history()
    replies = {
        (each.round.id, stage): reply
        for each in history
        for stage in each.stages
        if (reply := ledger.reply(each.round.id, stage)) is not None
    }
    contribution = trial.studies[MEMBER].take(study)
    assert contribution is not None
    releases = ledger.releases(f"of-{MEMBER}")
    trial.stop(MEMBER)
    shutil.copytree(trial.ledger_path(MEMBER).parent, stopped)
    return State((running, stopped), earlier, history, releases, replies, study, contribution)


def attack(state: State, copy: Path, draw: Random) -> tuple[str, bool]:
    """Damage one copy and use it; says what was done, and whether a vault would start on it."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(draw.choice(state.whole), copy)
    done = damage_files(copy, state.earlier, draw)
    return done, all((_ledger_stands(state, copy, done), _studies_stand(state, copy, done)))


def _ledger_stands(state: State, copy: Path, done: str) -> bool:
    try:
        ledger = Ledger.open(copy / "ledger.sqlite")
    except ConfigError:
        return False
    with ledger:
        # The kit knows which ledger is its vault's, and `open_ledger` refuses any other, an empty one among them.
        place = ledger.place()
        if place is None or place.id != PLACE:
            return False
        assert ledger.releases(f"of-{MEMBER}") >= state.releases, f"releases were forgotten: {done}"
        assert ledger.history() == state.history, f"the history is another: {done}"
        for (round_id, stage), reply in state.replies.items():
            try:
                found = ledger.reply(round_id, stage)
            except ConfigError:
                continue
            assert found in (None, reply), f"a damaged reply was given away: {done}"
    return True


def _studies_stand(state: State, copy: Path, done: str) -> bool:
    try:
        with AcceptedStudies.open(copy / "studies.sqlite") as studies:
            accepted, taken = studies.ready(state.study.hash()), studies.take(state.study)
            studies.all()
    except ConfigError:
        return False
    assert accepted is None or accepted.lineage == f"of-{MEMBER}", f"another lineage: {done}"
    assert taken is None or np.array_equal(taken.table, state.contribution.table), (
        f"other counts were given away: {done}"
    )
    return True
