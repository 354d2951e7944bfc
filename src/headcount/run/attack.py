"""Attacks as commands make them: read the files, attack, write what was found.

Whatever is worked out with the truth goes to files and lines that carry the confidential banner,
unless the data were declared public.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import polars as pl

from headcount.attacks import Claims
from headcount.errors import RunError
from headcount.files import write_bytes_atomic, write_text_atomic
from headcount.report.model import CONFIDENTIAL_BANNER

SUMMARY = "summary.json"
C = TypeVar("C", bound=Claims)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scoring(Generic[C]):
    """How claims are compared with the truth.

    where
        file      name of the table of scores
        score     makes it
        public    whether it may be shown
        words     what the scores are
        heading   the same in a few words, for a terminal
        short     makes the table that a summary shows
        columns   of that table those that a terminal shows; all of them if none is named
    """

    file: str
    score: Callable[[C], pl.DataFrame]
    public: bool
    words: str
    heading: str
    short: Callable[[pl.DataFrame], pl.DataFrame] = lambda scores: scores
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Attempt(Generic[C]):
    """An attack for which every file has been read.

    where
        title     heading of the summary
        claim     makes the attack; it never sees the truth
        ids       of the people whom the attacker knows
        scoring   compares the claims with the truth: one, or none without a truth
    """

    title: str
    claim: Callable[[], C]
    ids: pl.Series
    scoring: tuple[Scoring[C], ...] = ()


@dataclass(frozen=True, eq=False)
class _AttackOutcome:
    """What an attack found: lines to say, tables of scores by heading, the folder."""

    lines: tuple[str, ...]
    scores: dict[str, pl.DataFrame]
    public: bool
    out: Path


def run_attack(opened: Callable[[], Attempt[C]], out: Path) -> _AttackOutcome:
    """Make an attack: claims before scores, and nothing is written before both are made."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out}: found existing content, expected a new or empty directory")
    attempt = opened()
    claims = attempt.claim()
    scored = [(one, one.score(claims)) for one in attempt.scoring]
    out.mkdir(parents=True, exist_ok=True)
    for name, frame in claims.frames(attempt.ids).items():
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd")
        write_bytes_atomic(out / f"{name}.parquet", buffer.getvalue())
    for name, text in claims.notes().items():
        write_text_atomic(out / name, text)
    public = all(one.public for one in attempt.scoring)
    banner = "" if public else CONFIDENTIAL_BANNER
    summary = json.dumps({**claims.facts, "banner": banner}, indent=2)
    write_text_atomic(out / SUMMARY, summary + "\n")
    lines = [
        f"{key.replace('_', ' ')}: {_plain(value)}"
        for key, value in claims.facts.items()
        if key not in ("domain", "kind", "groups")
    ]
    parts = [f"# {attempt.title}", f"**{banner}**" if banner else ""]
    parts.append("\n".join(f"- {line}" for line in lines))
    shown = {}
    for one, scores in scored:
        write_text_atomic(out / f"{one.file}.csv", scores.write_csv())
        table = one.short(scores)
        parts += [one.words, _markdown(table)]
        shown[one.heading] = table.select(one.columns or table.columns)
    write_text_atomic(out / "summary.md", "\n\n".join(part for part in parts if part) + "\n")
    return _AttackOutcome(tuple(lines), shown, public, out)


def _plain(value: object) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, dict):
        return ", ".join(f"{key} {number}" for key, number in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _markdown(frame: pl.DataFrame) -> str:
    rows = [frame.columns, ["---"] * frame.width]
    rows += [
        [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in frame.iter_rows()
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
