"""What a study keeps between calls: named by all that it depends on, and written whole."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import polars as pl

from headcount._version import __version__
from headcount.errors import InputError
from headcount.files import write_bytes_atomic
from headcount.population.tables import read_parquet

Frames = dict[str, pl.DataFrame]
_log = logging.getLogger(__name__)


@cache
def code_digest(parts: tuple[str, ...]) -> str:
    """A digest of the version and the source of some folders and files of the package.

    A result made by other code is not taken for one of this code, released or not.
    """
    home = Path(__file__).parents[1]
    found = sha256(__version__.encode())
    for part in parts:
        place = home / part
        files = [place] if place.is_file() else [*place.rglob("*.py"), *place.rglob("*.toml")]
        for file in sorted(files):
            found.update(str(file.relative_to(home)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def kept_frames(
    make: Callable[[], Frames], *, names: Sequence[str], about: str, folder: Path | None
) -> Frames:
    """Read some frames from a folder, or make and keep them there.

    where
        names    the frames that ``make`` returns
        about    all that they depend on, in words: the name of their files is its digest
        folder   None to keep nothing

    A damaged file is named in a warning and made again: it is no more than a saving of time.
    """
    if folder is None:
        return make()
    key = sha256(about.encode()).hexdigest()[:24]
    paths = {name: folder / f"{key}-{name}.parquet" for name in names}
    if (kept := _read(paths)) is not None:
        return kept
    made = make()
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        content = io.BytesIO()
        made[name].write_parquet(content)
        write_bytes_atomic(path, content.getvalue())
    return made


def _read(paths: dict[str, Path]) -> Frames | None:
    if not all(path.is_file() for path in paths.values()):
        return None
    try:
        return {name: read_parquet(path) for name, path in paths.items()}
    except InputError as error:
        _log.warning(
            "%s: found a damaged file (%s), expected a piece that this study kept; it is made "
            "again",
            next(iter(paths.values())).parent,
            error,
        )
        return None
