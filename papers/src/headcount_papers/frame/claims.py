"""What a paper says beside what a run finds, judged by tests that no run changes.

``published.toml`` of a study is a list of ``[[claims]]``. Each names its source in the paper, says
how to find our numbers and by which rule they are judged, and has the cause where they differ. See
docs/studies.md for the format, and ``verdict`` for the tests.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from math import isnan, log
from string import Formatter
from typing import Any

import polars as pl

from headcount.errors import ConfigError
from headcount_papers.frame.queries import Queries
from headcount_papers.frame.verdict import (
    COLUMNS,
    HALF,
    NOT_JUDGED,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    PAPER_ERRS,
    Spread,
    Verdict,
    exactly,
    of_number,
    of_statement,
)

PUBLISHED = "published.toml"
_ROUNDING = 1e-9
"""5 and 100 / 20 are the same number, whichever way a computer divides."""
Tables = Mapping[str, pl.DataFrame]
Row = dict[str, Any]

THEIRS, UNKNOWN = "theirs", "unknown"
CAUSES = ("population", "setting unknown", "chance", "ours", THEIRS, UNKNOWN)
"""Why a claim is not reproduced: our people differ, a setting is not published, few draws, a
mistake of ours or of the paper's; or nobody knows."""
NOT_EXAMINED = "causes were looked for with the study's own settings only"
NOT_FOUND = "no cause was found"
NO_SUCH_NUMBER = "this run has no such number"
ONE_DRAW = "one draw shows nothing of chance"

READINGS: Mapping[str, float] = {
    "all": 1.0,
    "most": 0.5,
    "many": 0.25,
    "minimal": 0.1,
    "similar": 1.3,
    "much": 2.0,
}
"""One reading of each word of a paper, the same in all studies: every one ("always"); more than
half ("generally", "often", or no word); a quarter or more; a tenth at most ("hardly any"); within
a factor of 1.3 ("about", "comparable"); twice at least ("far", "significantly")."""


@dataclass(frozen=True, kw_only=True)
class MeasuredClaim:
    """What a study's own function found for a claim.

    where
        values     our draws of the number, or of what the rule is about
        finding    the same in words, for people; made of the values if empty
        true, of   in how many of how many draws the claim is true, in place of values
        reason     why it cannot be tested with these people, if it cannot
    """

    values: Sequence[float] = ()
    finding: str = ""
    true: int | None = None
    of: int | None = None
    reason: str = ""


ClaimMeasure = Callable[..., MeasuredClaim | None]
"""Takes the tables and what a case gives; None leaves the claim out: it was not run."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One entry of ``published.toml``: a number, or a family of numbers with the same rule.

    where
        id          names it
        section     of the paper, by which reports group claims; the source if empty
        source      where in the paper it is
        claim       what it says; "{mechanism}" and the like are filled in from the row's keys
        paper       what the paper says, in words; the published number if empty
        show        how numbers are written, as in "{:.1f} %"
        rule        one of ``RULES``; with "number" the printed one is judged beside our draws,
                    with "not testable here" nothing is, others are statements, true or not in
                    each draw
        criterion   the rule in words, if those of ``RULES`` do not say enough
        query       SQL over the study's tables and the file's [views] (see ``queries``) that gives
                    rows with a ``value``, and optionally ``beside``, in place of the published
                    number
        measure     in place of it: a function of the study that finds our draws
        given       what that function is called with in every case
        table, ours     in place of them, for families: a table and its column, a row for each draw
        spread, runs    of such a table, where a row pools several runs: the column of the standard
                    deviation from run to run, and that of the number of runs
        trials      columns of the query's rows that tell draws apart, such as block groups
        called      what a draw is, in words
        needs       "all" or "most": how many of a draw's rows must keep the rule for it to be true
        line        share of draws above which a statement is reproduced, and below which it is not
        exact       nothing is left to chance: every row must keep the rule
        cases       what else it is called with, or what is filled into the query, once for each:
                    {county = "Alameda"}; a case may have a key of ``_OF_A_CASE`` of its own,
                    and {say = {...}} is for texts only
        where       picks rows of our table
        keys        columns by which published rows and ours are matched
        each        columns of ours by which a published row, or a number, is matched with many
        published   the number, or a word of ``READINGS``; or rows of [key, ..., number]; or
                    {file, column} for a table in ``data/``; or {column} for a column of our own
                    table, such as a law's value
        tolerance   how far a number may be off and be the same: a number; or cases such as
                    {level = "county", relative = 0.05, absolute = 1}, of which the first that
                    fits holds, and the largest of what it names: a part of the published number,
                    a number, {share}, or with {column = "sd", times = 3} a multiple of a column
                    of ours. A case that names none leaves the row without one; with 0 and
                    the rule "number" nothing is left to chance
        factor      or so many times as much, or as little: a number or a word of ``READINGS``
        log         numbers above 0 are judged by their logarithms, as factors are
        unit        of the last digit that is printed, if ours is rounded to it too
        pooled      how many draws the printed number is the mean of
        cause       one of ``CAUSES``, with its reason, where the claim is not reproduced in the run
                    that was examined; unknown if none was found; or cases such as
                    {level = "county", cause = "chance", reason = "..."}, of which the first that
                    fits holds. With "theirs" the paper errs
        reason      the cause in a sentence; with the rule "not testable here" why it is not
        figure      the report's figure that shows it
        headline    place among the paper's main claims, from 1; 0 if it is none
        covered_by  id of the claim that says the same: this one is not counted; a case may be
                    covered by another of the same claim
        to          name of the table that the verdict goes to
        only_run    leaves out published rows of settings that were not run
        always      judged in every run, since it must hold in any
    """

    id: str
    source: str
    claim: str
    rule: str
    paper: str = ""
    show: str = "{:.4g}"
    criterion: str = ""
    table: str = ""
    ours: str = ""
    spread: str = ""
    runs: str = ""
    measure: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    query: str = ""
    trials: Sequence[str] = ()
    called: str = "draws"
    needs: str = "all"
    line: float = HALF
    exact: bool = False
    cases: Sequence[Mapping[str, Any]] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    keys: Sequence[str] = ()
    each: Sequence[str] = ()
    published: Any = None
    tolerance: Any = None
    factor: Any = 1.0
    log: bool = False
    unit: float = 0.0
    pooled: int = 1
    cause: str | Sequence[Mapping[str, Any]] = ""
    reason: str = ""
    section: str = ""
    figure: str = ""
    headline: int = 0
    covered_by: str = ""
    to: str = "claims"
    only_run: bool = False
    always: bool = False


Rule = Callable[[float, float, tuple[float, float]], bool]
"""Takes the published number, ours, and from where to where ours is the same."""


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _within(ours: float, near: tuple[float, float]) -> bool:
    return near[0] - _ROUNDING <= ours <= near[1] + _ROUNDING


NUMBER, STATEMENT = "number", "statement"
RULES: dict[str, tuple[str, Rule]] = {
    "below": ("below", lambda published, ours, _: ours < published),
    "above": ("above", lambda published, ours, _: ours > published),
    "at most": ("at most", lambda published, ours, _: ours <= published),
    "at least": ("at least", lambda published, ours, _: ours >= published),
    "near": ("within tolerance", lambda _, ours, near: _within(ours, near)),
    "same sign": ("same sign", lambda published, ours, _: _sign(ours) == _sign(published)),
}
"""Statements: true or not of each number of ours."""
WORDS = {
    NUMBER: "the printed number is like a draw of ours",
    STATEMENT: "true in most draws",
    NOT_TESTABLE: NOT_TESTABLE,
    NOT_JUDGED: NOT_JUDGED,
    **{rule: words for rule, (words, _) in RULES.items()},
}


def read_claims(package: str) -> list[Claim]:
    """The claims of a study's package."""
    source = _source(package)
    claims = []
    for entry in _read(package)["claims"]:
        try:
            claims.append(Claim(**entry))
        except TypeError as error:
            raise ConfigError(
                source, place=str(entry.get("id")), found=str(error), expected="keys of a claim"
            ) from None
    ids = {claim.id for claim in claims}
    for claim in claims:
        for case in claim.cases or ({},):
            _check(_of_case(claim, case), source, ids if claim.cases else ids - {claim.id})
    return claims


def _read(package: str) -> dict[str, Any]:
    return tomllib.loads((resources.files(package) / PUBLISHED).read_text(encoding="utf-8"))


def _source(package: str) -> str:
    return f"{package.rsplit('.', 1)[-1]}/{PUBLISHED}"


def _check(claim: Claim, source: str, others: Collection[str]) -> None:
    """Refuse a rule, a word, a cause or another claim that there is not; no cause or no reason."""
    given = [{"cause": claim.cause}] if isinstance(claim.cause, str) else claim.cause
    causes = [(case["cause"], case.get("reason", claim.reason)) for case in given if case["cause"]]
    words = [word for word in (claim.factor, claim.published) if isinstance(word, str)]
    for found, known in (
        (claim.rule, WORDS),
        *((word, READINGS) for word in words),
        (claim.needs, ("all", "most")),
        *((cause, CAUSES) for cause, _ in causes),
        *((other, others) for other in (claim.covered_by,) if other),
    ):
        if found not in known:
            raise ConfigError(
                source, place=claim.id, found=repr(found), expected=f"one of {', '.join(known)}"
            )
    for cause, reason in causes:
        if not reason:
            raise ConfigError(
                source,
                place=claim.id,
                found=f"the cause {cause!r} without a reason",
                expected="the reason in a sentence, or no cause where none was examined",
            )
    if claim.rule == NOT_TESTABLE and not claim.reason:
        raise ConfigError(
            source, place=claim.id, found="no reason", expected="why it is not testable"
        )


def verdicts(
    package: str,
    tables: Tables,
    *,
    measures: Mapping[str, ClaimMeasure] | None = None,
    judged: bool = True,
    examined: bool = False,
) -> dict[str, pl.DataFrame]:
    """Judge every claim of a study: table name -> verdicts.

    where
        tables     where our numbers are
        measures   the functions that claims name
        judged     False for a run that the paper's numbers are not about: then only what must
                   hold in any run is judged
        examined   whether this is the run whose verdicts were examined one by one: the causes are
                   those of that run
    """
    found: dict[str, list[Row]] = {}
    queries = Queries(tables, _read(package).get("views", {}))
    for claim in read_claims(package):
        if claim.measure or claim.query:
            cases = [
                (one, _tried(one, queries))
                if claim.query
                else (one, (measures or {})[claim.measure](tables, **given))
                for one, given in _cases(claim)
            ]
            rows = [_row(one, {}, made) for one, made in cases if made is not None]
        elif claim.table:
            rows = list(_compared(claim, package, tables))
        else:
            rows = [_row(one, {}, MeasuredClaim()) for one, _ in _cases(claim)]
        if not (judged or claim.always):
            rows = [row | _NO_VERDICT for row in rows]
        found.setdefault(claim.to, []).extend(_explained(row, examined=examined) for row in rows)
    return {name: _frame(rows) for name, rows in found.items()}


_NO_VERDICT: Row = {one.name: None for one in fields(Verdict)} | {"outcome": NOT_JUDGED}


def _explained(row: Row, *, examined: bool) -> Row:
    """The row with its cause exactly where it needs one."""
    if row["outcome"] == NOT_TESTABLE:
        return row | {"cause": ""}
    if row["outcome"] != NOT_REPRODUCED:
        return row | {"cause": "", "reason": ""}
    if row["cause"] == THEIRS:
        return row | {"outcome": PAPER_ERRS}
    if not examined:
        return row | {"cause": UNKNOWN, "reason": NOT_EXAMINED}
    return row if row["cause"] else row | {"cause": UNKNOWN, "reason": NOT_FOUND}


def _frame(rows: list[Row]) -> pl.DataFrame:
    keys = list(dict.fromkeys(key for row in rows for key in row if key not in COLUMNS))
    plain = [{key: row.get(key) for key in (*COLUMNS, *keys)} for row in rows]
    if not rows:
        return pl.DataFrame(schema=COLUMNS)
    return pl.DataFrame(plain, schema_overrides=COLUMNS, infer_schema_length=None)


_OF_A_CASE = (
    *("section", "source", "paper", "published", "tolerance", "factor", "rule", "line"),
    *("cause", "reason", "figure", "headline", "covered_by"),
)


def _cases(claim: Claim) -> Iterator[tuple[Claim, Row]]:
    """The claim in each of its cases, and what its measure is called with there."""
    for case in claim.cases or ({},):
        own = {key: value for key, value in case.items() if key not in (*_OF_A_CASE, "say")}
        given = {**claim.given, **own}
        said = {**given, **case.get("say", {})}
        one = _of_case(claim, case)
        texts = {key: getattr(one, key).format(**said) for key in ("claim", "criterion", "query")}
        yield replace(one, **texts), given


def _of_case(claim: Claim, case: Mapping[str, Any]) -> Claim:
    return replace(claim, **{key: case[key] for key in case if key in _OF_A_CASE})


def _tried(claim: Claim, queries: Queries) -> MeasuredClaim | None:
    """The draws of a claim's query: the middle of each, or in how many the rule is kept."""
    rows = queries.rows(claim.query, of=claim.id).cast({"value": pl.Float64})
    if rows.is_empty():
        return None
    if claim.rule == NUMBER:
        of_draws = rows.group_by(claim.trials).agg("value") if claim.trials else rows
        middles = of_draws.select(
            pl.col("value").list.drop_nulls().list.median() if claim.trials else "value"
        )
        return MeasuredClaim(values=middles["value"].drop_nulls().sort().to_list())
    if claim.rule not in RULES:
        return MeasuredClaim(values=rows["value"].drop_nulls().sort().to_list())
    beside = rows["beside"] if "beside" in rows.columns else [_read_as(claim.published)] * len(rows)
    kept = [
        value is not None and RULES[claim.rule][1](one, value, _margin(claim, one) or (one, one))
        for one, value in zip(beside, rows["value"], strict=True)
    ]
    shown = rows.with_columns(pl.Series("kept", kept, dtype=pl.Float64))
    shares = shown.group_by(claim.trials).agg(pl.col("kept").mean()) if claim.trials else shown
    enough = shares["kept"] == 1 if claim.needs == "all" else shares["kept"] > HALF
    values = rows["value"].drop_nulls().sort()
    true, of = int(enough.sum()), shares.height
    words = f"{_range(claim, values)}; true in {true:,} of {of:,} {claim.called}"
    return MeasuredClaim(values=values.to_list(), finding=words, true=true, of=of)


def _range(claim: Claim, values: pl.Series) -> str:
    """The middle of some values and where four fifths of them are."""
    if values.is_empty():
        return "no number"
    (form,) = (form or "" for _, name, form, _ in Formatter().parse(claim.show) if name is not None)
    low, high = (format(values.quantile(part, "linear"), form) for part in (0.1, 0.9))
    return claim.show.format(values.median()) + (f" ({low} to {high})" if low != high else "")


def _compared(claim: Claim, package: str, tables: Tables) -> Iterator[Row]:
    """The rows of a family: those of our table with the same keys are draws of one number."""
    ours = tables[claim.table].filter(**claim.where)
    for published in _published(claim, package, ours):
        number = published["published"]
        keys = {key: published[key] for key in claim.keys}
        here = ours.filter(**keys) if keys else ours
        if here.is_empty() and claim.only_run:
            continue
        parts = here.partition_by(claim.each, maintain_order=True) if claim.each else [here]
        for part in parts:
            first = part.row(0, named=True) if part.height else {}
            shown = {key: first[key] for key in claim.each} | keys
            values = part[claim.ours].cast(pl.Float64).drop_nulls().drop_nans().to_list()
            yield _row(
                claim,
                shown,
                MeasuredClaim(values=values),
                published=number,
                tolerance=_tolerance(claim, number, keys, first),
                spread=_pooled(claim, first),
            )


def _pooled(claim: Claim, ours: Row) -> Spread | None:
    """The runs behind a number that pools several."""
    known = [ours.get(column) for column in (claim.ours, claim.spread, claim.runs)]
    numbers = [float(one) for one in known if one is not None and not isnan(one)]
    if not claim.spread or len(numbers) < len(known):
        return None
    mean, sd, runs = numbers
    return Spread(mean=mean, sd=sd, draws=int(runs))


def _published(claim: Claim, package: str, ours: pl.DataFrame) -> Iterator[Row]:
    said = claim.published
    if isinstance(said, list):
        yield from (dict(zip((*claim.keys, "published"), row, strict=True)) for row in said)
    elif isinstance(said, dict):
        frame = ours
        if "file" in said:
            path = resources.files(package) / "data" / said["file"]
            frame = pl.read_csv(path.read_bytes(), infer_schema_length=None).filter(**claim.where)
        column = said["column"]
        yield from (
            {**row, "published": float(row[column])}
            for row in frame.drop_nulls(column).iter_rows(named=True)
        )
    else:
        yield {"published": _read_as(said)}


def _read_as(number: Any) -> Any:
    """A number, or the reading of a word."""
    return READINGS[number] if isinstance(number, str) else number


def _tolerance(claim: Claim, published: float, keys: Row, ours: Row) -> float | None:
    """The tolerance of one row; None if it has none."""
    given = claim.tolerance
    for case in given if isinstance(given, list) else [given]:
        if not isinstance(case, dict):
            return None if case is None else float(case)
        if all({**ours, **keys}.get(key) == case[key] for key in case if key not in _HOW):
            named = [case[key] for key in ("absolute", "share") if key in case]
            if "relative" in case:
                named.append(case["relative"] * abs(published))
            if "column" in case and ours.get(case["column"]) is not None:
                named.append(case.get("times", 1) * ours[case["column"]])
            return float(max(named)) if named else None
    return None


_HOW = ("relative", "absolute", "share", "column", "times")


def _margin(
    claim: Claim, published: float, tolerance: float | None = None
) -> tuple[float, float] | None:
    """From where to where a number is the same."""
    off = tolerance if tolerance is not None else _tolerance(claim, published, {}, {})
    factor = _read_as(claim.factor)
    if off is None and factor == 1:
        return None
    low, high = published - (off or 0.0), published + (off or 0.0)
    if published > 0:
        low, high = min(low, published / factor), max(high, published * factor)
    return low, high


def _judged(
    claim: Claim,
    found: MeasuredClaim,
    published: float | None,
    margin: tuple[float, float] | None,
    spread: Spread | None,
) -> Verdict:
    """The verdict on one claim, by the test that its rule names."""
    if claim.rule in (NOT_TESTABLE, NOT_JUDGED):
        return Verdict(outcome=claim.rule)
    if found.reason:
        return Verdict(outcome=NOT_TESTABLE)
    values, true, of = found.values, found.true, found.of
    if true is None and claim.rule in RULES and values and published is not None:
        near = margin or (published, published)
        true, of = sum(RULES[claim.rule][1](published, one, near) for one in values), len(values)
    # Where no other number will do, chance has no part in it.
    no_other = claim.rule == NUMBER and margin is not None and margin[0] == margin[1]
    exact = claim.exact or no_other
    if exact and claim.rule == NUMBER and margin is not None:
        true, of = sum(_within(one, margin) for one in values), len(values)
    if claim.rule == NUMBER and not exact:
        if not values or published is None:
            return Verdict(outcome=NOT_TESTABLE)
        ours = Spread.of(values) if spread is None else spread
        if claim.log and min(*values, published, *(margin or ())) > 0:
            ours = Spread.of([log(one) for one in values])
            if spread is not None:
                ours = Spread(mean=ours.mean, sd=spread.sd / spread.mean, draws=spread.draws)
            ends = None if margin is None else (log(margin[0]), log(margin[1]))
            return of_number(log(published), ours, margin=ends, pooled=claim.pooled)
        return of_number(published, ours, margin=margin, unit=claim.unit, pooled=claim.pooled)
    if true is None or not of:
        return Verdict(outcome=NOT_TESTABLE)
    return exactly(true, of) if exact else of_statement(true, of, line=claim.line)


def _row(
    claim: Claim,
    keys: Row,
    found: MeasuredClaim,
    *,
    published: float | None = None,
    tolerance: float | None = None,
    spread: Spread | None = None,
) -> Row:
    """A row of verdicts: a number that decides and is missing is not taken for a miss."""
    if not keys and isinstance(claim.published, int | float | str):
        published = _read_as(claim.published)
    margin = None if published is None else _margin(claim, published, tolerance)
    found = replace(found, values=[one for one in found.values if not isnan(one)])
    verdict = _judged(claim, found, published, margin, spread)
    cause, reason = _cause(claim, keys)
    if verdict.outcome == NOT_TESTABLE and claim.rule != NOT_TESTABLE:
        reason = found.reason or (ONE_DRAW if found.values else NO_SUCH_NUMBER)
    values = pl.Series(found.values, dtype=pl.Float64)
    ours = values.median()
    shown = "" if values.is_empty() else _range(claim, values)
    return {
        "id": claim.id,
        "section": claim.section or claim.source,
        "source": claim.source,
        "claim": claim.claim.format(**{key: _word(value) for key, value in keys.items()}),
        "paper": claim.paper or _shown(claim, published),
        "finding": found.finding or shown,
        "published": published,
        "ours": ours,
        "difference": None if ours is None or published is None else ours - published,  # type: ignore[operator]
        "tolerance": tolerance,
        "rule": claim.criterion or WORDS[claim.rule],
        **vars(verdict),
        "cause": cause,
        "reason": reason,
        "figure": claim.figure,
        "covered_by": claim.covered_by,
        "headline": claim.headline,
        **keys,
    }


def _cause(claim: Claim, keys: Row) -> tuple[str, str]:
    """The cause of one row, and the same in a sentence."""
    if isinstance(claim.cause, str):
        return claim.cause, claim.reason
    for case in claim.cause:
        if all(keys.get(key) == case[key] for key in case if key not in ("cause", "reason")):
            return case["cause"], case.get("reason", claim.reason)
    return "", claim.reason


def _word(value: Any) -> Any:
    return value.replace("_", " ") if isinstance(value, str) else value


def _shown(claim: Claim, number: float | None) -> str:
    return "" if number is None else claim.show.format(number)
