"""Counts worked out again with nothing of headcount's: plain rows, a counter, a join by key."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from io import StringIO
from pathlib import Path

import polars as pl

from tests.fuzz.base import Tree

Row = dict[str, str | None]
Tally = Counter[tuple[str, str]]
"""How many people of each (leaf unit, cell)."""


class Unreadable(Exception):
    """A file that the plain reader cannot read either."""


def read_rows(path: Path) -> list[Row]:
    """The rows of a table as text."""
    if path.suffix == ".parquet":
        try:  # by another reader than headcount's
            frame = pl.read_parquet(path)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise Unreadable(str(error)) from None
        return [{name: _text(value) for name, value in row.items()} for row in frame.to_dicts()]
    raw = path.read_bytes()
    text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    read = [list(csv.reader(StringIO(text, newline=""), delimiter=one)) for one in ",;\t|"]
    best = max(read, key=lambda rows: len(next((row for row in rows if row), [])))
    header, *lines = [line for line in best if any(line)]
    filled = [line + [""] * (len(header) - len(line)) for line in lines]
    return [dict(zip(header, line, strict=False)) for line in filled]


def _text(value: object) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def expected(population: Tree, folder: Path) -> Tally:
    """The tally of a population that ``base`` describes."""
    kind = population["kind"]
    if kind == "counts":
        return _counts(population, read_rows(folder / population["file"]))
    if "count" in population:
        return _messy(population, read_rows(folder / population["file"]))
    if kind == "microdata":
        columns = [one.get("column") or one["name"] for one in population["attribute"]]
        rows = read_rows(folder / population["file"])
        return Counter((_leaf(population, row), _cell(row, columns)) for row in rows)
    dwellings = {row["serial"]: row for row in read_rows(folder / population["dwellings"])}
    joined: list[Row] = []
    for person in read_rows(folder / population["persons"]):
        home = dwellings[person["serial"]]
        joined.append({**person, **home, "hhgq": home["type"]})
    return Counter((_leaf(population, row), _cell(row, population["attributes"])) for row in joined)


NOTHING = {
    *("", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null", "nil", "missing"),
    *(".", "..", "...", "-", "--", "?", "#", "*"),
}
TOTALS = re.compile(
    r"(grand |sub-?)?totals?|all|sum|overall|ensemble|gesamt|insgesamt|summe|totaal|totale|suma"
    r"|celkem|ogółem|(sub)?total\b.*|.*\b(sub)?total"
)


def _messy(population: Tree, rows: list[Row]) -> Tally:
    """People of a table with counts, of which rows are chosen, mapped, binned and left out."""
    found: Tally = Counter()
    for row in rows:
        text = {name: value or "" for name, value in row.items()}
        code = text["code"].strip()
        age, sex, number = text["age"], text["sex"], text["n"].strip()
        if text["year"] != "2020" or sex == "Total" or age in ("99",):
            continue
        if not code or TOTALS.fullmatch(code.lower()) or age.strip().casefold() in NOTHING:
            continue
        years = int(Decimal(age.strip().removesuffix("+")))
        level = "0-17" if years < 18 else "18-64" if years < 65 else "65+"
        own = {"1": "f", "2": "m"}.get(sex) or (
            "unknown" if sex.strip().casefold() in NOTHING else ""
        )
        people = 0 if number in ("", ".", "..", "-", "–", "NA") else int(Decimal(number))
        found[text["code"].rjust(4, "0"), f"{own}_{level}"] += people
    return +found


def _leaf(population: Tree, row: Row) -> str:
    geography = population["geography"]
    if "prefixes" in geography:
        return str(row[geography["column"]])[: max(geography["prefixes"].values())]
    codes = [str(row[column]) for column in geography["columns"]]
    return "/".join(codes) if geography.get("local_codes") else codes[-1]


def _cell(row: Row, columns: list[str]) -> str:
    return "_".join(str(row[column]).strip() for column in columns)  # blanks around say nothing


def _counts(population: Tree, rows: list[Row]) -> Tally:
    code = population["geography"]["column"]
    found: Tally = Counter()
    for row in rows:
        for cell, value in row.items():
            if cell != code and value is not None and "_" in cell and cell != "m_old":
                found[_leaf(population, row), cell] += int(Decimal(value.strip()))
    return +found


def released(release: Path) -> Tally:
    """The tally that a release states at its leaf; every level must have the same sum."""
    domain = json.loads((release / "manifest.json").read_text())["domain"]
    levels = domain["levels"]
    frames = {name: pl.read_parquet(release / f"{name}.parquet") for name in domain["published"]}
    found: Tally = Counter()
    sums = set()
    for level, frame in frames.items():
        cells = [name for name in frame.columns if name not in levels]
        sums.add(sum(int(frame[name].sum()) for name in cells))
        if level == levels[-1]:
            for row in frame.to_dicts():
                found.update({(row[level], name): int(row[name]) for name in cells})
    if len(sums) != 1:
        raise AssertionError(f"levels with other sums: {sorted(sums)}")
    return +found


def spent(ledger: Path) -> tuple[Fraction, int]:
    """What the rows of a ledger say was spent on the town, and how many rows there are."""
    try:
        with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as connection:
            charges = connection.execute(
                "SELECT charge FROM spend WHERE dataset = 'town' AND charge IS NOT NULL AND "
                "run_id NOT IN (SELECT run_id FROM event WHERE state = 'void')"
            ).fetchall()
            rows = connection.execute("SELECT count(*) FROM spend").fetchone()[0]
        if any(len(str(charge).lower().partition("e")[2]) > 4 for (charge,) in charges):
            raise Unreadable("an exponent that would take hours")
        return sum((Fraction(charge) for (charge,) in charges), Fraction(0)), rows
    except (sqlite3.Error, ValueError, ZeroDivisionError, TypeError) as error:
        raise Unreadable(str(error)) from None
