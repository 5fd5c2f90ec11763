"""An aggregator with a clock, with snapshots of a vault, with a member that helps it, and with answers left out.

Vaults run as processes of their own, with default settings; each attack is run again on a vault that was started with
the guard taken out. `make e2e`. In one process, with larger samples, it is done by the tests named beside each attack.
"""

from __future__ import annotations

import math
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from cryptography.exceptions import InvalidTag

from direct.vaults import Vaults, now
from fheval import field as prime_field
from fheval.aggregator.round_in_play import Exchange
from fheval.consortium import bundle as bundles
from fheval.consortium import load_kit
from fheval.consortium.records import domain
from fheval.field import Residues
from fheval.party.context import RoundContext
from fheval.party.data_set import DataSet
from fheval.party.epoch import open_keys
from fheval.party.ledger import Ledger
from fheval.party.messages import REFUSAL, KeySetUp, Reply
from fheval.protocols import PROTOCOLS, padded_verified
from fheval.protocols.base import Seat, Stage
from fheval.protocols.padded import Layout, PaddedCounts
from fheval.protocols.round import PartySecrets, Round, Verdict
from fheval.secrets import SealBroken, SystemRandomness, unseal
from fheval.wire import decode, encode
from fheval_lab.attacks.collusion import reachable_seeds
from fheval_lab.clear import ClearEngine
from vault.requests import another, call_of, changed

pytestmark = pytest.mark.slow

# Of one length, so that messages have one length whoever sends them.
LEADER, MANY, FEW, TRAITOR = NAMES = ("alder", "birch", "cedar", "hazel")
COMMON = 'grid = "even"\ndecision_points = 20\nrounds = 500\nleaders = ["alder"]\n'
RESAMPLED = f"interval = 0.9\nreplicates = 40\n{COMMON}".replace("500", "6")
STUDIES = {
    "rounded": f'protocol = "padded"\n{COMMON}',
    "verified": f'protocol = "padded-verified"\n{COMMON}',
    "resampled": f'protocol = "padded"\n{RESAMPLED}',
    "resampled-verified": f'protocol = "padded-verified"\nmetrics = ["recall", "accuracy"]\n{RESAMPLED}',
}


@pytest.fixture(scope="module")
def vaults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vaults]:
    made = Vaults(tmp_path_factory.mktemp("v"), NAMES, studies=STUDIES)
    made.found({FEW: (np.tile([0, 1], 5), np.linspace(0, 1, 10))}, policy=("--releases-per-lineage", "100000"))
    made.sign("timed", STUDIES["rounded"])
    for name in NAMES:
        made.accept(name, "timed", data=very_many(made.root) if name == MANY else None)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def very_many(folder: Path) -> Path:
    path, count = folder / "many.csv", 1_000_000
    scores = np.random.default_rng(7).random(count)
    pl.DataFrame({"label": np.tile([0, 1], count // 2), "score": scores}).write_csv(path, float_precision=6)
    path.chmod(0o600)
    return path


# Times: tests/vault/test_nothing_shows.py has 200 submits of each


def ks_distance(first: list[float], second: list[float]) -> float:
    """The largest distance between two empirical distribution functions."""
    both = np.array([*first, *second])
    below = [np.searchsorted(np.sort(each), both, "right") / len(each) for each in (first, second)]
    return float(np.abs(below[0] - below[1]).max())


def telling_apart(count: int) -> float:
    """The distance that two samples of so many exceed less than once in ten million times."""
    return math.sqrt(-math.log(1e-7 / 2) / count)


def times_of_submits(vaults: Vaults, count: int) -> float:
    """How far the times from request to reply of a vault with ten rows and of one with very many are apart."""
    asked = vaults.until("timed", Stage.SUBMIT).requests
    call = call_of(asked[MANY])
    found: dict[str, list[float]] = {MANY: [], FEW: []}
    # The first few open the keys, and warm caches up.
    for number in range(-3, count):
        fresh = another(call)
        for name in random.sample(sorted(found), 2):
            request = changed(asked[name], call=fresh)
            started = time.perf_counter()
            reply = vaults.handle(name, request)
            took = time.perf_counter() - started
            assert reply != REFUSAL
            if number >= 0:
                found[name].append(took)
    return ks_distance(found[MANY], found[FEW])


def test_the_time_of_a_submit_does_not_tell_how_many_rows_there_are(vaults: Vaults) -> None:
    assert times_of_submits(vaults, 60) < telling_apart(60)


def test_it_would_if_rows_were_counted_when_somebody_asks(vaults: Vaults) -> None:
    for name in (MANY, FEW):
        vaults.restart(name, without="prepared")
    distance = times_of_submits(vaults, 30)
    for name in (MANY, FEW):
        vaults.restart(name)
    assert distance > telling_apart(30)


# Snapshots: tests/vault/test_rollback.py

# Counts differ by less than this, and values under different pads do so once in 2^35.
CLOSE = 1 << 10


def differences(vaults: Vaults, folder: Path, without: str | None = None) -> list[tuple[int, Residues]]:
    """Submit, put a vault's state back to before, add a row, and submit again: what has changed, for each prime."""
    asked = vaults.until("rounded", Stage.SUBMIT).requests[FEW]
    state, data = vaults.kit(FEW) / "vault", vaults.root / f"{FEW}.csv"
    assert vaults.programs[f"vault-{FEW}"].stop() == 0
    vaults.accept(FEW, "rounded")
    shutil.copytree(state, folder / "snapshot")
    vaults.restart(FEW, without)
    first = vaults.handle(FEW, asked)
    assert vaults.handle(FEW, asked) == first
    vaults.programs[f"vault-{FEW}"].kill()
    shutil.rmtree(state)
    shutil.copytree(folder / "snapshot", state)
    before = data.read_text()
    data.write_text(before + "1,0.62\n")
    vaults.accept(FEW, "rounded")
    vaults.restart(FEW, without)
    second = vaults.handle(FEW, asked)
    data.write_text(before)
    assert REFUSAL not in (first, second)
    layout = Layout.of(vaults.study("rounded").round(call_of(asked)))
    old, new = (_values(layout, upload_of(each)) for each in (first, second))
    return [
        (prime, prime_field.subtract(after, before_it, prime))
        for prime, after, before_it in zip(layout.primes, new, old, strict=True)
    ]


def upload_of(reply: bytes) -> PaddedCounts:
    return decode(decode(reply, Reply, sender="vault").body, PaddedCounts, sender="vault")


def _values(layout: Layout, upload: PaddedCounts) -> list[Residues]:
    reader = layout.upload_sum()
    reader.add(upload.values, upload.sender)
    return reader.totals(layout.primes)


def close(found: list[tuple[int, Residues]]) -> float:
    """The share of differences that are as small as those of counts."""
    return float(np.mean(np.concatenate([np.minimum(values, prime - values) < CLOSE for prime, values in found])))


def test_a_vault_put_back_to_a_snapshot_shows_nothing_of_the_row_between(vaults: Vaults, tmp_path: Path) -> None:
    assert close(differences(vaults, tmp_path)) == 0


def test_without_the_nonce_it_shows_the_row(vaults: Vaults, tmp_path: Path) -> None:
    found = differences(vaults, tmp_path, without="nonce")
    vaults.restart(FEW)
    assert close(found) == 1
    # One bin of one class has one more.
    prime, values = found[0]
    assert sorted(np.minimum(values, prime - values).tolist())[-2:] == [0, 1]


# A member that helps: tests/adversary/test_collusion.py


@dataclass
class Recorder:
    """Carries requests, and keeps every reply."""

    vaults: Vaults
    replies: dict[tuple[Stage, str], bytes] = field(default_factory=dict)

    def __call__(self, asked: Exchange) -> dict[str, bytes]:
        found = self.vaults.carry(asked)
        self.replies |= {(asked.stage, name): reply for name, reply in found.items()}
        return found

    def body(self, stage: Stage, name: str) -> bytes:
        return bytes(decode(self.replies[stage, name], Reply, sender=name).body)


@dataclass(frozen=True)
class Haul:
    """What is on a member's disk, opened with its own keys: the round, its secrets, and what opens its bundles."""

    round: Round
    secrets: PartySecrets
    identity: Any


def taken_from_disk(vaults: Vaults, name: str, folder: Path) -> Haul:
    """A copy of a member's kit and state, read as the member itself would read it."""
    assert vaults.programs[f"vault-{name}"].stop() == 0
    shutil.copytree(vaults.kit(name), folder / name)
    vaults.restart(name)
    kit = load_kit(folder / name, now=now())
    with Ledger.read(next((folder / name).rglob("ledger.sqlite"))) as ledger:
        last = ledger.history()[-1].round
        record = ledger.round(last.id)
        assert record is not None
        sealed = ledger.epoch_bytes(record.epoch.id)
    assert sealed is not None
    context = RoundContext.of(last, record.epoch, kit.policy.roster(last.parties))
    opened = open_keys(kit.identity, context, kit.policy.hash(), sealed, (), now=now())
    return Haul(last, opened.secrets, kit.identity)


def recognised(vaults: Vaults, study: str, haul: Haul, recorded: Recorder) -> list[str]:
    """The members whose data, guessed right, the haul confirms: it makes their uploads once more."""
    round_, found = haul.round, []
    for victim in NAMES[:3]:
        upload = decode(recorded.body(Stage.SUBMIT, victim), PaddedCounts, sender=victim)
        guess = DataSet(vaults.root / f"{victim}.csv").count(vaults.study(study), SystemRandomness()).contribution
        for seed in reachable_seeds(haul.secrets, victim):
            secrets = PartySecrets(seed=haul.secrets.seed, pad_seed=seed)
            seat = Seat(
                engine=ClearEngine(),
                round=round_,
                me=victim,
                secrets=secrets,
                rng=SystemRandomness(),
                contribution=guess,
            )
            again = PROTOCOLS[round_.protocol].submit(seat, upload.nonce)
            if encode(again) == encode(upload):
                found.append(victim)
    return found


def opened_boxes(haul: Haul, recorded: Recorder) -> int:
    """How many sealed things that passed the haul opens, beside the member's own bundle: others' bundles, the box."""
    made = decode(recorded.body(Stage.SETUP, LEADER), KeySetUp, sender=LEADER)
    opened = 0
    for recipient in NAMES:
        sealed = decode(made.bundles[recipient], bundles.SealedBundle, sender=LEADER)
        try:
            haul.identity.opening_key.open(sealed.sealed, domain(bundles._SEALED) + encode(sealed.header))
            opened += recipient != haul.identity.name
        except InvalidTag:
            assert recipient != haul.identity.name
    for seed in reachable_seeds(haul.secrets, LEADER):
        try:
            unseal(seed, "epoch", haul.round.id, box=bytes(made.box))
            opened += 1
        except SealBroken:
            pass
    return opened


@pytest.mark.parametrize("study", ["rounded", "verified"])
def test_a_members_disk_and_all_that_passed_tell_nothing_of_others(vaults: Vaults, tmp_path: Path, study: str) -> None:
    recorded = Recorder(vaults)
    assert vaults.conduct(study, recorded).confirmed == NAMES
    haul = taken_from_disk(vaults, TRAITOR, tmp_path)
    assert (haul.secrets.keys, haul.secrets.master) == ((), None)
    assert recognised(vaults, study, haul, recorded) == []
    assert opened_boxes(haul, recorded) == 0


def test_they_would_if_a_leader_gave_all_its_secrets_to_all(vaults: Vaults, tmp_path: Path) -> None:
    recorded = Recorder(vaults)
    vaults.restart(LEADER, without="own_secrets")
    assert vaults.conduct("rounded", recorded).confirmed == NAMES
    vaults.restart(LEADER)
    haul = taken_from_disk(vaults, TRAITOR, tmp_path)
    assert recognised(vaults, "rounded", haul, recorded) == list(NAMES[:3])


# What members are told: tests/adversary/test_released_pair.py


def verdict_on_disk(vaults: Vaults, name: str) -> Verdict:
    with Ledger.read(vaults.kit(name) / "vault" / "ledger.sqlite") as ledger:
        verdict = ledger.history()[-1].verdict
    assert verdict is not None
    return verdict


@pytest.mark.parametrize("study", ["rounded", "resampled"])
def test_members_hold_decimals_and_no_resamples(vaults: Vaults, study: str) -> None:
    vaults.conduct(study, vaults.carry)
    for name in NAMES[1:]:
        told = verdict_on_disk(vaults, name)
        assert len(told.ratios) == (2 if study == "rounded" else 0)
        assert all(isinstance(ratio, Fraction) and 10**9 % ratio.denominator == 0 for ratio in told.ratios)


def test_without_it_every_member_holds_the_blinded_pairs(vaults: Vaults) -> None:
    vaults.restart(LEADER, without="decimals")
    vaults.conduct("resampled", vaults.carry)
    vaults.restart(LEADER)
    told = verdict_on_disk(vaults, FEW)
    # The AUC, forty resamples of it, and its binning error.
    assert len(told.ratios) == 42
    assert min(ratio.denominator for ratio in told.ratios if isinstance(ratio, Fraction)) > 1 << 60


# Answers that are left out: tests/adversary/test_withheld.py


class Zeroing(padded_verified.Aggregator):
    """Leaves out all resamples of the first number but one, and the second number."""

    def draw_blinding(self) -> Any:
        honest = super().draw_blinding()
        for weights, _ in honest:
            weights[2 * 1 : 2 * 40] = 0
            weights[2 * 41 : 2 * 42] = 0
        return honest


@pytest.mark.parametrize("without", [None, "withheld"])
def test_what_is_left_out_is_neither_verified_nor_an_interval(
    vaults: Vaults, monkeypatch: pytest.MonkeyPatch, without: str | None
) -> None:
    if without:
        vaults.restart(LEADER, without)
    monkeypatch.setattr(PROTOCOLS["padded-verified"], "aggregator", Zeroing)
    vaults.conduct("resampled-verified", vaults.carry)
    if without:
        vaults.restart(LEADER)
    told = vaults.rounds(FEW)[-1]
    recall, accuracy = told["results"]
    assert recall["value"] is not None
    assert accuracy["value"] is None
    if without is None:
        assert (recall["low"], told["verified"]) == (None, False)
        assert "withheld or undefined, not verified" in accuracy["error"]
    else:
        assert recall["low"] == recall["high"]
        assert told["verified"] is True
