"""The protocols, one module each; `PROTOCOLS` names them. See README.md for paper step → function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from fheval.engines import Engine
from fheval.errors import ConfigError
from fheval.metrics.forms import Contribution
from fheval.protocols import padded, padded_verified, paper_malicious, paper_semi_honest
from fheval.protocols.round import Outcome, Post, Round
from fheval.secrets import Randomness

__all__ = ["BATCH_PROTOCOLS", "DEFAULT_PROTOCOL", "PROTOCOLS", "default_precision", "run_round"]

PROTOCOLS: dict[str, ModuleType] = {
    module.NAME: module for module in (padded, padded_verified, paper_semi_honest, paper_malicious)
}

DEFAULT_PROTOCOL = padded.NAME

# Those that answer any number of ratio forms in one round; the others compute the paper's one.
BATCH_PROTOCOLS = (padded.NAME, padded_verified.NAME)


def default_precision(protocol: str) -> float | None:
    """The precision that a protocol releases unless the round says otherwise; None is exact."""
    precision: float | None = _module(protocol).DEFAULT_PRECISION
    return precision


def run_round(
    engine: Engine, round_: Round, contributions: Mapping[str, Sequence[Contribution]], rng: Randomness, post: Post
) -> Outcome:
    """Play all roles of a round with the protocol it names."""
    if round_.sums:
        raise ConfigError("This round releases counts and no ratios. Run it as a curve.")
    outcome: Outcome = _module(round_.protocol).run(engine, round_, contributions, rng, post)
    return outcome


def _module(protocol: str) -> ModuleType:
    if protocol not in PROTOCOLS:
        raise ConfigError(f"There is no protocol {protocol!r}. Choose one of: {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[protocol]
