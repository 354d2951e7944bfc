"""Tables written as TOML are read back as they were."""

from __future__ import annotations

import tomllib

from hypothesis import example, given
from hypothesis import strategies as st

from headcount.toml_files import to_toml

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.booleans() | st.integers(-(2**62), 2**62) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(texts, values, max_size=4))
@example({"\x7f\n'''\"\\\x00": {"": "\x7f\r\n"}})
def test_any_tables_come_back(tables: dict[str, object]):
    assert tomllib.loads(to_toml(tables)) == tables


def test_what_is_none_is_left_out_and_tables_are_written_as_people_write_them():
    tables = {"population": {"kind": "towns", "units": None}, "case": [{"name": "a b"}, {"x": 1}]}
    assert to_toml(tables) == (
        '[population]\nkind = "towns"\n\n[[case]]\nname = "a b"\n\n[[case]]\nx = 1\n'
    )
