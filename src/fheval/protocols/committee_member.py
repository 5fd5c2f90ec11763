"""What a member of a committee does at each stage: `committee` says which stages there are, `pairwise` why."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest

import numpy as np

from fheval import field
from fheval.field import Residues
from fheval.protocols import groups, padding
from fheval.protocols.base import Seat, Stage
from fheval.protocols.committee_messages import (
    Crossing,
    DeclaredShare,
    Mixed,
    MixNotice,
    Offer,
    OpenNotice,
    RosterNotice,
    SealedShare,
    Told,
    cut_evenly,
    digest_of,
    misfit,
    returns_digest,
    told_digest,
    upload_digest,
    uploads_digest,
)
from fheval.protocols.committee_numbers import Layout, OwnNumbers
from fheval.protocols.padding import UploadSum, pack, packed_size
from fheval.protocols.pairwise import returned
from fheval.protocols.round import (
    AGGREGATOR,
    PublicSetup,
    Round,
    from_this_round,
    public_digest,
    require_keys,
    uniform_data,
)
from fheval.secrets import SealBroken, seal, unseal
from fheval.wire import decode, encode


class Member:
    """A member of the committee at one stage of a round: its layout, its place, its own numbers."""

    def __init__(self, seat: Seat, layout: Layout, nonce: bytes | None = None) -> None:
        self.seat = seat
        self.round = seat.round
        self.layout = layout
        self.members = layout.members
        self.index = self.members.index(seat.me)
        own = self.offered.nonce if nonce is None else nonce
        self.numbers = OwnNumbers(self.layout, seat.round, seat.secrets, self.index, own)

    @property
    def offered(self) -> Offer:
        return decode(self._said(Stage.OFFER), Offer, sender=self.seat.me)

    @property
    def told(self) -> Told:
        return decode(self._said(Stage.PADS), Crossing, sender=self.seat.me).told

    def _said(self, stage: Stage) -> bytes:
        if stage not in self.seat.said:
            raise misfit(f"Stage {stage.value} has not been answered.", AGGREGATOR)
        return self.seat.said[stage]

    def offer(self, nonce: bytes) -> Offer:
        """Offer: what the others multiply, encrypted under this member's own key. Depends on no data."""
        layout, plan, numbers = self.layout, self.layout.plan, self.numbers
        sealed = []
        for n, (chosen, key) in enumerate(zip(layout.parameters, self.seat.secrets.keys, strict=True)):
            holder = self.seat.engine.key_holder(chosen, key)
            masks = numbers.masks(n)
            ones = np.ones(plan.groups, dtype=np.uint64)
            left = layout.left(numbers.rho(n), layout.primes[n], one=0)
            laid = plan.lay(left, masks[:, [0, 1, 1]] if plan.rounded else masks, numbers.offered_blinding(n), ones)
            sealed.append(tuple(holder.encrypt(sheet) for sheet in laid))
        return Offer(round=self.round.id, sender=self.seat.me, nonce=nonce, ciphertexts=tuple(sealed))

    def cross(self, notice: RosterNotice) -> Crossing:
        """Pads: D_i, and products of what the others offered with this member's share of the pads.

        Learns: the roster.
        """
        uploads, offered, offers = self._shown(notice)
        seen = uploads + offered
        layout, primes = self.layout, self.layout.primes
        pads = padding.leader_pad_sums(
            self.round, self.seat.secrets, notice.roster, notice.nonces, primes, layout.batch.size
        )
        left = tuple(
            pack([field.negate(field.add(own, self.numbers.rho(n), prime), prime)])
            for n, (own, prime) in enumerate(zip(pads, primes, strict=True))
        )
        shares = [field.negate(layout.right(own, prime, one=0), prime) for own, prime in zip(pads, primes, strict=True)]
        returns = tuple(
            () if other == self.index else self._returned(seen, other, offer, shares)
            for other, offer in enumerate(offers)
        )
        told = Told(
            round=self.round.id,
            sender=self.seat.me,
            uploads=uploads,
            offers=offered,
            left=left,
            returns=tuple(map(returns_digest, returns)),
        )
        return Crossing(told=told, returns=returns)

    def _shown(self, notice: RosterNotice) -> tuple[bytes, bytes, list[Offer]]:
        """Check who uploaded and what was offered; the digests of both, and the offers."""
        from_this_round(self.round, notice.round, AGGREGATOR, "RosterNotice")
        require_roster(self.round, notice.roster, self.members)
        self.seat.require_uploads(notice.roster, bytes(notice.nonces))
        uploads = cut_evenly(notice.uploads, len(notice.roster), "digests of uploads")
        for party, digest in zip(notice.roster, uploads, strict=True):
            self.seat.require_signed(Stage.SUBMIT, party, digest)
        if len(notice.offers) != len(self.members):
            raise misfit("There is not one offer from every member.", AGGREGATOR)
        offers, digests = [], b""
        for member, data in zip(self.members, notice.offers, strict=True):
            digest = sha256(data).digest()
            self.seat.require_signed(Stage.OFFER, member, digest)
            if member == self.seat.me and data != self._said(Stage.OFFER):
                raise misfit("What this member is said to have offered is not what it offered.", AGGREGATOR)
            offers.append(self._checked_offer(member, decode(data, Offer, sender=member)))
            digests += digest
        uploaded = uploads_digest(self.round, notice.roster, notice.nonces, notice.uploads)
        return uploaded, digest_of("offers", [self.round.digest, digests]), offers

    def _checked_offer(self, member: str, offer: Offer) -> Offer:
        from_this_round(self.round, offer.round, member, "Offer")
        fits = [len(sheets) for sheets in offer.ciphertexts] == [self.layout.plan.sheets] * len(self.layout.primes)
        if offer.sender != member or not fits:
            raise misfit(f"The offer of {member} is not of this round's form.", member)
        return offer

    def _returned(
        self, seen: bytes, other: int, offer: Offer, shares: Sequence[Residues]
    ) -> tuple[tuple[bytes, ...], ...]:
        """What another member gets back: for every prime, its offer times this member's numbers, masked."""
        layout, plan, numbers = self.layout, self.layout.plan, self.numbers
        public = self._public_keys(other)
        out = []
        for n, (chosen, key, share) in enumerate(zip(layout.parameters, public.keys, shares, strict=True)):
            evaluator = self.seat.engine.evaluator(chosen, key, uniform_data(public.round, public.sender))
            weights = numbers.weights(seen, n)
            factors = plan.lay(
                share,
                weights[:, [0, 1, 0]] if plan.rounded else weights,
                numbers.blinder_factors(other, n),
                np.zeros(plan.groups, dtype=np.uint64),
            )
            offsets = numbers.offsets(seen, other, n)
            out.append(returned(evaluator, plan, offer.ciphertexts[n], factors, offsets, self.seat.rng))
        return tuple(out)

    def _public_keys(self, other: int) -> PublicSetup:
        """Another member's public keys, as it told this one under seal."""
        member = self.members[other]
        if member not in self.seat.publics:
            raise misfit(f"The public keys of {member} did not come.", AGGREGATOR)
        public = decode(self.seat.publics[member], PublicSetup, sender=member)
        require_keys(public, len(self.layout.primes))
        if public.sender != member:
            raise misfit(f"The public keys of {member} are said to be {public.sender}'s.", AGGREGATOR)
        if not compare_digest(public_digest(public), self.seat.secrets.publics[other]):
            raise misfit(f"The public keys of {member} are not those that it told.", AGGREGATOR)
        return public

    def mix(self, notice: MixNotice, part: int) -> Mixed:
        """Mix: check and add up the uploads, and turn what was returned into shares of num and den.

        Tells its shares less u_i, and its share of what was declared of groups. Learns: nothing; δ and what is
        decrypted are uniform.
        """
        own = self.told
        totals = self._added_up(notice, own.uploads, self.layout.shown(part))
        seen = self._compared(notice, own)
        returns = self._returns(notice)
        declared = totals.pop(len(self.layout.primes), None)
        values = [
            part
            for n, total in totals.items()
            for part in self._mixed(own.uploads + own.offers, n, total, notice.told, [each[n] for each in returns])
        ]
        box = b"" if declared is None else self._declared(notice, seen, declared)
        return Mixed(round=self.round.id, sender=self.seat.me, seen=seen, values=pack(values), declared=box)

    def _declared(self, notice: MixNotice, seen: bytes, total: Residues) -> bytes:
        """This member's share of the sum of declarations, and what it knows to be published, sealed for the others."""
        secrets = self.seat.secrets
        (pads,) = padding.leader_pad_sums(
            self.round, secrets, notice.roster, notice.nonces, [groups.PRIME], self.layout.declared, groups.PAD
        )
        first = total if self.index == 0 else np.zeros_like(total)
        share = pack([field.subtract(first, pads, groups.PRIME)])
        plain = encode(DeclaredShare(share=share, before=tuple(sorted(self.seat.published_before))))
        return seal(secrets.seed, "declared", self.round.digest, seen, self.seat.me, plain=plain, rng=self.seat.rng)

    def _added_up(self, notice: MixNotice, announced: bytes, chosen: Sequence[int]) -> dict[int, Residues]:
        """Y for the primes of this part, of the very uploads whose digests were signed."""
        from_this_round(self.round, notice.round, AGGREGATOR, "MixNotice")
        roster, uploaded = notice.roster, self.layout.uploaded
        told = [
            cut_evenly(each, len(uploaded), "digests of an upload")
            for each in cut_evenly(notice.digests, len(roster), "digests")
        ]
        totals = {}
        if len(notice.values) != len(chosen):
            raise misfit("The uploads are not those of this part.", AGGREGATOR)
        for n, values in zip(chosen, notice.values, strict=True):
            prime, count = uploaded[n]
            total, size = UploadSum(count), packed_size(count)
            if len(values) != size * len(roster):
                raise misfit("There is not one upload of every party.", AGGREGATOR)
            for party, digests, start in zip(roster, told, range(0, len(values), size), strict=True):
                piece = values[start : start + size]
                if not compare_digest(sha256(piece).digest(), digests[n]):
                    raise misfit(f"The upload of {party} is not the one that was announced.", AGGREGATOR)
                total.add(piece, party)
            (totals[n],) = total.totals([prime])
        nonces = padding.split_nonces(notice.nonces, roster)
        uploads = b"".join(
            upload_digest(self.round.id, party, nonce, digests)
            for party, nonce, digests in zip(roster, nonces, told, strict=True)
        )
        if not compare_digest(uploads_digest(self.round, roster, notice.nonces, uploads), announced):
            raise misfit("The uploads are not those that pads were given for.", AGGREGATOR)
        return totals

    def _compared(self, notice: MixNotice, own: Told) -> bytes:
        """Check that all members were shown the same, and what each told; the digest of all that."""
        if tuple(each.sender for each in notice.told) != self.members:
            raise misfit("There is not something told by every member.", AGGREGATOR)
        digests = []
        for each in notice.told:
            from_this_round(self.round, each.round, each.sender, "Told")
            digests.append(told_digest(each))
            self.seat.require_signed(Stage.PADS, each.sender, digests[-1])
            if not compare_digest(each.uploads + each.offers, own.uploads + own.offers):
                raise misfit(f"{each.sender} was shown other uploads or offers.", AGGREGATOR)
            if len(each.left) != len(self.layout.primes):
                raise misfit(f"What {each.sender} told is not of this round's form.", each.sender)
        if not compare_digest(digests[self.index], told_digest(own)):
            raise misfit("What this member is said to have told is not what it told.", AGGREGATOR)
        return digest_of("mixed", digests)

    def _returns(self, notice: MixNotice) -> tuple[tuple[tuple[bytes, ...], ...], ...]:
        """What the others returned to this member, for every prime and sheet; each must be what its member signed."""
        others = [each for number, each in enumerate(notice.told) if number != self.index]
        if len(notice.returns) != len(others):
            raise misfit("There is not something from every other member.", AGGREGATOR)
        form = [self.layout.plan.sheets] * len(self.layout.primes)
        for told, returns in zip(others, notice.returns, strict=True):
            if told.returns[self.index : self.index + 1] != (returns_digest(returns),):
                raise misfit(f"What {told.sender} returned is not what it signed.", AGGREGATOR)
            if [len(sheets) for sheets in returns] != form:
                raise misfit(f"What {told.sender} returned is not of this round's form.", told.sender)
        return notice.returns

    def _mixed(
        self, seen: bytes, n: int, total: Residues, told: Sequence[Told], returns: Sequence[Sequence[bytes]]
    ) -> list[Residues]:
        """For one prime: the shares of (num, den) less u_i, those of (X, Z) so far under a pad, and A's θ."""
        layout, plan, numbers, prime = self.layout, self.layout.plan, self.numbers, self.layout.primes[n]
        lefts = [read_residues(each.left[n], layout.batch.size, prime, each.sender) for each in told]
        delta = layout.left(_sum([total, *lefts], prime), prime, one=1)
        rho = numbers.rho(n)
        # D_i = −R_i − ρ_i, so that −R_i is what it told plus ρ_i.
        share = layout.right(field.add(lefts[self.index], rho, prime), prime, one=0)
        left, right = layout.left(rho, prime, one=0), layout.right(total, prime, one=1)
        ratio = plan.products_of(field.add(delta, left, prime), share, prime)
        ratio = field.add(ratio, plan.products_of(left, right, prime), prime)
        if self.index == 0:
            ratio = field.add(ratio, plan.products_of(delta, right, prime), prime)
        blinded = np.zeros_like(ratio)
        multiplied = np.zeros_like(ratio)
        others = [number for number in range(len(self.members)) if number != self.index]
        for other, sheets in zip(others, returns, strict=True):
            got, mine = plan.split(self._decrypted(n, sheets)), plan.split(numbers.offsets(seen, other, n))
            ratio = field.subtract(field.add(ratio, got[0], prime), mine[0], prime)
            blinded = field.subtract(field.add(blinded, got[1], prime), mine[1], prime)
            if other == 1:
                multiplied = got[2]
        masked = [field.subtract(ratio, numbers.masks(n), prime), field.add(blinded, numbers.kept(seen, n), prime)]
        if layout.rounded is not None and self.index == 0:
            fills = np.column_stack([numbers.drawn("fill_scale", n), numbers.drawn("fill_tilt", n)])
            true = field.add(multiplied, fills, prime)
            masked.append(field.subtract(true, numbers.weights(seen, n), prime))
        return [rows.reshape(-1) for rows in masked]

    def _decrypted(self, n: int, sheets: Sequence[bytes]) -> Residues:
        """The groups' sums of what another member returned."""
        holder = self.seat.engine.key_holder(self.layout.parameters[n], self.seat.secrets.keys[n])
        return self.layout.plan.sums(np.concatenate([holder.decrypt(data) for data in sheets]), self.layout.primes[n])

    def open(self, notice: OpenNotice) -> SealedShare:
        """Open: the member's shares of X and Z, once all have told the same; sealed for the parties.

        Learns: nothing, before the parties learn the result; of groups, how many parties hold enough, and anyone.
        """
        from_this_round(self.round, notice.round, AGGREGATOR, "OpenNotice")
        own = [self._said(stage) for stage in self.layout.mix_stages]
        seen = decode(own[0], Mixed, sender=self.seat.me).seen
        mixed = self._all_mixed(notice, own, seen)
        published = self._published(notice, seen) if self.layout.declared else ()
        read = self.round.forms_of(published)
        shown = self.told.uploads + self.told.offers
        values = [
            share[read]
            for n in range(len(self.layout.primes))
            for share in self._share(shown, n, [each[n] for each in mixed])
        ]
        roster = self.seat.roster or ()
        box = seal(
            self.seat.secrets.seed,
            "share",
            self.round.digest,
            seen,
            self.seat.me,
            plain=pack(values),
            rng=self.seat.rng,
        )
        return SealedShare(
            round=self.round.id, sender=self.seat.me, roster=roster, seen=seen, box=box, groups=published
        )

    def _published(self, notice: OpenNotice, seen: bytes) -> tuple[str, ...]:
        """The groups that are opened, by what all members told at `mix`, which they have signed."""
        shares: list[Residues] = []
        before: set[str] = set()
        for member, parts in zip(self.members, notice.mixed, strict=True):
            box = decode(parts[0], Mixed, sender=member).declared
            try:
                plain = unseal(self.seat.secrets.seed, "declared", self.round.digest, seen, member, box=box)
            except SealBroken:
                raise misfit(f"What {member} told of the groups was altered.", member) from None
            told = decode(plain, DeclaredShare, sender=member)
            if member == self.seat.me and set(told.before) != self.seat.published_before:
                raise misfit("Other groups were published since the uploads were added up.", AGGREGATOR)
            shares.append(read_residues(told.share, self.layout.declared, groups.PRIME, member))
            before.update(told.before)
        declared = groups.Declared.read(self.round.groups, _sum(shares, groups.PRIME).tolist())
        return groups.choose(declared, self.round.minimum_cohort, before)

    def _all_mixed(self, notice: OpenNotice, own: Sequence[bytes], seen: bytes) -> list[list[list[Residues]]]:
        """What each member told, for every prime; all must have seen the same."""
        if len(notice.mixed) != len(self.members):
            raise misfit("There is not something mixed from every member.", AGGREGATOR)
        if tuple(notice.mixed[self.index]) != tuple(own):
            raise misfit("What this member is said to have mixed is not what it mixed.", AGGREGATOR)
        everything = []
        for index, (member, parts) in enumerate(zip(self.members, notice.mixed, strict=True)):
            told: list[list[Residues]] = []
            for stage, chosen, data in zip(self.layout.mix_stages, self.layout.parts, parts, strict=True):
                self.seat.require_signed(stage, member, sha256(data).digest())
                mixed = decode(data, Mixed, sender=member)
                from_this_round(self.round, mixed.round, member, "Mixed")
                if mixed.sender != member or not compare_digest(mixed.seen, seen):
                    raise misfit(f"{member} saw other uploads, offers or crossings.", AGGREGATOR)
                told += self._rows(mixed, index, self.layout.primes[chosen])
            everything.append(told)
        return everything

    def _rows(self, mixed: Mixed, index: int, primes: Sequence[int]) -> list[list[Residues]]:
        """What one member told of some primes: rows of two for each form."""
        kinds = 3 if self.layout.rounded is not None and index == 0 else 2
        total = UploadSum(kinds * 2 * self.layout.plan.forms * len(primes))
        total.add(mixed.values, mixed.sender)
        return [list(each.reshape(kinds, -1, 2)) for each in total.totals(primes)]

    def _share(self, seen: bytes, n: int, mixed: Sequence[Sequence[Residues]]) -> list[Residues]:
        """This member's share of X and Z for one prime."""
        layout, numbers, prime = self.layout, self.numbers, self.layout.primes[n]
        weights, masks = numbers.weights(seen, n), numbers.masks(n)
        # The shares of all members less their masks, and this member's own mask: what its weights multiply.
        known = _sum([*(each[0] for each in mixed), masks], prime)
        blinded = field.subtract(mixed[self.index][1], numbers.kept(seen, n), prime)
        if layout.rounded is None:
            return list(field.add(field.multiply(weights, known, prime), blinded, prime).T)
        shares = _blinded(weights, known, prime)
        own = field.add(mixed[self.index][0], masks, prime)
        shares = _sum([shares, blinded, _blinded(mixed[0][2], own, prime)], prime)
        if numbers.blinds:
            noise = np.column_stack([numbers.drawn("noise_x", n), numbers.drawn("noise_z", n)])
            shares = field.add(shares, noise, prime)
        return list(shares.T)


def _blinded(weights: Residues, ratio: Residues, prime: int) -> Residues:
    """(K·num + b·den, K·den) from rows of (K, b) and of (num, den)."""
    scale, tilt = weights.T
    num, den = ratio.T
    top = field.add(field.multiply(scale, num, prime), field.multiply(tilt, den, prime), prime)
    return np.column_stack([top, field.multiply(scale, den, prime)])


def _sum(parts: Sequence[Residues], prime: int) -> Residues:
    total: Residues = np.add.reduce(parts) % np.uint64(prime)
    return total


def read_residues(blob: bytes, count: int, prime: int, sender: str) -> Residues:
    """Residues that another role packed."""
    total = UploadSum(count)
    total.add(blob, sender)
    (values,) = total.totals([prime])
    return values


def require_roster(round_: Round, roster: tuple[str, ...], members: Sequence[str]) -> None:
    """Refuse a roster that is too small, or that a member of the committee is missing from."""
    round_.require_cohort(roster)
    if not set(members).issubset(roster):
        raise misfit("A member of the committee is missing from the roster.", AGGREGATOR)
