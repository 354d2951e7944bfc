"""The whole study, from a population to tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import polars as pl

from headcount.engines.protocol import Engine
from headcount.population import Population
from headcount.population.quarters import Quarters
from headcount.population.us1940 import fit
from headcount.progress import Progress, silent
from headcount.studies.petti_flaxman_2020.appendix import (
    epl_vs_epsilon_table,
    noise_baseline_table,
    pure_noise_table,
    scalars_table,
    sensitivity_table,
)
from headcount.studies.petti_flaxman_2020.appendix_examples import (
    composition_table,
    invariant_table,
)
from headcount.studies.petti_flaxman_2020.bias import (
    group_table,
    homogeneity_table,
    size_class_table,
)
from headcount.studies.petti_flaxman_2020.draws import Draws, draw_all
from headcount.studies.petti_flaxman_2020.equivalence import EQUIVALENCE_COLUMNS, equivalence_table
from headcount.studies.petti_flaxman_2020.mistakes import mistakes_table
from headcount.studies.petti_flaxman_2020.paper import paper_table
from headcount.studies.petti_flaxman_2020.scores import (
    sampling_table,
    score_all,
    size_table,
    topdown_table,
)
from headcount.studies.petti_flaxman_2020.settings import (
    EPSILONS,
    FRACTIONS,
    Settings,
    refuse_other_shape,
)
from headcount.studies.petti_flaxman_2020.targets import targets_table
from headcount.tabulate import Tabulated

DISTRICTS, REPLICATES = 134_857, 4
"""Of the published runs."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PettiFlaxmanStudy:
    """Everything the study found; ``tables`` names what is written to files.

    where
        population      name of the population; ``public`` says whether it may be published about
        settings        parameters, replicates and seed
        topdown         error and empirical loss: 2 types of count x 3 levels x every epsilon
        sampling        the same for every sampling fraction
        bias            mean error of total counts by homogeneity index
        equivalences    nearest sampling fraction for every epsilon, type of count and level
        paper           the quoted numbers against this run
        fit             how near the population is to the published one
        curves          density of errors and EPL(x)
        sizes           sizes of the exact counts
        group_bias      mean error of groups
        size_bias       mean error by exact size
        targets         the published rows against this run, judged where it is comparable
        appendix        "is EPL a good measure?": the tables of the paper's appendix, by file name
    """

    population: str
    public: bool
    settings: Settings
    topdown: pl.DataFrame
    sampling: pl.DataFrame
    bias: pl.DataFrame
    equivalences: pl.DataFrame
    paper: pl.DataFrame
    fit: pl.DataFrame
    curves: pl.DataFrame
    sizes: pl.DataFrame
    group_bias: pl.DataFrame
    size_bias: pl.DataFrame
    targets: pl.DataFrame
    appendix: Mapping[str, pl.DataFrame]

    @property
    def equivalence(self) -> pl.DataFrame:
        """Table 1: stratified counts of counties, as the paper judged it."""
        return self.equivalences.filter(count_type="SC", level="county").select(
            *EQUIVALENCE_COLUMNS, "fraction_interpolated", "standard_error", "distance", "at_end"
        )

    def tables(self) -> dict[str, pl.DataFrame]:
        """File name without ending -> table."""
        return {
            "topdown": self.topdown,
            "sampling": self.sampling,
            "bias": self.bias,
            "equivalence": self.equivalence,
            "equivalences": self.equivalences,
            "paper": self.paper,
            "fit": self.fit,
            "curves": self.curves,
            "sizes": self.sizes,
            "group_bias": self.group_bias,
            "size_bias": self.size_bias,
            "targets": self.targets,
            **self.appendix,
        }


def run_study(
    *,
    population: Population,
    quarters: Quarters | None = None,
    epsilons: Sequence[Fraction] = EPSILONS,
    fractions: Sequence[Fraction] = FRACTIONS,
    replicates: int = 4,
    seed: int = 1940,
    cache: Path | None = None,
    progress: Progress = silent,
    engine: Engine | None = None,
) -> PettiFlaxmanStudy:
    """Run every part of the study; the same population, seed and settings give the same result.

    where
        quarters    living quarters, if the population does not carry them: they bound TopDown
        cache       a folder in which the residuals of every finished release are kept, so that a
                    second call draws only what is missing. They tell exact counts: as
                    confidential as the population.
        engine      what TopDown's work is spread over; one thread if None
    """
    refuse_other_shape(population)
    settings = Settings(
        epsilons=tuple(sorted(epsilons)),
        fractions=tuple(sorted(fractions)),
        replicates=replicates,
        seed=seed,
    )
    if quarters is not None:
        population = replace(population, quarters=quarters)
    data = Tabulated.of(population)
    draws = draw_all(data, settings, cache=cache, progress=progress, engine=engine)
    scores, curves = score_all(draws, cache=cache, progress=progress)
    sizes, bias = size_table(draws), homogeneity_table(draws)
    topdown = topdown_table(scores)
    sampling = sampling_table(scores, draws)
    equivalences = equivalence_table(draws, scores)
    return PettiFlaxmanStudy(
        population=population.name,
        public=population.public,
        settings=settings,
        topdown=topdown,
        sampling=sampling,
        bias=bias,
        equivalences=equivalences,
        paper=paper_table(
            topdown=topdown,
            sampling=sampling,
            sizes=sizes,
            bias=bias,
            equivalence=equivalences.filter(count_type="SC", level="county"),
        ),
        fit=fit(population, population.quarters),
        curves=curves,
        sizes=sizes,
        group_bias=group_table(draws),
        size_bias=size_class_table(draws),
        targets=targets_table(
            topdown=topdown,
            sampling=sampling,
            bias=bias,
            equivalence=equivalences.filter(count_type="SC", level="county"),
            judge=_comparable(draws),
        ),
        appendix=_appendix(draws, progress),
    )


def _comparable(draws: Draws) -> bool:
    """Whether published rows can be expected: a nation of so many districts, replicates pooled."""
    cells = draws.truth.geography.size("enumeration_district")
    return cells == DISTRICTS and draws.settings.replicates >= REPLICATES


def _appendix(draws: Draws, progress: Progress) -> dict[str, pl.DataFrame]:
    """Every table of "is EPL a good measure?", by file name."""
    seed, truth = draws.settings.seed, draws.truth
    made: dict[str, Callable[[], pl.DataFrame]] = {
        "appendix_epl_vs_epsilon": epl_vs_epsilon_table,
        "appendix_sensitivity": sensitivity_table,
        "appendix_noise_baseline": noise_baseline_table,
        "appendix_pure_noise": pure_noise_table,
        "appendix_scalars": scalars_table,
        "appendix_composition": lambda: composition_table(truth, seed=seed),
        "appendix_invariants": lambda: invariant_table(truth, seed=seed),
        "appendix_mistakes": mistakes_table,
    }
    items = progress(made.items(), what="Appendix", total=len(made))
    return {name: make() for name, make in items}
