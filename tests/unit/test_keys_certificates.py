"""Certificates: what the authority issues is accepted, everything else is refused by name."""

from __future__ import annotations

import socket
import ssl
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from fheval.consortium import certificates
from fheval.errors import ConfigError
from fheval.secrets import Secret
from keys_consortium import DAY, NOW, consortium

KEY = Ed25519PrivateKey.generate()
CA = certificates.authority_certificate("Trial", KEY, now=NOW, days=365)


def member(
    name: str = "alder", *, now: datetime = NOW, days: int = 30, ca: x509.Certificate = CA, key: Ed25519PrivateKey = KEY
) -> x509.Certificate:
    subject = Ed25519PrivateKey.generate().public_key()
    return certificates.Issuer(ca, Secret(key)).member(name, subject, now=now, days=days)


def test_a_member_certificate_says_what_it_is_for() -> None:
    issued = member()
    certificates.check_issuer(issued, CA)
    certificates.check_dates(issued, now=NOW)
    certificates.check_member_use(issued, "alder")
    basic = issued.extensions.get_extension_for_class(x509.BasicConstraints)
    assert basic.critical
    assert not basic.value.ca
    usage = issued.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert not usage.key_cert_sign
    purposes = issued.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_an_authority_issues_directly_and_no_further() -> None:
    basic = CA.extensions.get_extension_for_class(x509.BasicConstraints)
    assert basic.critical
    assert basic.value == x509.BasicConstraints(ca=True, path_length=0)
    certificates.check_authority([CA], now=NOW)


def test_serial_numbers_differ() -> None:
    assert len({member().serial_number for _ in range(20)}) == 20


def test_a_certificate_does_not_outlive_its_authority() -> None:
    assert member(days=3650).not_valid_after_utc == CA.not_valid_after_utc


def test_expired_and_early_certificates_are_refused() -> None:
    issued = member(days=30)
    certificates.check_dates(issued, now=NOW + 30 * DAY)
    with pytest.raises(ConfigError, match="certificate of alder expired on 2031-06-16"):
        certificates.check_dates(issued, now=NOW + 30 * DAY + timedelta(seconds=1))
    with pytest.raises(ConfigError, match="certificate of alder is not valid before 2031-05-17 11:50"):
        certificates.check_dates(issued, now=NOW - timedelta(minutes=11))


def test_a_certificate_of_a_namesake_authority_is_foreign() -> None:
    other = Ed25519PrivateKey.generate()
    namesake = certificates.authority_certificate("Trial", other, now=NOW, days=365)
    with pytest.raises(ConfigError, match="certificate of alder is foreign: Trial did not issue it"):
        certificates.check_issuer(member(ca=namesake, key=other), CA)


def test_a_certificate_of_an_authority_of_another_name_is_foreign() -> None:
    renamed = certificates.authority_certificate("Other", KEY, now=NOW, days=365)
    with pytest.raises(ConfigError, match="foreign"):
        certificates.check_issuer(member(ca=renamed), CA)


def test_an_altered_certificate_is_foreign() -> None:
    der = bytearray(member().public_bytes(Encoding.DER))
    der[der.index(b"alder") + 4] = ord("x")
    with pytest.raises(ConfigError, match="certificate of aldex is foreign"):
        certificates.check_issuer(x509.load_der_x509_certificate(bytes(der)), CA)


def test_certificates_for_another_use_are_refused() -> None:
    with pytest.raises(ConfigError, match="is for alder, not for birch"):
        certificates.check_member_use(member("alder"), "birch")
    with pytest.raises(ConfigError, match="is an authority's"):
        certificates.check_member_use(CA, "Trial")
    tls = ec.generate_private_key(ec.SECP256R1()).public_key()
    server = certificates.Issuer(CA, Secret(KEY)).server("hub", tls, ["localhost"], now=NOW, days=1)
    with pytest.raises(ConfigError, match="no Ed25519 key"):
        certificates.check_member_use(server, "hub")
    with pytest.raises(ConfigError, match="may not sign messages"):
        certificates.check_member_use(_without_signing("alder"), "alder")


def _without_signing(name: str) -> x509.Certificate:
    good = member(name)
    usage = x509.KeyUsage(False, False, False, False, True, False, False, False, False)
    builder = x509.CertificateBuilder(
        CA.subject, good.subject, KEY.public_key(), 7, good.not_valid_before_utc, good.not_valid_after_utc
    )
    return builder.add_extension(usage, critical=True).sign(KEY, None)


def test_the_server_certificate_covers_names_and_addresses() -> None:
    tls = ec.generate_private_key(ec.SECP256R1()).public_key()
    hosts = ["hub.example.org", "127.0.0.1", "::1"]
    server = certificates.Issuer(CA, Secret(KEY)).server("hub", tls, hosts, now=NOW, days=1)
    certificates.check_server_use(server, hosts)
    with pytest.raises(ConfigError, match=r"does not cover 127\.0\.0\.2"):
        certificates.check_server_use(server, ["127.0.0.1", "127.0.0.2"])
    purposes = server.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]


@pytest.mark.parametrize("host", ["", "-a.org", "a b", "a..b", "*.org", "x" * 64, "é.org", "http://a", "1.2.3.4:5"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="neither an IP address nor a host name"):
        certificates.host_name(host)


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Shake hands over loopback as SuperLink and SuperNode do; raise what the client sees."""

    def serve() -> None:
        connection, _ = listener.accept()
        try:
            server.wrap_socket(connection, server_side=True).close()
        except (ssl.SSLError, OSError):
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname()[:2]) as plain,
                client.wrap_socket(plain, server_hostname=host),
            ):
                pass
        finally:
            thread.join()


def test_the_aggregators_kit_serves_tls_to_strict_clients(tmp_path: Path) -> None:
    # A TLS library looks at the real clock, so this consortium lives now.
    now = datetime.now(tz=NOW.tzinfo)
    made = consortium(tmp_path / "authority", now=now)
    hub, alder = made.path("hub"), made.path("alder")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(hub / "server.pem", hub / "server.key")
    client = ssl.create_default_context(cafile=str(alder / "transport" / "authority.pem"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    _handshake(server, client, "127.0.0.1")
    _handshake(server, client, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        _handshake(server, client, "127.0.0.2")


def test_a_members_certificate_cannot_pose_as_the_server(tmp_path: Path) -> None:
    now = datetime.now(tz=NOW.tzinfo)
    made = consortium(tmp_path / "authority", now=now)
    alder = made.path("alder")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(alder / "certificate.pem", alder / "signing.key")
    client = ssl.create_default_context(cafile=str(alder / "authority.pem"))
    client.check_hostname = False
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unsuitable certificate purpose|unsupported certificate"):
        _handshake(server, client, "127.0.0.1")
