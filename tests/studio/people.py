"""Files as people have them, for the studio to look at."""

from __future__ import annotations

from pathlib import Path
from random import Random

from headcount.privacy import Ledger, PureLoss, UnitOfPrivacy
from headcount.privacy.loss import exact


def messy_people(path: Path, *, people: int = 300) -> None:
    """One row for each person: semicolons, Latin-1, gaps, codes for nothing, markup in names."""
    draw = Random(1)
    lines = ["Region;Bezirk;Geschlecht;Alter;Notiz;<b>Stand</b>"]
    for number in range(people):
        region = draw.choice("AB")
        age = draw.choice([*map(str, range(0, 90, 7)), "999"])
        state = draw.choice(["ledig", "verh. & <i>", ""])
        sex = draw.choice("mw")
        lines.append(f"{region};{region}{draw.randint(1, 3)};{sex};{age};x{number};{state}")
    path.write_bytes("\n".join(lines).encode("latin-1"))


def wide_counts(path: Path) -> None:
    """One row for each place, with a column of counts for each group."""
    draw = Random(2)
    lines = ["state,county,male_minor,male_adult,female_minor,female_adult"]
    for county in range(8):
        counts = ",".join(str(draw.randint(0, 90)) for _ in range(4))
        lines.append(f"{county // 4},{county // 4}{county},{counts}")
    path.write_text("\n".join(lines) + "\n")


def dwellings(path: Path, *, households: int = 150) -> None:
    """One row for each person, with the key of the dwelling."""
    draw = Random(3)
    lines = ["county,tract,household_id,sex,age"]
    for number in range(households):
        county = draw.randint(1, 2)
        tract = f"{county}{draw.randint(1, 3)}"
        lines += [
            f"{county},{tract},h{number},{draw.choice('mf')},{draw.randint(0, 90)}"
            for _ in range(draw.randint(1, 4))
        ]
    path.write_text("\n".join(lines) + "\n")


def declare(path: Path, *, dataset: str, epsilon: str) -> None:
    """A ledger with one dataset."""
    total = PureLoss(epsilon=exact(epsilon, name="epsilon"), unit=UnitOfPrivacy("change-one"))
    Ledger.create(path).declare(dataset, total=total)
