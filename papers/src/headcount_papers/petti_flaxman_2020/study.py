"""The whole study, from a population to tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from headcount.comparison.study import Findings, Work
from headcount.mechanisms import Tabulated
from headcount.population import Population
from headcount.tabulate import Counts
from headcount_papers.petti_flaxman_2020.appendix import (
    epl_vs_epsilon_table,
    noise_baseline_table,
    published_data,
    pure_noise_table,
    scalars_table,
    sensitivity_table,
)
from headcount_papers.petti_flaxman_2020.appendix_examples import (
    composition_table,
    invariant_table,
)
from headcount_papers.petti_flaxman_2020.bias import (
    group_table,
    homogeneity_table,
    size_class_table,
)
from headcount_papers.petti_flaxman_2020.draws import Draws, draw_all
from headcount_papers.petti_flaxman_2020.equivalence import EQUIVALENCE_COLUMNS, equivalence_table
from headcount_papers.petti_flaxman_2020.scores import (
    sampling_table,
    score_all,
    size_table,
    topdown_table,
)
from headcount_papers.petti_flaxman_2020.settings import Settings, refuse_other_shape
from headcount_papers.petti_flaxman_2020.targets import judge
from headcount_papers.us1940 import fit
from headcount_papers.us1940.figures import published, states

DISTRICTS, REPLICATES = 134_857, 4
"""Of the published runs."""
NATION = 51
"""States of 1940, the District of Columbia, Alaska and Hawaii counted among them."""


def run(settings: Settings, work: Work) -> Findings:
    """Read the people and run every part of the study on them."""
    return run_on(settings.read(work.progress), settings, work)


def run_on(population: Population, settings: Settings, work: Work) -> Findings:
    """Run every part of the study; the same people and settings give the same result.

    where
        topdown         error and empirical loss: 2 types of count x 3 levels x every epsilon
        sampling        the same for every sampling fraction
        bias            mean error of total counts by homogeneity index
        equivalence     table 1: stratified counts of counties, as the paper judged it
        equivalences    nearest sampling fraction for every epsilon, type of count and level
        abstract        what abstract and discussion say
        paper           the quoted numbers against this run
        fit             how near the population is to the published one
        curves          density of errors and EPL(x)
        sizes           sizes of the exact counts
        group_bias      mean error of groups
        size_bias       mean error by exact size
        targets         the published rows against this run, judged where it is comparable
        appendix_...    "is EPL a good measure?": the tables of the paper's appendix
    """
    refuse_other_shape(population)
    data = Tabulated.of(population)
    draws = draw_all(data, settings, work)
    scores, curves = score_all(draws, work)
    equivalences = equivalence_table(draws, scores)
    nearest = ("fraction_interpolated", "standard_error", "distance", "at_end")
    tables = {
        "topdown": topdown_table(scores),
        "sampling": sampling_table(scores, draws),
        "bias": homogeneity_table(draws),
        "equivalence": equivalences.filter(count_type="SC", level="county").select(
            *EQUIVALENCE_COLUMNS, *nearest
        ),
        "equivalences": equivalences,
        "fit": fit(population, population.quarters),
        "curves": curves,
        "sizes": size_table(draws),
        "group_bias": group_table(draws),
        "size_bias": size_class_table(draws),
        **_appendix(data.counts, settings, work),
    }
    return Findings(
        settings=settings,
        tables={
            **tables,
            **judge(
                tables, judged=settings.synthetic and _comparable(draws), examined=settings.usual
            ),
        },
        confidential=not population.public,
        facts=_facts(population),
    )


def _comparable(draws: Draws) -> bool:
    """Whether published rows can be expected: a nation of so many districts, replicates pooled."""
    cells = draws.truth.geography.size("enumeration_district")
    return cells == DISTRICTS and draws.settings.replicates >= REPLICATES


def _facts(population: Population) -> dict[str, Any]:
    """Whom the run covers: the whole is the nation at full scale."""
    geography = population.geography
    codes = geography.units[geography.depth("state")]
    full = dict(published_data("states").iter_rows())
    names = {state.fips: full.get(state.name, state.name) for state in states()}
    counties = geography.size("county")
    people = len(population.unit) if population.count is None else population.count.sum()
    return {
        "whole": len(codes) == NATION and counties >= published()["totals"]["counties"],
        "people": int(people),
        "states": [names.get(str(code), str(code)) for code in codes],
        "counties": counties,
        "districts": geography.size("enumeration_district"),
    }


def _appendix(counts: Counts, settings: Settings, work: Work) -> dict[str, pl.DataFrame]:
    """Every table of "is EPL a good measure?", by file name."""
    about: dict[str, Any] = {"seed": settings.seed, "work": work}
    made: dict[str, Callable[[], pl.DataFrame]] = {
        "appendix_epl_vs_epsilon": epl_vs_epsilon_table,
        "appendix_sensitivity": sensitivity_table,
        "appendix_noise_baseline": noise_baseline_table,
        "appendix_pure_noise": pure_noise_table,
        "appendix_scalars": scalars_table,
        "appendix_composition": lambda: composition_table(counts, **about),
        "appendix_invariants": lambda: invariant_table(counts, **about),
        "appendix_mistakes": lambda: published_data("mistakes"),
    }
    items = work.progress(made.items(), what="Appendix", total=len(made))
    return {name: make() for name, make in items}
