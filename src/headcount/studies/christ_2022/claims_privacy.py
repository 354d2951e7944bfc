"""How the claims about who is identified are measured: figures 11 to 13, and the theory.

"The same individual" is read as the same row (*slot*), the only reading under which anybody can
be identified at a swap rate of 1, as the paper reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import polars as pl

from headcount.studies.christ_2022 import claims
from headcount.studies.christ_2022.claims import counted, curve, near, present, verdict
from headcount.studies.christ_2022.settings import BUCKETS, DP, SIMILAR, SWAPPERS, WIDTHS
from headcount.studies.christ_2022.theory import combinations, detailed_combinations
from headcount.studies.frame.claims import MeasuredClaim, Tables

UNACCEPTABLE = 0.5
"""Percent identified above which the paper calls privacy unacceptable."""
ACCEPTED = 0.04
"""Percent that it quotes as accepted for health data."""
ERRORS = 3.5
"""Standard errors within which a simulated mean must be of the expected one."""


def attacks(tables: Tables, *, group: str = "everyone", attributes: int = 6) -> pl.DataFrame:
    """Attacks as the paper defines them, several people may claim one row."""
    return tables["privacy"].filter(identity_rule="slot", group=group, attributes=attributes)


def _largest(frame: pl.DataFrame) -> float:
    return float(frame["percent"].max())  # type: ignore[arg-type]


def _least(frame: pl.DataFrame) -> float:
    return float(frame["percent"].min())  # type: ignore[arg-type]


def _nearest(frame: pl.DataFrame, rate: float) -> pl.DataFrame:
    """Rows at the rate nearest to one that the paper quotes."""
    away = (frame["rate"] - rate).abs()
    return frame.filter(away == away.min())


def _similar(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("mechanism").is_in(SIMILAR))


def unique_rows(tables: Tables, *, most: bool) -> MeasuredClaim | None:
    """The most, or the fewest, unique rows of a block group."""
    unique = tables["areas"]["unique_rows"].to_list()
    if len(unique) < 9:
        return None
    return MeasuredClaim(value=float(max(unique) if most else min(unique)))


def washington(tables: Tables) -> MeasuredClaim | None:
    """Its people, and those in minorities."""
    if not present(tables, "Washington"):
        return None
    row = tables["areas"].filter(county="Washington").row(0, named=True)
    words = f"{row['people']:,} and {row['minority_people']}"
    return verdict(words, (row["people"], row["minority_people"]) == (1090, 38))


def _alameda(tables: Tables, *, group: str = "everyone") -> pl.DataFrame:
    return attacks(tables, group=group).filter(county="Alameda")


def alameda_early(tables: Tables) -> MeasuredClaim | None:
    """Attacks that find more than 0.5 % at every rate below 0.2."""
    early = _alameda(tables).filter(pl.col("rate") < 0.2)
    if early.is_empty():
        return None
    least = early.group_by("mechanism", "bucket_width").agg(pl.col("percent").min())
    more = least.filter(pl.col("percent") > UNACCEPTABLE)
    return counted(more.height, least.height, f"swapper x age width (least: {_least(least):.2f} %)")


def alameda_late(tables: Tables) -> MeasuredClaim | None:
    """Attacks that find at most 0.5 % at every rate above 0.2, to 0.5."""
    late = _alameda(tables).filter(pl.col("rate") > 0.2, pl.col("rate") <= 0.5)
    if late.is_empty():
        return None
    worst = late.group_by("mechanism", "bucket_width").agg(pl.col("percent").max())
    few = worst.filter(pl.col("percent") <= UNACCEPTABLE)
    return counted(few.height, worst.height, f"swapper x age width (most: {_largest(worst):.1f} %)")


def alameda_end(tables: Tables) -> MeasuredClaim | None:
    """Minorities identified at rate 1 by similar swapping."""
    end = _similar(_alameda(tables, group="minorities")).filter(rate=1.0)
    return None if end.is_empty() else MeasuredClaim(value=_largest(end))


def alameda_minorities(tables: Tables) -> MeasuredClaim | None:
    """How many times likelier a member of a minority is identified."""
    if not present(tables, "Alameda"):
        return None
    few = _alameda(tables, group="minorities")
    both = _alameda(tables).join(few, on=["mechanism", "rate", "bucket_width"], suffix="_few")
    some = both.filter(pl.col("confirmed") > 0, pl.col("rate") <= 0.5)
    values = some.select(pl.col("percent_few") / pl.col("percent")).to_series().to_list()
    middle = median(values)
    words = (
        f"{middle:.1f} (median; {min(values):.1f} to {max(values):.1f} over swappers, widths and "
        "rates to 0.5)"
    )
    return MeasuredClaim(value=middle, finding=words)


def narrower_ages(tables: Tables) -> MeasuredClaim | None:
    """The share identified without any swap, by the width of age groups."""
    none = _alameda(tables).filter(rate=0.0).sort("bucket_width")
    if none.is_empty():
        return None
    wide = none["percent"].unique(maintain_order=True)
    words = "at rate 0: " + ", ".join(f"{v:.1f} %" for v in wide) + f" for {WIDTHS} years"
    return verdict(words, wide.is_sorted(descending=True) and len(wide) == len(WIDTHS))


def after_uniques(tables: Tables) -> MeasuredClaim:
    """Attacks that find fewer than 2 % at the first rate above the share of unique rows."""
    shares = tables["areas"].select("county", "unique_share", "diversity")
    after = (
        attacks(tables).join(shares, on="county").filter(pl.col("rate") > pl.col("unique_share"))
    )
    first = after.sort("rate").group_by("county", "diversity", "mechanism", "bucket_width").first()
    low = first.filter(pl.col("percent") < 2)
    diverse = low.filter(pl.col("diversity") == "high").height
    words = (
        f"{low.height} of {first.height} county x swapper x age width, of which {diverse} in "
        "diverse counties"
    )
    return verdict(words, 2 * low.height > first.height)


def diverse_half(tables: Tables) -> MeasuredClaim | None:
    """The highest share identified at rate 0.5 in two diverse counties, similar swapping."""
    if not present(tables, "Alameda", "Hawaii"):
        return None
    some = _similar(attacks(tables)).filter(pl.col("county").is_in(["Alameda", "Hawaii"]))
    return MeasuredClaim(value=_largest(_nearest(some, 0.5)))


def everyone_swapped(tables: Tables) -> MeasuredClaim:
    """The highest share identified at rate 1, similar swapping."""
    end = _largest(_similar(attacks(tables)).filter(rate=1.0))
    return verdict(f"{end:.1f} % at most", end > 100 * ACCEPTED)


def minorities_more(tables: Tables) -> MeasuredClaim:
    """Counties in which members of minorities are identified more often."""
    few = attacks(tables, group="minorities").filter(pl.col("people") > 0)
    index = ["county", "mechanism", "rate", "bucket_width"]
    both = attacks(tables).join(few, on=index, suffix="_few")
    mean = both.group_by("county").agg(pl.col("percent").mean(), pl.col("percent_few").mean())
    more = mean.filter(pl.col("percent_few") > pl.col("percent"))
    return counted(more.height, mean.height, "counties")


def _washington(tables: Tables, *, group: str = "minorities") -> pl.DataFrame:
    return attacks(tables, group=group).filter(county="Washington")


def washington_everyone(tables: Tables) -> MeasuredClaim | None:
    """The highest share identified without any swap."""
    none = _washington(tables, group="everyone").filter(rate=0.0)
    return None if none.is_empty() else MeasuredClaim(value=_largest(none))


def washington_few(tables: Tables, *, width: int) -> MeasuredClaim | None:
    """Minorities identified without any swap."""
    none = _washington(tables).filter(rate=0.0, bucket_width=width)
    return None if none.is_empty() else MeasuredClaim(value=_largest(none))


def washington_reversed(tables: Tables, *, printed: Sequence[float]) -> MeasuredClaim | None:
    """The same beside the three numbers in reverse."""
    if not present(tables, "Washington"):
        return None
    none = _washington(tables).filter(rate=0.0)
    found = [_largest(none.filter(bucket_width=width)) for width in WIDTHS]
    hits = sum(near(b, a, points=5) for a, b in zip(found, printed, strict=True))
    return MeasuredClaim(true=hits, of=3, finding=", ".join(f"{value:.0f} %" for value in found))


def washington_late(tables: Tables) -> MeasuredClaim | None:
    """Minorities still identified at rate 0.8."""
    if not present(tables, "Washington"):
        return None
    late = _nearest(_washington(tables), 0.8).filter(pl.col("bucket_width").is_in((15, 45)))
    return MeasuredClaim(value=_largest(late))


def _least_at_private_rates(tables: Tables) -> pl.DataFrame:
    """The least KL of each swapper at rates from which on at most 0.5 % are found."""
    worst = attacks(tables).group_by("county", "mechanism", "rate").agg(pl.col("percent").max())
    bad = worst.filter(pl.col("percent") > UNACCEPTABLE)
    last_bad = bad.group_by("county", "mechanism").agg(pl.col("rate").max().alias("last"))
    swaps = curve(tables).filter(pl.col("mechanism") != DP)
    usable = swaps.join(last_bad, on=["county", "mechanism"]).filter(
        pl.col("parameter") > pl.col("last")
    )
    return usable.group_by("county", "mechanism").agg(pl.col("mean").min().alias("swap"))


def some_private_rate(tables: Tables) -> MeasuredClaim:
    """County x swapper for which some swap rate leaves at most 0.5 % to be found."""
    cases = tables["areas"].height * len(SWAPPERS)
    found = _least_at_private_rates(tables).height
    return counted(found, cases, "county x swapper, at every age width")


def noise_beside_private_rates(tables: Tables, *, buckets: int) -> MeasuredClaim | None:
    """Where there is such a rate: is noise as accurate at every epsilon from 2?"""
    kl = curve(tables).filter(pl.col("parameter") >= 2, mechanism=DP, buckets=buckets)
    dp = kl.group_by("county").agg(pl.col("mean").max().alias("dp"))
    both = _least_at_private_rates(tables).join(dp, on="county")
    if both.is_empty():
        return None
    better = both.filter(pl.col("dp") <= claims.FACTOR * pl.col("swap"))
    return counted(better.height, both.height, "county x swapper that has such a rate")


def fifteen_attributes(tables: Tables, *, everything: bool) -> MeasuredClaim | None:
    """Shares identified at rate 1, similar swapping, by what the attacker knows."""
    rows = _similar(attacks(tables, attributes=15)).filter(rate=1.0)
    end = rows.filter((pl.col("key").str.count_matches(" x ") > 2) == everything)
    if end.is_empty():
        return None
    return verdict(f"{_least(end):.1f} % to {_largest(end):.1f} %", _least(end) >= 15)


def expected_change(tables: Tables) -> MeasuredClaim:
    """Simulated changes of shares that agree with theorem 1."""
    table = tables["theorem_1"]
    away = (pl.col("simulated_change") - pl.col("expected_change")).abs()
    fits = table.filter(away <= ERRORS * pl.col("standard_error") + 1e-12)
    return counted(fits.height, table.height, "county x group x rate")


def expected_error(tables: Tables) -> MeasuredClaim:
    """Cases in which the expected absolute change is the absolute expected change."""
    table = tables["theorem_1"]
    change = pl.col("expected_change").abs()
    values = table.select(pl.col("expected_absolute_change") / change).to_series()
    equal, largest = int((values <= 1.01).sum()), float(values.max())  # type: ignore[arg-type]
    words = f"equal in {equal} of {len(values)}; otherwise up to {largest:.1f} times larger"
    return verdict(words, equal == len(values))


def exact_variances(tables: Tables) -> MeasuredClaim:
    """Printed variances that are those of the formula."""
    table = tables["variance"]
    exact = table.filter((pl.col("paper") - pl.col("exact")).abs() <= 0.001)
    return counted(exact.height, table.height, "rows within 0.001")


def simulated_variances(tables: Tables) -> MeasuredClaim:
    """Variances of the shipped noise that are those of the formula."""
    table = tables["variance"]
    close = table.filter((pl.col("simulated") / pl.col("exact") - 1).abs() <= 0.06)
    return counted(close.height, table.height, "rows simulated within 6 %")


def combinations_of_a_group(_tables: Tables) -> MeasuredClaim:
    """Cells of one group by the number of age buckets."""
    ours = [combinations(buckets) for buckets in BUCKETS]
    return verdict(", ".join(str(count) for count in ours), ours == [8, 24, 180])


def combinations_of_fifteen(_tables: Tables) -> MeasuredClaim:
    """Cells of one group with fifteen attributes."""
    many = detailed_combinations()
    return verdict(f"{many:,}", many == 2_469_035_520)


def combinations_rounded(_tables: Tables) -> MeasuredClaim:
    """The same as the appendix rounds it."""
    many = detailed_combinations()
    return verdict(f"{many:.3g}", abs(many / 1.47e9 - 1) <= 0.01)
