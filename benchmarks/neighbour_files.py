"""Input files of every kind of population, and the same files with one step to a neighbour.

A place is drawn or generated, held as plain rows, changed by one person or one household, and
written out with whatever follows from the change: sizes of households, and levels made of them.
Units and levels are public lists, the same on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from benchmarks.neighbour_2020 import drawn_census
from headcount.population.towns import towns
from headcount.population.uniform import uniform
from headcount.privacy import UnitOfPrivacy
from headcount.schema import load_schema
from headcount.tabulate import tabulate
from headcount_papers.us1940 import us1940
from headcount_papers.workload_s import workload_s
from tests.support.neighbour_homes import (
    DwellingFiles,
    Rng,
    codes_by_level,
    drawn_dwellings,
    from_households,
    quoted,
    some,
)


class PopulationFiles(Protocol):
    """A population as it stands in files."""

    attributes: tuple[str, ...]
    """What the schema is made of."""

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of the geography, from the whole to the leaf."""

    def write(self, folder: Path) -> str:
        """Write the files, and return the table ``[population]`` of a config that reads them."""

    def step(self, unit: UnitOfPrivacy, rng: Rng) -> None:
        """Become a neighbour."""


@dataclass
class RowsFile:
    """One row a person."""

    people: list[tuple[str, str, str]]
    attributes: tuple[str, ...] = ("sex", "age")
    tracts: tuple[str, ...] = ("a1", "a2", "b1", "b2")

    levels: tuple[str, ...] = ("whole", "county", "tract")

    def write(self, folder: Path) -> str:
        """``people.csv`` and ``tracts.csv``."""
        lines = ["county,tract,sex,age", *(f"{row[0][0]},{','.join(row)}" for row in self.people)]
        (folder / "people.csv").write_text("\n".join(lines) + "\n", "utf-8")
        _write_tracts(folder, self.tracts)
        return (
            'kind = "microdata"\nfile = "people.csv"\nunits = "tracts.csv"\n'
            'geography = { columns = ["county", "tract"] }\n'
            'attribute = [{ name = "sex", levels = ["f", "m"] }, '
            '{ name = "age", levels = ["young", "old"] }]\n'
        )

    def step(self, unit: UnitOfPrivacy, rng: Rng) -> None:
        """Add a row, take one away, or put another in the place of one."""
        if not unit.adds or rng.random() < 0.5:
            self.people.pop(int(rng.integers(len(self.people))))
            if unit.adds:
                return
        self.people.insert(int(rng.integers(len(self.people) + 1)), _row(rng, self.tracts))


def _row(rng: Rng, tracts: tuple[str, ...]) -> tuple[str, str, str]:
    return str(rng.choice(tracts)), str(rng.choice(["f", "m"])), str(rng.choice(["young", "old"]))


def _write_tracts(folder: Path, tracts: tuple[str, ...]) -> None:
    lines = ["county,tract", *(f"{tract[0]},{tract}" for tract in tracts)]
    (folder / "tracts.csv").write_text("\n".join(lines) + "\n", "utf-8")


@dataclass
class Cells:
    """A wide table of counts, with living quarters where there are any."""

    units: Mapping[str, list[str]]
    counts: np.ndarray[Any, np.dtype[np.int64]]
    schema: str
    columns: tuple[str, ...]
    root: str
    attributes: tuple[str, ...]
    quarters: Mapping[str, list[int]] = field(default_factory=dict)

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of the geography, from the whole to the leaf."""
        return (self.root, *self.units)

    def write(self, folder: Path) -> str:
        """``counts.csv``, ``units.csv`` and ``quarters.csv``."""
        cells = {name: self.counts[:, i] for i, name in enumerate(self.columns)}
        pl.DataFrame({**self.units, **cells}).write_csv(folder / "counts.csv")
        pl.DataFrame(self.units).write_csv(folder / "units.csv")
        text = (
            f'kind = "counts"\nfile = "counts.csv"\nunits = "units.csv"\nschema = "{self.schema}"\n'
            "overlap = 1\n"  # facilities have fewer people than homes everywhere, and others
            f'geography = {{ columns = {quoted(self.units)}, root = "{self.root}" }}\n'
            'sums = "keep"\n'
        )
        if self.quarters:
            pl.DataFrame({**self.units, **self.quarters}).write_csv(folder / "quarters.csv")
            text += 'quarters = { file = "quarters.csv", attribute = "hhgq", vacant = "vacant" }\n'
        return text

    def step(self, unit: UnitOfPrivacy, rng: Rng) -> None:
        """Count one person more or less, or one in another cell or place."""
        if not unit.adds or rng.random() < 0.5:
            filled = np.flatnonzero(self.counts)
            self.counts.flat[rng.choice(filled)] -= 1
            if unit.adds:
                return
        self.counts.flat[rng.integers(self.counts.size)] += 1


@dataclass
class FixedWidthFile:
    """Records of fixed width: a unit, then its people."""

    homes: list[tuple[str, int, list[tuple[int, int, int]]]]
    attributes: tuple[str, ...] = ("hhgq", "voting_age", "hispanic", "race")

    levels: tuple[str, ...] = ("nation", "state", "county", "enumeration_district")

    def write(self, folder: Path) -> str:
        """``extract.dat``."""
        lines = []
        for serial, (district, quarters, people) in enumerate(self.homes, start=1):
            if quarters and not people:
                continue  # there is no such record as an empty facility
            place = {7: f"{serial:08}", 53: "01", 55: "0010", 94: str(quarters)}
            place[93] = "1" if people else "0"  # a housing unit without people is vacant
            lines.append(_fixed("H", 159, {**place, 124: district}))
            for age, race, hispanic in people:
                person = {7: f"{serial:08}", 73: f"{age:03}", 84: str(race), 88: str(hispanic)}
                lines.append(_fixed("P", 273, person))
        (folder / "extract.dat").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return 'kind = "ipums1940"\nfile = "extract.dat"\n'

    def step(self, unit: UnitOfPrivacy, rng: Rng) -> None:
        """Add a person record, take one away, or put another in the place of one."""
        if not unit.adds or rng.random() < 0.5:
            people = self.homes[int(rng.choice([i for i, h in enumerate(self.homes) if h[2]]))][2]
            people.pop(int(rng.integers(len(people))))
            if unit.adds:
                return
        self.homes[int(rng.integers(len(self.homes)))][2].append(_record(rng))


def _record(rng: Rng) -> tuple[int, int, int]:
    return int(rng.integers(0, 90)), int(rng.integers(1, 7)), int(rng.integers(0, 2))


def _fixed(kind: str, length: int, places: Mapping[int, str]) -> str:
    line = list(kind + "." * (length - 1))
    for start, text in places.items():
        line[start : start + len(text)] = text
    return "".join(line)


@cache
def _generated(kind: str) -> DwellingFiles:
    """A generated state as rows; its people carry two of their attributes, to keep files small."""
    state = towns(seed=1, people=1_000) if kind == "towns" else workload_s(seed=1, households=80)
    return from_households(state, persons=("sex", "hispanic"))


def _of_generated(kind: str, rng: Rng) -> DwellingFiles:
    place = deepcopy(_generated(kind))
    return replace(place, attributes=some(rng, ("sex", "hispanic", "tenure", "household_size")))


def _rows(rng: Rng) -> RowsFile:
    people = RowsFile([])
    people.people = [_row(rng, people.tracts) for _ in range(int(rng.integers(2, 9)))]
    return people


def _counts(rng: Rng) -> Cells:
    """The population of the uniform generator's kind of schema, drawn with three groups."""
    schema = load_schema("voting-age-by-group")
    counts = rng.integers(0, 3, size=(4, schema.size)) * schema.possible
    counts[0, 0] += 1
    units = {"tract": ["a", "a", "b", "b"], "block": ["a1", "a2", "b1", "b2"]}
    return Cells(units, counts, "voting-age-by-group", schema.cell_names, "whole", schema.names)


@cache
def _table_of(kind: str) -> Cells:
    quarters = None
    if kind == "uniform":
        people, schema = uniform(people=200, depth=2, mean=20, seed=1), "total"
    else:
        (people, quarters), schema = us1940(seed=1, scale=0.02, states=("DE",)), "e2e-2018"
    tree = people.geography
    homes: dict[str, list[int]] = {}
    if quarters is not None:
        types = people.schema.attribute(quarters.attribute).levels
        homes = {name: quarters.occupied[:, k].tolist() for k, name in enumerate(types)}
        homes["vacant"] = quarters.vacant.tolist()
    return Cells(
        units=codes_by_level(tree),
        counts=tabulate(people).dense(),
        schema=schema,
        columns=people.schema.cell_names,
        root=tree.levels[0],
        attributes=people.schema.names,
        quarters=homes,
    )


def _extract(rng: Rng) -> FixedWidthFile:
    homes = [
        (f"{int(rng.integers(1, 4)):04}", int(rng.choice([0, 0, 0, 2, 6])), [_record(rng)])
        for _ in range(int(rng.integers(3, 9)))
    ]
    for _, _, people in homes:
        people += [_record(rng) for _ in range(int(rng.integers(0, 4)))]
    return FixedWidthFile(sorted(homes, key=lambda home: home[0]))


PLACES: Mapping[str, Callable[[Rng], PopulationFiles]] = {
    "microdata": _rows,
    "counts": _counts,
    "uniform": lambda rng: deepcopy(_table_of("uniform")),
    "us1940": lambda rng: deepcopy(_table_of("us1940")),
    "ipums1940": _extract,
    "households": drawn_dwellings,
    "towns": lambda rng: _of_generated("towns", rng),
    "workload-s": lambda rng: _of_generated("workload-s", rng),
    "redistricting-2020": lambda rng: drawn_census(rng, homes=False),
    "h1-2020": lambda rng: drawn_census(rng, homes=True),
}
"""A place of every kind of population; generated kinds are written to files that are read back."""

WITH_HOUSEHOLDS = ("households", "towns", "workload-s")
WITH_HOUSING_UNITS = ("h1-2020",)
