"""One public file for everybody: what it completes, and whom it does not deceive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fheval.consortium import Rules, load_aggregator_kit, load_kit, transport_files
from fheval.consortium.authority import Authority, create_authority
from fheval.consortium.bulletin import (
    Bulletin,
    SignedBulletin,
    admit,
    bulletin_version,
    checked_request,
    make_bulletin,
    take_bulletin,
)
from fheval.consortium.enrolment import REQUEST, make_request, request_fingerprint
from fheval.consortium.hub_request import HubRequest, make_hub_request, request_name
from fheval.consortium.kit import kept_study, ledger_place
from fheval.errors import ConfigError, FhevalError, RemoteProtocolError
from fheval.study import Study
from fheval.wire import decode, encode
from keys_consortium import DAY, NAMES, NOW

ADDRESS = "hub.example.org:9092"


def requests_in(root: Path) -> dict[str, bytes]:
    """Kits with keys that their makers keep, and the requests that they send."""
    for name in NAMES:
        make_request(root / name, name)
    make_hub_request(root / "hub", "hub", [ADDRESS, "192.0.2.7:9092"])
    return {name: (root / name / REQUEST).read_bytes() for name in (*NAMES, "hub")}


def heard(requests: dict[str, bytes]) -> dict[str, str]:
    return {name: request_fingerprint(data) for name, data in requests.items()}


def enter(authority: Authority, requests: dict[str, bytes], *, renew: bool = False) -> None:
    checked = [checked_request(authority, data, heard(requests), renew=renew) for data in requests.values()]
    admit(authority, [each for each in checked if each is not None], now=NOW, days=30)
    authority.sign_next_policy(Rules(), now=NOW, days=30)


@pytest.fixture
def founded(tmp_path: Path) -> tuple[Authority, Path]:
    """An authority that has answered everybody, and the folder of the kits, which have not heard of it."""
    authority = create_authority(tmp_path / "authority", "Trial", now=NOW)
    enter(authority, requests_in(tmp_path))
    authority.sign_study(Study.of(name="one", metrics=["auc"], protocol="padded", decision_points=10, reveals="counts"))
    return authority, tmp_path


def test_one_file_completes_all_kits(founded: tuple[Authority, Path]) -> None:
    authority, root = founded
    bulletin = make_bulletin(authority)
    for name in (*NAMES, "hub"):
        take_bulletin(root / name, bulletin, authority=authority.anchor.fingerprint(), now=NOW)
    for name in NAMES:
        assert load_kit(root / name, now=NOW).identity.name == name
        found = transport_files(root / name / "transport")
        assert found.hub == ADDRESS
        assert found.certificate.exists()
        assert kept_study(root / name, "one") == authority.studies()[0]
    hub = load_aggregator_kit(root / "hub", now=NOW)
    assert hub.study("one").name == "one"
    assert sorted(hub.supernode_keys()) == sorted(NAMES)


def test_the_bulletin_holds_no_secret(founded: tuple[Authority, Path]) -> None:
    authority, root = founded
    bulletin = make_bulletin(authority)
    secrets = [path for path in root.rglob("*.key") if path.stat().st_mode & 0o777 == 0o600]
    assert len(secrets) == 3 * len(NAMES) + 1 + 2
    for path in secrets:
        body = b"".join(line for line in path.read_bytes().splitlines() if not line.startswith(b"---"))
        assert body[:40] not in bulletin


def test_the_fingerprint_is_needed_once_and_must_be_the_authoritys(founded: tuple[Authority, Path]) -> None:
    authority, root = founded
    bulletin, other = make_bulletin(authority), "0000-" * 7 + "0000"
    with pytest.raises(ConfigError, match="does not know its authority"):
        take_bulletin(root / "alder", bulletin, authority=None, now=NOW)
    with pytest.raises(ConfigError, match="Do not use it"):
        take_bulletin(root / "alder", bulletin, authority=other, now=NOW)
    assert not (root / "alder" / "certificate.pem").exists()
    take_bulletin(root / "alder", bulletin, authority=authority.anchor.fingerprint(), now=NOW)
    take_bulletin(root / "alder", bulletin, authority=None, now=NOW)


def test_a_kit_takes_no_other_authoritys_bulletin(founded: tuple[Authority, Path]) -> None:
    authority, root = founded
    take_bulletin(root / "alder", make_bulletin(authority), authority=authority.anchor.fingerprint(), now=NOW)
    second = create_authority(root / "second", "Trial", now=NOW)
    enter(second, {name: (root / name / REQUEST).read_bytes() for name in NAMES})
    for fingerprint in (None, second.anchor.fingerprint()):
        with pytest.raises(ConfigError, match="another authority"):
            take_bulletin(root / "alder", make_bulletin(second), authority=fingerprint, now=NOW)


def test_who_was_enrolled_in_a_members_place_is_noticed_by_the_member(tmp_path: Path) -> None:
    """The authority was deceived about alder's fingerprint: alder's own kit is not completed."""
    authority = create_authority(tmp_path / "authority", "Trial", now=NOW)
    requests = requests_in(tmp_path)
    make_request(tmp_path / "thief", "alder")
    enter(authority, requests | {"alder": (tmp_path / "thief" / REQUEST).read_bytes()})
    with pytest.raises(ConfigError, match="no member with the keys of this kit"):
        take_bulletin(tmp_path / "alder", make_bulletin(authority), authority=authority.anchor.fingerprint(), now=NOW)


def test_a_request_with_another_fingerprint_enrols_nobody(tmp_path: Path) -> None:
    authority = create_authority(tmp_path / "authority", "Trial", now=NOW)
    requests = requests_in(tmp_path)
    for name, data in requests.items():
        told = heard(requests) | {name: "0000-" * 7 + "0000"}
        with pytest.raises(ConfigError, match="Do not enrol it"):
            checked_request(authority, data, told, renew=False)
    assert authority.members() == []
    assert authority.hubs() == []


def test_a_hubs_request_that_was_altered_is_refused(tmp_path: Path) -> None:
    authority = create_authority(tmp_path / "authority", "Trial", now=NOW)
    make_hub_request(tmp_path / "hub", "hub", [ADDRESS])
    data = (tmp_path / "hub" / REQUEST).read_bytes()
    request = decode(data, HubRequest, sender="hub")
    assert request_name(data) == "hub"
    damaged = bytearray(request.csr)
    damaged[-1] ^= 1
    for change in ({"csr": bytes(damaged)}, {"csr": b""}, {"address": "other.example.org:9092"}):
        altered = encode(msgspec.structs.replace(request, **change))
        with pytest.raises(RemoteProtocolError, match="altered"):
            checked_request(authority, altered, {"hub": request_fingerprint(altered)}, renew=False)


def test_an_altered_bulletin_is_refused(founded: tuple[Authority, Path]) -> None:
    authority, root = founded
    signed = decode(make_bulletin(authority), SignedBulletin, sender="authority")
    bulletin = decode(signed.bulletin, Bulletin, sender="authority")
    moved = msgspec.structs.replace(bulletin.hubs[0], address="elsewhere.example.org:9092")
    changes: list[dict[str, Any]] = [{"hubs": (moved,)}, {"studies": ()}, {"renewed": NAMES}, {"transports": {}}]
    for change in changes:
        altered = encode(
            SignedBulletin(bulletin=encode(msgspec.structs.replace(bulletin, **change)), signature=signed.signature)
        )
        with pytest.raises(RemoteProtocolError, match="altered"):
            take_bulletin(root / "alder", altered, authority=authority.anchor.fingerprint(), now=NOW)


def test_a_transport_certificate_of_another_member_is_refused(founded: tuple[Authority, Path]) -> None:
    authority, root = founded
    authority.register_transport("alder", authority.transports()["birch"])
    with pytest.raises(ConfigError, match="not for connections of alder"):
        take_bulletin(root / "alder", make_bulletin(authority), authority=authority.anchor.fingerprint(), now=NOW)


def test_an_older_bulletin_does_not_replace_a_newer_one(founded: tuple[Authority, Path]) -> None:
    authority, root = founded
    older = make_bulletin(authority)
    authority.sign_next_policy(Rules(releases_per_lineage=3), now=NOW, days=30)
    newer = make_bulletin(authority)
    assert (bulletin_version(older), bulletin_version(newer)) == (1, 2)
    assert take_bulletin(root / "alder", newer, authority=authority.anchor.fingerprint(), now=NOW).version == 2
    with pytest.raises(FhevalError, match="does not replace version 2"):
        take_bulletin(root / "alder", older, authority=None, now=NOW)


def test_the_same_request_again_changes_nothing_and_a_new_one_is_a_renewal(founded: tuple[Authority, Path]) -> None:
    authority, root = founded
    same = (root / "alder" / REQUEST).read_bytes()
    assert checked_request(authority, same, {"alder": request_fingerprint(same)}, renew=False) is None
    make_request(root / "alder-2", "alder")
    new = {"alder": (root / "alder-2" / REQUEST).read_bytes()}
    with pytest.raises(ConfigError, match="enrolled already"):
        checked_request(authority, new["alder"], heard(new), renew=False)
    enter(authority, new, renew=True)
    take_bulletin(root / "alder-2", make_bulletin(authority), authority=authority.anchor.fingerprint(), now=NOW)
    place = ledger_place(root / "alder-2")
    assert place is not None
    assert place.directory is None
    with pytest.raises(ConfigError, match="no member with the keys"):
        take_bulletin(root / "alder", make_bulletin(authority), authority=authority.anchor.fingerprint(), now=NOW)


def test_an_expired_policy_completes_no_kit(founded: tuple[Authority, Path]) -> None:
    authority, root = founded
    with pytest.raises(FhevalError, match="expired"):
        take_bulletin(
            root / "alder", make_bulletin(authority), authority=authority.anchor.fingerprint(), now=NOW + 40 * DAY
        )
