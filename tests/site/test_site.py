"""The documentation site as `make docs` left it: links lead somewhere, search finds, pages fit, nothing is fetched."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest

from browser.chromium import Browser, installed, running

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
# A site that was built from older sources would say nothing about these.
FRESH = os.environ.get("FHEVAL_SITE_IS_FRESH") == "1" and (SITE / "index.html").is_file()
pytestmark = pytest.mark.skipif(not FRESH, reason="`make docs` builds the site and then tries it")
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html")) if FRESH else []
SHOWN = (
    "index.html",
    "rounds.html",
    "notebooks/two_models.html",
    "reference/api.html",
    "numbers/attack.html",
    "numbers/reproduce.html",
)
AUDIENCES = ("data-scientists", "statisticians", "operators", "security-officers", "contributors")


class Links(HTMLParser):
    """Collects what a page links to and loads, and its anchors."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed((SITE / page).read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.targets.append(found["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in found:
            self.loaded.append(found["src"])
        elif tag == "link" and found.get("rel") != "canonical":
            self.loaded.append(found.get("href", ""))


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere_and_nothing_is_fetched(page: str) -> None:
    links = Links(page)
    for target in links.targets + links.loaded:
        parts = urlsplit(target)
        assert not parts.scheme or parts.scheme == "data", f"{page} reaches out to {target}"
        if page == "404.html" or not parts.path:
            continue
        file = ((SITE / page).parent / unquote(parts.path)).resolve()
        file = file / "index.html" if file.is_dir() else file
        assert file.is_file(), f"{page}: {target}"
        if parts.fragment and file.suffix == ".html":
            assert parts.fragment in Links(file.relative_to(SITE).as_posix()).anchors, f"{page}: {target}"


def test_there_is_a_page_for_each_audience_and_every_notebook_ran() -> None:
    for name in AUDIENCES:
        assert (SITE / f"{name}.html").is_file()
    notebooks = (Path(__file__).resolve().parents[2] / "docs" / "notebooks").glob("*.py")
    for notebook in notebooks:
        assert f"notebooks/{notebook.stem}.html" in PAGES
    assert 'class="drawn"' in (SITE / "notebooks" / "two_models.html").read_text(encoding="utf-8")


def test_every_protocol_has_its_picture() -> None:
    from fheval.protocols import PROTOCOLS

    text = (SITE / "rounds.html").read_text(encoding="utf-8")
    for name in PROTOCOLS:
        assert re.search(rf'aria-label="A round of {name}\. [^"]*submit', text), name


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The site served on loopback."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    command = installed()
    if command is None:
        pytest.skip("chromium is not installed and the site was not tried in a browser; `make browser` installs it")
    with running(command, tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.mark.parametrize("wanted", ["interval", "collusion", "study"])
def test_search_finds(browser: Browser, address: str, wanted: str) -> None:
    tab = browser.open(f"{address}/index.html", width=1280)
    type_in = """(text => {
      const box = document.querySelector('.md-search__input');
      box.focus(); box.value = text;
      for (const kind of ['input', 'keyup', 'change']) box.dispatchEvent(new Event(kind, {bubbles: true}));
    })"""
    deadline = time.monotonic() + 60
    found: list[str] = []
    while not found and time.monotonic() < deadline:
        tab.evaluate(f"{type_in}('{wanted}')")
        time.sleep(0.3)
        found = tab.evaluate("[...document.querySelectorAll('.md-search-result__link')].map(e => e.textContent)")
    assert found, f"search does not find {wanted}"
    assert wanted in " ".join(found).lower()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", PAGES)
def test_no_page_overflows(browser: Browser, address: str, page: str, width: int) -> None:
    tab = browser.open(f"{address}/{page}", width=width)
    assert tab.evaluate("innerWidth") == width
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", SHOWN)
def test_a_page_fits_and_asks_only_its_own_server(
    browser: Browser, address: str, page: str, width: int, dark: bool
) -> None:
    tab = browser.open(f"{address}/{page}", width=width, dark=dark)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert [each for each in tab.requests if not each.startswith((address, "data:", "blob:"))] == []
    assert tab.errors == []
    unnamed = "[...document.querySelectorAll('article img')].filter(e => (e.alt || '').length < 20).length"
    assert tab.evaluate(unnamed) == 0
    speechless = "[...document.querySelectorAll('article svg.round, article figure > svg')].filter(e => !e.ariaLabel)"
    assert tab.evaluate(f"{speechless}.length") == 0
