"""Residuals between exact and released counts, and the statistics that sum them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.errors import InputError

if TYPE_CHECKING:
    from scipy import sparse

    Counts: TypeAlias = ArrayLike | sparse.sparray | sparse.spmatrix

Sign = Literal["released - exact", "exact - released"]
RELEASED_MINUS_EXACT: Sign = "released - exact"
EXACT_MINUS_RELEASED: Sign = "exact - released"
"""The sign of Flaxman (2019); sizes of errors do not depend on it, the bias does."""


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
    sign: Sign = RELEASED_MINUS_EXACT

    def explain(self) -> str:
        """Say in plain words what the figures are and are not."""
        return (
            f"Over {self.n:,} cells in which the exact or the released count is not zero, half of "
            f"the errors are at most {self.median_absolute:g} in size, 95 % are at most "
            f"{self.p95_absolute:g} and the largest is {self.max_absolute:g}; the mean size is "
            f"{self.mean_absolute:g}, the root mean square {self.rmse:g} and the mean of "
            f"{self.sign} is {self.bias:g}. Cells empty on both sides are left out, so the set of "
            "cells depends on the release, and two releases may be scored on different cells. "
            "These figures describe the releases at hand, not their spread over new noise, and "
            "they are computed from the exact counts without protection."
        )


def residuals(
    truth: Counts, released: Counts, *, sign: Sign = RELEASED_MINUS_EXACT
) -> NDArray[Any]:
    """Return one residual for each cell that is non-zero on either side, in row-major order.

    The rule is that of an outer join of two tables which hold only non-empty cells, with the
    missing side filled with zero (Petti & Flaxman 2020): a cell empty on both sides never
    counts, a cell that is equal on both sides counts with residual zero.

    Both sides are dense arrays of one shape or scipy sparse matrices of one shape. Integer
    counts give int64 residuals, all others float64.
    """
    sides = [_Side.read(truth, "truth"), _Side.read(released, "released")]
    if sides[0].shape != sides[1].shape:
        raise InputError(
            "released", place="shape", found=f"{sides[1].shape}", expected=f"{sides[0].shape}"
        )
    if sign not in (RELEASED_MINUS_EXACT, EXACT_MINUS_RELEASED):
        raise InputError(
            "residuals",
            place="sign",
            found=repr(sign),
            expected=f"{RELEASED_MINUS_EXACT!r} or {EXACT_MINUS_RELEASED!r}",
        )
    exact, noisy = sides
    cells = np.union1d(exact.cells, noisy.cells)
    difference: NDArray[Any] = noisy.at(cells) - exact.at(cells)
    return difference if sign == RELEASED_MINUS_EXACT else -difference


def summarise(values: ArrayLike, *, sign: Sign = RELEASED_MINUS_EXACT) -> ErrorSummary:
    """Sum up residuals; `sign` records which way they were taken.

    The 95th percentile is that of the absolute values, by linear interpolation.
    """
    errors = finite_vector(values, "residuals").astype(np.float64)
    if errors.size == 0:
        raise InputError("residuals", found="no values", expected="at least one residual")
    size = np.abs(errors)
    return ErrorSummary(
        n=errors.size,
        median_absolute=float(np.median(size)),
        mean_absolute=float(size.mean()),
        p95_absolute=float(np.quantile(size, 0.95)),
        max_absolute=float(size.max()),
        rmse=float(np.sqrt(np.mean(np.square(errors)))),
        bias=float(errors.mean()),
        sign=sign,
    )


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


@dataclass(frozen=True)
class _Side:
    """The non-zero cells of one table: flat row-major index, ascending, and value."""

    shape: tuple[int, ...]
    cells: NDArray[np.int64]
    values: NDArray[Any]

    @classmethod
    def read(cls, counts: Counts, name: str) -> _Side:
        from scipy import sparse

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

    def at(self, cells: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values at `cells`, a superset of the cells held; zero where none is held."""
        out = np.zeros(cells.size, dtype=self.values.dtype)
        out[np.searchsorted(cells, self.cells)] = self.values
        return out
