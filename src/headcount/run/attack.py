"""Attacks as commands run them: read a release, attack it, write what was found.

Whatever is worked out with the truth goes to files and lines that carry the confidential banner,
unless the data were declared public.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.attacks.knowledge import Held, Knowledge
from headcount.attacks.reconstruction import Reconstruction, reconstruct
from headcount.attacks.records import Features, Records, records_from_rows, records_of
from headcount.attacks.reidentification import KnownPeople, Putative, reidentify
from headcount.attacks.released import knowledge_of_release, tells_years
from headcount.attacks.solvers import CP_SAT, HIGHS
from headcount.attacks.variability import Effort
from headcount.config.attack_files import read_known, read_tables_file, read_true_people
from headcount.config.build import build_population
from headcount.config.load import load_config
from headcount.engines.local import LocalEngine
from headcount.errors import ConfigError, InputError, RunError, brief
from headcount.evaluate.agreement import agreement
from headcount.evaluate.attackers import (
    COMMERCIAL,
    PERFECT,
    Quality,
    commercial_attacker,
    perfect_attacker,
)
from headcount.evaluate.reidentified import GUESS_WORDS, beside_guesses, reidentified
from headcount.files import write_bytes_atomic, write_text_atomic
from headcount.geography import Geography
from headcount.population.tables import read_parquet
from headcount.release.store import (
    MANIFEST,
    UNITS,
    geography_of_units,
    read_release,
    schema_from_json,
    schema_to_json,
    units_frame,
)
from headcount.report.model import CONFIDENTIAL_BANNER
from headcount.schema import Schema
from headcount.tabulate.published import tables
from headcount.tabulate.published.codings import find_attribute

Ints = NDArray[np.int64]

SUMMARY, RECORDS, BLOCKS = "summary.json", "records.parquet", "blocks.parquet"
ATTACKERS = (PERFECT, COMMERCIAL)
MOVES, MOVES_SHOWN = "moves.txt", 5
AGREEMENT_WORDS = (
    "Records that agree with the truth one to one on sex, race, origin and age (exact), or its bin "
    "(binned), or that part of sex and age which the tables tell apart (told). Records that are "
    "certain are so in what is told only."
)


@dataclass(frozen=True, eq=False)
class Truth:
    """The truth for scoring: everyone's record, their ids, and whether it may be shown."""

    records: Records
    ids: pl.Series
    public: bool


@dataclass(frozen=True, eq=False)
class Found:
    """What an attack found: lines to say, a table of scores if there is a truth, the folder."""

    lines: tuple[str, ...]
    scores: pl.DataFrame | None
    public: bool
    out: Path


def run_reconstruct(
    source: Path,
    out: Path,
    *,
    product: str = "sf1",
    together: str | None = None,
    on_conflict: str = "report",
    variability: bool = True,
    solver: str = HIGHS,
    seconds: float = 10.0,
    truth: Path | None = None,
) -> Found:
    """Records from the tables of a release, or of a TOML file that lists tables."""
    refuse_used(out)
    if solver not in (HIGHS, CP_SAT):
        raise ConfigError(
            "headcount attack reconstruct", place="--solver", found=repr(solver),
            expected=f"{HIGHS!r} or {CP_SAT!r}",
        )  # fmt: skip
    knowledge = _knowledge(source, product, together)
    features = Features.of(knowledge.schema)
    real = None if truth is None else load_truth(truth, features, knowledge.geography)
    found = reconstruct(
        knowledge, together=together, on_conflict=on_conflict, variability=variability,
        effort=Effort(solver=solver, seconds=seconds), engine=LocalEngine(),
    )  # fmt: skip
    years = together is not None or tells_years(found.class_of, features.key)
    told = features.told_by(found.class_of, years=years)
    out.mkdir(parents=True, exist_ok=True)
    write_frame(out / RECORDS, records_frame(found))
    write_frame(out / BLOCKS, _blocks_frame(found))
    write_frame(out / UNITS, units_frame(found.geography, found.geography.leaf))
    if found.moves:
        write_text_atomic(out / MOVES, "\n".join(map(str, found.moves)) + "\n")
    facts = _reconstruction_facts(found, knowledge, told, measured=variability)
    scores = None
    if real is not None:
        scores = _agreement_frame(found, features, told, real.records)
    return finish(
        out, "Reconstruction", facts, scores, _may_show(real), name="agreement",
        words=AGREEMENT_WORDS,
    )  # fmt: skip


def _agreement_frame(
    found: Reconstruction, features: Features, told: Features, truth: Records
) -> pl.DataFrame:
    """Agreement by size of block: on age, its bin, and what the tables tell of sex and age."""
    leaves = found.geography.size(found.geography.leaf)
    own = agreement(records_of(found.matrix, features), truth, blocks=leaves)
    as_told = agreement(
        records_of(found.matrix, told), replace(truth, features=told), blocks=leaves
    )
    return pl.DataFrame(
        [
            {"blocks": name, "people": one.people, "records": one.records,
             "exact_percent": one.exact_percent, "binned_percent": one.binned_percent,
             "told_percent": as_told[name].binned_percent}
            for name, one in own.items()
        ]
    )  # fmt: skip


def run_reidentify(
    source: Path,
    out: Path,
    *,
    known: Path | None = None,
    attacker: str = "",
    quality: Quality | None = None,
    orders: int = 10,
    seed: int = 0,
    truth: Path | None = None,
) -> Found:
    """Named people matched to the records of a reconstruction, or of a release of counts."""
    refuse_used(out)
    if (known is None) == (not attacker):
        raise ConfigError(
            "headcount attack reidentify",
            found="--known and --attacker" if known else "neither --known nor --attacker",
            expected="one of them: a file of named people, or one made from the truth",
        )
    if attacker and (truth is None or attacker not in ATTACKERS):
        raise ConfigError(
            "headcount attack reidentify",
            place="--attacker",
            found=repr(attacker) + ("" if truth else " without --truth"),
            expected=f"{PERFECT!r} or {COMMERCIAL!r}, with --truth, from which it is made",
        )
    records, geography, zero, years = _records(source)
    features = Features.of(records.features.schema)  # people are told apart as they are in truth
    real = None if truth is None else load_truth(truth, features, geography)
    ids, people = _people(known, attacker, quality, seed, real, features, geography)
    first = next(reidentify(people, records, orders=1, seed=seed, years=years))
    out.mkdir(parents=True, exist_ok=True)
    write_frame(out / "putative.parquet", _putative_frame(ids, people, records, first, geography))
    facts = {
        "kind": "reidentification",
        "attacker": people.name,
        "people": len(people),
        "putative": int(first.matched.sum()),
        "on_age": int((first.grade == 1).sum()),
        "on_age_bin": int((first.grade == 2).sum()),
        "years_of_age_used": years,
        "seed": seed,
    }
    scores = None
    if real is not None:
        scores = reidentified(
            records, people, real.records, geography=geography, zero_variability=zero,
            orders=orders, seed=seed, years=years,
        )  # fmt: skip
    return finish(
        out,
        "Re-identification",
        facts,
        scores,
        _may_show(real),
        name="reid",
        words=GUESS_WORDS,
        shown=None if scores is None else beside_guesses(scores),
    )


def _people(
    known: Path | None,
    attacker: str,
    quality: Quality | None,
    seed: int,
    real: Truth | None,
    features: Features,
    geography: Geography,
) -> tuple[pl.Series, KnownPeople]:
    """The attacker's rows with their ids; person numbers are rows of the truth, if there is one."""
    if known is not None:
        named = read_known(known, features, geography)
        if real is None:
            return named.ids, named.known
        rows = pl.DataFrame({"person": real.ids}).with_row_index("row")
        found = named.ids.to_frame("person").join(
            rows, on="person", how="left", maintain_order="left"
        )
        person = found["row"].cast(pl.Int64).fill_null(-1).to_numpy().astype(np.int64)
        if len(person) and person.max() < 0:
            raise InputError(
                str(known), place="column 'person'", found="nobody of the truth",
                expected="ids of the truth: its column person, or of a config the number of the "
                "row, from 0",
            )  # fmt: skip
        return named.ids, KnownPeople(
            name=named.known.name, features=features, person=person, block=named.known.block,
            key=named.known.key,
        )  # fmt: skip
    assert real is not None  # checked before anything was read
    made = (
        perfect_attacker(real.records)
        if attacker == PERFECT
        else commercial_attacker(real.records, geography=geography, quality=quality, seed=seed)
    )
    return real.ids[made.person], made


def load_truth(path: Path, features: Features, geography: Geography) -> Truth:
    """The truth from a config of ``headcount protect``, or from a table of persons."""
    if path.suffix != ".toml":
        ids, records = read_true_people(path, features, geography)
        return Truth(records, ids, False)
    people = build_population(load_config(path))
    if people.schema != features.schema:
        raise InputError(
            str(path), found="a population on another schema", expected="the release's schema"
        )
    numbers = geography.unit_numbers
    own, level = people.geography, geography.leaf  # the release may end above the leaf
    codes = own.units[own.depth(level)][own.ancestors(level)]
    place = np.array([numbers.get(str(code), -1) for code in codes])
    unit, cell = people.unit, people.cell
    if people.count is not None:
        unit, cell = np.repeat(unit, people.count), np.repeat(cell, people.count)
    if len(unit) and place[unit].min() < 0:
        raise InputError(
            str(path), found="people outside the release's units", expected="the same geography"
        )
    records = records_from_rows(place[unit], cell, features)
    ids = pl.Series("person", np.arange(len(unit))).cast(pl.String)
    return Truth(records, ids, people.public)


def _knowledge(source: Path, product: str, together: str | None) -> Knowledge:
    if source.suffix == ".toml":
        return read_tables_file(source)
    known = tables(product)
    return knowledge_of_release(
        read_release(release_folder(source)), list(known.values()), together=together
    )


def release_folder(source: Path) -> Path:
    """The release below a run directory, or the directory itself."""
    for folder in (source / "release", source):
        if (folder / MANIFEST).is_file():
            return folder
    raise RunError(
        f"{source}: found no release, expected a directory made by headcount protect, or a .toml "
        f"file that lists tables"
    )


def _records(source: Path) -> tuple[Records, Geography, NDArray[np.bool_] | None, bool]:
    """Records with their geography, blocks of zero variability, and whether ages are years."""
    if (source / RECORDS).is_file():
        return _kept_records(source)
    try:
        release = read_release(release_folder(source)).as_counts()
    except InputError:
        raise RunError(
            f"{source}: found published tables, expected records; run headcount attack "
            f"reconstruct on it first, and give its --out here"
        ) from None
    features = Features.of(release.schema)
    records = records_of(release.at(release.geography.leaf), features)
    return records, release.geography, None, features.years


def _kept_records(source: Path) -> tuple[Records, Geography, NDArray[np.bool_] | None, bool]:
    """What ``headcount attack reconstruct`` wrote; nothing says that it is still whole."""
    try:
        summary = json.loads((source / SUMMARY).read_text(encoding="utf-8"))
        schema = schema_from_json(summary["domain"])
        geography = geography_of_units(read_parquet(source / UNITS), summary["domain"]["levels"])
        groups = np.array(summary["groups"], dtype=np.int64)
        features = replace(Features.of(schema), binned=groups, years=bool(summary["years"]))
        frame = read_parquet(source / RECORDS)
        numbers = geography.unit_numbers
        block = np.array([numbers[code] for code in frame[geography.leaf].to_list()], dtype=int)
        count = frame["count"].to_numpy()
        cell = _cells(frame, schema)
        records = records_from_rows(np.repeat(block, count), np.repeat(cell, count), features)
        blocks = read_parquet(source / BLOCKS)
        zero = None
        if blocks["variability"].is_not_null().any():
            same = (blocks["variability"] == 0).fill_null(False)
            zero = (blocks["proven"] & same & ~blocks["conflict"]).to_numpy()
        return records, geography, zero, bool(summary["years"])
    except (LookupError, TypeError, ValueError, InputError, pl.exceptions.PolarsError) as error:
        raise RunError(
            f"{source}: found damaged files ({brief(str(error))}), expected what headcount attack "
            f"reconstruct wrote there"
        ) from None


def _cells(frame: pl.DataFrame, schema: Schema) -> Ints:
    cell = np.zeros(frame.height, dtype=np.int64)
    for attribute in schema.attributes:
        codes = frame[attribute.name].replace_strict(
            list(attribute.levels), list(range(attribute.size)), return_dtype=pl.Int64
        )
        cell = cell * attribute.size + codes.to_numpy()
    return cell


def records_frame(found: Reconstruction) -> pl.DataFrame:
    """Reconstructed records: block, attributes, and how many people share them."""
    schema, geography = found.schema, found.geography
    levels = np.unravel_index(found.cell, schema.shape)
    return pl.DataFrame(
        {
            geography.leaf: geography.units[-1][found.unit].tolist(),
            **{
                attribute.name: np.array(attribute.levels)[code].tolist()
                for attribute, code in zip(schema.attributes, levels, strict=True)
            },
            "count": found.count,
        },
        schema_overrides={geography.leaf: pl.String, "count": pl.Int64}
        | dict.fromkeys(schema.names, pl.String),
    )


def _blocks_frame(found: Reconstruction) -> pl.DataFrame:
    return pl.DataFrame(
        {
            found.geography.leaf: found.geography.units[-1].tolist(),
            "people": found.people,
            "method": found.method.tolist(),
            "proven": found.proven,
            "variability": pl.Series(found.variability, dtype=pl.Float64).fill_nan(None),
            "conflict": found.conflict,
        }
    )


def _reconstruction_facts(
    found: Reconstruction, knowledge: Knowledge, features: Features, *, measured: bool
) -> dict[str, Any]:
    with_people = found.people > 0
    zero = with_people & found.certain
    methods, times = np.unique(found.method, return_counts=True)
    unused = [h for h in knowledge.tables if f"{h.name} at {h.level!r}" in found.unused]
    return {
        "kind": "reconstruction",
        "tables": _by_level(held for held in knowledge.tables if held not in unused),
        "unused": _by_level(unused),
        "blocks": len(found.method),
        "blocks_with_records": int(with_people.sum()),
        "records": int(found.count.sum()),
        "methods": dict(zip(methods.tolist(), times.tolist(), strict=True)),
        "not_proven": int((~found.proven).sum()),
        "zero_variability_blocks": int(zero.sum()) if measured else None,
        "zero_variability_records": int(found.people[zero].sum()) if measured else None,
        "conflicts": int(found.conflict.sum()),
        "cells_that_must_move": len(found.moves),
        **({"for_example": [str(one) for one in found.moves[:MOVES_SHOWN]]} if found.moves else {}),
        "years": features.years,
        "groups": features.binned.tolist(),
        "domain": {**schema_to_json(found.schema), "levels": list(found.geography.levels)},
    }


def _by_level(tables: Iterable[Held]) -> list[str]:
    """Tables in few words: "P1 P2 at block"."""
    names: dict[str, list[str]] = {}
    for held in tables:
        names.setdefault(held.level, []).append(held.name)
    return [f"{' '.join(own)} at {level}" for level, own in names.items()]


def _putative_frame(
    ids: pl.Series, people: KnownPeople, records: Records, first: Putative, geography: Geography
) -> pl.DataFrame:
    """Everyone who was matched, with the race and origin of the record (first order of ties)."""
    who = np.flatnonzero(first.matched)
    secret = records.secret[first.record[who]]
    schema = records.features.schema
    learnt = [a for role in ("race", "hispanic") if (a := find_attribute(schema, role)) is not None]
    codes = np.unravel_index(secret, [a.size for a in learnt])
    return pl.DataFrame(
        {
            "person": ids.gather(who.tolist()),
            geography.leaf: geography.units[-1][people.block[who]].tolist(),
            **{
                a.name: np.array(a.levels)[code].tolist()
                for a, code in zip(learnt, codes, strict=True)
            },
            "matched_on": pl.Series(np.where(first.grade[who] == 1, "age", "age bin").tolist(),
                                    dtype=pl.String),
        }
    )  # fmt: skip


def _may_show(real: Truth | None) -> bool:
    return real is None or real.public


def refuse_used(out: Path) -> None:
    """Refuse to write over anything."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out}: found something there, expected a new or empty directory")


def write_frame(path: Path, frame: pl.DataFrame) -> None:
    """Write Parquet, whole or not at all."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    write_bytes_atomic(path, buffer.getvalue())


def finish(
    out: Path,
    title: str,
    facts: Mapping[str, Any],
    scores: pl.DataFrame | None,
    public: bool,
    *,
    name: str,
    words: str = "",
    shown: pl.DataFrame | None = None,
) -> Found:
    """Write the summary, and the scores with their banner."""
    banner = "" if public else CONFIDENTIAL_BANNER
    plain = [f"{key.replace('_', ' ')}: {_plain(value)}" for key, value in facts.items()
             if key not in ("domain", "kind", "groups")]  # fmt: skip
    write_text_atomic(out / SUMMARY, json.dumps({**facts, "banner": banner}, indent=2) + "\n")
    parts = [f"# {title}", *([f"**{banner}**"] if banner else []), "\n".join(f"- {line}"
             for line in plain)]  # fmt: skip
    if scores is not None:
        write_text_atomic(out / f"{name}.csv", scores.write_csv())
        parts += [words, _markdown(scores if shown is None else shown)]
    write_text_atomic(out / "summary.md", "\n\n".join(part for part in parts if part) + "\n")
    return Found(tuple(plain), scores if shown is None else shown, public, out)


def _plain(value: object) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, dict):
        return ", ".join(f"{key} {number}" for key, number in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _markdown(frame: pl.DataFrame) -> str:
    rows = [frame.columns, ["---"] * frame.width]
    rows += [
        [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in frame.iter_rows()
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
