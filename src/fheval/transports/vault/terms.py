"""What a vault asks of a round before it has any part in it: the policy, and a description that holds together."""

from __future__ import annotations

import re
from datetime import datetime

from fheval.errors import ConfigError, EngineError, RemoteProtocolError
from fheval.keys import Kit, Roster, RoundTerms
from fheval.metrics.question import Question
from fheval.protocols.round import AGGREGATOR, ROUND_ID_BYTES, Round
from fheval.transports.vault.roles import LEAST_SOUNDNESS_BITS, roles_of

_ROUND_ID = re.compile(rf"[0-9a-f]{{{2 * ROUND_ID_BYTES}}}")

# Each run is worth 46 bits; a description that asks for more wants to fill this machine's memory.
MOST_RUNS = 8


def check_round(kit: Kit, round_: Round, *, now: datetime) -> Roster:
    """Refuse a round that breaks the policy or does not hold together; give its members, certificates checked."""
    if not _ROUND_ID.fullmatch(round_.id):
        raise _refused(f"A round's id has {2 * ROUND_ID_BYTES} hexadecimal digits")
    question = question_of(round_)
    roster = kit.check_round(
        RoundTerms(
            roster=round_.parties,
            protocol=round_.protocol,
            precision=round_.precision,
            decision_points=len(question.grid),
            minimum_cohort=round_.minimum_cohort,
        ),
        now=now,
    )
    _check_sizes(round_)
    try:
        forms = question.forms(round_.max_samples)
        roles_of(round_).parameter_sets(round_)
    except (ConfigError, EngineError) as error:
        raise RemoteProtocolError(str(error), step="round", culprit=AGGREGATOR) from error
    if round_.forms != forms:
        raise _refused("The forms of the round are not those of its question")
    return roster


def question_of(round_: Round) -> Question:
    """What a round asks for, if it is something that a file of labels and scores can answer."""
    try:
        question = Question.from_bytes(round_.question)
    except ConfigError as error:
        raise RemoteProtocolError(str(error), step="round", culprit=AGGREGATOR) from error
    if question.to_bytes() != round_.question:
        raise _refused("The question of the round is not in canonical form")
    # Curves, groups, classes and several models are more than this vault's policy and ledger can account for.
    answerable = Question(
        grid=question.grid, metrics=question.metrics, replicates=question.replicates, targets=question.targets
    )
    if question != answerable:
        raise _refused("The round asks for curves, groups, classes or several models, which a vault does not answer")
    return question


def releases_of(round_: Round) -> int:
    """How many releases a round takes from a data set: one for each number that is asked for.

    The resamples behind an interval are not counted: they scatter far wider than the rounding of the release.
    """
    return len(question_of(round_).evaluations())


def _check_sizes(round_: Round) -> None:
    if not 1 <= round_.runs <= MOST_RUNS:
        raise _refused(f"The round asks for {round_.runs} runs; between 1 and {MOST_RUNS} are allowed")
    if round_.splits < 1 or round_.max_samples < 1:
        raise _refused("The round's splits and max_samples must be at least 1")
    try:
        soundness = roles_of(round_).soundness_bits(round_)
    except (ConfigError, EngineError) as error:
        raise RemoteProtocolError(str(error), step="round", culprit=AGGREGATOR) from error
    if soundness is not None and soundness < LEAST_SOUNDNESS_BITS:
        raise _refused(
            f"A wrong answer would pass this round's verification with probability 2^-{soundness:.0f}; "
            f"2^-{LEAST_SOUNDNESS_BITS:.0f} is the most that is accepted"
        )


def _refused(what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{what}. The round was refused.", step="round", culprit=AGGREGATOR)
