"""The whole study, from a seed to tables."""

from __future__ import annotations

import numpy as np
import polars as pl

from headcount.comparison.study import Findings, Work
from headcount.privacy import UnitOfPrivacy
from headcount_papers.flaxman_2019.direct import (
    DIRECT_COLUMNS,
    audit_table,
    direct_runs,
    direct_table,
    promised,
)
from headcount_papers.flaxman_2019.law import averaged_loss
from headcount_papers.flaxman_2019.pooled import epl_means, figure_1, levels
from headcount_papers.flaxman_2019.settings import (
    EXACT,
    PUBLISHED,
    VARIANTS,
    Settings,
)
from headcount_papers.flaxman_2019.sweep import sweep
from headcount_papers.frame.claims import verdicts
from headcount_papers.frame.published_noise import published_loss


def run(settings: Settings, work: Work) -> Findings:
    """Run every part of the study; the same settings give the same result.

    where
        epl, epl_exact      means over the runs of the published variant, which is the one that the
                            published numbers match, and of the mechanism as defined
        epl_replicates, epl_curves
                            every run, both variants; EPL(x) of the first run
        direct, direct_detail
                            log ratios of every event, of the exact mechanism; the detail has
                            frequencies and the null test too. The audit bound belongs to the
                            mechanism, so all its rows repeat it
        audit               lower bounds on epsilon from these runs, and from more at a larger one
        sweep               the pooled estimate with one setting moved at a time
        raked_levels        errors at every level of the geography
        losses              what each variant really loses, under both units of privacy
        averaged_law        the exact loss of averaged at each size of error
        claims              the published numbers against this run
    """
    pooled = figure_1(settings, work, variants=VARIANTS)
    played = [
        direct_runs(settings, work, runs=runs, epsilon=epsilon)
        for runs, epsilon in (
            (settings.direct_runs, settings.direct_epsilon),
            (settings.audit_runs, settings.audit_epsilon),
        )
    ]
    direct = direct_table(played[0], settings)
    tables = {
        "epl": epl_means(pooled["replicates"], PUBLISHED),
        "epl_exact": epl_means(pooled["replicates"], EXACT),
        "epl_replicates": pooled["replicates"],
        "epl_curves": pooled["curves"],
        "direct": direct.filter(~pl.col("control")).select(DIRECT_COLUMNS),
        "direct_detail": direct,
        "audit": pl.concat(audit_table(made, settings) for made in played),
        "sweep": sweep(settings, work),
        "raked_levels": levels(settings, work),
        "losses": losses(settings),
        "averaged_law": law(settings),
    }
    return Findings(
        settings=settings,
        tables={
            **tables,
            **judge(pooled["replicates"], judged=settings.judged, examined=settings.usual),
        },
        frames={"residuals": pooled["residuals"]},
        confidential=not settings.counted_people().public,
    )


def judge(
    runs: pl.DataFrame, *, judged: bool = True, examined: bool = False
) -> dict[str, pl.DataFrame]:
    """Set runs of the published variant beside the paper's, if it is about such people."""
    ratio = (pl.col("median_abs_epl") / pl.col("epsilon")).alias("ratio")
    tables = {"runs": runs.filter(variant=PUBLISHED).with_columns(ratio)}
    return verdicts(__package__, tables, judged=judged, examined=examined)


def losses(settings: Settings) -> pl.DataFrame:
    """What each variant really loses: the mechanism's guarantee, times what its draws overspend.

    All shares of a mechanism are equal, so a draw that costs -ln(1 - s) in place of s raises the
    loss by the same factor under either unit of privacy.
    """
    rows = []
    for variant in VARIANTS:
        for name in settings.chosen:
            for epsilon in settings.epsilons:
                true = float(epsilon)
                if variant == PUBLISHED:
                    true = published_loss(epsilon, shares=settings.shares(name))
                factor = true / float(epsilon)
                change_one = promised(name, epsilon, UnitOfPrivacy.CHANGE_ONE, settings)
                rows.append(
                    {
                        "variant": variant,
                        "mechanism": name,
                        "epsilon": float(epsilon),
                        "true_loss_add_remove": true,
                        "true_loss_change_one": change_one * factor,
                    }
                )
    return pl.DataFrame(rows)


def law(settings: Settings) -> pl.DataFrame:
    """The exact loss of averaged at the epsilon of figure 1, far into the tail, if it is run."""
    epsilon = settings.figure_1.get("averaged")
    if epsilon is None:
        return pl.DataFrame(schema=dict.fromkeys(("epsilon", "x", "loss"), pl.Float64))
    x = np.arange(0.0, 60 / float(epsilon) + 1, 5.0)
    loss = averaged_loss(x, epsilon=epsilon, parts=settings.parts)
    return pl.DataFrame({"epsilon": float(epsilon), "x": x, "loss": loss})
