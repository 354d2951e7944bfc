"""What the rules of 1980 withhold in states of the size of real ones, counted together."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from headcount.comparison.study import Work
from headcount.mechanisms.suppression.rules import occupied_homes, suppression_summary
from headcount.population.from_households import to_population
from headcount.schema import load_schema
from headcount.tabulate import Tabulated
from headcount_papers.hawes_rodriguez_2021.settings import SCHEMA, Settings, large_state, seed_of

KEYS = ("table", "rule", "level")


def withheld_in(data: Tabulated) -> pl.DataFrame:
    """By table, rule and level: how much there is, and how much of it is withheld."""
    return suppression_summary(data.counts, occupied=occupied_homes(data.population))


def suppression_states(settings: Settings, attacked: Tabulated, work: Work) -> list[pl.DataFrame]:
    """Withheld in each state; a person's own people stand for themselves."""
    if settings.population:
        return [withheld_in(attacked)]
    seeds = [seed_of(settings.seed, draw) for draw in range(settings.states)]
    return list(work.progress(work.engine.map(_state, seeds), what="States", total=len(seeds)))


def _state(seed: int) -> pl.DataFrame:
    people = to_population(large_state(seed), schema=load_schema(SCHEMA))
    return withheld_in(Tabulated.of(people))


def added_up(states: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Columns: table, rule, level, total, withheld, percent, least and most in percent."""
    together = pl.concat(states).group_by(KEYS, maintain_order=True)
    percent = pl.col("percent").fill_nan(None)
    found = together.agg(
        pl.col("total").sum(),
        pl.col("withheld").sum(),
        percent.min().alias("least"),
        percent.max().alias("most"),
    )
    share = 100 * pl.col("withheld") / pl.col("total")
    return found.select(*KEYS, "total", "withheld", share.alias("percent"), "least", "most")
