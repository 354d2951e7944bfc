"""What a field of a settings class may hold, written in its type; exact numbers from text.

A frozen dataclass that does the work is also its own config: ``epsilon: Positive`` says to Python
and to mypy that epsilon is a fraction, and to whoever reads a file that it is an exact number above
0. Markers stand in ``Annotated``; plain ``int``, ``str`` and ``bool`` need none, because a whole
number, a text and a flag are never taken for one another.

pydantic is asked for the parts of its schemas only when a file is read, so that a mechanism can be
used without loading it. ``Fraction("1e999999999")`` builds a whole number of a billion digits: what
a number costs is looked at before it is built.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

MOST_DIGITS = 50
"""Digits above and below the fraction bar: ten times what a budget needs, and cheap to add up."""

RECORDED_DIGITS = 4300
"""Digits of a number that headcount itself wrote: those that Python turns into text."""

_EXPONENT = re.compile(r"[eE]\s*([+-]?[\d_]+)")


class TooLong(ValueError):
    """A number with more digits than are read."""

    def __init__(self, digits: int) -> None:
        super().__init__(f"a number of at most {digits:,} digits above and below the fraction bar")


def exact_number(value: int | str | Rational | Decimal, *, digits: int = MOST_DIGITS) -> Fraction:
    """``value`` as a fraction, or a ValueError: :class:`TooLong` if it has too many digits."""
    if isinstance(value, str):
        _refuse_long_text(value, digits)
    elif isinstance(value, Decimal) and value.is_finite():
        _, written, exponent = value.as_tuple()
        if len(written) > digits or abs(int(exponent)) > digits:
            raise TooLong(digits)
    try:
        number = Fraction(value)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError("a finite number") from None
    if not fits(number, digits=digits):
        raise TooLong(digits)
    return number


def fits(number: Fraction, *, digits: int) -> bool:
    """Whether a fraction has at most so many digits above and below its bar."""
    limit: int = 10**digits
    return -limit < number.numerator < limit and number.denominator < limit


def _refuse_long_text(text: str, digits: int) -> None:
    exponent = _EXPONENT.search(text)
    power = exponent[1].replace("_", "").lstrip("+-").lstrip("0") if exponent else ""
    if len(text) > 3 * digits or len(power) > len(str(digits)) or int(power or 0) > digits:
        raise TooLong(digits)


def shown(value: object) -> str:
    """A value for a message: a whole number that Python will not write is named by its size."""
    try:
        return str(value) if isinstance(value, Decimal) else repr(value)
    except ValueError:
        return f"a whole number of more than {sys.get_int_max_str_digits():,} digits"


def in_plain_numbers(settings: str) -> str:
    """Settings as Python writes them, for people: ``Fraction(1, 2)`` is 1/2, members of an
    enumeration are their own names in small letters.
    """
    whole = re.sub(r"Fraction\((-?\d+), 1\)", r"\1", settings)
    parts = re.sub(r"Fraction\((-?\d+), (\d+)\)", r"\1/\2", whole)
    return re.sub(
        r"\b[A-Z][A-Za-z]+\.([A-Z_]+)\b", lambda one: one[1].lower().replace("_", "-"), parts
    )


V = TypeVar("V")

VARIANT = "variant:"
"""Begins the name of a choice between tables, which is no key of anyone's file."""


@dataclass(frozen=True, kw_only=True)
class Marker:
    """What is said of a field beside its type.

    where
        shapes   whether the field shapes a release, and so is part of a config's digest
        stated   whether it is in the digest even where it has its default, so that a default which
                 changes in a later version is another setting
        makes    whether it makes the people of a generated population, or only chooses from them
        secret   whether it may be computed from confidential data, and so is never published
        was      its first name, if it has another now: the one by which digests know it
        hidden   whether it is for presets: it works, but no list of keys offers it
    """

    shapes: bool = True
    stated: bool = False
    makes: bool = True
    secret: bool = False
    was: str = ""
    hidden: bool = False


APART = Marker(shapes=False)
"""For a field that changes nothing about the release."""

STATED = Marker(stated=True)
VIEW = Marker(makes=False)
SECRET = Marker(secret=True)
HIDDEN = Marker(hidden=True)


@dataclass(frozen=True, kw_only=True)
class ReadValue(Marker):
    """A value that ``read`` makes of what stands in a file; ``json`` is what a JSON schema says."""

    def read(self, value: Any) -> Any:
        """The value, or a ValueError that says what was expected."""
        raise NotImplementedError

    def json(self) -> dict[str, Any]:
        """The JSON schema of what can be read."""
        raise NotImplementedError

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return self.json()


@dataclass(frozen=True, kw_only=True)
class _Number(ReadValue):
    """An exact number: decimals of a file are read digit by digit, never as binary floats.

    where
        zero     whether 0 is allowed; nothing below it ever is
        most     the largest
        word     a word that may stand in its place
        says     what was expected, for messages
    """

    zero: bool = False
    most: Fraction | None = None
    word: str = ""
    says: str = "a number above 0"

    def read(self, value: object) -> Fraction | str:
        """The number, or a ValueError that says what was expected."""
        if self.word and value == self.word:
            return self.word
        if isinstance(value, float):  # from Python
            raise ValueError('an exact number above 0: 1, or text such as "0.1" or "1/8"')
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal | Fraction):
            raise ValueError(f'{self.says} such as 1, 0.1 or "1/8"')
        try:
            number = exact_number(value)
        except TooLong:
            raise
        except ValueError:
            raise ValueError(f'a finite number: {self.says} such as 1, 0.1 or "1/8"') from None
        if number < 0 or (number == 0 and not self.zero) or (self.most and number > self.most):
            raise ValueError(self.says)
        return number

    def json(self) -> dict[str, Any]:
        """A number within the bounds, the same as text, or the word."""
        numbers = "minimum" if self.zero else "exclusiveMinimum"
        number: dict[str, Any] = {"type": "number", numbers: 0}
        if self.most is not None:
            number["maximum"] = float(self.most)
        words = [{"const": self.word}] if self.word else []
        return {"anyOf": [number, {"type": "string", "pattern": r"^[0-9]"}, *words]}


Positive = Annotated[Fraction, _Number()]
"""An exact number above 0."""

PositiveOrInf = Annotated[Any, _Number(word="inf")]
"""An exact number above 0, or "inf" for no noise at all."""

NotNegative = Annotated[Fraction, _Number(zero=True, says="a number of 0 or more")]
"""An exact number, 0 or more."""

Share = Annotated[Fraction, _Number(most=Fraction(1), says="a share above 0 and at most 1")]
"""An exact part of a whole."""

Rate = Annotated[
    Fraction,
    _Number(zero=True, most=Fraction(1), says='a share from 0 to 1, such as 0.05 or "1/20"'),
]
"""An exact part of a whole, which may be nothing of it."""


@dataclass(frozen=True, kw_only=True)
class Whole(Marker):
    """A whole number between two others."""

    low: int | None = None
    high: int | None = None

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.int_schema(ge=self.low, le=self.high)


AtLeast0 = Annotated[int, Whole(low=0)]
AtLeast1 = Annotated[int, Whole(low=1)]


@dataclass(frozen=True, kw_only=True)
class File(Marker):
    """A path: relative to the config's own folder, and no part of what shapes a release.

    What the file holds is in the digest of the data.
    """

    shapes: bool = False

    def locate(self, value: Any, folder: Path) -> Any:
        """The same file, found from ``folder``."""
        return folder / value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(_no_nul, handler(source))


def _no_nul(path: Any) -> Any:
    if "\0" in str(path):
        raise ValueError("a path without the character NUL")
    return path


FilePath = Annotated[Path, File()]
"""A path that an operating system can take."""


@dataclass(frozen=True, kw_only=True)
class _FolderPlace(File):
    """A folder, relative to the config's own; an address stays as it is, and is refused later."""

    def locate(self, value: Any, folder: Path) -> Any:
        """The same place, a folder found from ``folder``."""
        return value if "://" in value else str(folder / value)


FolderOrURI = Annotated[str, _FolderPlace()]


class Pairs(tuple[tuple[str, V], ...]):
    """Names with values, in the order given: a table of a file that can be hashed and compared."""

    __slots__ = ()

    @classmethod
    def of(cls, named: Mapping[str, V] | Iterable[tuple[str, V]]) -> Pairs[V]:
        """From a mapping, or from pairs."""
        return cls(named.items() if isinstance(named, Mapping) else named)


@dataclass(frozen=True)
class Named(Marker):
    """A table whose keys are names of the user's: read as ``Pairs``.

    where
        value   the type of its values
        word    a word that may stand in place of the table
    """

    value: Any
    word: str = field(default="", kw_only=True)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        values = handler.generate_schema(self.value)
        table = core_schema.dict_schema(core_schema.str_schema(), values)
        pairs = core_schema.no_info_after_validator_function(Pairs.of, table)
        return core_schema.no_info_wrap_validator_function(self._read, pairs)

    def _read(self, value: Any, handler: Any) -> Any:
        if self.word and value == self.word:
            return self.word
        return handler(dict(value) if isinstance(value, Pairs) else value)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        table = handler(schema)
        return {"anyOf": [{"const": self.word}, table]} if self.word else table


class ByKey(Marker):
    """Tables of several kinds, told apart by which one key they have.

    ``Annotated[CodeColumns | Prefixes, ByKey(columns=CodeColumns, column=Prefixes)]``
    """

    def __init__(self, **kinds: type) -> None:
        super().__init__()
        object.__setattr__(self, "kinds", kinds)

    kinds: Mapping[str, type]
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        choices = {f"{VARIANT}{key}": handler(kind) for key, kind in self.kinds.items()}
        union = core_schema.tagged_union_schema(choices, discriminator=self._kind)
        return core_schema.no_info_wrap_validator_function(self._read, union)

    def _kind(self, value: Any) -> str | None:
        if isinstance(value, Mapping):
            return next((f"{VARIANT}{key}" for key in self.kinds if key in value), None)
        found = (key for key, kind in self.kinds.items() if isinstance(value, kind))
        return next((f"{VARIANT}{key}" for key in found), None)

    def _read(self, value: Any, handler: Any) -> Any:
        from pydantic_core import PydanticCustomError

        if isinstance(value, Mapping) and sum(key in value for key in self.kinds) != 1:
            keys = " or ".join(repr(key) for key in self.kinds)
            raise PydanticCustomError("which_table", f"exactly one of the keys {keys}")
        if not isinstance(value, (Mapping, *self.kinds.values())):
            raise PydanticCustomError("dict_type", "a table")
        return handler(value)
