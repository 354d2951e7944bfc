"""The audit of patterns: holes are seen, sound ones pass."""

import numpy as np
import pytest

from headcount.errors import InputError
from headcount.mechanisms.suppression.complementary import complement
from tests.support.additive_tables import small_table
from tests.support.withheld_audit import audit_withheld


@pytest.mark.parametrize("seed", range(4))
def test_every_secondary_cell_that_is_published_makes_a_hole_that_is_seen(seed):
    table = small_table(seed)
    pattern = complement(table.additive, table.values, table.primary, publish=table.publish)
    secondary = np.flatnonzero(pattern.secondary)
    whole = audit_withheld(
        table.additive, table.values, withheld=pattern.withheld, primary=pattern.primary
    )
    assert whole.clean
    assert whole.primaries == pattern.primary.sum()
    for cell in secondary:
        leaky = pattern.withheld.copy()
        leaky[cell] = False
        audit = audit_withheld(
            table.additive, table.values, withheld=leaky, primary=pattern.primary
        )
        assert not audit.clean
        assert "narrower than 3" in str(audit)


def test_kinds_of_failure_are_told_apart():
    table = small_table(0)
    primary = table.primary
    bare = audit_withheld(table.additive, table.values, withheld=primary, primary=primary)
    assert len(bare.exact_primary) > 0
    assert set(bare.exact_primary) <= set(bare.narrow_primary)
    assert not len(bare.exact_secondary)
    lone = np.zeros(len(primary), dtype=bool)
    lone[5] = True
    other = audit_withheld(table.additive, table.values, withheld=lone, primary=~lone & lone)
    assert other.exact_secondary.tolist() == [5]
    assert not other.clean


def test_a_sample_is_part_of_the_whole():
    table = small_table(2)
    pattern = complement(table.additive, table.values, table.primary, publish=table.publish)
    some = audit_withheld(
        table.additive, table.values, withheld=pattern.withheld, primary=pattern.primary, sample=8
    ).intervals
    whole = audit_withheld(
        table.additive, table.values, withheld=pattern.withheld, primary=pattern.primary
    ).intervals
    at = np.searchsorted(whole.cell, some.cell)
    assert len(some.cell) == 8
    assert whole.low[at].tolist() == some.low.tolist()
    assert whole.high[at].tolist() == some.high.tolist()


def test_a_primary_cell_that_is_published_is_refused():
    table = small_table(0)
    with pytest.raises(InputError, match="found a primary cell that is published"):
        audit_withheld(table.additive, table.values, withheld=table.publish, primary=table.primary)
