"""Simple random sampling: some people are published as they are, each standing for 1/f others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.errors import ConfigError, InputError
from headcount.fields import Share
from headcount.geography import Geography
from headcount.mechanisms._base import Context, CountsOutcome
from headcount.mechanisms._measured import Measured
from headcount.noise import Noise, Stream, TwoSidedGeometric
from headcount.privacy import Guarantee
from headcount.privacy.loss import positive
from headcount.schema import Schema
from headcount.tabulate import Counts

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_PEOPLE = 10**9
"""The hypergeometric sampler of numpy works below this number."""

_SEED_DRAWS = 256


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """A simple random sample without replacement, weighted by 1/f (Petti & Flaxman 2020).

        n = round(f N) of all N people, whatever their unit or cell;   released = sampled / f

    where
        fraction    f, above 0 and at most 1

    The sample is drawn from the whole and not from each unit, so no total but f N is kept, and
    weighted counts are not rounded. The counts of the sample follow the multivariate
    hypergeometric law, so nobody needs to be written out one by one.
    """

    fraction: Share
    name = "sampling"
    draws_noise = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "fraction", _fraction(self.fraction))

    def refuse_publish(self, kinds: Sequence[str]) -> None:
        """Refuse all but the people drawn."""
        if strange := sorted(set(kinds) - {"microdata"}):
            raise ConfigError(
                "sampling",
                place="run.publish",
                found=f"{strange} with 'sampling'",
                expected="['microdata']: the people drawn, with their weights",
            )

    def guarantee(self, schema: Schema, geography: Geography) -> Guarantee:
        """None, and it says so."""
        return Guarantee.none(
            "a sampled person's record is published as it is, and a count above zero says that "
            "somebody is there; sampling only leaves open who was sampled"
        )

    def plan(self, schema: Schema, geography: Geography) -> tuple[Measured, ...]:
        """Nothing is measured with noise."""
        return ()

    def check(self, counts: Counts) -> tuple[str, ...]:
        """Refuse more people than the sampler can count."""
        people = int(counts.matrix.sum())
        if people >= MOST_PEOPLE:
            raise InputError(
                "sampling",
                place="people",
                found=f"{MOST_PEOPLE:,} or more",
                expected=f"fewer than {MOST_PEOPLE:,}",
            )
        return ()

    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> CountsOutcome:
        """The weighted counts of one sample per run, at the leaf."""
        self.check(counts)
        stream = Stream(level=counts.level, query="sample", size=_SEED_DRAWS)
        made = []
        for run in runs:
            sampled = sample_counts(
                counts.matrix, fraction=self.fraction, rng=generator(noise, stream, run)
            )
            made.append(weighted(sampled, self.fraction))
        return CountsOutcome({counts.level: made})


def sample_counts(
    matrix: csr_array[Any, tuple[int, int]], *, fraction: Fraction, rng: np.random.Generator
) -> csr_array[Any, tuple[int, int]]:
    """How many people of each unit and cell are in a simple random sample of round(f N).

    One entry after another, each by the hypergeometric law given those before it: the product of
    these laws is the multivariate hypergeometric one. Numpy's loop does a nation in half a second.
    """
    from scipy.sparse import csr_array

    people = np.asarray(matrix.data, dtype=np.int64)
    size = round(fraction * int(people.sum()))
    drawn = rng.multivariate_hypergeometric(people, size, method="marginals")
    sample = csr_array(
        (drawn.astype(np.int64), matrix.indices.copy(), matrix.indptr.copy()), shape=matrix.shape
    )
    sample.eliminate_zeros()
    return sample


def sample_rows(
    rows: int, *, fraction: Fraction | str, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Positions, ascending, of a simple random sample of round(f N) of N rows of microdata.

    Each of them has the weight 1/f. Counting the chosen rows gives the law of ``sample_counts``.
    """
    if rows < 0:
        raise InputError("sampling", place="rows", found=str(rows), expected="0 or more")
    size = round(_fraction(fraction) * rows)
    chosen = rng.choice(rows, size=size, replace=False, shuffle=False)
    return np.sort(chosen).astype(np.int64)


def weighted(
    sampled: csr_array[Any, tuple[int, int]], fraction: Fraction
) -> csr_array[Any, tuple[int, int]]:
    """Sampled counts times 1/f, as floats."""
    from scipy.sparse import csr_array

    values = sampled.data * fraction.denominator / fraction.numerator
    return csr_array((values, sampled.indices, sampled.indptr), shape=sampled.shape)


def generator(noise: Noise, stream: Stream, run: int) -> np.random.Generator:
    """A random generator of this run's own, seeded from the run's noise.

    The seed is a digest of geometric draws with at least 1.1 bits of chance each, 280 in all, so
    any source of noise will do, and the same key, data and run give the same sample.
    """
    drawn = noise.draw(stream, TwoSidedGeometric(Fraction(1)), draws=range(run, run + 1))
    digest = sha256(drawn.astype("<i8").tobytes()).digest()
    words = np.frombuffer(digest, dtype="<u4")
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(words.tolist())))


def _fraction(value: Fraction | str) -> Fraction:
    fraction = positive(value, name="sampling: fraction")
    if fraction > 1:
        raise ConfigError(
            "sampling", place="fraction", found=str(fraction), expected="above 0, at most 1"
        )
    return fraction
