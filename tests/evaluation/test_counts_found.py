"""Counts worked out from releases of cell keys and rounding, against counting by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import headcount as hc
from headcount.attacks import People
from headcount.attacks.changed_cells import (
    INFORMED,
    UNINFORMED,
    changed_cells,
    narrowed_tables,
)
from headcount.attacks.feasible_intervals import WorkOut
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.evaluation import Truth
from headcount.evaluation.evaluate import _with_settings, attack
from headcount.mechanisms import Chain, Identity, PostTabular, Sampling, Tabulated, protect
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.mechanisms.cell_key.tables import PerturbationFile
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.population import Population
from headcount.release import TablesRelease
from headcount.release.changed import Off
from headcount.release.published import definition_of, is_total
from headcount.schema import Attribute, Schema
from headcount.tabulate import tabulate

SCHEMA = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("0-17", "18-64", "65+"))))
NOBODY = People(name="nobody", unit=np.empty(0, dtype=np.int64), codes={})


def people(number: int = 60, *, seed: int = 1, leaves: int = 6) -> Population:
    rng = np.random.default_rng(seed)
    geography = hc.Geography(
        ("all", "block"),
        (np.array(["all"]), np.array([f"b{i}" for i in range(leaves)])),
        (np.empty(0, dtype=np.int32), np.zeros(leaves, dtype=np.int32)),
    )
    return Population(
        "made up",
        Domain(SCHEMA, geography),
        unit=rng.integers(0, leaves, number).astype(np.int32),
        cell=rng.integers(0, SCHEMA.size, number).astype(np.int32),
    )


POPULATION = people()
TRUTH = tabulate(POPULATION)
TABLES = {"sex_age": ["sex", "age"]}


def release_of(mechanism, *, seed=1, population=POPULATION) -> TablesRelease:
    return protect(Tabulated.of(population), mechanism, seed=seed).as_tables()


def by_hand(release, ranges):
    """Claims beside the truth, cell by cell."""
    rows = {}
    for one in release.published:
        dense = TRUTH.at(one.level).dense() @ one.cells.matrix.toarray()
        low, high = ranges.low[one.name, one.level], ranges.high[one.name, one.level]
        pairs = [
            (t, a, b) for t, a, b in zip(dense.ravel(), low.ravel(), high.ravel(), strict=True)
        ]
        rows[one.name, one.level] = (
            len(pairs),
            sum(a == b for _, a, b in pairs),
            sum(t == a == b for t, a, b in pairs),
            sum(not a <= t <= b for t, a, b in pairs),
        )
    return rows


@pytest.mark.parametrize("disclose", [True, False])
@pytest.mark.parametrize("effort", ["relations", "programs"])
def test_the_score_is_that_of_counting_by_hand(disclose, effort):
    release = release_of(CellKey(tables=TABLES, maximum=2, variance=Fraction(1), disclose=disclose))
    kind = WorkOut(largest_change=2, effort=effort)
    claims = kind.run(release, NOBODY)
    found = attack(release, POPULATION, kind)
    names = [INFORMED] if disclose else [INFORMED, UNINFORMED]
    assert [one.attacker for one in claims.ranges] == names
    for one in claims.ranges:
        for (table, level), numbers in by_hand(release, one).items():
            row = found.table.filter(attacker=one.attacker, table=table, level=level)
            assert row.select("cells", "claimed", "right", "outside").row(0) == numbers


def test_who_knows_the_largest_change_is_never_wrong_and_finds_some():
    found = 0
    for seed in range(5):
        release = release_of(CellKey(tables=TABLES, maximum=1, variance=Fraction(1, 2)), seed=seed)
        table = attack(release, POPULATION, WorkOut(largest_change=1, effort="programs")).table
        known = table.filter(attacker=INFORMED)
        assert known["outside"].sum() == 0
        assert known["claimed"].to_list() == known["right"].to_list()
        found += int(known["claimed"].sum())
    assert found > 0


def test_the_change_that_margins_prove_is_never_more_than_the_largest():
    for seed in range(5):
        release = release_of(CellKey(tables=TABLES, maximum=3, variance=Fraction(1)), seed=seed)
        claims = WorkOut().run(release, NOBODY)
        assert [one.attacker for one in claims.ranges] == [UNINFORMED]
        proved = max(some.proved_change() for some in changed_cells(release))
        assert 1 <= proved <= claims.facts["proved_change"] <= 3


@pytest.mark.parametrize(
    "attacked",
    [lambda release: WorkOut().run(release, NOBODY), narrowed_tables],
    ids=["intervals", "narrowed tables"],
)
def test_exact_counts_that_contradict_each_other_are_refused_and_not_guessed_at_for_ever(attacked):
    release = release_of(CellKey(tables=TABLES, maximum=2, variance=Fraction(1), exact_total=True))
    whole, blocks = release.published
    more = np.where(is_total(whole.cells), whole.value + 5, whole.value)
    wrong = replace(release, published=(replace(whole, value=more), blocks))
    with pytest.raises(InputError, match="ranges that contradict each other"):
        attacked(wrong)
    attacked(release)


def test_the_example_of_the_guidelines_is_disclosed_in_a_release():
    """A woman and a man in one block, published as 1, 1 | 0 with D = 2, which is kept secret."""
    cell_key = CellKey(tables={"sex": ["sex"]}, maximum=2, variance=Fraction(1))
    pair = replace(
        POPULATION, unit=np.zeros(2, dtype=np.int32), cell=np.array([0, 3], dtype=np.int32)
    )
    release = release_of(cell_key, population=pair)
    assert release.published[0].off == Off()
    value = {"all": [[0, 1, 1]], "block": [[0, 1, 1], *[[0, 0, 0]] * 5]}
    published = tuple(replace(one, value=np.array(value[one.level])) for one in release.published)
    release = replace(release, published=published)
    found = attack(release, Truth.of(pair).made_by(cell_key), WorkOut())
    knows = found.table.filter(attacker=INFORMED)
    assert (
        knows["claimed"].to_list() == knows["right"].to_list() == [3, 18]
    )  # and nobody else is there
    assert knows["outside"].sum() == 0
    assert knows["known_percent"].to_list() == [100, 100]
    assert found.numbers()[0].value == "100"
    alone = attack(release, pair, WorkOut()).table
    assert alone["attacker"].unique().to_list() == [UNINFORMED]


def test_the_settings_tell_an_attacker_more_than_the_largest_change():
    """Below 10 nothing, else the nearest 5: a 10 is 10, 11 or 12, though a 0 hides up to 9."""
    cell_key = CellKey(tables=TABLES, rule="10-5")
    release, truth = release_of(cell_key), Truth.of(POPULATION).made_by(cell_key)
    told, guessed = (
        attack(release, someone, WorkOut(largest_change=9)).table for someone in (truth, POPULATION)
    )
    assert told["attacker"].unique(maintain_order=True).to_list() == [INFORMED, UNINFORMED]
    assert told.filter(attacker=INFORMED)["outside"].sum() == 0
    widths = [one.filter(attacker=INFORMED)["width"].to_numpy().mean() for one in (told, guessed)]
    assert widths[0] < widths[1]
    assert told.filter(attacker=UNINFORMED).equals(guessed.filter(attacker=UNINFORMED))


def loses(folder: Path) -> PerturbationFile:
    """A table by which counts of 1 are lost more often than won."""
    path = folder / "loses.csv"
    path.write_text("i,j,p\n0,0,1\n1,0,0.6\n1,1,0.4\n2,1,0.3\n2,2,0.4\n2,3,0.3\n")
    return PerturbationFile(file=path)


MECHANISMS: dict[str, Callable[[Path], PostTabular]] = {
    "blocked": lambda _: CellKey(tables=TABLES, maximum=3, variance=Fraction(2), blocked=1),
    "stay": lambda _: CellKey(tables=TABLES, variance=Fraction(2), stay=Fraction(1, 2)),
    "columns": lambda _: CellKey(tables=TABLES, columns=256),
    "below": lambda _: CellKey(tables=TABLES, below=4),
    "10-5": lambda _: CellKey(tables=TABLES, rule="10-5", below=10),
    "exact total": lambda _: CellKey(tables=TABLES, exact_total=True),
    "file": lambda folder: CellKey(tables=TABLES, ptable=loses(folder)),
    "raised": lambda folder: CellKey(tables=TABLES, ptable=loses(folder), zeros="balance"),
    "random": lambda _: Rounding(tables=TABLES | {"sex": ["sex"]}, base=5),
    "fixed": lambda _: Rounding(tables=TABLES, how="fixed"),
    "nearest": lambda _: Rounding(tables=TABLES, base=4, how="nearest"),
    "midpoint": lambda _: Rounding(tables=TABLES, base=5, how="midpoint"),
    "controlled": lambda _: Rounding(tables=TABLES, how="controlled"),
    "small only": lambda _: Rounding(tables=TABLES, small_only=True),
    "withheld": lambda _: Rounding(tables=TABLES, below=3, withhold_zeros=False),
    "areas": lambda _: Rounding(tables=TABLES, areas=10),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_who_knows_the_settings_is_never_wrong(name, tmp_path):
    mechanism = MECHANISMS[name](tmp_path)
    for seed in range(3):
        release = release_of(mechanism, seed=seed)
        truth = Truth.of(POPULATION).made_by(mechanism)
        for effort in ("relations", "programs"):
            table = attack(release, truth, WorkOut(effort=effort, sample=30)).table
            told = table.filter(attacker=INFORMED)
            assert told["outside"].sum() == 0
            assert told["claimed"].to_list() == told["right"].to_list()


def test_settings_given_to_an_attacker_are_never_written(tmp_path):
    cell_key = CellKey(tables=TABLES, maximum=2, variance=Fraction(1))
    truth = Truth.of(POPULATION).made_by(cell_key)
    release = _with_settings(release_of(cell_key), truth).as_tables()
    assert all(one.known is not None for one in release.published)
    assert all("known" not in definition_of(one) for one in release.published)
    assert "2" not in repr(release.published[0])


def test_of_a_sample_the_settings_say_nothing():
    chain = Chain.of((Sampling(fraction=Fraction(1, 2)), Rounding(tables=TABLES, base=3)))
    release = protect(Tabulated.of(POPULATION), chain, seed=1).as_tables()
    told = _with_settings(release, Truth.of(POPULATION).made_by(chain)).as_tables()
    assert [one.known for one in told.published] == [None, None]


def test_a_sample_is_drawn_by_its_seed_and_scored_alone():
    release = release_of(CellKey(tables=TABLES, maximum=2, variance=Fraction(1), disclose=True))
    every = attack(release, POPULATION, WorkOut(effort="programs", sample=0)).table
    assert every["attacked"].to_list() == every["cells"].to_list()
    samples = [WorkOut(effort="programs", sample=9, seed=seed) for seed in (1, 1, 2)]
    one, same, other = (kind.run(release, NOBODY) for kind in samples)
    assert (one.facts["attacked"], one.facts["counts"]) == (9, every["cells"].sum())
    assert f"9 of {every['cells'].sum()} different counts were attacked" in one.words
    taken, again, elsewhere = (
        np.concatenate([flags.ravel() for flags in claims.ranges[0].attacked.values()])
        for claims in (one, same, other)
    )
    assert taken.sum() == 9
    assert np.array_equal(taken, again)
    assert not np.array_equal(taken, elsewhere)
    whole = WorkOut(effort="programs", sample=0).run(release, NOBODY).ranges[0]
    for where, flags in one.ranges[0].attacked.items():
        assert (one.ranges[0].low[where][flags] == whole.low[where][flags]).all()
        assert (one.ranges[0].high[where][flags] == whole.high[where][flags]).all()
    table = attack(release, POPULATION, samples[0]).table
    assert table["attacked"].sum() == 9
    assert table["outside"].sum() == 0


def test_rounded_tables_say_how_far_they_are_off():
    release = release_of(Rounding(tables=TABLES, base=3, how="fixed"))
    found = attack(release, POPULATION, WorkOut(effort="programs")).table
    assert found["attacker"].unique().to_list() == [INFORMED]
    assert found["outside"].sum() == 0
    assert (found["width"] <= 4).all()


def test_a_planted_count_is_un_rounded_in_a_release():
    """Base 3: men and women, 2 and 2, published as 0, 0 | 6."""
    release = release_of(Rounding(tables={"sex": ["sex"]}, base=3, how="random"))
    block = next(one for one in release.published if one.level == "block")
    value = np.zeros_like(block.value)
    value[2] = [6, 0, 0]
    planted = replace(release, published=(replace(block, value=value),))
    found = WorkOut(effort="whole").run(planted, NOBODY).ranges[0]
    assert found.low["sex", "block"][2].tolist() == [4, 2, 2]
    assert found.high["sex", "block"][2].tolist() == [4, 2, 2]
    assert found.low["sex", "block"][3].tolist() == [0, 0, 0]
    assert found.high["sex", "block"][3].tolist() == [2, 2, 2]


def test_a_finding_shows_itself():
    release = release_of(CellKey(tables=TABLES, maximum=2, variance=Fraction(1)))
    finding = attack(release, POPULATION, WorkOut(largest_change=2))
    said = [one.label for one in finding.numbers()]
    assert said[0].endswith("are known for certain to an informed attacker")
    assert "to an uninformed attacker" in said[1]
    assert {column.key for column in finding.columns()} == set(finding.table.columns)
    assert "range is one number" in finding.explain()
    assert finding.figure().name == "feasible-intervals-figure"


def test_releases_without_changed_tables_are_not_supported():
    release = protect(Tabulated.of(POPULATION), Identity(), seed=1)
    with pytest.raises(InputError, match="the release publishes counts, not tables whose counts"):
        attack(release, POPULATION, WorkOut())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"largest_change": -1}, "largest_change: found -1, expected 0 or more"),
        ({"effort": "hard"}, "effort: found 'hard', expected one of 'relations', 'programs'"),
        ({"steps": 0}, "steps: found 0, expected 1 or more"),
        ({"sample": -1}, "sample: found -1, expected 0 or more"),
        ({"seed": -1}, "seed: found -1, expected 0 or more"),
    ],
)
def test_settings_out_of_range_are_errors(settings, message):
    with pytest.raises(ConfigError, match=message):
        WorkOut(**settings)
