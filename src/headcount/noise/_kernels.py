"""The compiled loops of the samplers: integers only. Import this module late: it loads numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints, Ints32
from headcount.compiled import kernel


@kernel(work=lambda words, *_: 3 * words.size)
def lookup(
    words: NDArray[np.uint64],
    drop: np.uint64,
    thresholds: NDArray[np.uint64],
    guide: Ints32,
    shift: np.uint64,
    out: Ints,
    undecided: Ints,
) -> int:
    """Invert one word for each draw; returns how many were undecided and lists their positions.

    A word, cut to its top 64 - drop bits, is u (all but the lowest bit) and a sign. The magnitude
    is the number of thresholds below u, unless a threshold equals u. ``guide[b]`` is the number
    of thresholds below bin b of u, stored as its complement (negative) if bin b holds one.
    """
    one = np.uint64(1)
    found = 0
    for i in range(words.size):
        word = words[i] >> drop
        u = word >> one
        b = u >> shift
        k = np.int64(guide[b])
        if k < 0:
            k = ~k
            high = np.int64(guide[b + one])
            if high < 0:
                high = ~high
            while k < high:
                middle = (k + high) >> 1
                if thresholds[middle] < u:
                    k = middle + 1
                else:
                    high = middle
            if thresholds[k] == u:
                undecided[found] = i
                found += 1
        sign = np.int64(word & one)
        out[i] = (k ^ -sign) + sign
    return found


@kernel(work=lambda index, *_: 8 * index.size)
def counters(index: Ints, base: int, size: int, blocks: NDArray[np.uint64]) -> bool:
    """Fill blocks with the big-endian 128-bit counters that hold words base + index."""
    byte = np.uint64(0xFF)
    eight = np.uint64(8)
    for i in range(index.size):
        if index[i] < 0 or index[i] >= size:
            return False
        block = np.uint64((base + index[i]) >> 1)
        swapped = np.uint64(0)
        for _ in range(8):
            swapped = (swapped << eight) | (block & byte)
            block >>= eight
        blocks[2 * i] = np.uint64(0)
        blocks[2 * i + 1] = swapped
    return True


@kernel
def pick(blocks: NDArray[np.uint64], index: Ints, base: int, words: NDArray[np.uint64]) -> None:
    """Take from each two-word block the word that base + index names."""
    for i in range(index.size):
        words[i] = blocks[2 * i + ((base + index[i]) & 1)]
