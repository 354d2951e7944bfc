"""Named people who fit exactly one released record (Ramachandran et al. 2012)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Ints
from headcount.attacks.kinds._base import Attack, ClaimedPeople, People, whole_people
from headcount.attacks.linkage import EXACT, link
from headcount.engines.protocol import Engine
from headcount.errors import ConfigError
from headcount.release import Release
from headcount.report.finding import Support
from headcount.schema import Schema
from headcount.tabulate.published.codings import years

_PLACE = "place"


@dataclass(frozen=True, kw_only=True)
class Link(Attack):
    """Link people to the only released record with their place, age bucket and other attributes.

    where
        age_width    years in a bucket of ages, where the schema has single years
        exact        attributes that must agree besides; those that the schema lacks are left out
        secret       the attribute to be learnt
        level        how finely the attacker knows where people live; "" for the leaf
        one_to_one   drop records that several people claim
    """

    name = "linkage"
    age_width: int = 2
    exact: tuple[str, ...] = EXACT
    secret: str = "hispanic"
    level: str = ""
    one_to_one: bool = False

    def __post_init__(self) -> None:
        if self.age_width < 1:
            raise ConfigError(
                "linkage", place="age_width", found=str(self.age_width), expected="1 year or more"
            )

    def supports(self, release: Release) -> Support:
        """Whole people with an age and a secret."""
        if missing := [n for n in ("age", self.secret) if n not in release.schema.names]:
            return Support(f"the schema has no attribute {' and no '.join(missing)}")
        if self.level and self.level not in release.geography.levels:
            return Support(f"the release has no level {self.level}")
        return whole_people(release)

    def knows(self, schema: Schema) -> tuple[str, ...]:
        """Age, and of the others those that the schema has."""
        others = (n for n in self.exact if n in schema.names and n not in ("age", self.secret))
        return ("age", *others)

    def run(
        self, release: Release, people: People, *, engine: Engine | None = None
    ) -> ClaimedPeople:
        """Claim the secret of the only record that fits."""
        schema, geography = release.schema, release.geography
        unit, cell = _rows(release)
        seen = dict(zip(schema.names, np.unravel_index(cell, schema.shape), strict=True))
        place = geography.ancestors(self.level or geography.leaf).astype(np.int64)
        exact = (*self.knows(schema)[1:], _PLACE)
        bucket, width = self._years(schema)
        # Who lives outside the release shares no place with any record.
        outside = geography.size(geography.leaf)
        public = {
            **people.codes,
            "age": bucket[people.codes["age"]],
            _PLACE: np.where(people.unit >= 0, place[people.unit], outside),
        }
        released = {**seen, "age": bucket[seen["age"]], _PLACE: place[unit]}
        found = link(public, released, age_width=width, exact=exact, one_to_one=self.one_to_one).row
        secret = np.asarray(seen[self.secret], dtype=np.int64)
        matched = found >= 0
        value = np.full(len(people), -1, dtype=np.int64)
        value[matched] = secret[found[matched]]
        level = self.level or geography.leaf
        return ClaimedPeople(
            attack=self.name,
            title="Does a single record fit a named person?",
            schema=schema,
            geography=geography,
            people=people,
            learnt=(self.secret,),
            value=value,
            facts={"people": len(people), "matched": int(matched.sum()), "age_width": width},
            words=(
                f"For each person the attacker knows the {level}, "
                f"{', '.join(self.knows(schema)[1:]) or 'nothing else'}, and the age"
                f"{f' in buckets of {width} years' if width > 1 else ''}. Where exactly one "
                f"released record fits, the attacker claims that its {self.secret} is the "
                "person's, and cannot see which claims are right."
            ),
        )

    def _years(self, schema: Schema) -> tuple[Ints, int]:
        """For each level of age a number, and how many of these make a bucket.

        Single years are put into buckets; coarser levels are buckets already. An open last level
        stands for its first year.
        """
        levels = schema.attribute("age").levels
        spans = [years(level) for level in levels]
        if any(
            span is None or (len(span) > 1 and not level.endswith("+"))
            for level, span in zip(levels, spans, strict=True)
        ):
            return np.arange(len(levels), dtype=np.int64), 1
        return np.array([min(span) for span in spans if span], dtype=np.int64), self.age_width


def _rows(release: Release) -> tuple[Ints, Ints]:
    """Leaf unit and cell of each released person."""
    from scipy.sparse import coo_array

    table = coo_array(release.as_counts().table(release.geography.leaf))
    times = table.data.astype(np.int64)
    unit, cell = (np.repeat(one.astype(np.int64), times) for one in table.coords)
    return unit, cell
