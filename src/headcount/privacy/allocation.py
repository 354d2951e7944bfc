"""How a loss is shared out over levels and queries: fractions that sum to exactly 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from headcount.errors import PrivacyError
from headcount.privacy.loss import PureLoss, ZCDPLoss, decimal, exact, scaled, written

ExactNumber: TypeAlias = Fraction | int | str
NamedShares: TypeAlias = Mapping[str, ExactNumber] | Sequence[tuple[str, ExactNumber]]
"""Named shares: a mapping, or pairs in which a repeated name can still be seen and refused."""


@dataclass(frozen=True, kw_only=True)
class AllocatedShare:
    """The part of the whole loss that goes to one query at one level."""

    level: str
    query: str
    share: Fraction


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """Shares of one loss for each (level, query) that is measured; together exactly 1.

    Levels and queries compose in sequence, so shares of the same loss add up to it. Nothing here
    needs data: an allocation is checked against the names of levels and queries alone.
    A (level, query) with share 0 is not measured and is left out.
    """

    shares: tuple[AllocatedShare, ...]

    def __post_init__(self) -> None:
        kept = _checked(
            ((f"{one.query!r} at {one.level!r}", one.share) for one in self.shares),
            what="shares",
        )
        object.__setattr__(
            self,
            "shares",
            tuple(
                AllocatedShare(level=one.level, query=one.query, share=share)
                for one, share in zip(self.shares, kept, strict=True)
                if share > 0
            ),
        )

    @property
    def measured(self) -> tuple[tuple[str, str], ...]:
        """The (level, query) pairs that get a share, in order."""
        return tuple((one.level, one.query) for one in self.shares)

    def share(self, *, level: str, query: str) -> Fraction:
        """The share of one query at one level; 0 if it is not measured."""
        return next(
            (one.share for one in self.shares if (one.level, one.query) == (level, query)),
            Fraction(0),
        )

    def level_share(self, level: str) -> Fraction:
        """The share of everything measured at one level."""
        return sum((one.share for one in self.shares if one.level == level), Fraction(0))

    def queries_at(self, level: str) -> tuple[str, ...]:
        """The queries measured at one level, in order."""
        return tuple(one.query for one in self.shares if one.level == level)

    def losses(self, total: PureLoss | ZCDPLoss) -> dict[tuple[str, str], PureLoss | ZCDPLoss]:
        """The exact loss of each (level, query) that is measured; they add up to ``total``."""
        return {(one.level, one.query): scaled(total, one.share) for one in self.shares}


def allocate(
    *,
    levels: NamedShares,
    queries: Mapping[str, NamedShares],
    known_levels: Sequence[str],
    known_queries: Sequence[str],
) -> Allocation:
    """Build an allocation from shares of levels and, within each level, shares of queries.

    where
        levels          share of the loss for each level; sums to 1
        queries         for each of these levels, shares of its queries; each set sums to 1.
                        One set for all levels is ``dict.fromkeys(levels, shares)``
        known_levels    the levels of the geography
        known_queries   the queries of the workload

    Every name must be known, none may come twice, no share may be negative.
    """
    level_shares = _named(levels, what="level shares", known=known_levels)
    _check_levels(queries, [level for level, _ in level_shares], known=known_levels)
    shares: list[AllocatedShare] = []
    for level, level_share in level_shares:
        what = f"query shares at level {level!r}"
        for query, share in _named(queries[level], what=what, known=known_queries):
            shares.append(AllocatedShare(level=level, query=query, share=level_share * share))
    return Allocation(shares=tuple(shares))


def _check_levels(
    queries: Mapping[str, NamedShares], levels: Sequence[str], *, known: Sequence[str]
) -> None:
    for level in queries:
        _known(level, what="query shares: level", known=known)
        if level not in levels:
            raise PrivacyError(
                place="query shares",
                found=f"some for level {level!r}",
                expected="none: the level shares do not name it",
            )
    for level in levels:
        if level not in queries:
            raise PrivacyError(
                place="query shares",
                found=f"none for level {level!r}",
                expected="some: the level shares name it",
            )


def _named(shares: NamedShares, *, what: str, known: Sequence[str]) -> list[tuple[str, Fraction]]:
    pairs = list(shares.items() if isinstance(shares, Mapping) else shares)
    for name, _ in pairs:
        _known(name, what=what, known=known)
    kept = _checked(((repr(name), share) for name, share in pairs), what=what)
    return [(name, share) for (name, _), share in zip(pairs, kept, strict=True)]


def _known(name: str, *, what: str, known: Sequence[str]) -> None:
    if name not in known:
        expected = ", ".join(repr(one) for one in known)
        raise PrivacyError(place=what, found=repr(name), expected=f"one of {expected}")


def _checked(named: Iterable[tuple[str, ExactNumber]], *, what: str) -> list[Fraction]:
    """Exact shares, each at least 0, no name twice, together exactly 1."""
    seen: set[str] = set()
    kept: list[Fraction] = []
    for name, given in named:
        if name in seen:
            raise PrivacyError(place=what, found=f"{name} twice", expected="each once")
        seen.add(name)
        share = exact(given, name=f"{what}: {name}")
        if share < 0:
            raise PrivacyError(place=what, found=f"{share} for {name}", expected="at least 0")
        kept.append(share)
    total = sum(kept, Fraction(0))
    if total != 1:
        gap = abs(total - 1)
        direction = "too much" if total > 1 else "too little"
        raise PrivacyError(
            place=what,
            found=f"a sum of {written(total)} ({decimal(total)})",
            expected=f"exactly 1: {written(gap)} {direction}",
        )
    return kept
