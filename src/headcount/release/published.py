"""Published tables of a release: cells with values, some of them withheld."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self, TypeAlias

import numpy as np
import polars as pl

from headcount.arrays import Ends, Flags, Ints
from headcount.errors import ConfigError, InputError
from headcount.fields import AtLeast1
from headcount.geography import Geography
from headcount.release.changed import (
    CHANGED,
    ChangeRules,
    KnownChange,
    Off,
    change_rules_from_json,
    change_rules_to_json,
    off_from_json,
    off_to_json,
)
from headcount.schema import Schema
from headcount.tabulate.published import PublishedTable, TableCells

TOTAL_LABEL = "total"
FLAG, PUBLISHED, WITHHELD = "flag", "published", "withheld"


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """The largest counts that are still too small to publish, by rule."""

    cell: AtLeast1 = 2
    group: AtLeast1 = 14
    persons: AtLeast1 = 14
    homes: AtLeast1 = 4

    def __post_init__(self) -> None:
        for field in fields(self):
            if (value := getattr(self, field.name)) < 1:
                raise ConfigError(
                    "thresholds", place=field.name, found=str(value), expected="1 or more"
                )


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules by which cells were withheld, with what is needed to audit them.

    where
        rule         "1980": small counts published as 0, small tables withheld; "complementary":
                     small counts withheld with others, so that no margin gives them away
        tables       the tables that the rule protects; others are published whole, where they are
        thresholds   the largest counts that are too small
        width        how wide the interval of a small count must stay
        audit        how many withheld cells the curator's audit attacks
    """

    rule: str
    tables: tuple[str, ...]
    thresholds: Thresholds
    width: int
    audit: int

    @property
    def complementary(self) -> bool:
        """Whether small counts are protected against sums."""
        return self.rule == "complementary"


TableRules: TypeAlias = Rules | ChangeRules
"""By which rules tables were made: cells withheld, or counts changed."""


def rules_to_json(rules: TableRules) -> dict[str, Any]:
    """Rules as JSON."""
    if isinstance(rules, ChangeRules):
        return change_rules_to_json(rules)
    return {**asdict(rules), "tables": list(rules.tables)}


def rules_from_json(data: Mapping[str, Any]) -> TableRules:
    """The rules that ``rules_to_json`` wrote."""
    if data.get("kind") == CHANGED:
        return change_rules_from_json(data)
    thresholds = Thresholds(**data["thresholds"])
    return Rules(**{**data, "tables": tuple(data["tables"]), "thresholds": thresholds})


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PublishedCells:
    """One table at one level as it is published.

    where
        cells        the table on the release's schema
        value        (units x cells); 0 where withheld
        withheld     (units x cells), said openly
        zero_hides   a published 0 may stand for as much as this; 0 if a 0 is a 0. The table's
                     total is never so changed
        holds        what every withheld cell holds at least by the rules: 1 where zeros are never
                     withheld, else 0
        off          how far published values may be from the counts behind them; None where every
                     value is the count, but for what ``zero_hides`` says
        known        what the settings tell besides, for an attacker who has read them; it is given
                     to attacks alone, and never written
    """

    cells: TableCells
    level: str
    value: Ints
    withheld: Flags
    zero_hides: int = 0
    holds: int = 0
    off: Off | None = None
    known: KnownChange | None = None

    def __post_init__(self) -> None:
        if self.value.shape != self.withheld.shape or self.value.shape[1] != self.cells.size:
            raise InputError(
                f"table {self.name} at {self.level!r}",
                found=f"shapes {self.value.shape} and {self.withheld.shape}",
                expected=f"units x {self.cells.size} cells",
            )
        if np.any(self.value[self.withheld]):
            raise InputError(
                f"table {self.name} at {self.level!r}",
                found="a value of a withheld cell",
                expected="none",
            )

    def __repr__(self) -> str:
        return f"<PublishedCells {self.name} at {self.level!r}>"

    @property
    def name(self) -> str:
        """The table's name."""
        return self.cells.table.name

    def ends(self, *, unknown: int, largest: int | None = None) -> Ends:
        """The smallest and the largest count that may be behind each cell (units x cells).

        where
            unknown   stands for an upper end of which nothing is said
            largest   the largest change where neither the release says it nor ``known``; None if
                      nothing is known
        """
        off = self.off or Off(down=0, up=0, zero_hides=self.zero_hides, exact_totals=True)
        if self.known is not None:
            off = self.known.off
        elif not off.told and largest is not None:
            off = replace(off, down=largest, up=largest, zero_hides=largest)
        cells, rule = self.cells, self.known or off
        low, high = rule.ends(self.value, inner=cells.inner, total=is_total(cells), unknown=unknown)
        most = unknown if off.withheld_below is None else off.withheld_below - 1
        return np.where(self.withheld, self.holds, low), np.where(self.withheld, most, high)

    def of_units(self, units: Ints) -> Self:
        """The same table of some units of its level, in this order."""
        return replace(self, value=self.value[units], withheld=self.withheld[units])


def is_total(cells: TableCells) -> Flags:
    """Whether each cell is the table's total: that of all axes, which stands first on each."""
    return np.asarray(cells.place == 0, dtype=bool)


def cell_names(cells: TableCells) -> list[str]:
    """A name for each cell: its groups, one for each axis."""
    return [" / ".join(label) or TOTAL_LABEL for label in cells.labels]


def cell_columns(cells: TableCells) -> dict[str, list[str]]:
    """The group of each cell along each axis, by the name of what the axis shows."""
    groups = zip(*cells.labels, strict=True)
    return {axis.role: list(labels) for axis, labels in zip(cells.axes, groups, strict=True)}


def flags(one: PublishedCells) -> list[str]:
    """What is said of each cell, unit after unit: that it is published, or withheld."""
    return [WITHHELD if gone else PUBLISHED for gone in one.withheld.ravel().tolist()]


def flagged_frame(one: PublishedCells, geography: Geography) -> pl.DataFrame:
    """A table as rows: unit, each attribute, n (empty where withheld) and a flag.

    The flag is "published" or "withheld", and says no more: that a cell is withheld for its own
    sake tells that it is small, and that it is withheld for others' that it is not.
    """
    units = geography.units[geography.depth(one.level)]
    return pl.DataFrame(
        {
            "unit": pl.Series(np.repeat(units, one.cells.size).tolist(), dtype=pl.String),
            **{
                name: pl.Series(labels * len(units), dtype=pl.String)
                for name, labels in cell_columns(one.cells).items()
            },
            "n": pl.Series(one.value.ravel(), dtype=pl.Int64),
            FLAG: pl.Series(flags(one), dtype=pl.String),
        }
    ).with_columns(pl.when(pl.col(FLAG) == PUBLISHED).then("n").alias("n"))


def published_frame(one: PublishedCells, geography: Geography) -> pl.DataFrame:
    """A table as rows: unit, cell, value (empty where withheld), published.

    A user's own table has a column for each attribute: see ``flagged_frame``.
    """
    if one.cells.table.is_own:
        return flagged_frame(one, geography)
    units = geography.units[geography.depth(one.level)]
    names = cell_names(one.cells)
    shown = ~one.withheld.ravel()
    value = pl.Series("value", one.value.ravel(), dtype=pl.Int64)
    return pl.DataFrame(
        {
            "unit": pl.Series(np.repeat(units, len(names)).tolist(), dtype=pl.String),
            "cell": pl.Series(names * len(units), dtype=pl.String),
            "value": value,
            "published": shown,
        }
    ).with_columns(pl.when("published").then("value").otherwise(None).alias("value"))


def read_published(
    frame: pl.DataFrame, definition: Mapping[str, Any], schema: Schema, geography: Geography
) -> PublishedCells:
    """A table from its rows and its definition, in the order in which it was written."""
    cells = _table_from_json(definition["table"]).on(schema)
    level = definition["level"]
    shape = (geography.size(level), cells.size)
    if frame.height != shape[0] * shape[1]:
        raise InputError(
            f"table {cells.table.name} at {level!r}",
            found=f"{frame.height} rows",
            expected=f"{shape[0]} units x {shape[1]} cells",
        )
    own = cells.table.is_own
    shown = frame[FLAG] == PUBLISHED if own else frame["published"]
    value = frame["n" if own else "value"]
    if value.dtype == pl.String:  # of a text file in which all are withheld
        value = value.replace({"": None}).cast(pl.Int64)
    return PublishedCells(
        cells=cells,
        level=level,
        value=value.fill_null(0).to_numpy().astype(np.int64).reshape(shape),
        withheld=~shown.to_numpy().reshape(shape),
        zero_hides=int(definition.get("zero_hides", 0)),  # else ``off`` says it
        holds=int(definition.get("holds", 0)),  # older releases do not say
        off=off_from_json(definition["off"]) if "off" in definition else None,
    )


def definition_of(one: PublishedCells) -> dict[str, Any]:
    """What is needed to read the table again."""
    table: dict[str, Any] = json.loads(json.dumps(asdict(one.cells.table)))
    for word in ("groups", "joined"):
        if not table[word]:
            del table[word]
    return {
        "table": table,
        "level": one.level,
        "holds": one.holds,
        **({"zero_hides": one.zero_hides} if one.off is None else {"off": off_to_json(one.off)}),
    }


def _table_from_json(data: Mapping[str, Any]) -> PublishedTable:
    """The table that ``definition_of`` wrote."""
    pairs: dict[str, Any] = {
        key: tuple((role, tuple(names)) for role, names in data.get(key, ()))
        for key in ("axes", "universe", "within")
    }
    for key in ("groups", "joined"):
        pairs[key] = tuple(
            (name, tuple((label, tuple(levels)) for label, levels in own))
            for name, own in data.get(key, ())
        )
    return PublishedTable(**{**data, **pairs})


def by_name(tables: Sequence[PublishedCells]) -> dict[tuple[str, str], PublishedCells]:
    """Tables by (name, level)."""
    return {(one.name, one.level): one for one in tables}
