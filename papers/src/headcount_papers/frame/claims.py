"""What a paper says beside what a run finds, judged by rules that no run changes.

``published.toml`` of a study is a list of ``[[claims]]``. Each names its source in the paper, says
how to find our number and by which rule it is judged, and has the cause where it does not hold. See
docs/studies.md for the format.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from math import isnan
from string import Formatter
from typing import Any

import polars as pl

from headcount.errors import ConfigError
from headcount_papers.frame.queries import Queries
from headcount_papers.frame.verdict_columns import COLUMNS as COLUMNS

PUBLISHED = "published.toml"
ROUNDING = 1e-9
"""1 - 0.9 is a little less than a tenth, and one of ten is a tenth."""
Tables = Mapping[str, pl.DataFrame]
Row = dict[str, Any]

YES, DEPENDS, NO = "yes", "depends", "no"
NOT_TESTABLE, NOT_JUDGED = "not testable", "not judged"

PAPER_ERRS = "the paper errs"
CAUSES = (
    PAPER_ERRS,
    "our population differs",
    "the paper is silent",
    "chance",
    "it does not hold",
)
"""Why a claim does not come out, or not everywhere."""
NOT_EXAMINED = "not examined: other settings than the study's own"
NO_SUCH_NUMBER = "this run has no such number"


@dataclass(frozen=True, kw_only=True)
class MeasuredClaim:
    """What a study's own function found for a claim.

    where
        value      the number that decides, if it is one
        finding    the same in words, for people
        true, of   in how many of how many cases or trials (block groups, seeds) the claim is true:
                   in all is yes, in none is no, in some is "depends" with their share
        reason     why it cannot be tested with these people, if it cannot
    """

    value: float | None = None
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
        rule        one of ``RULES``
        criterion   the rule in words, if those of ``RULES`` do not say enough
        table, ours     where our number is: a table and its column
        measure     in place of them: a function of the study that finds it
        given       what that function is called with in every case
        query       in place of them: SQL over the study's tables and the file's [views] (see
                    ``queries``) that gives a row with a ``value`` for each thing that the claim
                    is about, and optionally ``beside``, in place of the published number
        trials      columns of the query's rows that tell trials apart, such as block groups
        apart       columns of the query's rows by which their values are shown apart
        called      what a trial is, in words
        within      share of a trial's rows that must keep the rule for it to be true there
        most        share of trials that makes a yes; the rest of it, or less, makes a no
        cases       what else it is called with, or what is filled into the query, once for each:
                    {county = "Alameda"}; a case may have a key of ``_OF_A_CASE`` of its own,
                    and {say = {...}} is for texts only
        where       picks rows of our table
        keys        columns by which published rows and ours are matched
        each        columns of ours by which a published row, or a number, is matched with many
        published   the number; or rows of [key, ..., number]; or {file, column} for a table in
                    ``data/``; or {column} for a column of our own table, such as a law's value
        tolerance   a number, a share for the rule "relative"; or cases such as {level = "county",
                    relative = 0.05, absolute = 1}, of which the first that fits holds, and the
                    largest of what it names: a part of the published number, a number, {share},
                    or with {column = "sd", times = 3} a multiple of a column of ours. A case that
                    names none leaves the row without a verdict
        factor      of the rule "near": or so many times as much, or as little
        cause       one of ``CAUSES``, with its reason, needed where the verdict is no or depends in
                    the run that was examined; or cases such as
                    {level = "county", cause = "chance", reason = "..."}, of which the first that
                    fits holds
        reason      the cause in a sentence; with the rule "not testable" why it is not
        figure      the report's figure that shows it
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
    measure: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    query: str = ""
    trials: Sequence[str] = ()
    apart: Sequence[str] = ()
    called: str = "trials"
    within: float = 1.0
    most: float = 1.0
    cases: Sequence[Mapping[str, Any]] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    keys: Sequence[str] = ()
    each: Sequence[str] = ()
    published: Any = None
    tolerance: Any = None
    factor: float = 1.0
    cause: str | Sequence[Mapping[str, Any]] = ""
    reason: str = ""
    section: str = ""
    figure: str = ""
    covered_by: str = ""
    to: str = "claims"
    only_run: bool = False
    always: bool = False


def _near(claim: Claim, published: float, ours: float, tolerance: float | None) -> bool | None:
    if tolerance is None:
        return None
    by_factor = published > 0 and published / claim.factor <= ours <= published * claim.factor
    return abs(ours - published) <= tolerance + 1e-9 or (claim.factor > 1 and by_factor)


def _relative(claim: Claim, published: float, ours: float, tolerance: float | None) -> bool | None:
    return None if tolerance is None else abs(ours / published - 1) <= tolerance


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


Rule = Callable[[Claim, float, float, float | None], bool | None]
RULES: dict[str, tuple[str, Rule]] = {
    "near": ("within tolerance", _near),
    "relative": ("within tolerance, as a share", _relative),
    "below": ("below", lambda _c, published, ours, _t: ours < published),
    "above": ("above", lambda _c, published, ours, _t: ours > published),
    "at most": ("at most", lambda _c, published, ours, _t: ours <= published),
    "at least": ("at least", lambda _c, published, ours, _t: ours >= published),
    "same sign": ("same sign", lambda _c, published, ours, _t: _sign(ours) == _sign(published)),
    "in every case": ("in every case", lambda _c, _p, _o, _t: None),
    NOT_JUDGED: (NOT_JUDGED, lambda _c, _p, _o, _t: None),
    NOT_TESTABLE: (NOT_TESTABLE, lambda _c, _p, _o, _t: None),
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
    """Refuse a rule, a cause or another claim that there is not, and a cause without a reason."""
    given = [{"cause": claim.cause}] if isinstance(claim.cause, str) else claim.cause
    causes = [(case["cause"], case.get("reason", claim.reason)) for case in given if case["cause"]]
    for found, known in (
        (claim.rule, RULES),
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
        examined   whether this is the run whose verdicts were examined one by one: then one that is
                   not yes and has no cause, with its reason, is an error; in other runs it says so
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
            rows = [_measured(one, made) for one, made in cases if made is not None]
        else:
            rows = list(_compared(claim, package, tables))
        if not (judged or claim.always):
            rows = [row | _NO_VERDICT for row in rows]
        found.setdefault(claim.to, []).extend(_explained(row, package, examined) for row in rows)
    return {name: _frame(rows) for name, rows in found.items()}


_NO_VERDICT: Row = {"holds": NOT_JUDGED, "share": None, "reason": ""}


def _explained(row: Row, package: str, examined: bool) -> Row:
    """The row with its cause exactly where it needs one."""
    if row["holds"] == NOT_TESTABLE:
        return row
    if row["holds"] not in (NO, DEPENDS):
        return row | {"cause": "", "reason": ""}
    if row["cause"]:
        return row
    if examined:
        raise ConfigError(
            _source(package),
            place=row["id"],
            found=f"{row['holds']!r} without a cause: {row['claim']}",
            expected=f"one of {', '.join(CAUSES)}",
        )
    return row | {"cause": NOT_EXAMINED}


def _frame(rows: list[Row]) -> pl.DataFrame:
    keys = list(dict.fromkeys(key for row in rows for key in row if key not in COLUMNS))
    plain = [{key: row.get(key) for key in (*COLUMNS, *keys)} for row in rows]
    if not rows:
        return pl.DataFrame(schema=COLUMNS)
    return pl.DataFrame(plain, schema_overrides=COLUMNS, infer_schema_length=None)


_OF_A_CASE = (
    *("section", "source", "paper", "published", "tolerance", "rule"),
    *("cause", "reason", "figure", "covered_by"),
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


def _measured(claim: Claim, found: MeasuredClaim) -> Row:
    row = _row(claim, {}, claim.published, found, claim.tolerance)
    if claim.rule in (NOT_TESTABLE, NOT_JUDGED):
        return row
    if found.reason:
        return row | {"holds": NOT_TESTABLE, "reason": found.reason}
    if found.true is None or not found.of:  # no case at all shows nothing
        return row
    share = found.true / found.of
    most, few = claim.most - ROUNDING, 1 - claim.most + ROUNDING
    holds = YES if share >= most else NO if share <= few else DEPENDS
    return row | {"holds": holds, "share": share, "reason": claim.reason}


def _tried(claim: Claim, queries: Queries) -> MeasuredClaim | None:
    """Judge every row of a claim's query, and count the trials in which enough of them are kept."""
    rows = queries.rows(claim.query, of=claim.id)
    if claim.apart:
        rows = rows.sort(claim.apart, maintain_order=True)
    if rows.is_empty():
        return None
    _, rule = RULES[claim.rule]
    kept = [
        bool(
            row["value"] is not None
            and rule(claim, row.get("beside", claim.published), row["value"], claim.tolerance)
        )
        for row in rows.iter_rows(named=True)
    ]
    trials = rows.with_columns(pl.Series("kept", kept, dtype=pl.Float64))
    shares = trials.group_by(claim.trials).agg(pl.col("kept").mean()) if claim.trials else trials
    true = int((shares["kept"] >= claim.within).sum())
    parts = rows.partition_by(claim.apart) if claim.apart else [rows]
    ranges = ", ".join(_range(claim, part["value"]) for part in parts)
    return MeasuredClaim(
        value=None if claim.apart else _middle(rows["value"]),
        finding=f"{ranges}; true in {true:,} of {shares.height:,} {claim.called}",
        true=true,
        of=shares.height,
    )


def _middle(values: pl.Series) -> float | None:
    middle = values.cast(pl.Float64).median()
    return middle if isinstance(middle, float) else None


def _range(claim: Claim, values: pl.Series) -> str:
    """The middle of some values and where four fifths of them are."""
    some = values.cast(pl.Float64).drop_nulls()
    if some.is_empty():
        return "no number"
    (form,) = (form or "" for _, name, form, _ in Formatter().parse(claim.show) if name is not None)
    low, high = (format(some.quantile(part, "linear"), form) for part in (0.1, 0.9))
    return claim.show.format(some.median()) + (f" ({low} to {high})" if low != high else "")


def _compared(claim: Claim, package: str, tables: Tables) -> Iterator[Row]:
    ours = tables[claim.table].filter(**claim.where)
    for published in _published(claim, package, ours):
        number = published["published"]
        keys = {key: published[key] for key in claim.keys}
        here = list((ours.filter(**keys) if keys else ours).iter_rows(named=True))
        if not claim.each and len(here) != 1:
            here = [] if claim.only_run else [{}]
        for row in here:
            shown = {key: row[key] for key in claim.each} | keys
            found = MeasuredClaim(value=row.get(claim.ours))
            yield _row(claim, shown, number, found, _tolerance(claim, number, keys, row))


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
        yield {"published": said}


def _tolerance(claim: Claim, published: float, keys: Row, ours: Row) -> float | None:
    """The tolerance of one row; None if it has none, so that it is not judged."""
    given = claim.tolerance
    for case in given if isinstance(given, list) else [given]:
        if not isinstance(case, dict):
            return None if case is None else float(case)
        if all({**ours, **keys}.get(key) == case[key] for key in case if key not in _HOW):
            named = [case[key] for key in ("absolute", "share") if key in case]
            if "relative" in case:
                named.append(case["relative"] * abs(published))
            if "column" in case:
                named.append(case.get("times", 1) * ours[case["column"]])
            return float(max(named)) if named else None
    return None


_HOW = ("relative", "absolute", "share", "column", "times")


def _row(
    claim: Claim, keys: Row, published: float | None, found: MeasuredClaim, tolerance: float | None
) -> Row:
    """A row of verdicts: a number that decides and is missing is not taken for a no."""
    words, rule = RULES[claim.rule]
    if claim.rule == "relative" and published == 0:
        raise ConfigError(
            PUBLISHED,
            place=claim.id,
            found='the published number 0 with the rule "relative"',
            expected='another rule, such as "near": nothing is a share of 0',
        )
    ours = None if found.value is None or isnan(found.value) else found.value
    kept = None
    if ours is not None and published is not None:
        kept = rule(claim, published, ours, tolerance)
    holds = NOT_JUDGED if kept is None else YES if kept else NO
    cause, reason = _cause(claim, keys)
    if claim.rule == NOT_TESTABLE:
        holds = NOT_TESTABLE
    elif ours is None and claim.rule != NOT_JUDGED:
        holds, reason = NOT_TESTABLE, NO_SUCH_NUMBER
    return {
        "id": claim.id,
        "section": claim.section or claim.source,
        "source": claim.source,
        "claim": claim.claim.format(**{key: _word(value) for key, value in keys.items()}),
        "paper": claim.paper or _shown(claim, published),
        "finding": found.finding or _shown(claim, ours),
        "published": published,
        "ours": ours,
        "difference": None if ours is None or published is None else ours - published,
        "tolerance": tolerance,
        "rule": claim.criterion or (NOT_JUDGED if holds == NOT_JUDGED else words),
        "holds": holds,
        "share": None,
        "cause": cause,
        "reason": reason,
        "figure": claim.figure,
        "covered_by": claim.covered_by,
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
