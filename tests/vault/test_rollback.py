"""A vault whose ledger was rolled back answers a round again over other data: the difference says nothing."""

from __future__ import annotations

import shutil

import msgspec
import numpy as np
import pytest

from fheval import field
from fheval.counting import Counts, Grid
from fheval.errors import ConfigError
from fheval.field import Residues
from fheval.metrics.registry import auc_contribution
from fheval.party.messages import REFUSAL, Relay, Reply
from fheval.protocols import base, padded, padding
from fheval.protocols.base import Stage
from fheval.protocols.committee import lay_out
from fheval.protocols.committee_member import read_residues
from fheval.protocols.committee_messages import CommitteeCounts, Crossing, RosterNotice, Told
from fheval.protocols.padded import Layout, PaddedCounts
from fheval.protocols.round import NONCE_BYTES, PartySecrets, Round
from fheval.secrets import Secret
from fheval.wire import decode, encode
from vault.requests import a_party, changed, opened, played_until
from vault.trial import NAMES, POINTS, Trial

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


# A member of a committee


def asked_twice(trial: Trial, set_back: bool) -> tuple[Round, bytes, list[list[Told]]]:
    """Ask all members for their pads, and again without the last party; between, their directories may be set back.

    Gives the upload of that party, and what each member told, as often as it answered.
    """
    wire, round_, asked = played_until(trial, Stage.PADS, "committee", leaders=NAMES[:3])
    told = []
    for name in NAMES[:3]:
        place, snapshot = trial.ledger_path(name).parent, trial.folder / f"snapshot-{name}"
        trial.stop(name)
        shutil.copytree(place, snapshot)
        trial.start(name)
        last, shorter = without_last(asked[name])
        replies = [trial.vaults[name].handle(asked[name])]
        if set_back:
            trial.stop(name)
            shutil.rmtree(place)
            shutil.copytree(snapshot, place)
            trial.start(name)
        replies.append(trial.vaults[name].handle(shorter))
        bodies = [bytes(decode(each, Reply, sender=name).body) for each in replies if each != REFUSAL]
        told.append([decode(body, Crossing, sender=name).told for body in bodies])
    (upload,) = (reply for stage, party, reply in wire.replies if (stage, party) == (Stage.SUBMIT, last))
    return round_, bytes(decode(upload, Reply, sender=last).body), told


def without_last(data: bytes) -> tuple[str, bytes]:
    """The same request without the last party, whose upload is signed like all others."""
    relay = opened(data, Relay)
    notice = decode(bytes(relay.body), RosterNotice, sender="")
    *roster, last = notice.roster
    shorter = msgspec.structs.replace(
        notice,
        roster=tuple(roster),
        nonces=bytes(notice.nonces[:-NONCE_BYTES]),
        uploads=bytes(notice.uploads[:-32]),
    )
    proofs = tuple(each for each in relay.proofs if each.party != last)
    return last, changed(data, body=encode(shorter), proofs=proofs)


def test_a_member_tells_its_pads_for_one_roster_only(trial: Trial) -> None:
    _, _, told = asked_twice(trial, set_back=False)
    assert [len(each) for each in told] == [1, 1, 1]


def test_members_that_answered_twice_would_give_a_party_away(trial: Trial) -> None:
    """What the ledger is for. Set back as a whole, which nothing in it can tell, a member tells −R − ρ for two rosters.

    The difference is its pad for the party that is missing from one of them. With those of all members, which those who
    work together with the aggregator know of themselves, the counts of that party are there to read.
    """
    round_, body, told = asked_twice(trial, set_back=True)
    assert [len(each) for each in told] == [2, 2, 2]
    layout = lay_out(round_)
    prime, size = layout.primes[0], layout.batch.size
    upload = decode(body, CommitteeCounts, sender="")
    counts = read_residues(upload.values[0], size, prime, "")
    for before, after in told:
        larger, smaller = (read_residues(each.left[0], size, prime, "") for each in (before, after))
        counts = field.subtract(counts, field.subtract(smaller, larger, prime), prime)
    assert counts.max() < CLOSE


def test_a_member_whose_ledger_alone_was_set_back_does_not_start(trial: Trial) -> None:
    """Between its offer and its pads: it would tell −R − ρ for another roster with the same ρ."""
    _, _, asked = played_until(trial, Stage.PADS, "committee", leaders=NAMES[:3])
    name = NAMES[0]
    ledger = trial.ledger_path(name)
    trial.stop(name)
    shutil.copytree(ledger.parent, trial.folder / "snapshot")
    trial.start(name)
    assert trial.vaults[name].handle(asked[name]) != REFUSAL
    trial.stop(name)
    for part in (trial.folder / "snapshot").glob(f"{ledger.name}*"):
        shutil.copy(part, ledger.parent / part.name)
    for part in ledger.parent.glob(f"{ledger.name}-*"):
        if not (trial.folder / "snapshot" / part.name).exists():
            part.unlink()
    with pytest.raises(ConfigError, match="not the newest ledger"):
        trial.start(name)
