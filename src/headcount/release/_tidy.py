"""Synthetic people and living quarters as two tidy Parquet tables, for any schema and geography."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.population.quarters import Quarters
from headcount.progress import Progress, silent
from headcount.release._placement import LeafCounts, PlacedDwellings, PlacedPeople, place
from headcount.release.streamed import pieces, whole_files
from headcount.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

PEOPLE_FILE, QUARTERS_FILE = "people.parquet", "quarters.parquet"


def write_tidy(
    counts: LeafCounts,
    *,
    schema: Schema,
    geography: Geography,
    quarters: Quarters,
    folder: Path,
    progress: Progress = silent,
) -> tuple[Path, Path]:
    """Write people and living quarters as two Parquet tables, for any schema and geography.

    People: the codes of their place, ``quarters_id``, ``person_number`` and each attribute by the
    name of its level. Living quarters: the codes, ``quarters_id``, ``type``, ``vacant`` and
    ``population``; a vacant one has no type. Both files appear whole or not at all.
    """
    import pyarrow.parquet as pq

    tables = _Tables(schema, geography, quarters)
    placed = place(counts, schema=schema, geography=geography, quarters=quarters)
    # Written from dictionaries, which is fast; without the Arrow schema readers see plain text.
    options: dict[str, Any] = {"compression": "zstd", "store_schema": False}
    with whole_files(folder / PEOPLE_FILE, folder / QUARTERS_FILE) as (people_file, quarters_file):
        columns = tables.people(placed.people_between(0, 0)).schema
        with pq.ParquetWriter(people_file, columns, **options) as writer:
            for start, stop in pieces(placed.people, "writing people", progress):
                writer.write_table(tables.people(placed.people_between(start, stop)))
        columns = tables.quarters(placed.quarters_between(0, 0), 0).schema
        with pq.ParquetWriter(quarters_file, columns, **options) as writer:
            for start, stop in pieces(placed.quarters, "writing living quarters", progress):
                writer.write_table(tables.quarters(placed.quarters_between(start, stop), start))
    return folder / PEOPLE_FILE, folder / QUARTERS_FILE


def refuse_same_names(schema: Schema, geography: Geography) -> None:
    """Refuse a domain whose two tables would have two columns of one name."""
    levels = geography.levels[1:] or geography.levels
    for others in (
        ("quarters_id", "person_number", *schema.names),
        ("quarters_id", "type", "vacant", "population"),
    ):
        names = [*levels, *others]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(
                "tidy files",
                place=f"column {twice[0]!r}",
                found="two columns of that name",
                expected="geography levels and attributes with names of their own",
            )


class _Tables:
    """Arrow tables of people and living quarters; text columns are dictionaries."""

    def __init__(self, schema: Schema, geography: Geography, quarters: Quarters) -> None:
        self.schema = schema
        self.geography = geography
        self.levels = geography.levels[1:] or geography.levels
        self.types = [*schema.attribute(quarters.attribute).levels]
        refuse_same_names(schema, geography)

    def people(self, people: PlacedPeople) -> pa.Table:
        import pyarrow as pa

        columns = self._codes(people.leaf)
        columns["quarters_id"] = pa.array(people.quarters)
        columns["person_number"] = pa.array(people.number)
        levels = np.unravel_index(people.cell, self.schema.shape)
        for attribute, level in zip(self.schema.attributes, levels, strict=True):
            columns[attribute.name] = _named(attribute.levels, level)
        return pa.table(columns)

    def quarters(self, dwellings: PlacedDwellings, first: int) -> pa.Table:
        import pyarrow as pa

        vacant = dwellings.slot == len(self.types)
        columns = self._codes(dwellings.leaf)
        columns["quarters_id"] = pa.array(np.arange(first, first + len(vacant)))
        columns["type"] = _named(self.types, np.where(vacant, 0, dwellings.slot), missing=vacant)
        columns["vacant"] = pa.array(vacant)
        columns["population"] = pa.array(dwellings.people)
        return pa.table(columns)

    def _codes(self, leaf: Ints) -> dict[str, pa.Array]:
        columns = {}
        some = range(int(leaf[0]), int(leaf[-1]) + 1) if len(leaf) else range(0)
        for level in self.levels:
            unit = self.geography.ancestors(level, units=some)[leaf - some.start]
            # Leaves come in order, so their ancestors do: a short dictionary is enough.
            first, last = (int(unit[0]), int(unit[-1])) if len(unit) else (0, 0)
            codes = self.geography.units[self.geography.depth(level)][first : last + 1]
            columns[level] = _named(codes.tolist(), unit - first)
        return columns


def _named(names: Sequence[str], numbers: Any, *, missing: Any = None) -> pa.Array:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(
        pa.array(np.asarray(numbers, dtype=np.int32), mask=missing), pa.array(list(names))
    )
