"""The 1940 census as IPUMS gives it: unit (H) and person (P) records of fixed width.

Columns and recodes are those of the Census Bureau's 2018 end-to-end test on 1940 data.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.fields import FilePath
from headcount.geography.geography import Geography, Prefixes, build_geography
from headcount.population import UNITS_READ_OFF, FromFile
from headcount.population.population import Population, Quarters, ReadSummary
from headcount.processes import Progress, silent
from headcount.schema import Schema
from headcount.schema.load import load_schema
from headcount_papers.fixed_width import (
    BLOCK_BYTES,
    Fault,
    Field,
    Lines,
    block_count,
    lines_digest,
    numbers,
    read_lines,
)

log = logging.getLogger(__name__)

Orphans = Literal["refuse", "drop"]
"""What to do with people whose unit is nowhere in the file."""

SERIAL = Field("SERIAL", 7, 15)
UNIT_FIELDS = (
    SERIAL,
    Field("STATEFIP", 53, 55),
    Field("COUNTY", 55, 59),
    Field("GQ", 93, 94, b"0123456", "0 to 6"),
    # The 2018 code lets 1 and 5 through unchanged, among the recoded 2 and 7.
    Field("GQTYPE", 94, 95, b"02346789", "0, 2 to 4 or 6 to 9 (1 and 5 have no type of their own)"),
    Field("ENUMDIST", 124, 128),
)
PERSON_FIELDS = (
    SERIAL,
    Field("AGE", 73, 76),
    Field("RACE", 84, 85, b"123456", "1 to 6"),
    Field("HISPAN", 88, 89),
)

PLACE_FIELDS = ("STATEFIP", "COUNTY", "ENUMDIST")

TYPE_OF_GQTYPE = np.array([0, -1, 1, 2, 3, -1, 4, 5, 6, 7])
TYPES = 8
HOME = 3  # for the elderly, handicapped or poor
VACANT = 8  # the slot after the types: a housing unit (GQTYPE 0) with GQ 0
ADULT = 18
PLACES = Prefixes(
    column="code",
    prefixes=(("state", 2), ("county", 6), ("enumeration_district", 10)),
    root="nation",
)

MERGE_AT = 1 << 20
"""Entries of a tally that wait to be merged, at least."""

_UNIT, _ORPHAN = 1, 2


@dataclass(frozen=True, eq=False, repr=False)
class Extract:
    """What an extract holds; ``notes`` count what was left out, and are the curator's alone."""

    population: Population
    quarters: Quarters
    notes: Mapping[str, int]

    def __repr__(self) -> str:
        return f"<Extract {self.population.name!r}>"


def read_ipums1940(
    path: Path,
    *,
    orphans: Orphans = "refuse",
    nurse_nva_0: bool = False,
    public: bool = False,
    progress: Progress = silent,
) -> tuple[Population, Quarters]:
    """People by district and cell, and living quarters by district and type; see read_extract."""
    extract = read_extract(
        path, orphans=orphans, nurse_nva_0=nurse_nva_0, public=public, progress=progress
    )
    return extract.population, extract.quarters


def read_extract(
    path: Path,
    *,
    orphans: Orphans = "refuse",
    nurse_nva_0: bool = False,
    public: bool = False,
    progress: Progress = silent,
    block_bytes: int = BLOCK_BYTES,
) -> Extract:
    """Read an extract, plain or gzip, in one pass; memory does not grow with the file.

    People stand right after their unit, as IPUMS writes them; a file in another order is refused.
    Districts with vacant units only are kept. With ``orphans="drop"`` people whose unit is nowhere
    in the file are left out, as the 2018 code does, and counted in the notes. With ``nurse_nva_0``
    nobody under 18 may be in a home for the elderly or poor (schema ``e2e-2018-nurse``).
    """
    path = Path(path)
    name = str(path)
    if orphans not in ("refuse", "drop"):
        raise ConfigError("orphans", found=repr(orphans), expected="'refuse' or 'drop'")
    reader = _Reader(name, orphans, nurse_nva_0=nurse_nva_0)
    blocks = read_lines(path, block_bytes=block_bytes)
    total = block_count(path, block_bytes=block_bytes)
    for lines in progress(blocks, what="reading people", total=total):
        reader.take(lines)
    reader.refuse_broken_end()
    if reader.dropped:
        log.warning("%s: people without a unit were left out (read_extract notes how many)", name)

    schema = schema_1940(nurse_nva_0=nurse_nva_0)
    geography, occupied, vacant = _quarters(reader.units, name)
    key, count = reader.people.result()
    leaf = geography.units[-1].astype(np.int64)
    population = Population(
        name,
        Domain(schema, geography, read_off=UNITS_READ_OFF, one_person=one_record(orphans)),
        np.searchsorted(leaf, key // schema.size).astype(np.int32),
        (key % schema.size).astype(np.int32),
        count,
        public=public,
        reading=ReadSummary(
            rows=(("people", int(count.sum())), ("units", int(occupied.sum() + vacant.sum()))),
            left_out=(("people without a unit", reader.dropped),) if reader.dropped else (),
        ),
    )
    quarters = Quarters(geography, "hhgq", occupied, vacant)
    return Extract(population, quarters, {"people_without_a_unit": reader.dropped})


def one_record(orphans: Orphans) -> str:
    """What one person is in an extract."""
    said = "one person is one record of a person (P), in whichever unit (H) it is"
    left = "; a record without a unit is left out, and is nobody's"
    return said + (left if orphans == "drop" else "")


def schema_1940(*, nurse_nva_0: bool) -> Schema:
    """The cells of 1940, with or without the structural zero."""
    return load_schema("e2e-2018-nurse" if nurse_nva_0 else "e2e-2018")


def read_places(path: Path) -> Geography:
    """The districts of an extract, from the codes of places in its units (H) alone."""
    tally, fields = _Tally(), [one for one in UNIT_FIELDS if one.name in PLACE_FIELDS]
    for lines in read_lines(Path(path)):
        units = lines[(lines.length >= fields[-1].stop) & (lines.bytes_at(0) == ord("H"))]
        codes, fault = numbers(units, fields)
        if fault:
            raise fault.error(str(path))
        tally.add(_district(codes))
    return _districts(tally.result()[0], str(path))


def _district(codes: Mapping[str, Ints]) -> Ints:
    return codes["STATEFIP"] * 10**8 + codes["COUNTY"] * 10**4 + codes["ENUMDIST"]


def _districts(district: Ints, name: str) -> Geography:
    """The tree of districts by their numbers."""
    if not len(district):
        raise InputError(name, found="no records", expected="at least one unit (H)")
    codes = [f"{code:010d}" for code in district.tolist()]
    geography, _ = build_geography(pl.DataFrame({"code": codes}), PLACES, name=name)
    return geography


def _quarters(units: _Tally, name: str) -> tuple[Geography, Ints, Ints]:
    key, count = units.result()
    district, row = np.unique(key // (TYPES + 1), return_inverse=True)
    geography = _districts(district, name)
    table = np.zeros((len(district), TYPES + 1), dtype=np.int64)
    table[row, key % (TYPES + 1)] = count
    return geography, table[:, :TYPES].copy(), table[:, VACANT].copy()


@dataclass(eq=False)
class _Tally:
    """How often each key came, held as sorted distinct keys; new ones are merged now and then."""

    parts: list[tuple[Ints, Ints]] = field(default_factory=list)
    waiting: int = 0

    def add(self, keys: Ints) -> None:
        self.parts.append(np.unique(keys, return_counts=True))
        self.waiting += len(self.parts[-1][0])
        # Merge when the new entries outnumber both the merged ones and a floor: linear in all.
        if self.waiting > max(MERGE_AT, 2 * len(self.parts[0][0])):
            self.result()

    def result(self) -> tuple[Ints, Ints]:
        empty = np.empty(0, dtype=np.int64)
        keys = np.concatenate([empty, *(part[0] for part in self.parts)])
        counts = np.concatenate([empty, *(part[1] for part in self.parts)])
        distinct, where = np.unique(keys, return_inverse=True)
        total = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(total, where, counts)
        self.parts, self.waiting = [(distinct, total)], len(distinct)
        return distinct, total


@dataclass(eq=False)
class _Unit:
    """The unit that the next people belong to."""

    serial: int = -1
    district: int = 0
    kind: int = 0


class _Reader:
    """One pass over the lines: the tallies, and what must be remembered from block to block."""

    def __init__(self, name: str, orphans: Orphans, *, nurse_nva_0: bool = False) -> None:
        self.name = name
        self.orphans = orphans
        self.nurse_nva_0 = nurse_nva_0
        self.people = _Tally()
        self.units = _Tally()
        self.dropped = 0
        self._current = _Unit()
        self._open_unit: int | None = None  # line of an occupied unit without people so far
        self._length: dict[str, int] = {}  # of each kind of record, from its first line
        # One byte for each SERIAL there can be; the system gives memory only to those that occur.
        self._seen = np.zeros(10 ** (SERIAL.stop - SERIAL.start), dtype=np.uint8)

    def take(self, lines: Lines) -> None:
        """Add a block of lines; of several faults the first in the file is raised.

        Each check cuts the block before its first fault, and the lines above it go through the
        later checks first.
        """
        fault = self._misshapen(lines)
        lines = _before(lines, fault)
        is_unit = lines.bytes_at(0) == ord("H")
        units, unit_fault = numbers(lines[is_unit], UNIT_FIELDS)
        people, person_fault = numbers(lines[~is_unit], PERSON_FIELDS)
        field_fault = min((f for f in (unit_fault, person_fault) if f), default=None)
        if field_fault:
            fault = field_fault
            kept = lines.number < fault.line
            units = {key: value[kept[is_unit]] for key, value in units.items()}
            people = {key: value[kept[~is_unit]] for key, value in people.items()}
            lines, is_unit = lines[kept], is_unit[kept]
        self._join(lines, is_unit, units, people)
        if fault:
            raise fault.error(self.name)

    def _misshapen(self, lines: Lines) -> Fault | None:
        """The first line that is no record, or is shorter or longer than others of its kind."""
        kind = np.where(lines.length > 0, lines.bytes_at(0), 0)
        faults = [
            _unknown_kind(lines, kind),
            self._other_length(lines, kind, "H", UNIT_FIELDS),
            self._other_length(lines, kind, "P", PERSON_FIELDS),
        ]
        return min((fault for fault in faults if fault), default=None)

    def _other_length(
        self, lines: Lines, kind: NDArray[np.uint8], letter: str, fields: Sequence[Field]
    ) -> Fault | None:
        at = np.flatnonzero(kind == ord(letter))
        if not len(at):
            return None
        needed = max(item.stop for item in fields)
        usual = self._length.setdefault(letter, int(lines.length[at[0]]))
        bad = at[(lines.length[at] != usual) | (lines.length[at] < needed)]
        if not len(bad):
            return None
        expected = f"{usual} as in the first {letter} record"
        return Fault(
            int(lines.number[bad[0]]),
            f"{letter} record",
            f"{lines.length[bad[0]]} characters",
            expected if usual >= needed else f"at least {needed}",
        )

    def _join(
        self,
        lines: Lines,
        is_unit: Flags,
        units: Mapping[str, Ints],
        people: Mapping[str, Ints],
    ) -> None:
        """Put people into the unit they follow, check that it is theirs, and add to the tallies."""
        current = self._current
        district = _district(units)
        kind = TYPE_OF_GQTYPE[units["GQTYPE"]]
        vacant = (kind == 0) & (units["GQ"] == 0)
        serials = np.concatenate([[current.serial], units["SERIAL"]])
        districts = np.concatenate([[current.district], district])
        kinds = np.concatenate([[current.kind], kind])
        owner = np.cumsum(is_unit)[~is_unit]  # 0 is the unit carried over from the last block
        mine = people["SERIAL"] == serials[owner]

        faults = [
            self._note_units(units["SERIAL"], lines.number[is_unit]),
            self._note_strays(people["SERIAL"], ~mine, lines.number[~is_unit], serials[owner]),
            self._minor_in_home(
                people["AGE"], mine & (kinds[owner] == HOME), lines.number[~is_unit]
            ),
        ]
        if fault := min((f for f in faults if f), default=None):
            raise fault.error(self.name)

        cell = (people["AGE"] >= ADULT) * 2 + (people["HISPAN"] > 0)
        cell = (kinds[owner] * 4 + cell) * 6 + people["RACE"] - 1
        self.people.add((districts[owner] * (TYPES * 24) + cell)[mine])
        self.units.add(district * (TYPES + 1) + np.where(vacant, VACANT, kind))

        if len(kind):
            self._current = _Unit(int(serials[-1]), int(districts[-1]), int(kinds[-1]))
            self._open_unit = None if vacant[-1] else int(lines.number[is_unit][-1])
        if mine.any() and owner[mine][-1] == len(kind):
            self._open_unit = None

    def _note_units(self, serial: Ints, number: Ints) -> Fault | None:
        """Remember the units; a unit that was there before, or after its people, is a fault."""
        first = np.zeros(len(serial), dtype=bool)
        first[np.unique(serial, return_index=True)[1]] = True
        state = self._seen[serial]
        self._seen[serial] = _UNIT
        bad = np.flatnonzero(~first | (state != 0))
        if not len(bad):
            return None
        at = bad[0]
        late = first[at] and state[at] == _ORPHAN
        return Fault(
            int(number[at]),
            SERIAL.name,
            f"'{serial[at]:08d}', " + ("a unit whose people stand above it" if late else "again"),
            "people right after their unit" if late else "one unit (H) for each SERIAL",
        )

    def _note_strays(
        self,
        serial: Ints,
        stray: Flags,
        number: Ints,
        above: Ints,
    ) -> Fault | None:
        """People with another SERIAL than the unit they follow: refuse them, or leave them out.

        To leave out is right only if their unit is nowhere in the file: their SERIAL is marked,
        and a unit that has it, found by now or later, is a fault.
        """
        at = np.flatnonzero(stray)
        if not len(at):
            return None
        if self.orphans == "refuse":
            follows = (
                f"'{above[at[0]]:08d}', the unit above" if above[at[0]] >= 0 else "a unit above"
            )
            return Fault(
                int(number[at[0]]),
                SERIAL.name,
                f"'{serial[at[0]]:08d}' of a person",
                f"{follows} (people stand right after their unit)",
            )
        apart = at[self._seen[serial[at]] == _UNIT]
        if len(apart):
            return Fault(
                int(number[apart[0]]),
                SERIAL.name,
                f"'{serial[apart[0]]:08d}', a person whose unit stands elsewhere in the file",
                "people right after their unit",
            )
        self._seen[serial[at]] = _ORPHAN
        self.dropped += len(at)
        return None

    def _minor_in_home(self, age: Ints, in_home: Flags, number: Ints) -> Fault | None:
        """Someone who cannot be there by the structural zero, if it is asked for."""
        bad = np.flatnonzero(in_home & (age < ADULT))
        if not self.nurse_nva_0 or not len(bad):
            return None
        return Fault(
            int(number[bad[0]]),
            "AGE",
            f"under {ADULT} in a unit of GQTYPE 4",
            f"{ADULT} or more there (nurse_nva_0 is a structural zero)",
        )

    def refuse_broken_end(self) -> None:
        """A file cut between two lines shows only where an occupied unit comes last."""
        if self._open_unit is not None:
            raise Fault(
                self._open_unit,
                "",
                "the end of the file after an occupied unit",
                "its people (is the file cut short?)",
            ).error(self.name)


def _unknown_kind(lines: Lines, kind: NDArray[np.uint8]) -> Fault | None:
    known = (kind == ord("H")) | (kind == ord("P"))
    if known.all():
        return None
    line = int(np.argmin(known))
    found = repr(lines.text(line, 0, 1)) if lines.length[line] else "an empty line"
    return Fault(int(lines.number[line]), "record type", found, "H or P")


def _before(lines: Lines, fault: Fault | None) -> Lines:
    return lines if fault is None else lines[lines.number < fault.line]


@dataclass(frozen=True, kw_only=True)
class Ipums1940(FromFile):
    """The extract, with its living quarters.

    where
        file          fixed width, .gz allowed
        orphans       what to do with people whose housing unit is not in the file
        nurse_nva_0   nobody under 18 in homes for the elderly or poor: a structural zero
        public        whether the data are public: no "do not publish" banner
    """

    kind = "ipums1940"
    file: FilePath
    orphans: Orphans = "refuse"
    nurse_nva_0: bool = False
    public: bool = False

    def read(self, progress: Progress = silent) -> Population:
        """Read the people and their living quarters."""
        people, quarters = read_ipums1940(
            self.file,
            orphans=self.orphans,
            nurse_nva_0=self.nurse_nva_0,
            public=self.public,
            progress=progress,
        )
        return replace(people, quarters=quarters)

    def domain(self) -> Domain:
        """The cells of 1940, and the places of the units (H)."""
        return Domain(
            schema_1940(nurse_nva_0=self.nurse_nva_0),
            read_places(self.file),
            read_off=UNITS_READ_OFF,
            one_person=one_record(self.orphans),
        )

    @property
    def places_from(self) -> Path:
        """The extract: there is no other list of districts."""
        return self.file

    def source_digest(self) -> str:
        """The digest of the file's lines, in blocks."""
        return lines_digest(self.file)
