"""Settings of coarsening: wanted tables, how their numbers are shown, limits of the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.errors import ConfigError, did_you_mean, near_name
from headcount.fields import AtLeast0, AtLeast1, FilePath, Named, Rate
from headcount.geography import Geography
from headcount.mechanisms._own_tables import NOTHING, GroupsTable, Keyed, frozen, plain
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.release.changed import Off, Step, Steps
from headcount.schema.schema import BinsField


@dataclass(frozen=True, kw_only=True)
class Show:
    """How numbers of a table are shown; as they are, unless something else is said.

    where
        base     the nearest multiple of it, halves up
        rule     the name of a preset of rounding by steps, such as "us-drb-2019", in its place
        steps    steps of one's own, as of rounding (``Rounding``), with ``halves``
        below    smaller counts are not shown, 0 neither
    """

    base: AtLeast1 = 1
    rule: str = ""
    steps: tuple[Step, ...] = ()
    halves: Literal["up", "even"] = "up"
    below: AtLeast0 = 0

    def __post_init__(self) -> None:
        if self.rule:
            preset = Rounding.from_preset(self.rule)
            if preset.how != "steps":
                found = f"{self.rule!r}, which rounds in another way"
                raise ConfigError("coarsening", place="show.rule", found=found, expected="steps")
            for name in ("steps", "halves", "below"):
                object.__setattr__(self, name, getattr(preset, name))
        object.__setattr__(self, "steps", tuple(self.steps))
        if self.steps and self.base > 1:
            found = f"a base of {self.base}, and steps"
            raise ConfigError("coarsening", place="show", found=found, expected="one of them")
        if self.how is not None:
            assert self.how.spans  # refuses steps that do not rise

    @property
    def how(self) -> Steps | None:
        """How counts are shown; None where as they are."""
        if not (self.steps or self.below or self.base > 1):
            return None
        steps = self.steps or (Step(at=0, base=self.base),)
        return Steps(steps=steps, halves=self.halves, below=self.below)

    @property
    def off(self) -> Off | None:
        """What a value may stand for; None where it is the count."""
        if self.how is None:
            return None
        if self.steps or self.below:
            return Off(steps=self.how, withheld_below=self.below or None)
        half, rest = self.base // 2, self.base - 1
        up = rest - half
        return Off(down=half, up=up, zero_hides=up, multiples_of=self.base)

    @property
    def words(self) -> str:
        """The same for people."""
        if self.how is None:
            return "as they are"
        if not (self.steps or self.below):
            return f"to the nearest multiple of {self.base}"
        small = f"; fewer than {self.below} are not shown" if self.below else ""
        return f"by size ({self.how.words}{small})"


@dataclass(frozen=True, kw_only=True, repr=False)
class CoarsenedTable:
    """One wanted table.

    where
        by       its attributes
        at       a rung of the ladder: least people of an area, or a level; the leaf, or the whole
        joined   for an attribute labels of joined levels; others stay as they are
        bins     the same for years of age, by where bins begin
        show     how numbers are shown
    """

    by: tuple[str, ...]
    at: int | str
    joined: Annotated[Keyed[Keyed[Sequence[str]]], Named(GroupsTable)] = NOTHING
    bins: Annotated[Keyed[Any], Named(Annotated[Any, BinsField()])] = NOTHING
    show: Show = Show()

    def __post_init__(self) -> None:
        for name in ("by", "joined", "bins"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        if isinstance(self.show, Mapping):
            object.__setattr__(self, "show", Show(**self.show))

    def __repr__(self) -> str:
        return said(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class AuditLimits:
    """Against whom a release is audited, and what share of people it may give away.

    where
        known          attributes that an attacker knows of everybody, beside where they live
        secret         attributes that he wants to know, all at once
        proven         at most this share of all people may have a proven secret
        non_majority   the same of those whose secret is not their leaf's most frequent one
        insiders       of all people, whose secret is proven only to somebody of their area and key
    """

    known: tuple[str, ...]
    secret: tuple[str, ...]
    proven: Rate = Fraction(1)
    non_majority: Rate = Fraction(1)
    insiders: Rate = Fraction(1)

    def __post_init__(self) -> None:
        for name in ("known", "secret"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("proven", "non_majority", "insiders"):
            object.__setattr__(self, name, Fraction(getattr(self, name)))

    def __repr__(self) -> str:
        return said(self)


def said(settings: Any) -> str:
    """Settings that are not their defaults, as they are written to make them again."""
    shown = {
        one.name: plain(getattr(settings, one.name))
        for one in fields(settings)
        if getattr(settings, one.name) != one.default
    }
    text = ", ".join(f"{name}={value!r}" for name, value in shown.items())
    return f"{type(settings).__name__}({text})"


@dataclass(frozen=True, kw_only=True)
class PublicSizes:
    """Public numbers of leaves, such as housing units or people of an older census.

    A CSV file with a column of the leaf's name, or ``unit``, and a column ``n``.

    where
        file     where it is, which is no part of the settings: only its name is shown
        sha256   of its content, so that other numbers are another setting; "" to take any
    """

    file: FilePath
    sha256: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "file", Path(self.file))

    def __repr__(self) -> str:
        return f"PublicSizes(file={self.file.name!r}, sha256={self.sha256!r})"

    def bound_to_files(self) -> PublicSizes:
        """The same for the file's present content only."""
        found = sha256(self._content()).hexdigest()
        if self.sha256 and self.sha256 != found:
            expected = f"sha256 {self.sha256}, as configured"
            raise ConfigError(str(self.file), found=f"sha256 {found}", expected=expected)
        return replace(self, sha256=found)

    def _content(self) -> bytes:
        if not self.file.is_file():
            expected = f"a CSV file of public numbers{near_name(self.file)}"
            raise ConfigError(str(self.file), found="no such file", expected=expected)
        return self.file.read_bytes()

    def of(self, geography: Geography) -> Ints:
        """The number of each leaf; 0 where the file has none."""
        source = str(self.bound_to_files().file)
        try:
            frame = pl.read_csv(self._content(), infer_schema=False)
        except pl.exceptions.PolarsError as error:
            found = f"what cannot be read: {str(error).splitlines()[0]}"
            raise ConfigError(source, found=found, expected="a CSV file") from None
        unit = geography.leaf if geography.leaf in frame.columns else "unit"
        for column in (unit, "n"):
            if column not in frame.columns:
                expected = f"columns {geography.leaf!r} (or 'unit') and 'n'"
                raise ConfigError(source, found=f"columns {frame.columns[:12]}", expected=expected)
        numbers = frame["n"].cast(pl.Int64, strict=False)
        if (wrong := (numbers.is_null() | (numbers < 0)).arg_true()).len():
            row = int(wrong[0])
            raise ConfigError(
                source, place=f"line {row + 2}", found=repr(frame["n"][row]), expected="0 or more"
            )
        at = geography.find(geography.leaf, np.array(frame[unit].to_list(), dtype=np.str_))
        if (at < 0).any():
            row = int(np.flatnonzero(at < 0)[0])
            expected = did_you_mean(frame[unit][row], geography.units[-1].tolist(), most=3)
            raise ConfigError(
                source, place=f"line {row + 2}", found=repr(frame[unit][row]), expected=expected
            )
        sizes = np.zeros(geography.size(geography.leaf), dtype=np.int64)
        np.add.at(sizes, at, numbers.to_numpy())
        return sizes
