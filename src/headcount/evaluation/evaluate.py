"""A release evaluated: every metric and attack that supports it, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from headcount.engines.protocol import Engine
from headcount.errors import InputError, PluginError, did_you_mean
from headcount.evaluation.attacked import attack, known_release
from headcount.evaluation.choice import Choice
from headcount.evaluation.metrics import NotFeasible
from headcount.evaluation.truth import Truth
from headcount.population import Population
from headcount.progress import Progress, silent
from headcount.registry import ATTACKS, METRICS
from headcount.release.foreign import is_foreign, read_foreign
from headcount.report.finding import Finding
from headcount.report.model import Figure
from headcount.report.notebook import shown
from headcount.tabulate import Counts


@dataclass(frozen=True)
class NotComputed:
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
    not_computed: tuple[NotComputed, ...] = ()
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
        release = read_foreign(release, truth.counts.schema, truth.counts.geography)
        truth = truth.on(release)
    release = known_release(release)
    findings: list[Finding] = []
    left_out: list[NotComputed] = []
    for metric in choice.chosen_metrics():
        try:
            with METRICS.naming(metric):
                if support := metric.supports(release, truth):
                    findings.append(metric.compute(release, truth, progress=progress))
                else:
                    left_out.append(NotComputed(metric.name, support.why_not))
        except (NotFeasible, PluginError) as error:
            left_out.append(NotComputed(metric.name, str(error)))
    attacks = choice.chosen_attacks()
    for kind in progress(attacks, what="Attacks", total=len(attacks)):
        try:
            with ATTACKS.naming(kind):
                if support := kind.supports(release.unweighted()):
                    findings.append(attack(release, truth, kind, engine=engine))
                else:
                    left_out.append(NotComputed(kind.name, support.why_not))
        except (NotFeasible, PluginError) as error:
            left_out.append(NotComputed(kind.name, str(error)))
    return Evaluation(findings=tuple(findings), not_computed=tuple(left_out), public=public)
