"""Records from tables whose counts were changed: ranges, the nearest records, and certainty."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import headcount as hc
from headcount.attacks import People
from headcount.attacks._problem import Effort
from headcount.attacks.changed_cells import NarrowedCells, narrowed_tables
from headcount.attacks.feasible_intervals import WorkOut
from headcount.attacks.knowledge import Knowledge, KnownTable, between, knowledge_of_release
from headcount.attacks.reconstruction import Rebuilt, Reconstruct, Reconstruction, reconstruct
from headcount.attacks.reidentification import NOBODY, Reidentify
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.evaluation import Truth
from headcount.evaluation.evaluate import attack
from headcount.mechanisms import Tabulated, protect
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.population import Population
from headcount.release import TablesRelease
from headcount.release.published import is_total
from headcount.report.model import Table
from headcount.schema import load_schema
from headcount.tabulate.counts import adder
from tests.attacks.small_blocks import PAIRS, TINY, every_file, flat, hold
from tests.support.persons import block_people, knowledge_of

Changed = tuple[KnownTable, ...]


def changed(counts: np.ndarray, by: int, seed: int, level: str = "block") -> Changed:
    """Every count of the tables of pairs changed by at most so much, zeros never; as ranges."""
    rng = np.random.default_rng(seed)
    held = []
    for one in PAIRS:
        true = one.of(csr_array(counts), TINY).toarray()
        move = rng.integers(-by, by + 1, true.shape)
        value = np.where(true > 0, np.maximum(true + move, 0), 0)
        low = np.where(value > 0, np.maximum(value - by, 1), 0)
        held.append(between(one.on(TINY), low, value + by, level=level, value=value))
    return tuple(held)


def fitting(held: Changed, unit: int, x: np.ndarray) -> np.ndarray:
    """Which of some files (rows) keep every range of a unit."""
    good = np.ones(len(x), dtype=bool)
    for one in held:
        low, high = one.bounds(np.array([unit]))
        sums = x @ one.cells.matrix.toarray()
        good &= ((low <= sums) & (sums <= high)).all(axis=1)
    return good


def distance(held: Changed, unit: int, x: np.ndarray) -> np.ndarray:
    """The sum of all differences between published numbers and those of some files."""
    far = np.zeros(len(x), dtype=np.int64)
    for one in held:
        said = one.likeliest(np.array([unit]))
        far += np.abs(x @ one.cells.matrix.toarray() - said).sum(axis=1)
    return far


def up_to(people: int) -> np.ndarray:
    return np.vstack([every_file(8, n) for n in range(people + 1)])


some_people = st.lists(st.integers(0, 7), max_size=3)


@pytest.mark.parametrize("effort", [Effort(), Effort(nodes=0)], ids=["search", "solver"])
@given(cells=some_people, by=st.integers(1, 2), seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_records_are_the_nearest_of_all_files_and_variability_is_theirs(effort, cells, by, seed):
    counts = np.bincount(np.array(cells, int), minlength=8)[None]
    held = changed(counts, by, seed)
    found = reconstruct(Knowledge(TINY, flat(1), held), effort=effort)
    files = up_to(len(cells) + 2 * by)
    files = files[fitting(held, 0, files)]
    assert (files == counts[0]).all(axis=1).any()  # the truth is among them
    mine = found.matrix.toarray()
    assert fitting(held, 0, mine).all()
    assert found.proven[0]
    assert found.nearest[0]
    assert distance(held, 0, mine)[0] == distance(held, 0, files).min()
    fold = np.eye(found.class_of.max() + 1, dtype=np.int64)[found.class_of]
    # What is called certain is in every file; all of it, where there is one file alone.
    sure = found.sure.toarray()[0]
    assert (sure <= (files @ fold).min(axis=0)).all()
    assert sure.sum() == mine.sum() or found.variability[0] > 0
    farthest = np.abs((files - mine) @ fold).sum(axis=1).max()
    nobody = np.inf if farthest else 0.0
    people = mine.sum()
    assert found.variability[0] == pytest.approx(
        100 * farthest / (2 * people) if people else nobody
    )


@pytest.mark.parametrize("seed", range(6))
def test_blocks_of_a_tract_are_together_the_nearest_of_all_pairs_of_files(seed: int):
    counts = np.random.default_rng(seed).poisson(0.2, (2, 8))
    place = flat(2, 1)
    blocks = changed(counts, 1, seed)
    tract = changed(adder(place, "tract", of="block") @ counts, 1, seed + 50, level="tract")
    found = reconstruct(Knowledge(TINY, place, (*blocks, *tract)), together="tract")
    files = [up_to(int(counts[unit].sum()) + 2) for unit in (0, 1)]
    first, second = (x[fitting(blocks, unit, x)] for unit, x in enumerate(files))
    one, other = np.indices((len(first), len(second))).reshape(2, -1)
    good = fitting(tract, 0, first[one] + second[other])
    one, other = one[good], other[good]
    price = distance(blocks, 0, first)[one] + distance(blocks, 1, second)[other]
    price = price + distance(tract, 0, first[one] + second[other])
    mine = found.matrix.toarray()
    assert found.nearest.all()
    assert fitting(tract, 0, mine.sum(axis=0)[None]).all()
    ours = sum(distance(blocks, unit, mine[unit][None])[0] for unit in (0, 1))
    assert ours + distance(tract, 0, mine.sum(axis=0)[None])[0] == price.min()


def test_ranges_of_one_number_give_what_equations_give():
    people = block_people(load_schema("persons-2010"), blocks=15, seed=4)
    exactly = knowledge_of(people, ("sf1",), joint=False)
    ranged = replace(
        exactly,
        tables=tuple(
            between(one.cells, one.low, one.low, level=one.level, value=one.low)
            for one in exactly.tables
        ),
    )
    ours, theirs = reconstruct(ranged), reconstruct(exactly)
    assert ours.certain.tolist() == theirs.certain.tolist()
    assert 0 < ours.certain.sum() < len(ours.certain)
    assert ours.nearest.all()
    same = (ours.matrix - theirs.matrix).toarray()
    assert not same[ours.certain].any()
    for one in exactly.tables:  # all others fit every table too
        assert (one.cells.table.of(ours.matrix, ours.schema) != one.low).nnz == 0
    # Distances from two starts are within a factor of two of each other.
    both = np.isfinite(ours.variability) & (ours.variability > 0) & ours.proven & theirs.proven
    share = ours.variability[both] / theirs.variability[both]
    assert ((share >= 0.5) & (share <= 2)).all()


def town(units: int = 2) -> Population:
    """Nobody special, in some blocks of one place."""
    geography = hc.Geography(
        ("all", "block"),
        (np.array(["all"]), np.array([f"b{i}" for i in range(units)])),
        (np.empty(0, dtype=np.int32), np.zeros(units, dtype=np.int32)),
    )
    rng = np.random.default_rng(5)
    return Population(
        "made up",
        Domain(TINY, geography),
        unit=rng.integers(0, units, 12).astype(np.int32),
        cell=rng.integers(0, TINY.size, 12).astype(np.int32),
    )


def planted(shown: dict[str, list[dict[tuple[str, str], int]]], *, change: int) -> TablesRelease:
    """A table of sex by origin with these values: for each level a list of units, all else 0."""
    mechanism = CellKey(
        tables={"sex_origin": ["sex", "hispanic"]}, maximum=2, variance=Fraction(1), disclose=True
    )
    release = protect(Tabulated.of(town()), mechanism, seed=1).as_tables()
    tables = []
    for one in release.published:
        value = np.zeros_like(one.value)
        for unit, cells in enumerate(shown.get(one.level, ())):
            for label, count in cells.items():
                value[unit, one.cells.labels.index(label)] = count
        assert one.off is not None
        off = replace(one.off, down=change, up=change, zero_hides=change)
        tables.append(replace(one, value=value, off=off))
    return replace(release, published=tuple(tables))


def rebuilt(release: TablesRelease) -> Reconstruction:
    claims = Reconstruct().run(release, NOBODY)
    assert isinstance(claims, Rebuilt)
    return claims.found


HIS, HERS = ("male", "hispanic"), ("female", "hispanic")
BOTH = {HIS: 1, HERS: 1}


def test_two_people_behind_a_total_of_0_are_rebuilt_for_certain():
    found = rebuilt(planted({"block": [BOTH, {}]}, change=2))
    assert found.certain.tolist()[0]
    assert found.people[0] == 2
    origin, sex = TINY.names.index("hispanic"), TINY.names.index("sex")
    levels = np.unravel_index(found.cell[found.unit == 0], TINY.shape)
    assert levels[origin].tolist() == [1, 1]
    assert sorted(levels[sex].tolist()) == [0, 1]


def test_where_changes_may_be_huge_nothing_is_certain():
    found = rebuilt(planted({"block": [BOTH, {}]}, change=50))
    assert not found.certain.any()
    assert (found.variability > 0).all()
    assert found.nearest.all()
    assert found.people.tolist() == [2, 0]  # the nearest records are as few as can be


def test_sums_over_units_make_records_certain_though_only_one_unit_is_attacked():
    one = {HIS: 1, ("total", "total"): 1}
    apart = planted({"block": [one, one], "all": [{("total", "total"): 50}]}, change=2)
    release = planted({"block": [one, one]}, change=2)
    finding = attack(release, town(), Reconstruct(most_units=1))
    assert "1 of 2 units were attacked" in finding.explain()
    assert finding.numbers()[1].value == "1"  # certain, by the total of both
    with pytest.raises(InputError, match="ranges that contradict each other"):
        rebuilt(apart)


def test_who_does_not_know_the_largest_change_takes_the_smallest_possible():
    mechanism = CellKey(
        tables={"sex_origin": ["sex", "hispanic"]}, maximum=3, variance=Fraction(3, 2)
    )
    release = protect(Tabulated.of(town()), mechanism, seed=3).as_tables()
    narrowed = narrowed_tables(release)
    assert narrowed.guessed
    assert narrowed.largest_change == WorkOut().run(release, NOBODY).facts["proved_change"]
    assert "is the smallest change under which all tables can be true" in narrowed.words
    knows = narrowed_tables(release, largest_change=3)
    assert not knows.guessed
    assert knows.words == "The attacker knows that no count is off by more than 3."
    assert narrowed_tables(knows) is knows
    true = Tabulated.of(town()).counts
    for one in knows.published:
        assert isinstance(one, NarrowedCells)
        counts = true.at(one.level).dense() @ one.cells.matrix.toarray()
        assert (one.low <= counts).all()
        assert (counts <= one.high).all()
    claims = Reconstruct(largest_change=3).run(release, NOBODY)
    assert claims.facts["changes"] == knows.words
    assert knows.words in claims.words
    assert "nearest to the published counts" in claims.words
    people = People(
        name="all",
        unit=np.zeros(1, dtype=np.int64),
        codes={"sex": np.zeros(1, dtype=np.int64), "voting_age": np.zeros(1, dtype=np.int64)},
    )
    assert knows.words in Reidentify(largest_change=3).run(release, people).words


@pytest.mark.parametrize("kind", [Reconstruct, Reidentify])
def test_the_uninformed_attacker_stands_beside_the_one_who_knows_the_settings(kind):
    population = town()
    mechanism = CellKey(
        tables={"sex_origin": ["sex", "hispanic"]}, maximum=3, variance=Fraction(3, 2)
    )
    release = protect(Tabulated.of(population), mechanism, seed=3)
    truth = Truth.of(population).made_by(mechanism)
    found = attack(release, truth, kind())
    assert "is known, from the release or the settings" in found.explain()
    alone = attack(release, truth, kind(knows_settings=False))
    assert "and the attacker does not know" in alone.explain()
    assert set(found.files()) == {kind.name, f"{kind.name}-uninformed"}
    assert found.files()[f"{kind.name}-uninformed"].equals(alone.table)
    assert alone.files().keys() == {kind.name}
    (*_, last) = found.blocks()
    assert isinstance(last, Table)
    assert "who has the release alone" in last.caption
    # A release that says how far off its counts are has one attacker, and so have the files alone.
    said = protect(Tabulated.of(population), replace(mechanism, disclose=True), seed=3)
    assert attack(said, truth, kind()).files().keys() == {kind.name}
    assert attack(release, population, kind()).table.equals(alone.table)


def test_certain_records_are_scored_by_the_kinds_that_tables_tell_apart():
    population = town()
    people = Tabulated.of(population).counts
    cells = people.matrix.toarray()
    release = planted({"block": [BOTH, {}]}, change=2)
    finding = attack(release, population, Reconstruct())
    row = finding.table.filter(blocks="all").row(0, named=True)
    his, hers = (
        sum(int(cells[0, c]) for c in range(8) if labels(c) == kind) for kind in (HIS, HERS)
    )
    assert row["certain"] == 2
    assert row["certain_right"] == min(his, 1) + min(hers, 1)
    assert f"{row['certain_right']} of these are people who live there" in (
        finding.numbers()[1].label
    )


def labels(cell: int) -> tuple[str, str]:
    """Sex and origin of a cell."""
    sex, _, origin = np.unravel_index(cell, TINY.shape)
    return TINY.attributes[0].levels[sex], TINY.attributes[2].levels[origin]


@pytest.mark.parametrize("kind", [Reconstruct, Reidentify])
def test_a_largest_change_below_0_is_refused(kind):
    with pytest.raises(ConfigError, match=r"largest_change: found -1, expected 0 or more"):
        kind(largest_change=-1)


def test_withheld_cells_of_rounded_tables_hold_less_than_the_threshold():
    mechanism = Rounding(tables={"sex_origin": ["sex", "hispanic"]}, base=2, below=3)
    release = protect(Tabulated.of(town()), mechanism, seed=1).as_tables()
    known = {(one.name, one.level): one for one in knowledge_of_release(release).tables}
    for one in release.published:
        held = known[one.name, one.level]
        _, high = held.bounds(np.arange(len(one.value)))
        value = held.likeliest(np.arange(len(one.value)))
        assert one.withheld[:, ~is_total(one.cells)].any() or one.level == "all"
        assert (high[one.withheld] < 3).all()
        assert (value[one.withheld] == -1).all()
        assert (value[~one.withheld] == one.value[~one.withheld]).all()
    found = rebuilt(release)
    assert found.proven.all()
    assert not found.conflict.any()


def test_tables_that_never_add_up_are_refused():
    schema = load_schema("persons-2010")
    rng = np.random.default_rng(1)
    cell = rng.integers(0, schema.size, 12).astype(np.int32)
    people = replace(town(), domain=replace(town().domain, schema=schema), cell=cell)
    release = protect(
        Tabulated.of(people), Rounding(tables=("P1", "P6"), base=3), seed=1
    ).as_tables()
    overlapping = [one for one in release.published if one.name == "P6"]
    assert overlapping
    alone = replace(release, published=tuple(overlapping))
    assert Reconstruct().supports(alone).why_not == "no table adds up: the groups of each overlap"
    with pytest.raises(InputError, match="tables whose groups all overlap, expected a table that"):
        narrowed_tables(alone)
    # Beside others such a table is read too, if only by its own ranges.
    both = narrowed_tables(release)
    assert {one.name for one in both.published} == {"P1", "P6"}
    assert rebuilt(release).proven.any()


def test_exact_tables_have_no_published_number_besides_the_count():
    counts = np.array([[1, 0, 2, 0, 0, 1, 0, 0]])
    exactly = Knowledge(TINY, flat(1), hold(csr_array(counts), TINY, PAIRS))
    assert reconstruct(exactly).nearest.all()
    assert exactly.tables[0].likeliest(np.array([0])).max() == -1
