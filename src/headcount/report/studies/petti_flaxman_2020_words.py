"""Words for the report of petti-flaxman-2020, and the sentences that its numbers decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Any

import polars as pl

Tables = Mapping[str, pl.DataFrame]
"""The tables of a study by name."""

LEVELS = ("enumeration_district", "county", "state")
LEVEL_NAMES = {
    "enumeration_district": "Enumeration districts",
    "county": "Counties",
    "state": "States",
}
ONE_UNIT = {
    "enumeration_district": "an enumeration district",
    "county": "a county",
    "state": "a state",
}
COUNT_NAMES = {
    "SC": "By age, race and ethnicity",
    "TC": "All people",
}
HEADLINE = 1.0
ALIKE = 1.5
"""TopDown is like a sample if error and loss together are apart by no more than this factor."""
PAPER_EPSILONS = (0.5, 1.0, 2.0)


def level_named() -> pl.Expr:
    """The column ``level`` in words, as ``place``."""
    return pl.col("level").replace_strict(LEVEL_NAMES).alias("place")


def count_named() -> pl.Expr:
    """The column ``count_type`` in words, as ``counts``."""
    return pl.col("count_type").replace_strict(COUNT_NAMES).alias("counts")


def promise_named() -> pl.Expr:
    """The column ``epsilon`` as a series name, ``promise``: "ε = 0.5"."""
    return pl.format("ε = {}", shortly("epsilon")).alias("promise")


def shortly(column: str, *, times: float = 1) -> pl.Expr:
    """Numbers as text without needless zeros."""
    return (pl.col(column) * times).map_elements(lambda value: f"{value:g}", pl.String)


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort by count type and level, smallest places first, and keep the rest as it is."""
    keys = []
    if "count_type" in frame.columns:
        keys.append(pl.col("count_type").replace_strict({"SC": 0, "TC": 1}))
    keys.append(pl.col("level").replace_strict({name: i for i, name in enumerate(LEVELS)}))
    return frame.sort(*keys, maintain_order=True)


def headline(epsilons: Iterable[float]) -> float:
    """The epsilon to speak of first: 1, or the one nearest to it by ratio."""
    return min(epsilons, key=lambda e: max(e, HEADLINE) / min(e, HEADLINE))


def shown_epsilons(epsilons: Iterable[float]) -> list[float]:
    """The paper's three epsilons if they were run, otherwise up to three spread over the run."""
    there = sorted(set(epsilons))
    if set(PAPER_EPSILONS) <= set(there):
        return list(PAPER_EPSILONS)
    return sorted({there[0], there[len(there) // 2], there[-1]})


def percent(share: float) -> str:
    """A share in percent: "50 %"."""
    return f"{100 * share:.3g} %"


def people(number: float) -> str:
    """A number of people with its noun: "1 person", "15 people", "2.5 people"."""
    text = f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"
    return f"{text} {'person' if text == '1' else 'people'}"


def listed(items: Sequence[str], *, word: str = "and") -> str:
    """Items as English: "a", "a and b", "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def cell(
    frame: pl.DataFrame, value: str, *, count_type: str, level: str, epsilon: float
) -> float | None:
    """One number of the TopDown table; ``None`` if it is missing or undefined."""
    rows = frame.filter(
        (pl.col("count_type") == count_type)
        & (pl.col("level") == level)
        & (pl.col("epsilon") == epsilon)
    )
    found = rows[value].to_list()
    return None if not found or found[0] is None else float(found[0])


def alike(equivalence: pl.DataFrame) -> pl.DataFrame:
    """The rows of table 1 where TopDown really is like the nearest sample, by epsilon."""
    return equivalence.filter(pl.col("distance") <= log(ALIKE)).sort("epsilon")


def sample_sentences(equivalence: pl.DataFrame) -> list[str]:
    """Table 1 as sentences, one for each epsilon that is like a sample."""
    return [
        f"ε = {row['epsilon']:g} is like working with a {sample_named(row)} sample"
        for row in alike(equivalence).iter_rows(named=True)
    ]


def sample_named(row: Mapping[str, Any]) -> str:
    """The nearest sample in words: "50 %", or "95 % or larger" where the curve of samples ends."""
    end = ""
    if row["at_end"]:
        end = " or larger" if row["fraction"] > 0.5 else " or smaller"
    return f"{percent(row['fraction'])}{end}"


def unlike(equivalence: pl.DataFrame) -> list[str]:
    """The epsilons for which even the nearest sample is not alike."""
    apart = equivalence.filter(pl.col("distance") > log(ALIKE)).sort("epsilon")
    return [f"{epsilon:g}" for epsilon in apart["epsilon"]]


def same_error(tables: Tables, *, count_type: str, level: str, epsilon: float) -> float | None:
    """The sample whose median error is nearest to TopDown's by ratio; the middle one of equals."""
    mae = cell(tables["topdown"], "mae", count_type=count_type, level=level, epsilon=epsilon)
    samples = (
        tables["sampling"].filter(count_type=count_type, level=level).filter(pl.col("mae") > 0)
    )
    if not mae or samples.is_empty():
        return None
    gap = (pl.col("mae") / mae).log().abs().round(6)
    nearest = samples.filter(gap == gap.min())["fraction"].sort()
    return float(nearest[len(nearest) // 2])
