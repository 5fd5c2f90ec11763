"""Key bundles: only the right member opens one, once, in the right round; every other case is refused by name."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.serialization import Encoding

from fheval.consortium import BundleContext, Identity, MemberRecord, bundle_id, open_bundle, seal_bundle
from fheval.consortium.bundle import BundleHeader, SealedBundle, _signed_bytes
from fheval.consortium.records import domain
from fheval.consortium.sealing import seal
from fheval.errors import RemoteProtocolError
from fheval.secrets import Secret
from fheval.wire import decode, encode
from keys_consortium import DAY, NAMES, NOW, Consortium, consortium

PAYLOAD = b"the FHE keys and the pad seed"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return consortium(tmp_path_factory.mktemp("bundle") / "authority")


@pytest.fixture(scope="module")
def alder(made: Consortium) -> Identity:
    return made.kit("alder").identity


@pytest.fixture(scope="module")
def birch(made: Consortium) -> Identity:
    return made.kit("birch").identity


@pytest.fixture(scope="module")
def context(made: Consortium) -> BundleContext:
    return made.context()


@pytest.fixture
def bundle(alder: Identity, birch: Identity, context: BundleContext) -> bytes:
    return seal_bundle(alder, birch.record, Secret(PAYLOAD), context, now=NOW)


def opened(
    identity: Identity,
    data: bytes,
    context: BundleContext,
    leader: MemberRecord,
    *,
    now: datetime = NOW,
    seen: Container[bytes] = (),
) -> bytes:
    return open_bundle(identity, data, context, leader, now=now, seen=seen).reveal()


def refused(
    reason: str,
    identity: Identity,
    data: bytes,
    context: BundleContext,
    leader: MemberRecord,
    *,
    now: datetime = NOW,
    seen: Container[bytes] = (),
) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        opened(identity, data, context, leader, now=now, seen=seen)
    return caught.value


def test_the_recipient_opens_it(alder: Identity, birch: Identity, context: BundleContext, bundle: bytes) -> None:
    assert opened(birch, bundle, context, alder.record) == PAYLOAD


def test_a_large_payload_travels(alder: Identity, birch: Identity, context: BundleContext) -> None:
    payload = bytes(range(256)) * 20_000
    data = seal_bundle(alder, birch.record, Secret(payload), context, now=NOW)
    assert opened(birch, data, context, alder.record) == payload
    assert len(data) < len(payload) + 2_000


def test_a_leader_may_seal_for_itself(alder: Identity, context: BundleContext) -> None:
    data = seal_bundle(alder, alder.record, Secret(PAYLOAD), context, now=NOW)
    assert opened(alder, data, context, alder.record) == PAYLOAD


def test_a_wrong_recipient_is_refused(made: Consortium, alder: Identity, context: BundleContext, bundle: bytes) -> None:
    error = refused(r"another recipient \(birch\)", made.kit("cedar").identity, bundle, context, alder.record)
    assert (error.step, error.culprit) == ("bundle", "alder")


def test_an_older_certificate_of_the_recipient_is_refused(
    made: Consortium, alder: Identity, birch: Identity, context: BundleContext
) -> None:
    older = msgspec.structs.replace(
        birch.record,
        certificate=made.authority.issuer(now=NOW)
        .member("birch", birch.signing_key.reveal().public_key(), now=NOW, days=9)
        .public_bytes(Encoding.DER),
    )
    data = seal_bundle(alder, older, Secret(PAYLOAD), context, now=NOW)
    refused("another certificate of this member", birch, data, context, alder.record)


def test_another_roster_policy_or_epoch_is_refused(
    alder: Identity, birch: Identity, context: BundleContext, bundle: bytes
) -> None:
    for change, reason in (
        ({"roster_hash": bytes(32)}, "for another roster"),
        ({"policy_hash": bytes(32)}, "under another policy"),
        ({"epoch": "epoch-2"}, r"of another epoch \('epoch-1'\)"),
    ):
        refused(reason, birch, bundle, replace(context, **change), alder.record)


def test_an_expired_bundle_is_refused(alder: Identity, birch: Identity, context: BundleContext, bundle: bytes) -> None:
    assert opened(birch, bundle, context, alder.record, now=NOW + DAY) == PAYLOAD
    late = NOW + DAY + timedelta(seconds=1)
    refused("expired on 2031-05-18 12:00 UTC", birch, bundle, context, alder.record, now=late)


def test_a_replayed_bundle_is_refused(alder: Identity, birch: Identity, context: BundleContext, bundle: bytes) -> None:
    seen = {bundle_id(bundle, sender="alder")}
    refused("is replayed", birch, bundle, context, alder.record, seen=seen)
    fresh = seal_bundle(alder, birch.record, Secret(PAYLOAD), context, now=NOW)
    assert opened(birch, fresh, context, alder.record, seen=seen) == PAYLOAD


def test_a_bundle_in_other_bytes_is_still_the_same_bundle(bundle: bytes) -> None:
    # The expiry as a 64-bit number instead of a 32-bit one decodes to the same header.
    message = decode(bundle, SealedBundle, sender="alder")
    short = b"\xce" + message.header.not_after.to_bytes(4, "big")
    assert bundle.count(short) == 1
    longer = bundle.replace(short, b"\xcf" + message.header.not_after.to_bytes(8, "big"))
    assert decode(longer, SealedBundle, sender="alder") == message
    assert bundle_id(longer, sender="alder") == bundle_id(bundle, sender="alder")


def test_a_bundle_of_another_member_is_not_the_leaders(
    made: Consortium, alder: Identity, birch: Identity, context: BundleContext
) -> None:
    cedar = made.kit("cedar").identity
    data = seal_bundle(cedar, birch.record, Secret(b"forged"), context, now=NOW)
    refused("names another sender than the leader", birch, data, context, alder.record)


def test_any_altered_byte_is_refused(alder: Identity, birch: Identity, context: BundleContext, bundle: bytes) -> None:
    message = decode(bundle, SealedBundle, sender="alder")
    fields = [getattr(message.header, name) for name in message.header.__struct_fields__]
    for field in (*fields, message.sealed, message.signature):
        content = field.to_bytes(4, "big") if isinstance(field, int) else field
        start = bundle.index(content.encode() if isinstance(content, str) else content)
        for at in range(start, start + len(content)):
            altered = bundle[:at] + bytes([bundle[at] ^ 1]) + bundle[at + 1 :]
            with pytest.raises(RemoteProtocolError):
                opened(birch, altered, context, alder.record)


@pytest.mark.parametrize("end", [0, 4, 5, 100, -1])
def test_a_truncated_or_padded_bundle_is_refused(
    alder: Identity, birch: Identity, context: BundleContext, bundle: bytes, end: int
) -> None:
    with pytest.raises(RemoteProtocolError):
        opened(birch, bundle[:end], context, alder.record)
    with pytest.raises(RemoteProtocolError):
        opened(birch, bundle + b"\0", context, alder.record)


def test_an_altered_header_is_named_as_such(
    alder: Identity, birch: Identity, context: BundleContext, bundle: bytes
) -> None:
    message = decode(bundle, SealedBundle, sender="alder")
    later = msgspec.structs.replace(message.header, not_after=message.header.not_after + 9)
    forged = encode(msgspec.structs.replace(message, header=later))
    refused("was altered, or the leader did not sign it", birch, forged, context, alder.record)


def _resigned(message: SealedBundle, header: BundleHeader, signer: Identity) -> bytes:
    signature = signer.signing_key.reveal().sign(_signed_bytes(header, message.sealed))
    return encode(SealedBundle(header=header, sealed=message.sealed, signature=signature))


def test_a_member_cannot_pass_the_leaders_bundle_off_as_its_own(
    made: Consortium, birch: Identity, context: BundleContext, bundle: bytes
) -> None:
    cedar = made.kit("cedar").identity
    message = decode(bundle, SealedBundle, sender="alder")
    header = msgspec.structs.replace(message.header, sender="cedar", sender_certificate=cedar.record.fingerprint())
    refused("its seal does not fit", birch, _resigned(message, header, cedar), context, cedar.record)


@pytest.mark.parametrize("field", ["epoch", "roster_hash", "policy_hash", "not_after", "sender_certificate"])
def test_the_seal_itself_covers_the_header(
    alder: Identity, birch: Identity, context: BundleContext, bundle: bytes, field: str
) -> None:
    message = decode(bundle, SealedBundle, sender="alder")
    value = getattr(message.header, field)
    changed = value + 1 if isinstance(value, int) else value[:-1] + (b"?" if isinstance(value, bytes) else "?")
    header = msgspec.structs.replace(message.header, **{field: changed})
    key = birch.opening_key
    assert key.open(message.sealed, domain("bundle seal") + encode(message.header)).reveal() == PAYLOAD
    with pytest.raises(InvalidTag):
        key.open(message.sealed, domain("bundle seal") + encode(header))


def test_a_seal_for_another_use_does_not_open(
    alder: Identity, birch: Identity, context: BundleContext, bundle: bytes
) -> None:
    message = decode(bundle, SealedBundle, sender="alder")
    sealed = seal(birch.record.sealing_key, Secret(PAYLOAD), encode(message.header))
    signature = alder.signing_key.reveal().sign(_signed_bytes(message.header, sealed))
    data = encode(SealedBundle(header=message.header, sealed=sealed, signature=signature))
    refused("its seal does not fit", birch, data, context, alder.record)


def test_a_leader_whose_certificate_is_not_valid_is_refused(
    alder: Identity, birch: Identity, context: BundleContext
) -> None:
    then = NOW + 365 * DAY
    data = seal_bundle(alder, birch.record, Secret(PAYLOAD), context, now=then)
    error = refused("certificate of alder expired", birch, data, context, alder.record, now=then + DAY)
    assert error.culprit == "alder"


def test_a_leader_of_another_authority_is_refused(birch: Identity, context: BundleContext, tmp_path: Path) -> None:
    other = consortium(tmp_path / "other")
    stranger = other.kit("alder").identity
    foreign_birch = other.kit("birch").identity.record
    data = seal_bundle(stranger, foreign_birch, Secret(PAYLOAD), context, now=NOW)
    refused("certificate of alder is foreign", birch, data, context, stranger.record)


def test_a_leader_seals_for_nobody_whose_certificate_is_not_valid(
    alder: Identity, birch: Identity, context: BundleContext, tmp_path: Path
) -> None:
    stranger = consortium(tmp_path / "other").kit("birch").identity.record
    with pytest.raises(RemoteProtocolError, match="certificate of birch is foreign"):
        seal_bundle(alder, stranger, Secret(PAYLOAD), context, now=NOW)
    with pytest.raises(RemoteProtocolError, match="certificate of birch expired"):
        seal_bundle(alder, birch.record, Secret(PAYLOAD), context, now=NOW + 400 * DAY)


def test_an_expiry_that_no_calendar_shows_is_refused(
    alder: Identity, birch: Identity, context: BundleContext, bundle: bytes
) -> None:
    message = decode(bundle, SealedBundle, sender="alder")
    for moment in (-1, 1 << 62):
        header = msgspec.structs.replace(message.header, not_after=moment)
        refused("malformed SealedBundle", birch, _resigned(message, header, alder), context, alder.record)


def test_every_member_gets_a_bundle_of_its_own(made: Consortium, alder: Identity, context: BundleContext) -> None:
    bundles = {
        name: seal_bundle(alder, made.kit(name).identity.record, Secret(PAYLOAD), context, now=NOW) for name in NAMES
    }
    assert len(set(bundles.values())) == len(NAMES)
    for name, data in bundles.items():
        assert opened(made.kit(name).identity, data, context, alder.record) == PAYLOAD
