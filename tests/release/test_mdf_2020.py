"""Records of the redistricting product of 2020: exact lines, and faults that are found in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from headcount.domain import Domain
from headcount.errors import ConfigError, InputError, RunError
from headcount.geography import Geography
from headcount.population import Population
from headcount.population.population import Quarters
from headcount.privacy import Guarantee
from headcount.processes import silent
from headcount.release import _mdf_2020, mdf_2020_check
from headcount.release._mdf_2020 import (
    ExactTotals,
    _write_persons_2020,
    _write_units_2020,
    refuse_other_records,
    write_checked_2020,
)
from headcount.release.mdf_2020_check import faults_of_persons, faults_of_units
from headcount.release.publication import MdfFiles
from headcount.release.release import CountsRelease
from headcount.schema import Schema
from headcount.schema.load import load_schema
from headcount.tabulate import Counts

PERSONS, UNITS = load_schema("redistricting-2020"), load_schema("h1-2020")
CODES = ("440010001001000", "440010001001001", "440010001002000")

# The Bureau's layout, typed here and not taken from the code under test.
PLACE_FIELDS = "SCHEMA_TYPE_CODE|SCHEMA_BUILD_ID|TABBLKST|TABBLKCOU|TABTRACTCE|TABBLKGRPCE|TABBLK"


def place(codes: tuple[str, ...] = CODES) -> Geography:
    none = np.empty(0, dtype=np.int32)
    return Geography(
        ("us", "block"),
        (np.array(["us"]), np.array(codes)),
        (none, np.zeros(len(codes), np.int32)),
    )


def people() -> csr_array:
    counts = np.zeros((3, PERSONS.size), dtype=np.int64)
    counts[0, np.ravel_multi_index((0, 0, 0, 0), PERSONS.shape)] = 2
    counts[0, np.ravel_multi_index((3, 1, 1, 62), PERSONS.shape)] = 1
    counts[2, np.ravel_multi_index((7, 1, 0, 6), PERSONS.shape)] = 1
    return csr_array(counts)


BLOCKS = np.array(CODES)
STAND = np.array([[1, 0, 0, 1, 0, 0, 0, 0], [4, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1]])


def faults(path: Path, states: dict[str, int] | None = None, stand: Any = STAND) -> list[str]:
    return faults_of_persons(path, blocks=BLOCKS, quarters=stand, states=states or {"44": 4})


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_people_are_written_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_mdf_2020, "LEAVES_AT_ONCE", 2)  # so that pieces join
    (path,) = _write_persons_2020(
        people(), geography=place(), folder=tmp_path, metadata=["made by a test"]
    )
    first = "MDFPL942020|1.1.0|44|001|000100|1|1000"
    assert lines(path) == [
        "# made by a test",
        f"{PLACE_FIELDS}|EPNUM|RTYPE|GQTYPE_PL|VOTING_AGE|CENHISP|CENRACE",
        f"{first}|0|3|0|1|1|01",
        f"{first}|1|3|0|1|1|01",
        f"{first}|2|5|3|2|2|63",
        "MDFPL942020|1.1.0|44|001|000100|2|2000|3|5|7|2|1|07",
    ]
    assert faults(path) == []


def test_units_are_written_line_by_line(tmp_path: Path):
    counts = np.array([[1, 2], [0, 0], [0, 1]])
    facilities = np.array([1, 0, 0])
    (path,) = _write_units_2020(counts, geography=place(), facilities=facilities, folder=tmp_path)
    first = "MDF2020H1|1.1.0|44|001|000100|1|1000"
    assert lines(path) == [
        f"{PLACE_FIELDS}|RTYPE|HH_STATUS",
        f"{first}|2|2",
        f"{first}|2|1",
        f"{first}|2|1",
        f"{first}|4|0",
        "MDF2020H1|1.1.0|44|001|000100|2|2000|2|1",
    ]
    homes = np.array([3, 0, 1])
    assert faults_of_units(path, blocks=BLOCKS, homes=homes, facilities=facilities) == []
    other = np.array([3, 0, 0]), np.array([2, 0, 0])
    assert faults_of_units(path, blocks=BLOCKS, homes=other[0], facilities=other[1]) == [
        f"block {CODES[0]}: 1 facilities, published 2",
        f"block {CODES[2]}: 1 housing units, published 0",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("|2|2\n", "|2|0\n", "1 units of RTYPE '2' with HH_STATUS '0'"),
        ("|4|0\n", "|4|1\n", "1 units of RTYPE '4' with HH_STATUS '1'"),
        ("44|001|000100|2|2000", "44|001|000100|2|2009", "block 440010001002009: 1 units in none"),
        ("44|001|000100|2|2000", "44|001|000099|2|2000", "1 records stand after one of a later"),
        ("HH_STATUS", "STATUS", "no field HH_STATUS in the header"),
        ("|2|2\n", "|2|2|7\n", "lines that cannot be read"),
    ],
)
def test_each_rule_that_a_file_of_units_breaks_is_named(
    tmp_path: Path, old: str, new: str, said: str
):
    facilities = np.array([1, 0, 0])
    counts = np.array([[1, 2], [0, 0], [0, 1]])
    (path,) = _write_units_2020(counts, geography=place(), facilities=facilities, folder=tmp_path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    found = faults_of_units(
        path, blocks=BLOCKS, homes=np.array([3, 0, 1]), facilities=np.array([1, 0, 0])
    )
    assert any(one.startswith(said) for one in found), found


def test_a_file_is_checked_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mdf_2020_check, "BYTES_AT_ONCE", 150)  # a few lines
    (path,) = _write_persons_2020(people(), geography=place(), folder=tmp_path)
    assert faults(path) == []
    swapped = lines(path)
    swapped[1], swapped[-1] = swapped[-1], swapped[1]
    path.write_text("\n".join(swapped) + "\n", encoding="utf-8")
    assert faults(path) == [
        "1 records stand after one of a later block",
        "2 people whose EPNUM is not their row",
    ]


def test_a_file_without_people_is_checked_too(tmp_path: Path):
    (path,) = _write_persons_2020(0 * people(), geography=place(), folder=tmp_path)
    assert faults(path)[:1] == ["state 44: 0 people, published 4"]


def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    quarters = Quarters(place(), "hhgq", STAND, np.zeros(3, dtype=np.int64))
    given: Any = {"geography": place(), "quarters": quarters, "folder": tmp_path}
    (path,) = write_checked_2020(people(), persons=True, **given)
    assert len(lines(path)) == 5
    homes = np.array([[1, 2], [0, 4], [0, 1]])
    (path,) = write_checked_2020(homes, persons=False, **given)
    assert [line.rsplit("|", 2)[1:] for line in lines(path)[1:]].count(["4", "0"]) == 2
    monkeypatch.setattr(_mdf_2020, "_traits", lambda kind, adult, hisp, race: "3|0|1|1|64")
    said = r"MDF_PER_2020.txt: found CENRACE '64' is no value of the layout, expected a file that"
    with pytest.raises(RunError, match=said):
        write_checked_2020(people(), persons=True, **given)


def release_of(counts: Any, schema: Schema) -> CountsRelease:
    return CountsRelease(
        domain=Domain(schema, place()),
        mechanism="a wrong one",
        guarantee=Guarantee.none("a test"),
        key_kind="none",
        backend="none",
        tables={"block": counts},
    )


@pytest.mark.parametrize("level", ["us", "block"])
def test_a_release_with_people_too_many_in_a_state_is_refused(tmp_path: Path, level: str):
    """Every line is right, and the counts are those of the file: the exact totals are others."""
    quarters = Quarters(place(), "hhgq", STAND, np.zeros(3, dtype=np.int64))
    given: Any = {"quarters": quarters, "progress": silent}
    truth = Counts(Domain(PERSONS, place()), "block", people())
    files = MdfFiles(exact_at=("us", level)).knowing(truth)
    files.write(release_of(people(), PERSONS), tmp_path / "right", **given)
    wrong = people().toarray()
    wrong[0, 0] += 7
    said = r"MDF_PER_2020.txt: found state 44: 11 people, published 4, expected a file that keeps"
    with pytest.raises(RunError, match=said):
        files.write(release_of(csr_array(wrong), PERSONS), tmp_path / "wrong", **given)
    MdfFiles().knowing(truth).write(  # nothing is exact
        release_of(csr_array(wrong), PERSONS), tmp_path / "free", **given
    )


def test_a_release_with_housing_units_too_many_in_a_block_is_refused(tmp_path: Path):
    quarters = Quarters(place(), "hhgq", STAND, np.zeros(3, dtype=np.int64))
    given: Any = {"quarters": quarters, "progress": silent}
    homes = np.array([[1, 2], [0, 4], [0, 1]])
    truth = Counts(Domain(UNITS, place()), "block", csr_array(homes))
    files = MdfFiles(exact_at=("block",)).knowing(truth)
    vacant = homes[:, ::-1]  # another status is no other number
    files.write(release_of(csr_array(vacant), UNITS), tmp_path / "right", **given)
    homes[1, 0] += 7
    said = rf"MDF_UNIT_2020.txt: found block {CODES[1]}: 11 housing units, published 4, expected"
    with pytest.raises(RunError, match=said):
        files.write(release_of(csr_array(homes), UNITS), tmp_path / "wrong", **given)
    loose = MdfFiles(exact_at=("us",)).knowing(truth)  # no block is exact
    loose.write(release_of(csr_array(homes), UNITS), tmp_path / "loose", **given)


def test_an_exact_total_of_two_states_together_is_that_of_neither(tmp_path: Path):
    codes = (CODES[0], CODES[1], "450010001002000")
    quarters = Quarters(place(codes), "hhgq", STAND, np.zeros(3, dtype=np.int64))
    given: Any = {"geography": place(codes), "quarters": quarters, "persons": True}
    together = ExactTotals("us", np.array([5]))
    write_checked_2020(people(), folder=tmp_path, exact=together, **given)
    apart = ExactTotals("block", np.array([3, 0, 2]))
    with pytest.raises(RunError, match="found state 45: 1 people, published 2"):
        write_checked_2020(people(), folder=tmp_path, exact=apart, **given)


@pytest.mark.parametrize(
    ("caps", "floors"), [((100_000,) * 8, (1,) * 8), ((99_999,) * 8, (0, 0, 1, 1, 1, 1, 1, 1))]
)
def test_bounds_under_which_the_check_could_fail_are_refused_beforehand(caps, floors):
    none = np.empty(0, dtype=np.int32)
    standing = Quarters(place(), "hhgq", STAND, np.zeros(3, dtype=np.int64))
    people = Population("people", Domain(PERSONS, place()), none, none, quarters=standing)
    MdfFiles(caps=(99_999,) * 8, floors=(0, 1, 1, 1, 1, 1, 1, 1)).check(people)
    said = (
        f"run.publish: found 'mdf' with bounds that its layout does not allow: caps of up to "
        f"{max(caps):,}, floors {list(floors)}, expected caps of at most 99,999 and floors of"
    )
    with pytest.raises(ConfigError, match=re.escape(said)):
        MdfFiles(caps=caps, floors=floors).check(people)
    said = f"floors {list(floors)}, vacant homes counted as any other, expected"
    with pytest.raises(ConfigError, match=re.escape(said)):
        MdfFiles(caps=caps, floors=floors, vacant=True).check(people)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("|0|3|0|1|1|01", "|7|3|0|1|1|01", "1 people whose EPNUM is not their row"),
        ("|1|3|0|1|1|01", "|1|3|0|1|1|64", "CENRACE '64' is no value of the layout"),
        ("|1|3|0|1|1|01", "|1|5|0|1|1|01", "1 people whose RTYPE is not that of their"),
        ("|2|5|3|2|2|63", "|2|5|3|1|2|63", "1 people under 18 in nursing homes"),
        ("44|001|000100|2|2000", "44|001|000100|1|2000", "1 records whose block is not in their"),
        ("44|001|000100|2|2000", "44|001|000099|2|2000", "1 records stand after one of a later"),
        ("44|001|000100|2|2000", "45|001|000100|2|2000", "state 44: 3 people, published 4"),
        ("|3|5|7|2|1|07", "|3|5|6|2|1|07", f"block {CODES[2]}: 1 people of type 6, expected 0 to"),
        ("|2|5|3|2|2|63", "|2|3|0|2|2|63", f"block {CODES[0]}: 0 people of type 3, expected 1 to"),
    ],
)
def test_each_rule_that_a_file_breaks_is_named(tmp_path: Path, old: str, new: str, said: str):
    (path,) = _write_persons_2020(people(), geography=place(), folder=tmp_path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    found = faults(path)
    assert any(one.startswith(said) for one in found), found


def test_people_of_no_state_that_was_published_are_found(tmp_path: Path):
    (path,) = _write_persons_2020(people(), geography=place(), folder=tmp_path)
    assert faults(path, {"44": 4, "45": 1}, None) == ["state 45: 0 people, published 1"]


def test_other_people_and_other_codes_have_no_layout():
    with pytest.raises(InputError, match="expected the attributes and levels of schema"):
        refuse_other_records(load_schema("e2e-2018"), place())
    with pytest.raises(InputError, match="block '4400': found a code of a different length"):
        refuse_other_records(UNITS, place(("4400",)))
    with pytest.raises(InputError, match="'44001000100100A': found a code with other characters"):
        refuse_other_records(UNITS, place(("44001000100100A",)))
    with pytest.raises(InputError, match=r"'440010001001000': found .* or not in the order"):
        refuse_other_records(UNITS, place((CODES[1], CODES[0])))
    with pytest.raises(InputError, match="a schema that allows people under 18 in nursing homes"):
        refuse_other_records(Schema(PERSONS.attributes), place())


def test_a_negative_count_is_no_number_of_people(tmp_path: Path):
    with pytest.raises(InputError, match="found a negative count, expected 0 or more"):
        _write_persons_2020(-people(), geography=place(), folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
