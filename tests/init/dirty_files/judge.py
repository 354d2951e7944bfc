"""What became of a file: read rightly, asked about, or silently wrong."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from tests.init.dirty_files.model import Case, World

KINDS = (
    *("right", "asked", "unproved"),
    *("wrong people", "wrong places", "wrong attributes", "crash", "hang"),
)
"""How a case may end. Unproved: right numbers of a table that might have been another."""
FAULTS = KINDS[3:]
CPU_SECONDS = 60.0
"""Processor time for one small file; a look takes a tenth of a second."""

CAUSES = {
    "several dates": "year|date|time|period|twice|several|19|20|same people",
    "two dates, unnamed": "twice|same|proportion|several|which|adds? up|date|places",
    "rounded": "round|multiple|add up",
    "withheld": "withheld|no count|not there|blank|missing|suppress|number",
    "negative": "negative|below 0|-\\d|number",
    "not people": "people|house|dwelling|unit|turnover|not counts",
    "shares": "share|percent|%|rate|whole numbers|no count",
    "twice": "twice|repeat|again|duplicate|same|several",
    "lost": "total|add up|sum|lost|missing|agree",
    "place": "place|where|blank",
    "names": "place|count|people|adds? up|which|say|name",
    "tables": "table|head|names|again|number|twice|row|line",
}
"""What a message says that names the cause: a pattern, so a heuristic."""


@dataclass(frozen=True)
class Attribute:
    """An attribute that was read: its levels and, by level and place, the people."""

    name: str
    levels: tuple[str, ...]
    people: np.ndarray


@dataclass(frozen=True)
class Reading:
    """A file that was accepted."""

    people: int
    places: int
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True)
class Question:
    """A file that was not accepted without an answer."""

    text: str


Reader = Callable[[Path, Case], "Reading | Question"]
"""Whoever is given a file; the case is there for what a person would answer."""


@dataclass(frozen=True)
class Verdict:
    """How a case ended, and what was said."""

    kind: str
    said: str
    cause_named: bool = False
    """Of a question about a table that must be asked about: its cause is in the words."""
    left_out: bool = False
    """Of a right reading: an attribute was not found."""

    @property
    def fault(self) -> bool:
        return self.kind in FAULTS


class Hang(BaseException):
    """The processor time of a case is used up."""


def judge(case: Case, path: Path, read: Reader, *, seconds: float = CPU_SECONDS) -> Verdict:
    """Let somebody read the file, and say how that ended."""
    try:
        with limited(seconds):
            found = read(path, case)
    except Hang:
        return Verdict("hang", f"more than {seconds:g} s of processor time")
    except (Exception, pl.exceptions.PanicException):
        return Verdict("crash", traceback.format_exc())
    if isinstance(found, Question):
        named = bool(case.ask) and re.search(CAUSES[case.ask], found.text, re.IGNORECASE)
        return Verdict("asked", found.text, cause_named=bool(named))
    got = f"{found.people:,} people in {found.places:,} places"
    said = f"{got}; right: {sorted(case.right) or 'nothing'}{_why(case)}"
    if (found.people, found.places) not in case.right:
        people = found.people in {people for people, _ in case.right}
        return Verdict("wrong places" if people else "wrong people", said)
    used = []
    for one in found.attributes:
        fitting = _fitting(one, case)
        if fitting is None:
            levels = ", ".join(one.levels[:8])
            return Verdict("wrong attributes", f"{said}; attribute {one.name!r}: {levels}")
        used += fitting
    if case.ask:
        return Verdict("unproved", said)
    most = min(len(world.attributes) for world in case.tables)
    return Verdict("right", said, left_out=len(set(used)) < most)


def _why(case: Case) -> str:
    return f" (to be asked about: {case.ask})" if case.ask else ""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise after so much processor time, which no load of the machine changes."""

    def stop(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# --- attributes -------------------------------------------------------------------------------


def _fitting(found: Attribute, case: Case) -> list[str] | None:
    """The true attributes that an attribute read is, whatever its name; or None.

    Levels are compared by how many people they have in each place, so names and codes do not
    matter. Several true attributes may have become one, with all their combinations. Ages may
    have been put together, but only with their neighbours. A level that nobody has is not there.
    """
    if sum(row.any() for row in found.people) < 2:
        return []
    for world in case.tables:
        for size in range(1, len(world.attributes) + 1):
            for own in combinations(range(len(world.attributes)), size):
                if _fits(found, world, own, slack=case.slack):
                    return [world.attributes[k].name for k in own]
    return None


def _fits(found: Attribute, world: World, own: tuple[int, ...], *, slack: bool) -> bool:
    gone = tuple(1 + k for k in range(len(world.attributes)) if k not in own)
    true = world.counts.sum(axis=gone).reshape(world.places, -1).T
    read = found.people
    ordered = len(own) == 1 and world.attributes[own[0]].ages
    if slack:  # numbers were changed: the number of levels must do
        many = int((read.sum(axis=1) > 0).sum())
        return many <= len(true) + 1 if ordered else abs(many - len(true)) <= 1
    if ordered and len(read) < len(true) and (together := _together(true, read)) is not None:
        true = together
    return _canonical(true) == _canonical(read)


def _together(true: np.ndarray, read: np.ndarray) -> np.ndarray | None:
    """Neighbouring levels put together as they were read, or None."""
    ends = np.cumsum(read.sum(axis=1))
    sums = np.cumsum(true.sum(axis=1))
    last = np.searchsorted(sums, ends)
    if (last >= len(sums)).any() or (sums[last] != ends).any():
        return None
    groups = np.searchsorted(ends, sums)
    return np.stack([true[groups == k].sum(axis=0) for k in range(len(read))])


def _canonical(table: np.ndarray) -> list[tuple[int, ...]]:
    """A table of levels and places without their order."""
    kept = table[table.any(axis=1)]
    rows = sorted(range(len(kept)), key=lambda k: (int(kept[k].sum()), sorted(kept[k].tolist())))
    return sorted(tuple(column) for column in kept[rows].T.tolist())


# --- who reads ----------------------------------------------------------------------------------


def by_headcount(path: Path, case: Case) -> Reading | Question:
    """``init --yes`` and ``check --json``, and ``headcount.read``, which must say the same."""
    return _accepted(path, [])


def with_places(path: Path, case: Case) -> Reading | Question:
    """The same, where a person has said which columns say where."""
    where = [" ".join(case.columns[k].head[-1].split()) for k in case.at("place")]
    return _accepted(path, [one for one in where if one and "," not in one])


def _accepted(path: Path, places: list[str]) -> Reading | Question:
    import headcount as hc
    from headcount.errors import HeadcountError

    with contextlib.chdir(path.parent):
        told = ["--places", ",".join(places)] if places else []
        code, out, err = command("init", path.name, "--yes", "--out", "config.toml", *told)
        if not code:
            said = out
            code, out, err = command("check", "config.toml", "--json")
            if code:
                raise AssertionError(f"init wrote what check refuses: {err}\n{said}")
        if code != 2 and code:
            raise AssertionError(f"exit code {code}: {err}")
        try:
            population: Any = hc.read(path.name, geography=places or None)
        except HeadcountError as error:
            if not code:
                raise AssertionError(f"init read what hc.read refuses: {error}") from None
            return Question(err)
        if code:
            raise AssertionError(f"hc.read read what init refuses: {err}")
    read = json.loads(out)["read"]
    found = Reading(int(read["people"]), int(read["levels"][-1]["units"]), _of(population))
    if found.attributes and int(found.attributes[0].people.sum()) != found.people:
        raise AssertionError("init and hc.read do not read the same people")
    return found


def _of(population: Any) -> tuple[Attribute, ...]:
    schema = population.schema
    if not schema.attributes:
        return ()
    places = len(population.geography.units[-1])
    counts = np.ones(len(population.unit)) if population.count is None else population.count
    codes = np.unravel_index(population.cell, schema.shape)
    found = []
    for attribute, code in zip(schema.attributes, codes, strict=True):
        people = np.zeros((len(attribute.levels), places), dtype=np.int64)
        np.add.at(people, (code, population.unit), counts.astype(np.int64))
        found.append(Attribute(attribute.name, attribute.levels, people))
    return tuple(found)


def command(*arguments: str) -> tuple[int, str, str]:
    """Run a command in this process: exit code, output, errors."""
    from headcount.cli import app

    logging.getLogger().addHandler(_QUIET)  # else the first command's handler would stay
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            patch.object(sys, "argv", ["headcount", *arguments]),
        ):
            app.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return code, out.getvalue(), err.getvalue()


_QUIET = logging.NullHandler()


def by_summing(path: Path, case: Case) -> Reading | Question:
    """Whoever adds up all columns of whole numbers: a control that the judge must catch."""
    if path.suffix == ".xlsx":
        return Question("a sheet")
    try:
        table = pl.read_csv(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        return Question(str(error))
    whole = table.select(pl.selectors.integer())
    text = table.select(pl.selectors.string())
    people = sum(whole.sum().row(0)) if whole.width else table.height
    return Reading(int(people or 0), max([c.n_unique() for c in text], default=1))


READERS: dict[str, Reader] = {
    "headcount": by_headcount,
    "headcount with places": with_places,
    "summing": by_summing,
}
