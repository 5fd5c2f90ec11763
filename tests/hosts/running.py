"""A consortium that was set up as docs/deploy.md says and runs on hosts of its own, for tests of what networks do."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hosts.follow import HOSTS, MEMBERS, Follower, empty_site, followed
from hosts.site import STEP_SECONDS, Host, Running, Site, why_no_namespaces
from hosts.switch import Switch

STUDY = "network"
MEMBER_UP = "fheval vault up member.toml --connect"
HUB_UP = "fheval aggregator up --kit ./hub-kit --state ./state --host 0.0.0.0"

# The page's own study may be asked four times; this one as often as tests like.
_STUDY = f"""\
name = "{STUDY}"
metrics = ["auc", "recall@0.3"]
reveals = "counts"
rounds = 1000
"""
_ALSO = f"""
[studies.{STUDY}]
data = "scores.csv"
lineage = "trial"
"""


class Deployed:
    """The hosts, and what tests do with them: ask for rounds, cut cables, restart programs."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.site: Site = follower.site

    @property
    def switch(self) -> Switch:
        assert self.site.switch is not None
        return self.site.switch

    @property
    def hub(self) -> Host:
        return self.site["hub"]

    def program(self, name: str) -> Running:
        """What runs at a host now."""
        return self.site[name].running[-1]

    def add_study(self) -> None:
        """Sign one more study, and accept it everywhere."""
        authority = self.site["authority"]
        (authority.folder / f"{STUDY}.toml").write_text(_STUDY)
        options = f"--study {STUDY}.toml --releases-per-lineage 10000 --out consortium.fhev"
        authority.run(f"fheval consortium publish ./authority {options}")
        for name in ("hub", *MEMBERS):
            self.site.send("consortium.fhev", "authority", name)
        self.hub.run("fheval consortium update ./hub-kit consortium.fhev")
        for name in MEMBERS:
            path = self.site[name].folder / "member.toml"
            path.write_text(path.read_text() + _ALSO)
            self.site[name].run("fheval vault accept member.toml --yes")
            self.restart(name)

    def restart(self, name: str, *, kill: bool = False, until: str = "Connected to") -> Running:
        """End what runs at a host, by a signal or as a power cut does, and start it again."""
        before = self.program(name)
        if kill:
            before.kill()
        else:
            before.stop()
        return self.start(name, until=until)

    def start(self, name: str, *, until: str = "") -> Running:
        """Start a host's program."""
        command, words = (HUB_UP, "Ready for") if name == "hub" else (MEMBER_UP, until)
        started = self.site[name].start(command)
        started.wait_for(words)
        return started

    def ask(self, *options: str) -> subprocess.Popen[str]:
        """Begin a round."""
        words = (
            f"fheval aggregator evaluate --study {STUDY} --kit ./hub-kit --state ./state --json - {' '.join(options)}"
        )
        return self.hub.begin(words)

    def round(self, *options: str) -> dict[str, Any]:
        """A round, which must succeed."""
        return summary_of(self.ask("--patience", "60", *options))

    def released(self, name: str) -> float:
        """The AUC of a member's newest round."""
        last = json.loads(self.site[name].run("fheval vault rounds --kit ./kit --json -"))["rounds"][-1]
        assert last["state"] == "released"
        return float(last["auc"])

    def calm(self) -> None:
        """Let the network be as good as it was."""
        self.switch.delay = self.switch.loss = 0.0
        self.switch.cut.clear()


def summary_of(asked: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a round that must succeed."""
    try:
        output, complaint = asked.communicate(timeout=STEP_SECONDS)
    finally:
        asked.kill()
    assert asked.returncode == 0, complaint
    found: dict[str, Any] = json.loads(output)
    return found


def wait_for_line(asked: subprocess.Popen[str], words: str) -> None:
    """Read what a round says about itself until these words come."""
    assert asked.stderr is not None
    for line in asked.stderr:
        if words in line:
            return
    raise AssertionError(f"The round ended without saying {words!r}.")


@contextmanager
def deployed(root: Path) -> Iterator[Deployed]:
    """Hub and three members, connected; skipped where hosts cannot be made."""
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(f"hosts in network namespaces cannot be made: {reason}")
    with empty_site(root) as site:
        made = Deployed(followed(site, whole=False))
        made.add_study()
        yield made


def until(holds: Any, seconds: float = 60.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


__all__ = ["HOSTS", "MEMBERS", "Deployed", "deployed", "summary_of", "until", "wait_for_line"]
