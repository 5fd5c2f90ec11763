"""Debian's chromium without a window, driven through its debugging pipe."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMANDS = ("chromium", "chromium-browser", "google-chrome")
# No window, no profile of anybody's, and no talk with anyone by the browser itself.
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0


def installed() -> str | None:
    """The path of the browser, if there is one."""
    return next((path for path in map(shutil.which, COMMANDS) if path), None)


@dataclass
class Tab:
    """One page in the browser, and what it did: errors it reported, addresses it asked for."""

    browser: Browser
    session: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, parameters, self.session)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def pdf(self) -> bytes:
        """The page as it prints on A4."""
        return base64.b64decode(self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])

    def note(self, event: dict[str, Any]) -> None:
        """Keep what a well-behaved page never does."""
        parameters = event.get("params", {})
        match event["method"]:
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.errors.append(json.dumps(parameters["args"]))
            case "Log.entryAdded":
                self.errors.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])


class Browser:
    """A running browser; messages are JSON, each ended by a zero byte."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer = b""
        self._number = 0
        self._tabs: dict[str, Tab] = {}
        self._loaded: set[str] = set()

    def open(self, address: str, *, width: int, dark: bool = False) -> Tab:
        """Load an address in a new tab of that width."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        tab = self._tabs[session] = Tab(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.call("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.call("Emulation.setEmulatedMedia", features=[scheme])
        tab.call("Page.navigate", url=address)
        deadline = time.monotonic() + PATIENCE
        while session not in self._loaded:
            self._take(self._read(deadline))
        return tab

    def call(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        """Ask the browser for something and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer.get('error')}"
                result = answer["result"]
                assert isinstance(result, dict)
                return result
            self._take(answer)

    def _take(self, event: dict[str, Any]) -> None:
        session = event.get("sessionId", "")
        if event.get("method") == "Page.loadEventFired":
            self._loaded.add(session)
        elif session in self._tabs:
            self._tabs[session].note(event)

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"chromium said nothing for {PATIENCE:g} s"
            piece = os.read(self._from, 1 << 20)
            assert piece, "chromium ended"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        event = json.loads(text)
        assert isinstance(event, dict)
        return event


@contextmanager
def running(command: str, profile: Path) -> Iterator[Browser]:
    """Start a browser with a profile of its own; it ends with this block."""
    # The browser reads from descriptor 3 and writes to 4: ours are kept clear of both.
    ends = [_above_nine(end) for pair in (os.pipe(), os.pipe()) for end in pair]
    browser_reads, we_write, we_read, browser_writes = ends

    def take_places() -> None:
        os.dup2(browser_reads, 3)
        os.dup2(browser_writes, 4)

    process = subprocess.Popen(
        [command, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(3, 4),
        preexec_fn=take_places,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(browser_reads)
    os.close(browser_writes)
    try:
        yield Browser(we_write, we_read)
    finally:
        process.kill()
        process.wait()
        os.close(we_write)
        os.close(we_read)


def _above_nine(descriptor: int) -> int:
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved
