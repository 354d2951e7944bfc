"""The strategies reach the cases that matter."""

import numpy as np
from hypothesis import HealthCheck, find, settings

from headcount.testing.strategies import geographies, populations, recodes, schemas

QUICK = settings(max_examples=500, database=None, suppress_health_check=list(HealthCheck))


def test_schemas_reach_totals_structural_zeros_and_several_attributes():
    assert find(schemas(), lambda s: not s.attributes, settings=QUICK).size == 1
    assert not find(schemas(), lambda s: not s.possible.all(), settings=QUICK).possible.all()
    assert find(schemas(), lambda s: len(s.attributes) == 3, settings=QUICK).size >= 1


def test_geographies_reach_only_children_and_unequal_ones():
    find(geographies(), lambda g: g.size(g.leaf) == 1 and len(g.levels) > 2, settings=QUICK)
    uneven = find(
        geographies(), lambda g: len(set(np.bincount(g.parents[-1]).tolist())) > 1, settings=QUICK
    )
    assert uneven.size(uneven.leaf) > 1


def test_populations_reach_nobody_empty_units_and_both_kinds():
    find(populations(), lambda p: len(p.unit) == 0, settings=QUICK)
    find(populations(counted=False), lambda p: p.count is None and len(p.unit) > 2, settings=QUICK)
    find(
        populations(counted=True),
        lambda p: p.count is not None and p.count.sum() > 1,
        settings=QUICK,
    )


def test_recodes_reach_true_groups():
    attribute = find(schemas(), lambda s: s.size > 2, settings=QUICK).attributes
    widest = max(attribute, key=lambda a: a.size)
    find(recodes(widest), lambda r: len(set(r.group_of_level)) == 1, settings=QUICK)
    find(recodes(widest), lambda r: len(set(r.group_of_level)) > 1, settings=QUICK)
