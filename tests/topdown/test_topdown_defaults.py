"""TopDown without queries: what it measures, with which shares, and what it promises."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.errors import ConfigError, HeadcountError
from headcount.geography.geography import regular
from headcount.privacy import PureLoss, UnitOfPrivacy, ZCDPLoss
from headcount.schema import Attribute, Schema
from headcount.topdown.mechanism import TopDown
from tests.topdown.small import SCHEMA, counts_of, dense, run, same, tree

CHANGE, ADD = UnitOfPrivacy.CHANGE_ONE, UnitOfPrivacy.ADD_REMOVE
STATES = tree(("state", [2]), ("county", [2, 3]))
ONE_STATE = tree(("state", [1]), ("county", [3]), ("tract", [1, 1, 1]), ("block", [2, 2, 2]))
AGE_ONLY = Schema((Attribute("age", ("minor", "adult")),))
NOTHING = Schema(())
USUAL = {"total": "1/5", "kind": "1/5", "age": "1/5", "cells": "2/5"}
ALONE = {"kind": "1/4", "age": "1/4", "cells": "1/2"}


def topdown(**keys: Any) -> TopDown:
    """Keys as a user writes them: numbers as text, tables as dictionaries."""
    return TopDown(**keys)


def shares(mechanism: TopDown, schema: Schema, geography: Any) -> dict[str, dict[str, str]]:
    """By level, each measured query with its part of what is spent there."""
    allocation = mechanism.completed(schema, geography).allocation(geography)
    return {
        level: {
            query: str(allocation.share(level=level, query=query) / allocation.level_share(level))
            for query in allocation.queries_at(level)
        }
        for level in geography.levels
        if allocation.queries_at(level)
    }


def test_total_attributes_and_cells_are_measured_at_every_level() -> None:
    found = shares(topdown(epsilon=1, unit=ADD), SCHEMA, STATES)
    assert found == {"whole": USUAL, "state": USUAL, "county": USUAL}


def test_shares_of_totals_give_them_more_and_the_whole_less() -> None:
    mechanism = topdown(epsilon=1, shares="totals")
    more = {"total": "1/4", "kind": "3/16", "age": "3/16", "cells": "3/8"}
    assert shares(mechanism, SCHEMA, STATES) == {"whole": ALONE, "state": more, "county": more}
    allocation = mechanism.completed(SCHEMA, STATES).allocation(STATES)
    parts = [allocation.level_share(level) for level in STATES.levels]
    assert parts == [Fraction(3, 11), Fraction(4, 11), Fraction(4, 11)]
    assert shares(mechanism, AGE_ONLY, STATES)["county"] == {"total": "1/4", "cells": "3/4"}
    given = topdown(epsilon=1, shares="totals", levels=dict.fromkeys(STATES.levels, "1/3"))
    allocation = given.completed(SCHEMA, STATES).allocation(STATES)
    assert {allocation.level_share(level) for level in STATES.levels} == {Fraction(1, 3)}


def test_shares_beside_queries_that_have_their_own_are_refused() -> None:
    with pytest.raises(ConfigError, match="shares: found 'totals' beside queries, which have sh"):
        topdown(epsilon=1, shares="totals", queries={"cells": {"share": 1}})


@pytest.mark.parametrize("attributes", [1, 2, 4])
@pytest.mark.parametrize("depth", [2, 5])
def test_what_init_writes_is_never_worse_below_the_top_where_tables_are_filled(
    attributes: int, depth: int
) -> None:
    """By formula, but for 1 %; nor are cells, but for 2 %."""
    schema = Schema(tuple(Attribute(f"a{one}", ("x", "y", "z")) for one in range(attributes)))
    domain = Domain(schema, regular(children=4, depth=depth))
    exact = [{"query": "total", "level": "whole"}]
    new = topdown(epsilon=1, pool=True, shares="totals", invariant=exact).on(domain)
    both = zip(topdown(epsilon=1).on(domain).expected_errors(), new.expected_errors(), strict=True)
    ratios = {
        (old.level, old.query): found.rmse / old.rmse for old, found in both if old.level != "whole"
    }
    totals = [ratio for (_, query), ratio in ratios.items() if query == "total"]
    assert max(ratios.values()) < 1.02
    assert max(ratio for (_, query), ratio in ratios.items() if query != "cells") < 1.01
    assert np.median(totals) < 0.9


def test_only_the_total_of_a_single_unit_takes_no_share_when_a_record_changes() -> None:
    found = shares(topdown(epsilon=1), SCHEMA, STATES)
    assert found == {"whole": ALONE, "state": USUAL, "county": USUAL}


def test_a_level_with_the_units_of_the_one_above_is_not_measured_again() -> None:
    mechanism = topdown(epsilon=1)
    found = shares(mechanism, SCHEMA, ONE_STATE)
    assert found == {"whole": ALONE, "county": USUAL, "block": USUAL}
    allocation = mechanism.completed(SCHEMA, ONE_STATE).allocation(ONE_STATE)
    assert {allocation.level_share(level) for level in found} == {Fraction(1, 3)}


def test_one_attribute_is_the_cells_and_is_not_measured_twice() -> None:
    found = shares(topdown(epsilon=1), AGE_ONLY, STATES)
    assert found["whole"] == {"cells": "1"}
    assert found["county"] == {"total": "1/5", "cells": "4/5"}


def test_without_attributes_the_only_count_of_a_unit_is_measured_once() -> None:
    found = shares(topdown(epsilon=1, unit=ADD), NOTHING, STATES)
    assert found == {key: {"cells": "1"} for key in STATES.levels}


def test_a_single_count_that_cannot_change_is_refused_with_a_way_out() -> None:
    alone = tree()
    for geography in (alone, STATES):
        with pytest.raises(
            ConfigError, match=r"the only count of 'whole' does not .* 'add-remove'"
        ):
            topdown(epsilon=1).on(Domain(NOTHING, geography))
    assert shares(topdown(epsilon=1, unit=ADD), NOTHING, alone) == {"whole": {"cells": "1"}}


def test_an_invariant_may_name_a_default_query_which_then_takes_no_share_there_or_above() -> None:
    mechanism = topdown(epsilon=1, invariant=[{"query": "kind", "level": "state"}])
    found = shares(mechanism, SCHEMA, STATES)
    known = {"age": "1/3", "cells": "2/3"}
    assert found == {"whole": known, "state": known, "county": USUAL}
    with pytest.raises(ConfigError, match="query 'race': found an unknown query, expected"):
        shares(topdown(epsilon=1, invariant=[{"query": "race", "level": "state"}]), SCHEMA, STATES)


def test_an_invariant_total_stands_in_for_a_whole_that_cannot_be_measured() -> None:
    mechanism = topdown(epsilon=1, invariant=[{"query": "total", "level": "whole"}])
    assert shares(mechanism, NOTHING, STATES) == {
        "state": {"cells": "1"},
        "county": {"cells": "1"},
    }


def test_shares_of_levels_that_the_user_gives_stay() -> None:
    given = {"whole": "1/10", "state": "4/10", "county": "5/10"}
    mechanism = topdown(epsilon=1, levels=given, level_queries={"county": {"cells": 1}})
    allocation = mechanism.completed(SCHEMA, STATES).allocation(STATES)
    assert {level: allocation.level_share(level) for level in given} == {
        level: Fraction(share) for level, share in given.items()
    }
    assert shares(mechanism, SCHEMA, STATES) == {
        "whole": ALONE,
        "state": USUAL,
        "county": {"cells": "1"},
    }


def test_attributes_named_like_other_queries_get_names_of_their_own() -> None:
    schema = Schema((Attribute("total", ("a", "b")), Attribute("cells", ("c", "d", "e"))))
    found = shares(topdown(epsilon=1), schema, STATES)["state"]
    assert found == {"total": "1/5", "by_total": "1/5", "by_cells": "1/5", "cells": "2/5"}


@pytest.mark.parametrize("unit", [CHANGE, ADD])
@pytest.mark.parametrize("geography", [STATES, ONE_STATE])
@pytest.mark.parametrize("schema", [SCHEMA, AGE_ONLY])
def test_the_stated_loss_is_exactly_what_was_asked_for(
    schema: Schema, geography: Any, unit: UnitOfPrivacy
) -> None:
    pure = topdown(epsilon="7/10", unit=unit).on(Domain(schema, geography)).guarantee.losses[0]
    assert pure == PureLoss(epsilon=Fraction(7, 10), unit=unit)
    zcdp = topdown(rho="7/10", unit=unit).on(Domain(schema, geography)).guarantee.losses[0]
    assert zcdp == ZCDPLoss(rho=Fraction(7, 10), unit=unit)


def test_default_queries_are_those_of_a_user_who_writes_them_out() -> None:
    """The release is the same to the bit, and settings with queries are left as they are."""
    generator = np.random.default_rng(3)
    counts = counts_of(generator.integers(0, 40, (6, SCHEMA.size)) * SCHEMA.possible, ONE_STATE)
    short = topdown(epsilon=1)
    written = topdown(
        epsilon=1,
        levels={"whole": "1/3", "county": "1/3", "block": "1/3"},
        queries={
            "total": {"by": [], "share": "1/5"},
            "kind": {"by": ["kind"], "share": "1/5"},
            "age": {"by": ["age"], "share": "1/5"},
            "cells": {"share": "2/5"},
        },
        level_queries={"whole": ALONE},
    )
    assert short.completed(SCHEMA, ONE_STATE) == written
    assert written.completed(SCHEMA, ONE_STATE) is written
    assert short.on(Domain(SCHEMA, ONE_STATE)).plan == written.on(Domain(SCHEMA, ONE_STATE)).plan
    short.on(counts.domain).check(counts)
    made = dense(run(short, counts))
    assert same(made, dense(run(written, counts)))
    assert (made["block"] >= 0).all()
    assert np.array_equal(made["state"], made["whole"])


def test_without_noise_the_default_release_is_the_truth() -> None:
    generator = np.random.default_rng(4)
    truth = generator.integers(0, 9, (6, SCHEMA.size)) * SCHEMA.possible
    made = dense(run(topdown(epsilon="inf"), counts_of(truth, ONE_STATE)))
    assert np.array_equal(made["block"], truth)


def test_settings_without_queries_are_shown_as_they_were_written() -> None:
    assert repr(topdown(epsilon=1)) == (
        "TopDown(epsilon=Fraction(1, 1), unit=UnitOfPrivacy.CHANGE_ONE)"
    )


@pytest.mark.parametrize("levels", ["equal", dict.fromkeys(ONE_STATE.levels, "1/5")])
def test_shares_at_every_level_leave_nothing_to_fill_in(levels: Any) -> None:
    only = {level: {"cells": 1} for level in ONE_STATE.levels}
    mechanism = topdown(epsilon=1, levels=levels, level_queries=only)
    allocation = mechanism.completed(SCHEMA, ONE_STATE).allocation(ONE_STATE)
    assert allocation.measured == tuple((level, "cells") for level in ONE_STATE.levels)
    assert {one.share for one in allocation.shares} == {Fraction(1, 5)}


def test_shares_at_a_level_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(HeadcountError, match="a sum of 1/2"):
        shares(topdown(epsilon=1, level_queries={"state": {"age": "1/2"}}), SCHEMA, STATES)
