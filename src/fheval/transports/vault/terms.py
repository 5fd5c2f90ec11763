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

# A thousand listed decision points and a hundred metrics have a tenth of it.
LONGEST_QUESTION = 1 << 17


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
            curve=question.curve,
        ),
        now=now,
    )
    _check_question(round_, question)
    _check_sizes(round_)
    return roster


def question_of(round_: Round) -> Question:
    """What a round asks for."""
    if len(round_.question) > LONGEST_QUESTION:
        raise _refused("The question of the round is longer than any that makes sense")
    try:
        question = Question.from_bytes(round_.question)
    except ConfigError as error:
        raise RemoteProtocolError(str(error), step="round", culprit=AGGREGATOR) from error
    if question.to_bytes() != round_.question:
        raise _refused("The question of the round is not in canonical form")
    return question


def releases_of(round_: Round) -> int:
    """How many releases a round takes from a data set: one for each number that is asked for.

    The resamples behind an interval are not counted: they scatter far wider than the rounding of the release.
    """
    return len(question_of(round_).evaluations())


def _check_question(round_: Round, question: Question) -> None:
    """Refuse what a file of labels and scores cannot answer, and forms that are not the question's."""
    # Curves, groups, classes and several models are more than a vault's data and ledger can account for.
    answerable = Question(
        grid=question.grid, metrics=question.metrics, replicates=question.replicates, targets=question.targets
    )
    if question != answerable:
        raise _refused("The round asks for curves, groups, classes or several models, which a vault does not answer")
    try:
        forms = question.forms(round_.max_samples)
    except ConfigError as error:
        raise RemoteProtocolError(str(error), step="round", culprit=AGGREGATOR) from error
    if round_.forms != forms:
        raise _refused("The forms of the round are not those of its question")


def _check_sizes(round_: Round) -> None:
    """Refuse numbers that would fill this machine's memory, fit no parameters, or make a verification worthless."""
    if not 1 <= round_.runs <= MOST_RUNS:
        raise _refused(f"The round asks for {round_.runs} runs; between 1 and {MOST_RUNS} are allowed")
    roles = roles_of(round_)
    try:
        roles.parameter_sets(round_)
        soundness = roles.soundness_bits(round_)
    except (ConfigError, EngineError) as error:
        raise RemoteProtocolError(str(error), step="round", culprit=AGGREGATOR) from error
    if soundness is not None and soundness < LEAST_SOUNDNESS_BITS:
        raise _refused(
            f"A wrong answer would pass this round's verification with probability 2^-{soundness:.0f}; "
            f"2^-{LEAST_SOUNDNESS_BITS:.0f} is the most that is accepted"
        )


def _refused(what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{what}. The round was refused.", step="round", culprit=AGGREGATOR)
