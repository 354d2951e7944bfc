"""Person swapping as a mechanism: counts in, counts with people in each other's places out."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.errors import ConfigError, InputError
from headcount.fields import AtLeast0, Rate
from headcount.files import write_bytes_atomic, write_text_atomic
from headcount.geography import Geography
from headcount.mechanisms._base import Context, CountsOutcome
from headcount.mechanisms._measured import Measured
from headcount.mechanisms.sampling import generator
from headcount.mechanisms.swapping.keys import depth_of, share
from headcount.mechanisms.swapping.marking import Codes, Ints
from headcount.mechanisms.swapping.persons import (
    KEEP,
    Pool,
    Swap,
    swap_area,
    swap_everywhere,
)
from headcount.mechanisms.swapping.report import REPORT, log_nobody, log_shortfall
from headcount.mechanisms.swapping.similar import KEYS, Kind, Likeness, places
from headcount.noise import Noise, Stream
from headcount.privacy import Guarantee
from headcount.schema import Schema
from headcount.tabulate import Counts

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_SEED_DRAWS = 256


@dataclass(frozen=True, kw_only=True)
class PersonSwapping:
    """People change places with people elsewhere (Christ, Radway & Bellovin 2022).

    where
        kind        random, pseudo-random (same or nearest age and sex) or similar
        k           for similar swapping: how far age, sex and rank may differ; age in years where
                    its levels are years ("7", "90+"), else in levels
        rate        share of each area's people that is swapped, 0 to 1; exact to one person
        level       geography level of an area; swaps go between areas, never within one
        area        code of the one area to swap against all others; None swaps every area
        keep        attributes that stay with the place; those not in the schema are ignored
        order       race-by-Hispanic codes, 2 race + Hispanic, most frequent first; None reads the
                    order off the data, ties by code
        unique_by   attributes on which a person must be alone in an area to go first; None takes
                    all that are swapped

    Leaf totals and everything about the whole population stay as they are, but for combinations
    of kept attributes with others.
    """

    level: str
    rate: Rate
    kind: Kind = "similar"
    k: AtLeast0 = 0
    area: str | None = None
    keep: tuple[str, ...] = KEEP
    order: tuple[int, ...] | None = None
    unique_by: tuple[str, ...] | None = None
    name = "person-swapping"
    draws_noise = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", share(self.rate, "rate"))
        object.__setattr__(self, "keep", tuple(self.keep))
        for name in ("order", "unique_by"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        Likeness(kind=self.kind, k=self.k, order=self.order)  # refuses bad settings

    def guarantee(self, schema: Schema, geography: Geography) -> Guarantee:
        """None, and it says so."""
        return Guarantee.none(
            "records are published as they are, some of them in another place; swapping only "
            "leaves open which ones, and leaf totals are exact"
        )

    def plan(self, schema: Schema, geography: Geography) -> tuple[Measured, ...]:
        """Nothing is measured with noise."""
        return ()

    def check(self, counts: Counts) -> tuple[str, ...]:
        """Refuse missing keys, nobody to swap with, and kept attributes in structural zeros."""
        schema, source = counts.schema, "person swapping"
        for name in self.unique_by or ():
            schema.attribute(name)  # refuses an unknown one
        for key in KEYS[self.kind]:
            if key not in schema.names:
                raise InputError(
                    source,
                    place=f"{self.kind} swapping",
                    found=f"no attribute {key!r}",
                    expected=f"all of {', '.join(KEYS[self.kind])}",
                )
        if self.order is not None and self.kind == "similar":
            lived_in = np.flatnonzero(np.asarray(counts.matrix.sum(axis=0)).ravel())
            likeness = Likeness(kind=self.kind, k=self.k, order=self.order)
            places(codes_of(schema, lived_in), likeness, rows=len(lived_in))  # refuses a gap
        for zero in schema.structural_zeros:
            named = {name for name, _ in zero}
            if named & set(self.keep) and named - set(self.keep):
                raise ConfigError(
                    source,
                    place="keep",
                    found=f"{sorted(named & set(self.keep))}, in a structural zero with "
                    f"{sorted(named - set(self.keep))}",
                    expected="kept attributes that fit any record",
                )
        depth_of(counts.geography, self.level, "level")
        areas = counts.at(self.level).totals() > 0
        here = areas if self.area is None else areas & (self._codes(counts) == self.area)
        if self.area is not None and self.area not in self._codes(counts):
            raise ConfigError(
                source, place="area", found=repr(self.area), expected=f"a unit of {self.level!r}"
            )
        if here.any() and areas.sum() == 1:
            raise InputError(
                source, place=self.level, found="nobody outside the area", expected="two areas"
            )
        return ()

    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> CountsOutcome:
        """The leaf counts after one swap per run; provenance where the context asks for it."""
        self.check(counts)
        unit, cell = rows_of(counts)
        codes = codes_of(counts.schema, cell)
        area = counts.geography.ancestors(self.level, of=counts.level)[unit]
        aged = codes | in_years(counts.schema, codes)
        swaps = [self._swap(counts, aged, area, swap_generator(counts, noise, run)) for run in runs]
        if any(swap.report.unswappable > 1 for swap in swaps):  # one is left if they are odd
            log_shortfall(self.name)
        elif self.rate and any(not swap.report.swapped for swap in swaps):
            log_nobody(self.name)
        if context is not None and context.provenance is not None:
            write_provenance(context.provenance, dict(zip(runs, swaps, strict=True)))
        made = [
            _recount(counts, unit, cell, codes, swap.origin(len(cell)), self.keep) for swap in swaps
        ]
        return CountsOutcome({counts.level: made})

    def _swap(
        self, counts: Counts, codes: Codes, area: NDArray[np.int32], rng: np.random.Generator
    ) -> Swap:
        likeness = Likeness(kind=self.kind, k=self.k, order=self.order)
        if self.area is None:
            return swap_everywhere(
                codes,
                area,
                likeness,
                rate=self.rate,
                rng=rng,
                keep=self.keep,
                unique_by=self.unique_by,
            )
        inside = self._codes(counts)[area] == self.area
        here, there = np.flatnonzero(inside), np.flatnonzero(~inside)
        some = {name: column[here] for name, column in codes.items()}
        others = {name: column[there] for name, column in codes.items()}
        pool = Pool.of(others, likeness, area=some)
        swap = swap_area(
            some, pool, rate=self.rate, rng=rng, keep=self.keep, unique_by=self.unique_by
        )
        return Swap(here[swap.rows], there[swap.partners], swap.report)

    def _codes(self, counts: Counts) -> NDArray[np.str_]:
        return counts.geography.units[counts.geography.depth(self.level)]


def swap_generator(counts: Counts, noise: Noise, run: int) -> np.random.Generator:
    """What marks people and draws partners in a run."""
    return generator(noise, Stream(level=counts.level, query="swap", size=_SEED_DRAWS), run)


def rows_of(counts: Counts) -> tuple[Ints, Ints]:
    """One row for each person: unit and cell, in their order.

    People of the same unit and cell are alike, so any of them may stand for any other.
    """
    table = counts.matrix.copy()
    table.sum_duplicates()
    unit = np.repeat(np.arange(table.shape[0], dtype=np.int64), np.diff(table.indptr))
    return np.repeat(unit, table.data), np.repeat(table.indices.astype(np.int64), table.data)


def codes_of(schema: Schema, cell: Ints) -> dict[str, NDArray[np.integer]]:
    """The level numbers of each row's attributes."""
    if not schema.attributes:
        return {}
    return dict(zip(schema.names, np.unravel_index(cell, schema.shape), strict=True))


def in_years(schema: Schema, codes: Codes) -> dict[str, NDArray[np.integer]]:
    """Ages in years if the levels are years: those that the data lack still lie in between."""
    if "age" not in codes:
        return {}
    years = [re.fullmatch(r"(\d+)\+?", level) for level in schema.attribute("age").levels]
    if not all(years):
        return {}
    return {"age": np.array([int(year[1]) for year in years if year])[codes["age"]]}


def _recount(
    counts: Counts, unit: Ints, cell: Ints, codes: Codes, origin: Ints, keep: tuple[str, ...]
) -> csr_array[Any, tuple[int, int]]:
    """Counts after each row got the record of its origin, all but what is kept."""
    from scipy.sparse import coo_array

    schema = counts.schema
    if schema.attributes:
        mixed = tuple(codes[n] if n in keep else codes[n][origin] for n in schema.names)
        cell = np.ravel_multi_index(mixed, schema.shape)
    ones = np.ones(len(cell), dtype=np.int64)
    return coo_array((ones, (unit, cell)), shape=counts.matrix.shape).tocsr()


def write_provenance(path: Path, swaps: Mapping[int, Swap]) -> None:
    """Write who changed places with whom, one line a pair, and the reports beside it.

    Rows are numbered as ``rows_of`` does. For scoring and for the curator only: with the release
    it gives the truth back.
    """
    import polars as pl

    parts = [
        pl.DataFrame(
            {
                "run": np.full(len(swap.rows), run, dtype=np.int32),
                "row": swap.rows,
                "partner": swap.partners,
            }
        )
        for run, swap in swaps.items()
    ]
    content = io.BytesIO()
    pl.concat(parts).write_parquet(content)
    write_bytes_atomic(path, content.getvalue())
    told = {str(run): asdict(swap.report) for run, swap in swaps.items()}
    write_text_atomic(path.with_name(REPORT), json.dumps(told, indent=2) + "\n")


def read_origin(path: Path, *, run: int, people: int) -> Ints:
    """Whose record each row of ``rows_of`` holds after a run, from its provenance."""
    import polars as pl

    pairs = pl.read_parquet(path).filter(pl.col("run") == run)
    row, partner = (pairs[name].to_numpy() for name in ("row", "partner"))
    origin = np.arange(people, dtype=np.int64)
    origin[row], origin[partner] = partner, row
    return origin
