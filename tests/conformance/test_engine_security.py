"""Parameter sets are at 128-bit security, checked before an engine is loaded and again by the engine."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from engine_roles import Roles, bfv_product
from fheval.engines import Engine, Parameters, container, load_engine, parameters
from fheval.engines.openfhe.residues import repeated_primes
from fheval.engines.parameters import CKKS_PAPER, bfv_linear, plain_moduli
from fheval.errors import CapacityError, ConfigError, EngineError, FhevalError

NAMED = [CKKS_PAPER, bfv_product(plain_moduli(1)[0]), bfv_linear(plain_moduli(1)[0])]

# Homomorphic Encryption Standard, 2018, table 1: ternary secret, classical, 128 bits.
STANDARD = {4096: 109, 8192: 218, 16384: 438, 32768: 881}


@pytest.mark.parametrize("named", NAMED, ids=lambda each: each.name)
def test_named_sets_are_within_the_standard(named: Parameters) -> None:
    assert sum(named.modulus_bits) <= STANDARD[named.ring]


def test_the_table_is_the_standards() -> None:
    assert parameters.LARGEST_MODULUS_BITS.items() <= STANDARD.items()


@pytest.mark.parametrize(
    "change",
    [
        {"ring": 8192},
        {"ring": 4096},
        {"ring": 1024},
        {"ring": 16385},
        {"modulus_bits": (60, 60, 60, 60, 60, 60, 60, 19)},
    ],
)
def test_weak_sets_cannot_be_written_down(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="128-bit"):
        replace(CKKS_PAPER, **change)  # type: ignore[arg-type]


def test_the_bound_itself_is_allowed() -> None:
    assert sum(replace(CKKS_PAPER, modulus_bits=(60, 60, 60, 60, 60, 60, 60, 18)).modulus_bits) == 438


def test_engines_refuse_a_weak_set_too(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.name == "clear":
        pytest.skip("The plaintext twin hides nothing.")
    monkeypatch.setattr(parameters, "LARGEST_MODULUS_BITS", {8192: 10_000, 1024: 10_000})
    for ring in (8192, 1024):
        weak = replace(CKKS_PAPER, ring=ring, name=f"weak-{ring}")
        with pytest.raises(EngineError, match="refuses parameter set weak"):
            engine.generate_keys(weak)
    if engine.name == "seal":
        with pytest.raises(EngineError, match="refuses"):
            engine.generate_keys(replace(NAMED[1], modulus_bits=(50, 50, 50, 50, 50), name="weak-bfv"))
    with pytest.raises(EngineError, match="refuses"):
        engine.generate_keys(replace(NAMED[2], ring=1024, name="weak-bfv", plain_modulus=plain_moduli(1)[0]))


def test_what_openfhe_picks_is_within_the_standard(ckks: Roles, bfv: Roles, linear: Roles) -> None:
    """It chooses its primes by itself, those of key switching included: read them out of the keys that it wrote."""
    if ckks.engine.name != "openfhe":
        pytest.skip("SEAL takes the primes that it is told.")
    for roles in (ckks, bfv, linear):
        written = roles.payload(container.PUBLIC_KEYS, roles.keys.public)
        primes = repeated_primes(written, roles.parameters.ring)
        assert len(primes) >= 3
        assert prod(primes).bit_length() <= STANDARD[roles.parameters.ring]


@pytest.mark.parametrize("modulus", [0, 97, 2**46, plain_moduli(1)[0] + 2, 16385 * 3])
def test_a_plain_modulus_without_slots_is_refused(engine: Engine, modulus: int) -> None:
    if engine.name == "clear":
        pytest.skip("The plaintext twin computes modulo anything.")
    with pytest.raises(FhevalError, match="plain modulus"):
        engine.generate_keys(bfv_linear(modulus))


def test_what_does_not_fit_is_refused_before_anyone_encrypts() -> None:
    CKKS_PAPER.require_slots(8192, "This round")
    with pytest.raises(CapacityError, match="This round needs 8193 slots"):
        CKKS_PAPER.require_slots(8193, "This round")


@pytest.mark.parametrize(("width", "rotations"), [(1, ()), (2, (1,)), (3, (1, 2)), (8, (1, 2, 4)), (9, (1, 2, 4, 8))])
def test_slot_sums_ask_for_powers_of_two(width: int, rotations: tuple[int, ...]) -> None:
    assert CKKS_PAPER.with_slot_sums(width).rotations == rotations


def test_plain_moduli_suit_both_engines() -> None:
    moduli = plain_moduli(8)
    assert len(set(moduli)) == 8
    assert all(modulus % 16384 == 1 and modulus.bit_length() == 46 for modulus in moduli)
    assert moduli == tuple(sorted(moduli, reverse=True))


def test_an_engine_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match="no engine 'lattigo'"):
        load_engine("lattigo")
