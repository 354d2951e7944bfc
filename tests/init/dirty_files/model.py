"""People in places by attributes, and a file made of them: what every reader is held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

import numpy as np

from tests.init.dirty_files.words import LANGUAGES, Words

Cell = str | int | float
Role = Literal["place", "attribute", "count", "total", "other"]


@dataclass(frozen=True)
class Attribute:
    """What is known of people; ``ages`` are levels in order, which may be put together."""

    name: str
    levels: tuple[str, ...]
    ages: bool = False


@dataclass(frozen=True)
class World:
    """Places that nest, and how many people of each combination of levels are in each."""

    words: Words
    level_names: tuple[str, ...]
    codes: tuple[tuple[str, ...], ...]
    """For each leaf the codes of the places that it is in, from the top down, itself last."""
    labels: tuple[tuple[str, ...], ...]
    attributes: tuple[Attribute, ...]
    counts: np.ndarray
    """People, by leaf and then by each attribute."""

    @property
    def people(self) -> int:
        return int(self.counts.sum())

    @property
    def places(self) -> int:
        return len(self.codes)

    def of(self, *names: str) -> World:
        """Only these attributes, in this order."""
        at = [[a.name for a in self.attributes].index(name) for name in names]
        gone = tuple(1 + k for k in range(len(self.attributes)) if k not in at)
        counts = self.counts.sum(axis=gone)
        kept = sorted(at)
        counts = counts.transpose(0, *(1 + kept.index(k) for k in at))
        return replace(self, attributes=tuple(self.attributes[k] for k in at), counts=counts)

    def without_places(self) -> World:
        """The same people in one place."""
        counts = self.counts.sum(axis=0, keepdims=True)
        return replace(self, codes=(("1",),), labels=(("",),), level_names=("",), counts=counts)


@dataclass(frozen=True)
class Column:
    """A column: what it is, and its names in the lines of the head from the top down."""

    role: Role
    head: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A row of the table; ``total`` if others add up to it."""

    cells: tuple[Cell, ...]
    total: bool = False


@dataclass(frozen=True)
class Style:
    """How a table becomes a file."""

    encoding: str = "utf-8"
    delimiter: str = ","
    thousands: str = ""
    decimal: str = "."
    xlsx: bool = False
    quoted: bool = False


@dataclass(frozen=True)
class Case:
    """A table, and the readings of it that are right.

    where
        right       pairs of people and places; without one every reading is wrong
        tables      populations that an attribute may have been read from
        proved      sums or words say which columns make up everybody, though names be hidden
        ask         why no reading of it is sure; blank for a table that a tool may read
        slack       counts were changed, so that attributes agree only nearly
    """

    shape: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    tables: tuple[World, ...]
    right: frozenset[tuple[int, int]]
    proved: bool
    ask: str = ""
    slack: bool = False
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    dirt: tuple[str, ...] = ()
    style: Style = field(default_factory=Style)
    again: Callable[[Random], Case] | None = None
    """The same layout for the people of another date."""

    def at(self, *roles: Role) -> list[int]:
        """Columns of these roles."""
        return [k for k, column in enumerate(self.columns) if column.role in roles]

    def asked(self, why: str, *right: tuple[int, int]) -> Case:
        """The same, but no reading of it is sure; those that are right all the same."""
        return replace(self, ask=self.ask or why, right=frozenset(right))


# --- people -----------------------------------------------------------------------------------

SYLLABLES = ("ba", "dor", "en", "fal", "gri", "hu", "ke", "lin", "mo", "nes", "pra", "rus", "ti")


def make_world(random: Random, *, people: int = 0) -> World:
    """Some places and people; with a number of people that many rows or a few more."""
    words = LANGUAGES[random.choice([*LANGUAGES, "en", "en"])]
    codes, labels, depth = _places(random)
    attributes = [
        Attribute(words.sex[0], words.sex[1:]),
        _ages(words, random),
        Attribute(words.marital[0], words.marital[1 : random.randint(4, 5)]),
        Attribute(words.group[0], words.group[1 : random.randint(5, 6)]),
    ]
    shape = [len(a.levels) for a in attributes]
    rng = np.random.default_rng(random.getrandbits(32))
    size = rng.lognormal(0, 0.7, len(codes))
    odds = np.ones(shape)
    for axis in range(len(shape)):
        own = rng.dirichlet(np.full(shape[axis], 8.0))
        odds = odds * own.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    own = rng.lognormal(0, 0.3, (len(codes), *shape)) * odds
    many = people or int(10 ** random.uniform(3.5, 6.5))
    want = own * size.reshape(-1, *[1] * len(shape))
    counts = rng.poisson(want * many / want.sum())
    for leaf in np.flatnonzero(counts.reshape(len(codes), -1).sum(axis=1) == 0):
        counts[leaf].flat[0] = 3  # nobody can find a place where nobody lives
    names = random.choice(words.places)[-depth:]
    return World(words, names, codes, labels, tuple(attributes), counts)


def jittered(world: World, random: Random) -> World:
    """The same places at another date."""
    rng = np.random.default_rng(random.getrandbits(32))
    counts = np.rint(world.counts * rng.uniform(0.9, 1.12, world.counts.shape)).astype(int)
    counts.reshape(world.places, -1)[:, 0] += 1 + rng.integers(0, 3, world.places)
    return replace(world, counts=counts)


def _ages(words: Words, random: Random) -> Attribute:
    starts = random.choice(
        [(0, 18), (0, 15, 65), (0, 18, 45, 65), (0, 5, 15, 25, 45, 65), tuple(range(0, 90, 10))]
    )
    name, to, over = words.age
    style = random.choice(["0-4", "0 to 4", "00-04"])
    levels = []
    for low, high in zip(starts, [*(s - 1 for s in starts[1:]), 0], strict=True):
        if not high:
            levels.append(f"{low}+" if style != "0 to 4" else f"{low} {over}")
        elif style == "0 to 4":
            levels.append(f"{low} {to} {high}")
        else:
            levels.append(f"{low:02}-{high:02}" if style == "00-04" else f"{low}-{high}")
    return Attribute(name, tuple(levels), ages=True)


def _places(random: Random) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...], int]:
    depth = random.choice([1, 2, 2, 3])
    fan = {1: [random.randint(9, 40)], 2: [random.randint(2, 5), 6], 3: [2, 3, 5]}[depth]
    paths: list[tuple[int, ...]] = [()]
    for width in fan:
        paths = [
            (*path, k)
            for path in paths
            for k in range(width if not path else random.randint(max(2, width - 2), width + 2))
        ]
    scheme = random.choice(["nested", "nested", "letters", "zeros", "numbers"])
    gaps = random.randint(1, 3)
    wide = 3 if scheme == "zeros" else 2
    first = random.randint(1, 9) if scheme == "numbers" else 1
    nodes = sorted({path[: k + 1] for path in paths for k in range(depth)})
    names = _names(random, len(nodes))
    code = {}
    for number, node in enumerate(nodes):
        digits = "".join(f"{1 + gaps * k:0{wide}}" for k in node)
        code[node] = {
            "letters": f"{'RDM'[len(node) - 1]}{digits}",
            "numbers": f"{first}{number:03}",  # says nothing of what it is in
        }.get(scheme, digits)
    label = dict(zip(nodes, names, strict=True))
    steps = [[path[: k + 1] for k in range(depth)] for path in paths]
    return (
        tuple(tuple(code[one] for one in step) for step in steps),
        tuple(tuple(label[one] for one in step) for step in steps),
        depth,
    )


def _names(random: Random, number: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < number:
        found["".join(random.choices(SYLLABLES, k=random.randint(2, 4))).title()] = None
    return list(found)
