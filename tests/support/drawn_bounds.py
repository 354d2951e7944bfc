"""Random tables of bounds, on which TopDown must complete whenever its check passes.

Each case is a small place with two or three attributes, one to four tables of bounds on random
queries (nested, crossing or recoded) at random levels, exact totals and marginals at others, with
or without a failsafe, and so much noise that estimates land far from the truth. The bounds of a
release are checked here against the tables, by plain sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from headcount.arrays import Ints
from headcount.domain import Domain
from headcount.errors import HeadcountError
from headcount.fields import Pairs
from headcount.geography import Geography
from headcount.noise import KeyedNoise, RunKey
from headcount.schema import Attribute, Recode, Schema
from headcount.tabulate import CELLS, Counts, Query
from headcount.topdown.choices import Grouped, Invariant, Marginal, RecodedQuery, TableBounds
from headcount.topdown.mechanism import TopDown

_EPSILONS = ("1/50", "1/10", "1/2", "2")


@dataclass(frozen=True, eq=False)
class DrawnBounds:
    """Bounds as they were drawn: units x groups, -1 in ``high`` for none."""

    query: str
    level: str
    low: Ints
    high: Ints


@dataclass(frozen=True, eq=False)
class BoundsCase:
    """A mechanism with its data, and the tables that it was given."""

    mechanism: TopDown
    counts: Counts
    tables: tuple[DrawnBounds, ...]


def run_cases(cases: Iterable[int], folder: Path) -> tuple[Counter[str], list[int]]:
    """How so many cases end, and which of them fail after their check, or break a bound."""
    seen: Counter[str] = Counter()
    wrong = []
    for number in cases:
        end = run_case(draw_case(number, folder), number, seen)
        seen[end] += 1
        if end in ("failed", "broken"):
            wrong.append(number)
    return seen, wrong


def run_case(case: BoundsCase, number: int, seen: Counter[str]) -> str:
    """How a case ends: refused, failed, broken or completed; ``seen`` counts what happened."""
    mechanism, counts = case.mechanism, case.counts
    try:
        remarks = mechanism.on(counts.domain).check(counts)
    except HeadcountError:
        return "refused"
    seen["crossing"] += sum("overlap" in remark for remark in remarks)
    noise = KeyedNoise(RunKey.from_seed(number), "topdown", b"data", b"config")
    try:
        outcome = mechanism.on(counts.domain).run(counts, noise, runs=range(1)).as_counts()
    except HeadcountError:
        return "failed"
    for what, value in outcome.notes.items():
        seen["failsafe"] += int(value) if what.endswith(": failsafe") else 0
        seen["room"] += int(value) if what.endswith(": room made") else 0
    leaf = np.asarray(outcome.dense(counts.geography.leaf)[0], dtype=np.int64)
    return "completed" if keeps(case, leaf) else "broken"


def keeps(case: BoundsCase, leaf: Ints) -> bool:
    """Whether released leaf counts keep every table, invariant and structural zero."""
    counts = case.counts
    schema, place = counts.schema, counts.geography
    good = leaf.min(initial=0) >= 0 and not leaf[:, ~schema.possible].any()
    for table in case.tables:
        got = _answer(leaf, case.mechanism.query(table.query), table.level, schema, place)
        good &= bool((got >= table.low).all())
        good &= bool(((got <= table.high) | (table.high < 0)).all())
    for one in case.mechanism.invariant:
        query = case.mechanism.query(one.query)
        truth = _answer(counts.dense(), query, one.level, schema, place)
        good &= bool((_answer(leaf, query, one.level, schema, place) == truth).all())
    return bool(good)


def _answer(leaf: Ints, query: Query, level: str, schema: Schema, place: Geography) -> Ints:
    made = np.zeros((place.size(level), query.size(schema)), dtype=np.int64)
    where = (place.ancestors(level)[:, None], query.groups(schema)[None, :])
    np.add.at(made, where, leaf)
    return made


def draw_case(number: int, folder: Path) -> BoundsCase:
    """Case ``number``, always the same; its tables are written to ``folder``."""
    rng = np.random.default_rng([11, number])
    schema, place = _schema(rng), _place(rng)
    dense = rng.choice([0, 0, 0, 1, 2, 5, 30], size=(place.size(place.leaf), schema.size))
    dense *= schema.possible
    queries = _queries(rng, schema)
    levels = place.levels
    tables = [
        _table(
            rng,
            str(rng.choice([q.name for q in queries])),
            str(rng.choice(levels)),
            queries,
            dense,
            schema,
            place,
        )
        for _ in range(rng.integers(1, 5))
    ]
    tables = list({(t.query, t.level): t for t in tables}.values())
    invariants = {
        (
            str(rng.choice([q.name for q in queries])) if rng.random() < 0.4 else "total",
            str(rng.choice(levels)),
        )
        for _ in range(rng.integers(0, 3))
    }
    attributes = schema.names
    kept = int(rng.integers(0, len(attributes)))
    mechanism = TopDown(
        epsilon=Fraction(str(rng.choice(_EPSILONS))),
        **keys_of(queries, _shares(rng, queries)),
        invariant=tuple(Invariant(query=q, level=level) for q, level in sorted(invariants)),
        bounds=tuple(
            _written(table, queries, schema, place, folder, f"{number}-{k}.csv")
            for k, table in enumerate(tables)
        ),
        failsafe_over=tuple(attributes[:kept]) if rng.random() < 0.5 else (),
    )
    return BoundsCase(mechanism, _counts(dense, schema, place), tuple(tables))


def _schema(rng: np.random.Generator) -> Schema:
    sizes = rng.integers(2, 5, size=rng.integers(2, 4))
    attributes = tuple(
        Attribute("abc"[k], tuple(f"{'abc'[k]}{i}" for i in range(size)))
        for k, size in enumerate(sizes)
    )
    zeros = ((("a", ("a0",)), ("b", ("b1",))),) if rng.random() < 0.3 else ()
    return Schema(attributes, zeros)


def _place(rng: np.random.Generator) -> Geography:
    names, units, parents = ["whole"], [np.array(["whole"])], [np.empty(0, dtype=np.int32)]
    for depth in range(int(rng.integers(1, 4))):
        children = rng.integers(1, 5, size=len(units[-1]))
        name = ("state", "county", "tract")[depth]
        names.append(name)
        parents.append(np.repeat(np.arange(len(children), dtype=np.int32), children))
        units.append(np.array([f"{name}{k}" for k in range(children.sum())]))
    return Geography(tuple(names), tuple(units), tuple(parents))


def _queries(rng: np.random.Generator, schema: Schema) -> tuple[Query, ...]:
    found = [Query("total")]
    found += [Query(f"by {name}", (name,)) for name in schema.names]
    found += [Query(f"by {a} {b}", (a, b)) for a, b in combinations(schema.names, 2)]
    wide = schema.attributes[int(rng.integers(len(schema.names)))]
    if wide.size > 2:
        cut = int(rng.integers(1, wide.size))
        groups = {"first": list(wide.levels[:cut]), "rest": list(wide.levels[cut:])}
        found.append(Query("recoded", (Recode.of(wide, "recoded", groups),)))
    return tuple(found)


def _shares(
    rng: np.random.Generator, queries: tuple[Query, ...]
) -> tuple[tuple[str, Fraction], ...]:
    chosen = [query.name for query in queries[1:] if rng.random() < 0.4]  # the total has no noise
    if not chosen or rng.random() < 0.8:
        chosen.append(CELLS)
    return tuple((name, Fraction(1, len(chosen))) for name in chosen)


def _table(
    rng: np.random.Generator,
    name: str,
    level: str,
    queries: tuple[Query, ...],
    dense: Ints,
    schema: Schema,
    place: Geography,
) -> DrawnBounds:
    """Bounds around the truth: exact, near, far or none, unit by unit and group by group."""
    query = next(query for query in queries if query.name == name)
    truth = _answer(dense.astype(np.int64), query, level, schema, place)
    below = rng.choice([0, 1, 3, 1_000], size=truth.shape, p=rng.dirichlet([1] * 4))
    over = rng.choice([0, 1, 4, 1_000], size=truth.shape, p=rng.dirichlet([1] * 4))
    high = np.where(over == 1_000, -1, truth + over)
    return DrawnBounds(name, level, np.maximum(truth - below, 0), high)


def _written(
    table: DrawnBounds,
    queries: tuple[Query, ...],
    schema: Schema,
    place: Geography,
    folder: Path,
    file: str,
) -> TableBounds:
    query = next(query for query in queries if query.name == table.query)
    axes = query.attributes(schema)
    lines = [",".join([table.level, *(axis.name for axis in axes), "low", "high"])]
    for unit, code in enumerate(place.units[place.depth(table.level)]):
        for group in range(table.low.shape[1]):
            at = np.unravel_index(group, [axis.size for axis in axes] or [1])
            names = [axis.levels[int(k)] for axis, k in zip(axes, at, strict=False)]
            high = int(table.high[unit, group])
            ends = [str(table.low[unit, group]), "" if high < 0 else str(high)]
            lines.append(",".join([str(code), *names, *ends]))
    (folder / file).write_text("\n".join(lines) + "\n", "utf-8")
    return TableBounds(query=table.query, level=table.level, file=folder / file, public=True)


def keys_of(queries: Iterable[Query], shares: Iterable[tuple[str, Fraction]]) -> dict[str, Any]:
    """Queries and their shares as TopDown's settings ``queries`` and ``recodes``."""
    parts, asked, recodes = dict(shares), [], {}
    for query in queries:
        for axis in query.by:
            if isinstance(axis, Recode):
                recodes[axis.name] = Grouped(of=axis.source.name, groups=axis.groups)
        for one in query.groupings if isinstance(query, RecodedQuery) else ():
            recodes[one.name] = Grouped(of=one.of, groups=one.groups)
        by = tuple(axis.name if isinstance(axis, Recode) else axis for axis in query.by)
        asked.append((query.name, Marginal(by=by, share=parts.pop(query.name, None))))
    rest = [(name, Marginal(share=part)) for name, part in parts.items()]
    return {"queries": Pairs([*rest, *asked]), "recodes": Pairs.of(recodes)}


def _counts(dense: Any, schema: Schema, place: Geography) -> Counts:
    from scipy.sparse import csr_array

    return Counts(Domain(schema, place), place.leaf, csr_array(np.asarray(dense, dtype=np.int64)))
