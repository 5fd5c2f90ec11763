"""A study: canonical bytes and hash, the defaults, what people write in TOML, and every mistake in one sentence."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fheval import Grid
from fheval.errors import CapacityError, ConfigError, FhevalError, RemoteProtocolError
from fheval.protocols import PROTOCOLS
from fheval.secrets import SystemRandomness
from fheval.study import DEFAULT_REPLICATES, LONGEST_STUDY, Slice, Study, StudyError
from fheval.wire import encode

RNG = SystemRandomness()
PARTIES = ("a", "b", "c")


def round_of(study: Study) -> Any:
    return study.round(study.call(RNG, engine="clear", parties=PARTIES, leader="a"))


# Canonical bytes

PLAIN = Study.of(decision_points=20)
# Another value of every field, with what else must change for the study to make sense.
CHANGES: list[dict[str, Any]] = [
    {"name": "sepsis-2026"},
    {"grid": Grid.even(21)},
    {"metrics": ("f1",)},
    {"models": ("old",)},
    {"classes": ("a", "b")},
    {"group_column": "sex"},
    {"group_column": "sex", "groups": ("F",)},
    {"group_column": "sex", "groups": ("F", "M")},
    {"minimum_group": 21},
    {"interval": 0.9, "replicates": 200},
    {"interval": 0.8, "replicates": 200},
    {"interval": 0.9, "replicates": 201},
    {"by_cluster": True},
    {"target_range": (0.0, 1.0)},
    {"release": "curve"},
    {"protocol": "padded-verified", "precision": None},
    {"protocol": "padded-verified", "precision": None, "options": (("runs", 2),)},
    {"protocol": "padded-verified", "precision": None, "options": (("runs", 3),)},
    {"precision": None},
    {"precision": 1e-3},
    {"minimum_cohort": 4},
    {"max_samples": 1 << 20},
    {"least_rows": 1000},
    {"least_rows_per_party": 20},
    {"every": 3600},
    {"until": date(2031, 12, 31)},
    {"learns": "members and aggregator"},
    {"most_rows_per_party": 1000},
    {"rounds": 9},
    {"reveals": "counts"},
    {"checkers": ("birch",)},
    {"checkers": ("birch", "cedar")},
    {"leaders": ("birch",)},
    {"release": "noisy-curve", "epsilon": 1.0},
    {"release": "noisy-curve", "epsilon": 2.0},
    {"release": "noisy-curve", "epsilon": 1.0, "delta": 1e-6},
    {"release": "noisy-curve", "epsilon": 1.0, "colluding": 2},
    {"release": "noisy-curve", "epsilon": 1.0, "by_cluster": True, "most_rows_per_cluster": 5},
    {"release": "noisy-curve", "epsilon": 1.0, "group_column": "sex", "groups": ("F",)},
    {"release": "noisy-curve", "epsilon": 1.0, "group_column": "sex", "groups": ("F", "M")},
]


def changed(**changes: Any) -> Study:
    return msgspec.structs.replace(PLAIN, **changes)


def test_every_field_changes_the_bytes_and_the_hash() -> None:
    assert {name for change in CHANGES for name in change} == set(Study.__struct_fields__)
    studies = [PLAIN, *(changed(**change) for change in CHANGES)]
    assert len({study.to_bytes() for study in studies}) == len(studies)
    assert len({study.hash() for study in studies}) == len(studies)
    assert all(len(study.hash()) == 32 for study in studies)


@pytest.mark.parametrize("change", [{}, *CHANGES], ids=str)
def test_bytes_come_back_as_the_same_study(change: dict[str, Any]) -> None:
    study = changed(**change)
    back = Study.from_bytes(study.to_bytes())
    assert back == study
    assert (back.to_bytes(), back.hash()) == (study.to_bytes(), study.hash())


def test_studies_that_ask_the_same_have_the_same_hash_however_they_were_made() -> None:
    text = 'metrics = ["auc"]\nprotocol = "padded-verified"\nruns = 3\nprecision = "exact"\ndecision_points = 50'
    made = Study.of(protocol="padded-verified", runs=3, decision_points=Grid.wide(50))
    assert Study.from_toml(text).hash() == made.hash()
    # What is the default is left out, written or not.
    assert Study.of(protocol="padded-verified", runs=1).hash() == Study.of(protocol="padded-verified").hash()


def test_bytes_that_are_no_study_are_the_senders_fault() -> None:
    good = PLAIN.to_bytes()
    for bad in (b"", good[:-1], good + b"\0", encode(PLAIN.call(RNG, engine="e", parties=PARTIES, leader="a"))):
        with pytest.raises(RemoteProtocolError) as caught:
            Study.from_bytes(bad)
        assert caught.value.culprit == "aggregator"


def test_a_second_way_to_write_the_same_study_is_refused() -> None:
    """Were two forms accepted, parties could agree to one study under two hashes."""
    good = PLAIN.to_bytes()
    size = msgspec.msgpack.encode(1 << 24)
    assert good.count(size) == 1
    longer = good.replace(size, b"\xcf" + (1 << 24).to_bytes(8, "big"))
    assert msgspec.msgpack.decode(longer) == msgspec.msgpack.decode(good)
    with pytest.raises(RemoteProtocolError, match="not in canonical form"):
        Study.from_bytes(longer)


def test_a_study_that_makes_no_sense_is_refused_on_arrival() -> None:
    """As bytes, field by field: whoever made them did not ask `Study`."""
    *_, fields = msgspec.msgpack.decode(PLAIN.to_bytes())
    names = ["tag", *Study.__struct_fields__]
    for name, value in (
        ("metrics", ["aucc"]),
        ("protocol", "nope"),
        ("options", [["runs", 3]]),
        ("replicates", 10),
        ("release", "everything"),
        ("models", []),
    ):
        forged = [value if known == name else field for known, field in zip(names, fields, strict=True)]
        with pytest.raises(RemoteProtocolError, match="malformed Study"):
            Study.from_bytes(msgspec.msgpack.encode(["FHEV", 1, forged]))


def test_a_study_of_any_length_is_not_read() -> None:
    with pytest.raises(RemoteProtocolError, match="exceeds the limit"):
        Study.from_bytes(bytes(LONGEST_STUDY + 1))
    most = Study.of(grid=[1000.0 - point for point in range(2000)], metrics=["auc"], models=["m" * 200] * 1)
    assert len(most.to_bytes()) < LONGEST_STUDY


# Defaults


def test_what_is_not_said_has_the_default_of_evaluate() -> None:
    study = Study.of()
    assert study == Study(grid=Grid.wide(1000), protocol="padded", precision=1e-4)
    assert (study.metrics, study.models, study.interval, study.replicates) == (("auc",), ("",), None, 0)
    assert (study.minimum_cohort, study.max_samples, study.release) == (3, 1 << 24, "ratios")
    assert study.is_one_auc


def test_an_interval_brings_resamples_at_fewer_points() -> None:
    study = Study.of(interval=0.95)
    assert (study.replicates, len(study.grid), study.every_point) == (DEFAULT_REPLICATES, 1000, 10)
    assert study.recentred == study.specs
    assert not Study.of(interval=0.95, decision_points=100).recentred
    assert not Study.of(interval=0.95, metrics=["recall", "brier"]).recentred
    assert not study.is_one_auc
    assert Study.of(interval=0.9, replicates=60, decision_points=30).grid == Grid.wide(30)
    assert Study.of(replicates=60).replicates == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_protocol_has_its_own_precision_unless_one_is_said(protocol: str) -> None:
    assert Study.of(protocol=protocol).precision == PROTOCOLS[protocol].default_precision
    assert Study.of(protocol=protocol, precision="exact").precision is None
    assert Study.of(protocol=protocol, precision=1e-2).precision == 1e-2


def test_options_of_other_protocols_may_stand_there_at_their_defaults() -> None:
    """As they do on the command line, which offers all of them."""
    assert Study.of(protocol="padded", runs=1, splits=4, packing="paper").options == ()
    assert Study.of(protocol="paper-malicious", runs=1, splits=7).options == (("splits", 7),)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"decision_points": 7}, Grid.wide(7)),
        ({"decision_points": 7, "grid": "even"}, Grid.even(7)),
        ({"decision_points": Grid.logit(9)}, Grid.logit(9)),
        ({"decision_points": 7, "grid": "logit"}, Grid.logit(7)),
        ({"decision_points": 7, "scores": "logit"}, Grid.wide(7, scores="logit")),
        ({"grid": [4, 0, -4]}, Grid.explicit([4, 0, -4])),
    ],
    ids=str,
)
def test_decision_points_are_said_in_several_ways(options: dict[str, Any], expected: Grid) -> None:
    assert Study.of(**options).grid == expected


# TOML


def test_a_study_as_people_write_it() -> None:
    study = Study.from_toml(
        """
        name = "sepsis-2026"
        metrics = ["auc", "recall@0.3"]
        models = ["old", "new"]
        interval = 0.95
        protocol = "padded"
        precision = 1e-4
        release = "ratios"
        minimum_cohort = 3
        """
    )
    assert (study.name, study.metrics, study.models) == ("sepsis-2026", ("auc", "recall@0.3"), ("old", "new"))
    assert (study.interval, study.protocol, study.precision) == (0.95, "padded", 1e-4)
    assert (study.release, study.minimum_cohort) == ("ratios", 3)


def test_every_field_can_be_written() -> None:
    study = Study.from_toml(
        """
        name = "everything"
        decision_points = 40
        grid = "logit"
        scores = "logit"
        metrics = ["auc", "brier"]
        models = ["one"]
        classes = ["a", "b"]
        group_column = "sex"
        minimum_group = 30
        interval = 0.9
        replicates = 50
        by_cluster = true
        target_range = [0, 10.5]
        release = "ratios"
        protocol = "padded-verified"
        runs = 2
        precision = "exact"
        minimum_cohort = 4
        max_samples = 5_000
        """
    )
    assert study == Study(
        name="everything",
        grid=Grid.logit(40, scores="logit"),
        metrics=("auc", "brier"),
        models=("one",),
        classes=("a", "b"),
        group_column="sex",
        minimum_group=30,
        interval=0.9,
        replicates=50,
        by_cluster=True,
        target_range=(0.0, 10.5),
        release="ratios",
        protocol="padded-verified",
        options=(("runs", 2),),
        precision=None,
        minimum_cohort=4,
        max_samples=5000,
    )
    assert Study.from_bytes(study.to_bytes()) == study


@pytest.mark.parametrize(
    "text", ['metrics = "auc"', 'metrics = ["auc"]', 'models = "old"\nmetrics = "auc"', 'classes = ["a", "b"]']
)
def test_a_list_of_one_may_be_written_without_brackets(text: str) -> None:
    study = Study.from_toml(text)
    assert study.metrics == ("auc",)
    assert study.models in ((("old",)), ("",))


def test_nothing_at_all_is_the_default() -> None:
    assert Study.from_toml("") == Study.of()


MISTAKES = {
    "unknown key": ("metric = 'auc'", "has no 'metric'. It has: .*metrics"),
    "the options themselves": ("options = [['runs', 3]]", "has no 'options'. It has: .*runs"),
    "text for a number": ("minimum_cohort = 'three'", "minimum_cohort is 'three'"),
    "number for text": ("name = 3", "name is 3"),
    "list of numbers for texts": ("metrics = [1, 2]", "metrics is"),
    "boolean for a number": ("max_samples = true", "max_samples is True"),
    "text for a boolean": ("by_cluster = 'yes'", "by_cluster is 'yes'"),
    "three ends of a range": ("target_range = [0, 1, 2]", "target_range is"),
    "table for a number": ("[interval]\nlevel = 0.9", "interval"),
    "text for decision points": ("decision_points = 'many'", "decision points must be a whole number, not 'many'"),
    "number for a grid": ("grid = 5", "grid is 5"),
    "texts for a grid": ("grid = ['high', 'low']", "grid is"),
    "unknown kind of scores": ("scores = 'odds'", "scores is 'odds'"),
    "list for a protocol": ("protocol = ['padded']", "protocol is"),
    "precision of one": ("precision = 1.0", "precision of 1.0 makes no sense"),
    "precision that is no number": ("precision = nan", "precision of nan makes no sense"),
    "no cohort": ("minimum_cohort = 0", "minimum cohort must be between"),
    "a cohort beyond all numbers": ("minimum_cohort = 100000000000000000000", "minimum cohort must be between"),
    "no samples": ("max_samples = 0", "max_samples must be between"),
    "samples beyond all numbers": ("max_samples = 100000000000000000000", "max_samples must be between"),
    "no group": ("minimum_group = 0", "minimum group of 0 makes no sense"),
    "no precision": ("precision = 'fine'", "precision"),
    "unknown release": ("release = 'noise'", "release is 'noise'"),
    "unknown grid": ("grid = 'odd'", "no grid 'odd'"),
    "points and a list": ("grid = [1.0, 0.0]\ndecision_points = 2", "lists the decision points"),
    "option of another protocol": ("protocol = 'padded'\nruns = 3", "padded has no runs"),
    "option below its range": ("protocol = 'padded-verified'\nruns = 0", "runs is 0. Use a number from 1 to 8"),
    "option above its range": ("protocol = 'padded-verified'\nruns = 9", "runs is 9"),
    "option of another type": ("protocol = 'padded-verified'\nruns = 'two'", "runs"),
    "fraction for an option": ("protocol = 'padded-verified'\nruns = 1.5", "runs"),
    "no such choice": ("protocol = 'paper-semi-honest'\npacking = 'loose'", "no packing 'loose'"),
    "unknown protocol": ("protocol = 'nope'", "no protocol 'nope'. Choose one of: padded, "),
    "number for a protocol": ("protocol = 3", "protocol"),
    "unknown metric": ("metrics = ['aucc']", "no metric 'aucc'"),
    "metric twice": ("metrics = ['f1', 'f1@0.5']", "named twice"),
    "checker twice": ("checkers = ['birch', 'birch']", "named twice"),
    "leader twice": ("leaders = ['birch', 'birch']", "leader has no name, or is named twice"),
    "nameless checker": ("checkers = ['']", "no name"),
    "more than the protocol answers": ("protocol = 'paper-malicious'\nmetrics = ['f1']", "computes one AUC a round"),
    "no TOML": ("metrics: [auc]", "no TOML"),
    "a key twice": ("name = 'a'\nname = 'b'", "no TOML"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_a_config_error_of_one_sentence_and_what_to_do(mistake: str) -> None:
    text, complaint = MISTAKES[mistake]
    with pytest.raises(ConfigError, match=complaint) as caught:
        Study.from_toml(text)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith(".")


VALUES = (
    "3", "0", "-1", "1.5", "nan", "inf", "1e400", "9" * 30, "true", "'text'", "''", "[]", "['a', 'b']", "[1, 2]",
    "[[1]]", "{ a = 1 }", "1979-05-27",
)  # fmt: skip


@pytest.mark.parametrize("key", [*Study.__struct_fields__, "decision_points", "scores", "runs", "splits", "packing"])
def test_whatever_is_written_is_a_study_with_canonical_bytes_or_a_config_error(key: str) -> None:
    before = [""] if key == "protocol" else [f"protocol = '{protocol}'\n" for protocol in PROTOCOLS]
    for text in (f"{first}{key} = {value}" for first in before for value in VALUES):
        try:
            study = Study.from_toml(text)
        except ConfigError:
            continue
        assert Study.from_bytes(study.to_bytes()) == study, text


def test_a_file_is_named_in_the_complaint(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    with pytest.raises(ConfigError, match=r"study\.toml: cannot be read as a study"):
        Study.from_file(path)
    path.write_bytes(b"name = '\xff'")
    with pytest.raises(ConfigError, match=r"study\.toml: cannot be read as a study"):
        Study.from_file(path)
    path.write_text("metrik = 'auc'", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"study\.toml: A study has no 'metrik'"):
        Study.from_file(path)
    path.write_text('metrics = "auc"', encoding="utf-8")
    assert Study.from_file(path) == Study.of()


def test_a_study_that_cannot_be_is_refused_in_python_too() -> None:
    for changes in ({"protocol": "nope"}, {"options": (("runs", 2),)}, {"models": ()}, {"classes": ("one",)}):
        with pytest.raises(StudyError):
            changed(**changes)


# What follows from a study


def test_a_round_has_what_the_study_says_and_names_it_by_its_hash() -> None:
    sexes: dict[str, Any] = {"group_column": "sex", "groups": ["F", "M"]}
    study = Study.of(protocol="padded-verified", runs=3, metrics=["auc", "f1"], minimum_cohort=2, **sexes)
    round_ = round_of(study)
    assert (round_.study, round_.protocol, round_.options) == (study.hash(), "padded-verified", (("runs", 3),))
    assert (round_.parties, round_.leader, round_.groups) == (PARTIES, "a", ("F", "M"))
    assert (round_.precision, round_.minimum_cohort, round_.max_samples) == (None, 2, 1 << 24)
    assert round_.batch == study.batch()
    assert len(round_.forms) == 3 * 3, "both metrics, and the error of one"
    assert study.round(round_.call) == round_


def test_a_call_is_short_whatever_the_study_asks() -> None:
    """Forms are derived: with 805 of them, the call has the size of one."""
    large = Study.of(metrics=["auc", "f1", "brier", "recall"], interval=0.95, decision_points=20)
    round_ = round_of(large)
    assert len(round_.forms) == 805
    assert len(encode(round_.call)) == len(encode(round_of(Study.of()).call)) < 200


def test_nobody_leads_but_whom_the_study_lets() -> None:
    assert changed(leaders=("b", "c")).may_lead("abd") == ["b"]
    assert PLAIN.may_lead("abd") == ["a", "b", "d"]


def test_the_call_of_another_study_is_refused() -> None:
    call = Study.of().call(RNG, engine="clear", parties=PARTIES, leader="a")
    with pytest.raises(RemoteProtocolError, match="another study"):
        Study.of(precision=1e-3).round(call)


def test_a_curve_asks_for_sums_and_for_no_forms() -> None:
    study = Study.of(release="curve", decision_points=20)
    round_ = round_of(study)
    assert round_.forms == ()
    assert round_.sums == sum(statistic.width for statistic in study.statistics())
    assert round_of(msgspec.structs.replace(study, group_column="sex", groups=("F",))).sums == 2 * round_.sums
    with pytest.raises(CapacityError, match="Lower max_samples"):
        round_of(Study.of(release="curve", max_samples=1 << 30))


def test_evaluations_come_in_the_order_of_the_forms() -> None:
    sexes: dict[str, Any] = {"group_column": "sex", "groups": ["F"]}
    study = Study.of(metrics=["auc", "f1"], models=["old", "new"], interval=0.9, replicates=30, **sexes)
    found = [(str(each.spec), each.where) for each in study.evaluations(("F",))]
    assert found[:4] == [
        ("auc", Slice("old", None, None)),
        ("auc", Slice("old", None, "F")),
        ("auc", Slice("new", None, None)),
        ("auc", Slice("new", None, "F")),
    ]
    # The binning errors of the AUCs, and what these are at the points of their resamples.
    assert len(study.batch().forms) == len(found) * 31 + 2 * len(found) // 2


def test_errors_of_a_study_are_the_packages_own() -> None:
    assert issubclass(StudyError, ConfigError)
    assert issubclass(StudyError, FhevalError)


def test_numbers_that_numpy_made_are_numbers() -> None:
    values = np.array([0.5, 9.0])
    study = Study.of(
        metrics=np.array(["mae", "rmse"]),
        target_range=(values.min(), values.max()),
        precision=np.float64(1e-3),
        max_samples=np.int64(100),
        protocol="padded",
    )
    assert study == Study.of(metrics=["mae", "rmse"], target_range=(0.5, 9.0), precision=1e-3, max_samples=100)
    assert Study.from_bytes(study.to_bytes()) == study
    points: Any = np.array([2.0, 1.0])
    assert Study.of(grid=points).grid == Grid.explicit([2.0, 1.0])
    number: Any = np.int64(7)
    assert Study.of(decision_points=number).to_bytes() == Study.of(decision_points=7).to_bytes()
    assert Study.of(protocol="padded-verified", runs=np.int64(2)).options == (("runs", 2),)
