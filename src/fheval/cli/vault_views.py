"""A vault's ledger as JSON and as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from fheval.consortium import Kit
from fheval.errors import ConfigError
from fheval.evaluation import Result, Row
from fheval.evaluation.finished import finish
from fheval.evaluation.result import privacy_of, shown_precision
from fheval.party.accepted import AcceptedStudies, Standing
from fheval.party.ledger import History, Ledger
from fheval.party.process import VaultFiles
from fheval.privacy.accounting import epsilon_of
from fheval.protocols.round import Ending
from fheval.report.account import number_in_words

_SHOWN_DIGITS = 8


def status_json(
    kit: Kit, ledger: Ledger, studies: AcceptedStudies, files: VaultFiles, *, running: bool
) -> dict[str, Any]:
    """The vault at one glance."""
    history = ledger.history()
    names = {each.study.hash(): each.study.name for each in history}
    spending = ledger.spending()
    return {
        "member": kit.identity.name,
        "consortium": kit.policy.consortium,
        "running": running,
        "socket": str(files.socket),
        "policy_version": kit.policy.version,
        "highest_policy_version": ledger.policy_version(),
        "rounds": len(history),
        "released": sum(_state(each) == Ending.RELEASED.value for each in history),
        "releases_per_lineage": kit.policy.rules.releases_per_lineage,
        "epsilon_per_lineage": kit.policy.rules.epsilon_per_lineage,
        "delta_per_lineage": kit.policy.rules.delta_per_lineage,
        "studies": [_standing_json(each, ledger) for each in studies.all()],
        "lineages": [
            {
                "lineage": lineage,
                "releases": ledger.releases(lineage),
                "epsilon": epsilon_of(ledger.privacy_spent(lineage), kit.policy.rules.delta_per_lineage),
            }
            for lineage in dict.fromkeys(each.lineage for each in spending)
        ],
        "spent": [asdict(each) | {"study": names[each.study] or each.study.hex()} for each in spending],
    }


def _standing_json(standing: Standing, ledger: Ledger) -> dict[str, Any]:
    acceptance, facts = standing.acceptance, standing.facts
    study = acceptance.study
    return {
        "study": study.name,
        "hash": study.hash().hex(),
        "lineage": acceptance.lineage,
        "data": acceptance.data,
        "accepted": standing.accepted.isoformat(),
        "ready": facts is not None and standing.rounds != 0,
        "prepared": None if facts is None else facts.at.isoformat(),
        "rows": None if facts is None else facts.rows,
        "clipped": None if facts is None else facts.clipped,
        "binning": None if facts is None else facts.binning,
        "fits_badly": facts is not None and facts.fits_badly,
        "rounds": ledger.rounds_of(study.hash()),
        "of_rounds": study.rounds,
        "prepared_rounds": standing.rounds,
        "problem": standing.problem,
    }


def rounds_json(history: Sequence[History]) -> dict[str, Any]:
    """All rounds, the oldest first."""
    return {"rounds": [_round_json(each) for each in history]}


def _round_json(each: History) -> dict[str, Any]:
    round_, verdict = each.round, each.verdict
    content: dict[str, Any] = {
        "round": round_.id,
        "protocol": round_.protocol,
        "engine": round_.engine,
        "precision": shown_precision(each.study),
        "decision_points": len(each.study.grid),
        "leader": round_.leader,
        "parties": list(round_.parties),
        "roster": None if verdict is None else list(verdict.roster),
        "state": _state(each),
        "stages": [stage.value for stage in each.stages],
        "began": each.began.isoformat(),
        "ended": None if each.ended is None else each.ended.isoformat(),
        "lineage": None if each.use is None else each.use.lineage,
        "aborted": each.aborted,
    }
    if verdict is None or verdict.ending is not Ending.RELEASED:
        return content
    told = finish(each.study, verdict)
    return content | {"checked": verdict.checked} | told.to_dict(each.study, verdict.groups)


def result_of(each: History) -> Result:
    """A round that released something, as `evaluate` would give it; what it cost others, a vault does not know."""
    round_, study, verdict = each.round, each.study, each.verdict
    if verdict is None or verdict.ending is not Ending.RELEASED:
        raise ConfigError(f"Round {round_.id} has released nothing here: {_state(each)}. See: fheval vault rounds")
    told = finish(study, verdict)
    return Result(
        protocol=round_.protocol,
        engine=round_.engine,
        parties=len(verdict.roster),
        decision_points=len(study.grid),
        results=told.rows,
        precision=shown_precision(study),
        confidence=study.interval,
        verified=told.verified,
        soundness_bits=told.soundness_bits,
        hiding_bits=told.hiding_bits,
        curves=tuple(told.curves(study, round_.groups)) if told.counts else (),
        study=study,
        privacy=privacy_of(study, len(verdict.roster)),
    )


def status_table(found: Mapping[str, Any]) -> RenderableType:
    """The vault at one glance, for people."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("member", f"{found['member']} of {found['consortium']}")
    table.add_row("vault", f"{'runs' if found['running'] else 'does not run'}, {found['socket']}")
    table.add_row("policy", f"version {found['policy_version']}")
    table.add_row("rounds", f"{found['rounds']}, of which {found['released']} released a result")
    for each in found["studies"]:
        table.add_row("study", Text("\n".join(_standing_lines(each))))
    for each in found["lineages"]:
        allowed = found["releases_per_lineage"]
        table.add_row("lineage", f"{each['lineage']}, {each['releases']} of {allowed} releases")
        if each["epsilon"]:
            most, delta = found["epsilon_per_lineage"], found["delta_per_lineage"]
            table.add_row("", f"ε = {each['epsilon']:.3g} of {most:g} spent under noise, beside δ = {delta:g}")
        for spent in found["spent"]:
            if spent["lineage"] == each["lineage"]:
                table.add_row("", _spent_in_words(spent))
    return table


def _spent_in_words(spent: Mapping[str, Any]) -> str:
    words = f"{spent['numbers']} for {spent['rounds']} rounds of {spent['study']}"
    if spent["unknown"]:
        words += f", {spent['unknown']} of which ended in an unknown way"
    if spent["void"]:
        words += f"; {spent['void']} void rounds cost nothing"
    return words


def binning_for_operator(binning: float) -> str:
    """That decision points do not fit a member's own scores, which is for its operator to know and to mend."""
    return (
        f"The study's decision points move the AUC of these rows by {binning:.2g}: they do not fit the scores. "
        "Ask for a study with more of them, or with others."
    )


def _standing_lines(each: Mapping[str, Any]) -> Iterator[str]:
    rounds = f"{each['rounds']} of {each['of_rounds']} rounds"
    yield f"{each['study']}, {'ready' if each['ready'] else 'NOT READY'}, {rounds}, {each['data']} ({each['lineage']})"
    if each["prepared"] is not None:
        clipped = f", {each['clipped']:,} values clipped" if each["clipped"] else ""
        yield f"prepared {each['prepared'][:16]} from {each['rows']:,} rows{clipped}"
    if each["fits_badly"]:
        yield binning_for_operator(each["binning"])
    if each["prepared_rounds"] == 0:
        yield "everything that was prepared is used up; accept the study again"
    if each["problem"] is not None:
        yield f"the newest data cannot be used: {each['problem']}"


def rounds_table(history: Sequence[History]) -> RenderableType:
    """All rounds, for people."""
    if not history:
        return "No round has come yet."
    whole = (Column(name, no_wrap=True) for name in ("round", "began"))
    # Results are below what they came from, so that they have room on a terminal of 80 characters.
    table = Table(*whole, "result", box=box.SIMPLE_HEAD)
    for each in history:
        roster = each.round.parties if each.verdict is None else each.verdict.roster
        how = Text(f"{each.round.protocol}, {len(roster)} parties, {_state(each)}")
        table.add_row(
            f"{each.round.id[:_SHOWN_DIGITS]}…",
            f"{each.began:%Y-%m-%d %H:%M}",
            Text("\n").join([how, *_results(each)]),
        )
    return table


def _state(each: History) -> str:
    """How a round stands; a result that was released stays so, whatever came after it."""
    if each.verdict is not None:
        return each.verdict.ending.value
    if each.void:
        return "void"
    return "aborted" if each.aborted is not None else "open"


def _results(each: History) -> list[Text]:
    """A line for each number, whose name may look like rich's markup and is none."""
    if each.verdict is None:
        return []
    told = finish(each.study, each.verdict)
    lines = [row_line(each.round.protocol, row) for row in told.rows]
    confidence = each.study.interval
    if lines and confidence is not None:
        lines.append(f"in brackets: {100 * confidence:g} % intervals")
    if lines and told.verified:
        lines.append("verified")
    return [Text(line) for line in lines]


def row_line(protocol: str, row: Row) -> str:
    """One number on one line, with its interval and what to know about it."""
    number = number_in_words(protocol, row)
    interval = f" [{number.interval}]" if number.interval else ""
    remark = f", {number.remark}" if number.remark else ""
    return f"{number.name} {number.value}{interval}{remark}"
