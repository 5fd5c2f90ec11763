"""What each role's view contains: the key holder's, slot by slot, and the aggregator's, byte by byte.

Every test of something hidden has a counterpart that takes the hiding away and shows that the test then fails.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from msgspec import structs

from fheval import Counts, wire
from fheval.engines import available_engines, load_engine
from fheval.field import Residues
from fheval.metrics.registry import auc_contribution
from fheval.protocols import padding, paper_malicious, paper_semi_honest
from fheval.protocols.blinded_ratio import MASK_BOUND
from fheval.protocols.padding import LinearCircuit
from fheval.secrets import Randomness, Secret, Stream
from protocols.rounds import Cast, a_round, contributions_of, curve, layout_of, parameters_of
from protocols.statistics import evenly_filled, look_alike, looks_uniform, unrelated

ENGINES = available_engines()
POINTS = 33

# Two sets of data that could hardly differ more: the size, the classes' ratio and the shape of the curve.
DATA = {
    "large": [curve(400_000, 300_000, POINTS, bend=0.1)] * 3,
    "small": [curve(2, 30, POINTS, bend=3.0)] * 3,
}
# How many aggregators answer the same uploads.
ANSWERS = 3
PAPER_VARIANTS = {
    "paper": ("paper-semi-honest", "paper"),
    "compact": ("paper-semi-honest", "compact"),
    "paper-malicious": ("paper-malicious", "paper"),
}

Slots = npt.NDArray[np.complex128]


# The key holder's view of a CKKS result


@cache
def keys_of(engine: str, protocol: str, packing: str) -> Cast:
    """One set of keys for each protocol and packing; keys are the slow part."""
    loaded = load_engine(engine)
    return Cast(a_round(protocol, 3, decision_points=POINTS, engine=loaded, packing=packing), loaded)


@cache
def uploads_of(engine: str, variant: str, data: str) -> tuple[Cast, list[Any]]:
    """One round of honest uploads; several aggregators answer it, each with randomness of its own."""
    cast = keys_of(engine, *PAPER_VARIANTS[variant]).next()
    contributions = contributions_of(cast.round, DATA[data])
    return cast, [cast.upload(party, own) for party, own in contributions.items()]


def answers_to(engine: str, variant: str, data: str) -> list[list[Slots]]:
    """What a key holder finds in a few answers: all slots of all ciphertexts of each."""
    cast, uploads = uploads_of(engine, variant, data)
    found = []
    for _ in range(ANSWERS):
        aggregator = cast.aggregator()
        for upload in uploads:
            aggregator.receive(upload)
        found.append(cast.slots(cast.result_of(aggregator)))
    return found


# The same answers serve several tests, unless one has broken the aggregator.
honest_answers = cache(answers_to)


def kept(variant: str) -> list[int]:
    """The slots whose real parts are the answer."""
    if variant != "compact":
        return [0]
    return [0, paper_semi_honest.anchor(a_round("paper-semi-honest", 3, decision_points=POINTS).forms[0])]


def beside_the_answer(variant: str, slots: Slots) -> npt.NDArray[np.float64]:
    """Everything in a ciphertext that is not the answer: the other real parts, and all imaginary ones."""
    return np.concatenate([np.delete(slots.real, kept(variant)), slots.imag])


def partial_sums(engine: str, variant: str, data: str) -> npt.NDArray[np.float64]:
    """What the slot sums leave in the slots of the first ciphertext: sums of products, from each slot on."""
    cast, uploads = uploads_of(engine, variant, data)
    (chosen,) = parameters_of(cast.round)
    holder = cast.engine.key_holder(chosen, cast.secrets.keys[0])
    first = [upload.runs[0] if variant == "paper-malicious" else upload.ciphertexts for upload in uploads]
    left, right = (np.sum([holder.decrypt(each[side]).real for each in first], axis=0) for side in (0, 1))
    sums: npt.NDArray[np.float64] = left * right
    for step in chosen.rotations:
        # In compact packing the last rotation key is for the rounding and not for the sum.
        if step not in kept(variant):
            sums = sums + np.roll(sums, -step)
    return sums


def hides_the_curve(engine: str, variant: str, data: str, answers: list[list[Slots]]) -> bool:
    """Whether sizes in the first ciphertext's slots can be unrelated to the partial sums."""
    sums = partial_sums(engine, variant, data)
    loud = np.setdiff1d(np.flatnonzero(np.abs(sums) > np.abs(sums).max() * 1e-3), kept(variant))
    sizes = np.mean([np.abs(first.real[loud]) for first, *_ in answers], axis=0)
    return unrelated(sizes, np.abs(sums[loud]))


def is_independent_noise(variant: str, answers: list[list[Slots]]) -> bool:
    """Whether all that is not the answer can be the noise that the aggregator draws, uniform and of one size."""
    return all(
        looks_uniform(beside_the_answer(variant, slots), -MASK_BOUND, MASK_BOUND)
        for answer in answers
        for slots in answer
    )


def forget_to_mask(monkeypatch: pytest.MonkeyPatch, *, factor_too: bool) -> None:
    """Leave the random numbers out of `hide`; with `factor_too`, multiply every slot by c instead of the answer's."""
    for module in (paper_semi_honest, paper_malicious):
        monkeypatch.setattr(module, "hide", lambda _evaluator, ciphertext, *_: ciphertext)
        if factor_too:
            monkeypatch.setattr(module, "sparse", lambda values: np.full(8192, values[0]))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("variant", PAPER_VARIANTS)
def test_beside_the_blinded_numbers_a_key_holder_finds_noise(engine: str, variant: str) -> None:
    found = {}
    for data in DATA:
        answers = honest_answers(engine, variant, data)
        assert is_independent_noise(variant, answers)
        assert hides_the_curve(engine, variant, data, answers)
        found[data] = np.concatenate([beside_the_answer(variant, slots) for slots in answers[0]])
    assert look_alike(found["large"], found["small"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("variant", PAPER_VARIANTS)
@pytest.mark.parametrize("factor_too", [False, True], ids=["additive-part", "all-masking"])
def test_without_masking_a_key_holder_would_read_the_curve(
    engine: str, variant: str, factor_too: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_to_mask(monkeypatch, factor_too=factor_too)
    answers = answers_to(engine, variant, "large")
    assert not is_independent_noise(variant, answers)
    assert not hides_the_curve(engine, variant, "large", answers)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("variant", PAPER_VARIANTS)
def test_two_answers_to_the_same_uploads_share_nothing_but_the_ratio(engine: str, variant: str) -> None:
    first, second, *_ = honest_answers(engine, variant, "large")
    for one, other in zip(first, second, strict=True):
        assert unrelated(np.delete(one.real, kept(variant)), np.delete(other.real, kept(variant)))
        assert unrelated(one.imag, other.imag)
        assert all(one.real[slot] != other.real[slot] for slot in kept(variant))
    x, y = (
        answer[0].real[0] / answer[-1 if variant == "compact" else 1].real[kept(variant)[-1]]
        for answer in (first, second)
    )
    assert x == pytest.approx(y, rel=1e-6)


# The key holder's view of a BFV result


@cache
def padded_cast(engine: str, protocol: str, data: str) -> tuple[Cast, list[Any]]:
    cast = keys_of(engine, protocol, "paper").next()
    contributions = contributions_of(cast.round, DATA[data])
    return cast, [cast.upload(party, own) for party, own in contributions.items()]


def padded_answer(engine: str, protocol: str, data: str) -> list[npt.NDArray[np.uint64]]:
    """All slots of the result, one vector for each prime."""
    cast, uploads = padded_cast(engine, protocol, data)
    aggregator = cast.aggregator()
    for upload in uploads:
        aggregator.receive(upload)
    return cast.slots(cast.result_of(aggregator))


def empty_mask(circuit: LinearCircuit, _prime: int, _: Randomness) -> Residues:
    """A mask that hides nothing."""
    return np.zeros(circuit.plan.slots, dtype=np.uint64)


def suggested_weights(engine: str, protocol: str) -> list[int]:
    """For each prime, how many different weights w the slots of the first stretch suggest to who knows all the rest.

    A slot holds −w·ρ_R·D_L or −w·ρ_L·D_R, or w·Σ D_L·D_R.
    """
    cast, uploads = padded_cast(engine, protocol, "large")
    aggregator = cast.aggregator()
    for upload in uploads:
        aggregator.receive(upload)
    factors = aggregator.factors()
    pads = cast.pads(aggregator.close())
    # Everything is on one sheet here, of one ciphertext.
    put = cast.slots(structs.replace(pads, ciphertexts=tuple(only for (only,) in pads.ciphertexts)))
    answered = cast.slots(aggregator.result(pads))
    plan, found = aggregator.layout.plan, []
    for prime, (left, right), bottom, slots in zip(aggregator.layout.primes, factors, put, answered, strict=True):
        ones = np.ones(len(plan.stretches), dtype=np.uint64)
        ((multipliers,),) = plan.lay(right[plan.source], ones, left[plan.source])
        first = range(plan.stretches[0])
        chosen = [*first, *(plan.used - len(plan.source) + product for product in first)]
        found.append(
            len({int(slots[i]) * pow(int(bottom[i]) * int(multipliers[i]), -1, prime) % prime for i in chosen})
        )
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
@pytest.mark.parametrize("data", DATA)
def test_the_residues_of_a_result_are_uniform_in_used_and_unused_slots(engine: str, protocol: str, data: str) -> None:
    cast, _ = padded_cast(engine, protocol, data)
    layout = layout_of(cast.round)
    used = layout.plan.used
    answers = [padded_answer(engine, protocol, data) for _ in range(3)]
    for prime, *slots in zip(layout.primes, *answers, strict=True):
        assert evenly_filled(np.concatenate([each[used:] for each in slots]), 64, prime)
        assert evenly_filled(np.concatenate([each[:used] for each in slots]), 8, prime)
        first, second, _ = slots
        assert not np.any(first == second)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_only_the_sums_of_groups_mean_something(engine: str, protocol: str) -> None:
    """Without the mask every slot suggests one and the same weight, with it each another."""
    assert min(suggested_weights(engine, protocol)) > 50


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_without_the_mask_every_slot_would_mean_something(
    engine: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LinearCircuit, "mask", empty_mask)
    assert max(suggested_weights(engine, protocol)) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_without_random_numbers_unused_slots_would_not_be_uniform(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinearCircuit, "mask", empty_mask)
    cast, _ = padded_cast(engine, "padded", "large")
    slots = padded_answer(engine, "padded", "large")[0]
    assert not evenly_filled(slots[layout_of(cast.round).plan.used :], 64, layout_of(cast.round).primes[0])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_a_result_is_switched_down_to_one_prime(engine: str, protocol: str) -> None:
    cast, uploads = padded_cast(engine, protocol, "small")
    aggregator = cast.aggregator()
    for upload in uploads:
        aggregator.receive(upload)
    result = cast.result_of(aggregator)
    for chosen, public, sheets in zip(parameters_of(cast.round), cast.public.keys, result.ciphertexts, strict=True):
        evaluator = cast.engine.evaluator(chosen, public)
        assert [evaluator.load(data).limbs for data in sheets] == [1]


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_the_sums_of_groups_are_blinded_by_a_fresh_unit_each_time(protocol: str) -> None:
    cast = Cast(a_round(protocol, 3, decision_points=POINTS, precision=None))
    own = contributions_of(cast.round, DATA["large"])
    layout = layout_of(cast.round)
    answers = [
        padding.leader_decrypt(cast.engine, cast.secrets, layout.primes, layout.plan, result.ciphertexts)
        for result in (cast.result_of(cast.served(own)) for _ in range(2))
    ]
    for prime, first, second in zip(layout.primes, *answers, strict=True):
        # Each X and Y beside the other answer's: what they have in common is the quotient.
        factors = [one * pow(other, -1, prime) % prime for one, other in zip(first, second, strict=True)]
        assert factors[::2] == factors[1::2]
        assert len(set(factors)) == len(factors) // 2
        assert 1 not in factors


# The aggregator's view


def numbers_sent(upload: Any, layout: Any) -> list[npt.NDArray[np.uint64]]:
    """The residues of an upload, prime by prime, or the lower and the upper half of its integers."""
    if layout.bits:
        limbs = np.frombuffer(upload.values, dtype="<u2").astype(np.uint64).reshape(layout.uploaded, 2, -1)
        places = np.arange(limbs.shape[2], dtype=np.uint64) * np.uint64(16)
        return list((limbs << places).sum(axis=2, dtype=np.uint64).T)
    data = np.frombuffer(bytes(upload.values), dtype=np.uint8)
    values = data[: 6 * layout.uploaded * len(layout.primes)].reshape(-1, 6)
    words = np.zeros((len(values), 8), dtype=np.uint8)
    words[:, :6] = values
    return np.split(words.view("<u8").ravel(), len(layout.primes))


def uploads_of_one_party(protocol: str, counts: Counts) -> tuple[Any, Any]:
    cast = Cast(a_round(protocol, 3, decision_points=1000))
    return cast.upload("hospital-1", auc_contribution(counts)), layout_of(cast.round)


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_uploads_are_uniform_and_alike_for_any_data(protocol: str) -> None:
    seen: dict[str, list[npt.NDArray[np.uint64]]] = {}
    for name, counts in (("none", Counts.zero(1000)), ("many", curve(9_000_000, 7_000_000, 1000, bend=0.1))):
        upload, layout = uploads_of_one_party(protocol, counts)
        seen[name] = numbers_sent(upload, layout)
        moduli = [1 << layout.bits // 2] * 2 if layout.bits else layout.primes
        for modulus, values in zip(moduli, seen[name], strict=True):
            assert int(values.max()) < modulus
            assert evenly_filled(values, 64, modulus)
    for none, many in zip(seen["none"], seen["many"], strict=True):
        assert look_alike(none, many)


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_without_pads_uploads_would_show_the_data(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "pad", lambda *labels: np.zeros(labels[5] // 32 * labels[3], dtype=np.uint32))
    upload, layout = uploads_of_one_party(protocol, Counts.zero(1000))
    assert not evenly_filled(numbers_sent(upload, layout)[0], 64, layout.primes[0])


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_equal_data_is_never_sent_as_equal_bytes(protocol: str) -> None:
    cast = Cast(a_round(protocol, 3, decision_points=100))
    own = auc_contribution(curve(40, 70, 100))
    rounds = [cast, cast.next(), cast.next(leader="hospital-2")]
    sent = [
        numbers_sent(each.upload(party, own), layout_of(each.round)) for each in rounds for party in cast.round.parties
    ]
    values = np.concatenate([part for upload in sent for part in upload])
    # Not one in common: numbers of 46 or 48 bits, a few thousand of them.
    assert len(np.unique(values)) == len(values)


@pytest.mark.parametrize("protocol", ["padded", "padded-verified"])
def test_an_upload_is_its_round_its_sender_and_as_many_bytes_for_any_data(protocol: str) -> None:
    cast = Cast(a_round(protocol, 3, decision_points=100))
    layout = layout_of(cast.round)
    encoded = []
    for counts in (Counts.zero(100), curve(40, 70, 100)):
        cast.rng = Stream(Secret(bytes(32)))
        encoded.append(wire.encode(cast.upload("hospital-1", auc_contribution(counts))))
    nonce = Stream(Secret(bytes(32))).draw(16)
    size = layout.uploaded * (layout.bits // 8) or padding.packed_size(layout.uploaded * len(layout.primes))
    assert len({len(data) for data in encoded}) == 1
    nothing_declared = b"\xc4\x00"  # of groups, behind the values
    assert all(data.endswith(nothing_declared) for data in encoded)
    heads = {data[: -size - len(nothing_declared)] for data in encoded}
    assert len(heads) == 1
    (head,) = heads
    # What remains beside the padded values: magic and version, the type, round, sender, nonce, and a few length bytes.
    for known in (wire.HEADER, b"PaddedCounts", cast.round.id.encode(), b"hospital-1", nonce):
        assert known in head
        head = head.replace(known, b"")
    assert len(head) <= 14


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("variant", PAPER_VARIANTS)
def test_encrypted_uploads_of_equal_data_have_no_bytes_in_common(engine: str, variant: str) -> None:
    _, uploads = uploads_of(engine, variant, "small")
    first, second = (
        [bytes(data) for data in (upload.runs[0] if variant == "paper-malicious" else upload.ciphertexts)]
        for upload in uploads[:2]
    )
    pieces = {data[start : start + 16] for data in first for start in range(1024, len(data) - 16, 16)}
    others = {data[start : start + 16] for data in second for start in range(1024, len(data) - 16, 16)}
    assert not pieces & others
