"""How an aggregator joins with a TLS key that never leaves it: it asks for a certificate, as members do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fheval.consortium import certificates, enrolment
from fheval.consortium.enrolment import REQUEST, request_fingerprint
from fheval.consortium.files import new_directory, write_public, write_secret
from fheval.consortium.kit import SERVER_KEY
from fheval.consortium.member_keys import new_server_key, private_pem
from fheval.consortium.records import check_name, read_address
from fheval.errors import RemoteProtocolError
from fheval.wire import Message, decode, encode, holds


class HubRequest(Message, frozen=True, kw_only=True):
    """Aggregator to authority: where members will find it, and a CSR that proves possession of the key."""

    name: str
    address: str
    csr: bytes


def make_hub_request(directory: Path, name: str, addresses: Sequence[str]) -> str:
    """Aggregator: make a key and a request in a new kit; return the request's fingerprint.

    Members dial the first address; the certificate is for the hosts of all of them.
    """
    check_name(name)
    key = new_server_key()
    hosts = list(dict.fromkeys(read_address(each)[0] for each in addresses))
    csr = certificates.server_request(name, key, hosts)
    request = encode(
        HubRequest(name=name, address=addresses[0], csr=csr.public_bytes(serialization.Encoding.DER)),
    )
    with new_directory(directory) as building:
        write_secret(building / SERVER_KEY, private_pem(key))
        write_public(building / REQUEST, request)
    return request_fingerprint(request)


def open_hub_request(data: bytes) -> tuple[HubRequest, ec.EllipticCurvePublicKey, list[str]]:
    """Authority: the request, its key, and the hosts that the certificate shall be for."""
    request = decode(data, HubRequest, sender="aggregator")
    check_name(request.name)
    host, _ = read_address(request.address)
    try:
        csr = x509.load_der_x509_csr(request.csr)
        key = csr.public_key()
        names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if not isinstance(key, ec.EllipticCurvePublicKey) or not csr.is_signature_valid:
            raise ValueError("No elliptic-curve key, or a bad signature.")
        hosts = [str(each.value) for each in names]
        if certificates.host_name(host) not in list(names):
            raise ValueError("The address is not among the names.")
    except (*certificates.MALFORMED, x509.ExtensionNotFound):
        raise RemoteProtocolError(
            f"The request of {request.name} was altered, or its maker does not hold the key. Ask for it again.",
            step="enrolment",
            culprit=request.name,
        ) from None
    return request, key, hosts


def request_name(data: bytes) -> str:
    """The name of the member or aggregator that a request says it is from."""
    if holds(data, HubRequest):
        return decode(data, HubRequest, sender="aggregator").name
    return enrolment.request_name(data)
