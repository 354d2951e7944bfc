"""Input that used to hang, to crash or to show a traceback: each is one clear line."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headcount.config.load import load_config
from headcount.errors import ConfigError, HeadcountError, InputError, PrivacyError, brief
from headcount.fields import RECORDED_DIGITS, TooLong, exact_number, fits, shown
from headcount.files import MOST_BYTES, parse_toml
from headcount.population.columns import AttributeColumn
from headcount.population.households import read_households
from headcount.population.tables import read_table
from headcount.privacy import Ledger, PureLoss, UnitOfPrivacy
from headcount.privacy.loss import decimal, exact, figure
from headcount.run.protect import prepare_run, protect_run
from tests.run.town import LEDGER, make_ledger, write_config, write_town

UNIFORM = 'kind = "uniform"'
GEOMETRIC = 'name = "geometric"\nepsilon = 1'
TOPDOWN = 'name = "topdown"\n{}\nqueries = {{ total = {{ by = [], share = 1 }} }}'


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


DIGITS = "of at most 50 digits above and below the fraction bar"
REFUSED = {
    "1e999999999": (UNIFORM, "epsilon = 1e999999999", rf"epsilon: found 1E\+999999999.*{DIGITS}"),
    "as text": (UNIFORM, 'epsilon = "1e999999999"', f"epsilon: found '1e999999999'.*{DIGITS}"),
    "1e-999999999": (UNIFORM, "epsilon = 1e-999999999", DIGITS),
    "1e-5000": (UNIFORM, "epsilon = 1e-5000", DIGITS),
    "no such exponent": (UNIFORM, "epsilon = 1e99999999999999999999", "not TOML .*too large to"),
    "5000 decimals": (UNIFORM, f"epsilon = 0.{'1' * 5000}", rf"\(5,002 characters\).*{DIGITS}"),
    "4300 digits": (UNIFORM, f"epsilon = {'1' * 4400}", "not TOML .*more than 4,300 digits"),
    "hexadecimal": (UNIFORM, f"epsilon = 0x{'f' * 9000}", f"more than 4,300 digits.*{DIGITS}"),
    "a giant denominator": (UNIFORM, f'epsilon = "1/{"7" * 2500}"', DIGITS),
    "parts": (UNIFORM, f"parts = 0x{'f' * 9000}", "a whole number from -9,223,372,036,854,775,807"),
    "people": (f"{UNIFORM}\npeople = {10**30}", "", "people: found 1000000000000000000"),
    "many people": (f"{UNIFORM}\npeople = {10**18}", "", "people: .* from 1 to 1,000"),
    "depth": (f"{UNIFORM}\ndepth = {10**9}", "", "depth: found 1,000,000,000, expected"),
    "towns": (f'kind = "towns"\npeople = {10**18}', "", "people: found .* 50,000,000 or less"),
    "workload S": (f'kind = "workload-s"\nhouseholds = {10**18}', "", "found .* 20,000,000 or"),
    "us1940": ('kind = "us1940"\nscale = 1e400', "", f"scale: found 1E.400, expected .*{DIGITS}"),
    "us1940, above 1": ('kind = "us1940"\nscale = 2', "", "scale: found 2, expected a share"),
    "prefixes": (
        'kind = "counts"\nfile = "x.csv"\nschema = "total"\n'
        f'geography = {{ column = "c", prefixes = {{ b = {10**18} }} }}',
        "",
        "prefixes: found lengths .* from 1 to 255",
    ),
    "nested lists": (f"{UNIFORM}\npeople = {'[' * 9000}{']' * 9000}", "", "nested too deeply"),
    "a long key": (f"{UNIFORM}\n{'.'.join('a' * 40_000)} = 1", "", "a key of more than 32 parts"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_config_that_used_to_hang_or_crash(case: str, town: Path):
    population, mechanism, message = REFUSED[case]
    if "parts" in mechanism:
        mechanism = f"epsilon = 1\n{mechanism}"
    text = f'name = "averaged"\n{mechanism}' if mechanism else GEOMETRIC
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(write_config(town, population=population, mechanism=text))
    assert len(str(caught.value)) < 1_000
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", ["1e-45", "3", "[]", '"x"'])
def test_a_value_in_place_of_a_table(value: str, tmp_path: Path):
    path = tmp_path / "config.toml"
    path.write_text(f'population = {value}\n[mechanism]\nname = "identity"\n[run]\nout = "out"\n')
    with pytest.raises(ConfigError, match=r"population: found .*, expected a table"):
        load_config(path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("rho = 1e-400", f"rho: found .*{DIGITS}"),
        ("rho = 1e-45", "found .*, expected"),
        ('epsilon = 1\nlevels = { whole = "1e-999999999" }', f"levels.whole: found .*{DIGITS}"),
    ],
)
def test_topdown_refuses_numbers_beyond_all_noise(given: str, message: str, town: Path):
    with pytest.raises(HeadcountError, match=message):
        prepare_run(load_config(write_config(town, mechanism=TOPDOWN.format(given))))
    assert not (town / "out").exists()


@pytest.mark.parametrize("key", ["out", "ledger", "file", "units"])
def test_a_path_with_a_nul(key: str, town: Path):
    bad = f'{key} = "a\\u0000b"'
    text = write_config(town).read_text()
    lines = [bad if line.startswith(f"{key} = ") else line for line in text.splitlines()]
    if key == "ledger":
        lines += [bad, 'dataset = "x"']
    (town / "config.toml").write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=rf"{key}: found .*, expected a path without the chara"):
        load_config(town / "config.toml")


def test_a_config_of_many_megabytes(town: Path):
    path = write_config(town)
    path.write_text("#" * (MOST_BYTES + 1))
    with pytest.raises(
        ConfigError, match="found a file of 1,048,577 bytes, expected at most 1,048"
    ):
        load_config(path)


def test_dots_in_texts_and_lists_are_no_keys():
    text = f'a = "{"." * 99}"\nb = [{"0.5, " * 99}]\nc = """\n{".." * 99}\n"""\n# {"." * 99}\n'
    assert parse_toml(text, source="x")["a"] == "." * 99


# --- numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["1e51", "1E-51", f"1/{10**50}", "1" * 51, "1_0e0_0_60", "1" * 999]
)
def test_numbers_of_too_many_digits(text: str):
    with pytest.raises(TooLong):
        exact_number(text)
    with pytest.raises(PrivacyError, match=DIGITS):
        exact(text, name="--epsilon")


@pytest.mark.parametrize("text", ["1e49", "1e-49", "0.1", "1/3", " 7 ", "-1.5e-3", "1_000"])
def test_numbers_are_what_they_say(text: str):
    assert exact_number(text) == Fraction(text)


def test_what_a_message_shows_of_a_value():
    assert shown(10**5000) == "a whole number of more than 4,300 digits"
    assert brief("a\nb\x1b" + "c" * 400) == "a\\nb\\x1b" + "c" * 296 + "... (404 characters)"
    huge, tiny = Fraction(10) ** 4999 / 7, Fraction(1, 10**4999 + 7)
    assert decimal(huge) == "~1.42857e+4998"
    assert figure(tiny) == "~1.00000e-4999"
    assert fits(tiny, digits=RECORDED_DIGITS) is False


# --- tables ----------------------------------------------------------------------------------


def test_a_bomb_of_rows_is_refused_before_it_is_read(tmp_path: Path, monkeypatch):
    path = tmp_path / "bomb.parquet"
    zeros = pa.table({"a": pa.array(np.zeros(2_000_000, dtype=np.int8))})
    with pq.ParquetWriter(path, zeros.schema) as writer:
        for _ in range(10):
            writer.write_table(zeros)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr("headcount.population.formats.kinds.memory_limit", lambda: 1 << 30)
    with pytest.raises(
        InputError, match=r"20,000,000 rows of 1 columns, expected what fits into the 1\.0 GiB of "
    ):
        read_table(path, ["a"])
    monkeypatch.undo()
    monkeypatch.setenv("HEADCOUNT_MEMORY", "1")
    with pytest.raises(InputError, match=r"about 1\.9 GiB; .* set HEADCOUNT_MEMORY to the GiB"):
        read_table(path, ["a"])
    monkeypatch.setenv("HEADCOUNT_MEMORY", "2")
    assert read_table(path, ["a"]).height == 20_000_000
    monkeypatch.setenv("HEADCOUNT_MEMORY", "much")
    with pytest.raises(
        ConfigError, match="HEADCOUNT_MEMORY: found 'much', expected a whole number"
    ):
        read_table(path, ["a"])


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([["a"], ["b"]]),
        pl.Series([{"x": 1}, {"x": 2}]),
        pl.Series([b"\xff", b"a"]),
        pl.Series([timedelta(1)] * 2),
    ],
)
def test_columns_of_lists_and_bytes_are_refused(values: pl.Series, tmp_path: Path):
    path = tmp_path / "people.parquet"
    pl.DataFrame({"a": values, "b": ["x", "y"]}).write_parquet(path)
    with pytest.raises(
        InputError, match=r"column 'a': found values of type .*, expected text, numbers or dates"
    ):
        read_table(path, ["a", "b"])
    assert read_table(path, ["b"])["b"].to_list() == ["x", "y"]


def test_damaged_parquet_is_an_error_or_the_same_table(tmp_path: Path):
    path = tmp_path / "people.parquet"
    rows = pl.DataFrame({"a": [f"{i % 7:02}" for i in range(500)], "b": list(range(500))})
    rows.write_parquet(path)
    whole = path.read_bytes()
    generator, refused = np.random.default_rng(5), 0
    for _ in range(150):
        content = bytearray(whole)
        for place in generator.integers(len(whole), size=3):
            content[place] = generator.integers(256)
        path.write_bytes(bytes(content))
        try:
            read_table(path, ["a", "b"])
        except InputError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("start", [b"\x28\xb5\x2f\xfd", b"\x78\x9c"])
def test_a_compressed_csv_is_refused(start: bytes, tmp_path: Path):
    path = tmp_path / "people.csv"
    path.write_bytes(start + b"rest")
    with pytest.raises(InputError, match=r"people.csv: found compressed content, expected plain"):
        read_table(path, ["a"])


def test_a_directory_in_place_of_a_table(tmp_path: Path):
    (tmp_path / "people.csv").mkdir()
    with pytest.raises(InputError, match=r"people.csv: found a directory, expected a .parquet or"):
        read_table(tmp_path / "people.csv", ["a"])


def test_more_levels_than_are_numbered(tmp_path: Path):
    path = tmp_path / "persons.parquet"
    keys = [str(i) for i in range(40_000)]
    pl.DataFrame({"hh": keys, "tract": ["a"] * 40_000, "age": keys}).write_parquet(path)
    from headcount.geography.geography import CodeColumns

    with pytest.raises(
        InputError, match="column 'age': found 40,000 levels, expected at most 32,767"
    ):
        read_households(
            path,
            key="hh",
            geography=CodeColumns(columns=("tract",)),
            attributes=[AttributeColumn(name="age", column="age")],
        )


# --- ledgers ---------------------------------------------------------------------------------

LONG = Fraction(1, 3**5000)


def test_long_amounts_do_not_enter_a_ledger(town: Path):
    ledger = make_ledger(town)
    loss = PureLoss(epsilon=LONG, unit=UnitOfPrivacy.ADD_REMOVE)
    with pytest.raises(PrivacyError, match=r"found epsilon ~.*, expected a number of at most 400"):
        ledger.declare("other", total=loss)
    with pytest.raises(PrivacyError, match="at most 400 digits"):
        ledger.afford("town", loss)
    with pytest.raises(PrivacyError, match="at most 400 digits"):
        ledger.spend("town", loss, run_id="1", data_digest="d", config_digest="c", key_kind="os")
    assert ledger.history("town") == ()


def test_a_ledger_of_old_with_long_amounts_can_be_read(town: Path):
    ledger = make_ledger(town)
    for number in range(2):
        protect_run(
            write_config(
                town, run=LEDGER, out=f"run{number}", mechanism='name="geometric"\nepsilon=0.5'
            )
        )
    with sqlite3.connect(town / "ledger.db") as connection:
        connection.executescript("DROP TRIGGER spend_no_update")
        for number, base in enumerate((7, 11), start=1):
            old = f"1/{base ** (2500 if base == 7 else 2400)}"
            connection.execute(
                "UPDATE spend SET amount = ?, charge = ? WHERE number = ?", (old, old, number)
            )
    said = ledger.balance("town").sentences()
    assert "Total 2, spent ~" in said[1]
    with pytest.raises(PrivacyError, match=r"remaining ~2, difference ~"):
        ledger.afford("town", PureLoss(epsilon=Fraction(3), unit=UnitOfPrivacy.ADD_REMOVE))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE spend SET currency = 'epsilom'", "a damaged row .*'epsilom'"),
        ("UPDATE spend SET charge = 'x'", "a damaged row .*found 'x'"),
        ("UPDATE spend SET charge = '-1/2'", "a damaged row .*-1/2"),
        ("UPDATE spend SET charge = '1e999999999'", "a damaged row .*1e999999999"),
        ("UPDATE spend SET invariants = '{'", "a damaged row"),
        ("UPDATE spend SET invariants = '[1]'", "a damaged row"),
        ("UPDATE dataset SET unit = 'me'", "a damaged row .*'me'"),
        ("UPDATE dataset SET amount = '0/0'", "a damaged row .*0/0"),
        ("DELETE FROM event", "a damaged row"),
        ("UPDATE spend SET invariants = CAST(x'ff' AS TEXT)", "decode"),
        ("DELETE FROM secret", "its secret is gone"),
        ("UPDATE dataset SET name = 'x'", "a row of .* belongs to none of 'dataset'"),
        ("DROP TABLE event", "no such table"),
    ],
)
def test_rows_that_headcount_did_not_write(change: str, message: str, town: Path):
    make_ledger(town)
    protect_run(write_config(town, run=LEDGER))
    with sqlite3.connect(town / "ledger.db") as connection:
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(change)
    with pytest.raises(PrivacyError, match=message) as caught:
        Ledger.open(town / "ledger.db").balance("town")
    assert str(caught.value).isprintable()


def test_damaged_pages_are_found_and_no_lock_stays(town: Path):
    make_ledger(town)
    path = town / "ledger.db"
    whole, generator, refused = path.read_bytes(), np.random.default_rng(3), 0
    locked = 0
    for _ in range(120):
        content = bytearray(whole)
        start = int(generator.integers(len(whole) - 64))
        content[start : start + 64] = generator.bytes(64)
        path.write_bytes(bytes(content))
        try:
            Ledger.open(path).balance("town")
        except PrivacyError:
            refused += 1
        with sqlite3.connect(path, timeout=0) as connection:  # nobody holds it
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.DatabaseError as error:
                locked += "locked" in str(error)
    assert refused > 5
    assert locked == 0
