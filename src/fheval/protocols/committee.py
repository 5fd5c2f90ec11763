"""`committee`: no single key. Of C members one honest one is enough to keep everybody's counts. Exact, on BFV.

Parties upload their counts under the sum of C pads, one from each member of the committee. The members multiply
pairwise, each under its own key, until they hold shares of the blinded ratio, which the parties add up. The aggregator
adds nothing and opens nothing: it passes messages on, all of which are signed. See `pairwise` for the algebra and
`two_blinders` for what is released.

    offer      members    Enc_i(ρ_i ; u_i ; A's part of the blinding ; 1)       before there is any upload
    submit     all        y_m = x_m + Σ_i pad_{m,i}
    pads       members    D_i = −R_i − ρ_i , and for every other member j  Enc_j(products with what j offered)
    mix        members    their shares of num and den, less u_i                 the uploads are checked, and added up
    open       members    their shares of X and Z, sealed for the parties       all must have seen the same
    broadcast  roster     a party adds the shares up, lifts and divides

With groups, parties declare what `groups` says under pads of all members. At `mix` each member seals for the others its
share of the sum of declarations, −Σ_m pad_{m,i} and, from the first, the sum of what came. At `open` all add these up,
come to the same choice, and give shares for published groups alone: the others' stay shares, of which an honest member
never gives its own. What members know to have been published before goes with the share, and the union holds.

Every secret of a member is derived from its master, the round, and the nonce of its offer; what it draws once uploads
are there also depends on the digest of everything that it was shown. So a member that was restarted goes on where it
was, and one that is shown something else draws other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256

import numpy as np

from fheval import field
from fheval.engines import Engine, Parameters
from fheval.errors import ConfigError, RemoteProtocolError, UndefinedMetric
from fheval.field import Residues
from fheval.protocols import base, groups, padding
from fheval.protocols.base import Answer, Asked, Option, Playing, Protocol, Receipt, Seat, Stage, Step, View, Words
from fheval.protocols.committee_member import Member, require_roster
from fheval.protocols.committee_messages import (
    CommitteeCounts,
    Crossing,
    MixNotice,
    OpenNotice,
    RosterNotice,
    SealedShare,
    SealedShares,
    misfit,
    told_digest,
    upload_digest,
)
from fheval.protocols.committee_numbers import Layout
from fheval.protocols.padding import UploadSum, pack, packed_size
from fheval.protocols.release import exact_fraction
from fheval.protocols.round import (
    AGGREGATOR,
    NONCE_BYTES,
    Contribution,
    OptionValue,
    PartySecrets,
    PublicSetup,
    Round,
    Verdict,
    from_this_round,
)
from fheval.protocols.two_blinders import BLINDERS
from fheval.secrets import Randomness, SealBroken, expand, unseal
from fheval.wire import Message, decode, encode

NAME = "committee"

SIZE = Option(
    name="committee",
    help="how many parties are members of the committee: all of them must work together to learn a count",
    default=3,
    least=2,
    most=16,
)


def members_of(round_: Round) -> tuple[str, ...]:
    """The committee: the leader of the round, and those who follow it in the list of parties."""
    size, parties = SIZE.of(round_), round_.parties
    if size > len(parties):
        raise ConfigError(
            f"A committee of {size} cannot be made of {len(parties)} parties. Use --committee {len(parties)} or less."
        )
    first = parties.index(round_.leader)
    return (parties[first:] + parties[:first])[:size]


def lay_out(round_: Round) -> Layout:
    """What everyone derives from the round; refuses what would not fit."""
    return Layout.of(round_, members_of(round_))


def party_submit(
    layout: Layout, round_: Round, secrets: PartySecrets, me: str, own: Contribution, nonce: bytes
) -> CommitteeCounts:
    """Submit, party: y_m = x_m + Σ_i pad_{m,i} mod t for each prime; one pad for every member of the committee.

    Learns: nothing.
    """
    hidden = [field.from_integers(own.table.reshape(-1), prime) for prime in layout.primes]
    values = _under_pads(round_, secrets, nonce, layout.primes, hidden, padding.UPLOAD)
    if layout.declared:
        values += _under_pads(round_, secrets, nonce, [groups.PRIME], [groups.declared_of(round_, own)], groups.PAD)
    return CommitteeCounts(round=round_.id, sender=me, nonce=nonce, values=values)


def _under_pads(
    round_: Round, secrets: PartySecrets, nonce: bytes, primes: Sequence[int], hidden: Sequence[Residues], usage: str
) -> tuple[bytes, ...]:
    """Numbers for each prime, plus one pad of every member."""
    count = sum(map(len, hidden))
    total = np.zeros(4 * count, dtype=np.uint64)
    for pad_seed in secrets.pad_seeds:
        total += padding.pad(pad_seed, round_, nonce, count, usage)
    pads = padding.reduced(total, 32, primes)
    return tuple(pack([field.add(values, pad, prime)]) for values, pad, prime in zip(hidden, pads, primes, strict=True))


def party_open(
    layout: Layout, round_: Round, secrets: PartySecrets, roster: tuple[str, ...], message: SealedShares
) -> Verdict:
    """Broadcast, party: X and Z are the sums of the members' shares; lift and divide.

    Learns: the released ratios, and which groups are among them.
    """
    shares = read_shares(round_, message)
    published = shares[0].groups
    read = round_.forms_of(published)
    forms, below = [round_.forms[each] for each in read], [round_.denominators[each] for each in read]
    total = UploadSum(2 * len(forms) * len(layout.primes))
    for share in shares:
        try:
            labels = round_.digest, share.seen, share.sender
            total.add(unseal(secrets.seed, "share", *labels, box=share.box), share.sender)
        except SealBroken:
            raise misfit(f"The share of {share.sender} was altered.", share.sender) from None
    # By prime: X of every form, then Z of every form.
    summed = np.array([each.tolist() for each in total.totals(layout.primes)], dtype=object).reshape(-1, 2, len(forms))
    pairs = [(summed[:, 0, number].tolist(), summed[:, 1, number].tolist()) for number in range(len(forms))]
    if layout.rounded is None:
        ratios = [exact_fraction(form, layout.primes, *pair) for form, pair in zip(forms, pairs, strict=True)]
    else:
        ratios = [
            layout.rounded.ratio(form, each.kind, *pair) for form, each, pair in zip(forms, below, pairs, strict=True)
        ]
    if all(ratio is None for ratio in ratios):
        raise UndefinedMetric
    hiding_bits = layout.rounded.hiding_bits if layout.rounded else None
    require_roster(round_, roster, layout.members)
    return Verdict(ratios=tuple(ratios), groups=published, roster=roster, hiding_bits=hiding_bits)


def read_shares(round_: Round, message: SealedShares) -> list[SealedShare]:
    """The shares of all members, who must have seen the same and speak of the same roster and groups."""
    from_this_round(round_, message.round, AGGREGATOR, "SealedShares")
    shares = [decode(data, SealedShare, sender=AGGREGATOR) for data in message.shares]
    if tuple(share.sender for share in shares) != members_of(round_):
        raise misfit("There is not one share from every member.", AGGREGATOR)
    if len({(share.round, share.roster, share.seen, share.groups) for share in shares}) != 1:
        raise misfit("The members' shares are not of one round, roster and choice of groups.", AGGREGATOR)
    from_this_round(round_, shares[0].round, AGGREGATOR, "SealedShare")
    groups.require_groups(round_, shares[0].groups, AGGREGATOR)
    return shares


class Aggregator(base.Aggregator):
    """Passes on. Learns the roster, nothing else: everything that it sees is under pads, keys, masks or seals."""

    upload = CommitteeCounts
    indispensable = Asked.COMMITTEE
    lay_out: Callable[[Round], Layout] = staticmethod(lay_out)

    def __init__(self, engine: Engine, round_: Round, setup: PublicSetup, rng: Randomness) -> None:  # noqa: ARG002
        self.round = round_
        self.layout = self.lay_out(round_)
        self.members = self.layout.members
        self.awaited = set(round_.parties)
        self.roster: list[str] = []
        self.uploads: list[CommitteeCounts] = []

    @property
    def keepers(self) -> tuple[str, ...]:
        return self.members

    def play(self) -> Playing:
        """Ask the members for offers, all for uploads, and the members for everything else."""
        offers = yield from self.ask_committee(Stage.OFFER, dict.fromkeys(self.members, b""))
        yield from self.gather()
        notice = self.notice(offers)
        crossings = yield from self.ask_committee(Stage.PADS, dict.fromkeys(self.members, encode(notice)))
        mixed: list[dict[str, bytes]] = []
        for stage, requests in zip(self.layout.mix_stages, self.mix_notices(notice, crossings), strict=True):
            mixed.append((yield from self.ask_committee(stage, requests)))
        told = OpenNotice(
            round=self.round.id, mixed=tuple(tuple(part[member] for part in mixed) for member in self.members)
        )
        shares = yield from self.ask_committee(Stage.OPEN, dict.fromkeys(self.members, encode(told)))
        message = SealedShares(round=self.round.id, shares=tuple(shares[member] for member in self.members))
        return (yield from self.tell_all(encode(message)))

    def receive(self, counts: CommitteeCounts) -> None:
        """Keep an upload, or refuse one that does not fit."""
        if counts.sender not in self.awaited:
            self.check_sender(counts)
        from_this_round(self.round, counts.round, counts.sender, "CommitteeCounts")
        padding.require_nonce(counts.nonce, counts.sender)
        if [len(values) for values in counts.values] != [packed_size(count) for _, count in self.layout.uploaded]:
            raise RemoteProtocolError(
                f"{counts.sender} sent counts of another size than the round's. It was left out.",
                step="CommitteeCounts",
                culprit=counts.sender,
            )
        self.awaited.discard(counts.sender)
        self.roster.append(counts.sender)
        self.uploads.append(counts)

    def notice(self, offers: dict[str, bytes]) -> RosterNotice:
        """Nobody else gets in."""
        self.round.require_parties(len(self.roster))
        self.digests = [[sha256(values).digest() for values in each.values] for each in self.uploads]
        uploads = (
            upload_digest(self.round.id, each.sender, each.nonce, digests)
            for each, digests in zip(self.uploads, self.digests, strict=True)
        )
        return RosterNotice(
            round=self.round.id,
            roster=tuple(self.roster),
            nonces=b"".join(each.nonce for each in self.uploads),
            uploads=b"".join(uploads),
            offers=tuple(offers[member] for member in self.members),
        )

    def mix_notices(self, notice: RosterNotice, crossings: dict[str, bytes]) -> Iterator[dict[str, bytes]]:
        """For every part, what each member gets; one part after the other, since they are large."""
        try:
            crossed = {member: decode(crossings[member], Crossing, sender=member) for member in self.members}
        except RemoteProtocolError as error:
            raise self.members_failed(Stage.PADS, frozenset({error.culprit}), str(error)) from error
        told = tuple(each.told for each in crossed.values())
        digests = b"".join(digest for each in self.digests for digest in each)
        for part in range(len(self.layout.parts)):
            values = tuple(b"".join(each.values[n] for each in self.uploads) for n in self.layout.shown(part))
            yield {
                member: encode(
                    MixNotice(
                        round=self.round.id,
                        roster=notice.roster,
                        nonces=notice.nonces,
                        digests=digests,
                        values=values,
                        told=told,
                        returns=tuple(each.returns[index] for sender, each in crossed.items() if sender != member),
                    )
                )
                for index, member in enumerate(self.members)
            }


class Committee(Protocol):
    """`committee`, for an aggregator that does what it likes, and all but one of the members with it."""

    name = NAME
    words = Words(
        summary="no single key: counts stay hidden unless every member of a committee works together",
        aggregator="may do anything, and read along with all but one of the committee's members",
        upload="numbers under one-time pads",
        leader_upload="what it offers to the other members, and returns to them, encrypted",
        views=(
            View(role="party", who="each party", sees="its own data, and the result"),
            View(
                role="member",
                who="each member of the committee",
                sees="the same, and numbers that are random without those of all other members",
            ),
        ),
        together=(
            "All members of the committee together, and nobody less, can take off the pads and read every party's "
            "counts. The two members who blind, with somebody who sees the blinded result, learn the pooled numbers "
            "behind a rounded ratio, though no party's own."
        ),
        steps=(
            "It hides the counts under the sum of several one-time pads, one from each member of a committee, and "
            "sends them. Without all of these pads they are random numbers.",
            "The members check the uploads, take off their pads together without showing them, and multiply pairwise "
            "under keys of their own. Two of them blind what comes out with secret factors.",
            "Each member then holds a share of the blinded result, and seals it for the parties, who add the shares "
            "up: the sum shows the released result and nothing else.",
        ),
        unverified="not by a proof: the aggregator computes nothing, and members refuse messages that it changed",
    )
    batch = True
    groups = True
    resists = True
    tolerance = 0.0
    default_precision: float | None = 1e-4
    options = (SIZE,)
    keeper = "member"
    hashed_keys = True
    one_voids = True
    opening = Stage.BROADCAST
    unopened = frozenset({*Protocol.unopened, Stage.PADS, *Stage.MIX.parts})
    steps = (
        Step(stage=Stage.OFFER, asked=Asked.COMMITTEE, role="member"),
        Step(stage=Stage.SUBMIT, asked=Asked.EVERYONE, role="party"),
        Step(stage=Stage.PADS, asked=Asked.COMMITTEE, role="member", cites=Stage.SUBMIT, also_cites=Stage.OFFER),
        Step(stage=Stage.MIX, asked=Asked.COMMITTEE, role="member", cites=Stage.PADS),
        Step(stage=Stage.OPEN, asked=Asked.COMMITTEE, role="member", cites=Stage.MIX),
        Step(stage=Stage.BROADCAST, asked=Asked.ROSTER, role="decrypt", cites=Stage.OPEN),
    )
    aggregator: type[base.Aggregator] = Aggregator

    def lay_out(self, round_: Round) -> Layout:
        return lay_out(round_)

    def parameter_sets(self, round_: Round) -> list[Parameters]:
        return self.lay_out(round_).parameters

    def parts_of(self, round_: Round, stage: Stage) -> int:
        return len(self.lay_out(round_).parts) if stage is Stage.MIX else 1

    def keepers(self, round_: Round) -> tuple[str, ...]:
        return members_of(round_)

    def keepers_wanted(self, options: Sequence[tuple[str, OptionValue]]) -> int:
        return int(dict(options).get(SIZE.name, SIZE.default))

    def keepers_in_words(self, named: str, count: int, options: Sequence[tuple[str, OptionValue]]) -> str:
        wanted = self.keepers_wanted(options)
        seats = named if count == wanted else f"the first {wanted} that are there of {named}"
        if count < wanted:
            seats = f"{wanted} members, whom the study has to name as its leaders"
        blinders = (
            " Its first two blind a rounded result: if both do, they learn the pooled numbers behind it."
            if wanted > BLINDERS
            else ""
        )
        return (
            f"The committee is {seats}, each with keys of its own: nobody's counts show, unless all {wanted} of them "
            f"work together with the aggregator.{blinders}"
        )

    def may_void(self, round_: Round, answered: Iterable[Stage]) -> bool:
        """With groups, `mix` has its share of what was declared."""
        given = tuple(answered)
        return super().may_void(round_, given) and not (round_.undecided and Stage.MIX in given)

    def tellers(self, round_: Round) -> tuple[str, ...]:
        return members_of(round_)

    def openers(self, round_: Round) -> tuple[str, ...]:
        """The members: without any one of them there are only shares."""
        return members_of(round_)

    def opens(self, round_: Round, party: str) -> bool:
        return party in members_of(round_)

    def holds_keys(self, round_: Round, keeper: str, party: str) -> bool:  # noqa: ARG002
        return party == keeper

    def given(self, round_: Round, keeper: str, own: PartySecrets, party: str) -> PartySecrets:  # noqa: ARG002
        """Member: every party's own pad seed, a common seed, and the digest of the public keys; nothing else."""
        mine = party == keeper
        return PartySecrets(
            seed=own.seed,
            pad_seed=own.pad_seed_of(party),
            keys=own.keys if mine else (),
            master=own.master if mine else None,
            publics=own.publics,
        )

    def joined(self, round_: Round, parts: Sequence[PartySecrets]) -> PartySecrets:  # noqa: ARG002
        """Party: one pad seed of every member, and a seed common to all parties that takes all members' to know."""
        seed = parts[0].seed
        for part in parts[1:]:
            seed = expand(seed, "committee/seed", expand(part.seed, "committee/seed").reveal())
        own = next((part for part in parts if part.master is not None), parts[0])
        return PartySecrets(
            seed=seed,
            pad_seed=own.pad_seed,
            keys=own.keys,
            master=own.master,
            pad_seeds=tuple(part.pad_seed for part in parts),
            publics=tuple(digest for part in parts for digest in part.publics),
        )

    def digest(self, stage: Stage, body: bytes) -> bytes:
        """Uploads are signed prime by prime, and crossings so that each member can be shown its own part."""
        if stage is Stage.SUBMIT:
            counts = decode(body, CommitteeCounts, sender=AGGREGATOR)
            return upload_digest(
                counts.round, counts.sender, counts.nonce, [sha256(values).digest() for values in counts.values]
            )
        if stage is Stage.PADS:
            return told_digest(decode(body, Crossing, sender=AGGREGATOR).told)
        return super().digest(stage, body)

    def answer_offer(self, seat: Seat, _body: bytes) -> Answer:
        nonce = seat.rng.draw(NONCE_BYTES)
        return Answer(body=Member(seat, self.lay_out(seat.round), nonce).offer(nonce), nonce=nonce)

    def submit(self, seat: Seat, nonce: bytes) -> Message:
        return party_submit(self.lay_out(seat.round), seat.round, seat.secrets, seat.me, seat.own, nonce)

    def answer_pads(self, seat: Seat, body: bytes) -> Answer:
        notice = decode(body, RosterNotice, sender=AGGREGATOR)
        return Answer(body=Member(seat, self.lay_out(seat.round)).cross(notice), roster=notice.roster)

    def answer_mix(self, seat: Seat, body: bytes) -> Answer:
        notice = decode(body, MixNotice, sender=AGGREGATOR)
        return Answer(body=Member(seat, self.lay_out(seat.round)).mix(notice, seat.part))

    def answer_open(self, seat: Seat, body: bytes) -> Answer:
        share = Member(seat, self.lay_out(seat.round)).open(decode(body, OpenNotice, sender=AGGREGATOR))
        return Answer(body=share, published=share.groups if seat.round.undecided else None)

    def answer_broadcast(self, seat: Seat, body: bytes) -> Answer:
        """Party: add up the shares that all members have signed, and read what they come to."""
        message = decode(body, SealedShares, sender=AGGREGATOR)
        shares = read_shares(seat.round, message)
        for share, data in zip(shares, message.shares, strict=True):
            seat.require_signed(Stage.OPEN, share.sender, sha256(data).digest())
        roster = shares[0].roster
        require_roster(seat.round, roster, members_of(seat.round))
        if seat.me not in roster or (seat.roster is not None and seat.roster != roster):
            raise misfit("The members' shares are not of this party's roster.", AGGREGATOR)
        return Answer(body=Receipt(round=seat.round.id), verdict=self.opened(seat, roster, body))

    def open(
        self,
        engine: Engine,  # noqa: ARG002 (shares are added in the clear)
        round_: Round,
        secrets: PartySecrets,
        roster: tuple[str, ...],
        answer: bytes,
    ) -> Verdict:
        return party_open(
            self.lay_out(round_), round_, secrets, roster, decode(answer, SealedShares, sender=AGGREGATOR)
        )


PROTOCOL = Committee()
