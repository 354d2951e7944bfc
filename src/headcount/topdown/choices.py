"""Single choices of TopDown's user: a query, a recode, an invariant, bounds, passes.

Where the user names no queries, TopDown measures the total, each attribute and the cells. Shares of
what is spent at a level, as the setting ``shares`` says:

    "even"     total 1/5,    attributes 2/5 in equal parts,    cells 2/5
    "totals"   total 1/4,    attributes 3/8 in equal parts,    cells 3/8

where
    attributes   those with two levels or more; none if there is one only, whose counts are the
                 cells: these then get all but the share of the total
    total        gets nothing where it is known without noise: its share goes to the others in
                 proportion. So it is at a level of one unit when a record changes (nobody comes or
                 goes), and wherever an invariant gives it. The same holds for each attribute

Levels take equal parts; with "totals" the top takes three quarters of one, because people are many
there and its total is often known. A level with the same units as the one above (one state under
the whole) has the same counts, and is not measured again. All of this follows from the settings,
the schema and the list of units, never from the counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.errors import ConfigError, InputError, one_of
from headcount.fields import HIDDEN, ByKey, FilePath, Named, Pairs, Positive, Share
from headcount.mechanisms import steps_of_all
from headcount.privacy import marginal_sensitivity
from headcount.privacy.loss import positive, written
from headcount.schema import Attribute, Recode, Schema
from headcount.schema.schema import first_repeated
from headcount.tabulate import CELLS, Query

if TYPE_CHECKING:
    from headcount.geography import Geography
    from headcount.privacy import Allocation
    from headcount.topdown.settings import TopDownSettings
    from headcount.topdown.solve.rounding import RoundPass


@dataclass(frozen=True)
class Grouping:
    """A recode of an attribute that is looked up in a schema when there is one.

    where
        of       the attribute
        groups   ((group, (level, ...)), ...): every level of the attribute in exactly one
    """

    name: str
    of: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    def __post_init__(self) -> None:
        Attribute(self.name, tuple(label for label, _ in self.groups))  # names stand the same test
        if twice := first_repeated(level for _, levels in self.groups for level in levels):
            raise ConfigError(
                "topdown",
                place=f"recode {self.name!r}",
                found=f"level {twice!r} in two groups",
                expected="each level in one group",
            )

    def on(self, schema: Schema) -> Recode:
        """The recode of that schema's attribute."""
        if self.name in schema.names:
            raise ConfigError(
                "topdown",
                place=f"recode {self.name!r}",
                found="the name of an attribute",
                expected="a name of its own: queries ask for it by name",
            )
        return Recode(self.name, schema.attribute(self.of), self.groups)


@dataclass(frozen=True)
class RecodedQuery(Query):
    """A marginal by attributes and groupings, all of them by name."""

    groupings: tuple[Grouping, ...] = ()

    def attributes(self, schema: Schema) -> tuple[Attribute, ...]:
        """The attributes of the answer, recodes replaced by their coarser attribute."""
        return self.on(schema).attributes(schema)

    def groups(self, schema: Schema) -> Ints:
        """For each cell of the schema the number of the answer's group it is counted in."""
        return self.on(schema).groups(schema)

    def on(self, schema: Schema) -> Query:
        """The query with recodes of that schema's attributes."""
        known = {one.name: one for one in self.groupings}
        axes = (a if isinstance(a, Recode) else known.get(a, a) for a in self.by)
        return Query(self.name, tuple(a.on(schema) if isinstance(a, Grouping) else a for a in axes))


MOST_PEOPLE = 10**9
"""The largest cap: with billions of living quarters, sums still fit 64 bits."""

MOST_UNITED = 10
"""Types of living quarters whose unions are bounded: each further type doubles the unions."""


_ALWAYS = ("query", "caps", "total_level", "unions")


@dataclass(frozen=True, kw_only=True)
class Invariant:
    """A query whose true answers are published exactly at one level."""

    query: str
    level: str


@dataclass(frozen=True, kw_only=True)
class QuartersBounds:
    """Bounds on people by type of living quarters, from the number of quarters of each type.

    Each type k of a leaf unit holds at least as many people as it has quarters, and at most
    ``caps[k]`` for each of them; nobody where there are none. Bounds add up over children. At
    ``total_level`` they are rebuilt from the unit's total T and its quarters u (U in all),

        low[k]  = T if all quarters are of type k, else u[k]
        high[k] = T - (U - u[k]) if u[k] > 0, else 0

    and add up again above it. ``unions`` also bounds the sum of every set of two or more types.
    ``part_totals`` makes them from the totals of a spine's parts, where a unit has parts, in place
    of the whole unit's.
    In 2020 (_bounds.py) ``floors`` has how many people each quarters of a type holds at
    least (1 by default), ``vacant`` counts vacant housing units as quarters of the first type, and
    ``tighter`` keeps the sums where they say more than the total.
    """

    query: str
    caps: tuple[int, ...]
    total_level: str = ""
    unions: bool = False
    floors: tuple[int, ...] = ()
    vacant: bool = False
    tighter: bool = False
    part_totals: bool = False

    def __repr__(self) -> str:
        # What few have a use for is shown where it is set.
        said = {name: value for name, value in vars(self).items() if name in _ALWAYS or value}
        return f"QuartersBounds({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    def __post_init__(self) -> None:
        if self.floors and (len(self.floors) != len(self.caps) or min(self.floors) < 0):
            raise ConfigError(
                f"bounds on {self.query!r}",
                place="floors",
                found=str(list(self.floors)),
                expected=f"{len(self.caps)} numbers from 0, one for each cap",
            )
        for cap in self.caps:
            if not 1 <= cap <= MOST_PEOPLE:
                raise ConfigError(
                    f"bounds on {self.query!r}",
                    place="caps",
                    found=f"a cap of {cap}",
                    expected=f"people in one living quarters, 1 to {MOST_PEOPLE:,}",
                )
        if self.unions and len(self.caps) > MOST_UNITED:
            raise ConfigError(
                f"bounds on {self.query!r}",
                place="unions",
                found=f"unions of {len(self.caps)} types",
                expected=f"unions of at most {MOST_UNITED} types (each further type doubles them)",
            )


@dataclass(frozen=True, kw_only=True)
class TableBounds:
    """Bounds on the answers of a query in every unit of a level, from a file (_bounds.py).

    Lows and highs add up over children, so that the levels above leave room for them.

    where
        file     where it is, which is not part of the settings: only its name is shown
        public   True for a table that anyone may know without this release; False for one worked
                 out from the confidential data, which is then released exactly
        sha256   of its content, so that another table is another setting; "" to take any
    """

    query: str
    level: str
    file: FilePath
    public: bool
    sha256: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "file", Path(self.file))

    def __repr__(self) -> str:
        said = {**vars(self), "file": self.file.name}
        return f"TableBounds({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    def bound_to_files(self) -> TableBounds:
        """The same for the file's present content only."""
        digest = file_digest(self.file)
        if self.sha256 and self.sha256 != digest:
            raise ConfigError(
                str(self.file),
                found=f"sha256 {digest}",
                expected=f"sha256 {self.sha256}, as configured",
            )
        return replace(self, sha256=digest)


def file_digest(path: Path) -> str:
    """SHA-256 of a table of bounds; a missing one is an error."""
    if not path.is_file():
        raise InputError(
            str(path), found="no such file", expected="a table of bounds, .csv or .parquet"
        )
    return sha256(path.read_bytes()).hexdigest()


Shares = tuple[tuple[str, Fraction], ...]
"""Named parts of a whole."""


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """A marginal that is measured (with a share) or restricted (without).

    where
        by      attributes and recodes; () for the total. Only the detailed query "cells" has none
        share   its part of what is spent at a level
    """

    by: tuple[str, ...] | None = None
    share: Share | None = None

    def __post_init__(self) -> None:
        if self.by is not None:
            object.__setattr__(self, "by", tuple(self.by))
        if self.share is not None:
            object.__setattr__(self, "share", positive(self.share, name="share"))


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """A coarser view of an attribute, for queries.

    where
        of       the attribute
        groups   each group with its levels; every level of the attribute in exactly one
    """

    of: str
    groups: Annotated[tuple[tuple[str, tuple[str, ...]], ...], Named(tuple[str, ...])]

    def __post_init__(self) -> None:
        groups = Pairs((name, tuple(levels)) for name, levels in Pairs.of(self.groups))
        object.__setattr__(self, "groups", groups)


def refuse_other_sum(levels: Iterable[tuple[str, Fraction]] | None) -> None:
    """Refuse shares of levels that do not add up to 1, before places are known."""
    total = Fraction(1) if levels is None else sum((share for _, share in levels), Fraction())
    if total != 1:
        raise ConfigError(
            "topdown",
            place="levels",
            found=f"shares that add up to {written(total)}",
            expected=f"exactly 1: {written(abs(total - 1))} too "
            f"{'much' if total > 1 else 'little'}",
        )


@dataclass(frozen=True, kw_only=True)
class LevelPasses:
    """What goes first at a level, in least squares and in rounding.

    where
        fit      the measured queries of each pass of least squares, "cells" in the last; () for one
                 pass over all of them
        within   how far, in persons, a later pass may move the answers of earlier ones
        round    the queries of each pass of rounding, measured or not. One that stands twice counts
                 twice. () for rounding by cells alone, as in the 2018 test
        nested   True to refuse queries that cross each other or a bound, and so need an integer
                 programme
    """

    fit: tuple[tuple[str, ...], ...] = ()
    within: Annotated[Positive, HIDDEN] = Fraction(1, 10)
    round: tuple[tuple[str, ...], ...] = ()
    nested: Annotated[bool, HIDDEN] = False

    def __post_init__(self) -> None:
        for name in ("fit", "round"):
            given = tuple(tuple(one) for one in getattr(self, name))
            object.__setattr__(self, name, given)
            if not all(given):
                raise ConfigError(
                    "passes", place=name, found="a pass without queries", expected="some in each"
                )
        object.__setattr__(self, "within", positive(self.within, name="within"))
        fitted = [query for one in self.fit for query in one]
        if twice := first_repeated(fitted):
            raise ConfigError(
                "passes", place="fit", found=f"{twice!r} twice", expected="each query in one pass"
            )
        rounded = [query for one in self.round for query in dict.fromkeys(one)]
        if twice := first_repeated(rounded):
            raise ConfigError(
                "passes",
                place="round",
                found=f"{twice!r} in two passes",
                expected="it in one: a later pass keeps what an earlier one rounded",
            )
        if CELLS in [query for one in self.fit[:-1] for query in one]:
            raise ConfigError(
                "passes",
                place="fit",
                found=f"{CELLS!r} in an early pass",
                expected="it in the last: nothing is left to fit after the cells",
            )


SharesTable = Annotated[Shares, Named(Share)]
Bounds = Annotated[QuartersBounds | TableBounds, ByKey(caps=QuartersBounds, file=TableBounds)]


TOTAL = "total"
DefaultShares = Literal["even", "totals"]
EVEN: DefaultShares = "even"
TOTAL_SHARES = {"even": Fraction(1, 5), "totals": Fraction(1, 4)}
"""Of a level's part; what is left is halved between attributes and cells."""
TOP_PARTS = {"even": Fraction(1), "totals": Fraction(3, 4)}
"""What the top level takes, in parts of another level's."""


def default_keys(settings: TopDownSettings, schema: Schema, geography: Geography) -> dict[str, Any]:
    """The keys ``queries``, ``levels`` and ``level_queries`` as a user would write them out."""
    asked = _default_queries(schema)
    usual = _shares(asked, schema, TOTAL_SHARES[settings.shares])
    levels: list[str] = []
    own: dict[str, Mapping[str, Fraction]] = {}
    given, chosen = settings.level_shares, dict(settings.level_queries)
    for level in _measured_levels(settings, geography):
        known = _known(settings, asked, schema, geography, level)
        here = _shortened(usual, known)
        if not here and given is None and level not in chosen:
            continue  # nothing there is unknown
        levels.append(level)
        if here != usual:
            own[level] = here or {CELLS: Fraction(1)}
    top = geography.levels[0]
    if not levels or (given is None and top not in levels and not settings.invariant):
        _refuse_single_count(settings, top)
    own |= {level: dict(shares) for level, shares in chosen.items()}
    queries = {
        one.name: Marginal(by=tuple(map(str, one.by)), share=usual.get(one.name)) for one in asked
    }
    keys: dict[str, Any] = {
        "queries": {**queries, CELLS: Marginal(share=usual[CELLS])},
        "level_queries": own,
    }
    if given is None and (levels != list(geography.levels) or settings.shares != EVEN):
        parts = {one: TOP_PARTS[settings.shares] if one == top else Fraction(1) for one in levels}
        keys["levels"] = {one: part / sum(parts.values()) for one, part in parts.items()}
    return keys


def _default_queries(schema: Schema) -> tuple[Query, ...]:
    """The total, and each attribute that tells people apart."""
    taken = (TOTAL, CELLS)
    names = [one.name for one in schema.attributes if one.size > 1]
    singles = (Query(f"by_{name}" if name in taken else name, (name,)) for name in names)
    return (Query(TOTAL), *singles)


def _measured_levels(settings: TopDownSettings, geography: Geography) -> tuple[str, ...]:
    """The levels with units of their own, or those that the user names."""
    if settings.level_shares is not None:
        return tuple(level for level, _ in settings.level_shares)
    asked = {level for level, _ in settings.level_queries}
    sizes = [geography.size(level) for level in geography.levels]
    above = [0, *sizes[:-1]]
    return tuple(
        level
        for level, size, other in zip(geography.levels, sizes, above, strict=True)
        if size != other or level in asked
    )


def _shares(asked: Sequence[Query], schema: Schema, total: Fraction) -> dict[str, Fraction]:
    """The shares at a level where nothing is known."""
    if int(schema.possible.sum()) == 1:
        return {CELLS: Fraction(1)}  # one cell: the total and the cells are the same
    names = [query.name for query in asked if query.by]
    names = names if len(names) > 1 else []
    rest = 1 - total
    each = {name: rest / 2 / len(names) for name in names}
    return {TOTAL: total, **each, CELLS: rest - sum(each.values(), Fraction(0))}


def _shortened(usual: Mapping[str, Fraction], known: set[str]) -> dict[str, Fraction]:
    """What is known gets nothing, the others all of it, in proportion."""
    left = {name: share for name, share in usual.items() if name not in known}
    whole = sum(left.values(), Fraction(0))
    return {name: share / whole for name, share in left.items()}


def _known(
    settings: TopDownSettings,
    queries: Sequence[Query],
    schema: Schema,
    geography: Geography,
    level: str,
) -> set[str]:
    """Queries whose answers at a level no neighbour changes, or an invariant gives."""
    depth, by_name = geography.depth(level), {query.name: set(query.by) for query in queries}
    exact = [  # whatever an invariant counts adds up to everybody
        by_name.get(one.query, set())
        for one in settings.invariant
        if one.level in geography.levels and geography.depth(one.level) >= depth
    ]
    cells = int(schema.possible.sum())
    parts = {query.name: (query.size(schema), query.attributes(schema)) for query in queries}
    found = {name for name, by in by_name.items() if any(by <= one for one in exact)}
    if exact and cells == 1:
        found.add(CELLS)
    for name, (size, attributes) in {**parts, CELLS: (cells, schema.attributes)}.items():
        moved = marginal_sensitivity(
            unit=settings.neighbours.unit,
            units=geography.size(level),
            cells=size,
            steps=steps_of_all(attributes),
            largest_household=settings.neighbours.largest_household,
        )
        if moved.l1 == 0:
            found.add(name)
    return found


def _refuse_single_count(settings: TopDownSettings, level: str) -> None:
    unit = settings.neighbours.unit
    raise ConfigError(
        "topdown",
        place="unit",
        found=f"'{unit}', under which the only count of {level!r} does not change: there is "
        "nothing to measure",
        expected=f"'{unit.pair[1]}', or attributes, or levels below with the total of {level!r} as "
        "an invariant",
    )


def rounding_passes(
    settings: TopDownSettings, chosen: LevelPasses, schema: Schema
) -> tuple[RoundPass, ...]:
    """The passes of rounding, each query as a partition of the cells."""

    def partition(query: str) -> Ints32:
        if query == CELLS:
            return np.arange(schema.size, dtype=np.int32)
        return settings.query(query).groups(schema).astype(np.int32)

    return tuple(tuple(map(partition, one)) for one in chosen.round)


def refuse_passes(settings: TopDownSettings, geography: Geography) -> None:
    """Refuse passes that name what is not there, or leave out what is paid for."""
    refuse_unmeasured(settings, settings.allocation(geography))


def refuse_unmeasured(settings: TopDownSettings, allocation: Allocation) -> None:
    """Refuse passes over what has no share, or without what has one."""
    known = [CELLS, *(query.name for query in settings.marginals)]
    for level, chosen in settings.passes:
        measured = allocation.queries_at(level)
        for one in chosen.fit:
            for query in one:
                if query not in measured:
                    refuse_pass(
                        level, "fit", f"{query!r}", f"a query measured there: {one_of(measured)}"
                    )
        fitted = {query for one in chosen.fit for query in one}
        if chosen.fit and (left := [query for query in measured if query not in fitted]):
            refuse_pass(level, "fit", f"{left[0]!r} in no pass", "each measured query in one")
        for one in chosen.round:
            for query in one:
                if query not in known:
                    refuse_pass(level, "round", repr(query), f"a query: {one_of(known)}")


def refuse_pass(level: str, key: str, found: str, expected: str) -> NoReturn:
    """Refuse what a level says of its passes."""
    raise ConfigError("topdown", place=f"passes.{level}.{key}", found=found, expected=expected)
