"""What ``check`` says before a run: what is measured, and what it needs."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from headcount.config.load import load_config
from headcount.run import forecast
from headcount.run.evaluate import _open_run
from headcount.run.forecast import needs, same_as_above
from headcount.run.protect import Prepared, prepare_run, protect_run
from tests.cli.test_cli import Headcount, headcount
from tests.run.town import MICRODATA, write_config, write_town

__all__ = ["headcount"]

SHORT = 'name = "topdown"\nepsilon = 1'
ONE_STATE = """
kind = "microdata"
file = "people.csv"
geography = { column = "tract", prefixes = { county = 2, tract = 3 } }
attribute = [{ name = "sex", levels = ["f", "m"] }, { name = "age", levels = ["minor", "adult"] }]
"""


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


@pytest.fixture
def one_county(tmp_path: Path) -> Path:
    rows = [
        f"44{tract},{sex},{age}" for tract in "127" for sex in "fm" for age in ("minor", "adult")
    ]
    (tmp_path / "people.csv").write_text("\n".join(["tract,sex,age", *rows, *rows]) + "\n")
    return tmp_path


def prepared(folder: Path, mechanism: str = SHORT, **other: str) -> Prepared:
    return prepare_run(load_config(write_config(folder, mechanism=mechanism, **other)))


def test_a_level_that_is_not_measured_again_is_named(
    one_county: Path, headcount: Headcount
) -> None:
    planned = prepared(one_county, population=ONE_STATE)
    assert same_as_above(planned.design) == {"county": "whole"}
    config = write_config(one_county, population=ONE_STATE, mechanism=SHORT)
    said = headcount("check", config).out
    assert "  county has the units of whole, and is measured with it." in said
    need = (
        r"needs:      about [\d,]+ (s|min) of one core, about 400.0 MiB of memory and 1 KiB for the"
    )
    assert re.search(need, said)
    assert "rounding" not in said  # nothing is bounded


@pytest.mark.parametrize(
    ("mechanism", "seconds"),
    [
        ('name = "identity"', 1.3 + 6e-8 * 5 * 6),
        ('name = "sampling"\nfraction = "1/2"', 1.3 + 7e-7 * 60),
    ],
)
def test_a_method_without_noise_measures_nothing_and_its_time_is_known(
    town: Path, headcount: Headcount, mechanism: str, seconds: float
) -> None:
    config = write_config(town, mechanism=mechanism)
    assert "measures nothing with noise" in headcount("check", "-q", config).out
    found = needs(prepare_run(load_config(config)), so_far=2.0)
    assert found.seconds == pytest.approx(2.0 + seconds)


def test_where_the_time_depends_on_the_data_it_is_not_guessed(
    tmp_path: Path, headcount: Headcount
) -> None:
    config = write_config(
        tmp_path,
        population='kind = "towns"\npeople = 2000',
        mechanism='name = "person-swapping"\nrate = "1/20"\nlevel = "tract"',
    )
    assert needs(prepare_run(load_config(config)), so_far=2.0).seconds is None
    said = headcount("check", config).out
    assert "needs:      a time that depends on the data (progress shows it) of one core" in said


def test_the_needs_of_a_sparse_release_follow_from_the_counts_that_are_not_0(
    tmp_path: Path,
) -> None:
    kind = 'kind = "towns"\npeople = 5000\nattributes = ["age", "sex", "race"]'
    planned = prepared(tmp_path, population=kind)
    not_0 = planned.counts.matrix.nnz
    assert planned.counts.schema.size > 2048
    assert needs(planned, so_far=0).output == int(float(f"{1.5 * not_0:.1e}"))
    dense = prepared(tmp_path, population=kind, mechanism='name = "geometric"\nepsilon = 1')
    assert needs(dense, so_far=0).output > 100 * 1.5 * not_0


FROM_DATA = MICRODATA.replace('units = "tracts.csv"', "")


@pytest.mark.parametrize("public", [False, True])
def test_what_lists_from_the_data_tell_is_explained_by_check_once_and_not_of_public_data(
    town: Path, headcount: Headcount, caplog: pytest.LogCaptureFixture, public: bool
) -> None:
    config = write_config(town, population=f"public = {str(public).lower()}\n{FROM_DATA}")
    with caplog.at_level(logging.WARNING):
        said = " ".join(headcount("check", config).out.split())
        assert said.count("Use public lists if you can") == (not public)
        assert caplog.text == ""
        out = protect_run(config)
        warned = "read from the data and published without noise: which units exist"
        assert caplog.text.count(warned) == (not public)
        caplog.clear()
        protect_run(config)
        _open_run(out)
        assert "read from the data" not in caplog.text


def test_pooled_answers_are_said_and_counted(town: Path) -> None:
    plain, pooled = (prepared(town, SHORT + pool) for pool in ("", "\npool = true"))
    answers = (1 + 2 + 5) * (6 + 2 + 3 + 1)
    assert pooled.remarks[0] == (
        f"TopDown with pooling: from tract up; {answers} answers are drawn for it, and "
        "pooled ones take 0.3 KiB of disk while it runs"
    )
    assert not any("pooled" in remark for remark in plain.remarks)
    found = [needs(one, so_far=0.0).seconds for one in (plain, pooled)]
    assert found[0] is not None
    assert found[1] == pytest.approx(found[0] + forecast.POOL_SECONDS * answers)
