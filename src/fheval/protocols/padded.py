"""`padded`: kilobytes per party, FHE work independent of their number, for a semi-honest aggregator. Exact, on BFV.

Parties upload their counts under one-time pads. The aggregator adds them up and sends the leader the sum under a pad of
its own, the leader takes off the pads of those who arrived and sends back what is left, encrypted; the aggregator turns
it into encrypted, blinded products of the true sums; the leader decrypts and tells the others. See `padding` for the
algebra and `release` for what is released.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from fheval import field
from fheval.engines import Engine, Parameters
from fheval.engines.parameters import bfv_linear, wide_moduli
from fheval.errors import CapacityError, EngineError, LocalProtocolError, RemoteProtocolError, UndefinedMetric
from fheval.field import Residues
from fheval.protocols import base, curve, groups, padding
from fheval.protocols.base import (
    Answer,
    Asked,
    OpenedByLeader,
    Playing,
    Protocol,
    Replies,
    Seat,
    Stage,
    Step,
    View,
    Words,
)
from fheval.protocols.padding import BYTES_PER_VALUE, Blinding, Factors, PadSheet, SlotPlan
from fheval.protocols.release import RoundedRelease, exact_fraction, exact_primes
from fheval.protocols.round import (
    AGGREGATOR,
    NONCE_BYTES,
    Batch,
    Contribution,
    Form,
    PartySecrets,
    PublicSetup,
    Round,
    Verdict,
    from_this_round,
    require_keys,
)
from fheval.secrets import Randomness, Stream, expand, new_seed, nonzero_residue, residues
from fheval.wire import DEFAULT_LIMIT, Blob, Message, Stencil, decode

NAME = "padded"

# A message has at most 64 MiB. The leader's ciphertexts have up to 0.4 MB, those of a result 0.13 MB.
MOST_CIPHERTEXTS = 160
MOST_RESULTS = 500
MOST_UPLOADED = DEFAULT_LIMIT - (1 << 16)


class PaddedCounts(Message, frozen=True, kw_only=True):
    """Step 1, party to aggregator: y_m, twelve bytes a count, and the nonce that its pad was made with.

    Where numbers fill a field, there is a y_m for every prime, six bytes a number.

    `declared` is what it says of its groups, under a pad as well.
    """

    round: str
    sender: str
    nonce: bytes
    values: Blob
    declared: bytes = b""


class RosterNotice(Message, frozen=True, kw_only=True):
    """Step 2, aggregator to leader: who arrived, with which nonces, one behind the other, and what they declared.

    `covered` is Y + ρ, the sum of their uploads under a pad of the aggregator's, as long as one of them.
    """

    round: str
    roster: tuple[str, ...]
    nonces: Blob
    covered: Blob
    declared: bytes = b""


class PadSums(Message, frozen=True, kw_only=True):
    """Step 3, leader to aggregator: Enc(D_L ; Σ D_L·D_R ; D_R) for every prime of a part, and every sheet.

    The sheets are of everyone and of the `groups` that are published; with the answer the leader gets its ticket back.
    """

    round: str
    sender: str
    roster: tuple[str, ...]
    ciphertexts: tuple[tuple[PadSheet, ...], ...]
    groups: tuple[str, ...] = ()
    ticket: bytes = b""


class PaddedResult(Message, frozen=True, kw_only=True):
    """Step 5, aggregator to leader: one ciphertext for every prime and sheet, of the groups that are published."""

    round: str
    roster: tuple[str, ...]
    ciphertexts: tuple[tuple[bytes, ...], ...]
    groups: tuple[str, ...] = ()
    ticket: bytes = b""


AnyLayout = TypeVar("AnyLayout", bound="SlotLayout")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLayout:
    """What everyone derives from the round: primes, slots, and how many numbers a party uploads.

    They are integers under pads of so many `bits`, or residues for each prime where there are no bits. `released` has
    the products of each released number, two numbers for every form of every run.
    """

    primes: tuple[int, ...]
    plan: SlotPlan
    uploaded: int
    released: tuple[list[npt.NDArray[np.intp]], ...]
    bits: int = 0
    runs: int = 1

    def __post_init__(self) -> None:
        """Refuse what would take others' memory: an upload and a result fit a message each, pads eight of them."""
        uploaded = self.uploaded * (self.bits // 8 or BYTES_PER_VALUE * len(self.primes))
        results = self.plan.sheets * len(self.primes)
        pads = sum(self.plan.ciphertexts)
        for needed, most, what in (
            (uploaded, MOST_UPLOADED, "bytes of an upload"),
            (results, MOST_RESULTS, "ciphertexts of the result"),
            (pads, MOST_CIPHERTEXTS, "of the leader's ciphertexts for one prime"),
            (len(self.parts), len(Stage.PADS.parts), "messages of the leader"),
        ):
            if needed > most:
                raise CapacityError(
                    f"The batch takes {needed:,} {what}, and a round has room for {most:,}: {most / needed:.0%} of it. "
                    "Ask for fewer decision points, resamples, models, groups or metrics at once."
                )

    def reading(self: AnyLayout, round_: Round, groups: Sequence[str]) -> AnyLayout:
        """The slots where nothing but everyone and these groups is read."""
        if not round_.groups:
            return self
        forms = len(round_.forms)
        chosen = [
            self.released[2 * (run * forms + form) + side]
            for run in range(self.runs)
            for form in round_.forms_of(groups)
            for side in range(2)
        ]
        return replace(self, plan=SlotPlan.of(chosen, self.plan.slots))

    def upload_sum(self) -> padding.UploadSum:
        """Adds uploads up."""
        if self.bits:
            return padding.IntegerSum(self.uploaded, self.bits)
        return padding.UploadSum(self.uploaded * len(self.primes))

    def draw_cover(self, rng: Randomness) -> bytes:
        """Aggregator: ρ, written as an upload is."""
        if self.bits:
            return rng.draw(self.uploaded * self.bits // 8)
        return padding.pack([residues(rng, prime, self.uploaded) for prime in self.primes])

    def uncover(self, round_: Round, secrets: PartySecrets, notice: RosterNotice) -> list[Residues]:
        """Leader: D = Y + ρ − R, for each prime."""
        reader, covered = self.upload_sum(), notice.covered
        if len(covered) != reader.size:
            raise RemoteProtocolError(
                f"The sum of all uploads has {len(covered)} bytes instead of {reader.size}. The round was aborted.",
                step="RosterNotice",
                culprit=AGGREGATOR,
            )
        given = round_, secrets, notice.roster, notice.nonces, self.primes
        if self.bits:
            return padding.leader_uncover(*given, covered, self.bits)
        reader.add(covered, AGGREGATOR)
        pads = padding.leader_pad_sums(*given, self.uploaded)
        return [field.subtract(*each) for each in zip(reader.totals(self.primes), pads, self.primes, strict=True)]

    @property
    def parts(self) -> list[slice]:
        """The primes that the leader sends pads for, message by message."""
        together = max(1, MOST_CIPHERTEXTS // sum(self.plan.ciphertexts))
        return [slice(first, first + together) for first in range(0, len(self.primes), together)]

    def factors(self, sums: Sequence[Residues], primes: Sequence[int], *, cover: bool) -> list[Factors]:  # noqa: ARG002
        """The factors of all products, from the leader's share or the cover: here those on the left, then the right."""
        return [(each[: len(each) // 2], each[len(each) // 2 :]) for each in sums]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout(SlotLayout):
    """The slots of `padded`, and its release; None stands for exact.

    A party uploads its table of counts. Everything else is public and linear: what the aggregator reads from its cover
    and the leader from its share of the sum are shares of what it would be of the true sum.
    """

    batch: Batch
    rounded: RoundedRelease | None

    def factors(self, sums: Sequence[Residues], primes: Sequence[int], *, cover: bool) -> list[Factors]:
        found: list[Factors] = []
        for chosen in padding.together(primes, self.uploaded):
            lefts, rights = self.batch.factors_modulo(
                np.stack(sums[chosen]), tuple(primes[chosen]), one=0 if cover else 1
            )
            found += zip(lefts, rights, strict=True)
        return found

    @classmethod
    def of(cls, round_: Round) -> Layout:
        """Lay a round out; refuses, before anyone sends anything, what would not fit."""
        if round_.batch is None:
            raise LocalProtocolError("A round of counts has no ratios to lay out.")
        return _laid_out(round_.batch, round_.precision)


@lru_cache(maxsize=16)
def _laid_out(batch: Batch, precision: float | None) -> Layout:
    """The layout of a round, which every step asks for again."""
    forms = batch.forms
    bounds = [form.bound for form in forms]
    if precision is None:
        rounded, primes = None, exact_primes(max(bounds), wide_moduli)
    else:
        rounded = RoundedRelease.plan(bounds, precision, batch.denominators)
        primes = rounded.primes
    released = _groups(forms, rounded is not None)
    return Layout(
        primes=primes,
        plan=SlotPlan.of(released, bfv_linear(primes[0]).slots),
        uploaded=batch.size,
        bits=padding.pad_bits(batch.bits, batch.size),
        released=tuple(released),
        batch=batch,
        rounded=rounded,
    )


def fits(layout: SlotLayout, ciphertexts: Sequence[Sequence[object]]) -> bool:
    """Whether there is something for every prime and sheet."""
    return [len(sheets) for sheets in ciphertexts] == [layout.plan.sheets] * len(layout.primes)


def _groups(forms: Sequence[Form], rounded: bool) -> list[list[npt.NDArray[np.intp]]]:
    """For each form the products that one released number adds up, those with one weight together.

    Rounded: X takes num and den, Z takes den. Exact: num and den, each by itself.
    """
    groups, start = [], 0
    for form in forms:
        middle, stop = start + form.numerator, start + form.terms
        num, den = np.arange(start, middle), np.arange(middle, stop)
        groups += [[num, den] if rounded else [num], [den]]
        start = stop
    return groups


def party_submit(round_: Round, secrets: PartySecrets, me: str, own: Contribution, nonce: bytes) -> PaddedCounts:
    """Step 1, party: x_m is its table of counts, y_m = x_m + pad_m modulo a power of two.

    Learns: nothing.
    """
    values = padding.party_pad_integers(round_, secrets, nonce, Layout.of(round_).bits, own.table.reshape(-1))
    declared = groups.party_declare(round_, secrets, own, nonce) if round_.groups else b""
    return PaddedCounts(round=round_.id, sender=me, nonce=nonce, values=values, declared=declared)


class Aggregator(base.Aggregator):
    """Steps 2, 4 and 5. Learns the roster, nothing else: uploads are uniform, the rest is ciphertexts."""

    upload = PaddedCounts
    indispensable = Asked.LEADER
    layout: SlotLayout
    lay_out: Callable[[Round], SlotLayout] = staticmethod(Layout.of)

    def __init__(self, engine: Engine, round_: Round, setup: PublicSetup, rng: Randomness) -> None:
        self.round = round_
        self.rng = rng
        # Masks are as long as all ciphertexts: one stream for them takes a tenth of the system's time.
        self.mask_stream = Stream(expand(new_seed(rng), "padded/mask"))
        self.layout = self.lay_out(round_)
        require_keys(setup, len(self.layout.primes))
        self.circuit = padding.aggregator_circuit(engine, setup, self.layout.primes, self.layout.plan)
        self._prepared = False
        self.published: tuple[str, ...] = ()
        self.declared = padding.UploadSum(groups.declared_size(round_) if round_.groups else 0)
        self.uploads = self.layout.upload_sum()
        self.awaited = set(round_.parties)
        self.roster: list[str] = []
        # One or more, one behind the other.
        self.nonces: list[bytes] = []
        # Large ones are read one by one, and those that declare groups.
        alike = self.uploads.block > 1 and not round_.groups
        self.stencil = Stencil(*map(self._example, (b"\x00", b"\xff"))) if alike else None

    def _example(self, each: bytes) -> PaddedCounts:
        """An upload whose numbers have this byte in all places."""
        values = each * self.uploads.size
        return PaddedCounts(round=self.round.id, sender="", nonce=each * NONCE_BYTES, values=values)

    def play(self) -> Playing:
        """Ask for uploads, for the pads of those who came, and let the leader open the answer."""
        if self.ahead:
            self.prepare()
        yield from self.gather()
        notice = self.close()
        pads = []
        try:
            for stage in Stage.PADS.parts[: len(self.layout.parts)]:
                reply = yield from self.ask_leader(stage, notice)
                pads.append(decode(reply, PadSums, sender=self.round.leader))
            result = self.result(*pads)
        except (RemoteProtocolError, EngineError) as error:
            raise self.leader_failed(Stage.PADS, str(error)) from error
        return (yield from self.let_leader_open(result))

    def take(self, replies: Replies) -> None:
        """Step 2, block by block: what Python does for each upload takes longer than adding it."""
        if type(self).receive is not Aggregator.receive:
            # Whoever receives uploads otherwise gets them one by one.
            super().take(replies)
            return
        arriving = iter(replies)
        while block := list(islice(arriving, self.uploads.block)):
            if not self._take_block(block):
                super().take(block)

    def _take_block(self, block: Sequence[tuple[str, bytes]]) -> bool:
        """Receive all uploads of a block, or none where there is anything to say against one of them."""
        names, messages = zip(*block, strict=True)
        senders = {*names}
        if self.stencil is None or len(senders) < len(names) or not senders <= self.awaited:
            return False
        read = self.stencil.read(names, messages)
        if read is None:
            return False
        nonces, values = (read[:, field] for field in self.stencil.fields)
        self.uploads.add_rows(values)
        self.awaited -= senders
        self.roster += names
        self.nonces.append(nonces.tobytes())
        return True

    def receive(self, counts: PaddedCounts) -> None:
        """Step 2: add an upload and forget it."""
        sender = counts.sender
        if counts.round != self.round.id or sender not in self.awaited or len(counts.nonce) != NONCE_BYTES:
            self._refuse(counts)
        # One that does not fit must leave no trace in either sum.
        self.declared.check(counts.declared, sender)
        self.uploads.add(counts.values, sender)
        self.declared.add(counts.declared, sender)
        self.awaited.remove(sender)
        self.roster.append(sender)
        self.nonces.append(counts.nonce)

    def _refuse(self, counts: PaddedCounts) -> NoReturn:
        sender = counts.sender
        self.check_sender(counts)
        padding.require_nonce(counts.nonce, sender)
        raise RemoteProtocolError(
            f"{sender} came after the roster was closed. Its upload was left out.", step="PaddedCounts", culprit=sender
        )

    def close(self) -> RosterNotice:
        """Step 2: nobody else gets in."""
        self.round.require_parties(len(self.roster))
        self.awaited.clear()
        declared = groups.added(self.declared) if self.round.groups else b""
        return RosterNotice(
            round=self.round.id,
            roster=tuple(self.roster),
            nonces=b"".join(self.nonces),
            covered=self.uploads.covered(self.cover, self.layout.primes),
            declared=declared,
        )

    def result(self, *parts: PadSums) -> PaddedResult:
        """Step 5: blinded products in the slots."""
        (self.published, ticket), *others = {(each.groups, each.ticket) for each in parts}
        if self.round.groups or self.published:
            groups.require_groups(self.round, self.published, self.round.leader)
        self.layout = self.layout.reading(self.round, self.published)
        self.circuit.plan = self.layout.plan
        pads = [sheets for each in parts for sheets in self._checked(each)]
        expected = [self.layout.plan.ciphertexts] * len(self.layout.primes)
        if others or [[len(sheet) for sheet in sheets] for sheets in pads] != expected:
            raise self._misfit(self.round.leader)
        self.answer_now()
        if not self._prepared:
            self.prepare()
        return PaddedResult(
            round=self.round.id,
            roster=tuple(self.roster),
            ciphertexts=self.circuit.evaluate(pads),
            groups=self.published,
            ticket=ticket,
        )

    def _checked(self, pads: PadSums) -> tuple[tuple[PadSheet, ...], ...]:
        from_this_round(self.round, pads.round, pads.sender, "PadSums")
        if pads.sender != self.round.leader or pads.roster != tuple(self.roster):
            raise self._misfit(pads.sender)
        return pads.ciphertexts

    def _misfit(self, sender: str) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"The pads of {sender} do not fit this round's leader and roster. Start a new round with a new leader.",
            step="PadSums",
            culprit=sender,
        )

    @property
    def ahead(self) -> bool:
        """Whether it is known before the first upload what there will be to compute; with groups it is not."""
        return not self.round.groups

    def prepare(self) -> None:
        """Step 4: everything that does not depend on an upload."""
        self._prepared = True
        self.circuit.prepare(self.factors(), self.draw_blinding(), self.mask_stream)

    @cached_property
    def cover(self) -> bytes:
        """ρ, which hides the sum of all uploads from the leader."""
        return self.layout.draw_cover(self.mask_stream)

    def factors(self) -> list[Factors]:
        """Step 4: the factors of all products, of the cover, for each prime."""
        primes, reader = self.layout.primes, self.layout.upload_sum()
        reader.add(self.cover, AGGREGATOR)
        return self.layout.factors(reader.totals(primes), primes, cover=True)

    def draw_blinding(self) -> list[Blinding]:
        """Step 4: the weights of all stretches and the offsets of all groups, for each prime."""
        rounded = self.layout.rounded if isinstance(self.layout, Layout) else None
        if rounded is None:
            return [self._exact_blinding(prime) for prime in self.layout.primes]
        denominators = self.round.denominators
        drawn = rounded.draw([denominators[form] for form in self.round.forms_of(self.published)], self.rng)
        weights = [part for one in drawn for part in (one.scale, one.tilt, one.scale)]
        offsets = [noise for one in drawn for noise in (one.noise_x, one.noise_z)]
        return [(field.from_large_integers(weights, prime), offsets) for prime in self.layout.primes]

    def _exact_blinding(self, prime: int) -> Blinding:
        """One unit for both numbers of a form, each of which is one stretch."""
        numbers = len(self.layout.plan.groups)
        units = [nonzero_residue(self.rng, prime) for _ in range(numbers // 2)]
        return np.repeat(np.array(units, dtype=np.uint64), 2), [0] * numbers


def leader_answer(
    engine: Engine,
    round_: Round,
    secrets: PartySecrets,
    me: str,
    notice: RosterNotice,
    lay_out: Callable[[Round], SlotLayout] = Layout.of,
    part: int = 0,
    published_before: Collection[str] = (),
) -> PadSums:
    """Step 3, leader: D = Y + ρ − R for the pads of those who arrived, encrypted. To be answered once a round and part.

    Learns: the roster; and of groups, how many parties hold enough of each, and anyone. D is uniform.
    """
    from_this_round(round_, notice.round, AGGREGATOR, "RosterNotice")
    round_.require_cohort(notice.roster)
    published, ticket = leader_choose(round_, secrets, notice, published_before)
    whole = lay_out(round_)
    layout = whole.reading(round_, published)
    shares = layout.uncover(round_, secrets, notice)
    # In as many messages as all groups would take: how many were chosen shows in their length alone.
    chosen = whole.parts[part]
    primes, keys = layout.primes[chosen], replace(secrets, keys=secrets.keys[chosen])
    ciphertexts = padding.leader_encrypt(
        engine, keys, primes, layout.plan, layout.factors(shares[chosen], primes, cover=False)
    )
    return PadSums(
        round=round_.id, sender=me, roster=notice.roster, ciphertexts=ciphertexts, groups=published, ticket=ticket
    )


def leader_choose(
    round_: Round, secrets: PartySecrets, notice: RosterNotice, published_before: Collection[str]
) -> tuple[tuple[str, ...], bytes]:
    """Leader: the groups that are published, and a ticket for them; neither where the study names none."""
    if not round_.groups:
        return (), b""
    declared = groups.leader_read(round_, secrets, notice.roster, bytes(notice.nonces), notice.declared)
    published = groups.choose(declared, round_.minimum_cohort, published_before)
    return published, groups.ticket(round_, secrets, published, published_before)


def require_answered(round_: Round, roster: tuple[str, ...], result: PaddedResult) -> None:
    """Refuse an answer for other parties than those whose pads went into it: nobody rewrites who came."""
    from_this_round(round_, result.round, AGGREGATOR, "PaddedResult")
    round_.require_cohort(roster)
    if round_.groups or result.groups:
        groups.require_groups(round_, result.groups, AGGREGATOR)
    if result.roster != roster:
        raise RemoteProtocolError(
            "The aggregator's answer names other parties than it announced. The round was aborted.",
            step="PaddedResult",
            culprit=AGGREGATOR,
        )


def leader_open(
    engine: Engine, round_: Round, secrets: PartySecrets, roster: tuple[str, ...], result: PaddedResult
) -> Verdict:
    """Step 6, leader: decrypt X and Z, or c·num and c·den, and divide. `roster` is the one it answered with pads.

    Learns: the released ratio; nothing else is in the slots.
    """
    require_answered(round_, roster, result)
    layout = Layout.of(round_).reading(round_, result.groups)
    if not fits(layout, result.ciphertexts):
        raise RemoteProtocolError(
            "The aggregator's answer lacks ciphertexts. The round was aborted.", step="PaddedResult", culprit=AGGREGATOR
        )
    answers = padding.leader_decrypt(engine, secrets, layout.primes, layout.plan, result.ciphertexts)
    pairs = [
        ([answer[2 * index] for answer in answers], [answer[2 * index + 1] for answer in answers])
        for index in range(len(layout.plan.groups) // 2)
    ]
    read = round_.forms_of(result.groups)
    forms, below = [round_.forms[each] for each in read], [round_.denominators[each] for each in read]
    if layout.rounded is None:
        ratios = [exact_fraction(form, layout.primes, x, z) for form, (x, z) in zip(forms, pairs, strict=True)]
    else:
        ratios = [
            layout.rounded.ratio(form, each.kind, x, z) for form, each, (x, z) in zip(forms, below, pairs, strict=True)
        ]
    if all(ratio is None for ratio in ratios):
        raise UndefinedMetric
    hiding_bits = layout.rounded.hiding_bits if layout.rounded else None
    return Verdict(ratios=tuple(ratios), groups=result.groups, roster=result.roster, hiding_bits=hiding_bits)


_PAD = (
    "It hides the counts under a one-time pad, random numbers that nobody but the leader can derive as well, and sends "
    "them. The aggregator adds up what it gets, which is as random as each part."
)
_PADS = (
    "The aggregator puts a pad of its own on the sum and sends it to one party, the leader, who takes off the parties' "
    "pads and sends back what is left, encrypted. From that the aggregator computes with the true sums under "
    "encryption, and blinds what comes out with secret factors of its own."
)
_OPEN = (
    "The leader opens the blinded answer, which shows the released result and nothing else, and tells the others "
    "under a key that the aggregator lacks."
)


class Padded(OpenedByLeader):
    """`padded`, for a semi-honest aggregator."""

    name = NAME
    words = Words(
        summary="kilobytes a party; the aggregator follows the protocol; released to four decimals",
        aggregator="follows the protocol, and is curious",
        upload="numbers under one-time pads",
        leader_upload="public keys and an encrypted share of the sum",
        views=(
            View(role="party", who="each party", sees="its own rows, and the result"),
            View(
                role="leader",
                who="the leader, one of them",
                sees="the same; it makes the keys and can derive every pad, and gets nobody's upload, but their sum "
                "under a pad of the aggregator's",
            ),
        ),
        together=padding.TOGETHER,
        steps=(_PAD, _PADS, _OPEN),
    )
    batch = True
    groups = True
    resists = False
    default_precision: float | None = 1e-4
    steps = (
        Step(stage=Stage.SUBMIT, asked=Asked.EVERYONE, role="party"),
        Step(stage=Stage.PADS, asked=Asked.LEADER, role="leader", cites=Stage.SUBMIT),
        Step(stage=Stage.RESULT, asked=Asked.LEADER, role="decrypt"),
        Step(stage=Stage.BROADCAST, asked=Asked.ROSTER, role="party", cites=Stage.RESULT),
    )
    aggregator: type[base.Aggregator] = Aggregator
    counts: Protocol | None = curve.CountsRelease(NAME, tags=0)

    def lay_out(self, round_: Round) -> SlotLayout:
        return Layout.of(round_)

    def parameter_sets(self, round_: Round) -> list[Parameters]:
        return padding.parameter_sets(self.lay_out(round_).primes)

    def parts_of(self, round_: Round, stage: Stage) -> int:
        return len(self.lay_out(round_).parts) if stage is Stage.PADS else 1

    def submit(self, seat: Seat, nonce: bytes) -> Message:
        return party_submit(seat.round, seat.secrets, seat.me, seat.own, nonce)

    def answer_pads(self, seat: Seat, body: bytes) -> Answer:
        notice = decode(body, RosterNotice, sender=AGGREGATOR)
        seat.require_uploads(notice.roster, bytes(notice.nonces))
        if seat.part and seat.roster != notice.roster:
            raise RemoteProtocolError(
                "The roster is not that of the pads that were given before. The round was aborted.",
                step="RosterNotice",
                culprit=AGGREGATOR,
            )
        pads = leader_answer(
            seat.engine, seat.round, seat.secrets, seat.me, notice, self.lay_out, seat.part, seat.published_before
        )
        return Answer(body=pads, roster=None if seat.part else notice.roster)

    def answer_result(self, seat: Seat, body: bytes) -> Answer:
        if seat.round.undecided:
            result = decode(body, PaddedResult, sender=AGGREGATOR)
            groups.require_ticket(seat, result.groups, result.ticket)
        return super().answer_result(seat, body)

    def open(
        self, engine: Engine, round_: Round, secrets: PartySecrets, roster: tuple[str, ...], answer: bytes
    ) -> Verdict:
        return leader_open(engine, round_, secrets, roster, decode(answer, PaddedResult, sender=AGGREGATOR))


PROTOCOL = Padded()
