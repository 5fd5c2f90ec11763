"""What a vault asks of a round before it has any part in it: the policy, and a description that holds together."""

from __future__ import annotations

import re
from datetime import datetime

from fheval.consortium import Kit, Roster, RoundTerms
from fheval.errors import ConfigError, EngineError, RemoteProtocolError
from fheval.metrics.question import Question
from fheval.party.columns import AllowedColumns
from fheval.party.roles import LEAST_SOUNDNESS_BITS, roles_of
from fheval.protocols.round import AGGREGATOR, ROUND_ID_BYTES, Round

_ROUND_ID = re.compile(rf"[0-9a-f]{{{2 * ROUND_ID_BYTES}}}")

# Each run is worth 46 bits; a description that asks for more wants to fill this machine's memory.
MOST_RUNS = 8

# A thousand listed decision points and a hundred metrics have a tenth of it.
LONGEST_QUESTION = 1 << 17

# Five times what an interval of 95 % asks for. Each is one more pass over the party's rows, and the aggregator chooses.
MOST_RESAMPLES = 1000


def check_round(kit: Kit, round_: Round, columns: AllowedColumns, *, now: datetime) -> Roster:
    """Refuse a round that breaks the policy, asks for what is not allowed, or does not hold together.

    Give its members, certificates checked.
    """
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
    try:
        require_playable(round_)
    except (ConfigError, EngineError) as error:
        raise RemoteProtocolError(str(error), step="round", culprit=AGGREGATOR) from error
    columns.own_words(question)
    return roster


def require_playable(round_: Round) -> None:
    """Refuse a round that no vault plays, whatever its policy and its data; a `ConfigError` or `EngineError` says why.

    The aggregator may ask this of itself before it asks anybody.
    """
    _check_question(round_, question_of(round_))
    _check_sizes(round_)


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
    """Refuse what vaults do not answer, and forms that are not the question's."""
    if question.curve:
        raise _unplayable("The round asks for curves, which a vault does not release: its rounds release ratios")
    if question.groups or question.group_column is not None:
        # Whether a group is large enough, parties declare to the leader in an exchange that these rounds do not have.
        raise _unplayable("The round asks for groups, which a vault does not answer about: small ones would show")
    if question.replicates > MOST_RESAMPLES:
        raise _unplayable(f"The round asks for {question.replicates} resamples; {MOST_RESAMPLES} are allowed")
    if round_.forms != question.forms(round_.max_samples):
        raise _unplayable("The forms of the round are not those of its question")


def _check_sizes(round_: Round) -> None:
    """Refuse numbers that would fill this machine's memory, fit no parameters, or make a verification worthless."""
    if not 1 <= round_.runs <= MOST_RUNS:
        raise _unplayable(f"The round asks for {round_.runs} runs; between 1 and {MOST_RUNS} are allowed")
    roles = roles_of(round_)
    roles.parameter_sets(round_)
    soundness = roles.soundness_bits(round_)
    if soundness is not None and soundness < LEAST_SOUNDNESS_BITS:
        raise _unplayable(
            f"A wrong answer would pass this round's verification with probability 2^-{soundness:.0f}; "
            f"2^-{LEAST_SOUNDNESS_BITS:.0f} is the most that is accepted"
        )


def _unplayable(what: str) -> ConfigError:
    return ConfigError(f"{what}. The round was refused.")


def _refused(what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{what}. The round was refused.", step="round", culprit=AGGREGATOR)
