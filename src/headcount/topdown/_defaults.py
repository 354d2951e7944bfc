"""What TopDown measures where its user names no queries: the total, each attribute and the cells.

Shares of what is spent at a level:

    total 1/5,   attributes 2/5 in equal parts,   cells 2/5

where
    attributes   those with two levels or more; none if there is one only, whose counts are the
                 cells: these then get 4/5
    total        gets nothing where it is known without noise: its share goes to the others in
                 proportion. So it is at a level of one unit when a record changes (nobody comes or
                 goes), and wherever an invariant gives it. The same holds for each attribute

Levels take equal parts. A level with the same units as the one above (one state under the whole)
has the same counts, and is not measured again. All of this follows from the settings, the schema
and the list of units, never from the counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from headcount.errors import ConfigError
from headcount.mechanisms import steps_of_all
from headcount.privacy import marginal_sensitivity
from headcount.schema import Schema
from headcount.tabulate import CELLS, Query
from headcount.topdown.choices import Marginal

if TYPE_CHECKING:
    from headcount.geography import Geography
    from headcount.topdown.settings import TopDownSettings

TOTAL = "total"
TOTAL_SHARE = Fraction(1, 5)
"""Of a level's part; what is left is halved between attributes and cells."""


def default_keys(settings: TopDownSettings, schema: Schema, geography: Geography) -> dict[str, Any]:
    """The keys ``queries``, ``levels`` and ``level_queries`` as a user would write them out."""
    asked = _default_queries(schema)
    usual = _shares(asked, schema)
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
    if given is None and levels != list(geography.levels):
        keys["levels"] = {level: Fraction(1, len(levels)) for level in levels}
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


def _shares(asked: Sequence[Query], schema: Schema) -> dict[str, Fraction]:
    """The shares at a level where nothing is known."""
    if int(schema.possible.sum()) == 1:
        return {CELLS: Fraction(1)}  # one cell: the total and the cells are the same
    names = [query.name for query in asked if query.by]
    names = names if len(names) > 1 else []
    rest = 1 - TOTAL_SHARE
    each = {name: rest / 2 / len(names) for name in names}
    return {TOTAL: TOTAL_SHARE, **each, CELLS: rest - sum(each.values(), Fraction(0))}


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
