"""Suppression with the complementary step, which the slides leave out: what it would have bought.

P1 to P4 are protected at all levels: counts of 1 or 2 are withheld openly, with others, so that by
these tables and the rules each may be 3 or more and is uncertain by 3. Summary File 1 counts the
same people again, so a table of it is withheld for a block, besides where 1 to 14 people live,
wherever it would restate a withheld cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.attacks.knowledge import UNKNOWN, Held, Knowledge, between, exact
from headcount.attacks.reconstruction import reconstruct
from headcount.evaluate.witnessed import check_witnesses
from headcount.mechanisms.suppression.complementary import complement, default_price
from headcount.mechanisms.suppression.mechanism import UNPUBLISHED, Rule, all_values
from headcount.mechanisms.suppression.rules import Thresholds, race_tables, too_small
from headcount.release.published import PublishedCells, is_total
from headcount.studies.hawes_rodriguez_2021.accuracy import COUNTY
from headcount.studies.hawes_rodriguez_2021.field import Battlefield
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import link_tables
from headcount.tabulate.published import TableCells

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

RULE: Rule = "complementary"
EFFORT = 0
"""Seconds for a state; at 1 it saves some cells and takes ten times as long."""
COLUMNS = {
    **dict.fromkeys(("table", "rule", "level"), pl.String),
    **dict.fromkeys(("total", "withheld"), pl.Int64),
    "percent": pl.Float64,
    "bare": pl.Int64,
}
"""Of the summary of what is withheld, with their types; ``bare`` cells no witness protects."""
EVERYBODY = ("P1", "P2")
TOTALS = 100.0
"""Price of a total of people above the block: it is published where anything else will do."""
REPEATED = ("P1", "P8", "P9", "P10", "P11")
"""Tables of Summary File 1 that are P1 to P4 of the redistricting data again: as these."""
AGES, YOUNG = "P12", "P14"
"""P14 counts those under 20, so that it goes with P12: with one total the other gives adults."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Complemented:
    """P1 to P4 as published at every level.

    where
        bare     by (table, level): small cells that no witness shows to be protected
    """

    counts: Counts
    tables: tuple[PublishedCells, ...]
    bare: dict[tuple[str, str], Flags]

    def at(self, level: str) -> tuple[PublishedCells, ...]:
        """Those of a level."""
        return tuple(one for one in self.tables if one.level == level)


def complemented(counts: Counts, limits: Thresholds) -> Complemented:
    """Withhold small counts of P1 to P4 and what would give them away, from state to block.

    Totals of people above the block are the last to be withheld. A block's cannot always be
    published: a 0 is published as 0, so that the total of a block of one group is the count of
    that group.
    """
    made = tuple(table.on(counts.schema) for table in race_tables().values())
    values = all_values(counts, made)
    totals = {(one.table.name, level): _totals(one, counts, level)
              for one in made for level in counts.geography.levels}  # fmt: skip
    withheld: dict[tuple[str, str], Flags] = {}
    bare: dict[tuple[str, str], Flags] = {}
    for linked in link_tables(made, counts.geography):
        truth, shown = linked.gather(values), linked.published
        # What no table has, such as minors of a group, is withheld for nothing.
        price = np.where(shown, default_price(truth), UNPUBLISHED)
        price[(linked.gather(totals) == 1) & shown] = TOTALS
        small, asked = too_small(truth, limits.cell) & shown, limits.cell
        pattern = complement(
            linked.additive, truth, small, threshold=asked, price=price, effort=EFFORT
        )
        audit = check_witnesses(
            linked.additive, truth, withheld=pattern.withheld | ~shown, primary=small,
            witnesses=pattern.witnesses, threshold=asked, published=shown,
        )  # fmt: skip
        failed = np.zeros(len(truth), dtype=bool)
        failed[audit.unprotected] = True
        for where, number in linked.number.items():
            withheld[where], bare[where] = pattern.withheld[number], failed[number]
    known = {one.table.name: one for one in made}
    published = tuple(
        PublishedCells(
            cells=known[name], level=level, withheld=withheld[name, level],
            value=np.where(withheld[name, level], 0, value), holds=1,
        )
        for (name, level), value in values.items()
    )  # fmt: skip
    return Complemented(counts=counts, tables=published, bare=bare)


def _totals(cells: TableCells, counts: Counts, level: str) -> Flags:
    """Totals of people above the leaf (units x cells of the table)."""
    chosen = is_total(cells) & (cells.table.name in EVERYBODY and level != counts.level)
    return np.tile(chosen, (counts.geography.size(level), 1))


def complement_rows(found: Complemented) -> pl.DataFrame:
    """Cells withheld in all, counted like those of the cell rule."""
    rows = []
    for one in found.tables:
        lived = found.counts.at(one.level).totals() > 0
        hidden = one.withheld[:, one.cells.inner][lived]
        share = 100 * float(hidden.mean()) if hidden.size else float("nan")
        rows.append(
            {"table": one.name, "rule": RULE, "level": one.level, "total": int(hidden.size),
             "withheld": int(hidden.sum()), "percent": share,
             "bare": int(found.bare[one.name, one.level][:, one.cells.inner].sum())}
        )  # fmt: skip
    return pl.DataFrame(rows, schema=COLUMNS)


def complemented_tables(
    field: Battlefield, found: Complemented, limits: Thresholds
) -> tuple[Held, ...]:
    """Block tables as an attacker who knows the rules holds them: P1 to P4, and what is left."""
    counts = field.counts
    shown = found.at(counts.level)
    most = _people_above(found)
    held = [
        between(
            one.cells, np.where(one.withheld, one.holds, one.value),
            np.where(one.withheld, most[:, None], one.value), level=counts.level,
        )
        for one in shown
    ]  # fmt: skip
    few = too_small(counts.totals(), limits.persons)
    ages = next(one for one in field.tables if one.table.name == AGES)
    for cells in field.tables:
        if cells.table.name not in REPEATED:
            says = ages if cells.table.name == YOUNG else cells
            table = exact(cells, counts.matrix @ cells.matrix, level=counts.level)
            held.append(table.withheld(few | _restates(says, shown)))
    return tuple(held)


def reconstruct_complemented(field: Battlefield, found: Complemented, limits: Thresholds) -> Any:
    """Records as counts (leaf units x cells) from what is left."""
    held = complemented_tables(field, found, limits)
    knowledge = Knowledge(field.counts.schema, field.geography, held)
    return reconstruct(knowledge, variability=False).matrix


def county_counts(found: Complemented) -> tuple[Floats, Floats]:
    """Total and race groups of counties as P1 shows them; not a number where withheld."""
    (races,) = (one for one in found.at(COUNTY) if one.name == "P1")
    value = np.where(races.withheld, np.nan, races.value)
    total = is_total(races.cells)
    return value[:, total][:, 0], value[:, races.cells.inner]


def _restates(cells: TableCells, shown: Sequence[PublishedCells]) -> Flags:
    """Units in which a table would give back a withheld cell: one that is a sum of its own."""
    own = cells.matrix.toarray()[:, cells.inner].astype(np.int64)
    size = own.sum(axis=0)
    given = np.zeros(shown[0].withheld.shape[0], dtype=bool)
    for one in shown:
        other = one.cells.matrix.toarray().astype(np.int64)
        inside = own.T @ other == size[:, None]  # own cells that lie within a cell of the other
        follows = size @ inside == other.sum(axis=0)
        given |= one.withheld[:, follows].any(axis=1)
    return given


def _people_above(found: Complemented) -> NDArray[np.int64]:
    """For each leaf unit the total of the nearest unit above whose total is published."""
    geography = found.counts.geography
    most = np.full(geography.size(geography.leaf), UNKNOWN)
    for level in geography.levels[:-1]:
        (one,) = (table for table in found.at(level) if table.name == "P1")
        total = is_total(one.cells)
        above = geography.ancestors(level)
        published = ~one.withheld[:, total][:, 0][above]
        most = np.where(published, one.value[:, total][:, 0][above], most)
    return most
