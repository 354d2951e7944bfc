"""Truth plus noise on every cell of a level: at once, or in ranges of units that an engine maps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Ints
from headcount.engines.protocol import Engine
from headcount.noise import Law, Noise, Stream
from headcount.tabulate import CELLS, Counts

DRAWN_AT_ONCE = 1 << 20
"""Scalars of noise held at once where many draws are added up."""
PIECE = 1 << 22
"""Scalars of a range of units: smaller tables are made at once."""


def noisy_cells(
    counts: Counts, noise: Noise, law: Law, *, runs: range, engine: Engine, times: int = 1
) -> Ints:
    """Runs x units x cells: truth plus noise on every possible cell, zeros included.

    Structural zeros stay 0 because everyone knows them. With ``times`` each is the sum of so many
    noisy answers. Noise is a function of its address, so that ranges give what the whole gives.
    """
    wanted = NoisyCells(counts, noise, law, runs, times)
    units, cells = counts.geography.size(counts.level), counts.schema.size
    step = max(1, PIECE // (cells * len(runs)))
    if units <= step:
        return wanted.whole()
    ranges = [range(start, min(start + step, units)) for start in range(0, units, step)]
    answers = np.empty((len(runs), units, cells), dtype=np.int64)
    for some, part in zip(ranges, engine.map(wanted.of_units, ranges), strict=True):
        answers[:, some.start : some.stop] = part
    return answers


def cell_stream(counts: Counts) -> Stream:
    """The stream that feeds every unit x cell of the public domain at the counts' level."""
    size = counts.geography.size(counts.level) * counts.schema.size
    return Stream(level=counts.level, query=CELLS, size=size)


@dataclass(frozen=True, eq=False, repr=False)
class NoisyCells:
    """What is measured, and with what noise; see ``noisy_cells``."""

    counts: Counts
    noise: Noise
    law: Law
    runs: range
    times: int

    def whole(self) -> Ints:
        """The answers of all units: neighbouring draws are drawn together."""
        stream = cell_stream(self.counts)
        if self.times == 1:
            drawn = self.noise.draw(stream, self.law, draws=self.runs)
        else:
            drawn = np.stack([self._summed(stream, run) for run in self.runs])
        truth = self.counts.dense()
        answers = drawn.reshape(len(drawn), *truth.shape)
        answers *= self.counts.schema.possible
        answers += self.times * truth
        return answers

    def of_units(self, units: range) -> Ints:
        """The answers of some units."""
        cells, stream = self.counts.schema.size, cell_stream(self.counts)
        at = range(units.start * cells, units.stop * cells)
        truth = self.counts.matrix[units.start : units.stop].toarray().astype(np.int64)
        answers = np.zeros((len(self.runs), *truth.shape), dtype=np.int64)
        for own, run in zip(answers, self.runs, strict=True):
            for draw in range(run * self.times, (run + 1) * self.times):
                drawn = self.noise.draw_at(stream, self.law, draw=draw, index=at)
                own += drawn.reshape(truth.shape)
        answers *= self.counts.schema.possible
        answers += self.times * truth
        return answers

    def _summed(self, stream: Stream, run: int) -> Ints:
        """The sum of the draws of a run, in pieces: memory does not grow with them."""
        total = np.zeros(stream.size, dtype=np.int64)
        draws = range(run * self.times, (run + 1) * self.times)
        at_once = max(1, DRAWN_AT_ONCE // stream.size)
        for start in range(draws.start, draws.stop, at_once):
            some = range(start, min(start + at_once, draws.stop))
            total += self.noise.draw(stream, self.law, draws=some).sum(axis=0)
        return total
