"""Which stage may follow which: the transitions of a round at one vault, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from fheval.errors import RemoteProtocolError
from fheval.party.messages import Stage
from fheval.party.roles import PaddedRoles, roles_of
from fheval.protocols.round import AGGREGATOR, Round


class State(Enum):
    """How far a round has come at one vault."""

    NEW = "new"
    KEYS_MADE = "keys made"
    SUBMITTED = "submitted"
    PADS_GIVEN = "pads given"
    OPENED = "opened"
    DONE = "done"


class Part(Enum):
    """What a member is in a round."""

    PADDED_LEADER = "leader of a padded round"
    PADDED_PARTY = "party of a padded round"
    PAPER_LEADER = "leader of a paper round"
    PAPER_PARTY = "party of a paper round"


_JOIN = {(State.NEW, Stage.SUBMIT): State.SUBMITTED}
_LEAD = {
    **_JOIN,
    (State.NEW, Stage.SETUP): State.KEYS_MADE,
    (State.KEYS_MADE, Stage.SUBMIT): State.SUBMITTED,
}

TRANSITIONS: dict[Part, dict[tuple[State, Stage], State]] = {
    Part.PADDED_LEADER: {
        **_LEAD,
        (State.SUBMITTED, Stage.PADS): State.PADS_GIVEN,
        (State.PADS_GIVEN, Stage.RESULT): State.OPENED,
        (State.OPENED, Stage.BROADCAST): State.DONE,
    },
    Part.PADDED_PARTY: {**_JOIN, (State.SUBMITTED, Stage.BROADCAST): State.DONE},
    Part.PAPER_LEADER: {**_LEAD, (State.SUBMITTED, Stage.RESULT): State.DONE},
    Part.PAPER_PARTY: {**_JOIN, (State.SUBMITTED, Stage.RESULT): State.DONE},
}


def part_of(round_: Round, me: str) -> Part:
    """What a member is in a round."""
    leads = round_.leader == me
    if isinstance(roles_of(round_), PaddedRoles):
        return Part.PADDED_LEADER if leads else Part.PADDED_PARTY
    return Part.PAPER_LEADER if leads else Part.PAPER_PARTY


def advance(part: Part, state: State, stage: Stage) -> State:
    """The state after a stage, or the aggregator's fault.

    >>> advance(Part.PADDED_PARTY, State.NEW, Stage.SUBMIT)
    <State.SUBMITTED: 'submitted'>
    """
    try:
        return TRANSITIONS[part][state, stage]
    except KeyError:
        raise RemoteProtocolError(
            f"Stage {stage.value!r} does not follow when a round is {state.value!r} for the {part.value}. "
            "The round was aborted.",
            step=stage.value,
            culprit=AGGREGATOR,
        ) from None


def state_after(part: Part, answered: Iterable[Stage]) -> State:
    """The state that a round is in after the stages that were answered, in their order."""
    state = State.NEW
    for stage in answered:
        state = advance(part, state, stage)
    return state
