"""Aggregators of both paper protocols that carry a strategy out, on CKKS ciphertexts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from fheval.engines import Ciphertext, Engine, Evaluator
from fheval.protocols import paper_malicious, paper_semi_honest
from fheval.protocols.blinded_ratio import FloatVector, blinding_exponents, draw_blinding, hide, sparse
from fheval.protocols.paper_semi_honest import the_form
from fheval.protocols.round import PublicSetup, Round
from fheval.secrets import Randomness, symmetric_floats
from fheval.wire import Message
from fheval_lab.attacks.envelope import garbled
from fheval_lab.attacks.strategy import Knowledge, Mail, Strategy, Tampering

# What one party sends: for each run the ciphertexts of T, F and the two sides of the denominator.
Upload = tuple[tuple[bytes, ...], ...]

# Forged counts look like those of a small party.
_FORGED_BOUND = 100.0


class Forgery:
    """Sums of chosen uploads, tampered products, and an answer that may be anything."""

    def __init__(self, evaluator: Evaluator, round_: Round, strategy: Strategy, factor_bits: int) -> None:
        self.evaluator = evaluator
        self.round = round_
        self.strategy = strategy
        self.known = strategy.known
        self.factor_bits = factor_bits

    def answers(self, inbox: Sequence[Upload], earlier: Sequence[Upload]) -> tuple[tuple[bytes, bytes], ...]:
        """For each run X and Y as the strategy has them."""
        if not self.strategy.answers:
            return ()
        mail = Mail(inbox=inbox, earlier=earlier, forge=self.forge_upload)
        runs = zip(*self.strategy.choose_uploads(mail), strict=True)
        made = [
            self._answer(uploads, tampering)
            for uploads, tampering in zip(runs, self.strategy.tamper_with_runs(), strict=True)
        ]
        return tuple(made[source] for source in self.strategy.sources())

    def forge_upload(self) -> Upload:
        """An upload of small random counts under the public key, with zeros for a mask."""
        form = the_form(self.round)
        lengths = (self.known.slots, self.known.slots, form.denominator, form.denominator)
        return tuple(
            tuple(self._encrypted(symmetric_floats(self.known.rng, _FORGED_BOUND, length)) for length in lengths)
            for _ in range(self.known.runs)
        )

    def _answer(self, uploads: Sequence[tuple[bytes, ...]], tampering: Tampering) -> tuple[bytes, bytes]:
        constants = self.strategy.constants()
        if constants is not None:
            x, y = (self._encrypted(np.array([float(constant)])) for constant in constants)
        else:
            totals = [self._total(column) for column in zip(*uploads, strict=True)]
            x, y = self._tampered(totals, tampering)
        return self._garbled(x), self._garbled(y)

    def _total(self, ciphertexts: Sequence[bytes]) -> Ciphertext:
        first, *others = (self.evaluator.load(data) for data in ciphertexts)
        for term in others:
            self.evaluator.accumulate(first, term)
        return first

    def _tampered(self, totals: Sequence[Ciphertext], tampering: Tampering) -> tuple[bytes, bytes]:
        ev, rng = self.evaluator, self.known.rng
        t, f, d_left, d_right = totals
        if tampering.additions:
            t = ev.add_plain(t, sparse({slot: float(amount) for slot, amount in tampering.additions.items()}))
        if tampering.rotated:
            t = ev.rotate(t, 1)
        form = the_form(self.round)
        c = draw_blinding(rng, blinding_exponents(ev.parameters, form.magnitude, self.factor_bits))
        products, den = ev.multiply(t, f), ev.multiply(d_left, d_right)
        x = ev.slot_sum(ev.multiply_plain(products, c * self._factors(tampering)), self.known.slots)
        if tampering.borrowed:
            x = ev.add(x, ev.multiply_plain(den, sparse({0: c * float(tampering.borrowed)})))
        y = ev.multiply_plain(den, sparse({0: c}))
        return ev.dump(hide(ev, x, [0], rng)), ev.dump(hide(ev, y, [0], rng))

    def _factors(self, tampering: Tampering) -> FloatVector:
        return np.array([float(factor) for factor in tampering.factors] or [1.0] * self.known.slots)

    def _encrypted(self, values: FloatVector) -> bytes:
        return self.evaluator.dump(self.evaluator.encrypt(values))

    def _garbled(self, ciphertext: bytes) -> bytes:
        return garbled(ciphertext, self.strategy, self.round.engine, self.evaluator.parameters)


class SemiHonestAdversary(paper_semi_honest.Aggregator):
    """Deviates from `paper-semi-honest`, whose packing must be the paper's."""

    plot: ClassVar[type[Strategy]]
    earlier: ClassVar[Sequence[paper_semi_honest.CountShare]]
    answer: ClassVar[type[Message]] = paper_semi_honest.BlindedResult

    @staticmethod
    def used_slots(round_: Round) -> int:
        """How many slots of an answer sums pass through, from the first."""
        return the_form(round_).numerator

    @staticmethod
    def ciphertexts(result: paper_semi_honest.BlindedResult) -> list[list[bytes]]:
        """Those of an answer, by parameter set."""
        return [list(result.ciphertexts)]

    def __init__(self, engine: Engine, round_: Round, setup: PublicSetup, rng: Randomness) -> None:
        super().__init__(engine, round_, setup, rng)
        parties, slots = len(round_.parties), self.used_slots(round_)
        known = Knowledge(parties=parties, runs=1, slots=slots, anchor_slots=1, rng=rng)
        self.forgery = Forgery(self.evaluator, round_, self.plot(known), factor_bits=0)
        self.inbox: dict[str, Upload] = {}

    def receive(self, share: paper_semi_honest.CountShare) -> None:
        self.inbox[share.sender] = (share.ciphertexts,)
        self.roster.append(share.sender)

    def result(self) -> paper_semi_honest.BlindedResult:
        answers = self.forgery.answers(list(self.inbox.values()), [(share.ciphertexts,) for share in self.earlier])
        return paper_semi_honest.BlindedResult(
            round=self.round.id, roster=tuple(self.inbox), ciphertexts=answers[0] if answers else ()
        )


class MaliciousAdversary(paper_malicious.Aggregator):
    """Deviates from `paper-malicious`."""

    plot: ClassVar[type[Strategy]]
    earlier: ClassVar[Sequence[paper_malicious.CountShares]]
    answer: ClassVar[type[Message]] = paper_malicious.BlindedResults

    @staticmethod
    def used_slots(round_: Round) -> int:
        splits: int = paper_malicious.SPLITS.of(round_)
        return splits * the_form(round_).terms

    @staticmethod
    def ciphertexts(result: paper_malicious.BlindedResults) -> list[list[bytes]]:
        return [[data for run in result.runs for data in run]]

    def __init__(self, engine: Engine, round_: Round, setup: PublicSetup, rng: Randomness) -> None:
        super().__init__(engine, round_, setup, rng)
        parties, runs, slots = len(round_.parties), paper_malicious.RUNS, self.used_slots(round_)
        splits = paper_malicious.SPLITS.of(round_)
        known = Knowledge(parties=parties, runs=runs, slots=slots, anchor_slots=splits, rng=rng)
        self.forgery = Forgery(self.evaluator, round_, self.plot(known), factor_bits=paper_malicious.FACTOR_BITS)
        self.inbox: dict[str, Upload] = {}

    def receive(self, shares: paper_malicious.CountShares) -> None:
        self.inbox[shares.sender] = shares.runs
        self.roster.append(shares.sender)

    def result(self) -> paper_malicious.BlindedResults:
        answers = self.forgery.answers(list(self.inbox.values()), [shares.runs for shares in self.earlier])
        return paper_malicious.BlindedResults(round=self.round.id, roster=tuple(self.inbox), runs=answers)
