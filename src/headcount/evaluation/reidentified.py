"""How often re-identification is right, beside what a guess gets right.

    precision = confirmed / putative

A putative match is *confirmed* if person, block, sex, age bin, race and Hispanic origin are those
of the person in truth. Rates are over the rows of the attacker's file. Each is shown beside two
guesses on the same matches: the mode of the block, and a draw from its shares. Statistical
inference is not a privacy violation: what a release gives away is what exceeds the guesses,
above all for people who are unlike their neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from headcount.arrays import Flags, Ints
from headcount.attacks.guesses import (
    MODAL,
    PROPORTIONAL,
    block_modes,
    modal_guess,
    proportional_guess,
)
from headcount.attacks.records import Records
from headcount.attacks.reidentification import KnownPeople, Putative, reidentify
from headcount.errors import InputError
from headcount.evaluation.attackers import right_rows, truth_rows
from headcount.geography import Geography

RECORDS = "records"
ALL = "all"
SIZES = (1, 10, 50, 100, 250, 500, 1000)
"""Smallest population of each class of blocks."""
TELLING = "nonmodal unique, zero variability"
"""Who is only found through a record: the guesses cannot know them."""
GUESS_WORDS = (
    "The guesses use no record of anybody: what they get right is statistical inference, which is "
    "not a privacy violation. Read every rate beside them."
)


@dataclass(frozen=True, kw_only=True)
class Reidentified:
    """Matches of some people in the attacker's file, and how many of them are right.

    where
        attacker    whose file
        universe    which of its rows
        by          what is attached to a match: the record's own race and origin, or a guess
        people      rows of the file in the universe
        putative    those that were matched
        confirmed   those of them that are right
    """

    attacker: str
    universe: str
    by: str
    people: int
    putative: int
    confirmed: int

    @property
    def precision(self) -> float:
        """Share of matches that are right; not a number without matches."""
        return self.confirmed / self.putative if self.putative else float("nan")


def universes(
    known: KnownPeople,
    truth: Records,
    *,
    geography: Geography,
    zero_variability: Flags | None = None,
) -> Mapping[str, Flags]:
    """Groups of rows of an attacker's file, by name.

    What is true of a person (modal, unique) is taken from the person in truth; what is true of a
    place (population, zero variability) from the block in the attacker's file.

    where
        modal      the person's race and origin are those most frequent in the block
        unique     nobody else in the block has the person's sex and age bin
    """
    row = truth_rows(known, len(truth))
    there = row >= 0  # a person whom the truth does not have is neither modal nor anything else
    modal = (truth.secret == block_modes(truth, geography)[truth.block])[row] & there
    other = ~modal & there
    place = truth.block * truth.features.bins + truth.binned
    _, group, times = np.unique(place, return_inverse=True, return_counts=True)
    unique = (times[group] == 1)[row] & there
    found = {
        ALL: np.ones(len(known), dtype=bool),
        "modal": modal,
        "nonmodal": other,
        "unique": unique,
        "nonmodal unique": other & unique,
    }
    if zero_variability is not None:
        leaves = geography.size(geography.leaf)
        if zero_variability.shape != (leaves,):
            raise InputError(
                "re-identification",
                place="zero variability",
                found=f"shape {zero_variability.shape}",
                expected=f"a flag for {leaves} units",
            )
        zero = zero_variability[known.block] & (known.block >= 0)
        found |= {
            "zero variability": zero,
            "nonmodal, zero variability": other & zero,
            TELLING: other & unique & zero,
        }
    people = np.bincount(truth.block, minlength=geography.size(geography.leaf))
    size = np.where(known.block >= 0, people[known.block], 0)
    for low, label in zip(SIZES, size_labels(), strict=True):
        high = next((bound for bound in SIZES if bound > low), np.inf)
        found[label] = (size >= low) & (size < high)
    return found


def size_labels() -> tuple[str, ...]:
    """Names of the classes of blocks by population."""
    inner = [f"block of {low}-{high - 1}" for low, high in pairwise(SIZES)]
    return (*inner, f"block of {SIZES[-1]}+")


def confirmed(
    putative: Putative, secret: Ints, known: KnownPeople, truth: Records, right: Flags | None = None
) -> Flags:
    """For each known person whether the match is right, ``secret`` being attached to records."""
    right = right_rows(known, truth) if right is None else right
    found = putative.record
    same = secret[np.maximum(found, 0)] == truth.secret[known.person] if len(secret) else False
    return np.asarray(putative.matched & right & same, dtype=bool)


def reidentified(
    records: Records,
    known: KnownPeople,
    truth: Records,
    *,
    geography: Geography,
    zero_variability: Flags | None = None,
    orders: int = 10,
    seed: int = 0,
    years: bool | None = None,
) -> pl.DataFrame:
    """Attack records and score the matches: one row for each universe and way to guess.

    Columns: attacker, universe, by (records, modal guess, proportional guess), people, putative,
    confirmed, precision and its 95 % interval over the random orders of ties. Counts are means
    over the orders. Both guesses use the shares of the records under attack.
    """
    groups = universes(known, truth, geography=geography, zero_variability=zero_variability)
    right = right_rows(known, truth)
    mode = modal_guess(records, geography)
    rounds = []
    for order, found in enumerate(
        reidentify(known, records, orders=orders, seed=seed, years=years)
    ):
        drawn = proportional_guess(records, seed=seed, order=order)
        rounds.append(
            [
                one
                for by, secret in ((RECORDS, records.secret), (MODAL, mode), (PROPORTIONAL, drawn))
                for one in _scores(
                    known.name, by, groups, found, confirmed(found, secret, known, truth, right)
                )
            ]
        )
    return summary(rounds)


def _scores(
    attacker: str, by: str, groups: Mapping[str, Flags], found: Putative, right: Flags
) -> list[Reidentified]:
    return [
        Reidentified(
            attacker=attacker,
            universe=universe,
            by=by,
            people=int(inside.sum()),
            putative=int((inside & found.matched).sum()),
            confirmed=int((inside & right).sum()),
        )
        for universe, inside in groups.items()
    ]


def summary(rounds: Sequence[Sequence[Reidentified]]) -> pl.DataFrame:
    """Means over rounds that score the same rows, with a 95 % interval of the mean precision."""
    rows = []
    for together in zip(*rounds, strict=True):
        first = together[0]
        mean, low, high = interval([one.precision for one in together])
        rows.append(
            {
                "attacker": first.attacker,
                "universe": first.universe,
                "by": first.by,
                "people": float(np.mean([one.people for one in together])),
                "putative": float(np.mean([one.putative for one in together])),
                "confirmed": float(np.mean([one.confirmed for one in together])),
                "precision": mean,
                "precision_low": low,
                "precision_high": high,
            }
        )
    return pl.DataFrame(rows)


def beside_guesses(table: pl.DataFrame) -> pl.DataFrame:
    """The table of ``reidentified`` for people to read: one row per universe, in percent."""
    own = table.filter(pl.col("by") == RECORDS, pl.col("people") > 0)
    guesses = table.filter(pl.col("by") != RECORDS).pivot(
        "by", index=["attacker", "universe"], values="precision"
    )
    joined = own.join(guesses, on=["attacker", "universe"], maintain_order="left")
    return joined.select(
        "universe",
        *(pl.col(name).round(0).cast(pl.Int64) for name in ("people", "putative", "confirmed")),
        *(
            (100 * pl.col(name)).round(1).alias(label)
            for name, label in (
                ("precision", "precision_%"),
                ("precision_low", "from"),
                ("precision_high", "to"),
                (MODAL, "modal_guess_%"),
                (PROPORTIONAL, "proportional_guess_%"),
            )
        ),
    )


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean, and the ends of its 95 % interval by Student's t; rounds without matches left out."""
    from scipy.stats import t

    kept = np.array([value for value in values if np.isfinite(value)])
    if not len(kept):
        return (float("nan"),) * 3
    mean = float(kept.mean())
    if len(kept) == 1:
        return mean, float("nan"), float("nan")
    reach = float(t.ppf(0.975, len(kept) - 1) * kept.std(ddof=1) / np.sqrt(len(kept)))
    return mean, max(mean - reach, 0.0), min(mean + reach, 1.0)
