"""A release evaluated: every metric and attack that supports it, and why the others do not.

``Choice`` says which are asked for, ``evaluate`` runs them, ``attack`` makes one attack and scores
it, and ``evaluation_report`` tells whoever has to decide on the release what it promises, what it
costs and what it gives away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from headcount.attacks import Attack
from headcount.engines import Engine
from headcount.errors import InputError, PluginError, did_you_mean
from headcount.evaluation import counts_found as counts_found  # registers how these are scored
from headcount.evaluation._base import Metric, NotFeasible, Truth, known_release, scored
from headcount.evaluation.attacked import Attacked, score_claims
from headcount.evaluation.part import TruePeople, part_of, whole_of
from headcount.population import Population
from headcount.privacy import Guarantee
from headcount.processes import Progress, silent
from headcount.registry import ATTACKS, METRICS, Registry
from headcount.release import Release, TablesRelease
from headcount.release.foreign import is_foreign, read_foreign
from headcount.release.readers_estimate import ReadersEstimate
from headcount.report.finding import Finding
from headcount.report.model import (
    Block,
    Callout,
    Figure,
    KeyNumbers,
    Prose,
    Report,
    Section,
    gather_provenance,
)
from headcount.report.notebook import shown
from headcount.schema.roles import Attacker, Roles
from headcount.tabulate import Counts


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What an evaluation is asked for.

    where
        metrics      names; None for every metric of ours that is not slow, and all that are given
        attacks      names; None for all of ours, and all that are given
        on_request   names of slow metrics to be run besides
        settings     parameters by name of the metric or attack, as in the tables of a config
        given        metrics and attacks with their parameters, such as those of a config; the last
                     of a name counts
    """

    metrics: tuple[str, ...] | None = None
    attacks: tuple[str, ...] | None = None
    on_request: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    given: tuple[Metric | Attack, ...] = ()

    def chosen_metrics(self) -> tuple[Metric, ...]:
        """The metrics to run, with their parameters."""
        usual = [name for name in METRICS.ours if not METRICS.get(name).on_request]  # type: ignore[attr-defined]
        given = {one.name: one for one in self.given if isinstance(one, Metric)}
        wanted = [*usual, *given] if self.metrics is None else self.metrics
        made = self._made(METRICS, [*wanted, *self.on_request], given)
        return tuple(sorted(made, key=lambda metric: metric.order))

    def chosen_attacks(self) -> tuple[Attack, ...]:
        """The attacks to make, with their parameters."""
        given = {one.name: one for one in self.given if isinstance(one, Attack)}
        wanted = [*ATTACKS.ours, *given] if self.attacks is None else self.attacks
        return tuple(self._made(ATTACKS, wanted, given))

    def _made(
        self, registry: Registry, names: Iterable[str], given: Mapping[str, Any]
    ) -> Iterator[Any]:
        for name in dict.fromkeys(names):
            own = self.settings.get(name, {})
            if name in given:
                yield replace(given[name], **own)
            else:
                yield registry.get(name, source="evaluation")(**own)


def named(text: str) -> tuple[str, ...] | None:
    """Names from a list with commas; "all" is None, "none" is no name."""
    if text == "all":
        return None
    return tuple(name for part in text.split(",") if (name := part.strip()) and name != "none")


@dataclass(frozen=True)
class _NotComputed:
    """A metric or attack that was left out, and why."""

    name: str
    why: str


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Evaluation:
    """What was found about a release, by name of the metric or attack; confidential like the truth.

    where
        findings       what was computed, in the order in which it was asked for
        not_computed   what was left out, each with its reason
        public         whether the data are public, so that these figures are too
    """

    findings: tuple[Finding, ...]
    not_computed: tuple[_NotComputed, ...] = ()
    public: bool = False

    def __repr__(self) -> str:
        return f"<Evaluation: {', '.join(one.name for one in self.findings) or 'nothing'}>"

    def __getitem__(self, name: str) -> Finding:
        for one in self.findings:
            if one.name == name:
                return one
        for other in self.not_computed:
            if other.name == name:
                raise KeyError(f"{name}: not computed, because {other.why}")
        raise KeyError(f"{name}: expected {did_you_mean(name, [one.name for one in self])}")

    def plot(self, name: str = "") -> Figure:
        """The figure of a finding: of the first, or of the one with that name."""
        if not name and not self.findings:
            raise InputError("evaluation", found="no finding to draw", expected="one at least")
        return (self[name] if name else self.findings[0]).figure()

    def _repr_html_(self) -> str:
        numbers = [
            {"measure": one.name, "value": f"{each.value} {each.unit}".strip(), "of": each.label}
            for one in self.findings
            for each in one.numbers()
        ]
        tables = {"Key numbers": pl.DataFrame(numbers)} if numbers else {}
        known = ", ".join(one.name for one in self.findings) or "nothing"
        left_out = {one.name: f"not computed: {one.why}" for one in self.not_computed}
        return shown(
            "Evaluation",
            facts={"computed": known, **left_out},
            frames=tables,
            note="A finding by its name: evaluation[...], its table: evaluation[...].table, its "
            "figure: evaluation[...].plot()",
            confidential=not self.public,
        )

    def __contains__(self, name: str) -> bool:
        return any(one.name == name for one in self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)


def evaluate(
    release: Any,
    truth: Truth | Population | Counts,
    *,
    choice: Choice | None = None,
    progress: Progress = silent,
    engine: Engine | None = None,
) -> Evaluation:
    """Compute each chosen metric, and make each chosen attack, that supports the release.

    where
        release   a release; or files or a data frame of somebody else's, which are read on the
                  domain of the truth (see ``headcount.release.foreign``)

    Without ``choice`` these are ours, but for metrics that are slow. What a part of another
    distribution fails at is left out, so that nothing else is lost.
    """
    choice, public = choice or Choice(), isinstance(truth, Population) and truth.public
    truth = Truth.of(truth)
    if is_foreign(release):
        domain = truth.counts.domain
        release = read_foreign(release, domain.schema, domain.geography, counted=domain.counted)
    release = _as_meant(known_release(release), truth)
    seen = truth.on(release)
    findings: list[Finding] = []
    left_out: list[_NotComputed] = []
    for metric in choice.chosen_metrics():
        try:
            with METRICS.naming(metric):
                support, shown, beside = scored(metric, release, truth, seen)
                if support:
                    finding = metric.compute(shown, beside, progress=progress)
                    if isinstance(shown, ReadersEstimate):
                        finding = replace(finding, reader=shown.words)
                    findings.append(finding)
                else:
                    left_out.append(_NotComputed(metric.name, support.why_not))
        except (NotFeasible, PluginError) as error:
            left_out.append(_NotComputed(metric.name, str(error)))
    attacks = choice.chosen_attacks()
    for kind in progress(attacks, what="Attacks", total=len(attacks)):
        try:
            with ATTACKS.naming(kind):
                if support := kind.supports(release.unweighted()):
                    findings.append(attack(release, seen, kind, engine=engine))
                else:
                    left_out.append(_NotComputed(kind.name, support.why_not))
        except (NotFeasible, PluginError) as error:
            left_out.append(_NotComputed(kind.name, str(error)))
    return Evaluation(findings=tuple(findings), not_computed=tuple(left_out), public=public)


def attack(
    release: Release,
    truth: Truth | Population | Counts,
    kind: Attack,
    *,
    engine: Engine | None = None,
) -> Finding:
    """Attack a release with all that an adversary could know of people, and score the claims.

    The adversary knows where everybody lives, the attributes that the attack says it knows, and the
    settings by which counts of tables were changed, where the truth side knows how.
    """
    release = known_release(release)  # first: what is asked the wrong way round is told so
    truth = Truth.of(truth)
    release = _as_meant(release, truth).unweighted()
    truth = truth.on(release)
    release = _with_settings(release, truth)
    if isinstance(kind, type) or not isinstance(kind, Attack):
        raise InputError(
            "attack",
            found=f"the class {kind.__name__}" if isinstance(kind, type) else f"{kind!r}",
            expected="an attack with its settings, such as Link() or Reconstruct()",
        )
    if not (support := kind.supports(release)):
        raise InputError(
            f"attack {kind.name!r}", found=support.why_not, expected="a release that it supports"
        )
    finding = _made(release, truth, kind, engine)
    other = kind.uninformed(release)
    if other is not None and isinstance(finding, Attacked):
        return replace(finding, beside=_made(release, truth, other, engine))
    return finding


def _as_meant(release: Release, truth: Truth) -> Release:
    """A release with what the truth side says of its attributes, as far as it has them."""
    said, schema = truth.counts.schema, release.schema
    names = set(schema.names)
    attacker = Attacker(
        knows=tuple(name for name in said.attacker.knows if name in names),
        sensitive=tuple(name for name in said.attacker.sensitive if name in names),
    )
    kept = {name: role for name, role in said.roles if role.attribute in names}
    meant = replace(schema, roles=Roles(**kept) if kept else schema.roles, attacker=attacker)
    if (meant.roles, attacker) == (schema.roles, schema.attacker):
        return release
    return replace(release, domain=replace(release.domain, schema=meant))


def _made(release: Release, truth: Truth, kind: Attack, engine: Engine | None) -> Finding:
    """One attack, and what its claims are worth."""
    release = kind.read(release)
    if kind.whole:
        part = whole_of(release, leaves=kind.leaves)
    else:
        part = part_of(release, truth.counts, most=kind.limit(release))
    people = TruePeople.of(truth.counts, part.release.geography)
    known = people.known(kind.knows(release.schema))
    return score_claims(kind.run(part.release, known, engine=engine), people, part)


def _with_settings(release: Release, truth: Truth) -> Release:
    """A release as an adversary has it who knows how it was made, where the truth side does."""
    if not isinstance(release, TablesRelease) or not (release.changed and truth.knows_mechanism):
        return release
    chain = truth.chain()
    known = chain.last.known_change() if chain.weight == 1 else None
    published = tuple(replace(one, known=known) for one in release.published)
    return replace(release, published=published)


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
        summary=(*summary, *_promise(release.guarantee)),
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


def _promise(guarantee: Guarantee) -> tuple[Callout, ...]:
    """What a release promises, or that it promises nothing."""
    sentences = guarantee.sentences()
    stated = sentences[: len(sentences) - len(guarantee.not_covered)]
    return (Callout("key finding" if guarantee.exists else "warning", " ".join(stated)),)
