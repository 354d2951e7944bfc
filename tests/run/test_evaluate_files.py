"""Somebody else's release: files that were not made here, scored like a run of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import headcount as hc
from headcount.cli.app import app
from headcount.config.load import load_config
from headcount.domain import Domain
from headcount.errors import InputError, RunError
from headcount.evaluation import Truth
from headcount.evaluation.evaluate import Choice
from headcount.release.foreign import read_foreign
from headcount.release.layout import ForeignFiles
from headcount.run.evaluate import evaluate_files, evaluate_run
from headcount.run.protect import protect_run
from tests.run.town import write_config, write_town

MECHANISMS = {
    "geometric": 'name = "geometric"\nepsilon = 1',
    "raked": 'name = "raked"\nepsilon = 1',
    "topdown": 'name = "topdown"\nepsilon = 1\n[mechanism.queries]\ncells = { share = 1 }',
}


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


def scores(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.csv")}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("tidy", [False, True])
def test_our_own_release_as_somebody_elses_has_the_same_scores(
    town: Path, mechanism: str, tidy: bool
):
    run = f'seed = 5\nformat = ["csv"]\ntidy = {str(tidy).lower()}'
    config = write_config(town, mechanism=MECHANISMS[mechanism], run=run)
    out = protect_run(config)
    evaluate_run(out)
    files = [out / "release" / f"{level}.csv" for level in ("whole", "county", "tract")]
    done = evaluate_files(config, files, out=town / "foreign")
    own, foreign = scores(out / "internal/evaluation"), scores(town / "foreign")
    assert {"errors.csv", "groups.csv"} <= set(own)
    assert foreign == own
    assert "Nothing is known of a guarantee" in done.release.guarantee.sentences()[0]
    text = (town / "foreign/report.html").read_text()
    assert "Nothing is known of a guarantee" in text
    assert "computed from confidential data" in text


def test_scores_are_not_written_beside_a_release_nor_silently_into_an_open_folder(
    town: Path, caplog: pytest.LogCaptureFixture
):
    config = write_config(town, run='seed = 5\nformat = ["csv"]')
    release = protect_run(config) / "release"
    before = sorted(release.iterdir())
    with pytest.raises(RunError, match="found a release or a study, expected a folder for an eval"):
        evaluate_files(config, [release / "tract.csv"], out=release)
    assert sorted(release.iterdir()) == before
    (town / "open").mkdir(mode=0o755)
    evaluate_files(config, [release / "tract.csv"], out=town / "open")
    assert "others can enter this folder (mode 0755)" in caplog.text


def test_metrics_are_computed_with_the_settings_of_the_config(town: Path):
    config = write_config(town, run='seed = 5\nformat = ["csv"]')
    out = protect_run(config)
    tract = out / "release/tract.csv"
    evaluate_files(config, [tract], out=town / "all")
    config.write_text(config.read_text() + '\n[[metric]]\nname = "error"\ncells = "truth"\n')
    evaluate_files(config, [tract], out=town / "foreign")
    evaluate_run(out)  # a run keeps the config that it was made with
    own, foreign = scores(out / "internal/evaluation"), scores(town / "foreign")
    assert scores(town / "all")["errors.csv"] == own["errors.csv"] != foreign["errors.csv"]


def test_the_lowest_level_alone_is_enough_where_counts_add_up(town: Path):
    config = write_config(town, run='seed = 5\nformat = ["csv"]')
    out = protect_run(config)
    evaluate_run(out)
    evaluate_files(config, [out / "release/tract.csv"], out=town / "foreign")
    assert scores(town / "foreign") == scores(out / "internal/evaluation")


def released(town: Path, **more: Any) -> tuple[pl.DataFrame, Truth]:
    """The town without any protection, as a tidy table, and its truth."""
    config = write_config(town, mechanism='name = "identity"', run='format = ["csv"]\ntidy = true')
    out = protect_run(config)
    truth = Truth.of(load_config(config).population.read())
    return pl.read_csv(out / "release/tract.csv"), truth


def errors(frame: Any, truth: Truth, how: ForeignFiles | None = None) -> pl.DataFrame:
    release = read_foreign(frame, truth.counts.schema, truth.counts.geography, how=how)
    return hc.evaluate(release, truth.on(release), choice=Choice(attacks=()))["error"].table


def test_what_is_missing_is_missing_and_zero_only_if_said(town: Path):
    frame, truth = released(town)
    gone = (pl.col("tract") == "a1") & (pl.col("sex") == "f")
    holes = frame.filter(~gone)
    table = errors(holes, truth)
    assert table["max_absolute"].max() == 0
    whole = errors(frame, truth)
    cells = {"level": "tract", "query": "cells"}
    assert table.filter(**cells)["n"].item() == whole.filter(**cells)["n"].item() - 3
    total = {"level": "tract", "query": "total"}
    assert table.filter(**total)["n"].item() == 4  # the total of a1 is not known
    assert table.filter(level="whole", query="total").is_empty()
    assert table.filter(level="county", query="sex")["n"].item() == 3
    zero = errors(holes, truth, ForeignFiles(missing="zero"))
    people = frame.filter(gone)["n"].sum()
    assert zero.filter(**total)["max_absolute"].item() == people
    assert zero.filter(**cells)["n"].item() == whole.filter(**cells)["n"].item()


def test_a_blank_count_is_a_hole_and_what_needs_all_counts_says_so(town: Path):
    frame, truth = released(town)
    blank = frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 0).then(None).otherwise(pl.col("n")).alias("n")
    )
    release = read_foreign(blank, truth.counts.schema, truth.counts.geography)
    choice = hc.Choice(metrics=("error", "withheld", "empirical-privacy-loss"))
    found = hc.evaluate(release, truth, choice=choice)
    assert "1 at tract" in found["error"].explain()
    reasons = {one.name: one.why for one in found.not_computed}
    assert reasons["empirical-privacy-loss"] == "some counts are missing from the release"
    assert reasons["withheld"].startswith("the release lacks some counts")


def test_negatives_and_fractions_are_scored_as_they_are(town: Path):
    frame, truth = released(town)
    shifted = frame.with_columns((pl.col("n") - 2.5).alias("n"))
    table = errors(shifted, truth)
    cells = table.filter(level="tract", query="cells").row(0, named=True)
    assert cells["bias"] == cells["max_absolute"] * -1 == -2.5
    assert cells["negative"] == (shifted["n"] < 0).sum()


def test_other_names_and_values_are_mapped(town: Path):
    frame, _ = released(town)
    other = frame.rename({"tract": "GEO", "sex": "SEX", "n": "pop"}).with_columns(
        pl.col("SEX").replace_strict({"f": "2", "m": "1"})
    )
    other.write_csv(town / "other.csv", separator=";")
    config = write_config(town, run="", name="truth.toml")
    config.write_text(
        config.read_text()
        + '\n[release]\ncount = "pop"\ncolumns = { GEO = "tract", SEX = "sex" }\n'
        + 'values = { sex = { "2" = "f", "1" = "m" } }\n'
    )
    done = evaluate_files(config, [town / "other.csv"], out=town / "foreign")
    assert done.evaluation["error"].table["max_absolute"].max() == 0
    assert load_config(config).run.out == town / "out"  # protect takes the same config


def test_columns_may_be_named_as_in_the_file_of_the_truth(town: Path):
    rows = ["GEOID;Geschlecht", *(f"01{i % 3:03d};{'mf'[i % 2]}" for i in range(30))]
    (town / "de.csv").write_text("\n".join(rows))
    config = town / "de.toml"
    config.write_text(
        '[population]\nkind = "microdata"\nfile = "de.csv"\n'
        'geography = { column = "GEOID", prefixes = { land = 2, kreis = 5 } }\n'
        'attribute = [{ name = "sex", column = "Geschlecht", levels = ["m", "f"] }]\n'
    )
    people = pl.read_csv(town / "de.csv", separator=";", infer_schema=False)
    people.group_by(pl.all()).agg(n=pl.len() + 1).write_csv(town / "theirs.csv")
    done = evaluate_files(config, [town / "theirs.csv"], out=town / "foreign")
    by_sex = done.evaluation["error"].table.filter(level="kreis", query="sex")
    assert by_sex["max_absolute"].to_list() == [1.0]


def test_attributes_and_levels_that_are_not_released_are_added_up(town: Path):
    frame, truth = released(town)
    county = frame.group_by("county", "age").agg(pl.col("n").sum())
    release = read_foreign(county, truth.counts.schema, truth.counts.geography)
    assert release.geography.levels == ("whole", "county")
    assert release.schema.names == ("age",)
    table = hc.evaluate(county, truth)["error"].table
    assert set(table["level"]) == {"whole", "county"}
    assert table["max_absolute"].max() == 0


def test_people_are_counted_and_lost_zeros_found(town: Path):
    _, truth = released(town)
    people = pl.read_csv(town / "people.csv")
    table = errors(people, truth)
    assert table["max_absolute"].max() == 0
    assert table.filter(level="tract", query="total")["n"].item() == 5


@pytest.mark.parametrize("layout", ["wide", "tidy"])
def test_all_strange_codes_are_in_one_message_with_their_lines(town: Path, layout: str):
    frame, truth = released(town)
    if layout == "wide":
        frame = frame.pivot(["sex", "age"], index=["county", "tract"], values="n")
        names = [name.strip("{}").replace('"', "").replace(",", "_") for name in frame.columns]
        frame.columns = names
        bad = frame.with_columns(pl.col("tract").str.replace("a", "z"))
        bad = bad.with_columns(pl.col("f_old").cast(pl.String).str.replace("^", "x"))
    else:
        bad = frame.with_columns(pl.col("sex").str.replace("m", "x"))
    bad.write_csv(town / "bad.csv")
    with pytest.raises(InputError) as caught:
        read_foreign(town / "bad.csv", truth.counts.schema, truth.counts.geography)
    lines = str(caught.value).splitlines()
    if layout == "wide":
        assert lines[0] == f"{town / 'bad.csv'}: 7 problems"
        assert "  column 'tract', line 2: found unit 'z1', expected one of the 5 units" in lines[1]
        assert any("column 'f_old', line 2: found 'x" in line for line in lines)
    else:
        assert lines[0] == f"{town / 'bad.csv'}: 10 problems"
        assert "column 'sex', line 5: found level 'x', expected one of 'f', 'm'" in lines[1]


def test_the_first_ten_problems_are_shown(town: Path):
    frame, truth = released(town)
    frame.with_columns(pl.lit("x").alias("age")).write_csv(town / "bad.csv")
    with pytest.raises(InputError, match="and 30 more") as caught:
        read_foreign(town / "bad.csv", truth.counts.schema, truth.counts.geography)
    assert len(str(caught.value).splitlines()) == 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.rename({"tract": "t", "county": "c"}), "found columns .* expected a column w"),
        (lambda f: f.drop("sex", "age", "n"), "expected a column of counts"),
        (lambda f: pl.concat([f, f[:1]]), "the unit and levels of an earlier row, expected each"),
        (lambda f: f.with_columns(pl.lit("many").alias("n")), "found 'many', expected a number, o"),
    ],
)
def test_tables_that_cannot_be_understood_are_refused(town: Path, change: Any, message: str):
    frame, truth = released(town)
    with pytest.raises(InputError, match=message):
        read_foreign(change(frame), truth.counts.schema, truth.counts.geography)


def test_a_count_in_two_files_is_refused(town: Path):
    frame, truth = released(town)
    for name in ("one.csv", "two.csv"):
        frame.write_csv(town / name)
    files = [town / "one.csv", town / "two.csv"]
    with pytest.raises(InputError, match=r"two\.csv: 25 problems\n  line 2: found a count that"):
        read_foreign(files, truth.counts.schema, truth.counts.geography)
    frame.group_by("county", "sex").agg(pl.col("n").sum()).write_csv(town / "two.csv")
    with pytest.raises(InputError, match=r"found files by \['sex'\] and by \['sex', 'age'\], exp"):
        read_foreign(files, truth.counts.schema, truth.counts.geography)


def test_the_command_scores_files(town: Path):
    released(town)
    given = ["evaluate", "--truth", str(town / "config.toml"), "--attacks", "none"]
    files = ["--release", str(town / "out/release/tract.csv"), "--out", str(town / "scored")]
    done = CliRunner().invoke(app, [*given, *files])
    assert done.exit_code == 0, done.output
    assert "Nothing is known of a guarantee" in done.output
    assert (town / "scored/errors.csv").is_file()
    assert (town / "scored").stat().st_mode & 0o077 == 0
    alone = CliRunner().invoke(app, given)
    assert alone.exit_code == 2
    assert "give run directories, or --truth FILE and --release FILE" in " ".join(
        alone.output.replace("│", " ").split()
    )


def ppmf_truth() -> Truth:
    schema = hc.Schema(
        (
            hc.Attribute("sex", ("male", "female")),
            hc.Attribute("age", ("0-17", "18+")),
            hc.Attribute("hispanic", ("not_hispanic", "hispanic")),
            hc.Attribute("race", tuple(str(code) for code in range(1, 64))),
        )
    )
    codes = np.array(["440070001001000", "440070001001001"])
    units = (np.array(["whole"]), codes)
    geography = hc.Geography(
        ("whole", "block"), units, (np.empty(0, np.int32), np.zeros(2, np.int32))
    )
    cell = [schema.cell(sex="female", age="0-17", hispanic="hispanic", race="7")] * 2
    population = hc.Population(
        "two people",
        Domain(schema, geography),
        unit=np.array([0, 1], dtype=np.int32),
        cell=np.array(cell, dtype=np.int32),
    )
    return Truth.of(population)


@pytest.mark.parametrize(
    ("columns", "values", "names"),
    [
        ("RTYPE,GQTYPE,QSEX,QAGE,CENHISP,CENRACE", "3,000,2,12,2,07", 4),
        ("RTYPE,GQTYPE,VOTING_AGE,CENHISP,CENRACE", "3,000,1,2,07", 3),
    ],
)
def test_a_ppmf_is_read_by_the_columns_it_has(
    tmp_path: Path, columns: str, values: str, names: int
):
    truth = ppmf_truth()
    place = "VINTAGE,TABBLKST,TABBLKCOU,TABTRACTCE,TABBLKGRPCE,TABBLK"
    lines = [
        f"{place},{columns}",
        *(f"x,44,007,000100,1,{block},{values}" for block in (1000, 1001)),
    ]
    (tmp_path / "ppmf.csv").write_text("\n".join(lines) + "\n")
    release = read_foreign(tmp_path / "ppmf.csv", truth.counts.schema, truth.counts.geography)
    assert len(release.schema.names) == names
    assert np.array_equal(release.at("block"), truth.on(release).counts.dense())
    for damaged in (f"{lines[1]},9", "\udcff" + lines[1], f'"{lines[1]}'):
        text = "\n".join([*lines, damaged]) + "\n"
        (tmp_path / "damaged.csv").write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(
            InputError, match=r"damaged.csv: found what cannot be read: .* as the first"
        ):
            read_foreign(tmp_path / "damaged.csv", truth.counts.schema, truth.counts.geography)
    bad = [*lines, f"x,44,007,000100,1,9999,{values}", f"x,44,007,000100,1,1000,{values[:-2]}99"]
    (tmp_path / "bad.csv").write_text("\n".join(bad) + "\n")
    with pytest.raises(InputError) as caught:
        read_foreign(tmp_path / "bad.csv", truth.counts.schema, truth.counts.geography)
    text = str(caught.value)
    assert "line 4: found unit '440070001009999'" in text
    assert "field CENRACE, line 5: found '99'" in text


@pytest.mark.parametrize(
    ("name", "levels", "message"),
    [
        ("sex", ("1", "2"), "column 'QSEX': found a truth whose sex has the levels '1', '2', "
         'expected [release] values = { sex = { "1" = ..., "2" = ... } }, which says for each of '
         "1 (male) and 2 (female) the level of 'sex'"),
        ("hispanic", ("no", "yes"), "column 'CENHISP': found a truth whose hispanic has the levels "
         "'no', 'yes', expected [release] values = { hispanic = { "),
        ("race", ("w", "b"), "column 'CENRACE': found a truth whose race levels are neither the "
         "codes 1-63 nor one of two sets of 7 groups (white, black, asian,"),
    ],
)  # fmt: skip
def test_a_truth_in_other_words_than_a_ppmf_is_told_which(
    tmp_path: Path, name: str, levels: tuple[str, ...], message: str
):
    truth = ppmf_truth().counts
    schema = hc.Schema((hc.Attribute(name, levels),))
    (tmp_path / "ppmf.csv").write_text(
        "TABBLKST,TABBLKCOU,TABTRACTCE,TABBLKGRPCE,TABBLK,QSEX,CENHISP,CENRACE\n"
        "44,007,000100,1,1000,1,1,1\n"
    )
    with pytest.raises(InputError) as caught:
        read_foreign(tmp_path / "ppmf.csv", schema, truth.geography)
    assert message in str(caught.value)
