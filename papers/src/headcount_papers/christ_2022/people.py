"""Whom the study is run on: synthetic block groups, or areas of a table of people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Codes, Ints
from headcount.domain import Domain
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.population import Population, tables
from headcount.population.town_people import RACE_SETS
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts, Tabulated, tabulate
from headcount_papers.christ_2022 import places
from headcount_papers.christ_2022.settings import AGES, NAME

AREA, OUTSIDE = "area", "everyone outside"
NEEDED = ("age", "sex", "race", "hispanic")
OPTIONAL = ("household_size", "tenure")
LARGEST_HOUSEHOLD = 4
MOST_AREAS = 9
YES_OR_NO = {"0": 0, "1": 1, "false": 0, "true": 1, "no": 0, "yes": 1, "n": 0, "y": 1}


@dataclass(frozen=True, eq=False, kw_only=True)
class Area:
    """One area, and everyone outside it who may be a partner.

    where
        draw    which of the block groups of its county it is
        races   how many races there are, whether or not anybody here is of them
        order   race-by-Hispanic codes (2 race + Hispanic), most frequent first; None reads it
                off area and pool
    """

    name: str
    rows: Codes
    pool: Codes
    races: int
    draw: int = 0
    order: tuple[int, ...] | None = None
    diversity: str = ""

    @property
    def size(self) -> int:
        """People of the area."""
        return len(self.rows["age"])

    @property
    def groups(self) -> int:
        """Hispanic by race."""
        return 2 * self.races

    @property
    def sizes(self) -> int:
        """Sizes of households that are told apart: 1, 2, 3, 4+, or none."""
        return LARGEST_HOUSEHOLD if "household_size" in self.rows else 1

    def schema(self) -> Schema:
        """What is known of a person, as attributes."""
        names = {
            "age": (*(str(age) for age in range(AGES - 1)), f"{AGES - 1}+"),
            "race": tuple(str(number) for number in range(self.races)),
            "hispanic": ("no", "yes"),
            "household_size": ("1", "2", "3", "4+"),
        }
        most = {
            name: 1 + max(int(side[name].max(initial=0)) for side in (self.rows, self.pool))
            for name in self.rows
        }
        return Schema(
            tuple(
                Attribute(name, names.get(name, tuple(str(n) for n in range(most[name]))))
                for name in self.rows
            )
        )

    @property
    def unit(self) -> str:
        """The code of the area among those of its county."""
        return f"{self.name} {self.draw}" if self.draw else self.name

    def alone(self) -> Counts:
        """The people of the area."""
        return tabulate(_population(self.schema(), [self.rows], [self.unit]))

    def group(self, rows: Codes) -> Ints:
        """The number of each row's group, Hispanic first."""
        return rows["hispanic"].astype(np.int64) * self.races + rows["race"]

    def truth(self) -> Ints:
        """People of each group."""
        return np.bincount(self.group(self.rows), minlength=self.groups)


def with_pool(areas: Sequence[Area]) -> Tabulated:
    """The people of some areas of one county, and everyone outside as one other area."""
    sides, units = [area.rows for area in areas], [area.unit for area in areas]
    return Tabulated.of(_population(areas[0].schema(), [*sides, areas[0].pool], [*units, OUTSIDE]))


def geography(units: Sequence[str]) -> Geography:
    """Some areas of one whole."""
    return Geography(
        ("whole", AREA),
        (np.array(["whole"]), np.array(units)),
        (np.empty(0, dtype=np.int32), np.zeros(len(units), dtype=np.int32)),
    )


def _population(schema: Schema, sides: Sequence[Codes], units: Sequence[str]) -> Population:
    cell = [np.ravel_multi_index([one[n] for n in schema.names], schema.shape) for one in sides]
    return Population(
        units[0],
        Domain(schema, geography(units)),
        unit=np.repeat(np.arange(len(sides)), [len(one) for one in cell]).astype(np.int32),
        cell=np.concatenate(cell).astype(np.int32),
    )


class PeopleSource(Protocol):
    """Where areas come from."""

    @property
    def names(self) -> tuple[str, ...]:
        """The areas, in the order of the report."""

    def key(self) -> str:
        """A text that changes whenever the people do."""

    def area(self, name: str, draw: int = 0) -> Area:
        """One of them, or another block group of the same county."""


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Block groups of the nine counties of the paper, or of some of them."""

    names: tuple[str, ...] = tuple(place.name for place in places.counties())
    seed: int
    pool: int = places.POOL
    people: int | None = places.PEOPLE
    mixes: str = places.MIXES

    def __post_init__(self) -> None:
        for name in self.names:
            places.county(name)

    def key(self) -> str:
        """Seed, size of the pool and of a block group, how far blocks scatter."""
        size = self.people or f"{places.SMALLEST} to {places.LARGEST}"
        return f"synthetic seed {self.seed} pool {self.pool} people {size} mixes {self.mixes}"

    def area(self, name: str, draw: int = 0, *, detailed: bool = False) -> Area:
        """A block group, and a sample of its state."""
        place = places.county(name)
        return Area(
            name=name,
            draw=draw,
            rows=places.block_group(
                place,
                seed=self.seed,
                draw=draw,
                people=self.people,
                mixes=self.mixes,
                detailed=detailed,
            ),
            pool=_pool(place.state, self.seed, self.pool, detailed),
            races=len(RACE_SETS),
            order=national_order(),
            diversity=place.diversity,
        )


@lru_cache(maxsize=4)  # pieces of several counties may be at work at once
def _pool(state: str, seed: int, people: int, detailed: bool) -> Codes:
    return places.state_pool(state, seed=seed, people=people, detailed=detailed)


def national_order() -> tuple[int, ...]:
    """The national order of frequency with codes as swapping has them, 2 race + Hispanic."""
    hispanic, race = np.divmod(places.frequency_order(), len(RACE_SETS))
    return tuple((2 * race + hispanic).tolist())


@dataclass(frozen=True, kw_only=True)
class PeopleTable:
    """Areas of a table of people, one row per person; the pool is everyone outside the area."""

    path: Path
    names: tuple[str, ...]
    digest: str
    area_of: NDArray[np.str_]
    codes: Codes
    races: int

    def key(self) -> str:
        """The content of the file."""
        return f"table {self.digest}"

    def area(self, name: str, draw: int = 0) -> Area:
        """The people of one area and all others: there is one of each name."""
        here = self.area_of == name
        return Area(
            name=name,
            rows={column: values[here] for column, values in self.codes.items()},
            pool={column: values[~here] for column, values in self.codes.items()},
            races=self.races,
        )


def read_table(path: Path, *, column: str = "area", names: Sequence[str] = ()) -> PeopleTable:
    """Read a CSV or Parquet table of people: age, sex, race, hispanic and an area.

    Household size and tenure may be there too. Races are numbered in the order of their names,
    ages above 90 are 90, and households above 4 are 4.
    """
    table = tables.read_table(path, [*NEEDED, column, *OPTIONAL], optional=set(OPTIONAL))
    kept = [*NEEDED, *(name for name in OPTIONAL if name in table.columns)]
    for name in (*kept, column):
        if table[name].null_count():
            raise InputError(
                str(path), place=f"column {name!r}", found="an empty value", expected="none"
            )
    areas = table[column].cast(pl.String)
    codes: dict[str, NDArray[np.integer]] = {
        "age": np.minimum(_numbers(table["age"], path, low=0), AGES - 1),
        "hispanic": _yes_or_no(table["hispanic"], path),
    }
    for name in ("sex", "race", *(name for name in kept if name == "tenure")):
        values = table[name].cast(pl.String)
        levels = sorted(values.unique().to_list())
        codes[name] = values.replace_strict(levels, range(len(levels))).to_numpy().astype(np.int16)
    if "household_size" in kept:
        people = _numbers(table["household_size"], path, low=1)
        codes["household_size"] = np.minimum(people, LARGEST_HOUSEHOLD) - 1
    return PeopleTable(
        path=path,
        names=_chosen(path, areas, tuple(names), column),
        digest=sha256(path.read_bytes() + column.encode()).hexdigest(),
        area_of=areas.to_numpy().astype(np.str_),
        codes={name: values.astype(np.int16) for name, values in codes.items()},
        races=int(codes["race"].max()) + 1,
    )


def _numbers(values: pl.Series, path: Path, *, low: int) -> NDArray[np.int16]:
    whole = values.cast(pl.Int16, strict=False)
    wrong = values.filter(whole.is_null() | (whole < low))
    if len(wrong):
        raise InputError(
            str(path),
            place=f"column {values.name!r}",
            found=repr(wrong[0]),
            expected=f"whole numbers from {low}",
        )
    return whole.to_numpy()


def _yes_or_no(values: pl.Series, path: Path) -> NDArray[np.int16]:
    text = values.cast(pl.String).str.to_lowercase()
    wrong = text.filter(~text.is_in(list(YES_OR_NO)))
    if len(wrong):
        raise InputError(
            str(path),
            place="column 'hispanic'",
            found=repr(wrong[0]),
            expected="0 or 1, false or true, no or yes",
        )
    return text.replace_strict(YES_OR_NO).to_numpy().astype(np.int16)


def _chosen(path: Path, areas: pl.Series, names: tuple[str, ...], column: str) -> tuple[str, ...]:
    known = sorted(areas.unique().to_list())
    for name in names:
        if name not in known:
            raise InputError(
                str(path),
                place=f"column {column!r}",
                found=f"no area {name!r}",
                expected=f"one of {', '.join(known[:5])}{', ...' if len(known) > 5 else ''}",
            )
    if len(known) < 2:
        raise InputError(
            str(path), place=f"column {column!r}", found="one area", expected="people outside it"
        )
    if not names and len(known) > MOST_AREAS:
        raise InputError(
            f"study {NAME}",
            place="--counties",
            found=f"{len(known):,} areas in {path.name} and none chosen",
            expected=f"the areas to protect, or a table with at most {MOST_AREAS}",
        )
    chosen = names or tuple(known)
    for name in chosen:
        inside = int((areas == name).sum())
        if 2 * inside > len(areas):
            raise InputError(
                str(path),
                place=f"area {name!r}",
                found="more than half of all people",
                expected="a partner outside for everyone: leave it out, or add people",
            )
    return chosen
