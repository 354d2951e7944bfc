"""The data files that the documentation's examples name, made small."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from headcount.schema import load_schema
from tests.papers.test_ipums1940 import Person, Record, Unit
from tests.papers.test_ipums1940 import write as write_extract

COUNTIES = {"44001": "44", "44003": "44", "09001": "09"}
TRACTS = {f"{county}{number:06}": county for county in COUNTIES for number in (1, 2)}


def people(folder: Path) -> None:
    """``people.csv`` and ``tracts.csv``: 300 people with every attribute the examples use."""
    rng, n = np.random.default_rng(1), 300
    tract = rng.choice(sorted(TRACTS), n)
    age = rng.choice(["minor", "adult"], n, p=[0.3, 0.7])
    housing = rng.choice(["house", "military"], n, p=[0.9, 0.1])
    housing[age == "minor"] = "house"
    kinds = rng.choice(["household", "nursing", "college"], n, p=[0.9, 0.05, 0.05])
    codes = _codes(tract.tolist())
    pl.DataFrame(
        {
            **codes,
            "geocode": tract,
            "age_group": age,
            "age": age,
            "housing": housing,
            "sex": rng.choice(["f", "m"], n),
            "race": rng.choice(["a", "b", "c"], n),
            "quarters": kinds,
            "hhgq": kinds,
            "pin": [f"p{number:05}" for number in rng.permutation(n)],
            "rkey": rng.integers(0, 256, n),
        }
    ).write_csv(folder / "people.csv")
    tracts = pl.DataFrame({**_codes(list(TRACTS)), "geocode": list(TRACTS)})
    tracts.write_csv(folder / "tracts.csv")
    tracts.select("state", "county").unique().write_csv(folder / "counties.csv")


def what_is_known(folder: Path) -> None:
    """``people.csv``, and of as many people beside it: those of each tract, and the whole."""
    people(folder)
    codes = _codes(list(TRACTS))
    pl.DataFrame({"tract": codes["tract"], "n": [50] * len(TRACTS)}).write_csv(
        folder / "people-by-tract.csv"
    )
    rows = [(sex, age, 45 if age == "minor" else 105) for sex in "fm" for age in ("minor", "adult")]
    whole = pl.DataFrame(rows, schema=["sex", "age", "n"], orient="row")
    whole.write_csv(folder / "whole.csv")


def odd(folder: Path) -> None:
    """``odd.csv``: codes that are too long, a level "NA", a column n, and a row of totals."""
    rng, n = np.random.default_rng(4), 80
    rows = {
        "geocode": [*rng.choice(sorted(TRACTS), n).tolist(), "TOTAL"],
        "sex": [*rng.choice(["f", "m", "NA"], n).tolist(), "f"],
        "hhsize": [*rng.choice(["1", "2+"], n).tolist(), "1"],
        "n": [*rng.integers(1, 9, n).tolist(), 80],
    }
    pl.DataFrame(rows).write_csv(folder / "odd.csv")


def german(folder: Path) -> None:
    """``menschen.csv``: people whose attributes have names of another language."""
    rng, n = np.random.default_rng(7), 200
    rows = {
        "gemeinde": rng.choice(["Aach", "Bonn"], n),
        "alter": rng.choice(["unter 18", "18 bis 64", "65 u. m."], n),
        "geschlecht": rng.choice(["1", "2"], n),
        "herkunft": rng.choice(["DE", "EU", "andere"], n),
    }
    pl.DataFrame(rows).write_csv(folder / "menschen.csv")


def survey(folder: Path) -> None:
    """``survey.csv`` and ``places.csv``: Windows text, gaps, visitors, two years."""
    rng, n = np.random.default_rng(6), 200
    rows = pl.DataFrame(
        {
            **_codes(rng.choice(sorted(TRACTS), n).tolist()),
            "year": rng.choice(["2010", "2020"], n),
            "status": rng.choice(["resident", "visitor", ""], n, p=[0.8, 0.1, 0.1]),
            "p_sex": rng.choice(["1", "2", "9", "-1", "NA"], n),
            "age": rng.choice(["7", "34,0", "90+", ""], n),
            "note": ["für später"] * n,
        }
    )
    (folder / "survey.csv").write_bytes(rows.write_csv(separator=";").encode("cp1252"))
    pl.DataFrame(_codes(list(TRACTS))).write_csv(folder / "places.csv", separator=";")


def long_counts(folder: Path) -> None:
    """``long.csv``: a row for each tract and sex, with a number of people or nothing."""
    rows = [
        {"geocode": tract, "sex": sex, "n": number}
        for tract in TRACTS
        for sex, number in (("f", 7), ("m", 5), ("x", None))
    ]
    pl.DataFrame(rows).write_csv(folder / "long.csv")


def census_2020(folder: Path) -> None:
    """``persons.csv``, ``units.csv`` and ``blocks.csv``: two tracts with three blocks each."""
    blocks = [f"4400100010{tract}100{number}" for tract in (0, 1) for number in range(3)]
    pl.DataFrame(
        {
            "block": blocks,
            "state": ["44"] * 6,
            "county": ["44001"] * 6,
            "tract": [code[:11] for code in blocks],
            "area": ["9999"] * 6,
            "place": ["00001"] * 6,
            "subdivision": ["00001", "00001", "00002"] * 2,
        }
    ).write_csv(folder / "blocks.csv")
    rng, n = np.random.default_rng(2), 60
    home = rng.choice(blocks[:5], n)
    pl.DataFrame(
        {
            "block": home,
            "gqtype": ["000"] * n,
            "age": rng.integers(0, 90, n),
            "cenhisp": rng.integers(1, 3, n),
            "cenrace": rng.integers(1, 8, n),
        }
    ).write_csv(folder / "persons.csv")
    pl.DataFrame({"block": blocks, "gqtype": ["000"] * 6, "occupied": [1] * 5 + [0]}).write_csv(
        folder / "units.csv"
    )


def _codes(tracts: list[str]) -> dict[str, list[str]]:
    counties = [TRACTS[tract] for tract in tracts]
    return {"state": [COUNTIES[c] for c in counties], "county": counties, "tract": tracts}


def quarters(folder: Path) -> None:
    """``quarters.csv``: as many quarters of each type as there are people, so that bounds hold."""
    people(folder)
    lived_in = (
        pl.read_csv(folder / "people.csv", infer_schema=False)
        .pivot("hhgq", index=["state", "county", "tract"], values="sex", aggregate_function="len")
        .fill_null(0)
        .rename({"household": "hh"})
    )
    every = pl.read_csv(folder / "tracts.csv", infer_schema=False).drop("geocode")
    every.join(lived_in, on=["state", "county", "tract"], how="left").fill_null(0).with_columns(
        vacant=pl.lit(2)
    ).write_csv(folder / "quarters.csv")


def bounds(folder: Path, *, columns: str) -> str:
    """``grown.csv`` with the columns that the page shows, wide enough; returns its SHA-256."""
    people(folder)
    rows = [
        f"{county},{sex},{grown},{'' if grown == 'yes' else 0},{'' if sex == 'f' else 9000}"
        for county, sex, grown in product(COUNTIES, "fm", ("no", "yes"))
    ]
    content = "\n".join([columns, *rows]) + "\n"
    (folder / "grown.csv").write_text(content, encoding="utf-8")
    return sha256(content.encode()).hexdigest()


def blocks_of_counts(folder: Path) -> None:
    """``blocks.parquet`` by voting age and group, one column under another name."""
    rng = np.random.default_rng(2)
    blocks = [f"{tract}{number:04}" for tract in TRACTS for number in (1, 2)]
    cells = [
        "under18_hisp" if name == "hisp_minor" else name
        for name in load_schema("voting-age-by-group").cell_names
    ]
    counts = {name: rng.poisson(3, len(blocks)) for name in cells}
    pl.DataFrame({"block": blocks, **counts}).write_parquet(folder / "blocks.parquet")
    pl.DataFrame({"block": blocks}).write_csv(folder / "blocks.csv")


def counted_twice(folder: Path) -> None:
    """``twice.csv``: minors, adults and all of them by tract; its schema is ``twice.toml``."""
    rng = np.random.default_rng(6)
    minor, adult = rng.poisson(30, (2, len(TRACTS)))
    counts = {"all": minor + adult, "minor": minor, "adult": adult}
    pl.DataFrame({"tract": list(TRACTS), **counts}).write_csv(folder / "twice.csv")
    schema = f'[[attribute]]\nname = "group"\nlevels = {json.dumps([*counts])}\n'
    (folder / "twice.toml").write_text(schema, encoding="utf-8")


def dwellings(folder: Path) -> None:
    """``persons.parquet``, ``dwellings.parquet`` and ``blocks.csv``: 120 dwellings in 12 blocks."""
    rng, n = np.random.default_rng(3), 120
    serial = [f"d{number}" for number in range(n)]
    kind = rng.choice(["household", "vacant", "nursing", "college"], n, p=[0.85, 0.05, 0.05, 0.05])
    size = np.where(kind == "vacant", 0, rng.integers(1, 6, n))
    block = rng.integers(0, 12, n)
    place = {"county": block // 6, "tract": block // 3, "block": block}
    tenure = np.where(kind == "household", rng.choice(["own", "rent"], n), "none")
    pl.DataFrame(
        {
            "serial": serial,
            "type": kind,
            "people": size,
            **{name: [f"{name[0]}{code:02}" for code in codes] for name, codes in place.items()},
            "place": [f"p{code % 2}" for code in block],
            "tenure": tenure,
        }
    ).write_parquet(folder / "dwellings.parquet")
    owner = np.repeat(serial, size)
    pl.DataFrame(
        {
            "serial": owner,
            "age": rng.choice(["0-17", "18+"], len(owner)),
            "sex": rng.choice(["f", "m"], len(owner)),
        }
    ).write_parquet(folder / "persons.parquet")
    every = range(12)
    pl.DataFrame(
        {
            "county": [f"c{code // 6:02}" for code in every],
            "tract": [f"t{code // 3:02}" for code in every],
            "block": [f"b{code:02}" for code in every],
            "place": [f"p{code % 2}" for code in every],
        }
    ).write_csv(folder / "blocks.csv")


def extract(folder: Path) -> None:
    """``extract.dat``: an extract of 1940 with a person whose unit is missing."""
    records: list[Record] = []
    for serial in range(1, 41):
        records.append(Unit(serial=serial, district=f"{serial % 4:04}"))
        records += [Person(serial=serial, age=age, race=1 + serial % 6) for age in (5, 34)]
    records.append(Person(serial=99))
    write_extract(folder / "extract.dat", records)
