"""Unequal shares inside a level: the audit of whole paths, and the wrong builds it catches."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.support.path_audit import (
    EPSILON,
    KINDS,
    LEVELS,
    MOVES,
    MUTANTS,
    RHO,
    LinesOfUnits,
    audit_paths,
    path_changes,
    settings_with_bypass,
)
from tests.support.zcdp_audit import rho_lower

RUNS, TRIALS = {EPSILON: 30_000, RHO: 8_000}, 3
"""The divergence needs fewer runs than the guessing game."""


def test_lines_have_only_children_where_their_kind_says_so():
    lines = LinesOfUnits.of_each_kind(3)
    for depth, units in enumerate(lines.units[1:], start=2):
        parent = lines.place.parents[depth]
        alone = np.bincount(parent)[parent[units]] == 1
        assert (alone == np.array(list(KINDS.values()))[:, [depth - 2]]).all()
        assert (parent[units] == lines.units[depth - 2]).all()
    counts = lines.counts([1] * len(KINDS))
    for level, units in zip(LEVELS[1:], lines.units, strict=True):
        assert (counts[level].dense()[units.ravel()] == [0, 1]).all()


def test_shares_inside_a_level_are_unequal_and_paths_add_up_to_1():
    lines = LinesOfUnits.of_each_kind(2)
    shares = settings_with_bypass(Fraction(1)).unit_shares(lines.place)
    assert shares is not None
    assert set(shares.along_paths()) == {Fraction(1)}
    assert len(set(shares.classes("county")[1])) == 3
    assert len(set(shares.classes("tract")[1])) == 3


def test_a_person_who_moves_is_at_the_end_of_one_line_and_then_of_another():
    lines = LinesOfUnits.of_each_kind(3)
    for change, pair in zip(path_changes()[len(KINDS) :], MOVES, strict=True):
        assert change.kinds == pair
        before, after = (
            lines.counts(side)["block"].totals() for side in (change.before, change.after)
        )
        left, joined = (lines.units[-1][kind] for kind in pair)
        assert before[left].tolist() == after[joined].tolist() == [1, 1, 1]
        assert before[joined].tolist() == after[left].tolist() == [0, 0, 0]


@pytest.mark.parametrize("loss", [EPSILON, RHO])
def test_every_change_costs_the_stated_loss_and_no_more(loss):
    for found in audit_paths(path_changes(), runs=RUNS[loss], trials=TRIALS, loss=loss):
        assert found.kept, (found.change.name, found.reached, found.above)


@pytest.mark.parametrize("loss", [EPSILON, RHO])
@pytest.mark.parametrize("build", MUTANTS.values(), ids=MUTANTS)
def test_a_wrong_build_is_caught_where_shares_were_moved(build, loss):
    changes = [path_changes()[len(KINDS) - 1], path_changes()[-1]]
    for found in audit_paths(changes, runs=RUNS[loss], trials=TRIALS, loss=loss, build=build):
        assert not found.kept, (found.change.name, found.reached)


def test_the_bound_on_rho_is_that_of_two_normal_laws_and_below_it():
    chance = np.random.default_rng(0)
    rho, runs = 0.7, 200_000
    # of two normal laws with divergence rho the log-likelihood ratio is normal, mean +-rho
    d, d_prime = (chance.normal(mean, (2 * rho) ** 0.5, runs) for mean in (rho, -rho))
    assert rho_lower(d, d_prime, z=0.0) == pytest.approx(rho, abs=0.02)
    assert rho - 0.05 < rho_lower(d, d_prime, z=3.0) < rho
    assert rho_lower(d_prime, d, z=0.0) == 0.0
