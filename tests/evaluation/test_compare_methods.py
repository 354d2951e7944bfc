"""Methods side by side on the same counts: what the tool says equals ten lines of polars."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.cli.evaluate import _show_compared
from headcount.errors import InputError, RunError
from headcount.evaluation.error import Error
from headcount.evaluation.evaluate import Choice, Evaluation
from headcount.evaluation.tally import check_cells
from headcount.mechanisms import Geometric, protect
from headcount.noise import KeyedNoise, RunKey
from headcount.population import uniform
from headcount.run.evaluate import evaluate_run, refuse_other_data, side_by_side
from headcount.run.protect import protect_run
from headcount.tabulate import Tabulated, tabulate

POPULATION = """
[population]
kind = "microdata"
file = "people.csv"
units = "tracts.csv"
public = true
[population.geography]
columns = ["county", "tract"]
[[population.attribute]]
name = "sex"
levels = ["f", "m"]
[[population.attribute]]
name = "age"
levels = ["minor", "adult", "old"]
[[population.attribute]]
name = "home"
levels = ["house", "barracks", "care"]
[[population.structural_zero]]
age = ["minor"]
home = ["barracks"]
"""
MECHANISMS = {
    "geometric": 'name = "geometric"\nepsilon = 1\n',
    "topdown": 'name = "topdown"\nepsilon = 1\n[mechanism.queries]\n'
    'cells = { share = "1/2" }\nhomes = { by = ["home", "age"], share = "1/2" }\n',
    "sample": 'name = "sampling"\nfraction = 0.1\n',
}
CELLS = [
    "_".join(cell)
    for cell in product(("f", "m"), ("minor", "adult", "old"), ("house", "barracks", "care"))
    if cell[1:] != ("minor", "barracks")
]


def write_people(folder: Path, *, seed: int = 5) -> None:
    """2,000 people in 60 tracts of 4 counties, most of them in houses, one tract empty."""
    rng, n = np.random.default_rng(seed), 2_000
    tract = np.minimum(rng.geometric(0.05, n), 59)
    age = rng.choice(["minor", "adult", "old"], n, p=[0.25, 0.6, 0.15])
    home = rng.choice(["house", "barracks", "care"], n, p=[0.95, 0.02, 0.03])
    home[(age == "minor") & (home == "barracks")] = "house"
    codes = {"county": [f"c{t % 4}" for t in tract], "tract": [f"t{t:02}" for t in tract]}
    sex = rng.choice(["f", "m"], n)
    pl.DataFrame({**codes, "sex": sex, "age": age, "home": home}).write_csv(folder / "people.csv")
    every = {"county": [f"c{t % 4}" for t in range(60)], "tract": [f"t{t:02}" for t in range(60)]}
    pl.DataFrame(every).write_csv(folder / "tracts.csv")


EITHER = Choice(metrics=("error",), given=(Error(cells="either"),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One population, released by each method."""
    made = tmp_path_factory.mktemp("methods")
    write_people(made)
    for name in ("geometric", "topdown", "sample"):
        run_of(made, name)
    return made


def run_of(folder: Path, name: str) -> Path:
    text = POPULATION + f'[mechanism]\n{MECHANISMS[name]}[run]\nout = "{name}"\nseed = 3\n'
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return protect_run(folder / f"{name}.toml")


def mean_error_by_polars(folder: Path, run: str, cells: str) -> tuple[int, float]:
    """What a user would write, from the files alone: counts of every cell of every tract."""
    people = pl.read_csv(folder / "people.csv")
    cell = pl.concat_str("sex", "age", "home", separator="_").alias("cell")
    exact = people.group_by("tract", cell).agg(pl.len().cast(pl.Int64).alias("exact"))
    wide = pl.read_parquet(folder / run / "release" / "tract.parquet")
    made = wide.unpivot(on=CELLS, index="tract", variable_name="cell", value_name="released")
    both = made.join(exact, on=["tract", "cell"], how="left").fill_null(0)
    chosen = both.filter(pl.col("exact") > 0) if cells == "truth" else both
    error = chosen.select((pl.col("released") - pl.col("exact")).abs().mean()).item()
    return chosen.height, error


@pytest.mark.parametrize("cells", ["all", "truth"])
def test_the_mean_error_of_three_methods_is_that_of_ten_lines_of_polars(folder: Path, cells):
    runs = [folder / name for name in ("geometric", "topdown", "sample")]
    refuse_other_data(runs)
    choice = Choice(metrics=("error",), given=(Error(cells=cells),))
    found = {run: evaluate_run(run, choice=choice).evaluation for run in runs}
    (compared,) = side_by_side(found)
    table = compared.table.filter(level="tract", query="cells")
    assert table.height == 1  # the same number of counts for every method
    for run in runs:
        n, error = mean_error_by_polars(folder, run.name, cells)
        assert table["n"].item() == n
        assert table[str(run)].item() == pytest.approx(error, rel=1e-12)
    if cells == "all":
        assert table["n"].item() == 60 * len(CELLS)


def test_the_papers_set_is_another_one_for_each_method(folder: Path):
    """Why it is refused where methods are compared: the number of counts gives it away."""
    sizes = {
        name: evaluate_run(folder / name, choice=EITHER)
        .evaluation["error"]
        .table.filter(level="tract", query="cells")
        for name in ("geometric", "topdown", "sample")
    }
    assert len({frame["n"].item() for frame in sizes.values()}) == 3
    with pytest.raises(InputError, match="found 'either', expected 'all' or 'truth': the set must"):
        check_cells("either", compared=True)


def test_runs_on_other_data_are_not_compared(folder: Path, tmp_path: Path):
    write_people(tmp_path, seed=6)
    other = run_of(tmp_path, "geometric")
    with pytest.raises(
        RunError, match=r"found data different from those of .*topdown, expected runs"
    ):
        refuse_other_data([folder / "topdown", other])
    with pytest.raises(RunError, match="found a run named twice, expected each run once"):
        refuse_other_data([other, other.parent / "." / other.name])


def test_a_comparison_needs_a_metric_that_two_runs_have(folder: Path):
    one = evaluate_run(folder / "geometric", choice=EITHER).evaluation
    other = Evaluation(findings=())
    with pytest.raises(RunError, match="No metric was computed for more than one"):
        side_by_side({Path("one"): one, Path("other"): other})


def test_empirical_privacy_loss_of_few_errors_is_not_compared(folder: Path, capsys):
    """Of four counties' totals the maximum of the curve is chance."""
    runs = [folder / name for name in ("geometric", "topdown")]
    choice = Choice(metrics=("empirical-privacy-loss",), attacks=())
    found = {run: evaluate_run(run, choice=choice).evaluation for run in runs}
    (compared,) = side_by_side(found)
    tables = [one["empirical-privacy-loss"].table for one in found.values()]
    enough = [set(table.filter(pl.col("n") >= 100)["query"]) for table in tables]
    assert enough == [{"cells"}, {"cells"}]
    assert any(table.filter(pl.col("n") < 100)["epl"].is_not_null().any() for table in tables)
    assert set(compared.table["query"]) == {"cells"}
    assert "fewer than 100 errors are left out, because the maximum of a few" in compared.words
    _show_compared(replace(compared, table=compared.table.clear()))
    said = capsys.readouterr().out
    assert "is chance (empirical-privacy-loss): nothing is left to compare" in said


def test_negative_counts_are_facts_of_the_release():
    counts = tabulate(uniform(people=300, depth=2, mean=4, seed=1))
    noise = KeyedNoise(RunKey.from_seed(1), "test", b"d", b"c")
    release = protect(Tabulated.of(counts), Geometric(epsilon=Fraction(1, 10)), noise)
    leaf = release.geography.leaf
    table = release.at(leaf)
    assert release.negative_counts() == {
        leaf: {"counts": table.size, "negative": int((table < 0).sum())}
    }
    assert (table < 0).any()
