"""Writing people in dwellings as tables that can be read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Codes, Ints32
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.population.dwellings import Households
from headcount.schema import Attribute

KEY = "dwelling"


def write_households(households: Households, folder: Path) -> None:
    """Write ``persons.parquet``, ``dwellings.parquet`` and ``units.parquet`` into a new folder.

    ``dwelling`` is the key in the first two; dwellings have a code column for each level, their
    ``kind`` and ``size``; units are all leaves, with the areas they lie in. This is the truth:
    where the population is not made up, the folder is as confidential as the source.
    """
    if folder.exists():
        raise InputError(str(folder), found="a folder", expected="a new one, to write into")
    tree = households.geography
    number = np.arange(len(households.block))
    persons = {KEY: pl.Series(households.dwelling)} | _labels(
        households.person_attributes, households.persons
    )
    dwellings = {
        KEY: pl.Series(number),
        **_codes(tree, households.block),
        "kind": _label(households.kinds, households.kind),
        "size": pl.Series(households.size),
        **_labels(households.dwelling_attributes, households.dwellings),
    }
    leaves = np.arange(tree.size(tree.leaf), dtype=np.int32)
    units = _codes(tree, leaves)
    for area in households.areas:
        # Position -1 is the last: no area.
        codes = pl.Series([*area.codes.tolist(), None], dtype=pl.String)
        units[area.name] = codes.gather(area.of_leaf % (area.size + 1))
    folder.mkdir(parents=True)
    for name, table in (("persons", persons), ("dwellings", dwellings), ("units", units)):
        pl.DataFrame(table).write_parquet(folder / f"{name}.parquet")


def _codes(tree: Geography, leaf: Ints32) -> dict[str, pl.Series]:
    """A column of unit codes for each level below the whole."""
    return {
        level: _label(tuple(tree.units[depth].tolist()), tree.ancestors(level)[leaf])
        for depth, level in enumerate(tree.levels)
        if depth
    }


def _labels(attributes: tuple[Attribute, ...], codes: Codes) -> dict[str, pl.Series]:
    return {a.name: _label(a.levels, codes[a.name]) for a in attributes}


def _label(levels: tuple[str, ...], codes: NDArray[np.integer]) -> pl.Series:
    return pl.Series(levels, dtype=pl.String).gather(codes.astype(np.int64))
