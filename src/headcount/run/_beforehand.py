"""Dry run before any loss: a release of nobody, in a few of the places, made and read again.

What can fail for a reason that is known beforehand (names, levels, settings, formats, what is
published) fails here, by the same steps that make the release. Nothing of the data has a part but
the lists that a release shows, and nothing is drawn.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.config.load import OutputSettings
from headcount.domain import Domain
from headcount.engines import handed_folder
from headcount.errors import ConfigError, InputError, RunError
from headcount.evaluation.suppressed import write_account
from headcount.files import ROWS_AT_ONCE
from headcount.geography import Geography
from headcount.mechanisms import (
    Chain,
    ChainDesign,
    Context,
    PlannedMeasurement,
    Tabulated,
    losses_of,
    protect,
    total_loss,
)
from headcount.noise import SAMPLER_VERSION, KeyedNoise, KeyKind, Law, Noise, Stream
from headcount.noise.keyed import served_by
from headcount.noise.source import DrawPositions
from headcount.population import Population
from headcount.privacy import DEFAULT_UNIT, Guarantee, Ledger, UnitOfPrivacy
from headcount.processes import gib, memory_limit
from headcount.release import CountsRelease, Release, TablesRelease
from headcount.release.directory import RunDirectory, RunFacts, refuse_open, release_around
from headcount.release.layout import Dense, FileLayout, dense, units_frame
from headcount.release.publication import MEASUREMENTS, Publication
from headcount.release.store import (
    geographies_to_json,
    guarantee_to_json,
    read_release,
    versions,
    write_release,
)
from headcount.run.how_far_off import HowFarOff
from headcount.schema import Schema
from headcount.storage import storage_at
from headcount.topdown.measurements import read_measurements


def check_output(run: OutputSettings) -> None:
    """Refuse a run or a workspace in a place where it could be published, or cannot be."""
    _refuse_in_release("run.out", run.out)
    _check_workspace(run)


def check_key_file(file: Path, out: Path) -> None:
    """Record keys must outlive the run, and stay secret."""
    if file.resolve().is_relative_to(out.resolve()):
        raise ConfigError(
            "config",
            place="mechanism.keys",
            found=f"{file}, inside the run {out}",
            expected="a file outside it: record keys are kept for later releases",
        )
    _refuse_in_release("mechanism.keys", file)


def _check_workspace(run: OutputSettings) -> None:
    """Refuse a workspace that cannot be used, or that is not apart from the run."""
    if run.workspace is None:
        return
    workspace = storage_at(run.workspace)
    folder, out = workspace.folder.resolve(), run.out.resolve()
    if folder.is_relative_to(out) or out.is_relative_to(folder):
        how = "the same as" if folder == out else "in" if folder.is_relative_to(out) else "above"
        raise ConfigError(
            "config",
            place="run.workspace",
            found=f"{folder}, {how} the run's directory {out}",
            expected="a folder apart from it: true counts are never beside a release",
        )
    _refuse_in_release("run.workspace", folder)
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder}: found a file, expected a folder for the run's workspace")
    refuse_open(workspace.folder)
    workspace.check()


def _refuse_in_release(place: str, path: Path) -> None:
    if (release := release_around(path)) is not None:
        raise ConfigError(
            "config",
            place=place,
            found=f"{path}, in the release {release}",
            expected="a place outside it: whoever publishes the release would publish this too",
        )


def make_release(
    data: Tabulated,
    design: ChainDesign,
    noise: Noise,
    *,
    folder: Path,
    curator: Path,
    context: Context,
    publications: Mapping[str, Publication],
    layout: FileLayout,
    receipt: Callable[[Release], Mapping[str, Any]],
) -> Release:
    """Protect people, and write all that is published of them.

    where
        design    of the mechanism on the domain of these people
        folder    of the release
        curator   for the curator's account, which is never published
        receipt   what is said of a release
    """
    mechanism = design.chain
    release = protect(data, mechanism, noise, context=context, design=design)
    more = [
        path
        for kind, publication in publications.items()
        # After other steps what is exact is so of the records that these made, not of the data.
        for path in (publication.knowing(data.counts) if mechanism.single else publication).write(
            release, folder / kind, quarters=data.counts.quarters, progress=context.progress
        )
    ]
    if isinstance(release, TablesRelease):
        write_account(
            release,
            data.population,
            curator,
            protected=lambda: design.changed(
                data, noise, run=0, context=replace(context, curator=None)
            ),
        )
    write_release(
        release,
        folder,
        receipt=receipt(release),
        more=more,
        layout=layout,
        progress=context.progress,
    )
    return release


COST = {"table": 2e-8, "slow": 3e-3}
"""Seconds for one draw, as measured on one core of an ordinary machine."""
DAY = 86_400
MOST_SECONDS = 7 * DAY
"""Nobody waits for more, and a run that is given up has spent its loss."""


def refuse_too_large(design: ChainDesign, *, out: Path, layout: FileLayout) -> None:
    """Refuse tables beyond this machine's memory, and files beyond its disk."""
    name, free = design.chain.name, shutil.disk_usage(_existing(out)).free
    if (text := layout.least_bytes(design.domain)) > free:
        raise ConfigError(
            "run",
            place="format",
            found=f"text files that take {gib(text)} or more",
            expected=f"at most the {gib(free)} that are free beside {out}; or Parquet alone",
        )
    tables = design.table_bytes
    if tables > (most := memory_limit()):
        raise ConfigError(
            name,
            place="memory",
            found=f"tables that need up to {gib(tables)} at once",
            expected=f"at most the {gib(most)} of this machine; fewer cells or units, or another "
            f"mechanism (tables of topdown are sparse)",
        )
    pooling = design.last.pooling
    if pooling is not None and pooling.bytes > free:
        raise ConfigError(
            name,
            place="pool",
            found=f"{gib(pooling.bytes)} of pooled answers ({pooling.words})",
            expected=f"at most the {gib(free)} that are free beside {out}; or pool_from a higher "
            "level",
        )
    if (seconds := draw_seconds(design.plan)) > MOST_SECONDS:
        raise ConfigError(
            name,
            place="noise",
            found=f"draws that take about {seconds / DAY:,.0f} days (laws of a very large scale "
            "are drawn one by one)",
            expected=f"at most {MOST_SECONDS // DAY} days: fewer draws, or a larger loss",
        )


def draw_seconds(plan: Sequence[PlannedMeasurement]) -> float:
    """Roughly how long the draws of a plan take on one core."""
    return sum(one.entries * one.draws * COST[served_by(one.law)] for one in plan)


def _existing(path: Path) -> Path:
    return next(one for one in (path, *path.absolute().parents) if one.exists())


FEW = 12
"""Leaves that are all rehearsed; of more, some that stand for the others."""
ODD = r"^$|^\s|\s$|[^0-9A-Za-z]"
"""Codes that a format may not take as they are."""


@dataclass(frozen=True)
class NoNoise:
    """Noise that is 0 everywhere: a rehearsal draws nothing."""

    key_kind: KeyKind
    backend = KeyedNoise.backend

    def draw(self, stream: Stream, law: Law, *, draws: range) -> Ints:
        """Zeros."""
        return np.zeros((len(draws), stream.size), dtype=np.int64)

    def draw_at(self, stream: Stream, law: Law, *, draw: int, index: DrawPositions) -> Ints:
        """Zeros."""
        return np.zeros(len(index), dtype=np.int64)


def rehearse(
    data: Tabulated,
    mechanism: Chain,
    noise: NoNoise,
    *,
    directory: RunDirectory,
    publications: Mapping[str, Publication],
    layout: FileLayout,
    receipt: Mapping[str, Any],
) -> None:
    """Make the release of nobody, with all that is published besides, and read it again."""
    people = _nobody(data.population)
    with _scratch(directory) as folder:
        place = folder / "release"
        context = Context(
            measurements=place / MEASUREMENTS if MEASUREMENTS in publications else None,
            curator=folder,
        )
        made = make_release(
            Tabulated.of(people),
            mechanism.for_a_trial(of_nobody=True).on(people.domain),
            noise,
            folder=place,
            curator=folder,
            context=context,
            publications=publications,
            layout=layout,
            receipt=lambda release: {
                **receipt,
                "notes": dict(release.notes),
                "negative_counts": release.negative_counts(),
            },
        )
        _refuse_other(made, read_release(place))
        if MEASUREMENTS in publications:
            read_measurements(place / MEASUREMENTS)


def rehearse_counts(
    schema: Schema, geography: Geography, layout: FileLayout, *, guarantee: Guarantee, within: Path
) -> None:
    """Write counts of nobody at every level and read them again: nothing else is published."""
    fewer = geography.of_leaves(_few_leaves(geography))
    tables = {
        level: np.zeros((fewer.size(level), schema.size), dtype=np.int64) for level in fewer.levels
    }
    made = CountsRelease(
        domain=Domain(schema, fewer),
        mechanism="",
        guarantee=guarantee,
        key_kind="none",
        backend="none",
        tables=tables,
    )
    receipt = {"mechanism": "", "guarantee": guarantee_to_json(guarantee), "notes": {}}
    receipt |= {"key_kind": "none", "noise_backend": "none"}
    write_release(made, within, receipt=receipt, layout=layout)
    _refuse_other(made, read_release(within))


@contextmanager
def _scratch(directory: RunDirectory) -> Iterator[Path]:
    """A folder of the run's inner half; nothing of it stays, not even a folder that is new."""
    internal = directory.internal
    new = [one for one in (internal, *internal.absolute().parents) if not one.exists()]
    try:
        with handed_folder(internal) as folder:
            yield folder
    finally:
        for one in new:
            with suppress(OSError):
                one.rmdir()


def _refuse_other(made: Release, read: Release) -> None:
    """Refuse a release that is not read as it was made."""
    found, same = _counts_in(read), _counts_in(made)
    # The code of the whole is not in every table.
    places = zip(read.geography.units[1:], made.geography.units[1:], strict=True)
    alike = found.keys() == same.keys() and all(np.array_equal(a, b) for a, b in places)
    if not alike or not all(np.array_equal(found[name], same[name]) for name in same):
        raise InputError(
            "release",
            place="a rehearsal of it without people",
            found="other places or tables when its files were read again",
            expected="the same: names of levels, attributes and places that the format can hold",
        )


def _counts_in(release: Release) -> dict[tuple[str, str], Dense]:
    """All counts that files have: of impossible cells they have none."""
    if isinstance(release, CountsRelease):
        there = release.schema.possible
        return {("", level): dense(one)[:, there] for level, one in release.tables.items()}
    return {(one.name, one.level): one.value for one in release.as_tables().published}


def _nobody(population: Population) -> Population:
    """Nobody, in a few of the places: the same schema and levels, and all that is empty."""
    geography = population.geography
    leaves = _few_leaves(geography)
    fewer, none = geography.of_leaves(leaves), np.zeros(0, dtype=np.int32)
    quarters, households = population.quarters, population.households
    if quarters is not None:
        occupied = np.zeros((len(leaves), quarters.occupied.shape[1]), dtype=np.int64)
        vacant = np.zeros(len(leaves), dtype=np.int64)
        quarters = replace(quarters, geography=fewer, occupied=occupied, vacant=vacant)
    keys = None if population.record_keys is None else population.record_keys.of(slice(0))
    if households is not None:
        households = replace(
            households,
            geography=fewer,
            block=none,
            kind=none.astype(np.int8),
            first=np.zeros(1, dtype=np.int64),
            persons={name: codes[:0] for name, codes in households.persons.items()},
            dwellings={name: codes[:0] for name, codes in households.dwellings.items()},
            areas=tuple(replace(one, of_leaf=one.of_leaf[leaves]) for one in households.areas),
            record_keys=keys,
        )
    return replace(
        population,
        domain=replace(population.domain, geography=fewer),
        unit=none,
        cell=none,
        count=None if population.count is None else np.zeros(0, dtype=np.int64),
        quarters=quarters,
        households=households,
        record_keys=keys,
    )


def _few_leaves(geography: Geography) -> Ints:
    """Leaves that stand for all: with them a level has as many units as that above only if it has
    in the whole, and sisters and only children if it has them; and some of the codes are odd.
    """
    trees = [geography] if geography.spine is None else [geography, geography.spine]
    found: list[Ints] = []
    for tree in trees:
        some = np.unique(np.concatenate([*_by_shape(tree), *_by_code(tree)]))
        found.append(some if tree is geography else geography.along_spine[some])
    if geography.size(geography.leaf) <= FEW:
        return np.arange(geography.size(geography.leaf))
    return np.unique(np.concatenate(found))


def _by_shape(geography: Geography) -> Iterator[Ints]:
    """Of each level a unit without sisters, and two sisters, each by its first leaf."""
    for depth in range(1, len(geography.levels)):
        parent = geography.parents[depth]
        children = np.bincount(parent)[parent]
        alone, sister = np.flatnonzero(children == 1)[:1], np.flatnonzero(children > 1)[:2]
        yield _first_leaf(geography, depth, np.concatenate([alone, sister]))
    yield np.array([0, geography.size(geography.leaf) - 1])


def _by_code(geography: Geography) -> Iterator[Ints]:
    """Of each level some units with odd codes; all are looked at, as tables have them."""
    for depth, level in enumerate(geography.levels):
        found, size = np.zeros(0, dtype=np.int64), geography.size(level)
        for start in range(0, size, ROWS_AT_ONCE):
            some = range(start, min(start + ROWS_AT_ONCE, size))
            codes = units_frame(geography, level, some)[level]
            if len(codes) != len(some):
                raise InputError(
                    "release",
                    place=f"level {level!r}",
                    found=f"{len(codes)} rows",
                    expected=f"one for each of {len(some)} units",
                )
            odd = (
                pl.DataFrame({"code": codes})
                .with_row_index()
                .filter(pl.col("code").str.contains(ODD))["index"]
                .to_numpy()
            )
            found = np.concatenate([found, start + odd[:4]])[:4]
        yield _first_leaf(geography, depth, found)


def _first_leaf(geography: Geography, depth: int, units: Ints) -> Ints:
    """The first leaf below each of some units."""
    for level in geography.levels[depth:-1]:
        units = geography.children_start(level)[units]
    return units


def draft_receipt(
    design: ChainDesign,
    guarantee: Guarantee,
    *,
    key_kind: str,
    dataset: str,
    config_digest: str,
    far: HowFarOff,
    plugins: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything about the making that may be published and does not depend on a draw."""
    mechanism, plan, more = design.chain, design.plan, dict(design.receipt)
    losses, drawn = guarantee.losses, mechanism.draws_noise
    unit = losses[0].unit if losses else DEFAULT_UNIT
    recorded = "no ledger was named: the losses of this dataset's releases are not added up"
    return {
        "made_by": "headcount",
        "mechanism": design.public_text,
        **({} if mechanism.single else {"steps": _steps(design)}),
        **({"settings": more["settings"]} if "settings" in more else {}),
        "guarantee": guarantee_to_json(guarantee),
        "geography": geographies_to_json(design.domain.geography, design.last.tree),
        "measurements": _measurements(plan, unit),
        **({"certificate": more["certificate"]} if "certificate" in more else {}),
        "how_far_off": far.to_json(),
        "key_kind": key_kind if drawn else "none",
        "noise_backend": KeyedNoise.backend if drawn else "none",
        "sampler_version": SAMPLER_VERSION,
        "noise_served_by": _served(plan),
        "ledger": f"dataset {dataset!r}" if dataset else recorded,
        # Whoever guesses settings could test the guess against a digest without a key.
        "config_digest": None if design.last.secret_settings else config_digest,
        **({"plugins": list(plugins)} if plugins else {}),
        "versions": versions(),
    }


def _steps(design: ChainDesign) -> list[dict[str, Any]]:
    """The chain step by step: for each that changes records what it makes of one step."""
    mechanism = design.chain
    before = [
        {
            "step": repr(step),
            "changes": "records",
            "stability": {str(unit): k for unit, k in one.stability.items()}
            or f"none: {one.no_bound}",
        }
        for step, one in zip(mechanism.steps, design.steps, strict=True)
    ]
    if mechanism.parts == mechanism.steps:
        return before
    return [*before, {"step": design.last.public_text or repr(mechanism.last), "changes": "tables"}]


def check_receipt(draft: Mapping[str, Any]) -> None:
    """Make sure that the receipt can be written; what cannot raises here, before any loss."""
    json.dumps(draft, ensure_ascii=False, allow_nan=False).encode()


def finished_receipt(
    draft: Mapping[str, Any], facts: RunFacts, release: Release, ledger: Ledger | None
) -> dict[str, Any]:
    """The receipt with what the run itself adds.

    The digest of the data is bound to the run: two receipts do not tell whether data changed.
    """
    digest = None
    if ledger is not None:
        digest = ledger.public_digest(facts.data_digest, run_id=facts.run_id)
    return {
        **draft,
        "run_id": facts.run_id,
        "data_digest": digest,
        "notes": dict(release.notes),
        "negative_counts": release.negative_counts(),
    }


def _served(plan: Sequence[PlannedMeasurement]) -> dict[str, str]:
    return {f"{one.level}/{one.query}": served_by(one.law) for one in plan}


def _measurements(plan: Sequence[PlannedMeasurement], unit: UnitOfPrivacy) -> list[dict[str, Any]]:
    """The allocation and what it costs, in exact fractions as text; shares under ``unit``."""
    whole, parts = total_loss(plan, unit), losses_of(plan, unit)
    told = []
    for one, part in zip(plan, parts, strict=True):
        # After a step without a bound no unit has a loss about the people.
        costs = {which: one.loss(which) for which in one.units}
        currency = next((loss.currency for loss in costs.values() if loss), "")
        told.append(
            {
                "level": one.level,
                "query": one.query,
                "share": str(part.amount / whole.amount) if part and whole else "0",
                "counts": 1 if one.distance else one.entries,
                "draws": one.draws,
                "noise": one.law.name,
                **one.law.stated,
                "variance": one.law.variance,
                **{
                    f"{currency} {which}": str(loss.amount) if loss else "0"
                    for which, loss in costs.items()
                },
            }
        )
    return told
