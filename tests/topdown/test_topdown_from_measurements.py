"""TopDown from published measurements alone: the very release of the run that published them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject
from hypothesis import settings as examples

from headcount.arrays import Ints
from headcount.engines import LocalEngine
from headcount.errors import ConfigError, HeadcountError, InputError
from headcount.mechanisms._base import Context, CountsOutcome
from headcount.privacy import UnitOfPrivacy, ZCDPLoss
from headcount.processes import silent
from headcount.release import CountsRelease
from headcount.storage import storage_at
from headcount.tabulate import CELLS, Counts, Query
from headcount.topdown import _publish as publish
from headcount.topdown import _repair as room_plan
from headcount.topdown.from_measurements import (
    PublishedStart,
    estimate_from,
    keeping,
    start_from,
)
from headcount.topdown.mechanism import TopDown
from tests.engines.by_files import ByFiles
from tests.topdown import test_topdown_spine as spine
from tests.topdown.small import (
    AGE,
    BOUNDS,
    HALF,
    KIND,
    STATE_TOTAL,
    TOTAL,
    VILLAGE,
    add_up,
    answers,
    bounded,
    hierarchies,
    pure,
    run,
    settings,
    village,
    zcdp,
)

BY_NUMBER = ZCDPLoss(rho=Fraction(1), unit=UnitOfPrivacy.ADD_REMOVE)
"""One person more or less changes the total of the whole."""


def published(mechanism: TopDown, counts: Counts, folder: Path, *, seed: int = 1) -> CountsOutcome:
    """A run, whose measurements and places are then in the folder."""
    outcome = run(mechanism, counts, seed=seed, measurements=folder)
    release = CountsRelease(
        domain=counts.domain,
        tables={level: tables[0] for level, tables in outcome.tables.items()},
        mechanism=repr(mechanism),
        guarantee=mechanism.on(counts.domain).guarantee,
        key_kind="seed",
        backend="table",
        notes={},
    )
    offered = mechanism.publications()["measurements"]
    offered.write(release, folder, quarters=None, progress=silent)
    return outcome


def counts_at(release: CountsRelease, level: str) -> Ints:
    return release.at(level).astype(np.int64)


def same(outcome: CountsOutcome, release: CountsRelease) -> bool:
    assert list(outcome.tables) == list(release.tables)
    return outcome.notes == release.notes and all(
        np.array_equal(outcome.dense(level)[0], release.at(level)) for level in outcome.tables
    )


@examples(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(hierarchies())
def test_the_release_is_that_of_the_run_whatever_was_bounded(tmp_path_factory: Any, drawn: Any):
    """Unions of types, crossing bounds, rooms and failsafes included."""
    mechanism, counts = drawn
    folder = tmp_path_factory.mktemp("measurements")
    try:
        outcome = published(mechanism, counts, folder)
    except HeadcountError:  # a place with nothing left to protect is refused
        reject()
    assert same(outcome, estimate_from(start_from(folder)))


CASES = {
    "one pass and bounds": lambda: (bounded(zcdp(1)), village()),
    "passes": lambda: (
        bounded(
            zcdp("1/8"), passes={"county": {"fit": [["age"], ["kind", CELLS]], "round": [["age"]]}}
        ),
        village(),
    ),
    "parts of states together": lambda: (
        spine.along(zcdp("1/20"), bounds=(spine.BOUNDS,)),
        spine.in_quarters(),
    ),
    "only children along a spine": lambda: (
        spine.along(zcdp("1/8"), invariants=(), bypass="whole"),
        spine.people(),
    ),
    "unions": lambda: (bounded(pure(1), bounds=(replace(BOUNDS, unions=True),)), village()),
    "no noise": lambda: (settings(None), village()),
    "pooled answers": lambda: (bounded(zcdp(1), pool=True), village()),
    "pooled answers along a spine, with passes and only children": lambda: (
        spine.along(
            zcdp("1/8"),
            bypass="state",
            pool=True,
            pool_from="leaf",
            passes={"town": {"fit": [["kind"], [CELLS]], "round": [["kind"], [CELLS]]}},
        ),
        spine.people(),
    ),
    "default queries": lambda: (TopDown(rho=Fraction(1)), village()),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("where", ["in memory", "threads and files", "handed over by files"])
def test_every_engine_makes_the_same_release(
    case: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Read in parts and row groups of a few units."""
    monkeypatch.setattr(publish, "UNITS_A_PART", 3)
    monkeypatch.setattr(publish, "VALUES_AT_ONCE", 8)
    mechanism, counts = CASES[case]()
    outcome = published(mechanism, counts, tmp_path / "m")
    if where == "in memory":
        release = estimate_from(start_from(tmp_path / "m"))
    else:
        start = start_from(tmp_path / "m", workspace=storage_at(tmp_path / "rows"))
        engine = LocalEngine(2) if where == "threads and files" else ByFiles()
        context = Context(engine=engine, workspace=storage_at(tmp_path / "w"))
        release = estimate_from(start, context=context)
        assert not (tmp_path / "w/published/bounds").exists()
    assert same(outcome, release)


def test_other_passes_make_another_release_of_the_same_answers(tmp_path: Path):
    """What is made of measurements is a choice that costs nothing."""
    outcome = published(bounded(zcdp("1/20")), village(), tmp_path)
    passes = {"leaf": {"fit": [["age"], ["kind", CELLS]], "within": "1/100"}}
    other = estimate_from(start_from(tmp_path, bounded(zcdp("1/20"), passes=passes)))
    assert not np.array_equal(outcome.dense("leaf")[0], other.at("leaf"))
    assert np.array_equal(outcome.dense("whole")[0], other.at("whole"))
    assert other.guarantee.losses == bounded(zcdp("1/20")).on(other.domain).guarantee.losses


def test_two_outer_passes_with_the_table_of_the_first_as_an_equality(tmp_path: Path):
    """Kinds of quarters are settled first, by a product of their own; then ages below them."""
    first = settings(zcdp("1/8"), query_shares=(("kind", Fraction(1)),))
    second = bounded(zcdp(50), query_shares=((CELLS, HALF), ("age", HALF)))
    published(first, village(), tmp_path / "first")
    published(second, village(), tmp_path / "second", seed=2)
    kinds = estimate_from(start_from(tmp_path / "first"))
    settled = {level: answers(counts_at(kinds, level), KIND) for level in VILLAGE.levels}
    start = start_from(tmp_path / "second")
    start = replace(start, restrictions=dict.fromkeys(VILLAGE.levels, ()))
    plain, below = estimate_from(start), estimate_from(keeping(start, "kind", settled["leaf"]))
    truth = village().dense()
    for level in VILLAGE.levels:
        assert np.array_equal(answers(counts_at(below, level), KIND), settled[level])
        assert np.array_equal(
            counts_at(below, level), add_up(VILLAGE, counts_at(below, "leaf"), level)
        )
    assert not np.array_equal(answers(counts_at(plain, "leaf"), KIND), settled["leaf"])
    assert not np.array_equal(settled["leaf"], answers(truth, KIND))  # a truth would contradict it
    assert not np.array_equal(
        counts_at(below, "leaf"), counts_at(kinds, "leaf")
    )  # ages are the second pass's


def test_outer_passes_in_one_workspace_take_no_parts_of_each_other(tmp_path: Path):
    """Each is what it is alone, and made a second time it is the same again."""
    published(settings(zcdp(1), invariants=()), village(), tmp_path / "m")
    start = start_from(tmp_path / "m")
    table = answers(village().dense()[::-1], KIND)
    passes = [start, keeping(start, "kind", table), keeping(start, "kind", table + 1), start]
    context = Context(workspace=storage_at(tmp_path / "w"))
    for one in passes:
        together, alone = estimate_from(one, context=context), estimate_from(one)
        for level in VILLAGE.levels:
            np.testing.assert_array_equal(together.at(level), alone.at(level))
    kept = estimate_from(passes[1], context=context)
    assert np.array_equal(answers(counts_at(kept, "leaf"), KIND), table)


def test_a_table_of_another_form_is_refused(tmp_path: Path):
    published(bounded(zcdp(1)), village(), tmp_path)
    with pytest.raises(InputError, match="found 2 x 3 numbers, or some below 0, expected 7 x 3: a"):
        keeping(start_from(tmp_path), "kind", np.zeros((2, 3)))


def test_a_table_that_fits_the_bounds_is_kept_beside_them(tmp_path: Path):
    published(bounded(zcdp(1)), village(), tmp_path)
    table = answers(village().dense(), KIND)
    start = start_from(tmp_path)
    release = estimate_from(keeping(start, "kind", table))
    assert np.array_equal(answers(counts_at(release, "leaf"), KIND), table)
    said = " ".join(release.guarantee.sentences())
    assert "and from tables protected before that it keeps ('kind'), alone" in said
    assert "Not covered: the loss of these tables, where they were made from others: 'kind'" in said
    assert "tables protected before" not in " ".join(start.guarantee.sentences())


def test_a_table_outside_the_bounds_on_its_own_query_is_refused(tmp_path: Path):
    published(bounded(zcdp(1)), village(), tmp_path)
    table = answers(village().dense(), KIND)
    table[0, 0] += 1000
    with pytest.raises(
        InputError, match=r"table of 'kind': level 'leaf', geounit .* found 10"
    ) as e:
        keeping(start_from(tmp_path), "kind", table)
    assert "expected answers beside which the bounds on 'kind' can be kept: 'kind' " in str(e.value)


def test_a_table_with_another_total_than_is_published_is_refused(tmp_path: Path):
    published(settings(zcdp(1), invariants=(STATE_TOTAL,)), village(), tmp_path)
    table = answers(village().dense(), KIND)
    table[0, 0] += 1
    said = r"level 'state', geounit \S+ found .* the bounds on 'total' can be kept: 'total' \d+$"
    with pytest.raises(InputError, match=said):
        keeping(start_from(tmp_path), "kind", table)


def test_a_table_that_crosses_an_exact_one_is_refused_by_the_number_of_people(tmp_path: Path):
    """Ages and kinds do not refine each other, but both count everybody."""
    start = _without_bounds(tmp_path)
    start = keeping(start, "age", answers(village().dense(), AGE))
    table = answers(village().dense(), KIND)
    table[0, 0] += 1
    with pytest.raises(InputError, match=r"level 'leaf', geounit .* the bounds on 'age' can be"):
        keeping(start, "kind", table)


def test_people_where_nobody_can_be_are_refused(tmp_path: Path):
    both = Query("both", ("kind", "age"))
    published(settings(zcdp(1), queries=(TOTAL, KIND, AGE, both)), village(), tmp_path)
    cells = np.zeros((7, 6), dtype=np.int64)
    cells[2, 4] = 3  # under age in a nursing home
    with pytest.raises(InputError, match=r"found 3 in 'both' .* expected 0: the schema has this"):
        keeping(start_from(tmp_path), "both", cells)


def test_a_table_of_an_unknown_query_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="found query 'sex', expected one of 'kind', 'age', 'to"):
        keeping(_without_bounds(tmp_path), "sex", np.zeros((7, 2)))


def test_another_total_of_parts_together_is_refused(tmp_path: Path):
    published(spine.along(zcdp(1)), spine.people(), tmp_path)
    table = answers(spine.people().dense(), KIND)
    keeping(start_from(tmp_path), "kind", table)
    table[0, 0] += 2
    with pytest.raises(InputError, match=r"level 'state', geounit \S+ found \d+ in it and the oth"):
        keeping(start_from(tmp_path), "kind", table)


def _without_bounds(folder: Path) -> PublishedStart:
    published(settings(zcdp(1)), village(), folder)
    return start_from(folder)


def test_totals_together_in_too_many_units_are_refused_from_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As the run would refuse them."""
    published(spine.along(zcdp(1)), spine.people(), tmp_path)
    monkeypatch.setattr(room_plan, "MOST_COUNTS", 1)
    with pytest.raises(ConfigError, match="found exact totals of several units together"):
        start_from(tmp_path)


def test_a_table_is_kept_along_a_spine_too(tmp_path: Path):
    published(spine.along(zcdp(1), invariants=()), spine.people(), tmp_path)
    table = answers(spine.people(9).dense(), KIND)
    release = estimate_from(keeping(start_from(tmp_path), "kind", table))
    assert np.array_equal(answers(counts_at(release, "leaf"), KIND), table)


def test_settings_that_the_measurements_are_not_of_are_refused(tmp_path: Path):
    published(bounded(zcdp(1)), village(), tmp_path)
    with pytest.raises(
        InputError, match=r"query 'cells': found variance \S+, expected \S+, as its"
    ):
        start_from(tmp_path, bounded(zcdp(2)))
    total = {"query_shares": (("total", "1/2"), (CELLS, "1/2"))}
    with pytest.raises(InputError, match="query 'total': found no answers, expected answers"):
        start_from(tmp_path, settings(BY_NUMBER, **total))
    with pytest.raises(InputError, match="query 'age': found answers, and no share"):
        start_from(tmp_path, bounded(zcdp(1), query_shares=((CELLS, "1/4"), ("kind", "3/4"))))
    with pytest.raises(ConfigError, match=r"passes.county.fit: found 'total'"):
        start_from(tmp_path, bounded(zcdp(1), passes={"county": {"fit": [["total"], [CELLS]]}}))


def test_settings_for_other_levels_are_refused(tmp_path: Path):
    published(bounded(zcdp(1)), village(), tmp_path)
    other = bounded(zcdp(1), levels={"whole": "1/2", "region": "1/4", "state": "1/4"})
    with pytest.raises(ConfigError, match="found shares for whole, region, state, expected the le"):
        start_from(tmp_path, other)


def test_totals_together_are_of_every_published_unit(tmp_path: Path):
    published(spine.along(zcdp("1/20")), spine.people(), tmp_path)
    import polars as pl

    part = tmp_path / "state.parquet/Together/part-00000.parquet"
    pl.read_parquet(part)[:1].write_parquet(part)
    with pytest.raises(InputError, match="found totals of 1 published units together, expected on"):
        start_from(tmp_path)


def test_without_its_spine_a_run_along_one_is_refused(tmp_path: Path):
    published(spine.along(zcdp("1/20")), spine.people(), tmp_path)
    (tmp_path / "spine.parquet").unlink()
    with pytest.raises(InputError, match="level 'state'"):
        start_from(tmp_path)


def test_places_of_an_older_version_are_refused(tmp_path: Path):
    published(bounded(zcdp(1)), village(), tmp_path)
    import polars as pl

    units = tmp_path / "units.parquet"
    pl.read_parquet(units).write_parquet(units)
    with pytest.raises(InputError, match="found nothing about levels"):
        start_from(tmp_path)


def test_a_part_of_a_level_from_other_measurements_is_not_taken(tmp_path: Path):
    """A workspace with the estimates of one run gives nothing to another."""
    for seed in (1, 2):
        outcome = published(bounded(zcdp(1)), village(), tmp_path / f"m{seed}", seed=seed)
        context = Context(workspace=storage_at(tmp_path / "w"))
        release = estimate_from(start_from(tmp_path / f"m{seed}"), context=context)
        assert same(outcome, release)
    shutil.rmtree(tmp_path / "w")
