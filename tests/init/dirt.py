"""Tables whose people and places are known, and the dirt that offices leave in such tables.

Each kind of dirt changes a table as people do, and leaves the truth as it was. Whoever reads a
dirty table must find the same people in the same places, or ask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

Row = list[str]


@dataclass(frozen=True)
class Known:
    """A table, and what is in it.

    where
        places   columns of places, by their numbers
        counts   columns of counts, by their numbers
        total    the column that adds up all others, or -1
    """

    name: str
    header: Row
    rows: list[Row]
    people: int
    units: int
    places: tuple[int, ...] = (0,)
    counts: tuple[int, ...] = ()
    total: int = -1

    def text(self) -> str:
        """The table as a file has it."""
        quoted = [[f'"{one}"' if "," in one else one for one in row] for row in self.lines]
        return "".join(",".join(row) + "\n" for row in quoted)

    @property
    def lines(self) -> list[Row]:
        """The header and the rows."""
        return [self.header, *self.rows]

    def shuffled(self, random: Random) -> Known:
        """The same with its rows in another order."""
        return replace(self, rows=random.sample(self.rows, len(self.rows)))


# --- tables -----------------------------------------------------------------------------------


def wide(random: Random) -> Known:
    """One row for each district, groups beside each other, with a total."""
    header = ["district", "total", "white", "black", "asian", "other"]
    rows, people = [], 0
    for number in range(random.randint(12, 40)):
        own = [random.randint(0, 10 ** random.randint(1, 4)) for _ in range(4)]
        rows.append([f"D{number:03}", str(sum(own)), *map(str, own)])
        people += sum(own)
    return Known("wide", header, rows, people, len(rows), counts=(2, 3, 4, 5), total=1)


def sexes(random: Random) -> Known:
    """One row for each district, men and women."""
    rows = [
        [f"D{number:03}", str(random.randint(500, 9000)), str(random.randint(500, 9000))]
        for number in range(random.randint(12, 40))
    ]
    people = sum(int(one) for row in rows for one in row[1:])
    return Known("sexes", ["district", "men", "women"], rows, people, len(rows), counts=(1, 2))


def one_count(random: Random) -> Known:
    """One row for each district, with its population."""
    rows = [
        [f"D{number:03}", str(random.randint(500, 90_000))]
        for number in range(random.randint(12, 40))
    ]
    people = sum(int(row[1]) for row in rows)
    return Known("one count", ["district", "population"], rows, people, len(rows), counts=(1,))


def long(random: Random) -> Known:
    """One row for each district, sex and age group."""
    rows = []
    districts = random.randint(8, 20)
    for number in range(districts):
        for sex in ("male", "female"):
            for age in ("0-17", "18-64", "65+"):
                rows.append([f"D{number:03}", sex, age, str(random.randint(20, 4000))])
    people = sum(int(row[3]) for row in rows)
    return Known("long", ["district", "sex", "age", "count"], rows, people, districts, counts=(3,))


def persons(random: Random) -> Known:
    """One row for each person."""
    codes = [f"D{number:03}" for number in range(12)]
    rows = [
        [
            random.choice(codes),
            random.choice(["m", "f"]),
            str(min(99, int(random.triangular(0, 99, 30)))),
            random.choice(["single", "married", "widowed"]),
        ]
        for _ in range(600)
    ]
    header = ["district", "sex", "age", "marital"]
    return Known("persons", header, rows, len(rows), len({row[0] for row in rows}))


TABLES = (wide, sexes, one_count, long, persons)

# --- dirt -------------------------------------------------------------------------------------

Dirt = Callable[[Known, Random], Known]


def with_column(known: Known, name: str, values: list[str], at: int = -1) -> Known:
    """One column more, last or at a place."""
    place = len(known.header) if at < 0 else at

    def moved(columns: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(one + (one >= place) for one in columns)

    rows = [
        [*row[:place], value, *row[place:]] for row, value in zip(known.rows, values, strict=True)
    ]
    return replace(
        known,
        header=[*known.header[:place], name, *known.header[place:]],
        rows=rows,
        places=moved(known.places),
        counts=moved(known.counts),
        total=known.total + (known.total >= place),
    )


def _changed(known: Known, row: int, column: int, value: str) -> Known:
    rows = [list(one) for one in known.rows]
    rows[row][column] = value
    return replace(known, rows=rows)


def _size(known: Known, row: Row) -> int:
    return sum(int(row[k]) for k in known.counts) if known.counts else 1


def shuffled_rows(known: Known, random: Random) -> Known:
    """Rows in another order."""
    return known.shuffled(random)


def row_number(known: Known, random: Random) -> Known:
    """A number for each row."""
    return with_column(known, "nr", [str(1 + k) for k in range(len(known.rows))], at=0)


def code_among_counts(known: Known, random: Random) -> Known:
    """A number of the district, not in any order."""
    codes = {row[known.places[0]]: str(random.randint(100, 999)) for row in known.rows}
    return with_column(known, "kn", [codes[row[known.places[0]]] for row in known.rows])


def off_by_one(known: Known, random: Random) -> Known:
    """A total that is off by one in a row."""
    if known.total < 0:
        return known
    row = random.randrange(len(known.rows))
    return _changed(known, row, known.total, str(int(known.rows[row][known.total]) + 1))


def total_renamed(known: Known, random: Random) -> Known:
    """A total whose name says nothing, and that is off in a few rows."""
    if known.total < 0:
        return known
    header = list(known.header)
    header[known.total] = "v17"
    for _ in range(3):
        known = off_by_one(known, random)
    return replace(known, header=header)


def withheld(known: Known, random: Random) -> Known:
    """A count in whose place a sign stands."""
    if not known.counts:
        return known
    sign = random.choice(["", "NA", "..", "-", ":", "x", "(D)", "c", "*", "<5"])
    return _changed(known, random.randrange(len(known.rows)), random.choice(known.counts), sign)


def total_row(known: Known, random: Random) -> Known:
    """A last row that adds up all others, under a name that may say so."""
    if not known.counts:
        return known
    row = ["" for _ in known.header]
    row[known.places[0]] = random.choice(["Total", "Norland", "D", "TOTAL"])
    for k in range(len(row)):
        if k in known.counts or k == known.total:
            row[k] = str(sum(int(one[k]) for one in known.rows))
    return replace(known, rows=[*known.rows, row])


def wrong_total_row(known: Known, random: Random) -> Known:
    """A total of all, and one place that was lost."""
    if not known.counts:
        return known
    whole = total_row(known, random)
    return replace(whole, rows=whole.rows[1:])


def regions_between(known: Known, random: Random) -> Known:
    """Each few districts have a row of their region above them."""
    if not known.counts or known.name == "long":
        return known
    rows: list[Row] = []
    for number, start in enumerate(range(0, len(known.rows), 4)):
        own = known.rows[start : start + 4]
        if len(own) > 1:
            row = [f"Region {number}" if k in known.places else "" for k in range(len(own[0]))]
            for k in (*known.counts, *((known.total,) if known.total >= 0 else ())):
                row[k] = str(sum(int(one[k]) for one in own))
            rows.append(row)
        rows += own
    return replace(known, rows=rows)


def households(known: Known, random: Random) -> Known:
    """Households beside the people, under a name that may say so."""
    if not known.counts:
        return known
    name = random.choice(["households", "hogares", "v9"])
    return with_column(
        known, name, [str(int(_size(known, row) / random.uniform(2, 3))) for row in known.rows]
    )


def adults(known: Known, random: Random) -> Known:
    """The adults of each group beside all people."""
    if known.name not in ("wide", "sexes"):
        return known
    for k in known.counts:
        values = [str(int(int(row[k]) * random.uniform(0.6, 0.9))) for row in known.rows]
        known = with_column(known, f"vap_{known.header[k]}", values)
    return known


def two_years(known: Known, random: Random) -> Known:
    """All rows again for another year."""
    name, years = random.choice([("year", ("2010", "2020")), ("zq", ("1", "2"))])
    again = [list(row) for row in known.rows]
    for row in again:
        for k in known.counts:
            row[k] = str(int(int(row[k]) * random.uniform(0.9, 1.1)))
        if known.total >= 0:
            row[known.total] = str(sum(int(row[k]) for k in known.counts))
    both = replace(known, rows=[*known.rows, *again])
    values = [years[k >= len(known.rows)] for k in range(2 * len(known.rows))]
    return with_column(both, name, values)


def years_beside(known: Known, random: Random) -> Known:
    """The counts of another census beside these."""
    if known.name not in ("one count", "sexes"):
        return known
    header = list(known.header)
    for k in known.counts:
        header[k] = f"{known.header[k]}_2020"
    named = replace(known, header=header)
    for k in known.counts:
        values = [str(int(int(row[k]) * random.uniform(0.9, 1.1))) for row in known.rows]
        named = with_column(named, f"{known.header[k]}_2010", values)
    return named


def rows_twice(known: Known, random: Random) -> Known:
    """All rows a second time."""
    return replace(known, rows=[*known.rows, *known.rows])


def tables_below(known: Known, random: Random) -> Known:
    """The same table again below itself, with its line of names."""
    return replace(known, rows=[*known.rows, known.header, *known.rows])


def labels_below(known: Known, random: Random) -> Known:
    """A second line of names."""
    return replace(known, rows=[[f"Label of {one}" for one in known.header], *known.rows])


def title(known: Known, random: Random) -> Known:
    """A title above the table."""
    blank = ["" for _ in known.header[1:]]
    return replace(known, header=["People of Norland", *blank], rows=known.lines)


def footnote(known: Known, random: Random) -> Known:
    """A note below the table."""
    return replace(known, rows=[*known.rows, ["Source: census", *["" for _ in known.header[1:]]]])


def blanks_around(known: Known, random: Random) -> Known:
    """Blanks around the codes of places."""
    rows = [
        [f" {one}  " if k in known.places else one for k, one in enumerate(row)]
        for row in known.rows
    ]
    return replace(known, rows=rows)


def shares(known: Known, random: Random) -> Known:
    """A share in percent."""
    return with_column(known, "share", [f"{random.uniform(0, 100):.1f}" for _ in known.rows])


def weights(known: Known, random: Random) -> Known:
    """Weights of people in a sample (another table has none)."""
    if known.name != "persons":
        return known
    name = random.choice(["weight", "PERWT", "Gewicht", "v4"])
    return with_column(known, name, [f"{random.uniform(20, 400):.2f}" for _ in known.rows])


def names_of_people(known: Known, random: Random) -> Known:
    """First and last names, and dates of birth."""
    if known.name != "persons":
        return known
    first = [random.choice(["Ada", "Bo", "Cy", "Di"]) for _ in known.rows]
    born = [f"19{random.randint(10, 99)}-01-{random.randint(10, 28)}" for _ in known.rows]
    return with_column(with_column(known, "first_name", first), "date_of_birth", born)


def hidden_total_level(known: Known, random: Random) -> Known:
    """A level that adds up the others of its column, by whatever name."""
    if known.name != "long":
        return known
    rows = [list(row) for row in known.rows]
    name = random.choice(["T", "99", "Total", "both"])
    sums: dict[tuple[str, str], int] = {}
    for place, _, age, number in known.rows:
        sums[place, age] = sums.get((place, age), 0) + int(number)
    return replace(known, rows=[*rows, *([p, name, a, str(n)] for (p, a), n in sums.items())])


def lost_place(known: Known, random: Random) -> Known:
    """A row whose place is not there."""
    return _changed(known, random.randrange(len(known.rows)), known.places[0], "")


DIRT: tuple[Dirt, ...] = (
    *(shuffled_rows, row_number, code_among_counts, off_by_one, total_renamed, withheld),
    *(total_row, wrong_total_row, regions_between, households, adults, two_years, years_beside),
    *(rows_twice, tables_below, labels_below, title, footnote, blanks_around, shares, weights),
    *(names_of_people, hidden_total_level, lost_place),
)

READABLE = (shuffled_rows, blanks_around, names_of_people)
"""Dirt that changes nothing: such a table is read, not asked about."""
