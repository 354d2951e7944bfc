"""What a mechanism is: counts and noise in, protected counts and a guarantee out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headcount.geography import Geography
from headcount.noise import Noise, Stream
from headcount.privacy import Guarantee
from headcount.release import Release
from headcount.schema import Schema
from headcount.tabulate import CELLS, Counts

Runs = NDArray[np.int64] | NDArray[np.float64]
"""Protected counts of several runs: runs x units x cells."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a mechanism made: protected counts per published level, and facts for the receipt."""

    tables: Mapping[str, Runs]
    notes: Mapping[str, int | str] = field(default_factory=dict)


class Mechanism(Protocol):
    """A way to protect counts. Parameters are frozen fields; ``repr`` makes it again."""

    @property
    def name(self) -> str:
        """The name used in configs, reports and noise streams."""

    def guarantee(self, schema: Schema, geography: Geography) -> Guarantee:
        """What a release of such counts promises."""

    def run(self, counts: Counts, noise: Noise, *, runs: range) -> Outcome:
        """Protect the leaf counts once for each run number; run r never reuses run s's noise."""


def protect(counts: Counts, mechanism: Mechanism, noise: Noise) -> Release:
    """Protect counts once: one run of the mechanism, with its guarantee completed.

    The guarantee lists what of the public domain was read off the data, and says that a seeded
    release is not private.
    """
    outcome = mechanism.run(counts, noise, runs=range(1))
    guarantee = mechanism.guarantee(counts.schema, counts.geography)
    return Release(
        schema=counts.schema,
        geography=counts.geography,
        mechanism=repr(mechanism),
        tables={level: runs[0] for level, runs in outcome.tables.items()},
        guarantee=guarantee.also_exact(*counts.read_off),
        key_kind=noise.key_kind,
        backend=noise.backend,
        notes=outcome.notes,
    )


def cell_stream(counts: Counts) -> Stream:
    """The stream that feeds every unit x cell of the public domain at the counts' level."""
    size = counts.geography.size(counts.level) * counts.schema.size
    return Stream(level=counts.level, query=CELLS, size=size)


def noisy(counts: Counts, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
    """Truth plus noise for each run: on every possible cell, zeros included.

    Structural zeros stay 0 because everyone knows them.
    """
    truth = counts.dense()
    answers = drawn.reshape(len(drawn), *truth.shape)
    answers *= counts.schema.possible
    answers += truth
    return answers
