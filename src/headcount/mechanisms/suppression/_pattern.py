"""Which cells of published tables are withheld, and the refusal where no choice will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import TruthError
from headcount.mechanisms.suppression._choice import (
    CostFile,
    NamedCells,
    Selector,
    on_linked,
    prices_on_linked,
)
from headcount.mechanisms.suppression.rules import Thresholds, too_small
from headcount.mechanisms.suppression.witnesses import Witnesses
from headcount.progress import Progress, silent
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import LinkedTables, all_values, link_tables
from headcount.tabulate.published import TableCells

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
        named = NamedCells(made, counts.geography, lowest=self.lowest)
        named.refuse(self.publish)
        if self.costs is not None:
            named.costs(self.costs)
        if self.publish:
            self.withheld(made, counts)

    def withheld(
        self, made: tuple[TableCells, ...], counts: Counts, *, progress: Progress = silent
    ) -> tuple[Mapping[tuple[str, str], Flags], tuple[Witnesses, ...]]:
        """Flags of the cells of each table and level, and what shows that they are enough."""
        from headcount.mechanisms.suppression.complementary import complement

        full = tuple(cells.crossed for cells in made)
        values = all_values(counts, full, lowest=self.lowest)
        named = NamedCells(made, counts.geography, lowest=self.lowest)
        kept = named.chosen(self.publish)
        own = named.costs(self.costs) if self.costs is not None else {}
        withheld: dict[tuple[str, str], Flags] = {}
        witnesses = []
        for linked in link_tables(made, counts.geography, lowest=self.lowest):
            truth = linked.gather(values)
            primary = too_small(truth, self.thresholds.cell) & linked.published
            publish = on_linked(linked, kept)
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
        return prices_on_linked(linked, price, own)

    def _no_pattern(
        self,
        linked: LinkedTables,
        truth: Ints,
        primary: Flags,
        publish: Flags,
        failed: Ints,
        named: NamedCells,
    ) -> TruthError:
        from headcount.mechanisms.suppression.complementary import in_the_way, needs

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
