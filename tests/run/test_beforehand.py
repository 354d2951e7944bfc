"""Before a loss the release of nobody is made and read again: what cannot be made is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.config.load import load_config
from headcount.errors import ConfigError, InputError, RunError
from headcount.geography import Geography
from headcount.geography.geography import regular
from headcount.mechanisms import Chain
from headcount.mechanisms.sampling import Sampling
from headcount.privacy import Ledger, PureLoss, SpendState, UnitOfPrivacy
from headcount.release.release import CountsRelease
from headcount.release.store import read_release
from headcount.run._beforehand import _few_leaves
from headcount.run.error_report import error_report
from headcount.run.estimate import estimate_run
from headcount.run.evaluate import evaluate_run
from headcount.run.plan import plan_of_measurements
from headcount.run.protect import prepare_run, protect_run
from headcount.topdown.measurements import read_measurements
from tests.run.town import write_config, write_town

LEDGER = 'ledger = "ledger.db"\ndataset = "town"'


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    ledger = Ledger.create(tmp_path / "ledger.db")
    total = PureLoss(epsilon=Fraction(9), unit=UnitOfPrivacy.CHANGE_ONE)
    ledger.declare("town", total=total)
    return tmp_path


def config_of(
    folder: Path,
    columns: list[str],
    rows: list[list[str]],
    *,
    levels: int,
    mechanism: str = 'name = "geometric"\nepsilon = 1',
    run: str = "",
) -> Path:
    """A config of a table: the first columns are places, the others attributes."""
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    frame.write_csv(folder / "table.csv", quote_style="always")
    attributes = ", ".join(f"{{ name = {name!r} }}" for name in columns[levels:])
    population = (
        'kind = "microdata"\nfile = "table.csv"\n'
        f"geography = {{ columns = {columns[:levels]!r} }}\n"
        f"attribute = [{attributes}]"
    )
    return write_config(folder, population=population, mechanism=mechanism, run=f"{LEDGER}\n{run}")


def refused(config: Path, folder: Path, match: str) -> None:
    """Refused by ``check``, with nothing written or spent."""
    with pytest.raises((ConfigError, InputError), match=match):
        prepare_run(load_config(config))
    assert not (folder / "out").exists()
    assert Ledger.open(folder / "ledger.db").history("town") == ()


ONE_STATE = [["S", tract, sex] for tract in "abc" for sex in "fm" for _ in range(4)]
MEASURED = 'name = "topdown"\nepsilon = 1'


def test_a_level_that_is_neither_measured_nor_bounded_is_published_and_read_as_absent(town: Path):
    config = config_of(
        town,
        ["state", "tract", "sex"],
        ONE_STATE,
        levels=2,
        mechanism=MEASURED,
        run='publish = ["measurements"]\nseed = 1',
    )
    out = protect_run(config)
    (spend,) = Ledger.open(town / "ledger.db").history("town")
    assert spend.state is SpendState.COMPLETE
    folder = out / "release/measurements"
    assert sorted(path.name for path in folder.iterdir()) == [
        "tract.parquet",
        "units.parquet",
        "whole.parquet",
    ]
    found = read_measurements(folder)
    assert found.measured("state") == ()
    assert found.bounded["state"] == ()
    assert np.isnan(found.variances("state", "cells", range(1))).all()
    assert {one.level for one in plan_of_measurements(out).levels} == {"whole", "state", "tract"}
    (town / "again.toml").write_text(
        '[measurements]\nfolder = "out/release/measurements"\n[run]\nout = "again"\n'
    )
    again = read_release(estimate_run(town / "again.toml") / "release").as_counts()
    first = read_release(out / "release").as_counts()
    for level in first.tables:
        np.testing.assert_array_equal(again.at(level), first.at(level))
    error_report(out, runs=2)
    evaluate_run(out)


def test_a_lost_folder_of_a_measured_level_is_still_refused(town: Path):
    config = config_of(
        town,
        ["state", "tract", "sex"],
        ONE_STATE,
        levels=2,
        mechanism=MEASURED,
        run='publish = ["measurements"]\nseed = 1',
    )
    folder = protect_run(config) / "release/measurements"
    (folder / "tract.parquet").rename(folder / "other")
    with pytest.raises(InputError, match="level 'tract': found no folder for it among"):
        read_measurements(folder)


@pytest.mark.parametrize(
    ("columns", "values", "run", "match"),
    [
        (["n"], ["1", "2"], "tidy = true", "attribute 'n': found the name of the column of counts"),
        (["a\0b"], ["1", "2"], "", "found the character 0 in it"),
        (["sex"], ["f", "m\0"], "", "level of 'sex' 'm.x00': found the character 0 in it"),
        (["*"], ["1", "2"], "", r"column '\*': found a name that stands for other columns"),
        (["sex"], ["^f$", "m"], "", r"cell '\^f\$': found a pattern for names of columns"),
    ],
)
def test_names_that_no_column_can_have_are_refused_before_the_loss(
    town: Path, columns: list[str], values: list[str], run: str, match: str
):
    if "\0" in columns[0] + "".join(values):  # text of a file cannot hold it
        name = columns[0].replace("\0", "")
        named = columns[0].replace("\0", "\\u0000")
        levels = [value.replace("\0", "\\u0000") for value in values]
        config = config_of(town, ["tract", name], [["a", "1"], ["b", "2"]], levels=1, run=run)
        text = config.read_text()
        wanted = (
            f'attribute = [{{ name = "{named}", column = "{name}", '
            f'values = {{ "1" = "{levels[0]}", "2" = "{levels[1]}" }} }}]'
        )
        start = text.index("attribute = ")
        config.write_text(text[:start] + wanted + text[text.index("\n", start) :])
    else:
        rows = [["a", values[0]], ["b", values[1]]]
        config = config_of(town, ["tract", *columns], rows, levels=1, run=run)
    refused(config, town, match)


LAYOUTS = ('format = ["csv"]', 'format = ["csv"]\ntidy = true', "", "tidy = true")


@pytest.mark.parametrize("run", LAYOUTS)
@pytest.mark.parametrize("level", ['q"x', "a,b", "a\nb", "[0]", "{}", "None", "", " x "])
def test_odd_levels_are_released_and_read_again(town: Path, level: str, run: str):
    (town / "people.csv").write_text("tract,sex\na,1\nb,2\n")
    said = level.replace("\n", "\\n").replace('"', '\\"')
    population = (
        'kind = "microdata"\nfile = "people.csv"\ngeography = { columns = ["tract"] }\n'
        f'attribute = [{{ name = "sex", values = {{ "1" = "{said}", "2" = "m" }} }}]'
    )
    config = write_config(town, population=population, run=run, mechanism='name = "identity"')
    try:
        prepared = prepare_run(load_config(config))
    except (ConfigError, InputError):
        assert level.strip() != level or not level
        return
    out = protect_run(config)
    release = read_release(out / "release").as_counts()
    np.testing.assert_array_equal(release.at("tract"), prepared.counts.dense())
    evaluate_run(out)


def test_a_level_of_the_geography_may_look_like_a_pattern_of_files(town: Path):
    config = config_of(town, ["[0]", "sex"], [["a", "f"], ["b", "m"]], levels=1)
    assert read_release(protect_run(config) / "release").geography.leaf == "[0]"


def test_a_release_that_is_read_otherwise_is_refused_before_the_loss(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    """Negative control: a reader that loses a count."""

    def careless(folder: Path) -> CountsRelease:
        read = read_release(folder).as_counts()
        for table in read.tables.values():
            table += 1
        return read

    monkeypatch.setattr("headcount.run._beforehand.read_release", careless)
    refused(
        write_config(town, run=LEDGER),
        town,
        "a rehearsal of it without people: found other places or tables when its files were read",
    )


def test_what_fails_in_writing_fails_before_the_loss(town: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_given: object, **_named: object) -> None:
        raise RunError("found a fault, expected none")

    monkeypatch.setattr("headcount.run._beforehand.write_release", broken)
    with pytest.raises(RunError, match="found a fault"):
        protect_run(write_config(town, run=LEDGER))
    assert not (town / "out").exists()
    assert Ledger.open(town / "ledger.db").history("town") == ()


def test_the_rehearsal_leaves_nothing_and_draws_nothing(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    def drawn(*_given: object, **_named: object) -> None:
        pytest.fail("noise was drawn")

    monkeypatch.setattr("headcount.noise.keyed.KeyedNoise.draw", drawn)
    monkeypatch.setattr("headcount.noise.keyed.KeyedNoise.draw_at", drawn)
    before = sorted(town.rglob("*"))
    prepare_run(load_config(write_config(town, mechanism=MEASURED)))
    assert sorted(town.rglob("*")) == [*before, town / "config.toml"] or set(town.rglob("*")) - set(
        before
    ) == {town / "config.toml"}


# --- the few places that stand for all ----------------------------------------------------------


def shape(geography: Geography) -> list[tuple[bool, bool, bool]]:
    """Of each level: as many units as above, only children, sisters."""
    found = []
    for depth in range(1, len(geography.levels)):
        children = np.bincount(geography.parents[depth])
        alike = len(geography.units[depth]) == len(geography.units[depth - 1])
        found.append((alike, bool((children == 1).any()), bool((children > 1).any())))
    return found


def chained(*sizes: tuple[int, ...]) -> Geography:
    """A tree by the numbers of children of each unit, level by level."""
    levels, units, parents = ["whole"], [np.array(["whole"])], [np.empty(0, dtype=np.int32)]
    for depth, children in enumerate(sizes):
        parent = np.repeat(np.arange(len(children), dtype=np.int32), children)
        levels.append(f"l{depth}")
        units.append(np.array([f"{depth}-{k:04}" for k in range(len(parent))]))
        parents.append(parent)
    return Geography(tuple(levels), tuple(units), tuple(parents))


@pytest.mark.parametrize(
    "geography",
    [
        regular(children=3, depth=4),
        chained((1,), (50,)),
        chained((30,), (1,) * 30),
        chained((20,), (1,) * 19 + (4,)),
        chained((1,), (1,), (1,)),
        chained((40,), (2,) * 40, (1,) * 80),
    ],
)
def test_few_places_keep_the_shape_of_each_level(geography: Geography):
    leaves = _few_leaves(geography)
    fewer = geography.of_leaves(leaves)
    for few, whole in zip(shape(fewer), shape(geography), strict=True):
        assert few[0] == whole[0]
        assert few >= whole  # sisters and only children, where there are any
    assert fewer.size(fewer.leaf) <= 16
    np.testing.assert_array_equal(fewer.units[-1], geography.units[-1][leaves])
    for level in geography.levels:  # who is above whom is as it was
        depth = geography.depth(level)
        own = fewer.units[depth][fewer.ancestors(level)]
        wanted = geography.units[depth][geography.ancestors(level)[leaves]]
        np.testing.assert_array_equal(own, wanted)


def test_odd_codes_are_among_the_few():
    codes = np.array([f"{k:03}" for k in range(400)])
    codes = codes.astype("<U9")
    codes[377], codes[390] = 'q"x', "a,b"
    geography = Geography(
        ("whole", "tract"),
        (np.array(["whole"]), codes),
        (np.empty(0, dtype=np.int32), np.zeros(400, dtype=np.int32)),
    )
    assert {377, 390} <= set(_few_leaves(geography).tolist())


def test_steps_that_change_records_are_left_out_of_a_rehearsal_but_for_their_weight():
    chain = Chain.of(Sampling(fraction=Fraction(1, 4))).for_a_trial(of_nobody=True)
    assert chain.weight == 4
    assert [step.name for step in chain.steps] == ["unchanged"]
    assert chain.ends_in_records
