"""Studies as commands run them: compute, write the report, and never do the same work twice."""

from __future__ import annotations

from pathlib import Path

from headcount.comparison.study import StudySettings, Work, load_study
from headcount.engines import EngineName
from headcount.processes import Progress, silent
from headcount.report.directory import study_is_there, write_study
from headcount.report.model import gather_provenance
from headcount.run.protect import engine_named


def run_study(
    name: str,
    out: Path,
    settings: StudySettings,
    *,
    cache: Path | None = None,
    engine: EngineName | None = None,
    progress: Progress = silent,
) -> Path:
    """Run a study in a directory; returns the report's path.

    where
        cache   keeps finished pieces so that a stopped study goes on; beside ``out``, with the
                ending ".cache", if None. It may tell exact counts.
    """
    from headcount.comparison.cache import Cache
    from headcount.comparison.template import write_text

    study, identity = load_study(name), settings.identity()
    if study_is_there(out, study=name, settings=identity):
        return out / "report.html"
    folder = (cache or out.with_name(f"{out.name}.cache")) if study.keeps else None
    work = Work(cache=Cache.opened(folder), engine=engine_named(engine, folder), progress=progress)
    findings = study.run(settings, work)
    provenance = gather_provenance(
        recipe=settings.recipe(study=name, out=out.name),
        seeds=[identity["seed"]],
        config=settings.text(),
    )
    report = write_text(study, findings, provenance=provenance)
    return write_study(out, study=name, settings=identity, tables=findings.tables, report=report)
