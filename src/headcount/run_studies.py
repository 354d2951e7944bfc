"""Studies as commands run them: compute, write the report, never twice the same."""

from __future__ import annotations

from pathlib import Path

from headcount.progress import Progress, silent
from headcount.report.directory import study_is_there, write_study
from headcount.report.provenance import gather_provenance


def run_flaxman_2019(out: Path, *, seed: int, replicates: int, progress: Progress = silent) -> Path:
    """The study flaxman-2019 in a directory; returns the report's path."""
    from headcount.report.studies.flaxman_2019 import report
    from headcount.studies.flaxman_2019 import run_study

    study = "flaxman-2019"
    settings = {"seed": seed, "replicates": replicates}
    if study_is_there(out, study=study, settings=settings):
        return out / "report.html"
    result = run_study(seed=seed, replicates=replicates, progress=progress)
    recipe = f"headcount study {study} --out {out.name} --seed {seed} --replicates {replicates}"
    content = report(result, provenance=gather_provenance(recipe=recipe, seeds=[seed]))
    return write_study(out, study=study, settings=settings, tables=result.tables(), report=content)
