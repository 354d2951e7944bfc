"""What a comparison answers: which method keeps which counts usable, at which risk.

A kind of counts (all totals of a level, all counts by an attribute, every cell) is *usable* where
its mean error, and the error that 19 of 20 of its counts keep within, are at most a tenth of the
mean count. So small counts are judged by what they are, and no total that a method keeps by design
stands for counts that it does not. Nothing is weighed: what a method keeps, what it gives away and
what it promises are said side by side, and the choice is left to whoever reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import polars as pl

from headcount.attacks.records import known_names, learnt_names
from headcount.comparison.measures import UNLIKE_MOST
from headcount.comparison.methods import NONE
from headcount.domain import CountsOf, Domain
from headcount.evaluation.answers import EVERY_CELL, EVERYONE
from headcount.evaluation.tally import FINE, use_of
from headcount.evaluation.uniqueness import alone_by_attributes, percentages
from headcount.schema import Schema

_TOTALS = "totals"
_NOWHERE, _UNPUBLISHED = "nowhere", "not published"
_MOST_COLUMNS = 4
"""Attributes that have columns of their own; of more the weakest stands for all."""


def kept_table(
    errors: pl.DataFrame, spread: pl.DataFrame, cases: pl.DataFrame, every_size: str
) -> pl.DataFrame:
    """A row for each case, level and kind of counts: its size, its errors, and of what use it is.

    where
        share   the part of these counts that the case publishes
    """
    by = ["case", "level", "attribute"]
    sums = (
        errors.filter(band=every_size)
        .group_by(by, maintain_order=True)
        .agg(
            counts=pl.col("counts").sum(),
            people=pl.col("people").sum(),
            absolute=(pl.col("error") * pl.col("counts")).sum(),
        )
    )
    within = spread.group_by(by, maintain_order=True).agg(
        within=pl.col("p95").mean(), largest=pl.col("largest").max()
    )
    most = sums.group_by("level", "attribute").agg(most=pl.col("counts").max())
    size = pl.col("people") / pl.col("counts")
    part = pl.max_horizontal("error", "within") / pl.col("mean_count")
    return (
        sums.join(within, on=by, how="left", maintain_order="left")
        .join(most, on=["level", "attribute"], how="left", maintain_order="left")
        .join(cases.select("case", "method"), on="case", how="left", maintain_order="left")
        .with_columns(
            mean_count=size,
            error=pl.col("absolute") / pl.col("counts"),
            share=pl.col("counts") / pl.col("most"),
        )
        .with_columns(part=pl.when(pl.col("people") > 0).then(part).otherwise(float("inf")))
        .with_columns(
            use=pl.col("part").map_elements(use_of, return_dtype=pl.String),
            kind=pl.col("attribute").replace({EVERYONE: _TOTALS}),
        )
        .select(
            *("case", "method", "level", "kind", "counts", "share"),
            *("mean_count", "error", "within", "largest", "part", "use"),
        )
    )


def answered(tables: Mapping[str, pl.DataFrame], domain: Domain) -> tuple[list[str], pl.DataFrame]:
    """The answer in sentences, and what each case keeps and gives away as a table."""
    found = _answers(tables, domain.geography.levels)
    return _sentences(found, domain), _answer_table(found)


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """What one case keeps, gives up and gives away.

    where
        usable     for each kind of counts the finest level down to which it is usable;
                   ``_NOWHERE``, or ``_UNPUBLISHED``
        epsilon    what it promises, in the unit of privacy of the comparison; None for nothing
        found      of people alone of their kind in the smallest places the part that a published 1
                   points out, in per cent
        right      of the published 1s those that are one person, in per cent
        named      of people unlike most in their place the part that was named rightly by the
                   attack that names, in per cent
        gives_up   in words
    """

    case: str
    method: str
    epsilon: float | None
    usable: Mapping[str, str]
    found: float | None
    right: float | None
    named: float | None = None
    gives_up: tuple[str, ...] = ()


def _kinds_of(kept: pl.DataFrame) -> list[str]:
    """Kinds of counts: totals first, every cell last."""
    found = kept["kind"].unique(maintain_order=True).to_list()
    return sorted(found, key=lambda kind: (kind == EVERY_CELL, kind != _TOTALS))


def _usable_to(kept: pl.DataFrame, kind: str, levels: Sequence[str]) -> str:
    """The finest level down to which a case's counts of a kind are usable at every level."""
    use = dict(kept.filter(kind=kind).select("level", "use").iter_rows())
    if not use:
        return _UNPUBLISHED
    best = _NOWHERE
    for level in levels:
        if level not in use:
            continue
        if use[level] != "usable":
            break
        best = level
    return best


def _answers(tables: Mapping[str, pl.DataFrame], levels: Sequence[str]) -> list[_Answer]:
    """What each case keeps and gives away, in the order of the cases."""
    kept, alone, attacks = tables["kept"], tables["alone"], tables["attacks"]
    kinds = _kinds_of(kept)
    found = []
    for case, method, epsilon in tables["cases"].select("case", "method", "epsilon").iter_rows():
        own = kept.filter(case=case)
        usable = {kind: _usable_to(own, kind, levels) for kind in kinds}
        one = _alone(alone.filter(case=case), own, levels)
        named = attacks.filter(case=case, attack="reidentification", who=UNLIKE_MOST)
        rates = named.select("people", "claimed", "right_percent").drop_nulls().rows()
        found.append(
            _Answer(
                case=case,
                method=method,
                epsilon=epsilon,
                usable=usable,
                found=one["found_percent"],
                right=one["right_percent"],
                named=rates[0][1] * rates[0][2] / rates[0][0] if rates and rates[0][0] else None,
                gives_up=tuple(_gives_up(case, own, tables, levels)),
            )
        )
    return found


def _alone(
    alone: pl.DataFrame, kept: pl.DataFrame, levels: Sequence[str]
) -> dict[str, float | None]:
    """Who is pointed out at the finest level that a case publishes, of all alone at the leaf."""
    shown = [level for level in levels if level in set(kept["level"])]
    every = alone_by_attributes(alone, level=levels[-1])["alone"]
    at = alone_by_attributes(alone, level=shown[-1] if shown else levels[-1])
    return percentages(every, at["claimed"], at["right"])


def _gives_up(
    case: str, kept: pl.DataFrame, tables: Mapping[str, pl.DataFrame], levels: Sequence[str]
) -> Iterator[str]:
    """What readers of a release have to do without, besides exact counts."""
    lowest = [level for level in levels if level in set(kept["level"])]
    if lowest and lowest[-1] != levels[-1]:
        yield f"publishes nothing below {lowest[-1]}"
    short = tables["shortfalls"].filter(case=case)
    if short.height:
        row = short.row(-1, named=True)
        if gone := row["withheld_people_percent"]:
            yield f"withholds up to {_percent(gone)} of the people of a table"
        if row["cells"] and row["negative_cells"]:
            below = _percent(100 * row["negative_cells"] / row["cells"])
            yield f"{below} of the finest counts are below 0"
        if row["counts"] and row["lost"]:
            lost = 100 * row["lost"] / row["counts"]
            if lost >= 0.5:
                yield f"{_percent(lost)} of groups in their {row['level']} are published as nobody"
    gaps = tables["table_changes"].filter(pl.col("case") == case)
    if gaps.height and (gaps["gap"].fill_null(0) > 0).any():
        yield "parts do not add up to totals"
    elif gaps.height and (gaps["unit_gap"].fill_null(0) > 0).any():
        yield "places do not add up to larger ones"


def _answer_table(found: Sequence[_Answer]) -> pl.DataFrame:
    """A row for each case: down to where its counts are usable, and what it gives away."""
    kinds = list(found[0].usable) if found else []
    return pl.DataFrame(
        [
            {
                "case": one.case,
                "method": one.method,
                "epsilon": one.epsilon,
                **{f"usable: {kind}": one.usable[kind] for kind in kinds},
                "alone_found_percent": one.found,
                "alone_right_percent": one.right,
                "named_percent": one.named,
                "gives_up": "; ".join(one.gives_up),
            }
            for one in found
        ],
        schema_overrides={
            "epsilon": pl.Float64,
            "alone_found_percent": pl.Float64,
            "alone_right_percent": pl.Float64,
            "named_percent": pl.Float64,
        },
    )


def _sentences(found: Sequence[_Answer], domain: Domain) -> list[str]:
    """The answer in a few sentences; each case stands for itself, and none is called the best."""
    shown = [one for one in found if one.case != NONE]
    if not shown:
        return []
    levels, schema, counted = domain.geography.levels, domain.schema, domain.counted
    said = [
        f"Usable: 19 of 20 counts, and their mean error, are within {_percent(100 * FINE)} of the "
        f"mean count. Found: of those who are the only one of a kind in their {levels[-1]}, the "
        "part whom a published 1 points out. Right: of the published 1s, the part that is one "
        f"{counted.one}."
    ]
    alike: dict[str, list[str]] = {}
    for kind in _few_kinds(shown):
        alike.setdefault(_about(kind, shown, levels), []).append(_kind_words(kind, shown))
    said += [f"{_listed(kinds)}: {text}." for text, kinds in alike.items()]
    if named := _about_naming(shown, levels[-1], schema):
        said.append(named)
    if given := _given_up(shown):
        said.append(f"Given up: {given}.")
    said.append(_to_judge(shown, counted))
    return said


def public_sentences(
    cases: pl.DataFrame, predicted: pl.DataFrame, levels: Sequence[str], counted: CountsOf
) -> list[str]:
    """What can be answered without the people: what is promised, and how far off noise puts counts.

    ``predicted`` has of each case, level and query the error that 19 of 20 counts keep within.
    """
    shown = cases.filter(pl.col("case") != NONE)
    promised = shown.filter(pl.col("epsilon").is_not_null())
    said = []
    if promised.height:
        said.append(
            f"With a promise: {'; '.join(promised['case'])}. It bounds what anybody can learn of "
            f"one {counted.one}."
        )
    if promised.height < shown.height:
        bare = shown.filter(pl.col("epsilon").is_null())["case"]
        said.append(
            f"Without one: {'; '.join(bare)}. Nothing bounds what these give away, and what they "
            f"keep depends on the {counted}: it is not said here."
        )
    for level in reversed(levels):
        rows = predicted.filter(level=level, query="total").sort("within", maintain_order=True)
        if rows.height:
            least, most = rows.row(0, named=True), rows.row(-1, named=True)
            said.append(
                f"Totals of a {level}: 19 of 20 are within {least['within']:,.0f} {counted} "
                f"({least['case']}) to {most['within']:,.0f} ({most['case']}) of the truth."
            )
            break
    said.append(
        f"For you to judge: how far off counts may be; how much one {counted.one} must be able to "
        "deny; and which of the counts are needed."
    )
    return said


def _few_kinds(found: Sequence[_Answer]) -> list[str]:
    """Totals, attributes (the weakest for all where they are many), every cell."""
    kinds = list(found[0].usable)
    single = [kind for kind in kinds if kind not in (_TOTALS, EVERY_CELL)]
    if len(single) <= _MOST_COLUMNS:
        return kinds
    return [kind for kind in kinds if kind not in single[1:]]


def _reach(one: _Answer, kind: str, levels: Sequence[str]) -> str:
    """The finest usable level of a kind; that of the weakest attribute where they are many."""
    single = [name for name in one.usable if name not in (_TOTALS, EVERY_CELL)]
    if kind not in single or len(single) <= _MOST_COLUMNS:
        return one.usable[kind]
    return min((one.usable[name] for name in single), key=lambda at: _depth(at, levels))


def _listed(kinds: Sequence[str]) -> str:
    """Kinds of counts as the beginning of a sentence: "Totals, counts by sex and by age"."""
    first, *more = kinds
    said = [kind.removeprefix("Counts ") for kind in more]
    if more and first == "Totals":
        said[0] = f"counts {said[0]}"
    *before, last = [first, *said]
    return f"{', '.join(before)} and {last}" if before else last


def _depth(level: str, levels: Sequence[str]) -> int:
    return levels.index(level) if level in levels else -1


def _kind_words(kind: str, found: Sequence[_Answer]) -> str:
    """A kind of counts as a sentence begins with it."""
    if kind == _TOTALS:
        return "Totals"
    if kind == EVERY_CELL:
        return "Counts by all attributes at once"
    single = [name for name in found[0].usable if name not in (_TOTALS, EVERY_CELL)]
    return f"Counts by {kind}" if len(single) <= _MOST_COLUMNS else "Counts by every attribute"


def _about(kind: str, found: Sequence[_Answer], levels: Sequence[str]) -> str:
    """How far down a kind of counts can be had, with a promise and without one."""
    sides = []
    for promised, words in ((True, "with a promise"), (False, "without one")):
        those = [one for one in found if (one.epsilon is not None) == promised]
        if not those:
            continue
        deepest = max(
            (_reach(one, kind, levels) for one in those), key=lambda at: _depth(at, levels)
        )
        if _depth(deepest, levels) < 0:
            sides.append(f"{words} usable nowhere")
            continue
        best = [one for one in those if _reach(one, kind, levels) == deepest]
        sides.append(f"{words} usable down to {deepest} ({_with_risk(best)})")
    return "; ".join(sides)


def _with_risk(found: Sequence[_Answer]) -> str:
    """Of each method the case that points out fewest people; one without a figure comes last."""
    least: dict[str, _Answer] = {}
    for one in found:
        known = least.get(one.method)
        if known is None or _found(one) < _found(known):
            least[one.method] = one
    return "; ".join(map(_risk, least.values()))


def _found(one: _Answer) -> float:
    return inf if one.found is None else one.found


def _risk(one: _Answer) -> str:
    """A case with what a published 1 gives away."""
    if one.found is None:
        return one.case
    right = "" if one.right is None else f", {_percent(one.right)} right"
    return f"{one.case}: {_percent(one.found)} found{right}"


def _about_naming(found: Sequence[_Answer], leaf: str, schema: Schema) -> str:
    """Whom the attack that names gets right where a guess from the place seldom is."""
    rates = [(one.named, one.case) for one in found if one.named is not None]
    if not rates:
        return ""
    ends = dict.fromkeys((min(rates), max(rates)))
    ranges = " to ".join(f"{_percent(rate)} ({case})" for rate, case in ends)
    knows, learns = (" and ".join(f(schema)) for f in (known_names, learnt_names))
    return (
        f"Named: of those unlike most in their {leaf}, whom a guess seldom gets right, somebody "
        f"who knows where everybody lives and their {knows} names {learns} rightly for {ranges}."
    )


def _given_up(found: Sequence[_Answer]) -> str:
    """Of each method what its middle case gives up."""
    by: dict[str, list[_Answer]] = {}
    for one in found:
        by.setdefault(one.method, []).append(one)
    middle = [cases[len(cases) // 2] for cases in by.values()]
    return "; ".join(f"{one.case}: {', '.join(one.gives_up)}" for one in middle if one.gives_up)


def _to_judge(found: Sequence[_Answer], counted: CountsOf) -> str:
    """What no figure decides."""
    both = len({one.epsilon is not None for one in found}) == 2
    promise = (
        "whether a promise that holds against every attacker is worth the counts that it costs "
        "(without one nothing bounds what attacks that were not tried find); "
        if both
        else ""
    )
    return (
        f"For you to judge: {promise}which of these counts are needed; whether "
        f"{_percent(100 * FINE)} is near enough; and how bad it is if one {counted.one} can be "
        "pointed out."
    )


def _percent(number: float | None) -> str:
    if number is None:
        return "none"
    digits = f"{number:.2g}" if number < 10 else f"{number:.0f}"
    return f"{digits}\N{NO-BREAK SPACE}%"
