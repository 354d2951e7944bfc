"""What a release tells an attacker: its published tables, or tables made from its counts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from headcount.attacks.knowledge import UNKNOWN, Knowledge, KnownTable, between, exact
from headcount.attacks.narrowed_tables import NarrowedCells, narrowed_tables
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.release import CountsRelease, Release, TablesRelease
from headcount.release.published import PublishedCells, is_total
from headcount.tabulate.published import PublishedTable, supported


@singledispatch
def knowledge_of_release(
    release: Release, tables: Sequence[PublishedTable] = (), *, together: str | None = None
) -> Knowledge:
    """All that can be held against a release.

    Published tables are read as they stand: a 0 that may hide a small count as a range, a
    withheld cell as unknown but for what the rules say that it holds at least. Where counts were
    changed each value is a range, narrowed by all sums of the release. From a release of
    counts the attacker makes ``tables``, those that the schema allows, at the leaf and at the
    level ``together``.
    """
    raise InputError(
        "release", found=type(release).__name__, expected="counts, or published tables"
    )


@knowledge_of_release.register
def _(
    release: TablesRelease, tables: Sequence[PublishedTable] = (), *, together: str | None = None
) -> Knowledge:
    if release.changed:
        release = narrowed_tables(release)
    held = tuple(hold(one) for one in release.published)
    return Knowledge(release.schema, published_geography(release), held)


@knowledge_of_release.register
def _(
    release: CountsRelease, tables: Sequence[PublishedTable] = (), *, together: str | None = None
) -> Knowledge:
    return Knowledge(release.schema, release.geography, _made(release, tables, together))


def published_geography(release: TablesRelease) -> Geography:
    """The geography down to the lowest level of which anything is published."""
    geography = release.geography
    stop = 1 + max(geography.depth(one.level) for one in release.published)
    if stop == len(geography.levels):
        return geography
    return Geography(geography.levels[:stop], geography.units[:stop], geography.parents[:stop])


@singledispatch
def hold(one: PublishedCells) -> KnownTable:
    """One published table as ranges."""
    from scipy.sparse import csr_array

    low = csr_array(np.where(one.withheld, one.holds, one.value))
    zero = (one.value == 0) & ~one.withheld & ~is_total(one.cells)
    extra = np.where(one.withheld, UNKNOWN, np.where(zero, one.zero_hides, 0))
    # Units without any table are cheaper than ranges, if there is nothing to say of them.
    whole = np.asarray(one.withheld.all(axis=1) & (one.holds == 0), dtype=bool)
    extra[whole] = 0
    return KnownTable(
        one.cells,
        one.level,
        low,
        csr_array(extra) if extra.any() else None,
        np.logical_not(whole) if whole.any() else None,
    )


@hold.register
def _(one: NarrowedCells) -> KnownTable:
    value = np.where(one.withheld, -1, one.value)
    return between(one.cells, one.low, one.high, level=one.level, value=value)


def _made(
    release: CountsRelease, tables: Sequence[PublishedTable], together: str | None
) -> tuple[KnownTable, ...]:
    geography = release.geography
    made, reasons = supported(tables, release.schema)
    levels = [geography.leaf] if together is None else [geography.leaf, together]
    held = []
    for level in dict.fromkeys(levels):
        counts = release.table(level)
        given = counts if isinstance(counts, np.ndarray) else counts.data
        if np.any(given < 0) or np.any(given != np.rint(given)):
            raise InputError(
                "release",
                place=f"level {level!r}",
                found="counts that are negative or not whole",
                expected="whole counts of 0 or more, from which tables can be made",
            )
        for cells in made:
            lowest = cells.table.lowest
            known = lowest == "block" or lowest in geography.levels
            if known and level in cells.table.published_at(geography):
                values = cells.table.of(counts.astype(np.int64), release.schema)
                held.append(exact(cells, values, level=level))
    if not held:
        raise InputError(
            "release",
            found="; ".join(reasons.values()) or "no tables to make",
            expected="a schema from which at least one table can be made",
        )
    return tuple(held)


def tells_years(class_of: np.ndarray, key: np.ndarray) -> bool:
    """Whether the classes of a reconstruction tell every (sex, age) apart."""
    pairs = np.unique(np.stack([class_of, key]), axis=1).shape[1]
    return bool(pairs == len(np.unique(class_of)))
