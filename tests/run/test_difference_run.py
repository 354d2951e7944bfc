"""Areas and squares of the same people in two releases: what is learnt of the slivers between."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from headcount.attacks.changed_cells import INFORMED, UNINFORMED
from headcount.attacks.differencing import Difference
from headcount.cli.app import app
from headcount.errors import ConfigError, HeadcountError
from headcount.evaluation.evaluate import Choice
from headcount.release import TablesRelease
from headcount.release.store import read_release
from headcount.run.attack import open_difference, run_attack
from headcount.run.evaluate import _open_run, evaluate_run
from headcount.run.protect import protect_run
from headcount.testing import ContractExample, attack_checks

CONFIG = """
[population]
kind = "microdata"
file = "people.csv"
units = "units.csv"
public = true
person_id = "id"
geography = {{ columns = ["{level}", "block"] }}
attribute = [{{ name = "sex", levels = ["f", "m"] }}]
[mechanism]
name = "cell-key"
tables = {{ sex = ["sex"] }}
lowest = "{level}"
maximum = 3
keys = "{keys}"
{more}
[run]
out = "{out}"
"""
BLOCKS = 200
LAW = np.array([0.00451, 0.05434, 0.24204, 0.39821, 0.24204, 0.05434, 0.00451])
"""Of the changes -3 to 3 of large counts, with D = 3 and V = 1 (Eurostat's test table)."""
SLIVER = 3
"""People of the planted sliver: square 0 is area 0 and one block of area 1."""


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """100 areas of two blocks; squares are the same, but each takes a block of the next area.

    So every block is a piece of its own that nobody publishes. The last block stays with its own.
    """
    folder = tmp_path_factory.mktemp("town")
    block = np.arange(BLOCKS)
    units = pl.DataFrame(
        {
            "area": [f"a{b // 2}" for b in block],
            "square": [f"s{(b + 1) // 2}" for b in block],
            "block": [f"b{b}" for b in block],
        }
    )
    units.write_csv(folder / "units.csv")
    rng = np.random.default_rng(5)
    many = rng.integers(5, 40, BLOCKS)
    many[1] = SLIVER
    people = units[np.repeat(block, many)]
    sex = pl.Series("sex", rng.choice(["f", "m"], people.height))
    people.with_columns(sex).with_row_index("id").write_csv(folder / "people.csv")
    with pytest.MonkeyPatch.context() as patch:  # keys of files are secret, those of tests are not
        patch.setattr("headcount.mechanisms._key_file.secrets.token_bytes", rng.bytes)
        for name, more in (("own", ""), ("exact", "exact_total = true")):
            for level in ("area", "square"):
                made(folder, level, name=f"{name}-{level}", keys="record.keys", more=more)
        made(folder, "square", name="anew", keys="other.keys")
    return folder


def made(folder: Path, level: str, *, name: str, keys: str, more: str = "") -> Path:
    config = folder / f"{name}.toml"
    config.write_text(CONFIG.format(level=level, keys=keys, out=folder / name, more=more))
    return protect_run(config)


def true_blocks(town: Path) -> pl.DataFrame:
    return pl.read_csv(town / "people.csv").group_by("block").len()


def slivers(town: Path, first: str, second: str, **settings):
    attack = Difference(other=town / second, **settings)
    attempt = open_difference(attack, town / first, truth=town / f"{first}.toml")
    claims = attempt.claim()
    return claims.frames(attempt.ids)["slivers"], attempt.scoring[0].score(claims)


def test_exact_totals_give_every_sliver_away(town):
    """Sum after sum: square 0 less block 0 is block 1, area 0 less block 1 ..."""
    frame, scores = slivers(town, "exact-area", "exact-square")
    total = frame.filter(cell="total", attacker=UNINFORMED)
    assert total.height == BLOCKS - 2  # the first and the last block are squares of their own
    assert (total["low"] == total["high"]).all()
    planted = total.filter(first="a0", second="s1")
    assert planted["low"].to_list() == [SLIVER]
    of = {(f"a{b // 2}", f"s{(b + 1) // 2}"): f"b{b}" for b in range(BLOCKS)}
    true = dict(true_blocks(town).iter_rows())
    for row in total.iter_rows(named=True):
        assert row["low"] == true[of[row["first"], row["second"]]]
    row = scores.filter(attacker=UNINFORMED).row(0, named=True)
    assert row["right"] >= BLOCKS - 2
    assert (row["attacked"], row["outside"]) == (3 * (BLOCKS - 2), 0)


def test_changed_totals_leave_a_range_that_has_the_truth(town):
    frame, scores = slivers(town, "own-area", "own-square", largest_change=3)
    knows = scores.filter(attacker=INFORMED).row(0, named=True)
    assert (knows["outside"], knows["right"]) == (0, 0)
    total = frame.filter(cell="total", attacker=INFORMED)
    width = (total["high"] - total["low"]).to_numpy()
    # The difference of an exact square and an area is off by 3 either way, unless sums say more.
    assert width.min() >= 2 * 3 - 1


def test_a_difference_is_right_as_often_as_two_independent_changes_are_the_same(town):
    """Square less area is off by the change of the one less that of the other: sum_v p_v^2."""
    tables = {
        name: read_release(town / f"own-{name}" / "release").as_tables()
        for name in ("area", "square")
    }
    true = true_blocks(town)
    values = {name: published_totals(one, name) for name, one in tables.items()}
    exact = dict(true.iter_rows())
    sums = {
        "area": {f"a{n}": exact[f"b{2 * n}"] + exact[f"b{2 * n + 1}"] for n in range(100)},
        "square": {f"s{n}": exact[f"b{2 * n - 1}"] + exact[f"b{2 * n}"] for n in range(1, 100)},
    }
    change = {
        name: np.array([values[name][code] - own for code, own in sums[name].items()])
        for name in sums
    }
    same = np.mean(change["area"][1:] == change["square"])
    assert same == pytest.approx((LAW**2).sum(), abs=4 * 0.45 / 99**0.5)
    assert abs(np.corrcoef(change["area"][1:], change["square"])[0, 1]) < 4 / 99**0.5


def published_totals(release: TablesRelease, level: str) -> dict[str, int]:
    codes = release.geography.units[release.geography.depth(level)]
    table = next(one for one in release.published if one.level == level)
    return dict(zip(codes.tolist(), table.value[:, 0].tolist(), strict=True))


def test_the_same_people_say_the_same_in_both_releases_only_with_the_same_keys(town):
    """Both releases have everybody in their whole."""
    area, square, anew = (
        read_release(town / name / "release").as_tables().published
        for name in ("own-area", "own-square", "anew")
    )
    assert area[0].value.tolist() == square[0].value.tolist()
    other = (square[1].value != anew[1].value).mean()
    assert other == pytest.approx(1 - (LAW**2).sum(), abs=4 * 0.45 / 300**0.5)


def test_an_evaluation_knows_the_settings_of_both(town):
    choice = Choice(
        metrics=(), attacks=("differencing",), given=(Difference(other=town / "own-square"),)
    )
    finding = evaluate_run(town / "own-area", choice=choice).evaluation["differencing"]
    assert finding.table["attacker"].to_list() == [INFORMED, UNINFORMED]
    assert finding.table.filter(attacker=INFORMED)["outside"].to_list() == [0]
    assert finding.table["level"].unique().to_list() == ["piece"]
    assert "cut each other into" in finding.explain()
    assert finding.figure().name == "differencing-figure"
    without = evaluate_run(town / "own-area", choice=replace(choice, given=())).evaluation
    with pytest.raises(KeyError, match="no second release with other units is given"):
        without["differencing"]


def test_a_config_names_the_second_release(town):
    more = '[[attack]]\nname = "differencing"\nother = "own-square"\n[run]\n'
    config = town / "config.toml"
    text = (town / "own-area.toml").read_text().replace("[run]\n", more)
    config.write_text(text.replace(f'out = "{town / "own-area"}"', f'out = "{town / "again"}"'))
    choice = Choice(metrics=(), attacks=("differencing",))
    finding = evaluate_run(protect_run(config), choice=choice).evaluation["differencing"]
    assert finding.table["attacked"].to_list() == [3 * (BLOCKS - 2)] * 2


def test_a_crosswalk_tells_what_leaf_codes_would(town, tmp_path):
    units = pl.read_csv(town / "units.csv")
    path = tmp_path / "crosswalk.csv"
    units.select(leaf="block", first="area", second="square").write_csv(path)
    frame, scores = slivers(town, "exact-area", "exact-square", crosswalk=path)
    other, others = slivers(town, "exact-area", "exact-square")
    keys = ["first", "second", "cell"]
    assert frame.sort(keys).equals(other.sort(keys))
    assert scores.equals(others)


def test_a_sample_of_pieces_is_drawn_by_its_seed(town):
    one, table = slivers(town, "own-area", "own-square", effort="programs", sample=4, seed=1)
    again, _ = slivers(town, "own-area", "own-square", effort="programs", sample=4, seed=1)
    other, _ = slivers(town, "own-area", "own-square", effort="programs", sample=4, seed=2)
    assert table["attacked"].to_list() == [12]
    assert one.equals(again)
    assert not one.select("first").equals(other.select("first"))
    every, _ = slivers(town, "own-area", "own-square")
    both = one.join(every, on=["first", "second", "cell"], suffix="_all")
    assert both.height == one.height
    assert (both["low"] >= both["low_all"]).all()
    assert (both["high"] <= both["high_all"]).all()


def test_the_contract_of_attacks_is_kept(town):
    release, prepared = _open_run(town / "own-area")
    truth = evaluate_truth(prepared)
    example = ContractExample(release, truth, release, truth)
    attack = Difference(other=town / "own-square")
    for check in attack_checks(attack, example=example):
        check()


def evaluate_truth(prepared):
    from headcount.evaluation import Truth

    return Truth.of(prepared.truth).made_by(prepared.mechanism)


def test_the_command_writes_slivers_and_scores(town, tmp_path):
    told = CliRunner().invoke(
        app,
        [
            "attack", "difference", str(town / "exact-area"), str(town / "exact-square"),
            "--out", str(tmp_path / "out"), "--truth", str(town / "exact-area.toml"),
        ],
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    assert f"attacked: {BLOCKS - 2}" in told.output
    frame = pl.read_parquet(tmp_path / "out" / "slivers.parquet")
    assert frame.columns == ["first", "second", "table", "cell", "attacker", "low", "high"]
    assert pl.read_csv(tmp_path / "out" / "slivers.csv")["right"].sum() >= BLOCKS - 2
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["not_published"] == BLOCKS - 2


BAD_CROSSWALKS = {
    "leaf,first,second\nb0,a0,s0\n,a0,s1\n": "column 'leaf', row 2: found no code, expected each",
    "leaf,first\nb0,a0\n": "second",
    "leaf,first,second\nb0,a0,s0\nb0,a0,s1\n": r"column 'leaf', row \d: found 'b0' more than once",
    "leaf,first,second\nb0,a0,s0\nb1,mars,s1\n": r"column 'first', row 2: found 'mars', expected a "
    "code of level 'area' of the first release, such as 'a0'",
    "leaf,first,second\nb0,a0,s0\n": "column 'first': found no leaf in area 'a1', expected every",
}


@pytest.mark.parametrize(("text", "message"), BAD_CROSSWALKS.items())
def test_a_crosswalk_that_does_not_fit_is_an_error(town, tmp_path, text, message):
    path = tmp_path / "crosswalk.csv"
    path.write_text(text)
    attack = Difference(other=town / "own-square", crosswalk=path)
    with pytest.raises(HeadcountError, match=message):
        run_attack(lambda: open_difference(attack, town / "own-area"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"other": "nowhere"}, "nowhere: found no release, expected a directory made by headcount"),
        ({"level": "block"}, "the first release: level: found 'block', expected"),
        ({"other_level": "block"}, "own-square: other_level: found 'block', expected"),
    ],
)
def test_releases_that_do_not_fit_are_an_error(town, tmp_path, settings, message):
    attack = Difference(**({"other": town / "own-square"} | settings))
    with pytest.raises(HeadcountError, match=message):
        run_attack(lambda: open_difference(attack, town / "own-area"), tmp_path / "out")


def plain(town: Path, folder: Path, mechanism: str, *, level: str = "square") -> Path:
    """A run of the same people by another method."""
    text = (town / f"own-{level}.toml").read_text()
    before, _, rest = text.partition("[mechanism]\n")
    _, _, run = rest.partition("[run]\n")
    config = town / f"{folder.name}.toml"
    out = run.replace(str(town / f"own-{level}"), str(folder))
    config.write_text(f"{before}[mechanism]\n{mechanism}\n[run]\n{out}")
    return protect_run(config)


def test_counts_that_were_not_changed_are_refused_on_either_side(town, tmp_path):
    counts = plain(town, tmp_path / "counts", 'name = "identity"')
    message = "found the release publishes counts, not tables whose counts were changed, expected"
    with pytest.raises(HeadcountError, match=rf"counts: {message}"):
        open_difference(Difference(other=town / "own-square"), counts)
    with pytest.raises(HeadcountError, match=rf"counts: {message}"):
        open_difference(Difference(other=counts), town / "own-area").claim()


def test_releases_without_a_table_in_common_are_refused(town, tmp_path):
    mechanism = 'name = "rounding"\ntables = { all = ["sex"] }\nlowest = "square"'
    other = plain(town, tmp_path / "rounded", mechanism)
    attack = Difference(other=other)
    with pytest.raises(HeadcountError, match="'square': found tables all, expected a table that"):
        open_difference(attack, town / "own-area").claim()


def test_leaves_that_the_truth_lacks_are_refused_when_slivers_are_scored(town, tmp_path):
    units = pl.read_csv(town / "units.csv").with_columns(pl.col("block").str.replace("b", "x"))
    path = tmp_path / "crosswalk.csv"
    units.select(leaf="block", first="area", second="square").write_csv(path)
    attack = Difference(other=town / "own-square", crosswalk=path)
    attempt = open_difference(attack, town / "own-area", truth=town / "own-area.toml")
    with pytest.raises(HeadcountError, match="column 'leaf': found 'x0', expected leaf units"):
        run_attack(lambda: attempt, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_leaves_ask_for_a_crosswalk(town, tmp_path):
    units = pl.read_csv(town / "units.csv")
    people = pl.read_csv(town / "people.csv")
    renamed = pl.col("block").str.replace("b", "x")
    units.with_columns(renamed).write_csv(tmp_path / "units.csv")
    people.with_columns(renamed).write_csv(tmp_path / "people.csv")
    made(tmp_path, "square", name="renamed", keys="record.keys")
    attack = Difference(other=tmp_path / "renamed")
    with pytest.raises(HeadcountError, match=r"found no unit 'b0', expected the leaf units of"):
        open_difference(attack, town / "own-area").claim()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"largest_change": -1}, "largest_change: found -1, expected 0 or more"),
        (
            {"effort": "hard"},
            "effort: found 'hard', expected one of 'relations', 'programs', 'whole'",
        ),
        ({"steps": 0}, "steps: found 0, expected 1 or more"),
        ({"sample": -1}, "sample: found -1, expected 0 or more"),
        ({"seed": -1}, "seed: found -1, expected 0 or more"),
        ({"crosswalk": "x.csv"}, "crosswalk: found it without a second release, expected the"),
    ],
)
def test_settings_out_of_range_are_errors(settings, message):
    with pytest.raises(ConfigError, match=message):
        Difference(**settings)
