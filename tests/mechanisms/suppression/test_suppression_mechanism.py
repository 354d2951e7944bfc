"""Suppression as a mechanism: what is published, what an attacker reads in it, what leaks."""

import json
from dataclasses import replace
from hashlib import sha256

import numpy as np
import polars as pl
import pytest

from headcount.attacks.intervals import UNKNOWN
from headcount.attacks.knowledge import _hold, knowledge_of_release
from headcount.attacks.reconstruction import reconstruct
from headcount.errors import ConfigError, InputError, RunError
from headcount.evaluation.suppressed import audit_release
from headcount.mechanisms import protect
from headcount.mechanisms._base import Context
from headcount.mechanisms.suppression.complementary import given_back
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.mechanisms.suppression.rules import Thresholds, find_tables, race_tables
from headcount.population.from_households import to_population
from headcount.population.towns import towns
from headcount.release.published import PublishedCells, by_name, is_total
from headcount.release.store import guarantee_to_json, read_release, write_release
from headcount.run.protect import protect_run
from headcount.schema import load_schema
from headcount.tabulate import Tabulated, tabulate
from headcount.tabulate.linked_tables import all_values, link_tables
from headcount.tabulate.published import tables
from headcount.testing.contracts import mechanism_checks

SCHEMA = load_schema("sex-age38-race7-hispanic")


@pytest.fixture(scope="module")
def counts():
    return tabulate(to_population(towns(seed=4, people=4_000, counties=4), schema=SCHEMA))


@pytest.fixture(scope="module")
def released(counts):
    return protect(
        Tabulated.of(counts), Suppression(tables=("P1", "P2", "P3", "P4", "P12"))
    ).as_tables()


@pytest.fixture(scope="module")
def witnesses(tmp_path_factory):
    return tmp_path_factory.mktemp("internal") / "witnesses.parquet"


@pytest.fixture(scope="module")
def complemented(counts, witnesses):
    mechanism = Suppression(rule="complementary", lowest="tract")
    return protect(
        Tabulated.of(counts), mechanism, context=Context(curator=witnesses.parent)
    ).as_tables()


def audited(release, cells):
    """The same, with so many of its cells audited."""
    return replace(release, rules=replace(release.rules, audit=cells))


def test_every_table_is_published_at_every_level(counts, released):
    found = by_name(released.published)
    levels = counts.geography.levels
    assert set(found) == {(t, level) for t in ("P1", "P2", "P3", "P4", "P12") for level in levels}
    with pytest.raises(InputError, match="counts of every unit and cell"):
        released.as_counts()
    assert not released.guarantee.exists


def test_each_table_has_its_rule(counts, released):
    values = all_values(counts, find_tables(("P1", "P2", "P3", "P4", "P12"), SCHEMA))
    for (name, level), one in by_name(released.published).items():
        truth = values[name, level]
        if name in ("P1", "P2"):
            hidden = (truth >= 1) & (truth <= 2) & ~is_total(one.cells)
            assert np.array_equal(one.value, np.where(hidden, 0, truth))
            assert not one.withheld.any()
            continue
        if name == "P12":
            total = values["P1", level][:, is_total(race_tables()["P1"].on(SCHEMA))][:, 0]
            gone = (total >= 1) & (total <= 14)
        else:
            groups = {"P3": "P1", "P4": "P2"}[name]
            detail = values[groups, level][:, race_tables()[groups].on(SCHEMA).inner]
            gone = np.asarray(((detail >= 1) & (detail <= 14)).any(axis=1))
        assert np.array_equal(one.withheld.all(axis=1), gone)
        assert np.array_equal(one.withheld.any(axis=1), gone)
        assert np.array_equal(one.value[~gone], truth[~gone])


def test_the_cell_rule_can_be_asked_for_on_tables_of_adults(counts):
    made = protect(
        Tabulated.of(counts), Suppression(tables=("P3",), by_cell=("P3",), lowest="county")
    )
    tables = made.as_tables().published
    assert all(one.zero_hides == 2 and not one.withheld.any() for one in tables)


def test_the_attacker_reads_a_0_as_a_range_and_a_withheld_table_as_unknown(counts, released):
    values = all_values(counts, find_tables(("P1", "P2", "P3", "P4", "P12"), SCHEMA))
    for where, one in by_name(released.published).items():
        units = np.arange(len(one.value))
        low, high = _hold(one).bounds(units)
        truth = values[where]
        assert (low <= truth).all()
        assert (truth <= high).all()
        assert (high[one.withheld] >= UNKNOWN).all()
        open_zero = (one.value == 0) & ~one.withheld & ~is_total(one.cells)
        assert (high[open_zero] == one.zero_hides).all()
        assert (low == high)[~one.withheld & ~open_zero].all()


def test_single_withheld_cells_are_unknown_and_the_others_exact(counts, complemented):
    values = all_values(counts, find_tables(("P1", "P2", "P3", "P4"), SCHEMA), lowest="tract")
    some = 0
    for where, one in by_name(complemented.published).items():
        low, high = _hold(one).bounds(np.arange(len(one.value)))
        assert (high[one.withheld] >= UNKNOWN).all()
        assert (low[one.withheld] == 1).all()  # the attacker has read that zeros are published
        assert np.array_equal(low[~one.withheld], values[where][~one.withheld])
        assert np.array_equal(high[~one.withheld], values[where][~one.withheld])
        some += int(one.withheld.sum())
    assert some


def test_a_reconstruction_from_suppressed_tables_keeps_their_totals(counts, released):
    race_only = replace(
        released, published=tuple(one for one in released.published if one.level == "block")
    )
    found = reconstruct(knowledge_of_release(race_only), variability=False)
    assert not found.conflict.any()
    assert np.array_equal(found.people, counts.totals())  # the total was never touched


def test_complementary_patterns_pass_the_audit_and_the_rules_of_1980_do_not(
    counts, released, complemented, witnesses
):
    for one in audit_release(counts, audited(complemented, 400), witnesses=witnesses):
        assert one.clean
        assert one.found.clean
        assert one.witnessed is not None
        assert one.witnessed.primaries == one.primary > 0
        assert "have witnesses" in str(one)
    shown = tuple(
        one
        for one in released.published
        if one.name in ("P1", "P2") and one.level in ("state", "county", "tract")
    )
    (audit,) = audit_release(counts, audited(replace(released, published=shown), 60))
    assert len(audit.found.exact_primary)
    assert not len(audit.found.missed)
    assert "primary exact" in audit.to_json()["words"]


def test_an_audit_of_nothing_says_neither_clean_nor_not(counts, released):
    shown = tuple(one for one in released.published if one.name in ("P1", "P2"))
    nothing = audited(replace(released, published=shown), 0)
    found = [one.to_json() for one in audit_release(counts, nothing)]
    assert [(one["audited"], one["clean"], one["witnessed"]) for one in found] == [(0, None, None)]


def test_without_witnesses_nothing_is_shown_to_be_protected(counts, complemented, witnesses):
    unaudited = audited(complemented, 0)
    (bare,) = (one.to_json() for one in audit_release(counts, unaudited))
    assert bare["clean"] is False
    assert bare["witnessed"]["primary_unprotected"] == bare["primary"] > 0
    (full,) = audit_release(counts, unaudited, witnesses=witnesses)
    assert full.to_json()["clean"] is True


def test_publishing_one_more_cell_is_found_by_the_audit(counts, complemented, witnesses):
    """Negative control: a hole made on purpose."""
    values = all_values(counts, find_tables(("P2",), SCHEMA), lowest="tract")
    holed = []
    for one in complemented.published:
        withheld, value = one.withheld.copy(), one.value.copy()
        if one.name == "P2":
            secondary = withheld & (values["P2", one.level] > 2)
            withheld[secondary], value[secondary] = False, values["P2", one.level][secondary]
        holed.append(replace(one, withheld=withheld, value=value))
    made = audited(replace(complemented, published=tuple(holed)), 400)
    audits = audit_release(counts, made, witnesses=witnesses)
    assert not all(one.found.clean for one in audits)
    for one in audits:
        assert one.witnessed is not None
        assert len(one.witnessed.unprotected)
        assert len(one.witnessed.wrong)


def test_totals_above_the_leaf_are_kept_where_that_is_asked_for(counts):
    def withheld_totals(**settings):
        made = protect(
            Tabulated.of(counts), Suppression(rule="complementary", effort=0, **settings)
        )
        return sum(
            int(one.withheld[:, is_total(one.cells)].sum())
            for one in made.as_tables().published
            if one.name == "P1" and one.level != "block"
        )

    assert withheld_totals(keep_totals=True) < withheld_totals()


@pytest.mark.parametrize("name", ["P12", "P12A", "P12I", "P14"])
def test_a_table_gives_back_the_cells_that_linear_algebra_finds_in_it(name):
    """Alone: c in the span of its cells. Together: with the span of p besides."""
    others = find_tables(("P1", "P2", "P3", "P4"), SCHEMA)
    (table,) = find_tables((name,), SCHEMA)
    own = np.linalg.qr(table.matrix.toarray()[:, table.inner].astype(float))[0]
    every = np.hstack([one.matrix.toarray() for one in others]).astype(float)
    left = every - own @ (own.T @ every)  # what of each cell the table does not tell
    size = np.square(left).sum(axis=0)
    told = size < 1e-9
    parallel = np.square(left.T @ left) >= np.outer(size, size) * (1 - 1e-9)
    found = given_back(table, others)
    assert np.array_equal(found.alone, told)
    assert told.any() == (name != "P14")  # which counts nobody of 20 and over
    other = ~(every[:, :, None] == every[:, None]).all(axis=0)  # p is not c itself
    unknown = ~told & ~told[:, None] & other
    assert np.array_equal(found.together & unknown, parallel & unknown)
    assert (found.together & unknown).any()


def test_whole_tables_are_withheld_where_they_give_a_withheld_cell_back(counts):
    mechanism = Suppression(
        rule="complementary", effort=0, keep_totals=True, whole=("P12", "P12A", "P14")
    )
    made = by_name(protect(Tabulated.of(counts), mechanism).as_tables().published)
    values = all_values(counts, find_tables(mechanism.whole, SCHEMA))
    people = counts.totals()
    few = (people > 0) & (people < 15)
    white = made["P1", "block"].cells.labels.index(("white",))
    for name, cell in (("P12", 0), ("P12A", white), ("P14", 0)):
        one = made[name, "block"]
        everyone, adults = (made[other, "block"].withheld[:, cell] for other in ("P1", "P3"))
        # Minors tell adults where everyone is known, and the other way round.
        closed = few | (everyone ^ adults if name == "P14" else everyone | adults)
        assert np.array_equal(one.withheld, np.repeat(closed[:, None], one.cells.size, axis=1))
        assert np.array_equal(one.value[~closed], values[name, "block"][~closed])
        assert few.sum() < closed.sum() < len(closed)
    said = str(mechanism.on(counts.domain).guarantee)
    assert "Tables P12, P12A, P14 are published whole beside these" in said
    (audit,) = audit_release(counts, protect(Tabulated.of(counts), mechanism))
    assert audit.tables == ("P1", "P2", "P3", "P4")


def test_a_suppressed_release_without_its_rules_is_refused(released, tmp_path):
    receipt = {"mechanism": "x", "guarantee": guarantee_to_json(released.guarantee)}
    receipt |= {"key_kind": "none", "noise_backend": "none", "notes": {}}
    write_release(released, tmp_path, receipt=receipt)
    assert read_release(tmp_path).as_tables().rules == released.rules
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    del manifest["domain"]["rules"], manifest["sha256"]
    text = json.dumps(manifest, sort_keys=True)
    manifest["sha256"] = sha256(text.encode()).hexdigest()
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="no rules for them, as an older version of headcount"):
        read_release(tmp_path)


def test_a_release_comes_back_from_disk(released, complemented, tmp_path):
    for number, release in enumerate((released, complemented)):
        folder = tmp_path / str(number)
        receipt = {
            "mechanism": release.mechanism,
            "guarantee": guarantee_to_json(release.guarantee),
            "key_kind": "none",
            "noise_backend": "none",
            "notes": {},
        }
        write_release(release, folder, receipt=receipt)
        back = read_release(folder)
        assert back.geography.levels == release.geography.levels
        assert all(
            np.array_equal(a, b)
            for a, b in zip(back.geography.units, release.geography.units, strict=True)
        )
        for one, other in zip(back.as_tables().published, release.published, strict=True):
            assert (one.name, one.level, one.zero_hides, one.holds) == (
                other.name,
                other.level,
                other.zero_hides,
                other.holds,
            )
            assert np.array_equal(one.value, other.value)
            assert np.array_equal(one.withheld, other.withheld)
            assert one.cells is other.cells
        frame = pl.read_parquet(folder / "P2@county.parquet")
        assert frame.columns == ["unit", "cell", "value", "published"]
        assert frame.filter(~pl.col("published"))["value"].null_count() == int(
            (~frame["published"]).sum()
        )
        with pytest.raises(InputError, match="found published tables with withheld cells"):
            back.at("county")


def test_values_of_withheld_cells_are_refused():
    cells = race_tables()["P1"].on(SCHEMA)
    shape = (2, cells.size)
    with pytest.raises(InputError, match="found a value of a withheld cell, expected none"):
        PublishedCells(
            cells=cells, level="x", value=np.ones(shape, int), withheld=np.ones(shape, bool)
        )
    with pytest.raises(InputError, match=r"found shapes .* expected units x 8 cells"):
        PublishedCells(
            cells=cells, level="x", value=np.ones((2, 2), int), withheld=np.ones((2, 2), bool)
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "1970"}, "rule: found '1970', expected 1980 or complementary"),
        ({"tables": ()}, "tables: found none, expected at least one"),
        ({"width": 0}, "width: found 0, expected 1"),
        (
            {"rule": "complementary", "width": 101},
            "width: found 101, expected at most 100 with the rule 'complementary'",
        ),
        (
            {"rule": "complementary", "thresholds": Thresholds(cell=101)},
            "thresholds.cell: found 101, expected at most 100",
        ),
        ({"effort": 4}, "effort: found 4, expected 0 to 3"),
        ({"by_cell": ("P12",)}, "by_cell: found 'P12', expected some of P1, P2, P3, P4"),
        ({"keep_totals": True}, "keep_totals: found rule '1980', expected the rule 'complement"),
        ({"whole": ("P12",)}, "whole: found rule '1980', expected the rule 'complementary'"),
        (
            {"rule": "complementary", "whole": ("P12", "P3")},
            "whole: found 'P3', which is among tables, expected other tables",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Suppression(**settings)


def test_tables_and_levels_that_cannot_be_had_are_refused(counts):
    with pytest.raises(InputError, match="found level 'parish', expected one of"):
        Suppression(lowest="parish").on(counts.domain).check(counts)
    whole = tabulate(to_population(towns(seed=4, people=1_000, counties=1), ["sex", "age", "race"]))
    with pytest.raises(ConfigError, match="table P6: found groups that overlap"):
        Suppression(rule="complementary", tables=("P6",)).on(whole.domain).check(whole)
    with pytest.raises(InputError, match="table P6: found groups that overlap"):
        link_tables([tables("sf1")["P6"].on(whole.schema)], whole.geography)


CONFIG = """
[population]
kind = "towns"
people = 2000
counties = 2
schema = "sex-age38-race7-hispanic"
[mechanism]
name = "suppression"
lowest = "tract"
audit = 20
{more}
[run]
out = "{out}"
"""


@pytest.mark.parametrize("rule", ["1980", "complementary"])
def test_a_run_writes_tables_and_keeps_the_account_inside(tmp_path, rule):
    file = tmp_path / "config.toml"
    more = f'rule = "{rule}"\nthresholds = {{ cell = 3 }}'
    file.write_text(CONFIG.format(out=tmp_path / "run", more=more))
    run = protect_run(file)
    assert {path.name for path in (run / "release").glob("P1@*")} == {
        "P1@state.parquet",
        "P1@county.parquet",
        "P1@tract.parquet",
    }
    account = json.loads((run / "internal" / "suppression-audit.json").read_text())
    assert "cell=3" in account["mechanism"]
    assert [one["tables"] for one in account["audits"]] == [["P1", "P2", "P3", "P4"]]
    kept = run / "internal" / "witnesses.parquet"
    assert kept.exists() == (rule == "complementary")
    if rule == "complementary":
        (audit,) = account["audits"]
        assert audit["witnessed"]["primary"] > 0 == audit["witnessed"]["primary_unprotected"]
        assert audit["clean"] is True
        assert not list((run / "release").glob("witness*"))
    assert (run / "internal" / "suppression.csv").read_text().startswith("table,rule,level,total")
    receipt = json.loads((run / "release" / "receipt.json").read_text())
    assert receipt["guarantee"]["sentences"][0].startswith("No differential-privacy guarantee")
    assert not any("audit" in path.name for path in (run / "release").iterdir())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('tables = ["P99"]', "tables: found 'P99', expected some of"),
        ('tables = ["P1", "P1"]', "tables: found 'P1' twice, expected distinct tables"),
        ('by_cell = ["P9"]', "by_cell: found 'P9', expected some of P1, P2, P3, P4"),
        ("thresholds = { cell = 0 }", "cell: found 0, expected 1 or more"),
        ('rule = "1970"', "1980"),
    ],
)
def test_faults_of_the_file_are_found_before_data_is_read(tmp_path, more, message):
    file = tmp_path / "config.toml"
    file.write_text(CONFIG.format(out=tmp_path / "run", more=more))
    with pytest.raises(ConfigError, match=message):
        protect_run(file)


def test_tables_on_race_alone_go_by_the_rules_of_p1_to_p4(counts):
    names = ("P6", "P8", "P9", "P10", "P11")
    same = {"P8": "P1", "P9": "P2", "P10": "P3", "P11": "P4"}
    schema = load_schema("persons-2010")
    whole = tabulate(to_population(towns(seed=4, people=1_500, counties=2), schema=schema))
    mechanism = Suppression(tables=(*names, *same.values()), lowest="county", audit=4)
    found = by_name(protect(Tabulated.of(whole), mechanism).as_tables().published)
    for name, twin in same.items():
        one, other = found[name, "county"], found[twin, "county"]
        assert one.zero_hides == other.zero_hides
        assert np.array_equal(one.withheld.all(axis=1), other.withheld.all(axis=1))
    assert found["P6", "county"].zero_hides == 2
    values = all_values(whole, find_tables(("P9",), schema), lowest="county")["P9", "county"]
    shown = found["P9", "county"].value
    assert set(np.unique(shown)).isdisjoint({1, 2})
    assert np.array_equal(shown[values > 2], values[values > 2])


def test_tables_that_count_people_twice_are_published_but_not_audited():
    schema = load_schema("persons-2010")
    whole = tabulate(to_population(towns(seed=4, people=1_500, counties=2), schema=schema))
    mechanism = Suppression(tables=("P6",), lowest="county")
    assert audit_release(whole, protect(Tabulated.of(whole), mechanism)) == ()


EXAMPLE = to_population(towns(seed=4, people=1_000, counties=2), schema=SCHEMA)


@pytest.mark.parametrize(
    "check",
    [
        check
        for rule in ("1980", "complementary")
        for check in mechanism_checks(
            Suppression(rule=rule, tables=("P1",), lowest="county"), [EXAMPLE]
        )
    ],
    ids=str,
)
def test_contract(check):
    check()
