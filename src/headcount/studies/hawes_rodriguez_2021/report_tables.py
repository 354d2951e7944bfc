"""The tables of the report of hawes-rodriguez-2021."""

from __future__ import annotations

import polars as pl

from headcount.evaluate.attackers import COMMERCIAL, PERFECT
from headcount.evaluate.reidentified import ALL, TELLING
from headcount.report.model import Column, Table, table_from_frame
from headcount.studies.hawes_rodriguez_2021.accuracy import EVERY, TOTAL
from headcount.studies.hawes_rodriguez_2021.crossing import OWN
from headcount.studies.hawes_rodriguez_2021.report_words import (
    Tables,
    main_methods,
    swapping_noise,
)

METHOD = Column(key="method", label="Method")
_RATES = (
    ("putative_percent", "matched", "matched", "%"),
    ("precision", "right", "right", "%"),
    ("proportional_guess", "guess", "prop. guess", "%"),
    ("modal_guess", "modal", "modal guess", "%"),
)
_GUESSES = ["modal guess", "proportional guess"]


def suppression_table(tables: Tables) -> Table:
    """Everything withheld."""
    return table_from_frame(
        tables["suppression"].with_columns(pl.col("level").str.replace("_", " ")),
        name="suppression",
        caption="Cells and tables withheld by the rules of 1980, and with the complement.",
        columns=[
            Column(key="table", label="Table"),
            Column(key="rule", label="Rule"),
            Column(key="level", label="Level"),
            Column(key="total", label="Of", unit="cells or tables", format=",d"),
            Column(key="withheld", label="Withheld", format=",d"),
            Column(key="percent", label="Withheld", unit="%", format=".1f"),
        ],
        notes="Cells of units with people; P3 and P4 as tables in units with an adult; housing "
        "tables (SF1_housing) in units with an occupied home. Complementary: small cells and those "
        "that would give them away; the other rules are primary only.",
        folded=True,
    )


def recovered_table(tables: Tables) -> Table:
    """Hidden cells that other tables give back."""
    return table_from_frame(
        tables["recovered"].with_columns(pl.col("level").str.replace("_", " ")),
        name="recovered",
        caption="Cells changed to 0, and how many of them a reader works out again.",
        columns=[
            Column(key="table", label="Table"),
            Column(key="level", label="Level"),
            Column(key="changed", label="Changed to 0", format=",d"),
            Column(key="from_total", label="Follow from the total", format=",d"),
            Column(key="from_p12", label="Follow from P12A to P12I", format=",d"),
            Column(key="from_p12_percent", label="Follow from P12A to P12I", unit="%",
                   format=".0f"),
        ],
        notes="P12A to P12I (sex by age for each group) hold the groups again and stay published "
        "wherever 15 people or more live. P2: the groups of white only.",
    )  # fmt: skip


def reid_table(tables: Tables, attacker: str) -> Table:
    """Precision of the main methods for one attacker, with guesses beside every rate."""
    reid = tables["reid"].filter(attacker=attacker)
    groups = ((ALL, "Everyone"), (TELLING, "Hard to guess"))
    names = [*main_methods(tables), *_GUESSES]
    frame = pl.DataFrame({"method": names})
    columns = [METHOD]
    for universe, words in groups:
        rates = reid.filter(universe=universe).select(
            "method",
            *(pl.col(column).alias(f"{words} {key}") for column, key, _, _ in _RATES),
        )  # fmt: skip
        frame = frame.join(rates, on="method", how="left", maintain_order="left")
        columns += [
            Column(key=f"{words} {key}", label=f"{words}: {label}" if key == "matched" else label,
                   unit=unit, format=".1f")
            for _, key, label, unit in _RATES
        ]  # fmt: skip
    perfect = attacker == PERFECT
    return table_from_frame(
        frame,
        name="reidentified" if perfect else "reidentified-commercial",
        caption=f"Re-identification by the {attacker} attacker, with guesses beside every rate.",
        columns=columns,
        notes="Matched: putative, in percent of the attacker's file. Right: confirmed, in percent "
        f"of the matched. Hard to guess: {TELLING}. Guesses are from the shares of the block in "
        "the same release; the last two rows guess from exact counts. Intervals, and all other "
        "groups of people, are in tables/reid.csv.",
        folded=not perfect,
    )


def experiments_table(tables: Tables) -> Table:
    """Every swapping experiment as in the slides."""
    found = swapping_noise(tables)
    for attacker, short in ((COMMERCIAL, "c"), (PERFECT, "p")):
        for universe, name in ((ALL, "all"), (TELLING, "hard")):
            rates = tables["reid"].filter(attacker=attacker, universe=universe).select(
                "method",
                pl.col("precision").alias(f"{short}_{name}"),
                pl.col("proportional_guess").alias(f"{short}_{name}_guess"),
                pl.col("putative_percent").alias(f"{short}_{name}_putative"),
                pl.col("confirmed_percent").alias(f"{short}_{name}_confirmed"),
            )  # fmt: skip
            found = found.join(rates, on="method", maintain_order="left")
    return table_from_frame(
        found,
        name="experiments",
        caption="Every swapping experiment.",
        columns=[
            METHOD,
            Column(key="rate", label="Swapped", unit="%", format=".0f"),
            Column(key="noise", label="Noise"),
            Column(key="c_all_putative", label="Putative", unit="% of file", format=".1f"),
            Column(key="c_all_confirmed", label="Confirmed", unit="% of file", format=".1f"),
            Column(key="c_all", label="Precision", unit="%", format=".1f"),
            Column(key="c_all_guess", label="Guess", unit="%", format=".1f"),
            Column(key="p_hard", label="Hard to guess, perfect attacker", unit="%", format=".1f"),
            Column(key="p_hard_guess", label="Guess", unit="%", format=".1f"),
        ],
        notes="The first four rates: commercial-like attacker, everyone, as in the slides. Guess: "
        "the proportional guess from the same release.",
        folded=True,
    )


def errors_table(tables: Tables) -> Table:
    """Errors of totals over all counties and places, and by size."""
    frame = tables["mae"].filter(
        pl.col("method").is_in(main_methods(tables)), statistic=TOTAL
    ).with_columns(pl.when(size_category=EVERY).then(pl.lit("all sizes"))
                   .otherwise("size_category").alias("size_category"))  # fmt: skip
    return table_from_frame(
        frame,
        name="errors",
        caption="Mean absolute error of total population.",
        columns=[
            METHOD,
            Column(key="area", label="Area"),
            Column(key="size_category", label="Population"),
            Column(key="units", label="Areas", format=",d"),
            Column(key="mae", label="MAE", unit="people", format=",.1f"),
            Column(key="mae_low", label="from", unit="people", format=",.1f"),
            Column(key="mae_high", label="to", unit="people", format=",.1f"),
        ],
        notes="From, to: 95 % interval of the mean over replicates.",
        folded=True,
    )


def claims_table(tables: Tables) -> Table:
    """The conclusions of the slides one by one."""
    return table_from_frame(
        tables["claims"],
        name="claims",
        caption="The slides' conclusions one by one.",
        columns=[
            Column(key="claim", label="Conclusion"),
            Column(key="paper", label="Published"),
            Column(key="ours", label="Here"),
            Column(key="holds", label="Holds"),
            Column(key="criterion", label="Judged by"),
            Column(key="source", label="Published in"),
        ],
        notes="Means over replicates. “Later report”: the Bureau's technical report on the same "
        "attack, with other tables and denominators than the slides. A conclusion that does not "
        "hold here may hold for the census of 2010: this population is another.",
    )


def crossing_table(tables: Tables) -> Table:
    """From which epsilon TopDown leaves the guess."""
    return table_from_frame(
        tables["crossing"].filter(guess=OWN),
        name="crossing",
        caption="The ε from which TopDown's precision is 5 points above the proportional guess.",
        columns=[
            Column(key="loss", label="Noise"),
            Column(key="attacker", label="Attacker"),
            Column(key="universe", label="People"),
            Column(key="words", label="ε"),
        ],
        notes="Between two ε that were tried, straight in the logarithm of ε. “Above”: not reached "
        "at the largest ε tried. The guess is from the same release; tables/crossing.csv also has "
        "the guess from exact counts.",
    )


def agreement_table(tables: Tables) -> Table:
    """Records that are those of real people."""
    found = tables["agreement"].filter(pl.col("method").is_in(main_methods(tables)))
    wide = found.pivot("blocks", index="method", values="agreement")
    labels = [name for name in wide.columns if name != "method"]
    return table_from_frame(
        wide,
        name="agreement",
        caption="Records that are those of a real person of the block (sex, age bin, race, "
        "origin), in percent of the people there.",
        columns=[METHOD, *(Column(key=name, label=name, unit="%", format=".1f")
                           for name in labels)],
        folded=True,
    )  # fmt: skip


def published_table(tables: Tables) -> Table:
    """Printed numbers beside these."""
    return table_from_frame(
        tables["published"].with_columns(pl.col("quantity").str.replace("_", " ")),
        name="published",
        caption="Printed numbers beside this run's.",
        columns=[
            Column(key="quantity", label="Quantity"),
            Column(key="source", label="Published in"),
            Column(key="unit", label="Unit"),
            Column(key="paper", label="Published", format=".1f"),
            Column(key="ours", label="Here", format=".1f"),
        ],
        notes="Not judged: the people are others. The row of TopDown has no counterpart here, "
        "where several ε are run.",
        folded=True,
    )


def methods_table(tables: Tables) -> Table:
    """Every method and its promise."""
    return table_from_frame(
        tables["methods"],
        name="methods",
        caption="Every method, its dials and its promise.",
        columns=[
            METHOD,
            Column(key="swapped_percent", label="Swapped", unit="%", format=".0f"),
            Column(key="size_perturbed_percent", label="Size noise", unit="%", format=".0f"),
            Column(key="tract_perturbed_percent", label="Tract noise", unit="%", format=".0f"),
            Column(key="rho", label="ρ", format=".4g"),
            Column(key="guarantee", label="Promise"),
        ],
        notes="ρ is the largest, to four digits, that is worth the ε in the name at δ = 10⁻¹⁰.",
        folded=True,
    )
