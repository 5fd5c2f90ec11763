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

from fheval.engines.parameters import Parameters
from fheval.errors import EngineError, LocalProtocolError
from fheval.field import Residues
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
ONE = SlotPlan.of([[np.array([0])]], 4)
# Two numbers of one product each, torn over two ciphertexts, with the right factors on the left ones.
TORN = SlotPlan.of([[np.array([0])], [np.array([1])]], 3)
# One number of two products with a weight each.
TILTED = SlotPlan.of([[np.array([0]), np.array([1])]], 7)
PLANS = [pytest.param(ONE, id="one"), pytest.param(TORN, id="torn"), pytest.param(TILTED, id="two-weights")]


def answers(
    plan: SlotPlan, covers: Sequence[Sequence[int]], weights: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> Counter[tuple[int, ...]]:
    """All that a key holder may find in the slots for these covers, over all masks, for one share of its own."""
    holder = ClearEngine().key_holder(PARAMETERS, KEYS.secret)
    circuit = LinearCircuit([ClearEngine().evaluator(PARAMETERS, KEYS.public)], plan)
    shares = np.array([1, 2], dtype=np.uint64)[plan.source], np.array([2, 2], dtype=np.uint64)[plan.source]
    laid = plan.lay(shares[0], plan.dots(*shares, PRIME), shares[1])
    sealed = [tuple(map(holder.encrypt, sheet)) for sheet in laid]
    left, right = (np.array(side, dtype=np.uint64) for side in covers)
    chosen_weights = np.array(weights[: len(plan.stretches)], dtype=np.uint64)
    found: Counter[tuple[int, ...]] = Counter()
    for chosen in product(range(PRIME), repeat=plan.sheets * plan.slots):
        sheets = iter(np.array(chosen, dtype=np.uint64).reshape(plan.sheets, plan.slots))
        monkeypatch.setattr(padding, "residues", lambda *_, sheets=sheets: next(sheets))
        circuit.prepare([(left, right)], [(chosen_weights, [0] * len(plan.groups))], RNG)
        (result,) = circuit.evaluate([sealed])
        found[tuple(int(slot) for data in result for slot in holder.decrypt(data)[: plan.slots])] += 1
    return found


def has_sums(plan: SlotPlan, slots: tuple[int, ...], expected: Sequence[int]) -> bool:
    found: list[int] = plan.sums(np.array(slots, dtype=np.uint64), PRIME).tolist()
    return found == list(expected)


# V = D − ρ: with the shares (1, 2 ; 2, 2), both have V_L·V_R = 2 in the first product and 1 in the second.
FIRST, SECOND = [[0, 1], [0, 1]], [[2, 0], [1, 0]]


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

    def mask(circuit: LinearCircuit, prime: int, rng: Any) -> Residues:
        numbers = honest(circuit, prime, rng).copy()
        numbers[plan.used :] = 0
        return numbers

    monkeypatch.setattr(LinearCircuit, "mask", mask)
    assert len(answers(plan, FIRST, [1, 2], monkeypatch)) < PRIME ** (plan.slots - 1)


# What is prepared is used once


def test_an_answer_uses_what_was_prepared_up() -> None:
    """Two answers with one mask would show the difference of what is under it."""
    holder = ClearEngine().key_holder(PARAMETERS, KEYS.secret)
    circuit = LinearCircuit([ClearEngine().evaluator(PARAMETERS, KEYS.public)], ONE)
    numbers = np.ones(1, dtype=np.uint64)
    sealed = [(holder.encrypt(np.ones(3, dtype=np.uint64)),)]
    circuit.prepare([(numbers, numbers)], [(numbers, [0])], RNG)
    assert circuit.evaluate([sealed])
    with pytest.raises(LocalProtocolError, match="one answer"):
        circuit.evaluate([sealed])


def test_a_circuit_that_failed_does_not_use_its_masks_again() -> None:
    """The leader's ciphertexts are refused after the masks were taken: these are lost."""
    circuit = LinearCircuit([ClearEngine().evaluator(PARAMETERS, KEYS.public)], TORN)
    numbers = np.ones(2, dtype=np.uint64)
    circuit.prepare([(numbers, numbers)], [(numbers, [0, 0])], RNG)
    for error, match in ((EngineError, "truncated"), (LocalProtocolError, "one answer")):
        with pytest.raises(error, match=match):
            circuit.evaluate([[(b"", b""), (b"",)]])
