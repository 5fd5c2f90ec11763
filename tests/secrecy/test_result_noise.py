"""The noise of a padded result, which the leader can measure: rounding of the last drop, whatever the counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fheval.engines import Evaluator, available_engines, load_engine
from fheval.protocols.padding import LinearCircuit
from fheval.protocols.round import Contribution
from protocols.rounds import PADDED, Cast, a_round, contributions_of, curve, parameters_of

pytestmark = pytest.mark.skipif("seal" not in available_engines(), reason="SEAL alone tells how large noise is")

# Of 60 bits of modulus, 50-bit plaintexts leave 9 to noise of either sign, and 46-bit ones 13. Rounding takes up to 7
# of them: the largest of 8,192 numbers with a deviation of √(8192/18) ≈ 21. A fresh encryption takes 10 or 11.
LEFT_BY_ROUNDING = {"padded": {2, 3}, "padded-verified": {6, 7}}


def bits_left(protocol: str, samples: int, **options: Any) -> set[int]:
    """How many bits the noise leaves, in every ciphertext of a result."""
    engine = load_engine("seal")
    cast = Cast(a_round(protocol, 3, engine=engine, **options), engine)
    assert cast.round.batch is not None
    own = Contribution(np.full((1, cast.round.batch.width), samples, dtype=np.int64))
    result: Any = cast.result_of(cast.served(dict.fromkeys(cast.round.parties, own)))
    found = set()
    for chosen, key, (data,) in zip(parameters_of(cast.round), cast.secrets.keys, result.ciphertexts, strict=True):
        holder: Any = engine.key_holder(chosen, key)
        ciphertext = holder.load(data)
        found.add(holder._decryptor.invariant_noise_budget(ciphertext.handle))
    return found


@pytest.mark.parametrize("samples", [0, 1, 1 << 21])
@pytest.mark.parametrize("protocol", PADDED)
def test_the_noise_is_that_of_rounding_whatever_the_counts(protocol: str, samples: int) -> None:
    assert bits_left(protocol, samples) <= LEFT_BY_ROUNDING[protocol]


def test_so_it_is_in_an_exact_release() -> None:
    assert bits_left("padded", 1 << 21, precision=None) <= LEFT_BY_ROUNDING["padded"]


def test_a_few_bits_more_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Added up after the last drop, four results have four times the noise."""
    honest = LinearCircuit.sheet

    def sheet(self: LinearCircuit, evaluator: Evaluator, *arguments: Any) -> bytes:
        result = evaluator.load(honest(self, evaluator, *arguments))
        for _ in range(2):
            result = evaluator.add(result, result)
        return evaluator.dump(result)

    monkeypatch.setattr(LinearCircuit, "sheet", sheet)
    assert max(bits_left("padded", 1)) < min(LEFT_BY_ROUNDING["padded"])


def test_what_depends_on_the_counts_is_divided_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the mask is added, the products' noise leaves 60 bits of 69; the next drop divides it by 2^60."""
    engine = load_engine("seal")
    left: list[int] = []
    cast = Cast(a_round("padded", 3, engine=engine), engine)
    holders: list[Any] = [
        engine.key_holder(chosen, key) for chosen, key in zip(parameters_of(cast.round), cast.secrets.keys, strict=True)
    ]
    honest = LinearCircuit.sheet

    def sheet(self: LinearCircuit, evaluator: Evaluator, shares: Any, prepared: Any) -> bytes:
        loaded = [evaluator.load(data) for data in shares]
        dropped = evaluator.drop_level(evaluator.linear(loaded, prepared.factors))
        (holder,) = (each for each in holders if each.parameters == evaluator.parameters)
        left.append(holder._decryptor.invariant_noise_budget(dropped.handle))
        return honest(self, evaluator, shares, prepared)

    monkeypatch.setattr(LinearCircuit, "sheet", sheet)
    cast.result_of(cast.served(contributions_of(cast.round, [curve(1 << 20, 1 << 20)] * 3)))
    assert len(left) == 4
    assert min(left) >= 60
