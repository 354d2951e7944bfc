"""``headcount study``: reproduce a paper with one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Reproduce a paper: tables, figures and a report.",
)

Out = Annotated[Path, typer.Option(help="A new directory for report, tables and figures.")]


@app.command("flaxman-2019")
def flaxman_2019(
    out: Out,
    seed: Annotated[int, typer.Option(min=0, help="Makes the study repeatable.")] = 12345,
    replicates: Annotated[int, typer.Option(min=1, help="Runs behind every mean.")] = 20,
) -> None:
    """Flaxman (2019): how much privacy do simple counting mechanisms lose, measured three ways?

    Example: headcount study flaxman-2019 --out out/flaxman
    """
    from headcount.progress import bar
    from headcount.run.study import run_flaxman_2019

    report = run_flaxman_2019(out, seed=seed, replicates=replicates, progress=bar)
    typer.echo(f"report: {report}")


@app.command("petti-flaxman-2020")
def petti_flaxman_2020(
    out: Out,
    population: Annotated[
        str, typer.Option(help="us1940 (synthetic), or ipums:FILE for an extract of the real one.")
    ] = "us1940",
    scale: Annotated[
        float, typer.Option(help="Share of the counties of each state (us1940).")
    ] = 1.0,
    states: Annotated[
        str, typer.Option(help="States to keep, as in WA,GA (us1940); all if empty.")
    ] = "",
    replicates: Annotated[int, typer.Option(min=1, help="Runs of every setting.")] = 4,
    epsilon: Annotated[
        list[str] | None,
        typer.Option(help="Another epsilon in place of the paper's eight; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Makes the study repeatable.")] = 1940,
    cache: Annotated[
        Path | None, typer.Option(help="Where finished releases are kept; OUT.cache if not given.")
    ] = None,
) -> None:
    """Petti & Flaxman (2020): what TopDown does to the counts of 1940, beside a random sample.

    An unfinished study goes on where it stopped. The nation takes up to an hour.

    Example: headcount study petti-flaxman-2020 --out out/petti --states WA,GA
    """
    from headcount.privacy.loss import exact
    from headcount.progress import bar
    from headcount.run.study import People1940, run_petti_flaxman_2020

    kept = tuple(state.strip().upper() for state in states.split(",") if state.strip())
    given = [part for text in epsilon or [] for part in text.split(",")]
    report = run_petti_flaxman_2020(
        out,
        people=People1940(source=population, scale=scale, states=kept),
        epsilons=[exact(part, name="--epsilon") for part in given],
        replicates=replicates,
        seed=seed,
        cache=cache,
        progress=bar,
    )
    typer.echo(f"report: {report}")


@app.command("christ-2022")
def christ_2022(
    out: Out,
    counties: Annotated[
        str, typer.Option(help="Block groups to run, as in Alameda,Cibola; all nine if empty.")
    ] = "",
    rates: Annotated[int, typer.Option(min=2, help="Swap rates, evenly from 0.01 to 1.")] = 100,
    epsilons: Annotated[int, typer.Option(min=2, help="Epsilons, evenly from 0.1 to 10.")] = 200,
    replicates: Annotated[int, typer.Option(min=1, help="Runs of every setting.")] = 25,
    pool: Annotated[
        int, typer.Option(min=2_000, help="People in the sample of a state.")
    ] = 1_000_000,
    persons: Annotated[
        Path | None,
        typer.Option(
            help="A table of people of your own (.csv, .parquet): age, sex, race, hispanic, and "
            "if you have them household_size and tenure; --counties names its areas."
        ),
    ] = None,
    area: Annotated[str, typer.Option(help="The column of that table that names areas.")] = "area",
    seed: Annotated[int, typer.Option(min=0, help="Makes the study repeatable.")] = 2022,
    cache: Annotated[
        Path | None, typer.Option(help="Where finished pieces are kept; OUT.cache if not given.")
    ] = None,
) -> None:
    """Christ, Radway & Bellovin (2022): swapping beside noise, and what both do to minorities.

    An unfinished study goes on where it stopped. All nine block groups take some minutes.

    Example: headcount study christ-2022 --out out/christ --counties Alameda,Washington
    """
    from headcount.progress import bar
    from headcount.run.study import PeopleToSwap, run_christ_2022
    from headcount.studies.christ_2022.settings import Settings

    named = tuple(name.strip() for name in counties.split(",") if name.strip())
    report = run_christ_2022(
        out,
        people=PeopleToSwap(counties=named, persons=persons, column=area),
        settings=Settings(
            rates=rates, epsilons=epsilons, replicates=replicates, seed=seed, pool=pool
        ),
        cache=cache,
        progress=bar,
    )
    typer.echo(f"report: {report}")


@app.command("hawes-rodriguez-2021")
def hawes_rodriguez_2021(
    out: Out,
    people: Annotated[
        int | None, typer.Option(min=1_000, help="People of the synthetic state; 100,000.")
    ] = None,
    counties: Annotated[
        int | None, typer.Option(min=1, help="Its counties; one for each 4,000 people.")
    ] = None,
    population: Annotated[
        Path | None,
        typer.Option(
            help="People of your own: a config file of headcount protect, of which [population] "
            'is used (kind = "households").'
        ),
    ] = None,
    replicates: Annotated[int, typer.Option(min=1, help="Draws of every method.")] = 10,
    epsilon: Annotated[
        list[str] | None,
        typer.Option(help="Another epsilon in place of 0.5, 1, 4 and 16; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Makes the study repeatable.")] = 2021,
    cache: Annotated[
        Path | None, typer.Option(help="Where finished methods are kept; OUT.cache if not given.")
    ] = None,
) -> None:
    """Hawes & Rodriguez (2021): suppression and swapping beside TopDown, under attack.

    An unfinished study goes on where it stopped. The default takes some minutes.

    Example: headcount study hawes-rodriguez-2021 --out out/hawes --people 20000
    """
    from headcount.privacy.loss import exact
    from headcount.progress import bar
    from headcount.run.study import PeopleInDwellings, run_hawes_rodriguez_2021
    from headcount.studies.hawes_rodriguez_2021 import EPSILONS, Settings

    given = [part for text in epsilon or [] for part in text.split(",")]
    chosen = sorted(exact(part, name="--epsilon") for part in given) or EPSILONS
    report = run_hawes_rodriguez_2021(
        out,
        people=PeopleInDwellings(config=population, people=people, counties=counties),
        settings=Settings(epsilons=tuple(chosen), replicates=replicates, seed=seed),
        cache=cache,
        progress=bar,
    )
    typer.echo(f"report: {report}")
