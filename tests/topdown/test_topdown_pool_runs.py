"""Pooled answers with every engine and kind of run: the same bits, the same spend."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headcount.comparison.run import _settings_words
from headcount.domain import Domain
from headcount.engines import LocalEngine
from headcount.mechanisms import Chain, Context, Tabulated, protect
from headcount.mechanisms.sampling import Sampling
from headcount.noise import KeyedNoise
from headcount.noise.source import MEASUREMENT
from headcount.processes import silent
from headcount.release.store import guarantee_from_json, guarantee_to_json
from headcount.storage import storage_at
from headcount.tabulate import CELLS
from headcount.tabulate.counts import every_level
from headcount.topdown import _pool
from headcount.topdown.measure import Measurements
from headcount.topdown.mechanism import WITH_POOLING, TopDown
from tests.engines.by_files import ByFiles
from tests.run.town import contents
from tests.topdown.small import counts_of, dense, keyed, run, same, tree
from tests.topdown.test_topdown_pool import (
    PLACES,
    SCHEMA,
    TOTALS_FIRST,
    answers,
    people,
    stage,
    topdown,
)

EVERYTHING: dict[str, Any] = {
    "pool": True,
    "pool_from": "block",
    "passes": TOTALS_FIRST,
    "bypass": "county",
}
"""Totals first, and shares of only children with their parents."""


class Killed(Exception):
    """Stands for a kill."""


def killed_after(monkeypatch: pytest.MonkeyPatch, pieces: int) -> list[range]:
    """Break off before another piece is pooled; the pieces that were."""
    done: list[range] = []
    pooled = _pool._PoolTask._pooled

    def stop(self: Any, piece: Any) -> Any:
        if len(done) == pieces:
            raise Killed
        done.append(piece.units)
        return pooled(self, piece)

    monkeypatch.setattr(_pool._PoolTask, "_pooled", stop)
    return done


@pytest.fixture
def one_unit_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pool, "NUMBERS_AT_ONCE", 1)


@pytest.mark.parametrize("engine", [LocalEngine(3), ByFiles()], ids=["threads", "by files"])
def test_engines_and_pieces_of_one_unit_make_the_same_release(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism, counts = topdown(**EVERYTHING), people()
    here = dense(run(mechanism, counts))
    monkeypatch.setattr(_pool, "NUMBERS_AT_ONCE", 1)
    assert same(here, dense(run(mechanism, counts, engine=engine)))


def test_every_run_of_several_is_the_run_of_its_number(tmp_path: Path) -> None:
    mechanism, counts = topdown(**EVERYTHING), people()
    context = Context(workspace=storage_at(tmp_path))
    design = mechanism.on(counts.domain)
    three = design.run(counts, keyed(), runs=range(3), context=context).as_counts()
    assert not list(tmp_path.glob(f"{_pool.POOLED}*"))
    for number in range(3):
        alone = design.run(counts, keyed(), runs=range(number, number + 1)).as_counts()
        for level in PLACES.levels:
            assert np.array_equal(three.dense(level)[number], alone.dense(level)[0])
    assert not np.array_equal(three.dense("block")[0], three.dense("block")[1])


@pytest.mark.parametrize("pieces", [0, 3, 10])
def test_a_run_that_was_killed_pools_no_piece_twice_and_ends_alike(
    pieces: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_unit_a_piece: None
) -> None:
    mechanism, counts = topdown(**EVERYTHING), people()
    expected = dense(run(mechanism, counts))
    every = sum(PLACES.size(level) for level in ("whole", "county", "tract"))
    work = storage_at(tmp_path)
    with monkeypatch.context() as patch:
        killed_after(patch, pieces)
        with pytest.raises(Killed):
            run(mechanism, counts, workspace=work)
    again = killed_after(monkeypatch, every)
    assert same(expected, dense(run(mechanism, counts, workspace=work)))
    assert len(again) == every - pieces


def test_damaged_files_and_those_of_another_run_are_pooled_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, one_unit_a_piece: None
) -> None:
    mechanism, counts = topdown(**EVERYTHING), people()
    expected = dense(run(mechanism, counts))

    def stopped(seed: int) -> None:
        def stop(items: Any, *, what: str, total: int | None = None) -> Any:
            if what == "county":
                raise Killed
            return silent(items, what=what, total=total)

        with pytest.raises(Killed):
            run(mechanism, counts, seed=seed, workspace=storage_at(tmp_path), progress=stop)

    stopped(2)
    stopped(1)
    assert "made from other data, or with other noise" in caplog.text
    caplog.clear()
    first, second = sorted((tmp_path / f"{_pool.POOLED}-0/tract").glob("*.json"))[:2]
    first.with_suffix("").write_bytes(b"\0" * first.with_suffix("").stat().st_size)
    second.write_text("not a note")
    made = run(mechanism, counts, workspace=storage_at(tmp_path))
    assert same(expected, dense(made))
    assert caplog.text.count("its answers are pooled again") == 2
    assert not list(tmp_path.glob(f"{_pool.POOLED}*"))


def test_pooling_is_shown_and_timed(tmp_path: Path) -> None:
    shown: list[str] = []

    def progress(items: Any, *, what: str, total: int | None = None) -> Any:
        shown.append(f"{what} {total}")
        return silent(items, what=what, total=total)

    made = run(topdown(pool=True, pool_from="block"), people(), progress=progress)
    pooled = ["pooled answers, tract 1", "pooled answers, county 1", "pooled answers, whole 1"]
    assert shown[:3] == pooled
    assert set(made.seconds) == {"answers pooled", *PLACES.levels}
    assert "answers pooled" not in run(topdown(), people()).seconds


def test_answers_are_published_as_they_were_drawn(tmp_path: Path) -> None:
    for pool in (False, True):
        run(topdown(pool=pool), people(), measurements=tmp_path / str(pool))
    plain, pooled = (contents(tmp_path / str(pool)) for pool in (False, True))
    assert len(plain) > 3
    assert plain == pooled


def test_a_pooled_run_draws_from_the_streams_of_the_plan_and_each_answer_is_one_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pooled or not: however often an answer is asked for, its noise is the same number."""
    drawn: dict[tuple[str, str], dict[int, set[int]]] = {}
    draw_at = KeyedNoise.draw_at

    def watched(self: Any, stream: Any, law: Any, *, draw: int, index: Any) -> Any:
        found = draw_at(self, stream, law, draw=draw, index=index)
        if stream.purpose == MEASUREMENT:
            own = drawn.setdefault((stream.level, stream.query), {})
            for at, value in zip(np.asarray(index).tolist(), found.tolist(), strict=True):
                own.setdefault(at, set()).add(value)
        return found

    monkeypatch.setattr(KeyedNoise, "draw_at", watched)
    for pool in (False, True):
        mechanism = topdown(pool=pool, **({"pool_from": "block"} if pool else {}))
        run(mechanism, people())
    plan = {
        (one.level, one.query): one.entries for one in mechanism.on(Domain(SCHEMA, PLACES)).plan
    }
    # A pooled run looks at every answer of every level.
    assert {stream: len(own) for stream, own in drawn.items()} == plan
    assert {len(values) for own in drawn.values() for values in own.values()} == {1}


def test_a_pooled_run_looks_at_no_noise_that_a_run_without_is_not_entitled_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With only children, whose share is their parents': every law is asked at its own units."""
    asked: dict[bool, dict[tuple[str, str, str, str], set[int]]] = {False: {}, True: {}}
    drawn, now = KeyedNoise.draw_at, [False]

    def watched(self: Any, stream: Any, law: Any, *, draw: int, index: Any) -> Any:
        key = (stream.level, stream.query, stream.purpose, repr(law))
        asked[now[0]].setdefault(key, set()).update(np.asarray(index).tolist())
        return drawn(self, stream, law, draw=draw, index=index)

    monkeypatch.setattr(KeyedNoise, "draw_at", watched)
    counts = people()
    for pool in (False, True):
        now[0] = pool
        run(topdown(**{**EVERYTHING, "pool": pool, "pool_from": "block" if pool else ""}), counts)
    assert asked[True].keys() == asked[False].keys()
    sizes = {"total": 1, "sex": 2, CELLS: 6}
    shares = topdown(**EVERYTHING).unit_shares(PLACES)
    assert shares is not None
    for (level, query, purpose, _), positions in asked[True].items():
        if not level:
            continue
        number = int(purpose.removeprefix("share "))
        own = np.flatnonzero(shares.classes(level)[1] == number)
        assert {at // sizes[query] for at in positions} <= set(own.tolist())
        assert number > 0  # the first share is none


def test_units_without_a_share_have_no_weight_of_their_own_and_say_nothing_upwards() -> None:
    """The only block of the first tract, and the only tract of the second county, with two blocks.

    Their shares are their parents'.
    """
    places = tree(("county", [2]), ("tract", [2, 1]), ("block", [1, 3, 2]))
    mechanism, counts = topdown(**EVERYTHING), people(places=places)
    found = answers(mechanism, counts)
    drawn = Measurements(every_level(counts), mechanism, keyed(), run=0)
    tract = stage(found).plan.levels["tract"]
    first, _, last = tract.of_unit.tolist()
    own, weight = (one[CELLS] for one in (tract.own, tract.weight))
    assert own[first] == weight[first] > 0  # the block has nothing to add
    assert own[last] == 0 < weight[last]  # what its blocks say
    blocks = drawn.values("block", CELLS, range(4, 6)).sum(axis=0)
    for unit, expected in ((0, drawn.values("tract", CELLS, range(1))[0]), (2, blocks)):
        assert found.values("tract", CELLS, range(unit, unit + 1))[0] == pytest.approx(expected)
    assert not drawn.values("block", CELLS, range(1)).any()


def test_a_level_without_a_share_is_told_by_the_levels_below() -> None:
    """Without pooling nothing says how a county's people are split over its tracts."""
    places = tree(("county", [3]), ("tract", [4] * 3), ("block", [3] * 12))
    sizes = np.random.default_rng(1).integers(1, 60, size=(36, 1))
    counts = counts_of(np.random.default_rng(2).poisson(sizes * np.ones(6)), places, schema=SCHEMA)
    shares = {"whole": "0.2", "county": "0.4", "tract": "0", "block": "0.4"}
    off = {}
    for pool in (False, True):
        made = run(topdown(pool=pool, levels=shares), counts)
        off[pool] = {
            level: float(np.mean((dense(made)[level] - counts.at(level).dense()) ** 2))
            for level in ("tract", "block")
        }
    assert made.notes["answers pooled"] == "from block up"
    for level in ("tract", "block"):
        assert off[True][level] < off[False][level] / 4


def test_a_pooled_release_has_another_name_wherever_it_is_named() -> None:
    data = Tabulated.of(people())
    plain, pooled = (protect(data, topdown(pool=pool), seed=1) for pool in (False, True))
    assert pooled.mechanism.startswith(f"{WITH_POOLING}(")
    assert plain.mechanism.startswith("TopDown(")
    assert WITH_POOLING in repr(pooled)
    sentence = f"Method: {WITH_POOLING}: noisy answers are joined"
    assert any(said.startswith(sentence) for said in pooled.guarantee.sentences())
    assert not any("Method" in said for said in plain.guarantee.sentences())
    assert WITH_POOLING in pooled._repr_html_()
    written = json.loads(json.dumps(guarantee_to_json(pooled.guarantee)))
    assert guarantee_from_json(written) == pooled.guarantee
    assert "method" not in guarantee_to_json(plain.guarantee)
    assert pooled.guarantee.losses == plain.guarantee.losses


def test_a_comparison_and_a_chain_name_it_so_too() -> None:
    chain = Chain.of((Sampling(fraction=Fraction(1, 2)), TopDown(epsilon=Fraction(1), pool=True)))
    assert chain.called == f"sampling+{WITH_POOLING}"
    assert chain.name == "sampling+topdown"  # keys the noise
    design = chain.on(Domain(SCHEMA, PLACES))
    assert f"{WITH_POOLING}: " in _settings_words(design)
    assert design.guarantee.method.startswith(WITH_POOLING)
    assert Chain.of(topdown()).called == "topdown"
