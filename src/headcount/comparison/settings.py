"""How a comparison is made: its preset, the methods and strengths, and how often each is run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from headcount.comparison.study import Option, Seed, StudySettings
from headcount.errors import ConfigError, one_of
from headcount.evaluation.tally import CellSet, check_cells
from headcount.privacy import UnitOfPrivacy, unit_of_privacy

NAME = "compare"
DELTA = Fraction(1, 10**10)
"""At which a rho is written as an epsilon, to stand beside others."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What is tried, and how hard.

    where
        methods        in the order in which the report lists them
        epsilons       strengths of methods with a loss
        few            fewer of them, for methods after the first: these are there to compare with
        fractions      of people whom a sample takes
        rates          of households, or people, that are swapped
        changes        largest change and variance of cell keys
        bases          to whose multiples counts are rounded
        areas          least people of the areas that coarsening makes
        replicates     runs of each case that depends on chance
        few_above      counts (of all levels together) above which ``fewer`` runs are made
        attack_units   leaf units whose records are rebuilt from tables
        attack_steps   of the solver, for each question that it is asked
        audit_runs     runs of an audit on each of two neighbouring databases
        audit_every    whether every case with a guarantee is audited, or one of each method
    """

    methods: tuple[str, ...]
    epsilons: tuple[Fraction, ...]
    few: tuple[Fraction, ...]
    fractions: tuple[Fraction, ...]
    rates: tuple[Fraction, ...]
    changes: tuple[tuple[int, Fraction], ...]
    bases: tuple[int, ...]
    areas: tuple[int, ...]
    replicates: int
    fewer: int
    few_above: int
    attack_units: int
    attack_steps: int
    audit_runs: int
    audit_every: bool


def _exact(*numbers: str) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, numbers))


PRESETS = {
    "quick": Preset(
        methods=(
            *("topdown", "geometric", "sampling", "swapping", "suppression"),
            *("cell-key", "rounding", "coarsening"),
        ),
        epsilons=_exact("0.1", "0.5", "1", "2", "4"),
        few=_exact("0.5", "1", "4"),
        fractions=_exact("0.1", "0.5"),
        rates=_exact("0.02", "0.1", "0.5"),
        changes=((2, Fraction(1)), (5, Fraction(3))),
        bases=(3, 5),
        areas=(100, 500),
        replicates=5,
        fewer=2,
        few_above=1_000_000,
        attack_units=60,
        attack_steps=1_000,
        audit_runs=300,
        audit_every=False,
    ),
    "thorough": Preset(
        methods=(
            *("topdown", "geometric", "sampling", "swapping", "suppression"),
            *("cell-key", "rounding", "coarsening"),
        ),
        epsilons=_exact("0.1", "0.25", "0.5", "1", "2", "4", "8"),
        few=_exact("0.1", "0.5", "1", "2", "4", "8"),
        fractions=_exact("0.01", "0.1", "0.5"),
        rates=_exact("0.02", "0.05", "0.1", "0.25", "0.5"),
        changes=((2, Fraction(1)), (3, Fraction(2)), (5, Fraction(3)), (10, Fraction(10))),
        bases=(3, 5, 10),
        areas=(50, 100, 200, 500, 1_000),
        replicates=20,
        fewer=10,
        few_above=20_000_000,
        attack_units=300,
        attack_steps=5_000,
        audit_runs=2_000,
        audit_every=True,
    ),
}
_ALL = PRESETS["quick"].methods
PRESETS["demo"] = replace(PRESETS["quick"], methods=_ALL[:-1], replicates=3, attack_units=8)


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    """The options of ``headcount compare``."""

    preset: Annotated[
        str, Option(help="demo (seconds), quick (minutes) or thorough.", always=True)
    ] = "quick"
    methods: Annotated[
        tuple[str, ...],
        Option(help="Methods to try, by name, with commas; those of the preset if not given."),
    ] = ()
    epsilon: Annotated[
        tuple[Fraction, ...], Option(help="Losses to try, with commas or repeated.")
    ] = ()
    replicates: Annotated[
        int | None, Option(help="Runs of each case; as the preset says if not given.", least=1)
    ] = None
    seed: Seed = 0
    cells: Annotated[
        str, Option(help="Counts to score: all possible ones, or truth (not zero).")
    ] = "all"
    unit: Annotated[
        str, Option(help="Unit of privacy of all losses; that of the config if not given.")
    ] = ""
    no_noise: Annotated[
        bool, Option(name="no-noise", help="Leave out methods in which chance decides anything.")
    ] = False
    release: Annotated[
        tuple[str, ...],
        Option(help="Finished runs on the same ledger, described in the version to publish."),
    ] = ()

    def __post_init__(self) -> None:
        for given in self.options():
            value = getattr(self, given.field)
            if (value or not given.numbers) and (expected := given.expected(value)):
                found = ", ".join(map(str, value)) if given.numbers else str(value)
                raise self.refused(f"--{given.name}", found=found, expected=expected)
        if self.preset not in PRESETS:
            raise self.refused("--preset", found=repr(self.preset), expected=one_of(PRESETS))
        check_cells(self.cells, compared=True)
        if self.unit:
            unit_of_privacy(self.unit, name="--unit")

    def refused(self, place: str, *, found: str, expected: str) -> ConfigError:
        """The error of a setting that is not allowed."""
        return ConfigError(NAME, place=place, found=found, expected=expected)

    @property
    def what(self) -> Preset:
        """The preset."""
        return PRESETS[self.preset]

    @property
    def cell_set(self) -> CellSet:
        """The set of counts that is scored."""
        return check_cells(self.cells, compared=True)

    @property
    def chosen_unit(self) -> UnitOfPrivacy | None:
        """The unit of privacy that was asked for."""
        return unit_of_privacy(self.unit, name="--unit") if self.unit else None

    def typed(self, field: str) -> Any:
        """A setting as the recipe gives it: runs by their names, because folders are nobody's."""
        value = getattr(self, field)
        return tuple(Path(one).name for one in value) if field == "release" else value

    def identity(self) -> dict[str, Any]:
        """What tells one comparison from another. It holds no path."""
        found = {**super().identity(), "release": list(self.typed("release"))}
        if not self.no_noise:
            del found["no_noise"]  # comparisons that were made before it could be asked for
        return found

    def command(self, config: str, *, out: str) -> str:
        """The command that makes the comparison again."""
        words = [f"headcount {NAME}", quote(config), f"--out {quote(out)}"]
        for given in self.options():
            value: Any = self.typed(given.field)
            if given.option.always or value != given.default:
                words += given.write(value)
        return " ".join(words)
