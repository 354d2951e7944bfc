"""TopDown's settings: the seven choices of Petti & Flaxman (2020), section "TopDown options".

And the noise that they plan for each measured query, before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from headcount.errors import ConfigError, InputError, PrivacyError, one_of
from headcount.fields import (
    HIDDEN,
    STATED,
    Named,
    NotNegative,
    Pairs,
    Positive,
    PositiveOrInf,
    Share,
)
from headcount.geography import Geography
from headcount.geography.spine import UnitShares
from headcount.mechanisms import Neighbours, refuse_housemates, steps_of_all
from headcount.noise import Law
from headcount.privacy import (
    DEFAULT_UNIT,
    Allocation,
    Loss,
    PureLoss,
    UnitOfPrivacy,
    ZCDPLoss,
    allocate,
    law_for,
    marginal_sensitivity,
    unit_of_privacy,
)
from headcount.privacy.loss import exact, positive, scaled
from headcount.schema.schema import ALONE, Combination, Schema, Steps, first_repeated
from headcount.tabulate import CELLS, Query
from headcount.topdown.choices import (
    EVEN,
    Bounds,
    DefaultShares,
    Grouped,
    Grouping,
    Invariant,
    LevelPasses,
    Marginal,
    QuartersBounds,
    RecodedQuery,
    Shares,
    SharesTable,
    TableBounds,
    default_keys,
    refuse_other_sum,
)
from headcount.typed import PRESET, from_table, given

EQUAL, INF = "equal", "inf"


@contextmanager
def _asked_by(place: str) -> Iterator[None]:
    """An unknown name is an error of the setting that asks for it."""
    try:
        yield
    except InputError as error:
        place = f"{place}, {error.place}" if error.place else place
        raise ConfigError(
            "topdown", place=place, found=error.found, expected=error.expected
        ) from None


NURSE_NVA_0: Combination = (("hhgq", ("elderly_or_poor",)), ("voting_age", ("under_18",)))
"""The optional structural zero of the 2018 test: no minors in homes for the elderly or poor."""

NURSE_NVA_0_2020: Combination = (("hhgq", ("nursing",)), ("votingage", ("under_18",)))
"""The same with the names of 2020."""


def _made(kind: Any, value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        return from_table(kind, value, source="topdown", place=place)
    return value


def _shares(named: Any) -> Pairs[Fraction]:
    return Pairs((name, exact(part, name=f"share of {name!r}")) for name, part in Pairs.of(named))


@dataclass(frozen=True, kw_only=True, repr=False)
class TopDownSettings:
    """What TopDown leaves to its user.

    where
        epsilon, rho   1. the overall loss, pure or zCDP: one of the two; epsilon "inf" adds no
                       noise at all, to check a set-up (and protects nothing)
        unit           1. its unit of privacy
        levels         2. how it is split over levels: "equal", or a share for each
        queries        3. marginals by name, and 4. how a level's part is split over them; "cells"
                       is the detailed query. None: total, attributes and cells (choices.py)
        shares         2. and 4. where no queries are named: "even", or more for "totals"
        recodes        3. coarser attributes for queries
        level_queries  4. other shares of the queries at some levels
        invariant      5. what is published exactly
        bounds         6. what bounds the counts
        passes         what is estimated and rounded before other queries, at some levels
        spine          measure along the spine of the geography, another tree over its leaves
        pool           join answers with those of the levels below before the descent (_pool.py)
        pool_from      the lowest level that takes part in it; "" for the lowest that gains 1 %
        bypass         the highest level whose units take over the share of an only child, "" for
                       none (geography/spine.py)
        nurse_nva_0    6. the schema must rule out minors in homes for the elderly or poor (in 2020:
                       in nursing homes)
        (7. what to publish is the run's business: counts, microdata, measurements)
        failsafe_over    attributes to sum over when a parent cannot be met: the margin of all
                         others is kept
        report_epsilon   the loss spent on the protected distance to the truth; 0 for no report
        count_housemates, largest_household
                         what of a household is counted in the unit of privacy (_units.py)
    """

    epsilon: PositiveOrInf | None = None
    rho: Positive | None = None
    unit: Annotated[UnitOfPrivacy, STATED] = DEFAULT_UNIT
    count_housemates: bool = False
    largest_household: int | None = None
    levels: Annotated[Shares | str, Named(Share, word=EQUAL)] = EQUAL
    queries: Annotated[tuple[tuple[str, Marginal], ...], Named(Marginal)] = Pairs()
    shares: DefaultShares = EVEN
    recodes: Annotated[tuple[tuple[str, Grouped], ...], Named(Grouped)] = Pairs()
    level_queries: Annotated[tuple[tuple[str, Shares], ...], Named(SharesTable)] = Pairs()
    invariant: tuple[Invariant, ...] = ()
    bounds: tuple[Bounds, ...] = ()
    passes: Annotated[tuple[tuple[str, LevelPasses], ...], Named(LevelPasses)] = Pairs()
    spine: bool = False
    bypass: str = ""
    pool: bool = False
    pool_from: Annotated[str, HIDDEN] = ""
    failsafe_over: tuple[str, ...] = ()
    report_epsilon: NotNegative = Fraction(0)
    nurse_nva_0: bool = False
    presets: ClassVar[str] = "headcount.topdown.presets"

    def __post_init__(self) -> None:
        self._settle()
        self._refuse_unclear()
        self.neighbours.checked(name="topdown")
        self._refuse_vacuous()
        if self.queries:  # without any, the schema says which there are (completed)
            self._refuse_unknown_queries()

    def _refuse_unknown_queries(self) -> None:
        """Refuse queries that nobody defined, and shares that do not add up."""
        known = [CELLS, *(query.name for query in self.marginals)]
        for name in [*(i.query for i in self.invariant), *(b.query for b in self.bounds)]:
            if name not in known[1:]:
                raise ConfigError(
                    "topdown",
                    place=f"query {name!r}",
                    found="an unknown query",
                    expected=one_of(known[1:]),
                )
        for query in self.marginals:
            if twice := first_repeated(str(getattr(axis, "name", axis)) for axis in query.by):
                raise ConfigError(
                    "topdown",
                    place=f"query {query.name!r}",
                    found=f"{twice!r} twice",
                    expected="distinct attributes and recodes",
                )
        if self.level_shares is None:
            others = "every other level" if self.level_queries else "every level"
            levels = [others, *dict(self.level_queries)]
        else:
            levels = [level for level, _ in self.level_shares]
        self._allocate(levels)

    def _settle(self) -> None:
        """Numbers as exact fractions, lists and tables as what cannot change.

        From Python a table may be a dictionary, with the keys of a config file.
        """
        given: dict[str, Any] = {"failsafe_over": tuple(self.failsafe_over)}
        kind: Any
        for name, kind in (("queries", Marginal), ("recodes", Grouped), ("passes", LevelPasses)):
            given[name] = Pairs(
                (key, _made(kind, value, f"{name}.{key}"))
                for key, value in Pairs.of(getattr(self, name))
            )
        for name, kind in (("invariant", Invariant), ("bounds", Bounds)):
            given[name] = tuple(
                _made(kind, value, f"{name} {number}")
                for number, value in enumerate(getattr(self, name), start=1)
            )
        pairs = Pairs.of(self.level_queries)
        given["level_queries"] = Pairs((level, _shares(shares)) for level, shares in pairs)
        given["levels"] = self.levels if isinstance(self.levels, str) else _shares(self.levels)
        for name in ("epsilon", "rho"):
            value = getattr(self, name)
            if value is not None and value != INF:
                given[name] = positive(value, name=f"topdown: {name}")
        given["report_epsilon"] = exact(self.report_epsilon, name="topdown: report_epsilon")
        given["unit"] = unit_of_privacy(self.unit, name="topdown: unit")
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def _refuse_unclear(self) -> None:
        """Refuse settings that do not say one thing."""
        refuse_other_sum(self.level_shares)
        if (self.epsilon is None) == (self.rho is None):
            raise ConfigError(
                "topdown", found="both epsilon and rho, or neither", expected="one of the two"
            )
        if self.pool_from and not self.pool:
            raise ConfigError(
                "topdown",
                place="pool_from",
                found=f"{self.pool_from!r} without pool",
                expected="pool = true beside it",
            )
        if isinstance(self.levels, str) and self.levels != EQUAL:
            raise ConfigError(
                "topdown",
                place="levels",
                found=repr(self.levels),
                expected=f"{EQUAL!r}, or a share for each level",
            )
        if self.queries and self.shares != EVEN:
            raise ConfigError(
                "topdown",
                place="shares",
                found=f"{self.shares!r} beside queries, which have shares of their own",
                expected="one of the two",
            )
        if repeated := first_repeated(name for name, _ in self.queries):
            raise ConfigError(
                "topdown", place="queries", found=f"{repeated!r} twice", expected="distinct names"
            )
        for name, query in self.queries:
            if (query.by is None) != (name == CELLS):
                raise ConfigError(
                    "topdown",
                    place=f"queries.{name}",
                    found="no by" if query.by is None else "by",
                    expected=f"by = [...] for every query but {CELLS!r}",
                )
        asked = {name for _, query in self.queries for name in query.by or ()}
        if unused := sorted(set(dict(self.recodes)) - asked):
            raise ConfigError(
                "topdown",
                place=f"recodes.{unused[0]}",
                found="a recode that no query uses",
                expected="recodes that some query has in its by = [...]",
            )

    def to_json(self) -> dict[str, Any]:
        """The settings for a receipt: those that are not by default, and of files the names."""
        bounds = tuple(
            replace(one, file=Path(one.file.name)) if isinstance(one, TableBounds) else one
            for one in self.bounds
        )
        return {"name": "topdown", **given(replace(self, bounds=bounds))}

    @classmethod
    def from_preset(cls, name: str, **keys: Any) -> Self:
        """With the settings of a preset, but for the keys that are given."""
        return from_table(cls, {PRESET: name, **keys}, source="topdown")

    def completed(self, schema: Schema, geography: Geography) -> Self:
        """With queries: those of the user, or else the default ones (choices.py) written out.

        The settings themselves stay as the user wrote them, because their words key the noise.
        """
        if self.queries:
            return self
        return replace(self, shares=EVEN, **default_keys(self, schema, geography))

    def __repr__(self) -> str:
        # The unit always, other settings where they are not the default.
        shown = {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.name == "unit" or getattr(self, one.name) != one.default
        }
        said = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"{type(self).__name__}({said})"

    @cached_property
    def loss(self) -> PureLoss | ZCDPLoss | None:
        """The overall loss; None where no noise is added."""
        if self.rho is not None:
            return ZCDPLoss(rho=self.rho, unit=self.unit)
        if self.epsilon is None or self.epsilon == INF:
            return None
        return PureLoss(epsilon=self.epsilon, unit=self.unit)

    @property
    def level_shares(self) -> Shares | None:
        """The part of each level; None for equal parts."""
        return None if isinstance(self.levels, str) else self.levels

    @cached_property
    def query_shares(self) -> Shares:
        """The part of each query that is measured."""
        return tuple((name, query.share) for name, query in self.queries if query.share)

    @cached_property
    def marginals(self) -> tuple[Query, ...]:
        """The queries but for the detailed one, the total last."""
        recodes = dict(self.recodes)
        found = []
        for name, query in self.queries:
            if query.by is None:
                continue
            groupings = tuple(
                Grouping(one, recodes[one].of, recodes[one].groups)
                for one in query.by
                if one in recodes
            )
            plain = Query(name, query.by)
            found.append(RecodedQuery(name, query.by, groupings) if groupings else plain)
        return tuple(sorted(found, key=lambda query: not query.by))

    @property
    def structural_zeros(self) -> tuple[Combination, ...]:
        """Combinations that the schema must rule out."""
        return (NURSE_NVA_0,) if self.nurse_nva_0 else ()

    @property
    def neighbours(self) -> Neighbours:
        """Which databases the loss compares; without a loss, those of the default unit."""
        if self.loss is None:
            return Neighbours()
        return Neighbours(
            unit=self.unit,
            count_housemates=self.count_housemates,
            largest_household=self.largest_household,
        )

    def steps_of(self, query: str, schema: Schema) -> Steps:
        """How a query's cells go by household size."""
        attributes = schema.attributes
        if query != CELLS:
            attributes = self.query(query).attributes(schema)
        return steps_of_all(attributes)

    def _refuse_vacuous(self) -> None:
        """Every invariant gives the number of people: no two add-remove neighbours share it.

        Living quarters that are counted exactly give the number of households as well.
        """
        unit = self.neighbours.unit
        if self.invariant:
            beside, changes = "an invariant", "every invariant"
        elif unit.of_household and any(isinstance(one, QuartersBounds) for one in self.bounds):
            beside, changes = "bounds from living quarters", "the number of living quarters"
        else:
            return
        if unit.adds:
            one = "household" if unit.of_household else "person"
            raise ConfigError(
                "topdown",
                place="unit",
                found=f"{unit.value!r} with {beside}",
                expected=f"{unit.pair[1].value!r}: one {one} more or less changes {changes}, and "
                "the guarantee, which holds given what is published exactly, would promise nothing",
            )

    def refuse_unknown_names(self, schema: Schema, geography: Geography) -> None:
        """Refuse attributes and levels that the data do not have, each by what asks for it."""
        for query in self.marginals:  # unmeasured ones too
            with _asked_by(f"query {query.name!r}"):
                query.groups(schema)
        with _asked_by("failsafe_over"):
            for name in self.failsafe_over:
                schema.attribute(name)
        for invariant in self.invariant:
            with _asked_by(f"invariant {invariant.query!r}"):
                geography.depth(invariant.level)
        if self.pool_from:
            with _asked_by("pool_from"):
                depth = geography.depth(self.pool_from)
            if not depth:
                raise ConfigError(
                    "topdown",
                    place="pool_from",
                    found=f"{self.pool_from!r}, the top level: nothing would be pooled",
                    expected=one_of(geography.levels[1:]),
                )
        for level, _ in self.passes:
            with _asked_by(f"passes.{level}"):
                geography.depth(level)
        for bounds in self.bounds:
            if isinstance(bounds, TableBounds):
                with _asked_by(f"bounds on {bounds.query!r}"):
                    geography.depth(bounds.level)
        self._refuse_other_zeros(schema)

    def _refuse_other_zeros(self, schema: Schema) -> None:
        """Refuse a schema that lets someone be where the settings say that nobody can."""
        for zero in self.structural_zeros:
            if NURSE_NVA_0_2020[1][0] in schema.names:
                zero = NURSE_NVA_0_2020
            with _asked_by("structural zeros"):
                ruled_out = Schema(schema.attributes, (zero,))
            if (schema.possible & ~ruled_out.possible).any():
                said = ", ".join(f"{name} in {list(levels)}" for name, levels in zero)
                raise ConfigError(
                    "topdown",
                    place="structural zeros",
                    found=f"a schema that allows {said}",
                    expected="a schema in which that is a structural zero",
                )

    def allocation(self, geography: Geography) -> Allocation:
        """The share of every level x query, checked against the levels of a geography."""
        return self.allocation_of(geography.levels)

    def allocation_of(self, levels: Sequence[str]) -> Allocation:
        """The share of every level x query, checked against levels from the whole down."""
        allocation, root = self._allocate(list(levels)), levels[0]
        if not allocation.queries_at(root) and not self.invariant:
            raise ConfigError(
                "topdown",
                place=f"level shares: {root!r}",
                found="no share, and no invariant",
                expected="one of the two: all levels below take their counts from this one",
            )
        return allocation

    def tree(self, geography: Geography) -> Geography:
        """The tree that is measured: the geography itself, or its spine."""
        if not self.spine:
            return geography
        if geography.spine is None:
            raise ConfigError(
                "topdown",
                place="spine",
                found="true for places without a spine",
                expected="a population with one, such as kind = 'redistricting-2020'",
            )
        return geography.spine

    def unit_shares(self, tree: Geography) -> UnitShares | None:
        """The share of every unit, where units take over that of an only child."""
        if not self.bypass:
            return None
        with _asked_by("bypass"):
            top = tree.depth(self.bypass)
        if self.neighbours.unit.of_household or self.count_housemates:
            raise ConfigError(
                "topdown",
                place="bypass",
                found="it where households are counted in the unit of privacy",
                expected="a unit of one record: for that alone losses are added up by path",
            )
        allocation = self.allocation(tree)
        shares = tuple(allocation.level_share(level) for level in tree.levels)
        if 0 in shares[top:]:
            raise ConfigError(
                "topdown",
                place="bypass",
                found=f"no share for level {tree.levels[top + shares[top:].index(Fraction(0))]!r}",
                expected=f"a share for {self.bypass!r} and every level below: units take over the "
                "share of an only child",
            )
        found = UnitShares(geography=tree, shares=shares, highest=self.bypass)
        if set(found.along_paths()) != {Fraction(1)}:
            raise PrivacyError("topdown: found paths with other sums of shares, expected 1 on each")
        return found

    def _allocate(self, levels: Sequence[str]) -> Allocation:
        shares = self.level_shares
        if shares is None:
            shares = tuple((level, Fraction(1, len(levels))) for level in levels)
        same = {level: self.query_shares for level, _ in shares}
        return allocate(
            levels=shares,
            queries=same | dict(self.level_queries),
            known_levels=levels,
            known_queries=[CELLS, *(query.name for query in self.marginals)],
        )

    def query(self, name: str) -> Query:
        """The query of that name."""
        return next(query for query in self.marginals if query.name == name)


SMALLEST_VARIANCE = 1e-9
"""Smaller variances say no more about counts, and are too much for a least-squares solver."""


@dataclass(frozen=True)
class PlannedNoise:
    """The noise of one measured query and the weight of its answers.

    where
        law       of the noise; None where the loss has no limit: no noise
        weight    1 / variance of the noise, as in the 2018 code
        entries   how many answers the query has at its level
        loss      what the law costs; None where there is no limit
        classes   where units have shares of their own: the noise of each share, in the order of
                  ``UnitShares.classes``; None for a share of 0, which is not measured
    """

    law: Law | None
    weight: float
    entries: int
    loss: Loss | None = None
    classes: tuple[PlannedNoise | None, ...] = ()


def noise_of(
    loss: Loss | None, *, entries: int, steps: Steps = ALONE, largest_household: int | None = None
) -> PlannedNoise:
    """The noise that a loss buys for a vector of so many answers; no loss at all, no noise."""
    if loss is None:
        return PlannedNoise(law=None, weight=1.0, entries=entries)
    moved = marginal_sensitivity(
        unit=loss.unit, units=entries, cells=1, steps=steps, largest_household=largest_household
    )
    law = law_for(loss, moved)
    weight = 1 / max(law.variance, SMALLEST_VARIANCE)
    return PlannedNoise(law, weight=weight, entries=entries, loss=loss)


def planned_noise(
    settings: TopDownSettings, schema: Schema, geography: Geography
) -> dict[tuple[str, str], PlannedNoise]:
    """The noise of each measured (level, query)."""
    shares = settings.unit_shares(geography)
    units = {level: geography.size(level) for level in geography.levels}
    classes = {}
    if shares is not None:
        for level in geography.levels:
            classes[level], own = shares.classes(level)
            if not own.any():  # only children: nothing is drawn, so that no count stands alone
                units[level] = max(units[level], 2)
    return planned_at(
        settings, schema, settings.allocation(geography), units=units, classes=classes
    )


def planned_at(
    settings: TopDownSettings,
    schema: Schema,
    allocation: Allocation,
    *,
    units: Mapping[str, int],
    classes: Mapping[str, tuple[Fraction, ...]],
) -> dict[tuple[str, str], PlannedNoise]:
    """The noise of each measured (level, query) at some levels.

    where
        units     how many units each of these levels has
        classes   the shares that units of a level can have, where these differ
    """
    if settings.loss is not None:
        refuse_housemates(schema, settings.neighbours, name="topdown")
    losses = allocation.losses(settings.loss) if settings.loss is not None else {}
    planned = {}
    for level, query in allocation.measured:
        if level not in units:
            continue
        cells = int(schema.possible.sum())
        if query != CELLS:
            cells = settings.query(query).size(schema)
        try:
            noise = noise_of(
                losses.get((level, query)),
                entries=units[level] * cells,
                steps=settings.steps_of(query, schema),
                largest_household=settings.largest_household,
            )
            own = _classes(settings, allocation, classes.get(level), schema, level, query, noise)
        except (PrivacyError, ConfigError) as error:  # nothing moves it, or no sampler draws it
            raise PrivacyError(f"topdown: {query!r} at {level!r}: {error}") from None
        planned[level, query] = replace(noise, classes=own)
    return planned


def _classes(
    settings: TopDownSettings,
    allocation: Allocation,
    shares: tuple[Fraction, ...] | None,
    schema: Schema,
    level: str,
    query: str,
    own: PlannedNoise,
) -> tuple[PlannedNoise | None, ...]:
    """The noise of a query for every share that a unit of the level can have."""
    if shares is None:
        return ()
    part = allocation.share(level=level, query=query) / allocation.level_share(level)
    return tuple(
        None
        if share == 0
        else noise_of(
            None if settings.loss is None else scaled(settings.loss, share * part),
            entries=own.entries,
            steps=settings.steps_of(query, schema),
            largest_household=settings.largest_household,
        )
        for share in shares
    )
