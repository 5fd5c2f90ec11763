"""What a vault asks of a round before it has any part in it: the policy, and a study that vaults can answer."""

from __future__ import annotations

import re
from datetime import datetime

from fheval.consortium import Kit, Roster
from fheval.errors import ConfigError, EngineError, RemoteProtocolError
from fheval.party.columns import AllowedColumns
from fheval.protocols import PROTOCOLS
from fheval.protocols.round import AGGREGATOR, ROUND_ID_BYTES, Round
from fheval.study import Study

_ROUND_ID = re.compile(rf"[0-9a-f]{{{2 * ROUND_ID_BYTES}}}")

# Five times what an interval of 95 % asks for. Each is one more pass over the party's rows, and the aggregator chooses.
MOST_RESAMPLES = 1000

# Below this an answer that "was verified" would mean little: 2^-40 is what is usually asked of a single guess.
LEAST_SOUNDNESS_BITS = 40.0


def check_round(kit: Kit, study: Study, round_: Round, columns: AllowedColumns, *, now: datetime) -> Roster:
    """Refuse a round that breaks the policy, or asks for what is not allowed.

    Give its members, certificates checked.
    """
    if not _ROUND_ID.fullmatch(round_.id):
        raise RemoteProtocolError(
            f"A round's id has {2 * ROUND_ID_BYTES} hexadecimal digits. The round was refused.",
            step="round",
            culprit=AGGREGATOR,
        )
    if round_.leader not in study.may_lead(round_.parties):
        raise RemoteProtocolError(
            f"The study does not let {round_.leader!r} lead. The round was refused.", step="round", culprit=AGGREGATOR
        )
    roster = kit.check_round(study, round_.parties, now=now)
    try:
        require_playable(study, round_)
    except (ConfigError, EngineError) as error:
        raise RemoteProtocolError(str(error), step="round", culprit=AGGREGATOR) from error
    columns.translate(study)
    return roster


def require_playable(study: Study, round_: Round) -> None:
    """Refuse a round that no vault plays, whatever its policy and its data; a `ConfigError` or `EngineError` says why.

    The aggregator may ask this of itself before it asks anybody.
    """
    if study.group_column is not None or round_.groups:
        # Whether a group is large enough, parties declare to the leader in an exchange that these rounds do not have.
        raise _unplayable("The round asks for groups, which a vault does not answer about: small ones would show")
    if study.replicates > MOST_RESAMPLES:
        raise _unplayable(f"The round asks for {study.replicates} resamples; {MOST_RESAMPLES} are allowed")
    protocol = PROTOCOLS[study.protocol].of_round(round_)
    protocol.parameter_sets(round_)
    soundness = protocol.soundness_bits(round_)
    if soundness is not None and soundness < LEAST_SOUNDNESS_BITS:
        raise _unplayable(
            f"A wrong answer would pass this round's verification with probability 2^-{soundness:.0f}; "
            f"2^-{LEAST_SOUNDNESS_BITS:.0f} is the most that is accepted"
        )


def releases_of(study: Study) -> int:
    """How many releases a round takes from a data set: one for each number that is asked for, one for each curve.

    The resamples behind an interval are not counted: they scatter far wider than the rounding of the release.
    """
    return len(study.evaluations() if study.release == "ratios" else study.slices())


def _unplayable(what: str) -> ConfigError:
    return ConfigError(f"{what}. The round was refused.")
