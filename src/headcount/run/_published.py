"""Where published measurements are: a run, a release, a folder of them, or an estimate's config."""

from __future__ import annotations

from pathlib import Path

from headcount.config.estimate import load_estimate
from headcount.errors import RunError
from headcount.release import CountsRelease
from headcount.release.publication import MEASUREMENTS
from headcount.release.store import MANIFEST, check_files, read_stored, release_folder
from headcount.schema import load_schema
from headcount.topdown.from_measurements import PublishedStart, start_from


def published_start(source: Path) -> tuple[PublishedStart, CountsRelease | None]:
    """Published measurements, and the release beside them if there is one."""
    if source.suffix == ".toml":
        config = load_estimate(source)
        asked, made = config.measurements, config.run.out / "release"
        beside = asked.folder.parent
        if (beside / MANIFEST).is_file() and beside.resolve() != made.resolve():
            check_files(beside)  # a release: its files are as they were written
        schema = None if asked.schema is None else load_schema(asked.schema)
        start = start_from(asked.folder, config.mechanism, schema=schema, levels=asked.levels)
        return start, _release(made, start)
    folder = source
    if (source / MANIFEST).is_file() or (source / "release" / MANIFEST).is_file():
        folder = release_folder(source) / MEASUREMENTS
        if not folder.is_dir():
            raise RunError(
                f"{folder.parent}: found a release without measurements, expected one of topdown "
                f"made with publish = [{MEASUREMENTS!r}], or an estimate's config (.toml)"
            )
    if not folder.is_dir():
        raise RunError(
            f"{source}: found no folder, expected a run, a release, measurements, or an estimate's "
            f"config (.toml)"
        )
    start = start_from(folder)
    return start, _release(folder.parent, start)


def _release(folder: Path, start: PublishedStart) -> CountsRelease | None:
    """The release in a folder, checked; None where there is none.

    It must be made from these measurements, or published with them: then they are in its folder,
    and its manifest has them.
    """
    if not (folder / MANIFEST).is_file():
        return None
    found, receipt, files = read_stored(folder)
    measured = start.measurements
    made_from = receipt.get("made_from", {}).get("measurements")
    inside = measured.folder.resolve() == (folder / MEASUREMENTS).resolve()
    beside = inside and any(name.startswith(f"{MEASUREMENTS}/") for name in files)
    if made_from != measured.digest and (made_from is not None or not beside):
        said = "without them" if made_from is None else f"from those with digest {made_from}"
        raise RunError(
            f"{folder}: found a release that was made {said}, expected one of the measurements in "
            f"{measured.folder}, or measurements in a folder apart from it"
        )
    return found if isinstance(found, CountsRelease) else None
