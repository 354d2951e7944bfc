"""The numbers of the slides beside this run's: other people, so only profiles can be compared."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

import polars as pl

from headcount.evaluate.attackers import COMMERCIAL, PERFECT
from headcount.evaluate.reidentified import ALL, TELLING

SLIDES, REPORT, OURS = "slides", "later report", "this study"


@cache
def published() -> dict[str, Any]:
    """What was printed."""
    file = resources.files(__package__) / "published.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def published_table(suppression: pl.DataFrame, reid: pl.DataFrame) -> pl.DataFrame:
    """Quantity by quantity: source, quantity, unit, paper, ours."""
    told = published()
    rows: list[dict[str, object]] = []
    for rule, tables in told["suppression"].items():
        for table, shares in tables.items():
            for level, share in zip(told["levels"], shares, strict=True):
                ours = first(suppression, "percent", table=table, rule=rule, level=level)
                what = f"{table}, {rule} rule, {level}"
                rows.append(_row(SLIDES, what, "% withheld", share, ours))
    for method, numbers in told["swapping"].items():
        for column, number in zip(
            ("putative_percent", "confirmed_percent", "precision"), numbers, strict=True
        ):
            ours = first(reid, column, method=method, attacker=COMMERCIAL, universe=ALL)
            what = f"{method}, {column.removesuffix('_percent')}"
            rows.append(_row(SLIDES, what, "%", number, ours))
    for method, numbers in told["telling"].items():
        for attacker, number in zip((COMMERCIAL, PERFECT), numbers, strict=True):
            ours = first(reid, "precision", method=method, attacker=attacker, universe=TELLING)
            what = f"{method}, precision on {TELLING}, {attacker} attacker"
            rows.append(_row(REPORT, what, "%", number, ours))
    return pl.DataFrame(rows, infer_schema_length=None)


def _row(
    source: str, quantity: str, unit: str, paper: float, ours: float | None
) -> dict[str, object]:
    return {
        "source": source, "quantity": quantity, "unit": unit, "paper": float(paper), "ours": ours
    }  # fmt: skip


def first(frame: pl.DataFrame, column: str, **where: object) -> float | None:
    """The value of a column in the only row of a kind; None if there is no such row."""
    found = frame.filter(**where)[column]
    return None if found.is_empty() or found[0] is None else float(found[0])
