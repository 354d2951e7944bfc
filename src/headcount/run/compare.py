"""Several ways to protect one population, compared: for the command and for Python.

The runs of a comparison are seeded. They are made in memory, spend nothing on any ledger and are
never written: no part of a comparison can become a release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headcount.comparison import STUDY
from headcount.comparison.cache import Cache
from headcount.comparison.methods import ComparedDomain, Offered, fitting, neighbours_of, offered
from headcount.comparison.run import run
from headcount.comparison.settings import Settings
from headcount.comparison.study import Findings, Work
from headcount.comparison.template import write_text
from headcount.config.load import ComparisonConfig, RunSettings, comparison_digest, load_comparison
from headcount.domain import Domain
from headcount.engines import EngineName
from headcount.errors import InputError, did_you_mean
from headcount.files import close_folder
from headcount.mechanisms import Chain, Mechanism, Tabulated
from headcount.population import InDwellings, Population
from headcount.privacy import DEFAULT_UNIT
from headcount.privacy.loss import positive
from headcount.processes import Progress, silent
from headcount.release.directory import refuse_unsafe
from headcount.report.directory import NOT_PRIVATE, study_is_there, write_study
from headcount.report.html import write_report
from headcount.report.model import Figure, Provenance, Report, gather_provenance
from headcount.report.notebook import shown
from headcount.run._publishable import publishable, refuse_unknown
from headcount.run.protect import engine_named

if TYPE_CHECKING:
    import polars as pl

INTERNAL, PUBLISH = "internal", "publish"
"""The two halves of a comparison's folder: for the curator, and for everybody."""

WITHOUT_DATA = "Nothing here comes from the runs of a comparison, and this is no release."
"""What the manifest of the public half says, unless the data are public."""


class ComparedRun(NamedTuple):
    """The reports of a comparison, to keep and to publish, and whether the data are public."""

    internal: Path
    publish: Path
    public: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison:
    """What a comparison found; as confidential as the data unless these are public."""

    findings: Findings
    offer: Offered
    domain: ComparedDomain
    recipe: str
    releases: tuple[Path, ...] = ()
    ledger: Path | None = None
    dataset: str = ""

    def __repr__(self) -> str:
        return f"<Comparison of {self.findings.tables['cases'].height} cases>"

    def _repr_html_(self) -> str:
        return shown(
            repr(self).strip("<>"),
            frames={"memo": self.tables["memo"]},
            note=f"tables: {', '.join(self.tables)}; figures: {', '.join(self._figures)}",
            confidential=self.findings.confidential,
        )

    def plot(self, name: str = "") -> Figure:
        """A figure of the report: the first, or the one with that name."""
        known = self._figures
        if name and name not in known:
            raise InputError("plot", found=repr(name), expected=did_you_mean(name, known))
        return known[name or next(iter(known))]

    @property
    def _figures(self) -> dict[str, Figure]:
        return {one.name: one for one in self.whole.figures()}

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Everything that was measured, by name: memo, cases, errors, hurt, attacks, largest..."""
        return self.findings.tables

    @property
    def settings(self) -> Settings:
        """How it was made."""
        assert isinstance(self.findings.settings, Settings)
        return self.findings.settings

    @cached_property
    def whole(self) -> Report:
        """The whole report, confidential unless the data are public."""
        return write_text(STUDY, self.findings, provenance=self._provenance())

    @cached_property
    def to_publish(self) -> tuple[Findings, Report]:
        """What does not depend on the data, as tables and a report; all of it for public data."""
        if not self.findings.confidential:
            return self.findings, self.whole
        known = publishable(
            self.offer,
            self.domain,
            self.settings,
            releases=self.releases,
            ledger=self.ledger,
            dataset=self.dataset,
        )
        text = write_text(STUDY, known, provenance=self._provenance(), template="publish.md")
        return known, text

    def report(self, path: Path | str) -> Path:
        """Write the whole report as one HTML file."""
        write_report(self.whole, Path(path))
        return Path(path)

    def publish(self, path: Path | str) -> Path:
        """Write the version to be published as one HTML file."""
        write_report(self.to_publish[1], Path(path))
        return Path(path)

    def _provenance(self) -> Provenance:
        settings = self.settings
        return gather_provenance(recipe=self.recipe, seeds=[settings.seed], config=settings.text())


def compare(
    population: Population | Tabulated,
    *,
    methods: Iterable[str] = (),
    epsilon: Iterable[Any] = (),
    cases: Mapping[str, Mechanism] | None = None,
    preset: str = "quick",
    replicates: int | None = None,
    seed: int = 0,
    unit: str = "",
    cells: str = "all",
    no_noise: bool = False,
    cache: Path | str | None = None,
    engine: EngineName | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Protect a population in several ways, and measure each in the same terms.

    where
        methods, epsilon   names of methods and losses to try; by default those of the preset
        cases              mechanisms of your own, by name, in place of the preset's methods
        unit               the one unit of privacy of all losses
        no_noise           whether methods in which chance decides anything are left out
        cache              a folder for finished cases, so that a stopped comparison goes on: as
                           confidential as the data
        engine             "local", this machine, or "spark"

    The result has tables, and writes a report. It is computed from the truth with seeded noise:
    confidential, and no release.
    """
    settings = Settings(
        preset=preset,
        methods=tuple(methods),
        epsilon=tuple(sorted(positive(one, name="epsilon") for one in epsilon)),
        replicates=replicates,
        seed=seed,
        unit=str(unit),
        cells=cells,
        no_noise=no_noise,
    )
    data = Tabulated.of(population)
    folder = None if cache is None else Path(cache)
    work = Work(
        cache=Cache.opened(folder),
        engine=engine_named(engine, folder),
        progress=progress,
    )
    return _compared(data, settings, work, cases=cases or {}, recipe="hc.compare(population, ...)")


def compare_run(
    config_file: Path,
    settings: Settings,
    *,
    out: Path,
    engine: EngineName | None = None,
    progress: Progress = silent,
) -> ComparedRun:
    """Compare as a config says, into a folder with two reports: to keep, and to publish.

    Finished cases are kept beside ``out`` (with the ending ".cache"), readable by their owner
    alone: the same command goes on from there.
    """
    config = load_comparison(config_file)
    if config.run is not None and config.run.noise == "forbidden":
        settings = replace(settings, no_noise=True)
    finished = _finished_releases(settings, config.run)
    people = config.population.read()
    people = people.down_to("" if config.run is None else config.run.lowest)
    people = people.meaning(config.roles, config.attacker, source=str(config_file))
    data = Tabulated.of(people)
    # Data that were public and no longer are would else leave the whole report in the public half.
    shown = {**settings.identity(), "public": data.population.public}
    made_from = {"made_from": comparison_digest(config).hex(), "data": data.digest.hex()}
    halves = {
        out / INTERNAL: {**shown, "config": config_file.name, **made_from},
        out / PUBLISH: shown,
    }
    internal, publish = (half / "report.html" for half in halves)
    made = ComparedRun(internal, publish, data.population.public)
    there = [study_is_there(half, study=STUDY.name, settings=of) for half, of in halves.items()]
    if all(there):
        return made
    kept = out.with_name(f"{out.name}.cache")
    for folder in (out, kept):
        refuse_unsafe(folder)
    work = Work(cache=Cache.opened(kept), engine=engine_named(engine, kept), progress=progress)
    found = _compared(
        data,
        settings,
        work,
        own=Chain.of(config.mechanism) if config.mechanism else None,
        cases={case.name: Chain.of(case.mechanism) for case in config.case},
        recipe=settings.command(config_file.name, out=out.name),
        **finished,
    )
    # Both are made before either is written: a release that cannot be described stops here.
    whole, (known, text) = found.whole, found.to_publish
    (out / INTERNAL).mkdir(parents=True, exist_ok=True, mode=0o700)
    close_folder(out / INTERNAL)  # it may have been there
    write = partial(write_study, study=STUDY.name)
    write(internal.parent, settings=halves[internal.parent], tables=found.tables, report=whole)
    says = NOT_PRIVATE if made.public else WITHOUT_DATA
    write(publish.parent, settings=shown, tables=known.tables, report=text, not_private=says)
    return made


def ways_of(config: ComparisonConfig, settings: Settings, domain: Domain) -> dict[str, Chain]:
    """The ways that a comparison of a config tries, by name: without a look at its people."""
    own = Chain.of(config.mechanism) if config.mechanism else None
    unit, neighbours = neighbours_of(own)
    chosen = settings.chosen_unit or unit or DEFAULT_UNIT
    compared = ComparedDomain(
        **vars(domain),
        households=isinstance(config.population, InDwellings),
        unit=chosen,
        neighbours=fitting(neighbours, chosen),
    )
    cases = {case.name: Chain.of(case.mechanism) for case in config.case}
    ways = offered(settings, compared, own=own, cases=cases).ways
    return {way.name: way.mechanism for way in ways}


def _finished_releases(settings: Settings, run_of: RunSettings | None) -> dict[str, Any]:
    """The releases to describe and their ledger; refused now, not after all cases have been run."""
    ledger, dataset = (None, "") if run_of is None else (run_of.ledger, run_of.dataset)
    releases = tuple(map(Path, settings.release))
    for path in releases:
        refuse_unknown(path, ledger, dataset)
    return {"releases": releases, "ledger": ledger, "dataset": dataset}


def _compared(
    data: Tabulated,
    settings: Settings,
    work: Work,
    *,
    own: Chain | None = None,
    cases: Mapping[str, Mechanism],
    recipe: str,
    **more: Any,
) -> Comparison:
    population = data.population
    unit, neighbours = neighbours_of(own)
    chosen = settings.chosen_unit or unit or DEFAULT_UNIT
    domain = ComparedDomain(
        **vars(population.domain),
        households=population.households is not None,
        unit=chosen,
        neighbours=fitting(neighbours, chosen),
    )
    offer = offered(settings, domain, own=own, cases=cases)
    findings = run(data, offer, domain, settings, work)
    return Comparison(findings=findings, offer=offer, domain=domain, recipe=recipe, **more)
