"""All strategies, in the order in which they are shown."""

from __future__ import annotations

from fheval.errors import ConfigError
from fheval_lab.attacks.on_answers import FirstRunTwice, ReturnConstants, ReturnGarbage, ReturnNothing
from fheval_lab.attacks.on_parties import (
    CountTwice,
    DenyDropout,
    DropParty,
    InjectUpload,
    ReplayEarlier,
    SwapParties,
)
from fheval_lab.attacks.on_slots import (
    AddToSlot,
    BothRunsAlike,
    MixSides,
    Nudge,
    OneRunOnly,
    ReorderSlots,
    ScaleAll,
    ScaleAllButAnchor,
    ScaleSlot,
    SpareRuns,
    ZeroSlot,
)
from fheval_lab.attacks.strategy import Strategy

STRATEGIES: tuple[type[Strategy], ...] = (
    DropParty,
    DenyDropout,
    CountTwice,
    ReplayEarlier,
    SwapParties,
    InjectUpload,
    ReorderSlots,
    ZeroSlot,
    ScaleSlot,
    ScaleAll,
    ScaleAllButAnchor,
    AddToSlot,
    MixSides,
    Nudge,
    ReturnConstants,
    FirstRunTwice,
    OneRunOnly,
    SpareRuns,
    BothRunsAlike,
    ReturnGarbage,
    ReturnNothing,
)


def strategies_named(names: list[str]) -> list[type[Strategy]]:
    """The strategies of these names, all of them for no name.

    >>> [strategy.summary for strategy in strategies_named(["replay"])]
    ["replay a party's upload of an earlier round"]
    """
    known = {strategy.name: strategy for strategy in STRATEGIES}
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ConfigError(f"There is no strategy {unknown[0]!r}. Choose from: {', '.join(known)}.")
    return [strategy for strategy in STRATEGIES if not names or strategy.name in names]
