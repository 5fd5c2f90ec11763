"""A curious member's attack on the numbers themselves: the whole counts that they are ratios of.

Every released number is known to within the study's precision, and is a ratio of whole numbers. Whoever looks for whole
numbers that give all of them finds few, or one. Four ways are gone:

- Ratios over one denominator, such as recalls at several thresholds: the smallest denominator for which every numerator
  is whole.
- Ratios with one numerator, a precision and a recall: the smallest numerator for which both remainders are whole.
- An accuracy, with an F1 or without, by who knows how many rows there are: how many were right, and true positives.
- A whole confusion matrix, by who knows how many rows there are: the corners of what is left bound the positives and
  true positives, and every matrix within the bounds is tried. Right is who is left with one.

Beside each study stands what `fheval study check` says of it: where it says "ratios", no way may find the counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import combinations, islice
from math import ceil, floor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fheval.disclosure import disclosed_by
from fheval.errors import LocalProtocolError
from fheval.protocols import padded
from fheval.protocols.release import RoundedRelease
from fheval.protocols.round import Denominator, Form
from fheval.secrets import Randomness, integer_between
from fheval.study import Study
from fheval_lab.attacks.consortium import fresh_stream

TRIES = 20

# More than one is enough to know that nobody can tell.
_ENOUGH = 2
# How many numbers of positives, or matrices that fit, a search goes through before it gives up.
_PATIENCE = 2000

# Planes that meet nowhere, and what rounding makes of a corner.
_PARALLEL = 1e-12
_SLACK = 1e-9

# What is divided by what, in TP, FP, FN, TN.
RATIOS: Mapping[str, tuple[tuple[int, int, int, int], tuple[int, int, int, int]]] = {
    "recall": ((1, 0, 0, 0), (1, 0, 1, 0)),
    "specificity": ((0, 0, 0, 1), (0, 1, 0, 1)),
    "precision": ((1, 0, 0, 0), (1, 1, 0, 0)),
    "npv": ((0, 0, 0, 1), (0, 0, 1, 1)),
    "accuracy": ((1, 0, 0, 1), (1, 1, 1, 1)),
    "f1": ((2, 0, 0, 0), (2, 1, 1, 0)),
}
# Numerators that two ratios share, with what each adds to it below the line.
_SHARED = ((0, {"recall": 2, "precision": 1}), (3, {"specificity": 1, "npv": 2}))

_Found = TypeVar("_Found")

Matrix = tuple[int, int, int, int]
Window = tuple[Fraction, Fraction]
# For each confusion matrix of the same rows, the windows of its metrics.
Windows = Sequence[Mapping[str, Window]]


class GaveUp(Exception):  # noqa: N818 (nobody's error)
    """There are too many places to look: whoever has not looked everywhere does not know that one set is all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsFound:
    """How often the counts behind a study's numbers were found, and what the study was said to reveal."""

    name: str
    rows: int
    precision: float
    candidates: float
    said: str
    tries: int
    found: int

    @property
    def holds(self) -> bool:
        return self.said == "counts" or not self.found

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


def value(name: str, cells: Sequence[int]) -> Fraction:
    """A metric of a confusion matrix."""
    top, bottom = (sum(a * b for a, b in zip(part, cells, strict=True)) for part in RATIOS[name])
    return Fraction(top, bottom)


# The ways


def smallest_denominator(windows: Sequence[Window], most: int) -> tuple[int, ...] | None:
    """The smallest D with whole numerators in all windows, and these."""
    denominators = np.arange(1, most + 1)
    whole = np.ones(most, dtype=np.bool_)
    for window in windows:
        whole &= _has_numerator(window, denominators)
    for found in (np.flatnonzero(whole) + 1).tolist():
        numerators = tuple(ceil(low * found) for low, _ in windows)
        if all(top <= high * found for top, (_, high) in zip(numerators, windows, strict=True)):
            return (found, *numerators)
    return None


def smallest_numerator(windows: Sequence[Window], most: int) -> tuple[int, ...] | None:
    """The smallest numerator t for which t/(t + a) and t/(t + b) are in their windows for whole a, b; and these."""
    for top in range(1, most + 1):
        others = [(ceil(top / high - top), floor(top / low - top) if low > 0 else top) for low, high in windows]
        if all(max(least, 0) <= largest for least, largest in others):
            return (top, *(max(least, 0) for least, _ in others))
    return None


def matrices(windows: Mapping[str, Window], rows: int, positives: Sequence[int] | None = None) -> Iterator[Matrix]:
    """Confusion matrices over so many rows, or with these numbers of positives, that have all metrics in their windows.

    A window on a ratio is two linear inequalities on TP, FP, FN and TN.
    """
    inequalities = _inequalities(windows)
    bounds = _bounds(inequalities, rows)
    if bounds is None:
        return
    (first, last), (least, most) = bounds
    tried = np.arange(max(first, 1), min(last, rows - 1) + 1) if positives is None else np.array(positives)
    tried = tried[(first <= tried) & (tried <= last)]
    if "recall" in windows:
        tried = tried[_has_numerator(windows["recall"], tried)]
    if "specificity" in windows:
        tried = tried[_has_numerator(windows["specificity"], rows - tried)]
    if len(tried) > _PATIENCE:
        raise GaveUp
    for number in tried.tolist():
        tps = np.arange(max(least, 0), min(most, number) + 1)
        low, high = np.zeros(len(tps)), np.full(len(tps), float(rows - number))
        for tp, fp, fn, tn in inequalities:
            # tp·TP + fp·FP + fn·(P − TP) + tn·(Q − FP) ≥ 0, solved for FP.
            rest = (tp - fn) * tps + fn * number + tn * (rows - number)
            slope = fp - tn
            if slope > 0:
                low = np.maximum(low, -rest / slope)
            elif slope < 0:
                high = np.minimum(high, -rest / slope)
            else:
                high = np.where(rest < -1e-9, -1.0, high)
        fits = np.ceil(low - 1e-9) <= np.floor(high + 1e-9)
        for index in np.flatnonzero(fits).tolist():
            true = int(tps[index])
            for false in range(ceil(low[index] - 1e-9), floor(high[index] + 1e-9) + 1):
                matrix = (true, false, number - true, rows - number - false)
                if min(matrix) >= 0 and _fits(matrix, windows):
                    yield matrix


def _has_numerator(window: Window, wholes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For which denominators a whole numerator lies in the window."""
    found: NDArray[np.bool_] = np.ceil(float(window[0]) * wholes - 1e-9) <= np.floor(float(window[1]) * wholes + 1e-9)
    return found


def _fits(matrix: Matrix, windows: Mapping[str, Window]) -> bool:
    for name, (low, high) in windows.items():
        if not sum(a * b for a, b in zip(RATIOS[name][1], matrix, strict=True)):
            return False
        if not low <= value(name, matrix) <= high:
            return False
    return True


def _inequalities(windows: Mapping[str, Window]) -> list[NDArray[np.float64]]:
    found = []
    for name, (low, high) in windows.items():
        top, bottom = (np.array(part, dtype=np.float64) for part in RATIOS[name])
        found += [top - float(low) * bottom, float(high) * bottom - top]
    return found


def _bounds(inequalities: Sequence[NDArray[np.float64]], rows: int) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Between which numbers positives and true positives lie: at the corners of what the inequalities leave."""
    # In shares of all rows, TN being what the others leave; no share is negative.
    rules = np.array([*inequalities, *np.eye(4)])
    slopes, starts = rules[:, :3] - rules[:, 3:], rules[:, 3]
    planes = np.array(list(combinations(range(len(rules)), 3)))
    planes = planes[np.abs(np.linalg.det(slopes[planes])) > _PARALLEL]
    corners = np.linalg.solve(slopes[planes], -starts[planes][:, :, None])[:, :, 0]
    corners = corners[((corners @ slopes.T + starts) > -_SLACK).all(axis=1)]
    if not len(corners):
        return None
    positives, tps = (corners[:, 0] + corners[:, 2]) * rows, corners[:, 0] * rows
    return (floor(positives.min()), ceil(positives.max())), (floor(tps.min()) - 1, ceil(tps.max()) + 1)


# All of them against one release


def found_counts(windows: Windows, truth: Sequence[Matrix]) -> bool:
    """Whether any way ends in the true counts."""
    rows = sum(truth[0])
    return (
        any(_by_denominators(windows, truth))
        or any(_by_numerators(windows, truth))
        or any(_by_rows(windows, truth))
        or _by_matrices(windows, truth, rows)
    )


def _by_denominators(windows: Windows, truth: Sequence[Matrix]) -> Iterator[bool]:
    shared = {"recall", "specificity"}
    for name in set(RATIOS) - {"accuracy"}:
        mine = [(each[name], matrix) for each, matrix in zip(windows, truth, strict=True) if name in each]
        for group in [mine] if name in shared else [[one] for one in mine]:
            if group:
                parts = [_parts(name, matrix) for _, matrix in group]
                guess = smallest_denominator([window for window, _ in group], parts[0][1])
                yield guess == (parts[0][1], *(top for top, _ in parts))


def _parts(name: str, matrix: Matrix) -> tuple[int, int]:
    top, bottom = (sum(a * b for a, b in zip(part, matrix, strict=True)) for part in RATIOS[name])
    return top, bottom


def _by_numerators(windows: Windows, truth: Sequence[Matrix]) -> Iterator[bool]:
    for each, matrix in zip(windows, truth, strict=True):
        for place, names in _SHARED:
            if set(names) <= set(each):
                guess = smallest_numerator([each[name] for name in names], matrix[place])
                yield guess == (matrix[place], *(matrix[other] for other in names.values()))


def right_answers(accuracy: Window, f1: Window | None, rows: int) -> Iterator[tuple[int, int]]:
    """How many rows were called right and, with an F1, how many of them are true positives."""
    for right in range(ceil(accuracy[0] * rows), floor(accuracy[1] * rows) + 1):
        if f1 is None:
            yield right, 0
        else:
            # F1 = 2·TP/(2·TP + wrong)
            low, high = (end / (2 * (1 - end)) * (rows - right) if end < 1 else Fraction(right) for end in f1)
            for true in range(ceil(low), min(floor(high), right) + 1):
                yield right, true


def _by_rows(windows: Windows, truth: Sequence[Matrix]) -> Iterator[bool]:
    for each, matrix in zip(windows, truth, strict=True):
        if "accuracy" in each:
            for f1 in {None, each.get("f1")}:
                guesses = list(_up_to_two(right_answers(each["accuracy"], f1, sum(matrix))))
                yield guesses == [(matrix[0] + matrix[3], matrix[0] if f1 else 0)]


def _by_matrices(windows: Windows, truth: Sequence[Matrix], rows: int) -> bool:
    """Whether one set of matrices with the same positives is left, and all of it is known."""
    positives: list[int] | None = None
    found: list[Matrix] = []
    for each, matrix in zip(windows, truth, strict=True):
        try:
            found = list(islice(matrices(each, rows, positives), _ENOUGH if len(windows) == 1 else _PATIENCE))
        except GaveUp:
            return False
        if matrix not in found:
            return False
        # The next matrix is over the same rows: only these numbers of positives are left.
        positives = sorted({one[0] + one[2] for one in found})
    return found == [truth[-1]]


# Studies and releases


def released_windows(
    truth: Sequence[Matrix], names: Sequence[str], precision: float, rounds: int, rng: Randomness
) -> Windows:
    """What members know of each metric after so many rounds, as `padded` releases them."""
    form = Form.bounded(numerator=1, denominator=1, bound=4 * sum(truth[0]) ** 2)
    release = RoundedRelease.plan([form.bound], precision)
    # The middle of k uniform draws is nearer than this in 19 of 20 cases; one draw is within half the precision.
    half = Fraction(str(precision)) * (Fraction(1, 2) if rounds == 1 else Fraction(3, 2 * (rounds + 1)))
    windows: list[dict[str, Window]] = []
    for matrix in truth:
        windows.append({})
        for name in names:
            told = [_told(release, form, value(name, matrix), rng) for _ in range(rounds)]
            middle = (min(told) + max(told)) / 2
            windows[-1][name] = (max(Fraction(0), middle - half), min(Fraction(1), middle + half))
    return windows


def _told(release: RoundedRelease, form: Form, ratio: Fraction, rng: Randomness) -> Fraction:
    (drawn,) = release.draw([Denominator(0)], rng)
    num, den = ratio.numerator, ratio.denominator
    x = drawn.scale * num + drawn.tilt * den + drawn.noise_x
    z = drawn.scale * den + drawn.noise_z
    told = release.ratio(form, 0, [x % prime for prime in release.primes], [z % prime for prime in release.primes])
    if told is None:
        raise LocalProtocolError("A ratio with a denominator came back as none.")
    return told


def some_matrices(rows: int, count: int, rng: Randomness) -> list[Matrix]:
    """Confusion matrices of a passable model at successive thresholds, a tenth or more of the rows in each class."""

    def between(low: float, high: float) -> float:
        return low + (high - low) * integer_between(rng, 0, 1 << 30) / (1 << 30)

    positives = round(rows * between(0.1, 0.9))
    recall, fall_out = between(0.7, 0.9), between(0.05, 0.3)
    found = []
    for number in range(count):
        tp = round(positives * recall * 0.97**number)
        fp = round((rows - positives) * fall_out * 0.97**number)
        found.append((tp, fp, positives - tp, rows - positives - fp))
    return found


def attack_study(
    names: Sequence[str], rows: int, precision: float, *, thresholds: int = 1, rounds: int = 1, tries: int = TRIES
) -> CountsFound:
    """Release a study's numbers over random data that many times, and look for the counts each time."""
    rng = fresh_stream()
    asked = [f"{name}@{0.3 + number / 10:g}" for number in range(thresholds) for name in names]
    study = Study.of(metrics=asked, protocol=padded.NAME, precision=precision, rounds=rounds)
    said = disclosed_by(study, rows)
    found = 0
    for _ in range(tries):
        truth = some_matrices(rows, thresholds, rng)
        found += found_counts(released_windows(truth, names, precision, rounds, rng), truth)
    at = f" at {thresholds} thresholds" if thresholds > 1 else ""
    again = f", {rounds} rounds" if rounds > 1 else ""
    return CountsFound(
        name=", ".join(names) + at + again,
        rows=rows,
        precision=precision,
        candidates=said.candidates,
        said=said.reveals,
        tries=tries,
        found=found,
    )


def absent_partys_counts(names: Sequence[str], rows: int, precision: float, tries: int = TRIES) -> CountsFound:
    """Two rounds whose rosters differ by one party of a tenth of the rows: both matrices, and their difference."""
    rng = fresh_stream()
    said = disclosed_by(Study.of(metrics=list(names), protocol=padded.NAME, precision=precision, rounds=1), rows)
    found = 0
    for _ in range(tries):
        (all_of_them,) = some_matrices(rows, 1, rng)
        (absent,) = some_matrices(rows // 10, 1, rng)
        others = tuple(max(0, a - b) for a, b in zip(all_of_them, absent, strict=True))
        both = [all_of_them, (others[0], others[1], others[2], others[3])]
        found += all(
            _by_matrices(released_windows([each], names, precision, 1, rng), [each], sum(each)) for each in both
        )
    return CountsFound(
        name="an absent party's own counts: " + ", ".join(names),
        rows=rows,
        precision=precision,
        candidates=said.candidates,
        said=said.reveals,
        tries=tries,
        found=found,
    )


def _up_to_two(found: Iterator[_Found]) -> Iterator[_Found]:
    return islice(found, _ENOUGH)


FIVE = ("precision", "recall", "specificity", "npv", "accuracy")


def attack_released_numbers() -> list[CountsFound]:
    """The attack on studies that are said to give counts, and on the same with the precision that is proposed."""
    lines = []
    for names, rows, thresholds in ((FIVE, 1000, 1), (("recall",), 1000, 3), (("f1", "accuracy"), 10_000, 1)):
        fine = attack_study(names, rows, 1e-4, thresholds=thresholds)
        asked = [f"{name}@{0.3 + number / 10:g}" for number in range(thresholds) for name in names]
        needed = disclosed_by(Study.of(metrics=asked, protocol=padded.NAME, rounds=1), rows).precision_needed
        lines += [fine, attack_study(names, rows, needed or 0.5, thresholds=thresholds)]
    needed = disclosed_by(Study.of(metrics=list(FIVE), protocol=padded.NAME, rounds=1), 1000).precision_needed
    return [*lines, absent_partys_counts(FIVE, 1000, 1e-4), absent_partys_counts(FIVE, 1000, needed or 0.5)]
