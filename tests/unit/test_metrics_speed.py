"""What a batch costs: the aggregator hardly more than one evaluation does, and 200 resamples seconds."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import process_time

import msgspec
import numpy as np
import pytest

from fheval import evaluate, wire
from fheval.engines import load_engine
from fheval.metrics.registry import auc_batch
from fheval.protocols import padded, padding
from fheval.protocols.padded import Layout, PaddedCounts, PadSums
from fheval.protocols.round import (
    AGGREGATOR,
    DEFAULT_MAX_SAMPLES,
    Batch,
    PublicSetup,
    Round,
    leader_set_up,
    new_round_id,
)
from fheval.secrets import SystemRandomness, residues
from fheval.study import Study
from fheval_lab.clear import ClearEngine

POINTS = 100
EVALUATIONS = 39
PARTIES = 10
REPEATS = 9


def many_aucs(evaluations: int) -> Batch:
    return msgspec.structs.replace(auc_batch(POINTS, DEFAULT_MAX_SAMPLES), slices=evaluations)


def aggregator_work(batch: Batch) -> Callable[[], float]:
    """Prepare a round of `padded`; give a function that plays the aggregator and says how long it computed."""
    rng, engine = SystemRandomness(), load_engine()
    names = tuple(f"party-{number}" for number in range(PARTIES))
    round_ = Round(
        id=new_round_id(rng),
        protocol=padded.NAME,
        engine=engine.name,
        batch=batch,
        parties=names,
        leader=names[0],
        precision=1e-4,
    )
    layout = Layout.of(round_)
    secrets, setup = leader_set_up(engine, round_, padding.parameter_sets(layout.primes), rng)
    # An upload is uniform to whoever lacks its pad, so random numbers are as good as real ones.
    values = [residues(rng, prime, layout.uploaded) for prime in layout.primes]
    sealed = padding.leader_encrypt(
        engine,
        secrets,
        layout.primes,
        layout.plan,
        layout.factors(values, layout.primes, cover=False),
    )
    pads = wire.encode(PadSums(round=round_.id, sender=names[0], roster=names, ciphertexts=sealed))
    upload = rng.draw(layout.uploaded * layout.bits // 8)
    uploads = [
        wire.encode(PaddedCounts(round=round_.id, sender=name, nonce=bytes(16), values=upload)) for name in names
    ]
    keys = wire.encode(setup)

    def once() -> float:
        aggregator = padded.Aggregator(engine, round_, wire.decode(keys, PublicSetup, sender=names[0]), rng)
        # Loading the keys is set-up, as in the bench.
        start = process_time()
        for data in uploads:
            aggregator.receive(wire.decode(data, PaddedCounts, sender=AGGREGATOR))
        wire.encode(aggregator.close())
        wire.encode(aggregator.result(wire.decode(pads, PadSums, sender=names[0])))
        return process_time() - start

    return once


@pytest.mark.slow
def test_what_fits_one_ciphertext_costs_the_aggregator_little_more_than_one_evaluation() -> None:
    single, batch = aggregator_work(many_aucs(1)), aggregator_work(many_aucs(EVALUATIONS))
    single(), batch()
    times = [(single(), batch()) for _ in range(REPEATS)]
    one, all_ = (median(each) for each in zip(*times, strict=True))
    print(f"one {one * 1e3:.1f} ms, {EVALUATIONS} {all_ * 1e3:.1f} ms, ratio {all_ / one:.2f}")
    # What so many numbers may tell together takes five primes to hide, one number four.
    assert all_ / one <= 1.6


# Twenty metrics at a threshold: with one denominator for all thresholds, and with one for each.
TWENTIES = {
    "few-denominators": ("accuracy", "recall", "specificity", "balanced-accuracy"),
    "many-denominators": ("precision", "f1", "npv", "recall"),
    "as-many-as-can-be": ("precision", "f1", "npv", "f2"),
}


def twenty(names: tuple[str, ...]) -> list[str]:
    return [f"{name}@{threshold}" for name in names for threshold in (0.1, 0.2, 0.3, 0.4, 0.6)]


@pytest.mark.parametrize("names", TWENTIES.values(), ids=TWENTIES)
def test_twenty_metrics_more_cost_a_party_the_upload_of_one_auc(names: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    parties = [(rng.integers(0, 2, 50), rng.random(50)) for _ in range(3)]
    engine = ClearEngine()
    one, many = (evaluate(parties, metrics=each, engine=engine).bytes for each in (["auc"], ["auc", *twenty(names)]))
    assert many["party_upload"] <= 1.05 * one["party_upload"]
    assert many["leader_upload"] <= 1.05 * one["leader_upload"]
    assert many["result"] <= 1.05 * one["result"]


@pytest.mark.slow
@pytest.mark.parametrize("names", TWENTIES.values(), ids=TWENTIES)
def test_twenty_metrics_more_cost_the_aggregator_little(names: tuple[str, ...]) -> None:
    one, many = (aggregator_work(Study.of(metrics=each).batch()) for each in (["auc"], ["auc", *twenty(names)]))
    one(), many()
    times = [(one(), many()) for _ in range(REPEATS)]
    alone, together = (median(each) for each in zip(*times, strict=True))
    print(f"one {alone * 1e3:.1f} ms, with twenty more {together * 1e3:.1f} ms, ratio {together / alone:.2f}")
    assert together <= 1.3 * alone


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_two_hundred_resamples_take_seconds(protocol: str) -> None:
    rng = np.random.default_rng(0)
    parties = []
    for _ in range(10):
        labels = rng.integers(0, 2, 10_000)
        parties.append((labels, np.clip(0.3 * labels + 0.7 * rng.random(10_000), 0, 1)))
    start = process_time()
    (row,) = evaluate(parties, protocol=protocol, decision_points=40, ci=0.95, replicates=200).results
    # One thread does it all, so that its time is the whole of it, whatever else the machine is doing.
    seconds = process_time() - start
    print(f"{protocol}: {seconds:.1f} s")
    assert row.low is not None
    assert row.high is not None
    assert row.value is not None
    assert row.low < row.value < row.high
    assert seconds < 30
