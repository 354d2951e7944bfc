"""Perturbation tables in files, in the two formats that offices exchange.

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
from collections.abc import Collection, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path

import numpy as np

from headcount.arrays import Ints
from headcount.errors import ConfigError, InputError
from headcount.files import write_text_atomic
from headcount.mechanisms.cell_key.lookup import ByColumn, ByInterval, check_columns
from headcount.mechanisms.cell_key.perturbation import ChangeLaw, whole_weights
from headcount.population.population import MOST_PEOPLE

EUROPEAN = ("i", "j", "p", "v", "p_int_lb", "p_int_ub")
ONS = ("pcv", "ckey", "pvalue")
SLACK = Decimal("1e-7")
"""What rows may miss 1 by even where a file has many digits: solvers that made it were so exact."""
MOST_SLACK = Decimal("0.01")
"""What rows may miss 1 by at most, however few digits a file has."""

Line = tuple[str, dict[str, str]]


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
