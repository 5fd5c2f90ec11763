"""Follow docs/deploy.md: every step where the page says, with what operators hear and type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hosts.page import PAGE, Step, steps
from hosts.site import Site, in_namespaces, on_loopback, why_no_namespaces
from vault.trial import write_scores

HUB_NAME = "hub.example.org"
HOSTS = {"hub": HUB_NAME, "authority": "authority.example.org"} | {
    f"hospital-{letter}": f"hospital-{letter}.example.org" for letter in "abcd"
}
MEMBERS = ("hospital-a", "hospital-b", "hospital-c")
FIRST_ROUND = "fheval aggregator evaluate"

_FINGERPRINT = re.compile(r"(?:[0-9a-f]{4}-){7}[0-9a-f]{4}")


class Follower:
    """An operator at every host, who follows the page and remembers the fingerprints that were read out."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.text = PAGE.read_text(encoding="utf-8")
        if site.switch is None:
            # Without namespaces nobody else answers to the hub's name.
            self.text = self.text.replace(HUB_NAME, "localhost")
        self.heard: dict[str, str] = {}
        self.commands: list[str] = []
        self.files: set[str] = set()

    def follow(self, step: Step) -> None:
        if "send" in step.mark:
            self.files.add(step.mark["send"])
            for target in step.mark["to"].split():
                self.site.send(step.mark["send"], step.mark["from"], target)
        elif "file" in step.mark:
            for host in step.hosts:
                (self.site[host].folder / step.mark["file"]).write_text(step.text_for(host), encoding="utf-8")
        elif "at" in step.mark:
            for host in step.hosts:
                for command in step.commands(host):
                    self.commands.append(command)
                    self._run(step, host, command)

    def _run(self, step: Step, name: str, command: str) -> None:
        host, typed = self.site[name], self._typed(step)
        for mark in ("starts", "restarts"):
            if mark in step.mark:
                if mark == "restarts":
                    host.running[-1].stop()
                host.start(command, typed).wait_for(step.mark[mark])
                return
        self._listen(name, host.run(command, typed))

    def _typed(self, step: Step) -> str:
        answers = [each.strip() for each in step.mark.get("types", "").split(",") if each.strip()]
        said = [self.heard[each.removeprefix("fingerprint of ")] if " of " in each else each for each in answers]
        return "".join(f"{each}\n" for each in said)

    def _listen(self, name: str, output: str) -> None:
        """Requests and the authority's beginning print a fingerprint."""
        found = _FINGERPRINT.search(output)
        if found is not None:
            self.heard[name] = found[0]


def followed(site: Site, *, whole: bool) -> Follower:
    """Follow the page, all of it or as far as the first round, which is left to the caller."""
    follower = Follower(site)
    for step in steps(follower.text):
        if not whole and step.block.startswith(FIRST_ROUND):
            break
        follower.follow(step)
    return follower


@contextmanager
def empty_site(root: Path) -> Iterator[Site]:
    """Hosts with empty folders, but for the members' data: in namespaces where these can be made."""
    made = on_loopback if why_no_namespaces() is not None else in_namespaces
    with made(root, HOSTS) as site:
        for seed, name in enumerate(name for name in HOSTS if name.startswith("hospital")):
            write_scores(site[name].folder / "scores.csv", seed, rows=4000)
            (site[name].folder / "scores.csv").chmod(0o600)
        yield site
