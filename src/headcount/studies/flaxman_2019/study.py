"""The whole study, from a seed to tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from headcount.errors import ConfigError
from headcount.privacy import UnitOfPrivacy
from headcount.progress import Progress, silent
from headcount.studies.flaxman_2019.claims import compare
from headcount.studies.flaxman_2019.direct import (
    DIRECT_COLUMNS,
    audit_table,
    direct_runs,
    direct_table,
    promised,
)
from headcount.studies.flaxman_2019.law import averaged_loss
from headcount.studies.flaxman_2019.noise import published_loss
from headcount.studies.flaxman_2019.pooled import Figure1, figure_1, levels
from headcount.studies.flaxman_2019.settings import (
    EXACT,
    FIGURE_1,
    MECHANISMS,
    PUBLISHED,
    VARIANTS,
    Settings,
)
from headcount.studies.flaxman_2019.sweep import SWEEP, sweep

_SWEEP_REPLICATES = 5
"""The sweep shows directions; more replicates would be most of the study's time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FlaxmanStudy:
    """Everything the study found; ``tables`` names what is written to files.

    where
        figure        the pooled estimate, both variants, every replicate
        direct        log ratios of every event with frequencies, the null test included
        audits        lower bounds on epsilon from these runs, and from more at a larger epsilon
        sweep         the pooled estimate with one setting moved at a time
        levels        errors at every level of the geography
        losses        what each variant really loses, under both units of privacy
        law           the exact loss of averaged at each size of error
        claims        the published numbers against this run
    """

    seed: int
    replicates: int
    settings: Settings
    figure: Figure1
    direct: pl.DataFrame
    audits: pl.DataFrame
    sweep: pl.DataFrame
    levels: pl.DataFrame
    losses: pl.DataFrame
    law: pl.DataFrame
    claims: pl.DataFrame

    def tables(self) -> dict[str, pl.DataFrame]:
        """File name without ending -> table.

        ``epl`` is the published variant, which is the one the published numbers match;
        ``epl_exact`` is the mechanism as defined. ``direct`` is the exact mechanism; its audit
        bound belongs to the mechanism, so all its rows repeat it.
        """
        real = self.direct.filter(~pl.col("control"))
        return {
            "epl": self.figure.epl(PUBLISHED),
            "epl_exact": self.figure.epl(EXACT),
            "epl_replicates": self.figure.replicates,
            "epl_curves": self.figure.curves,
            "direct": real.select(DIRECT_COLUMNS),
            "direct_detail": self.direct,
            "audit": self.audits,
            "sweep": self.sweep,
            "raked_levels": self.levels,
            "losses": self.losses,
            "averaged_law": self.law,
            "claims": self.claims,
        }


def run_study(
    *,
    seed: int,
    replicates: int,
    progress: Progress = silent,
    settings: Settings | None = None,
    sweep_values: Mapping[str, tuple[Any, ...]] = SWEEP,
) -> FlaxmanStudy:
    """Run every part of the study; the same seed and settings give the same result."""
    if replicates < 1:
        raise ConfigError(
            "study flaxman-2019", place="replicates", found=str(replicates), expected="1 or more"
        )
    settings = settings or Settings()
    figure = figure_1(
        seed=seed, replicates=replicates, variants=VARIANTS, settings=settings, progress=progress
    )
    short = direct_runs(seed=seed, runs=settings.direct_runs, settings=settings, progress=progress)
    long = direct_runs(
        seed=seed,
        runs=settings.audit_runs,
        epsilon=settings.audit_epsilon,
        settings=settings,
        progress=progress,
    )
    audits = [audit_table(made, seed=seed, settings=settings) for made in (short, long)]
    swept = sweep(
        seed=seed,
        replicates=min(replicates, _SWEEP_REPLICATES),
        settings=settings,
        values=sweep_values,
        progress=progress,
    )
    return FlaxmanStudy(
        seed=seed,
        replicates=replicates,
        settings=settings,
        figure=figure,
        direct=direct_table(short, seed=seed, settings=settings),
        audits=pl.concat(audits),
        sweep=swept,
        levels=levels(seed=seed, replicates=replicates, settings=settings, progress=progress),
        losses=losses(settings),
        law=law(settings),
        claims=compare(figure.epl(PUBLISHED)),
    )


def losses(settings: Settings) -> pl.DataFrame:
    """What each variant really loses: the mechanism's guarantee, times what its draws overspend.

    All shares of a mechanism are equal, so a draw that costs -ln(1 - s) in place of s raises the
    loss by the same factor under either unit of privacy.
    """
    rows = []
    for variant in VARIANTS:
        for name in MECHANISMS:
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
    """The exact loss of averaged at the epsilon of figure 1, far into the tail."""
    epsilon = FIGURE_1["averaged"]
    x = np.arange(0.0, 60 / float(epsilon) + 1, 5.0)
    loss = averaged_loss(x, epsilon=epsilon, parts=settings.parts)
    return pl.DataFrame({"epsilon": float(epsilon), "x": x, "loss": loss})
