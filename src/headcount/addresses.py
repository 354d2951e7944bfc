"""The words that key noise, and where each has its value today.

Noise is a pure function of a key, and the key comes from words: what a method is called, its
settings one after another, and what is known of people. They were once what ``repr`` shows. A word
that changed would move every seeded release, stop every run that resumes, and refuse every file of
keys: so they stand here, and nothing that a class, a field or its default is called counts.

    a field or a class gets another name   ``of`` at its word; the word stays. A key of configs also
                                           says what it ``was`` (``fields.Marker``)
    a setting is new                       a word at the end, left out ``unless`` it is set
    a method is new                        an entry in METHODS

``tests/golden/words.toml`` has all of it as it was written down. A method of somebody else has no
entry, and is keyed by its ``repr``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from headcount.fields import Pairs

VERSION = 1
"""Of all words. Other ones would stand beside these, and say their version."""

OURS = ("headcount.", "headcount_papers.")
"""Where the modules of our methods are, papers included: classes of others that extend them are
not ours."""

ALWAYS = object()
Form = Callable[[Any], str]
"""How a value is written."""


def plain(value: Any) -> str:
    """Text, whole numbers, flags, fractions and tuples of them, as Python writes them."""
    if isinstance(value, Fraction):
        return f"Fraction({value.numerator}, {value.denominator})"
    return listed(map(plain, value)) if isinstance(value, tuple) else repr(value)


def listed(texts: Iterable[str]) -> str:
    """Texts as a tuple is written."""
    parts = tuple(texts)
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def mapped(value: Any) -> str:
    """The same with names and their values as a dictionary is written."""
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{name!r}: {mapped(one)}" for name, one in value) + "}"
    return listed(map(mapped, value)) if isinstance(value, tuple) else plain(value)


def unit(value: Any) -> str:
    """A unit of privacy, by its name in configs."""
    return f"UnitOfPrivacy.{value.value.upper().replace('-', '_')}"


def _file_name(value: Any) -> str:
    """Of a file its name alone: where it lies is no setting."""
    return repr(value.name)


def each(form: Form) -> Form:
    """Every one of some values."""
    return lambda values: listed(map(form, values))


def by_name(form: Form) -> Form:
    """Names with their values."""
    return lambda pairs: listed(listed((repr(name), form(one))) for name, one in pairs)


def either(**forms: Form) -> Form:
    """The form of the first attribute that the value has."""
    return lambda value: next(f for name, f in forms.items() if hasattr(value, name))(value)


@dataclass(frozen=True)
class Word:
    """One word, with its value.

    where
        word     as it is written, for ever
        form     how its value is written; None is always written as such
        of       the attribute that has the value today; that of the word's own name if empty
        unless   the value with which the word is left out
    """

    word: str
    form: Form = plain
    of: str = ""
    unless: Any = ALWAYS


def unless(form: Form = plain, /, **values: Any) -> tuple[Word, ...]:
    """Words of one form, each left out with the value that stands here."""
    return tuple(Word(word, form, unless=value) for word, value in values.items())


class _Phrase:
    """What something is called, and its words in their order; a form of its own."""

    def __init__(self, name: str, *words: Word | str) -> None:
        self.name = name
        self.words = tuple(Word(one) if isinstance(one, str) else one for one in words)

    def __call__(self, value: Any) -> str:
        """The words with the values that they have in ``value``."""
        found = ((one, getattr(value, one.of or one.word)) for one in self.words)
        said = (
            f"{one.word}={'None' if given is None else one.form(given)}"
            for one, given in found
            if given != one.unless
        )
        return f"{self.name}({', '.join(said)})"


# --- what is counted

ATTRIBUTE = _Phrase("Attribute", "name", "levels")
SCHEMA = _Phrase("Schema", Word("attributes", each(ATTRIBUTE)), "structural_zeros")

# --- parts of settings

UNIT = Word("unit", unit)
HOUSEHOLDS = unless(count_housemates=False, largest_household=None)
EPSILON = (Word("epsilon"), UNIT, *HOUSEHOLDS)
LOSS = either(rho=_Phrase("ZCDPLoss", "rho", UNIT), epsilon=_Phrase("PureLoss", "epsilon", UNIT))

GROUPING = _Phrase("Grouping", "name", "of", "groups")
QUERY = either(
    groupings=_Phrase("RecodedQuery", "name", "by", Word("groupings", each(GROUPING))),
    name=_Phrase("Query", "name", "by"),
)
INVARIANTS = each(_Phrase("Invariant", "query", "level"))
BOUNDS = each(
    either(
        caps=_Phrase(
            "QuartersBounds",
            *("query", "caps", "total_level", "unions"),
            *unless(floors=(), vacant=False, tighter=False, part_totals=False),
        ),
        file=_Phrase("TableBounds", "query", "level", Word("file", _file_name), "public", "sha256"),
    )
)
PASSES = by_name(_Phrase("LevelPasses", "fit", "within", "round", "nested"))
TREE = (*unless(PASSES, passes=()), *unless(spine=False, bypass=""))

OWN_TABLES = unless(mapped, groups=(), bins=(), prefixes=(), lowest_of=())
CHANGED_TABLES = (*unless(mapped, tables="auto", lowest=""), *OWN_TABLES, *unless(keys=None))
PERTURBATION = _Phrase("PerturbationFile", Word("file", _file_name), "sha256")
LIMITS = _Phrase("PerturbationLimits", "largest", "variance", "blocked", "stay", "monotone")
"""Of a perturbation table, in the words of a file of keys."""

STEP = _Phrase("Step", "at", *unless(base=1, value=None))
STEPS = (*unless(each(STEP), steps=()), *unless(halves="up"))
COARSENED = _Phrase(
    "CoarsenedTable",
    *("by", "at"),
    *unless(mapped, joined=(), bins=()),
    Word(
        "show",
        _Phrase("Show", "base", *unless(each(STEP), steps=()), *unless(halves="up", below=0)),
    ),
)
AUDIT = _Phrase("AuditLimits", "known", "secret", "proven", "non_majority", "insiders")

SWAPPED_PERSONS = ("level", "rate", "kind", "k", "area", "keep", "order", "unique_by")

# --- methods

METHODS = {
    "identity": _Phrase("Identity"),
    "geometric": _Phrase("Geometric", *EPSILON),
    "averaged": _Phrase("Averaged", *EPSILON, *unless(parts=4)),
    "raked": _Phrase("Raked", *EPSILON),
    "histogram": _Phrase("Histogram", *EPSILON, *unless(clip="query")),
    "sampling": _Phrase("Sampling", "fraction", *unless(exact=False)),
    "swapping": _Phrase(
        "HouseholdSwapping",
        *("rate", "key", "within", "between", "nearest"),
        Word("risk", _Phrase("Risk", "attributes", "levels", "k")),
        "rate_is_floor",
        Word("size_noise", _Phrase("SizeNoise", "minus", "plus")),
        Word("pseudo", _Phrase("PseudoUnits", "level", "permute")),
    ),
    "targeted-swapping": _Phrase(
        "TargetedSwapping",
        *("rate", "risk_variables", "hierarchy", "similar", "k", "carry_along", "within"),
    ),
    "person-swapping": _Phrase("PersonSwapping", *SWAPPED_PERSONS, "alike"),
    "suppression": _Phrase(
        "Suppression",
        *("rule", Word("tables", mapped), "by_cell"),
        Word("thresholds", _Phrase("Thresholds", "cell", "group", "persons", "homes")),
        *("lowest", "width", "effort", "keep_totals", "whole", "audit"),
        *OWN_TABLES,
        *unless(cost="balanced"),
        *unless(_Phrase("CostFile", Word("file", _file_name)), costs=None),
        *unless(mapped, publish=()),
    ),
    "coarsening": _Phrase(
        "Coarsening",
        "ladder",
        Word("tables", by_name(COARSENED)),
        *unless(totals=""),
        *unless(_Phrase("PublicSizes", Word("file", _file_name), "sha256"), sizes=None),
        *unless(AUDIT, audit=None),
    ),
    "cell-key": _Phrase(
        "CellKey",
        *CHANGED_TABLES,
        *unless(maximum=3, variance=1, blocked=0, stay=None, monotone=True, rule="entropy"),
        *unless(PERTURBATION, ptable=None),
        *unless(columns=0, below=0, zeros="stay", exact_total=False, disclose=False),
    ),
    "rounding": _Phrase(
        "Rounding",
        *CHANGED_TABLES,
        *unless(base=3, how="random", small_only=False, below=0, withhold_zeros=True, areas=0),
        *unless(largest=None, optimal=False),
        *STEPS,
    ),
    "topdown": _Phrase(
        "TopDown",
        *unless(epsilon=None, rho=None),
        UNIT,
        *HOUSEHOLDS,
        *unless(levels="equal"),
        *unless(by_name(_Phrase("Marginal", "by", "share")), queries=()),
        *unless(by_name(_Phrase("Grouped", "of", "groups")), recodes=()),
        *unless(level_queries=()),
        *unless(INVARIANTS, invariant=()),
        *unless(BOUNDS, bounds=()),
        *TREE,
        *unless(pool=False, pool_from="", failsafe_over=(), report_epsilon=0),
        *unless(nurse_nva_0=False, shares="even"),
    ),
}
"""Every method of ours by its name in configs: as a step of a chain, and wherever all settings
count."""

ALONE = METHODS | {
    "person-swapping": _Phrase("PersonSwapping", *SWAPPED_PERSONS, *unless(alike=())),
    # What is made of answers, and not how they are drawn, is left out: pooling.
    "topdown": _Phrase(
        "TopDown",
        Word("loss", LOSS),
        *("query_shares", "level_shares", "level_queries"),
        Word("queries", each(QUERY), of="marginals"),
        Word("invariants", INVARIANTS, of="invariant"),
        Word("bounds", BOUNDS),
        *("failsafe_over", "report_epsilon", "structural_zeros"),
        *HOUSEHOLDS,
        *TREE,
        *unless(shares="even"),
    ),
}
"""The same where a method is the only step; two of them say something else then."""


def step_words(method: Any) -> str:
    """The words of a method as a step of a chain: all its settings."""
    return _of(METHODS, method)


def method_words(method: Any) -> str:
    """The words of a method that is the only step."""
    return _of(ALONE, method)


def chain_words(steps: Iterable[Any], last: Any) -> str:
    """The words of several steps."""
    return f"Chain({listed(map(step_words, steps))}, {step_words(last)})"


def _of(known: dict[str, _Phrase], method: Any) -> str:
    is_ours = f"{type(method).__module__}.".startswith(OURS)
    phrase = known.get(method.name) if is_ours else None
    return repr(method) if phrase is None else phrase(method)
