"""TOML from a file or a text; whatever is wrong with it is one clear error, and soon.

``tomllib`` gives up on deep nesting with a RecursionError, on a whole number of 4,300 digits with a
plain ValueError, and takes minutes for a key of 30,000 parts.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from pathlib import Path
from typing import Any

from headcount.errors import ConfigError, near_name

MOST_BYTES = 1 << 20
"""Size of a TOML file: reading one takes seconds at most."""

MOST_PARTS = 32
"""Parts of a dotted key; no key of headcount's has more than six."""

TABLES = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".xlsx", ".xls", ".sav", ".dta")
"""Endings of files of people, which some give in the place of a config."""

_TEXT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|' r"'''.*?'''|" r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'|#[^\n]*", re.S
)


CONFIG = "a TOML config"


def read_toml(path: Path, *, expected: str, only_if: str = "") -> dict[str, Any]:
    """The content of a TOML file; ``expected`` says which, where there is none.

    Decimals keep the digits that were typed: 0.1 is 1/10, not the nearest binary float. With
    ``only_if``, a SHA-256 in hexadecimal digits, a file with any other bytes is refused.
    """
    source = str(path)
    if path.is_dir():
        raise ConfigError(source, found="a directory", expected=expected)
    if not path.is_file():
        raise ConfigError(source, found="no such file", expected=expected + near_name(path))
    if path.suffix.lower() in TABLES and expected == CONFIG:
        raise ConfigError(
            source,
            found="a table, by its name",
            expected=f"{CONFIG}; 'headcount init {path.name}' writes one",
        )
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ConfigError(
            source, found=f"a file of {size:,} bytes", expected=f"at most {MOST_BYTES:,}"
        )
    content = path.read_bytes()
    if only_if and sha256(content).hexdigest() != only_if.lower():
        raise ConfigError(
            source,
            found="another text than the one that was confirmed (its SHA-256 differs)",
            expected="the same: look at it and confirm it again",
        )
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise _not_toml(source, str(error)) from None
    return parse_toml(text, source=source)


def parse_toml(text: str, *, source: str) -> dict[str, Any]:
    """The content of a text in TOML."""
    plain = _TEXT.sub("text", text)
    if any(part.count(".") >= MOST_PARTS for part in re.split(r"[=,\[\]{}\n]", plain)):
        raise _not_toml(source, f"a key of more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text, parse_float=_decimal)
    except RecursionError:
        raise _not_toml(source, "tables or lists nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(source, f"{error}{_unquoted(text, str(error))}") from None
    except ValueError:  # of int(), with advice for programmers
        most = f"{sys.get_int_max_str_digits():,}"
        raise _not_toml(source, f"a whole number of more than {most} digits") from None


def to_toml(tables: Mapping[str, Any]) -> str:
    """Tables of plain values as TOML; what is None is left out, as TOML has nothing for it."""
    top = [_entry(key, value) for key, value in tables.items() if _is_value(value)]
    parts = [("".join(top))] if top else []
    for key, value in tables.items():
        name = _key(key)
        if isinstance(value, Mapping):
            parts.append(f"[{name}]\n{_entries(value)}")
        elif not _is_value(value):
            parts += [f"[[{name}]]\n{_entries(one)}" for one in value]
    return "\n".join(parts)


def _is_value(value: Any) -> bool:
    """Whether something stands behind a key at the top, not in a table of its own."""
    tables = isinstance(value, list) and bool(value) and all(isinstance(x, Mapping) for x in value)
    return not (isinstance(value, Mapping) or tables)


def _entries(table: Mapping[str, Any]) -> str:
    return "".join(_entry(key, value) for key, value in table.items())


def _entry(key: str, value: Any) -> str:
    return "" if value is None else f"{_key(key)} = {_value(value)}\n"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    """A value in one line; texts as JSON has them, which TOML reads alike."""
    if isinstance(value, Mapping):
        inner = [f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None]
        return f"{{ {', '.join(inner)} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(one) for one in value)}]"
    # JSON leaves this one sign as it is, which TOML does not allow.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise tomllib.TOMLDecodeError(f"the number {text[:40]} is too large to read") from None


def _unquoted(text: str, why: str) -> str:
    """A hint, where the line that a parser stumbles over has a value without quotes."""
    line = re.search(r"Invalid value \(at line (\d+)", why)
    if not line:
        return ""
    typed = text.split("\n")[int(line[1]) - 1]
    bare = re.fullmatch(r"\s*([\w.-]+)\s*=\s*([^\W\d][\w./\\ -]*?)\s*(#.*)?", typed)
    return f'; text has quotes: {bare[1]} = "{bare[2]}"' if bare else ""


def _not_toml(source: str, why: str) -> ConfigError:
    return ConfigError(source, found=f"text that is not TOML ({why})", expected="TOML")
