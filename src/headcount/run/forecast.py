"""The time, memory and disk that a run needs.

They depend on how many counts are not 0: for the curator, like all that ``check`` shows.
"""

from __future__ import annotations

from dataclasses import dataclass

from headcount.mechanisms import ChainDesign
from headcount.release.layout import is_large
from headcount.run._beforehand import draw_seconds
from headcount.run.protect import Prepared
from headcount.tabulate import CELLS

WRITE_SECONDS = 1.3
"""To load compiled loops, bind a run and write it."""
ANSWER_SECONDS = 1e-6
"""To measure, estimate and write one count where people are, with ``topdown`` on one core."""
POOL_SECONDS = 6e-8
"""To draw one answer that is pooled, and to join it with others."""
TABLE_SECONDS = 6e-8
"""To write one count of a table that is held whole."""
START_BYTES = 400 << 20
"""Of a process that has read a small file."""
HELD_BYTES = 64
"""For each count that is not 0, at all levels together."""
FRACTION_BYTES = 3.5
"""Of a published count with fractions, compressed."""
WHOLE_BYTES, SPARSE_BYTES = 0.6, 1.5
"""Of a whole count (most are small or 0), and where only counts that are not 0 are written."""
CODE_BYTES = 8
"""Of the code of a unit, compressed."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Roughly what a run takes: seconds of one core (None: unknown), bytes of memory and disk.

    From runs of 40,000 to 300 million people in 16 to 23,000 cells, on one machine.
    """

    seconds: float | None
    memory: int
    output: int


def same_as_above(design: ChainDesign) -> dict[str, str]:
    """Levels that are not measured because the level above has the same units, each with it."""
    measured, geography = {one.level for one in design.plan}, design.domain.geography
    found: dict[str, str] = {}
    for above, level in zip(geography.levels, geography.levels[1:], strict=False):
        if level not in measured and geography.size(level) == geography.size(above):
            found[level] = found.get(above, above)
    return found if measured else {}


def needs(prepared: Prepared, *, so_far: float) -> Needs:
    """Time, memory and size of the output, roughly.

    ``so_far`` are the seconds that it took to read and check the data, which a run does again.
    """
    schema, geography = prepared.counts.schema, prepared.counts.geography
    tables = prepared.design.table_bytes
    possible, not_0 = int(schema.possible.sum()), prepared.counts.matrix.nnz
    units = sum(geography.size(level) for level in geography.levels)
    sparse = tables < geography.size(geography.leaf) * schema.size
    seconds = _seconds(prepared, sparse=sparse)
    if sparse and is_large(schema, geography.size(geography.leaf)):
        output = SPARSE_BYTES * not_0
    else:
        count = WHOLE_BYTES if prepared.design.last.whole_counts else FRACTION_BYTES
        output = units * (possible * count + CODE_BYTES)
    return Needs(
        seconds=None if seconds is None else so_far + seconds,
        memory=START_BYTES + _roughly(HELD_BYTES * not_0) + tables,
        output=_roughly(output),
    )


def _roughly(number: float) -> int:
    """Two digits: more would tell how many counts are not 0."""
    return int(float(f"{number:.1e}"))


def _seconds(prepared: Prepared, *, sparse: bool) -> float | None:
    """To make and write a release: each method of the chain, on one core; None if unknown.

    Where tables are sparse, cells are drawn only where people may be.
    """
    design, counts = prepared.design, prepared.counts
    plan, not_0 = design.plan, counts.matrix.nnz
    of_person = 0.0
    for one in (*design.steps, *(() if plan else (design.last,))):
        if one.person_seconds is None:
            return None
        of_person += one.person_seconds
    records = of_person * int(counts.totals().sum())
    if not plan:
        published = counts.geography.size(counts.geography.leaf) * counts.schema.size
        return WRITE_SECONDS + records + (0 if sparse else TABLE_SECONDS * published)
    drawn = [one for one in plan if one.query != CELLS or not sparse]
    answers = sum(min(one.entries, int(not_0)) for one in plan)
    drawing: float = draw_seconds(drawn)
    if (pooling := design.last.pooling) is not None:
        drawing += POOL_SECONDS * pooling.answers
    return WRITE_SECONDS + records + drawing + ANSWER_SECONDS * answers
