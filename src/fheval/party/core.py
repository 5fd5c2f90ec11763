"""The vault without its socket: bytes of a request in, bytes of the reply out.

`handle` is everything that an aggregator can reach. It answers each stage of a round once, writes the answer to the
ledger before it gives it away, and turns whatever it refuses into one constant reply. The reason goes to the log.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from hashlib import sha256
from hmac import compare_digest
from threading import Lock
from typing import Any

from fheval import wire
from fheval.consortium import Kit, sign
from fheval.engines import Engine
from fheval.errors import CohortTooSmall, ConfigError, EngineError, FhevalError, RemoteProtocolError
from fheval.party.accepted import AcceptedStudies
from fheval.party.context import RoundContext
from fheval.party.ledger import Entry, Ledger, RoundRecord
from fheval.party.log import one_line
from fheval.party.messages import (
    CHALLENGE_BYTES,
    LIMITS,
    REFUSAL,
    REQUESTS,
    Epoch,
    Greeting,
    Hello,
    Relay,
    Reply,
    Request,
    SetUp,
    Submit,
    Tell,
    Void,
    Voided,
)
from fheval.party.steps import Answered, Steps, not_ready
from fheval.party.terms import check_round
from fheval.protocols.base import Stage
from fheval.protocols.round import AGGREGATOR, Ending, Round, RoundCall
from fheval.secrets import Randomness, SystemRandomness
from fheval.study import Study

Asked = SetUp | Submit | Relay | Tell | Void | Voided

REQUEST_LIMIT = wire.DEFAULT_LIMIT

_log = logging.getLogger("fheval.vault")


def utc_now() -> datetime:
    """The time, as the rest of fheval wants it."""
    return datetime.now(timezone.utc)


class VaultCore:
    """One member's vault. Thread-safe; one request at a time."""

    def __init__(
        self,
        kit: Kit,
        ledger: Ledger,
        studies: AcceptedStudies,
        engines: Mapping[str, Engine],
        *,
        rng: Randomness | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.name = kit.identity.name
        self._ledger = ledger
        self._studies = studies
        self._engines = engines
        self._rng = rng or SystemRandomness()
        self._clock = clock
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
        return Steps(kit, self._ledger, self._studies, self._engines, self._rng)

    def handle(self, data: bytes) -> bytes:
        """Answer one request, or refuse it in the one way there is."""
        with self._lock:
            try:
                return self._answer(data)
            except (FhevalError, sqlite3.Error, OSError, MemoryError) as error:
                _log.warning("Refused. %s", reason_of(error))
                return REFUSAL

    def _answer(self, data: bytes) -> bytes:
        asked = wire.decode(data, Request, sender=AGGREGATOR, limit=REQUEST_LIMIT)
        expected = REQUESTS.get(asked.stage, Relay)
        limit = LIMITS.get(asked.stage, REQUEST_LIMIT)
        message: Any = wire.decode(asked.body, expected, sender=AGGREGATOR, limit=limit)
        if expected is Hello:
            return self._greeting(message)
        round_id = message.round if isinstance(message, (Relay, Tell, Voided)) else message.call.id
        record = self._ledger.round(round_id)
        request = sha256(data).digest()
        if isinstance(message, Voided) and (record is None or Stage.SUBMIT not in record.answered):
            # Nothing was uploaded, and nothing is given back: the aggregator need not tell it again.
            return self._signed(asked.stage, round_id, b"")
        if record is None:
            return self._first_answer(None, asked.stage, message, request)
        try:
            _require_going(record, asked.stage)
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
                f"Stage {stage.value!r} of round {record.call.id} was answered before, for another request. "
                "The round was aborted.",
                step=stage.value,
                culprit=AGGREGATOR,
            )
        reply = self._ledger.reply(record.call.id, stage)
        if reply is None:
            raise ConfigError(f"The answer for stage {stage.value!r} of round {record.call.id} is no longer kept.")
        _log.info("Round %s, stage %s: the same answer again.", record.call.id, stage.value)
        return reply

    def _first_answer(self, record: RoundRecord | None, stage: Stage, message: Asked, request: bytes) -> bytes:
        now = self._clock()
        call, epoch = _described(record, message)
        steps, study = self._steps, self._study(record, call)
        round_ = _called(study, call)
        roster = check_round(steps.kit, study, round_, now=now)
        context = RoundContext.of(round_, epoch, roster)
        _require_next(context, self.name, record.answered if record else {}, stage)
        if stage is Stage.SETUP:
            answered = steps.set_up(context, now=now)
        elif isinstance(message, Submit) and stage is Stage.OFFER:
            answered = steps.offer(context, study, message, now=now)
        elif isinstance(message, Submit):
            answered = steps.submit(context, study, message, now=now)
        elif isinstance(message, Relay) and record is not None:
            answered = steps.relay(context, stage, message, record, now=now)
        elif isinstance(message, Tell):
            answered = steps.tell(context, study)
        elif isinstance(message, Voided):
            answered = steps.voided(context, message)
        else:
            answered = steps.void(context)
        answer = answered.answer
        reply = context.reply(steps.kit.identity, stage, answer)
        self._ledger.record(
            Entry(
                call=call,
                study=study,
                epoch=epoch,
                stage=stage,
                request=request,
                reply=reply,
                keys=answered.keys,
                roster=answer.roster,
                published=answer.published,
                use=answered.use,
                verdict=answer.verdict,
                void=answered.void,
            ),
            at=now,
        )
        _log.info("Round %s, stage %s: answered%s.", round_.id, stage.value, _ended(answered))
        if answer.complaint is not None:
            _log.warning("Round %s: the result was not accepted. %s", round_.id, answer.complaint)
        return reply

    def _study(self, record: RoundRecord | None, call: RoundCall) -> Study:
        """What a round is about: the operator accepted it, now or when the round began."""
        if record is not None:
            return record.study
        accepted = self._studies.ready(call.study)
        if accepted is None:
            raise not_ready()
        return accepted.study

    def _greeting(self, message: Hello) -> bytes:
        if len(message.challenge) not in CHALLENGE_BYTES:
            raise RemoteProtocolError(
                f"A challenge has {CHALLENGE_BYTES.start} to {CHALLENGE_BYTES.stop - 1} bytes.",
                step=Stage.HELLO.value,
                culprit=AGGREGATOR,
            )
        # Whoever cannot write what it answers says so before anybody uploads.
        self._ledger.require_room()
        kit = self._steps.kit
        body = wire.encode(
            Greeting(
                member=self.name,
                consortium=kit.policy.consortium,
                policy_version=kit.policy.version,
                engines=tuple(sorted(self._engines)),
            )
        )
        return self._signed(Stage.HELLO, message.challenge.hex(), body)

    def _signed(self, stage: Stage, round_id: str, body: bytes) -> bytes:
        """An answer that changes nothing, and is not noted in the ledger."""
        signature = sign(
            self._steps.kit.identity,
            round_id=round_id,
            stage=stage.value,
            roster_hash=b"",
            payload=sha256(body).digest(),
        )
        return wire.encode(Reply(stage=stage, round=round_id, sender=self.name, body=body, signature=signature))


def _require_going(record: RoundRecord, stage: Stage) -> None:
    if stage in (Stage.VOID, Stage.VOIDED):
        # What was given up for another reason may be given up in this way as well.
        return
    if record.void or Stage.VOID in record.answered:
        raise RemoteProtocolError(
            f"Round {record.call.id} is void. Start a new round.", step="round", culprit=AGGREGATOR
        )
    if record.aborted:
        raise RemoteProtocolError(
            f"Round {record.call.id} was aborted before. Start a new round.", step="round", culprit=AGGREGATOR
        )


def _described(record: RoundRecord | None, message: Asked) -> tuple[RoundCall, Epoch]:
    """The round and epoch that a request is about; what was said of them before must still hold."""
    if isinstance(message, SetUp):
        told = message.call, Epoch(id=message.call.id, leader=message.call.leader)
    elif isinstance(message, (Submit, Void)):
        told = message.call, message.epoch
    elif record is None:
        raise RemoteProtocolError(
            "The request is about a round that this vault has no part in.", step="round", culprit=AGGREGATOR
        )
    else:
        return record.call, record.epoch
    if record is not None and told != (record.call, record.epoch):
        raise RemoteProtocolError(
            f"Round {record.call.id} was described otherwise before. The round was aborted.",
            step="round",
            culprit=AGGREGATOR,
        )
    return told


def _called(study: Study, call: RoundCall) -> Round:
    try:
        return study.round(call)
    except (ConfigError, EngineError) as error:
        raise RemoteProtocolError(str(error), step="round", culprit=AGGREGATOR) from error


def _require_next(context: RoundContext, me: str, answered: Iterable[Stage], stage: Stage) -> None:
    """Refuse a stage that does not follow those that were answered; keys are made first, if at all, by the leader."""
    before = tuple(answered)
    if stage in (Stage.VOID, Stage.VOIDED):
        # Before it has helped to open anything, and a party only once it has submitted.
        early = context.protocol.may_void(context.round, before)
        concerned = me in context.protocol.openers(context.round) if stage is Stage.VOID else Stage.SUBMIT in before
        allowed = early and concerned
    elif stage is Stage.TELL:
        # Once everything else is over: until then nobody can be made to say what depends on the outcome.
        over = set(context.protocol.stages_of(context.round, me)).issubset(before)
        allowed = over and me in context.protocol.tellers(context.round)
    elif stage is Stage.SETUP:
        allowed = me in context.protocol.keepers(context.round) and not before
    else:
        done = sum(each is not Stage.SETUP for each in before)
        allowed = context.protocol.stages_of(context.round, me)[done : done + 1] == (stage,)
    if not allowed:
        part = context.protocol.keeper if me in context.protocol.keepers(context.round) else "party"
        after = before[-1].value if before else "nothing"
        raise RemoteProtocolError(
            f"Stage {stage.value!r} does not follow {after!r} for the {part} of a round of {context.round.protocol}. "
            "The round was aborted.",
            step=stage.value,
            culprit=AGGREGATOR,
        )


def _ended(answered: Answered) -> str:
    verdict = answered.answer.verdict
    if verdict is None:
        return ""
    return {
        Ending.RELEASED: "; a result was released" + (", and checked" if verdict.checked else ""),
        Ending.UNDEFINED: "; the metric is undefined",
        Ending.REFUSED: "; the aggregator's answer was refused",
        Ending.REFUSED_BY_CHECK: "; the leader's word did not stand up to this vault's own check",
    }[verdict.ending]


def reason_of(error: Exception) -> str:
    """A reason for the log, on one line. Errors about data or ciphertexts may name values: only their kind is told."""
    if not isinstance(error, (RemoteProtocolError, CohortTooSmall, ConfigError)):
        return f"This vault could not answer ({type(error).__name__}). Check its data, engine, memory and disk by hand."
    return one_line(str(error))
