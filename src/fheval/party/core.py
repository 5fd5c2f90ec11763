"""The vault without its socket: bytes of a request in, bytes of the reply out.

`handle` is everything that an aggregator can reach. It answers each stage of a round once, writes the answer to the
ledger before it gives it away, and turns whatever it refuses into one constant reply. The reason goes to the log.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from hashlib import sha256
from hmac import compare_digest
from threading import Lock
from typing import cast

from fheval import wire
from fheval.consortium import Kit, sign
from fheval.engines import Engine
from fheval.errors import CohortTooSmall, ConfigError, FhevalError, RemoteProtocolError
from fheval.party.context import RoundContext
from fheval.party.data_set import DataSet
from fheval.party.ledger import Ledger
from fheval.party.ledger_records import Entry, RoundRecord
from fheval.party.messages import (
    REFUSAL,
    REQUESTS,
    Epoch,
    Greeting,
    Hello,
    Pads,
    Reply,
    Request,
    Result,
    SetUp,
    Stage,
    StageRequest,
    Submit,
)
from fheval.party.stages import advance, part_of, state_after
from fheval.party.steps import Answer, Steps
from fheval.party.terms import check_round
from fheval.party.verdict import Ending
from fheval.protocols.round import AGGREGATOR, Round
from fheval.secrets import Randomness, SystemRandomness

REQUEST_LIMIT = wire.DEFAULT_LIMIT
CHALLENGE_BYTES = range(16, 65)

_LONGEST_REASON = 400

_log = logging.getLogger("fheval.vault")


def utc_now() -> datetime:
    """The time, as the rest of fheval wants it."""
    return datetime.now(timezone.utc)


class VaultCore:
    """One member's vault. Thread-safe; one request at a time.

    With `check_results` it asks for the ciphertexts of every result, and accepts none that it did not open itself.
    """

    def __init__(
        self,
        kit: Kit,
        ledger: Ledger,
        data: DataSet,
        engines: Mapping[str, Engine],
        *,
        rng: Randomness | None = None,
        clock: Callable[[], datetime] = utc_now,
        check_results: bool = False,
    ) -> None:
        self.name = kit.identity.name
        self._ledger = ledger
        self._data = data
        self._engines = engines
        self._rng = rng or SystemRandomness()
        self._clock = clock
        self._check_results = check_results
        self._lock = Lock()
        self._steps = self._steps_with(kit)

    def use_kit(self, kit: Kit) -> None:
        """Go on with a newer kit or policy; an older policy than was ever used is refused."""
        if kit.identity.name != self.name:
            raise ConfigError(f"This is the vault of {self.name}, and the kit is of {kit.identity.name}.")
        with self._lock:
            self._steps = self._steps_with(kit)

    def _steps_with(self, kit: Kit) -> Steps:
        self._ledger.use_policy(kit.policy.version, kit.policy.hash(), at=self._clock())
        return Steps(kit, self._ledger, self._data, self._engines, self._rng, check_results=self._check_results)

    def handle(self, data: bytes) -> bytes:
        """Answer one request, or refuse it in the one way there is."""
        with self._lock:
            try:
                return self._answer(data)
            except (FhevalError, sqlite3.Error, OSError) as error:
                _log.warning("Refused. %s", reason_of(error))
                return REFUSAL

    def _answer(self, data: bytes) -> bytes:
        asked = wire.decode(data, Request, sender=AGGREGATOR, limit=REQUEST_LIMIT)
        content = wire.decode(asked.body, REQUESTS[asked.stage], sender=AGGREGATOR, limit=REQUEST_LIMIT)
        message = cast("Hello | StageRequest", content)
        if isinstance(message, Hello):
            return self._greeting(message)
        round_id = message.round.id if isinstance(message.round, Round) else message.round
        record = self._ledger.round(round_id)
        request = sha256(data).digest()
        if record is None:
            return self._first_answer(None, asked.stage, message, request)
        try:
            _require_going(record)
            if asked.stage in record.answered:
                return self._same_answer(record, asked.stage, request)
            return self._first_answer(record, asked.stage, message, request)
        except (RemoteProtocolError, CohortTooSmall) as error:
            # The aggregator has shown that it does not follow the protocol: nothing more for this round.
            self._ledger.abort(round_id, reason_of(error), at=self._clock())
            raise

    def _same_answer(self, record: RoundRecord, stage: Stage, request: bytes) -> bytes:
        if not compare_digest(record.answered[stage], request):
            raise RemoteProtocolError(
                f"Stage {stage.value!r} of round {record.round.id} was answered before, for another request. "
                "The round was aborted.",
                step=stage.value,
                culprit=AGGREGATOR,
            )
        reply = self._ledger.reply(record.round.id, stage)
        if reply is None:
            raise ConfigError(f"The answer for stage {stage.value!r} of round {record.round.id} is no longer kept.")
        _log.info("Round %s, stage %s: the same answer again.", record.round.id, stage.value)
        return reply

    def _first_answer(
        self,
        record: RoundRecord | None,
        stage: Stage,
        message: StageRequest,
        request: bytes,
    ) -> bytes:
        now = self._clock()
        round_, epoch = _described(record, message)
        steps = self._steps
        context = RoundContext.of(round_, epoch, check_round(steps.kit, round_, self._data.columns, now=now))
        part = part_of(round_, self.name)
        advance(part, state_after(part, record.answered if record else ()), stage)
        answer = _step(steps, record, context, message, now)
        reply = context.reply(steps.kit.identity, stage, answer.body)
        self._ledger.record(
            Entry(
                round=round_,
                epoch=epoch,
                stage=stage,
                request=request,
                reply=reply,
                keys=answer.keys,
                roster=answer.roster,
                use=answer.use,
                verdict=answer.verdict,
            ),
            at=now,
        )
        _log.info("Round %s, stage %s: answered%s.", round_.id, stage.value, _ended(answer))
        if answer.complaint is not None:
            _log.warning("Round %s: the result was not accepted. %s", round_.id, answer.complaint)
        return reply

    def _greeting(self, message: Hello) -> bytes:
        if len(message.challenge) not in CHALLENGE_BYTES:
            raise RemoteProtocolError(
                f"A challenge has {CHALLENGE_BYTES.start} to {CHALLENGE_BYTES.stop - 1} bytes.",
                step=Stage.HELLO.value,
                culprit=AGGREGATOR,
            )
        kit = self._steps.kit
        body = wire.encode(
            Greeting(
                member=self.name,
                consortium=kit.policy.consortium,
                policy_version=kit.policy.version,
                engines=tuple(sorted(self._engines)),
            )
        )
        challenge = message.challenge.hex()
        signature = sign(
            kit.identity,
            round_id=challenge,
            stage=Stage.HELLO.value,
            roster_hash=b"",
            payload=sha256(body).digest(),
        )
        return wire.encode(Reply(stage=Stage.HELLO, round=challenge, sender=self.name, body=body, signature=signature))


def _require_going(record: RoundRecord) -> None:
    if record.aborted:
        raise RemoteProtocolError(
            f"Round {record.round.id} was aborted before. Start a new round.", step="round", culprit=AGGREGATOR
        )


def _described(record: RoundRecord | None, message: StageRequest) -> tuple[Round, Epoch]:
    """The round and epoch that a request is about; what was said of them before must still hold."""
    if isinstance(message, SetUp):
        told = message.round, Epoch(id=message.round.id, leader=message.round.leader)
    elif isinstance(message, Submit):
        told = message.round, message.epoch
    elif record is None:
        raise RemoteProtocolError(
            "The request is about a round that this vault has no part in.", step="round", culprit=AGGREGATOR
        )
    else:
        return record.round, record.epoch
    if record is not None and told != (record.round, record.epoch):
        raise RemoteProtocolError(
            f"Round {record.round.id} was described otherwise before. The round was aborted.",
            step="round",
            culprit=AGGREGATOR,
        )
    return told


def _step(
    steps: Steps,
    record: RoundRecord | None,
    context: RoundContext,
    message: StageRequest,
    now: datetime,
) -> Answer:
    if isinstance(message, SetUp):
        return steps.set_up(context, now=now)
    if isinstance(message, Submit):
        return steps.submit(context, message, now=now)
    if isinstance(message, Pads):
        return steps.pads(context, message, now=now)
    if isinstance(message, Result):
        return steps.result(context, message, record.roster if record else None, now=now)
    return steps.broadcast(context, message, now=now)


def _ended(answer: Answer) -> str:
    if answer.verdict is None:
        return ""
    return {
        Ending.RELEASED: "; a result was released" + (", and checked" if answer.verdict.checked else ""),
        Ending.UNDEFINED: "; the metric is undefined",
        Ending.REFUSED: "; the aggregator's answer was refused",
        Ending.REFUSED_BY_CHECK: "; the leader's word did not stand up to this vault's own check",
    }[answer.verdict.ending]


def reason_of(error: Exception) -> str:
    """A reason for the log, on one line. Errors about data or ciphertexts may name values: only their kind is told."""
    if not isinstance(error, (RemoteProtocolError, CohortTooSmall, ConfigError)):
        return f"This vault could not answer ({type(error).__name__}). Check its data, engine and disk by hand."
    printable = "".join(each if each.isprintable() else "?" for each in str(error))
    return printable[:_LONGEST_REASON]
