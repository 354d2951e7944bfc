"""The composition root of ``headcount estimate``: published measurements become a release.

There is no population, no key and no ledger here: what is read has been published, and whatever is
made of it alone costs nothing more.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headcount.config.estimate import EstimateConfig, load_estimate
from headcount.domain import Domain
from headcount.engines import EngineName, handed_folder
from headcount.errors import HeadcountError
from headcount.files import write_text_atomic
from headcount.mechanisms import Context
from headcount.processes import Progress, silent
from headcount.release import CountsRelease
from headcount.release.directory import RunDirectory, RunFacts
from headcount.release.store import (
    MANIFEST,
    check_files,
    geographies_to_json,
    guarantee_to_json,
    versions,
    write_release,
)
from headcount.run._beforehand import check_output, rehearse_counts
from headcount.run.protect import engine_named
from headcount.schema import load_schema
from headcount.storage import Storage, storage_at
from headcount.topdown.from_measurements import (
    PublishedStart,
    estimate_from,
    start_from,
)

log = logging.getLogger(__name__)

NOTHING_SPENT = "nothing was spent: the release is made from what had been published before"


def estimate_run(
    config_file: Path, *, engine: EngineName | None = None, progress: Progress = silent
) -> Path:
    """Run ``estimate`` for a config file; return the run's directory.

    Files are looked through before anything is estimated, and a run that is refused leaves nothing
    behind. The same command resumes an unfinished run. ``engine`` comes before that of the config.
    """
    config = load_estimate(config_file)
    if engine is not None:
        config = replace(config, run=replace(config.run, engine=engine))
    directory, digest = RunDirectory(config.run.out), config.digest()
    directory.refuse_other(config_digest=digest)
    check_output(config.run)
    new = not directory.path.exists()
    try:
        with directory.held():
            directory.refuse_other(config_digest=digest)  # another process may have been here
            if not directory.is_complete:
                _make(directory, config, digest, progress)
                directory.finish()
                return directory.path
            directory.finish()
    except HeadcountError:
        if new and directory.facts() is None:
            shutil.rmtree(directory.path)
        raise
    check_files(directory.release)
    log.info("%s: the release is complete; nothing was estimated again", directory.path)
    return directory.path


def check_estimate(config_file: Path) -> PublishedStart:
    """All that ``estimate`` checks before it estimates, without writing anything."""
    config = load_estimate(config_file)
    RunDirectory(config.run.out).refuse_other(config_digest=config.digest())
    check_output(config.run)
    with TemporaryDirectory() as folder:
        return _start(config, storage_at(Path(folder)))


def _make(directory: RunDirectory, config: EstimateConfig, digest: str, progress: Progress) -> None:
    """Read and check, bind, estimate, write: in this order."""
    with handed_folder(directory.internal) as folder:  # which all processes that do work can read
        start = _start(config, storage_at(folder))
        facts = directory.begin_without_key(
            config_digest=digest, data_digest=start.measurements.digest
        )
        write_text_atomic(directory.internal / "config.json", config.to_json())
        context = Context(
            engine=engine_named(config.run.engine, directory.internal),
            progress=progress,
            workspace=directory.workspace(config.run.workspace, facts.run_id),
        )
        release = estimate_from(start, context=context)
    write_release(
        release,
        directory.release,
        receipt=_receipt(config, start, facts, release),
        layout=config.run.layout,
        progress=progress,
    )


def _start(config: EstimateConfig, place: Storage) -> PublishedStart:
    """Published measurements, read and checked."""
    asked = config.measurements
    if (asked.folder.parent / MANIFEST).is_file():  # a release: its files are as they were written
        check_files(asked.folder.parent)
    start = start_from(
        asked.folder,
        config.mechanism,
        schema=None if asked.schema is None else load_schema(asked.schema),
        levels=asked.levels,
        workspace=place,
    )
    config.run.layout.check(Domain(start.measurements.schema, start.measurements.geography))
    with TemporaryDirectory() as folder:  # of what is published already
        rehearse_counts(
            start.measurements.schema,
            start.measurements.geography,
            config.run.layout,
            guarantee=start.guarantee,
            within=Path(folder),
        )
    return start


def _receipt(
    config: EstimateConfig, start: PublishedStart, facts: RunFacts, release: CountsRelease
) -> dict[str, Any]:
    """How the release was made: from which files, and that nothing was spent."""
    measured = [
        {
            "level": level,
            "query": query,
            "noise": "none" if noise.law is None else noise.law.name,
            "variance": 0.0 if noise.law is None else noise.law.variance,
        }
        for (level, query), noise in start.answers.planned.items()
    ]
    return {
        "made_by": "headcount",
        "mechanism": release.mechanism,
        "settings": start.mechanism.to_json(),
        "made_from": {"measurements": start.measurements.digest},
        "guarantee": guarantee_to_json(release.guarantee),
        "geography": geographies_to_json(start.measurements.geography, start.measurements.tree),
        "measurements": measured,
        "key_kind": release.key_kind,
        "noise_backend": release.backend,
        "ledger": NOTHING_SPENT,
        "config_digest": config.digest(),
        "versions": versions(),
        "run_id": facts.run_id,
        "data_digest": None,
        "notes": dict(release.notes),
        "negative_counts": release.negative_counts(),
    }
