"""What the mechanisms with one epsilon and geometric noise have in common."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar, TypedDict

import numpy as np

from headcount.arrays import Ints
from headcount.domain import Domain
from headcount.engines import Engine
from headcount.fields import Positive
from headcount.mechanisms._base import PostTabular
from headcount.mechanisms._measured import (
    Neighbours,
    PlannedMeasurement,
    guarantee_of,
    law_of_all,
    refuse_housemates,
)
from headcount.noise import Law, Noise, Stream
from headcount.privacy import Guarantee
from headcount.privacy.loss import positive
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
    wanted = _NoisyCells(counts, noise, law, runs, times)
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
class _NoisyCells:
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


@dataclass(frozen=True, kw_only=True, repr=False)
class Noisy(Neighbours, PostTabular):
    """A loss of ``epsilon`` under a unit of privacy, spent on measurements of one rate.

    where
        epsilon   the loss under the unit of privacy: an exact number

    A mechanism says in ``on`` what it measures; the plan has the rate at which all of it costs
    epsilon (``planned``).
    """

    epsilon: Positive
    name: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, name=f"{self.name}: epsilon"))
        for key, value in vars(self.checked(name=self.name)).items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        # Epsilon and its unit always, other parameters where they are not the default.
        shown = {"epsilon": self.epsilon, "unit": self.unit}
        for field in fields(self):
            if (value := getattr(self, field.name)) != field.default:
                shown.setdefault(field.name, value)
        said = ", ".join(f"{key}={value!r}" for key, value in shown.items())
        return f"{type(self).__name__}({said})"

    def planned(self, domain: Domain, *measures: PlannedMeasurement) -> _Promised:
        """Measurements at the one rate at which together they cost epsilon, for the design.

        The guarantee has epsilon under the chosen unit, and what the same noise costs under the
        other.
        """
        refuse_housemates(domain.schema, self, name=self.name)
        law = law_of_all(self.epsilon, unit=self.unit, plan=measures, name=self.name)
        plan = tuple(replace(one, law=law) for one in measures)
        guarantee = guarantee_of(plan, first=self.unit).meaning(*self.statements(domain.schema))
        return _Promised(
            method=self, domain=domain, plan=plan, guarantee=guarantee, neighbours=self
        )


class _Promised(TypedDict):
    """What a design has of noise of one rate."""

    method: PostTabular
    domain: Domain
    plan: tuple[PlannedMeasurement, ...]
    guarantee: Guarantee
    neighbours: Neighbours
