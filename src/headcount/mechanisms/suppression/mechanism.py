"""Suppression as a mechanism: published tables, some cells of which are withheld."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Annotated, Any, Literal, cast, get_args

import numpy as np

from headcount.arrays import Flags
from headcount.domain import Domain
from headcount.errors import ConfigError, did_you_mean
from headcount.fields import AtLeast0, AtLeast1, Named, Pairs, Whole
from headcount.geography import Geography
from headcount.mechanisms._base import Context, TablesOutcome, refuse_too_many
from headcount.mechanisms._own_tables import (
    AUTO,
    COLUMNS,
    NOTHING,
    GroupsTable,
    Keyed,
    TableMethod,
    TablesDesign,
    TablesField,
    cross,
    frozen,
    plain,
)
from headcount.mechanisms.suppression._pattern import Cost, CostFile, Selector, Withholding
from headcount.mechanisms.suppression.complementary import given_back
from headcount.mechanisms.suppression.rules import (
    TABLES,
    Thresholds,
    find_tables,
    publish_by_rules,
    too_small,
    withhold_units,
)
from headcount.mechanisms.suppression.witnesses import WITNESSES, write_witnesses
from headcount.noise import Noise
from headcount.privacy import Guarantee
from headcount.release.published import PublishedCells, Rules
from headcount.schema import Schema
from headcount.schema.schema import BinsField
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import levels_of, table_values
from headcount.tabulate.published import TableCells
from headcount.typed import from_table

SuppressionRule = Literal["1980", "complementary"]
RULES: tuple[SuppressionRule, ...] = get_args(SuppressionRule)
LARGEST_EFFORT = 3
WIDEST_INTERVAL = 100
"""The largest width and threshold of complementary suppression."""


class _Unsaid(str):
    """The rule where none is given: "1980", or "complementary" for tables of one's own."""


UNSAID = cast(SuppressionRule, _Unsaid("1980"))
SelectorTable = Annotated[Keyed[Any], Named(str | tuple[str, ...])]


@dataclass(frozen=True, kw_only=True)
class Suppression(TableMethod):
    """Publish tables at every level, without what is too small.

    where
        rule         "1980": the primary rules of that census, small counts published as 0;
                     "complementary": small counts withheld, and others so that no margin gives
                     them away. By default the first, and the second for tables of one's own
        tables       which tables: P1 to P4 by seven groups of race, and those of Summary File 1; or
                     one's own by attributes, ``{ age_sex = ["age", "sex"] }``; or "auto", each
                     attribute and small pairs of them (``own``)
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
        groups       of own tables: broader groups of an attribute's levels, shown above these
        bins         the same for years of age, by where broader bins begin
        prefixes     the same for codes, by how many first characters broader codes have
        lowest_of    of own tables: the lowest level of some tables
        cost         under "complementary", what withholding a cell costs: "cells" 1 each, "people"
                     its count, "balanced" 1 + log(1 + count)
        costs        a file of costs for cells by name, in place of these
        publish      under "complementary", cells that must be published, by table, level, unit and
                     groups of attributes
    """

    rule: SuppressionRule = UNSAID
    tables: Annotated[Sequence[str] | Keyed[Sequence[str]], TablesField()] = TABLES
    by_cell: tuple[str, ...] = ("P1", "P2")
    thresholds: Thresholds = field(default_factory=Thresholds)
    lowest: str = ""
    width: AtLeast1 = 3
    effort: Annotated[int, Whole(low=0, high=LARGEST_EFFORT)] = 1
    keep_totals: bool = False
    whole: tuple[str, ...] = ()
    audit: AtLeast0 = 50
    groups: Annotated[Keyed[Keyed[Sequence[str]]], Named(GroupsTable)] = NOTHING
    bins: Annotated[Keyed[Any], Named(Annotated[Any, BinsField()])] = NOTHING
    prefixes: Annotated[Keyed[Sequence[int]], Named(tuple[int, ...])] = NOTHING
    lowest_of: Annotated[Keyed[str], Named(str)] = NOTHING
    cost: Cost = "balanced"
    costs: CostFile | None = None
    publish: tuple[SelectorTable, ...] = ()
    name = "suppression"
    draws_noise = False
    withholds = True

    def __post_init__(self) -> None:
        self._normalise()
        if self.rule not in RULES:
            raise self.bad("rule", repr(self.rule), " or ".join(RULES))
        self.refuse_names(*self.whole)
        self._refuse_other_names()
        for place, value, low, high in (
            ("width", self.width, 1, 1 << 30),
            ("effort", self.effort, 0, LARGEST_EFFORT),
            ("audit", self.audit, 0, 1 << 30),
        ):
            if not low <= value <= high:
                raise self.bad(place, str(value), f"{low} to {high}")
        if self.cost not in get_args(Cost):
            raise self.bad("cost", repr(self.cost), did_you_mean(self.cost, get_args(Cost)))
        if self.rule == "complementary":
            self._refuse_wide()
        else:
            self._refuse_complementary()

    def _normalise(self) -> None:
        """From Python: mappings as pairs, lists as tuples; the rule that goes with the tables."""
        self.freeze_tables()
        object.__setattr__(self, "publish", frozen(self.publish))
        if not isinstance(self.thresholds, Thresholds):
            table = from_table(
                Thresholds, self.thresholds, source="suppression", place="thresholds"
            )
            object.__setattr__(self, "thresholds", table)
        if self.rule is UNSAID and (self.tables == AUTO or isinstance(self.tables, Pairs)):
            object.__setattr__(self, "rule", "complementary")

    @property
    def _withholding(self) -> Withholding:
        return Withholding(
            thresholds=self.thresholds,
            width=self.width,
            effort=self.effort,
            lowest=self.lowest,
            keep_totals=self.keep_totals,
            cost=self.cost,
            costs=self.costs,
            publish=cast(tuple[Selector, ...], self.publish),
        )

    def __repr__(self) -> str:
        # Keys that few have a use for only where they say something.
        since = ("groups", "bins", "prefixes", "lowest_of", "cost", "costs", "publish")
        shown = {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.name not in since or getattr(self, one.name) != one.default
        }
        said = ", ".join(f"{name}={plain(value)!r}" for name, value in shown.items())
        return f"Suppression({said})"

    def _refuse_other_names(self) -> None:
        asked = self.names
        if self.own is not None:
            if self.whole:
                raise self.bad("whole", "tables of one's own", "tables that are known by name")
            return
        if twice := sorted(set(self.whole) & set(asked)):
            raise self.bad("whole", f"{twice[0]!r}, which is among tables", "other tables")
        if strange := sorted(set(self.by_cell) - set(TABLES)):
            raise self.bad("by_cell", repr(strange[0]), f"some of {', '.join(TABLES)}")

    def _refuse_complementary(self) -> None:
        """Keys that only the other rule has a use for, and tables that this one has no rule for."""
        for place in ("keep_totals", "whole", "costs", "publish"):
            if getattr(self, place):
                raise self.bad(place, f"rule {self.rule!r}", "the rule 'complementary'")
        if self.cost != "balanced":
            raise self.bad("cost", f"rule {self.rule!r}", "the rule 'complementary'")
        if self.own is not None:
            raise self.bad("rule", "'1980' for tables of one's own", "the rule 'complementary'")

    def _refuse_wide(self) -> None:
        """The search tries one way for each count that a cell may rise by, so these stay small."""
        for place, value in (("width", self.width), ("thresholds.cell", self.thresholds.cell)):
            if value > WIDEST_INTERVAL:
                expected = f"at most {WIDEST_INTERVAL} with the rule 'complementary'"
                raise self.bad(place, str(value), expected)

    def on(self, domain: Domain) -> TablesDesign:
        """The tables that a population can make; levels that it does not have are refused."""
        made = self.made(domain)
        for cells in (*made, *find_tables(self.whole, domain.schema)):
            levels_of(cells, domain.geography, self.lowest)
        return TablesDesign(method=self, domain=domain, guarantee=self.guarantee(), made=made)

    def guarantee(self) -> Guarantee:
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

    def check(self, design: TablesDesign, counts: Counts) -> tuple[str, ...]:
        """Refuse tables that the rule is not for, and cells that cannot be published.

        Where cells must be published, the search is made to see that they leave a pattern: what
        is refused then depends on the data.
        """
        refuse_too_many(counts, name=self.name)
        made = design.made
        if self.rule == "1980":
            return ()
        for cells in made:
            if any(coding.overlapping for coding in cells.axes):
                raise ConfigError(
                    "suppression",
                    place=f"table {cells.table.name}",
                    found="groups that overlap",
                    expected="tables whose cells add up, for the rule 'complementary'",
                )
        self._withholding.check(made, counts)
        return () if self.own is None else self._all_remarks(made, counts.schema, counts.geography)

    def _all_remarks(
        self, made: Sequence[TableCells], schema: Schema, geography: Geography
    ) -> tuple[str, ...]:
        """What will be published, of the schema and the list of units alone."""
        said = list(self.remarks(made, geography))
        said.append(f"counts of 1 to {self.thresholds.cell} are too small to publish")
        if self.tables == AUTO and (left := [name for name in schema.names if name in COLUMNS]):
            said.append(
                f"leaves out {', '.join(left)}: columns of the published files have these names"
            )
        if circle := cross([[axis.role for axis in cells.axes] for cells in made]):
            said.append(
                f"tables by {', '.join(sorted(circle))} cross each other in a circle: what they "
                "tell together beyond their sums is not covered (docs/suppression.md)"
            )
        return tuple(said)

    def run(
        self, design: TablesDesign, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> TablesOutcome:
        """The tables, less what is withheld: the same in every run."""
        refuse_too_many(counts, name=self.name)
        made = design.made
        names = tuple(cells.table.name for cells in made)
        rules = Rules(
            rule=self.rule,
            tables=names,
            thresholds=self.thresholds,
            width=self.width,
            audit=self.audit,
        )
        if self.rule == "1980":
            published = publish_by_rules(
                counts,
                made,
                by_cell=self.by_cell,
                thresholds=self.thresholds,
                lowest=self.lowest,
            )
            return TablesOutcome(published, rules)
        progress = context.progress
        withheld, witnesses = self._withholding.withheld(made, counts, progress=progress)
        if context.curator is not None:
            write_witnesses(context.curator / WITNESSES, witnesses)
        shown = tuple(self._published(counts, made, withheld))
        return TablesOutcome((*shown, *self._whole(counts, shown)), rules)

    def _published(
        self,
        counts: Counts,
        made: Sequence[TableCells],
        withheld: Mapping[tuple[str, str], Flags],
    ) -> Iterator[PublishedCells]:
        """The tables with what is withheld left out."""
        for cells in made:
            for level in levels_of(cells, counts.geography, self.lowest):
                gone = withheld[cells.table.name, level]
                value = np.where(gone, 0, table_values(counts.at(level), cells))
                yield PublishedCells(cells=cells, level=level, value=value, withheld=gone, holds=1)

    def _whole(
        self, counts: Counts, protected: Sequence[PublishedCells]
    ) -> Iterator[PublishedCells]:
        """The tables that are published whole, where they give nothing away."""
        others = tuple(dict.fromkeys(one.cells for one in protected))
        for cells in find_tables(self.whole, counts.schema):
            found = given_back(cells, others)
            for level in levels_of(cells, counts.geography, self.lowest):
                at_level = counts.at(level)
                withheld = np.hstack([one.withheld for one in protected if one.level == level])
                units = too_small(at_level.totals(), self.thresholds.persons)
                units |= found.units(withheld)
                yield withhold_units(table_values(at_level, cells), cells, units, level=level)
