"""Do neighbouring input files of any kind move anything beyond the plan?

Each case writes files, and the same files after one step (one person or one household added,
removed or changed), reads both as ``headcount protect`` would, and sets the distance of everything
that is measured beside what the plan says: l1 and l2^2 of every query at every level, and the loss
that these distances and the noise of the plan amount to beside the loss that is stated.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.figures import Reading
from benchmarks.neighbour_files import (
    PLACES,
    WITH_HOUSEHOLDS,
    WITH_HOUSING_UNITS,
    PopulationFiles,
)
from headcount.arrays import Ints
from headcount.config.load import load_config
from headcount.errors import ConfigError, InputError, RunError
from headcount.mechanisms import PlannedMeasurement
from headcount.privacy import (
    Loss,
    PureLoss,
    Sensitivity,
    UnitOfPrivacy,
    noise_loss,
    pure_to_zcdp,
)
from headcount.run.protect import Prepared, prepare_data
from headcount.tabulate import CELLS, Counts
from headcount.topdown.choices import QuartersBounds
from headcount.topdown.mechanism import TopDown
from headcount.topdown.restrict import restrict
from tests.support.neighbour_homes import DwellingFiles, Rng, quoted

CASES = 20
"""Cases of each kind, mechanism and unit."""

TRIES = 80
"""Steps that are drawn until one keeps what is released exactly."""

NOISY = ("geometric", "raked", "averaged", "histogram")
TOPDOWN = ("topdown", "topdown-rho", "topdown-exact")
MECHANISMS = (*NOISY, *TOPDOWN)


@dataclass(frozen=True)
class Moved:
    """How far one measured vector moved, and how far the plan says it can."""

    level: str
    query: str
    l1: int
    l2_squared: int
    most_l1: int
    most_l2_squared: int

    @property
    def above(self) -> bool:
        """Whether the plan is wrong."""
        return self.l1 > self.most_l1 or self.l2_squared > self.most_l2_squared


@dataclass(frozen=True)
class NeighbourCase:
    """One pair of neighbours: what moved, and the loss that amounts to beside the stated one."""

    kind: str
    mechanism: str
    unit: UnitOfPrivacy
    moved: tuple[Moved, ...]
    loss: Fraction
    stated: Fraction

    @property
    def above(self) -> bool:
        """Whether anything moved beyond the plan."""
        return self.loss > self.stated or any(one.above for one in self.moved)

    @property
    def full(self) -> bool:
        """Whether something moved as far as the plan says it can."""
        return any(one.l1 == one.most_l1 > 0 for one in self.moved)


def units_for(kind: str, mechanism: str) -> tuple[UnitOfPrivacy, ...]:
    """The units of privacy that a kind of population and a mechanism can have."""
    return tuple(
        unit
        for unit in UnitOfPrivacy
        if (kind in WITH_HOUSEHOLDS or not unit.of_household)
        and unit.of_housing_unit is (kind in WITH_HOUSING_UNITS)
        and not (unit.adds and mechanism == "topdown-exact")  # no neighbour keeps a total
    )


def combinations() -> Iterator[tuple[str, str, UnitOfPrivacy]]:
    """Every kind of population x mechanism with a plan x unit of privacy."""
    for kind in PLACES:
        for mechanism in MECHANISMS:
            for unit in units_for(kind, mechanism):
                yield kind, mechanism, unit


def run_case(kind: str, mechanism: str, unit: UnitOfPrivacy, *, seed: int) -> NeighbourCase | None:
    """One pair of neighbouring files, read and compared; None if no such pair was found."""
    rng = np.random.default_rng(seed)
    place = PLACES[kind](rng)
    if isinstance(place, DwellingFiles) and unit.of_household and rng.random() < 0.5:
        place.attributes += ("like_minded",)
    settings = _settings(place, kind, mechanism, unit, rng)
    with TemporaryDirectory() as folder:
        try:
            here = _planned(place, settings, Path(folder) / "here")
        except ConfigError:
            raise
        except InputError:  # a file that looks like something else, and is not read
            return None
        exact = isinstance(here.mechanism.last, TopDown) and here.mechanism.last.invariant
        step = unit if exact or rng.random() < 0.5 else unit.pair[1]
        for attempt in range(TRIES):
            other = deepcopy(place)
            other.step(step, rng)
            try:
                there = _planned(other, settings, Path(folder) / f"there{attempt}")
            except (InputError, RunError):  # not read, or out of the bounds: no neighbour
                continue
            if _same_domain(here, there) and _same_exact(here, there):
                return _compared(kind, mechanism, step, here, there)
    return None


def _planned(place: PopulationFiles, settings: str, folder: Path) -> Prepared:
    """Written, and read as ``protect`` reads."""
    folder.mkdir()
    population = place.write(folder)
    config = folder / "config.toml"
    config.write_text(f'[population]\n{population}\n{settings}\n[run]\nout = "out"\n', "utf-8")
    return prepare_data(load_config(config))


def _settings(
    place: PopulationFiles, kind: str, mechanism: str, unit: UnitOfPrivacy, rng: Rng
) -> str:
    """The table ``[mechanism]`` of a case."""
    text = f'[mechanism]\nunit = "{unit}"\n'
    if unit.of_household:
        text += f"largest_household = {int(rng.integers(1, 7))}\n"
    elif "household_size" in place.attributes:
        text += "count_housemates = true\n"
    if mechanism in NOISY:
        parts = "parts = 3\n" if mechanism == "averaged" else ""
        return f'{text}name = "{mechanism}"\nepsilon = "{int(rng.integers(1, 9))}/3"\n{parts}'
    text += f'name = "topdown"\n{"rho" if mechanism == "topdown-rho" else "epsilon"} = "1/2"\n'
    if kind in ("us1940", "ipums1940") and mechanism == "topdown-exact":
        return f'{text}preset = "e2e-2018"\n'
    # One count alone costs nothing when a record changes: its total is then given, not measured.
    alone = not place.attributes and not unit.adds
    levels = "[mechanism.levels]\n" + "".join(
        f'{level} = "1/{len(place.levels) - 1}"\n' for level in place.levels[1:]
    )
    exact = place.levels[0] if alone or mechanism == "topdown-exact" else ""
    return text + _queries(place, exact, rng) + (levels if alone else "")


def _queries(place: PopulationFiles, exact: str, rng: Rng) -> str:
    """Cells, each attribute alone, a recode of household size, the report; an exact total."""
    by = {name: [name] for name in place.attributes}
    text = 'report_epsilon = "1/10"\n'
    if isinstance(place, DwellingFiles) and "household_size" in by:
        levels = [*place.sizes, "none"]
        cut = int(rng.integers(1, len(levels)))
        groups = f"{{ low = {quoted(levels[:cut])}, high = {quoted(levels[cut:])} }}"
        text += f'recodes.home = {{ of = "household_size", groups = {groups} }}\n'
        by["home"] = ["home"]
    share = Fraction(1, len(by) + 1)
    text += f'queries.cells = {{ share = "{share}" }}\n'
    for number, names in enumerate(by.values()):
        text += f'queries.q{number} = {{ by = {quoted(names)}, share = "{share}" }}\n'
    if exact:
        text += "queries.everyone = { by = [] }\n"
        text += f'invariant = [{{ query = "everyone", level = "{exact}" }}]\n'
    if exact and isinstance(place, DwellingFiles) and "hhgq" in by:
        caps = [99] * (len(place.kinds) - 1)
        text += 'queries.quarters = { by = ["hhgq"] }\n'
        text += f'bounds = [{{ query = "quarters", caps = {caps} }}]\n'
    return text


def _same_domain(here: Prepared, there: Prepared) -> bool:
    """The same public units and levels."""
    one, other = here.counts, there.counts
    return one.schema == other.schema and all(
        np.array_equal(a, b)
        for a, b in zip(one.geography.units, other.geography.units, strict=True)
    )


def _same_exact(here: Prepared, there: Prepared) -> bool:
    """The same right-hand sides of everything that is released exactly."""
    last = here.mechanism.last
    if not isinstance(last, TopDown):
        return True
    if any(isinstance(bounds, QuartersBounds) for bounds in last.bounds):
        one, other = here.counts.quarters, there.counts.quarters
        if one is None or other is None or not np.array_equal(one.vacant, other.vacant):
            return False  # vacant ones are published too
    sides = [restrict(last, _levels(one.counts)) for one in (here, there)]
    return all(
        np.array_equal(a.low, b.low) and np.array_equal(a.high, b.high)
        for level in sides[0]
        for a, b in zip(sides[0][level], sides[1][level], strict=True)
    )


def _levels(counts: Counts) -> dict[str, Counts]:
    return {level: counts.at(level) for level in counts.geography.levels}


def _compared(
    kind: str, mechanism: str, unit: UnitOfPrivacy, here: Prepared, there: Prepared
) -> NeighbourCase:
    measured = here.design.plan
    moved = tuple(_moved(one, unit, here, there) for one in measured)
    stated = _stated(here, unit)  # None if nothing that is measured can change
    pure = stated is None or isinstance(stated, PureLoss)
    loss = _loss(measured, moved, unit, pure=pure)
    return NeighbourCase(
        kind, mechanism, unit, moved, loss, stated.amount if stated else Fraction(0)
    )


def _stated(planned: Prepared, unit: UnitOfPrivacy) -> Loss | None:
    return planned.design.guarantee.loss_for(unit)


def _moved(one: PlannedMeasurement, unit: UnitOfPrivacy, here: Prepared, there: Prepared) -> Moved:
    difference = _answers(one, here) - _answers(one, there)
    l1, l2_squared = int(np.abs(difference).sum()), int((difference**2).sum())
    if one.distance:
        l2_squared = l1**2  # as far as the distance to the counts themselves moves
    most = one.sensitivity(unit)
    return Moved(one.level, one.query, l1, l2_squared, most.l1, most.l2_squared)


def _answers(one: PlannedMeasurement, planned: Prepared) -> Ints:
    counts = planned.counts.at(one.level)
    matrix: Any = counts.matrix
    if one.query != CELLS and not one.distance:
        last = planned.mechanism.last
        assert isinstance(last, TopDown)
        matrix = matrix @ last.completed(counts.schema, counts.geography).query(one.query).matrix(
            counts.schema
        )
    return np.asarray(matrix.toarray(), dtype=np.int64)


def _loss(
    measured: Sequence[PlannedMeasurement],
    moved: Sequence[Moved],
    unit: UnitOfPrivacy,
    *,
    pure: bool,
) -> Fraction:
    """What these distances cost with the noise of the plan: epsilon, or rho."""
    total = Fraction(0)
    for one, found in zip(measured, moved, strict=True):
        if not found.l1:
            continue
        distance = Sensitivity(l1=found.l1, l2_squared=found.l2_squared, unit=unit)
        loss = noise_loss(one.law, distance, draws=one.draws)
        if isinstance(loss, PureLoss) and not pure:
            loss = pure_to_zcdp(loss).value
        total += loss.amount
    return total


@contextmanager
def _unwarned() -> Iterator[None]:
    """Without the warnings that units are read from the data, which is so in every case here."""
    logger = logging.getLogger("headcount.run")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


QUICK = {"cases": 2}


def measure(cases: int | None = None) -> list[Reading]:
    """So many pairs of neighbouring files of every kind, mechanism and unit of privacy."""
    each = cases or CASES
    every = list(combinations())
    with _unwarned():
        made = [
            run_case(kind, mechanism, unit, seed=1_000_000 * number + case)
            for number, (kind, mechanism, unit) in enumerate(every)
            for case in range(each)
        ]
    found = [case for case in made if case is not None]
    readings = [
        Reading(
            f"{kind}: pairs of neighbouring files above the plan",
            sum(case.above for case in found if case.kind == kind),
            f"of {sum(case.kind == kind for case in found):,}",
            f"{sum(case.full for case in found if case.kind == kind):,} as far as it says",
        )
        for kind in PLACES
    ]
    vectors = sum(len(case.moved) for case in found)
    return [
        Reading("kinds x mechanisms x units", len(every), "combinations"),
        *readings,
        Reading(
            "all: pairs above the plan",
            sum(case.above for case in found),
            f"of {len(found):,}",
            f"{vectors:,} measured vectors",
            at_most=0,
        ),
        Reading(
            "no pair found that is read and keeps what is exact", len(made) - len(found), "cases"
        ),
    ]
