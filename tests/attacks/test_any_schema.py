"""Attacks on attributes of any name: by roles, or by what an attacker is said to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from headcount.attacks.feasible_intervals import WorkOut
from headcount.attacks.linkage import Link
from headcount.attacks.reconstruction import Reconstruct
from headcount.attacks.records import Features, known_names, learnt_names
from headcount.attacks.reidentification import NOBODY, Reidentify
from headcount.config.load import load_config, load_people
from headcount.errors import ConfigError
from headcount.evaluation import Truth
from headcount.evaluation.answers import EVERY_CELL
from headcount.evaluation.evaluate import attack
from headcount.evaluation.part import TruePeople
from headcount.evaluation.uniqueness import Uniqueness
from headcount.mechanisms import Identity, protect
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.population import Population
from headcount.release.store import schema_from_json, schema_to_json
from headcount.schema.roles import Attacker
from headcount.tabulate import Tabulated, tabulate

GERMAN = """
[population]
kind = "microdata"
file = "personen.csv"
[population.geography]
columns = ["Gemeinde"]
[[population.attribute]]
name = "alter"
levels = ["unter 18", "18 bis 64", "65 u. m."]
[[population.attribute]]
name = "geschlecht"
levels = ["1", "2"]
[[population.attribute]]
name = "herkunft"
levels = ["DE", "EU", "andere"]
[roles]
sex = { attribute = "geschlecht", codes = { "1" = "male", "2" = "female" } }
origin = "herkunft"
[roles.age]
attribute = "alter"
codes = { "unter 18" = "0-17", "18 bis 64" = "18-64", "65 u. m." = "65+" }
"""
TIDY = """
[population]
kind = "microdata"
file = "tidy.csv"
count = "n"
[population.geography]
columns = ["area"]
[[population.attribute]]
name = "job"
levels = ["none", "farm", "office"]
[[population.attribute]]
name = "faith"
levels = ["a", "b"]
[attacker]
knows = ["job"]
sensitive = ["faith"]
"""
HOMES = """
[population]
kind = "households"
persons = "persons.csv"
dwellings = "homes.csv"
key = "home"
attributes = ["gender", "tongue", "owned"]
[population.geography]
columns = ["zone"]
[[population.attribute]]
name = "gender"
levels = ["f", "m"]
[[population.attribute]]
name = "tongue"
levels = ["north", "south"]
[[population.dwelling_attribute]]
name = "owned"
levels = ["no", "yes"]
[attacker]
knows = ["gender", "owned"]
sensitive = ["tongue"]
"""
END = '\n[mechanism]\nname = "identity"\n[run]\nout = "run"\n'


def german(folder: Path, rng: np.random.Generator) -> str:
    levels = (["unter 18", "18 bis 64", "65 u. m."], ["1", "2"], ["DE", "EU", "andere"])
    rows = ["Gemeinde,alter,geschlecht,herkunft"]
    rows += [f"G{k % 4}," + ",".join(rng.choice(one) for one in levels) for k in range(14)]
    (folder / "personen.csv").write_text("\n".join(rows))
    return GERMAN


def tidy(folder: Path, rng: np.random.Generator) -> str:
    kinds = product(["A", "B", "C"], ["none", "farm", "office"], ["a", "b"])
    rows = [f"{','.join(kind)},{rng.integers(0, 2)}" for kind in kinds]
    (folder / "tidy.csv").write_text("\n".join(["area,job,faith,n", *rows]))
    return TIDY


def homes(folder: Path, rng: np.random.Generator) -> str:
    places = [f"{k},Z{k % 3},{rng.choice(['no', 'yes'])}" for k in range(8)]
    (folder / "homes.csv").write_text("\n".join(["home,zone,owned", *places]))
    rows = [f"{k % 8},{rng.choice(['f', 'm'])},{rng.choice(['north', 'south'])}" for k in range(13)]
    (folder / "persons.csv").write_text("\n".join(["home,gender,tongue", *rows]))
    return HOMES


KINDS = {"german": german, "tidy": tidy, "homes": homes}


@pytest.fixture(params=list(KINDS))
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], Population]:
    def made(seed: int) -> Population:
        text = KINDS[request.param](tmp_path, np.random.default_rng(seed))
        (tmp_path / "c.toml").write_text(text + END)
        config = load_config(tmp_path / "c.toml")
        return config.population.read().meaning(config.roles, config.attacker)

    return made


def rows_of(people: Population) -> list[tuple[int, dict[str, int]]]:
    """Everybody: the place, and the level number of each attribute."""
    counts = tabulate(people)
    true = TruePeople.of(counts, counts.geography)
    names = people.schema.names
    columns = [true.codes(name).tolist() for name in names]
    units = true.unit.tolist()
    return [
        (u, dict(zip(names, row, strict=True))) for u, *row in zip(units, *columns, strict=True)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_people_are_linked_as_by_looking_at_every_record(
    make: Callable[[int], Population], seed: int
) -> None:
    people = make(seed)
    known, (secret, *_) = known_names(people.schema), learnt_names(people.schema)
    everybody = rows_of(people)
    right, claimed = 0, 0
    for unit, levels in everybody:
        fits = [
            other
            for there, other in everybody
            if there == unit and all(other[name] == levels[name] for name in known)
        ]
        claimed += len(fits) == 1
        right += len(fits) == 1 and fits[0][secret] == levels[secret]
    release = protect(Tabulated.of(people), Identity())
    row = attack(release, Truth.of(people), Link(exact=known)).table.row(0, named=True)
    assert (row["claimed"], row["right"]) == (claimed, right)
    assert right == claimed  # of a release that changes nobody


@pytest.mark.parametrize("seed", range(4))
def test_people_are_matched_as_often_as_both_sides_allow(
    make: Callable[[int], Population], seed: int
) -> None:
    people, other = make(seed), make(seed + 100)
    release = protect(Tabulated.of(other), Identity())
    known = known_names(people.schema)

    def tally(some: Population) -> Counter[tuple[int, ...]]:
        return Counter((unit, *(row[name] for name in known)) for unit, row in rows_of(some))

    table = attack(release, Truth.of(people), Reidentify()).table
    assert table.row(0, named=True)["claimed"] == sum((tally(people) & tally(other)).values())


def solutions(people: Population, unit: int, pairs: list[tuple[str, ...]]) -> list[tuple[int, ...]]:
    """Every list of counts of one place that has the same sums by some attributes."""
    schema = people.schema
    true = np.asarray(tabulate(people).matrix[[unit]].toarray()).reshape(schema.shape)
    axes = {name: number for number, name in enumerate(schema.names)}

    def sums(cells: np.ndarray) -> list[list[int]]:
        found = []
        for by in pairs:
            away = tuple(number for name, number in axes.items() if name not in by)
            found.append(cells.sum(axis=away).reshape(-1).tolist())
        return found

    total, want = int(true.sum()), sums(true)
    found = []

    def fill(cell: int, left: int, so_far: list[int]) -> None:
        if cell == true.size - 1:
            whole = np.array([*so_far, left]).reshape(schema.shape)
            if sums(whole) == want:
                found.append(tuple(whole.reshape(-1).tolist()))
            return
        for here in range(left + 1):
            fill(cell + 1, left - here, [*so_far, here])

    fill(0, total, [])
    return found


@pytest.mark.parametrize("kind", ["tidy", "homes"])
def test_records_are_certain_where_no_others_fit(kind: str, tmp_path: Path) -> None:
    text = KINDS[kind](tmp_path, np.random.default_rng(1))
    (tmp_path / "c.toml").write_text(text + END)
    config = load_config(tmp_path / "c.toml")
    people = config.population.read().meaning(config.roles, config.attacker)
    release = protect(Tabulated.of(people), Identity())
    schema = people.schema
    pairs = [(a, b) for a in known_names(schema) for b in learnt_names(schema)]
    by = [*((name,) for name in schema.names), *pairs]
    found = Reconstruct().run(release, NOBODY).found
    assert found.proven.all()
    for unit in range(release.geography.size(release.geography.leaf)):
        every = solutions(people, unit, by)
        own = np.asarray(found.matrix[[unit]].toarray()).reshape(-1)
        # Classes that no table tells apart are one: the first cell stands for each of them.
        classes = {tuple(np.bincount(found.class_of, weights=one).tolist()) for one in every}
        mine = np.bincount(found.class_of, weights=own)
        assert tuple(mine.tolist()) in classes
        far = max(np.abs(mine - np.array(other)).sum() for other in classes)
        people_here = own.sum()
        expected = 100 * far / (2 * people_here) if people_here else 0
        assert found.variability[unit] == pytest.approx(expected)


def test_without_roles_and_attacker_the_attacks_say_what_they_need(tmp_path: Path) -> None:
    text = tidy(tmp_path, np.random.default_rng(0)).partition("[attacker]")[0]
    (tmp_path / "c.toml").write_text(text + END)
    people = load_config(tmp_path / "c.toml").population.read()
    release = protect(Tabulated.of(people), Identity())
    for kind in (Link(), Reidentify(), Reconstruct()):
        why = kind.supports(release).why_not
        assert "[attacker] knows" in why or "[roles]" in why


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('[roles]\nage = "altr"', "roles.age: found attribute 'altr'"),
        (
            '[roles]\nsex = { attribute = "faith", codes = { z = "male" } }',
            "roles.sex.codes: found 'z'",
        ),
        ('[roles]\nsex = "job"\norigin = "job"', "'job' in two roles"),
        ("[roles]\nsex = 3", "roles.sex"),
        ('[attacker]\nknows = ["jobs"]', "attacker.knows: found attribute 'jobs'"),
        ('[attacker]\nknows = ["job"]\nsensitive = ["job"]', "'job' known and sensitive"),
    ],
)
def test_roles_of_what_is_not_there_are_refused(tmp_path: Path, said: str, message: str) -> None:
    text = tidy(tmp_path, np.random.default_rng(0)).partition("[attacker]")[0]
    (tmp_path / "c.toml").write_text(text + said + END)
    path = tmp_path / "c.toml"
    with pytest.raises(ConfigError) as error:
        load_people(path)
    assert message in str(error.value)


def test_roles_change_no_schema_and_are_kept_with_a_release(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(german(tmp_path, np.random.default_rng(0)) + END)
    config = load_config(tmp_path / "c.toml")
    bare = config.population.read()
    people = bare.meaning(config.roles, config.attacker)
    assert people.schema == bare.schema
    again = schema_from_json(schema_to_json(people.schema))
    assert again.roles == config.roles
    assert "roles" not in schema_to_json(bare.schema)
    features = Features.of(again)
    assert [one.name for one in features.known] == ["geschlecht", "alter"]
    known = replace(again, attacker=Attacker(knows=("alter",), sensitive=("geschlecht",)))
    assert learnt_names(known) == ("geschlecht",)


@pytest.mark.parametrize("seed", range(3))
def test_who_is_alone_is_found_as_by_looking_at_everybody(
    make: Callable[[int], Population], seed: int
) -> None:
    people = make(seed)
    release = protect(Tabulated.of(people), Identity())
    table = Uniqueness().compute(release, Truth.of(people)).table
    leaf = people.geography.leaf
    kinds = {name: (name,) for name in people.schema.names} | {EVERY_CELL: people.schema.names}
    if known := people.schema.attacker.knows:
        kinds["what is known"] = known
    assert set(table.filter(level=leaf)["kind"]) == set(kinds)
    for kind, names in kinds.items():
        tally = Counter((unit, *(row[name] for name in names)) for unit, row in rows_of(people))
        row = table.filter(level=leaf, kind=kind).row(0, named=True)
        alone = sum(n == 1 for n in tally.values())
        assert (row["alone"], row["claimed"], row["right"]) == (alone, alone, alone)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_certain_of_rounded_counts_is_true(
    make: Callable[[int], Population], seed: int
) -> None:
    """Every range holds the count, and a count that is claimed is the count."""
    people = make(seed)
    data, names = Tabulated.of(people), people.schema.names
    method = Rounding(tables={"each": [names[0]], "both": list(names[:2])}, base=3, how="nearest")
    release = protect(data, method, seed=seed)
    truth = Truth.of(people).made_by(method)
    rows = attack(release, truth, WorkOut()).table
    assert rows["outside"].sum() == 0
    assert (rows["claimed"] == rows["right"]).all()
    assert rows["attacked"].sum() > 0
    # A control: of people who were not protected the same ranges do not hold.
    other = Truth.of(make(seed + 50)).made_by(method)
    assert attack(release, other, WorkOut()).table["outside"].sum() > 0
