"""A release in plain words, for whoever has to decide on it and for whoever uses it.

All that is said comes from the files of the release: what its receipt and its guarantee state, and
sums of published counts. Nothing is computed from the truth. The version for the house says besides
what the ledger has left and what must stay there; the one to publish has nothing of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

from headcount.errors import RunError
from headcount.evaluation.tally import FINE, ROUGH
from headcount.files import from_json, make_folder, write_text_atomic
from headcount.privacy import Guarantee, Ledger, Loss, PureLoss, ZCDPLoss, pure_to_zcdp
from headcount.privacy.loss import decimal, from_record, sequential
from headcount.privacy.odds import bounding_epsilon, chance_after
from headcount.release import Release, TablesRelease
from headcount.release.directory import RunDirectory
from headcount.release.store import (
    MANIFEST,
    Stored,
    guarantee_from_json,
    read_stored,
    release_folder,
)
from headcount.report.html import write_report
from headcount.report.model import (
    Block,
    Callout,
    Column,
    KeyNumber,
    KeyNumbers,
    Prose,
    Provenance,
    Report,
    Section,
    Subheading,
    Table,
    gather_provenance,
)
from headcount.report.text import render_text
from headcount.run.how_far_off import HowFarOff, of_release
from headcount.run.protect import kept_config

PAGE, TEXT = "page.html", "page.txt"
FOLDER = "explained"
RARE = Fraction(1, 10**10)
"""The chance with which the loss of a rho may be larger than the odds say."""
BEFORE = (Fraction(1, 2), Fraction(1, 10), Fraction(1, 100), Fraction(1, 1000))
METHODS = {
    "TopDown": "random noise on counts of every level, then made consistent from the top down",
    "Geometric": "random noise on every count of the smallest places",
    "Histogram": "random noise on every count of the smallest places",
    "Identity": "no protection at all",
    "Swapping": "households of some places exchanged with like ones elsewhere",
    "Sampling": "some of the people, drawn at random",
    "Suppression": "small counts withheld, with others that would give them away",
    "CellKey": "small changes to every count, the same wherever the same people are counted",
    "Rounding": "counts changed to multiples of a base",
}
"""What a method does, for somebody who does not know its name."""


@dataclass(frozen=True)
class _Told:
    """One release, with what is said of it.

    where
        name      what it is called on the page
        folder    with its files
        internal  the curator's half of the run; None where it is not to be looked at
    """

    name: str
    stored: Stored
    folder: Path
    internal: RunDirectory | None = None

    @property
    def release(self) -> Release:
        """What is published."""
        return self.stored.release

    @property
    def receipt(self) -> Mapping[str, Any]:
        """How it was made."""
        return self.stored.receipt

    @cached_property
    def far(self) -> HowFarOff | None:
        """How far off its counts are."""
        return of_release(self.stored)

    @property
    def guarantee(self) -> Guarantee:
        """What it promises."""
        return guarantee_from_json(self.stored.receipt["guarantee"])


@dataclass(frozen=True)
class _Explained:
    """Where the page is, in both forms, and the text itself."""

    page: Path
    text_file: Path
    text: str


def explain_runs(
    sources: Sequence[Path], *, out: Path | None = None, publish: bool = False
) -> _Explained:
    """Write a page about releases, as HTML and as text.

    where
        sources   run directories, or folders of releases
        out       a folder; without one ``explained`` below ``internal/`` of the first run or, to
                  be published, in the run itself
        publish   say nothing that is not in the releases
    """
    told = [_told(source, publish=publish) for source in sources]
    if publish:
        _refuse_seeded(told)
    first = RunDirectory(sources[0])
    if out is None:
        inside = first.path if publish else first.internal
        out = inside / FOLDER if told[0].internal or publish else Path(FOLDER)
        out = out if told[0].folder != sources[0] else Path(FOLDER)
    if (out / MANIFEST).exists() or any(
        out.resolve().is_relative_to(one.folder.resolve()) for one in told
    ):
        raise RunError(
            f"{out}: found a release, whose files stay as they are, expected another folder"
        )
    report = _explanation(told, publish=publish)
    make_folder(out)
    text = render_text(report)
    write_report(report, out / PAGE)
    write_text_atomic(out / TEXT, text)
    return _Explained(out / PAGE, out / TEXT, text)


def _told(source: Path, *, publish: bool) -> _Told:
    folder = release_folder(source)
    stored = read_stored(folder)
    directory = RunDirectory(source)
    own = None if publish or folder == source or not directory.internal.is_dir() else directory
    # The folder's name is the curator's; the number of the run is in the receipt.
    name = f"release {stored.receipt['run_id']}" if own is None else source.resolve().name
    return _Told(name, stored, folder, own)


def _refuse_seeded(told: Sequence[_Told]) -> None:
    for one in told:
        if one.guarantee.not_private_because:
            raise RunError(
                f"{one.folder}: found a seeded run, expected a release to publish: "
                f"{one.guarantee.not_private_because}"
            )


def _explanation(told: Sequence[_Told], *, publish: bool) -> Report:
    """The page: each release by itself and, of several, what they mean together."""
    several = len(told) > 1
    sections: list[Section] = []
    for number, one in enumerate(told, start=1):
        parts = _parts(one, mark=f"-{number}" if several else "")
        if several:
            inside = [part for title, blocks in parts for part in (Subheading(title), *blocks)]
            sections.append(Section(title=one.name.capitalize(), blocks=tuple(inside)))
        else:
            sections += [Section(title=title, blocks=blocks) for title, blocks in parts]
    if several:
        sections.insert(0, Section(title="All of them together", blocks=_together(told)))
    own = [line for one in told if one.internal for line in _for_the_house(one, one.internal)]
    if own:
        sections.append(Section(title="For the house", blocks=(Prose(_listed(own)),)))
    return Report(
        title="What these releases are, and what to know of them"
        if several
        else "What this release is, and what to know of it",
        subtitle="; ".join(
            f"Made by {_methods(one)}"
            if publish and not several
            else f"{one.name}, made by {_methods(one)}"
            for one in told
        ),
        summary=_summary(told),
        sections=tuple(sections),
        limits=(Prose(_listed(_limits(told))),),
        provenance=_provenance(told, publish=publish),
        confidential=bool(own),
    )


def _provenance(told: Sequence[_Told], *, publish: bool) -> Provenance:
    """Of a page to publish only what the releases say: the same files give the same page."""
    if not publish:
        names = " ".join(one.folder.parent.name if one.internal else "FOLDER" for one in told)
        return gather_provenance(recipe=f"headcount explain {names}", seeds=())
    return Provenance(
        recipe="headcount explain --publish " + " ".join("FOLDER" for _ in told),
        versions=tuple(dict(told[0].receipt["versions"]).items()),
        seeds=(),
        date=", ".join(f"release {one.receipt['run_id']}" for one in told),
        machine="not said",
    )


def _summary(told: Sequence[_Told]) -> tuple[Block, ...]:
    """What matters most, in numbers and one sentence each."""
    numbers = []
    for one in told:
        label = f" ({one.name})" if len(told) > 1 else ""
        if one.guarantee.exists:
            loss = one.guarantee.losses[0]
            numbers += [
                KeyNumber(
                    value=f"{chance:.2f}",
                    unit="% at most",
                    label="is how sure somebody can become who before the release made an even bet "
                    f"({loss.unit.phrase}){label}",
                )
                for chance in _chances(loss)[:1]
            ]
        off = one.far.finest_total if one.far else None
        if off is not None and off.within is not None and off.size is not None:
            numbers.append(
                KeyNumber(
                    value=_whole(off.within),
                    unit=str(one.release.counted),
                    label=f"the total of one {off.level} is off by no more, 19 times of 20; it "
                    f"counts about {_whole(off.size)}{label}",
                )
            )
    blocks: list[Block] = [KeyNumbers(tuple(numbers))] if numbers else []
    for one in told:
        said = f"**{one.name.capitalize()}.** " if len(told) > 1 else ""
        blocks.append(
            Callout("key finding" if one.guarantee.exists else "warning", said + _verdict(one))
        )
    return tuple(blocks)


def _verdict(one: _Told) -> str:
    """The promise in one sentence."""
    guarantee = one.guarantee
    if guarantee.not_private_because:
        return f"**Not private, do not publish**: {guarantee.not_private_because}."
    if not guarantee.losses:
        return (
            "**No formal guarantee**: nothing bounds what the release gives away, and attacks that "
            "fail prove nothing about the next one."
        )
    return (
        "**A formal guarantee**: whatever else somebody knows, the release can change the odds of "
        f"a bet on one record only by a limited factor. {guarantee.sentences()[0]}"
    )


def _parts(one: _Told, *, mark: str) -> list[tuple[str, tuple[Block, ...]]]:
    """What is said of one release, in reading order; ``mark`` tells its tables from others."""
    exact = one.guarantee.released_exactly
    nothing = "Nothing is published as it was counted." if one.guarantee.losses else ""
    return [
        ("What was protected", (Prose(_protected(one)),)),
        ("What it promises", _promise(one, mark)),
        (
            "What is exact",
            (Prose(_listed(f"{_capital(what)}." for what in exact) or nothing or _not_said(one)),),
        ),
        ("How far off counts are", _how_far_off(one, mark)),
        ("How to use it, and how to cite it", (Prose(_citation(one)),)),
    ]


def _not_said(one: _Told) -> str:
    """What is exact under methods that promise nothing, by what they publish."""
    if isinstance(one.release, TablesRelease) and not one.release.changed:
        return "Every count that is published is as it was counted; the others are withheld."
    return "The receipt states nothing that is exact."


def _methods(one: _Told) -> str:
    """Names of the methods, one after another."""
    return ", then ".join(name for name, _ in _steps(one))


def _steps(one: _Told) -> list[tuple[str, str]]:
    """The class of each method, and what it does if we know it."""
    steps = [str(step["step"]) for step in one.receipt.get("steps", ())]
    names = [text.partition("(")[0] for text in steps or [str(one.receipt["mechanism"])]]
    return [(name, METHODS.get(name, "")) for name in names]


def _protected(one: _Told) -> str:
    """Who was counted, by what, where, and what was done to the counts."""
    release = one.release
    geography, counted = release.geography, release.counted
    places = ", ".join(f"{geography.size(level):,} {level}" for level in geography.levels)
    attributes = ", ".join(f"{a.name} ({a.size})" for a in release.schema.attributes)
    done = [f"*{name}*: {words}" if words else f"*{name}*" for name, words in _steps(one)]
    lines = [
        f"Counts of {counted}"
        + (f" by {attributes}" if attributes else "")
        + f", of these places: {places}.",
        f"{_capital('then '.join(f'{one}; ' for one in done).rstrip('; '))}.",
        *(f"{_capital(what)}." for what in one.guarantee.unit_means),
    ]
    return _listed(lines)


def _promise(one: _Told, mark: str) -> tuple[Block, ...]:
    """The odds, exactly from the guarantee; or that there are none."""
    guarantee = one.guarantee
    if guarantee.not_private_because:
        return (Prose(f"Nothing: {guarantee.not_private_because}."),)
    if not guarantee.losses:
        return (
            Prose(
                f"There is no formal guarantee: {guarantee.why_none}. So no odds can be stated. "
                "The method may still protect some people in practice; how many, an evaluation "
                "with attacks can suggest and nothing can prove."
            ),
        )
    who = guarantee.holds_against or "everybody, whatever they know"
    blocks: list[Block] = [
        Prose(
            "Somebody who knows everything except one record bets on what it is. The release can "
            "make them surer, but never surer than this table says, whatever other files they "
            f"have about other people. The promise holds against {who}."
        ),
        _odds(guarantee.losses, mark),
        *_odds_by_attribute(one.receipt.get("certificate", {}), mark),
    ]
    if guarantee.stated_by:
        relies = " and ".join(guarantee.stated_by)
        blocks.append(Callout("warning", f"It relies on {relies}, which headcount did not check."))
    return tuple(blocks)


def _chances(loss: Loss) -> list[float]:
    """How sure somebody can become from each chance before, in per cent, rounded up."""
    bound = bounding_epsilon(loss, delta=RARE)
    return [] if bound is None else [_percent(chance_after(one, bound)) for one in BEFORE]


def _odds(losses: Sequence[Loss], mark: str) -> Table:
    """How sure somebody can become, for each unit of privacy that is stated."""
    known = [(loss, chances) for loss in losses if (chances := _chances(loss))]
    rare = any(isinstance(loss, ZCDPLoss) for loss in losses)
    return Table(
        name=f"odds{mark}",
        caption="**Betting odds.** How sure somebody can be of what is true, before the release "
        "and after it.",
        columns=(
            Column(key="before", label="Before"),
            *(
                Column(
                    key=str(loss.unit),
                    label=f"After: {loss.unit.phrase}",
                    unit="% at most",
                    format=".2f",
                )
                for loss, _ in known
            ),
        ),
        rows=tuple(
            (f"1 in {before.denominator:,}", *(chances[row] for _, chances in known))
            for row, before in enumerate(BEFORE)
        ),
        notes=f"From the guarantee alone ({'; '.join(map(str, losses))}), rounded up: odds grow "
        "by a factor of exp(epsilon) at most. "
        + ("The bound may fail with a chance of 1 in 10 billion (rho). " if rare else "")
        + "It is a limit, not a forecast: no attack needs to get that far.",
    )


def _odds_by_attribute(certificate: Mapping[str, Any], mark: str) -> Iterator[Table]:
    """How sure somebody can become of one attribute, who knows all the others."""
    rows: list[tuple[str | float, ...]] = []
    for name, amounts in certificate.get("of a change of one attribute", {}).items():
        ((currency, amount),) = list(amounts.items())[:1]
        record = {"currency": currency, "amount": amount, "unit": certificate["unit"]}
        loss = from_record(record)
        rows.append((name, f"{currency} {decimal(loss.amount)}", *_chances(loss)[::2]))
    if rows:
        yield Table(
            name=f"attributes{mark}",
            caption="**Of one attribute**, for somebody who knows all the rest of the record.",
            columns=(
                Column(key="attribute", label="Attribute"),
                Column(key="loss", label="Loss"),
                Column(key="even", label="From 1 in 2", unit="% at most", format=".2f"),
                Column(key="rare", label="From 1 in 100", unit="% at most", format=".2f"),
            ),
            rows=tuple(rows),
            folded=True,
        )


def _citation(one: _Told) -> str:
    """How to cite the release, and what to write beside its numbers."""
    receipt, guarantee = one.receipt, one.guarantee
    promise = "; ".join(map(str, guarantee.losses)) or "no formal guarantee"
    digest = from_json((one.folder / MANIFEST).read_text(encoding="utf-8"))["sha256"]
    beside = (
        "Counts carry random noise and differ from the true ones by design; errors are in the "
        "documentation of the release."
        if guarantee.losses
        else "Counts were changed or withheld to protect those counted; there is no formal "
        "guarantee."
    )
    return (
        "Counts are text in CSV files where they are codes (`007` keeps its zeros); the data "
        "dictionary `datapackage.json` describes every file and column.\n\n"
        "Cite it as:\n\n"
        f"> [Office] ([year]): [name of the data], protected counts by {_methods(one)} "
        f"({promise}). Release {receipt['run_id']}, made with headcount "
        f"{receipt['versions']['headcount']}, SHA-256 of the manifest {digest[:16]}.\n\n"
        f"Beside tables and maps made of it:\n\n> {beside}"
    )


def _together(told: Sequence[_Told]) -> tuple[Block, ...]:
    """What several releases promise if they are about the same people."""
    bare = [one.name for one in told if not one.guarantee.exists]
    if bare:
        return (
            Callout(
                "warning",
                f"Together they have no formal guarantee, because {' and '.join(bare)} "
                f"{'has' if len(bare) == 1 else 'have'} none. What the others promise still holds "
                "for each of them by itself.",
            ),
        )
    summed = _sum_of([one.guarantee.losses for one in told])
    if summed is None:
        return (
            Prose(
                "If they are about the same people their losses add up. These are stated for "
                "different units of privacy, so that no sum can be given here: the ledger has it."
            ),
        )
    return (
        Prose(
            "If these releases are about the same people, their losses add up to "
            f"**{summed}**, and somebody who has all of them can become surer than from one. "
            "If they are about different people, each promise stands alone. Releases that are not "
            "on this page add to it."
        ),
        _odds([summed], "-together"),
    )


def _sum_of(losses: Sequence[Sequence[Loss]]) -> Loss | None:
    """The loss of all for the first unit that each states; in rho where they are not alike."""
    for unit in (one.unit for one in losses[0]):
        parts = [next((one for one in some if one.unit is unit), None) for some in losses]
        found = [one for one in parts if one is not None]
        if len(found) < len(parts):
            continue
        if len({type(one) for one in found}) > 1:
            if not all(isinstance(one, PureLoss | ZCDPLoss) for one in found):
                continue
            found = [pure_to_zcdp(one).value if isinstance(one, PureLoss) else one for one in found]
        return sequential(found)
    return None


def _limits(told: Sequence[_Told]) -> list[str]:
    """What no promise covers, and what this page is not."""
    said = dict.fromkeys(what for one in told for what in one.guarantee.not_covered)
    lines = [f"Not covered: {what}." for what in said]
    if any(isinstance(loss, PureLoss) for one in told for loss in one.guarantee.losses):
        lines.append(
            "The odds are for one unit of privacy. For several who change together, such as a "
            "family, the factor is multiplied with itself as many times."
        )
    if any(isinstance(loss, ZCDPLoss) for one in told for loss in one.guarantee.losses):
        lines.append(
            "The odds are for one unit of privacy. Several who change together, such as a family "
            "of k, lose k squared times the rho."
        )
    if any(not one.guarantee.losses for one in told):
        lines.append("Without a formal guarantee nothing bounds what can be learnt.")
    lines.append("Errors that were found by comparing with the truth are not part of this page.")
    return lines


def _for_the_house(one: _Told, directory: RunDirectory) -> list[str]:
    """What the curator should know before the release leaves the house."""
    lines = [
        f"Only `release/` of `{directory.path.name}` may leave the house; the page to publish is "
        "made with `--publish`."
    ]
    if not one.guarantee.made_from:  # an estimate spends nothing, and has no ledger
        run = kept_config(directory).run
        if run.ledger is None:
            lines.append("No ledger was named: nothing adds this loss to that of other releases.")
        elif run.ledger.is_file():
            lines += Ledger.open(run.ledger).balance(run.dataset).sentences()[:2]
        else:
            lines.append(f"The ledger is not where the run had it ({run.ledger}).")
    if directory.key.exists():
        lines.append("`internal/run.key` is still there: the run is not complete.")
    if (directory.internal / "evaluation").is_dir():
        lines.append("`internal/evaluation/` was computed from the truth: quote nothing from it.")
    return lines


def _percent(chance: Fraction) -> float:
    """A chance in per cent, rounded up to two digits after the point."""
    return ceil(chance * 10_000) / 100


def _whole(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:,.1f}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _listed(lines: Any) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _how_far_off(one: _Told, mark: str) -> tuple[Block, ...]:
    """Errors beside what is counted; of tables what their rules say."""
    release, far = one.release, one.far
    if isinstance(release, TablesRelease):
        return (Prose(_tables_off(release)),)
    if far is None or all(row.rmse is None for row in far.rows):
        return (
            Prose(
                "Nothing that is published says how far off counts are: the records themselves "
                "were changed. Only a comparison with the true counts could tell, which is the "
                "curator's; or trial releases on people made of public facts, before the release."
            ),
        )
    counted, top = str(release.counted), release.geography.levels[0]
    below = sum(each["negative"] for each in one.receipt.get("negative_counts", {}).values())
    negative = (
        f" {below:,} published counts are below 0: they are part of the noise, and setting them to "
        f"0 one by one would add {counted} who are not there."
        if below
        else ""
    )
    return (
        Table(
            name=f"errors{mark}",
            caption="**How far off counts are**, beside how many they count.",
            columns=(
                Column(key="query", label="Counts by"),
                Column(key="size", label="Counts about", unit=counted, format=",.12g"),
                Column(key="rmse", label="Off by", unit=f"{counted}, RMSE", format=",.12g"),
                Column(key="within", label="Within", unit=f"{counted}, 19 of 20", format=",.12g"),
                Column(key="use", label="Usable alone", shows="verdict"),
            ),
            rows=tuple(
                (
                    row.counts,
                    *map(_three_digits, (row.size, row.rmse, row.within)),
                    VERDICT[row.use],
                )
                for row in far.rows
            ),
            groups=tuple(
                f"The whole ({row.level})" if row.level == top else f"Each {row.level}"
                for row in far.rows
            ),
            notes=f"{' '.join(far.words())} Nothing here was computed from the truth. *Counts "
            f"about*: the mean of what is published. *Usable alone*: yes where 19 of 20 errors, "
            f"and twice the RMSE, are {FINE:.0%} of the count or less, depends up to {ROUGH:.0%}, "
            f"no beyond. Sums over "
            f"many places are surer than each of them.{negative}",
        ),
    )


VERDICT = {"usable": "yes", "with care": "depends", "not usable": "no", "cannot be said": "depends"}


def _three_digits(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.3g}")


def _tables_off(release: TablesRelease) -> str:
    """What is withheld, or by what rules counts are changed."""
    lines = [] if not release.changed else list(getattr(release.rules, "words", ()))
    for one in release.published:
        gone = int(one.withheld.sum())
        said = f"Table {one.name}, {one.level}: {one.value.size:,} counts"
        if gone:
            said += f", {gone:,} of them withheld"
        if one.off is not None and one.off.steps is not None:
            said += "; the rule above says which counts each number may stand for"
        elif one.off is not None and (one.off.down is not None or one.off.up is not None):
            ends = [
                f"{number:,} {word}"
                for number, word in ((one.off.down, "lower"), (one.off.up, "higher"))
                if number is not None
            ]
            said += f"; the true count is at most {' or '.join(ends)}"
        elif not release.changed:
            hidden = f" (a 0 may stand for up to {one.zero_hides:,})" if one.zero_hides else ""
            said += f"; those that are published are exact{hidden}"
        lines.append(f"{said}.")
    return "\n".join(f"- {line}" for line in lines)
