"""A finished release scored against the truth it was made from."""

from __future__ import annotations

import logging
from pathlib import Path

import polars as pl

from headcount.config.load import config_digest
from headcount.errors import RunError
from headcount.evaluate.error import CellSet, check_cells
from headcount.evaluate.representation import represent_release
from headcount.evaluate.scores import score
from headcount.evaluate.suppressed import WITNESSES, audit_release, withheld_frame
from headcount.files import write_text_atomic
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.release import Release
from headcount.release.directory import RunDirectory
from headcount.release.store import read_release
from headcount.report.evaluation import evaluation_report
from headcount.report.html import write_report
from headcount.report.withheld import withheld_report
from headcount.run.protect import Plan, kept_config, plan
from headcount.tabulate import content_digest

log = logging.getLogger(__name__)


def open_run(path: Path) -> tuple[Release, Plan]:
    """A finished release with the truth it was made from, for the curator's own evaluation."""
    directory = RunDirectory(path)
    facts = directory.facts()
    if facts is None or not directory.is_complete:
        raise RunError(f"{path}: found no finished run, expected one made by headcount protect")
    config = kept_config(directory)
    if config_digest(config).hex() != facts.config_digest:
        kept = directory.internal / "config.json"
        raise RunError(
            f"{kept}: found another config than the run's{facts.older}, expected it unchanged"
        )
    planned = plan(config)
    if content_digest(planned.counts).hex() != facts.data_digest:
        raise RunError(
            f"{path}: found other data than the release was made from, expected the same"
        )
    return read_release(directory.release), planned


def evaluate_run(path: Path, *, cells: CellSet = "all") -> tuple[pl.DataFrame, Path, bool]:
    """Score a finished run into ``internal/evaluation/``; return scores, report, and if public.

    ``cells`` is the set of counts that errors are taken over (``headcount.evaluate.error``).
    """
    check_cells(cells)
    release, planned = open_run(path)
    folder = RunDirectory(path).internal / "evaluation"
    folder.mkdir(exist_ok=True)
    if isinstance(planned.mechanism, Suppression):
        withheld = withheld_frame(planned.counts, release)
        write_text_atomic(folder / "withheld.csv", withheld.write_csv())
        audits = audit_release(
            planned.counts, release, planned.mechanism, witnesses=_witnesses(folder.parent)
        )
        recipe = f"headcount evaluate {path.name}"
        told = withheld_report(release, withheld, audits, recipe=recipe, public=planned.public)
        write_report(told, folder / "report.html")
        return withheld, folder / "report.html", planned.public
    scores = score(planned.truth, release, cells=cells)
    write_text_atomic(folder / "errors.csv", scores.errors.write_csv())
    write_text_atomic(folder / "groups.csv", scores.groups.write_csv())
    if (by_group := represent_release(planned.truth, release)) is not None:
        write_text_atomic(folder / "representation.csv", by_group.write_csv())
    recipe = f"headcount evaluate {path.name}"
    if scores.impossible:
        log.warning(
            "%s: %s released counts are not 0 where the schema says that nobody can be",
            path, f"{scores.impossible:,}",
        )  # fmt: skip
    report = evaluation_report(release, scores, recipe=recipe, public=planned.public)
    write_report(report, folder / "report.html")
    return scores.errors, folder / "report.html", planned.public


def _witnesses(internal: Path) -> Path | None:
    """The tables that show what a suppressed release protects, where there are any."""
    return internal / WITNESSES if (internal / WITNESSES).exists() else None
