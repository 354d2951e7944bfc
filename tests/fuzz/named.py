"""Files that keys and options name: each damaged in turn, for the commands that read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

import polars as pl

from tests.docs.files import extract
from tests.fuzz import base, mutate
from tests.topdown.presets_2020 import tables


def damage(path: Path, random: Random) -> None:
    """Damage a file, or a file of a folder."""
    if path.is_dir():
        mutate.change_folder(path, random)
        return
    data, way = path.read_bytes(), random.random()
    if path.suffix == ".csv" and way < 0.6:
        mutate.change_csv(path, random)
    elif path.suffix == ".toml" and way < 0.6:
        path.write_bytes(mutate.change_text(data.decode(), random))
    elif way < 0.9:
        path.write_bytes(mutate.change_bytes(data, random))
    else:
        path.write_bytes(random.choice((b"", data[: len(data) // 2], data * 2, b"\xff\xfe", b"{}")))


@dataclass(frozen=True)
class Scene:
    """Sound files, which of them are damaged, and the commands that read them.

    where
        covers     the keys and options that name the damaged files
        damaged    files or folders
        commands   each with the folder or file that it may make
        make       writes what the corpus does not have
        before     commands that are run then
    """

    covers: str
    damaged: str
    commands: Mapping[str, str]
    make: Callable[[Path], None]
    before: tuple[str, ...] = ()


def _config(folder: Path, mechanism: object, name: str = "c.toml", **more: object) -> None:
    population = {**base.MICRODATA, **{k: v for k, v in more.items() if k == "quarters"}}
    population.pop("structural_zero", None)
    run = {key: value for key, value in more.items() if key not in ("quarters", "public")}
    tree = base.tree(population, mechanism, **run)  # type: ignore[arg-type]
    tree |= {key: value for key, value in more.items() if key == "public"}
    (folder / name).write_text(base.toml_text(tree))


def _write(path: Path, *lines: str) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _into(config: Path, out: str) -> None:
    """The same config for another folder."""
    config.write_text(config.read_text().replace('"out" = "out"', f'"out" = "{out}"'))


TRACTS = ("a1", "a2", "b1", "b2")
KEYED = {"name": "rounding", "how": "fixed", "keys": "kept.keys", "tables": "auto"}
STEPS = [{"name": "sampling", "fraction": "1/2", "exact": True}, KEYED]
PROTECT = {"check c.toml": "out", "protect c.toml": "out"}


def _bounds(folder: Path) -> None:
    bounds = {"query": "sexes", "level": "tract", "file": "bounds.csv", "public": True}
    _config(folder, {**base.TOPDOWN, "bounds": [bounds]}, seed=1)
    units = pl.read_csv(folder / "tracts.csv", infer_schema=False)["tract"]
    _write(
        folder / "bounds.csv", "tract,sex,low,high", *(f"{u},{s},0,99" for u in units for s in "fm")
    )


def _costs(folder: Path) -> None:
    own = {"tables": {"t": ["sex", "age"]}, "costs": {"file": "costs.csv"}, "effort": 0}
    _config(folder, {"name": "suppression", "rule": "complementary", **own})
    _write(
        folder / "costs.csv",
        "level,sex,age,cost",
        "tract,f,minor,2",
        "tract,m,old,3",
        "county,f,old,0.5",
    )


def _sizes(folder: Path) -> None:
    tables = {"t": {"by": ["sex", "age"], "at": 5}}
    sizes = {"file": "homes.csv"}
    _config(folder, {"name": "coarsening", "ladder": [5], "tables": tables, "sizes": sizes})
    _write(folder / "homes.csv", "tract,n", *(f"{one},4" for one in TRACTS))


def _public(folder: Path) -> None:
    facts = {"sizes": "homes.csv", "table": "whole.csv"}
    _config(folder, {**base.TOPDOWN}, seed=1, public=facts)
    _write(folder / "homes.csv", "tract,n", *(f"{one},4" for one in TRACTS))
    cells = ((sex, age) for sex in "fm" for age in ("minor", "adult", "old"))
    _write(folder / "whole.csv", "sex,age,n", *(f"{sex},{age},5" for sex, age in cells))


def _before(folder: Path) -> None:
    _config(folder, {**base.TOPDOWN}, seed=1, public={"before": "older.csv"})
    (folder / "older.csv").write_bytes((folder / "people.csv").read_bytes())


def _costs_parquet(folder: Path) -> None:
    _costs(folder)
    table = pl.read_csv(folder / "costs.csv", infer_schema=False)
    table.write_parquet(folder / "costs.parquet")
    text = (folder / "c.toml").read_text().replace("costs.csv", "costs.parquet")
    (folder / "c.toml").write_text(text)


def _ptable(folder: Path) -> None:
    _config(
        folder, {"name": "cell-key", "tables": "auto", "ptable": {"file": "ptable.csv"}}, seed=1
    )
    _write(
        folder / "ptable.csv",
        "i,j,p",
        "0,0,1",
        "1,0,0.5",
        "1,2,0.5",
        "2,1,0.25",
        "2,2,0.5",
        "2,3,0.25",
    )


def _keys(folder: Path) -> None:
    _config(folder, KEYED, "first.toml", seed=1)
    _into(folder / "first.toml", "first")
    _config(folder, KEYED, seed=1)


def _reuse(folder: Path) -> None:
    _config(folder, STEPS, "first.toml", seed=1)
    _into(folder / "first.toml", "first")
    _config(folder, STEPS, seed=1, reuse={"run": "first"})


def _schema(folder: Path) -> None:
    (folder / "c.toml").write_text(base.toml_text(base.tree(base.COUNTS, base.IDENTITY)))


def _quarters(folder: Path) -> None:
    _config(
        folder, base.IDENTITY, quarters={"file": "homes.csv", "attribute": "sex", "vacant": "none"}
    )
    places = pl.read_csv(folder / "tracts.csv", infer_schema=False)
    homes = places.with_columns(f=pl.lit("9"), m=pl.lit("9"), none=pl.lit("1"))
    homes.write_csv(folder / "homes.csv")


def _extract(folder: Path) -> None:
    extract(folder)
    _write(
        folder / "c.toml",
        "[population]",
        'kind = "ipums1940"',
        'file = "extract.dat"',
        'orphans = "drop"',
        "[mechanism]",
        'name = "identity"',
        "[run]",
        'out = "out"',
    )


def _of_2020(folder: Path) -> None:
    for name, table in zip(("blocks", "units", "persons"), tables(state="72"), strict=True):
        table.write_parquet(folder / f"{name}.parquet")
    for name, kind, more in (
        ("c", "redistricting-2020", 'persons = "persons.parquet"'),
        ("h", "h1-2020", ""),
    ):
        _write(
            folder / f"{name}.toml",
            "[population]",
            f'kind = "{kind}"',
            more,
            'units = "units.parquet"',
            'blocks = "blocks.parquet"',
            'whole = "state"',
            "[mechanism]",
            'name = "identity"',
            "[run]",
            f'out = "{name}-out"',
        )


def _measured(folder: Path) -> None:
    _config(folder, base.TOPDOWN, seed=1, publish=["measurements"])
    _write(
        folder / "again.toml",
        "[measurements]",
        'folder = "out/release/measurements"',
        "[run]",
        'out = "again"',
    )
    _write(folder / "areas.csv", "area,tract", "north,a1", "north,a2", "south,b1")


def _foreign(folder: Path) -> None:
    """Tables, a PPMF and an MDF of 1940, each with a truth."""
    _config(folder, base.IDENTITY)
    people = pl.read_csv(folder / "people.csv", infer_schema=False)
    people.group_by("county", "tract", "sex", "age").len("n").write_csv(folder / "theirs.csv")
    place = "VINTAGE,TABBLKST,TABBLKCOU,TABTRACTCE,TABBLKGRPCE,TABBLK"
    rows = [
        f"x,44,007,000100,1,{1000 + k % 3},3,000,{1 + k % 2},{k},{1 + k % 2},0{1 + k % 7}"
        for k in range(40)
    ]
    _write(folder / "ppmf.csv", f"{place},RTYPE,GQTYPE,QSEX,QAGE,CENHISP,CENRACE", *rows)
    blocks = [f"44007000100100{k}" for k in range(3)]
    truth = [f"{blocks[k % 3]},{('male', 'female')[k % 2]}" for k in range(40)]
    _write(folder / "truth.csv", "block,sex", *truth)
    population = {
        "kind": "microdata",
        "file": "truth.csv",
        "geography": {"columns": ["block"]},
        "attribute": [{"name": "sex", "levels": ["male", "female"]}],
    }
    (folder / "p.toml").write_text(base.toml_text(base.tree(population, base.IDENTITY)))


def _folk(folder: Path) -> None:
    """People whom an attacker may look for."""
    people = pl.read_csv(folder / "people.csv", infer_schema=False)
    hispanic = pl.when(pl.int_range(pl.len()) % 5 == 0).then(pl.lit("yes")).otherwise(pl.lit("no"))
    people.with_columns(hispanic=hispanic).write_csv(folder / "folk.csv")
    levels = {"name": "hispanic", "levels": ["no", "yes"]}
    population = {**base.MICRODATA, "file": "folk.csv", "attribute": [*base.ATTRIBUTES, levels]}
    population.pop("structural_zero", None)
    (folder / "i.toml").write_text(base.toml_text(base.tree(population, base.IDENTITY)))


def _tables(folder: Path) -> None:
    """A released table of one's own, named people, and tables that a TOML file lists."""
    _config(folder, {"name": "suppression", "rule": "complementary", "tables": "auto", "effort": 0})
    _folk(folder)
    _into(folder / "i.toml", "plain")
    people = pl.read_csv(folder / "folk.csv", infer_schema=False).with_row_index("person")
    for name in ("known.csv", "whole.csv"):
        people.write_csv(folder / name)
    years = people.with_columns(age=(pl.int_range(pl.len()) * 7 % 90).cast(pl.String))
    years = years.with_columns(race=pl.lit("1"), household_size=pl.lit("2"))
    years.write_csv(folder / "released.csv")
    years.select("person", "age", "race", "household_size").write_csv(folder / "linked.csv")
    years.select("person", "hispanic").write_csv(folder / "answers.csv")
    _write(
        folder / "listed.toml",
        'schema = "sex-age38-race7-hispanic"',
        'units = "tracts.csv"',
        'levels = ["county", "tract"]',
        "[[table]]",
        'product = "sf1"',
        'name = "P1"',
        'level = "tract"',
        'file = "p1.csv"',
    )
    _write(folder / "p1.csv", "unit,cell,value", *(f"{unit},total,3" for unit in TRACTS))


def _difference(folder: Path) -> None:
    made = {"name": "rounding", "how": "nearest", "tables": "auto"}
    for name in ("one", "two"):
        _config(folder, made, f"{name}.toml")
        _into(folder / f"{name}.toml", name)
    units = pl.read_csv(folder / "tracts.csv", infer_schema=False)["tract"]
    _write(folder / "cross.csv", "leaf,first,second", *(f"{u},{u},{u}" for u in units))
    attack = '[[attack]]\nname = "differencing"\nother = "two"\ncrosswalk = "cross.csv"\n'
    (folder / "one.toml").write_text((folder / "one.toml").read_text() + attack)


def _laid_out(folder: Path) -> None:
    """People of fixed width with a codebook, and whose places stand in a table of their own."""
    people = pl.read_csv(folder / "people.csv", infer_schema=False)
    places = people.select("county", "tract").unique(maintain_order=True)
    places = places.with_columns(home=pl.format("{}", pl.int_range(100, 100 + pl.len())))
    places.write_csv(folder / "places.csv")
    rows = people.join(places, on=["county", "tract"], maintain_order="left")
    _write(folder / "people.dat", *(f"{r['home']}{r['sex']}{r['age']:5}" for r in rows.to_dicts()))
    fields = "".join(
        f'<var name="{name}"><location StartPos="{start}" EndPos="{end}"/></var>'
        for name, start, end in (("home", 1, 3), ("sex", 4, 4), ("age", 5, 9))
    )
    _write(folder / "people.xml", f"<codeBook><dataDscr>{fields}</dataDscr></codeBook>")
    beside = [{"file": "places.csv", "key": "home"}]
    _config(folder, base.IDENTITY)
    population = {
        **base.MICRODATA,
        "file": "people.dat",
        "format": {"layout": "people.xml", "beside": beside},
    }
    population.pop("structural_zero")
    (folder / "c.toml").write_text(base.toml_text(base.tree(population, base.IDENTITY)))


MADE = ("protect c.toml",)
SCORED = "--metrics error --attacks none"
SCENES = (
    Scene("TableBounds.file", "bounds.csv", PROTECT, _bounds),
    Scene("CostFile.file", "costs.csv", PROTECT, _costs),
    Scene("CostFile.file", "costs.parquet", PROTECT, _costs_parquet),
    Scene("PublicSizes.file", "homes.csv", PROTECT, _sizes),
    Scene("PublicFacts.sizes, PublicFacts.table", "homes.csv, whole.csv", PROTECT, _public),
    Scene("PublicFacts.before", "older.csv", PROTECT, _before),
    Scene("PerturbationFile.file", "ptable.csv", PROTECT, _ptable),
    Scene("CellKey.keys, Rounding.keys", "kept.keys", PROTECT, _keys, ("protect first.toml",)),
    Scene("ReusedRun.run", "first", PROTECT, _reuse, ("protect first.toml",)),
    Scene(
        "CountsTable.schema, HouseholdTables.schema, Towns.schema, WorkloadS.schema, "
        "_TablesFile.schema, MeasurementsTable.schema",  # one reader
        "schema.toml",
        PROTECT,
        _schema,
    ),
    Scene("Format.layout, Beside.file", "people.xml, places.csv, people.dat", PROTECT, _laid_out),
    Scene("QuartersTable.file", "homes.csv", PROTECT, _quarters),
    Scene("Ipums1940.file", "extract.dat", PROTECT, _extract),
    Scene(
        "Redistricting2020.persons, Redistricting2020.blocks, Redistricting2020.units, "
        "H12020.units, H12020.blocks",
        "persons.parquet, blocks.parquet, units.parquet",
        {"check c.toml": "c-out", "check h.toml": "h-out"},
        _of_2020,
    ),
    Scene(
        "MeasurementsTable.folder, estimate --config, plan --config, check --config, "
        "errors --source",
        "out/release/measurements, again.toml",
        {
            "plan again.toml": "",
            "check again.toml": "again",
            "estimate again.toml": "again",
            "errors out/release/measurements --query total --level tract --out t.csv": "t.csv",
        },
        _measured,
        MADE,
    ),
    Scene(
        "evaluate --runs, explain --runs",
        "out",
        {
            "errors out --runs 2 --out rep": "rep",
            "explain out --out page": "page",
            f"evaluate out {SCORED}": "",
        },
        _measured,
        MADE,
    ),
    Scene(
        "errors --measurements",
        "out/release/measurements",
        {"errors again --runs 2 --out rep --measurements out/release/measurements": "rep"},
        _measured,
        (*MADE, "estimate again.toml"),
    ),
    Scene(
        "errors --areas",
        "areas.csv",
        {"errors out --query total --areas areas.csv --out t.csv": "t.csv"},
        _measured,
        MADE,
    ),
    Scene(
        "evaluate --release, evaluate --truth",
        "theirs.csv, c.toml",
        {f"evaluate --truth c.toml --release theirs.csv --out ev {SCORED}": "ev"},
        _foreign,
    ),
    Scene(
        "evaluate --release",
        "ppmf.csv",
        {f"evaluate --truth p.toml --release ppmf.csv --out ev {SCORED}": "ev"},
        _foreign,
    ),
    Scene(
        "attack reconstruct --source, attack reconstruct --truth, _TablesFile.units, "
        "TableFile.file",
        "listed.toml, p1.csv, tracts.csv, plain/release, i.toml",
        {
            "attack reconstruct listed.toml --out found": "found",
            "attack reconstruct plain --out got --truth i.toml": "got",
        },
        _tables,
        ("protect i.toml",),
    ),
    Scene(
        "attack reidentify --source, attack reidentify --known, attack reidentify --truth",
        "known.csv, whole.csv, plain/release",
        {"attack reidentify plain --known known.csv --truth whole.csv --out got": "got"},
        _tables,
        ("protect i.toml",),
    ),
    Scene(
        "attack link --released, attack link --known, attack link --truth",
        "released.csv, linked.csv, answers.csv",
        {
            "attack link released.csv --known linked.csv --width 1 --truth answers.csv "
            "--out got": "got"
        },
        _tables,
    ),
    Scene(
        "attack difference --first, attack difference --second, attack difference --crosswalk, "
        "attack difference --truth, Difference.other, Difference.crosswalk",
        "one/release, two/release, cross.csv, one.toml",
        {
            "attack difference one two --crosswalk cross.csv --truth one.toml --out got": "got",
            "evaluate one --metrics none --attacks differencing": "",
        },
        _difference,
        ("protect one.toml", "protect two.toml"),
    ),
    Scene(
        "init --files",
        "people.csv, messy.csv",
        {
            "init people.csv --out one.toml": "one.toml",
            "init messy.csv --places code --attributes sex,age --only year=2020 "
            "--blank-counts zero --leave-out sex=Total --leave-out code=TOTAL "
            "--out two.toml": "two.toml",
        },
        lambda _: None,
    ),
    Scene("close --run", "out", {"close out --why x": ""}, _measured, MADE),
)
