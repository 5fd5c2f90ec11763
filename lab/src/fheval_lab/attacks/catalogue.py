"""All strategies, in the order in which they are shown."""

from __future__ import annotations

from fheval.errors import ConfigError
from fheval_lab.attacks import on_answers, on_parties, on_slots
from fheval_lab.attacks.strategy import Strategy

STRATEGIES: tuple[type[Strategy], ...] = (
    on_parties.DropParty,
    on_parties.DenyDropout,
    on_parties.CountTwice,
    on_parties.ReplayEarlier,
    on_parties.SwapParties,
    on_parties.InjectUpload,
    on_slots.ReorderSlots,
    on_slots.ZeroSlot,
    on_slots.ScaleSlot,
    on_slots.ScaleAll,
    on_slots.ScaleAllButAnchor,
    on_slots.AddToSlot,
    on_slots.MixSides,
    on_slots.Nudge,
    on_answers.ReturnConstants,
    on_answers.FirstRunTwice,
    on_slots.OneRunOnly,
    on_slots.SpareRuns,
    on_slots.BothRunsAlike,
    on_answers.ReturnGarbage,
    on_answers.ReturnNothing,
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
