"""What is measured of a release: errors by level, what is proven, and what is likely.

A release that shows less than counts is read by estimate: the finest table that has the attributes,
areas divided by published totals of leaves, withheld cells by what is left of their row, evenly.

*Proven* is the audit of coarsening, also of tables that are suppressed or rounded. Where chance
decides nothing is the same in all worlds, so nothing is proven. *Claimed*: the release gives one
secret ``SURE`` of the people of a leaf and key, and it is not the leaf's most frequent one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.comparison.cases import Released
from headcount.mechanisms.coarsening.audit import audit
from headcount.mechanisms.coarsening.worlds import worlds_of
from headcount.release import Release, TablesRelease
from headcount.release.readers_estimate import readers_estimate
from headcount_papers.without_noise.people import People
from headcount_papers.without_noise.settings import SURE

PIVOTS, SWEEPS, NEAR = 5_000, 60, 0.2
"""Of programs of an audit; of a reader's estimate, and how near its sums come, in people."""
KNOWN, SECRET = "known", "race and origin"


def codes_of(people: People, names: Any) -> Ints:
    """For each cell of the schema the number of its combination of some attributes."""
    schema = people.counts.schema
    levels = np.indices(schema.shape).reshape(len(schema.names), -1)
    number = np.zeros(levels.shape[1], dtype=np.int64)
    for name in names:
        at = schema.names.index(name)
        number = number * schema.shape[at] + levels[at]
    return number


def estimate(release: Release, people: People) -> Any:
    """Counts by leaf and cell that a reader may put in the place of a release: sparse."""
    if isinstance(release, TablesRelease):
        found = readers_estimate(release, people.counts.domain, sweeps=SWEEPS, near=NEAR)
        return found.table(people.counts.geography.leaf)
    return release.as_counts().table(people.counts.geography.leaf)


def by(table: Any, code: Ints) -> Any:
    """Cells gathered by a code."""
    from scipy.sparse import csr_array

    ones = np.ones(len(code))
    up = csr_array((ones, (np.arange(len(code)), code)), shape=(len(code), int(code.max()) + 1))
    return csr_array(table @ up)


def errors(one: Released, people: People, read: Any) -> pl.DataFrame:
    """Sum of what counts are off at each level, in per cent of people."""
    geography, rows = people.counts.geography, []
    everybody = max(1, int(people.counts.totals().sum()))
    for counted, names in ((KNOWN, people.known), (SECRET, people.secret)):
        code = codes_of(people, names)
        off = (by(read, code) - by(people.counts.matrix, code)).toarray()
        for level in geography.levels[1:]:
            above: Floats = np.zeros((geography.size(level), off.shape[1]))
            np.add.at(above, geography.ancestors(level), off)
            percent = 100 * float(np.abs(above).sum()) / everybody
            rows.append({"counted": counted, "level": level, "percent": percent})
    return pl.DataFrame(rows)


def proven(one: Released, people: People, read: Any) -> pl.DataFrame:
    """People whose secret is proven, likely claims with how many are right, and guesses."""
    counts = people.counts
    truth = _Held(people, counts.matrix)
    row: dict[str, Any] = {
        "people": truth.people,
        "unlike": int(truth.many[~truth.majority].sum()),
        **_audited(one, people),
        **_claimed(truth, _Held(people, read)),
    }
    return pl.DataFrame([row], schema=PROVEN)


PROVEN: Mapping[str, Any] = {
    "people": pl.Int64,
    "unlike": pl.Int64,
    "all_percent": pl.Float64,
    "unlike_percent": pl.Float64,
    "undecided_percent": pl.Float64,
    "claimed": pl.Float64,
    "claimed_right": pl.Float64,
    "guess_percent": pl.Float64,
}


def _audited(one: Released, people: People) -> dict[str, Any]:
    if one.case.columns["family"] in ("swapping", "topdown"):
        return {"all_percent": None, "unlike_percent": None, "undecided_percent": None}
    release, counts = one.release, people.counts
    if isinstance(release, TablesRelease):
        from dataclasses import replace

        laid = replace(counts, domain=replace(counts.domain, geography=release.geography))
        worlds = worlds_of(laid, release.published, people.known, people.secret)
        # Of ranges nearly all is decided by zeros and moves; programs would take minutes.
        exact = all(one.off is None and not one.withheld.any() for one in release.published)
        found = audit(worlds, insiders=False, pivots=PIVOTS if exact else -1)
        share = 100 / max(1, found.people)
        return {
            "all_percent": share * found.proven,
            "unlike_percent": 100 * found.proven_unlike / max(1, found.unlike),
            "undecided_percent": share * found.undecided,
        }
    truth = _Held(people, counts.matrix)
    alone = truth.alone
    unlike = truth.many[~truth.majority]
    return {
        "all_percent": 100 * float(truth.many[alone].sum()) / max(1, truth.people),
        "unlike_percent": 100
        * float(truth.many[alone & ~truth.majority].sum())
        / max(1.0, float(unlike.sum())),
        "undecided_percent": 0.0,
    }


class _Held:
    """People by leaf, key and secret, of those combinations that are not empty."""

    def __init__(self, people: People, table: Any) -> None:
        key, secret = codes_of(people, people.known), codes_of(people, people.secret)
        self.size = int(secret.max()) + 1
        keys = int(key.max()) + 1
        entries = by(table, key * self.size + secret).tocoo()
        leaf, code = (one.astype(np.int64) for one in entries.coords)
        there = entries.data > 0
        self.leaf, self.many = leaf[there], entries.data[there].astype(np.float64)
        self.secret = code[there] % self.size
        self.place = self.leaf * keys + code[there] // self.size
        self.people = round(float(self.many.sum()))
        self.modal = _most(self.leaf, self.secret, self.many, self.size)
        self.majority = self.modal[self.leaf] == self.secret

    @property
    def alone(self) -> Any:
        """Whether all of a leaf and key have the one secret."""
        _, back, kinds = np.unique(self.place, return_inverse=True, return_counts=True)
        return kinds[back] == 1


def _most(leaf: Ints, secret: Ints, many: Floats, size: int) -> Ints:
    """The most frequent secret of each leaf, the first of equals; -1 where nobody lives."""
    code, back = np.unique(leaf * size + secret, return_inverse=True)
    total = np.bincount(back, weights=many)
    order = np.lexsort((code, -total, code // size))
    first = order[np.flatnonzero(np.diff(code[order] // size, prepend=-1))]
    found = np.full(int(leaf.max(initial=-1)) + 1, -1, dtype=np.int64)
    found[code[first] // size] = code[first] % size
    return found


def _claimed(truth: _Held, read: _Held) -> dict[str, float]:
    """Claims about people of a leaf and key by what a release gives their likeliest secret."""
    places, back = np.unique(read.place, return_inverse=True)
    order = np.lexsort((read.secret, -read.many, read.place))
    best = order[np.flatnonzero(np.diff(read.place[order], prepend=-1))]
    total = np.bincount(back, weights=read.many)
    sure = read.many[best] >= SURE * total
    sure &= read.secret[best] != read.modal[read.leaf[best]]
    spot = np.minimum(np.searchsorted(places, truth.place), max(0, len(places) - 1))
    known = places[spot] == truth.place if len(places) else np.zeros(len(truth.place), dtype=bool)
    said = known & sure[spot]
    right = read.secret[best[spot]] == truth.secret
    unlike = ~truth.majority
    guess = truth.many[known & right & unlike].sum() / max(1.0, truth.many[unlike].sum())
    return {
        "claimed": float(truth.many[said].sum()),
        "claimed_right": float(truth.many[said & right].sum()),
        "guess_percent": 100 * float(guess),
    }
