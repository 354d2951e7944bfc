"""The table of largest entropy with all published sums: closed forms, an oracle, words, metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import clarabel
import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_array

from headcount.errors import InputError
from headcount.evaluation import Truth, estimated
from headcount.evaluation.evaluate import Choice, evaluate
from headcount.mechanisms import protect
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.mechanisms.coarsening.mechanism import Coarsening
from headcount.mechanisms.coarsening.settings import CoarsenedTable, Show
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.population.towns import Towns
from headcount.release import TablesRelease
from headcount.release.readers_estimate import UNKNOWN, ReadersEstimate, readers_estimate
from headcount.tabulate import Counts, Tabulated
from tests.support.coarsening_worlds import Scene

LEVELS = (("k", 2), ("s", 3))
APART: dict[str, Any] = {"k": {"by": ("k",), "at": "block"}, "s": {"by": ("s",), "at": "block"}}
CROSSED: dict[str, Any] = {"x": {"by": ("k", "s"), "at": "whole"}}


def coarsening(**settings: Any) -> Coarsening:
    """The method by settings as a config has them."""
    return Coarsening(**settings)


def released(method: Any, people: Any) -> tuple[TablesRelease, Counts]:
    """Tables of a few blocks, and the truth: people are blocks x k x s."""
    x = np.array(people)
    scene = Scene(len(x), LEVELS, method)
    counts = scene.counts(tuple(x.ravel().tolist()))
    return protect(Tabulated.of(counts), method).as_tables(), counts


def lot(seed: int, blocks: int = 3, mean: float = 3.0) -> Any:
    """People by lot."""
    return np.random.default_rng(seed).poisson(mean, (blocks, 2, 3))


def leaf(found: ReadersEstimate) -> Any:
    return found.at("block").reshape(-1, 2, 3)


def test_two_tables_of_a_place_give_the_table_of_independence():
    x = lot(1)
    found = readers_estimate(released(coarsening(ladder=(), tables=APART), x)[0])
    k, s, n = x.sum(axis=2), x.sum(axis=1), x.sum(axis=(1, 2))
    assert np.allclose(leaf(found), k[:, :, None] * s[:, None, :] / n[:, None, None], atol=1e-3)
    assert found.converged
    assert "relative to published totals of each block" in found.words


def test_an_area_is_shared_by_the_totals_of_its_places():
    x = lot(2, blocks=4)
    method = coarsening(ladder=(9,), tables={"x": {"by": ("k", "s"), "at": 9}})
    release, _ = released(method, x)
    of, n = release.geography.ancestors("areas-9"), x.sum(axis=(1, 2))
    area = np.stack([x[of == one].sum(axis=0) for one in range(of.max() + 1)])
    share = n / np.bincount(of, weights=n)[of]
    assert np.allclose(leaf(readers_estimate(release)), area[of] * share[:, None, None], atol=1e-6)


def test_the_prior_without_totals_is_what_is_public_or_even():
    x = lot(3, blocks=2)
    method = coarsening(ladder=(), tables=CROSSED, totals="whole")
    release, _ = released(method, x)
    even = readers_estimate(release)
    assert np.allclose(leaf(even), x.sum(axis=0)[None] / 2)
    assert "the same for each block" in even.words
    by_size = readers_estimate(release, sizes=np.array([3, 1]))
    assert np.allclose(leaf(by_size), x.sum(axis=0)[None] * np.array([0.75, 0.25])[:, None, None])
    assert "public sizes of each block" in by_size.words


def oracle(release: TablesRelease, prior: Any) -> Any:
    """The same by a cone program: it has each published number as a row of its own."""
    rows: list[Any] = []
    least: list[Any] = []
    most: list[Any] = []
    leaves, cells = prior.shape
    for one in release.published:
        ends = one.ends(unknown=UNKNOWN)
        unit = release.geography.ancestors(one.level)
        for place in range(len(one.value)):
            for column in range(one.cells.size):
                row = np.outer(unit == place, one.cells.matrix[:, [column]].toarray().ravel())
                rows.append(row.ravel())
                least.append(ends[0][place, column])
                most.append(ends[1][place, column])
    a, low, high = np.array(rows, dtype=float), np.array(least), np.array(most)
    q, size = prior.ravel(), prior.size
    same, some = np.equal(low, high), high < UNKNOWN
    none = np.zeros_like(a)
    # The least sum of t - x with x exp(-t / x) <= q, that is t >= x log(x / q).
    cones = np.zeros((3 * size, 2 * size))
    tops = np.zeros(3 * size)
    for n in range(size):
        cones[3 * n, size + n], cones[3 * n + 1, n], tops[3 * n + 2] = 1, -1, q[n]
    parts = [
        (np.hstack([a, none])[same], low[same]),
        (np.hstack([-a, none])[~same], -low[~same]),
        (np.hstack([a, none])[~same & some], high[~same & some]),
        (-np.eye(size, 2 * size), np.zeros(size)),
        (cones, tops),
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 500
    found = clarabel.DefaultSolver(
        csc_matrix((2 * size, 2 * size)),
        np.repeat([-1.0, 1.0], size),
        csc_matrix(np.vstack([one for one, _ in parts])),
        np.concatenate([one for _, one in parts]).astype(float),
        [
            clarabel.ZeroConeT(int(same.sum())),
            clarabel.NonnegativeConeT(sum(len(end) for _, end in parts[1:4])),
            *[clarabel.ExponentialConeT()] * size,
        ],
        settings,
    ).solve()
    assert str(found.status) in ("Solved", "AlmostSolved")
    return np.array(found.x[:size]).reshape(leaves, cells)


METHODS: dict[str, Any] = {
    "coarsening": coarsening(
        ladder=(8,), tables={"k": {"by": ("k",), "at": "block"}, "x": {"by": ("k", "s"), "at": 8}}
    ),
    "ranges": coarsening(
        ladder=(8,), tables={"s": CoarsenedTable(by=("s",), at="block", show=Show(base=5))}
    ),
    "small ones withheld": coarsening(
        ladder=(), tables={"s": CoarsenedTable(by=("s",), at="block", show=Show(below=3))}
    ),
    "rounding": Rounding(tables={"k": ("k",), "s": ("s",)}, base=5, how="nearest"),
    "suppression": Suppression(rule="complementary", tables={"x": ("k", "s")}),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_optimum_that_a_general_solver_finds(name, seed):
    release, _ = released(METHODS[name], lot(seed, mean=4.0))
    found = readers_estimate(release, sweeps=200_000, near=1e-7)
    assert found.converged
    total = next(one for one in release.published if one.level == "block")
    low, high = total.ends(unknown=UNKNOWN)
    weight = (low[:, 0] + high[:, 0]) / 2
    prior = np.repeat(weight[:, None] / 6, 6, axis=1)
    x = oracle(release, prior)
    mine = leaf(found).reshape(prior.shape)
    assert np.abs(mine - x).max() < 2e-3
    assert np.abs(np.roll(mine, 1, axis=1) - x).max() > 2e-3  # another table is told from it


def test_another_table_with_the_same_sums_is_further_from_the_prior():
    x = np.array([[[4, 2, 2], [1, 5, 3]]])
    release, _ = released(coarsening(ladder=(), tables=APART), x)
    mine = leaf(readers_estimate(release))[0]
    move = np.array([[1, -1, 0], [-1, 1, 0]])
    for step in (-0.5, 0.5):
        other = mine + step * move
        assert np.allclose(other.sum(axis=0), mine.sum(axis=0))
        assert (other * np.log(other)).sum() > (mine * np.log(mine)).sum() + 1e-3


def test_what_does_not_converge_says_so():
    release, _ = released(METHODS["rounding"], lot(5))
    found = readers_estimate(release, sweeps=1, near=1e-9)
    assert not found.converged
    assert "has not converged after 1 sweeps: the worst of the published sums" in found.words


def test_what_others_rule_out_is_nobody_at_once():
    """Of 2 + 1 people the third group can have none: no sum says it, and no factor is 0."""
    x = np.array([[[2, 0, 0], [0, 1, 0]], [[1, 0, 0], [0, 0, 3]]])
    method = coarsening(ladder=(), tables={**APART, **CROSSED})
    found = readers_estimate(released(method, x)[0])
    assert found.converged
    assert leaf(found)[0, 0].tolist() == pytest.approx([2, 0, 0], abs=1e-3)


def test_tables_that_do_not_say_what_is_behind_them_are_refused():
    release, _ = released(CellKey(tables={"s": ("s",)}), lot(6))
    with pytest.raises(InputError, match="does not say how far values of s may be"):
        readers_estimate(release)


def test_other_places_are_refused():
    release, _ = released(METHODS["coarsening"], lot(6))
    other = Scene(5, LEVELS, METHODS["coarsening"]).domain
    with pytest.raises(InputError, match="places other than those of the release"):
        readers_estimate(release, other)


def test_too_many_unknowns_are_refused(monkeypatch):
    monkeypatch.setattr("headcount.release.readers_estimate.LARGEST", 5)
    release, _ = released(METHODS["coarsening"], lot(7))
    with pytest.raises(InputError, match="more than 5 numbers to fit"):
        readers_estimate(release)


TOWNS = Tabulated.of(
    Towns(people=1_500, counties=2, seed=7, attributes=("sex", "race", "hispanic")).read()
)


@pytest.mark.parametrize(
    "method",
    [
        coarsening(ladder=(100, "tract"), tables={"x": {"by": ("race", "hispanic"), "at": 100}}),
        Suppression(rule="complementary", tables={"race": ("race",)}),
        Rounding(tables={"race": ("race",)}, base=5, how="nearest"),
    ],
    ids=["coarsening", "suppression", "rounding"],
)
def test_errors_by_level_and_group_who_is_hurt_and_bias_score_the_estimate(method):
    release = protect(TOWNS, method)
    found = evaluate(release, Truth.of(TOWNS.counts).made_by(method), choice=Choice(attacks=()))
    errors = found["error"]
    assert errors.table["level"].unique(maintain_order=True).to_list() == list(
        TOWNS.counts.geography.levels
    )
    assert errors.reader.startswith("a reader's estimate, no part of the release")
    assert "published totals of each block; " in errors._repr_html_()
    assert "What is scored here is a reader's estimate" in str(errors.section())
    assert {"representation", "bias-by-homogeneity"} <= {one.name for one in found}


def test_what_is_published_is_scored_as_published():
    method = Rounding(tables={"race": ("race",)}, base=5, how="nearest")
    release = protect(TOWNS, method).as_tables()
    found = evaluate(release, TOWNS.counts, choice=Choice(metrics=("error",), attacks=()))
    race = found["error"].table.filter(query="race", level="block")["mean_absolute"].item()
    counts = TOWNS.counts
    (one,) = [one for one in release.published if one.level == "block"]
    true = (counts.matrix @ one.cells.matrix).toarray()
    mean = np.abs(one.value - true)[:, one.cells.inner].mean()
    assert race == pytest.approx(mean)


def test_the_estimate_keeps_exact_sums_at_levels_of_the_truth():
    method = coarsening(ladder=("tract",), tables={"x": {"by": ("race",), "at": "tract"}})
    release = protect(TOWNS, method).as_tables()
    found, beside = estimated(release, Truth.of(TOWNS.counts).made_by(method))
    assert beside.counts is TOWNS.counts
    race = csr_array(TOWNS.counts.matrix)  # by cell
    assert race.sum() == pytest.approx(found.at("block").sum())
    exact, made = TOWNS.counts.at("tract"), found.at("tract")
    by_race = release.published[0].cells.matrix
    assert np.allclose((exact.matrix @ by_race).toarray(), made @ by_race.toarray(), atol=1e-3)
    again = replace(release)
    assert readers_estimate(again).at("block").tolist() == found.at("block").tolist()
