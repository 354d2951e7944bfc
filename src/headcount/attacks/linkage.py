"""The linkage attack: who in a public table fits exactly one released record?

Algorithm 1 of Ramachandran et al. (2012), as used by Christ, Radway & Bellovin (2022, 4.5). The
attacker has a public table P with the age, race and household size of named people, and the
released records D. A record's key is

    key = (floor(age / w), race, household size)

where
    w   width of an age bucket, in years

and p in P *matches* if exactly one d in D has p's key. Whether the match is right is not for the
attacker to know: see ``headcount.evaluation.attacked``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from headcount.arrays import Codes, Ints
from headcount.attacks._base import NOTHING, Attack, ClaimedPeople, People, whole_people
from headcount.attacks.records import learnt_names
from headcount.engines import Engine
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.release import Release
from headcount.report.finding import Support
from headcount.schema import Schema
from headcount.schema.schema import combine
from headcount.tabulate.codings import find_attribute, years

EXACT = ("race", "household_size")
"""What must agree besides the age bucket; where people live may be added, as one more name."""
SECRET = "hispanic"
"""The role that is learnt unless something else is said to be sensitive."""
_PLACE = "place"


@dataclass(frozen=True, kw_only=True)
class Link(Attack):
    """Link people to the only released record with their place, age bucket and other attributes.

    where
        age_width    years in a bucket of ages, where the schema has single years
        exact        attributes that must agree besides, or the roles that they play; those that
                     the schema lacks are left out. What a schema says to be known takes their place
        secret       the attribute to be learnt, or its role; else the first that is sensitive
        level        how finely the attacker knows where people live; "" for the leaf
        one_to_one   drop records that several people claim
    """

    name = "linkage"
    at_least_1 = ("age_width",)
    age_width: int = 2
    exact: tuple[str, ...] = EXACT
    secret: str = SECRET
    level: str = ""
    one_to_one: bool = False

    def supports(self, release: Release) -> Support:
        """Whole people, of whom something is known and something is not."""
        schema = release.schema
        missing = [] if self._known(schema) else ["age ([roles] age, or [attacker] knows)"]
        hint = " ([roles] origin, or [attacker] sensitive)" if self.secret == SECRET else ""
        missing += [] if self._secret(schema) else [f"{self.secret}{hint}"]
        if missing:
            return Support(f"the schema has no attribute {' and no '.join(missing)}")
        if self.level and self.level not in release.geography.levels:
            return Support(f"the release has no level {self.level}")
        return whole_people(release)

    def knows(self, schema: Schema) -> tuple[str, ...]:
        """Age, and of the others those that the schema has; or what is said to be known."""
        return self._known(schema)

    def _secret(self, schema: Schema) -> str:
        """The attribute to be learnt; "" if there is none."""
        own = find_attribute(schema, self.secret)
        if own is not None or self.secret != SECRET:
            return "" if own is None else own.name
        return next(iter(learnt_names(schema)), "")

    def _known(self, schema: Schema) -> tuple[str, ...]:
        """What is known besides the place; nothing where nothing says what."""
        age, secret = find_attribute(schema, "age"), self._secret(schema)
        if schema.attacker.knows:
            return tuple(name for name in schema.attacker.knows if name != secret)
        if age is None or age.name == secret:
            return ()
        others = (find_attribute(schema, name) for name in self.exact)
        names = (one.name for one in others if one is not None)
        return (age.name, *(one for one in names if one not in (age.name, secret)))

    def run(
        self, release: Release, people: People, *, engine: Engine | None = None
    ) -> ClaimedPeople:
        """Claim the secret of the only released record that fits."""
        schema, geography = release.schema, release.geography
        unit, cell = rows_of(release)
        seen = dict(zip(schema.names, np.unravel_index(cell, schema.shape), strict=True))
        level = self.level or geography.leaf
        place = geography.ancestors(level).astype(np.int64)
        age, secret = find_attribute(schema, "age"), self._secret(schema)
        known = self._known(schema)
        aged = age is not None and age.name in known
        others = tuple(name for name in known if age is None or name != age.name)
        bucket, width = self._years(schema) if aged else (np.zeros(1, dtype=np.int64), 1)
        of_people, of_rows = (
            bucket[codes[age.name]] if aged and age is not None else np.zeros(rows, dtype=np.int64)
            for codes, rows in ((people.codes, len(people)), (seen, len(unit)))
        )
        # Who lives outside the release shares no place with any record.
        outside = geography.size(geography.leaf)
        public = {
            **people.codes,
            "age": of_people,
            _PLACE: np.where(people.unit >= 0, place[people.unit], outside),
        }
        rows = LinkRows(
            codes={**seen, "age": of_rows, _PLACE: place[unit]},
            exact=(*others, _PLACE),
            width=width,
            secret=np.asarray(seen[secret], dtype=np.int64),
            values=pl.Series(schema.attribute(secret).levels),
            learnt=secret,
            aged=aged,
            words=", ".join((f"the {level}", *others)),
        )
        named = replace(people, codes=public)
        return self.match(named, rows, schema=schema, geography=geography)

    def match(
        self, people: People, rows: LinkRows, *, schema: Schema, geography: Geography
    ) -> Linked:
        """Link an attacker's file to released rows, wherever both come from."""
        found = link(
            people.codes,
            rows.codes,
            age_width=rows.width,
            exact=rows.exact,
            one_to_one=self.one_to_one,
        )
        matched = found >= 0
        value = np.full(len(people), NOTHING, dtype=np.int64)
        value[matched] = rows.secret[found[matched]]
        buckets = f" in buckets of {rows.width} years" if rows.width > 1 else ""
        return Linked(
            attack=self.name,
            title="Does a single record fit a named person?",
            schema=schema,
            geography=geography,
            people=people,
            learnt=(rows.learnt or self.secret,),
            value=value,
            row=found,
            rows=rows,
            facts={
                "kind": self.name,
                "people": len(people),
                "released_rows": len(rows.secret),
                "matched": int(matched.sum()),
                "age_width": rows.width,
                "exact": list(rows.exact),
                "one_to_one": self.one_to_one,
            },
            words=(
                f"For each person the attacker knows {rows.words}"
                f"{f', and the age{buckets}' if rows.aged else ''}. Where exactly one released "
                f"record fits, the attacker claims that its {rows.learnt or self.secret} is "
                "the person's, and cannot see which claims are right."
            ),
        )

    def _years(self, schema: Schema) -> tuple[Ints, int]:
        """For each level of age a number, and how many of these make a bucket.

        Single years are put into buckets; coarser levels are buckets already. An open last level
        stands for its first year.
        """
        age, said = find_attribute(schema, "age"), schema.roles.of("age")
        assert age is not None  # asked for only where there is one
        levels = [level if said is None else said.word(level) for level in age.levels]
        spans = [years(level) for level in levels]
        if any(
            span is None or (len(span) > 1 and not level.endswith("+"))
            for level, span in zip(levels, spans, strict=True)
        ):
            return np.arange(len(levels), dtype=np.int64), 1
        return np.array([min(span) for span in spans if span], dtype=np.int64), self.age_width


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkRows:
    """Released records, one row each, in the numbers of the attacker's file.

    where
        codes    a number for each row by attribute, years of age among them as "age"
        exact    attributes that must agree besides the age bucket
        width    years in a bucket of ages
        secret   for each row the position of its secret among ``values``; -1 for a missing one
        values   what the secret can be, as it is to be written
        words    what the attacker knows besides the age
        learnt   the secret's name; that of the attack if empty
        aged     whether an age is known
    """

    codes: Codes
    exact: tuple[str, ...]
    width: int
    secret: Ints
    values: pl.Series
    words: str
    learnt: str = ""
    aged: bool = True


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Linked(ClaimedPeople):
    """Claims by linking: for each person the released row that alone fits, or -1."""

    row: Ints
    rows: LinkRows

    def frames(self, ids: pl.Series) -> Mapping[str, pl.DataFrame]:
        """Who was linked to which row, and the secret that is claimed."""
        who = np.flatnonzero(self.row >= 0)
        value = pl.Series(self.value[who])
        claimed = self.rows.values.gather(value.set(value < 0, None))
        found = {"person": ids.gather(who.tolist()), "released_row": self.row[who]}
        return {"links": pl.DataFrame({**found, self.learnt[0]: claimed})}


def rows_of(release: Release) -> tuple[Ints, Ints]:
    """Leaf unit and cell of each released person."""
    from scipy.sparse import coo_array

    table = coo_array(release.as_counts().table(release.geography.leaf))
    times = table.data.astype(np.int64)
    unit, cell = (np.repeat(one.astype(np.int64), times) for one in table.coords)
    return unit, cell


def link(
    public: Codes,
    released: Codes,
    *,
    age_width: int,
    exact: Sequence[str] = EXACT,
    one_to_one: bool = False,
) -> Ints:
    """For each public row the only released row with its key; -1 if there is none, or several.

    Several people may claim the same released row. With ``one_to_one`` such claims are dropped:
    an attacker who sees two candidates for one record cannot tell which is right.
    Names of ``exact`` that neither table has (no household size, say) are an error: leave them
    out on purpose.
    """
    if type(age_width) is not int or age_width < 1:
        raise InputError(
            "linkage", place="age_width", found=repr(age_width), expected="1 year or more"
        )
    known, seen = _keys(public, released, age_width, exact)
    row = _only(known, seen)
    if one_to_one:
        claims = np.bincount(row[row >= 0], minlength=len(seen))
        disputed = row >= 0
        disputed[disputed] = claims[row[disputed]] > 1
        row[disputed] = -1
    return row


def _keys(
    public: Codes, released: Codes, age_width: int, exact: Sequence[str]
) -> tuple[Ints, Ints]:
    """One number for each row of both tables, equal where the keys are equal."""
    for source, table in (("public", public), ("released", released)):
        for name in ("age", *exact):
            if name not in table:
                raise InputError(
                    f"linkage: {source} table",
                    found=f"no attribute {name!r}",
                    expected=f"age and all of {list(exact)}",
                )
    both = [np.concatenate([public[name], released[name]]) for name in ("age", *exact)]
    key = combine([both[0] // age_width, *both[1:]], rows=len(both[0]))
    rows = len(public["age"])
    return key[:rows], key[rows:]


def _only(known: Ints, seen: Ints) -> Ints:
    """For each of the known keys the position of its only occurrence among the seen, or -1."""
    order = np.argsort(seen)
    ordered = seen[order]
    apart = np.ones(len(seen) + 1, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=apart[1:-1])
    once = apart[1:] & apart[:-1]
    keys, rows = ordered[once], order[once]
    if not len(keys):
        return np.full(len(known), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(keys, known), len(keys) - 1)
    return np.where(keys[place] == known, rows[place], -1).astype(np.int64)
