"""The authority: made here or brought along, its register, and its policies."""

from __future__ import annotations

import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from fheval.consortium import Rules, certificates, load_aggregator_kit
from fheval.consortium.authority import create_authority, import_authority, load_authority
from fheval.consortium.enrolment import enrol_with_new_keys
from fheval.consortium.files import write_public, write_secret
from fheval.errors import ConfigError
from fheval.secrets import Secret
from keys_consortium import DAY, NAMES, NOW, Consortium, consortium

PEM = serialization.Encoding.PEM


def own_authority(
    folder: Path, key: certificates.AuthorityKey, *, ca: bool = True, sign: bool = True, password: bytes | None = None
) -> tuple[Path, Path]:
    """Write a certificate and key as another tool would have made them."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "House PKI")])
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, NOW - DAY, NOW + 900 * DAY)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(True, False, False, False, False, sign, False, False, False), critical=True)
    )
    edwards = isinstance(key, Ed25519PrivateKey)
    certificate = builder.sign(key, None if edwards else hashes.SHA256())
    protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    folder.mkdir(parents=True, exist_ok=True)
    write_public(folder / "house.pem", certificate.public_bytes(PEM))
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, protection)
    write_secret(folder / "house.key", Secret(private))
    return folder / "house.pem", folder / "house.key"


def test_a_new_authority_has_closed_keys_and_reads_back(tmp_path: Path) -> None:
    made = create_authority(tmp_path / "a", "Trial study", now=NOW)
    again = load_authority(tmp_path / "a")
    assert again.consortium == "Trial study"
    assert again.anchor.fingerprint() == made.anchor.fingerprint()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    for name in ("ca.key", "policy.key"):
        assert stat.S_IMODE((tmp_path / "a" / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["ca.key", "policy.key"])
def test_an_authority_with_open_keys_is_refused(tmp_path: Path, name: str) -> None:
    create_authority(tmp_path / "a", "Trial", now=NOW)
    (tmp_path / "a" / name).chmod(0o640)
    with pytest.raises(ConfigError, match=f"{name} holds a secret.*chmod 600"):
        load_authority(tmp_path / "a")


def test_an_open_or_broken_directory_is_refused(tmp_path: Path) -> None:
    create_authority(tmp_path / "a", "Trial", now=NOW)
    (tmp_path / "a" / "consortium.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"consortium\.json"):
        load_authority(tmp_path / "a")
    (tmp_path / "a").chmod(0o755)
    with pytest.raises(ConfigError, match="chmod 700"):
        load_authority(tmp_path / "a")


def test_an_existing_authority_is_not_overwritten(tmp_path: Path) -> None:
    made = create_authority(tmp_path / "a", "Trial", now=NOW)
    with pytest.raises(ConfigError, match="already exists"):
        create_authority(tmp_path / "a", "Trial", now=NOW)
    assert load_authority(tmp_path / "a").anchor.fingerprint() == made.anchor.fingerprint()


@pytest.mark.parametrize("name", ["", " x", "x" * 65, "a\nb", "\x1b[31m"])
def test_a_name_that_fits_no_certificate_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a consortium"):
        create_authority(tmp_path / "a", name, now=NOW)


def test_two_authorities_have_two_fingerprints(tmp_path: Path) -> None:
    one, two = (create_authority(tmp_path / name, "Trial", now=NOW) for name in ("a", "b"))
    assert one.anchor.fingerprint() != two.anchor.fingerprint()


@pytest.mark.parametrize("kind", ["ed25519", "p256", "rsa"])
def test_an_authority_that_was_brought_along_serves_a_whole_consortium(tmp_path: Path, kind: str) -> None:
    key: certificates.AuthorityKey
    if kind == "rsa":
        key = rsa.generate_private_key(65537, 2048)
    else:
        key = Ed25519PrivateKey.generate() if kind == "ed25519" else ec.generate_private_key(ec.SECP256R1())
    certificate, private = own_authority(tmp_path / "house", key)
    authority = import_authority(tmp_path / "a", "Trial", certificate=certificate, key=private, now=NOW)
    made = Consortium(authority)
    for name in NAMES:
        made.enrol(name)
    made.sign()
    assert made.kit("birch").identity.name == "birch"


def test_a_wrong_pair_or_no_authority_is_refused(tmp_path: Path) -> None:
    def brought(folder: str, *, ca: bool = True, sign: bool = True) -> tuple[Path, Path]:
        return own_authority(tmp_path / folder, Ed25519PrivateKey.generate(), ca=ca, sign=sign)

    (one, _), (_, two) = brought("one"), brought("two")
    out = tmp_path / "a"
    with pytest.raises(ConfigError, match="does not belong to the certificate of House PKI"):
        import_authority(out, "Trial", certificate=one, key=two, now=NOW)
    with pytest.raises(ConfigError, match="is not an authority's"):
        import_authority(out, "Trial", certificate=brought("leaf", ca=False)[0], key=None, now=NOW)
    with pytest.raises(ConfigError, match="may not sign certificates"):
        import_authority(out, "Trial", certificate=brought("mute", sign=False)[0], key=None, now=NOW)
    with pytest.raises(ConfigError, match="House PKI expired"):
        import_authority(out, "Trial", certificate=one, key=None, now=NOW + 901 * DAY)
    with pytest.raises(ConfigError, match="no certificate in PEM"):
        import_authority(out, "Trial", certificate=two, key=None, now=NOW)
    write_secret(tmp_path / "public.key", Secret(one.read_bytes()))
    with pytest.raises(ConfigError, match="no private key in PEM"):
        import_authority(out, "Trial", certificate=one, key=tmp_path / "public.key", now=NOW)
    assert not out.exists()


def test_a_bundle_must_list_each_issuer_after_what_it_issued(tmp_path: Path) -> None:
    one, _ = own_authority(tmp_path / "one", Ed25519PrivateKey.generate())
    two, _ = own_authority(tmp_path / "two", Ed25519PrivateKey.generate())
    (tmp_path / "both.pem").write_bytes(one.read_bytes() + two.read_bytes())
    with pytest.raises(ConfigError, match="foreign"):
        import_authority(tmp_path / "a", "Trial", certificate=tmp_path / "both.pem", key=None, now=NOW)


def test_encrypted_and_open_key_files_are_refused(tmp_path: Path) -> None:
    certificate, key = own_authority(tmp_path / "locked", Ed25519PrivateKey.generate(), password=b"x")
    with pytest.raises(ConfigError, match="is encrypted"):
        import_authority(tmp_path / "a", "Trial", certificate=certificate, key=key, now=NOW)
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        import_authority(tmp_path / "a", "Trial", certificate=certificate, key=key, now=NOW)


def test_an_authority_without_its_key_cannot_issue(tmp_path: Path) -> None:
    certificate, _ = own_authority(tmp_path / "house", Ed25519PrivateKey.generate())
    authority = import_authority(tmp_path / "a", "Trial", certificate=certificate, key=None, now=NOW)
    with pytest.raises(ConfigError, match="issued elsewhere"):
        Consortium(authority).enrol("alder")
    assert not authority.is_enrolled("alder")
    assert not (tmp_path / "a" / "kits" / "alder").exists()


def test_an_expired_authority_issues_nothing(tmp_path: Path) -> None:
    made = Consortium(create_authority(tmp_path / "a", "Trial", now=NOW))
    with pytest.raises(ConfigError, match="certificate of Trial expired"):
        made.enrol("alder", now=NOW + 3651 * DAY)


def test_a_member_is_enrolled_once_and_renewed_on_request(tmp_path: Path) -> None:
    made = consortium(tmp_path / "a")
    before = made.authority.members()[0]
    with pytest.raises(ConfigError, match="'alder' is enrolled already"):
        enrol_with_new_keys(made.authority, "alder", tmp_path / "kit", renew=False, now=NOW, days=9)
    with pytest.raises(ConfigError, match="nothing to renew"):
        enrol_with_new_keys(made.authority, "dogwood", tmp_path / "kit", renew=True, now=NOW, days=9)
    assert not (tmp_path / "kit").exists()
    enrol_with_new_keys(made.authority, "alder", tmp_path / "kit", renew=True, now=NOW, days=9)
    after = made.authority.members()[0]
    assert after.name == before.name
    assert after.sealing_key != before.sealing_key


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", ".a", "a" * 65, "a b", "é", "leader", "aggregator"])
def test_names_that_are_no_members_are_refused(tmp_path: Path, name: str) -> None:
    made = Consortium(create_authority(tmp_path / "a", "Trial", now=NOW))
    with pytest.raises(ConfigError, match=r"cannot be used as a name|name of a role"):
        made.enrol(name)


def test_a_removed_member_is_gone_with_the_next_policy_and_stays_gone(tmp_path: Path) -> None:
    made = consortium(tmp_path / "a")
    made.enrol("dogwood")
    made.sign()
    policy = made.authority.sign_next_policy(Rules(), now=NOW, days=1, remove=["birch"])
    assert policy.version == 3
    assert [record.name for record in policy.members] == ["alder", "cedar", "dogwood"]
    again = made.authority.sign_next_policy(Rules(), now=NOW, days=1)
    assert again.members == policy.members


def test_a_policy_that_cannot_be_signed_removes_nobody(tmp_path: Path) -> None:
    made = consortium(tmp_path / "a")
    with pytest.raises(ConfigError, match="2 members and asks for a cohort of 3"):
        made.authority.sign_next_policy(Rules(), now=NOW, days=1, remove=["birch"])
    with pytest.raises(ConfigError, match="'dogwood' is not enrolled"):
        made.authority.sign_next_policy(Rules(minimum_cohort=2), now=NOW, days=1, remove=["birch", "dogwood"])
    assert [record.name for record in made.authority.members()] == list(NAMES)
    current = made.authority.policy()
    assert current is not None
    assert current.version == 1


def test_a_member_whose_certificate_expired_is_not_signed_again(tmp_path: Path) -> None:
    made = consortium(tmp_path / "a")
    with pytest.raises(ConfigError, match="certificate of alder expired"):
        made.sign(now=NOW + 366 * DAY)


def test_a_version_number_is_never_used_twice(tmp_path: Path) -> None:
    made = consortium(tmp_path / "a")
    first = made.authority.policy_bytes()
    made.sign()
    # A crash after version 2 was kept and before it became the current one:
    assert first is not None
    (tmp_path / "a" / "policy.fhev").write_bytes(first)
    made.authority.sign_next_policy(Rules(), now=NOW, days=1)
    current = made.authority.policy()
    assert current is not None
    assert current.version == 3
    assert sorted(path.name for path in (tmp_path / "a" / "policies").iterdir()) == [
        "000001.fhev",
        "000002.fhev",
        "000003.fhev",
    ]


def test_an_aggregator_and_a_member_do_not_share_a_name(tmp_path: Path) -> None:
    made = consortium(tmp_path / "a")
    with pytest.raises(ConfigError, match="'hub' is an aggregator"):
        made.enrol("hub")
    assert load_aggregator_kit(made.path("hub"), now=NOW + timedelta(hours=1)).policy.version == 1
