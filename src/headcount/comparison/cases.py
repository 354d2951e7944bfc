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
from typing import Any, TypeAlias, TypeVar

import polars as pl

from headcount.attacks import Attack
from headcount.comparison.cache import FRAMES, Codec, Frames
from headcount.comparison.study import Work
from headcount.engines import Engine, InOrder, handed_folder
from headcount.errors import InputError
from headcount.evaluation import Metric, Truth, scored
from headcount.evaluation.evaluate import attack
from headcount.mechanisms import Chain, Context, Mechanism, mechanism_digest, protect_runs
from headcount.noise import KeyedNoise, RunKey
from headcount.release import Release
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
    """One run of a case: its release, and the truth with what the curator has of the run.

    ``shared`` is for what one measure makes of the release and another needs as well.
    """

    case: Case
    replicate: int
    release: Release
    truth: Truth
    shared: dict[str, Any] = field(default_factory=dict)


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
    case: Case,
    data: Tabulated,
    *,
    seed: int,
    runs: range | None = None,
    engine: Engine | None = None,
    within: Path | None = None,
) -> Iterator[Released]:
    """Yield the releases of a case in the order of its runs, or of some of them.

    A release that does not depend on chance is made once and yielded for every run. What the
    curator has of a run is there until the next is asked for: in a folder of its own ``within``
    another, which is as confidential as the people, or among temporary files.
    """
    chain = Chain.of(case.mechanism)
    noise = seeded_noise(chain, seed=seed, digest=data.digest, words=case.words, label=case.label)
    with handed_folder(within) as internal:
        protected = chain.cut(data).counts
        truth = Truth(counts=data.counts, protected=protected, folders=(internal,), mechanism=chain)
        context = Context(engine=engine or InOrder(), curator=internal)
        wanted = case.runs if runs is None else runs
        once = not chain.draws_noise
        made = protect_runs(
            data, chain, noise, runs=wanted[:1] if once else wanted, context=context
        )
        every = repeat(next(made), len(wanted)) if once else made
        shared: dict[str, Any] = {}
        for run, release in zip(wanted, every, strict=True):
            shared = shared if once else {}
            yield Released(case=case, replicate=run, release=release, truth=truth, shared=shared)


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
    join: Callable[[Sequence[T]], T] | None = None,
) -> list[T]:
    """What ``reduce`` makes of the releases of each case, in the order of the cases.

    A case is a piece of work for the engine, or each of its runs is.

    where
        what      what is counted on the progress bar
        inputs    who the people are, and every setting that ``reduce`` depends on; the case and
                  the seed are added
        made_by   the module with ``reduce``: its source and all that it imports key the cache
        codec     how a result is written to the cache; None if it is not
        join      puts together what was made of single runs, where that can be done
    """
    cache, engine = work.cache, work.engine

    def made(piece: tuple[Case, range]) -> T:
        case, runs = piece

        def make() -> T:
            people = data(case) if callable(data) else data
            made = releases(case, people, seed=seed, runs=runs, engine=engine, within=cache.folder)
            return reduce(made)

        if codec is None:
            return make()
        return cache.get(
            make,
            name=re.sub(r"[^\w.]+", "-", case.name),
            inputs=f"{inputs} {seed} {case!r} {runs} {_settings(case)}",
            made_by=made_by,
            codec=codec,
        )

    runs_of = [_pieces(case) if join is not None else [case.runs] for case in cases]
    pieces = [(case, runs) for case, own in zip(cases, runs_of, strict=True) for runs in own]
    found = iter(work.progress(engine.map(made, pieces), what=what, total=len(pieces)))
    whole = [[next(found) for _ in own] for own in runs_of]
    return [parts[0] if join is None else join(parts) for parts in whole]


def _pieces(case: Case) -> list[range]:
    """Each run of a case by itself, but for a release that is made once for all of them."""
    if not Chain.of(case.mechanism).draws_noise:
        return [case.runs]
    return [case.runs[n : n + 1] for n in range(len(case.runs))]


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
    engine = work.engine

    def measured(made: Iterator[Released]) -> Frames:
        return joined([_measured(one, measures, engine) for one in made])

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
        join=joined,
    )
    return joined(found)


def _measured(one: Released, measures: Mapping[str, Measure], engine: Engine) -> Frames:
    """Every measure of one release, with what its rows carry."""
    about = {**one.case.columns, "replicate": one.replicate}
    return {
        name: labelled(_measure(measure, one, engine), about) for name, measure in measures.items()
    }


def joined(parts: Sequence[Frames]) -> Frames:
    """Tables of the same name as one, their rows in the order of the parts."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: pl.concat([part[name] for part in parts if name in part], how="vertical_relaxed")
        for name in names
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
    release, truth = one.release, one.truth
    if isinstance(measure, Metric):
        support, release, truth = scored(measure, release, truth, truth.on(release))
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
        return measure.compute(release, truth).table
    return attack(one.release, one.truth, measure, engine=engine).table
