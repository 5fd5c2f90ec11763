"""The ratios that the documentation states, in one run: each engine against itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from fheval.counting import Grid
from fheval.counting.grid import DEFAULT_POINTS
from fheval.engines import Engine
from fheval.protocols import PROTOCOLS, Protocol
from fheval.protocols.base import Stage
from fheval_lab.bench.aggregators import Measurement, Played, Ratio, aggregator_work
from fheval_lab.bench.counting import counting_speedups, scan_ratios
from fheval_lab.bench.members import AGGREGATOR_SECONDS, member_ratios, with_committee
from fheval_lab.bench.resamples import resampled_round

DECISION_POINTS = 100
PARTIES = 100
MANY_PARTIES = 10_000

# A file has so many rows for each score that is counted in memory.
ROWS_PER_SAMPLE = 10
# And a party of a resampled round has one row for so many.
ROWS_PER_RESAMPLED = 1000

# So long an aggregator is played in a repetition, and the mean counts: a machine that is slow for a tenth of a second
# at a time is then as slow for a protocol that takes that long as for one that takes seconds.
LEAST_SECONDS = 0.5

# For each of them, the mean times of every repetition.
Times = dict[tuple[str, int], list[Played]]

# What the aggregator of a padded protocol may take of the time of the paper's protocol that resists as much, by engine
# and by whether they resist; and how much of it after the last upload.
# With OpenFHE the paper's protocols add uploads before the library reads them, and take half the time that they took.
SHARES = {("seal", False): 1 / 28, ("seal", True): 1 / 48, ("openfhe", False): 1 / 6.2, ("openfhe", True): 1 / 13.4}
MOST_ONLINE = 0.5


def work() -> list[tuple[str, int]]:
    """What is measured on each engine: protocols, and numbers of parties; many where work hardly grows with them."""
    few = [(name, PARTIES) for name in PROTOCOLS]
    return sorted([*few, *((each.name, MANY_PARTIES) for each in _with_pads())])


def _with_pads() -> list[Protocol]:
    """Those whose aggregator adds up pads: its work hardly grows with the parties."""
    stages = {each.name: [step.stage for step in each.steps] for each in PROTOCOLS.values()}
    return [each for each in PROTOCOLS.values() if {Stage.PADS, Stage.RESULT}.issubset(stages[each.name])]


def _of_paper() -> dict[bool, Protocol]:
    """The paper's protocols, by whether they resist."""
    return {each.resists: each for each in PROTOCOLS.values() if not each.batch}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """All that one run measured."""

    measurements: tuple[Measurement, ...]
    ratios: tuple[Ratio, ...]

    @property
    def holds(self) -> bool:
        return all(ratio.holds for ratio in self.ratios)


def run_bench(
    engines: Sequence[Engine], *, repeats: int = 5, samples: int = 10**7, on_step: Callable[[str], None] | None = None
) -> Bench:
    """Measure the aggregator of every protocol on every engine, and counting against sorting and reading."""
    say = on_step or (lambda _step: None)
    measurements: list[Measurement] = []
    ratios: list[Ratio] = []
    for engine in engines:
        times = aggregator_times(engine, repeats, say)
        measurements += [
            Measurement(
                name=protocol,
                engine=engine.name,
                parties=parties,
                decision_points=DECISION_POINTS,
                seconds=median(found),
                low=min(found),
                high=max(found),
                online=median(each.online for each in played),
            )
            for (protocol, parties), played in times.items()
            for found in [[each.seconds for each in played]]
        ]
        ratios += engine_ratios(engine.name, times)
        ratios += member_ratios(engine, (PARTIES, MANY_PARTIES), DECISION_POINTS, say)
        say(f"{engine.name}: 200 resamples of two models and three groups")
        ratios += resample_ratios(engine, max(samples // ROWS_PER_RESAMPLED, 100))
    say(f"counting {samples:,} scores")
    # Measured: 69 to 124 and 83 to 174 times, the least where NumPy sorts with AVX-512.
    least_speedups = {Grid.wide(): 100, Grid.even(DEFAULT_POINTS): 100}
    for (grid, least), measured in zip(least_speedups.items(), counting_speedups(samples, least_speedups), strict=True):
        name = f"counting {samples:,} scores at {grid!r} / scikit-learn's roc_auc_score"
        ratios.append(_ratio(name, "", [1 / measured["speedup"]], 1 / least))
    rows = ROWS_PER_SAMPLE * samples
    say(f"counting a Parquet file of {rows:,} rows")
    ratios.append(_ratio(f"counting a Parquet file of {rows:,} rows / reading it", "", scan_ratios(rows), 1.5))
    return Bench(measurements=tuple(measurements), ratios=tuple(ratios))


def aggregator_times(engine: Engine, repeats: int, say: Callable[[str], None]) -> Times:
    """Play every aggregator once, so that all is warm, and then `repeats` times.

    All take their turn in each repetition: where the machine's speed changes from one minute to the next, the ratios
    within a repetition change little.
    """
    works = {}
    for protocol, parties in work():
        say(f"{engine.name}: {protocol}, {parties:,} parties")
        works[protocol, parties] = aggregator_work(engine, protocol, parties, DECISION_POINTS)
        works[protocol, parties]()
    times: Times = {key: [] for key in works}
    for number in range(repeats):
        say(f"{engine.name}: repetition {number + 1} of {repeats}")
        for key, mean in _repetition(works).items():
            times[key].append(mean)
    return times


def _repetition(works: dict[tuple[str, int], Callable[[], Played]]) -> dict[tuple[str, int], Played]:
    """Let all take turns until each has lasted."""
    found: Times = {key: [] for key in works}
    while short := [key for key, played in found.items() if sum(each.seconds for each in played) < LEAST_SECONDS]:
        for key in short:
            found[key].append(works[key]())
    return {key: Played(*map(fmean, zip(*played, strict=True))) for key, played in found.items()}


def engine_ratios(engine: str, times: Times) -> list[Ratio]:
    """The ratios of one engine's aggregator times, with the limits that the project holds itself to."""

    def over(name: str, top: tuple[str, int], bottom: tuple[str, int], limit: float) -> Ratio:
        pairs = zip(times[top], times[bottom], strict=True)
        return _ratio(name, engine, [upper.seconds / lower.seconds for upper, lower in pairs], limit)

    paper = {resists: each.name for resists, each in _of_paper().items()}
    a_party = [each.seconds / PARTIES for each in times[paper[False], PARTIES]]
    ratios = [
        _ratio(f"{paper[False]}: seconds a party, {PARTIES} parties", engine, a_party, 0.010),
        # Two runs with nine rotations each, where the other has seven: the faster uploads are added, the more it shows.
        over(f"{paper[True]} / {paper[False]}", (paper[True], PARTIES), (paper[False], PARTIES), 2.6),
    ]
    padded = min(_with_pads(), key=lambda each: each.resists).name
    for each in with_committee():
        # It computes nothing, and grows with what it passes on.
        seconds = [played.seconds for played in times[each.name, PARTIES]]
        ratios.append(_ratio(f"{each.name}: seconds, {PARTIES} parties", engine, seconds, AGGREGATOR_SECONDS))
        for other in (padded, paper[False]):
            ratios.append(over(f"{each.name} / {other}", (each.name, PARTIES), (other, PARTIES), 1.0))
    for each in _with_pads():
        name, other = each.name, paper[each.resists]
        share = SHARES.get((engine, each.resists), 0.1)
        ratios.append(over(f"{name} / {other}", (name, PARTIES), (other, PARTIES), share))
        online = [played.online / played.seconds for played in times[name, PARTIES]]
        ratios.append(_ratio(f"{name}: after the last upload / all", engine, online, MOST_ONLINE))
        ratios.append(over(f"{name}: {MANY_PARTIES:,} parties / {PARTIES}", (name, MANY_PARTIES), (name, PARTIES), 1.5))
    return ratios


def resample_ratios(engine: Engine, rows: int) -> list[Ratio]:
    """What a round with 200 resamples costs: all roles' time, and what the leader uploads."""
    name = f"200 resamples, 2 models, 3 groups, 10 parties with {rows:,} rows"
    seconds, rounded = resampled_round(engine, rows=rows)
    _, exact = resampled_round(engine, "exact", rows=rows)
    return [
        _ratio(f"{name}: seconds of all roles", engine.name, [seconds], 10),
        _ratio(f"{name}, exact: leader's MB", engine.name, [exact], 30),
        _ratio(f"{name}, rounded: leader's MB", engine.name, [rounded], 30),
    ]


def _ratio(name: str, engine: str, values: Sequence[float], limit: float) -> Ratio:
    return Ratio(name=name, engine=engine, value=median(values), low=min(values), high=max(values), limit=limit)
