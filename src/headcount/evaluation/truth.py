"""What only the curator has: the truth behind a release, and how the release was made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from headcount.errors import InputError
from headcount.mechanisms import Chain, Mechanism
from headcount.population import Population
from headcount.release import Release
from headcount.tabulate import Counts, Query, tabulate


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Truth:
    """The curator's side of a release; whatever is computed from it is confidential.

    where
        counts      everybody: what a release is scored against
        protected   what the mechanism was given: ``counts``, or fewer where households were cut
        folders     where runs left what only the curator may see

    How the release was made is not known of it: see ``MadeTruth``.
    """

    counts: Counts
    protected: Counts
    folders: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.counts!r}>"

    @classmethod
    def of(cls, people: Truth | Population | Counts) -> Truth:
        """The truth of a population, or as it is."""
        if isinstance(people, Truth):
            return people
        if not isinstance(people, Population | Counts):
            raise InputError(
                "truth",
                found=f"a {type(people).__name__}",
                expected="the Population that was protected, after the release",
            )
        counts = tabulate(people) if isinstance(people, Population) else people
        return Truth(counts=counts, protected=counts)

    def made_by(self, mechanism: Mechanism) -> MadeTruth:
        """The same, and the mechanism that made the release, which metrics may run again."""
        return MadeTruth(
            counts=self.counts,
            protected=self.protected,
            folders=self.folders,
            mechanism=mechanism,
        )

    def on(self, release: Release) -> Truth:
        """The same as far as a release tells it: its attributes, and levels down to its lowest."""
        if self.counts.schema == release.schema and self.counts.level == release.geography.leaf:
            return self
        return replace(
            self,
            counts=_seen(self.counts, release),
            protected=_seen(self.protected, release),
        )

    @property
    def knows_mechanism(self) -> bool:
        """Whether it is known how the release was made."""
        return False

    def chain(self) -> Chain:
        """How the release was made; an error if that is not known."""
        raise InputError(
            "truth", found="no mechanism", expected="the one that made the release (made_by)"
        )

    def files(self, name: str) -> dict[str, Path]:
        """Files of that name left for the curator: by the run (""), or by a step of its chain."""
        found: dict[str, Path] = {}
        for folder in self.folders:
            own = folder / name
            found |= {"": own} if own.exists() else {}
            found |= {path.parent.name: path for path in sorted(folder.glob(f"*/{name}"))}
        return found


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MadeTruth(Truth):
    """The truth behind a release of which the mechanism is known."""

    mechanism: Mechanism

    @property
    def knows_mechanism(self) -> bool:
        """It is."""
        return True

    def chain(self) -> Chain:
        """The mechanism as a chain."""
        return Chain.of(self.mechanism)


def _seen(counts: Counts, release: Release) -> Counts:
    """Counts by the attributes of a release, of the units of its lowest level."""
    leaf = release.geography.leaf
    answer = Query("release", release.schema.names).matrix(counts.schema)
    return replace(
        counts,
        schema=release.schema,
        geography=release.geography,
        level=leaf,
        matrix=(counts.at(leaf).matrix @ answer).tocsr(),
        quarters=None,
    )
