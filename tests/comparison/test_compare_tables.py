"""A comparison with cases that change published tables: every case is scored on the same tables."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import headcount as hc
from headcount.comparison.cases import Case, releases
from headcount.domain import Domain
from headcount.errors import InputError
from headcount.geography.geography import regular
from headcount.mechanisms import Chain, Mechanism, Tabulated
from headcount.population import Population
from headcount.report.model import Table
from headcount.run.compare import Comparison, compare
from headcount.schema import Attribute, Schema
from headcount.tabulate.linked_tables import table_values

BY_SEX = {"by_sex": ["sex"]}
SCHEMA = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("minor", "adult"))))
WAYS = {
    "noise": hc.Geometric(epsilon=Fraction(1)),
    "keys": hc.CellKey(tables=BY_SEX, maximum=2, variance=Fraction(1)),
    "base 3": hc.Rounding(tables=BY_SEX, base=3),
}


@pytest.fixture(scope="module")
def people() -> Tabulated:
    draw = np.random.default_rng(3)
    unit, cell = draw.integers(27, size=300), draw.integers(4, size=300)
    places = regular(children=3, depth=3)
    where = (unit.astype(np.int32), cell.astype(np.int32))
    return Tabulated.of(Population("people", Domain(SCHEMA, places), *where))


@pytest.fixture(scope="module")
def found(people: Tabulated) -> Comparison:
    return compare(people, cases=WAYS, replicates=2, seed=5)


def made(people: Tabulated, name: str) -> Iterator[hc.Release]:
    """The releases that a comparison makes of a case."""
    case = Case(name=name, mechanism=Chain.of(WAYS[name]), runs=range(2))
    return (one.release for one in releases(case, people, seed=5))


def truth(people: Tabulated, level: str) -> np.ndarray:
    """Total, women and men of each unit, by plain adding."""
    cells = people.counts.at(level).matrix.toarray().reshape(-1, 2, 2).sum(axis=2)
    return np.column_stack([cells.sum(axis=1), cells])


def test_every_case_is_scored_on_the_tables_that_some_case_changes(people, found):
    rows = found.tables["table_changes"]
    assert set(rows["case"]) == {"no protection", *WAYS}
    leaf = people.counts.geography.leaf
    exact = truth(people, leaf)
    for name in WAYS:
        off = []
        for release in made(people, name):
            if name == "noise":
                women_men = release.at(leaf).reshape(-1, 2, 2).sum(axis=2)
                shown = np.column_stack([women_men.sum(axis=1), women_men])
            else:
                shown = next(
                    one.value for one in release.as_tables().published if one.level == leaf
                )
            off.append(shown - exact)
        row = rows.row(
            by_predicate=(pl.col("case") == name) & (pl.col("level") == leaf), named=True
        )
        assert row["d1"] == pytest.approx(np.abs(off).mean())
        assert row["largest"] == np.abs(off).max()
        shown = np.array(off) + exact
        assert row["false_zeros"] == ((shown == 0) & (exact > 0)).sum() / 2
        assert row["false_nonzeros"] == ((shown != 0) & (exact == 0)).sum() / 2
        spread = found.tables["table_distribution"].filter(case=name, level=leaf)
        changes, many = np.unique(off, return_counts=True)
        assert spread.sort("change")["cells"].to_list() == (many / 2).tolist()
        assert spread.sort("change")["change"].to_list() == changes.tolist()
    none = rows.filter(case="no protection")
    assert none.select(pl.col("d1", "gap", "false_zeros").abs().max()).row(0) == (0, 0, 0)


def test_errors_of_changed_tables_stand_beside_those_of_counts_where_both_have_them(people, found):
    errors, leaf = found.tables["errors"], people.counts.geography.leaf
    keys = errors.filter(case="keys", level=leaf, band="all sizes")
    assert set(keys["attribute"]) == {"everyone", "sex"}  # the table does not show ages
    exact = truth(people, leaf)
    shown = [
        next(one.value for one in release.as_tables().published if one.level == leaf)
        for release in made(people, "keys")
    ]
    total = keys.row(by_predicate=pl.col("attribute") == "everyone", named=True)
    assert total["error"] == pytest.approx(np.abs(np.array(shown) - exact)[..., 0].mean())
    women = keys.row(by_predicate=pl.col("group") == "f", named=True)
    assert women["error"] == pytest.approx(np.abs(np.array(shown) - exact)[..., 1].mean())
    counts = errors.filter(case="noise", level=leaf, band="all sizes", attribute="everyone")
    assert counts["counts"].to_list() == [total["counts"]]
    assert found.tables["memo"].filter(case="keys")["leaf_percent"].is_not_null().all()


def test_the_delta_of_one_cell_is_that_of_the_method_and_only_cell_keys_have_it(found):
    deltas = found.tables["cell_deltas"]
    assert set(deltas["case"]) == {"keys"}
    at_one = deltas.filter(epsilon=1.0)
    assert at_one["largest"].to_list() == pytest.approx([1 - 0.366486], abs=1e-5)


def test_the_report_shows_the_tables(found):
    figure = found.plot("table-changes-by-level")
    assert {"by_sex"} == set(found.tables["table_changes"]["table"])
    assert "true ones" in figure.caption
    (section,) = (one for one in found.whole.sections if one.title == "Published tables")
    assert any(isinstance(block, Table) for block in section.blocks)


def test_one_name_may_not_stand_for_two_tables(people):
    other = hc.Rounding(tables={"by_sex": ["sex", "age"]}, base=3)
    with pytest.raises(InputError, match="another table 'by_sex' than in the cases before it"):
        compare(people, cases={"keys": WAYS["keys"], "other": other}, replicates=1)


def test_withheld_cells_of_changed_tables_are_no_errors(people):
    ways = {"keys": hc.CellKey(tables=BY_SEX, maximum=2, variance=Fraction(1), below=6)}
    found = compare(people, cases=ways, replicates=1, seed=5)
    leaf = people.counts.geography.leaf
    case = Case(name="keys", mechanism=Chain.of(ways["keys"]), runs=range(1))
    (one,) = releases(case, people, seed=5)
    table = next(t for t in one.release.as_tables().published if t.level == leaf)
    true = table_values(people.counts.at(leaf), table.cells)
    withheld = int(table.withheld.sum())
    assert withheld > 0
    sexes = found.tables["errors"].filter(
        case="keys", level=leaf, attribute="sex", band="all sizes"
    )
    shown = ~table.withheld[:, 1:]
    assert sexes["counts"].sum() == shown.sum()
    total = (sexes["error"] * sexes["counts"]).sum()
    assert total == pytest.approx(np.abs(table.value - true)[:, 1:][shown].sum())
    row = found.tables["table_changes"].filter(case="keys", level=leaf)
    assert row["withheld"].to_list() == [withheld]


def test_a_comparison_never_uses_the_keys_that_are_kept_for_what_is_published(people, tmp_path):
    keys = tmp_path / "record.keys"
    fixed = hc.Rounding(tables=BY_SEX, how="fixed", keys=keys)
    half = hc.Sampling(fraction=Fraction(1, 2))
    kept = hc.CellKey(tables=BY_SEX, keys=keys)
    ways: dict[str, Mechanism] = {"kept": kept, "chain": Chain((half,), fixed)}
    rows = compare(people, cases=ways, replicates=2, seed=5).tables["table_changes"]
    assert set(rows["case"]) == {"no protection", *ways}
    assert not keys.exists()
    assert (rows.filter(case="kept")["d1_se"] > 0).any()  # kept keys would give one draw twice
