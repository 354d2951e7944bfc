"""A comparison: cases run and measured on the study frame, and the tables that are made of that.

    people  = sum of |released - exact| / counts             the mean error of a count, in people
    percent = 100 x sum of |released - exact| / sum of exact   the same beside what is counted
    bias    = sum of (released - exact) / counts

where
    the sums run over the counts of one set, which is the same for every case, and over replicates
    se      of a percentage: standard deviation between replicates / sqrt(replicates)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from headcount.comparison.cache import FRAMES, Frames, source_digest
from headcount.comparison.cases import Case, Released, joined, run_cases
from headcount.comparison.measures import EVERYBODY, Measuring
from headcount.comparison.methods import (
    NONE,
    ComparedDomain,
    LeftOut,
    Offered,
    Stated,
    Way,
    promises,
)
from headcount.comparison.settings import Settings
from headcount.comparison.study import Findings, Work
from headcount.errors import HeadcountError, InputError
from headcount.evaluation.answers import EVERY_CELL, EVERYONE
from headcount.evaluation.tally import SUMS, mean_errors
from headcount.mechanisms import ChainDesign
from headcount.registry import MECHANISMS
from headcount.tabulate import Tabulated
from headcount.tabulate.published import TableCells
from headcount.typed import shaping

FEWEST_COUNTS = 10
"""Groups of fewer counts are not ranked by their percentage: it would be chance."""
MOST_HURT = 10


def _choose(ways: Sequence[Way], data: Tabulated) -> tuple[tuple[Way, ...], tuple[LeftOut, ...]]:
    """What can be done to these people, and what not; the reasons may tell of them."""
    fine, refused = [], []
    for way in ways:
        try:
            way.design.check(way.mechanism.cut(data))
        except HeadcountError as error:
            refused.append(LeftOut(way.name, str(error)))
        else:
            fine.append(way)
    return tuple(fine), tuple(refused)


def _replicates_of(settings: Settings, domain: ComparedDomain) -> int:
    """Runs of each case: as asked for, or as the preset says for so many counts."""
    if settings.replicates is not None:
        return settings.replicates
    preset = settings.what
    return preset.fewer if _counts_of(domain) > preset.few_above else preset.replicates


def _counts_of(domain: ComparedDomain) -> int:
    """Counts of the public domain, all levels together."""
    units = sum(domain.geography.size(level) for level in domain.geography.levels)
    return units * int(domain.schema.possible.sum())


def run(
    data: Tabulated, offer: Offered, domain: ComparedDomain, settings: Settings, work: Work
) -> Findings:
    """Run every case that the data allow; the same settings give the same result."""
    if not data.counts.matrix.count_nonzero():
        raise InputError(
            "compare",
            found="only counts of 0",
            expected=f"at least one {data.counts.domain.counted.one}",
        )
    ways, refused = _choose(offer.ways, data)
    replicates = _replicates_of(settings, domain)
    promised = promises(ways, domain)
    measuring = Measuring(
        cells=settings.cell_set,
        preset=settings.what,
        unit=domain.unit,
        audited=_audited(ways, promised, every=settings.what.audit_every),
        tables=_changed_tables(ways),
    )
    cases = [
        Case(
            name=way.name,
            mechanism=way.mechanism,
            runs=range(replicates if way.mechanism.draws_noise else 1),
            columns={"case": way.name},
        )
        for way in ways
    ]

    engine = work.engine

    def reduce(made: Iterator[Released]) -> Frames:
        return measuring.measured(made, engine)

    found = run_cases(
        cases,
        reduce,
        data=data,
        seed=settings.seed,
        work=work,
        what="Comparing",
        inputs=f"{data.digest.hex()} {measuring!r} {_sources(ways)} {_tables(measuring)}",
        made_by="headcount.comparison.measures",
        codec=FRAMES,
        join=joined,
    )
    frames = joined(found)
    left_out = [*offer.left_out, *refused]
    tables = _made_tables(frames, ways, promised, domain, left_out)
    return Findings(
        settings=settings,
        tables=tables,
        confidential=not data.population.public,
        facts={
            "domain": domain,
            "ways": ways,
            "own": offer.own,
            "left_out": left_out,
            "replicates": replicates,
            "few": settings.replicates is None and replicates == settings.what.fewer,
        },
    )


def _changed_tables(ways: Sequence[Way]) -> tuple[tuple[TableCells, str], ...]:
    """The tables whose counts some case changes; one name may not stand for two tables."""
    found: dict[tuple[str, str], TableCells] = {}
    for way in ways:
        for cells, level in way.design.last.tables:
            known = found.setdefault((cells.table.name, level), cells)
            if known.table != cells.table:
                raise InputError(
                    "compare",
                    place=way.name,
                    found=f"another table {cells.table.name!r} than in the cases before it",
                    expected="a name of its own for each table",
                )
    return tuple((cells, level) for (_, level), cells in found.items())


def _tables(measuring: Measuring) -> list[tuple[object, str]]:
    return [(cells.table, level) for cells, level in measuring.tables]


def _sources(ways: Sequence[Way]) -> str:
    """The code of the methods: found by name, so that no import of ours shows it to the cache."""
    found = set()
    for part in (part for way in ways for part in way.mechanism.parts):
        outside = MECHANISMS.outside(part)
        found.add(outside or source_digest(type(part).__module__))
    return " ".join(sorted(found))


def _audited(
    ways: Sequence[Way], promised: Mapping[str, Stated], *, every: bool
) -> tuple[str, ...]:
    """The cases that are audited: all with a loss, or of each method the one with the largest.

    A fault of the code shows best where there is least noise.
    """
    losses = {
        way.name: (way.method, epsilon)
        for way in ways
        if (epsilon := promised[way.name].epsilon) is not None
    }
    if every:
        return tuple(losses)
    best: dict[str, tuple[float, str]] = {}
    for name, (method, epsilon) in losses.items():
        best[method] = max(best.get(method, (0.0, "")), (epsilon, name))
    return tuple(name for _, name in best.values())


def _made_tables(
    frames: Frames,
    ways: Sequence[Way],
    promised: Mapping[str, Stated],
    domain: ComparedDomain,
    left_out: Sequence[LeftOut],
) -> dict[str, pl.DataFrame]:
    """The tables of a comparison, those of the memo first."""
    cases = case_table(ways, promised)
    places = _errors_by_place(frames["by_place"], cases)
    short = _shortfalls(frames["by_place"], frames["withheld"], cases)
    attacks = _attack_table(frames["attacks"], cases)
    hurt = _who_is_hurt(places, levels=domain.geography.levels)
    return {
        "memo": _memo_table(
            cases,
            places,
            hurt=hurt,
            short=short,
            attacks=attacks,
            audit=frames["audit"],
            levels=domain.geography.levels,
        ),
        "cases": cases,
        "errors": places,
        "errors_by_count": _errors_by_count(frames["by_count"], cases),
        "spread": frames["spread"],
        "hurt": hurt,
        "shortfalls": short,
        "table_changes": _changes_by_table(frames["table_changes"]),
        "table_distribution": _distribution_by_table(frames),
        "table_distances": _distances_by_table(frames["table_distances"]),
        "estimated": frames["estimated"].drop("replicate"),
        "cell_deltas": frames["cell_deltas"].drop("replicate"),
        "segregation": frames["segregation"].drop("replicate"),
        "rates": frames["rates"].drop("replicate"),
        "audit": frames["audit"],
        "attacks": attacks,
        "largest": _largest_errors(frames["largest"]),
        "left_out": pl.DataFrame(
            [{"case": one.name, "why": one.why} for one in left_out],
            schema={"case": pl.String, "why": pl.String},
        ),
        "not_measured": frames["not_measured"].drop("replicate"),
    }


def case_table(ways: Sequence[Way], promised: Mapping[str, Any]) -> pl.DataFrame:
    """A row for each case: its method, its strength, and what it promises."""
    return pl.DataFrame(
        [
            {
                "case": way.name,
                "method": way.method,
                "strength": way.strength,
                "guarantee": promised[way.name].words,
                "epsilon": promised[way.name].epsilon,
                "settings": _settings_words(way.design),
            }
            for way in ways
        ],
        schema_overrides={"epsilon": pl.Float64},
    )


def _settings_words(design: ChainDesign) -> str:
    """The steps of a chain with their keys, as a config has them."""
    said, last = [], design.last
    for part in design.chain.parts:
        if part is last.method and last.secret_settings:
            said.append(last.public_text)
            continue
        shown = shaping(part, secret=False)
        keys = [f"{key} = {json.dumps(value)}" for key, value in shown.items()]
        said.append(f"{part.called}: {', '.join(keys)}" if keys else part.called)
    return "; then ".join(said)


def _errors_by_place(sums: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """Errors by level, attribute, group and people in the unit; also for units of all sizes."""
    by = ["case", "level", "attribute", "group"]
    every = sums.group_by([*by, "replicate"], maintain_order=True).agg(pl.col(tuple(SUMS)).sum())
    every = every.with_columns(
        low=pl.lit(None, dtype=pl.Int64), high=pl.lit(None, dtype=pl.Int64), band=pl.lit(ALL_SIZES)
    )
    both = pl.concat([every, sums.with_columns(band=_band_words())], how="diagonal")
    return _means(both, [*by, "band", "low", "high"], cases)


def _errors_by_count(sums: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """Errors by level, attribute and true size of the count itself."""
    named = sums.with_columns(band=_band_words())
    return _means(named, ["case", "level", "attribute", "band", "low", "high"], cases)


ALL_SIZES = "all sizes"


def _band_words() -> pl.Expr:
    """A band in words: "100 to 999", "10,000 or more"; a band of one number is that number."""
    low, last = _thousands(pl.col("low")), _thousands(pl.col("high") - 1)
    return (
        pl.when(pl.col("high").is_null())
        .then(pl.format("{} or more", low))
        .when(pl.col("high") - pl.col("low") == 1)
        .then(low)
        .otherwise(pl.format("{} to {}", low, last))
    )


def _thousands(number: pl.Expr) -> pl.Expr:
    return number.map_elements(lambda n: f"{n:,}", return_dtype=pl.String)


def _means(sums: pl.DataFrame, by: Sequence[str], cases: pl.DataFrame) -> pl.DataFrame:
    """Means over replicates and counts, in the order of the cases."""
    means = mean_errors()
    runs = pl.len().alias("replicates")
    spread = means["percent"].std() / pl.len().sqrt()
    made = (
        sums.group_by(by, maintain_order=True)
        .agg(runs, *(pl.col(name).mean() for name in SUMS), spread.alias("percent_se"))
        .with_columns(**means)
        .drop("absolute", "signed", "squared")
    )
    order = cases.select("case", "method").with_row_index("_order")
    return (
        made.join(order, on="case", maintain_order="left")
        .sort("_order", maintain_order=True)
        .drop("_order")
    )


def _who_is_hurt(places: pl.DataFrame, *, levels: Sequence[str]) -> pl.DataFrame:
    """The groups whose counts are furthest off, in percent, for each case and level.

    Groups are those of each attribute, in units of one band of size; of fewer counts than ten, or
    with fewer people than counts, none are ranked: a percentage of next to nobody says little.
    """
    ranked = (
        places.filter(
            pl.col("attribute") != EVERY_CELL,
            pl.col("band") != ALL_SIZES,
            pl.col("counts") >= FEWEST_COUNTS,
            pl.col("people") >= pl.col("counts"),
            pl.col("percent") > 0,
            pl.col("level") != levels[0],
        )
        .sort("percent", descending=True, maintain_order=True)
        .group_by("case", "level", maintain_order=True)
        .head(MOST_HURT)
    )
    return ranked.select(
        *("case", "method", "level", "attribute", "group", "band"),
        *("counts", "mean_count", "error", "percent", "bias_percent"),
    )


def _shortfalls(sums: pl.DataFrame, withheld: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """Counts below 0, groups that are lost, and people withheld, by case and level."""
    by, names = ["case", "level"], sums["attribute"].unique(maintain_order=True).to_list()
    attributes = [name for name in names if name not in (EVERYONE, EVERY_CELL)]
    finest = EVERY_CELL if EVERY_CELL in names else (attributes or [EVERYONE])[-1]

    def mean_of(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        """Means over replicates, and over attributes, each of which counts everybody once."""
        return (
            frame.group_by([*by, "replicate", "attribute"], maintain_order=True)
            .agg(pl.col(columns).sum())
            .group_by(by, maintain_order=True)
            .agg(pl.col(columns).mean())
        )

    groups = sums.filter(pl.col("attribute").is_in(attributes or [EVERYONE]))
    lost = mean_of(groups, "counts", "lost", "lost_people", "negative")
    cells = mean_of(sums.filter(attribute=finest), "counts", "negative")
    cells = cells.rename({"counts": "cells", "negative": "negative_cells"})
    gone = withheld.group_by(by, maintain_order=True).agg(
        withheld=pl.col("withheld").sum() + pl.col("zeroed").sum(),
        withheld_people_percent=pl.col("people_percent").max(),
    )
    found = lost.join(cells, on=by, how="left", maintain_order="left")
    both = found.join(gone, on=by, how="full", coalesce=True, maintain_order="left_right")
    order = cases.select("case").with_row_index("_order")
    return (
        both.join(order, on="case", maintain_order="left")
        .sort("_order", maintain_order=True)
        .drop("_order")
    )


def at_lowest(short: pl.DataFrame) -> pl.DataFrame:
    """The finest level of each case: rows of a case go from the whole down."""
    return short.group_by("case", maintain_order=True).last()


_OF_A_TABLE = ("case", "table", "level")


def _changes_by_table(changes: pl.DataFrame) -> pl.DataFrame:
    """Changes of tables beside the true ones: means over replicates, and the largest of all."""
    largest = [name for name in changes.columns if name.endswith("largest")]
    means = pl.exclude(*_OF_A_TABLE, "replicate", *largest).mean()
    spread = (pl.col("d1").std() / pl.len().sqrt()).alias("d1_se")
    every = changes.group_by(_OF_A_TABLE, maintain_order=True)
    return every.agg(pl.len().alias("replicates"), means, spread, pl.col(largest).max())


def _distribution_by_table(frames: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """How many cells of a table are changed by so much, on average over replicates."""
    runs = frames["table_changes"].group_by(_OF_A_TABLE).agg(replicates=pl.len())
    by = [*_OF_A_TABLE, "change"]
    summed = frames["table_distribution"].group_by(by, maintain_order=True).agg(pl.sum("cells"))
    return summed.join(runs, on=_OF_A_TABLE, maintain_order="left").select(
        *by, cells=pl.col("cells") / pl.col("replicates")
    )


def _distances_by_table(distances: pl.DataFrame) -> pl.DataFrame:
    """Deciles of the three distances of cells, on average over replicates."""
    by = [*_OF_A_TABLE, "distance"]
    return distances.drop("replicate").group_by(by, maintain_order=True).mean()


def _attack_table(attacks: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """What each attack found, beside guesses, and beside what it finds without any protection."""
    key = ["attack", "who"]
    bare = attacks.filter(case=NONE).select(*key, unprotected_percent="right_percent")
    joined = attacks.drop("replicate").join(bare, on=key, how="left", maintain_order="left")
    return joined.join(cases.select("case", "method"), on="case", maintain_order="left")


def _largest_errors(largest: pl.DataFrame) -> pl.DataFrame:
    """The largest errors of the first release of each case, largest first."""
    return largest.drop("replicate").filter(pl.col("error") != 0)


def _memo_table(
    cases: pl.DataFrame,
    places: pl.DataFrame,
    *,
    hurt: pl.DataFrame,
    short: pl.DataFrame,
    attacks: pl.DataFrame,
    audit: pl.DataFrame,
    levels: Sequence[str],
) -> pl.DataFrame:
    """One row a case: what it promises, what it costs where people live, and what it gives away."""
    leaf, above = levels[-1], levels[-2] if len(levels) > 1 else levels[-1]
    totals = places.filter(attribute=EVERYONE, band=ALL_SIZES)
    at_leaf = totals.filter(level=leaf).select(
        "case", leaf_error="error", leaf_percent="percent", leaf_se="percent_se"
    )
    at_above = totals.filter(level=above).select(
        "case", above_error="error", above_percent="percent"
    )
    worst = hurt.filter(level=leaf).group_by("case", maintain_order=True).first()
    worst = worst.select(
        "case", worst_percent="percent", worst=pl.format("{}: {}", "attribute", "group")
    )
    missing = at_lowest(short).select(
        "case", "negative_cells", "lost_people", "withheld_people_percent"
    )
    found = audit.select("case", audit_at_least="at_least", audit_refuted="refuted")
    named = attacks.filter(attack="reidentification", who=EVERYBODY)
    named = named.select("case", found_percent="right_percent", guess_percent="guess_percent")
    memo = cases.drop("settings")
    for more in (at_leaf, at_above, worst, missing, found, named):
        memo = memo.join(more, on="case", how="left", maintain_order="left")
    return memo
