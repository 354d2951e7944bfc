"""Releases of both mechanisms, made once and kept: a second call draws only what is missing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np

from headcount.engines.protocol import Engine, InOrder
from headcount.errors import RunError
from headcount.files import write_bytes_atomic
from headcount.mechanisms import Context, Mechanism, Tabulated, mechanism_digest, protect
from headcount.noise import KeyedNoise, RunKey
from headcount.progress import Progress, silent
from headcount.studies.kept import code_digest
from headcount.studies.petti_flaxman_2020.kept import RELEASES
from headcount.studies.petti_flaxman_2020.residuals import Residuals, Truth, reduce_release
from headcount.studies.petti_flaxman_2020.settings import STRATA, Settings, sampling, topdown

MechanismName = Literal["topdown", "sampling"]
MECHANISMS: tuple[MechanismName, ...] = ("topdown", "sampling")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Case:
    """One release: a mechanism, its parameter, and the number of the replicate."""

    mechanism: MechanismName
    parameter: Fraction
    replicate: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """The residuals of every release."""

    truth: Truth
    settings: Settings
    found: dict[Case, Residuals]

    def of(self, mechanism: MechanismName, parameter: Fraction) -> list[Residuals]:
        """All replicates of one mechanism and parameter."""
        replicates = range(self.settings.replicates)
        return [self.found[Case(mechanism, parameter, number)] for number in replicates]


def cases(settings: Settings) -> list[Case]:
    """Everything to draw; replicates outermost, so that an unfinished study is a small one."""
    swept: list[tuple[MechanismName, Sequence[Fraction]]] = [
        ("topdown", settings.epsilons),
        ("sampling", settings.fractions),
    ]
    return [
        Case(mechanism, parameter, replicate)
        for replicate in range(settings.replicates)
        for mechanism, parameters in swept
        for parameter in parameters
    ]


def draw_all(
    data: Tabulated,
    settings: Settings,
    *,
    cache: Path | None = None,
    progress: Progress = silent,
    engine: Engine | None = None,
) -> Draws:
    """Draw every release, or read it from the cache if it is there."""
    digest = data.digest
    truth = Truth(data.counts)
    found = {}
    wanted = cases(settings)
    for case in progress(wanted, what="Releases", total=len(wanted)):
        path = None if cache is None else cache / _name(case, digest, settings.seed)
        kept = _read(path) if path is not None and path.exists() else None
        if kept is None:
            kept = draw(case, data, truth, seed=settings.seed, engine=engine)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_bytes_atomic(path, kept.to_bytes())
        found[case] = kept
    return Draws(truth=truth, settings=settings, found=found)


def draw(
    case: Case,
    data: Tabulated,
    truth: Truth,
    *,
    seed: int,
    engine: Engine | None = None,
) -> Residuals:
    """Make one release and reduce it to its residuals."""
    mechanism, counts = mechanism_of(case), data.counts
    config = mechanism_digest(mechanism)
    noise = KeyedNoise(RunKey.from_seed(seed), mechanism.name, data.digest, config)
    context = Context(engine=engine or InOrder())
    release = protect(data, mechanism, noise, run=case.replicate, context=context)
    leaf: Any = release.table(counts.level)
    denominator = 1
    if case.mechanism == "sampling":
        # A sampled count over f = a/b is a whole number of 1/a people.
        denominator = case.parameter.numerator
        leaf = leaf.copy()
        leaf.data = np.rint(leaf.data * denominator).astype(np.int64)
    strata = np.asarray((leaf @ STRATA.matrix(counts.schema)).toarray(), dtype=np.int64)
    return reduce_release(truth, strata, denominator=denominator)


def mechanism_of(case: Case) -> Mechanism:
    """The mechanism with its parameter."""
    return topdown(case.parameter) if case.mechanism == "topdown" else sampling(case.parameter)


def _name(case: Case, digest: bytes, seed: int) -> str:
    """A name that changes with anything the result depends on."""
    about = f"{code_digest(RELEASES)} {digest.hex()} {seed} {mechanism_of(case)!r}"
    key = sha256(about.encode()).hexdigest()[:16]
    parameter = str(case.parameter).replace("/", "of")
    return f"{case.mechanism}-{parameter}-{case.replicate}-{key}.npz"


def _read(path: Path) -> Residuals:
    try:
        return Residuals.from_bytes(path.read_bytes())
    except (BadZipFile, KeyError, ValueError, EOFError) as error:
        raise RunError(
            f"{path}: found a damaged file ({error}), expected residuals that this study kept; "
            "delete it to draw them again"
        ) from None
