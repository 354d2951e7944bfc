"""Published measurements read back: by ranges, as we and as the Bureau write them, and refused."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.domain import Domain
from headcount.errors import InputError
from headcount.mechanisms import Context, protect
from headcount.population.redistricting_2020 import read_units_2020
from headcount.privacy import UnitOfPrivacy
from headcount.processes import silent
from headcount.release import CountsRelease
from headcount.schema import load_schema
from headcount.storage import storage_at
from headcount.tabulate import CELLS
from headcount.topdown.from_measurements import estimate_from, start_from
from headcount.topdown.measurements import NoisyMeasurements, read_measurements
from headcount.topdown.mechanism import TopDown
from tests.topdown.measurements.census import (
    BLOCKS,
    LEVELS,
    MECHANISM,
    BureauFiles,
    as_the_bureau_has_it,
    people,
    published,
)

SCHEMA = load_schema("redistricting-2020")


@dataclass(frozen=True)
class Files:
    ours: Path
    theirs: Path
    release: CountsRelease


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """One run, and its measurements in both forms; nobody changes these."""
    folder = tmp_path_factory.mktemp("census")
    release = published(folder / "ours")
    as_the_bureau_has_it(folder / "ours", folder / "theirs")
    return Files(folder / "ours", folder / "theirs", release)


@pytest.fixture
def ours(made: Files, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.ours, tmp_path / "ours"))


@pytest.fixture
def theirs(made: Files, tmp_path: Path) -> BureauFiles:
    return BureauFiles(Path(shutil.copytree(made.theirs, tmp_path / "theirs")))


def opened(folder: Path, **keys: object) -> NoisyMeasurements:
    """The Bureau's files, with what they do not say themselves."""
    given = {"schema": SCHEMA, "levels": LEVELS, "spine": True, **keys}
    return read_measurements(folder, queries=MECHANISM.marginals, **given)  # type: ignore[arg-type]


def refused(folder: Path, *, levels: tuple[str, ...] = LEVELS) -> str:
    with pytest.raises(InputError) as error:
        start_from(folder, MECHANISM, schema=SCHEMA, levels=levels)
    return str(error.value)


def same(one: CountsRelease, other: CountsRelease) -> bool:
    return all(np.array_equal(one.at(level), other.at(level)) for level in LEVELS)


def test_any_range_of_units_has_the_rows_that_stand_in_the_files(made: Files):
    """The oracle looks up each row by its code and name."""
    noisy = opened(made.theirs)
    for level in LEVELS:
        rows = {}
        for path in BureauFiles(made.theirs).parts(level, "DPQuery"):
            for row in pl.read_parquet(path).iter_rows(named=True):
                rows[row["geocode"], row["query_name"]] = row
        codes = noisy.tree.units[noisy.tree.depth(level)].tolist()
        names = {"total": "total_dpq", "hhgq": "hhgq_dpq", CELLS: "detailed_dpq"}
        assert ("total" in noisy.measured(level)) == (level != "us")
        for query in noisy.measured(level):
            name = names.get(query, "votingage * hispanic_dpq")
            for units in (range(len(codes)), range(len(codes) // 2, len(codes)), range(0)):
                values = noisy.values(level, query, units)
                variances = noisy.variances(level, query, units)
                for at, unit in enumerate(units):
                    found = rows.get((codes[unit], name))
                    if found is None:
                        assert np.isnan(variances[at])
                        assert not values[at].any()
                    else:
                        assert values[at].tolist() == found["value"]
                        assert variances[at] == found["variance"]
    assert set(noisy.measured("tract")) == {"total", "hhgq", "votingage_hispanic", CELLS}


def test_only_children_have_no_answers_and_the_list_of_units_is_that_of_the_constraints(
    made: Files,
):
    """Of each state of one county, and each county of one tract, the units below gave theirs up."""
    noisy = opened(made.theirs)
    alone = np.isnan(noisy.variances("tract", "total", range(noisy.tree.size("tract"))))
    assert noisy.tree.units[3][alone].tolist() == ["044003000100"]
    assert noisy.tree.size("block") == len(BLOCKS)


def test_bounds_are_those_that_were_written(made: Files):
    """Of the Bureau's rows, shuffled and in partitions, and of ours: the same."""
    theirs, ours = opened(made.theirs), read_measurements(made.ours)
    for level in LEVELS:
        every = range(ours.tree.size(level))
        assert set(theirs.bounded[level]) == set(ours.bounded[level])
        for query in ours.bounded[level]:
            for side in (0, 1):
                found = theirs.bounds(level, query, every)[side]
                np.testing.assert_array_equal(found, ours.bounds(level, query, every)[side])
    low, high = theirs.bounds("state", "total", range(2))
    assert (low == high).all()


def test_numbers_of_rows_in_a_workspace_are_read_by_whoever_gets_the_reader(
    made: Files, tmp_path: Path
):
    here = opened(made.theirs)
    noisy = opened(made.theirs, workspace=storage_at(tmp_path / "rows"))
    sent = pickle.loads(pickle.dumps(noisy))
    assert len(pickle.dumps(noisy)) < 40_000  # where files are, not what is in them
    for level in LEVELS:
        every = range(here.tree.size(level))
        for query in here.measured(level):
            found = sent.values(level, query, every)
            np.testing.assert_array_equal(found, here.values(level, query, every))


def test_the_bureaus_files_give_the_release_of_the_run_in_its_own_places(made: Files):
    """Spine codes in, tabulation codes out: the same blocks under their own tracts."""
    start = start_from(made.theirs, MECHANISM, schema=SCHEMA)
    release = estimate_from(start)
    assert release.geography.units[-1].tolist() == sorted(BLOCKS)
    assert release.geography.units[3].tolist() == made.release.geography.units[3].tolist()
    assert same(release, made.release)
    assert release.guarantee.losses == (MECHANISM.loss,)
    stated = MECHANISM.on(Domain(SCHEMA, release.geography)).guarantee
    assert release.guarantee == replace(stated, made_from=release.guarantee.made_from)
    assert "one record is changed, or moved, within one state" in " ".join(stated.unit_means)
    assert "no data were read and nothing new is spent" in " ".join(release.guarantee.sentences())


def test_upper_levels_alone_are_enough_to_start(made: Files, tmp_path: Path):
    """Counties keep the counts of the whole run; shares that were moved up are still known."""
    upper = as_the_bureau_has_it(made.ours, tmp_path / "upper", levels=LEVELS[:3])
    start = start_from(upper.folder, MECHANISM, schema=SCHEMA, levels=LEVELS[:3])
    release = estimate_from(start)
    assert release.geography.levels == LEVELS[:3]
    assert release.geography.units[2].tolist() == ["044001", "044003", "050001"]
    spine = made.release.geography.spine
    assert spine is not None
    for level in LEVELS[:3]:
        np.testing.assert_array_equal(release.at(level), made.release.at(level))
    assert release.guarantee.losses == (MECHANISM.loss,)
    stated = MECHANISM.on(Domain(SCHEMA, made.release.geography)).guarantee
    assert release.guarantee.released_exactly == stated.released_exactly
    assert release.guarantee.not_covered == stated.not_covered


def test_totals_of_parts_together_come_back(tmp_path: Path):
    """With blocks in a reservation the spine has a state in two parts, of one exact total."""
    release = published(tmp_path / "m", inside=(BLOCKS[0], BLOCKS[5]))
    start = start_from(tmp_path / "m")
    assert start.joint["state"].group.tolist() == [0, 1, 0]
    assert same(estimate_from(start), release)


def test_states_in_parts_whose_total_nobody_tells_are_estimated_without_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    published(tmp_path / "m", inside=(BLOCKS[0], BLOCKS[5]))
    theirs = as_the_bureau_has_it(tmp_path / "m", tmp_path / "theirs")
    start = start_from(theirs.folder, MECHANISM, schema=SCHEMA)
    assert "no constraint has the total of 2 units of 'state' that the spine has in" in caplog.text
    low, high = start.measurements.bounds("state", "hhgq", range(3))
    release = estimate_from(start)
    tree = release.geography.spine
    assert tree is not None
    assert tree.units[1].tolist() == ["044", "050", "144"]
    assert (low < high).any()
    assert release.at("us").sum() == len(people(inside=()).unit)
    said = " ".join(release.guarantee.sentences())
    assert "Released without noise: 'total' of every state." not in said
    assert (
        "Released without noise: 'total' of every state but 1 that the spine has in parts: the "
        "files do not have their totals, and they are not kept." in said
    )
    assert (
        "Released without noise: the bounds on 'hhgq' of each of the 2 parts in which the spine "
        "has a state, as the files have them." in said
    )
    assert "databases that differ in what is released without noise" in said
    assert "one record is changed, or moved, within one state" in said
    note = "state: exact totals that are not kept, for the files do not have them"
    assert release.notes[note] == 1


def test_bounds_that_the_settings_do_not_tell_of_are_stated_too(made: Files):
    """The files have bounds on living quarters, and the estimate keeps them whoever asks."""
    start = start_from(made.theirs, replace(MECHANISM, bounds=()), schema=SCHEMA)
    said = start.guarantee.released_exactly
    assert "the bounds on 'hhgq' of every county, as the files have them" in said


def test_a_missing_level_is_refused(theirs: BureauFiles):
    shutil.rmtree(theirs.folder / "Tract.parquet")
    assert "level 'tract': found no folder for it among" in refused(theirs.folder)


def test_a_level_without_answers_is_refused(theirs: BureauFiles):
    shutil.rmtree(theirs.folder / "Tract.parquet/DPQuery")
    assert "level 'tract', geounit '044001000100': found no answers" in refused(theirs.folder)


def test_another_variance_than_its_share_says_is_refused(theirs: BureauFiles):
    theirs.change("tract", "DPQuery", lambda f: f.with_columns(pl.col("variance") * 1.001))
    said = refused(theirs.folder)
    assert "level 'tract', geounit '044001000100', query 'total': found variance" in said
    assert "as its share says" in said


def test_a_share_that_is_not_of_its_place_in_the_tree_is_refused(theirs: BureauFiles):
    """An only child with answers of its own, where its parent has them too."""
    (other,) = (p for p in theirs.parts("tract", "DPQuery") if "State=44" in str(p))
    own = pl.read_parquet(other)
    alone = own.filter(pl.col("geocode") == "044001000100")
    moved = alone.with_columns(pl.lit("044003000100").alias("geocode"))
    pl.concat([own, moved]).write_parquet(other)
    said = refused(theirs.folder)
    assert "level 'tract', geounit '044003000100': found variances of another share" in said


def test_a_geounit_twice_is_refused(theirs: BureauFiles):
    theirs.change("county", "DPQuery", lambda f: pl.concat([f, f[:1]]))
    said = refused(theirs.folder)
    assert "level 'county', geounit" in said
    assert "expected one row for each geounit and query" in said


def test_a_geounit_in_two_files_is_refused(theirs: BureauFiles):
    part = theirs.parts("county", "Constraint")[0]
    shutil.copy(part, part.with_name("part-1.parquet"))
    assert "found a second row for" in refused(theirs.folder)


def test_geounits_without_constraints_are_refused(theirs: BureauFiles):
    theirs.change(
        "block", "Constraint", lambda f: f.filter(~pl.col("geocode").str.ends_with(BLOCKS[3]))
    )
    said = refused(theirs.folder)
    assert f"{BLOCKS[3]}'" in said
    assert "expected a geounit with a row in Constraint, which is the list of geounits" in said


def test_a_level_without_constraints_is_refused(theirs: BureauFiles):
    shutil.rmtree(theirs.folder / "County.parquet/Constraint")
    assert "level 'county': found no rows in Constraint" in refused(theirs.folder)


def test_an_exact_total_that_is_not_among_the_constraints_is_refused(theirs: BureauFiles):
    theirs.change("state", "Constraint", lambda f: f.filter(pl.col("query_name") != "total_con"))
    said = refused(theirs.folder)
    assert "level 'state', geounit '044': found no constraint that 'total' is exact" in said


@pytest.mark.parametrize(
    ("level", "name", "sign"),
    [("county", "hhgq_total_ub_con", "<="), ("tract", "hhgq_total_lb_con", ">=")],
)
def test_a_bound_that_one_unit_lacks_is_refused(
    theirs: BureauFiles, level: str, name: str, sign: str
):
    """A row that is lost is not taken for no bound."""
    code = {"county": "044001", "tract": "044001000100"}[level]
    gone = (pl.col("query_name") == name) & (pl.col("geocode") == code)
    theirs.change(level, "Constraint", lambda f: f.filter(~gone))
    said = refused(theirs.folder)
    found = f"no row for 'hhgq' with the sign {sign!r} or '=' in Constraint (1 of "
    assert f"level {level!r}, geounit {code!r}: found {found}" in said
    assert "expected the constraints of every geounit, where some have them" in said


def test_an_exact_total_that_one_unit_lacks_is_refused(theirs: BureauFiles):
    """Only a unit in parts may have none."""
    gone = (pl.col("query_name") == "total_con") & (pl.col("geocode") == "044")
    theirs.change("state", "Constraint", lambda f: f.filter(~gone))
    said = refused(theirs.folder)
    assert (
        "level 'state', geounit '044': found no row for 'total' with the sign '>=' or '='" in said
    )


def test_in_our_files_every_unit_has_its_constraints(ours: Path):
    part = ours / "tract.parquet/Constraint/part-00000.parquet"
    about = pl.read_parquet_metadata(part)["headcount"]
    rest = pl.read_parquet(part).filter(pl.col("geocode") != "044001000100")
    rest.write_parquet(part, metadata={"headcount": about})
    with pytest.raises(InputError, match=r"geounit '044001000100': found no row for 'hhgq' in Con"):
        read_measurements(ours)


@pytest.mark.parametrize("where", ["Block.parquet/DPQuery", "State.parquet/Constraint"])
def test_a_file_that_is_cut_off_is_refused(theirs: BureauFiles, where: str):
    path = next((theirs.folder / where).rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-100])
    said = refused(theirs.folder)
    assert str(path) in said
    assert "found a file that is cut off or damaged" in said


def test_places_in_a_damaged_file_are_refused(ours: Path):
    path = ours / "units.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes(60) + data[64:])
    with pytest.raises(InputError, match=r"units.parquet: found a file that is cut off or damaged"):
        read_measurements(ours)


def changed_first(column: str, value: object) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Another value in the first row of the query by kind of quarters."""

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        row = int((frame["query_name"] == "hhgq_dpq").arg_max() or 0)
        values = frame[column].to_list()
        values[row] = value
        return frame.with_columns(pl.Series(column, values, dtype=frame[column].dtype))

    return change


def test_another_shape_of_a_query_is_refused(theirs: BureauFiles):
    theirs.change("county", "DPQuery", changed_first("query_shape", [4, 2]))
    said = refused(theirs.folder)
    assert "column 'query_shape', query 'hhgq_dpq': found shape [4, 2], expected [8]" in said


def test_lists_of_another_length_are_refused(theirs: BureauFiles):
    theirs.change("county", "DPQuery", changed_first("value", [1, 2, 3]))
    assert "numbers in the lists of its rows, expected" in refused(theirs.folder)


def test_an_unknown_query_is_refused(theirs: BureauFiles):
    theirs.change("county", "DPQuery", changed_first("query_name", "sex_dpq"))
    said = refused(theirs.folder)
    assert "level 'county', column 'query_name': found 'sex_dpq', an unknown query" in said


def test_an_unknown_sign_is_refused(theirs: BureauFiles):
    theirs.change("state", "Constraint", lambda f: f.with_columns(pl.lit("<").alias("sign")))
    assert "column 'sign': found '<', expected one of '=', '>=', '<='" in refused(theirs.folder)


def test_a_query_that_some_unit_lacks_is_refused(theirs: BureauFiles):
    gone = (pl.col("query_name") == "hhgq_dpq") & (pl.col("geocode") == "044001")
    theirs.change("county", "DPQuery", lambda f: f.filter(~gone))
    said = refused(theirs.folder)
    assert (
        "geounit '044001': found answers to 'hhgq' of another share than to other queries" in said
    )


def test_two_runs_mixed_are_refused(ours: Path, tmp_path: Path):
    """Each run has noise of its own: files of another fit in every other way."""
    published(tmp_path / "other", seed=5)
    part = "tract.parquet/DPQuery/part-00000.parquet"
    shutil.copy(tmp_path / "other" / part, ours / part)
    with pytest.raises(InputError, match="found measurements of another run than those of"):
        read_measurements(ours)


def test_a_folder_that_holds_no_measurements_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="found no such folder"):
        read_measurements(tmp_path / "nowhere")
    with pytest.raises(InputError, match="found no folder of a level"):
        read_measurements(tmp_path)


def test_files_that_do_not_describe_themselves_need_a_schema_and_levels(theirs: BureauFiles):
    with pytest.raises(InputError, match="expected a schema, and the levels from the whole down"):
        read_measurements(theirs.folder)


def test_a_code_that_begins_with_no_parents_is_refused(theirs: BureauFiles):
    for table in ("DPQuery", "Constraint"):
        theirs.change(
            "tract",
            table,
            lambda f: f.with_columns(pl.col("geocode").str.replace("^050001", "050009")),
        )
    said = refused(theirs.folder)
    assert "geounit '050009000100': found a code that begins with no geounit's" in said


def test_of_housing_units_the_loss_of_a_person_is_stated_too(tmp_path: Path):
    """By the settings' own guarantee: what is exact of every block is so of every part."""
    blocks = pl.DataFrame(
        {
            "block": BLOCKS,
            "state": [code[:2] for code in BLOCKS],
            "county": [code[:5] for code in BLOCKS],
            "tract": [code[:11] for code in BLOCKS],
            "area": ["0012" if code in (BLOCKS[0], BLOCKS[5]) else "9999" for code in BLOCKS],
            "place": ["00001"] * len(BLOCKS),
            "subdivision": ["00001"] * len(BLOCKS),
        }
    )
    units = pl.DataFrame(
        [(code, "000", occupied, 5) for code in BLOCKS for occupied in (0, 1)],
        schema=["block", "gqtype", "occupied", "count"],
        orient="row",
    )
    homes = read_units_2020(units, blocks=blocks)
    mechanism = TopDown.from_preset("h1-2020-us")
    release = protect(homes, mechanism, seed=4, context=Context(measurements=tmp_path / "m"))
    offered = mechanism.publications()["measurements"]
    offered.write(release, tmp_path / "m", quarters=None, progress=silent)
    theirs = as_the_bureau_has_it(tmp_path / "m", tmp_path / "theirs")
    start = start_from(theirs.folder, mechanism, schema=homes.schema, levels=LEVELS)
    stated = mechanism.on(Domain(homes.schema, start.measurements.geography)).guarantee
    assert [loss.unit for loss in start.guarantee.losses] == [
        UnitOfPrivacy.HOUSING_UNIT_CHANGE_ONE,
        UnitOfPrivacy.CHANGE_ONE,
    ]
    assert start.guarantee == replace(stated, made_from=start.guarantee.made_from)
    assert not start.notes
