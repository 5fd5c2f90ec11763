"""What holds keys neither prints, logs, pickles nor copies them, and no public file has a byte of them."""

from __future__ import annotations

import copy
import logging
import pickle
import re
import traceback
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fheval.consortium import load_kit, open_bundle, seal_bundle, sign
from fheval.consortium.bundle import SealedBundle
from fheval.consortium.enrolment import answer_request, make_request, request_fingerprint
from fheval.consortium.member_keys import MemberKeys, read_opening_key
from fheval.consortium.sealing import OpeningKey
from fheval.errors import FhevalError
from fheval.secrets import Secret
from fheval.wire import decode
from keys_consortium import NOW, Consortium, consortium


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return consortium(tmp_path_factory.mktemp("secrets") / "authority")


def secret_files(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*.key"))


def forms(pem: bytes) -> Iterator[bytes]:
    """Every form in which the secret part of a private key could slip out: raw, printed, in hex or in base64."""
    for block in re.findall(rb"-----BEGIN .*?-----END [A-Z ]*-----\n", pem, re.DOTALL):
        raw = _raw(block)
        yield from (raw, raw.hex().encode(), repr(raw)[2:-1].encode())
        # Base64 works on groups of three bytes, so that one of three alignments must show. OpenSSH leaves zeros in
        # front of a number out.
        number = raw.lstrip(b"\0")
        yield from (b64encode(number[start : start + 24]) for start in range(3))


def _raw(pem: bytes) -> bytes:
    load = serialization.load_ssh_private_key if b"OPENSSH" in pem else serialization.load_pem_private_key
    key = load(pem, password=None)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.private_numbers().private_value.to_bytes(key.key_size // 8, "big")
    assert isinstance(key, Ed25519PrivateKey | X25519PrivateKey | MLKEM768PrivateKey)
    return key.private_bytes_raw()


def secrets_of(directory: Path) -> list[bytes]:
    return [form for path in secret_files(directory) for form in forms(path.read_bytes())]


def test_the_search_would_find_a_leak(made: Consortium) -> None:
    # Otherwise the tests below could not fail.
    kit = made.path("alder")
    needles = secrets_of(kit)
    assert len(set(needles)) == 4 * 6
    for path in secret_files(kit):
        pem = path.read_bytes()
        raw = _raw(pem[pem.rindex(b"-----BEGIN") :])
        for leak in (b"".join(pem.split()), b"?" + raw, f"{raw!r}".encode(), raw.hex().encode()):
            assert any(needle in leak for needle in needles), path


def test_every_private_key_is_closed_and_named_so(made: Consortium) -> None:
    for path in made.authority.directory.rglob("*"):
        if path.is_dir():
            assert path.stat().st_mode & 0o777 == 0o700, path
        elif path.suffix == ".key":
            assert path.stat().st_mode & 0o777 == 0o600, path
        else:
            assert b"PRIVATE" not in path.read_bytes(), path


def test_no_public_file_has_a_byte_of_a_key(made: Consortium) -> None:
    root = made.authority.directory
    needles = secrets_of(root)
    for path in root.rglob("*"):
        if path.is_file() and path.suffix != ".key":
            content = path.read_bytes()
            assert not any(needle in content for needle in needles), path


def test_the_aggregators_kit_has_no_secret_of_a_party_or_the_authority(made: Consortium) -> None:
    hub = made.path("hub")
    assert [path.name for path in secret_files(hub)] == ["server.key"]
    others = [
        form
        for path in secret_files(made.authority.directory)
        if hub not in path.parents
        for form in forms(path.read_bytes())
    ]
    for path in hub.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(form in content for form in others), path


def test_the_supernodes_directory_has_no_other_secret(made: Consortium) -> None:
    folder = made.path("alder") / "transport"
    assert [path.name for path in secret_files(folder)] == ["transport.key"]
    others = [
        form for name in ("signing.key", "opening.key") for form in forms((made.path("alder") / name).read_bytes())
    ]
    for path in folder.iterdir():
        assert not any(form in path.read_bytes() for form in others), path


def holders(made: Consortium) -> list[object]:
    kit = made.kit("alder")
    return [kit, kit.identity, kit.identity.opening_key, made.authority, MemberKeys.generate()]


def test_holders_of_keys_do_not_print_them(made: Consortium, caplog: pytest.LogCaptureFixture) -> None:
    needles = secrets_of(made.authority.directory)
    with caplog.at_level(logging.DEBUG):
        for holder in holders(made):
            logging.getLogger("test").info("%s %r", holder, holder)
            for text in (repr(holder), str(holder), f"{holder}"):
                assert not any(needle in text.encode() for needle in needles)
    assert not any(needle in caplog.text.encode() for needle in needles)


def test_holders_of_keys_do_not_pickle_or_deepcopy(made: Consortium) -> None:
    for holder in holders(made):
        with pytest.raises(TypeError):
            pickle.dumps(holder)
        with pytest.raises(TypeError):
            copy.deepcopy(holder)


def test_an_opening_key_says_nothing_of_itself() -> None:
    assert repr(OpeningKey.generate()) == "OpeningKey(…)"


def test_loading_and_using_a_kit_logs_nothing(made: Consortium, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        kit = load_kit(made.path("alder"), now=NOW)
        sign(kit.identity, round_id="r", stage="submit", roster_hash=bytes(32), payload=b"p")
        bundle = seal_bundle(kit.identity, kit.identity.record, Secret(b"payload"), made.context(), now=NOW)
        open_bundle(kit.identity, bundle, made.context(), kit.identity.record, now=NOW, seen=())
    assert caplog.records == []


def test_a_refusal_does_not_quote_the_key(made: Consortium, tmp_path: Path) -> None:
    make_request(tmp_path / "kit", "dogwood")
    path = tmp_path / "kit" / "opening.key"
    pem = path.read_bytes()
    needles = list(forms(pem))
    # A file cut in half, as after a full disk.
    path.write_bytes(pem[: len(pem) // 2])
    try:
        read_opening_key(path)
    except FhevalError as error:
        told = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    assert not any(needle in told.encode() for needle in needles)


def test_a_bundle_shows_the_relay_neither_payload_nor_repeats(made: Consortium) -> None:
    identity = made.kit("alder").identity
    payload = b"0123456789abcdef" * 8
    bundles = [seal_bundle(identity, identity.record, Secret(payload), made.context(), now=NOW) for _ in range(8)]
    assert all(payload[:16] not in bundle for bundle in bundles)
    # Fresh encapsulation each time: what is sealed differs in every 32-byte block.
    blocks = [bundle[at : at + 32] for bundle in bundles for at in range(len(bundle) - 64 - 160, len(bundle) - 96, 32)]
    assert len(set(blocks)) == len(blocks)


def test_a_bundle_prints_sizes_only(made: Consortium) -> None:
    identity = made.kit("alder").identity
    data = seal_bundle(identity, identity.record, Secret(b"payload"), made.context(), now=NOW)
    shown = repr(decode(data, SealedBundle, sender="alder"))
    assert "sealed=<1143 bytes>" in shown
    assert "signature=<64 bytes>" in shown


def test_a_reply_has_no_secret_of_the_authority(made: Consortium, tmp_path: Path) -> None:
    make_request(tmp_path / "kit", "dogwood")
    request = (tmp_path / "kit" / "request.fhev").read_bytes()
    reply = answer_request(
        made.authority,
        "dogwood",
        request,
        fingerprint=request_fingerprint(request),
        certificate_pem=None,
        renew=False,
        now=NOW,
        days=9,
    )
    needles = secrets_of(made.authority.directory) + secrets_of(tmp_path / "kit")
    assert not any(needle in reply for needle in needles)
    made.authority.remove("dogwood")
