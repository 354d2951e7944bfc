"""Everything released exactly, together: does a database with one person more or less remain?"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from headcount.errors import ConfigError, TruthError
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Attribute, Schema
from headcount.tabulate import Query
from headcount.topdown.choices import TableBounds
from headcount.topdown.restrict import Restriction, has_neighbour, total_range, truth_outside
from headcount.topdown.solve.batch import NO_BOUND
from tests.topdown.small import (
    AGE,
    PEOPLE,
    SCHEMA,
    TOTAL,
    VILLAGE,
    add_up,
    answers,
    by_level,
    counts_of,
    pure,
    settings,
    tree,
    village,
)

ADD_REMOVE = pure(1, UnitOfPrivacy.ADD_REMOVE)


def table(folder: Path, query: Query, level: str, *, low: bool, high: bool) -> TableBounds:
    """A table with the truth as its lows, as its highs, as both or as neither."""
    truth = answers(add_up(VILLAGE, PEOPLE, level), query)
    names = [axis.name for axis in query.attributes(SCHEMA)]
    groups = list(product(*(axis.levels for axis in query.attributes(SCHEMA))))
    rows = [",".join([level, *names, "low", "high"])]
    for unit, code in enumerate(VILLAGE.units[VILLAGE.depth(level)]):
        for group, levels in enumerate(groups):
            count = int(truth[unit, group])
            ends = [str(count) if low else "", str(count) if high else ""]
            rows.append(",".join([str(code), *levels, *ends]))
    name = f"{query.name}-{level}.csv"
    (folder / name).write_text("\n".join(rows) + "\n")
    return TableBounds(query=query.name, level=level, file=folder / name, public=True)


def test_two_tables_that_together_fix_the_total_are_refused(tmp_path: Path):
    """The attack: lows of one query that sum to all, and a high on everyone."""
    lows = table(tmp_path, AGE, "state", low=True, high=False)
    highs = table(tmp_path, TOTAL, VILLAGE.levels[0], low=False, high=True)
    with pytest.raises(ConfigError) as caught:
        settings(ADD_REMOVE, bounds=(lows, highs)).on(village().domain).check(village())
    assert "bounds on 'age' and 'total'" in str(caught.value)
    assert "fix how many people there are, with unit 'add-remove', expected 'change-one'" in str(
        caught.value
    )
    for alone in (lows, highs):
        settings(ADD_REMOVE, bounds=(alone,)).on(village().domain).check(village())
    settings(pure(1, UnitOfPrivacy.CHANGE_ONE), bounds=(lows, highs)).on(village().domain).check(
        village()
    )


def test_units_that_are_fixed_each_by_other_tables_are_refused_to_the_curator(tmp_path: Path):
    """At the root nothing is fixed by sums alone; unit by unit nobody can come or go."""
    truth = answers(add_up(VILLAGE, PEOPLE, "county"), TOTAL)[:, 0]
    codes = [str(code) for code in VILLAGE.units[VILLAGE.depth("county")]]
    made = []
    for name, odd in (("total", 0), ("age", 1)):
        query = {"total": TOTAL, "age": AGE}[name]
        by_group = answers(add_up(VILLAGE, PEOPLE, "county"), query)
        names = [axis.name for axis in query.attributes(SCHEMA)]
        groups = list(product(*(axis.levels for axis in query.attributes(SCHEMA))))
        rows = [",".join(["county", *names, "low", "high"])]
        for unit, code in enumerate(codes):
            for group, levels in enumerate(groups):
                ends = [str(by_group[unit, group])] * 2 if unit % 2 == odd else ["", ""]
                rows.append(",".join([code, *levels, *ends]))
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
        made.append(
            TableBounds(query=name, level="county", file=tmp_path / f"{name}.csv", public=True)
        )
    assert truth.sum() > 0
    with pytest.raises(TruthError, match="found data whose every neighbour breaks a bound"):
        settings(ADD_REMOVE, bounds=tuple(made)).on(village().domain).check(village())
    with pytest.raises(ConfigError, match="fix how many people are in state 'state1'"):
        settings(ADD_REMOVE, bounds=tuple(made[:1])).on(village().domain).check(
            village()
        )  # some have neighbours


SMALL = Schema((Attribute("a", ("0", "1")), Attribute("b", ("0", "1"))))
BY = [Query("all", ()), Query("a", ("a",)), Query("b", ("b",))]


def random_restrictions(generator: np.random.Generator, truth: np.ndarray) -> list[Restriction]:
    """Bounds of two or three queries that hold the truth, many of them tight."""
    made = []
    for query in BY:
        if generator.random() < 0.3:
            continue
        answer = truth @ query.matrix(SMALL).toarray()
        low = np.maximum(answer - generator.integers(0, 2, answer.shape), 0)
        high = answer + generator.integers(0, 2, answer.shape)
        made.append(
            Restriction(
                query,
                np.where(generator.random(answer.shape) < 0.3, 0, low).astype(np.int64),
                np.where(generator.random(answer.shape) < 0.3, NO_BOUND, high).astype(np.int64),
            )
        )
    return made


def keeps(tables: np.ndarray, made: list[Restriction]) -> np.ndarray:
    """Which of several tables of one unit keep all bounds."""
    kept = [tables >= 0]
    for one in made:
        answer = tables @ one.query.matrix(SMALL).toarray()
        kept.append((answer >= one.low) & (answer <= one.high))
    return np.asarray(np.concatenate(kept, axis=1).all(axis=1))


def test_against_brute_force():
    """One unit, four cells of 0 to 3: the range of totals, and neighbours of the truth."""
    generator = np.random.default_rng(11)
    tables = np.array(list(product(range(4), repeat=4)))
    steps = np.concatenate([np.eye(4, dtype=int), -np.eye(4, dtype=int)])
    isolated = fixed = 0
    for _ in range(150):
        truth = generator.integers(0, 3, size=(1, 4))
        made = random_restrictions(generator, truth)
        if not made:
            continue
        totals = tables[keeps(tables, made)].sum(axis=1)
        least, most = total_range(made, SMALL)
        assert least == totals.min()
        # The tables end at 3 a cell: a larger range of the programme is one that goes beyond.
        assert most == totals.max() or most > 12 or totals.max() >= 6
        fixed += least == most
        expected = bool(keeps(truth + steps, made).any())
        counts = by_level(counts_of(truth, tree(), schema=SMALL))
        root = next(iter(counts))
        assert has_neighbour({root: tuple(made)}, counts) == expected
        assert truth_outside({root: tuple(made)}, counts) == []
        isolated += not expected
    assert fixed > 5
    assert isolated > 5
