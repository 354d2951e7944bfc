"""The nine block groups and their states meet what is published of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headcount.errors import ConfigError, InputError
from headcount_papers.christ_2022 import places
from headcount_papers.christ_2022.settings import Settings


def categories(rows: places.PersonRows) -> np.ndarray:
    return rows["hispanic"].astype(np.int64) * 63 + rows["race"]


def uniques(rows: places.PersonRows) -> int:
    """Rows alone in their age, sex, race and Hispanic origin."""
    key = (categories(rows) * 2 + rows["sex"]) * 91 + rows["age"]
    return int((np.unique(key, return_counts=True)[1] == 1).sum())


@pytest.mark.parametrize("place", places.counties(), ids=lambda place: place.name)
def test_block_groups_have_the_printed_size_or_one_of_the_range(place: places.Place) -> None:
    sizes = [len(places.block_group(place, seed=seed, people=None)["age"]) for seed in range(3)]
    assert all(600 <= size <= 1500 for size in sizes)
    assert len(set(sizes)) > 1 or place.block_group
    rows = places.block_group(place, seed=1)
    assert len(rows["age"]) == 1090
    assert rows["age"].min() >= 0
    assert rows["age"].max() <= 90
    assert rows["race"].max() <= 62
    assert set(np.unique(rows["household_size"])) == {0, 1, 2, 3}


def test_washington_has_its_published_minority() -> None:
    for seed in range(3):
        rows = places.block_group(places.county("Washington"), seed=seed)
        assert len(rows["age"]) == 1090
        assert places.minority_rows(categories(rows)).sum() == 38


def test_uniques_grow_with_diversity() -> None:
    """The paper has 10 to 461 unique rows a block group, and 5 % of them in Washington."""
    by_class: dict[str, list[float]] = {}
    for place in places.counties():
        rows = places.block_group(place, seed=3)
        by_class.setdefault(place.diversity, []).append(uniques(rows) / len(rows["age"]))
    means = [np.mean(by_class[name]) for name in ("high", "medium", "low")]
    assert means[0] > means[1] > means[2]
    washington = places.block_group(places.county("Washington"), seed=3)
    assert 0.03 < uniques(washington) / 1090 < 0.07


def test_diverse_counties_scatter_more_and_households_are_of_one_race() -> None:
    """Real block groups with 28 to 48 people in minorities have about eight minority groups."""
    groups = []
    for draw in range(12):
        rows = places.block_group(places.county("Washington"), seed=1, draw=draw)
        few = categories(rows)[places.minority_rows(categories(rows))]
        groups.append(len(np.unique(few)))
        pairs = categories(rows)[rows["household_size"] == 1].reshape(-1, 2)
        assert (pairs[:, 0] == pairs[:, 1]).all()
    assert 6 <= np.mean(groups) <= 10

    def spread(name: str) -> float:
        """Of the share of the county's largest group, beside what chance alone would give."""
        place = places.county(name)
        most = int(np.argmax(place.shares @ places.race_by_group()))
        share = [
            (categories(places.block_group(place, seed=1, draw=draw)) == most).mean()
            for draw in range(25)
        ]
        mean = np.mean(share)
        return float(np.var(share) / (mean * (1 - mean)))

    assert spread("Alameda") > 2 * spread("Jefferson")


def test_blocks_that_are_all_like_their_county_make_block_groups_like_it() -> None:
    place = places.county("Alameda")
    known = place.shares @ places.race_by_group()

    def apart(mixes: str) -> float:
        drawn = [
            np.bincount(
                categories(places.block_group(place, seed=1, draw=draw, mixes=mixes)), minlength=126
            )
            for draw in range(10)
        ]
        return float(np.mean([np.abs(people / people.sum() - known).sum() for people in drawn]))

    assert apart("as the county") < apart("net of housemates") < 1.2 * apart("by diversity")
    assert apart("as the county") < 0.7 * apart("by diversity")


def test_an_assumption_about_blocks_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigError, match="mixes: found even, expected one of by diversity, net"):
        Settings(mixes="even")


def test_pool_follows_the_state() -> None:
    pool = places.state_pool("NM", seed=5, people=200_000)
    state = places.states()["NM"]
    shares = np.bincount(categories(pool), minlength=126) / 200_000
    expected = state.shares @ places.race_by_group()
    error = np.sqrt(expected * (1 - expected) / 200_000)
    assert (np.abs(shares - expected) <= 5 * error + 1e-5).all()
    assert abs((pool["age"] >= 18).mean() - state.adult) < 0.005


def test_same_seed_same_rows_and_other_seed_other_rows() -> None:
    place = places.county("Alameda")
    one, two, other = (places.block_group(place, seed=seed)["age"] for seed in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one[:600], other[:600])


def test_order_of_frequency_starts_with_white_alone() -> None:
    order = places.frequency_order()
    assert sorted(order) == list(range(126))
    assert order[:3].tolist() == [0, 1, 63]  # white, black, then Hispanic white


def test_detailed_rows_have_the_fifteen_attributes() -> None:
    rows = places.block_group(places.county("Cibola"), seed=1, detailed=True)
    assert len(rows) == 15
    for name, shares in places.FIGURE_13.items():
        assert rows[name].max() < len(shares)


def test_unknown_county_is_named() -> None:
    with pytest.raises(InputError, match="county 'Kings', expected one of"):
        places.county("Kings")


def test_a_minority_that_never_comes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "TRIES", 200)
    place = replace(places.county("Washington"), minority=1089)
    with pytest.raises(InputError, match="no block group with a minority of 1089"):
        places.block_group(place, seed=1)
