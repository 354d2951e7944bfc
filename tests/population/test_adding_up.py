"""What adds up in a table of counts, and what a reader makes of it."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from headcount.config.load import load_config
from headcount.errors import ConfigError, InputError
from headcount.population.adding_up import (
    equal_families,
    families_within,
    levels_below_each_other,
    nearly_sums,
    runs_that_add_up,
)
from headcount.population.counts import read_counts
from headcount.schema import Attribute, Schema

PARTS = np.random.default_rng(30).integers(1, 10_000, (20, 6))


def test_totals_of_totals_are_found_before_or_after_their_parts() -> None:
    a, b = PARTS[:, :2].sum(axis=1), PARTS[:, 2:].sum(axis=1)
    before = np.column_stack([a + b, a, PARTS[:, :2], b, PARTS[:, 2:]])
    assert dict(runs_that_add_up(before)) == {4: (5, 6, 7, 8), 1: (2, 3), 0: (1, 4)}
    after = before[:, ::-1]
    assert {total for total, _ in runs_that_add_up(after)} == {8, 7, 4}
    assert runs_that_add_up(PARTS) == []


def test_small_numbers_add_up_by_chance_and_prove_nothing() -> None:
    assert runs_that_add_up(np.array([[3, 1, 2], [5, 4, 1]])) == []
    assert runs_that_add_up(np.zeros((5, 3), dtype=np.int64)) == []


def test_a_column_with_one_part_that_is_not_empty_is_no_total() -> None:
    own = PARTS[:, 0]
    assert runs_that_add_up(np.column_stack([own, own, 0 * own])) == []


def test_sums_that_are_off_in_some_rows_are_told_with_the_rows() -> None:
    total = PARTS.sum(axis=1)
    total[[3, 7]] += 2
    (near,) = nearly_sums(np.column_stack([total, PARTS]), among=[0])
    assert (near.total, near.parts, near.wrong.tolist(), near.off) == (
        0,
        (1, 2, 3, 4, 5, 6),
        [3, 7],
        2,
    )
    assert list(nearly_sums(PARTS)) == []


def test_the_same_people_counted_again_are_found() -> None:
    other = np.column_stack([PARTS[:, :4].sum(axis=1) - 5, PARTS[:, 4:].sum(axis=1) + 5])
    families = equal_families(np.column_stack([PARTS, other]))
    assert families == [(0, 1, 2, 3, 4, 5), (6, 7)]
    assert equal_families(PARTS) == []


def test_levels_of_place_below_each_other_are_found_by_their_sum() -> None:
    for leaves in (PARTS[:, :1], PARTS[:, :2], PARTS[:, :2] % 90):
        parents = np.array([leaves[:10].sum(axis=0), leaves[10:].sum(axis=0)])
        mixed = np.concatenate([leaves, leaves.sum(axis=0)[None], parents])
        assert levels_below_each_other(mixed) == 3
        assert levels_below_each_other(leaves) == 1
        off = mixed.copy()
        off[0, 0] += leaves.sum() // 50
        assert levels_below_each_other(off) == 1


def table(folder: Path) -> Path:
    path = folder / "counts.csv"
    rows = [f"w{n},{a + b},{a},{b}" for n, (a, b) in enumerate(PARTS[:, :2].tolist())]
    path.write_text("\n".join(["ward,all,men,women", *rows]))
    return path


SCHEMA = Schema((Attribute("group", ("all", "men", "women")),))


def test_a_cell_that_adds_up_others_is_refused_unless_overlap_says_so(tmp_path: Path) -> None:
    path = table(tmp_path)
    message = "column 'all': found the sum of 'men', 'women' in every row: people who are counted"
    with pytest.raises(InputError, match=message):
        read_counts(path, schema=SCHEMA, geography="ward")
    people = read_counts(path, schema=SCHEMA, geography="ward", overlap=2)
    assert people.domain.one_person.startswith(
        "one person is one count in one cell of one row of the table; but a person may be counted "
        "in up to 2 cells or rows, and for such a person the loss is up to 2 times the one that is "
        "stated"
    )


@pytest.mark.parametrize(
    ("names", "schema"),
    [
        (
            ("pop_m", "pop_f", "vap_m", "vap_f"),
            Schema((Attribute("of", ("pop", "vap")), Attribute("sex", ("m", "f")))),
        ),
        (
            ("pop.m", "pop.f", "vap.m", "vap.f"),
            Schema((Attribute("group", ("pop.m", "pop.f", "vap.m", "vap.f")),)),
        ),
        (
            ("v1", "v2", "v3", "v4"),
            Schema((Attribute("of", ("all", "workers")), Attribute("sex", ("m", "f")))),
        ),
    ],
)
def test_a_family_of_columns_within_another_is_refused_unless_overlap_says_so(
    tmp_path: Path, names: tuple[str, ...], schema: Schema
) -> None:
    parts = PARTS[:, :2] // 3
    rows = [
        f"w{n},{','.join(map(str, row))}" for n, row in enumerate(np.hstack([PARTS[:, :2], parts]))
    ]
    path = tmp_path / "counts.csv"
    path.write_text("\n".join([f"ward,{','.join(names)}", *rows]))
    columns = {
        name: dict(zip(schema.names, level, strict=True))
        for name, level in zip(
            names, itertools.product(*(one.levels for one in schema.attributes)), strict=True
        )
    }
    message = (
        f"columns '{names[2]}', '{names[3]}': found at most '{names[0]}', '{names[1]}' in every row"
        ": part of the same people, who are then counted twice"
    )
    with pytest.raises(InputError, match=message) as error:
        read_counts(path, schema=schema, geography="ward", columns=columns)
    assert "overlap = 1 says that they are different people" in error.value.expected
    once = read_counts(path, schema=schema, geography="ward", columns=columns, overlap=1)
    assert "may be counted" not in once.domain.one_person
    twice = read_counts(path, schema=schema, geography="ward", columns=columns, overlap=2)
    assert "up to 2 times the one that is stated" in twice.domain.one_person


def test_the_same_people_by_age_and_by_race_are_refused_unless_overlap_says_so(
    tmp_path: Path,
) -> None:
    young = PARTS[:, 0] // 2
    rows = [
        f"w{n},{a},{b},{c},{a + b + c - d},{d}"
        for n, (a, b, c, d) in enumerate(np.column_stack([PARTS[:, :3], young]).tolist())
    ]
    path = tmp_path / "counts.csv"
    path.write_text("\n".join(["ward,white,black,asian,old,young", *rows]))
    schema = Schema((Attribute("group", ("white", "black", "asian", "old", "young")),))
    with pytest.raises(InputError, match="2 families with the same sum in every row: the same peo"):
        read_counts(path, schema=schema, geography="ward")
    read_counts(path, schema=schema, geography="ward", overlap=1)


def test_families_that_part_people_or_are_there_by_chance_are_none() -> None:
    sexes = [("m", "a"), ("m", "b"), ("f", "a"), ("f", "b")]
    counts = np.hstack([PARTS[:, :2], PARTS[:, :2] // 2])
    assert families_within(counts, sexes) is None
    races = [("white", *key[1:]) if key[0] == "m" else ("black", *key[1:]) for key in sexes]
    found = families_within(counts, races)
    assert found is not None
    assert [one.name for one in found] == ["black", "white"]
    assert families_within(counts[:3], races) is None  # too few to tell
    counts[19, 0] = 0
    assert families_within(counts, races) is None
    assert families_within(counts, [("a",), ("b",), ("c",), ("d",)]) is None


def test_the_guarantee_says_what_it_is_for_a_person_counted_twice(tmp_path: Path) -> None:
    from headcount.run.protect import prepare_run

    table(tmp_path)
    (tmp_path / "schema.toml").write_text(
        '[[attribute]]\nname = "group"\nlevels = ["all", "men", "women"]\n'
    )
    config = tmp_path / "config.toml"
    text = (
        '[population]\nkind = "counts"\nfile = "counts.csv"\nschema = "schema.toml"\noverlap = 2\n'
        '[population.geography]\ncolumns = ["ward"]\n'
        '[mechanism]\nname = "geometric"\nepsilon = 1\n[run]\nout = "run"\n'
    )
    config.write_text(text)
    said = " ".join(prepare_run(load_config(config)).guarantee.sentences())
    assert "for such a person the loss is up to 2 times the one that is stated" in said
    config.write_text(text.replace("overlap = 2", "overlap = 0"))
    with pytest.raises(ConfigError, match="overlap: found 0, expected in how many cells or rows"):
        load_config(config)


def test_blanks_around_values_do_not_count(tmp_path: Path) -> None:
    path = table(tmp_path)
    text = path.read_text().replace("\nw", "\n  w").replace(",", " , ").replace(" , ", ",", 3)
    path.write_text(text)
    people = read_counts(path, schema=SCHEMA, geography="ward", overlap=2)
    assert people.geography.units[-1].tolist()[:2] == ["w0", "w1"]
