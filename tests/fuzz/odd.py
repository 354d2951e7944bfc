"""Names, characters, losses and counts that are odd or extreme."""

from __future__ import annotations

OURS = (
    *("n", "count", "unit", "level", "value", "variance", "query", "flag", "weight", "total"),
    *("cell", "cells", "table", "published", "cost", "units", "spine", "measurements", "sample"),
    *("geocode", "query_name", "query_shape", "plb", "sign", "low", "high", "type", "vacant"),
    *("quarters_id", "person_number", "population", "people", "hhgq", "size", "whole", "Total"),
    *("index", "row", "parent", "code", "literal", "n_right", "releases", "released", "truth"),
    *("metric", "attack", "case", "error", "estimate", "known", "area", "group", "cut", "key"),
    *("receipt.json", "manifest", "datapackage", "distance to the truth", "lock", "DPQuery", "N"),
)
"""Names of our own columns, files and queries."""
ODD = (
    *(".", "..", "a/b", "a-b", "%2F", " ", "name with spaces", "na\u00efve", "\u65e5\u672c"),
    *("back\\slash", "tab\there", "0", "-", "_", "CON", "a\nb", 'q"x', '"', "it's", "a,b", "{}"),
    *("|", "None", "null", "NaN", "nan", "true", "1e5", " x", "x ", "e\u0301", "\u00e9", "a;b"),
    *(
        "=1+1",
        "#x",
        "$x$",
        "<b>",
        "&amp;",
        "{0}",
        "%s",
        "a\r\nb",
        "a:b",
        "*",
        "?",
        "\u200b",
        "x" * 150,
    ),
    *("y" * 190, "z" * 300, "\U0001f600", "a\x00b", "\ufeff", "\x7f", "(all)", "@", "a@b", "[0]"),
    *("^x$", "^.*$", "pl.col", "a.b", "~", "`", "x%", "%", "\u2028", "\t", "+x", "=x"),
)
"""Characters that formats, file systems and expressions take for something else."""
NAMES = (*OURS, *ODD)
EPSILONS = (
    *(
        "1",
        "1",
        "1/3",
        "1/3",
        "2",
        "2",
        "5",
        "5",
        "30",
        "30",
        "30",
        "355",
        "709",
        "710",
        "711",
        "745",
    ),
    *("800", "999", "1000", "1001", "3000", "1000000", "1099511627776", "1e12", "99999999999999/7"),
    *("7.12345678901234567890123456789", "2199023255552"),
)
SLOW = (
    "0.1",
    "7/1000",
    "1/2000",
    "1/24000",
    "1/2000000",
    "1/1099511627776",
    "1e-11",
    "3e-13",
    "99999999999999999999/7",
)
"""Losses with large tables, or whose noise is drawn one by one, and some that are refused."""
PARTS = (1, 2, 3, 7, 64, 1000, 4096, 10**5, 10**9, 2**40, 10**15)
COUNTS = (0, 0, 1, 1, 2, 3, 17, 1000)
HUGE = (0, 1, 2**31, 2**40, 2**53 + 1, 2**58)
