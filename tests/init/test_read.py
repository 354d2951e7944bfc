"""``hc.read``: a population from a data frame, or from a file as people have it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import headcount as hc
from headcount.config.load import load_config
from headcount.errors import ConfigError, InputError
from headcount.init import draft, draft_of, write_draft
from headcount.init.told import as_arguments
from headcount.population.columns import AttributeColumn
from headcount.population.microdata import read_microdata
from tests.init.strangers import STRANGERS
from tests.init.test_init import tallied

PEOPLE = {
    "county": ["44001", "44001", "44003", "44003", "44003"],
    "tract": ["44001a", "44001a", "44003a", "44003b", "44003b"],
    "sex": ["f", "m", "m", "f", "f"],
    "years": [3, 40, 70, 17, 18],
}
PLACES = ["county", "tract"]


class Relation:
    """Somebody else's frame, which can do nothing but stream (a relation of DuckDB)."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def frames() -> dict[str, Any]:
    import pandas as pd  # type: ignore[import-untyped]

    return {
        "polars": pl.DataFrame(PEOPLE),
        "pandas": pd.DataFrame(PEOPLE),
        "pandas without its first rows": pd.DataFrame(PEOPLE).set_index([[9, 8, 7, 6, 5]]),
        "pyarrow": pa.table(PEOPLE),
        "batches": pa.RecordBatchReader.from_batches(
            pa.table(PEOPLE).schema, pa.table(PEOPLE).to_batches()
        ),
        "anything": Relation(pa.table(PEOPLE)),
    }


@pytest.mark.parametrize("name", STRANGERS)
def test_a_strangers_file_is_read_as_init_reads_it(tmp_path: Path, name: str) -> None:
    stranger = STRANGERS[name](tmp_path)
    write_draft(draft(stranger.path), tmp_path / "config.toml")
    by_config = load_config(tmp_path / "config.toml").population.read()
    people = hc.read(str(stranger.path))
    assert tallied(people) == +stranger.truth
    assert people.schema == by_config.schema
    assert people.geography.levels == by_config.geography.levels
    assert people.domain.read_off == by_config.domain.read_off
    assert people.domain.one_person == by_config.domain.one_person


@pytest.mark.parametrize("kind", frames())
def test_frames_of_every_kind_are_the_same_people(kind: str) -> None:
    people = hc.read(
        frames()[kind], geography=PLACES, attributes={"sex": hc.levels("m", "f"), "years": [0, 18]}
    )
    assert tallied(people) == {
        ("44001a", "f", "0-17"): 1,
        ("44001a", "m", "18+"): 1,
        ("44003a", "m", "18+"): 1,
        ("44003b", "f", "0-17"): 1,
        ("44003b", "f", "18+"): 1,
    }
    assert people.schema.attribute("sex").levels == ("m", "f")
    assert people.domain.read_off == ("which units exist",)
    assert not people.public


def test_what_is_not_said_is_found_and_the_reasons_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, logger="headcount.init.read"):
        people = hc.read(pl.DataFrame(PEOPLE))
    assert people.geography.levels == ("whole", "county", "tract")
    assert people.schema.names == ("sex", "years")
    assert people.schema.attribute("years").levels[:2] == ("0-4", "5-9")
    assert "which levels of 'sex' exist" in people.domain.read_off
    assert "kind: one row for each person" in caplog.text


def test_a_level_for_rows_without_a_value_is_read_from_the_data() -> None:
    found = pl.DataFrame({**PEOPLE, "years": [3, 40, 70, 17, None]})
    people = hc.read(found, geography=PLACES, attributes=["years"])
    assert "unknown" in people.schema.attribute("years").levels
    assert "which levels of 'years' exist" in people.domain.read_off
    said = hc.read(found, geography=PLACES, attributes={"years": hc.bins(0, 18, missing="level")})
    assert said.domain.read_off == ("which units exist",)


def test_codes_that_pandas_made_floats_are_whole_again() -> None:
    import pandas as pd

    frame = pd.DataFrame({"geoid": [44001, 44003, None], "sex": ["f", "m", "f"]})
    people = hc.read(frame.dropna(), geography={"geoid": {"state": 2, "county": 5}})
    assert people.geography.units[-1].tolist() == ["44001", "44003"]
    assert people.geography.levels == ("whole", "state", "county")


def test_long_counts_and_dwellings_are_named() -> None:
    long = pl.DataFrame({"place": ["a", "a", "b"], "sex": ["f", "m", "f"], "freq": [2, 3, 4]})
    assert tallied(hc.read(long, geography="place", count="freq", attributes=["sex"])) == {
        ("a", "f"): 2,
        ("a", "m"): 3,
        ("b", "f"): 4,
    }
    homes = pl.DataFrame(PEOPLE).with_columns(home=pl.Series(["1", "1", "2", "3", "3"]))
    people = hc.read(homes, geography=PLACES, attributes="sex", household="home")
    assert people.households is not None
    assert people.schema.names == ("sex",)


def test_a_public_list_of_units_may_be_a_frame() -> None:
    units = pl.DataFrame(
        {"county": ["44001", "44003", "44003"], "tract": ["44001a", "44003a", "44003b"]}
    )
    more = units.extend(pl.DataFrame({"county": ["44005"], "tract": ["44005a"]}))
    people = hc.read(
        pl.DataFrame(PEOPLE), geography=PLACES, attributes={"sex": hc.levels("f", "m")}, units=more
    )
    assert people.geography.size("tract") == 4
    assert people.domain.read_off == ()


def test_names_of_codes_and_missing_values_are_said_beside_the_levels() -> None:
    frame = pl.DataFrame({"place": ["a", "b", "b"], "q1": ["1", "2", "9"], "age": [5, 70, None]})
    people = hc.read(
        frame,
        geography="place",
        attributes={
            "sex": hc.levels(
                {"1": "male", "2": "female"}, column="q1", missing="level", missing_values=["9"]
            ),
            "age": hc.bins("five-year", missing="level"),
        },
    )
    assert people.schema.attribute("sex").levels == ("male", "female", "unknown")
    assert tallied(people)["b", "unknown", "unknown"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"data": {"county": ["1"]}},
            "data frame: found a dict, expected a path, or a data frame of polars, pandas, pyarrow",
        ),
        ({"data": pl.LazyFrame(PEOPLE)}, "found a LazyFrame, which is not read yet"),
        ({"data": pl.Series([1, 2])}, "a Series that cannot be read"),
        (
            {"geography": ["conty"], "name": "census"},
            r"census: column 'conty': found no such column, expected .*\(did you mean 'county'\?\)",
        ),
        ({"geography": 7}, "geography: found 7, expected the columns of places from the top down"),
        ({"attributes": 7}, "read: attributes: found 7, expected names of columns"),
        ({"attributes": [hc.bins(0, 18)]}, "attributes: found AttributeColumn"),
        (
            {"attributes": {"years": "five-year"}},
            "attributes, 'years': found 'five-year', expected",
        ),
        ({"attributes": ["sx"]}, r"column 'sx': .*did you mean 'sex'"),
        ({"kind": "person"}, r"kind: found 'person', expected .*did you mean 'people'"),
        ({"kind": "wide", "attributes": ["sex"]}, "attributes of a table with a column of counts"),
        ({"attributes": {"sex": hc.levels("f")}}, "level 'm', expected one of 'f'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_was_expected(
    arguments: dict[str, Any], message: str
) -> None:
    data = arguments.pop("data", pl.DataFrame(PEOPLE))
    with pytest.raises(InputError, match=message):
        hc.read(data, **arguments)


def test_bins_and_levels_say_what_they_take() -> None:
    with pytest.raises(InputError, match=r"levels: found nothing, expected texts, levels\("):
        hc.levels()
    with pytest.raises(InputError, match=r"found 1, 2, expected texts"):
        hc.levels(1, 2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="did you mean 'five-year'"):
        hc.bins("five-years")


def test_the_readers_take_a_path_as_text_and_columns_as_a_list(tmp_path: Path) -> None:
    pl.DataFrame(PEOPLE).write_csv(tmp_path / "people.csv")
    people = read_microdata(
        str(tmp_path / "people.csv"), attributes=[AttributeColumn(name="sex")], geography=PLACES
    )
    assert sum(tallied(people).values()) == 5
    with pytest.raises(InputError, match="geography: found 3, expected the columns of places"):
        read_microdata("people.csv", attributes=[], geography=3)  # type: ignore[arg-type]


def test_ids_and_record_keys_go_with_the_people_and_are_no_attribute() -> None:
    frame = pl.DataFrame(PEOPLE | {"pin": ["a", "b", "c", "d", "e"], "rkey": [1, 2, 3, 4, 255]})
    plain = hc.read(frame.drop("pin", "rkey"), geography=PLACES)
    by_id = hc.read(frame.drop("rkey"), geography=PLACES, person_id="pin")
    by_key = hc.read(frame.drop("pin"), geography=PLACES, record_keys="rkey")
    for people in (by_id, by_key):
        assert people.schema == plain.schema
        assert people.record_keys is not None
        assert len(set(people.record_keys.values.tolist())) == 5
    with pytest.raises(ConfigError, match="person_id: found the column 'sex', which is also an at"):
        hc.read(frame, geography=PLACES, attributes=["sex"], person_id="sex")
    counts = frame.with_columns(n=pl.Series([1, 2, 3, 4, 5]))
    with pytest.raises(ConfigError, match="person_id: found it beside counts in 'n', expected one"):
        hc.read(counts, geography=PLACES, count="n", person_id="pin")


def test_several_files_are_read_as_init_reads_them(tmp_path: Path) -> None:
    persons, homes = tmp_path / "persons.csv", tmp_path / "households.csv"
    rows = [
        (home, "mf"[n % 2], (13 * home + 7 * n) % 90)
        for home in range(40)
        for n in range(1 + home % 3)
    ]
    pl.DataFrame(rows, schema=["hhid", "sex", "age"], orient="row").write_csv(persons)
    where = {"hhid": range(40), "county": [f"{1 + home % 4:03}" for home in range(40)]}
    pl.DataFrame(where).write_csv(homes)
    together = hc.read([persons, str(homes)])
    write_draft(draft_of([persons, homes]), tmp_path / "config.toml")
    assert tallied(together) == tallied(load_config(tmp_path / "config.toml").population.read())
    assert together.geography.levels[1:] == ("county",)
    with pytest.raises(InputError, match="found a data frame among several tables"):
        hc.read([persons, pl.read_csv(homes)])
    with pytest.raises(InputError, match="read: found no table, expected a path, or a data frame"):
        hc.read([])


def test_one_key_of_several_is_asked_for_by_the_argument(tmp_path: Path) -> None:
    persons, homes = tmp_path / "persons.csv", tmp_path / "homes.csv"
    pl.DataFrame({"a": [1, 2, 3], "b": [1, 2, 3], "sex": ["m", "f", "m"]}).write_csv(persons)
    pl.DataFrame({"a": [1, 2, 3], "b": [1, 2, 3], "ward": ["x", "x", "y"]}).write_csv(homes)
    with pytest.raises(InputError, match=r'household="a", or another|several tables that may'):
        hc.read([persons, homes])


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ('--places "state,county": from the top', 'geography=["state", "county"]: from the top'),
        ("--no-places, if there are none", "geography=[], if there are none"),
        ('--key "home", or another', 'household="home", or another'),
        ("--ages years or --ages codes", 'ages="years" or ages="codes"'),
        ("--kind people, if each", 'kind="people", if each'),
        ('--only "year=2020"', 'only={"year": ["2020"]}'),
        ('--leave-out "ward=" leaves', 'leave_out={"ward": [""]} leaves'),
        (
            "--not-counts, --universe or --count say which",
            "not_counts, universe or count say which",
        ),
        ('--not-counts "a,b"', 'not_counts=["a", "b"]'),
        ("--count COLUMN, or another --kind", 'count="COLUMN", or another kind'),
        ('one of them: --sheet "Sheet 1"', 'one of them: sheet="Sheet 1"'),
        ("--blank-counts zero", 'blank_counts="zero"'),
        ("none, or --overwrite", "none, or --overwrite"),
    ],
)
def test_messages_name_arguments(said: str, meant: str) -> None:
    assert as_arguments(said) == meant


def test_a_file_is_asked_about_by_arguments_too(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    pl.DataFrame({"sex": ["m", "f"] * 20, "age": range(40)}).write_csv(path)
    with pytest.raises(InputError) as caught:
        hc.read(path)
    assert 'geography=["state", "county"]' in str(caught.value)
    assert str(caught.value).endswith(
        f"{caught.value.expected}\n  geography=[] reads 40 people in 1 place"
    )
    assert "--" not in str(caught.value)
