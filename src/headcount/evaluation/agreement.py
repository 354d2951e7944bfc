"""How many records of a release or a reconstruction are those of real people, block by block.

Two passes, one to one and without replacement within a block: first {sex, age, race, Hispanic
origin}, then, of what is left on both sides, the same with the age bin. Such matching needs no
search: the number of pairs is a sum of smaller counts,

    exact = sum min(a, b) over blocks and cells,    binned = sum min(A, B)

where
    a, b   records and people of a block and cell
    A, B   the same with years of age gathered into bins (pass 1 and pass 2 together)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.attacks.records import Records
from headcount.errors import InputError
from headcount.evaluation.reidentified import ALL, SIZES, size_labels


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Records that agree with the truth, in blocks of one class of population.

    ``exact`` and ``binned`` are numbers of records; binned includes exact.
    """

    blocks: str
    people: int
    records: int
    exact: int
    binned: int

    @property
    def exact_percent(self) -> float:
        """In percent of the people in truth."""
        return 100 * self.exact / self.people if self.people else float("nan")

    @property
    def binned_percent(self) -> float:
        """In percent of the people in truth."""
        return 100 * self.binned / self.people if self.people else float("nan")


def agreement(records: Records, truth: Records, *, blocks: int) -> Mapping[str, Agreement]:
    """Agreement in all blocks and by their population in truth."""
    if records.features.schema != truth.features.schema:
        raise InputError(
            "agreement", found="records on another schema", expected="the schema of the truth"
        )
    exact = _common(records, truth, blocks, binned=False)
    binned = _common(records, truth, blocks, binned=True)
    people = np.bincount(truth.block, minlength=blocks)
    found = np.bincount(records.block, minlength=blocks)
    return {
        label: Agreement(
            blocks=label,
            people=int(people[which].sum()),
            records=int(found[which].sum()),
            exact=int(exact[which].sum()),
            binned=int(binned[which].sum()),
        )
        for label, which in by_size(people).items()
    }


def by_size(people: Ints) -> Mapping[str, Flags]:
    """All blocks, and those of each class of population, by their people in truth."""
    inside: dict[str, Flags] = {ALL: np.ones(len(people), dtype=bool)}
    for number, label in enumerate(size_labels()):
        inside[label] = np.searchsorted(SIZES, people, side="right") == number + 1
    return inside


def _common(records: Records, truth: Records, blocks: int, *, binned: bool) -> Ints:
    """Pairs in each block: the smaller of the two counts of every combination."""
    features = truth.features
    size = (features.bins if binned else len(features.binned)) * features.secrets
    tallies = []
    for rows in (records, truth):
        key = rows.binned if binned else rows.key
        tallies.append(
            np.unique(rows.block * size + key * features.secrets + rows.secret, return_counts=True)
        )
    (a, times_a), (b, times_b) = tallies
    both, in_a, in_b = np.intersect1d(a, b, assume_unique=True, return_indices=True)
    pairs = np.minimum(times_a[in_a], times_b[in_b])
    return np.bincount(both // size, weights=pairs, minlength=blocks).astype(np.int64)
