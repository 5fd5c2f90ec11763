"""The authority's bulletin: one public file, the same for everybody, from which each completes or renews its kit.

It has the policy, the certificates of all connections, where the hub is, and the signed studies. Nothing in it is
secret, so it may be published. Whom it comes from is known by the authority's fingerprint, which is heard over the
telephone once; a kit that has an authority takes bulletins of no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fheval.consortium import certificates, enrolment, kit
from fheval.consortium.authority import Authority
from fheval.consortium.files import check_private_directory, read_public
from fheval.consortium.hub_request import HubRequest, open_hub_request
from fheval.consortium.kit import POLICY_KEY, SERVER_KEY
from fheval.consortium.member_keys import SIGNING_KEY, read_private_key, read_signing_key
from fheval.consortium.policy import Policy, open_policy
from fheval.consortium.records import HubRecord, MemberRecord, TrustAnchor, domain
from fheval.consortium.signed_study import open_study
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.wire import Message, decode, encode, holds

_SIGNED = "bulletin"


class Bulletin(Message, frozen=True, kw_only=True):
    """Everything that the authority has to say to its members and to the hub.

    `transports` are the certificates of members' connections, by member; `renewed` names the members that were enrolled
    with other keys before, whose vaults must go on with the ledger that they have.
    """

    authority_pem: bytes
    policy_key: bytes
    policy: bytes
    studies: tuple[bytes, ...]
    transports: dict[str, bytes]
    hubs: tuple[HubRecord, ...]
    renewed: tuple[str, ...]


class SignedBulletin(Message, frozen=True, kw_only=True):
    """A bulletin's bytes and the authority's Ed25519 signature over them."""

    bulletin: bytes
    signature: bytes


def is_bulletin(data: bytes) -> bool:
    """Whether a file holds a bulletin rather than, say, a policy."""
    return holds(data, SignedBulletin)


# The authority


@dataclass(frozen=True, slots=True)
class Admission:
    """A request whose fingerprint was compared; `renews` says that it replaces the keys of a member."""

    name: str
    data: bytes
    renews: bool


def checked_request(authority: Authority, data: bytes, heard: Mapping[str, str], *, renew: bool) -> Admission | None:
    """Refuse a request that was altered, bears a taken name, or has another fingerprint than its maker has read out.

    None for one that was enrolled before: what failed after that may be tried again with the same words.
    """
    if holds(data, HubRequest):
        name = open_hub_request(data)[0].name
        if authority.is_enrolled(name):
            raise ConfigError(f"{name!r} is a member. Call the aggregator by another name.")
        enrolment.check_fingerprint(name, data, heard[name])
        return Admission(name, data, renews=False)
    name = enrolment.request_name(data)
    if enrolment.is_enrolled_with(authority, name, data):
        return None
    renews = renew and authority.is_enrolled(name)
    enrolment.check_request(authority, name, data, fingerprint=heard[name], renew=renews)
    return Admission(name, data, renews=renews)


def admit(authority: Authority, admissions: Sequence[Admission], *, now: datetime, days: int) -> None:
    """Enter the makers of checked requests, and issue their certificates."""
    issuer = authority.issuer(now=now)
    for each in admissions:
        if holds(each.data, HubRequest):
            request, key, hosts = open_hub_request(each.data)
            certificate = issuer.server(request.name, key, hosts, now=now, days=days)
            der = certificate.public_bytes(serialization.Encoding.DER)
            authority.register_hub(HubRecord(name=request.name, address=request.address, certificate=der))
        else:
            reply = enrolment.answer_request(
                authority,
                each.name,
                each.data,
                fingerprint=enrolment.request_fingerprint(each.data),
                certificate_pem=None,
                renew=each.renews,
                now=now,
                days=days,
            )
            issued = decode(reply, enrolment.EnrolmentReply, sender="authority")
            authority.register_transport(each.name, issued.transport)


def make_bulletin(authority: Authority) -> bytes:
    """What the authority publishes now, signed."""
    signed = authority.policy_bytes()
    if signed is None:
        raise ConfigError("No policy has been signed yet. Enrol members first.")
    names = [record.name for record in open_policy(signed, authority.anchor).members]
    transports = authority.transports()
    bulletin = Bulletin(
        authority_pem=authority.anchor.authority_pem,
        policy_key=authority.anchor.policy_key.public_bytes_raw(),
        policy=signed,
        studies=tuple(authority.studies()),
        transports={name: transports[name] for name in names if name in transports},
        hubs=tuple(authority.hubs()),
        renewed=tuple(name for name in names if authority.had_other_keys(name)),
    )
    body = encode(bulletin)
    signature = authority.policy_key.reveal().sign(domain(_SIGNED) + body)
    return encode(SignedBulletin(bulletin=body, signature=signature))


# Members and the hub


def take_bulletin(directory: Path, data: bytes, *, authority: str | None, now: datetime) -> Policy:
    """Complete or renew a kit; return the policy that it has from then on.

    `authority` is the fingerprint that was heard over the telephone; a kit that has an authority needs none.
    """
    check_private_directory(directory)
    bulletin, anchor = _opened(data)
    _check_anchor(directory, anchor, authority)
    policy = kit.check_new_policy(directory, bulletin.policy, anchor, now=now)
    studies = {open_study(signed, anchor).name: signed for signed in bulletin.studies}
    if (directory / SERVER_KEY).exists():
        _complete_hub(directory, bulletin, anchor, now)
    else:
        _complete_member(directory, bulletin, anchor, policy, now)
    kit.place_studies(directory, studies)
    return policy


def bulletin_version(data: bytes) -> int:
    """The version of the policy in a bulletin, as it says itself."""
    bulletin, anchor = _opened(data)
    return open_policy(bulletin.policy, anchor).version


def _opened(data: bytes) -> tuple[Bulletin, TrustAnchor]:
    signed = decode(data, SignedBulletin, sender="authority")
    bulletin = decode(signed.bulletin, Bulletin, sender="authority")
    try:
        key = Ed25519PublicKey.from_public_bytes(bulletin.policy_key)
        key.verify(signed.signature, domain(_SIGNED) + signed.bulletin)
        certificates.read_certificates(bulletin.authority_pem, "The bulletin")
    except (*certificates.MALFORMED, InvalidSignature):
        raise RemoteProtocolError(
            "The bulletin is damaged, or was altered after it was signed. Get it from the authority again.",
            step="bulletin",
            culprit="authority",
        ) from None
    return bulletin, TrustAnchor(authority_pem=bulletin.authority_pem, policy_key=key)


def _check_anchor(directory: Path, anchor: TrustAnchor, heard: str | None) -> None:
    known = (directory / POLICY_KEY).exists()
    if not known and heard is None:
        raise ConfigError(
            "This kit does not know its authority yet. Have the authority's operator read its fingerprint to you over "
            "the telephone, and give it as --authority."
        )
    found = anchor.fingerprint()
    if heard is not None and not enrolment.same_fingerprint(heard, found):
        raise ConfigError(
            f"The bulletin comes from an authority with fingerprint {found}, not {heard}. Do not use it; "
            "ask the operator of the consortium."
        )
    if known and kit.read_anchor(directory).fingerprint() != found:
        raise ConfigError("The bulletin comes from another authority than this kit's. Make a new kit for it.")


def _complete_member(directory: Path, bulletin: Bulletin, anchor: TrustAnchor, policy: Policy, now: datetime) -> None:
    record = _own_record(directory, policy)
    anchor.check_certificate(record.x509(), now=now)
    transport = None
    if record.name in bulletin.transports:
        try:
            transport = certificates.certificate_from_der(bulletin.transports[record.name])
        except certificates.MALFORMED:
            raise ConfigError("The bulletin holds a malformed certificate. Get it from the authority again.") from None
        anchor.check_certificate(transport, now=now)
        certificates.check_transport_use(transport, record.name, record.transport_key())
    if record.name in bulletin.renewed:
        kit.expect_ledger(directory)
    if bulletin.hubs:
        kit.place_hub(directory, bulletin.hubs[0].address)
    kit.place_members_files(directory, record.x509(), transport, anchor, bulletin.policy)


def _own_record(directory: Path, policy: Policy) -> MemberRecord:
    """The member whose keys this kit holds."""
    own = read_signing_key(directory / SIGNING_KEY).reveal().public_key().public_bytes_raw()
    for record in policy.members:
        if record.signing_key().public_bytes_raw() == own:
            return record
    names = ", ".join(record.name for record in policy.members)
    raise ConfigError(
        f"The bulletin has no member with the keys of this kit; its members are {names}. "
        "Ask the authority whether it has enrolled your request, and no other under your name."
    )


def _complete_hub(directory: Path, bulletin: Bulletin, anchor: TrustAnchor, now: datetime) -> None:
    key = read_private_key(directory / SERVER_KEY).reveal().public_key()
    for record in bulletin.hubs:
        try:
            certificate = certificates.certificate_from_der(record.certificate)
        except certificates.MALFORMED:
            continue
        if certificates.is_for(certificate, key):
            anchor.check_certificate(certificate, now=now)
            kit.place_aggregators_files(directory, certificate, anchor, bulletin.policy)
            return
    if not (directory / kit.SERVER_CERTIFICATE).exists():
        raise ConfigError(
            "The bulletin has no hub with this kit's key. Ask the authority whether your request arrived."
        )
    # A kit that the authority made: its certificate came with it.
    kit.install_policy(directory, bulletin.policy, now=now)


def read_bulletin(path: Path) -> bytes:
    """Read a bulletin from a file; what it says is checked when it is taken."""
    data = read_public(path)
    if not is_bulletin(data):
        raise ConfigError(f"{path} is no bulletin of an authority. It is made by: fheval consortium publish")
    return data
