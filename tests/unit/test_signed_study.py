"""Signed studies: what the authority signs is read as it was, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fheval.consortium import TrustAnchor, open_study
from fheval.consortium.signed_study import SignedStudy, check_study, fit_to, is_signed_study
from fheval.disclosure import RevealsMore
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.study import Study
from fheval.wire import HEADER, decode, encode
from keys_consortium import Consortium, consortium


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return consortium(tmp_path_factory.mktemp("consortium") / "authority")


@pytest.fixture(scope="module")
def anchor(made: Consortium) -> TrustAnchor:
    return made.kit("alder").identity.anchor


def asked(**changes: Any) -> Study:
    standard: dict[str, Any] = {"name": "one", "metrics": ["auc"], "decision_points": 10, "reveals": "counts"}
    return Study.of(**(standard | changes))


@pytest.fixture(scope="module")
def signed(made: Consortium) -> bytes:
    return made.authority.sign_study(asked())[1]


def test_what_was_signed_is_what_is_read(made: Consortium, anchor: TrustAnchor) -> None:
    study, data = made.authority.sign_study(
        asked(name="several", models=["old", "new"], interval=0.9, checkers=["birch"])
    )
    assert open_study(data, anchor) == study
    assert open_study(data, anchor).hash() == study.hash()
    assert is_signed_study(data)


def test_a_study_has_one_form(signed: bytes, anchor: TrustAnchor) -> None:
    """Read and written again it is the same bytes, so that its hash names it and nothing else."""
    body = decode(signed, SignedStudy, sender="test").study
    assert open_study(signed, anchor).to_bytes() == body == Study.from_bytes(body).to_bytes()


def resigned(signed: bytes, body: bytes) -> bytes:
    """Other content under the signature that there is."""
    return encode(msgspec.structs.replace(decode(signed, SignedStudy, sender="test"), study=body))


@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_a_study_that_was_altered_by_one_bit_is_refused(
    signed: bytes, anchor: TrustAnchor, place: int, bit: int
) -> None:
    altered = bytearray(signed)
    altered[place % len(signed)] ^= 1 << bit
    with pytest.raises(RemoteProtocolError) as caught:
        open_study(bytes(altered), anchor)
    assert caught.value.culprit == "authority"


def test_terms_cannot_be_exchanged_under_a_signature(signed: bytes, anchor: TrustAnchor) -> None:
    """Ten times as many rounds, or another protocol, under the signature of the study as it was."""
    honest = open_study(signed, anchor)
    changes: list[dict[str, Any]] = [{"rounds": 1000}, {"protocol": "paper-semi-honest"}, {"precision": 1e-9}]
    for each in changes:
        other = resigned(signed, msgspec.structs.replace(honest, **each).to_bytes())
        with pytest.raises(RemoteProtocolError, match="not signed by this consortium's authority"):
            open_study(other, anchor)


def test_another_form_of_the_same_study_is_refused(signed: bytes, anchor: TrustAnchor) -> None:
    with pytest.raises(RemoteProtocolError, match="not signed"):
        open_study(resigned(signed, decode(signed, SignedStudy, sender="test").study + b"\0"), anchor)


def test_another_authority_signs_nothing_here(anchor: TrustAnchor, tmp_path: Path) -> None:
    stranger = consortium(tmp_path / "authority")
    with pytest.raises(RemoteProtocolError, match="not signed"):
        open_study(stranger.authority.sign_study(asked())[1], anchor)


def test_a_policy_is_no_study(made: Consortium, anchor: TrustAnchor) -> None:
    """Nor does the signature of one serve for the other."""
    policy = made.authority.policy_bytes()
    assert policy is not None
    assert not is_signed_study(policy)
    assert not is_signed_study(HEADER)
    with pytest.raises(RemoteProtocolError, match="malformed SignedStudy"):
        open_study(policy, anchor)


def test_a_signature_of_a_policy_does_not_serve_for_a_study(made: Consortium, anchor: TrustAnchor) -> None:
    policy = made.authority.policy()
    assert policy is not None
    body = fit_to(asked(), policy).to_bytes()
    plain = made.authority.policy_key.reveal().sign(body)
    with pytest.raises(RemoteProtocolError, match="not signed"):
        open_study(encode(SignedStudy(study=body, signature=plain)), anchor)


def test_rows_of_a_party_are_bounded_by_what_all_may_have(made: Consortium) -> None:
    policy = made.authority.policy()
    assert policy is not None
    fitted = fit_to(asked(max_samples=1000), policy)
    assert fitted.most_rows_per_party == 333
    assert fit_to(fitted, policy) == fitted


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": ""}, "has no name"),
        ({"most_rows_per_party": None}, "how many rows a party may bring"),
        ({"least_rows_per_party": 1}, "would count in a cohort"),
        ({"minimum_cohort": 2}, "the policy asks for at least 3"),
        ({"checkers": ("oak",)}, "names oak, which is no member"),
        ({"leaders": ("oak",)}, "names oak, which is no member"),
        ({"interval": 0.95, "replicates": 1001}, "1001 resamples; 1000 are allowed"),
        ({"interval": 0.95, "replicates": 200, "rounds": 101}, "101 rounds with intervals"),
        ({"group_column": "sex"}, "names no groups"),
    ],
)
def test_what_no_round_could_follow_is_not_signed(made: Consortium, changes: dict[str, Any], words: str) -> None:
    policy = made.authority.policy()
    assert policy is not None
    study = msgspec.structs.replace(fit_to(asked(), policy), **changes)
    with pytest.raises(ConfigError, match=words):
        check_study(study, policy)


def test_a_study_that_reveals_more_than_it_says_is_not_signed(made: Consortium) -> None:
    """And is, where it says so."""
    more = asked(metrics=["precision", "recall", "accuracy"], least_rows=1000, reveals="ratios")
    with pytest.raises(RevealsMore, match=r"A precision of .* would keep them open"):
        made.authority.sign_study(more)
    made.authority.sign_study(msgspec.structs.replace(more, reveals="counts", name="two"))
