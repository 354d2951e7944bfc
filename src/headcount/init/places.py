"""Which columns say where people live, and how places nest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from headcount.init.look import SeenColumn, SeenFile, same_for_all
from headcount.init.words import CODES, CODES_OF_PLACES, PERSONAL, PLACES, THINGS
from headcount.population.suspicious import TOTAL_WORDS, blank_or_total

_JOINED = "|".join(one for one in CODES if not one.isascii())  # some scripts part no words
_PLACE = re.compile(rf"(^|.* )({'|'.join(PLACES)})s?( ({'|'.join(CODES)})|{_JOINED})?( \d+)?$")
_SCHEMES = re.compile("|".join(CODES_OF_PLACES))
_NOT_HERE = re.compile(r"birth|born|origin|work|previous|last year|ago|moved|citizen|school")
"""Names of places where people do not live now."""

SCHEMES = {
    15: (("state", 2), ("county", 5), ("tract", 11), ("block", 15)),
    12: (("state", 2), ("county", 5), ("tract", 11), ("block_group", 12)),
    11: (("state", 2), ("county", 5), ("tract", 11)),
    5: (("state", 2), ("county", 5)),
}
"""Codes of places in the United States, by their length: where each level ends."""

_AGS = (("land", 2), ("kreis", 5), ("gemeinde", 8))
_NUTS = (("country", 2), ("nuts1", 3), ("nuts2", 4), ("nuts3", 5))


@dataclass(frozen=True, kw_only=True)
class FoundPlaces:
    """Columns of places from the top to the leaf, or one code with nested prefixes.

    where
        columns       the columns, one for each level; with prefixes the only one
        prefixes      where the levels of a code end
        root          the name of the whole
        local_codes   whether codes repeat between parents
        fill_zeros    whether codes have lost zeros at the front
        longer        what to do with codes that go on after the last prefix
        totals        whether there are rows of totals
        others        columns that name places too: larger ones with a single place, and unused
        unused        those of them that say nothing more
    """

    columns: tuple[str, ...]
    prefixes: tuple[tuple[str, int], ...] = ()
    root: str = "whole"
    local_codes: bool = False
    fill_zeros: bool = False
    longer: Literal["refuse", "cut"] = "refuse"
    totals: bool = False
    others: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


def is_place(column: SeenColumn) -> bool:
    """Whether a column's name is one for places."""
    if column.says == "area" and column.whole and len(set(map(len, column.real))) > 1:
        return False  # square kilometres
    others = (_NOT_HERE, PERSONAL, THINGS)  # "housing units" are none
    known = _PLACE.match(column.says) or _SCHEMES.fullmatch(column.says)
    return bool(known) and not any(one.search(column.says) for one in others)


def find_places(look: SeenFile, named: Sequence[str] = ()) -> FoundPlaces | None:
    """The places of a file, or None; ``named`` are the columns that a user has given."""
    candidates = [one for one in look.columns if one.name in named or (not named and is_place(one))]
    if not candidates:
        candidates = [
            one for one in look.columns if _scheme(one)[0] and not PERSONAL.search(one.says)
        ]
    if not candidates:
        return None
    frame, totals = without_totals(look.frame, [one.name for one in candidates])
    candidates = [one for one in candidates if not one.decimal and frame[one.name].n_unique() > 0]
    if not candidates or frame.is_empty():
        return None
    coded = max(candidates, key=lambda one: len(_scheme(one)[0]))
    prefixes, lost = _scheme(coded)
    chain = list(named) or _chain(frame, [one.name for one in candidates])
    if not named and len(prefixes) > len(chain):
        codes = _filled(frame[coded.name], prefixes[-1][1]) if lost else frame[coded.name]
        kept = [level for level in prefixes[:-1] if codes.str.slice(0, level[1]).n_unique() > 1]
        root = prefixes[len(prefixes) - len(kept) - 2][0] if len(kept) < len(prefixes) - 1 else ""
        return FoundPlaces(
            columns=(coded.name,),
            prefixes=(*kept, prefixes[-1]),
            root=root or "whole",
            fill_zeros=lost,
            totals=totals,
            others=tuple(one.name for one in candidates if one is not coded),
            unused=tuple(one.name for one in candidates if one is not coded),
        )
    several = [name for name in chain[:-1] if frame[name].n_unique() > 1]
    above = [name for name in chain[:-1] if name not in several]
    columns = (*several, chain[-1])
    return FoundPlaces(
        columns=columns,
        root=above[-1] if above else "whole",
        local_codes=not all(same_for_all(frame, columns[-1], name) for name in columns[:-1]),
        totals=totals,
        others=tuple(one.name for one in candidates if one.name not in columns),
        unused=tuple(one.name for one in candidates if one.name not in chain),
    )


def without_totals(frame: pl.DataFrame, columns: Sequence[str]) -> tuple[pl.DataFrame, bool]:
    """The rows that have a code of every kind, and whether others are there."""
    wrong = total_rows(frame, columns)
    return frame.filter(~wrong), bool(wrong.any())


def total_rows(frame: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """Which rows are totals: by the code of a place, or without one."""
    wrong = pl.Series(np.zeros(frame.height, dtype=bool))
    for name in columns:
        each = frame[name].unique()
        if not (odd := each.filter(blank_or_total(each))).is_empty():
            wrong |= frame[name].fill_null("").is_in(odd.fill_null("").implode())
    # Places without a name in most rows are no totals: the column is not one of places here.
    return wrong & False if wrong.sum() > frame.height / 2 else wrong


def _scheme(column: SeenColumn) -> tuple[tuple[tuple[str, int], ...], bool]:
    """The levels of a code whose scheme is known, and whether zeros were lost."""
    values = column.present
    if not len(values) or column.number < 2:
        return (), False
    known = values.unique()
    known = known.filter(~known.str.strip_chars().str.to_lowercase().is_in(list(TOTAL_WORDS)))
    if known.is_empty():
        return (), False
    lengths = set(known.str.len_chars().unique())
    if known.str.contains("^[A-Z]{2}[0-9A-Z]{3}$").all():
        return (_NUTS, False) if not known.str.contains("^[A-Z]+$").all() else ((), False)
    if not known.str.contains("^[0-9]+$").all():
        return (), False
    hinted = bool(re.search(r"fips|geoid|geo|county|tract|block|state", column.says))
    for length, levels in SCHEMES.items():
        enough = hinted or length >= 11
        if enough and lengths == {length}:
            return levels, False
        if enough and lengths <= {length, length - 1} and not _is_whole(lengths, length, hinted):
            return levels, True
    if re.search(r"ags|gemeinde", column.says) and lengths <= {7, 8}:
        return _AGS, 7 in lengths
    return (), False


def _is_whole(lengths: set[int], length: int, hinted: bool) -> bool:
    """Whether codes of one length less are a scheme of their own, or not hinted at."""
    return lengths == {length - 1} and (length - 1 in SCHEMES or not hinted)


def _filled(codes: pl.Series, length: int) -> pl.Series:
    return codes.str.zfill(length)


def _chain(frame: pl.DataFrame, names: Sequence[str]) -> list[str]:
    """Columns from the coarsest to the finest, each nested in the one before.

    A column that says the same as another in other words (the name of a county beside its code)
    is left out, and so is one that cuts across the finest.
    """
    sizes = {name: int(frame[name].n_unique()) for name in names}
    ordered = sorted(names, key=lambda name: sizes[name])
    distinct: list[str] = []
    for name in ordered:
        twins = [
            other
            for other in distinct
            if sizes[other] == sizes[name] > 1
            and same_for_all(frame, name, other)
            and same_for_all(frame, other, name)
        ]
        if not twins:
            distinct.append(name)
        elif _code_like(frame[name]) and not _code_like(frame[twins[0]]):
            distinct[distinct.index(twins[0])] = name
    leaf = distinct[-1]
    if all(same_for_all(frame, leaf, name) for name in distinct):
        return [one for one in distinct if _nested(frame, one, distinct)]
    # Codes that repeat between parents: all of them together name a place.
    return sorted(distinct, key=lambda name: _rank(name, sizes[name]))


def _nested(frame: pl.DataFrame, name: str, chain: Sequence[str]) -> bool:
    """Whether each of the finer columns of a chain lies in one place of this column."""
    finer = chain[chain.index(name) + 1 :]
    return all(same_for_all(frame, other, name) for other in finer)


def _code_like(values: pl.Series) -> bool:
    return bool(values.drop_nulls().str.contains(r"^[0-9A-Z\-]+$").all())


def _rank(name: str, size: int) -> tuple[int, int]:
    """Where a level usually stands, by its name; then by how many there are."""
    words = (
        *("country nation", "region division land bundesland", "state statefip province prov"),
        *("county countyfip kreis department district", "municipality municipio gemeinde commune"),
        *("town city ward tract", "block group", "block precinct vtd unit area"),
    )
    plain = re.sub(r"[\s._\-]+", " ", name).strip().casefold()
    for place, group in enumerate(words):
        if plain == group or (group != "block group" and set(plain.split()) & set(group.split())):
            return place, size
    return len(words), size
