"""Every example of `--help` and of the pages that needs a consortium, run as it is written, at the host it is for.

docs/deploy.md is followed up to its first round; what comes then is below, in an order in which each finds what it
needs. A fingerprint or a round's id stands for the real one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from adversary.test_examples import LAB
from cli.test_examples import COMMANDS, RUN
from hosts.follow import MEMBERS, Follower, empty_site, followed
from hosts.site import Host, Running

# These are measured in minutes, and by targets of their own.
NOT_HERE = {
    "fheval reproduce all --data data --out out": "half an hour, and the paper's data: make numbers",
    "fheval reproduce table2 --data data --out out --engine seal": "minutes, and the paper's data: make numbers",
    "fheval bench": "minutes: make bench; tests/architecture/test_twin.py runs a small one",
    "fheval bench --engine seal --repeats 9 --json -": "minutes: make bench",
}

_SPOKEN = re.compile(r"12ab-34cd-…|1f2e-3d4c(?:-[0-9a-f]{4}){6}")
_FINGERPRINT = re.compile(r"(?:[0-9a-f]{4}-){7}[0-9a-f]{4}")

TWO_MODELS = """\
name = "two-models"
metrics = ["auc"]
models = ["old", "new"]
interval = 0.95
by_cluster = true
precision = 1e-2
reveals = "counts"
rounds = 2
"""


@dataclass
class Desk:
    """One host at which examples are run, with what its operator has heard."""

    host: Host
    fingerprint: str = ""

    def _real(self, line: str) -> str:
        assert _FINGERPRINT.fullmatch(self.fingerprint) or not _SPOKEN.search(line)
        return _SPOKEN.sub(self.fingerprint, line)

    def run(self, line: str, *, typed: str = "", **instead: str) -> str:
        """Run an example to its end; `instead` has what stands in the place of a path that this machine lacks."""
        return self.host.run(self._with(line, instead), typed)

    def start(self, line: str, until: str, **instead: str) -> Running:
        """Start an example that goes on, and wait for its word that it is ready."""
        started = self.host.start(self._with(line, instead))
        started.wait_for(until)
        return started

    def _with(self, line: str, instead: dict[str, str]) -> str:
        for name, value in instead.items():
            line = line.replace(_PLACES[name], value)
        return self._real(line)

    def file(self, name: str) -> Path:
        return self.host.folder / name


_PLACES = {"round_id": "ce2490f9", "disk": "/srv/new/vault", "socket": "/run/fheval/vault.sock"}


def stopped(running: Running) -> None:
    running.stop()
    assert running.process.returncode == 0, running.text()[-2000:]


def after_a_round(hub: Desk, member: Desk, others: list[Host]) -> Iterator[str]:
    """What operators do once a round is over, in a consortium that runs. Each example is yielded once it has run."""
    hub.file("hub").symlink_to("hub-kit")
    yield (line := "fheval aggregator evaluate --study sepsis-2026 --kit ./hub --state ./state --json -")
    told = json.loads(hub.run(line))
    yield (line := "fheval aggregator status --state ./state --json -")
    assert json.loads(hub.run(line))["last"]["round"] == told["round"]
    yield (line := "fheval vault rounds --kit ./kit --json -")
    (found,) = json.loads(member.run(line))["rounds"]
    assert (found["round"], found["state"]) == (told["round"], "released")
    for line in ("fheval vault rounds --kit ./kit", "fheval vault status --kit ./kit"):
        yield line
        assert "sepsis" in member.run(line) or "released" in member.run(line)
    yield (line := "fheval vault report --kit ./kit ce2490f9 out.html")
    member.run(line, round_id=told["round"][:8])
    assert "<h1>" in member.file("out.html").read_text(encoding="utf-8")
    yield (line := "fheval vault receipt --kit ./kit last receipt.json")
    member.run(line)
    for name, host in zip(("alder", "birch", "cedar"), others, strict=True):
        host.run(line)
        member.file(f"{name}.json").write_bytes((host.folder / "receipt.json").read_bytes())
    yield (line := "fheval verify receipt.json --authority 1f2e-3d4c-5b6a-7988-1f2e-3d4c-5b6a-7988")
    assert "Not checked" in member.run(line)
    yield (line := "fheval verify alder.json birch.json cedar.json --kit ./kit")
    assert "Everyone who opened the answer" in member.run(line)


def a_member_alone(member: Desk, two_models: bytes) -> Iterator[str]:
    """What a member's operator does beside rounds; its vault is started and stopped on the way."""
    stopped(member.host.running[-1])
    yield (line := "fheval vault --kit ./kit")
    stopped(member.start(line, "listens on"))
    yield (line := "fheval vault up --kit ./kit")
    vault = member.start(line, "listens on")
    yield (line := "fheval party up --kit ./kit/transport --vault /run/fheval/vault.sock --hub hub.example.org:9092")
    stopped(member.start(line, "Connected to", socket="./kit/vault/vault.sock"))
    stopped(vault)
    yield (line := "fheval consortium update ./kit consortium.fhev")
    member.run(line)
    yield (line := "fheval vault up member.toml --connect")
    stopped(member.start(line, "Connected to"))
    yield (line := "fheval vault reset-budget --kit ./kit --lineage sepsis-icu --reason 'only patients of 2027 now'")
    member.run(line)
    yield (line := "fheval vault withdraw --kit ./kit sepsis-2026")
    member.run(line)
    pl.read_csv(member.file("scores.csv")).write_parquet(member.file("scores.parquet"))
    member.file("sepsis-2026.fhev").write_bytes(member.file("kit/studies/sepsis-2026.fhev").read_bytes())
    yield (line := "fheval vault accept --kit ./kit sepsis-2026.fhev --data scores.parquet --lineage sepsis-icu")
    member.run(line, typed="y\n")
    member.file("two-models.fhev").write_bytes(two_models)
    write_two_models(member.file("scores.csv"))
    yield (
        line := "fheval vault accept --kit ./kit two-models.fhev --data scores.csv --label-column died "
        "--score-column old=risk_2019 --score-column new=risk --cluster-column patient_id --lineage icu --yes"
    )
    member.run(line)
    assert "two-models, ready" in " ".join(member.run("fheval vault status --kit ./kit").split())
    disk = member.file("new")
    disk.mkdir(mode=0o700)
    member.file("kit/vault").rename(disk / "vault")
    yield (line := "fheval vault moved --kit ./kit --state /srv/new/vault --reason 'new disk'")
    member.run(line, disk=str(disk / "vault"))
    yield (line := "fheval vault moved --kit ./kit --state ./vault --new-ledger --reason 'disk broke, no backup'")
    member.run(line)


def the_hub_alone(hub: Desk) -> Iterator[str]:
    stopped(hub.host.running[-1])
    yield (line := "fheval aggregator up --kit ./hub --host 0.0.0.0 --port 9092 --state ./state")
    stopped(hub.start(line, "Ready for 3 members"))
    yield (
        line := "fheval aggregator up --kit ./hub --state ./state --consortium consortium.fhev --authority 12ab-34cd-…"
    )
    stopped(hub.start(line, "Ready for 3 members"))


def an_authority(desk: Desk, study: bytes) -> Iterator[str]:
    """A consortium whose kits are made one by one, from an empty folder."""
    yield (line := "fheval consortium init ./authority --name 'Sepsis study'")
    of_authority = _spoken(desk.run(line))
    yield (line := "fheval consortium enroll ./authority hospital-a")
    desk.run(line)
    for letter in "cdef":
        desk.run(f"fheval consortium enroll ./authority hospital-{letter}")
    yield (line := "fheval consortium request ./kit hospital-b --out hospital-b.fhev")
    of_request = _spoken(desk.run(line))
    desk.run("cp hospital-b.fhev request.fhev")
    yield (line := "fheval consortium show request.fhev")
    assert of_request in desk.run(line)
    desk.fingerprint = of_request
    yield (
        line := "fheval consortium enroll ./authority hospital-b --request request.fhev --fingerprint 12ab-34cd-… "
        "--out reply.fhev"
    )
    desk.run(line)
    yield (line := "fheval consortium enroll ./authority hub --aggregator hub.example.org --aggregator 192.0.2.7")
    desk.run(line)
    yield (line := "fheval consortium policy ./authority --minimum-cohort 5")
    desk.run(line)
    desk.run("cp ./authority/policy.fhev .")
    desk.fingerprint = of_authority
    yield (line := "fheval consortium accept ./kit reply.fhev --authority 12ab-34cd-…")
    desk.run(line)
    yield (line := "fheval consortium update ./kit policy.fhev")
    desk.run(line)
    # The policy asks for five members by now.
    desk.file("sepsis-2026.toml").write_bytes(study + b"minimum_cohort = 5\n")
    yield (line := "fheval consortium study ./authority sepsis-2026.toml")
    desk.run(line)
    desk.run("cp ./authority/studies/sepsis-2026.fhev . && ln -s ./authority/kits/hub ./hub")
    yield (line := "fheval consortium update ./hub sepsis-2026.fhev")
    desk.run(line)
    yield (line := "fheval consortium policy ./authority --remove hospital-c")
    desk.run(line)
    yield (line := "fheval consortium list ./authority --json -")
    assert json.loads(desk.run(line))["policy"]["members"] == [f"hospital-{letter}" for letter in "abdef"]


def one_bulletin(desk: Desk, requests: Follower) -> Iterator[str]:
    """The same by requests and one file for everybody."""
    yield (line := "fheval consortium request ./hub hub --aggregator hub.example.org:9092 --out hub.fhev")
    desk.fingerprint = _spoken(desk.run(line))
    for name in MEMBERS:
        requests.site.send(f"{name}.fhev", name, "authority")
    yield (
        line := "fheval consortium publish ./authority hub.fhev hospital-a.fhev hospital-b.fhev hospital-c.fhev "
        "--heard hub=12ab-34cd-… --study sepsis-2026.toml --out consortium.fhev"
    )
    desk.run(line, typed="".join(f"{requests.heard[name]}\n" for name in MEMBERS))


def _spoken(output: str) -> str:
    found = _FINGERPRINT.search(output)
    assert found is not None, output
    return found[0]


def write_two_models(path: Path) -> None:
    """A member's file with the columns that the example names."""
    rng = np.random.default_rng(3)
    died = rng.integers(0, 2, 400)
    columns = {
        "died": died,
        "risk_2019": np.clip(rng.normal(0.4 + 0.1 * died, 0.2), 0, 1),
        "risk": np.clip(rng.normal(0.35 + 0.3 * died, 0.2), 0, 1),
        "patient_id": rng.integers(0, 150, 400),
    }
    pl.DataFrame(columns).write_csv(path)


def examples(scene: Callable[..., Iterator[str]]) -> list[str]:
    """The examples that a scene runs, as they stand in its source."""
    names = scene.__code__.co_consts
    return [text for text in _texts(names) if text.startswith("fheval ")]


def _texts(constants: tuple[object, ...]) -> Iterator[str]:
    for each in constants:
        if isinstance(each, str):
            yield each
        elif isinstance(each, tuple):
            yield from _texts(each)


SCENES = (after_a_round, a_member_alone, the_hub_alone, an_authority, one_bulletin)


def test_every_example_is_run_somewhere_or_says_why_not() -> None:
    here = {line for scene in SCENES for line in examples(scene)} | set(LAB)
    wanted = {line for place, line in COMMANDS if not RUN.match(line) and place != "docs/deploy.md"}
    assert wanted - here == set(NOT_HERE)


@pytest.mark.slow
def test_they_run_as_they_are_written(tmp_path: Path) -> None:
    with empty_site(tmp_path) as site:
        follower = followed(site, whole=False)
        hub, member, authority = (
            Desk(site[name], follower.heard["authority"]) for name in ("hub", "hospital-a", "authority")
        )
        authority.file("two-models.toml").write_text(TWO_MODELS)
        authority.run("fheval consortium study ./authority two-models.toml --out two-models.fhev")
        study = authority.file("sepsis-2026.toml").read_bytes()
        ran = [
            *after_a_round(hub, member, [site[name] for name in MEMBERS]),
            *the_hub_alone(hub),
        ]
        hub.start("fheval aggregator up --kit ./hub --host 0.0.0.0 --state ./state", "Ready for 3 members")
        ran += a_member_alone(member, authority.file("two-models.fhev").read_bytes())
        desk = Desk(site["hospital-d"])
        ran += [*an_authority(desk, study), *one_bulletin(authority, follower)]
    assert set(ran) <= {line for _, line in COMMANDS}
