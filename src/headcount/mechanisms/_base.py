"""What a mechanism is: counts and noise in, protected counts and a guarantee out."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headcount.engines.protocol import Engine, InOrder
from headcount.errors import PrivacyError
from headcount.files import write_text_atomic
from headcount.geography import Geography
from headcount.mechanisms._measured import Measured
from headcount.mechanisms._outcome import CountsOutcome as CountsOutcome
from headcount.mechanisms._outcome import Making, Outcome
from headcount.mechanisms._outcome import TablesOutcome as TablesOutcome
from headcount.noise import KeyedNoise, Law, Noise, RunKey, Stream
from headcount.population import Population, cut_households
from headcount.privacy import Guarantee
from headcount.progress import Progress, silent
from headcount.release import Release
from headcount.schema import Schema
from headcount.tabulate import CELLS, Counts, content_digest, tabulate

DRAWN_AT_ONCE = 1 << 20
"""Scalars of noise held at once where many draws are added up."""

SECONDS = "seconds.json"
"""How long each part of a run took: in the curator's folder."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """Where a run works: its engine, who watches, and a folder that survives a crash."""

    engine: Engine = field(default_factory=InOrder)
    progress: Progress = silent
    workspace: Path | None = None
    measurements: Path | None = None
    """Where to write the noisy measurements, if they are to be published."""
    provenance: Path | None = None
    """Where to write who was swapped with whom: for scoring only, never part of a release."""
    witnesses: Path | None = None
    """Where to write the tables that show withheld cells protected: they tell the truth."""
    curator: Path | None = None
    """The curator's folder, for what may never be part of a release."""


class Mechanism(Protocol):
    """A way to protect counts. Parameters are frozen fields; ``repr`` makes it again."""

    @property
    def name(self) -> str:
        """The name used in configs, reports and noise streams."""

    @property
    def draws_noise(self) -> bool:
        """Whether a release depends on chance at all."""

    def plan(self, schema: Schema, geography: Geography) -> tuple[Measured, ...]:
        """Every measurement that will be made, with its exact loss, before data is read."""

    def guarantee(self, schema: Schema, geography: Geography) -> Guarantee:
        """What a release of such counts promises."""

    def check(self, counts: Counts) -> tuple[str, ...]:
        """Refuse data that cannot be protected as asked, before any loss is recorded.

        Returns remarks for the curator, if there is anything to say.
        """

    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> Outcome:
        """Protect the leaf counts once for each run number; run r never reuses run s's noise."""


def protect(
    data: Population | Counts,
    mechanism: Mechanism,
    noise: Noise | None = None,
    *,
    run: int = 0,
    context: Context | None = None,
) -> Release:
    """Protect a population once: one run of the mechanism, with its guarantee completed.

    Without ``noise`` a fresh key comes from the operating system. The guarantee lists what of the
    public domain was read off the data, says whom noise from a cipher holds against, and says
    that a seeded release is not private. Secret noise that was made for other data is refused:
    the difference of two releases under the same noise is the difference of their truths.
    """
    counts = tabulate(cut_for(mechanism, data)) if isinstance(data, Population) else data
    if isinstance(noise, KeyedNoise) and noise.key_kind == "os":
        _refuse_reuse(noise, counts)
    if noise is None:
        config = mechanism_digest(mechanism)
        noise = KeyedNoise(RunKey.from_os(), mechanism.name, content_digest(counts), config)
    outcome = mechanism.run(counts, noise, runs=range(run, run + 1), context=context)
    if outcome.seconds and context is not None and context.curator is not None:
        text = json.dumps(outcome.seconds, indent=2, ensure_ascii=False) + "\n"
        write_text_atomic(context.curator / SECONDS, text)
    making = Making(
        schema=counts.schema,
        geography=counts.geography,
        mechanism=repr(mechanism),
        guarantee=complete_guarantee(
            counts, mechanism, key_kind=noise.key_kind, backend=noise.backend
        ),
        key_kind=noise.key_kind if mechanism.draws_noise else "none",
        backend=noise.backend if mechanism.draws_noise else "none",
    )
    return outcome.release(0, making)


def mechanism_digest(mechanism: Mechanism) -> bytes:
    """What stands for the settings of a mechanism among the inputs of its noise."""
    return sha256(getattr(mechanism, "noise_text", repr(mechanism)).encode()).digest()


def cut_for(mechanism: Mechanism, population: Population) -> Population:
    """The population as a mechanism needs it: households cut, where they are its units."""
    largest = getattr(mechanism, "largest_household", None)
    if largest is None or population.households is None:
        return population  # without households the mechanism refuses
    return cut_households(population, largest=largest)


def _refuse_reuse(noise: KeyedNoise, counts: Counts) -> None:
    if noise.data_digest != content_digest(counts):
        raise PrivacyError(
            "noise: found a source made for other data, expected one with the digest of the data "
            "that it protects (leave noise out for a fresh one)"
        )


def complete_guarantee(
    counts: Counts, mechanism: Mechanism, *, key_kind: str, backend: str
) -> Guarantee:
    """The mechanism's guarantee with what a run adds to it: its key and its sampler."""
    guarantee = mechanism.guarantee(counts.schema, counts.geography).also_exact(*counts.read_off)
    if counts.one_person:
        guarantee = guarantee.meaning(counts.one_person)
    if key_kind == "seed":
        return guarantee.seeded()
    return guarantee.from_cipher() if backend == "table" else guarantee


def cell_stream(counts: Counts) -> Stream:
    """The stream that feeds every unit x cell of the public domain at the counts' level."""
    size = counts.geography.size(counts.level) * counts.schema.size
    return Stream(level=counts.level, query=CELLS, size=size)


def noisy(counts: Counts, drawn: NDArray[np.int64], *, times: int = 1) -> NDArray[np.int64]:
    """Truth plus noise for each run: on every possible cell, zeros included.

    Structural zeros stay 0 because everyone knows them. ``times`` is for the sum of so many noisy
    answers, whose noise is already summed.
    """
    truth = counts.dense()
    answers = drawn.reshape(len(drawn), *truth.shape)
    answers *= counts.schema.possible
    answers += times * truth
    return answers


def summed_draws(noise: Noise, stream: Stream, law: Law, *, draws: range) -> NDArray[np.int64]:
    """The sum of several draws of a law, in pieces: memory does not grow with them."""
    total = np.zeros(stream.size, dtype=np.int64)
    at_once = max(1, DRAWN_AT_ONCE // stream.size)
    for start in range(draws.start, draws.stop, at_once):
        some = range(start, min(start + at_once, draws.stop))
        total += noise.draw(stream, law, draws=some).sum(axis=0)
    return total
