"""Each ingredient of a protocol taken away: then the suite forges an AUC unnoticed, and with it, it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fheval.engines.parameters import plain_moduli
from fheval.field import Residues
from fheval.protocols import padded, padded_verified, padding, paper_malicious
from fheval.protocols.blinded_ratio import FloatVector
from fheval.protocols.padded import PaddedResult
from fheval.protocols.padded_verified import SecretMaps
from fheval.protocols.padding import PadLimbs
from fheval.protocols.paper_malicious import CommonRandomness
from fheval.protocols.paper_semi_honest import the_form
from fheval.protocols.release import exact_primes
from fheval.protocols.round import Round
from fheval.secrets import Secret
from fheval_lab.attacks import Consortium, run_suite
from fheval_lab.attacks.on_parties import DenyDropout, DropParty, ReplayEarlier
from fheval_lab.attacks.on_slots import MixSides, ScaleAll, ScaleAllButAnchor
from fheval_lab.attacks.strategy import Strategy
from fheval_lab.attacks.suite import HARMLESS, Tally
from fheval_lab.clear import ClearEngine

pytestmark = pytest.mark.slow

TRIES = 12


class ScaleAllButLast(ScaleAllButAnchor):
    """Knows where the anchor is: at the end."""

    def guess(self) -> frozenset[int]:
        return frozenset(range(self.known.slots - self.known.anchor_slots, self.known.slots))


class TakeFromNumerator(MixSides):
    """Takes a hundredth of Y away from X, so that the ratio stays above 0 whatever r_2/r_0 is, or nearly."""

    part = Fraction(-1, 100)


# paper-malicious


def without_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    def party_masks(seed: Secret[bytes], round_: Round, run: int, me: str, side: str) -> FloatVector:
        return np.zeros(the_form(round_).terms + 1)

    monkeypatch.setattr(paper_malicious, "party_masks", party_masks)


def _derive_changed(monkeypatch: pytest.MonkeyPatch, change: Callable[..., CommonRandomness]) -> None:
    honest = CommonRandomness.derive

    def derive(cls: type, seed: Secret[bytes], round_: Round, run: int) -> CommonRandomness:
        return change(honest(seed, round_, run), honest(seed, round_, 0))

    monkeypatch.setattr(CommonRandomness, "derive", classmethod(derive))


def without_permutation(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(own: CommonRandomness, first: CommonRandomness) -> CommonRandomness:
        return replace(own, order=np.arange(len(own.order)))

    _derive_changed(monkeypatch, change)


def same_multipliers_in_both_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(own: CommonRandomness, first: CommonRandomness) -> CommonRandomness:
        return replace(own, r3=first.r3, r4=first.r4, r5=first.r5, r6=first.r6, r7=first.r7, r8=first.r8)

    _derive_changed(monkeypatch, change)


def six_equal_multipliers(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(own: CommonRandomness, first: CommonRandomness) -> CommonRandomness:
        return replace(own, r4=own.r3, r5=own.r3, r6=own.r3, r7=own.r3, r8=own.r3)

    _derive_changed(monkeypatch, change)


# padded-verified


def without_mixing(monkeypatch: pytest.MonkeyPatch) -> None:
    """u = w = 0."""

    def mix(t: Residues, f: Residues, prime: int, stream: object) -> tuple[Residues, Residues]:
        return t, f

    monkeypatch.setattr(padded_verified, "mix", mix)


def six_equal_units(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = SecretMaps.derive

    def derive(cls: type, *arguments: Any) -> SecretMaps:
        maps = honest(*arguments)
        first = maps.units[0]
        return replace(maps, units=(first,) * 6)

    monkeypatch.setattr(SecretMaps, "derive", classmethod(derive))


def same_maps_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = SecretMaps.derive

    def derive(cls: type, seed: Secret[bytes], round_: Round, run: int, *others: Any) -> SecretMaps:
        return honest(seed, round_, 0, *others)

    monkeypatch.setattr(SecretMaps, "derive", classmethod(derive))


def no_more_primes_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as make the fraction unique."""
    monkeypatch.setattr(padded_verified, "enough_primes", lambda bound, _runs: exact_primes(bound, plain_moduli))


def without_pads(monkeypatch: pytest.MonkeyPatch) -> None:
    def pads(
        seeds: Iterable[Secret[bytes]], round_: Round, nonces: Iterable[bytes], values: int, usage: str, bits: int
    ) -> Iterator[PadLimbs]:
        for _ in zip(seeds, nonces, strict=False):
            yield np.zeros(bits // 32 * values, dtype=np.uint32)

    monkeypatch.setattr(padding, "_pads", pads)


def without_a_look_at_the_roster(monkeypatch: pytest.MonkeyPatch) -> None:
    def require_answered(round_: Round, roster: tuple[str, ...], result: PaddedResult) -> None:
        """Takes whatever the answer says."""

    monkeypatch.setattr(padded, "require_answered", require_answered)


# Both


def same_randomness_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that the parties derive is bound to the round by its digest."""

    monkeypatch.setattr(Round, "digest", property(lambda _: bytes(32)))


@dataclass(frozen=True)
class Case:
    """An ingredient, and the strategy that its absence lets through."""

    protocol: str
    ablate: Callable[[pytest.MonkeyPatch], None]
    strategy: type[Strategy]

    def __str__(self) -> str:
        return f"{self.protocol}: {self.ablate.__name__}"

    def attack(self, tries: int = TRIES) -> Tally:
        (tally,) = run_suite(Consortium(protocol=self.protocol), ClearEngine(), [self.strategy], tries=tries)
        return tally


CASES = [
    Case("paper-malicious", without_masks, DropParty),
    Case("paper-malicious", without_permutation, ScaleAllButLast),
    Case("paper-malicious", same_multipliers_in_both_runs, TakeFromNumerator),
    Case("paper-malicious", six_equal_multipliers, TakeFromNumerator),
    Case("paper-malicious", same_randomness_in_every_round, ReplayEarlier),
    Case("padded-verified", same_randomness_in_every_round, ReplayEarlier),
    Case("padded-verified", six_equal_units, ScaleAll),
    Case("padded-verified", without_pads, DropParty),
    Case("padded-verified", without_a_look_at_the_roster, DenyDropout),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_the_ingredient_an_auc_is_forged_unnoticed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.ablate(monkeypatch)
    tally = case.attack()
    # r_2/r_0 may be so large that what TakeFromNumerator leaves is below 0; that shows, ingredient or not.
    assert tally.caught <= 2
    assert tally.worst_shift >= 1e-3


def test_without_mixing_no_product_can_be_weighed_apart_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sheet has Σ D_L·D_R once for each weight: what is weighed otherwise keeps some of the cover, and is random.

    So mixing, on which the proof of soundness rests, is a second guard against it.
    """
    without_mixing(monkeypatch)
    tally = Case("padded-verified", without_mixing, ScaleAllButLast).attack()
    assert tally.caught == tally.tries


@pytest.mark.parametrize("case", CASES, ids=str)
def test_with_the_ingredient_the_same_is_caught(case: Case) -> None:
    tally = case.attack()
    # Five decimals overlook a shift by luck once in thousands of tries; exact algebra does not.
    assert tally.caught >= tally.tries - (case.protocol == "paper-malicious")


@pytest.mark.parametrize(("ablate", "runs"), [(same_maps_in_every_run, 3), (no_more_primes_than_needed, 1)])
def test_runs_with_the_same_maps_or_no_spare_primes_check_nothing(
    ablate: Callable[[pytest.MonkeyPatch], None], runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over one prime, which small data need, a random element is a possible fraction every fifteenth time or so."""
    consortium = Consortium(protocol="padded-verified", max_samples=2800, decision_points=5, options={"runs": runs})
    (caught,) = run_suite(consortium, ClearEngine(), [ScaleAll], tries=150)
    assert caught.caught == 150
    ablate(monkeypatch)
    (tally,) = run_suite(consortium, ClearEngine(), [ScaleAll], tries=150)
    assert tally.caught < 150
    assert tally.worst_shift >= HARMLESS
