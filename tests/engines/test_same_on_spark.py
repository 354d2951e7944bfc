"""Everything that has pieces is the same from Spark, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from headcount.comparison.cache import Cache
from headcount.comparison.cases import Case, Released, score_cases
from headcount.comparison.study import Work
from headcount.engines import Engine, InOrder, LocalEngine
from headcount.engines.spark import SparkEngine
from headcount.errors import InputError
from headcount.evaluation.error import Error
from headcount.geography.geography import CodeColumns
from headcount.mechanisms import Chain, Context, Mechanism, Tabulated, protect
from headcount.mechanisms._chain import mechanism_digest
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.mechanisms.geometric import Geometric
from headcount.mechanisms.identity import Identity
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.mechanisms.sampling import Sampling
from headcount.mechanisms.targeted_swapping import TargetedSwapping
from headcount.noise import KeyedNoise, RunKey, save_run_key
from headcount.population.columns import AttributeColumn
from headcount.population.from_households import to_population
from headcount.population.microdata import count_people, read_people
from headcount.population.people_table import TableOfPeople
from headcount.release import Release, TablesRelease
from headcount.run.compare import compare
from headcount.topdown.mechanism import TopDown
from headcount_papers.averaged import Averaged
from headcount_papers.raked import Raked
from headcount_papers.workload_s import workload_s
from tests.engines.by_files import ByFiles
from tests.engines.spark import spark

pytestmark = pytest.mark.spark

ONE = Fraction(1)
TABLES = {"by_race": ["race"], "by_both": ["race", "hispanic"]}
MECHANISMS: dict[str, Mechanism] = {
    "geometric": Geometric(epsilon=ONE),
    "averaged": Averaged(epsilon=ONE, parts=3),
    "raked": Raked(epsilon=ONE),
    "cell-key": CellKey(tables=TABLES),
    "cell-key, zeros raised": CellKey(tables=TABLES, rule="10-5", zeros="balance"),
    "rounding, random": Rounding(tables=TABLES, base=5, how="random"),
    "rounding, fixed": Rounding(tables=TABLES, base=5, how="fixed"),
    "targeted swapping, within counties": TargetedSwapping(
        rate=Fraction(1, 10), risk_variables=("race", "hispanic"), within="county"
    ),
    "topdown with pooled answers": TopDown(epsilon=ONE, pool=True),
    "sampling, then geometric": Chain.of(
        (Sampling(fraction=Fraction(1, 2)), Geometric(epsilon=ONE))
    ),
}


@pytest.fixture(scope="module")
def context() -> Iterator[Any]:
    with spark() as made:
        yield made


@pytest.fixture(scope="module")
def data() -> Tabulated:
    return Tabulated.of(to_population(workload_s(households=600), attributes=("race", "hispanic")))


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> RunKey:
    """A key of a release: tasks read it from its file."""
    made = RunKey.from_os()
    save_run_key(made, tmp_path_factory.mktemp("internal") / "key")
    return made


def content(release: Release) -> str:
    """Digest of all that a release publishes."""
    found = sha256()
    if isinstance(release, TablesRelease):
        for one in release.published:
            found.update(f"{one.cells.table.name} {one.level}".encode())
            found.update(one.value.tobytes() + one.withheld.tobytes())
        return found.hexdigest()
    for level in release.as_counts().tables:
        found.update(level.encode() + np.ascontiguousarray(release.at(level)).tobytes())
    return found.hexdigest()


def made(data: Tabulated, mechanism: Mechanism, key: RunKey, engine: Engine) -> str:
    chain = Chain.of(mechanism)
    noise = KeyedNoise(key, chain.name, data.digest, mechanism_digest(chain))
    return content(protect(data, chain, noise, context=Context(engine=engine)))


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_release_is_the_same_on_every_engine(name, data, key, context, monkeypatch):
    mechanism = MECHANISMS[name]
    whole = made(data, mechanism, key, InOrder())
    monkeypatch.setattr("headcount.mechanisms._noisy.PIECE", 200_000)
    monkeypatch.setattr("headcount.mechanisms.targeted_swapping.PIECE", 200)
    monkeypatch.setattr("headcount.topdown._pool.NUMBERS_AT_ONCE", 10_000)
    by_files = ByFiles()
    assert made(data, mechanism, key, by_files) == whole
    assert by_files.done > 1  # in several pieces
    assert made(data, mechanism, key, LocalEngine(2)) == whole
    assert made(data, mechanism, key, SparkEngine()) == whole
    assert made(data, mechanism, RunKey.from_os(), InOrder()) != whole


def test_people_are_counted_and_refused_alike_on_every_engine(tmp_path, context, monkeypatch):
    monkeypatch.setattr("headcount.population.pieces.ROWS", 50)
    sexes = ["f", "m", "m"] * 100
    rows = {"state": ["1", "2"] * 150, "county": ["11", "22"] * 150, "sex": sexes}
    file = tmp_path / "people.parquet"
    pl.DataFrame(rows).write_parquet(file, row_group_size=50)
    sex = AttributeColumn(name="sex", levels=("f", "m"))
    table = TableOfPeople(
        path=file, attributes=(sex,), geography=CodeColumns(columns=("state", "county"))
    )
    by_files = ByFiles()
    engines = (by_files, LocalEngine(2), SparkEngine())
    counted = [Tabulated.of(count_people(table, engine=one)) for one in engines]
    assert by_files.done == 12  # six pieces, looked at twice
    assert {one.digest for one in counted} == {Tabulated.of(read_people(table)).digest}
    assert counted[0].counts.dense().tolist() == [[50, 100], [50, 100]]
    sexes[170] = "x"
    pl.DataFrame({**rows, "sex": sexes}).write_parquet(file, row_group_size=50)
    for one in engines:
        with pytest.raises(InputError, match="column 'sex', row 171: found level 'x'"):
            count_people(table, engine=one)


def scored(data: Tabulated, engine: Engine, folder: Path | None) -> dict[str, pl.DataFrame]:
    truth = data.counts.totals()  # a measure may hold the truth

    def missed(one: Released) -> pl.DataFrame:
        shown = np.asarray(one.release.at(data.counts.level)).sum(axis=1)
        return pl.DataFrame({"missed": [int(np.abs(shown - truth).sum())]})

    cases = [
        Case(name="noisy", mechanism=Geometric(epsilon=ONE), runs=range(3), columns={"of": 1}),
        Case(name="exact", mechanism=Identity(), runs=range(2), columns={"of": 2}),
    ]
    return score_cases(
        cases,
        {"errors": Error(), "missed": missed},
        data=lambda _: data,
        seed=3,
        work=Work(cache=Cache(folder), engine=engine),
        made_by="headcount.comparison.cases",
    )


def test_cases_and_replicates_of_a_study_are_the_same(data, context, tmp_path: Path):
    here = scored(data, InOrder(), None)
    there = scored(data, SparkEngine(tmp_path), tmp_path)
    assert here["missed"]["missed"].to_list()[3:] == [0, 0]
    assert min(here["missed"]["missed"][:3]) > 0
    for name, table in here.items():
        assert_frame_equal(there[name], table)
        assert_frame_equal(scored(data, LocalEngine(2), None)[name], table)
    kept = sorted(path.name.rsplit("-", 1)[0] for path in tmp_path.iterdir())
    assert kept == ["exact", "noisy", "noisy", "noisy"]  # nothing else is left


def test_a_comparison_is_the_same(data, context):
    def compared(engine: Any) -> Any:
        return compare(
            data, methods=("geometric", "swapping"), epsilon=(1,), replicates=2, engine=engine
        )

    here, there = compared(None), compared("spark")
    assert set(here.tables) == set(there.tables)
    assert here.tables["errors"].height > 0
    for name, table in here.tables.items():
        assert_frame_equal(there.tables[name], table)
