"""Draws that are the same in every version of numpy.

Numpy may change what a ``Generator`` makes of its bits, and in 2.5 it did: a mended sign in
``binomial``, and so in ``multinomial``, which calls it. It promises the bits themselves, and all
that ``RandomState`` makes of them
(https://numpy.org/neps/nep-0019-rng-policy.html). These functions use that promise, on the
generator's own bits, and give what ``Generator`` gave before 2.5. The old sign moves probabilities
by less than any study here can see; whoever draws noise for a release does not come here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Ints


def binomial(
    rng: np.random.Generator, n: ArrayLike, p: ArrayLike, size: tuple[int, ...] | None = None
) -> Ints:
    """Successes in ``n`` trials of probability ``p``, element by element."""
    shape = np.broadcast_shapes(np.shape(n), np.shape(p)) if size is None else size
    trials, chance = np.broadcast_to(n, shape), np.broadcast_to(p, shape)
    drawn = np.zeros(shape, dtype=np.int64)
    open_ = (trials > 0) & (chance > 0)  # a Generator takes no bits for the others
    frozen = np.random.RandomState(rng.bit_generator)
    drawn[open_] = frozen.binomial(trials[open_], chance[open_])
    return drawn


def multinomial(rng: np.random.Generator, n: ArrayLike, p: ArrayLike) -> Ints:
    """``n`` people over cells of probabilities ``p``; with several rows, row by row."""
    people, chances = np.atleast_1d(n), np.atleast_2d(np.asarray(p, dtype=np.float64))
    if (chances < 0).any() or (np.abs(chances.sum(axis=1) - 1) > 1e-9).any():
        raise ValueError("probabilities of a multinomial must be 0 or more and add to 1")
    rows = np.broadcast_shapes(people.shape, chances.shape[:1])
    drawn = np.zeros((*rows, chances.shape[1]), dtype=np.int64)
    frozen = np.random.RandomState(rng.bit_generator)
    # Of no people and for a cell without a chance old versions take no bits, but new ones do: leave
    # both out. The last cell takes none in any version, and the one before must not become it.
    open_ = np.broadcast_to(chances > 0, drawn.shape).copy()
    open_[:, -1] = True
    if len(chances) == 1 and people.size and people[0] > 0 and (people == people[0]).all():
        drawn[:, open_[0]] = frozen.multinomial(people[0], chances[0, open_[0]], size=rows)
    else:
        chances, people = np.broadcast_to(chances, drawn.shape), np.broadcast_to(people, rows)
        for row in np.flatnonzero(people).tolist():
            here = open_[row]
            drawn[row, here] = frozen.multinomial(people[row], chances[row, here])
    return drawn if np.ndim(n) or np.ndim(p) > 1 else drawn[0]
