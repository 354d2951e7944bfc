"""Suppression of tables over any schema: counted, grouped, spared, refused and protected."""

import json
from dataclasses import replace
from hashlib import sha256

import numpy as np
import polars as pl
import pytest

from headcount.config.load import config_digest, load_config
from headcount.errors import ConfigError, InputError, RunError, TruthError
from headcount.evaluation.suppressed import audit_release
from headcount.mechanisms import protect
from headcount.mechanisms._base import Context
from headcount.mechanisms._own_tables import MOST, PAIR, auto_tables, cross
from headcount.mechanisms.suppression._pattern import CostFile
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.mechanisms.suppression.rules import Thresholds
from headcount.release.published import by_name, cell_columns, flagged_frame
from headcount.release.store import read_release
from headcount.run.protect import prepare_run, protect_run
from headcount.schema import Attribute, Schema
from headcount.tabulate import Tabulated
from headcount.tabulate.linked_tables import all_values

JOBS = ["11", "12", "21", "22", "23", "none"]
AGES = ["0-17", "18-39", "40-64", "65+"]


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    town = rng.choice(["A1", "A2", "A3", "B1", "B2"], 900)
    return pl.DataFrame(
        {
            "region": [one[0] for one in town],
            "town": town,
            "age": rng.choice(AGES, 900, p=[0.2, 0.4, 0.39, 0.01]),
            "sex": rng.choice(["f", "m"], 900),
            "job": rng.choice(JOBS, 900, p=[0.01, 0.02, 0.3, 0.3, 0.07, 0.3]),
        }
    )


POPULATION = """
[population]
kind = "microdata"
file = "people.csv"
geography = { columns = ["region", "town"] }
[[population.attribute]]
name = "age"
levels = ["0-17", "18-39", "40-64", "65+"]
[[population.attribute]]
name = "sex"
levels = ["f", "m"]
[[population.attribute]]
name = "job"
levels = ["11", "12", "21", "22", "23", "none"]
[mechanism]
name = "suppression"
"""
TABLES = 'tables = { age_sex = ["age", "sex"], job_sex = ["job", "sex"] }\n'


@pytest.fixture
def config(people, tmp_path):
    people.write_csv(tmp_path / "people.csv")

    def write(more=TABLES):
        file = tmp_path / "config.toml"
        file.write_text(POPULATION + more + '[run]\nout = "run"\n')
        return file

    return write


@pytest.fixture(scope="module")
def counts(people, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    people.write_csv(folder / "people.csv")
    file = folder / "config.toml"
    file.write_text(POPULATION + TABLES + '[run]\nout = "run"\n')
    return load_config(file).population.read()


def tabulated(counts):
    return Tabulated.of(counts)


def made(counts, **settings):
    return protect(tabulated(counts), Suppression(**settings)).as_tables()


def test_every_published_count_is_that_of_plain_counting(config, people):
    run = protect_run(config(TABLES + "prefixes = { job = [1] }\nbins = { age = [0, 18] }\n"))
    frame = pl.read_parquet(run / "release" / "job_sex@town.parquet")
    assert frame.columns == ["unit", "job", "sex", "n", "flag"]
    assert set(frame["flag"]) == {"published", "withheld"}
    assert set(frame["job"]) == {"total", "1*", "2*", *JOBS, "none"}
    for row in frame.iter_rows(named=True):
        there = people.filter(town=row["unit"])
        if row["sex"] != "total":
            there = there.filter(sex=row["sex"])
        if row["job"] != "total":
            there = there.filter(pl.col("job").str.starts_with(row["job"].removesuffix("*")))
        assert row["n"] is None if row["flag"] == "withheld" else row["n"] == there.height
        assert row["flag"] == "withheld" or there.height not in (1, 2)
        assert row["flag"] == "published" or there.height > 0
    ages = pl.read_parquet(run / "release" / "age_sex@whole.parquet")
    adults = ages.filter(age="18+", sex="total")["n"].item()
    assert adults == people.filter(pl.col("age") != "0-17").height


def test_why_a_cell_is_withheld_is_told_to_the_curator_alone(config, people):
    run = protect_run(config())
    for level in ("whole", "region", "town"):
        shown = pl.read_parquet(run / "release" / f"job_sex@{level}.parquet")
        inside = pl.read_parquet(run / "internal" / "flagged" / f"job_sex@{level}.parquet")
        assert inside.columns == shown.columns
        assert inside.drop("n", "flag").equals(shown.drop("n", "flag"))
        small = pl.col("n").is_between(1, 2)
        held = shown["flag"] == "withheld"
        flag = pl.when(~held).then(pl.lit("published")).when(small).then(pl.lit("primary"))
        right = inside.select(flag.otherwise(pl.lit("complementary")).alias("flag"))
        assert inside.select("flag").equals(right)
        assert not inside.filter(~held)["n"].is_between(1, 2).any()
    assert set(inside["flag"]) == {"published", "primary", "complementary"}
    assert inside.filter(job="total", sex="total")["n"].sum() == people.height
    for file in (run / "release").glob("*@*.parquet"):
        assert set(pl.read_parquet(file)["flag"]) <= {"published", "withheld"}
    table = pl.read_csv(run / "internal" / "suppression.csv")
    row = table.row(by_predicate=(pl.col("table") == "job_sex") & (pl.col("level") == "town"))
    assert row[3:6] == tuple(
        inside.filter(flag=name).height for name in ("published", "primary", "complementary")
    )


def test_a_release_of_own_tables_comes_back_with_its_groups(config):
    groups = 'groups = { job = { paid = ["manual", "12"], manual = ["21", "22", "23"] } }\n'
    run = protect_run(config(TABLES + groups))
    back = read_release(run / "release").as_tables()
    one = by_name(back.published)["job_sex", "town"]
    assert set(cell_columns(one.cells)["job"]) == {"total", "paid", "manual", *JOBS}
    coding = one.cells.axes[0]
    names = [label for label, _ in coding.groups]
    parent = {name: names[up] for name, up in zip(names, coding.parents, strict=True) if up >= 0}
    assert parent["21"] == "manual"
    assert parent["manual"] == parent["12"] == "paid"
    assert parent["paid"] == parent["11"] == "total"
    frame = pl.read_parquet(run / "release" / "job_sex@town.parquet")
    assert flagged_frame(one, back.geography).equals(frame)


def test_patterns_of_own_tables_pass_the_audit(counts, tmp_path):
    mechanism = Suppression(
        tables={"age_sex": ["age", "sex"], "job_sex": ["job", "sex"]}, prefixes={"job": [1]}
    )
    data = tabulated(counts)
    release = protect(data, mechanism, context=Context(curator=tmp_path)).as_tables()
    release = replace(release, rules=replace(release.withholding, audit=1000))
    (found,) = audit_release(data.counts, release, witnesses=tmp_path / "witnesses.parquet")
    assert found.clean
    assert found.witnessed is not None
    assert found.witnessed.primaries == found.found.primaries == found.primary > 10
    assert found.tables == ("age_sex", "job_sex")
    # Negative control: the cells withheld for others' sake are published after all.
    values = all_values(data.counts, tuple(one.cells for one in release.published))
    holed = []
    for one in release.published:
        large = one.withheld & (values[one.name, one.level] > 2)
        value = np.where(large, values[one.name, one.level], one.value)
        holed.append(replace(one, withheld=one.withheld & ~large, value=value))
    (leaks,) = audit_release(data.counts, replace(release, published=tuple(holed)))
    assert len(leaks.found.exact_primary) > 10


def test_tables_stop_at_the_levels_that_are_asked_for(counts):
    found = by_name(
        made(
            counts,
            tables={"age": ["age"], "sex": ["sex"], "people": []},
            lowest_of={"age": "region"},
            effort=0,
        ).published
    )
    assert set(found) == {
        *(("age", level) for level in ("whole", "region")),
        *((name, level) for name in ("sex", "people") for level in ("whole", "region", "town")),
    }
    assert found["people", "town"].cells.size == 1


def withheld(release):
    """Cells withheld and people in them, shared cells counted once."""
    people = [one.withheld for one in release.published]
    return sum(int(one.sum()) for one in people)


def test_costs_decide_which_cells_are_spared(counts, tmp_path):
    tables = {"job_sex": ["job", "sex"]}
    data = tabulated(counts)
    truth = all_values(
        data.counts, tuple(one.cells for one in made(counts, tables=tables, effort=0).published)
    )

    def lost(**settings):
        release = made(counts, tables=tables, **settings)
        cells = sum(int(one.withheld.sum()) for one in release.published)
        people = sum(
            int(truth[one.name, one.level][one.withheld].sum()) for one in release.published
        )
        return cells, people

    by_cells, by_people = lost(cost="cells", effort=0), lost(cost="people", effort=0)
    assert by_cells[0] < by_people[0]
    assert by_cells[1] > by_people[1]
    plain = by_name(made(counts, tables=tables, effort=0).published)["job_sex", "town"]
    spare = plain.withheld & (truth["job_sex", "town"] > 2)
    frame = flagged_frame(plain, data.counts.geography)
    rows = frame.filter(pl.Series(spare.ravel())).select("unit", "job", "sex")
    rows = rows.with_columns(cost=pl.lit(1000), level=pl.lit("town"))
    rows.write_csv(tmp_path / "costs.csv")
    costs = CostFile(file=tmp_path / "costs.csv").bound_to_files()
    dear = by_name(made(counts, tables=tables, costs=costs, effort=0).published)["job_sex", "town"]
    assert 2 * int((dear.withheld & spare).sum()) < int(spare.sum())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("costs.csv", b"unit,cost\na,2\nb,2,9\n"),
        ("costs.csv", b"unit,cost\n\xff\xfe,2\n"),
        ("costs.csv", b""),
        ("costs.parquet", b"PAR1 no more"),
    ],
)
def test_costs_that_cannot_be_read_are_refused_by_name(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=f"{name}: found what cannot be read: .*expected a table"):
        CostFile(file=tmp_path / name).read(("unit",))


def test_cells_that_must_be_published_are(counts):
    kept = [{"level": "whole", "sex": "total"}, {"table": "age_sex", "age": "total"}]
    tables = {"age_sex": ["age", "sex"], "job_sex": ["job", "sex"]}
    found = by_name(made(counts, tables=tables, publish=kept, effort=0).published)
    assert withheld(made(counts, tables=tables, effort=0))
    for one in found.values():
        labels = np.array(one.cells.labels)
        if one.level == "whole":
            assert not one.withheld[:, labels[:, 1] == "total"].any()
        # By sex also in job_sex, where they are the same counts.
        assert not one.withheld[:, labels[:, 0] == "total"].any()


def test_cells_to_publish_that_leave_no_pattern_are_named_to_the_curator_alone(config, counts):
    """A small count alone in its row and column: all else in its relations must be published."""
    asked = 'publish = [{ table = "job_sex", job = ["none", "2*", "total", "12"] }]\n'
    more = 'tables = { job_sex = ["job", "sex"] }\nprefixes = { job = [1] }\n' + asked
    with pytest.raises(RunError, match="it reveals something about the data") as refused:
        prepare_run(load_config(config(more)))
    assert "job_sex" not in str(refused.value)
    (note,) = (config(more).parent / "run" / "internal").glob("*refus*")
    told = note.read_text()
    assert "cells to publish that are small counts" in told
    assert "job_sex at town" in told
    with pytest.raises(TruthError, match="small counts that no pattern protects") as refusal:
        Suppression(
            tables={"age_sex": ["age", "sex"]},
            publish=({"age": ["0-17", "18-39", "40-64", "total"]},),
        ).on(tabulated(counts).counts.domain).check(tabulated(counts).counts)
    assert "Cells to publish, of which some would have to be withheld: age_sex at" in str(
        refusal.value
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "1980"}, "rule: found '1980' for tables of one's own, expected the rule"),
        ({"tables": {"t": ["age", "age"]}}, "tables.t: found 'age' twice"),
        ({"tables": {"a/b": ["age"]}}, "tables: found 'a/b', expected names of letters"),
        ({"tables": {"t": ["age"], "T": ["sex"]}}, "found 't' twice, expected names that differ"),
        ({"tables": "all"}, "tables: found 'all', expected \"auto\", a list"),
        ({"tables": {"t": "age"}}, "expected a list of attributes for the table 't'"),
        ({"lowest_of": {"agesex": "town"}}, "table 'agesex', expected .*did you mean 'age_sex'"),
        ({"whole": ["P12"]}, "whole: found tables of one's own"),
        ({"cost": "cell"}, "cost: found 'cell', expected .*did you mean 'cells'"),
        ({"thresholds": {"people": 5}}, r"thresholds.people: .* \(did you mean 'persons'\?\)"),
        ({"tables": ["P1"], "bins": {"age": [0]}}, "bins: found tables that are known by name"),
        ({"tables": ["P1"], "publish": [{"level": "x"}]}, "publish: found rule '1980'"),
        ({"tables": ["P1"], "cost": "cells"}, "cost: found rule '1980'"),
    ],
)
def test_settings_of_own_tables_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Suppression(**{"tables": {"age_sex": ["age", "sex"]}, **settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tables": {"t": ["agee"]}}, "tables.t: found 'agee', expected .*did you mean 'age'"),
        ({"lowest_of": {"t": "towns"}}, "lowest_of.t: found 'towns', .*did you mean 'town'"),
        ({"lowest": "village"}, "found level 'village', expected one of"),
        ({"groups": {"jobs": {"x": ["11"]}}}, "groups: found 'jobs', .*did you mean 'job'"),
        ({"groups": {"job": {"x": ["1l"]}}}, "groups.job.x: found '1l', expected one of '11'"),
        ({"groups": {"job": {"x": ["x"]}}}, "groups.job: found 'x' within itself"),
        ({"groups": {"job": {"11": ["12"]}}}, "groups.job: found '11' twice"),
        ({"groups": {"job": {"x": []}}}, "groups.job: found 'x' empty"),
        (
            {"groups": {"job": {"x": ["11", "12"], "y": ["12", "21"]}}},
            "found 'x' and 'y', which share some of their levels",
        ),
        ({"bins": {"age": [0, 20]}}, "bins.age: found level '18-39' across '0-19'"),
        ({"bins": {"job": [0, 20]}}, "bins.job: found level 'none', expected levels that are"),
        ({"prefixes": {"job": [0]}}, "prefixes.job: found 0, expected numbers of characters"),
        ({"publish": [{"levels": "town"}]}, "publish 1: found 'levels', .*did you mean 'level'"),
        ({"publish": [{"level": "town", "unit": "A9"}]}, "publish 1, unit: found 'A9'"),
        ({"publish": [{"level": "town", "unit": "A"}]}, "publish 1: found no cell"),
    ],
)
def test_names_that_the_population_does_not_have_are_refused(counts, settings, message):
    with pytest.raises(InputError, match=message):
        Suppression(**{"tables": {"t": ["age", "job"]}, **settings}).on(
            tabulated(counts).counts.domain
        ).check(tabulated(counts).counts)


def test_a_table_of_too_many_cells_is_refused_before_it_is_made(counts, monkeypatch):
    monkeypatch.setattr("headcount.mechanisms._own_tables.LARGEST", 5 * 7 * 3)
    tables = {"t": ["age", "job"]}
    message = r"tables.t: found 280 cells in all units, expected at most 105: fewer attributes"
    with pytest.raises(ConfigError, match=message):
        Suppression(tables=tables).on(tabulated(counts).counts.domain).check(
            tabulated(counts).counts
        )
    Suppression(tables=tables, lowest="region").on(tabulated(counts).counts.domain).check(
        tabulated(counts).counts
    )


def test_own_tables_as_a_data_frame_stand_one_below_the_other(counts):
    release = made(counts, tables={"age": ["age"], "job_sex": ["job", "sex"]}, effort=0)
    frame = release.to_polars("town", tidy=True)
    assert frame.columns == ["table", "region", "town", "age", "job", "sex", "n", "flag"]
    assert frame.height == 5 * (5 + 7 * 3)
    assert set(frame.filter(table="age")["job"]) == {"total"}
    assert frame["n"].is_null().equals(frame["flag"] == "withheld")
    one = by_name(release.published)["job_sex", "town"]
    same = flagged_frame(one, release.geography)
    part = frame.filter(table="job_sex").select(
        pl.col("town").alias("unit"), "job", "sex", "n", "flag"
    )
    assert part.equals(same)


def test_an_attribute_with_the_name_of_a_column_is_left_out_and_said(counts):
    data = tabulated(counts).counts
    schema = Schema(
        tuple(
            Attribute("flag" if one.name == "sex" else one.name, one.levels)
            for one in data.schema.attributes
        )
    )
    renamed = replace(data, domain=replace(data.domain, schema=schema))
    told = Suppression(tables="auto").on(renamed.domain).check(renamed)
    assert "leaves out flag: columns of the published files have these names" in told
    with pytest.raises(ConfigError, match=r"tables.t: found attribute 'flag', expected another"):
        Suppression(tables={"t": ["flag"]}).on(renamed.domain).check(renamed)


def test_a_place_without_anybody_is_published_as_zeros(counts):
    data = tabulated(counts).counts
    empty = replace(data, matrix=data.matrix * 0)
    for one in protect(Tabulated.of(empty), Suppression(tables="auto")).as_tables().published:
        assert not one.value.any()
        assert not one.withheld.any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("level\ntown\n", "found columns level, expected a column 'cost'"),
        ("levels,cost\ntown,1\n", "column 'levels': .*did you mean 'level'"),
        ("level,cost\ntown,1\nregion,0\n", "row 2, column 'cost': found '0', expected a number"),
        ("level,cost\ntown,dear\n", "row 1, column 'cost': found 'dear'"),
        ("level,cost\ntown,1\ntown,2\n", "row 1: found cells named twice"),
        ("level,cost\ntown,1\nvillage,2\n", "row 2: found names that no cell has together"),
    ],
)
def test_faults_of_a_file_of_costs_are_named(counts, tmp_path, text, message):
    file = tmp_path / "costs.csv"
    file.write_text(text)
    mechanism = Suppression(tables={"t": ["age"]}, costs=CostFile(file=file))
    with pytest.raises(ConfigError, match=message):
        mechanism.on(tabulated(counts).counts.domain).check(tabulated(counts).counts)


def test_a_file_of_costs_is_part_of_the_settings_by_its_content(config, tmp_path):
    more = TABLES + 'costs = { file = "costs.csv" }\n'
    with pytest.raises(ConfigError, match=r"costs.csv: found no such file"):
        load_config(config(more))
    (tmp_path / "costs.csv").write_text("level,cost\ntown,1\n")
    first = load_config(config(more))
    (tmp_path / "costs.csv").write_text("level,cost\ntown,2\n")
    second = load_config(config(more))
    assert config_digest(first) != config_digest(second)
    assert str(tmp_path) not in repr(first.mechanism[0])


def test_no_file_of_a_release_lets_a_reader_try_guesses_of_the_costs(config, tmp_path):
    costs = tmp_path / "costs.csv"
    costs.write_text("level,cost\ntown,41\n")
    run = protect_run(config(TABLES + 'costs = { file = "costs.csv" }\n'))
    found = load_config(config(TABLES + 'costs = { file = "costs.csv" }\n'))
    secrets = {sha256(costs.read_bytes()).hexdigest(), config_digest(found).hex()}
    for file in (one for one in (run / "release").rglob("*") if one.is_file()):
        assert not any(secret.encode() in file.read_bytes() for secret in secrets)
    assert secrets & {json.loads((run / "internal" / "run.json").read_text())["config_digest"]}
    costs.write_text("level,cost\ntown,42\n")
    with pytest.raises(RunError, match="config"):
        protect_run(tmp_path / "config.toml")


def test_the_short_form_makes_tables_of_any_population(config):
    planned = prepare_run(load_config(config('tables = "auto"\n')))
    told = "\n".join(planned.remarks)
    assert "publishes age (age): 5 cells at whole, region, town, 40 in all" in told
    assert "publishes age_job (age by job)" in told
    assert "counts of 1 to 2 are too small to publish" in told
    assert "circle" not in told
    wide = Schema(
        (
            Attribute("age", tuple(map(str, range(100)))),
            Attribute("sex", ("f", "m")),
            Attribute("job", tuple("abcdefghijkl")),
            Attribute("tenure", tuple("xyz")),
        )
    )
    names = dict(auto_tables(wide))
    assert list(names) == ["age", "sex", "job", "tenure", "job_tenure", "sex_job"]
    assert 100 * 2 > PAIR >= 12 * 3
    assert dict(auto_tables(Schema(()))) == {"people": ()}


def test_a_table_of_the_short_form_stops_where_it_has_too_many_cells(counts, monkeypatch):
    own = "headcount.mechanisms._own_tables.MOST"
    monkeypatch.setattr(own, 5 * (1 + 2))
    found = by_name(made(counts, tables="auto", effort=0).published)
    assert ("age", "region") in found
    assert ("age", "town") not in found
    assert ("age_job", "whole") in found  # the top in any case
    assert ("age_job", "region") not in found
    assert MOST > 15


@pytest.mark.parametrize(
    ("tables", "circle"),
    [
        (["a", "b", "ab"], ""),
        (["ab", "bc", "cd", "bd"], "bcd"),
        (["ab", "bc", "ca"], "abc"),
        (["ab", "bc", "ca", "abc"], ""),
        (["abc", "bcd", "cde"], ""),
        ([""], ""),
    ],
)
def test_tables_that_cross_in_a_circle_are_found(tables, circle):
    assert cross(tables) == set(circle)


def test_a_circle_is_said_before_anything_is_published(config):
    tables = 'tables = { a = ["age", "sex"], b = ["sex", "job"], c = ["job", "age"] }\n'
    planned = prepare_run(load_config(config(tables)))
    assert "tables by age, job, sex cross each other in a circle" in planned.remarks[-1]


def test_settings_of_the_known_tables_read_and_digest_as_before(tmp_path):
    assert repr(Suppression()) == (
        "Suppression(rule='1980', tables=('P1', 'P2', 'P3', 'P4'), by_cell=('P1', 'P2'), "
        "thresholds=Thresholds(cell=2, group=14, persons=14, homes=4), lowest='', width=3, "
        "effort=1, keep_totals=False, whole=(), audit=50)"
    )
    own = Suppression(tables={"t": ["age"]}, publish=({"level": "town"},), bins={"age": [0, 18]})
    assert (
        eval(repr(own), {"Suppression": Suppression, "Thresholds": Thresholds}) == own
    )  # of our own text
    assert own.rule == "complementary"
    texts = []
    for number, more in enumerate(("", 'rule = "1980"\n', 'tables = ["P1", "P2", "P3", "P4"]\n')):
        file = tmp_path / f"{number}.toml"
        file.write_text(
            '[population]\nkind = "towns"\nschema = "sex-age38-race7-hispanic"\n'
            f'[mechanism]\nname = "suppression"\n{more}[run]\nout = "run"\n'
        )
        texts.append(config_digest(load_config(file)))
    assert len(set(texts)) == 1
