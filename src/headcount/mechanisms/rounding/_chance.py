"""Up or down with an exact probability, from words of 64 bits.

A value v = n w stands between two multiples of the base b,

    v = k b + f b,   f = R / d,   d = q b,   n p = k d + R,   0 <= R < d

where
    n      a count
    w      its weight p / q in lowest terms, 1 where everybody was counted
    k      how many whole bases there are
    f      how far v is on the way to the next multiple, and the probability of going up
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints
from headcount.errors import ConfigError
from headcount.noise.words import Words

WORD = 1 << 64


@dataclass(frozen=True, eq=False, repr=False)
class Parts:
    """Values as multiples of the base and what is left; each different count is worked out once.

    where
        value_of     for each cell, in the shape of the counts, the position of its count below
        lower        k b of each different count
        remainders   R of each different count
        denominator  d
    """

    value_of: Ints
    lower: Ints
    remainders: Sequence[int]
    denominator: int


def parts(counts: Ints, *, base: int, weight: Fraction = Fraction(1)) -> Parts:
    """Every count times its weight, in multiples of the base; exact for numbers of any size."""
    different, value_of = np.unique(counts, return_inverse=True)
    denominator = weight.denominator * base
    pairs = [divmod(n * weight.numerator, denominator) for n in different.tolist()]
    return Parts(
        value_of=value_of.reshape(counts.shape),
        lower=np.array([k * base for k, _ in pairs], dtype=np.int64),
        remainders=[r for _, r in pairs],
        denominator=denominator,
    )


def up_by_chance(found: Parts, words: Words, *, start: int = 0) -> Flags:
    """Which cells go up: cell i by word start + i, with probability exactly f.

    The word is the first 64 binary digits of a uniform number U, and the cell goes up if U < f.
    Where the digits of f begin with the very same 64, the words that extend this one decide.
    """
    cuts, rests = [], []
    for remainder in found.remainders:
        cut, rest = divmod(remainder << 64, found.denominator)
        cuts.append(cut)
        rests.append(rest)
    cut_of = np.array(cuts, dtype=np.uint64)
    value_of = found.value_of.ravel()
    up = np.empty(len(value_of), dtype=bool)
    done = 0
    for some in words.run(start, len(value_of)):
        here = value_of[done : done + len(some)]
        up[done : done + len(some)] = some < cut_of[here]
        for tie in np.flatnonzero(some == cut_of[here]):
            more = words.extension(start + done + int(tie))
            up[done + tie] = _below(rests[here[tie]], found.denominator, more)
        done += len(some)
    return up.reshape(found.value_of.shape)


def _below(rest: int, denominator: int, extension: Iterator[int]) -> bool:
    """Whether a uniform number with these words as digits is below rest / denominator."""
    while rest:
        cut, rest = divmod(rest << 64, denominator)
        word = next(extension)
        if word != cut:
            return word < cut
    return False


def up_by_keys(found: Parts, keys: NDArray[np.uint64]) -> Flags:
    """Which cells go up: those with key d < R 2^64, so that the same key always does the same.

    Of the 2^64 keys a whole number lets a cell go up: its probability is f to within 2^-64.
    """
    if found.denominator > WORD:
        raise ConfigError(
            "rounding",
            place="weight",
            found=f"a base times a denominator of {found.denominator}",
            expected="at most 2^64, the number of keys",
        )
    cuts = [-(-(remainder << 64) // found.denominator) for remainder in found.remainders]
    return np.asarray(keys < np.array(cuts, dtype=np.uint64)[found.value_of], dtype=bool)
