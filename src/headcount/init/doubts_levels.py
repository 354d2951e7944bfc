"""Doubts about levels and places of which some add up others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn

import numpy as np

from headcount.arrays import Ints
from headcount.init.doubts import listed, refuse
from headcount.init.look import SeenFile
from headcount.init.sums import half_of_all, sum_of_two
from headcount.population.adding_up import (
    SEXES,
    SURE,
    ages_of,
    digits,
    equal_families,
    levels_below_each_other,
    nearly_sums,
    runs_that_add_up,
)

MOST_TOLD = 12
"""Levels of place that a column may tell of."""

ALIKE = 0.05
"""How far apart sums of codes of two forms may be, and still be those of the same people."""

LARGE_ALONE = 4
"""Places of which one may have about as many people as all others together."""

ALL_OTHERS = 50
"""One part in so many, by which a row may differ from the sum of all others in every column."""


def refuse_sum_of_levels(seen: SeenFile, column: str, labels: Sequence[str], matrix: Ints) -> None:
    """Refuse levels (of levels x groups) of which one adds up others, or holds another."""
    if found := _sum_of_levels(labels, matrix):
        level, parts = found
        refuse(
            seen,
            place=f"column {column!r}",
            found=f"{level!r}, which has or nearly has the total of {listed(parts)}",
            expected=f'levels that part people: --leave-out "{column}={level}"; --kind long '
            "says that they do",
        )


def refuse_levels_told(seen: SeenFile, column: str, labels: Sequence[str], matrix: Ints) -> None:
    """Refuse a column under two values of which stand the same people: levels, or two sides."""
    if not 1 < len(labels) <= MOST_TOLD:
        return
    for k, value in enumerate(labels):
        same = [one for j, one in enumerate(labels) if j != k and (matrix[j] == matrix[k]).all()]
        if same and digits(matrix[k]) >= SURE:
            refuse(
                seen,
                place=f"column {column!r}",
                found=f"the same people under {value!r} and {listed(same)}, with the same totals: "
                "several levels of place in one column, or two sides of one event",
                expected=f'rows of one level: --only "{column}={value}"',
            )


def refuse_levels_in_one_column(
    seen: SeenFile, codes: Sequence[str], counts: Ints, *, column: str, sure: bool = False
) -> None:
    """Refuse places of several levels below each other: a country, its districts, their towns.

    ``counts`` has a row for each place, in the order of the file.
    """
    people = counts.sum(axis=1)
    largest, whole = int(people.max(initial=0)), int(people.sum())
    large = len(codes) > LARGE_ALONE and 19 * largest >= 9 * whole
    if not sure and whole and (large or _all_others(counts, int(people.argmax()))):
        refuse_large(seen, codes[int(people.argmax())], column=column)
    sums = runs_that_add_up(counts.T)
    levels = max(levels_below_each_other(counts), len(equal_families(counts.T)))
    if not sums and levels == 1:
        inside = _prefix_sums(codes, people) or _forms_of_codes(codes, people)
        if not inside:
            return
        first, parts = inside
    elif sums:
        first, parts = codes[sums[0][0]], [codes[k] for k in sums[0][1]]
    else:
        first, parts = codes[int(people.argmax())], [f"all others {levels - 1} times over"]
    refuse(
        seen,
        place=f"column {column!r}",
        found=f"{first!r}, the total of {listed(parts)}: several levels of place in one column",
        expected=f'rows of the lowest level only: --leave-out "{column}={first}" leaves rows out, '
        'or --only "COLUMN=VALUE" takes those of one level',
    )


def refuse_levels_anywhere(seen: SeenFile, codes: Sequence[str], counts: Ints, column: str) -> None:
    """Refuse places that stand beside those that they hold, in any order."""
    if half := half_of_all(counts):
        found = f"{listed([codes[k] for k in half])}, which have together the people of all others"
    elif two := sum_of_two(counts):
        found = f"{codes[two[0]]!r}, the total of {listed([codes[k] for k in two[1]])}"
    else:
        return
    refuse(
        seen,
        place=f"column {column!r}",
        found=f"{found}: several levels of place in one column?",
        expected="rows of the lowest level only, without those of larger places",
    )


def refuse_large(seen: SeenFile, code: str, *, column: str) -> NoReturn:
    """Refuse a place that may be the total of the others."""
    refuse(
        seen,
        place=f"column {column!r}",
        found=f"{code!r}, which has about as many people as all others together: a total?",
        expected=f'--leave-out "{column}={code}", if it is; --kind wide or --kind long, if it '
        "is a place like others",
    )


def _all_others(counts: Ints, row: int) -> bool:
    """Whether a row has in every column what all others have, or nearly if they are several."""
    rest = counts.sum(axis=0) - counts[row]
    slack = rest * (len(counts) > 2) // ALL_OTHERS
    return bool((np.abs(counts[row] - rest) <= slack).all())


def _forms_of_codes(codes: Sequence[str], people: Ints) -> tuple[str, list[str]] | None:
    """A code and those of another form, where all of one form have the people of the other."""
    forms: dict[str, list[int]] = {}
    for k, code in enumerate(codes):
        signs = re.sub(r"\d", "9", code)
        letters = re.sub(r"[^\W\d_]+", "a", signs)
        forms.setdefault(letters if "9" in letters else "", []).append(k)
    several = [own for own in forms.values() if len(own) > 1]
    for one in several:
        for other in several:
            sizes = int(people[one].sum()), int(people[other].sum())
            alike = abs(sizes[0] - sizes[1]) <= ALIKE * sizes[1]
            if len(one) < len(other) and alike and sizes[1] > 1000:
                return codes[one[0]], [codes[k] for k in other]
    return None


def _prefix_sums(codes: Sequence[str], people: Ints) -> tuple[str, list[str]] | None:
    """A code and those that go on from it, where these have nearly all of its people."""
    by_length: dict[int, list[int]] = {}
    for k, code in enumerate(codes):
        by_length.setdefault(len(code), []).append(k)
    lengths = sorted(by_length)
    for short, long in pairwise(lengths):
        below: dict[str, list[int]] = {}
        for k in by_length[long]:
            below.setdefault(codes[k][:short], []).append(k)
        agree = [
            k
            for k in by_length[short]
            if len(own := below.get(codes[k], [])) >= 2
            and people[k] > 100
            and abs(int(people[own].sum()) - int(people[k])) <= 0.01 * people[k]
        ]
        if agree and 2 * len(agree) >= sum(codes[k] in below for k in by_length[short]):
            return codes[agree[0]], [codes[k] for k in below[codes[agree[0]]]]
    return None


def _sum_of_levels(labels: Sequence[str], matrix: Ints) -> tuple[str, list[str]] | None:
    """A level (of levels x groups) that adds up others or holds another, and these."""
    ages = [ages_of(label.casefold()) for label in labels]
    aged = len(labels) > 1 and all(first >= 0 for first, _ in ages)
    if aged:
        ordered = sorted(range(len(ages)), key=lambda k: ages[k])
        for one, next_one in pairwise(ordered):
            if ages[next_one][0] <= ages[one][1]:
                return labels[one], [labels[next_one]]
    sexes = {label.casefold() for label in labels} <= SEXES | {"1", "2"}
    if len(labels) == 2 and not sexes and not aged and matrix.shape[1] >= 3:
        for one, other in ((0, 1), (1, 0)):
            if (matrix[one] >= matrix[other]).all() and matrix[other].any():
                return labels[one], [labels[other]]
    if len(labels) < 3:
        return None
    sizes = matrix.sum(axis=1)
    by_size = np.argsort(-sizes, kind="stable")
    for order in (np.arange(len(labels)), by_size):
        if sums := runs_that_add_up(matrix[order].T):
            return labels[int(order[sums[0][0]])], [labels[int(order[k])] for k in sums[0][1]]
    if near := next(nearly_sums(matrix[by_size].T, among=[0]), None):
        return labels[int(by_size[0])], [labels[int(by_size[k])] for k in near.parts]
    largest, rest = int(sizes.max()), int(sizes.sum() - sizes.max())
    if rest > 500 and abs(largest - rest) <= rest // 500:
        return labels[int(by_size[0])], [labels[int(k)] for k in by_size[1:]]
    return None
