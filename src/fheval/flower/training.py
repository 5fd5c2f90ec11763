"""Private metrics within somebody's own Flower app: the relay in its ClientApp, a round after each evaluation.

    fheval.flower.attach(app, door)                            # in the ClientApp's module
    fheval.flower.deposit(context, y_true, y_score, study=…)   # within @app.evaluate()
    strategy = fheval.flower.PrivateMetrics(FedAvg(), study)   # in the ServerApp

docs/flower.md says what changes in trust when the app itself holds the scores.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from numpy.typing import ArrayLike

from fheval.aggregator.orders import Order, Post, Summary, carry_out
from fheval.consortium import load_aggregator_kit
from fheval.drawing.figures import fragment
from fheval.drawing.plots import Axis, Series, plot
from fheval.errors import ConfigError, FhevalError
from fheval.evaluation import Row
from fheval.evaluation.shown import flat_metrics
from fheval.flower.deposits import write_scores
from fheval.flower.exchange import FlowerExchange
from fheval.flower.names import ask_names
from fheval.flower.relay import Door, add_relay
from fheval.flower.shim import to_socket
from fheval.flower.simulated import Trial
from fheval.party.core import utc_now

# What a SuperNode's configuration calls the folder in which its app leaves scores for the vault.
SCORES_FOLDER = "scores"

DEFAULT_TIMEOUT = 120.0

_log = logging.getLogger("fheval.flower")


def attach(app: ClientApp, door: Door | None = None) -> ClientApp:
    """Let a ClientApp relay the messages of rounds to its party's vault, beside whatever else it does.

    `door` is a `trial` in a simulation; without one it is the socket that the SuperNode's configuration names.
    """
    return add_relay(app, to_socket if door is None else door)


def deposit(context: Context, y_true: ArrayLike, y_score: ArrayLike, *, study: str | Trial) -> None:
    """Within `@app.evaluate`: leave labels (0 or 1) and scores for the next round of a study.

    In a deployment they go to a file of the study's name in the folder that the SuperNode's configuration names, which
    the party's operator accepted the study for; the vault prepares them when it next looks.
    """
    if isinstance(study, Trial):
        study.deposit(context, y_true, y_score)
        return
    folder = context.node_config.get(SCORES_FOLDER)
    if not isinstance(folder, str) or not study.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(
            f"Nobody said where the scores of study {study!r} go. Start the SuperNode with "
            f"--node-config '{SCORES_FOLDER}=\"FOLDER\"', and name the study by its plain name."
        )
    write_scores(Path(folder) / f"{study}.npy", y_true, y_score)


class PrivateMetrics(Strategy):
    """Any strategy, with a round of a study after each evaluation, or after every k-th.

    What comes out reaches the members, and this server where the study says so: then it is added to the evaluation's
    metrics, under names such as `private-auc` and `private-auc-low`, and kept in `results` by the number of the
    training round. A round that fails is logged, and training goes on.
    """

    def __init__(
        self,
        strategy: Strategy,
        study: str | Trial,
        kit: str | Path | None = None,
        *,
        every: int = 1,
        wait: float = 0.0,
        timeout: float = DEFAULT_TIMEOUT,
        engine: str | None = None,
    ) -> None:
        """Wrap a strategy.

        `kit` is the aggregator's, which a trial brings along. With `every=k` only every k-th evaluation is followed by
        a round. `wait` is how many seconds vaults are given to prepare what was just deposited, and `timeout` how long
        to wait for them at each stage.
        """
        if every < 1:
            raise ConfigError(f"A round after every {every}-th evaluation cannot be. Let `every` be 1 or more.")
        if kit is None and not isinstance(study, Trial):
            raise ConfigError("A round needs the aggregator's kit. Name its directory.")
        self.strategy = strategy
        self.results: dict[int, tuple[Row, ...]] = {}
        self._study = study
        self._kit = None if kit is None else Path(kit)
        self._every = every
        self._wait = wait
        self._timeout = timeout
        self._engine = engine
        self._grid: Grid | None = None

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return self.strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        return self.strategy.aggregate_train(server_round, replies)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self._grid = grid
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """What the strategy makes of the replies, and the private metrics of the same model."""
        found = self.strategy.aggregate_evaluate(server_round, replies)
        if self._grid is None or server_round % self._every:
            return found
        try:
            summary = self._round(self._grid)
        except FhevalError as error:
            _log.warning("There are no private metrics of round %s: %s", server_round, error)
            return found
        told = summary.told
        if told is None or told.numbers is None:
            reason = "the study lets members alone learn them" if told is None else told.problem
            _log.info("The private metrics of round %s are with the members: %s", server_round, reason)
            return found
        self.results[server_round] = told.numbers.rows
        metrics = MetricRecord() if found is None else found
        metrics.update(as_metrics(told.numbers.rows))
        return metrics

    def plot(self, metric: str = "auc", **beside: Mapping[int, float]) -> str:
        """A metric by training round, with its interval, as a piece of HTML; `beside` has other lines by name."""
        rows = {number: row for number, rows in self.results.items() for row in rows if row.metric == metric}
        rounds = [number for number, row in rows.items() if row.value is not None]
        private = Series(
            "private",
            tuple((float(number), float(rows[number].value or 0.0)) for number in rounds),
            spread=tuple((low, high) for number in rounds for low, high in [_ends(rows[number])]),
        )
        others = [
            Series(name, tuple((float(number), value) for number, value in line.items()), reference=True)
            for name, line in beside.items()
        ]
        caption = "Bars are the intervals of the private metric, or how far its release may be off."
        return fragment(
            plot([private, *others], Axis("training round"), Axis(metric), title=metric, caption=caption, values=True)
        )

    def summary(self) -> None:
        self.strategy.summary()

    def __getattr__(self, name: str) -> Any:
        # Asked for before there is a strategy, for instance by copy, this would look for itself forever.
        if name == "strategy":
            raise AttributeError(name)
        return getattr(self.strategy, name)

    def _round(self, grid: Grid) -> Summary:
        time.sleep(self._wait)
        parties = len(list(grid.get_node_ids()))
        trial = self._study if isinstance(self._study, Trial) else None
        directory = trial.kit(grid.run.run_id, parties) if trial else self._kit
        kit = load_aggregator_kit(Path(str(directory)), now=utc_now())
        order = Order(
            kit=str(directory),
            members=tuple(record.name for record in kit.policy.members),
            study=trial.study.name if trial else str(self._study),
            engine=self._engine,
            timeout=self._timeout,
            patience=self._timeout,
        )
        nodes = ask_names(grid, order)
        post = Post(FlowerExchange(grid, nodes, order.timeout))
        return carry_out(order, kit, sorted(nodes), post, kit.directory / "keys")


def _ends(row: Row) -> tuple[float, float]:
    """The interval of a number or, where it has none, what rounding and binning leave open."""
    if row.low is not None and row.high is not None:
        return row.low, row.high
    value, open_ = row.value or 0.0, error_of(row)
    return value - open_, value + open_


def error_of(row: Row) -> float:
    """How far a released number may be from that of the pooled scores themselves: its rounding and its binning."""
    rounding = row.precision if isinstance(row.precision, float) else 0.0
    return rounding + (row.binning or 0.0)


def as_metrics(rows: Iterable[Row]) -> dict[str, float]:
    """Numbers by flat names, for a `MetricRecord`; those that are undefined are left out.

    >>> as_metrics([Row(metric="auc", value=0.8, low=0.7, high=0.9)])
    {'private-auc': 0.8, 'private-auc-low': 0.7, 'private-auc-high': 0.9}
    """
    return {
        f"private-{name.replace('.low', '-low').replace('.high', '-high')}": number
        for name, number in flat_metrics(rows).items()
    }
