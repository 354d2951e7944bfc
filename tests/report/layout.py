"""What keeps a reader from reading a report: sideways scrolling, cut words, faint text, bad paper.

``layout_faults(path)`` opens a report on narrow, middling and wide screens, light and dark, and on
paper, and says what is wrong in sentences, none for a good report::

    assert layout_faults(path) == []
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.report.browser import open_report

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDTHS = (390, 768, 1280)
PAPER = {"width": 660, "height": 971}
"""A4 within its margins, in pixels."""

# Words of a figure that reach beyond the drawing, or end in three dots.
_CUT = """() => [...document.querySelectorAll("svg.marks")].flatMap((svg) => {
  const box = svg.getBoundingClientRect();
  const name = svg.closest("figure[data-figure]")?.dataset.figure;
  return [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim())
    .filter((text) => {
      const own = text.getBoundingClientRect();
      return text.textContent.endsWith("\u2026")
        || own.right > box.right + 1 || own.left < box.left - 1
        || own.top < box.top - 2 || own.bottom > box.bottom + 2;
    })
    .map((text) => `${name}: ${text.textContent}`);
})"""

# Two entries of a legend that lie on each other.
_OVERLAP = """() => [...document.querySelectorAll("svg.marks .role-legend")].flatMap((legend) => {
  const labels = [...legend.querySelectorAll(".role-legend-label text")];
  const boxes = labels.map((label) => label.getBoundingClientRect());
  return labels.filter((label, i) => boxes.some((other, j) => j > i
    && boxes[i].left < other.right - 1 && other.left < boxes[i].right - 1
    && boxes[i].top < other.bottom - 2 && other.top < boxes[i].bottom - 2))
    .map((label) => label.textContent);
})"""

# Text of the page, and of its figures, with a contrast below that of WCAG 2.1, level AA.
_FAINT = """() => {
  const light = (colour) => {
    const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const behind = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    if (!/rgba\\(.*, 0\\)/.test(colour) && colour !== "transparent") return colour;
    return behind(element.parentElement);
  };
  const worst = {};
  for (const element of document.querySelectorAll("body *")) {
    const words = [...element.childNodes].filter((node) => node.nodeType === 3);
    if (!words.some((node) => node.textContent.trim()) || !element.checkVisibility()) continue;
    if (element.closest("script, style, noscript")) continue;
    const drawn = element.closest("svg");
    if (drawn && element.tagName !== "text") continue;
    const style = getComputedStyle(element);
    const ink = drawn ? style.fill : style.color;
    if (ink === "none") continue;
    const [one, two] = [light(ink), light(behind(element))];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    const name = drawn ? "text of a figure" : element.tagName + "." + element.className;
    if (ratio < 4.5) worst[name] = ratio.toFixed(1);
  }
  return worst;
}"""

_TOO_WIDE = """() => document.documentElement.scrollWidth - document.documentElement.clientWidth"""

_PAPER = """(width) => [...document.querySelectorAll("svg.marks, table, pre")]
  .filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > width)
  .map((e) => (e.closest("[id]")?.id ?? e.tagName))"""


def layout_faults(path: Path) -> list[str]:
    """Everything that keeps a reader from reading it, one sentence each."""
    found: list[str] = []

    def use(page: Page) -> None:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.reload()
            page.wait_for_function("() => document.body.dataset.state !== 'loading'")
            found.extend(f"at {width} px {fault}" for fault in screen_faults(page))
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            faint = page.evaluate(_FAINT)
            found.extend(f"faint on a {scheme} screen: {name} {r}" for name, r in faint.items())
        found.extend(paper_faults(page))

    open_report(path, use=use)
    return found


def screen_faults(page: Page) -> list[str]:
    """Of the page as it stands: sideways scrolling, words cut, words on each other."""
    over = page.evaluate(_TOO_WIDE)
    found = [f"the page scrolls sideways by {over} px"] if over else []
    found += [f"cut in figure {words}" for words in page.evaluate(_CUT)]
    return found + [f"entries of a legend overlap: {words}" for words in page.evaluate(_OVERLAP)]


def paper_faults(page: Page) -> list[str]:
    """Of the page in print: a summary of two pages at most, all tables behind, nothing cut."""
    page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size(PAPER)  # type: ignore[arg-type]
    found = [f"wider than paper: {name}" for name in page.evaluate(_PAPER, PAPER["width"])]
    bottom = page.locator("#summary").evaluate("(e) => e.getBoundingClientRect().bottom")
    if bottom > 2 * PAPER["height"]:
        found.append(f"the summary takes {bottom / PAPER['height']:.1f} pages")
    left = page.locator("main > section:not(.appendix, .summary) table").count()
    if left:
        found.append(f"{left} tables are not in the appendix")
    page.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    return found
