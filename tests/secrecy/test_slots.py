"""What the slots of a padded result tell a key holder: the sums of the groups, and nothing beside them.

Over a field of three elements there are few masks, so that all of them can be tried: what comes out is not likely to be
uniform, it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from fheval import field
from fheval.engines.parameters import Parameters
from fheval.errors import EngineError
from fheval.protocols import padding
from fheval.protocols.padding import LinearCircuit, SlotPlan
from fheval.secrets import SystemRandomness
from fheval_lab.clear import ClearEngine

PRIME = 3
RNG = SystemRandomness()
PARAMETERS = Parameters(
    name="small field", scheme="bfv", ring=4096, modulus_bits=(36, 36, 36), depth=0, plain_modulus=PRIME
)
KEYS = ClearEngine().generate_keys(PARAMETERS)

# One number of one product, in one ciphertext with a slot to spare.
ONE = SlotPlan.of([[np.array([0])]], 5)
# Two numbers of one product each, torn over two ciphertexts, with the right factors on the left ones.
TORN = SlotPlan.of([[np.array([0])], [np.array([1])]], 3)
# One number of two products with a weight each.
TILTED = SlotPlan.of([[np.array([0]), np.array([1])]], 7)
PLANS = [pytest.param(ONE, id="one"), pytest.param(TORN, id="torn"), pytest.param(TILTED, id="two-weights")]


def answers(
    plan: SlotPlan, uploaded: Sequence[Sequence[int]], weights: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> Counter[tuple[int, ...]]:
    """All that a key holder may find in the slots for these sums of uploads, over all masks, for fixed pads."""
    holder = ClearEngine().key_holder(PARAMETERS, KEYS.secret)
    circuit = LinearCircuit(ClearEngine().evaluator(PARAMETERS, KEYS.public), plan)
    pads = np.array([1, 2], dtype=np.uint64)[plan.source], np.array([2, 2], dtype=np.uint64)[plan.source]
    ones = np.ones(len(plan.groups), dtype=np.uint64)
    minus_left, minus_right = (field.negate(each, PRIME) for each in pads)
    laid = plan.lay(minus_left, plan.dots(*pads, PRIME), ones, minus_right)
    sealed = [tuple(map(holder.encrypt, sheet)) for sheet in laid]
    left, right = (np.array(side, dtype=np.uint64) for side in uploaded)
    chosen_weights = np.array(weights[: len(plan.stretches)], dtype=np.uint64)
    found: Counter[tuple[int, ...]] = Counter()
    for chosen in product(range(PRIME), repeat=plan.sheets * plan.slots):
        sheets = iter(np.array(chosen, dtype=np.uint64).reshape(plan.sheets, plan.slots))
        monkeypatch.setattr(padding, "residues", lambda *_, sheets=sheets: next(sheets))
        offsets = [0] * len(plan.groups)
        result: Any = circuit.evaluate((left, right), sealed, chosen_weights, offsets, RNG)
        found[tuple(int(slot) for data in result for slot in holder.decrypt(data)[: plan.slots])] += 1
    return found


def has_sums(plan: SlotPlan, slots: tuple[int, ...], expected: Sequence[int]) -> bool:
    found: list[int] = plan.sums(np.array(slots, dtype=np.uint64), PRIME).tolist()
    return found == list(expected)


# V = Y − R: with the pads (1, 2 ; 2, 2), both have V_L·V_R = 2 in the first product and 1 in the second.
FIRST, SECOND = [[2, 0], [1, 0]], [[0, 1], [0, 1]]


@pytest.mark.parametrize("plan", PLANS)
def test_every_vector_with_the_right_sums_comes_out_equally_often(
    plan: SlotPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, width = len(plan.groups), plan.sheets * plan.slots
    sums = {1: [2], 2: [2, 2]}[numbers] if plan is not TILTED else [(2 + 2) % PRIME]
    found = answers(plan, FIRST, [1, 2], monkeypatch)
    expected = {slots for slots in product(range(PRIME), repeat=width) if has_sums(plan, slots, sums)}
    assert set(found) == expected
    assert len(expected) == PRIME ** (width - numbers)
    assert set(found.values()) == {PRIME**numbers}


@pytest.mark.parametrize("plan", PLANS)
def test_what_is_in_the_slots_depends_on_the_sums_alone(plan: SlotPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers(plan, FIRST, [1, 2], monkeypatch) == answers(plan, SECOND, [1, 2], monkeypatch)
    # And on the sums it does depend.
    assert answers(plan, FIRST, [2, 2], monkeypatch) != answers(plan, FIRST, [1, 2], monkeypatch)


def test_a_mask_for_the_used_slots_alone_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform it would still be, over fewer vectors: unused slots would tell that nothing was added to them."""
    plan = ONE
    honest = LinearCircuit.mask

    def mask(circuit: LinearCircuit, rng: Any) -> padding.Mask:
        numbers = honest(circuit, rng).numbers.copy()
        numbers[plan.used :] = 0
        return padding.Mask(numbers=numbers, ciphertext=circuit.evaluator.encrypt(numbers, dropped=1))

    monkeypatch.setattr(LinearCircuit, "mask", mask)
    assert len(answers(plan, FIRST, [1, 2], monkeypatch)) < PRIME ** (plan.slots - 1)


# Masks are used once


def test_a_prepared_mask_is_handed_out_once() -> None:
    circuit = LinearCircuit(ClearEngine().evaluator(PARAMETERS, KEYS.public), SlotPlan.of([[np.arange(6000)]], 4096))
    circuit.prepare(RNG)
    circuit.prepare(RNG)
    prepared = circuit._prepared
    first, second, third = (circuit.take_masks(RNG) for _ in range(3))
    assert first is prepared
    assert len(first.sheets) == circuit.plan.sheets == 2
    assert len({mask.numbers.tobytes() for each in (first, second, third) for mask in each.sheets}) == 6


def test_a_circuit_that_failed_does_not_use_its_masks_again() -> None:
    """The pads are refused after the masks were taken: these are lost, and the next answer has others."""
    circuit = LinearCircuit(ClearEngine().evaluator(PARAMETERS, KEYS.public), TORN)
    circuit.prepare(RNG)
    prepared = circuit._prepared
    assert prepared is not None
    numbers = np.ones(2, dtype=np.uint64)
    with pytest.raises(EngineError, match="truncated"):
        circuit.evaluate((numbers, numbers), [(b"", b""), (b"",)], numbers, [0, 0], RNG)
    assert not {*map(id, prepared.sheets)} & {*map(id, circuit.take_masks(RNG).sheets)}
