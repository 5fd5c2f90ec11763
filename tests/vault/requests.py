"""Requests of an aggregator that lies: honest ones, taken apart and changed."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, TypeVar

import msgspec
import pytest

from fheval.aggregator.conductor import drive
from fheval.aggregator.round_in_play import Exchange
from fheval.party.messages import REFUSAL, REQUESTS, Reply, Request, SetUp, request
from fheval.protocols.base import Stage
from fheval.protocols.round import Round, new_round_id
from fheval.secrets import SystemRandomness
from fheval.wire import Message, decode
from vault.trial import NAMES, Trial, Wire

M = TypeVar("M", bound=Message)


def opened(data: bytes, expected: type[M]) -> M:
    """The message in a request."""
    return decode(bytes(decode(data, Request, sender="test").body), expected, sender="test")


def changed(data: bytes, **changes: Any) -> bytes:
    """The same request with other fields."""
    stage = decode(data, Request, sender="test").stage
    return request(stage, msgspec.structs.replace(opened(data, REQUESTS[stage]), **changes))


def another(round_: Round, **changes: Any) -> Round:
    """The round under a new id, and whatever else changes."""
    return msgspec.structs.replace(round_, **({"id": new_round_id(SystemRandomness())} | changes))


class Stopped(Exception):  # noqa: N818
    """The aggregator goes no further."""


def played_until(trial: Trial, stage: Stage, protocol: str = "padded") -> tuple[Wire, Round, dict[str, bytes]]:
    """Play honestly up to a stage; gives what passed, the round, and the honest requests of that stage."""
    wire = Wire(trial)
    pending: list[Exchange] = []

    def exchange(asked: Exchange) -> dict[str, bytes]:
        if asked.stage is stage:
            pending.append(asked)
            raise Stopped
        return wire(asked)

    with pytest.raises(Stopped):
        drive(trial.conduct(trial.plan(protocol)), exchange)
    if stage is Stage.SETUP:
        (data,) = pending[0].requests.values()
        round_ = opened(data, SetUp).round
    else:
        round_ = opened(wire.request(Stage.SETUP), SetUp).round
    return wire, round_, dict(pending[0].requests)


def is_refused(trial: Trial, name: str, data: bytes, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """The vault refuses as it always does, notes nothing as answered, and logs this reason."""
    caplog.clear()
    caplog.set_level("INFO", logger="fheval.vault")
    before = [(each.round.id, each.stages, each.verdict) for each in trial.ledgers[name].history()]
    assert trial.vaults[name].handle(data) == REFUSAL
    assert [(each.round.id, each.stages, each.verdict) for each in trial.ledgers[name].history()] == before
    assert reason in caplog.text


def is_aborted(trial: Trial, name: str, round_: Round) -> bool:
    """Whether a round goes no further at a member."""
    record = trial.ledgers[name].round(round_.id)
    return record is not None and record.aborted


def a_party(round_: Round) -> str:
    """A member that does not lead."""
    return next(name for name in NAMES if name != round_.leader)


def claim_of(reply: bytes) -> Claim:
    """What an aggregator shows of an upload."""
    read = decode(reply, Reply, sender="test")
    return Claim(party=read.sender, digest=sha256(read.body).digest(), signature=read.signature)
