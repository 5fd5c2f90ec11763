"""What a vault gives away: nothing secret on the wire, on disk, in logs or in print, and one face for all refusals."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fheval.aggregator.conductor import drive
from fheval.counting import Grid
from fheval.engines import load_engine
from fheval.party import epoch, ledger
from fheval.party.data_set import DataSet
from fheval.party.ledger import Entry
from fheval.party.messages import REFUSAL, Epoch, Relay, Submit, request
from fheval.party.steps import Answered
from fheval.protocols import padding
from fheval.protocols.base import Answer, Receipt, Seat, Stage
from fheval.protocols.round import (
    Ending,
    PartySecrets,
    PublicSetup,
    Round,
    Verdict,
    leader_seal,
    leader_set_up,
    party_unseal,
    verdict_to_bytes,
)
from fheval.secrets import Secret, SystemRandomness
from fheval.study import Study
from keys_consortium import Consortium
from vault.requests import changed, opened, played_until, set_up
from vault.trial import ALL, CLEAR, NAMES, PADDED, Trial, Wire, make_consortium, running

Log = pytest.LogCaptureFixture


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return make_consortium(tmp_path_factory.mktemp("consortium"))


@pytest.fixture
def trial(consortium: Consortium) -> Iterator[Trial]:
    with tempfile.TemporaryDirectory(prefix="fheval-") as folder, running(Path(folder), consortium) as started:
        yield started


class Overheard:
    """The secrets of all epochs, taken where the leader makes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[PartySecrets] = []

        def listening(*arguments: Any, **options: Any) -> tuple[PartySecrets, PublicSetup]:
            made = leader_set_up(*arguments, **options)
            self.made.append(made[0])
            return made

        monkeypatch.setattr("fheval.party.epoch.leader_set_up", listening)

    def needles(self) -> list[bytes]:
        """Pieces of the secrets that occur by chance nowhere else: the seeds, and the middles of large keys."""
        assert self.made
        keys = [key.reveal() for each in self.made for key in each.keys if len(key.reveal()) > 1000]
        seeds = [
            seed.reveal()
            for each in self.made
            for seed in (each.seed, each.master, *map(each.pad_seed_of, NAMES))
            if seed
        ]
        return seeds + [key[len(key) // 2 : len(key) // 2 + 24] for key in keys]


def on_disk(trial: Trial) -> list[bytes]:
    """All that the vaults have written, SQLite's own files among it."""
    return [file.read_bytes() for name in NAMES for file in trial.ledger_path(name).parent.iterdir()]


def holds(needle: bytes, places: list[bytes]) -> bool:
    """Whether a place has the bytes, plain or in hexadecimal."""
    return any(needle in place or needle.hex().encode() in place for place in places)


# The paper's keys are of the same kind as the padded protocols', and take longer.
@pytest.mark.parametrize(("protocol", "real"), [*((each, False) for each in ALL), *((each, True) for each in PADDED)])
def test_secrets_are_neither_sent_nor_written_nor_logged(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, caplog: Log, protocol: str, real: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    trial.engine = load_engine() if real else CLEAR
    trial.start()
    overheard = Overheard(monkeypatch)
    wire = Wire(trial)
    drive(trial.conduct(trial.study(protocol)), wire)
    places = [data for _, _, data in wire.requests + wire.replies] + on_disk(trial) + [caplog.text.encode()]
    needles = overheard.needles()
    assert len(needles) > 2 + len(NAMES) or not real
    assert not any(holds(needle, places) for needle in needles)
    # It would have been found: the public keys are there.
    assert holds(trial.last("alder").round.id.encode(), places)


def test_the_private_keys_of_a_kit_are_neither_sent_nor_written(trial: Trial, consortium: Consortium) -> None:
    wire = Wire(trial)
    drive(trial.conduct(trial.study()), wire)
    ledgers = [trial.ledger_path(name).read_bytes() for name in NAMES]
    places = [data for _, _, data in wire.requests + wire.replies] + ledgers
    for name in NAMES:
        key = consortium.kit(name).identity.signing_key.reveal().private_bytes_raw()
        assert not holds(key, places)


def shows_counts(trial: Trial, study: Study) -> bool:
    """Whether a round shows a party's counts, as an upload has them, in six bytes each, or as the machine has them."""
    wire = Wire(trial)
    drive(trial.conduct(study), wire)
    ledgers = [trial.ledger_path(name).read_bytes() for name in NAMES]
    places = [data for _, _, data in wire.requests + wire.replies] + ledgers
    for name in NAMES:
        (own,) = DataSet(trial.data(name)).count(study, SystemRandomness()).contribution.table
        piece = own[15:25].astype("<u8")
        # As they are, as residues of six bytes, and as integers of twelve.
        bytes_of_each = np.pad(piece.view("u1").reshape(-1, 8), ((0, 0), (0, 4)))
        if any(holds(bytes_of_each[:, :size].tobytes(), places) for size in (6, 8, 12)):
            return True
    return False


@pytest.fixture(params=["ratios", "curve"])
def padded(trial: Trial, request: pytest.FixtureRequest) -> Study:
    """A study of a protocol with pads."""
    return trial.study("padded", release=request.param)


def test_counts_are_neither_sent_nor_written_to_the_ledger(trial: Trial, padded: Study) -> None:
    assert not shows_counts(trial, padded)


def test_without_pads_the_counts_would_be_seen(trial: Trial, padded: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "pad", lambda *arguments: np.zeros(arguments[5] // 32 * arguments[3], dtype=np.uint32))
    assert shows_counts(trial, padded)


def test_the_result_is_neither_sent_nor_logged(trial: Trial, caplog: Log) -> None:
    caplog.set_level(logging.DEBUG)
    wire = Wire(trial)
    drive(trial.conduct(trial.study("padded-verified")), wire)
    found = trial.last("alder").verdict
    assert found is not None
    ratio, *_ = found.ratios
    assert isinstance(ratio, Fraction)
    places = [data for _, _, data in wire.requests + wire.replies] + [caplog.text.encode()]
    for needle in (f"{float(ratio):.4f}", str(ratio.numerator).rjust(5, "\0"), str(ratio)):
        assert not holds(needle.encode(), places)
    # The party's own ledger has it.
    assert holds(str(ratio.numerator).encode(), on_disk(trial))


def test_a_bad_score_is_not_told_to_the_log(trial: Trial, caplog: Log) -> None:
    caplog.set_level(logging.DEBUG)
    trial.accept(trial.study())
    trial.data("birch").write_text("label,score\n1,0.31337\n0,1.73737\n")
    trial.prepare()
    assert "could not be prepared from its newest data" in caplog.text
    assert "1.73737" not in caplog.text
    # Its operator is told.
    (standing,) = trial.studies["birch"].all()
    assert "1.73737" in str(standing.problem)


# One face for all refusals


def test_all_refusals_are_the_same_bytes(trial: Trial) -> None:
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    name = next(each for each in NAMES if each != round_.leader)
    submit = opened(asked[name], Submit)
    refused = [
        b"",
        b"noise" * 1000,
        set_up(submit.call),
        request(Stage.PADS, Relay(round=round_.id, body=b"")),
        request(Stage.PADS, Relay(round="0" * 32, body=b"")),
        changed(asked[name], bundle=submit.bundle[:-1]),
        changed(asked[name], box=b"a box for others"),
        asked[round_.leader],
    ]
    assert {trial.vaults[name].handle(data) for data in refused} == {REFUSAL}
    assert len(REFUSAL) < 32


# Verdicts


def a_round(study: Study) -> Round:
    return study.round(study.call(SystemRandomness(), engine="seal", parties=NAMES, leader="alder"))


STUDY = Study(protocol="padded", precision=1e-4, grid=Grid.even(5), metrics=("auc", "recall@0.1", "recall@0.2"))
SECRETS = PartySecrets(seed=Secret(bytes(range(32))), pad_seed=Secret(bytes(range(32))))
ROUND = a_round(replace(STUDY, precision=None))
CURVE = a_round(replace(STUDY, metrics=("auc",), release="curve"))

ratios = st.one_of(
    st.none(),
    st.fractions(),
    st.floats(allow_nan=False, allow_infinity=False).map(Fraction),
    st.tuples(st.integers(0, 2**736), st.integers(1, 2**736)).map(lambda pair: Fraction(*pair)),
)
verdicts = st.builds(
    Verdict,
    ending=st.sampled_from([Ending.RELEASED, Ending.UNDEFINED, Ending.REFUSED]),
    roster=st.lists(st.sampled_from(NAMES), unique=True).map(tuple),
    ratios=st.lists(ratios, max_size=3).map(tuple),
    verified=st.sampled_from([None, True, False]),
    soundness_bits=st.one_of(st.none(), st.floats(0, 1000)),
    hiding_bits=st.one_of(st.none(), st.integers(0, 2**60)),
    answer=st.sampled_from([b"", bytes(32)]),
)


@given(verdicts)
def test_a_sealed_verdict_has_one_length_whatever_it_says(said: Verdict) -> None:
    sealed = leader_seal(ROUND, SECRETS, said, SystemRandomness())
    nothing = leader_seal(ROUND, SECRETS, Verdict(ending=Ending.REFUSED, roster=()), SystemRandomness())
    assert len(sealed.box) == len(nothing.box)
    assert party_unseal(ROUND, SECRETS, sealed) == said


@given(st.lists(st.integers(0, 2**46 - 1), min_size=CURVE.sums, max_size=CURVE.sums).map(tuple))
def test_sealed_counts_have_one_length_whatever_they_are(counts: tuple[int, ...]) -> None:
    said = Verdict(roster=NAMES, counts=counts, verified=True, soundness_bits=91.9, answer=bytes(32))
    sealed = leader_seal(CURVE, SECRETS, said, SystemRandomness())
    nothing = leader_seal(CURVE, SECRETS, Verdict(ending=Ending.REFUSED, roster=()), SystemRandomness())
    assert len(sealed.box) == len(nothing.box)
    assert party_unseal(CURVE, SECRETS, sealed) == said


def test_without_the_filling_the_length_would_tell() -> None:
    accepted = Verdict(ending=Ending.RELEASED, roster=NAMES, ratios=(Fraction(2, 3),))
    refused = Verdict(ending=Ending.REFUSED, roster=NAMES)
    plain = [verdict_to_bytes(each) for each in (accepted, refused)]
    assert len(plain[0]) != len(plain[1])


def test_no_two_seals_are_alike() -> None:
    said = Verdict(ending=Ending.REFUSED, roster=NAMES)
    assert len({leader_seal(ROUND, SECRETS, said, SystemRandomness()).box for _ in range(20)}) == 20


# Print


def test_nothing_prints_what_it_holds() -> None:
    said = Verdict(ending=Ending.RELEASED, roster=NAMES, ratios=(Fraction(31337, 65537),))
    opened_keys = epoch.EpochSecrets(suits="x", secrets=SECRETS)
    entry = Entry(
        call=ROUND.call,
        study=STUDY,
        epoch=Epoch(id=ROUND.id, leader="alder"),
        stage=Stage.SUBMIT,
        request=b"hunter2",
        reply=b"hunter2",
        keys=ledger.EpochBytes(bundle=b"hunter2", box=b"hunter2"),
        verdict=said,
    )
    answer = Answer(body=Receipt(round=ROUND.id), verdict=said)
    seat = Seat(engine=CLEAR, round=ROUND, me="alder", secrets=SECRETS, rng=SystemRandomness(), shown=b"hunter2")
    for shown in map(repr, (said, opened_keys, entry, answer, Answered(answer=answer), seat)):
        assert "31337" not in shown
        assert "hunter2" not in shown
        assert repr(bytes(range(32)))[2:20] not in shown


def test_objects_that_hold_secrets_print_their_names_only(trial: Trial) -> None:
    trial.play()
    vault = trial.vaults["alder"]
    for each in (vault, vault._steps, vault._steps._keyring, trial.studies["alder"], trial.ledgers["alder"]):
        assert repr(each).startswith("<fheval.")
