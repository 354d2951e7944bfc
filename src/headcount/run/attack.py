"""Attacks as commands run them: read a release, attack it, write what was found.

Whatever is worked out with the truth goes to files and lines that carry the confidential banner,
unless the data were declared public.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.attacks.kinds.reconstruction import Reconstruct
from headcount.attacks.kinds.reidentification import Reidentify, Target
from headcount.attacks.knowledge_from_release import knowledge_of_release
from headcount.attacks.records import Features, Records, records_from_rows, records_of
from headcount.attacks.reidentification import KnownPeople
from headcount.config.attack_files import read_known, read_tables_file, read_true_people
from headcount.config.load import load_config
from headcount.engines.local import LocalEngine
from headcount.errors import ConfigError, InputError, RunError, brief
from headcount.evaluate.attacked import matches_frame, rebuilt_frame
from headcount.evaluate.attackers import (
    COMMERCIAL,
    PERFECT,
    Quality,
    commercial_attacker,
    perfect_attacker,
)
from headcount.evaluate.reidentified import GUESS_WORDS, beside_guesses
from headcount.files import write_bytes_atomic, write_text_atomic
from headcount.geography import Geography
from headcount.population.tables import read_parquet
from headcount.release.store import (
    MANIFEST,
    UNITS,
    geography_of_units,
    read_release,
    schema_from_json,
    units_frame,
)
from headcount.report.model import CONFIDENTIAL_BANNER
from headcount.schema import Schema
from headcount.tabulate.published import tables

SUMMARY, RECORDS = "summary.json", "records"
ATTACKERS = (PERFECT, COMMERCIAL)
MOVES = "moves.txt"
AGREEMENT_WORDS = (
    "Records that agree with the truth one to one on sex, race, origin and age (exact), or its bin "
    "(binned), or on sex and age as far as the tables tell them apart (told). Records that are "
    "certain are certain only as far as the tables tell them apart."
)


@dataclass(frozen=True, eq=False)
class TrueRecords:
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
    source: Path, out: Path, attack: Reconstruct, *, truth: Path | None = None
) -> Found:
    """Records from the tables of a release, or of a TOML file that lists tables."""
    refuse_used(out)
    made = list(tables(attack.tables).values()) if source.suffix != ".toml" else []
    knowledge = (
        knowledge_of_release(
            read_release(release_folder(source)).unweighted(),
            made,
            together=attack.together or None,
        )
        if made
        else read_tables_file(source)
    )
    features = Features.of(knowledge.schema)
    real = None if truth is None else load_truth(truth, features, knowledge.geography)
    claims = attack.from_tables(knowledge, engine=LocalEngine())
    out.mkdir(parents=True, exist_ok=True)
    geography = claims.geography
    write_frames(out, {**claims.frames(), "units": units_frame(geography, geography.leaf)})
    if moves := claims.found.moves:
        write_text_atomic(out / MOVES, "\n".join(map(str, moves)) + "\n")
    return finish(
        out,
        "Reconstruction",
        claims.facts,
        None if real is None else rebuilt_frame(claims, real.records),
        _may_show(real),
        name="agreement",
        words=AGREEMENT_WORDS,
    )


def run_reidentify(
    source: Path,
    out: Path,
    attack: Reidentify,
    *,
    known: Path | None = None,
    attacker: str = "",
    quality: Quality | None = None,
    truth: Path | None = None,
) -> Found:
    """Named people matched to the records of a reconstruction, or of a release of counts."""
    refuse_used(out)
    _refuse_other_files(known, attacker, truth)
    target = _target(source)
    # People are told apart as they are in truth, not as the records are.
    features = Features.of(target.records.features.schema)
    real = None if truth is None else load_truth(truth, features, target.geography)
    ids, people = _people(known, attacker, quality, attack.seed, real, features, target.geography)
    claims = attack.match(people, target)
    out.mkdir(parents=True, exist_ok=True)
    write_frames(out, {"putative": claims.putative(ids)})
    scores = None if real is None else matches_frame(claims, real.records)
    return finish(
        out,
        "Re-identification",
        claims.facts,
        scores,
        _may_show(real),
        name="reid",
        words=GUESS_WORDS,
        shown=None if scores is None else beside_guesses(scores),
    )


def _refuse_other_files(known: Path | None, attacker: str, truth: Path | None) -> None:
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


def _people(
    known: Path | None,
    attacker: str,
    quality: Quality | None,
    seed: int,
    real: TrueRecords | None,
    features: Features,
    geography: Geography,
) -> tuple[pl.Series, KnownPeople]:
    """The attacker's rows with their ids; person numbers are rows of the truth, if there is one."""
    if known is None:
        assert real is not None  # checked before anything was read
        made = (
            perfect_attacker(real.records)
            if attacker == PERFECT
            else commercial_attacker(real.records, geography=geography, quality=quality, seed=seed)
        )
        return real.ids[made.person], made
    named = read_known(known, features, geography)
    if real is None:
        return named.ids, named.known
    person = positions(real.ids, named.ids)
    if len(person) and person.max() < 0:
        raise InputError(
            str(known),
            place="column 'person'",
            found="no id that is in the truth",
            expected="ids of the truth: its column person, or with a config the row number, from 0",
        )
    return named.ids, replace(named.known, person=person)


def positions(known: pl.Series, wanted: pl.Series) -> Ints:
    """For each wanted name its first position among the known, or -1."""
    rows = pl.DataFrame({"name": known}).with_row_index("at").unique("name", keep="first")
    found = wanted.to_frame("name").join(rows, on="name", how="left", maintain_order="left")["at"]
    return found.cast(pl.Int64).fill_null(-1).to_numpy().astype(np.int64)


def load_truth(path: Path, features: Features, geography: Geography) -> TrueRecords:
    """The truth from a config of ``headcount protect``, or from a table of persons."""
    if path.suffix != ".toml":
        ids, records = read_true_people(path, features, geography)
        return TrueRecords(records, ids, False)
    people = load_config(path).population.read()
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
    return TrueRecords(records, ids, people.public)


def release_folder(source: Path) -> Path:
    """The release below a run directory, or the directory itself."""
    for folder in (source / "release", source):
        if (folder / MANIFEST).is_file():
            return folder
    raise RunError(
        f"{source}: found no release, expected a directory made by headcount protect, or a .toml "
        f"file that lists tables"
    )


def _target(source: Path) -> Target:
    """The records to attack: those of a reconstruction, or of a release of whole people."""
    if (source / f"{RECORDS}.parquet").is_file():
        return _rebuilt(source)
    try:
        release = read_release(release_folder(source)).as_counts().unweighted()
    except InputError:
        raise RunError(
            f"{source}: found published tables, expected records; run headcount attack "
            f"reconstruct on it first, and give its --out here"
        ) from None
    features = Features.of(release.schema)
    records = records_of(release.at(release.geography.leaf), features)
    return Target(records=records, geography=release.geography, zero=None, years=features.years)


def _rebuilt(source: Path) -> Target:
    """What ``headcount attack reconstruct`` wrote; nothing says that it is still whole."""
    try:
        summary = json.loads((source / SUMMARY).read_text(encoding="utf-8"))
        schema = schema_from_json(summary["domain"])
        geography = geography_of_units(read_parquet(source / UNITS), summary["domain"]["levels"])
        groups = np.array(summary["groups"], dtype=np.int64)
        years = bool(summary["years"])
        features = replace(Features.of(schema), binned=groups, years=years)
        frame = read_parquet(source / f"{RECORDS}.parquet")
        numbers = geography.unit_numbers
        block = np.array([numbers[code] for code in frame[geography.leaf].to_list()], dtype=int)
        count = frame["count"].to_numpy()
        cell = _cells(frame, schema)
        records = records_from_rows(np.repeat(block, count), np.repeat(cell, count), features)
        blocks = read_parquet(source / "blocks.parquet")
        zero = None
        if blocks["variability"].is_not_null().any():
            same = (blocks["variability"] == 0).fill_null(False)
            zero = (blocks["proven"] & same & ~blocks["conflict"]).to_numpy()
        return Target(records=records, geography=geography, zero=zero, years=years)
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


def _may_show(real: TrueRecords | None) -> bool:
    return real is None or real.public


def refuse_used(out: Path) -> None:
    """Refuse to write over anything."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out}: found existing content, expected a new or empty directory")


def write_frames(out: Path, frames: Mapping[str, pl.DataFrame]) -> None:
    """Write Parquet files, each whole or not at all."""
    for name, frame in frames.items():
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd")
        write_bytes_atomic(out / f"{name}.parquet", buffer.getvalue())


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
    plain = [
        f"{key.replace('_', ' ')}: {_plain(value)}"
        for key, value in facts.items()
        if key not in ("domain", "kind", "groups")
    ]
    write_text_atomic(out / SUMMARY, json.dumps({**facts, "banner": banner}, indent=2) + "\n")
    listed = "\n".join(f"- {line}" for line in plain)
    parts = [f"# {title}", *([f"**{banner}**"] if banner else []), listed]
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
