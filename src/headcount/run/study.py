"""Studies as commands run them: compute, write the report, and never twice the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headcount.errors import ConfigError, InputError
from headcount.progress import Progress, silent
from headcount.report.directory import study_is_there, write_study
from headcount.report.provenance import gather_provenance
from headcount.studies.frame.settings import StudySettings
from headcount.studies.frame.study import Work, load_study

if TYPE_CHECKING:
    from headcount.population import Population
    from headcount.population.quarters import Quarters
    from headcount.studies.petti_flaxman_2020.report_about import About

US1940, IPUMS = "us1940", "ipums:"
NATION = 51
"""States of 1940, the District of Columbia, Alaska and Hawaii counted among them."""


def run_study(
    name: str,
    out: Path,
    settings: StudySettings,
    *,
    cache: Path | None = None,
    progress: Progress = silent,
) -> Path:
    """Run a study in a directory; returns the report's path.

    where
        cache   keeps finished pieces so that a stopped study goes on; beside ``out``, with the
                ending ".cache", if None. It may tell exact counts.
    """
    from headcount.engines.local import LocalEngine
    from headcount.studies.frame.cache import Cache
    from headcount.studies.frame.report import write_text

    study, identity = load_study(name), settings.identity()
    if study_is_there(out, study=name, settings=identity):
        return out / "report.html"
    folder = (cache or out.with_name(f"{out.name}.cache")) if study.keeps else None
    work = Work(cache=Cache(folder), engine=LocalEngine(), progress=progress)
    findings = study.run(settings, work)
    provenance = gather_provenance(
        recipe=settings.recipe(study=name, out=out.name),
        seeds=[identity["seed"]],
        config=settings.text(),
    )
    report = write_text(study, findings, provenance=provenance)
    return write_study(out, study=name, settings=identity, tables=findings.tables, report=report)


@dataclass(frozen=True, kw_only=True)
class People1940:
    """Whom the study petti-flaxman-2020 is run on.

    where
        source   "us1940" for the synthetic nation, or "ipums:FILE" for an extract of the real one
        scale    share of the counties of each state, for us1940 only
        states   postal abbreviations, for us1940 only; empty for all
    """

    source: str = US1940
    scale: float = 1.0
    states: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (self.synthetic or self.source.startswith(IPUMS)):
            raise ConfigError(
                "study petti-flaxman-2020",
                place="--population",
                found=repr(self.source),
                expected=f"{US1940!r}, or '{IPUMS}FILE' with the name of an extract",
            )
        if not self.synthetic and (self.scale != 1 or self.states):
            raise ConfigError(
                "study petti-flaxman-2020",
                place="--scale and --states",
                found=f"{self.source!r} beside them",
                expected=f"{US1940!r}: an extract is taken whole",
            )
        if not (self.synthetic or self.file.is_file()):
            raise InputError(
                str(self.file), found="no such file", expected="an IPUMS extract of the 1940 census"
            )

    @property
    def synthetic(self) -> bool:
        """Whether nobody in it is real."""
        return self.source == US1940

    @property
    def file(self) -> Path:
        """The extract."""
        return Path(self.source.removeprefix(IPUMS))

    def settings(self) -> dict[str, Any]:
        """What tells one population from another; a file by its name, size and ends.

        It goes into the manifest, which may be shown to others: so no path.
        """
        if self.synthetic:
            states = sorted(set(self.states))  # their order makes no other people
            return {"population": US1940, "scale": self.scale, "states": states}
        return {
            "population": f"{IPUMS}{self.file.name}",
            "bytes": self.file.stat().st_size,
            "sha256_of_ends": _digest_of_ends(self.file),
        }

    def options(self) -> str:
        """The same as options of the command."""
        words = [f"--population {IPUMS}{self.file.name}"] if not self.synthetic else []
        words += [f"--scale {self.scale:g}"] if self.scale != 1 else []
        words += [f"--states {','.join(self.states)}"] if self.states else []
        return "".join(f" {word}" for word in words)

    def read(self, *, seed: int, progress: Progress) -> tuple[Population, Quarters]:
        """The people and where they live."""
        if self.synthetic:
            from headcount.population.us1940 import us1940

            return us1940(seed=seed, scale=self.scale, states=self.states or None)
        from headcount.population.ipums1940 import read_ipums1940

        return read_ipums1940(self.file, orphans="drop", progress=progress)


def _digest_of_ends(path: Path) -> str:
    """SHA-256 of the first and last MiB: the census of 1940 has 40 GB, too many to read twice."""
    from hashlib import sha256

    piece, size = 1 << 20, path.stat().st_size
    with path.open("rb") as file:
        ends = file.read(piece)
        if size > piece:
            file.seek(max(piece, size - piece))
            ends += file.read()
    return sha256(ends).hexdigest()


def run_petti_flaxman_2020(
    out: Path,
    *,
    people: People1940,
    epsilons: Sequence[Fraction] = (),
    replicates: int = 4,
    seed: int = 1940,
    cache: Path | None = None,
    progress: Progress = silent,
) -> Path:
    """The study petti-flaxman-2020 in a directory; returns the report's path.

    where
        epsilons   those of the paper if empty
        cache      keeps finished releases so that another call draws only what is missing;
                   beside ``out``, with the ending ".cache", if None. It tells exact counts.
    """
    from headcount.engines.local import LocalEngine
    from headcount.studies.petti_flaxman_2020 import EPSILONS, STUDY, run_study
    from headcount.studies.petti_flaxman_2020.report import report

    chosen = sorted(epsilons or EPSILONS)
    settings = people.settings() | {
        "epsilons": [str(epsilon) for epsilon in chosen],
        "replicates": replicates,
        "seed": seed,
    }
    if study_is_there(out, study=STUDY, settings=settings):
        return out / "report.html"
    population, quarters = people.read(seed=seed, progress=progress)
    result = run_study(
        population=population,
        quarters=quarters,
        epsilons=chosen,
        replicates=replicates,
        seed=seed,
        cache=cache or out.with_name(out.name + ".cache"),
        progress=progress,
        engine=LocalEngine(),
    )
    recipe = f"headcount study {STUDY} --out {out.name}{people.options()}"
    if epsilons:
        recipe += "".join(f" --epsilon {epsilon}" for epsilon in chosen)
    recipe += f" --replicates {replicates} --seed {seed}"
    tables = result.tables()
    content = report(
        tables,
        _about_1940(people, population, result.public, replicates),
        provenance=gather_provenance(recipe=recipe, seeds=[seed]),
    )
    return write_study(out, study=STUDY, settings=settings, tables=tables, report=content)


def _about_1940(people: People1940, population: Population, public: bool, replicates: int) -> About:
    from headcount.population.us1940.figures import published, states
    from headcount.studies.petti_flaxman_2020.report_about import About

    geography = population.geography
    codes = geography.units[geography.depth("state")]
    names = {state.fips: state.name for state in states()}
    counties = geography.size("county")
    people_in_all = len(population.unit) if population.count is None else population.count.sum()
    return About(
        synthetic=people.synthetic,
        public=public,
        whole=len(codes) == NATION and counties >= published()["totals"]["counties"],
        people=int(people_in_all),
        states=tuple(names.get(str(code), str(code)) for code in codes),
        counties=counties,
        districts=geography.size("enumeration_district"),
        replicates=replicates,
    )
