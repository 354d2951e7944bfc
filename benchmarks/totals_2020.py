"""Are totals as near to the truth as their own answers make them?

In the redistricting product of 2020 the total of a county, tract or block group is fitted before
everything else, so that its error is that of its own answer. Fitted together with the other
queries it is pulled by hundreds of noisy cells that cannot be negative.

The benchmark asks it of the made-up nation along a spine; ``redistricting_2020`` of real tracts.
Block groups that took over the share of their only block are asked apart, because most have a
facility: how their tract bounds them is in ``totals_in_bounds``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from benchmarks.figures import Reading
from benchmarks.nation_people import SEED, nation_2020
from benchmarks.nation_spine import along_made_up_spine
from benchmarks.product_2020 import BY_CELLS, CONTROLS, preset_2020
from benchmarks.recheck import by_type
from benchmarks.totals_in_bounds import bounds_of_groups, squared_error_within
from headcount.arrays import Flags, Floats, Ints
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
FAR_WORSE = 1.2
"""How many times the error of the answers one pass must have, at every level of the nation."""
ROOM = 3.0
"""Bounds are far from a total from so many standard deviations of its answer on."""


def measure(*, share: float = 0.01, replicates: int = 4) -> list[Reading]:
    """The nation with the preset of 2020, and with the same in one pass, so many times each.

    Both ways of one pass are shown; rounded by cells, it must be far worse at every level.
    """
    counts = along_made_up_spine(nation_2020(share, seed=SEED), seed=SEED)
    data, preset = Tabulated.of(counts), preset_2020()
    owned = own_totals(preset, counts.schema, counts.geography)
    (moved,) = own_totals(preset, counts.schema, counts.geography, levels=LEVELS[-1:], more=1)

    def released(mechanism: TopDown) -> list[Ints]:
        return [_by_type(data, mechanism, seed=seed) for seed in range(replicates)]

    def errors(runs: Sequence[Ints]) -> list[Ints]:
        return [people.sum(axis=1) - counts.totals() for people in runs]

    people = released(preset)
    two = errors(people)
    controls = {name: errors(released(made(preset))) for name, made in CONTROLS.items()}
    return [
        Reading("people", int(counts.matrix.sum()), "people", f"{len(two[0]):,} blocks"),
        *(found.reading() for found in totals_errors(owned, two)),
        *moved_totals(counts, moved, people),
        *(
            Reading(f"{found.level} totals, {name}", found.error, "people", f"own {found.own:.2f}")
            for name, made in controls.items()
            for found in totals_errors(owned, made)
        ),
        one_pass_must_be_worse(totals_errors(owned, controls[BY_CELLS])),
        *_blocks(counts, {"two passes": two, **controls}),
    ]


def _by_type(data: Tabulated, mechanism: TopDown, *, seed: int) -> Ints:
    """Released people of every leaf by type of living quarters."""
    released = protect(data, mechanism, seed=seed).as_counts().tables[data.counts.geography.leaf]
    return by_type(released, types=len(data.counts.schema.attributes[0].levels))


def moved_totals(counts: Counts, moved: OwnTotals, runs: Sequence[Ints]) -> list[Reading]:
    """Totals of block groups with the share of their only block too.

    where
        moved   these block groups, and what their own answers give
        runs    released people of every leaf by type of living quarters
    """
    truth = moved.added_up(counts.totals())
    error = np.stack([moved.added_up(people.sum(axis=1)) - truth for people in runs])
    bounds = np.array([bounds_of_groups(counts, people) for people in runs])
    low, high = np.moveaxis(bounds[..., moved.ours], 1, 0) - truth
    expected = sqrt(squared_error_within(low, high, moved.sd).mean())
    room = (low <= -ROOM * moved.sd) & (high >= ROOM * moved.sd)
    name, answers = f"one-block {moved.level}", "their own answers"
    cut = TotalsError(
        name, root_mean_square(error), expected, len(truth), len(runs), f"{answers} cut at bounds"
    )
    found = [cut]
    if room.any():
        far, beside = root_mean_square(error[room]), f"{answers}, where bounds are far"
        units = ceil(room.sum() / len(runs))
        found += [TotalsError(name, far, moved.sd, units, len(runs), beside)]
    said = f"answers alone {moved.sd:.2f}; {(low > 0).mean():.0%} must be above the truth"
    bias = Reading(f"{name} totals: bias", float(error.mean()), "people", said)
    return [*(one.reading() for one in found), bias]


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
    """Units of a level of the measured tree that have one share, and their answers' error.

    where
        unit    for each leaf of the published tree its unit of the level
        ours    which of the level's units have that share, no more and no less
        sd      standard deviation of the answer to their total
    """

    level: str
    unit: Ints
    ours: Flags
    sd: float

    def added_up(self, leaves: Ints) -> Ints:
        """Counts, or errors, of leaves added up to these units."""
        return np.bincount(self.unit, leaves, minlength=len(self.ours))[self.ours].astype(np.int64)


def own_totals(
    mechanism: TopDown,
    schema: Schema,
    geography: Geography,
    *,
    levels: Sequence[str] = LEVELS,
    more: int = 0,
) -> list[OwnTotals]:
    """Units of the measured tree with their level's share, and with those of ``more`` levels below.

    With none, these are the units whose share was not moved.
    """
    tree, found = mechanism.tree(geography), []
    planned = planned_noise(mechanism, schema, tree)
    shares = mechanism.unit_shares(tree)
    order = geography.along_spine if mechanism.spine else np.arange(tree.size(tree.leaf))
    for level in levels:
        unit = np.empty(len(order), dtype=np.int64)
        unit[order] = tree.ancestors(level)
        noise, ours = planned[level, TOTAL], np.full(tree.size(level), more == 0)
        if shares is not None:
            ours = shares.classes(level)[1] == 1 + more
            own = noise.classes[1 + more]
            assert own is not None
            noise = own
        assert noise.law is not None
        found.append(OwnTotals(level, unit, ours, sqrt(noise.law.variance)))
    return found


@dataclass(frozen=True)
class TotalsError:
    """The root mean square error of totals of a level, over units and runs, beside the answer's."""

    level: str
    error: float
    own: float
    units: int
    runs: int
    beside: str = "their own answers"

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
            f"{self.level} totals beside {self.beside}: root mean square error",
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
            root_mean_square(np.concatenate([one.added_up(error) for error in runs])),
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


def one_pass_must_be_worse(found: Sequence[TotalsError]) -> Reading:
    """The same program without passes, whose totals must be far from their answers everywhere."""
    said = ", ".join(f"{one.level} {one.error / one.own:.2f} times" for one in found)
    return Reading(
        f"with one pass: levels whose totals have less than {FAR_WORSE} times their answers' error",
        sum(one.error < FAR_WORSE * one.own for one in found),
        f"of {len(found)}",
        said,
        at_most=0,
    )


def root_mean_square(error: Ints | Floats) -> float:
    """sqrt(mean of squares)."""
    return float(np.sqrt(np.mean(np.square(error, dtype=np.float64))))
