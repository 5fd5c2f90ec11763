"""What a vault does at each stage, once the request is in order: the content of the reply, and what the ledger notes.

The steps themselves are the protocol's; a vault opens keys, takes what was prepared, and demands proof of what it is
told about other members. Nothing here decides whether a stage was answered before, or writes to the ledger: `core`
does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from fheval.consortium import Kit
from fheval.engines import Engine
from fheval.errors import ConfigError, RemoteProtocolError
from fheval.evaluation.finished import finish, telling
from fheval.party.accepted import AcceptedStudies
from fheval.party.context import RoundContext, read_reply
from fheval.party.epoch import Keyring, make_keys
from fheval.party.ledger import EpochBytes, Ledger, RoundRecord, Use
from fheval.party.messages import Relay, Submit, Voided
from fheval.party.rosters import require_apart, require_witness
from fheval.party.terms import releases_of
from fheval.protocols.base import Answer, Receipt, Seat, Stage
from fheval.protocols.round import AGGREGATOR, PartySecrets
from fheval.secrets import Randomness
from fheval.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A stage's answer, and what else the ledger notes: keys that came, releases that are taken."""

    answer: Answer
    keys: EpochBytes | None = None
    use: Use | None = None
    void: bool = False


class Steps:
    """A member's part in rounds, with its own kit, accepted studies and engines; reads the ledger."""

    def __init__(
        self,
        kit: Kit,
        ledger: Ledger,
        studies: AcceptedStudies,
        engines: Mapping[str, Engine],
        rng: Randomness,
    ) -> None:
        self.kit = kit
        self.me = kit.identity.name
        self._ledger = ledger
        self._studies = studies
        self._engines = engines
        self._rng = rng
        self._keyring = Keyring(kit, ledger)

    def set_up(self, context: RoundContext, *, now: datetime) -> Answered:
        """Leader, or member of a committee: make keys and seal them for all parties."""
        engine = self._engine(context)
        made = make_keys(engine, context, self.kit.identity, self.kit.policy.hash(), self._rng, now=now)
        # What a party gets of a committee is complete when all its members have made theirs.
        alone = len(context.protocol.keepers(context.round)) == 1
        keys = EpochBytes(bundle=made.bundles[self.me], box=made.box) if alone else None
        return Answered(answer=Answer(body=made), keys=keys)

    def offer(self, context: RoundContext, study: Study, message: Submit, *, now: datetime) -> Answered:
        """Member of a committee: what it does before there are uploads. It takes nothing from the data."""
        self._engine(context)
        sealed = EpochBytes(bundle=message.bundle, box=bytes(message.box))
        secrets = self._keyring.admit(context, sealed, now=now)
        self._require_turn(study, now)
        answer = context.protocol.answer(self._seat(context, secrets), Stage.OFFER, b"")
        return Answered(answer=answer, keys=sealed)

    def submit(self, context: RoundContext, study: Study, message: Submit, *, now: datetime) -> Answered:
        """Party: hide the integers that were prepared; from here on the data have had their releases."""
        # Before any work is done: whoever calls rounds may name engines that are not there.
        self._engine(context)
        sealed = EpochBytes(bundle=message.bundle, box=bytes(message.box))
        secrets = self._keyring.admit(context, sealed, now=now)
        self._require_turn(study, now)
        accepted, releases = self._studies.ready(study.hash()), releases_of(study)
        if accepted is None:
            raise not_ready()
        require_witness(self.me, context.protocol.openers(context.round), self._ledger.rosters(accepted.lineage))
        # As many as are there already, and all but the last of this round's own.
        self.kit.policy.check_release(self._ledger.releases(accepted.lineage) + releases - 1)
        cost = study.privacy_cost
        if cost is not None:
            self.kit.policy.check_privacy([*self._ledger.privacy_spent(accepted.lineage), cost])
        contribution = self._studies.take(study)
        if contribution is None:
            raise not_ready()
        seat = self._seat(context, secrets, contribution=contribution)
        answer = context.protocol.answer(seat, Stage.SUBMIT, b"")
        return Answered(answer=answer, keys=sealed, use=Use(lineage=accepted.lineage, releases=releases, cost=cost))

    def _require_turn(self, study: Study, now: datetime) -> None:
        """Refuse one round too many, or too soon after the last one."""
        if self._ledger.rounds_of(study.hash()) >= study.rounds:
            raise _refused(f"The study has had its {study.rounds} rounds")
        last = self._ledger.last_use(study.hash())
        if study.every is not None and last is not None and now < last + timedelta(seconds=study.every):
            raise _refused(f"The study has a round every {study.every} seconds at most, and had one at {last:%H:%M:%S}")

    def relay(
        self, context: RoundContext, stage: Stage, message: Relay, record: RoundRecord, *, now: datetime
    ) -> Answered:
        """Any later stage: check what the message cites, and let the protocol answer."""
        step, body = context.protocol.step(stage), bytes(message.body)
        uploads, others = context.cited(step, message.proofs)
        uploaded = context.check_uploads(uploads) if step.cites is Stage.SUBMIT else None
        if uploaded is not None:
            # Whoever is told the uploaders opens their sum, or gives the pads for it.
            require_apart(uploaded, self._other_rosters(context), context.round.minimum_cohort)
        if step.cites is Stage.RESULT:
            context.check_leaders(body, message.proofs)
        signed = context.check_cited(others) | {(Stage.SUBMIT, proof.party): proof.digest for proof in uploads}
        seat = self._seat(
            context,
            self._keyring.secrets(context, now=now),
            roster=record.roster,
            uploaded=uploaded,
            shown=None if message.shown is None else bytes(message.shown),
            published_before=self._published_before(context, record.study),
            telling=telling(record.study, context.round),
            said=self._said(context, record),
            signed=signed,
            publics={member: bytes(keys) for member, keys in message.publics.items()},
        )
        return Answered(answer=context.protocol.answer(seat, stage, body))

    def _said(self, context: RoundContext, record: RoundRecord) -> dict[Stage, bytes]:
        """Member of a committee: what it answered earlier in the round, on which it builds."""
        if self.me not in context.protocol.keepers(context.round):
            return {}
        said = {}
        for stage in record.answered:
            kept = self._ledger.reply(context.round.id, stage)
            if kept is not None:
                said[stage] = bytes(read_reply(kept, self.me).body)
        return said

    def _published_before(self, context: RoundContext, study: Study) -> frozenset[str]:
        """The groups of the same column and rows that any round has published that this party took part in."""
        lineage = self._ledger.lineage_of(context.round.id)
        if not study.groups or lineage is None:
            return frozenset()
        return self._ledger.published_groups(lineage, study.group_column or "")

    def _other_rosters(self, context: RoundContext) -> list[tuple[str, ...]]:
        lineage = self._ledger.lineage_of(context.round.id)
        return [] if lineage is None else self._ledger.rosters(lineage)

    def tell(self, context: RoundContext, study: Study) -> Answered:
        """Leader or checker: what it found, for an aggregator that the study lets learn it; not what lies behind it.

        Why that says nothing else: numbers are right or refused, whatever the aggregator did, and nobody's rows decide
        which (`Protocol.right_or_nothing`). Where a protocol cannot say so, the study reveals counts by consent.
        """
        verdict = self._ledger.verdict(context.round.id)
        if study.learns == "members" or verdict is None:
            raise _refused("The aggregator is not among those who learn the result of this study", Stage.TELL)
        told = context.protocol.told(context.round, verdict)
        return Answered(answer=Answer(body=finish(study, told)))

    def void(self, context: RoundContext) -> Answered:
        """Opener: never open this round, of which it has told nobody anything but its own upload.

        Why a party may take its releases back when all openers have signed this: without them the uploads stay under
        their pads (or under the FHE key), so that there was no release and never will be. Why the aggregator learns
        nothing from it: it is signed before the openers have seen an answer, and refused afterwards, so that a round
        in which something was accepted or refused cannot be told from another by the number of rounds that are left.
        One of several openers gets its own releases back when it hears that the others have signed, too.
        """
        alone = context.protocol.openers(context.round) == (self.me,)
        return Answered(answer=Answer(body=Receipt(round=context.round.id)), void=alone)

    def voided(self, context: RoundContext, message: Voided) -> Answered:
        """Party: take back the releases of a round that nobody will open."""
        context.check_voided(message.proofs)
        return Answered(answer=Answer(body=Receipt(round=context.round.id)), void=True)

    def _seat(self, context: RoundContext, secrets: PartySecrets, **others: object) -> Seat:
        engine = self._engine(context)
        return Seat(engine=engine, round=context.round, me=self.me, secrets=secrets, rng=self._rng, **others)  # type: ignore[arg-type]

    def _engine(self, context: RoundContext) -> Engine:
        name = context.round.engine
        if name not in self._engines:
            raise ConfigError(
                f"The round asks for the engine {name!r}; this vault has {', '.join(sorted(self._engines))}. "
                "Agree on an engine that all members can load."
            )
        return self._engines[name]


def not_ready() -> RemoteProtocolError:
    """One error for a study that was never accepted and for one that nothing was prepared for."""
    return _refused("The study is not accepted here, or not ready; fheval vault status tells which")


def _refused(why: str, stage: Stage = Stage.SUBMIT) -> RemoteProtocolError:
    return RemoteProtocolError(f"{why}. The round was refused.", step=stage.value, culprit=AGGREGATOR)
