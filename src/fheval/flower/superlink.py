"""The aggregator's SuperLink: started on loopback behind the gate, with the members of the policy registered."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from threading import Event

from fheval.consortium import AggregatorKit
from fheval.direct.front import allow_files, reserved
from fheval.errors import TransportError
from fheval.flower.control import Control
from fheval.flower.environment import flower_environment, flower_program
from fheval.flower.gate import opened_gate
from fheval.flower.processes import Child, free_port, told_to_stop
from fheval.flower.state import LOOPBACK, STATE_VARIABLE, Registered, Registry, Running, State

_START_SECONDS = 120.0
_LOOK_EVERY = 0.2


def run_aggregator(
    kit: AggregatorKit, state: State, host: str, port: int, *, now: datetime, on_ready: Callable[[], None]
) -> None:
    """Run SuperLink and gate until a signal ends them; a SuperLink that ends by itself is a `TransportError`."""
    allow_files()
    inside = free_port(LOOPBACK)
    with told_to_stop() as told, state.held(), reserved(host, port) as outside, _start(state, inside, now=now) as child:
        _wait_until_healthy(child, state, inside, told)
        with closing(Control(state, inside)) as control:
            register_members(kit, state, control, told)
        if told.is_set():
            return
        state.write_running(Running(pid=os.getpid(), port=inside, kit=str(kit.directory.absolute())))

        async def stand_at_gate() -> None:
            async with opened_gate(
                outside,
                certificate=kit.certificate,
                key=kit.key,
                inside=(LOOPBACK, inside),
                inside_authority=state.inside_authority,
            ):
                on_ready()
                while not told.is_set():
                    if child.status() is not None:
                        raise TransportError(f"SuperLink ended with status {child.status()}. Its output says why.")
                    await asyncio.sleep(_LOOK_EVERY)

        try:
            asyncio.run(stand_at_gate())
        finally:
            state.forget_running()


def _start(state: State, port: int, *, now: datetime) -> Child:
    state.renew_inside(now=now)
    command = [
        flower_program("flower-superlink"),
        *("--host", LOOPBACK, "--port", str(port)),
        *("--ssl-certfile", str(state.inside_certificate)),
        *("--ssl-keyfile", str(state.inside_key)),
        *("--ssl-ca-certfile", str(state.inside_authority)),
        *("--database", str(state.database)),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
    ]
    return Child(command, {**flower_environment(state.flower_home), STATE_VARIABLE: str(state.directory)})


def _wait_until_healthy(child: Child, state: State, port: int, told: Event) -> None:
    trusted = ssl.create_default_context(cafile=state.inside_authority)
    deadline = time.monotonic() + _START_SECONDS
    while not told.is_set():
        if child.status() is not None:
            raise TransportError(f"SuperLink ended with status {child.status()} while it started. Its output says why.")
        if time.monotonic() > deadline:
            raise TransportError(f"SuperLink was not ready after {_START_SECONDS:.0f} s. Its output says why.")
        try:
            with urllib.request.urlopen(f"https://{LOOPBACK}:{port}/health", timeout=5, context=trusted):
                return
        except OSError:
            told.wait(_LOOK_EVERY)


def register_members(kit: AggregatorKit, state: State, control: Control, told: Event) -> None:
    """Let SuperLink know the policy's members: new keys are registered, those that are gone are forgotten."""
    known = state.read_registry().members
    files = kit.supernode_keys()
    wanted = {name: path.read_text(encoding="ascii").strip() for name, path in files.items()}
    kept = {name: entry for name, entry in known.items() if wanted.get(name) == entry.key}
    for name in sorted(known.keys() - kept.keys()):
        control.unregister(known.pop(name).node)
        state.write_registry(Registry(members=known))
    missing = sorted(wanted.keys() - kept.keys())
    if missing and not told.is_set():
        for name, node in zip(missing, control.register([files[name] for name in missing]), strict=True):
            kept[name] = Registered(key=wanted[name], node=node)
            state.write_registry(Registry(members=kept))
