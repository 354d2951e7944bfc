"""The ledger knows data again under another view of them, and a note says that it is there."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.config.load import load_config
from headcount.errors import ConfigError, PrivacyError, RunError
from headcount.files import write_text_atomic
from headcount.population.pieces import table_digest
from headcount.privacy import Ledger, PureLoss, UnitOfPrivacy
from headcount.run.protect import prepare_run, protect_run
from headcount_papers.fixed_width import lines_digest
from tests.run.town import (
    AGES,
    LEDGER,
    MICRODATA,
    make_ledger,
    people,
    write_config,
    write_town,
)

ALIAS = 'ledger = "ledger.db"\ndataset = "alias"'
COLUMNS = '{ columns = ["county", "tract"] }'
AGE = '  { name = "age", levels = ["minor", "adult", "old"] },\n'
ZERO = 'structural_zero = [{ sex = ["m"], age = ["old"] }]'


ODD: list[object] = [{"spends": "many"}, {"spends": None}, [], 1]


@pytest.fixture
def town(tmp_path: Path) -> Path:
    """A town with two names in its ledger, released once under the first."""
    write_town(tmp_path)
    ledger = make_ledger(tmp_path)
    ledger.declare("alias", total=PureLoss(epsilon=Fraction(1), unit=UnitOfPrivacy.CHANGE_ONE))
    protect_run(write_config(tmp_path, run=LEDGER, out="first"))
    return tmp_path


VIEWS = {
    "another root": MICRODATA.replace(COLUMNS, '{ columns = ["county", "tract"], root = "all" }'),
    "levels in another order": MICRODATA.replace('"minor", "adult"', '"adult", "minor"'),
    "a level less": MICRODATA.replace(COLUMNS, '{ columns = ["tract"] }'),
    "an attribute less": MICRODATA.replace(AGE, "").replace(ZERO, ""),
    "units not listed": MICRODATA.replace('units = "tracts.csv"\n', ""),
}


@pytest.mark.parametrize("view", VIEWS)
def test_the_same_file_under_another_name_and_view_is_known_again(town: Path, view: str):
    """The evasions: each was accepted under a fresh name, with a total of its own."""
    population = VIEWS[view]
    assert population != MICRODATA
    config = write_config(town, population=population, run=ALIAS, out="second")
    for command in (protect_run, lambda path: prepare_run(load_config(path))):
        with pytest.raises(PrivacyError, match="found content that is recorded under 'town'"):
            command(config)
    assert not (town / "second").exists()
    # Under its own name another view of the same data is welcome.
    protect_run(write_config(town, population=population, run=LEDGER, out="third"))


def test_rows_in_another_order_and_another_format_are_known_again(town: Path):
    rows = people()
    random.Random(1).shuffle(rows)
    write_town(town, rows=rows)
    whole = (
        pl.read_csv(town / "people.csv")
        .rename({"sex": "gender"})
        .select("age", "gender", "tract", "county")
    )
    whole.write_parquet(town / "people.parquet")
    population = MICRODATA.replace('"people.csv"', '"people.parquet"').replace(
        '{ name = "sex",', '{ name = "sex", column = "gender",'
    )
    for text in (MICRODATA, population):
        changed = text.replace(COLUMNS, '{ columns = ["county", "tract"], root = "all" }')
        with pytest.raises(PrivacyError, match="found content that is recorded under 'town'"):
            prepare_run(load_config(write_config(town, population=changed, run=ALIAS)))


def test_one_changed_byte_is_other_data(town: Path):
    """What remains possible, and is said in the docs."""
    rows = people()
    other = next(age for age in AGES[:2] if age != rows[0][3])
    write_town(town, rows=[(*rows[0][:3], other), *rows[1:]])
    prepare_run(load_config(write_config(town, run=ALIAS)))


def test_a_config_without_the_ledger_is_refused(town: Path):
    """A dataset that has a ledger is not released unseen."""
    config = write_config(town, out="second")
    for command in (protect_run, lambda path: prepare_run(load_config(path))):
        with pytest.raises(ConfigError) as caught:
            command(config)
        said = str(caught.value)
        assert "people.csv.ledger.json: run.ledger: found no ledger, expected ledger = " in said
        assert f"{town / 'ledger.db'}' and dataset = 'town'" in said
    assert not (town / "second").exists()
    (town / "people.csv.ledger.json").unlink()
    protect_run(config)


def test_a_fresh_ledger_is_no_way_round_and_a_moved_one_is_the_same(town: Path):
    Ledger.create(town / "fresh.db").declare(
        "town", total=PureLoss(epsilon=Fraction(9), unit=UnitOfPrivacy.CHANGE_ONE)
    )
    run = LEDGER.replace("ledger.db", "fresh.db")
    with pytest.raises(ConfigError, match=r"found another ledger \(.*fresh\.db\), expected ledger"):
        prepare_run(load_config(write_config(town, run=run, out="second")))
    (town / "ledger.db").rename(town / "moved.db")
    run = LEDGER.replace("ledger.db", "moved.db")
    protect_run(write_config(town, run=run, out="second"))


def test_an_older_copy_of_the_ledger_is_refused_with_the_way_out(town: Path):
    """Put back from a backup, it would let the second release be paid for again."""
    note, book = town / "people.csv.ledger.json", town / "ledger.db"
    assert json.loads(note.read_text())["datasets"]["town"]["spends"] == 1
    backup = book.read_bytes()
    protect_run(write_config(town, run=LEDGER, out="second"))
    last = Ledger.open(book).history("town")[-1].run_id
    assert json.loads(note.read_text())["datasets"]["town"]["last_run"] == last
    newest = book.read_bytes()
    book.write_bytes(backup)
    third = write_config(town, run=LEDGER, out="third")
    for command in (protect_run, lambda path: prepare_run(load_config(path))):
        with pytest.raises(RunError) as caught:
            command(third)
        said = str(caught.value)
        assert "found a ledger with 1 spends on 'town' and not run" in said
        assert f"expected the 2 that {note} knows of, the last of them run {last}" in said
        assert "Put the newest copy in its place. If there is none, make a new ledger" in said
    assert not (town / "third").exists()
    book.write_bytes(newest)
    protect_run(third)


def test_a_copy_from_before_the_dataset_was_declared_is_older_too(town: Path):
    note = town / "people.csv.ledger.json"
    known = json.loads(note.read_text())
    note.write_text(json.dumps({**known, "datasets": {"another": known["datasets"]["town"]}}))
    with pytest.raises(RunError, match="found a ledger with 0 spends on 'another'"):
        prepare_run(load_config(write_config(town, run=LEDGER, out="second")))


def test_a_note_that_knows_less_than_the_ledger_is_brought_up_to_date(town: Path):
    """One of a run that was killed between its spend and the note."""
    note = town / "people.csv.ledger.json"
    known = json.loads(note.read_text())
    note.write_text(json.dumps({**known, "datasets": {"town": {"spends": 0, "last_run": ""}}}))
    protect_run(write_config(town, run=LEDGER, out="second"))
    assert json.loads(note.read_text())["datasets"]["town"]["spends"] == 2


def test_a_link_to_the_data_leads_to_the_same_note(town: Path):
    (town / "elsewhere").mkdir()
    (town / "elsewhere" / "others.csv").symlink_to(town / "people.csv")
    population = MICRODATA.replace('"people.csv"', '"elsewhere/others.csv"')
    assert population != MICRODATA
    with pytest.raises(
        ConfigError, match=r"people\.csv\.ledger\.json: run\.ledger: found no ledger"
    ):
        prepare_run(load_config(write_config(town, population=population, out="second")))


def test_a_damaged_note_is_found(town: Path):
    note = town / "people.csv.ledger.json"
    known = json.loads(note.read_text())
    notes: list[object] = [{}, [], *(known | {"datasets": {"town": one}} for one in ODD)]
    for place in (note, town / "ledger.db.ledger.json"):
        for damaged in notes:
            place.write_text(json.dumps(damaged))
            with pytest.raises(RunError, match="found a damaged note, expected the ledger"):
                prepare_run(load_config(write_config(town, run=LEDGER, out="second")))
        place.write_text(json.dumps(known))


def test_a_damaged_note_of_another_file_is_told_of(town: Path, caplog: pytest.LogCaptureFixture):
    (town / "others.csv.ledger.json").write_text("{}")
    protect_run(write_config(town, run=LEDGER, out="second"))
    assert "others.csv.ledger.json: found a damaged note" in caplog.text


def other_people(town: Path, where: str) -> str:
    """Other people in another file, as a population of a config."""
    rows = ["county,tract,sex,age", *(",".join(row) for row in people(1))]
    (town / where).parent.mkdir(exist_ok=True)
    (town / where).write_text("\n".join(rows))
    return MICRODATA.replace("people.csv", where)


@pytest.mark.parametrize("where", ["people_2.csv", "elsewhere/people.csv"])
def test_an_older_ledger_is_refused_for_every_file_of_a_dataset(town: Path, where: str):
    """Also for one whose own note is no newer: it is the dataset that is paid for again."""
    others, book = other_people(town, where), town / "ledger.db"
    backup = book.read_bytes()
    more = f"{LEDGER}\nnew_content = true"
    protect_run(write_config(town, population=others, run=more, out="second"))
    notes = [town / f"{name}.ledger.json" for name in (where, "people.csv")]
    known = [json.loads(note.read_text())["datasets"]["town"]["spends"] for note in notes]
    assert known == [2, 1]
    book.write_bytes(backup)
    for population in (MICRODATA, others):
        config = write_config(town, population=population, run=more, out="third")
        with pytest.raises(RunError, match="found a ledger with 1 spends on 'town' and not run"):
            prepare_run(load_config(config))


def test_a_file_that_was_released_as_two_datasets_has_a_note_of_both(town: Path):
    book = town / "ledger.db"
    backup = book.read_bytes()
    protect_run(write_config(town, run=LEDGER, out="second"))
    (town / "people.csv").write_text("\n".join(["county,tract,sex,age", "a,a1,f,adult"]))
    protect_run(write_config(town, run=ALIAS, out="third"))
    known = json.loads((town / "people.csv.ledger.json").read_text())["datasets"]
    assert {name: one["spends"] for name, one in known.items()} == {"alias": 1, "town": 2}
    # The town's second spend is gone, and the other's is there.
    book.write_bytes(backup)
    (town / "ledger.db.ledger.json").unlink()
    note = town / "people.csv.ledger.json"
    note.write_text(
        note.read_text()
        .replace('"spends": 1', '"spends": 0')
        .replace(known["alias"]["last_run"], "")
    )
    with pytest.raises(RunError, match="found a ledger with 1 spends on 'town' and not run"):
        prepare_run(load_config(write_config(town, run=ALIAS, out="fourth")))


def test_a_second_ledger_for_a_dataset_is_refused_for_another_file_too(town: Path):
    Ledger.create(town / "fresh.db").declare(
        "town", total=PureLoss(epsilon=Fraction(9), unit=UnitOfPrivacy.CHANGE_ONE)
    )
    run = LEDGER.replace("ledger.db", "fresh.db")
    config = write_config(town, population=other_people(town, "p.csv"), run=run, out="second")
    with pytest.raises(ConfigError, match=r"ledger\.json: .*found another ledger \(.*fresh"):
        prepare_run(load_config(config))


def test_copies_of_a_ledger_that_went_apart_are_told_apart(town: Path):
    """Each has a spend that the other has not: the note knows the last."""
    copy = town / "copy.db"
    copy.write_bytes((town / "ledger.db").read_bytes())
    copy.chmod(0o600)
    protect_run(write_config(town, run=LEDGER, out="second"))
    notes = [*town.glob("*.ledger.json")]
    kept = {note: note.read_text() for note in notes}
    for note in notes:
        note.unlink()
    run = LEDGER.replace("ledger.db", "copy.db")
    protect_run(write_config(town, run=run, out="third"))
    for note, text in kept.items():
        note.write_text(text)
    with pytest.raises(RunError, match="with 2 spends on 'town' and not run"):
        prepare_run(load_config(write_config(town, run=run, out="fourth")))


def test_an_older_ledger_is_refused_where_there_is_no_file(tmp_path: Path):
    """People who are generated have no file to lie beside: the note beside the ledger knows."""
    book = make_ledger(tmp_path).path
    towns = 'kind = "towns"\npeople = 1000\nattributes = ["race"]'
    backup = book.read_bytes()
    protect_run(write_config(tmp_path, population=towns, run=LEDGER, out="first"))
    book.write_bytes(backup)
    with pytest.raises(RunError, match="found a ledger with 0 spends on 'town' and not run"):
        prepare_run(load_config(write_config(tmp_path, population=towns, run=LEDGER, out="b")))


def test_a_note_that_cannot_be_left_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    write_town(tmp_path)
    make_ledger(tmp_path)

    def refuse_notes(path: Path, text: str) -> None:
        if path.name.endswith(".ledger.json"):
            raise OSError(30, "Read-only file system")
        write_text_atomic(path, text)

    monkeypatch.setattr("headcount.run.protect.write_text_atomic", refuse_notes)
    protect_run(write_config(tmp_path, run=LEDGER))
    assert "a config that leaves the ledger out, or names an older copy of it, will" in caplog.text


def test_a_generated_population_is_known_by_its_recipe(tmp_path: Path):
    def digest(text: str) -> str:
        config = load_config(write_config(tmp_path, population=text))
        return config.population.source_digest()

    towns = 'kind = "towns"\nseed = 3'
    assert digest(towns) == digest(towns + '\nattributes = ["race"]')
    assert digest(towns) != digest('kind = "towns"\nseed = 4')
    assert digest(towns) == digest(towns + "\npeople = 40000")  # the default, said or not


def _write(path: Path, rows: list[tuple[str, ...]], header: list[str]) -> Path:
    pl.DataFrame(rows, schema=header, orient="row").write_csv(path)
    return path


def test_the_digest_of_rows_is_that_of_their_multiset(tmp_path: Path):
    """Against brute force: equal exactly where the sorted lists of rows are equal."""
    generator = np.random.default_rng(5)
    seen: dict[tuple[tuple[str, ...], ...], str] = {}
    for number in range(60):
        rows = [
            tuple(str(v) for v in generator.integers(0, 2, size=2))
            for _ in range(generator.integers(1, 4))
        ]
        canonical = tuple(sorted(tuple(sorted(row)) for row in rows))
        digest = table_digest(_write(tmp_path / f"{number}.csv", rows, ["a", "b"]))
        assert seen.setdefault(canonical, digest) == digest
    assert len(set(seen.values())) == len(seen) > 10


def test_rows_are_more_than_their_columns(tmp_path: Path):
    """The same values in each column, in other rows, are other people."""
    one = _write(tmp_path / "one.csv", [("a1", "f"), ("a2", "m")], ["tract", "sex"])
    two = _write(tmp_path / "two.csv", [("a1", "m"), ("a2", "f")], ["tract", "sex"])
    assert table_digest(one) != table_digest(two)


def test_lines_of_any_length_and_order(tmp_path: Path):
    lines = ["H0001", "P000123456789", "", "P000123456780", "H0001"]

    def digest(content: list[str], end: str = "\n") -> str:
        (tmp_path / "lines").write_text("\n".join(content) + end)
        return lines_digest(tmp_path / "lines")

    whole = digest(lines)
    assert digest(lines[::-1]) == whole
    assert digest(lines, end="") == whole
    assert digest(lines[1:]) != whole  # one of two that are alike
    assert digest(["H0001 ", *lines[1:]]) != whole
    assert digest([*lines[:3], "P000123456781", lines[4]]) != whole
    assert digest([line + "\0" for line in lines]) != whole


def test_a_second_release_without_a_ledger_gets_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    write_town(tmp_path)
    config = write_config(tmp_path, out="first")
    protect_run(config)
    protect_run(config)  # finished: nothing is released again
    assert "without a ledger" not in caplog.text
    protect_run(write_config(tmp_path, out="second"))
    assert "1 released before without a ledger" in caplog.text
    caplog.clear()
    make_ledger(tmp_path)
    protect_run(write_config(tmp_path, run=LEDGER, out="third"))  # from now on it is kept
    assert "without a ledger" not in caplog.text
    with pytest.raises(ConfigError, match="found no ledger"):
        protect_run(write_config(tmp_path, out="fourth"))
