"""The figures of the study christ-2022 on who is identified: 11 to 13 of the paper."""

from __future__ import annotations

import polars as pl

from headcount.report.figures import Axis, Control, Reference, line_chart
from headcount.report.model import Figure
from headcount.studies.christ_2022.report_figures import RATE
from headcount.studies.christ_2022.report_words import (
    READINGS,
    Tables,
    first_county,
    thin,
)
from headcount.studies.christ_2022.settings import SIMILAR

PERCENT = Axis(column="percent", title="People identified (%)", format=".3~g", zero=True)
WIDTH = Control(column="ages", label="Attacker knows ages to within")
ACCEPTED = Reference(label="0.04 %: accepted for health data", y=0.04)


def found_figure(tables: Tables, *, group: str) -> Figure:
    """Figures 11 and 12: people identified, by swapper and rate."""
    frame = _attacks(tables, attributes=6).filter(identity_rule="slot", group=group)
    everyone = group == "everyone"
    caption = (
        "**How many people does the attacker find?** Matches that are right, in percent of all. "
        "(The paper's figure 11.)"
        if everyone
        else "**The same for members of minorities** (groups below 10 % of the block group), in "
        "percent of them. Mind the scale. (The paper's figure 12.)"
    )
    return Figure(
        name="identified" if everyone else "identified-minorities",
        caption=caption,
        alt="Percent of people identified against the swap rate, one line for each swapper.",
        chart=line_chart(
            frame.select("county", "ages", "mechanism", "rate", "percent"),
            x=RATE, y=PERCENT, series="mechanism", controls=[_county(tables), WIDTH],
            references=[ACCEPTED] if everyone else [], height=320,
        ),
    )  # fmt: skip


def readings_figure(tables: Tables) -> Figure:
    """What "the same individual" may mean."""
    frame = (
        _attacks(tables, attributes=6)
        .filter(group="everyone", bucket_width=2)
        .with_columns(pl.col("identity_rule").replace_strict(READINGS).alias("reading"))
        .select("county", pl.col("mechanism").alias("swapper"), "reading", "rate", "percent")
    )
    similar = Control(column="swapper", label="Swapping", initial=SIMILAR[0])
    return Figure(
        name="readings",
        caption="**What counts as finding somebody?** The paper asks that the matched row "
        "“represents the same individual”. Read as the *person's own record*, nobody can be found "
        "once all are swapped. Read as *the row in the person's place*, some are, as in the paper. "
        "If only the secret matters, whoever's record tells it, swapping protects least. Ages to "
        "within 2 years.",
        alt="Percent identified against the swap rate under three readings.",
        chart=line_chart(
            thin(frame, "rate", most=26), x=RATE, y=PERCENT, series="reading",
            controls=[_county(tables), similar], height=300,
        ),
    )  # fmt: skip


def detailed_figure(tables: Tables) -> Figure | None:
    """Figure 13: fifteen attributes."""
    frame = _attacks(tables, attributes=15).filter(identity_rule="slot", group="everyone")
    if frame.is_empty():
        return None
    long = pl.col("key").str.count_matches(" x ") > 2
    known = (
        pl.when(long)
        .then(pl.lit("everything but sex and origin"))
        .otherwise(pl.lit("age, race and household size"))
    )
    return Figure(
        name="fifteen-attributes",
        caption="**Fifteen attributes instead of six** (Cibola). Nearly every row is unique, so "
        "nearly all must be swapped before the order of swapping matters no more. Choose what the "
        "attacker knows. (The paper's figure 13.)",
        alt="Percent identified against the swap rate, with fifteen attributes.",
        chart=line_chart(
            frame.select(known.alias("known"), "ages", "mechanism", "rate", "percent"),
            x=RATE, y=PERCENT, series="mechanism",
            controls=[Control(column="known", label="Attacker knows"), WIDTH], height=300,
        ),
    )  # fmt: skip


def _attacks(tables: Tables, *, attributes: int) -> pl.DataFrame:
    frame = tables["privacy"].filter(attributes=attributes)
    return thin(frame, "rate", most=40).with_columns(
        pl.format("{} years", "bucket_width").alias("ages"), pl.col("percent").round(4)
    )


def _county(tables: Tables) -> Control:
    return Control(column="county", label="Block group", initial=first_county(tables, "Alameda"))
