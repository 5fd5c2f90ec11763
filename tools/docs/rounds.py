"""A picture of each protocol's round, drawn from the steps that its object lists."""

from __future__ import annotations

from collections.abc import Iterator

from fheval.drawing.markup import Element, element, write
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import Asked, Protocol, Stage, Step

_PARTIES, _AGGREGATOR, _KEEPERS = 90.0, 330.0, 570.0
_WIDTH, _TOP, _GAP = 660.0, 40.0, 64.0

# What is sent and answered, where that is the same whoever is asked and whatever the protocol.
_SENT = {
    (Stage.SUBMIT, Asked.EVERYONE): ("", "upload"),
    (Stage.PADS, Asked.LEADER): ("roster", "the pads' part, encrypted"),
    (Stage.RESULT, Asked.LEADER): ("blinded answer", "sealed verdict"),
    (Stage.RESULT, Asked.ROSTER): ("blinded answer", "seen"),
    (Stage.BROADCAST, Asked.ROSTER): ("what was opened", "seen"),
}
_COUNT = "Every party counts its own rows at public decision points. Labels and scores stay where they are."
# Who stands on the right: those who open, where not every party does.
_RIGHT = {Asked.LEADER: "leader", Asked.COMMITTEE: "committee"}


def pictures() -> str:
    """The page: every protocol's picture, its promise and its steps in words."""
    parts = [
        "# Rounds in pictures",
        "Each picture is drawn from the protocol's own list of steps: who is asked what, from top to bottom. The words "
        "beside it are those that a report of such a round carries. What the formulas are: [the protocols, step by "
        "step](protocols.md).",
    ]
    for name, protocol in PROTOCOLS.items():
        parts.append(_part(name, protocol))
        if protocol.counts is not None:
            parts.append(_part(f"{name}, release of counts", protocol.counts))
    return "\n\n".join(parts) + "\n"


def _part(title: str, protocol: Protocol) -> str:
    words = protocol.words
    noisy = [f"With noise, before that: {words.under_noise.steps[0]}"] if words.under_noise else []
    told = "\n".join(f"{number}. {step}" for number, step in enumerate([_COUNT, *noisy, *words.steps], 1))
    views = "\n".join(f"| {view.who} | {view.sees} |" for view in words.views)
    return "\n\n".join(
        [
            f"## {title}",
            f"An aggregator that {words.aggregator}. {words.summary[0].upper()}{words.summary[1:]}.",
            write(drawing(title, protocol)),
            told,
            f"| who | sees |\n|---|---|\n{views}\n| the aggregator | {words.upload}; {words.leader_upload} |",
            words.together,
        ]
    )


def drawing(title: str, protocol: Protocol) -> Element:
    """The lanes and the messages between them."""
    steps = [step for step in protocol.steps if step.stage.whole is step.stage]
    lanes = {"parties": _PARTIES, "aggregator": _AGGREGATOR}
    lanes |= {_RIGHT[step.asked]: _KEEPERS for step in steps if step.asked in _RIGHT}
    height = _TOP + _GAP * len(steps) + 20
    told = "; ".join(f"{step.stage.value}: {step.asked.value} is asked" for step in steps)
    return element(
        "svg",
        element("title", f"A round of {title}"),
        [_lane(name, place, height) for name, place in lanes.items()],
        [_messages(step, _TOP + 24 + _GAP * number) for number, step in enumerate(steps)],
        viewBox=f"0 0 {_WIDTH:g} {height:g}",
        role="img",
        aria_label=f"A round of {title}. {told}.",
        class_="round",
    )


def _lane(name: str, place: float, height: float) -> list[Element]:
    return [
        element("text", name, x=place, y=22, text_anchor="middle", class_="lane"),
        element("line", x1=place, x2=place, y1=_TOP - 8, y2=height - 6, class_="lane"),
    ]


def _messages(step: Step, y: float) -> list[Element]:
    asked, answered = _SENT.get((step.stage, step.asked), ("", "answer"))
    member = _KEEPERS if step.asked in _RIGHT else _PARTIES
    label = f"{step.stage.value}: {asked}" if asked else f"{step.stage.value}?"
    return [*_arrow(_AGGREGATOR, member, y, label), *_arrow(member, _AGGREGATOR, y + 26, answered)]


def _arrow(start: float, end: float, y: float, label: str) -> Iterator[Element]:
    tip = 7.0 if end > start else -7.0
    yield element("line", x1=start, x2=end, y1=y, y2=y, class_="message")
    yield element("polyline", points=f"{end - tip},{y - 4} {end},{y} {end - tip},{y + 4}", class_="message")
    yield element("text", label, x=(start + end) / 2, y=y - 5, text_anchor="middle", class_="said")
