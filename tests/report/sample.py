"""A sample report with every kind of block, on simulated noise; its numbers mean nothing more."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl

from headcount.report.figures import (
    Axis,
    Control,
    Reference,
    band_chart,
    histogram_chart,
    line_chart,
    point_chart,
)
from headcount.report.model import (
    Callout,
    Column,
    Figure,
    KeyNumber,
    KeyNumbers,
    Prose,
    Provenance,
    Report,
    Section,
    Subheading,
    Table,
    table_from_frame,
)

EPSILON = {"geometric": 0.025, "averaged": 0.05, "raked": 0.1}
FIGURE_NAMES = ("residuals", "loss-curves", "loss-by-epsilon", "error-by-level", "many-methods")

PROVENANCE = Provenance(
    recipe="headcount study flaxman-2019 --out flaxman --seed 12345 --replicates 20",
    config="[study]\nname = 'flaxman-2019'\nepsilon = [0.025, 0.05, 0.1]\n",
    versions=(("Python", "3.11.2"), ("headcount", "0.1.0"), ("numpy", "2.3.1")),
    seeds=(12345,),
    date="4 May 2025, 10:12 UTC",
    machine="Linux, x86_64, 2 cores, 8 GiB of memory",
)


def two_sided_geometric(rng: np.random.Generator, z: float, size: int) -> np.ndarray:
    p = 1 - np.exp(-z)
    return rng.geometric(p, size) - rng.geometric(p, size)


def residual_frame(size: int = 3000) -> pl.DataFrame:
    rng = np.random.default_rng(7)
    parts = {
        "geometric": two_sided_geometric(rng, 0.025, size),
        "averaged": np.mean([two_sided_geometric(rng, 0.0125, size) for _ in range(4)], axis=0),
        "raked": two_sided_geometric(rng, 0.024, size) * rng.normal(1.0, 0.03, size),
    }
    frames = [
        pl.DataFrame({"mechanism": f"{name}, ε = {EPSILON[name]}", "residual": values})
        for name, values in parts.items()
    ]
    return pl.concat([f.with_columns(pl.col("residual").cast(pl.Float64)) for f in frames])


def curve_frame() -> pl.DataFrame:
    k = np.arange(-100, 101, 2)
    shapes = {
        "geometric": 0.025 * np.sign(k),
        "averaged": 0.025 * np.tanh(k / 45),
        "raked": 0.0245 * np.sign(k) * (1 - np.exp(-np.abs(k) / 9)),
    }
    return pl.concat(
        pl.DataFrame({"mechanism": f"{name}, ε = {EPSILON[name]}", "k": k, "loss": loss})
        for name, loss in shapes.items()
    )


def epsilon_frame() -> pl.DataFrame:
    ratio = {"geometric": 1.0, "averaged": 0.5, "raked": 0.25}
    rows = [
        (name, epsilon, r * epsilon, r * epsilon * 0.8, r * epsilon * 1.22)
        for name, r in ratio.items()
        for epsilon in (0.025, 0.05, 0.1, 0.2, 0.4)
    ]
    return pl.DataFrame(rows, schema=["mechanism", "epsilon", "epl", "low", "high"], orient="row")


def level_frame() -> pl.DataFrame:
    rows = [
        (level, name, epsilon, base / epsilon**0.9 * factor)
        for level, base in (("state", 3.0), ("county", 8.0), ("district", 21.0))
        for name, factor in (("topdown", 1.0), ("sampling", 1.7))
        for epsilon in (0.25, 0.5, 1.0, 2.0, 4.0)
    ]
    return pl.DataFrame(rows, schema=["level", "mechanism", "epsilon", "error"], orient="row")


def residual_figures() -> tuple[Figure, Figure]:
    noise = Axis(column="residual", title="Noise added to a count (people)", domain=(-150.0, 150.0))
    residuals = Figure(
        name="residuals",
        caption="How far the protected counts are from the true ones. Each outline is one method; "
        "the **wider** it is, the more noise. *Click a name in the legend to pick it out.*",
        alt="Three overlaid histograms of residuals, all centred on zero and of similar width.",
        chart=histogram_chart(residual_frame(), value=noise, series="mechanism", bin_width=5),
    )
    curves = Figure(
        name="loss-curves",
        caption="Estimated privacy loss at each size of noise. The guarantee of the geometric "
        "method, 0.025, is the dashed line.",
        alt="Three curves of privacy loss that rise from minus 0.025 to plus 0.025.",
        chart=line_chart(
            curve_frame(),
            x=Axis(column="k", title="Noise added to a count (people)"),
            y=Axis(column="loss", title="Empirical privacy loss", format=".3f"),
            series="mechanism",
            references=[Reference(label="ε = 0.025", y=0.025)],
        ),
    )
    return residuals, curves


def comparison_figures() -> tuple[Figure, Figure]:
    by_epsilon = Figure(
        name="loss-by-epsilon",
        caption="Promised against measured privacy loss; bands hold 90 % of replicates.",
        alt="Measured loss equals promised loss for geometric, half for averaged, a quarter raked.",
        chart=band_chart(
            epsilon_frame(),
            x=Axis(
                column="epsilon",
                title="Promised loss (ε, one person added)",
                scale="log",
                ticks=(0.025, 0.05, 0.1, 0.2, 0.4),
                format="~g",
            ),
            y=Axis(column="epl", title="Measured loss", scale="log"),
            low="low",
            high="high",
            series="mechanism",
        ),
    )
    by_level = Figure(
        name="error-by-level",
        caption="Typical error at the level you choose.",
        alt="Error falls as epsilon grows, at each level of geography.",
        chart=point_chart(
            level_frame(),
            x=Axis(
                column="epsilon",
                title="Privacy loss (ε)",
                scale="log",
                format="~g",
                ticks=(0.25, 0.5, 1, 2, 4),
            ),
            y=Axis(column="error", title="Mean absolute error (people)", zero=True),
            series="mechanism",
            controls=[Control(column="level", label="Level")],
        ),
    )
    return by_epsilon, by_level


def many_frame() -> pl.DataFrame:
    """Eight series with long names, two alike; the last is not there in districts."""
    rows = [
        (level, f"method number {number} with a long name", epsilon, max(number, 1) / epsilon)
        for level in ("state", "district")
        for number in range(8)
        for epsilon in (0.5, 1.0, 2.0)
        if (level, number) != ("district", 7)
    ]
    return pl.DataFrame(rows, schema=["level", "method", "epsilon", "error"], orient="row")


def many_figure() -> Figure:
    return Figure(
        name="many-methods",
        caption="**Many methods.** Their names are long.",
        alt="Eight lines that fall.",
        chart=line_chart(
            many_frame(),
            x=Axis(column="epsilon", title="Privacy loss (ε)"),
            y=Axis(column="error", title="Error (people)"),
            series="method",
            controls=[Control(column="level", label="Level")],
        ),
    )


def verdict_table() -> Table:
    rows = (
        ("A smaller ε errs more", "all methods", "reproduced", "", "loss-by-epsilon"),
        ("Half of ε is seen", "within 10 %", "undecided", "chance; one draw", ""),
        ("Nobody is found", "none", "not reproduced here", "unknown; one draw", "residuals"),
        ("It takes a year", "none", "not testable here", "a plan, not a measurement", ""),
    )
    return Table(
        name="verdicts",
        caption="What is said, and what was found.",
        columns=(
            Column(key="claim", label="Claim"),
            Column(key="rule", label="Judged by", under=True),
            Column(key="outcome", label="Verdict", shows="verdict"),
            Column(key="why", label="", under=True),
            Column(key="figure", label="", shows="link", under=True),
        ),
        rows=rows,
        groups=("2 Accuracy", "2 Accuracy", "3 Privacy", "3 Privacy"),
    )


@cache
def sample_report(*, confidential: bool = False) -> Report:
    residuals, curves = residual_figures()
    by_epsilon, by_level = comparison_figures()
    columns = [
        Column(key="mechanism", label="Mechanism"),
        Column(key="epsilon", label="Promised loss", unit="ε, one person added", format=".3f"),
        Column(key="epl", label="Measured loss", unit="median over replicates", format=".4f"),
        Column(key="low", label="5 % of runs below", format=".4f"),
        Column(key="high", label="5 % of runs above", format=".4f"),
    ]
    small = table_from_frame(
        epsilon_frame().filter(pl.col("epsilon") == 0.1),
        name="loss-table",
        caption="Promised and measured privacy loss.",
        columns=columns,
        notes="Means over 20 replicates. A dash means that the value is *not defined*.",
    )
    whole = replace(
        table_from_frame(
            epsilon_frame(), name="loss-table-all", caption="Every ε tried.", columns=columns
        ),
        folded=True,
    )
    return Report(
        title="How much privacy do counting methods really give away?",
        subtitle="Three ways to add noise to population counts, their promise and what we measured",
        summary=(
            Prose(
                "Adding noise to counts protects the people counted. A method *promises* a limit "
                "on what anyone can learn, called ε. This study measures how much of that limit "
                "is used. All three methods kept their promise; two of them by a wide margin."
            ),
            KeyNumbers(
                (
                    KeyNumber(value="1.00", unit="× ε", label="geometric: uses its whole promise"),
                    KeyNumber(value="0.50", unit="× ε", label="averaged: uses about half"),
                    KeyNumber(value="0.25", unit="× ε", label="raked: uses about a quarter"),
                    KeyNumber(value="2,744", unit="areas", label="of about 364 people each"),
                )
            ),
            Callout(
                "key finding",
                "Raking to the totals above **does not spend** the whole budget that the "
                "composition theorem allows for; see [](#loss-curves).",
            ),
        ),
        sections=(
            Section(
                title="What we did",
                blocks=(
                    Prose(
                        "We drew a population of one million people over three nested levels of "
                        "areas and protected its counts with each method.\n\n"
                        "- **geometric** adds two-sided geometric noise to each count;\n"
                        "- **raked** adds noise at every level and scales it to the level above;\n"
                        "- **averaged** takes the mean of four noisier counts."
                    ),
                    residuals,
                    Callout("note", "Noise is compared at the same *measured* loss of 0.025."),
                ),
            ),
            Section(
                title="Promise and measurement",
                blocks=(
                    Prose("The estimate of [](#loss-curves) uses every area at once."),
                    curves,
                    Subheading("Over a range of promises"),
                    by_epsilon,
                    small,
                    whole,
                ),
            ),
            Section(title="Choose your level", blocks=(by_level, many_figure(), verdict_table())),
        ),
        limits=(
            Callout("warning", "A measured loss is **not a guarantee**: only ε is."),
            Prose(
                "- Another event than those tried could show a greater loss.\n"
                "- The population is uniform; real ones are not.\n"
                "- Nothing here protects against what is published elsewhere."
            ),
        ),
        provenance=PROVENANCE,
        confidential=confidential,
    )
