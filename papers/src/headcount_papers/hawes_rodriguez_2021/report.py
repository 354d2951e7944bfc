"""What the report of hawes-rodriguez-2021 shows: the views behind its figures and tables."""

from __future__ import annotations

from typing import Any

import polars as pl

from headcount.comparison.study import Findings
from headcount.evaluation.reidentified import ALL, COMMERCIAL, PERFECT, TELLING
from headcount_papers.hawes_rodriguez_2021.accuracy import (
    COUNTY,
    EVERY,
    RACE_ALONE,
    TOTAL,
    categories,
)
from headcount_papers.hawes_rodriguez_2021.crossing import OWN
from headcount_papers.hawes_rodriguez_2021.methods import (
    COMPLEMENT,
    COMPLEMENTARY,
    HI,
    LIKE_2010,
    LO,
    MIDDLING,
    NONE,
    SUPPRESSION,
    SWAPPING,
    TOPDOWN,
    ZCDP,
)
from headcount_papers.hawes_rodriguez_2021.product_2020 import APRIL, APRIL_4, PRODUCT
from headcount_papers.hawes_rodriguez_2021.report_charts import bars, by_category, precisions
from headcount_papers.hawes_rodriguez_2021.settings import DELTA, PLACE, QUERY_SHARES, Settings

RECORDS, MODAL, PROPORTIONAL = "the attack", "modal guess", "proportional guess"
UNIVERSES = {
    TELLING: "hard to guess",
    ALL: "everyone",
    "nonmodal": "unlike their block",
    "unique": "unique by sex and age",
    "nonmodal, zero variability": "unlike their block, certain",
}
"""Universes that figures offer, in few words: they stand in lists on telephones too."""
_RULES = {
    "cell": "cells changed to 0",
    "table": "tables withheld",
    "complementary": "cells, with the complement",
}
_TABLES = {"SF1_person": "other person tables", "SF1_housing": "housing tables"}
_RACES = {
    "white_alone": "White",
    "black_alone": "Black",
    "asian_alone": "Asian",
    "nhpi_alone": "Pacific Islander",
    "aian_alone": "American Indian",
    "other_alone": "other",
}
_NOISE = {
    "no noise": "no noise",
    "size noise 80 %": "size noise 80 %",
    "tract noise 70 % (40 in county)": "tract noise 70 %",
    "size 50 % and tract 70 %": "size 50 %, tract 70 %",
}
"""Settings of swapping that the figure shows, with shorter names."""
_level = pl.col("level").str.replace("_", " ")
_people = pl.col("universe").replace_strict(UNIVERSES).alias("people")


def facts(found: Findings) -> dict[str, Any]:
    """Who lives there, and whom the perfect attacker finds among those hard to guess."""
    settings, reid = found.settings, found.tables["reid"]
    assert isinstance(settings, Settings)

    noisy = found.tables["methods"].filter(kind=TOPDOWN, loss=ZCDP).select("method", "epsilon")
    hard = reid.filter(attacker=PERFECT, universe=TELLING).join(noisy, on="method")
    largest = hard.drop_nulls("precision").sort("epsilon").tail(1).rows(named=True)
    return {
        "synthetic": settings.population is None,
        "about": found.tables["about"].row(0, named=True),
        "hard": TELLING,
        "delta": float(DELTA),
        "shares": ", ".join(f"{name} {float(100 * share):g} %" for name, share in QUERY_SHARES),
        "largest": largest[0] if largest else None,
    }


def _topdown(found: Findings) -> list[str]:
    """Runs of TopDown, pure first, by epsilon."""
    return found.tables["methods"].filter(kind=TOPDOWN)["method"].to_list()


def main_methods(found: Findings) -> list[str]:
    """The methods that figures show: swapping without noise at each rate, HI, and TopDown."""
    plain = found.tables["methods"].filter(
        kind=SWAPPING, size_perturbed_percent=0.0, tract_perturbed_percent=0.0
    )["method"]
    return [NONE, SUPPRESSION, COMPLEMENTARY, *plain, HI, *_topdown(found)]


def _swapping(found: Findings) -> pl.DataFrame:
    """Swapping experiments with their noise in words: columns method, rate, noise."""
    size, tract, within = (
        pl.col(f"{name}_percent").cast(pl.Int64)
        for name in ("size_perturbed", "tract_perturbed", "of_it_in_county")
    )
    words = (
        pl.when(method=LIKE_2010)
        .then(pl.lit("no noise, uniques first"))
        .when((size == 0) & (tract == 0))
        .then(pl.lit("no noise"))
        .when(tract == 0)
        .then(pl.format("size noise {} %", size))
        .when(size == 0)
        .then(pl.format("tract noise {} % ({} in county)", tract, within))
        .otherwise(pl.format("size {} % and tract {} %", size, tract))
    )
    methods = found.tables["methods"].filter(kind=SWAPPING)
    return methods.select("method", pl.col("swapped_percent").alias("rate"), words.alias("noise"))


def _reidentified(found: Findings, attacker: str) -> pl.DataFrame:
    """Precision of the main methods for one attacker, with guesses beside every rate."""
    frame = pl.DataFrame({"method": [*main_methods(found), MODAL, PROPORTIONAL]})
    for universe, words in ((ALL, "all"), (TELLING, "hard")):
        rates = found.tables["reid"].filter(attacker=attacker, universe=universe)
        rates = rates.select(
            "method",
            pl.col("putative_percent").alias(f"{words} matched"),
            pl.col("precision").alias(f"{words} right"),
            pl.col("proportional_guess").alias(f"{words} proportional"),
            pl.col("modal_guess").alias(f"{words} modal"),
        )
        frame = frame.join(rates, on="method", how="left", maintain_order="left")
    return frame


def _beside_slides(found: Findings) -> pl.DataFrame:
    """Putative, confirmed and precision of the slides' three methods, theirs and ours."""
    published, frame = found.tables["published"], pl.DataFrame({"method": [LIKE_2010, LO, HI]})
    for name in ("putative", "confirmed", "precision"):
        both = published.filter(id=name).select(
            "method",
            pl.col("published").alias(f"slides {name}"),
            pl.col("ours").alias(f"here {name}"),
        )
        frame = frame.join(both, on="method", how="left", maintain_order="left")
    return frame


def _experiments(found: Findings) -> pl.DataFrame:
    reid, frame = found.tables["reid"], _swapping(found)
    slides = reid.filter(attacker=COMMERCIAL, universe=ALL).select(
        "method",
        pl.col("putative_of_population").alias("putative"),
        pl.col("confirmed_of_population").alias("confirmed"),
        "precision",
        pl.col("proportional_guess").alias("guess"),
    )
    hard = reid.filter(attacker=PERFECT, universe=TELLING).select(
        "method",
        pl.col("precision").alias("precision_hard"),
        pl.col("proportional_guess").alias("guess_hard"),
    )
    both = frame.join(slides, on="method", maintain_order="left")
    return both.join(hard, on="method", maintain_order="left")


def _errors(found: Findings) -> pl.DataFrame:
    sizes = pl.when(size_category=EVERY).then(pl.lit("all sizes")).otherwise("size_category")
    return (
        found.tables["mae"]
        .filter(pl.col("method").is_in(main_methods(found)), statistic=TOTAL)
        .with_columns(sizes.alias("size_category"))
    )


def _agreement(found: Findings) -> pl.DataFrame:
    some = found.tables["agreement"].filter(pl.col("method").is_in(main_methods(found)))
    return some.pivot("blocks", index="method", values="agreement")


def _block_sizes(found: Findings) -> list[dict[str, str]]:
    names = found.tables["agreement"]["blocks"].unique(maintain_order=True)
    return [{"key": name, "unit": "%", "format": ".1f"} for name in names]


def _suppression_by_level(found: Findings) -> pl.DataFrame:
    """Shares withheld, with the slides' numbers beside them."""
    keys = ["table", "rule", "level"]
    slides = found.tables["published"].filter(id="withheld")
    slides = slides.select(*keys, pl.col("published").alias("slides"))
    numbers = [*keys, "percent"]
    step = found.tables["complement"].filter(rule=COMPLEMENT).select(numbers)
    rows = pl.concat([found.tables["suppression"].select(numbers), step])
    both = rows.join(slides, on=keys, how="left", maintain_order="left")
    return both.select(
        pl.col("rule").replace_strict(_RULES).alias("withheld"),
        pl.col("table").replace(_TABLES),
        _level,
        "percent",
        "slides",
    )


def _precision_by_method(found: Findings) -> pl.DataFrame:
    shown = main_methods(found)
    reid = found.tables["reid"].filter(
        pl.col("method").is_in(shown), pl.col("universe").is_in(list(UNIVERSES))
    )
    rows = reid.select(
        "method",
        "attacker",
        _people,
        pl.col("precision").alias(RECORDS),
        pl.col("proportional_guess").alias(PROPORTIONAL),
        pl.col("modal_guess").alias(MODAL),
        "precision_low",
        "precision_high",
    )
    index = ["method", "attacker", "people", "precision_low", "precision_high"]
    long = rows.unpivot(
        [RECORDS, PROPORTIONAL, MODAL], variable_name="by", value_name="rate", index=index
    )
    return (
        long.with_columns(
            pl.when(by=RECORDS).then(f"precision_{end}").alias(end) for end in ("low", "high")
        )
        .drop("precision_low", "precision_high")
        .drop_nulls("rate")
    )


def _by_universe(frame: pl.DataFrame, *then: str) -> pl.DataFrame:
    order = {name: place for place, name in enumerate(UNIVERSES)}
    some = frame.filter(pl.col("universe").is_in(list(UNIVERSES)))
    return some.sort(pl.col("universe").replace_strict(order), *then, maintain_order=True)


def _precision_by_rate(found: Findings) -> pl.DataFrame:
    some = found.tables["reid"].join(_swapping(found), on="method")
    some = some.filter(pl.col("noise").is_in(list(_NOISE)))
    guesses = some.filter(noise="no noise").with_columns(
        pl.lit(PROPORTIONAL).alias("noise"), pl.col("proportional_guess").alias("precision")
    )
    both = pl.concat([some.with_columns(pl.col("noise").replace(_NOISE)), guesses])
    ordered = _by_universe(both, "rate")
    return ordered.select("attacker", _people, "noise", "rate", "precision").drop_nulls()


def _topdown_by_epsilon(found: Findings) -> pl.DataFrame:
    methods = found.tables["methods"].filter(kind=TOPDOWN).select("method", "loss", "epsilon")
    above = pl.col("above_proportional")
    return (
        _by_universe(found.tables["reid"].join(methods, on="method"))
        .select(
            pl.format("topdown {}", "loss").alias("loss"),
            "attacker",
            _people,
            "epsilon",
            above.alias("above"),
            pl.col("above_low").fill_null(above).alias("low"),
            pl.col("above_high").fill_null(above).alias("high"),
        )
        .drop_nulls()
    )


def _compared(found: Findings) -> pl.DataFrame:
    """Errors of what the slides compare: swaps and the Bureau's products, or TopDown if none."""
    swaps, product = [LIKE_2010, LO, HI], found.tables["redistricting"]
    if product.is_empty():
        noisy = found.tables["methods"].filter(kind=TOPDOWN, loss=ZCDP)["method"]
        return found.tables["mae"].filter(pl.col("method").is_in([*swaps, *noisy]))
    return product.filter(pl.col("method").is_in([*swaps, *_PRODUCTS])).with_columns(
        pl.col("method").replace(_PRODUCTS)
    )


_PRODUCTS = {APRIL_4: "April 2021, ε 4", APRIL: "April 2021, ε 10.3", PRODUCT: "2020, ε 17.1"}


def _errors_by_size(found: Findings) -> pl.DataFrame:
    order = [categories(PLACE)[1], categories(COUNTY)[1], *categories(PLACE)[2:]]
    place = {category: number for number, category in enumerate(order)}
    some = _compared(found).filter(
        pl.col("area").is_in([COUNTY, PLACE]), pl.col("size_category") != EVERY, statistic=TOTAL
    )
    return some.select(
        pl.col("area").replace_strict({COUNTY: "counties", PLACE: "places"}).alias("areas"),
        pl.col("size_category").alias("group"),
        "method",
        "mae",
    ).sort(pl.col("group").replace_strict(place), maintain_order=True)


def _errors_by_race(found: Findings) -> pl.DataFrame:
    some = _compared(found).filter(
        pl.col("statistic").str.starts_with(RACE_ALONE), area=COUNTY, size_category=EVERY
    )
    race = pl.col("statistic").str.strip_prefix(RACE_ALONE).replace(_RACES)
    return some.select(race.alias("group"), "method", "mae")


def _redistricting(found: Findings) -> pl.DataFrame:
    """Errors of the methods that are compared, a row for each area and method."""
    names = {"county": "Counties", PLACE: "Places", "tract": "Tracts"}
    names |= {"block_group": "Block groups", "block": "Blocks"}
    noisy = found.tables["methods"].filter(kind=TOPDOWN, loss=ZCDP)["method"]
    shown = [LIKE_2010, LO, MIDDLING, HI, *noisy, *_PRODUCTS]
    some = found.tables["redistricting"].filter(
        pl.col("method").is_in(shown),
        ~pl.col("statistic").str.starts_with(RACE_ALONE),
        size_category=EVERY,
    )
    wide = some.pivot("statistic", index=["area", "method"], values="mae")
    order = {area: number for number, area in enumerate(names)}
    return wide.sort(pl.col("area").replace_strict(order), maintain_order=True).with_columns(
        area=pl.col("area").replace_strict(names), method=pl.col("method").replace(_PRODUCTS)
    )


VIEWS = {
    "suppression": lambda found: found.tables["suppression"].with_columns(_level),
    "complement": lambda found: found.tables["complement"].with_columns(_level),
    "recovered": lambda found: found.tables["recovered"].with_columns(_level),
    "reidentified": lambda found: _reidentified(found, PERFECT),
    "reidentified-commercial": lambda found: _reidentified(found, COMMERCIAL),
    "beside-slides": _beside_slides,
    "experiments": _experiments,
    "crossing": lambda found: found.tables["crossing"].filter(guess=OWN),
    "errors": _errors,
    "agreement": _agreement,
    "suppression-by-level": _suppression_by_level,
    "precision-by-method": _precision_by_method,
    "precision-by-rate": _precision_by_rate,
    "topdown-by-epsilon": _topdown_by_epsilon,
    "errors-by-size": _errors_by_size,
    "errors-by-race": _errors_by_race,
    "redistricting": _redistricting,
}
COLUMNS = {"agreement": _block_sizes}
CHARTS = {"bars": bars, "precision": precisions, "categories": by_category}
