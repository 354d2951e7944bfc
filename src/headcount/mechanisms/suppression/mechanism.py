"""Suppression as a mechanism: published tables, some cells of which are withheld."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Literal, get_args

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.errors import ConfigError
from headcount.fields import AtLeast0, AtLeast1, Whole
from headcount.geography import Geography
from headcount.mechanisms._base import Context, PostTabular, TablesOutcome
from headcount.mechanisms.suppression._whole import given_back
from headcount.mechanisms.suppression.rules import (
    GROUPS_OF,
    RACE_ONLY,
    Thresholds,
    find_tables,
    known_tables,
    publish_cells,
    race_tables,
    small_groups,
    too_small,
    withhold_units,
)
from headcount.mechanisms.suppression.witnesses import WITNESSES, Witnesses, write_witnesses
from headcount.noise import Noise
from headcount.privacy import Guarantee
from headcount.release.published import PublishedCells, Rules
from headcount.schema import Schema
from headcount.schema.attribute import first_repeated
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import LinkedTables, levels_of, link_tables
from headcount.tabulate.published import TableCells

SuppressionRule = Literal["1980", "complementary"]
RULES: tuple[SuppressionRule, ...] = get_args(SuppressionRule)
TABLES = ("P1", "P2", "P3", "P4")
LARGEST_EFFORT = 3
WIDEST_INTERVAL = 100
"""The largest width and threshold of complementary suppression."""
UNPUBLISHED = 0.01
"""Price of a cell that no table has: the programs need one above 0."""
TOTAL_KEPT = 100.0
"""Price of a total of people that is to be kept: of anything else more than would ever do."""


@dataclass(frozen=True, kw_only=True)
class Suppression(PostTabular):
    """Publish tables at every level, without what is too small.

    where
        rule         "1980": the primary rules of that census, small counts published as 0;
                     "complementary": small counts withheld, and others so that no margin gives
                     them away
        tables       which tables: P1 to P4 by seven groups of race, and those of Summary File 1
        by_cell      under "1980", which of P1 to P4 have the cell rule; the others of 18 and over
                     have the table rule
        thresholds   the largest counts that are too small
        lowest       the lowest level at which anything is published; the leaf by default
        width        under "complementary", how wide the interval of a small count must stay for an
                     attacker who knows the rules (see ``complementary.complement``)
        effort       0 to 3: with more time, fewer cells are withheld
        keep_totals  under "complementary", withhold how many people live in a unit above the leaf
                     only where nothing else will do
        whole        under "complementary", further tables: published as they are, but for units in
                     which few people live or the table would reveal a withheld cell
        audit        how many withheld cells the curator's audit attacks by linear programs; under
                     "complementary" all have witnesses besides
    """

    rule: SuppressionRule = "1980"
    tables: tuple[str, ...] = TABLES
    by_cell: tuple[str, ...] = ("P1", "P2")
    thresholds: Thresholds = field(default_factory=Thresholds)
    lowest: str = ""
    width: AtLeast1 = 3
    effort: Annotated[int, Whole(low=0, high=LARGEST_EFFORT)] = 1
    keep_totals: bool = False
    whole: tuple[str, ...] = ()
    audit: AtLeast0 = 50
    name = "suppression"
    draws_noise = False

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigError(
                "suppression", place="rule", found=repr(self.rule), expected=" or ".join(RULES)
            )
        if not self.tables:
            raise ConfigError("suppression", place="tables", found="none", expected="at least one")
        known = known_tables()
        for name in (*self.tables, *self.whole):
            if name not in known:
                raise ConfigError(
                    "suppression",
                    place="tables",
                    found=repr(name),
                    expected=f"some of {', '.join(known)}",
                )
        if (repeated := first_repeated(self.tables)) is not None:
            raise ConfigError(
                "suppression",
                place="tables",
                found=f"{repeated!r} twice",
                expected="distinct tables",
            )
        for place, value, low, high in (
            ("width", self.width, 1, 1 << 30),
            ("effort", self.effort, 0, LARGEST_EFFORT),
            ("audit", self.audit, 0, 1 << 30),
        ):
            if not low <= value <= high:
                raise ConfigError(
                    "suppression", place=place, found=str(value), expected=f"{low} to {high}"
                )
        if self.rule == "complementary":
            self._refuse_wide()
        elif self.keep_totals or self.whole:
            raise ConfigError(
                "suppression",
                place="keep_totals" if self.keep_totals else "whole",
                found=f"rule {self.rule!r}",
                expected="the rule 'complementary'",
            )
        if twice := sorted(set(self.whole) & set(self.tables)):
            raise ConfigError(
                "suppression",
                place="whole",
                found=f"{twice[0]!r}, which is among tables",
                expected="other tables",
            )
        if strange := sorted(set(self.by_cell) - set(TABLES)):
            raise ConfigError(
                "suppression",
                place="by_cell",
                found=repr(strange[0]),
                expected=f"some of {', '.join(TABLES)}",
            )

    def _refuse_wide(self) -> None:
        """The search tries one way for each count that a cell may rise by, so these stay small."""
        for place, value in (("width", self.width), ("thresholds.cell", self.thresholds.cell)):
            if value > WIDEST_INTERVAL:
                raise ConfigError(
                    "suppression",
                    place=place,
                    found=str(value),
                    expected=f"at most {WIDEST_INTERVAL} with the rule 'complementary'",
                )

    def guarantee(self, schema: Schema, geography: Geography) -> Guarantee:
        """None, and it says so."""
        published = "every other cell is published as it is"
        if self.rule == "1980":
            return Guarantee.none(
                f"counts of 1 to {self.thresholds.cell} are published as 0 and small tables are "
                f"withheld; {published}, totals included, and a hidden count can often be worked "
                "out from margins and from the levels above"
            )
        beside = (
            f". Tables {', '.join(self.whole)} are published whole beside these; where one of them "
            "would reveal a withheld cell, alone or with one other cell, it is withheld; what "
            "several of them reveal together is not covered"
            if self.whole
            else ""
        )
        return Guarantee.none(
            f"counts of 1 to {self.thresholds.cell} are withheld with others, so that, as far as "
            f"the tables and the rules show, each may be {self.thresholds.cell + 1} or more and is "
            f"uncertain by {self.width}; {published}. That somebody is in a withheld cell is "
            "disclosed: a 0 is published as 0. Not covered: attackers who know their own cells or "
            "more; what the choice of the cells to withhold reveals; and what tables that cross "
            f"each other reveal beyond their sums, because all count the same people{beside}"
        )

    def refuse_changed(self, *, by: str, weight: Fraction, households: bool) -> None:
        """Refuse a sample: its counts are small for another reason than few people."""
        if weight != 1:
            raise ConfigError(
                "suppression",
                place="mechanism",
                found=f"a sample ({by}), whose people stand for {weight} each",
                expected="everybody: thresholds for small counts, and published tables, have no "
                "meaning for weighted counts",
            )

    def table_bytes(self, schema: Schema, geography: Geography, *, backend: str) -> int:
        """None: tables are made one by one."""
        return 0

    def check(self, counts: Counts) -> tuple[str, ...]:
        """Refuse tables that the population cannot make, and levels that it does not have."""
        made = find_tables(self.tables, counts.schema)
        for cells in (*made, *find_tables(self.whole, counts.schema)):
            levels_of(cells, counts.geography, self.lowest)
        if self.rule == "complementary":
            for cells in made:
                if any(coding.overlapping for coding in cells.axes):
                    raise ConfigError(
                        "suppression",
                        place=f"table {cells.table.name}",
                        found="groups that overlap",
                        expected="tables whose cells add up, for the rule 'complementary'",
                    )
        return ()

    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> TablesOutcome:
        """The tables, less what is withheld: the same in every run."""
        self.check(counts)
        made = find_tables(self.tables, counts.schema)
        if self.rule == "1980":
            return TablesOutcome(self._by_rules(counts, made), self._rules)
        published, witnesses = self._complemented(counts, made)
        if context is not None and context.curator is not None:
            write_witnesses(context.curator / WITNESSES, witnesses)
        return TablesOutcome(published, self._rules)

    @property
    def _rules(self) -> Rules:
        return Rules(
            rule=self.rule,
            tables=self.tables,
            thresholds=self.thresholds,
            width=self.width,
            audit=self.audit,
        )

    def _by_rules(self, counts: Counts, made: tuple[TableCells, ...]) -> tuple[PublishedCells, ...]:
        published = []
        for cells in made:
            for level in levels_of(cells, counts.geography, self.lowest):
                values = table_values(counts.at(level), cells)
                name = cells.table.name
                if name in self.by_cell or name in RACE_ONLY:
                    most = self.thresholds.cell
                    published.append(publish_cells(values, cells, level=level, most=most))
                    continue
                units = self._withheld_units(counts.at(level), name)
                published.append(withhold_units(values, cells, units, level=level))
        return tuple(published)

    def _withheld_units(self, at_level: Counts, table: str) -> Flags:
        """Where a whole table is withheld."""
        if (groups := GROUPS_OF.get(table)) is not None:
            decides = race_tables()[groups].on(at_level.schema)
            values = table_values(at_level, decides)
            return small_groups(values, decides, most=self.thresholds.group)
        if table in TABLES:  # P1 or P2 without the cell rule: published as they are
            return np.zeros(at_level.matrix.shape[0], dtype=bool)
        return too_small(at_level.totals(), self.thresholds.persons)

    def _complemented(
        self, counts: Counts, made: tuple[TableCells, ...]
    ) -> tuple[tuple[PublishedCells, ...], tuple[Witnesses, ...]]:
        from headcount.mechanisms.suppression.complementary import complement, default_price

        full = tuple(cells.crossed for cells in made)
        values = all_values(counts, full, lowest=self.lowest)
        withheld: dict[tuple[str, str], Flags] = {}
        witnesses = []
        for linked in link_tables(made, counts.geography, lowest=self.lowest):
            truth = linked.gather(values)
            primary = too_small(truth, self.thresholds.cell) & linked.published
            # What no table has is withheld for nothing; taking the rest of it as published only
            # makes the attacker stronger than he is.
            price = np.where(linked.published, default_price(truth), UNPUBLISHED)
            if self.keep_totals:
                price[_everybody_above_leaf(linked, made, counts)] = TOTAL_KEPT
            pattern = complement(
                linked.additive,
                truth,
                primary,
                width=self.width,
                threshold=self.thresholds.cell,
                price=price,
                effort=self.effort,
            )
            assert not len(pattern.failed)  # nothing must be published but zeros
            witnesses.append(pattern.witnesses)
            for where, number in linked.number.items():
                withheld[where] = pattern.withheld[number]
        published = []
        for cells in made:
            for level in levels_of(cells, counts.geography, self.lowest):
                where = (cells.table.name, level)
                value = np.where(withheld[where], 0, values[where][:, cells.place])
                published.append(
                    PublishedCells(
                        cells=cells, level=level, value=value, withheld=withheld[where], holds=1
                    )
                )
        return (*published, *self._whole(counts, published)), tuple(witnesses)

    def _whole(
        self, counts: Counts, protected: Sequence[PublishedCells]
    ) -> Iterator[PublishedCells]:
        """The tables that are published whole, where they give nothing away."""
        for cells in find_tables(self.whole, counts.schema):
            found = given_back(cells, find_tables(self.tables, counts.schema))
            for level in levels_of(cells, counts.geography, self.lowest):
                at_level = counts.at(level)
                withheld = np.hstack([one.withheld for one in protected if one.level == level])
                units = too_small(at_level.totals(), self.thresholds.persons)
                units |= found.units(withheld)
                yield withhold_units(table_values(at_level, cells), cells, units, level=level)


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


def table_values(at_level: Counts, cells: TableCells) -> Ints:
    """A true table (units x cells) at the level of the counts."""
    return np.asarray((at_level.matrix @ cells.matrix).toarray(), dtype=np.int64)


def all_values(
    counts: Counts, made: tuple[TableCells, ...], *, lowest: str = ""
) -> Mapping[tuple[str, str], Ints]:
    """True tables by (name, level)."""
    return {
        (cells.table.name, level): table_values(counts.at(level), cells)
        for cells in made
        for level in levels_of(cells, counts.geography, lowest)
    }
