"""Witnesses: tables that agree with all that is published, kept as what they change."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.files import write_bytes_atomic

WITNESSES = "witnesses.parquet"
"""The file of them, in the curator's folder: they tell the truth."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Witnesses:
    """Whole tables other than the truth, each by its differences from the truth.

    where
        start    first difference of each witness in ``cell`` and ``change``, and the end
        cell     cells that differ, witness after witness, each once in a witness
        change   by how much
    """

    start: Ints
    cell: Ints
    change: Ints

    @classmethod
    def of(cls, listed: Iterable[tuple[Ints, Ints]]) -> Witnesses:
        """From pairs of cells and changes."""
        pairs = list(listed)
        none = [np.empty(0, dtype=np.int64)]
        return cls(
            start=np.cumsum([0, *(len(cell) for cell, _ in pairs)], dtype=np.int64),
            cell=np.concatenate(none + [cell for cell, _ in pairs]),
            change=np.concatenate(none + [change for _, change in pairs]),
        )

    def __len__(self) -> int:
        return len(self.start) - 1

    def __iter__(self) -> Iterator[tuple[Ints, Ints]]:
        for first, end in zip(self.start[:-1], self.start[1:], strict=True):
            yield self.cell[first:end], self.change[first:end]

    def __repr__(self) -> str:
        return f"<Witnesses {len(self):,} tables, {len(self.cell):,} differences>"


def write_witnesses(path: Path, found: Sequence[Witnesses]) -> None:
    """Keep the witnesses of each group of tables; they tell the truth, so only the curator's."""
    frames = [
        pl.DataFrame(
            {
                "group": np.full(len(one.cell), number, dtype=np.int64),
                "witness": np.repeat(np.arange(len(one)), np.diff(one.start)),
                "cell": one.cell,
                "change": one.change,
            }
        )
        for number, one in enumerate(found)
    ]
    content = io.BytesIO()
    pl.concat(frames).write_parquet(content)
    write_bytes_atomic(path, content.getvalue())


def read_witnesses(path: Path, *, groups: int) -> tuple[Witnesses, ...]:
    """The witnesses of each group of tables."""
    frame = pl.read_parquet(path, glob=False)
    read = []
    for number in range(groups):
        own = frame.filter(group=number)
        many = np.bincount(own["witness"].to_numpy())
        read.append(
            Witnesses(
                start=np.concatenate([[0], np.cumsum(many)]).astype(np.int64),
                cell=own["cell"].to_numpy(),
                change=own["change"].to_numpy(),
            )
        )
    return tuple(read)
