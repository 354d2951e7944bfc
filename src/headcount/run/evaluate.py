"""A finished release evaluated with the truth it was made from."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from headcount.config.load import config_digest
from headcount.engines.local import LocalEngine
from headcount.errors import RunError
from headcount.evaluation.choice import Choice
from headcount.evaluation.evaluate import Evaluation, evaluate
from headcount.evaluation.report import evaluation_report
from headcount.evaluation.truth import MadeTruth
from headcount.files import write_text_atomic
from headcount.progress import Progress, silent
from headcount.release import Release
from headcount.release.directory import RunDirectory
from headcount.release.store import read_release
from headcount.report.html import write_report
from headcount.run.protect import Prepared, kept_config, prepare_data

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class EvaluatedRun:
    """What was found about a run, where the report is, and whether it may be shown."""

    evaluation: Evaluation
    report: Path
    public: bool


def open_run(path: Path) -> tuple[Release, Prepared]:
    """A finished release with the truth it was made from, for the curator's own evaluation."""
    directory = RunDirectory(path)
    facts = directory.facts()
    if facts is None or not directory.is_complete:
        raise RunError(f"{path}: found no finished run, expected one made by headcount protect")
    config = kept_config(directory)
    if config_digest(config).hex() != facts.config_digest:
        kept = directory.internal / "config.json"
        raise RunError(
            f"{kept}: found a run made with a different config{facts.older}, expected it unchanged"
        )
    prepared = prepare_data(config)
    if prepared.data.digest.hex() != facts.data_digest:
        raise RunError(f"{path}: found data that the release was not made from, expected the same")
    return read_release(directory.release), prepared


def truth_of(prepared: Prepared, internal: Path) -> MadeTruth:
    """The curator's side of a run."""
    return MadeTruth(
        counts=prepared.truth,
        protected=prepared.counts,
        folders=(internal,),
        mechanism=prepared.mechanism,
    )


def evaluate_run(
    path: Path, *, choice: Choice | None = None, progress: Progress = silent
) -> EvaluatedRun:
    """Evaluate a finished run into ``internal/evaluation/``: its tables and a report.

    ``choice`` says which metrics and attacks are wanted; without it all that are not slow, and
    those of the config. What it gives comes before the config.
    """
    release, prepared = open_run(path)
    choice = choice or Choice()
    given = (*prepared.config.metric, *prepared.config.attack, *choice.given)
    choice = replace(choice, given=given)
    internal = RunDirectory(path).internal
    evaluation = evaluate(
        release,
        truth_of(prepared, internal),
        choice=choice,
        progress=progress,
        engine=LocalEngine(),
    )
    folder = internal / "evaluation"
    folder.mkdir(exist_ok=True)
    for finding in evaluation:
        for name, table in finding.files().items():
            write_text_atomic(folder / f"{name}.csv", table.write_csv())
        for warning in finding.warnings():
            log.warning("%s: %s", path, warning)
    report = evaluation_report(
        release,
        evaluation.findings,
        not_computed=[(one.name, one.why) for one in evaluation.not_computed],
        recipe=f"headcount evaluate {path.name}",
        public=prepared.public,
    )
    write_report(report, folder / "report.html")
    return EvaluatedRun(evaluation, folder / "report.html", prepared.public)
