"""As `fheval aggregator evaluate`: start a run of the app, wait for its outcome, and make sure that it ended well."""

from __future__ import annotations

import os
import time
from contextlib import closing, suppress
from pathlib import Path

from fheval.aggregator.conductor import DEFAULT_ATTEMPTS
from fheval.aggregator.orders import Order, OrderEnd, Summary
from fheval.errors import ConfigError, TransportError
from fheval.flower.control import Control
from fheval.flower.orders import clear_order, place_order, read_end
from fheval.flower.processes import interrupted_by_sigterm
from fheval.flower.state import State
from fheval.secrets import SystemRandomness

APP = Path(__file__).with_name("app")

_ORDER_NAME_BYTES = 16
_LOOK_EVERY = 0.3
# Whether a run has ended without a word.
_ASK_EVERY = 5.0
# From the outcome to the end of the run, and for starting the app: processes that load much.
_SLACK = 180.0
# Set-up, submit, pads, result (asked twice at most) and broadcast; two to void what has failed.
_EXCHANGES = 8


def evaluate(state: State, order: Order) -> Summary:
    """Have an order carried out by the SuperLink of this state directory."""
    running = state.read_running()
    if running.kit != order.kit:
        raise ConfigError(f"The aggregator in {state.directory} was started with another kit. Use --kit {running.kit}")
    name = SystemRandomness().draw(_ORDER_NAME_BYTES).hex()
    with interrupted_by_sigterm(), closing(Control(state, running.port)) as control:
        place_order(state, name, order)
        try:
            run = control.start(APP, {"order": name})
            try:
                end = _wait(state, name, control, run, running.pid, order)
            except BaseException:
                with suppress(TransportError):
                    control.stop(run)
                raise
        finally:
            clear_order(state, name)
    return end.result()


def _wait(state: State, name: str, control: Control, run: int, aggregator: int, order: Order) -> OrderEnd:
    deadline = time.monotonic() + order.patience + DEFAULT_ATTEMPTS * _EXCHANGES * order.timeout + _SLACK
    ask_again = time.monotonic() + _ASK_EVERY
    while (end := read_end(state, name)) is None:
        if not _runs(aggregator):
            raise TransportError("The aggregator was stopped during the round. Start it and try again.")
        if time.monotonic() > deadline:
            raise TransportError(f"Run {run} did not end in time and was stopped. The aggregator's output says why.")
        if time.monotonic() > ask_again:
            ask_again = time.monotonic() + _ASK_EVERY
            if control.status(run).ended and read_end(state, name) is None:
                raise TransportError(f"Run {run} failed before its round began. The aggregator's output says why.")
        time.sleep(_LOOK_EVERY)
    while not (status := control.status(run)).ended:
        if time.monotonic() > deadline:
            raise TransportError(f"Run {run} did not end after its round and was stopped.")
    if end.summary is not None and not status.completed:
        raise TransportError(f"Run {run} ended as {status.text!r} after its round. The aggregator's output says why.")
    return end


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        # One that we may not send signals to is there all the same.
        return isinstance(error, PermissionError)
    return True
