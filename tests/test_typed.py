"""Tables become the frozen dataclasses that do the work, and tables again, by their types."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import ConfigError, InputError
from headcount.fields import (
    APART,
    STATED,
    VIEW,
    AtLeast0,
    ByKey,
    FilePath,
    Named,
    Pairs,
    Positive,
    Rate,
    Share,
    Whole,
)
from headcount.typed import from_table, located, making, shaping, to_table


@dataclass(frozen=True)
class Inner:
    word: str
    most: AtLeast0 = 3

    def __post_init__(self) -> None:
        if self.word == "bad":
            raise InputError("inner", place="word", found="'bad'", expected="another")
        if self.word == "worse":
            raise InputError("inner", place="the whole", found="worse", expected="better")


@dataclass(frozen=True)
class OneFile:
    file: FilePath
    content: str = ""

    def bound_to_files(self) -> OneFile:
        return OneFile(self.file, self.file.read_text())


@dataclass(frozen=True, kw_only=True)
class Outer:
    epsilon: Positive
    inner: Inner = field(default_factory=lambda: Inner("x"))
    inners: tuple[Inner, ...] = ()
    shares: Annotated[tuple[tuple[str, Fraction], ...], Named(Share)] = Pairs()
    either: Annotated[Inner | OneFile, ByKey(word=Inner, file=OneFile)] | None = None
    files: tuple[OneFile, ...] = ()
    way: Literal["a", "b"] = "a"
    flag: bool = False
    number: Annotated[int, Whole(low=1, high=9)] = 1
    out: FilePath | None = None
    note: Annotated[str, APART] = ""
    unit: Annotated[str, STATED] = "one"
    view: Annotated[bool, VIEW] = False


def read(**table: Any) -> Outer:
    return from_table(Outer, {"epsilon": 1} | table, source="f.toml", place="outer")


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"eps": 1}, "outer.eps: found an unknown key, expected one of 'epsilon'"),
    "guess": ({"flags": 1}, "(did you mean 'flag'?)"),
    "nested": ({"inner": {"wrd": "x"}}, "outer.inner.wrd: found an unknown key, expected one of"),
    "missing": ({"inner": {}}, "outer.inner.word: found nothing, expected a value for this key"),
    "in a list": (
        {"inners": [{"word": "x"}, {"word": 3}]},
        "outer.inners 2.word: found 3, expected text in quotes",
    ),
    "own refusal": ({"inner": {"word": "bad"}}, "outer.inner.word: found 'bad', expected another"),
    "of the whole": (
        {"inners": [{"word": "worse"}]},
        "outer.inners 1: the whole: found worse, expected better",
    ),
    "of a choice": ({"either": {"word": "bad"}}, "outer.either.word: found 'bad', expected anoth"),
    "both kinds": (
        {"either": {"word": "x", "file": "y"}},
        "outer.either: found keys ['file', 'word'], expected exactly one of the keys 'word' or",
    ),
    "no kind": ({"either": {}}, "outer.either: found keys [], expected exactly one of the keys"),
    "no table": ({"inner": 3}, "outer.inner: found 3, expected a table"),
    "no table of names": ({"shares": 3}, "outer.shares: found 3, expected a table"),
    "no list": ({"inners": {"word": "x"}}, "found one table, expected a list: [[outer.inners]]"),
    "named": ({"shares": {"a": 2}}, "outer.shares.a: found 2, expected a share above 0 and at"),
    "float": ({"epsilon": 0.5}, "outer.epsilon: found 0.5, expected an exact number above 0"),
    "flag": ({"flag": 1}, "outer.flag: found 1, expected true or false"),
    "whole": ({"number": True}, "outer.number: found True, expected a whole number"),
    "text for whole": ({"number": "3"}, "outer.number: found '3', expected a whole number"),
    "low": ({"number": 0}, "outer.number: found 0, expected 1 or more"),
    "high": ({"number": 10}, "outer.number: found 10, expected 9 or less"),
    "64 bits": ({"inner": {"word": "", "most": 2**63}}, "expected a whole number from -9,223,372"),
    "NUL": ({"out": "a\0b"}, "outer.out: found 'a\\x00b', expected a path without the character"),
    "choice": ({"way": "c"}, "outer.way: found 'c', expected 'a' or 'b'"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_the_first_fault_is_named_with_its_place(what: str):
    table, says = FAULTS[what]
    with pytest.raises(ConfigError) as caught:
        read(**table)
    assert str(caught.value).startswith("f.toml: outer")
    assert says in str(caught.value)


def test_what_is_no_table_is_refused():
    with pytest.raises(ConfigError, match=r"f\.toml: found 3, expected a table"):
        from_table(Outer, 3, source="f.toml")


@given(
    epsilon=st.fractions(min_value="1/1000", max_value=1000, max_denominator=10**6),
    shares=st.dictionaries(
        st.text(max_size=3), st.fractions(min_value="1/9", max_value=1, max_denominator=99)
    ),
    words=st.lists(st.sampled_from(["x", "y"])),
)
def test_a_table_and_back_is_the_same(epsilon: Fraction, shares: Any, words: list[str]):
    made = read(
        epsilon=str(epsilon),
        shares={name: str(part) for name, part in shares.items()},
        inners=[{"word": word} for word in words],
        either={"file": "a.csv"},
    )
    assert made.epsilon == epsilon
    assert made.shares == tuple(shares.items())
    assert from_table(Outer, to_table(made), source="again") == made


def test_decimals_are_read_digit_by_digit():
    assert read(epsilon=Decimal("0.30000000000000000001")).epsilon == Fraction(
        30000000000000000001, 10**20
    )


def test_files_are_found_from_the_folder_and_bound_where_they_ask(tmp_path: Path):
    (tmp_path / "a.txt").write_text("inside")
    made = located(read(out="sub/out", files=[{"file": "a.txt"}]), tmp_path)
    assert made.out == tmp_path / "sub/out"
    assert made.files == (OneFile(tmp_path / "a.txt", "inside"),)


def test_what_shapes_a_release_leaves_out_paths_and_defaults_but_not_what_is_stated():
    assert shaping(read()) == {"epsilon": "1", "unit": "one"}
    told = read(out="x", note="y", files=[{"file": "z"}], shares={"b": 1, "a": 1}, view=True)
    assert shaping(told) == {
        "epsilon": "1",
        "unit": "one",
        "shares": [["b", "1"], ["a", "1"]],  # in the order of the file
        "files": [{}],
        "view": True,
    }
    assert "view" not in making(told)
    assert making(told)["epsilon"] == "1"


@pytest.mark.parametrize("value", [-1, "-0.1", "1.01", "a", "1/0", "nan", None, [], True])
def test_a_rate_is_from_nothing_to_all(value: Any):
    @dataclass(frozen=True)
    class One:
        rate: Rate

    assert from_table(One, {"rate": 0}, source="x") == One(Fraction(0))
    assert from_table(One, {"rate": "1"}, source="x") == One(Fraction(1))
    with pytest.raises(ConfigError, match="rate: found"):
        from_table(One, {"rate": value}, source="x")
