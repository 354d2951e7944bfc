"""The whole study: every block group, swapper and epsilon, the attacks, the theory, the claims."""

from __future__ import annotations

import polars as pl
import polars.selectors as cs

from headcount.evaluate.representation import MU
from headcount.studies.christ_2022 import claims, claims_privacy
from headcount.studies.christ_2022.accuracy import SHORT
from headcount.studies.christ_2022.kinks import find_kinks
from headcount.studies.christ_2022.people import Area, Synthetic
from headcount.studies.christ_2022.pieces import pieces
from headcount.studies.christ_2022.places import minority_rows
from headcount.studies.christ_2022.settings import RACE, SWAPPERS, UNIQUE_BY, Settings
from headcount.studies.christ_2022.swapped import unique_rows
from headcount.studies.christ_2022.theory import variances
from headcount.studies.frame.cache import FRAMES, Frames
from headcount.studies.frame.claims import verdicts
from headcount.studies.frame.study import Findings, Work


def run(settings: Settings, work: Work) -> Findings:
    """Make what is not kept yet, then judge the claims.

    where
        accuracy    metrics by mechanism and parameter, means over replicates
        privacy     linkage attacks on swapped rows, means over replicates
        areas       who lives in each area, and how many rows are unique
        kinks       where the curves of each swapper bend
        theorem_1   changes of shares under random swapping, theory and simulation
        variance    appendix A.3
        claims      the paper's claims one by one; those about its counties are not judged for
                    another table
    """
    source = settings.source
    inputs = {name: value for name, value in settings.identity().items() if name != "counties"}
    wanted = pieces(source, settings)
    found: dict[str, list[pl.DataFrame]] = {}
    for piece in work.progress(wanted, what="Swaps, noise and attacks", total=len(wanted)):
        made = work.cache.get(
            piece.make,
            name="piece",
            inputs=f"{inputs} {piece.name}",
            made_by=pieces.__module__,
            codec=FRAMES,
        )
        for table, rows in made.items():
            found.setdefault(table, []).append(rows)
    frames: Frames = {table: pl.concat(parts) for table, parts in found.items()}
    areas = pl.DataFrame([_about(source.area(name)) for name in source.names])
    kinks = kink_table(frames["accuracy"], frames["privacy"], areas)
    tables = {**frames, "areas": areas, "kinks": kinks, "variance": variances(settings)}
    synthetic = isinstance(source, Synthetic)
    measures = {**vars(claims), **vars(claims_privacy)}
    tables |= verdicts(
        __package__, tables, measures=measures, judged=synthetic, examined=settings.usual
    )
    # Six digits are more than chance leaves of any mean.
    digits = cs.float().round_sig_figs(6)
    names = ("accuracy", "privacy", "areas", "kinks", "theorem_1", "variance", "claims")
    return Findings(
        settings=settings,
        tables={name: tables[name].with_columns(digits) for name in names},
        confidential=not synthetic,
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
        query=RACE,
        group="everyone",
        metric="kl",
        mu=MU,
    ).select(
        *index,
        pl.lit("kl").alias("curve"),
        pl.lit(None, pl.Int64).alias("bucket_width"),
        pl.col("parameter").alias("rate"),
        pl.col("mean").alias("value"),
    )
    found = privacy.filter(
        pl.col("key") == pl.col("key").first(), identity_rule="slot", group="everyone"
    ).select(
        *index,
        pl.lit("identified").alias("curve"),
        "bucket_width",
        "rate",
        pl.col("percent").alias("value"),
    )
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
