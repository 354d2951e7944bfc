"""Published measurements: every answer that an estimate could use, and every bound."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, reject
from hypothesis import settings as examples

from headcount.engines import LocalEngine
from headcount.errors import HeadcountError, InputError
from headcount.schema import Attribute, Schema
from headcount.storage import storage_at
from headcount.tabulate import CELLS, Counts, every_cell
from headcount.tabulate.counts import every_level
from headcount.topdown import _publish as publish
from headcount.topdown.measure import Measurements
from headcount.topdown.mechanism import TopDown
from headcount.topdown.solve.batch import NO_BOUND
from tests.topdown.small import (
    SCHEMA,
    bounded,
    counts_of,
    hierarchies,
    keyed,
    run,
    settings,
    tree,
    village,
    zcdp,
)

GROWN = {"of": "kind", "groups": {"homes": ["home"], "others": ["school", "nursing"]}}


def written(mechanism: TopDown, counts: Counts, folder: Path, *, workers: int = 1) -> Measurements:
    """The measurements of run 3, and their files."""
    levels = every_level(counts)
    design = mechanism.on(counts.domain)
    complete = design.settings
    made = Measurements(levels, complete, keyed(), run=3)
    publish.write_measurements(
        made.answers,
        mechanism._restrictions(design, levels, {}),
        complete,
        counts.schema,
        counts.geography,
        folder,
        engine=LocalEngine(workers),
    )
    return made


def rows(folder: Path, level: str, table: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of a table by unit and query, whatever the parts."""
    place = folder / f"{level}.parquet" / table
    if not place.is_dir():
        return {}
    found = ds.dataset(place, format="parquet").to_table().to_pylist()
    named = {(one["geocode"], one["query_name"]): one for one in found}
    assert len(named) == len(found)
    return named


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "UNITS_A_PART", 3)
    monkeypatch.setattr(publish, "VALUES_AT_ONCE", 8)


def test_every_answer_of_every_unit_is_the_one_that_is_drawn_by_its_address(
    tmp_path: Path, small_parts: None
):
    """The oracle draws each answer by itself; structural zeros are 0."""
    keys: dict[str, Any] = {
        "rho": "1/2",
        "unit": "add-remove",
        "queries": {
            CELLS: {"share": "1/4"},
            "age": {"by": ("age",), "share": "1/4"},
            "split": {"by": ("age", "grown"), "share": "1/4"},
            "total": {"by": (), "share": "1/4"},
        },
        "recodes": {"grown": GROWN},
    }
    mechanism = TopDown(**keys)
    counts = village()
    made = written(mechanism, counts, tmp_path, workers=2)
    complete = mechanism.completed(counts.schema, counts.geography)
    asked = {CELLS: every_cell(SCHEMA)} | {one.name: one for one in complete.marginals}
    shapes = {CELLS: [3, 2], "age": [2], "split": [2, 2], "total": [1]}
    told = {CELLS: ("kind", "age"), "age": ("*", "age"), "split": ("grown", "age")}
    for level in counts.geography.levels:
        found = rows(tmp_path, level, "DPQuery")
        codes = counts.geography.units[counts.geography.depth(level)]
        assert len(found) == 4 * len(codes)
        for name, query in asked.items():
            size = query.size(SCHEMA)
            for unit, code in enumerate(codes):
                where = np.full(size, unit), np.arange(size)
                expected = made.picker(level, where[0])(name, *where)
                if name == CELLS:
                    expected *= SCHEMA.possible
                one = found[str(code), f"{name}_dpq"]
                assert one["value"] == expected.tolist()
                assert one["query_shape"] == shapes[name]
                assert (one["kind"], one["age"]) == told.get(name, ("*", "*"))
                noise = made.planned.get((level, name))
                assert noise is not None
                assert noise.law is not None
                assert one["variance"] == noise.law.variance
                assert one["plb"] == pytest.approx(0.5 / 16)
    parts = sorted(path.name for path in (tmp_path / "leaf.parquet/DPQuery").iterdir())
    assert parts == [f"part-{number:05d}.parquet" for number in range(3)]
    file = pq.ParquetFile(tmp_path / "leaf.parquet/DPQuery/part-00000.parquet")
    assert file.num_row_groups > 4
    about = json.loads(file.schema_arrow.metadata[b"headcount"])
    assert about["level"] == "leaf"
    assert about["queries"]["split"]["by"] == ["age", {"recode": "grown", **GROWN}]
    assert about["queries"]["split"]["loss"] == {"rho": "1/32"}
    assert about["queries"]["split"]["law"] == "discrete Gaussian, sigma2 16"


def test_no_more_answers_are_held_at_once_than_so_many_or_those_of_one_unit(
    tmp_path: Path, small_parts: None, monkeypatch: pytest.MonkeyPatch
):
    """However many units a level has: memory does not grow with a nation."""
    held, draw = [], Measurements.values

    def watched(made: Measurements, level: str, query: str, units: range) -> Any:
        held.append(draw(made, level, query, units))
        return held[-1]

    monkeypatch.setattr(Measurements, "values", watched)
    written(settings(zcdp(1)), village(), tmp_path)
    assert max(len(one) for one in held) == 3
    assert all(one.size <= 8 for one in held if len(one) > 1)


@examples(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(hierarchies())
def test_the_constraints_are_those_that_the_estimate_keeps(tmp_path_factory: Any, drawn: Any):
    """Row by row they are the restrictions: exact where both bounds are the same."""
    mechanism, counts = drawn
    folder = tmp_path_factory.mktemp("measurements")
    levels = every_level(counts)
    try:
        restrictions = mechanism._restrictions(mechanism.on(counts.domain), levels, {})
    except HeadcountError:  # a place with nothing left to protect is refused
        reject()
    written(mechanism, counts, folder)
    for level, those in restrictions.items():
        found = rows(folder, level, "Constraint")
        codes = counts.geography.units[counts.geography.depth(level)].tolist()
        for one in those:
            for unit, code in enumerate(codes):
                low, high = one.low[unit], one.high[unit]
                exact = found.pop((code, f"{one.query.name}_con"), None)
                least = found.pop((code, f"{one.query.name}_lb_con"), None)
                most = found.pop((code, f"{one.query.name}_ub_con"), None)
                assert (exact is None) == (low != high).any()
                if exact is not None:
                    assert (exact["sign"], exact["value"]) == ("=", low.tolist())
                    assert least is most is None
                    continue
                for side, row, sign in ((low, least, ">="), (high, most, "<=")):
                    free = np.abs(side) >= NO_BOUND
                    values = [None if f else int(s) for s, f in zip(side, free, strict=True)]
                    if free.all() and sign == "<=":
                        assert row is None
                    else:
                        assert row is not None
                        assert (row["sign"], row["value"]) == (sign, values)
        assert not found


def test_threads_and_a_second_writing_make_the_same_files(tmp_path: Path, small_parts: None):
    mechanism = bounded(zcdp(1))
    for name, workers in (("one", 1), ("two", 2), ("two", 2)):
        written(mechanism, village(), tmp_path / name, workers=workers)
    one, two = (
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in (tmp_path / "one", tmp_path / "two")
    )
    assert one == two
    assert len(one) == 2 * (1 + 1 + 1 + 3)


def test_only_children_have_no_rows_and_others_the_noise_of_their_own_share(
    tmp_path: Path, small_parts: None
):
    """A town with one block, and one with two: of the only block nothing is written."""
    place = tree(("town", [2]), ("block", [1, 2]))
    cells = np.random.default_rng(3).integers(1, 40, (3, SCHEMA.size)) * SCHEMA.possible
    shares = {"whole": "1/4", "town": "1/4", "block": "1/2"}
    mechanism = settings(zcdp(1), levels=shares, bypass="town")
    made = written(mechanism, counts_of(cells, place), tmp_path)
    for level, expected in {
        "town": [("3/4", 0), ("1/4", 1)],
        "block": [("1/2", 1), ("1/2", 2)],
    }.items():
        found = rows(tmp_path, level, "DPQuery")
        codes = place.units[place.depth(level)].tolist()
        assert {code for code, _ in found} == {codes[unit] for _, unit in expected}
        for share, unit in expected:
            part = sum(one["plb"] for (code, _), one in found.items() if code == codes[unit])
            assert part == pytest.approx(float(Fraction(share)))
            value = made.values(level, "kind", range(unit, unit + 1))[0].tolist()
            assert found[codes[unit], "kind_dpq"]["value"] == value
    file = pq.ParquetFile(tmp_path / "town.parquet/DPQuery/part-00000.parquet")
    about = json.loads(file.schema_arrow.metadata[b"headcount"])["queries"]["kind"]
    assert "law" not in about
    own = {
        one["plb"]
        for (_, name), one in rows(tmp_path, "town", "DPQuery").items()
        if name == "kind_dpq"
    }
    assert {float(Fraction(one["loss"]["rho"])) for one in about["shares"]} == own


def test_without_noise_the_answers_are_exact_and_say_so(tmp_path: Path):
    counts = village()
    written(settings(None), counts, tmp_path)
    found = rows(tmp_path, "leaf", "DPQuery")
    for unit, code in enumerate(counts.geography.units[-1].tolist()):
        one = found[code, "cells_dpq"]
        assert one["value"] == counts.dense()[unit].tolist()
        assert (one["variance"], one["plb"]) == (0.0, None)
    assert not (tmp_path / "leaf.parquet/Constraint").exists()


def test_a_run_writes_them_and_the_release_stays_the_same(tmp_path: Path):
    mechanism = bounded(zcdp(1))
    outcome = run(mechanism, village(), measurements=tmp_path / "m")
    plain = run(mechanism, village())
    for level in plain.tables:
        assert np.array_equal(outcome.dense(level), plain.dense(level))
    assert rows(tmp_path / "m", "county", "DPQuery")
    assert rows(tmp_path / "m", "county", "Constraint")


def test_a_resumed_run_leaves_sound_files_and_writes_the_others_again(
    tmp_path: Path, small_parts: None
):
    work = storage_at(tmp_path / "work")

    def files(seed: int = 1) -> dict[Path, tuple[bytes, int]]:
        run(bounded(zcdp(1)), village(), seed=seed, workspace=work, measurements=tmp_path / "m")
        found = [path for path in (tmp_path / "m").rglob("*.parquet") if path.is_file()]
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}

    def part(path: Path) -> str:
        return f"{path.parts[-3].removesuffix('.parquet')}/{path.name}"

    first = files()
    damaged, missing, *_, unknown = sorted({part(path) for path in first})
    for path, (data, _) in first.items():
        if part(path) == damaged:
            path.write_bytes(data[:-1] + b"?")
        if part(path) == missing:
            path.unlink()
    work.put(f"written-0/{unknown}", b"not a note")
    second = files()
    assert {path: data for path, (data, _) in second.items()} == {
        path: data for path, (data, _) in first.items()
    }
    again = {part(path) for path, (_, when) in second.items() if when != first[path][1]}
    assert again == {damaged, missing, unknown} < {part(path) for path in first}
    other = files(seed=9)  # other noise in the same workspace
    assert all(other[path][0] != first[path][0] for path in first)  # each has its run's mark


@pytest.mark.parametrize("name", ["value", "geocode", "sign", "plb"])
def test_an_attribute_called_like_a_column_is_refused(name: str):
    schema = Schema((Attribute(name, ("a", "b")),))
    with pytest.raises(InputError, match=f"column '{name}': found an attribute of that name, exp"):
        publish.refuse_same_names(schema, tree(("leaf", [2])))


def test_a_level_called_like_the_file_of_places_is_refused():
    with pytest.raises(InputError, match="level 'units': found the name of the file of all places"):
        publish.refuse_same_names(SCHEMA, tree(("Units", [2])))
