"""Small trees and tables of the census of 2020, for its presets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from headcount.geography import Geography
from headcount.geography.geography import regular
from headcount.geography.spine import LEVELS


def full_tree(levels: tuple[str, ...] = LEVELS) -> Geography:
    """Two children under every unit: nobody is an only child."""
    made = regular(children=2, depth=len(levels) - 1)
    tree = Geography(levels, made.units, made.parents)
    return replace(tree, spine=tree)


def tables(seed: int = 1, *, state: str = "") -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Blocks, units and persons of two small states, or of one without Indian areas.

    Some tracts have one block, one county one tract, and some blocks lie in an area.
    """
    rng = np.random.default_rng(seed)
    blocks, units, persons = [], [], []
    for one in (state,) if state else ("04", "44"):
        for county, tracts in (("001", 2), ("003", 1)):
            for tract in range(tracts):
                for block in range(1 if tract else 9):
                    code = f"{one}{county}{tract:06}{1000 + 400 * block:04}"
                    inside = not state and block % 4 == 1
                    blocks.append(
                        {
                            "block": code,
                            "state": one,
                            "county": f"{one}{county}",
                            "tract": f"{one}{county}{tract:06}",
                            "area": "0012" if inside else "9999",
                            "place": f"{block % 2:05}",
                            "subdivision": f"{block % 3:05}",
                        }
                    )
                    units += [(code, "000", 1, 4), (code, "000", 0, 2)]
                    persons += _people(rng, code, "000", int(rng.integers(3, 15)))
                    if block % 3 == 0:
                        units.append((code, "301", 1, 1))
                        persons += _people(rng, code, "301", int(rng.integers(1, 6)))
    return (
        pl.DataFrame(blocks),
        pl.DataFrame(units, schema=["block", "gqtype", "occupied", "count"], orient="row"),
        pl.DataFrame(
            persons, schema=["block", "gqtype", "age", "cenhisp", "cenrace"], orient="row"
        ),
    )


def _people(
    rng: np.random.Generator, code: str, kind: str, number: int
) -> list[tuple[str, str, int, int, int]]:
    least = 0 if kind == "000" else 18
    return [
        (code, kind, int(rng.integers(least, 90)), int(rng.integers(1, 3)), int(rng.integers(1, 8)))
        for _ in range(number)
    ]
