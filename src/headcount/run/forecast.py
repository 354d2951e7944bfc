"""What a run will do, known before it: how far off its answers will be, and what it needs.

How far off answers will be follows from the settings, the schema and the list of units. What a run
needs also depends on how many counts are not 0: for the curator, like all that ``check`` shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from headcount.geography import Geography
from headcount.mechanisms import Measured
from headcount.noise.reach import reach
from headcount.privacy import Loss, UnitOfPrivacy
from headcount.run._limits import draw_seconds
from headcount.run.protect import Prepared
from headcount.tabulate import CELLS

START_SECONDS = 2.5
"""To start, read, check and write, compiled loops at hand."""
ANSWER_SECONDS = 1.4e-6
"""To estimate and write one count, as measured with ``topdown`` on one core."""
LOOKED_AT = 16
"""Counts that a sparse table is estimated in, for each that is not 0."""
START_BYTES = 400 << 20
"""Of a process that has read a small file."""
HELD_BYTES = 64
"""For each count that is not 0, at all levels together."""
COUNT_BYTES = Fraction(1, 2)
"""Of a published count, compressed: most are small or 0."""
CODE_BYTES = 8
"""Of the code of a unit, compressed."""


@dataclass(frozen=True, kw_only=True)
class ExpectedAnswer:
    """One query at one level, and how far its answers will be off before post-processing.

    where
        answers   how many there are: units of the level x groups of the query
        loss      of measuring them, under the unit of privacy that the guarantee states first
        within    people: 19 of 20 answers are no further from the truth
        draws     how often each is measured; ``within`` is for one of them
    """

    level: str
    query: str
    answers: int
    loss: Loss | None
    within: Fraction
    draws: int = 1


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Roughly what a run takes: seconds of one core (None: unknown), bytes of memory and disk."""

    seconds: float | None
    memory: int
    output: int


def people(number: Fraction) -> str:
    """A number of people: whole, or rounded where people stand for several."""
    return f"{int(number):,}" if number.denominator == 1 else f"{float(number):,.1f}"


def expected_answers(prepared: Prepared) -> tuple[ExpectedAnswer, ...]:
    """What will be measured, with the reach of its noise."""
    losses = prepared.guarantee.losses
    unit = losses[0].unit if losses else None
    weight = prepared.mechanism.weight
    plan = prepared.mechanism.plan(prepared.counts.schema, prepared.counts.geography)
    return tuple(
        ExpectedAnswer(
            level=one.level,
            query=one.query,
            answers=1 if one.distance else one.entries,
            loss=_loss(one, unit),
            within=weight * reach(one.law),
            draws=one.draws,
        )
        for one in plan
    )


def _loss(one: Measured, unit: UnitOfPrivacy | None) -> Loss | None:
    return one.loss(unit) if unit in one.units else None


def sentence(answers: Sequence[ExpectedAnswer]) -> str:
    """The finest total that is measured, else the finest cells, in plain words."""
    by_query = {one.query: one for one in answers}
    one = by_query.get("total") or by_query.get(CELLS) or answers[-1]
    level = f"{'an' if one.level[:1].lower() in tuple('aeio') else 'a'} {one.level}"
    what = (
        f"{level}'s total" if one.query == "total" else f"each answer of {one.query!r} in {level}"
    )
    if one.query == CELLS:
        what = f"each cell of {level}"
    return f"{what} within {people(one.within)}"


def same_as_above(answers: Sequence[ExpectedAnswer], geography: Geography) -> dict[str, str]:
    """Levels that are not measured because the level above has the same units, each with it."""
    measured = {one.level for one in answers}
    found: dict[str, str] = {}
    for above, level in zip(geography.levels, geography.levels[1:], strict=False):
        if level not in measured and geography.size(level) == geography.size(above):
            found[level] = found.get(above, above)
    return found if measured else {}


def needs(prepared: Prepared) -> Needs:
    """Time, memory and size of the output, roughly."""
    schema, geography = prepared.counts.schema, prepared.counts.geography
    mechanism, backend = prepared.mechanism, prepared.config.run.noise
    plan, not_0 = mechanism.plan(schema, geography), prepared.counts.matrix.nnz
    seconds = None
    if plan:
        some = (min(one.entries, LOOKED_AT * not_0) for one in plan)
        seconds = START_SECONDS + draw_seconds(plan, backend=backend) + ANSWER_SECONDS * sum(some)
    tables = mechanism.table_bytes(schema, geography, backend=backend)
    units = sum(geography.size(level) for level in geography.levels)
    return Needs(
        seconds=seconds,
        memory=START_BYTES + HELD_BYTES * not_0 + tables,
        output=int(units * (int(schema.possible.sum()) * COUNT_BYTES + CODE_BYTES)),
    )
