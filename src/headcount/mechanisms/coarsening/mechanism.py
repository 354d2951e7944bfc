"""Coarsening as a mechanism: true numbers about larger things, audited.

Tables are shown for areas of a ladder (``areas``), by levels that may be joined, exactly or as
multiples. Nothing is random, and nothing is chosen by looking at a number that is not published or
public. An audit (``audit``) says what is proven of people all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Self, cast
from weakref import WeakKeyDictionary

import numpy as np

from headcount.arrays import Ints
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError, TruthError, did_you_mean
from headcount.fields import Named, Pairs
from headcount.geography import Geography
from headcount.mechanisms._base import (
    Context,
    Making,
    PostTabular,
    TablesOutcome,
    refuse_too_many,
)
from headcount.mechanisms._own_tables import (
    LARGEST,
    Keyed,
    OwnTables,
    TablesDesign,
    auto_tables,
)
from headcount.mechanisms.coarsening.account import FOLDER, write_account
from headcount.mechanisms.coarsening.areas import Rung, ladder, rung_name
from headcount.mechanisms.coarsening.audit import Audit, audit
from headcount.mechanisms.coarsening.settings import (
    AuditLimits,
    CoarsenedTable,
    PublicSizes,
    Show,
    said,
)
from headcount.mechanisms.coarsening.worlds import Worlds, worlds_of
from headcount.noise import Noise
from headcount.privacy import Guarantee
from headcount.release import TablesRelease
from headcount.release.changed import ChangeRules
from headcount.release.published import PublishedCells
from headcount.schema import Schema
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import table_values
from headcount.tabulate.published import OWN_PRODUCT, PublishedTable, TableCells

TOTALS = "totals"
"""The table of how many people live where."""
MOST_NAMED = 10
"""Areas that a refusal names."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Coarsening(PostTabular):
    """Publish tables of areas, by joined levels, as they are or as multiples.

    where
        ladder   from the finest: the least people of an area, or a level of the geography; each
                 rung joins areas of the one before. The leaf and the whole are always there
        tables   wanted tables by name
        totals   the rung down to which the number of people is published exactly; by default the
                 leaf. Areas are chosen by these numbers, unless there are others
        sizes    public numbers of leaves by which areas are chosen instead
        audit    against whom the release is audited, and what it may give away; none without
    """

    ladder: tuple[int | str, ...]
    tables: Annotated[Keyed[CoarsenedTable], Named(CoarsenedTable)]
    totals: int | str = ""
    sizes: PublicSizes | None = None
    audit: AuditLimits | None = None
    name = "coarsening"
    draws_noise = False
    withholds = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "ladder", tuple(self.ladder))
        tables = self.tables if isinstance(self.tables, Pairs) else Pairs.of(self.tables)
        read = [
            (name, one if isinstance(one, CoarsenedTable) else CoarsenedTable(**one))
            for name, one in tables
        ]
        object.__setattr__(self, "tables", Pairs(read))
        for name, kind in (("audit", AuditLimits), ("sizes", PublicSizes)):
            if isinstance(given := getattr(self, name), dict):
                object.__setattr__(self, name, kind(**given))
        if not self.tables:
            raise self._bad("tables", "none", "at least one")
        if TOTALS in dict(self.tables):
            raise self._bad(f"tables.{TOTALS}", "a table of this name", "another: totals have it")
        self._refuse_rungs()
        if self.audit is not None:
            self._refuse_audit(self.audit)

    @staticmethod
    def of_areas(least: int, domain: Domain) -> dict[str, Any]:
        """Settings: each attribute and small pairs of them, for areas and all levels above."""
        return {
            "ladder": [least, *domain.geography.levels[-2:0:-1]],
            "tables": {n: {"by": list(by), "at": least} for n, by in auto_tables(domain.schema)},
        }

    def __repr__(self) -> str:
        return said(self)

    @property
    def wanted(self) -> Pairs[CoarsenedTable]:
        """The tables by name."""
        return cast(Pairs[CoarsenedTable], self.tables)

    def _bad(self, place: str, found: str, expected: str) -> ConfigError:
        return ConfigError(self.name, place=place, found=found, expected=expected)

    def _refuse_rungs(self) -> None:
        """Refuse thresholds that do not rise, and a rung twice."""
        least = 0
        for rung in self.ladder:
            if isinstance(rung, bool) or not isinstance(rung, int | str):
                raise self._bad("ladder", repr(rung), "least people of an area, or a level")
            if isinstance(rung, int):
                if rung <= least:
                    found = f"{rung} after {least}" if least else str(rung)
                    expected = "numbers of 1 or more that rise: each rung joins areas of the last"
                    raise self._bad("ladder", found, expected)
                least = rung
            elif self.ladder.count(rung) > 1:
                raise self._bad("ladder", f"{rung!r} twice", "each rung once")

    def _refuse_audit(self, limits: AuditLimits) -> None:
        for name in limits.secret:
            if name in limits.known:
                raise self._bad("audit.secret", f"{name!r}, which is known", "other attributes")
        if not limits.secret:
            raise self._bad("audit.secret", "none", "at least one attribute")

    def for_a_trial(self, *, of_nobody: bool = False) -> Self:
        """Of nobody without an audit, and without numbers of places that are left out."""
        return replace(self, audit=None, sizes=None, totals="") if of_nobody else self

    def on(self, domain: Domain) -> CoarseningDesign:
        """The tables on a domain; rungs, levels and attributes that it lacks are refused."""
        geography = domain.geography
        upwards = geography.levels[-2:0:-1]
        levels = [rung for rung in self.ladder if isinstance(rung, str)]
        for level in levels:
            if level not in upwards:
                raise self._bad("ladder", repr(level), did_you_mean(level, upwards))
        if levels != (right := [one for one in upwards if one in levels]):
            expected = f"{right}: levels from the finest, or their areas would not nest"
            raise self._bad("ladder", str(levels), expected)
        totals = self._level("totals", self.totals or geography.leaf, geography)
        chosen = any(isinstance(rung, int) for rung in self.ladder)
        if chosen and self.sizes is None and totals != geography.leaf:
            raise self._bad(
                "totals",
                f"totals of {self.totals!r}, and areas of least people",
                f"totals of {geography.leaf!r}, or public numbers of these (sizes): areas are "
                "chosen by numbers that are published or public, and by nothing else",
            )
        self._refuse_unknown(domain.schema)
        made = tuple(self._table(name, one, domain) for name, one in self.wanted)
        people = PublishedTable(product=OWN_PRODUCT, name=TOTALS, title="people", lowest=totals)
        return CoarseningDesign(
            method=self,
            domain=domain,
            guarantee=self.guarantee(),
            made=(*made, people.on(domain.schema)),
            changes_tables=True,
        )

    def _level(self, place: str, at: Rung, geography: Geography) -> str:
        """The level of a release that a rung is."""
        ends = (geography.levels[0], geography.leaf)
        if at in ends:
            return str(at)
        if at not in self.ladder:
            raise self._bad(place, repr(at), did_you_mean(at, map(str, (*self.ladder, *ends))))
        return rung_name(at)

    def _refuse_unknown(self, schema: Schema) -> None:
        """Refuse attributes to audit that there are not."""
        if self.audit is None:
            return
        for place in ("known", "secret"):
            for name in getattr(self.audit, place):
                if name not in schema.names:
                    expected = did_you_mean(name, schema.names)
                    raise self._bad(f"audit.{place}", repr(name), expected)

    def _table(self, name: str, wanted: CoarsenedTable, domain: Domain) -> TableCells:
        own = OwnTables(
            tables=Pairs([(name, wanted.by)]),
            groups=wanted.joined,  # type: ignore[arg-type]
            bins=wanted.bins,  # type: ignore[arg-type]
            source=f"{self.name}: tables.{name}",
        )
        for key in ("joined", "bins"):
            for attribute, _ in getattr(wanted, key):
                if attribute in domain.schema.names and attribute not in wanted.by:
                    place, expected = f"tables.{name}.{key}", f"one of by = {list(wanted.by)}"
                    raise self._bad(place, repr(attribute), expected)
        geography = domain.geography
        (table,) = own.on(domain.schema, geography, lowest_of_all=geography.levels[0])
        level = self._level(f"tables.{name}.at", wanted.at, geography)
        table = replace(table, lowest=level, joined=table.groups, groups=())
        try:
            return table.on(domain.schema)
        except InputError as error:
            raise self._bad(f"tables.{name}.joined", error.found, error.expected) from None

    def public_sizes(self, geography: Geography) -> Ints | None:
        """The numbers by which areas are chosen, where it is not by totals."""
        return self.sizes.of(geography) if self.sizes else None

    def guarantee(self) -> Guarantee:
        """None, and it says so, with what the audit says instead."""
        shown = "; ".join(f"{name} {one.show.words}" for name, one in self.wanted)
        by = "public numbers" if self.sizes else "published numbers of people"
        start = (
            "nothing is left to chance: numbers are true numbers of areas and of joined levels "
            f"({shown}), and areas were chosen by {by} alone"
        )
        covered = (
            "Not covered: guesses, however likely; other tables, other divisions and other years "
            "of the same people; and people who know more. Two releases do not add up: a second "
            "one must be audited together with the first"
        )
        if self.audit is None:
            return Guarantee.none(f"{start}. No audit was asked for. {covered}")
        limits, known = self.audit, " and ".join(("place", *self.audit.known))
        secret = " and ".join(limits.secret)
        parts = [
            f"of at most {limit} of {who}"
            for limit, who in (
                (limits.proven, "all people"),
                (limits.non_majority, "the people who are unlike their place's majority"),
            )
            if limit < 1
        ]
        told = (
            f"An audit finds that by these tables and rules nobody who knows {known} of everybody "
            f"can prove the {secret} {', and '.join(parts)}"
            if parts
            else f"An audit against somebody who knows {known} of everybody and wants their "
            f"{secret} was made for the office, without a limit"
        )
        insiders = (
            f"; and of at most {limits.insiders} besides if somebody of the same area tells what "
            "is known of themselves"
            if limits.insiders < 1
            else ". Somebody of the same area who knows themselves may prove more"
        )
        return Guarantee.none(f"{start}. {told}{insiders}. {covered}")

    def refuse_changed(self, *, by: str, weight: Fraction, households: bool) -> None:
        """Refuse a sample: thresholds for people have no meaning for it."""
        if weight != 1:
            raise self._bad(
                "mechanism",
                f"a sample ({by}), whose people stand for {weight} each",
                "everybody: least people of an area, and proofs, have no meaning for a sample",
            )

    def check(self, design: CoarseningDesign, counts: Counts) -> tuple[str, ...]:
        """Refuse people for whom areas cannot be made, or of whom too much would be proven."""
        made = design.coarsen(counts)
        people = self.sizes.of(counts.geography) if self.sizes else counts.totals()
        least = max((one for one in self.ladder if isinstance(one, int)), default=0)
        if int(people.sum()) < least:
            raise TruthError(
                self.name,
                place="ladder",
                found=f"areas of at least {least} where fewer live altogether",
                expected="a smaller number",
            )
        for cells in design.made:
            size = cells.size * made.size(cells.table.lowest)
            if size > LARGEST:
                expected = f"at most {LARGEST:,}: fewer attributes, or a coarser rung"
                raise self._bad(f"tables.{cells.table.name}", f"{size:,} cells", expected)
        design.audited(counts)
        return tuple(
            f"publishes {cells.table.name} ({cells.table.title}): {cells.size:,} cells at "
            f"{', '.join(reversed(cells.table.published_at(made)))}"
            for cells in design.made
        )

    def run(
        self,
        design: CoarseningDesign,
        counts: Counts,
        noise: Noise,
        *,
        runs: range,
        context: Context,
    ) -> TablesOutcome:
        """The tables, the same in every run; the audit goes to the curator."""
        refuse_too_many(counts, name=self.name)
        made = design.coarsen(counts)
        published = tuple(design.published(counts, made))
        found = design.audited(counts)
        if found is not None and context.curator is not None:
            write_account(self, counts, *found, folder=context.curator / FOLDER)
        names = tuple(cells.table.name for cells in design.made)
        return _CoarsenedTables(
            published, ChangeRules(method=self.name, tables=names, words=self._words()), places=made
        )

    def _words(self) -> tuple[str, ...]:
        rungs = ", ".join(f"{one} people" if isinstance(one, int) else one for one in self.ladder)
        by = "public numbers of leaves" if self.sizes else "the published totals of leaves"
        return (
            f"Areas are made on one ladder ({rungs or 'leaves'}): neighbours in the order of codes "
            f"are joined by {by} alone, within the smallest unit in which there are enough people.",
            *(f"Numbers of {name} are shown {one.show.words}." for name, one in self.wanted),
            "Totals are exact.",
        )


@dataclass(frozen=True, eq=False)
class _CoarsenedTables(TablesOutcome):
    """Tables of areas: the places of the release are the ladder."""

    places: Geography | None = None

    def release(self, number: int, making: Making) -> TablesRelease:
        """The release, whose geography is the ladder."""
        assert self.places is not None
        domain = replace(making["domain"], geography=self.places)
        return replace(super().release(number, {**making, "domain": domain}), areas=True)


_AUDITED: WeakKeyDictionary[Counts, tuple[Coarsening, Worlds, Audit]] = WeakKeyDictionary()
"""Of counts that were audited before they are released: the same audit twice would say the same."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CoarseningDesign(TablesDesign):
    """Coarsening on a domain: its tables, whose levels are those of the ladder."""

    method: Coarsening

    @cached_property
    def shows(self) -> dict[str, Show]:
        """How the numbers of each table are shown."""
        return {TOTALS: Show(), **{name: one.show for name, one in self.method.wanted}}

    def coarsen(self, counts: Counts) -> Geography:
        """The ladder for some people, by public numbers or by those that will be published."""
        sizes = self.method.sizes
        people = sizes.of(counts.geography) if sizes else counts.totals()
        return ladder(counts.geography, people, self.method.ladder)

    def published(self, counts: Counts, places: Geography) -> Iterator[PublishedCells]:
        """Every table at its rung and at all above."""
        laid = replace(counts, domain=replace(counts.domain, geography=places))
        at: dict[str, Counts] = {}
        for cells in self.made:
            show = self.shows[cells.table.name]
            for level in cells.table.published_at(places):
                here = at.setdefault(level, laid.at(level))
                true = table_values(here, cells)
                gone = true < show.below
                value = true if show.how is None else np.where(gone, 0, show.how.shown(true))
                yield PublishedCells(
                    cells=cells, level=level, value=value, withheld=gone, off=show.off
                )

    def audited(self, counts: Counts) -> tuple[Worlds, Audit] | None:
        """The audit, where one is asked for; a release above its limits is refused."""
        limits, method = self.method.audit, self.method
        if limits is None:
            return None
        known = _AUDITED.get(counts)
        if known is None or known[0] != method:
            places = self.coarsen(counts)
            laid = replace(counts, domain=replace(counts.domain, geography=places))
            tables = tuple(self.published(counts, places))
            worlds = worlds_of(laid, tables, limits.known, limits.secret)
            known = _AUDITED[counts] = (method, worlds, audit(worlds))
        _, worlds, found = known
        _refuse_above(limits, worlds, found)
        return worlds, found


def _refuse_above(limits: AuditLimits, worlds: Worlds, found: Audit) -> None:
    """Refuse a release that gives away more than its limits, and name the areas where most is."""
    for name, limit, many, of, what in (
        ("proven", limits.proven, found.proven, found.people, "people's secrets proven"),
        (
            "non_majority",
            limits.non_majority,
            found.proven_unlike,
            found.unlike,
            "secrets proven of people unlike their place's majority",
        ),
        ("insiders", limits.insiders, found.insiders, found.people, "secrets proven to insiders"),
    ):
        if many > limit * of:
            areas = found.in_areas(worlds, insiders=name == "insiders")
            worst = np.argsort(-areas, kind="stable")[:MOST_NAMED]
            named = [(worlds.codes[one], areas[one]) for one in worst.tolist() if areas[one]]
            most = ", ".join(f"{code}: {number}" for code, number in named)
            raise TruthError(
                "coarsening",
                place=f"audit.{name}",
                found=f"{many:,} of {of:,} {what}",
                expected=f"at most {limit}: larger areas, fewer crossings or joined levels. Most "
                f"of them are in these units of {worlds.level!r}: {most}",
            )
