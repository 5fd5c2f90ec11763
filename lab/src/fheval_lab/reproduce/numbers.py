"""Numbers of the page: as many digits as mean something, differences at a glance, and tables of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fheval.drawing.markup import Content, Element, element
from fheval.drawing.plots import written
from fheval.report.page import Heading
from fheval.report.page import table as any_table

NOTHING = "–"

# Below this two numbers that are printed with six digits do not differ.
_INVISIBLE = 5e-10


def table(
    headings: Sequence[str], rows: Sequence[Sequence[Content]], *, caption: str, words: Collection[str] = ()
) -> Element:
    """A table of numbers, but for the columns whose headings are among `words`."""
    columns = [Heading(heading, number=heading not in words) for heading in headings]
    return any_table(columns, rows, caption=caption)


def beside(shown: str, under: str) -> Content:
    """A number, and below it what it is to be compared with."""
    return [shown, element("span", under, class_="beside")]


def auc(value: float | None) -> str:
    """Six decimals, as the paper prints; a noisy AUC far from 1 gets fewer."""
    if value is None:
        return NOTHING
    return (f"{value:.6f}" if abs(value) < 10 else f"{value:,.2f}").replace("-", "−")


def with_deviation(mean: float | None, std: float | None) -> str:
    """A mean and its standard deviation.

    >>> with_deviation(0.9475, 0.0228), with_deviation(63.00177, 723.612)
    ('0.9475 ± 0.0228', '63.0 ± 723.6')
    """
    if mean is None or std is None:
        return NOTHING
    decimals = 4 if std < 1 else 1
    return f"{mean:,.{decimals}f} ± {std:,.{decimals}f}".replace("-", "−")


def difference(value: float | None) -> str:
    """A signed difference in one digit and a power.

    >>> difference(0.0), difference(-2.13e-7), difference(0.0213)
    ('0', '−2·10⁻⁷', '+0.02')
    """
    if value is None:
        return NOTHING
    if abs(value) < _INVISIBLE:
        return "0"
    return ("−" if value < 0 else "+") + magnitude(value)


def magnitude(value: float) -> str:
    """How large a number is, in one digit.

    >>> magnitude(-2.13e-7)
    '2·10⁻⁷'
    """
    return written(float(f"{abs(value):.1g}"))


def seconds(value: float | None) -> str:
    """Milliseconds below a second."""
    if value is None:
        return NOTHING
    if value < 1:
        return f"{value * 1e3:.0f} ms"
    return f"{value:,.2f} s" if value < 100 else f"{value:,.0f} s"


def megabytes(value: float | None) -> str:
    """Megabytes, or kilobytes below one.

    >>> megabytes(5.2428), megabytes(0.004864)
    ('5.24 MB', '4.9 kB')
    """
    if value is None:
        return NOTHING
    return f"{value:,.2f} MB" if value >= 1 else f"{value * 1e3:,.1f} kB"


def ratio(value: float) -> str:
    """How many times as much, or which part of it.

    >>> ratio(0.7154), ratio(0.000838)
    ('×0.72', '1/1,193')
    """
    return f"×{value:.2g}" if value > 0.1 else f"1/{1 / value:,.0f}"
