"""Check the witnesses of a coarsened release: a program that shares no code with the search.

    python -m headcount.mechanisms.coarsening.check_witnesses RUN

Of every population that is said to fit: are its numbers whole and not negative, does it give all
published numbers and all people of each key, does it show what it is said to? The rule for areas is
run again, and every "not proven" must have such a witness.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

Row = dict[str, str]
World = Counter[tuple[str, str]]
EXACT = {"below": 0, "halves": "up", "steps": []}


class Said(NamedTuple):
    """Combinations, the truth, all worlds by number, which of them are none, all that is wrong."""

    combos: dict[str, Row]
    truth: World
    worlds: dict[str, World]
    bad: set[str]
    faults: list[str]


def check(run: Path) -> tuple[list[str], str]:
    """What is wrong with the witnesses of a run, and what was checked."""
    folder = run / "internal" / "coarsening"
    told = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    faults: list[str] = []
    levels, unit_of = _check_areas(run, folder, told, faults)
    combos = {one["combination"]: one for one in rows(folder / "combinations.csv")}
    for what, names in (("key", told["known"]), ("secret", told["secret"])):
        meanings = {(one[what], *(one[name] for name in names)) for one in combos.values()}
        if len(meanings) > len({one[what] for one in combos.values()}):
            faults.append(f"combinations.csv: a {what} with several meanings")
    truth: World = Counter()
    for one in rows(folder / "people.csv"):
        truth[one["area"], one["combination"]] += int(one["n"])
    worlds: dict[str, World] = {"0": Counter()}  # the truth is a witness too
    for one in rows(folder / "witnesses.csv"):
        worlds.setdefault(one["witness"], Counter())
        worlds[one["witness"]][one["area"], one["combination"]] += int(one["change"])
    bad = {number for number, world in worlds.items() if not _is_population(world, truth, combos)}
    said = Said(combos, truth, worlds, bad, faults)
    for table in published(run, told):
        _check_table(table, levels, unit_of, told, said)
    words = _check_statements(rows(folder / "statements.csv"), said)
    return faults, f"{words}, {len(worlds):,} populations"


def rows(path: Path) -> list[Row]:
    """The rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _check_areas(
    run: Path, folder: Path, told: Any, faults: list[str]
) -> tuple[list[str], dict[str, Row]]:
    """Levels from the leaf up, and for each area of the audit its unit at each of them."""
    leaves, areas = rows(folder / "leaves.csv"), rows(run / "release" / "areas.csv")
    tree = [name for name in leaves[0] if name != "size"]
    levels = [tree[-1], *(f"areas-{rung}" for rung in told["ladder"]), tree[0]]
    if [one[tree[-1]] for one in leaves] != [one[tree[-1]] for one in areas]:
        faults.append("areas.csv: other leaves, or another order")
    for one in areas:
        one[tree[0]] = leaves[0][tree[0]]
    for level, again in zip(levels[1:], areas_again(leaves, tree, told["ladder"]), strict=False):
        pairs = set(zip((one[level] for one in areas), again, strict=False))
        if not len(pairs) == len({one for one, _ in pairs}) == len({one for _, one in pairs}):
            faults.append(f"{level}: the rule gives other areas")
    for lower, upper in pairwise(levels):
        nested = {(one[lower], one[upper]) for one in areas}
        if len(nested) > len({one for one, _ in nested}):
            faults.append(f"{lower}: does not nest in {upper}")
    return levels, {one[told["level"]]: one for one in areas}


def areas_again(leaves: list[Row], tree: list[str], ladder: Any) -> Iterator[list[int]]:
    """The area of each leaf on each rung, by the rule of docs/coarsening.md."""
    area = list(range(len(leaves)))
    for rung in ladder:
        if isinstance(rung, str):  # units of the level, those that share an area as one
            group = list(range(len(leaves)))

            def first(i: int, group: list[int] = group) -> int:
                while group[i] != i:
                    i = group[i]
                return i

            for names in (list[Any](area), [leaf[rung] for leaf in leaves]):
                seen: dict[Any, int] = {}
                for i, name in enumerate(names):
                    one, other = sorted((first(i), first(seen.setdefault(name, i))))
                    group[other] = one
            area = [first(i) for i in range(len(leaves))]
        else:
            for level in tree[-2::-1]:
                area = joined(leaves, level, area, rung)
        yield list(area)


def joined(leaves: list[Row], level: str, area: list[int], least: int) -> list[int]:
    """Neighbours within units joined until all have enough; the rest goes to the last."""
    runs: list[list[Any]] = []
    for i, leaf in enumerate(leaves):
        if not i or area[i] != area[i - 1]:
            runs.append([[], 0, not i or leaves[i - 1][level] != leaf[level]])
        runs[-1][0].append(i)
        runs[-1][1] += int(leaf["size"])
    made: list[list[Any]] = []
    for members, size, opens in [*runs, [[], 0, True]]:
        if opens and len(made) > 1 and made[-1][1] < least and not made[-1][2]:
            last = made.pop()
            made[-1][0] += last[0]
            made[-1][1] += last[1]
        if opens or made[-1][1] >= least:
            made.append([list(members), size, opens])
        else:
            made[-1][0] += members
            made[-1][1] += size
    return [number for number, one in enumerate(made) for _ in one[0]]


def _is_population(world: World, truth: World, combos: dict[str, Row]) -> bool:
    """Whether counts stay 0 or more and every place keeps its people of each key."""
    keys: World = Counter()
    for (area, combination), change in world.items():
        if combination not in combos or truth[area, combination] + change < 0:
            return False
        keys[area, combos[combination]["key"]] += change
    return not any(keys.values())


def published(run: Path, told: Any) -> Iterator[tuple[Any, ...]]:
    """Each table of the release: name and level, the group of each level, how shown, cells."""
    domain = json.loads((run / "release" / "manifest.json").read_text(encoding="utf-8"))["domain"]
    of = {name: dict(zip(levels, levels, strict=True)) for name, levels in domain["attributes"]}
    for made in domain["tables"]:
        table, level, axes = made["table"], made["level"], dict[str, Row]()
        for name, _ in table["axes"]:
            axes[name] = dict(of[name])
            for label, levels in dict(table.get("joined", ())).get(name, ()):
                axes[name].update(dict.fromkeys(levels, label))
        path = run / "release" / f"{table['name']}@{level}.parquet"
        text = partial(pl.read_csv, path.with_suffix(".csv"), infer_schema=False)
        read = (pl.read_parquet(path) if path.exists() else text()).cast({"n": pl.Int64})
        totals = {name: read[name][0] for name in axes}  # the total stands first
        where = read.select("unit", *axes).rows()
        cells = {(one[0], one[1:]): n for one, n in zip(where, read["n"], strict=True)}
        show = next((it for it in told["tables"] if it["name"] == table["name"]), EXACT)
        yield table["name"], level, axes, totals, show, cells


def _check_table(
    table: tuple[Any, ...], levels: list[str], unit_of: dict[str, Row], told: Any, said: Said
) -> None:
    """Add every world up to every cell of a table."""
    combos, truth, worlds, bad, faults = said
    name, level, axes, totals, show, cells = table
    if levels.index(level) < levels.index(told["level"]):
        if not set(axes) <= set(told["known"]):
            faults.append(f"{name} at {level}: below the areas of the audit")
        return  # of keys alone, which every world has in common
    unit = {area: one[level] for area, one in unit_of.items()}
    for mask in range(1 << len(axes)):
        summed = [name for number, name in enumerate(axes) if mask >> number & 1]
        group = {
            number: tuple(
                totals[axis] if axis in summed else labels[one.get(axis, next(iter(labels)))]
                for axis, labels in axes.items()
            )
            for number, one in combos.items()
        }
        true: Counter[Any] = Counter()
        for (area, combination), n in truth.items():
            true[unit[area], group[combination]] += n
        every = {*true, *(one for one in cells if one[1] in set(group.values()))}
        if any(shown_as(true[one], show) != cells.get(one, 0) for one in every):
            faults.append(f"{name} at {level}: the truth does not give all of its numbers")
        # Sums of exact numbers follow from the detail, which no world may change.
        for number, world in worlds.items() if not summed or show["steps"] else ():
            moved: Counter[Any] = Counter()
            for (area, combination), change in world.items():
                moved[unit[area], group.get(combination)] += change
            for cell, change in moved.items():
                if change and shown_as(true[cell] + change, show) != cells.get(cell, 0):
                    bad.add(number)


def shown_as(count: int, show: Any) -> int | None:
    """What a count is shown as by the steps of a table; None where it is too small."""
    if count < show["below"]:
        return None
    base, value = [(1, None), *(one[1:] for one in show["steps"] if one[0] <= count)][-1]
    whole, rest = divmod(count, base)
    up = 2 * rest > base or (2 * rest == base and (show["halves"] == "up" or whole % 2 == 1))
    return int((whole + up) * base) if value is None else int(value)


def _check_statements(statements: list[Row], said: Said) -> str:
    """Hold every statement against its witness."""
    combos, truth, worlds, bad, faults = said
    secret = {one["combination"]: one["secret"] for one in combos.values()}
    in_cell: dict[str, list[str]] = defaultdict(list)
    for number, one in combos.items():
        in_cell[one["key"]].append(number)
    asked, shown = set[tuple[str, str]](), 0
    for one in statements:
        area, key, own = one["area"], one["key"], one["insider"]
        if own == "-1":
            asked.add((area, key))
        if one["said"] in ("proven", "undecided"):
            continue
        shown += 1
        if one["said"] != "not proven" or one["witness"] not in worlds or one["witness"] in bad:
            faults.append(f"{area}, key {key}: {one['said']!r} with a witness that does not fit")
            continue
        world, held = worlds[one["witness"]], Counter[str]()
        for number in in_cell[key]:
            held[secret[number]] += truth[area, number] + world[area, number]
        if own != "-1":
            held[own] -= 1  # who knows himself asks of the others
        if min(held.values()) < 0 or not any(n for who, n in held.items() if who != one["secret"]):
            faults.append(f"{area}, key {key}: witness {one['witness']} does not show it")
    missing = {(area, combos[one]["key"]) for (area, one), n in truth.items() if n} - asked
    if missing:
        faults.append(f"statements.csv: nothing is said of {len(missing)} areas and keys")
    return f"{len(statements):,} statements, {shown:,} of them not proven"


if __name__ == "__main__":
    found, words = check(Path(sys.argv[1]))
    sys.stdout.write("\n".join([*found[:20], f"{words}, {len(found)} faults\n"]))
    sys.exit(bool(found))
