"""Which cells of published tables are withheld: by name, at what cost; refused if none will do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import polars as pl

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import ConfigError, TruthError, did_you_mean
from headcount.fields import SECRET, FilePath, Pairs
from headcount.geography import Geography
from headcount.mechanisms.suppression.complementary import complement, in_the_way, needs
from headcount.mechanisms.suppression.rules import Thresholds, too_small
from headcount.mechanisms.suppression.witnesses import Witnesses
from headcount.processes import Progress, silent
from headcount.release.published import cell_columns
from headcount.tabulate import Counts
from headcount.tabulate.codings import TOTAL_LABEL
from headcount.tabulate.linked_tables import LinkedTables, all_values, levels_of, link_tables
from headcount.tabulate.published import TableCells

COST = "cost"
PLACES = ("table", "level", "unit")
Selector = Pairs[str | tuple[str, ...]]
"""Cells by ``table``, ``level``, ``unit`` and attributes, each with one name or several."""


@dataclass(frozen=True, kw_only=True)
class CostFile:
    """What it costs to withhold some cells, from a CSV or Parquet file with a column ``cost``.

    Its other columns say which cells: ``table``, ``level``, ``unit``, attributes, any of them.

    where
        file     where it is, which is no part of the settings: only its name is shown
        sha256   of its content, so that other costs are another setting; "" to take any. Costs may
                 come from the data, so no receipt has it: a reader could try guesses on it
    """

    file: FilePath
    sha256: Annotated[str, SECRET] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "file", Path(self.file))

    def __repr__(self) -> str:
        return f"CostFile(file={self.file.name!r})"

    def bound_to_files(self) -> CostFile:
        """The same for the file's present content only."""
        found = sha256(self._content()).hexdigest()
        if self.sha256 and self.sha256 != found:
            expected = f"sha256 {self.sha256}, as configured"
            raise ConfigError(str(self.file), found=f"sha256 {found}", expected=expected)
        return replace(self, sha256=found)

    def _content(self) -> bytes:
        if not self.file.is_file():
            expected = "a table of costs, .csv or .parquet"
            raise ConfigError(str(self.file), found="no such file", expected=expected)
        return self.file.read_bytes()

    def read(self, known: Sequence[str]) -> pl.DataFrame:
        """Names as text and costs as numbers, a row for each line of the file."""
        source, content = str(self.file), self._content()
        try:
            if self.file.suffix == ".parquet":
                frame = pl.read_parquet(content)
            else:
                frame = pl.read_csv(content, infer_schema=False)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise ConfigError(
                source,
                found=f"what cannot be read: {str(error).splitlines()[0]}",
                expected="a table of costs, .csv in UTF-8 or .parquet",
            ) from None
        if COST not in frame.columns:
            found = f"columns {', '.join(frame.columns)}"
            raise ConfigError(source, found=found, expected=f"a column {COST!r}")
        by = [name for name in frame.columns if name != COST]
        for name in by:
            if name not in known:
                expected = did_you_mean(name, known)
                raise ConfigError(source, place=f"column {name!r}", found="it", expected=expected)
        read = frame.select(
            *(pl.col(name).cast(pl.String) for name in by),
            pl.col(COST).cast(pl.Float64, strict=False),
        )
        bad = read.with_row_index("row").filter(
            ~(pl.col(COST).is_finite() & (pl.col(COST) > 0)).fill_null(False)
        )
        for row in bad["row"].head(1):
            place = f"row {row + 1}, column {COST!r}"
            found = repr(frame[COST][row])
            raise ConfigError(source, place=place, found=found, expected="a number above 0")
        if read.select(by).is_duplicated().any():
            row = int(read.select(by).is_duplicated().arg_max() or 0)
            raise ConfigError(
                source, place=f"row {row + 1}", found="cells named twice", expected="once"
            )
        return read


class _NamedCells:
    """Every cell of some tables, by the names that files and messages have for it."""

    def __init__(
        self, made: Sequence[TableCells], geography: Geography, *, lowest: str = ""
    ) -> None:
        self._tables = {cells.table.name: cells for cells in made}
        self._geography = geography
        self.attributes = tuple(dict.fromkeys(axis.role for cells in made for axis in cells.axes))
        self._levels = {
            name: levels_of(cells, geography, lowest) for name, cells in self._tables.items()
        }

    @property
    def keys(self) -> tuple[str, ...]:
        """What a cell can be chosen by."""
        return (*PLACES, *self.attributes)

    def frames(self) -> Iterator[tuple[tuple[str, str], pl.DataFrame]]:
        """For each table and level the names of its cells, unit after unit."""
        for name, cells in self._tables.items():
            columns = cell_columns(cells)
            for level in self._levels[name]:
                units = self._geography.units[self._geography.depth(level)].tolist()
                yield (
                    (name, level),
                    pl.DataFrame(
                        {
                            "table": [name] * (len(units) * cells.size),
                            "level": [level] * (len(units) * cells.size),
                            "unit": np.repeat(units, cells.size).astype(object),
                            **{
                                one: columns.get(one, [TOTAL_LABEL] * cells.size) * len(units)
                                for one in self.attributes
                            },
                        },
                        schema=dict.fromkeys(self.keys, pl.String),
                    ),
                )

    def refuse(self, selectors: Sequence[Selector]) -> None:
        """Refuse a selector that has unknown names, or that chooses no cell."""
        for number, one in enumerate(selectors, start=1):
            place = f"publish {number}"
            for key, values in one:
                if key not in self.keys:
                    expected = did_you_mean(key, self.keys)
                    raise ConfigError(
                        "suppression", place=place, found=repr(key), expected=expected
                    )
                for value in _several(values):
                    if value not in (known := self._known(key)):
                        raise ConfigError(
                            "suppression",
                            place=f"{place}, {key}",
                            found=repr(value),
                            expected=did_you_mean(value, known),
                        )
            if not any(_chosen(frame, one).any() for _, frame in self.frames()):
                expected = "names that some cell has together"
                raise ConfigError("suppression", place=place, found="no cell", expected=expected)

    def _known(self, key: str) -> list[str]:
        geography = self._geography
        if key == "table":
            return list(self._tables)
        levels = list(dict.fromkeys(level for some in self._levels.values() for level in some))
        if key == "level":
            return levels
        if key == "unit":
            return [one for level in levels for one in geography.units[geography.depth(level)]]
        labels = [cell_columns(one).get(key, [TOTAL_LABEL]) for one in self._tables.values()]
        return list(dict.fromkeys(label for some in labels for label in some))

    def chosen(self, selectors: Sequence[Selector]) -> Mapping[tuple[str, str], Flags]:
        """Cells that some selector chooses, by table and level (units x cells)."""
        if not selectors:
            return {}
        return {
            where: np.any([_chosen(frame, one) for one in selectors], axis=0)
            for where, frame in self.frames()
        }

    def costs(self, file: CostFile) -> Mapping[tuple[str, str], Floats]:
        """The cost of each cell by table and level, not a number where the file has none."""
        read = file.read(self.keys).with_row_index("row")
        by = [name for name in read.columns if name not in (COST, "row")]
        used = np.zeros(read.height, dtype=bool)
        found = {}
        for where, frame in self.frames():
            if by:
                joined = frame.join(read, on=by, how="left", maintain_order="left")
            else:
                joined = frame.join(read, how="cross")
            used[joined["row"].drop_nulls().unique().to_numpy()] = True
            found[where] = joined[COST].fill_null(float("nan")).to_numpy()
        if not used.all():
            row = int(np.argmin(used)) + 1
            raise ConfigError(
                str(file.file),
                place=f"row {row}",
                found="names that no cell has together",
                expected="cells of the tables",
            )
        return found

    def describe(self, linked: LinkedTables, cells: Ints) -> list[str]:
        """Cells of linked tables in words: table, level, unit and attributes."""
        left = dict.fromkeys(cells.tolist())
        words: dict[int, str] = {}
        for where, frame in self.frames():
            if where not in linked.number:
                continue
            number = linked.number[where].ravel()
            for row in np.flatnonzero(np.isin(number, [one for one in left if one not in words])):
                table, level, unit, *labels = frame.row(int(row))
                groups = ", ".join(
                    f"{name} {label}" for name, label in zip(self.attributes, labels, strict=True)
                )
                words.setdefault(int(number[row]), f"{table} at {level} {unit}: {groups}")
        return [words[one] for one in left if one in words]


def _several(values: str | tuple[str, ...]) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else values


def _chosen(frame: pl.DataFrame, selector: Selector) -> Flags:
    found = np.ones(frame.height, dtype=bool)
    for key, values in selector:
        found &= frame[key].is_in(list(_several(values))).to_numpy()
    return found


def _on_linked(linked: LinkedTables, tables: Mapping[tuple[str, str], Flags]) -> Flags:
    """Flags of the cells of linked tables from those of the tables."""
    found = np.zeros(linked.additive.size, dtype=bool)
    for where, number in linked.number.items():
        if where in tables:
            found[number.ravel()[tables[where]]] = True
    return found


def _prices_on_linked(
    linked: LinkedTables, price: Floats, tables: Mapping[tuple[str, str], Floats]
) -> Floats:
    """Prices with those of a file in their place; the highest, where tables share a cell."""
    own = np.full(linked.additive.size, np.nan)
    for where, number in linked.number.items():
        if where in tables:
            flat = number.ravel()
            own[flat] = np.fmax(own[flat], tables[where])
    return np.where(np.isnan(own), price, own)


Cost = Literal["balanced", "cells", "people"]
UNPUBLISHED = 0.01
"""Price of a cell that no table has: the programs need one above 0."""
TOTAL_KEPT = 100.0
"""Price of a total of people that is to be kept: of anything else more than would ever do."""
MOST_NAMED = 10
"""Cells that a refusal names."""


@dataclass(frozen=True, kw_only=True)
class Withholding:
    """How to choose the cells that are withheld: see ``Suppression``."""

    thresholds: Thresholds
    width: int
    effort: int
    lowest: str
    keep_totals: bool
    cost: Cost
    costs: CostFile | None
    publish: tuple[Selector, ...]

    def check(self, made: tuple[TableCells, ...], counts: Counts) -> None:
        """Refuse names that no cell has, and cells to be published that leave no pattern.

        The second needs the search itself, and is done only where such cells are named.
        """
        named = _NamedCells(made, counts.geography, lowest=self.lowest)
        named.refuse(self.publish)
        if self.costs is not None:
            named.costs(self.costs)
        if self.publish:
            self.withheld(made, counts)

    def withheld(
        self, made: tuple[TableCells, ...], counts: Counts, *, progress: Progress = silent
    ) -> tuple[Mapping[tuple[str, str], Flags], tuple[Witnesses, ...]]:
        """Flags of the cells of each table and level, and what shows that they are enough."""
        full = tuple(cells.crossed for cells in made)
        values = all_values(counts, full, lowest=self.lowest)
        named = _NamedCells(made, counts.geography, lowest=self.lowest)
        kept = named.chosen(self.publish)
        own = named.costs(self.costs) if self.costs is not None else {}
        withheld: dict[tuple[str, str], Flags] = {}
        witnesses = []
        for linked in link_tables(made, counts.geography, lowest=self.lowest):
            truth = linked.gather(values)
            primary = too_small(truth, self.thresholds.cell) & linked.published
            publish = _on_linked(linked, kept)
            if len(both := np.flatnonzero(primary & publish)):
                raise _too_small_to_publish(named.describe(linked, both))
            pattern = complement(
                linked.additive,
                truth,
                primary,
                width=self.width,
                threshold=self.thresholds.cell,
                price=self._price(linked, truth, made, counts, own),
                publish=publish,
                effort=self.effort,
                progress=progress,
            )
            if len(pattern.failed):
                raise self._no_pattern(linked, truth, primary, publish, pattern.failed, named)
            witnesses.append(pattern.witnesses)
            for where, number in linked.number.items():
                withheld[where] = pattern.withheld[number]
        return withheld, tuple(witnesses)

    def _price(
        self,
        linked: LinkedTables,
        truth: Ints,
        made: Sequence[TableCells],
        counts: Counts,
        own: Mapping[tuple[str, str], Floats],
    ) -> Floats:
        from headcount.mechanisms.suppression.complementary import default_price

        if self.cost == "balanced":
            each = default_price(truth)
        else:
            each = np.ones(len(truth)) if self.cost == "cells" else np.maximum(truth, 1.0)
        # What no table has is withheld for nothing; taking the rest of it as published only
        # makes the attacker stronger than he is.
        price = np.where(linked.published, each, UNPUBLISHED)
        if self.keep_totals:
            price[_everybody_above_leaf(linked, made, counts)] = TOTAL_KEPT
        return _prices_on_linked(linked, price, own)

    def _no_pattern(
        self,
        linked: LinkedTables,
        truth: Ints,
        primary: Flags,
        publish: Flags,
        failed: Ints,
        named: _NamedCells,
    ) -> TruthError:
        need = needs(truth, primary, threshold=self.thresholds.cell, width=self.width)
        some = failed[:MOST_NAMED]
        way = [
            in_the_way(linked.additive, truth, need, publish=publish, target=int(one))
            for one in some
        ]
        blocking = named.describe(linked, np.unique(np.concatenate(way)))
        return TruthError(
            "suppression",
            place="publish",
            found=f"{len(failed):,} small counts that no pattern protects while these cells are "
            "published",
            expected="fewer cells to publish. Small counts: "
            + _listed(named.describe(linked, some), len(failed))
            + ". Cells to publish, of which some would have to be withheld: "
            + _listed(blocking[:MOST_NAMED], len(blocking)),
        )


def _too_small_to_publish(cells: Sequence[str]) -> TruthError:
    return TruthError(
        "suppression",
        place="publish",
        found=f"{len(cells):,} cells to publish that are small counts",
        expected="cells above the threshold, or 0. Small ones: "
        + _listed(cells[:MOST_NAMED], len(cells)),
    )


def _listed(names: Sequence[str], number: int) -> str:
    more = f"; and {number - len(names):,} more" if number > len(names) else ""
    return "; ".join(names) + more


def _everybody_above_leaf(
    linked: LinkedTables, made: Sequence[TableCells], counts: Counts
) -> Flags:
    """Cells of linked tables that count all people of a unit above the leaf."""
    found = np.zeros(linked.additive.size, dtype=bool)
    people = {
        cells.table.name: np.asarray(cells.matrix.sum(axis=0)).ravel() == counts.schema.size
        for cells in made
    }
    for (name, level), number in linked.number.items():
        if level != counts.geography.leaf:
            found[number[:, people[name]]] = True
    return found
