"""What passes ``check`` completes: faults that used to show after the spend show before it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headcount.config.load import load_config
from headcount.domain import Domain
from headcount.errors import ConfigError, RunError
from headcount.mechanisms._base import COPIES, SCALAR
from headcount.noise import KeyedNoise, RunKey
from headcount.run.evaluate import _open_run
from headcount.run.protect import prepare_run, protect_run
from headcount_papers.averaged import Averaged
from tests.run.town import LEDGER, MICRODATA, make_ledger, write_config, write_town


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


def refused(town: Path, mechanism: str, *, population: str = MICRODATA, run: str = "") -> str:
    """What ``check`` says against a config, after making sure that nothing was spent or made."""
    ledger = make_ledger(town, total="99999999")
    config = write_config(
        town, population=population, mechanism=mechanism, run=f"{LEDGER}\n{run}", out="refused"
    )
    with pytest.raises((ConfigError, RunError)) as caught:
        prepare_run(load_config(config))
    with pytest.raises((ConfigError, RunError)):
        protect_run(config)
    assert ledger.history("town") == ()
    assert not (town / "refused/internal/run.key").exists()
    return str(caught.value)


@pytest.mark.parametrize("rate", [709, 711, 745, 800, 999, 1000, 1001, 10**9])
@pytest.mark.parametrize("name", ["geometric", "histogram", "raked", "averaged"])
def test_rates_whose_variance_is_next_to_nothing_are_released(town: Path, name: str, rate: int):
    make_ledger(
        town,
        total="99999999999999",
    )
    mechanism = f'name = "{name}"\nunit = "add-remove"\nepsilon = {rate * 12}'
    release, planned = _open_run(protect_run(write_config(town, mechanism=mechanism, run=LEDGER)))
    assert all(
        one.law.variance < 1e-100 for one in planned.mechanism.on(planned.counts.domain).plan
    )
    np.testing.assert_array_equal(release.at("tract"), planned.counts.dense())


@pytest.mark.parametrize("mechanism", ['name = "raked"\nepsilon = 1', 'name = "identity"'])
def test_a_level_without_a_name_is_refused(town: Path, mechanism: str):
    population = MICRODATA.replace('"tract"] }', '"tract"], root = "" }')
    assert population != MICRODATA
    said = refused(town, mechanism, population=population)
    assert (
        "population.geography: found a level without a name, expected names that are not empty"
        in said
    )


def test_averaging_many_parts_holds_no_more_than_some_draws_at_once(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []
    whole = KeyedNoise.draw

    def counted(self, stream, law, *, draws):
        asked.append(len(draws) * stream.size)
        return whole(self, stream, law, draws=draws)

    counts = prepare_run(load_config(write_config(town))).counts
    mechanism = Averaged(epsilon=1000, parts=2000)  # type: ignore[arg-type]
    noise = KeyedNoise(RunKey.from_seed(3), "averaged", b"", b"")
    design = mechanism.on(counts.domain)
    at_once = design.run(counts, noise, runs=range(2)).as_counts().tables["tract"]
    monkeypatch.setattr("headcount.mechanisms._noisy.DRAWN_AT_ONCE", 1000)
    monkeypatch.setattr(KeyedNoise, "draw", counted)
    in_pieces = design.run(counts, noise, runs=range(2)).as_counts().tables["tract"]
    np.testing.assert_array_equal(at_once, in_pieces)
    assert max(asked) <= 1000
    assert sum(asked) == 2 * 2000 * counts.dense().size


def test_draws_that_would_take_weeks_are_refused(town: Path):
    said = refused(town, 'name = "averaged"\nepsilon = 1\nparts = 1000000000')
    assert "averaged: noise: found draws that take about" in said
    assert "days" in said


def test_noise_whose_sum_over_the_parts_passes_64_bits_is_refused(town: Path):
    said = refused(town, f'name = "averaged"\nepsilon = {2**20}\nparts = {2**58}')
    assert "averaged: parts: found 288,230,376,151,711,744" in said
    assert "expected noise whose sum over the parts fits 62 bits" in said


def test_counts_whose_sum_over_the_parts_wraps_are_refused_to_the_curator_only(town: Path):
    (town / "counts.csv").write_text(f"county,tract,f,m\na,a1,{2**61},3\na,a2,4,5\n")
    (town / "sexes.toml").write_text('[[attribute]]\nname = "sex"\nlevels = ["f", "m"]\n')
    population = (
        'kind = "counts"\nfile = "counts.csv"\nschema = "sexes.toml"\n'
        'geography = { columns = ["county", "tract"] }'
    )
    said = refused(town, 'name = "averaged"\nepsilon = 1\nparts = 4', population=population)
    assert "the data violate a bound of the mechanism" in said
    why = (town / "refused/internal/refused.txt").read_text()
    assert "averaged: parts: found counts whose sum over the parts passes 63 bits" in why
    assert str(2**61) not in why + said


def test_tables_beyond_the_memory_of_the_machine_are_refused(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    planned = prepare_run(load_config(write_config(town, mechanism='name = "raked"\nepsilon = 1')))
    domain = planned.counts.schema, planned.counts.geography
    needed = planned.mechanism.on(Domain(*domain)).table_bytes
    assert needed == (1 + 2 + 5) * 6 * SCALAR * COPIES
    monkeypatch.setattr("headcount.run._beforehand.memory_limit", lambda: needed - 1)
    said = refused(town, 'name = "raked"\nepsilon = 1')
    assert "raked: memory: found tables that need up to 3.0 KiB at once, expected at most" in said
    monkeypatch.setattr("headcount.run._beforehand.memory_limit", lambda: needed)
    protect_run(write_config(town, mechanism='name = "raked"\nepsilon = 1', out="fits"))


def test_pooled_answers_beyond_the_free_disk_are_refused(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    from types import SimpleNamespace

    monkeypatch.setattr(
        "headcount.run._beforehand.shutil.disk_usage", lambda _path: SimpleNamespace(free=100)
    )
    said = refused(town, 'name = "topdown"\nepsilon = 1\npool = true')
    assert (
        "topdown: pool: found 0.3 KiB of pooled answers (from tract up), expected at most the "
        "0.1 KiB that are free" in said
    )
    assert "or pool_from a higher level" in said
