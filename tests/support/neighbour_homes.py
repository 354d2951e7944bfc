"""People in dwellings as rows: one person or one household comes, goes or becomes another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from headcount.geography import Geography
from headcount.population.population import Households
from headcount.privacy import UnitOfPrivacy

Rng = np.random.Generator


@dataclass
class Home:
    """A dwelling and the people in it, each by the levels of their own attributes."""

    unit: int
    kind: str
    tenure: str
    people: list[tuple[str, ...]]


@dataclass
class DwellingFiles:
    """People in dwellings: two files with a key, and all that follows from who lives together."""

    homes: list[Home]
    units: Mapping[str, list[str]]
    persons: Mapping[str, tuple[str, ...]]
    kinds: tuple[str, ...]
    sizes: tuple[str, ...]
    attributes: tuple[str, ...]
    root: str = "whole"
    suffix: str = "csv"

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of the geography, from the whole to the leaf."""
        return (self.root, *self.units)

    def write(self, folder: Path) -> str:
        """``persons``, ``dwellings`` and ``units``."""
        number = range(len(self.homes))
        keys = [key for key in number for _ in self.homes[key].people]
        everyone = [person for home in self.homes for person in home.people]
        columns = zip(*everyone, strict=True) if everyone else ([] for _ in self.persons)
        persons = {"key": keys, **dict(zip(self.persons, map(list, columns), strict=True))}
        places = {
            level: [codes[home.unit] for home in self.homes] for level, codes in self.units.items()
        }
        dwellings = {
            "key": list(number),
            **places,
            "kind": [home.kind for home in self.homes],
            "people": [len(home.people) for home in self.homes],
            "tenure": [home.tenure for home in self.homes],
            "household_size": [self._size(home) for home in self.homes],
            "like_minded": [_alike(home) for home in self.homes],
        }
        for name, table in (("persons", persons), ("dwellings", dwellings), ("units", self.units)):
            frame = pl.DataFrame(table)
            if self.suffix == "csv":
                frame.write_csv(folder / f"{name}.csv")
            else:
                frame.write_parquet(folder / f"{name}.parquet")
        return self._config()

    def _size(self, home: Home) -> str:
        if home.kind != self.kinds[0]:
            return "none"
        return self.sizes[min(len(home.people), len(self.sizes)) - 1]

    def _config(self) -> str:
        end = self.suffix
        own = "".join(
            f'{{ name = "{name}", levels = {quoted(levels)} }},'
            for name, levels in self.persons.items()
        )
        return (
            f'kind = "households"\npersons = "persons.{end}"\ndwellings = "dwellings.{end}"\n'
            f'units = "units.{end}"\nkey = "key"\nkind_column = "kind"\nsize_column = "people"\n'
            f"kinds = {quoted(self.kinds)}\nattributes = {quoted(self.attributes)}\n"
            f'geography = {{ columns = {quoted(self.units)}, root = "{self.root}" }}\n'
            f"attribute = [{own}]\n"
            'dwelling_attribute = [{ name = "tenure", levels = ["own", "rent", "none"], '
            'follows = "dwelling" }, { name = "household_size", '
            f'levels = {quoted([*self.sizes, "none"])}, follows = "size" }}, '
            '{ name = "like_minded", levels = ["yes", "no", "none"], follows = "members" }]\n'
        )

    def step(self, unit: UnitOfPrivacy, rng: Rng) -> None:
        """One person or one household comes, goes, or becomes another, anywhere."""
        leave, enter = self._person_leaves, self._person_enters
        if unit.of_household:
            leave, enter = self._household_leaves, self._household_enters
        if unit.adds:
            (leave if rng.random() < 0.5 else enter)(rng)
        else:
            leave(rng)
            enter(rng)

    def _person_leaves(self, rng: Rng) -> None:
        home = self._occupied(rng)
        home.people.pop(int(rng.integers(len(home.people))))
        self._nobody_left(home)

    def _person_enters(self, rng: Rng) -> None:
        if rng.random() < 0.2:
            self.homes.append(self.new_home(rng, people=1))
            return
        home = self.homes[int(rng.integers(len(self.homes)))]
        if rng.random() < 0.5 and self._homes_with():
            home = self._occupied(rng)
        like = home.people[0] if home.people and rng.random() < 0.7 else self._person(rng)
        home.people.append(like)
        if home.kind == self.kinds[1]:
            home.kind, home.tenure = self.kinds[0], str(rng.choice(["own", "rent"]))

    def _household_leaves(self, rng: Rng) -> None:
        home = self._occupied(rng)
        if home.kind == self.kinds[0]:
            home.people.clear()
        else:
            home.people.pop(int(rng.integers(len(home.people))))
        self._nobody_left(home)

    def _household_enters(self, rng: Rng) -> None:
        facilities = [home for home in self.homes if home.kind not in self.kinds[:2]]
        if facilities and rng.random() < 0.2:
            facilities[int(rng.integers(len(facilities)))].people.append(self._person(rng))
            return
        new = self.new_home(rng, people=int(rng.integers(1, 8)))
        vacant = [home for home in self.homes if home.kind == self.kinds[1]]
        if not vacant or rng.random() < 0.4:
            self.homes.append(new)
            return
        home = vacant[int(rng.integers(len(vacant)))]
        home.kind, home.tenure, home.people = new.kind, new.tenure, new.people

    def _nobody_left(self, home: Home) -> None:
        if home.kind == self.kinds[0] and not home.people:
            home.kind, home.tenure = self.kinds[1], "none"

    def _homes_with(self) -> list[Home]:
        return [home for home in self.homes if home.people]

    def _occupied(self, rng: Rng) -> Home:
        """Somewhere that somebody lives, large households more often than others."""
        homes = self._homes_with()
        weight = np.array([min(len(home.people), 9) for home in homes], dtype=float)
        return homes[int(rng.choice(len(homes), p=weight / weight.sum()))]

    def new_home(self, rng: Rng, *, people: int) -> Home:
        """A household of so many people, often alike, often where others live."""
        unit = int(rng.integers(len(next(iter(self.units.values())))))
        if rng.random() < 0.5:
            unit = self.homes[int(rng.integers(len(self.homes)))].unit
        one = self._person(rng)
        alike = rng.random() < 0.6
        members = [one if alike else self._person(rng) for _ in range(people)]
        return Home(unit, self.kinds[0], str(rng.choice(["own", "rent"])), members)

    def _person(self, rng: Rng) -> tuple[str, ...]:
        return tuple(str(rng.choice(levels)) for levels in self.persons.values())


def _alike(home: Home) -> str:
    """Whether all in a household are alike: something that follows from who they are."""
    if home.tenure == "none":
        return "none"
    return "yes" if len(set(home.people)) <= 1 else "no"


def quoted(names: Iterable[str]) -> str:
    """A list of names as TOML has it."""
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def drawn_dwellings(rng: Rng) -> DwellingFiles:
    """A hamlet of a few homes, with a facility, in four blocks."""
    largest = int(rng.integers(1, 6))
    place = DwellingFiles(
        homes=[Home(0, "nursing", "none", [("f", "old")] * int(rng.integers(0, 4)))],
        units={"tract": ["a", "a", "b", "b"], "block": ["a1", "a2", "b1", "b2"]},
        persons={"sex": ("f", "m"), "age": ("young", "old")},
        kinds=("household", "vacant", "nursing"),
        sizes=(*(str(size) for size in range(1, largest)), f"{largest}+"),
        attributes=some(rng, ("sex", "age", "tenure", "household_size", "hhgq")),
    )
    for _ in range(int(rng.integers(2, 7))):
        place.homes.append(place.new_home(rng, people=int(rng.integers(1, 8))))
    place.homes.append(Home(int(rng.integers(4)), "vacant", "none", []))
    return place


def some(rng: Rng, names: tuple[str, ...]) -> tuple[str, ...]:
    """The first attribute, and each of the others as it comes."""
    return (names[0], *(name for name in names[1:] if rng.random() < 0.6))


def codes_by_level(tree: Geography) -> dict[str, list[str]]:
    """Columns of a file of units: the code of each leaf at every level below the whole."""
    return {
        level: codes[tree.ancestors(level)].tolist()
        for level, codes in zip(tree.levels[1:], tree.units[1:], strict=True)
    }


def from_households(state: Households, *, persons: tuple[str, ...]) -> DwellingFiles:
    """People in dwellings as rows that can be changed and written."""
    tree = state.geography
    own = {name: state.attribute(name).levels for name in persons}
    tenure, size = state.attribute("tenure").levels, state.attribute("household_size").levels
    codes = [np.array(own[name])[state.persons[name]].tolist() for name in persons]
    people = list(zip(*codes, strict=True))
    homes = [
        Home(
            unit=int(state.block[d]),
            kind=state.kinds[state.kind[d]],
            tenure=tenure[state.dwellings["tenure"][d]],
            people=people[state.first[d] : state.first[d + 1]],
        )
        for d in range(len(state.block))
    ]
    return DwellingFiles(
        homes=homes,
        units=codes_by_level(tree),
        persons=own,
        kinds=state.kinds,
        sizes=tuple(level for level in size if level != "none"),
        attributes=(*persons, "tenure", "household_size"),
        root=tree.levels[0],
        suffix="parquet",
    )
