"""The whole study: every block group, swapper and epsilon, the attacks, the theory, the claims."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
import polars.selectors as cs

from headcount.evaluate.representation import MU
from headcount.progress import Progress, silent
from headcount.studies.christ_2022.accuracy import SHORT
from headcount.studies.christ_2022.claims import claims_table
from headcount.studies.christ_2022.kinks import find_kinks
from headcount.studies.christ_2022.people import Area, Source, Synthetic
from headcount.studies.christ_2022.pieces import pieces, run_piece
from headcount.studies.christ_2022.places import minority_rows
from headcount.studies.christ_2022.settings import RACE, SWAPPERS, UNIQUE_BY, Settings
from headcount.studies.christ_2022.swapped import unique_rows
from headcount.studies.christ_2022.theory import variances
from headcount.studies.kept import Frames


@dataclass(frozen=True, kw_only=True, eq=False)
class ChristStudy:
    """Everything the study found, as tables.

    where
        accuracy    metrics by mechanism and parameter, means over replicates
        privacy     linkage attacks on swapped rows, means over replicates
        areas       who lives in each area, and how many rows are unique
        kinks       where the curves of each swapper bend
        theorem_1   changes of shares under random swapping, theory and simulation
        variance    appendix A.3
        claims      the paper's claims one by one; none but the formulas for another table
    """

    settings: Settings
    synthetic: bool
    accuracy: pl.DataFrame
    privacy: pl.DataFrame
    areas: pl.DataFrame
    kinks: pl.DataFrame
    theorem_1: pl.DataFrame
    variance: pl.DataFrame
    claims: pl.DataFrame

    def tables(self) -> dict[str, pl.DataFrame]:
        """By file name; six digits are more than chance leaves of any mean."""
        names = ("accuracy", "privacy", "areas", "kinks", "theorem_1", "variance", "claims")
        digits = cs.float().round_sig_figs(6)
        return {name: getattr(self, name).with_columns(digits) for name in names}


def run_study(
    *,
    source: Source,
    settings: Settings,
    cache: Path | None = None,
    progress: Progress = silent,
) -> ChristStudy:
    """Make what is not kept yet, then judge the claims."""
    wanted = pieces(source, settings)
    found: dict[str, list[pl.DataFrame]] = {}
    for piece in progress(wanted, what="Swaps, noise and attacks", total=len(wanted)):
        made = run_piece(piece, source=source, settings=settings, cache=cache)
        for table, rows in made.items():
            found.setdefault(table, []).append(rows)
    frames: Frames = {table: pl.concat(parts) for table, parts in found.items()}
    areas = pl.DataFrame([_about(source.area(name)) for name in source.names])
    kinks = kink_table(frames["accuracy"], frames["privacy"], areas)
    synthetic = isinstance(source, Synthetic)
    tables = {**frames, "areas": areas, "kinks": kinks, "variance": variances(settings)}
    return ChristStudy(
        settings=settings,
        synthetic=synthetic,
        claims=claims_table(tables, synthetic=synthetic),
        **tables,
    )


def _about(area: Area) -> dict[str, object]:
    swapped = [name for name in area.rows if name != "tenure"]
    unique = int(unique_rows(area.rows, UNIQUE_BY).sum())
    return {
        "county": area.name,
        "diversity": area.diversity,
        "people": area.size,
        "minority_people": int(minority_rows(area.group(area.rows)).sum()),
        "groups": int((area.truth() > 0).sum()),
        "unique_rows": unique,
        "unique_share": unique / area.size,
        "unique_with_household_size": int(unique_rows(area.rows, tuple(swapped)).sum()),
        "pool": len(area.pool["age"]),
    }


def kink_table(accuracy: pl.DataFrame, privacy: pl.DataFrame, areas: pl.DataFrame) -> pl.DataFrame:
    """Where KL, and the share identified at each age width, bend with the swap rate.

    By both rules of ``kinks``; empty where there is no kink, as on a curve that stays at 0.
    """
    index = ["county", "attributes", "mechanism"]
    kl = accuracy.filter(
        pl.col("mechanism").is_in(list(SWAPPERS)),
        query=RACE, group="everyone", metric="kl", mu=MU,
    ).select(*index, pl.lit("kl").alias("curve"), pl.lit(None, pl.Int64).alias("bucket_width"),
             pl.col("parameter").alias("rate"), pl.col("mean").alias("value"))  # fmt: skip
    found = privacy.filter(
        pl.col("key") == pl.col("key").first(), identity_rule="slot", group="everyone"
    ).select(*index, pl.lit("identified").alias("curve"), "bucket_width", "rate",
             pl.col("percent").alias("value"))  # fmt: skip
    curves = (
        pl.concat([kl, found])
        .sort("rate", maintain_order=True)
        .group_by(*index, "curve", "bucket_width", maintain_order=True)
        .agg("rate", "value")
    )
    kinds = dict.fromkeys(("kink", "slope_before", "slope_after", "explained"), pl.Float64)
    fitted = []
    for bends in (1, 2):
        kinks = find_kinks(curves["rate"][0], curves["value"].to_list(), bends=bends)
        rows = [
            (None,) * 4 if kink is None else (kink.at, kink.before, kink.after, kink.explained)
            for kink in kinks
        ]
        fitted.append(
            curves.drop("rate", "value")
            .with_columns(pl.lit(bends, pl.Int64).alias("bends"))
            .hstack(pl.DataFrame(rows, schema=kinds, orient="row"))
        )
    shares = areas.select("county", "unique_share", pl.lit(SHORT, pl.Int64).alias("attributes"))
    return pl.concat(fitted).join(
        shares, on=["county", "attributes"], how="left", maintain_order="left"
    )
