"""Products between members of a committee, two at a time: the algebra of `committee`.

Let V be the sum of all tables of counts, Y the sum of the uploads and R_i the sum of the pads that member i can derive,
so that V = Y − Σ R_i. Each member draws ρ_i, as long as a table, and tells D_i = −R_i − ρ_i. Then

    δ = Y + Σ D_i = V − ρ,   ρ = Σ ρ_i,

is known to everybody and says nothing, since every ρ_i is uniform. With r_i = −R_i and the linear maps L and R that
make factors out of a table,

    ⟨V_L, V_R⟩ = ⟨δ_L, Y_R⟩ + Σ_i ⟨δ_L, r_i,R⟩ + Σ_i ⟨ρ_i,L , Y_R⟩ + Σ_i ⟨ρ_i,L , r_i,R⟩ + Σ_{i≠j} ⟨ρ_i,L , r_j,R⟩:

all but the last sum is public or a member's own. For the last, member i offers Enc_i(ρ_i,L) under its own key before
there are any uploads. Member j multiplies it by r_j,R, adds masks that sum to a random o_ji over the group, and returns
it; i decrypts ⟨ρ_i, r_j⟩ + o_ji, and j keeps −o_ji. Slots are masked as in `padding`, so that i learns nothing else.

Shares of num and den become shares of X and Z in the same way. Member i offers Enc_i(u_i) as well, and later tells its
share of num and den less u_i. Whoever has a share w_j of a secret weight returns w_j·u_i + o: with the public
differences, that is all of w·num. The two blinders need shares of K_A·K_B before they know them. B picks its own, by
its choice of o, and A stands in with random numbers, whose difference θ to its true share it tells in the next step;
θ is uniform, and everyone multiplies its own share of num and den by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fheval import field
from fheval.engines import Evaluator
from fheval.errors import CapacityError
from fheval.field import Residues
from fheval.protocols.padding import MOST_PRODUCTS
from fheval.protocols.round import Form
from fheval.secrets import Randomness, derive, new_seed, residues


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPlan:
    """What sits where in the slots of an offer, and which slots of a return are added up.

    The slots are numbered through all ciphertexts, which are called sheets. First the products, form by form, those of
    num before those of den; then each form's masks u, for num and den, and where a release is rounded den once more;
    then, where it is rounded, what the two blinders multiply; then one slot for each group, which holds an encrypted 1
    and makes the group's sum right. Groups, in this order: num and den of each form; X and Z of each form; and
    K_A·K_B and K_A·b_B + K_B·b_A of each form.
    """

    products: int
    forms: int
    rounded: bool
    starts: tuple[int, ...]
    slots: int

    @classmethod
    def of(cls, forms: Sequence[Form], rounded: bool, slots: int) -> PairPlan:
        sizes = [size for form in forms for size in (form.numerator, form.denominator)]
        longest = max(sizes)
        if longest > MOST_PRODUCTS:
            raise CapacityError(
                f"A sum of {longest} products is too long: it may have {MOST_PRODUCTS}. Use fewer decision points."
            )
        sizes += [2, 1] * len(forms) if rounded else [1, 1] * len(forms)
        sizes += [1, 2] * len(forms) if rounded else []
        return cls(
            products=sum(form.terms for form in forms),
            forms=len(forms),
            rounded=rounded,
            starts=tuple(np.cumsum([0, *sizes])[:-1].tolist()),
            slots=slots,
        )

    @property
    def groups(self) -> int:
        return len(self.starts)

    @property
    def factors(self) -> int:
        """How many slots there are before those of the groups."""
        return self.products + (6 if self.rounded else 2) * self.forms

    @property
    def sheets(self) -> int:
        return -(-(self.factors + self.groups) // self.slots)

    def lay(self, products: Residues, masks: Residues, blinders: Residues | None, groups: Residues) -> list[Residues]:
        """A vector over all slots, sheet by sheet, from its four parts; one row for each form in the middle two."""
        middle = [masks.reshape(-1)] if blinders is None else [masks.reshape(-1), blinders.reshape(-1)]
        return self.cut(np.concatenate([products, *middle, groups]))

    def cut(self, slots: Residues) -> list[Residues]:
        return [slots[start : start + self.slots] for start in range(0, self.factors + self.groups, self.slots)]

    def sums(self, slots: Residues, prime: int) -> Residues:
        """Add up the slots of each group."""
        factors, corrections = slots[: self.factors], slots[self.factors : self.factors + self.groups]
        summed: Residues = np.add.reduceat(factors, self.starts) % np.uint64(prime)
        return field.add(summed, corrections, prime)

    def products_of(self, left: Residues, right: Residues, prime: int) -> Residues:
        """Σ left·right over num and over den of each form, as rows of two."""
        starts = self.starts[: 2 * self.forms]
        summed: Residues = np.add.reduceat(field.multiply(left, right, prime), starts) % np.uint64(prime)
        return summed.reshape(-1, 2)

    def split(self, sums: Residues) -> tuple[Residues, Residues, Residues]:
        """The groups' sums by form: those of (num, den), of (X, Z), and of what the blinders multiply."""
        rows = sums.reshape(-1, self.forms, 2)
        return rows[0], rows[1], rows[2] if self.rounded else rows[1]


def returned(
    evaluator: Evaluator,
    plan: PairPlan,
    offer: Sequence[bytes],
    factors: Sequence[Residues],
    offsets: Residues,
    rng: Randomness,
) -> tuple[bytes, ...]:
    """Member j, for i: what i offered times `factors`, whose groups then add up to the products plus the offsets.

    `factors` are those of all slots but the groups', sheet by sheet as `plan.lay` cuts them, with zeros at the end. As
    in `padding`, masks are drawn for every slot, and the result is switched down with a fresh encryption of them in it.
    """
    prime = evaluator.parameters.plain_modulus
    stream = derive(new_seed(rng), "committee/mask")
    masks = [residues(stream, prime, plan.slots) for _ in range(plan.sheets)]
    everything = np.concatenate(factors)
    everything[plan.factors :] = field.subtract(offsets, plan.sums(np.concatenate(masks), prime), prime)
    return tuple(
        _sheet(evaluator, data, multipliers, mask)
        for data, multipliers, mask in zip(offer, plan.cut(everything), masks, strict=True)
    )


def _sheet(evaluator: Evaluator, data: bytes, multipliers: Residues, mask: Residues) -> bytes:
    result = evaluator.encrypt(mask, dropped=1)
    if np.any(multipliers):
        # The mask is added before the last drop, whose rounding is then random and all that is left of the noise.
        product = evaluator.drop_level(evaluator.multiply_plain(evaluator.load(data), multipliers))
        evaluator.accumulate(result, product)
    while result.limbs > 1:
        result = evaluator.drop_level(result)
    return evaluator.dump(result)
