"""Requests of an aggregator that lies: honest ones, taken apart and changed."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, TypeVar

import msgspec
import pytest

from fheval.aggregator.conductor import drive
from fheval.aggregator.round_in_play import Exchange
from fheval.party.messages import REFUSAL, REQUESTS, Opening, Proof, Relay, Reply, Request, SetUp, request
from fheval.protocols.base import Stage
from fheval.protocols.round import Round, RoundCall, new_round_id
from fheval.secrets import Randomness, SystemRandomness
from fheval.study import Study
from fheval.wire import HEADER, Message, decode
from vault.trial import NAMES, Trial, Wire

M = TypeVar("M", bound=Message)


def opened(data: bytes, expected: type[M]) -> M:
    """The message in a request."""
    return decode(bytes(decode(data, Request, sender="test").body), expected, sender="test")


def changed(data: bytes, **changes: Any) -> bytes:
    """The same request with other fields."""
    stage = decode(data, Request, sender="test").stage
    return request(stage, msgspec.structs.replace(opened(data, REQUESTS.get(stage, Relay)), **changes))


def opening_of(data: bytes) -> Opening:
    """What a request of the first stages says of its round."""
    opening: Opening = opened(data, REQUESTS[decode(data, Request, sender="test").stage]).opening  # type: ignore[attr-defined]
    return opening


def first_words(study: Study, round_: Round) -> Opening:
    """What an honest aggregator says of a round."""
    return Opening(study=study.to_bytes(), call=round_.call)


def otherwise(told: Opening, **changes: Any) -> Opening:
    """The same round, described otherwise: fields of the call or of the study, whether or not they make sense."""
    of_call = {name: changes.pop(name) for name in RoundCall.__struct_fields__ if name in changes}
    tag, *values = msgspec.to_builtins(Study.from_bytes(told.study))
    fields = dict(zip(Study.__struct_fields__, values, strict=True))
    assert changes.keys() <= fields.keys()
    study = HEADER + msgspec.msgpack.encode([tag, *(fields | changes).values()])
    return of_study(told, study, **of_call)


def of_study(told: Opening, study: bytes, /, **of_call: Any) -> Opening:
    """The round with these bytes for a study, called by their hash unless something else is said."""
    named = {"study": sha256(b"fheval/1 study\0" + study).digest()} | of_call
    return Opening(study=study, call=msgspec.structs.replace(told.call, **named))


def another(told: Opening, **changes: Any) -> Opening:
    """The round under a new id, and whatever else changes."""
    return otherwise(told, **({"id": new_round_id(SystemRandomness())} | changes))


def set_up(told: Opening) -> bytes:
    """The request to make keys for a round."""
    return request(Stage.SETUP, SetUp(opening=told))


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
    return wire, study.round(opening_of(data).call), dict(pending[0].requests)


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
