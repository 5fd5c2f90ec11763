"""The policy: signed, canonical, and one refusal for each broken rule."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from fheval.consortium import Policy, Rules, TrustAnchor, certificates
from fheval.consortium.member_keys import MemberKeys
from fheval.consortium.policy import SignedPolicy, open_policy, sign_policy
from fheval.consortium.records import domain
from fheval.counting import Grid
from fheval.errors import CohortTooSmall, ConfigError, RemoteProtocolError
from fheval.secrets import Secret
from fheval.study import Study
from fheval.wire import HEADER, decode, encode
from keys_consortium import DAY, NAMES, NOW, Consortium, consortium

STUDY = Study(protocol="padded", precision=1e-4, grid=Grid.even(1000))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return consortium(tmp_path_factory.mktemp("policy") / "authority")


@pytest.fixture(scope="module")
def policy(made: Consortium) -> Policy:
    current = made.authority.policy()
    assert current is not None
    return current


def refused(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        call()
    assert caught.value.step == "policy"


def changed(policy: Policy, **changes: Any) -> Policy:
    return msgspec.structs.replace(policy, **changes)


def with_rules(policy: Policy, **changes: Any) -> Policy:
    return changed(policy, rules=msgspec.structs.replace(policy.rules, **changes))


def asking(**changes: Any) -> Study:
    return msgspec.structs.replace(STUDY, **changes)


def test_a_round_within_the_rules_gets_its_roster_in_order(policy: Policy) -> None:
    roster = policy.check_round(STUDY, ("cedar", "alder", "birch"), now=NOW)
    assert roster.names() == NAMES
    assert roster.member("birch") == policy.member("birch")


@pytest.mark.parametrize(
    ("study", "reason"),
    [
        (asking(minimum_cohort=2), "go on with 2 parties"),
    ],
)
def test_each_broken_rule_has_its_own_refusal(policy: Policy, study: Study, reason: str) -> None:
    refused(lambda: policy.check_round(study, NAMES, now=NOW), reason)


@pytest.mark.parametrize(
    ("roster", "reason"),
    [
        (("alder", "birch", "dogwood"), "'dogwood' is not a member of Trial under policy version 1"),
        (("alder", "birch", "birch", "cedar"), "names a member twice"),
    ],
)
def test_a_roster_that_breaks_the_policy(policy: Policy, roster: tuple[str, ...], reason: str) -> None:
    refused(lambda: policy.check_round(STUDY, roster, now=NOW), reason)


@pytest.mark.parametrize("roster", [(), ("alder", "birch")])
def test_a_small_cohort_is_refused(policy: Policy, roster: tuple[str, ...]) -> None:
    with pytest.raises(CohortTooSmall, match=f"has {len(roster)} parties.*at least 3"):
        policy.check_round(STUDY, roster, now=NOW)


def test_a_generous_policy_allows_what_the_default_refuses(policy: Policy) -> None:
    generous = with_rules(policy, minimum_cohort=2)
    study = asking(minimum_cohort=2)
    assert generous.check_round(study, NAMES[:2], now=NOW).names() == NAMES[:2]


def test_a_policy_has_its_dates(policy: Policy) -> None:
    policy.check_dates(now=NOW + 365 * DAY)
    refused(lambda: policy.check_round(STUDY, NAMES, now=NOW + 366 * DAY), "version 1 expired on 2032-05-16")
    refused(lambda: policy.check_round(STUDY, NAMES, now=NOW - DAY), "is not valid before 2031-05-17 11:50")


def test_releases_are_counted(policy: Policy) -> None:
    policy.check_release(9)
    refused(lambda: policy.check_release(10), "has had 10 releases; 10 are allowed")


def test_a_stranger_on_a_roster_is_named(policy: Policy) -> None:
    with pytest.raises(RemoteProtocolError, match="'dogwood' is not on the roster") as caught:
        policy.roster(NAMES).member("dogwood")
    assert caught.value.culprit == "dogwood"


def test_the_roster_hash_follows_names_and_certificates_and_nothing_else(made: Consortium, policy: Policy) -> None:
    reference = policy.roster(NAMES).hash()
    assert policy.roster(tuple(reversed(NAMES))).hash() == reference
    assert with_rules(policy, minimum_cohort=2).roster(NAMES[:2]).hash() != reference
    renewed = tuple(
        msgspec.structs.replace(record, certificate=record.certificate + b"\0") if record.name == "birch" else record
        for record in policy.members
    )
    assert changed(policy, members=renewed).roster(NAMES).hash() != reference
    assert changed(policy, version=9).roster(NAMES).hash() == reference


def test_equal_policies_have_equal_bytes_and_any_change_another_hash(policy: Policy) -> None:
    assert encode(changed(policy)) == encode(policy)
    others = [
        changed(policy, consortium="x"),
        changed(policy, version=2),
        changed(policy, not_before=policy.not_before + 1),
        changed(policy, not_after=policy.not_after + 1),
        changed(policy, members=policy.members[::-1]),
        with_rules(policy, minimum_cohort=4),
        with_rules(policy, releases_per_lineage=2),
    ]
    assert len({policy.hash(), *(other.hash() for other in others)}) == len(others) + 1


def test_only_the_authoritys_signature_counts(made: Consortium, policy: Policy) -> None:
    anchor = made.authority.anchor
    signed = sign_policy(policy, made.authority.policy_key, anchor)
    assert open_policy(signed, anchor) == policy
    forged = sign_policy(policy, Secret(Ed25519PrivateKey.generate()), anchor)
    refused(lambda: open_policy(forged, anchor), "not signed by this consortium's authority")


def test_any_altered_byte_is_refused(made: Consortium) -> None:
    signed = made.authority.policy_bytes()
    assert signed is not None
    for at in range(0, len(signed), 97):
        altered = signed[:at] + bytes([signed[at] ^ 1]) + signed[at + 1 :]
        with pytest.raises(RemoteProtocolError):
            open_policy(altered, made.authority.anchor)
    with pytest.raises(RemoteProtocolError):
        open_policy(signed[:-1], made.authority.anchor)


def test_a_signature_for_another_use_is_no_policys(made: Consortium, policy: Policy) -> None:
    body = encode(policy)
    for prefix in (b"", domain("message"), domain("enrolment request")):
        signature = made.authority.policy_key.reveal().sign(prefix + body)
        message = encode(SignedPolicy(policy=body, signature=signature))
        refused(lambda data=message: open_policy(data, made.authority.anchor), "not signed by")  # type: ignore[misc]


def sign_raw(made: Consortium, body: bytes) -> bytes:
    signature = made.authority.policy_key.reveal().sign(domain("policy") + body)
    return encode(SignedPolicy(policy=body, signature=signature))


def test_other_bytes_for_the_same_policy_are_refused(made: Consortium, policy: Policy) -> None:
    body = encode(policy)
    # MessagePack has two forms for the version 1; the long one decodes to an equal policy.
    start = body.index(b"\xa5Trial") + 6
    assert body[start] == 1
    long_form = body[:start] + b"\xcc\x01" + body[start + 1 :]
    assert decode(long_form, Policy, sender="test") == policy
    refused(lambda: open_policy(sign_raw(made, long_form), made.authority.anchor), "not in canonical form")
    assert body.startswith(HEADER)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda p: with_rules(p, minimum_cohort=1), "at least 2 parties"),
        (lambda p: with_rules(p, minimum_cohort=4), "no round could run"),
        (lambda p: with_rules(p, releases_per_lineage=0), "one release"),
        (lambda p: changed(p, version=0), "starts at 1"),
        (lambda p: changed(p, not_after=p.not_before), "begin before it ends"),
        (lambda p: changed(p, members=(*p.members, p.members[0])), "the same name"),
        (lambda p: changed(p, members=mixed(p, "sealing_key")), "the same sealing key"),
        (lambda p: changed(p, members=mixed(p, "supernode_key")), "the same SuperNode key"),
        (lambda p: changed(p, members=mixed(p, "name")), "certificate is for alder, not for birch"),
        (lambda p: changed(p, members=spoilt(p, "certificate", b"x")), "malformed certificate or key"),
        (lambda p: changed(p, members=spoilt(p, "sealing_key", bytes(1216))), "malformed certificate or key"),
        (lambda p: changed(p, members=spoilt(p, "supernode_key", "ssh-rsa x")), "malformed certificate or key"),
        (lambda p: changed(p, members=spoilt(p, "name", "leader")), "name of a role"),
    ],
)
def test_a_policy_without_sense_is_neither_signed_nor_read(
    made: Consortium, policy: Policy, change: Callable[[Policy], Policy], reason: str
) -> None:
    wrong = change(policy)
    with pytest.raises(ConfigError, match=reason):
        sign_policy(wrong, made.authority.policy_key, made.authority.anchor)
    refused(lambda: open_policy(sign_raw(made, encode(wrong)), made.authority.anchor), reason)


def mixed(policy: Policy, field: str) -> tuple[object, ...]:
    """Give the second member the first one's key (for `name`: the first one's certificate)."""
    first, second, *rest = policy.members
    field = "certificate" if field == "name" else field
    return (first, msgspec.structs.replace(second, **{field: getattr(first, field)}), *rest)


def spoilt(policy: Policy, field: str, value: object) -> tuple[object, ...]:
    first, *rest = policy.members
    return (msgspec.structs.replace(first, **{field: value}), *rest)


def test_two_members_with_one_signing_key_are_refused(made: Consortium, policy: Policy) -> None:
    key = policy.member("alder").signing_key()
    certificate = made.authority.issuer(now=NOW).member("birch", key, now=NOW, days=9)
    first, second, third = policy.members
    twin = msgspec.structs.replace(second, certificate=certificate.public_bytes(Encoding.DER))
    with pytest.raises(ConfigError, match="the same signing key"):
        sign_policy(changed(policy, members=(first, twin, third)), made.authority.policy_key, made.authority.anchor)


def test_a_foreign_member_is_refused(made: Consortium, policy: Policy, tmp_path: Path) -> None:
    stranger = consortium(tmp_path / "other").authority.members()[0]
    wrong = changed(policy, members=(stranger, *policy.members[1:]))
    refused(
        lambda: open_policy(sign_raw(made, encode(wrong)), made.authority.anchor), "certificate of alder is foreign"
    )


def test_a_policy_is_replaced_by_a_higher_version_only(policy: Policy) -> None:
    changed(policy, version=2).check_succeeds(policy)
    refused(lambda: policy.check_succeeds(policy), "version 1 does not replace version 1")
    refused(lambda: policy.check_succeeds(changed(policy, version=2)), "version 1 does not replace version 2")
    refused(lambda: changed(policy, version=2, consortium="Other").check_succeeds(policy), "is of Other, not of Trial")


def test_a_member_is_checked_at_the_moment_of_use(made: Consortium, policy: Policy) -> None:
    record, anchor = policy.member("alder"), made.authority.anchor

    def at(moment: datetime) -> None:
        with pytest.raises(RemoteProtocolError) as caught:
            anchor.check_member(record, now=moment)
        assert (caught.value.step, caught.value.culprit) == ("certificate", "alder")

    anchor.check_member(record, now=NOW)
    at(NOW + 366 * DAY)
    at(NOW - timedelta(hours=1))


def test_an_expired_authority_vouches_for_nobody(made: Consortium, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    short = certificates.authority_certificate("Brief", key, now=NOW, days=1)
    # An external authority may issue past its own end; ours would not.
    long_lived = certificates.authority_certificate("Brief", key, now=NOW, days=100)
    keys = MemberKeys.generate()
    certificate = certificates.Issuer(long_lived, Secret(key)).member(
        "alder", keys.signing.reveal().public_key(), now=NOW, days=50
    )
    record = keys.record("alder", certificate)
    anchor = TrustAnchor(
        authority_pem=short.public_bytes(Encoding.PEM), policy_key=Ed25519PrivateKey.generate().public_key()
    )
    anchor.check_member(record, now=NOW)
    with pytest.raises(RemoteProtocolError, match="certificate of Brief expired"):
        anchor.check_member(record, now=NOW + 2 * DAY)


def test_rules_have_careful_defaults() -> None:
    assert Rules() == Rules(minimum_cohort=3, releases_per_lineage=10)
