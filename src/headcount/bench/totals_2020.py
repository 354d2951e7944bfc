"""Are totals as near to the truth as their own answers make them?

In the redistricting product of 2020 the total of a county, tract or block group is fitted before
everything else, so that its error is that of its own answer. Fitted together with the other
queries it is pulled by hundreds of noisy cells that cannot be negative.

The benchmark asks it of the made-up nation along a spine; ``redistricting_2020`` of real tracts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.bench.figures import Reading
from headcount.bench.nation_people import SEED, nation_2020
from headcount.bench.nation_spine import along_made_up_spine
from headcount.bench.product_2020 import BY_CELLS, CONTROLS, preset_2020
from headcount.geography import Geography
from headcount.mechanisms import protect
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.mechanisms.topdown.planned import planned_noise
from headcount.schema import Schema
from headcount.tabulate import Counts, Tabulated

LEVELS = ("county", "tract", "block_group")
TOTAL = "total"
QUICK = {"share": 0.004, "replicates": 1}
NEAR, STANDARD_ERRORS = 0.10, 2.5
"""How far an error may be from that of the answer: a part of it, or so many standard errors."""


def measure(*, share: float = 0.01, replicates: int = 4) -> list[Reading]:
    """The nation with the preset of 2020, and with the same in one pass, so many times each.

    Both ways of one pass are shown; rounded by cells, it must not keep the check of totals.
    """
    counts = along_made_up_spine(nation_2020(share, seed=SEED), seed=SEED)
    data, preset = Tabulated.of(counts), preset_2020()
    owned = own_totals(preset, counts.schema, counts.geography)

    def runs(mechanism: TopDown) -> list[Ints]:
        return [_leaf_errors(data, mechanism, seed=seed) for seed in range(replicates)]

    two, controls = runs(preset), {name: runs(made(preset)) for name, made in CONTROLS.items()}
    return [
        Reading("people", int(counts.matrix.sum()), "people", f"{len(two[0]):,} blocks"),
        *(found.reading() for found in totals_errors(owned, two)),
        *(
            Reading(f"{found.level} totals, {name}", found.error, "people", f"own {found.own:.2f}")
            for name, errors in controls.items()
            for found in totals_errors(owned, errors)
        ),
        one_pass_must_fail(totals_errors(owned, controls[BY_CELLS])),
        *_blocks(counts, {"two passes": two, **controls}),
    ]


def _leaf_errors(data: Tabulated, mechanism: TopDown, *, seed: int) -> Ints:
    """Released less true people of every leaf."""
    released = protect(data, mechanism, seed=seed).as_counts().tables[data.counts.geography.leaf]
    return np.asarray(released.sum(axis=1), dtype=np.int64).reshape(-1) - data.counts.totals()


def _blocks(counts: Counts, made: Mapping[str, Sequence[Ints]]) -> list[Reading]:
    """Errors of block totals, and their bias where the most kinds of people live."""
    kinds = np.diff(counts.matrix.indptr)
    populated = np.flatnonzero(kinds)
    diverse = populated[np.argsort(-kinds[populated], kind="stable")][: len(populated) // 5]
    readings = []
    for name, runs in made.items():
        error = np.stack(runs)
        bias = error[:, diverse].mean(axis=1)
        readings += [
            Reading(
                f"block totals, {name}: root mean square error", root_mean_square(error), "people"
            ),
            Reading(
                f"most diverse fifth of blocks, {name}: bias",
                float(bias.mean()),
                "people",
                f"runs {bias.min():.2f} to {bias.max():.2f}; {len(diverse):,} blocks",
            ),
        ]
    return readings


@dataclass(frozen=True, eq=False)
class OwnTotals:
    """Units of a level of the measured tree that have its own share, and their answers' error.

    where
        unit    for each leaf of the published tree its unit of the level
        ours    which of the level's units have the level's share, no more and no less
        sd      standard deviation of the answer to their total
    """

    level: str
    unit: Ints
    ours: Flags
    sd: float

    def errors(self, error: Ints) -> Ints:
        """Errors of leaves added up to these units."""
        return np.bincount(self.unit, error, minlength=len(self.ours))[self.ours].astype(np.int64)


def own_totals(
    mechanism: TopDown,
    schema: Schema,
    geography: Geography,
    *,
    levels: Sequence[str] = LEVELS,
) -> list[OwnTotals]:
    """Units of the measured tree whose share was not moved."""
    tree, found = mechanism.tree(geography), []
    planned = planned_noise(mechanism, schema, tree)
    shares = mechanism.unit_shares(tree)
    order = geography.along_spine if mechanism.spine else np.arange(tree.size(tree.leaf))
    for level in levels:
        unit = np.empty(len(order), dtype=np.int64)
        unit[order] = tree.ancestors(level)
        ours = np.ones(tree.size(level), dtype=bool)
        if shares is not None:
            ours = shares.classes(level)[1] == 1
        law = planned[level, TOTAL].law
        assert law is not None
        found.append(OwnTotals(level, unit, ours, sqrt(law.variance)))
    return found


@dataclass(frozen=True)
class TotalsError:
    """The root mean square error of totals of a level, over units and runs, beside the answer's."""

    level: str
    error: float
    own: float
    units: int
    runs: int

    @property
    def away(self) -> float:
        """How far it is from that of the answer, as a part of it."""
        return abs(self.error / self.own - 1)

    @property
    def allowed(self) -> float:
        """A tenth, or what chance explains: the standard error of an error is own / sqrt(2 n)."""
        return max(NEAR, STANDARD_ERRORS / sqrt(2 * self.units * self.runs))

    @property
    def kept(self) -> bool:
        """Whether it is as near as it must be."""
        return self.away <= self.allowed

    def reading(self) -> Reading:
        """As a figure with its limit."""
        return Reading(
            f"{self.level} totals beside their own answers: root mean square error",
            100 * self.away,
            "% away",
            f"{self.error:.2f} against {self.own:.2f}; {self.units:,} units, {self.runs} runs",
            at_most=100 * self.allowed,
        )


def totals_errors(owned: Iterable[OwnTotals], runs: Sequence[Ints]) -> list[TotalsError]:
    """What runs, each with the errors of all leaves, come to at each level with such units."""
    return [
        TotalsError(
            one.level,
            root_mean_square(np.concatenate([one.errors(error) for error in runs])),
            one.sd,
            int(one.ours.sum()),
            len(runs),
        )
        for one in owned
        if one.ours.any()
    ]


def one_pass_must_fail(found: Sequence[TotalsError]) -> Reading:
    """The same program without passes, which must not keep the check at all levels."""
    said = ", ".join(f"{one.level} {one.error:.2f} against {one.own:.2f}" for one in found)
    return Reading(
        "with one pass: levels whose totals are as near",
        sum(one.kept for one in found),
        f"of {len(found)}",
        f"must be fewer than all: {said}",
        at_most=len(found) - 1,
    )


def root_mean_square(error: Ints | Floats) -> float:
    """sqrt(mean of squares)."""
    return float(np.sqrt(np.mean(np.square(error, dtype=np.float64))))
