"""Counts that published tables leave no choice about, though every count was changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headcount.arrays import Ints
from headcount.attacks.changed_cells import (
    ChangedCells,
    changed_cells,
    hides_its_change,
    published_gaps,
)
from headcount.attacks.changed_intervals import Narrowing, changed_intervals
from headcount.attacks.intervals import Contradiction
from headcount.attacks.kinds._base import (
    Attack,
    ClaimedCounts,
    CountRanges,
    People,
    changed_tables,
)
from headcount.engines.protocol import Engine
from headcount.errors import ConfigError
from headcount.release import Release
from headcount.report.finding import Support


@dataclass(frozen=True, kw_only=True)
class WorkOut(Attack):
    """Work out counts from ranges around the published ones and from all sums.

    where
        largest_change   what the attacker knows of the largest change where the release does not
                         say it; 0 if nothing
        effort           "relations": one sum at a time; "programs": linear programs; "whole":
                         whole numbers by CP-SAT (the extra headcount[attack])
        seconds          for each end of a count, with whole numbers

    Beside the attacker who knows stands one who does not: he takes the smallest change under which
    the published tables can all be true. It is never too large, and where it is too small what he
    claims can be wrong.
    """

    name = "feasible-intervals"
    whole = True
    largest_change: int = 0
    effort: Narrowing = "relations"
    seconds: float = 10.0

    def __post_init__(self) -> None:
        for place, fine, found, expected in (
            ("largest_change", self.largest_change >= 0, self.largest_change, "0 or more"),
            (
                "effort",
                self.effort in ("relations", "programs", "whole"),
                self.effort,
                "'relations', 'programs' or 'whole'",
            ),
            ("seconds", self.seconds > 0, self.seconds, "more than 0"),
        ):
            if not fine:
                raise ConfigError(self.name, place=place, found=str(found), expected=expected)

    def supports(self, release: Release) -> Support:
        """Tables whose counts were changed."""
        return changed_tables(release)

    def run(
        self, release: Release, people: People, *, engine: Engine | None = None
    ) -> ClaimedCounts:
        """Claim what each count is at least and at most."""
        cells = changed_cells(release.as_tables())
        hidden, ranges, guess = hides_its_change(cells), [], None
        if self.largest_change or not hidden:
            known = self.largest_change if hidden else None
            ranges.append(self._ranges("knows the largest change", cells, known))
        if hidden:
            guess = max(gaps.largest_change for gaps in published_gaps(cells))
            while True:
                try:
                    ranges.append(self._ranges("does not know it", cells, guess))
                    break
                except Contradiction:  # the sums together prove more than each of them
                    guess += 1
        return ClaimedCounts(
            attack=self.name,
            title="Which counts do the published ones leave no choice about?",
            schema=release.schema,
            geography=release.geography,
            ranges=tuple(ranges),
            facts={"kind": self.name, "effort": self.effort, "proved_change": guess},
            words=(
                "Each published count stands for a range of counts, and true counts add up to "
                "their totals, in the table, over units and between tables, even where published "
                "ones do not. The attacker narrows the ranges by these sums; a count whose range "
                "is one number is known for certain. " + _guess_words(guess)
            ),
        )

    def _ranges(
        self, attacker: str, cells: Sequence[ChangedCells], largest: int | None
    ) -> CountRanges:
        low: dict[tuple[str, str], Ints] = {}
        high: dict[tuple[str, str], Ints] = {}
        for some in cells:
            found = changed_intervals(
                some.linked.additive,
                *some.ranges(largest),
                effort=self.effort,
                seconds=self.seconds,
            )
            low |= some.spread(found.low)
            high |= some.spread(found.high)
        return CountRanges(attacker=attacker, low=low, high=high)


def _guess_words(guess: int | None) -> str:
    if guess is None:
        return "The release says how far its counts may be off."
    return (
        "The release does not say how far its counts may be off. An attacker who does not know "
        f"finds that {guess} is the smallest change under which all tables can be true, and takes "
        "it for the largest; if it is larger, some of what he claims is wrong."
    )
