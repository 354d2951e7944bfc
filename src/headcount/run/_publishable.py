"""What of a comparison may be published: settings, guarantees, predicted errors, public domain.

Nothing here sees the data or a run of the comparison: a function of the offered cases, the public
domain and the settings, and of finished releases, which are public already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.comparison.answer import public_sentences
from headcount.comparison.methods import ComparedDomain, LeftOut, Offered, Way, promises
from headcount.comparison.run import case_table
from headcount.comparison.settings import Settings
from headcount.comparison.study import Findings
from headcount.errors import RunError
from headcount.privacy import Ledger, SpendState
from headcount.release import CountsRelease, Release, TablesRelease
from headcount.release.directory import RunDirectory
from headcount.release.store import guarantee_from_json, read_receipt, read_release
from headcount.run.how_far_off import how_far_off

PREDICTED = {
    "case": pl.String,
    "level": pl.String,
    "query": pl.String,
    "within": pl.Float64,
}
UNSAID = "left out: they may follow from lists that were read from the data"
UNFIT = "it does not fit the places, the attributes, the kind of file or the machine"
DOMAIN = {"what": pl.String, "name": pl.String, "size": pl.Int64, "which": pl.String}
RELEASES = {
    "run": pl.String,
    "mechanism": pl.String,
    "guarantee": pl.String,
    "table": pl.String,
    "counts": pl.Int64,
    "zero": pl.Int64,
    "negative": pl.Int64,
    "withheld": pl.Int64,
    "people": pl.Float64,
}


def publishable(
    offer: Offered,
    domain: ComparedDomain,
    settings: Settings,
    *,
    releases: Sequence[Path] = (),
    ledger: Path | None = None,
    dataset: str = "",
) -> Findings:
    """Findings that do not depend on the data.

    Errors are predicted for the levels of places and attributes: of lists that were read from the
    data they would tell whether a level has one unit or more. So do settings that name levels, as
    those of a config do that ``init`` wrote.
    """
    known = () if domain.read_off else offer.ways
    predicted = [row for way in known for row in _predicted(way)]
    described = [row for path in releases for row in _described(path, ledger, dataset)]
    cases = case_table(offer.ways, promises(offer.ways, domain), to_publish=True)
    if domain.read_off:
        cases = cases.with_columns(settings=pl.lit(UNSAID))
    far = pl.DataFrame(predicted, schema=PREDICTED)
    said = public_sentences(cases, far, domain.geography.levels, domain.counted)
    return Findings(
        settings=settings,
        tables={
            "cases": cases,
            "predicted": far,
            "domain": pl.DataFrame(list(_domain(domain)), schema=DOMAIN),
            "left_out": pl.DataFrame(
                [{"case": one.name, "why": _why(one, domain)} for one in offer.left_out],
                schema={"case": pl.String, "why": pl.String},
            ),
            "releases": pl.DataFrame(described, schema=RELEASES),
        },
        confidential=False,
        facts={"domain": domain, "ways": offer.ways, "answer": said},
    )


def _why(one: LeftOut, domain: ComparedDomain) -> str:
    """Why a case was left out; the full reason may name or count what was read from the data."""
    return UNFIT if domain.read_off else one.why


def _predicted(way: Way) -> Iterator[dict[str, Any]]:
    """How far off the counts of a case will be, from its noise alone."""
    for one in how_far_off(way.design).rows:
        if one.within is not None and not way.design.steps:
            yield {
                "case": way.name,
                "level": one.level,
                "query": one.counts,
                "within": one.within,
            }


def _domain(domain: ComparedDomain) -> Iterator[dict[str, Any]]:
    """Levels and attributes; nothing of lists that the data told.

    Nor names: a look at the data may have decided which levels and attributes there are, as
    ``init`` makes no level of a single state.
    """
    if domain.read_off:
        return
    for level in domain.geography.levels:
        size = domain.geography.size(level)
        yield {"what": "geographic level", "name": level, "size": size, "which": ""}
    for one in domain.schema.attributes:
        levels = ", ".join(one.levels)
        yield {"what": "attribute", "name": one.name, "size": one.size, "which": levels}


def _described(path: Path, ledger: Path | None, dataset: str) -> Iterator[dict[str, Any]]:
    """Statistics of a finished release: of what was published, and of nothing else."""
    refuse_unknown(path, ledger, dataset)
    folder = RunDirectory(path).release
    release = read_release(folder)
    guarantee = guarantee_from_json(read_receipt(folder)["guarantee"])
    about = {
        "run": path.name,
        "mechanism": release.mechanism,
        "guarantee": "; ".join(map(str, guarantee.losses)) or "none",
    }
    for row in _statistics(release):
        yield {**about, **row}


def refuse_unknown(path: Path, ledger: Path | None, dataset: str) -> None:
    """Refuse a run that is not finished, not on the config's ledger, or seeded."""
    directory = RunDirectory(path)
    facts = directory.facts()
    if facts is None or not directory.is_complete:
        raise RunError(f"{path}: found no finished run, expected one made by headcount protect")
    if ledger is None:
        raise RunError(
            f"{path}: found a config without a ledger, expected one that knows the release (ledger "
            "and dataset under [run])"
        )
    known = {spend.run_id: spend for spend in Ledger.open(ledger).history(dataset)}
    spend = known.get(facts.run_id)
    if spend is None or spend.state is not SpendState.COMPLETE:
        raise RunError(
            f"{path}: found a run that {ledger.name} does not know as complete under {dataset!r}, "
            "expected one of its finished releases"
        )
    if facts.key_kind != "os":
        raise RunError(
            f"{path}: found a seeded run, expected a release: whoever knows the seed can remove "
            "its noise"
        )


def _statistics(release: Release) -> Iterator[dict[str, Any]]:
    if isinstance(release, CountsRelease):
        possible = int(release.schema.possible.sum())
        for level, table in release.tables.items():
            values = np.asarray(table if isinstance(table, np.ndarray) else table.data)
            counts = table.shape[0] * possible
            yield {
                "table": level,
                "counts": counts,
                "zero": counts - int(np.count_nonzero(values)),
                "negative": int((values < 0).sum()),
                "withheld": 0,
                "people": float(values.sum()),
            }
    if isinstance(release, TablesRelease):
        for one in release.published:
            shown = one.value[~one.withheld]
            yield {
                "table": f"{one.name} at {one.level}",
                "counts": one.value.size,
                "zero": int((shown == 0).sum()),
                "negative": int((shown < 0).sum()),
                "withheld": int(one.withheld.sum()),
                "people": None,
            }
