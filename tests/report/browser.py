"""Open a report in headless Chromium and say what happened there.

``open_report(path)`` returns facts; ``PageFacts.problems()`` turns them into sentences, none for
a good report. Tests of any study may use it::

    assert open_report(path, figures=["residuals"]).problems() == []

Without a browser the test is skipped and says so; with ``HEADCOUNT_REQUIRE_BROWSER=1`` in the
environment it fails instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

T = TypeVar("T")

BROWSER_NAMES = ("chromium", "chromium-browser", "google-chrome")
REQUIRE_VARIABLE = "HEADCOUNT_REQUIRE_BROWSER"
WAIT_MS = 300_000
"""For whatever a browser does, on a busy machine too: nobody waits so long unless it hangs."""

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
)

# Marks that can be seen: of the data (not of axes and legends), with a shape, not transparent.
_FIGURE_FACTS = """
() => Array.from(document.querySelectorAll("figure[data-figure]"), (figure) => {
  const drawing = figure.querySelector(".chart svg.marks, .chart canvas.marks");
  const box = drawing ? drawing.getBoundingClientRect() : { width: 0, height: 0 };
  const marks = Array.from(
    figure.querySelectorAll("svg.marks g.role-mark:not(.mark-group) > *"),
    (mark) => (mark.getAttribute("opacity") === "0" ? "" :
      (mark.getAttribute("d") ?? mark.textContent) + (mark.getAttribute("transform") ?? "")),
  ).filter((mark) => mark !== "");
  return { name: figure.dataset.figure, width: box.width, height: box.height, marks };
})
"""


@dataclass(frozen=True)
class FigureFacts:
    """One figure as drawn: its size in pixels and the outline of each visible mark."""

    name: str
    width: float
    height: float
    marks: tuple[str, ...]


@dataclass(frozen=True)
class PageFacts:
    """What a browser met when it opened a report."""

    state: str
    expected_figures: tuple[str, ...]
    figures: tuple[FigureFacts, ...]
    console_errors: tuple[str, ...]
    console_warnings: tuple[str, ...]
    page_errors: tuple[str, ...]
    requests: tuple[str, ...]
    overflow: int

    def figure(self, name: str) -> FigureFacts:
        """The figure of that name."""
        return next(figure for figure in self.figures if figure.name == name)

    def problems(self) -> list[str]:
        """Everything that makes the report unfit, one sentence each."""
        found = [] if self.state == "ready" else [f"the page is {self.state!r}, not 'ready'"]
        found += [f"console error: {text}" for text in self.console_errors]
        found += [f"page error: {text}" for text in self.page_errors]
        found += [f"network request: {url}" for url in self.requests]
        drawn = [figure.name for figure in self.figures]
        found += [f"missing figure: {name}" for name in self.expected_figures if name not in drawn]
        for figure in self.figures:
            if figure.width < 50 or figure.height < 50:
                found.append(f"figure {figure.name} is {figure.width} x {figure.height} pixels")
            if not figure.marks:
                found.append(f"figure {figure.name} shows no marks")
        return found


def browser_path() -> str | None:
    """The first Chromium on the path."""
    return next((found for name in BROWSER_NAMES if (found := shutil.which(name))), None)


def require_browser() -> str:
    """The path of a browser; otherwise skip the test, or fail it if one is required."""
    path = browser_path()
    if path is None:
        _refuse("no browser on the path (tried " + ", ".join(BROWSER_NAMES) + ")")
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        _refuse("the Python package playwright is not installed")
    return path


def in_browser(use: Callable[[Page], T], *, width: int = 1280, height: int = 900) -> T:
    """What ``use`` finds on a new page, with nothing left of any page before."""
    require_browser()

    def opened() -> T:
        context = _browser().new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(WAIT_MS)
        try:
            return use(context.new_page())
        finally:
            context.close()

    return _browser_thread().submit(opened).result()


def close_browser() -> None:
    """Close the browser that all tests of this process shared, if one was opened."""
    if _browser.cache_info().currsize:
        _browser_thread().submit(_browser().close).result()
    _browser_thread().shutdown()


@cache
def _browser_thread() -> ThreadPoolExecutor:
    """Where the browser is used: playwright leaves an event loop running in its thread."""
    return ThreadPoolExecutor(max_workers=1)


@cache
def _browser() -> Browser:
    """One browser for all tests of a process, since each start takes a second."""
    from playwright.sync_api import sync_playwright

    playwright = sync_playwright().start()
    browser = playwright.chromium.launch(
        executable_path=require_browser(), args=list(_FLAGS), timeout=WAIT_MS
    )
    browser.on("disconnected", lambda _: playwright.stop())
    return browser


def open_report(
    path: Path,
    *,
    figures: Sequence[str] = (),
    width: int = 1280,
    use: Callable[[Page], Any] | None = None,
) -> PageFacts:
    """Open ``path``, wait until its figures are drawn, ``use`` the page if asked, take stock.

    ``figures`` are names that must be there; those the page itself announces are checked anyway.
    """
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    address = Path(path).resolve().as_uri()
    errors: list[str] = []
    warnings: list[str] = []
    thrown: list[str] = []
    requests: list[str] = []

    def look(page: Page) -> tuple[tuple[FigureFacts, ...], tuple[str, int, int]]:
        kinds = {"error": errors, "warning": warnings}
        page.on("console", lambda message: kinds.get(message.type, []).append(message.text))
        page.on("pageerror", lambda error: thrown.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address, wait_until="load")
        with suppress(PlaywrightTimeout):  # the state then says "loading", a problem
            page.wait_for_function(
                "() => document.body.dataset.state !== 'loading'",
                timeout=WAIT_MS if not thrown else 3_000,
            )
        if use is not None:
            use(page)
        return figure_facts(page), page.evaluate(
            """() => [document.body.dataset.state, Number(document.body.dataset.figures),
            document.documentElement.scrollWidth - document.documentElement.clientWidth]"""
        )

    drawn, (state, announced, overflow) = in_browser(look, width=width)
    missing = announced - len(drawn)
    unnamed = [f"{missing} of the {announced} announced"] if missing > 0 else []
    return PageFacts(
        state=state,
        expected_figures=(*figures, *unnamed),
        figures=drawn,
        console_errors=tuple(errors),
        console_warnings=tuple(warnings),
        page_errors=tuple(thrown),
        requests=tuple(url for url in requests if url.split("#")[0] != address),
        overflow=overflow,
    )


def figure_facts(page: Page) -> tuple[FigureFacts, ...]:
    """The figures as they are now: call it before and after using a control."""
    facts = page.evaluate(_FIGURE_FACTS)
    return tuple(FigureFacts(**{**fact, "marks": tuple(fact["marks"])}) for fact in facts)


def choose(page: Page, figure: str, *, column: str, value: str) -> None:
    """Choose ``value`` in a figure's control for ``column``, and wait until it is redrawn."""
    from headcount.report.figures import control_name

    page.select_option(f"#{figure} select[name='{control_name(column)}']", label=value)
    # Vega redraws in an animation frame; two of them later the picture is there.
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


def _refuse(reason: str) -> NoReturn:
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(f"{REQUIRE_VARIABLE}=1 but {reason}")
    pytest.skip(f"browser: report not opened: {reason}")
