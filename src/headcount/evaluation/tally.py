"""Errors tallied: exact beside released counts on a stated set, and every statistic of them.

The set of counts is a parameter, because an error means nothing without it:

    all      every count that could be other than zero, empty or not: the same for every release
    truth    counts that are not zero in truth: the same for every release
    either   counts that are not zero in truth or in the release: the rule of Petti & Flaxman
             (2020). It depends on the release, so two methods must not be compared by it: one that
             adds noise everywhere is scored on many empty counts, one that keeps zeros is not

Counts that are zero on both sides are never listed, only numbered, so that `all` of a large sparse
table costs no more than `either`; every statistic is still the exact one. There are three: the
summary of a set (``summarise``: mean and root mean square error, bias, median and 95th percentile),
errors beside the size of what is counted (``beside_size``), and sums by class of counts, whose
quotients are means over several releases (``sums_by``, ``mean_errors``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import InputError

if TYPE_CHECKING:
    from scipy import sparse

    CountTable: TypeAlias = ArrayLike | sparse.sparray | sparse.spmatrix

CellSet = Literal["all", "truth", "either"]
CELL_SETS: tuple[CellSet, ...] = get_args(CellSet)
CELL_WORDS: dict[CellSet, str] = {
    "all": "every count that is possible, empty or not",
    "truth": "counts that are not zero in truth",
    "either": "counts that are not zero in truth or in the release",
}
FINE, ROUGH = 0.1, 0.5
"""Errors up to these parts of a count leave it usable, or usable with care."""
FULL = 8
"""A table is full where at least one cell in so many is not zero."""

SUMS = {
    "counts": pl.Int64,
    "people": pl.Float64,
    "absolute": pl.Float64,
    "signed": pl.Float64,
    "squared": pl.Float64,
    "lost": pl.Int64,
    "lost_people": pl.Float64,
    "negative": pl.Int64,
}
"""What is added up of a class of counts: see ``sums_by``."""

_KEYS = ("column", "truth", "released")


def use_of(part: float) -> str:
    """Whether a single count says anything, by its error as a part of its size."""
    return "usable" if part <= FINE else "with care" if part <= ROUGH else "not usable"


def check_cells(cells: str, *, compared: bool = False) -> CellSet:
    """The name of a set of counts; `either` is refused where methods are compared."""
    allowed = tuple(one for one in CELL_SETS if not (compared and one == "either"))
    for one in allowed:
        if cells == one:
            return one
    why = ": the set must not depend on the method" if compared else ""
    raise InputError(
        "evaluation",
        place="cells",
        found=repr(cells),
        expected=" or ".join(map(repr, allowed)) + why,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class CountPairs:
    """Exact counts beside released ones, on a set of counts.

    where
        place      position of each pair in the table, row by row, ascending; of pairs that are
                   tallied the column alone
        truth      exact counts
        released   released counts
        empty      counts of the set that are zero on both sides: part of it, but not listed
        missing    positions of counts that were not released: in no set
        times      how often each pair occurs, where they are tallied; otherwise each is listed as
                   often as it occurs
        empties    the ``empty`` ones of each column, where pairs are tallied
    """

    cells: CellSet
    shape: tuple[int, ...]
    place: Ints
    truth: NDArray[Any]
    released: NDArray[Any]
    empty: int
    missing: Ints
    times: Ints | None = None
    empties: Ints | None = None

    @property
    def n(self) -> int:
        """How many counts the set has."""
        return (self.place.size if self.times is None else int(self.times.sum())) + self.empty

    def residuals(self) -> NDArray[Any]:
        """Released minus exact, for each pair listed; those of the `empty` ones are zero."""
        difference: NDArray[Any] = self.released - self.truth
        return difference

    def summary(self) -> ErrorSummary:
        """The errors of the whole set."""
        return summarise(self.residuals(), zeros=self.empty, times=self.times, cells=self.cells)

    def columns(self) -> Iterator[CountPairs]:
        """The pairs of each column of a table, in order."""
        rows, columns = self.shape
        column = self.place % columns
        order = np.argsort(column, kind="stable")
        ends = np.searchsorted(column[order], np.arange(columns + 1))
        gone = self.missing % columns
        for number in range(columns):
            mine = order[ends[number] : ends[number + 1]]
            empty = rows - mine.size - int((gone == number).sum()) if self.cells == "all" else 0
            yield replace(
                self,
                shape=(rows, 1),
                place=self.place[mine] // columns,
                truth=self.truth[mine],
                released=self.released[mine],
                empty=empty if self.empties is None else int(self.empties[number]),
                missing=self.missing[gone == number] // columns,
                times=None if self.times is None else self.times[mine],
                empties=None if self.empties is None else self.empties[[number]],
            )


def pair_counts(
    truth: CountTable | Side,
    released: CountTable,
    *,
    cells: CellSet = "all",
    missing: Flags | None = None,
) -> CountPairs:
    """Set exact counts beside released ones, on a set of counts (see the head of this module).

    ``missing`` are counts that were not released: they belong to no set.

    Both sides are dense arrays of one shape or scipy sparse matrices of one shape; ``truth`` may
    also be a side that was read before, for several releases. Integers stay int64, all else is
    float64. Counts that cannot be other than zero are to be left out of the tables beforehand.
    """
    exact, noisy = Side.read(truth, "truth"), Side.read(released, "released")
    if exact.shape != noisy.shape:
        raise InputError(
            "released", place="shape", found=f"{noisy.shape}", expected=f"{exact.shape}"
        )
    check_cells(cells)
    whole = int(np.prod(exact.shape, dtype=np.int64))
    place = exact.cells if cells == "truth" else _either(exact, noisy, whole)
    gone = np.flatnonzero(() if missing is None else missing).astype(np.int64)
    place = np.setdiff1d(place, gone, assume_unique=True) if gone.size else place
    return CountPairs(
        cells=cells,
        shape=exact.shape,
        place=place,
        truth=exact.at(place),
        released=noisy.at(place),
        empty=whole - gone.size - place.size if cells == "all" else 0,
        missing=gone,
    )


def _either(exact: Side, noisy: Side, whole: int) -> Ints:
    """Cells that are not zero on one side or the other, ascending."""
    if not (exact.full or noisy.full):
        return np.union1d(exact.cells, noisy.cells)
    there = np.zeros(whole, dtype=bool)  # quicker than sorting where most are there
    there[exact.cells] = there[noisy.cells] = True
    return np.flatnonzero(there).astype(np.int64)


@dataclass(frozen=True)
class Side:
    """The non-zero cells of one table: flat row-major index, ascending, and value."""

    shape: tuple[int, ...]
    cells: Ints
    values: NDArray[Any]

    @classmethod
    def read(cls, counts: CountTable | Side, name: str) -> Side:
        """The same cells; of a side that was read already, the side itself."""
        from scipy import sparse

        if isinstance(counts, Side):
            return counts

        if not sparse.issparse(counts):
            array = np.asarray(counts)
            flat = finite_vector(array, name)
            cells = np.flatnonzero(flat).astype(np.int64)
            return cls(array.shape, cells, flat[cells])
        table = sparse.csr_array(counts, copy=True)
        table.sum_duplicates()  # also sorts the column indices
        table.eliminate_zeros()
        rows = np.repeat(np.arange(table.shape[0], dtype=np.int64), np.diff(table.indptr))
        cells = rows * table.shape[1] + table.indices.astype(np.int64)
        return cls(table.shape, cells, finite_vector(table.data, name))

    @property
    def full(self) -> bool:
        """Whether so many cells are held that a whole table costs less than looking them up."""
        return FULL * self.cells.size > prod(self.shape)

    def at(self, cells: Ints) -> NDArray[Any]:
        """Return the values at `cells`, ascending; zero where none is held."""
        if self.full:
            table = np.zeros(prod(self.shape), dtype=self.values.dtype)
            table[self.cells] = self.values
            return table[cells]
        out = np.zeros(cells.size, dtype=self.values.dtype)
        if self.cells.size and cells.size:
            spot = np.minimum(np.searchsorted(self.cells, cells), self.cells.size - 1)
            held = self.cells[spot] == cells
            out[held] = self.values[spot[held]]
        return out


def tally(pieces: Iterable[CountPairs], cells: CellSet, *, by_column: bool) -> CountPairs:
    """Count the pairs of the pieces of one table, some of its rows each: whole numbers only.

    Without ``by_column`` all of its columns are taken as one.
    """
    found: pl.DataFrame | None = None
    empties, height = np.zeros(0, dtype=np.int64), 0
    for pairs in pieces:
        rows, columns = pairs.shape if by_column else (pairs.shape[0] * pairs.shape[1], 1)
        column = pairs.place % columns
        new = pl.DataFrame(dict(zip(_KEYS, (column, pairs.truth, pairs.released), strict=True)))
        counted = new.group_by(_KEYS).len("times").cast(pl.Int64)
        both = counted if found is None else pl.concat([found, counted])
        found = both.group_by(_KEYS).agg(pl.col("times").sum())
        empties = empties if empties.size else np.zeros(columns, dtype=np.int64)
        height += rows
        if cells == "all":
            empties += rows - np.bincount(column, minlength=columns)
    assert found is not None  # a table has a piece
    place, truth, released, times = (one.to_numpy() for one in found.sort(_KEYS).get_columns())
    return CountPairs(
        cells=cells,
        shape=(height, empties.size),
        place=place,
        truth=truth,
        released=released,
        empty=int(empties.sum()),
        missing=np.zeros(0, dtype=np.int64),
        times=times,
        empties=empties,
    )


@dataclass(frozen=True, kw_only=True)
class ErrorSummary:
    """What a release costs in accuracy; every figure but `n` is in people (or released units)."""

    n: int
    median_absolute: float
    mean_absolute: float
    p95_absolute: float
    max_absolute: float
    rmse: float
    bias: float
    cells: CellSet = "all"


def summarise(
    values: ArrayLike,
    *,
    zeros: int = 0,
    times: Ints | None = None,
    cells: CellSet = "all",
) -> ErrorSummary:
    """Sum up residuals and `zeros` more that are zero.

    ``times`` says how often each residual occurs; without it, once. The 95th percentile is that of
    the absolute values, by linear interpolation.
    """
    errors = finite_vector(values, "residuals").astype(np.float64)
    n = (errors.size if times is None else int(times.sum())) + zeros
    if n == 0:
        raise InputError("residuals", found="no values", expected="at least one residual")
    size = np.abs(errors)
    return ErrorSummary(
        n=n,
        median_absolute=median_of(size, zeros=zeros, times=times),
        mean_absolute=float(_sum_of(size, times) / n),
        p95_absolute=quantile_of(size, 0.95, zeros=zeros, times=times),
        max_absolute=float(size.max(initial=0)),
        rmse=float(np.sqrt(_sum_of(np.square(errors), times) / n)),
        bias=float(_sum_of(errors, times) / n),
        cells=cells,
    )


def beside_size(pairs: CountPairs) -> dict[str, float | int | None]:
    """Errors of a set of counts relative to the counts, and what is missing from the release.

        percent_of_mean = 100 x sum of |released - exact| / sum of exact
        median_percent  = median of 100 x |released - exact| / exact, where exact is not 0

    where
        mean_count     mean exact count of the whole set, empty ones too
        median_count   median of the exact counts that are not 0: the typical size
        lost           exact counts that are not 0 and were released as 0 or less
        lost_people    people in them
        negative       released counts below 0

    None where nobody is counted.
    """
    there = pairs.truth > 0
    exact = pairs.truth[there].astype(np.float64)
    apart = np.abs(pairs.residuals()).astype(np.float64)
    gone = pairs.released[there] <= 0
    times = pairs.times
    own = None if times is None else times[there]
    people, some = _sum_of(exact, own), bool(exact.size)
    return {
        "mean_count": people / pairs.n,
        "median_count": median_of(exact, times=own) if some else None,
        "percent_of_mean": 100 * _sum_of(apart, times) / people if some else None,
        "median_percent": median_of(100 * apart[there] / exact, times=own) if some else None,
        "lost": int(_sum_of(gone, own)),
        "lost_people": _sum_of(exact * gone, own),
        "negative": int(_sum_of(pairs.released < 0, times)),
    }


def sums_by(
    pairs: CountPairs, key: Ints, *, keys: int, counts: Ints | None = None
) -> dict[str, NDArray[Any]]:
    """Sums of the errors of each class of counts, which add up over releases.

    where
        key      the class of each pair listed, below ``keys``
        counts   how many counts each class has; by default those listed, and in class 0 those that
                 are zero on both sides

    Gives ``counts``, ``people`` in truth, and of the errors released - exact the sums of their
    sizes (``absolute``), of themselves (``signed``) and of their squares; ``lost`` counts with
    people that were released as 0 or less, the people in them, and counts released below 0
    (``negative``).
    """
    error = pairs.residuals().astype(np.float64)
    truth, gone = pairs.truth, (pairs.truth > 0) & (pairs.released <= 0)

    def summed(weights: Any) -> Floats:
        return np.bincount(key, weights=weights, minlength=keys).astype(np.float64)

    if counts is None:
        counts = np.bincount(key, minlength=keys)
        counts[0] += pairs.empty
    return {
        "counts": counts,
        "people": summed(truth),
        "absolute": summed(np.abs(error)),
        "signed": summed(error),
        "squared": summed(np.square(error)),
        "lost": summed(gone).astype(np.int64),
        "lost_people": summed(gone * truth),
        "negative": summed(pairs.released < 0).astype(np.int64),
    }


def mean_errors() -> dict[str, pl.Expr]:
    """Means from the columns of sums; of what nobody is counted in there is no percentage."""
    counts, people = pl.col("counts"), pl.col("people")

    def percent(name: str) -> pl.Expr:
        return pl.when(people > 0).then(100 * pl.col(name) / people)

    return {
        "mean_count": people / counts,
        "error": pl.col("absolute") / counts,
        "percent": percent("absolute"),
        "bias": pl.col("signed") / counts,
        "bias_percent": percent("signed"),
        "rmse": (pl.col("squared") / counts).sqrt(),
    }


def band_bounds(band: int, edges: Sequence[int]) -> dict[str, int | None]:
    """A band as low <= people < high."""
    bounds: list[int | None] = [0, *edges, None]
    return {"low": bounds[band], "high": bounds[band + 1]}


def _sum_of(values: Floats | Flags, times: Ints | None) -> float:
    """The sum of values that occur so many times each: exact for whole numbers below 2^53."""
    return float(values.sum() if times is None else (values * times).sum())


def median_of(sizes: Floats, *, zeros: int = 0, times: Ints | None = None) -> float:
    """The median of sizes of 0 or more, and of as many zeros besides."""
    low, high, _ = _around(sizes, 0.5, zeros, times)
    return float((low + high) / 2)


def quantile_of(sizes: Floats, q: float, *, zeros: int = 0, times: Ints | None = None) -> float:
    """The quantile, by linear interpolation, of values, and of zeros before all of them."""
    low, high, between = _around(sizes, q, zeros, times)
    apart = float(high) - float(low)  # from the nearer end, as numpy does, to the bit
    return float(low) + apart * between if between < 0.5 else float(high) - apart * (1 - between)


def _around(sizes: Floats, q: float, zeros: int, times: Ints | None) -> tuple[Any, Any, float]:
    """The order statistics on either side of rank q (n - 1), and how far between them it lies.

    The first `zeros` order statistics are known, so only the listed sizes are looked at.
    """
    last = (sizes.size if times is None else int(times.sum())) + zeros - 1
    rank = q * last
    below = int(rank)
    above = min(below + 1, last) if rank > below else below
    listed = [k - zeros for k in (below, above) if k >= zeros]
    if times is not None:
        order = np.argsort(sizes, kind="stable")
        place = np.searchsorted(np.cumsum(times[order]), listed, side="right")
        found = [0.0] * (2 - len(listed)) + sizes[order][place].tolist()
        return found[0], found[1], rank - below
    ordered = np.partition(sizes, listed) if listed else sizes
    low, high = (ordered[k - zeros] if k >= zeros else 0.0 for k in (below, above))
    return low, high, rank - below


def finite_vector(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return `values` as a flat int64 or float64 array, refusing NaN and infinity."""
    array = np.asarray(values).ravel()
    if array.size == 0:
        return np.empty(0)
    if array.dtype.kind not in "biuf":
        raise InputError(name, place="type", found=f"{array.dtype}", expected="numbers")
    # Unsigned counts would wrap round when subtracted.
    array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64, copy=False)
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        raise InputError(
            name,
            place=f"entry {wrong[0]}",
            found=f"{wrong.size} value(s) that are NaN or infinite",
            expected="finite numbers",
        )
    return array
