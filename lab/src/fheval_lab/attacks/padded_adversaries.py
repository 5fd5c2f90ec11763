"""Aggregators of both padded protocols that carry a strategy out.

They hold the sum of the padded uploads in the clear, ciphertexts of the leader's share of the true sum, and weights and
a cover of their own choice: so they tamper with sums, weights, and the answer. To compute with another sum than the
leader was given is to take off another cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from math import lcm
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fheval import field
from fheval.engines import Engine, Evaluator
from fheval.field import Residues
from fheval.protocols import padded, padded_verified, padding
from fheval.protocols.padded import PaddedCounts, PaddedResult, PadSums, RosterNotice
from fheval.protocols.round import PublicSetup, Round
from fheval.secrets import Randomness, residues
from fheval_lab.attacks.envelope import garbled
from fheval_lab.attacks.strategy import Knowledge, Mail, Strategy, Tampering

Indices = npt.NDArray[np.intp]


class Weighing(padding.LinearCircuit):
    """Weighs single products, as far as it can: the leader's products come as one sum for all of a stretch."""

    def __init__(self, evaluators: Sequence[Evaluator], plan: padding.SlotPlan) -> None:
        super().__init__(evaluators, plan)
        # By the prime.
        self.factors: dict[int, Residues] = {}

    def weighted(self, left: Residues, right: Residues, weights: Residues, moduli: Residues) -> padding.Factors:
        on_left, on_right = super().weighted(left, right, weights, moduli)
        factors = np.stack([self.factors[int(prime)] for prime in moduli[:, 0]])
        return field.multiply(on_left, factors, moduli), field.multiply(on_right, factors, moduli)


class PaddedAdversary(padded.Aggregator):
    """Deviates from `padded`, whose run is one and the same for all primes.

    Over each prime, the groups 2ρ and 2ρ + 1 of the slots are X and Y of run ρ.
    """

    plot: ClassVar[type[Strategy]]
    earlier: ClassVar[Sequence[PaddedCounts]]
    answer: ClassVar[type[PaddedResult]] = PaddedResult
    # What it does depends on the uploads.
    ahead = False

    @classmethod
    def used_slots(cls, round_: Round) -> int:
        """How many slots of an answer sums pass through, from the first."""
        # They lie on one sheet here, at its beginning.
        return cls.lay_out(round_).plan.used

    @staticmethod
    def ciphertexts(result: PaddedResult) -> list[list[bytes]]:
        """Those of an answer, by parameter set."""
        return [list(sheets) for sheets in result.ciphertexts]

    def __init__(self, engine: Engine, round_: Round, setup: PublicSetup, rng: Randomness) -> None:
        super().__init__(engine, round_, setup, rng)
        self.circuit = self.weighing = Weighing(self.circuit.evaluators, self.circuit.plan)
        bounds = [0, *self.layout.plan.ends]
        self.groups = [np.arange(start, stop, dtype=np.intp) for start, stop in pairwise(bounds)]
        self.runs = len(self.groups) // 2
        parties, slots = len(round_.parties), len(self.groups[0])
        known = Knowledge(parties=parties, runs=self.known_runs(), slots=slots, anchor_slots=1, rng=rng)
        self.strategy = self.plot(known)
        self.tampering = self.strategy.tamper_with_runs()
        self.inbox: dict[str, bytes] = {}
        self.received: list[PaddedCounts] = []

    def known_runs(self) -> int:
        """How many runs the strategy deals with."""
        return self.runs

    def number(self, _field: int, run: int) -> int:
        """What the strategy calls a run over one of the primes."""
        return run

    def home(self, field_: int, number: int) -> tuple[int, int]:
        """The prime and the run that the strategy means, seen from one of the primes."""
        return field_, number

    def receive(self, counts: PaddedCounts) -> None:
        self.inbox[counts.sender] = counts.values
        self.received.append(counts)
        self.roster.append(counts.sender)

    def close(self) -> RosterNotice:
        """Add up what the strategy chooses, and announce a roster, with the nonces that belong to it."""
        earlier = [counts.values for counts in self.earlier]
        mail = Mail(inbox=list(self.inbox.values()), earlier=earlier, forge=self.forge_upload)
        chosen = self.strategy.choose_uploads(mail)
        for upload in chosen:
            self.uploads.add(upload, "a party")
        self.roster = self.strategy.announce(tuple(self.inbox))
        nonces = {counts.sender: counts.nonce for counts in self.received}
        nonces |= {counts.sender: counts.nonce for counts in self.earlier if counts.values in chosen}
        self.nonces = [nonces[name] for name in self.roster]
        return super().close()

    def forge_upload(self) -> bytes:
        return self.layout.draw_cover(self.rng)

    def result(self, *parts: PadSums) -> PaddedResult:
        constants = self.strategy.constants()
        if not self.strategy.answers:
            ciphertexts: tuple[tuple[bytes, ...], ...] = ()
        elif constants is not None:
            ciphertexts = tuple(self._encrypted(evaluator, constants) for evaluator in self.circuit.evaluators)
        else:
            ciphertexts = super().result(*parts).ciphertexts
        answer = tuple(
            tuple(garbled(data, self.strategy, self.round.engine, evaluator.parameters) for data in sheets)
            for evaluator, sheets in zip(self.circuit.evaluators, ciphertexts, strict=False)
        )
        return PaddedResult(round=self.round.id, roster=tuple(self.inbox), ciphertexts=answer)

    def draw_blinding(self) -> list[padding.Blinding]:
        """Honest weights times the strategy's factors, all of them times what makes the factors integers."""
        common = lcm(*(part.denominator for each in self.tampering for part in (each.borrowed, *each.factors)))
        return [
            (self._weights(weights, common, index), [common * offset for offset in offsets])
            for index, (weights, offsets) in enumerate(super().draw_blinding())
        ]

    def _weights(self, honest: Residues, common: int, index: int) -> Residues:
        """The weights of all stretches; factors that differ within one go to the circuit."""
        plan, prime = self.layout.plan, self.layout.primes[index]
        weights = field.multiply(honest, common, prime)
        single = np.ones(len(plan.source), dtype=np.uint64)
        bounds = [0, *plan.stretches]
        for run in range(self.runs):
            tampering = self.tampering[self.number(index, run)]
            start, middle, stop = [0, *plan.groups][2 * run : 2 * run + 3]
            if tampering.factors:
                given = iter(tampering.factors)
                for stretch in range(start, middle):
                    products = slice(*bounds[stretch : stretch + 2])
                    factors = list(islice(given, products.stop - products.start))
                    if len(set(factors)) == 1:
                        weights[stretch] = int(honest[stretch]) * int(factors[0] * common) % prime
                    else:
                        single[products] = [
                            each.numerator * pow(each.denominator, -1, prime) % prime for each in factors
                        ]
            if tampering.borrowed and self._shares_products(run):
                added = int(honest[stop - 1]) * int(tampering.borrowed * common)
                weights[middle - 1] = (int(weights[middle - 1]) + added) % prime
        self.weighing.factors[prime] = single
        return weights

    def factors(self) -> list[padding.Factors]:
        """The cover that makes of the sum what the strategy wants it to be."""
        primes = self.layout.primes
        honest = [np.stack(each) for each in self.layout.factors(self.uploads.totals(primes), primes, cover=False)]
        covers = [np.stack(each) for each in super().factors()]
        source, sources = self.layout.plan.source, self.strategy.sources()
        changed = []
        for index, prime in enumerate(primes):
            sides = honest[index].copy()
            for run in range(self.runs):
                number = self.number(index, run)
                other_index, other_run = self.home(index, sources[number])
                for mine, other in zip(self._slots(run), self._slots(other_run), strict=True):
                    sides[:, source[mine]] = honest[other_index][:, source[other]] % np.uint64(prime)
                self._tamper(sides, run, self.tampering[number], prime)
            taken_off = field.add(covers[index], field.subtract(honest[index], sides, prime), prime)
            changed.append((taken_off[0], taken_off[1]))
        return changed

    def _tamper(self, sides: Residues, run: int, tampering: Tampering, prime: int) -> None:
        x, y = (self.layout.plan.source[slots] for slots in self._slots(run))
        left = sides[0]
        for slot, amount in tampering.additions.items():
            left[x[slot]] = (int(left[x[slot]]) + amount) % prime
        if tampering.rotated:
            left[x] = np.roll(left[x], -1)
        if tampering.borrowed and not self._shares_products(run):
            # Slots cannot be moved, so that Y's products cannot be added to X; Y's sums can be added to X's.
            sides[:, x[-1]] = field.add(sides[:, x[-1]], sides[:, y[-1]], prime)

    def _slots(self, run: int) -> tuple[Indices, Indices]:
        return self.groups[2 * run], self.groups[2 * run + 1]

    def _shares_products(self, run: int) -> bool:
        """Whether the products of Y are among those of X, as in a rounded release."""
        x, y = (self.layout.plan.source[slots] for slots in self._slots(run))
        return bool(np.isin(y, x).all())

    def _encrypted(self, evaluator: Evaluator, constants: tuple[int, int]) -> tuple[bytes, ...]:
        """X and Y in every run, as large as an honest release makes them."""
        rounded = getattr(self.layout, "rounded", None)
        scale = rounded.scales[0].smallest << 10 if rounded else 1
        offsets = [constant * scale for constant in constants] * self.runs
        plan, prime = self.circuit.plan, evaluator.parameters.plain_modulus
        numbers = residues(self.rng, prime, plan.used)
        missing = field.subtract(field.from_large_integers(offsets, prime), plan.sums(numbers, prime), prime)
        numbers[plan.corrected] = field.add(numbers[plan.corrected], missing, prime)
        return tuple(evaluator.dump(evaluator.encrypt(sheet)) for sheet in plan.cut(numbers))


class VerifiedAdversary(PaddedAdversary, padded_verified.Aggregator):
    """Deviates from `padded-verified`, whose every run over every prime has secrets of its own."""

    def known_runs(self) -> int:
        return self.runs * len(self.layout.primes)

    def number(self, field_: int, run: int) -> int:
        return field_ * self.runs + run

    def home(self, _field: int, number: int) -> tuple[int, int]:
        return divmod(number, self.runs)
