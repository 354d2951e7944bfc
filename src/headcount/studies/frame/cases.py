"""Cases as data, and the one function that runs them: protect, measure, label the rows.

A case is a chain with its parameters. Every study's releases are made here, by the function that
``headcount protect`` calls, and handed with their truth to measures: shipped metrics and attacks,
or plain functions where a paper measures something of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, TypeVar

import polars as pl

from headcount.attacks.kinds import Attack
from headcount.engines.protocol import Engine, InOrder
from headcount.errors import InputError
from headcount.evaluation.attacked import attack
from headcount.evaluation.metrics import Metric
from headcount.evaluation.truth import MadeTruth, Truth
from headcount.mechanisms import Chain, Context, Mechanism, mechanism_digest, protect_runs
from headcount.noise import KeyedNoise, RunKey
from headcount.release import Release
from headcount.studies.frame.cache import FRAMES, Codec, Frames
from headcount.studies.frame.study import Work
from headcount.tabulate import Tabulated
from headcount.typed import shaping

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A chain with its parameters, and the runs of it that are made.

    where
        name        for people: of the file in the cache, and in errors
        mechanism   what ``protect`` runs
        runs        numbers of the runs; run r has noise of its own
        columns     what its rows carry, before the number of the run
        words       what keys the noise in place of the mechanism's own digest: a study whose
                    numbers were made under other words keeps them
        label       of the noise's streams; the mechanism's name if empty
    """

    name: str
    mechanism: Mechanism
    runs: range = range(1)
    columns: Mapping[str, Any] = field(default_factory=dict)
    words: str = ""
    label: str = ""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Released:
    """One run of a case: its release, and the truth with what the curator has of the run."""

    case: Case
    replicate: int
    release: Release
    truth: Truth


Measure: TypeAlias = Metric | Attack | Callable[[Released], pl.DataFrame]
"""What is computed from a release: a table."""
Data: TypeAlias = Tabulated | Callable[[Case], Tabulated]
"""The people, or those of each case."""


def seeded_noise(
    mechanism: Mechanism, *, seed: int, digest: bytes, words: str = "", label: str = ""
) -> KeyedNoise:
    """Noise that depends on the seed, the mechanism with its parameters, and the data.

    ``digest`` is that of the data: two databases never share noise. See ``Case`` for the others.
    """
    chain = Chain.of(mechanism)
    config = sha256(words.encode()).digest() if words else mechanism_digest(chain)
    return KeyedNoise(RunKey.from_seed(seed), label or chain.name, digest, config)


def releases(
    case: Case, data: Tabulated, *, seed: int, engine: Engine | None = None
) -> Iterator[Released]:
    """Yield the releases of a case in the order of its runs.

    A release that does not depend on chance is made once and yielded for every run. What the
    curator has of a run is there until the next is asked for.
    """
    chain = Chain.of(case.mechanism)
    noise = seeded_noise(chain, seed=seed, digest=data.digest, words=case.words, label=case.label)
    with TemporaryDirectory() as folder:
        internal = Path(folder)
        protected = chain.cut(data).counts
        truth = MadeTruth(
            counts=data.counts, protected=protected, folders=(internal,), mechanism=chain
        )
        context = Context(engine=engine or InOrder(), curator=internal)
        runs = case.runs if chain.draws_noise else case.runs[:1]
        made = protect_runs(data, chain, noise, runs=runs, context=context)
        every = made if chain.draws_noise else repeat(next(made), len(case.runs))
        for run, release in zip(case.runs, every, strict=True):
            yield Released(case=case, replicate=run, release=release, truth=truth)


def run_cases(
    cases: Sequence[Case],
    reduce: Callable[[Iterator[Released]], T],
    *,
    data: Data,
    seed: int,
    work: Work,
    what: str = "Cases",
    inputs: str = "",
    made_by: str = "",
    codec: Codec[T] | None = None,
) -> list[T]:
    """What ``reduce`` makes of the releases of each case, in the order of the cases.

    where
        what      what is counted on the progress bar
        inputs    who the people are, and every setting that ``reduce`` depends on; the case and
                  the seed are added
        made_by   the module with ``reduce``: its source and all that it imports key the cache
        codec     how a result is written to the cache; None if it is not
    """

    def made(case: Case) -> T:
        people = data(case) if callable(data) else data
        return reduce(releases(case, people, seed=seed, engine=work.engine))

    found = []
    for case in work.progress(cases, what=what, total=len(cases)):
        if codec is None:
            found.append(made(case))
            continue
        piece = work.cache.get(
            lambda case=case: made(case),  # type: ignore[misc]
            name=re.sub(r"[^\w.]+", "-", case.name),
            inputs=f"{inputs} {seed} {case!r} {_settings(case)}",
            made_by=made_by,
            codec=codec,
        )
        found.append(piece)
    return found


def _settings(case: Case) -> list[Any]:
    """All settings, also those that no text of a mechanism shows."""
    return [shaping(part) for part in Chain.of(case.mechanism).parts]


def score_cases(
    cases: Sequence[Case],
    measures: Mapping[str, Measure],
    *,
    data: Data,
    seed: int,
    work: Work,
    what: str = "Cases",
    inputs: str = "",
    made_by: str,
) -> Frames:
    """Every measure of every release, by name of the table; see ``run_cases`` for the others.

    Rows carry the columns of their case, the number of the replicate, and what was measured.
    """

    def measured(made: Iterator[Released]) -> Frames:
        rows: dict[str, list[pl.DataFrame]] = {name: [] for name in measures}
        for one in made:
            about = {**one.case.columns, "replicate": one.replicate}
            for name, measure in measures.items():
                rows[name].append(labelled(_measure(measure, one, work.engine), about))
        return {name: pl.concat(parts, how="vertical_relaxed") for name, parts in rows.items()}

    found = run_cases(
        cases,
        measured,
        data=data,
        seed=seed,
        work=work,
        what=what,
        inputs=inputs,
        made_by=made_by,
        codec=FRAMES,
    )
    return {
        name: pl.concat([one[name] for one in found], how="vertical_relaxed") for name in measures
    }


def labelled(frame: pl.DataFrame, columns: Mapping[str, Any]) -> pl.DataFrame:
    """The rows with some columns before their own, the same in each."""
    whole = {name for name, value in columns.items() if type(value) is int}
    fixed = [
        pl.lit(value, dtype=pl.Int64 if name in whole else None).alias(name)
        for name, value in columns.items()
    ]
    return frame.select(*fixed, pl.all())


def _measure(measure: Measure, one: Released, engine: Engine) -> pl.DataFrame:
    if isinstance(measure, Metric):
        support = measure.supports(one.release, one.truth)
    elif isinstance(measure, Attack):
        support = measure.supports(one.release.unweighted())
    else:
        return measure(one)
    if not support:
        raise InputError(
            f"case {one.case.name!r}",
            place=measure.name,
            found=support.why_not,
            expected="a release that the measure supports",
        )
    if isinstance(measure, Metric):
        return measure.compute(one.release, one.truth).table
    return attack(one.release, one.truth, measure, engine=engine).table
