"""The ratios that the documentation states, in one run: each engine against itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fheval.engines import Engine
from fheval.experiments.bench import Measurement, Ratio, measure
from fheval.experiments.bench_counting import counting_speedup

PADDED, VERIFIED = "padded", "padded-verified"
SEMI_HONEST, MALICIOUS = "paper-semi-honest", "paper-malicious"

DECISION_POINTS = 100
PARTIES = 100
MANY_PARTIES = 10_000

# What is measured on each engine: protocol, parties.
WORK = (
    (SEMI_HONEST, PARTIES),
    (MALICIOUS, PARTIES),
    (PADDED, PARTIES),
    (PADDED, MANY_PARTIES),
    (VERIFIED, PARTIES),
    (VERIFIED, MANY_PARTIES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """All that one run measured."""

    measurements: tuple[Measurement, ...]
    ratios: tuple[Ratio, ...]

    @property
    def holds(self) -> bool:
        """Whether every ratio is within its limit."""
        return all(ratio.holds for ratio in self.ratios)


def run_bench(
    engines: Sequence[Engine], *, repeats: int = 5, samples: int = 10**7, on_step: Callable[[str], None] | None = None
) -> Bench:
    """Measure the aggregator of every protocol on every engine, and counting against sorting."""
    measurements: list[Measurement] = []
    ratios: list[Ratio] = []
    for engine in engines:
        found: dict[tuple[str, int], float] = {}
        for protocol, parties in WORK:
            if on_step:
                on_step(f"{engine.name}: {protocol}, {parties:,} parties")
            measured = measure(engine, protocol, parties, DECISION_POINTS, repeats)
            measurements.append(measured)
            found[protocol, parties] = measured.seconds
        ratios += engine_ratios(engine.name, found)
    if on_step:
        on_step(f"counting {samples:,} scores")
    speed = counting_speedup(samples=samples)
    ratios.append(
        Ratio(
            name=f"counting {samples:,} scores at 1,000 decision points / scikit-learn's roc_auc_score",
            engine="",
            value=1 / speed["speedup"],
            limit=1 / 25,
        )
    )
    return Bench(measurements=tuple(measurements), ratios=tuple(ratios))


def engine_ratios(engine: str, seconds: dict[tuple[str, int], float]) -> list[Ratio]:
    """The ratios of one engine's aggregator times, with the limits that the project holds itself to."""

    def over(name: str, top: tuple[str, int], bottom: tuple[str, int], limit: float) -> Ratio:
        return Ratio(name=name, engine=engine, value=seconds[top] / seconds[bottom], limit=limit)

    return [
        Ratio(
            name=f"{SEMI_HONEST}: seconds a party, {PARTIES} parties",
            engine=engine,
            value=seconds[SEMI_HONEST, PARTIES] / PARTIES,
            limit=0.010,
        ),
        over(f"{MALICIOUS} / {SEMI_HONEST}", (MALICIOUS, PARTIES), (SEMI_HONEST, PARTIES), 2.2),
        over(f"{PADDED} / {SEMI_HONEST}", (PADDED, PARTIES), (SEMI_HONEST, PARTIES), 0.1),
        over(f"{VERIFIED} / {MALICIOUS}", (VERIFIED, PARTIES), (MALICIOUS, PARTIES), 0.1),
        over(f"{PADDED}: {MANY_PARTIES:,} parties / {PARTIES}", (PADDED, MANY_PARTIES), (PADDED, PARTIES), 1.5),
        over(f"{VERIFIED}: {MANY_PARTIES:,} parties / {PARTIES}", (VERIFIED, MANY_PARTIES), (VERIFIED, PARTIES), 1.5),
    ]
