"""Queries and workloads against loops over every cell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import InputError
from headcount.schema import Attribute, Recode, Schema
from headcount.tabulate import CELLS, TOTAL, Query, every_cell, tabulate
from headcount.testing.strategies import populations, queries, schemas

SEX = Attribute("sex", ("f", "m"))
AGE = Attribute("age", ("young", "middle", "old"))
SCHEMA = Schema((SEX, AGE))
ADULT = Recode.of(AGE, "adult", {"no": ["young"], "yes": ["middle", "old"]})


def answer_by_hand(query: Query, schema: Schema, row: list[int]) -> list[int]:
    """Group the cells of one unit by their levels' names, one cell at a time."""
    labels: list[tuple[str, ...]] = [()]
    for attribute in query.attributes(schema):
        labels = [(*label, level) for label in labels for level in attribute.levels]
    answer = dict.fromkeys(labels, 0)
    for cell, people in enumerate(row):
        person, rest = {}, cell
        for attribute in reversed(schema.attributes):
            rest, code = divmod(rest, attribute.size)
            person[attribute.name] = attribute.levels[code]
        label = []
        for axis in query.by:
            if isinstance(axis, Recode):
                own = person[axis.source.name]
                label.append(next(name for name, levels in axis.groups if own in levels))
            else:
                label.append(person[axis])
        answer[tuple(label)] += people
    return [answer[label] for label in labels]


@given(st.data())
def test_queries_equal_brute_force(data):
    population = data.draw(populations())
    query = data.draw(queries(population.schema))
    counts = tabulate(population)
    answers = counts.matrix @ query.matrix(population.schema)
    assert answers.shape[1] == query.size(population.schema)
    assert answers.dtype == np.int64
    for row, answer in zip(counts.dense().tolist(), answers.toarray().tolist(), strict=True):
        assert answer == answer_by_hand(query, population.schema, row)


def test_a_marginal_equals_einsum():
    cells = np.arange(1, 13).reshape(2, 6)  # two units
    recoded = np.zeros((3, 2), dtype=int)
    recoded[[0, 1, 2], [0, 1, 1]] = 1
    expected = np.einsum("usa,ag->ugs", cells.reshape(2, 2, 3), recoded).reshape(2, 4)
    query = Query("adults by sex", (ADULT, "sex"))
    assert (cells @ query.matrix(SCHEMA).toarray()).tolist() == expected.tolist()


@given(schemas())
def test_the_detailed_query_and_the_total(schema):
    assert every_cell(schema).name == CELLS
    assert every_cell(schema).matrix(schema).toarray().tolist() == np.eye(schema.size).tolist()
    assert TOTAL.matrix(schema).toarray().tolist() == [[1]] * schema.size


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Query("q", ("race",)).groups(SCHEMA),
            "found attribute 'race', expected one of 'sex', 'age'",
        ),
        (
            lambda: Query("q", (ADULT,)).groups(Schema((SEX, Attribute("age", ("young", "old"))))),
            "query 'q': recode 'adult': found other levels of 'age', expected the levels of the",
        ),
        (
            lambda: Query("q", (ADULT,)).groups(Schema((SEX,))),
            "found attribute 'age', expected one of 'sex'",
        ),
    ],
)
def test_a_query_that_the_schema_cannot_answer(make, message):
    with pytest.raises(InputError, match=message):
        make()
