"""What the aggregator and key holders see does not depend on the data; and these tests can tell when it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pytest

from fheval.engines import Ciphertext, Evaluator
from fheval.engines.parameters import CKKS_PAPER
from fheval.field import Residues
from fheval.protocols import PROTOCOLS, padded, padded_verified, padding, paper_malicious, paper_semi_honest
from fheval.protocols.blinded_ratio import FloatVector
from fheval.protocols.padded import SlotLayout
from fheval.protocols.padding import UPLOAD, LinearCircuit, PadLimbs
from fheval.protocols.round import Round, pad_seed
from fheval.secrets import Randomness, Secret, new_seed
from fheval_lab.attacks import Consortium
from fheval_lab.attacks.chance import IMPLAUSIBLE, uniform
from fheval_lab.attacks.consortium import fresh_stream
from fheval_lab.attacks.views import (
    compare_slots,
    compare_uploads,
    divide_slots,
    padded_counts,
    subtract_uploads,
)
from fheval_lab.clear import ClearEngine

PADDED = ("padded", "padded-verified")
LAYOUTS: dict[str, Callable[[Round], SlotLayout]] = {
    "padded": padded.Layout.of,
    "padded-verified": padded_verified.lay_out,
}

Pad = Callable[..., PadLimbs]
HONEST = padding.pad


def no_pad(
    seed: Secret[bytes], round_: Round, nonce: bytes, values: int, usage: str = UPLOAD, bits: int = 128
) -> PadLimbs:
    return np.zeros(bits // 32 * values, dtype=np.uint32)


def narrow_pad(
    seed: Secret[bytes], round_: Round, nonce: bytes, values: int, usage: str = UPLOAD, bits: int = 128
) -> PadLimbs:
    """Numbers of 45 bits."""
    words = HONEST(seed, round_, nonce, values, usage, bits).reshape(values, -1).copy()
    words[:, 1] >>= np.uint32(19)
    words[:, 2:] = 0
    return words.reshape(-1)


def pad_of_party(
    seed: Secret[bytes], round_: Round, nonce: bytes, values: int, usage: str = UPLOAD, bits: int = 128
) -> PadLimbs:
    return HONEST(seed, EVERY, bytes(16), values, usage, bits)


def pad_of_round(
    seed: Secret[bytes], round_: Round, nonce: bytes, values: int, usage: str = UPLOAD, bits: int = 128
) -> PadLimbs:
    return HONEST(Secret(bytes(32)), round_, bytes(16), values, usage, bits)


def pad_that_primes_share(
    seed: Secret[bytes], round_: Round, nonce: bytes, values: int, usage: str = UPLOAD, bits: int = 128
) -> PadLimbs:
    return np.tile(HONEST(seed, round_, nonce, values // 4, usage, bits), 4)


EVERY = Consortium(protocol="padded").round(ClearEngine(), fresh_stream())
REPEATING: list[Pad] = [pad_of_party, pad_of_round]


# The aggregator's view


@pytest.mark.parametrize("protocol", PADDED)
def test_uploads_of_two_data_sets_look_alike(protocol: str) -> None:
    assert compare_uploads(Consortium(protocol=protocol, decision_points=100), ClearEngine()).holds


@pytest.mark.parametrize("protocol", PADDED)
def test_uploads_are_uniform(protocol: str) -> None:
    attacked = Consortium(protocol=protocol, decision_points=100).attacked(ClearEngine(), fresh_stream())
    for modulus in {found for found, _ in padded_counts(attacked)}:
        values = np.concatenate([values for found, values in padded_counts(attacked) if found == modulus])
        assert uniform(values / modulus) > IMPLAUSIBLE


@pytest.mark.parametrize("pad", [no_pad, narrow_pad])
def test_pads_that_are_not_uniform_would_show(monkeypatch: pytest.MonkeyPatch, pad: Pad) -> None:
    monkeypatch.setattr(padding, "pad", pad)
    attacked = Consortium(protocol="padded", decision_points=100).attacked(ClearEngine(), fresh_stream())
    _, (modulus, highest), *_ = padded_counts(attacked)
    assert uniform(highest / modulus) < IMPLAUSIBLE


def test_counts_without_pads_would_not_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "pad", no_pad)
    assert not compare_uploads(Consortium(protocol="padded"), ClearEngine()).holds


def test_no_difference_of_uploads_is_small() -> None:
    assert subtract_uploads(Consortium(protocol="padded"), ClearEngine()).right == 0


@pytest.mark.parametrize("pad", REPEATING)
def test_a_pad_used_twice_would_show_in_the_difference(monkeypatch: pytest.MonkeyPatch, pad: Pad) -> None:
    monkeypatch.setattr(padding, "pad", pad)
    rate = subtract_uploads(Consortium(protocol="padded"), ClearEngine())
    assert rate.right > 100
    assert not rate.holds


def repeated_pads(protocol: str) -> int:
    """How many values occur again, in whatever round, party or place: 96 bits do not by chance."""
    consortium, rng = Consortium(protocol=protocol), fresh_stream()
    master = new_seed(rng)
    rounds = [consortium.round(ClearEngine(), rng) for _ in range(4)]
    drawn = [value for round_ in rounds for value in _values(protocol, round_, master, rng)]
    assert len(drawn) > 1000
    return len(drawn) - len(set(drawn))


def _values(protocol: str, round_: Round, master: Secret[bytes], rng: Randomness) -> Iterator[tuple[int, ...]]:
    layout = LAYOUTS[protocol](round_)
    for party in round_.parties:
        for nonce in (rng.draw(16), rng.draw(16)):
            count, bits = (layout.uploaded, layout.bits) if layout.bits else (layout.uploaded * len(layout.primes), 128)
            words = padding.pad(pad_seed(master, party), round_, nonce, count, UPLOAD, bits)
            yield from map(tuple, words.reshape(count, -1).tolist())


def pad_without_nonce(
    seed: Secret[bytes], round_: Round, nonce: bytes, values: int, usage: str = UPLOAD, bits: int = 128
) -> PadLimbs:
    return HONEST(seed, round_, bytes(16), values, usage, bits)


@pytest.mark.parametrize("protocol", PADDED)
def test_pads_never_repeat(protocol: str) -> None:
    assert repeated_pads(protocol) == 0


@pytest.mark.parametrize("pad", [no_pad, *REPEATING, pad_that_primes_share, pad_without_nonce])
def test_a_repeated_pad_would_be_found(monkeypatch: pytest.MonkeyPatch, pad: Pad) -> None:
    monkeypatch.setattr(padding, "pad", pad)
    assert repeated_pads("padded-verified") > 100


# A key holder's view


def without_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the authors' code, the slot sum then leaves partial sums of the curve in the other slots."""

    def hide(evaluator: Evaluator, ciphertext: Ciphertext, keep: Sequence[int], rng: Randomness) -> Ciphertext:
        return ciphertext

    def everywhere(values: Mapping[int, float]) -> FloatVector:
        return np.full(CKKS_PAPER.slots, values[0])

    for module in (paper_semi_honest, paper_malicious):
        monkeypatch.setattr(module, "hide", hide)
        monkeypatch.setattr(module, "sparse", everywhere)


def without_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left in the slots then is a pad times what the aggregator multiplied it by."""

    def mask(circuit: LinearCircuit, prime: int, rng: Randomness) -> Residues:
        return np.zeros(circuit.plan.slots, dtype=np.uint64)

    monkeypatch.setattr(LinearCircuit, "mask", mask)


@pytest.mark.parametrize("protocol", sorted(set(PROTOCOLS) - {"committee"}))  # whose aggregator answers nothing
def test_slots_of_the_answer_look_alike(protocol: str) -> None:
    found = compare_slots(Consortium(protocol=protocol), ClearEngine(), rounds=10)
    assert [likeness.holds for likeness in found] == [True, True]
    assert min(likeness.numbers for likeness in found) > 100


@pytest.mark.parametrize("protocol", ["paper-semi-honest", "paper-malicious"])
def test_slots_that_are_not_hidden_would_not_look_alike(monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    without_cover(monkeypatch)
    used, _ = compare_slots(Consortium(protocol=protocol), ClearEngine(), rounds=10)
    assert not used.holds


def test_the_leader_finds_no_counts_behind_its_pads() -> None:
    assert divide_slots(Consortium(protocol="padded"), ClearEngine(), rounds=10).holds


def test_slots_without_random_masks_would_give_the_curve_away(monkeypatch: pytest.MonkeyPatch) -> None:
    without_masks(monkeypatch)
    rate = divide_slots(Consortium(protocol="padded"), ClearEngine())
    assert rate.right == rate.tries
    assert not rate.holds
