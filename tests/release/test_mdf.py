"""The Bureau's person and unit files: exact lines, and people dealt out as by hand."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from headcount.errors import InputError
from headcount.geography import Geography, regular
from headcount.population.population import Quarters
from headcount.release._mdf import write_mdf
from headcount.release._tidy import _Placement, place
from headcount.release.foreign import read_foreign
from headcount.schema import Attribute, Schema, impossible
from headcount.schema.load import load_schema

SCHEMA = load_schema("e2e-2018")
# The Bureau's layout, typed here and not taken from the code under test.
PLACE_FIELDS = "SCHEMA_TYPE_CODE|SCHEMA_BUILD_ID|STATE|COUNTY|ENUMDIST|EUID"
PERSON_FIELDS = (
    f"{PLACE_FIELDS}|EPNUM|RTYPE|QREL|QSEX|QAGE|CENHISP|CENRACE|QSPANX|QRACE1|QRACE2|QRACE3|QRACE4|"
    "QRACE5|QRACE6|QRACE7|QRACE8|CIT"
)
UNIT_FIELDS = (
    f"{PLACE_FIELDS}|RTYPE|GQTYPE|TEN|VACS|FINAL_POP|HHT|HHT2|NPF|CPLT|UPART|MULTG|HHLDRAGE|HHSPAN|"
    "HHRACE|PAOC|P18|P60|P65|P75"
)
TAIL = "9|99|99|9|9|9|999|9|99|9|99|99|99|99"
RACES = "9999|9999|9999|9999|9999|9999|9999|9999|9999|9"


def districts(*codes: str) -> Geography:
    """A geography of 1940 codes, given in order."""
    states = sorted({code[:2] for code in codes})
    counties = sorted({code[:6] for code in codes})
    return Geography(
        ("nation", "state", "county", "enumeration_district"),
        (np.array(["nation"]), np.array(states), np.array(counties), np.array(codes)),
        (
            np.empty(0, dtype=np.int32),
            np.zeros(len(states), dtype=np.int32),
            np.array([states.index(code[:2]) for code in counties], dtype=np.int32),
            np.array([counties.index(code[:6]) for code in codes], dtype=np.int32),
        ),
    )


PLACES = districts("0100100007", "0600100001", "0600200001")


def small() -> tuple[NDArray[np.int64], Quarters]:
    """Two housing units and a facility in one district, vacant ones in another, then nothing."""
    counts = np.zeros((3, SCHEMA.size), dtype=np.int64)
    person = {"hispanic": "not_hispanic", "race": "white"}
    counts[0, SCHEMA.cell(hhgq="household", voting_age="under_18", **person)] = 2
    counts[0, SCHEMA.cell(hhgq="household", voting_age="18_and_over", **person)] = 1
    other = {"voting_age": "18_and_over", "hispanic": "hispanic", "race": "other"}
    counts[0, SCHEMA.cell(hhgq="military", **other)] = 1
    occupied = np.zeros((3, 8), dtype=np.int64)
    occupied[0, 0], occupied[0, 4] = 2, 1
    return counts, Quarters(PLACES, "hhgq", occupied, np.array([0, 2, 0]))


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def test_exact_lines(tmp_path: Path) -> None:
    counts, quarters = small()
    people, units = write_mdf(
        counts, schema=SCHEMA, geography=PLACES, quarters=quarters, folder=tmp_path / "new"
    )
    assert lines(people) == [
        f"MPD1940|3.1.4|01|0010|0007|0|1|3|99|9|17|1|1|{RACES}",
        f"MPD1940|3.1.4|01|0010|0007|1|1|3|99|9|17|1|1|{RACES}",
        f"MPD1940|3.1.4|01|0010|0007|0|2|3|99|9|18|1|1|{RACES}",
        f"MPD1940|3.1.4|01|0010|0007|2|1|5|99|9|18|2|6|{RACES}",
    ]
    assert lines(units) == [
        f"MUD1940|3.1.4|01|0010|0007|0|2|0|9|0|2|{TAIL}",
        f"MUD1940|3.1.4|01|0010|0007|1|2|0|9|0|1|{TAIL}",
        f"MUD1940|3.1.4|01|0010|0007|2|4|6|0|0|1|{TAIL}",
        f"MUD1940|3.1.4|06|0010|0001|3|2|0|0|9|0|{TAIL}",
        f"MUD1940|3.1.4|06|0010|0001|4|2|0|0|9|0|{TAIL}",
    ]
    assert {line.count("|") + 1 for line in lines(people)} == {23}
    assert {line.count("|") + 1 for line in lines(units)} == {25}
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "MDF_PER.txt",
        "MDF_UNIT.txt",
    ]


@pytest.mark.parametrize(
    ("kind", "gqtype"), [(1, 2), (2, 3), (3, 4), (4, 6), (5, 7), (6, 8), (7, 9)]
)
def test_every_type_of_facility(tmp_path: Path, kind: int, gqtype: int) -> None:
    counts = np.zeros((3, SCHEMA.size), dtype=np.int64)
    counts[2, kind * 24] = 1
    occupied = np.zeros((3, 8), dtype=np.int64)
    occupied[2, kind] = 1
    quarters = Quarters(PLACES, "hhgq", occupied, np.zeros(3, dtype=np.int64))
    people, units = write_mdf(
        counts, schema=SCHEMA, geography=PLACES, quarters=quarters, folder=tmp_path
    )
    assert lines(people) == [f"MPD1940|3.1.4|06|0020|0001|0|1|5|99|9|17|1|1|{RACES}"]
    assert lines(units) == [f"MUD1940|3.1.4|06|0020|0001|0|4|{gqtype}|0|0|1|{TAIL}"]


def test_metadata_stands_first_as_comments(tmp_path: Path) -> None:
    counts, quarters = small()
    given: dict[str, Any] = {
        "schema": SCHEMA,
        "geography": PLACES,
        "quarters": quarters,
        "folder": tmp_path,
    }
    people, units = write_mdf(counts, metadata=["made by headcount", "epsilon 1"], **given)
    assert units.read_text().splitlines()[2] == f"# Fields: {UNIT_FIELDS}"
    first = people.read_text().splitlines()[:3]
    assert first == ["# made by headcount", "# epsilon 1", f"# Fields: {PERSON_FIELDS}"]
    with pytest.raises(InputError, match=r"metadata: found a line break in 'a\\rb'"):
        write_mdf(counts, metadata=["a\rb"], **given)
    with pytest.raises(InputError, match="metadata: found a line break"):
        write_mdf(counts, metadata=["a\n"], **given)


def random_case(seed: int, *, leaves: int = 12) -> tuple[NDArray[np.int64], Quarters, Geography]:
    """Sparse counts and living quarters that fit them."""
    draw = np.random.default_rng(seed)
    geography = districts(*(f"01{number // 4:04d}{number:04d}" for number in range(leaves)))
    counts = draw.poisson(1.5, (leaves, SCHEMA.size)) * (draw.random((leaves, SCHEMA.size)) < 0.1)
    living = counts.reshape(leaves, 8, 24).sum(axis=2)
    occupied = np.minimum(living, draw.integers(1, 6, living.shape))
    vacant = draw.integers(0, 3, leaves)
    return counts, Quarters(geography, "hhgq", occupied, vacant), geography


def test_files_hold_the_counts_and_final_pop_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, quarters, geography = random_case(5)
    answers = []
    for rows in (1 << 20, 7):  # in one piece, and in pieces that cut leaves and types
        monkeypatch.setattr("headcount.files.ROWS_AT_ONCE", rows)
        paths = write_mdf(
            csr_array(counts),
            schema=SCHEMA,
            geography=geography,
            quarters=quarters,
            folder=tmp_path,
        )
        answers.append([path.read_bytes() for path in paths])
    assert answers[0] == answers[1]
    people, units = (
        pl.read_csv(path, has_header=False, separator="|", comment_prefix="#", infer_schema=False)
        for path in paths
    )
    people.columns, units.columns = PERSON_FIELDS.split("|"), UNIT_FIELDS.split("|")
    code = pl.concat_str("STATE", "COUNTY", "ENUMDIST").alias("code")
    people, units = people.with_columns(code), units.with_columns(code)

    placed = people.join(units.select("EUID", "GQTYPE", "code", "FINAL_POP"), on="EUID")
    assert placed.height == people.height == counts.sum()
    assert (placed["code"] == placed["code_right"]).all()
    found = np.zeros_like(counts)
    gqtypes = ["0", "2", "3", "4", "6", "7", "8", "9"]
    for row in placed.iter_rows(named=True):
        levels = (
            gqtypes.index(row["GQTYPE"]),
            int(row["QAGE"] == "18"),
            int(row["CENHISP"]) - 1,
            int(row["CENRACE"]) - 1,
        )
        assert row["RTYPE"] == ("3" if levels[0] == 0 else "5")
        cell = int(np.ravel_multi_index(levels, SCHEMA.shape))
        found[geography.unit_numbers[row["code"]], cell] += 1
    assert np.array_equal(found, counts)

    lived_in = people.group_by("EUID").agg(pl.len().alias("people"))
    checked = units.join(lived_in, on="EUID", how="left").fill_null(0)
    assert (checked["FINAL_POP"].cast(pl.Int64) == checked["people"]).all()
    assert units["EUID"].to_list() == [str(number) for number in range(units.height)]
    assert units.height == quarters.occupied.sum() + quarters.vacant.sum()
    assert (checked["VACS"] == "9").sum() == quarters.vacant.sum()
    assert (checked["TEN"] == "9").sum() == quarters.occupied[:, 0].sum()


# --- the placement, person by person -------------------------------------------------------------


def by_hand(
    counts: NDArray[np.int64], schema: Schema, quarters: Quarters
) -> tuple[list[tuple[int, int, int, int]], list[tuple[int, int, int]]]:
    """Deal people out one at a time: (leaf, cell, quarters, number), then (leaf, slot, people)."""
    axis = schema.names.index(quarters.attribute)
    people: list[tuple[int, int, int, int]] = []
    units: list[tuple[int, int, int]] = []
    for leaf, row in enumerate(counts):
        for kind in range(schema.shape[axis]):
            homes: list[list[int]] = [[] for _ in range(quarters.occupied[leaf, kind])]
            queue = []
            for cell, levels in enumerate(product(*(range(size) for size in schema.shape))):
                if levels[axis] == kind:
                    queue += [cell] * int(row[cell])
            for turn, cell in enumerate(queue):
                home = turn % len(homes)
                homes[home].append(cell)
                people.append((leaf, cell, len(units) + home, len(homes[home])))
            units += [(leaf, kind, len(home)) for home in homes]
        units += [(leaf, schema.shape[axis], 0)] * int(quarters.vacant[leaf])
    return people, units


def as_lists(placed: _Placement, step: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Everything in a placement, fetched in pieces."""
    people: list[tuple[int, ...]] = []
    for start in range(0, placed.people, step):
        some = placed.people_between(start, min(start + step, placed.people))
        columns = (some.leaf, some.cell, some.quarters, some.number)
        people += zip(*(column.tolist() for column in columns), strict=True)
    units: list[tuple[int, ...]] = []
    for start in range(0, placed.quarters, step):
        part = placed.quarters_between(start, min(start + step, placed.quarters))
        columns3 = (part.leaf, part.slot, part.people)
        units += zip(*(column.tolist() for column in columns3), strict=True)
    return people, units


@settings(max_examples=150, deadline=None)
@given(
    shape=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    seed=st.integers(0, 2**32 - 1),
    step=st.integers(1, 40),
    data=st.data(),
)
def test_placement_is_dealing_by_hand(
    shape: list[int], seed: int, step: int, data: st.DataObject
) -> None:
    draw = np.random.default_rng(seed)
    schema = Schema(
        tuple(
            Attribute(f"a{number}", tuple(f"l{level}" for level in range(size)))
            for number, size in enumerate(shape)
        )
    )
    geography = regular(children=2, depth=data.draw(st.integers(1, 2)))
    leaves = geography.size(geography.leaf)
    axis = data.draw(st.integers(0, len(shape) - 1))
    counts = draw.integers(0, 4, (leaves, schema.size)) * draw.integers(0, 2, (leaves, schema.size))
    others = tuple(1 + other for other in range(len(shape)) if other != axis)
    living = counts.reshape(leaves, *shape).sum(axis=others)
    occupied = np.minimum(living, draw.integers(1, 4, living.shape))
    quarters = Quarters(geography, f"a{axis}", occupied, draw.integers(0, 3, leaves))
    wanted = by_hand(counts, schema, quarters)
    for given_counts in (counts, csr_array(counts)):
        placed = place(given_counts, schema=schema, geography=geography, quarters=quarters)
        assert as_lists(placed, step) == wanted


def test_sparse_counts_may_hold_zeros_and_repeats() -> None:
    counts, quarters = small()
    leaf, cell = np.nonzero(counts)
    entries = np.concatenate([counts[leaf, cell] - 1, np.ones(len(leaf), dtype=np.int64), [0]])
    where = (np.concatenate([leaf, leaf, [2]]), np.concatenate([cell, cell, [5]]))
    order = np.lexsort((where[1], where[0]))
    starts = np.searchsorted(where[0][order], np.arange(4))
    sparse = csr_array((entries[order], where[1][order], starts), shape=counts.shape)
    assert sparse.nnz > len(leaf)
    placed = place(sparse, schema=SCHEMA, geography=PLACES, quarters=quarters)
    assert as_lists(placed, 3) == by_hand(counts, SCHEMA, quarters)
    assert sparse.nnz > len(leaf)  # what was given is left alone


# --- complaints ----------------------------------------------------------------------------------


def refused(tmp_path: Path, counts, quarters: Quarters, **changed) -> str:
    given: dict[str, Any] = {"schema": SCHEMA, "geography": PLACES, "quarters": quarters, **changed}
    with pytest.raises(InputError) as caught:
        write_mdf(counts, folder=tmp_path, **given)
    assert not list(tmp_path.iterdir())
    return str(caught.value)


def test_counts_that_do_not_fit_the_quarters(tmp_path: Path) -> None:
    counts, quarters = small()
    few = counts.copy()
    few[0, few[0].nonzero()[0][:2]] = [0, 1]
    assert refused(tmp_path, few, quarters) == (
        "counts: enumeration_district '0100100007', hhgq 'household': found too few people, "
        "expected at least one for each occupied living quarters"
    )
    lost = counts.copy()
    lost[1, 30] = 1
    assert refused(tmp_path, csr_array(lost), quarters) == (
        "counts: enumeration_district '0600100001', hhgq 'correctional': found people where no "
        "such living quarters stand, expected nobody"
    )
    negative = counts.copy()
    negative[2, 3] = -1
    message = (
        "counts: enumeration_district '0600200001': found a negative count, expected 0 or more"
    )
    assert refused(tmp_path, negative, quarters) == message


def test_counts_of_the_wrong_kind(tmp_path: Path) -> None:
    counts, quarters = small()
    message = "counts: found float64 counts of shape (3, 192), expected whole numbers of shape"
    assert refused(tmp_path, counts * 1.0, quarters).startswith(message)
    message = "counts: found int64 counts of shape (2, 192), expected whole numbers of shape (3, 1"
    assert refused(tmp_path, counts[:2], quarters).startswith(message)
    elsewhere = districts("0100100007", "0600100001", "0600200009")
    message = "living quarters: enumeration_district: found other units than those of the counts"
    assert refused(tmp_path, counts, quarters, geography=elsewhere).startswith(message)
    two = Quarters(PLACES, "hhgq", np.zeros((3, 2), dtype=np.int64), quarters.vacant)
    message = "living quarters: hhgq: found 2 types, expected the 8 levels of the schema"
    assert refused(tmp_path, counts, two) == message


def test_the_layout_needs_its_schema_and_codes(tmp_path: Path) -> None:
    counts, quarters = small()
    other = Schema((*SCHEMA.attributes[:3], Attribute("race", ("white", "black"))))
    message = "MDF layout: found attributes ['hhgq', 'voting_age', 'hispanic', 'race'], living quar"
    refusal = refused(tmp_path, counts, quarters, schema=other)
    assert refusal.startswith(message)
    assert "expected the attributes and levels of schema 'e2e-2018'" in refusal
    by_race = Quarters(PLACES, "race", np.zeros((3, 6), dtype=np.int64), quarters.vacant)
    assert "living quarters by 'race', expected" in refused(tmp_path, counts, by_race)
    short = districts("0100100007", "0600100001", "06002001")
    message = (
        "MDF layout: enumeration_district '06002001': found a code of a different length, expected"
    )
    assert refused(tmp_path, counts, quarters, geography=short).startswith(message)


def test_structural_zeros_are_no_other_layout(tmp_path: Path) -> None:
    counts, quarters = small()
    zero = impossible({"hhgq": ["elderly_or_poor"], "voting_age": ["under_18"]})
    schema = Schema(SCHEMA.attributes, (zero,))
    people, _ = write_mdf(
        counts, schema=schema, geography=PLACES, quarters=quarters, folder=tmp_path
    )
    assert len(lines(people)) == counts.sum()


def test_an_error_half_way_leaves_the_old_files(tmp_path: Path) -> None:
    counts, quarters = small()
    given: dict[str, Any] = {
        "schema": SCHEMA,
        "geography": PLACES,
        "quarters": quarters,
        "folder": tmp_path,
    }
    paths = write_mdf(counts, **given)
    before = [path.read_bytes() for path in paths]

    def full_disk(items, *, what, total=None):
        if what == "writing units":
            raise OSError(28, "No space left on device")
        return iter(items)

    counts[0, 0] += 5
    with pytest.raises(OSError, match="No space left"):
        write_mdf(counts, progress=full_disk, **given)
    assert [path.read_bytes() for path in paths] == before
    assert len(list(tmp_path.iterdir())) == 2
    write_mdf(counts, **given)
    assert [path.read_bytes() for path in paths] != before


def test_an_mdf_is_read_as_it_was_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    counts = rng.poisson(0.3, (3, SCHEMA.size)).astype(np.int64)
    by_type = counts.reshape(3, 8, -1).sum(axis=2)
    occupied = np.minimum(by_type, rng.integers(1, 4, (3, 8)))
    quarters = Quarters(PLACES, "hhgq", occupied, np.array([0, 2, 0]))
    files = write_mdf(
        counts,
        schema=SCHEMA,
        geography=PLACES,
        quarters=quarters,
        folder=tmp_path,
        metadata=["made for a test", "of two lines"],
    )
    read = read_foreign(files, SCHEMA, PLACES)
    assert read.at(PLACES.leaf).dtype == np.int64
    assert np.array_equal(read.at(PLACES.leaf), counts)
    assert not read.missing
    people = read_foreign(files[0], SCHEMA, PLACES)  # without MDF_UNIT the types are not known
    assert people.schema.names == SCHEMA.names[1:]
    assert np.array_equal(people.at(PLACES.leaf), counts.reshape(3, 8, -1).sum(axis=1))


def test_strange_fields_of_an_mdf_are_refused_with_their_lines(tmp_path: Path) -> None:
    counts, quarters = small()
    files = write_mdf(counts, schema=SCHEMA, geography=PLACES, quarters=quarters, folder=tmp_path)
    text = files[0].read_text()
    files[0].write_text(
        text.replace("|01|0010|0007|0|2|", "|99|0010|0007|0|2|").replace("|2|6|", "|2|7|")
    )
    with pytest.raises(InputError) as caught:
        read_foreign(files, SCHEMA, PLACES)
    found = str(caught.value)
    assert "line 4: found unit '9900100007', expected one of the 3 units" in found
    assert "field CENRACE, line 5: found '7', expected one of 1, 2, 3, 4, 5, 6" in found
    with pytest.raises(InputError, match="found 0 files of people and 1 of units, expected one fi"):
        read_foreign(files[1], SCHEMA, PLACES)
    with pytest.raises(InputError, match=r"a truth by \['sex'\], expected a truth with the attri"):
        read_foreign(files, Schema((Attribute("sex", ("f", "m")),)), PLACES)
