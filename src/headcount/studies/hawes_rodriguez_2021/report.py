"""The report of the study hawes-rodriguez-2021: for those who choose how counts are protected."""

from __future__ import annotations

from headcount.evaluate.attackers import COMMERCIAL, PERFECT
from headcount.evaluate.reidentified import ALL
from headcount.report.model import (
    Block,
    Callout,
    KeyNumber,
    KeyNumbers,
    Prose,
    Provenance,
    Report,
    Section,
)
from headcount.studies.hawes_rodriguez_2021 import report_figures as figures
from headcount.studies.hawes_rodriguez_2021 import report_tables as shown
from headcount.studies.hawes_rodriguez_2021.methods import (
    COMPLEMENTARY,
    HI,
    LO,
    NONE,
    SUPPRESSION,
)
from headcount.studies.hawes_rodriguez_2021.report_words import (
    About,
    Tables,
    confirmed,
    held,
    one,
    percent,
    precision,
    topdown_names,
)
from headcount.studies.hawes_rodriguez_2021.settings import DELTA, QUERY_SHARES

PROPORTIONAL = "proportional guess"


def report(tables: Tables, about: About, *, provenance: Provenance) -> Report:
    """Tell what was done, what each method withholds, blurs and gives away, and the limits."""
    return Report(
        title="Suppress, swap, or add noise?",
        subtitle="Hawes & Rodríguez (2021) run again: what each method withholds, how far counts "
        "are off, and who can still be found",
        summary=_summary(tables, about),
        sections=(
            _what_was_done(tables, about),
            _suppression(tables),
            _reidentification(tables),
            _swapping(tables),
            _topdown(tables),
            _accuracy(tables),
            _claims(tables),
        ),
        limits=_limits(tables, about),
        provenance=provenance,
        confidential=not about.public,
    )


def _summary(tables: Tables, about: About) -> tuple[Block, ...]:
    told = held(tables)
    block = one(tables["suppression"], "percent", table="P3", rule="table", level="block")
    where = "a made-up state" if about.synthetic else "the people of a file"
    return (
        Prose(
            "In 2021 the US Census Bureau was asked why it wanted to add noise to the census. "
            "Could it not go on with what it had done before: **suppress** small numbers, as in "
            "1980, or **swap** households between places, as in 2010? M. Hawes and R. Rodríguez "
            "answered with an experiment. They counted what suppression would withhold, and "
            "attacked swapped data: *reconstruct* the records of people from the published tables, "
            "then *re-identify* them by matching a file of names.\n\n"
            f"This report runs the experiment again on {where}, with free software, and sets "
            "**TopDown**, the method of 2020, beside it. All methods protect the same counts: sex, "
            "38 age bins, 7 race groups and Hispanic origin, down to the block. Its randomness "
            "comes from a seed, so that it can be repeated: **nothing in it is a private release.**"
        ),
        KeyNumbers(
            (
                KeyNumber(value=f"{block:.0f}", unit="%", label="of blocks would lose their table "
                          "of race by voting age under the rules of 1980"),
                KeyNumber(value=f"{precision(tables, LO):.0f}", unit="%", label="of matches are "
                          "right after a light swap, for people who are hard to guess"),
                KeyNumber(value=f"{precision(tables, HI):.0f}", unit="%", label="after a heavy "
                          "swap, of every second household"),
                KeyNumber(value=f"{precision(tables, PROPORTIONAL):.0f}", unit="%",
                          label="with no record at all: a guess from the shares of the block"),
            )
        ),
        Callout("key finding", _finding(tables)),
        Prose(
            f"Of the conclusions that can be judged, {told['yes']} hold here and {told['no']} do "
            "not: [](#claims) lists them one by one."
        ),
    )  # fmt: skip


def _finding(tables: Tables) -> str:
    rows = [
        (words, percent(precision(tables, method)), percent(confirmed(tables, method)))
        for method, words in (
            (NONE, "nothing is done"),
            (SUPPRESSION, "the rules of 1980"),
            (COMPLEMENTARY, "the complementary step besides"),
            (LO, "a light swap"),
            (HI, "a heavy swap"),
        )
    ]
    names = topdown_names(tables)
    right = _range([precision(tables, name) for name in names])
    rows.append(("TopDown at the ε tried", right, _range([confirmed(tables, m) for m in names])))
    return (
        "Look at people who are unlike their neighbours, unique by sex and age in their block, "
        "where the tables leave no doubt: only a record can tell who they are. An attacker who "
        "knows where everyone lives is right about this share of those matched to a record (in "
        "brackets: of all such people, matched or not):\n\n"
        + "".join(f"- {words}: **{rate}** ({found})\n" for words, rate, found in rows)
        + f"\nA mere guess is right about {percent(precision(tables, PROPORTIONAL))}."
    )


def _range(rates: list[float]) -> str:
    known = [rate for rate in rates if rate == rate]
    return f"{min(known):.0f} to {max(known):.0f} %" if known else "\N{EN DASH}"


def _what_was_done(tables: Tables, about: About) -> Section:
    who = tables["about"].row(0, named=True)
    drawn = (
        "The state is made up: households, ages, races and places follow the shape of the United "
        "States of 2010, and nobody in it is real."
        if about.synthetic
        else "The people are those of a file, and their blocks."
    )
    shares = ", ".join(f"{name} {float(100 * share):g} %" for name, share in QUERY_SHARES)
    return Section(
        title="What was done",
        blocks=(
            Prose(
                f"{drawn} There are {who['people']:,} people in {who['households']:,} households, "
                f"{who['blocks']:,} blocks with people, {who['tracts']:,} tracts, "
                f"{who['counties']:,} counties and {who['places']:,} places.\n\n"
                "- **Suppression** by the rules of 1980: counts of 1 or 2 are published as 0; "
                "tables of adults by race are withheld where any group has 1 to 14 people; other "
                "person tables where 1 to 14 people live, housing tables where 1 to 4 homes are "
                "occupied.\n"
                "- **Complementary suppression**, which the Bureau left out: in P1 to P4 counts of "
                "1 or 2 are withheld openly, at every level, with as many others as it takes so "
                "that for an attacker who knows the rules each may be 3 or more and is uncertain "
                "by 3. That somebody is in a withheld cell is not hidden; totals above the block "
                "are the last to be withheld. Other tables are withheld for a block by the rules "
                "of 1980, and where they would restate a withheld cell.\n"
                "- **Swapping**: pairs of households of the same size change places, as near by as "
                "possible. *LO* moves 5 % of them. *HI* moves 50 %, after half of the sizes were "
                "blurred by one and seven of ten households were paired as if in another tract.\n"
                "- **TopDown**: noise at every level, then whole numbers that add up. Levels share "
                f"ε alike; at each level it goes to {shares}. The total of the state is exact. "
                "Noise comes in two kinds: *pure* keeps ε for certain; *zCDP* (as in 2020) keeps "
                f"it but for a chance of δ = {float(DELTA):g}. The promise is for a change of one "
                "person's record.\n\n"
                f"Then the attack. *Reconstruct*: block tables {who['tables']}, by the 7 groups of "
                "race, are turned back into records, block by block. In "
                f"**{who['zero_variability_blocks_percent']:.0f} %** of blocks, with "
                f"{who['zero_variability_people_percent']:.0f} % of the people, the exact tables "
                "allow one solution only: the records are certain. *Re-identify*: people in the "
                "attacker's file are matched to records one to one by block, sex and age bin; a "
                "match is *putative*, and *confirmed* if race and origin are right. The perfect "
                "attacker knows everyone's block, sex and age; the commercial-like file lacks some "
                "people and has errors in address, age and sex, so that 37 in 100 rows are "
                "right.\n\n"
                f"Every method was drawn {about.replicates} times, each time with another order of "
                "ties; intervals are of the mean over these draws."
            ),
            Callout(
                "note",
                "**Statistical inference is not a privacy violation.** In a block where nine of "
                "ten are white, “white” is a good guess for anyone, member of the census or not. A "
                "rate of re-identification means something only beside what a guess gets right, so "
                "every rate here has two guesses beside it: the commonest group of the block, and "
                "a draw from its shares.",
            ),
            shown.methods_table(tables),
        ),
    )  # fmt: skip


def _withheld(tables: Tables) -> str:
    """Shares of tables withheld, from county to block."""
    words = []
    for table in ("P3", "P4"):
        shares = [
            one(tables["suppression"], "percent", table=table, rule="table", level=level)
            for level in ("county", "tract", "block_group", "block")
        ]
        words.append(f"{table} " + ", ".join(f"{share:.0f}" for share in shares) + " %")
    return f"Withheld for counties, tracts, block groups and blocks: {'; '.join(words)}."


def _suppression(tables: Tables) -> Section:
    back = one(tables["recovered"], "from_p12_percent", table="P1", level="block")
    again = (
        f"{back:.0f} % of the block cells of P1 that were changed to 0 stand as a total in P12A to "
        "P12G of the same block."
        if back == back
        else "No cell was changed here."
    )
    return Section(
        title="What suppression would withhold",
        blocks=(
            Prose(
                "The rules were made for small areas, and most areas are small. P3 is race for "
                "adults, P4 Hispanic origin by race for adults: the tables that redistricting "
                f"needs. {_withheld(tables)}"
            ),
            figures.suppression_figure(tables),
            Callout(
                "warning",
                "These are the *primary* rules, as the Bureau ran them. Without a complementary "
                f"step, other tables give the hidden numbers back: {again}",
            ),
            Prose(_complement(tables)),
            shown.recovered_table(tables),
            shown.suppression_table(tables),
        ),
    )


def _complement(tables: Tables) -> str:
    """What the complementary step costs and buys."""

    def share(rule: str, level: str) -> float:
        return one(tables["suppression"], "percent", table="P2", rule=rule, level=level)

    left = tables["about"]["cells_unprotected"][0]
    protected = "Every" if left == 0 else f"But for {left:,}, every"
    return (
        "With the complementary step, "
        f"{share('complementary', 'tract'):.0f} % of the cells of P2 are withheld for tracts, "
        f"{share('complementary', 'block_group'):.0f} % for block groups and "
        f"{share('complementary', 'block'):.0f} % for blocks, where the cell rule alone hides "
        f"{share('cell', 'tract'):.0f}, {share('cell', 'block_group'):.0f} and "
        f"{share('cell', 'block'):.0f} %. {protected} count of 1 or 2 has then witnesses: whole "
        "tables that agree with all of P1 to P4 that is published and with the rules, and in which "
        "it is another. What this does to the attack is in [](#reidentified)."
    )


def _reidentification(tables: Tables) -> Section:
    none, lo, hi = (precision(tables, m, COMMERCIAL, ALL) for m in (NONE, LO, HI))
    return Section(
        title="Who can still be found",
        blocks=(
            Prose(
                "The slides give one number for each method: the precision over everyone, for the "
                f"attacker with a commercial file. Here it is {percent(none)} with no protection, "
                f"{percent(lo)} after LO and {percent(hi)} after HI (slides: 37.8, 37.2 and 30.4 "
                "%). That number mixes people whom anybody could guess with people who are given "
                "away. The figure takes them apart."
            ),
            figures.precision_figure(tables),
            shown.reid_table(tables, PERFECT),
            shown.reid_table(tables, COMMERCIAL),
            shown.agreement_table(tables),
        ),
    )


def _swapping(tables: Tables) -> Section:
    return Section(
        title="Swapping with every dial",
        blocks=(
            Prose(
                "More swapping protects more, and slowly: a household that stays is published "
                "where it lives, and one that moves mostly changes places with a neighbour. "
                "Blurring the size of partners changes who lives in a block; blurring the tract "
                "sends households farther and costs accuracy of larger areas."
            ),
            figures.rates_figure(tables),
            shown.experiments_table(tables),
        ),
    )


def _topdown(tables: Tables) -> Section:
    return Section(
        title="TopDown: from which ε on do records tell more than a guess?",
        blocks=(
            Prose(
                "TopDown's block records are mostly noise at small ε: few people are matched at "
                "all, and a match is right about as often as a guess from the same release. With "
                "larger ε both grow. The table gives the ε from which precision is five points "
                "above the guess."
            ),
            figures.epsilon_figure(tables),
            shown.crossing_table(tables),
        ),
    )


def _accuracy(tables: Tables) -> Section:
    return Section(
        title="What it costs: errors of counts",
        blocks=(
            Prose(
                "Errors are the mean of absolute differences to the true count. The share of "
                "people found and the error of counts are two sides of one choice. Suppression "
                "errs by two at most in what it shows: its cost is what it does not show, and a "
                "withheld count has no error here."
            ),
            figures.size_figure(tables),
            figures.race_figure(tables),
            shown.errors_table(tables),
        ),
    )


def _claims(tables: Tables) -> Section:
    return Section(
        title="Do the conclusions hold?",
        blocks=(shown.claims_table(tables), shown.published_table(tables)),
    )


def _limits(tables: Tables, about: About) -> tuple[Block, ...]:
    who = tables["about"].row(0, named=True)
    perfect, commercial = (precision(tables, NONE, a) for a in (PERFECT, COMMERCIAL))
    population = (
        "- **One made-up population.** Blocks, tracts and places are few, and who lives with whom "
        "is simpler than in life. Intervals are over draws of the methods, not over populations.\n"
        if about.synthetic
        else "- **One population.** Intervals are over draws of the methods, not over "
        "populations.\n"
    )
    return (
        Callout(
            "warning",
            "Suppression and swapping promise nothing that can be stated: a low rate in this one "
            "attack is not protection from another. TopDown's ε holds against every attack, but "
            "not here, where its noise comes from a seed.",
        ),
        Prose(
            population
            + "- **One attack.** Tables of blocks only, no tables of tracts, households or "
            f"families; the tables left out: {who['tables_left_out'] or 'none'}. Race in 7 groups, "
            "where the Bureau had 63. More tables would make more blocks certain.\n"
            "- **Any solution.** Where tables allow several, the reconstruction is one of them; "
            "another solver may find another. Blocks not proven to be certain or not: "
            f"{who['not_proven_blocks']}.\n"
            "- **The commercial-like file is a guess** of coverage and errors. Where its address "
            "is wrong, a right match is impossible: without any protection it reaches "
            f"{percent(commercial)} on people who are hard to guess, the perfect one "
            f"{percent(perfect)}.\n"
            "- **The workload of TopDown is ours**, stated above; the Bureau tuned its own for "
            "months. Other shares move errors between totals, race and records.\n"
            "- **Complementary suppression is one of many.** Its witnesses hold for P1 to P4; that "
            "nothing follows from them with other tables is tried here by the attack, not proven. "
            "What the choice of cells tells, and who knows a cell of his own, is left out. Where "
            "the tables leave much open, the reconstruction fills in "
            "one solution of many: an attacker who guessed there may do better, so look at the "
            "guesses too.\n"
            "- **Half of the swapping grid.** Of 64 settings of rate, size noise and tract noise "
            "32 are run: each noise alone, and both as in HI.\n"
            "- **Who says what “minimal” is?** The slides give no criteria; those in "
            "[](#claims) are ours. But for 2 points (LO) and 10 points (HI below LO) they were set "
            "when results of smaller runs were known.\n"
            "- **Learning about groups** is what a census is for. Nothing here protects from it."
        ),
    )
