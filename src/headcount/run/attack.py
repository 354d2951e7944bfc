"""Attacks as commands make them: read the files, attack, write what was found.

Releases, tables, named people and the truth are read, and refused if need be, before an attack
begins. Whatever is worked out with the truth goes to files and lines that carry the confidential
banner, unless the data were declared public.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.attacks import Claims, People
from headcount.attacks.differencing import Difference, Slivers
from headcount.attacks.knowledge import knowledge_of_release
from headcount.attacks.linkage import Link, Linked
from headcount.attacks.reconstruction import BLOCKS, RECORDS, Rebuilt, Reconstruct, change_words
from headcount.attacks.records import Features, Records, records_from_rows
from headcount.attacks.reidentification import KnownPeople, Matches, Reidentify, Target
from headcount.config.attack_files import (
    LinkFiles,
    positions,
    read_known,
    read_rows,
    read_tables_file,
    read_true_people,
    rows_of_release,
)
from headcount.config.load import load_people
from headcount.engines import EngineName
from headcount.errors import ConfigError, InputError, RunError, brief
from headcount.evaluation.attacked import linked_frame, matches_frame, rebuilt_frame
from headcount.evaluation.counts_found import slivers_frame
from headcount.evaluation.reidentified import (
    COMMERCIAL,
    GUESS_WORDS,
    PERFECT,
    Quality,
    beside_guesses,
    commercial_attacker,
    perfect_attacker,
)
from headcount.files import from_json, write_bytes_atomic, write_text_atomic
from headcount.geography import Geography
from headcount.population.tables import read_parquet
from headcount.release.layout import UNITS
from headcount.release.store import (
    geography_of_units,
    read_release,
    release_folder,
    schema_from_json,
)
from headcount.report.model import CONFIDENTIAL_BANNER
from headcount.run.protect import engine_named
from headcount.schema import Schema
from headcount.tabulate import tabulate
from headcount.tabulate.published import tables

SUMMARY = "summary.json"
C = TypeVar("C", bound=Claims)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Scoring(Generic[C]):
    """How claims are compared with the truth.

    where
        file      name of the table of scores
        score     makes it
        public    whether it may be shown
        words     what the scores are
        heading   the same in a few words, for a terminal
        short     makes the table that a summary shows
        columns   of that table those that a terminal shows; all of them if none is named
    """

    file: str
    score: Callable[[C], pl.DataFrame]
    public: bool
    words: str
    heading: str
    short: Callable[[pl.DataFrame], pl.DataFrame] = lambda scores: scores
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Attempt(Generic[C]):
    """An attack for which every file has been read.

    where
        title     heading of the summary
        claim     makes the attack; it never sees the truth
        ids       of the people whom the attacker knows
        scoring   compares the claims with the truth: one, or none without a truth
    """

    title: str
    claim: Callable[[], C]
    ids: pl.Series
    scoring: tuple[_Scoring[C], ...] = ()


@dataclass(frozen=True, eq=False)
class _AttackOutcome:
    """What an attack found: lines to say, tables of scores by heading, the folder."""

    lines: tuple[str, ...]
    scores: dict[str, pl.DataFrame]
    public: bool
    out: Path


def run_attack(opened: Callable[[], Attempt[C]], out: Path) -> _AttackOutcome:
    """Make an attack: claims before scores, and nothing is written before both are made."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out}: found existing content, expected a new or empty directory")
    attempt = opened()
    claims = attempt.claim()
    scored = [(one, one.score(claims)) for one in attempt.scoring]
    out.mkdir(parents=True, exist_ok=True)
    for name, frame in claims.frames(attempt.ids).items():
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd")
        write_bytes_atomic(out / f"{name}.parquet", buffer.getvalue())
    for name, text in claims.notes().items():
        write_text_atomic(out / name, text)
    public = all(one.public for one in attempt.scoring)
    banner = "" if public else CONFIDENTIAL_BANNER
    summary = json.dumps({**claims.facts, "banner": banner}, indent=2)
    write_text_atomic(out / SUMMARY, summary + "\n")
    lines = [
        f"{key.replace('_', ' ')}: {_plain(value)}"
        for key, value in claims.facts.items()
        if key not in ("domain", "kind", "groups")
    ]
    parts = [f"# {attempt.title}", f"**{banner}**" if banner else ""]
    parts.append("\n".join(f"- {line}" for line in lines))
    shown = {}
    for one, scores in scored:
        write_text_atomic(out / f"{one.file}.csv", scores.write_csv())
        table = one.short(scores)
        parts += [one.words, _markdown(table)]
        shown[one.heading] = table.select(one.columns or table.columns)
    write_text_atomic(out / "summary.md", "\n\n".join(part for part in parts if part) + "\n")
    return _AttackOutcome(tuple(lines), shown, public, out)


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


ATTACKERS = (PERFECT, COMMERCIAL)
AGREEMENT_WORDS = (
    "Records that agree with the truth one to one on sex, race, origin and age (exact), or its bin "
    "(binned), or on sex and age as far as the tables tell them apart (told). Records that are "
    "certain are certain only as far as the tables tell them apart."
)
SLIVER_WORDS = (
    "A piece is the part of a unit of one release that lies in a unit of the other. Its count is "
    "claimed if its range is one number; outside are counts whose range does not have the true one."
)
LINKAGE_WORDS = (
    "The attacker cannot see which matches are right, and some are right by chance: most people "
    "who look alike share the secret."
)


@dataclass(frozen=True, eq=False)
class _TrueRecords:
    """The truth for scoring: everyone's record, their ids, and whether it may be shown."""

    records: Records
    ids: pl.Series
    public: bool


def open_reconstruct(
    attack: Reconstruct,
    source: Path,
    *,
    truth: Path | None = None,
    engine: EngineName | None = None,
) -> Attempt[Rebuilt]:
    """Records from the tables of a release, or of a TOML file that lists tables."""
    words = ""
    if source.suffix == ".toml":
        knowledge = read_tables_file(source)
    else:
        release = attack.read(read_release(release_folder(source)).unweighted())
        made = list(tables(attack.tables).values())
        knowledge = knowledge_of_release(release, made, together=attack.together or None)
        words = change_words(release)
    features = Features.of(knowledge.schema)
    scoring: tuple[_Scoring[Rebuilt], ...] = ()
    if truth is not None:
        real = _load_truth(truth, features, knowledge.geography)
        scoring = (
            _Scoring(
                file="agreement",
                score=lambda claims: rebuilt_frame(claims, real.records),
                public=real.public,
                words=AGREEMENT_WORDS,
                heading="records that agree with the truth, % of people",
            ),
        )
    return Attempt(
        title="Reconstruction",
        claim=lambda: attack.from_tables(knowledge, words, engine=engine_named(engine, None)),
        ids=pl.Series(dtype=pl.String),
        scoring=scoring,
    )


def open_reidentify(
    attack: Reidentify,
    source: Path,
    *,
    known: Path | None = None,
    attacker: str = "",
    quality: Quality | None = None,
    truth: Path | None = None,
) -> Attempt[Matches]:
    """Named people matched to the records of a reconstruction, or of a release of counts."""
    _refuse_other_files(known, attacker, truth)
    target = _target(source)
    # People are told apart as they are in truth, not as the records are.
    features = Features.of(target.records.features.schema)
    real = None if truth is None else _load_truth(truth, features, target.geography)
    ids, people = _people(known, attacker, quality, attack.seed, real, features, target.geography)
    scoring: tuple[_Scoring[Matches], ...] = ()
    if real is not None:
        records = real.records
        scoring = (
            _Scoring(
                file="reid",
                score=lambda claims: matches_frame(claims, records),
                public=real.public,
                words=GUESS_WORDS,
                heading="claims that are right, % of matches, beside guesses from the block",
                short=beside_guesses,
                columns=(
                    "universe",
                    "putative",
                    "precision_%",
                    "modal_guess_%",
                    "proportional_guess_%",
                ),
            ),
        )
    return Attempt(
        title="Re-identification",
        claim=lambda: attack.match(people, target),
        ids=ids,
        scoring=scoring,
    )


def open_link(
    attack: Link, released: Path, *, known: Path, truth: Path | None = None
) -> Attempt[Linked]:
    """Named people linked to the rows of a table, or of a release of counts.

    With ``truth`` (columns person and the secret) links are scored: by value; by person if the
    released table has a column person; by slot if it has a column slot, whose place a row has.
    """
    rows = (
        read_rows(released, attack)
        if released.is_file()
        else rows_of_release(read_release(release_folder(released)), attack, released)
    )
    files = LinkFiles.read(attack, known, rows, released)
    scoring: tuple[_Scoring[Linked], ...] = ()
    if truth is not None:
        real = files.truth(truth)
        scoring = (
            _Scoring(
                file="linkage",
                score=lambda claims: linked_frame(claims.row, real),
                public=False,
                words=LINKAGE_WORDS,
                heading="matches that are right",
            ),
        )
    return Attempt(title="Linkage", claim=files.linked, ids=files.named["person"], scoring=scoring)


def open_difference(
    attack: Difference, first: Path, *, truth: Path | None = None
) -> Attempt[Slivers]:
    """What is left of units of one release without those of another; both are read beforehand."""
    release = read_release(release_folder(first)).unweighted()
    if not (support := attack.supports(release)):
        raise InputError(
            str(first), found=support.why_not, expected="tables whose counts were changed"
        )
    scoring: tuple[_Scoring[Slivers], ...] = ()
    if truth is not None:
        people = load_people(truth)
        counts = tabulate(people)
        scoring = (
            _Scoring(
                file="slivers",
                score=lambda claims: slivers_frame(claims, counts),
                public=people.public,
                words=SLIVER_WORDS,
                heading="counts of pieces that are known for certain, and right",
                columns=("attacker", "table", "attacked", "claimed", "right", "outside", "width"),
            ),
        )
    nobody = People(name="nobody", unit=np.empty(0, dtype=np.int64), codes={})
    return Attempt(
        title="Differencing",
        claim=lambda: attack.run(release, nobody),
        ids=pl.Series(dtype=pl.String),
        scoring=scoring,
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
    real: _TrueRecords | None,
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
    ids, people = read_known(known, features, geography)
    if real is None:
        return ids, people
    person = positions(real.ids, ids)
    if len(person) and person.max() < 0:
        raise InputError(
            str(known),
            place="column 'person'",
            found="no id that is in the truth",
            expected="ids of the truth: its column person, or with a config the row number, from 0",
        )
    return ids, replace(people, person=person)


def _load_truth(path: Path, features: Features, geography: Geography) -> _TrueRecords:
    """The truth from a config of ``headcount protect``, or from a table of persons."""
    if path.suffix != ".toml":
        ids, records = read_true_people(path, features, geography)
        return _TrueRecords(records, ids, False)
    people = load_people(path)
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
    return _TrueRecords(records, ids, people.public)


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
    return Target.of(release)


def _rebuilt(source: Path) -> Target:
    """What ``headcount attack reconstruct`` wrote; nothing says that it is still whole."""
    try:
        summary = from_json((source / SUMMARY).read_text(encoding="utf-8"))
        schema = schema_from_json(summary["domain"])
        geography = geography_of_units(
            read_parquet(source / f"{UNITS}.parquet"), summary["domain"]["levels"]
        )
        groups = np.array(summary["groups"], dtype=np.int64)
        years = bool(summary["years"])
        features = replace(Features.of(schema), binned=groups, years=years)
        frame = read_parquet(source / f"{RECORDS}.parquet")
        numbers = geography.unit_numbers
        block = np.array([numbers[code] for code in frame[geography.leaf].to_list()], dtype=int)
        count = frame["count"].to_numpy()
        cell = _cells(frame, schema)
        records = records_from_rows(np.repeat(block, count), np.repeat(cell, count), features)
        blocks = read_parquet(source / f"{BLOCKS}.parquet")
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
