"""How often re-identification is right, beside what a guess gets right.

    precision = confirmed / putative

A putative match is *confirmed* if person, block, what is known (sex, age bin) and what is learnt
(race, Hispanic origin) are those of the person in truth. Rates are over the rows of the adversary's
file, which is made from the truth here: a perfect one, or one like a commercial file. Each is shown
beside two guesses on the same matches, which need no record of anybody: the mode of the block, and
a draw from its shares.
Statistical inference is not a privacy violation: what a release gives away is what exceeds the
guesses, above all for people who are unlike their neighbours.

Records *agree* with people one to one and without replacement within a block, in two passes: first
on {sex, age, race, Hispanic origin}, then, of what is left on both sides, with the age bin. Such
matching needs no search: the number of pairs is a sum of smaller counts,

    exact = sum min(a, b) over blocks and cells,    binned = sum min(A, B)

where
    a, b   records and people of a block and cell
    A, B   the same with years of age gathered into bins (pass 1 and pass 2 together)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import polars as pl

from headcount.arrays import Flags, Ints
from headcount.attacks.records import Features, Records, records_from_rows
from headcount.attacks.reidentification import KnownPeople, Putative, reidentify
from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.population import Population
from headcount.tabulate.codings import find_attribute

PERFECT, COMMERCIAL = "perfect", "commercial-like"
ENDS: tuple[Literal["left"], Literal["right"]] = ("left", "right")
MODAL, PROPORTIONAL = "modal guess", "proportional guess"
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
class Quality:
    """How good a commercial-like file is.

    where
        coverage      share of people it holds
        wrong_block   share of its rows with another address: that of a random person of another
                      block in the unit of level ``within`` (anywhere, if no level is named)
        wrong_age     share with an age off by 1 to ``furthest`` levels, up or down
        wrong_sex     share with the other sex

    Errors are independent. With the defaults 37 in 100 rows are right on block, sex and age bin,
    as in the file that the Census Bureau tried (106.3 of 286.7 million).
    """

    coverage: float = 0.95
    wrong_block: float = 0.55
    wrong_age: float = 0.2
    wrong_sex: float = 0.02
    within: str = ""
    furthest: int = 5

    def __post_init__(self) -> None:
        for name in ("coverage", "wrong_block", "wrong_age", "wrong_sex"):
            if not 0 <= (share := getattr(self, name)) <= 1:
                raise ConfigError(
                    "attacker", place=name, found=str(share), expected="a share from 0 to 1"
                )
        if self.furthest < 1:
            raise ConfigError(
                "attacker", place="furthest", found=str(self.furthest), expected="1 or more"
            )


def true_records(population: Population, features: Features | None = None) -> Records:
    """Everyone, one row per person, in the order of the population."""
    unit, cell = population.unit, population.cell
    if population.count is not None:
        unit = np.repeat(unit, population.count)
        cell = np.repeat(cell, population.count)
    return records_from_rows(unit, cell, features or Features.of(population.schema))


def perfect_attacker(truth: Records) -> KnownPeople:
    """Everyone, with true block, sex and age. Person numbers are rows of the truth."""
    return KnownPeople(
        name=PERFECT,
        features=truth.features,
        person=np.arange(len(truth)),
        block=truth.block,
        key=truth.key,
    )


def commercial_attacker(
    truth: Records, *, geography: Geography, quality: Quality | None = None, seed: int = 0
) -> KnownPeople:
    """Some people, some of them with a wrong address, age or sex."""
    quality = quality or Quality()
    rng = np.random.default_rng([seed, 7])
    held = np.sort(rng.choice(len(truth), size=round(quality.coverage * len(truth)), replace=False))
    block = truth.block[held].copy()
    moved = np.flatnonzero(rng.random(len(held)) < quality.wrong_block)
    block[moved] = _other_address(truth.block, block[moved], geography, quality.within, rng)
    schema = truth.features.schema
    known = truth.features.known
    split = np.unravel_index(truth.key[held], [one.size for one in known])
    codes = {one.name: code.astype(np.int64) for one, code in zip(known, split, strict=True)}
    for role in ("sex", "age"):  # draws are in this order, whatever the order of attributes
        attribute = find_attribute(schema, role)
        if attribute is None or attribute.name not in codes or attribute.size < 2:
            continue
        wrong = quality.wrong_sex if role == "sex" else quality.wrong_age
        off, own, size = rng.random(len(held)) < wrong, codes[attribute.name], attribute.size
        other = (own + 1) % size if role == "sex" else _other_age(own, size, quality.furthest, rng)
        codes[attribute.name] = np.where(off, other, own)
    key = truth.features.key_of(codes)
    return KnownPeople(name=COMMERCIAL, features=truth.features, person=held, block=block, key=key)


def _other_address(
    everyone: Ints, own: Ints, geography: Geography, within: str, rng: np.random.Generator
) -> Ints:
    """The block of a random person of the same unit who lives in another block.

    Who has nobody elsewhere in the unit keeps the own block. A few draws with rejection settle
    nearly everybody; whoever lives in so large a block that they do not is drawn among the others
    at once: people are ordered by unit and block, and the draw steps over the own block.
    """
    unit = geography.ancestors(within or geography.levels[0]).astype(np.int64)
    blocks = everyone[np.argsort(unit[everyone], kind="stable")]
    start = np.searchsorted(unit[blocks], unit[own])
    stop = np.searchsorted(unit[blocks], unit[own], side="right")
    found = own.copy()
    for _ in range(20):
        same = np.flatnonzero(found == own)
        if not len(same):
            return found
        at = start[same] + (rng.random(len(same)) * (stop - start)[same]).astype(np.int64)
        found[same] = blocks[at]
    return _past_own(found, own, everyone, unit, rng)


def _past_own(found: Ints, own: Ints, everyone: Ints, unit: Ints, rng: np.random.Generator) -> Ints:
    """Draw, for those who still have their own block, one person of the unit's other blocks."""
    order = np.lexsort((everyone, unit[everyone]))
    blocks = everyone[order]
    rank = unit * len(unit) + np.arange(len(unit))  # rises with unit, then block
    left = np.flatnonzero(found == own)
    start, stop = (np.searchsorted(unit[blocks], unit[own[left]], side) for side in ENDS)
    low, high = (np.searchsorted(rank[blocks], rank[own[left]], side) for side in ENDS)
    others = (stop - start) - (high - low)
    left, start, low, high, others = (a[others > 0] for a in (left, start, low, high, others))
    at = start + rng.integers(0, others)
    found[left] = blocks[np.where(at < low, at, at + high - low)]
    return found


def _other_age(age: Ints, ages: int, furthest: int, rng: np.random.Generator) -> Ints:
    """Another age, at most ``furthest`` levels away: a distance, then a side where it fits.

    where
        distance   uniform from 1 to the furthest level that is there on either side
        side       down or up by a fair coin; if that is past the end of the ages, the other
    """
    reach = np.maximum(age, ages - 1 - age)
    by = rng.integers(1, np.minimum(furthest, reach) + 1)
    down = rng.random(len(age)) < 0.5
    other = np.where(down, age - by, age + by)
    return np.where((other < 0) | (other >= ages), np.where(down, age + by, age - by), other)


def _truth_rows(known: KnownPeople, people: int) -> Ints:
    """The truth's row of each known person, -1 for someone who is not there."""
    if len(known) and not -1 <= known.person.min() <= known.person.max() < people:
        raise InputError(
            f"attacker {known.name!r}",
            place="person",
            found="a number out of range",
            expected=f"-1 to {people - 1}",
        )
    return known.person


def _right_rows(known: KnownPeople, truth: Records) -> Flags:
    """Whether each row of an adversary's file has the person's true block, sex and age bin."""
    row = _truth_rows(known, len(truth))
    binned = truth.features.binned
    there = row >= 0
    if not there.any():
        return there
    same = there & (known.block == truth.block[row]) & (binned[known.key] == binned[truth.key[row]])
    return np.asarray(same, dtype=bool)


def _block_modes(records: Records, geography: Geography) -> Ints:
    """The most frequent secret of each leaf unit.

    Where two are equally frequent, or only one person lives there, the mode of the unit above
    (the block group) stands in for it by the same rule; then that of the whole.
    """
    leaf, whole = geography.leaf, geography.levels[0]
    mode, clear = _modes(records, np.arange(geography.size(leaf)))
    for level in dict.fromkeys((geography.levels[max(len(geography.levels) - 2, 0)], whole)):
        ancestor = geography.ancestors(level).astype(np.int64)
        above, above_clear = _modes(records, ancestor)
        mode = np.where(clear, mode, above[ancestor])
        clear = clear | above_clear[ancestor]
    return mode


def _modes(records: Records, unit_of_leaf: Ints) -> tuple[Ints, np.ndarray]:
    """For each unit its most frequent secret, and whether it is the only one, of several people."""
    units, secrets = int(unit_of_leaf.max()) + 1, records.features.secrets
    unit = unit_of_leaf[records.block]
    found, times = np.unique(unit * secrets + records.secret, return_counts=True)
    where, secret = found // secrets, found % secrets
    most = np.zeros(units, dtype=np.int64)
    np.maximum.at(most, where, times)
    top = times == most[where]
    ties = np.bincount(where[top], minlength=units)
    people = np.bincount(unit, minlength=units)
    mode = np.zeros(units, dtype=np.int64)
    mode[where[top][::-1]] = secret[top][::-1]  # the first of several
    return mode, (ties == 1) & (people > 1)


def _modal_guess(records: Records, geography: Geography) -> Ints:
    """For each record the mode of its block, in place of its own secret."""
    return _block_modes(records, geography)[records.block]


def _proportional_guess(records: Records, *, seed: int, order: int = 0) -> Ints:
    """For each record a secret drawn from the shares of its block (its own included)."""
    rng = np.random.default_rng([seed, order, 1])
    by_block = np.argsort(records.block, kind="stable")
    blocks = records.block[by_block]
    start = np.searchsorted(blocks, blocks)
    stop = np.searchsorted(blocks, blocks, side="right")
    drawn = start + (rng.random(len(blocks)) * (stop - start)).astype(np.int64)
    guess = np.empty(len(blocks), dtype=np.int64)
    guess[by_block] = records.secret[by_block[drawn]]
    return guess


def _universes(
    known: KnownPeople,
    truth: Records,
    *,
    geography: Geography,
    zero_variability: Flags | None = None,
) -> Mapping[str, Flags]:
    """Groups of rows of an adversary's file, by name.

    What is true of a person (modal, unique) is taken from the person in truth; what is true of a
    place (population, zero variability) from the block in the adversary's file.

    where
        modal      the person's race and origin are those most frequent in the block
        unique     nobody else in the block has the person's sex and age bin
    """
    row = _truth_rows(known, len(truth))
    there = row >= 0  # a person whom the truth does not have is neither modal nor anything else
    modal = (truth.secret == _block_modes(truth, geography)[truth.block])[row] & there
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
    for low, label in zip(SIZES, _size_labels(), strict=True):
        high = next((bound for bound in SIZES if bound > low), np.inf)
        found[label] = (size >= low) & (size < high)
    return found


def _size_labels() -> tuple[str, ...]:
    """Names of the classes of blocks by population."""
    inner = [f"block of {low}-{high - 1}" for low, high in pairwise(SIZES)]
    return (*inner, f"block of {SIZES[-1]}+")


def _confirmed(
    putative: Putative, secret: Ints, known: KnownPeople, truth: Records, right: Flags | None = None
) -> Flags:
    """For each known person whether the match is right, ``secret`` being attached to records."""
    right = _right_rows(known, truth) if right is None else right
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
    groups = _universes(known, truth, geography=geography, zero_variability=zero_variability)
    right = _right_rows(known, truth)
    mode = _modal_guess(records, geography)
    counted: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for order, found in enumerate(
        reidentify(known, records, orders=orders, seed=seed, years=years)
    ):
        drawn = _proportional_guess(records, seed=seed, order=order)
        for by, secret in ((RECORDS, records.secret), (MODAL, mode), (PROPORTIONAL, drawn)):
            good = _confirmed(found, secret, known, truth, right)
            for universe, inside in groups.items():
                both = int((inside & found.matched).sum()), int((inside & good).sum())
                counted.setdefault((by, universe), []).append(both)
    rows = []
    for (by, universe), matches in counted.items():
        mean, low, high = _interval([b / a if a else float("nan") for a, b in matches])
        putative, sure = np.mean(matches, axis=0).tolist()
        rows.append(
            {
                "attacker": known.name,
                "universe": universe,
                "by": by,
                "people": float(groups[universe].sum()),
                "putative": putative,
                "confirmed": sure,
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


def _interval(values: Sequence[float]) -> tuple[float, float, float]:
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


def agreement(records: Records, truth: Records, *, blocks: int) -> pl.DataFrame:
    """Records that agree with people, in all blocks and by their population in truth.

    Columns: blocks, people, records, exact and binned (numbers of records; binned includes exact).
    """
    if records.features.schema != truth.features.schema:
        raise InputError(
            "agreement", found="records on another schema", expected="the schema of the truth"
        )
    people = np.bincount(truth.block, minlength=blocks)
    of_block = {
        "people": people,
        "records": np.bincount(records.block, minlength=blocks),
        "exact": _common(records, truth, blocks, binned=False),
        "binned": _common(records, truth, blocks, binned=True),
    }
    return pl.DataFrame(
        {"blocks": label, **{name: int(one[which].sum()) for name, one in of_block.items()}}
        for label, which in by_size(people).items()
    )


def by_size(people: Ints) -> Mapping[str, Flags]:
    """All blocks, and those of each class of population, by their people in truth."""
    inside: dict[str, Flags] = {ALL: np.ones(len(people), dtype=bool)}
    for number, label in enumerate(_size_labels()):
        inside[label] = np.searchsorted(SIZES, people, side="right") == number + 1
    return inside


def _common(records: Records, truth: Records, blocks: int, *, binned: bool) -> Ints:
    """Pairs in each block: the smaller of the two counts of every combination."""
    features = truth.features
    size = (features.bins if binned else len(features.binned)) * features.secrets
    tallies = []
    for rows in (records, truth):
        key = rows.binned if binned else rows.key
        tallies.append(
            np.unique(rows.block * size + key * features.secrets + rows.secret, return_counts=True)
        )
    (a, times_a), (b, times_b) = tallies
    both, in_a, in_b = np.intersect1d(a, b, assume_unique=True, return_indices=True)
    pairs = np.minimum(times_a[in_a], times_b[in_b])
    return np.bincount(both // size, weights=pairs, minlength=blocks).astype(np.int64)
