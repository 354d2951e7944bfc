"""One method: protected, reconstructed, attacked and measured, once for each replicate."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from scipy.sparse import csr_array

from headcount.engines.protocol import Engine, InOrder
from headcount.evaluate.suppressed import WITNESSES, audit_release, withheld_frame
from headcount.mechanisms import Context, protect
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.release import TablesRelease
from headcount.studies.frame.cache import Frames
from headcount.studies.frame.cases import seeded_noise
from headcount.studies.hawes_rodriguez_2021.accuracy import errors
from headcount.studies.hawes_rodriguez_2021.methods import (
    COMPLEMENT,
    MICRODATA,
    NONE,
    TOPDOWN,
    Method,
)
from headcount.studies.hawes_rodriguez_2021.settings import Settings
from headcount.studies.hawes_rodriguez_2021.setup import Setup

TABLES = ("matches", "agreement", "errors", "withheld")
"""``withheld`` counts cells, for a method that withholds more than the rules of 1980."""

WITHHELD = {
    **dict.fromkeys(("table", "rule", "level"), pl.String),
    **dict.fromkeys(("total", "withheld"), pl.Int64),
    "percent": pl.Float64,
    "unprotected": pl.Int64,
}


def run_method(
    method: Method, setup: Setup, settings: Settings, *, engine: Engine | None = None
) -> Frames:
    """Protect, reconstruct, attack and measure errors, once for each replicate.

    A release that is always the same is made once: then only the order of ties is left to chance.
    """
    counts = setup.counts
    mechanism = method.mechanism(counts.schema, counts.geography)
    noise = seeded_noise(mechanism, seed=settings.seed, digest=setup.data.digest)
    rows: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}
    rows["withheld"].append(pl.DataFrame(schema=WITHHELD))
    with TemporaryDirectory() as folder:
        witnesses = Path(folder) / WITNESSES
        context = Context(engine=engine or InOrder(), curator=Path(folder))
        for replicate in range(settings.replicates):
            if replicate == 0 or mechanism.draws_noise:
                release = protect(setup.data, mechanism, noise, run=replicate, context=context)
                records = {method.name: setup.reconstructed(release)}
                if method.kind in (NONE, TOPDOWN):
                    own = release.table(counts.level)
                    records[method.name + MICRODATA] = csr_array(own)
                off = errors(counts, release, areas=setup.households.areas)
            for name, matrix in records.items():
                matches, agreed = setup.attack(matrix, seed=settings.seed + replicate)
                rows["matches"].append(_named(matches, name, replicate))
                rows["agreement"].append(_named(agreed, name, replicate))
            rows["errors"].append(_named(off, method.name, replicate))
        if isinstance(mechanism, Suppression) and mechanism.rule == COMPLEMENT:
            rows["withheld"].append(_withheld(setup, release.as_tables(), witnesses))
    return {name: pl.concat(parts) for name, parts in rows.items()}


def _withheld(setup: Setup, release: TablesRelease, witnesses: Path) -> pl.DataFrame:
    """Cells of the protected tables withheld in all, and small ones that no witness protects."""
    (audit,) = audit_release(setup.counts, release, witnesses=witnesses)
    assert audit.witnessed is not None
    rules = release.rules
    found = withheld_frame(setup.counts, release).filter(pl.col("table").is_in(rules.tables))
    return found.select(
        "table",
        pl.lit(rules.rule).alias("rule"),
        "level",
        pl.col("cells").alias("total"),
        "withheld",
        "percent",
        pl.lit(len(audit.witnessed.unprotected)).cast(pl.Int64).alias("unprotected"),
    )


def _named(frame: pl.DataFrame, method: str, replicate: int) -> pl.DataFrame:
    return frame.select(
        pl.lit(method).alias("method"), pl.lit(replicate).alias("replicate"), pl.all()
    )
