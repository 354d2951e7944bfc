"""Words of persons: they go with the people through samples, swaps and editions of the data."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import headcount as hc
from headcount.errors import ConfigError, PrivacyError, RunError
from headcount.mechanisms import Chain, Context, Sampling, Tabulated, protect
from headcount.mechanisms._key_file import CellWords, KeySecret, secret_of_file
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.mechanisms.cell_key.tables import PerturbationFile
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.population.from_households import to_population
from headcount.population.population import RecordKeys
from headcount.population.towns import towns
from headcount.release.published import PublishedCells
from headcount.tabulate import tabulate
from headcount.tabulate.linked_tables import table_values
from headcount_papers.person_swapping.mechanism import PersonSwapping
from tests.mechanisms.cell_key.test_cell_key_mechanism import TABLES, people, release_of

SECRET = KeySecret(b"s" * 32, origin="test")


def with_ids(population: Population, *, first: int = 0) -> Population:
    """The people with ids of their own, numbered as they stand."""
    many = len(population.unit)
    mixed = np.arange(first, first + many, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return replace(population, record_keys=RecordKeys(mixed))


def dwellings(seed: int = 3, *, by: Sequence[str] = ("sex", "age", "race")) -> Population:
    return with_ids(to_population(towns(seed=seed, people=1_500, counties=2), list(by)))


def ids(population: Population) -> list[int]:
    assert population.record_keys is not None
    found: list[int] = population.record_keys.values.tolist()
    return found


def whereabouts(population: Population) -> dict[int, tuple[int, int]]:
    """For each person, by their id, unit and cell."""
    at = zip(population.unit.tolist(), population.cell.tolist(), strict=True)
    return dict(zip(ids(population), at, strict=True))


def sets(population: Population, one: PublishedCells) -> dict[frozenset[int], tuple[int, int]]:
    """The people of each cell of a published table, with its unit and cell."""
    members = one.cells.matrix.toarray() > 0
    ancestor = population.geography.ancestors(one.level)
    found: dict[tuple[int, int], set[int]] = {}
    for person, (unit, cell) in whereabouts(population).items():
        for column in np.flatnonzero(members[cell]):
            found.setdefault((int(ancestor[unit]), int(column)), set()).add(person)
    return {frozenset(who): where for where, who in found.items()}


def changes(population: Population, release: Any) -> dict[frozenset[int], set[int]]:
    """The changes that each set of people has anywhere in a release."""
    counts = tabulate(population)
    seen: dict[frozenset[int], set[int]] = {}
    for one in release.published:
        change = one.value - table_values(counts.at(one.level), one.cells)
        for who, where in sets(population, one).items():
            seen.setdefault(who, set()).add(int(change[where]))
    return seen


def test_the_key_of_a_cell_is_the_sum_of_its_people_s_words():
    some = with_ids(people(500))
    words = SECRET.words_of_persons(RecordKeys(np.array(ids(some), dtype=np.uint64)))
    expected = np.zeros((40, some.schema.size), dtype=object)
    for word, unit, cell in zip(words.tolist(), some.unit, some.cell, strict=True):
        expected[unit, cell] = (expected[unit, cell] + word) % 2**64
    found = CellWords.of(tabulate(some), SECRET)
    assert (found.matrix.toarray() == expected.astype(np.uint64)).all()
    town = [sum(int(w) for w in expected[10:20, c]) % 2**64 for c in range(some.schema.size)]
    assert found.at("town").matrix.toarray()[1].tolist() == town


def test_words_of_a_million_persons_are_uniform_and_uncorrelated_and_need_the_secret():
    many = RecordKeys(np.arange(1_000_000, dtype=np.uint64))
    words = SECRET.words_of_persons(many)
    for high in (words >> np.uint64(56), words & np.uint64(255)):
        seen = np.bincount(high.astype(np.int64), minlength=256)
        assert float(((seen - 1e6 / 256) ** 2).sum() / (1e6 / 256)) < chi2.isf(1e-4, 255)
    unit = words / 2**64
    assert abs(np.corrcoef(unit[:-1], unit[1:])[0, 1]) < 4 / 1_000
    other = KeySecret(b"t" * 32, origin="test").words_of_persons(many)
    assert abs(np.corrcoef(unit, other / 2**64)[0, 1]) < 4 / 1_000
    assert np.array_equal(SECRET.words_of_persons(many.of(slice(7, 9))), words[7:9])


def test_the_same_people_change_alike_in_every_edition_and_others_anew(tmp_path):
    mechanism = CellKey(tables=TABLES, keys=tmp_path / "keys")
    first = with_ids(people(2_000))
    assert first.record_keys is not None
    stay = np.arange(2_000) % 50 != 0  # two in a hundred leave, some others join
    later = people(60, seed=9)
    second = replace(
        first,
        unit=np.concatenate([first.unit[stay], later.unit]),
        cell=np.concatenate([first.cell[stay], later.cell]),
        record_keys=RecordKeys(
            np.concatenate([first.record_keys.of(stay).values, np.arange(60, dtype=np.uint64)])
        ),
    )
    old = changes(first, release_of(mechanism, first, seed=1))
    new = changes(second, release_of(mechanism, second, seed=2))
    assert all(len(found) == 1 for found in (*old.values(), *new.values()))
    both = old.keys() & new.keys()
    assert len(both) > 500
    assert all(old[who] == new[who] for who in both)
    # Whoever is in one edition alone would have the same change in both by keys of leaf cells.
    grown = [who for who in new if who not in old and any(one < 60 for one in who)]
    assert {min(new[who]) for who in grown} >= {-1, 0, 1}


def test_a_key_file_of_persons_is_for_any_data_but_not_for_cells_or_another_column(tmp_path):
    keys = tmp_path / "keys"
    mechanism = CellKey(tables=TABLES, keys=keys)
    some = with_ids(people())
    release_of(mechanism, some)
    before = keys.read_bytes()
    Chain.of(mechanism).on(
        Tabulated.of(with_ids(people(500, seed=2), first=9_000)).counts.domain
    ).check(Tabulated.of(with_ids(people(500, seed=2), first=9_000)))
    assert keys.read_bytes() == before  # a check writes nothing
    with pytest.raises(PrivacyError, match="found keys made for ids of persons, expected keys"):
        release_of(mechanism, people())
    given = replace(some, record_keys=RecordKeys(np.zeros(4_000, dtype=np.uint64), 256))
    with pytest.raises(PrivacyError, match="expected keys made for record keys of a column:"):
        release_of(replace(mechanism, columns=256), given)
    cells = replace(mechanism, keys=tmp_path / "cells")
    release_of(cells, people())
    with pytest.raises(PrivacyError, match="found keys made for leaf cells, expected keys"):
        Chain.of(cells).on(Tabulated.of(some).counts.domain).check(Tabulated.of(some))
    keys.write_text(keys.read_text().replace("ids ", "cats "))
    with pytest.raises(RunError, match="found a damaged key file"):
        release_of(mechanism, some)


def test_given_keys_and_columns_made_here_need_a_key_file_for_later_releases(tmp_path):
    many = np.arange(4_000).astype(np.uint64) << np.uint64(56)
    given = Tabulated.of(replace(people(), record_keys=RecordKeys(many, 256)))
    alone = CellKey(tables=TABLES, columns=256)
    for mechanism, said, same in (
        (alone, "in an order made for this release alone: the same people are chan", False),
        (replace(alone, keys=tmp_path / "keys"), "alike wherever the same table is used", True),
        (CellKey(tables=TABLES, rule="10-5"), "alike wherever the same table is used", True),
    ):
        one, other = (release_of(mechanism, given, seed=seed) for seed in (1, 2))
        assert said in str(one.notes["record keys"])
        found = zip(one.published, other.published, strict=True)
        assert all(np.array_equal(a.value, b.value) for a, b in found) is same


def test_given_keys_need_a_table_with_columns_and_a_base_that_divides_them():
    rng = np.random.default_rng(1)
    many = rng.integers(0, 256, 4_000).astype(np.uint64) << np.uint64(56)
    given = Tabulated.of(replace(people(), record_keys=RecordKeys(many, 256)))
    release_of(CellKey(tables=TABLES, columns=256), given)
    for columns, said in ((0, "a table without columns"), (4096, "a table of 4,096 columns")):
        finer = CellKey(tables=TABLES, columns=columns)
        message = f"columns: found {said} for record keys of a file, of which there are 256"
        design = finer.on(given.counts.domain)
        for refused in (design.check, lambda counts, m=finer: release_of(m, given)):
            with pytest.raises(ConfigError, match=message):
                refused(given.counts)
    assert release_of(CellKey(tables=TABLES, rule="10-5", below=10), given).published
    Rounding(tables=TABLES, base=4, how="fixed").on(given.counts.domain).check(given.counts)
    with pytest.raises(ConfigError, match="how: found 'fixed' with base 5 by record keys of a fil"):
        Rounding(tables=TABLES, base=5, how="fixed").on(given.counts.domain).check(given.counts)
    Rounding(tables=TABLES, base=5, how="random").on(given.counts.domain).check(given.counts)


@pytest.mark.parametrize("exact", [True, False])
def test_sampled_people_keep_their_ids_and_the_sample_is_the_same_without(exact):
    whole, plain = with_ids(people()), people()
    step = Sampling(fraction=Fraction(1, 3), exact=exact)
    noise = KeyedNoise(RunKey.from_seed(4), "sampling", b"", b"")
    some = step.apply(whole, noise, run=0, context=Context())
    counts = tabulate(step.apply(plain, noise, run=0, context=Context()))
    assert (tabulate(some).matrix != counts.matrix).nnz == 0
    assert len(ids(some)) == len(set(ids(some))) == round(4_000 / 3)
    everywhere = whereabouts(whole)
    assert all(everywhere[who] == at for who, at in whereabouts(some).items())


def test_who_is_in_a_fast_sample_is_uniform_within_each_cell():
    few = with_ids(people(300, leaves=4))
    taken = np.zeros(300)
    for run in range(400):
        noise = KeyedNoise(RunKey.from_seed(run), "sampling", b"", b"")
        some = Sampling(fraction=Fraction(1, 2)).apply(few, noise, run=0, context=Context())
        taken[np.searchsorted(np.sort(ids(few)), np.sort(ids(some)))] += 1
    square = float((((taken - 200) ** 2) / 100).sum())
    assert square < chi2.isf(1e-4, 299)


def test_swapped_households_take_the_words_of_their_people_along():
    town = dwellings()
    swap = hc.HouseholdSwapping(rate=Fraction(1, 4), key=("size",))
    noise = KeyedNoise(RunKey.from_seed(1), "swapping", b"", b"")
    after = swap.apply(town, noise, run=0, context=Context())
    old, new = whereabouts(town), whereabouts(after)
    assert old.keys() == new.keys()
    assert all(old[who][1] == new[who][1] for who in old)  # nobody has become another person
    moved = sum(old[who][0] != new[who][0] for who in old)
    assert 0.1 * len(old) < moved < 0.4 * len(old)


def test_swapped_persons_take_their_words_along():
    town = dwellings()
    swap = PersonSwapping(level="county", rate=Fraction(1, 4), kind="random")
    noise = KeyedNoise(RunKey.from_seed(1), "swapping", b"", b"")
    after = swap.apply(town, noise, run=0, context=Context())
    old, new = whereabouts(town), whereabouts(after)
    assert old.keys() == new.keys()
    assert all(old[who][1] == new[who][1] for who in old)
    assert any(old[who][0] != new[who][0] for who in old)


def test_chains_change_people_by_words_that_went_with_them(tmp_path):
    town = dwellings()
    swap = hc.HouseholdSwapping(rate=Fraction(1, 5), key=("size",))
    last = CellKey(tables={"sex": ["sex"], "race": ["race"], "all": []}, keys=tmp_path / "keys")
    data, chain = Tabulated.of(town), Chain.of([swap, last])
    noise = KeyedNoise(RunKey.from_seed(1), chain.name, data.digest, b"")
    release = protect(data, chain, noise).as_tables()
    swapped = swap.apply(town, chain.noise_of(0, noise), run=0, context=Context())
    found = changes(swapped, release)
    assert all(len(some) == 1 for some in found.values())
    assert {min(some) for some in found.values()} > {-1, 0, 1}


def test_a_second_swap_of_the_same_edition_is_refused_and_the_next_edition_is_not(tmp_path):
    swap = hc.HouseholdSwapping(rate=Fraction(1, 5), key=("size",))
    last = CellKey(tables={"sex": ["sex"]}, keys=tmp_path / "keys")
    chain, data = Chain.of([swap, last]), Tabulated.of(dwellings())
    protect(data, chain, seed=1)
    protect(data, chain, seed=1)
    with pytest.raises(PrivacyError, match=r"second swap is refused: to make more tables .*reuse"):
        protect(data, chain, seed=2)
    with pytest.raises(PrivacyError, match="a second swap is refused"):
        protect(data, last, seed=1)  # as they were before the swap
    other = Tabulated.of(dwellings(by=("sex",)))
    with pytest.raises(PrivacyError, match="a second swap is refused"):
        chain.on(other.counts.domain).check_changed(other)  # whatever is known of them
    next_year = Tabulated.of(dwellings(seed=4))
    chain.on(next_year.counts.domain).check_changed(next_year)
    protect(next_year, chain, seed=3)
    with pytest.raises(PrivacyError, match="a second swap is refused"):
        protect(next_year, chain, seed=4)
    assert (tmp_path / "keys").read_text().count("\nids ") == 2
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600


def test_a_sample_is_rounded_by_the_words_of_those_who_are_in_it(tmp_path):
    whole = Tabulated.of(with_ids(people()))
    sample = Sampling(fraction=Fraction(1, 3), exact=True)
    chain = Chain.of([sample, Rounding(tables=TABLES, base=5, how="fixed", keys=tmp_path / "k")])
    noise = KeyedNoise(RunKey.from_seed(1), chain.name, whole.digest, b"")
    release = protect(whole, chain, noise).as_tables()
    some = sample.apply(whole.population, chain.noise_of(0, noise), run=0, context=Context())
    counts = tabulate(some)
    rounded: dict[frozenset[int], int] = {}
    for one in release.published:
        assert not (one.value % 5).any()
        true = table_values(counts.at(one.level), one.cells)
        assert np.abs(one.value - 3 * true).max() < 5
        for who, where in sets(some, one).items():
            assert rounded.setdefault(who, one.value[where]) == one.value[where]
    with pytest.raises(PrivacyError, match="a second swap is refused"):
        protect(whole, chain, seed=2)


def test_a_step_that_loses_record_keys_is_refused(monkeypatch):
    sample = Sampling(fraction=Fraction(1, 2))
    right = Sampling.apply

    def careless(self: Sampling, *given: Any, **more: Any) -> Population:
        return replace(right(self, *given, **more), record_keys=None)

    chain = Chain.of([sample, Rounding(tables=TABLES, how="fixed")])
    protect(with_ids(people()), chain, seed=1)
    monkeypatch.setattr(Sampling, "apply", careless)
    protect(people(), chain, seed=1)
    with pytest.raises(PrivacyError, match="sampling: record keys: found people who have lost th"):
        protect(with_ids(people()), chain, seed=1)


@pytest.mark.parametrize(
    "other",
    [
        CellKey(maximum=4),
        CellKey(variance=Fraction(1, 2)),
        CellKey(columns=256),
        CellKey.from_preset("ons-10-5"),
        Rounding(how="fixed"),
    ],
)
def test_a_key_file_is_for_one_way_to_change_counts(tmp_path, other):
    keys = tmp_path / "keys"
    some = Tabulated.of(with_ids(people(300)))
    first = CellKey(tables=TABLES, keys=keys)
    release_of(first, some)
    before = keys.read_bytes()
    other = replace(other, tables=TABLES, keys=keys)
    design = Chain.of(other).on(some.counts.domain)
    for refused in (design.check, lambda data: release_of(other, data)):
        with pytest.raises(PrivacyError, match="found keys of releases whose counts are changed i"):
            refused(some)
    assert keys.read_bytes() == before
    release_of(replace(first, exact_total=True, below=3, tables={"other": ["sex"]}), some)


def test_a_perturbation_table_of_a_file_is_a_way_by_its_content(tmp_path):
    table, keys = tmp_path / "table.csv", tmp_path / "keys"
    table.write_text("i,j,p\n0,0,1\n1,0,0.5\n1,2,0.5\n")
    some = Tabulated.of(with_ids(people(300)))
    release_of(CellKey(tables=TABLES, keys=keys, ptable=PerturbationFile(file=table)), some)
    same = table.rename(tmp_path / "moved.csv")
    moved = CellKey(tables=TABLES, keys=keys, ptable=PerturbationFile(file=same))
    release_of(moved, some)
    lossy = "i,j,p\n0,0,1\n1,0,0.5\n1,1,0.5\n"
    same.write_text(lossy)
    release_of(replace(moved, keys=tmp_path / "lossy"), some)
    with pytest.raises(PrivacyError, match="expected the settings of those releases"):
        release_of(replace(moved, keys=tmp_path / "lossy", zeros="balance"), some)
    same.write_text("i,j,p\n0,0,1\n1,0,0.4\n1,1,0.2\n1,2,0.4\n")
    with pytest.raises(PrivacyError, match="expected the settings of those releases"):
        release_of(moved, some)


def test_processes_that_use_a_key_file_at_once_all_leave_their_people_in_it(tmp_path):
    keys = tmp_path / "keys"
    editions = [tabulate(with_ids(people(50), first=100 * n)) for n in range(12)]
    secret_of_file(keys, editions[0], "a way")
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda one: secret_of_file(keys, one, "a way"), editions))
    assert len({one.material for one in found}) == 1
    assert keys.read_text().count("\nids ") == 12


def test_a_secret_made_for_persons_is_made_once(tmp_path):
    counts = tabulate(with_ids(people(100)))
    first = secret_of_file(tmp_path / "keys", counts, "a way")
    assert secret_of_file(tmp_path / "keys", counts, "a way").material == first.material
