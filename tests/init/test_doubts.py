"""What a look at a file does not decide: it asks, and names the option that answers.

Every trap is a small file of a kind that was once read as the wrong people.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import polars as pl
import pytest

from headcount.errors import ConfigError, InputError
from headcount.init import Told, config_name, draft, write_draft
from headcount.init.doubts import refuse_other_size
from headcount.init.proposal import Proposal, people_of
from headcount.init.read import bins, levels, read
from tests.cli.test_cli import Headcount, headcount
from tests.init.dirt import DIRT, READABLE, TABLES, Dirt, Known

__all__ = ["headcount"]

WARDS = range(1, 13)


def p(number: int) -> int:
    """A number that has nothing to do with the next."""
    return 100 + number**3 * 7919 % 997


P = sum(map(p, WARDS))
BOTH = sum(9 * p(n) + p(2 * n) for n in WARDS)
THREE = sum(p(n) + p(2 * n) + p(3 * n) for n in WARDS)


def size(path: Path, **said: object) -> tuple[int, int]:
    """People and places, as ``init`` tells them at its end."""
    told = Told.by_words(**said)  # type: ignore[arg-type]
    made = draft(path, told=told)
    return Proposal(made, people_of(made, told)).size


def size_or_question(path: Path) -> tuple[int, int] | str:
    try:
        return size(path)
    except InputError as error:
        return str(error)


def written(folder: Path, text: str, name: str = "file.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def table(header: str, row: str, numbers: range = WARDS) -> str:
    """A row for each number, ``{n}`` in its place, and arithmetic in other braces."""
    rows = [eval(f'f"{row}"', {"n": n, "p": p}) for n in numbers]
    return "\n".join([header, *rows]) + "\n"


PRECINCTS = table(
    "precinct,pop,pop_white,pop_black,vap,vap_white,vap_black",
    "P{n:02},{9*p(n)+p(2*n)},{9*p(n)},{p(2*n)},{7*p(n)+p(2*n)-9},{7*p(n)},{p(2*n)-9}",
)
FAMILIES = table(
    "precinct,pop_m,pop_f,vap_m,vap_f", "P{n:02},{9*p(n)},{p(2*n)},{7*p(n)},{p(2*n)-9}"
)
PERSONS = "district,sex,age,married\n" + "".join(
    f"D{n % 12:02},{'mf'[n * n % 7 % 2]},{n * n * 37 % 97},{'yn'[n % 5 % 2]}\n" for n in range(240)
)

REFUSED: dict[str, tuple[str, str, str, dict[str, object], tuple[int, int] | None]] = {
    "a total that is off by one in a row": (
        table(
            "ward,total,white,black,asian",
            "W{n},{p(n)+p(2*n)+p(3*n)+(n==7)},{p(n)},{p(2*n)},{p(3*n)}",
        ),
        r"column 'total': found nearly the sum of 'white', 'black', 'asian', a total that does not "
        r"add up in 1 of 12 rows: line 8 \(by \+1 in the first\)",
        '--not-counts "total"',
        {"not_counts": "total", "kind": "wide"},
        (THREE, 12),
    ),
    "a total in other words, nearly": (
        table("ward,v1,v2,v3,v4", "W{n},{p(n)+p(2*n)+p(3*n)+(n%5==0)},{p(n)},{p(2*n)},{p(3*n)}"),
        "column 'v1': found nearly the sum of 'v2', 'v3', 'v4', a total that does not add up in 2",
        "--not-counts",
        {"not_counts": "v1", "kind": "wide"},
        (THREE, 12),
    ),
    "something called a total that adds up nothing": (
        table("ward,all persons,v2,v3", "W{n},{500+7*n*n},{100*n},{30*n*n}"),
        "column 'all persons': found the name of a total, and no columns that it adds up",
        "--not-counts",
        {},
        None,
    ),
    "adults beside all people, without totals": (
        table("ward,pop_m,pop_f,vap_m,vap_f", "W{n},{100*n},{97*n+5},{70*n},{71*n}"),
        r"two families, 'vap_m', 'vap_f' at most 'pop_m', 'pop_f' in every row: part of the same",
        '--universe "pop"',
        {"universe": "pop"},
        (197 * 78 + 60, 12),
    ),
    "groups that nothing adds up": (
        table("ward,hispanic,white,black", "W{n},{500+n*n},{1000-n},{30*n}"),
        "counts in 'hispanic', 'white', 'black', and no total that they add up to: a person may",
        "--kind wide",
        {"kind": "wide"},
        (6000 + 650 + 12000 - 78 + 30 * 78, 12),
    ),
    "one count beside numbers of unknown meaning": (
        table("ward,v1,v2", "W{n},{500+n*n},{n*1.5}"),
        "one column of whole numbers, 'v1', beside 'v2': does it count people",
        '--universe "v1"',
        {"universe": "v1"},
        (6650, 12),
    ),
    "homes": (
        table("ward,total,owned,rented", "W{n},{131*n},{100*n},{31*n}"),
        "column 'owned': found 'owned': counts of something else than people",
        "--kind wide",
        {"kind": "wide"},
        (131 * 78, 12),
    ),
    "years beside each other": (
        table("ward,pop_2010,pop_2020", "W{n},{100*n},{131*n}"),
        "several years or dates beside each other: 'pop_2010', 'pop_2020'",
        '--universe "2020"',
        {"universe": "2020"},
        (131 * 78, 12),
    ),
    "years below each other": (
        table("ward,Zeit,sex,count", "W{n%6},{2010+10*(n>5)},m,{n*100}", range(12)),
        "column 'Zeit': found several years, dates or other times: '2010', '2020'",
        '--only "Zeit=2020"',
        {"only": ["Zeit=2010"]},
        (1500, 6),
    ),
    "years in a column without a word for it": (
        table("ward,zq,sex,count", "W{n%6},{2010+10*(n>5)},m,{n*100}", range(12)),
        "column 'zq': found several years",
        "--only",
        {"only": ["zq=2010"]},
        (1500, 6),
    ),
    "dates of which nothing tells that they are some": (
        table("ward,zq,sex,count", "W{n%6},{'ab'[n>5]},m,{100+n*n}", range(12)),
        "column 'zq': found levels without a total that adds them up: groups of people, or the",
        "--attributes",
        {"only": ["zq=a"]},
        (600 + 55, 6),
    ),
    "rows of the same place and group": (
        table("ward,sex,remark,count", "W{n%6},m,{chr(97+n)}{n},{n*100}", range(12))
        + "".join(f"W{n % 6},f,r{n}x,7\n" for n in range(80)),
        r"rows of the same place and group \('ward', 'sex'\), which differ in 'remark': other",
        "--only",
        {},
        None,
    ),
    "two columns that may count people": (
        table("ward,sex,count,workers", "W{n//2},{'mf'[n%2]},{n*100},{n*61}"),
        "whole numbers in 'count', 'workers': which of them counts the people, and are the others",
        '--count "count"',
        {"count": "count"},
        (7800, 7),
    ),
    "people and households below each other": (
        table("ward,what,count", "W{n//2},{('population','households')[n%2]},{n*100}"),
        "column 'what': found several things that are counted: 'households', 'population'",
        '--only "what=',
        {"only": ["what=population"]},
        (4200, 6),
    ),
    "a percentage in a long table": (
        table("ward,sex,unit,value", "W{n//2},{'mf'[n%2]},percent,{n}"),
        "value 'percent': found 'percent': counts of something else than people",
        "--kind long",
        {},
        None,
    ),
    "ages that overlap": (
        table("ward,age,count", "W{n//3},{('0-17','18+','65+')[n%3]},{n*100+7}", range(36)),
        r"column 'age': found '18\+', which has or nearly has the total of '65\+'",
        "--leave-out",
        {"leave_out": ["age=65+"]},
        None,
    ),
    "a part of another level": (
        table(
            "ward,sex,count", "W{n//2},{('T','F')[n%2]},{(n//2+1)*(300,170)[n%2]+n*n}", range(24)
        ),
        "column 'sex': found 'T', which has or nearly has the total of 'F'",
        "--leave-out",
        {"leave_out": ["sex=F"]},
        None,
    ),
    "a named total of levels that is off": (
        table("ward,sex,count", "W{n//3},{('all','m','f')[n%3]},{p(n)}", range(36)),
        "'all', a row of totals that does not add up the others",
        "--leave-out",
        {"leave_out": ["sex=all"]},
        (sum(p(n) for n in range(36) if n % 3), 12),
    ),
    "a row of totals of which a place is missing": (
        table("ward,men,women", "W{n},{100*n},{97*n}") + "Total,9999,9999\n",
        "a row of totals that does not add up the others",
        "--leave-out",
        {"leave_out": ["ward=Total"]},
        (197 * 78, 12),
    ),
    "regions between their districts": (
        "district,men,women\nNorth,1410,1730\nA,500,520\nB,910,1210\nSouth,2800,2740\nC,1300,1290\n"
        "D,1500,1450\nE,900,1000\n",
        "column 'district': found '.*', the total of .*: several levels of place in one column",
        "--leave-out",
        {"leave_out": ["district=North", "district=South"]},
        (1410 + 1730 + 2800 + 2740 + 1900, 5),
    ),
    "levels of place by their codes": (
        "region,population\n11,30100\n2,52000\n1,70001\n21,30000\n22,21500\n12,39901\n",
        "column 'region': found .* several levels of place in one column",
        "--leave-out",
        {},
        None,
    ),
    "levels of place that another column tells": (
        "region,level,population\nAB,dist,30011\nXY,town,20007\nCD,dist,40013\nZW,town,50017\n",
        "column 'level': found the same people under 'dist' and 'town', with the same totals",
        '--only "level=dist"',
        {"only": ["level=town"]},
        (70024, 2),
    ),
    "a place as large as all others": (
        table("ward,population", "W{n},{100*n}") + "Norland,7900\n",
        "column 'ward': found 'Norland', which has about as many people as all others together",
        '--leave-out "ward=Norland"',
        {"leave_out": ["ward=Norland"]},
        (7800, 12),
    ),
    "two places and their total": (
        "ward,population\nAbel,212\nBree,390\nNorland,602\n",
        "column 'ward': found 'Norland', which has about as many people as all others together: a",
        '--leave-out "ward=Norland"',
        {"leave_out": ["ward=Norland"]},
        (602, 2),
    ),
    "one place and its total": (
        "ward,men,women\nAbel,212,220\nNorland,212,220\n",
        "column 'ward': found 'Abel', which has about as many people as all others together",
        '--leave-out "ward=',
        {"leave_out": ["ward=Norland"], "kind": "wide"},
        (432, 1),
    ),
    "three places and a total of some other day": (
        "ward,men,women\nNorland,918,1233\nAbel,212,220\nBree,390,401\nCole,310,602\n",
        "column 'ward': found 'Norland', which has about as many people as all others together",
        "--kind wide",
        {"kind": "wide"},
        (918 + 1233 + 212 + 220 + 390 + 401 + 310 + 602, 4),
    ),
    "three places and a total that may be one by chance": (
        "ward,population\nAbel,2\nBree,3\nCole,1\nNorland,6\n",
        "column 'ward': found 'Norland', which has about as many people as all others together",
        "--kind wide",
        {"kind": "wide"},
        (12, 4),
    ),
    "a long table of two places and their total": (
        "ward,sex,count\nAbel,m,21\nAbel,f,22\nBree,m,31\nBree,f,17\nNorland,m,52\nNorland,f,39\n",
        "column 'ward': found 'Norland', which has about as many people as all others together",
        '--leave-out "ward=Norland"',
        {"leave_out": ["ward=Norland"]},
        (91, 2),
    ),
    "a cross table of small counts beside each other": (
        table("ward,sex,white,black", "W{n//2},{'mf'[n%2]},{n*5%7},{n*n%5}", range(24)),
        "rows: found each combination of .* once, beside numbers in .*: cells of a table",
        "--count",
        {"kind": "people"},
        (24, 12),
    ),
    "a cross table of small counts without its zeros": (
        "ward,sex,group,v1\n"
        + "".join(
            f"W{n % 20:02},{'mf'[n // 20 % 2]},g{n // 40},{1 + n * 5 % 7}\n"
            for n in Random(30).sample(range(240), 110)
        ),
        "rows: found each combination of 'ward', .* once, beside numbers in 'v1': cells of a table",
        '--count "v1"',
        {"kind": "people"},
        None,
    ),
    "rows that are places": (
        table("ward,type", "W{n},{'urban rural'.split()[n%2]}"),
        "rows: found every place in one row, and no column that counts people: rows are places",
        "--kind people",
        {"kind": "people"},
        (12, 12),
    ),
    "rows that are cells of a table": (
        table("ward,sex,v1", "W{n//2},{'mf'[n%2]},{n*1.25}", range(40)),
        "rows: found each combination of 'ward', 'sex' once, beside numbers in 'v1': cells of a",
        "--count",
        {"kind": "people"},
        (40, 20),
    ),
    "numbers that add up over rows": (
        table("ward,sex,v1", "W{n%5},{'mf'[n*n%7%2]},{n%9+1}", range(40)) + "Total,,190\n",
        "column 'v1': found numbers of which one is the sum of all others: rows are cells of a",
        '--count "v1"',
        {"kind": "people"},
        (40, 5),
    ),
    "a column called like a population": (
        table("ward,sex,v,NumberOfPersons", "W{n//4},{'mf'[n%2]},{n%3},{n%5}.5", range(40)),
        "column 'NumberOfPersons': found the name of a number of people, and numbers",
        "--count",
        {"kind": "people"},
        (40, 10),
    ),
    "households": (
        table("ward,hh_id,sex,tenure", "W{n%5},{1000+n},{'mf'[n%2]},{'own rent'.split()[n%3>0]}"),
        "column 'hh_id': found another dwelling in every row: rows are households, not people",
        "--kind people",
        {"kind": "people"},
        (12, 5),
    ),
    "households by their heads": (
        table("ward,head_sex,age,class", "W{n%5},{'mf'[n*n%7%2]},{20+n*7%60},c{n%3}", range(40)),
        "column 'head_sex': found the name of the head of a household: rows are households, not",
        "--kind people",
        {"kind": "people"},
        (40, 5),
    ),
    "counts of households by their heads": (
        table("ward,sex of head,count", "W{n//2},{'mf'[n%2]},{n*100}"),
        "column 'sex of head': found 'head': counts of something else than people",
        "--kind long",
        {"kind": "long", "count": "count"},
        (7800, 7),
    ),
    "heads of households": (
        table("ward,sex,age,relationship", "W{n%5},{'mf'[n*n%7%2]},{20+n*7%60},head", range(40)),
        "column 'relationship': found the same in every row, as of heads of households: rows are",
        "--kind people",
        {"kind": "people"},
        (40, 5),
    ),
    "households by their size": (
        table("ward,sex,age,hhsize", "W{n%5},{'mf'[n*n%7%2]},{n*7%60},{1+n%3}", range(40)),
        "column 'hhsize': found sizes of households that are not those of people who live together",
        "--kind people",
        {"kind": "people"},
        (40, 5),
    ),
    "homes and who answered for them": (
        table(
            "ward,sex,age,home",
            "W{n%5},{'mf'[n*n%7%2]},{20+n*n*7%60},{('owned','rented')[n%3>0]}",
            range(40),
        ),
        "column 'home': found what homes have, beside ages of adults only: rows are households",
        "--kind people",
        {"kind": "people"},
        (40, 5),
    ),
    "weights": (
        PERSONS.replace("married", "PERWT").replace(",y\n", ",120.5\n").replace(",n\n", ",37\n"),
        "column 'PERWT': found what may be weights: then this is a sample, and counts are of respo",
        "--kind people",
        {"kind": "people"},
        (240, 12),
    ),
    "weights by their values": (
        "".join(
            f"{line},{number + 20.25 if number else 'v9'}\n"
            for number, line in enumerate(PERSONS.splitlines())
        ),
        "column 'v9': found what may be weights",
        "--kind people",
        {"kind": "people"},
        (240, 12),
    ),
    "a person in several rows": (
        "".join(
            f"{line},{f'P{number % 120}' if number else 'person_id'}\n"
            for number, line in enumerate(PERSONS.splitlines())
        ),
        "column 'person_id': found the id of a person in several rows: the same people at several",
        "--kind people",
        {"kind": "people"},
        (240, 12),
    ),
    "everybody twice": (
        PERSONS + PERSONS.partition("\n")[2],
        "rows: found every row several times: the same people more than once",
        "--kind people",
        {"kind": "people"},
        (480, 12),
    ),
    "rows without a word about people": (
        table("ward,a,b", "W{n%5},{'pq'[n%2]},{'xyz'[n%3]}", range(40)),
        "rows: found no column that says something of a person, such as sex or age: are rows peop",
        "--kind people",
        {"kind": "people"},
        (40, 5),
    ),
    "people without a place": (
        PERSONS.replace("\nD05,", "\n,", 1),
        "column 'district', line 7: found no place, and a person's values beside it, in 1 rows",
        '--leave-out "district="',
        {"leave_out": ["district="]},
        (239, 12),
    ),
    "people without a place, of whom one thing is known": (
        table("district,sex", "{'' if n==9 else f'D{n%5}'},{'mf'[n*n%7%2]}", range(60)),
        "column 'district', line 11: found no place, and a person's values beside it, in 1 rows",
        '--leave-out "district="',
        {"leave_out": ["district="]},
        (59, 5),
    ),
    "people of a dwelling without a place, of whom nothing is known": (
        table(
            "serial,person nr,district,sex",
            "{n//3},{n%3+1},{'' if 9<=n<12 else f'D{n//3%5}'},{'' if n==9 else 'mf'[n*n%7%2]}",
            range(90),
        )
        + "98,1,D1,m\n99,1,D2,f\n99,2,D2,m\n",
        "column 'district', line 11: found no place, and a person's values beside it, in 3 rows",
        '--leave-out "district="',
        {"leave_out": ["district="]},
        (90, 5),
    ),
    "ages that may be codes": (
        "district,sex,age\n"
        + "".join(f"D{n % 5},{'mf'[n % 2]},{1 + n * n % 7}\n" for n in range(60)),
        "column 'age': found an age in small whole numbers only: years, or codes of age groups",
        "--ages years or --ages codes",
        {"ages": "codes"},
        (60, 5),
    ),
    "ages of a few years and more": (
        "district,sex,age\n"
        + "".join(f"D{n % 5},{'mf'[n % 2]},{n * n % 7}\n" for n in range(60)).replace(
            "4\n", "4+\n"
        ),
        "column 'age': found an age in small whole numbers only: years, or codes of age groups",
        "--ages years or --ages codes",
        {"ages": "codes"},
        (60, 5),
    ),
    "rows of a place and group that are there twice": (
        table("ward,sex,count", "W{n//2},{'mf'[n%2]},{n*100}") + "W1,m,200\n",
        r"rows: found rows of the same place and group \('ward', 'sex'\), which are the same twice",
        '--attributes "sex"',
        {"attributes": "sex"},
        (8000, 7),
    ),
    "one place": (
        PERSONS.replace("\nD", "\nNorland,D").replace("district", "region,zzz", 1),
        "column 'region': found one place only",
        '--places "region"',
        {"places": "region"},
        (240, 1),
    ),
    "a kind of place": (
        table(
            "region,area,sex,age",
            "R{n%4},{'urban rural'.split()[n%3>0]},{'mf'[n%2]},{n}",
            range(60),
        ),
        "column 'area': found words that stand in every place, or few of them: a place, or a kind",
        '--places "',
        {"places": "region"},
        (60, 4),
    ),
    "smaller places left aside": (
        "district,kk,sex\n"
        + "".join(f"D{n % 20 % 4},K{n % 20:02},{'mf'[n * n % 7 % 2]}\n" for n in range(240)),
        "column 'kk': found values each of which lies within one 'district', and more of them",
        '--places "district,kk"',
        {"places": "district,kk"},
        (240, 20),
    ),
    "households, with how many live in each": (
        table("hh_id,town,persons,cars", "{n+500},T{n%4},{n%5+1},{n%3}", range(60)),
        "column 'hh_id': found another household in every row, and 'persons': are these the people",
        "--kind people protects households as if they were people",
        {"kind": "people"},
        (60, 4),
    ),
    "several tables below each other": (
        PERSONS + PERSONS,
        "line 242: found the line of names again: several tables below each other, expected one",
        "one table",
        {},
        None,
    ),
    "no line of names": (
        "44,3,17,120\n45,4,12,130\n",
        "the first line: found values and no names: there is no header line",
        "a name for each column",
        {},
        None,
    ),
}


@pytest.mark.parametrize("trap", REFUSED)
def test_what_is_doubtful_is_refused_with_the_option_that_answers(
    tmp_path: Path, trap: str
) -> None:
    text, message, option, answer, known = REFUSED[trap]
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=message) as error:
        size(path)
    assert option in error.value.expected
    if answer and known is not None:
        assert size(path, **answer) == known
    elif answer:
        size(path, **answer)


@pytest.mark.parametrize("sign", ["", "NA", "..", "-", ":", "x", "(D)", "c", "*", "<5"])
@pytest.mark.parametrize("total", ["", ",{v[0]+v[1]}"])
def test_a_sign_in_place_of_a_count_is_never_0(tmp_path: Path, sign: str, total: str) -> None:
    rows = [(100 * n, 97 * n) for n in WARDS]
    lines = [
        f"W{n},{a},{b}{f',{a + b}' if total else ''}" for n, (a, b) in zip(WARDS, rows, strict=True)
    ]
    lines[4] = lines[4].replace("W5,500,", f"W5,{sign},")
    header = "ward,men,women" + (",total" if total else "")
    path = written(tmp_path, "\n".join([header, *lines]))
    with pytest.raises(InputError, match=r"in place of a count|a total that does not add up"):
        size(path)
    if not total:
        said = "zero" if sign in ("", "NA", "..", "-") else "withheld"
        assert size(path, blank_counts=said) == (197 * 78 - 500, 12)
        assert size(path, blank_counts="withheld") == (197 * 78 - 500, 12)
        if said == "withheld":
            with pytest.raises(InputError, match="in place of a count"):
                size(path, blank_counts="zero")
        message = (
            r"column 'men', line 6: found .* in place of a count, expected whole numbers: what"
        )
        with pytest.raises(InputError, match=message):
            size(path)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("ward,men,women", "W{n},{100*n},{'x' if n > 5 else 60-n}"),
        ("ward,sex,count", "W{n//2},{'mf'[n%2]},{'x' if n > 5 else 60-n}"),
    ],
)
def test_counts_that_are_mostly_withheld_are_counts(tmp_path: Path, header: str, row: str) -> None:
    path = written(tmp_path, table(header, row))
    with pytest.raises(InputError, match="found 'x' in place of a count"):
        size(path)
    men = 7800 if "men" in header else 0
    assert size(path, blank_counts="withheld")[0] == men + 285


def test_a_config_says_that_counts_are_withheld(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, table("ward,men,women", "W{n},{100*n},{'(D)' if n == 5 else 97*n}"))
    monkeypatch.chdir(tmp_path)
    answer = headcount("init", "file.csv", "--yes", "--blank-counts", "withheld")
    assert answer.code == 0, answer.err
    said = (tmp_path / "file.toml").read_text()
    assert 'blank_counts = "withheld" ' in said
    answer = headcount("check", "file.toml")
    assert answer.code == 0, answer.err
    assert "whoever is in a count that the file withholds is not counted" in " ".join(
        answer.out.split()
    )
    (tmp_path / "file.toml").write_text(said.replace('"withheld"', '"refuse"'))
    answer = headcount("check", "file.toml")
    assert answer.code == 2
    assert "found '(D)', expected a whole number, 0 or more (blank_counts = \"withheld\" under" in (
        answer.err
    )


def test_blanks_that_a_total_shows_to_be_nobody_are_0(tmp_path: Path) -> None:
    path = written(tmp_path, table("ward,total,men,women", "W{n},{p(n)+n%2},{p(n)},{n%2 or ''}"))
    assert size(path) == (P + 6, 12)


@pytest.mark.parametrize(
    ("text", "people", "kind"),
    [
        (PERSONS, (240, 12), "people"),
        (PERSONS.replace(",90,", ",90+,"), (240, 12), "people"),
        (
            PERSONS.replace("married", "rel_to_head,religion")
            .replace("y\n", "head,none\n")
            .replace(",n\n", ",child,none\n"),
            (240, 12),
            "people",
        ),
        (
            table("ward,sex,hhsize", "W{n//6%5},{'mf'[n*n%7%2]},3", range(90)),
            (90, 5),
            "people",
        ),
        (table("ward,population", "W{n},{100*n}"), (7800, 12), "wide"),
        (table("ward,men,women", "W{n},{100*n},{97*n}"), (197 * 78, 12), "wide"),
        (table("ward,0-17,18-64,65+", "W{n},{p(n)},{p(2*n)},{p(3*n)}"), (THREE, 12), "wide"),
        (
            table("ward,u18_m,u18_f,o18_m,o18_f", "W{n},{9*n},{8*n},{31*n},7"),
            (48 * 78 + 84, 12),
            "wide",
        ),
        (table("nr,ward,population", "{n},W{n},{100*n}"), (7800, 12), "wide"),
        (table("ward,population,households", "W{n},{100*n},{40*n}"), (7800, 12), "wide"),
        (table("ward,sex,count", "W{n//2},{'mf'[n%2]},{n*100}"), (7800, 7), "long"),
        # A note below the people, and a second line of names.
        (PERSONS + "Source: census,,,\n", (240, 12), "people"),
        (
            "ward,men,women\nCode,Number of men,Number of women\n"
            + "".join(f"W{n},1{n},2{n}\n" for n in WARDS),
            (sum(int(f"1{n}") + int(f"2{n}") for n in WARDS), 12),
            "wide",
        ),
        # A level that adds up others, whatever it is called.
        (
            table(
                "ward,sex,count",
                "W{n//3},{'123'[n%3]},{(p(n)+p(n+1),p(n-1),p(n-1))[n%3]}",
                range(36),
            ),
            (sum(p(n - 1) for n in range(36) if n % 3), 12),
            "long",
        ),
        # A total, and adults among all people.
        (PRECINCTS, (BOTH, 12), "wide"),
        # The same people by age and by race: one of them.
        (
            table(
                "ward,young,old,white,black,asian",
                "W{n},{p(n)+p(2*n)-50},{p(3*n)+50},{p(n)},{p(2*n)},{p(3*n)}",
            ),
            (THREE, 12),
            "wide",
        ),
        # Each place and sex once.
        (
            table("ward,sex,v1", "W{n//2},{'mf'[n%2]},{n*5%7}", range(24)),
            (sum(n * 5 % 7 for n in range(24)), 12),
            "long",
        ),
    ],
)
def test_what_is_not_doubtful_is_read_without_a_question(
    tmp_path: Path, text: str, people: tuple[int, int], kind: str
) -> None:
    path = written(tmp_path, text)
    assert draft(path).kind == kind
    assert size(path) == people


def test_names_initials_and_dates_of_birth_are_neither_places_nor_attributes(
    tmp_path: Path,
) -> None:
    header, *rows = PERSONS.splitlines()
    more = "first_name,Last Name,middle_initial,dob,SSN,unit_number,pernum"
    text = [f"{header},{more}"]
    text += [
        f"{row},A{n % 3},B{n % 4},{'JK'[n % 2]},1980010{n % 7},{n % 9},{n % 5},{n % 6}"
        for n, row in enumerate(rows)
    ]
    made = draft(written(tmp_path, "\n".join(text)))
    assert made.places.columns == ("district",)
    assert [one.name for one in made.attributes] == ["sex", "age", "married"]
    assert any("it names people" in note and "'dob'" in note for note in made.notes)
    assert any("it numbers the people of a dwelling" in note for note in made.notes)


def test_a_code_beside_its_label_and_what_a_place_has_are_named(tmp_path: Path) -> None:
    header, *rows = PERSONS.splitlines()
    text = [f"{header},sex_code,kind,year_of_file"]
    text += [f"{row},{1 + (',m,' in row)},{int(row[1:3]) % 2},2020" for row in rows]
    made = draft(written(tmp_path, "\n".join(text)))
    assert [one.name for one in made.attributes] == ["sex", "age", "married"]
    notes = "\n".join(made.notes)
    assert "not used: 'sex_code': it says no more than 'sex'" in notes
    assert "not used: 'kind': it is the same for all who live in a place" in notes
    assert "not used: 'year_of_file': it has the same value in every row" in notes


def test_sheets_of_one_heading_are_asked_about_and_one_can_be_named(tmp_path: Path) -> None:
    import xlsxwriter

    path = tmp_path / "book.xlsx"
    with xlsxwriter.Workbook(path) as book:
        for number, name in enumerate(("North", "South")):
            sheet = book.add_worksheet(name)
            sheet.write_row(0, 0, ("ward", "population"))
            for n in WARDS:
                sheet.write_row(n, 0, (f"W{n}", n * (100 + number)))
    with pytest.raises(InputError, match="column 'sheet': found levels without a total"):
        draft(path)
    assert size(path, sheet="South") == (7878, 12)
    write_draft(draft(path, told=Told(sheet="South")), tmp_path / "book.toml")
    assert 'sheet = "South"' in (tmp_path / "book.toml").read_text()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"universe": "workers"}, "universe 'workers': found no column of numbers of that name"),
        ({"only": ["district=X"]}, "include and exclude: found no row that they choose"),
        (
            {"only": ["dstrict=X"]},
            "column 'dstrict': found no such column, .*did you mean 'district'",
        ),
    ],
)
def test_an_answer_that_fits_nothing_is_refused(
    tmp_path: Path, said: dict[str, object], message: str
) -> None:
    path = written(tmp_path, table("district,pop_m,pop_f", "D{n},{n*100},{n*90}"))
    with pytest.raises(InputError, match=message):
        size(path, **said)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"only": ["year"]}, r"only: found 'year', expected \"COLUMN=VALUE\""),
        ({"blank_counts": "nil"}, "blank_counts: found 'nil', expected one of 'zero', 'withheld'"),
        ({"ages": "old"}, "ages: found 'old', expected one of 'years', 'codes'"),
        ({"kind": "table"}, "kind: found 'table', expected one of 'people'"),
    ],
)
def test_an_answer_that_is_none_is_refused(said: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Told.by_words(**said)  # type: ignore[arg-type]


def test_more_people_than_the_population_or_far_fewer_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, table("ward,population", "W{n},{100*n}"))
    made = draft(path)
    refuse_other_size(made, 7800, Told())
    with pytest.raises(
        InputError, match="less than a hundredth of the people in the largest column"
    ):
        refuse_other_size(made, 77, Told())


def test_reading_in_python_asks_too(tmp_path: Path) -> None:
    path = written(tmp_path, FAMILIES)
    with pytest.raises(InputError, match=r"people twice|counted twice"):
        read(path)
    people = read(path, universe="pop", public=True)
    assert f"{BOTH:,} (the data are public)" in people._repr_html_()
    some = read(path, universe="pop", only={"precinct": ["P01", "P02"]}, public=True)
    assert some.geography.size("precinct") == 2


def test_of_a_data_frame_the_arguments_are_named() -> None:
    frame = pl.DataFrame(
        {
            "ward": [f"W{n % 5}" for n in range(60)],
            "sex": ["mf"[n % 2] for n in range(60)],
            "age": [n * n % 7 for n in range(60)],
        }
    )
    with pytest.raises(InputError, match='ages="years" or ages="codes"'):
        read(frame)
    odd = pl.Series("club", ["xyz"[n % 3] for n in range(12)])
    alone = frame.filter(pl.col("ward") == "W1").with_columns(odd)
    with pytest.raises(InputError, match=r'geography=\["ward"\], if that is right'):
        read(alone, ages="years")
    assert len(read(frame, ages="years").unit) == 60


def test_ages_whose_bins_or_codes_are_said_are_not_asked_about() -> None:
    frame = pl.DataFrame(
        {"ward": ["W1", "W2"] * 30, "sex": ["m", "m", "f"] * 20, "age": [0, 7, 9] * 20}
    )
    with pytest.raises(InputError, match="years, or codes of age groups"):
        read(frame, attributes={"sex": None, "age": None}, kind="people")
    for said in (bins(0, 5, 18), levels({"0": "young", "7": "old", "9": "older"})):
        people = read(frame, attributes={"sex": None, "age": said}, kind="people")
        assert [len(one.levels) for one in people.schema.attributes] == [2, 3]


# --- dirt -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", TABLES)
def test_a_known_table_is_read_rightly(tmp_path: Path, make: object) -> None:
    known: Known = make(Random(30))  # type: ignore[operator]
    assert size(written(tmp_path, known.text())) == (known.people, known.units)


@pytest.mark.parametrize("dirt", DIRT)
def test_a_dirty_table_is_read_rightly_or_asked_about(tmp_path: Path, dirt: Dirt) -> None:
    """Never another number of people, whatever stands in the file beside them."""
    for seed in range(3):
        for make in TABLES:
            random = Random(f"{seed} {make.__name__} {dirt.__name__}")
            clean = make(random)
            known = dirt(clean, random)
            if known is clean:
                continue
            path = written(tmp_path, known.text())
            found = size_or_question(path)
            if isinstance(found, str):
                assert dirt not in READABLE, found
                continue
            assert found == (known.people, known.units), (make.__name__, seed)


def test_two_kinds_of_dirt_at_once_do_not_change_who_is_read(tmp_path: Path) -> None:
    read_rightly = 0
    for seed in range(150):
        random = Random(seed)
        known = random.choice(TABLES)(random)
        first, second = random.sample(DIRT, 2)
        try:
            known = second(first(known, random), random)
        except ValueError:  # the first has left a sign where the second counts
            continue
        path = written(tmp_path, known.text())
        found = size_or_question(path)
        if isinstance(found, str):
            continue
        assert found == (known.people, known.units), (first.__name__, second.__name__, seed)
        read_rightly += 1
    assert read_rightly > 20


# --- the command ------------------------------------------------------------------------------


def test_init_ends_with_a_question_and_check_repeats_it(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, PERSONS, "people.csv")
    monkeypatch.chdir(tmp_path)
    answer = headcount("init", "people.csv", "--yes")
    assert answer.code == 0, answer.err
    assert answer.out.splitlines()[-1] == "240 people in 12 places. Is that right?"
    answer = headcount("check", "people.toml")
    assert answer.code == 0, answer.err
    assert "240 people in 12 places. Is that right?" in answer.out
    answer = headcount("check", "people.toml", "--quiet")
    assert "Is that right?" not in answer.out


def test_a_wrong_number_of_people_is_not_written(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from tests.init.test_looking import Terminal

    written(tmp_path, PERSONS, "people.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", Terminal("people\nno\n"))
    answer = headcount("init", "people.csv")
    assert answer.code == 2
    assert "found another number of people or places than is right, expected options" in answer.err
    assert not (tmp_path / "people.toml").exists()


def test_options_answer_questions(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, FAMILIES, "vtd.csv")
    monkeypatch.chdir(tmp_path)
    answer = headcount("init", "vtd.csv", "--yes")
    assert answer.code == 2
    assert '--universe "pop"' in answer.err
    answer = headcount("init", "vtd.csv", "--yes", "--universe", "pop", "--json")
    assert answer.code == 0, answer.err
    assert f'"people": {BOTH}' in answer.out
    assert headcount("check", "vtd.toml").code == 0


def test_a_file_that_is_not_there_is_the_users_mistake(
    tmp_path: Path, headcount: Headcount
) -> None:
    answer = headcount("init", tmp_path / "nofile.csv", "--yes")
    assert answer.code == 2
    assert "nofile.csv: found no such file, expected a .parquet or .csv file" in answer.err


def test_two_files_never_share_the_name_of_a_config(tmp_path: Path) -> None:
    for name in ("a.b.csv", "a.c.csv", "d.csv", "d.xlsx", "e.csv.gz"):
        (tmp_path / name).touch()
    names = {one.name: config_name(one) for one in tmp_path.iterdir()}
    assert names == {
        "a.b.csv": "a.b.toml",
        "a.c.csv": "a.c.toml",
        "d.csv": "d.csv.toml",
        "d.xlsx": "d.xlsx.toml",
        "e.csv.gz": "e.toml",
    }


def test_what_is_written_beside_a_config_is_named_like_it(tmp_path: Path) -> None:
    path = written(tmp_path, table("ward,men,women", "W{n},{100*n},{97*n}"), "a.b.csv")
    names = {one.name for one in write_draft(draft(path), tmp_path / config_name(path))}
    assert names == {"a.b.toml", "a.b.units.csv", "a.b.schema.toml", "a.b.csv.ledger.sqlite"}


def test_init_and_check_trim_alike(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
) -> None:
    padded = "".join(
        ",".join(f" {one}  " if at else one for at, one in enumerate(line.split(","))) + "\n"
        if number
        else f"{line}\n"
        for number, line in enumerate(PERSONS.splitlines())
    )
    written(tmp_path, padded.replace("\nD", "\n D"), "people.csv")
    monkeypatch.chdir(tmp_path)
    assert headcount("init", "people.csv", "--yes").code == 0
    answer = headcount("check", "people.toml")
    assert answer.code == 0, answer.err
    assert "240 people in 12 places" in answer.out
    frame = pl.read_csv(tmp_path / "people.units.csv")
    assert frame["district"].str.starts_with("D").all()


def test_a_long_table_without_counts_is_asked_for_them(tmp_path: Path) -> None:
    text = "ward,sex\n" + "".join(f"W{n % 6},{'fm'[n % 2]}\n" for n in range(60))
    with pytest.raises(InputError, match="kind: found no column of whole numbers") as error:
        size(written(tmp_path, text), kind="long")
    assert "--count COLUMN" in error.value.expected


@pytest.mark.parametrize("name", ["fname", "lname", "Name", "nom", "fornavn", "date_naissance"])
def test_what_names_a_person_is_no_attribute(tmp_path: Path, name: str) -> None:
    rows = (f"W{n % 6},{'fm'[n // 6 % 2]},{n % 90},x{n % 7}\n" for n in range(600))
    made = draft(written(tmp_path, f"ward,sex,age,{name}\n" + "".join(rows)))
    assert [one.name for one in made.attributes] == ["sex", "age"]


def test_check_asks_about_families_of_a_config_that_was_written_by_hand(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, table("ward,pop_m,pop_f,vap_m,vap_f", "W{n},{100*n},{97*n+5},{70*n},{71*n}"))
    monkeypatch.chdir(tmp_path)
    answer = headcount("init", "file.csv", "--yes", "--kind", "wide")
    assert answer.code == 0, answer.err
    assert headcount("check", "file.toml").code == 0
    said = (tmp_path / "file.toml").read_text()
    assert "overlap = 1 " in said
    by_hand = "".join(line for line in said.splitlines(keepends=True) if "overlap" not in line)
    (tmp_path / "file.toml").write_text(by_hand)
    answer = headcount("check", "file.toml")
    assert answer.code == 2
    assert "columns 'vap_m', 'vap_f': found at most 'pop_m', 'pop_f' in every row" in answer.err
    (tmp_path / "file.toml").write_text(
        by_hand.replace("[population]", "[population]\noverlap = 2")
    )
    answer = headcount("check", "file.toml")
    assert answer.code == 0, answer.err
    assert "for such a person the loss is up to 2 times the one that is stated" in " ".join(
        answer.out.split()
    )
