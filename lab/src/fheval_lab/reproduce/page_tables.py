"""The tables on the page: accuracy by our protocols, the libraries, MPC and DPAUC; communication; soundness."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import hypot

from fheval.drawing.markup import Content, Element, element
from fheval.protocols import padded_verified, paper_malicious
from fheval_lab.reproduce import noise, numbers
from fheval_lab.reproduce.accuracy import DPAUC_COLUMNS, PROTOCOLS, ROUNDED
from fheval_lab.reproduce.noise import EPSILONS
from fheval_lab.reproduce.rows import Row
from fheval_lab.reproduce.run import Reproduction

# By size, decision points and column.
Index = Mapping[tuple[int | None, int | None, str], Row]

_LIBRARIES = {"tensorflow": "TensorFlow, 1,000 thresholds", "scikit-learn": "scikit-learn", "mpc": "MPC, 15 parties"}


def accuracy(outcome: Reproduction) -> Content:
    """Everything of table 1 or 2."""
    if not outcome.rows:
        return element("p", "There are no data for this table.")
    # The libraries and MPC have thresholds of their own or none: one value for all decision points.
    index = {
        (row.size, None if row.column in _LIBRARIES else row.decision_points, row.column): row for row in outcome.rows
    }
    notes = element("ul", [element("li", note) for note in _notes(outcome)])
    return [_summary(outcome), _truth(index), _ours(index), _noisy(index), _noisy_curves(outcome.rows), notes]


def _summary(outcome: Reproduction) -> Element:
    known = [(row.column, abs(row.difference)) for row in outcome.rows if row.difference is not None]
    exact, pooled = ([off for column, off in known if column in shown] for shown in (PROTOCOLS, _LIBRARIES))
    sentences = []
    if exact:
        sentences.append(
            f"Over {len(exact)} rounds of 15 parties, our exact releases lie within {numbers.magnitude(max(exact))} of "
            "the printed column “Ours”, which has six decimals and the noise of CKKS."
        )
    if pooled:
        sentences.append(f"The libraries and MPC lie within {numbers.magnitude(max(pooled))} of theirs.")
    return element("p", " ".join(sentences))


def _truth(index: Index) -> Element:
    def cell(row: Row) -> Content:
        under = f"printed {numbers.auc(row.printed)}, difference {numbers.difference(row.difference)}"
        return numbers.beside(numbers.auc(row.value), under)

    sizes = sorted({size for size, _, column in index if column in _LIBRARIES and size is not None})
    rows = [[f"{size:,}", *(_shown(index.get((size, None, column)), cell) for column in _LIBRARIES)] for size in sizes]
    caption = "The AUC of the pooled samples, and by MPC without pooling them."
    return numbers.table(["samples", *_LIBRARIES.values()], rows, caption=caption)


def _ours(index: Index) -> Element:
    def cell(row: Row) -> Content:
        return numbers.beside(numbers.auc(row.value), numbers.difference(row.difference))

    shown = (*PROTOCOLS, ROUNDED)
    rows: list[list[Content]] = []
    for size, points in _lines(index, shown):
        found = [index.get((size, points, column)) for column in shown]
        printed = next(row.printed for row in found if row is not None)
        rows.append([f"{size:,}", str(points), numbers.auc(printed), *(_shown(row, cell) for row in found)])
    caption = "Our protocols, exact releases unless said otherwise, and the printed “Ours”."
    return numbers.table(["samples", "N", "printed", *shown], rows, caption=caption)


def _noisy(index: Index) -> Content:
    def mean(row: Row) -> str:
        return numbers.with_deviation(row.value, row.std)

    def cell(row: Row) -> Content:
        return numbers.beside(mean(row), f"printed {numbers.with_deviation(row.printed, row.printed_std)}")

    headings, rows = ["samples", "N"], []
    for epsilon in EPSILONS:
        headings += [f"ε = {epsilon}", f"ε = {epsilon}, post-processed"]
    shown = tuple(f"{column}-epsilon-{epsilon}" for epsilon in EPSILONS for column in DPAUC_COLUMNS)
    for size, points in _lines(index, shown):
        found = [index.get((size, points, column)) for column in shown]
        cells = [_shown(row, show) for row, show in zip(found, (cell, mean) * len(EPSILONS), strict=True)]
        rows.append([f"{size:,}", str(points), *cells])
    if not rows:
        return None
    caption = "DPAUC: mean and standard deviation over 100 repetitions, printed below ours."
    return numbers.table(headings, rows, caption=caption)


def _noisy_curves(found: Sequence[Row]) -> Content:
    """Noisy curves beside a trusted curator and DPAUC: a line for each size and ε."""
    known = {(row.size, row.column): row for row in found}

    def error(size: int, name: str, epsilon: int) -> str:
        row = known[size, f"{name}-error-epsilon-{epsilon}"]
        if row.value is None:
            return numbers.NOTHING
        shown = numbers.magnitude(row.value)
        return shown if row.std is None else f"{shown} ± {numbers.magnitude(row.std)}"

    def ratio(size: int, epsilon: int) -> str:
        mine, curators = (known[size, f"{name}-error-epsilon-{epsilon}"] for name in ("noisy-curve", "curator"))
        if not mine.value or not curators.value:
            return numbers.NOTHING
        scatter = hypot((mine.std or 0.0) / mine.value, (curators.std or 0.0) / curators.value)
        return f"{mine.value / curators.value:.2f} ± {scatter * mine.value / curators.value:.2f}"

    rows: list[list[Content]] = []
    for size in sorted({row.size for row in found if row.size}):
        for epsilon in EPSILONS:
            mine = known.get((size, f"noisy-curve-epsilon-{epsilon}"))
            if mine is None:
                continue
            shown = numbers.beside(
                numbers.with_deviation(mine.value, mine.std),
                f"DPAUC, printed {numbers.with_deviation(mine.printed, mine.printed_std)}",
            )
            errors = [error(size, name, epsilon) for name in ("noisy-curve", "curator", "dpauc")]
            errors.append(ratio(size, epsilon))
            rows.append([f"{size:,}", f"{epsilon}", str(mine.decision_points), shown, *errors])
    if not rows:
        return None
    caption = (
        f"Noisy curves of 15 parties, of which {noise.MINIMUM_COHORT} must be there and one may be curious: the AUC, "
        f"and its median error over {noise.RUNS:,} rounds beside that of a trusted curator with the same bins, and of "
        f"DPAUC in its best setting ({noise.DPAUC_RUNS} runs); ± is the standard error of a median. At ε = 8 about one "
        "count in a thousand gets any noise: where the median round has none, its error is that of binning alone, and "
        "the ratio of two medians means nothing."
    )
    headings = ["samples", "ε", "N", "noisy curve", "its error", "curator's error", "DPAUC's error", "ours / curator's"]
    return numbers.table(headings, rows, caption=caption)


def noisy_curves_of_all(outcome: Reproduction) -> Content:
    """The same for every data set that was run."""
    found: list[Content] = []
    for name in dict.fromkeys(row.data for row in outcome.rows):
        found.append(element("h3", str(name)))
        found.append(_noisy_curves([row for row in outcome.rows if row.data == name]))
    return found


def _shown(row: Row | None, show: Callable[[Row], Content]) -> Content:
    return numbers.NOTHING if row is None else show(row)


def _lines(index: Index, shown: tuple[str, ...]) -> list[tuple[int, int]]:
    """The sizes and decision points at which there is a row for one of these columns."""
    return sorted({(size, points) for size, points, column in index if column in shown and size and points})


def _notes(outcome: Reproduction) -> Iterator[str]:
    engines = sorted({row.note for row in outcome.rows if row.column in PROTOCOLS and row.note})
    if engines:
        yield (
            f"Our protocols ran on {', '.join(engines)}. “{ROUNDED}” is what padded releases by default: the last "
            "decimals are noise by design."
        )
    yield (
        "DPAUC's huge numbers owe much to missing post-processing: noise may make counts negative and totals nearly "
        "zero. Counts cut off at zero and points sorted by their rate, as in the code of Sun et al., cost no privacy "
        "and keep the AUC within 0 and 1; it is then wrong less spectacularly."
    )
    if any((row.data, row.size) == ("criteo", 100) for row in outcome.rows):
        yield (
            "Criteo at 100 samples is the one place where the published files do not give the printed values to five "
            "decimals; the paper does not say why. All our protocols agree on it, and with the plain counts."
        )
    if any(row.column == "tensorflow" and row.note and "without" in row.note for row in outcome.rows):
        yield "The column of TensorFlow is what its metric computes, without it: it is not installed here."


def communication(outcome: Reproduction) -> Content:
    """A line for each protocol and number of clients."""

    def cell(row: Row) -> Content:
        if row.printed is None or row.value is None:
            return numbers.megabytes(row.value)
        under = f"printed {numbers.megabytes(row.printed)}, {numbers.ratio(row.value / row.printed)}"
        return numbers.beside(numbers.megabytes(row.value), under)

    by_key = {(row.parties, row.column): row for row in outcome.rows}
    clients = sorted({row.parties for row in outcome.rows if row.parties})
    parts = ("client", "server", "leader set-up")
    rows = [
        [protocol, str(count), *(_shown(by_key.get((count, f"{protocol} {part}")), cell) for part in parts)]
        for protocol in PROTOCOLS
        for count in clients
        if (count, f"{protocol} client") in by_key
    ]
    return [
        element(
            "p",
            "A client's side is what an ordinary party sends and receives in one round at 100 decision points, the "
            "server's is all that passes it. The printed 6.81 MB count four uploaded and two downloaded ciphertexts, "
            "13.62 MB twice that; under ours stands the printed value of the setting that withstands the same "
            "aggregator. With pads a party sends numbers and no ciphertext; the leader alone exchanges ciphertexts, "
            "which the server side includes. Keys are made once for many rounds, and the paper leaves them out.",
        ),
        numbers.table(
            ["protocol", "clients", "client side", "server side", "leader's keys, once"],
            rows,
            caption="Megabytes (10⁶ bytes) of one round, printed below ours.",
            words=["protocol"],
        ),
    ]


def soundness(outcome: Reproduction) -> Content:
    """The bounds as powers of two."""
    rows = [
        [
            row.column,
            "any" if row.decision_points is None else str(row.decision_points),
            f"2^−{row.value:g}",
            numbers.NOTHING if row.printed is None else f"2^−{row.printed:g}",
        ]
        for row in outcome.rows
    ]
    headings, caption = ["protocol", "N", "bound", "printed"], "How likely a forged answer is to pass."
    return [
        element(
            "p",
            f"{paper_malicious.NAME}: the chance to guess which slots belong to one decision point in both runs, "
            f"(S!(SN−S)!/(SN)!)². It bounds that attack and no other. {padded_verified.NAME}: the chance that any "
            "fraction but the right one is accepted, with so many primes of 46 bits and so many runs over each; the "
            "first line is the default. It bounds every way to deviate, if encryption and pads hide what they should.",
        ),
        numbers.table(headings, rows, caption=caption, words=["protocol"]),
    ]
