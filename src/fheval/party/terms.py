"""What a vault asks of a round before it has any part in it: the policy, and the terms of the study."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from fheval.consortium import Kit, Roster
from fheval.consortium.signed_study import require_playable
from fheval.errors import ConfigError, EngineError, RemoteProtocolError
from fheval.protocols import PROTOCOLS
from fheval.protocols.round import AGGREGATOR, ROUND_ID_BYTES, Round
from fheval.study import Study

_ROUND_ID = re.compile(rf"[0-9a-f]{{{2 * ROUND_ID_BYTES}}}")


def check_round(kit: Kit, study: Study, round_: Round, *, now: datetime) -> Roster:
    """Refuse a round that breaks the policy or the study's terms, and give its members, certificates checked."""
    if not _ROUND_ID.fullmatch(round_.id):
        raise _refused(f"A round's id has {2 * ROUND_ID_BYTES} hexadecimal digits.")
    protocol = PROTOCOLS[study.protocol].of_round(round_)
    try:
        protocol.require_named(study.leaders, study.options)
        keepers = protocol.keepers(round_)
    except ConfigError as error:
        raise _refused(str(error)) from error
    for keeper in keepers:
        if keeper not in study.may_lead(round_.parties):
            raise _refused(f"The study does not let {keeper!r} lead.")
    if len(keepers) > 1 and keepers != tuple(name for name in study.leaders if name in keepers):
        # The first two blind: the aggregator must not choose them by its order.
        raise _refused("The committee is not in the order in which the study names its members.")
    if study.until is not None and now.astimezone(timezone.utc).date() > study.until:
        raise _refused(f"The study ended on {study.until}.")
    roster = kit.check_round(study, round_.parties, now=now)
    try:
        require_playable(study, round_)
    except (ConfigError, EngineError) as error:
        raise _refused(str(error)) from error
    return roster


def releases_of(study: Study) -> int:
    """How many releases a round takes from a data set: one for each number that is asked for, one for each curve.

    The resamples behind an interval are not counted: they scatter far wider than the rounding of the release.
    """
    return study.number_of_evaluations() if study.release == "ratios" else study.number_of_slices()


def _refused(what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{what} The round was refused.", step="round", culprit=AGGREGATOR)
