"""Rounding as a mechanism: every count of every table becomes a multiple of a base, or nearly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.errors import did_you_mean, one_of
from headcount.fields import AtLeast0, AtLeast1
from headcount.files import write_text_atomic
from headcount.mechanisms._changed_tables import (
    Changed,
    ChangedTables,
    TablesRun,
    TrueTable,
    overlapping,
)
from headcount.mechanisms._key_file import CellWords, KeySecret, origin_of_words, record_secret
from headcount.mechanisms.rounding.cells import (
    CellRule,
    How,
    change_table,
    check_base,
    check_threshold,
    off_by,
    round_cells,
    small_areas,
    sums_of_detail,
    withheld,
)
from headcount.mechanisms.rounding.controlled import controlled_tables
from headcount.mechanisms.rounding.small_counts import (
    SmallCounts,
    inner_cells,
    round_small_counts,
    round_small_counts_exactly,
    tables_of,
)
from headcount.noise import Stream
from headcount.noise.source import SEED_DRAWS, cipher_words
from headcount.privacy import Guarantee
from headcount.release.changed import KnownChange, Off, Step, Steps
from headcount.release.published import PublishedCells, is_total
from headcount.tabulate import Counts
from headcount.tabulate.published import TableCells

RoundingHow = Literal[
    "random", "fixed", "nearest", "midpoint", "steps", "controlled", "small-counts"
]
_BY_CHANGES = tuple(one.value for one in How)
BY_CELL = (*_BY_CHANGES, "steps")
PURPOSE = "rounding"
ACCOUNT = "rounding.json"


@dataclass(frozen=True, kw_only=True, repr=False)
class Rounding(ChangedTables):
    """Publish multiples of a base instead of counts.

    where
        base           b, 2 or more
        how            "random": the multiple below or above, by chance, with the count as the
                       mean; "fixed": the same, but the same people are always rounded alike;
                       "nearest"; "midpoint": about the middle of the counts that are rounded alike;
                       "steps": by a base that grows with the count;
                       "controlled": multiples that keep every sum, as near as can be;
                       "small-counts": only small counts become multiples, and every sum is kept
        small_only     round only detailed counts below the base, and add totals up from them
        below          true counts below this are withheld
        withhold_zeros whether counts of 0 are then withheld too
        areas          units with fewer people than this publish nothing but their total
        largest        of "small-counts": the largest count that is small, b - 1 by default
        optimal        of "small-counts": the best answer, for tables of some hundreds of cells
        steps          of "steps", in place of ``base``: from which count on (``at``) which base,
                       or one value
        halves         of "steps": where two multiples are as near, "up" or the "even" one

    ``keys`` goes with "fixed" alone.
    """

    base: int = 3
    how: RoundingHow = "random"
    small_only: bool = False
    below: AtLeast0 = 0
    withhold_zeros: bool = True
    areas: AtLeast0 = 0
    largest: AtLeast1 | None = None
    optimal: bool = False
    steps: tuple[Step, ...] = ()
    halves: Literal["up", "even"] = "up"
    name = "rounding"
    presets = "headcount.mechanisms.rounding.presets"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_base(self.base)
        if self.how not in get_args(RoundingHow):
            raise self.bad("how", repr(self.how), did_you_mean(self.how, get_args(RoundingHow)))
        check_threshold(self.below)
        if self.areas < 0:
            raise self.bad("areas", str(self.areas), "0 or more")
        for place, only in (
            ("small_only", ("random", "fixed", "nearest")),
            ("below", BY_CELL),
            ("areas", BY_CELL),
            ("largest", ("small-counts",)),
            ("optimal", ("small-counts",)),
            ("keys", ("fixed",)),
            ("steps", ("steps",)),
            ("halves", ("steps",)),
        ):
            if getattr(self, place) not in (0, None, (), "up") and self.how not in only:
                raise self.bad(
                    place, f"it, with how = {self.how!r}", f"it with {' or '.join(only)} only"
                )
        if self.how == "small-counts":
            self._small_counts()  # refuses a largest count that is too small
        if self.how == "steps":
            object.__setattr__(self, "steps", tuple(self.steps))
            self._steps()  # refuses steps that do not rise
        if not self.withhold_zeros and not self.below:
            raise self.bad("withhold_zeros", "false, without a threshold", "it with below > 0 only")

    @property
    def draws_noise(self) -> bool:
        """Whether chance decides anything."""
        return self.how in ("random", "fixed") or (self.how == "small-counts" and not self.optimal)

    @property
    def way(self) -> str:
        """The base, and which counts are rounded."""
        return repr((self.name, self.base, self.small_only))

    def _steps(self) -> Steps | None:
        if self.how != "steps":
            return None
        return Steps(steps=self.steps, halves=self.halves, below=self.below)

    def _small_counts(self) -> SmallCounts:
        return SmallCounts(base=self.base, largest=self.largest)

    def guarantee(self) -> Guarantee:
        """None, and it says so."""
        again = {
            "random": "each cell of each table is drawn anew, so that a count that stands in "
            "several tables can be worked out from their mean",
            "fixed": "the same people are rounded alike wherever they are counted",
            "controlled": "nothing is left to chance, and all sums are kept",
            "small-counts": "other counts are published nearly as they are, and all sums are kept",
        }.get(self.how, "nothing is left to chance")
        by = "by steps" if self.how == "steps" else f"to base {self.base}"
        return Guarantee.none(
            f"counts are rounded {by}: whoever reads one knows the few counts that "
            f"it may stand for, and sums of several tables can leave only one of them; {again}. "
            "A count above 0 says that somebody is there"
        )

    def refuse_weight(self, weight: Fraction, by: str = "") -> None:
        """Refuse a sample where counts must be whole, or are withheld by their size."""
        reason = "sums of weighted counts are no whole numbers"
        if self.how in _BY_CHANGES:
            if not (self.small_only or self.below or self.areas):
                return
            reason = "small counts of a sample are small for another reason"
        raise self.bad(
            "mechanism",
            f"a sample{by}, whose people stand for {weight} each",
            f"how to be {one_of(_BY_CHANGES)}, without thresholds: {reason}",
        )

    def refuse_tables(self, counts: Counts, made: Sequence[TableCells]) -> None:
        """Refuse keys by which means would not be the counts, and tables that cannot keep sums."""
        possible = 0 if counts.records is None else counts.records.keys.possible
        if self.how == "fixed" and possible % (self.base * counts.weight.denominator):
            raise self.bad(
                "how",
                f"'fixed' with base {self.base} by record keys of a file, of which there are "
                f"{possible:,}",
                "ids of persons (person_id under [population]), or a base by which "
                f"{possible:,} keys can be divided: else means would not be the counts",
            )
        if self.how in BY_CELL and not self.small_only:
            return
        name = overlapping(made)
        if self.small_only and not name:
            odd = (cells.table.name for cells in made if sums_of_detail(cells) is None)
            name = next(odd, "")
        if name:
            how = "small_only" if self.small_only else f"how = {self.how!r}"
            raise self.bad(
                f"table {name}", "totals that are no sums of its detail", f"other tables for {how}"
            )

    def change(self, run: TablesRun) -> Changed:
        """Every table rounded."""
        notes: dict[str, float | str] = {}
        if self.how == "controlled":
            published = self._controlled(run)
        elif self.how == "small-counts":
            published = self._small(run)
        else:
            secret = None
            if self.how == "fixed":
                secret = record_secret(self.keys, run.counts, run.noise, run.number, way=self.way)
                notes["record keys"] = origin_of_words(secret, run.counts)
            published = self._by_cell(run, secret)
        return Changed(published, self._words(run.counts.weight), notes)

    def _by_cell(self, run: TablesRun, secret: KeySecret | None) -> tuple[PublishedCells, ...]:
        """Each cell rounded by itself; by keys of its people, where there are any."""
        steps, rule = self._steps(), self._rule(run.counts.weight)
        off = self._off(rule)
        people = None if secret is None else CellWords.of(run.counts, secret)
        noise, number = (run.noise if rule.how == How.RANDOM else None), run.number

        def rounded(table: TrueTable) -> tuple[Ints, Flags]:
            cells, here, values = table
            name = cells.table.name
            if steps is not None:
                return steps.shown(values), self._withheld(values, cells, here)
            stream = Stream(level=here.level, query=name, size=SEED_DRAWS, purpose=PURPOSE)
            found = round_cells(
                values,
                rule,
                words=None if noise is None else cipher_words(noise, stream, number),
                keys=None if people is None else people.at(here.level).keys(cells),
            )
            if self.small_only:
                found = np.asarray(found[:, cells.inner] @ sums_of_detail(cells))
            return found, self._withheld(values, cells, here)

        return tuple(
            PublishedCells(
                cells=run.made[table],
                level=level,
                value=np.where(gone, 0, value),
                withheld=gone,
                holds=0 if self.withhold_zeros or self.areas else 1,
                off=off,
            )
            for (table, level), (value, gone) in zip(
                run.where, run.map_tables(rounded), strict=True
            )
        )

    def _withheld(self, values: Ints, cells: TableCells, here: Counts) -> Flags:
        gone = np.zeros(values.shape, dtype=bool)
        if self.below:
            gone |= withheld(values, below=self.below, zeros=self.withhold_zeros)
        if self.areas:
            areas = small_areas(here.totals(), below=self.areas)
            gone |= areas[:, None] & ~is_total(cells)[None, :]
        return gone

    def _rule(self, weight: Fraction = Fraction(1)) -> CellRule:
        how = How.NEAREST if self.how == "steps" else How(self.how)
        return CellRule(base=self.base, how=how, small_only=self.small_only, weight=weight)

    def _off(self, rule: CellRule) -> Off:
        off = Off(steps=steps) if (steps := self._steps()) else off_by(rule)
        return replace(off, withheld_below=max(self.below, self.areas) or None)

    def known_change(self) -> KnownChange | None:
        """The chances of both multiples; steps say all, sums that are kept have no law."""
        if self.how not in _BY_CHANGES or self.small_only:
            return None
        rule = self._rule()
        return KnownChange(off=self._off(rule), table=change_table(rule))

    def _controlled(self, run: TablesRun) -> tuple[PublishedCells, ...]:
        found, steps, proved = controlled_tables(
            run.counts, run.made, base=self.base, lowest=self.lowest
        )
        if run.context.curator is not None:
            text = json.dumps({"steps": steps, "proved_nearest": proved}, indent=2) + "\n"
            write_text_atomic(run.context.curator / ACCOUNT, text)
        most = (steps + 1) * self.base - 1
        off = Off(
            down=most,
            up=most,
            zero_hides=most,
            raises_zeros=steps > 0,
            multiples_of=self.base,
        )
        return tuple(
            _whole(run.made[number], level, found[run.made[number].table.name, level], off)
            for number, level in run.where
        )

    def _small(self, run: TablesRun) -> tuple[PublishedCells, ...]:
        inner, sums, shapes = inner_cells(run.counts, run.made, run.where)
        settings = self._small_counts()
        if self.optimal:
            changed = round_small_counts_exactly(inner, sums, settings)
        else:
            stream = Stream(level=run.counts.level, query="ties", size=SEED_DRAWS, purpose=PURPOSE)
            words = cipher_words(run.noise, stream, run.number).run(0, len(inner))
            drawn = np.concatenate([np.empty(0, np.uint64), *(some.copy() for some in words)])
            rank = np.argsort(np.argsort(drawn, kind="stable"), kind="stable")
            changed = round_small_counts(inner, sums, settings, rank=rank)
        tables = tables_of(np.asarray(sums.T @ changed), shapes)
        return tuple(
            _whole(run.made[number], level, values, Off())
            for (number, level), values in zip(run.where, tables, strict=True)
        )

    def _in_words(self) -> str:
        steps = self._steps()
        return "" if steps is None else steps.words

    def _words(self, weight: Fraction) -> tuple[str, ...]:
        what = {
            "random": "Every count is rounded to the multiple of {b} below or above it, by chance.",
            "fixed": "Every count is rounded to the multiple of {b} below or above it, by chance, "
            "and the same people always alike.",
            "nearest": "Every count is rounded to the nearest multiple of {b}.",
            "midpoint": "Every count is about the middle of the {b} counts that it may stand for.",
            "steps": f"Every count is shown by its size: {self._in_words()}.",
            "controlled": "Every count is a multiple of {b} near the true one, and all sums are "
            "kept.",
            "small-counts": "Small counts are rounded to base {b}, and all sums are kept.",
        }[self.how]
        said = [what.format(b=self.base)]
        if self.how in BY_CELL and not self.small_only:
            said.append("Cells and totals are rounded each by itself: tables do not add up.")
        if self.small_only:
            said.append(
                "Only detailed counts below the base are rounded; totals are sums of these."
            )
        if self.below:
            zeros = ", zeros included" if self.withhold_zeros else ""
            said.append(f"Counts below {self.below} are withheld{zeros}.")
        if self.areas:
            said.append(f"Of units with fewer than {self.areas} people only totals are published.")
        if weight != 1:
            said.append(f"The counts are of a sample, times {weight}.")
        return tuple(said)


def _whole(cells: TableCells, level: str, values: Ints, off: Off) -> PublishedCells:
    """A table without withheld cells."""
    nothing = np.zeros(values.shape, dtype=bool)
    return PublishedCells(
        cells=cells, level=level, value=values.astype(np.int64), withheld=nothing, off=off
    )
