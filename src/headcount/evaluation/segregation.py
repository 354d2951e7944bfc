"""Segregation: how unevenly groups live over the units of a place, in truth and by a release.

The indices of a place from the counts of its units i: a_i people of a group with sum A, b_i of
those it is set against with sum B, t_i people of all groups with sum T (Massey & Denton 1988;
Theil & Finizza 1971).

    dissimilarity  D = 1/2 sum of |a_i / A - b_i / B|
    isolation        = sum of (a_i / A) (a_i / t_i)
    exposure         = sum of (a_i / A) (b_i / t_i)
    entropy index  H = 1 - (sum of t_i E_i) / (T E)

where E = sum over groups g of s_g ln(1 / s_g), of the shares s_g in the place, and E_i of those in
a unit. All lie between 0 and 1; units where nobody lives add nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import ConfigError
from headcount.evaluation._base import (
    Metric,
    NotFeasible,
    Truth,
    changes_counts,
    publishes_counts,
)
from headcount.evaluation.answers import (
    group_names,
    possible_answer,
    published_answers,
    true_answers,
)
from headcount.evaluation.tally import CountPairs, pair_counts
from headcount.fields import AtLeast0, AtLeast1
from headcount.processes import Progress, silent
from headcount.release import Release, TablesRelease
from headcount.report.figures import Axis, Control, point_chart
from headcount.report.finding import SUPPORTED, Finding, Support
from headcount.report.model import Column, Figure
from headcount.schema import Schema
from headcount.tabulate import Counts, Query

MOST_GROUPS = 32
"""Levels of an attribute that is looked at unasked."""
EVERY_GROUP = "every group"
"""What stands for a group where all of an attribute are told apart at once."""
DISSIMILARITY, ISOLATION, EXPOSURE, ENTROPY = "dissimilarity", "isolation", "exposure", "entropy"
_ROUNDING = 1e-12
"""A place has two groups where its entropy is above this: sums of fractions are not exact."""

_SCHEMA = {
    "level": pl.String,
    "within": pl.String,
    "attribute": pl.String,
    "group": pl.String,
    "index": pl.String,
    "places": pl.Int64,
    "too_small": pl.Int64,
    "undefined": pl.Int64,
    "exact": pl.Float64,
    "released": pl.Float64,
    "bias": pl.Float64,
    "mean_absolute": pl.Float64,
    "p95_absolute": pl.Float64,
}


@dataclass(frozen=True, kw_only=True)
class Segregation(Metric):
    """Indices of segregation of each place over its units, in truth and by a release.

    where
        by              attributes; without any all that have 2 to 32 levels
        group           levels of the one attribute of ``by``, taken together; without any each
                        level is a group of its own
        against         the levels that this group is set against; without any all others
        least_in_unit   units with fewer people in truth are left out on both sides
        least_in_group  places with fewer people of either group in truth have no index
    """

    name = "segregation"
    reads_estimates = True
    order = 25
    by: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    least_in_unit: AtLeast0 = 0
    least_in_group: AtLeast1 = 10

    def __post_init__(self) -> None:
        if self.group and len(self.by) != 1:
            raise ConfigError(
                self.name,
                place="by",
                found=f"{len(self.by)} attributes with a group",
                expected="the one attribute whose levels make the group",
            )
        if self.against and not self.group:
            raise ConfigError(
                self.name, place="against", found="no group", expected="the group to set against it"
            )
        if both := sorted({*self.group} & {*self.against}):
            raise ConfigError(
                self.name,
                place="against",
                found=f"{both[0]!r} on both sides",
                expected="levels that are not in the group",
            )
        for place in ("least_in_unit", "least_in_group"):
            if (least := getattr(self, place)) < (place == "least_in_group"):
                raise ConfigError(
                    self.name,
                    place=place,
                    found=f"{least}",
                    expected="1 or more" if place == "least_in_group" else "0 or more",
                )

    def supports(self, release: Release, truth: Truth) -> Support:
        """Counts of groups of one attribute, all of them published, below the whole."""
        if not (counts := publishes_every_count(release)):
            return counts
        if len(release.geography.levels) < 2:
            return Support("there is no level below the whole")
        if why := self._unknown(release.schema):
            return Support(why)
        if not attributes_of(release.schema, self.by):
            return Support(f"no attribute has 2 to {MOST_GROUPS} levels: name some (by)")
        return SUPPORTED

    def _unknown(self, schema: Schema) -> str:
        """What the settings name and the schema has not; "" if it has all."""
        if missing := [name for name in self.by if name not in schema.names]:
            return f"the schema has no attribute {' and no '.join(missing)}"
        for level in (*self.group, *self.against):
            if level not in schema.attribute(self.by[0]).levels:
                return f"the attribute {self.by[0]} has no level {level!r}"
        return ""

    def compute(self, release: Release, truth: Truth, *, progress: Progress = silent) -> Finding:
        """Indices of each place at every level, over its units of every level below it."""
        names = attributes_of(release.schema, self.by)
        levels = release.geography.levels
        rows: list[dict[str, str | int | float | None]] = []
        for level in progress(levels[1:], what="Segregation", total=len(levels) - 1):
            for name in names:
                pairs = answered(truth.counts, release, level, Query(name, (name,)))
                if pairs is None:
                    continue
                rows += self._rows(pairs, release, level, name)
        if not rows:
            raise NotFeasible(
                "no place has groups large enough, or no table publishes all groups of an attribute"
            )
        return _Segregated(
            table=pl.DataFrame(rows, schema=_SCHEMA),
            counted=truth.counts.domain.counted,
            by=self,
            levels=levels,
            too_many=() if self.by else many_levels(release.schema),
        )

    def _rows(
        self, pairs: CountPairs, release: Release, level: str, attribute: str
    ) -> Iterator[dict[str, str | int | float | None]]:
        """Rows of one attribute: each level above, each group, each index."""
        geography = release.geography
        names = group_names(Query(attribute, (attribute,)), release.schema)
        exact, made = _both_sides(pairs)
        kept = exact.sum_of(range(len(names))) >= self.least_in_unit
        sides = exact.only(kept), made.only(kept)
        for within in geography.levels[: geography.depth(level)]:
            inside = Inside(geography.ancestors(within, of=level), geography.size(within))
            lived_in = inside.sums(sides[0].sum_of(range(len(names)))) > 0
            for group, chosen, found in self._found(sides, names, inside):
                for index, true, released in found:
                    yield {
                        "level": level,
                        "within": within,
                        "attribute": attribute,
                        "group": group,
                        "index": index,
                        "too_small": int((lived_in & ~chosen).sum()),
                        "places": int(chosen.sum()),
                        **compared(true[chosen], released[chosen]),
                    }

    def _found(
        self, sides: tuple[_Side, _Side], names: Sequence[str], inside: Inside
    ) -> Iterator[tuple[str, Flags, list[tuple[str, Floats, Floats]]]]:
        """Each group, the places that have an index of it, and each index on both sides."""
        if self.group:
            yield from self._one(sides, names, inside, [n for n in names if n in self.group])
            return
        true, released = (
            entropy_index([one.sum_of([n]) for n in range(len(names))], inside) for one in sides
        )
        people = inside.sums(sides[0].sum_of(range(len(names))))
        chosen = (people >= self.least_in_group) & ~np.isnan(true)
        if chosen.any():
            yield EVERY_GROUP, chosen, [(ENTROPY, true, released)]
        for name in names:
            yield from self._one(sides, names, inside, [name])

    def _one(
        self, sides: tuple[_Side, _Side], names: Sequence[str], inside: Inside, group: Sequence[str]
    ) -> Iterator[tuple[str, Flags, list[tuple[str, Floats, Floats]]]]:
        """One group, set against others; nothing where no place has enough of both."""
        first = [number for number, name in enumerate(names) if name in group]
        second = [
            number
            for number, name in enumerate(names)
            if (name in self.against if self.against else number not in first)
        ]
        people = [inside.sums(sides[0].sum_of(some)) for some in (first, second)]
        chosen = (people[0] >= self.least_in_group) & (people[1] >= self.least_in_group)
        if not chosen.any():
            return
        true, released = (
            two_groups(one.sum_of(first), one.sum_of(second), one.sum_of(range(len(names))), inside)
            for one in sides
        )
        # Against all others exposure is 1 less isolation, and says nothing more.
        wanted = [name for name in true if self.against or name != EXPOSURE]
        yield " + ".join(group), chosen, [(name, true[name], released[name]) for name in wanted]


def publishes_every_count(release: Release) -> Support:
    """Whether no count that a release has is withheld or missing."""
    if isinstance(release, TablesRelease):
        if not changes_counts(release):
            return Support("the release withholds cells, without which sums over units are unknown")
        return SUPPORTED
    return publishes_counts(release)


def attributes_of(schema: Schema, asked: Sequence[str]) -> tuple[str, ...]:
    """The attributes that are asked for; all with some levels, and not many, if none are."""
    few = (one.name for one in schema.attributes if 2 <= one.size <= MOST_GROUPS)
    return tuple(asked) or tuple(few)


def many_levels(schema: Schema) -> tuple[str, ...]:
    """The attributes that have too many levels to be looked at unasked."""
    return tuple(one.name for one in schema.attributes if one.size > MOST_GROUPS)


def answered(counts: Counts, release: Release, level: str, query: Query) -> CountPairs | None:
    """Exact beside released answers to a query; None where tables do not publish all of it."""
    if isinstance(release, TablesRelease):
        found = published_answers(counts, release, level, [query], "all")
        pairs = next((pairs for _, pairs in found), None)
        return None if pairs is None or pairs.missing.size else pairs
    schema = release.schema
    released = release.table(level) @ possible_answer(query, schema)
    return pair_counts(true_answers(counts, level, query, schema), released)


@dataclass(frozen=True, eq=False)
class _Side:
    """Counts of groups in units: of each group the units where it is, and how many are there."""

    units: int
    groups: tuple[tuple[Ints, Floats], ...]

    def sum_of(self, some: Iterable[int]) -> Floats:
        """People of some groups together, in each unit."""
        found = np.zeros(self.units)
        for number in some:
            place, count = self.groups[number]
            found[place] += count
        return found

    def only(self, kept: Flags) -> _Side:
        """The same with nobody in the other units."""
        return _Side(
            self.units, tuple((place, count * kept[place]) for place, count in self.groups)
        )


def _both_sides(pairs: CountPairs) -> tuple[_Side, _Side]:
    """Exact and released counts of each group; released ones below 0 are taken as 0."""
    columns = list(pairs.columns())
    exact = tuple((one.place, one.truth.astype(np.float64)) for one in columns)
    made = tuple((one.place, np.maximum(one.released, 0).astype(np.float64)) for one in columns)
    return _Side(pairs.shape[0], exact), _Side(pairs.shape[0], made)


@dataclass(frozen=True, eq=False)
class Inside:
    """Which place each unit lies in, by number, and how many places there are."""

    place: NDArray[np.integer[Any]]
    places: int

    def sums(self, values: Floats) -> Floats:
        """Values of units added up in each place."""
        found = np.bincount(self.place, weights=values, minlength=self.places)
        return found.astype(np.float64, copy=False)


def two_groups(
    first: Floats, second: Floats, everyone: Floats, inside: Inside
) -> dict[str, Floats]:
    """Every index of a group set against another, by name, for each place.

    Not a number where nobody of one of the groups is.
    """
    own, other = inside.sums(first), inside.sums(second)
    undefined = (own <= 0) | (other <= 0)
    of_group = _quotient(first, own[inside.place])
    apart = np.abs(of_group - _quotient(second, other[inside.place]))
    found = {
        DISSIMILARITY: inside.sums(apart) / 2,
        ISOLATION: inside.sums(of_group * _quotient(first, everyone)),
        EXPOSURE: inside.sums(of_group * _quotient(second, everyone)),
        ENTROPY: entropy_index([first, second], inside),
    }
    return {name: np.where(undefined, np.nan, values) for name, values in found.items()}


def entropy_index(groups: Sequence[Floats], inside: Inside) -> Floats:
    """The entropy index H of all these groups at once, for each place.

    Both T E and the sum of t_i E_i are sums over groups of x ln(t / x). Not a number where fewer
    than two groups are.
    """
    everyone = np.sum(groups, axis=0)
    people = inside.sums(everyone)
    of_place, of_units = np.zeros(inside.places), np.zeros(inside.places)
    for count in groups:
        own = inside.sums(count)
        of_place += own * -np.log(_quotient(own, people, nothing=1))
        of_units += inside.sums(count * -np.log(_quotient(count, everyone, nothing=1)))
    mixed = of_place > _ROUNDING * people
    return np.where(mixed, 1 - _quotient(of_units, of_place), np.nan)


def _quotient(over: Floats, under: Floats, *, nothing: float = 0) -> Floats:
    """A quotient, or ``nothing`` where either is 0."""
    there = (over > 0) & (under > 0)
    return np.divide(over, under, out=np.full_like(over, nothing), where=there)


def compared(exact: Floats, released: Floats) -> dict[str, int | float | None]:
    """Means over places, and errors where the release has an index too."""
    there = ~np.isnan(released)
    errors = (released - exact)[there]
    size = np.abs(errors)
    return {
        "undefined": int((~there).sum()),
        "exact": float(exact.mean()),
        "released": float(released[there].mean()) if errors.size else None,
        "bias": float(errors.mean()) if errors.size else None,
        "mean_absolute": float(size.mean()) if errors.size else None,
        "p95_absolute": float(np.quantile(size, 0.95)) if errors.size else None,
    }


_SIDES = {"exact": "in truth", "released": "by the release"}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Segregated(Finding):
    """A row for each level, level above, attribute, group and index; means over places."""

    name: str = Segregation.name
    title: str = "How far apart groups live"
    index: tuple[str, ...] = ("level", "within", "attribute", "group", "index", "places")
    value: str = "mean_absolute"
    value_words: str = "mean distance of released from true indices of segregation"
    caption: str = "Indices of segregation, in truth and by the release: means over places."
    table_name: str = "segregation-indices"
    folded: bool = True

    by: Segregation
    levels: tuple[str, ...]
    too_many: tuple[str, ...] = ()

    def explain(self) -> str:
        """What the indices are, what is left out, and how noise biases them."""
        by = self.by
        other = " + ".join(by.against) or "everybody else"
        left_out = f"units with fewer than {by.least_in_unit} {self.counted} in truth are left out"
        small = (
            "Every unit counts, however small" if by.least_in_unit < 2 else left_out.capitalize()
        )
        unasked = f"Left out for their many levels: {', '.join(self.too_many)}. "
        return (
            "Each index says how unevenly a group lives over the units of a place, from 0, the "
            f"same everywhere, to 1. A group is set against {other}. *Dissimilarity* is the share "
            "of the group that would have to move to live like the others. *Isolation* is the "
            "share of its own group in the unit of its average member, *exposure* that of the "
            "other; even without segregation they are the share of the place. *Entropy* is "
            "Theil's H, the share of the diversity of a place that lies between its units; of "
            f"*{EVERY_GROUP}* it tells all levels of the attribute apart. "
            f"{small}; places with fewer than {by.least_in_group} {self.counted} of either side in "
            "truth have no index. Released counts below 0 are taken as 0. Where a release leaves "
            "one side empty its index is *undefined*, and left out of the released mean and of "
            "errors, so that means of releases with many such places do not compare. "
            f"{unasked if self.too_many else ''}"
            "**Indices of noisy counts are biased.** With the totals of groups in a place fixed, "
            "all but exposure are convex in the counts of units, so that noise which is right on "
            "average makes them too high on average, the more the smaller units and groups are; "
            "what a method does besides (no counts below 0, places made like those above them) "
            "moves them either way. Nothing is corrected here. Of small units the true index is "
            "above 0 also where groups are spread at random. Means are over places of one release, "
            "not over new noise."
        )

    def figure(self) -> Figure:
        """Means of each group, in truth and by the release."""
        sides = self.table.with_columns(units=self._units()).unpivot(
            list(_SIDES),
            index=["index", "attribute", "group", "units"],
            variable_name="side",
            value_name="mean",
        )
        shown = sides.drop_nulls("mean").with_columns(pl.col("side").replace(_SIDES))
        indices = shown["index"].unique(maintain_order=True).to_list()
        return Figure(
            name="segregation-by-group",
            caption="**Segregation** of each group, in truth and by the release: mean over places.",
            alt="Index of segregation of each group, in truth and by the release",
            chart=point_chart(
                shown,
                x=Axis(
                    column="group",
                    title="Group",
                    names=tuple(shown["group"].unique(maintain_order=True)),
                ),
                y=Axis(column="mean", title="Index, mean over places", domain=(0, 1)),
                series="side",
                controls=(
                    Control(column="attribute", label="Attribute"),
                    Control(
                        column="index",
                        label="Index",
                        initial=DISSIMILARITY if DISSIMILARITY in indices else indices[0],
                    ),
                    Control(column="units", label="Units", initial=shown["units"][-1]),
                ),
            ),
        )

    def _units(self) -> pl.Expr:
        return pl.format("{} within each {}", "level", "within")

    def terminal(self) -> Mapping[str, pl.DataFrame]:
        """Entropy of each attribute, or of the group, at the finest level."""
        rows = self.table.filter(index=ENTROPY, level=self.table["level"][-1])
        wanted = rows if self.by.group else rows.filter(group=EVERY_GROUP)
        shown = ("within", "attribute", "places", "exact", "released", "bias")
        if wanted.is_empty():
            return {}
        level = wanted["level"][0]
        return {f"segregation over {level!r}, entropy index": wanted.select(shown)}

    def notes(self) -> str:
        """How to read it."""
        return "0: every unit is like its place; 1: nobody shares a unit. Noise makes it too high."

    def shown(self) -> pl.DataFrame:
        """With the level and the one above it in one column."""
        return self.table.with_columns(units=self._units())

    def columns(self) -> tuple[Column, ...]:
        """Headed in words: what fits on paper; the file has more."""
        return (
            Column(key="units", label="Units"),
            Column(key="attribute", label="Attribute"),
            Column(key="group", label="Group"),
            Column(key="index", label="Index"),
            Column(key="places", label="Places", format=",d"),
            Column(key="undefined", label="Undefined", unit="places", format=",d"),
            Column(key="exact", label="In truth", format=".3f"),
            Column(key="released", label="Released", format=".3f"),
            Column(key="bias", label="Bias", format="+.3f"),
            Column(key="mean_absolute", label="Mean error", format=".3f"),
        )
