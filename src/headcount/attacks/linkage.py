"""The linkage attack: who in a public table fits exactly one released record?

Algorithm 1 of Ramachandran et al. (2012), as used by Christ, Radway & Bellovin (2022, 4.5). The
attacker has a public table P with the age, race and household size of named people, and the
released records D. A record's key is

    key = (floor(age / w), race, household size)

where
    w   width of an age bucket, in years

and p in P *matches* if exactly one d in D has p's key. Whether the match is right is not for the
attacker to know: see ``headcount.evaluation.linkage_risk``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Codes, Ints
from headcount.errors import InputError
from headcount.schema.combine import combine

EXACT = ("race", "household_size")
"""What must agree besides the age bucket; where people live may be added, as one more name."""


@dataclass(frozen=True, eq=False)
class Links:
    """What the attacker claims: for each public row the released row it matched, or -1."""

    row: Ints

    @property
    def matched(self) -> int:
        """How many people matched."""
        return int((self.row >= 0).sum())


def link(
    public: Codes,
    released: Codes,
    *,
    age_width: int,
    exact: Sequence[str] = EXACT,
    one_to_one: bool = False,
) -> Links:
    """Match each public row to the only released row with its key, if there is just one.

    Several people may claim the same released row. With ``one_to_one`` such claims are dropped:
    an attacker who sees two candidates for one record cannot tell which is right.
    Names of ``exact`` that neither table has (no household size, say) are an error: leave them
    out on purpose.
    """
    if type(age_width) is not int or age_width < 1:
        raise InputError(
            "linkage", place="age_width", found=repr(age_width), expected="1 year or more"
        )
    known, seen = _keys(public, released, age_width, exact)
    row = _only(known, seen)
    if one_to_one:
        claims = np.bincount(row[row >= 0], minlength=len(seen))
        disputed = row >= 0
        disputed[disputed] = claims[row[disputed]] > 1
        row[disputed] = -1
    return Links(row)


def _keys(
    public: Codes, released: Codes, age_width: int, exact: Sequence[str]
) -> tuple[Ints, Ints]:
    """One number for each row of both tables, equal where the keys are equal."""
    for source, table in (("public", public), ("released", released)):
        for name in ("age", *exact):
            if name not in table:
                raise InputError(
                    f"linkage: {source} table",
                    found=f"no attribute {name!r}",
                    expected=f"age and all of {list(exact)}",
                )
    both = [np.concatenate([public[name], released[name]]) for name in ("age", *exact)]
    key = combine([both[0] // age_width, *both[1:]], rows=len(both[0]))
    rows = len(public["age"])
    return key[:rows], key[rows:]


def _only(known: Ints, seen: Ints) -> Ints:
    """For each of the known keys the position of its only occurrence among the seen, or -1."""
    order = np.argsort(seen)
    ordered = seen[order]
    apart = np.ones(len(seen) + 1, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=apart[1:-1])
    once = apart[1:] & apart[:-1]
    keys, rows = ordered[once], order[once]
    if not len(keys):
        return np.full(len(known), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(keys, known), len(keys) - 1)
    return np.where(keys[place] == known, rows[place], -1).astype(np.int64)
