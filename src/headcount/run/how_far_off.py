"""How far off the counts of a release will be: one number, and everybody asks for it here.

It is said for each level and query before anything is spent: the root mean square error (RMSE), and
within how many people 19 of 20 counts are. There are two ways to know it.

    formula   of methods whose errors are sums of noise; of TopDown where cells are well filled
    trials    the real method, run some times on people who are made up of public facts; or on those
              of an older census

Where neither can be had, it cannot be said. No number depends on confidential people. Whether
tables are well filled, and how many a count counts, is read from public facts; a curator may look
into the own data for both, and what follows from that is for the curator alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import exp, isfinite, sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.errors import ConfigError, HeadcountError
from headcount.evaluation.tally import use_of
from headcount.mechanisms import Chain, ChainDesign, ExpectedError, Tabulated
from headcount.release import CountsRelease
from headcount.run.public_facts import SIZES_OFF, Facts
from headcount.schema import Schema
from headcount.tabulate import CELLS, Counts, Query

if TYPE_CHECKING:
    from headcount.release.store import Stored

log = logging.getLogger(__name__)

TRIALS = 16
MOST_TRIED = 1 << 22
"""Counts that are not 0, at all levels together, beyond which the method is not tried."""
ALL_FILLED = 0.99
"""The part of a level's cells that must hold enough people for the formula."""
NINE_OF_TEN = 1.645
"""Standard deviations of a normal law that hold 9 of 10 values."""
HELP = (
    "name public facts under [public]: sizes = the people of each place and table = the whole by "
    "all attributes, or before = an older census"
)

Basis = Literal["formula", "trials", "if filled", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Off:
    """How far off the counts of a query at a level will be.

    where
        answers   how many such counts a unit has
        size      how many people such a count has on average; None if that is not known
        rmse      root mean square error, in people; None where it cannot be said
        low, high   the interval that should hold it in 9 of 10 cases
        within    19 of 20 counts are no further from the truth
        basis     how it is known; "if filled": by the formula, if tables are well filled
        withheld  the part of these counts that is not published
        share     the part of counts within so many people; None where nothing tells it
    """

    level: str
    query: str
    answers: int
    size: float | None = None
    rmse: float | None = None
    low: float | None = None
    high: float | None = None
    within: float | None = None
    basis: Basis = "unknown"
    withheld: float = 0.0
    share: Callable[[float], float] | None = field(default=None, repr=False, compare=False)

    @property
    def counts(self) -> str:
        """What is counted."""
        return "every cell" if self.query == CELLS else self.query

    @property
    def sure(self) -> bool:
        """Whether it can be said without a condition."""
        return self.basis in ("formula", "trials")

    @property
    def use(self) -> str:
        """Whether a single count of this kind says anything, by its error beside its size.

        Where nearly all counts are empty, 19 of 20 are right for that: then twice the RMSE tells.
        """
        if self.within is None or self.size is None or self.rmse is None or not self.sure:
            return "cannot be said"
        part = max(self.within, 2 * self.rmse) / self.size if self.size > 0 else float("inf")
        return use_of(part)

    def sentence(self, counted: str) -> str:
        """The same in words: "block: about 42 people, off by 77: not usable"."""
        what = self.level if self.query == "total" else f"{self.level}, {self.counts}"
        about = "" if self.size is None else f"about {short(self.size)} {counted}, "
        if self.rmse is None:
            return f"{what}: {about}how far off cannot be said"
        said = f"{what}: {about}off by {short(self.rmse)}, 19 of 20 within {short(self.within)}"
        if self.basis == "if filled":
            return f"{said} if tables are well filled"
        return said if self.size is None else f"{said}: {self.use}"

    def to_json(self) -> dict[str, Any]:
        """For programs and receipts; None where it cannot be said."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "share"}


HEADINGS = ("level", "counts by", "counts about", "off by", "within", "alone")


@dataclass(frozen=True)
class HowFarOff:
    """How far off all counts will be.

    where
        rows      levels from the top, the total first
        facts     in words, what of the people it was made of; "" if nothing is known of them
        counted   what counts are of
        own       whether sizes, and what is well filled, were read from the confidential data
        filled    people that cells of each level must hold for the formula
        why       why it could not be tried, if so
        runs      how many trial releases there were
    """

    rows: tuple[Off, ...]
    facts: str
    counted: str
    own: bool = False
    filled: Mapping[str, float] = field(default_factory=dict)
    why: str = ""
    runs: int = TRIALS

    def __getitem__(self, at: tuple[str, str]) -> Off:
        """Of a level and a query."""
        found = [one for one in self.rows if (one.level, one.query) == at]
        if not found:
            known = sorted({f"{one.level}.{one.query}" for one in self.rows})
            raise ConfigError("plan", found=".".join(at), expected=f"one of {', '.join(known)}")
        return found[0]

    def table(self) -> list[tuple[str, ...]]:
        """Its rows as text, under HEADINGS."""
        return [
            (
                one.level,
                one.counts,
                short(one.size),
                short(one.rmse),
                short(one.within),
                one.use if one.basis != "if filled" else "if well filled",
            )
            for one in self.rows
        ]

    def to_json(self) -> dict[str, Any]:
        """For programs and receipts."""
        return {
            "rows": [one.to_json() for one in self.rows],
            "filled": dict(self.filled),
            "facts": self.facts,
            "counted": self.counted,
            "in_words": self.words(),
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> HowFarOff:
        """As a receipt has it."""
        rows = tuple(Off(**one) for one in said["rows"])
        return cls(rows, said["facts"], said["counted"], filled=said["filled"])

    @property
    def finest_total(self) -> Off | None:
        """The total of the smallest places of which something is known."""
        known = [one for one in self.rows if one.query == "total" and one.rmse is not None]
        return known[-1] if known else None

    def words(self) -> tuple[str, ...]:
        """What the numbers are, and what would help where there is none."""
        bases = {one.basis for one in self.rows}
        said = []
        if bases & {"formula", "trials", "if filled"}:
            said.append(
                '"off by" is the root mean square error of a published count; 19 of 20 counts are '
                '"within" the other number.'
            )
        if "formula" in bases:
            known = f", and well-filled tables ({self.facts or 'your data'})" if self.filled else ""
            said.append(f"By formula, from the settings of the noise{known}.")
        if "trials" in bases:
            said.append(f"Tried: predicted by {self.runs} trial releases on {self.facts}.")
        if "if filled" in bases:
            least = ", ".join(f"{level} {short(n)}" for level, n in self.filled.items())
            said.append(
                "True of tables that are well filled alone, with at least so many people in nearly "
                f"every cell: {least}. Of others it cannot be said from the settings: {HELP}."
            )
        if "unknown" in bases:
            why = f" ({self.why})" if self.why else ""
            said.append(f"It cannot be said of all counts{why}: {HELP}.")
        if self.own:
            said.append("How many people a count has was read from your data: for you alone.")
        return tuple(said)


def how_far_off(
    design: ChainDesign,
    facts: Facts | None = None,
    *,
    own: Counts | None = None,
    runs: int = TRIALS,
    seed: int = 0,
    by_formula: bool = True,
) -> HowFarOff:
    """How far off the counts of a release will be.

    where
        facts   public ones; None without
        own     the confidential counts, for the curator alone: they say how many people a count
                has, and whether tables are well filled. No error is computed from them
    """
    known_errors = design.expected_errors() if by_formula else ()
    formula = {(one.level, one.query): one for one in known_errors}
    counts = facts.data[0].counts if facts else own
    levels = design.domain.geography.levels
    filled = {one.level: one.filled for one in formula.values() if one.filled}
    enough = _filled(counts, levels, filled) if counts is not None else set()
    sure = all(one.level in enough or not one.filled for one in formula.values()) and formula
    tried: Mapping[tuple[str, str], _Tried] = {}
    why = ""
    if facts is not None and not sure:
        tried, why = _tried(design, facts, runs, seed)
    rows = []
    for level in levels:
        for query in design.last.asked:
            answers = len(_possible_groups(query, design.domain.schema))
            size = None if counts is None else _size(counts, level, answers)
            row = Off(level=level, query=query.name, answers=answers, size=size)
            one = formula.get((level, query.name))
            known = one is not None and isfinite(one.rmse + one.filled)
            if known and one is not None and (level in enough or not one.filled):
                row = _by_formula(row, one, "formula")
            elif facts is not None and (level, query.name) in tried:
                row = tried[level, query.name].row(row, facts)
            elif known and one is not None and counts is None:
                row = _by_formula(row, one, "if filled")
            rows.append(row)
    words = facts.words if facts else ""
    filled = {level: least for level, least in filled.items() if isfinite(least)}
    return HowFarOff(
        tuple(rows), words, str(design.domain.counted), own is counts is not None, filled, why, runs
    )


def _by_formula(row: Off, one: ExpectedError, basis: Basis) -> Off:
    return replace(
        row,
        rmse=one.rmse,
        low=one.rmse,
        high=one.rmse,
        within=one.within(),
        basis=basis,
        share=one.share,
    )


def _filled(counts: Counts, levels: Sequence[str], least: Mapping[str, float]) -> set[str]:
    """The levels that are well filled, and all above them."""
    found, cells = set(), int(counts.schema.possible.sum())
    for level in levels:
        at = counts.at(level)
        many = int((at.matrix.data >= least.get(level, 0.0)).sum())
        if many < ALL_FILLED * cells * at.geography.size(level):
            break
        found.add(level)
    return found


def _possible_groups(query: Query, schema: Schema) -> Ints:
    """The groups of a query that anybody can be in."""
    return np.unique(query.groups(schema)[schema.possible])


def _size(counts: Counts, level: str, answers: int) -> float:
    """How many people one of so many counts of a unit has, on average."""
    people = float(counts.totals().sum()) * float(counts.weight)
    return people / (counts.geography.size(level) * answers)


@dataclass(frozen=True, eq=False)
class _Tried:
    """Errors of a query at a level in all trials.

    where
        squares   the mean square of each trial
        sizes     of errors, ascending, with how often each was there
        withheld  the part of counts that were not published
    """

    squares: Floats
    sizes: Floats
    times: Floats
    withheld: float

    def share(self, people: float) -> float:
        """The part of counts that are no further from the truth."""
        return float(self.times[self.sizes <= people + 1e-9].sum() / self.times.sum())

    def row(self, row: Off, facts: Facts) -> Off:
        """What the trials say."""
        mean = float(self.squares.mean())
        rmse = sqrt(mean)
        chance = float(self.squares.std(ddof=1)) / sqrt(len(self.squares)) if mean else 0.0
        apart = sqrt((chance / (2 * mean or 1.0)) ** 2 + facts.spread**2)
        below = np.cumsum(self.times) / self.times.sum()
        return replace(
            row,
            rmse=rmse,
            low=rmse * exp(-NINE_OF_TEN * apart),
            high=rmse * exp(NINE_OF_TEN * apart),
            within=float(self.sizes[np.searchsorted(below, 0.95 - 1e-12)]),
            basis="trials",
            withheld=self.withheld,
            share=self.share,
        )


def _tried(
    design: ChainDesign, facts: Facts, runs: int, seed: int
) -> tuple[Mapping[tuple[str, str], _Tried], str]:
    """The errors of trial releases; or none, and why."""
    chain = design.chain.for_a_trial()
    key = (chain.words, runs, seed)
    if key not in facts.trials:
        levels = facts.people[0].geography.levels
        if sum(facts.data[0].counts.at(level).matrix.nnz for level in levels) > MOST_TRIED:
            return {}, "there are too many counts to try it"
        try:
            facts.trials[key] = _errors(chain, facts, runs, seed)
        except HeadcountError as error:
            return {}, f"it does not fit {facts.words}: {error}"
    return facts.trials[key], ""


def _errors(chain: Chain, facts: Facts, runs: int, seed: int) -> dict[tuple[str, str], _Tried]:
    """Errors by level and query: each stand-in is protected so often in turn."""
    squares: dict[tuple[str, str], list[float]] = {}
    errors: dict[tuple[str, str], dict[float, int]] = {}
    gone: dict[tuple[str, str], list[float]] = {}
    each = max(1, runs // len(facts.data))
    for number, data in enumerate(facts.data):
        for at, pairs in _releases(chain, data, each, seed + number):
            found = np.abs(pairs.residuals().astype(float))
            if not pairs.n:
                continue
            sizes, times = np.unique(np.round(found, 9), return_counts=True)
            squares.setdefault(at, []).append(float(np.square(found).sum()) / pairs.n)
            known = errors.setdefault(at, {})
            for size, many in zip(sizes.tolist(), times.tolist(), strict=True):
                known[size] = known.get(size, 0) + many
            known[0.0] = known.get(0.0, 0) + pairs.empty
            gone.setdefault(at, []).append(len(pairs.missing) / (pairs.n + len(pairs.missing)))
    return {
        at: _Tried(
            np.array(squares[at]),
            np.array(sorted(known)),
            np.array([known[size] for size in sorted(known)], dtype=float),
            float(np.mean(gone[at])),
        )
        for at, known in errors.items()
    }


def _releases(
    chain: Chain, data: Tabulated, runs: int, seed: int
) -> Iterator[tuple[tuple[str, str], Any]]:
    """Exact beside released counts, for each release, level and query."""
    from headcount.evaluation.answers import answers_to
    from headcount.mechanisms import mechanism_digest, protect_runs
    from headcount.noise import KeyedNoise, RunKey

    cut = chain.cut(data)
    asked = chain.on(cut.counts.domain).last.asked
    noise = KeyedNoise(RunKey.from_seed(seed), chain.name, cut.digest, mechanism_digest(chain))
    for release in protect_runs(cut, chain, noise, runs=range(runs)):
        for level in release.geography.levels:
            for query, pairs in answers_to(data.counts, release, level, "all", asked):
                yield (level, query.name), pairs


def of_release(one: Stored) -> HowFarOff | None:
    """How far off the counts of a release are, by what is published of it.

    As its receipt says. Where that depends on whether tables are well filled, the published counts
    tell; and of TopDown they stand for the people on whom it is tried. None of tables.
    """
    from headcount.release.store import RECEIPT
    from headcount.topdown.rerun import released_counts, settings_from_json

    release, receipt = one.release, one.receipt
    if not isinstance(release, CountsRelease):
        return None
    said = receipt.get("how_far_off")
    far = HowFarOff.from_json(said) if said else None
    if "settings" in receipt and (far is None or not all(row.sure for row in far.rows)):
        method = settings_from_json(receipt["settings"], source=RECEIPT)
        try:
            counts = Tabulated.of(released_counts(release, method))
            facts = Facts(
                "the published counts, as if they were true", (counts.population,), SIZES_OFF
            )
            far = how_far_off(Chain.of(method).on(release.domain), facts)
        except HeadcountError as error:  # with bounds or along a spine
            log.info("a release is not tried: %s", error)
    if far is None:
        return None
    geography = release.geography
    whole = float(release.table(geography.levels[0]).sum())
    return replace(
        far,
        rows=tuple(
            replace(row, size=whole / (geography.size(row.level) * row.answers)) for row in far.rows
        ),
    )


def short(number: float | None) -> str:
    """Three digits: more would say more than is known."""
    if number is None:
        return "-"
    return f"{float(f'{number:.3g}'):,.12g}"
