"""Known answers: what the package derives, uploads, accepts and refuses equals what a second program computed.

tests/vectors/make_protocols.py made them, without the package.
"""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import numpy as np
import pytest

from fheval import errors
from fheval.protocols import padded, padded_verified, paper_malicious
from fheval.protocols.padded import PaddedResult
from fheval.protocols.padding import pad, reduced
from fheval.protocols.paper_malicious import BlindedResults, CommonRandomness
from fheval.protocols.round import Contribution, Form, PartySecrets, Round, pad_seed
from fheval.secrets import Secret
from fheval.study import Study
from protocols.rounds import CLEAR, Cast, a_round, layout_of, parameters_of, plain
from vectors import make_protocols

VECTORS = json.loads(Path(make_protocols.__file__).with_name("protocols.json").read_text(encoding="utf-8"))
SEED = Secret(bytes.fromhex(VECTORS["seed"]))
MASTER = Secret(bytes.fromhex(VECTORS["master"]))
NONCES = {party: bytes.fromhex(nonce) for party, nonce in VECTORS["nonces"].items()}
PARTIES = VECTORS["parties"]
FORM = Form.bounded(numerator=3, denominator=1, bound=2**47)


@pytest.fixture(autouse=True)
def _digest_of_the_vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most vectors take the round's digest as given, so that they do not depend on how a round is described."""
    if "own_digest" in request.fixturenames:
        return
    monkeypatch.setattr(Round, "digest", property(lambda _: bytes.fromhex(VECTORS["digest"])))


def the_round(protocol: str, **options: Any) -> Round:
    return a_round(protocol, PARTIES, forms=[FORM], precision=None, **options)


def secrets_of(party: str, keys: tuple[Secret[bytes], ...] = ()) -> PartySecrets:
    """The leader's, of whichever party leads."""
    return PartySecrets(seed=SEED, pad_seed=pad_seed(MASTER, party), keys=keys, master=MASTER)


def contribution(party: str) -> Contribution:
    return plain((VECTORS["left"][party], VECTORS["right"][party]))


def raised(case: dict[str, Any]) -> type[errors.FhevalError]:
    found: type[errors.FhevalError] = getattr(errors, case.get("error", "VerificationFailed"))
    return found


def named(cases: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in cases]


# Studies and rounds, and how pads are bound to them


@pytest.fixture
def own_digest() -> None:
    """Asked for by tests of the digest itself."""


def study_of(fields: list[Any]) -> Study:
    names = msgspec.structs.fields(Study)
    plain = dict(zip((each.name for each in names), fields, strict=True))
    kinds = get_type_hints(Study)
    return Study(**{name: msgspec.convert(value, kinds[name]) for name, value in plain.items()})


STUDIES = {case["name"]: case for case in VECTORS["studies"]}


@pytest.mark.parametrize("case", named(VECTORS["studies"]))
def test_canonical_bytes_and_hash_of_a_study(case: dict[str, Any]) -> None:
    study = study_of(case["fields"])
    assert study.to_bytes().hex() == case["bytes"]
    assert study.hash().hex() == case["hash"]
    assert Study.from_bytes(bytes.fromhex(case["bytes"])) == study


def round_of(fields: list[Any]) -> Round:
    plain = dict(zip((each.name for each in dataclasses.fields(Round)), fields, strict=True))
    plain["study"] = bytes.fromhex(STUDIES[plain["study"]]["hash"])
    if plain["batch"] is not None:
        plain["batch"] = make_protocols.batch_of(plain["batch"])
    kinds = get_type_hints(Round)
    return Round(**{name: msgspec.convert(value, kinds[name]) for name, value in plain.items()})


@pytest.mark.usefixtures("own_digest")
@pytest.mark.parametrize("case", named(VECTORS["rounds"]))
def test_digest_of_a_round_and_the_pads_under_it(case: dict[str, Any]) -> None:
    round_ = round_of(case["fields"])
    assert round_.digest.hex() == case["digest"]
    primes = VECTORS["primes"][:2]
    found = {
        party: reduced(pad(pad_seed(MASTER, party), round_, NONCES[party], 6).view("<u8"), 64, primes)
        for party in PARTIES
    }
    assert {party: [each.tolist() for each in values] for party, values in found.items()} == case["pads"]


@pytest.mark.parametrize("party", PARTIES)
def test_pad_seeds(party: str) -> None:
    assert pad_seed(MASTER, party).reveal().hex() == VECTORS["pad_seeds"][party]


# paper-malicious

MALICIOUS = VECTORS["paper-malicious"]


@pytest.mark.parametrize("run", range(2))
def test_common_randomness(run: int) -> None:
    round_ = the_round("paper-malicious", splits=MALICIOUS["splits"])
    expected = MALICIOUS["runs"][run]
    found = CommonRandomness.derive(SEED, round_, run)
    assert [found.r3, found.r4, found.r5, found.r6, found.r7, found.r8] == expected["r"]
    assert found.split_left.tolist() == expected["split_left"]
    assert found.order.tolist() == expected["order"]


@pytest.mark.parametrize("run", range(2))
@pytest.mark.parametrize("side", ["tr", "fr"])
@pytest.mark.parametrize("party", PARTIES)
def test_masks(run: int, side: str, party: str) -> None:
    found = paper_malicious.party_masks(SEED, the_round("paper-malicious"), run, party, side)
    assert found.tolist() == MALICIOUS["runs"][run][side][party]


@pytest.mark.parametrize("case", named(MALICIOUS["answers"]))
def test_answers_of_the_malicious_setting(case: dict[str, Any]) -> None:
    # A public bound close to the data, so that an answer of these sizes is no noise.
    round_ = the_round("paper-malicious", splits=MALICIOUS["splits"], max_samples=1 << 20)
    cast = Cast(round_)
    cast.secrets = secrets_of(round_.leader, cast.secrets.keys)
    holder = CLEAR.key_holder(parameters_of(round_)[0], cast.secrets.keys[0])
    runs = tuple((holder.encrypt(np.array([x])), holder.encrypt(np.array([y]))) for x, y in case["runs"])
    result = BlindedResults(round=round_.id, roster=round_.parties, runs=runs)
    if "ratio" in case:
        outcome = cast.open(result)
        assert outcome.verified
        assert outcome.ratio() == pytest.approx(case["ratio"], abs=paper_malicious.TOLERANCE)
    else:
        with pytest.raises(raised(case)) as caught:
            cast.open(result)
        assert type(caught.value) is raised(case)


# padded and padded-verified

VERIFIED = VECTORS["padded-verified"]


@pytest.mark.parametrize("party", PARTIES)
def test_padded_uploads(party: str) -> None:
    round_ = the_round("padded")
    assert list(layout_of(round_).primes) == VECTORS["padded"]["primes"]
    upload = padded.party_submit(round_, secrets_of(party), party, contribution(party), NONCES[party])
    assert bytes(upload.values).hex() == VECTORS["padded"]["uploads"][party]


@pytest.mark.parametrize("party", PARTIES)
@pytest.mark.parametrize("vectors", VERIFIED, ids=lambda vectors: f"{vectors['runs']}-runs")
def test_verified_uploads(vectors: dict[str, Any], party: str) -> None:
    round_ = the_round("padded-verified", runs=vectors["runs"])
    assert list(layout_of(round_).primes) == vectors["primes"]
    upload = padded_verified.party_submit(round_, secrets_of(party), party, contribution(party), NONCES[party])
    assert bytes(upload.values).hex() == vectors["uploads"][party]


@pytest.mark.parametrize(
    ("runs", "case"),
    [
        pytest.param(vectors["runs"], case, id=f"{vectors['runs']}-runs-{case['name']}")
        for vectors in VERIFIED
        for case in vectors["answers"]
    ],
)
def test_answers_of_exact_verification(runs: int, case: dict[str, Any]) -> None:
    round_ = the_round("padded-verified", runs=runs)
    cast = Cast(round_)
    cast.secrets = secrets_of(round_.leader, cast.secrets.keys)
    result = PaddedResult(round=round_.id, roster=round_.parties, ciphertexts=in_slots(cast, case["answers"]))
    if "ratio" in case:
        outcome = cast.open(result)
        assert outcome.verified
        assert outcome.ratio() == Fraction(*case["ratio"])
    else:
        with pytest.raises(raised(case)) as caught:
            cast.open(result)
        assert type(caught.value) is raised(case)


def in_slots(cast: Cast, answers: list[list[int]]) -> tuple[tuple[bytes], ...]:
    """Ciphertexts whose groups add up to these answers: each in the slot that makes its group's sum right."""
    plan = layout_of(cast.round).plan
    ciphertexts = []
    for chosen, key, answer in zip(parameters_of(cast.round), cast.secrets.keys, answers, strict=True):
        slots = np.zeros(plan.used, dtype=np.uint64)
        slots[plan.corrected] = answer
        ciphertexts.append((CLEAR.key_holder(chosen, key).encrypt(slots),))
    return tuple(ciphertexts)


def test_whole_rounds_under_the_vectors_seed_give_the_vectors_ratio() -> None:
    for protocol in ("padded", "padded-verified"):
        cast = Cast(the_round(protocol))
        cast.secrets = secrets_of(cast.round.leader, cast.secrets.keys)
        result = cast.result_of(cast.served({party: contribution(party) for party in PARTIES}))
        assert cast.open(result).ratio() == Fraction(VECTORS["num"], VECTORS["den"])


def test_the_program_still_makes_these_vectors() -> None:
    assert json.loads(json.dumps(make_protocols.vectors())) == VECTORS
