"""What everyone derives from a round of `committee`, and what each of its members derives for itself alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from fheval import field
from fheval.engines import Parameters
from fheval.engines.parameters import bfv_linear, plain_moduli
from fheval.errors import CapacityError, LocalProtocolError
from fheval.field import Residues
from fheval.protocols import groups, padding
from fheval.protocols.base import Stage
from fheval.protocols.padding import packed_size
from fheval.protocols.pairwise import PairPlan
from fheval.protocols.release import exact_primes
from fheval.protocols.round import Batch, Denominator, PartySecrets, Round
from fheval.protocols.two_blinders import BLINDERS, HalfBlinding, TwoBlinders
from fheval.secrets import derive, expand, residues

# What of a message of 64 MiB is left to uploads when they are shown to members, and to the returns of a member.
MOST_SHOWN = 40 << 20
# A return has 0.13 MB for each prime and sheet, an offer up to 0.4 MB, and so has a public key.
MOST_RETURNED = 150
MOST_OFFERED = 140


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What everyone derives from the round: primes, slots, and the release; None stands for exact.

    Of groups, a party declares so many numbers.
    """

    primes: tuple[int, ...]
    plan: PairPlan
    batch: Batch
    rounded: TwoBlinders | None
    parts: tuple[slice, ...]
    members: tuple[str, ...]
    declared: int

    @classmethod
    def of(cls, round_: Round, members: tuple[str, ...]) -> Layout:
        """Lay a round out; refuses, before anyone sends anything, what would not fit."""
        if round_.batch is None:
            raise LocalProtocolError("A round of counts has no ratios to lay out.")
        bounds = [form.bound for form in round_.forms]
        rounded = None
        if round_.precision is None:
            primes = exact_primes(max(bounds), plain_moduli)
        else:
            rounded = _planned(tuple(bounds), round_.precision, round_.denominators)
            primes = rounded.primes
        plan = PairPlan.of(round_.forms, rounded is not None, bfv_linear(primes[0]).slots)
        shown = packed_size(round_.batch.size) * len(round_.parties)
        together = max(1, MOST_SHOWN // shown)
        parts = tuple(slice(first, first + together) for first in range(0, len(primes), together))
        for needed, most, what in (
            (plan.sheets * len(primes) * (len(members) - 1), MOST_RETURNED, "of a member's ciphertexts"),
            ((plan.sheets + 1) * len(primes) * len(members), MOST_OFFERED, "keys and ciphertexts of all members"),
            (shown, MOST_SHOWN, "bytes of uploads for one prime"),
            (len(parts), len(Stage.MIX.parts), "messages of uploads"),
        ):
            if needed > most:
                raise CapacityError(
                    f"The batch takes {needed:,} {what}, and a round has room for {most:,}. "
                    "Ask for fewer decision points, resamples, groups or metrics at once."
                )
        return cls(
            primes=primes,
            plan=plan,
            batch=round_.batch,
            rounded=rounded,
            parts=parts,
            members=members,
            declared=groups.untagged_size(round_),
        )

    @property
    def uploaded(self) -> list[tuple[int, int]]:
        """What a party uploads: numbers modulo which prime, and how many."""
        values = [(prime, self.batch.size) for prime in self.primes]
        return [*values, (groups.PRIME, self.declared)] if self.declared else values

    def shown(self, part: int) -> list[int]:
        """Which of that members are shown in one part of `mix`; what was declared goes with the first."""
        primes = list(range(len(self.primes))[self.parts[part]])
        return [*primes, len(self.primes)] if self.declared and part == 0 else primes

    def left(self, table: Residues, prime: int, *, one: int) -> Residues:
        """The left factors of all products; `one` is the table's share of the constant."""
        return self._factors(table, prime, one)[0]

    def right(self, table: Residues, prime: int, *, one: int) -> Residues:
        return self._factors(table, prime, one)[1]

    def _factors(self, table: Residues, prime: int, one: int) -> tuple[Residues, Residues]:
        (left,), (right,) = self.batch.factors_modulo(table[np.newaxis], (prime,), one=one)
        return left, right

    @property
    def parameters(self) -> list[Parameters]:
        """One BFV set per prime."""
        return padding.parameter_sets(self.primes)

    @property
    def mix_stages(self) -> tuple[Stage, ...]:
        """The stages in which uploads are shown."""
        return Stage.MIX.parts[: len(self.parts)]


@lru_cache(maxsize=16)
def _planned(bounds: tuple[int, ...], precision: float, denominators: tuple[Denominator, ...]) -> TwoBlinders:
    """The release of a round, which every step asks for again."""
    return TwoBlinders.plan(bounds, precision, denominators)


class OwnNumbers:
    """A member's secrets of one round, derived when they are needed; prime `n` is the n-th."""

    def __init__(self, layout: Layout, round_: Round, secrets: PartySecrets, index: int, nonce: bytes) -> None:
        if secrets.master is None:
            raise LocalProtocolError("Only a member of the committee has numbers of its own.")
        self._layout = layout
        self._denominators = round_.denominators
        self._seed = expand(secrets.master, "committee/round", round_.digest, nonce)
        self.index = index
        self.blinds = layout.rounded is not None and index < BLINDERS

    def _rows(self, usage: str, n: int, columns: int, *labels: bytes | int) -> Residues:
        plan, prime = self._layout.plan, self._layout.primes[n]
        drawn = residues(derive(self._seed, f"committee/{usage}", n, *labels), prime, columns * plan.forms)
        return drawn.reshape(-1, columns)

    def rho(self, n: int) -> Residues:
        """ρ_i: what hides the sum of all counts, as long as a table."""
        layout = self._layout
        return residues(derive(self._seed, "committee/rho", n), layout.primes[n], layout.batch.size)

    def masks(self, n: int) -> Residues:
        """u_i: what hides the shares of num and den, a row for each form."""
        return self._rows("masks", n, 2)

    def kept(self, seen: bytes, n: int) -> Residues:
        """What hides, until the next stage, what this member keeps for itself."""
        return self._rows("kept", n, 2, seen)

    def offsets(self, seen: bytes, other: int, n: int) -> Residues:
        """o: what is added to the groups that another member gets back."""
        layout = self._layout
        stream = derive(self._seed, "committee/offsets", n, seen, other)
        return residues(stream, layout.primes[n], layout.plan.groups)

    @cached_property
    def blinding(self) -> list[HalfBlinding]:
        """Blinder: its half."""
        if self._layout.rounded is None:
            raise LocalProtocolError("An exact release has no halves.")
        return self._layout.rounded.draw_half(self._denominators, derive(self._seed, "committee/blinding"))

    def drawn(self, name: str, n: int) -> Residues:
        """One number of the half for every form, modulo a prime."""
        return field.from_large_integers([getattr(each, name) for each in self.blinding], self._layout.primes[n])

    def weights(self, seen: bytes, n: int) -> Residues:
        """This member's share of K and b, a row for each form; with exact release of c, twice.

        B's share of the products follows from what it adds to them for A. A stands in with random numbers.
        """
        layout, prime = self._layout, self._layout.primes[n]
        if layout.rounded is None:
            return np.repeat(self._rows("weights", n, 1, seen), 2, axis=1)
        if self.index == 0:
            return self._rows("weights", n, 2, seen)
        if self.index == 1:
            _, _, added = layout.plan.split(self.offsets(seen, 0, n))
            fills = np.column_stack([self.drawn("fill_scale", n), self.drawn("fill_tilt", n)])
            return field.subtract(fills, added, prime)
        return np.zeros((layout.plan.forms, 2), dtype=np.uint64)

    def blinder_factors(self, other: int, n: int) -> Residues | None:
        """What the third part of another member's offer is multiplied by: B's half where it is A's, else nothing."""
        layout = self._layout
        if layout.rounded is None:
            return None
        if (self.index, other) != (1, 0):
            return np.zeros((layout.plan.forms, 3), dtype=np.uint64)
        scale, tilt = self.drawn("scale", n), self.drawn("tilt", n)
        return np.column_stack([scale, scale, tilt])

    def offered_blinding(self, n: int) -> Residues | None:
        """The third part of this member's offer: A's half."""
        if self._layout.rounded is None:
            return None
        if self.index != 0:
            return np.zeros((self._layout.plan.forms, 3), dtype=np.uint64)
        scale, tilt = self.drawn("scale", n), self.drawn("tilt", n)
        return np.column_stack([scale, tilt, scale])
