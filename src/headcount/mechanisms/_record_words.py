"""Words of 64 bits, and the sums of words that are cell keys.

The key of a cell is the sum, modulo 2^64, of the words of its people. Sums of uniform words are
uniform, and those of disjoint sets of people are independent. Where persons have words of their own
(``population.record_keys``) these are added up. Else one word for each leaf unit and cell where
somebody is gives all published cells the same joint law, as long as

    every published cell is a union of leaf cells, and
    the people of each leaf cell are always the same.

The first holds for every table of a schema's attributes; the second is what key files are bound to
(``_key_file``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headcount.mechanisms._key_file import AT_ONCE, KeySecret, WordArray, sorted_matrix
from headcount.tabulate import Counts
from headcount.tabulate.counts import adder
from headcount.tabulate.published import TableCells


@dataclass(frozen=True, eq=False, repr=False)
class CellWords:
    """Words of the leaf cells where somebody is (leaf units x cells), and keys of tables."""

    counts: Counts
    matrix: Any
    above: dict[str, CellWords] = field(default_factory=dict)

    @classmethod
    def of(cls, counts: Counts, secret: KeySecret) -> CellWords:
        """Sums of persons' words; without them word i of a stream is that of unit and cell i."""
        if (records := counts.records) is not None:
            return cls(counts, records.sums(secret.words_of_persons(records.keys)))
        matrix = sorted_matrix(counts)
        size = matrix.shape[0] * matrix.shape[1]
        row = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
        index = row * matrix.shape[1] + matrix.indices
        words, stream = np.empty(len(index), dtype=np.uint64), secret.words("record keys")
        for start in range(0, len(index), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            words[some] = stream.at(index[some], 0, size)
        return cls(counts, _matrix(words, matrix))

    def at(self, level: str) -> CellWords:
        """The words added up to a level at or above this one; sums wrap modulo 2^64."""
        if level == self.counts.level:
            return self
        if level not in self.above:
            up = adder(self.counts.geography, level, of=self.counts.level)
            added = _ones(up) @ self.matrix
            self.above[level] = CellWords(self.counts.at(level), added.tocsr())
        return self.above[level]

    def keys(self, cells: TableCells) -> WordArray:
        """The key of each cell of a table (units x cells); 0 where nobody is."""
        # A person whom a table counts twice, by two races, is one person of its total.
        return np.asarray((self.matrix @ _ones(cells.matrix)).toarray(), dtype=np.uint64)


def _ones(matrix: Any) -> Any:
    """Where a matrix is not 0, in the type of words: with integers sums would become floats."""
    from scipy.sparse import csr_array

    kept = csr_array(matrix != 0)
    return _matrix(np.ones(kept.nnz, dtype=np.uint64), kept)


def _matrix(values: WordArray, like: Any) -> Any:
    from scipy.sparse import csr_array

    return csr_array((values, like.indices, like.indptr), shape=like.shape)
