"""The small, safe Markdown of prose and captions."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def render_block(text: str) -> str:
    """Paragraphs, lists, quotes, emphasis, code and links as HTML; all else is escaped."""
    return str(_parser().render(text))


def render_line(text: str) -> str:
    """One line, with emphasis, code and links only: no paragraph around it."""
    return str(_parser().renderInline(text))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # No raw HTML; no images, which could be fetched; no headings, whose order the report keeps.
    # Links to javascript: and the like are refused by the parser itself.
    parser = MarkdownIt("commonmark", {"html": False, "typographer": True})
    parser.enable(["replacements", "smartquotes"])
    parser.disable(["image", "heading", "lheading", "reference"])
    return parser
