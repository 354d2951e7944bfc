"""A prior: detailed answers drawn towards the shape of the parent, and never silently."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headcount.engines.local import LocalEngine
from headcount.errors import ConfigError
from headcount.mechanisms import mechanism_digest
from headcount.mechanisms.topdown._level import prepare_level
from headcount.mechanisms.topdown._parents import pose
from headcount.mechanisms.topdown._prior import drawn_to_parent
from headcount.mechanisms.topdown.from_measurements import estimate_from, start_from
from headcount.mechanisms.topdown.measure import Measurements
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.mechanisms.topdown.truth import TruthHere
from headcount.run.error_report import error_report
from headcount.run.protect import protect_run
from headcount.tabulate.counts import every_level
from tests.mechanisms.topdown.small import counts_of, dense, keyed, run, same, tree
from tests.mechanisms.topdown.test_topdown_pool import PLACES, SCHEMA, people, topdown
from tests.run.test_topdown_protect import INVARIANT, QUERIES
from tests.run.town import MICRODATA, write_config, write_town


def problem(chosen: Any = None) -> Any:
    """Blocks below their tracts, of which the second has one alone, with noisy answers."""
    mechanism, counts = topdown(), people()
    levels = every_level(counts)
    drawn = Measurements(levels, mechanism, keyed(), run=0)
    plan = prepare_level(
        "block", schema=SCHEMA, settings=mechanism, planned=drawn.planned, restrictions=()
    )
    above = TruthHere(levels).rows("tract", range(PLACES.size("tract")))
    first = np.append(PLACES.children_start("tract"), PLACES.size("block"))
    return drawn.answered(plan, pose(above, first, plan, chosen=chosen))


def by_hand(asked: Any) -> dict[tuple[int, int], float]:
    """The formulas of the module for one parent after the other, and one cell after the other."""
    batch, found = asked.batch, {}
    noise, total_at = 1 / batch.weight[0], int(batch.family_start[0])
    for family in range(len(batch.family_start) - 1):
        if batch.family_start[family + 1] - batch.family_start[family] == 1:
            total_at = int(batch.family_start[family])
            weight = batch.family_weight[0, family]
    answers = {(int(u), int(c)): batch.answer[k] for k, (u, c) in enumerate(_places(asked))}
    for p in range(len(batch.parent)):
        entries = range(batch.cell_start[p], batch.cell_start[p + 1])
        people_here = sum(int(batch.total[e]) for e in entries)
        cells = {int(batch.cell[e]): batch.total[e] / people_here for e in entries}
        rows = []
        for j in range(batch.child_start[p], batch.child_start[p + 1]):
            unit, n = int(asked.child[j]), len(cells)
            summed = sum(answers[unit, c] for c in cells)
            precision = weight + 1 / (n * noise)
            t = (weight * batch.margin[j, total_at] + summed / (n * noise)) / precision
            for c, s in cells.items():
                m = s * max(t, 0)
                v = noise + s * s / precision - 2 * s / precision / n
                squared = max(t * t - 1 / precision, max(t, 0))
                rows.append((unit, c, m, answers[unit, c] - m, v, s * (1 - s), max(t, 0), squared))
        more = sum(d * d - v - a * t for _, _, _, d, v, a, t, _ in rows)
        room = sum(a * q - a * t for _, _, _, _, _, a, t, q in rows)
        phi = min(max(more / room if room > 0 else 0, 0), 1)
        for unit, c, m, d, v, a, t, q in rows:
            tau = max(phi * a * q + (1 - phi) * a * t, 0.25, 0.02 * v)
            for _ in range(3):
                k = tau / (tau + v)
                tau = max((2 * tau + (k * d) ** 2 + k * v) / 3, 0.25, 0.02 * v)
            found[unit, c] = m + tau / (tau + v) * d
    return found


def _places(asked: Any) -> list[tuple[int, int]]:
    return list(zip(asked.unit.tolist(), asked.cell.tolist(), strict=True))


def test_answers_are_drawn_as_the_formulas_say():
    asked = problem()
    drawn, expected = drawn_to_parent(asked), by_hand(asked)
    found = dict(zip(_places(asked), drawn.batch.answer.tolist(), strict=True))
    assert found.keys() == expected.keys()
    for place, value in expected.items():
        assert found[place] == pytest.approx(value, abs=1e-9)
    assert not np.allclose(drawn.batch.answer, asked.batch.answer)
    assert np.array_equal(drawn.batch.weight, asked.batch.weight)
    assert np.array_equal(drawn.batch.margin, asked.batch.margin)


def test_a_family_is_drawn_the_same_whatever_else_is_in_a_piece_of_work():
    whole = problem()
    together = dict(zip(_places(whole), drawn_to_parent(whole).batch.answer.tolist(), strict=True))
    for parent in range(PLACES.size("tract")):
        one = problem(np.array([parent]))
        for place, value in zip(_places(one), drawn_to_parent(one).batch.answer, strict=True):
            assert together[place] == value


def test_a_parent_without_people_or_cells_without_answers_are_left_as_they_are():
    asked = problem()
    for batch in (
        replace(asked.batch, total=np.zeros_like(asked.batch.total)),
        replace(asked.batch, weight=np.zeros_like(asked.batch.weight)),
    ):
        left = replace(asked, batch=batch)
        assert drawn_to_parent(left) is left


def test_engines_agree_and_the_release_keeps_what_a_release_keeps():
    mechanism = topdown(prior="parent", pool=True)
    tables = dense(run(mechanism, people()))
    assert same(tables, dense(run(mechanism, people(), engine=LocalEngine(2))))
    assert (tables["block"] >= 0).all()
    first = PLACES.children_start("tract")
    assert np.array_equal(np.add.reduceat(tables["block"], first), tables["tract"])
    assert not same(tables, dense(run(topdown(pool=True), people())))


def test_the_spend_the_guarantee_and_the_noise_are_those_of_the_same_answers():
    one, other = topdown(), topdown(prior="parent")
    stated, said = one.guarantee(SCHEMA, PLACES), other.guarantee(SCHEMA, PLACES)
    assert said.method.startswith("model-based TopDown: cells of a place are drawn towards")
    assert replace(said, method="") == stated
    assert one.plan(SCHEMA, PLACES) == other.plan(SCHEMA, PLACES)
    assert mechanism_digest(one) == mechanism_digest(other)


def test_without_noise_the_release_is_the_truth():
    counts = people()
    made = run(TopDown(epsilon="inf", prior="parent"), counts)
    assert np.array_equal(dense(made)["block"], counts.dense())


def test_children_like_their_parent_gain_and_those_unlike_it_lose():
    alike, unlike = np.full((16, 6), 6), np.full((16, 6), 6)
    unlike[::4] = [36, 0, 0, 0, 0, 0]
    places = tree(("block", [16]))
    change = {}
    for name, leaf in (("alike", alike), ("unlike", unlike)):
        counts = counts_of(leaf, places, schema=SCHEMA)
        for prior in ("", "parent"):
            off = [
                dense(run(topdown(rho="1/10", prior=prior), counts, seed=seed))["block"] - leaf
                for seed in range(12)
            ]
            rows = np.array(off)[:, ::4]
            change[name, prior] = np.sqrt(np.mean(rows**2)), rows[..., 0].mean()
    assert change["alike", "parent"][0] < 0.9 * change["alike", ""][0]
    assert change["unlike", "parent"][1] < change["unlike", ""][1] - 1


def test_it_is_named_beside_pooled_answers_too():
    both = topdown(prior="parent", pool=True)
    assert both.called == "model-based TopDown with pooling"
    assert both.public_text.startswith(f"{both.called}(rho=")
    assert "joined with those of the levels below" in both.method
    assert "drawn towards the shape" in both.method


def test_another_prior_is_refused():
    with pytest.raises(ConfigError, match=r"prior: found 'state', expected 'parent', which makes"):
        topdown(prior="state")


def test_receipt_reports_and_an_estimate_call_the_release_model_based(tmp_path: Path):
    write_town(tmp_path)
    mechanism = 'name = "topdown"\nepsilon = 1\nprior = "parent"\n' + QUERIES + INVARIANT
    asked = 'publish = ["measurements"]\nseed = 1'
    protect_run(write_config(tmp_path, population=MICRODATA, mechanism=mechanism, run=asked))
    receipt = json.loads((tmp_path / "out/release/receipt.json").read_text())
    assert receipt["mechanism"].startswith("model-based TopDown(")
    assert "towards the shape of the place above" in receipt["notes"]["model-based"]
    found = error_report(tmp_path / "out", runs=2)
    assert found.model_based
    start = start_from(tmp_path / "out/release/measurements")
    again = estimate_from(start)
    assert again.mechanism.startswith("model-based TopDown(")
    whole = found.report(again, recipe="headcount report out --errors")
    assert any("model-based" in str(block) for block in whole.summary)
