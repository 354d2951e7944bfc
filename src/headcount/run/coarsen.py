"""``headcount plan --coarsen``: plans of coarsening tried on the people, for a person to choose.

Everything is computed from the truth. It goes to a folder that its owner alone can read, and says
what was looked at: a choice that was made by looking is a function of confidential counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headcount.config.load import load_config
from headcount.errors import RunError
from headcount.files import close_folder, make_private, write_bytes_atomic, write_text_atomic
from headcount.mechanisms.coarsening.mechanism import Coarsening
from headcount.mechanisms.coarsening.search import (
    NOWHERE,
    PIVOTS,
    WITH_AREAS,
    Search,
    to_try,
    try_plans,
)
from headcount.population import Population
from headcount.processes import Progress, silent
from headcount.report.figures import Control, line_chart
from headcount.report.html import write_report
from headcount.report.model import (
    Callout,
    Column,
    Figure,
    Prose,
    Report,
    Section,
    Table,
    gather_provenance,
    table_from_frame,
)
from headcount.report.notebook import shown
from headcount.report.specs import Axis
from headcount.tabulate import Counts, Tabulated

if TYPE_CHECKING:
    import polars as pl

PAGE, TABLE, PLANS = "report.html", "plans.csv", "plans"
AS_WANTED = "as wanted"
LOOKED = (
    "**What was looked at.** Every number of this page was counted or estimated from the people "
    "themselves. Areas are chosen by published or public numbers alone, in every plan, and that "
    "tells nothing more. Which plan is taken is another matter: whoever chooses by this page "
    "chooses by looking, and somebody who knew how would learn from the choice. So choose one plan "
    "for all places, by a person, and say in what is published that it was chosen by looking. "
    "Nothing is chosen here."
)


@dataclass(frozen=True, eq=False, repr=False)
class CoarseningPlans:
    """What ``coarsenings`` found; as confidential as the people."""

    search: Search
    confidential: bool
    recipe: str
    counted: str = "people"

    def __repr__(self) -> str:
        return f"<{len(self.search.plans)} plans of coarsening>"

    def _repr_html_(self) -> str:
        return shown(
            repr(self).strip("<>"),
            frames={"plans": self.table},
            note="Computed from the truth. plan(7).toml() is a plan for a config.",
            confidential=self.confidential,
        )

    @property
    def table(self) -> pl.DataFrame:
        """A row for each plan, in per cent."""
        return self.search.table

    @property
    def brief(self) -> pl.DataFrame:
        """The same for a terminal: kept at the leaf alone."""
        import polars as pl

        leaf = self.search.levels[-1]
        names = {f"kept, {query}, {leaf}": f"kept, {query}" for query in self.search.queries}
        shown = ["plan", "least", "areas", "crossed", "joined", *names]
        proven = {"proven": "proven", "proven_of_non_majority": "of unlike"}
        made = self.table.select(*shown, *proven).rename(names | proven)
        made = made if (made["joined"] != "").any() else made.drop("joined")
        return made.with_columns(pl.col(pl.Float64).round(2))

    def mechanism(self, plan: int) -> Coarsening:
        """The method of a plan, by its number in the table."""
        return self.search.plans[plan - 1].method

    def toml(self, plan: int) -> str:
        """A plan as tables for a config."""
        return self.search.plans[plan - 1].toml()

    @cached_property
    def whole(self) -> Report:
        """The page."""
        found, limits = self.search, self.search.limits
        known, secret = ", ".join(("place", *limits.known)), " and ".join(limits.secret)
        return Report(
            title="Plans of coarsening: what each keeps and what it proves",
            subtitle=f"{len(found.plans)} plans, each audited on the same {self.counted}",
            summary=(
                Prose(
                    f"The attacker knows the release, its rules, and of everybody {known}, and "
                    f"wants their {secret}. *Proven* is what is the same in every population that "
                    "fits; what an audit did not decide is counted as proven. *Kept* is the share "
                    f"of {self.counted} whom a reader who divides areas by their published totals "
                    "puts into the right place and category."
                ),
                Callout("warning", LOOKED),
            ),
            sections=(
                Section(title="Kept against proven", blocks=(self._figure(), self._table())),
                Section(
                    title="The plans, for a config",
                    blocks=tuple(
                        Prose(f"**Plan {number}**\n\n```toml\n{one.toml()}```")
                        for number, one in enumerate(found.plans, start=1)
                    ),
                ),
            ),
            limits=(
                Prose(
                    "- A guess is no proof, however likely: nothing here bounds guesses.\n"
                    "- Other tables, divisions and years of the same people are not covered: "
                    "coarsening does not compose.\n"
                    "- Where tables are crossed is a column, not a part of what is kept: below "
                    "that rung a reader knows both margins and not how they go together.\n"
                    f"- Programs of an audit here have {PIVOTS:,} pivots for a piece, fewer than "
                    "in check and protect, which may therefore prove less.\n"
                    "- Insiders, who know themselves, are looked at only where the config limits "
                    "what they prove."
                ),
            ),
            provenance=gather_provenance(recipe=self.recipe, seeds=[]),
            confidential=self.confidential,
        )

    def _figure(self) -> Figure:
        """Kept to the right, proven upwards, a line for each way to cross and to join."""
        import altair as alt
        import polars as pl

        kept = [one for one in self.table.columns if one.startswith("kept, ")]
        who = {"proven": "everybody", "proven_of_non_majority": "those unlike their majority"}
        long = self.table.unpivot(
            kept[::-1], index=["least", "crossed", "joined", *who], variable_name="of"
        )
        long = long.rename({"value": "kept"}).unpivot(
            list(who),
            index=["least", "crossed", "joined", "of", "kept"],
            variable_name="who",
            value_name="percent",
        )
        level = ~pl.col("crossed").is_in([WITH_AREAS, NOWHERE])
        at = pl.when(level).then(pl.format("at {}", "crossed")).otherwise("crossed")
        long = long.with_columns(
            pl.col("of").str.strip_prefix("kept, "),
            pl.col("who").replace(who),
            pl.col("joined").replace("", AS_WANTED),
            plan=pl.format("crossed {}", at),
        )
        controls = [Control(column="of", label="Kept of"), Control(column="who", label="Proven of")]
        if long["joined"].n_unique() > 1:
            controls.append(Control(column="joined", label="Levels joined"))
        ticks = (0.0, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
        chart = line_chart(
            long,
            x=Axis(column="kept", title="Kept: placed rightly (% of people)"),
            y=Axis(column="percent", title="Proven (%)", scale="symlog", ticks=ticks, zero=True),
            series="plan",
            points=True,
            controls=controls,
            height=420,
        )
        label = (
            alt.Chart(long)
            .transform_filter(alt.datum.crossed == WITH_AREAS)
            .mark_text(align="left", dx=7, dy=14, fontSize=12)
            .encode(x="kept:Q", y="percent:Q", text="least:N")
        )
        layered: Any = chart
        layered.layer = [*layered.layer, label]
        return Figure(
            name="kept-and-proven",
            caption="**Kept against proven.** Each point is a plan, its number the least people of "
            "an area (or the leaf). Further right more is kept, further down less is proven.",
            alt="Share of people placed rightly against share whose secret is proven, by plan",
            chart=chart,
        )

    def _table(self) -> Table:
        """The plans, with what is kept at the leaf."""
        import polars as pl

        found, leaf = self.search, self.search.levels[-1]
        columns = [
            Column(key="plan", label="Plan", format="d"),
            Column(key="least", label="Least people"),
            Column(key="areas", label="Areas", format=",d"),
            Column(key="crossed", label="Crossed"),
            Column(key="proven", label="Proven", unit="% of all", format=".2f"),
            Column(key="proven_of_non_majority", label="Proven", unit="% of unlike", format=".2f"),
            *(
                Column(key=f"kept, {query}, {leaf}", label=f"Kept: {query}", unit="%", format=".1f")
                for query in found.queries
            ),
            *(
                [Column(key="undecided", label="Undecided", unit="% of all", format=".2f")]
                if (self.table["undecided"] > 0).any()
                else []
            ),
            *(
                [Column(key="insiders_besides", label="Insiders", unit="% besides", format=".2f")]
                if "insiders_besides" in self.table.columns
                else []
            ),
            Column(key="within", label="Within limits", shows="verdict"),
        ]
        frame = self.table.with_columns(
            within=pl.when("fits").then(pl.lit("yes")).otherwise(pl.lit("no")),
            joined=pl.when(pl.col("joined") == "")
            .then(pl.lit(f"Levels {AS_WANTED}"))
            .otherwise(pl.format("Joined: {}", "joined")),
        )
        return table_from_frame(
            frame,
            name="plans",
            caption="**Every plan.** Kept and proven in per cent.",
            columns=columns,
            group="joined" if frame["joined"].n_unique() > 1 else "",
            notes=f"Kept at {leaf}; plans.csv has every level. *Unlike*: people whose secret is "
            "not the most frequent one of their leaf. "
            "*Within limits*: of the audit in the config.",
        )


def coarsenings(
    people: Population | Counts,
    wanted: Coarsening,
    *,
    progress: Progress = silent,
    **tries: Any,
) -> CoarseningPlans:
    """Try plans of coarsening on people; nothing is chosen and nothing is written.

    where
        wanted   a coarsening with the tables that are wanted in full, and an audit that says what
                 an attacker knows and wants
        tries    ``areas``, ``crossed`` and ``joins`` of ``try_plans``
    """
    if isinstance(people, Counts):
        counts, public = people, False
    else:
        counts, public = Tabulated.of(people).counts, people.public
    found = try_plans(wanted, counts, progress=progress, **tries)
    return CoarseningPlans(
        found, not public, "hc.coarsenings(people, wanted, ...)", str(counts.domain.counted)
    )


def plan_coarsening(
    config_file: Path,
    *,
    out: Path,
    recipe: str,
    tries: Mapping[str, Sequence[Any]],
    progress: Progress = silent,
) -> tuple[Path, CoarseningPlans]:
    """Try plans on the people of a config, and write the page, the table and a file for each."""
    config = load_config(config_file)
    method = to_try(config.mechanism, source=str(config_file))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out}: found existing content, expected a new or empty folder")
    data = Tabulated.of(config.population.read())
    search = try_plans(method, data.counts, progress=progress, **tries)
    found = CoarseningPlans(
        search, not data.population.public, recipe, str(data.counts.domain.counted)
    )
    page = found.whole
    make_private(out / PLANS)
    close_folder(out)
    write_bytes_atomic(out / TABLE, found.table.write_csv().encode())
    for number, one in enumerate(search.plans, start=1):
        write_text_atomic(out / PLANS / f"{number}.toml", one.toml())
    write_report(page, out / PAGE)
    return out / PAGE, found
