"""Is a release as far off as was predicted before anything was spent?

Populations whose people are all known are protected many times. What was predicted by formula, or
by trials on people made of facts that could be public, stands beside the errors that were measured:
root mean square error, and within how many people 19 of 20 counts are. Facts are the sizes of
places with the whole by all attributes, or counts that drifted like those of an older census.

Controls must be rejected: people spread evenly over places, and the formula where tables are
sparse. With ``--dir`` every Parquet file of counts by group and age is a population too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from benchmarks.figures import Reading
from benchmarks.pool import files_in
from headcount.domain import Domain
from headcount.geography import Geography
from headcount.geography.geography import regular
from headcount.mechanisms import Chain, Geometric, Mechanism, Sampling
from headcount.population import Population, uniform
from headcount.population.towns import Towns
from headcount.privacy import UnitOfPrivacy
from headcount.registry import MECHANISMS
from headcount.run.how_far_off import HowFarOff, Off, how_far_off
from headcount.run.public_facts import Facts, sizes_and_table
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts, Tabulated
from headcount.topdown.mechanism import TopDown

QUICK = {"replicates": 16}
SEED = 1000
SMALL = 30
"""Counts of fewer x releases than this x 100 are shown, but chance is too large to judge them."""
FILLED_LIMIT, SIZES_LIMIT, BEFORE_LIMIT = 5.0, 10.0, 10.0
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
    def inside(self) -> bool:
        """Whether the measured error is in the stated interval."""
        low, high = self.predicted.low or 0.0, self.predicted.high or 0.0
        return low <= (self.measured.rmse or 0.0) <= high


def measure(*, replicates: int = 100, directory: Path | None = None) -> list[Reading]:
    """Predicted beside measured errors; medians with their limits."""
    found: list[Prediction] = []
    for name, people in _populations(directory):
        methods = _methods(people.domain) if name == "towns" else _of_noise(people.domain)
        for method, mechanism in methods.items():
            found += _compared(f"{name}, {method}", people, mechanism, replicates)
    judged = [one for one in found if one.measured.rmse]
    readings = [_reading(one) for one in found]
    exact = replicates >= 100
    for kind, limit in (
        ("formula", FILLED_LIMIT),
        ("sizes and table", SIZES_LIMIT),
        ("before", BEFORE_LIMIT),
    ):
        those = [one for one in judged if one.kind == kind]
        off = float(np.median([one.off for one in those]))
        note = f"{len(those)} counts, largest {max(one.off for one in those):.0f} %"
        readings.append(Reading(f"{kind}: median off", off, "%", note, limit if exact else None))
        if kind != "formula":
            inside = 100 * float(np.mean([one.inside for one in those]))
            readings.append(Reading(f"{kind}: inside the stated interval", inside, "%"))
    for kind in ("control: even", "control: formula where sparse"):
        off = float(np.median([one.off for one in judged if one.kind == kind]))
        missing = Reading(f"{kind}: median off", off, "%", f"must be more than {CONTROL} %")
        readings += [missing, Reading(f"{kind}: rejected", CONTROL - off, "%", at_most=0.0)]
    return readings


def _reading(one: Prediction) -> Reading:
    predicted, measured = one.predicted, one.measured
    note = (
        f"RMSE {predicted.rmse:.3g} predicted, {measured.rmse:.3g} measured; 19 of 20 "
        f"{predicted.within:.3g} and {measured.within:.3g}; a count has {measured.size:.3g}"
    )
    at = f"{measured.level}.{measured.query}"
    return Reading(f"{one.where}, {one.kind}: {at}", one.off if measured.rmse else 0.0, "%", note)


def _populations(directory: Path | None) -> Iterator[tuple[str, Population]]:
    """Well filled ones, and sparse ones."""
    yield "uniform", uniform(people=200_000, depth=3, mean=59)
    yield "small table", _areas(30, 2_000, even=True, seed=1)
    yield "uneven areas", _areas(60, 400, even=False, seed=2)
    yield "towns", Towns(people=40_000, seed=3, schema="voting-age-by-group").read()
    if directory is not None:
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


def _of_noise(domain: Domain) -> Mapping[str, Mechanism]:
    """Under change-one there is nothing to measure of a single count."""
    unit = UnitOfPrivacy.CHANGE_ONE if domain.cells > 1 else UnitOfPrivacy.ADD_REMOVE
    return {
        "topdown epsilon 1": TopDown(epsilon=Fraction(1), unit=unit),
        "topdown rho 2.56, pooled": TopDown(rho=Fraction("2.56"), pool=True, unit=unit),
        "geometric": Geometric(epsilon=Fraction(1), unit=unit),
    }


def _methods(domain: Domain) -> Mapping[str, Mechanism]:
    """All kinds; those of tables for the tables that they make of themselves."""
    made = {
        "cell-key": {"tables": "auto", "maximum": 4, "variance": Fraction(2)},
        "rounding": {"tables": "auto", "base": 5},
    }
    return {
        **_of_noise(domain),
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
    data = Tabulated.of(people).counts
    sizes = data.totals().astype(float)
    whole = np.asarray(data.matrix.sum(axis=0), dtype=float).reshape(-1)
    known = sizes_and_table(sizes, whole, people.domain, words="sizes and table")
    evenly = np.full(len(sizes), sizes.mean())
    even = sizes_and_table(evenly, np.ones(len(whole)), people.domain, words="even")
    predictions: dict[str, HowFarOff] = {
        "sizes and table": how_far_off(design, known),
        "before": how_far_off(design, Facts("drifted", (_drifted(data),), known.spread)),
        "control: even": how_far_off(design, even, by_formula=False),
    }
    formula = {(one.level, one.query): one for one in design.expected_errors()}
    for row in measured.rows:
        if row.rmse is None or _few(people, row, replicates):
            continue
        at = (row.level, row.query)
        for kind, made in predictions.items():
            one = made[at]
            if one.rmse is None:
                continue
            if one.basis == "formula":
                if kind == "sizes and table":
                    yield Prediction(where, "formula", one, row)
                continue
            sparse = predictions["sizes and table"][at].basis == "trials"
            if kind.startswith("control") and not sparse:
                continue
            yield Prediction(where, kind, one, row)
            if kind == "sizes and table" and at in formula and formula[at].rmse:
                found = formula[at]
                linear = replace(one, rmse=found.rmse, within=found.within())
                yield Prediction(where, "control: formula where sparse", linear, row)


def _few(people: Population, row: Off, replicates: int) -> bool:
    """Whether chance alone moves the measured error by some per cent."""
    return people.geography.size(row.level) * replicates < SMALL * 100


def _drifted(counts: Counts) -> Population:
    """Like counts of ten years before: sizes differ by a lognormal of 0.3, each count by chance."""
    chance = np.random.default_rng(7)
    table = counts.matrix.toarray().astype(float)
    table *= chance.lognormal(-0.045, 0.3, len(table))[:, None]
    return _population(counts.schema, counts.geography, chance.poisson(table))
