"""`fheval aggregator`: run the hub that members connect to, and rounds among them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from fheval.aggregator.orders import Order, Summary
from fheval.cli import check_target, options, write_json
from fheval.cli.fingerprints import heard_authority
from fheval.cli.progress import exchange_bar
from fheval.cli.transports import Transport, TransportName
from fheval.cli.vault_views import row_line
from fheval.consortium import AggregatorKit, Policy, load_aggregator_kit
from fheval.consortium.bulletin import read_bulletin, take_bulletin
from fheval.consortium.signed_study import require_playable
from fheval.direct.front import MOST_CONNECTIONS
from fheval.errors import ConfigError
from fheval.flower.environment import require_flower
from fheval.flower.evaluation import evaluate as carry_out
from fheval.flower.state import State
from fheval.party.log import log_to_standard_error
from fheval.secrets import SystemRandomness
from fheval.study import Study

if TYPE_CHECKING:
    from fheval.direct.service import Progress, Said

app = typer.Typer(
    no_args_is_help=True,
    help="Run the aggregator of a consortium. It learns a result only where a study says so; members see it in their "
    "vaults.",
    epilog="Start with: fheval aggregator up --kit ./hub --host 0.0.0.0 --port 9092 --state ./state",
)

KitDirectory = Annotated[Path, typer.Option("--kit", metavar="KIT", help="The aggregator's kit.", show_default=False)]
StateDirectory = Annotated[
    Path,
    typer.Option(
        "--state", metavar="DIR", help="Where it keeps files of its own; made if missing.", show_default=False
    ),
]


@app.command(
    epilog="Examples:\n\nfheval aggregator up --kit ./hub --host 0.0.0.0 --port 9092 --state ./state\n\n"
    "fheval aggregator up --kit ./hub --state ./state --consortium consortium.fhev --authority 12ab-34cd-…"
)
def up(
    kit: KitDirectory,
    state: StateDirectory,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on for members.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on for members.")] = 9092,
    consortium: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Complete the kit, or renew it, with the authority's bulletin first."),
    ] = None,
    authority: Annotated[
        str | None,
        typer.Option(
            metavar="FINGERPRINT", help="The authority's fingerprint, as its operator told you; otherwise it is asked."
        ),
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65535,
            help="With direct: figures for Prometheus on this port of 127.0.0.1.",
        ),
    ] = None,
    connections: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="With direct: the most connections that are kept; each takes three of the process's open files.",
        ),
    ] = MOST_CONNECTIONS,
    transport: Transport = TransportName.DIRECT,
) -> None:
    """Take the connections of the policy's members, with TLS, until Ctrl-C or SIGTERM."""
    if transport is TransportName.FLOWER:
        require_flower()
    now = datetime.now(timezone.utc)
    if consortium is not None:
        take_bulletin(kit, read_bulletin(consortium), authority=heard_authority(kit, authority), now=now)
    loaded = load_aggregator_kit(kit, now=now)

    def ready() -> None:
        members, consortium = len(loaded.policy.members), loaded.policy.consortium
        typer.echo(f"Ready for {members} members of {consortium} at {host}:{port}.")

    if transport is TransportName.DIRECT:
        from fheval.direct.service import run_hub

        log_to_standard_error("fheval.hub")
        run_hub(kit, state, host, port, metrics=metrics, connections=connections, on_ready=ready)
    else:
        from fheval.flower.superlink import run_aggregator

        run_aggregator(loaded, State.at(state), host, port, now=now, on_ready=ready)


@app.command(epilog="Example: fheval aggregator status --state ./state --json -")
def status(state: StateDirectory, json_target: options.Json = None) -> None:
    """Show who is connected since when, with which version and clock, and the last round."""
    from fheval.direct.service import SOCKET, ask_status

    check_target(json_target)
    if not (state / SOCKET).exists():
        State(state).read_running()  # where none is up at all, it says so
        raise ConfigError(f"The aggregator in {state} runs over Flower. Who is connected is in SuperLink's own output.")
    found = ask_status(state)
    if json_target is not None:
        write_json(json_target, msgspec.to_builtins(found))
        return
    studies = ", ".join(found.studies) or "none"
    typer.echo(f"{found.consortium}, policy version {found.policy}, at {found.address}. Studies: {studies}.")
    for each in found.members:
        clock = "" if each.clock is None else f", clock {each.clock:+.1f} s"
        vault = "its vault does not answer" if each.policy is None else f"policy version {each.policy}"
        there = f"since {each.since} from {each.peer}, fheval {each.fheval}{clock}, {vault}"
        typer.echo(f"{each.member}: {'not connected' if each.since is None else there}")
    if found.running:
        typer.echo("A round is running.")
    if found.last is not None:
        took = found.last.seconds["total"]
        typer.echo(
            f"Last round: {found.last.round} at {found.last_at}, {len(found.last.roster)} members, {took:.1f} s."
        )


@app.command(epilog="Example: fheval aggregator evaluate --study sepsis-2026 --kit ./hub --state ./state --json -")
def evaluate(
    kit: KitDirectory,
    state: StateDirectory,
    study: Annotated[
        str, typer.Option(metavar="NAME", help="The signed study that a round is asked of.", show_default=False)
    ],
    engine: options.EngineName = None,
    member: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Ask this member; repeat for more. Otherwise: all.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Who has not answered a request by then has dropped out.")
    ] = 120.0,
    patience: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for members that are not connected.")
    ] = 20.0,
    begin_anew: Annotated[
        bool,
        typer.Option(
            "--begin-anew", help="Forget who took part in earlier rounds: all members have reset their budgets."
        ),
    ] = False,
    json_target: options.Json = None,
) -> None:
    """Run one round of a study among the members that are connected; their vaults keep the result.

    It is shown here as well where the study says so (learns = "members and aggregator"), once its leader and checkers
    have signed the same numbers. The study says all that is asked. Members answer those that their operators accepted;
    a new one goes into the kit with `fheval consortium update`.
    """
    check_target(json_target)
    loaded = load_aggregator_kit(kit, now=datetime.now(timezone.utc))
    order = Order(
        kit=str(kit.absolute()),
        members=_chosen_members(loaded, member),
        study=study,
        engine=engine,
        timeout=timeout,
        patience=patience,
        begin_anew=begin_anew,
    )
    asked = loaded.study(study)
    _require_playable(asked, order.members, loaded.policy)
    summary = _carry_out(state, order)
    if json_target is not None:
        write_json(json_target, _to_dict(asked, summary))
    else:
        _show(asked, summary)


def _require_playable(study: Study, members: Sequence[str], policy: Policy) -> None:
    """Refuse at once what every vault would refuse, without saying why, after seconds."""
    now = datetime.now(timezone.utc)
    if study.until is not None and now.date() > study.until:
        raise ConfigError(f"The study ended on {study.until}. Ask the authority for a new one.")
    policy.check_round(study, members, now=now)
    call = study.call(SystemRandomness(), engine="", parties=members, leader=(study.may_lead(members) or members)[0])
    require_playable(study, study.round(call))


def _carry_out(state: Path, order: Order) -> Summary:
    """Have the aggregator that is up in this directory run the round, over whichever transport it serves."""
    from fheval.direct.service import SOCKET, ask_round

    if (state / SOCKET).exists():
        with exchange_bar() as show:
            return ask_round(state, order, lambda told: show(*_in_words(told)))
    require_flower()
    return carry_out(State.at(state), order)


def _in_words(told: Said | Progress) -> tuple[str, int, int]:
    from fheval.direct.service import Said

    return (told.words, 0, 0) if isinstance(told, Said) else (told.stage, told.done, told.whole)


def _chosen_members(kit: AggregatorKit, names: list[str] | None) -> tuple[str, ...]:
    all_names = tuple(record.name for record in kit.policy.members)
    for name in names or ():
        if name not in all_names:
            raise ConfigError(f"--member {name} is not in the policy, which has: {', '.join(all_names)}.")
    return tuple(dict.fromkeys(names)) if names else all_names


def _to_dict(study: Study, summary: Summary) -> dict[str, Any]:
    """The summary, and the numbers where the study lets the aggregator learn them."""
    content: dict[str, Any] = msgspec.to_builtins(summary)
    del content["told"]
    told = summary.told
    if told is None:
        return content
    numbers = {} if told.numbers is None else told.numbers.to_dict(study)
    return content | {"told_by": list(told.by), "problem": told.problem} | numbers


def _show(study: Study, summary: Summary) -> None:
    typer.echo(f"Round {summary.round} took {summary.seconds['total']:.1f} s in {summary.exchanges} exchanges.")
    keepers = f"Committee: {', '.join(summary.committee)}" if summary.committee else f"Leader: {summary.leader}"
    typer.echo(f"Roster: {', '.join(summary.roster)}. {keepers}.")
    if summary.dropouts:
        typer.echo(f"Dropped out: {', '.join(summary.dropouts)}.")
    if summary.unconfirmed:
        typer.echo(f"Not confirmed by {', '.join(summary.unconfirmed)}, who get the outcome when they are back.")
    for tried in summary.attempts:
        if tried.failure is not None:
            cost = "It has cost no release." if tried.void else "It may have cost the members who took part a release."
            typer.echo(f"An attempt led by {tried.leader} failed: {tried.failure} {cost}")
    told = summary.told
    if told is not None and told.numbers is not None:
        for row in told.numbers.rows:
            typer.echo(row_line(study.protocol, row))
        if study.interval is not None:
            typer.echo(f"In brackets: {study.interval:.4g} intervals.")
        typer.echo(f"Signed by {', '.join(told.by)}.")
    elif told is not None:
        typer.echo(f"The aggregator has no numbers of this round. {told.problem}")
    typer.echo("Members see the result with: fheval vault rounds")
