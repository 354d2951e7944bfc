"""What the study is run with: the paper's settings unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from headcount.studies.frame.settings import Option, Seed, StudySettings

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
        epsilons                losses at which the pooled estimate is made
        kernel_factor           kernel standard deviation over that of the residuals
        range_percentile, range_multiplier
                                the estimate looks at errors within multiplier x percentile;
                                the paper's text speaks of 1.5, its figure uses 2
        direct_epsilon          loss at which the two neighbouring databases are compared
        direct_runs             runs on each of them
        moved                   the person who moves leaves the first area for the second
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
    people: int = 1_000_000
    depth: int = 3
    mean: int = 100
    epsilons: tuple[Fraction, ...] = (Fraction(1, 40), Fraction(1, 20), Fraction(1, 10))
    kernel_factor: float = 0.15
    range_percentile: float = 95.0
    range_multiplier: float = 2.0
    direct_epsilon: Fraction = Fraction(1, 10)
    direct_runs: int = 500
    moved: tuple[int, int] = (0, 1001)
    max_k: int = 10
    max_k_tail: int = 8
    audit_epsilon: Fraction = Fraction(1)
    audit_runs: int = 10_000
    confidence: float = 0.95
    swept: Mapping[str, tuple[Any, ...]] = field(default_factory=lambda: dict(SWEPT))

    def __post_init__(self) -> None:
        super().__post_init__()
        if missing := set(FIGURE_1.values()) - set(self.epsilons):
            raise self.refused(
                "epsilons",
                found=", ".join(f"{float(e):g}" for e in self.epsilons),
                expected=f"figure 1's too: {', '.join(f'{float(e):g}' for e in sorted(missing))}",
            )
        source, target = self.moved
        if not (0 <= min(self.moved) <= max(self.moved) < self.areas) or source == target:
            raise self.refused(
                "moved",
                found=f"areas {source} and {target}",
                expected=f"two areas of 0 to {self.areas - 1}",
            )

    @property
    def areas(self) -> int:
        """Leaf areas, C^J."""
        from headcount.population.uniform import children_per_unit

        children = children_per_unit(people=self.people, depth=self.depth, mean=self.mean)
        return int(children**self.depth)

    def population(self) -> Population:
        """The people, spread evenly at random."""
        from headcount.population.uniform import uniform

        return uniform(people=self.people, depth=self.depth, mean=self.mean, seed=self.seed)

    @property
    def parts(self) -> int:
        """P = J + 1 answers are averaged, so that averaged splits epsilon as raked does."""
        return self.depth + 1

    def shares(self, name: MechanismName) -> int:
        """How many equal shares a mechanism splits epsilon into."""
        return 1 if name == "geometric" else self.parts

    def mechanism(self, name: MechanismName, epsilon: Fraction) -> PostTabular:
        """The mechanism of that name in headcount."""
        from headcount.mechanisms import Averaged, Geometric, Raked
        from headcount.privacy import UnitOfPrivacy

        unit = UnitOfPrivacy.ADD_REMOVE  # the paper's
        if name == "geometric":
            return Geometric(epsilon=epsilon, unit=unit)
        if name == "averaged":
            return Averaged(epsilon=epsilon, parts=self.parts, unit=unit)
        return Raked(epsilon=epsilon, unit=unit)
