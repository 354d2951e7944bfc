"""TOML from a file or a text; whatever is wrong with it is one clear error, and soon.

``tomllib`` gives up on deep nesting with a RecursionError, on a whole number of 4,300 digits with a
plain ValueError, and takes minutes for a key of 30,000 parts.
"""

from __future__ import annotations

import re
import sys
import tomllib
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from pathlib import Path
from typing import Any

from headcount.errors import ConfigError

MOST_BYTES = 1 << 20
"""Size of a TOML file: reading one takes seconds at most."""

MOST_PARTS = 32
"""Parts of a dotted key; no key of headcount's has more than six."""

_TEXT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|' r"'''.*?'''|" r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'|#[^\n]*", re.S
)


def read_toml(path: Path, *, expected: str, only_if: str = "") -> dict[str, Any]:
    """The content of a TOML file; ``expected`` says which, where there is none.

    Decimals keep the digits that were typed: 0.1 is 1/10, not the nearest binary float. With
    ``only_if``, a SHA-256 in hexadecimal digits, a file with any other bytes is refused.
    """
    source = str(path)
    if path.is_dir():
        raise ConfigError(source, found="a directory", expected=expected)
    if not path.is_file():
        raise ConfigError(source, found="no such file", expected=expected)
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
        raise _not_toml(source, str(error)) from None
    except ValueError:  # of int(), with advice for programmers
        most = f"{sys.get_int_max_str_digits():,}"
        raise _not_toml(source, f"a whole number of more than {most} digits") from None


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise tomllib.TOMLDecodeError(f"the number {text[:40]} is too large to read") from None


def _not_toml(source: str, why: str) -> ConfigError:
    return ConfigError(source, found=f"text that is not TOML ({why})", expected="TOML")
