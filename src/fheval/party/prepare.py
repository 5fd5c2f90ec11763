"""Preparing: read a party's rows once, check them, and store what the rounds of an accepted study need.

It happens when a study is accepted and when the data have changed, never because somebody asks for a round. A running
vault has a process for it, of the lowest priority, which looks at the files now and then.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from fheval.errors import ConfigError, FhevalError, InputError
from fheval.evaluation.run import Share
from fheval.party.accepted import Acceptance, AcceptedStudies, Facts, Standing
from fheval.party.log import log_to_standard_error
from fheval.protocols.round import Contribution
from fheval.secrets import Randomness, SystemRandomness
from fheval.study import Study

# A round that breaks off takes its resamples with it. When these are used up, the operator accepts the study anew.
SPARE_ATTEMPTS = 5

_log = logging.getLogger("fheval.vault")


def attempts(study: Study) -> int:
    """For how many rounds a study is prepared, those that break off among them; without resamples one serves all."""
    return study.rounds + SPARE_ATTEMPTS if study.replicates else 1


def prepare(
    studies: AcceptedStudies,
    acceptance: Acceptance,
    rng: Randomness,
    *,
    rounds: int,
    now: datetime,
    on_round: Callable[[], None] = lambda: None,
) -> Facts:
    """Count the data for so many rounds of a study, or refuse data that the study does not admit."""
    study, data = acceptance.study, acceptance.data_set
    version = data.version()
    first = data.count(study, rng)
    require_admitted(study, first)

    def counted() -> Iterator[Contribution]:
        yield first.contribution
        on_round()
        for _ in range(rounds - 1):
            yield data.count(study, rng).contribution
            if data.version() != version:
                raise InputError(f"{data.path}: the file changed while it was read. It is read again.")
            on_round()

    facts = Facts(version=version, rows=first.rows, clipped=first.clipped, at=now, binning=data.binning(study))
    studies.replace_rounds(study, counted(), facts)
    return facts


def accept_study(
    studies: AcceptedStudies,
    acceptance: Acceptance,
    rng: Randomness,
    *,
    now: datetime,
    on_round: Callable[[], None] = lambda: None,
) -> Facts:
    """Prepare a study from data that it admits, and answer it from then on."""
    rounds = attempts(acceptance.study)
    facts = prepare(studies, acceptance, rng, rounds=rounds, now=now, on_round=on_round)
    studies.accept(acceptance, at=now)
    return facts


def require_admitted(study: Study, share: Share) -> None:
    """Refuse rows that are fewer or more than the study admits."""
    study.require_rows(share.rows)
    if share.rows < study.least_rows_per_party:
        raise ConfigError(
            f"There are {share.rows} rows, and the study is for parties with {study.least_rows_per_party} or more. "
            "Wait until there are more."
        )


def prepare_changed(studies: AcceptedStudies, rng: Randomness, *, now: datetime) -> None:
    """Prepare anew what was accepted and whose data have changed since; what cannot be used is noted for the operator.

    What was prepared before stays in use until then: whether and when it changes must not show.
    """
    for standing in studies.all():
        study = standing.acceptance.study
        try:
            if not _is_stale(standing):
                continue
            left = attempts(study) if standing.rounds is None or standing.facts is None else standing.rounds
            if left:
                prepare(studies, standing.acceptance, rng, rounds=left, now=now)
                _log.info("Study %s was prepared anew.", study.name)
        except (FhevalError, OSError) as error:
            if standing.problem != str(error):
                _log.warning(
                    "Study %s could not be prepared from its newest data; see fheval vault status.", study.name
                )
                studies.note_problem(study, str(error), at=now)


def _is_stale(standing: Standing) -> bool:
    return standing.facts is None or standing.facts.version != standing.acceptance.data_set.version()


_LOOK_EVERY = 15.0


def watch(path: Path) -> None:
    """Prepare whatever has changed, until standard input is closed: with the vault, this process ends as well."""
    _yield_to_others()
    with AcceptedStudies.open(path) as studies:
        while True:
            try:
                prepare_changed(studies, SystemRandomness(), now=datetime.now(timezone.utc))
            except (FhevalError, OSError) as error:
                # A full disk today does not mean that nothing is prepared tomorrow.
                _log.warning("What was accepted could not be looked through. %s", error)
            ready, _, _ = select.select([sys.stdin], [], [], _LOOK_EVERY)
            if ready and not sys.stdin.readline():
                return


def _yield_to_others() -> None:
    """Run only when nothing else wants to: replies must take the same time whether or not rows are counted."""
    os.nice(19)
    if hasattr(os, "sched_setscheduler"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    log_to_standard_error("fheval.vault")
    watch(Path(sys.argv[1]))
