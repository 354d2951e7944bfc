"""Tables of the census of 2020 for the search among neighbours: one row a person, or a home."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headcount.privacy import UnitOfPrivacy
from tests.support.neighbour_homes import Rng

TRACT = "44001000100"
BLOCKS = tuple(f"{TRACT}{number}" for number in (1000, 1001, 2000, 2001))
AREAS = ("9999", "0012", "9999", "0012")
STAY = [(code, "000", "1") for code in BLOCKS]
"""Homes that no step moves: which blocks have any is no secret, and the list of blocks."""
BLOCK_COLUMNS = "block,state,county,tract,area,place,subdivision"
LEVELS = ("us", "state", "county", "tract", "block_group", "block")


@dataclass
class CensusFiles:
    """Rows of people (block, quarters, age, origin, race), or of homes (block, occupied)."""

    rows: list[tuple[str, ...]]
    attributes: tuple[str, ...]
    homes: bool = False
    levels: tuple[str, ...] = LEVELS

    def write(self, folder: Path) -> str:
        """``blocks.csv``, and ``persons.csv`` or ``units.csv``."""
        places = [
            f"{code},44,44001,{TRACT},{area},1,1" for code, area in zip(BLOCKS, AREAS, strict=True)
        ]
        _write(folder / "blocks.csv", BLOCK_COLUMNS, places)
        name = "units" if self.homes else "persons"
        header = "block,gqtype,occupied" if self.homes else "block,gqtype,age,cenhisp,cenrace"
        rows = [*STAY, *self.rows] if self.homes else self.rows
        _write(folder / f"{name}.csv", header, [",".join(row) for row in rows])
        kind = "h1-2020" if self.homes else "redistricting-2020"
        return f'kind = "{kind}"\n{name} = "{name}.csv"\nblocks = "blocks.csv"\n'

    def step(self, unit: UnitOfPrivacy, rng: Rng) -> None:
        """Add a row, take one away, or put another in the place of one.

        A person who moves leaves one home vacant and makes another occupied.
        """
        if self.homes and not unit.of_housing_unit:
            for before, after in (("1", "0"), ("0", "1")):
                where = [k for k, row in enumerate(self.rows) if row[2] == before]
                if where:
                    k = int(rng.choice(where))
                    self.rows[k] = (*self.rows[k][:2], after)
            return
        if not unit.adds or rng.random() < 0.5:
            self.rows.pop(int(rng.integers(len(self.rows))))
            if unit.adds:
                return
        self.rows.insert(int(rng.integers(len(self.rows) + 1)), _row(rng, homes=self.homes))


def drawn_census(rng: Rng, *, homes: bool) -> CensusFiles:
    """Some people, or homes."""
    attributes = ("h1",) if homes else ("hhgq", "votingage", "hispanic", "cenrace")
    return CensusFiles([_row(rng, homes=homes) for _ in range(30)], attributes, homes)


def _row(rng: Rng, *, homes: bool) -> tuple[str, ...]:
    block = str(rng.choice(BLOCKS))
    if homes:
        return block, "000", str(rng.integers(2))
    kind, age = str(rng.choice(["000", "301", "901"])), int(rng.integers(18, 90))
    return block, kind, str(age), str(rng.integers(1, 3)), str(rng.integers(1, 64))


def _write(path: Path, header: str, lines: list[str]) -> None:
    path.write_text("\n".join([header, *lines]) + "\n", "utf-8")
