"""Unequal shares inside a level: the audit of whole paths, and the wrong builds it catches."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from headcount.bench import path_audit
from headcount.bench.path_audit import KINDS, LEVELS, MUTANTS, LinesOfUnits, audit_paths

RUNS, TRIALS = 30_000, 3


def test_lines_have_only_children_where_their_kind_says_so():
    lines = LinesOfUnits.of_each_kind(3)
    for depth, units in enumerate(lines.units[1:], start=2):
        parent = lines.place.parents[depth]
        alone = np.bincount(parent)[parent[units]] == 1
        assert (alone == np.array(list(KINDS.values()))[:, [depth - 2]]).all()
        assert (parent[units] == lines.units[depth - 2]).all()
    counts = lines.counts(1)
    for level, units in zip(LEVELS[1:], lines.units, strict=True):
        assert (counts[level].dense()[units.ravel()] == [0, 1]).all()


def test_shares_inside_a_level_are_unequal_and_paths_add_up_to_1():
    lines = LinesOfUnits.of_each_kind(2)
    shares = path_audit.settings_with_bypass(Fraction(1)).unit_shares(lines.place)
    assert shares is not None
    assert set(shares.along_paths()) == {Fraction(1)}
    assert len(set(shares.classes("county")[1])) == 3
    assert len(set(shares.classes("tract")[1])) == 3


def test_every_kind_of_path_has_the_stated_loss_and_no_more():
    for found in audit_paths(runs=RUNS, trials=TRIALS):
        assert found.kept, (found.kind, found.reached, found.above)


@pytest.mark.parametrize("build", MUTANTS.values(), ids=MUTANTS)
def test_a_wrong_build_is_caught_where_shares_were_moved(build):
    alone = [name for name, only in KINDS.items() if all(only)]
    (found,) = audit_paths(runs=RUNS, trials=TRIALS, kinds=alone, build=build)
    assert not found.kept, found.reached


def test_the_benchmark_has_limits_for_every_kind_and_wrong_build(monkeypatch):
    for name, value in {"RUNS": 200, "TRIALS": 2, "MUTANT_TRIALS": 1}.items():
        monkeypatch.setattr(path_audit, name, value)
    readings = path_audit.measure(trials=1)
    assert len(readings) == 2 * len(KINDS) + len(MUTANTS)
    assert all(one.at_most is not None for one in readings)
