"""``headcount attack``: what it writes, how it scores, and what it says when it cannot."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount import registry
from headcount.cli.app import main
from headcount.release.published import cell_names
from headcount.report.model import CONFIDENTIAL_BANNER
from headcount.run.attack import _target
from headcount.run.protect import protect_run
from headcount.schema import load_schema
from headcount.tabulate.published import tables

CONFIG = """
[population]
kind = "towns"
people = 1500
counties = 2
schema = "sex-age38-race7-hispanic"
[mechanism]
name = "{name}"
[run]
out = "{out}"
"""
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def attack(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setattr(logging.getLogger("headcount"), "setLevel", lambda _level: None)

    def run(*arguments: str | Path) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["headcount", "attack", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs on one state: the truth as it is, and suppressed by the rules of 1980."""
    folder = tmp_path_factory.mktemp("town")
    for name in ("identity", "suppression"):
        config = folder / f"{name}.toml"
        config.write_text(CONFIG.format(name=name, out=folder / name))
        protect_run(config)
    return folder


def test_rebuilt_records_give_people_away(town: Path, tmp_path: Path, attack: Command):
    truth = town / "identity.toml"
    found = tmp_path / "found"
    code, said = attack("reconstruct", town / "identity", "--out", found, "--truth", truth)
    assert code == 0, said
    assert CONFIDENTIAL_BANNER not in said  # a generated population is public
    summary = json.loads((found / "summary.json").read_text())
    assert summary["conflicts"] == summary["not_proven"] == 0
    records = pl.read_parquet(found / "records.parquet")
    assert records.columns == ["block", "sex", "age", "race", "hispanic", "count"]
    assert records["count"].sum() == summary["records"]
    matches = tmp_path / "matches"
    code, said = attack(
        "reidentify", found, "--attacker", "perfect", "--truth", truth, "--out", matches
    )
    assert code == 0, said
    assert "modal guess" in said
    scores = pl.read_csv(matches / "reid.csv")
    telling = scores.filter(universe="nonmodal unique, zero variability")
    precision = dict(zip(telling["by"], telling["precision"], strict=True))
    assert precision["records"] == 1
    assert precision["modal guess"] == 0
    putative = pl.read_parquet(matches / "putative.parquet")
    assert putative.columns == ["person", "block", "race", "hispanic", "matched_on"]
    assert putative.height == summary["records"]
    assert "not a privacy violation" in (matches / "summary.md").read_text()


def test_tables_with_cell_keys_are_reconstructed_and_their_people_found(
    tmp_path: Path, attack: Command
):
    settings = 'cell-key"\ntables = ["P1", "P2", "P12"]\nmaximum = 2\nvariance = "1'
    config = tmp_path / "keys.toml"
    text = CONFIG.replace("people = 1500", "people = 1000")
    config.write_text(text.format(name=settings, out=tmp_path / "keys"))
    run = protect_run(config)
    found = tmp_path / "found"
    command = ("reconstruct", run, "--out", found, "--steps", "200", "--truth", config)
    code, said = attack(*command, "--largest-change", "2")
    assert code == 0, said
    assert "The attacker knows that no count is off by more than 2." in said
    summary = json.loads((found / "summary.json").read_text())
    assert summary["conflicts"] == summary["not_nearest"] == 0
    assert 800 < summary["records"] < 1200
    assert summary["zero_variability_blocks"] < 0.1 * summary["blocks"]
    agreement = pl.read_csv(found / "agreement.csv").filter(blocks="all").row(0, named=True)
    assert 900 < agreement["people"] < 1100
    assert 0 < agreement["exact_percent"] < agreement["told_percent"] < 90
    matches = tmp_path / "matches"
    code, said = attack(
        "reidentify", found, "--attacker", "perfect", "--truth", config, "--out", matches
    )
    assert code == 0, said
    assert pl.read_parquet(matches / "putative.parquet").height > 200
    guessed = tmp_path / "guessed"
    code, said = attack("reconstruct", run, "--out", guessed, "--no-variability")
    assert code == 0, said
    assert "and the attacker does not know: 2 is the smallest change under" in said
    code, said = attack("reconstruct", run, "--out", tmp_path / "x", "--largest-change", "-1")
    assert code == 2
    assert "--largest-change" in said
    assert "greater than or equal to 0" in said


def test_a_suppressed_release_is_reconstructed_from_ranges(
    town: Path, tmp_path: Path, attack: Command
):
    found = tmp_path / "found"
    code, said = attack("reconstruct", town / "suppression", "--out", found)
    assert code == 0, said
    assert "conflicts: 0" in said
    code, said = attack(
        "reidentify",
        town / "suppression",
        "--attacker",
        "perfect",
        "--truth",
        town / "identity.toml",
        "--out",
        tmp_path / "x",
    )
    assert code == 2
    assert "found published tables, expected records; run headcount attack reconstruct" in said
    code, said = attack(
        "reidentify",
        found,
        "--attacker",
        "commercial-like",
        "--truth",
        town / "identity.toml",
        "--out",
        tmp_path / "y",
        "--orders",
        "2",
        "--coverage",
        "0.5",
    )
    assert code == 0, said


@pytest.fixture(scope="module")
def people(town: Path) -> pl.DataFrame:
    """Everyone, with an id, from the counts of the true release."""
    wide = pl.read_parquet(town / "identity" / "release" / "block.parquet")
    schema = load_schema("sex-age38-race7-hispanic")
    counts = wide.select(schema.cell_names).to_numpy()
    unit, cell = np.nonzero(counts)
    times = counts[unit, cell]
    unit, cell = np.repeat(unit, times), np.repeat(cell, times)
    levels = np.unravel_index(cell, schema.shape)
    return pl.DataFrame(
        {
            "person": [f"p{i}" for i in range(len(unit))],
            "block": wide["block"].gather(unit.tolist()),
            **{
                a.name: np.array(a.levels)[code].tolist()
                for a, code in zip(schema.attributes, levels, strict=True)
            },
        }
    )


def test_a_file_of_named_people_is_matched_and_scored_under_the_banner(
    town: Path, people: pl.DataFrame, tmp_path: Path, attack: Command
):
    people.write_csv(tmp_path / "truth.csv")
    known = people.select("person", "block", "sex", "age").head(200)
    stranger = pl.DataFrame(
        {"person": ["new"], "block": ["nowhere"], "sex": ["male"], "age": ["30"]}
    )
    pl.concat([known, stranger]).write_csv(tmp_path / "known.csv")  # 30 is a year, not a bin
    code, said = attack(
        "reidentify",
        town / "identity",
        "--known",
        tmp_path / "known.csv",
        "--truth",
        tmp_path / "truth.csv",
        "--out",
        tmp_path / "out",
    )
    assert code == 0, said
    assert CONFIDENTIAL_BANNER in said
    assert CONFIDENTIAL_BANNER in (tmp_path / "out" / "summary.md").read_text()
    scores = pl.read_csv(tmp_path / "out" / "reid.csv").filter(by="records")
    row = scores.filter(universe="all").row(0, named=True)
    assert (row["people"], row["putative"]) == (201, 200)
    unique = scores.filter(universe="unique").row(0, named=True)
    assert unique["precision"] == 1


def test_without_a_truth_nothing_is_scored(
    town: Path, people: pl.DataFrame, tmp_path: Path, attack: Command
):
    people.head(50).write_parquet(tmp_path / "known.parquet")
    code, said = attack(
        "reidentify",
        town / "identity",
        "--known",
        tmp_path / "known.parquet",
        "--out",
        tmp_path / "out",
    )
    assert code == 0, said
    assert not (tmp_path / "out" / "reid.csv").exists()
    assert "putative: 50" in said


def test_tables_from_files(town: Path, people: pl.DataFrame, tmp_path: Path, attack: Command):
    """P12 and P14 of three blocks, typed in by hand: sex and bin come out exactly."""
    schema = load_schema("sex-age38-race7-hispanic")
    blocks = people["block"].unique(maintain_order=True).head(3).to_list()
    pl.DataFrame({"county": ["c"] * 3, "block": blocks}).write_csv(tmp_path / "units.csv")
    own = people.filter(pl.col("block").is_in(blocks))
    cell = [schema.cell(**{n: row[n] for n in schema.names}) for row in own.to_dicts()]
    counts = np.zeros((3, schema.size), dtype=np.int64)
    np.add.at(counts, ([blocks.index(b) for b in own["block"]], cell), 1)
    listed = (
        'schema = "sex-age38-race7-hispanic"\nunits = "units.csv"\nlevels = ["county", "block"]\n'
    )
    for name in ("P12", "P14"):
        table = tables("sf1")[name]
        values = table.of(counts, schema).toarray()
        names = cell_names(table.on(schema))
        pl.DataFrame(
            {"unit": np.repeat(blocks, len(names)), "cell": names * 3, "value": values.ravel()}
        ).write_csv(tmp_path / f"{name}.csv")
        listed += (
            f'[[table]]\nproduct = "sf1"\nname = "{name}"\nlevel = "block"\nfile = "{name}.csv"\n'
        )
    (tmp_path / "tables.toml").write_text(listed)
    code, said = attack("reconstruct", tmp_path / "tables.toml", "--out", tmp_path / "out")
    assert code == 0, said
    got = pl.read_parquet(tmp_path / "out" / "records.parquet")
    expected = own.group_by("block", "sex", "age").len("count")
    both = (
        got.group_by("block", "sex", "age")
        .agg(pl.col("count").sum())
        .join(
            expected,
            on=[
                "block",
                "sex",
                "age",
            ],
            how="full",
        )
    )
    assert (both["count"] == both["count_right"]).all()
    broken = (tmp_path / "P12.csv").read_text().replace("male / 0-4", "male / 0-99", 1)
    (tmp_path / "P12.csv").write_text(broken)
    code, said = attack("reconstruct", tmp_path / "tables.toml", "--out", tmp_path / "again")
    assert code == 2
    assert "P12.csv: column 'cell', row" in said
    assert "expected one of 'total / total'" in said


def test_tables_that_contradict_each_other_are_reported_not_crashed_on(
    town: Path, tmp_path: Path, attack: Command
):
    listed = 'schema = "sex-age38-race7-hispanic"\nunits = "units.csv"\nlevels = ["block"]\n'
    (tmp_path / "units.csv").write_text("block\nb1\n")
    for name, value in (("P1", 5), ("P14", 7)):
        names = cell_names(tables("sf1")[name].on(load_schema("sex-age38-race7-hispanic")))
        (tmp_path / f"{name}.csv").write_text(f"unit,cell,value\nb1,{names[0]},{value}\n")
        listed += (
            f'[[table]]\nproduct = "sf1"\nname = "{name}"\nlevel = "block"\nfile = "{name}.csv"\n'
        )
    (tmp_path / "tables.toml").write_text(listed)
    code, said = attack("reconstruct", tmp_path / "tables.toml", "--out", tmp_path / "out")
    assert code == 0, said
    assert "conflicts: 1" in said
    assert "must move by" in (tmp_path / "out" / "moves.txt").read_text()


def released_rows(people: pl.DataFrame) -> pl.DataFrame:
    return people.with_columns(
        age=(pl.int_range(pl.len()) * 7 % 90).cast(pl.String), household_size=pl.lit("2")
    )


def test_linkage_finds_those_who_fit_once(people: pl.DataFrame, tmp_path: Path, attack: Command):
    rows = released_rows(people).head(120)
    rows.write_csv(tmp_path / "released.csv")
    rows.select("person", "age", "race", "household_size").write_csv(tmp_path / "known.csv")
    rows.select("person", "hispanic").write_csv(tmp_path / "truth.csv")
    code, said = attack(
        "link",
        tmp_path / "released.csv",
        "--known",
        tmp_path / "known.csv",
        "--width",
        "1",
        "--truth",
        tmp_path / "truth.csv",
        "--out",
        tmp_path / "out",
    )
    assert code == 0, said
    assert CONFIDENTIAL_BANNER in said
    keys = rows.select("age", "race").rows()
    alone = [key for key in keys if keys.count(key) == 1]
    scores = pl.read_csv(tmp_path / "out" / "linkage.csv")
    assert set(scores["identity_rule"]) == {"value", "person"}
    assert scores["matched"].to_list() == [len(alone)] * 2
    assert scores["confirmed"].to_list() == [len(alone)] * 2  # nothing was swapped
    links = pl.read_parquet(tmp_path / "out" / "links.parquet")
    assert links.height == len(alone)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reconstruct", "{empty}", "--out", "{out}"), "found no release, expected a directory"),
        (("reconstruct", "{run}", "--out", "{empty}"), "found existing content, expected a new"),
        (("reconstruct", "{run}", "--out", "{out}", "--on-conflict", "guess"), "found 'guess'"),
        (
            ("reconstruct", "{run}", "--out", "{out}", "--tables", "sf9"),
            "found no such file, expected tables",
        ),
        (("reidentify", "{run}", "--out", "{out}"), "found neither --known nor --attacker"),
        (
            ("reidentify", "{run}", "--attacker", "perfect", "--out", "{out}"),
            "found 'perfect' without --truth, expected 'perfect' or 'commercial-like', with",
        ),
        (
            ("reidentify", "{run}", "--known", "{people}", "--out", "{out}"),
            "column 'age', row 1: found 'old', expected a year of age, or one of '0'",
        ),
        (
            ("link", "{run}", "--known", "{people}", "--out", "{out}"),
            "found no attribute 'household_size', expected some of",
        ),
        (
            ("link", "{run}", "--known", "{people}", "--out", "{out}", "--exact", "sex"),
            "column 'age', row",
        ),
    ],
)
def test_errors_are_one_clear_line(
    arguments: tuple[str, ...], message: str, town: Path, tmp_path: Path, attack: Command
):
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "note").write_text("mine")
    known = tmp_path / "people.csv"
    known.write_text("person,block,sex,age\n1,b,male,old\n")
    places = {"empty": empty, "out": tmp_path / "out", "run": town / "identity", "people": known}
    code, said = attack(*(one.format(**places) for one in arguments))
    assert code == 2
    assert said.startswith("error: ")
    assert message in said
    assert (empty / "note").read_text() == "mine"


@pytest.mark.parametrize("command", ["", "reconstruct", "reidentify", "link"])
def test_every_help_has_an_example(command: str, attack: Command):
    code, said = attack(*filter(None, [command]), "--help")
    assert code == 0
    assert "headcount attack" in said
    assert "Example" in said


def test_an_attack_without_a_command_says_how_it_is_made(
    attack: Command, monkeypatch: pytest.MonkeyPatch
):
    code, said = attack("averaging", "run")
    assert code == 2
    assert "error: headcount attack: found 'averaging', expected reconstruct, reident" in said
    assert "is made by headcount evaluate RUN --attacks averaging" in said
    monkeypatch.setattr(registry, "entry_points", lambda group: ())
    code, said = attack("averaging", "run")
    assert code == 2
    assert "(averaging comes with headcount-papers: pip install headcount-papers" in said
    code, said = attack("averagin", "run")
    assert code == 2
    assert "No such command 'averagin'" in said


TABLES = """
schema = "sex-age38-race7-hispanic"
units = "units.csv"
levels = ["county", "block"]
[[table]]
product = "sf1"
name = "P1"
level = "block"
file = "p1.csv"
"""


@pytest.mark.parametrize(
    ("wrong", "rows", "message"),
    [
        (("", ""), "b1,total,five", "p1.csv: column 'value', row 1: found 'five', expected a whol"),
        (("", ""), "b1,total,5.5", "p1.csv: column 'value', row 1: found '5.5', expected a whole"),
        (("", ""), "b1,total,5\nb1,total,6", "row 1: found unit 'b1', cell 'total' more than once"),
        (("[[table]]", "[table]"), "b1,total,5", "table: found one table, expected a list"),
        (
            ('["county", "block"]', '"block"'),
            "b1,total,5",
            "levels: found 'block', expected a ",
        ),
        (
            ('"p1.csv"', '"p1.csv"\nzero_hides = "2"'),
            "b1,total,5",
            "table 1.zero_hides: found '",
        ),
        (('level = "block"', 'level = "blok"'), "b1,total,5", "table P1, level: found 'blok'"),
        (('name = "P1"', 'name = "P99"'), "b1,total,5", "table: found 'P99', expected one of 'P1'"),
    ],
)
def test_tables_with_errors_are_refused_by_row_and_key(
    wrong: tuple[str, str], rows: str, message: str, tmp_path: Path, attack: Command
):
    (tmp_path / "units.csv").write_text("county,block\nc,b1\n")
    (tmp_path / "p1.csv").write_text(f"unit,cell,value\n{rows}\n")
    (tmp_path / "tables.toml").write_text(TABLES.replace(*wrong) if wrong[0] else TABLES)
    code, said = attack("reconstruct", tmp_path / "tables.toml", "--out", tmp_path / "out")
    assert code == 2
    assert message in said


def test_an_empty_value_is_a_withheld_cell_and_a_negative_one_must_move(
    tmp_path: Path, attack: Command
):
    (tmp_path / "units.csv").write_text("county,block\nc,b1\nc,b2\n")
    (tmp_path / "p1.csv").write_text("unit,cell,value\nb1,total,\nb2,total,-3\n")
    (tmp_path / "tables.toml").write_text(TABLES)
    code, said = attack("reconstruct", tmp_path / "tables.toml", "--out", tmp_path / "out")
    assert code == 0, said
    assert "for example: block b2, P1 total: -3 must move by +3" in said
    assert "conflicts: 1" in said


def test_people_whom_the_truth_does_not_know_are_not_scored(
    town: Path, people: pl.DataFrame, tmp_path: Path, attack: Command
):
    known = people.head(20).with_columns(person=pl.lit("x") + pl.int_range(20).cast(pl.String))
    known.write_csv(tmp_path / "known.csv")
    code, said = attack(
        "reidentify",
        town / "identity",
        "--known",
        tmp_path / "known.csv",
        "--truth",
        town / "identity.toml",
        "--out",
        tmp_path / "out",
    )
    assert code == 2
    assert "known.csv: column 'person': found no id that is in the truth" in said


def test_a_truth_that_has_someone_twice_is_refused(
    town: Path, people: pl.DataFrame, tmp_path: Path, attack: Command
):
    people.write_csv(tmp_path / "known.csv")
    pl.concat([people, people.tail(1)]).write_csv(tmp_path / "truth.csv")
    code, said = attack(
        "reidentify",
        town / "identity",
        "--known",
        tmp_path / "known.csv",
        "--truth",
        tmp_path / "truth.csv",
        "--out",
        tmp_path / "out",
    )
    assert code == 2
    assert "more than once, expected each person once" in said


def test_records_certain_in_what_is_told_agree_in_what_is_told(
    town: Path, tmp_path: Path, attack: Command
):
    code, said = attack(
        "reconstruct",
        town / "identity",
        "--tables",
        "pl94-171",
        "--out",
        tmp_path / "out",
        "--truth",
        town / "identity.toml",
    )
    assert code == 0, said
    scores = pl.read_csv(tmp_path / "out" / "agreement.csv")
    assert scores["told_percent"][0] == 100  # P.L. 94-171 gives race by voting age exactly
    assert scores["binned_percent"][0] < 50


def test_a_cap_is_said(town: Path, tmp_path: Path, attack: Command):
    run = town / "suppression"
    code, said = attack("reconstruct", run, "--steps", "0", "--out", tmp_path / "capped")
    assert code == 0, said
    facts = json.loads((tmp_path / "capped" / "summary.json").read_text())
    assert f"not proven: {facts['not_proven']}" in said
    blocks = pl.read_parquet(tmp_path / "capped" / "blocks.parquet")
    assert facts["not_proven"] == (~blocks["proven"]).sum()


def linked(attack: Command, folder: Path, released: str, known: str, *more: str) -> pl.DataFrame:
    """Who was linked to which released row, keys age and race, secret hispanic."""
    (folder / "released.csv").write_text(released)
    (folder / "known.csv").write_text(known)
    code, said = attack(
        "link",
        folder / "released.csv",
        "--known",
        folder / "known.csv",
        "--exact",
        "race",
        "--out",
        folder / "out",
        *more,
    )
    assert code == 0, said
    return pl.read_parquet(folder / "out" / "links.parquet").select("person", "released_row")


@pytest.mark.parametrize("width", ["1", "2", "5"])
def test_an_open_last_age_holds_all_who_are_older(width: str, tmp_path: Path, attack: Command):
    released = "age,race,hispanic\n90+,a,yes\n89,a,no\n40,a,no\n"
    known = "person,age,race\nold,95,a\nyounger,40,a\n"
    found = linked(attack, tmp_path, released, known, "--width", width)
    assert found.rows() == [("old", 0), ("younger", 2)]


def test_an_open_last_age_of_the_attackers_file_holds_all_who_are_older(
    tmp_path: Path, attack: Command
):
    released = "age,race,hispanic\n95,a,yes\n70,a,no\n"
    known = "person,age,race\nold,85+,a\nyounger,70,a\n"
    assert linked(attack, tmp_path, released, known).rows() == [("old", 0), ("younger", 1)]
    (tmp_path / "two").mkdir()
    both = released + "86,a,no\n"  # two who may be the old one: no match
    assert linked(attack, tmp_path / "two", both, known).rows() == [("younger", 1)]


def test_a_missing_value_matches_nothing(tmp_path: Path, attack: Command):
    released = "age,race,hispanic\n30,,yes\n40,a,no\n"
    known = "person,age,race\nnameless,30,\nnamed,40,a\n"
    assert linked(attack, tmp_path, released, known).rows() == [("named", 1)]


def test_a_missing_secret_is_linked_and_not_claimed(tmp_path: Path, attack: Command):
    released = "age,race,hispanic\n30,a,\n40,a,no\n"
    known = "person,age,race\nfirst,30,a\nsecond,40,a\n"
    assert linked(attack, tmp_path, released, known).rows() == [("first", 0), ("second", 1)]
    links = pl.read_parquet(tmp_path / "out" / "links.parquet")
    assert links["hispanic"].to_list() == [None, "no"]


def test_a_table_in_which_nobody_has_the_secret_is_refused(tmp_path: Path, attack: Command):
    (tmp_path / "released.csv").write_text("age,race,hispanic\n30,a,\n")
    (tmp_path / "known.csv").write_text("person,age,race\np,30,a\n")
    code, said = attack(
        "link", tmp_path / "released.csv", "--known", tmp_path / "known.csv", "--exact", "race",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 2
    assert "column 'hispanic': found no value at all, expected what the attacker wants" in said


def test_a_person_named_twice_is_refused(tmp_path: Path, attack: Command):
    (tmp_path / "released.csv").write_text("age,race,hispanic\n30,a,yes\n")
    (tmp_path / "known.csv").write_text("person,age,race\np,30,a\nq,31,a\np,50,a\n")
    code, said = attack(
        "link",
        tmp_path / "released.csv",
        "--known",
        tmp_path / "known.csv",
        "--exact",
        "race",
        "--out",
        tmp_path / "out",
    )
    assert code == 2
    assert "column 'person', row 1: found 'p' more than once, expected each person once" in said
    assert not (tmp_path / "out").exists()


def test_variability_that_was_not_measured_is_not_given_as_zero(
    town: Path, tmp_path: Path, attack: Command
):
    found = tmp_path / "found"
    code, said = attack("reconstruct", town / "identity", "--out", found, "--no-variability")
    assert code == 0, said
    assert "zero variability blocks: not measured" in said
    summary = json.loads((found / "summary.json").read_text())
    assert summary["zero_variability_blocks"] is summary["zero_variability_records"] is None
    assert pl.read_parquet(found / "blocks.parquet")["variability"].is_null().all()
    truth = town / "identity.toml"
    code, said = attack(
        "reidentify",
        found,
        "--attacker",
        "perfect",
        "--truth",
        truth,
        "--orders",
        "1",
        "--out",
        tmp_path / "matches",
    )
    assert code == 0, said
    named = pl.read_csv(tmp_path / "matches" / "reid.csv")["universe"].to_list()
    assert not any("zero variability" in universe for universe in named)


def test_only_certain_blocks_count_as_of_zero_variability(
    town: Path, tmp_path: Path, attack: Command
):
    """Not one that is empty though somebody could be there, and none whose tables clash."""
    found = tmp_path / "found"
    assert attack("reconstruct", town / "identity", "--out", found)[0] == 0
    blocks = pl.read_parquet(found / "blocks.parquet")
    zero = _target(found).zero
    assert zero is not None
    sure = np.flatnonzero(zero)[:2]
    changed = blocks.with_row_index("row").with_columns(
        variability=pl.when(pl.col("row") == sure[0]).then(np.inf).otherwise("variability"),
        conflict=(pl.col("row") == sure[1]) | pl.col("conflict"),
    )
    changed.drop("row").write_parquet(found / "blocks.parquet")
    again = _target(found).zero
    assert again is not None
    assert np.flatnonzero(zero & ~again).tolist() == sure.tolist()
