"""What a release says of named people: what is proven of them, what is certain, what is likely.

The adversary knows where everybody lives and some attributes (a key), and wants the others (a
secret). He holds the tables beside what he knows. Of people of one place and key

    their secret is *proven* if no other is possible by the published sums,
    a record is *certain* if the sums leave at least one person with it,
    a secret is *likely* if its share is at least the confidence,

where
    share   of the counts of a release; of tables that show less, of the table of largest entropy
            with all published sums and his own knowledge (``release.readers_estimate``)

Ends of counts are narrowed by one sum at a time, which finds less than is there: what is not called
proven here may be proven all the same. Counts with noise prove nothing, and what they make likely
may be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.attacks._base import NOTHING, Attack, ClaimedPeople, People
from headcount.attacks.records import known_names, learnt_names
from headcount.engines import Engine
from headcount.errors import ConfigError
from headcount.fields import Rate
from headcount.release import Release, TablesRelease
from headcount.release.readers_estimate import UNKNOWN, Sums, TooLarge, can_be_estimated, fit
from headcount.report.finding import SUPPORTED, Support
from headcount.schema import Schema


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Statements(ClaimedPeople):
    """Claims about people, those among them that are proven, and records that somebody has.

    where
        proven       for each person whether no other secret is possible
        confidence   the least share of a secret that is claimed otherwise
        certain      place, key, secret, and the least number of people, of certain records
        key          for each cell of the schema the number of its key
    """

    proven: Flags
    confidence: Fraction
    certain: tuple[Ints, Ints, Ints, Ints]
    key: Ints


@dataclass(frozen=True, kw_only=True)
class Claim(Attack):
    """State what is proven, certain or likely of people, by place and what is known of them.

    where
        confidence   the least share of a secret that is called likely
        sweeps       of all sums, at most, where counts are estimated from tables
    """

    name = "claims"
    whole = True
    leaves = True
    at_least_1 = ("sweeps",)
    confidence: Rate = Fraction(9, 10)
    sweeps: int = 200

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", Fraction(self.confidence))
        if self.confidence <= Fraction(1, 2):
            found = str(self.confidence)
            raise ConfigError(
                self.name, place="confidence", found=found, expected="more than 1/2, at most 1"
            )
        super().__post_init__()

    def supports(self, release: Release) -> Support:
        """Counts, or tables that say what is behind them, of what is known and what is not."""
        schema = release.schema
        for names, key in ((known_names(schema), "knows"), (learnt_names(schema), "sensitive")):
            if not names:
                return Support(f"nothing says what an attacker knows and wants ([attacker] {key})")
        if isinstance(release, TablesRelease):
            return can_be_estimated(release)
        missing = release.as_counts().missing
        return Support("some counts are missing from the release") if missing else SUPPORTED

    def knows(self, schema: Schema) -> tuple[str, ...]:
        """What is said to be known, else sex and age."""
        return known_names(schema)

    def run(self, release: Release, people: People, *, engine: Engine | None = None) -> Statements:
        """Claim what is proven and what is likely of each person."""
        schema = release.schema
        known, learnt = known_names(schema), learnt_names(schema)
        levels = dict(
            zip(schema.names, np.indices(schema.shape).reshape(len(schema.names), -1), strict=True)
        )
        key, keys = _joint([levels[name] for name in known], _sizes(schema, known))
        secret, secrets = _joint([levels[name] for name in learnt], _sizes(schema, learnt))
        own, _ = _joint([people.codes[name] for name in known], _sizes(schema, known))
        inside = people.unit >= 0
        places = release.geography.size(release.geography.leaf)
        living = np.zeros((places, keys), dtype=np.int64)
        np.add.at(living, (people.unit[inside], own[inside]), 1)
        words = ""
        try:
            place, cell, n, low, high = self._counts(release, key, secret, living)
        except TooLarge as error:
            none = np.zeros(0, dtype=np.int64)
            place, cell, n, low, high = none, none, np.zeros(0), np.zeros(0), np.zeros(0)
            words = f" Nothing was claimed: {error}."
        # By place, key and secret; a person is found by place and key.
        code = (place * keys + key[cell]) * secrets + secret[cell]
        codes, back = np.unique(code, return_inverse=True)
        amount, least, most = (
            np.bincount(back, weights=one, minlength=len(codes)).astype(np.float64)
            for one in (n, low, high)
        )
        here = living.ravel()[codes // secrets]
        group, first = np.unique(codes // secrets, return_index=True)
        ends = np.append(first, len(codes))
        of = np.repeat(np.arange(len(group)), np.diff(ends))
        likely, share = _largest(amount, of, first)
        possible = np.bincount(of, weights=most > 0, minlength=len(group))
        told = isinstance(release, TablesRelease)
        sure = told & ((possible == 1) | (least[likely] >= here[likely]) & (here[likely] > 0))
        claimed = sure | (share >= float(self.confidence))
        at = np.searchsorted(group, people.unit * keys + own)
        found = inside & (at < len(group))
        at = np.where(found, at, 0)
        if len(group):
            found &= group[at] == people.unit * keys + own
        value = np.full(len(people), NOTHING, dtype=np.int64)
        proven = np.zeros(len(people), dtype=bool)
        if len(group):
            value = np.where(found & claimed[at], codes[likely[at]] % secrets, NOTHING)
            proven = found & sure[at]
        certain = np.flatnonzero(told & (least >= 1))
        unit_key = codes[certain] // secrets
        return Statements(
            attack=self.name,
            title="What can be said of people, and how sure is it?",
            schema=schema,
            geography=release.geography,
            people=people,
            learnt=learnt,
            value=value,
            proven=proven,
            confidence=self.confidence,
            certain=(
                unit_key // keys,
                unit_key % keys,
                codes[certain] % secrets,
                least[certain].astype(np.int64),
            ),
            key=key,
            facts={
                "people": len(people),
                "proven": int(proven.sum()),
                "likely": int(((value >= 0) & ~proven).sum()),
                "certain_records": len(certain),
            },
            words=(
                f"The attacker knows the place and {' and '.join(known)} of everybody, and says of "
                f"each what the release tells of {' and '.join(learnt)}: *proven* where no other "
                "answer is possible by the published sums, one sum at a time; *likely* where one "
                f"has a share of {float(self.confidence):g} or more. Counts with noise prove "
                f"nothing.{words}"
            ),
        )

    def _counts(
        self, release: Release, key: Ints, secret: Ints, living: Ints
    ) -> tuple[Ints, Ints, Floats, Floats, Floats]:
        """Place, cell, count and its ends, of all that may not be 0."""
        if not isinstance(release, TablesRelease):
            from scipy.sparse import coo_array

            table = coo_array(release.table(release.geography.leaf))
            (place, cell), n = table.coords, np.maximum(table.data, 0).astype(np.float64)
            ends = np.zeros(len(n)), np.full(len(n), float(UNKNOWN))
            return place.astype(np.int64), cell.astype(np.int64), n, *ends
        everybody = _published_people(release) == living.sum()
        rest = np.zeros((len(living), 1))
        exact = np.hstack([living, rest]).astype(np.float64)
        most = exact if everybody else np.full(exact.shape, float(UNKNOWN))
        most = np.hstack([most[:, :-1], np.full((len(living), 1), float(UNKNOWN))])
        mine = Sums(unit=np.arange(len(living)), group=key, low=exact, high=most)
        found = fit(release, sweeps=self.sweeps, also=(mine,), apart=(secret,))
        return found.leaf, found.first[found.place], found.x, found.low, found.high


def _published_people(release: TablesRelease) -> int:
    """How many people the release says that there are; -1 if it does not."""
    possible = release.schema.possible
    for one in release.published:
        columns = np.asarray(one.cells.matrix[possible].sum(axis=0)).ravel()
        everybody = np.flatnonzero(columns == possible.sum())
        if one.level == release.geography.levels[0] and len(everybody):
            low, high = one.ends(unknown=UNKNOWN)
            if low[0, everybody[0]] == high[0, everybody[0]]:
                return int(low[0, everybody[0]])
    return -1


def _sizes(schema: Schema, names: Sequence[str]) -> list[int]:
    return [schema.attribute(name).size for name in names]


def _joint(columns: Sequence[Ints], sizes: Sequence[int]) -> tuple[Ints, int]:
    """The number of a combination, the last attribute running fastest, and how many there are."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column, size in zip(columns, sizes, strict=True):
        number = number * size + column
    return number, int(np.prod(sizes))


def _largest(amount: Floats, of: Ints, first: Ints) -> tuple[Ints, Floats]:
    """The largest of each group, the first of several, and its share."""
    if not len(amount):
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    top = np.maximum.reduceat(amount, first)
    at = np.flatnonzero(amount == top[of])
    which = at[np.unique(of[at], return_index=True)[1]]
    total = np.add.reduceat(amount, first)
    return which, np.where(total > 0, top / np.where(total > 0, total, 1), 0)
