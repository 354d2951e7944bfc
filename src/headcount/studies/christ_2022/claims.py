"""How the paper's claims about accuracy are measured: figures 2 to 10.

``published.toml`` has what the paper says. A printed number holds if ours is within a factor of 1.3
of it or within 5 points (percent, or 0.05 of a rate): the authors mostly read them off figures. A
statement in words holds if it is true of every case that it is about, and depends if of some.
Nothing was tuned to make a claim hold. A measure gives None where its counties were not run.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headcount.studies.christ_2022.settings import BUCKETS, DP, FOUR, RACE, SIMILAR, SWAPPERS
from headcount.studies.frame.claims import MeasuredClaim, Tables

FACTOR = 1.3
REALISTIC = (2, 6)
"""Age buckets that the paper calls realistic; 45 it calls unnecessarily granular."""
LOW, HIGH = 2.0, 10.0
"""The epsilons of its plots."""
KL = 0.07
FEW_GROUPS = 0.5
"""A mean number of groups below this is near none."""
NEAR_ZERO = 0.1
"""Squared people; and 0.05 is how near a kink must be to the share of unique rows."""


def counted(true: int, of: int, what: str) -> MeasuredClaim:
    """A statement that is about several cases."""
    return MeasuredClaim(true=true, of=of, finding=f"{true} of {of} {what}")


def verdict(finding: str, holds: bool) -> MeasuredClaim:
    """A statement with a criterion of its own."""
    return MeasuredClaim(finding=finding, true=int(holds), of=1)


def near(paper: float, ours: float, *, points: float) -> bool:
    """Whether a number is within the factor of a printed one, or within so many points."""
    by_factor = paper > 0 and paper / FACTOR <= ours <= paper * FACTOR
    return abs(ours - paper) <= points or by_factor


def present(tables: Tables, *names: str) -> bool:
    """Whether all these counties were run."""
    return set(names) <= set(tables["areas"]["county"])


def curve(
    tables: Tables,
    *,
    metric: str = "kl",
    query: str = RACE,
    group: str = "everyone",
    clip: str = "query",
) -> pl.DataFrame:
    """One metric of every mechanism on six attributes, at the paper's mu, clipped in one way."""
    return tables["accuracy"].filter(
        pl.col("clip").is_null() | pl.col("clip").str.starts_with(clip),
        pl.col("mu").is_null() | (pl.col("mu") == 1e-4),
        metric=metric,
        query=query,
        group=group,
        attributes=6,
    )


def noise(frame: pl.DataFrame, buckets: Sequence[int] = REALISTIC) -> pl.DataFrame:
    """The noisy histogram with some numbers of age buckets, at the epsilons of the plots."""
    plotted = pl.col("parameter").is_between(LOW, HIGH)
    return frame.filter(pl.col("buckets").is_in(buckets), plotted, mechanism=DP)


def swaps(frame: pl.DataFrame, names: Sequence[str] = tuple(SWAPPERS)) -> pl.DataFrame:
    """Some swappers at every rate."""
    return frame.filter(pl.col("mechanism").is_in(names))


def mean_by(frame: pl.DataFrame, *columns: str) -> dict[tuple[object, ...], float]:
    """The mean over parameters for each value of some columns."""
    grouped = frame.group_by(*columns).agg(pl.col("mean").mean())
    return {tuple(key): value for *key, value in grouped.iter_rows()}


def alike(values: Sequence[float]) -> bool:
    """Whether all are within the factor."""
    return max(values) <= FACTOR * min(values)


def kink(
    tables: Tables, *, county: str, bends: int, printed: float, attributes: int = 6
) -> MeasuredClaim | None:
    """A printed rate beside the kink of every swapper; a curve without one is a miss."""
    kinks = tables["kinks"].filter(curve="kl", attributes=attributes, county=county, bends=bends)
    if kinks.is_empty():
        return None
    found = kinks["kink"].to_list()
    hits = sum(at is not None and near(printed, at, points=0.05) for at in found)
    words = ", ".join(
        f"{name} {'none' if at is None else format(at, '.2f')}"
        for name, at in zip(kinks["mechanism"], found, strict=True)
    )
    return MeasuredClaim(true=hits, of=len(found), finding=words)


def kinks_at_uniques(tables: Tables, *, curve: str, bends: int, what: str) -> MeasuredClaim:
    """Curves whose kink is within 0.05 of the share of unique rows; none counts as a miss."""
    kinks = tables["kinks"].filter(curve=curve, attributes=6, bends=bends)
    there = kinks.filter((pl.col("kink") - pl.col("unique_share")).abs() <= 0.05)
    return counted(there.height, kinks.height, what)


def slower_after_kink(tables: Tables, *, bends: int) -> MeasuredClaim:
    """Curves that are steeper before their kink."""
    kinks = tables["kinks"].filter(curve="kl", attributes=6, bends=bends)
    slower = kinks.filter(pl.col("slope_before").abs() > pl.col("slope_after").abs())
    return counted(slower.height, kinks.height, "county x swapper")


def alameda_swapping(tables: Tables) -> MeasuredClaim | None:
    """The least KL of each swapper at rates above 0.2."""
    late = swaps(curve(tables)).filter(pl.col("parameter") > 0.2, county="Alameda")
    least = sorted(late.group_by("mechanism").agg(pl.col("mean").min()).iter_rows())
    if not least:
        return None
    words = ", ".join(f"{name} {value:.3f}" for name, value in least)
    return MeasuredClaim(true=sum(value > KL for _, value in least), of=len(least), finding=words)


def alameda_noise(tables: Tables, *, clip: str) -> MeasuredClaim | None:
    """The largest KL of noise, for each number of age buckets."""
    dp = noise(curve(tables, clip=clip).filter(county="Alameda"))
    worst = dict(dp.group_by("buckets").agg(pl.col("mean").max()).sort("buckets").iter_rows())
    if not worst:
        return None
    words = ", ".join(f"{b} buckets {value:.3f} at most" for b, value in worst.items())
    below = [value < KL for value in worst.values()]
    return MeasuredClaim(true=sum(below), of=len(below), finding=words)


def smaller_threshold(tables: Tables) -> MeasuredClaim:
    """Counties in which accuracy falls from 0- to 3-similar."""
    means = mean_by(swaps(curve(tables), SIMILAR), "county", "mechanism")
    counties = tables["areas"]["county"].to_list()
    ranked = [[means[county, name] for name in SIMILAR] for county in counties]
    rising = [row for row in ranked if row == sorted(row)]
    return counted(len(rising), len(counties), "counties")


def more_buckets(tables: Tables) -> MeasuredClaim:
    """Counties in which KL grows with the age buckets."""
    means = mean_by(noise(curve(tables), BUCKETS), "county", "buckets")
    counties = tables["areas"]["county"].to_list()
    ordered = [c for c in counties if means[c, 2] < means[c, 6] < means[c, 45]]
    return counted(len(ordered), len(counties), "counties")


def smaller_mu(tables: Tables) -> MeasuredClaim:
    """Curves of figure 2 that rise as mu falls."""
    kl = tables["accuracy"].filter(query=RACE, group="everyone", metric="kl", attributes=6)
    shown = (pl.col("mechanism") == DP) & (pl.col("buckets") == 2) & (pl.col("clip") == "query")
    means = kl.filter((pl.col("mechanism") == "0-similar") | shown)
    falls = (
        means.group_by("county", "mechanism", "mu")
        .agg(pl.col("mean").mean())
        .sort("mu")
        .group_by("county", "mechanism")
        .agg((pl.col("mean").diff() <= 0).drop_nulls())
    )
    return counted(int(falls["mean"].list.all().sum()), falls.height, "county x mechanism")


def _both_queries(tables: Tables) -> pl.DataFrame:
    """Mean KL of two and of four attributes, two age buckets."""
    two = pl.col("buckets").is_null() | (pl.col("buckets") == 2)
    short, long = (
        curve(tables, query=query).filter(two, pl.col("parameter") > 0) for query in (RACE, FOUR)
    )
    both = short.join(long, on=["county", "mechanism", "parameter"], suffix="_four")
    return both.group_by("county", "mechanism").agg(
        pl.col("mean").mean(), pl.col("mean_four").mean()
    )


def four_attributes(tables: Tables) -> MeasuredClaim:
    """Cases in which the finer query is less accurate."""
    both = _both_queries(tables)
    worse = both.filter(pl.col("mean_four") > pl.col("mean"))
    return counted(worse.height, both.height, "county x mechanism (2 age buckets)")


def same_order(tables: Tables) -> MeasuredClaim:
    """Counties in which both queries rank the mechanisms alike."""
    ranks = [pl.col(c).rank().over("county").alias(f"rank_{c}") for c in ("mean", "mean_four")]
    ranked = _both_queries(tables).with_columns(ranks).group_by("county")
    agreement = ranked.agg(pl.corr("rank_mean", "rank_mean_four").alias("agreement"))
    same = agreement.filter(pl.col("agreement") >= 0.9)
    return counted(same.height, agreement.height, "counties (2 age buckets)")


def _class_means(tables: Tables, frame: pl.DataFrame) -> dict[str, float]:
    """Means over the counties of each class of diversity; empty unless all three were run."""
    classes = frame.join(tables["areas"].select("county", "diversity"), on="county")
    means = {str(key[0]): value for key, value in mean_by(classes, "diversity").items()}
    names = ("high", "medium", "low")
    return {name: means[name] for name in names} if set(names) <= set(means) else {}


def _by_class(means: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in means.items())


def more_diverse(tables: Tables, *, swappers: Sequence[str]) -> MeasuredClaim | None:
    """Whether KL rises with diversity."""
    means = _class_means(tables, swaps(curve(tables), swappers))
    if not means:
        return None
    rising = [means["high"] > means["medium"], means["medium"] > means["low"]]
    return MeasuredClaim(true=sum(rising), of=len(rising), finding=_by_class(means))


def noise_by_diversity(tables: Tables) -> MeasuredClaim | None:
    """Whether KL of noise is the same in all classes."""
    means = _class_means(tables, noise(curve(tables)))
    return verdict(_by_class(means), alike(list(means.values()))) if means else None


def consistency(tables: Tables) -> MeasuredClaim | None:
    """How far classes differ, under noise and under swapping."""
    kl = curve(tables)
    means = [_class_means(tables, frame) for frame in (noise(kl), swaps(kl))]
    if not all(means):
        return None
    dp, swap = (max(one.values()) / min(one.values()) for one in means)
    words = f"most to least accurate class: DP {dp:.1f} times, swapping {swap:.1f}"
    return verdict(words, FACTOR * dp < swap)


def similar_diversity(tables: Tables) -> MeasuredClaim | None:
    """Classes and mechanisms whose counties are alike."""
    kl, areas = curve(tables), tables["areas"]
    if not _class_means(tables, noise(kl)):
        return None
    cases = []
    for diversity in ("high", "medium", "low"):
        counties = areas.filter(diversity=diversity)["county"].to_list()
        some = kl.filter(pl.col("county").is_in(counties))
        cases += [swaps(some, (name,)) for name in SWAPPERS] + [noise(some)]
    same = sum(alike(list(mean_by(case, "county").values())) for case in cases)
    return counted(same, len(cases), "class x mechanism")


def error_near_zero(tables: Tables) -> MeasuredClaim:
    """The largest squared error of noise at the largest epsilon."""
    dp = curve(tables, metric="mse").filter(mechanism=DP)
    worst = float(dp.filter(pl.col("parameter") == pl.col("parameter").max())["mean"].max())  # type: ignore[arg-type]
    return verdict(f"{worst:.3f} people squared at most, at epsilon 10", worst < NEAR_ZERO)


def error_alike(tables: Tables) -> MeasuredClaim:
    """Squared errors of noise, county by county."""
    means = list(mean_by(noise(curve(tables, metric="mse")), "county").values())
    return verdict(f"{min(means):.3f} to {max(means):.3f} people squared", alike(means))


def jefferson(tables: Tables) -> MeasuredClaim | None:
    """Swappers whose squared error is lower in Jefferson than in Alameda."""
    if not present(tables, "Alameda", "Jefferson"):
        return None
    mean = mean_by(swaps(curve(tables, metric="mse")), "county", "mechanism")
    less = sum(mean["Jefferson", name] < mean["Alameda", name] for name in SWAPPERS)
    return counted(less, len(SWAPPERS), "swappers")


def cibola_error(tables: Tables) -> MeasuredClaim | None:
    """Squared errors of minorities of Cibola, noise beside similar swapping."""
    few = curve(tables, metric="mse", group="minorities").filter(county="Cibola")
    rates = swaps(few, SIMILAR).filter(pl.col("parameter").is_between(0.05, 0.5))
    if few.is_empty():
        return None
    dp, swap = (float(one["mean"].mean()) for one in (noise(few), rates))  # type: ignore[arg-type]
    words = f"DP {dp:.2f}, similar swapping {swap:.2f} people squared"
    return verdict(words, 1 / FACTOR <= dp / swap <= FACTOR)


def cibola_swapping(tables: Tables) -> MeasuredClaim | None:
    """Groups at or below 75 % of their size at swap rates above 0.2: the least of each swapper."""
    lost = curve(tables, metric="underallocated", group="minorities").filter(county="Cibola")
    late = swaps(lost).filter(pl.col("parameter") > 0.2)
    least = dict(late.group_by("mechanism").agg(pl.col("mean").min()).sort("mechanism").iter_rows())
    if not least:
        return None
    words = ", ".join(f"{name} {value:.1f} groups" for name, value in least.items())
    return MeasuredClaim(
        true=sum(value >= 1 for value in least.values()), of=len(least), finding=words
    )


def cibola_noise(tables: Tables) -> MeasuredClaim | None:
    """The same with noise from epsilon 5.5 on: the most."""
    lost = curve(tables, metric="underallocated", group="minorities").filter(county="Cibola")
    dp = lost.filter(pl.col("buckets").is_in(REALISTIC), pl.col("parameter") >= 5.5, mechanism=DP)
    worst = dict(dp.group_by("buckets").agg(pl.col("mean").max()).sort("buckets").iter_rows())
    if not worst:
        return None
    words = ", ".join(f"{b} buckets {value:.2f} groups" for b, value in worst.items())
    return verdict(words, all(value < FEW_GROUPS for value in worst.values()))
