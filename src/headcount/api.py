"""The verbs of ``import headcount`` that take data, or the path of a config or a run.

With a path a verb does what the command of its name does, and leaves the same files. With data it
works in memory: it writes nothing, and records nothing in a ledger.

What a verb needs is loaded when it is called, so that ``hc.protect`` loads no evaluation.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from headcount.errors import InputError
from headcount.processes import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    import polars as pl

    from headcount.attacks import Attack
    from headcount.engines import Engine, EngineName
    from headcount.evaluation import Truth
    from headcount.evaluation.error_report import ErrorReport
    from headcount.evaluation.evaluate import Choice, Evaluation
    from headcount.geography.spine import NamedArea
    from headcount.mechanisms import Context, Mechanism, PostTabular, PreTabular
    from headcount.noise import Noise
    from headcount.population import Population
    from headcount.release import Release
    from headcount.report.finding import Finding
    from headcount.run.evaluate import EvaluatedRun
    from headcount.tabulate import Counts, Tabulated
    from headcount.topdown.from_measurements import PublishedStart
    from headcount.topdown.mechanism import TopDown


@overload
def protect(
    data: Population | Tabulated,
    mechanism: Mechanism | Sequence[PreTabular | PostTabular],
    noise: Noise | None = None,
    *,
    seed: int | None = None,
    run: int = 0,
    context: Context | None = None,
) -> Release: ...


@overload
def protect(
    data: Path | str, *, engine: EngineName | None = None, progress: Progress = silent
) -> Path: ...


def protect(data: Any, *given: Any, **named: Any) -> Release | Path:
    """Protect people with a mechanism, or as a config says.

    where
        data        people that were read or generated; or the path of a config
        mechanism   for people: a method with its settings, or several in their order
        noise       a source of noise; without it a fresh key comes from the operating system, and
                    is kept nowhere
        seed        in its place: the release can be made again, and is therefore not private
        run         the number of the run; each has noise of its own
        context     where work is done, and how far it is
        engine      for a config: "local", this machine, or "spark"; before that of the config
        progress    for a config: shows how far it is

    Of people it returns the release, and records nothing in a ledger. Of a config it records the
    loss before noise is drawn, writes the run and returns its directory; called again, it resumes.
    """
    alone = not given and "mechanism" not in named  # a file of people is for ``read`` first
    if alone and isinstance(data, Path | str):
        from headcount.run.protect import protect_run

        return protect_run(Path(data), **named)
    from headcount.mechanisms import protect as protect_people

    return protect_people(data, *given, **named)


@overload
def evaluate(
    release: Any,
    truth: Truth | Population | Counts,
    *,
    choice: Choice | None = None,
    progress: Progress = silent,
    engine: Engine | None = None,
) -> Evaluation: ...


@overload
def evaluate(
    release: Path | str,
    *,
    choice: Choice | None = None,
    progress: Progress = silent,
    engine: EngineName | None = None,
) -> EvaluatedRun: ...


def evaluate(release: Any, *given: Any, **named: Any) -> Evaluation | EvaluatedRun:
    """Score a release against the truth, and attack it; what is found is confidential.

    where
        release    a release, or files or a data frame of somebody else's; or, without ``truth``,
                   the directory of a finished run
        truth      the people, or their counts
        choice     metrics and attacks that are wanted; without it all of ours that are not slow
        progress   shows how far it is
        engine     where attacks are made; of a run "local" or "spark"

    Of a run the truth is read again as its config says, and tables and a report are written to
    ``internal/evaluation/``.
    """
    if not given and "truth" not in named and isinstance(release, Path | str):
        from headcount.run.evaluate import evaluate_run

        return evaluate_run(Path(release), **named)
    from headcount.evaluation.evaluate import evaluate as evaluate_release

    return evaluate_release(release, *given, **named)


def attack(
    release: Release,
    truth: Truth | Population | Counts,
    kind: Attack | str,
    *,
    engine: Engine | None = None,
) -> Finding:
    """Attack a release with all that an attacker could know of people, and score the claims.

    where
        kind     an attack with its settings, or the name of one, such as "reidentification"
        engine   where the work is done

    The attacker (adversary) knows where everybody lives, the attributes that the attack says it
    knows, and the settings by which counts of tables were changed, where the truth side knows how.
    """
    from headcount.evaluation.evaluate import attack as attack_release
    from headcount.registry import ATTACKS

    made = ATTACKS.get(kind, source="attack")() if isinstance(kind, str) else kind
    return attack_release(release, truth, made, engine=engine)


@overload
def errors_of(
    release: Release | Path | str,
    how: TopDown | PublishedStart | None = None,
    *,
    runs: int = 5,
    seed: int = 0,
    progress: Progress = silent,
) -> ErrorReport: ...


@overload
def errors_of(
    release: PublishedStart | Path | str,
    *,
    areas: str | Sequence[NamedArea],
    query: str = "total",
    confidence: Fraction | str | float = "9/10",
) -> pl.DataFrame: ...


def errors_of(release: Any, *given: Any, **named: Any) -> ErrorReport | pl.DataFrame:
    """How far off a release of TopDown is, by what is published of it: ``headcount errors``.

    where
        release      a release, or the folder of one or of a run; for intervals a run or folder with
                     its measurements, the config of an estimate, or what ``start_from`` read
        how          the settings that a release was made with, or published measurements; None for
                     those that its folder has
        runs, seed   how often the release is protected again, and the seed of that noise
        areas        asks for intervals: the name of a level, or unions of units of one level each,
                     with names: ``[("north", "county", ("001", "003"))]``
        query        whose counts get intervals, by name
        confidence   the share of cases in which an interval holds the true count

    Without ``areas`` average errors are predicted by protecting the release again. With ``areas``
    each count gets its best linear unbiased estimate (BLUE) from the published measurements, with
    standard deviation and interval, as a table; released counts stand beside. Nothing is spent.
    """
    if "areas" not in named:
        from headcount.run.error_report import error_report

        if wrong := {"query", "confidence"} & named.keys():
            raise InputError("errors_of", found=f"{min(wrong)} without areas", expected="both")
        return error_report(release, *given, **named)
    from headcount.run.intervals import intervals

    return intervals(release, **{"query": "total", **named})


def estimate(
    config: Path | str, *, engine: EngineName | None = None, progress: Progress = silent
) -> Path:
    """Make a release from published measurements, as a config says; return the run's directory.

    No data, no noise, nothing spent. Called again, it resumes.
    """
    from headcount.run.estimate import estimate_run

    return estimate_run(Path(config), engine=engine, progress=progress)
