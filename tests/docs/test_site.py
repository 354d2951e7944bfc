"""The documentation site: no warning, no dead link, nothing from a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag

import pytest

import headcount
from tests.docs.pages import ROOT
from tests.report.browser import in_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page as BrowserPage

PAGES = sorted((ROOT / "docs").glob("*.md"))
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
"""What a browser fetches by itself, unlike a link that a reader follows."""


@dataclass
class Page(HTMLParser):
    """What a page links to, loads by itself, and can be linked to."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    _code: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.ids |= {named[name] for name in ("id", "name") if name in named}
        self._code += tag in ("code", "pre", "script", "style", "annotation")
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        if tag in LOADED and LOADED[tag] in named and named.get("rel") not in ("canonical", "next"):
            self.loaded.append(named[LOADED[tag]])

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre", "script", "style", "annotation")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.text.append(data)


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text("utf-8"))
    return page


def dead_links(site: Path) -> list[str]:
    """Links within the site that lead nowhere, page or place in a page, in words."""
    pages = {path: read(path) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            target, place = urldefrag(link)
            if re.match(r"\w+:", link) or (path.name == "404.html" and target.startswith("/")):
                continue
            to = path if not target else (path.parent / unquote(target)).resolve()
            to = to / "index.html" if to.is_dir() else to
            if not to.is_file():
                found.append(f"{path.name}: {link}: no such file")
            elif place and to in pages and unquote(place) not in pages[to].ids:
                found.append(f"{path.name}: {link}: no such place")
    return found


def fetched(site: Path) -> list[str]:
    """What pages and their styles would load from a network."""
    found = [
        f"{path.name}: {one}"
        for path in site.rglob("*.html")
        for one in read(path).loaded
        if re.match(r"(\w+:)?//", one)
    ]
    for path in [*site.rglob("*.css"), *site.rglob("*.html")]:
        text = path.read_text("utf-8")
        for one in re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", text):
            if re.match(r"(https?:)?//", "".join(one)):
                found.append(f"{path.name}: {''.join(one)}")
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from a copy: the tree of the project stays as it is."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("docs", "tools", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "zensical.toml", folder)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    return folder / "build" / "site"


def test_every_page_is_built_and_in_the_navigation(site: Path):
    listed = re.findall(r'"([\w-]+\.md)"', (ROOT / "zensical.toml").read_text("utf-8"))
    assert sorted(listed) == [page.name for page in PAGES]
    assert {page.stem for page in PAGES} | {"404"} == {path.stem for path in site.glob("*.html")}


def test_no_link_is_dead(site: Path):
    assert sum(len(read(path).links) for path in site.glob("*.html")) > 1000
    assert dead_links(site) == []


def test_a_dead_link_is_found(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html">x</a><a href="b.html#no">x</a><a href="c.html">x</a><a href="#here">x</a>'
    )
    (tmp_path / "b.html").write_text('<h1 id="here">x</h1>')
    assert sorted(dead_links(tmp_path)) == [
        "a.html: #here: no such place",
        "a.html: b.html#no: no such place",
        "a.html: c.html: no such file",
    ]


def test_no_page_loads_anything_from_a_network(site: Path):
    assert fetched(site) == []


def test_what_would_be_loaded_from_a_network_is_found(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="//x/y.css">'
        '<a href="https://example.net">a link is only followed</a>'
    )
    (tmp_path / "a.css").write_text("@font-face { src: url(https://fonts.example/f.woff2) }")
    assert sorted(fetched(tmp_path)) == [
        "a.css: https://fonts.example/f.woff2",
        "a.html: //x/y.css",
        "a.html: https://cdn.example/x.js",
    ]


def test_formulas_are_mathml(site: Path):
    pages = {path.stem: path.read_text("utf-8") for path in site.glob("*.html")}
    assert pages["mechanisms"].count("<math") > 30
    assert "<mfrac>" in pages["choose-epsilon"]
    left = {path.name for path in site.glob("*.html") if "$" in "".join(read(path).text)}
    assert left == set()


def test_the_reference_has_every_public_name(site: Path):
    ids = read(site / "python.html").ids
    named = {one.rpartition(".")[2] for one in ids}
    assert set(headcount.__all__) - {"__version__"} - named == set()
    text = (site / "python.html").read_text("utf-8")
    assert re.search(r"<li>\s*(<p>)?<code>fraction</code>: f, above 0 and at most 1", text)


def test_the_reference_has_every_command(site: Path):
    text = (site / "commands.html").read_text("utf-8")
    for command in ("protect", "attack reconstruct", "ledger void", "study petti-flaxman-2020"):
        assert f"headcount {command}" in text
    assert text.count("Usage: headcount") > 15


def test_docs_are_installed_with_the_tests():
    """``make test`` and ``make docs`` use one environment, so that the README's two commands do."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    locked = (ROOT / "requirements/dev.txt").read_text("utf-8")
    for line in extras["optional-dependencies"]["docs"]:
        name = re.split(r"[<>=]", line)[0]
        assert f"\n{name}==" in locked, name


@pytest.mark.browser
def test_pages_fit_a_phone_and_neither_they_nor_the_search_ask_a_network(site: Path):
    asked: list[str] = []
    wide = []

    def read_all(page: BrowserPage) -> None:
        page.on("request", lambda request: asked.append(request.url))
        for path in sorted(site.glob("*.html")):
            page.goto(path.resolve().as_uri(), wait_until="load")
            over = page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
            if over > 0:
                wide.append(f"{path.name}: {over} pixels too wide")
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Search").fill("homogeneity")
        page.get_by_text(re.compile(r"[1-9]\d* results")).wait_for()

    in_browser(read_all, width=390, height=800)
    assert len(asked) > len(PAGES)
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert wide == []
