"""What the MDF layouts of 1940 and of 2020 have in common: lines of fields between bars."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.geography import Geography


def bars(*columns: pl.Series) -> bytes:
    """Lines of columns between bars; a column may itself hold several fields."""
    buffer = io.BytesIO()
    frame = pl.DataFrame([column.alias(str(place)) for place, column in enumerate(columns)])
    frame.write_csv(buffer, include_header=False, separator="|", quote_style="never")
    return buffer.getvalue()


def comments(metadata: Sequence[str]) -> bytes:
    """Lines that begin with '#', before all others."""
    for line in metadata:
        if line.splitlines() not in ([line], []):
            raise InputError(
                "metadata", found=f"a line break in {line!r}", expected="single lines of text"
            )
    return "".join(f"# {line}\n" for line in metadata).encode()


def places(geography: Geography, leaf: Ints, fields: Callable[[str], str]) -> pl.Series:
    """The fields of each of some leaves in order, which may come several times."""
    first, last = (int(leaf[0]), int(leaf[-1])) if len(leaf) else (0, -1)
    codes = geography.units[-1][first : last + 1].tolist()
    texts = pl.Series([fields(code) for code in codes], dtype=pl.String)
    return texts.gather(leaf - first)


def refuse_other_lengths(geography: Geography, layout: str, parts: dict[str, int]) -> None:
    """Refuse leaves whose codes do not have the parts of a layout, so many characters each."""
    codes, length = geography.units[-1], sum(parts.values())
    wrong = np.flatnonzero(np.char.str_len(codes) != length)
    if len(wrong):
        said = ", ".join(f"{name} {number}" for name, number in parts.items())
        raise InputError(
            layout,
            place=f"{geography.leaf} {str(codes[wrong[0]])!r}",
            found="a code of a different length",
            expected=f"{length} characters: {said}",
        )
