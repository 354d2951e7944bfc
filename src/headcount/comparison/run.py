"""A comparison: cases run and measured on the study frame, and the tables that are made of that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from headcount.comparison.cache import FRAMES, Frames, source_digest
from headcount.comparison.cases import Case, Released, joined, run_cases
from headcount.comparison.measures import Measuring
from headcount.comparison.methods import (
    Domain,
    LeftOut,
    Offered,
    Stated,
    Way,
    promises,
)
from headcount.comparison.settings import Settings
from headcount.comparison.study import Findings, Work
from headcount.comparison.tables import (
    attack_table,
    case_table,
    changes_by_table,
    distances_by_table,
    distribution_by_table,
    errors_by_count,
    errors_by_place,
    largest_errors,
    memo_table,
    shortfalls,
    who_is_hurt,
)
from headcount.errors import HeadcountError, InputError
from headcount.registry import MECHANISMS
from headcount.tabulate import Tabulated
from headcount.tabulate.published import TableCells


@dataclass(frozen=True, kw_only=True, eq=False)
class Runnable:
    """The cases that are run on some data, and those that the data refuse."""

    ways: tuple[Way, ...]
    refused: tuple[LeftOut, ...]


def choose(ways: Sequence[Way], data: Tabulated) -> Runnable:
    """Leave out what cannot be done to these people; the reasons may tell of them."""
    fine, refused = [], []
    for way in ways:
        try:
            way.mechanism.check(way.mechanism.cut(data))
        except HeadcountError as error:
            refused.append(LeftOut(way.name, str(error)))
        else:
            fine.append(way)
    return Runnable(ways=tuple(fine), refused=tuple(refused))


def replicates_of(settings: Settings, domain: Domain) -> int:
    """Runs of each case: as asked for, or as the preset says for so many counts."""
    if settings.replicates is not None:
        return settings.replicates
    preset = settings.what
    return preset.fewer if counts_of(domain) > preset.few_above else preset.replicates


def counts_of(domain: Domain) -> int:
    """Counts of the public domain, all levels together."""
    units = sum(domain.geography.size(level) for level in domain.geography.levels)
    return units * int(domain.schema.possible.sum())


def run(
    data: Tabulated, offer: Offered, domain: Domain, settings: Settings, work: Work
) -> Findings:
    """Run every case that the data allow; the same settings give the same result."""
    if not data.counts.matrix.count_nonzero():
        raise InputError(
            "compare", found="only counts of 0", expected=f"at least one {data.counts.counted.one}"
        )
    chosen, replicates = choose(offer.ways, data), replicates_of(settings, domain)
    promised = promises(chosen.ways, domain)
    measuring = Measuring(
        cells=settings.cell_set,
        preset=settings.what,
        unit=domain.unit,
        audited=audited(chosen.ways, promised, every=settings.what.audit_every),
        tables=changed_tables(chosen.ways, domain),
    )
    cases = [
        Case(
            name=way.name,
            mechanism=way.mechanism,
            runs=range(replicates if way.mechanism.draws_noise else 1),
            columns={"case": way.name},
        )
        for way in chosen.ways
    ]

    engine = work.engine

    def reduce(made: Iterator[Released]) -> Frames:
        return measuring.measured(made, engine)

    found = run_cases(
        cases,
        reduce,
        data=data,
        seed=settings.seed,
        work=work,
        what="Comparing",
        inputs=f"{data.digest.hex()} {measuring!r} {_sources(chosen.ways)} {_tables(measuring)}",
        made_by="headcount.comparison.measures",
        codec=FRAMES,
        join=joined,
    )
    frames = joined(found)
    left_out = [*offer.left_out, *chosen.refused]
    tables = made_tables(frames, chosen.ways, promised, domain, left_out)
    return Findings(
        settings=settings,
        tables=tables,
        confidential=not data.population.public,
        facts={
            "domain": domain,
            "ways": chosen.ways,
            "own": offer.own,
            "left_out": left_out,
            "replicates": replicates,
            "few": settings.replicates is None and replicates == settings.what.fewer,
        },
    )


def changed_tables(ways: Sequence[Way], domain: Domain) -> tuple[tuple[TableCells, str], ...]:
    """The tables whose counts some case changes; one name may not stand for two tables."""
    found: dict[tuple[str, str], TableCells] = {}
    for way in ways:
        for cells, level in way.mechanism.last.changed_tables(domain.schema, domain.geography):
            known = found.setdefault((cells.table.name, level), cells)
            if known.table != cells.table:
                raise InputError(
                    "compare",
                    place=way.name,
                    found=f"another table {cells.table.name!r} than in the cases before it",
                    expected="a name of its own for each table",
                )
    return tuple((cells, level) for (_, level), cells in found.items())


def _tables(measuring: Measuring) -> list[tuple[object, str]]:
    return [(cells.table, level) for cells, level in measuring.tables]


def _sources(ways: Sequence[Way]) -> str:
    """The code of the methods: found by name, so that no import of ours shows it to the cache."""
    found = set()
    for part in (part for way in ways for part in way.mechanism.parts):
        outside = MECHANISMS.outside(part)
        found.add(outside or source_digest(type(part).__module__))
    return " ".join(sorted(found))


def audited(ways: Sequence[Way], promised: Mapping[str, Stated], *, every: bool) -> tuple[str, ...]:
    """The cases that are audited: all with a loss, or of each method the one with the largest.

    A fault of the code shows best where there is least noise.
    """
    losses = {
        way.name: (way.method, epsilon)
        for way in ways
        if (epsilon := promised[way.name].epsilon) is not None
    }
    if every:
        return tuple(losses)
    best: dict[str, tuple[float, str]] = {}
    for name, (method, epsilon) in losses.items():
        best[method] = max(best.get(method, (0.0, "")), (epsilon, name))
    return tuple(name for _, name in best.values())


def made_tables(
    frames: Frames,
    ways: Sequence[Way],
    promised: Mapping[str, Stated],
    domain: Domain,
    left_out: Sequence[LeftOut],
) -> dict[str, pl.DataFrame]:
    """The tables of a comparison, those of the memo first."""
    cases = case_table(ways, promised)
    places = errors_by_place(frames["by_place"], cases)
    short = shortfalls(frames["by_place"], frames["withheld"], cases)
    attacks = attack_table(frames["attacks"], cases)
    hurt = who_is_hurt(places, levels=domain.geography.levels)
    return {
        "memo": memo_table(
            cases,
            places,
            hurt=hurt,
            short=short,
            attacks=attacks,
            epl=frames["epl"],
            audit=frames["audit"],
            levels=domain.geography.levels,
        ),
        "cases": cases,
        "errors": places,
        "errors_by_count": errors_by_count(frames["by_count"], cases),
        "spread": frames["spread"],
        "hurt": hurt,
        "shortfalls": short,
        "table_changes": changes_by_table(frames["table_changes"]),
        "table_distribution": distribution_by_table(frames),
        "table_distances": distances_by_table(frames["table_distances"]),
        "cell_deltas": frames["cell_deltas"].drop("replicate"),
        "epl": frames["epl"],
        "audit": frames["audit"],
        "attacks": attacks,
        "largest": largest_errors(frames["largest"]),
        "left_out": pl.DataFrame(
            [{"case": one.name, "why": one.why} for one in left_out],
            schema={"case": pl.String, "why": pl.String},
        ),
        "not_measured": frames["not_measured"].drop("replicate"),
    }
