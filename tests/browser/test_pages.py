"""The pages in a real browser: they render, ask for nothing, fit a phone, turn dark, and print."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest

from browser.chromium import Browser, Tab, installed, running
from fheval import Study, Table, evaluate
from fheval.protocols import PROTOCOLS
from fheval.report.account import account_of
from fheval.report.round_page import round_page
from fheval_lab.clear import ClearEngine
from fheval_lab.reproduce.page import reproduction_page
from reproduce_outcomes import every_outcome

pytestmark = pytest.mark.slow

WHEN = datetime(2026, 11, 15, 12, 30, tzinfo=timezone.utc)
PHONE, DESK = 390, 1280
# A4 less the page's margins, in pixels of which an inch has 96.
SHEET = 672
ROUNDS = ("round", "exact-round", "many-metrics", "models-and-groups", "curves")
KINDS = (*ROUNDS, "reproduction")
# Every other protocol and release: their pages are of the same parts, and tried for their width alone.
OTHER_ROUNDS = (*(name for name in PROTOCOLS if not name.startswith("padded")), "noisy-curve")

MODELS = {"new": 0.5, "old": 0.2}

# The width that the page's content takes, beyond that of the window if it does not fit.
CONTENT_WIDTH = "document.documentElement.scrollWidth"
# Every element with text of its own that is smaller than 11 px, or reaches beyond the window without scrolling.
UNREADABLE = """
[...document.querySelectorAll('body *')].filter(e =>
  [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) &&
  e.getClientRects().length && !e.closest('svg') && !e.closest('.stack thead, .forest thead') &&
  (parseFloat(getComputedStyle(e).fontSize) < 11 ||
   (!e.closest('.scroll') && e.getBoundingClientRect().right > innerWidth + 1))
).map(e => e.outerHTML.slice(0, 120))
"""
# Boxes whose own text is wider than they are, and hidden beyond that.
CUT_SHORT = """
[...document.querySelectorAll('body *')].filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth &&
  getComputedStyle(e).overflowX === 'hidden' && !e.closest('svg, .stack thead, .forest thead')
).map(e => e.outerHTML.slice(0, 120))
"""
# Letters of a plot as they are drawn, in pixels.
SMALLEST_LETTERS = """
Math.min(...[...document.querySelectorAll('svg text')].map(t =>
  parseFloat(getComputedStyle(t).fontSize) * (t.ownerSVGElement.viewBox.baseVal.width ?
    t.ownerSVGElement.getBoundingClientRect().width / t.ownerSVGElement.viewBox.baseVal.width : 1)))
"""
# Each visible text's colour, the one behind it, whether it counts as large, and some of it.
TEXTS = """
[...document.querySelectorAll('body *')].filter(e =>
  [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && e.getClientRects().length
).map(e => {
  const own = getComputedStyle(e), size = parseFloat(own.fontSize);
  let behind = e;
  while (behind && /rgba\\(0, 0, 0, 0\\)|transparent/.test(getComputedStyle(behind).backgroundColor))
    behind = behind.parentElement;
  return [e.closest('svg') ? own.fill : own.color,
    behind ? getComputedStyle(behind).backgroundColor : 'rgb(255, 255, 255)',
    size >= 24 || (size >= 18.66 && own.fontWeight >= 700), e.textContent.trim().slice(0, 40)];
})
"""
# Pictures that neither say what they show nor stand beside the numbers that they draw.
SPEECHLESS = """
[...document.querySelectorAll('svg')].filter(s => !s.parentElement.closest('svg') &&
  !((s.getAttribute('role') === 'img' && (s.getAttribute('aria-label') || '').length > 40) ||
    s.getAttribute('aria-hidden') === 'true' || s.closest('td[aria-hidden], tfoot[aria-hidden], .legend'))
).map(s => s.outerHTML.slice(0, 100))
"""
# Forest bars are drawn beside their numbers; this is how many rows lack them.
BARS_WITHOUT_NUMBERS = """
[...document.querySelectorAll('.forest tbody tr')].filter(r => !r.querySelector('th[scope=row]').textContent ||
  !r.querySelector('td.number').textContent).length
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    command = installed()
    if command is None:
        pytest.skip("chromium is not installed and pages were not tried in a browser; `make browser` installs it")
    with running(command, tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One file for each kind of page."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(4)
    labels = [rng.integers(0, 2, 40) for _ in range(4)]
    parties = [(each, np.clip(0.3 * each + 0.7 * rng.random(40), 0, 1)) for each in labels]
    long_name = "a-file-with-a-rather-long-name-" * 4 + ".csv"

    def told(**options: object) -> str:
        result = evaluate(parties, decision_points=20, engine=ClearEngine(), **options)  # type: ignore[arg-type]
        return round_page(account_of(result, [long_name]), WHEN)

    def table(rows: int) -> Table:
        labels = rng.integers(0, 2, rows)
        scores = {name: np.clip(part * labels + (1 - part) * rng.random(rows), 0, 1) for name, part in MODELS.items()}
        return Table.of(labels, scores, groups=[["F", "M"][row % 2] for row in range(rows)])

    tables = [table(60) for _ in range(3)]

    def compared(**options: object) -> str:
        study = Study.of(name="sepsis-2026", models=tuple(MODELS), decision_points=20, **options)  # type: ignore[arg-type]
        return round_page(account_of(evaluate(tables, study=study, engine=ClearEngine()), [long_name]), WHEN)

    texts = {
        "round": told(),
        "exact-round": told(protocol="padded-verified"),
        "many-metrics": told(metrics=["auc", "f1@0.5", "brier"], ci=0.95, replicates=40),
        "models-and-groups": compared(metrics=["auc", "recall@0.3"], interval=0.95, replicates=40, group_column="sex"),
        "curves": compared(release="curve", reveals="counts"),
        "reproduction": reproduction_page(every_outcome(), WHEN),
        "noisy-curve": compared(release="noisy-curve", epsilon=1.0),
        **{name: told(protocol=name) for name in OTHER_ROUNDS if name in PROTOCOLS},
    }
    for kind, text in texts.items():
        (folder / f"{kind}.html").write_text(text, encoding="utf-8")
    return {kind: folder / f"{kind}.html" for kind in texts}


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("kind", KINDS)
def test_it_renders_without_an_error_and_asks_for_nothing(
    browser: Browser, pages: dict[str, Path], kind: str, width: int
) -> None:
    tab = browser.open(pages[kind].as_uri(), width=width)
    assert tab.evaluate("document.querySelector('h1').getBoundingClientRect().height") > 20
    assert tab.evaluate("document.compatMode") == "CSS1Compat"
    assert tab.errors == []
    assert tab.requests == [pages[kind].as_uri()]
    assert len(colours(tab.screenshot())) > 10


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("kind", [*KINDS, *OTHER_ROUNDS])
def test_nothing_overflows(browser: Browser, pages: dict[str, Path], kind: str, width: int) -> None:
    tab = browser.open(pages[kind].as_uri(), width=width)
    assert tab.evaluate("innerWidth") == width
    assert tab.evaluate(CONTENT_WIDTH) <= width
    assert tab.evaluate(UNREADABLE) == []
    assert tab.evaluate(CUT_SHORT) == []


def test_a_table_scrolls_below_its_caption(browser: Browser, pages: dict[str, Path]) -> None:
    """On a phone a caption that scrolled along would be cut off beside the table's first columns."""
    tab = browser.open(pages["reproduction"].as_uri(), width=PHONE)
    assert tab.evaluate("document.querySelectorAll('.scroll caption').length") == 0
    assert tab.evaluate("[...document.querySelectorAll('.scroll')].some(e => e.scrollWidth > e.clientWidth)")
    widest = "Math.max(...[...document.querySelectorAll('.caption')].map(e => e.getBoundingClientRect().right))"
    assert 0 < tab.evaluate(widest) <= PHONE


@pytest.mark.parametrize(("kind", "figures"), [("reproduction", 6), ("curves", 5), ("models-and-groups", 3)])
def test_plots_can_be_read_on_a_phone(browser: Browser, pages: dict[str, Path], kind: str, figures: int) -> None:
    tab = browser.open(pages[kind].as_uri(), width=PHONE)
    assert tab.evaluate("document.querySelectorAll('figure').length") == figures
    assert tab.evaluate(SMALLEST_LETTERS) > 9.5


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("kind", ROUNDS)
def test_the_first_screen_has_number_interval_and_picture(
    browser: Browser, pages: dict[str, Path], kind: str, width: int
) -> None:
    """Whole numbers and intervals, and of a picture enough to see what it is, above the fold of 844 pixels."""
    tab = browser.open(pages[kind].as_uri(), width=width)
    bottoms = tab.evaluate("[...document.querySelectorAll('.figure')].map(e => e.getBoundingClientRect().bottom)")
    assert bottoms
    assert max(bottoms) < 844
    if kind in ("many-metrics", "models-and-groups"):
        assert tab.evaluate("document.querySelector('.headline .interval').getBoundingClientRect().bottom") < 844
    first = tab.evaluate("(r => [r.top, r.bottom])(document.querySelector('figure').getBoundingClientRect())")
    assert first[1] < 844 or (first[0] < 500 if width == PHONE else first[0] < 300), first
    assert tab.evaluate("document.querySelector('.eyebrow').textContent.includes('15 November 2026')")


@pytest.mark.parametrize("look", ["light", "dark", "print"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("kind", KINDS)
def test_every_text_stands_out_from_what_is_behind_it(
    browser: Browser, pages: dict[str, Path], kind: str, width: int, look: str
) -> None:
    """WCAG 2.1 AA: 4.5 to 1, for large letters 3 to 1."""
    tab = browser.open(pages[kind].as_uri(), width=width, dark=look == "dark")
    if look == "print":
        tab.call("Emulation.setEmulatedMedia", media="print")
    texts = tab.evaluate(TEXTS)
    assert len(texts) > 20
    faint = [text for *colours, large, text in texts if ratio(*colours) < (3 if large else 4.5)]
    assert faint == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_picture_has_words(browser: Browser, pages: dict[str, Path], kind: str) -> None:
    tab = browser.open(pages[kind].as_uri(), width=DESK)
    assert tab.evaluate("document.querySelectorAll('svg').length") > 0
    assert tab.evaluate(SPEECHLESS) == []
    assert tab.evaluate(BARS_WITHOUT_NUMBERS) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_it_turns_dark_with_the_system(browser: Browser, pages: dict[str, Path], kind: str) -> None:
    light, dark = (browser.open(pages[kind].as_uri(), width=DESK, dark=chosen) for chosen in (False, True))
    assert background(light) > 240
    assert background(dark) < 40
    for tab in (light, dark):
        assert contrast(tab, "body") > 10
        assert contrast(tab, "h1") > 7
        assert contrast(tab, ".caption, caption") > 4.5


@pytest.mark.parametrize("kind", KINDS)
def test_it_prints(browser: Browser, pages: dict[str, Path], kind: str) -> None:
    tab = browser.open(pages[kind].as_uri(), width=DESK, dark=True)
    printed = tab.pdf()
    assert printed.startswith(b"%PDF-")
    sheets = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 1 <= sheets <= {"reproduction": 12, "curves": 5, "models-and-groups": 4}.get(kind, 3)
    tab.call("Emulation.setEmulatedMedia", media="print")
    tab.call("Emulation.setDeviceMetricsOverride", width=SHEET, height=1000, deviceScaleFactor=1, mobile=False)
    assert tab.evaluate(CONTENT_WIDTH) <= SHEET
    assert background(tab) > 240
    assert contrast(tab, "body") > 10


@pytest.mark.parametrize(
    ("flaw", "check"),
    [
        ("<p style='width:900px'>wide</p>", "width"),
        ("<p style='font-size:6px'>small</p>", "unreadable"),
        ("<script>throw new Error('broken')</script>", "errors"),
        ("<img src='missing.png'>", "requests"),
        ("<p style='color:#999'>faint</p>", "faint"),
        ("<svg role=img aria-label=plot></svg>", "speechless"),
    ],
)
def test_a_page_with_a_flaw_is_seen_as_such(browser: Browser, tmp_path: Path, flaw: str, check: str) -> None:
    """Were these not found on a bad page, the tests above would say nothing about a good one."""
    page = tmp_path / "flawed.html"
    page.write_text(f"<!doctype html><meta name=viewport content='width=device-width'><body>{flaw}", encoding="utf-8")
    tab = browser.open(page.as_uri(), width=PHONE)
    found = {
        "width": tab.evaluate(CONTENT_WIDTH) > PHONE,
        "unreadable": tab.evaluate(UNREADABLE) != [],
        "errors": tab.errors != [],
        "requests": tab.requests != [page.as_uri()],
        "faint": any(ratio(*colours) < 4.5 for *colours, _, _ in tab.evaluate(TEXTS)),
        "speechless": tab.evaluate(SPEECHLESS) != [],
    }
    assert found[check]


def test_the_policy_of_the_page_stops_what_became_markup(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    page = tmp_path / "injected.html"
    injected = "<script>document.title = 'taken over'</script><img src='https://example.invalid/pixel.png'>"
    page.write_text(pages["round"].read_text(encoding="utf-8").replace("<main>", f"<main>{injected}"), encoding="utf-8")
    tab = browser.open(page.as_uri(), width=DESK)
    assert tab.evaluate("document.title") == "AUC over all parties"
    assert any("Content Security Policy" in error for error in tab.errors)


def background(tab: Tab) -> float:
    return max(rgb(tab.evaluate("getComputedStyle(document.body).backgroundColor")))


def contrast(tab: Tab, selector: str) -> float:
    """The contrast of text on the page's background, as WCAG defines it; 21 where there is no such element."""
    found = tab.evaluate(f"(e => e && getComputedStyle(e).color)(document.querySelector('{selector}'))")
    if found is None:
        return 21.0
    return ratio(found, tab.evaluate("getComputedStyle(document.body).backgroundColor"))


def ratio(front: str, behind: str) -> float:
    values = [luminance(rgb(each)) for each in (front, behind)]
    return (max(values) + 0.05) / (min(values) + 0.05)


def rgb(colour: str) -> tuple[float, ...]:
    return tuple(float(part) for part in re.findall(r"[\d.]+", colour)[:3])


def luminance(colour: tuple[float, ...]) -> float:
    linear = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def colours(png: bytes) -> set[bytes]:
    """Different stretches of pixel data in a screenshot: a blank page has next to none."""
    data, position = b"", 8
    while position < len(png):
        length, kind = struct.unpack(">I4s", png[position : position + 8])
        if kind == b"IDAT":
            data += png[position + 8 : position + 8 + length]
        position += 12 + length
    raw = zlib.decompress(data)
    return {raw[place : place + 12] for place in range(0, len(raw), 12)}
