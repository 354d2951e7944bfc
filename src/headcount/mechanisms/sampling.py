"""Simple random sampling: some people are taken as they are, each standing for 1/f people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Ints
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.fields import Share
from headcount.mechanisms._base import Context, PreTabular, StepDesign
from headcount.noise import Noise, Stream
from headcount.noise.source import SEED_DRAWS, Words, cipher_words, generator
from headcount.population import Population
from headcount.privacy import Guarantee, UnitOfPrivacy
from headcount.privacy.loss import positive
from headcount.processes import gib, memory_limit
from headcount.release.publication import Publication, SampledPeople
from headcount.tabulate import tabulate

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_PEOPLE = 10**9
"""The hypergeometric sampler of numpy works below this number."""

BYTES_A_PERSON = 40
"""Held at once to choose among people one by one: a word, its place, and copies of both."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Sampling(PreTabular):
    """A simple random sample without replacement, weighted by 1/f (Petti & Flaxman 2020).

        n = round(f N) of all N people, whatever their unit or cell;   weight = 1 / f

    where
        fraction    f, above 0 and at most 1
        exact       choose the people one by one, with whole numbers from a cipher stream; without
                    it, the counts of the sample are drawn by the multivariate hypergeometric law,
                    in floating point: the same law but for rounding, in less time and memory

    The sample is drawn from the whole and not from each unit, so no total but f N is kept, and
    weighted counts are not rounded. Who lives with whom is not known of a sample.

    **Stability** of the exact sample, a uniformly random n-subset.
    *One record changed*: N and n stay; choose the same people of both. The samples differ in at
    most the one record, so k = 1.
    *One person added*: D' is D and one person p more. Rounding to the nearest whole number, f at
    most 1: n' is n or n + 1. If n' = n, draw S' from D'; where p is in it, put in p's place
    somebody drawn uniformly from D without S'. That gives a uniform n-subset of D, one person
    removed and one added: 2 steps. If n' = n + 1, draw S' from D' and leave out p, or where p is
    not in it somebody drawn uniformly: a uniform n-subset of D, 1 step. So k = 2.
    """

    fraction: Share
    exact: bool = False
    name = "sampling"

    def __post_init__(self) -> None:
        object.__setattr__(self, "fraction", _fraction(self.fraction))

    def __repr__(self) -> str:
        exact = ", exact=True" if self.exact else ""
        return f"Sampling(fraction={self.fraction!r}{exact})"

    @property
    def weight(self) -> Fraction:
        """1/f."""
        return 1 / self.fraction

    def on(self, domain: Domain) -> StepDesign:
        """No guarantee; 1 record when one changes, 2 when one is added or removed (proof above)."""
        persons = (u for u in UnitOfPrivacy if not (u.of_household or u.of_housing_unit))
        return StepDesign(
            domain=domain,
            guarantee=Guarantee.none(
                "a sampled person's record is published as it is, and a count above zero says that "
                "somebody is there; sampling only leaves open who was sampled. The size of the "
                "sample says how many people there are, give or take half the weight of a person"
            ),
            stability={unit: 2 if unit.adds else 1 for unit in persons} if self.exact else {},
            no_bound="the sample is drawn in floating point, by a generator that is not "
            "cryptographic, so nothing is proved about it (exact = true draws one with a bound)",
            person_seconds=7e-7,
        )

    def check(self, population: Population) -> tuple[str, ...]:
        """Refuse more people than the sampler can count, or than memory holds words for."""
        people = _people(population)
        if people >= MOST_PEOPLE:
            raise InputError(
                "sampling",
                place="people",
                found=f"{MOST_PEOPLE:,} or more",
                expected=f"fewer than {MOST_PEOPLE:,}",
            )
        if self.exact and people * BYTES_A_PERSON > (most := memory_limit()):
            raise ConfigError(
                "sampling",
                place="exact",
                found=f"more people than fit {gib(most)}, at {BYTES_A_PERSON} bytes a person",
                expected="exact = false, or a machine with more memory",
            )
        return ()

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        """The sample of a run, as rows where the people were rows, else as counts."""
        stream = Stream(level=population.geography.leaf, query="sample", size=SEED_DRAWS)
        if self.exact:
            words = cipher_words(noise, stream, run)
            sample = _chosen(population, words, fraction=self.fraction)
        else:
            sample = _counted(population, generator(noise, stream, run), fraction=self.fraction)
        return replace(sample, weight=population.weight / self.fraction)

    def publications(self) -> Mapping[str, Publication]:
        """The sampled people."""
        return {"microdata": SampledPeople(self.fraction)}


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


def choose(words: Words, *, people: int, size: int) -> Ints:
    """Positions, ascending, of a uniformly random subset of ``size`` of so many people.

    Everybody gets a uniform word, and those with the ``size`` smallest are chosen. Where several
    have the word at the threshold, new words decide among them: given the first words they are as
    good as each other, so the subset is exactly uniform.
    """
    open_to = np.arange(people, dtype=np.int64)
    chosen, left, used = [], size, 0
    while 0 < left < len(open_to):
        drawn = np.concatenate([part.copy() for part in words.run(used, len(open_to))])
        used += len(open_to)
        threshold = np.partition(drawn, left - 1)[left - 1]
        below = drawn < threshold
        chosen.append(open_to[below])
        left -= int(np.count_nonzero(below))
        open_to = open_to[drawn == threshold]
    chosen.append(open_to[:left])  # nobody, or all that are open
    return np.sort(np.concatenate(chosen))


def _chosen(population: Population, words: Words, *, fraction: Fraction) -> Population:
    """A uniformly random subset of the people."""
    people = _people(population)
    who = choose(words, people=people, size=round(fraction * people))
    if population.count is None:
        return _some(population, who)
    ends = np.cumsum(population.count)
    entry = np.searchsorted(ends, who, side="right")
    count = np.bincount(entry, minlength=len(ends)).astype(np.int64)
    return _sample(population, unit=population.unit, cell=population.cell, count=count)


def _counted(population: Population, rng: np.random.Generator, *, fraction: Fraction) -> Population:
    """A sample by the law of its counts; who is in it is drawn where people have keys."""
    matrix = sample_counts(tabulate(population).matrix, fraction=fraction, rng=rng)
    if population.record_keys is not None:
        return _some(population, _members(population, matrix, rng))
    entries = matrix.tocoo()
    return _sample(
        population,
        unit=entries.row.astype(np.int32),
        cell=entries.col.astype(np.int32),
        count=np.asarray(entries.data, dtype=np.int64),
    )


def _members(
    population: Population, sample: csr_array[Any, tuple[int, int]], rng: np.random.Generator
) -> Ints:
    """Positions, ascending, of a uniformly random subset with the counts of a sample."""
    cells, drawn = np.int64(population.schema.size), sample.tocoo()
    where = population.unit * cells + population.cell
    order = np.lexsort((rng.random(len(where)), where))
    entry, first, of = np.unique(where[order], return_index=True, return_inverse=True)
    wanted = np.zeros(len(entry), dtype=np.int64)
    wanted[np.searchsorted(entry, drawn.row * cells + drawn.col)] = drawn.data
    return np.sort(order[np.arange(len(order)) - first[of] < wanted[of]])


def _some(population: Population, who: Ints) -> Population:
    """Some of the rows."""
    keys = population.record_keys
    return _sample(
        population,
        unit=population.unit[who],
        cell=population.cell[who],
        record_keys=None if keys is None else keys.of(who),
    )


def _sample(population: Population, **people: Any) -> Population:
    """Some of the people: without what is true of everybody only, households and quarters."""
    return replace(population, **people, households=None, quarters=None)


def _people(population: Population) -> int:
    return len(population.unit) if population.count is None else int(population.count.sum())


def _fraction(value: Fraction | str) -> Fraction:
    fraction = positive(value, name="sampling: fraction")
    if fraction > 1:
        raise ConfigError(
            "sampling", place="fraction", found=str(fraction), expected="above 0, at most 1"
        )
    return fraction
