"""The report of the study christ-2022: for those who decide how counts are protected."""

from __future__ import annotations

from dataclasses import dataclass

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
from headcount.studies.christ_2022 import report_figures as figures
from headcount.studies.christ_2022 import report_privacy as privacy
from headcount.studies.christ_2022 import report_tables as tables
from headcount.studies.christ_2022.report_words import (
    Tables,
    accuracy,
    at_rate,
    first_county,
    held,
    identified,
    most,
    noise_by_county,
    similar,
)
from headcount.studies.christ_2022.settings import DP, UNIT


@dataclass(frozen=True, kw_only=True)
class About:
    """What a run covers.

    where
        synthetic   the block groups of the paper, drawn to published counts; otherwise a table
        people      where the partners come from, in words
    """

    synthetic: bool
    replicates: int
    rates: int
    epsilons: int
    people: str

    @property
    def places(self) -> str:
        """A few words for titles."""
        return "synthetic block groups" if self.synthetic else "areas of a table of people"


def report(found: Tables, about: About, *, provenance: Provenance) -> Report:
    """Tell what was done, who is miscounted, who is found, and what that does not show."""
    return Report(
        title="Swap people, or add noise? What each does to minorities",
        subtitle="Christ, Radway & Bellovin (2022) run again: representation and privacy of "
        f"minorities in {about.places}",
        summary=_summary(found, about),
        sections=(
            _what_was_done(found, about),
            _accuracy(found),
            _yardsticks(found),
            _attack(found),
            *_detailed(found),
            _agreement(found, about),
            _theory(found),
        ),
        limits=_limits(found, about),
        provenance=provenance,
        confidential=not about.synthetic,
    )


def _summary(found: Tables, about: About) -> tuple[Block, ...]:
    county = first_county(found, "Alameda")
    return (
        Prose(
            "Before 2020 the US Census Bureau protected people by **swapping**: some records "
            "changed places with records from elsewhere. In 2020 it turned to **noise** with a "
            "promise **ε** (*differential privacy*), and was told that this would hurt small "
            "groups. *Compared with what?* M. Christ, S. Radway and S. M. Bellovin set both side "
            "by side: how well are minorities counted, and who can be found in the result?\n\n"
            f"This report runs their study again on {_many(found, about)}, and asks of "
            "each of their claims whether it holds. Its randomness comes from a seed, so that it "
            "can be repeated: **nothing in it is a private release.**"
        ),
        KeyNumbers(_key_numbers(found, county)),
        Callout("key finding", _finding(found, county)),
    )


def _many(found: Tables, about: About) -> str:
    number = found["areas"].height
    words = about.places if number > 1 else about.places.replace("groups", "group")
    return f"{number} {words}"


def _key_numbers(found: Tables, county: str) -> tuple[KeyNumber, ...]:
    half, end = (
        most(similar(at_rate(identified(found).filter(county=county), rate))) for rate in (0.5, 1.0)
    )
    few = most(similar(at_rate(identified(found, group="minorities").filter(county=county), 0.5)))
    told = held(found)
    return (
        KeyNumber(value=f"{half:.1f}", unit="%", label=f"of {county} found with every second row "
                  "swapped for a similar one (ages to within 2 years)"),
        KeyNumber(value=f"{few:.1f}", unit="%", label="of its minorities"),
        KeyNumber(value=f"{end:.1f}", unit="%", label="of everyone, with all rows swapped"),
        KeyNumber(value=f"{told['yes']} / {told['partly']} / {told['no']}",
                  label="claims of the paper that hold, hold in part, do not"),
    )  # fmt: skip


def _finding(found: Tables, county: str) -> str:
    kl = accuracy(found, metric="kl").filter(county=county, group="everyone")
    swaps = dict(
        at_rate(kl.filter(pl.col("rate").is_not_null()), 0.5)
        .select("mechanism", "mean")
        .iter_rows()
    )
    noisy = kl.filter(mechanism=DP, clip="query", buckets=6)
    by_epsilon = [
        noisy["mean"][int((noisy["epsilon"] - epsilon).abs().arg_min() or 0)]
        for epsilon in (2.0, 6.0)
    ]
    halves = at_rate(identified(found).filter(county=county, bucket_width=2), 0.5)
    seen = dict(halves.select("mechanism", "percent").iter_rows())
    text = (
        f"In {county}, with half of all rows swapped, the shares of groups are off by a KL "
        f"divergence of {swaps['random']:.3f} if partners are random, and {seen['random']:.1f} % "
        f"of people are found; with the most similar partners it is {swaps['0-similar']:.3f} and "
        f"{seen['0-similar']:.1f} %. Noise with six age buckets gives {by_epsilon[0]:.3f} at "
        f"ε = 2 and {by_epsilon[1]:.3f} at ε = 6."
    )
    if swaps["0-similar"] < swaps["random"] and seen["0-similar"] > seen["random"]:
        text += (
            " **The more alike the partners, the better the counts, and the more people are "
            "found.**"
        )
    mean = noise_by_county(found, "mse")
    if max(mean) <= 1.3 * min(mean):
        text += (
            " The squared error of noise is nearly the same in every block group; its KL, "
            "which weighs small groups more, is not."
            if max(kls := noise_by_county(found, "kl")) > 1.3 * min(kls)
            else " The error of noise is nearly the same in every block group."
        )
    return text


def _what_was_done(found: Tables, about: About) -> Section:
    drawn = (
        "The paper's block groups were never published. Ours are drawn as the paper describes: "
        "blocks of nine counties, of three classes of diversity, put together until there are "
        "600 to 1,500 people, with the counties' published mix of races. "
        if about.synthetic
        else "The areas are those of the table given; partners come from all other areas. Where it "
        "has no household size, neither noise nor attack uses one. "
    )
    return Section(
        title="What was done",
        blocks=(
            Prose(
                f"{drawn}Each area was protected in two families of ways, {about.replicates} "
                "times each:\n\n"
                f"- **swapping**, at {about.rates} rates from 0.01 to 1: rows that are unique in "
                f"the area first, then the rest at random, each against a row from {about.people}. "
                "The partner is *random*; or of the same age and sex (*pseudo-random*); or "
                "*k-similar*: age within k years, race and Hispanic origin within k places in the "
                "order of frequency, and the same sex if k = 0. Where nobody is that similar, k "
                "grows. All but tenure is exchanged. Within a run, a higher rate swaps the rows "
                "of a lower one and more;\n"
                f"- **noise**, at {about.epsilons} values of ε from 0.1 to 10: geometric noise on "
                "the count of every combination of age bucket (2, 6 or 45), Hispanic origin, race "
                "and household size. As in the paper ε is for the unit "
                f"{UNIT}: one row more or less, and nothing else. Of people in households, one "
                "more or less also changes the household size of the others: with sizes of 1 to 4 "
                "up to seven counts, a loss of up to 7 ε for a person. Counts of groups are "
                "summed from these, and negative ones set to 0 after summing, unless a figure "
                "says otherwise.\n\n"
                "Swapping gives no guarantee of any kind. The two have no common dial: no ε is "
                "*equal* to a swap rate."
            ),
            tables.areas_table(found),
        ),
    )


def _accuracy(found: Tables) -> Section:
    return Section(
        title="How well are groups counted?",
        blocks=(
            Prose(
                "The yardstick is the *KL divergence* between the true and the published shares "
                "of all combinations of Hispanic origin and race. It is 0 if they agree, and "
                "grows when small groups shrink or vanish. How much small groups weigh is set by "
                "μ; all figures but two use μ = 0.0001, as the paper."
            ),
            figures.both_figure(found),
            figures.diversity_swapping_figure(found),
            figures.diversity_noise_figure(found),
            Subheading("What μ does"),
            *figures.mu_figures(found),
        ),
    )


def _yardsticks(found: Tables) -> Section:
    return Section(
        title="Other yardsticks",
        blocks=(
            figures.error_figure(found),
            figures.underallocation_figure(found),
            figures.four_figure(found),
            Prose(
                "With noise it matters *when* negative counts are set to 0. The paper does not "
                "say which it did; both are in `accuracy.csv`, in the column `clip`."
            ),
            tables.clip_table(found),
        ),
    )


def _attack(found: Tables) -> Section:
    return Section(
        title="Who can be found?",
        blocks=(
            Prose(
                "The attacker has a list with the name, age, race and household size of everyone "
                "in the area, and looks in the swapped rows for Hispanic origin. A person matches "
                "if exactly one row has the same age (to within 2, 15 or 45 years), race and "
                "household size. The match is *confirmed* if it is the same individual and the "
                "origin is right. The attacker cannot see which matches are confirmed."
            ),
            privacy.found_figure(found, group="everyone"),
            privacy.found_figure(found, group="minorities"),
            Callout(
                "note",
                "**Why is noise not in these figures?** A noisy histogram has no rows to match. "
                "One could guess a person's origin from the counts of people like them, but that "
                "works as well for people who are not in the data at all: *statistical inference "
                "is not a privacy violation*. So the figures do not say that noise is safe; what "
                "it protects is said by ε.",
            ),
            privacy.readings_figure(found),
            tables.found_table(found),
        ),
    )


def _detailed(found: Tables) -> tuple[Section, ...]:
    figure = privacy.detailed_figure(found)
    if figure is None:
        return ()
    return (
        Section(
            title="With more detail",
            blocks=(
                Prose(
                    "Surveys ask more than the census. For the block group of Cibola nine further "
                    "attributes were added: heating, type of housing, military service, year "
                    "moved in, value, rent, rooms, year built and owner's costs. Here they are "
                    "independent of each other, with plausible shares; the paper's were not "
                    "published. Similar now means within k levels in *every* attribute, so that k "
                    "must grow for most rows before anybody qualifies. The paper does not say how "
                    "it defined similarity there, nor what its attacker knew."
                ),
                figure,
            ),
        ),
    )


def _agreement(found: Tables, about: About) -> Section:
    told = held(found)
    not_all = "" if about.synthetic else " Only claims that are formulas can be judged here."
    return Section(
        title="Does it agree with the paper?",
        blocks=(
            Prose(
                f"Of {sum(told.values())} claims, {told['yes']} hold, {told['partly']} hold in "
                f"part, and {told['no']} do not.{not_all} Where one does not, the block groups "
                "may be the reason: the paper's are unknown, and one block group is not another. "
                "Claims about order and shape are less exposed to this than single numbers. "
                "Claims about the bend of curves are judged twice, by a rule fixed before the run "
                "and by one added after it ([](#kinks)), and so count twice."
            ),
            tables.claims_table(found),
            tables.kinks_table(found),
        ),
    )


def _theory(found: Tables) -> Section:
    return Section(
        title="The theory",
        blocks=(
            Prose(
                "*Theorem 1* says how a group's share of an area changes when a share κ of all "
                "rows is swapped at random: by κ (β − α) on average, where α is its share in the "
                "area and β outside. That is right. The paper calls its absolute value the "
                "expected *error*; the expected absolute error is larger, because losses and "
                "gains by chance do not cancel in it."
            ),
            tables.theorem_table(found),
            tables.variance_table(found),
        ),
    )


def _limits(found: Tables, about: About) -> tuple[Block, ...]:
    synthetic = (
        "- **Synthetic block groups.** Nobody in them is real. Age, sex, household size and "
        "tenure are drawn independently of race, so that fewer people look alike, or more, than "
        "in truth. The paper's own block groups are unknown but for a few numbers.\n"
        if about.synthetic
        else "- **A table of people.** The figures hold for the people in the table. They are "
        "computed from the exact rows and must be kept as these are.\n"
    )
    return (
        Callout(
            "warning",
            "Few people found by *this* attack does not mean that few can be found. Swapping "
            "leaves most records as they are, and gives no guarantee against an attacker who "
            "knows more or tries something else.",
        ),
        Prose(
            f"{synthetic}"
            "- **Readings.** “The same individual” is read in three ways, and “unique” as alone in "
            "age, sex, race and Hispanic origin; the paper does not settle either. Its pairing of "
            "30, 55 and 80 % with ages 2, 15 and 45 years wide looks reversed.\n"
            "- **Not the Bureau's methods.** The Bureau swapped households, not people, by a "
            "secret recipe; its TopDown measures many more tables than this histogram and makes "
            "them consistent.\n"
            "- **Noise was not attacked.** See above.\n"
            "- **One block group a county.** What differs between two block groups of a county is "
            "not shown; spreads (`sd` in the tables) are over runs on the same people. "
            "Another seed draws other block groups, and some verdicts on claims change with it: "
            "look at more than one.\n"
            "- **No equal privacy.** No figure compares a swap rate and an ε of equal privacy, for "
            "there is no such pair."
        ),
    )
