"""Which perturbation table is used, what it tells of one cell, and tables in files.

A table is made by maximum entropy, read from a file, or a known rule. Offices exchange two formats.
European (R package ``ptable``, tau-Argus): ``i,j,p,v,p_int_lb,p_int_ub``, a line for each count i
and each count j that it may become, with probability p, change v = j - i and the interval of keys
that leads there. The ONS: ``pcv,ckey,pvalue``, a line for each count, key and its change.

Probabilities in a file have so many digits. A row may miss 1 by half a unit of the last digit for
each line, and by a hundredth at most; what it misses goes to no change, or the likeliest. Its mean
stays what the file says. Files that headcount writes have all digits of multiples of 2^-64, and are
read back as they were.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cache, lru_cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from headcount.arrays import Ints
from headcount.errors import ConfigError, InputError
from headcount.fields import FilePath
from headcount.files import write_text_atomic
from headcount.mechanisms.cell_key.lookup import (
    PLAIN,
    TURN,
    ByColumn,
    ByInterval,
    check_columns,
    column_laws,
    column_row,
    column_table,
)
from headcount.mechanisms.cell_key.perturbation import (
    ChangeLaw,
    PerturbationLimits,
    perturbation_rows,
    whole_weights,
)
from headcount.noise.source import Words
from headcount.population.population import MOST_PEOPLE
from headcount.release.changed import Off

EPSILONS = (0.5, 1.0, 2.0)
"""At which the delta of one cell is stated."""
ONS_KEYS = 256
EUROPEAN = ("i", "j", "p", "v", "p_int_lb", "p_int_ub")
ONS = ("pcv", "ckey", "pvalue")
SLACK = Decimal("1e-7")
"""What rows may miss 1 by even where a file has many digits: solvers that made it were so exact."""
MOST_SLACK = Decimal("0.01")
"""What rows may miss 1 by at most, however few digits a file has."""

Line = tuple[str, dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class PerturbationFile:
    """A perturbation table in a file, of the European or the ONS format.

    where
        file     where it is; only its name is shown
        sha256   of its content, so that another table is another setting; "" to take any
    """

    file: FilePath
    sha256: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "file", Path(self.file))

    def __repr__(self) -> str:
        return f"PerturbationFile(file={self.file.name!r}, sha256={self.sha256!r})"

    def bound_to_files(self) -> PerturbationFile:
        """The same for the file's present content only."""
        if not self.file.is_file():
            raise ConfigError(
                str(self.file), found="no such file", expected="a perturbation table, .csv"
            )
        found = sha256(self.file.read_bytes()).hexdigest()
        if self.sha256 and self.sha256 != found:
            raise ConfigError(
                str(self.file),
                found=f"sha256 {found}",
                expected=f"sha256 {self.sha256}, as configured",
            )
        return replace(self, sha256=found)

    def lookup(self) -> ByInterval | ByColumn:
        """The lookup of the table, of the content that the settings are bound to."""
        return _read_once(self.file, self.bound_to_files().sha256)


@lru_cache(maxsize=4)
def _read_once(file: Path, sha256: str) -> ByInterval | ByColumn:
    """A table of the ONS has 192,000 lines, and is asked for several times in a run."""
    return read_table(file)


@cache
def entropy_rows(limits: PerturbationLimits) -> tuple[ChangeLaw, ...]:
    """Rows of a table by maximum entropy; each table is made once."""
    return perturbation_rows(limits)


def in_columns(rows: Sequence[ChangeLaw], columns: int, *, words: Words) -> ByColumn:
    """A table for so many keys, its columns in a secret order."""
    return ByColumn(column_table([column_row(row, columns) for row in rows], columns, words=words))


@cache
def ten_five() -> ByColumn:
    """The "10-5 rule": below 10 nothing, else the nearest 5."""
    count = np.arange(1, PLAIN + 1)
    changes = np.where(count < 10, -count, (count + 2) // 5 * 5 - count)
    return ByColumn(np.repeat(changes[:, None], ONS_KEYS, axis=1))


def laws_of(lookup: ByInterval | ByColumn) -> tuple[ChangeLaw, ...]:
    """The law of the change of counts 0, 1, ...; the last ``cycle_of`` serve larger ones."""
    return lookup.rows if isinstance(lookup, ByInterval) else column_laws(lookup.table[:PLAIN])


def cycle_of(lookup: ByInterval | ByColumn) -> int:
    """How many of the last rows larger counts use in turn."""
    return TURN if isinstance(lookup, ByColumn) and len(lookup.table) >= PLAIN else 1


def reach(laws: Sequence[ChangeLaw]) -> Off:
    """How far a published count may be from the one behind it."""
    possible = [{v for v, p in law.probabilities.items() if p} for law in laws]
    return Off(
        down=max(max(some) for some in possible),
        up=-min(min(some) for some in possible),
        zero_hides=max(n for n, some in enumerate(possible) if -n in some),
    )


def published_law(rows: Sequence[ChangeLaw], count: int, *, cycle: int = 1) -> dict[int, Fraction]:
    """Published count -> probability; counts beyond the rows use the last ``cycle`` in turn."""
    start = len(rows) - cycle
    row = rows[count if count < start else start + (count - start) % cycle]
    return {count + v: p for v, p in row.probabilities.items() if p}


def delta_between(
    one: Mapping[int, Fraction], other: Mapping[int, Fraction], *, epsilon: float
) -> float:
    """The larger of both directions, of two laws."""

    def excess(p: Mapping[int, Fraction], q: Mapping[int, Fraction]) -> float:
        factor = Fraction(math.exp(epsilon))
        over = (p[j] - factor * q.get(j, Fraction()) for j in p)
        return float(sum((x for x in over if x > 0), Fraction()))

    return max(excess(one, other), excess(other, one))


def cell_deltas(rows: Sequence[ChangeLaw], *, epsilon: float, cycle: int = 1) -> list[float]:
    """The exact delta of a single cell between counts n and n + 1, for n = 0, 1, ...

    No epsilon bounds what a release with cell keys tells: changes are bounded and used again. Of
    one cell alone the law is known, so

        delta(epsilon) = max( sum_j max(0, P_n(j) - e^epsilon P_(n+1)(j)),
                              sum_j max(0, P_(n+1)(j) - e^epsilon P_n(j)) )

    where
        P_n(j)   probability that a count of n is published as j

    is how much more likely some answer can be under one than e^epsilon times under the other. It
    does not compose: other tables with the same people are changed by the same word, not
    independently.
    """
    laws = [published_law(rows, n, cycle=cycle) for n in range(len(rows) + 1)]
    return [delta_between(one, other, epsilon=epsilon) for one, other in pairwise(laws)]


def facts_of(laws: Sequence[ChangeLaw], *, cycle: int = 1) -> dict[str, Any]:
    """What a table means for one cell, in numbers that are derived from it alone."""
    deltas = {str(e): cell_deltas(laws, epsilon=e, cycle=cycle) for e in EPSILONS}
    off = reach(laws)
    return {
        "largest_change": max(off.down or 0, off.up or 0),
        "rows": [
            {
                "count": n,
                "mean": float(law.mean),
                "variance": float(law.variance),
                "stays": float(law.probabilities.get(0, 0)),
                "becomes_0": float(law.probabilities.get(-n, 0)) if n else 1.0,
            }
            for n, law in enumerate(laws)
        ],
        "delta_of_one_cell": {
            epsilon: {"largest": max(found), "between_large_counts": max(found[-cycle:])}
            for epsilon, found in deltas.items()
        },
        "about_delta": (
            "how much more likely some published value of one cell can be with a person than "
            "e^epsilon times without; it is of one cell and does not add up over cells or tables"
        ),
    }


def settings_digest(key: bytes, settings: str, laws: Sequence[ChangeLaw]) -> str:
    """A digest of settings and table under a key: whoever guesses them cannot test the guess."""
    from hmac import new

    rows = [[list(law.changes), list(map(str, law.weights))] for law in laws]
    return new(key, json.dumps([settings, rows]).encode(), sha256).hexdigest()


def read_table(path: Path) -> ByInterval | ByColumn:
    """The lookup of a file's table; the names of its columns say which format it has."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            names = tuple(reader.fieldnames or ())
            lines = [(f"line {n}", line) for n, line in enumerate(reader, start=2)]
    except (UnicodeDecodeError, csv.Error):
        raise InputError(
            str(path), found="a file that is no text in UTF-8", expected="a table, .csv"
        ) from None
    if set(ONS) <= set(names):
        return ByColumn(_columns(path, lines))
    if {"i", "j", "p"} <= set(names):
        return ByInterval(_rows(path, lines))
    raise InputError(
        str(path),
        place="line 1",
        found=f"columns {', '.join(names) or 'none'}",
        expected=f"{','.join(EUROPEAN)} (European) or {','.join(ONS)} (ONS)",
    )


def write_rows(path: Path, rows: Sequence[ChangeLaw]) -> None:
    """Write a table in the European format, with all digits."""
    text = [",".join(EUROPEAN)]
    for i, row in enumerate(rows):
        end = 0
        for v, weight in zip(row.changes, row.weights, strict=True):
            low, end = end, end + weight
            numbers = (_decimal(weight), str(v), _decimal(low), _decimal(end))
            text.append(f"{i},{i + v},{','.join(numbers)}")
    write_text_atomic(path, "\n".join(text) + "\n")


def write_columns(path: Path, table: Ints) -> None:
    """Write a table with columns in the format of the ONS."""
    text = [",".join(ONS)]
    for pcv, row in enumerate(table.tolist(), start=1):
        text += [f"{pcv},{ckey},{pvalue}" for ckey, pvalue in enumerate(row)]
    write_text_atomic(path, "\n".join(text) + "\n")


def _decimal(weight: int) -> str:
    """A multiple of 2^-64 with all its digits, 64 at most after the point."""
    digits = f"{weight * 5**64:0129d}"  # weight / 2^64 = weight 5^64 / 10^64
    return f"{digits[:-64].lstrip('0') or '0'}.{digits[-64:]}".rstrip("0").rstrip(".")


def _rows(path: Path, lines: Sequence[Line]) -> tuple[ChangeLaw, ...]:
    """Rows 0, 1, ... of a European table."""
    by_count: dict[int, dict[int, tuple[str, Decimal, Decimal | None]]] = {}
    for where, line in lines:
        i, j = _whole(path, where, line, "i"), _whole(path, where, line, "j")
        p = _number(path, where, line, "p")
        end = _number(path, where, line, "p_int_ub") if line.get("p_int_ub") else None
        for place, wrong, found, expected in (
            ("i", i < 0, i, "0 or more"),
            ("j", j < 0, j, "0 or more"),
            ("j", i == 0 and j != 0 and p > 0, j, "0: counts of 0 stay 0"),
            ("p", not 0 <= p <= 1, p, "0 to 1"),
            ("j", j in by_count.get(i, ()), f"{i} to {j} for the second time", "once"),
        ):
            if wrong:
                raise InputError(
                    str(path), place=f"{where}, {place}", found=str(found), expected=expected
                )
        if line.get("v") and _whole(path, where, line, "v") != j - i:
            raise InputError(
                str(path), place=f"{where}, v", found=line["v"], expected=f"j - i = {j - i}"
            )
        by_count.setdefault(i, {})[j] = (where, p, end)
    _check_all_there(path, "i", by_count, first=0)
    if len(by_count) == 1:
        raise InputError(
            str(path),
            place="i",
            found="no line for i = 1",
            expected="counts above 0 too: the last one serves all larger ones",
        )
    return tuple(_row(path, i, by_count[i]) for i in range(len(by_count)))


def _row(path: Path, i: int, found: dict[int, tuple[str, Decimal, Decimal | None]]) -> ChangeLaw:
    targets = sorted(found)
    chances = [found[j][1] for j in targets]
    digits = len(targets) * Decimal((0, (5,), _last_digit(chances) - 1))
    slack = min(max(digits, SLACK), MOST_SLACK)
    everything = sum(chances, Decimal())
    if abs(everything - 1) > slack:
        raise InputError(
            str(path),
            place=f"rows with i = {i}",
            found=f"probabilities that sum to {everything}",
            expected=f"1, give or take {slack.normalize():f} for their digits",
        )
    total = Decimal(0)
    for j, p in zip(targets, chances, strict=True):
        where, _, end = found[j]
        total += p
        if end is not None and abs(end - total) > slack:
            raise InputError(
                str(path),
                place=f"{where}, p_int_ub",
                found=str(end),
                expected=f"{total}: the sum of the row's probabilities up to j = {j}",
            )
    law = [Fraction(p) for p in chances]
    return whole_weights(tuple(j - i for j in targets), law)


def _last_digit(numbers: Sequence[Decimal]) -> int:
    """The exponent of the finest digit that any of the numbers has."""
    return min(e for one in numbers if isinstance(e := one.as_tuple().exponent, int))


def _columns(path: Path, lines: Sequence[Line]) -> Ints:
    """Changes of counts 1, 2, ... by keys 0, 1, ..."""
    by_count: dict[int, dict[int, int]] = {}
    for where, line in lines:
        pcv, ckey, pvalue = (_whole(path, where, line, name) for name in ONS)
        for place, wrong, found, expected in (
            ("pcv", pcv < 0, pcv, "0 or more"),
            ("ckey", ckey < 0, ckey, "0 or more"),
            ("pvalue", pcv == 0 and pvalue != 0, pvalue, "0: counts of 0 stay 0"),
            ("pvalue", pcv + pvalue < 0, pvalue, f"{-pcv} or more: no count below 0"),
            ("ckey", ckey in by_count.get(pcv, ()), f"{pcv}, {ckey} for the second time", "once"),
        ):
            if wrong:
                raise InputError(
                    str(path), place=f"{where}, {place}", found=str(found), expected=expected
                )
        by_count.setdefault(pcv, {})[ckey] = pvalue
    by_count.pop(0, None)
    _check_all_there(path, "pcv", by_count, first=1)
    keys = max(len(row) for row in by_count.values())
    for pcv, row in sorted(by_count.items()):
        lacking = next((ckey for ckey in range(keys) if ckey not in row), None)
        if lacking is not None:
            raise InputError(
                str(path),
                place=f"rows with pcv = {pcv}",
                found=f"no line for ckey = {lacking}",
                expected=f"each key from 0 to {keys - 1}",
            )
    try:
        check_columns(keys)
    except ConfigError as error:
        raise InputError(
            str(path), place="ckey", found=f"{keys} keys", expected=error.expected
        ) from None
    rows = [[by_count[pcv][ckey] for ckey in range(keys)] for pcv in sorted(by_count)]
    return np.array(rows, dtype=np.int64)


def _check_all_there(path: Path, name: str, counts: Collection[int], *, first: int) -> None:
    wanted = range(first, 1 + max(counts, default=first))
    lacking = next((n for n in wanted if n not in counts), None)
    if lacking is not None:
        raise InputError(
            str(path),
            place=name,
            found=f"no line for {name} = {lacking}",
            expected=f"each count from {first} on",
        )


def _whole(path: Path, where: str, line: dict[str, str], name: str) -> int:
    number = _number(path, where, line, name)
    if number != number.to_integral_value():
        raise InputError(
            str(path), place=f"{where}, {name}", found=line[name], expected="a whole number"
        )
    if abs(number) > MOST_PEOPLE:
        raise InputError(
            str(path),
            place=f"{where}, {name}",
            found=line[name],
            expected=f"at most {MOST_PEOPLE:,}",
        )
    return int(number)


def _number(path: Path, where: str, line: dict[str, str], name: str) -> Decimal:
    try:
        number = Decimal(line[name])
    except (InvalidOperation, TypeError):
        number = Decimal("nan")
    if not number.is_finite():
        raise InputError(
            str(path),
            place=f"{where}, {name}",
            found=repr(line[name]) if line[name] is not None else "nothing",
            expected="a number",
        )
    return number
