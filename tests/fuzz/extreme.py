"""Valid but extreme configs: whatever ``check`` lets pass, ``protect`` completes.

    python -m tests.fuzz.extreme 5000 --seed 1

Populations are small and their files odd; what is extreme are losses, scales, names, counts,
shares, bounds and the number of parts. ``check`` may refuse a case with one clear error, and then
nothing may be spent or made; cases go on until so many have passed.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random

from headcount.config.load import load_config
from headcount.errors import HeadcountError
from headcount.privacy import Ledger, PureLoss, SpendState, UnitOfPrivacy, ZCDPLoss
from headcount.release.directory import RunDirectory
from headcount.release.store import read_release
from headcount.run.protect import prepare_run, protect_run

NAMES = (
    "cells",
    "units",
    "count",
    "unit",
    "low",
    "high",
    "weight",
    "type",
    "vacant",
    "total",
    "distance to the truth",
    "lock",
    ".",
    "..",
    "a/b",
    "a-b",
    "%2F",
    "whole",
    "x" * 150,
    "y" * 190,
    " ",
    "name with spaces",
    "naïve",
    "日本",
    "back\\slash",
    "tab\there",
    "0",
    "-",
    "_",
    "receipt.json",
    "manifest",
    "measurements",
    "people",
    "quarters_id",
    "CON",
    "a\nb",
    "sample",
)
EPSILONS = (
    "1",
    "1/3",
    "5",
    "30",
    "355",
    "709",
    "710",
    "711",
    "745",
    "800",
    "999",
    "1000",
    "1001",
    "3000",
    "1000000",
    "1099511627776",
    "2199023255552",
    "1e12",
    "99999999999999/7",
    "7.12345678901234567890123456789",
)
SLOW = (
    "0.1",
    "7/1000",
    "1/2000",
    "1/24000",
    "1/2000000",
    "1/1099511627776",
    "1e-11",
    "3e-13",
    "99999999999999999999/7",
)
"""Losses with large tables, or whose noise is drawn one by one, and some that are refused."""
PARTS = (1, 2, 3, 7, 64, 1000, 4096, 10**5, 10**9, 2**40, 10**15)
COUNTS = (0, 0, 1, 1, 2, 3, 17, 1000)
HUGE = (0, 1, 2**31, 2**40, 2**53 + 1, 2**58)


@dataclass
class Tally:
    """What became of the cases."""

    passed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def valid(self) -> int:
        """Cases that ``check`` let pass."""
        return sum(self.passed.values())

    def lines(self) -> list[str]:
        """The tally in words."""
        said = [f"valid cases (check passed): {self.valid}"]
        said += [f"  {name:18} {number}" for name, number in sorted(self.passed.items())]
        said.append(f"refused by check, nothing spent: {sum(self.refused.values())}")
        said += [f"  {name:18} {number}" for name, number in sorted(self.refused.items())]
        said.append(f"check passed and protect did not complete: {len(self.failures)}")
        return said + self.failures


def run_cases(valid: int, seed: int, *, folder: Path | None = None) -> Tally:
    """Make cases until ``valid`` have passed ``check``; each of them must complete."""
    tally, logger = Tally(), logging.getLogger("headcount")
    level, number = logger.level, 0
    logger.setLevel(logging.ERROR)  # seeds and slow samplers are warned about, and meant
    try:
        while tally.valid < valid:
            number += 1
            with tempfile.TemporaryDirectory(dir=folder) as home:
                _one(Path(home), Random(f"{seed}/{number}"), tally, f"seed {seed}, case {number}")
            if number > 100 and tally.valid * 5 < number:
                raise AssertionError(f"too few valid cases: {tally.valid} of {number}")
    finally:
        logger.setLevel(level)
    return tally


def _one(home: Path, random: Random, tally: Tally, name: str) -> None:
    case = write_case(home, random)
    ledger = _ledger(home, case)
    try:
        prepare_run(load_config(home / "config.toml"))
    except HeadcountError as error:
        tally.refused[case.mechanism] += 1
        tally.reasons[str(error).rpartition(": found")[0][-60:]] += 1
        _expect_refusal(home, ledger, tally, f"{name} ({case.mechanism})")
        return
    except Exception:  # a fault of the program, whatever it is
        tally.failures.append(f"{name} ({case.mechanism}), check: {traceback.format_exc(limit=-3)}")
        return
    tally.passed[case.mechanism] += 1
    try:
        protect_run(home / "config.toml")
        read_release(home / "out/release")
    except Exception:
        tally.failures.append(f"{name} ({case.mechanism}): {traceback.format_exc(limit=-3)}")
        return
    directory = RunDirectory(home / "out")
    states = [spend.state for spend in ledger.history("data")] if ledger else []
    if not directory.is_complete or directory.key.exists():
        tally.failures.append(f"{name} ({case.mechanism}): not complete, or its key is left")
    if ledger is not None and states != [SpendState.COMPLETE]:
        tally.failures.append(f"{name} ({case.mechanism}): spends {states}")


def _expect_refusal(home: Path, ledger: Ledger | None, tally: Tally, name: str) -> None:
    try:
        protect_run(home / "config.toml")
        tally.failures.append(f"{name}: check refused it and protect did not")
    except HeadcountError:
        pass
    except Exception:
        tally.failures.append(f"{name}, refused: {traceback.format_exc(limit=-3)}")
    if (ledger is not None and ledger.history("data")) or (home / "out/internal/run.key").exists():
        tally.failures.append(f"{name}: refused, and yet something was spent or made")


def _ledger(home: Path, case: Case) -> Ledger | None:
    if not case.ledger:
        return None
    ledger = Ledger.create(home / "ledger.db")
    huge = Fraction(10**40)
    total = (
        ZCDPLoss(rho=huge, unit=case.unit) if case.rho else PureLoss(epsilon=huge, unit=case.unit)
    )
    ledger.declare("data", total=total)
    return ledger


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a config asks for."""

    mechanism: str
    ledger: bool
    rho: bool
    unit: UnitOfPrivacy


@dataclass(frozen=True, kw_only=True)
class Domain:
    """Levels and attributes of a small population, under odd names."""

    root: str
    levels: tuple[str, ...]
    attributes: dict[str, list[str]]
    leaves: list[tuple[str, ...]]
    text: str


def write_case(home: Path, random: Random) -> Case:
    """A config with its files."""
    kinds: Sequence[tuple[Callable[..., str], int]] = (
        (_geometric, 20),
        (_raked, 15),
        (_averaged, 20),
        (_histogram, 10),
        (_identity, 3),
        (_sampling, 8),
        (_topdown, 60),
        (_swapping, 2),
        (_suppression, 1),
    )
    make = random.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
    unit = random.choice(list(UnitOfPrivacy)[:2])
    if make in (_swapping, _suppression):
        population, domain = _towns(random), None
    else:
        population, domain = _population(home, random)
    mechanism = make(home, random, domain, unit)
    ledger = random.random() < 0.6
    run = ['out = "out"']
    if ledger:
        run += ['ledger = "ledger.db"', 'dataset = "data"']
    keyless = make in (_geometric, _raked, _averaged, _histogram, _topdown)
    if keyless and random.random() < 0.15:
        run.append('noise = "opendp"')
    elif random.random() < 0.4:
        run.append(f"seed = {random.randrange(10**18)}")
    if make is _topdown and random.random() < 0.3:
        run.append('publish = ["measurements"]')
    if make is _sampling and random.random() < 0.5:
        run.append('publish = ["microdata"]')
    text = "\n".join(["[run]", *run, "[population]", population, "[mechanism]", mechanism]) + "\n"
    (home / "config.toml").write_text(text, encoding="utf-8")
    name = make.__name__.removeprefix("_")
    return Case(mechanism=name, ledger=ledger, rho="\nrho = " in mechanism, unit=unit)


def _quoted(text: str) -> str:
    return json.dumps(text)  # a TOML string takes the escapes of JSON


def _list(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(_quoted, values)) + "]"


def _names(random: Random, count: int, prefix: str, *, odd: float = 0.4) -> list[str]:
    """Distinct names, some of them odd."""
    plain = [f"{prefix}{number}" for number in range(count)]
    chosen = random.sample(NAMES, count)
    return [o if random.random() < odd else p for o, p in zip(chosen, plain, strict=True)]


def _population(home: Path, random: Random) -> tuple[str, Domain]:
    names = _names(random, 7, "g")
    depth, width = random.randint(1, 3), random.randint(0, 3)
    levels, axes = tuple(names[1 : 1 + depth]), names[4 : 4 + width]
    attributes = {axis: _names(random, random.randint(1, 4), "v", odd=0.1) for axis in axes}
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
        for _ in range(random.randint(1, 3)):
            number += 1
            odd = random.choice(["", "/", ".", " x", "é", "%"])
            yield from below((*path, f"{number:03}{odd}"))

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
    for _ in range(random.choice([1, 2, 30, 60])):
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
    by = {name: random.sample(axes, random.randint(0, len(axes))) for name in queries}
    shares = _shares(random, len(by) + 1)
    said = ['name = "topdown"', f'unit = "{unit}"']
    if random.random() < 0.5:
        said.append(f"epsilon = {_epsilon(random)}")
    else:
        said.append(f"rho = {_epsilon(random)}")
    if random.random() < 0.3:
        said.append(f"report_epsilon = {_epsilon(random)}")
    if random.random() < 0.3 and axes:
        said.append(f"failsafe_over = {_list(random.sample(axes, random.randint(1, len(axes))))}")
    if random.random() < 0.4:
        levels = [domain.root, *domain.levels]
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
            low = random.choice(["", "0", "0", "0", "1"])
            high = random.choice(["", "", str(2**40), "100", "60"])
            rows.append(",".join([*map(_csv, [unit, *group]), low, high]))
    name = f"bounds-{len(list(home.glob('bounds-*.csv')))}.csv"
    (home / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return name


def main() -> None:
    """Run many cases and print the tally; any failure is an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=int, help="how many must pass check")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    tally = run_cases(chosen.cases, chosen.seed)
    sys.stdout.write("\n".join(tally.lines()) + "\n")
    sys.exit(bool(tally.failures))


if __name__ == "__main__":
    main()
