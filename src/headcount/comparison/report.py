"""What the reports of a comparison show: views behind figures and tables, facts for the text."""

from __future__ import annotations

from typing import Any

import polars as pl

from headcount.comparison.measures import AUDITED_UNITS, EVERYBODY
from headcount.comparison.run import ALL_SIZES, at_lowest
from headcount.comparison.study import Findings
from headcount.domain import CountsOf
from headcount.evaluation.answers import EVERY_CELL, EVERYONE
from headcount.report.model import HEAT_STEPS

MOST_CURVES = 24
"""Groups of an attribute that the reader chooses from: the page holds the data of each."""
FIRST_HURT = 3
"""Groups shown for each case."""


def facts(found: Findings) -> dict[str, Any]:
    """What the text speaks of, besides what the study says."""
    levels = found.facts["domain"].geography.levels
    counted = found.facts["domain"].counted
    general = {
        "counted": counted,
        "everyone": _everyone(counted),
        "levels": list(levels),
        "leaf": levels[-1],
        "above": levels[-2] if len(levels) > 1 else levels[-1],
        "unit": found.facts["domain"].unit.phrase,
        "read_off": list(found.facts["domain"].read_off),
        "cases": found.tables["cases"].height,
        "first_counts": _first_counts(found),
        "confidential": found.confidential,
        "audited_units": AUDITED_UNITS,
        "most_curves": MOST_CURVES,
        "steps": [f"{step:g}" for step in HEAT_STEPS],
    }
    return general | _highlights(found) if "memo" in found.tables else general


def _first_counts(found: Findings) -> str:
    """The counts that a figure shows first: of an attribute, which no method keeps by design."""
    names = found.facts["domain"].schema.names
    return f"by {names[0]}" if names else "totals"


def _everyone(counted: CountsOf) -> str:
    """The group of a total."""
    return EVERYONE if counted is CountsOf.PEOPLE else f"all {counted}"


def _named(group: pl.Expr, found: Findings) -> pl.Expr:
    """A group with its attribute, or all who are counted."""
    return group.replace({f"{EVERYONE}: {EVERYONE}": found.facts["everyone"]})


def _highlights(found: Findings) -> dict[str, Any]:
    memo = found.tables["memo"]
    own = memo.filter(case=found.facts["own"])
    return {
        "own_row": own.row(0, named=True) if own.height else None,
        "refuted": found.tables["audit"].filter(refuted=True)["case"].to_list(),
        "audits": found.tables["audit"].height,
        "attacks": found.tables["attacks"]["attack"].unique(maintain_order=True).to_list(),
        "reasons": _reasons(found.tables["not_measured"]),
        "has_groups": not _groups(found.tables["errors"]).is_empty(),
        "has_tables": not found.tables["table_changes"].is_empty(),
        "has_segregation": not _segregation(found).is_empty(),
        "has_rates": not _rates(found).is_empty(),
    }


def _reasons(frame: pl.DataFrame) -> list[str]:
    """Why something was not measured, each reason once, with the cases that it holds for."""
    said = []
    by = frame.group_by("what", "why", maintain_order=True).agg("case")
    for what, why, cases in by.iter_rows():
        of = "every case" if len(cases) == frame["case"].n_unique() else ", ".join(cases)
        said.append(f"**{what}** ({of}): {why}")
    return said


def _groups(errors: pl.DataFrame) -> pl.DataFrame:
    """Errors of each group of each attribute."""
    return errors.filter(~pl.col("attribute").is_in([EVERYONE, EVERY_CELL]))


def _protected(frame: pl.DataFrame) -> pl.DataFrame:
    """Without the reference, whose errors are all 0."""
    return frame.filter(pl.col("method") != "identity")


def _banded_totals(found: Findings) -> pl.DataFrame:
    """Errors of the totals by people in the unit, below the whole where there is anything below."""
    levels = found.facts["levels"]
    return _protected(found.tables["errors"]).filter(
        pl.col("attribute") == EVERYONE,
        pl.col("band") != ALL_SIZES,
        pl.col("level").is_in(levels[1:] or levels),
    )


def _bands(found: Findings) -> list[str]:
    rows = _banded_totals(found)
    return rows.select("low", "band").unique().sort("low")["band"].to_list()


def _heat_table(found: Findings) -> pl.DataFrame:
    """Errors of the totals: a row for each level and case, columns by people in the unit."""
    rows = _banded_totals(found)
    wide = rows.pivot("band", index=["level", "case"], values=["percent", "error"])
    levels = {level: number for number, level in enumerate(found.facts["levels"])}
    return wide.sort(pl.col("level").replace_strict(levels), maintain_order=True).with_columns(
        place=pl.format("Total of each {}", "level")
    )


def _heat_columns(found: Findings) -> list[dict[str, Any]]:
    columns: list[dict[str, Any]] = []
    for band in _bands(found):
        shown = {"format": ",.1f", "shows": "heat"}
        columns.append({"key": f"percent_{band}", "label": band, "unit": "%", **shown})
        columns.append({"key": f"error_{band}", "label": "", "format": ",.1f", "under": True})
    return columns


def _group_heat(found: Findings) -> pl.DataFrame:
    rows = _protected(_groups(found.tables["errors"])).filter(band=ALL_SIZES)
    return rows.select("case", "level", "attribute", "group", "percent").drop_nulls()


def _by_band(found: Findings) -> pl.DataFrame:
    """Errors by people in the unit, in people and in percent."""
    rows = _protected(found.tables["errors"]).filter(
        pl.col("band") != ALL_SIZES, pl.col("attribute") != EVERY_CELL
    )
    many = pl.col("group").n_unique().over("attribute") > MOST_CURVES
    rows = rows.filter(~many).sort("low", maintain_order=True)
    counted: CountsOf = found.facts["counted"]
    named = rows.with_columns(
        group=pl.when(attribute=EVERYONE)
        .then(pl.lit(_everyone(counted)))
        .otherwise(pl.format("{}: {}", "attribute", "group"))
    )
    long = named.select(
        *("case", "method", "level", "group", "band"),
        pl.col("percent").round_sig_figs(4).alias(f"percent of {counted}"),
        pl.col("error").round_sig_figs(4).alias(str(counted)),
    ).unpivot(
        [f"percent of {counted}", str(counted)],
        index=["case", "method", "level", "group", "band"],
        variable_name="in",
        value_name="value",
    )
    return long.drop_nulls()


def _bias(found: Findings) -> pl.DataFrame:
    rows = _protected(found.tables["errors_by_count"]).with_columns(
        attribute=pl.col("attribute").replace({EVERYONE: found.facts["everyone"]})
    )
    return rows.select("case", "method", "level", "attribute", "band", "low", "bias").sort(
        "low", maintain_order=True
    )


def _hurt(found: Findings) -> pl.DataFrame:
    leaf = found.tables["hurt"].filter(level=found.facts["leaf"])
    first = leaf.group_by("case", maintain_order=True).head(FIRST_HURT)
    order = {case: number for number, case in enumerate(found.tables["cases"]["case"])}
    return first.sort(pl.col("case").replace_strict(order), maintain_order=True).with_columns(
        who=_named(pl.format("{}: {}", "attribute", "group"), found)
    )


def _largest(found: Findings) -> pl.DataFrame:
    everyone = {EVERYONE: found.facts["everyone"]}
    return found.tables["largest"].with_columns(group=pl.col("group").replace(everyone))


def _shortfalls(found: Findings) -> pl.DataFrame:
    rows = at_lowest(found.tables["shortfalls"])
    return rows.with_columns(
        negative_percent=100 * pl.col("negative_cells") / pl.col("cells"),
        lost_percent=100 * pl.col("lost") / pl.col("counts"),
    )


def _table_changes(found: Findings) -> pl.DataFrame:
    """Changes of each table at the lowest of its levels, with the delta of one cell."""
    depth = {level: number for number, level in enumerate(found.facts["levels"])}
    lowest = pl.col("level").replace_strict(depth, return_dtype=pl.Int64)
    rows = found.tables["table_changes"].filter(lowest == lowest.max().over("table"))
    at_one = found.tables["cell_deltas"].filter(epsilon=1.0).select("case", delta="largest")
    return (
        rows.join(at_one, on="case", how="left", maintain_order="left")
        .with_columns(place=pl.format("Table {} at {}", "table", "level"))
        .sort("table", maintain_order=True)
    )


def _changes_by_level(found: Findings) -> pl.DataFrame:
    cases = found.tables["cases"].select("case", "method")
    return _protected(found.tables["table_changes"].join(cases, on="case", maintain_order="left"))


def _segregation(found: Findings) -> pl.DataFrame:
    """Mean indices over the groups of an attribute, beside those in truth."""
    return _over_groups(
        found.tables["segregation"].with_columns(
            units=pl.format("{} within each {}", "level", "within")
        ),
        by=("attribute", "index", "units"),
        value="bias",
        found=found,
    )


def _rates(found: Findings) -> pl.DataFrame:
    """Mean errors of rates over the groups of an attribute."""
    return _over_groups(
        found.tables["rates"], by=("level", "rate"), value="mean_absolute", found=found
    )


def _over_groups(
    frame: pl.DataFrame, *, by: tuple[str, ...], value: str, found: Findings
) -> pl.DataFrame:
    """A mean for each case over groups, each of which weighs the same; the finest level first."""
    depth = {level: number for number, level in enumerate(found.facts["domain"].geography.levels)}
    finest = pl.col("level").replace_strict(depth, return_dtype=pl.Int64)
    rows = frame.sort(finest, descending=True, maintain_order=True)
    means = rows.group_by("case", *by, maintain_order=True).agg(pl.col(value).mean())
    cases = found.tables["cases"].select("case", "method")
    return _protected(means.join(cases, on="case", maintain_order="left")).drop_nulls(value)


def _trade_off(found: Findings) -> pl.DataFrame:
    """Errors of totals and of every finer count at each guarantee."""
    errors = _protected(found.tables["errors"]).filter(band=ALL_SIZES)
    sums = (
        errors.group_by("case", "method", "level", "attribute", maintain_order=True)
        .agg(pl.col("percent").mul(pl.col("people")).sum() / pl.col("people").sum())
        .rename({"percent": "error"})
    )
    cases = found.tables["cases"].select("case", "epsilon", "strength")
    return (
        sums.join(cases, on="case", maintain_order="left")
        .with_columns(
            promise=pl.when(pl.col("epsilon").is_not_null())
            .then(pl.format("ε {}", _short(pl.col("epsilon"))))
            .otherwise(pl.format("none ({})", "strength")),
            counts=pl.when(attribute=EVERYONE)
            .then(pl.lit("totals"))
            .when(attribute=EVERY_CELL)
            .then(pl.lit(EVERY_CELL))
            .otherwise(pl.format("by {}", "attribute")),
        )
        .sort(pl.col("epsilon").fill_null(float("inf")), maintain_order=True)
        .drop_nulls("error")
    )


def _short(number: pl.Expr) -> pl.Expr:
    return number.map_elements(lambda n: f"{n:.3g}", return_dtype=pl.String)


def _attack_points(found: Findings) -> pl.DataFrame:
    long = found.tables["attacks"].unpivot(
        ["right_percent", "guess_percent"],
        index=["case", "attack", "who"],
        variable_name="what",
        value_name="percent",
    )
    words = {"right_percent": "attack", "guess_percent": "guess from the unit alone"}
    return long.with_columns(
        what=pl.col("what").replace(words), percent=pl.col("percent").fill_nan(None)
    ).drop_nulls()


def _attack_rows(found: Findings) -> pl.DataFrame:
    named = (
        pl.when(who=EVERYBODY)
        .then(pl.col("attack"))
        .otherwise(pl.format("{}, people {}", "attack", "who"))
    )
    return found.tables["attacks"].with_columns(kind=named)


def _predicted(found: Findings) -> pl.DataFrame:
    rows = found.tables["predicted"]
    # Units of a level may have shares of their own: the widest noise of them is shown.
    return rows.pivot("query", index=["case", "level"], values="within", aggregate_function="max")


def _predicted_columns(found: Findings) -> list[dict[str, Any]]:
    every = found.tables["predicted"]["query"].unique(maintain_order=True).to_list()
    ends = {"total": -1, EVERY_CELL: 1}
    queries = sorted(every, key=lambda query: ends.get(query, 0))
    shown = {"unit": str(found.facts["counted"]), "format": ",.0f"}
    return [{"key": query, "label": query, **shown} for query in queries]


def _memo(found: Findings) -> pl.DataFrame:
    """The memo with the guarantee under the name, where the name does not say it."""
    said = pl.col("case").str.contains(pl.col("guarantee"), literal=True)
    none = pl.col("guarantee") == "none"
    return found.tables["memo"].with_columns(
        worst=_named(pl.col("worst"), found),
        promise=pl.when(none)
        .then(pl.lit("no guarantee"))
        .when(said)
        .then(pl.lit(""))
        .otherwise("guarantee"),
    )


def _memo_columns(found: Findings) -> list[Any]:
    """What only some comparisons have: a column in which nothing stands is left out."""
    memo = found.tables["memo"]
    columns: list[Any] = ["case", "promise"]
    columns += [
        {"key": name, "label": name.removeprefix("usable: "), "unit": "usable down to"}
        for name in memo.columns
        if name.startswith("usable: ")
    ]
    columns += ["alone_found_percent", "alone_right_percent"]
    for name in ("named_percent", "withheld_people_percent"):
        columns += [name] if memo[name].drop_nulls().len() else []
    return columns


def _cost_columns(found: Findings) -> list[Any]:
    """What only some comparisons have is left out."""
    memo = found.tables["memo"]
    columns: list[Any] = ["case", "counts_percent", "counts_error", "worst_percent", "worst"]
    columns += ["lost_people"] if memo["lost_people"].drop_nulls().len() else []
    columns += ["negative_cells"] if (memo["negative_cells"].fill_null(0) > 0).any() else []
    return columns


def whole(number: float) -> str:
    """A number with three digits, or all of its whole ones."""
    return format(number, ",.0f" if abs(number) >= 100 else ".3g")


FILTERS = {"whole": whole}
VIEWS = {
    "memo": _memo,
    "costs": _memo,
    "heat": _heat_table,
    "heat-groups": _group_heat,
    "error-by-size": _by_band,
    "bias-by-count": _bias,
    "hurt-most": _hurt,
    "missing": _shortfalls,
    "largest": _largest,
    "table-changes": _table_changes,
    "table-changes-by-level": _changes_by_level,
    "segregation": _segregation,
    "rates": _rates,
    "trade-off": _trade_off,
    "attack-rates": _attack_points,
    "attack-table": _attack_rows,
    "predicted-errors": _predicted,
}
COLUMNS = {
    "memo": _memo_columns,
    "costs": _cost_columns,
    "heat": _heat_columns,
    "predicted-errors": _predicted_columns,
}
