"""The people of the study: synthetic towns, people of a file, and blocks cut into parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.domain import Domain
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.schema import Attribute, Schema, load_schema
from headcount.schema.schema import bin_labels, bin_of
from headcount.tabulate import Counts, Tabulated
from headcount_papers.without_noise.settings import PART, Settings

PLACES = ("state", "county", "tract", "block_group", "block")
AGES, VOTING = "census-23", ("minor", "adult")
REDISTRICTING, BY_AGE = "redistricting", "age"


@dataclass(frozen=True, eq=False, kw_only=True)
class People:
    """Some people, with the tables that are wanted of them.

    where
        detail    "redistricting" (who is of age, by race and origin) or "age" (sex by 23 ages too)
        called    whose
        known     attributes that an attacker knows of everybody
        secret    those that he wants
        data      the people, counted
        homes     whether it is known who lives with whom, so that households can be swapped
    """

    detail: str
    called: str
    known: tuple[str, ...]
    secret: tuple[str, ...]
    data: Tabulated
    homes: bool

    @property
    def counts(self) -> Counts:
        """True counts at the leaf."""
        return self.data.counts


def every_people(settings: Settings, draw: int) -> Iterator[People]:
    """Those of one draw: a state of its own, or the people of the files."""
    if settings.persons is not None:
        yield _of_counts(BY_AGE, settings.persons, *_persons(settings.persons))
    if settings.counts is not None:
        yield _of_counts(REDISTRICTING, settings.counts, *_counted(settings.counts))
    if not settings.own:
        yield from _towns(settings.people, settings.seed + draw)


def _towns(people: int, seed: int) -> Iterator[People]:
    """One state in both details."""
    from headcount.population.from_households import to_population
    from headcount.population.towns import towns

    known = load_schema("sex-age38-race7-hispanic")
    sex, race, origin = (known.attribute(name) for name in ("sex", "race", "hispanic"))
    made = towns(people=people, seed=seed)
    for detail, ages, first in (
        (REDISTRICTING, ("0-17", "18+"), ()),
        (BY_AGE, bin_labels(AGES), (sex,)),
    ):
        schema = Schema((*first, Attribute("age", ages), race, origin))
        yield People(
            detail=detail,
            called="towns",
            known=(*(one.name for one in first), "age"),
            secret=("race", "hispanic"),
            data=Tabulated.of(to_population(made, schema=schema)),
            homes=True,
        )


def cut(people: People) -> People | None:
    """The same people in blocks that are cut into parts of about ``PART``; None of files.

    Persons stand in the order of their homes, so housemates mostly stay together.
    """
    population = people.data.people
    if population is None or population.count is not None:
        return None
    order = np.argsort(population.unit, kind="stable")
    unit = population.unit[order].astype(np.int64)
    geography = population.geography
    size = np.bincount(unit, minlength=geography.size(geography.leaf))
    parts = np.maximum(1, np.rint(size / PART)).astype(np.int64)
    first = np.cumsum(parts) - parts
    rank = np.arange(len(unit)) - np.repeat(np.cumsum(size) - size, size)
    new = first[unit] + rank * parts[unit] // size[unit]
    codes = np.repeat(geography.units[-1], parts)
    number = np.arange(len(codes)) - np.repeat(first, parts)
    leaves = np.array([f"{a}.{b}" for a, b in zip(codes.tolist(), number.tolist(), strict=True)])
    parent = np.repeat(np.arange(len(parts)), parts).astype(np.int32)
    finer = Geography(
        (*geography.levels, "part"), (*geography.units, leaves), (*geography.parents, parent)
    )
    domain = replace(people.counts.domain, geography=finer)
    return replace(
        people,
        called=f"towns, blocks cut into parts of about {PART}",
        data=Tabulated.of(Counts(domain, "part", _matrix(new, population.cell[order], domain))),
        homes=False,
    )


def _matrix(unit: Any, cell: Any, domain: Domain, many: Any = None) -> Any:
    from scipy.sparse import coo_array, csr_array

    ones = np.ones(len(unit), dtype=np.int64) if many is None else many
    shape = (domain.geography.size(domain.geography.leaf), domain.schema.size)
    return csr_array(coo_array((ones, (unit, cell)), shape=shape))


def _of_counts(detail: str, path: Path, counts: Counts, known: Sequence[str]) -> People:
    secret = tuple(name for name in counts.schema.names if name not in known)
    return People(
        detail=detail,
        called=path.name,
        known=tuple(known),
        secret=secret,
        data=Tabulated.of(counts),
        homes=False,
    )


def _read(path: Path) -> pl.DataFrame:
    parquet = path.read_bytes()[:4] == b"PAR1"
    frame = pl.read_parquet(path) if parquet else pl.read_csv(path, infer_schema=False)
    if not {*PLACES} & {*frame.columns}:
        found = ", ".join(frame.columns[:12])
        raise InputError(path.name, found=f"columns {found}", expected=f"some of {PLACES}")
    return frame


def _column(frame: pl.DataFrame, name: str, path: Path) -> list[str]:
    if name not in frame.columns or frame[name].null_count():
        found = "rows without a value" if name in frame.columns else "no such column"
        raise InputError(path.name, place=name, found=found, expected=f"a whole column {name!r}")
    return frame[name].cast(pl.String).to_list()


def _geography(frame: pl.DataFrame, path: Path) -> tuple[Geography, Ints]:
    """The places of a file, each code within those of the levels above it; rows' leaves."""
    levels = [name for name in PLACES if name in frame.columns]
    columns = [np.array(_column(frame, name, path)) for name in levels]
    here = np.zeros(len(frame), dtype=np.int64)
    names, units, parents = ["whole"], [np.array(["whole"])], [np.zeros(0, dtype=np.int32)]
    for name, codes in zip(levels, columns, strict=True):
        both = np.array([f"{a:09d} {b}" for a, b in zip(here.tolist(), codes, strict=True)])
        _, first, back = np.unique(both, return_index=True, return_inverse=True)
        names.append(name)
        units.append(codes[first])
        parents.append(here[first].astype(np.int32))
        here = back.astype(np.int64)
    return Geography(tuple(names), tuple(units), tuple(parents)), here


def _persons(path: Path) -> tuple[Counts, Sequence[str]]:
    frame = _read(path)
    geography, leaf = _geography(frame, path)
    codes: dict[str, list[str]] = {
        name: _column(frame, name, path) for name in ("sex", "race", "hispanic")
    }
    years = _column(frame, "age", path)
    if wrong := [one for one in years if not one.isdigit()]:
        raise InputError(path.name, place="age", found=repr(wrong[0]), expected="whole years")
    codes["age"] = [str(bin_of(int(one), AGES)) for one in years]
    levels = {name: tuple(sorted(set(codes[name]))) for name in ("sex", "race", "hispanic")}
    levels["age"] = bin_labels(AGES)
    return _tally(geography, leaf, codes, levels, ("sex", "age", "race", "hispanic")), (
        "sex",
        "age",
    )


def _counted(path: Path) -> tuple[Counts, Sequence[str]]:
    frame = _read(path)
    geography, leaf = _geography(frame, path)
    names = [one for one in frame.columns if one.endswith(("_minor", "_adult"))]
    groups = tuple(dict.fromkeys(one.rpartition("_")[0] for one in names))
    if len(names) != 2 * len(groups) or not groups:
        raise InputError(
            path.name, found=", ".join(names) or "none", expected="GROUP_minor and GROUP_adult each"
        )
    schema = Schema((Attribute("age", VOTING), Attribute("group", groups)))
    domain = Domain(schema, geography)
    many = np.column_stack(
        [frame[f"{g}_{age}"].cast(pl.Int64).to_numpy() for age in VOTING for g in groups]
    )
    row, column = np.nonzero(many)
    return Counts(domain, geography.leaf, _matrix(leaf[row], column, domain, many[row, column])), (
        "age",
    )


def _tally(
    geography: Geography,
    leaf: Ints,
    codes: Mapping[str, list[str]],
    levels: Mapping[str, tuple[str, ...]],
    names: Sequence[str],
) -> Counts:
    domain = Domain(Schema(tuple(Attribute(name, levels[name]) for name in names)), geography)
    cell = np.zeros(len(leaf), dtype=np.int64)
    for name in names:
        number = {level: n for n, level in enumerate(levels[name])}
        cell = cell * len(number) + np.array([number[one] for one in codes[name]])
    return Counts(domain, geography.leaf, _matrix(leaf, cell, domain))
