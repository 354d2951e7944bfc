"""headcount evaluate: parameters of metrics and attacks come from the run's config."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from headcount.errors import ConfigError
from headcount.evaluation.attacked import _PeopleFound
from headcount.evaluation.error import Error
from headcount.evaluation.evaluate import Choice
from headcount.run.evaluate import evaluate_run
from headcount.run.protect import protect_run
from headcount_papers.empirical_privacy_loss import _Losses

CONFIG = """
[population]
kind = "towns"
people = 1000
counties = 2
schema = "sex-age38-race7-hispanic"
[mechanism]
name = "identity"
[run]
out = "out"
"""
TABLES = """
[[metric]]
name = "error"
cells = "truth"
[[attack]]
name = "linkage"
exact = []
one_to_one = true
[[attack]]
name = "reconstruction"
most_units = 3
steps = 500
variability = false
"""


def write(folder: Path, *more: str) -> Path:
    path = folder / "config.toml"
    path.write_text(CONFIG + "".join(more), encoding="utf-8")
    return path


def test_tables_of_the_config_set_parameters(tmp_path: Path):
    out = protect_run(write(tmp_path, TABLES))
    done = evaluate_run(out, choice=Choice(metrics=("error",)))
    assert done.evaluation["error"].table["cells"].unique().to_list() == ["truth"]
    linkage = done.evaluation["linkage"]
    assert isinstance(linkage, _PeopleFound)
    assert "the block, and the age" in linkage.words
    assert "3 of " in done.evaluation["reconstruction"].explain()
    report = done.report.read_text(encoding="utf-8")
    assert "units were attacked, drawn at random; the others were left out" in report
    for name in ("linkage", "reconstruction", "reidentification", "errors"):
        assert pl.read_csv(done.report.parent / f"{name}.csv").height > 0
    # What the command asks for comes before the config.
    choice = Choice(metrics=("error",), attacks=(), given=(Error(cells="either"),))
    again = evaluate_run(out, choice=choice).evaluation
    assert again["error"].table["cells"].unique().to_list() == ["either"]
    assert "linkage" not in again


def test_a_table_of_the_config_asks_for_a_slow_metric(tmp_path: Path):
    out = protect_run(write(tmp_path, '[[metric]]\nname = "audit"\nruns = 300\n'))
    found = evaluate_run(out, choice=Choice(attacks=())).evaluation
    assert {one.name: one.why for one in found.not_computed}["audit"] == (
        "the mechanism draws no noise: every run is the same"
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('[[metric]]\nname = "eror"\n', "metric.name: found 'eror', expected one of"),
        ('[[metric]]\nname = "error"\ncels = "all"\n', "metric.cels: found an unknown key"),
        ('[[metric]]\nname = "error"\ncells = "some"\n', "metric.cells: found 'some', expected"),
        ('[[metric]]\nname = "audit"\nruns = 5\n', "metric.runs: found 5, expected 200 or more"),
        ('[[attack]]\nname = "linkage"\nage_width = 0\n', "attack.age_width: found 0, expected 1"),
        ('[[attack]]\nname = "reconstruction"\nsteps = "a"\n', "attack.steps: found 'a'"),
        ('[[attack]]\nname = "reconstruction"\nsteps = -1\n', "attack.steps: found -1, expected 0"),
        *(
            (
                f'[[attack]]\nname = "{name}"\nseconds = 5\n',
                "attack.seconds: found an unknown key, expected",
            )
            for name in ("reconstruction", "feasible-intervals", "differencing")
        ),
        (
            '[[metric]]\nname = "audit"\nseconds = 600\n',
            "metric.seconds: found an unknown key, expected",
        ),
    ],
)
def test_a_wrong_table_is_refused_before_any_data_is_read(tmp_path: Path, table: str, message: str):
    with pytest.raises(ConfigError) as error:
        protect_run(write(tmp_path, table))
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()


def test_numbers_of_a_metric_are_read(tmp_path: Path):
    mechanism = CONFIG.replace('name = "identity"', 'name = "geometric"\nepsilon = 1')
    table = (
        '[[metric]]\nname = "empirical-privacy-loss"\nkernel_factor = 0.15\ncalibrated = false\n'
    )
    (tmp_path / "config.toml").write_text(mechanism + table, encoding="utf-8")
    out = protect_run(tmp_path / "config.toml")
    found = evaluate_run(out, choice=Choice(metrics=("empirical-privacy-loss",), attacks=()))
    losses = found.evaluation["empirical-privacy-loss"]
    assert isinstance(losses, _Losses)
    assert losses.recipe.kernel_factor == 0.15
    assert losses.table["epl_calibrated"].null_count() == losses.table.height
