"""Requests of an aggregator that lies: honest ones, taken apart and changed."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, TypeVar

import msgspec
import pytest

from fheval.aggregator.conductor import drive
from fheval.aggregator.round_in_play import Exchange
from fheval.party.messages import REFUSAL, REQUESTS, Proof, Relay, Reply, Request, SetUp, request
from fheval.protocols.base import Stage
from fheval.protocols.round import Round, RoundCall, new_round_id
from fheval.secrets import Randomness, SystemRandomness
from fheval.wire import Message, decode
from vault.trial import NAMES, Trial, Wire

M = TypeVar("M", bound=Message)


def opened(data: bytes, expected: type[M]) -> M:
    """The message in a request."""
    return decode(bytes(decode(data, Request, sender="test").body), expected, sender="test")


def changed(data: bytes, **changes: Any) -> bytes:
    """The same request with other fields."""
    stage = decode(data, Request, sender="test").stage
    return request(stage, msgspec.structs.replace(opened(data, REQUESTS.get(stage, Relay)), **changes))


def call_of(data: bytes) -> RoundCall:
    """What a request of the first stages says of its round."""
    call: RoundCall = opened(data, REQUESTS[decode(data, Request, sender="test").stage]).call  # type: ignore[attr-defined]
    return call


def otherwise(told: RoundCall, **changes: Any) -> RoundCall:
    """The same round, called otherwise, whether or not that makes sense."""
    return msgspec.structs.replace(told, **changes)


def of_another_study(trial: Trial, told: RoundCall, **changes: Any) -> RoundCall:
    """The same round, called for a study that differs in this, and which all vaults have accepted as well."""
    accepted = next(iter(trial.studies.values())).ready(told.study)
    assert accepted is not None
    study = trial.study(**(msgspec.structs.asdict(accepted.study) | {"name": ""} | changes))
    trial.accept(study)
    return otherwise(told, study=study.hash())


def another(told: RoundCall, **changes: Any) -> RoundCall:
    """The round under a new id, and whatever else changes."""
    return otherwise(told, **({"id": new_round_id(SystemRandomness())} | changes))


def set_up(told: RoundCall) -> bytes:
    """The request to make keys for a round."""
    return request(Stage.SETUP, SetUp(call=told))


class Stopped(Exception):  # noqa: N818
    """The aggregator goes no further."""


def played_until(
    trial: Trial, stage: Stage, protocol: str = "padded", rng: Randomness | None = None, **changes: Any
) -> tuple[Wire, Round, dict[str, bytes]]:
    """Play honestly up to a stage; gives what passed, the round, and the honest requests of that stage."""
    wire = Wire(trial)
    pending: list[Exchange] = []

    def exchange(asked: Exchange) -> dict[str, bytes]:
        if asked.stage is stage:
            pending.append(asked)
            raise Stopped
        return wire(asked)

    study = trial.study(protocol, **changes)
    with pytest.raises(Stopped):
        drive(trial.conduct(study, rng), exchange)
    if stage is Stage.SETUP:
        (data,) = pending[0].requests.values()
    else:
        data = wire.request(Stage.SETUP)
    return wire, study.round(call_of(data)), dict(pending[0].requests)


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


def proof_of(reply: bytes) -> Proof:
    """What an aggregator shows of a reply."""
    read = decode(reply, Reply, sender="test")
    return Proof(party=read.sender, digest=sha256(read.body).digest(), nonce=read.nonce, signature=read.signature)
