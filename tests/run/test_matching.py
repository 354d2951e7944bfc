"""Somebody else's columns and codes matched with a truth: the same people must have no error."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.config.load import load_population
from headcount.errors import InputError
from headcount.release.foreign_files import MEANINGS, TRAITS, known_values
from headcount.release.layout import ForeignFiles
from headcount.run.matching import Matching, _proposed, matched
from headcount.schema import Attribute, Schema
from tests.run.test_redistricting_2020_run import config as config_of_2020
from tests.run.test_redistricting_2020_run import island as island

AGES = ("0-17", "18-64", "65+")


def german(folder: Path, *, seed: int = 0, number: int = 600) -> pl.DataFrame:
    """People of six places as a German office has them; more women than men, few foreigners."""
    rng = np.random.default_rng(seed)
    people = pl.DataFrame(
        {
            "AGS": [f"0{1 + n % 2}{n % 6:03d}" for n in range(number)],
            "Alter": rng.integers(0, 95, number),
            "Geschlecht": np.where(rng.random(number) < 0.6, "w", "m"),
            "Herkunft": rng.choice(["DE", "EU", "Dritt"], number, p=[0.7, 0.2, 0.1]),
        }
    )
    people.write_csv(folder / "mine.csv", separator=";")
    return people


def agree(found: Matching) -> bool:
    return True


def errors(folder: Path, *files: str, truth: str = "mine.csv") -> pl.DataFrame:
    """What the command finds, with ``--yes``."""
    given = [word for file in files for word in ("--release", str(folder / file))]
    words = ["evaluate", "--truth", str(folder / truth), *given, "--attacks", "none", "--yes"]
    done = CliRunner().invoke(app, [*words, "--out", str(folder / "out")])
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    return pl.read_csv(folder / "out" / "errors.csv")


def release_table(folder: Path) -> dict[str, object]:
    return dict(tomllib.loads((folder / "out/mine.toml").read_text())["release"])


def test_other_names_codes_and_totals_are_matched_and_written_down(tmp_path: Path) -> None:
    people = german(tmp_path)
    theirs = people.select(
        GEO=pl.col("AGS").str.strip_chars_start("0"),
        sex=pl.col("Geschlecht").replace({"w": "1", "m": "2"}),
        nat=pl.col("Herkunft").replace({"DE": "a", "EU": "b", "Dritt": "c"}),
    )
    counted = theirs.group_by("GEO", "sex", "nat").agg(pop=pl.len())
    totals = counted.group_by("GEO", "nat").agg(pl.col("pop").sum(), sex=pl.lit("Total"))
    both = pl.concat([counted, totals.select(counted.columns)])
    both.write_csv(tmp_path / "theirs.csv")
    found = errors(tmp_path, "theirs.csv")
    assert set(found["query"]) == {"total", "geschlecht"}  # nothing says what `nat` is
    assert found["max_absolute"].max() == 0
    said = release_table(tmp_path)
    assert said["values"] == {"geschlecht": {"1": "w", "2": "m"}}
    assert said["leave_out"] == {"sex": ["Total"]}
    named = both.rename({"nat": "HERKUNFT"})
    named.write_csv(tmp_path / "theirs.csv")
    (tmp_path / "out/mine.toml").unlink()
    (tmp_path / "out/mine.units.csv").unlink()
    found = errors(tmp_path, "theirs.csv")
    assert {"geschlecht", "herkunft"} < set(found["query"])
    assert found["max_absolute"].max() == 0


def test_what_was_agreed_is_not_asked_again(tmp_path: Path) -> None:
    people = german(tmp_path)
    people.rename({"AGS": "place", "Geschlecht": "GENDER"}).write_csv(tmp_path / "theirs.csv")
    asked: list[Matching] = []
    for _ in range(2):
        config = matched(
            tmp_path / "mine.csv",
            [tmp_path / "theirs.csv"],
            out=tmp_path / "out",
            agree=lambda found: asked.append(found) or True,  # type: ignore[func-returns-value]
        )
    assert len(asked) == 1
    assert config == tmp_path / "out/mine.toml"
    lines = "\n".join(asked[0].said)
    assert "GENDER is geschlecht" in lines
    assert "theirs 600, yours 600" in lines


def test_ages_are_gathered_as_theirs(tmp_path: Path) -> None:
    people = german(tmp_path)
    age = pl.col("Alter")
    group = pl.when(age < 18).then(pl.lit("unter 18")).when(age < 65).then(pl.lit("18 bis 64"))
    theirs = people.with_columns(Alter=group.otherwise(pl.lit("65 und mehr")))
    theirs.group_by("AGS", "Alter").agg(n=pl.len()).write_csv(tmp_path / "theirs.csv")
    found = errors(tmp_path, "theirs.csv")
    assert found.filter(query="alter")["max_absolute"].max() == 0


def test_a_wide_table_in_other_spelling(tmp_path: Path) -> None:
    mine = pl.DataFrame(
        {"area": [f"A{n}" for n in range(8)], "f_young": range(8), "f_old": range(1, 9)}
    ).with_columns(m_young=pl.lit(3), m_old=pl.lit(5))
    mine.write_csv(tmp_path / "mine.csv")
    theirs = mine.rename({"f_young": "F.Young", "area": "AREA"})
    theirs.with_columns(pl.col("m_old") + 1).write_csv(tmp_path / "theirs.csv")
    (tmp_path / "mine.toml").write_text(
        '[population]\nkind = "counts"\nfile = "mine.csv"\nschema = "s.toml"\n'
        'geography = { columns = ["area"] }\noverlap = 1\n'
    )
    (tmp_path / "s.toml").write_text(
        '[[attribute]]\nname = "sex"\nlevels = ["f", "m"]\n'
        '[[attribute]]\nname = "age"\nlevels = ["young", "old"]\n'
    )
    found = errors(tmp_path, "theirs.csv", truth="mine.toml")
    assert found.filter(level="area", query="cells")["mean_absolute"].item() == 0.25


def test_codes_that_counts_do_not_tell_apart_are_added_up(tmp_path: Path) -> None:
    rows = [f"p{n % 4};{'xy'[(n // 4) % 2]};{n}" for n in range(80)]  # as many x as y everywhere
    (tmp_path / "mine.csv").write_text("\n".join(["place;sex;id", *rows]))
    theirs = [row.replace("x", "1").replace("y", "2") for row in rows]
    (tmp_path / "theirs.csv").write_text("\n".join(["place;sex;id", *theirs]))
    (tmp_path / "mine.toml").write_text(
        '[population]\nkind = "microdata"\nfile = "mine.csv"\n'
        'geography = { columns = ["place"] }\nattribute = [{ name = "sex", levels = ["x", "y"] }]\n'
    )
    found = _proposed(tmp_path / "mine.toml", [tmp_path / "theirs.csv"])
    assert dict(found.how.columns)["sex"] == ""
    assert "its '1', '2' and your 'x', 'y' do not go together; added up over it" in str(found.said)


def test_without_a_terminal_a_matching_is_not_taken_unasked(tmp_path: Path) -> None:
    german(tmp_path).rename({"Geschlecht": "GENDER"}).write_csv(tmp_path / "theirs.csv")
    words = ["evaluate", "--truth", str(tmp_path / "mine.csv"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*words, "--release", str(tmp_path / "theirs.csv")])
    assert "GENDER is geschlecht" in done.output
    assert "expected --yes, to take the matching above" in str(done.exception)
    assert "[release]" not in (tmp_path / "out/mine.toml").read_text()
    with pytest.raises(Exception, match="found another matching of columns and codes than is rig"):
        matched(
            tmp_path / "mine.csv",
            [tmp_path / "theirs.csv"],
            out=tmp_path / "out",
            agree=lambda found: False,
        )


def test_a_column_of_counts_is_asked_for_where_several_could_be(tmp_path: Path) -> None:
    people = german(tmp_path).group_by("AGS").agg(a=pl.len(), b=pl.len() + 1)
    people.write_csv(tmp_path / "theirs.csv")
    with pytest.raises(
        InputError, match=r"found columns of numbers 'a', 'b', of which 'a', 'b' could"
    ):
        errors_raised(tmp_path)


def errors_raised(folder: Path) -> None:
    matched(folder / "mine.csv", [folder / "theirs.csv"], out=folder / "out", agree=agree)


def test_no_column_of_places(tmp_path: Path) -> None:
    german(tmp_path)
    (tmp_path / "theirs.csv").write_text("x,n\nq,1\n")
    with pytest.raises(InputError, match=r"found no column with codes of places among 'x', 'n', e"):
        errors_raised(tmp_path)


SPELLINGS = ("TABTRACTCE,TABBLKGRPCE", "TABTRACT,TABBLKGRP")
"""As editions of the files call tracts and block groups."""


def county(folder: Path, *, seed: int = 1) -> pl.DataFrame:
    """People of one county by block, with codes of an office of its own."""
    rng = np.random.default_rng(seed)
    number = 900
    people = pl.DataFrame(
        {
            "GEOID": [f"44007000{n % 2}00{1 + n % 2}00{n % 7}" for n in range(number)],
            "SEX": rng.choice(["1", "2"], number, p=[0.4, 0.6]),
            "AGE": rng.integers(0, 100, number),
            "HISP": rng.choice(["0", "1"], number, p=[0.8, 0.2]),
            "RACE": rng.choice([*"1234567"], number, p=[0.5, 0.2, 0.05, 0.1, 0.05, 0.02, 0.08]),
        }
    )
    people.write_csv(folder / "mine.csv")
    return people


def ppmf(people: pl.DataFrame, spelling: str, *, ages: bool) -> pl.DataFrame:
    """The same people as the Bureau writes them, partly as numbers with decimals."""
    tract, group = spelling.split(",")
    block = pl.col("GEOID")
    age = (
        {"QAGE": pl.col("AGE")}
        if ages
        else {"VOTING_AGE": pl.when(pl.col("AGE") < 18).then(1.0).otherwise(2.0)}
    )
    return people.select(
        VINTAGE=pl.lit("20210428_P"),
        TABBLKST=block.str.slice(0, 2),
        TABBLKCOU=block.str.slice(2, 3),
        **{tract: block.str.slice(5, 6), group: block.str.slice(11, 1) + ".0"},
        TABBLK=block.str.slice(11, 4) + ".0",
        RTYPE=pl.lit("3.0"),
        GQTYPE_PL=pl.lit("0.0"),
        QSEX="SEX",
        CENHISP=pl.col("HISP").cast(pl.Int64) + 1,
        # Two or more races have many codes.
        CENRACE=pl.when(pl.col("RACE") == "7")
        .then((pl.col("AGE") % 57 + 7).cast(pl.String))
        .otherwise(pl.col("RACE").str.zfill(2)),
        **age,
    )


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("ages", [True, False])
def test_a_ppmf_of_a_state_beside_the_people_of_one_county(
    tmp_path: Path, spelling: str, ages: bool
) -> None:
    people = county(tmp_path)
    empty = people.head(1).with_columns(GEOID=pl.lit("440070000001009"))
    other = people.head(5).with_columns(GEOID=pl.lit("440090000001009"))
    ppmf(pl.concat([people, empty, other]), spelling, ages=ages).write_csv(tmp_path / "p.csv")
    found = errors(tmp_path, "p.csv")
    assert {"sex", "age", "hisp", "race"} < set(found["query"])
    block = found.filter(level="block")
    # One person of theirs lives where nobody does; nobody else is out of place.
    assert block.filter(query="total")["n"].item() == people["GEOID"].n_unique() + 1
    assert block["max_absolute"].to_list() == [1.0] * block.height
    total = found.filter(level="county", query="total").row(0, named=True)
    assert (total["n"], total["bias"]) == (1, 1.0)
    assert release_table(tmp_path)["elsewhere"] == "leave"


def test_a_truth_of_tracts_takes_a_ppmf_of_blocks(tmp_path: Path) -> None:
    people = county(tmp_path)
    ppmf(people, SPELLINGS[0], ages=True).write_csv(tmp_path / "p.csv")
    people.with_columns(pl.col("GEOID").str.slice(0, 11)).write_csv(tmp_path / "mine.csv")
    found = errors(tmp_path, "p.csv")
    assert found["max_absolute"].max() == 0


def test_places_that_are_no_blocks_are_told_from_those_of_a_ppmf(tmp_path: Path) -> None:
    ppmf(county(tmp_path), SPELLINGS[0], ages=True).write_csv(tmp_path / "p.csv")
    german(tmp_path)
    with pytest.raises(
        InputError,
        match=r"found unit '44007', expected one of the 6 units of level 'AGS', such as '01000'\n",
    ):
        matched(tmp_path / "mine.csv", [tmp_path / "p.csv"], out=tmp_path / "out", agree=agree)


def test_units_of_a_ppmf_beside_housing_units(island: Path) -> None:
    config = config_of_2020(island, "units")
    source = load_population(config)
    truth = pl.read_parquet(island / "units.parquet")
    homes = truth.filter(pl.col("gqtype") == "000")
    homes = homes.with_columns(pl.col("occupied").cast(pl.Int64))
    rows = (
        homes.select(pl.all().repeat_by("count").explode()) if "count" in homes.columns else homes
    )
    block = pl.col("block")
    lines = rows.select(
        TABBLKST=block.str.slice(0, 2),
        TABBLKCOU=block.str.slice(2, 3),
        TABTRACT=block.str.slice(5, 6),
        TABBLK=block.str.slice(11, 4),
        RTYPE=pl.lit(2),
        HH_STATUS=2 - pl.col("occupied"),
    )
    facility = lines.head(1).with_columns(RTYPE=pl.lit(4, pl.Int32), HH_STATUS=pl.lit(0, pl.Int64))
    pl.concat([lines, facility], how="vertical_relaxed").write_csv(island / "p.csv")
    found = errors(island, "p.csv", truth=config.name)
    assert found["max_absolute"].max() == 0
    assert source.domain().counted == "housing units"
    people = config_of_2020(island, "persons")
    with pytest.raises(
        InputError, match="found a PPMF of housing units, and a truth of people, ex"
    ):
        matched(people, [island / "p.csv"], out=island / "out", agree=agree)


@pytest.mark.parametrize("column", sorted(TRAITS))
@pytest.mark.parametrize("levels", [("a", "b"), ("1", "2"), ("x", "y", "z"), ("200", "201")])
def test_no_list_of_what_is_accepted_is_empty(column: str, levels: tuple[str, ...]) -> None:
    if column == "QAGE" and levels == ("1", "2"):
        levels = ("babies", "others")  # those would be years
    name = TRAITS[column][0]
    schema = Schema((Attribute(name, levels),))
    with pytest.raises(InputError) as caught:
        known_values(schema, name, column, ForeignFiles(), "p.csv")
    assert MEANINGS[column] in str(caught.value)
    assert f"[release] values = {{ {name} = {{ " in str(caught.value)
