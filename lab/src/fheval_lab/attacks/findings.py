"""Everything that is found out about one protocol: what became of the strategies, and the experiments beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from fheval.engines import Engine
from fheval.protocols import PROTOCOLS
from fheval.version import __version__
from fheval_lab.attacks import (
    active_members,
    coalitions,
    collusion,
    counts_from_ratios,
    guessing,
    nudging,
    released_pair,
    several_fields,
    small_field,
    views,
)
from fheval_lab.attacks.committee_adversary import CommitteeAdversary
from fheval_lab.attacks.consortium import Consortium
from fheval_lab.attacks.padded_adversaries import PaddedAdversary, VerifiedAdversary
from fheval_lab.attacks.paper_adversaries import MaliciousAdversary
from fheval_lab.attacks.suite import HARMLESS, Tally, adversary_of


class Finding(Protocol):
    """One line of an experiment: its plain values, and whether what is claimed agrees with what was measured."""

    @property
    def holds(self) -> bool: ...

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Experiment:
    """A measurement beside the strategies, and the part of the report that its lines belong to."""

    section: str
    play: Callable[[], Sequence[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the adversary suite found out about one protocol."""

    consortium: Consortium
    engine: str
    tallies: Sequence[Tally]
    sections: dict[str, list[Finding]] = field(default_factory=dict)

    @property
    def resistant(self) -> bool:
        return PROTOCOLS[self.consortium.protocol].resists

    @property
    def harmless(self) -> float:
        """What an honest aggregator moves the AUC by as well: half the width of the rounding that is released."""
        return HARMLESS + (PROTOCOLS[self.consortium.protocol].default_precision or 0.0) / 2

    @property
    def held(self) -> bool:
        lines = [line for section in self.sections.values() for line in section]
        return not any(tally.broke_the_claim for tally in self.tallies) and all(line.holds for line in lines)

    def add(self, experiment: Experiment) -> None:
        self.sections.setdefault(experiment.section, []).extend(experiment.play())

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the command line.

        A strategy that a resistant protocol does not claim to catch is not among `attacks`.
        """
        listed = [tally for tally in self.tallies if tally.claimed or not self.resistant]
        others = [tally for tally in self.tallies if tally not in listed]
        return {
            "protocol": self.consortium.protocol,
            "attacks": [tally.to_dict() for tally in listed],
            "not_claimed": [tally.to_dict() for tally in others],
            **{name: [line.to_dict() for line in lines] for name, lines in self.sections.items()},
            "claims_to_resist": self.resistant,
            "held": self.held,
            "engine": self.engine,
            "parties": self.consortium.parties,
            "decision_points": self.consortium.decision_points,
            "fheval": __version__,
        }


def experiments(consortium: Consortium, engine: Engine) -> list[Experiment]:
    """The experiments that concern a protocol."""
    family = adversary_of(PROTOCOLS[consortium.protocol])
    if family is CommitteeAdversary:
        return [
            Experiment("deviations", lambda: list(active_members.deviate(consortium, engine))),
            *(
                Experiment("privacy", partial(coalitions.compare_coalitions, prime, rounded))
                for prime in coalitions.PRIMES
                for rounded in (False, True)
            ),
        ]
    chosen = [Experiment("privacy", lambda: views.compare_slots(consortium, engine))]
    if family in (PaddedAdversary, VerifiedAdversary):
        chosen.append(Experiment("privacy", lambda: [views.compare_uploads(consortium, engine)]))
        chosen.append(Experiment("privacy", lambda: collusion.collude(consortium, engine)))
        chosen += [
            Experiment("privacy", partial(collusion.compare_joint_views, consortium.protocol, engine, modulus))
            for modulus in collusion.moduli(consortium, engine)
        ]
    if family is PaddedAdversary:
        chosen.append(Experiment("privacy", lambda: [views.subtract_uploads(consortium, engine)]))
        chosen.append(Experiment("privacy", lambda: [views.divide_slots(consortium, engine)]))
        chosen.append(Experiment("privacy", released_pair.attack_released_pair))
        chosen.append(Experiment("counts", counts_from_ratios.attack_released_numbers))
    if family is VerifiedAdversary:
        chosen += [
            Experiment("small_field", partial(small_field.acceptance_rates, prime)) for prime in small_field.PRIMES
        ]
        chosen.append(Experiment("several_fields", several_fields.agreement_rates))
    if family is MaliciousAdversary:
        chosen += [Experiment("guessing", _at_toy_size(*size)) for size in guessing.TOY_SIZES]
        chosen.append(Experiment("nudge", nudging.nudge_rates))
    return chosen


def _at_toy_size(decision_points: int, splits: int, tries: int) -> Callable[[], Sequence[Finding]]:
    return lambda: [guessing.guess_rate(decision_points, splits, tries)]
