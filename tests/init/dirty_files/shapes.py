"""Tables of the shapes that offices have, each made from a population that is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np

from tests.init.dirty_files.model import Attribute, Case, Cell, Column, Row, World, jittered

Shape = Callable[[World, Random], Case]


def finished(
    shape: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    *worlds: World,
    proved: bool,
) -> Case:
    """A table of which one reading is right: that of the first of the worlds."""
    right = frozenset({(worlds[0].people, worlds[0].places)})
    return Case(shape, tuple(columns), tuple(rows), worlds, right, proved)


def laid_out(made: Callable[[World], Case], world: World) -> Case:
    """A table, which knows how to be made again for the people of another date."""
    return replace(made(world), again=lambda random: made(jittered(world, random)))


# --- columns of places -------------------------------------------------------------------------


def place_columns(
    world: World, random: Random, *, style: str = ""
) -> tuple[list[Column], list[tuple[Cell, ...]]]:
    """Columns that say where, and what each leaf has in them."""
    style = style or random.choice(["labels", "codes", "both", "leaf", "leaf and label"])
    columns: list[Column] = []
    values: list[list[Cell]] = [[] for _ in world.codes]
    levels = range(len(world.level_names))
    for level in levels if style in ("labels", "codes", "both") else [levels[-1]]:
        name = world.level_names[level]
        if style != "labels":
            columns.append(Column("place", (f"{name} {world.words.code}",)))
            for own, codes in zip(values, world.codes, strict=True):
                own.append(codes[level])
        if style in ("labels", "both", "leaf and label"):
            columns.append(Column("place", (name,)))
            for own, labels in zip(values, world.labels, strict=True):
                own.append(labels[level])
    return columns, [tuple(own) for own in values]


def sex(world: World) -> str:
    return world.words.sex[0]


def ages(world: World) -> str:
    return world.words.age[0]


def either(world: World, random: Random) -> str:
    """An attribute that groups people: sex, marital status or a group."""
    return world.attributes[random.choice([0, 2, 3])].name


def _chosen(world: World, random: Random) -> World:
    names = [a.name for a in world.attributes]
    return world.of(*random.sample(names, random.choice([1, 2, 2, 3])))


# --- a row is a person -------------------------------------------------------------------------


def persons(world: World, random: Random) -> Case:
    """One row for each person, with years of age."""
    return _persons("persons", world.of(*_some(world, random)), random)


def _some(world: World, random: Random) -> list[str]:
    names = [a.name for a in world.attributes]
    return [sex(world), ages(world), *random.sample(names[2:], random.choice([0, 1, 2]))]


def few(world: World, random: Random) -> World:
    """At most some hundreds of the same people."""
    rng = np.random.default_rng(random.getrandbits(32))
    many = random.choice([250, 600, 1200])
    share = world.counts / world.counts.sum()
    counts = rng.multinomial(many, share.ravel()).reshape(world.counts.shape)
    empty = counts.reshape(world.places, -1).sum(axis=1) == 0
    for leaf in np.flatnonzero(empty):
        counts[leaf].flat[rng.integers(0, counts[leaf].size)] += 2
    return replace(world, counts=counts)


def _persons(shape: str, world: World, random: Random) -> Case:
    seed = random.getrandbits(32)

    def made(world: World) -> Case:
        random = Random(seed)
        own = few(world, random)
        places, values = place_columns(own, random)
        singles = random.random() < 0.5 and any(a.ages for a in own.attributes)
        if singles:
            own = in_years(own, random)
        coded = random.random() < 0.3
        rows = [
            Row((*values[leaf], *_levels(own.attributes, cell, coded=coded)))
            for leaf, *cell in np.argwhere(own.counts)
            for _ in range(own.counts[(leaf, *cell)])
        ]
        if random.random() < 0.5:
            random.shuffle(rows)
        columns = [*places, *(Column("attribute", (a.name,)) for a in own.attributes)]
        return finished(shape, columns, rows, own, proved=False)

    return laid_out(made, world)


def in_years(world: World, random: Random) -> World:
    """Ages in single years in place of their groups."""
    axis = 1 + [a.ages for a in world.attributes].index(True)
    rng = np.random.default_rng(random.getrandbits(32))
    moved = np.moveaxis(world.counts, axis, 0)
    starts = [int("".join(c for c in a[:2] if c.isdigit())) for a in _levels_of_ages(world)]
    years = np.zeros((95, *moved.shape[1:]), dtype=int)
    for low, high, group in zip(starts, [*starts[1:], 95], moved, strict=True):
        odds = np.full(high - low, 1 / (high - low))
        years[low:high] = np.moveaxis(rng.multinomial(group, odds), -1, 0)
    attributes = [
        replace(a, levels=tuple(map(str, range(95)))) if a.ages else a for a in world.attributes
    ]
    return replace(world, counts=np.moveaxis(years, 0, axis), attributes=tuple(attributes))


def _levels_of_ages(world: World) -> tuple[str, ...]:
    return next(a.levels for a in world.attributes if a.ages)


def _levels(attributes: Sequence[Attribute], cell: Sequence[int], *, coded: bool) -> list[Cell]:
    """What a row has in its columns of attributes: codes 1, 2 .. or labels, ages as they are."""
    return [
        str(k + 1) if coded and not a.ages else a.levels[k]
        for a, k in zip(attributes, cell, strict=True)
    ]


def persons_in_households(world: World, random: Random) -> Case:
    """Persons in households: a number of the household, and of the person in it."""
    case = _persons("persons in households", world.of(*_some(world, random)), random)
    where = case.at("place")
    rows = sorted(case.rows, key=lambda row: [str(row.cells[k]) for k in where])
    home, member, full = 0, 0, 0
    last: list[Cell] = []
    found = []
    for row in rows:
        own = [row.cells[k] for k in where]
        if member == full or own != last:
            home, member, full, last = home + 1, 0, random.choice([1, 2, 3, 4]), own
        member += 1
        found.append(Row((f"{100000 + 7 * home}", str(member), *row.cells)))
    columns = [
        Column("other", ("hh_serial",)),
        Column("other", ("person_nr",)),
        *case.columns,
    ]
    return replace(case, columns=tuple(columns), rows=tuple(found), again=None)


def persons_with_weights(world: World, random: Random) -> Case:
    """A sample: each row stands for many people, and is one person of the file."""
    case = _persons("weighted persons", world.of(*_some(world, random)), random)
    rows = [replace(r, cells=(*r.cells, round(random.uniform(20, 400), 2))) for r in case.rows]
    columns = (*case.columns, Column("other", (world.words.weight,)))
    return replace(case, columns=columns, rows=tuple(rows), again=None)


def persons_without_places(world: World, random: Random) -> Case:
    """One row for each person, and nothing says where."""
    case = _persons("persons, no place", world.of(*_some(world, random)), random)
    return _no_place(case)


def _no_place(case: Case) -> Case:
    kept = [k for k in range(len(case.columns)) if k not in case.at("place")]
    rows = tuple(replace(row, cells=tuple(row.cells[k] for k in kept)) for row in case.rows)
    worlds = tuple(world.without_places() for world in case.tables)
    right = frozenset((people, 1) for people, _ in case.right)
    columns = tuple(case.columns[k] for k in kept)
    return replace(case, columns=columns, rows=rows, tables=worlds, right=right, again=None)


# --- a row is a place and a combination of levels ----------------------------------------------


def long(world: World, random: Random) -> Case:
    """Counts below each other, some with levels that add up others."""
    return _long("long", _chosen(world, random), random, labelled=False)


def long_codes_and_labels(world: World, random: Random) -> Case:
    """Counts below each other; each attribute stands there as a code and as its label."""
    return _long("long, codes and labels", _chosen(world, random), random, labelled=True)


def _long(shape: str, world: World, random: Random, *, labelled: bool) -> Case:
    seed = random.getrandbits(32)

    def made(world: World) -> Case:
        random = Random(seed)
        places, values = place_columns(world, random)
        wholes = [random.random() < 0.4 for _ in world.attributes]
        nobody = random.random() < 0.7
        total = random.choice(world.words.total)
        columns = list(places)
        for attribute in world.attributes:
            if labelled:
                columns.append(Column("attribute", (f"{attribute.name} {world.words.code}",)))
            columns.append(Column("attribute", (attribute.name,)))
        columns.append(Column("count", (random.choice(["n", world.words.population]),)))
        rows = []
        axes = [
            [*range(len(a.levels)), *([-1] if whole else [])]
            for a, whole in zip(world.attributes, wholes, strict=True)
        ]
        for leaf, value in enumerate(values):
            for cell in product(*axes):
                counts = world.counts[leaf]
                for k in reversed(range(len(cell))):
                    counts = counts.sum(axis=k) if cell[k] < 0 else counts.take(cell[k], axis=k)
                number = int(counts)
                if not number and not nobody:
                    continue
                named: list[Cell] = []
                for attribute, level in zip(world.attributes, cell, strict=True):
                    if labelled:
                        named.append("T" if level < 0 else f"{level + 1}")
                    named.append(total if level < 0 else attribute.levels[level])
                rows.append(Row((*value, *named, number), total=-1 in cell))
        return finished(shape, columns, rows, world, proved=any(wholes))

    return laid_out(made, world)


def long_without_places(world: World, random: Random) -> Case:
    """Counts by attributes of one place that is not named."""
    names = [a.name for a in world.attributes]
    own = world.of(*random.sample(names[:2], 2), *random.sample(names[2:], random.choice([0, 1])))
    own = own.without_places()
    case = _long("long, no place", own, random, labelled=False)
    return _no_place(case)


def crosstab(world: World, random: Random) -> Case:
    """Ages below each other for each place, men and women beside each other."""
    seed = random.getrandbits(32)

    def made(world: World) -> Case:
        random = Random(seed)
        own = world.of(ages(world), sex(world))
        places, values = place_columns(own, random)
        both, whole = random.random() < 0.6, random.random() < 0.5
        total = random.choice(own.words.total)
        columns = [
            *places,
            Column("attribute", (ages(world),)),
            *([Column("total", (total,))] if both else []),
            *(Column("count", (one,)) for one in own.attributes[1].levels),
        ]
        rows = []
        for leaf, value in enumerate(values):
            table = own.counts[leaf]
            lines = [(a, row) for a, row in zip(own.attributes[0].levels, table, strict=True)]
            if whole:
                lines.insert(0, (total, table.sum(axis=0)))
            for name, row in lines:
                numbers = [*([int(row.sum())] if both else []), *map(int, row)]
                rows.append(Row((*value, name, *numbers), total=whole and name == total))
        return finished("crosstab", columns, rows, own, proved=both)

    return laid_out(made, world)


# --- a row is a place --------------------------------------------------------------------------


def wide(world: World, random: Random) -> Case:
    """Levels of one attribute beside each other, mostly with a total."""
    return _wide("wide", world.of(either(world, random)), random)


def wide_of_two(world: World, random: Random) -> Case:
    """Combinations of two attributes beside each other, with totals at two depths."""
    own = world.of(sex(world), either_other(world, random))
    return _wide("wide, two attributes", own, random)


def wide_with_lines_of_head(world: World, random: Random) -> Case:
    """The same under two or three lines of head, upper ones over several columns."""
    own = world.of(sex(world), either_other(world, random))
    return _wide("wide, two lines of head", own, random, lines=random.choice([2, 2, 3]))


def either_other(world: World, random: Random) -> str:
    return world.attributes[random.choice([1, 1, 2, 3])].name


def _wide(shape: str, world: World, random: Random, *, lines: int = 1) -> Case:
    seed = random.getrandbits(32)

    def made(world: World) -> Case:
        random = Random(seed)
        places, values = place_columns(world, random)
        total = random.choice(world.words.total)
        whole = random.random() < 0.75
        between = whole and random.random() < 0.5
        last = random.random() < 0.25
        merged = random.random() < 0.5
        blocks = _blocks(world, total, whole=whole, between=between, last=last)
        title = world.words.population
        head = [Column("place", (*[""] * (lines - 1), *c.head)) for c in places]
        before = ""
        for names, part in blocks:
            one: tuple[str, ...]
            if lines == 1:
                one = (" ".join(dict.fromkeys(names)),)
            else:
                upper = names[0] if not merged or names[0] != before else ""
                before = names[0]
                one = (upper, names[-1]) if lines == 2 else ("", upper, names[-1])
            head.append(Column("total" if part else "count", one))
        if lines == 3:
            at = len(places)
            head[at] = replace(head[at], head=(title, *head[at].head[1:]))
        rows = []
        for leaf, value in enumerate(values):
            numbers = _numbers(world.counts[leaf], whole=whole, between=between, last=last)
            rows.append(Row((*value, *numbers)))
        return finished(shape, head, rows, world, proved=whole)

    return laid_out(made, world)


def _blocks(
    world: World, total: str, *, whole: bool, between: bool, last: bool
) -> list[tuple[tuple[str, ...], bool]]:
    """Names of the columns of counts, and whether each adds up others."""
    first, *rest = world.attributes
    found: list[tuple[tuple[str, ...], bool]] = []
    for level in first.levels:
        own = [((level, one), False) for one in rest[0].levels] if rest else []
        if rest and between:
            own.insert(len(own) if last else 0, ((level, total), True))
        found += own if rest else [((level,), False)]
    if whole:
        found.insert(len(found) if last else 0, ((total, total), True))
    return found


def _numbers(counts: np.ndarray, *, whole: bool, between: bool, last: bool) -> list[int]:
    found: list[int] = []
    for level in counts:
        own = list(map(int, level)) if counts.ndim == 2 else [int(level)]
        if counts.ndim == 2 and between:
            own.insert(len(own) if last else 0, sum(own))
        found += own
    if whole:
        found.insert(len(found) if last else 0, int(counts.sum()))
    return found


def one_count(world: World, random: Random) -> Case:
    """A place and its population."""
    seed = random.getrandbits(32)

    def made(world: World) -> Case:
        random = Random(seed)
        own = replace(
            world, attributes=(), counts=world.counts.reshape(world.places, -1).sum(axis=1)
        )
        places, values = place_columns(own, random)
        rows = [Row((*v, int(n))) for v, n in zip(values, own.counts, strict=True)]
        columns = [*places, Column("count", (own.words.population,))]
        return finished("one count", columns, rows, own, proved=False)

    return laid_out(made, world)


def places_in_one_column(world: World, random: Random) -> Case:
    """The whole, its regions and their places in one column, each adding up what follows."""
    own = world.of(either(world, random))
    seed = random.getrandbits(32)

    def made(world: World) -> Case:
        random = Random(seed)
        coded, kinds, top = (random.random() < 0.5 for _ in range(3))
        across = random.random() < 0.7
        total = random.choice(world.words.total)
        depth = len(world.level_names)
        columns = [Column("place", (world.level_names[-1],))]
        if coded:
            columns.insert(0, Column("place", (world.words.code,)))
        if kinds:
            columns.append(Column("other", ("type",)))
        if across:
            columns.append(Column("total", (total,)))
        columns += [Column("count", (one,)) for one in world.attributes[0].levels]
        rows: list[Row] = []

        def add(level: int, code: str, label: str, counts: np.ndarray) -> None:
            cells: list[Cell] = [code, label] if coded else [label]
            if kinds:
                cells.append(("whole", *world.level_names)[level])
            if across:
                cells.append(int(counts.sum()))
            rows.append(Row((*cells, *map(int, counts)), total=level < depth))

        if top or depth == 1:
            add(0, "0", random.choice(["Norland", total]), world.counts.sum(axis=0))
        seen: set[str] = set()
        for leaf, (codes, labels) in enumerate(zip(world.codes, world.labels, strict=True)):
            for level in range(depth - 1):
                if codes[level] not in seen:
                    seen.add(codes[level])
                    inside = [k for k, c in enumerate(world.codes) if c[level] == codes[level]]
                    add(level + 1, codes[level], labels[level], world.counts[inside].sum(axis=0))
            add(depth, codes[-1], labels[-1], world.counts[leaf])
        return finished("places in one column", columns, rows, world, proved=across)

    return laid_out(made, own)


# --- more than one universe --------------------------------------------------------------------


def two_families(world: World, random: Random) -> Case:
    """Age by sex, and beside it the same people by another attribute."""
    seed = random.getrandbits(32)

    def made(world: World) -> Case:
        random = Random(seed)
        by_age = world.of(sex(world), ages(world))
        other = world.of(world.attributes[random.choice([2, 3])].name)
        places, values = place_columns(world, random)
        whole = random.random() < 0.6
        head = [*places]
        if whole:
            head.append(Column("total", (world.words.population,)))
        for one, two in product(*(a.levels for a in by_age.attributes)):
            head.append(Column("count", (f"{one} {two}",)))
        head += [Column("count", (level,)) for level in other.attributes[0].levels]
        rows = [
            Row(
                (
                    *value,
                    *([int(by_age.counts[leaf].sum())] if whole else []),
                    *map(int, by_age.counts[leaf].ravel()),
                    *map(int, other.counts[leaf]),
                )
            )
            for leaf, value in enumerate(values)
        ]
        return finished("two families", head, rows, by_age, other, proved=True)

    return laid_out(made, world)


def households_beside(world: World, random: Random) -> Case:
    """People, households and how many live in one."""
    case = _wide("households beside", world.of(either(world, random)), random)
    counts = case.at("count")
    rows = []
    for row in case.rows:
        people = sum(int(row.cells[k]) for k in counts)
        homes = max(1, int(people / random.uniform(2, 3)))
        rows.append(replace(row, cells=(*row.cells, homes, round(people / homes, 2))))
    size = f"{world.words.population} / {world.words.households}"
    columns = (
        *case.columns,
        Column("other", (world.words.households,)),
        Column("other", (size,)),
    )
    return replace(case, columns=columns, rows=tuple(rows), again=None)


def adults_beside(world: World, random: Random) -> Case:
    """Everybody by group, and the adults among them by group."""
    case = _wide("adults beside", world.of(either(world, random)), random)
    whole, counts = case.at("total"), case.at("count")
    prefix = world.words.adults
    columns = list(case.columns)
    if whole:
        columns.append(Column("other", (f"{prefix} {case.columns[whole[0]].head[0]}",)))
    columns += [Column("other", (f"{prefix} {case.columns[k].head[0]}",)) for k in counts]
    rows = []
    for row in case.rows:
        own = [int(int(row.cells[k]) * random.uniform(0.55, 0.9)) for k in counts]
        rows.append(replace(row, cells=(*row.cells, *([sum(own)] if whole else []), *own)))
    return replace(case, columns=tuple(columns), rows=tuple(rows), again=None)


def shares_beside(world: World, random: Random) -> Case:
    """Each count with its share in percent."""
    case = _wide("shares beside", world.of(either(world, random)), random)
    counts = case.at("count")
    rows = []
    for row in case.rows:
        people = sum(int(row.cells[k]) for k in counts)
        own = [round(100 * int(row.cells[k]) / max(people, 1), 1) for k in counts]
        rows.append(replace(row, cells=(*row.cells, *own)))
    columns = [
        *case.columns,
        *(Column("other", (f"{case.columns[k].head[0]} {world.words.share}",)) for k in counts),
    ]
    return replace(case, columns=tuple(columns), rows=tuple(rows), again=None)


# --- several dates, and counts that are none ---------------------------------------------------


def two_dates(case: Case, random: Random, *, named: bool) -> Case:
    """The same table for two dates, below each other or beside each other."""
    assert case.again is not None
    one = case.tables[0]
    two = case.again(random)
    other = two.tables[0]
    years = ("2011", "2021") if named else random.choice([("1", "2"), ("a", "b")])
    right = ((one.people, one.places), (other.people, other.places))
    tables = (*case.tables, *two.tables)
    if case.shape in ("one count", "wide") and random.random() < 0.5:
        counts = case.at("count", "total")
        rows = [
            Row((*a.cells, *(b.cells[k] for k in counts)), total=a.total)
            for a, b in zip(case.rows, two.rows, strict=True)
        ]
        columns = [
            replace(c, head=(f"{c.head[0]} {years[0]}",)) if k in counts else c
            for k, c in enumerate(case.columns)
        ]
        columns += [
            replace(case.columns[k], head=(f"{case.columns[k].head[0]} {years[1]}",))
            for k in counts
        ]
        if not named:
            columns = [
                replace(c, head=(f"v{k}",)) if c.role in ("count", "total") else c
                for k, c in enumerate(columns)
            ]
        made = replace(case, columns=tuple(columns), rows=tuple(rows), tables=tables)
    else:
        lines = len(case.columns[0].head)
        name = case.tables[0].words.year if named else random.choice(["zq", "wave", "k3"])
        rows = [
            replace(row, cells=(year, *row.cells))
            for year, part in zip(years, (case, two), strict=True)
            for row in part.rows
        ]
        column = Column("other", (*[""] * (lines - 1), name))
        made = replace(case, columns=(column, *case.columns), rows=tuple(rows), tables=tables)
    why = "several dates" if named else "two dates, unnamed"
    return replace(made.asked(why, *right), again=None)


def rounded(world: World, random: Random) -> Case:
    """Every count a multiple of some number, totals too, each rounded by itself."""
    case = _wide("rounded", world.of(either(world, random)), random)
    base = random.choice([3, 5, 10])
    counts = case.at("count", "total")
    rows = [
        replace(
            row,
            cells=tuple(
                base * round(int(one) / base) if k in counts else one
                for k, one in enumerate(row.cells)
            ),
        )
        for row in case.rows
    ]
    return replace(case.asked("rounded"), rows=tuple(rows), again=None, slack=True)


def years_named(world: World, random: Random) -> Case:
    """Two dates, named."""
    make = random.choice([one_count, wide, long, persons, crosstab])
    case = two_dates(make(world, random), random, named=True)
    return replace(case, shape="several dates")


def years_unnamed(world: World, random: Random) -> Case:
    """Two dates that nothing names: what looks like an attribute is none."""
    make = random.choice([one_count, wide, long, crosstab])
    case = two_dates(make(world, random), random, named=False)
    return replace(case, shape="two dates, unnamed")


OTHER_UNITS = (
    *("households", "dwellings", "farms", "cattle", "turnover (1000 EUR)", "hectares"),
    *("Haushalte", "Wohnungen", "ménages", "logements", "hogares", "viviendas"),
)


def not_people(world: World, random: Random) -> Case:
    """Households, dwellings, cattle or money by group: it adds up, and is nobody."""
    case = _wide("not people", world.of(either(world, random)), random)
    unit = random.choice(OTHER_UNITS)
    columns = tuple(
        replace(c, head=(unit if c.role == "total" else f"{unit}: kind {k}",))
        if c.role in ("count", "total")
        else c
        for k, c in enumerate(case.columns)
    )
    return replace(case.asked("not people"), columns=columns, again=None)


def shares_alone(world: World, random: Random) -> Case:
    """Shares in percent, and no count."""
    case = _wide("shares alone", world.of(either(world, random)), random)
    numbers, counts = case.at("count", "total"), case.at("count")
    whole = random.random() < 0.5  # in whole percent they look like counts
    rows = []
    for row in case.rows:
        people = sum(int(row.cells[k]) for k in counts)
        own = list(row.cells)
        for k in numbers:
            share = 100 * int(row.cells[k]) / max(people, 1)
            own[k] = round(share) if whole else round(share, 1)
        rows.append(replace(row, cells=tuple(own)))
    columns = tuple(
        replace(c, head=(f"{c.head[0]} %",)) if c.role in ("count", "total") else c
        for c in case.columns
    )
    return replace(case.asked("shares"), columns=columns, rows=tuple(rows), again=None)


def long_levels_in_one_column(world: World, random: Random) -> Case:
    """Counts below each other for the whole, its regions and their places in one column."""
    own = world.of(*random.sample([sex(world), ages(world)], random.choice([1, 2])))
    seed = random.getrandbits(32)

    def made(world: World) -> Case:
        random = Random(seed)
        total = random.choice(world.words.total)
        labelled = random.random() < 0.5
        column = Column("place", (world.level_names[-1],))
        named = Column("place", (world.words.code,))
        columns = [named, column] if labelled else [named]
        columns += [Column("attribute", (a.name,)) for a in world.attributes]
        columns.append(Column("count", (random.choice(["n", world.words.population]),)))
        whole = random.random() < 0.5
        rows: list[Row] = []

        def add(code: str, label: str, counts: np.ndarray, leaf: bool) -> None:
            place: list[Cell] = [code, label] if labelled else [code]
            if whole:
                blank = [total] * len(world.attributes)
                rows.append(Row((*place, *blank, int(counts.sum())), total=True))
            for cell in np.ndindex(counts.shape):
                levels = [a.levels[k] for a, k in zip(world.attributes, cell, strict=True)]
                rows.append(Row((*place, *levels, int(counts[cell])), total=not leaf))

        for level in range(-1, len(world.level_names)):
            inside: dict[tuple[str, str], list[int]] = {}
            for k, (codes, labels) in enumerate(zip(world.codes, world.labels, strict=True)):
                key = (codes[level], labels[level]) if level >= 0 else ("0", "Norland")
                inside.setdefault(key, []).append(k)
            for (code, label), leaves in inside.items():
                leaf = level == len(world.level_names) - 1
                add(code, label, world.counts[leaves].sum(axis=0), leaf)
        return finished("long, levels in one column", columns, rows, world, proved=True)

    return laid_out(made, own)


SHAPES: tuple[Shape, ...] = (
    *(persons, persons_in_households, persons_with_weights, persons_without_places),
    *(long, long_codes_and_labels, long_without_places, crosstab),
    *(wide, wide_of_two, wide_with_lines_of_head, one_count, places_in_one_column),
    *(two_families, households_beside, adults_beside, shares_beside),
    *(rounded, years_named, years_unnamed),
    *(not_people, shares_alone, long_levels_in_one_column),
)
