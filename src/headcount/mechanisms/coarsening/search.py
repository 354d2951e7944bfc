"""Plans of coarsening tried on people: what each keeps, and what it proves. A person chooses.

A *plan* has three choices: the least people of an area, the rung at which tables cross what is
known of persons with anything else (below it both are shown apart), and levels that are joined. All
plans together are few, so all are tried; those of one ladder from the finest crossing to none, as
what a finer release does not prove a coarser one does not (``audit``).

All of it is computed from the truth, and none of it may be published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Floats
from headcount.errors import ConfigError
from headcount.fields import Pairs
from headcount.files import to_toml
from headcount.geography import Geography
from headcount.mechanisms._chain import Chain, Mechanisms
from headcount.mechanisms._own_tables import plain
from headcount.mechanisms.coarsening.areas import Rung, rung_name
from headcount.mechanisms.coarsening.audit import Audit, audit
from headcount.mechanisms.coarsening.mechanism import TOTALS, Coarsening, CoarseningDesign
from headcount.mechanisms.coarsening.settings import AuditLimits, CoarsenedTable, Show
from headcount.mechanisms.coarsening.worlds import Worlds, worlds_of
from headcount.processes import Progress, silent
from headcount.tabulate import Counts

if TYPE_CHECKING:
    import polars as pl

AREAS, MOST = (50, 100, 200, 500, 1000), 200
"""Least people of an area that are tried unless others are given, and plans at most."""
PIVOTS = 5_000
"""Of the programs of a piece, for each plan: what is then undecided counts as proven."""
WITH_AREAS, NOWHERE = "with areas", "nowhere"
"""Where tables are crossed: at the areas themselves, or at no rung."""

_NO_TABLE = Pairs.of({"none": CoarsenedTable(by=(), at="")})

Join = tuple[str, tuple[int, ...] | tuple[str, tuple[str, ...]]]
"""An attribute, and where bins of years begin, or a label with the levels that are joined."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tried:
    """A plan, and what came of it; computed from the truth.

    where
        least    the least people of an area; the leaf where its name stands
        crossed  the rung at which tables are crossed, ``WITH_AREAS`` or ``NOWHERE``
        joined   levels that are joined besides, in words
        areas    how many there are
        kept     by query and level the share of people whom a reader places rightly, by estimate
        found    the audit
        fits     whether the limits of the config are kept
    """

    method: Coarsening
    least: Rung
    crossed: Rung
    joined: str
    areas: int
    kept: Mapping[tuple[str, str], float]
    found: Audit
    fits: bool

    def toml(self) -> str:
        """The plan as the tables of a config that it takes the place of."""
        head = {"name": "coarsening", **_written(replace(self.method, tables=_NO_TABLE))}
        tables = {name: _written(one) for name, one in self.method.wanted}
        del head["tables"]
        text = to_toml({"mechanism": head, "tables": tables})
        return text.replace("\n[tables]\n", "\n[mechanism.tables]\n")


def _written(settings: Any) -> dict[str, Any]:
    """Settings that are not their defaults, as plain values of a config."""
    found: dict[str, Any] = {}
    for one in fields(settings):
        value = plain(getattr(settings, one.name))
        if getattr(settings, one.name) == one.default:
            continue
        if hasattr(value, "__dataclass_fields__"):
            value = _written(value)
        elif isinstance(value, tuple) and value and hasattr(value[0], "__dataclass_fields__"):
            value = [_written(each) for each in value]
        elif isinstance(value, Fraction | Path):
            value = str(value)
        found[one.name] = value
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Search:
    """Plans that were tried, in the order in which they coarsen.

    where
        queries   what is looked at, by name: the parts of the wanted tables
        levels    below the whole, from the coarsest
    """

    plans: tuple[Tried, ...]
    queries: tuple[str, ...]
    levels: tuple[str, ...]
    limits: AuditLimits

    @cached_property
    def table(self) -> pl.DataFrame:
        """A row for each plan: what it is, what it keeps and what it proves, in per cent."""
        import polars as pl

        rows = []
        for number, one in enumerate(self.plans, start=1):
            found = one.found
            row: dict[str, Any] = {
                "plan": number,
                "least": str(one.least),
                "areas": one.areas,
                "crossed": str(one.crossed),
                "joined": one.joined,
                **{f"kept, {q}, {level}": 100 * share for (q, level), share in one.kept.items()},
                "proven": _percent(found.proven, found.people),
                "proven_of_non_majority": _percent(found.proven_unlike, found.unlike),
                "undecided": _percent(found.undecided, found.people),
                "fits": one.fits,
            }
            if self.limits.insiders < 1:
                row["insiders_besides"] = _percent(found.insiders, found.people)
            rows.append(row)
        return pl.DataFrame(rows)


def _percent(many: int, of: int) -> float:
    return 100 * many / of if of else 0.0


def to_try(mechanism: Mechanisms, *, source: str) -> Coarsening:
    """The coarsening that a config has; refused if it has another method, or a step before it."""
    chain = Chain.of(mechanism)
    if not isinstance(chain.last, Coarsening) or chain.steps:
        expected = '[mechanism] name = "coarsening", with the wanted tables and an audit'
        raise ConfigError(source, place="mechanism", found=repr(chain.called), expected=expected)
    return chain.last


def try_plans(
    method: Coarsening,
    counts: Counts,
    *,
    areas: Sequence[int] = AREAS,
    crossed: Sequence[Rung] = (),
    joins: Sequence[Join] = (),
    progress: Progress = silent,
) -> Search:
    """Try plans for wanted tables, each with its audit.

    where
        method    has the wanted tables in full, the levels of its ladder, and an audit that says
                  what is known of persons and what is secret
        areas     least people of an area; leaves as they are are tried too
        crossed   rungs at which tables are crossed: levels, least people, or ``NOWHERE``; all
                  levels and this if not given. At the areas themselves is tried too
        joins     tried each by itself, and all together
    """
    limits = method.audit
    if limits is None:
        raise _bad("audit", "none", 'audit = { known = ["age"], secret = ["origin"] }')
    geography = counts.geography
    levels = geography.levels[-2:0:-1]
    for rung in crossed:
        if isinstance(rung, str) and rung not in (*levels, geography.levels[0], NOWHERE):
            raise _bad("cross", repr(rung), f"one of {', '.join((*levels, NOWHERE))}, or a number")
    rungs = tuple(crossed) or (*levels, NOWHERE)
    together = [()] + [(one,) for one in joins] + ([tuple(joins)] if len(joins) > 1 else [])
    thresholds: tuple[Rung, ...] = (geography.leaf, *sorted(set(areas)))
    plans = [
        (least, rung, join)
        for join in together
        for least in thresholds
        for rung in (WITH_AREAS, *_upwards(rungs, levels))
    ]
    if len(plans) > MOST:
        raise _bad("plans", str(len(plans)), f"at most {MOST}: fewer areas, crossings or joins")
    wanted = _Wanted.of(method, counts)
    tried: list[Tried] = []
    before: tuple[Any, Worlds, Audit] | None = None
    for least, rung, join in progress(plans, what="trying plans", total=len(plans)):
        made = _plan(method, geography, least, rung, join)
        if made is None:
            continue
        design = made.on(counts.domain)
        places = design.coarsen(counts)
        level = geography.leaf if least == geography.leaf else rung_name(least)
        many = places.size(level)
        if rung not in (WITH_AREAS, NOWHERE) and many == places.size(_level(rung, geography)):
            continue  # one division: the plan above it crosses there
        laid = replace(counts, domain=replace(counts.domain, geography=places))
        published = tuple(design.published(counts, places))
        worlds = worlds_of(laid, published, limits.known, limits.secret)
        finer = before[1:] if before is not None and before[0] == (least, join) else None
        found = audit(worlds, insiders=limits.insiders < 1, finer=finer, pivots=PIVOTS)
        before = ((least, join), worlds, found)
        tried.append(
            Tried(
                method=made,
                least=least,
                crossed=rung,
                joined="; ".join(map(_said, join)),
                areas=many,
                kept=wanted.kept(design, places, counts),
                found=found,
                fits=found.proven <= limits.proven * found.people
                and found.proven_unlike <= limits.non_majority * found.unlike
                and found.insiders <= limits.insiders * found.people,
            )
        )
    return Search(
        plans=tuple(tried),
        queries=tuple(wanted.names),
        levels=geography.levels[1:],
        limits=limits,
    )


def _bad(place: str, found: str, expected: str) -> ConfigError:
    return ConfigError("plan --coarsen", place=place, found=found, expected=expected)


def _upwards(rungs: Sequence[Rung], levels: Sequence[str]) -> list[Rung]:
    """Rungs from the finest: numbers, levels, the whole, nowhere."""
    order = {level: n for n, level in enumerate(levels)}

    def place(rung: Rung) -> tuple[int, int]:
        if isinstance(rung, int):
            return 0, rung
        return (3, 0) if rung == NOWHERE else (1, order[rung]) if rung in order else (2, 0)

    return sorted(set(rungs), key=place)


def _level(rung: Rung, geography: Geography) -> str:
    return str(rung) if rung == geography.levels[0] else rung_name(rung)


def _said(join: Join) -> str:
    name, how = join
    if isinstance(how[0], str):
        return f"{name}: {how[0]} = {' + '.join(how[1])}"
    return f"{name} from {', '.join(map(str, how))}"


def _plan(
    method: Coarsening, geography: Geography, least: Rung, rung: Rung, joins: Sequence[Join]
) -> Coarsening | None:
    """The wanted tables by one plan; None where it would be no ladder."""
    assert method.audit is not None
    known, whole = method.audit.known, geography.levels[0]
    levels = [one for one in method.ladder if isinstance(one, str)]
    order = geography.levels[-2:0:-1]
    if isinstance(rung, str) and rung in order and rung not in levels:
        levels = [one for one in order if one in (*levels, rung)]
    numbers = [one for one in (least, rung) if isinstance(one, int)]
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        return None
    tables: dict[str, CoarsenedTable] = {}
    for name, one in method.wanted:
        table = _joined(one, joins)
        keys = tuple(each for each in one.by if each in known)
        rest = tuple(each for each in one.by if each not in known)
        if rung == WITH_AREAS or not keys or not rest:
            _add(tables, name, replace(table, at=least))
            continue
        _add(tables, f"{name}_known", _part(table, keys, least))
        _add(tables, f"{name}_other", _part(table, rest, least))
        if rung != NOWHERE:
            _add(tables, name, replace(table, at=rung))
    assert whole not in levels
    return replace(method, ladder=(*numbers, *levels), tables=Pairs.of(tables))


def _add(tables: dict[str, CoarsenedTable], name: str, table: CoarsenedTable) -> None:
    """The same table is published once."""
    if table not in tables.values():
        tables[name] = table


def _part(table: CoarsenedTable, by: tuple[str, ...], at: Rung) -> CoarsenedTable:
    def of(pairs: Any) -> Any:
        return Pairs((name, value) for name, value in pairs if name in by)

    return replace(table, by=by, at=at, joined=of(table.joined), bins=of(table.bins))


def _joined(table: CoarsenedTable, joins: Sequence[Join]) -> CoarsenedTable:
    """The table with further levels joined; bins take the place of finer ones."""
    bins, joined = dict(table.bins), {name: dict(one) for name, one in dict(table.joined).items()}
    for name, how in joins:
        if name not in table.by:
            continue
        if isinstance(how[0], str):
            joined.setdefault(name, {})[how[0]] = tuple(how[1])
        else:
            bins[name] = tuple(how)
    return replace(
        table,
        bins=Pairs.of(bins),
        joined=Pairs.of({name: Pairs.of(one) for name, one in joined.items()}),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Wanted:
    """What is wanted in full: each part of a wanted table at the leaf, in truth.

    A reader's estimate of a part is the finest published table that has it, its areas divided by
    the published totals of leaves, joined levels evenly.
    """

    names: tuple[str, ...]
    cells: tuple[Any, ...]
    true: tuple[Any, ...]

    @classmethod
    def of(cls, method: Coarsening, counts: Counts) -> _Wanted:
        """The parts that are known of persons, and all else, of every table."""
        assert method.audit is not None
        known, parts = method.audit.known, dict[str, CoarsenedTable]()
        for _, one in method.wanted:
            for by in ([n for n in one.by if n in known], [n for n in one.by if n not in known]):
                if by:
                    part = _part(one, tuple(by), counts.geography.leaf)
                    _add(parts, f"{'_by_'.join(by)}", replace(part, show=Show()))
        design = replace(method, tables=Pairs.of(parts), ladder=(), audit=None).on(counts.domain)
        cells = tuple(one for one in design.made if one.table.name != TOTALS)
        true = tuple((counts.matrix @ one.matrix[:, one.inner]).tocsc() for one in cells)
        return cls(names=tuple(one.table.title for one in cells), cells=cells, true=true)

    def kept(
        self, design: CoarseningDesign, places: Geography, counts: Counts
    ) -> dict[tuple[str, str], float]:
        """By part and level the share of people in their right place and cell, by estimate."""
        geography, people = counts.geography, counts.totals().astype(np.float64)
        weight = people  # the published totals; the method publishes them at some rung
        totals = design.method.totals or geography.leaf
        if totals != geography.leaf:
            sizes = design.method.sizes
            weight = np.ones(len(people)) if sizes is None else sizes.of(geography).astype(float)
        shown = {(one.name, one.level): one for one in design.published(counts, places)}
        found = {}
        for name, cells, true in zip(self.names, self.cells, self.true, strict=True):
            made = self._finest(cells, design, places)
            level = made.table.lowest
            value = shown[made.table.name, level].value[:, made.inner]
            off = np.zeros(len(geography.levels))
            of = places.ancestors(level)
            each = np.maximum(np.bincount(of, weights=weight), 1e-300)
            shares = _shares(cells, made)
            for column in range(true.shape[1]):
                here: Floats = (value @ shares[column])[of] * weight / each[of]
                here -= np.asarray(true[:, [column]].todense()).reshape(-1)
                for depth, one in enumerate(geography.levels[1:], start=1):
                    unit = np.bincount(geography.ancestors(one), weights=here)
                    off[depth] += np.abs(unit).sum()
            for depth, one in enumerate(geography.levels[1:], start=1):
                found[name, one] = 1 - off[depth] / 2 / max(people.sum(), 1.0)
        return found

    @staticmethod
    def _finest(cells: Any, design: CoarseningDesign, places: Geography) -> Any:
        """The table with these attributes that is shown for the finest areas, the smallest."""
        roles = {axis.role for axis in cells.axes}
        fit = [one for one in design.made if roles <= {axis.role for axis in one.axes}]
        return min(fit, key=lambda one: (-places.depth(one.table.lowest), one.size))


def _shares(wanted: Any, made: Any) -> Floats:
    """For each wanted cell the share that it has of each published one: joined levels evenly."""
    to = np.asarray(wanted.matrix[:, wanted.inner].argmax(axis=1)).reshape(-1)
    by = np.asarray(made.matrix[:, made.inner].argmax(axis=1)).reshape(-1)
    both = np.unique(np.column_stack([to, by]), axis=0)
    many = np.bincount(both[:, 1])
    shares = np.zeros((int(wanted.inner.sum()), int(made.inner.sum())))
    # A published cell with more attributes lies within one wanted cell; a joined one spans several.
    shares[both[:, 0], both[:, 1]] = 1 / many[both[:, 1]]
    return shares
