"""Where measurements were made: the tree of their units, and the places that are published.

Files made here have both in files of their own. In files of the Bureau the units of a level are
those of its constraints. A unit's code begins with that of its parent, and a block's code on the
optimised spine ends in its 16 digits of tabulation: state, county, tract, block group, block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints32
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.geography.build import CodeColumns, geography_of
from headcount.release.layout import UNITS
from headcount.release.store import geography_of_file
from headcount.topdown.measurements._files import Described, is_text, opened, rows_of, sound
from headcount.topdown.measurements.form import SPINE, plain

SAID = ("levels", "schema", "mechanism", "guarantee")
"""What the file of places says of a run."""

TABULATION = {"state": 2, "county": 5, "tract": 11, "blockgroup": 12, "block": 16}
"""Where the codes of each level end in the 16 digits of a block."""


def described_places(folder: Path) -> tuple[Geography, Described] | None:
    """The places of files that have them beside; None where they do not."""
    path = folder / f"{UNITS}.parquet"
    if not path.is_file():
        return None
    about = Described.by(path)
    missing = [name for name in SAID if name not in about.said]
    if missing:
        raise InputError(
            str(path),
            place="metadata",
            found=f"nothing about {missing[0]}",
            expected="what headcount writes there (an older version did not: publish anew)",
        )
    published = _read(path, about)
    if (spine := folder / f"{SPINE}.parquet").is_file():
        published = replace(published, spine=_read(spine, Described.by(spine)))
    return published, about


def _read(path: Path, about: Described) -> Geography:
    levels = about.said.get("levels", [])
    with opened(path) as file:
        names = file.schema_arrow.names
        kinds = dict(zip(names, file.schema_arrow.types, strict=True))
    if not levels or any(level not in names for level in levels[1:]):
        raise InputError(
            str(path),
            place="columns",
            found=f"columns {names}",
            expected=f"a column of codes for each level: {', '.join(levels[1:])}",
        )
    for level in levels[1:]:
        if not is_text(kinds[level]):
            raise InputError(
                str(path),
                place=f"column {level!r}",
                found=f"values of type {kinds[level]}",
                expected="codes, as text",
            )
    with sound(path):
        found = geography_of_file(path, levels)
    root = np.array([about.said.get("root", levels[0])])
    return replace(found, units=(root, *found.units[1:]))


def codes_in(files: Sequence[Path]) -> pl.Series:
    """The units that stand in some files, each once, in order."""
    found: list[pl.Series] = [pl.Series("geocode", [], dtype=pl.String)]
    for path in files:
        with opened(path) as file:
            for group in range(file.num_row_groups):
                column = rows_of(file, path, group, ["geocode"])["geocode"]
                codes = pl.Series("geocode", pl.from_arrow(column)).cast(pl.String)
                found.append(codes.unique())
    return pl.concat(found).unique().sort()


def tree_of_codes(codes: Mapping[str, pl.Series], *, source: Path) -> Geography:
    """The tree of units whose codes begin with their parents'; the first level is the whole."""
    levels = tuple(codes)
    units: list[NDArray[np.str_]] = []
    parents: list[Ints32] = []
    for depth, (level, column) in enumerate(codes.items()):
        own = column.to_numpy().astype(np.str_)
        if depth == 0:
            if len(own) != 1:
                raise InputError(
                    str(source),
                    place=f"level {level!r}",
                    found=f"{len(own)} geounits",
                    expected="one: the whole",
                )
            parent = np.empty(0, dtype=np.int32)
        elif depth == 1:
            parent = np.zeros(len(own), dtype=np.int32)
        else:
            parent = _parents(column, codes[levels[depth - 1]], level, source)
        units.append(own)
        parents.append(parent)
    return Geography(levels, tuple(units), tuple(parents))


def _parents(column: pl.Series, above: pl.Series, level: str, source: Path) -> Ints32:
    """The number of the unit above whose code each code begins with: the longest there is."""
    numbers = pl.DataFrame({"above": above}).with_row_index("parent")
    found = pl.DataFrame({"code": column}).with_columns(parent=pl.lit(None, dtype=pl.UInt32))
    for length in sorted(above.str.len_chars().unique().to_list(), reverse=True):
        cut = pl.DataFrame({"above": column.str.slice(0, length)})
        joined = cut.join(numbers, on="above", how="left", maintain_order="left")["parent"]
        found = found.with_columns(pl.col("parent").fill_null(joined))
    if found["parent"].null_count():
        code = found.filter(pl.col("parent").is_null())["code"][0]
        raise InputError(
            str(source),
            place=f"level {level!r}, geounit {code!r}",
            found="a code that begins with no geounit's of the level above",
            expected="codes that begin with that of their parent",
        )
    return found["parent"].to_numpy().astype(np.int32)


def tabulated(tree: Geography) -> Geography:
    """The published places of a spine's blocks, by their own codes, with the spine.

    A tree whose lowest level is above the blocks has none: its own units are published.
    """
    ends = [TABULATION.get(plain(level)) for level in tree.levels[1:]]
    leaf = pl.Series(tree.units[-1])
    last = TABULATION["block"]
    if None in ends or ends[-1] != last or not (leaf.str.len_chars() > last).all():
        return tree
    own = leaf.str.tail(last)
    if own.n_unique() != len(own) or not own.str.contains(r"^\d+$").all():
        raise InputError(
            "measurements",
            place=f"level {tree.leaf!r}",
            found="codes that do not end in 16 digits of their own",
            expected="the code of each block at its end",
        )
    # The spine's leaves are known by the same codes as the published ones.
    spine = replace(tree, units=(*tree.units[:-1], own.to_numpy().astype(np.str_)))
    named = {level: own.str.slice(0, end) for level, end in zip(tree.levels[1:], ends, strict=True)}
    source = CodeColumns(columns=tree.levels[1:], root=tree.levels[0])
    places = pl.DataFrame({str(k): named[level] for k, level in enumerate(tree.levels[1:])})
    published = geography_of(places.sort(places.columns), source, name="measurements")
    return replace(published, spine=spine)


def without_part(code: str) -> str:
    """A code on the spine without its first character, which says which part of a unit it is."""
    return code[1:]


def in_parts(codes: NDArray[np.str_]) -> Flags:
    """Units whose codes differ from another's in the first character alone: which part it is."""
    whole = np.array([without_part(code) for code in codes.tolist()])
    _, number, times = np.unique(whole, return_inverse=True, return_counts=True)
    return np.asarray((times[number] > 1) & (np.char.str_len(whole) > 0))
