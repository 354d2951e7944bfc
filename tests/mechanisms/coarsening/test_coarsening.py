"""Coarsening: the ladder of areas, tables, refusals, what the curator gets, and the checker."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import ConfigError, RunError, TruthError
from headcount.geography import Geography
from headcount.mechanisms import Sampling, protect
from headcount.mechanisms.coarsening.areas import ladder
from headcount.mechanisms.coarsening.check_witnesses import areas_again, check
from headcount.mechanisms.coarsening.mechanism import Coarsening
from headcount.mechanisms.coarsening.settings import CoarsenedTable, PublicSizes, Show
from headcount.release import Release
from headcount.release.store import read_release
from headcount.run.evaluate import evaluate_run
from headcount.run.protect import protect_run
from headcount.tabulate import Tabulated
from tests.support.coarsening_worlds import Scene

KNOWN: Any = {"known": ("k",), "secret": ("s",)}
TABLES: dict[str, Any] = {
    "s": {"by": ("s",), "at": 3},
    "x": {"by": ("k", "s"), "at": "county"},
}
PLAIN = Coarsening(ladder=(3, "county"), tables=TABLES, audit=KNOWN)


def places(shape: list[int]) -> Geography:
    """Counties of so many blocks each, in one state."""
    of = np.repeat(np.arange(len(shape), dtype=np.int32), shape)
    return Geography(
        ("whole", "county", "block"),
        (
            np.array(["whole"]),
            np.array([f"c{n}" for n in range(len(shape))]),
            np.array([f"b{n:03}" for n in range(len(of))]),
        ),
        (of[:0], np.zeros(len(shape), dtype=np.int32), of),
    )


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.data(),
    st.lists(st.integers(1, 30), min_size=0, max_size=3, unique=True),
)
@settings(max_examples=60, deadline=None)
def test_areas_nest_have_enough_people_and_follow_the_rule_written_twice(shape, data, least):
    geography = places(shape)
    leaves = geography.size("block")
    people = np.array(data.draw(st.lists(st.integers(0, 9), min_size=leaves, max_size=leaves)))
    where = data.draw(st.integers(0, len(least)))
    rungs = [*sorted(least)[:where], "county", *sorted(least)[where:]]
    made = ladder(geography, people, rungs)  # a geography: each level nests in the next
    assert made.levels == ("whole", *(f"areas-{one}" for one in reversed(rungs)), "block")
    tree = [
        {"whole": "", "county": str(c), "block": str(n), "size": str(people[n])}
        for n, c in enumerate(geography.parents[-1].tolist())
    ]
    for rung, again in zip(rungs, areas_again(tree, list(tree[0])[:3], rungs), strict=True):
        area = made.ancestors(f"areas-{rung}")
        assert len(set(zip(area.tolist(), again, strict=True))) == len(set(again))
        if isinstance(rung, int) and people.sum() >= rung:
            assert np.bincount(area, weights=people).min() >= rung


def test_areas_are_joined_within_the_smallest_unit_that_has_enough():
    made = ladder(places([4, 1, 2]), np.array([2, 2, 3, 1, 2, 9, 9]), [4])
    assert made.units[1].tolist() == ["b000..b001", "b002..b003", "b004..b005", "b006"]


def test_the_areas_that_the_page_draws():
    people = np.array([40, 70, 30, 80, 20, 60, 20, 110, 105])
    made = ladder(places([5, 2, 2]), people, [100, "county"])
    assert made.ancestors("areas-100").tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert made.ancestors("areas-county").tolist() == [0] * 5 + [1] * 4


def test_a_level_whose_units_share_an_area_is_published_as_a_union():
    people = np.array([2, 2, 3, 1, 2, 9, 9])
    made = ladder(places([4, 1, 2]), people, [4, "county"])
    assert made.units[1].tolist() == ["c0", "c1..c2"]


def released(scene: Scene, population: tuple[int, ...]) -> Release:
    """The release of a population."""
    return protect(Tabulated.of(scene.counts(population)), scene.method)


def people_of(scene: Scene, seed: int, leaf_totals: list[int]) -> tuple[int, ...]:
    """People with given totals of blocks, all else by lot."""
    lot, cells = np.random.default_rng(seed), int(np.prod(scene.shape[1:]))
    rows = [lot.multinomial(total, np.full(cells, 1 / cells)) for total in leaf_totals]
    return tuple(np.concatenate(rows).tolist())


def test_other_people_with_the_same_published_totals_have_the_same_areas(tmp_path):
    scene = Scene(6, (("k", 2), ("s", 3)), PLAIN)
    files = []
    for seed in range(4):
        release = released(scene, people_of(scene, seed, [1, 4, 2, 2, 7, 1]))
        (areas,) = [one for one in _sheets(release) if one.stem == "areas"]
        areas.write(tmp_path, ("parquet",))
        files.append((tmp_path / "areas.csv").read_bytes())
    assert len(set(files)) == 1
    assert files[0].decode().splitlines()[1] == '"c","b0..b1","b0"'


def _sheets(release: Any) -> Any:
    from headcount.release.layout import FileLayout
    from headcount.release.sheets import sheets_of

    return sheets_of(release, FileLayout())


def test_tables_are_true_sums_of_areas_and_joined_levels():
    wanted: Any = {
        "x": {"by": ("k", "s"), "at": 5, "joined": {"s": {"few": ["s1", "s2"]}}},
        "r": {"by": ("s",), "at": "whole", "show": {"base": 5}},
    }
    method = Coarsening(ladder=(5,), tables=wanted)
    scene = Scene(4, (("k", 2), ("s", 3)), method)
    population = people_of(scene, 1, [3, 4, 6, 7])
    release = released(scene, population).as_tables()
    x = np.array(population).reshape(4, 2, 3)
    tables = {(one.name, one.level): one for one in release.published}
    areas = np.stack([x[:2].sum(axis=0), x[2], x[3]])
    both = np.stack([areas[:, :, 0], areas[:, :, 1:].sum(axis=2)], axis=2)
    assert tables["x", "areas-5"].value[:, tables["x", "areas-5"].cells.inner].tolist() == (
        both.reshape(3, 4).tolist()
    )
    rounded = tables["r", "whole"]
    assert rounded.value[0, 1:].tolist() == ((x.sum(axis=(0, 1)) + 2) // 5 * 5).tolist()
    assert rounded.off is not None
    assert (rounded.off.down, rounded.off.up) == (2, 2)
    assert tables["totals", "block"].value.ravel().tolist() == [3, 4, 6, 7]
    assert tables["x", "whole"].cells.labels[2][1] == "few"


def test_public_numbers_may_choose_the_areas_instead(tmp_path):
    sizes = tmp_path / "homes.csv"
    sizes.write_text("block,n\nb0,9\nb1,1\nb2,1\nb3,9\n")
    method = replace(PLAIN, sizes=PublicSizes(file=sizes), totals="county", audit=None)
    scene = Scene(4, (("k", 2), ("s", 3)), method)
    release = released(scene, people_of(scene, 2, [1, 1, 1, 1]))
    assert release.geography.units[-2].tolist() == ["b0", "b1..b3"]
    assert "chosen by public numbers alone" in " ".join(release.guarantee.sentences())
    for text, message in (
        ("block,n\nzz,1\n", "line 2: found 'zz'"),
        ("block,n\nb0,-1\n", "line 2: found '-1', expected 0 or more"),
        ("place,n\nb0,1\n", "expected columns 'block' (or 'unit') and 'n'"),
    ):
        sizes.write_text(text)
        with pytest.raises(ConfigError) as error:
            released(scene, people_of(scene, 2, [1, 1, 1, 1]))
        assert message in str(error.value)
    sizes.unlink()
    with pytest.raises(ConfigError, match="no such file"):
        released(scene, people_of(scene, 2, [1, 1, 1, 1]))
    sizes.write_text("block,n\n")
    with pytest.raises(ConfigError, match="as configured"):
        PublicSizes(file=sizes, sha256="00").bound_to_files()


DOMAIN = Scene(2, (("k", 2), ("s", 3)), PLAIN).domain


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ladder": (5, 3)}, "ladder: found 3 after 5, expected numbers of 1 or more that rise"),
        ({"ladder": (0,)}, "ladder: found 0, expected numbers of 1 or more that rise"),
        ({"ladder": ("county", "county")}, "found 'county' twice, expected each rung once"),
        ({"ladder": (3, "tract")}, "ladder: found 'tract', expected one of 'county'"),
        ({"ladder": (1.5,)}, "found 1.5, expected least people of an area, or a level"),
        ({"tables": {}}, "tables: found none, expected at least one"),
        ({"tables": {"totals": TABLES["s"]}}, "found a table of this name, expected another"),
        ({"tables": {"s": {"by": ("s",), "at": 7}}}, "tables.s.at: found 7, expected one of '3'"),
        ({"tables": {"s": {"by": ("t",), "at": 3}}}, "found 't', expected one of 'k', 's'"),
        (
            {"tables": {"s": {"by": ("s",), "at": 3, "joined": {"k": {"a": ["k0"]}}}}},
            "tables.s.joined: found 'k', expected one of by = ['s']",
        ),
        (
            {"tables": {"s": {"by": ("s",), "at": 3, "joined": {"s": {"a": ["s9"]}}}}},
            "found 's9', expected one of",
        ),
        (
            {
                "tables": {
                    "s": {
                        "by": ("s",),
                        "at": 3,
                        "joined": {"s": {"a": ["s0", "s1"], "b": ["s0", "s1", "s2"]}},
                    }
                }
            },
            "found a group within another, expected groups that share no level",
        ),
        ({"totals": "county"}, "areas are chosen by numbers that are published or public"),
        ({"audit": {"known": ("k",), "secret": ("k",)}}, "found 'k', which is known"),
        ({"audit": {"known": ("k",), "secret": ()}}, "audit.secret: found none"),
        ({"audit": {"known": ("age",), "secret": ("s",)}}, "audit.known: found 'age'"),
    ],
)
def test_what_cannot_be_asked_is_refused(change, message):
    with pytest.raises(ConfigError) as error:
        replace(PLAIN, **change).on(DOMAIN)
    assert message in str(error.value)


def test_levels_that_would_not_nest_are_refused():
    geography = Geography(
        ("whole", "county", "tract", "block"),
        (np.array(["w"]), np.array(["c"]), np.array(["t"]), np.array(["b"])),
        (np.empty(0, np.int32), *(np.zeros(1, np.int32),) * 3),
    )
    method = replace(PLAIN, ladder=("county", 3, "tract"))
    with pytest.raises(ConfigError, match="levels from the finest, or their areas would not nest"):
        method.on(replace(DOMAIN, geography=geography))


def test_a_sample_and_too_few_people_are_refused():
    scene = Scene(2, (("k", 2), ("s", 3)), PLAIN)
    counts = scene.counts(people_of(scene, 3, [1, 1]))
    design = PLAIN.on(scene.domain)
    with pytest.raises(TruthError, match="areas of at least 3 where fewer live altogether"):
        design.check(counts)
    with pytest.raises(ConfigError, match="have no meaning for a sample"):
        protect(Tabulated.of(counts), (Sampling(fraction=Fraction(1, 2)), PLAIN), seed=1)


@pytest.mark.parametrize("limit", ["proven", "non_majority", "insiders"])
def test_a_release_above_a_limit_is_refused_and_the_places_named(limit):
    scene = Scene(3, (("k", 2), ("s", 3)), PLAIN)
    alike = (3, 1, 0, 0, 0, 1, 4, 0, 0, 0, 3, 1, 0, 5, 0, 1, 0, 0)
    method = Coarsening(
        ladder=(),
        tables={"x": CoarsenedTable(by=("k", "s"), at="block")},
        audit=KNOWN | {limit: Fraction(0)},
    )
    with pytest.raises(TruthError) as error:
        released(replace(scene, method=method), alike)
    assert f"audit.{limit}: found " in str(error.value)
    assert "Most of them are in these units of 'block': b" in str(error.value)


def test_settings_are_written_so_that_they_make_the_method_again():
    made = eval(repr(PLAIN), {"Coarsening": Coarsening, **_names()})
    assert made == PLAIN
    assert hash(made) == hash(PLAIN)


def _names() -> dict[str, Any]:
    from headcount.mechanisms.coarsening.settings import AuditLimits, Show

    return {"CoarsenedTable": CoarsenedTable, "AuditLimits": AuditLimits, "Show": Show}


CONFIG = """
[population]
kind = "microdata"
file = "people.csv"
geography = {{ columns = ["tract", "block"] }}
attribute = [{{ name = "sex" }}, {{ name = "age", bins = [0, 18, 65] }}, {{ name = "race" }}]

[mechanism]
name = "coarsening"
ladder = [12, "tract"]
audit = {{ known = ["sex", "age"], secret = ["race"], proven = "{limit}" }}
[mechanism.tables]
race = {{ by = ["race"], at = 12 }}
rounded = {{ by = ["race"], at = "tract", show = {{ base = 5 }} }}
cross = {{ by = ["sex", "age", "race"], at = "whole", bins = {{ age = [0, 18] }} }}

[run]
out = "run"
seed = 1
"""


def make(folder: Path, limit: str = "1") -> Path:
    lot = np.random.default_rng(4)
    block = np.sort(lot.integers(0, 30, 300))
    pl.DataFrame(
        {
            "tract": [f"t{one // 10}" for one in block],
            "block": [f"t{one // 10}b{one}" for one in block],
            "sex": lot.choice(["f", "m"], 300),
            "age": lot.integers(0, 90, 300),
            "race": lot.choice(["a", "b", "c"], 300, p=[0.8, 0.15, 0.05]),
        }
    ).write_csv(folder / "people.csv")
    (folder / "c.toml").write_text(CONFIG.format(limit=limit))
    return folder / "c.toml"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coarsening")
    return protect_run(make(folder))


def test_a_run_is_read_again_and_every_witness_stands(run):
    release = read_release(run / "release").as_tables()
    assert release.geography.levels == ("whole", "areas-tract", "areas-12", "block")
    faults, words = check(run)
    assert faults == []
    assert "statements" in words
    told = json.loads((run / "internal/coarsening/audit.json").read_text())
    assert told["undecided_counted_as_proven"] == 0
    assert 0 < told["proven"] < told["people"] == 300


def test_a_run_by_public_numbers_is_checked_too(tmp_path):
    config = make(tmp_path)
    people = pl.read_csv(tmp_path / "people.csv", infer_schema=False)
    blocks = people["block"].unique().sort().to_list()
    pl.DataFrame({"unit": blocks, "n": [n % 7 for n in range(len(blocks))]}).write_csv(
        tmp_path / "homes.csv"
    )
    chosen = 'totals = "tract"\nsizes = { file = "homes.csv" }\n[mechanism.tables]'
    config.write_text(config.read_text().replace("[mechanism.tables]", chosen))
    faults, _ = check(run := protect_run(config))
    assert faults == []
    assert not (run / "release" / "totals@block.parquet").exists()


def test_a_run_with_ranges_is_checked_too(tmp_path):
    """Counts below 15 as a range, others by steps: the checker rounds for itself."""
    config = make(tmp_path)
    rule = 'show = { rule = "us-drb-2019" }'
    config.write_text(config.read_text().replace("show = { base = 5 }", rule))
    assert rule in config.read_text()
    faults, _ = check(run := protect_run(config))
    assert faults == []
    release = read_release(run / "release").as_tables()
    (one,) = (one for one in release.published if (one.name, one.level) == ("rounded", "whole"))
    assert one.off is not None
    assert one.off.steps is not None
    low, high = one.ends(unknown=1 << 40)
    assert (low[one.withheld].tolist(), set(high[one.withheld].tolist()) - {14}) == (
        [0] * int(one.withheld.sum()),
        set(),
    )
    table = run / "release" / "rounded@areas-tract.parquet"
    read = pl.read_parquet(table)
    more = read.with_columns(n=pl.when(pl.col("n") == read["n"][0]).then(0).otherwise("n"))
    more.write_parquet(table)
    assert any("the truth does not give" in fault for fault in check(run)[0])


def test_a_way_to_show_is_one_of_two():
    with pytest.raises(ConfigError, match="a base of 5, and steps, expected one of them"):
        Show(base=5, rule="us-drb-2019")
    with pytest.raises(ConfigError, match="rounds in another way, expected steps"):
        Show(rule="statcan-2011")


def test_the_checker_stays_short():
    """Whoever doubts the audit reads the program that checks it."""
    from headcount.mechanisms.coarsening import check_witnesses

    lines = Path(str(check_witnesses.__file__)).read_text().splitlines()
    assert len(lines) <= 250
    assert not [one for one in lines if "import" in one and "headcount" in one.split("import")[0]]


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _sabotage(name: str, change: Any, run: Path, folder: Path) -> list[str]:
    """The faults that the checker finds once a file of the run has been changed."""
    import shutil

    shutil.copytree(run, folder / "run")
    file = folder / "run" / name
    found = _rows(file)
    change(found)
    pl.DataFrame(found).write_csv(file)
    return check(folder / "run")[0]


def _said(rows: list[dict[str, str]]) -> None:
    one = next(one for one in rows if one["said"] == "proven" and one["insider"] == "-1")
    one |= {"said": "not proven", "witness": "0"}


def _forgotten(rows: list[dict[str, str]]) -> None:
    del rows[0]


def _one_less(rows: list[dict[str, str]]) -> None:
    rows[0]["change"] = str(int(rows[0]["change"]) - 1)


def _other_area(rows: list[dict[str, str]]) -> None:
    own = rows[0]["areas-12"]
    second = next(one["areas-12"] for one in rows if one["areas-12"] != own)
    rows[0]["areas-12"] = second


def _more_people(rows: list[dict[str, str]]) -> None:
    rows[0]["n"] = str(int(rows[0]["n"]) + 1)


@pytest.mark.parametrize(
    ("name", "change", "fault"),
    [
        ("internal/coarsening/statements.csv", _said, "does not show it"),
        ("internal/coarsening/statements.csv", _forgotten, "nothing is said of 1 areas and keys"),
        ("internal/coarsening/witnesses.csv", _one_less, "a witness that does not fit"),
        ("internal/coarsening/people.csv", _more_people, "the truth does not give"),
        ("release/areas.csv", _other_area, "the rule gives other areas"),
    ],
)
def test_the_checker_finds_a_sabotaged_audit(name, change, fault, run, tmp_path):
    faults = _sabotage(name, change, run, tmp_path)
    assert any(fault in one for one in faults), faults


def test_an_audit_that_says_too_little_is_proven_is_found(tmp_path, monkeypatch):
    """Zeros that are not looked at, and moves that nobody holds against the tables."""
    import headcount.mechanisms.coarsening.audit as searched

    monkeypatch.setattr(searched, "_by_zeros", lambda search: None)
    monkeypatch.setattr(searched, "_ways", lambda of: [(np.zeros(of.atoms.keys, int), None)])
    faults, _ = check(protect_run(make(tmp_path)))
    assert any("a witness that does not fit" in one for one in faults)


def test_nothing_is_published_where_the_audit_cannot_be_met(tmp_path):
    with pytest.raises(RunError, match="the data violate a bound of the mechanism") as error:
        protect_run(make(tmp_path, limit="1/1000"))
    assert "of 300" not in str(error.value)
    assert not (tmp_path / "run" / "release").exists()
    (refusal,) = (tmp_path / "run" / "internal").glob("*refus*")
    assert "audit.proven: found" in refusal.read_text()


def test_a_release_is_evaluated_against_the_same_areas(run):
    found = evaluate_run(run).evaluation
    assert "areas-12" in str(found["table-changes"].table)


def test_the_rule_that_is_not_offered_tells_by_where_it_stops():
    """Golden case 2: two blocks are apart only if every count is 0 or 3 at least.

    Released is one area with (0, 6): that they are not apart proves that somebody of the second
    group lives in both.
    """
    apart = [all(n == 0 or n >= 3 for n in (one, 6 - one)) for one in range(7)]
    worlds = [one for one in range(7) if not apart[one]]
    assert worlds == [1, 2, 4, 5]
    # Golden case 3: 12 and 14 people, (22, 4) together: the first block has 1 or 2 of the four.
    cells = [(12 - one, one, 14 - (4 - one), 4 - one) for one in range(5)]
    stopped = [one[1] for one in cells if any(0 < n < 3 for n in one[:2])]
    assert stopped == [1, 2]
