"""headcount protect and evaluate with cell keys and rounding: what is published, what is not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.attacks.reconstruction import Rebuilt, Reconstruct
from headcount.attacks.reidentification import NOBODY
from headcount.errors import ConfigError, InputError, PrivacyError
from headcount.evaluation.attacked import rebuilt_frame
from headcount.evaluation.evaluate import _with_settings
from headcount.evaluation.part import TruePeople, _published_part
from headcount.release.store import read_release
from headcount.run.evaluate import _open_run, _truth_of, evaluate_run
from headcount.run.protect import protect_run
from headcount.tabulate.linked_tables import table_values

CONFIG = """
[population]
kind = "towns"
people = 1500
counties = 3
schema = "sex-age38-race7-hispanic"
[mechanism]
{mechanism}
lowest = "tract"
[run]
out = "{out}"
"""
CELL_KEY = """name = "cell-key"
tables = ["P1", "P2"]
maximum = 4
variance = "7/4"
"""


def made(folder: Path, mechanism: str, *, out: str = "run") -> Path:
    config = folder / f"{out}.toml"
    config.write_text(CONFIG.format(mechanism=mechanism, out=folder / out))
    return protect_run(config)


def published(run: Path) -> str:
    """All that is published, but for the tables themselves."""
    files = [path for path in (run / "release").iterdir() if path.suffix == ".json"]
    return "".join(path.read_text() for path in files)


def test_a_release_with_cell_keys_says_nothing_of_its_table(tmp_path):
    run = made(tmp_path, CELL_KEY)
    text = published(run)
    for secret in ("maximum", "7/4", "7, 4", "largest change", "delta"):
        assert secret not in text
    receipt = json.loads((run / "release" / "receipt.json").read_text())
    assert receipt["config_digest"] is None
    assert receipt["mechanism"] == "CellKey(tables=('P1', 'P2'), lowest='tract')"
    assert "made for this release alone" in receipt["notes"]["record keys"]
    account = json.loads((run / "internal" / "cell-key.json").read_text())
    assert account["largest_change"] == 4
    assert account["settings_digest"] == receipt["notes"]["settings digest"]
    assert (run / "internal" / "perturbation-table.csv").is_file()
    release = read_release(run / "release").as_tables()
    assert release.changed
    assert all(one.off is not None and one.off.up is None for one in release.published)
    words = (run / "release" / "datapackage.json").read_text()
    assert "count of people, changed: not exact" in words
    with pytest.raises(InputError, match="tables whose counts are changed by cell-key, expected"):
        _ = release.withholding
    with pytest.raises(InputError, match="expected counts of every unit and cell"):
        release.as_counts()
    assert "Cells published as 0" in release.plot().caption


def test_a_disclosed_table_is_in_the_receipt(tmp_path):
    run = made(tmp_path, CELL_KEY + "disclose = true\n")
    receipt = json.loads((run / "release" / "receipt.json").read_text())
    assert receipt["notes"]["largest change"] == 4
    assert 0.5 < receipt["notes"]["delta of one cell at epsilon 1.0"] < 0.7
    assert "does not add up over cells or tables" in receipt["notes"]["delta"]
    assert isinstance(receipt["config_digest"], str)
    off = read_release(run / "release").as_tables().published[0].off
    assert off is not None
    assert off.up == off.down == off.zero_hides == 4


def test_evaluate_measures_changes_and_says_what_it_cannot_do(tmp_path):
    run = made(tmp_path, CELL_KEY)
    done = evaluate_run(run)
    finding = done.evaluation["table-changes"]
    _, truth = _open_run(run)
    release = read_release(run / "release").as_tables()
    by_hand = []
    for one in release.published:
        true = table_values(truth.counts.at(one.level), one.cells)
        by_hand.append(int(((true > 0) & (one.value == 0)).sum()))
        row = finding.table.filter(table=one.name, level=one.level).row(0, named=True)
        assert row["d1"] == pytest.approx(np.abs(true - one.value).mean())
        assert row["d2"] == pytest.approx(
            (np.abs(true - one.value)[true > 0] / true[true > 0]).mean()
        )
        assert row["d3"] == pytest.approx(np.abs(np.sqrt(true) - np.sqrt(one.value)).mean())
        assert row["false_nonzeros"] == 0
        assert row["largest"] == np.abs(true - one.value).max() <= 4
        gap = np.abs(one.cells.relations @ one.value.T)
        assert (row["gap"], row["gap_largest"]) == (pytest.approx(gap.mean()), gap.max())
    assert finding.table["false_zeros"].to_list() == by_hand
    state, county = release.published[:2]
    row = finding.table.filter(table="P1", level="state").row(0, named=True)
    by_parts = np.abs(state.value[0] - county.value.sum(axis=0)).mean()
    assert row["unit_gap"] == pytest.approx(by_parts)
    files = {path.name for path in done.report.parent.iterdir()}
    assert {"table-changes.csv", "table-changes-distribution.csv"} <= files
    changes = pl.read_csv(done.report.parent / "table-changes-distribution.csv")
    assert changes["cells"].sum() == finding.table["cells"].sum()
    account = json.loads((run / "internal" / "cell-key.json").read_text())
    deltas = pl.read_csv(done.report.parent / "table-changes-delta.csv")
    assert {
        str(epsilon): {"largest": largest, "between_large_counts": later}
        for epsilon, largest, later in deltas.iter_rows()
    } == account["delta_of_one_cell"]
    text = done.report.read_text()
    assert "does not add up over cells or tables" in text
    assert "How far published counts are from the true ones" in text
    assert "the counts of the tables are changed, not withheld" in text
    assert "of the records that fit those nearest to the published counts are taken" in text


def test_key_files_serve_several_runs_and_lie_in_none(tmp_path):
    keys = f'keys = "{tmp_path / "record.keys"}"\n'
    first = made(tmp_path, CELL_KEY + keys, out="one")
    other = made(tmp_path, CELL_KEY.replace('"P1", "P2"', '"P2"') + keys, out="two")
    for level in ("state", "county", "tract"):
        one, two = (
            next(
                t
                for t in read_release(run / "release").as_tables().published
                if (t.name, t.level) == ("P2", level)
            )
            for run in (first, other)
        )
        assert np.array_equal(one.value, two.value)
    assert "record.keys" not in published(first)
    with pytest.raises(ConfigError, match=r"mechanism.keys: found .*inside the run .*, expected a"):
        made(tmp_path, CELL_KEY + f'keys = "{tmp_path / "three" / "keys"}"\n', out="three")
    assert not (tmp_path / "three").exists()
    config = CONFIG.replace("1500", "1600")
    path = tmp_path / "four.toml"
    path.write_text(config.format(mechanism=CELL_KEY + keys, out=tmp_path / "four"))
    with pytest.raises(PrivacyError, match="found keys of other data"):
        protect_run(path)
    assert not (tmp_path / "four").exists()


def test_rounding_is_published_with_its_rule_and_measured(tmp_path):
    run = made(tmp_path, 'name = "rounding"\ntables = ["P1"]\nbase = 5\nbelow = 10\n')
    release = read_release(run / "release").as_tables()
    assert "Counts below 10 are withheld, zeros included." in published(run)
    for one in release.published:
        assert one.off is not None
        assert (one.off.multiples_of, one.off.withheld_below) == (5, 10)
    table = evaluate_run(run).evaluation["table-changes"].table
    assert table["withheld"].sum() == sum(int(one.withheld.sum()) for one in release.published)


def test_targeted_swapping_then_cell_keys_has_no_epsilon(tmp_path):
    swap = 'name = "targeted-swapping"\nrate = "1/10"\nrisk_variables = ["race"]\n'
    text = CONFIG.replace("[mechanism]\n", f"[[mechanism]]\n{swap}[[mechanism]]\n")
    config = tmp_path / "chain.toml"
    config.write_text(text.format(mechanism=CELL_KEY, out=tmp_path / "run"))
    run = protect_run(config)
    receipt = json.loads((run / "release" / "receipt.json").read_text())
    assert receipt["guarantee"]["losses"] == []
    assert "maximum" not in published(run)
    assert "TargetedSwapping" in receipt["mechanism"]
    evaluation = evaluate_run(run).evaluation
    finding = evaluation["table-changes"]
    assert "Records were changed before the tables were made" in finding.explain()
    release, prepared = _open_run(run)
    told = _with_settings(_published_part(release), _truth_of(prepared, run / "internal"))
    claims = Reconstruct().run(told, NOBODY)
    assert isinstance(claims, Rebuilt)
    people = TruePeople.of(prepared.truth, claims.geography).records()
    by_hand = rebuilt_frame(claims, people)
    # Rebuilt are the swapped people; they are compared with those who really live there.
    scored = evaluation["reconstruction"].table
    assert scored.drop("certain", "certain_right").equals(by_hand.filter(pl.col("people") > 0))
    matches = evaluation["reidentification"].table
    assert matches.filter(universe="all")["claimed"][0] > 1000
