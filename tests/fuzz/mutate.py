"""Damage that knows what it damages: keys and values, cells and quotes, pages and rows."""

from __future__ import annotations

import contextlib
import csv
import io
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from tests.fuzz.base import MECHANISMS, SWAPPING, TOPDOWN, Raw, Tree

NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 7, 255, 10**9, 2**31, 2**63 - 1, 2**63, 10**18, 10**30),
    *(Raw("0.5"), Raw("1.0"), Raw("-0.0"), Raw("1e-9"), Raw("1e999999999"), Raw("1e-999999999")),
    *(Raw("1e-5000"), Raw("1e-45"), Raw("700.5"), Raw("999"), Raw("nan"), Raw("inf")),
    *(Raw("1e99999999999999999999"), Raw("0x" + "f" * 3000), Raw("9" * 4400)),
    *("1/3", "1e999999999", "1/0", "0", "-1/2", f"1/{3**300}", f"1/{10**40}", "١/٢", "1_0"),
)
TEXTS: tuple[Any, ...] = (
    *("", " ", "\0", "a\nb", "..", "../x", "é" * 60, "x" * 5000, "\x7f\x1b[31m", "whole", "tract"),
    *("people.csv", "tracts.csv", "no.csv", ".", "age", "sex", "total", "cells", "inf", "𝔸", "'\""),
)
SHAPES: tuple[Any, ...] = (
    *(True, False, [], {}, [[]], [{}], ["a", "a"], {"": 1}, {"a": {"b": {}}}, [1, "a"]),
    *(Raw("2020-01-01"), Raw("[" * 3000 + "]" * 3000), Raw("{a = " * 60 + "1" + "}" * 60)),
)
EXTREMES = (*NUMBERS, *TEXTS, *SHAPES)
KINDS = ("microdata", "counts", "households", "uniform", "ipums1940", "nobody")
KEYS = (
    *("epsilon", "rho", "unit", "parts", "fraction", "seed", "noise", "publish", "public", "root"),
    *("longer", "totals", "units", "levels", "preset", "queries", "file", "schema", "people"),
    Raw(".".join("a" * 50)),
    "",
    "kind",
    "name",
    "out",
    "a b",
)


# --- trees -----------------------------------------------------------------------------------


def change_tree(config: Tree, random: Random) -> None:
    """Change one thing in a config, in place."""
    spots = list(_spots(config))
    holder, key = random.choice(spots)
    change = random.choice((_replace, _replace, _replace, _delete, _rename, _add, _swap, _other))
    change(holder, key, spots, random)


def _spots(node: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        found.append((node, key))
        if isinstance(value, dict | list):
            found += _spots(value)
    return found


def _replace(holder: Any, key: Any, _spots: Any, random: Random) -> None:
    like = NUMBERS if isinstance(holder[key], int | Raw) else TEXTS
    holder[key] = random.choice(like if random.random() < 0.5 else EXTREMES)


def _delete(holder: Any, key: Any, _spots: Any, _random: Random) -> None:
    del holder[key]


def _rename(holder: Any, key: Any, _spots: Any, random: Random) -> None:
    if isinstance(holder, dict):
        holder[random.choice((*KEYS, f"{key}s", key[:-1]))] = holder.pop(key)


def _add(holder: Any, _key: Any, _spots: Any, random: Random) -> None:
    if isinstance(holder, dict):
        holder[random.choice(KEYS)] = random.choice(EXTREMES)
    else:
        holder.append(random.choice((*holder, *EXTREMES)))


def _swap(holder: Any, key: Any, spots: Any, random: Random) -> None:
    other, place = random.choice(spots)
    if not isinstance(holder[key], dict | list) and not isinstance(other[place], dict | list):
        holder[key], other[place] = other[place], holder[key]


def _other(holder: Any, key: Any, _spots: Any, random: Random) -> None:
    """Another kind of population or mechanism under the same keys."""
    if key == "kind":
        holder[key] = random.choice(KINDS)
    elif isinstance(holder, dict) and "mechanism" in holder:
        holder["mechanism"] = dict(random.choice((*MECHANISMS, TOPDOWN, SWAPPING)))
    else:
        holder[key] = random.choice(EXTREMES)


def change_text(text: str, random: Random) -> bytes:
    """Damage the text of a config, or say it in another way."""
    data = text.encode()
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: data[: random.randrange(len(data))],
        lambda: change_bytes(data, random),
        lambda: b"\xef\xbb\xbf" + data,
        lambda: data.replace(b"\n", b"\r\n"),
        lambda: text.encode("utf-16"),
        lambda: data + data,
        lambda: data + b"[" + b"a." * random.choice((40, 5000)) + b"a]\n",
        lambda: b"#" * (1 << 21) + data,
        lambda: data + random.choice((b"\x00", b"\xff", b"'''", b'"""', b"\\", b"a = ", b"[[")),
    )
    return random.choice(ways)()


def change_bytes(data: bytes, random: Random) -> bytes:
    """Flip, cut out, double or fill with chance some bytes."""
    content = bytearray(data)
    for _ in range(random.choice((1, 1, 3, 12))):
        place = random.randrange(len(content) or 1)
        length = random.choice((1, 4, 64))
        way = random.randrange(5)
        if way == 0 and content:
            content[place % len(content)] ^= 1 << random.randrange(8)
        elif way == 1:
            content[place : place + length] = random.randbytes(length)
        elif way == 2:
            del content[place : place + length]
        elif way == 3:
            content[place:place] = content[place : place + length]
        else:
            content[place : place + length] = b"\x00" * length
    return bytes(content)


# --- tables ----------------------------------------------------------------------------------

CELLS = (
    *("", " ", "NA", "-9", "0", "-1", "1.5", "3.0", "1e3", "9" * 25, "9007199254740993", "nan"),
    *("old", "m", "a1", "b9", "é", "\x00", 'a"b', "a,b", "a\nb", "total", "Total", "x" * 3000),
    *("=1+1", "０１", "01", "+3", " 3", "٣"),
)


def change_csv(path: Path, random: Random) -> None:
    """Change rows, cells, quotes, delimiters or the encoding of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    options: dict[str, Any] = {"lineterminator": "\n"}
    encoding, tail = "utf-8", ""
    for _ in range(random.choice((1, 1, 2, 5))):
        way, row = random.randrange(13), random.randrange(len(rows))
        if way <= 2 and rows[row]:
            rows[row][random.randrange(len(rows[row]))] = random.choice(CELLS)
        elif way == 3:
            rows.insert(row, list(random.choice(rows)))
        elif way == 4 and len(rows) > 1:
            del rows[row]
        elif way == 5:
            rows[row] = rows[row][:-1] if random.random() < 0.5 else [*rows[row], "more"]
        elif way == 6:
            order = random.sample(range(len(rows[0])), len(rows[0]))
            rows = [[one[k] if k < len(one) else "" for k in order] for one in rows]
        elif way == 7:
            options["delimiter"] = random.choice((";", "\t", "|"))
        elif way == 8:
            options["quoting"] = random.choice((csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC))
        elif way == 9:
            options["lineterminator"] = random.choice(("\r\n", "\r", "\n\n"))
        elif way == 10:
            encoding = random.choice(("utf-8-sig", "utf-16", "latin-1"))
        elif way == 11:
            tail = random.choice(("\n", ",", '"', "\x1a", "a,a1", "#", '"a\n', "\n\n\n"))
        else:
            rows = rows[:1] + [one for _ in range(random.choice((0, 3))) for one in rows[1:]]
    buffer = io.StringIO(newline="")
    csv.writer(buffer, **options).writerows(rows)
    data = (buffer.getvalue() + tail).encode(encoding, errors="replace")
    path.write_bytes(change_bytes(data, random) if random.random() < 0.2 else data)


def to_parquet(path: Path, random: Random) -> Path:
    """The CSV file as Parquet, in whole or damaged, its columns as they are or of other types."""
    table = pl.read_csv(path, infer_schema=False)
    if random.random() < 0.5:
        table = _other_type(table, random.choice(table.columns), random)
    made = path.with_suffix(".parquet")
    compression: Any = random.choice(("zstd", "snappy", "uncompressed", "gzip"))
    table.write_parquet(
        made,
        compression=compression,
        row_group_size=random.choice((None, 7)),
        statistics=random.random() < 0.5,
    )
    data = made.read_bytes()
    way = random.random()
    if way < 0.55:
        made.write_bytes(change_bytes(data, random))
    elif way < 0.65:
        made.write_bytes(data[: random.randrange(len(data))])
    elif way < 0.7:
        made.write_bytes(random.choice((b"", b"PAR1", b"PAR1PAR1", path.read_bytes(), data * 2)))
    return made


def _other_type(table: pl.DataFrame, column: str, random: Random) -> pl.DataFrame:
    values = table[column]
    ways: tuple[Callable[[], pl.Series], ...] = (
        lambda: values.cast(pl.Categorical),
        lambda: values.cast(pl.Float64, strict=False),
        lambda: values.cast(pl.Int64, strict=False).fill_null(random.choice((0, -1, 2**62))),
        lambda: pl.Series([[one] for one in values]),
        lambda: pl.Series([{"x": one} for one in values]),
        lambda: values.cast(pl.Binary),
        lambda: pl.Series([None] * len(values)),
        lambda: values.replace({values[0]: None}),
        lambda: pl.Series([True] * len(values)),
        lambda: values.cast(pl.Int64, strict=False).fill_null(3).cast(pl.UInt8, strict=False),
        lambda: values.cast(pl.Int64, strict=False).fill_null(7).cast(pl.Decimal(10, 2)),
    )
    return table.with_columns(random.choice(ways)().alias(column))


# --- ledgers and folders ---------------------------------------------------------------------

SQL = ("NULL", "''", "'x'", "'1/0'", "'1e999999999'", "'-1'", "'[1]'", "'{'", "1", "x'ff'", "'é'")


def change_ledger(path: Path, random: Random) -> None:
    """Damage pages, rows, the kind or the permissions of a ledger."""
    data, way = path.read_bytes(), random.random()
    if way < 0.4:
        path.write_bytes(change_bytes(data, random))
    elif way < 0.5:
        path.write_bytes(random.choice((b"", b"text", data[: random.randrange(len(data) or 1)])))
    elif way < 0.55:
        path.chmod(random.choice((0o644, 0o400, 0o000)))
    elif way < 0.6:
        path.unlink()
        if random.random() < 0.5:
            path.mkdir()
    else:
        _change_rows(path, random)


def _change_rows(path: Path, random: Random) -> None:
    with (
        contextlib.suppress(sqlite3.DatabaseError, ValueError),
        sqlite3.connect(path) as connection,
    ):
        for kind, name in connection.execute("SELECT type, name FROM sqlite_master").fetchall():
            if kind == "trigger":
                connection.execute(f"DROP TRIGGER {name}")
        table = random.choice(("secret", "dataset", "content", "spend", "event"))
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column = random.choice(columns or ["gone"])
        value = random.choice(SQL)
        change = random.choice(
            (
                f"UPDATE {table} SET {column} = {value}",
                f"UPDATE {table} SET {column} = CAST(x'ff41' AS TEXT)",
                f"DELETE FROM {table}",
                f"DROP TABLE {table}",
                "PRAGMA user_version = 7",
                f"ALTER TABLE {table} RENAME COLUMN {column} TO other",
            )
        )
        try:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute(change)
        except sqlite3.Error:
            connection.execute("PRAGMA application_id = 1")  # the table keeps its rules


def change_folder(folder: Path, random: Random) -> None:
    """Delete, cut, damage, replace or double a file of a run directory."""
    for _ in range(random.choice((1, 1, 2))):
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        if not files:
            return
        path, data = (chosen := random.choice(files)), chosen.read_bytes()
        way = random.randrange(8)
        if way == 0:
            path.unlink()
        elif way == 1:
            path.write_bytes(data[: random.randrange(len(data) or 1)])
        elif way <= 3:
            path.write_bytes(change_bytes(data, random))
        elif way == 4:
            path.write_bytes(random.choice(files).read_bytes())
        elif way == 5:
            path.write_bytes(random.choice((b"", b"{}", b"[]", b"null", b"[" * 9999, b"\xff")))
        elif way == 6:
            path.unlink()
            path.mkdir()
        else:
            path.with_name(random.choice(("stranger", ".x.tmp", "run.key", "a"))).write_bytes(data)
