"""Reconstruction from another release of the same places."""

from dataclasses import replace

import numpy as np
import pytest

from headcount.attacks.knowledge import knowledge_of_release
from headcount.attacks.reconstruction import reconstruct
from headcount.errors import InputError
from headcount.mechanisms import Identity, protect
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.population.from_households import to_population
from headcount.population.towns import towns
from headcount.schema import load_schema
from headcount.tabulate import Tabulated, tabulate
from headcount.tabulate.published import tables
from headcount_papers.hawes_rodriguez_2021.again import (
    changed_leaves,
    only_leaves,
    reconstruct_again,
)

SCHEMA = load_schema("sex-age38-race7-hispanic")
SF1 = [tables("sf1")[name] for name in ("P8", "P12", "P12A")]


@pytest.fixture(scope="module")
def counts():
    return tabulate(to_population(towns(seed=4, people=1_500, counties=2), schema=SCHEMA))


@pytest.fixture(scope="module")
def release(counts):
    return protect(Tabulated.of(counts), Identity())


def test_leaves_whose_tables_changed_are_solved_again_and_the_others_are_not(counts, release):
    before = knowledge_of_release(release, SF1)
    found = reconstruct(before, variability=False)
    leaf = counts.geography.leaf
    moved = counts.matrix.toarray()
    some = np.flatnonzero(counts.totals() > 5)[[1, 4]]
    for unit in some:
        moved[unit] = np.roll(moved[unit], SCHEMA.size // 2)  # men for women
    after = knowledge_of_release(replace(release, tables={leaf: moved}), SF1)
    assert np.flatnonzero(changed_leaves(after, before)).tolist() == some.tolist()
    wanted = reconstruct(after, variability=False).matrix
    assert abs(reconstruct_again(after, before, found) - wanted).sum() == 0
    assert abs(wanted - found.matrix).sum() > 0
    assert abs(reconstruct_again(before, before, found) - found.matrix).sum() == 0


def test_ranges_and_withheld_units_are_seen_as_changes(counts, release):
    before = knowledge_of_release(release, [tables("sf1")["P12"]])
    cut = protect(Tabulated.of(counts), Suppression(tables=("P12",)))
    after = knowledge_of_release(cut)
    people = counts.totals()
    assert np.array_equal(changed_leaves(after, before), (people > 0) & (people < 15))
    few = only_leaves(after, np.flatnonzero((people > 0) & (people < 15)))
    assert few.geography.size("block") == few.tables[0].low.shape[0] > 0


def test_other_tables_are_refused(release):
    one, other = (knowledge_of_release(release, some) for some in (SF1, SF1[:1]))
    with pytest.raises(InputError, match=r"found tables \['P8', 'P12', 'P12A'\], expected tables"):
        changed_leaves(one, other)
