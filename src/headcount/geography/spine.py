"""The optimised spine, a tree of places made for noise, not for maps; and areas off a spine.

A tree that follows tabulation geography measures many places badly: towns and reservations cut
across it, and a unit with one child is measured twice. The spine of the 2020 census mends both.

1. Every state, and all below it, is split into the blocks inside areas of a list (American
   Indian, Alaska Native and Native Hawaiian areas) and those outside.
2. Block groups are made anew: within each part of a tract, blocks with the same *key* (place or
   county subdivision, area, kinds of group quarters) are cut, in the order of their codes, into
   runs of at most floor(sqrt(n) + 13) blocks, where n is the number of blocks of the part.
3. A unit with one child *bypasses* it: the child is the unit, so its share of the loss is moved up,

       share(u) = 0                          if u is an only child
       share(u) = s_d + s_(d+1) + ... + s_(d+r)   otherwise

   where
       s_d   the share of level d
       d     the level of u
       r     how many only children stand below u, one under the other

   and along every path from the whole to a block the shares add up to the same sum.

Areas are places that cut across a tree, such as towns across tracts.

Abowd et al. (2022), The 2020 Census Disclosure Avoidance System TopDown algorithm; Cumings-Menon et
al. (2021), Geographic spines in the 2020 census DAS.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints, Ints32
from headcount.errors import InputError, Problems, Where, by_row
from headcount.geography.geography import CodeColumns, Geography, build_geography

NamedArea: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A name, a level, and the codes of units of that level."""


@dataclass(frozen=True, eq=False, repr=False)
class Areas:
    """A second map over the same leaf units; a leaf lies in one area, or in none.

    where
        name      what such an area is called ("place")
        codes     code of each area
        of_leaf   for each leaf unit the position of its area, -1 for none
    """

    name: str
    codes: NDArray[np.str_]
    of_leaf: Ints32

    def __post_init__(self) -> None:
        if len(np.unique(self.codes)) != len(self.codes):
            raise InputError(
                f"areas {self.name!r}", found="a code twice", expected="each code once"
            )
        if len(self.of_leaf) and not -1 <= self.of_leaf.min() <= self.of_leaf.max() < self.size:
            raise InputError(
                f"areas {self.name!r}",
                place="of_leaf",
                found="a number out of range",
                expected=f"-1 to {self.size - 1}",
            )

    def __repr__(self) -> str:
        return f"<Areas {self.name!r}: {self.size:,}>"

    @property
    def size(self) -> int:
        """Number of areas."""
        return len(self.codes)

    def add_up(self, values: Ints) -> Ints:
        """Leaf totals added up to areas; leaves in none are left out."""
        inside = self.of_leaf >= 0
        total = np.zeros(self.size, dtype=values.dtype)
        np.add.at(total, self.of_leaf[inside], values[inside])
        return total


def off_spine_distance(geography: Geography, inside: Flags) -> int:
    """How many units must be added or subtracted to make an area of whole leaves.

    The noise of an area that is added up in this way grows with it. Of an area that is a unit it is
    1; on a spine (``geography.spine``) it is smaller than on published places where the spine was
    made for such areas.

        c(u) = min( sum of c over children,  1 + sum of c' over children )

    where
        c       that of the part of the area in u: 1 for a leaf inside, 0 for one outside
        c'      that of the rest of u, likewise
        inside  for each leaf of the geography whether it is in the area

    Cumings-Menon et al. (2021), Geographic spines in the 2020 census DAS.
    """
    if inside.dtype != np.bool_:
        raise InputError(
            "off-spine distance",
            place="inside",
            found=f"values of type {inside.dtype}",
            expected="bool, whether each leaf is in the area",
        )
    if inside.shape != (geography.size(geography.leaf),):
        raise InputError(
            "off-spine distance",
            place="inside",
            found=f"{inside.size} leaves",
            expected=f"{geography.size(geography.leaf):,}, one for each leaf",
        )
    area, rest = inside.astype(np.int64), (~inside).astype(np.int64)
    for depth in range(len(geography.levels) - 1, 0, -1):
        parent, many = geography.parents[depth], len(geography.units[depth - 1])
        of_area = np.bincount(parent, weights=area, minlength=many).astype(np.int64)
        of_rest = np.bincount(parent, weights=rest, minlength=many).astype(np.int64)
        area, rest = np.minimum(of_area, 1 + of_rest), np.minimum(of_rest, 1 + of_area)
    return int(area[0])


LEVELS = ("us", "state", "county", "tract", "block_group", "block")
COLUMNS = ("block", "state", "county", "tract", "area", "place", "subdivision", "quarters")

INSIDE = (
    (1, 4989),  # federal reservations and trust land, joint use areas
    (5000, 5999),  # Hawaiian home lands, Oklahoma tribal statistical areas
    (6000, 7999),  # Alaska native village statistical areas
    (9000, 9499),  # state reservations
)
"""Codes of areas that split the spine, from and to."""

OUTSIDE = ((8000, 8999), (9500, 9999))
"""Codes of areas that do not; 9999 is none."""

NO_AREA = "9999"
BY_SUBDIVISION = ("09", "23", "25", "26", "27", "33", "34", "36", "42", "44", "50", "55")
"""States whose county subdivisions govern: there they, not places, make the keys outside areas."""

MORE_THAN_ROOT = 13
"""A run has at most the square root of the part's blocks and this."""


@dataclass(frozen=True, kw_only=True)
class UnitShares:
    """The share of each unit of a geography in the loss of its path, exact.

    where
        geography   the places
        highest     the highest level whose units can bypass their only child
        shares      the share of each level, from the whole down, which add up to 1
    """

    geography: Geography
    shares: tuple[Fraction, ...]
    highest: str

    def __post_init__(self) -> None:
        expected = len(self.geography.levels)
        if len(self.shares) != expected:
            raise InputError(
                "spine",
                place="shares",
                found=f"{len(self.shares)} shares",
                expected=f"{expected}, one for each level",
            )
        if min(self.shares) < 0 or sum(self.shares) != 1:
            raise InputError(
                "spine",
                place="shares",
                found=f"shares that add up to {sum(self.shares)}",
                expected="shares of 0 or more that add up to 1",
            )
        self.geography.depth(self.highest)

    @cached_property
    def _bypassed(self) -> tuple[Flags, ...]:
        """For each level whether a unit is an only child whose share was moved up."""
        top = self.geography.depth(self.highest)
        found: list[Flags] = [np.zeros(1, dtype=bool)]
        for depth in range(1, len(self.geography.levels)):
            parent = self.geography.parents[depth]
            alone = np.bincount(parent)[parent] == 1
            found.append(alone & (depth > top))
        return tuple(found)

    @cached_property
    def _runs(self) -> tuple[Ints, ...]:
        """For each unit how many only children stand below it, one under the other."""
        runs: list[Ints] = [np.zeros(self.geography.size(self.geography.leaf), dtype=np.int64)]
        for depth in range(len(self.geography.levels) - 1, 0, -1):
            own = np.zeros(len(self.geography.units[depth - 1]), dtype=np.int64)
            alone = self._bypassed[depth]
            own[self.geography.parents[depth][alone]] = runs[0][alone] + 1
            runs.insert(0, own)
        return tuple(runs)

    def classes(self, level: str) -> tuple[tuple[Fraction, ...], Ints]:
        """The shares that units of a level have, and for each unit which of them is its own.

        The first is 0, of units that are bypassed; then that of the level, then with one share
        more of the levels below, and so on.
        """
        depth = self.geography.depth(level)
        sums = tuple(accumulate(self.shares[depth:]))
        own = np.where(self._bypassed[depth], 0, self._runs[depth] + 1)
        return (Fraction(0), *sums), own

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """The paths from the whole to a leaf that differ: of each, its units' classes by level."""
        found: list[tuple[int, ...]] = [()]
        number = np.zeros(1, dtype=np.int64)
        for depth, level in enumerate(self.geography.levels):
            classes, own = self.classes(level)
            above = number if depth == 0 else number[self.geography.parents[depth]]
            pairs, number = np.unique(above * len(classes) + own, return_inverse=True)
            found = [(*found[one // len(classes)], int(one % len(classes))) for one in pairs]
        return tuple(found)

    def along_paths(self) -> tuple[Fraction, Fraction]:
        """The smallest and the largest sum of shares along a path from the whole to a leaf."""
        shares = [self.classes(level)[0] for level in self.geography.levels]
        sums = [
            sum((own[k] for own, k in zip(shares, path, strict=True)), Fraction(0))
            for path in self.paths
        ]
        return min(sums), max(sums)


def optimised_spine(
    blocks: pl.DataFrame, *, name: str = "blocks", where: Where = by_row
) -> Geography:
    """The geography of a table of blocks, split and grouped anew; blocks keep their codes.

    where
        block, state, county, tract   full codes: each has that of the place above in it, or is
                                      else unique
        area           code of the area of the list that the block is in, 9999 for none
        place, subdivision   codes of the place and the county subdivision
        quarters       seven digits, 1 for each kind of group quarters that stands there
        name, where    what errors call the table and its rows
    """
    _check(blocks, name, where)
    text = blocks.select(pl.col(column).cast(pl.String) for column in COLUMNS)
    inside = _within(INSIDE)
    part = pl.when(inside).then(pl.lit("1")).otherwise(pl.lit("0"))
    governing = pl.col("state").is_in(BY_SUBDIVISION) & ~inside
    place = pl.when(governing).then(pl.col("subdivision")).otherwise(pl.col("place"))
    area = pl.when(inside).then(pl.col("area")).otherwise(pl.lit(NO_AREA))
    split = text.select(
        "block",
        (part + pl.col("state")).alias("state"),
        (part + pl.col("county")).alias("county"),
        (part + pl.col("tract")).alias("tract"),
        pl.concat_str(place, area, "quarters", separator=" ").alias("key"),
    )
    columns = CodeColumns(columns=LEVELS[1:], root=LEVELS[0])
    geography, _ = build_geography(_grouped(split), columns, name=name, distinct=True)
    return geography


def _grouped(split: pl.DataFrame) -> pl.DataFrame:
    """With a column of block groups: runs of blocks with one key, numbered by their first block."""
    most = pl.len().over("tract").sqrt().floor().cast(pl.Int64) + MORE_THAN_ROOT
    run = pl.int_range(pl.len()).over("tract", "key") // most
    ordered = split.sort("tract", "block").with_columns(run.alias("run"))
    first = ordered.group_by("tract", "key", "run", maintain_order=True).agg(
        pl.col("block").first().alias("first")
    )
    number = pl.col("first").rank("ordinal").over("tract").cast(pl.String)
    named = first.with_columns((pl.col("tract") + "." + number).alias("block_group"))
    return ordered.join(
        named.drop("first"), on=["tract", "key", "run"], how="left", maintain_order="left"
    ).select(LEVELS[1:])


def _within(ranges: tuple[tuple[int, int], ...]) -> pl.Expr:
    code = pl.col("area").cast(pl.Int64, strict=False)
    return pl.any_horizontal(code.is_between(low, high) for low, high in ranges)


def _check(blocks: pl.DataFrame, name: str, where: Where) -> None:
    for column in COLUMNS:
        if column not in blocks.columns:
            raise InputError(
                name,
                place=f"column {column!r}",
                found=f"columns {blocks.columns[:12]}",
                expected=f"the columns {', '.join(COLUMNS)}",
            )
    problems = Problems(name, where)
    for column, expected, fine in (
        *((one, "a code", pl.col(one).cast(pl.String).str.len_chars() > 0) for one in COLUMNS[:4]),
        ("area", "a code of an area, 0001 to 9999", _known_area()),
        *((one, "a code", pl.col(one).is_not_null()) for one in ("place", "subdivision")),
        ("quarters", "seven digits 0 or 1", _pattern(r"^[01]{7}$", "quarters")),
    ):
        problems.add(
            blocks.select(~fine.fill_null(False)).to_series().arg_true(),
            place=f"column {column!r}",
            found=lambda row, column=column: repr(blocks[column][row]),  # type: ignore[misc]
            expected=expected,
        )
    problems.add(
        (~blocks["block"].is_first_distinct()).arg_true(),
        place="column 'block'",
        found=lambda row: f"a second row for block {blocks['block'][row]!r}",
        expected="one row for each block: a block is in one tract",
    )
    problems.refuse()


def _known_area() -> pl.Expr:
    return _pattern(r"^\d{4}$", "area") & _within((*INSIDE, *OUTSIDE))


def _pattern(pattern: str, column: str) -> pl.Expr:
    return pl.col(column).cast(pl.String).str.contains(pattern)
