"""One function protects: for a study, a comparison, a run and a user alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256

from headcount.errors import InputError, PrivacyError
from headcount.files import write_text_atomic
from headcount.mechanisms._base import Context, Making
from headcount.mechanisms._chain import Chain, ChainDesign, Mechanisms
from headcount.noise import KeyedNoise, Noise, RunKey, destroy_run_key, save_run_key
from headcount.population import Population
from headcount.release import Release
from headcount.tabulate import Tabulated

NOISE_AT_ONCE = 1 << 25
"""Bytes of noise of several runs that are held at once: with their copies about 200 MiB."""

SECONDS = "seconds.json"
"""How long each part of a run took: in the curator's folder."""


def protect(
    data: Population | Tabulated,
    mechanism: Mechanisms,
    noise: Noise | None = None,
    *,
    seed: int | None = None,
    run: int = 0,
    context: Context | None = None,
    design: ChainDesign | None = None,
) -> Release:
    """Protect a population once: one run of the mechanism, with its guarantee completed.

    ``design`` is that of the mechanism on the domain of these people, where it is known already.
    Without ``noise`` a fresh key comes from the operating system, and is kept nowhere (but, where
    other processes do the work, in a file of their own while they do); with ``seed`` the same
    release can be made again, and is therefore not private. Nothing is recorded
    in a ledger: ``protect_run`` and ``headcount protect`` do that. The guarantee lists what of the
    public domain was read from the data, says whom noise from a cipher holds against, and says
    that a seeded release is not private. Secret noise that was made for other data is refused:
    the difference of two releases under the same noise is the difference of their truths.
    """
    chain, context = Chain.of(mechanism), context or Context()
    truth = _opened(data, chain, noise)
    if noise is not None and seed is not None:
        raise PrivacyError(source="protect", found="noise and a seed", expected="one or the other")
    with ExitStack() as stack:
        if noise is None:
            key = RunKey.from_os() if seed is None else RunKey.from_seed(seed)
            folder = stack.enter_context(context.engine.private_folder())
            if folder is not None:
                save_run_key(key, folder / "run.key")
                stack.callback(destroy_run_key, folder / "run.key")
            noise = KeyedNoise(key, chain.name, truth.digest, mechanism_digest(chain))
        design = chain.on(truth.counts.domain) if design is None else design
        (outcome,) = design.outcomes(truth, noise, runs=range(run, run + 1), context=context)
    if outcome.seconds and context.curator is not None:
        text = json.dumps(outcome.seconds, indent=2, ensure_ascii=False) + "\n"
        write_text_atomic(context.curator / SECONDS, text)
    return outcome.release(0, _making(design, noise))


def protect_runs(
    data: Population | Tabulated,
    mechanism: Mechanisms,
    noise: Noise,
    *,
    runs: range,
    context: Context | None = None,
) -> Iterator[Release]:
    """Yield the releases of some runs in their order, each the one that ``protect`` makes.

    Faster than one by one: the noise of many runs is drawn at once, as far as it fits.
    """
    chain = Chain.of(mechanism)
    truth = _opened(data, chain, noise)
    design = chain.on(truth.counts.domain)
    making = _making(design, noise)
    step = max(1, NOISE_AT_ONCE // max(1, design.last.drawn_bytes))
    for start in range(runs.start, runs.stop, step):
        some = range(start, min(start + step, runs.stop))
        for outcome in design.outcomes(truth, noise, runs=some, context=context):
            for number in range(1 if chain.steps else len(some)):
                yield outcome.release(number, making)


def _opened(data: Population | Tabulated, chain: Chain, noise: Noise | None) -> Tabulated:
    """The people as the chain needs them; noise and people that do not go together are refused."""
    if not isinstance(data, Population | Tabulated):
        raise InputError(
            "protect",
            found=f"a {type(data).__name__} to protect",
            expected="a Population: read(data), or another reader of headcount",
        )
    truth = chain.cut(Tabulated.of(data))
    chain.check_people(truth.population)
    if isinstance(noise, KeyedNoise) and noise.key_kind == "os":
        _refuse_reuse(noise, truth)
    return truth


def _making(design: ChainDesign, noise: Noise) -> Making:
    chain = design.chain
    return Making(
        domain=design.domain,
        mechanism=chain.public_text,
        guarantee=design.promise(noise.key_kind),
        key_kind=noise.key_kind if chain.draws_noise else "none",
        backend=noise.backend if chain.draws_noise else "none",
    )


def mechanism_digest(mechanism: Mechanisms) -> bytes:
    """What stands for the settings of a mechanism among the inputs of its noise."""
    return sha256(Chain.of(mechanism).words.encode()).digest()


def _refuse_reuse(noise: KeyedNoise, data: Tabulated) -> None:
    if noise.data_digest != data.digest:
        raise PrivacyError(
            "noise: found a source made for other data, expected one with the digest of the data "
            "that it protects (leave noise out for a fresh one)"
        )
