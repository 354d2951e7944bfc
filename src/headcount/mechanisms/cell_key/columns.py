"""Perturbation tables with a column for each of 256 or 4,096 keys, as the ONS uses them.

A law p becomes whole numbers of columns c, as near to it as can be while the mean stays 0:

    minimise    sum_v |c_v - M p_v|
    subject to  sum_v c_v = M,  sum_v v c_v = 0,  c_v whole and at least 0

where
    v   a change
    M   number of columns
    c   how many columns have that change

Taking the largest remainders instead leaves most rows of 256 columns with another mean. Where 0 is
no possible change there may be no such numbers; the nearest ones without the condition on the mean
are taken then, and the row that is returned says its mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headcount.arrays import Ints
from headcount.mechanisms.cell_key.lookup import check_columns
from headcount.mechanisms.cell_key.perturbation import STAYS, WORD, ChangeLaw
from headcount.noise.words import Words
from headcount.solve.mip import Program, minimise


def column_row(row: ChangeLaw, columns: int) -> ChangeLaw:
    """The law in whole columns; its weights are multiples of 2^64 / columns."""
    from scipy.sparse import csc_array

    check_columns(columns)
    floor, rest = zip(*(divmod(weight * columns, WORD) for weight in row.weights), strict=True)
    size, low = len(floor), np.array(floor, dtype=np.float64)
    part = np.array([r / WORD for r in rest])
    sums = np.vstack([np.ones(size), np.array(row.changes, dtype=np.float64)])
    right = np.array([columns, 0.0]) - sums @ low
    program = Program(  # c = floor + up + far - down
        cost=np.concatenate([1 - 2 * part, np.ones(2 * size)]),
        low=np.zeros(3 * size),
        high=np.concatenate([np.ones(size), np.full(size, float(columns)), low]),
        matrix=csc_array(np.hstack([sums, sums, -sums])),
        row_low=right,
        row_high=right,
        integer=True,
    )
    found = minimise(program)
    if found is None:
        found = minimise(
            replace(
                program,
                matrix=program.matrix[:1],
                row_low=right[:1],
                row_high=right[:1],
            )
        )
    if found is None:
        raise AssertionError("whole columns that sum to their number always exist")
    up, far, down = found.astype(np.int64).reshape(3, size)
    counts = np.array(floor) + up + far - down
    return ChangeLaw(row.changes, tuple(int(c) * (WORD // columns) for c in counts))


def column_table(rows: Sequence[ChangeLaw], columns: int, *, words: Words) -> Ints:
    """Changes of counts 1, 2, ... (rows) by keys 0, 1, ... (columns), each row in a random order.

    where
        rows    laws in whole columns, of counts 0, 1, ...
        words   of a cipher stream: the order is as secret as the keys
    """
    table = np.empty((len(rows) - 1, columns), dtype=np.int64)
    for number, row in enumerate(rows[1:]):
        many = [w // (WORD // columns) for w in row.weights]
        drawn = np.concatenate([some.copy() for some in words.run(number * columns, columns)])
        table[number, np.argsort(drawn, kind="stable")] = np.repeat(row.changes, many)
    return table


def column_laws(table: Ints) -> tuple[ChangeLaw, ...]:
    """The law of each row of a table with columns, count 0 included: it always stays."""
    share = WORD // table.shape[1]
    laws = [STAYS]
    for row in table:
        changes, many = np.unique(row, return_counts=True)
        laws.append(ChangeLaw(tuple(changes.tolist()), tuple(int(c) * share for c in many)))
    return tuple(laws)
