"""Studies as commands run them: compute, write the report, and never do the same work twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headcount.comparison.study import StudySettings, Work, load_study, study_names
from headcount.engines import EngineName
from headcount.processes import Progress, silent
from headcount.report.directory import study_is_there, write_study
from headcount.report.model import Table, gather_provenance
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


def run_all(
    out: Path,
    *,
    cache: Path | None = None,
    engine: EngineName | None = None,
    progress: Progress = silent,
) -> Path:
    """Run every study that is installed, and write one page with their main claims."""
    for name in study_names():
        kept = None if cache is None else cache / name
        settings = load_study(name).settings()
        run_study(name, out / name, settings, cache=kept, engine=engine, progress=progress)
    return write_index(out)


def write_index(out: Path) -> Path:
    """One page: the main claims of every study below a folder, each with its verdict."""
    from headcount.report.html import write_report
    from headcount.report.model import Prose, Report, Section

    there = [name for name in study_names() if (out / name / "report.html").is_file()]
    sections = []
    for name in there:
        words = Prose(f"{load_study(name).title} [The whole report]({name}/report.html).")
        table = _main_claims(out / name, name)
        sections.append(Section(title=name, blocks=(words, *([table] if table else []))))
    report = Report(
        title="What papers said, and what was found here",
        subtitle="The main claims of every study, each with its verdict",
        summary=(Prose(_OF_VERDICTS),),
        sections=tuple(sections),
        limits=(Prose(_OF_PEOPLE),),
        provenance=gather_provenance(recipe=f"headcount study all --out {out.name}", seeds=[]),
        confidential=False,
    )
    write_report(report, out / "index.html")
    return out / "index.html"


_OF_VERDICTS = """A number that a paper prints is *compatible* if it lies within the central 95 % of
our draws, and *reproduced* if ours is the same for the purpose; a statement is *reproduced* if it
is true in most draws. What a few draws cannot tell is *undecided*."""
_OF_PEOPLE = """Every study runs on people who are made up, so that a claim that is not reproduced
here may be true of the people whom the paper had."""


def _main_claims(folder: Path, name: str) -> Table | None:
    """The claims of a study that its tables call the main ones, in their order."""
    import polars as pl

    from headcount.report.model import Column, table_from_frame

    found = [pl.read_csv(path, infer_schema_length=None) for path in folder.glob("tables/*.csv")]
    keys = ("headline", "section", "claim", "paper", "finding", "outcome")
    judged = [one.select(keys) for one in found if set(keys) <= set(one.columns)]
    texts = [one.with_columns(pl.col(keys[1:]).cast(pl.String)) for one in judged]
    if not texts or (main := pl.concat(texts).filter(pl.col("headline") > 0)).is_empty():
        return None
    labels = ("Claim", "Paper", "Here", "Verdict")
    columns = [Column(key=key, label=label) for key, label in zip(keys[2:], labels, strict=True)]
    columns[-1] = replace(columns[-1], shows="verdict")
    return table_from_frame(
        main.sort("headline", maintain_order=True),
        name=f"claims-{name}",
        caption="Its main claims.",
        columns=columns,
        group="section",
    )
