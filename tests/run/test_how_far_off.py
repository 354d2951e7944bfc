"""One number for how far off counts will be: the same everywhere, near the measured one."""

from __future__ import annotations

import json
from fractions import Fraction
from math import log
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from headcount.config.load import PublicFacts, load_config
from headcount.domain import Domain
from headcount.errors import ConfigError
from headcount.geography.geography import regular
from headcount.mechanisms import Chain, Geometric
from headcount.population import Population
from headcount.release.store import read_receipt
from headcount.run.how_far_off import how_far_off, short
from headcount.run.plan import plan
from headcount.run.protect import prepare_run
from headcount.run.public_facts import Facts, of_older_people, people_made_of
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts, Tabulated
from headcount.topdown.mechanism import TopDown
from tests.cli.test_cli import Headcount, headcount

__all__ = ["headcount"]

SCHEMA = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("young", "mid", "old"))))
TREE = regular(children=8, depth=2)
METHOD = TopDown(epsilon=Fraction(1))
CONFIG = """[population]
kind = "counts"
file = "people.csv"
schema = "schema.toml"
units = "people.csv"
overlap = 1
sums = "keep"
[population.geography]
columns = ["county", "tract"]
[mechanism]
name = "topdown"
epsilon = 1
[public]
sizes = "sizes.csv"
table = "table.csv"
[run]
out = "run"
seed = 1
"""


def made(people: float, *, even: bool, seed: int = 1) -> Population:
    """So many people in each of 64 places, alike or of sizes and mixes that differ."""
    chance = np.random.default_rng(seed)
    mix = np.full(6, 1 / 6) if even else np.array([0.5, 0.3, 0.15, 0.03, 0.015, 0.005])
    sizes = np.full(64, people) if even else people * chance.lognormal(-0.5, 1, 64)
    table = chance.poisson(sizes[:, None] * mix).astype(np.int64)
    return Tabulated.of(Counts(Domain(SCHEMA, TREE), TREE.leaf, csr_array(table))).population


FILLED, SPARSE = made(3_000, even=True), made(40, even=False)


def truth(people: Population) -> Facts:
    return Facts("the truth", (people,), 0.0)


def write_files(folder: Path, people: Population) -> Path:
    """The people as a table of counts, and public facts of them."""
    counts = Tabulated.of(people).counts
    codes, dense = TREE.units[2], counts.dense()
    county = TREE.units[1][TREE.parents[2]]
    names = ",".join(SCHEMA.cell_names)
    rows = [
        f"{a},{b},{','.join(map(str, row))}" for a, b, row in zip(county, codes, dense, strict=True)
    ]
    (folder / "people.csv").write_text("\n".join([f"county,tract,{names}", *rows]) + "\n")
    sizes = [f"{code},{n}" for code, n in zip(codes, dense.sum(axis=1), strict=True)]
    (folder / "sizes.csv").write_text("\n".join(["unit,n", *sizes]) + "\n")
    whole = dense.sum(axis=0)
    cells = [f"{s},{a}" for s in ("f", "m") for a in ("young", "mid", "old")]
    table = [f"{cell},{n}" for cell, n in zip(cells, whole, strict=True)]
    (folder / "table.csv").write_text("\n".join(["sex,age,n", *table]) + "\n")
    schema = [
        f'[[attribute]]\nname = "{a.name}"\nlevels = {list(a.levels)}' for a in SCHEMA.attributes
    ]
    (folder / "schema.toml").write_text("\n".join(schema) + "\n")
    (folder / "c.toml").write_text(CONFIG)
    return folder / "c.toml"


def test_where_tables_are_filled_the_formula_is_right_and_is_said_to_hold() -> None:
    design = Chain.of(METHOD).on(FILLED.domain)
    said = how_far_off(design, truth(FILLED))
    measured = how_far_off(design, truth(FILLED), runs=40, seed=9, by_formula=False)
    for row in said.rows:
        if row.level == TREE.leaf:
            assert row.basis == "formula"
            assert row.rmse is not None
            assert abs(log(row.rmse / (measured[row.level, row.query].rmse or 1))) < 0.06
    # Control: where tables are sparse it is far off, and is not said.
    design = Chain.of(METHOD).on(SPARSE.domain)
    formula = {(one.level, one.query): one.rmse for one in design.expected_errors()}
    measured = how_far_off(design, truth(SPARSE), runs=30, seed=9, by_formula=False)
    off = [
        abs(log(formula[TREE.leaf, q] / (measured[TREE.leaf, q].rmse or 1)))
        for q in ("age", "cells")
    ]
    assert min(off) > 0.15
    assert how_far_off(design, truth(SPARSE))[TREE.leaf, "cells"].basis == "trials"


def test_sizes_and_a_table_tell_how_far_off_sparse_counts_will_be(tmp_path: Path) -> None:
    write_files(tmp_path, SPARSE)
    facts = people_made_of(
        PublicFacts(sizes=tmp_path / "sizes.csv", table=tmp_path / "table.csv"), SPARSE.domain
    )
    design = Chain.of(METHOD).on(SPARSE.domain)
    said = how_far_off(design, facts)
    measured = how_far_off(design, truth(SPARSE), runs=40, seed=9, by_formula=False)
    rows = [row for row in said.rows if row.level == TREE.leaf]
    off = [abs(log((row.rmse or 1) / (measured[row.level, row.query].rmse or 1))) for row in rows]
    assert float(np.median(off)) < 0.1
    inside = [
        (row.low or 0) <= (measured[row.level, row.query].rmse or 0) <= (row.high or 0)
        for row in rows
    ]
    assert sum(inside) >= len(inside) - 1
    words = " ".join(said.words())
    assert "16 trial releases on made-up people, like those of sizes.csv and table.csv" in words


def test_without_public_facts_it_cannot_be_said_and_the_words_name_what_would_help() -> None:
    design = Chain.of(METHOD).on(SPARSE.domain)
    own = how_far_off(design, own=Tabulated.of(SPARSE).counts)
    row = own[TREE.leaf, "total"]
    assert (row.rmse, row.use) == (None, "cannot be said")
    assert row.sentence("people").endswith("how far off cannot be said")
    assert "name public facts under [public]: sizes = the people of each place" in own.words()[-2]
    assert own.words()[-1].startswith("How many people a count has was read from your data")
    nothing = how_far_off(design)
    assert nothing[TREE.leaf, "total"].basis == "if filled"
    assert nothing[TREE.leaf, "total"].sentence("people").endswith("if tables are well filled")
    with pytest.raises(ConfigError, match=r"found block.total, expected one of level_1.age"):
        _ = nothing["block", "total"]


def test_a_number_and_its_words_are_the_same_wherever_they_are_said(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``check``, ``plan``, receipt, ``explain`` and Python, of a tract's total."""
    config = write_files(tmp_path, SPARSE)
    monkeypatch.chdir(tmp_path)
    far = prepare_run(load_config(config)).far
    one = far["tract", "total"]
    assert one.basis == "trials"

    def same(said: str) -> None:
        rows = json.loads(said)["rows"] if said.startswith("{") else json.loads(said)
        found = next(r for r in rows if (r["level"], r["query"]) == ("tract", "total"))
        assert (found["rmse"], found["within"], found["size"]) == (one.rmse, one.within, one.size)

    checked = headcount("check", "c.toml", "--quiet")
    assert checked.code == 0, checked.err
    assert one.sentence("people") in checked.out
    planned = json.loads(headcount("plan", "c.toml", "--json").out)
    same(json.dumps(planned["tables"]["as configured"]["how_far_off"]))
    assert one.sentence("people") in headcount("plan", "c.toml").out
    assert headcount("protect", "c.toml").code == 0
    same(json.dumps(read_receipt(tmp_path / "run" / "release")["how_far_off"]))
    explained = headcount("explain", "run")
    assert explained.code == 0, explained.err
    assert (
        f"{short(one.rmse)}"
        in (tmp_path / "run" / "internal" / "explained" / "page.txt").read_text()
    )
    facts = PublicFacts(sizes=tmp_path / "sizes.csv", table=tmp_path / "table.csv")
    domain = load_config(config).population.domain()
    assert plan(METHOD, domain, public=facts).far["tract", "total"].rmse == one.rmse


def test_the_least_loss_keeps_its_goal_and_not_much_less_would() -> None:
    goal = f"{TREE.leaf}.total"
    found = plan(METHOD, SPARSE.domain, public=SPARSE, within={goal: 15})
    loss = found.mechanism.last.epsilon  # type: ignore[attr-defined]
    shares = []
    for amount in (loss, loss * 3 / 4):
        design = Chain.of(TopDown(epsilon=amount)).on(SPARSE.domain)
        told = how_far_off(design, truth(SPARSE), runs=30, seed=9)[TREE.leaf, "total"].share
        assert told is not None
        shares.append(told(15))
    assert 0.93 < shares[0] < 0.975
    assert shares[1] < 0.93


def test_noise_alone_needs_no_facts() -> None:
    design = Chain.of(Geometric(epsilon=Fraction(1))).on(SPARSE.domain)
    said = how_far_off(design)
    assert {row.basis for row in said.rows} == {"formula"}
    assert said[TREE.leaf, "cells"].within == 6


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("table.csv", "sex,age,n\nx,young,1\n", r"row 1, sex: found 'x', expected a level of it"),
        ("table.csv", "sex,age,n\nf,young,-1\n", r"row 1, n: found '-1', expected people, 0 or mo"),
        ("table.csv", "sex,age,n\nf,young,nan\n", r"row 1, n: found 'nan', expected people, 0"),
        ("table.csv", "sex,age,n\nf,young,0\n", r"n: found nobody, expected some people"),
    ],
)
def test_facts_that_are_none_are_refused(
    tmp_path: Path, file: str, text: str, message: str
) -> None:
    write_files(tmp_path, SPARSE)
    (tmp_path / file).write_text(text)
    facts = PublicFacts(sizes=tmp_path / "sizes.csv", table=tmp_path / "table.csv")
    with pytest.raises(ConfigError, match=message):
        people_made_of(facts, SPARSE.domain)


def test_an_older_census_must_have_the_same_levels_and_attributes() -> None:
    other = Population(
        "other", Domain(SCHEMA, regular(children=2, depth=1)), *(np.zeros(1, np.int32),) * 2
    )
    with pytest.raises(ConfigError, match="levels: found others than in the data, expected the s"):
        of_older_people(other, SPARSE.domain)
    with pytest.raises(
        ConfigError, match="public: found before beside sizes or table, expected on"
    ):
        PublicFacts(before=Path("a.csv"), sizes=Path("b.csv"))
