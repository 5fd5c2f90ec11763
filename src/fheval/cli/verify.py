"""`fheval verify`: check what members have signed of a round, without a network, a vault or a kit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fheval.cli import check_target, options, write_json
from fheval.cli.vault_views import row_line
from fheval.consortium.files import read_public
from fheval.consortium.kit import read_anchor
from fheval.consortium.receipt import Checked, anchor_of, check_receipt, read_receipt, require_same
from fheval.errors import ConfigError
from fheval.protocols import PROTOCOLS

app = typer.Typer()


@app.command(
    epilog="Examples:\n\n"
    "fheval verify receipt.json --authority 1f2e-3d4c-5b6a-7988-1f2e-3d4c-5b6a-7988\n\n"
    "fheval verify alder.json birch.json cedar.json --kit ./kit"
)
def verify(
    receipts: Annotated[
        list[Path],
        typer.Argument(metavar="RECEIPT.json...", help="Receipts of one round, one a member.", show_default=False),
    ],
    authority: Annotated[
        str | None,
        typer.Option(
            metavar="FINGERPRINT",
            help="The authority's fingerprint, as the consortium's operator reads it to you.",
            show_default=False,
        ),
    ] = None,
    kit: Annotated[
        Path | None,
        typer.Option("--kit", metavar="KIT", help="Or a kit of the consortium, which knows it.", show_default=False),
    ] = None,
    json: options.Json = None,
) -> None:
    """Check signed receipts of a round, and say what they prove and what they do not.

    Exit status 0 says that every receipt is in order and, if there are several, that they are of one round and have the
    same numbers; 1 that one is not.
    """
    check_target(json)
    files = {str(path): read_public(path) for path in receipts}
    trusted = _trusted(authority, kit, files)
    checked = {name: check_receipt(data, name, authority=trusted) for name, data in files.items()}
    require_same(checked)
    found = list(checked.values())
    if json is None:
        typer.echo("\n".join(_in_words(found)))
    else:
        write_json(json, _as_json(found))


def _trusted(authority: str | None, kit: Path | None, files: Mapping[str, bytes]) -> str:
    if authority is not None and kit is not None:
        raise ConfigError("Give the authority's fingerprint or a kit, not both.")
    if authority is not None:
        return authority
    if kit is not None:
        return read_anchor(kit).fingerprint()
    name, data = next(iter(files.items()))
    said = anchor_of(read_receipt(data, name), name).fingerprint()
    raise ConfigError(
        f"{name} names an authority with the fingerprint {said}, and anybody can make one. Have the consortium's "
        "operator read you its fingerprint, and give it as --authority; or name a kit with --kit."
    )


def _signers(found: Sequence[Checked]) -> list[str]:
    return [each.statement.member for each in found]


def _as_json(found: Sequence[Checked]) -> dict[str, Any]:
    one, signers = found[0], _signers(found)
    said = one.statement
    return {
        "authority": one.authority,
        "consortium": said.consortium,
        "policy_version": one.policy.version,
        "study": said.study,
        "study_hash": said.study_hash,
        "round": said.round,
        "protocol": said.protocol,
        "engine": said.engine,
        "parties": list(said.parties),
        "roster": list(said.roster),
        "leader": said.leader,
        "signed_by": signers,
        "opened_by": list(one.tellers),
        "all_openers_signed": set(one.tellers).issubset(signers),
        "ended": said.ended.isoformat(),
        "verified": said.verified,
        "results": list(said.results),
        "fheval": said.fheval,
    }


def _in_words(found: Sequence[Checked]) -> Iterator[str]:
    one, signers = found[0], _signers(found)
    said = one.statement
    yield f"In order: {_names(signers)} signed this for round {said.round[:8]} of {said.study}, {said.consortium}."
    yield ""
    for row in said.rows():
        yield f"  {row_line(said.protocol, row)}"
    yield ""
    yield f"  parties   {', '.join(said.roster)}"
    yield f"  protocol  {said.protocol} on {said.engine}, led by {said.leader}"
    yield f"  ended     {said.ended:%Y-%m-%d %H:%M} UTC, by {said.member}'s clock; fheval {said.fheval}"
    yield ""
    yield (
        f"Checked: the authority {one.authority} signed the study and the list of members, {_names(signers)} "
        f"{'is' if len(signers) == 1 else 'are'} on it and signed every word above"
        + ("." if len(signers) == 1 else ", and all say the same.")
    )
    yield f"Not checked: {' '.join(_unchecked(one, signers))}"


def _unchecked(one: Checked, signers: Sequence[str]) -> Iterator[str]:
    """What a reader still has to believe."""
    missing = [name for name in one.tellers if name not in signers]
    if missing:
        yield (
            f"{_names(missing)} opened the answer and {'has' if len(missing) == 1 else 'have'} not signed here, so "
            f"that the numbers are the word of {_names(signers)} alone."
        )
    else:
        yield f"Everyone who opened the answer, {_names(one.tellers)}, has signed; they may have agreed to lie."
    if not PROTOCOLS[one.study.protocol].resists:
        yield f"{one.study.protocol} relies on an aggregator that follows the protocol."
    yield "Nobody can check the rows that were counted, and the dates are the signers' own."


def _names(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
