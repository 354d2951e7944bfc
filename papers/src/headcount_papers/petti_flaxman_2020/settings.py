"""What the study is run with: parameters to sweep, and the people."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from headcount.comparison.study import Option, Seed, StudySettings
from headcount.errors import InputError

if TYPE_CHECKING:
    from headcount.population import Population
    from headcount.processes import Progress

STUDY = "petti-flaxman-2020"
US1940, PRESENCE, IPUMS = "us1940", "us1940:presence", "ipums:"
EPSILONS = tuple(Fraction(e) for e in ("1/4", "1/2", "3/4", "1", "2", "4", "6", "8"))
FRACTIONS = tuple(Fraction(k, 20) for k in range(1, 20))

Level = Literal["state", "county", "enumeration_district"]
LEVELS: tuple[Level, ...] = ("state", "county", "enumeration_district")
CountType = Literal["TC", "SC"]
COUNT_TYPES: tuple[CountType, ...] = ("TC", "SC")
STRATA_SHAPE = (2, 2, 6)
"""Voting age, ethnicity and race: the 24 cells of a stratified count."""

_PRESET = "e2e-2018"


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    """Parameters to sweep, the replicates pooled at each of them, and the people.

    where
        population   "us1940" for the synthetic nation, "us1940:presence" for the one with that
                     assumption, or "ipums:FILE" for an extract of the real
        scale        share of the counties of each state, for us1940 only
        states       postal abbreviations, for us1940 only; empty for all
        fractions    sizes of samples
    """

    population: Annotated[
        str,
        Option(
            help="us1940 (synthetic), us1940:presence (with an assumption about small groups), "
            "or ipums:FILE for an extract of the real one."
        ),
    ] = US1940
    scale: Annotated[float, Option(help="Share of the counties of each state (us1940).")] = 1.0
    states: Annotated[
        tuple[str, ...],
        Option(help="States to use, for example WA,GA (us1940); all if empty.", each=str.upper),
    ] = ()
    replicates: Annotated[int, Option(help="Runs of each setting.", least=1, always=True)] = 4
    epsilons: Annotated[
        tuple[Fraction, ...],
        Option(
            name="epsilon",
            help="Another epsilon in place of the paper's eight; may be repeated.",
        ),
    ] = EPSILONS
    seed: Seed = 1940
    fractions: tuple[Fraction, ...] = FRACTIONS

    def __post_init__(self) -> None:
        super().__post_init__()
        parts = self.fractions
        if not parts or min(parts) <= 0 or max(parts) >= 1 or len(set(parts)) != len(parts):
            raise self.refused(
                "fractions",
                found=", ".join(map(str, parts)) or "none",
                expected="distinct numbers above 0, below 1",
            )
        if not (self.synthetic or self.population.startswith(IPUMS)):
            raise self.refused(
                "--population",
                found=repr(self.population),
                expected=f"{US1940!r}, {PRESENCE!r}, or '{IPUMS}FILE' with the name of an extract",
            )
        if not self.synthetic and (self.scale != 1 or self.states):
            raise self.refused(
                "--scale and --states",
                found=f"{self.population!r} beside them",
                expected=f"{US1940!r}: an extract is taken whole",
            )
        if not (self.synthetic or self.file.is_file()):
            raise InputError(
                str(self.file), found="no such file", expected="an IPUMS extract of the 1940 census"
            )

    @property
    def synthetic(self) -> bool:
        """Whether nobody in it is real."""
        return self.population in (US1940, PRESENCE)

    @property
    def file(self) -> Path:
        """The extract."""
        return Path(self.population.removeprefix(IPUMS))

    def typed(self, field: str) -> Any:
        """As given; an extract goes by its file's name, since its folder is nobody's business."""
        if field == "population" and not self.synthetic:
            return f"{IPUMS}{self.file.name}"
        return super().typed(field)

    def identity(self) -> dict[str, Any]:
        """All options; an extract by its file's name, size and ends, with no path."""
        found = super().identity() | {"population": self.typed("population")}
        found["states"] = sorted(set(self.states))  # their order makes no other people
        if self.synthetic:
            return found
        more = {"bytes": self.file.stat().st_size, "sha256_of_ends": _digest_of_ends(self.file)}
        return {key: found[key] for key in found if key not in ("scale", "states")} | more

    def read(self, progress: Progress) -> Population:
        """The people, with their living quarters, which bound TopDown."""
        from dataclasses import replace

        if self.synthetic:
            from headcount_papers.us1940 import us1940

            states = self.states or None
            people, quarters = us1940(
                seed=self.seed,
                scale=self.scale,
                states=states,
                presence=self.population == PRESENCE,
            )
        else:
            from headcount_papers.ipums1940 import read_ipums1940

            people, quarters = read_ipums1940(self.file, orphans="drop", progress=progress)
        return replace(people, quarters=quarters)


def refuse_other_shape(population: Population) -> None:
    """The study needs the levels of 1940 and the person table of the 2018 test."""
    from headcount.schema import load_schema

    found = population.geography.levels
    if found[1:] != LEVELS or population.schema != load_schema(_PRESET):
        raise InputError(
            population.name,
            place=f"study {STUDY}",
            found=f"levels {list(found)}, attributes {list(population.schema.names)}",
            expected=f"a whole and {list(LEVELS)}, with the schema {_PRESET!r}",
        )


def _digest_of_ends(path: Path) -> str:
    """SHA-256 of the first and last MiB: the census of 1940 has 40 GB, too many to read twice."""
    piece, size = 1 << 20, path.stat().st_size
    with path.open("rb") as file:
        ends = file.read(piece)
        if size > piece:
            file.seek(max(piece, size - piece))
            ends += file.read()
    return sha256(ends).hexdigest()
