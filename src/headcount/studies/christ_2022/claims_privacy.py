"""Claims about who is identified in swapped rows: figures 11 to 13, and the overall findings.

"The same individual" is read as the same row (*slot*), the only reading under which anybody can
be identified at a swap rate of 1, as the paper reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import polars as pl

from headcount.studies.christ_2022.claims import (
    RULES,
    Claim,
    Tables,
    at_uniques,
    counted,
    number,
    present,
    share,
)
from headcount.studies.christ_2022.claims_accuracy import REALISTIC, curve
from headcount.studies.christ_2022.settings import DP, SIMILAR, SWAPPERS, WIDTHS

UNACCEPTABLE = 0.5
"""Percent identified above which the paper calls privacy unacceptable."""
ACCEPTED = 0.04
"""Percent that it quotes as accepted for health data."""


def privacy_claims(tables: Tables) -> Iterator[Claim]:
    """Everything the paper says of the attack, as far as its counties were run."""
    yield from _uniques(tables)
    yield from _alameda(tables)
    yield from _everywhere(tables)
    yield from _washington(tables)
    yield from _findings(tables)
    yield from _detailed(tables)


def attacks(tables: Tables, *, group: str = "everyone", attributes: int = 6) -> pl.DataFrame:
    """Attacks as the paper defines them, several people may claim one row."""
    return tables["privacy"].filter(identity_rule="slot", group=group, attributes=attributes)


def _largest(frame: pl.DataFrame) -> float:
    return float(frame["percent"].max())  # type: ignore[arg-type]


def _least(frame: pl.DataFrame) -> float:
    return float(frame["percent"].min())  # type: ignore[arg-type]


def _uniques(tables: Tables) -> Iterator[Claim]:
    areas = tables["areas"]
    unique = areas["unique_rows"].to_list()
    if areas.height == 9:
        yield number("Fewest unique rows of a block group", paper=10, ours=min(unique),
                     show="{:.0f}", points=0)  # fmt: skip
        yield number("Most unique rows of a block group", paper=461, ours=max(unique),
                     show="{:.0f}", points=0)  # fmt: skip
    if present(tables, "Washington"):
        row = areas.filter(county="Washington").row(0, named=True)
        yield Claim(
            claim="Washington: people of the block group, and those in minorities",
            paper="1,090 and 38",
            ours=f"{row['people']:,} and {row['minority_people']}",
            holds="yes" if (row["people"], row["minority_people"]) == (1090, 38) else "no",
            rule="equal; the block group was drawn to meet them",
        )
    for bends, words in RULES.items():
        kinks = tables["kinks"].filter(curve="identified", attributes=6, bends=bends)
        yield counted(
            f"The share identified changes slope where the unique rows run out ({words})",
            paper="approximately", true=at_uniques(kinks), of=kinks.height,
            what="county x swapper x age width",
            rule="the kink within 0.05 of the share of unique rows; a curve without one is a miss",
        )  # fmt: skip


def _alameda(tables: Tables) -> Iterator[Claim]:
    if not present(tables, "Alameda"):
        return
    all_, few = (attacks(tables, group=g).filter(county="Alameda") for g in
                 ("everyone", "minorities"))  # fmt: skip
    early = all_.filter(pl.col("rate") < 0.2)
    least = early.group_by("mechanism", "bucket_width").agg(pl.col("percent").min())
    yield counted(
        "Alameda: more than 0.5 % are identifiable at swap rates below 0.2",
        paper="yes", true=least.filter(pl.col("percent") > UNACCEPTABLE).height, of=least.height,
        what=f"swapper x age width (least: {_least(least):.2f} %)",
        rule="above 0.5 % at every such rate",
    )  # fmt: skip
    late = all_.filter(pl.col("rate") > 0.2, pl.col("rate") <= 0.5)
    worst = late.group_by("mechanism", "bucket_width").agg(pl.col("percent").max())
    yield counted(
        "Alameda: at most 0.5 % are identifiable above that (to 0.5)",
        paper="implied", true=worst.filter(pl.col("percent") <= UNACCEPTABLE).height,
        of=worst.height, what=f"swapper x age width (most: {_largest(worst):.1f} %)",
        rule="at most 0.5 % at every rate above 0.2, to 0.5",
    )  # fmt: skip
    end = few.filter(pl.col("mechanism").is_in(SIMILAR), rate=1.0)
    yield number("Alameda: highest share of minorities identified at swap rate 1, similar swapping",
                 paper=12, ours=_largest(end))  # fmt: skip
    both = all_.join(few, on=["mechanism", "rate", "bucket_width"], suffix="_few").filter(
        pl.col("confirmed") > 0
    )  # fmt: skip
    ratio = both.filter(pl.col("rate") <= 0.5).select(pl.col("percent_few") / pl.col("percent"))
    values = ratio.to_series().to_list()
    yield number(
        "Alameda: how many times likelier a member of a minority is identified",
        paper=5, ours=median(values), show="{:.1f}", points=0,
        note=f" (median; {min(values):.1f} to {max(values):.1f} over swappers, widths and rates "
        "to 0.5)",
    )  # fmt: skip
    wide = all_.filter(rate=0.0).sort("bucket_width")["percent"].unique(maintain_order=True)
    yield Claim(
        claim="Figure 11: narrower age groups identify more people",
        paper="significantly more",
        ours="at rate 0: " + ", ".join(f"{v:.1f} %" for v in wide) + f" for {WIDTHS} years",
        holds="yes" if wide.is_sorted(descending=True) and len(wide) == len(WIDTHS) else "no",
        rule="the share identified falls with the width",
    )


def _everywhere(tables: Tables) -> Iterator[Claim]:
    all_ = attacks(tables)
    shares = tables["areas"].select("county", "unique_share", "diversity")
    after = all_.join(shares, on="county").filter(pl.col("rate") > pl.col("unique_share"))
    first = after.sort("rate").group_by("county", "diversity", "mechanism", "bucket_width").first()
    low = first.filter(pl.col("percent") < 2)
    yield Claim(
        claim="Once the unique rows are swapped, fewer than 2 % are identified",
        paper="often, not in diverse counties",
        ours=f"{low.height} of {first.height} county x swapper x age width, of which "
        f"{low.filter(pl.col('diversity') == 'high').height} in diverse counties",
        holds="yes" if 2 * low.height > first.height else "no",
        rule="in most cases, at the first rate above the share of unique rows",
    )
    similar = all_.filter(pl.col("mechanism").is_in(SIMILAR))
    if present(tables, "Alameda", "Hawaii"):
        some = similar.filter(pl.col("county").is_in(["Alameda", "Hawaii"]))
        half = some.filter(_nearest(some, 0.5))
        yield number(
            "Alameda and Hawaii: highest share identified at swap rate 0.5, similar swapping",
            paper=12, ours=_largest(half),
        )  # fmt: skip
    end = _largest(similar.filter(rate=1.0))
    yield Claim(
        claim="At swap rate 1 some similar swaps still identify over 100 times 0.04 %",
        paper="over 4 %",
        ours=f"{end:.1f} % at most",
        holds="yes" if end > 100 * ACCEPTED else "no",
        rule="the highest share of any county and age width is above 4 %",
    )
    few = attacks(tables, group="minorities").filter(pl.col("people") > 0)
    both = all_.join(few, on=["county", "mechanism", "rate", "bucket_width"], suffix="_few")
    mean = both.group_by("county").agg(pl.col("percent").mean(), pl.col("percent_few").mean())
    yield counted(
        "Members of minorities are identified more often than others",
        paper="everywhere", true=mean.filter(pl.col("percent_few") > pl.col("percent")).height,
        of=mean.height, what="counties", rule="mean over swappers, rates and widths is higher",
    )  # fmt: skip


def _washington(tables: Tables) -> Iterator[Claim]:
    if not present(tables, "Washington"):
        return
    all_, few = (attacks(tables, group=g).filter(county="Washington") for g in
                 ("everyone", "minorities"))  # fmt: skip
    yield number("Washington: highest share identified at swap rate 0", paper=4,
                 ours=_largest(all_.filter(rate=0.0)))  # fmt: skip
    printed = dict(zip(WIDTHS, (30, 55, 80), strict=True))
    for width, value in printed.items():
        yield number(
            f"Washington: share of minorities identified at swap rate 0, ages {width} years wide",
            paper=value, ours=_largest(few.filter(rate=0.0, bucket_width=width)),
        )  # fmt: skip
    found = [_largest(few.filter(rate=0.0, bucket_width=width)) for width in WIDTHS]
    reverse = sum(abs(a - b) <= 5 or b / 1.3 <= a <= 1.3 * b
                  for a, b in zip(found, (80, 55, 30), strict=True))  # fmt: skip
    yield Claim(
        claim="The same with the three numbers in reverse, as narrower ages must identify more",
        paper="80 %, 55 %, 30 % for 2, 15, 45 years (our reading)",
        ours=", ".join(f"{value:.0f} %" for value in found),
        holds=share(reverse, 3),
        rule="each within a factor of 1.3, or 5 points; partly: two of three",
    )
    late = few.filter(_nearest(few, 0.8), pl.col("bucket_width").is_in((15, 45)))
    yield number(
        "Washington: share of minorities still identified at swap rate 0.8, ages 15 and 45 wide",
        paper=10, ours=_largest(late),
    )  # fmt: skip


def _findings(tables: Tables) -> Iterator[Claim]:
    """At the lowest rate with acceptable privacy, is DP as accurate at every epsilon from 2?"""
    worst = attacks(tables).group_by("county", "mechanism", "rate").agg(pl.col("percent").max())
    bad = worst.filter(pl.col("percent") > UNACCEPTABLE)
    last_bad = bad.group_by("county", "mechanism").agg(pl.col("rate").max().alias("last"))
    kl = curve(tables)
    swaps = kl.filter(pl.col("mechanism") != DP).join(last_bad, on=["county", "mechanism"])
    usable = swaps.filter(pl.col("parameter") > pl.col("last"))
    least = usable.group_by("county", "mechanism").agg(pl.col("mean").min().alias("swap"))
    cases = tables["areas"].height * len(SWAPPERS)
    yield Claim(
        claim="Some swap rate leaves at most 0.5 % identifiable",
        paper="implied",
        ours=f"{least.height} of {cases} county x swapper, at every age width",
        holds=share(least.height, cases),
        rule="at that rate and all higher ones; partly: in most",
    )
    for buckets in REALISTIC:
        dp = (
            kl.filter(pl.col("parameter") >= 2, mechanism=DP, buckets=buckets)
            .group_by("county").agg(pl.col("mean").max().alias("dp"))
        )  # fmt: skip
        both = least.join(dp, on="county")
        if both.is_empty():
            continue
        better = both.filter(pl.col("dp") <= 1.3 * pl.col("swap")).height
        yield counted(
            f"At such rates DP with {buckets} buckets is as accurate or better at all epsilons "
            "from 2",
            paper="comparable or improved", true=better, of=both.height,
            what="county x swapper that has such a rate",
            rule="its largest KL at most 1.3 times the least of swapping there",
        )  # fmt: skip


def _detailed(tables: Tables) -> Iterator[Claim]:
    rows = attacks(tables, attributes=15)
    for (key,), some in rows.group_by("key", maintain_order=True):
        end = some.filter(pl.col("mechanism").is_in(SIMILAR), rate=1.0)
        known = "all but sex and origin" if str(key).count(" x ") > 2 else "age, race, household"
        least = _least(end)
        yield Claim(
            claim="Figure 13: with 15 attributes no similar swap identifies fewer than 15 % at "
            f"rate 1 (attacker knows {known})",
            paper="15 % or more",
            ours=f"{least:.1f} % to {_largest(end):.1f} %",
            holds="yes" if least >= 15 else "no",
            rule="every swapper and age width",
        )


def _nearest(frame: pl.DataFrame, rate: float) -> pl.Series:
    """Rows at the rate nearest to one that the paper quotes."""
    away = (frame["rate"] - rate).abs()
    return away == away.min()
