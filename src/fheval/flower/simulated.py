"""A consortium for Flower's simulation, made on the spot: every party's kit, vault and data in one folder.

It shows that an app works and what a round costs. It keeps nothing from anybody: whoever can read the folder has all.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from flwr.app import Context
from numpy.typing import ArrayLike

from fheval.consortium import Rules, install_policy, install_study, load_kit
from fheval.consortium.authority import create_authority
from fheval.consortium.enrolment import enrol_aggregator, enrol_with_new_keys
from fheval.consortium.files import check_private_directory, private_subdirectory
from fheval.consortium.signed_study import MOST_RESAMPLED_ROUNDS
from fheval.engines import load_engine
from fheval.errors import ConfigError
from fheval.flower.deposits import write_scores
from fheval.party.accepted import Acceptance, AcceptedStudies
from fheval.party.columns import StudyColumns
from fheval.party.core import VaultCore, utc_now
from fheval.party.ledger import Ledger
from fheval.party.prepare import prepare
from fheval.secrets import SystemRandomness
from fheval.study import Study

STUDY = "trial"
HUB = "hub"

# One round, and another attempt where it breaks off: a simulation deposits new scores for every round.
_PREPARED = 2
_MANY = 100_000
_DAYS = 2


@dataclass(frozen=True, slots=True)
class Trial:
    """A study for a simulation; each run of an app has a consortium of its own, made when it is first used."""

    study: Study

    def open(self, run_id: int, parties: int) -> Path:
        """The folder of a run's consortium, which whoever comes first makes."""
        above = Path(tempfile.gettempdir()) / f"fheval-trial-{os.getuid()}"
        private_subdirectory(above)
        check_private_directory(above)
        folder = above / f"{run_id:x}-{self.study.hash().hex()[:16]}"
        with _locked(above / "lock"):
            if not folder.exists():
                _make(folder, self.study, parties)
        return folder

    def kit(self, run_id: int, parties: int) -> Path:
        """The aggregator's kit; the consortium is removed when this process ends."""
        folder = self.open(run_id, parties)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder / HUB

    def deposit(self, context: Context, y_true: ArrayLike, y_score: ArrayLike) -> None:
        """Give a party's vault its newest labels and scores, and let it prepare its next round."""
        place = self._place(context)
        write_scores(place / "scores.npy", y_true, y_score)
        signed = (place / "study.fhev").read_bytes()
        acceptance = Acceptance(
            signed=signed, data=str(place / "scores.npy"), columns=StudyColumns(), lineage="simulated"
        )
        now = utc_now()
        with AcceptedStudies.open(place / "studies.db") as studies:
            prepare(studies, acceptance, SystemRandomness(), rounds=_PREPARED, now=now)
            studies.accept(acceptance, at=now)

    def __call__(self, context: Context, request: bytes) -> bytes:
        """The door of a simulation: a vault that is opened for each message, since Ray lets any process answer."""
        place, engine = self._place(context), load_engine()
        with Ledger.open(place / "ledger.db") as ledger, AcceptedStudies.open(place / "studies.db") as studies:
            core = VaultCore(load_kit(place / "kit", now=utc_now()), ledger, studies, {engine.name: engine})
            return core.handle(request)

    def _place(self, context: Context) -> Path:
        try:
            number, parties = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
        except KeyError:
            raise ConfigError(
                "A trial is for Flower's simulation, which numbers its SuperNodes. In a deployment, name a study."
            ) from None
        return self.open(context.run_id, parties) / _member(number)


def trial(*, metrics: str | tuple[str, ...] = "auc", ci: float | None = None, **others: object) -> Trial:
    """A trial of these metrics, with intervals of the level `ci`; `others` are fields of a study or protocol options.

    >>> trial(ci=0.95).study.interval
    0.95
    """
    rounds = _MANY if ci is None else MOST_RESAMPLED_ROUNDS
    fields: dict[str, object] = {"learns": "members and aggregator", "reveals": "counts", "rounds": rounds, **others}
    asked = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    return Trial(Study.of(name=STUDY, metrics=asked, interval=ci, **fields))  # type: ignore[arg-type]


def _member(number: int) -> str:
    return f"party-{number:04}"


def _make(folder: Path, study: Study, parties: int) -> None:
    """Enrol everybody and sign the study; the folder appears when all of it is there."""
    now = utc_now()
    with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
        made = Path(aside) / "made"
        made.mkdir(mode=0o700)
        authority = create_authority(made / "authority", "Trial", now=now)
        members = [_member(number) for number in range(parties)]
        for name in members:
            (made / name).mkdir(mode=0o700)
            enrol_with_new_keys(authority, name, made / name / "kit", renew=False, now=now, days=_DAYS)
        enrol_aggregator(authority, HUB, ["127.0.0.1"], made / HUB, certificate_pem=None, now=now, days=_DAYS)
        cohort = min(parties, study.minimum_cohort)
        authority.sign_next_policy(Rules(minimum_cohort=cohort, releases_per_lineage=_MANY), now=now, days=_DAYS)
        policy = authority.policy_bytes()
        if policy is None:
            raise ConfigError("The trial's policy was not signed. Try again.")
        for directory in (made / HUB, *(made / name / "kit" for name in members)):
            install_policy(directory, policy, now=now)
        _, signed = authority.sign_study(msgspec.structs.replace(study, minimum_cohort=cohort))
        install_study(made / HUB, signed)
        for name in members:
            (made / name / "study.fhev").write_bytes(signed)
        made.rename(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
