"""Perturbation tables in files: both formats there and back, and every refusal."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from headcount.errors import InputError
from headcount.mechanisms.cell_key.lookup import ByColumn, ByInterval
from headcount.mechanisms.cell_key.perturbation import WORD, PerturbationLimits, perturbation_rows
from headcount.mechanisms.cell_key.tables import read_table, write_columns, write_rows

GOOD = """i,j,p,v,p_int_lb,p_int_ub,type
0,0,1,0,0,1,all
1,0,0.36987,-1,0,0.36987,all
1,1,0.36988,0,0.36987,0.73975,all
1,2,0.17107,1,0.73975,0.91082,all
1,3,0.0687,2,0.91082,0.97952,all
1,4,0.02048,3,0.97952,1,all
"""


def test_a_european_table_is_read_back_to_the_last_bit(tmp_path):
    rows = perturbation_rows(PerturbationLimits(3, Fraction(3, 2), 1))
    write_rows(tmp_path / "table.csv", rows)
    found = read_table(tmp_path / "table.csv")
    assert isinstance(found, ByInterval)
    assert found.rows == rows
    first = (tmp_path / "table.csv").read_text().splitlines()
    assert first[:2] == ["i,j,p,v,p_int_lb,p_int_ub", "0,0,1,0,0,1"]


def test_a_table_of_the_ons_is_read_back(tmp_path):
    table = np.maximum(np.arange(3 * 16).reshape(3, 16) % 5 - 2, -np.arange(1, 4)[:, None])
    write_columns(tmp_path / "table.csv", table)
    found = read_table(tmp_path / "table.csv")
    assert isinstance(found, ByColumn)
    assert np.array_equal(found.table, table)
    assert (tmp_path / "table.csv").read_text().startswith("pcv,ckey,pvalue\n1,0,-1\n1,1,-1\n")


def test_a_table_with_five_digits_sums_to_one_and_says_its_mean(tmp_path):
    """Eurostat's row of 1 is rounded: its mean is not 0, and that is no reason to refuse it."""
    (tmp_path / "table.csv").write_text(GOOD)
    found = read_table(tmp_path / "table.csv")
    assert isinstance(found, ByInterval)
    row = found.rows[1]
    assert sum(row.weights) == WORD
    assert float(row.mean) == pytest.approx(0.00004, abs=1e-9)
    assert float(row.probabilities[3]) == pytest.approx(0.02048, abs=1e-15)


def ons(*changes: tuple[str, str]) -> str:
    text = "pcv,ckey,pvalue\n" + "".join(f"{n},{k},0\n" for n in (1, 2) for k in (0, 1))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def european(*changes: tuple[str, str]) -> str:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", r"line 1: found columns a, b, expected i,j,p,v,p_int_lb,p_int_ub \(Euro"),
        ("", "line 1: found columns none"),
        (
            european(("1,3,0.0687,2,0.91082,0.97952,all\n", "")),
            "rows with i = 1: found probabilities that sum to 0.93130, expected 1, give or take",
        ),
        (european(("0,0,1,0,0,1,all\n", "")), "i: found no line for i = 0, expected each count"),
        (
            european((",v,", ",w,"), ("\n1,", "\n2,")),
            "i: found no line for i = 1, expected each count from 0",
        ),
        (european(("1,4,", "1,3,")), "line 7, j: found 1 to 3 for the second time, expected once"),
        (european(("0.36987,-1", "-0.36987,-1")), "line 3, p: found -0.36987, expected 0 to 1"),
        (european(("0.36987,-1", "lots,-1")), "line 3, p: found 'lots', expected a number"),
        (european(("0.36987,-1", "nan,-1")), "line 3, p: found 'nan', expected a number"),
        (european(("0.0687,2", "0.0687,3")), "line 6, v: found 3, expected j - i = 2"),
        (european(("1,0,0.3", "1,0.5,0.3")), "line 3, j: found 0.5, expected a whole number"),
        (european(("1,0,0.36987,-1", "1,-1,0.36987,-2")), "line 3, j: found -1, expected 0 or mo"),
        (european(("0,0,1,0,0,1", "0,1,1,1,0,1")), "line 2, j: found 1, expected 0: counts of 0"),
        (
            european(("0.36987,0.73975,all", "0.36987,0.8,all")),
            "line 4, p_int_ub: found 0.8, expected 0.73975: the sum of the row's probabilities",
        ),
        (ons(("1,1,0\n", "")), "rows with pcv = 1: found no line for ckey = 1, expected each key"),
        (ons(("2,", "3,")), "pcv: found no line for pcv = 2, expected each count from 1 on"),
        (ons(("1,1,0", "1,0,0")), "line 3, ckey: found 1, 0 for the second time, expected once"),
        (ons(("1,1,0", "1,1,-2")), "line 3, pvalue: found -2, expected -1 or more: no count below"),
        (ons(("1,1,0", "1,1,x")), "line 3, pvalue: found 'x', expected a number"),
        (ons(("1,0,0", "0,0,1")), "line 2, pvalue: found 1, expected 0: counts of 0 stay 0"),
        (ons(("1,1,0", "1,-1,0")), "line 3, ckey: found -1, expected 0 or more"),
        ("pcv,ckey,pvalue\n", "pcv: found no line for pcv = 1"),
        ("pcv,ckey,pvalue\n1,0,0\n1,1,0\n1,2,0\n", "ckey: found 3 keys, expected a power of two"),
    ],
)
def test_files_that_are_no_table_are_refused(tmp_path, text, message):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_table(path)
