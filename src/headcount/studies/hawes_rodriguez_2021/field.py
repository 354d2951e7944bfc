"""The field of the attack: who lives where in truth, who attacks, and what tables are published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.attacks.knowledge import Held, Knowledge, exact
from headcount.attacks.reconstruction import Reconstruction, reconstruct
from headcount.attacks.records import Features, Records, records_of
from headcount.attacks.reidentification import KnownPeople
from headcount.errors import InputError
from headcount.evaluate.agreement import agreement
from headcount.evaluate.attackers import commercial_attacker, perfect_attacker, true_records
from headcount.evaluate.reidentified import reidentified
from headcount.geography import Geography
from headcount.population.from_households import to_population
from headcount.population.households import Households
from headcount.schema import load_schema
from headcount.studies.hawes_rodriguez_2021.settings import LEVELS_NEEDED, SCHEMA, STUDY
from headcount.tabulate import Counts, tabulate
from headcount.tabulate.published import TableCells, supported, tables

Flags = NDArray[np.bool_]
SCORES = ("attacker", "universe", "by", "people", "putative", "confirmed")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Battlefield:
    """What every attack shares.

    where
        counts      true counts of the leaf units, with households
        truth       the same, one row a person
        attackers   the files of the perfect and of the commercial-like attacker
        tables      the block tables of Summary File 1 that the schema can make
        missing     why it cannot make the others
        solved      the reconstruction from exact tables, with its variability
    """

    counts: Counts
    truth: Records
    attackers: tuple[KnownPeople, ...]
    tables: tuple[TableCells, ...]
    missing: dict[str, str]
    solved: Reconstruction

    @property
    def geography(self) -> Geography:
        """Where people live."""
        return self.counts.geography

    @property
    def households(self) -> Households:
        """Who lives with whom."""
        assert self.counts.households is not None
        return self.counts.households

    @property
    def certain(self) -> Flags:
        """Leaf units whose records follow from the exact tables: proven, zero variability."""
        return np.asarray(self.solved.certain, dtype=bool)


def prepare(households: Households, *, seed: int) -> Battlefield:
    """Count, make the attackers' files, and reconstruct from the exact tables."""
    for level in LEVELS_NEEDED:
        if level not in households.geography.levels:
            raise InputError(
                f"study {STUDY}", place="population", found=f"no level {level!r}",
                expected="levels named " + ", ".join(LEVELS_NEEDED) + ", and leaf units below",
            )  # fmt: skip
    schema = load_schema(SCHEMA)
    known = {attribute.name for attribute in households.person_attributes}
    for attribute in schema.attributes:
        if attribute.name not in known:
            raise InputError(
                f"study {STUDY}", place="population", found=f"no attribute {attribute.name!r}",
                expected="people with " + ", ".join(one.name for one in schema.attributes),
            )  # fmt: skip
    population = to_population(households, schema=schema)
    counts = tabulate(population)
    truth = true_records(population)
    cells, missing = supported(tables("sf1").values(), counts.schema)
    cells = tuple(one for one in cells if one.table.lowest == "block")
    published = exact_tables(counts.matrix, cells, level=counts.level)
    return Battlefield(
        counts=counts,
        truth=truth,
        attackers=(
            perfect_attacker(truth),
            commercial_attacker(truth, geography=counts.geography, seed=seed),
        ),
        tables=cells,
        missing=dict(missing),
        solved=reconstruct(Knowledge(counts.schema, counts.geography, published)),
    )


def exact_tables(matrix: Any, cells: tuple[TableCells, ...], *, level: str) -> tuple[Held, ...]:
    """Tables made of counts (units x cells of the schema), as published."""
    return tuple(exact(one, matrix @ one.matrix, level=level) for one in cells)


def reconstructed(field: Battlefield, matrix: Any) -> Any:
    """Records as counts, from the block tables of another release of the same geography.

    Only leaf units whose counts are not the true ones are solved again; the others have the
    records that were found from the exact tables.
    """
    from scipy.sparse import csr_array, vstack

    leaves = field.geography.size(field.geography.leaf)
    changed = np.zeros(leaves, dtype=bool)
    differences = csr_array(matrix - field.counts.matrix)
    differences.eliminate_zeros()
    changed[np.flatnonzero(np.diff(differences.indptr))] = True
    again = np.flatnonzero(changed)
    base = field.solved.matrix
    if not len(again):
        return base
    some = _only(again)
    published = exact_tables(csr_array(matrix)[again], field.tables, level=some.leaf)
    solved = reconstruct(Knowledge(field.counts.schema, some, published), variability=False)
    order = np.argsort(np.concatenate([again, np.flatnonzero(~changed)]), kind="stable")
    return csr_array(vstack([solved.matrix, base[~changed]], format="csr")[order])


def _only(leaves: NDArray[np.int64]) -> Geography:
    """A flat geography of some leaf units, by number."""
    return Geography(
        ("whole", "block"),
        (np.array(["whole"]), leaves.astype(np.str_)),
        (np.empty(0, dtype=np.int32), np.zeros(len(leaves), dtype=np.int32)),
    )


def attack(field: Battlefield, matrix: Any, *, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both attackers on some records (leaf units x cells): matches, and agreement with the truth.

    Matches have the columns ``SCORES``, for one random order of ties.
    """
    records = records_of(matrix, Features.of(field.counts.schema))
    found = [
        reidentified(
            records,
            known,
            field.truth,
            geography=field.geography,
            zero_variability=field.certain,
            orders=1,
            seed=seed,
        ).select(SCORES)
        for known in field.attackers
    ]
    leaves = field.geography.size(field.geography.leaf)
    agreed = pl.DataFrame(
        [
            {"blocks": one.blocks, "people": one.people, "records": one.records,
             "agreeing": one.binned}
            for one in agreement(records, field.truth, blocks=leaves).values()
        ]
    )  # fmt: skip
    return pl.concat(found), agreed
