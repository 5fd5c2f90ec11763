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
from fheval.party.messages import REFUSAL, Relay, Reply, Request
from fheval.party.steps import Steps
from fheval.protocols import committee, curve, groups, padded
from fheval.protocols.base import Stage
from fheval.protocols.committee_messages import SealedShare
from fheval.protocols.groups import PRIME, SUPPRESSED
from fheval.protocols.padding import UploadSum, pack, packed_size
from fheval.wire import decode, encode
from keys_consortium import Consortium
from vault.trial import NAMES, PADDED, PicksTheFirst, Trial, Wire, make_consortium, running

pytestmark = pytest.mark.slow

# A fine grid: the pooled AUC is that of the scores themselves.
SCORES = np.arange(1, 21) / 20 - 0.025
GRID = Grid.even(21)
EVERYWHERE = {"F": 30, "M": 25}
ALL = (*PADDED, "committee")
MEMBERS = NAMES[:3]
# What a seal adds: its nonce, a length and a tag.
SEAL_BYTES = 12 + 4 + 16
LOST = Stage.MIX, MEMBERS[1]


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
    asked: dict[str, Any] = {"group_column": "sex", "groups": ("F", "M", "X"), "grid": GRID}
    asked |= {"metrics": ("auc", "recall@0.5"), "leaders": MEMBERS if protocol == "committee" else ()}
    return trial.study(protocol, **(asked | changes))


def rows_of(trial: Trial) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    lines = [line.split(",") for name in NAMES for line in trial.data(name).read_text().splitlines()[1:]]
    labels, scores, named = zip(*lines, strict=True)
    return np.array(labels, dtype=int), np.array(scores, dtype=float), np.array(named)


def published(trial: Trial) -> tuple[str, ...]:
    """The groups that all members hold numbers of after the newest round."""
    (found,) = {trial.last(name).verdict.groups for name in NAMES}  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("protocol", ALL)
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


@pytest.mark.parametrize("protocol", ALL)
def test_a_small_group_is_neither_released_nor_left_over(trial: Trial, protocol: str) -> None:
    deal(trial, SMALL)
    trial.play(study(trial, protocol))
    assert published(trial) == ("M",), "with F, three people would be what is left of the total"
    for member in NAMES:
        notes = {row.group: row.note for row in trial.rows(member) if row.value is None}
        assert notes == {"sex=F": SUPPRESSED, "sex=X": SUPPRESSED}


@pytest.mark.parametrize("protocol", ALL)
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


@pytest.mark.parametrize("protocol", ["padded", "committee"])
def test_what_is_sent_at_submit_has_one_length_whatever_the_groups_are(trial: Trial, protocol: str) -> None:
    lengths = set()
    for special in (None, SMALL, {"maple": {"X": 55}}):
        trial.begin_anew()
        deal(trial, special)
        trial.prepare()
        wire = Wire(trial)
        drive(trial.conduct(study(trial, protocol), rng=PicksTheFirst()), wire)
        lengths |= {len(reply) for stage, _, reply in wire.replies if stage is Stage.SUBMIT}
    assert len(lengths) == 1


# Two rounds


def two_rounds(trial: Trial, protocol: str) -> list[tuple[str, ...]]:
    """First F is the larger of two groups, then M is, and always three people are in neither."""
    trial.begin_anew()
    found = []
    for few in ("M", "F"):
        # Only four parties hold enough of the one that is to be hidden.
        hidden = {"hazel": EVERYWHERE | {few: 4}}
        deal(trial, SMALL | hidden)
        trial.prepare()
        trial.play(study(trial, protocol))
        found.append(published(trial))
    return found


@pytest.mark.parametrize("protocol", ["padded", "committee"])
def test_two_rounds_show_no_more_than_one(trial: Trial, protocol: str) -> None:
    assert two_rounds(trial, protocol) == [("F",), ("F",)]


@pytest.mark.parametrize("protocol", ["padded", "committee"])
def test_without_memory_two_rounds_show_a_small_group(
    trial: Trial, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: F of one round and M of the other leave three people of the total."""
    monkeypatch.setattr(Steps, "_published_before", lambda *_: frozenset())
    assert two_rounds(trial, protocol) == [("F",), ("M",)]


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


# A committee: every member decides, and one that is honest is enough


def shares_of(wire: Wire) -> list[SealedShare]:
    """What members gave at `open`, newest first."""
    replies = [reply for stage, _, reply in reversed(wire.replies) if stage is Stage.OPEN]
    return [decode(decode(each, Reply, sender="test").body, SealedShare, sender="test") for each in replies]


def test_members_give_no_share_of_a_small_group(trial: Trial) -> None:
    """Of each prime and form of what is published there are two numbers in a share, and nothing more but the seal."""
    deal(trial, SMALL)
    wire = Wire(trial)
    round_ = drive(trial.conduct(study(trial, "committee")), wire).round
    found = shares_of(wire)
    assert [share.groups for share in found] == [("M",)] * 3
    everything, opened = (len(round_.forms_of(each)) for each in (round_.groups, ("M",)))
    assert everything == 2 * opened
    numbers = 2 * opened * len(committee.lay_out(round_).primes)
    assert {len(share.box) for share in found} == {packed_size(numbers) + SEAL_BYTES}


@pytest.mark.parametrize("honest", range(3))
def test_one_honest_member_is_enough_to_hide_a_small_group(
    trial: Trial, honest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other two give shares of everything. Without the third there is nothing to add up."""
    deal(trial, SMALL)
    required = groups.choose
    asked = {"by": ""}

    def choose(declared: Any, least: int, before: Any) -> tuple[str, ...]:
        return required(declared, least, before) if asked["by"] == MEMBERS[honest] else ("F", "M", "X")

    monkeypatch.setattr(groups, "choose", choose)

    def meddle(_exchange: Any, name: str, data: bytes) -> bytes:
        asked["by"] = name
        return data

    wire = Wire(trial, meddle=meddle)
    report = drive(trial.conduct(study(trial, "committee"), attempts=1), wire)
    assert report.confirmed == ()
    assert all(trial.last(name).verdict is None for name in NAMES)
    assert sorted(len(share.groups) for share in shares_of(wire)) == [1, 3, 3]


def test_what_any_member_remembers_counts(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second member alone knows that M was published: with F as well, three people would be left of the total."""
    deal(trial, SMALL | {"hazel": EVERYWHERE | {"M": 4}})
    remembered = Steps._published_before

    def before(steps: Steps, *arguments: Any) -> frozenset[str]:
        return remembered(steps, *arguments) | ({"M"} if steps.me == MEMBERS[1] else set())

    monkeypatch.setattr(Steps, "_published_before", before)
    trial.play(study(trial, "committee"))
    assert published(trial) == ("M",)


def test_a_round_opened_meanwhile_ends_the_one_that_did_not_reckon_with_it(trial: Trial) -> None:
    """Before the outcome of the first was told to anybody: members know what they have given shares of."""
    deal(trial, SMALL)
    asked = study(trial, "committee")
    first, second = (trial.conduct(asked, attempts=1) for _ in range(2))
    exchange, other = next(first), next(second)
    while exchange.stage is not Stage.OPEN:
        exchange = first.send(Wire(trial)(exchange))
    while other.stage is not Stage.OPEN:
        other = second.send(Wire(trial)(other))
    assert all(reply != REFUSAL for reply in Wire(trial)(exchange).values())
    assert set(Wire(trial)(other).values()) == {REFUSAL}
    assert all(trial.last(name).verdict is None for name in NAMES)


def test_a_round_with_groups_is_not_void_once_declarations_may_have_been_read(trial: Trial) -> None:
    """Two rosters in rounds that cost nothing would tell, by difference, what one party declared."""
    deal(trial, SMALL)
    for named, costs in (((), {0}), (("F", "M", "X"), {1})):
        asked = study(trial, "committee", groups=named, group_column="sex" if named else None)
        trial.begin_anew()
        with pytest.raises(FhevalError, match="it takes 3"):
            drive(trial.conduct(asked), Wire(trial, lose=lambda exchange, name: (exchange.stage, name) == LOST))
        assert {sum(each.rounds for each in trial.ledgers[name].spending()) for name in NAMES} == costs
