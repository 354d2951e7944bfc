"""Somebody else's columns and codes beside those of a truth: proposed, shown, agreed to, kept.

What is called alike is alike. Else a column is a place if its codes are those of places; values
mean what their words say; and where nothing says what a code means, the counts of both sides do:
of all ways to pair codes with levels the one by which they differ least, if any other is far worse.
All that is not called alike is shown before it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import tomlkit

from headcount.arrays import Floats, Ints
from headcount.config.edit import edited
from headcount.config.load import load_foreign, load_meaning, load_population
from headcount.errors import ConfigError, InputError, Problems
from headcount.files import write_text_atomic
from headcount.init import TakeProposals, draft_of, write_draft
from headcount.init.roles import proposed_roles, span_of
from headcount.init.words import role_words
from headcount.init.write import config_name
from headcount.population import Population
from headcount.population.counts import CountsTable
from headcount.population.suspicious import says_total
from headcount.population.tables import header_of, read_rows
from headcount.release.foreign import read_foreign
from headcount.release.foreign_files import (
    COUNT_NAMES,
    MEANINGS,
    TRAITS,
    alike,
    block_codes,
    is_mdf,
    is_ppmf,
    known_values,
    place_columns,
    plain_codes,
    plain_numbers,
    ppmf_text,
    trait_attribute,
    unit_numbers,
)
from headcount.release.layout import ForeignFiles
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts, Query, tabulate
from headcount.tabulate.codings import codings, find_attribute, years
from headcount.typed import given

BETTER = 1.0
"""How much more a code must be apart in any other pairing, in what it is apart in the best one."""
FEWEST = 10
"""People by which any other pairing must be further off."""
MOST_VALUES = 40
"""Values of a column that are paired by their counts."""
MOST_UNITS = 500
"""Places by which counts are compared: in small ones a release is too far off."""
MOST_SHOWN = 8
ALIKE = 0.4
"""The logarithm by which all people of a release may be more or fewer: about 1.5 times."""
CODES = 0.9
"""The share of a column's codes that must be known places for it to be one of places."""


@dataclass(frozen=True, kw_only=True)
class Matching:
    """How files are to be read beside a truth.

    where
        how    what ``[release]`` will say
        said   in words, with the evidence: for the curator, since counts are evidence
        sure   whether everything is called alike, so that nobody has to be asked
        new    codes of places that the files have within places of the truth
        ages   where ages begin in the files, if those of the truth begin elsewhere
    """

    how: ForeignFiles
    said: tuple[str, ...]
    sure: bool
    new: tuple[str, ...] = ()
    ages: tuple[str, tuple[int, ...]] | None = None


Agree = Callable[[Matching], bool]
"""Shows a matching and says whether somebody agrees to it."""


def matched(truth: Path, files: Sequence[Path], *, out: Path, agree: Agree) -> Path:
    """The config by which the files are read: its table ``[release]`` says what was agreed.

    where
        truth   a config, or a table of people, for which a config is then written into ``out``

    A config that says all that is needed stays as it is.
    """
    if fresh := truth.suffix.lower() != ".toml":
        truth, fresh = _config_for(truth, out)
    found = _proposed(truth, files)
    if fresh and found.ages:
        attribute, starts = found.ages
        _edit(truth, lambda text: _rebin(text, attribute, starts))
        found = _proposed(truth, files)
    if fresh and _added(truth, found.new):
        own = f"  {len(found.new):,} places are taken as places where you have nobody"
        found = _proposed(truth, files)
        found = replace(found, said=(*found.said, own))
    if found.sure:
        return truth
    if not agree(found):
        raise ConfigError(
            str(truth),
            place="release",
            found="another matching of columns and codes than is right",
            expected="a table [release] that says it (docs/config.md, Someone else's release)",
        )
    _edit(truth, lambda text: text.__setitem__("release", _table(given(found.how))))
    return truth


def _config_for(truth: Path, out: Path) -> tuple[Path, bool]:
    """The config of a table of people in ``out``, and whether it was written just now."""
    config = out / config_name(truth)
    if config.exists():
        source = load_population(config)
        if source.data_file is None or source.data_file.resolve() != truth.resolve():
            raise ConfigError(
                str(config), found="a config of another file", expected="--out with another folder"
            )
        return config, False
    made = draft_of([truth], ask=TakeProposals())
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_draft(made, config, keep_account=False)
    return config, True


def _proposed(config: Path, files: Sequence[Path]) -> Matching:
    source = load_population(config)
    people = source.read().meaning(*load_meaning(config), source=str(config))
    named = dict(source.aliases)
    if isinstance(source, CountsTable) and source.cells:
        named |= {
            column: "_".join(levels[one] for one in people.schema.names)
            for column, levels in source.cells.items()
            if set(levels) == set(people.schema.names)
        }
    return propose(files, people, load_foreign(config), named)


def propose(
    files: Sequence[Path], people: Population, how: ForeignFiles, aliases: Mapping[str, str]
) -> Matching:
    """What columns and codes of files are, as far as names, codes and counts tell."""
    found = _Found(people=people, truth=tabulate(people), how=how, aliases=aliases)
    for path in files:
        if is_mdf(path):
            continue
        header = header_of(path, how.format)
        found.said.append(f"{path.name}:")
        (_of_ppmf if is_ppmf(header) else _of_table)(found, path, header)
    made = found.matching()
    release = read_foreign(
        files,
        people.schema,
        people.geography,
        how=made.how,
        aliases=aliases,
        counted=people.domain.counted,
    )
    theirs = release.table(release.geography.levels[0]).sum()
    size = f"{float(theirs):,.0f}, yours {found.truth.totals().sum():,}"
    places = f"{release.geography.size(release.geography.leaf):,} of {release.geography.leaf}"
    total = f"  {people.domain.counted} in the places that you have ({places}): theirs {size}"
    return replace(made, said=(*made.said, total))


@dataclass(kw_only=True)
class _Found:
    """What is found while files are looked at."""

    people: Population
    truth: Counts
    how: ForeignFiles
    aliases: Mapping[str, str]
    columns: dict[str, str] = field(default_factory=dict)
    values: dict[str, dict[str, str]] = field(default_factory=dict)
    leave_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    count: str = ""
    away: bool = False
    said: list[str] = field(default_factory=list)
    asks: bool = False
    new: list[str] = field(default_factory=list)
    ages: tuple[str, tuple[int, ...]] | None = None

    @property
    def schema(self) -> Schema:
        """The truth's, with the roles that names tell where nobody has said them."""
        own = self.people.schema
        told = proposed_roles(tuple((one.name, one.levels) for one in own.attributes))
        fill = {name: role for name, role in told if own.roles.of(name) is None}
        return replace(own, roles=replace(own.roles, **fill))

    def say(self, line: str, *, asks: bool = True) -> None:
        self.said.append(f"  {line}")
        self.asks = self.asks or asks

    def pair(self, column: str, name: str, values: Mapping[str, str], why: str) -> None:
        """A column is an attribute, its values are levels."""
        known = {name: name, **self.aliases, **dict(self.how.columns)}
        if known.get(column) != name:
            self.columns[column] = name
        if values:
            self.values.setdefault(name, {}).update(values)
        self.say(
            f"{column} is {name}{_shown(values)}{why}", asks=bool(values) or column in self.columns
        )

    def without(self, column: str, name: str, why: str) -> None:
        """A column that is not compared: its counts are added up."""
        self.columns[column] = ""
        self.say(f"{column}: {why}; added up over it{f', {name} is not compared' if name else ''}")

    def matching(self) -> Matching:
        """All of it."""
        how = replace(
            self.how,
            count=self.how.count or self.count,
            columns=tuple({**dict(self.how.columns), **self.columns}.items()),
            values={**self.how.values, **self.values},
            leave_out={**self.how.leave_out, **self.leave_out},
            elsewhere="leave" if self.away else self.how.elsewhere,
        )
        return Matching(
            how=how, said=tuple(self.said), sure=not self.asks, new=tuple(self.new), ages=self.ages
        )


def _of_ppmf(found: _Found, path: Path, header: Sequence[str]) -> None:
    """The columns of people of a PPMF, by role; its places are blocks."""
    schema, how, people = found.schema, found.how, found.people
    upper = {name.upper(): name for name in header}
    lines = ppmf_text(path, how, header, people.domain.counted)
    places = place_columns(header)
    for trait, (role, _) in TRAITS.items():
        column = upper.get(trait)
        if column is None or column in dict(how.columns):
            continue
        attribute = trait_attribute(schema, trait)
        if attribute is None:
            found.say(f"{column}: nothing of yours is called like it; added up", asks=False)
            continue
        name = attribute.name
        try:
            known_values(people.schema, name, column, how, str(path))
        except InputError:
            pass
        else:
            if trait_attribute(people.schema, trait) == attribute:
                found.say(f"{column} is {name}: {MEANINGS[trait]}", asks=False)
                continue
        try:
            numbers = known_values(schema, name, column, how, str(path))
            words = {value: attribute.levels[number] for value, number in numbers.items()}
            found.pair(column, name, words, "")
            continue
        except InputError:
            pass
        counted = alike(path, lines, [*places, column])
        unit = _units(counted.with_columns(block_codes(counted, header, people.geography, "")),
                      people.geography.leaf, found)  # fmt: skip
        coded = plain_numbers(counted[column])
        groups = _groups_of_races(attribute) if role == "race" else [{}]
        tried = [
            _by_counts(found, attribute, coded.replace(dict(one)), unit, counted["n"].to_numpy())
            for one in groups
        ]
        best = next((one for one in tried if one is not None), None)
        group = groups[tried.index(best)]
        if best is None and (group := groups[0]) and _numbered(attribute):
            # Nothing but their order speaks for it: the first six are one race each everywhere.
            best = (
                dict(zip(dict.fromkeys(group.values()), attribute.levels, strict=True)),
                (" (in their order: 1 to 6 are one race each, and the last is two or more)"),
            )
        if best is None:
            if role == "age":
                found.ages = (name, (0, 18) if trait == "VOTING_AGE" else tuple(range(116)))
            why = f"its {MEANINGS[trait]} and your {_list(attribute.levels)} do not go together"
            found.without(column, name, why)
            continue
        values = {code: best[0][label] for code, label in group.items()} or best[0]
        found.pair(column, name, values, best[1])
    counted = alike(path, lines, list(places))
    codes = block_codes(counted, header, people.geography, str(path))
    _places(found, codes, people.geography.leaf, counted["n"].to_numpy())


def _groups_of_races(attribute: Attribute) -> list[dict[str, str]]:
    """The 63 codes of races by their groups in shipped tables, for as many levels."""
    layers = [codings()["race", one].layers[0] for one in ("alone", "seven")]
    return [
        {str(code): label for label, atoms in layer for code in atoms}
        for layer in layers
        if len(layer) == len(attribute.levels)
    ] or [{}]


def _numbered(attribute: Attribute) -> bool:
    return attribute.levels == tuple(str(n + 1) for n in range(attribute.size))


def _of_table(found: _Found, path: Path, header: Sequence[str]) -> None:
    """The columns of a table: places, attributes, counts; or one column for each cell."""
    people, how = found.people, found.how
    schema, geography = people.schema, people.geography
    named = {**found.aliases, **dict(how.columns)}
    ours = {column: named.get(column, column) for column in header}
    known = {*geography.levels, *schema.names, *schema.cell_names}
    taken = {ours[column] for column in header if ours[column] in known}
    free = [one for one in header if ours[one] not in known and one not in dict(how.columns)]
    plain = {_plain(one): one for one in (*known, *named) if _plain(one)}
    for column in list(free):
        target = plain.get(_plain(column), "")
        target = named.get(target, target)
        if target in known and target not in taken:
            found.columns[column] = ours[column] = target
            taken.add(target)
            free.remove(column)
    rows = read_rows(path, header, form=how.format)
    frame = rows.frame.with_columns(plain_codes(one) for one in rows.frame)
    level, column = _place_column(found, frame, ours, free)
    found.say(f"{column} is {level}", asks=column in found.columns)
    by = {target: one for one, target in ours.items() if target in schema.names}
    counts = how.count or next(
        (one for one in COUNT_NAMES if one in header and one not in schema.names), ""
    )
    wide = not by and bool({*schema.cell_names} & {*ours.values()})
    if wide:
        cells = [one for one, target in ours.items() if target in schema.cell_names]
        changed = [one for one in cells if one in found.columns]
        found.say(f"{len(cells)} columns are cells{_shown({o: ours[o] for o in changed})}",
                  asks=bool(changed))  # fmt: skip
        _places(found, frame[column], level, np.ones(frame.height))
        return
    mine = [one for one in free if one != counts]
    for name in [one for one in schema.names if one not in by]:
        if attribute_column := _attribute_column(found, frame, mine, schema.attribute(name)):
            by[name] = attribute_column
            mine.remove(attribute_column)
    for one in (*by.values(), column):
        target = ours.get(one, one)
        values = frame[one].drop_nulls().unique(maintain_order=True)
        totals = tuple(v for v in values if says_total(v) and not _is_own(found, v, target))
        if totals:
            found.leave_out[one] = totals
            found.say(f"{one}: rows of totals are left aside ({_list(totals)})")
            frame = frame.filter(~pl.col(one).is_in(totals))
    if not counts:
        counts = _count_column(found, frame, mine, path)
    n = np.ones(frame.height)
    if counts:
        found.say(f"{counts} counts {people.domain.counted}", asks=bool(found.count))
        n = rows.form.plain(frame[counts]).cast(pl.Float64, strict=False).fill_null(0).to_numpy()
        places = [one for one, target in ours.items() if target in geography.levels]
        if frame.select(*places, *by.values()).is_duplicated().any():
            for one in mine:
                if one not in (counts, *places):
                    found.without(one, "", "nothing of yours is like it")
    unit = _units(frame.rename({column: level}) if column != level else frame, level, found)
    for name in [one for one in schema.names if one in by]:
        _values(found, by[name], frame[by[name]], schema.attribute(name), unit, n)
    _places(found, frame[column], level, n)


def _is_own(found: _Found, value: str, target: str) -> bool:
    """Whether a word for a total is a level, or a place, of the truth."""
    schema, geography = found.people.schema, found.people.geography
    if target in schema.names:
        return value in schema.attribute(target).levels
    return target in geography.levels and value in geography.units[geography.depth(target)]


def _place_column(
    found: _Found, frame: pl.DataFrame, ours: dict[str, str], free: list[str]
) -> tuple[str, str]:
    """The lowest level that a column has, by its name or by its codes."""
    geography = found.people.geography
    for level in geography.levels[:0:-1]:
        if column := next((one for one, target in ours.items() if target == level), ""):
            return level, column
        known = pl.Series(geography.units[geography.depth(level)].tolist())
        width = len(known[0])
        shares = []
        for column in free:
            values = frame[column].drop_nulls().unique()
            zeros = values.str.zfill(width) if known.str.len_chars().n_unique() == 1 else values
            both = (one.is_in(known.implode()).mean() or 0.0 for one in (values, zeros))
            shares.append((max(float(one) for one in both), column))  # type: ignore[arg-type]
        share, column = max(shares, default=(0.0, ""))
        if share >= CODES and not (len(known) < 2 and len(geography.levels) > 2):
            free.remove(column)
            found.columns[column] = ours[column] = level
            return level, column
    leaf = geography.leaf
    raise InputError(
        "release",
        found=f"no column with codes of places among {_list(frame.columns)}",
        expected=f"one with codes such as {geography.units[-1][0]!r} of {leaf!r} "
        f"([release] columns = {{ NAME = {leaf!r} }} says which it is)",
    )


def _attribute_column(
    found: _Found, frame: pl.DataFrame, free: Sequence[str], attribute: Attribute
) -> str:
    """The one column that is an attribute by the meaning of its name or of its values; or none."""
    fits = []
    role = next((r for r, one in found.schema.roles if one.attribute == attribute.name), "")
    for column in free:
        values = _distinct(frame[column])
        if not 1 < len(values) <= 130:
            continue
        words = set(re.split(r"[\W_\d]+", column.casefold()))
        called = bool(role) and bool(words & set(role_words(role)))
        numbers = all(value.isdigit() for value in values)  # anything can be a number
        meant = {} if numbers else _by_words(found, attribute, values)
        if called or (meant and len(set(meant.values())) > 1):
            fits.append((called + bool(meant), column))
    fits.sort(reverse=True)
    if fits and (len(fits) == 1 or fits[0][0] > fits[1][0]):
        found.columns[fits[0][1]] = attribute.name
        return fits[0][1]
    if len(fits) > 1:
        found.say(f"{attribute.name}: {_list([one for _, one in fits])} are alike; not compared")
    return ""


def _count_column(found: _Found, frame: pl.DataFrame, free: Sequence[str], path: Path) -> str:
    """The column of numbers that adds up to as many as the truth has; none if rows are as many."""
    wanted = max(float(found.truth.totals().sum()), 1.0)
    sums = {"": float(frame.height)}
    for one in free:
        numbers = frame[one].str.replace_all(",", "").cast(pl.Float64, strict=False)
        if numbers.null_count() == frame[one].null_count() and numbers.sum() > 0:
            sums[one] = float(numbers.sum())
    near = {one: abs(np.log(total / wanted)) for one, total in sums.items()}
    fits = [one for one in near if near[one] < ALIKE]
    if len(fits) != 1:
        raise InputError(
            str(path),
            found=f"columns of numbers {_list([*sums][1:]) or 'none'}, of which "
            f"{_list(fits) if fits else 'none'} could count your {found.people.domain.counted}",
            expected='[release] count = "..." that says which does; [release] columns = '
            '{ NAME = "" } for one that is not to be read',
        )
    found.count = fits[0]
    return found.count


def _values(
    found: _Found, column: str, coded: pl.Series, attribute: Attribute, unit: Ints, n: Floats
) -> None:
    """What the values of a column stand for: by words, else by counts."""
    name = attribute.name
    known = {*attribute.levels, *found.how.values.get(name, {})}
    values = [one for one in _distinct(coded) if not says_total(one) or one in known]
    if set(values) <= known:
        found.pair(column, name, {}, "")
        return
    if meant := _by_words(found, attribute, values):
        found.pair(column, name, meant, "")
        return
    if (best := _by_counts(found, attribute, coded, unit, n)) is not None:
        found.pair(column, name, best[0], best[1])
        return
    spans = sorted((min(span), one) for one in values if (span := years(span_of(one))))
    if len(spans) == len(values) and find_attribute(found.schema, "age") == attribute:
        found.ages = (name, tuple(start for start, _ in spans))
    found.without(column, name, f"its {_list(values)} and your {_list(attribute.levels)} do not "
                  "go together")  # fmt: skip


def _by_words(found: _Found, attribute: Attribute, values: Sequence[str]) -> dict[str, str]:
    """Each value's level by what both words mean; empty unless all are clear."""
    of = {_meaning(level): level for level in attribute.levels}
    role = next((one for one in found.schema.roles if one[1].attribute == attribute.name), None)
    if role is not None:
        of |= {_meaning(role[1].word(level)): level for level in attribute.levels}
    made = {}
    for value in values:
        if value in attribute.levels:
            made[value] = value
        elif (meaning := _meaning(value)) in of:
            made[value] = of[meaning]
        elif role is not None and role[0] == "age" and (span := years(span_of(value))):
            spans = ((level, years(role[1].word(level))) for level in attribute.levels)
            if (level := next((one for one, own in spans if own and span <= own), "")) == "":
                return {}
            made[value] = level
        elif not says_total(value):
            return {}
    return made


def _meaning(word: str) -> object:
    """What a word stands for: a span of years, a sex, or itself in small letters and digits."""
    text = word.strip().casefold()
    if span := years(span_of(text)):
        return span
    sexes = [one for one in ("female", "male") if text in role_words(one)]
    return sexes[0] if sexes else _plain(text)


def _by_counts(
    found: _Found, attribute: Attribute, coded: pl.Series, unit: Ints, n: Floats
) -> tuple[dict[str, str], str] | None:
    """The pairing of codes and levels by which counts differ least, and how much better it is."""
    from scipy.optimize import linear_sum_assignment

    values = [one for one in _distinct(coded) if not says_total(one)]
    if not 1 < len(values) <= min(MOST_VALUES, len(attribute.levels)):
        return None
    truth, geography = found.truth, found.people.geography
    fits = [level for level in geography.levels if geography.size(level) <= MOST_UNITS]
    level = fits[-1]
    own: Any = truth.at(level).matrix @ Query(attribute.name, (attribute.name,)).matrix(
        found.people.schema
    )
    exact = np.asarray(own.toarray(), dtype=np.float64)
    above = geography.ancestors(level).astype(np.int64)
    numbers = coded.replace_strict(values, range(len(values)), default=-1).fill_null(-1).to_numpy()
    there = (numbers >= 0) & (unit >= 0)
    theirs = np.zeros((geography.size(level), len(values)))
    np.add.at(theirs, (above[unit[there]], numbers[there]), n[there])
    cost = np.abs(theirs[:, :, None] - exact[:, None, :]).sum(axis=0)
    rows, columns = linear_sum_assignment(cost)
    best, people = float(cost[rows, columns].sum()), max(float(exact.sum()), 1.0)
    worst = np.inf
    for row, column in zip(rows, columns, strict=True):
        tried = cost.copy()
        tried[row, column] = cost.sum() + 1
        more = float(tried[linear_sum_assignment(tried)].sum()) - best
        if more < max(BETTER * cost[row, column], FEWEST):
            return None
        worst = min(worst, more)
    why = (
        f" (by the counts of each {level}: {_percent(best / people)} apart, any other way at "
        f"least {_percent((best + worst) / people)})"
    )
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return {values[row]: attribute.levels[column] for row, column in pairs}, why


def _units(frame: pl.DataFrame, level: str, found: _Found) -> Ints:
    """The first leaf in each row's unit, as numbers of leaves; -1 elsewhere."""
    geography = found.people.geography
    row = np.arange(frame.height)
    nobody = Problems("release", lambda rows: [str(one) for one in rows])
    unit = unit_numbers(frame, level, geography, nobody, row, "leave")
    first = np.full(geography.size(level) + 1, -1, dtype=np.int64)
    above = geography.ancestors(level).astype(np.int64)
    first[above[::-1]] = np.arange(len(above))[::-1]
    return first[unit]


def _places(found: _Found, codes: pl.Series, level: str, n: Floats) -> None:
    """Places that the truth does not have: left aside, or new ones within places that it has."""
    unit = _units(codes.alias(level).to_frame(), level, found)
    gone = unit < 0
    if not gone.any():
        return
    found.away = True
    geography = found.people.geography
    strange = codes.filter(pl.Series(gone)).drop_nulls().unique(maintain_order=True).to_list()
    within = _parents(geography, level)
    found.new += [one for one in strange if level == geography.leaf and within(one)]
    counted = found.people.domain.counted
    inside = sum(map(within, strange))
    words = f"{len(strange):,} places that you do not have, with {n[gone].sum():,.0f} {counted}"
    lie = f"; {inside:,} of them lie where you have others" if inside else ""
    found.say(f"{words}, are left aside ({_list(strange[:3])}{lie})")


def _parents(geography: Any, level: str) -> Callable[[str], bool]:
    """Whether a code begins with that of a unit one level up."""
    depth = geography.depth(level)
    if depth < 2:
        return lambda code: False
    above = geography.units[depth - 1].tolist()
    own = geography.units[depth].tolist()
    lengths = {len(one) for one in above}
    nested = len(lengths) == 1 and all(one[: len(above[0])] in set(above) for one in own[:100])
    known, width = set(above), len(above[0])
    return lambda code: nested and len(code) == len(own[0]) and code[:width] in known


def _distinct(column: pl.Series) -> list[str]:
    return column.drop_nulls().unique(maintain_order=True).to_list()


def _percent(share: float) -> str:
    return f"{100 * share:,.{0 if share > 0.1 else 1}f} %"


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:MOST_SHOWN]))
    return f"{shown} and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else shown


def _shown(values: Mapping[str, str]) -> str:
    pairs = [f"{value} = {level}" for value, level in values.items()]
    more = f", and {len(pairs) - MOST_SHOWN} more" if len(pairs) > MOST_SHOWN else ""
    return f": {', '.join(pairs[:MOST_SHOWN])}{more}" if pairs else ""


def _edit(config: Path, change: Callable[[Any], None]) -> None:
    text = config.read_text(encoding="utf-8")
    write_text_atomic(config, edited(text, change, source=str(config)))


def _table(said: Mapping[str, Any], *, inline: bool = False) -> Any:
    """A table of a config, those within it in one line each."""
    made: Any = tomlkit.inline_table() if inline else tomlkit.table()
    for key, value in said.items():
        made[key] = _table(value, inline=True) if isinstance(value, Mapping) else value
    return made


def _rebin(text: Any, attribute: str, starts: Sequence[int]) -> None:
    """Ages that were gathered in bins begin where those of the release do."""
    for one in text["population"].get("attribute", []):
        if one["name"] == attribute and "bins" in one:
            one["bins"] = list(starts)


def _added(config: Path, codes: Sequence[str]) -> bool:
    """Places with nobody in truth, added to the list of a config that was written just now."""
    source: Any = load_population(config)
    geography = source.geography
    columns, lengths = geography.columns, getattr(geography, "prefixes", None)
    if not codes or source.units is None:
        return False
    file = Path(source.units)
    known = read_rows(file, columns, form=source.format).frame.select(columns).cast(pl.String)
    if lengths is not None:
        more = pl.DataFrame({columns[0]: list(codes)})
    else:
        widths = [set(known[one].str.len_chars()) for one in columns]
        if any(len(one) != 1 for one in widths):
            return False
        cut = {name: [code[: next(iter(width))] for code in codes]
               for name, width in zip(columns, widths, strict=True)}  # fmt: skip
        more = pl.DataFrame(cut)
        if any(not more[one].is_in(known[one].implode()).all() for one in columns[:-1]):
            return False
    both = pl.concat([known, more])
    write_text_atomic(file, "\ufeff" + both.write_csv(separator=source.format.delimiter or ","))
    return True
