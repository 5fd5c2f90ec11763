"""The protocols in plain words, step by step, for people who will read no formula."""

from __future__ import annotations

from fheval.evaluation import Result

_COUNT = (
    "Every party counts, at {points} public decision points, how many of its positive and of its negative samples "
    "score above each. Labels and scores stay where they are."
)
_COUNT_MANY = (
    "Every party counts what the metrics need from its own rows: whole numbers, at public decision points where there "
    "are any. Labels and scores stay where they are."
)
_PAD = (
    "It hides the counts under a one-time pad, random numbers that all parties can derive and the aggregator cannot, "
    "and sends them. The aggregator adds up what it gets, which is as random as each part."
)
_PADS = (
    "One party, the leader, sends the sum of the pads, encrypted. With it the aggregator turns the padded sum into an "
    "encryption of the true one, multiplies under encryption, and blinds what comes out with secret factors of its own."
)
_OPEN = (
    "The leader opens the blinded answer, which shows the released result and nothing else, and tells the others "
    "under a key that the aggregator lacks."
)
_ENCRYPT = "It encrypts the counts under a key that all parties hold and the aggregator does not, and sends them."
_MULTIPLY = (
    "The aggregator adds the ciphertexts of all parties, multiplies true by false positives under encryption, and "
    "multiplies numerator and denominator by one random factor."
)
_DIVIDE = "Every party decrypts the two blinded numbers and divides: the factor cancels."

_STEPS = {
    "padded": (_PAD, _PADS, _OPEN),
    "padded-verified": (
        "It passes them through secret linear maps, others for each of several prime numbers, that all parties can "
        "derive and the aggregator cannot.",
        _PAD,
        _PADS,
        "The leader opens the blinded answers and undoes the maps. Modulo every prime the very same fraction must come "
        "out; otherwise there is no result. The aggregator is told neither.",
    ),
    "paper-semi-honest": (_ENCRYPT, _MULTIPLY, _DIVIDE),
    "paper-malicious": (
        "It multiplies the counts by secret factors, adds masks that cancel over the parties, splits them into shares "
        "and permutes these, all of it in ways that the aggregator does not know.",
        _ENCRYPT,
        _MULTIPLY,
        "All of this happens twice, with fresh randomness. Every party decrypts both results, undoes the factors and "
        "compares them to five digits; if they differ, there is no result.",
    ),
}


def steps_in_words(result: Result) -> tuple[str, ...]:
    """How this round went, first to last."""
    plain = [row.metric for row in result.results] == ["auc"]
    first = (_COUNT if plain else _COUNT_MANY).format(points=f"{result.decision_points:,}")
    return (first, *_STEPS[result.protocol])
