"""A reader's estimate: a count for every place and cell, from tables that show less than that.

Of all tables x that agree with what is published it is the one of largest entropy relative to a
public prior q, which has the least sum of x log(x / q):

    x[a, c] = q[a, c] * product of one factor for each published number that counts (a, c)

where
    a, c     a place of the lowest level and a cell of the schema
    factor   1 where the sum lies within the range of the published number; else what takes it to
             the nearer end of the range. An exact number is a range of one

Factors are found one set of sums after the other, over and over: iterative proportional fitting
where all numbers are exact (Deming & Stephan 1940), else Censor & Lent's row action method for
interval constraints (1981). It is what somebody may make of a release who knows nothing else. It is
no part of it, promises nothing, and is no bound on what can be found out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.domain import Domain
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.privacy import Guarantee
from headcount.release.release import CountsRelease, TablesRelease
from headcount.report.finding import SUPPORTED, Support
from headcount.schema import Schema

SWEEPS, WORK = 3_000, 1_000_000_000
"""Times that all sums are gone through at most, and factors of unknowns that are changed at most,
before the estimate is given as it is: a limit of work, never of time."""
EVERY = 10
"""Sweeps after which it is looked at whether all sums are near enough; also after the first."""
NEAR = 1e-4
"""People by which a sum may miss its range at the end."""
LARGEST = 60_000_000
"""Numbers of which sum each unknown is a part, at most: of more there is no estimate."""
ROUNDS = 50
"""Times that bounds are narrowed by one another before the first sweep."""
PIECE = 1 << 23
"""Unknowns that are looked at together while those that must be 0 are left out."""
UNKNOWN = 1 << 40
"""An upper end of which nothing is said."""
NEXT_TO_NOBODY = 1e-3
"""The prior of a place without public size, where others have one: it is not known to be empty."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReadersEstimate(CountsRelease):
    """Counts that a reader may put in the place of tables, and how they were found.

    where
        read        the tables
        prior       what the estimate is nearest to, in words
        sweeps      times that all sums were gone through
        off         the most by which a sum misses its range, in people
        converged   whether that is near enough
    """

    read: TablesRelease
    prior: str
    sweeps: int
    off: float
    converged: bool

    @property
    def words(self) -> str:
        """What it is, for people."""
        end = (
            f"found in {self.sweeps:,} sweeps"
            if self.converged
            else f"it has not converged after {self.sweeps:,} sweeps: the worst of the published "
            f"sums is missed by {self.off:.2g}"
        )
        return (
            "a reader's estimate, no part of the release: the table of largest entropy that has "
            f"all published sums, relative to {self.prior}; {end}"
        )


class TooLarge(InputError):
    """There is more to fit than is tried."""


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """Sums that count nobody twice: unit of each leaf, sum of each cell, and ranges.

    The last sum of each unit is that of cells which are in no other.
    """

    unit: Ints
    group: Ints
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Fitted:
    """Unknowns that need not be 0, by leaf and by kind of cell, and what was found of each.

    where
        leaf, place   of each unknown its leaf and the number of its kind
        x, low, high  the estimate, and the ends that sums leave, found one sum at a time
        first         a cell of each kind: cells are of one kind if no sum tells them apart
        kind, many    the kind of each cell, -1 of impossible ones; how many cells a kind has
    """

    leaf: Ints
    place: Ints
    x: Floats
    low: Floats
    high: Floats
    first: Ints
    kind: Ints
    many: Floats
    prior: str
    sweeps: int
    off: float


@dataclass(eq=False)
class _Factors:
    """Sums of unknowns, their ranges and their factors."""

    of: Ints
    low: Floats
    high: Floats
    factor: Floats

    def fit(self, x: Floats) -> None:
        """Take each sum into its range by one factor."""
        without = np.bincount(self.of, weights=x, minlength=len(self.low)) / self.factor
        there = without > 0
        end = np.where(without < self.low, self.low, np.minimum(without, self.high))
        factor = np.where(there, end, 1) / np.where(there, without, 1)
        x *= (factor / self.factor)[self.of]
        self.factor = factor

    def missed(self, x: Floats) -> float:
        """How far the worst sum is from where its factor says that it is."""
        found = np.bincount(self.of, weights=x, minlength=len(self.low))
        off = np.maximum(np.maximum(self.low - found, found - self.high), 0)
        off = np.where(self.factor > 1, abs(found - self.low), off)
        off = np.where(self.factor < 1, abs(found - self.high), off)
        return float(off.max(initial=0))


_FOUND: WeakKeyDictionary[TablesRelease, dict[Any, ReadersEstimate]] = WeakKeyDictionary()
"""By release, for as long as somebody holds it."""


def can_be_estimated(release: TablesRelease) -> Support:
    """Whether a reader can estimate every count; if not, why not."""
    for one in release.published:
        if one.off is not None and not one.off.told and one.known is None:
            return Support(
                f"the release does not say how far values of {one.name} may be from the counts "
                "behind them"
            )
        if one.cells.matrix.nnz and one.cells.matrix.data.max() > 1:
            return Support(f"table {one.name} counts some people several times")
    return SUPPORTED


def readers_estimate(
    release: TablesRelease,
    domain: Domain | None = None,
    *,
    sizes: Ints | None = None,
    sweeps: int | None = None,
    near: float = NEAR,
) -> ReadersEstimate:
    """Estimated counts of every place and cell.

    where
        domain   with the places and levels that are wanted; those of the release if None
        sizes    public sizes of the leaves, where the release has no totals of them
        sweeps   at most so many; by default as many as the work allows
        near     people by which a sum may miss its range
    """
    if not (support := can_be_estimated(release)):
        raise InputError(
            "readers_estimate", found=support.why_not, expected="tables that say what is behind"
        )
    domain = domain or release.domain
    known = _FOUND.setdefault(release, {})
    key = (domain.geography, None if sizes is None else sizes.tobytes(), sweeps, near)
    if key not in known:
        known[key] = _estimated(release, domain, sizes, sweeps, near)
    return known[key]


def _estimated(
    release: TablesRelease, domain: Domain, sizes: Ints | None, sweeps: int | None, near: float
) -> ReadersEstimate:
    schema, geography = release.schema, release.geography
    if not np.array_equal(domain.geography.units[-1], geography.units[-1]):
        raise InputError(
            "readers_estimate",
            found="places other than those of the release",
            expected=f"the same units of {geography.leaf!r}",
        )
    found = fit(release, sizes=sizes, sweeps=sweeps, near=near)
    return ReadersEstimate(
        domain=replace(domain, schema=schema),
        mechanism=release.mechanism,
        guarantee=Guarantee.none("a reader's estimate; the release states its own guarantee"),
        key_kind=release.key_kind,
        backend=release.backend,
        tables={geography.leaf: _by_cell(found, geography)},
        read=release,
        prior=found.prior,
        sweeps=found.sweeps,
        off=found.off,
        converged=found.off <= near,
    )


def fit(
    release: TablesRelease,
    *,
    sizes: Ints | None = None,
    sweeps: int | None = None,
    near: float = NEAR,
    also: Sequence[Sums] = (),
    apart: Sequence[Ints] = (),
) -> Fitted:
    """Fit counts to all published sums.

    where
        also    what is known besides
        apart   numbers of cells: those with different ones are kinds of their own
    """
    schema, geography = release.schema, release.geography
    told = [*_families(release), *also]
    kind, many = _kinds([*(one.group for one in told), *apart], schema)
    first = np.unique(kind[schema.possible], return_index=True)[1]
    first = np.flatnonzero(schema.possible)[first]
    weight, prior = _weights(release, sizes)
    leaf, place, sums, low, high = _unknowns(told, first, geography, weight > 0)
    x = weight[leaf] * many[place] / many.sum()
    if sweeps is None:
        sweeps = min(SWEEPS, 1 + WORK // max(1, len(x) * len(sums)))
    done, off = 0, max((one.missed(x) for one in sums), default=0.0)
    while off > near and done < sweeps:
        for one in sums:
            one.fit(x)
        done += 1
        if done == 1 or done == sweeps or done % EVERY == 0:
            off = max(one.missed(x) for one in sums)
    return Fitted(
        leaf=leaf,
        place=place,
        x=x,
        low=low,
        high=high,
        first=first,
        kind=kind,
        many=many,
        prior=prior,
        sweeps=done,
        off=off,
    )


def _families(release: TablesRelease) -> Iterator[Sums]:
    """The published sums; what follows from exact numbers below it is left out."""
    geography = release.geography
    exact = {
        (one.name, geography.depth(one.level))
        for one in release.published
        if one.off is None and not one.zero_hides and not one.withheld.any()
    }
    for one in release.published:
        depth = geography.depth(one.level)
        if any((one.name, finer) in exact for finer in range(depth + 1, len(geography.levels))):
            continue
        low, high = one.ends(unknown=UNKNOWN)
        cells, every = one.cells, (one.name, depth) not in exact
        unit = geography.ancestors(one.level).astype(np.int64)
        for family in np.unique(cells.family if every else cells.family[cells.inner]):
            own = np.flatnonzero(cells.family == family)
            entries = cells.matrix[:, own].tocoo()
            group = np.full(cells.matrix.shape[0], len(own), dtype=np.int64)
            group[entries.coords[0]] = entries.coords[1]
            none, all_ = np.zeros((len(low), 1)), np.full((len(low), 1), float(UNKNOWN))
            yield Sums(unit, group, np.hstack([low[:, own], none]), np.hstack([high[:, own], all_]))


def _kinds(groups: Sequence[Ints], schema: Schema) -> tuple[Ints, Floats]:
    """Cells that no table tells apart are one kind: that of each cell, and how many it has."""
    kind = np.zeros(len(schema.possible), dtype=np.int64)
    for group in groups:
        kind = np.unique(kind * (1 + group.max()) + group, return_inverse=True)[1].reshape(-1)
    kinds, back = np.unique(kind[schema.possible], return_inverse=True)
    kind[schema.possible] = back
    kind[~schema.possible] = -1
    return kind, np.bincount(back, minlength=len(kinds)).astype(np.float64)


def _weights(release: TablesRelease, sizes: Ints | None) -> tuple[Floats, str]:
    """The prior of each leaf: its published total, else its public size, else the same for all."""
    leaf, possible = release.geography.leaf, release.schema.possible
    for one in release.published:
        columns = np.asarray(one.cells.matrix[possible].sum(axis=0)).ravel()
        everybody = np.flatnonzero(columns == possible.sum())
        if one.level != leaf or not len(everybody):
            continue
        low, high = (end[:, everybody[0]].astype(np.float64) for end in one.ends(unknown=UNKNOWN))
        known = high < UNKNOWN
        if known.any():
            total = np.where(known, (low + high) / 2, 0)
            some = max(float(total[known].mean()), 1.0)
            return np.where(known, total, some), f"published totals of each {leaf}"
    if sizes is not None and sizes.any():
        return np.maximum(sizes, NEXT_TO_NOBODY), f"public sizes of each {leaf}"
    return np.ones(release.geography.size(leaf)), f"the same for each {leaf}"


def _unknowns(
    told: Sequence[Sums], first: Ints, geography: Geography, lived: Flags
) -> tuple[Ints, Ints, list[_Factors], Floats, Floats]:
    """Leaves and kinds of the unknowns that need not be 0, their sums and their ends."""
    leaves, kinds = geography.size(geography.leaf), len(first)
    step = max(1, PIECE // max(1, kinds))
    found = []
    many = 0
    for start in range(0, leaves, step):
        some = np.arange(start, min(start + step, leaves))
        free = np.repeat(lived[some, None], kinds, axis=1)
        for one in told:
            free &= one.high[one.unit[some]][:, one.group[first]] > 0
        row, column = np.nonzero(free)
        many += len(row) * len(told)
        if many > LARGEST:
            raise TooLarge(
                "readers_estimate",
                found=f"more than {LARGEST:,} numbers to fit",
                expected="fewer places, cells or tables",
            )
        found.append((some[row], column))
    leaf, place = (np.concatenate(part) for part in zip(*found, strict=True))
    indices = [one.unit[leaf] * one.low.shape[1] + one.group[first][place] for one in told]
    ends = [(one.low.ravel(), one.high.ravel()) for one in told]
    low, high = _narrowed(indices, ends, len(leaf))
    kept = np.flatnonzero(high > 0)
    sums = [
        _Factors(of=index[kept], low=least, high=most, factor=np.ones(len(least)))
        for index, (least, most) in zip(indices, ends, strict=True)
    ]
    return leaf[kept], place[kept], sums, low[kept], high[kept]


def _narrowed(
    indices: Sequence[Ints], ends: Sequence[tuple[Floats, Floats]], size: int
) -> tuple[Floats, Floats]:
    """Ends of each unknown by what others of its sums are at least and at most, and so on."""
    low, high = np.zeros(size), np.full(size, float(UNKNOWN))
    for _ in range(ROUNDS):
        before = low.sum(), high.sum()
        for of, (least, most) in zip(indices, ends, strict=True):
            others = np.bincount(of, weights=low, minlength=len(least))[of] - low
            high = np.minimum(high, np.maximum(most[of] - others, 0))
            others = np.bincount(of, weights=high, minlength=len(least))[of] - high
            low = np.minimum(np.maximum(low, least[of] - others), high)
        if (low.sum(), high.sum()) == before:
            break
    return low, high


def _by_cell(found: Fitted, geography: Geography) -> Any:
    """Counts by leaf and cell: those of a kind are shared evenly among its cells."""
    from scipy.sparse import csr_array

    kind, many = found.kind, found.many
    shape = (geography.size(geography.leaf), len(many))
    by_kind = csr_array((found.x, (found.leaf, found.place)), shape=shape)
    cells = np.flatnonzero(kind >= 0)
    share = csr_array((1 / many[kind[cells]], (kind[cells], cells)), shape=(len(many), len(kind)))
    table = csr_array(by_kind @ share)
    table.sort_indices()
    return table
