"""The reconstruction attack: from published tables to person records, block by block.

Database reconstruction (Dinur & Nissim 2003; Abowd et al. 2023): the adversary looks for records of
people that fit every published table. Each block is an integer problem of its own; with
``together`` the blocks of a larger unit are solved jointly (``_leaves``). Where only one set of
records fits, they are certain: their *solution variability* is 0 (``_problem``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Flags, Floats, Ints
from headcount.attacks._base import (
    Attack,
    ClaimedRecords,
    People,
    changed_tables,
    whole_people,
)
from headcount.attacks._conflict import CellChange
from headcount.attacks._leaves import (
    LEAST_CHANGE,
    NONE,
    REPORT,
    Joint,
    LeafOutcomes,
    Task,
    solve_leaves,
    solve_together,
)
from headcount.attacks._problem import Effort
from headcount.attacks._structure import Structure, build_structure
from headcount.attacks.changed_cells import NarrowedTables, narrowed_tables
from headcount.attacks.knowledge import Knowledge, KnownTable, knowledge_of_release, tells_years
from headcount.attacks.records import Features, known_names, learnt_names
from headcount.engines import Engine, InOrder
from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.release import Release, TablesRelease
from headcount.release.layout import units_frame
from headcount.release.store import schema_to_json
from headcount.report.finding import SUPPORTED, Support
from headcount.schema import Schema
from headcount.tabulate.codings import find_attribute
from headcount.tabulate.published import PublishedTable, own_table, supported, tables

BLOCKS_AT_ONCE = 128
MOVES_SHOWN = 5
NEAREST = (
    "Counts were changed: each published one stands for a range, which all sums make narrower, and "
    "of the records that fit those nearest to the published counts are taken."
)
RECORDS, BLOCKS = "records", "blocks"


@dataclass(frozen=True, kw_only=True)
class Reconstruct(Attack):
    """Find the records that fit all published tables.

    where
        tables        the tables that the attacker makes from released counts; published ones are
                      taken as they are
        together      solve all leaf units within each unit of this level jointly; "" for none
        on_conflict   what to do if tables contradict each other: "report", or "least-change"
        variability   also prove how many records could be different
        steps         of HiGHS, at most, for one question that search leaves open; beyond them the
                      answer is not proven. 1,000 take about a second
        most_units    leaf units that an evaluation attacks, drawn at random; 0 for all
        largest_change   where counts were changed, what the attacker knows of the largest change
                      if neither the release says it nor an evaluation gives him the settings; 0 if
                      nothing: he then takes the smallest one under which all tables can be true
        knows_settings   whether he uses the settings that an evaluation gives him

    Where counts were changed each published one stands for a range, which all sums of the release
    make narrower. Of the records that fit the ranges those nearest to the published counts are
    taken, by the sum of all differences.
    """

    name = "reconstruction"
    at_least_0 = ("largest_change", "steps")
    tables: str = "sf1"
    together: str = ""
    on_conflict: str = REPORT
    variability: bool = True
    steps: int = 1_000
    most_units: int = 300
    largest_change: int = 0
    knows_settings: bool = True

    def supports(self, release: Release) -> Support:
        """Published tables, or whole people on a schema that can make tables of them."""
        if not (rebuilt := has_features(release)):
            return rebuilt
        return _tells_of_people(release, self.tables)

    def read(self, release: Release) -> Release:
        """Changed counts as ranges, narrowed by all sums of the release."""
        return read_changed(release, self.largest_change, self.knows_settings)

    def uninformed(self, release: Release) -> Reconstruct | None:
        """Somebody who takes the smallest change that the tables prove for the largest."""
        if self.knows_settings and settings_tell_more(release):
            return replace(self, knows_settings=False)
        return None

    def limit(self, release: Release) -> int:
        """Solving units takes long; those of a level that are solved jointly belong together."""
        return 0 if self.together else self.most_units

    def run(self, release: Release, people: People, *, engine: Engine | None = None) -> Rebuilt:
        """Records that fit the tables of a release; the people known play no part."""
        made = _tables_to_make(self.tables, release)
        release = self.read(release)
        knowledge = knowledge_of_release(release, made, together=self.together or None)
        return self.from_tables(knowledge, change_words(release), engine=engine)

    def from_tables(
        self, knowledge: Knowledge, words: str = "", *, engine: Engine | None = None
    ) -> Rebuilt:
        """Records that fit the tables that an attacker has, wherever they come from.

        ``words`` say what is known of changes, where counts were changed.
        """
        found = reconstruct(
            knowledge,
            together=self.together or None,
            on_conflict=self.on_conflict,
            variability=self.variability,
            effort=Effort(steps=self.steps),
            engine=engine,
        )
        features = Features.of(knowledge.schema)
        years = bool(self.together) or tells_years(found.class_of, features.key)
        known = features.as_known_by(found.class_of, years=years)
        return Rebuilt(
            attack=self.name,
            title="Can records be rebuilt from tables?",
            schema=found.schema,
            geography=found.geography,
            matrix=found.matrix,
            found=found,
            features=known,
            facts=_facts(found, knowledge, known, words, measured=self.variability),
            words=(
                "The attacker looks for records of people that fit every published table of a "
                "unit. Where only one set of records fits, it is proven and certain; elsewhere one "
                "of several is taken. Years of age are used only as far as the tables tell them "
                f"apart. The solver has {self.steps:,} steps for each question; without an answer "
                "by then the result counts as not proven."
                + (f" {NEAREST} {words}" if words else "")
            ),
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Rebuilt(ClaimedRecords):
    """Records from tables, with how sure they are; ``features`` says what of them is believed."""

    found: Reconstruction
    features: Features

    def frames(self, ids: pl.Series) -> Mapping[str, pl.DataFrame]:
        """The records, for each block how they were found, and where the blocks are."""
        return {
            RECORDS: _records_frame(self.found),
            BLOCKS: _blocks_frame(self.found),
            "units": units_frame(self.geography, self.geography.leaf),
        }

    def notes(self) -> Mapping[str, str]:
        """Cells that must move because tables contradict each other."""
        moves = self.found.moves
        return {"moves.txt": "\n".join(map(str, moves)) + "\n"} if moves else {}


def _records_frame(found: Reconstruction) -> pl.DataFrame:
    """Reconstructed records: block, attributes, and how many people share them."""
    schema, geography = found.schema, found.geography
    levels = np.unravel_index(found.cell, schema.shape)
    return pl.DataFrame(
        {
            geography.leaf: geography.units[-1][found.unit].tolist(),
            **{
                attribute.name: np.array(attribute.levels)[code].tolist()
                for attribute, code in zip(schema.attributes, levels, strict=True)
            },
            "count": found.count,
        },
        schema_overrides={geography.leaf: pl.String, "count": pl.Int64}
        | dict.fromkeys(schema.names, pl.String),
    )


def _blocks_frame(found: Reconstruction) -> pl.DataFrame:
    """How each block was solved, and how sure its records are."""
    return pl.DataFrame(
        {
            found.geography.leaf: found.geography.units[-1].tolist(),
            "people": found.people,
            "method": found.method.tolist(),
            "proven": found.proven,
            "variability": pl.Series(found.variability, dtype=pl.Float64).fill_nan(None),
            "conflict": found.conflict,
        }
    )


def _facts(
    found: Reconstruction, knowledge: Knowledge, features: Features, changes: str, *, measured: bool
) -> dict[str, Any]:
    with_people = found.people > 0
    zero = with_people & found.certain
    methods, times = np.unique(found.method, return_counts=True)
    unused = [h for h in knowledge.tables if f"{h.name} at {h.level!r}" in found.unused]
    return {
        "kind": Reconstruct.name,
        "tables": _by_level(held for held in knowledge.tables if held not in unused),
        "unused": _by_level(unused),
        "blocks": len(found.method),
        "blocks_with_records": int(with_people.sum()),
        "records": int(found.count.sum()),
        "methods": dict(zip(methods.tolist(), times.tolist(), strict=True)),
        "not_proven": int((~found.proven).sum()),
        "zero_variability_blocks": int(zero.sum()) if measured else None,
        "zero_variability_records": int(found.people[zero].sum()) if measured else None,
        **(
            {"changes": changes, "not_nearest": int((with_people & ~found.nearest).sum())}
            if changes
            else {}
        ),
        "certain_records": int(found.sure.sum()),
        "conflicts": int(found.conflict.sum()),
        "cells_that_must_move": len(found.moves),
        **({"for_example": [str(one) for one in found.moves[:MOVES_SHOWN]]} if found.moves else {}),
        "years": features.years,
        "groups": features.binned.tolist(),
        "domain": {**schema_to_json(found.schema), "levels": list(found.geography.levels)},
    }


def _by_level(tables: Iterable[KnownTable]) -> list[str]:
    """Tables in few words: "P1 P2 at block"."""
    names: dict[str, list[str]] = {}
    for held in tables:
        names.setdefault(held.level, []).append(held.name)
    return [f"{' '.join(own)} at {level}" for level, own in names.items()]


def read_changed(release: Release, largest_change: int, knows_settings: bool) -> Release:
    """A release as it is, unless its counts were changed."""
    if not isinstance(release, TablesRelease) or not release.changed:
        return release
    return narrowed_tables(release, largest_change=largest_change, knows_settings=knows_settings)


def settings_tell_more(release: Release) -> bool:
    """Whether an adversary was given settings of changes that the release does not say."""
    return isinstance(release, TablesRelease) and any(
        one.known is not None and one.off is not None and not one.off.told
        for one in release.published
    )


def change_words(release: Release) -> str:
    """What the adversary knows of changes of counts; nothing where none was changed."""
    return release.words if isinstance(release, NarrowedTables) else ""


def _tells_of_people(release: Release, product: str) -> Support:
    """Whether the tables of a release, or those made from its counts, tell what is to be learnt."""
    if isinstance(release, TablesRelease):
        if release.changed and not (adding := changed_tables(release)):
            return adding
        return _telling((one.cells.table for one in release.published), release.schema)
    if not (people := whole_people(release)):
        return people
    return _telling(_tables_to_make(product, release), release.schema)


def _tables_to_make(product: str, release: Release) -> tuple[PublishedTable, ...]:
    """Tables of a product, if those that the schema can make at the leaf tell what is to be learnt.

    Of other schemas each attribute is a table, and each pair of one that is known and one to be
    learnt: what an office would publish of them.
    """
    schema, geography = release.schema, release.geography
    shipped = tuple(tables(product).values())
    made, _ = supported(shipped, schema)
    known = (one.table for one in made if one.table.lowest in ("block", *geography.levels))
    if _telling((one for one in known if geography.leaf in one.published_at(geography)), schema):
        return shipped
    pairs = [(a, b) for a in known_names(schema) for b in learnt_names(schema)]
    return tuple(own_table(by) for by in (*((name,) for name in schema.names), *pairs))


def _telling(made: Iterable[PublishedTable], schema: Schema) -> Support:
    """Whether tables tell anything of what is to be learnt."""
    learnt = learnt_names(schema)
    shown = {
        name
        for table in made
        for role, codings in (*table.axes, *table.universe)
        for name in (role, *_played(schema, role if codings else ""))
    }
    if not shown & set(learnt):
        return Support(f"no table of its smallest units shows {' or '.join(learnt)}")
    return SUPPORTED


def _played(schema: Schema, role: str) -> tuple[str, ...]:
    found = find_attribute(schema, role) if role else None
    return () if found is None else (found.name,)


def has_features(release: Release) -> Support:
    """Whether a schema has what people are known by, and what is learnt about them."""
    try:
        Features.of(release.schema)
    except InputError as error:
        return Support(f"it needs {error.expected}; the release has {error.found}")
    return SUPPORTED


@dataclass(frozen=True, eq=False, repr=False)
class Reconstruction:
    """Person records by leaf unit, and how sure they are.

    where
        unit, cell, count   the records, sparse; a cell of the schema stands for its class
        class_of            class of each cell of the schema: records are known up to it
        method              for each leaf "algebra", "search", "solver" or "none" (no records)
        proven              whether the outcome is sure: no solution is farther off than the
                            variability says, or the tables surely contradict each other. Leaf by
                            leaf the variability is then the true maximum; jointly it may be larger
                            than that (see ``_leaves``), and 0 is still 0
        variability         per cent of records that could be others; infinite if none were found
                            where some could be; not a number if not asked for, or without a
                            solution
        conflict            whether the tables contradict each other
        sure                sparse (leaves x classes): how many records of each class every solution
                            has at least. Found by propagation, so that there may be more; nobody
                            where tables contradict each other
        nearest             whether no other records are nearer to the published numbers, where
                            tables have such; proven, and true where there is no choice
        moves               the cells that must move in the least-change fix
        unused              tables held that the attack did not use
    """

    schema: Schema
    geography: Geography
    unit: Ints
    cell: Ints
    count: Ints
    class_of: Ints
    method: NDArray[np.str_]
    proven: Flags
    variability: Floats
    conflict: Flags
    nearest: Flags
    sure: Any
    moves: tuple[CellChange, ...] = ()
    unused: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Reconstruction: {len(self.unit):,} records' cells, {self.geography!r}>"

    @property
    def certain(self) -> Flags:
        """Leaves with one solution only, which is proven: their records, or that nobody is there.

        Not where tables contradict each other: another change may be as small.
        """
        sure: Flags = self.proven & (self.variability == 0) & ~self.conflict
        return sure

    @property
    def people(self) -> Ints:
        """Records found in each leaf."""
        return np.bincount(
            self.unit, weights=self.count, minlength=self.geography.size(self.geography.leaf)
        ).astype(np.int64)

    @property
    def matrix(self) -> Any:
        """The records as counts (leaf units x cells), sparse."""
        from scipy.sparse import coo_array

        shape = (self.geography.size(self.geography.leaf), self.schema.size)
        return coo_array((self.count, (self.unit, self.cell)), shape=shape).tocsr()


def reconstruct(
    knowledge: Knowledge,
    *,
    together: str | None = None,
    variability: bool = True,
    on_conflict: str = REPORT,
    effort: Effort | None = None,
    weights: Mapping[str, float] | None = None,
    steps_to_fix: int = 10_000,
    engine: Engine | None = None,
) -> Reconstruction:
    """Person records of every leaf from the tables held.

    ``together`` names a level (the tract): the leaves of each of its units are then solved
    jointly, with the tables held at levels from there down. Without it only the leaf's tables are
    used. ``on_conflict`` says what to do where tables contradict each other: "report" the least
    change that would repair them and give no records, or go on from the tables so changed.
    ``weights`` gives tables other weights than 1 in that change.
    """
    if on_conflict not in (REPORT, LEAST_CHANGE):
        raise ConfigError(
            "reconstruction",
            place="on_conflict",
            found=repr(on_conflict),
            expected=f"{REPORT!r} or {LEAST_CHANGE!r}",
        )
    geography = knowledge.geography
    leaf = geography.leaf
    if not knowledge.at(leaf):
        raise ConfigError(
            "reconstruction", found=f"no table at {leaf!r}", expected="at least one there"
        )
    structure = build_structure(knowledge.schema, [knowledge.at(leaf)])
    plan = Task(
        knowledge=knowledge,
        structure=structure,
        variability=variability,
        on_conflict=on_conflict,
        effort=effort or Effort(),
        weights=weights,
        steps_to_fix=steps_to_fix,
    )
    engine = engine or InOrder()
    if together is None or together == leaf:
        used = [leaf]
        whole = np.arange(geography.size(leaf))
        pieces = [whole[i : i + BLOCKS_AT_ONCE] for i in range(0, len(whole), BLOCKS_AT_ONCE)]
        found = list(engine.map(partial(solve_leaves, plan), pieces))
    else:
        joint = Joint.of(plan, together)
        used = [leaf, *joint.levels]
        units = list(range(geography.size(together)))
        found = list(engine.map(partial(solve_together, joint), units))
    unused = tuple(f"{h.name} at {h.level!r}" for h in knowledge.tables if h.level not in used)
    return _gather(knowledge, structure, found, unused)


def _gather(
    knowledge: Knowledge,
    structure: Structure,
    found: Sequence[LeafOutcomes],
    unused: tuple[str, ...],
) -> Reconstruction:
    def joined(name: str) -> Ints:
        parts = [part for piece in found for part in getattr(piece, name)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def listed(name: str) -> list[Any]:
        return [value for piece in found for value in getattr(piece, name)]

    return Reconstruction(
        knowledge.schema,
        knowledge.geography,
        joined("unit"),
        joined("cell"),
        joined("count"),
        structure.class_of,
        np.array(listed("method"), dtype=np.str_),
        np.array(listed("proven"), dtype=bool),
        np.array(listed("variability"), dtype=float),
        np.array(listed("conflict"), dtype=bool),
        np.array(listed("nearest"), dtype=bool),
        _certain_records(listed("sure"), int(structure.class_of.max()) + 1),
        tuple(listed("moves")),
        unused,
    )


def _certain_records(sure: Sequence[tuple[Ints, Ints]], classes: int) -> Any:
    """Sparse (leaves x classes) from the classes and counts of each leaf."""
    from scipy.sparse import coo_array

    leaf = np.repeat(np.arange(len(sure)), [len(kinds) for kinds, _ in sure])
    kinds = np.concatenate([NONE, *(kinds for kinds, _ in sure)])
    counts = np.concatenate([NONE, *(counts for _, counts in sure)])
    return coo_array((counts, (leaf, kinds)), shape=(len(sure), classes)).tocsr()
