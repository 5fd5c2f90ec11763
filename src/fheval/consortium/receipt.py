"""Receipts: what a round came to, signed by a member, for whoever was not there.

A receipt carries all that it takes to check it without a network: the authority's certificate and key, the policy and
the study as the authority signed them, a statement in plain JSON, and the member's signature over it. It holds what the
member was told, in the decimals of the study: no resample, no count, no file, no lineage, nothing of its own rows.

A signature covers `fheval/1 receipt`, a zero byte, and the statement as JSON without spaces, its fields in the order of
the file. A file in any other form than `SignedReceipt.to_bytes` gives is refused: no byte of it is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import isclose
from typing import Annotated, Literal

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fheval.consortium.certificates import MALFORMED
from fheval.consortium.enrolment import same_fingerprint
from fheval.consortium.identity import Identity
from fheval.consortium.policy import Policy, open_policy
from fheval.consortium.records import TrustAnchor, domain
from fheval.consortium.signed_study import open_study
from fheval.errors import ConfigError, FhevalError, InputError, RemoteProtocolError
from fheval.evaluation.result import Row
from fheval.protocols import PROTOCOLS
from fheval.protocols.round import Round, RoundCall
from fheval.study import Study

# A thousand members and a thousand numbers have about two megabytes.
MOST_BYTES = 16 << 20

# Members who opened the same answer finish it to within this.
_ALIKE = 1e-9

_SIGNED = "receipt"

_Plain = str | int | float | bool | None
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the member says: which round of which study this was, who took part, and what it was told.

    `parties` were asked, `roster` are those whose uploads were added. Dates are the member's own word; `fheval` is the
    version that wrote the receipt.
    """

    member: str
    certificate: str
    consortium: str
    policy: str
    study: str
    study_hash: str
    round: str
    protocol: str
    engine: str
    parties: tuple[str, ...]
    leader: str
    roster: tuple[str, ...]
    began: _Moment
    ended: _Moment
    signed: _Moment
    verified: bool | None
    soundness_bits: float | None
    hiding_bits: int | None
    results: tuple[dict[str, _Plain], ...]
    fheval: str

    def rows(self) -> tuple[Row, ...]:
        """The numbers, as a result has them."""
        named = ({"label" if name == "class" else name: value for name, value in each.items()} for each in self.results)
        return tuple(msgspec.convert(each, Row) for each in named)


class SignedReceipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A statement, its signature, and what vouches for the signer; bytes are base64 in the file."""

    receipt: Literal[1] = 1
    statement: Statement
    signature: bytes
    study: bytes
    policy: bytes
    authority: bytes
    policy_key: bytes

    def to_bytes(self) -> bytes:
        """The file, for people to look into."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A receipt that is in order, for whoever trusts the authority of this fingerprint.

    `tellers` opened the answer themselves: the leader or the committee, and the study's checkers.
    """

    statement: Statement
    study: Study
    policy: Policy
    authority: str
    tellers: tuple[str, ...]


def make_receipt(
    identity: Identity, statement: Statement, *, signed_study: bytes, signed_policy: bytes
) -> SignedReceipt:
    """Member: sign a statement, and put beside it what others need to check it."""
    anchor = identity.anchor
    return SignedReceipt(
        statement=statement,
        signature=identity.signing_key.reveal().sign(_content(statement)),
        study=signed_study,
        policy=signed_policy,
        authority=anchor.authority().public_bytes(serialization.Encoding.DER),
        policy_key=anchor.policy_key.public_bytes_raw(),
    )


def check_receipt(data: bytes, name: str, *, authority: str) -> Checked:
    """Anyone: refuse a receipt that is not in order, or that another authority vouches for than the one named.

    `authority` is the fingerprint that was heard from the consortium's operator, `name` what to call the receipt.
    """
    receipt = read_receipt(data, name)
    said = receipt.statement
    anchor = anchor_of(receipt, name)
    if not same_fingerprint(authority, anchor.fingerprint()):
        raise _wrong(name, f"comes from an authority with the fingerprint {anchor.fingerprint()}, not {authority}")
    policy, study = _vouched_for(receipt, anchor, name)
    _check_signer(receipt, anchor, policy, name)
    if (said.consortium, said.policy) != (policy.consortium, policy.hash().hex()):
        raise _wrong(name, "is about another consortium or policy than those it brings along")
    round_ = _round_of(said, study, name)
    tellers = PROTOCOLS[study.protocol].of_round(round_).tellers(round_)
    return Checked(
        statement=said,
        study=study,
        policy=policy,
        authority=anchor.fingerprint(),
        tellers=tuple(each for each in tellers if each in said.roster),
    )


def read_receipt(data: bytes, name: str) -> SignedReceipt:
    """Read a receipt, of which nothing is checked but its form."""
    if len(data) > MOST_BYTES:
        raise InputError(
            f"{name} has {len(data):,} bytes, and a receipt {MOST_BYTES:,} at most. Check the file's name."
        )
    try:
        receipt = msgspec.json.decode(data, type=SignedReceipt)
        receipt.statement.rows()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{name} is no receipt ({error}). It is made by: fheval vault receipt") from None
    if receipt.to_bytes() != data:
        raise _wrong(name, "was written anew since it was signed")
    return receipt


def anchor_of(receipt: SignedReceipt, name: str) -> TrustAnchor:
    """The authority that a receipt says it comes from."""
    try:
        pem = x509.load_der_x509_certificate(receipt.authority).public_bytes(serialization.Encoding.PEM)
        key = Ed25519PublicKey.from_public_bytes(receipt.policy_key)
    except MALFORMED:
        raise _wrong(name, "holds a malformed certificate or key of the authority") from None
    return TrustAnchor(authority_pem=pem, policy_key=key)


def require_same(receipts: Mapping[str, Checked]) -> None:
    """Refuse receipts, by their names, of several rounds, or of one in which members were told different numbers."""
    (first, one), *others = receipts.items()
    signers = {one.statement.member: first}
    for name, other in others:
        mine, theirs = one.statement, other.statement
        if theirs.member in signers:
            raise ConfigError(f"{signers[theirs.member]} and {name} are both of {theirs.member}. Give one of them.")
        signers[theirs.member] = name
        if _about(mine) != _about(theirs):
            raise _wrong(name, f"is about another round, or another roster, than {first}")
        if not _same_numbers(mine.results, theirs.results):
            raise _wrong(name, f"has other numbers than {first}, for the same round")


def _about(said: Statement) -> tuple[object, ...]:
    return said.round, said.study_hash, said.engine, said.parties, said.leader, said.roster


def _same_numbers(mine: Sequence[Mapping[str, _Plain]], theirs: Sequence[Mapping[str, _Plain]]) -> bool:
    if [list(row) for row in mine] != [list(row) for row in theirs]:
        return False
    close = partial(isclose, rel_tol=_ALIKE, abs_tol=_ALIKE)
    pairs = [(row[name], other[name]) for row, other in zip(mine, theirs, strict=True) for name in row]
    return all(
        close(one, other) if isinstance(one, float) and isinstance(other, float) else one == other
        for one, other in pairs
    )


def _vouched_for(receipt: SignedReceipt, anchor: TrustAnchor, name: str) -> tuple[Policy, Study]:
    try:
        return open_policy(receipt.policy, anchor), open_study(receipt.study, anchor)
    except (RemoteProtocolError, ConfigError) as error:
        raise _wrong(name, f"brings along a policy or a study that does not hold ({error})") from None


def _check_signer(receipt: SignedReceipt, anchor: TrustAnchor, policy: Policy, name: str) -> None:
    said = receipt.statement
    try:
        record = policy.member(said.member)
        anchor.check_member(record, now=said.signed)
        if record.fingerprint().hex() != said.certificate:
            raise _wrong(name, f"names another certificate of {said.member} than the policy does")
        record.signing_key().verify(receipt.signature, _content(said))
    except InvalidSignature:
        raise _wrong(name, f"was not signed by {said.member}, or was altered afterwards") from None


def _round_of(said: Statement, study: Study, name: str) -> Round:
    """The round that a statement describes; one that the study does not allow is refused."""
    if (said.study, said.study_hash, said.protocol) != (study.name, study.hash().hex(), study.protocol):
        raise _wrong(name, "is about another study than the one it brings along")
    call = RoundCall(id=said.round, study=study.hash(), engine=said.engine, parties=said.parties, leader=said.leader)
    try:
        round_ = study.round(call)
        round_.require_cohort(said.roster)
    except FhevalError as error:
        raise _wrong(name, f"describes a round that its study does not allow ({error})") from None
    return round_


def _content(statement: Statement) -> bytes:
    return domain(_SIGNED) + msgspec.json.encode(statement)


def _wrong(name: str, what: str) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"{name} {what}. Do not rely on it; ask the member for its receipt again.", step="receipt", culprit=name
    )
