"""Tables of people that an attacker links: the named ones, the released ones, and the truth."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.attacks import People, whole_people
from headcount.attacks.linkage import Link, Linked, LinkRows, rows_of
from headcount.config.attack_files import positions, refuse_repeated
from headcount.errors import InputError
from headcount.evaluation.linkage_risk import TrueSecrets
from headcount.geography import regular
from headcount.population.tables import read_table
from headcount.release import Release
from headcount.schema import Attribute, Schema
from headcount.tabulate.published.codings import years

IDENTITY = ("person", "slot")
"""Columns of a released table that say whose record a row holds, and whose place it has."""


@dataclass(frozen=True, eq=False)
class LinkFiles:
    """Two tables of people, coded alike.

    where
        attack   what is linked, and what is to be learnt
        named    people whom the attacker knows, with the column person
        rows     released records, with the secret
        source   where they come from
    """

    attack: Link
    named: pl.DataFrame
    rows: pl.DataFrame
    known: Path
    source: Path

    @classmethod
    def read(cls, attack: Link, known: Path, rows: pl.DataFrame, source: Path) -> LinkFiles:
        """The attacker's file beside released rows."""
        named = read_table(known, ["person", "age", *attack.exact])
        refuse_repeated(named["person"], str(known))
        return cls(attack, named, rows, known, source)

    def linked(self) -> Linked:
        """Link them: a table has no geography, so everybody is in one place."""
        people, rows = self._coded()
        secret = self.rows[self.attack.secret]
        values = secret.drop_nulls().unique(maintain_order=True)
        if values.is_empty():
            raise InputError(
                str(self.source),
                place=f"column {secret.name!r}",
                found="no value at all",
                expected="what the attacker wants to learn",
            )
        levels = values.cast(pl.String)
        return self.attack.match(
            People(name=self.known.stem, unit=np.zeros(self.named.height, int), codes=people),
            LinkRows(
                codes=rows,
                exact=self.attack.exact,
                width=self.attack.age_width,
                secret=positions(levels, secret.cast(pl.String)),
                values=values,
                words=", ".join(self.attack.exact) or "nothing else",
            ),
            schema=Schema((Attribute(secret.name, tuple(levels)),)),
            geography=regular(children=1, depth=0),
        )

    def _coded(self) -> tuple[dict[str, Ints], dict[str, Ints]]:
        ages = _ages(self.named["age"], str(self.known)), _ages(self.rows["age"], str(self.source))
        oldest = min(age.open_from for age in ages)
        people, rows = ({"age": np.minimum(age.year, oldest)} for age in ages)
        for name in self.attack.exact:
            people[name], rows[name] = _same_numbers(self.named[name], self.rows[name])
        return people, rows

    def truth(self, path: Path) -> TrueSecrets:
        """The secrets of the people named, and whose the released rows are, as far as is said."""
        secret = self.attack.secret
        real = read_table(path, ["person", secret])
        refuse_repeated(real["person"], str(path))
        own = self.named["person"].cast(pl.String)
        at = positions(real["person"].cast(pl.String), own)
        true = real[secret].cast(pl.String).gather(pl.Series(at).replace(-1, None))
        if true.null_count():
            raise InputError(
                str(path),
                found=f"no person {own[int(true.is_null().arg_max() or 0)]!r} of the attacker's "
                "file",
                expected="everyone in it",
            )
        said = self.rows.select(name for name in IDENTITY if name in self.rows.columns)
        said = said.cast(pl.String)
        return TrueSecrets(
            secret=true.to_numpy(),
            released=self.rows[secret].cast(pl.String).to_numpy(),
            origin=positions(own, said["person"]) if "person" in said else None,
            slot=positions(said["slot"], own) if "slot" in said else None,
        )


def read_rows(path: Path, attack: Link) -> pl.DataFrame:
    """Released rows of a table."""
    columns = ["age", *attack.exact, attack.secret]
    return read_table(path, [*columns, *IDENTITY], optional=set(IDENTITY))


def rows_of_release(release: Release, attack: Link, source: Path) -> pl.DataFrame:
    """Released rows of a release of counts: attributes and units as texts."""
    schema, geography = release.schema, release.geography
    columns, known = ["age", *attack.exact, attack.secret], {*schema.names, *geography.levels}
    for name in columns:
        if name not in known:
            raise InputError(
                str(source), found=f"no attribute {name!r}", expected=f"some of {sorted(known)}"
            )
    counts = release.as_counts().unweighted()
    if not whole_people(counts):
        raise InputError(
            str(source), found="counts that are negative or not whole", expected="whole people"
        )
    unit, cell = rows_of(counts)
    made = dict(zip(schema.names, np.unravel_index(cell, schema.shape), strict=True))
    names: dict[str, Sequence[str]] = {a.name: a.levels for a in schema.attributes}
    for level in geography.levels:
        made[level] = geography.ancestors(level)[unit].astype(np.int64)
        names[level] = geography.units[geography.depth(level)].tolist()
    return pl.DataFrame(
        {name: pl.Series(names[name], dtype=pl.String).gather(made[name]) for name in columns}
    )


@dataclass(frozen=True, eq=False)
class _Ages:
    """Years of age, and the lowest open level ("90+"): years above it are not told apart.

    An open level stands for its first year. In a table without one every year is told apart.
    """

    year: Ints
    open_from: int


def _ages(values: pl.Series, source: str) -> _Ages:
    texts = values.cast(pl.String)
    year: dict[str, int] = {}
    open_from = sys.maxsize
    for text in texts.unique().to_list():
        span = years(text) if text is not None else None
        is_open = str(text).endswith("+")
        if span is None or (len(span) > 1 and not is_open):
            row = int((texts == text).arg_max() or 0) if text is not None else 0
            raise InputError(
                source,
                place=f"column 'age', row {row + 1}",
                found=repr(text),
                expected="a year of age",
            )
        year[text] = min(span)
        open_from = min(open_from, min(span)) if is_open else open_from
    numbers = texts.replace_strict(list(year), list(year.values()), return_dtype=pl.Int64)
    return _Ages(numbers.to_numpy().astype(np.int64), open_from)


def _same_numbers(known: pl.Series, released: pl.Series) -> tuple[Ints, Ints]:
    """Numbers that are equal where texts are; a missing value equals nothing in the other table."""
    both = pl.concat([known.cast(pl.String), released.cast(pl.String)])
    number = both.rank("dense").cast(pl.Int64) + 1  # 0 and 1 are the missing values of either
    first, second = number.head(known.len()), number.tail(released.len())
    return first.fill_null(0).to_numpy(), second.fill_null(1).to_numpy()
