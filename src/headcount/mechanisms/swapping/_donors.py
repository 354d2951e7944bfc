"""Donors for targeted swapping: unused, outside the unit, alike; in an order drawn by risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.compiled import kernel
from headcount.engines.protocol import Engine, InOrder
from headcount.mechanisms.swapping._pair_kernels import first_free

PIECE = 1 << 16
"""Households of a piece of work, or somewhat more: units that nobody leaves stay whole."""


def swap_areas(
    unit: Ints32,
    *,
    chance: Floats,
    must: Flags,
    alike: Sequence[Ints],
    quota: Ints,
    rng: np.random.Generator,
    first_level: int = 0,
    within: Ints32 | None = None,
    engine: Engine | None = None,
) -> tuple[Ints, int]:
    """For each household the one it is swapped with, or -1; and how many found no donor.

    where
        unit           levels x households, from the coarsest level
        chance, must   levels x households: weight in the draw, and who must be swapped
        alike          for each profile the group of each household
        quota          swaps for each unit of the finest level
        first_level    levels before this one are left out
        within         the unit that each household stays in, which ``alike`` tells apart: units
                       have nothing to do with each other, and are pieces of work of the engine
    """
    levels, households = unit.shape
    # The largest of risk / Exp(1): sampling by risk without replacement.
    order = np.empty((levels - first_level, households))
    for level, row in enumerate(order, start=first_level):
        row[:] = -chance[level] / rng.standard_exponential(households)
    seeking = Seeking(unit, order, must, tuple(alike), quota, first_level)
    if within is None:
        return seeking.paired(np.arange(households))
    mate, unpaired = np.full(households, -1, dtype=np.int64), 0
    pieces = _pieces(within)
    for rows, (own, alone) in zip(
        pieces, (engine or InOrder()).map(seeking.paired, pieces), strict=True
    ):
        mate[rows] = np.where(own >= 0, rows[own], -1)
        unpaired += alone
    return mate, unpaired


def _pieces(within: Ints32) -> list[Ints]:
    """Households of whole units, some of them together: each piece in the order of all."""
    by_unit = np.argsort(within, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(within[by_unit])) + 1, len(within))
    full = np.diff(ends // PIECE, prepend=0) > 0
    return [np.sort(rows) for rows in np.split(by_unit, ends[full & (ends < len(within))])]


@dataclass(frozen=True, eq=False, repr=False)
class Seeking:
    """Who seeks, in what order at each level, and among whom; see ``swap_areas``."""

    unit: Ints32
    order: Floats
    must: Flags
    alike: tuple[Ints, ...]
    quota: Ints
    first_level: int

    def paired(self, rows: Ints) -> tuple[Ints, int]:
        """Some households: who is swapped with whom, as places in ``rows``, and who is left."""
        finest, own = np.unique(self.unit[-1, rows], return_inverse=True)
        unit = np.concatenate([self.unit[:-1, rows], own[None].astype(np.int32)])
        return _swap(
            unit,
            order=self.order[:, rows],
            must=self.must[:, rows],
            alike=[group[rows] for group in self.alike],
            quota=self.quota[finest],
            first_level=self.first_level,
        )


def _swap(
    unit: Ints32,
    *,
    order: Floats,
    must: Flags,
    alike: Sequence[Ints],
    quota: Ints,
    first_level: int,
) -> tuple[Ints, int]:
    """The pairs of households that have nothing to do with others."""
    levels, households = unit.shape
    mate = np.full(households, -1, dtype=np.int64)
    started = np.zeros(len(quota), dtype=np.int64)
    due = must[:first_level].any(axis=0)
    found_nobody = np.zeros(households, dtype=np.bool_)
    for level in range(first_level, levels):
        due |= must[level]
        finest = level == levels - 1
        drawn = np.argsort(order[level - first_level], kind="stable")
        seeking = drawn if finest else drawn[due[drawn]]
        seeking = seeking[mate[seeking] < 0]
        found_nobody[:] = False  # they seek again
        if not len(seeking):
            continue
        seeking = seeking[np.lexsort((~due[seeking], unit[level][seeking]))]
        donors = np.stack([drawn[np.argsort(group[drawn], kind="stable")] for group in alike])
        place = np.empty_like(donors)
        for profile in range(len(alike)):
            place[profile, donors[profile]] = np.arange(households)
        end = np.stack([_ends(group, row) for group, row in zip(alike, donors, strict=True)])
        begin = np.stack([_begins(group, row) for group, row in zip(alike, donors, strict=True)])
        match(
            seeking,
            due,
            unit[level].astype(np.int64),
            unit[-1].astype(np.int64),
            quota if finest else np.zeros_like(quota),
            started,
            donors,
            place,
            begin,
            end,
            mate,
            found_nobody,
        )
    return mate, int(np.count_nonzero(found_nobody & (mate < 0)))


def _begins(group: Ints, order: Ints) -> Ints:
    """For each household where the donors of its group begin in the order."""
    return np.searchsorted(group[order], group)


def _ends(group: Ints, order: Ints) -> Ints:
    """For each household where the donors of its group end in the order."""
    return np.searchsorted(group[order], group, side="right")


@kernel
def match(
    seeking: Ints,
    due: Flags,
    unit: Ints,
    finest: Ints,
    quota: Ints,
    started: Ints,
    order: Ints,
    place: Ints,
    begin: Ints,
    end: Ints,
    mate: Ints,
    found_nobody: Flags,
) -> None:
    """Go through those who seek, unit by unit, and note who is paired and who found nobody.

    ``cursor`` remembers for each profile and group how far this unit has looked: whoever it has
    passed is used or lives in the unit. So a unit passes each of its own households once, and
    ``free`` leads past those used: the time is linear but for the length of the links.
    """
    profiles, households = order.shape
    free = np.empty((profiles, households + 1), dtype=np.int64)
    cursor = np.zeros((profiles, households), dtype=np.int64)
    looked_by = np.full((profiles, households), -1, dtype=np.int64)
    for profile in range(profiles):
        free[profile] = np.arange(households + 1)
        for i in range(households):
            if mate[order[profile, i]] >= 0:
                free[profile, i] = i + 1
    for who in seeking:
        if mate[who] >= 0 or (not due[who] and started[finest[who]] >= quota[finest[who]]):
            continue
        donor = -1
        for profile in range(profiles):
            first = begin[profile, who]
            at = cursor[profile, first] if looked_by[profile, first] == unit[who] else first
            at = first_free(free[profile], at)
            while at < end[profile, who] and unit[order[profile, at]] == unit[who]:
                at = first_free(free[profile], at + 1)
            cursor[profile, first] = at
            looked_by[profile, first] = unit[who]
            if at < end[profile, who]:
                donor = order[profile, at]
                break
        if donor < 0:
            found_nobody[who] = True
            continue
        mate[who], mate[donor] = donor, who
        started[finest[who]] += 1
        for profile in range(profiles):
            for one in (who, donor):
                free[profile, place[profile, one]] = place[profile, one] + 1
