"""Claims about accuracy: figures 2 to 10."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from headcount.studies.christ_2022.claims import (
    RULES,
    Claim,
    Tables,
    at_uniques,
    by_class,
    classes,
    counted,
    kink_claim,
    present,
    share,
)
from headcount.studies.christ_2022.settings import DP, FOUR, RACE, SIMILAR, SWAPPERS

REALISTIC = (2, 6)
"""Age buckets that the paper calls realistic; 45 it calls unnecessarily granular."""
LOW, HIGH = 2.0, 10.0
"""The epsilons of its plots."""
KL = 0.07
LITTLE = 0.5
"""A mean number of groups below this is near none."""


def accuracy_claims(tables: Tables) -> Iterator[Claim]:
    """Everything the paper says of accuracy, as far as its counties were run."""
    yield from _kinks(tables)
    yield from _alameda(tables)
    yield from _orders(tables)
    yield from _diversity(tables)
    yield from _squared_error(tables)
    yield from _cibola(tables)


def curve(
    tables: Tables,
    *,
    metric: str = "kl",
    query: str = RACE,
    group: str = "everyone",
    clip: str = "query",
    attributes: int = 6,
) -> pl.DataFrame:
    """One metric of every mechanism, at the paper's mu, clipped in one way."""
    return tables["accuracy"].filter(
        pl.col("clip").is_null() | pl.col("clip").str.starts_with(clip),
        pl.col("mu").is_null() | (pl.col("mu") == 1e-4),
        metric=metric,
        query=query,
        group=group,
        attributes=attributes,
    )


def noise(frame: pl.DataFrame, buckets: tuple[int, ...] = REALISTIC) -> pl.DataFrame:
    """The noisy histogram with some numbers of age buckets, at the epsilons of the plots."""
    return frame.filter(
        pl.col("buckets").is_in(buckets),
        pl.col("parameter").is_between(LOW, HIGH),
        mechanism=DP,
    )


def _kinks(tables: Tables) -> Iterator[Claim]:
    for bends, words in RULES.items():
        kinks = tables["kinks"].filter(curve="kl", attributes=6, bends=bends)
        for county, printed in (("Alameda", 0.25), ("Washington", 0.05)):
            if present(tables, county):
                yield kink_claim(
                    f"{county}: swap rate at which KL changes slope",
                    kinks.filter(county=county), paper=printed, bends=bends,
                )  # fmt: skip
        yield counted(
            f"KL changes slope where the unique rows run out ({words})",
            paper="yes", true=at_uniques(kinks), of=kinks.height, what="county x swapper",
            rule="the kink within 0.05 of the share of unique rows; a curve without one is a miss",
        )  # fmt: skip
        slower = kinks.filter(pl.col("slope_before").abs() > pl.col("slope_after").abs())
        yield counted(
            f"Accuracy falls fast up to the kink and more slowly after it ({words})",
            paper="yes", true=slower.height, of=kinks.height, what="county x swapper",
            rule="the slope before is steeper; a curve without a kink is a miss",
        )  # fmt: skip


def _alameda(tables: Tables) -> Iterator[Claim]:
    if not present(tables, "Alameda"):
        return
    kl = curve(tables).filter(county="Alameda")
    late = kl.filter(pl.col("mechanism").is_in(list(SWAPPERS)), pl.col("parameter") > 0.2)
    least = late.group_by("mechanism").agg(pl.col("mean").min())
    above = least.filter(pl.col("mean") > KL).height
    yield Claim(
        claim="Alameda: KL of swapping is above 0.07 at rates above 0.2",
        paper="above 0.07",
        ours=", ".join(f"{name} {value:.3f}" for name, value in sorted(least.iter_rows())),
        holds=share(above, least.height),
        rule="the least KL of every swapper above 0.07; partly: of most",
    )
    for clip, words in (("query", "clipped after summing"), ("cell", "cells clipped")):
        dp = noise(curve(tables, clip=clip).filter(county="Alameda"))
        worst = dict(dp.group_by("buckets").agg(pl.col("mean").max()).sort("buckets").iter_rows())
        below = [value < KL for value in worst.values()]
        yield Claim(
            claim=f"Alameda: KL of DP with 2 and 6 buckets stays below 0.07 ({words})",
            paper="below 0.07",
            ours=", ".join(f"{b} buckets {value:.3f} at most" for b, value in worst.items()),
            holds="yes" if all(below) else "partly" if any(below) else "no",
            rule="at every epsilon from 2 to 10, both; partly: one",
        )


def _orders(tables: Tables) -> Iterator[Claim]:
    """Which mechanism is more accurate than which."""
    kl = curve(tables)
    means = {
        key: value
        for *key_, value in kl.filter(pl.col("mechanism") != DP)
        .group_by("county", "mechanism").agg(pl.col("mean").mean()).iter_rows()
        for key in [tuple(key_)]
    }  # fmt: skip
    counties = tables["areas"]["county"].to_list()
    rising = [
        c for c in counties
        if means[c, "0-similar"] <= means[c, "1-similar"] <= means[c, "3-similar"]
    ]  # fmt: skip
    yield counted(
        "A smaller threshold of similarity is more accurate",
        paper="across the board", true=len(rising), of=len(counties), what="counties",
        rule="mean KL over all rates rises from 0- to 1- to 3-similar",
    )  # fmt: skip
    noisy = noise(kl, (2, 6, 45)).group_by("county", "buckets").agg(pl.col("mean").mean())
    wide = noisy.pivot("buckets", index="county", values="mean")
    ordered = wide.filter((pl.col("2") < pl.col("6")) & (pl.col("6") < pl.col("45"))).height
    yield counted(
        "DP is less accurate with more age buckets",
        paper="yes", true=ordered, of=wide.height, what="counties",
        rule="mean KL over epsilon 2 to 10 rises from 2 to 6 to 45 buckets",
    )  # fmt: skip
    mus = tables["accuracy"].filter(query=RACE, group="everyone", metric="kl", attributes=6).filter(
        (pl.col("mechanism") == "0-similar") | ((pl.col("mechanism") == DP)
        & (pl.col("buckets") == 2) & (pl.col("clip") == "query")),
    )  # fmt: skip
    falls = (
        mus.group_by("county", "mechanism", "mu").agg(pl.col("mean").mean())
        .sort("mu").group_by("county", "mechanism").agg((pl.col("mean").diff() <= 0).drop_nulls())
    )  # fmt: skip
    yield counted(
        "Figure 2: a smaller mu gives a larger KL",
        paper="yes", true=int(falls["mean"].list.all().sum()), of=falls.height,
        what="county x mechanism", rule="mean KL falls with mu, from 1e-5 to 1e-2",
    )  # fmt: skip
    yield from _four(tables)


def _four(tables: Tables) -> Iterator[Claim]:
    """Figure 8: the query of four attributes."""
    index = ["county", "mechanism", "parameter"]
    two = pl.col("buckets").is_null() | (pl.col("buckets") == 2)
    short = curve(tables).filter(two, pl.col("parameter") > 0)
    long = curve(tables, query=FOUR).filter(two, pl.col("parameter") > 0)
    both = short.join(long, on=index, suffix="_four").group_by("county", "mechanism").agg(
        pl.col("mean").mean(), pl.col("mean_four").mean()
    )  # fmt: skip
    worse = both.filter(pl.col("mean_four") > pl.col("mean")).height
    yield counted(
        "Figure 8: the query of four attributes is less accurate, for every mechanism",
        paper="yes", true=worse, of=both.height, what="county x mechanism (2 age buckets)",
        rule="mean KL over all parameters is larger",
    )  # fmt: skip
    order = [pl.col(c).rank().over("county").alias(f"rank_{c}") for c in ("mean", "mean_four")]
    ranked = both.with_columns(order).group_by("county", maintain_order=True).agg(
        pl.corr("rank_mean", "rank_mean_four").alias("agreement")
    )  # fmt: skip
    yield counted(
        "Figure 8: the order of the mechanisms stays the same",
        paper="yes", true=ranked.filter(pl.col("agreement") >= 0.9).height, of=ranked.height,
        what="counties (2 age buckets)", rule="rank correlation of the mean KLs at least 0.9",
    )  # fmt: skip


def _diversity(tables: Tables) -> Iterator[Claim]:
    if len(list(classes(tables))) < 3:
        return
    kl = curve(tables)
    for words, names in (
        ("Figure 3: random swapping errs more where people are more diverse", ("random",)),
        ("Figure 4: so does similar swapping", SIMILAR),
    ):
        means = _class_means(tables, kl.filter(pl.col("mechanism").is_in(names)))
        rising = means["high"] > means["medium"] > means["low"]
        yield Claim(
            claim=words,
            paper="high > medium > low",
            ours=_by_class(means),
            holds="yes" if rising else "partly" if means["high"] > means["low"] else "no",
            rule="mean KL over all rates, by class; partly: only high > low",
        )
    dp = _class_means(tables, noise(kl))
    yield Claim(
        claim="Figure 5: KL of DP does not vary with diversity",
        paper="does not vary",
        ours=_by_class(dp),
        holds="yes" if max(dp.values()) <= 1.3 * min(dp.values()) else "no",
        rule="classes within a factor of 1.3: mean KL, 2 and 6 buckets, epsilon 2 to 10",
    )
    swaps = _class_means(tables, kl.filter(pl.col("mechanism") != DP))
    spread = [max(means.values()) / min(means.values()) for means in (dp, swaps)]
    yield Claim(
        claim="DP is far more consistent across diversity than swapping (KL)",
        paper="far more",
        ours=f"most to least accurate class: DP {spread[0]:.1f} times, swapping {spread[1]:.1f}",
        holds="yes" if 1.3 * spread[0] < spread[1] else "partly" if spread[0] < spread[1] else "no",
        rule="the ratio is smaller by a factor of 1.3; partly: smaller",
    )
    alike = 0
    cases = [*SWAPPERS, DP]
    counted_cases = 0
    for _, counties in classes(tables):
        for mechanism in cases:
            some = kl.filter(pl.col("county").is_in(counties), mechanism=mechanism)
            some = noise(some) if mechanism == DP else some
            mean = some.group_by("county").agg(pl.col("mean").mean())["mean"].to_list()
            counted_cases += 1
            alike += max(mean) <= 1.3 * min(mean)
    yield counted(
        "Counties of similar diversity have similar KL, for all mechanisms",
        paper="yes", true=alike, of=counted_cases, what="class x mechanism",
        rule="counties of a class within a factor of 1.3",
    )  # fmt: skip


def _squared_error(tables: Tables) -> Iterator[Claim]:
    mse = curve(tables, metric="mse")
    last = mse.filter(pl.col("buckets").is_in((2, 6, 45)), mechanism=DP).filter(
        pl.col("parameter") == pl.col("parameter").max()
    )  # fmt: skip
    worst = float(last["mean"].max())  # type: ignore[arg-type]
    yield Claim(
        claim="MSE of DP approaches zero within the range of epsilon, everywhere",
        paper="near 0",
        ours=f"{worst:.3f} people squared at most, at epsilon 10",
        holds="yes" if worst < 0.1 else "no",
        rule="below 0.1 at epsilon 10 in every county, for 2, 6 and 45 buckets",
    )
    means = noise(mse).group_by("county").agg(pl.col("mean").mean())["mean"].to_list()
    yield Claim(
        claim="MSE of DP is similar in all block groups",
        paper="similar",
        ours=f"{min(means):.3f} to {max(means):.3f} people squared",
        holds="yes" if max(means) <= 1.3 * min(means) else "no",
        rule="counties within a factor of 1.3: 2 and 6 buckets, epsilon 2 to 10",
    )
    if present(tables, "Alameda", "Jefferson"):
        swaps = mse.filter(pl.col("mechanism").is_in(list(SWAPPERS)))
        mean = {
            (county, swapper): value
            for county, swapper, value in swaps.group_by("county", "mechanism")
            .agg(pl.col("mean").mean()).iter_rows()
        }  # fmt: skip
        less = sum(mean["Jefferson", s] < mean["Alameda", s] for s in SWAPPERS)
        yield counted(
            "Figure 9: MSE of swapping is lower in Jefferson than in Alameda",
            paper="yes", true=less, of=len(SWAPPERS), what="swappers",
            rule="mean over all rates",
        )  # fmt: skip
    if present(tables, "Cibola"):
        few = curve(tables, metric="mse", group="minorities").filter(county="Cibola")
        dp = float(noise(few)["mean"].mean())  # type: ignore[arg-type]
        swap = float(
            few.filter(
                pl.col("mechanism").is_in(SIMILAR), pl.col("parameter").is_between(0.05, 0.5)
            )["mean"].mean()  # type: ignore[arg-type]
        )
        yield Claim(
            claim="Figure 9: for minorities of Cibola swapping and DP have comparable MSE",
            paper="comparable",
            ours=f"DP {dp:.2f}, similar swapping {swap:.2f} people squared",
            holds="yes" if 1 / 1.3 <= dp / swap <= 1.3 else "no",
            rule="means within a factor of 1.3: 2 and 6 buckets, epsilon 2 to 10; rates 0.05 to "
            "0.5, the Bureau's range",
        )


def _cibola(tables: Tables) -> Iterator[Claim]:
    if not present(tables, "Cibola"):
        return
    lost = curve(tables, metric="underallocated", group="minorities").filter(county="Cibola")
    late = lost.filter(pl.col("mechanism").is_in(list(SWAPPERS)), pl.col("parameter") > 0.2)
    least = dict(late.group_by("mechanism").agg(pl.col("mean").min()).sort("mechanism").iter_rows())
    yield Claim(
        claim="Cibola: groups stay at or below 75 % of their size at swap rates above 0.2",
        paper="a significant number",
        ours=", ".join(f"{name} {value:.1f} groups" for name, value in least.items()),
        holds=share(sum(value >= 1 for value in least.values()), len(least)),
        rule="at least one group on average at every such rate, every swapper; partly: most",
    )
    dp = lost.filter(pl.col("buckets").is_in(REALISTIC), pl.col("parameter") >= 5.5, mechanism=DP)
    worst = dict(dp.group_by("buckets").agg(pl.col("mean").max()).sort("buckets").iter_rows())
    yield Claim(
        claim="Cibola: with DP hardly any group is so reduced from epsilon 5.5 on",
        paper="approaches zero",
        ours=", ".join(f"{b} buckets {value:.2f} groups" for b, value in worst.items()),
        holds="yes" if all(value < LITTLE for value in worst.values()) else "no",
        rule="fewer than 0.5 groups on average, 2 and 6 buckets, clipped after summing",
    )
    for bends in RULES:
        kinks = tables["kinks"].filter(curve="kl", attributes=15, county="Cibola", bends=bends)
        if kinks.height:
            yield kink_claim(
                "Cibola, 15 attributes: swap rate at which accuracy levels off",
                kinks, paper=0.8, bends=bends,
            )  # fmt: skip


def _class_means(tables: Tables, frame: pl.DataFrame) -> dict[str, float]:
    return {
        name: float(frame.filter(pl.col("county").is_in(by_class(tables, name)))["mean"].mean())  # type: ignore[arg-type]
        for name, _ in classes(tables)
    }


def _by_class(means: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in means.items())
