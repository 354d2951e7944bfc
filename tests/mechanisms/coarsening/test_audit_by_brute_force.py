"""Every statement of the audit against all populations of a few people, the choice of areas too."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from headcount.mechanisms.coarsening.audit import NOT_PROVEN, OPEN, PROVEN, UNDECIDED
from headcount.mechanisms.coarsening.mechanism import Coarsening
from headcount.mechanisms.coarsening.worlds import Worlds
from headcount.release.changed import Step
from tests.support.coarsening_worlds import Population, Scene

SIMPLE = (("k", 2), ("s", 2))
KNOWN: Any = {"known": ("k",), "secret": ("s",)}


def tables(**named: tuple[tuple[str, ...], int | str]) -> Any:
    return {name: {"by": by, "at": at} for name, (by, at) in named.items()}


def method(ladder: tuple[int | str, ...] = (), audit: Any = KNOWN, **named: Any) -> Coarsening:
    return Coarsening(ladder=ladder, audit=audit, tables=tables(**named))


def shown(show: Any, at: int | str, by: tuple[str, ...] = ("s",), **named: Any) -> Coarsening:
    more: Any = {"r": {"by": by, "at": at, "show": show}}
    return Coarsening(ladder=(), audit=KNOWN, tables={**tables(**named), **more})


def rounded(base: int, at: int | str, by: tuple[str, ...] = ("s",), **named: Any) -> Coarsening:
    return shown({"base": base}, at, by, **named)


RANGES: Any = {"below": 3, "steps": [Step(at=0, base=1), Step(at=4, base=2)], "halves": "even"}
OF_AREAS: Any = {"r": {"by": ("s",), "at": 2, "show": RANGES}}
ranges_of_areas = Coarsening(ladder=(2,), audit=KNOWN, tables=OF_AREAS)


JOINED: Any = {"by": ("k", "s"), "joined": {"s": {"few": ["s1", "s2"]}}}
CROSSED = method(x=(("k", "s"), "block"))
OVER_ALL = method(x=(("k", "s"), "whole"))
APART = method(k=(("k",), "block"), s=(("s",), "block"))
BOTH = method(s=(("s",), "block"), x=(("k", "s"), "whole"))
BY_TOTALS = method((3,), x=(("k", "s"), 3))

SCENES = {
    "crossed at blocks": (Scene(2, SIMPLE, CROSSED), 6),
    "crossed over all": (Scene(2, SIMPLE, OVER_ALL), 6),
    "apart at blocks": (Scene(2, SIMPLE, APART), 6),
    "apart at blocks, crossed over all": (Scene(2, SIMPLE, BOTH), 6),
    "areas by totals": (Scene(2, SIMPLE, BY_TOTALS), 6),
    "three blocks, apart, crossed over all": (Scene(3, SIMPLE, BOTH), 5),
    "areas of three blocks, crossed over all": (
        Scene(3, SIMPLE, method((2,), s=(("s",), 2), x=(("k", "s"), "whole"))),
        5,
    ),
    "two rungs": (
        Scene(3, SIMPLE, method((2, 4), s=(("s",), 2), x=(("k", "s"), 4))),
        5,
    ),
    "three secrets": (Scene(2, (("k", 2), ("s", 3)), BOTH), 5),
    "three keys": (Scene(2, (("k", 3), ("s", 2)), BOTH), 5),
    "joined secrets": (
        Scene(
            2,
            (("k", 2), ("s", 3)),
            Coarsening(
                ladder=(),
                audit=KNOWN,
                tables={
                    **tables(s=(("s",), "block")),
                    "x": JOINED | {"at": "whole"},
                },
            ),
        ),
        5,
    ),
    "two known attributes, each crossed by itself": (
        Scene(
            1,
            (("a", 2), ("b", 2), ("s", 2)),
            method(
                audit={"known": ("a", "b"), "secret": ("s",)},
                x=(("a", "s"), "block"),
                y=(("b", "s"), "block"),
            ),
        ),
        6,
    ),
    "one crossed at blocks, all over all": (
        Scene(
            2,
            (("a", 2), ("b", 2), ("s", 2)),
            method(
                audit={"known": ("a", "b"), "secret": ("s",)},
                x=(("a", "s"), "block"),
                y=(("a", "b", "s"), "whole"),
            ),
        ),
        4,
    ),
    "a third attribute that is not asked for": (
        Scene(
            2,
            (("k", 2), ("s", 2), ("t", 2)),
            method(x=(("k", "t"), "block"), y=(("s", "t"), "whole"), z=(("s",), "block")),
        ),
        4,
    ),
    "rounded to 3": (Scene(2, SIMPLE, rounded(3, "block")), 6),
    "rounded to 3, crossed": (Scene(2, SIMPLE, rounded(3, "block", ("k", "s"))), 5),
    "as of special tabulations": (Scene(2, SIMPLE, shown({"rule": "us-special-2004"}, "block")), 6),
    "as of special tabulations, crossed, beside a sum": (
        Scene(
            2,
            SIMPLE,
            shown({"rule": "us-special-2004"}, "whole", ("k", "s"), s=(("s",), "block")),
        ),
        6,
    ),
    "fewer than 3 as a range, else by steps": (
        Scene(2, SIMPLE, shown(RANGES, "block", s=(("s",), "whole"))),
        6,
    ),
    "three blocks, ranges, areas by totals": (
        Scene(3, (("k", 1), ("s", 3)), ranges_of_areas),
        6,
    ),
    "twelve cells": (Scene(3, SIMPLE, method((2,), s=(("s",), "block"), x=(("k", "s"), 2))), 6),
    "twelve cells, three secrets": (Scene(2, (("k", 2), ("s", 3)), BOTH), 6),
    "rounded to 5 beside a sum": (Scene(2, SIMPLE, rounded(5, "block", s=(("s",), "whole"))), 6),
}
SOME = 150
"""Populations of each scene, drawn by lot: with all scenes more than 8,000 statements."""
asked_in_all: dict[str, int] = {}


def audited(scene: Scene, population: Population) -> tuple[Worlds, Any]:
    design = scene.method.on(scene.domain)
    found = design.audited(scene.counts(population))
    assert found is not None
    return found


def by_leaf(scene: Scene, worlds: Worlds, kind: list[Population]) -> np.ndarray:
    """(world, block, key, secret) of every population of a class, by the classes of the audit."""
    atoms = worlds.atoms
    to = np.zeros((len(atoms.of_cell), atoms.keys, 1 + atoms.secret.max()), dtype=np.int64)
    cells = np.arange(len(atoms.of_cell))
    to[cells, atoms.of_cell // atoms.hidden, atoms.secret[atoms.of_cell % atoms.hidden]] = 1
    every = np.array(kind).reshape(len(kind), scene.blocks, -1)
    return np.tensordot(every, to, axes=1)


@pytest.mark.parametrize("name", SCENES)
def test_every_statement_is_right(name: str) -> None:
    """Proven in all populations of a class, or another of them in it: and nobody is forgotten."""
    scene, people = SCENES[name]
    kinds = scene.classes(people)
    drawn = random.Random(34).sample(kinds, min(SOME, len(kinds)))
    asked = wrong = loose = 0
    for kind in drawn:
        worlds, found = audited(scene, kind[0])
        x = by_leaf(scene, worlds, kind)
        said = found.statements
        in_area = np.zeros((len(x), worlds.areas, *x.shape[2:]), dtype=np.int64)
        for leaf, area in enumerate(worlds.of_leaf.tolist()):
            in_area[:, area] += x[:, leaf]
        for n in range(len(said.said)):
            held = in_area[:, said.area[n], said.key[n]].copy()
            if (own := said.insider[n]) >= 0:
                held = held[held[:, own] >= 1]
                held[:, own] -= 1
            true = (held.sum(axis=1) == held[:, said.secret[n]]).all()
            assert said.said[n] != OPEN
            asked += 1
            wrong += bool(true) != (said.said[n] in (PROVEN, UNDECIDED))
            loose += said.said[n] == UNDECIDED
            assert (said.said[n] == NOT_PROVEN) == (said.witness[n] >= 0)
        # At blocks, where the attacker knows people: as many as in the areas.
        alike = ((x > 0).sum(axis=3) == 1).all(axis=0)
        same = (x.argmax(axis=3) == x[:1].argmax(axis=3)).all(axis=0)
        assert found.proven == x[0].sum(axis=2)[alike & same].sum()
        assert found.certain >= (x.min(axis=0) >= 1).sum()
    asked_in_all[name] = asked
    assert (wrong, loose) == (0, 0), f"{wrong} of {asked} statements are wrong, {loose} undecided"


def test_there_are_enough_statements() -> None:
    """At least 8,000 of them, where all scenes have run."""
    if len(asked_in_all) == len(SCENES):
        assert sum(asked_in_all.values()) >= 8_000


SHARES = {
    # Of the populations of 6 people in 2 blocks, 2 keys and 2 secrets: percent of people proven,
    # and how many different releases there are, where they have the keys of blocks.
    "crossed at blocks": (61.54, 1716),
    "crossed over all": (35.90, None),
    "apart at blocks": (35.90, 1092),
    "apart at blocks, crossed over all": (58.74, 1680),
    "areas by totals": (43.67, None),
}


@pytest.mark.parametrize("name", SHARES)
def test_share_of_people_proven_over_all_populations(name: str) -> None:
    """Golden case 8: the audit over all 1,716 populations of 6 people in 8 cells."""
    scene, people = SCENES[name]
    proven, total = 0, 0
    seen: dict[Population, int] = {}
    for population in scene.populations(people):
        x = np.array(population).reshape(2, 2, 2)
        turned = [y[a][:, b][:, :, c] for y in (x,) for a in ORDERS for b in ORDERS for c in ORDERS]
        first = min(tuple(one.ravel().tolist()) for one in turned)
        if first not in seen:
            seen[first] = audited(scene, first)[1].proven
        proven, total = proven + seen[first], total + people
    share, releases = SHARES[name]
    assert round(100 * proven / total, 2) == share
    if releases:
        assert len(scene.classes(people)) == releases


ORDERS = (slice(None), slice(None, None, -1))


def test_a_rounded_count_beside_an_exact_total() -> None:
    """Golden case 4: 8 people and a group shown as 10, which is 8 to 12: all 8 are in it."""
    scene = Scene(1, (("k", 1), ("s", 2)), rounded(5, "block"))
    assert audited(scene, (8, 0))[1].proven == 8
    assert audited(scene, (7, 1))[1].proven == 0
    assert audited(scene, (9, 0))[1].proven == 0


def test_one_group_and_an_insider() -> None:
    """Golden case 1: of (40, 0) all are proven; of (39, 1) none, and to the one the others are."""
    scene = Scene(1, (("k", 1), ("s", 2)), CROSSED)
    _, all_alike = audited(scene, (40, 0))
    assert (all_alike.proven, all_alike.insiders, all_alike.certain) == (40, 0, 1)
    _, one_apart = audited(scene, (39, 1))
    assert (one_apart.proven, one_apart.insiders) == (0, 39)
    assert (one_apart.unlike, one_apart.proven_unlike) == (1, 0)


def test_what_is_not_decided_counts_as_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that are too large for the audit decide nothing."""
    import headcount.mechanisms.coarsening.audit as searched

    scene, population = Scene(1, (("k", 1), ("s", 2)), rounded(5, "block")), (8, 0)
    monkeypatch.setattr(searched, "LARGEST", 0)
    _, found = audited(scene, population)
    assert (found.proven, found.undecided) == (8, 8)


def test_joining_never_proves_more() -> None:
    """Joined levels, and a coarser place of a table: of the same people no more is proven."""
    lot = random.Random(5)
    fine = method((4,), s=(("s",), "block"), x=(("k", "s"), 4))
    joined = {"x": JOINED | {"at": 4}}
    coarser = (
        method((4,), s=(("s",), 4), x=(("k", "s"), 4)),
        method((4,), s=(("s",), "block"), x=(("k", "s"), "whole")),
        method((4,), s=(("s",), "block")),
        Coarsening(ladder=(4,), audit=KNOWN, tables={**tables(s=(("s",), "block")), **joined}),
    )
    for _ in range(40):
        population = tuple(
            np.bincount([lot.randrange(24) for _ in range(9)], minlength=24).tolist()
        )
        most = audited(Scene(4, (("k", 2), ("s", 3)), fine), population)[1]
        for less in coarser:
            found = audited(Scene(4, (("k", 2), ("s", 3)), less), population)[1]
            assert found.proven <= most.proven


def test_an_audit_needs_no_table_that_shows_a_secret() -> None:
    """Tables of keys alone prove nothing."""
    scene = Scene(2, SIMPLE, method(k=(("k",), "block")))
    _, found = audited(scene, (2, 0, 1, 0, 0, 3, 0, 0))
    assert (found.proven, found.people) == (0, 6)
