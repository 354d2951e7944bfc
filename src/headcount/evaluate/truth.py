"""What only the curator has: the truth behind a release, and how the release was made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headcount.mechanisms import Mechanism
from headcount.population import Population
from headcount.tabulate import Counts, tabulate


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Truth:
    """The curator's side of a release; whatever is computed from it is confidential.

    where
        counts      everybody: what a release is scored against
        protected   what the mechanism was given: ``counts``, or fewer where households were cut
        mechanism   how the release was made; None if that is not known
        internal    the folder of a run with what only the curator may see; None without a run
    """

    counts: Counts
    protected: Counts
    mechanism: Mechanism | None = None
    internal: Path | None = None

    def __repr__(self) -> str:
        return f"<Truth: {self.counts!r}>"

    @classmethod
    def of(cls, population: Population | Counts, *, mechanism: Mechanism | None = None) -> Truth:
        """The truth of a population, and the mechanism if metrics may run it again."""
        counts = tabulate(population) if isinstance(population, Population) else population
        return cls(counts=counts, protected=counts, mechanism=mechanism)

    def files(self, name: str) -> tuple[Path, ...]:
        """Files of that name left for the curator: by the run, then by the steps of its chain."""
        if self.internal is None:
            return ()
        own = self.internal / name
        return (*((own,) if own.exists() else ()), *sorted(self.internal.glob(f"*/{name}")))
