"""Release of counts: by consent of all, the parties learn the global counts themselves. The aggregator learns nothing.

Parties upload their counts under one-time pads as in `padded`. The aggregator hands the leader the sum Y of the
uploads; the leader takes off the pads of those who arrived, V = Y − R, and tells the parties. No FHE is needed: what
the leader would decrypt is what it may learn.

Against a malicious aggregator a party uploads α_1·x, α_2·x, … as well, for secret α that all parties derive: a sum that
was changed by δ passes only if these tags were changed by α·δ, which is guessed with probability 1/(t − 1) each.

Where the study asks for noise, a party adds its share to its counts first. The share is drawn when the upload is made,
from the operating system's generator, as its nonce is: an upload that is sent again is the same bytes, and one that is
made again, for a new round or after a rollback, has noise of its own. (Noise that stayed the same for the same round
would be subtracted away by whoever gets the round answered before and after a row was added. Fresh noise can be
averaged, and so every round spends its ε.)

Counts say far more than a ratio: nothing here runs unless the study asks for it and the parties have agreed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log2

import numpy as np
import numpy.typing as npt

from fheval import field
from fheval.engines import Engine, Parameters
from fheval.engines.parameters import plain_moduli
from fheval.errors import CapacityError, RemoteProtocolError, VerificationFailed
from fheval.protocols import base, groups, padding
from fheval.protocols.base import Answer, Asked, OpenedByLeader, Playing, Seat, Stage, Step, View, Words
from fheval.protocols.round import (
    AGGREGATOR,
    Contribution,
    IntegerVector,
    PartySecrets,
    PublicSetup,
    Round,
    Verdict,
    from_this_round,
)
from fheval.secrets import Randomness, Secret, derive, nonzero_residue
from fheval.wire import Blob, Message, decode

(PRIME,) = plain_moduli(1)

# A table of noise has fewer entries than 2^20, so that 2^20 shares of it stay below.
MOST_NOISE = 1 << 40


class TaggedCounts(Message, frozen=True, kw_only=True):
    """Step 1, party to aggregator: counts and tags under a pad, six bytes a value, and the nonce of the pad.

    `declared` is what it says of its groups, under a pad as well.
    """

    round: str
    sender: str
    nonce: bytes
    values: Blob
    declared: bytes = b""


class GroupNotice(Message, frozen=True, kw_only=True):
    """With groups, before step 2, aggregator to leader: who arrived, with which nonces, and what they declared."""

    round: str
    roster: tuple[str, ...]
    nonces: Blob
    declared: bytes


class ChosenGroups(Message, frozen=True, kw_only=True):
    """The leader's answer: which groups it opens beside everyone, and its ticket for them."""

    round: str
    groups: tuple[str, ...]
    ticket: bytes


class PaddedSums(Message, frozen=True, kw_only=True):
    """Step 2, aggregator to leader: Y, the sum of the uploads, whose they are, and their nonces.

    With groups it has what is about everyone and about those that the leader chose.
    """

    round: str
    roster: tuple[str, ...]
    nonces: Blob
    values: Blob
    groups: tuple[str, ...] = ()
    ticket: bytes = b""


def tag_keys(round_: Round, seed: Secret[bytes], tags: int) -> list[int]:
    """α, one for each tag."""
    return [nonzero_residue(derive(seed, "curve/tag", round_.digest, tag), PRIME) for tag in range(tags)]


def noised(round_: Round, own: IntegerVector, rng: Randomness) -> IntegerVector:
    """Party: its counts, with its share of the noise where the round has any."""
    return own if round_.noise is None else own + round_.noise.share(rng, len(own))


def positions(round_: Round, published: Sequence[str], tags: int) -> npt.NDArray[np.intp]:
    """Where in an upload there is what is about everyone and about these groups, tags included."""
    slices = round_.slices
    chosen = np.array(round_.slices_of(published, slices))
    return np.arange(round_.sums * (1 + tags)).reshape(1 + tags, slices, -1)[:, chosen].reshape(-1)


def party_submit(
    round_: Round, secrets: PartySecrets, me: str, contribution: Contribution, tags: int, nonce: bytes
) -> TaggedCounts:
    """Step 1, party: y = (x, α_1·x, …) + pad mod t. Learns: nothing."""
    own: IntegerVector = contribution.table.reshape(-1)
    least = -MOST_NOISE if round_.noise is not None else 0
    if len(own) != round_.sums or (own < least).any() or (own >= PRIME // 2).any():
        raise CapacityError(f"These are not {round_.sums} counts below 2^45. Count again, or lower max_samples.")
    counts = field.from_integers(own, PRIME)
    parts = [counts, *(field.multiply(counts, key, PRIME) for key in tag_keys(round_, secrets.seed, tags))]
    values = padding.party_pad(round_, secrets, nonce, [PRIME], [np.concatenate(parts)])
    declared = groups.party_declare(round_, secrets, contribution, nonce)
    return TaggedCounts(round=round_.id, sender=me, nonce=nonce, values=values, declared=declared)


class Aggregator(base.Aggregator):
    """Step 2. Learns the roster, nothing else: uploads are uniform, and so is their sum."""

    upload = TaggedCounts
    indispensable = Asked.LEADER
    tags: int

    def __init__(
        self,
        engine: Engine,  # noqa: ARG002 (there is no FHE)
        round_: Round,
        setup: PublicSetup,  # noqa: ARG002
        rng: Randomness,  # noqa: ARG002
    ) -> None:
        self.round = round_
        self.uploads = padding.UploadSum(round_.sums * (1 + self.tags))
        self.declared = padding.UploadSum(groups.declared_size(round_))
        self.roster: list[str] = []
        self.nonces: list[bytes] = []

    def play(self) -> Playing:
        """Ask for uploads, for the groups that may be opened, and let the leader open their sum."""
        yield from self.gather()
        chosen = None
        if self.round.undecided:
            self.round.require_cohort(self.roster)
            notice = GroupNotice(
                round=self.round.id,
                roster=tuple(self.roster),
                nonces=b"".join(self.nonces),
                declared=groups.added(self.declared),
            )
            try:
                reply = yield from self.ask_leader(Stage.PADS, notice)
                chosen = decode(reply, ChosenGroups, sender=self.round.leader)
                groups.require_groups(self.round, chosen.groups, self.round.leader)
            except RemoteProtocolError as error:
                raise self.leader_failed(Stage.PADS, str(error)) from error
        return (yield from self.let_leader_open(self.result(chosen)))

    def receive(self, counts: TaggedCounts) -> None:
        self.check_sender(counts)
        padding.require_nonce(counts.nonce, counts.sender)
        self.declared.check(counts.declared, counts.sender)
        self.uploads.add(counts.values, counts.sender)
        self.declared.add(counts.declared, counts.sender)
        self.roster.append(counts.sender)
        self.nonces.append(counts.nonce)

    def result(self, chosen: ChosenGroups | None = None) -> PaddedSums:
        """Hand over the sum, once; nobody else gets in."""
        published = chosen.groups if chosen else self.round.groups
        self.round.require_cohort(self.roster)
        self.answer_now()
        (totals,) = self.uploads.totals([PRIME])
        return PaddedSums(
            round=self.round.id,
            roster=tuple(self.roster),
            nonces=b"".join(self.nonces),
            values=padding.pack([totals[positions(self.round, published, self.tags)]]),
            groups=published,
            ticket=chosen.ticket if chosen else b"",
        )


def leader_open(round_: Round, secrets: PartySecrets, sums: PaddedSums, tags: int) -> IntegerVector:
    """Step 3, leader: V = Y − R, with its tags verified. To be answered once a round.

    Learns: the global counts, as all parties will; or that the aggregator deviated.
    """
    from_this_round(round_, sums.round, AGGREGATOR, "PaddedSums")
    round_.require_cohort(sums.roster)
    groups.require_groups(round_, sums.groups, AGGREGATOR)
    read = positions(round_, sums.groups, tags)
    total = padding.UploadSum(len(read))
    total.add(sums.values, AGGREGATOR)
    (padded_sum,) = total.totals([PRIME])
    length = round_.sums * (1 + tags)
    (pads,) = padding.leader_pad_sums(round_, secrets, sums.roster, sums.nonces, [PRIME], length)
    counts, *tagged = np.split(field.subtract(padded_sum, pads[read], PRIME), 1 + tags)
    for key, tag in zip(tag_keys(round_, secrets.seed, tags), tagged, strict=True):
        if not np.array_equal(field.multiply(counts, key, PRIME), tag):
            raise VerificationFailed
    # Residues around zero: noise may have made a count negative.
    found = counts.astype(np.int64)
    return np.where(found > PRIME // 2, found - PRIME, found)


_NOISE = (
    "It adds a share of noise to its counts. The shares add up to no less than the noise of one trusted curator, and "
    "nobody sees the global counts without it."
)
_TOGETHER_UNDER_NOISE = (
    "A party and the aggregator together learn the result and nothing else about the other parties. The leader, or a "
    "party that checks results, and the aggregator together learn everybody's counts, each under that party's own "
    "share of the noise only."
)


def _words(*, resists: bool, noisy: bool = False) -> Words:
    """How counts are released: with or without tags, by which a changed sum is refused, and with or without noise."""
    counts = "the noisy global counts" if noisy else "the global counts"
    hidden = "the counts, and two secret multiples of them," if resists else "the counts"
    checked = "refuses it if the multiples do not fit, " if resists else ""
    together = _TOGETHER_UNDER_NOISE if noisy else padding.TOGETHER
    if resists:
        together += " Any party that tells the aggregator the secret factors lets it pass off a forgery."
    return Words(
        summary=f"{counts}, for the parties alone",
        aggregator="may do anything: a forged result is refused" if resists else "follows the protocol, and is curious",
        upload="numbers under one-time pads",
        leader_upload="nothing but what it tells the other parties, under seal",
        views=(
            View(
                role="party",
                who="each party",
                sees=f"its own rows, and {counts} at every decision point, from which every curve follows",
            ),
            View(
                role="leader",
                who="the leader, one of them",
                sees="the same; it can derive every pad, and gets the sum of the uploads, not any one of them",
            ),
        ),
        together=together,
        steps=(
            *([_NOISE] if noisy else []),
            f"It hides {hidden} under a one-time pad, random numbers that nobody but the leader can derive as well, "
            "and sends them. The aggregator adds up what it gets, which is as random as each part.",
            f"The leader gets the sum, takes off the pads, {checked}and tells the others {counts} under a key that the "
            "aggregator lacks.",
        ),
        under_noise=None if noisy else _words(resists=resists, noisy=True),
    )


class CountsRelease(OpenedByLeader):
    """How a protocol with pads releases counts; `tags` is how often they are uploaded beside themselves, to verify."""

    batch = True
    groups = True
    default_precision = None
    steps = (
        OpenedByLeader.steps[0],
        # Asked only where there are groups to choose from.
        Step(stage=Stage.PADS, asked=Asked.LEADER, role="leader", cites=Stage.SUBMIT),
        *OpenedByLeader.steps[1:],
    )

    def __init__(self, name: str, tags: int) -> None:
        self.name = name
        self.tags = tags
        self.resists = bool(tags)
        self.words = _words(resists=self.resists)
        self.aggregator = type("Aggregator", (Aggregator,), {"tags": tags})

    def parameter_sets(self, round_: Round) -> list[Parameters]:  # noqa: ARG002 (there is no FHE)
        return []

    def secrets_of(self, round_: Round, leaders: PartySecrets, party: str) -> PartySecrets:
        """A checker takes the pads off itself, as the leader does, and needs the master for it."""
        own = super().secrets_of(round_, leaders, party)
        return replace(own, master=leaders.master) if self.opens(round_, party) else own

    def parts_of(self, round_: Round, stage: Stage) -> int:
        return 1 if stage is not Stage.PADS or round_.undecided else 0

    def submit(self, seat: Seat, nonce: bytes) -> Message:
        own = noised(seat.round, seat.own.table.reshape(-1), seat.rng)
        return party_submit(seat.round, seat.secrets, seat.me, Contribution(own, seat.own.declared), self.tags, nonce)

    def answer_pads(self, seat: Seat, body: bytes) -> Answer:
        """Leader: choose the groups that are opened."""
        notice, round_ = decode(body, GroupNotice, sender=AGGREGATOR), seat.round
        from_this_round(round_, notice.round, AGGREGATOR, "GroupNotice")
        seat.require_uploads(notice.roster, bytes(notice.nonces))
        round_.require_cohort(notice.roster)
        declared = groups.leader_read(round_, seat.secrets, notice.roster, bytes(notice.nonces), notice.declared)
        published = groups.choose(declared, round_.minimum_cohort, seat.published_before)
        ticket = groups.ticket(round_, seat.secrets, published, seat.published_before)
        return Answer(body=ChosenGroups(round=round_.id, groups=published, ticket=ticket), roster=notice.roster)

    def answer_result(self, seat: Seat, body: bytes) -> Answer:
        sums = decode(body, PaddedSums, sender=AGGREGATOR)
        seat.require_uploads(sums.roster, bytes(sums.nonces))
        if seat.round.undecided:
            groups.require_ticket(seat, sums.groups, sums.ticket)
            if seat.roster != sums.roster:
                raise RemoteProtocolError(
                    "The sums are of other parties than the groups were chosen for. The round was aborted.",
                    step="PaddedSums",
                    culprit=AGGREGATOR,
                )
        return self.sealed_answer(seat, sums.roster, body)

    def open(
        self,
        engine: Engine,  # noqa: ARG002 (there is no FHE)
        round_: Round,
        secrets: PartySecrets,
        roster: tuple[str, ...],
        answer: bytes,
    ) -> Verdict:
        sums = decode(answer, PaddedSums, sender=AGGREGATOR)
        if sums.roster != roster:
            raise RemoteProtocolError(
                "The sums are of other parties than they are said to be of. The round was aborted.",
                step="PaddedSums",
                culprit=AGGREGATOR,
            )
        counts = leader_open(round_, secrets, sums, self.tags)
        return Verdict(
            roster=roster,
            counts=tuple(counts.tolist()),
            groups=sums.groups,
            verified=True if self.tags else None,
            soundness_bits=self.soundness_bits(round_),
        )

    def soundness_bits(self, round_: Round) -> float | None:  # noqa: ARG002 (the same for every round)
        return round(self.tags * log2(PRIME - 1), 1) if self.tags else None
