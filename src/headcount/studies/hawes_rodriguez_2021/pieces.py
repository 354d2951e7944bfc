"""The study in pieces, one for each method: computed once and kept, so a stopped study goes on."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

from headcount.engines.protocol import Engine, InOrder
from headcount.mechanisms import Context
from headcount.mechanisms.suppression.rules import Thresholds
from headcount.noise import KeyedNoise, RunKey
from headcount.studies.hawes_rodriguez_2021.accuracy import errors
from headcount.studies.hawes_rodriguez_2021.complemented import (
    COLUMNS,
    complement_rows,
    complemented,
    county_counts,
    reconstruct_complemented,
)
from headcount.studies.hawes_rodriguez_2021.field import Battlefield, attack, reconstructed
from headcount.studies.hawes_rodriguez_2021.methods import (
    COMPLEMENTARY,
    MICRODATA,
    NONE,
    SUPPRESSING,
    TOPDOWN,
    Method,
)
from headcount.studies.hawes_rodriguez_2021.settings import Settings
from headcount.studies.hawes_rodriguez_2021.suppressed import (
    published_races,
    reconstruct_suppressed,
)
from headcount.studies.kept import Frames, code_digest, kept_frames
from headcount.tabulate import content_digest

TABLES = ("matches", "agreement", "errors", "withheld")
"""``withheld`` counts cells, for a method that withholds more than the rules of 1980."""

CODE = (
    *("attacks", "noise", "solve", "tabulate", "mechanisms/swapping", "mechanisms/topdown"),
    *("mechanisms/suppression", "mechanisms/_measured.py", "mechanisms/sampling.py"),
    *("evaluate/agreement.py", "evaluate/attackers.py", "evaluate/reidentified.py"),
    "evaluate/witnessed.py",
    *(
        f"studies/hawes_rodriguez_2021/{name}.py"
        for name in (
            "accuracy",
            "complemented",
            "field",
            "methods",
            "pieces",
            "settings",
            "suppressed",
        )
    ),
)


def run_method(
    method: Method, field: Battlefield, settings: Settings, *, engine: Engine | None = None
) -> Frames:
    """Protect, reconstruct, attack and measure errors, once for each replicate."""
    if method.kind in (NONE, SUPPRESSING):
        return _without_chance(method, field, settings)
    counts = field.counts
    mechanism = method.mechanism(counts.schema, counts.geography)
    noise = KeyedNoise(
        RunKey.from_seed(settings.seed),
        mechanism.name,
        content_digest(counts),
        sha256(repr(mechanism).encode()).digest(),
    )
    rows = _no_rows()
    for replicate in range(settings.replicates):
        runs = range(replicate, replicate + 1)
        context = Context(engine=engine or InOrder())
        table = mechanism.run(counts, noise, runs=runs, context=context).tables[counts.level][0]
        _attack(rows, method.name, field, reconstructed(field, table), replicate, settings)
        if method.kind == TOPDOWN:
            _attack(rows, method.name + MICRODATA, field, table, replicate, settings)
        rows["errors"].append(_named(errors(counts, table), method.name, replicate))
    return _joined(rows)


def _no_rows() -> dict[str, list[pl.DataFrame]]:
    return {name: [] for name in TABLES} | {"withheld": [pl.DataFrame(schema=COLUMNS)]}


def _joined(rows: dict[str, list[pl.DataFrame]]) -> Frames:
    return {name: pl.concat(parts) for name, parts in rows.items()}


def _without_chance(method: Method, field: Battlefield, settings: Settings) -> Frames:
    """A release that is always the same: only the order of ties is left to chance."""
    counts, limits = field.counts, Thresholds()
    rows = _no_rows()
    if method.name == NONE:
        found = {NONE: field.solved.matrix, NONE + MICRODATA: counts.matrix}
        off = errors(counts, counts.matrix)
    elif method.name == COMPLEMENTARY:
        left = complemented(counts, limits)
        found = {method.name: reconstruct_complemented(field, left, limits)}
        totals, races = county_counts(left)
        off = errors(counts, counts.matrix, totals=totals, races=races)
        rows["withheld"].append(complement_rows(left))
    else:
        found = {method.name: reconstruct_suppressed(field, limits)}
        off = errors(counts, counts.matrix, races=published_races(counts, limits))
    for replicate in range(settings.replicates):
        for name, matrix in found.items():
            _attack(rows, name, field, matrix, replicate, settings)
        rows["errors"].append(_named(off, method.name, replicate))
    return _joined(rows)


def _attack(
    rows: dict[str, list[pl.DataFrame]],
    name: str,
    field: Battlefield,
    matrix: Any,
    replicate: int,
    settings: Settings,
) -> None:
    matches, agreed = attack(field, matrix, seed=settings.seed + replicate)
    rows["matches"].append(_named(matches, name, replicate))
    rows["agreement"].append(_named(agreed, name, replicate))


def _named(frame: pl.DataFrame, method: str, replicate: int) -> pl.DataFrame:
    return frame.select(
        pl.lit(method).alias("method"), pl.lit(replicate).alias("replicate"), pl.all()
    )


def kept_or_made(
    make: Callable[[], Frames], *, method: Method, digest: str, settings: Settings,
    cache: Path | None,
) -> Frames:  # fmt: skip
    """Read a method's frames from the cache, or make and keep them."""
    chosen = f"{settings.replicates} {settings.seed}"
    about = f"{code_digest(CODE)} {digest} {chosen} {method!r}"
    return kept_frames(make, names=TABLES, about=about, folder=cache)
