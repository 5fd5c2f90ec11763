"""A vault's signed receipt of a round: what its member was told, for people outside the consortium."""

from __future__ import annotations

from datetime import datetime

from fheval.consortium import Kit
from fheval.consortium.kit import kept_policy, kept_study
from fheval.consortium.receipt import SignedReceipt, Statement, check_receipt, make_receipt
from fheval.errors import ConfigError
from fheval.evaluation.finished import finish
from fheval.party.accepted import AcceptedStudies
from fheval.party.ledger import History
from fheval.party.process import VaultFiles
from fheval.protocols.round import Ending
from fheval.version import __version__


def receipt_of(each: History, kit: Kit, files: VaultFiles, *, now: datetime) -> SignedReceipt:
    """The receipt of a round that released something. Of any other there is none: it would tell how the round ended."""
    statement = _statement(each, kit, now)
    with AcceptedStudies.open(files.studies) as studies:
        accepted = {standing.acceptance.study.hash(): standing.acceptance.signed for standing in studies.all()}
    signed = accepted.get(each.study.hash()) or kept_study(files.kit, each.study.name)
    made = make_receipt(kit.identity, statement, signed_study=signed, signed_policy=kept_policy(files.kit))
    # What others would refuse is not given to them.
    check_receipt(made.to_bytes(), "The receipt", authority=kit.identity.anchor.fingerprint())
    return made


def _statement(each: History, kit: Kit, now: datetime) -> Statement:
    study, round_, verdict = each.study, each.round, each.verdict
    if verdict is None or each.ended is None or verdict.ending is not Ending.RELEASED:
        raise ConfigError(f"Round {round_.id} has released nothing here, so there is no receipt of it.")
    told = finish(study, verdict)
    return Statement(
        member=kit.identity.name,
        certificate=kit.identity.record.fingerprint().hex(),
        consortium=kit.policy.consortium,
        policy=kit.policy.hash().hex(),
        study=study.name,
        study_hash=study.hash().hex(),
        round=round_.id,
        protocol=round_.protocol,
        engine=round_.engine,
        parties=round_.parties,
        leader=round_.leader,
        roster=verdict.roster,
        began=each.began,
        ended=each.ended,
        signed=now,
        verified=told.verified,
        soundness_bits=told.soundness_bits,
        hiding_bits=told.hiding_bits,
        results=tuple(row.to_dict() for row in told.rows),
        fheval=__version__,
    )
