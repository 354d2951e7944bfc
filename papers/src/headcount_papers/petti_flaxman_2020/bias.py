"""Is TopDown's error one-sided, and for whom? By homogeneity, by size, by group."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl

from headcount.evaluation.bias_by_homogeneity import INDEX_DEFINITIONS, bias_by, homogeneity_index
from headcount_papers.petti_flaxman_2020.draws import Draws
from headcount_papers.petti_flaxman_2020.residuals import MARGINS, SIZE_CLASSES
from headcount_papers.petti_flaxman_2020.settings import COUNT_TYPES, LEVELS, STRATA_SHAPE


def homogeneity_table(draws: Draws) -> pl.DataFrame:
    """``bias.csv``: mean error of total counts by homogeneity index, both definitions.

    ``n`` counts the residuals of all replicates, ``units`` the places.
    """
    rows: list[dict[str, Any]] = []
    for level in LEVELS:
        strata, truth = draws.truth.strata[level], draws.truth.totals[level]
        for definition in INDEX_DEFINITIONS:
            index = homogeneity_index(strata, shape=STRATA_SHAPE, definition=definition)
            for epsilon in draws.settings.epsilons:
                made = [one.totals[level] for one in draws.of("topdown", epsilon)]
                # The join rule, in each replicate: nobody on either side, and it does not count.
                enters = np.stack([(truth > 0) | (errors != 0) for errors in made])
                found = bias_by(
                    np.broadcast_to(index, enters.shape)[enters], np.stack(made)[enters]
                )
                places = Counter(index[enters.any(axis=0)].tolist())
                rows += [
                    {
                        "level": level,
                        "epsilon": float(epsilon),
                        "homogeneity_index": value,
                        "mean_error": mean,
                        "n": n,
                        "index_definition": definition,
                        "p05": low,
                        "p95": high,
                        "units": places[value],
                    }
                    for value, (n, mean, low, high) in found.items()
                ]
    return pl.DataFrame(rows)


def size_class_table(draws: Draws) -> pl.DataFrame:
    """Mean error by the exact size of a count: small counts are pushed up, large ones pay."""
    rows: list[dict[str, Any]] = []
    for epsilon in draws.settings.epsilons:
        made = draws.of("topdown", epsilon)
        for kind in COUNT_TYPES:
            for level in LEVELS:
                sums = np.sum([one.sizes[kind, level] for one in made], axis=0)
                for number, (total, size, n) in enumerate(sums):
                    if n:
                        rows.append(
                            {"count_type": kind, "level": level, "epsilon": float(epsilon)}
                            | {"size": size_name(number), "size_from": SIZE_CLASSES[number]}
                            | _means(total, size, n)
                        )
    return pl.DataFrame(rows)


def group_table(draws: Draws) -> pl.DataFrame:
    """Mean error of the number of people of each group in a place.

    Places enter where the group is found in truth or in the release. State totals are kept, so
    what one group gains others lose.
    """
    rows: list[dict[str, Any]] = []
    for epsilon in draws.settings.epsilons:
        made = draws.of("topdown", epsilon)
        for level in LEVELS:
            sums = np.sum([one.groups[level] for one in made], axis=0)
            at = 0
            for margin, axes, labels in MARGINS:
                others = tuple(1 + axis for axis in range(3) if axis not in axes)
                exact = draws.truth.strata[level].reshape(-1, *STRATA_SHAPE).sum(axis=others)
                for number, label in enumerate(labels):
                    total, size, n = sums[at + number]
                    if n:
                        people = int(exact[:, number].sum())
                        rows.append(
                            {"level": level, "epsilon": float(epsilon), "margin": margin}
                            | {"group": label, "people": people}
                            | _means(total, size, n)
                        )
                at += len(labels)
    return pl.DataFrame(rows)


def size_name(number: int) -> str:
    """A class of exact counts in words."""
    low = SIZE_CLASSES[number]
    if number + 1 == len(SIZE_CLASSES):
        return f"{low:,} or more"
    high = SIZE_CLASSES[number + 1] - 1
    return "nobody" if high == 0 else f"{low:,} to {high:,}"


def _means(total: int, size: int, n: int) -> dict[str, Any]:
    return {
        "mean_error": float(total) / float(n),
        "mean_absolute_error": float(size) / float(n),
        "n": int(n),
    }
