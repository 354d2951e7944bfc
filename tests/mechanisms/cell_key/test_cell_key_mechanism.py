"""Cell keys as a mechanism: the same people change alike, zeros stay, and what is secret stays so.

The law of the change is tested against its table, and a build that takes the key of the table
instead of that of the people is caught by the same test as ours passes.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import headcount as hc
from headcount.domain import Domain
from headcount.errors import ConfigError, HeadcountError, InputError, PrivacyError, RunError
from headcount.mechanisms import Chain, Context, Sampling, Tabulated, protect
from headcount.mechanisms._key_file import CellWords, KeySecret, secret_of_file
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.mechanisms.cell_key.perturbation import PerturbationLimits, perturbation_rows
from headcount.mechanisms.cell_key.tables import PerturbationFile, write_rows
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.population.from_households import to_population
from headcount.population.population import RecordKeys
from headcount.population.towns import towns
from headcount.release import TablesRelease
from headcount.release.published import by_name, definition_of
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import table_values
from headcount.tabulate.published import TableCells
from headcount.testing.contracts import mechanism_checks
from tests.mechanisms.cell_key.test_lookup import p_value, shifted

SCHEMA = Schema(
    (
        Attribute("sex", ("f", "m")),
        Attribute("age", ("0-17", "18-64", "65+")),
        Attribute("job", ("a", "b", "c", "d")),
    )
)
TABLES = {"sex_age": ["sex", "age"], "age_job": ["age", "job"], "age": ["age"], "all": []}


def people(number: int = 4_000, *, seed: int = 1, leaves: int = 40) -> Population:
    rng = np.random.default_rng(seed)
    geography = hc.Geography(
        ("all", "town", "block"),
        (
            np.array(["all"]),
            np.array([f"t{i}" for i in range(4)]),
            np.array([f"b{i:03}" for i in range(leaves)]),
        ),
        (
            np.empty(0, dtype=np.int32),
            np.zeros(4, dtype=np.int32),
            (np.arange(leaves) * 4 // leaves).astype(np.int32),
        ),
    )
    return Population(
        "made up",
        Domain(SCHEMA, geography),
        unit=rng.integers(0, leaves, number).astype(np.int32),
        cell=rng.integers(0, SCHEMA.size, number).astype(np.int32),
    )


DATA = Tabulated.of(people())


def release_of(mechanism: CellKey, data: Any = DATA, **how: Any) -> TablesRelease:
    return protect(data, mechanism, **({"seed": 1} | how)).as_tables()


def changes_of(release: TablesRelease, counts: Counts) -> dict[tuple[str, str], Any]:
    return {
        (one.name, one.level): one.value - table_values(counts.at(one.level), one.cells)
        for one in release.published
    }


def alike(release: TablesRelease, counts: Counts) -> bool:
    """Whether cells of all tables and levels that hold the very same people change alike."""
    seen: dict[bytes, int] = {}
    leaf = counts.matrix.toarray() > 0
    ones = np.arange(leaf.shape[0])
    for one in release.published:
        change = changes_of(release, counts)[one.name, one.level]
        ancestor = counts.geography.ancestors(one.level)
        members = one.cells.matrix.toarray() > 0
        for unit in range(change.shape[0]):
            inside = leaf & (ancestor[ones] == unit)[:, None]
            for cell in range(change.shape[1]):
                who = np.packbits(inside & members[:, cell]).tobytes()
                if seen.setdefault(who, int(change[unit, cell])) != change[unit, cell]:
                    return False
    return True


def test_the_same_people_change_alike_in_every_table_and_at_every_level():
    release = release_of(CellKey(tables=TABLES))
    assert alike(release, DATA.counts)
    found = by_name(release.published)
    margin = found["sex_age", "town"].value[:, 1:4]  # both sexes, by age
    assert np.array_equal(margin, found["age", "town"].value[:, 1:])


def test_a_build_with_the_key_of_the_table_is_caught(monkeypatch):
    right = CellWords.keys

    def of_the_table(self: CellWords, cells: TableCells) -> Any:
        return right(self, cells) + np.uint64(hash(cells.table.name) & (2**63 - 1))

    monkeypatch.setattr(CellWords, "keys", of_the_table)
    assert not alike(release_of(CellKey(tables=TABLES)), DATA.counts)


@pytest.mark.parametrize("ids", [False, True])
def test_the_changes_of_a_million_cells_have_the_law_of_their_rows(ids):
    """Words of leaf cells, and of persons: chi-square of each row, which a fudged row fails."""
    units, rows = 10_000, perturbation_rows(PerturbationLimits(3, Fraction(1)))
    codes = np.array([f"u{number:05}" for number in range(units)])
    schema = Schema((Attribute("kind", tuple(f"k{number:02}" for number in range(100))),))
    geography = hc.Geography(
        ("all", "unit"),
        (np.array(["all"]), codes),
        (np.empty(0, dtype=np.int32), np.zeros(units, dtype=np.int32)),
    )
    true = np.arange(units * 100) % 5 + (0 if ids else 1)
    where = np.repeat(np.arange(units * 100), true) if ids else np.arange(units * 100)
    data = Population(
        "a million cells",
        Domain(schema, geography),
        unit=(where // 100).astype(np.int32),
        cell=(where % 100).astype(np.int32),
        count=None if ids else true,
        record_keys=RecordKeys(np.arange(len(where), dtype=np.uint64)) if ids else None,
    )
    one = release_of(CellKey(tables={"t": ["kind"]}), data).published[-1]
    change = one.value[:, one.cells.inner].ravel() - true
    for n in range(1, 5):
        here, row = change[true == n], rows[min(n, 3)]
        assert len(here) == units * 20
        assert p_value(here, row) > 1e-4
        assert p_value(here, shifted(row)) < 1e-9
    assert not change[true == 0].any()


def test_keys_of_disjoint_sets_are_uncorrelated_and_sums_wrap():
    words = CellWords.of(DATA.counts, KeySecret(b"1" * 32, origin="test"))
    leaf = words.matrix.toarray()
    assert leaf.dtype == np.uint64
    assert ((leaf > 0) == (DATA.counts.matrix.toarray() > 0)).all()
    town = words.at("town").matrix.toarray()
    by_hand = [sum(int(leaf[b, c]) for b in range(10, 20)) % 2**64 for c in range(SCHEMA.size)]
    assert town[1].tolist() == by_hand
    full = leaf[(leaf > 0).all(axis=1)]
    unit = full.astype(np.float64) / 2**64
    assert abs(np.corrcoef(unit[:, 0], unit[:, 1])[0, 1]) < 4 / np.sqrt(len(unit))


def test_empty_cells_stay_empty_and_no_change_is_larger_than_asked_for():
    release = release_of(CellKey(tables=TABLES, maximum=2, variance=Fraction(1)))
    for one in release.published:
        true = table_values(DATA.counts.at(one.level), one.cells)
        assert not one.value[true == 0].any()
        assert np.abs(one.value - true).max() <= 2
        assert not one.withheld.any()
    assert any(change.any() for change in changes_of(release, DATA.counts).values())


def test_totals_can_be_exempt():
    release = release_of(CellKey(tables=TABLES, exact_total=True))
    for one in release.published:
        true = table_values(DATA.counts.at(one.level), one.cells)
        assert np.array_equal(one.value[:, 0], true[:, 0])
        assert one.off is not None
        assert one.off.exact_totals
    assert "Released without noise: the total of every table in every unit." in (
        release.guarantee.sentences()
    )


def test_a_table_with_columns_keeps_the_mean_at_0_and_the_bound():
    release = release_of(CellKey(tables=TABLES, columns=256))
    change = np.concatenate([one.ravel() for one in changes_of(release, DATA.counts).values()])
    assert 0 < np.abs(change).max() <= 3
    assert alike(release, DATA.counts)


def test_presets_are_those_of_eurostat_and_the_ons():
    assert CellKey.from_preset("cell-key-eurostat-test") == CellKey(maximum=3, variance=Fraction(1))
    ons = CellKey.from_preset("ons-10-5", tables=TABLES)
    for one in release_of(ons).published:
        true = table_values(DATA.counts.at(one.level), one.cells)
        assert np.array_equal(one.withheld, true < 10)
        nearest = (true + 2) // 5 * 5
        assert np.array_equal(one.value[~one.withheld], nearest[~one.withheld])


def test_a_table_that_loses_people_raises_some_zeros(tmp_path):
    path = tmp_path / "lossy.csv"
    path.write_text("i,j,p\n0,0,1\n1,0,0.5\n1,1,0.5\n2,2,1\n")
    file = PerturbationFile(file=path)
    data = Tabulated.of(people(300))
    tables = {"cells": ["sex", "age", "job"]}
    kept = CellKey(tables=tables, ptable=file, zeros="balance")
    release = release_of(kept, data)
    one = release.published[-1]
    true = table_values(data.counts, one.cells)
    raised = (true == 0) & (one.value > 0)
    assert int(raised.sum()) == round(int((true == 1).sum()) / 2)
    assert one.off is not None
    assert one.off.raises_zeros
    assert not (release_of(replace(kept, zeros="stay"), data).published[-1].value[true == 0]).any()
    (remark,) = [r for r in kept.on(data.counts.domain).check(data.counts) if "mean" in r]
    assert "another mean than 0 in 1 of 3 rows; a count of 1 changes by -0.5 on average" in remark


def test_zeros_are_not_said_to_be_raised_by_a_table_that_raises_none():
    balance = CellKey(tables=TABLES, zeros="balance")
    message = "zeros: found 'balance', with a table by which no count is lowered on average"
    design = balance.on(DATA.counts.domain)
    for refused in (design.check, lambda _: release_of(balance)):
        with pytest.raises(ConfigError, match=message):
            refused(DATA.counts)
    told = CellKey.from_preset("ons-10-5", tables=TABLES).on(DATA.counts.domain).check(DATA.counts)
    assert "another mean than 0 in" in told[-1]
    assert not any(
        "mean" in one for one in CellKey(tables=TABLES).on(DATA.counts.domain).check(DATA.counts)
    )


def test_a_file_of_headcount_s_own_gives_the_same_release(tmp_path):
    rows = perturbation_rows(PerturbationLimits(largest=3, variance=Fraction(1)))
    write_rows(tmp_path / "table.csv", rows)
    given = CellKey(tables=TABLES, ptable=PerturbationFile(file=tmp_path / "table.csv"))
    noise = KeyedNoise(RunKey.from_seed(1), "cell-key", DATA.digest, b"")
    ours = protect(DATA, CellKey(tables=TABLES), noise).as_tables()
    theirs = protect(DATA, given, noise).as_tables()
    for one, other in zip(ours.published, theirs.published, strict=True):
        assert np.array_equal(one.value, other.value)


def test_a_key_file_makes_later_releases_agree(tmp_path):
    keys = tmp_path / "record.keys"
    first = release_of(CellKey(tables=TABLES, keys=keys), seed=1)
    assert keys.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [keys]
    again = release_of(CellKey(tables={"age_of": ["age"]}, keys=keys), seed=2)
    old, new = by_name(first.published), by_name(again.published)
    for level in ("all", "town", "block"):
        assert np.array_equal(old["age", level].value, new["age_of", level].value)
    assert "kept in a file for later tables" in str(first.notes["record keys"])
    alone = release_of(CellKey(tables=TABLES), seed=3)
    assert "from a seed" in str(alone.notes["record keys"])
    secret = protect(DATA, CellKey(tables=TABLES))
    assert "made for this release alone" in str(secret.notes["record keys"])


def test_other_areas_of_the_same_leaves_share_the_key_file(tmp_path):
    keys = CellKey(tables={"age": ["age"]}, keys=tmp_path / "keys")
    release = release_of(keys)
    flat = people()
    geography = hc.Geography(
        ("all", "block"),
        (flat.geography.units[0], flat.geography.units[2]),
        (np.empty(0, dtype=np.int32), np.zeros(40, dtype=np.int32)),
    )
    domain = replace(flat.domain, geography=geography)
    again = release_of(keys, replace(flat, domain=domain))
    old, new = by_name(release.published), by_name(again.published)
    assert np.array_equal(old["age", "block"].value, new["age", "block"].value)


def test_keys_of_other_people_are_refused_before_anything_is_written(tmp_path):
    keys = tmp_path / "keys"
    mechanism = CellKey(tables=TABLES, keys=keys)
    release_of(mechanism)
    before = keys.read_bytes()
    other = Tabulated.of(people(4_001))
    with pytest.raises(PrivacyError, match="found keys of other data, expected keys made for the"):
        Chain.of(mechanism).on(other.counts.domain).check(other)
    with pytest.raises(PrivacyError, match="found keys of other data"):
        release_of(mechanism, other)
    assert keys.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no modes here")
def test_a_key_file_that_others_can_read_is_refused(tmp_path):
    keys = tmp_path / "keys"
    mechanism = CellKey(tables=TABLES, keys=keys)
    release_of(mechanism)
    keys.chmod(0o640)
    with pytest.raises(PrivacyError, match="found mode 0640, expected 0600"):
        mechanism.on(DATA.counts.domain).check(DATA.counts)


def test_a_damaged_key_file_and_a_folder_that_is_not_there_are_refused(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("headcount record keys 1\nabc\n")
    keys.chmod(0o600)
    with pytest.raises(RunError, match="found a damaged key file, expected one written by"):
        CellKey(keys=keys).on(DATA.counts.domain).check(DATA.counts)
    keys.write_text("headcount record keys 9\nabc\n")
    with pytest.raises(RunError, match="keys: found a key file of another version, expected 1: us"):
        CellKey(keys=keys).on(DATA.counts.domain).check(DATA.counts)
    with pytest.raises(RunError, match="found a folder, expected a key file, or nothing to make"):
        CellKey(keys=tmp_path).on(DATA.counts.domain).check(DATA.counts)
    with pytest.raises(RunError, match=r"found no folder .*nowhere, expected one for the key file"):
        CellKey(keys=tmp_path / "nowhere" / "keys").on(DATA.counts.domain).check(DATA.counts)


def test_the_secret_shows_itself_nowhere(tmp_path):
    secret = secret_of_file(tmp_path / "keys", DATA.counts, "a way")
    assert repr(secret) == "KeySecret(hidden)"
    with pytest.raises(PrivacyError, match="record keys cannot be pickled"):
        secret.__reduce__()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"maximum": 0}, "cell-key: maximum: found 0, expected 1 or more"),
        ({"maximum": 101}, "cell-key: maximum: found 101, expected 1 to 100"),
        ({"variance": 0}, "cell-key: variance: found 0, expected more than 0"),
        ({"variance": 0.5}, "cell-key: variance: found 0.5, expected an exact number"),
        ({"variance": "x"}, "cell-key: variance: found 'x', expected a number such as 1"),
        ({"blocked": 3}, "cell-key: blocked: found 3, expected 0 to 2, less than the largest"),
        ({"stay": 1}, "cell-key: stay: found 1, expected 0 or more, less than 1"),
        (
            {"blocked": 2},
            "cell-key: variance: found 1, expected at least 2: a count of 1 becomes 0, or 3 or "
            "more, and stays 1 on average",
        ),
        ({"columns": 100}, "cell-key: columns: found 100, expected 0, 256 or 4096"),
        ({"below": -1}, "cell-key: below: found -1, expected 0 or more"),
        ({"zeros": "move"}, "cell-key: zeros: found 'move'"),
        ({"rule": "5-10"}, "cell-key: rule: found '5-10'"),
        ({"rule": "10-5", "maximum": 4}, "cell-key: maximum: found it, with the rule '10-5'"),
        ({"tables": ("P99",)}, "cell-key: tables: found 'P99', expected some of P1"),
        ({"tables": "all"}, "cell-key: tables: found 'all', expected"),
        ({"tables": ()}, "cell-key: tables: found none, expected at least one"),
        ({"tables": ("P1", "P1")}, "cell-key: tables: found 'P1' twice, expected distinct tables"),
        (
            {"tables": ("P1",), "bins": {"age": [0, 18]}},
            "cell-key: bins: found tables that are known by name",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        CellKey(**settings)
    assert message in str(caught.value)


def test_attributes_that_leaf_cells_do_not_span_are_refused():
    with pytest.raises(ConfigError, match=r"cell-key: tables.t: found 'income', expected"):
        CellKey(tables={"t": ["income"]}).on(DATA.counts.domain).check(DATA.counts)
    with pytest.raises(ConfigError, match="cell-key: table P1: found P1: the schema has no attri"):
        CellKey(tables=("P1",)).on(DATA.counts.domain).check(DATA.counts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i,j,p\n0,0,1\n1,0,0.50\n1,1,0.40\n", "found probabilities that sum to 0.90, expected 1"),
        ("i,j,p\n0,0,1\n2,2,1\n", "i: found no line for i = 1, expected each count from 0 on"),
        ("count,change\n1,1\n", "line 1: found columns count, change"),
    ],
)
def test_files_that_are_no_table_are_refused(tmp_path, text, message):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(HeadcountError) as caught:
        CellKey(ptable=PerturbationFile(file=path)).on(DATA.counts.domain).check(DATA.counts)
    assert message in str(caught.value)
    with pytest.raises(ConfigError, match="found no such file, expected a perturbation table"):
        CellKey(ptable=PerturbationFile(file=tmp_path / "no.csv")).on(DATA.counts.domain).check(
            DATA.counts
        )
    with pytest.raises(ConfigError, match=r"found sha256 .*, expected sha256 abc, as configured"):
        CellKey(ptable=PerturbationFile(file=path, sha256="abc")).on(DATA.counts.domain).check(
            DATA.counts
        )
    with pytest.raises(ConfigError, match="variance: found it, with a table from a file"):
        CellKey(ptable=PerturbationFile(file=path), variance=Fraction(2))
    with pytest.raises(ConfigError, match="ptable: found the rule '10-5' as well, expected one"):
        CellKey(ptable=PerturbationFile(file=path), rule="10-5")


def test_counts_that_are_none_are_refused():
    for data, message in (
        (-DATA.counts.matrix, "cell-key: found a count below 0, expected 0 or more"),
        (DATA.counts.matrix * 0.5, "cell-key: found counts of type float64, expected whole"),
    ):
        with pytest.raises(InputError, match=message):
            CellKey().on(replace(DATA.counts, matrix=data).domain).check(
                replace(DATA.counts, matrix=data)
            )


def test_a_sample_and_a_step_after_are_refused():
    with pytest.raises(ConfigError, match=r"a sample \(sampling\), whose people stand for 2 each"):
        Chain.of([Sampling(fraction=Fraction(1, 2)), CellKey()])
    with pytest.raises(ConfigError, match="found a sample, whose people stand for 2 each"):
        CellKey().on(replace(DATA.counts, weight=Fraction(2)).domain).check(
            replace(DATA.counts, weight=Fraction(2))
        )
    with pytest.raises(ConfigError, match="a method that changes tables before the last step"):
        Chain.of([CellKey(), Sampling(fraction=Fraction(1, 2))])


def test_swapped_people_keep_their_keys_and_a_second_swap_is_refused(tmp_path):
    town = to_population(towns(seed=3, people=1_500, counties=2), ["sex", "age", "race"])
    keys = tmp_path / "keys"
    swap = hc.HouseholdSwapping(rate=Fraction(1, 5), key=("size",))
    chain = Chain.of([swap, CellKey(tables={"sex": ["sex"], "race": ["race"]}, keys=keys)])
    data = Tabulated.of(town)
    first = protect(data, chain, seed=1).as_tables()
    again = protect(data, chain, seed=1).as_tables()
    for one, other in zip(first.published, again.published, strict=True):
        assert np.array_equal(one.value, other.value)
    with pytest.raises(PrivacyError, match="so that a second swap is refused"):
        protect(data, chain, seed=2)
    fresh = Chain.of([swap, CellKey(tables={"sex": ["sex"], "all": []})])
    noise = KeyedNoise(RunKey.from_seed(1), fresh.name, data.digest, b"")
    swapped = fresh.on(data.counts.domain).changed(data, noise, run=0, context=Context())
    assert (swapped.matrix != data.counts.matrix).nnz
    assert alike(protect(data, fresh, noise).as_tables(), swapped)
    assert not first.guarantee.losses
    assert "cell-key: each count is changed" in first.guarantee.why_none


def test_nothing_of_the_table_is_said_unless_it_is_disclosed(tmp_path):
    told = CellKey(tables=TABLES, maximum=4, variance=Fraction(7, 4), disclose=True)
    kept = replace(told, disclose=False)
    for mechanism in (told, kept):
        folder = tmp_path / str(mechanism.disclose)
        folder.mkdir()
        release = release_of(mechanism, context=Context(curator=folder))
        account = json.loads((folder / "cell-key.json").read_text())
        assert account["largest_change"] == 4
        assert account["delta_of_one_cell"]["1.0"]["largest"] > 0.5
        assert account["settings_digest"] == release.notes["settings digest"]
        assert (folder / "perturbation-table.csv").read_text().startswith("i,j,p,v")
        public = " ".join(
            [
                release.mechanism,
                str(release.notes),
                str(release.rules),
                *release.guarantee.sentences(),
            ]
        )
        off = {one.off for one in release.published}
        (said,) = off
        assert said is not None
        # A manifest must not say in a second place that a published 0 is a 0.
        assert "zero_hides" not in definition_of(release.published[0])
        if mechanism.disclose:
            assert "maximum=4" in public
            assert "delta of one cell at epsilon 1.0" in public
            assert said.down == said.up == said.zero_hides == 4
        else:
            assert "maximum" not in public
            assert "7, 4" not in public
            assert "delta" not in public
            assert said.down is said.up is said.zero_hides is None
    assert kept.on(DATA.counts.domain).secret_settings
    assert not told.on(DATA.counts.domain).secret_settings


def test_the_digest_of_settings_needs_its_key():
    one, other = (release_of(CellKey(tables=TABLES), seed=seed) for seed in (1, 2))
    assert one.notes["settings digest"] != other.notes["settings digest"]


EXAMPLE = people(300, leaves=8)


@pytest.mark.parametrize(
    "check",
    list(mechanism_checks(CellKey(tables={"t": ["sex", "age"]}, maximum=2), [EXAMPLE])),
    ids=str,
)
def test_contract(check):
    check()
