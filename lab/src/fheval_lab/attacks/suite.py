"""The suite: every strategy against a protocol, many times; what was caught, and what the rest achieved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fheval.engines import Engine
from fheval.errors import ConfigError, FhevalError, UndefinedMetric
from fheval.protocols import PROTOCOLS, Protocol, committee, padded, padded_verified, paper_malicious, paper_semi_honest
from fheval.protocols.base import Aggregator
from fheval_lab.attacks.attacked import AttackedRound
from fheval_lab.attacks.catalogue import STRATEGIES
from fheval_lab.attacks.committee_adversary import CommitteeAdversary
from fheval_lab.attacks.consortium import Consortium, fresh_stream
from fheval_lab.attacks.padded_adversaries import PaddedAdversary, VerifiedAdversary
from fheval_lab.attacks.paper_adversaries import MaliciousAdversary, SemiHonestAdversary
from fheval_lab.attacks.reused_keys import ReusedKeys
from fheval_lab.attacks.strategy import Strategy

# What moves the AUC by less has changed nothing: the paper compares five decimals.
HARMLESS = 1e-5

DEFAULT_TRIES = 20

# Who attacks which aggregator, and those that inherit from it.
ADVERSARIES: dict[type[Aggregator], type[Any]] = {
    paper_semi_honest.Aggregator: SemiHonestAdversary,
    paper_malicious.Aggregator: MaliciousAdversary,
    padded.Aggregator: PaddedAdversary,
    padded_verified.Aggregator: VerifiedAdversary,
    committee.Aggregator: CommitteeAdversary,
}


def adversary_of(protocol: Protocol) -> type[Any]:
    """The aggregators that know how to attack a protocol."""
    for kind in protocol.aggregator.__mro__:
        if kind in ADVERSARIES:
            return ADVERSARIES[kind]
    raise ConfigError(f"No adversary knows how to attack {protocol.name}. Add one to fheval_lab.attacks.suite.")


@dataclass(slots=True, kw_only=True)
class Tally:
    """What became of a strategy: `raised` counts the errors by which it was caught."""

    name: str
    summary: str
    claimed: bool
    tries: int = 0
    caught: int = 0
    worst_shift: float = 0.0
    raised: Counter[str] = field(default_factory=Counter)

    @property
    def broke_the_claim(self) -> bool:
        return self.claimed and self.worst_shift >= HARMLESS

    def note_caught(self, error: type[FhevalError]) -> None:
        self.tries += 1
        self.caught += 1
        self.raised[error.__name__] += 1

    def note_accepted(self, shift: float) -> None:
        self.tries += 1
        self.worst_shift = max(self.worst_shift, shift)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "what": self.summary,
            "tries": self.tries,
            "caught": self.caught,
            "worst_shift": self.worst_shift,
            "raised": dict(self.raised),
        }


class Suite:
    """Strategies against one protocol. All of them attack the same rounds; a try is a round of its own."""

    def __init__(
        self, consortium: Consortium, engine: Engine, strategies: Iterable[type[Strategy]] = STRATEGIES
    ) -> None:
        self.consortium = consortium
        self.protocol = PROTOCOLS[consortium.protocol]
        self.strategies = [strategy for strategy in strategies if strategy.suits(self.protocol)]
        self.tallies = [
            Tally(name=each.name, summary=each.summary, claimed=each.is_claimed(self.protocol))
            for each in self.strategies
        ]
        self._engine, self._rng = ReusedKeys(engine), fresh_stream()
        self._truth = float(consortium.true_auc())
        self._first = consortium.attacked(self._engine, self._rng, data="earlier")
        self._earlier = self._first.uploads()

    def steps(self, tries: int) -> list[int]:
        """What `play` is to be called with, one after the other: the numbers of the strategies, try after try."""
        return list(range(len(self.strategies))) * tries

    def play(self, step: int) -> None:
        """One try of one strategy; the first strategy begins a new round."""
        if step == 0:
            self._round = self.consortium.attacked(self._engine, self._rng, self._first)
        aggregator_type = adversary(self.protocol, self.strategies[step], self._earlier)
        attempt(self._round, aggregator_type, self._truth, self.tallies[step])


def run_suite(
    consortium: Consortium,
    engine: Engine,
    strategies: Iterable[type[Strategy]] = STRATEGIES,
    tries: int = DEFAULT_TRIES,
) -> list[Tally]:
    """Let every strategy that suits the protocol try its luck that many times."""
    suite = Suite(consortium, engine, strategies)
    for step in suite.steps(tries):
        suite.play(step)
    return suite.tallies


def attempt(round_: AttackedRound, aggregator_type: type[Any], truth: float, tally: Tally) -> None:
    """One try of one strategy: caught is whatever the parties do not take. What stops the adversary itself is a bug."""
    several = len(round_.made) > 1
    answer = b"" if several else round_.answer_of(aggregator_type)
    try:
        # Members of a committee see what the aggregator does before there is an answer, and refuse to go on.
        (ratio,) = round_.open(round_.answer_of(aggregator_type) if several else answer).ratios
    except FhevalError as error:
        tally.note_caught(type(error))
        return
    if ratio is None:
        tally.note_caught(UndefinedMetric)
    else:
        tally.note_accepted(abs(float(ratio) - truth))


def adversary(protocol: Protocol, strategy: type[Strategy], earlier: Sequence[Any] = ()) -> type[Any]:
    """The aggregator type that carries a strategy out against a protocol."""
    base = adversary_of(protocol)
    return type(f"{strategy.__name__}{base.__name__}", (base,), {"plot": strategy, "earlier": earlier})
