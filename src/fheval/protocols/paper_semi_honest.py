"""The paper's protocol for a semi-honest aggregator (section "Semi-honest Setting"), nine steps, on CKKS.

Parties share a secret key that the aggregator lacks. The aggregator adds encrypted counts, computes num and den,
blinds both by one secret factor c, and the parties decrypt c·num and c·den. Beyond the printed protocol: c is
log-uniform over the widest range the parameters carry, every slot but the answer's is hidden, and `precision` adds
c·δ·den to the blinded numerator, δ uniform in ±precision/2.

Two packings: "paper" sends T, F, P and Q as four ciphertexts; "compact" lets P and Q ride behind T and F in two.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from fheval.engines import Ciphertext, Engine, Parameters
from fheval.engines.parameters import CKKS_PAPER
from fheval.errors import ConfigError, RemoteProtocolError, UndefinedMetric
from fheval.protocols import base
from fheval.protocols.base import OpenedByAll, Option, Playing, Seat, View, Words
from fheval.protocols.blinded_ratio import Accumulator, FloatVector, blinding_exponents, draw_blinding, hide, sparse
from fheval.protocols.round import (
    AGGREGATOR,
    Contribution,
    Form,
    PartySecrets,
    PublicSetup,
    Round,
    Verdict,
    from_this_round,
    require_keys,
)
from fheval.secrets import Randomness, symmetric_floats
from fheval.wire import Blob, Message, decode

NAME = "paper-semi-honest"
PACKING = Option(name="packing", help="4 ciphertexts, or 2", default="paper", choices=("paper", "compact"))

# An encrypted zero decrypts to about 2^-41·√parties (measured, both engines), and a product with it to that times the
# other factor. With one class only, P·2Q is such a product, and this times max_samples·√parties is five times its
# standard deviation. The rotations of compact packing add 2^-34 at most, which this many samples cover.
ZERO_NOISE = 5 * 2.0**-40
FEWEST_SAMPLES = 64

# Below this, c·δ would be encoded as zero, which SEAL refuses as a factor; δ is then under 2^-26 and changes nothing.
SMALLEST_SHIFT = 2.0**-38


class CountShare(Message, frozen=True, kw_only=True):
    """Step 4, party to aggregator: E(T), E(F), E(P), E(Q), or E(T, P) and E(F, Q) in compact packing."""

    round: str
    sender: str
    ciphertexts: tuple[Blob, ...]


class BlindedResult(Message, frozen=True, kw_only=True):
    """Step 8, aggregator to parties: E(c·num) and E(c·den), or both in one ciphertext in compact packing."""

    round: str
    roster: tuple[str, ...]
    ciphertexts: tuple[bytes, ...]


def parameters(round_: Round) -> Parameters:
    """The parameter set of the round; refuses, before anyone encrypts, what would not fit."""
    form = the_form(round_)
    PACKING.check(PACKING.of(round_))
    exponents(round_)
    if PACKING.of(round_) == "compact":
        CKKS_PAPER.require_slots(2 * anchor(form), "Compact packing")
        return CKKS_PAPER.with_slot_sums(2 * anchor(form))
    width = max(form.numerator, form.denominator)
    CKKS_PAPER.require_slots(width, f"{NAME} with {form.terms} products")
    return CKKS_PAPER.with_slot_sums(width)


def exponents(round_: Round) -> tuple[int, int]:
    """The range of c, as exponents: as wide as the parameters carry while one class only still shows as den = 0."""
    noise = ZERO_NOISE * max(round_.max_samples, FEWEST_SAMPLES) * sqrt(len(round_.parties))
    return blinding_exponents(CKKS_PAPER, round_.bound_of_factors, zero_noise=noise)


def the_form(round_: Round) -> Form:
    """The one ratio that a paper protocol computes a round."""
    if len(round_.forms) != 1:
        raise ConfigError(f"{round_.protocol} answers one evaluation a round. Use padded for several.")
    return round_.forms[0]


def anchor(form: Form) -> int:
    """The slot of P and Q in compact packing: the first that a slot sum over T·F does not reach."""
    return 1 << max(form.terms - 1, 1).bit_length()


def party_submit(engine: Engine, round_: Round, secrets: PartySecrets, me: str, own: Contribution) -> CountShare:
    """Steps 3 and 4, party: encrypt T, F, P and Q under the shared secret key.

    Learns: nothing. The counts themselves are steps 1 and 2.
    """
    form = the_form(round_)
    holder = engine.key_holder(parameters(round_), secrets.keys[0])
    left, right = (side.astype(np.float64) for side in round_.factors(own))
    split = form.numerator
    if PACKING.of(round_) == "compact":
        vectors = [_behind(left, form), _behind(right, form)]
    else:
        vectors = [left[:split], right[:split], left[split:], right[split:]]
    return CountShare(round=round_.id, sender=me, ciphertexts=tuple(holder.encrypt(v) for v in vectors))


def _behind(values: FloatVector, form: Form) -> FloatVector:
    vector = np.zeros(anchor(form) + form.denominator)
    vector[: form.numerator] = values[: form.numerator]
    vector[anchor(form) :] = values[form.numerator :]
    return vector


class Aggregator(base.Aggregator):
    """Steps 5 to 8. Learns the roster, nothing else: it sees ciphertexts only."""

    upload = CountShare

    def __init__(self, engine: Engine, round_: Round, setup: PublicSetup, rng: Randomness) -> None:
        self.round = round_
        require_keys(setup, 1)
        self.evaluator = engine.evaluator(parameters(round_), setup.keys[0])
        self.rng = rng
        self.roster: list[str] = []
        self.sums = Accumulator(self.evaluator)

    def play(self) -> Playing:
        """Ask for shares, and let all parties open the answer."""
        yield from self.gather()
        return (yield from self.let_all_open(self.result))

    def receive(self, share: CountShare) -> None:
        """Steps 5 and 6: E(T) = Σ_m E(T_m), and so on, as the shares arrive."""
        self.check_sender(share)
        expected = 2 if PACKING.of(self.round) == "compact" else 4
        if len(share.ciphertexts) != expected:
            raise RemoteProtocolError(
                f"{share.sender} sent {len(share.ciphertexts)} ciphertexts instead of {expected}. "
                "The round was aborted.",
                step="CountShare",
                culprit=share.sender,
            )
        self.sums.add(self.sums.load(share.ciphertexts))
        self.roster.append(share.sender)

    def result(self) -> BlindedResult:
        """Steps 7 and 8: num = Σ T·F, den = Σ P·Q, both times c, everything else hidden."""
        self.round.require_cohort(self.roster)
        self.answer_now()
        form = the_form(self.round)
        c = draw_blinding(self.rng, exponents(self.round))
        shift = 0.0
        if self.round.precision is not None:
            shift = c * float(symmetric_floats(self.rng, self.round.precision / 2, 1)[0])
        release = self._compact if PACKING.of(self.round) == "compact" else self._paper
        ciphertexts = tuple(self.evaluator.dump(each) for each in release(form, c, shift))
        return BlindedResult(round=self.round.id, roster=tuple(self.roster), ciphertexts=ciphertexts)

    def _paper(self, form: Form, c: float, shift: float) -> list[Ciphertext]:
        ev = self.evaluator
        t, f, p, q = self.sums.totals
        num = ev.slot_sum(ev.multiply(t, f), form.numerator)
        den = ev.slot_sum(ev.multiply(p, q), form.denominator)
        blinded_num = ev.multiply_plain(num, sparse({0: c}))
        if abs(shift) > SMALLEST_SHIFT:
            blinded_num = ev.add(blinded_num, ev.multiply_plain(den, sparse({0: shift})))
        return [hide(ev, blinded, [0], self.rng) for blinded in (blinded_num, ev.multiply_plain(den, sparse({0: c})))]

    def _compact(self, form: Form, c: float, shift: float) -> list[Ciphertext]:
        ev = self.evaluator
        den_slot = anchor(form)
        # Slots 0 … den_slot − 1 add up to num in slot 0, the ones behind to den in slot den_slot.
        sums = ev.slot_sum(ev.multiply(*self.sums.totals), den_slot)
        blinded = ev.multiply_plain(sums, sparse({0: c, den_slot: c}))
        if abs(shift) > SMALLEST_SHIFT:
            blinded = ev.add(blinded, ev.multiply_plain(ev.rotate(sums, den_slot), sparse({0: shift})))
        return [hide(ev, blinded, [0, den_slot], self.rng)]


def party_open(engine: Engine, round_: Round, secrets: PartySecrets, result: BlindedResult) -> Verdict:
    """Step 9, party: decrypt c·num and c·den and divide.

    Learns: the ratio, and den to within the width of c.
    """
    from_this_round(round_, result.round, AGGREGATOR, "BlindedResult")
    round_.require_cohort(result.roster)
    compact = PACKING.of(round_) == "compact"
    if len(result.ciphertexts) != (1 if compact else 2):
        raise RemoteProtocolError(
            f"The aggregator's answer has {len(result.ciphertexts)} ciphertexts. The round was aborted.",
            step="BlindedResult",
            culprit=AGGREGATOR,
        )
    holder = engine.key_holder(parameters(round_), secrets.keys[0])
    slots = [holder.decrypt(data).real for data in result.ciphertexts]
    num, den = float(slots[0][0]), float(slots[-1][anchor(the_form(round_)) if compact else 0])
    low, high = exponents(round_)
    # den is an even integer: below half the smallest blinded one there is only noise.
    if abs(den) < 2.0**low:
        raise UndefinedMetric
    return Verdict(ratios=(num / den,), roster=result.roster, hiding_bits=high - low)


ENCRYPT = "It encrypts the counts under a key that all parties hold and the aggregator does not, and sends them."
MULTIPLY = (
    "The aggregator adds the ciphertexts of all parties, multiplies true by false positives under encryption, and "
    "multiplies numerator and denominator by one random factor."
)


def require_roster(answered: tuple[str, ...], uploaded: tuple[str, ...]) -> None:
    """Refuse an answer in the name of other parties than those who uploaded."""
    if answered != uploaded:
        raise RemoteProtocolError(
            "The aggregator's answer names other parties than it has uploads of. The round was aborted.",
            step="result",
            culprit=AGGREGATOR,
        )


class PaperSemiHonest(OpenedByAll):
    """The paper's protocol for a semi-honest aggregator."""

    name = NAME
    words = Words(
        summary="the paper's nine steps; the aggregator follows the protocol; exact up to noise",
        aggregator="follows the protocol, and is curious",
        upload="ciphertexts",
        leader_upload="public and evaluation keys",
        views=(
            View(
                role="party",
                who="each party",
                sees="its own rows, and the result; it holds the key that opens all uploads, and gets none of them",
            ),
            View(role="leader", who="the leader, one of them", sees="the same; it makes the keys for all"),
        ),
        together="Any one party and the aggregator together can open every upload, and so learn everybody's counts.",
        steps=(ENCRYPT, MULTIPLY, "Every party decrypts the two blinded numbers and divides: the factor cancels."),
        # Measured, it is off by at most 4e-10, on 12 samples.
        exact="exact up to the noise of CKKS",
    )
    batch = False
    resists = False
    # As printed, the result is exact up to the noise of CKKS.
    default_precision: float | None = None
    options: tuple[Option, ...] = (PACKING,)
    aggregator: type[base.Aggregator] = Aggregator

    def parameter_sets(self, round_: Round) -> list[Parameters]:
        return [parameters(round_)]

    def submit(self, seat: Seat, nonce: bytes) -> Message:  # noqa: ARG002 (encryptions are fresh by themselves)
        return party_submit(seat.engine, seat.round, seat.secrets, seat.me, seat.own)

    def open(
        self, engine: Engine, round_: Round, secrets: PartySecrets, roster: tuple[str, ...], answer: bytes
    ) -> Verdict:
        result = decode(answer, BlindedResult, sender=AGGREGATOR)
        require_roster(result.roster, roster)
        return party_open(engine, round_, secrets, result)


PROTOCOL = PaperSemiHonest()
