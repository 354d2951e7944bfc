"""The whole study: every block group, swapper and epsilon, the attacks, the theory, the claims."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from headcount.progress import Progress, silent
from headcount.studies.christ_2022.claims import claims_table
from headcount.studies.christ_2022.kinks import find_kink
from headcount.studies.christ_2022.people import Area, Source, Synthetic
from headcount.studies.christ_2022.pieces import Frames, pieces, run_piece
from headcount.studies.christ_2022.places import minority_rows
from headcount.studies.christ_2022.settings import RACE, SWAPPERS, UNIQUE_BY, Settings
from headcount.studies.christ_2022.swapped import unique_rows
from headcount.studies.christ_2022.theory import variances


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
        """By file name."""
        names = ("accuracy", "privacy", "areas", "kinks", "theorem_1", "variance", "claims")
        return {name: getattr(self, name) for name in names}


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
    """Where KL, and the share identified at each age width, bend with the swap rate."""
    rows = []
    shares = dict(areas.select("county", "unique_share").iter_rows())
    race = accuracy.filter(query=RACE, group="everyone", metric="kl", mu=1e-4)
    slot = privacy.filter(
        pl.col("key").is_in([privacy["key"][0]]), identity_rule="slot", group="everyone"
    )
    for (county, attributes), curves in race.group_by("county", "attributes", maintain_order=True):
        for swapper in SWAPPERS:
            about = {"county": county, "attributes": attributes, "mechanism": swapper}
            unique = shares[county] if attributes == 6 else None
            curve = curves.filter(mechanism=swapper).sort("parameter")
            kept = [("kl", None, curve["parameter"], curve["mean"])]
            for width in privacy["bucket_width"].unique().sort():
                line = slot.filter(
                    county=county, attributes=attributes, mechanism=swapper, bucket_width=width
                ).sort("rate")
                kept.append(("identified", width, line["rate"], line["percent"]))
            for curve_name, width, x, y in kept:
                kink = find_kink(x, y)
                rows.append(
                    {
                        **about,
                        "curve": curve_name,
                        "bucket_width": width,
                        "kink": kink.at,
                        "slope_before": kink.before,
                        "slope_after": kink.after,
                        "explained": kink.explained,
                        "unique_share": unique,
                    }
                )
    return pl.DataFrame(
        rows, schema_overrides={"bucket_width": pl.Int64, "unique_share": pl.Float64}
    )
