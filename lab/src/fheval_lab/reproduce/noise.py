"""Noisy curves beside DPAUC and beside a trusted curator: the errors of the AUC at the same ε, in the same run.

Fifteen parties, of which twelve must be there and one may be curious, so that eleven honest shares are counted on. The
number of decision points is what a study chooses for so many rows. The curator adds discrete Laplace noise of the same
ε to the pooled counts in the same bins, and draws the same conclusions from them. DPAUC has the best of its settings:
of the paper's numbers of decision points, with and without post-processing, that with the smallest median error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fheval.counting import Counts, Grid
from fheval.engines import Engine
from fheval.evaluation.noisy_curves import curves_of
from fheval.evaluation.run import count_share
from fheval.privacy.sampling import DiscreteLaplace
from fheval.protocols import PROTOCOLS
from fheval.protocols.play import Watch, play
from fheval.protocols.round import Contribution
from fheval.secrets import Randomness, SystemRandomness
from fheval.study import Study
from fheval_lab.baselines.dpauc import ESTIMATORS, aggregator_add, laplace_mechanism, party_statistics
from fheval_lab.baselines.pooled import sklearn_auc
from fheval_lab.reproduce.cells import Cell, Plan, Skip, Workbench
from fheval_lab.reproduce.data_sets import DataSet, present_and_missing
from fheval_lab.reproduce.printed import PARTIES
from fheval_lab.reproduce.rows import Row

EPSILONS = (1, 8)
MINIMUM_COHORT = 12
# Ours should err √(15/11) = 1.17 times as much as the curator. A median error over 50 runs is known to a sixth only,
# and the ratio of two to a quarter; over 2,000 to 4 %, so that a ratio above 1.5 cannot come about by chance.
RUNS = 2000
DPAUC_RUNS = 50
_RESAMPLES = 400

Floats = NDArray[np.float64]


def study_for(rows: int, epsilon: float) -> Study:
    """What is asked of so many rows."""
    return Study.of(
        release="noisy-curve", epsilon=epsilon, minimum_cohort=MINIMUM_COHORT, least_rows=rows, least_rows_per_party=0
    )


def beside(data: DataSet, epsilon: int, engine: Engine, rng: Randomness | None = None) -> Sequence[Row]:
    """The AUC of noisy curves, and the median errors of all three."""
    rng = rng or SystemRandomness()
    study = study_for(data.size, epsilon)
    truth = sklearn_auc([data.load()]).auc
    contributions = {
        f"party-{number}": count_share(study, share, f"party-{number}", rng).contribution
        for number, share in enumerate(data.shares(PARTIES), start=1)
    }
    ours = noisy_aucs(study, contributions, engine, rng, RUNS)
    pooled = np.sum([each.table.reshape(-1) for each in contributions.values()], axis=0)
    curators = curator_aucs(study, pooled, rng, RUNS)
    points, printed = min(data.printed.points.items())
    mean, deviation = printed.dpauc[epsilon]
    row = data.row(
        f"noisy-curve-epsilon-{epsilon}",
        float(ours.mean()),
        std=float(ours.std()),
        decision_points=len(study.grid),
        parties=PARTIES,
        printed=mean,
        printed_std=deviation,
        note=f"printed: DPAUC at {points} points",
    )
    errors = {"noisy-curve": ours, "curator": curators, "dpauc": dpauc_aucs(data, epsilon, truth)}
    return [
        row,
        *(
            replace(
                row,
                column=f"{name}-error-epsilon-{epsilon}",
                value=float(np.median(np.abs(found - truth))),
                std=standard_error(np.abs(found - truth)),
                printed=None,
                printed_std=None,
                unit="median error of the AUC",
                note=None,
            )
            for name, found in errors.items()
        ),
    ]


def standard_error(errors: Floats) -> float:
    """By how much the median of so many errors scatters, by resampling them."""
    draw = np.random.default_rng(len(errors))
    return float(np.std([np.median(draw.choice(errors, len(errors))) for _ in range(_RESAMPLES)]))


def plan(setting: Workbench) -> Plan:
    """Noisy curves on both data sets at every size; the cells are those of tables 1 and 2."""
    cells: list[Cell] = []
    missing: list[Skip] = []
    for name in ("criteo", "celeba"):
        present, absent = present_and_missing(setting.data, name)
        cells += [cell for data in present for cell in cells_of(data, setting.engine)]
        missing += absent
    return Plan(tuple(cells), tuple(missing))


def cells_of(data: DataSet, engine: Engine) -> Iterator[Cell]:
    """One for each ε."""
    for epsilon in EPSILONS:
        yield Cell(
            name=f"{data.name} {data.size} noisy curve epsilon={epsilon} {engine.name}",
            inputs={"data": data.digest(), "runs": str(RUNS)},
            weight=20.0,
            work=partial(beside, data, epsilon, engine),
        )


def noisy_aucs(
    study: Study, contributions: dict[str, Contribution], engine: Engine, rng: Randomness, runs: int
) -> Floats:
    """The AUC of so many rounds, each with fresh noise in every party's share; one that is undefined counts as 1/2."""
    names, protocol = tuple(contributions), PROTOCOLS[study.protocol]
    found = []
    for _ in range(runs):
        round_ = study.round(study.call(rng, engine=engine.name, parties=names, leader=names[0]))
        verdict = play(protocol, engine, round_, contributions, rng, Watch())
        found.append(_auc(study, verdict.counts, len(names)))
    return np.array(found)


def curator_aucs(study: Study, pooled: NDArray[np.int64], rng: Randomness, runs: int) -> Floats:
    """The AUC of a curator that sees all counts, adds noise once, and draws the same conclusions."""
    noise = study.noise
    if not isinstance(noise, DiscreteLaplace):
        raise TypeError("One histogram takes Laplace noise.")
    alone = DiscreteLaplace(noise.step, 1)
    return np.array([_auc(study, pooled + alone.share(rng, len(pooled)), noise.honest) for _ in range(runs)])


def _auc(study: Study, counts: Sequence[int] | NDArray[np.int64], parties: int) -> float:
    (curve,) = curves_of(study, (), list(counts), parties)
    return curve.auc() if curve.tp[-1] and curve.fp[-1] else 0.5


def dpauc_aucs(data: DataSet, epsilon: float, truth: float) -> Floats:
    """DPAUC in the setting in which it errs least, which nobody could know beforehand."""
    settings = []
    for points in data.printed.points:
        counts = [Counts.from_scores(labels, scores, Grid.even(points)) for labels, scores in data.shares(PARTIES)]
        noisy = aggregator_add(
            [party_statistics(own) for own in counts], laplace_mechanism(epsilon, points), DPAUC_RUNS
        )
        settings += [estimator(*noisy) for estimator in ESTIMATORS.values()]
    return min(settings, key=lambda found: float(np.median(np.abs(found - truth))))
