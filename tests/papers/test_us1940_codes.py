"""Cells by IPUMS code of living quarters: closed forms against draws, the model against both."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import nbinom

from headcount_papers.us1940 import fit, us1940
from headcount_papers.us1940._codes import CodeSpread, _persons
from headcount_papers.us1940.figures import GROUPS, model, published

DISTRICTS, DRAWS = 60, 400


@pytest.fixture
def households() -> np.ndarray:
    """A few large districts, where a code has about one person in each cell."""
    rng = np.random.default_rng(1)
    counts = rng.poisson(rng.gamma(0.3, 300, (DISTRICTS, 2 * len(GROUPS))))
    counts[0, 0] = 0
    return counts


@pytest.fixture
def small_codes(monkeypatch: pytest.MonkeyPatch, households: np.ndarray) -> None:
    """Codes that are as frequent here as in the nation."""
    part = households.sum() / published()["totals"]["persons"]
    quarters = dict(published()["quarters"])
    quarters["more_households"] *= part
    monkeypatch.setitem(published(), "quarters", quarters)
    totals = dict(published()["totals"])
    totals["persons"] *= part
    monkeypatch.setitem(published(), "totals", totals)


def test_presence_is_that_of_a_negative_binomial_number() -> None:
    mean = np.array([0.0, 0.01, 1.0, 30.0])
    spread = CodeSpread(shape=0.3, place=16)
    assert spread.present(mean) == pytest.approx(nbinom.sf(0, 0.3, 0.3 / (0.3 + mean)))


def test_people_of_a_code_are_their_share_in_the_printed_states() -> None:
    in_three = 1_741_616 + 3_128_132 + 4_325_506
    assert _persons("fragments") == pytest.approx(132_404_766 * 76_088 / in_three)
    assert _persons("more_households") == pytest.approx(132_404_766 * 68_707 / in_three)


def drawn_cells(
    rng: np.random.Generator, households: np.ndarray, *, shape: float, number: float, size: float
) -> np.ndarray:
    """Cells of drawn places, one number for each draw: the slow and plain way.

    A place takes a group by its people; its people (a whole number whose mean is the size) take
    ages in the group.
    """
    total = households.sum()
    found = []
    for _ in range(DRAWS):
        rate = rng.gamma(shape, 1 / shape, DISTRICTS) * number * households.sum(axis=1) / total
        cells = 0
        for row, places in zip(households, rng.poisson(rate), strict=True):
            ages = row.reshape(2, -1)
            group = ages.sum(axis=0)
            seen = set()
            for of in rng.choice(len(GROUPS), places, p=group / group.sum()):
                adults = ages[1, of] / group[of]
                seen |= {(of, bool(age < adults)) for age in rng.random(round(size))}
            cells += len(seen)
        found.append(cells)
    return np.array(found)


@pytest.mark.usefixtures("small_codes")
def test_expected_cells_of_fragments_are_those_drawn(households: np.ndarray) -> None:
    expected = CodeSpread(shape=0.2, place=16).fragments(households)
    drawn = drawn_cells(
        np.random.default_rng(2), households, shape=0.2, number=_persons("fragments"), size=1
    )
    error = drawn.std() / np.sqrt(DRAWS)
    assert expected == pytest.approx(drawn.mean(), abs=3.5 * error)
    # Negative control: spread evenly they would be in far more cells.
    assert CodeSpread(shape=2.0, place=16).fragments(households) > drawn.mean() + 10 * error


@pytest.mark.usefixtures("small_codes")
def test_expected_cells_of_large_households_are_those_drawn(
    households: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = published()["quarters"]["more_households"]
    monkeypatch.setattr("headcount_papers.us1940._codes._persons", lambda code: 7 * records)
    spread = CodeSpread(shape=0.2, place=16)
    drawn = drawn_cells(np.random.default_rng(3), households, shape=0.2, number=records, size=7)
    error = drawn.std() / np.sqrt(DRAWS)
    assert spread.more_households(households) == pytest.approx(drawn.mean(), abs=3.5 * error)
    monkeypatch.setattr("headcount_papers.us1940._codes._persons", lambda code: records)
    assert spread.more_households(households) < drawn.mean() - 10 * error  # people alone


def test_the_model_solves_its_two_equations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Published cells by code, and the districts with places of code 4 by the law of 2 and 6."""
    quantity = "cells by IPUMS code of living quarters (2 and 6 by assumption)"
    assert model()["codes"] == {"shape": 0.217, "place": 16}
    for districts, solved in ((1.0, True), (1 / 0.6, False)):  # the first guess does not
        facilities = [
            {**row, "districts": round(row["districts"] * districts)} for row in model()["facility"]
        ]
        monkeypatch.setitem(model(), "facility", facilities)
        people, quarters = us1940(seed=2)
        table = fit(people, quarters)
        assert table.filter(quantity=quantity)["within"].item() is solved
        assert people.count is not None
        held = np.zeros((len(quarters.occupied), 8), dtype=np.int64)
        np.add.at(held, (people.unit, people.cell // 24), people.count)
        with_places = int((held[:, 6:].sum(axis=1) > 0).sum())
        by_law = CodeSpread.assumed().other_places(held.sum(axis=1), held=int(held[:, 6:].sum()))
        assert (abs(with_places / by_law - 1) < 0.01) is solved
