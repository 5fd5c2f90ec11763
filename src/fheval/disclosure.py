"""What a study gives away beyond its numbers: how many sets of counts would give the same ones.

A recall of 0.7312 is a fraction of whole numbers. Rounded to a width of p it leaves p·P numerators for each number P of
positives; another ratio over the same positives leaves p·P of them again, and so k ratios with one denominator D leave
about Σ_D (pD)^k candidates in all. Where that is below one, whoever sees the ratios has the counts. Studies ask for
ratios whose denominators differ and hang together, and so this is reckoned as a volume:

The numbers of a slice are functions of whole numbers x: positives, negatives, and for each model and threshold the true
and the false positives. Any few of the numbers depend on some linear functions z = Bx of them and on nothing else. They
do not change when all counts grow alike. So the sets z that fit lie in a cone around the true one, whose section has
the volume det(JᵀJ/p² + 1/n²)^(-1/2), J the derivatives along the section and 1/n what is known of z anyway, and every
unit of volume holds one candidate. Which of the numbers say most is found by trying them: the fewest candidates count.

How far along the cone one has to look depends on who looks. Whoever knows the number of rows looks at one place, where
the numbers depend on it. The leader sees every resample of an interval, each a ratio of whole numbers that scatter
about the true ones by their square root, and looks no farther than that. Others look at all that is smaller than the
truth, since it takes no less to be believed. And repeated rounds over the same rows are rounded anew each time: k of
them leave a width of 2p/(k + 1).

An AUC's numerator is one of 2PQ whole numbers; it says something of P and Q only where p·2PQ is below one, and so does
its binning error. Losses and errors are counted in units of 2^-24 and leave p·n·2^24.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, reduce
from itertools import combinations, product
from math import ceil, exp, inf, log, prod, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fheval.counting import Grid
from fheval.errors import FhevalError
from fheval.forecast import noise_in_words, spent_in_words
from fheval.metrics.registry import METRICS, Columns, Histogram, Inputs
from fheval.protocols import PROTOCOLS
from fheval.protocols.round import Reading
from fheval.study import DEFAULT_ROWS, Study

# A study leaves as many candidates at least. The estimate is an average, and some studies leave fewer than it says: the
# attack of the lab found the counts of 0.5 % of them at 2 candidates, 0.05 % at 7, of one in 15,360 at 10, and of none
# at 20 or more; docs/metrics.md has the figures.
LEAST_CANDIDATES = 30.0

# Shares of positives, and true and false positive rates, for which a study is reckoned: the worst of them counts.
_SHARES = (0.1, 0.5, 0.9)
_RATES = ((0.9, 0.1), (0.7, 0.3), (0.8, 0.05))
# From one threshold or model to the next both rates fall off, so that no two are alike.
_FALL = 0.97

# More numbers than these at once only repeat what fewer say: a threshold has four cells.
_MOST_TOGETHER = 4

# Derivatives are differences over a small part of counts that are large, and whole numbers still.
_FINE = 1 << 26
_STEP = 1 << 10
# What is left of a direction that the numbers do not depend on.
_NOTHING = 1e-6

_Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """What a study gives away for so many rows.

    `reveals` is "counts" where fewer than `LEAST_CANDIDATES` sets of counts fit the numbers; `candidates` says how many
    do, by estimate, for who is told most, and `by` which numbers they are. `precision_needed` would leave enough; None
    where no rounding does, or any. `numbers` are told in a round. Who opens the answer sees more where it
    `opens_exactly`. An aggregator that is told the numbers and `steers` them has the counts, whatever their precision.
    """

    reveals: Literal["ratios", "counts"]
    candidates: float
    precision_needed: float | None
    numbers: int
    rows: int
    rounds: int
    by: tuple[str, ...] = ()
    opens_exactly: bool = False
    steers: bool = False


def disclosed_by(study: Study, rows: int | None = None, *, rounds: int | None = None) -> Disclosure:
    """What a study gives away if all parties together have at least so many rows.

    Without `rows` and `rounds` the study's own count.

    >>> study = Study.of(metrics=["precision", "recall", "accuracy"], rounds=1)
    >>> disclosed_by(study, 1000).reveals, disclosed_by(study, 10**6).reveals
    ('counts', 'ratios')
    """
    rows = rows or study.least_rows or DEFAULT_ROWS
    rounds = rounds or study.rounds
    numbers = study.number_of_slices()
    if study.release == "ratios":
        numbers = study.number_of_evaluations() + numbers * len(study.binned + study.recentred)
    if study.release == "noisy-curve":
        # What noise hides is not a matter of candidates: `fheval.forecast` tells.
        return Disclosure(
            reveals="ratios", candidates=inf, precision_needed=None, numbers=numbers, rows=rows, rounds=rounds
        )
    if study.release != "ratios":
        return Disclosure(
            reveals="counts", candidates=1.0, precision_needed=None, numbers=numbers, rows=rows, rounds=rounds
        )
    systems = _systems(study, rows)
    exactly = PROTOCOLS[study.protocol].opens_exactly
    # A fraction that is rounded to the nearest decimals is the same in every round.
    different = 1 if exactly else rounds
    needed = _precision_for(systems, different)
    width = 0.0 if study.precision is None else 2 * study.precision / (different + 1)
    worst = min(systems, key=lambda system: system.candidates(width), default=None)
    candidates = inf if worst is None else worst.candidates(width)
    steers = study.learns != "members" and not PROTOCOLS[study.protocol].right_or_nothing
    return Disclosure(
        reveals="ratios" if _enough(candidates) and not steers else "counts",
        candidates=max(candidates, 1.0) if study.precision is None else candidates,
        precision_needed=needed,
        numbers=numbers,
        rows=rows,
        rounds=rounds,
        by=() if worst is None else worst.by,
        opens_exactly=exactly and study.precision is not None,
        steers=steers,
    )


class RevealsMore(FhevalError):  # noqa: N818 (it is the study that does)
    """A study gives away more than it says."""


def require_as_declared(study: Study, rows: int | None = None) -> Disclosure:
    """Refuse a study that says it reveals ratios and gives the counts."""
    found = disclosed_by(study, rows)
    if found.reveals == "counts" and study.reveals == "ratios":
        raise RevealsMore(
            f"The study says that it reveals ratios and gives the counts. {' '.join(disclosure_in_words(found))} "
            'Or say reveals = "counts", if all parties agree.'
        )
    return found


def disclosure_in_words(found: Disclosure) -> list[str]:
    """What a study gives away, sentence by sentence."""
    told = f"{found.numbers} {'number' if found.numbers == 1 else 'numbers'} a round"
    often = "one round" if found.rounds == 1 else f"{found.rounds} rounds over the same rows"
    reckoned = f"Reckoned with {told}, {often}, {found.rows:,} rows in all and a tenth of them in each class."
    of = f" of {', '.join(found.by)}" if found.by else ""
    opened = ["Whoever opens the answer, the leader and checkers, sees exact fractions, and in them the counts."]
    opened = opened if found.opens_exactly else []
    if found.steers:
        safe = " or ".join(each.name for each in PROTOCOLS.values() if each.batch and each.right_or_nothing)
        opened.append(
            "The aggregator is told the numbers, and one that does not follow this protocol can have others computed "
            f"in their place, the counts among them. With {safe} it cannot."
        )
    if found.reveals == "ratios":
        few = f"About {_figure(found.candidates)} sets of counts give the same numbers, so they stay open."
        return [reckoned, few, *opened]
    if _enough(found.candidates):
        return [reckoned, *opened]
    if found.candidates < 1:
        said = f"The numbers give away the counts{of}: fewer than one other set of counts would give the same."
    else:
        said = f"The numbers give away the counts{of}, or nearly: {_figure(found.candidates)} sets of counts fit them."
    if found.precision_needed is None:
        return [reckoned, said, *opened]
    return [reckoned, said, f"A precision of {found.precision_needed:g} would keep them open.", *opened]


def _figure(number: float) -> str:
    return "any number of" if number == inf else f"{number:.2g}" if number >= 1e6 else f"{number:,.0f}"


# The reckoning


@dataclass(frozen=True, slots=True, kw_only=True)
class _System:
    """Some numbers of a slice that depend on few counts together.

    A width p leaves volume·Π (λ/p² + 1/n²)^(-1/2) candidates, less where it is below one of the `steps` that other
    numbers' numerators take.
    """

    by: tuple[str, ...]
    rows: int
    volume: float
    eigenvalues: tuple[float, ...] = ()
    steps: tuple[float, ...] = field(default=())

    def candidates(self, width: float) -> float:
        if not width:
            return 0.0
        logarithm = log(self.volume) - sum(log(each / width**2 + self.rows**-2.0) for each in self.eigenvalues) / 2
        return exp(min(logarithm, 700.0)) * prod(min(1.0, width / step) for step in self.steps)


def _systems(study: Study, rows: int) -> list[_System]:
    """All sets of numbers that may say something together, of every kind of slice."""
    names = [spec for spec in study.specs if spec.metric.threshold]
    thresholds = list(dict.fromkeys(spec.threshold for spec in names))
    # One block for each model and threshold: the metrics of one confusion matrix.
    # The difference of two groups' rates is taken to say as much as either rate, though it says less.
    blocks = [
        tuple(dict.fromkeys(spec.metric.gap_of or spec.name for spec in names if spec.threshold == threshold))
        for _, threshold in product(study.models, thresholds)
    ]
    # An AUC, its binning error, and what it is at the points of its resamples.
    asked = study.specs + study.binned + study.recentred
    of_pairs = len(study.models) * sum(spec.metric.histogram == "grid" for spec in asked)
    # A stretch of ten is taken to hold a tenth of the rows, and a band that a study names a hundredth.
    bands = [spec.name for spec in study.specs if ":" in spec.name and not spec.name.startswith("expected")]
    parts = 100 if any("-" in name for name in bands) else 10
    found: list[_System] = []
    sizes = {rows} if study.group_column is None else {rows, study.minimum_group * study.minimum_cohort}
    for size, share in product(sizes, _SHARES):
        pairs = 2 * share * (1 - share) * size * size
        steps = (1 / pairs,) * of_pairs
        if of_pairs:
            # Whoever knows the rows tries every number of positives.
            found.append(_System(by=("auc",), rows=size, volume=size, steps=steps))
        if any(spec.metric.name == "mean" for spec in study.specs):
            # The values may be zeros and ones, and their mean a count over the number of rows.
            found.append(_System(by=("mean",), rows=size, volume=size, eigenvalues=(1.0,)))
        if bands:
            # The share of positives in it, which is in no other number.
            inside = size / parts
            found.append(_System(by=("observed",), rows=size, volume=inside / 2, steps=(1 / inside,)))
        for rates in _RATES:
            found += _threshold_systems(blocks, size, share, rates, steps, resampled=study.replicates > 0)
    return found


def _threshold_systems(
    blocks: Sequence[tuple[str, ...]],
    rows: int,
    share: float,
    rates: tuple[float, float],
    steps: tuple[float, ...],
    *,
    resampled: bool,
) -> Iterator[_System]:
    names = tuple(dict.fromkeys(name for block in blocks for name in block))
    alone = [[block] for block in dict.fromkeys(blocks)]
    for within in _said_together(names):
        for some in (blocks, *alone) if len(blocks) > 1 else (blocks,):
            kept = [tuple(name for name in block if name in within) for block in some]
            kept = [block for block in kept if block]
            if kept:
                yield _system(kept, rows, share, rates, steps, resampled=resampled)


@lru_cache(maxsize=64)
def _said_together(names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Sets of metrics of one threshold: with some of them, all others that depend on nothing else."""

    @cache
    def with_one_more(known: tuple[str, ...], name: str) -> tuple[str, ...]:
        space = np.vstack([_depends_on(each) for each in (*known, name)])
        return tuple(each for each in names if _lies_in(_depends_on(each), space))

    counts = range(1, 1 + min(len(names), _MOST_TOGETHER))
    chosen = (some for count in counts for some in combinations(names, count))
    nothing: tuple[str, ...] = ()
    return tuple(dict.fromkeys(reduce(with_one_more, some, nothing) for some in chosen))


def _system(
    blocks: Sequence[tuple[str, ...]],
    rows: int,
    share: float,
    rates: tuple[float, float],
    steps: tuple[float, ...],
    *,
    resampled: bool,
) -> _System:
    """The cone of what fits these numbers of these blocks; variables are P, Q, and TP, FP of each block."""
    positives, negatives = share * rows, (1 - share) * rows
    truth = [positives, negatives]
    gradients, forms = [], []
    for index, block in enumerate(blocks):
        tp, fp = (rate * _FALL**index * whole for rate, whole in zip(rates, (positives, negatives), strict=True))
        truth += [tp, fp]
        # FN = P − TP and TN = Q − FP.
        cells = np.zeros((4, 2 + 2 * len(blocks)))
        cells[0, 2 + 2 * index] = cells[1, 3 + 2 * index] = cells[2, 0] = cells[3, 1] = 1
        cells[2, 2 + 2 * index] = cells[3, 3 + 2 * index] = -1
        shares = (tp / rows, fp / rows, (positives - tp) / rows, (negatives - fp) / rows)
        for name in block:
            gradients.append(_gradient(name, shares) / rows @ cells)
            forms.append(_depends_on(name) @ cells)
    basis = _reduced(np.vstack(forms))
    z = basis @ np.array(truth)
    jacobian = np.linalg.lstsq(basis.T, np.array(gradients).T, rcond=None)[0].T
    length = float(np.linalg.norm(z))
    # The section lies across the truth's own direction, along which nothing changes.
    across = np.linalg.svd(z[None, :])[2][1:].T
    eigenvalues = np.linalg.eigvalsh(across.T @ jacobian.T @ jacobian @ across)
    everyone = _reduced(np.vstack([basis, [1.0, 1.0, *[0.0] * (basis.shape[1] - 2)]]))
    along = 1 / len(z)
    if len(everyone) == len(basis):
        along = min(along, 1 / rows)
    if resampled:
        along = min(along, 4 / sqrt(z.max()))
    both = len(_reduced(np.vstack([basis, np.eye(2, basis.shape[1])]))) == len(basis)
    return _System(
        by=tuple(dict.fromkeys(name for block in blocks for name in block)) + (("auc",) if both and steps else ()),
        rows=rows,
        volume=length * along,
        eigenvalues=tuple(max(float(each), 0.0) for each in eigenvalues),
        steps=steps if both else (),
    )


def _ratio(name: str, cells: NDArray[np.int64]) -> float:
    """A metric's ratio for TP, FP, FN, TN."""
    reading = _reading(name)
    # Positives, then negatives, of two bins, and the one behind them.
    table = np.append(cells[[0, 2, 1, 3]], 1)[None, :]
    products = reading.left.of_integers(table)[0].astype(np.float64) * reading.right.of_integers(table)[0]
    numerator = reading.form.numerator
    return float(products[:numerator].sum() / products[numerator:].sum())


@lru_cache(maxsize=256)
def _reading(name: str) -> Reading:
    """How a metric is read from counts above and below its threshold."""
    histogram = Histogram.at(None, [0.0])
    # Of a net benefit, the threshold at which it weighs cells by whole numbers.
    return METRICS[name].reading(Columns([histogram]), Inputs(grid=Grid.even(2), threshold=0.5), samples=1)


@lru_cache(maxsize=4096)
def _derivatives(name: str, cells: tuple[int, int, int, int]) -> tuple[float, ...]:
    middle = np.array(cells, dtype=np.int64)
    steps = np.eye(4, dtype=np.int64) * _STEP
    return tuple((_ratio(name, middle + step) - _ratio(name, middle - step)) / (2 * _STEP) for step in steps)


def _gradient(name: str, shares: tuple[float, ...]) -> _Matrix:
    """How a metric changes with the shares of TP, FP, FN and TN."""
    tp, fp, fn, tn = (round(share * _FINE) for share in shares)
    return np.array(_derivatives(name, (tp, fp, fn, tn))) * _FINE


@lru_cache(maxsize=256)
def _depends_on(name: str) -> _Matrix:
    """The linear functions of TP, FP, FN and TN that a metric depends on: those that its derivatives span."""
    places = [(0.3, 0.1, 0.2, 0.4), (0.1, 0.2, 0.3, 0.4), (0.4, 0.15, 0.05, 0.4), (0.25, 0.3, 0.35, 0.1)]
    return _reduced(np.array([_gradient(name, place) for place in places]))


def _lies_in(forms: _Matrix, space: _Matrix) -> bool:
    return len(_reduced(np.vstack([space, forms]))) == len(_reduced(space))


def _reduced(rows: _Matrix) -> _Matrix:
    """The reduced echelon form: a basis whose coordinates are whole numbers where the rows' are."""
    matrix = rows / np.abs(rows).max(axis=1, keepdims=True)
    rank = 0
    for column in range(matrix.shape[1]):
        pivot = rank + int(np.argmax(np.abs(matrix[rank:, column]))) if rank < len(matrix) else rank
        if rank == len(matrix) or abs(matrix[pivot, column]) < _NOTHING:
            continue
        matrix[[rank, pivot]] = matrix[[pivot, rank]]
        matrix[rank] /= matrix[rank, column]
        others = np.arange(len(matrix)) != rank
        matrix[others] -= np.outer(matrix[others, column], matrix[rank])
        rank += 1
    reduced: _Matrix = matrix[:rank]
    return reduced


def _precision_for(systems: Sequence[_System], rounds: int) -> float | None:
    """The finest precision of two digits that leaves enough candidates; None where none, or any, does."""

    def enough(precision: float) -> bool:
        width = 2 * precision / (rounds + 1)
        return all(system.candidates(width) >= LEAST_CANDIDATES for system in systems)

    low, high = -15.0, 0.0
    if not systems or not enough(0.5):
        return None
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(10**middle) else (middle, high)
    unit = 10.0 ** (ceil(high) - 2)
    # Thirty rows in a thousand are 0.03, and not 0.031 for the sake of the last bit.
    return float(f"{ceil(10**high / unit - 2e-2) * unit:.2g}")


def _enough(candidates: float) -> bool:
    # The slack is for what floating point makes of the precision that would leave just as many.
    return candidates >= LEAST_CANDIDATES * (1 - 1e-2)


# A study in words


def study_in_words(study: Study, *, trial: bool = False) -> list[str]:
    """What a study asks, how, how often, and who learns what, sentence by sentence, for who must agree to it.

    In a trial there is one round and nobody who agreed to anything, and so nothing to say about either.
    """
    told = [_asked(study), *_numbers(study), *_terms(study)]
    return told if trial else [*told, *_agreed(study)]


def _asked(study: Study) -> str:
    name = f"Study {study.name}: " if study.name else "A study: "
    if study.release == "noisy-curve":
        more = [str(spec) for spec in study.specs if spec.threshold is not None]
        what = "counts at every decision point under noise, from which curves are drawn"
        what += f" and {_listed(more)} computed" if more else ""
    elif study.release != "ratios":
        what = "the global counts at every decision point, from which curves are drawn"
    else:
        what = _listed(study.metrics)
    models = f", of the models {_listed(study.models)}" if len(study.models) > 1 else ""
    classes = f", each of the classes {_listed(study.classes)} against the rest" if study.classes else ""
    groups = f", over all rows and over each group of {study.group_column!r} by itself" if study.group_column else ""
    return f"{name}{what}{models}{classes}{groups}."


def _numbers(study: Study) -> Iterator[str]:
    points = f"{len(study.grid):,} decision points"
    if study.release == "ratios":
        rounded = "exact fractions" if study.precision is None else f"rounded to a width of {study.precision:g}"
        yield f"Scores are counted at {points}; the numbers are {rounded}."
    if study.release == "noisy-curve":
        yield f"Scores are counted at {points}."
        yield from noise_in_words(study)
    elif study.interval is not None:
        of = "clusters" if study.by_cluster else "rows"
        yield f"Each has a {100 * study.interval:g} % interval, from {study.replicates} resamples of {of}."
        if study.every_point > 1 and study.recentred:
            yield f"Resamples are counted at one decision point in {study.every_point}, and moved to the value's place."
    if study.groups:
        noisy = ", however few rows they have" if study.release == "noisy-curve" else ""
        yield f"The groups are {_listed(study.groups)}{noisy}."
    if study.group_column and study.release != "noisy-curve":
        yield (
            f"A group is left out unless {study.minimum_cohort} parties have {study.minimum_group} "
            f"{'clusters' if study.by_cluster else 'rows'} of it each."
        )
    if study.target_range is not None:
        low, high = study.target_range
        yield f"True and predicted values lie between {low:g} and {high:g}."


def _terms(study: Study) -> Iterator[str]:
    protocol = PROTOCOLS[study.protocol]
    options = "".join(f", {name} {value}" for name, value in study.options)
    yield f"Protocol {study.protocol}{options}, for an aggregator that {protocol.words.aggregator}."
    rows = f"at most {study.max_samples:,} rows in all"
    if study.least_rows is not None:
        rows = f"{study.least_rows:,} to {study.max_samples:,} rows in all"
    if study.most_rows_per_party is not None:
        rows += f", {study.least_rows_per_party:,} to {study.most_rows_per_party:,} from each"
    yield f"At least {study.minimum_cohort} parties take part, with {rows}."
    named = _listed(study.leaders) if study.leaders else "any member that the aggregator picks"
    checked = f" {_listed(study.checkers)} open the result as well, and check it." if study.checkers else ""
    yield protocol.keepers_in_words(named, len(study.leaders), study.options) + checked


def _agreed(study: Study) -> Iterator[str]:
    """What members agree on beforehand: how often it is asked, who learns the result, and what it may give away."""
    yield from spent_in_words(study)
    often = "once" if study.rounds == 1 else f"{study.rounds} times"
    if study.every is not None:
        often += f", with {_time(study.every)} in between"
    if study.until is not None:
        often += f", until {study.until.isoformat()}"
    told = "the members" if study.learns == "members" else "the members and to the aggregator"
    yield f"It may be asked {often}; the result goes to {told}."
    yield _declared(study)


def _declared(study: Study) -> str:
    if study.release == "noisy-curve":
        return "Whoever sees the result learns no more about any one row than the noise lets through."
    if study.reveals == "counts":
        return "The parties agree that the numbers may give away the counts behind them."
    return "The numbers are not to give away the counts behind them."


def _time(seconds: int) -> str:
    """A time for people.

    >>> _time(7 * 86400), _time(5400), _time(1)
    ('7 days', '90 minutes', '1 second')
    """
    units = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
    unit, length = next((unit, length) for unit, length in units if seconds % length == 0)
    return f"{seconds // length} {unit}{'' if seconds == length else 's'}"


def _listed(names: Sequence[str]) -> str:
    """Names for people.

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
