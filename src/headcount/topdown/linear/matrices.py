"""Gaussian conditioning of small vectors, some directions exact and others diffuse (unknown).

    x = T a + N b

where
    a   known with covariance C, which may be singular: some directions are exact
    b   unknown
    T   (size x r) what a says of x
    N   (size x m) an orthonormal basis of the unknown directions

Two kinds of knowledge are added to it: that E'x is exact, and answers of precision H. Working with
covariances instead of precisions is what lets exact and unknown directions stand side by side.

Counts that nothing takes apart (components.py) are estimated jointly, by matrices of as many rows.
Structural zeros and groups of levels are what leaves many of them: too many are refused in words,
before memory runs out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Flags, Floats
from headcount.errors import ConfigError
from headcount.processes import gib, memory_limit

MOST_TOGETHER = 1_000
"""Rows of one matrix. To take one of 990 apart takes 9 s and 0.7 GiB, and time goes with the cube
of it."""
LITTLE = 1 << 30
"""Bytes that any machine has."""
SCALAR = 8


class TooManyTogether(ConfigError):
    """Counts that least squares would have to estimate together are too many."""


def refuse_too_many(rows: int) -> None:
    """Refuse combinations of levels that are too many for one matrix."""
    if rows > MOST_TOGETHER:
        raise TooManyTogether(
            "least squares",
            place="structural zeros and groups of levels",
            found=f"{rows:,} combinations of levels that they tell apart, to be estimated together",
            expected=f"at most {MOST_TOGETHER:,}: fewer structural zeros, or queries that group "
            "levels in the same way",
        )


def refuse_beyond_memory(matrices: int, rows: int, *, of: str) -> None:
    """Refuse more square matrices than this machine can hold at once."""
    need = matrices * rows**2 * SCALAR
    if need > LITTLE and need > (most := memory_limit()):
        raise TooManyTogether(
            "least squares",
            place="memory",
            found=f"{rows:,} counts to be estimated together in {of}, which needs {gib(need)}",
            expected=f"at most the {gib(most)} of this machine: fewer structural zeros, or queries "
            "that group levels in the same way",
        )


NOTHING = 1e-10
"""Relative to the largest: smaller singular values are rounding errors of 0."""
ROUNDING = 1e-12
"""A variance that is less of the numbers that it was added up from is a rounding error of 0."""


@dataclass(frozen=True, eq=False)
class Known:
    """Knowledge of vectors of one size, whose unknown directions are the same.

    where
        covariance   (vectors x r x r) of a
        known        T
        unknown      N
    """

    covariance: Floats
    known: Floats
    unknown: Floats

    def with_exact(self, exact: Floats) -> Known:
        """Knowing E'x as well (E: size x e).

        E'T a + E'N b = 0 for the errors: what E says of unknown directions makes these known, and
        what it says of a alone is conditioned on.
        """
        if not exact.size:
            return self
        of_b, of_a = exact.T @ self.unknown, exact.T @ self.known
        left, sizes, right = np.linalg.svd(of_b)
        rank = int(_something(sizes).sum())
        found = self.unknown @ right[:rank].T
        known = self.known - found @ ((left[:, :rank].T @ of_a) / sizes[:rank, None])
        rows = (left[:, rank:].T @ of_a).T  # r x rest: these sums of a are 0
        return Known(conditioned(self.covariance, rows), known, self.unknown @ right[rank:].T)

    def with_answers(self, precision: Floats) -> Known:
        """Knowing answers of precision H as well; then known directions are those of x itself.

        With A = N'HN the unknown directions that answers tell of are eliminated first:

            H_a = T'HT - T'HN A^+ N'HT,    C <- C (I + H_a C)^-1,    x = (T - N A^+ N'HT) a + N b
        """
        one = np.eye(len(precision))
        if not self.unknown.size and np.array_equal(self.known, one):  # nearly always, and quick
            covariance = divided(self.covariance, one + precision @ self.covariance)
            return Known(symmetric(covariance), one, self.unknown)
        of_b = self.unknown.T @ precision
        inverse, nothing = _inverse(of_b @ self.unknown, scale=largest(precision))
        known = self.known - self.unknown @ (inverse @ (of_b @ self.known))
        left = self.known.T @ precision @ known
        covariance = divided(self.covariance, np.eye(left.shape[0]) + left @ self.covariance)
        own = self.unknown @ inverse @ self.unknown.T
        whole = symmetric(known @ covariance @ known.T + own)
        return Known(whole, np.eye(len(own)), self.unknown @ nothing)


def nothing_known(size: int, vectors: int) -> Known:
    """Vectors of which nothing is known yet."""
    return Known(np.zeros((vectors, 0, 0)), np.zeros((size, 0)), np.eye(size))


def conditioned(covariance: Floats, rows: Floats) -> Floats:
    """A covariance once some sums of the variables are known exactly: C - CG (G'CG)^+ G'C."""
    if not rows.size:
        return covariance
    of_sums = covariance @ rows
    inverse = pseudo_inverse(rows.T @ of_sums, scale=largest(covariance))
    found = symmetric(covariance - of_sums @ inverse @ of_sums.swapaxes(-1, -2))
    return cleared(found, covariance)


def cleared(covariance: Floats, before: Floats) -> Floats:
    """A covariance with 0 for variables that are exact now, but for rounding errors.

    Left in, these would be all that later steps see of a variable, and be taken for its variance.
    """
    now, then = (np.einsum("...ii->...i", one) for one in (covariance, before))
    some = (now > ROUNDING * then).astype(np.float64)
    return np.asarray(covariance * some[..., :, None] * some[..., None, :])


def divided(numerator: Floats, denominator: Floats) -> Floats:
    """The numerator @ inverse(denominator), for batches of small matrices."""
    if denominator.shape[-1] == 1:  # by far the most frequent, and much quicker
        return numerator / denominator
    if not denominator.shape[-1]:
        return numerator
    found: Floats = np.linalg.solve(
        denominator.swapaxes(-1, -2), numerator.swapaxes(-1, -2)
    ).astype(np.float64, copy=False)
    return found.swapaxes(-1, -2)


def pseudo_inverse(matrices: Floats, scale: Floats) -> Floats:
    """Of symmetric matrices without negative eigenvalues.

    ``scale`` is the size of the numbers that they were worked out from: against it, what is but a
    rounding error is seen even where a matrix is nothing else.
    """
    least = NOTHING * scale
    if matrices.shape[-1] == 1:
        some = matrices > least[..., None, None]
        return np.divide(1.0, matrices, out=np.zeros_like(matrices), where=some)
    if (regular := _inverses(matrices, scale)) is not None:
        return regular
    values, vectors = np.linalg.eigh(matrices)
    some = values > least[..., None]
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=some)
    found: Floats = (vectors * inverse[..., None, :]) @ vectors.swapaxes(-1, -2)
    return found


def _inverses(matrices: Floats, scale: Floats) -> Floats | None:
    """The inverses, which take a third of the time; None where a matrix is close to singular."""
    try:
        found: Floats = np.linalg.inv(matrices).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return None
    # Every entry: rounding may leave eigenvalues of both signs around 0, whose inverses cancel out
    # on the diagonal.
    regular = np.maximum(scale, largest(matrices)) * largest(found) < 1e-3 / NOTHING
    return found if regular.all() else None


def symmetric(matrices: Floats) -> Floats:
    """Without the asymmetry that rounding leaves."""
    return (matrices + matrices.swapaxes(-1, -2)) / 2


def complement(directions: Floats) -> Floats:
    """An orthonormal basis of everything at right angles to some orthonormal directions."""
    size, some = directions.shape
    return np.linalg.svd(directions, full_matrices=True)[0][:, some:] if some else np.eye(size)


def spanned(directions: Floats) -> Floats:
    """An orthonormal basis of what some directions span."""
    left, sizes, _ = np.linalg.svd(directions, full_matrices=False)
    return left[:, _something(sizes)]


def _something(sizes: Floats) -> Flags:
    """Which singular values, of what was made from numbers around 1, are no rounding errors of 0.

    Against 1, not against the largest alone: where all of them are 0, the largest is one as well.
    """
    return np.asarray(sizes > NOTHING * max(1.0, sizes.max(initial=0.0)))


def least_moves(directions: Floats) -> Floats:
    """The pseudo-inverse (Moore and Penrose) of what exact sums say of unknown directions."""
    left, sizes, right = np.linalg.svd(directions, full_matrices=False)
    some = _something(sizes)
    return np.asarray((right[some].T / sizes[some]) @ left[:, some].T)


def _inverse(matrix: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """The pseudo-inverse of a symmetric matrix, and a basis of the directions in which it is 0."""
    values, vectors = np.linalg.eigh(matrix)
    some = values > NOTHING * scale
    own = vectors[:, some]
    return (own / values[some]) @ own.T, vectors[:, ~some]


def largest(matrices: Floats) -> Floats:
    """The largest entry of each matrix."""
    return np.asarray(np.abs(matrices).max(axis=(-1, -2), initial=0.0))


def without_rounding(variances: Floats, sizes: Floats) -> Floats:
    """Variances, 0 where they are rounding errors of the numbers that they were added up from."""
    return np.where(variances > ROUNDING * sizes, variances, 0.0)
