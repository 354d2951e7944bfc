"""What the report of christ-2022 shows: the views behind its figures and tables, and facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from headcount.comparison.study import Findings
from headcount.evaluation.representation import MU
from headcount.population.town_people import RACE_SETS, SINGLE_RACES
from headcount_papers.christ_2022 import places
from headcount_papers.christ_2022.people import Synthetic
from headcount_papers.christ_2022.settings import (
    BUCKETS,
    DETAILED_DRAWS,
    DP,
    FOUR,
    RACE,
    SIMILAR,
    SWAPPERS,
    UNIT,
    Settings,
)

_CLIPPED = {"query": "after summing", "cell": "cell by cell"}
_GROUPS = {"everyone": "everyone", "minorities": "minorities only"}
_READINGS = {
    "slot": "the row in the person's place",
    "person": "the person's own record",
    "value": "anybody's, if its origin is right",
}
_RACES = {"aian": "AIAN", "nhpi": "NHPI", "white": "White", "black": "Black", "asian": "Asian"}
_RANKS = 40
"""Ranks of figure 1 that are shown: the rest is rarer still."""
_QUESTIONS = {RACE: "Hispanic × race", FOUR: "age × Hispanic × race × household size"}
_SHOWN = ("Alameda", "Washington", "Cibola", "Jefferson")
"""Counties that the paper gives figures of their own."""
_FIGURE_COUNTIES = ("Alameda", "Fayette", "Jefferson")
"""Of high, medium and low diversity: those that the paper plots."""
_LOWEST = 2.0
"""The least epsilon of the paper's plots."""
_FOUND_AT = (0.05, 0.25, 0.5, 1.0)


def facts(found: Findings) -> dict[str, Any]:
    """Whom it is about, and one county's counts and people found with half of all rows swapped."""
    settings = found.settings
    assert isinstance(settings, Settings)
    synthetic = isinstance(settings.source, Synthetic)
    counties = found.tables["areas"]["county"].n_unique()
    places = "counties" if counties > 1 else "county"
    sample = f"a sample of {settings.pool:,} people of the state"
    county = _county(found, "Alameda")
    similar = _found(found).filter(pl.col("mechanism").is_in(SIMILAR), county=county)
    few = _found(found, group="minorities").filter(
        pl.col("mechanism").is_in(SIMILAR), county=county
    )
    kl = _accuracy(found, "kl").filter(
        pl.col("clip").is_null() | (pl.col("clip") == "query"), group="everyone", county=county
    )
    half = _at(kl.filter(pl.col("mechanism") != DP), "parameter", 0.5)
    seen = _at(_found(found).filter(county=county, bucket_width=2), "rate", 0.5)
    noisy = kl.filter(mechanism=DP, buckets=6)
    return {
        "synthetic": synthetic,
        "places": f"block groups of {counties} {places}" if synthetic else "a table of people",
        "many": f"{found.tables['areas'].height:,} synthetic block groups"
        if synthetic
        else f"{counties} areas of a table of people",
        "partners": sample if synthetic else "outside",
        "reduced": settings.reduced,
        "fifteen": min(settings.draws, DETAILED_DRAWS),
        "people": f"{settings.people:,}" if settings.people else "600 to 1,500",
        "unit": UNIT,
        "county": county,
        "shown": {name: _county(found, name) for name in _SHOWN},
        "half": _most(_at(similar, "rate", 0.5)),
        "few": _most(_at(few, "rate", 0.5)),
        "end": _most(_at(similar, "rate", 1.0)),
        "kl": dict(half.select("mechanism", "mean").iter_rows()),
        "seen": dict(seen.select("mechanism", "percent").iter_rows()),
        "noise": [_at(noisy, "parameter", epsilon)["mean"][0] for epsilon in (2.0, 6.0)],
        "detailed": not found.tables["privacy"].filter(attributes=15).is_empty(),
    }


def _county(found: Findings, wanted: str) -> str:
    """A county to open a figure with."""
    known = found.tables["areas"]["county"].unique(maintain_order=True).to_list()
    return wanted if wanted in known else str(known[0])


def _found(found: Findings, *, group: str = "everyone", attributes: int = 6) -> pl.DataFrame:
    return found.tables["privacy"].filter(group=group, identity_rule="slot", attributes=attributes)


def _at(frame: pl.DataFrame, column: str, value: float) -> pl.DataFrame:
    """The rows at the value nearest to one."""
    away = (frame[column] - value).abs()
    return frame.filter(away == away.min())


def _most(frame: pl.DataFrame) -> float:
    """The largest percentage; 0 if there is none."""
    value = frame["percent"].drop_nans().max()
    return float(value) if isinstance(value, float | int) else 0.0


def _thin(frame: pl.DataFrame, column: str, *, most: int = 50) -> pl.DataFrame:
    """Fewer values of a column, the first and last among them: a line needs no more."""
    values = frame[column].drop_nulls().unique().sort()
    step = max(1, -(-len(values) // most))
    shown = [*values[::step], *values[-1:]]
    return frame.filter(pl.col(column).is_null() | pl.col(column).is_in(shown))


def _accuracy(
    found: Findings, metric: str, query: str = RACE, *, frame: pl.DataFrame | None = None
) -> pl.DataFrame:
    """One metric at the paper's mu, with rate or epsilon in a column of its own."""
    dp = pl.col("mechanism") == DP
    every = found.tables["accuracy"] if frame is None else frame
    own = every.filter(
        pl.col("mu").is_null() | (pl.col("mu") == MU), metric=metric, query=query, attributes=6
    )
    return own.with_columns(
        pl.when(~dp).then("parameter").alias("rate"), pl.when(dp).then("parameter").alias("epsilon")
    )


def _both(frame: pl.DataFrame) -> pl.DataFrame:
    """All mechanisms, clipped after summing: swap rates, and the epsilons of the paper's plots."""
    plotted = pl.col("epsilon").is_null() | (pl.col("epsilon") >= _LOWEST)
    summed = pl.col("clip").is_null() | pl.col("clip").str.starts_with("query")
    names = [*SWAPPERS, *(f"noise, {buckets} age buckets" for buckets in BUCKETS)]
    named = pl.when(pl.col("mechanism") == DP).then(pl.format("noise, {} age buckets", "buckets"))
    return (
        _thin(_thin(frame.filter(plotted, summed), "rate", most=52), "epsilon", most=42)
        .with_columns(named.otherwise("mechanism").alias("series"), pl.col("mean").round(6))
        .sort(pl.col("series").replace_strict(names, range(len(names))), maintain_order=True)
    )


def _kl(found: Findings) -> pl.DataFrame:
    return _both(_accuracy(found, "kl").filter(group="everyone"))


def _mse(found: Findings) -> pl.DataFrame:
    return _both(_accuracy(found, "mse")).with_columns(pl.col("group").replace_strict(_GROUPS))


def _of(name: str, frame: Callable[[Findings], pl.DataFrame]) -> Callable[[Findings], pl.DataFrame]:
    """A view of one county, or of the first area where it was not run."""
    return lambda found: frame(found).filter(county=_county(found, name))


def _underallocation(found: Findings) -> pl.DataFrame:
    return _both(_accuracy(found, "underallocated").filter(group="minorities"))


def _four_attributes(found: Findings) -> pl.DataFrame:
    two = pl.col("buckets").is_null() | (pl.col("buckets") == BUCKETS[0])
    both = pl.concat(
        _accuracy(found, "kl", query).filter(
            two, pl.col("clip").is_null() | (pl.col("clip") != "cell"), group="everyone"
        )
        for query in (RACE, FOUR)
    )
    return _both(both).with_columns(pl.col("query").replace_strict(_QUESTIONS).alias("question"))


def _by_place(found: Findings) -> pl.DataFrame:
    """KL of three counties from diverse to homogeneous: the middle of their block groups.

    ``low`` and ``high`` hold the middle four fifths of them; an area of one's own is alone.
    """
    known = found.tables["areas"]["county"].unique(maintain_order=True).to_list()
    paper = [name for name in _FIGURE_COUNTIES if name in known]
    shown = paper if len(paper) == 3 else known[:3]
    named = (
        pl.when(pl.col("diversity") == "")
        .then("county")
        .otherwise(pl.format("{} ({})", "county", "diversity"))
    )
    places = found.tables["areas"].select("county", named.alias("place")).unique()
    kl = _accuracy(found, "kl", frame=found.frames.get("draws"))
    own = kl.filter(pl.col("county").is_in(shown), group="everyone")
    return (
        own.join(places, on="county", maintain_order="left")
        .group_by("place", "mechanism", "buckets", "clip", "rate", "epsilon", maintain_order=True)
        .agg(
            pl.col("mean").median(),
            pl.col("mean").quantile(0.1, "linear").alias("low"),
            pl.col("mean").quantile(0.9, "linear").alias("high"),
        )
        .sort(pl.col("place").cast(pl.Enum(_in_order(places, shown))), maintain_order=True)
    )


def _in_order(places: pl.DataFrame, counties: list[str]) -> list[str]:
    names = dict(places.iter_rows())
    return [names[county] for county in counties]


def _diversity_swapping(found: Findings) -> pl.DataFrame:
    return _thin(_by_place(found).filter(mechanism="random"), "rate")


def _diversity_similar(found: Findings) -> pl.DataFrame:
    swaps = _thin(_by_place(found).filter(pl.col("mechanism").is_in(SIMILAR)), "rate")
    return swaps.rename({"mechanism": "swapper"})


def _diversity_noise(found: Findings) -> pl.DataFrame:
    noisy = _by_place(found).filter(pl.col("epsilon") >= 0.5, mechanism=DP)
    return _thin(noisy, "epsilon").with_columns(
        pl.format("{}", "buckets").alias("buckets"), pl.col("clip").replace_strict(_CLIPPED)
    )


def _smoothing(found: Findings) -> pl.DataFrame:
    kl = found.tables["accuracy"].filter(query=RACE, metric="kl", group="everyone", attributes=6)
    named = pl.format(
        "μ = {}", pl.col("mu").map_elements(lambda mu: f"{mu:.9f}".rstrip("0"), pl.String)
    )
    return kl.sort("mu", maintain_order=True).with_columns(named.alias("smoothing"))


def _smoothing_swapping(found: Findings) -> pl.DataFrame:
    swaps = _smoothing(found).filter(mechanism="0-similar")
    return _thin(swaps.rename({"parameter": "rate"}), "rate")


def _smoothing_noise(found: Findings) -> pl.DataFrame:
    noisy = _smoothing(found).filter(mechanism=DP, buckets=BUCKETS[0], clip="query")
    return _thin(noisy.rename({"parameter": "epsilon"}), "epsilon", most=60)


def _attacks(frame: pl.DataFrame) -> pl.DataFrame:
    return _thin(frame, "rate", most=40).with_columns(
        pl.format("{} years", "bucket_width").alias("ages"), pl.col("percent").round(4)
    )


def _readings(found: Findings) -> pl.DataFrame:
    own = found.tables["privacy"].filter(group="everyone", bucket_width=2, attributes=6)
    named = own.with_columns(pl.col("identity_rule").replace_strict(_READINGS).alias("reading"))
    return _thin(_attacks(named), "rate", most=26).rename({"mechanism": "swapper"})


def _fifteen_attributes(found: Findings) -> pl.DataFrame:
    short = pl.col("key").str.count_matches(" x ") <= 2
    known = (
        pl.when(short)
        .then(pl.lit("age, race and household size"))
        .otherwise(pl.lit("everything but sex and origin"))
    )
    return _attacks(_found(found, attributes=15)).with_columns(known.alias("known"))


def _fifteen_accuracy(found: Findings) -> pl.DataFrame:
    kl = found.tables["accuracy"].filter(
        query=RACE, metric="kl", group="everyone", mu=MU, attributes=15
    )
    return _thin(kl.rename({"parameter": "rate"}), "rate")


def _fifteen(found: Findings) -> pl.DataFrame:
    """The least and the most people identified with everybody swapped, reading by reading."""
    end = _fifteen_attributes(found).filter(rate=1.0)
    cases = end.group_by("reading", "known", "mechanism", maintain_order=True)
    return cases.agg(
        pl.col("percent").min().alias("least"), pl.col("percent").max().alias("most")
    ).sort("known", "reading", maintain_order=True)


def _race_order(_found: Findings) -> pl.DataFrame:
    """Figure 1: the order of frequency of Hispanic origin by race in the nation."""
    people = places.national_people()
    rows = [
        {"rank": rank, "who": _who(int(code)), "people": float(people[code])}
        for rank, code in enumerate(places.frequency_order()[:_RANKS], start=1)
    ]
    return pl.DataFrame(rows).with_columns(
        pl.when(pl.col("who").str.starts_with("Hispanic"))
        .then(pl.lit("Hispanic"))
        .otherwise(pl.lit("not Hispanic"))
        .alias("origin")
    )


def _who(code: int) -> str:
    hispanic, race = divmod(code, len(RACE_SETS))
    names = [_RACES.get(SINGLE_RACES[one], SINGLE_RACES[one]) for one in RACE_SETS[race]]
    return ("Hispanic, " if hispanic else "") + " and ".join(names)


def _theorem_2(found: Findings) -> pl.DataFrame:
    """Bounds and simulation as three lines; bounds above 1 say nothing and are cut there."""
    words = {
        "lower": "lower bound (1)",
        "simulated": "simulated",
        "upper": "upper bound (3), cut at 1",
    }
    long = found.tables["theorem_2"].unpivot(
        list(words), index=["county", "people", "unique"], value_name="chance"
    )
    return long.with_columns(
        pl.col("variable").replace_strict(words).alias("what"),
        pl.col("chance").clip(upper_bound=1.0),
        pl.format("{} or more", "unique").alias("rows"),
    )


def _clipping(found: Findings) -> pl.DataFrame:
    """What the two ways to remove negative counts do."""
    own = _accuracy(found, "mse").filter(pl.col("clip").is_in(list(_CLIPPED)), group="everyone")
    parts = [
        _at(own, "epsilon", epsilon).with_columns(pl.lit(epsilon).alias("epsilon"))
        for epsilon in (1.0, 2.0, 4.0, 8.0)
    ]
    means = pl.concat(parts).group_by("buckets", "epsilon", "clip", maintain_order=True)
    roots = means.agg(pl.col("mean").mean().sqrt())
    return roots.pivot("clip", index=["buckets", "epsilon"], values="mean").sort(
        "buckets", "epsilon"
    )


def _found_at(found: Findings) -> pl.DataFrame:
    """People identified at chosen rates, everyone and minorities."""
    rows = found.tables["privacy"].filter(
        pl.col("mechanism").is_in(["random", "0-similar"]),
        identity_rule="slot",
        bucket_width=2,
        attributes=6,
    )
    parts = [
        _at(rows, "rate", rate).with_columns(
            pl.format("{} {}", "mechanism", pl.lit(f"{rate:g}")).alias("case")
        )
        for rate in (0.0, *_FOUND_AT)
    ]
    cases = pl.concat(parts).select("county", "group", "case", "percent")
    return cases.pivot("case", index=["county", "group"], values="percent")


def _cases(_found: Findings) -> list[dict[str, str]]:
    named = [f"{name} {rate:g}" for name in ("random", "0-similar") for rate in _FOUND_AT]
    labels = {"random 0": "none swapped"} | {name: name for name in named}
    shown = {"unit": "%", "format": ".1f"}
    return [{"key": key, "label": label, **shown} for key, label in labels.items()]


def _area_columns(found: Findings) -> list[str]:
    names = ["diversity"] if (found.tables["areas"]["diversity"] != "").any() else []
    names += ["people", "minority_people", "minority_groups", "unique_rows", "unique_range"]
    return [*names, "unique_with_household_size"]


def _kinks(found: Findings) -> pl.DataFrame:
    own = found.tables["kinks"].filter(curve="kl", attributes=6)
    wide = own.pivot("mechanism", index=["county", "unique_share", "fitted_to"], values="kink")
    return wide.sort("county", "fitted_to", maintain_order=True)


def _areas(found: Findings) -> pl.DataFrame:
    """One row a county: medians over its block groups, and the range of unique rows."""
    numbers = ("people", "minority_people", "groups", "minority_groups")
    more = ("unique_rows", "unique_with_household_size")
    return (
        found.tables["areas"]
        .group_by("county", "diversity", maintain_order=True)
        .agg(
            *(pl.col(name).median() for name in (*numbers, *more)),
            pl.format(
                "{}\u2060–\u2060{}", pl.col("unique_rows").min(), pl.col("unique_rows").max()
            ).alias("unique_range"),
        )
    )


def _theorem_1(found: Findings) -> pl.DataFrame:
    shares = [pl.col(f"share_{where}") * 100 for where in ("in_area", "outside")]
    changes = [
        pl.col(f"{kind}_{what}") * 100
        for kind in ("expected", "simulated")
        for what in ("change", "absolute_change")
    ]
    return found.tables["theorem_1"].with_columns(*shares, *changes)


VIEWS = {
    "areas": _areas,
    "race-order": _race_order,
    "kl": _kl,
    "alameda": _of("Alameda", _kl),
    "washington": _of("Washington", _kl),
    "squared-error-alameda": _of("Alameda", _mse),
    "squared-error-cibola": _of("Cibola", _mse),
    "squared-error-jefferson": _of("Jefferson", _mse),
    "underallocation": _underallocation,
    "four-attributes": _four_attributes,
    "diversity-swapping": _diversity_swapping,
    "diversity-similar": _diversity_similar,
    "diversity-noise": _diversity_noise,
    "smoothing-swapping": _smoothing_swapping,
    "smoothing-noise": _smoothing_noise,
    "identified": lambda found: _attacks(_found(found)),
    "identified-minorities": lambda found: _attacks(_found(found, group="minorities")),
    "readings": _readings,
    "fifteen": _fifteen,
    "fifteen-attributes": _fifteen_attributes,
    "fifteen-accuracy": _fifteen_accuracy,
    "clipping": _clipping,
    "found": _found_at,
    "kinks": _kinks,
    "theorem-1": _theorem_1,
    "theorem-2": _theorem_2,
}
COLUMNS = {
    "areas": _area_columns,
    "found": _cases,
    "kinks": lambda _found: [{"key": name, "format": ".2f"} for name in SWAPPERS],
}
