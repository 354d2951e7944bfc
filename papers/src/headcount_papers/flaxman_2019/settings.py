"""What the study is run with: the paper's settings unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from headcount.comparison.study import Option, Seed, StudySettings
from headcount.domain import Domain
from headcount.errors import InputError

if TYPE_CHECKING:
    from headcount.mechanisms import PostTabular
    from headcount.population import Population

MechanismName = Literal["geometric", "raked", "averaged"]
MECHANISMS: tuple[MechanismName, ...] = ("geometric", "raked", "averaged")

Variant = Literal["exact", "published"]
EXACT: Variant = "exact"
PUBLISHED: Variant = "published"
VARIANTS: tuple[Variant, ...] = (PUBLISHED, EXACT)

FIGURE_1: dict[MechanismName, Fraction] = {
    "geometric": Fraction(1, 40),
    "averaged": Fraction(1, 20),
    "raked": Fraction(1, 10),
}
"""The epsilon of each mechanism in the paper's figure 1, chosen to give equal empirical loss."""


PAPERS = (1_000_000, 3, 100)
"""N, J and mu of the paper."""
PAPERS_MOVE, FEWEST_AREAS = 1001, 2
"""How many areas further somebody moves in the paper; fewer areas leave nowhere to go."""

SWEPT: Mapping[str, tuple[Any, ...]] = {
    "people": (10_000, 100_000, 1_000_000, 10_000_000),
    "depth": (1, 2, 3, 4, 6),
    "mean": (10, 30, 100, 300, 1000),
    "epsilon": tuple(Fraction(e) for e in ("0.0125", "0.025", "0.05", "0.1", "0.2", "0.4", "0.8")),
    "range_percentile": (80.0, 90.0, 95.0, 97.5, 99.0),
    "range_multiplier": (0.5, 1.0, 1.5, 2.0, 3.0),
    "kernel_factor": (0.02, 0.05, 0.1, 0.15, 0.3, 0.6),
}


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    """Population, estimator and direct experiment of Flaxman (2019).

    where
        people, depth, mean     N, J and mu of the uniform population
        population              counts of the user's own in its place
        mechanisms              which of the three are run
        epsilons                losses at which the pooled estimate is made
        kernel_factor           kernel standard deviation over that of the residuals
        range_percentile, range_multiplier
                                the estimate looks at errors within multiplier x percentile;
                                the paper's text speaks of 1.5, its figure uses 2
        direct_epsilon          loss at which the two neighbouring databases are compared
        direct_runs             runs on each of them
        moved                   the person who moves leaves the first area for the second; None
                                for the paper's, or what there is
        max_k, max_k_tail       |k| of the events {error = k} and {error >= k}
        audit_epsilon, audit_runs
                                of the longer audit, not in the paper: at 0.1 even ten thousand
                                runs can show little
        confidence              of every audit
        swept                   values tried for each setting, one at a time; ``epsilon`` is that
                                of the direct estimate elsewhere
    """

    seed: Seed = 12345
    replicates: Annotated[int, Option(help="Runs behind every mean.", least=1, always=True)] = 20
    population: Annotated[
        Path | None,
        Option(
            help="Counts of your own in place of made-up people: a TOML file with a table "
            "[population], such as a config of headcount protect."
        ),
    ] = None
    people: Annotated[int, Option(help="People of the made-up population.", least=2)] = 1_000_000
    depth: Annotated[int, Option(help="Its levels below the whole.", least=1)] = 3
    mean: Annotated[int, Option(help="People in an area that are aimed at.", least=1)] = 100
    mechanisms: Annotated[
        tuple[str, ...],
        Option(help="Some of geometric,raked,averaged; all three if empty.", each=str.lower),
    ] = MECHANISMS
    epsilons: Annotated[
        tuple[Fraction, ...],
        Option(
            name="epsilon", help="Another epsilon in place of the paper's three; may be repeated."
        ),
    ] = (Fraction(1, 40), Fraction(1, 20), Fraction(1, 10))
    kernel_factor: float = 0.15
    range_percentile: float = 95.0
    range_multiplier: float = 2.0
    direct_epsilon: Fraction = Fraction(1, 10)
    direct_runs: int = 500
    moved: tuple[int, int] | None = None
    max_k: int = 10
    max_k_tail: int = 8
    audit_epsilon: Fraction = Fraction(1)
    audit_runs: int = 10_000
    confidence: float = 0.95
    swept: Mapping[str, tuple[Any, ...]] = field(default_factory=lambda: dict(SWEPT))

    def __post_init__(self) -> None:
        super().__post_init__()
        strange = [name for name in self.mechanisms if name not in MECHANISMS]
        if strange or len(set(self.mechanisms)) != len(self.mechanisms):
            raise self.refused(
                "mechanisms",
                found=", ".join(self.mechanisms),
                expected=f"some of {', '.join(MECHANISMS)}, each once",
            )
        sizes = (self.people, self.depth, self.mean)
        if self.population is not None and sizes != PAPERS:
            raise self.refused(
                "--people, --depth and --mean",
                found=f"--population {self.population.name} beside them",
                expected="these for the made-up population only",
            )
        if self.population is None and self.areas < FEWEST_AREAS:
            raise self.refused(
                "--people, --depth and --mean",
                found=f"{self.areas} areas",
                expected=f"{FEWEST_AREAS} or more: a person moves from one to another",
            )
        if "geometric" in self.mechanisms and max(self.epsilons) >= 1:
            raise self.refused(
                "epsilons",
                found=str(max(self.epsilons)),
                expected="below 1: the paper's code takes that of geometric as a probability",
            )
        if self.moved is not None and not self._pair_is_there(self.moved):
            raise self.refused(
                "moved",
                found=f"areas {self.moved[0]} and {self.moved[1]}",
                expected=f"two areas of 0 to {self.areas - 1}",
            )

    def _pair_is_there(self, moved: tuple[int, int]) -> bool:
        return 0 <= min(moved) < max(moved) < self.areas

    @property
    def judged(self) -> bool:
        """Whether the paper's numbers are about such people: its own N, J and mu."""
        return self.population is None and (self.people, self.depth, self.mean) == PAPERS

    @property
    def figure_1(self) -> dict[MechanismName, Fraction]:
        """The epsilon of each mechanism in figure 1: the paper's, or the nearest that is run."""
        return {
            name: min(self.epsilons, key=lambda epsilon, name=name: abs(epsilon - FIGURE_1[name]))  # type: ignore[misc]
            for name in self.chosen
        }

    @property
    def chosen(self) -> tuple[MechanismName, ...]:
        """The mechanisms that are run, in the paper's order."""
        return tuple(name for name in MECHANISMS if name in self.mechanisms)

    @property
    def areas(self) -> int:
        """Leaf areas, C^J; or those of the user's own."""
        if self.population is not None:
            geography = self.counted_people().geography
            return geography.size(geography.leaf)
        from headcount.population.uniform import children_per_unit

        children = children_per_unit(people=self.people, depth=self.depth, mean=self.mean)
        return int(children**self.depth)

    @property
    def pair(self) -> tuple[int, int]:
        """The two areas between which somebody moves; somebody lives in the first."""
        if self.moved is not None:
            return self.moved
        count = self.counted_people().count
        assert count is not None
        first = int(count.argmax()) if count[0] < 1 else 0
        return first, (first + min(PAPERS_MOVE, self.areas - 1)) % self.areas

    def counted_people(self) -> Population:
        """The people as one count for each area; those asked for last are not made again."""
        if self.population is not None:
            return _own_counts(self.population)
        return _uniform(self.people, self.depth, self.mean, self.seed)

    def identity(self) -> dict[str, Any]:
        """All options; counts of one's own by their digest as well."""
        found = super().identity()
        if self.population is None:
            return found
        count = self.counted_people().count
        assert count is not None
        made_up = ("people", "depth", "mean")
        plain = {key: found[key] for key in found if key not in made_up}
        return plain | {"digest": sha256(count.tobytes()).hexdigest()}

    @property
    def levels(self) -> int:
        """J, the levels below the whole."""
        if self.population is None:
            return self.depth
        return len(self.counted_people().geography.levels) - 1

    @property
    def parts(self) -> int:
        """P = J + 1 answers are averaged, so that averaged splits epsilon as raked does."""
        return self.levels + 1

    def shares(self, name: MechanismName) -> int:
        """How many equal shares a mechanism splits epsilon into."""
        return 1 if name == "geometric" else self.parts

    def mechanism(self, name: MechanismName, epsilon: Fraction) -> PostTabular:
        """The mechanism of that name in headcount."""
        from headcount.mechanisms import Geometric
        from headcount.privacy import UnitOfPrivacy
        from headcount_papers.averaged import Averaged
        from headcount_papers.raked import Raked

        unit = UnitOfPrivacy.ADD_REMOVE  # the paper's
        if name == "geometric":
            return Geometric(epsilon=epsilon, unit=unit)
        if name == "averaged":
            return Averaged(epsilon=epsilon, parts=self.parts, unit=unit)
        return Raked(epsilon=epsilon, unit=unit)


@lru_cache(maxsize=2)  # a sweep moves on to other people while some are still at work
def _uniform(people: int, depth: int, mean: int, seed: int) -> Population:
    """People spread evenly at random."""
    from headcount.population.uniform import uniform

    return uniform(people=people, depth=depth, mean=mean, seed=seed)


@lru_cache(maxsize=1)
def _own_counts(path: Path) -> Population:
    """The people of a file, whatever is known of them, as one count for each area."""
    from headcount.config.load import load_population
    from headcount.population import Population
    from headcount.schema import Schema
    from headcount.tabulate import Tabulated

    counts = Tabulated.of(found := load_population(path).read()).counts
    totals = np.asarray(counts.totals(), dtype=np.int64)
    if len(totals) < FEWEST_AREAS or not totals.any():
        raise InputError(
            str(path),
            place="population",
            found=f"{len(totals)} areas" if totals.any() else "nobody",
            expected=f"people in {FEWEST_AREAS} areas or more: one moves to another",
        )
    return Population(
        name=path.name,
        domain=Domain(Schema(), found.geography),
        unit=np.arange(len(totals), dtype=np.int32),
        cell=np.zeros(len(totals), dtype=np.int32),
        count=totals,
        public=found.public,
    )
