"""The linkage attack as a command runs it: two tables of people, keys that fit only once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.attacks.linkage import Links, link
from headcount.config.attack_files import refuse_repeated
from headcount.errors import InputError
from headcount.evaluate.linkage_risk import IdentityRule, LinkageRisk, confirmed
from headcount.population.tables import read_table
from headcount.release.store import read_release
from headcount.run.attack import (
    Found,
    finish,
    positions,
    refuse_used,
    release_folder,
    write_frames,
)
from headcount.tabulate.published.codings import years


def run_link(
    released: Path,
    known: Path,
    out: Path,
    *,
    age_width: int = 2,
    exact: Sequence[str] = ("race", "household_size"),
    secret: str = "hispanic",
    one_to_one: bool = False,
    truth: Path | None = None,
) -> Found:
    """Match named people to the only released row with their key, and learn its secret.

    ``released`` is a table with the columns age, ``exact`` and ``secret``, or a release of counts.
    With ``truth`` (columns person and ``secret``) matches are scored: by value; by person if the
    released table has a column person; by slot if it has a column slot, whose place a row has.
    """
    refuse_used(out)
    columns = ["age", *exact]
    rows = _released(released, [*columns, secret])
    people = read_table(known, ["person", *columns])
    refuse_repeated(people["person"], str(known))
    ages = _ages(people["age"], str(known)), _ages(rows["age"], str(released))
    oldest = min(age.open_from for age in ages)
    codes: tuple[dict[str, Ints], ...] = tuple(
        {"age": np.minimum(age.year, oldest)} for age in ages
    )
    for name in exact:
        for coded, numbers in zip(codes, _same_numbers(people[name], rows[name]), strict=True):
            coded[name] = numbers
    links = link(codes[0], codes[1], age_width=age_width, exact=exact, one_to_one=one_to_one)
    matched = np.flatnonzero(links.row >= 0)
    out.mkdir(parents=True, exist_ok=True)
    found = pl.DataFrame(
        {
            "person": people["person"].gather(matched.tolist()),
            "released_row": links.row[matched],
            secret: rows[secret].gather(links.row[matched].tolist()),
        }
    )
    write_frames(out, {"links": found})
    facts = {
        "kind": "linkage",
        "people": people.height,
        "released_rows": rows.height,
        "matched": links.matched,
        "age_width": age_width,
        "exact": list(exact),
        "one_to_one": one_to_one,
    }
    scores = None if truth is None else _scores(links, people, rows, truth, secret)
    return finish(
        out,
        "Linkage",
        facts,
        scores,
        truth is None,
        name="linkage",
        words="The attacker cannot see which matches are right, and some are right by chance: most "
        "people who look alike share the secret.",
    )


def _released(source: Path, columns: Sequence[str]) -> pl.DataFrame:
    if source.is_file():
        more = ["person", "slot"]
        return read_table(source, [*columns, *more], optional=set(more))
    release = read_release(release_folder(source))
    schema, geography = release.schema, release.geography
    known = {*schema.names, *geography.levels}
    for name in columns:
        if name not in known:
            raise InputError(
                str(source), found=f"no attribute {name!r}", expected=f"some of {sorted(known)}"
            )
    counts = release.as_counts().unweighted().at(geography.leaf)
    if np.any(counts < 0) or np.any(counts != np.rint(counts)):
        raise InputError(
            str(source), found="counts that are negative or not whole", expected="whole people"
        )
    unit, cell = np.nonzero(counts)
    times = counts[unit, cell].astype(np.int64)
    unit, cell = np.repeat(unit, times), np.repeat(cell, times)
    levels = np.unravel_index(cell, schema.shape)
    made = {
        a.name: np.array(a.levels)[code].tolist()
        for a, code in zip(schema.attributes, levels, strict=True)
    }
    for depth, level in enumerate(geography.levels):
        made[level] = geography.units[depth][geography.ancestors(level)[unit]].tolist()
    return pl.DataFrame({name: pl.Series(made[name], dtype=pl.String) for name in columns})


@dataclass(frozen=True, eq=False)
class _Ages:
    """Years of age, and the lowest open level ("90+") of a table: who is older is not told apart.

    An open level stands for its first year. In a table without one every year is told apart.
    """

    year: Ints
    open_from: int


def _ages(values: pl.Series, source: str) -> _Ages:
    texts = values.cast(pl.String)
    year: dict[str, int] = {}
    open_from = sys.maxsize
    for text in texts.unique().to_list():
        span = years(text) if text is not None else None
        is_open = str(text).endswith("+")
        if span is None or (len(span) > 1 and not is_open):
            row = int((texts == text).arg_max() or 0) if text is not None else 0
            raise InputError(
                source,
                place=f"column 'age', row {row + 1}",
                found=repr(text),
                expected="a year of age",
            )
        year[text] = min(span)
        open_from = min(open_from, min(span)) if is_open else open_from
    numbers = texts.replace_strict(list(year), list(year.values()), return_dtype=pl.Int64)
    return _Ages(numbers.to_numpy().astype(np.int64), open_from)


def _same_numbers(known: pl.Series, released: pl.Series) -> tuple[Ints, Ints]:
    """Numbers that are equal where texts are; a missing value equals nothing in the other table."""
    both = pl.concat([known.cast(pl.String), released.cast(pl.String)])
    number = both.rank("dense").cast(pl.Int64) + 1  # 0 and 1 are the missing values of either
    first, second = number.head(known.len()), number.tail(released.len())
    return first.fill_null(0).to_numpy(), second.fill_null(1).to_numpy()


def _scores(
    links: Links, people: pl.DataFrame, rows: pl.DataFrame, truth: Path, secret: str
) -> pl.DataFrame:
    real = read_table(truth, ["person", secret])
    refuse_repeated(real["person"], str(truth))
    own = people["person"].cast(pl.String)
    secrets = own.to_frame("person").join(
        real.select(pl.col("person").cast(pl.String), pl.col(secret).cast(pl.String)),
        on="person",
        how="left",
        maintain_order="left",
    )[secret]
    if secrets.null_count():
        row = int(secrets.is_null().arg_max() or 0)
        raise InputError(
            str(truth),
            found=f"no person {own[row]!r} of the attacker's file",
            expected="everyone in it",
        )
    rules: list[IdentityRule] = ["value"]
    origin = slot = None
    if "person" in rows.columns:
        rules.append("person")
        origin = positions(own, rows["person"].cast(pl.String))
    if "slot" in rows.columns:
        rules.append("slot")
        slot = positions(rows["slot"].cast(pl.String), own)
    made = []
    for rule in rules:
        right = confirmed(
            links,
            rule=rule,
            secret=secrets.to_numpy(),
            released_secret=rows[secret].cast(pl.String).to_numpy(),
            origin=origin,
            slot=slot if rule == "slot" else None,
        )
        risk = LinkageRisk(
            identity_rule=rule,
            group="everyone",
            people=len(own),
            matched=links.matched,
            confirmed=int(right.sum()),
        )
        made.append(
            {
                "identity_rule": rule,
                "people": risk.people,
                "matched": risk.matched,
                "confirmed": risk.confirmed,
                "percent": risk.percent,
                "precision": risk.precision,
            }
        )
    return pl.DataFrame(made)
