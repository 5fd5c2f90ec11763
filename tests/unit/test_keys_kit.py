"""Kits: what loads, and the refusal for everything that must not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from fheval.consortium import Rules, install_policy, load_aggregator_kit, load_kit, transport_files
from fheval.consortium.authority import load_authority
from fheval.consortium.certificates import is_for, read_certificate
from fheval.consortium.member_keys import MemberKeys
from fheval.consortium.policy import sign_policy
from fheval.counting import Grid
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.study import Study
from keys_consortium import DAY, NAMES, NOW, Consortium, consortium

STUDY = Study(protocol="padded", precision=1e-4, grid=Grid.even(100))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return consortium(tmp_path_factory.mktemp("kit") / "authority").authority.directory


@pytest.fixture
def made(original: Path, tmp_path: Path) -> Consortium:
    """Each test gets its own copy of one consortium."""
    shutil.copytree(original, tmp_path / "authority")
    return Consortium(load_authority(tmp_path / "authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return consortium(tmp_path_factory.mktemp("stranger") / "authority")


def test_a_kit_loads_as_its_member(made: Consortium) -> None:
    kit = made.kit("alder")
    assert kit.identity.name == "alder"
    assert kit.policy.version == 1
    assert kit.check_round(STUDY, NAMES, now=NOW).names() == NAMES


@pytest.mark.parametrize("name", ["signing.key", "opening.key"])
@pytest.mark.parametrize("wrong", [0o644, 0o640, 0o400])
def test_an_open_key_file_is_refused(made: Consortium, name: str, wrong: int) -> None:
    path = made.path("alder") / name
    path.chmod(wrong)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
        made.kit("alder")


def test_an_open_kit_is_refused(made: Consortium) -> None:
    made.path("alder").chmod(0o755)
    with pytest.raises(ConfigError, match="chmod 700"):
        made.kit("alder")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("signing.key", "no file .*signing.key"),
        ("opening.key", "no file .*opening.key"),
        ("authority.pem", "no file .*authority.pem"),
        ("policy-key.pem", "no file .*policy-key.pem"),
        ("certificate.pem", "has no certificate yet.*accept"),
        ("policy.fhev", "has no policy yet.*update"),
    ],
)
def test_a_missing_file_is_named(made: Consortium, name: str, reason: str) -> None:
    (made.path("alder") / name).unlink()
    with pytest.raises(ConfigError, match=reason):
        made.kit("alder")


@pytest.mark.parametrize(
    "name", ["signing.key", "opening.key", "authority.pem", "policy-key.pem", "certificate.pem", "policy.fhev"]
)
@pytest.mark.parametrize("content", [b"", b"rubbish"])
def test_a_broken_file_is_refused(made: Consortium, name: str, content: bytes) -> None:
    (made.path("alder") / name).write_bytes(content)
    with pytest.raises(ConfigError):
        made.kit("alder")


def test_a_kit_is_refused_before_and_after_its_time(made: Consortium) -> None:
    with pytest.raises(ConfigError, match="certificate of alder expired on 2032-05-16"):
        made.kit("alder", NOW + 366 * DAY)
    with pytest.raises(ConfigError, match="certificate of Trial is not valid before"):
        made.kit("alder", NOW - timedelta(hours=1))


def test_an_expired_policy_is_refused(made: Consortium) -> None:
    made.sign(days=2)
    with pytest.raises(ConfigError, match="Policy version 2 expired"):
        made.kit("alder", NOW + 3 * DAY)


def swap(made: Consortium, other: Path, *names: str) -> None:
    for name in names:
        (made.path("alder") / name).write_bytes((other / name).read_bytes())


def test_a_foreign_certificate_is_refused(made: Consortium, stranger: Consortium) -> None:
    swap(made, stranger.path("alder"), "certificate.pem", "signing.key", "opening.key")
    with pytest.raises(ConfigError, match="certificate of alder is foreign: Trial did not issue it"):
        made.kit("alder")


def test_a_foreign_policy_is_refused(made: Consortium, stranger: Consortium) -> None:
    swap(made, stranger.path("alder"), "policy.fhev")
    with pytest.raises(ConfigError, match=r"policy\.fhev cannot be used.*not signed by this consortium's authority"):
        made.kit("alder")


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("signing.key",), r"signing\.key does not belong to the certificate of alder"),
        (("opening.key",), r"opening\.key is not the key that the policy lists for alder"),
    ],
)
def test_keys_of_another_member_are_refused(made: Consortium, names: tuple[str, ...], reason: str) -> None:
    swap(made, made.path("birch"), *names)
    with pytest.raises(ConfigError, match=reason):
        made.kit("alder")


def test_a_kit_older_than_the_policy_is_refused(made: Consortium) -> None:
    keys = MemberKeys.generate()
    certificate = made.authority.issuer(now=NOW).member("alder", keys.signing.reveal().public_key(), now=NOW, days=9)
    made.authority.register(keys.record("alder", certificate), renew=True)
    made.sign()
    with pytest.raises(ConfigError, match="Policy version 2 lists another certificate of alder"):
        made.kit("alder")


def test_a_removed_member_is_told(made: Consortium) -> None:
    made.enrol("dogwood")
    made.authority.sign_next_policy(Rules(), now=NOW, days=9, remove=["alder"])
    made.authority.update_local_kits(now=NOW)
    with pytest.raises(ConfigError, match="does not list alder"):
        made.kit("alder")
    assert made.kit("dogwood").identity.name == "dogwood"


def test_the_wrong_kind_of_key_is_refused(made: Consortium) -> None:
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (made.path("alder") / "signing.key").write_bytes(pem)
    with pytest.raises(ConfigError, match="does not hold an Ed25519 key"):
        made.kit("alder")
    (made.path("birch") / "opening.key").write_bytes(pem + pem)
    with pytest.raises(ConfigError, match="ML-KEM-768 and an X25519"):
        made.kit("birch")


def test_a_round_must_include_this_member(made: Consortium) -> None:
    made.enrol("dogwood")
    made.sign()
    kit = made.kit("dogwood")
    with pytest.raises(RemoteProtocolError, match="'dogwood' is not on the roster"):
        kit.check_round(STUDY, NAMES, now=NOW)
    with pytest.raises(RemoteProtocolError, match="'dogwood' is not on the roster"):
        kit.roster(NAMES, now=NOW)


def test_certificates_are_read_once_and_their_dates_looked_at_every_time(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand members' certificates, read at every stage, would be most of a round's work."""
    made.enrol("dogwood", days=10)
    made.sign()
    kit, roster = made.kit("alder"), (*NAMES, "dogwood")
    assert kit.roster(roster, now=NOW).names() == roster

    def read(_: bytes) -> None:
        raise AssertionError("a certificate was read again")

    with monkeypatch.context() as patched:
        patched.setattr("fheval.consortium.certificates.certificate_from_der", read)
        assert kit.roster(roster, now=NOW + 9 * DAY).names() == roster
    for moment, why in ((NOW + 11 * DAY, "certificate of dogwood expired"), (NOW - DAY, "is not valid before")):
        with pytest.raises(RemoteProtocolError, match=why):
            kit.roster(roster, now=moment)


def test_a_member_whose_certificate_expired_blocks_only_rounds_with_it(made: Consortium) -> None:
    made.enrol("dogwood", days=2)
    made.sign()
    kit, later = made.kit("alder"), NOW + 3 * DAY
    assert kit.roster(NAMES, now=later).names() == NAMES
    with pytest.raises(RemoteProtocolError, match="certificate of dogwood expired") as caught:
        kit.roster((*NAMES, "dogwood"), now=later)
    assert caught.value.culprit == "dogwood"


def test_the_policy_of_a_kit_only_moves_forward(made: Consortium) -> None:
    first = made.authority.policy_bytes()
    assert first is not None
    second = made.sign()
    kit = made.path("alder")
    assert install_policy(kit, second, now=NOW).version == 2
    with pytest.raises(RemoteProtocolError, match="version 1 does not replace version 2"):
        install_policy(kit, first, now=NOW)
    assert made.kit("alder").policy.version == 2


@pytest.mark.parametrize("name", ["alder", "hub"])
def test_an_open_kit_gets_no_policy(made: Consortium, name: str) -> None:
    made.path(name).chmod(0o755)
    with pytest.raises(ConfigError, match="chmod 700"):
        install_policy(made.path(name), b"", now=NOW)


@pytest.mark.parametrize("name", ["alder", "hub"])
def test_a_policy_that_must_not_be_installed_leaves_the_kit_alone(
    made: Consortium, stranger: Consortium, name: str
) -> None:
    kit = made.path(name)
    before = {path: path.read_bytes() for path in kit.rglob("*") if path.is_file()}
    current = made.authority.policy()
    assert current is not None
    second = msgspec.structs.replace(current, version=2)
    forged = sign_policy(second, stranger.authority.policy_key, made.authority.anchor)
    expired = sign_policy(
        msgspec.structs.replace(second, not_after=int(NOW.timestamp()) - 1),
        made.authority.policy_key,
        made.authority.anchor,
    )
    for data in (forged, expired, b"", b"rubbish"):
        with pytest.raises(RemoteProtocolError):
            install_policy(kit, data, now=NOW)
    assert {path: path.read_bytes() for path in kit.rglob("*") if path.is_file()} == before


def test_the_aggregators_kit_loads_and_lists_supernodes(made: Consortium) -> None:
    kit = load_aggregator_kit(made.path("hub"), now=NOW)
    assert sorted(kit.supernode_keys()) == list(NAMES)
    for name, path in kit.supernode_keys().items():
        assert path.read_text().strip() == kit.policy.member(name).supernode_key
    assert all(path.is_file() for path in (kit.certificate, kit.key))


def test_the_aggregators_kit_follows_the_policy(made: Consortium) -> None:
    made.enrol("dogwood")
    made.authority.sign_next_policy(Rules(), now=NOW, days=9, remove=["birch"])
    made.authority.update_local_kits(now=NOW)
    folder = made.path("hub") / "supernodes"
    assert sorted(path.stem for path in folder.iterdir()) == ["alder", "cedar", "dogwood"]


def _open_key(hub: Path) -> None:
    (hub / "server.key").chmod(0o644)


def _open_directory(hub: Path) -> None:
    hub.chmod(0o750)


def _other_key(hub: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (hub / "server.key").write_bytes(pem)


def _broken_key(hub: Path) -> None:
    (hub / "server.key").write_bytes(b"rubbish")


def _no_certificate(hub: Path) -> None:
    (hub / "server.pem").write_bytes((hub.parent / "alder" / "policy-key.pem").read_bytes())


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_open_key, "chmod 600"),
        (_open_directory, "chmod 700"),
        (_other_key, r"does not belong to server\.pem"),
        (_broken_key, "no private key in PEM"),
        (_no_certificate, "no certificate in PEM"),
    ],
)
def test_a_spoilt_aggregators_kit_is_refused(made: Consortium, spoil: Callable[[Path], None], reason: str) -> None:
    spoil(made.path("hub"))
    with pytest.raises(ConfigError, match=reason):
        load_aggregator_kit(made.path("hub"), now=NOW)


def test_an_expired_or_foreign_aggregators_kit_is_refused(made: Consortium, stranger: Consortium) -> None:
    with pytest.raises(ConfigError, match="certificate of hub expired"):
        load_aggregator_kit(made.path("hub"), now=NOW + 366 * DAY)
    for name in ("server.pem", "server.key"):
        (made.path("hub") / name).write_bytes((stranger.path("hub") / name).read_bytes())
    with pytest.raises(ConfigError, match="certificate of hub is foreign"):
        load_aggregator_kit(made.path("hub"), now=NOW)


def test_the_supernodes_directory_stands_alone(made: Consortium, tmp_path: Path) -> None:
    moved = shutil.move(made.path("alder") / "transport", tmp_path / "elsewhere")
    found = transport_files(Path(moved))
    loaded = serialization.load_ssh_private_key(found.key.read_bytes(), password=None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    assert isinstance(loaded.curve, ec.SECP384R1)
    assert found.authority.read_bytes() == made.authority.anchor.authority_pem
    assert is_for(read_certificate(found.certificate), loaded.public_key())
    # The vault does not need what was moved away.
    assert load_kit(made.path("alder"), now=NOW).identity.name == "alder"


def test_an_open_supernode_key_is_refused(made: Consortium) -> None:
    folder = made.path("alder") / "transport"
    (folder / "transport.key").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        transport_files(folder)
    folder.chmod(0o755)
    with pytest.raises(ConfigError, match="chmod 700"):
        transport_files(folder)


def test_a_policy_key_of_another_kind_is_refused(made: Consortium) -> None:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = key.public_bytes(Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (made.path("alder") / "policy-key.pem").write_bytes(pem)
    with pytest.raises(ConfigError, match="Ed25519 public key"):
        made.kit("alder")
    other = Ed25519PrivateKey.generate().public_key()
    pem = other.public_bytes(Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (made.path("alder") / "policy-key.pem").write_bytes(pem)
    with pytest.raises(ConfigError, match="not signed by this consortium's authority"):
        made.kit("alder")
