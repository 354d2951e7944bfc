"""The cell key method as a mechanism: every count of every table changed by its people's key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from headcount.addresses import LIMITS, listed, plain
from headcount.arrays import Flags, Ints
from headcount.errors import did_you_mean
from headcount.fields import AtLeast0, Positive, Rate, exact_number
from headcount.files import write_text_atomic
from headcount.mechanisms._changed_tables import Changed, ChangedTables, TablesRun, TrueTable
from headcount.mechanisms._key_file import (
    CellWords,
    KeySecret,
    WordArray,
    origin_of_words,
    record_secret,
)
from headcount.mechanisms._own_tables import TablesDesign
from headcount.mechanisms.cell_key.lookup import (
    ByColumn,
    ByInterval,
    column_row,
    raise_zeros,
    wanted_zeros,
)
from headcount.mechanisms.cell_key.perturbation import ChangeLaw, PerturbationLimits
from headcount.mechanisms.cell_key.tables import (
    ONS_KEYS,
    PerturbationFile,
    cycle_of,
    entropy_rows,
    facts_of,
    in_columns,
    laws_of,
    reach,
    settings_digest,
    ten_five,
    write_columns,
    write_rows,
)
from headcount.privacy import Guarantee
from headcount.release.changed import ChangeTable, KnownChange, Off
from headcount.release.published import PublishedCells, is_total
from headcount.tabulate import Counts
from headcount.tabulate.published import TableCells

TableRule = Literal["entropy", "10-5"]
Zeros = Literal["stay", "balance"]
LARGEST_CHANGE = 100
ACCOUNT, TABLE = "cell-key.json", "perturbation-table.csv"
SECRET = (
    *("maximum", "variance", "blocked", "stay", "monotone", "rule", "ptable", "columns", "below"),
    *("zeros", "keys"),
)
"""Settings that are not published unless ``disclose`` is set."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CellKey(ChangedTables):
    """Change every count of every table by a random amount that belongs to the people in it.

    where
        maximum      D, the largest change
        variance     V, the largest variance of a change
        blocked      js: no count of 1 to js is published; 0 if any may be
        stay         least probability that a count stays as it is
        monotone     whether changes below 0 are the rarer the larger they are
        rule         "entropy": a table by maximum entropy with these parameters; "10-5": below 10
                     nothing, else the nearest 5
        ptable       a file with a table, instead
        columns      0 to look changes up by the interval of the key; 256 or 4096 to make a table
                     with so many columns, as the ONS has them
        below        changed counts below this are withheld; 0 to publish all
        zeros        "stay": an empty cell stays empty; "balance": some are raised, by keys of
                     their categories, as many as a table loses people by its means, or all
                     that there are where these are fewer
        exact_total  whether the total of each table is published as it is
        disclose     whether largest change, variance and table are published
    """

    maximum: int = 3
    variance: Positive = Fraction(1)
    blocked: AtLeast0 = 0
    stay: Rate | None = None
    monotone: bool = True
    rule: TableRule = "entropy"
    ptable: PerturbationFile | None = None
    columns: AtLeast0 = 0
    below: AtLeast0 = 0
    zeros: Zeros = "stay"
    exact_total: bool = False
    disclose: bool = False
    name = "cell-key"
    presets = "headcount.mechanisms.cell_key.presets"

    def __post_init__(self) -> None:
        super().__post_init__()
        for place in ("variance", "stay"):
            object.__setattr__(self, place, self._number(place))
        for place, kind in (("rule", TableRule), ("zeros", Zeros)):
            value, known = getattr(self, place), get_args(kind)
            if value not in known:
                raise self.bad(place, repr(value), did_you_mean(value, known))
        if self.maximum > LARGEST_CHANGE:
            raise self.bad("maximum", str(self.maximum), f"1 to {LARGEST_CHANGE}")
        if self.below < 0:
            raise self.bad("below", str(self.below), "0 or more")
        self._refuse_unused()
        if self.columns not in (0, 256, 4096):
            raise self.bad("columns", str(self.columns), "0, 256 or 4096")
        if self._made_here:
            entropy_rows(self._limits)  # refuses settings that no table can meet

    def _number(self, place: str) -> Fraction | None:
        value = getattr(self, place)
        if value is None or isinstance(value, Fraction):
            return value
        if isinstance(value, float):
            raise self.bad(place, repr(value), 'an exact number: 1, or text such as "0.1" or "3/2"')
        try:
            return exact_number(value)
        except (ValueError, TypeError):
            raise self.bad(place, repr(value), 'a number such as 1 or "3/2"') from None

    def _refuse_unused(self) -> None:
        """Settings of a table that is not made here."""
        if self._made_here:
            return
        instead = "a table from a file" if self.ptable is not None else f"the rule {self.rule!r}"
        if self.ptable is not None and self.rule != "entropy":
            raise self.bad("ptable", f"the rule {self.rule!r} as well", "one or the other")
        for place in ("maximum", "variance", "blocked", "stay", "monotone", "columns"):
            default = type(self).__dataclass_fields__[place].default
            if getattr(self, place) != default:
                raise self.bad(place, f"it, with {instead}", "it only for a table made here")

    @property
    def _made_here(self) -> bool:
        return self.ptable is None and self.rule == "entropy"

    @property
    def _limits(self) -> PerturbationLimits:
        return PerturbationLimits(
            largest=self.maximum,
            variance=self.variance,
            blocked=self.blocked,
            stay=self.stay,
            monotone=self.monotone,
        )

    @property
    def way(self) -> str:
        """The perturbation table, and what becomes of zeros."""
        table = None if self.ptable is None else self.ptable.bound_to_files().sha256
        said = *map(plain, (self.name, table, self.rule)), LIMITS(self._limits)
        return listed((*said, plain(self.columns), plain(self.zeros)))

    def lookup(self, secret: KeySecret) -> ByInterval | ByColumn:
        """The lookup of changes; a table with columns has them in a secret order."""
        if self.ptable is not None:
            return self.ptable.lookup()
        if self.rule == "10-5":
            return ten_five()
        rows = entropy_rows(self._limits)
        if not self.columns:
            return ByInterval(rows)
        return in_columns(rows, self.columns, words=secret.words("order of columns"))

    @property
    def laws(self) -> tuple[ChangeLaw, ...]:
        """The law of the change of counts 0, 1, ..., which no key alters."""
        if self.ptable is not None:
            return laws_of(self.ptable.lookup())
        if self.rule == "10-5":
            return laws_of(ten_five())
        rows = entropy_rows(self._limits)
        return tuple(column_row(row, self.columns) for row in rows) if self.columns else rows

    def _facts(self, laws: Sequence[ChangeLaw]) -> dict[str, Any]:
        """Largest change, means and variances by count, and the exact delta of one cell."""
        found = facts_of(laws, cycle=self._cycle)
        if self.zeros == "balance":
            found["about_delta"] += "; that some empty cells are raised is left out of it"
        return found

    @property
    def _cycle(self) -> int:
        """How many of the last rows of the table larger counts use in turn."""
        if self.ptable is not None:
            return cycle_of(self.ptable.lookup())
        return cycle_of(ten_five()) if self.rule == "10-5" else 1

    @property
    def secret(self) -> tuple[str, ...]:
        """The table too, unless it is disclosed."""
        return ("keys",) if self.disclose else SECRET

    def guarantee(self) -> Guarantee:
        """None, and it says so."""
        zeros = (
            "A count of 0 stays 0, so that a published count above 0 says that somebody is there"
            if self.zeros == "stay"
            else "How many empty cells are raised follows from the counts"
        )
        why = (
            "each count is changed by a bounded random amount, the same one wherever the same "
            "people are counted, and for that there is no epsilon. "
            f"{zeros}. What all tables tell together, or beside what an attacker knows, is not "
            "limited. Whoever has the record keys can undo every change"
        )
        exact = ("the total of every table in every unit",) if self.exact_total else ()
        return Guarantee.none(why).also_exact(*exact)

    def refuse_weight(self, weight: Fraction, by: str = "") -> None:
        """Refuse a sample: its estimates are no counts of people."""
        raise self.bad(
            "mechanism",
            f"a sample{by}, whose people stand for {weight} each",
            "everybody: fractions of people have no record keys (rounding takes a sample)",
        )

    def check(self, design: TablesDesign, counts: Counts) -> tuple[str, ...]:
        """Also say whether the table has other means than 0."""
        return (*super().check(design, counts), *_off_means(self.laws))

    def refuse_tables(self, counts: Counts, made: Sequence[TableCells]) -> None:
        """Refuse zeros that would not be raised, and a table that is finer than given keys.

        Keys of a file are fewer than words of 64 bits: a finer table would have another law.
        """
        if self.zeros == "balance" and not any(law.mean < 0 for law in self.laws):
            raise self.bad(
                "zeros",
                "'balance', with a table by which no count is lowered on average",
                "'stay', or a table that loses people: no empty cell would be raised",
            )
        possible = 0 if counts.records is None else counts.records.keys.possible
        if not possible or 0 < (columns := self._key_columns) <= possible:
            return
        table = f"a table of {columns:,} columns" if columns else "a table without columns"
        raise self.bad(
            "columns",
            f"{table} for record keys of a file, of which there are {possible:,}",
            f"columns = {possible}, or a table of at most {possible:,} columns from a file",
        )

    @property
    def _key_columns(self) -> int:
        """How many keys the table tells apart; 0 for all of 64 bits."""
        if self.ptable is None:
            return ONS_KEYS if self.rule == "10-5" else self.columns
        lookup = self.ptable.lookup()
        return int(lookup.table.shape[1]) if isinstance(lookup, ByColumn) else 0

    def change(self, run: TablesRun) -> Changed:
        """Every count of every table changed by its key."""
        secret = record_secret(self.keys, run.counts, run.noise, run.number, way=self.way)
        lookup = self.lookup(secret)
        laws = laws_of(lookup)
        off = self._off(laws)
        words = CellWords.of(run.counts, secret)
        raised = _RaisedZeros.of(run, secret, laws) if self.zeros == "balance" else None

        def changed(table: TrueTable) -> tuple[Ints, Ints]:
            cells, here, values = table
            changes = lookup.changes(values, words.at(here.level).keys(cells))
            return values, changes if raised is None else changes + raised.changes(table)

        published = [
            self._published(run.made[number], level, *values, off)
            for (number, level), values in zip(run.where, run.map_tables(changed), strict=True)
        ]
        digest = settings_digest(secret.digest_key(), self.said(hidden=("keys",)), laws)
        if run.context.curator is not None:
            self._account(run.context.curator, lookup, laws, secret, digest)
        origin = origin_of_words(secret, run.counts, order=self.columns > 0)
        notes = self._notes(origin, laws, digest)
        return Changed(tuple(published), self._words(laws), notes)

    def _published(
        self, cells: TableCells, level: str, values: Ints, changes: Ints, off: Off
    ) -> PublishedCells:
        if self.exact_total:
            changes[:, is_total(cells)] = 0
        value = values + changes
        withheld: Flags = value < self.below
        return PublishedCells(
            cells=cells,
            level=level,
            value=np.where(withheld, 0, value),
            withheld=withheld,
            off=off,
        )

    def _off(self, laws: Sequence[ChangeLaw]) -> Off:
        """What readers are told: how far counts may be off, only if it is disclosed."""
        raises = self.zeros == "balance"
        if not self.disclose:
            return Off(raises_zeros=raises, exact_totals=self.exact_total)
        off = reach(laws)
        return replace(
            off,
            down=max(off.down or 0, len(laws) - 1) if raises else off.down,
            raises_zeros=raises,
            exact_totals=self.exact_total,
            withheld_below=self.below + (off.up or 0) if self.below else None,
        )

    def known_change(self) -> KnownChange:
        """Largest change and perturbation table, whether they are disclosed or not."""
        laws = self.laws
        off = replace(self, disclose=True)._off(laws)
        lost = [n for n, law in enumerate(laws) if law.mean < 0] if off.raises_zeros else []
        rows = [{v: float(p) for v, p in law.probabilities.items()} for law in laws]
        table = ChangeTable.of(rows, cycle=self._cycle, raised=max(lost, default=0))
        return KnownChange(off=off, table=table, deltas=self._facts(laws)["delta_of_one_cell"])

    def _words(self, laws: Sequence[ChangeLaw]) -> tuple[str, ...]:
        said = [
            "Every count is changed by a random amount, which is the same wherever the same people "
            "are counted.",
            "Cells and totals are changed each by itself: tables do not add up, and sums of cells "
            "are further off than a published total.",
        ]
        if self.zeros == "stay":
            said.append("A cell in which nobody is stays 0.")
        if self.exact_total:
            said.append("The total of each table is as it was counted.")
        if self.disclose:
            largest = self._facts(laws)["largest_change"]
            said.append(f"A count is changed by at most {largest}.")
        return tuple(said)

    def _notes(self, origin: str, laws: Sequence[ChangeLaw], digest: str) -> dict[str, float | str]:
        notes: dict[str, float | str] = {
            "record keys": origin,
            "settings digest": digest,
        }
        if self.disclose:
            facts = self._facts(laws)
            notes["largest change"] = facts["largest_change"]
            notes["largest variance"] = max(row["variance"] for row in facts["rows"])
            for epsilon, delta in facts["delta_of_one_cell"].items():
                notes[f"delta of one cell at epsilon {epsilon}"] = delta["largest"]
            notes["delta"] = facts["about_delta"]
        return notes

    def _account(
        self,
        folder: Path,
        lookup: ByInterval | ByColumn,
        laws: Sequence[ChangeLaw],
        secret: KeySecret,
        digest: str,
    ) -> None:
        """The table and what follows from it, for the curator; and how to check the digest."""
        content: Mapping[str, Any] = {
            "settings": self.said(hidden=("keys",)),
            "settings_digest": digest,
            "settings_digest_key": secret.digest_key().hex(),
            "means_other_than_0": _off_means(laws),
            **self._facts(laws),
        }
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_text_atomic(folder / ACCOUNT, text)
        if isinstance(lookup, ByColumn):
            write_columns(folder / TABLE, lookup.table)
        else:
            write_rows(folder / TABLE, lookup.rows)


def _off_means(laws: Sequence[ChangeLaw]) -> list[str]:
    """Rows by which counts are raised or lowered on average, in words."""
    off = [(n, law.mean) for n, law in enumerate(laws) if law.mean]
    if not off:
        return []
    n, mean = max(off, key=lambda one: abs(one[1]))
    return [
        f"the perturbation table has another mean than 0 in {len(off)} of {len(laws)} rows; "
        f"a count of {n} changes by {float(mean):+.6g} on average, the most of all"
    ]


@dataclass(frozen=True, eq=False, repr=False)
class _RaisedZeros:
    """Words of units, by level, and of the categories of tables, by name: for empty cells."""

    units: Mapping[str, WordArray]
    categories: Mapping[str, WordArray]
    laws: Sequence[ChangeLaw]

    @classmethod
    def of(cls, run: TablesRun, secret: KeySecret, laws: Sequence[ChangeLaw]) -> _RaisedZeros:
        """Made where the secret is, which no other process is given."""
        geography = run.counts.geography
        units = {
            level: [
                secret.word_of("unit", level, code)
                for code in geography.units[geography.depth(level)].tolist()
            ]
            for level in {level for _, level in run.where}
        }
        return cls(
            {level: np.array(words) for level, words in units.items()},
            {cells.table.name: _category_words(cells, secret) for cells in run.made},
            laws,
        )

    def changes(self, table: TrueTable) -> Ints:
        """Changes of empty cells, which are raised where their categories have the largest keys."""
        cells, here, values = table
        possible = np.asarray(cells.matrix.T @ here.schema.possible.astype(np.int64) > 0)
        keys = self.units[here.level][:, None] + self.categories[cells.table.name][None, :]
        may = np.broadcast_to(possible, values.shape)
        left, wanted = int(((values == 0) & may).sum()), []
        for many in wanted_zeros(values, self.laws):
            wanted.append(min(many, left))
            left -= wanted[-1]
        changes = raise_zeros(values.ravel(), keys.ravel(), may.ravel(), wanted)
        return changes.reshape(values.shape)


def _category_words(cells: TableCells, secret: KeySecret) -> WordArray:
    """For each cell the sum of its categories' words; a total along an axis has none."""
    total = np.zeros(cells.size, dtype=np.uint64)
    group = np.unravel_index(cells.place, cells.shape) if cells.shape else ()
    for coding, number in zip(cells.axes, group, strict=True):
        labels = [label for label, _ in coding.groups]
        words = [np.uint64(0)] + [secret.word_of(coding.role, one) for one in labels[1:]]
        total += np.array(words, dtype=np.uint64)[number]
    return total
