"""The figures of the study hawes-rodriguez-2021."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from headcount.evaluate.attackers import PERFECT
from headcount.report.figures import Axis, Control, band_chart, control_name, line_chart
from headcount.report.model import Figure
from headcount.report.theme import INK, looks_for
from headcount.studies.hawes_rodriguez_2021.accuracy import COUNTY, EVERY, RACE, TOTAL, categories
from headcount.studies.hawes_rodriguez_2021.methods import HI, LO, SUPPRESSION, TOPDOWN, ZCDP
from headcount.studies.hawes_rodriguez_2021.published import published
from headcount.studies.hawes_rodriguez_2021.report_words import (
    ATTACKERS,
    MEANT,
    UNIVERSES,
    Tables,
    main_methods,
    swapping_noise,
)
from headcount.studies.hawes_rodriguez_2021.settings import PLACE

if TYPE_CHECKING:
    from altair.typing import ChartType

ATTACKER = Control(column="attacker", label="Attacker")
PEOPLE = Control(column="people", label="People")
RECORDS, MODAL, PROPORTIONAL = "the attack", "modal guess", "proportional guess"
SHOWN = {RECORDS: ("#332288", "circle"), PROPORTIONAL: ("#E69F00", "diamond"),
         MODAL: ("#5D5D5D", "triangle-right")}  # fmt: skip
RULES = {"cell": "cells changed to 0", "table": "tables withheld",
         "complementary": "cells, with the complement"}  # fmt: skip
TABLES = {"SF1_person": "other person tables", "SF1_housing": "housing tables"}
ERROR_TICKS = (0, 1, 3, 10, 30, 100, 300, 1000, 3000)
RACES = {"white": "White", "black": "Black", "asian": "Asian", "nhpi": "Pacific Islander",
         "aian": "American Indian", "other": "other", "multiple": "several"}  # fmt: skip
_LEVELS = {"block_group": "block group"}


def suppression_figure(tables: Tables) -> Figure:
    """What the rules withhold at each level, with the slides' numbers."""
    import altair as alt

    told = published()
    printed = {
        (table, rule, level): float(share)
        for rule, those in told["suppression"].items()
        for table, shares in those.items()
        for level, share in zip(told["levels"], shares, strict=True)
    }
    found = tables["suppression"]
    slides = [printed.get(row) for row in found.select("table", "rule", "level").iter_rows()]
    frame = found.with_columns(pl.Series("slides", slides, dtype=pl.Float64)).select(
        pl.col("rule").replace_strict(RULES).alias("withheld"),
        pl.col("table").replace(TABLES).alias("table"),
        pl.col("level").replace(_LEVELS).alias("level"), "percent", "slides",
    )  # fmt: skip
    levels = frame["level"].unique(maintain_order=True).to_list()
    names = frame["table"].unique(maintain_order=True).to_list()
    looks = looks_for(names)
    base = alt.Chart(frame).encode(
        x=alt.X("level:N", sort=levels, title=None, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("table:N", sort=names),
        tooltip=["table", "level", alt.Tooltip("percent:Q", format=".1f", title="here (%)"),
                 alt.Tooltip("slides:Q", format=".1f", title="slides, 2010 census (%)")],
    )  # fmt: skip
    bars = base.mark_bar().encode(
        y=alt.Y("percent:Q", title="Withheld (%)", scale=alt.Scale(domain=[0, 100])),
        color=alt.Color("table:N", title=None, sort=names,
                        scale=alt.Scale(domain=names, range=[look.colour for look in looks])),
    )  # fmt: skip
    ticks = base.mark_tick(color=INK, thickness=2.5).encode(
        y=alt.Y("slides:Q", title="Withheld (%)")
    )
    control = Control(column="withheld", label="Withheld", initial=RULES["table"])
    return Figure(
        name="suppression-by-level",
        caption="**What the rules of 1980 would withhold.** Bars: this population. Black ticks: "
        "what the slides print for the census of 2010. *Choose whole tables, single cells, or "
        "cells with those that complementary suppression adds* (not in the slides). P1 "
        "is race, P2 Hispanic origin by race; P3 and P4 are the same for adults.",
        alt="Bars of the share of tables or cells withheld at each level of geography.",
        chart=_chosen(alt.LayerChart(layer=[bars, ticks]), frame, [control], height=300),
    )


def precision_figure(tables: Tables) -> Figure:
    """Precision of every main method, with both guesses on the same matches."""
    import altair as alt

    shown = main_methods(tables)
    found = tables["reid"].filter(
        pl.col("method").is_in(shown), pl.col("universe").is_in(list(UNIVERSES))
    )
    rows = found.select(
        "method",
        pl.col("attacker").replace_strict(ATTACKERS),
        pl.col("universe").replace_strict(UNIVERSES).alias("people"),
        pl.col("precision").alias(RECORDS), pl.col("proportional_guess").alias(PROPORTIONAL),
        pl.col("modal_guess").alias(MODAL), "precision_low", "precision_high",
    )  # fmt: skip
    frame = rows.unpivot(
        list(SHOWN), variable_name="by", value_name="rate",
        index=["method", "attacker", "people", "precision_low", "precision_high"],
    ).with_columns(
        pl.when(by=RECORDS).then("precision_low").alias("low"),
        pl.when(by=RECORDS).then("precision_high").alias("high"),
    ).drop("precision_low", "precision_high").drop_nulls("rate")  # fmt: skip
    names = list(SHOWN)
    colours = alt.Scale(domain=names, range=[colour for colour, _ in SHOWN.values()])
    symbols = alt.Scale(domain=names, range=[symbol for _, symbol in SHOWN.values()])
    base = alt.Chart(frame).encode(
        y=alt.Y("method:N", sort=shown, title=None,
                axis=alt.Axis(labelLimit=170, grid=True, labelColor=INK)),
        color=alt.Color("by:N", title=None, scale=colours),
        tooltip=["method", "by", alt.Tooltip("rate:Q", format=".1f", title="right (%)"),
                 alt.Tooltip("low:Q", format=".1f"), alt.Tooltip("high:Q", format=".1f")],
    )  # fmt: skip
    x = alt.X("rate:Q", title="Right, of those matched (%)", scale=alt.Scale(domain=[0, 100]))
    dots = base.mark_point(size=80, filled=True).encode(
        x=x, shape=alt.Shape("by:N", title=None, scale=symbols)
    )
    reach = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title="Right, of those matched (%)"), x2="high:Q"
    )
    controls = [
        Control(column="people", label="People", initial=UNIVERSES[next(iter(UNIVERSES))]),
        Control(column="attacker", label="Attacker", initial=ATTACKERS[PERFECT]),
    ]
    return Figure(
        name="precision-by-method",
        caption="**How often a match is right.** Of the people whom the attacker matched to a "
        "record: the share whose race and origin the record gives right, with its 95 % interval. "
        "Beside it, for the same matches, what two guesses get right that use no record of "
        "anybody: the commonest group of the block, and a draw from its shares. Guessing is "
        "statistical inference, not a breach; what exceeds the guesses is what the records give "
        f"away. *Choose whom to look at, and the attacker.* {MEANT}",
        alt="For each method the precision of the attack and of two guesses, as points.",
        chart=_chosen(alt.LayerChart(layer=[reach, dots]), frame, controls,
                      height=max(340, 26 * len(shown))),
    )  # fmt: skip


def epsilon_figure(tables: Tables) -> Figure:
    """TopDown's precision above the guess, by epsilon."""
    found = tables["reid"].filter(pl.col("universe").is_in(list(UNIVERSES))).join(
        tables["methods"].filter(kind=TOPDOWN).select("method", "loss", "epsilon"), on="method"
    )  # fmt: skip
    frame = found.select(
        pl.format("topdown {}", "loss").alias("loss"),
        pl.col("attacker").replace_strict(ATTACKERS),
        pl.col("universe").replace_strict(UNIVERSES).alias("people"),
        "epsilon", pl.col("above_proportional").alias("above"),
        pl.col("above_low").fill_null(pl.col("above_proportional")).alias("low"),
        pl.col("above_high").fill_null(pl.col("above_proportional")).alias("high"),
    ).drop_nulls()  # fmt: skip
    order = {name: place for place, name in enumerate(UNIVERSES.values())}
    frame = frame.sort(pl.col("people").replace_strict(order), maintain_order=True)
    return Figure(
        name="topdown-by-epsilon",
        caption="**From which ε do TopDown's records tell more than a guess?** Points of precision "
        "above the proportional guess from the same release, with the 95 % interval over "
        "replicates. At zero the records are worth no more than the shares of the block. *Choose "
        "whom to look at, and the attacker.*",
        alt="Lines against epsilon: precision above the guess, for pure and zCDP noise.",
        chart=band_chart(
            frame,
            x=Axis(column="epsilon", title="Promise ε (smaller is stronger)", scale="log",
                   ticks=tuple(sorted(frame["epsilon"].unique())), format="~g"),
            y=Axis(column="above", title="Points above the proportional guess", format="+.1f",
                   zero=True),
            low="low", high="high", series="loss", controls=[PEOPLE, ATTACKER], height=300,
        ),
    )  # fmt: skip


def rates_figure(tables: Tables) -> Figure:
    """Precision by swap rate and noise."""
    shown = {"no noise": "no noise", "size noise 80 %": "size noise 80 %",
             "tract noise 70 % (40 in county)": "tract noise 70 %",
             "size 50 % and tract 70 %": "size 50 %, tract 70 %"}  # fmt: skip
    found = tables["reid"].join(swapping_noise(tables), on="method").filter(
        pl.col("universe").is_in(list(UNIVERSES)), pl.col("noise").is_in(list(shown))
    )  # fmt: skip
    order = {name: place for place, name in enumerate(UNIVERSES)}
    guesses = found.filter(noise="no noise").with_columns(
        pl.lit(PROPORTIONAL).alias("noise"), pl.col("proportional_guess").alias("precision")
    )
    frame = pl.concat([found.with_columns(pl.col("noise").replace(shown)), guesses]).sort(
        pl.col("universe").replace_strict(order), "rate", maintain_order=True
    ).select(
        pl.col("attacker").replace_strict(ATTACKERS),
        pl.col("universe").replace_strict(UNIVERSES).alias("people"),
        "noise", "rate", "precision",
    ).drop_nulls()  # fmt: skip
    return Figure(
        name="precision-by-rate",
        caption="**Swapping with every dial.** The share of matches that are right against the "
        "share of households that changed places; *noise* blurs the size by which partners are "
        "matched, or the tract in which they are looked for. The proportional guess: "
        "what a guess from the shares of the block gets right in the release without noise. "
        "*Choose whom to look at, and the attacker*; all settings are in [](#experiments).",
        alt="Lines falling with the swap rate, for settings of noise.",
        chart=line_chart(
            frame,
            x=Axis(column="rate", title="Households swapped (%)", format=".0f",
                   ticks=(5, 10, 25, 50), domain=(0, 52)),
            y=Axis(column="precision", title="Right, of those matched (%)", format=".0f",
                   domain=(0, 100)),
            series="noise", points=True, controls=[PEOPLE, ATTACKER], height=300,
        ),
    )  # fmt: skip


def size_figure(tables: Tables) -> Figure:
    """Errors of totals by size of county and place."""
    mae = tables["mae"].filter(
        pl.col("method").is_in(_compared(tables)), pl.col("size_category") != EVERY, statistic=TOTAL
    )  # fmt: skip
    words = {COUNTY: "counties", PLACE: "places"}
    frame = mae.select(
        pl.col("area").replace_strict(words).alias("areas"),
        pl.col("size_category").alias("population"), "method", "mae",
    )  # fmt: skip
    order = [categories(PLACE)[1], categories(COUNTY)[1], *categories(PLACE)[2:]]
    return Figure(
        name="errors-by-size",
        caption="**Errors of total population by size of the area.** Mean absolute error of "
        "counties or places, by their population; the axis is stretched near zero. Suppression "
        "never touches totals, and swapping households of one size (LO) keeps them exact. *Choose "
        "counties or places*; places cut across tracts, and no method is told about them.",
        alt="Points of mean absolute error for size categories, one colour for each method.",
        chart=_by_category(
            frame, x="population", order=order, y_title="Mean absolute error (people)",
            controls=[Control(column="areas", label="Areas")],
        ),
    )  # fmt: skip


def race_figure(tables: Tables) -> Figure:
    """Errors of race groups in counties."""
    frame = (
        tables["mae"]
        .filter(
            pl.col("statistic").str.starts_with(RACE),
            pl.col("method").is_in([SUPPRESSION, *_compared(tables)]),
            area=COUNTY, size_category=EVERY,
        )
        .select(pl.col("statistic").str.strip_prefix(RACE).replace(RACES).alias("race"), "method",
                "mae")
    )  # fmt: skip
    return Figure(
        name="errors-by-race",
        caption="**Errors of race groups in counties.** Mean absolute error over all counties. "
        "Groups are those of the slides: white alone; each other race alone or with white; all "
        "other combinations. The axis is stretched near zero.",
        alt="Points of mean absolute error for race groups, one colour for each method.",
        chart=_by_category(
            frame, x="race", order=frame["race"].unique(maintain_order=True).to_list(),
            y_title="Mean absolute error (people)", controls=[], joined=False,
        ),
    )  # fmt: skip


def _compared(tables: Tables) -> list[str]:
    noisy = tables["methods"].filter(kind=TOPDOWN, loss=ZCDP)["method"]
    return [LO, HI, *noisy]


def _by_category(
    frame: pl.DataFrame, *, x: str, order: Sequence[str], y_title: str,
    controls: Sequence[Control], joined: bool = True,
) -> ChartType:  # fmt: skip
    """Points over named groups, one colour and symbol for each method, joined if they are sizes."""
    import altair as alt

    names = frame["method"].unique(maintain_order=True).to_list()
    looks = looks_for(names)
    colour = alt.Scale(domain=names, range=[look.colour for look in looks])
    symbol = alt.Scale(domain=names, range=[look.symbol for look in looks])
    largest = float(frame["mae"].max() or 0)  # type: ignore[arg-type]
    ticks = [tick for tick in ERROR_TICKS if tick <= max(1.5 * largest, 1)]
    base = alt.Chart(frame).encode(
        x=alt.X(f"{x}:N", sort=list(order), title=None, axis=alt.Axis(labelAngle=-25)),
        y=alt.Y("mae:Q", title=y_title, scale=alt.Scale(type="symlog", constant=1, nice=False),
                axis=alt.Axis(values=ticks, format=",d")),
        color=alt.Color("method:N", title=None, scale=colour,
                        legend=alt.Legend(columns=3, symbolOpacity=1)),
        tooltip=[x, "method", alt.Tooltip("mae:Q", format=",.1f", title=y_title)],
    )  # fmt: skip
    line = base.mark_line(strokeWidth=1.25, opacity=0.6)
    dots = base.mark_point(size=75, filled=True).encode(
        shape=alt.Shape("method:N", title=None, scale=symbol)
    )
    return _chosen(
        alt.LayerChart(layer=[line, dots] if joined else [dots]), frame, controls, height=300
    )


def _chosen(
    chart: Any, frame: pl.DataFrame, controls: Sequence[Control], *, height: int
) -> ChartType:
    """A chart of named groups with lists to choose from, as other figures have them."""
    import altair as alt

    for control in controls:
        options = frame[control.column].unique(maintain_order=True).to_list()
        chosen = alt.param(
            name=control_name(control.column),
            value=options[0] if control.initial is None else control.initial,
            bind=alt.binding_select(options=options, name=control.label),
        )
        chart = chart.add_params(chosen).transform_filter(alt.datum[control.column] == chosen)
    finished: ChartType = chart.properties(width="container", height=height)
    return finished
