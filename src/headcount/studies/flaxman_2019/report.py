"""The report of the study flaxman-2019: for a policy maker first, for a methodologist after."""

from __future__ import annotations

from typing import Any

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
from headcount.report.provenance import gather_provenance
from headcount.studies.flaxman_2019 import FlaxmanStudy
from headcount.studies.flaxman_2019 import report_figures as figures
from headcount.studies.flaxman_2019 import report_tables as tables
from headcount.studies.flaxman_2019.settings import FIGURE_1, MechanismName


def report(study: FlaxmanStudy, *, provenance: Provenance | None = None) -> Report:
    """Tell what the study did, what it found and what that does not mean."""
    return Report(
        title="How much of a privacy promise is really used?",
        subtitle="Three ways to add noise to counts of people: Flaxman (2019) run again, checked "
        "and taken further",
        summary=_summary(study),
        sections=(
            _what_was_done(study),
            _figure_1(study),
            _promise(study),
            _agreement(study),
            _three_measures(study),
            _sweep(study),
            _levels(study),
        ),
        limits=_limits(study),
        provenance=provenance or _provenance(study),
        confidential=False,
    )


def _summary(study: FlaxmanStudy) -> tuple[Block, ...]:
    ratio = {name: _measured(study, name) for name in FIGURE_1}
    return (
        Prose(
            "A statistics office can protect people by adding random noise to the counts it "
            "publishes. The method comes with a promise, **ε**: an upper limit on what the "
            "published counts can tell about any one person. A smaller ε is a stronger promise "
            "and costs accuracy. A promise is a limit, not a measurement, so it is fair to ask: "
            "*how much of it is used?* If much less, the same promise could be kept with less "
            "noise.\n\n"
            "A. D. Flaxman asked this in 2019 of three simple methods and estimated the answer "
            f"from the errors themselves. We ran his study again, {study.replicates} times, and "
            "then asked whether his estimate can be relied on."
        ),
        KeyNumbers(
            (
                KeyNumber(value=f"{ratio['geometric']:.2f}", unit="× ε",
                          label="measured for geometric: the promise is used in full"),
                KeyNumber(value=f"{ratio['averaged']:.2f}", unit="× ε",
                          label="measured for averaged: about half"),
                KeyNumber(value=f"{ratio['raked']:.2f}", unit="× ε",
                          label="measured for raked: about a quarter"),
                KeyNumber(value=f"{_judged(study)}",
                          label="comparisons with published numbers within tolerance"),
            )
        ),
        Callout(
            "key finding",
            f"{_outcome(study)} **But a low measured loss is not a low loss.** The estimate looks "
            "at one area at a time, where errors are common. The loss of averaged nears its whole "
            f"promise for large errors ([](#averaged-law)).{_more_than_the_areas_show(study)} "
            "**Spend by the promise, not by the measurement.**",
        ),
    )  # fmt: skip


def _what_was_done(study: FlaxmanStudy) -> Section:
    s = study.settings
    return Section(
        title="What was done",
        blocks=(
            Prose(
                f"A made-up population of {s.people:,} people was spread at random over "
                f"{s.areas:,} areas, nested in {s.depth} levels, and counted. No real person is in "
                "it. Its counts were protected by three methods, all of which promise ε when one "
                "person is added to the data or removed from it:\n\n"
                "- **geometric** adds noise to the count of each area, with the whole of ε;\n"
                f"- **raked** splits ε over the {s.depth + 1} levels from the whole to the area, "
                "adds noise at each, and scales every count so that areas add up to the unit "
                "above them. It is a sketch of the method of the 2020 US Census;\n"
                f"- **averaged** publishes the mean of {s.parts} noisy counts, each made with "
                f"ε/{s.parts}.\n\n"
                "When a person's record *changes*, here by moving to another area, two counts "
                "change and the promise is weaker: 2ε for geometric and averaged, "
                f"{2 * s.depth / (s.depth + 1):g} ε for raked, whose total stays as it is. This "
                "report says at each number which of the two is meant."
            ),
        ),
    )


def _figure_1(study: FlaxmanStudy) -> Section:
    return Section(
        title="The paper's figure, made again",
        blocks=(
            Prose(
                "The idea of the estimate: if the errors of all areas follow one law, then the "
                f"{study.settings.areas:,} errors of a single run stand for as many runs on one "
                "area. Adding a person shifts an area's count by one. So the loss at an error "
                "of size x is how much less likely (in logarithms) an error of x + 1 is than one "
                "of x, and a smoothed histogram tells that."
            ),
            figures.residual_figure(study),
            figures.curve_figure(study),
        ),
    )


def _promise(study: FlaxmanStudy) -> Section:
    return Section(
        title="Promise and measurement",
        blocks=(
            Prose(
                "The middle of the curve, its *plateau*, is summed up by the median of its size. "
                "Against ε it gives the relation of the paper: **1, ½ and ¼**. The relation is "
                "about the plateau; the maximum of each curve is about twice as high, because it "
                "is the largest of many noisy values."
            ),
            figures.promise_figure(study),
            figures.explorer_figure(study),
            tables.epl_table(study),
            Callout(
                "note",
                "Why a quarter? Raked spends a quarter of ε on the areas and three quarters on "
                "the levels above. The estimate sees the areas alone, so it finds the quarter "
                "spent there, and errors four times as large as geometric at the same ε: compare "
                "the error columns. The other three quarters bought accuracy elsewhere "
                "([](#error-by-level)) and are published too.",
            ),
        ),
    )


def _agreement(study: FlaxmanStudy) -> Section:
    return Section(
        title="Does it agree with the paper?",
        blocks=(
            Prose(
                "The paper defines noise with chances that fall by exp(−ε) for each person of "
                "error. Its code passes ε to a random generator that takes a *probability*, and "
                "so they fall by 1 − ε. That is a little less noise and a true loss of "
                "−ln(1 − ε), above the ε stated. The published numbers match this **published "
                "variant** only. It exists in this study and nowhere else in headcount; the "
                "**exact mechanism** is the one headcount uses, and both are shown."
            ),
            tables.claims_table(study),
            tables.losses_table(study),
            figures.spread_figure(study),
        ),
    )


def _three_measures(study: FlaxmanStudy) -> Section:
    s = study.settings
    return Section(
        title="Three ways to measure, and what each can say",
        blocks=(
            Subheading("The pooled estimate"),
            Prose(
                "*What it is:* the change in the log of a smoothed histogram of one run's errors, "
                "as above. Fast: seconds.\n\n"
                "*What it is not:* a bound of any kind. It takes all errors to follow one law that "
                "shifts by one; it looks at one area at a time and only where errors are common; "
                "and its smoothing and noise can push it either way. For averaged the exact law is "
                "known, and shows what is missed."
            ),
            figures.law_figure(study),
            Subheading("The direct estimate"),
            Prose(
                "*What it is:* the definition of ε, tried out. One person is moved from area "
                f"{s.moved[0]} to area {s.moved[1]}; every method is run {s.direct_runs} times on "
                "the population before the move and as often on the one after it, and the chances "
                "of simple events are compared.\n\n"
                "*What it is not:* precise. Each log ratio is a noisy estimate and the largest of "
                "many is too high. It is no lower bound either.\n\n"
                "In the paper's code the raked method counted the original people again on every "
                "run, so that its two populations were the same: a **null test** without knowing "
                "it. Here both are really run, and the null test is drawn beside them."
            ),
            figures.direct_figure(study),
            Subheading("The audit"),
            Prose(
                "*What it is:* a guessing game with a proof. From a release, a fixed rule guesses "
                "which of the two populations it came from. If it is right too often, ε cannot be "
                "small: a **lower bound** on the true loss at a stated confidence. The rule is "
                "chosen on other runs than the bound is computed on.\n\n"
                "*What it is not:* an upper bound. A cleverer rule or more runs may find more. At "
                f"ε = {float(s.direct_epsilon):g} and {s.direct_runs} runs there is little to "
                f"find, so it was run again at ε = {float(s.audit_epsilon):g} with "
                f"{s.audit_runs:,} runs on each population."
            ),
            tables.audit_table(study),
            _audit_meaning(study),
        ),
    )


def _audit_meaning(study: FlaxmanStudy) -> Callout:
    quarter, found = _areas_show(study), _bound(study)
    if found <= quarter:
        return Callout(
            "note",
            f"If raked lost only what its areas show, a moved person could cost {quarter:.2g}. "
            f"The audit over every level proves {found:.2f}, which does not exceed that; with so "
            "few runs it settles nothing.",
        )
    return Callout(
        "key finding",
        f"If raked lost only what its areas show, ε/{study.settings.parts} for each of the two, "
        f"a moved person could cost at most {quarter:.2g}. The audit over every published level "
        f"proves at least **{found:.2f}**. So the “quarter” is not the method's loss: it is what "
        "one looks at. The paper names this as its biggest concern, an event that was not tried; "
        "this is one.",
    )


def _sweep(study: FlaxmanStudy) -> Section:
    return Section(
        title="What the estimate depends on",
        blocks=(
            Prose(
                "A measurement should not depend much on how it is taken. Here each setting of "
                "the population (people, levels, people per area, ε) and of the estimator "
                "(percentile and multiplier of the range of errors looked at, width of the "
                "smoothing kernel) is moved in turn. \n\n"
                "- **geometric** shows its promise wherever there are enough areas. With 64 areas "
                "(10,000 people) every method seems to lose more than twice as much: that is the "
                "noise of the estimate.\n"
                "- **raked** shows 1/(J + 1), the share of ε that its areas get, and far less "
                "where counts are small against the noise, by the failure of [](#raked-spread).\n"
                "- **averaged** has no plateau, so its “half” is a choice: it grows with the range "
                "of errors looked at, from a fifth to more than a half.\n"
                "- A narrow kernel takes chance ripples for loss."
            ),
            figures.sweep_figure(study),
            tables.sweep_table(study),
        ),
    )


def _levels(study: FlaxmanStudy) -> Section:
    return Section(
        title="Errors at every level",
        blocks=(
            Prose(
                "Loss is one side; the other is error. At equal ε raked is worse than geometric "
                "for single areas and far better for large units, and its areas always add up."
            ),
            figures.level_figure(study),
            tables.levels_table(study),
        ),
    )


def _limits(study: FlaxmanStudy) -> tuple[Block, ...]:
    return (
        Callout(
            "warning",
            "An empirical loss is **not a guarantee**. Only ε is, and only for the exact "
            "mechanism with secret randomness. This study uses a seed, so that it can be repeated; "
            "nothing in it is a private release.",
        ),
        Prose(
            "- **Other events.** Chance error aside, the loss seen in chosen events is at most "
            "that of the method and may be far below it. The audit of raked is an example.\n"
            "- **Another population.** People are spread evenly here and there is one count for "
            "each area, no age, sex or race. Real areas differ greatly in size; errors of raked "
            "then differ from area to area, and pooling them is no longer justified.\n"
            "- **Raked is not the census method.** It scales counts; the 2020 Census solves an "
            "optimisation with counts that are whole and not negative.\n"
            "- **Negative and fractional counts** are released by these methods as they are.\n"
            "- **Units of privacy.** ε is for one person added or removed; the direct estimate "
            "and the audits move one person, which is another unit. A household is another again, "
            "and is not protected as a whole.\n"
            "- **Inference.** No ε protects from what counts show about groups, or from other "
            "publications about the same people: losses add up.\n"
            f"- **Chance.** Means are over {study.replicates} replicates of the noise on one "
            "population drawn from the seed; the sweep rests on fewer."
        ),
    )


def _provenance(study: FlaxmanStudy) -> Provenance:
    return gather_provenance(
        recipe=f"headcount study flaxman-2019 --out DIR --seed {study.seed} "
        f"--replicates {study.replicates}",
        seeds=[study.seed],
        config=_settings_text(study),
    )


def _settings_text(study: FlaxmanStudy) -> str:
    from dataclasses import asdict
    from fractions import Fraction

    def shown(value: Any) -> str:
        if isinstance(value, Fraction):
            return f"{float(value):g}"
        if isinstance(value, tuple):
            return "[" + ", ".join(map(shown, value)) + "]"
        return str(value)

    return "\n".join(f"{key} = {shown(value)}" for key, value in asdict(study.settings).items())


def _measured(study: FlaxmanStudy, name: MechanismName) -> float:
    """Measured loss over epsilon at the paper's epsilon, published variant."""
    row = study.claims.filter(
        (pl.col("quantity") == "median_abs_epl / epsilon") & (pl.col("mechanism") == name)
    )
    return float(row["ours"].item())


def _bound(study: FlaxmanStudy) -> float:
    """What the longer audit proved of raked, looking at every level."""
    rows = study.audits.filter(
        (pl.col("mechanism") == "raked")
        & ~pl.col("control")
        & (pl.col("epsilon") == float(study.settings.audit_epsilon))
        & pl.col("looks_at").str.contains("every level")
    )
    return float(rows["audit_epsilon_lower"].item())


def _areas_show(study: FlaxmanStudy) -> float:
    """What a move could cost at most if raked lost only the share spent on the two areas."""
    return 2 * float(study.settings.audit_epsilon) / study.settings.parts


def _more_than_the_areas_show(study: FlaxmanStudy) -> str:
    """The audit's finding for the summary, if it is one."""
    found, areas = _bound(study), _areas_show(study)
    if found <= areas:
        return ""
    return (
        f" And raked publishes more than areas: an audit of every level proves that it loses at "
        f"least {found:.2f}, where its areas alone account for {areas:.2g} (ε = "
        f"{float(study.settings.audit_epsilon):g}, one person moved, "
        f"{study.settings.confidence:.0%} confidence; [](#audit))."
    )


def _outcome(study: FlaxmanStudy) -> str:
    if study.claims["within"].drop_nulls().all():
        return "The published numbers come out again."
    return f"{_judged(study)} published numbers come out again: see [](#claims)."


def _judged(study: FlaxmanStudy) -> str:
    within = study.claims["within"].drop_nulls()
    return f"{within.sum()} of {len(within)}"
