"""Deviations on whole uploads: who is counted, and how often."""

from __future__ import annotations

from collections.abc import Sequence

from fheval.protocols.base import Stage
from fheval.secrets import integer_below
from fheval_lab.attacks.strategy import Knowledge, Mail, Strategy, Upload


class _OnOneParty(Strategy):
    """Picks one party at random."""

    def __init__(self, known: Knowledge) -> None:
        super().__init__(known)
        self.victim = integer_below(known.rng, known.parties)


class DropParty(_OnOneParty):
    """Leave a party out and say that it was there."""

    name = "drop-party"
    summary = "drop a party"

    def choose_uploads(self, mail: Mail[Upload]) -> list[Upload]:
        return [upload for index, upload in enumerate(mail.inbox) if index != self.victim]


class DenyDropout(DropParty):
    """Tell the leader that a party dropped out, which is allowed, and everyone else that it was there."""

    name = "deny-dropout"
    summary = "drop a party, tell only the leader"
    needs = Stage.PADS

    def announce(self, roster: Sequence[str]) -> list[str]:
        return [party for index, party in enumerate(roster) if index != self.victim]


class CountTwice(_OnOneParty):
    """Add a party's upload twice."""

    name = "count-twice"
    summary = "count a party twice"

    def choose_uploads(self, mail: Mail[Upload]) -> list[Upload]:
        return [*mail.inbox, mail.inbox[self.victim]]


class ReplayEarlier(_OnOneParty):
    """Use what a party sent in an earlier round, under the same keys, in place of what it sent now."""

    name = "replay"
    summary = "replay a party's upload of an earlier round"

    def choose_uploads(self, mail: Mail[Upload]) -> list[Upload]:
        return [mail.earlier[index] if index == self.victim else upload for index, upload in enumerate(mail.inbox)]


class SwapParties(Strategy):
    """Take two parties' uploads for each other's: harmless, since only the sum counts."""

    name = "swap-parties"
    summary = "swap two parties (harmless)"

    def choose_uploads(self, mail: Mail[Upload]) -> list[Upload]:
        first, *others, last = mail.inbox
        return [last, *others, first]


class InjectUpload(_OnOneParty):
    """Make an upload of its own, with the public key or out of thin air, for a party."""

    name = "inject"
    summary = "inject its own upload for a party"

    def choose_uploads(self, mail: Mail[Upload]) -> list[Upload]:
        return [mail.forge() if index == self.victim else upload for index, upload in enumerate(mail.inbox)]
