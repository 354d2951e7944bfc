"""Which attributes are age, sex, race, origin and household, by their names: proposed, not decided.

Codes are proposed where words say what they mean ("65 u. m." is "65+", "weiblich" is "female").
Numbers for sexes are left to whoever knows them.
"""

from __future__ import annotations

import re

from headcount.fields import Pairs
from headcount.init.words import role_words
from headcount.schema.roles import Role, Roles
from headcount.schema.schema import looks_like_size
from headcount.tabulate.codings import OLDEST, years

_ROLES = ("age", "sex", "race", "origin")


def proposed_roles(attributes: tuple[tuple[str, tuple[str, ...]], ...]) -> Roles:
    """The roles of attributes (name and levels), as far as their names tell."""
    found: dict[str, Role] = {}
    for name, levels in attributes:
        words = re.split(r"[\W_\d]+", name.casefold())
        role = next((one for one in _ROLES if set(words) & set(role_words(one))), "")
        if not role and looks_like_size(name):
            role = "household"
        if role == "age" and _spans(levels) is None:
            continue  # a code, or something else that is called like it
        if role and role not in found:
            found[role] = Role(name, Pairs.of(_codes(role, levels)))
    return Roles(**found)


def _codes(role: str, levels: tuple[str, ...]) -> dict[str, str]:
    if role == "age":
        spans = _spans(levels) or {}
        return {level: word for level, word in spans.items() if years(level) is None}
    if role == "sex":
        meant = {
            level: word
            for level in levels
            for word in ("female", "male")
            if level.casefold() in role_words(word)
        }
        if set(meant) == set(levels) and sorted(meant.values()) == ["female", "male"]:
            return {level: word for level, word in meant.items() if level != word}
    return {}


def _spans(levels: tuple[str, ...]) -> dict[str, str] | None:
    """Levels as years or spans of years; None unless all are and no year is in two of them."""
    found, seen = {}, set[int]()
    for level in levels:
        word = span_of(level)
        own = years(word) if word else None
        if own is None or own & seen or max(own) > OLDEST:
            return None
        seen |= own
        found[level] = word
    return found


def span_of(level: str) -> str:
    """ "6 bis 14" as "6-14", "under 6" as "0-5", "75 und mehr" as "75+"; "" if it is neither."""
    text = level.casefold()
    if years(text) is not None:
        return text
    numbers = [int(one) for one in re.findall(r"\d{1,3}", text)]
    words = set(re.split(r"[\W\d_]+", text))
    if len(numbers) == 2 and numbers[0] <= numbers[1]:
        return f"{numbers[0]}-{numbers[1]}"
    if len(numbers) == 1 and numbers[0] and ("<" in text or words & set(role_words("under"))):
        return f"0-{numbers[0] - 1}"
    if len(numbers) == 1 and ("+" in text or words & set(role_words("over"))):
        return f"{numbers[0]}+"
    return str(numbers[0]) if len(numbers) == 1 and words <= {"", *role_words("year")} else ""
