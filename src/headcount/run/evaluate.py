"""A finished release evaluated with the truth it was made from."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from headcount.config.load import (
    config_digest,
    load_foreign,
    load_meaning,
    load_measures,
    load_population,
)
from headcount.engines import EngineName
from headcount.errors import RunError
from headcount.evaluation import Truth
from headcount.evaluation.evaluate import Choice, Evaluation, evaluate, evaluation_report
from headcount.files import make_folder, mode_of, write_text_atomic
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.release.directory import RunDirectory
from headcount.release.foreign import read_foreign
from headcount.release.store import MANIFEST, read_release
from headcount.report.html import write_report
from headcount.run.protect import Prepared, engine_named, kept_config, read_data

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class EvaluatedRun:
    """What was found about a run, where the report is, and whether it may be shown."""

    evaluation: Evaluation
    report: Path
    public: bool
    release: Release


def _open_run(path: Path) -> tuple[Release, Prepared]:
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
    prepared = read_data(config)
    if prepared.data.digest.hex() != facts.data_digest:
        raise RunError(f"{path}: found data that the release was not made from, expected the same")
    return read_release(directory.release), prepared


def _truth_of(prepared: Prepared, internal: Path) -> Truth:
    """The curator's side of a run."""
    return Truth(
        counts=prepared.truth,
        protected=prepared.counts,
        folders=(internal,),
        mechanism=prepared.mechanism,
    )


def evaluate_run(
    path: Path,
    *,
    choice: Choice | None = None,
    engine: EngineName | None = None,
    progress: Progress = silent,
) -> EvaluatedRun:
    """Evaluate a finished run into ``internal/evaluation/``: its tables and a report.

    ``choice`` says which metrics and attacks are wanted; without it all that are not slow, and
    those of the config. What it gives comes before the config.
    """
    release, prepared = _open_run(path)
    choice = choice or Choice()
    given = (*prepared.config.metric, *prepared.config.attack, *choice.given)
    choice = replace(choice, given=given)
    internal = RunDirectory(path).internal
    evaluation = evaluate(
        release,
        _truth_of(prepared, internal),
        choice=choice,
        progress=progress,
        engine=engine_named(engine, internal),
    )
    folder = internal / "evaluation"
    make_folder(folder)
    recipe = f"headcount evaluate {path.name}"
    return _written(evaluation, release, folder, recipe=recipe, public=prepared.public)


def evaluate_files(
    truth: Path,
    files: Sequence[Path],
    *,
    out: Path,
    choice: Choice | None = None,
    engine: EngineName | None = None,
    progress: Progress = silent,
) -> EvaluatedRun:
    """Evaluate files of somebody else's release into ``out``: as confidential as the truth.

    where
        truth   a config: its population is the truth, its table [release] says how files are read,
                and metrics and attacks are computed with its settings

    Nothing is drawn or spent, and nothing is known of how the files were made.
    """
    if (out / MANIFEST).exists():
        raise RunError(
            f"{out}: found a release or a study, expected a folder for an evaluation, which is as "
            "confidential as the truth"
        )
    people = load_population(truth)
    population = people.read(progress).meaning(*load_meaning(truth), source=str(truth))
    release = read_foreign(
        files,
        population.schema,
        population.geography,
        how=load_foreign(truth),
        aliases=people.aliases,
        counted=population.domain.counted,
    )
    for source, words in release.notes.items():
        log.info("%s: read as %s", source, words)
    seen = Truth.of(population).on(release)
    choice = choice or Choice()
    choice = replace(choice, given=(*load_measures(truth), *choice.given))
    evaluation = evaluate(
        release, seen, choice=choice, progress=progress, engine=engine_named(engine, None)
    )
    if not out.exists():
        out.mkdir(parents=True, mode=0o755 if population.public else 0o700)
    elif not population.public and (mode := mode_of(out.stat())) is not None and mode & 0o077:
        log.warning("%s: others can enter this folder (mode %04o): `chmod 700` it", out, mode)
    names = " ".join(f"--release {Path(one).name}" for one in files)
    recipe = f"headcount evaluate --truth {truth.name} {names}"
    return _written(evaluation, release, out, recipe=recipe, public=population.public)


def _written(
    evaluation: Evaluation, release: Release, folder: Path, *, recipe: str, public: bool
) -> EvaluatedRun:
    """The tables of an evaluation and its report, in a folder."""
    for finding in evaluation:
        for name, table in finding.files().items():
            write_text_atomic(folder / f"{name}.csv", table.write_csv())
        for warning in finding.warnings():
            log.warning("%s: %s", folder, warning)
    report = evaluation_report(
        release,
        evaluation.findings,
        not_computed=[(one.name, one.why) for one in evaluation.not_computed],
        recipe=recipe,
        public=public,
    )
    write_report(report, folder / "report.html")
    return EvaluatedRun(evaluation, folder / "report.html", public, release)


def refuse_other_data(paths: Sequence[Path]) -> None:
    """Refuse runs that were not made from the same data, or one that is named twice.

    The data are those before households were cut: everybody counts when a release is scored.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise RunError(f"{paths[-1]}: found a run named twice, expected each run once")
    first = RunDirectory(paths[0]).whole_digest()
    for path in paths[1:]:
        if RunDirectory(path).whole_digest() != first:
            raise RunError(
                f"{path}: found data different from those of {paths[0]}, expected runs on the same "
                "data, with the same units and attributes"
            )


@dataclass(frozen=True, eq=False)
class Compared:
    """One metric of several runs: what is compared, and a table with a column for each run."""

    name: str
    words: str
    table: pl.DataFrame


def side_by_side(evaluations: Mapping[Path, Evaluation]) -> tuple[Compared, ...]:
    """Every metric that two runs or more have, row by row."""
    found: dict[str, list[tuple[Path, pl.DataFrame]]] = {}
    kinds = {}
    for path, evaluation in evaluations.items():
        for finding in evaluation:
            if (frame := finding.compared()) is not None:
                found.setdefault(finding.name, []).append((path, frame))
                kinds[finding.name] = finding
    compared = []
    for name, frames in found.items():
        if len(frames) > 1:
            index, value = kinds[name].index, kinds[name].value
            both = pl.concat(
                [frame.select(pl.lit(str(path)).alias("run"), pl.all()) for path, frame in frames],
                how="vertical_relaxed",
            )
            table = both.pivot("run", index=index, values=value)
            compared.append(Compared(name, f"{kinds[name].value_words} ({name})", table))
    if not compared:
        raise RunError(
            "No metric was computed for more than one of these runs: nothing to compare."
        )
    return tuple(compared)
