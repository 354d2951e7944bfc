"""Is a release as far off as was predicted before anything was spent?

Populations whose people are all known are protected many times. What was predicted by formula, or
by trials on people made of facts that could be public, stands beside the errors that were measured:
root mean square error, and within how many people 19 of 20 counts are. Facts are the sizes of
places with the whole by all attributes, or counts that drifted like those of an older census.

Controls must be rejected: people spread evenly over places, and the formula where tables are
sparse. With ``--dir`` every Parquet file of counts by group and age is a population too, and so is
that of every config.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from benchmarks.figures import Reading
from benchmarks.pool import files_in
from headcount.config.load import load_population
from headcount.domain import Domain
from headcount.geography import Geography
from headcount.geography.geography import regular
from headcount.mechanisms import Chain, Geometric, Mechanism, Sampling
from headcount.population import Population, uniform
from headcount.population.towns import Towns
from headcount.privacy import UnitOfPrivacy
from headcount.registry import MECHANISMS
from headcount.run.how_far_off import HowFarOff, Off, how_far_off
from headcount.run.public_facts import BEFORE_OFF, Facts, sizes_and_table
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts, Tabulated
from headcount.topdown.mechanism import TopDown

QUICK = {"replicates": 16}
SEED = 1000
SMALL = 30
"""Counts of fewer x releases than this x 100 are shown, but chance is too large to judge them."""
SIZES, BEFORE = "sizes and table", "before"
FILLED_LIMIT, SIZES_LIMIT, BEFORE_LIMIT, OUTSIDE_LIMIT = 5.0, 10.0, 10.0, 10.0
CONTROL = 12.0
"""Controls must be further off than this in the median, in %."""


@dataclass(frozen=True)
class Prediction:
    """One prediction beside what was measured.

    where
        kind   what it was predicted from
    """

    where: str
    kind: str
    predicted: Off
    measured: Off

    @property
    def off(self) -> float:
        """By how much the root mean square error was predicted wrongly, in %."""
        return 100 * abs(log((self.predicted.rmse or 1e-9) / (self.measured.rmse or 1e-9)))

    @property
    def near(self) -> bool:
        """Whether 19 of 20 are within what was said: to a person, or to a tenth."""
        said, found = self.predicted.within or 0.0, self.measured.within or 0.0
        return abs(said - found) <= max(1.0, 0.1 * found)

    @property
    def inside(self) -> bool:
        """Whether the measured error is in the stated interval."""
        low, high = self.predicted.low or 0.0, self.predicted.high or 0.0
        return low <= (self.measured.rmse or 0.0) <= high


def measure(*, replicates: int = 100, directory: Path | None = None) -> list[Reading]:
    """Predicted beside measured errors; medians with their limits."""
    found: list[Prediction] = []
    readings: list[Reading] = []
    for name, people in populations(directory):
        for method, mechanism in _methods(people.domain).items():
            those = list(_compared(f"{name}, {method}", people, mechanism, replicates))
            readings += _readings(those)
            found += those
    exact = replicates >= 100
    for kind, limit in (("formula", FILLED_LIMIT), (SIZES, SIZES_LIMIT), (BEFORE, BEFORE_LIMIT)):
        those = [one for one in found if one.kind == kind]
        off = float(np.median([one.off for one in those]))
        beyond = [one for one in those if one.off > limit]
        note = f"{len(those)} counts, {len(beyond)} further off than {limit:g} %"
        readings.append(Reading(f"{kind}: median off", off, "%", note, limit if exact else None))
        missed = 100 * float(np.mean([not one.inside for one in those]))
        most = OUTSIDE_LIMIT if exact and kind != "formula" else None
        readings.append(Reading(f"{kind}: outside the stated interval", missed, "%", at_most=most))
        within = 100 * float(np.mean([one.near for one in those]))
        readings.append(Reading(f"{kind}: 19 of 20 as near as the RMSE may be", within, "%"))
        for one in sorted(beyond, key=lambda one: -one.off) if kind == "formula" else ():
            readings.append(_reading(one))
    for kind in ("control: even", "control: formula where sparse"):
        off = float(np.median([one.off for one in found if one.kind == kind]))
        missing = Reading(f"{kind}: median off", off, "%", f"must be more than {CONTROL} %")
        readings += [missing, Reading(f"{kind}: rejected", CONTROL - off, "%", at_most=0.0)]
    return readings


def _readings(found: Sequence[Prediction]) -> Iterator[Reading]:
    """One for each kind of prediction of a method: the median, and the worst count in words."""
    for kind in ("formula", SIZES, BEFORE):
        those = [one for one in found if one.kind == kind]
        if those:
            worst = max(those, key=lambda one: one.off)
            off, inside = np.median([one.off for one in those]), sum(one.inside for one in those)
            near = sum(one.near for one in those)
            note = f"{len(those)} counts, {inside} inside, 19 of 20 near in {near}; worst "
            note += f"{_reading(worst).value:.0f} %: {_in_words(worst)}"
            yield Reading(f"{worst.where}, {kind}: median off", float(off), "%", note)


def _reading(one: Prediction) -> Reading:
    return Reading(f"{one.where}, {one.kind}", one.off, "%", _in_words(one))


def _in_words(one: Prediction) -> str:
    predicted, measured = one.predicted, one.measured
    return (
        f"{measured.level}.{measured.query} RMSE {predicted.rmse:.3g} for {measured.rmse:.3g}, "
        f"19 of 20 {predicted.within:.3g} for {measured.within:.3g}, of {measured.size:.3g} people"
    )


def populations(directory: Path | None) -> Iterator[tuple[str, Population]]:
    """Well filled ones, and sparse ones; those of a folder after them."""
    yield "uniform", uniform(people=200_000, depth=3, mean=59)
    yield "small table", _areas(30, 2_000, even=True, seed=1)
    yield "uneven areas", _areas(60, 400, even=False, seed=2)
    yield "towns", Towns(people=40_000, seed=3, attributes=("sex", "race", "hispanic")).read()
    yield "hamlets", _areas(900, 30, even=False, seed=4)
    yield "estates", Towns(people=20_000, seed=5, attributes=("tenure", "sex")).read()
    if directory is not None:
        configs = [one for one in directory.glob("*.toml") if "schema" not in one.suffixes[0]]
        for path in sorted(configs):
            yield path.stem, load_population(path).read()
        if any(directory.glob("*.parquet")):
            for name, counts in files_in(directory):
                yield name, Tabulated.of(counts).population


def _areas(areas: int, people: int, *, even: bool, seed: int) -> Population:
    """Areas in regions by sex and age: all alike, or of sizes and mixes that differ."""
    chance = np.random.default_rng(seed)
    schema = Schema((Attribute("sex", ("f", "m")), Attribute("age", tuple("abcde"))))
    geography = regular(children=int(np.sqrt(areas)) + 1, depth=2)
    leaves = geography.size(geography.leaf)
    mix = np.full(10, 0.1) if even else 1 / np.arange(1, 11) ** 2
    mix = mix / mix.sum()
    sizes = np.full(leaves, people) if even else people * chance.lognormal(-0.7, 1.2, leaves)
    mixes = np.tile(mix, (leaves, 1)) if even else chance.dirichlet(20 * mix, leaves)
    return _population(schema, geography, chance.poisson(sizes[:, None] * mixes))


def _population(schema: Schema, geography: Geography, table: np.ndarray) -> Population:
    counts = Counts(Domain(schema, geography), geography.leaf, csr_array(table.astype(np.int64)))
    return Tabulated.of(counts).population


def _methods(domain: Domain) -> Mapping[str, Mechanism]:
    """All kinds; under change-one there is nothing to measure of a single count."""
    unit = UnitOfPrivacy.CHANGE_ONE if domain.cells > 1 else UnitOfPrivacy.ADD_REMOVE
    made = {
        "cell-key": {"tables": "auto", "maximum": 4, "variance": Fraction(2)},
        "rounding": {"tables": "auto", "base": 5},
    }
    return {
        "topdown epsilon 1": TopDown(epsilon=Fraction(1), unit=unit),
        "topdown rho 2.56, pooled": TopDown(rho=Fraction("2.56"), pool=True, unit=unit),
        "geometric": Geometric(epsilon=Fraction(1), unit=unit),
        "sampling": Sampling(fraction=Fraction(1, 2)),
        **{name: MECHANISMS.get(name, source="bench")(**keys) for name, keys in made.items()},
    }


def _compared(
    where: str, people: Population, mechanism: Mechanism, replicates: int
) -> Iterator[Prediction]:
    """The prediction of each kind of facts beside what was measured."""
    design = Chain.of(mechanism).on(people.domain)
    truth = Facts("the truth", (people,), 0.0)
    measured = how_far_off(design, truth, runs=replicates, seed=SEED, by_formula=False)
    sizes = Tabulated.of(people).counts.totals().astype(float)
    evenly, alike = np.full(len(sizes), sizes.mean()), np.ones(people.schema.size)
    even = sizes_and_table(evenly, alike, people.domain, words="even")
    predictions: dict[str, HowFarOff] = {
        **{name: how_far_off(design, facts) for name, facts in facts_about(people).items()},
        "control: even": how_far_off(design, even, by_formula=False),
    }
    formula = {(one.level, one.query): one for one in design.expected_errors()}
    for row in measured.rows:
        if not row.rmse or _few(people, row, replicates):
            continue
        at = (row.level, row.query)
        for kind, made in predictions.items():
            one = made[at]
            if one.rmse is None:
                continue
            if one.basis == "formula":
                if kind == SIZES:
                    yield Prediction(where, "formula", one, row)
                continue
            sparse = predictions[SIZES][at].basis == "trials"
            if kind.startswith("control") and not sparse:
                continue
            yield Prediction(where, kind, one, row)
            if kind == SIZES and at in formula and formula[at].rmse:
                found = formula[at]
                linear = replace(one, rmse=found.rmse, within=found.within())
                yield Prediction(where, "control: formula where sparse", linear, row)


def facts_about(people: Population) -> dict[str, Facts]:
    """What might be public of them, from the true counts."""
    data = Tabulated.of(people).counts
    whole = np.asarray(data.matrix.sum(axis=0), dtype=float).reshape(-1)
    known = sizes_and_table(data.totals().astype(float), whole, people.domain, words=SIZES)
    return {SIZES: known, BEFORE: Facts("drifted", (_drifted(data),), BEFORE_OFF)}


def _few(people: Population, row: Off, replicates: int) -> bool:
    """Whether chance alone moves the measured error by some per cent."""
    return people.geography.size(row.level) * replicates < SMALL * 100


def _drifted(counts: Counts) -> Population:
    """Like counts of ten years before: sizes differ by a lognormal of 0.3, each count by chance."""
    chance = np.random.default_rng(7)
    table = counts.matrix.toarray().astype(float)
    table *= chance.lognormal(-0.045, 0.3, len(table))[:, None]
    return _population(counts.schema, counts.geography, chance.poisson(table))
