"""Whatever a party's rows are held in, the AUC over all parties is scikit-learn's on the pooled rows."""

from __future__ import annotations

import gzip
import json
import re
import runpy
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix_at_thresholds, f1_score, roc_auc_score

import fheval
from fheval import Counts, Grid, InputError
from fheval_lab.clear import ClearEngine

ROWS = 240
# Scores are decision points themselves, but for 0, so that binning merges no two of them and the AUC is exact.
GRID = Grid.even(101)


def rows(seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, ROWS)
    return labels, np.rint(100 * np.clip(rng.normal(0.4 + 0.2 * labels, 0.2), 0.01, 1)) / 100


PARTIES = {name: rows(seed) for seed, name in enumerate(("north", "south", "east"))}
Y, S = (np.concatenate(columns) for columns in zip(*PARTIES.values(), strict=True))


def named(labels: Any, scores: Any) -> dict[str, Any]:
    return {"id": np.arange(len(labels)), "died": labels, "risk": scores}


def as_pandas(labels: Any, scores: Any, _: Path) -> Any:
    return pytest.importorskip("pandas").DataFrame(named(labels, scores))


def as_nullable_pandas(labels: Any, scores: Any, _: Path) -> Any:
    frame = as_pandas(labels, scores, _)
    return frame.convert_dtypes()


def as_arrow_pandas(labels: Any, scores: Any, _: Path) -> Any:
    pytest.importorskip("pyarrow")
    return as_pandas(labels, scores, _).convert_dtypes(dtype_backend="pyarrow")


def as_categories(labels: Any, scores: Any, _: Path) -> Any:
    return as_pandas(labels, scores, _).astype("category")


def as_objects(labels: Any, scores: Any, _: Path) -> Any:
    return as_pandas(labels, scores, _).astype(object)


def as_polars(labels: Any, scores: Any, _: Path) -> Any:
    return pl.DataFrame(named(labels, scores))


def as_lazy_polars(labels: Any, scores: Any, _: Path) -> Any:
    return as_polars(labels, scores, _).lazy()


def as_decimal_polars(labels: Any, scores: Any, _: Path) -> Any:
    exact = [Decimal(f"{score:.6f}") for score in scores]
    return pl.DataFrame({"died": labels, "risk": pl.Series(exact, dtype=pl.Decimal(12, 6))})


def as_narwhals(labels: Any, scores: Any, _: Path) -> Any:
    import narwhals

    return narwhals.from_native(as_polars(labels, scores, _))


def as_arrow(labels: Any, scores: Any, _: Path) -> Any:
    return pytest.importorskip("pyarrow").table(named(labels, scores))


def as_arrow_dictionaries(labels: Any, scores: Any, _: Path) -> Any:
    arrow = pytest.importorskip("pyarrow")
    return arrow.table({name: arrow.array(held).dictionary_encode() for name, held in named(labels, scores).items()})


def as_record_batch(labels: Any, scores: Any, _: Path) -> Any:
    return pytest.importorskip("pyarrow").RecordBatch.from_pydict(named(labels, scores))


def as_duckdb(labels: Any, scores: Any, _: Path) -> Any:
    held = as_polars(labels, scores, _)
    connection = pytest.importorskip("duckdb").connect()
    connection.register("rows_held", held)
    connection.execute("CREATE TABLE rows_kept AS SELECT * FROM rows_held")
    return connection.table("rows_kept")


def as_dictionary(labels: Any, scores: Any, _: Path) -> Any:
    return named(labels, scores)


def as_pair(labels: Any, scores: Any, _: Path) -> Any:
    return labels, scores


def as_lists(labels: Any, scores: Any, _: Path) -> Any:
    return labels.tolist(), scores.tolist()


def as_csv(labels: Any, scores: Any, folder: Path) -> Any:
    return _text(folder / "a.csv", labels, scores)


def as_gzip(labels: Any, scores: Any, folder: Path) -> Any:
    return _packed(_text(folder / "a.csv", labels, scores), ".gz", gzip.compress)


def as_zstandard(labels: Any, scores: Any, folder: Path) -> Any:
    return _packed(_text(folder / "a.tsv", labels, scores, "\t"), ".zst", zstandard.ZstdCompressor().compress)


def as_decimal_comma(labels: Any, scores: Any, folder: Path) -> Any:
    path = _text(folder / "a.csv", labels, scores, ";")
    path.write_text(path.read_text().replace(".", ","))
    return path


def as_json_lines(labels: Any, scores: Any, folder: Path) -> Any:
    lines = [json.dumps({"died": y, "risk": s}) for y, s in zip(labels.tolist(), scores.tolist(), strict=True)]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "a.jsonl"


def as_packed_json_lines(labels: Any, scores: Any, folder: Path) -> Any:
    return _packed(as_json_lines(labels, scores, folder), ".zst", zstandard.ZstdCompressor().compress)


def as_parquet(labels: Any, scores: Any, folder: Path) -> Any:
    as_polars(labels, scores, folder).write_parquet(folder / "a.parquet")
    return str(folder / "a.parquet")


def as_feather(labels: Any, scores: Any, folder: Path) -> Any:
    as_polars(labels, scores, folder).write_ipc(folder / "a.feather")
    return folder / "a.feather"


def _text(path: Path, labels: Any, scores: Any, separator: str = ",") -> Path:
    lines = [separator.join(map(str, row)) for row in zip(range(len(labels)), labels, scores, strict=True)]
    path.write_text("\n".join([separator.join(["id", "died", "risk"]), *lines]) + "\n")
    return path


def _packed(path: Path, ending: str, pack: Callable[[bytes], bytes]) -> Path:
    packed = path.with_name(path.name + ending)
    packed.write_bytes(pack(path.read_bytes()))
    path.unlink()
    return packed


KINDS = [value for name, value in globals().items() if name.startswith("as_")]

# What labels and scores are written as, and what is said of it.
OPTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], dict[str, Any]]] = {
    "zero and one": (lambda y: y, lambda s: s, {}),
    "float labels": (lambda y: y.astype(float), lambda s: s, {}),
    "booleans": (lambda y: y == 1, lambda s: s, {}),
    "positive yes": (lambda y: np.where(y == 1, "yes", "no"), lambda s: s, {"positive": "yes"}),
    "positive 2 of 1 and 2": (lambda y: y + 1, lambda s: s, {"positive": 2}),
    "positive 1 of 1 and 2": (lambda y: 2 - y, lambda s: s, {"positive": 1}),
    "positive of booleans": (lambda y: y != 1, lambda s: s, {"positive": False}),
    "percent": (lambda y: y, lambda s: 100 * s, {"percent": True}),
    "both": (lambda y: np.where(y == 1, "Ill", "well"), lambda s: 100 * s, {"positive": "ill", "percent": True}),
}


def ask(parties: Any, **options: Any) -> fheval.Result:
    chosen = {"decision_points": GRID, "precision": "exact", "engine": ClearEngine(), **options}
    return fheval.evaluate(parties, **chosen)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__.removeprefix("as_"))
def test_the_auc_is_that_of_the_pooled_rows(kind: Callable[..., Any], option: str, tmp_path: Path) -> None:
    """Every kind of data under every option; percentages are divided exactly as probabilities were rounded."""
    write_labels, write_scores, said = OPTIONS[option]
    parties = {}
    for name, (labels, scores) in PARTIES.items():
        (tmp_path / name).mkdir()
        # 100·s is a whole number up to rounding: written as one it comes back as the very decision point.
        written = np.rint(write_scores(scores)) if "percent" in said else write_scores(scores)
        parties[name] = kind(write_labels(labels), written, tmp_path / name)
    result = ask(parties, label="died", score="risk", metrics="auc", **said)
    assert result.auc == pytest.approx(roc_auc_score(Y, S), abs=1e-12)
    # Metrics that look at rows take another way through the code, for which two options will do.
    if option not in ("zero and one", "both"):
        return
    result = ask(parties, label="died", score="risk", metrics=["auc", "f1@0.5"], **said)
    assert result.value("f1@0.5", model="risk") == pytest.approx(f1_score(Y, S > 0.5), abs=1e-12)


def test_parties_may_hold_different_kinds(tmp_path: Path) -> None:
    kinds = dict(zip(PARTIES, (as_polars, as_parquet, as_pair), strict=True))
    mixed = {name: kinds[name](*data, tmp_path) for name, data in PARTIES.items()}
    result = ask(mixed, label="died", score="risk")
    assert result.auc == pytest.approx(roc_auc_score(Y, S), abs=1e-12)
    assert ask(list(mixed.values()), label="died", score="risk").auc == result.auc


def test_arrays_of_two_columns_and_with_fields() -> None:
    two = {name: np.stack(data, axis=1) for name, data in PARTIES.items()}
    form = [("died", np.int64), ("risk", np.float64)]
    fields = {name: np.array(list(zip(*data, strict=True)), dtype=form) for name, data in PARTIES.items()}
    assert ask(two).auc == ask(fields, label="died", score="risk").auc == pytest.approx(roc_auc_score(Y, S), abs=1e-12)


def test_several_models_and_clusters_are_columns() -> None:
    frames = {
        name: pl.DataFrame({"y": y, "old": s, "new": 1 - s, "patient": np.arange(len(y)) // 2})
        for name, (y, s) in PARTIES.items()
    }
    result = ask(frames, score=["old", "new"], cluster="patient", ci=0.8, replicates=20, decision_points=11)
    assert result.value("auc", model="old") + result.value("auc", model="new") == pytest.approx(1, abs=0.05)
    assert all(row.low is not None for row in result.results)


def test_groups_are_a_column() -> None:
    frames = {name: pl.DataFrame({"y": y, "s": s, "sex": ["F", "M"] * (ROWS // 2)}) for name, (y, s) in PARTIES.items()}
    result = ask(frames, group_column="sex", minimum_group=10)
    women = np.tile([True, False], len(Y) // 2)
    assert result.value("auc", group="sex=F") == pytest.approx(roc_auc_score(Y[women], S[women]), abs=1e-12)


def test_a_study_may_be_given_beside_frames() -> None:
    frames = {name: as_polars(*data, Path()) for name, data in PARTIES.items()}
    study = fheval.Study.of(metrics=("auc",), decision_points=GRID, precision="exact", least_rows_per_party=10)
    result = fheval.evaluate(frames, label="died", score="risk", study=study, engine=ClearEngine())
    assert result.auc == pytest.approx(roc_auc_score(Y, S), abs=1e-12)


@pytest.mark.parametrize(
    ("frame", "said", "message"),
    [
        ({"y": [1, 0], "s": [0.1, None]}, {}, "north, row 2, column 's': the value is missing"),
        ({"y": [1, 0], "s": ["a", "b"]}, {}, r"north, column 's': holds values of type String\. Give numbers, or name"),
        ({"y": [1, 2], "s": [0.1, 0.2]}, {}, r"row 2, column 'y': the label 2 is.*say which label is positive"),
        (
            {"y": ["a", "b"], "s": [0.1, 0.2]},
            {},
            "north, column 'y': holds values of type String.*which label is positive",
        ),
        (
            {"y": ["a", "b", "c"], "s": [0.1] * 3},
            {"positive": "a"},
            "the label 'c' is a third one, besides 'a', which is positive",
        ),
        ({"y": ["a", None], "s": [0.1] * 2}, {"positive": "a"}, "row 2, column 'y': the label is missing"),
        ({"y": [1.0, float("nan")], "s": [0.1] * 2}, {"positive": 1}, "row 2, column 'y': the label is missing"),
        ({"y": [1, 0], "s": [3.0, 80.0]}, {}, "look like percentages: say so"),
        ({"y": [1, 0], "s": [3.0, 80.0]}, {"metrics": "f1"}, "look like percentages"),
        (
            {"y": [1, 0], "s": [-3.0, 80.0]},
            {},
            r"say that the scores are logits \(scores='logit', --score-kind logit\)",
        ),
        ({"y": [1, 0], "s": [0.3, 1.2]}, {}, "say that the scores are logits"),
        ({"y": [], "s": []}, {}, "north: there are no rows"),
        ({"y": [1, 0]}, {}, "north: there is no score column 's'|'score'"),
        ({}, {}, "north: there are no columns"),
        ([[1, 0], [0.1, 0.2]], {}, "north: list is nothing that rows can be taken from"),
        (7, {}, "north: int is nothing that rows can be taken from"),
        (np.zeros((3, 3)), {}, r"north: an array of shape \(3, 3\)"),
        ({"y": [1, 0], "s": [0.1]}, {}, "north: the columns do not make a table"),
    ],
)
def test_what_cannot_be_counted_is_named(frame: Any, said: dict[str, Any], message: str) -> None:
    held = (
        pl.DataFrame(frame, strict=False)
        if isinstance(frame, dict) and len(set(map(len, frame.values()))) == 1
        else frame
    )
    with pytest.raises(InputError, match=message):
        ask({"north": held, "south": held, "east": held}, **said)


def test_columns_of_one_name_are_refused() -> None:
    frame = pytest.importorskip("pandas").DataFrame(np.zeros((4, 3)), columns=["y", "s", "s"])
    with pytest.raises(InputError, match="north: several columns have the same name"):
        ask({"north": frame, "south": frame, "east": frame})


def test_one_frame_is_not_the_parties() -> None:
    for alone in ("scores.csv", as_polars(*rows(1), Path())):
        with pytest.raises(fheval.ConfigError, match="one entry for each"):
            ask(alone)


def test_classes_and_a_positive_label_exclude_each_other() -> None:
    with pytest.raises(fheval.ConfigError, match="Name one or the other"):
        ask(PARTIES, positive=1, classes=["a", "b"])


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_packed_file_that_was_cut_off_is_refused(tmp_path: Path, ending: str) -> None:
    pack = gzip.compress if ending == ".gz" else zstandard.ZstdCompressor().compress
    path = _packed(_text(tmp_path / "a.csv", *rows(5)), ending, pack)
    whole = path.read_bytes()
    for left in (len(whole) - 1, len(whole) // 2, 3):
        path.write_bytes(whole[:left])
        with pytest.raises(InputError, match="cannot be unpacked"):
            ask({"north": path, "south": path, "east": path}, label="died", score="risk")


def test_frames_of_zstandard_follow_each_other(tmp_path: Path) -> None:
    path = _text(tmp_path / "a.csv", *rows(5))
    data, pack = path.read_bytes(), zstandard.ZstdCompressor().compress
    (tmp_path / "b.csv.zst").write_bytes(pack(data[:1000]) + pack(data[1000:]))
    assert fheval.counting.count_file(
        tmp_path / "b.csv.zst", GRID, label_column="died", score_column="risk"
    ) == Counts.from_scores(*rows(5), GRID)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"y":1,"s":0.5}\n{"y":0}\n', r"row 2 \(line 2\), column 's': the value is missing"),
        ('{"y":1,"s":0.5}\n{"y":0,"s":"x"}\n', r"row 2 \(line 2\), column 's': 'x' is not a number"),
        ('{"y":1,"s":0.5}\n{"y":0,\n', "line 2: is not a JSON object"),
        ('{"y":1,"s":0.5}\n\n{"y":0,"s":0.1}\n', "line 2: is not a JSON object"),
        ("[1, 0.5]\n", "line 1: is not a JSON object"),
    ],
)
def test_lines_of_json_that_are_none_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        fheval.counting.count_file(path, GRID)


def test_points_and_decimal_commas_in_one_column_are_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("y;s\n1;0,5\n0;0.25\n")
    with pytest.raises(InputError, match="'0,5' is not a number"):
        fheval.counting.count_file(tmp_path / "a.csv", GRID)


def test_scikit_learns_thresholds_become_counts() -> None:
    counted = []
    for labels, scores in PARTIES.values():
        _, fps, _, tps, thresholds = confusion_matrix_at_thresholds(labels, scores)
        counted.append(Counts.from_thresholds(tps, fps, thresholds, GRID))
        assert counted[-1] == Counts.from_scores(labels, scores, GRID)
    assert ask(counted, decision_points=None).auc == pytest.approx(roc_auc_score(Y, S), abs=1e-12)


class BinnedRoc:
    """The state of TorchMetrics' BinaryROC with thresholds, as its documentation has it: positive from θ on."""

    def __init__(self, thresholds: NDArray[np.float64]) -> None:
        self.thresholds = thresholds
        self.confmat = np.zeros((len(thresholds), 2, 2), dtype=np.int64)

    def update(self, scores: NDArray[np.float64], labels: NDArray[np.int64]) -> None:
        for number, threshold in enumerate(self.thresholds):
            called = (scores >= threshold).astype(int)
            np.add.at(self.confmat[number], (labels, called), 1)


def test_the_state_of_a_binned_metric_becomes_counts() -> None:
    thresholds = np.linspace(0, 1, 101)
    counted = []
    for labels, scores in PARTIES.values():
        metric = BinnedRoc(thresholds)
        # The metric rounds as linspace does; 0.07 is not the seventh of its thresholds.
        metric.update(thresholds[np.rint(100 * scores).astype(int)], labels)
        counted.append(Counts.from_confusion(metric.confmat, metric.thresholds))
    assert ask(counted, decision_points=None).auc == pytest.approx(roc_auc_score(Y, S), abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [0, 2], [0.5]), "three lists of one length"),
        (([0.5, 1.0], [0, 1], [0.5, 0.0]), "counts rather than rates"),
        (([1, 2], [0, 2], [np.inf, 0.0]), "finite"),
        (([1, 2], [0, 2], [0.5, 0.5]), "given twice"),
        (([2, 1], [0, 2], [0.5, 0.0]), "never decrease"),
    ],
)
def test_what_is_no_counts_at_thresholds_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Counts.from_thresholds(*arguments)


def test_thresholds_that_leave_samples_out_are_refused() -> None:
    metric = BinnedRoc(np.linspace(0.5, 1, 6))
    labels, scores = rows(3)
    metric.update(scores, labels)
    with pytest.raises(InputError, match="leaves samples out"):
        Counts.from_confusion(metric.confmat, metric.thresholds)
    with pytest.raises(InputError, match="two by two"):
        Counts.from_confusion(metric.confmat[0], metric.thresholds)


def test_the_page_for_data_scientists_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    page = (Path(__file__).resolve().parents[2] / "docs" / "data-scientists.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.py").write_text(code)
    names = runpy.run_path("page.py")
    pooled = [names["rows"](seed) for seed in (1, 2, 3)]
    truth = roc_auc_score(*(np.concatenate([each[name] for each in pooled]) for name in ("died", "risk")))
    row = names["result"].results[0]
    assert row.value == pytest.approx(truth, abs=row.binning + row.precision)
