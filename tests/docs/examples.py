"""How each TOML block of the documentation becomes a whole config that is run to the end.

A block is named by a text that only it has on its page. What the page leaves out (data, mechanism,
run) stands here; keys of the page stay as they are, except for what is no value but a place for
one (a digest), and for sizes that would take minutes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headcount.run.protect import protect_run
from headcount.schema import load_schema
from tests.docs import files
from tests.docs.pages import Block, blocks, config_text, merged

Table = dict[str, Any]


@dataclass(frozen=True)
class Example:
    """Blocks of one page, put together, with what they leave out."""

    name: str
    page: str = ""
    shows: tuple[str, ...] = ()
    more: Table = field(default_factory=dict)
    data: Callable[[Path], None] | None = None
    open_values: tuple[tuple[str, str], ...] = ()

    def blocks(self) -> list[Block]:
        """The blocks that the example puts together; an unclear name is an error."""
        return [find(self.page, text) for text in self.shows]

    def config(self) -> Table:
        """The whole config."""
        config: Table = {}
        for block in self.blocks():
            text = block.text
            for placeholder, value in self.open_values:
                text = text.replace(placeholder, value)
            config = merged(config, tomllib.loads(text))
        return merged(merged(config, self.more), {"run": {"out": f"runs/{self.name}"}})


def find(page: str, text: str) -> Block:
    """The only block of a page that holds a text."""
    found = [block for block in blocks() if block.page == page and text in block.text]
    if len(found) != 1:
        raise AssertionError(
            f"{page}: found {len(found)} blocks with {text!r}, expected one: the examples in "
            "tests/docs/examples.py name blocks by a text that only they have"
        )
    return found[0]


def mechanism(name: str, **keys: Any) -> Table:
    return {"mechanism": {"name": name, **keys}}


def attributes(*named: str, levels: Mapping[str, list[str]]) -> list[Table]:
    return [{"name": name, "levels": levels[name]} for name in named]


LEVELS = {
    "age": ["minor", "adult"],
    "sex": ["f", "m"],
    "race": ["a", "b", "c"],
    "quarters": ["household", "nursing", "college"],
    "hhgq": ["household", "nursing", "college"],
}
PEOPLE: Table = {
    "kind": "microdata",
    "file": "people.csv",
    "units": "tracts.csv",
    "geography": {"columns": ["state", "county", "tract"]},
}
TOWNS: Table = {"kind": "towns", "people": 1500, "counties": 2, "seed": 7}
GERMAN: Table = {
    "population": {
        "kind": "microdata",
        "file": "menschen.csv",
        "geography": {"columns": ["gemeinde"]},
        "attribute": [{"name": name} for name in ("alter", "geschlecht", "herkunft")],
    },
    "mechanism": {"name": "geometric", "epsilon": 1},
}
SIZED: Table = {"population": {**TOWNS, "attributes": ["sex", "household_size"]}}
SHARES: Table = {"cells": {"share": "1/2"}, "sex": {"by": ["sex"], "share": "1/2"}}
ATTRIBUTES = ["age", "sex", "race", "hispanic", "tenure"]
SWAPPED: Table = {"population": {**TOWNS, "attributes": ["age", "race"]}}
SEVEN: Table = {**TOWNS, "schema": "sex-age38-race7-hispanic"}
CELLS = {
    "under18_hisp" if name == "hisp_minor" else name: dict(
        zip(("group", "age"), name.split("_"), strict=True)
    )
    for name in load_schema("voting-age-by-group").cell_names
}


def write_bounds(folder: Path) -> None:
    files.bounds(folder, columns=find("config.md", "county,sex,grown").text.splitlines()[0])


def first_run(folder: Path) -> None:
    """The run of a chain whose swapped people the page reuses, with other tables."""
    config = merged(find("cell-key.md", "reuse = ").toml, SWAPPED)
    config["run"] = {"out": "first"}
    config["mechanism"][-1]["tables"] = {"race": ["race"]}
    (folder / "first.toml").write_text(config_text(config), encoding="utf-8")
    protect_run(folder / "first.toml")


def digest_of_bounds() -> str:
    """The digest of the table that the page leaves open as "..."."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        columns = find("config.md", "county,sex,grown").text.splitlines()[0]
        return files.bounds(Path(folder), columns=columns)


def examples() -> tuple[Example, ...]:
    """Every example, run from check to evaluate."""
    return (
        *_populations(),
        *_units(),
        *_swaps(),
        *_suppression(),
        *_changed_tables(),
        *_topdown(),
        *_rows_of_the_table(),
        Example(
            "cases",
            "compare.md",
            ('name = "noise on every count"', "reason = "),
            mechanism("geometric", epsilon=1),
        ),
        Example(
            "chain",
            "config.md",
            ('name = "sampling"\nfraction',),
            {"population": PEOPLE},
            files.people,
        ),
        Example("how-to-invariants", "invariants.md", ('level = "county"',)),
        Example("from-sdcmicro", "from-sdcmicro.md", ('name = "targeted-swapping"',)),
        Example("from-tau-argus", "from-tau-argus.md", ('rule = "complementary"',)),
        Example("from-the-bureau", "from-the-bureau.md", ('preset = "e2e-2018"',)),
        Example(
            "persons-2020",
            "redistricting.md",
            ('preset = "redistricting-2020-us"',),
            data=files.census_2020,
        ),
        Example(
            "units-2020", "redistricting.md", ('preset = "h1-2020-us"',), data=files.census_2020
        ),
        Example(
            "release-of-others",
            "config.md",
            ("[release.format]",),
            {
                "population": {**PEOPLE, "attribute": attributes("sex", "age", levels=LEVELS)},
                **mechanism("geometric", epsilon=1),
            },
            files.people,
        ),
        Example(
            "rates",
            "metrics.md",
            ('name = "rates"',),
            {
                "population": {**PEOPLE, "attribute": attributes("sex", "age", levels=LEVELS)},
                **mechanism("geometric", epsilon=1),
            },
            files.people,
        ),
        Example(
            "files-of-a-release",
            "release.md",
            ("margins = ",),
            {
                "population": {**PEOPLE, "attribute": attributes("sex", "age", levels=LEVELS)},
                **mechanism("geometric", epsilon=1),
            },
            files.people,
        ),
    )


def _populations() -> list[Example]:
    return [
        Example(
            "microdata",
            "config.md",
            ('kind = "microdata"',),
            mechanism("geometric", epsilon=1, unit="change-one"),
            files.people,
        ),
        Example(
            "files",
            "config.md",
            ("[population.format]",),
            {
                "population": {**PEOPLE, "file": "survey.csv", "units": "places.csv"},
                **mechanism("geometric", epsilon=1),
            },
            files.survey,
        ),
        Example(
            "long-counts",
            more={
                "population": {
                    "kind": "microdata",
                    "file": "long.csv",
                    "count": "n",
                    "blank_counts": "zero",
                    "geography": {
                        "column": "geocode",
                        "prefixes": {"state": 2, "county": 5, "tract": 11},
                        "fill_zeros": True,
                    },
                    "attribute": [{"name": "sex", "levels": ["f", "m", "x"]}],
                },
                **mechanism("geometric", epsilon=1),
            },
            data=files.long_counts,
        ),
        Example(
            "counts",
            "config.md",
            ('kind = "counts"',),
            {
                "population": {"cells": CELLS, "sums": "keep"},
                **mechanism("raked", epsilon=1, unit="add-remove"),
            },
            files.blocks_of_counts,
        ),
        Example(
            "counted-twice",
            "config.md",
            ("overlap = 2",),
            {
                "population": {
                    "kind": "counts",
                    "file": "twice.csv",
                    "schema": "twice.toml",
                    "geography": {"columns": ["tract"]},
                },
                **mechanism("geometric", epsilon=1),
            },
            files.counted_twice,
        ),
        Example(
            "households",
            "config.md",
            ('kind = "households"',),
            mechanism(
                "targeted-swapping",
                rate=0.1,
                risk_variables=["age", "sex"],
                k=3,
                hierarchy=["county", "tract"],
                similar=[["size", "adults"], ["size"]],
                carry_along=["tenure"],
                within="county",
            ),
            files.dwellings,
        ),
        Example(
            "odd-but-meant",
            more={
                "population": {
                    "kind": "microdata",
                    "file": "odd.csv",
                    "totals": "drop",
                    "not_counts": ["n"],
                    "geography": {
                        "column": "geocode",
                        "prefixes": {"state": 2, "county": 5},
                        "longer": "cut",
                    },
                    "attribute": [
                        {"name": "sex", "real_levels": ["NA"]},
                        {"name": "hhsize", "follows": "person"},
                    ],
                },
                **mechanism("geometric", epsilon=1),
            },
            data=files.odd,
        ),
        Example(
            "ipums1940",
            more={
                "population": {
                    "kind": "ipums1940",
                    "file": "extract.dat",
                    "orphans": "drop",
                    "nurse_nva_0": True,
                },
                **mechanism("topdown", preset="e2e-2018", epsilon=4, nurse_nva_0=True),
                "run": {"publish": ["mdf"]},
            },
            data=files.extract,
        ),
        Example(
            "workload-s",
            more={
                "population": {
                    "kind": "workload-s",
                    "seed": 1,
                    "households": 2000,
                    "attributes": ["sex"],
                },
                **mechanism("swapping", rate=0.05),
            },
        ),
        Example(
            "uniform",
            more={
                "population": {
                    "kind": "uniform",
                    "people": 2000,
                    "depth": 2,
                    "mean": 20,
                    "seed": 1,
                },
                **mechanism("averaged", epsilon=1, parts=2, unit="change-one"),
            },
        ),
    ]


def _units() -> list[Example]:
    """Household sizes in the schema, with either way out, for noise on cells and for TopDown."""
    ways: dict[str, Table] = {
        "housemates": {"count_housemates": True},
        "household": {"unit": "household-change-one", "largest_household": 8},
    }
    return [
        Example("unit-housemates", "config.md", ("count_housemates = true",), SIZED),
        Example("unit-household", "config.md", ("largest_household = 8",), SIZED),
        Example("roles", "config.md", ("[attacker]",), GERMAN, files.german),
        *(
            Example(
                f"topdown-unit-{name}",
                more={**SIZED, **mechanism("topdown", epsilon=1, queries=SHARES, **keys)},
            )
            for name, keys in ways.items()
        ),
    ]


def _swaps() -> list[Example]:
    towns = {"population": {**TOWNS, "attributes": ATTRIBUTES}}
    larger = {"population": {**TOWNS, "people": 9000, "attributes": ["race", "hispanic"]}}
    return [
        Example("swapping", "config.md", ('name = "swapping"',), larger),
        Example("swapping-lo", more={**larger, **mechanism("swapping", preset="lo")}),
        Example("swapping-hi", more={**larger, **mechanism("swapping", preset="hi")}),
        Example("person-swapping", "config.md", ('name = "person-swapping"',), towns),
        Example(
            "person-swapping-of-one-area",
            more={
                **towns,
                **mechanism(
                    "person-swapping",
                    level="tract",
                    rate=0.05,
                    kind="similar",
                    k=1,
                    area="99001000100",
                    keep=["tenure"],
                    order=list(range(128)),
                    unique_by=["age", "race"],
                    alike=["hispanic"],
                ),
            },
        ),
    ]


def _changed_tables() -> list[Example]:
    people = {
        "population": {**PEOPLE, "attribute": attributes("age", "sex", "race", levels=LEVELS)}
    }
    return [
        Example("cell-key", "cell-key.md", ("age_sex = ",), people, files.people),
        Example("rounding", "cell-key.md", ('how = "random"',), people, files.people),
        Example("rounding-steps", "cell-key.md", ("us-special-2004",), people, files.people),
        Example("later-tables", "cell-key.md", ("reuse = ",), SWAPPED, first_run),
        Example("office-keys", "offices.md", ("exact_total = ",)),
        Example("office-chain", "offices.md", ("targeted-swapping",)),
        Example("office-rounding", "offices.md", ('how = "fixed"',)),
        Example(
            "ids",
            "config.md",
            ("person_id = ",),
            merged(people, mechanism("rounding", how="fixed", base=5, keys="record.keys")),
            files.people,
        ),
        Example(
            "record-keys",
            "config.md",
            ("record_keys = ",),
            merged(people, mechanism("cell-key", preset="ons-10-5")),
            files.people,
        ),
    ]


def _suppression() -> list[Example]:
    return [
        Example("suppression", "config.md", ('rule = "1980"',), {"population": SEVEN}),
        Example("coarsening", "coarsening.md", ('name = "coarsening"',), {}),
        Example(
            "no-noise", "no-noise.md", ('name = "coarsening"',), {"run": {"noise": "forbidden"}}
        ),
        Example(
            "suppression-own",
            "suppression.md",
            ("age_sex = ",),
            {
                "population": {
                    **PEOPLE,
                    "attribute": attributes("age", "sex", "race", levels=LEVELS),
                }
            },
            files.people,
        ),
        Example(
            "suppression-auto",
            more={
                "population": {
                    **PEOPLE,
                    "attribute": attributes("age", "sex", "race", levels=LEVELS),
                },
                **mechanism("suppression", tables="auto"),
            },
            data=files.people,
        ),
        Example(
            "evaluation",
            "config.md",
            ('exact = ["race"]',),
            {"population": SEVEN, **mechanism("identity")},
        ),
        Example(
            "suppression-complementary",
            "config.md",
            ('rule = "1980"',),
            {
                "population": SEVEN,
                "mechanism": {
                    "rule": "complementary",
                    "tables": ["P1"],
                    "by_cell": [],
                    "effort": 0,
                },
            },
        ),
    ]


def _topdown() -> list[Example]:
    quartered = {**PEOPLE, "attribute": attributes("hhgq", "sex", levels=LEVELS), "public": True}
    return [
        Example("topdown", "topdown.md", ('preset = "e2e-2018"',)),
        Example(
            "topdown-without-a-preset",
            "topdown.md",
            ('rho = "1/2"',),
            {
                "population": {
                    **PEOPLE,
                    "units": "counties.csv",
                    "attribute": attributes("quarters", "race", levels=LEVELS),
                    "geography": {"columns": ["state", "county"], "root": "nation"},
                }
            },
            files.people,
        ),
        Example(
            "topdown-without-queries",
            "topdown.md",
            ("# and no [mechanism.queries]",),
            {
                "population": {
                    **PEOPLE,
                    "units": "counties.csv",
                    "attribute": attributes("quarters", "race", levels=LEVELS),
                    "geography": {"columns": ["state", "county"]},
                }
            },
            files.people,
        ),
        Example(
            "topdown-as-init-writes-it",
            "topdown.md",
            ('shares = "totals"',),
            {
                "population": {
                    **PEOPLE,
                    "attribute": attributes("sex", "age", levels=LEVELS),
                    "geography": {"columns": ["state", "county", "tract"], "root": "whole"},
                },
                "run": {"lowest": "county"},
            },
            files.people,
        ),
        Example(
            "public",
            "config.md",
            ("[public]",),
            {
                "population": {**PEOPLE, "attribute": attributes("sex", "age", levels=LEVELS)},
                **mechanism("geometric", epsilon=1),
            },
            files.what_is_known,
        ),
        Example(
            "topdown-recoded",
            "topdown.md",
            ("[mechanism.recodes.housing]",),
            {
                "population": {
                    "kind": "us1940",
                    "states": ["RI"],
                    "scale": "1/20",
                    "seed": 1,
                    "nurse_nva_0": True,
                },
                **mechanism("topdown", epsilon=1, report_epsilon="1/100", nurse_nva_0=True),
                "run": {"publish": ["measurements"]},
            },
        ),
        Example(
            "topdown-bounds-from-quarters",
            "config.md",
            ("[population.quarters]", 'query = "hhgq"'),
            {
                "population": quartered,
                "mechanism": {
                    "name": "topdown",
                    "epsilon": 2,
                    "unit": "change-one",
                    "levels": "equal",
                    "queries": {
                        "cells": {"share": "1/2"},
                        "total": {"by": []},
                        "hhgq": {"by": ["hhgq"], "share": "1/2"},
                    },
                    "level_queries": {"tract": {"cells": "3/4", "hhgq": "1/4"}},
                    "invariant": [{"query": "total", "level": "state"}],
                },
                "run": {"publish": ["microdata", "measurements"]},
            },
            files.quarters,
        ),
        Example(
            "topdown-bounds-from-a-table",
            "config.md",
            ('query = "grown"',),
            {
                "population": {**PEOPLE, "attribute": attributes("sex", "age", levels=LEVELS)},
                "mechanism": {
                    "name": "topdown",
                    "epsilon": 1,
                    "recodes": {
                        "grown": {"of": "age", "groups": {"no": ["minor"], "yes": ["adult"]}}
                    },
                    "queries": {"cells": {"share": 1}, "grown": {"by": ["sex", "grown"]}},
                },
            },
            write_bounds,
            (("...", digest_of_bounds()),),
        ),
    ]


def _rows_of_the_table() -> list[Example]:
    """Mechanisms that only the table of config.md shows, and the keys of [run]."""
    population = {"population": {**PEOPLE, "attribute": attributes("sex", "age", levels=LEVELS)}}
    prefixed = {"column": "geocode", "prefixes": {"state": 2, "county": 5, "tract": 11}}
    coded = {
        "population": {
            **PEOPLE,
            "geography": prefixed,
            "attribute": [{"name": "sex"}, {"name": "race"}],
        }
    }
    census = {"kind": "redistricting-2020", "persons": "persons.csv", "blocks": "blocks.csv"}
    return [
        Example(
            "redistricting",
            more={
                "population": {**census, "units": "units.csv", "whole": "state"},
                "mechanism": {
                    "name": "topdown",
                    "rho": 1,
                    "spine": True,
                    "bypass": "state",
                    "pool": True,
                    "pool_from": "tract",
                    "queries": {
                        "cells": {"share": "1/2"},
                        "total": {"by": []},
                        "race": {"by": ["cenrace"], "share": "1/2"},
                    },
                    "passes": {
                        "block": {"fit": [["race"], ["cells"]], "round": [["total"], ["cells"]]}
                    },
                },
            },
            data=files.census_2020,
        ),
        Example("identity", more={**coded, **mechanism("identity")}, data=files.people),
        Example(
            "histogram",
            more={
                **population,
                **mechanism("histogram", epsilon=1, clip="query", unit="add-remove"),
            },
            data=files.people,
        ),
        Example(
            "workspace",
            more={
                **population,
                **mechanism("histogram", epsilon=1, clip="cell"),
                "run": {"engine": "local", "workspace": "elsewhere"},
            },
            data=files.people,
        ),
        Example(
            "sampling",
            more={
                **population,
                **mechanism("sampling", fraction="1/10"),
                "run": {"seed": 1, "publish": ["microdata"]},
            },
            data=files.people,
        ),
    ]
