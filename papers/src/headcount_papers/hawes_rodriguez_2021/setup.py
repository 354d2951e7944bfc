"""What every attack shares: who lives where in truth, who attacks, and the exact tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Flags
from headcount.attacks.knowledge import Knowledge, knowledge_of_release
from headcount.attacks.reconstruction import Reconstruction, reconstruct
from headcount.attacks.records import Features, Records, records_of
from headcount.attacks.reidentification import KnownPeople
from headcount.errors import InputError
from headcount.evaluation.reidentified import (
    agreement,
    commercial_attacker,
    perfect_attacker,
    reidentified,
    true_records,
)
from headcount.geography import Geography
from headcount.mechanisms import Identity, protect
from headcount.population.from_households import to_population
from headcount.population.population import Households
from headcount.release import Release, TablesRelease
from headcount.schema import load_schema
from headcount.tabulate import Counts, Tabulated
from headcount.tabulate.published import PublishedTable, supported, tables
from headcount_papers.hawes_rodriguez_2021.again import reconstruct_again
from headcount_papers.hawes_rodriguez_2021.settings import LEVELS_NEEDED, NAME, SCHEMA

SCORES = ("attacker", "universe", "by", "people", "putative", "confirmed")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Setup:
    """The people, those who attack them, and what unprotected tables give away.

    where
        data        the people, with true counts of the leaf units
        truth       the same, one row per person
        attackers   the files of the perfect and of the commercial-like attacker
        tables      the block tables of Summary File 1 that the schema can make
        missing     why it cannot make the others
        exact       what the tables without any protection tell
        solved      the records reconstructed from these, with their variability
    """

    households: Households
    data: Tabulated
    truth: Records
    attackers: tuple[KnownPeople, ...]
    tables: tuple[PublishedTable, ...]
    missing: dict[str, str]
    exact: Knowledge
    solved: Reconstruction

    @property
    def counts(self) -> Counts:
        """True counts of the leaf units."""
        return self.data.counts

    @property
    def geography(self) -> Geography:
        """Where people live."""
        return self.counts.geography

    @property
    def certain(self) -> Flags:
        """Leaf units whose records follow from the exact tables: proven, zero variability."""
        return np.asarray(self.solved.certain, dtype=bool)

    def reconstructed(self, release: Release) -> Any:
        """Records as counts (leaf units x cells) from the block tables of a release.

        A release of tables is read as it stands, small zeros and withheld cells as ranges.
        """
        known = knowledge_of_release(release, self.tables)
        if isinstance(release, TablesRelease):
            return reconstruct(known, variability=False).matrix
        return reconstruct_again(known, self.exact, self.solved)

    def matches(self, matrix: Any, *, seed: int) -> pl.DataFrame:
        """Both attackers on some records (leaf units x cells), for one random order of ties."""
        records = records_of(matrix, Features.of(self.counts.schema))
        how: dict[str, Any] = {"geography": self.geography, "zero_variability": self.certain}
        return pl.concat(
            reidentified(records, known, self.truth, orders=1, seed=seed, **how).select(SCORES)
            for known in self.attackers
        )

    def agreement(self, matrix: Any) -> pl.DataFrame:
        """How many records (leaf units x cells) are those of real people, by size of the block."""
        records = records_of(matrix, Features.of(self.counts.schema))
        found = agreement(records, self.truth, blocks=self.geography.size(self.geography.leaf))
        return found.select("blocks", "people", "records", agreeing="binned")


def prepare(households: Households, *, seed: int) -> Setup:
    """Count, make the attackers' files, and reconstruct from the exact tables."""
    for level in LEVELS_NEEDED:
        if level not in households.geography.levels:
            raise InputError(
                f"study {NAME}",
                place="population",
                found=f"no level {level!r}",
                expected="levels named " + ", ".join(LEVELS_NEEDED) + ", and leaf units below",
            )
    schema = load_schema(SCHEMA)
    known = {attribute.name for attribute in households.person_attributes}
    for attribute in schema.attributes:
        if attribute.name not in known:
            raise InputError(
                f"study {NAME}",
                place="population",
                found=f"no attribute {attribute.name!r}",
                expected="people with " + ", ".join(one.name for one in schema.attributes),
            )
    population = to_population(households, schema=schema)
    data = Tabulated.of(population)
    truth = true_records(population)
    made, missing = supported(tables("sf1").values(), schema)
    blocks = tuple(one.table for one in made if one.table.lowest == "block")
    exact = knowledge_of_release(protect(data, Identity()), blocks)
    return Setup(
        households=households,
        data=data,
        truth=truth,
        attackers=(
            perfect_attacker(truth),
            commercial_attacker(truth, geography=population.geography, seed=seed),
        ),
        tables=blocks,
        missing=dict(missing),
        exact=exact,
        solved=reconstruct(exact),
    )
