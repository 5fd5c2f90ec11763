"""What a vault does at each stage, once the request is in order: the content of the reply, and what the ledger notes.

Nothing here writes, and nothing here decides whether a stage was answered before: `core` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from fheval import wire
from fheval.consortium import Kit
from fheval.engines import Engine
from fheval.errors import ConfigError, FhevalError, RemoteProtocolError, UndefinedMetric
from fheval.party.checking import digest_of, party_check
from fheval.party.context import RoundContext
from fheval.party.data_set import DataSet
from fheval.party.epoch import EpochBytes, make_keys
from fheval.party.keyring import Keyring
from fheval.party.ledger import Ledger
from fheval.party.ledger_records import Use
from fheval.party.messages import (
    Broadcast,
    Pads,
    Receipt,
    Reply,
    Result,
    SealedVerdict,
    Stage,
    Submission,
    Submit,
)
from fheval.party.roles import PaddedRoles, roles_of
from fheval.party.terms import question_of, releases_of
from fheval.party.verdict import Ending, Verdict, leader_seal, party_unseal
from fheval.protocols.round import AGGREGATOR, PartySecrets, Round
from fheval.secrets import Randomness
from fheval.wire import Message

# Whatever goes wrong while an answer is opened may depend on what was decrypted, and must look like success outside.
_FAILURES = (FhevalError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a stage gives: the content of the reply, notes for the ledger, and a complaint for the log."""

    body: Message
    keys: EpochBytes | None = None
    roster: tuple[str, ...] | None = None
    use: Use | None = None
    verdict: Verdict | None = field(default=None, repr=False)
    complaint: str | None = None


class Steps:
    """A member's part in rounds, with its own kit, data and engines; reads the ledger.

    With `check_results` it opens the answer of every padded round itself, and does not rely on the leader's word.
    """

    def __init__(
        self,
        kit: Kit,
        ledger: Ledger,
        data: DataSet,
        engines: Mapping[str, Engine],
        rng: Randomness,
        *,
        check_results: bool = False,
    ) -> None:
        self.kit = kit
        self.me = kit.identity.name
        self._ledger = ledger
        self._data = data
        self._engines = engines
        self._rng = rng
        self._check_results = check_results
        self._keyring = Keyring(kit, ledger)

    def set_up(self, context: RoundContext, *, now: datetime) -> Answer:
        """Leader: make keys and seal them for all parties."""
        engine = self._engine(context)
        made = make_keys(engine, context, self.kit.identity, self.kit.policy.hash(), self._rng, now=now)
        return Answer(body=made, keys=EpochBytes(bundle=made.bundles[self.me], box=made.box))

    def submit(self, context: RoundContext, message: Submit, *, now: datetime) -> Answer:
        """Party: count, and hide the counts; from here on the data set has had its releases."""
        round_, engine = context.round, self._engine(context)
        sealed = EpochBytes(bundle=message.bundle, box=bytes(message.box))
        secrets = self._keyring.admit(context, sealed, now=now)
        counted = self._data.count(question_of(round_), self._rng)
        if counted.samples > round_.max_samples:
            raise RemoteProtocolError(
                "This party has more samples than the round's public bound. Ask the aggregator to raise max_samples.",
                step=Stage.SUBMIT.value,
                culprit=AGGREGATOR,
            )
        releases = releases_of(round_)
        # As many as are there already, and all but the last of this round's own.
        self.kit.policy.check_release(self._ledger.releases(counted.data_set) + releases - 1)
        upload = roles_of(round_).submit(engine, round_, secrets, self.me, counted.contributions, self._rng)
        body = Submission(upload=wire.encode(upload), wants_answer=self._wants_answer(round_))
        return Answer(body=body, keys=sealed, use=Use(data_set=counted.data_set, releases=releases))

    def pads(self, context: RoundContext, message: Pads, *, now: datetime) -> Answer:
        """Leader: speak for the pads of those who really uploaded."""
        roster = context.check_claims(message.claims)
        roles = roles_of(context.round)
        if not isinstance(roles, PaddedRoles):
            raise RemoteProtocolError("This protocol has no pads.", step=Stage.PADS.value, culprit=AGGREGATOR)
        secrets = self._keyring.secrets(context, now=now)
        return Answer(body=roles.pads(self._engine(context), context.round, secrets, self.me, roster), roster=roster)

    def result(
        self, context: RoundContext, message: Result, covered: tuple[str, ...] | None, *, now: datetime
    ) -> Answer:
        """Leader of a padded round, or any party of a paper round: open the aggregator's answer.

        `covered` is the roster that pads were given for. The reply has one form, whatever is found.
        """
        round_ = context.round
        secrets = self._keyring.secrets(context, now=now)
        if covered is not None:
            verdict = self._opened(context, secrets, covered, message.answer)
            return Answer(body=leader_seal(round_, secrets, verdict, self._rng), verdict=verdict)
        roster = context.check_claims(message.claims)
        verdict = self._opened(context, secrets, roster, message.answer)
        return Answer(body=Receipt(round=round_.id), roster=roster, verdict=verdict)

    def broadcast(self, context: RoundContext, message: Broadcast, *, now: datetime) -> Answer:
        """Party: read what the leader found, signed by it for this very round, and check it if this vault said so.

        The reply has one form, whatever the check finds.
        """
        round_ = context.round
        reply = context.open_reply(message.verdict, round_.leader, Stage.RESULT)
        sealed = wire.decode(reply.body, SealedVerdict, sender=round_.leader)
        secrets = self._keyring.secrets(context, now=now)
        verdict = party_unseal(round_, secrets, sealed)
        round_.require_cohort(verdict.roster)
        if self.me not in verdict.roster:
            raise RemoteProtocolError(
                "The leader's verdict does not cover this party. It was not recorded.",
                step=Stage.BROADCAST.value,
                culprit=round_.leader,
            )
        receipt = Receipt(round=round_.id)
        if self.me == round_.leader:
            # It noted its verdict when it opened the answer.
            return Answer(body=receipt)
        if not self._asked_for_answer(round_):
            return Answer(body=receipt, verdict=verdict)
        done = party_check(
            verdict, message.answer, lambda answer: self._opened(context, secrets, verdict.roster, answer)
        )
        return Answer(body=receipt, verdict=done.verdict, complaint=done.complaint)

    def _wants_answer(self, round_: Round) -> bool:
        """In the paper's protocols every party opens the answer, in the padded ones the leader: they need not ask."""
        return self._check_results and isinstance(roles_of(round_), PaddedRoles) and self.me != round_.leader

    def _asked_for_answer(self, round_: Round) -> bool:
        """What this vault said when it submitted, even if it was started again with other options since."""
        reply = self._ledger.reply(round_.id, Stage.SUBMIT)
        if reply is None:
            # Several rounds came in between, and what was sent is no longer kept.
            return self._wants_answer(round_)
        body = wire.decode(reply, Reply, sender=self.me).body
        return wire.decode(body, Submission, sender=self.me).wants_answer

    def _opened(self, context: RoundContext, secrets: PartySecrets, roster: tuple[str, ...], answer: bytes) -> Verdict:
        round_ = context.round
        try:
            outcome = roles_of(round_).open(self._engine(context), round_, secrets, roster, answer)
            verdict = Verdict.released(outcome)
        except UndefinedMetric:
            verdict = Verdict(ending=Ending.UNDEFINED, roster=roster)
        except _FAILURES:
            verdict = Verdict(ending=Ending.REFUSED, roster=roster)
        return replace(verdict, answer=digest_of(answer), checked=True)

    def _engine(self, context: RoundContext) -> Engine:
        name = context.round.engine
        if name not in self._engines:
            raise ConfigError(
                f"The round asks for the engine {name!r}; this vault has {', '.join(sorted(self._engines))}. "
                "Agree on an engine that all members can load."
            )
        return self._engines[name]
