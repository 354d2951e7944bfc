"""Attacks scored: what was claimed without the truth, then compared with it.

A link is *confirmed* if the released row is of the same individual and its secret is that of the
individual in truth. "The same individual" can be read in three ways, which differ once people were
swapped:

    slot     the released row stands in the person's own place, whoever's record it now holds
    person   the released row holds the person's own record, wherever it now stands
    value    any row: what counts is that the secret is learnt

At a swap rate of 1 nobody is confirmed by *person*, by construction. Only *slot* can give the
rates above zero that Christ, Radway & Bellovin (2022, figure 11) publish there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Literal, Self, get_args

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from headcount.arrays import Flags, Ints
from headcount.attacks import ClaimedPeople, ClaimedRecords, Claims
from headcount.attacks.claims import Statements
from headcount.attacks.reconstruction import Rebuilt
from headcount.attacks.records import (
    Features,
    Records,
    known_names,
    learnt_names,
    records_of,
)
from headcount.attacks.reidentification import Matches
from headcount.errors import InputError
from headcount.evaluation.part import Part, TruePeople
from headcount.evaluation.reidentified import (
    ALL,
    GUESS_WORDS,
    agreement,
    beside_guesses,
    by_size,
    reidentified,
)
from headcount.report.figures import Axis, point_chart
from headcount.report.finding import Finding
from headcount.report.model import Block, Column, Figure, KeyNumber, table_from_frame

IdentityRule = Literal["slot", "person", "value"]
UNLIKE = "unlike most in the unit"
"""People whom a guess from where they live cannot find."""
IDENTITY_RULES: tuple[IdentityRule, ...] = get_args(IdentityRule)


@singledispatch
def score_claims(claims: Claims, people: TruePeople, part: Part) -> Finding:
    """How much of what was claimed is true."""
    raise InputError(
        f"attack {getattr(claims, 'attack', '')!r}",
        found=type(claims).__name__,
        expected="ClaimedRecords, ClaimedPeople or ClaimedCounts",
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Attacked(Finding):
    """A scored attack.

    where
        words    how it works and what was left out
        beside   the same attack by somebody who has not read the settings
    """

    words: str
    beside: Finding | None = None

    @classmethod
    def by(cls, claims: Claims, part: Part, **more: Any) -> Self:
        """The finding about some claims."""
        words = f"{claims.words} {part.words}"
        return cls(
            name=claims.attack,
            title=claims.title,
            words=words,
            counted=part.release.counted,
            **more,
        )

    def files(self) -> Mapping[str, pl.DataFrame]:
        """The table, and that of the uninformed attacker."""
        own = {self.name: self.table}
        return own if self.beside is None else own | {f"{self.name}-uninformed": self.beside.table}

    def blocks(self) -> tuple[Block, ...]:
        """Figure and table, and the table of the uninformed attacker."""
        if self.beside is None:
            return super().blocks()
        table = table_from_frame(
            self.beside.shown(),
            name=f"{self.name}-uninformed-table",
            caption="The same for an attacker who has the release alone, and takes the smallest "
            "change that its tables prove for the largest.",
            columns=self.beside.columns(),
        )
        return (*super().blocks(), table)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RecordsAgree(Attacked):
    """Records that agree with people in truth, by number of people in the unit."""

    index: tuple[str, ...] = ("blocks", "people")
    value: str = "exact_percent"
    value_words: str = "rebuilt records that agree with the truth, % of people"
    caption: str = "Rebuilt records that agree with the truth, by number of people in the unit."

    attributes: tuple[str, ...]

    def explain(self) -> str:
        """How records are rebuilt and compared."""
        return (
            f"{self.words} Records agree with the truth one to one within a unit: "
            f"on {', '.join(self.attributes)} (*exact*), with the age bin in place of the age "
            "(*binned*), or as far as the tables distinguish what is known "
            "(*distinguished*); as a percentage of people. Records are *certain* if all sets of "
            "records that fit have them, as far as was proved; they can be wrong all the same "
            "where people were moved before tables were made. A record that agrees is not yet a "
            "person: nobody is named, and where most people are alike many agree by chance."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """Agreement of all units, and how much of it is certain."""
        found = self.table.filter(blocks=ALL).row(0, named=True)
        head = KeyNumber(
            value=f"{found['exact_percent']:,.3g}",
            unit="%",
            label=f"of people have a rebuilt record with their {', '.join(self.attributes)}",
        )
        if "certain" not in found:
            return (head,)
        label = (
            f"of {found['records']:,} rebuilt records are certain, as far as the tables "
            "distinguish them: all records that fit include them. "
            f"{found['certain_right']:,} of these are people who live there"
        )
        return (head, KeyNumber(value=f"{found['certain']:,}", label=label))

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        kinds = {
            "exact_percent": "Exact",
            "binned_percent": "Binned",
            "told_percent": "Distinguished",
        }
        return (
            Column(key="blocks", label="Units"),
            Column(key="people", label="People", format=",d"),
            Column(key="records", label="Records", format=",d"),
            *(
                Column(key=key, label=label, unit="% of people", format=",.1f")
                for key, label in kinds.items()
                if key in self.table.columns
            ),
            *(
                Column(key=key, label=label, format=",d")
                for key, label in (("certain", "Certain"), ("certain_right", "Certain and right"))
                if key in self.table.columns
            ),
        )

    def figure(self) -> Figure:
        """Agreement by size of the unit."""
        names = {
            "exact_percent": "exact",
            "binned_percent": "binned",
            "told_percent": "distinguished",
        }
        return _by_size(
            self.table.rename({"blocks": "universe"}).rename(names, strict=False),
            list(names.values()),
            name=self.name,
            y="Records that agree (% of people)",
            caption="Rebuilt records that agree with the truth, by number of people in the unit.",
        )


@score_claims.register
def score_records(claims: ClaimedRecords, people: TruePeople, part: Part) -> RecordsAgree:
    """Agreement of claimed records with people, unit by unit."""
    records = records_of(claims.matrix, Features.of(claims.schema))
    table = _agreement_frame(
        records, people.records(), claims.geography.size(claims.geography.leaf)
    )
    return RecordsAgree.by(claims, part, table=_with_people(table), attributes=_attributes(claims))


@score_claims.register
def score_rebuilt(claims: Rebuilt, people: TruePeople, part: Part) -> RecordsAgree:
    """The same, and agreement in what the tables tell apart."""
    table = rebuilt_frame(claims, people.records())
    return RecordsAgree.by(
        claims,
        part,
        table=_with_people(table.hstack(_certain_frame(claims, people))),
        attributes=_attributes(claims),
    )


def _attributes(claims: Claims) -> tuple[str, ...]:
    """What records are compared by."""
    return (*known_names(claims.schema), *learnt_names(claims.schema))


def _with_people(table: pl.DataFrame) -> pl.DataFrame:
    """Without sizes of which there is no unit."""
    return table.filter((pl.col("blocks") == ALL) | (pl.col("people") + pl.col("records") > 0))


def _agreement_frame(records: Records, truth: Records, leaves: int) -> pl.DataFrame:
    """Agreement by size of unit, in per cent of people."""
    found = agreement(records, truth, blocks=leaves)
    percents = {
        f"{one}_percent": 100 * pl.col(one) / pl.col("people") for one in ("exact", "binned")
    }
    return found.select("blocks", "people", "records", **percents)


def rebuilt_frame(claims: Rebuilt, truth: Records) -> pl.DataFrame:
    """Agreement on age, on its bin, and on what the tables tell of sex and age."""
    leaves = claims.geography.size(claims.geography.leaf)
    own = _agreement_frame(records_of(claims.matrix, truth.features), truth, leaves)
    told = _agreement_frame(
        records_of(claims.matrix, claims.features), replace(truth, features=claims.features), leaves
    )
    return own.with_columns(told["binned_percent"].alias("told_percent"))


def _certain_frame(claims: Rebuilt, people: TruePeople) -> pl.DataFrame:
    """Records that every solution has, and those among them that are true, by size of unit.

    Of each kind that the tables tell apart so many are right as people are of it in truth, at most.
    """
    from scipy.sparse import coo_array

    sure, inside = claims.found.sure, claims.found.class_of[people.cell] >= 0
    where = (people.unit[inside], claims.found.class_of[people.cell[inside]])
    true = coo_array((np.ones(len(where[0]), dtype=np.int64), where), shape=sure.shape).tocsr()
    certain, right = (
        np.asarray(one.sum(axis=1), dtype=np.int64) for one in (sure, sure.minimum(true))
    )
    sizes = by_size(np.bincount(people.unit, minlength=sure.shape[0]))
    return pl.DataFrame(
        {
            "certain": [int(certain[which].sum()) for which in sizes.values()],
            "certain_right": [int(right[which].sum()) for which in sizes.values()],
        }
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _PeopleFound(Attacked):
    """Claims about named people that are right, beside a guess from where they live."""

    index: tuple[str, ...] = ("universe", "people")
    value: str = "precision_%"
    value_words: str = "claims about people that are right, %"
    caption: str = "Claims about named people, and how many of them are right."

    learnt: tuple[str, ...]
    guess: str = "guess_%"

    def explain(self) -> str:
        """What a claim is, and what a guess gets right."""
        return (
            f"{self.words} The attacker here knows all of this about everybody, which "
            "no real attacker does. A claim is right if it is true of the person. "
            f"{GUESS_WORDS} Look above all at people who are unlike most of their unit: a guess "
            "cannot find them."
        )

    def numbers(self) -> tuple[KeyNumber, ...]:
        """Claims about everybody, and the guess."""
        found = self.table.row(0, named=True)
        if not found["claimed"]:
            return (KeyNumber(value="0", label=f"claims about people were made by {self.name}"),)
        guess = found[self.guess]
        return (
            KeyNumber(
                value=f"{found['precision_%']:,.3g}",
                unit="%",
                label=f"of {found['claimed']:,} claims about {' and '.join(self.learnt)} are "
                f"right ({self.name}); a guess from the unit gets {guess:,.3g} % of them right",
            ),
        )

    def columns(self) -> tuple[Column, ...]:
        """Headed in words."""
        heads = {
            "universe": "People",
            "precision_%": "Right",
            "from": "95 % from",
            "to": "to",
            "guess_%": "Guess right",
            "modal_guess_%": "Most frequent, right",
            "proportional_guess_%": "By shares, right",
        }
        return tuple(
            Column(
                key=key,
                label=heads.get(key, key.capitalize()),
                unit="%" if key in heads and kind.is_numeric() else "",
                format=",.1f" if kind.is_float() else ",d" if kind.is_integer() else "",
            )
            for key, kind in self.table.schema.items()
        )

    def figure(self) -> Figure:
        """Claims that are right, beside guesses."""
        names = {"precision_%": "claims", self.guess: "guess from the unit"}
        return _by_size(
            self.table.rename(names),
            list(names.values()),
            name=self.name,
            y="Right (% of claims)",
            caption="Claims about named people that are right, beside a guess from the unit.",
        )


@score_claims.register
def score_people(claims: ClaimedPeople, people: TruePeople, part: Part) -> _PeopleFound:
    """Claims of any attack: right, if the person is so in truth.

    The guess is the combination that is most frequent among the true people of the unit.
    """
    true = np.ravel_multi_index(
        tuple(people.codes(name) for name in claims.learnt),
        tuple(claims.schema.attribute(name).size for name in claims.learnt),
    ).astype(np.int64)
    mode = _modes(people.unit, true)
    claimed, right, guessed = claims.value >= 0, claims.value == true, mode == true
    universes = {
        ALL: np.ones(len(people), dtype=bool),
        "as most in the unit": guessed,
        UNLIKE: ~guessed,
    }
    rows = [
        {
            "universe": name,
            "people": int(inside.sum()),
            "claimed": int((inside & claimed).sum()),
            "right": int((inside & claimed & right).sum()),
            "precision_%": _percent(right, inside & claimed),
            "guess_%": _percent(guessed, inside & claimed),
        }
        for name, inside in universes.items()
    ]
    return _PeopleFound.by(claims, part, table=pl.DataFrame(rows), learnt=claims.learnt)


PROVEN, LIKELY, CERTAIN = "proven", "likely", "certain record"
"""Kinds of statements."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _StatementsFound(_PeopleFound):
    """Claims by how sure they are called, beside a guess from where people live."""

    index: tuple[str, ...] = ("statement", "universe", "people")
    caption: str = "What is said of people, by how sure it is called, and how much of it is right."

    def numbers(self) -> tuple[KeyNumber, ...]:
        """What is proven of people whom a guess cannot find, and what likely claims are worth."""
        found = self.table.filter(pl.col("universe").is_in((ALL, UNLIKE)))
        return tuple(
            KeyNumber(
                value=f"{row['claimed']:,}",
                unit=self.counted,
                label=f"of {row['people']:,} {words}: {' and '.join(self.learnt)} {statement}"
                + ("" if (of := row["precision_%"]) is None else f"; {of:,.3g} % of this is right"),
            )
            for row in found.iter_rows(named=True)
            if (statement := row["statement"]) != CERTAIN
            for words in ("all" if row["universe"] == ALL else "those unlike most in the unit",)
        )

    def figure(self) -> Figure:
        """How much of what is said is right."""
        rows = self.table.filter(pl.col("statement") != CERTAIN)
        shown = rows.with_columns(pl.col("precision_%").fill_nan(None))
        return Figure(
            name=f"{self.name}-figure",
            caption="Statements about named people that are right.",
            alt="Points: statements that are right, in per cent, by kind of people.",
            chart=point_chart(
                shown,
                x=Axis(
                    column="universe",
                    title="People",
                    names=tuple(dict.fromkeys(rows["universe"].to_list())),
                ),
                y=Axis(column="precision_%", title="Right (% of statements)", zero=True),
                series="statement",
            ),
        )


@score_claims.register
def score_statements(claims: Statements, people: TruePeople, part: Part) -> _StatementsFound:
    """Each kind of statement by itself; a certain record is right as far as people are so."""
    likely = f"{LIKELY}, with a share of {float(claims.confidence):g} or more"
    parts = [
        score_people(
            replace(claims, value=np.where(kind, claims.value, -1)), people, part
        ).table.insert_column(0, pl.Series("statement", [name] * 3))
        for name, kind in ((PROVEN, claims.proven), (likely, ~claims.proven))
    ]
    place, key, secret, least = claims.certain
    sizes = tuple(claims.schema.attribute(name).size for name in claims.learnt)
    true = np.ravel_multi_index(tuple(people.codes(name) for name in claims.learnt), sizes)
    keys, secrets = 1 + int(claims.key.max(initial=0)), int(np.prod(sizes))
    own = (people.unit * keys + claims.key[people.cell]) * secrets + true
    codes, many = np.unique(own, return_counts=True)
    asked = (place * keys + key) * secrets + secret
    at = np.minimum(np.searchsorted(codes, asked), max(len(codes) - 1, 0))
    there = np.where(codes[at] == asked, many[at], 0) if len(codes) else np.zeros_like(asked)
    said, right = int(least.sum()), int(np.minimum(least, there).sum())
    certain = {
        "statement": CERTAIN,
        "universe": ALL,
        "people": len(people),
        "claimed": said,
        "right": right,
        "precision_%": 100 * right / said if said else None,
        "guess_%": None,
    }
    floats = pl.col("precision_%", "guess_%").cast(pl.Float64)
    frames = (*parts, pl.DataFrame([certain]))
    table = pl.concat([one.with_columns(floats) for one in frames])
    return _StatementsFound.by(claims, part, table=table, learnt=claims.learnt)


@score_claims.register
def score_matches(claims: Matches, people: TruePeople, part: Part) -> _PeopleFound:
    """Matches, over several random orders of ties, beside guesses from the records attacked."""
    scores = matches_frame(claims, people.records())
    return _PeopleFound.by(
        claims,
        part,
        table=beside_guesses(scores).rename({"putative": "claimed", "confirmed": "right"}),
        learnt=claims.learnt,
        guess="modal_guess_%",
    )


def matches_frame(claims: Matches, truth: Records) -> pl.DataFrame:
    """Re-identification scored: see ``headcount.evaluation.reidentified``."""
    target = claims.target
    return reidentified(
        target.records,
        claims.known,
        truth,
        geography=target.geography,
        zero_variability=target.zero,
        orders=claims.by.orders,
        seed=claims.by.seed,
        years=target.years,
    )


def _modes(unit: Ints, value: Ints) -> Ints:
    """For each person the most frequent value of the unit, the smaller of two."""
    if not len(unit):
        return value
    width = int(value.max()) + 1
    pairs, times = np.unique(unit * width + value, return_counts=True)
    order = np.lexsort((pairs % width, -times, pairs // width))
    units, first = np.unique(pairs[order] // width, return_index=True)
    mode = np.full(int(unit.max()) + 1, -1, dtype=np.int64)
    mode[units] = pairs[order][first] % width
    return np.asarray(mode[unit])


def _percent(right: Flags, of: Flags) -> float | None:
    return 100 * float((right & of).sum()) / int(of.sum()) if of.any() else None


def _by_size(frame: pl.DataFrame, series: list[str], *, name: str, y: str, caption: str) -> Figure:
    """Some columns of a table by universe."""
    shown = frame.select("universe", *(pl.col(one) for one in series if one in frame.columns))
    long = shown.unpivot(index="universe", variable_name="what", value_name="percent")
    universes = tuple(dict.fromkeys(frame["universe"].to_list()))
    return Figure(
        name=f"{name}-figure",
        caption=caption,
        alt=caption,
        chart=point_chart(
            long.with_columns(pl.col("percent").fill_nan(None)),
            x=Axis(column="universe", title="People", names=universes),
            y=Axis(column="percent", title=y, zero=True),
            series="what",
        ),
    )


def confirmed_links(
    row: Ints,
    *,
    rule: IdentityRule,
    secret: ArrayLike,
    released_secret: ArrayLike,
    origin: ArrayLike | None = None,
    slot: ArrayLike | None = None,
) -> Flags:
    """For each public row, whether its match is right: ``row`` is the released one, or -1.

    where
        secret            the true Hispanic origin of each public row
        released_secret   Hispanic origin of each released row
        origin            for each released row, whose record it holds: the position where that
                          record stood before the swap, -1 for a record from outside the table;
                          None if nothing was swapped
        slot              for each public row its own place in the released table; None if the
                          public rows stand in the order of the released ones
    """
    truth, seen = np.asarray(secret), np.asarray(released_secret)
    own = np.arange(len(truth)) if slot is None else np.asarray(slot)
    of_row = np.arange(len(seen)) if origin is None else np.asarray(origin)
    for name, array, length in (
        ("secret", truth, len(row)),
        ("slot", own, len(row)),
        ("origin", of_row, len(seen)),
    ):
        if len(array) != length:
            raise InputError(
                "linkage risk", place=name, found=f"{len(array)} rows", expected=f"{length}"
            )
    if rule not in IDENTITY_RULES:
        raise InputError(
            "linkage risk", place="rule", found=repr(rule), expected=" or ".join(IDENTITY_RULES)
        )
    right = np.zeros(len(row), dtype=bool)
    claimed = np.flatnonzero(row >= 0)
    found = row[claimed]
    same = np.ones(len(claimed), dtype=bool)
    if rule == "slot":
        same = found == own[claimed]
    elif rule == "person":
        same = of_row[found] == own[claimed]
    right[claimed] = same & (seen[found] == truth[claimed])
    return right


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TrueSecrets:
    """What is true of linked people (see ``confirmed_links``): origin and slot, if known."""

    secret: ArrayLike
    released: ArrayLike
    origin: Ints | None
    slot: Ints | None

    @property
    def rules(self) -> tuple[IdentityRule, ...]:
        """The readings of "the same individual" that can be told."""
        known = {"value": True, "person": self.origin is not None, "slot": self.slot is not None}
        return tuple(rule for rule in get_args(IdentityRule)[::-1] if known[rule])


def linked_frame(row: Ints, truth: TrueSecrets) -> pl.DataFrame:
    """Links scored by each rule that is known: the released row of each person, or -1."""
    made, matched = [], int((row >= 0).sum())
    for rule in truth.rules:
        right = confirmed_links(
            row,
            rule=rule,
            secret=truth.secret,
            released_secret=truth.released,
            origin=truth.origin,
            slot=truth.slot if rule == "slot" else None,
        )
        found = int(right.sum())
        made.append(
            {
                "identity_rule": rule,
                "people": len(row),
                "matched": matched,
                "confirmed": found,
                "percent": 100 * found / len(row) if len(row) else float("nan"),
                "precision": found / matched if matched else float("nan"),
            }
        )
    return pl.DataFrame(made)
