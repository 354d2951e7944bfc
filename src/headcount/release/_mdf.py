"""Synthetic people and units as text in the layouts of the Census Bureau's MDF for 1940.

With what these layouts and those of 2020 have in common: lines of fields between bars.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.files import pieces, whole_files
from headcount.geography import Geography
from headcount.population.population import Quarters
from headcount.processes import Progress, silent
from headcount.release._tidy import LeafCounts, PlacedDwellings, PlacedPeople, place
from headcount.schema import Schema
from headcount.schema.load import load_schema


def bars(*columns: pl.Series) -> bytes:
    """Lines of columns between bars; a column may itself hold several fields."""
    buffer = io.BytesIO()
    frame = pl.DataFrame([column.alias(str(place)) for place, column in enumerate(columns)])
    frame.write_csv(buffer, include_header=False, separator="|", quote_style="never")
    return buffer.getvalue()


def comments(metadata: Sequence[str]) -> bytes:
    """Lines that begin with '#', before all others."""
    for line in metadata:
        if line.splitlines() not in ([line], []):
            raise InputError(
                "metadata", found=f"a line break in {line!r}", expected="single lines of text"
            )
    return "".join(f"# {line}\n" for line in metadata).encode()


def places(geography: Geography, leaf: Ints, fields: Callable[[str], str]) -> pl.Series:
    """The fields of each of some leaves in order, which may come several times."""
    first, last = (int(leaf[0]), int(leaf[-1])) if len(leaf) else (0, -1)
    codes = geography.units[-1][first : last + 1].tolist()
    texts = pl.Series([fields(code) for code in codes], dtype=pl.String)
    return texts.gather(leaf - first)


def refuse_other_lengths(geography: Geography, layout: str, parts: dict[str, int]) -> None:
    """Refuse leaves whose codes do not have the parts of a layout, so many characters each."""
    codes, length = geography.units[-1], sum(parts.values())
    wrong = np.flatnonzero(np.char.str_len(codes) != length)
    if len(wrong):
        said = ", ".join(f"{name} {number}" for name, number in parts.items())
        raise InputError(
            layout,
            place=f"{geography.leaf} {str(codes[wrong[0]])!r}",
            found="a code of a different length",
            expected=f"{length} characters: {said}",
        )


PERSON_FILE, UNIT_FILE = "MDF_PER.txt", "MDF_UNIT.txt"

BUILD = "3.1.4"
PLACE_FIELDS = ("SCHEMA_TYPE_CODE", "SCHEMA_BUILD_ID", "STATE", "COUNTY", "ENUMDIST", "EUID")
PERSON_FIELDS = (
    *PLACE_FIELDS,
    *("EPNUM", "RTYPE", "QREL", "QSEX", "QAGE", "CENHISP", "CENRACE", "QSPANX"),
    *(f"QRACE{number}" for number in range(1, 9)),
    "CIT",
)
UNIT_FILLERS = {
    "HHT": "9",
    "HHT2": "99",
    "NPF": "99",
    "CPLT": "9",
    "UPART": "9",
    "MULTG": "9",
    "HHLDRAGE": "999",
    "HHSPAN": "9",
    "HHRACE": "99",
    "PAOC": "9",
    "P18": "99",
    "P60": "99",
    "P65": "99",
    "P75": "99",
}
UNIT_FIELDS = (*PLACE_FIELDS, "RTYPE", "GQTYPE", "TEN", "VACS", "FINAL_POP", *UNIT_FILLERS)
GQTYPES = (0, 2, 3, 4, 6, 7, 8, 9)  # of IPUMS, for each type of the schema

LEAF_CODE = {"state": 2, "county": 4, "enumeration district": 4}


def write_mdf(
    counts: LeafCounts,
    *,
    schema: Schema,
    geography: Geography,
    quarters: Quarters,
    folder: Path,
    metadata: Sequence[str] = (),
    progress: Progress = silent,
) -> tuple[Path, Path]:
    """Write MDF_PER and MDF_UNIT as the 2018 end-to-end test did for 1940; say where they are.

    Fields between bars, no header, ``metadata`` as lines that begin with '#'. The layout has fields
    for the attributes of the schema e2e-2018 only. Both files appear whole or not at all.
    """
    refuse_other_layout(schema, geography, quarters)
    person_head = comments([*metadata, _fields(PERSON_FIELDS)])
    unit_head = comments([*metadata, _fields(UNIT_FIELDS)])
    placed = place(counts, schema=schema, geography=geography, quarters=quarters)
    people = _MdfPeople(geography)
    units = _MdfUnits(geography)
    with whole_files(folder / PERSON_FILE, folder / UNIT_FILE) as (person_file, unit_file):
        person_file.write(person_head)
        for start, stop in pieces(placed.people, "writing people", progress):
            person_file.write(people.text(placed.people_between(start, stop)))
        unit_file.write(unit_head)
        for start, stop in pieces(placed.quarters, "writing units", progress):
            unit_file.write(units.text(placed.quarters_between(start, stop), start))
    return folder / PERSON_FILE, folder / UNIT_FILE


class _MdfPeople:
    """Person lines: what depends on the leaf, EUID, EPNUM, and what depends on the cell."""

    def __init__(self, geography: Geography) -> None:
        self.geography = geography
        cells = np.ndindex(load_schema("e2e-2018").shape)
        self.traits = pl.Series([_traits(*levels) for levels in cells])

    def text(self, people: PlacedPeople) -> bytes:
        return bars(
            places(self.geography, people.leaf, _place("MPD1940")),
            pl.Series(people.quarters),
            pl.Series(people.number),
            self.traits.gather(people.cell),
        )


def _traits(kind: int, adult: int, hispanic: int, race: int) -> str:
    known = ["3" if kind == 0 else "5", "99", "9", "18" if adult else "17"]
    return "|".join([*known, str(hispanic + 1), str(race + 1), *["9999"] * 9, "9"])


class _MdfUnits:
    """Unit lines: what depends on the leaf, EUID, what depends on the type, and FINAL_POP."""

    def __init__(self, geography: Geography) -> None:
        self.geography = geography
        facilities = [f"4|{gqtype}|0|0" for gqtype in GQTYPES[1:]]
        self.kinds = pl.Series(["2|0|9|0", *facilities, "2|0|0|9"])
        self.fillers = pl.Series(["|".join(UNIT_FILLERS.values())])

    def text(self, dwellings: PlacedDwellings, first: int) -> bytes:
        rows = len(dwellings.leaf)
        return bars(
            places(self.geography, dwellings.leaf, _place("MUD1940")),
            pl.Series(np.arange(first, first + rows)),
            self.kinds.gather(dwellings.slot),
            pl.Series(dwellings.people),
            self.fillers.gather(np.zeros(rows, dtype=np.int64)),
        )


def _place(layout: str) -> Callable[[str], str]:
    """The fields before EUID, from the code of a leaf."""
    return lambda code: f"{layout}|{BUILD}|{code[:2]}|{code[2:6]}|{code[6:]}"


def _fields(names: Sequence[str]) -> str:
    return f"Fields: {'|'.join(names)}"


def refuse_other_layout(schema: Schema, geography: Geography, quarters: Quarters) -> None:
    """Refuse a schema or geography that the layout has no fields for."""
    wanted = load_schema("e2e-2018")
    if schema.attributes != wanted.attributes or quarters.attribute != wanted.names[0]:
        raise InputError(
            "MDF layout",
            found=f"attributes {list(schema.names)}, living quarters by {quarters.attribute!r}",
            expected="the attributes and levels of schema 'e2e-2018', living quarters by 'hhgq' "
            "(tidy files take any schema)",
        )
    refuse_other_lengths(geography, "MDF layout", LEAF_CODE)
