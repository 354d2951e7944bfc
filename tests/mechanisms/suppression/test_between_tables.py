"""Tables that are parts of each other: what an attacker adds and subtracts across them.

The oracle is a linear program over the people themselves: one unknown for each county and each
combination of attributes that the tables tell apart, every published cell a sum of them, every
withheld one a sum of 1 at least.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, kron, vstack

from headcount.evaluation.suppressed import audit_release
from headcount.mechanisms import protect
from headcount.mechanisms._base import Context
from headcount.mechanisms.suppression import witnesses
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.mechanisms.suppression.rules import find_tables
from headcount.population.from_households import to_population
from headcount.population.towns import towns
from headcount.release.published import by_name
from headcount.schema import load_schema
from headcount.tabulate import Tabulated, tabulate
from headcount.tabulate.linked_tables import _columns, all_values, link_tables, sums_between

SCHEMA = load_schema("sex-age38-race7-hispanic")
AGES = ("P12", *(f"P12{letter}" for letter in "ABCDEFG"))
RACES = ("P1", "P2", "P3", "P4")


@pytest.fixture(scope="module")
def counts():
    return tabulate(to_population(towns(seed=4, people=1_500, counties=2), schema=SCHEMA))


def _levels(names):
    """Eight tables of 72 cells are work enough at one level."""
    return ("state",) if names == AGES else ("state", "county")


def _truth(counts, names):
    return all_values(counts, find_tables(names, SCHEMA), lowest=_levels(names)[-1])


def _oracle(counts, published, names):
    """Rows (unknowns to published cells), their values, and the rows of withheld cells."""
    made = find_tables(names, SCHEMA)
    told = csr_array(hstack([one.matrix for one in made]))
    _, first = np.unique(told.toarray(), axis=0, return_index=True)
    levels = _levels(names)
    units = counts.geography.size(levels[-1])
    rows, values, hidden = [], [], []
    for cells in made:
        for level in levels:
            up = np.eye(units) if level == levels[-1] else np.ones((1, units))
            one = published[cells.table.name, level]
            rows.append(kron(csr_array(up), cells.matrix[first].T, format="csr"))
            values.append(one.value.ravel())
            hidden.append(one.withheld.ravel())
    return vstack(rows, format="csr"), np.concatenate(values), np.concatenate(hidden)


def _widths(rows, values, hidden, some):
    found = []
    for row in some:
        cost = rows[[row]].toarray()[0]
        ends = [
            linprog(
                sign * cost,
                A_eq=rows[~hidden],
                b_eq=values[~hidden],
                bounds=(0, None),
                A_ub=-rows[hidden],
                b_ub=-np.ones(int(hidden.sum())),
            )
            for sign in (1, -1)
        ]
        high = np.inf if ends[1].status == 3 else -ends[1].fun
        found.append(np.floor(high + 1e-6) - np.ceil(ends[0].fun - 1e-6))
    return np.array(found)


def _primary(counts, names):
    values = _truth(counts, names)
    flat = np.concatenate(
        [values[name, level].ravel() for name in names for level in _levels(names)]
    )
    return np.flatnonzero((flat >= 1) & (flat <= 2))


@pytest.mark.parametrize("names", [AGES, RACES, ("P12", "P14")])
def test_no_small_count_can_be_told_from_all_tables_together(counts, names, tmp_path):
    mechanism = Suppression(rule="complementary", tables=names, lowest=_levels(names)[-1], audit=30)
    file = tmp_path / "witnesses.parquet"
    release = protect(Tabulated.of(counts), mechanism, context=Context(curator=tmp_path))
    rows, values, hidden = _oracle(counts, by_name(release.as_tables().published), names)
    some = np.random.default_rng(3).permutation(_primary(counts, names))[:10]
    assert (_widths(rows, values, hidden, some) >= mechanism.width).all()
    (audit,) = audit_release(counts, release, witnesses=file)
    assert audit.clean
    assert audit.found.primaries
    assert audit.witnessed is not None
    assert audit.witnessed.primaries >= len(some)


@pytest.mark.parametrize("names", [AGES, RACES])
def test_tables_protected_one_by_one_leak_and_the_audit_says_so(counts, names):
    each = [
        protect(
            Tabulated.of(counts),
            Suppression(rule="complementary", tables=(name,), lowest=_levels(names)[-1]),
        ).as_tables()
        for name in names
    ]
    alone = tuple(one for release in each for one in release.published)
    release = replace(
        each[0], published=alone, rules=replace(each[0].withholding, tables=names, audit=200)
    )
    (audit,) = audit_release(counts, release)
    assert len(audit.found.narrow_primary) > 0
    assert not audit.found.clean
    rows, values, hidden = _oracle(counts, by_name(alone), names)
    some = _primary(counts, names)
    some = some if names == RACES else np.random.default_rng(3).permutation(some)[:12]
    assert (_widths(rows, values, hidden, some) < each[0].withholding.width).any()


def test_what_is_a_sum_of_what():
    made = find_tables(("P2", "P4", "P12", "P12A", "P12B", "P14"), SCHEMA)
    columns = _columns(made)
    name = {
        int(c): (one.table.name, *label)
        for one, own in zip(made, columns, strict=True)
        for c, label in zip(own, one.labels, strict=True)
    }
    found = {
        (name[one.total], tuple(name.get(part, "rest") for part in one.parts))
        for one in sums_between(made, columns)
    }
    teens = ("P12", "male", "15-17")
    assert (teens, (("P12A", *teens[1:]), ("P12B", *teens[1:]), "rest")) in found
    assert (teens, tuple(("P14", "male", str(age)) for age in (15, 16, 17))) in found
    assert (("P2", "hispanic", "asian"), (("P4", "hispanic", "asian"), "rest")) in found
    assert not any(total[0] == "P14" for total, _ in found)


def test_a_rest_is_counted_but_never_published(counts):
    (linked,) = link_tables(find_tables(RACES, SCHEMA), counts.geography, lowest="county")
    truth = linked.gather(_truth(counts, RACES))
    linked.additive.check(truth)
    assert (truth[~linked.published] >= 0).all()
    minors = counts.at("state").matrix.sum() - truth[linked.number["P3", "state"][0, 0]]
    (state,) = {int(u) for u in linked.additive.unit[linked.number["P1", "state"]].ravel()}
    rests = ~linked.published & (linked.additive.unit == state)
    assert truth[rests].sum() == minors


def test_a_search_that_finds_nothing_withholds_everything(counts, monkeypatch, tmp_path):
    monkeypatch.setattr(witnesses.Mover, "cheapest", lambda *_, **__: None)
    mechanism = Suppression(rule="complementary", tables=("P1",), lowest="county", audit=10)
    file = tmp_path / "witnesses.parquet"
    release = protect(Tabulated.of(counts), mechanism, context=Context(curator=tmp_path))
    values = all_values(counts, find_tables(("P1",), SCHEMA), lowest="county")
    for where, one in by_name(release.as_tables().published).items():
        assert np.array_equal(one.withheld, values[where] > 0)
    (audit,) = audit_release(counts, release, witnesses=file)
    assert audit.clean
