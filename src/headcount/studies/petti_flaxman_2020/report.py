"""The report of the study petti-flaxman-2020: for a social scientist who uses census counts."""

from __future__ import annotations

import polars as pl

from headcount.report.model import (
    Block,
    Callout,
    KeyNumber,
    KeyNumbers,
    Prose,
    Provenance,
    Report,
    Section,
    Subheading,
)
from headcount.studies.petti_flaxman_2020 import report_bias as bias
from headcount.studies.petti_flaxman_2020 import report_figures as figures
from headcount.studies.petti_flaxman_2020 import report_tables as tables
from headcount.studies.petti_flaxman_2020.report_about import About
from headcount.studies.petti_flaxman_2020.report_measure import measure_section
from headcount.studies.petti_flaxman_2020.report_words import (
    ONE_UNIT,
    Tables,
    at,
    cell,
    compared,
    errors_by_size,
    headline,
    percent,
    sample_sentence,
    samples_at,
    shown_epsilons,
)


def report(found: Tables, about: About, *, provenance: Provenance) -> Report:
    """Tell what was done, what it means for counts of people, and what it does not show."""
    return Report(
        title="What does differential privacy do to census counts?",
        subtitle="Petti & Flaxman (2020) run again: accuracy and privacy of the census's TopDown "
        f"beside simple random sampling, on {about.population}",
        summary=_summary(found, about),
        sections=(
            _what_was_done(found, about),
            _meaning(found),
            _errors(found),
            _tradeoff(found),
            bias.bias_section(found),
            measure_section(found),
            _agreement(found, about),
            _everything(found, about),
        ),
        limits=_limits(about),
        provenance=provenance,
        confidential=not about.public,
    )


def _summary(found: Tables, about: About) -> tuple[Block, ...]:
    return (
        Prose(
            "Census counts are used to share out seats and money, to plan schools and to weight "
            "surveys. They also describe people who were promised that their answers stay "
            "confidential. The US Census Bureau therefore adds random noise to its counts, with "
            "a method called **TopDown** and a promise **ε** (*epsilon*): an upper limit on what "
            "the published counts can tell about any one person. A smaller ε protects more and "
            "costs accuracy.\n\n"
            "*How much accuracy, and how much protection?* S. Petti and A. Flaxman answered with "
            "the 1940 census and a yardstick that every social scientist knows: a random sample. "
            f"This report runs their study again on {about.population}. Its noise comes from a "
            "seed, so that it can be repeated: **nothing in it is a private release.**"
        ),
        _key_numbers(found),
        Callout("key finding", _finding(found)),
        *_partial(about),
    )


def _partial(about: About) -> tuple[Block, ...]:
    if about.whole:
        return ()
    return (
        Callout(
            "note",
            f"This run covers {about.covers}, not the nation. Bias, sample equivalents and losses "
            "of counties and states rest on few places here. The paper's numbers are national: "
            "differences from them are not failures. The whole takes one command; see *How this "
            "report was made*.",
        ),
    )


def _key_numbers(found: Tables) -> KeyNumbers:
    epsilon = headline(found["topdown"]["epsilon"])
    where = "enumeration_district"
    numbers = []
    for count_type, what in (("TC", "all people of"), ("SC", "one age, race and ethnicity in")):
        mae = cell(found["topdown"], "mae", count_type=count_type, level=where, epsilon=epsilon)
        if mae is not None:
            numbers.append(
                KeyNumber(value=f"± {mae:,.3g}", unit="people",
                          label=f"median error, {what} {ONE_UNIT[where]}, at {at(epsilon)}")
            )  # fmt: skip
    epl = cell(found["topdown"], "epl", count_type="TC", level=where, epsilon=epsilon)
    if epl is not None:
        numbers.append(
            KeyNumber(value=f"{epl:.2g}",
                      label=f"empirical privacy loss of district totals, promise {epsilon:g}")
        )  # fmt: skip
    for sample, words in samples_at(compared(found), epsilon)[:1]:
        label = f"the sample that {at(epsilon)} is like, for {words}"
        numbers.append(KeyNumber(value=sample, label=label))
    return KeyNumbers(tuple(numbers))


def _finding(found: Tables) -> str:
    """The answer in a few sentences, each decided by the tables."""
    epsilon = headline(found["topdown"]["epsilon"])
    like = sample_sentence(compared(found), epsilon)
    link = "samples" if figures.sample_figure(found) else "table-1"
    return f"**{like}** ([](#{link})). {_below(found['topdown'])}"


def _below(topdown: pl.DataFrame) -> str:
    """Whether the empirical loss stays below the promise, and where it does not."""
    defined = topdown.filter(pl.col("epl").is_not_null())
    above = defined.filter(pl.col("epl") >= pl.col("epsilon"))
    if defined.is_empty():
        return "The loss that can be seen in single counts is not defined here."
    ratio = defined.select((pl.col("epl") / pl.col("epsilon")).median()).item()
    share = percent(float(f"{ratio:.2g}"))
    if above.is_empty():
        where = "**below the promise throughout**"
    else:
        others = "the other rests" if above.height == 1 else "the others rest"
        where = (
            f"below the promise in {defined.height - above.height} of {defined.height} cases "
            f"({others} on at most {max(above['n']):,} errors)"
        )
    return (
        f"The loss that can be seen in single counts is {where}, at the median {share} of it "
        "([](#topdown-table)). That is a measurement of some events, not a smaller promise "
        "([](#small-samples))."
    )


def _what_was_done(found: Tables, about: About) -> Section:
    return Section(
        title="What was done",
        blocks=(
            Prose(
                f"**The people.** {about.describe()}\n\n"
                "**TopDown**, as in the Census Bureau's 2018 end-to-end test. A quarter of ε goes "
                "to each of nation, states, counties and enumeration districts. At each level "
                "noise is added to three sets of counts: by age, race and ethnicity (67.5 % of the "
                "level's ε), by type of housing (22.5 %) and in full detail (10 %). Then, from the "
                "top down, the nearest whole, non-negative counts are found that add up to the "
                "level above. Totals of states are published exactly; no district has fewer "
                "people than homes. ε is for one person's record being changed.\n\n"
                "**A sample.** The same share of all people is drawn at random, without "
                "replacement, and every count is weighted up. A sample promises nothing: whoever "
                "is in it is in it. It is here as a yardstick.\n\n"
                f"Each was run {about.times()} for {_swept(found)}. Two things were "
                "measured. **Error** is the protected count minus the exact one, in people: of "
                "all people of a place (*total count*, TC) and of those of one age group, race "
                "and ethnicity (*stratified count*, SC). **Empirical privacy loss** (EPL) is read "
                "off the errors: how much likelier one error is than the next. It is the paper's "
                "own measure; whether it is a good one has its own section."
            ),
        ),
    )


def _swept(found: Tables) -> str:
    epsilons = found["topdown"]["epsilon"].unique().sort().to_list()
    samples = found["sampling"]["fraction"].unique().sort().to_list()
    promises = f"{len(epsilons)} values of ε from {epsilons[0]:g} to {epsilons[-1]:g}"
    sizes = f"{len(samples)} samples from {percent(samples[0])} to {percent(samples[-1])}"
    if len(epsilons) == 1:
        promises = at(epsilons[0])
    if len(samples) == 1:
        sizes = f"one sample of {percent(samples[0])}"
    return f"{promises}, and for {sizes}"


def _meaning(found: Tables) -> Section:
    shown = shown_epsilons(found["topdown"]["epsilon"])
    nearest = compared(found)
    like = [f"- {sample_sentence(nearest, epsilon)}." for epsilon in shown]
    by_size, less = errors_by_size(found)
    better = (
        "The error of a sample grows as the square root of a count, that of TopDown less. So the "
        "larger your counts, the better TopDown compares."
    )
    return Section(
        title="What it means for counts like yours",
        blocks=(
            Prose(
                f"{by_size} So what matters is how large *your* counts are. Read [](#meaning) "
                "across: a typical count, and how far half of its kind are off."
            ),
            tables.meaning_table(found),
            figures.error_figure(found),
            Prose(
                "Most social scientists know how to work with a sample. In those terms, error "
                "and loss together:\n\n" + "\n".join(like) + ("\n\n" + better if less else "")
            ),
            *([samples] if (samples := figures.sample_figure(found)) else []),
        ),
    )


def _errors(found: Tables) -> Section:
    return Section(
        title="Errors, and what they give away",
        blocks=(
            Prose(
                "Suppose one more person had been counted in your district: its error would move "
                "by one. If errors of x and of x + 1 are about equally common, nobody can tell the "
                "difference. So the errors themselves, all of one kind taken together, show how "
                "much is given away: the steeper their distribution, the more."
            ),
            figures.residual_figure(found),
            figures.loss_figure(found),
        ),
    )


def _tradeoff(found: Tables) -> Section:
    return Section(
        title="Accuracy against privacy, beside a sample",
        blocks=(
            figures.tradeoff_figure(found),
            tables.equivalence_table(found),
            Callout(
                "warning",
                "“Like a sample” is about error and EPL of single counts. It is not about "
                "protection: a sample shows those in it fully, and has no guarantee at any size.",
            ),
        ),
    )


def _agreement(found: Tables, about: About) -> Section:
    return Section(
        title="Does it agree with the paper?",
        blocks=(
            Prose(_agreement_text(found["paper"], about)),
            tables.agreement_table(found),
            tables.paper_table(found),
            Prose(_targets_text(found["targets"])),
            *(
                [tables.targets_table(found)]
                if found["targets"]["within"].is_not_null().any()
                else []
            ),
            Subheading("The population"),
            Prose(_fit_text(found, about)),
            tables.fit_table(found),
        ),
    )


def _agreement_text(paper: pl.DataFrame, about: About) -> str:
    judged = tables.judged(paper)
    there = judged.filter(pl.col("ours").is_not_null())
    missing = judged.height - there.height
    text = (
        f"The paper's results text and table 1 quote {paper.height} numbers. Of the "
        f"{there.height} that this run has too, **{there['near'].sum()} agree**: within 10 %, or "
        "within one person for errors, which are whole numbers, or 5 points for table 1. "
        f"{there['roughly'].sum()} agree within 25 %."
    )
    if missing:
        text += f" {missing} belong to settings or places that are not in this run."
    if not about.whole:
        text += (
            f" But the paper is about the nation and this run about {about.covers}: sizes of "
            f"counts, errors of samples, bias and losses depend on that.{_errors_elsewhere(judged)}"
        )
    return text


def _errors_elsewhere(judged: pl.DataFrame) -> str:
    """How TopDown's errors here compare with the paper's, at the median."""
    rows = judged.filter(pl.col("kind") == "TopDown: errors", pl.col("paper") > 0)
    ratio = (rows["ours"] / rows["paper"]).median()
    if not isinstance(ratio, float):
        return ""
    return f" Median errors of TopDown are {ratio:.2f} times the paper's, at the median of them."


def _targets_text(targets: pl.DataFrame) -> str:
    judged = targets.drop_nulls("within")
    text = "The paper's extended data and notebooks hold more numbers."
    exact = pl.col("statistic").is_in(["largest error", "sum of errors"])
    if judged.filter(~exact).is_empty():
        kept = judged["within"].all()
        return (
            f"{text} They are national and of four runs, so this run is not judged by them; "
            "`tables/targets.csv` has them side by side. What must hold in any run "
            f"**{'holds' if kept else 'DOES NOT HOLD'}**: totals of states are exact, and the "
            "errors of totals add up to nothing at every level."
        )
    return (
        f"{text} They, and what theory asks of samples, of signs and of sums, make "
        f"{judged.height} numbers that can be judged, by tolerances fixed beforehand: "
        f"**{judged['within'].sum()} are within them**."
    )


def _fit_text(found: Tables, about: About) -> str:
    judged = found["fit"].drop_nulls("within")
    kept = int(judged["within"].sum())
    if not judged.height:
        return "The published figures are about the whole nation; for a part none can be judged."
    if not about.synthetic:
        return (
            f"Your file beside what is published of the 1940 census: {kept} of {judged.height} "
            "figures agree within the tolerances meant for a synthetic population."
        )
    return (
        "The generator was fitted to published *counts*, and to the fact that the paper's errors "
        f"add up to 0 in a state. {kept} of {judged.height} figures that can be judged here are "
        "within tolerance. Shares of Hispanics by state, ages and "
        "where group quarters stand are not published and are guesses."
    )


def _everything(found: Tables, about: About) -> Section:
    return Section(
        title="All numbers",
        blocks=(
            Prose(
                "Every number behind the figures; the same as files in `tables/`. "
                f"{_pooled(about)} A cell counts if it is not empty before or after."
            ),
            tables.whole_table(found),
            tables.sampling_table(found),
        ),
    )


def _pooled(about: About) -> str:
    if about.replicates == 1:
        return "They rest on one run of each setting."
    return (
        f"The {about.replicates} runs of each setting are put together before anything is "
        "computed, as in the paper."
    )


def _limits(about: About) -> tuple[Block, ...]:
    data = (
        "- **Made-up people.** The population matches published counts of 1940. What is not "
        "published (who lives beside whom) is a model, and bias and EPL of counties depend on "
        "it.\n"
        if about.synthetic
        else "- **Your file.** Tables and figures here are computed from exact counts.\n"
    )
    return (
        Callout(
            "warning",
            "An empirical privacy loss is **not a guarantee**. ε is. A small EPL says that the "
            "events looked at, one count at a time, give little away; other events may give away "
            "all of ε. Choose ε by its promise.",
        ),
        Prose(
            data + "- **1940 is not 2020.** The census of 2020 has more people, more levels, ten "
            "times the race groups and finer ages; its TopDown spends on other queries with "
            "another kind of noise. Its smallest counts are smaller than any here.\n"
            "- **Totals of states are exact**, so they have no protection of this kind at all.\n"
            "- **Errors taken together.** Places differ; putting their errors into one pot takes "
            "them all to follow one law. Tiny counts and large ones do not.\n"
            "- **Groups and households.** ε is about one person's record. A household of five is "
            "protected with five times ε. What counts show about groups is not protected.\n"
            "- **Seeded noise.** The noise here comes from a seed, so that the study can be "
            "repeated. Nothing in it is a private release.\n"
            f"- **Chance.** Numbers rest on {about.replicates} "
            f"{'run' if about.replicates == 1 else 'runs'} of one population. Maxima, and all "
            "numbers of states, move from run to run."
        ),
    )
