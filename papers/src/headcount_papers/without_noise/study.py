"""The whole study: the same people and tables, published in every way, scored and judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from headcount.comparison.cases import Case, Released, labelled, releases
from headcount.comparison.study import Findings, Work
from headcount.mechanisms.coarsening.search import Join, try_plans
from headcount_papers.frame.claims import verdicts
from headcount_papers.without_noise.measures import errors, estimate, proven
from headcount_papers.without_noise.methods import Way, wanted, ways
from headcount_papers.without_noise.people import BY_AGE, People, cut, every_people
from headcount_papers.without_noise.settings import LIMITS, TRIED, Settings

FOUR_AGES: Join = ("age", (0, 18, 45, 65))
KEY_PLAN = "leaves, apart, crossed at"
"""The plan that is tried on the cut blocks too."""


def run(settings: Settings, work: Work) -> Findings:
    """Publish in every way, measure, and judge what is said.

    where
        errors     sum of errors at each level, in per cent of people, by draw
        proven     people proven, claims and guesses, by draw
        plans      coarsening by more ladders, crossings and joins, by draw
        given_up   the finest plan that keeps a limit of what is proven, by draw
        claims     what is said of all that, and whether it holds
    """
    draws = range(1 if settings.own else settings.draws)
    found: dict[str, list[pl.DataFrame]] = {"errors": [], "proven": [], "plans": []}
    jobs = [(draw, people) for draw in draws for people in every_people(settings, draw)]
    for draw, people in work.progress(jobs, what="Populations", total=len(jobs)):
        _publish(people, draw, ways(people), settings, found)
        if (parts := cut(people)) is not None and people.detail == BY_AGE:
            own = (one for one in ways(parts) if one.name.startswith(KEY_PLAN))
            _publish(parts, draw, own, settings, found)
        found["plans"].append(_plans(people, draw))
    tables = {name: pl.concat(parts, how="diagonal_relaxed") for name, parts in found.items()}
    tables["given_up"] = given_up(tables["plans"])
    tables |= verdicts(__package__, tables, judged=not settings.own)
    return Findings(settings=settings, tables=tables, confidential=settings.own)


def _publish(
    people: People,
    draw: int,
    every: Iterator[Way],
    settings: Settings,
    found: dict[str, list[pl.DataFrame]],
) -> None:
    for way in every:
        columns = {
            "people": people.called,
            "detail": people.detail,
            "method": way.name,
            "family": way.family,
            "least": way.least,
            "crossed": way.crossed,
        }
        case = Case(
            name=f"{people.called} {people.detail} {way.name}",
            mechanism=way.mechanism,
            runs=range(draw, draw + 1),
            columns=columns,
        )
        for one in releases(case, people.data, seed=settings.seed):
            read = estimate(one.release, people)
            for name, measure in (("errors", errors), ("proven", proven)):
                made = measure(one, people, read)
                own: dict[str, Any] = {**_columns(one), "replicate": draw}
                if name == "proven":
                    made = made.rename({"people": "everybody"})
                found[name].append(labelled(made, own))


def _columns(one: Released) -> dict[str, Any]:
    return dict(one.case.columns)


def _plans(people: People, draw: int) -> pl.DataFrame:
    """Plans of coarsening, tried."""
    joins = [FOUR_AGES] if people.detail == BY_AGE else []
    search = try_plans(wanted(people), people.counts, areas=TRIED, joins=joins)
    leaf = people.counts.geography.leaf
    kept = zip(search.queries, ("kept_known", "kept_secret"), strict=True)
    names = {f"kept, {query}, {leaf}": kind for query, kind in kept}
    joined = pl.when(pl.col("joined") == "").then(pl.lit("as wanted")).otherwise("joined")
    made = search.table.select(
        "least",
        "areas",
        "crossed",
        joined.alias("joined"),
        *(pl.col(old).alias(new) for old, new in names.items()),
        all_percent="proven",
        unlike_percent="proven_of_non_majority",
        undecided_percent="undecided",
    ).with_columns(least_people=pl.col("least").cast(pl.Int64, strict=False).fill_null(0))
    own = {"people": people.called, "detail": people.detail, "replicate": draw}
    return labelled(made, own)


def given_up(plans: pl.DataFrame) -> pl.DataFrame:
    """For each limit and crossing the finest ladder that keeps it; none where no ladder does."""
    by = ["people", "detail", "replicate", "crossed", "joined"]
    found = []
    for limit in LIMITS:
        fits = plans.filter(pl.col("unlike_percent") <= 100 * limit)
        first = fits.sort("least_people").group_by(by, maintain_order=True).first()
        found.append(
            plans.select(by)
            .unique(maintain_order=True)
            .join(first, on=by, how="left", maintain_order="left")
            .with_columns(most=pl.lit(100 * limit))
        )
    return pl.concat(found)
