"""The aggregator's ServerApp: drives one round among the members' vaults. It sees bytes that it cannot open."""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fheval.aggregator.conductor import Report, conduct, drive
from fheval.consortium import load_aggregator_kit
from fheval.engines import load_engine
from fheval.errors import ConfigError, FhevalError
from fheval.flower.addresses import addresses
from fheval.flower.exchange import FlowerExchange
from fheval.flower.orders import (
    Failure,
    Order,
    OrderEnd,
    Summary,
    TriedRound,
    keep_keys,
    kept_keys,
    read_order,
    write_end,
)
from fheval.flower.state import STATE_VARIABLE, State
from fheval.secrets import SystemRandomness
from fheval.study import Study
from fheval.version import __version__

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry out the order that the run names; a failure fails the run as well."""
    if STATE_VARIABLE not in os.environ:
        raise ConfigError("This SuperLink was not started by fheval. Start it with: fheval aggregator up")
    state = State.at(Path(os.environ[STATE_VARIABLE]))
    name = str(context.run_config["order"])
    order = read_order(state, name)
    try:
        summary = carry_out(grid, state, order)
    except FhevalError as error:
        write_end(state, name, OrderEnd(failure=Failure.of(error)))
        raise
    write_end(state, name, OrderEnd(summary=summary))


def carry_out(grid: Grid, state: State, order: Order) -> Summary:
    """One evaluation among the members that are connected."""
    start = time.monotonic()
    policy = load_aggregator_kit(Path(order.kit), now=datetime.now(timezone.utc)).policy
    nodes = addresses(grid, state.read_registry(), order.members, patience=order.patience, timeout=order.timeout)
    engine = load_engine(order.engine)
    study = Study.from_bytes(order.study)
    post = FlowerExchange(grid, nodes, order.timeout)
    keys = kept_keys(state, policy=policy.hash())
    report = drive(conduct(study, sorted(nodes), policy, engine, SystemRandomness(), keys=keys), post)
    keep_keys(state, report.keys, policy=policy.hash())
    return summarise(order, report, post, decision_points=len(study.grid), seconds=time.monotonic() - start)


def summarise(order: Order, report: Report, post: FlowerExchange, *, decision_points: int, seconds: float) -> Summary:
    """What the operator is told: who took part, how long it took, how much was sent."""
    return Summary(
        round=report.round.id,
        protocol=report.round.protocol,
        engine=report.round.engine,
        decision_points=decision_points,
        precision="exact" if report.round.precision is None or report.round.sums else report.round.precision,
        roster=report.roster,
        # Those who were not even connected count as well.
        dropouts=tuple(name for name in order.members if name not in report.roster),
        confirmed=report.confirmed,
        leader=report.round.leader,
        attempts=tuple(
            TriedRound(round=tried.round, leader=tried.leader, failure=tried.failure) for tried in report.attempts
        ),
        exchanges=post.exchanges,
        seconds={"total": seconds, **post.seconds},
        bytes={"sent": post.sent, "received": post.received},
        fheval=__version__,
    )
