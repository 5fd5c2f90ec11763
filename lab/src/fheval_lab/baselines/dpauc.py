"""DPAUC: the AUC from counts under Laplace noise (Sun et al., AAAI 2023), the baseline that the paper beats.

Each party adds Laplace noise to its TP, FP, TN and FN at every one of N decision points and sends all 4·N numbers
to the aggregator, which adds them up over the parties and draws the curve.

Budget: every statistic gets ε' = ε/(4·N), so the noise of one has scale 1/ε' = 4·N/ε, whatever the size of the data.
Counted as Sun et al. count, each statistic may change by 1 and the 4·N budgets add up to ε. (One sample more or
less changes one statistic at each point, a flipped label two: what is spent on them is ε/4 and ε/2.)

Reveals: to the aggregator, every party's noisy statistics, hence about how many samples it has, how they divide
into classes and how the model does on them; to everybody, a noisy AUC. Nothing protects against an aggregator that
changes the result. Costs: 4·N numbers from each party and no cryptography.

The noise is OpenDP's discrete Laplace distribution on the integers, sampled exactly from a cryptographic
generator: floating-point Laplace noise leaks by its rounding. Its standard deviation is below that of the
continuous one by less than 3 parts in 10^4 at the paper's scales, which start at 12.5.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fheval.counting.counts import Counts
from fheval.counting.grid import Grid
from fheval.errors import ConfigError, InputError
from fheval_lab.baselines.data import Parties
from fheval_lab.baselines.optional import require

Estimator = Literal["first-totals", "per-point", "sorted"]

# Sun et al. and the paper repeat a setting 100 times and report mean and standard deviation.
PAPER_REPETITIONS = 100

STATISTICS = 4
Noisy = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DpAucResult:
    """Mean and (population) standard deviation of the AUC over repetitions with fresh noise."""

    mean: float
    std: float
    values: tuple[float, ...] = field(repr=False)
    epsilon: float
    epsilon_per_statistic: float
    noise_scale: float
    decision_points: int
    parties: int
    seconds: float


def dpauc(
    parties: Parties,
    epsilon: float,
    decision_points: int | Grid = 100,
    *,
    repetitions: int = PAPER_REPETITIONS,
    estimator: Estimator = "first-totals",
) -> DpAucResult:
    """Run DPAUC `repetitions` times on the same counts; see `ESTIMATORS` for how the curve is drawn.

    A number of decision points stands for even ones, as in the paper. A one-off evaluation is `repetitions=1`: a party
    that really ran 100 would have spent 100·ε.
    """
    _check(epsilon, repetitions, estimator)
    if not parties:
        raise InputError("There are no parties. Give labels and scores of at least one.")
    grid = decision_points if isinstance(decision_points, Grid) else Grid.even(decision_points)
    counts = [
        Counts.from_scores(labels, scores, grid, source=f"party {number}")
        for number, (labels, scores) in enumerate(parties, start=1)
    ]
    # An aggregator could not know; but the baseline is not to make up an AUC where there is none.
    sum(counts, start=Counts.zero(grid)).auc()
    mechanism = laplace_mechanism(epsilon, len(grid))
    started = time.perf_counter()
    noisy = aggregator_add([party_statistics(own) for own in counts], mechanism, repetitions)
    values = ESTIMATORS[estimator](*noisy)
    return DpAucResult(
        mean=float(values.mean()),
        std=float(values.std()),
        values=tuple(values.tolist()),
        epsilon=epsilon,
        epsilon_per_statistic=epsilon / (STATISTICS * len(grid)),
        noise_scale=STATISTICS * len(grid) / epsilon,
        decision_points=len(grid),
        parties=len(counts),
        seconds=time.perf_counter() - started,
    )


def party_statistics(counts: Counts) -> NDArray[np.int64]:
    """A party's TP, FP, TN and FN before the noise, shape (4, N)."""
    return np.stack((counts.tp, counts.fp, counts.negatives - counts.fp, counts.positives - counts.tp))


def aggregator_add(
    statistics: Sequence[NDArray[np.int64]], mechanism: Callable[[list[int]], list[int]], repetitions: int
) -> Noisy:
    """The sums over parties of what each sends: TP, FP, TN, FN under noise, shape (4, repetitions, N)."""

    def release(own: NDArray[np.int64]) -> Noisy:
        repeated = np.broadcast_to(own[:, np.newaxis, :], (STATISTICS, repetitions, own.shape[1]))
        return np.array(mechanism(repeated.ravel().tolist()), dtype=np.float64).reshape(repeated.shape)

    # The sampler is native code that lets other threads run meanwhile.
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        total: Noisy = np.sum(list(threads.map(release, statistics)), axis=0)
    return total


def first_totals(tp: Noisy, fp: Noisy, tn: Noisy, fn: Noisy) -> Noisy:
    """TPR^n = TP^n/(TP^0 + FN^0), FPR^n = FP^n/(FP^0 + TN^0): the totals are estimated once, at the first point.

    The paper does not say which totals its tables divide by. Totals taken once, at a point other than the last, give
    the standard deviations that it prints wherever noise is small: over 16 such entries χ² is 20 for the first point
    and 24 for the middle one, but 344 for the last one and 1256 for `per_point`, which comes out half as large. Both
    noisy totals scale the whole area, and near zero they make it explode: hence entries like 63 ± 724.
    """
    return _trapezoid(_rate(tp, (tp + fn)[:, :1]), _rate(fp, (fp + tn)[:, :1]))


def per_point(tp: Noisy, fp: Noisy, tn: Noisy, fn: Noisy) -> Noisy:
    """TPR^n = TP^n/(TP^n + FN^n), FPR^n = FP^n/(FP^n + TN^n): the rates as the text defines them, as they come."""
    return _trapezoid(_rate(tp, tp + fn), _rate(fp, fp + tn))


def sorted_rates(tp: Noisy, fp: Noisy, tn: Noisy, fn: Noisy) -> Noisy:
    """Rates per point from counts cut off at zero, points then sorted by FPR: what the code of Sun et al. does.

    It costs no privacy and keeps the AUC within [0, 1], where it is wrong less spectacularly: biased downwards by
    noise in the rates.
    """
    tp, fp, tn, fn = (np.maximum(counts, 0) for counts in (tp, fp, tn, fn))
    tpr, fpr = _rate(tp, tp + fn), _rate(fp, fp + tn)
    order = np.argsort(fpr, axis=1, kind="stable")
    return _trapezoid(np.take_along_axis(tpr, order, axis=1), np.take_along_axis(fpr, order, axis=1))


ESTIMATORS: dict[Estimator, Callable[[Noisy, Noisy, Noisy, Noisy], Noisy]] = {
    "first-totals": first_totals,
    "per-point": per_point,
    "sorted": sorted_rates,
}


def _trapezoid(tpr: Noisy, fpr: Noisy) -> Noisy:
    areas: Noisy = np.sum((tpr[:, 1:] + tpr[:, :-1]) * (fpr[:, 1:] - fpr[:, :-1]), axis=1) / 2
    return areas


def _rate(counted: Noisy, total: Noisy) -> Noisy:
    """Divide; under a total of exactly zero, which noise makes possible, the rate is 0 as in the code of Sun et al."""
    return np.divide(counted, total, out=np.zeros_like(counted), where=total != 0)


def laplace_mechanism(epsilon: float, points: int) -> Callable[[list[int]], list[int]]:
    """OpenDP's vector Laplace mechanism on integers; it itself confirms what the 4·N statistics spend."""
    opendp: Any = require(
        "opendp", module="opendp.prelude", baseline="DPAUC", install="pip install 'fheval-lab[baselines]'"
    )
    # OpenDP asks its users to opt in to mechanisms whose proofs are not yet reviewed by a committee.
    opendp.enable_features("contrib")
    statistics = STATISTICS * points
    mechanism = opendp.m.make_laplace(
        opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l1_distance(T="i64"), scale=statistics / epsilon
    )
    spent = mechanism.map(statistics)
    if not np.isclose(spent, epsilon, rtol=1e-9):
        raise ConfigError(f"A budget of {epsilon} would in fact spend {spent}. Choose another.")
    release: Callable[[list[int]], list[int]] = mechanism
    return release


def _check(epsilon: float, repetitions: int, estimator: str) -> None:
    if not 0 < epsilon < float("inf"):
        raise ConfigError(f"The privacy budget must be a positive number, not {epsilon}. The paper uses 1 and 8.")
    if repetitions < 1:
        raise ConfigError(f"DPAUC needs at least one repetition, not {repetitions}. The paper uses 100.")
    if estimator not in get_args(Estimator):
        raise ConfigError(f"There is no estimator {estimator!r}. Choose one of {', '.join(get_args(Estimator))}.")
