"""What members are still owed when an evaluation has ended: outcomes that they have not confirmed, and rounds to void.

A member that was cut off gets the very request that it would have had, whenever it comes back; vaults answer each
stage once, so that it may be sent as often as need be. A round that failed because somebody who could open it was
silent is void as soon as all of those have signed that they never will; then the others get their releases back.

What a full disk does not take stays in memory until it does: members that are there, or come back, get it all the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from threading import Lock

import msgspec

from fheval.consortium.files import replace_private
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.party.context import RoundContext, read_reply
from fheval.party.messages import Voided, request
from fheval.party.sqlite_file import file_in_words, require_room
from fheval.protocols.base import Stage

_log = logging.getLogger("fheval.hub")

# Keys live for a day; afterwards no vault could open what it is sent.
_KEPT_SECONDS = 86_400.0
# No key is needed to give a round up, or to hear of it: a leader may be away for longer.
_KEPT_VOID_SECONDS = 90 * 86_400.0
_MOST_ROUNDS = 32


class Owed(msgspec.Struct, kw_only=True):
    """What is owed of one round: requests of `stage`, by member.

    Where that is `void`, `openers` must all have signed, or one of them where that is enough, and then those who
    `uploaded` are told.
    """

    round: str
    stage: Stage
    requests: dict[str, bytes]
    since: float
    openers: tuple[str, ...] = ()
    uploaded: tuple[str, ...] = ()
    signed: dict[str, bytes] = {}
    one_is_enough: bool = False

    def settle(self, member: str, reply: bytes) -> None:
        """Note that a member has answered; a refusal is no answer, and may be for want of room on its disk."""
        try:
            if read_reply(reply, member).stage is not self.stage:
                return
        except RemoteProtocolError:
            return
        self.requests.pop(member, None)
        if self.stage is Stage.VOID:
            self.signed[member] = reply
            if self.one_is_enough or set(self.openers) == set(self.signed):
                self._tell_uploaders()

    def _tell_uploaders(self) -> None:
        proofs = tuple(
            RoundContext.proof(read_reply(self.signed[name], name)) for name in self.openers if name in self.signed
        )
        told = request(Stage.VOIDED, Voided(round=self.round, proofs=proofs))
        self.stage, self.requests = Stage.VOIDED, dict.fromkeys(self.uploaded, told)


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    """The file: in `owed` requests are digests, since many members are often owed the same bytes."""

    bodies: dict[bytes, bytes]
    owed: list[Owed]


class OwedFile:
    """What is owed, and its file in the aggregator's state directory. Nothing in it opens anything."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # A round that ends and a member that comes back may both write; what is in the list is never changed.
        self._writing = Lock()
        self._owed = self._read()

    def keep(self, owed: Owed, *, on_disk: bool = False) -> None:
        """Keep what is owed of a round, instead of what was before; where it is nothing, nothing.

        Where it must be `on_disk`, it is not kept at all if it cannot be written, or there is no room for what follows.
        """
        with self._writing:
            others = [each for each in self._owed if each.round != owed.round]
            if on_disk:
                require_room(self._path)
            if owed.requests or len(others) < len(self._owed):
                self._write([*others, _copy(owed)], on_disk=on_disk)

    def members(self) -> set[str]:
        """Who is owed something."""
        return {name for each in self._owed for name in each.requests}

    def to(self, members: Collection[str]) -> Iterator[tuple[str, Stage, dict[str, bytes]]]:
        """What these members are owed: round, stage and requests, the oldest first."""
        for each in self._owed:
            due = {name: body for name, body in each.requests.items() if name in members}
            if due:
                yield each.round, each.stage, due

    def settle(self, round_id: str, replies: Mapping[str, bytes]) -> None:
        """Note what came back."""
        with self._writing:
            owed = [_copy(each) if each.round == round_id else each for each in self._owed]
            for each in owed:
                if each.round == round_id:
                    for member, reply in replies.items():
                        each.settle(member, reply)
            self._write(owed)

    def _read(self) -> list[Owed]:
        try:
            with file_in_words(self._path):
                content = msgspec.msgpack.decode(self._path.read_bytes(), type=_Content)
            for each in content.owed:
                each.requests = {name: content.bodies[digest] for name, digest in each.requests.items()}
        except FileNotFoundError:
            return []
        except (msgspec.DecodeError, ValueError, KeyError):
            _log.error("%s is damaged: what members were owed is forgotten.", self._path)
            return []
        return content.owed

    def _write(self, owed: list[Owed], *, on_disk: bool = False) -> None:
        alive = [each for each in owed if each.requests and time.time() - each.since < _lasts(each)][-_MOST_ROUNDS:]
        bodies: dict[bytes, bytes] = {}
        named = []
        for each in alive:
            digests = {body: sha256(body).digest() for body in set(each.requests.values())}
            bodies.update((digest, body) for body, digest in digests.items())
            requests = {name: digests[body] for name, body in each.requests.items()}
            named.append(msgspec.structs.replace(each, requests=requests))
        try:
            with file_in_words(self._path):
                replace_private(self._path, msgspec.msgpack.encode(_Content(bodies=bodies, owed=named)))
        except (ConfigError, FileNotFoundError) as error:
            if on_disk:
                raise
            _log.error("What members are owed is in memory only, until it can be written. %s", error)
        self._owed = alive


def _copy(owed: Owed) -> Owed:
    return msgspec.structs.replace(owed, requests=dict(owed.requests), signed=dict(owed.signed))


def _lasts(owed: Owed) -> float:
    return _KEPT_VOID_SECONDS if owed.stage in (Stage.VOID, Stage.VOIDED) else _KEPT_SECONDS
