"""Agreement with ``cell-key-perturbation`` 3.1.0 of the Office for National Statistics (PyPI, MIT).

Its outputs are stored: ``peer_records.csv`` has columns of its ``generate_test_data()``, and
``peer_cells.csv`` what it makes of them,

    create_perturbed_table(data, ptable=generate_ptable_10_5_rule(), geog=["var1"],
                           tab_vars=["var5", "var8"], record_key="record_key", threshold=10)

For 10,000 random cells there are digests of its columns. Ours goes the whole way: a file of people
with a column of record keys, a perturbation table in a file, the mechanism, the published table.
"""

from __future__ import annotations

import csv
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from headcount.geography.geography import CodeColumns
from headcount.mechanisms import protect
from headcount.mechanisms._key_file import CellWords, KeySecret
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.mechanisms.cell_key.tables import PerturbationFile, ten_five, write_columns
from headcount.population import Population
from headcount.population.columns import AttributeColumn
from headcount.population.microdata import Microdata
from headcount.release.published import PublishedCells
from headcount.tabulate import tabulate
from headcount.tabulate.linked_tables import table_values

HERE = Path(__file__).parent


def published(people: Population, table: Path, by: tuple[str, ...]) -> PublishedCells:
    """The lowest level of a table that is changed by a file's perturbation table."""
    mechanism = CellKey(tables={"t": by}, ptable=PerturbationFile(file=table), below=10)
    return protect(people, mechanism).as_tables().published[-1]


def columns(people: Population, one: PublishedCells) -> dict[str, Any]:
    """The peer's columns for inner cells; a withheld count is -1."""
    counts, inner = tabulate(people), one.cells.inner
    keys = CellWords.of(counts, KeySecret(bytes(32), origin="")).keys(one.cells)
    return {
        "pre_sdc_count": table_values(counts, one.cells)[:, inner].ravel(),
        "ckey": (keys >> np.uint64(56))[:, inner].ravel().astype(np.int64),
        "count": np.where(one.withheld, -1, one.value)[:, inner].ravel(),
    }


def test_the_package_s_own_test_data_come_out_cell_by_cell(tmp_path):
    write_columns(tmp_path / "ten-five.csv", ten_five().table)
    source = Microdata(
        file=HERE / "peer_records.csv",
        geography=CodeColumns(columns=("var1",)),
        attribute=(AttributeColumn(name="var5"), AttributeColumn(name="var8")),
        record_keys="record_key",
    )
    people = source.read()
    found = columns(people, published(people, tmp_path / "ten-five.csv", ("var5", "var8")))
    with (HERE / "peer_cells.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    units = people.geography.units[-1].tolist()
    levels = [people.schema.attribute(name).levels for name in ("var5", "var8")]
    ours = {
        (unit, a, b): number
        for number, (unit, a, b) in enumerate(
            (unit, a, b) for unit in units for a in levels[0] for b in levels[1]
        )
    }
    assert len(rows) == len(ours) == 200
    for row in rows:
        number = ours[row["var1"], row["var5"], row["var8"]]
        assert found["pre_sdc_count"][number] == int(row["pre_sdc_count"])
        assert found["ckey"][number] == int(row["ckey"] or 0)
        assert found["count"][number] == int(row["count"] or -1)


DIGESTS = {
    "pre_sdc_count": "5ac45f36e1d02fde929ba7f22ca63451dc2069a41e923be9e890c1bb4376514d",
    "ckey": "997c2743b9201d609fe3a1f3018450a6704cb0dd996727b9cfdd794231958ab7",
    "count": "46c91d0bb44bcfb24792efffc20e8b1719152752da24352f690f1cdd3ae03cb2",
}
"""Of the package's columns for the cells below, as little-endian int64, -1 if withheld."""


def raw(seed: int, many: int):
    """Words of a generator whose stream no version of numpy changes."""
    return np.random.PCG64(seed).random_raw(many)


@pytest.mark.parametrize("fudge", [0, 1])
def test_ten_thousand_random_cells_come_out_as_from_the_package(tmp_path, fudge):
    """305,267 records in 10,000 cells of 1 to 1,600 people, with a table of random changes."""
    kind, size = raw(1, 10_000) % 100, raw(2, 10_000)
    counts = np.where(kind < 98, size % 30, size % 1600).astype(np.int64) + 1
    assert (counts > 750).sum() == 99  # these use the rows 501 to 750 in turn
    cell = np.repeat(np.arange(10_000), counts)
    keys = (raw(3, len(cell)) % 256).astype(np.int64)
    keys[0] = (keys[0] + fudge) % 256  # one wrong key of one person is seen
    pcv = np.repeat(np.arange(1, 751), 256)
    table = np.maximum((raw(4, 750 * 256) % 7).astype(np.int64) - 3, -pcv).reshape(750, 256)
    write_columns(tmp_path / "table.csv", table)
    digits = [f"{n:02}" for n in range(100)]
    people = pl.DataFrame({"cell": cell, "key": keys}).select(
        unit=pl.Series(digits).gather(cell // 100),
        kind=pl.Series(digits).gather(cell % 100),
        key="key",
    )
    people.write_parquet(tmp_path / "people.parquet")
    source = Microdata(
        file=tmp_path / "people.parquet",
        geography=CodeColumns(columns=("unit",)),
        attribute=(AttributeColumn(name="kind", levels=tuple(digits)),),
        record_keys="key",
    )
    read = source.read()
    found = columns(read, published(read, tmp_path / "table.csv", ("kind",)))
    digests = {
        name: sha256(values.astype("<i8").tobytes()).hexdigest() for name, values in found.items()
    }
    assert (digests == DIGESTS) is (not fudge)
