"""A vault whose ledger was rolled back answers a round again over other data: the difference says nothing."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from fheval import field
from fheval.counting import Counts, Grid
from fheval.field import Residues
from fheval.metrics.registry import auc_contribution
from fheval.party.messages import REFUSAL, Reply
from fheval.protocols import base, padded, padding
from fheval.protocols.base import Stage
from fheval.protocols.padded import Layout, PaddedCounts
from fheval.protocols.round import PartySecrets, Round
from fheval.secrets import Secret
from fheval.wire import decode
from vault.requests import a_party, played_until
from vault.trial import POINTS, Trial

# Counts differ by less than this, and values under different pads do so once in 2^35.
CLOSE = 1 << 10


def differences(trial: Trial, row: str) -> tuple[Round, list[tuple[int, Residues]]]:
    """Submit, take the ledger and its companions back to before, add a row, and submit again: y' − y for each prime."""
    _, round_, asked = played_until(trial, Stage.SUBMIT)
    name = a_party(round_)
    place = trial.ledger_path(name).parent
    trial.stop(name)
    shutil.copytree(place, trial.folder / "snapshot")
    trial.start(name)
    first = trial.vaults[name].handle(asked[name])
    assert trial.vaults[name].handle(asked[name]) == first
    trial.stop(name)
    shutil.rmtree(place)
    shutil.copytree(trial.folder / "snapshot", place)
    with trial.data(name).open("a") as file:
        file.write(row)
    trial.start(name)
    trial.prepare(name)
    second = trial.vaults[name].handle(asked[name])
    assert REFUSAL not in (first, second)
    sent = [decode(decode(data, Reply, sender=name).body, PaddedCounts, sender=name) for data in (first, second)]
    layout = Layout.of(round_)
    before, after = (values_of(layout, upload) for upload in sent)
    return round_, [
        (prime, field.subtract(new, old, prime)) for prime, old, new in zip(layout.primes, before, after, strict=True)
    ]


def values_of(layout: Layout, upload: PaddedCounts) -> list[Residues]:
    """What an upload holds for each prime."""
    reader = layout.upload_sum()
    reader.add(upload.values, upload.sender)
    return reader.totals(layout.primes)


def close(found: list[tuple[int, Residues]]) -> int:
    """How many differences are as small as those of counts."""
    return sum(int(np.count_nonzero(np.minimum(values, prime - values) < CLOSE)) for prime, values in found)


def test_two_uploads_of_one_round_show_nothing_of_the_row_between_them(trial: Trial) -> None:
    _, found = differences(trial, "1,0.62\n")
    assert close(found) == 0


def rows_that_explain(round_: Round, found: list[tuple[int, Residues]]) -> list[tuple[int, float]]:
    """Labels and scores of single rows, one for each bin, whose upload without a pad is this difference."""
    fitting = []
    for label in (0, 1):
        for score in (np.arange(POINTS) + 0.5) / POINTS:
            row = auc_contribution(Counts.from_scores(np.array([label]), np.array([score]), Grid.even(POINTS)))
            upload = padded.party_submit(round_, SECRETS, "anyone", row, b"")
            if all(map(np.array_equal, values_of(Layout.of(round_), upload), (values for _, values in found))):
                fitting.append((label, float(score)))
    return fitting


SECRETS = PartySecrets(seed=Secret(bytes(32)), pad_seed=Secret(bytes(32)))


@pytest.mark.parametrize(("label", "score"), [(1, 0.62), (0, 0.17)])
def test_without_the_nonce_they_show_its_label_and_its_bin(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, label: int, score: float
) -> None:
    monkeypatch.setattr(base, "NONCE_BYTES", 0)
    round_, found = differences(trial, f"{label},{score}\n")
    assert close(found) == sum(len(values) for _, values in found)
    monkeypatch.setattr(padding, "pad", lambda *arguments: np.zeros(arguments[5] // 32 * arguments[3], dtype=np.uint32))
    ((label_found, score_found),) = rows_that_explain(round_, found)
    assert label_found == label
    assert abs(score_found - score) <= 1 / POINTS
