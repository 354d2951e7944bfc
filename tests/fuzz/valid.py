"""Valid but extreme configs with their files: odd names and levels, places, losses and layouts.

Populations are small. ``extreme.py`` runs the cases.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random

from headcount.privacy import UnitOfPrivacy
from tests.fuzz.odd import COUNTS, EPSILONS, HUGE, NAMES, ODD, PARTS, SLOW


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a config asks for."""

    mechanism: str
    ledger: bool
    rho: bool
    unit: UnitOfPrivacy
    measurements: bool


@dataclass(frozen=True, kw_only=True)
class Domain:
    """Levels and attributes of a small population, under odd names."""

    root: str
    levels: tuple[str, ...]
    attributes: dict[str, list[str]]
    leaves: list[tuple[str, ...]]
    text: str


Maker = Callable[..., str]


def write_case(home: Path, random: Random) -> Case:
    """A config with its files."""
    kinds: Sequence[tuple[Maker, float]] = (
        (_geometric, 12),
        (_raked, 8),
        (_averaged, 8),
        (_histogram, 4),
        (_identity, 4),
        (_sampling, 8),
        (_topdown, 60),
        (_in_quarters, 6),
        (_swapping, 3),
        (_household_swapping, 5),
        (_suppression, 1),
        (_own_suppression, 8),
        (_cell_key, 10),
        (_rounding, 10),
        (_chain, 8),
        (_mdf, 0.3),
    )
    make = random.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
    unit = random.choice(list(UnitOfPrivacy)[:2])
    if make in (_in_quarters, _mdf):
        unit = UnitOfPrivacy.CHANGE_ONE
    domain = None
    if make in (_swapping, _suppression):
        population = _towns(random)
    elif make is _mdf:
        population = 'kind = "us1940"\nscale = "1/40000"\nstates = ["DE"]'
    elif make in (_in_quarters, _household_swapping):
        population, domain = _households(home, random)
    else:
        population, domain = _population(home, random)
    mechanism = make(home, random, domain, unit)
    run, published = _run(random, make, domain)
    ledger = any(line.startswith("ledger") for line in run)
    head = "[mechanism]\n" if not mechanism.startswith("[[mechanism]]") else ""
    text = "\n".join(["[run]", *run, "[population]", population, f"{head}{mechanism}"]) + "\n"
    (home / "config.toml").write_text(text, encoding="utf-8")
    name = make.__name__.removeprefix("_")
    return Case(
        mechanism=name,
        ledger=ledger,
        rho="\nrho = " in mechanism,
        unit=unit,
        measurements="measurements" in published,
    )


def _run(random: Random, make: Maker, domain: Domain | None) -> tuple[list[str], list[str]]:
    """Where the release goes, in which files, and what is published besides."""
    run = ['out = "out"']
    if random.random() < 0.6:
        run += ['ledger = "ledger.db"', 'dataset = "data"']
    if random.random() < 0.4:
        run.append(f"seed = {random.randrange(10**18)}")
    published: list[str] = []
    if make in (_topdown, _in_quarters) and random.random() < 0.5:
        published.append("measurements")
    if make in (_sampling, _in_quarters) and random.random() < 0.5:
        published.append("microdata")
    if make is _mdf:
        published.append("mdf")
    if published:
        run.append(f"publish = {_list(published)}")
    if random.random() < 0.4:
        run.append(f"format = {_list(random.choice([['csv'], ['csv', 'parquet']]))}")
    if random.random() < 0.4:
        run.append("tidy = true")
    sums = 0.01 if make in (_own_suppression, _cell_key, _rounding, _chain) else 0.25
    if random.random() < sums:
        run.append("totals = true")
    if domain is not None and domain.attributes and random.random() < sums:
        axes = list(domain.attributes)
        margins = [axes[-1:]] if random.random() < 0.8 else [axes[:1], axes[: random.randint(1, 2)]]
        run.append(f"margins = [{', '.join(map(_list, margins))}]")
    return run, published


def _quoted(text: str) -> str:
    """A TOML string takes the escapes of JSON, but for half characters and DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(_quoted, values)) + "]"


def _names(random: Random, count: int, prefix: str, *, odd: float = 0.4) -> list[str]:
    """Distinct names, some of them odd."""
    plain = [f"{prefix}{number}" for number in range(count)]
    chosen = random.sample(NAMES, count)
    return [o if random.random() < odd else p for o, p in zip(chosen, plain, strict=True)]


def _population(home: Path, random: Random) -> tuple[str, Domain]:
    names = _names(random, 7, "g", odd=random.choice([0, 0.15, 0.4]))
    depth, width = random.randint(1, 3), random.randint(0, 3)
    levels, axes = tuple(names[1 : 1 + depth]), names[4 : 4 + width]
    odd = random.choice([0, 0.1, 0.4])
    attributes = {axis: _names(random, random.randint(1, 4), "v", odd=odd) for axis in axes}
    leaves = list(_leaves(random, depth))
    geography = f"columns = {_list(levels)}\nroot = {_quoted(names[0])}"
    domain = Domain(root=names[0], levels=levels, attributes=attributes, leaves=leaves, text="")
    rows = [",".join(map(_csv, levels)), *(",".join(map(_csv, leaf)) for leaf in leaves)]
    (home / "units.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    listed = 'units = "units.csv"\n' if random.random() < 0.7 else ""
    if random.random() < 0.5 and axes:
        return _counts(home, random, domain, geography, listed), domain
    return _microdata(home, random, domain, geography, listed), domain


def _leaves(random: Random, depth: int) -> Iterator[tuple[str, ...]]:
    """Paths of codes, unique at each level."""
    number = 0

    def below(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        nonlocal number
        if len(path) == depth:
            yield path
            return
        for _ in range(random.choice([1, 1, 2, 3])):
            number += 1
            odd = random.choice(ODD) if random.random() < 0.1 else ""
            code = f"{number:03}{odd}" if random.random() < 0.9 else f"{odd}x{number}"
            yield from below((*path, code))

    return below(())


def _csv(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _attribute_tables(domain: Domain) -> str:
    said = [
        f"{{ name = {_quoted(name)}, levels = {_list(levels)} }}"
        for name, levels in domain.attributes.items()
    ]
    return f"attribute = [{', '.join(said)}]"


def _microdata(home: Path, random: Random, domain: Domain, geography: str, listed: str) -> str:
    rows = [",".join(map(_csv, [*domain.levels, *domain.attributes]))]
    for _ in range(random.choice([0, 1, 1, 2, 2, 5, 30, 30, 60, 60])):
        row = [*random.choice(domain.leaves), *map(random.choice, domain.attributes.values())]
        rows.append(",".join(map(_csv, row)))
    (home / "people.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return (
        f'kind = "microdata"\nfile = "people.csv"\n{listed}{_attribute_tables(domain)}\n'
        f"[population.geography]\n{geography}"
    )


def _counts(home: Path, random: Random, domain: Domain, geography: str, listed: str) -> str:
    schema = "".join(
        f"[[attribute]]\nname = {_quoted(name)}\nlevels = {_list(levels)}\n"
        for name, levels in domain.attributes.items()
    )
    (home / "schema.toml").write_text(schema, encoding="utf-8")
    cells = [""]
    for levels in domain.attributes.values():
        cells = [f"{cell}_{level}" if cell else level for cell in cells for level in levels]
    rows = [",".join(map(_csv, [*domain.levels, *cells]))]
    known = HUGE if random.random() < 0.15 else COUNTS
    for leaf in domain.leaves:
        rows.append(",".join([*map(_csv, leaf), *(str(random.choice(known)) for _ in cells)]))
    (home / "counts.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return (
        f'kind = "counts"\nfile = "counts.csv"\nschema = "schema.toml"\n{listed}'
        f'totals = "keep"\n[population.geography]\n{geography}'
    )


def _towns(random: Random) -> str:
    people = random.choice([1500, 2000])
    return (
        f'kind = "towns"\npeople = {people}\nseed = {random.randrange(10**9)}\n'
        'attributes = ["race", "hispanic"]'
    )


def _epsilon(random: Random) -> str:
    return _quoted(random.choice(SLOW if random.random() < 0.05 else EPSILONS))


def _geometric(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    return f'name = "geometric"\nunit = "{unit}"\nepsilon = {_epsilon(random)}'


def _raked(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    return f'name = "raked"\nunit = "{unit}"\nepsilon = {_epsilon(random)}'


def _averaged(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    parts = random.choices(PARTS, [10] * 7 + [1] * 4)[0]
    epsilon = _epsilon(random)
    if parts > 10:  # many parts of a small loss are drawn one by one, for hours
        epsilon = _quoted(random.choice(["1001", "1000000", "1e9", "1099511627776"]))
    return f'name = "averaged"\nunit = "{unit}"\nepsilon = {epsilon}\nparts = {parts}'


def _histogram(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    clip = random.choice(["query", "cell"])
    return f'name = "histogram"\nunit = "{unit}"\nepsilon = {_epsilon(random)}\nclip = "{clip}"'


def _identity(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    return 'name = "identity"'


def _sampling(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    fractions = ["1", "1/2", "1e-6", "1/999999999999", "0.99999999999", "0.123456789012345678"]
    return f'name = "sampling"\nfraction = {_quoted(random.choice(fractions))}'


def _swapping(home: Path, random: Random, domain: None, unit: UnitOfPrivacy) -> str:
    rate = _quoted(random.choice(["0", "1e-9", "1/20", "1/2", "1", "0.999999999999"]))
    return random.choice(
        [
            f'name = "swapping"\nrate = {rate}\nkey = {random.choice(["[]", _list(["size"])])}',
            f'name = "swapping"\npreset = "hi"\nrate = {rate}',
            f'name = "targeted-swapping"\nrate = {rate}\nrisk_variables = ["hispanic"]\n'
            f"k = {random.choice([0, 3, 10**9])}",
            f'name = "person-swapping"\nlevel = "tract"\nrate = {rate}\n'
            f'kind = "{random.choice(["random", "pseudo-random", "similar"])}"',
        ]
    )


def _suppression(home: Path, random: Random, domain: None, unit: UnitOfPrivacy) -> str:
    rule = random.choice(["1980", "complementary"])
    cell = random.choice([1, 2, 5, 10**9 if rule == "1980" else 100])
    tables = '["P1", "P2"]'
    if rule == "complementary" and random.random() < 0.5:
        tables = random.choice(['"auto"', '{ sex = ["sex"], race = ["race", "sex"] }'])
        tables += '\ncost = "people"\npublish = [{ level = "state", sex = "total" }]' * (
            random.random() < 0.3
        )
    return (
        f'name = "suppression"\nrule = "{rule}"\ntables = {tables}\nlowest = "tract"\n'
        f"width = {random.choice([1, 3, 10, 100])}\neffort = 0\naudit = {random.choice([0, 10])}\n"
        f"thresholds = {{ cell = {cell} }}"
    )


def _topdown(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    """Queries under odd names, shares from next to nothing, invariants and tables of bounds."""
    axes = list(domain.attributes)
    queries = [name for name in _names(random, random.randint(0, 3), "q") if name != "cells"]
    least = int(unit is not UnitOfPrivacy.ADD_REMOVE and bool(axes))  # a total cannot change
    by = {name: random.sample(axes, random.randint(least, len(axes))) for name in queries}
    shares = _shares(random, len(by) + 1)
    said = ['name = "topdown"', f'unit = "{unit}"']
    said.append(f"{random.choice(['epsilon', 'rho'])} = {_epsilon(random)}")
    if random.random() < 0.15:
        said.append("pool = true")
    if random.random() < 0.3:
        said.append(f"report_epsilon = {_epsilon(random)}")
    if random.random() < 0.3 and axes:
        said.append(f"failsafe_over = {_list(random.sample(axes, random.randint(1, len(axes))))}")
    if random.random() < 0.4:
        every = [domain.root, *domain.levels]
        levels = sorted({domain.root, *random.sample(every, random.randint(1, len(every)))})
        parts = zip(levels, _shares(random, len(levels)), strict=True)
        said.append(f"levels = {{ {', '.join(f'{_quoted(n)} = {_quoted(s)}' for n, s in parts)} }}")
    lines = [f"cells = {{ share = {_quoted(shares[0])} }}"]
    for (name, chosen), share in zip(by.items(), shares[1:], strict=True):
        lines.append(f"{_quoted(name)} = {{ by = {_list(chosen)}, share = {_quoted(share)} }}")
    said += ["[mechanism.queries]", *lines]
    for name in by:
        level = random.choice([domain.root, *domain.levels])
        if random.random() < 0.25 and unit is not UnitOfPrivacy.ADD_REMOVE:
            said.append(
                f"[[mechanism.invariant]]\nquery = {_quoted(name)}\nlevel = {_quoted(level)}"
            )
        elif random.random() < 0.35:
            file = _bounds(home, random, domain, by[name], level)
            public = random.choice(["true", "false"])
            said.append(
                f"[[mechanism.bounds]]\nquery = {_quoted(name)}\nlevel = {_quoted(level)}\n"
                f'file = "{file}"\npublic = {public}'
            )
    return "\n".join(said)


def _shares(random: Random, count: int) -> list[str]:
    """Positive fractions that sum to 1; some next to nothing."""
    most = 10**6 if random.random() < 0.05 else 7
    weights = [Fraction(random.choice([1, 1, 2, most])) for _ in range(count)]
    return [str(weight / sum(weights)) for weight in weights]


def _bounds(home: Path, random: Random, domain: Domain, by: list[str], level: str) -> str:
    """A table of bounds: mostly wide, now and then at the truth of nobody."""
    depth = [domain.root, *domain.levels].index(level)
    units = (
        [domain.root] if depth == 0 else list(dict.fromkeys(x[depth - 1] for x in domain.leaves))
    )
    groups: list[list[str]] = [[]]
    for axis in by:
        groups = [[*group, one] for group in groups for one in domain.attributes[axis]]
    rows = [",".join(map(_csv, [level, *by, "low", "high"]))]
    for unit in units:
        for group in groups:
            low = random.choice(["", "0", "0", "0", "0", "0", "0", "1"])
            high = random.choice(["", "", str(2**40), "100", "60"])
            rows.append(",".join([*map(_csv, [unit, *group]), low, high]))
    name = f"bounds-{len(list(home.glob('bounds-*.csv')))}.csv"
    (home / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return name


def _households(home: Path, random: Random) -> tuple[str, Domain]:
    """People in dwellings of three kinds, in the places of a small tree."""
    names = _names(random, 7, "g", odd=random.choice([0, 0.2]))
    depth = random.randint(1, 3)
    levels, (person, home_is) = tuple(names[1 : 1 + depth]), names[4:6]
    odd = random.choice([0, 0.2])
    ages, tenures = (_names(random, 3, prefix, odd=odd) for prefix in ("a", "t"))
    leaves = list(_leaves(random, depth))
    dwellings = [",".join(map(_csv, ["serial number", *levels, "kind of home", home_is]))]
    persons = [",".join(map(_csv, ["serial number", person]))]
    for number in range(random.choice([1, 2, 12, 30])):
        kind = random.choice(["home", "home", "empty", "hall"])
        place = [*random.choice(leaves), kind, random.choice(tenures)]
        dwellings.append(",".join(map(_csv, [str(number), *place])))
        for _ in range(0 if kind == "empty" else random.randint(1, 4)):
            persons.append(",".join(map(_csv, [str(number), random.choice(ages)])))
    _write(home / "dwellings.csv", dwellings)
    _write(home / "persons.csv", persons)
    _write(home / "units.csv", [",".join(map(_csv, one)) for one in (levels, *leaves)])
    attributes = {person: ages, "hhgq": ["home", "hall"]}
    if random.random() < 0.5:
        attributes[home_is] = tenures
    domain = Domain(root=names[0], levels=levels, attributes=attributes, leaves=leaves, text="")
    text = (
        'kind = "households"\npersons = "persons.csv"\ndwellings = "dwellings.csv"\n'
        'key = "serial number"\nkind_column = "kind of home"\nunits = "units.csv"\n'
        f'kinds = ["home", "empty", "hall"]\nattributes = {_list(list(attributes))}\n'
        f"attribute = [{{ name = {_quoted(person)}, levels = {_list(ages)} }}]\n"
        f"dwelling_attribute = [{{ name = {_quoted(home_is)}, levels = {_list(tenures)}, "
        'follows = "dwelling" }]\n'
        f"[population.geography]\ncolumns = {_list(levels)}\nroot = {_quoted(names[0])}"
    )
    return text, domain


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _in_quarters(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    """People who are placed in their living quarters."""
    query, level = _quoted(random.choice(["hhgq", "q", "type"])), _quoted(domain.levels[-1])
    said = [f'name = "topdown"\nepsilon = {_epsilon(random)}\nunit = "change-one"']
    said.append(f"[mechanism.queries]\ncells = {{ share = 1 }}\n{query} = {{ by = ['hhgq'] }}")
    if random.random() < 0.6:
        said.append('"all" = { by = [] }')
        said.append(f"[[mechanism.invariant]]\nquery = 'all'\nlevel = {level}")
    said.append(f"[[mechanism.bounds]]\nquery = {query}\ncaps = [99, 9999]")
    return "\n".join(said)


def _household_swapping(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    rate = _quoted(random.choice(["0", "1/20", "1/2", "1"]))
    level, person = _quoted(domain.levels[-1]), next(iter(domain.attributes))
    return random.choice(
        [
            f'name = "swapping"\nrate = {rate}\nkey = {random.choice(["[]", _list(["size"])])}',
            f'name = "targeted-swapping"\nrate = {rate}\nrisk_variables = {_list([person])}\n'
            f"similar = [['size']]",
            f'name = "person-swapping"\nlevel = {level}\nrate = {rate}\nkind = "random"',
        ]
    )


def _own_tables(random: Random, domain: Domain) -> str:
    axes = list(domain.attributes)
    if random.random() < 0.5:
        return 'tables = "auto"'
    names = random.sample(["a", "total", "n", "unit", "x-y", "units"], random.randint(1, 2))
    made = [
        f"{_quoted(name)} = {_list(random.sample(axes, random.randint(0, len(axes))))}"
        for name in names
    ]
    return f"tables = {{ {', '.join(made)} }}"


def _own_suppression(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    return (
        f'name = "suppression"\nrule = "complementary"\n{_own_tables(random, domain)}\n'
        f"width = {random.choice([1, 3, 10])}\neffort = 0\naudit = {random.choice([0, 10])}\n"
        f"thresholds = {{ cell = {random.choice([1, 2, 100])} }}"
    )


def _cell_key(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    said = [f'name = "cell-key"\n{_own_tables(random, domain)}']
    said += [f"exact_total = {random.choice(['true', 'false'])}"]
    said += random.choice([[], ["below = 3"], ['zeros = "balance"'], ['rule = "10-5"']])
    said += random.choice([[], ["disclose = true"], ['keys = "kept.keys"']])
    return "\n".join(said)


def _rounding(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    own = f'name = "rounding"\n{_own_tables(random, domain)}'
    if random.random() < 0.2:
        preset = random.choice(["us-drb-2019", "us-special-2004", "ons-10-5", "statcan-2011"])
        return f'{own}\npreset = "{preset}"'
    how = random.choice(["random", "fixed", "nearest", "midpoint", "controlled", "small-counts"])
    said = [f'{own}\nhow = "{how}"']
    said.append(f"base = {random.choice([2, 3, 5, 10, 1000])}")
    if how in ("random", "fixed", "nearest") and random.random() < 0.3:
        said.append(random.choice(["below = 3", "small_only = true", "areas = 10"]))
    return "\n".join(said)


def _chain(home: Path, random: Random, domain: Domain, unit: UnitOfPrivacy) -> str:
    level = _quoted(domain.levels[0])
    first = random.choice(
        [
            'name = "sampling"\nfraction = "1/2"',
            f'name = "person-swapping"\nlevel = {level}\nrate = "1/4"\nkind = "random"',
        ]
    )
    then = random.choice([_geometric, _raked, _identity, _rounding, _cell_key, _own_suppression])
    last = then(home, random, domain, unit)
    return f"[[mechanism]]\n{first}\n[[mechanism]]\n{last}"


def _mdf(home: Path, random: Random, domain: None, unit: UnitOfPrivacy) -> str:
    return f'name = "topdown"\npreset = "e2e-2018"\nepsilon = {_epsilon(random)}'
