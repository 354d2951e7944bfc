"""Files of published measurements: their form, which is that of 2020, and the places they tell of.

A folder for each level (``LEVEL.parquet``) has two tables, each in parts: ``DPQuery``, a row for
each unit and measured query, and ``Constraint``, a row for each unit and query whose answers are
exact or bounded. Files made here say more about themselves (``description``), and have the tree of
units and the places that are published in files of their own. In files of the Bureau the units of a
level are those of its constraints. A unit's code begins with that of its parent; a block's code on
the optimised spine ends in its 16 digits of tabulation: state, county, tract, block group, block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints32
from headcount.errors import InputError, one_of
from headcount.files import from_json
from headcount.geography import Geography
from headcount.geography.geography import CodeColumns, geography_of
from headcount.release.layout import UNITS, stem_of
from headcount.release.store import geography_of_file
from headcount.schema import Recode
from headcount.tabulate import CELLS, Query

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ENDING = ".parquet"
ANSWERS, CONSTRAINTS = "DPQuery", "Constraint"
"""The two tables of a level, by the names of their folders."""

TOGETHER = "Together"
"""A third table, where the measured tree has published units in parts: their exact totals."""

SPINE = "spine"
"""The file of the measured tree, where that is not the published one."""

WITHOUT_ROWS = "without_rows"
"""Levels that are neither measured nor bounded, as the file of places lists them."""

MEASURED, KEPT = "_dpq", "_con"
"""How the name of a measured query, and of a constraint, ends."""

EXACT, LEAST, MOST = "=", ">=", "<="
"""The signs of constraints."""

DETAILED = "detailed"
"""What the Bureau calls the query of every cell."""

NURSING_MINORS = "nurse_nva_0"
"""A constraint of the Bureau's that is a structural zero of the schema."""

ABOUT = b"headcount"
"""The key of a file's metadata under which it describes itself."""

SAID = ("levels", "schema", "mechanism", "guarantee")
"""What the file of places says of a run."""

TABULATION = {"state": 2, "county": 5, "tract": 11, "blockgroup": 12, "block": 16}
"""Where the codes of each level end in the 16 digits of a block."""


def plain(name: str) -> str:
    """A name as other spellings have it too: Block_Group, block group."""
    return "".join(letter for letter in name.casefold() if letter not in "_ ")


class QueryNames:
    """Queries by the names that files give them."""

    def __init__(self, queries: Iterable[Query]) -> None:
        self.queries: Mapping[str, Query] = {one.name: one for one in queries}
        self._plain: dict[str, str] = {}
        for one in self.queries.values():
            axes = (axis.name if isinstance(axis, Recode) else axis for axis in one.by)
            for name in (one.name, "*".join(axes) or one.name):
                self._plain.setdefault(plain(name), one.name)
        if CELLS in self.queries:
            self._plain.setdefault(DETAILED, CELLS)

    def measured(self, text: str) -> str | None:
        """The query that a row of answers is about."""
        return self._find(text.removesuffix(MEASURED)) if text.endswith(MEASURED) else None

    def kept(self, text: str) -> str | None:
        """The query that a constraint is about: ``hhgq_con``, ``hhgq_total_lb_con``."""
        if not text.endswith(KEPT):
            return None
        name = text.removesuffix(KEPT)
        shorter = name.removesuffix("_lb").removesuffix("_ub")
        tried = (name, shorter, shorter.removesuffix("_total"))
        return next((found for one in tried if (found := self._find(one))), None)

    def _find(self, name: str) -> str | None:
        return name if name in self.queries else self._plain.get(plain(name))


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
    from pyarrow import ArrowException

    try:
        yield
    except FileNotFoundError:
        raise InputError(str(path), found="no such file", expected="a Parquet file") from None
    except (ArrowException, pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        raise InputError(
            str(path),
            found=f"a file that is cut off or damaged ({error})",
            expected="a whole Parquet file",
        ) from None


def is_text(kind: pa.DataType) -> bool:
    """Whether a column can hold codes and names: text, whole numbers, or a dictionary of these."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    of_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(fits(kind) for fits in (*of_text, pa.types.is_integer))


def _is_numbers(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    return _is_number(kind.value_type) or bool(pa.types.is_null(kind.value_type))


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

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


def description(path: Path) -> dict[str, Any]:
    """What a file of measurements says of itself; nothing in files that others made."""
    with opened(path) as file:
        text = (file.metadata.metadata or {}).get(ABOUT)
    if text is None:
        return {}
    try:
        said = from_json(text)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise InputError(
            str(path), place="metadata", found="no JSON", expected="what headcount writes there"
        )
    return said


def refuse_two_runs(files: Sequence[Path]) -> None:
    """Refuse files of which some say that they are of another run than the first."""
    runs = {path: str(description(path).get("run", "")) for path in files}
    first = next(iter(files), None)
    for path, run in runs.items():
        if first is not None and run != runs[first]:
            raise InputError(
                str(path),
                found=f"measurements of another run than those of {first}",
                expected="the files of one run: each run has noise of its own",
            )


def described_places(folder: Path) -> tuple[Geography, dict[str, Any]] | None:
    """The places of files that have them beside; None where they do not."""
    path = folder / f"{UNITS}.parquet"
    if not path.is_file():
        return None
    about = description(path)
    missing = [name for name in SAID if name not in about]
    if missing:
        raise InputError(
            str(path),
            place="metadata",
            found=f"nothing about {missing[0]}",
            expected="what headcount writes there (an older version did not: publish anew)",
        )
    published = _read(path, about)
    if (spine := folder / f"{SPINE}.parquet").is_file():
        published = replace(published, spine=_read(spine, description(spine)))
    return published, about


def _read(path: Path, about: Mapping[str, Any]) -> Geography:
    levels = about.get("levels", [])
    with opened(path) as file:
        names = file.schema_arrow.names
        kinds = dict(zip(names, file.schema_arrow.types, strict=True))
    if not levels or any(level not in names for level in levels[1:]):
        raise InputError(
            str(path),
            place="columns",
            found=f"columns {names}",
            expected=f"a column of codes for each level: {', '.join(levels[1:])}",
        )
    for level in levels[1:]:
        if not is_text(kinds[level]):
            raise InputError(
                str(path),
                place=f"column {level!r}",
                found=f"values of type {kinds[level]}",
                expected="codes, as text",
            )
    with sound(path):
        found = geography_of_file(path, levels)
    root = np.array([about.get("root", levels[0])])
    return replace(found, units=(root, *found.units[1:]))


def codes_in(files: Sequence[Path]) -> pl.Series:
    """The units that stand in some files, each once, in order."""
    found: list[pl.Series] = [pl.Series("geocode", [], dtype=pl.String)]
    for path in files:
        with opened(path) as file:
            for group in range(file.num_row_groups):
                column = rows_of(file, path, group, ["geocode"])["geocode"]
                codes = pl.Series("geocode", pl.from_arrow(column)).cast(pl.String)
                found.append(codes.unique())
    return pl.concat(found).unique().sort()


def tree_of_codes(codes: Mapping[str, pl.Series], *, source: Path) -> Geography:
    """The tree of units whose codes begin with their parents'; the first level is the whole."""
    levels = tuple(codes)
    units: list[NDArray[np.str_]] = []
    parents: list[Ints32] = []
    for depth, (level, column) in enumerate(codes.items()):
        own = column.to_numpy().astype(np.str_)
        if depth == 0:
            if len(own) != 1:
                raise InputError(
                    str(source),
                    place=f"level {level!r}",
                    found=f"{len(own)} geounits",
                    expected="one: the whole",
                )
            parent = np.empty(0, dtype=np.int32)
        elif depth == 1:
            parent = np.zeros(len(own), dtype=np.int32)
        else:
            parent = _parents(column, codes[levels[depth - 1]], level, source)
        units.append(own)
        parents.append(parent)
    return Geography(levels, tuple(units), tuple(parents))


def _parents(column: pl.Series, above: pl.Series, level: str, source: Path) -> Ints32:
    """The number of the unit above whose code each code begins with: the longest there is."""
    numbers = pl.DataFrame({"above": above}).with_row_index("parent")
    found = pl.DataFrame({"code": column}).with_columns(parent=pl.lit(None, dtype=pl.UInt32))
    for length in sorted(above.str.len_chars().unique().to_list(), reverse=True):
        cut = pl.DataFrame({"above": column.str.slice(0, length)})
        joined = cut.join(numbers, on="above", how="left", maintain_order="left")["parent"]
        found = found.with_columns(pl.col("parent").fill_null(joined))
    if found["parent"].null_count():
        code = found.filter(pl.col("parent").is_null())["code"][0]
        raise InputError(
            str(source),
            place=f"level {level!r}, geounit {code!r}",
            found="a code that begins with no geounit's of the level above",
            expected="codes that begin with that of their parent",
        )
    return found["parent"].to_numpy().astype(np.int32)


def tabulated(tree: Geography) -> Geography:
    """The published places of a spine's blocks, by their own codes, with the spine.

    A tree whose lowest level is above the blocks has none: its own units are published.
    """
    ends = [TABULATION.get(plain(level)) for level in tree.levels[1:]]
    leaf = pl.Series(tree.units[-1])
    last = TABULATION["block"]
    if None in ends or ends[-1] != last or not (leaf.str.len_chars() > last).all():
        return tree
    own = leaf.str.tail(last)
    if own.n_unique() != len(own) or not own.str.contains(r"^\d+$").all():
        raise InputError(
            "measurements",
            place=f"level {tree.leaf!r}",
            found="codes that do not end in 16 digits of their own",
            expected="the code of each block at its end",
        )
    # The spine's leaves are known by the same codes as the published ones.
    spine = replace(tree, units=(*tree.units[:-1], own.to_numpy().astype(np.str_)))
    named = {level: own.str.slice(0, end) for level, end in zip(tree.levels[1:], ends, strict=True)}
    source = CodeColumns(columns=tree.levels[1:], root=tree.levels[0])
    places = pl.DataFrame({str(k): named[level] for k, level in enumerate(tree.levels[1:])})
    published = geography_of(places.sort(places.columns), source, name="measurements")
    return replace(published, spine=spine)


def without_part(code: str) -> str:
    """A code on the spine without its first character, which says which part of a unit it is."""
    return code[1:]


def in_parts(codes: NDArray[np.str_]) -> Flags:
    """Units whose codes differ from another's in the first character alone: which part it is."""
    whole = np.array([without_part(code) for code in codes.tolist()])
    _, number, times = np.unique(whole, return_inverse=True, return_counts=True)
    return np.asarray((times[number] > 1) & (np.char.str_len(whole) > 0))
