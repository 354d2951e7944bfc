"""The 1940 fixed-width reader against a parser that goes line by line, and its complaints."""

import gzip
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import ConfigError, InputError
from headcount.population.population import ReadSummary
from headcount.processes import silent
from headcount_papers.ipums1940 import Extract, read_extract, read_ipums1940

UNIT_LENGTH, PERSON_LENGTH = 159, 273


@dataclass(frozen=True)
class Unit:
    """A unit record."""

    serial: int | str = 1
    state: str = "01"
    county: str = "0010"
    district: str = "0007"
    gq: int | str = 1
    gqtype: int | str = 0

    def line(self) -> str:
        places = {7: f"{self.serial:0>8}", 53: self.state, 55: self.county, 93: str(self.gq)}
        return record("H", UNIT_LENGTH, {**places, 94: str(self.gqtype), 124: self.district})


@dataclass(frozen=True)
class Person:
    """A person record."""

    serial: int | str = 1
    age: int | str = 30
    race: int | str = 1
    hispan: int | str = 0

    def line(self) -> str:
        places = {7: f"{self.serial:0>8}", 73: f"{self.age:0>3}", 84: str(self.race)}
        return record("P", PERSON_LENGTH, {**places, 88: str(self.hispan)})


Record = Unit | Person


def record(kind: str, length: int, places: dict[int, str]) -> str:
    """A line of letters that no parser could take for digits, with the fields in their columns."""
    line = list(kind + "." * (length - 1))
    for start, text in places.items():
        line[start : start + len(text)] = text
    return "".join(line)


def write(path: Path, records: Sequence[Record]) -> Path:
    path.write_text("".join(f"{item.line()}\n" for item in records), encoding="latin-1")
    return path


def slow(path: Path) -> tuple[Counter[tuple[str, int]], Counter[tuple[str, int]], int]:
    """People by district and cell, quarters by district and slot, orphans: one line at a time."""
    lines = path.read_text().splitlines()
    units = {}
    people: Counter[tuple[str, int]] = Counter()
    quarters: Counter[tuple[str, int]] = Counter()
    recode = {"0": 0, "2": 1, "3": 2, "4": 3, "6": 4, "7": 5, "8": 6, "9": 7}
    for line in lines:
        if line.startswith("H"):
            code = line[53:55] + line[55:59] + line[124:128]
            kind = recode[line[94:95]]
            units[line[7:15]] = (code, kind)
            quarters[code, 8 if kind == 0 and line[93:94] == "0" else kind] += 1
    orphans = 0
    for line in lines:
        if line.startswith("P"):
            if line[7:15] not in units:
                orphans += 1
                continue
            code, kind = units[line[7:15]]
            levels = (kind, int(int(line[73:76]) >= 18), int(line[88:89] != "0"), int(line[84]) - 1)
            people[code, int(np.ravel_multi_index(levels, (8, 2, 2, 6)))] += 1
    return people, quarters, orphans


def assert_same(extract: Extract, path: Path) -> None:
    people, quarters, orphans = slow(path)
    population, found = extract.population, extract.quarters
    codes = [str(code) for code in population.geography.units[-1]]
    assert population.count is not None
    entries = zip(population.unit, population.cell, population.count, strict=True)
    assert {(codes[u], int(c)): int(n) for u, c, n in entries} == people
    slots = np.column_stack([found.occupied, found.vacant])
    at = zip(*np.nonzero(slots), strict=True)
    assert {(codes[u], int(k)): int(slots[u, k]) for u, k in at} == quarters
    assert codes == sorted({code for code, _ in quarters})
    assert extract.notes == {"people_without_a_unit": orphans}
    assert population.reading == ReadSummary(
        rows=(("people", sum(people.values())), ("units", sum(quarters.values()))),
        left_out=(("people without a unit", orphans),) if orphans else (),
    )


GOOD: list[Record] = [
    Unit(serial=1),
    Person(serial=1, age=17, race=6, hispan=4),
    Person(serial=1, age=18, race=2),
    Unit(serial=2, gq=0, state="06", district="0001"),  # a district of vacant units only
    Unit(serial=3, gq=4, gqtype=9),
    Person(serial=3, hispan=9),
]


# --- right answers -----------------------------------------------------------------------------


def test_a_small_file_by_hand(tmp_path: Path) -> None:
    population, quarters = read_ipums1940(write(tmp_path / "a.dat", GOOD))
    geography, schema = population.geography, population.schema
    assert geography.levels == ("nation", "state", "county", "enumeration_district")
    assert [units.tolist() for units in geography.units[1:]] == [
        ["01", "06"],
        ["010010", "060010"],
        ["0100100007", "0600100001"],
    ]
    assert population.domain.read_off == ("which units exist",)
    assert not population.public
    wanted = [
        ("household", "under_18", "hispanic", "other"),
        ("household", "18_and_over", "not_hispanic", "black"),
        ("other", "18_and_over", "hispanic", "white"),
    ]
    cells = [schema.cell(**dict(zip(schema.names, levels, strict=True))) for levels in wanted]
    assert sorted(population.cell.tolist()) == sorted(cells)
    assert population.unit.tolist() == [0, 0, 0]
    assert quarters.attribute == "hhgq"
    assert quarters.occupied.tolist() == [[1, 0, 0, 0, 0, 0, 0, 1], [0] * 8]
    assert quarters.vacant.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("gqtype", "kind"), [(0, 0), (2, 1), (3, 2), (4, 3), (6, 4), (7, 5), (8, 6), (9, 7)]
)
def test_each_type_of_quarters(tmp_path: Path, gqtype: int, kind: int) -> None:
    records: list[Record] = [Unit(gqtype=gqtype), Person()]
    population, quarters = read_ipums1940(write(tmp_path / "a.dat", records))
    assert quarters.occupied[0].tolist() == [int(k == kind) for k in range(8)]
    assert population.cell.tolist() == [kind * 24 + 12]


def test_a_facility_with_gq_0_is_not_vacant(tmp_path: Path) -> None:
    # Vacant means a housing unit with GQ 0; the 2018 code counts facilities whatever GQ says.
    records: list[Record] = [Unit(gq=0, gqtype=6), Person()]
    _, quarters = read_ipums1940(write(tmp_path / "a.dat", records))
    assert quarters.vacant.tolist() == [0]
    assert quarters.occupied[0, 4] == 1


def test_gzip_and_line_ends(tmp_path: Path) -> None:
    plain = write(tmp_path / "a.dat", GOOD)
    zipped = tmp_path / "a.dat.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    windows = tmp_path / "b.dat"
    windows.write_bytes(plain.read_bytes().replace(b"\n", b"\r\n"))
    open_end = tmp_path / "c.dat"
    open_end.write_bytes(plain.read_bytes().rstrip(b"\n"))
    for path in (plain, zipped, windows, open_end):
        assert_same(read_extract(path), path if path != zipped else plain)


def test_progress_is_told_how_much_there_is(tmp_path: Path) -> None:
    path = write(tmp_path / "a.dat", GOOD)
    zipped = tmp_path / "a.dat.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    totals = []

    def watch(items, *, what, total=None):
        totals.append(total)
        return silent(items, what=what)

    read_extract(path, progress=watch, block_bytes=path.stat().st_size - 1)
    read_ipums1940(zipped, progress=watch)
    assert totals == [2, None]


@st.composite
def files(draw: st.DrawFn) -> list[Record]:
    """Units in any order of SERIAL, in few districts, with people, orphans anywhere."""
    serials = draw(st.lists(st.integers(0, 10**8 - 1), min_size=1, max_size=12, unique=True))
    known = draw(st.integers(1, len(serials)))
    records: list[Record] = []

    def people(serial: int, least: int) -> list[Person]:
        return [
            Person(
                serial=serial,
                age=draw(st.sampled_from([0, 17, 18, 19, 108])),
                race=draw(st.integers(1, 6)),
                hispan=draw(st.integers(0, 9)),
            )
            for _ in range(draw(st.integers(least, 4)))
        ]

    for serial in serials[:known]:
        unit = Unit(
            serial=serial,
            state=draw(st.sampled_from(["01", "56"])),
            county=draw(st.sampled_from(["0010", "9999"])),
            district=draw(st.sampled_from(["0000", "0123"])),
            gq=draw(st.integers(0, 6)),
            gqtype=draw(st.sampled_from([0, 2, 3, 4, 6, 7, 8, 9])),
        )
        empty = unit.gq == 0 and unit.gqtype == 0
        records += [unit, *people(serial, 0 if empty else 1)]
    for serial in serials[known:]:
        records += people(serial, 1)
    return records


@settings(max_examples=80, deadline=None)
@given(records=files(), block=st.integers(300, 3000))
def test_same_as_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record], block: int
) -> None:
    path = write(tmp_path_factory.mktemp("ipums") / "a.dat", records)
    assert_same(read_extract(path, orphans="drop", block_bytes=block), path)


def test_the_guarantee_is_told_what_one_person_is(tmp_path: Path) -> None:
    """By the setting, not by whether the file has people without a unit."""
    path = write(tmp_path / "a.dat", GOOD)
    one = "one person is one record of a person (P), in whichever unit (H) it is"
    assert read_extract(path).population.domain.one_person == one
    assert read_extract(path, orphans="drop").population.domain.one_person == (
        f"{one}; a record without a unit is left out, and is nobody's"
    )


def test_many_blocks_and_merged_tallies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headcount_papers.ipums1940.MERGE_AT", 7)
    draw = np.random.default_rng(3)
    records: list[Record] = []
    for serial in range(1, 400):
        district = f"{draw.integers(60):04d}"
        records.append(Unit(serial=serial, district=district, gqtype=int(draw.choice([0, 2, 9]))))
        for _ in range(draw.integers(1, 5)):
            records.append(
                Person(serial=serial, age=int(draw.integers(99)), race=int(draw.integers(1, 7)))
            )
    path = write(tmp_path / "a.dat", records)
    for block in (300, 4096, 1 << 22):
        assert_same(read_extract(path, block_bytes=block), path)


# --- complaints --------------------------------------------------------------------------------


def complaint(path: Path, **options) -> str:
    """The message, without the path; the same whatever the blocks."""
    messages = set()
    for block in (300, 1000, 1 << 22):
        with pytest.raises(InputError) as caught:
            read_extract(path, block_bytes=block, **options)
        messages.add(str(caught.value))
    assert len(messages) == 1, messages
    message = messages.pop()
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ({"gq": 7}, "line 4, GQ: found '7', expected 0 to 6"),
        ({"gq": " "}, "line 4, GQ: found ' ', expected 0 to 6"),
        ({"gqtype": 1}, "line 4, GQTYPE: found '1', expected 0, 2 to 4 or 6 to 9"),
        ({"gqtype": 5}, "line 4, GQTYPE: found '5', expected 0, 2 to 4 or 6 to 9"),
        ({"serial": "1x"}, "line 4, SERIAL: found '0000001x', expected digits"),
        ({"state": " 1"}, "line 4, STATEFIP: found ' 1', expected digits"),
        ({"county": "00-1"}, "line 4, COUNTY: found '00-1', expected digits"),
        ({"district": "12A4"}, "line 4, ENUMDIST: found '12A4', expected digits"),
        ({"district": "\u00e9234"}, "line 4, ENUMDIST: found '\u00e9234', expected digits"),
        ({"gq": 9, "gqtype": 5}, "line 4, GQ: found '9', expected 0 to 6"),
    ],
)
def test_illegal_values_of_a_unit(tmp_path: Path, unit: dict[str, str], message: str) -> None:
    fields = {"serial": "2", "gq": "0", **unit}
    records = [*GOOD[:3], Unit(**fields), *GOOD[4:]]
    assert complaint(write(tmp_path / "a.dat", records)).startswith(message)


@pytest.mark.parametrize(
    ("person", "message"),
    [
        ({"race": 0}, "line 2, RACE: found '0', expected 1 to 6"),
        ({"race": 7}, "line 2, RACE: found '7', expected 1 to 6"),
        ({"race": "x"}, "line 2, RACE: found 'x', expected 1 to 6"),
        ({"age": "1 8"}, "line 2, AGE: found '1 8', expected digits"),
        ({"hispan": " "}, "line 2, HISPAN: found ' ', expected digits"),
        ({"serial": "oops"}, "line 2, SERIAL: found '0000oops', expected digits"),
    ],
)
def test_illegal_values_of_a_person(tmp_path: Path, person: dict[str, str], message: str) -> None:
    records = [GOOD[0], Person(**person), *GOOD[2:]]
    assert complaint(write(tmp_path / "a.dat", records)) == message


def test_of_many_faults_the_first_in_the_file_is_named(tmp_path: Path) -> None:
    stray, bad_unit, bad_person = Person(serial=8), Unit(serial=7, gq=9), Person(race=9)
    orders: list[tuple[list[Record], str]] = [
        ([GOOD[0], stray, bad_unit, bad_person], "line 2, SERIAL"),
        ([GOOD[0], bad_unit, bad_person, stray], "line 2, GQ"),
        ([GOOD[0], bad_person, stray, bad_unit], "line 2, RACE"),
    ]
    for records, message in orders:
        path = write(tmp_path / "a.dat", records)
        path.write_text(path.read_text() + "?\n")
        assert complaint(path).startswith(message)
    path.write_text("?\n" + path.read_text())
    assert complaint(path).startswith("line 1, record type")


def changed(change: Callable[[list[str]], list[str]], path: Path) -> str:
    lines = [item.line() + "\n" for item in GOOD]
    path.write_text("".join(change(lines)))
    return complaint(path)


def test_lines_that_are_no_records(tmp_path: Path) -> None:
    path = tmp_path / "a.dat"
    message = "line 3, record type: found 'X', expected H or P"
    assert changed(lambda a: [*a[:2], "X" + a[2][1:], *a[3:]], path) == message
    message = "line 3, record type: found an empty line, expected H or P"
    assert changed(lambda a: [*a[:2], "\n", *a[2:]], path) == message
    message = "line 3, P record: found 100 characters, expected 273 as in the first P record"
    assert changed(lambda a: [*a[:2], a[2][:100] + "\n", *a[3:]], path) == message
    message = "line 4, H record: found 160 characters, expected 159 as in the first H record"
    assert changed(lambda a: [*a[:3], " ".join([a[3][:9], a[3][9:]]), *a[4:]], path) == message
    message = "line 1, H record: found 127 characters, expected at least 128"
    assert changed(lambda a: [line[:127] + "\n" for line in a], path) == message


def test_a_file_cut_short(tmp_path: Path) -> None:
    text = "".join(item.line() + "\n" for item in GOOD)
    path = tmp_path / "a.dat"
    path.write_text(text[:-20])
    assert complaint(path).startswith("line 6, P record: found 254 characters, expected 273")
    path.write_text(text[: -PERSON_LENGTH - 1])
    message = "line 5: found the end of the file after an occupied unit, expected its people"
    assert complaint(path).startswith(message)
    zipped = tmp_path / "a.dat.gz"
    zipped.write_bytes(gzip.compress(text.encode())[:-12])
    assert "breaks off or is damaged" in complaint(zipped)
    damaged = bytearray(gzip.compress(text.encode()))
    damaged[-8] ^= 0xFF  # the checksum
    zipped.write_bytes(damaged)
    assert "breaks off or is damaged" in complaint(zipped)


def test_not_such_a_file_at_all(tmp_path: Path) -> None:
    assert complaint(tmp_path / "b.dat").startswith("found no such file")
    (tmp_path / "a.dat").touch()
    assert complaint(tmp_path / "a.dat") == "found no records, expected at least one unit (H)"
    path = write(tmp_path / "c.dat", GOOD)
    path.write_text(path.read_text() + "H" * 5000)
    with pytest.raises(InputError, match="line 7: found no line end in 1,000 bytes"):
        read_extract(path, block_bytes=1000)
    with pytest.raises(ConfigError, match="orphans: found 'keep', expected 'refuse' or 'drop'"):
        read_extract(path, orphans="keep")  # type: ignore[arg-type]


# --- people and units that do not meet -----------------------------------------------------------


def test_orphans_are_refused_unless_dropped_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.dat", [*GOOD, Person(serial=77), Person(serial=77)])
    message = "line 7, SERIAL: found '00000077' of a person, expected '00000003', the unit above"
    assert complaint(path).startswith(message)
    with caplog.at_level(logging.DEBUG):
        extract = read_extract(path, orphans="drop")
    assert extract.notes == {"people_without_a_unit": 2}
    assert_same(extract, path)
    assert "people without a unit were left out" in caplog.text
    assert not any(digit in caplog.messages[0].replace(str(path), "") for digit in "0123456789")
    assert repr(extract) == f"<Extract {str(path)!r}>"

    path = write(tmp_path / "b.dat", [Person(serial=5), *GOOD])
    assert complaint(path).startswith("line 1, SERIAL: found '00000005' of a person, expected a un")
    assert_same(read_extract(path, orphans="drop"), path)


def test_people_apart_from_their_unit_are_never_dropped(tmp_path: Path) -> None:
    above = write(tmp_path / "a.dat", [*GOOD, Person(serial=1)])
    message = "line 7, SERIAL: found '00000001', a person whose unit stands elsewhere in the file"
    assert complaint(above, orphans="drop").startswith(message)
    far = write(tmp_path / "b.dat", [Person(serial=3), *GOOD])
    with pytest.raises(InputError, match="line 6, SERIAL: found '00000003', a unit whose people s"):
        read_extract(far, orphans="drop", block_bytes=300)
    with pytest.raises(InputError, match="line 1, SERIAL: found '00000003', a person whose unit s"):
        read_extract(far, orphans="drop")
    for path in (above, far):
        with pytest.raises(InputError, match="people stand right after their unit"):
            read_extract(path)


def test_a_unit_twice(tmp_path: Path) -> None:
    message = "line 7, SERIAL: found '00000002', again, expected one unit (H) for each SERIAL"
    assert complaint(write(tmp_path / "a.dat", [*GOOD, GOOD[3]])) == message


def test_nurse_nva_0_is_a_structural_zero_on_request(tmp_path: Path) -> None:
    home: list[Record] = [
        Unit(serial=1, gqtype=4),
        Person(serial=1, age=18),
        Unit(serial=2),
        Person(2, age=3),
    ]
    path = write(tmp_path / "adults.dat", home)
    plain = read_extract(path).population
    extract = read_extract(path, nurse_nva_0=True)
    assert_same(extract, path)
    assert not plain.schema.structural_zeros
    assert int((~extract.population.schema.possible).sum()) == 12
    assert read_ipums1940(path, nurse_nva_0=True)[0].schema == extract.population.schema


def test_a_minor_in_a_home_contradicts_nurse_nva_0(tmp_path: Path) -> None:
    people = [Person(serial=1, age=40), Person(serial=1, age=17)]
    path = write(tmp_path / "minor.dat", [Unit(serial=1, gqtype=4), *people])
    read_extract(path)  # off, as for 1940
    assert complaint(path, nurse_nva_0=True).endswith(
        "line 3, AGE: found under 18 in a unit of GQTYPE 4, expected 18 or more there "
        "(nurse_nva_0 is a structural zero)"
    )
    # Of the people who are left out nobody is asked, and the unit may stand in an earlier block.
    stray: list[Record] = [Unit(serial=1, gqtype=4), Person(serial=1), Person(serial=9, age=5)]
    path = write(tmp_path / "stray.dat", stray)
    read_extract(path, nurse_nva_0=True, orphans="drop")
    long: list[Record] = [
        Unit(serial=1, gqtype=4),
        *[Person(serial=1)] * 40,
        Person(serial=1, age=2),
    ]
    path = write(tmp_path / "long.dat", long)
    assert "line 42, AGE" in complaint(path, nurse_nva_0=True)
