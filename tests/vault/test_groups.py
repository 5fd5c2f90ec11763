"""Groups between vaults: the large are released, the small stay hidden, by difference and over two rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.metrics import recall_score, roc_auc_score

from fheval.aggregator.conductor import drive
from fheval.consortium.signed_study import check_study
from fheval.counting import Grid
from fheval.errors import ConfigError, FhevalError
from fheval.evaluation.finished import finish
from fheval.party.columns import StudyColumns
from fheval.party.messages import Relay, Request
from fheval.party.steps import Steps
from fheval.protocols import curve, groups, padded
from fheval.protocols.base import Stage
from fheval.protocols.groups import PRIME, SUPPRESSED
from fheval.protocols.padding import UploadSum, pack
from fheval.wire import decode, encode
from keys_consortium import Consortium
from vault.trial import NAMES, PADDED, PicksTheFirst, Trial, Wire, make_consortium, running

# A fine grid: the pooled AUC is that of the scores themselves.
SCORES = np.arange(1, 21) / 20 - 0.025
GRID = Grid.even(21)
EVERYWHERE = {"F": 30, "M": 25}


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return make_consortium(tmp_path_factory.mktemp("groups"))


@pytest.fixture
def trial(consortium: Consortium, tmp_path: Path) -> Iterator[Trial]:
    with running(tmp_path, consortium) as made:
        yield made


def write(path: Path, seed: int, sizes: Mapping[str, int], column: str = "sex") -> None:
    rng = np.random.default_rng(seed)
    lines = []
    for group, size in sizes.items():
        for _ in range(size):
            label = int(rng.integers(0, 2))
            lines.append(f"{label},{rng.choice(SCORES[5:] if label else SCORES[:15]):.3f},{group}\n")
    path.write_text(f"label,score,{column}\n" + "".join(lines))


def deal(trial: Trial, special: Mapping[str, Mapping[str, int]] | None = None, **others: int) -> None:
    """The same groups everywhere, but for those who are `special`."""
    for seed, name in enumerate(NAMES):
        write(trial.data(name), seed, (special or {}).get(name, EVERYWHERE | others))


def study(trial: Trial, protocol: str = "padded", **changes: Any) -> Any:
    asked = {"group_column": "sex", "groups": ("F", "M", "X"), "grid": GRID, "metrics": ("auc", "recall@0.5")}
    return trial.study(protocol, **(asked | changes))


def rows_of(trial: Trial) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    lines = [line.split(",") for name in NAMES for line in trial.data(name).read_text().splitlines()[1:]]
    labels, scores, named = zip(*lines, strict=True)
    return np.array(labels, dtype=int), np.array(scores, dtype=float), np.array(named)


def published(trial: Trial) -> tuple[str, ...]:
    """The groups that all members hold numbers of after the newest round."""
    (found,) = {trial.last(name).verdict.groups for name in NAMES}  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("protocol", PADDED)
@pytest.mark.parametrize("replicates", [0, 60])
def test_groups_that_are_large_are_those_of_the_pooled_rows(trial: Trial, protocol: str, replicates: int) -> None:
    deal(trial)
    asked = study(trial, protocol, groups=("F", "M"), interval=0.9 if replicates else None, replicates=replicates)
    trial.play(asked)
    labels, scores, named = rows_of(trial)
    for member in NAMES:
        rows = {(row.metric, row.group): row.value for row in trial.rows(member)}
        assert len(rows) == 6
        for group in (None, "F", "M"):
            mine = np.ones(len(labels), dtype=bool) if group is None else named == group
            shown = group and f"sex={group}"
            assert rows["auc", shown] == pytest.approx(roc_auc_score(labels[mine], scores[mine]), abs=1e-4)
            assert rows["recall@0.5", shown] == pytest.approx(recall_score(labels[mine], scores[mine] > 0.5), abs=1e-4)


@pytest.mark.parametrize("protocol", PADDED)
def test_curves_of_groups(trial: Trial, protocol: str) -> None:
    deal(trial, {"maple": {"F": 30, "M": 25, "X": 3}}, X=0)
    asked = study(trial, protocol, release="curve", metrics=("auc",))
    trial.play(asked)
    assert published(trial) == ("M",), "F as well would leave three people"
    labels, scores, named = rows_of(trial)
    last = trial.last("birch")
    assert last.verdict is not None
    total, men = finish(asked, last.verdict).curves(asked, ("M",))
    assert (total.where.group, men.where.group) == (None, "M")
    assert (int(total.tp[-1]), int(men.tp[-1])) == (labels.sum(), labels[named == "M"].sum())
    assert men.auc() == pytest.approx(roc_auc_score(labels[named == "M"], scores[named == "M"]), abs=1e-9)
    assert {row.group for row in trial.rows("birch") if row.note == SUPPRESSED} == {"sex=F", "sex=X"}


def test_a_member_may_call_the_column_otherwise(trial: Trial) -> None:
    deal(trial)
    write(trial.data("cedar"), 2, EVERYWHERE, column="gender")
    trial.columns["cedar"] = StudyColumns(group="gender")
    trial.play(study(trial, groups=("F", "M")))
    assert published(trial) == ("F", "M")


# Small groups


SMALL = {"maple": {"F": 30, "M": 25, "X": 3}}


@pytest.mark.parametrize("protocol", PADDED)
def test_a_small_group_is_neither_released_nor_left_over(trial: Trial, protocol: str) -> None:
    deal(trial, SMALL)
    trial.play(study(trial, protocol))
    assert published(trial) == ("M",), "with F, three people would be what is left of the total"
    for member in NAMES:
        notes = {row.group: row.note for row in trial.rows(member) if row.value is None}
        assert notes == {"sex=F": SUPPRESSED, "sex=X": SUPPRESSED}


@pytest.mark.parametrize("protocol", PADDED)
def test_without_the_rule_a_small_group_shows(trial: Trial, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail."""
    monkeypatch.setattr(groups, "is_safe", lambda *_: True)
    monkeypatch.setattr(groups, "candidates", lambda declared, _: [group for group in declared.enough if group])
    deal(trial, SMALL)
    trial.play(study(trial, protocol))
    assert published(trial) == ("F", "M", "X")
    labels, scores, named = rows_of(trial)
    (shown,) = (row for row in trial.rows("alder") if (row.metric, row.group) == ("recall@0.5", "sex=X"))
    small = named == "X"
    if labels[small].any():
        assert shown.value == pytest.approx(recall_score(labels[small], scores[small] > 0.5), abs=1e-4)


def test_the_leader_has_no_ciphertext_of_a_small_group(trial: Trial) -> None:
    """Of what is not published nothing is computed: the leader's pads and the answer are of the rest alone."""
    deal(trial, SMALL)
    wire = Wire(trial)
    asked = study(trial)
    report = drive(trial.conduct(asked, rng=PicksTheFirst()), wire)
    all_of_it = padded.Layout.of(report.round)
    part = all_of_it.reading(report.round, ("M",))
    assert len(part.plan.source) == len(all_of_it.plan.source) // 2
    answer = decode(bytes(decode_relay(wire.request(Stage.RESULT)).body), padded.PaddedResult, sender="aggregator")
    assert answer.groups == ("M",)
    assert [len(sheets) for sheets in answer.ciphertexts] == [part.plan.sheets] * len(part.primes)


def decode_relay(data: bytes) -> Relay:
    return decode(bytes(decode(data, Request, sender="test").body), Relay, sender="test")


def test_what_is_sent_at_submit_has_one_length_whatever_the_groups_are(trial: Trial) -> None:
    lengths = set()
    for special in (None, SMALL, {"maple": {"X": 55}}):
        trial.begin_anew()
        deal(trial, special)
        trial.prepare()
        wire = Wire(trial)
        drive(trial.conduct(study(trial), rng=PicksTheFirst()), wire)
        lengths |= {len(reply) for stage, _, reply in wire.replies if stage is Stage.SUBMIT}
    assert len(lengths) == 1


# Two rounds


def two_rounds(trial: Trial) -> list[tuple[str, ...]]:
    """First F is the larger of two groups, then M is, and always three people are in neither."""
    trial.begin_anew()
    found = []
    for few in ("M", "F"):
        # Only four parties hold enough of the one that is to be hidden.
        hidden = {"hazel": EVERYWHERE | {few: 4}}
        deal(trial, SMALL | hidden)
        trial.prepare()
        trial.play(study(trial))
        found.append(published(trial))
    return found


def test_two_rounds_show_no_more_than_one(trial: Trial) -> None:
    assert two_rounds(trial) == [("F",), ("F",)]


def test_without_memory_two_rounds_show_a_small_group(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: F of one round and M of the other leave three people of the total."""
    monkeypatch.setattr(Steps, "_published_before", lambda *_: frozenset())
    assert two_rounds(trial) == [("F",), ("M",)]


def test_another_study_with_the_same_column_counts_as_well(trial: Trial) -> None:
    deal(trial, SMALL | {"hazel": EVERYWHERE | {"M": 4}})
    trial.play(study(trial))
    assert published(trial) == ("F",)
    trial.play(study(trial, groups=("M",), metrics=("auc",)))
    assert published(trial) == (), "M alone would be large, and with F leave three people"


def test_rounds_that_overlap_are_not_both_opened(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round in which pads were given before another one was opened: its ticket is void."""
    deal(trial, SMALL)
    before: list[frozenset[str]] = [frozenset(), frozenset({"M"})]
    monkeypatch.setattr(Steps, "_published_before", lambda *_: before.pop(0) if len(before) > 1 else before[0])
    with pytest.raises(FhevalError, match="failed"):
        trial.play(study(trial), attempts=1)


# An aggregator that deviates


def one_party_more(position: int) -> Any:
    """Adds one to the number of parties that hold enough of a group, tags left as they are."""
    honest = groups.added

    def added(sums: UploadSum) -> bytes:
        total = UploadSum(sums._values)
        total.add(honest(sums), "test")
        (values,) = total.totals([PRIME])
        values[position] += np.uint64(3)
        return pack([values % np.uint64(PRIME)])

    return added


@pytest.mark.parametrize("release", ["ratios", "curve"])
def test_a_declaration_that_was_altered_is_refused(trial: Trial, release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deal(trial, SMALL)
    monkeypatch.setattr(groups, "added", one_party_more(2))
    with pytest.raises(FhevalError, match="leader"):
        trial.play(study(trial, "padded-verified", release=release, metrics=("auc",)), attempts=1)


def test_without_tags_it_passes(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: X is said to be large, and is opened."""
    monkeypatch.setattr(groups, "_tag_keys", lambda *_: [])
    monkeypatch.setattr(groups, "TAGS", 0)
    monkeypatch.setattr(groups, "added", one_party_more(2))
    deal(trial, SMALL)
    trial.play(study(trial, "padded-verified", metrics=("auc",)))
    assert "X" in published(trial)


@pytest.mark.parametrize("release", ["ratios", "curve"])
def test_the_answer_names_the_groups_that_the_leader_chose(trial: Trial, release: str) -> None:
    deal(trial, SMALL)
    kind: Any = padded.PaddedResult if release == "ratios" else curve.PaddedSums

    def other_groups(exchange: Any, _name: str, data: bytes) -> bytes:
        if exchange.stage is not Stage.RESULT:
            return data
        request = decode(data, Request, sender="test")
        relay = decode(bytes(request.body), Relay, sender="test")
        answer = decode(bytes(relay.body), kind, sender="test")
        changed = encode(msgspec.structs.replace(answer, groups=("F",)))
        return encode(msgspec.structs.replace(request, body=encode(msgspec.structs.replace(relay, body=changed))))

    with pytest.raises(FhevalError, match="failed"):
        drive(
            trial.conduct(study(trial, release=release, metrics=("auc",)), attempts=1),
            Wire(trial, meddle=other_groups),
        )
    assert all(trial.last(name).verdict is None for name in NAMES)


def test_a_study_of_vaults_names_its_groups(trial: Trial) -> None:
    with pytest.raises(ConfigError, match="names no groups"):
        check_study(study(trial, groups=()), trial.policy)
