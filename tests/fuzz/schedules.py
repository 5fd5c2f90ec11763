"""Random scripts of what happens to a consortium, checked against a model: `make schedules`.

    python -m fuzz.schedules --scripts 300 --seed 1          # scripts of the seeds 1, 2, 3, …
    python -m fuzz.schedules --replay 1234 --verbose         # one of them again, step by step
    python -m fuzz.schedules --faults 0.03 --scripts 1000    # nothing but lost and repeated messages, at this rate

A script is a list of operations that its seed gives: evaluations over a network that loses requests and replies,
repeats and delays them; members that vanish, come back, restart or change their data, disks that are full for a while,
clocks that jump, a hub that is started anew in the middle of a round. In the end everything is healed, and what is owed
is delivered. What must hold:

- nothing raises but errors of ours, and nothing takes above ten seconds;
- a round ends in a result that is the pooled truth over its roster within the study's precision, or in none;
- all who hold an outcome of a round hold the same;
- releases are counted exactly: one for each upload that left, none for a round that is void;
- an evaluation that gave a result has cost nobody in its roster more than one release, once all are back;
- whoever has spent a release has an outcome for it, unless the round went on without its upload, or somebody who could
  open it had already helped to when the hub stopped or that member vanished;
- whoever is in the roster of a round that somebody has an outcome of has it as well, unless that one had only just
  opened it when it vanished or the hub stopped; and nothing is owed any more.
"""

from __future__ import annotations

import argparse
import errno
import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache, reduce
from itertools import product
from operator import add
from pathlib import Path
from random import Random

from fheval.aggregator import owed as owed_module
from fheval.aggregator.conductor import Report, drive
from fheval.aggregator.orders import deliver
from fheval.aggregator.owed import OwedFile
from fheval.aggregator.round_in_play import EpochKeys, Exchange
from fheval.consortium import Kit, Policy, load_kit
from fheval.consortium.authority import create_authority
from fheval.consortium.files import replace_private
from fheval.counting import Counts, Grid, count_file
from fheval.engines import Engine, load_engine
from fheval.errors import FhevalError
from fheval.party.accepted import AcceptedStudies
from fheval.party.core import VaultCore
from fheval.party.ledger import Ledger
from fheval.party.messages import REFUSAL
from fheval.protocols import PROTOCOLS
from fheval.protocols.base import Stage
from fheval.protocols.round import Ending, Verdict, verdict_from_bytes
from fheval.study import Study
from fheval_lab.clear import ClearEngine
from keys_consortium import NOW, Consortium
from vault.trial import RULES, Clock, Trial, write_scores

MEMBERS = tuple(f"member-{number:02}" for number in range(12))
POINTS = (8, 24, 40, 100)
ROWS = (20, 60)
# Of the processor; of the clock so many more as others want the machine.
HANG_SECONDS = float(os.environ.get("HANG_SECONDS", "10"))
# As often as `direct` asks within a deadline in which a member is cut off for a moment now and then, and, for an answer
# without which all was in vain, five times as often.
TRIES, NEEDED = 6, 5
KEY_LIFETIME = timedelta(days=1)
# Of an exact release; `paper-malicious` compares to five decimals.
TOLERANCE = 2e-5


@dataclass(frozen=True)
class Drawn:
    """Randomness that a script's seed gives: which member leads, and what rounds are called."""

    source: Random

    def draw(self, count: int) -> bytes:
        return self.source.randbytes(count)


class Broken(AssertionError):  # noqa: N818 (a promise, not this program, is broken)
    """What must hold does not."""


@lru_cache(maxsize=64)
def _kit(path: Path) -> Kit:
    """Kits do not change here, and reading one takes longer than a stage of a round."""
    return load_kit(path, now=NOW)


@dataclass
class Member:
    """What the model knows of one member."""

    clock: Clock
    rows: int = 0
    seed: int = 0
    away: int = 0
    full: int = 0
    uploads: dict[str, int] = field(default_factory=dict)
    void: set[str] = field(default_factory=set)


@dataclass
class HubDisk:
    """The disk of the hub, whose next writes may fail for want of room; something may be in memory only then."""

    full: int = 0
    in_memory_only: bool = False

    def replace(self, path: Path, content: bytes) -> None:
        self.in_memory_only = self.full > 0
        if self.full:
            self.full -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace_private(path, content)


HUB_DISK = HubDisk()


class World(Trial):
    """A consortium whose members have clocks of their own, and a hub that may forget what is not on disk."""

    def __init__(self, folder: Path, consortium: Consortium, engine: Engine, names: Sequence[str]) -> None:
        super().__init__(folder, consortium, engine)
        self.members = {name: Member(Clock()) for name in names}
        self.counted: dict[tuple[str, int], Counts] = {}
        self.keys: EpochKeys | None = None
        HUB_DISK.full, HUB_DISK.in_memory_only = 0, False
        self.start_hub()
        self.rosters: set[tuple[str, ...]] = set()

    def start_hub(self) -> None:
        """A hub that knows what is on disk, and nothing else."""
        self.keys, self.owed = None, OwedFile(self.folder / "owed")

    def make_room(self, name: str, *, room: bool = True) -> None:
        """Let a member's disk have room, or none beyond what it has."""
        if name in self.vaults:
            self.ledgers[name]._file.execute(f"PRAGMA max_page_count = {1073741823 if room else 1}")

    def start(self, *names: str) -> None:
        for name in names or tuple(self.members):
            self.stop(name)
            self.members[name].full = 0
            clock = self.members[name].clock
            kit = _kit(self.consortium.path(name))
            self.ledgers[name] = Ledger.open(self.ledger_path(name))
            self.studies[name] = AcceptedStudies.open(self.studies_path(name))
            engines = {self.engine.name: self.engine}
            self.vaults[name] = VaultCore(kit, self.ledgers[name], self.studies[name], engines, clock=clock)

    @property
    def policy(self) -> Policy:
        return _kit(self.consortium.path(next(iter(self.members)))).policy

    def accept(self, study: Study, *names: str) -> None:
        """Scripts ask for one study, which all accept at the beginning."""
        if self.vaults and any(self.studies[name].ready(study.hash()) is None for name in names or tuple(self.vaults)):
            super().accept(study, *names)

    def write(self, name: str, rows: int, seed: int, study: Study) -> bool:
        """Give a member other data; whether the study admits them."""
        member = self.members[name]
        write_scores(self.data(name), seed, rows)
        # Files are told apart by time and size, and scripts are faster than clocks.
        stamp = time.time_ns() + seed
        os.utime(self.data(name), ns=(stamp, stamp))
        admitted = (study.least_rows_per_party or 0) <= rows <= (study.most_rows_per_party or rows)
        if admitted:
            member.rows, member.seed = rows, seed
            self.counted[name, seed] = count_file(self.data(name), study.grid)
        return admitted


@dataclass
class Script:
    """One script as its seed draws it, while it is played."""

    world: World
    study: Study
    draw: Random
    faults: float
    verbose: bool = False
    only_messages: bool = False
    log: list[str] = field(default_factory=list)
    late: list[tuple[str, bytes]] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def say(self, words: str) -> None:
        self.log.append(words)
        if self.verbose:
            print(words, file=sys.stderr)

    # The network

    def carry(self, asked: Exchange) -> dict[str, bytes]:
        """One exchange, as `direct` carries it: each member is asked until it has answered or the time is up."""
        replies = {}
        for name, data in asked.requests.items():
            for _ in range(TRIES * (NEEDED if asked.needed else 1)):
                self._something_else(name)
                reply = self._one(asked.stage, name, data)
                if reply is not None:
                    replies[name] = reply
                    break
        return replies

    def _one(self, stage: Stage, name: str, data: bytes) -> bytes | None:
        """One request and its reply: each is lost at the rate of faults, and as many come twice, or once more later."""
        if self.late and self.draw.random() < 0.5:
            self.ask(*self.late.pop(self.draw.randrange(len(self.late))))
        member = self.world.members[name]
        if member.away:
            member.away -= 1
            return None
        if self.draw.random() < self.faults:
            self.done["lost request"] += 1
            return None
        reply = self.ask(name, data, stage)
        fault = self.draw.random()
        if fault < self.faults:
            self.done["lost reply"] += 1
            return None
        if fault < 2 * self.faults:
            self.done["repeated or late"] += 1
            self.late.append((name, data))
            again = self.ask(name, data, stage)
            # A vault that had no room may have it by now; what it has answered stays as it is.
            if reply not in (None, REFUSAL) and again != reply:
                raise Broken(f"{name} answered {stage.value} twice, and not the same")
        return reply

    def ask(self, name: str, data: bytes, stage: Stage | None = None) -> bytes | None:
        """Hand a request to a vault, and note in the model what its answer means."""
        if name not in self.world.vaults:
            return None
        member = self.world.members[name]
        if member.full:
            member.full -= 1
            self.world.make_room(name, room=not member.full)
        began, at = time.process_time(), time.monotonic()
        reply = self.world.vaults[name].handle(data)
        taken, wall = time.process_time() - began, time.monotonic() - at
        if taken > HANG_SECONDS or wall > HANG_SECONDS * (1 + os.getloadavg()[0]):
            raise Broken(f"{name} took too long at {stage}: {taken:.0f} s of the processor, {wall:.0f} s")
        self._account(name)
        return reply

    def _account(self, name: str) -> None:
        """Uploads that are new in the ledger are of the data that the member has now."""
        member, ledger = self.world.members[name], self.world.ledgers[name]
        for (round_id,) in ledger._rows("SELECT round FROM uses"):
            member.uploads.setdefault(round_id, member.seed)
        member.void.update(round_id for (round_id,) in ledger._rows("SELECT round FROM voids"))

    def _something_else(self, name: str) -> None:
        """Between two messages a vault may be started anew, or its clock set."""
        if self.only_messages:
            return
        chance = self.draw.random()
        if chance < self.faults / 4 and name in self.world.vaults:
            self.done["restart"] += 1
            self.world.start(name)
        elif chance < self.faults / 2:
            self.done["vanished"] += 1
            self.world.members[name].away = self.draw.choice((1, 3, 8, 40))
        elif chance < self.faults * 0.6:
            self.done["clock"] += 1
            jump = self.draw.choice((-300, -5, 5, 300, 7200))
            self.world.members[name].clock.now += timedelta(seconds=jump)
        elif chance < self.faults * 0.75:
            self.done["full disk"] += 1
            self.world.members[name].full = self.draw.choice((2, 4, 9))

    # Operations

    def play(self) -> None:
        operations = ("evaluate",) * 4 + ("data", "stop", "hub", "deliver")
        self.do_evaluate()
        for _ in range(0 if self.only_messages else self.draw.randint(0, 3)):
            getattr(self, f"do_{self.draw.choice(operations)}")()
        self.heal()
        self.check()

    def do_evaluate(self) -> None:
        world = self.world
        there = sorted(name for name in world.members if name in world.vaults)
        if not self.only_messages and len(there) > 4 and self.draw.random() < 0.2:
            there = sorted(self.draw.sample(there, self.draw.randint(3, len(there))))
        before = {name: self._net(name) for name in world.members}
        rng = Drawn(self.draw)
        conducting = world.conduct(
            self.study,
            rng,
            members=there,
            keys=world.keys,
            earlier=sorted(world.rosters),
            owed=world.owed,
            opening=world.rosters.add,
        )
        deliver(world.owed, there, self.carry)
        try:
            report = drive(conducting, self._stopping_hub(self.draw.random() < self.faults / 2))
        except HubStopped:
            self.say("the hub stopped in the middle of a round")
            self.done["hub stopped"] += 1
            world.start_hub()
        except FhevalError as error:
            self.done["evaluations without a result"] += 1
            self.say(f"no result: {error}")
        else:
            self.done["evaluations with a result"] += 1
            self.say(f"round {report.round.id[:6]} of {', '.join(report.roster)}, led by {report.round.leader}")
            world.keys = report.keys
            self._at_most_one(report, before)
            return

    def _stopping_hub(self, stops: bool) -> Callable[[Exchange], dict[str, bytes]]:
        left = self.draw.randint(1, 6) if stops and not self.only_messages else 1000

        def carry(asked: Exchange) -> dict[str, bytes]:
            nonlocal left
            left -= 1
            # Its operator was told to make room first.
            if left <= 0 and not HUB_DISK.in_memory_only:
                raise HubStopped
            if not self.only_messages and self.draw.random() < self.faults / 4:
                self.done["full disk of the hub"] += 1
                HUB_DISK.full = self.draw.choice((1, 2, 6))
            return self.carry(asked)

        return carry

    def _net(self, name: str) -> int:
        member = self.world.members[name]
        return len(member.uploads.keys() - member.void)

    def _at_most_one(self, report: Report, before: dict[str, int]) -> None:
        """An attempt that waits for the word of a leader that has vanished costs its releases until it is back.

        So does one that is void, for whoever has not heard of it yet.
        """
        waiting = [each.round for each in report.attempts if each.failure is not None and not each.void]
        self.done["attempts that wait for a leader's word"] += len(waiting)
        for name in report.roster:
            untold = [each for each, stage, _ in self.world.owed.to({name}) if stage is Stage.VOIDED]
            if self._net(name) - before[name] > 1 + len(waiting) + len(untold):
                raise Broken(f"{name} spent {self._net(name) - before[name]} releases on one result")

    def _begun_to_open(self, round_id: str) -> bool:
        """Whether somebody has helped to open a round, so that it cannot be void any more."""
        for name, ledger in self.world.ledgers.items():
            answered = {Stage(stage) for (stage,) in ledger._rows("SELECT stage FROM stages WHERE round = ?", round_id)}
            if answered and not self.unopened.issuperset(answered - {Stage.VOIDED}):
                self.say(f"{name} had begun to open {round_id[:6]}")
                return True
        return False

    def _told(self, round_id: str) -> bool:
        """Whether anybody was sent what a round came to, or opened it at the last stage."""
        last = PROTOCOLS[self.study.protocol].steps[-1].stage.value
        found = "SELECT 1 FROM stages WHERE round = ? AND stage = ?"
        return any(ledger._rows(found, round_id, last) for ledger in self.world.ledgers.values())

    @property
    def unopened(self) -> frozenset[Stage]:
        return PROTOCOLS[self.study.protocol].unopened

    def _account_for_releases(self, outcomes: dict[str, dict[str, float | None]]) -> None:
        """Every release has an outcome; in vain are those of a moment that no protocol can take back."""
        for name, member in self.world.members.items():
            for round_id in member.uploads.keys() - member.void:
                held = outcomes.get(round_id, {})
                if name in held:
                    continue
                if held:
                    self.done["releases of uploads that came too late"] += 1
                elif self._begun_to_open(round_id):
                    self.done["releases in vain, since pads were given"] += 1
                elif self._may_be_delivered():
                    raise Broken(f"{name} has spent a release on {round_id}, which nobody has begun to open")

    def do_data(self) -> None:
        name = self.draw.choice(sorted(self.world.members))
        if name not in self.world.vaults:
            return
        low, high = ROWS
        rows = self.draw.choice((low - 1, low, high, high + 1, self.draw.randint(low, high)))
        admitted = self.world.write(name, rows, self.draw.randrange(1 << 30), self.study)
        self.world.prepare(name)
        self.say(f"{name} has {rows} other rows, {'admitted' if admitted else 'refused'}")
        self.done["data"] += 1

    def do_stop(self) -> None:
        name = self.draw.choice(sorted(self.world.members))
        self.say(f"the vault of {name} {'stops' if name in self.world.vaults else 'starts'}")
        self.done["stop or start"] += 1
        if name in self.world.vaults:
            self.world.stop(name)
        else:
            self.world.start(name)

    def do_hub(self) -> None:
        if HUB_DISK.in_memory_only:
            return
        self.say("the hub starts anew")
        self.done["hub restarted"] += 1
        self.world.start_hub()

    def do_deliver(self) -> None:
        deliver(self.world.owed, sorted(self.world.vaults), self.carry)

    # The end

    def heal(self) -> None:
        """Everybody is there, nothing is lost any more, clocks are right; what is owed is delivered."""
        self.faults = 0.0
        HUB_DISK.full = 0
        for name, member in self.world.members.items():
            member.away = member.full = 0
            self.healed_clock(member)
            if name not in self.world.vaults:
                self.world.start(name)
            self.world.make_room(name)
        for late in self.late:
            self.ask(*late)
        self.late.clear()
        deliver(self.world.owed, sorted(self.world.vaults), self.carry)

    @staticmethod
    def healed_clock(member: Member) -> None:
        member.clock.now = max(member.clock.now, NOW + timedelta(hours=1))

    def check(self) -> None:
        world = self.world
        outcomes: dict[str, dict[str, float | None]] = {}
        rosters: dict[str, tuple[str, ...]] = {}
        for name in world.members:
            ledger = world.ledgers[name]
            counted = ledger.releases(f"of-{name}")
            if counted != self._net(name):
                raise Broken(f"{name} counted {counted} releases, and {self._net(name)} uploads left that are not void")
            if ledger.rounds_of(self.study.hash()) > self.study.rounds:
                raise Broken(f"{name} answered more rounds than the study has")
            for round_id, verdict in ledger._rows("SELECT round, verdict FROM endings"):
                held, known = outcomes.setdefault(round_id, {}), verdict_from_bytes(verdict)
                held[name] = self._checked(name, round_id, known)
                rosters[round_id] = known.roster
        for round_id, held in outcomes.items():
            values = [value for value in held.values() if value is not None]
            if values and (len(values) < len(held) or max(values) - min(values) > (self.study.precision or TOLERANCE)):
                raise Broken(f"different outcomes of {round_id}: {held}")
            without = set(rosters[round_id]).difference(held)
            if without and self._told(round_id) and self._may_be_delivered():
                raise Broken(f"{', '.join(sorted(without))} never heard what {round_id} came to")
        self._account_for_releases(outcomes)
        for round_id, stage, requests in world.owed.to(world.members):
            refused = stage in (Stage.VOID, Stage.VOIDED) and self._begun_to_open(round_id)
            if self._may_be_delivered() and not refused:
                raise Broken(f"owed for ever: {sorted(requests)}, {stage.value} of {round_id}")

    def _checked(self, name: str, round_id: str, verdict: Verdict) -> float | None:
        """The number that a member holds, which must be the truth over the roster; None for none."""
        if verdict.ending is Ending.UNDEFINED:
            return None
        if verdict.ending is not Ending.RELEASED:
            raise Broken(f"{name} holds {verdict.ending.value} of {round_id}, and the aggregator is honest")
        value = float(verdict.ratio())
        parts = [self.world.counted[one, self.world.members[one].uploads[round_id]] for one in verdict.roster]
        truth = reduce(add, parts).auc()
        if abs(value - truth) > 1.01 * (self.study.precision or TOLERANCE):
            raise Broken(f"{name} holds {value} of {round_id}, and the truth is {truth}")
        return value

    def _may_be_delivered(self) -> bool:
        return all(member.clock.now < NOW + KEY_LIFETIME for member in self.world.members.values())


class HubStopped(Exception):  # noqa: N818 (an operation of a script)
    """The hub is killed between two exchanges."""


@dataclass(frozen=True)
class Terms:
    """What a protocol needs to be asked at all: so many points to verify well, or members that are named."""

    grid: Grid
    names_leaders: bool


@dataclass
class Campaign:
    """Many scripts over one set of kits."""

    folder: Path
    consortium: Consortium
    engine: Engine
    protocols: dict[str, Terms] = field(default_factory=dict)
    faults: float | None = None
    verbose: bool = False
    done: Counter[str] = field(default_factory=Counter)

    @classmethod
    def over(cls, folder: Path, engine: Engine, **options: object) -> Campaign:
        """Make the kits, and find out which of the registered protocols vaults can play."""
        made = Consortium(create_authority(folder / "authority", "Trial", now=NOW))
        for name in MEMBERS:
            made.enrol(name)
        made.sign(RULES)
        campaign = cls(folder, made, engine, **options)  # type: ignore[arg-type]
        for protocol, named in product(PROTOCOLS, (False, True)):
            for points in POINTS:
                terms = Terms(Grid.even(points), named)
                if protocol not in campaign.protocols and campaign.plays(protocol, terms):
                    campaign.protocols[protocol] = terms
        return campaign

    def plays(self, protocol: str, terms: Terms) -> bool:
        """Whether vaults can play a protocol on these terms."""
        try:
            script = self.script(0, protocol, terms)
            script.faults, script.verbose = 0.0, False
            script.do_evaluate()
        except FhevalError:
            return False
        self.end(script)
        return script.done["evaluations with a result"] > 0

    def script(self, seed: int, protocol: str | None = None, terms: Terms | None = None) -> Script:
        draw = Random(seed)
        only_messages = self.faults is not None
        count = draw.randint(3, 12) if only_messages else draw.choice((3, 3, 4, 4, 5, 5, 6, 8))
        names = MEMBERS[:count]
        chosen = protocol or draw.choice(sorted(self.protocols))
        terms = terms or self.protocols[chosen]
        low, high = ROWS
        folder = Path(tempfile.mkdtemp(dir=self.folder, prefix="script-"))
        world = World(folder, self.consortium, self.engine, names)
        study = world.study(
            chosen,
            grid=terms.grid,
            leaders=names if terms.names_leaders else (),
            rounds=1000 if only_messages else draw.choice((1, 2, 3, 1000)),
            least_rows_per_party=low,
            most_rows_per_party=high,
            name=f"{chosen}-{seed}",
        )
        for name in names:
            world.write(name, draw.choice((low, high, draw.randint(low, high))), draw.randrange(1 << 30), study)
        world.start()
        world.accept(study)
        rate = self.faults if self.faults is not None else draw.choice((0.0, 0.01, 0.03, 0.05, 0.1, 0.2))
        if self.verbose:
            print(f"seed {seed}: {chosen}, {count} members, {rate:.0%} faults", file=sys.stderr)
        return Script(world, study, draw, rate, verbose=self.verbose, only_messages=only_messages)

    def play(self, seed: int) -> None:
        """One script; a `Broken` names its seed."""
        script = self.script(seed)
        began = time.process_time()
        try:
            script.play()
        except Exception as error:
            raise Broken(f"Script {seed}: {type(error).__name__}: {error}\n" + "\n".join(script.log)) from error
        finally:
            self.done += script.done
            self.end(script)
        self.done["scripts"] += 1
        if time.process_time() - began > 20 * HANG_SECONDS:
            raise Broken(f"Script {seed} took too long.")

    @staticmethod
    def end(script: Script) -> None:
        script.world.stop(*script.world.members)
        shutil.rmtree(script.world.folder)


def resident() -> int:
    """Megabytes of memory that this process has in use."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def main() -> int:
    parser = argparse.ArgumentParser(description="Random scripts against a model.")
    parser.add_argument("--scripts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", type=int)
    parser.add_argument("--engine", default="clear")
    parser.add_argument("--faults", type=float)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    owed_module.replace_private = HUB_DISK.replace  # type: ignore[attr-defined]
    # Whoever ends a long campaign wants to know how far it came.
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    engine = ClearEngine() if options.engine == "clear" else load_engine(options.engine)
    memory = Path("/dev/shm")  # noqa: S108 (a random name is made in it)
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        campaign = Campaign.over(Path(made), engine, faults=options.faults, verbose=options.verbose)
        left_out = sorted(set(PROTOCOLS) - set(campaign.protocols))
        print(f"engine {engine.name}; protocols: {', '.join(campaign.protocols)}")
        print(f"left out, since vaults cannot play them: {', '.join(left_out) or 'none'}")
        seeds = [options.replay] if options.replay is not None else range(options.seed, options.seed + options.scripts)
        began, settled = time.monotonic(), None
        for number, seed in enumerate(seeds):
            try:
                campaign.play(seed)
            except Broken as broken:
                print(
                    f"{broken}\nAgain: python -m fuzz.schedules --replay {seed} --engine {engine.name} --verbose"
                    + ("" if options.faults is None else f" --faults {options.faults}")
                )
                return 1
            if number == len(seeds) // 5:
                settled = resident()
            if not (number + 1) % 500:
                print(f"{number + 1} scripts, {time.monotonic() - began:.0f} s", flush=True)
            if told:
                break
        grown = 0 if settled is None else resident() - settled
        print(f"seeds {seeds[0]} to {seeds[-1]}, {time.monotonic() - began:.0f} s")
        print(f"memory grew by {grown} MB in the last four fifths")
        for what, count in sorted(campaign.done.items()):
            print(f"{count:8,}  {what}")
        with_result, without = (campaign.done[f"evaluations {each} a result"] for each in ("with", "without"))
        if options.faults is not None:
            print(f"success at {options.faults:.0%} of messages: {with_result / max(1, with_result + without):.2%}")
        if len(seeds) > 200 and grown > 64:
            print("Memory is not flat.")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
