"""Several files of one population: which holds the people, and by which key the others belong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from headcount.errors import InputError
from headcount.init.decide import Ask, Draft, Looked, TakeProposals, decided, looked_at
from headcount.init.look import SeenColumn, SeenFile, look
from headcount.init.told import Told
from headcount.population.formats.layouts import Layout, read_layout
from headcount.population.tables import AnyTable
from headcount.population.text_files import Beside, Format

COVERED = 0.5
"""The share of keys that must be used for a key whose columns have different names: small whole
numbers are contained in any numbering by chance."""

FEW = 20
"""Different values that such a key must have at least."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """A table that is found by a key from another.

    where
        main, other   the tables
        key           the column of ``main``: its values are all known to ``other``
        other_key     that of ``other``, where each stands once
        used          the share of keys that ``main`` uses
        named         whether both have the same name
        repeated      whether a value stands in several rows of ``main``
    """

    main: SeenFile
    other: SeenFile
    key: str
    other_key: str
    used: float
    named: bool
    repeated: bool

    @property
    def said(self) -> str:
        """The link with its evidence."""
        both = self.key if self.named else f"{self.key} = {self.other_key}"
        return (
            f"{self.other.path.name} belongs to {self.main.path.name} by {both!r}: each value "
            f"stands once there, and all of {self.main.path.name} are among them"
        )


@dataclass(frozen=True, kw_only=True)
class _Related:
    """The table of people, how it and what is beside it are read, and why.

    where
        form   the format, with the tables beside
        key    the column that people of one dwelling share, where a table is one of dwellings
    """

    main: Path
    form: Format
    key: str
    notes: tuple[str, ...]


def looked_at_all(files: Sequence[AnyTable], told: Told, *, ask: Ask | None = None) -> Looked:
    """Look at a file, or at several that belong to one population."""
    if len(files) == 1:
        return looked_at(files[0], told)
    if strange := [one for one in files if not isinstance(one, Path)]:
        raise InputError(
            str(strange[0]), found="a data frame among several tables", expected="paths of files"
        )
    found = related([one for one in files if isinstance(one, Path)], ask=ask, key=told.key)
    looked = looked_at(found.main, replace(told, form=found.form))
    return replace(looked, key=found.key, notes=(*found.notes, *looked.notes))


def draft_of(
    files: Sequence[AnyTable],
    *,
    ask: Ask | None = None,
    epsilon: str = "1",
    told: Told | None = None,
) -> Draft:
    """What to make of a file, or of several that belong to one population."""
    said = told or Told()
    return decided(looked_at_all(files, said, ask=ask), said, ask=ask, epsilon=epsilon)


def related(files: Sequence[Path], *, ask: Ask | None = None, key: str = "") -> _Related:
    """Find the table that the others belong to; where there are several ways, somebody says it."""
    tables, books = _parted(files)
    if not tables:
        raise InputError(str(files[0]), found="a codebook without data", expected="a table")
    form, notes = _laid_out(tables, books)
    if len(tables) == 1:
        return _Related(main=tables[0], form=form, key=key, notes=notes)
    seen = [look(one, form=form if one == tables[0] and form.layout else None) for one in tables]
    links = [one for one in _links(seen) if not key or key in (one.key, one.other_key)]
    main = _main(seen, links)
    chosen = [
        _chosen([one for one in links if one.main is main and one.other is other], other, ask, main)
        for other in seen
        if other is not main
    ]
    own = replace(main.form, beside=tuple(_beside(one) for one in chosen))
    home = next((one for one in chosen if one.repeated and _is_home(one, key)), None)
    return _Related(
        main=Path(str(main.path)),
        form=own,
        key=home.key if home else "",
        notes=(*notes, *(one.said for one in chosen)),
    )


def _parted(files: Sequence[Path]) -> tuple[list[Path], list[tuple[Path, Layout]]]:
    """The tables, and the codebooks among the files."""
    tables, books = [], []
    for one in files:
        if one.suffix.lower() in (".xml", ".rda") or one.name.endswith("_codebook.txt"):
            try:
                books.append((one, read_layout(one)))
                continue
            except InputError:
                if one.suffix.lower() != ".rda":  # which may be a table of R
                    raise
        tables.append(one)
    return tables, books


def _laid_out(
    tables: Sequence[Path], books: Sequence[tuple[Path, Layout]]
) -> tuple[Format, tuple[str, ...]]:
    if not books:
        return Format(), ()
    if len(books) > 1 or len(tables) > 1:
        raise InputError(
            str(books[0][0]),
            found="a codebook among several files",
            expected="one codebook with one table: others have theirs beside them, under their "
            "name",
        )
    book, layout = books[0]
    if layout.fixed or layout.separator:
        return Format(layout=book), (f"codebook: {book.name} says where columns are",)
    return Format(), (f"codebook: {book.name}",)


def _links(seen: Sequence[SeenFile]) -> Iterator[Link]:
    """Every way in which a table may belong to another."""
    for other in seen:
        for there in other.columns:
            if not _is_key(there, other):
                continue
            keys = there.present
            for main in seen:
                for here in main.columns if main is not other else ():
                    found = _link(main, here, other, there, keys)
                    if found is not None:
                        yield found


def _is_key(column: SeenColumn, file: SeenFile) -> bool:
    rows = file.frame.height
    return len(column.present) == rows and column.number == rows


def _link(
    main: SeenFile, here: SeenColumn, other: SeenFile, there: SeenColumn, keys: pl.Series
) -> Link | None:
    if len(here.present) < len(here.values) or here.number > len(keys):
        return None
    if not here.present.unique().is_in(keys.implode()).all():
        return None
    named, used = here.name == there.name, here.number / len(keys)
    if not named and (used < COVERED or here.number < FEW):
        return None
    return Link(
        main=main,
        other=other,
        key=here.name,
        other_key=there.name,
        used=used,
        named=named,
        repeated=here.number < len(here.values),
    )


def _main(seen: Sequence[SeenFile], links: Sequence[Link]) -> SeenFile:
    """The table to which all others belong; of several the one in which keys repeat."""
    able = [
        one
        for one in seen
        if all(
            other is one or any(link.main is one and link.other is other for link in links)
            for other in seen
        )
    ]
    repeated = [one for one in able if any(link.main is one and link.repeated for link in links)]
    if len(repeated or able) != 1:
        names = ", ".join([one.path.name for one in seen[:FEW]] + ["..."] * (len(seen) > FEW))
        raise InputError(
            names,
            place="key",
            found="no table of people to which the others belong by a key"
            if not able
            else "several tables that may hold the people",
            expected="a column of one, all of whose values stand in another, there each once "
            "(--key says which)",
        )
    return (repeated or able)[0]


def _chosen(links: Sequence[Link], other: SeenFile, ask: Ask | None, main: SeenFile) -> Link:
    """The one link of a table, by equal names before all others."""
    best = [one for one in links if one.named] or list(links)
    best = [one for one in best if Draft.is_key(main.column(one.key))] or best
    if len(best) == 1:
        return best[0]
    options = [one.key for one in best]
    question = f"By which column does {other.path.name} belong to {main.path.name}?"
    picked = (ask or TakeProposals()).choose(question, options, "")
    for one in best:
        if one.key == picked:
            return one
    raise InputError(
        str(other.path),
        place="key",
        found=f"several columns that may be it: {', '.join(map(repr, options))}",
        expected=f'--key "{options[0]}", or another',
    )


def _beside(link: Link) -> Beside:
    known = {one.name for one in link.main.columns}
    more = [one.name for one in link.other.columns if one.name not in known]
    twice = [one.name for one in link.other.columns if one.name in known]
    form, own = link.other.form, link.main.form
    return Beside(
        file=Path(str(link.other.path)),
        key=link.key,
        other_key="" if link.named else link.other_key,
        columns=tuple(one for one in more if one != link.other_key) if len(twice) > 1 else (),
        encoding="" if form.encoding == own.encoding else form.encoding,
        sheet="" if form.sheet == own.sheet else form.sheet,
    )


def _is_home(link: Link, key: str) -> bool:
    """Whether a table is one of dwellings: by the name of its key, or as somebody says."""
    return link.key == key or Draft.is_key(link.main.column(link.key))
