"""Plans of coarsening: the shared audits, what is kept, and refusals."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from headcount.errors import ConfigError
from headcount.mechanisms.coarsening.audit import audit
from headcount.mechanisms.coarsening.mechanism import Coarsening
from headcount.mechanisms.coarsening.search import NOWHERE, WITH_AREAS, Search, try_plans
from headcount.mechanisms.coarsening.settings import AuditLimits, CoarsenedTable
from headcount.mechanisms.coarsening.worlds import Worlds, worlds_of
from headcount.tabulate import Counts
from headcount.typed import from_table
from tests.support.coarsening_worlds import Scene

LIMITS: Any = {"known": ("k",), "secret": ("s",), "proven": Fraction(1, 2)}
WANTED = Coarsening(
    ladder=(), tables={"x": CoarsenedTable(by=("k", "s"), at="block")}, audit=LIMITS
)
SCENE = Scene(8, (("k", 3), ("s", 3)), WANTED)


def people(seed: int) -> Counts:
    """A few people in eight blocks, most of them of one secret."""
    lot = np.random.default_rng(seed)
    shares = np.array([0.7, 0.2, 0.1])
    cells = lot.poisson(1.2, size=(8, 3))[:, :, None] * shares
    return SCENE.counts(tuple(lot.poisson(cells).reshape(-1).tolist()))


def worlds_in(method: Coarsening, counts: Counts) -> Worlds:
    """What a plan leaves open."""
    design = method.on(counts.domain)
    places = design.coarsen(counts)
    laid = replace(counts, domain=replace(counts.domain, geography=places))
    tables = tuple(design.published(counts, places))
    return worlds_of(laid, tables, ("k",), ("s",))


@pytest.mark.parametrize("seed", range(6))
def test_a_shared_audit_says_what_one_by_itself_says(seed):
    counts = people(seed)
    search = try_plans(WANTED, counts, areas=(3, 6))
    assert len(search.plans) >= 6
    for one in search.plans:
        alone = audit(worlds_in(one.method, counts), insiders=False)
        assert (one.found.proven, one.found.proven_unlike) == (alone.proven, alone.proven_unlike)
        assert (one.found.people, one.found.unlike) == (alone.people, alone.unlike)


def test_an_audit_told_that_a_coarser_release_is_finer_says_too_little():
    wrong = 0
    for seed in range(6):
        counts = people(seed)
        first, *_, last = try_plans(WANTED, counts, areas=(3,)).plans
        fine, coarse = (worlds_in(one.method, counts) for one in (first, last))
        told = audit(fine, insiders=False, finer=(coarse, audit(coarse, insiders=False)))
        wrong += told.proven < first.found.proven
    assert wrong


def test_the_plans_are_these():
    search = try_plans(WANTED, people(1), areas=(3, 6), crossed=(6, "county", NOWHERE))
    shown = [(one.least, one.crossed) for one in search.plans]
    assert shown[:4] == [
        ("block", WITH_AREAS),
        ("block", 6),
        ("block", "county"),
        ("block", NOWHERE),
    ]
    assert (6, 6) not in shown
    assert (3, 6) in shown


def test_what_is_kept_is_what_a_reader_who_divides_areas_places_rightly():
    counts = people(2)
    search = try_plans(WANTED, counts, areas=(6,), crossed=(NOWHERE,))
    one = next(one for one in search.plans if one.least == 6)
    true = counts.matrix.toarray().reshape(8, 3, 3)
    place = one.method.on(counts.domain).coarsen(counts).ancestors("areas-6")
    for name, axis in (("k", 2), ("s", 1)):
        here = true.sum(axis=axis)
        total, off = here.sum(axis=1), 0.0
        for block in range(8):
            area = place == place[block]
            guess = here[area].sum(axis=0) * total[block] / max(1, total[area].sum())
            off += np.abs(guess - here[block]).sum()
        assert one.kept[name, "block"] == pytest.approx(1 - off / 2 / true.sum())
    assert search.plans[0].kept["s", "block"] == 1


def test_joined_levels_are_divided_evenly_and_tried_alone_and_together():
    counts = people(3)
    joins: Any = [("s", ("few", ("s1", "s2"))), ("k", ("k12", ("k1", "k2")))]
    search = try_plans(WANTED, counts, areas=(), crossed=(NOWHERE,), joins=joins)
    assert list(dict.fromkeys(one.joined for one in search.plans)) == [
        "",
        "s: few = s1 + s2",
        "k: k12 = k1 + k2",
        "s: few = s1 + s2; k: k12 = k1 + k2",
    ]
    here = counts.matrix.toarray().reshape(8, 3, 3).sum(axis=1)
    half = here[:, 1:].sum(axis=1, keepdims=True) / 2
    off = np.abs(here[:, 1:] - half).sum()
    one = next(one for one in search.plans if one.joined == "s: few = s1 + s2")
    assert one.kept["s", "block"] == pytest.approx(1 - off / 2 / here.sum())


def test_a_plan_is_written_as_it_is_read():
    show: Any = {"rule": "us-drb-2019"}
    table = CoarsenedTable(by=("k", "s"), at="block", joined={"s": {"f": ("s1", "s2")}}, show=show)
    wanted = Coarsening(ladder=("county",), tables={"x": table}, audit=LIMITS, totals="block")
    for scene in (SCENE,):
        for one in try_plans(wanted, scene.counts((1,) * 72), areas=(20,)).plans:
            read = tomllib.loads(one.toml())["mechanism"]
            assert read.pop("name") == "coarsening"
            assert from_table(Coarsening, read, source="plan", place="mechanism") == one.method


def test_the_table_says_whether_limits_are_kept_and_what_insiders_prove():
    limits = AuditLimits(known=("k",), secret=("s",), proven=Fraction(0), insiders=Fraction(1, 2))
    search: Search = try_plans(replace(WANTED, audit=limits), people(4), areas=(3,))
    table = search.table
    assert table["fits"].to_list() == [
        one.found.proven == 0 and 2 * one.found.insiders <= one.found.people for one in search.plans
    ]
    assert "insiders_besides" in table.columns
    assert not table["fits"][0]


@pytest.mark.parametrize(
    ("wanted", "given", "said"),
    [
        (replace(WANTED, audit=None), {}, "audit: found none"),
        (WANTED, {"crossed": ("district",)}, "cross: found 'district', expected one of"),
        (WANTED, {"areas": range(1, 300)}, "plans: found .*, expected at most 200"),
    ],
)
def test_what_cannot_be_tried_is_refused(wanted, given, said):
    with pytest.raises(ConfigError, match=said):
        try_plans(wanted, people(1), **given)
