"""Results in words and figures for people: how many digits mean something, sizes, times, what a release reveals."""

from __future__ import annotations

from math import ceil, floor, log10

from fheval.evaluation import Result
from fheval.evaluation.result import Privacy
from fheval.protocols import DEFAULT_PROTOCOL, PROTOCOLS
from fheval.protocols.base import Words

# The paper prints six.
MOST_DECIMALS = 6


def words_of(result: Result) -> Words:
    """The protocol of a result for people; where counts were released, with noise or without, how it does that."""
    protocol = PROTOCOLS[result.protocol]
    if not result.curves or protocol.counts is None:
        return protocol.words
    words = protocol.counts.words
    return words if result.privacy is None else words.under_noise or words


def shown_auc(result: Result) -> str:
    """The AUC with the digits that mean something."""
    # The rounding may push a perfect AUC past 1, where none can be.
    return fixed(min(max(result.auc, 0.0), 1.0), decimals(result.protocol, result.precision))


def shown_with_binning(result: Result) -> str:
    """The AUC, and how far counting at decision points may have moved it."""
    return with_binning(shown_auc(result), result.binning, decimals(result.protocol, result.precision))


def fixed(number: float, digits: int) -> str:
    """A number to so many decimals; what rounds to zero has no sign.

    >>> fixed(0.94117, 4), fixed(-0.00001, 4), fixed(-0.25, 1)
    ('0.9412', '0.0000', '-0.2')
    """
    # Adding zero makes one zero of two.
    return f"{round(number, digits) + 0.0:.{digits}f}"


_ABBREVIATIONS = ("auc", "npv", "mcc", "f1", "f2", "ks", "ece", "rmse", "mae", "mse")


def metric_in_words(metric: str) -> str:
    """A metric as people write it.

    >>> metric_in_words("auc"), metric_in_words("recall@0.3"), metric_in_words("f1@0.5")
    ('AUC', 'recall at 0.3', 'F1 at 0.5')
    """
    name, at, threshold = metric.partition("@")
    return (name.upper() if name in _ABBREVIATIONS else name) + (f" at {threshold}" if at else "")


def p_in_words(p_value: float, resamples: int | None) -> str:
    """A p-value from resamples: no smaller one can come out of them than one that none contradicts.

    >>> p_in_words(0.0312, 200), p_in_words(2 / 201, 200), p_in_words(2 / 1000, 999)
    ('p = 0.031', 'p ≤ 0.01', 'p ≤ 0.002')
    """
    if resamples is not None and p_value * (resamples + 1) < 2.5:
        unit = 10.0 ** (floor(log10(p_value)) - 1)
        # What floating point adds to a whole number of last digits does not count as one more.
        return f"p ≤ {ceil(p_value / unit - 1e-9) * unit:.2g}"
    return f"p = {p_value:.2g}"


def with_binning(figure: str, binning: float | None, digits: int) -> str:
    """A figure and how far counting at decision points may have moved it, rounded up to the same digits.

    >>> with_binning("0.9412", 0.00071, 4), with_binning("0.9412", None, 4)
    ('0.9412 ± 0.0008', '0.9412')
    """
    if binning is None:
        return figure
    return f"{figure} ± {shown_binning(binning, digits)}"


def shown_binning(binning: float, digits: int) -> str:
    """A binning error, rounded up to the digits of its number."""
    # What floating point adds to a whole number of last digits does not count as one more.
    return fixed(ceil(binning * 10**digits - 1e-6) / 10**digits, digits)


def short_binning(binning: float, digits: int) -> str:
    """A binning error, rounded up to two digits that mean something, and to no more decimals than its number.

    >>> short_binning(0.0189847, 6), short_binning(0.00071, 4), short_binning(0.0, 4)
    ('0.019', '0.0008', '0.0000')
    """
    return shown_binning(binning, digits if binning <= 0 else min(digits, 1 - floor(log10(binning))))


def decimals(protocol: str, precision: float | str) -> int:
    """How many decimals a release carries.

    >>> decimals("padded", 1e-4), decimals("padded", 5e-3), decimals("padded", "exact")
    (4, 3, 6)
    >>> decimals("paper-malicious", "exact")
    5
    """
    if isinstance(precision, str):
        return PROTOCOLS[protocol].words.exact_decimals
    return min(MOST_DECIMALS, max(1, ceil(-log10(precision))))


def privacy_in_words(privacy: Privacy) -> str:
    """What noise protects, in one sentence."""
    whom = "row" if privacy.rows == 1 else f"cluster of up to {privacy.rows} rows"
    terms = f"ε = {privacy.epsilon:g}" + ("" if privacy.delta is None else f" and δ = {privacy.delta:g}")
    against = {0: "whoever is shown it", 1: "any one party"}.get(privacy.colluding, f"any {privacy.colluding} parties")
    return (
        f"{terms} for every {whom}, against {against}: {privacy.noise.title()} noise with a deviation of "
        f"{privacy.deviation:.3g} on every count, for which the shares of {privacy.honest} parties are enough"
    )


def release_in_words(result: Result) -> str:
    """How precise the figure is, as rounding or noise leaves it."""
    if result.privacy is not None:
        return "under noise, which the intervals include"
    if isinstance(result.precision, str):
        return words_of(result).exact
    return f"to within {result.precision:g}; further digits are noise by design and not shown"


def binning_in_words(result: Result) -> str | None:
    """What counting at decision points did to AUCs, where that is not below the rounding."""
    rows = [row for row in result.results if row.metric == "auc" and row.value is not None and row.p_value is None]
    known = [row.binning for row in rows if row.binning is not None]
    if rows and not known:
        return (
            f"How far counting at {result.decision_points:,} decision points moved the AUC is not known: "
            f"{result.protocol} answers one number a round. Another protocol says it beside the AUC."
        )
    if known and result.privacy is not None:
        return (
            f"Scores were counted at {result.decision_points:,} decision points, which may have moved an AUC by up to "
            f"about {max(known):.1g}; no interval includes that. More points mean less of it, and more noise."
        )
    rounded = result.precision if isinstance(result.precision, float) else 10.0**-MOST_DECIMALS
    if not known or max(known) <= rounded:
        return None
    return (
        f"Scores were counted at {result.decision_points:,} decision points: the AUC of the scores themselves lies "
        f"within ± {max(known):.1g} of the one shown, which is more than the rounding. Use more decision points, or a "
        "grid that has more of them where the scores are. Equal scores count in this as if they might differ."
    )


def warning(result: Result) -> str | None:
    """What the user of this release must know beyond the figure, if anything."""
    if result.privacy is not None:
        return "Every further round over the same rows spends as much of their privacy again."
    if result.curves:
        return "The parties now know the global counts at every decision point, which say far more than a metric."
    if result.precision != "exact":
        return None
    return (
        "This release is exact, which says more than the number: it is a fraction whose denominator divides twice the "
        "positives times the negatives, and whoever knows the number of samples can narrow down how many are "
        f"positive. Where the aggregator can be relied on to follow the protocol, --protocol {DEFAULT_PROTOCOL} "
        "releases four decimals and no more."
    )


def verified_in_words(result: Result) -> str:
    """Whether the result was verified, and what that is worth."""
    if result.verified is None:
        return words_of(result).unverified
    missing = sum(row.verified is False for row in result.results)
    said = "yes" if result.verified else f"yes, but for {missing} of {len(result.results)} numbers, which did not come"
    return said if result.soundness_bits is None else f"{said}, soundness 2^-{result.soundness_bits:g}"


def size(count: int) -> str:
    """Bytes for people.

    >>> size(640), size(6_400), size(5_250_000)
    ('640 B', '6.4 kB', '5.2 MB')
    """
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(0.00042), duration(0.0834), duration(2.514)
    ('0.4 ms', '83 ms', '2.5 s')
    """
    if seconds < 0.01:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
