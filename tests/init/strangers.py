"""Ten files as people have them, each with the counts that are in it, counted plainly.

    python -m tests.init.strangers FOLDER

writes them. Everybody in them is made up.
"""

from __future__ import annotations

import gzip
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import polars as pl

ROWS = 420
RACES = ("American Indian", "Asian", "Black", "White")

Truth = Counter[tuple[str, ...]]
"""How many people of each (leaf unit, level of each attribute)."""


@dataclass(frozen=True)
class Stranger:
    """A file, the attributes that are to be found in it, and the people by unit and level."""

    path: Path
    kind: str
    attributes: tuple[str, ...]
    truth: Truth


def people(seed: int, *, states: tuple[str, ...] = ("01", "44")) -> list[dict[str, str]]:
    """Made-up people in blocks of two counties for each state."""
    random = Random(seed)
    blocks = [
        f"{state}{county}{tract}{block}"
        for state in states
        for county in ("001", "007")
        for tract in ("010100", "010200")
        for block in ("1000", "1001", "2000")
    ]
    return [
        {
            "block": random.choice(blocks),
            "age": str(min(int(random.triangular(0, 101, 30)), 101)),
            "sex": random.choice("FM"),
            "race": random.choices(RACES, weights=(1, 2, 3, 14))[0],
        }
        for _ in range(ROWS)
    ]


def five_years(age: str) -> str:
    """The bin of a year of age."""
    if not age.isdigit():
        return "unknown"
    low = int(age) // 5 * 5
    return "85+" if low >= 85 else f"{low}-{low + 4}"


def text(rows: list[dict[str, str]], *, delimiter: str = ",") -> str:
    """A table as text."""
    return pl.DataFrame(rows).write_csv(separator=delimiter)


def counted(rows: list[dict[str, str]], *columns: str, unit: str = "block") -> Truth:
    """People by unit and levels; a column called age is gathered into five years."""
    return Counter(
        (row[unit], *(five_years(row[c]) if c == "age" else row[c] for c in columns))
        for row in rows
    )


def semicolons(folder: Path) -> Stranger:
    """Windows text, semicolons, ages that are blank or NA, a TOTAL row, a column with accents."""
    rows = people(1)
    for number, row in enumerate(rows):
        if number % 21 == 0:
            row["age"] = "NA" if number % 2 else ""
    towns = {"001": "São José", "007": "Córdoba"}
    table = [
        {
            "Person ID": f"P{number:05}",
            "Block": row["block"],
            "Município": towns[row["block"][2:5]],
            "Age": row["age"],
            "Sex": row["sex"],
            "Race": row["race"],
            "Income": f"{1000 + 7 * number},50",
            "Note": "",
        }
        for number, row in enumerate(rows)
    ]
    table.append(dict.fromkeys(table[0], "") | {"Person ID": "TOTAL", "Age": str(ROWS)})
    path = folder / "people.csv"
    path.write_bytes(text(table, delimiter=";").encode("cp1252"))
    return Stranger(path, "people", ("age", "sex", "race"), counted(rows, "age", "sex", "race"))


def lost_zeros(folder: Path) -> Stranger:
    """As a spreadsheet exports it: a byte order mark, semicolons, no zeros in front of codes."""
    rows = people(2)
    table = [
        {"Block": str(int(row["block"])), "Sex": row["sex"], "Age": row["age"]} for row in rows
    ]
    path = folder / "spreadsheet.csv"
    path.write_bytes(text(table, delimiter=";").encode("utf-8-sig"))
    return Stranger(path, "people", ("sex", "age"), counted(rows, "sex", "age"))


def not_available(folder: Path) -> Stranger:
    """Places in three columns, missing values of three kinds, a code 99 for not known."""
    rows, random = people(3), Random(33)
    table = []
    for row in rows:
        schooling = random.choice(["1", "2", "3", "4", "99"])
        row["schooling"] = "unknown" if schooling == "99" else schooling
        row["sex"] = random.choice(["F", "M", "NA", "n/a"])
        table.append(
            {
                "state": row["block"][:2],
                "county": row["block"][:5],
                "tract": row["block"][:11],
                "sex": row["sex"],
                "schooling": schooling,
            }
        )
        row["sex"] = row["sex"] if row["sex"] in "FM" else "unknown"
        row["tract"] = row["block"][:11]
    path = folder / "gaps.txt"
    path.write_text(text(table, delimiter="\t"))
    return Stranger(
        path, "people", ("sex", "schooling"), counted(rows, "sex", "schooling", unit="tract")
    )


def total_rows(folder: Path) -> Stranger:
    """Long counts with totals of the counties and of everything, and levels called Total."""
    rows = people(4, states=("44",))
    for row in rows:
        row["tract"] = row["block"][:11]
    truth = counted(rows, "sex", "race", unit="tract")
    table = []
    for tract in sorted({row["tract"] for row in rows}):
        for sex in ("F", "M", "Total"):
            for race in (*RACES, "Total"):
                number = sum(
                    n
                    for (unit, own, group), n in truth.items()
                    if unit == tract and sex in (own, "Total") and race in (group, "Total")
                )
                table.append({"tract": tract, "sex": sex, "race": race, "n": str(number)})
    table.append({"tract": "TOTAL", "sex": "Total", "race": "Total", "n": str(ROWS)})
    path = folder / "long_totals.csv"
    path.write_text(text(table))
    return Stranger(path, "long", ("sex", "race"), truth)


def long_counts(folder: Path) -> Stranger:
    """Long counts with single years, thousands parted by commas and cells that nobody is in."""
    rows = people(5)
    for row in rows:
        row["county"] = row["block"][:5]
    many: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        many[row["county"], row["sex"], row["age"]] += 37 * (1 + int(row["age"]) % 40)
    table = [
        {"county": county, "sex": sex, "age": age, "persons": f"{n:,}"}
        for (county, sex, age), n in sorted(many.items())
    ]
    table.append({"county": "01001", "sex": "F", "age": "101", "persons": "0"})
    truth: Truth = Counter()
    for (county, sex, age), n in many.items():
        truth[county, sex, five_years(age)] += n
    path = folder / "long.csv"
    path.write_text(text(table))
    return Stranger(path, "long", ("sex", "age"), truth)


def excel(folder: Path) -> Stranger:
    """A sheet in which codes are numbers, and a blank row at the end."""
    rows = people(6)
    table = pl.DataFrame(
        {
            "GEOID": [int(row["block"]) for row in rows] + [None],
            "Gender": [row["sex"] for row in rows] + [None],
            "Age (years)": [int(row["age"]) for row in rows] + [None],
        }
    )
    path = folder / "people.xlsx"
    table.write_excel(path, worksheet="Data")
    return Stranger(path, "people", ("gender", "age_years"), counted(rows, "sex", "age"))


def packed(folder: Path) -> Stranger:
    """Text packed by gzip, in UTF-8, with codes that repeat between their parents."""
    rows = people(7)
    table = [
        {
            "state": row["block"][:2],
            "county": row["block"][2:5],
            "tract": row["block"][5:11],
            "race": row["race"],
        }
        for row in rows
    ]
    for row in rows:
        row["path"] = f"{row['block'][:2]}/{row['block'][2:5]}/{row['block'][5:11]}"
    path = folder / "packed.csv.gz"
    path.write_bytes(gzip.compress(text(table).encode()))
    return Stranger(path, "people", ("race",), counted(rows, "race", unit="path"))


def stata(folder: Path) -> Stranger:
    """Codes with labels, as a survey's file has them, and gaps."""
    import pyreadstat

    rows, random = people(8), Random(88)
    marital = [random.choice([1, 2, 3, None]) for _ in rows]
    table = pl.DataFrame(
        {
            "statefip": [int(row["block"][:2]) for row in rows],
            "countyfip": [int(row["block"][2:5]) for row in rows],
            "sex": [1 if row["sex"] == "M" else 2 for row in rows],
            "age": [int(row["age"]) for row in rows],
            "marital": marital,
        }
    )
    named: dict[int | float, str] = {1: "single", 2: "married", 3: "widowed"}
    path = folder / "survey.dta"
    pyreadstat.write_dta(
        table, path, variable_value_labels={"sex": {1: "male", 2: "female"}, "marital": named}
    )
    for row, status in zip(rows, marital, strict=True):
        row["path"] = f"{int(row['block'][:2])}/{int(row['block'][2:5])}"
        row["sex"] = "male" if row["sex"] == "M" else "female"
        row["marital"] = named[status] if status else "unknown"
    truth = counted(rows, "sex", "age", "marital", unit="path")
    return Stranger(path, "people", ("sex", "age", "marital"), truth)


def wide(folder: Path) -> Stranger:
    """A wide table with columns and rows of totals, blanks for nobody, and an area in km2."""
    rows = people(9, states=("44",))
    for row in rows:
        row["tract"] = row["block"][:11]
        age = int(row["age"])
        row["group"] = "0_17" if age < 18 else "18_64" if age < 65 else "65+"
        row["sex"] = "male" if row["sex"] == "M" else "female"
    truth = counted(rows, "sex", "group", unit="tract")
    table: list[dict[str, str]] = []
    tracts = sorted({row["tract"] for row in rows})
    for place in (*tracts, "TOTAL"):
        cells = {
            f"{sex}_{group}": sum(truth[t, sex, group] for t in tracts if place in (t, "TOTAL"))
            for sex in ("male", "female")
            for group in ("0_17", "18_64", "65+")
        }
        table.append(
            {
                "tract": place,
                "area_km2": str(1 + len(table)),
                "total": str(sum(cells.values())),
                **{name: str(n or "") for name, n in cells.items()},
            }
        )
    path = folder / "wide.csv"
    path.write_text(text(table))
    return Stranger(path, "wide", ("sex", "age"), truth)


def dwellings(folder: Path) -> Stranger:
    """People in dwellings in other words: labels of one's own, rooms and a number of people."""
    rows, random, number, table = people(10), Random(10), 0, []
    while rows[number:]:
        home, size = rows[number], random.choice([1, 1, 2, 3, 4])
        members = rows[number : number + size]
        rooms = random.choice(["1-2", "3-4", "5+"])
        for row in members:
            row["block"] = home["block"]
            row["sex"] = "weiblich" if row["sex"] == "F" else "männlich"
            table.append(
                {
                    "Haushalt": str(1000 + number),
                    "Block": row["block"],
                    "Geschlecht": row["sex"],
                    "Alter": row["age"],
                    "Zimmer": rooms,
                    "Haushaltsgröße": str(len(members)),
                }
            )
        number += size
    path = folder / "haushalte.csv"
    path.write_bytes(text(table, delimiter=";").encode("latin-1"))
    return Stranger(path, "dwellings", ("geschlecht", "alter"), counted(rows, "sex", "age"))


STRANGERS: dict[str, Callable[[Path], Stranger]] = {
    "cp1252 with semicolons": semicolons,
    "lost zeros": lost_zeros,
    "NA": not_available,
    "TOTAL rows": total_rows,
    "long counts": long_counts,
    "Excel": excel,
    "gz": packed,
    "Stata": stata,
    "wide with totals": wide,
    "people in dwellings": dwellings,
}

if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for make in STRANGERS.values():
        make(target)
