"""The paper's protocol for a malicious aggregator (section "Malicious Setting"), twelve steps, two runs, on CKKS.

In each run the parties multiply their counts by secret factors r_3 … r_8, add masks that sum to zero over the
parties, split every product into S slots and shuffle the slots. The aggregator computes

    X = c·(r_0·num + r_1·den)    and    Y = c·r_2·den,    r_0 = r_3·r_4, r_1 = r_5·r_6, r_2 = r_7·r_8,

and the parties solve for num/den in both runs: the two must agree to five decimals. Everything that the parties
share is derived from their common seed, so that no message carries it.

What it does not do: a deviation that moves the ratio by little more than five decimals can pass, see SECURITY.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import comb, log2, sqrt

import numpy as np
import numpy.typing as npt

from fheval.engines import Ciphertext, Engine, Evaluator, KeyHolder, Parameters
from fheval.engines.parameters import CKKS_PAPER
from fheval.errors import ConfigError, RemoteProtocolError, UndefinedMetric, VerificationFailed
from fheval.protocols import base
from fheval.protocols.base import Asked, Option, Playing, Seat, Words
from fheval.protocols.blinded_ratio import Accumulator, FloatVector, blinding_exponents, draw_blinding, hide, sparse
from fheval.protocols.paper_semi_honest import ENCRYPT, MULTIPLY, PaperSemiHonest, require_roster, the_form
from fheval.protocols.round import (
    AGGREGATOR,
    Contribution,
    PartySecrets,
    PublicSetup,
    Round,
    Verdict,
    from_this_round,
    require_keys,
)
from fheval.secrets import Randomness, Secret, bits, derive, log_uniform_float, permutation, symmetric_floats
from fheval.wire import Blob, Message, decode

NAME = "paper-malicious"
RUNS = 2

SPLITS = Option(name="splits", help="slots for each product", default=4)

# r_3 … r_8 are log-uniform over [2^-2, 2^2). Wide, so that the ratio r_2/r_0 of one run says nothing about the
# other's; not wider, because solving for num/den loses log2(r_1/r_0) bits, at most 8 of the 30 that CKKS gives.
MULTIPLIER_EXPONENTS = (-2, 2)
# X = r_0·num + r_1·den is below 2^(4 + 1) times the larger of num and den.
FACTOR_BITS = 5

# Masks and shares are uniform in ±B, B as large as any count but within these bounds. The encoder works in doubles, so
# a slot of size B is off by about B·2^-51; multiplied by a share of size B and summed over S·N slots this puts
# B²·2^-51·√(S·N) on num: 2^-15 at B = 2^16 and S·N = 400, which five decimals of a den of 350 or more do not show.
# Larger masks would raise false alarms on more data than that; smaller ones would let a dropped party of a large data
# set hide below five decimals. Who has less data states a smaller max_samples.
LEAST_MASK_BOUND, LARGEST_MASK_BOUND = 1 << 10, 1 << 16

# Equal to five decimals.
TOLERANCE = 5e-6

# What X is off by, over √(S·N) and before it is blinded (largest of several measured rounds, both engines), is at most
# √parties·B·(B·ENCODING_NOISE + ENCRYPTION_NOISE) from the masks and shares, and max_samples·COUNT_NOISE. Noise stays
# below eight times that.
ENCODING_NOISE = 2.0**-52
ENCRYPTION_NOISE = 2.0**-40
COUNT_NOISE = 2.0**-35
NOISE_MARGIN = 8


class CountShares(Message, frozen=True, kw_only=True):
    """Step 8, party to aggregator: for each run E(T_all), E(F_all), E(DT), E(DF)."""

    round: str
    sender: str
    runs: tuple[tuple[Blob, Blob, Blob, Blob], ...]


class BlindedResults(Message, frozen=True, kw_only=True):
    """Step 11, aggregator to parties: for each run E(X) and E(Y)."""

    round: str
    roster: tuple[str, ...]
    runs: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonRandomness:
    """Set-up, all parties: what one run of the round shares, unknown to the aggregator."""

    r3: float = field(repr=False)
    r4: float = field(repr=False)
    r5: float = field(repr=False)
    r6: float = field(repr=False)
    r7: float = field(repr=False)
    r8: float = field(repr=False)
    split_left: npt.NDArray[np.bool_] = field(repr=False)
    order: npt.NDArray[np.intp] = field(repr=False)

    @classmethod
    def derive(cls, seed: Secret[bytes], round_: Round, run: int) -> CommonRandomness:
        """r_3 … r_8, the bits b (True where T is the side that is split) and the permutation π of this run."""
        terms = the_form(round_).terms
        stream = derive(seed, "paper-malicious/common", round_.digest, run)
        r3, r4, r5, r6, r7, r8 = (log_uniform_float(stream, *MULTIPLIER_EXPONENTS) for _ in range(6))
        return cls(
            r3=r3, r4=r4, r5=r5, r6=r6, r7=r7, r8=r8,
            split_left=bits(stream, terms),
            order=permutation(stream, terms * SPLITS.of(round_)),
        )  # fmt: skip

    def ratio(self, x: float, y: float) -> float:
        """num/den = (X/Y − r_1/r_2)·r_2/r_0."""
        r0, r1, r2 = self.r3 * self.r4, self.r5 * self.r6, self.r7 * self.r8
        return (x / y - r1 / r2) * r2 / r0


def parameters(round_: Round) -> Parameters:
    """The parameter set of the round; refuses, before anyone encrypts, what would not fit."""
    form = the_form(round_)
    if round_.precision is not None:
        raise ConfigError(f"{NAME} compares exact results and releases them. Use --precision exact with it.")
    if form.denominator != 1:
        raise ConfigError(f"{NAME} knows ratios over one product only. Use a protocol that answers any metric.")
    SPLITS.check(SPLITS.of(round_))
    if len(round_.parties) < 2:
        raise ConfigError(f"{NAME} needs two parties or more: the masks of one alone cannot cancel.")
    exponents(round_)
    width = SPLITS.of(round_) * form.terms
    CKKS_PAPER.require_slots(width, f"{NAME} with {form.terms} decision points and {SPLITS.of(round_)} splits")
    return CKKS_PAPER.with_slot_sums(width)


def exponents(round_: Round) -> tuple[int, int]:
    """The range of c, as exponents: as wide as the parameters carry."""
    return blinding_exponents(CKKS_PAPER, round_.bound_of_factors, FACTOR_BITS)


def soundness_bits(decision_points: int, splits: int) -> float:
    """The paper's guessing bound (S!(SN−S)!/(SN)!)² = C(SN, S)^-2, in bits.

    >>> soundness_bits(100, 4), soundness_bits(100, 7), soundness_bits(25, 9)
    (59.9, 107.6, 103.2)
    """
    return round(2 * log2(comb(splits * decision_points, splits)), 1)


def mask_bound(round_: Round) -> int:
    """B: masks and shares lie in ±B."""
    return min(max(round_.max_samples, LEAST_MASK_BOUND), LARGEST_MASK_BOUND)


def party_masks(seed: Secret[bytes], round_: Round, run: int, me: str, side: str) -> FloatVector:
    """Set-up: tr_m or fr_m, N + 1 integers; the last party's are minus the sum of all others'."""
    terms = the_form(round_).terms + 1

    def own(party: str) -> FloatVector:
        stream = derive(seed, "paper-malicious/mask", round_.digest, run, side, party)
        return np.rint(symmetric_floats(stream, mask_bound(round_), terms))

    *others, last = round_.parties
    if me != last:
        return own(me)
    total: FloatVector = np.sum([own(party) for party in others], axis=0)
    return -total


def party_submit(
    engine: Engine, round_: Round, secrets: PartySecrets, me: str, own: Contribution, rng: Randomness
) -> CountShares:
    """Steps 3 to 8, party, for both runs.

    Learns: nothing.
    """
    holder = engine.key_holder(parameters(round_), secrets.keys[0])
    runs = tuple(_one_run(holder, round_, secrets.seed, me, own, run, rng) for run in range(RUNS))
    return CountShares(round=round_.id, sender=me, runs=runs)


def _one_run(
    holder: KeyHolder,
    round_: Round,
    seed: Secret[bytes],
    me: str,
    own: Contribution,
    run: int,
    rng: Randomness,
) -> tuple[bytes, bytes, bytes, bytes]:
    common = CommonRandomness.derive(seed, round_, run)
    tr = party_masks(seed, round_, run, me, "tr")
    fr = party_masks(seed, round_, run, me, "fr")
    left, right = (side.astype(np.float64) for side in round_.factors(own))
    # Steps 3 and 4: T^n = r_3(… + tr^n) and F^n = r_4(… + fr^n), the anchor P, Q with r_5 and r_6.
    t, f = left + tr[:-1], right + fr[:-1]
    t[:-1], t[-1] = common.r3 * t[:-1], common.r5 * t[-1]
    f[:-1], f[-1] = common.r4 * f[:-1], common.r6 * f[-1]
    # Step 5: DT = r_7(P + tr^N), DF = r_8(Q + fr^N).
    dt, df = common.r7 * (left[-1:] + tr[-1:]), common.r8 * (right[-1:] + fr[-1:])
    # Steps 6 and 7: split into S slots, shuffle.
    t_all, f_all = split(t, f, common.split_left, SPLITS.of(round_), mask_bound(round_), rng)
    return (
        holder.encrypt(t_all[common.order]),
        holder.encrypt(f_all[common.order]),
        holder.encrypt(dt),
        holder.encrypt(df),
    )


def split(
    t: FloatVector, f: FloatVector, split_left: npt.NDArray[np.bool_], splits: int, bound: int, rng: Randomness
) -> tuple[FloatVector, FloatVector]:
    """Step 6: the side that the bit names becomes S additive shares in ±bound, the other is repeated S times.

    >>> from fheval.secrets import SystemRandomness
    >>> t, f = np.array([3.0, 4.0]), np.array([5.0, 6.0])
    >>> t_all, f_all = split(t, f, np.array([True, False]), 4, 1000, SystemRandomness())
    >>> round(float(t_all @ f_all), 3)
    39.0
    """
    shares = symmetric_floats(rng, bound, len(t) * splits).reshape(len(t), splits)
    shares[:, -1] = np.where(split_left, t, f) - shares[:, :-1].sum(axis=1)
    left = np.where(split_left[:, None], shares, t[:, None])
    right = np.where(split_left[:, None], f[:, None], shares)
    return left.ravel(), right.ravel()


class Aggregator(base.Aggregator):
    """Steps 9 to 11, honestly. Learns the roster, nothing else: it sees ciphertexts only."""

    upload = CountShares
    indispensable = Asked.EVERYONE

    def __init__(self, engine: Engine, round_: Round, setup: PublicSetup, rng: Randomness) -> None:
        self.round = round_
        require_keys(setup, 1)
        self.evaluator: Evaluator = engine.evaluator(parameters(round_), setup.keys[0])
        self.rng = rng
        self.roster: list[str] = []
        self.sums = [Accumulator(self.evaluator) for _ in range(RUNS)]

    def play(self) -> Playing:
        """Ask for shares, of everybody or the masks do not cancel, and let all parties open the answer."""
        yield from self.gather()
        return (yield from self.let_all_open(self.result))

    def receive(self, shares: CountShares) -> None:
        """Step 9: add the ciphertexts of both runs as they arrive."""
        self.check_sender(shares)
        if len(shares.runs) != RUNS:
            raise RemoteProtocolError(
                f"{shares.sender} sent {len(shares.runs)} runs instead of {RUNS}. The round was aborted.",
                step="CountShares",
                culprit=shares.sender,
            )
        loaded = [sums.load(ciphertexts) for sums, ciphertexts in zip(self.sums, shares.runs, strict=True)]
        for sums, ciphertexts in zip(self.sums, loaded, strict=True):
            sums.add(ciphertexts)
        self.roster.append(shares.sender)

    def result(self) -> BlindedResults:
        """Steps 10 and 11 for both runs, each with a c of its own."""
        missing = sorted(set(self.round.parties) - set(self.roster))
        if missing:
            raise RemoteProtocolError(
                f"No shares arrived from {', '.join(missing)}, without whom the masks do not cancel. "
                "Start a new round with the parties that remain.",
                step="CountShares",
                culprit=missing[0],
            )
        self.round.require_cohort(self.roster)
        self.answer_now()
        runs = tuple(self.blind(sums.totals) for sums in self.sums)
        return BlindedResults(round=self.round.id, roster=tuple(self.roster), runs=runs)

    def blind(self, totals: Sequence[Ciphertext]) -> tuple[bytes, bytes]:
        """Steps 10 and 11 of one run: X = c·Σ T_all·F_all and Y = c·DT·DF, everything else hidden."""
        ev = self.evaluator
        t, f, dt, df = totals
        c = draw_blinding(self.rng, exponents(self.round))
        x = ev.slot_sum(ev.multiply(t, f), SPLITS.of(self.round) * the_form(self.round).terms)
        y = ev.multiply(dt, df)
        x, y = (hide(ev, ev.multiply_plain(each, sparse({0: c})), [0], self.rng) for each in (x, y))
        return ev.dump(x), ev.dump(y)


def party_open(engine: Engine, round_: Round, secrets: PartySecrets, results: BlindedResults) -> Verdict:
    """Step 12 and the verification, party: solve for num/den in both runs and compare to five decimals.

    Learns: the ratio, and den to within the width of c; or that the aggregator deviated. Says so to no one.
    """
    from_this_round(round_, results.round, AGGREGATOR, "BlindedResults")
    if set(results.roster) != set(round_.parties) or len(results.runs) != RUNS:
        raise VerificationFailed
    round_.require_cohort(results.roster)
    holder = engine.key_holder(parameters(round_), secrets.keys[0])
    values = [tuple(float(holder.decrypt(data)[0].real) for data in run) for run in results.runs]
    ratios = [
        CommonRandomness.derive(secrets.seed, round_, run).ratio(x, y) if y else float("nan")
        for run, (x, y) in enumerate(values)
    ]
    # Written so that a NaN fails too.
    if not abs(ratios[0] - ratios[1]) <= TOLERANCE or not -TOLERANCE <= ratios[0] <= 1 + TOLERANCE:
        if np.abs(values).max() < largest_noise(round_):
            raise UndefinedMetric(
                "The metric is undefined: the aggregator's answer is nothing but noise. Either the parties together "
                "hold samples of one class only, or next to none, and more must join, or the aggregator answered "
                "nothing."
            )
        raise VerificationFailed
    return Verdict(
        ratios=(sum(ratios) / RUNS,),
        roster=results.roster,
        verified=True,
        soundness_bits=soundness_bits(the_form(round_).terms, SPLITS.of(round_)),
    )


def largest_noise(round_: Round) -> float:
    """What X and Y stay below when num and den are zero, whatever c is."""
    _, high = exponents(round_)
    bound = mask_bound(round_)
    of_masks = sqrt(len(round_.parties)) * bound * (bound * ENCODING_NOISE + ENCRYPTION_NOISE)
    per_slot = of_masks + COUNT_NOISE * round_.max_samples
    return 2.0**high * NOISE_MARGIN * sqrt(SPLITS.of(round_) * the_form(round_).terms) * per_slot


class PaperMalicious(PaperSemiHonest):
    """The paper's protocol for a malicious aggregator."""

    name = NAME
    words = Words(
        summary="the paper's twelve steps, run twice; a forged result is refused; exact up to noise",
        aggregator="may do anything: a forged result is refused",
        upload=PaperSemiHonest.words.upload,
        leader_upload=PaperSemiHonest.words.leader_upload,
        views=PaperSemiHonest.words.views,
        together=f"{PaperSemiHonest.words.together} Such a party can also help it to pass off a forged result.",
        steps=(
            "It multiplies the counts by secret factors, adds masks that cancel over the parties, splits them into "
            "shares and permutes these, all of it in ways that the aggregator does not know.",
            ENCRYPT,
            MULTIPLY,
            "All of this happens twice, with fresh randomness. Every party decrypts both results, undoes the factors "
            "and compares them to five digits; if they differ, there is no result.",
        ),
        exact=PaperSemiHonest.words.exact,
        # It compares its runs to five; measured, it is off by up to 2e-6 on 12 samples at 1,000 points.
        exact_decimals=5,
    )
    resists = True
    tolerance = TOLERANCE
    options: tuple[Option, ...] = (SPLITS,)
    aggregator: type[base.Aggregator] = Aggregator

    def parameter_sets(self, round_: Round) -> list[Parameters]:
        return [parameters(round_)]

    def submit(self, seat: Seat, nonce: bytes) -> Message:  # noqa: ARG002 (encryptions are fresh by themselves)
        return party_submit(seat.engine, seat.round, seat.secrets, seat.me, seat.own, seat.rng)

    def open(
        self, engine: Engine, round_: Round, secrets: PartySecrets, roster: tuple[str, ...], answer: bytes
    ) -> Verdict:
        results = decode(answer, BlindedResults, sender=AGGREGATOR)
        require_roster(results.roster, roster)
        return party_open(engine, round_, secrets, results)

    def soundness_bits(self, round_: Round) -> float:
        return soundness_bits(the_form(round_).terms, SPLITS.of(round_))


PROTOCOL = PaperMalicious()
