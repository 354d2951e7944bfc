"""Rates: a count over a count, in each unit, in truth and by a release.

    rate = 100 x (people counted above) / (people counted below)

A share where those above are among those below (the unemployed of the workforce), else a ratio
(small children per hundred women of an age).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from headcount.arrays import Floats
from headcount.errors import ConfigError
from headcount.evaluation._base import LEVEL, Metric, NotFeasible, Truth
from headcount.evaluation.answers import possible_groups
from headcount.evaluation.representation import SIZE_BANDS
from headcount.evaluation.segregation import (
    MOST_GROUPS,
    answered,
    attributes_of,
    compared,
    many_levels,
    publishes_every_count,
)
from headcount.evaluation.tally import CountPairs, band_bounds
from headcount.fields import AtLeast1
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.report.figures import Axis, Control, line_chart
from headcount.report.finding import SUPPORTED, Finding, Support
from headcount.report.model import Block, Column, Figure, table_from_frame
from headcount.schema import Schema
from headcount.tabulate import TOTAL, Counts, Query

Allowed: TypeAlias = Mapping[str, tuple[int, ...]]
"""Which levels of which attributes are counted, by number; attributes that are not named, all."""

_SUMS = {
    "units": pl.Int64,
    "undefined": pl.Int64,
    "exact": pl.Float64,
    "released": pl.Float64,
    "bias": pl.Float64,
    "mean_absolute": pl.Float64,
    "p95_absolute": pl.Float64,
}
_NAMED = {"level": pl.String, "rate": pl.String}
_SCHEMA = {**_NAMED, "group": pl.String, "too_small": pl.Int64, **_SUMS}
_BY_SIZE = {**_NAMED, "low": pl.Int64, "high": pl.Int64, **_SUMS}


@dataclass(frozen=True)
class _Rate:
    """What a rate is called, its group where it is one of several, who is counted above, below."""

    name: str
    group: str
    above: Allowed
    below: Allowed


@dataclass(frozen=True, kw_only=True)
class Rates(Metric):
    """Rates of every unit, in truth and by a release.

    where
        by      attributes whose levels are counted above, one after another; without any, and
                without ``of``, all that have 2 to 32 levels
        of      who is counted above, as "ATTRIBUTE=LEVEL": several of one attribute mean any of
                them, several attributes all of them at once
        among   who is counted below, in the same words; without any everybody
        least   units with fewer of these in truth have no rate
    """

    name = "rates"
    reads_estimates = True
    order = 26
    by: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    among: tuple[str, ...] = ()
    least: AtLeast1 = 1

    def __post_init__(self) -> None:
        if self.least < 1:
            raise ConfigError(self.name, place="least", found=f"{self.least}", expected="1 or more")

    def supports(self, release: Release, truth: Truth) -> Support:
        """Counts of groups of an attribute, none of them withheld."""
        if not (counts := publishes_every_count(release)):
            return counts
        schema = release.schema
        if missing := [name for name in self.by if name not in schema.names]:
            return Support(f"the schema has no attribute {' and no '.join(missing)}")
        for text in (*self.of, *self.among):
            if _condition(text, schema) is None:
                return Support(f"{text!r} is no ATTRIBUTE=LEVEL of the schema")
        if not self._rates(schema):
            return Support(f"no attribute has 2 to {MOST_GROUPS} levels: name some (by or of)")
        return SUPPORTED

    def _rates(self, schema: Schema) -> tuple[_Rate, ...]:
        """The rates that are asked for; of levels that are not counted below there are none."""
        below = _allowed(self.among, schema)
        found = []
        if self.of:
            found.append(_Rate(" and ".join(self.of), "", _allowed(self.of, schema), below))
        for name in self.by if self.of else attributes_of(schema, self.by):
            for number, level in enumerate(schema.attribute(name).levels):
                if number in below.get(name, (number,)):
                    found.append(_Rate(name, level, {**below, name: (number,)}, below))
        return tuple(found)

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """Every rate of every unit at every level, and the same by how many are counted below."""
        levels = release.geography.levels
        rates = self._rates(release.schema)
        rows, by_size = [], []
        for level in progress(levels, what="Rates", total=len(levels)):
            counted = _Counted(truth.counts, release, level)
            parts: dict[str, list[tuple[Floats, Floats, Floats]]] = {}
            for one in rates:
                above, below = counted.people(one.above), counted.people(one.below)
                if above is None or below is None:
                    continue
                chosen = below[0] >= self.least
                if not chosen.any():
                    continue
                exact, made = (_rate(above[side], below[side])[chosen] for side in (0, 1))
                about = {"level": level, "rate": one.name, "group": one.group}
                small = int(((below[0] > 0) & ~chosen).sum())
                rows.append({**about, "too_small": small, "units": exact.size})
                rows[-1] |= compared(exact, made)
                parts.setdefault(one.name, []).append((below[0][chosen], exact, made))
            for name, found in parts.items():
                size, exact, made = (np.concatenate(some) for some in zip(*found, strict=True))
                by_size += [
                    {"level": level, "rate": name, **band} for band in _bands(size, exact, made)
                ]
        if not rows:
            raise NotFeasible(
                f"no unit has {self.least} or more {truth.counts.domain.counted} to be counted "
                "below, or no table publishes the counts of a rate"
            )
        if all(row["units"] == row["undefined"] for row in rows):
            raise NotFeasible("the release counts nobody below, in any unit that has a rate")
        return RatesCompared(
            table=pl.DataFrame(rows, schema=_SCHEMA),
            by_size=pl.DataFrame(by_size, schema=_BY_SIZE),
            counted=truth.counts.domain.counted,
            by=self,
            levels=levels,
            too_many=() if self.by or self.of else many_levels(release.schema),
        )


def _condition(text: str, schema: Schema) -> tuple[str, int] | None:
    """The attribute and the number of the level that "ATTRIBUTE=LEVEL" names; either may have =."""
    for attribute in schema.attributes:
        level = text.removeprefix(f"{attribute.name}=")
        if level != text and level in attribute.levels:
            return attribute.name, attribute.levels.index(level)
    return None


def _allowed(texts: Sequence[str], schema: Schema) -> Allowed:
    """Levels of each attribute that some texts name."""
    found: dict[str, tuple[int, ...]] = {}
    for name, level in filter(None, (_condition(text, schema) for text in texts)):
        found[name] = (*found.get(name, ()), level)
    return found


@dataclass(frozen=True, eq=False)
class _Counted:
    """How many people are in each unit of a level, in truth and by a release."""

    counts: Counts
    release: Release
    level: str
    _answers: dict[str, CountPairs | None] = field(default_factory=dict)

    def people(self, allowed: Allowed) -> tuple[Floats, Floats] | None:
        """Those of these levels, on both sides; None where tables do not publish them.

        Released counts are added up first; a sum below 0 is taken as 0.
        """
        schema = self.release.schema
        names = tuple(name for name in schema.names if name in allowed)
        query = Query(" x ".join(names), names) if names else TOTAL
        if query.name not in self._answers:
            self._answers[query.name] = answered(self.counts, self.release, self.level, query)
        pairs = self._answers[query.name]
        if pairs is None:
            return None
        shape = tuple(schema.attribute(name).size for name in names)
        levels = np.unravel_index(possible_groups(query, schema), shape) if names else ()
        held = np.ones(pairs.shape[1], dtype=bool)
        for name, number in zip(names, levels, strict=True):
            held &= np.isin(number, allowed[name])
        inside = held[pairs.place % pairs.shape[1]]
        unit = pairs.place[inside] // pairs.shape[1]
        exact, made = (
            np.bincount(unit, weights=side[inside], minlength=pairs.shape[0]).astype(np.float64)
            for side in (pairs.truth, pairs.released)
        )
        return exact, np.maximum(made, 0)


def _rate(above: Floats, below: Floats) -> Floats:
    """Per hundred; not a number where nobody is counted below."""
    nothing = np.full_like(above, np.nan)
    return np.divide(100 * above, below, out=nothing, where=below > 0)


def _bands(size: Floats, exact: Floats, made: Floats) -> Iterator[dict[str, Any]]:
    """Means by how many people are counted below in truth."""
    band = np.searchsorted(SIZE_BANDS, size, side="right")
    for number in np.unique(band).tolist():
        some = band == number
        about = {**band_bounds(number, SIZE_BANDS), "units": int(some.sum())}
        yield {**about, **compared(exact[some], made[some])}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RatesCompared(Finding):
    """A row for each level and rate; means over units, per hundred and in percentage points."""

    name: str = Rates.name
    title: str = "How far off rates are"
    index: tuple[str, ...] = ("level", "rate", "group", "units")
    value: str = "mean_absolute"
    value_words: str = "mean error of rates, in percentage points"

    by: Rates
    by_size: pl.DataFrame
    levels: tuple[str, ...]
    too_many: tuple[str, ...] = ()

    def files(self) -> Mapping[str, pl.DataFrame]:
        """Rates by level and group, and by how many are counted below."""
        return {"rates": self.table, "rates-by-size": self.by_size}

    def explain(self) -> str:
        """What a rate is, which have none, and how noise biases it."""
        among = " and ".join(self.by.among) or "everybody"
        unasked = f"Left out for their many levels: {', '.join(self.too_many)}. "
        return (
            f"A rate is a count over a count, per hundred: here those of a group over {among}, in "
            "each unit. Errors are released minus exact rates, in percentage points, and means "
            "over units, in which a small unit weighs as much as a large one. Units with fewer "
            f"than {self.by.least} {self.counted} to be counted below in truth have no rate. "
            "Released counts below 0 are taken as 0. Where a release counts nobody below its rate "
            "is *undefined*, and left out of the released mean and of errors, so that means of "
            "releases with many such units do not compare; rates above 100 stay as they are. "
            f"{unasked if self.too_many else ''}"
            "**Rates of noisy counts are biased.** A quotient is off on average also where both "
            "counts are right on average, roughly by the square of the noise over the count below; "
            "setting counts below 0 to 0 makes rare groups too common. In large units both are "
            "little, in small ones they are not: look at the rates by size. Nothing is corrected "
            "here. The figures are of one release, not a spread over new noise."
        )

    def _sized(self) -> pl.DataFrame:
        high = pl.col("high")
        return self.by_size.with_columns(
            size=pl.when(high.is_null())
            .then(pl.format("{} or more", "low"))
            .otherwise(pl.format("{} to {}", "low", high - 1))
        )

    def figure(self) -> Figure:
        """Mean error by how many people are counted below."""
        shown = self._sized().drop_nulls("mean_absolute").sort("low", maintain_order=True)
        return Figure(
            name="rate-error-by-size",
            caption="**Errors of rates** by the number that is counted below, at the level "
            "chosen: mean over units and groups, in percentage points.",
            alt="Mean error of rates by the number that is counted below, one line per rate",
            chart=line_chart(
                shown,
                x=Axis(
                    column="size",
                    title=f"{self.counted.capitalize()} counted below",
                    names=tuple(shown["size"].unique(maintain_order=True)),
                ),
                y=Axis(column="mean_absolute", title="Mean error (percentage points)", zero=True),
                series="rate",
                points=True,
                controls=(Control(column="level", label="Level", initial=self._level(shown)),),
            ),
        )

    def _level(self, shown: pl.DataFrame) -> str:
        """The finest level of which there is something to show."""
        return next(level for level in reversed(self.levels) if level in shown["level"])

    def terminal(self) -> Mapping[str, pl.DataFrame]:
        """Errors by size at the finest level."""
        level = self._level(self.by_size)
        rows = self._sized().filter(level=level)
        shown = ("rate", "size", "units", "undefined", "exact", "released", "mean_absolute")
        return {f"rates at {level!r}, per hundred": rows.select(shown)}

    def notes(self) -> str:
        """How to read it."""
        return "size: the number counted below, in truth. Errors are in percentage points."

    def blocks(self) -> tuple[Block, ...]:
        """By size, and each rate."""
        numbers = (
            Column(key="units", label="Rates", format=",d"),
            Column(key="undefined", label="Undefined", format=",d"),
            Column(key="exact", label="In truth", unit="%", format=",.2f"),
            Column(key="released", label="Released", unit="%", format=",.2f"),
            Column(key="bias", label="Bias", unit="points", format="+,.2f"),
            Column(key="mean_absolute", label="Mean error", unit="points", format=",.2f"),
            Column(key="p95_absolute", label="95 % within", unit="points", format=",.2f"),
        )
        rate = Column(key="rate", label="Rate of")
        return (
            self.figure(),
            table_from_frame(
                self._sized(),
                name="rates-by-size",
                caption="Errors of rates by how many are counted below.",
                columns=(LEVEL, rate, Column(key="size", label="Counted below"), *numbers),
            ),
            table_from_frame(
                self.table,
                name="rates-by-group",
                caption="Errors of the rates of each group, over all units of a level.",
                columns=(
                    LEVEL,
                    rate,
                    Column(key="group", label="Group"),
                    Column(key="too_small", label="Too small", unit="units", format=",d"),
                    *numbers,
                ),
                folded=True,
            ),
        )
