"""Person swapping: people change places with people elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Codes, Flags, Ints, Ints32
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.fields import AtLeast0, Rate
from headcount.geography import Geography
from headcount.mechanisms import PEOPLE, Context, Preserved, PreTabular, StepDesign
from headcount.mechanisms.swapping.households import (
    NO_BOUND,
    log_nobody,
    log_shortfall,
    write_provenance,
)
from headcount.mechanisms.swapping.keys import depth_of, share
from headcount.noise import Noise, Stream
from headcount.noise.source import SEED_DRAWS, generator
from headcount.population import Population
from headcount.population.population import RecordKeys
from headcount.privacy import Guarantee
from headcount.processes import gib, memory_limit
from headcount.schema import Schema
from headcount.tabulate import Counts, tabulate
from headcount_papers.person_swapping.persons import (
    KEEP,
    Pool,
    Swap,
    swap_area,
    swap_everywhere,
)
from headcount_papers.person_swapping.similar import KEYS, Kind, PartnerRule, places

BYTES_A_PERSON = 40
"""Held at once to move people one by one: unit and cell, and copies of both."""


@dataclass(frozen=True, kw_only=True)
class PersonSwapping(PreTabular):
    """People change places with people elsewhere (Christ, Radway & Bellovin 2022).

    where
        kind        random, pseudo-random (same or nearest age and sex) or similar
        k           for similar swapping: how far age, sex and rank may differ; age in years where
                    its levels are years ("7", "90+"), else in levels
        rate        share of each area's people that is swapped, 0 to 1; exact to one person
        level       geography level of an area; swaps go between areas, never within one
        area        code of the one area to swap against all others; None swaps every area
        keep        attributes that stay with the place; those not in the schema are ignored
        order       race-by-Hispanic codes, 2 race + Hispanic, most frequent first; None reads the
                    order off the data, ties by code
        unique_by   attributes on which a person must be alone in an area to go first; None takes
                    all that are swapped
        alike       for similar swapping: further attributes whose levels may differ by k at most

    Leaf totals and everything about the whole population stay as they are, but for combinations
    of kept attributes with others.
    """

    level: str
    rate: Rate
    kind: Kind = "similar"
    k: AtLeast0 = 0
    area: str | None = None
    keep: tuple[str, ...] = KEEP
    order: tuple[int, ...] | None = None
    unique_by: tuple[str, ...] | None = None
    alike: tuple[str, ...] = ()
    name = "person-swapping"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", share(self.rate, "rate"))
        for name in ("keep", "order", "unique_by", "alike"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        _ = self.likeness  # refuses bad settings

    @property
    def likeness(self) -> PartnerRule:
        """How alike partners must be."""
        return PartnerRule(kind=self.kind, k=self.k, order=self.order, alike=self.alike)

    def on(self, domain: Domain) -> StepDesign:
        """No guarantee, and it says so.

        In each leaf what stays with the place is the same, and in the whole all that is swapped.
        """
        names = domain.schema.names
        stay = tuple(name for name in names if name in self.keep)
        swapped = tuple(name for name in names if name not in self.keep)
        kept = (
            Preserved(PEOPLE, domain.leaf, stay),
            Preserved(PEOPLE, domain.geography.levels[0], swapped),
        )
        return StepDesign(
            domain=domain,
            guarantee=Guarantee.none(
                "records are published as they are, some of them in another place; swapping only "
                "leaves open which ones"
            ).also_exact(*map(str, kept)),
            preserves=kept,
            no_bound=NO_BOUND,
        )

    def check(self, population: Population) -> tuple[str, ...]:
        """Refuse missing keys, nobody to swap with, and kept attributes in structural zeros."""
        schema, geography, source = population.schema, population.geography, "person swapping"
        people = len(population.unit) if population.count is None else int(population.count.sum())
        if people * BYTES_A_PERSON > (most := memory_limit()):
            raise InputError(
                source,
                place="people",
                found=f"more than fit {gib(most)}, at {BYTES_A_PERSON} bytes a person",
                expected="fewer, or a machine with more memory",
            )
        for name in (*(self.unique_by or ()), *self.alike):
            schema.attribute(name)  # refuses an unknown one
        for key in KEYS[self.kind]:
            if key not in schema.names:
                raise InputError(
                    source,
                    place=f"{self.kind} swapping",
                    found=f"no attribute {key!r}",
                    expected=f"all of {', '.join(KEYS[self.kind])}",
                )
        if self.order is not None and self.kind == "similar":
            lived_in = np.unique(population.cell[_present(population)]).astype(np.int64)
            codes = codes_of(schema, lived_in)
            places(codes, self.likeness, rows=len(lived_in))  # refuses a gap
        for zero in schema.structural_zeros:
            named = {name for name, _ in zero}
            if named & set(self.keep) and named - set(self.keep):
                raise ConfigError(
                    source,
                    place="keep",
                    found=f"{sorted(named & set(self.keep))}, in a structural zero with "
                    f"{sorted(named - set(self.keep))}",
                    expected="kept attributes that fit any record",
                )
        depth_of(geography, self.level, "level")
        units = self._units(geography)
        areas = np.zeros(len(units), dtype=bool)
        areas[geography.ancestors(self.level)[population.unit[_present(population)]]] = True
        here = areas if self.area is None else areas & (units == self.area)
        if self.area is not None and self.area not in units:
            raise ConfigError(
                source, place="area", found=repr(self.area), expected=f"a unit of {self.level!r}"
            )
        if here.any() and areas.sum() == 1:
            raise InputError(
                source, place=self.level, found="nobody outside the area", expected="two areas"
            )
        return ()

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        """People in each other's places, one row each; who lives with whom is no longer known."""
        schema, geography = population.schema, population.geography
        unit, cell = rows_of(tabulate(population))
        keys = _in_their_order(population)
        codes = codes_of(schema, cell)
        area = geography.ancestors(self.level)[unit]
        aged = codes | in_years(schema, codes)
        swap = self._swap(geography, aged, area, swap_generator(geography, noise, run))
        if swap.report.unswappable > 1:  # one is left if they are odd
            log_shortfall(self.name)
        elif self.rate and not swap.report.swapped:
            log_nobody(self.name)
        if context.curator is not None:
            # rows as ``rows_of`` numbers them, one line a pair
            columns = {"row": swap.rows, "partner": swap.partners}
            write_provenance(context.curator, run, columns, swap.report)
        origin = swap.origin(len(cell))
        return replace(
            population,
            unit=unit.astype(np.int32),
            cell=_mixed(schema, cell, codes, origin, self.keep).astype(np.int32),
            count=None,
            households=None,
            record_keys=None if keys is None else keys.of(origin),
        )

    def _swap(
        self, geography: Geography, codes: Codes, area: Ints32, rng: np.random.Generator
    ) -> Swap:
        if self.area is None:
            return swap_everywhere(
                codes,
                area,
                self.likeness,
                rate=self.rate,
                rng=rng,
                keep=self.keep,
                unique_by=self.unique_by,
            )
        inside = self._units(geography)[area] == self.area
        here, there = np.flatnonzero(inside), np.flatnonzero(~inside)
        some = {name: column[here] for name, column in codes.items()}
        others = {name: column[there] for name, column in codes.items()}
        pool = Pool.of(others, self.likeness, area=some)
        swap = swap_area(
            some, pool, rate=self.rate, rng=rng, keep=self.keep, unique_by=self.unique_by
        )
        return Swap(here[swap.rows], there[swap.partners], swap.report)

    def _units(self, geography: Geography) -> NDArray[np.str_]:
        return geography.units[geography.depth(self.level)]


def _present(population: Population) -> Flags:
    """Which entries stand for anybody."""
    if population.count is None:
        return np.ones(len(population.unit), dtype=bool)
    return population.count > 0


def swap_generator(geography: Geography, noise: Noise, run: int) -> np.random.Generator:
    """What marks people and draws partners in a run."""
    return generator(noise, Stream(level=geography.leaf, query="swap", size=SEED_DRAWS), run)


def rows_of(counts: Counts) -> tuple[Ints, Ints]:
    """One row for each person: unit and cell, in their order.

    People of the same unit and cell are alike, so any of them may stand for any other.
    """
    table = counts.matrix.copy()
    table.sum_duplicates()
    unit = np.repeat(np.arange(table.shape[0], dtype=np.int64), np.diff(table.indptr))
    return np.repeat(unit, table.data), np.repeat(table.indices.astype(np.int64), table.data)


def _in_their_order(population: Population) -> RecordKeys | None:
    """The record keys of the people in the order of ``rows_of``."""
    if population.record_keys is None:
        return None
    return population.record_keys.of(np.lexsort((population.cell, population.unit)))


def codes_of(schema: Schema, cell: Ints) -> dict[str, NDArray[np.integer]]:
    """The level numbers of each row's attributes."""
    if not schema.attributes:
        return {}
    return dict(zip(schema.names, np.unravel_index(cell, schema.shape), strict=True))


def in_years(schema: Schema, codes: Codes) -> dict[str, NDArray[np.integer]]:
    """Ages in years if the levels are years: those that the data lack still lie in between."""
    if "age" not in codes:
        return {}
    years = [re.fullmatch(r"(\d+)\+?", level) for level in schema.attribute("age").levels]
    if not all(years):
        return {}
    return {"age": np.array([int(year[1]) for year in years if year])[codes["age"]]}


def _mixed(schema: Schema, cell: Ints, codes: Codes, origin: Ints, keep: tuple[str, ...]) -> Ints:
    """The cell of each row with the record of its origin, all but what is kept."""
    if not schema.attributes:
        return cell
    mixed = tuple(codes[n] if n in keep else codes[n][origin] for n in schema.names)
    return np.ravel_multi_index(mixed, schema.shape)
