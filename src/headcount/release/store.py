"""A release on disk: its tables, data dictionary and receipt, and a manifest written last.

The receipt says how the release was made, in exact figures, with nothing of the truth in it. Long
tables are read in pieces: rows of counts become sparse counts whose pages are mapped.
"""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import cache, singledispatch
from hashlib import file_digest, sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount._version import __version__
from headcount.arrays import Ints, Ints32
from headcount.domain import CountsOf, Domain
from headcount.errors import RunError
from headcount.files import append, from_json, mapped, scratch_file, write_bytes_atomic
from headcount.geography import Geography
from headcount.privacy import Guarantee
from headcount.privacy.loss import from_record, to_record
from headcount.processes import Progress, silent
from headcount.release.layout import (
    COUNT,
    UNITS,
    FileFormat,
    FileLayout,
    LevelTable,
    published_stem,
    stem_of,
)
from headcount.release.published import (
    FLAG,
    definition_of,
    read_published,
    rules_from_json,
    rules_to_json,
)
from headcount.release.release import CountsRelease, Release, TablesRelease
from headcount.release.sheets import DICTIONARY, Sheet, described, long_levels, sheets_of
from headcount.schema import Attribute, Schema, impossible
from headcount.schema.roles import NO_ROLES, Roles
from headcount.tabulate.counts import sparse_counts
from headcount.typed import from_table, given

if TYPE_CHECKING:
    import pyarrow as pa


def _read_rows(path: Path, level: str, schema: Schema, geography: Geography) -> LevelTable:
    """The sparse table of a Parquet file with a row for each count that is not zero.

    Rows are in the order of units, as they were written; a row group is in memory at a time.
    """
    import pyarrow.parquet as pq

    with (
        pq.ParquetFile(path, read_dictionary=[level, *schema.names]) as file,
        scratch_file() as cells,
        scratch_file() as values,
    ):
        kind = file.schema_arrow.field(COUNT).type.to_pandas_dtype()
        held = np.zeros(geography.size(level), dtype=np.int64)
        places = _Places(geography.units[geography.depth(level)], path)
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, columns=[level, *schema.names, COUNT])
            for batch in rows.to_batches():
                unit = places.of(batch.column(level))
                first, last = (int(unit[0]), int(unit[-1])) if len(unit) else (0, -1)
                held[first : last + 1] += np.bincount(unit - first)
                append(cells, _cell(batch, schema), np.int32)
                append(values, batch.column(COUNT).to_numpy(), kind)
        start = np.concatenate([[0], np.cumsum(held)])
        found = mapped(cells, np.int32), mapped(values, kind)
    return sparse_counts(start, *found, cells=schema.size)


def _cell(batch: pa.RecordBatch, schema: Schema) -> Ints:
    """The number of each row's cell."""
    cell = np.zeros(batch.num_rows, dtype=np.int64)
    for attribute in schema.attributes:
        column = batch.column(attribute.name)
        number = np.array([attribute.index(name) for name in column.dictionary.to_pylist()])
        cell = cell * attribute.size + number[column.indices.to_numpy()]
    return cell


class _Places:
    """Numbers of units by their codes, in files that have them in the order of the tree."""

    def __init__(self, codes: NDArray[np.str_], path: Path) -> None:
        self._codes, self._path, self._from = codes, path, 0

    def of(self, column: pa.DictionaryArray) -> Ints:
        """The number of each row's unit: none is before the last one of the rows before."""
        # A list of codes may have those of other rows too.
        used, which = np.unique(column.indices.to_numpy(), return_inverse=True)
        number: Ints = self._found(column.dictionary.take(used))[which]
        if len(number):
            if number[0] < self._from or (np.diff(number) < 0).any():
                raise RunError(
                    f"{self._path}: found units out of the order of the tree, expected them as "
                    "they were written"
                )
            self._from = int(number[-1])
        return number

    def _found(self, wanted: pa.Array) -> Ints:
        """Look each code up among the next ones, and among more while one is not there."""
        import pyarrow as pa
        import pyarrow.compute as pc

        width = 2 * len(wanted) + 1
        while True:
            last = self._from + width
            near = pa.array(self._codes[self._from : last], pa.string())
            found = pc.index_in(wanted, value_set=near)
            if not found.null_count:
                return np.asarray(found.to_numpy()).astype(np.int64) + self._from
            if last >= len(self._codes):
                missing = wanted.filter(found.is_null())[0].as_py()
                raise RunError(
                    f"{self._path}: found unit {missing!r} where it cannot be, expected units in "
                    "the order of the tree"
                )
            width *= 4


def _geography_in_order(levels: Sequence[str], columns: Iterable[pl.Series]) -> Geography:
    """The geography in the order in which it was written: rows of tables stay where they are.

    ``columns`` has the codes of each level below the first, a code for each leaf. Leaves of one
    unit stand together, so that a unit is a run of equal codes.
    """
    units, parents = [np.array([levels[0]])], [np.empty(0, dtype=np.int32)]
    above: Ints32 | None = None  # the number of each leaf's unit at the level above
    for codes in columns:
        number = codes.rle_id().to_numpy().astype(np.int32)
        first = np.flatnonzero(np.diff(number, prepend=-1))
        units.append(codes.gather(first).to_numpy().astype(np.str_))
        of_first = np.zeros(len(first), dtype=np.int32) if above is None else above[first]
        parents.append(of_first)
        above = number
    return Geography(tuple(levels), tuple(units), tuple(parents))


_MAKERS = ("numpy", "scipy", "numba", "polars", "cryptography")
_SOLVERS = ("piqp", "clarabel", "highspy")
_PACKAGES = (*_MAKERS, *_SOLVERS)


def guarantee_to_json(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee as JSON: exact fractions as strings, and the sentences for people."""
    data = asdict(guarantee)
    data["losses"] = [to_record(loss) for loss in guarantee.losses]
    for name in ("stated_by", "made_from", "method"):  # headcount's own word, from data
        if not data[name]:
            del data[name]
    return {"sentences": list(guarantee.sentences()), **data}


def guarantee_from_json(data: dict[str, Any]) -> Guarantee:
    """The guarantee that ``guarantee_to_json`` wrote."""
    fields = {name: value for name, value in data.items() if name != "sentences"}
    fields["losses"] = tuple(from_record(loss) for loss in data["losses"])
    for name in ("released_exactly", "not_covered"):
        fields[name] = tuple(data[name])
    for name in ("unit_means", "stated_by"):
        fields[name] = tuple(data.get(name, ()))  # not in every receipt
    return Guarantee(**fields)


def geographies_to_json(published: Geography, measured: Geography) -> dict[str, Any]:
    """The places of the tables and, where they are others, those that were measured."""
    along = {} if measured is published else {"measured": measured.description()}
    return {"published": published.description(), **along}


def versions(packages: Sequence[str] = _PACKAGES) -> dict[str, str]:
    """Versions of what made the release."""
    own = {"headcount": __version__, "python": platform.python_version()}
    return own | {package: _version(package) for package in packages}


@cache
def _version(package: str) -> str:
    return metadata.version(package)


MANIFEST = "manifest.json"
RECEIPT = "receipt.json"


def write_release(
    release: Release,
    folder: Path,
    *,
    receipt: Mapping[str, Any],
    more: Sequence[Path] = (),
    layout: FileLayout | None = None,
    progress: Progress = silent,
) -> None:
    """Write a release so that it is whole or visibly unfinished: the manifest comes last.

    ``more`` are files below ``folder`` that are written already and belong to the release.
    """
    folder.mkdir(parents=True, exist_ok=True)
    layout = layout or FileLayout()
    files: list[tuple[str, Sheet | None]] = [
        (name, sheet)
        for sheet in sheets_of(release, layout, progress)
        for name in sheet.write(folder, layout.formats)
    ]
    files += [(path.relative_to(folder).as_posix(), None) for path in more]
    facts = {name: ((folder / name).stat().st_size, _digest(folder / name)) for name, _ in files}
    promises = release.guarantee.sentences()
    package = described(
        files,
        mechanism=release.mechanism,
        promises=promises,
        facts=facts,
        geography=receipt.get("geography", {}),
    )
    _write_json(folder / DICTIONARY, package)
    _write_json(folder / RECEIPT, dict(receipt))
    digests = {name: digest for name, (_, digest) in facts.items()}
    digests |= {name: _digest(folder / name) for name in (DICTIONARY, RECEIPT)}
    of = {} if release.counted is CountsOf.PEOPLE else {"counted": str(release.counted)}
    manifest = {"domain": {**of, **_form(layout), **_domain(release)}, "files": digests}
    _write_json(folder / MANIFEST, {**manifest, "sha256": _content_digest(manifest)})


def _form(layout: FileLayout) -> dict[str, Any]:
    """How the tables are written, where it is not the usual way."""
    return {
        **({} if layout.formats == ("parquet",) else {"formats": list(layout.formats)}),
        **({"tidy": True} if layout.tidy else {}),
        **({"margins": [list(one) for one in layout.margins]} if layout.margins else {}),
    }


def release_folder(source: Path) -> Path:
    """The release below a run directory, or the directory itself."""
    for folder in (source / "release", source):
        if (folder / MANIFEST).is_file():
            return folder
    raise RunError(
        f"{source}: found no release, expected a directory made by headcount protect, or a .toml "
        f"file that lists tables where an attack takes one"
    )


def read_release(folder: Path) -> Release:
    """Read a release back, after checking every file against the manifest."""
    return read_stored(folder).release


class Stored(NamedTuple):
    """What the folder of a finished release has: how it was made, and the digest of each file."""

    release: Release
    receipt: dict[str, Any]
    files: Mapping[str, str]


def read_stored(folder: Path) -> Stored:
    """A release with its receipt, after checking every file against the manifest, once."""
    manifest = check_files(folder)
    receipt = _read_json(folder / RECEIPT)
    form = manifest["domain"]
    if "tables" in form and "rules" not in form:
        raise RunError(
            f"{folder}: found tables with withheld cells and no rules for them, as an older "
            f"version of headcount wrote them, expected a release that states its rules"
        )
    beside = any(form.get(word) for word in ("tables", "long", "tidy"))
    domain = Domain(
        schema=schema_from_json(form),
        geography=_geography(folder, UNITS if beside else stem_of(form["levels"][-1]), form),
        counted=CountsOf(form.get("counted", CountsOf.PEOPLE)),
    )
    read = _read_published if "tables" in form else _read_counts
    release = read(
        folder,
        form,
        domain=domain,
        mechanism=receipt["mechanism"],
        guarantee=guarantee_from_json(receipt["guarantee"]),
        key_kind=receipt["key_kind"],
        backend=receipt["noise_backend"],
        notes=receipt["notes"],
    )
    return Stored(release, receipt, manifest["files"])


def refuse_study(folder: Path) -> None:
    """Refuse the folder of a comparison or of a study: it is scored and seeded, never a release."""
    for path in (folder / MANIFEST, folder / "internal" / MANIFEST):
        if path.is_file() and "study" in _read_json(path):
            raise RunError(
                f"{folder}: found a comparison or a study, which is made with seeded noise and "
                f"can never become a release, expected a run made by headcount protect"
            )


def check_files(folder: Path) -> dict[str, Any]:
    """The manifest of a finished release, after checking that every file is as it was written."""
    refuse_study(folder)
    path = folder / MANIFEST
    if not path.is_file():
        raise RunError(f"{path}: found no manifest, expected a finished release")
    manifest = manifest_in(path.read_bytes(), path)
    for name, digest in manifest["files"].items():
        path = folder / name
        if not path.is_file() or _digest(path) != digest:
            raise RunError(f"{path}: found a missing or changed file, expected sha256 {digest}")
    return manifest


def manifest_in(content: bytes, path: Path) -> dict[str, Any]:
    """A manifest from its bytes: what it describes, and the SHA-256 of every file."""
    manifest = _json_in(content, path)
    if set(manifest) != {"domain", "files", "sha256"}:
        raise RunError(f"{path}: found keys {sorted(manifest)}, expected domain, files and sha256")
    if manifest.pop("sha256") != _content_digest(manifest):
        raise RunError(f"{path}: found a changed manifest, expected it as it was written")
    return manifest


def read_receipt(folder: Path) -> dict[str, Any]:
    """How a finished release was made."""
    check_files(folder)
    return _read_json(folder / RECEIPT)


def _read_table(folder: Path, stem: str, domain: Mapping[str, Any]) -> pl.DataFrame:
    """A table in the first of its formats; codes and levels are text in all of them."""
    kind: FileFormat = domain.get("formats", ["parquet"])[0]
    path = folder / f"{stem}.{kind}"
    if kind == "parquet":
        return pl.read_parquet(path, glob=False)
    names = {*domain["levels"], *(name for name, _ in domain["attributes"]), "unit", "cell", FLAG}
    with path.open(encoding="utf-8", newline="") as file:
        columns = next(csv.reader(file))  # polars leaves quotes doubled in a header
    found = pl.read_csv(path, n_rows=0, infer_schema=False, glob=False).columns
    known = dict(zip(found, columns, strict=True))
    text = {one: pl.String() for one, name in known.items() if name in names}
    frame = pl.read_csv(path, schema_overrides=text, infer_schema_length=None, glob=False)
    return pl.DataFrame(
        [  # a code may be the empty text
            (one.fill_null("") if one.name in text else one).alias(known[one.name]) for one in frame
        ]
    )


def _geography(folder: Path, stem: str, domain: Mapping[str, Any]) -> Geography:
    """The geography of a table that has the codes of each leaf, a column of them at a time."""
    levels = domain["levels"]
    if domain.get("formats", ["parquet"])[0] != "parquet":
        return geography_of_units(_read_table(folder, stem, domain), levels)
    return geography_of_file(folder / f"{stem}.parquet", levels)


def geography_of_file(path: Path, levels: Sequence[str]) -> Geography:
    """The geography of a Parquet file that has the codes of each leaf, a column at a time."""
    columns = (pl.read_parquet(path, columns=[level], glob=False)[level] for level in levels[1:])
    return _geography_in_order(levels, columns)


def geography_of_units(leaf: pl.DataFrame, levels: list[str]) -> Geography:
    """The geography of a frame that has the codes of each leaf."""
    return _geography_in_order(levels, (leaf[level] for level in levels[1:]))


def _from_rows(
    frame: pl.DataFrame, level: str, schema: Schema, geography: Geography, *, sparse: bool
) -> LevelTable:
    """The table that ``tidy_frame`` made rows of."""
    cell = np.zeros(frame.height, dtype=np.int64)
    for attribute in schema.attributes:
        numbers = pl.Enum(attribute.levels)
        code = frame[attribute.name].cast(numbers).to_physical().to_numpy()
        cell = cell * attribute.size + code
    codes = geography.units[geography.depth(level)].tolist()
    unit = np.zeros(frame.height, dtype=np.int64)  # the whole, whatever its code
    if level != geography.levels[0]:
        unit = frame[level].cast(pl.Enum(codes)).to_physical().to_numpy()
    shape = (len(codes), schema.size)
    count = frame[COUNT].to_numpy()
    if not sparse:
        full = np.zeros(shape, dtype=count.dtype)
        full[unit, cell] = count
        return full
    from scipy.sparse import csr_array

    table: LevelTable = csr_array((count, (unit, cell)), shape=shape)
    return table


def _read_published(
    folder: Path, form: dict[str, Any], *, domain: Domain, **made: Any
) -> TablesRelease:
    published = tuple(
        read_published(
            _read_table(folder, published_stem(one["table"]["name"], one["level"]), form),
            one,
            domain.schema,
            domain.geography,
        )
        for one in form["tables"]
    )
    rules = rules_from_json(form["rules"])
    return TablesRelease(domain=domain, published=published, rules=rules, **made)


def _read_counts(
    folder: Path, form: dict[str, Any], *, domain: Domain, **made: Any
) -> CountsRelease:
    schema, geography = domain.schema, domain.geography
    long, tidy = form.get("long", ()), form.get("tidy", False)
    in_parquet = form.get("formats", ["parquet"])[0] == "parquet"
    tables: dict[str, LevelTable] = {}
    for level in form["published"]:
        if level in long and in_parquet:
            path = folder / f"{stem_of(level)}.parquet"
            tables[level] = _read_rows(path, level, schema, geography)
            continue
        frame = _read_table(folder, stem_of(level), form)
        if tidy or level in long:
            tables[level] = _from_rows(frame, level, schema, geography, sparse=level in long)
            continue
        columns = [
            frame[name].to_numpy() if possible else np.zeros(frame.height, dtype=np.int64)
            for name, possible in zip(schema.cell_names, schema.possible, strict=True)
        ]
        tables[level] = np.column_stack(columns)
    weight = Fraction(form.get("weight", 1))
    return CountsRelease(domain=domain, tables=tables, weight=weight, **made)


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """A schema as JSON."""
    return {
        "attributes": [[a.name, list(a.levels)] for a in schema.attributes],
        "structural_zeros": [
            {name: list(levels) for name, levels in zero} for zero in schema.structural_zeros
        ],
        **({"roles": given(schema.roles)} if schema.roles != NO_ROLES else {}),
    }


def schema_from_json(data: Mapping[str, Any]) -> Schema:
    """The schema that ``schema_to_json`` wrote."""
    return Schema(
        tuple(Attribute(name, tuple(levels)) for name, levels in data["attributes"]),
        tuple(impossible(zero) for zero in data["structural_zeros"]),
        from_table(Roles, data.get("roles", {}), source="schema", place="roles"),
    )


@singledispatch
def _domain(release: Release) -> dict[str, Any]:
    """What is needed to read a kind of release again, beside its files."""
    raise NotImplementedError(f"{type(release).__name__} has no form on disk")


@_domain.register
def _(release: CountsRelease) -> dict[str, Any]:
    long = long_levels(release)
    return {
        **({"long": long} if long else {}),
        **({"weight": str(release.weight)} if release.weight != 1 else {}),
        **schema_to_json(release.schema),
        "levels": list(release.geography.levels),
        "published": list(release.tables),
    }


@_domain.register
def _(release: TablesRelease) -> dict[str, Any]:
    return {
        "tables": [definition_of(one) for one in release.published],
        "rules": rules_to_json(release.rules),
        **schema_to_json(release.schema),
        "levels": list(release.geography.levels),
        "published": [],
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_bytes_atomic(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def _read_json(path: Path) -> dict[str, Any]:
    return _json_in(path.read_bytes(), path)


def _json_in(data: bytes, path: Path) -> dict[str, Any]:
    try:
        content = from_json(data.decode("utf-8"))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise RunError(f"{path}: found a damaged file, expected JSON written by headcount")
    return content


def _content_digest(content: Mapping[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
