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
KINDS = {
    ("SC", "county"): "counts by age, race and ethnicity in counties",
    ("SC", "enumeration_district"): "counts by age, race and ethnicity in districts",
    ("TC", "county"): "totals of counties",
    ("TC", "enumeration_district"): "totals of districts",
}
"""Kinds of counts that are compared with samples; the paper's own first."""
HEADLINE = 1.0
ALIKE = 1.5
"""TopDown is like a sample if error and loss are each apart by no more than this factor."""
FEWEST = 1000
"""Errors that a comparison with a sample must rest on."""
PAPER_EPSILONS = (0.5, 1.0, 2.0)


def at(epsilon: float) -> str:
    """An epsilon that no line break tears apart: "ε = 0.5"."""
    return f"ε\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{epsilon:g}"


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


def article(number: str) -> str:
    """The article before a number: "an 85 %", "a 50 %"."""
    return "an" if number.startswith("8") or number.split()[0] in ("11", "18") else "a"


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


def compared(tables: Tables) -> pl.DataFrame:
    """Every nearest sample with TopDown's error and loss over its own, and whether it is alike.

    Nothing is called alike on the strength of a few errors.
    """
    cell = ["count_type", "level"]
    topdown = tables["topdown"].select(*cell, "epsilon", "mae", "epl", "n")
    samples = tables["sampling"].select(*cell, "fraction", "mae", "epl")
    ratios = {"error_ratio": "mae", "loss_ratio": "epl"}
    return (
        tables["equivalences"]
        .join(topdown, on=[*cell, "epsilon"], how="left", maintain_order="left")
        .join(samples, on=[*cell, "fraction"], how="left", maintain_order="left", suffix="_sample")
        .with_columns(
            (pl.col(column) / pl.col(f"{column}_sample")).alias(name)
            for name, column in ratios.items()
        )
        .with_columns(
            pl.all_horizontal(pl.col(name).log().abs() <= log(ALIKE) for name in ratios)
            .fill_null(False)
            .and_(pl.col("n") >= FEWEST)
            .alias("alike")
        )
        .drop("n", "mae", "epl", "mae_sample", "epl_sample")
    )


def errors_by_size(tables: Tables) -> tuple[str, bool]:
    """How the size of an error goes with the size of a count, and if it grows less than a sample's.

    Over counts by age, race and ethnicity in districts at the headline epsilon; a sample's error
    grows as the square root of the count.
    """
    epsilon = headline(tables["size_bias"]["epsilon"])
    rows = (
        tables["size_bias"]
        .filter(count_type="SC", level="enumeration_district", epsilon=epsilon)
        .filter(pl.col("size_from") > 0, pl.col("n") >= _FEW_ERRORS)
        .sort("size_from")
    )
    if rows.height < 2:
        return "Here too few counts differ in size to say how errors go with it.", False
    small, large = rows.row(0, named=True), rows.row(-1, named=True)
    errors = large["mean_absolute_error"] / small["mean_absolute_error"]
    counts = large["size_from"] / small["size_from"]
    told = (
        f"in districts, counts of {small['size']} are off by {people(small['mean_absolute_error'])}"
        f" on average at ε = {epsilon:g}, counts of {large['size']} by "
        f"{people(large['mean_absolute_error'])}"
    )
    if errors >= counts:
        return f"Errors grow as counts do: {told}.", False
    if errors > _ABOUT_THE_SAME:
        return f"Errors grow far less than counts do: {told}.", errors < counts**0.5
    if errors >= 1 / _ABOUT_THE_SAME:
        return f"An error is about the same in people whatever the count: {told}.", True
    return f"Large counts err less than small ones, in people too: {told}.", True


_FEW_ERRORS = 30
_ABOUT_THE_SAME = 1.5


def sample_named(row: Mapping[str, Any]) -> str:
    """The nearest sample in words: "50 %", or "95 % or larger" where the curve of samples ends."""
    end = ""
    if row["at_end"]:
        end = " or larger" if row["fraction"] > 0.5 else " or smaller"
    return f"{percent(row['fraction'])}{end}"


def samples_at(nearest: pl.DataFrame, epsilon: float) -> list[tuple[str, str]]:
    """For each kind of count that is like a sample at this epsilon: the sample, the kind."""
    rows = nearest.filter("alike", epsilon=epsilon)
    found = []
    for (count_type, level), words in KINDS.items():
        here = rows.filter(count_type=count_type, level=level)
        if here.height:
            found.append((sample_named(here.row(0, named=True)), words))
    return found


def sample_sentence(nearest: pl.DataFrame, epsilon: float) -> str:
    """What sample an epsilon is like, for each kind of count, as far as it is like any."""
    found = samples_at(nearest, epsilon)
    if not found:
        return f"ε = {epsilon:g} is like no sample in both error and loss"
    samples = [f"{article(sample)} {sample} sample for {words}" for sample, words in found]
    text = f"ε = {epsilon:g} is like working with {listed(samples)}"
    matched = {words for _, words in found}
    without = [words for words in KINDS.values() if words not in matched]
    return text + (f", and like no sample for {listed(without, word='or')}" if without else "")


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
