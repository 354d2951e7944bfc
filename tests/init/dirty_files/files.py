"""From a table to a file."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from tests.init.dirty_files.model import Case, Cell, Style


def write(case: Case, folder: Path) -> Path:
    """Write the table in its style; return the file."""
    lines: list[list[Cell]] = [[one] for one in case.above]
    lines += [list(line) for line in zip(*(c.head for c in case.columns), strict=True)]
    lines += [list(row.cells) for row in case.rows]
    lines += [[one] for one in case.below]
    if case.style.xlsx:
        return _sheet(lines, folder / "table.xlsx")
    path = folder / ("table.txt" if case.style.delimiter == "|" else "table.csv")
    out = io.StringIO()
    sign = case.style.delimiter
    if case.style.quoted:
        writer = csv.writer(out, delimiter=sign, quoting=csv.QUOTE_ALL)
    else:
        writer = csv.writer(out, delimiter=sign)
    for line in lines:
        writer.writerow([text(cell, case.style) for cell in line])
    path.write_bytes(out.getvalue().encode(case.style.encoding, errors="replace"))
    return path


def text(cell: Cell, style: Style) -> str:
    """A cell as the file has it; codes are text and stay as they are."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}".replace(",", style.thousands)
    return str(cell).replace(".", style.decimal)


def _sheet(lines: list[list[Cell]], path: Path) -> Path:
    import xlsxwriter

    book = xlsxwriter.Workbook(str(path), {"strings_to_numbers": False})
    sheet = book.add_worksheet("data")
    for r, line in enumerate(lines):
        for c, cell in enumerate(line):
            if isinstance(cell, str):
                if cell:
                    sheet.write_string(r, c, cell)
            else:
                sheet.write_number(r, c, cell)
    book.close()
    return path
