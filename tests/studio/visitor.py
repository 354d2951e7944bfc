"""Somebody at a browser who uses the studio by keyboard alone, and notes whatever goes wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tests.report.browser import in_browser
from tests.studio.client import Client

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page

T = TypeVar("T")

PICTURES = "HEADCOUNT_PICTURES"
"""A variable with a folder, into which pictures of the screens are put for the documentation."""

MOST_TABS = 150
_SIDEWAYS = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
_FOCUSED = """() => { const e = document.activeElement;
  return (e.labels?.[0] ?? e).textContent.replace(/\\s+/g, " ").trim(); }"""


@dataclass
class Visitor:
    """A page of the studio, and what was wrong with it so far."""

    client: Client
    page: Page
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda asked: self._own(asked.url))

    def _heard(self, said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            self.faults.append(said.text)

    def _own(self, url: str) -> None:
        if not url.startswith(f"{self.client.origin}/"):
            self.faults.append(f"a request to another host: {url}")

    def enter(self) -> None:
        """Open the studio by its first address."""
        self.page.goto(self.client.server.address)
        self.page.wait_for_url(re.compile(r"/[\w-]+/$"))

    def open(self, path: str, **query: str) -> None:
        """A screen by its address."""
        self.page.goto(self.client.origin + self.client.target(path, **query))

    def reach(self, words: str) -> None:
        """Press the tabulator until something is focused whose label begins so."""
        for _ in range(MOST_TABS):
            self.page.keyboard.press("Tab")
            if self.page.evaluate(_FOCUSED).startswith(words):
                return
        raise AssertionError(f"no {words!r} on {self.page.title()!r} is reached by the keyboard")

    def press(self, words: str) -> None:
        """Follow a link or press a button, and wait for the page that it leads to."""
        self.reach(words)
        with self.page.expect_navigation(wait_until="load"):
            self.page.keyboard.press("Enter")

    def check(self, words: str) -> None:
        """Have a config checked, and wait for what was found."""
        self.press(words)
        self.page.wait_for_url("**/run/confirm?*")

    def heading(self) -> str:
        return self.page.locator("h1").inner_text()

    def look(self, name: str = "", *, at: str = "h1") -> None:
        """Judge the screen: on a telephone, on a large screen, in the dark, on paper, by axe.

        ``name`` is that of its picture, ``at`` what it is taken of.
        """
        where = self.page.title()
        for width in (390, 3840, 1280):
            self.page.set_viewport_size({"width": width, "height": 800})
            if over := self.page.evaluate(_SIDEWAYS):
                self.faults.append(f"{where}: scrolls sideways by {over} px at {width}")
        # What differs in the dark are colours alone.
        self.page.emulate_media(color_scheme="dark")
        self.faults += [
            f"{where}, dark: {one}" for one in self._axe("runOnly: ['color-contrast'],")
        ]
        self.page.emulate_media(color_scheme="light")
        self.faults += [f"{where}: {one}" for one in self._axe()]
        self.page.emulate_media(media="print")
        if over := self.page.evaluate(_SIDEWAYS):
            self.faults.append(f"{where}: {over} px beyond the paper")
        self.page.emulate_media(media="screen")
        if name and (folder := os.environ.get(PICTURES)):
            if at != "h1":
                self.page.locator(at).evaluate("(e) => e.scrollIntoView()")
            # With the caret as it is: else playwright adds a style of its own, which is refused.
            self.page.screenshot(path=str(Path(folder) / f"studio-{name}.png"), caret="initial")

    def _axe(self, rules: str = "") -> list[str]:
        """Violations of the rules of axe, each with what breaks it."""
        if not self.page.evaluate("typeof axe === 'object'"):
            self.page.evaluate(_axe_script())
        command = f"axe.run({{{rules} resultTypes: ['violations']}})"
        found: dict[str, Any] = self.page.evaluate(command)
        return [
            f"{one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
            for one in found["violations"]
        ]


@cache
def _axe_script() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def visit(client: Client, use: Callable[[Visitor], T]) -> T:
    """What somebody finds who opens the studio in a new browser; nothing may have gone wrong."""

    def opened(page: Page) -> tuple[T, list[str]]:
        visitor = Visitor(client, page)
        visitor.enter()
        return use(visitor), visitor.faults

    found, faults = in_browser(opened)
    assert faults == [], "\n".join(faults)
    return found
