"""What happens to a table on its way to whoever reads it. Each kind of dirt knows the truth after.

A kind of dirt that a table cannot have returns the table as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from tests.init.dirty_files.model import Case, Cell, Column, Row

Dirt = Callable[[Case, Random], Case]

MARKS = ("", "..", "NA", "-", ":", "x", "(D)", "c", "*", "<5", "n/a", "†", "s", "…")


def of_persons(case: Case) -> bool:
    """Whether a row is a person."""
    return not case.at("count")


def with_column(case: Case, name: str, values: Sequence[Cell], at: int = -1) -> Case:
    """One column more, last or at a place."""
    place = len(case.columns) if at < 0 else at
    lines = len(case.columns[0].head)
    column = Column("other", (*[""] * (lines - 1), name))
    rows = tuple(
        replace(row, cells=(*row.cells[:place], value, *row.cells[place:]))
        for row, value in zip(case.rows, values, strict=True)
    )
    columns = (*case.columns[:place], column, *case.columns[place:])
    return replace(case, columns=columns, rows=rows)


def with_cell(case: Case, row: int, column: int, value: Cell) -> Case:
    """One cell changed."""
    cells = list(case.rows[row].cells)
    cells[column] = value
    rows = list(case.rows)
    rows[row] = replace(rows[row], cells=tuple(cells))
    return replace(case, rows=tuple(rows))


def lines_of_head(case: Case) -> int:
    return len(case.columns[0].head)


# --- columns that are beside the matter --------------------------------------------------------


def row_number(case: Case, random: Random) -> Case:
    """A number for each row."""
    name = random.choice(["", "id", "nr", "Unnamed: 0", "OBJECTID", case.tables[0].words.number])
    return with_column(case, name, range(1, len(case.rows) + 1), at=0)


CODES = ("kn", "plz", "fid", "tel_prefix", "q7")


def code_of_the_place(case: Case, random: Random) -> Case:
    """A number that each place has for something else."""
    where = case.at("place")
    own = {tuple(row.cells[k] for k in where): random.randint(100, 99_999) for row in case.rows}
    name = random.choice(CODES)
    return with_column(case, name, [own[tuple(r.cells[k] for k in where)] for r in case.rows])


def area_of_the_place(case: Case, random: Random) -> Case:
    """Square kilometres, or a coordinate."""
    where = case.at("place")
    own = {
        tuple(row.cells[k] for k in where): round(random.uniform(1, 900), 2) for row in case.rows
    }
    name = random.choice(["area_km2", "INTPTLAT", "km²", "shape_leng"])
    return with_column(case, name, [own[tuple(r.cells[k] for k in where)] for r in case.rows])


def constant_columns(case: Case, random: Random) -> Case:
    """A date, a country, a state of the data: the same in all rows."""
    words = case.tables[0].words
    for name, value in random.sample(
        [(words.date, "2021-06-30"), (words.year, "2021"), ("country", "NO"), ("status", "final")],
        2,
    ):
        at = random.choice([0, -1])
        case = with_column(case, name, [value] * len(case.rows), at=at)
    return case


def empty_column(case: Case, random: Random) -> Case:
    """A column without a name, and nothing in it."""
    return with_column(case, "", [""] * len(case.rows), at=random.choice([-1, 1]))


def density(case: Case, random: Random) -> Case:
    """People for each square kilometre, or the change since the last census in percent."""
    name, low = random.choice([("density", 0.5), ("per km²", 0.5), ("growth %", -3.0)])
    return with_column(case, name, [round(random.uniform(low, 9.0), 2) for _ in case.rows])


def again_beside(case: Case, random: Random) -> Case:
    """A column of counts a second time, under another name."""
    numbers = case.at("count", "total")
    if not numbers:
        return case
    k = random.choice(numbers)
    return with_column(case, f"{case.columns[k].head[-1]}_2", [r.cells[k] for r in case.rows])


def remark(case: Case, random: Random) -> Case:
    """A column of remarks in few rows; of persons it might be an attribute."""
    if of_persons(case):
        return case
    values = [random.choice(["", "", "", "", "see note", "boundary 2012"]) for _ in case.rows]
    return with_column(case, random.choice(["remarks", "Bemerkung", "obs"]), values)


def money(case: Case, random: Random) -> Case:
    """Money beside the people, under a name that may say so."""
    name = random.choice(["income", "turnover_eur", "w3"])
    return with_column(case, name, [random.randint(10_000, 9_000_000) for _ in case.rows])


def households(case: Case, random: Random) -> Case:
    """Households beside the people, under a name that may say so."""
    counts = case.at("count")
    if not counts or case.shape == "households beside":
        return case
    name = random.choice([case.tables[0].words.households, "h9"])
    values = [
        int(sum(_number(row.cells[k]) for k in counts) / random.uniform(2, 3)) for row in case.rows
    ]
    return with_column(case, name, values)


def _number(cell: Cell) -> int:
    return cell if isinstance(cell, int) else 0


FIRST = ("Ada", "Bo", "Cy", "Di", "Eve", "Fay", "Gus", "Hal", "Ira", "Jo", "Kim", "Lea", "Max")
LAST = ("Ober", "Silva", "Chan", "Iyer", "Kone", "Berg", "Roux", "Diaz", "Sato", "Haddad", "Nowak")
SIGNS: dict[str, tuple[str, ...]] = {
    "name": ("name", "Nachname", "nom", "apellido", "sobrenome", "naam", "氏名", "الاسم", "v12"),
    "first name": ("first_name", "Vorname", "prénom", "nombre", "given", "etunimi"),
    "born": ("date_of_birth", "Geburtsdatum", "date de naissance", "fecha_nac", "dob", "生年月日"),
    "mail": ("e-mail", "email", "courriel", "correo", "contact", "メール", "c_19"),
    "telephone": ("telephone", "Telefon", "tel", "teléfono", "phone_no", "電話番号", "هاتف", "c20"),
    "account": ("iban", "Kontonummer", "compte", "cuenta", "bank_account", "acct"),
    "id": ("person_id", "Personennummer", "nir", "cpf", "aadhaar", "ssn", "PID", "serial"),
}
"""Names of columns that name people, in several languages and in none."""


def identifier(kind: str, random: Random, number: int) -> str:
    """What such a column has for a person."""
    if kind == "name":
        return f"{random.choice(LAST)}, {random.choice(FIRST)} {chr(65 + random.randrange(26))}."
    if kind == "first name":
        return random.choice(FIRST)
    if kind == "born":
        year, month, day = random.randint(1925, 2020), random.randint(1, 12), random.randint(1, 28)
        return f"{year}-{month:02}-{day:02}"
    if kind == "mail":
        return f"{random.choice(FIRST).lower()}.{number}@example.org"
    if kind == "telephone":
        return f"+49 30 {random.randint(1_000_000, 9_999_999)}"
    if kind == "account":
        return f"DE{random.randint(10, 99)} {random.randint(10**9, 10**10 - 1)}"
    return f"{random.randint(10**8, 10**9 - 1)}"


def identifiers(case: Case, random: Random) -> Case:
    """Names, dates of birth, telephones and the like of persons."""
    if not of_persons(case):
        return case
    for kind in random.sample(list(SIGNS), random.randint(1, 3)):
        values = [identifier(kind, random, k) for k in range(len(case.rows))]
        name = random.choice(SIGNS[kind])
        case = with_column(case, name, values, at=random.choice([-1, 0, 1]))
    return case


# --- rows and counts ---------------------------------------------------------------------------


def without_sum(values: list[Cell]) -> bool:
    """Whether these are words, or no whole numbers, which nobody adds up."""
    return not all(isinstance(one, int) for one in values)


def total_row(case: Case, random: Random) -> Case:
    """A row that adds up all others, first or last."""
    numbers = case.at("count", "total")
    if not numbers or "in one column" in case.shape:
        return case
    words = case.tables[0].words
    where, single = case.at("place"), case.at("attribute")
    cells: list[Cell] = []
    name = random.choice([*words.total, "Norland"])
    for k, column in enumerate(case.columns):
        values = [row.cells[k] for row in case.rows if not row.total]
        adds = not single and column.head[-1] not in CODES and not without_sum(values)
        if k in numbers or (column.role == "other" and adds):
            cells.append(sum(_number(one) for one in values))
        elif k in where:
            cells.append(name if k == where[0] or random.random() < 0.3 else "")
        else:
            cells.append(words.total[0] if k in single and len(single) > 0 else "")
    row = Row(tuple(cells), total=True)
    rows = (row, *case.rows) if random.random() < 0.4 else (*case.rows, row)
    return replace(case, rows=rows)


def off_by_one(case: Case, random: Random) -> Case:
    """A total or a count that is off by one."""
    numbers = case.at("count", "total")
    if not numbers or case.ask:
        return case
    k, column = random.randrange(len(case.rows)), random.choice(numbers)
    step = random.choice([-1, 1])
    was = case.rows[k].cells[column]
    if not isinstance(was, int) or was + step < 0:
        return case
    changed = with_cell(case, k, column, was + step)
    right = case.right
    if not case.rows[k].total:  # parts or their total: both are in the file
        right = right | {(people + step, places) for people, places in right}
    return replace(changed, right=right, slack=True)


def withheld(case: Case, random: Random) -> Case:
    """A sign in place of counts of leaves: how many people there are, only totals can say."""
    counts = case.at("count")
    mark = random.choice(MARKS)
    where = [
        (k, c)
        for k, row in enumerate(case.rows)
        for c in counts
        if not row.total and _number(row.cells[c]) > 0
    ]
    if not where:
        return case
    for k, column in random.sample(where, min(len(where), random.choice([1, 1, 3, 12]))):
        case = with_cell(case, k, column, mark)
    return replace(case.asked("withheld", *case.right), slack=True)


def negative(case: Case, random: Random) -> Case:
    """A correction in place of a count."""
    counts = case.at("count")
    if not counts:
        return case
    at = random.randrange(len(case.rows))
    made = with_cell(case, at, random.choice(counts), -random.randint(2, 90))
    return replace(made.asked("negative", *case.right), slack=True)


def rows_twice(case: Case, random: Random) -> Case:
    """All rows a second time."""
    rows = list(case.rows)
    both = [*rows, *rows] if random.random() < 0.5 else [one for row in rows for one in (row, row)]
    return replace(case.asked("twice", *case.right), rows=tuple(both))


def row_lost(case: Case, random: Random) -> Case:
    """A row that totals count is not there any more."""
    counts = case.at("count")
    if not counts or not any(row.total for row in case.rows):
        return case
    whole = [sum(_number(row.cells[k]) for k in counts) for row in case.rows]
    leaves = [k for k, row in enumerate(case.rows) if not row.total and whole[k] > 9]
    if not leaves:
        return case
    gone = random.choice(leaves)
    rows = tuple(row for k, row in enumerate(case.rows) if k != gone)
    return replace(case.asked("lost"), rows=rows, slack=True)


def blank_levels(case: Case, random: Random) -> Case:
    """Persons of whom something is not known."""
    if not of_persons(case):
        return case
    mark = random.choice(["", "NA"])
    column = random.choice(case.at("attribute"))
    for k in random.sample(range(len(case.rows)), len(case.rows) // 25):
        case = with_cell(case, k, column, mark)
    return replace(case, slack=True)


def blank_places(case: Case, random: Random) -> Case:
    """Persons of whom nobody knows where they live."""
    where = case.at("place")
    if not of_persons(case) or not where or case.ask:
        return case
    for k in random.sample(range(len(case.rows)), 9):
        for column in where:
            case = with_cell(case, k, column, "")
    more = [(people, places + 1) for people, places in case.right]
    return replace(case.asked("place", *more), slack=True)


# --- order and layout --------------------------------------------------------------------------


def rows_shuffled(case: Case, random: Random) -> Case:
    """Rows in another order."""
    return replace(case, rows=tuple(random.sample(case.rows, len(case.rows))))


def columns_shuffled(case: Case, random: Random) -> Case:
    """Columns in another order."""
    if lines_of_head(case) > 1:
        return case
    order = random.sample(range(len(case.columns)), len(case.columns))
    rows = tuple(replace(row, cells=tuple(row.cells[k] for k in order)) for row in case.rows)
    return replace(case, columns=tuple(case.columns[k] for k in order), rows=rows)


def names_hidden(case: Case, random: Random) -> Case:
    """Names that say nothing. Without a sum nothing says then which numbers are people."""
    if lines_of_head(case) > 1 or case.shape == "not people":
        return case  # cattle without its name is people
    names = random.choice(
        [
            [f"v{k}" for k in range(len(case.columns))],
            [f"kode_{chr(97 + k % 26)}{k // 26 or ''}" for k in range(len(case.columns))],
            [f"X{7 * k + 3}" for k in range(len(case.columns))],
            [f"Q{k}A" for k in random.sample(range(300), len(case.columns))],
        ]
    )
    columns = tuple(replace(c, head=(one,)) for c, one in zip(case.columns, names, strict=True))
    made = replace(case, columns=columns)
    return made if case.proved else made.asked("names", *case.right)


def names_of_places_odd(case: Case, random: Random) -> Case:
    """Columns of places under names that only their office knows."""
    if lines_of_head(case) > 1:
        return case
    odd = ["GISJOIN", "GEO_ID", "ADM2_PCODE", "TABBLKST", "kode_wil", "geography", "LAD21CD", "r_3"]
    columns = list(case.columns)
    for k, name in zip(case.at("place"), random.sample(odd, len(odd)), strict=False):
        columns[k] = replace(columns[k], head=(name,))
    return replace(case, columns=tuple(columns))


def names_untidy(case: Case, random: Random) -> Case:
    """Blanks, capitals, line ends and underscores in the names."""

    def untidy(name: str) -> str:
        how = random.choice([str.upper, str.title, lambda s: f" {s} ", lambda s: f"{s}\u00a0"])
        return random.choice([how(name), name.replace(" ", "_"), name.replace(" ", "\n")])

    columns = tuple(
        replace(c, head=tuple(untidy(one) if one else "" for one in c.head)) for c in case.columns
    )
    return replace(case, columns=columns)


def labels_below(case: Case, random: Random) -> Case:
    """Codes as names, and a second line of names that says what they are."""
    if lines_of_head(case) > 1:
        return case
    columns = tuple(
        replace(c, head=(f"P001{k:03}" if c.role in ("count", "total") else f"C{k}", *c.head))
        for k, c in enumerate(case.columns)
    )
    return replace(case, columns=columns)


def units_below(case: Case, random: Random) -> Case:
    """A line of units below the names."""
    numbers = case.at("count", "total")
    if not numbers or lines_of_head(case) > 1:
        return case
    unit = case.tables[0].words.unit
    columns = tuple(
        replace(c, head=(*c.head, unit if k in numbers else "")) for k, c in enumerate(case.columns)
    )
    return replace(case, columns=columns)


def head_again(case: Case, random: Random) -> Case:
    """The line of names again at each page; no row stands there twice."""
    names = Row(tuple(column.head[-1] for column in case.columns), total=True)
    page = random.randint(7, 40)
    rows: list[Row] = []
    for k, row in enumerate(case.rows):
        if k and k % page == 0:
            rows.append(names)
        rows.append(row)
    return replace(case, rows=tuple(rows))


def two_tables(case: Case, random: Random) -> Case:
    """A table of other people in the same places below this one."""
    if case.again is None:
        return case
    other = case.again(random)
    if len(case.columns) != len(other.columns):
        return case
    names = tuple(column.head[-1] for column in case.columns)
    blank = tuple("" for _ in names)
    title = (random.choice(["Table 2", "Women", "2011"]), *blank[1:])
    between = [Row(one, total=True) for one in random.choice([[names], [blank, title, names]])]
    return replace(case.asked("tables"), rows=(*case.rows, *between, *other.rows), slack=True)


def merged(case: Case, random: Random) -> Case:
    """Places stand only in the first of their rows."""
    where = case.at("place")[:1] if len(case.at("place")) > 1 else case.at("place")
    if of_persons(case) or not where or "rows_shuffled" in case.dirt:
        return case
    rows: list[Row] = []
    last: tuple[Cell, ...] = ()
    for row in case.rows:
        own = tuple(row.cells[k] for k in where)
        cells = ["" if own == last and k in where else one for k, one in enumerate(row.cells)]
        rows.append(replace(row, cells=tuple(cells)))
        last = own
    return replace(case, rows=tuple(rows))


def title(case: Case, random: Random) -> Case:
    """Lines of title above the table."""
    words = case.tables[0].words
    lines = [words.title, f"{words.year}: 2021", f"{words.unit}, {words.total[0]}"]
    blank = [""] if random.random() < 0.5 else []
    return replace(case, above=(*lines[: random.randint(1, 3)], *blank))


def notes(case: Case, random: Random) -> Case:
    """Lines of notes below the table."""
    words = case.tables[0].words
    lines = ["", words.source, "* 2021", "1) see methods, chapter 3"]
    return replace(case, below=tuple(lines[random.randint(0, 1) : random.randint(2, 4)]))


def blank_rows(case: Case, random: Random) -> Case:
    """Empty rows now and then."""
    blank = Row(tuple("" for _ in case.columns), total=True)
    step = random.randint(5, 30)
    rows = [one for k, row in enumerate(case.rows) for one in ([row] if k % step else [blank, row])]
    return replace(case, rows=tuple(rows))


def tags_below(case: Case, random: Random) -> Case:
    """A line of tags below the names, as in data of relief work."""
    if lines_of_head(case) > 1:
        return case
    tags = {"place": "#adm1+code", "count": "#population", "total": "#population+total"}
    columns = tuple(replace(c, head=(*c.head, tags.get(c.role, "#meta"))) for c in case.columns)
    return replace(case, columns=columns)


def counts_with_decimals(case: Case, random: Random) -> Case:
    """36.0 for 36, as programs write numbers of a column that once had a blank."""
    numbers = case.at("count", "total")
    rows = tuple(
        replace(
            row,
            cells=tuple(
                float(one) if k in numbers and isinstance(one, int) else one
                for k, one in enumerate(row.cells)
            ),
        )
        for row in case.rows
    )
    return replace(case, rows=rows) if numbers else case


def zeros_lost(case: Case, random: Random) -> Case:
    """No zeros before codes, as a spreadsheet leaves them."""
    where = case.at("place")
    rows = tuple(
        replace(
            row,
            cells=tuple(
                str(int(one)) if k in where and str(one).isdecimal() else one
                for k, one in enumerate(row.cells)
            ),
        )
        for row in case.rows
    )
    return replace(case, rows=rows)


def blanks_around(case: Case, random: Random) -> Case:
    """Blanks around what stands in columns of places and attributes."""
    where = case.at("place", "attribute")
    rows = tuple(
        replace(
            row,
            cells=tuple(
                f"  {one} " if k in where and one != "" and random.random() < 0.5 else one
                for k, one in enumerate(row.cells)
            ),
        )
        for row in case.rows
    )
    return replace(case, rows=rows)


# --- how the table is written ------------------------------------------------------------------


def delimiter(case: Case, random: Random) -> Case:
    """Other signs between cells."""
    return replace(case, style=replace(case.style, delimiter=random.choice(";\t|")))


def encoding(case: Case, random: Random) -> Case:
    """An encoding of the country."""
    one = random.choice([*case.tables[0].words.encodings, "utf-16"])
    return replace(case, style=replace(case.style, encoding=one))


def signs(case: Case, random: Random) -> Case:
    """Signs between thousands and before decimals as the country writes them."""
    words = case.tables[0].words
    decimal = words.decimal if case.style.delimiter != "," else "."
    sign = random.choice(words.thousands)
    sign = "" if sign == decimal else sign
    return replace(case, style=replace(case.style, thousands=sign, decimal=decimal))


def quotes(case: Case, random: Random) -> Case:
    """Every cell within quotes."""
    return replace(case, style=replace(case.style, quoted=True))


def sheet(case: Case, random: Random) -> Case:
    """A sheet in place of text."""
    return replace(case, style=replace(case.style, xlsx=True))


DIRT: tuple[Dirt, ...] = (
    *(households, money, code_of_the_place, area_of_the_place, identifiers, constant_columns),
    *(density, again_beside, zeros_lost),
    *(empty_column, remark, total_row, off_by_one, withheld, negative, blank_levels, blank_places),
    *(row_lost, rows_twice, row_number, rows_shuffled, names_hidden, names_of_places_odd),
    *(columns_shuffled, names_untidy, labels_below, units_below, merged, two_tables, head_again),
    *(
        tags_below,
        counts_with_decimals,
        blank_rows,
        blanks_around,
        title,
        notes,
        delimiter,
        encoding,
        signs,
        quotes,
        sheet,
    ),
)
"""Kinds of dirt in the order in which they come over a table."""
