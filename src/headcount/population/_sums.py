"""Numbers added up by key, a batch at a time, in memory of the order of the distinct keys."""

from __future__ import annotations

import numpy as np

from headcount.arrays import Ints


class SumsByKey:
    """Sums of whole numbers, one for each key.

    New numbers are collected, and merged into the sums once there are as many of them as keys. So
    each is sorted a few times only, however many batches there are.
    """

    def __init__(self) -> None:
        self.people = 0.0
        self._key, self._many = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self._waiting: list[tuple[Ints, Ints]] = []
        self._entries = 0

    def add(self, key: Ints, many: Ints) -> None:
        """Add numbers, one for each key; a key may stand there more than once."""
        self.people += float(many.sum(dtype=np.float64))
        self._waiting.append((key, many))
        self._entries += len(key)
        if self._entries > max(len(self._key), 1 << 20):
            self._sort()

    def result(self) -> tuple[Ints, Ints]:
        """The keys in order, and the sums; keys whose sum is 0 are left out."""
        self._sort()
        some = self._many != 0
        return (self._key, self._many) if some.all() else (self._key[some], self._many[some])

    def _sort(self) -> None:
        if not self._waiting:
            return
        key = np.concatenate([self._key, *(key for key, _ in self._waiting)])
        many = np.concatenate([self._many, *(many for _, many in self._waiting)])
        order = np.argsort(key, kind="stable")
        key, many = key[order], many[order]
        first = np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])
        self._key, self._waiting, self._entries = key[first], [], 0
        self._many = np.add.reduceat(many, first) if len(first) else many
