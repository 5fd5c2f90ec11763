"""How a whole round grows with the number of parties: a line for each power of ten.

Each line is a process of its own, so that its largest memory is that of its round. Every party submits for itself; they
have the same counts, since only time and memory are measured.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from fheval.counting import Grid
from fheval.engines import load_engine
from fheval.protocols import PROTOCOLS
from fheval.protocols.play import Members, Watch
from fheval.protocols.round import Contribution
from fheval.secrets import SystemRandomness
from fheval.study import Study

DECISION_POINTS = 100
MOST_PARTIES = 100_000

# The leader adds up the pads of all parties, and does everything else that it does, in this time.
LEADER_SECONDS = {10_000: 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """One round: processor seconds of the leader and the aggregator and of one party, and the process's memory."""

    name: str
    engine: str
    parties: int
    leader: float
    aggregator: float
    party: float
    megabytes: float

    @property
    def holds(self) -> bool:
        return self.leader <= LEADER_SECONDS.get(self.parties, self.leader)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


def powers_of_ten(most: int) -> list[int]:
    """Numbers of parties up to the largest, at least a cohort.

    >>> powers_of_ten(5000)
    [10, 100, 1000]
    """
    return [10**power for power in range(1, len(str(most)))]


def grow(protocol: str, engine: str, most: int = MOST_PARTIES) -> Iterator[Growth]:
    """Play a round for each power of ten."""
    for parties in powers_of_ten(most):
        command = [sys.executable, "-m", __name__, protocol, engine, str(parties)]
        done = subprocess.run(command, capture_output=True, check=True, text=True)  # noqa: S603 (ourselves)
        yield Growth(**json.loads(done.stdout))


def played(protocol: str, engine: str, parties: int) -> Growth:
    """Play a round in this process, and give its times and the largest memory that the process ever had."""
    rng, watch = SystemRandomness(), Watch(clock=process_time)
    names = [f"party-{number}" for number in range(parties)]
    study = Study.of(protocol=protocol, decision_points=Grid.even(DECISION_POINTS))
    round_ = study.round(study.call(rng, engine=engine, parties=names, leader=names[0]))
    if round_.batch is None:
        raise ValueError("A study of one AUC asks for a ratio.")
    own = Contribution(np.ones((1, round_.batch.size), dtype=np.int64))
    members = Members(PROTOCOLS[protocol], load_engine(engine), round_, dict.fromkeys(names, own), rng, watch)
    members.play()
    return Growth(
        name=protocol,
        engine=engine,
        parties=parties,
        leader=watch.seconds[members.protocol.keeper] / len(members.made),
        aggregator=watch.seconds["aggregator"],
        party=watch.seconds["party"] / parties,
        megabytes=_largest_memory() / 2**20,
    )


def _largest_memory() -> int:
    """In bytes, of this process alone: on Linux, `getrusage` begins with what the parent had when it forked."""
    if sys.platform == "linux":
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(status["VmHWM"].split()[0]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    print(json.dumps(asdict(played(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
