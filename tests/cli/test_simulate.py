"""`fheval simulate`: one data set, split at random; the split changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.session import Session
from fheval import Counts
from fheval.cli.simulate import split_rows
from fheval.secrets import Secret, SystemRandomness, derive

ROWS = 101


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """The options that name a data set of 101 rows, sorted by score as published data often are."""
    labels, scores = _arrays()
    np.savetxt(tmp_path / "labels.txt", labels, fmt="%d")
    np.savetxt(tmp_path / "scores.txt", scores, fmt="%.17g")
    return ["--labels", str(tmp_path / "labels.txt"), "--scores", str(tmp_path / "scores.txt")]


def _arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    return rng.integers(0, 2, ROWS), np.sort(rng.random(ROWS))[::-1]


def test_the_auc_is_that_of_the_whole(fheval: Session, pair: list[str]) -> None:
    options = ["--parties", "15", "--precision", "exact", "--decision-points", "50", "--json", "-"]
    results = [fheval("simulate", *pair, *options, *seed).json() for seed in ([], ["--seed", "1"], ["--seed", "2"])]
    assert {result["parties"] for result in results} == {15}
    assert {result["auc"] for result in results} == {Counts.from_scores(*_arrays(), 50).auc()}


def test_people_see_the_same_panel_as_from_evaluate(fheval: Session, pair: list[str]) -> None:
    done = fheval("simulate", *pair, "--parties", "4")
    assert (done.status, done.err) == (0, "")
    assert "parties          4" in done.out


def test_a_seed_repeats_the_split(fheval: Session, pair: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[list[int]] = []

    def positives(*arguments: str) -> list[int]:
        def note(request: object, shares: list[tuple[np.ndarray, np.ndarray]], *_: object, **__: object) -> object:
            sizes.append([int(labels.sum()) for labels, _ in shares])
            raise KeyboardInterrupt

        monkeypatch.setattr("fheval.cli.simulate.run_and_deliver", note)
        assert fheval("simulate", *pair, "--parties", "9", *arguments).status == 130
        return sizes[-1]

    assert positives("--seed", "7") == positives("--seed", "7")
    assert positives("--seed", "7") != positives("--seed", "8")
    assert positives() != positives()


def test_a_seed_of_more_than_256_bits_is_refused(fheval: Session, pair: list[str]) -> None:
    done = fheval("simulate", *pair, "--parties", "3", "--seed", str(1 << 256))
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("--seed has 257 bits")


@pytest.mark.parametrize(("rows", "parties"), [(100, 15), (15, 15), (7, 1)])
def test_every_row_goes_to_one_party_and_sizes_differ_by_one_at_most(rows: int, parties: int) -> None:
    shares = split_rows(rows, parties, SystemRandomness())
    assert sorted(np.concatenate(shares).tolist()) == list(range(rows))
    assert len(shares) == parties
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_split_does_not_follow_the_order_of_the_rows() -> None:
    """Were it in stretches, parties of a sorted file would hold one score range each."""
    first = split_rows(1000, 2, derive(Secret(bytes(32)), "test"))[0]
    # Of 500 drawn from 1,000, the share from the first half is 250 with a deviation of 8.
    assert 200 < int((first < 500).sum()) < 300
