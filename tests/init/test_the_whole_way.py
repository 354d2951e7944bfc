"""Files of different kinds, as offices hand them out, go the whole way without an edit.

``init --yes``, ``check``, ``protect``, ``evaluate``; a report is there. People and places are
counted from the same file by a few lines of polars beside each, which know what is in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from zipfile import ZipFile

import polars as pl
import pytest

from tests.cli.test_cli import Headcount, headcount

__all__ = ["headcount"]

Size = tuple[int, int]


@dataclass(frozen=True)
class Office:
    """A file: how it is made, and how people and places are counted from it plainly.

    ``answers`` are options without which a question is asked: two readings add up.
    """

    make: Callable[[Path], Path]
    plainly: Callable[[Path], Size]
    answers: tuple[str, ...] = ()


DISTRICTS = [(f"{r:02}", f"{r:02}{d:03}") for r in (1, 4) for d in range(1, 14, 2)]
TOWNS = (
    *("Aldorf", "Benau", "Celm", "Dorla", "Emsk", "Fahr", "Gries"),
    *("Hilm", "Ilsen", "Jork", "Kehl", "Lohr", "Mehr", "Nahe"),
)
NAMES = {district: town for (_, district), town in zip(DISTRICTS, TOWNS, strict=True)}


def counts(*levels: list[str], seed: int = 1) -> pl.DataFrame:
    """People in fourteen districts of two regions by attributes a, b .."""
    random = Random(seed)
    rows = [
        (region, district, *cell, random.randint(20, 900))
        for region, district in DISTRICTS
        for cell in product(*levels)
    ]
    names = ["region", "district", *"ab"[: len(levels)], "n"]
    return pl.DataFrame(rows, schema=names, orient="row")


def wide(table: pl.DataFrame) -> pl.DataFrame:
    """Levels of a beside each other."""
    return table.pivot("a", index=["region", "district"], values="n", aggregate_function="sum")


def roll(seed: int = 2, many: int = 400) -> pl.DataFrame:
    """Persons."""
    random = Random(seed)
    rows = [
        (
            *random.choice(DISTRICTS),
            random.choice("MF"),
            min(int(random.triangular(0, 100, 30)), 99),
            random.choice(["single", "married", "widowed"]),
        )
        for _ in range(many)
    ]
    return pl.DataFrame(rows, schema=["state", "county", "sex", "age", "marital"], orient="row")


# --- persons ----------------------------------------------------------------------------------


def persons_with_names(folder: Path) -> Path:
    """English, an id, names and a date of birth beside what is counted."""
    people, random = roll(), Random(3)
    own = [
        {
            "person_id": f"{10_000_000 + 37 * k}",
            "surname": random.choice(["Berg", "Silva", "Chan", "Iyer", "Kone"]),
            "date_of_birth": f"{random.randint(1930, 2019)}-0{random.randint(1, 9)}-17",
        }
        for k in range(people.height)
    ]
    path = folder / "residents.csv"
    pl.concat([pl.DataFrame(own), people], how="horizontal").write_csv(path)
    return path


def persons_of_stata(folder: Path) -> Path:
    """Codes with their labels in the file."""
    import pyreadstat

    people = roll(5).select(
        county=pl.col("county").cast(pl.Int32),
        sex=pl.when(pl.col("sex") == "M").then(1).otherwise(2),
        age=pl.col("age"),
    )
    path = folder / "micro.dta"
    labels: dict[str, dict[int | float, str]] = {"sex": {1: "male", 2: "female"}}
    pyreadstat.write_dta(people.to_pandas(), str(path), variable_value_labels=labels)
    return path


def by_stata(path: Path) -> Size:
    import pyreadstat

    frame, _ = pyreadstat.read_dta(str(path))
    return len(frame), frame["county"].nunique()


# --- a row is a place ---------------------------------------------------------------------------


def german(folder: Path) -> Path:
    """Windows text, semicolons, dots between thousands, a row and a column of totals."""
    table = wide(
        counts(["ledig", "verheiratet", "verwitwet"], seed=6).with_columns(
            pl.col("n") * 9 + pl.int_range(pl.len()) % 7
        )
    )
    lines = ["Schlüssel;Kreis;Insgesamt;ledig;verheiratet;verwitwet"]
    rows = [(d, NAMES[d], sum(own), *own) for _, d, *own in table.iter_rows()]
    rows.append(("", "Insgesamt", *(sum(row[k] for row in rows) for k in range(2, 6))))
    for code, name, *own in rows:
        dotted = (f"{one:,}".replace(",", ".") for one in own)
        lines.append(";".join([code, name, *dotted]))
    path = folder / "Familienstand.csv"
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    return path


def by_german(path: Path) -> Size:
    table = pl.read_csv(path, separator=";", encoding="cp1252", infer_schema=False)
    own = table.filter(pl.col("Kreis") != "Insgesamt")
    people = own["Insgesamt"].str.replace_all(".", "", literal=True).cast(int).sum()
    return int(people), own.height


def report(folder: Path) -> Path:
    """A sheet: titles, a head of two lines, notes."""
    import xlsxwriter

    ages = ["0-14", "15-64", "65+"]
    table = counts(["Male", "Female"], ages, seed=7)
    path = folder / "Table 3.xlsx"
    book = xlsxwriter.Workbook(str(path))
    sheet = book.add_worksheet("Table 3")
    lines: list[list[object]] = [
        ["Table 3. Population by county, sex and age"],
        ["Census 2021, persons"],
        [],
        ["County", "Total", "Male", "", "", "Female", "", ""],
        ["", "", *ages, *ages],
    ]
    for (name,), own in table.group_by("district", maintain_order=True):
        lines.append([NAMES[str(name)], int(own["n"].sum()), *own["n"].to_list()])
    lines += [[], ["Source: census office."]]
    for r, line in enumerate(lines):
        sheet.write_row(r, 0, line)
    book.close()
    return path


def by_report(path: Path) -> Size:
    table = pl.read_excel(path, has_header=False, drop_empty_rows=False)
    own = table.slice(5, len(DISTRICTS)).get_columns()
    return int(own[1].cast(int).sum()), own[0].n_unique()


def levels_in_one_column(folder: Path) -> Path:
    """The country, its regions and their districts, each with its total."""
    table = wide(counts(["hill", "coast", "river"], seed=8))
    rows = [("country", "LK", table.drop("region", "district").sum().row(0))]
    for region in ("01", "04"):
        own = table.filter(pl.col("region") == region)
        rows.append(("region", f"LK-{region}", own.drop("region", "district").sum().row(0)))
        rows += [("district", f"LK-{d}", tuple(numbers)) for _, d, *numbers in own.iter_rows()]
    path = folder / "data.tsv"
    lines = ["region_id\tregion_ent_type\ttotal\thill\tcoast\triver"]
    lines += ["\t".join(map(str, (code, kind, sum(n), *n))) for kind, code, n in rows]
    path.write_text("\n".join(lines))
    return path


def by_levels(path: Path) -> Size:
    own = pl.read_csv(path, separator="\t").filter(pl.col("region_ent_type") == "district")
    return int(own["total"].sum()), own.height


def voting_age(folder: Path) -> Path:
    """Everybody, and the adults among them, by group."""
    random = Random(9)
    table = wide(counts(["white", "black", "other"], seed=9))
    rows = []
    for _, district, *own in table.iter_rows():
        adults = [int(one * random.uniform(0.6, 0.85)) for one in own]
        rows.append((f"G{district}", sum(own), *own, sum(adults), *adults))
    groups = ["white", "black", "other"]
    head = ["GISJOIN", "pop", *(f"pop_{g}" for g in groups), "vap", *(f"vap_{g}" for g in groups)]
    path = folder / "vtd.csv"
    pl.DataFrame(rows, schema=head, orient="row").write_csv(path)
    return path


def by_voting_age(path: Path) -> Size:
    table = pl.read_csv(path)
    return int(table["pop"].sum()), table["GISJOIN"].n_unique()


def two_lines_of_names(folder: Path) -> Path:
    """Codes of columns, then their labels, then all of them together, as from data.census.gov."""
    table = wide(counts(["White", "Black", "Asian"], seed=10))
    groups = ["White", "Black", "Asian"]
    lines = [
        "GEO_ID,NAME,P1_001N,P1_002N,P1_003N,P1_004N",
        "Geography,Geographic Area Name, !!Total:," + ",".join(f" !!Total:!!{g}" for g in groups),
    ]
    whole = table.drop("region", "district").sum().row(0)
    lines.append(",".join(map(str, ["0400000US08", "Norland", sum(whole), *whole])))
    for _, district, *own in table.iter_rows():
        row = [f"0500000US{district}", f'"{NAMES[district]} County, Norland"', sum(own), *own]
        lines.append(",".join(map(str, row)))
    path = folder / "DECENNIALPL2020.P1-Data.csv"
    path.write_text("\n".join(lines))
    return path


def by_two_lines(path: Path) -> Size:
    table = pl.read_csv(path, skip_rows_after_header=1, infer_schema=False)
    own = table.filter(pl.col("GEO_ID").str.starts_with("05"))
    return int(own["P1_001N"].cast(int).sum()), own.height


# --- a row is a place and levels ----------------------------------------------------------------


def codes_and_labels(folder: Path) -> Path:
    """Parquet, French: a code and a label for each level, one of which adds up the others."""
    table = counts(["Hommes", "Femmes"], ["0 à 17 ans", "18 ans ou plus"], seed=11)
    both = table.group_by("region", "district", "b", maintain_order=True).agg(pl.col("n").sum())
    both = both.select("region", "district", pl.lit("Ensemble").alias("a"), "b", "n")
    all_ = pl.concat([table, both]).sort("district", "b", maintain_order=True)
    path = folder / "commune_sexe.parquet"
    all_.select(
        pl.col("region").alias("code région"),
        pl.col("district").alias("code commune"),
        pl.col("district").replace_strict(NAMES).alias("commune"),
        pl.col("a").replace_strict({"Hommes": "1", "Femmes": "2", "Ensemble": "T"}).alias("sexe"),
        pl.col("a").alias("libellé sexe"),
        pl.col("b").alias("âge"),
        pl.col("n").alias("population"),
    ).write_parquet(path)
    return path


def by_codes(path: Path) -> Size:
    own = pl.read_parquet(path).filter(pl.col("sexe") != "T")
    return int(own["population"].sum()), own["code commune"].n_unique()


def japanese(folder: Path) -> Path:
    """Shift-JIS: ages below each other, men and women beside each other, with totals of both."""
    table = counts(["男", "女"], ["0-14", "15-64", "65以上"], seed=12)
    lines = ["市区町村,年齢,総数,男,女"]
    for _, district in DISTRICTS:
        own = table.filter(pl.col("district") == district)
        ages = {age: [0, 0] for age in ("総数", "0-14", "15-64", "65以上")}
        for sex, age, number in own.select("a", "b", "n").iter_rows():
            for name in ("総数", age):
                ages[name]["男女".index(sex)] += number
        lines += [f"{district},{age},{sum(n)},{n[0]},{n[1]}" for age, n in ages.items()]
    path = folder / "人口.csv"
    path.write_bytes("\r\n".join(lines).encode("shift_jis"))
    return path


def by_japanese(path: Path) -> Size:
    text = path.read_bytes().decode("shift_jis")
    own = pl.read_csv(text.encode(), infer_schema=False).filter(pl.col("年齢") != "総数")
    return int(own["総数"].cast(int).sum()), own["市区町村"].n_unique()


def axis(folder: Path) -> Path:
    """PC-Axis, Spanish: totals in both dimensions beside the places."""
    table = counts(["Hombres", "Mujeres"], seed=13)
    sexes = ["Ambos sexos", "Hombres", "Mujeres"]
    towns = ["Total", *(f"{d} {NAMES[d]}" for _, d in DISTRICTS)]
    numbers = []
    for town in towns:
        own = table if town == "Total" else table.filter(pl.col("district") == town.split()[0])
        by_sex = [int(own.filter(pl.col("a") == sex)["n"].sum()) for sex in sexes[1:]]
        numbers.append(" ".join(map(str, [sum(by_sex), *by_sex])))

    def quoted(words: list[str]) -> str:
        return ",".join(f'"{one}"' for one in words)

    path = folder / "poblacion.px"
    path.write_bytes(
        "\n".join(
            [
                'CHARSET="ANSI";\nAXIS-VERSION="2000";\nLANGUAGE="es";\nDECIMALS=0;\nMATRIX="13";',
                'TITLE="Población por municipios y sexo";\nCONTENTS="Población";',
                'UNITS="personas";',
                'STUB="Municipios";\nHEADING="Sexo";',
                f'VALUES("Municipios")={quoted(towns)};\nVALUES("Sexo")={quoted(sexes)};',
                "DATA=",
                "\n".join(numbers) + ";",
            ]
        ).encode("cp1252")
    )
    return path


def by_axis(path: Path) -> Size:
    lines = path.read_bytes().decode("cp1252").partition("DATA=")[2].strip(" ;\n").splitlines()
    table = pl.DataFrame([[int(n) for n in line.split()] for line in lines[1:]], orient="row")
    return int(table["column_0"].sum()), table.height


def json_stat(folder: Path) -> Path:
    """JSON-stat: a cube with its sizes and one list of numbers."""
    table = counts(["male", "female"], ["single", "married", "other"], seed=14)
    dimensions = {
        "municipality": [d for _, d in DISTRICTS],
        "sex": ["male", "female"],
        "marital": ["single", "married", "other"],
    }
    cube = {
        "version": "2.0",
        "class": "dataset",
        "label": "Population",
        "id": list(dimensions),
        "size": [len(one) for one in dimensions.values()],
        "role": {"geo": ["municipality"]},
        "dimension": {
            name: {"label": name, "category": {"index": levels}}
            for name, levels in dimensions.items()
        },
        "value": table["n"].to_list(),
    }
    path = folder / "population.json"
    path.write_text(json.dumps(cube))
    return path


def by_json(path: Path) -> Size:
    cube = json.loads(path.read_text())
    return int(pl.Series(cube["value"]).sum()), cube["size"][0]


def sdmx(folder: Path) -> Path:
    """SDMX-CSV in a zip: one date, both sexes as a total, a flag beside each number."""
    table = counts(["M", "F"], seed=15)
    both = table.group_by("region", "district", maintain_order=True).agg(pl.col("n").sum())
    both = both.with_columns(pl.lit("_T").alias("a")).select(table.columns)
    rows = ["DATAFLOW,REF_AREA,SEX,TIME_PERIOD,OBS_VALUE,OBS_STATUS"]
    rows += [
        f"ESTAT:DEMO(1.0),{district},{sex},2021,{n},{'p' if n % 5 == 0 else 'A'}"
        for _, district, sex, n in pl.concat([table, both]).sort("district").iter_rows()
    ]
    path = folder / "demo.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("DEMO_data.csv", "\n".join(rows))
        archive.writestr("readme.txt", "p: provisional")
    return path


def by_sdmx(path: Path) -> Size:
    with ZipFile(path) as archive:
        table = pl.read_csv(archive.read("DEMO_data.csv"), infer_schema=False)
    own = table.filter(pl.col("SEX") == "_T")
    return int(own["OBS_VALUE"].cast(int).sum()), own["REF_AREA"].n_unique()


def fixed_width(folder: Path) -> Path:
    """Persons without signs between fields, with the codebook that says where these are."""
    layout = {"COUNTY": (1, 5), "SEX": (6, 6), "AGE": (7, 9)}
    people = roll(16).with_columns(pl.col("age").cast(pl.String).str.zfill(3))
    sexes = pl.col("sex").replace_strict({"M": "1", "F": "2"})
    lines = people.select(pl.concat_str("county", sexes, "age")).to_series()
    path = folder / "usa_00016.dat"
    path.write_text("\n".join(lines) + "\n")
    variables = "".join(
        f'<var ID="{name}" name="{name}" dcml="0">'
        f'<location StartPos="{first}" EndPos="{last}" width="{last + 1 - first}"/>'
        f"<labl>{name.title()}</labl></var>"
        for name, (first, last) in layout.items()
    )
    book = f'<codeBook xmlns="ddi:codebook:2_5"><dataDscr>{variables}</dataDscr></codeBook>'
    path.with_suffix(".xml").write_text(book)
    return path


def by_fixed_width(path: Path) -> Size:
    lines = path.read_text().splitlines()
    return len(lines), len({line[:5] for line in lines})


OFFICES = {
    "persons with names": Office(
        persons_with_names, lambda path: (pl.read_csv(path).height, _places(path, "county"))
    ),
    "persons of Stata": Office(persons_of_stata, by_stata),
    "a German table": Office(german, by_german),
    "a sheet with titles and two lines of head": Office(report, by_report),
    "levels of place in one column": Office(
        levels_in_one_column, by_levels, ("--only", "region_ent_type=district")
    ),
    "adults beside everybody": Office(voting_age, by_voting_age),
    "codes and labels as names": Office(
        two_lines_of_names, by_two_lines, ("--leave-out", "GEO_ID=0400000US08")
    ),
    "codes and labels of levels": Office(codes_and_labels, by_codes),
    "a Japanese crosstab": Office(japanese, by_japanese),
    "PC-Axis": Office(axis, by_axis),
    "JSON-stat": Office(json_stat, by_json),
    "SDMX-CSV in a zip": Office(sdmx, by_sdmx),
    "fixed width with a codebook": Office(fixed_width, by_fixed_width),
}


def _places(path: Path, column: str) -> int:
    return pl.read_csv(path, infer_schema=False)[column].n_unique()


@pytest.mark.parametrize("name", OFFICES)
def test_an_offices_file_goes_the_whole_way_to_a_report(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    office = OFFICES[name]
    path = office.make(tmp_path)
    init = ("init", path.name, "--yes", "--out", "mine.toml")
    if office.answers:
        asked = headcount(*init)
        assert asked.code == 2
        assert "expected" in asked.err
    answer = headcount(*init, *office.answers)
    assert answer.code == 0, answer.err
    answer = headcount("check", "mine.toml", "--json")
    assert answer.code == 0, answer.err
    read = json.loads(answer.out)["read"]
    assert (read["people"], read["levels"][-1]["units"]) == office.plainly(path)
    answer = headcount("protect", "mine.toml")
    assert answer.code == 0, answer.err
    answer = headcount("evaluate", "runs/mine", "--metrics", "error", "--attacks", "none")
    assert answer.code == 0, answer.err
    text = (tmp_path / "runs/mine/internal/evaluation/report.html").read_text(encoding="utf-8")
    assert "</html>" in text
    assert f"{office.plainly(path)[0]:,}" in text  # the reader of the report sees how many


def test_the_files_hold_what_was_put_into_them(tmp_path: Path) -> None:
    """The plain lines agree with how the files were made."""
    for name, office in OFFICES.items():
        folder = tmp_path / name
        folder.mkdir()
        people, places = office.plainly(office.make(folder))
        assert places == len(DISTRICTS)
        assert people > 200
