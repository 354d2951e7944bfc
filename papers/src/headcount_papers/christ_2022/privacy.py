"""How many people a linkage attack identifies in swapped rows: ``privacy.csv``.

The noisy histogram has no rows, so that the attack does not apply to it; guessing a person's
origin from the counts of those like them is statistical inference and no breach of privacy
(christ 2022, 4.5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Codes, Flags, Ints
from headcount.attacks.linkage import EXACT, link
from headcount.evaluation.attacked import IDENTITY_RULES, IdentityRule, confirmed_links
from headcount.evaluation.representation import minorities
from headcount_papers.christ_2022.people import Area
from headcount_papers.christ_2022.rates import AreaSwaps, SwappedArea
from headcount_papers.christ_2022.settings import WIDTHS, Grid

COLUMNS: dict[str, Any] = {
    "county": pl.String,
    "draw": pl.Int64,
    "mechanism": pl.String,
    "rate": pl.Float64,
    "bucket_width": pl.Int64,
    "group": pl.String,
    "identity_rule": pl.String,
    "matched": pl.Float64,
    "confirmed": pl.Float64,
    "percent": pl.Float64,
    "percent_sd": pl.Float64,
    "people": pl.Int64,
    "matched_one_to_one": pl.Float64,
    "confirmed_one_to_one": pl.Float64,
    "percent_one_to_one": pl.Float64,
    "attributes": pl.Int64,
    "reading": pl.String,
    "key": pl.String,
}


def attack_swaps(
    area: Area,
    swaps: AreaSwaps,
    grid: Grid,
    *,
    mechanism: str,
    keys: Sequence[tuple[str, ...]] = (EXACT,),
    rules: Sequence[IdentityRule] = IDENTITY_RULES,
    attributes: int = 6,
    reading: str = "",
) -> pl.DataFrame:
    """Attack every release of one swapper; counts are means over runs.

    where
        keys    what must agree besides the age bucket; names that the rows lack are left out
        rules   what "the same individual" means
    """
    rows = []
    few = minorities(area.truth())[area.group(swaps.rows)]
    for key in keys:
        names = tuple(name for name in key if name in swaps.rows)
        shared = {
            "county": area.name,
            "draw": area.draw,
            "mechanism": mechanism,
            "attributes": attributes,
            "reading": reading,
            "key": " x ".join(("age bucket", *names)),
        }
        for rate in grid.rates:
            for row in _attack(swaps.rows, swaps.at(rate), names, few, rules):
                rows.append({**shared, "rate": float(rate), **row})
    return pl.DataFrame(rows, schema=COLUMNS)


def _attack(
    own: Codes,
    made: SwappedArea,
    names: tuple[str, ...],
    few: Flags,
    rules: Sequence[IdentityRule],
) -> Iterator[dict[str, Any]]:
    """All runs in one go: the number of the run is one more thing to agree."""
    taken = made.swapped
    shape = taken.shape
    run = np.broadcast_to(np.arange(shape[0])[:, None], shape)

    def flat(name: str) -> NDArray[np.integer]:
        return np.broadcast_to(own[name], shape).ravel()

    public = {name: flat(name) for name in ("age", *names)} | {"run": run.ravel()}
    released = {name: made.records[name].ravel() for name in ("age", *names)}
    released["run"] = run.ravel()
    truth = {
        "secret": flat("hispanic"),
        "released_secret": made.records["hispanic"].ravel(),
        "origin": np.where(taken.ravel(), -1, np.arange(taken.size)),
    }
    for width in WIDTHS:
        links = link(public, released, age_width=width, exact=(*names, "run"))
        alone = _undisputed(links, taken.size)
        for rule in rules:
            right = confirmed_links(links, rule=rule, **truth)
            # A claim is right or wrong by itself: dropping others does not change it.
            right_alone = right & (alone >= 0)
            for group, of in (("everyone", np.ones_like(few)), ("minorities", few)):
                yield {
                    "bucket_width": width,
                    "identity_rule": rule,
                    "group": group,
                    **_counted(links, right, of, shape),
                    **{
                        f"{name}_one_to_one": value
                        for name, value in _counted(alone, right_alone, of, shape).items()
                        if name in ("matched", "confirmed", "percent")
                    },
                }


def _undisputed(links: Ints, released: int) -> Ints:
    """Only the claims on rows that nobody else claims."""
    claims = np.bincount(links[links >= 0], minlength=released)
    return np.where((links >= 0) & (claims[links] == 1), links, -1)


def _counted(links: Ints, right: Flags, of: Flags, shape: tuple[int, ...]) -> dict[str, Any]:
    people = int(of.sum())
    matched = (links >= 0).reshape(shape)[:, of].sum(axis=1)
    found = right.reshape(shape)[:, of].sum(axis=1)
    percent = 100 * found / people if people else np.full(len(found), np.nan)
    return {
        "matched": float(matched.mean()),
        "confirmed": float(found.mean()),
        "percent": float(percent.mean()),
        "percent_sd": float(percent.std(ddof=1)) if len(percent) > 1 else None,
        "people": people,
    }
