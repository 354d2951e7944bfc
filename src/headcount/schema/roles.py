"""What attributes mean: which is age, sex, race, origin or household, and what an attacker knows.

Names of attributes are a user's own, and so are codes. A role says which attribute is meant, and
for codes the words that shipped tables know: "65 u. m." is "65+", "1" is "male". Roles belong to a
schema and change no count: two schemas that differ in roles alone are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from headcount.errors import ConfigError, did_you_mean, one_of
from headcount.fields import Pairs, ReadValue

NO_CODES: Pairs[str] = Pairs()


@dataclass(frozen=True)
class Role:
    """The attribute that plays a role, and for its levels the words that shipped tables know."""

    attribute: str
    codes: Pairs[str] = NO_CODES

    def word(self, level: str) -> str:
        """What a level means; its own name where no code says more."""
        return dict(self.codes).get(level, level)


@dataclass(frozen=True, kw_only=True)
class _RoleField(ReadValue):
    """The name of an attribute, or a table with it and the meaning of its codes."""

    def read(self, value: object) -> Role | None:
        """The same, or a ValueError that says what was expected."""
        if value is None or isinstance(value, Role):
            return value
        if isinstance(value, str):
            return Role(value)
        if isinstance(value, Mapping) and isinstance(value.get("attribute"), str):
            codes, known = value.get("codes", {}), {"attribute", "codes"}
            plain = isinstance(codes, Mapping) and all(isinstance(v, str) for v in codes.values())
            if plain and not set(value) - known:
                return Role(value["attribute"], Pairs.of(codes))
        raise ValueError('"ATTRIBUTE", or { attribute = "ATTRIBUTE", codes = { LEVEL = "WORD" } }')

    def json(self) -> dict[str, Any]:
        """A name, or a table."""
        texts = {"type": "object", "additionalProperties": {"type": "string"}}
        table = {
            "type": "object",
            "properties": {"attribute": {"type": "string"}, "codes": texts},
            "required": ["attribute"],
            "additionalProperties": False,
        }
        return {"anyOf": [{"type": "string"}, table]}


RoleValue = Annotated[Role | None, _RoleField()]


@dataclass(frozen=True, kw_only=True)
class Roles:
    """``[roles]``: which attribute is which, by its name, or with what its codes mean.

    where
        age         years, or spans of years: codes such as { "65 u. m." = "65+" }
        sex         codes such as { "1" = "male", "2" = "female" }
        race        codes are those of shipped tables: white, black, ...
        origin      Hispanic origin or any other
        household   the number of people who live together
    """

    age: RoleValue = None
    sex: RoleValue = None
    race: RoleValue = None
    origin: RoleValue = None
    household: RoleValue = None

    def __iter__(self) -> Iterator[tuple[str, Role]]:
        for one in fields(self):
            if (role := getattr(self, one.name)) is not None:
                yield one.name, role

    def of(self, role: str) -> Role | None:
        """The role, by the name that it has in tables: origin is "hispanic" there."""
        found: Role | None = getattr(self, {"hispanic": "origin"}.get(role, role), None)
        return found


@dataclass(frozen=True, kw_only=True)
class Attacker:
    """``[attacker]``: what somebody may know of named people, and would like to learn.

    where
        knows       attributes that are known of everybody, beside where they live; by default sex
                    and age, as far as roles say which these are
        sensitive   attributes that are to be learnt; by default race and origin
    """

    knows: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()


NO_ROLES, ANYBODY = Roles(), Attacker()


def refuse_roles(
    levels: Mapping[str, tuple[str, ...]], roles: Roles, attacker: Attacker, *, source: str
) -> None:
    """Refuse roles and attackers that name attributes or levels that are not there.

    ``levels`` are those of each attribute of a schema.
    """

    def refuse(place: str, found: str, expected: str) -> None:
        raise ConfigError(source, place=place, found=found, expected=expected)

    for name, role in roles:
        if role.attribute not in levels:
            expected = did_you_mean(role.attribute, levels)
            refuse(f"roles.{name}", f"attribute {role.attribute!r}", expected)
        for level, _ in role.codes:
            if level not in levels[role.attribute]:
                refuse(f"roles.{name}.codes", repr(level), one_of(levels[role.attribute]))
    several = [role.attribute for _, role in roles]
    if twice := [one for one in several if several.count(one) > 1]:
        refuse("roles", f"{twice[0]!r} in two roles", "a role of its own for each attribute")
    for key in ("knows", "sensitive"):
        for one in getattr(attacker, key):
            if one not in levels:
                refuse(f"attacker.{key}", f"attribute {one!r}", did_you_mean(one, levels))
    if both := set(attacker.knows) & set(attacker.sensitive):
        refuse("attacker", f"{min(both)!r} known and sensitive", "what is known, or to be learnt")
