"""The files of published measurements: found in their folders, opened, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from headcount.errors import InputError, one_of
from headcount.files import from_json
from headcount.release.layout import stem_of
from headcount.topdown.measurements.form import ABOUT, ANSWERS, CONSTRAINTS, plain

if TYPE_CHECKING:
    import pyarrow.parquet as pq

ENDING = ".parquet"


def level_folders(folder: Path) -> dict[str, Path]:
    """The folders of levels, each by its name without the ending."""
    if not folder.is_dir():
        raise InputError(
            str(folder), found="no such folder", expected="a folder of published measurements"
        )
    found = {
        path.name.removesuffix(ENDING): path
        for path in sorted(folder.iterdir())
        if path.is_dir()
        and path.name.endswith(ENDING)
        and any((path / table).is_dir() for table in (ANSWERS, CONSTRAINTS))
    }
    if not found:
        raise InputError(
            str(folder),
            found="no folder of a level",
            expected=f"folders LEVEL{ENDING} with {ANSWERS} and {CONSTRAINTS} in them",
        )
    return found


def folder_of(level: str, folders: dict[str, Path], *, source: Path) -> Path:
    """The folder of a level, in any spelling; a level that is missing is refused."""
    names = (stem_of(level), *(name for name in folders if plain(name) == plain(level)))
    for name in names:
        if name in folders:
            return folders[name]
    raise InputError(
        str(source),
        place=f"level {level!r}",
        found=f"no folder for it among {one_of(folders)}",
        expected=f"{stem_of(level)}{ENDING}; or levels = [...] with the upper levels alone",
    )


def table_files(level: Path, table: str) -> tuple[Path, ...]:
    """The parts of a table, in folders of partitions or not, in order."""
    folder = level / table
    return tuple(
        path
        for path in sorted(folder.rglob(f"*{ENDING}"))
        if path.is_file() and not path.name.startswith((".", "_"))
    )


@contextmanager
def opened(path: Path) -> Iterator[pq.ParquetFile]:
    """A Parquet file."""
    import pyarrow.parquet as pq  # which loads file systems of clouds: not for every run

    with sound(path), pq.ParquetFile(path) as file:
        yield file


@contextmanager
def sound(path: Path) -> Iterator[None]:
    """Refuse a file that is cut off or damaged, wherever a reader stumbles over it."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(str(path), found="no such file", expected="a Parquet file") from None
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        raise InputError(
            str(path),
            found=f"a file that is cut off or damaged ({error})",
            expected="a whole Parquet file",
        ) from None


def is_text(kind: pa.DataType) -> bool:
    """Whether a column can hold codes and names: text, whole numbers, or a dictionary of these."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    of_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(fits(kind) for fits in (*of_text, pa.types.is_integer))


def _is_numbers(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    return _is_number(kind.value_type) or bool(pa.types.is_null(kind.value_type))


def _is_number(kind: pa.DataType) -> bool:
    of_numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(fits(kind) for fits in of_numbers)


FORMS: Mapping[str, tuple[str, Callable[[pa.DataType], bool]]] = {
    **dict.fromkeys(("geocode", "query_name", "sign"), ("text", is_text)),
    **dict.fromkeys(("query_shape", "value"), ("lists of numbers", _is_numbers)),
    "variance": ("numbers", _is_number),
}
"""What columns hold."""


def refuse_other_columns(file: pq.ParquetFile, path: Path, columns: Sequence[str]) -> None:
    """Refuse a column that is not there, or holds something else."""
    names = file.schema_arrow.names
    for column in columns:
        if column not in names:
            raise InputError(
                str(path),
                place=f"column {column!r}",
                found=f"columns {names[:12]}",
                expected="a column of that name",
            )
        what, right = FORMS.get(column, ("", lambda kind: True))
        if not right(kind := file.schema_arrow.field(column).type):
            raise InputError(
                str(path), place=f"column {column!r}", found=f"values of type {kind}", expected=what
            )


def rows_of(file: pq.ParquetFile, path: Path, group: int, columns: Sequence[str]) -> pa.Table:
    """Some columns of a row group."""
    refuse_other_columns(file, path, columns)
    table = file.read_row_group(group, columns=list(columns))
    if table.num_rows != (said := file.metadata.row_group(group).num_rows):
        raise InputError(
            str(path),
            place=f"row group {group}",
            found=f"a file that is cut off or damaged: {table.num_rows:,} rows",
            expected=f"{said:,}, as the file says",
        )
    return table


@dataclass(frozen=True)
class Described:
    """What a file of measurements says of itself; nothing in files that others made."""

    said: dict[str, Any]

    @classmethod
    def by(cls, path: Path) -> Described:
        """What a file says."""
        with opened(path) as file:
            text = (file.metadata.metadata or {}).get(ABOUT)
        if text is None:
            return cls({})
        try:
            said = from_json(text)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise InputError(
                str(path), place="metadata", found="no JSON", expected="what headcount writes there"
            )
        return cls(said)

    @property
    def run(self) -> str:
        """A mark that all files of one run have in common, and no other."""
        return str(self.said.get("run", ""))


def refuse_two_runs(files: Sequence[Path]) -> None:
    """Refuse files of which some say that they are of another run than the first."""
    runs = {path: Described.by(path).run for path in files}
    first = next(iter(files), None)
    for path, run in runs.items():
        if first is not None and run != runs[first]:
            raise InputError(
                str(path),
                found=f"measurements of another run than those of {first}",
                expected="the files of one run: each run has noise of its own",
            )
