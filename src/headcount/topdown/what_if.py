"""What if: TopDown with another loss or other shares, and shares that suit a goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from headcount.errors import ConfigError, one_of
from headcount.fields import Pairs
from headcount.geography import Geography
from headcount.topdown.linear.shares import Goal, SharesProblem, refuse_unfounded

if TYPE_CHECKING:
    from headcount.topdown.design import TopDownDesign
    from headcount.topdown.mechanism import TopDown

PARTS = 100_000
"""Suggested shares are rounded to parts of this."""


def with_changes(design: TopDownDesign, amounts: Mapping[str, Fraction]) -> TopDown:
    """Settings with another loss, or other shares of some levels or queries and less for the rest.

    ``rho``, ``epsilon``, ``levels.NAME`` or ``queries.NAME``: every named share is as it says, and
    shares of all others keep their proportions, so that everything still adds up to 1.
    """
    settings, tree = design.settings, design.tree
    shares: dict[str, dict[str, Fraction]] = {"levels": {}, "queries": {}}
    for key, amount in amounts.items():
        kind, _, name = key.partition(".")
        if kind in shares and name:
            shares[kind][name] = amount
        elif key not in ("rho", "epsilon"):
            raise ConfigError(
                "plan",
                place="--set",
                found=repr(key),
                expected="rho, epsilon, levels.NAME or queries.NAME",
            )
    if "rho" in amounts and "epsilon" in amounts:
        raise ConfigError("plan", place="--set", found="rho and epsilon", expected="one of them")
    if "rho" in amounts:
        settings = replace(settings, rho=amounts["rho"], epsilon=None)
    if "epsilon" in amounts:
        settings = replace(settings, epsilon=amounts["epsilon"], rho=None)
    if levels := shares["levels"]:
        known = _levels(settings, tree)
        settings = replace(settings, levels=Pairs.of(_shifted(known, levels, kind="levels")))
    if queries := shares["queries"]:
        settings = _with_queries(settings, queries)
    return settings


def _with_queries(settings: TopDown, named: Mapping[str, Fraction]) -> TopDown:
    """Other shares of queries, also at levels with shares of their own that ask them."""
    shares = _shifted(dict(settings.query_shares), named, kind="queries")
    queries = {
        one: replace(query, share=shares[one]) if one in shares else query
        for one, query in settings.queries
    }
    levels = {}
    for level, own in settings.level_queries:
        here = {name: amount for name, amount in named.items() if name in dict(own)}
        levels[level] = (
            Pairs.of(_shifted(dict(own), here, kind="queries", at=f" at {level}")) if here else own
        )
    return replace(settings, queries=Pairs.of(queries), level_queries=Pairs.of(levels))


def suggested(
    design: TopDownDesign, goal: Goal, wanted: Mapping[tuple[str, str], float] | None = None
) -> TopDown:
    """Settings with shares that suit a goal; see topdown/linear/shares.py.

    where
        wanted   the importance of levels and queries, by names; by default of all alike
    """
    if goal == "minimax" and wanted is not None and len(set(wanted.values())) > 1:
        raise ConfigError(
            "plan",
            place="goal",
            found="'minimax' with some answers more important than others",
            expected="'balanced', or the same importance for all: the largest ratio has no weights",
        )
    settings, tree, errors = design.settings, design.tree, design.errors
    allocation, planned = settings.allocation(tree), design.planned
    problem = SharesProblem(
        errors.tree,
        errors.components,
        measured={
            (tree.depth(level), query): (
                float(allocation.share(level=level, query=query)),
                planned[level, query].weight,
            )
            for level, query in allocation.measured
        },
        wanted={},
        power=1 if settings.rho is not None else 2,
    )
    refuse_unfounded(problem)
    problem = replace(problem, wanted=_wanted(problem, tree, wanted))
    return _with_shares(settings, tree, problem.suggest(goal))


def _wanted(
    problem: SharesProblem, tree: Geography, named: Mapping[tuple[str, str], float] | None
) -> dict[tuple[int, str], float]:
    """Depths and queries with their importance: all that are not exact, or those that are named."""
    open_ = problem.not_exact()
    if named is None:
        return dict.fromkeys(open_, 1.0)
    known = {(tree.levels[depth], query): (depth, query) for depth, query in open_}
    for level, query in named:
        if (level, query) not in known:
            raise ConfigError(
                "plan",
                place="goal",
                found=f"{query!r} at {level!r}",
                expected=one_of([f"{query!r} at {level!r}" for level, query in known]),
            )
    return {known[pair]: importance for pair, importance in named.items()}


def _with_shares(
    settings: TopDown, tree: Geography, shares: Mapping[tuple[int, str], float]
) -> TopDown:
    """Settings with other shares, rounded to decimals that add up to exactly 1."""
    exact_shares = {
        pair: Fraction(max(1, round(share * PARTS)), PARTS) for pair, share in shares.items()
    }
    largest = max(exact_shares, key=lambda pair: exact_shares[pair])
    exact_shares[largest] += 1 - sum(exact_shares.values())
    levels, queries = {}, {}
    for depth, level in enumerate(tree.levels):
        own = {query: share for (at, query), share in exact_shares.items() if at == depth}
        if own:
            levels[level] = sum(own.values(), Fraction(0))
            queries[level] = Pairs.of(
                {query: share / levels[level] for query, share in own.items()}
            )
    return replace(settings, levels=Pairs.of(levels), level_queries=Pairs.of(queries))


def _levels(settings: TopDown, tree: Geography) -> dict[str, Fraction]:
    """The shares of all levels that have one."""
    allocation = settings.allocation(tree)
    shares = {level: allocation.level_share(level) for level in tree.levels}
    return {level: share for level, share in shares.items() if share}


def _shifted(
    shares: Mapping[str, Fraction], named: Mapping[str, Fraction], *, kind: str, at: str = ""
) -> dict[str, Fraction]:
    """Shares with the named ones set, the others in proportion."""
    for name, amount in named.items():
        if name not in shares:
            found, expected = repr(f"{kind}.{name}"), one_of(list(shares))
            raise ConfigError("plan", place="--set", found=found, expected=expected)
        if not 0 < amount < 1:
            raise ConfigError(
                "plan",
                place="--set",
                found=f"{kind}.{name} = {amount}",
                expected="a share between 0 and 1",
            )
    rest, left = 1 - sum(named.values()), [one for one in shares if one not in named]
    if rest < 0 or (rest == 0) != (not left):
        less = f"less than 1, which leaves something for {', '.join(map(repr, left))}"
        raise ConfigError(
            "plan",
            place="--set",
            found=f"{kind}{at} with shares that add up to {1 - rest}",
            expected=less if left else "exactly 1: no other has a share",
        )
    before = sum(shares[one] for one in left)
    return {
        one: named[one] if one in named else share * rest / before for one, share in shares.items()
    }
