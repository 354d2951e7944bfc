"""The report on one release: what it promises, what it costs, and what it gives away."""

from __future__ import annotations

from collections.abc import Sequence

from headcount.privacy import Guarantee
from headcount.release import Release
from headcount.report.finding import Finding
from headcount.report.model import (
    Block,
    Callout,
    KeyNumbers,
    Prose,
    Report,
    Section,
)
from headcount.report.provenance import gather_provenance


def evaluation_report(
    release: Release,
    findings: Sequence[Finding],
    *,
    not_computed: Sequence[tuple[str, str]] = (),
    recipe: str,
    public: bool,
) -> Report:
    """A report that a person who has to decide on a release can read.

    ``not_computed`` has the names of metrics and attacks that were left out, each with the reason.
    """
    numbers = tuple(number for finding in findings for number in finding.numbers())
    summary: tuple[Block, ...] = (KeyNumbers(numbers),) if numbers else ()
    sections = [finding.section() for finding in findings]
    if not_computed:
        lines = "\n".join(f"- **{name}**: {why}." for name, why in not_computed)
        sections.append(Section(title="What was not computed, and why", blocks=(Prose(lines),)))
    return Report(
        title="What the protection costs",
        subtitle=f"A release by {release.mechanism.split('(', 1)[0]}, scored against the truth",
        summary=(*summary, *promise(release.guarantee)),
        sections=tuple(sections),
        limits=(
            Prose(
                "These figures describe one release, not the spread over new noise. They are "
                "computed from the true counts, without any protection."
            ),
            Prose("\n".join(f"- Not covered: {what}." for what in release.guarantee.not_covered)),
        ),
        provenance=gather_provenance(recipe=recipe, seeds=(), config=release.mechanism),
        confidential=not public,
    )


def promise(guarantee: Guarantee) -> tuple[Callout, ...]:
    """What a release promises, or that it promises nothing."""
    sentences = guarantee.sentences()
    stated = sentences[: len(sentences) - len(guarantee.not_covered)]
    return (Callout("key finding" if guarantee.exists else "warning", " ".join(stated)),)
