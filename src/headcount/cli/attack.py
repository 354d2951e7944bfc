"""``headcount attack``: what can an attacker do with a release?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headcount.run.attack import Found

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Attack a release: rebuild records, find named people in them, or link two tables.

\b
Examples:
  headcount attack reconstruct runs/first --out found
  headcount attack reidentify found --known people.csv --out matches
  headcount attack link swapped.csv --known people.csv --out links

Give --truth to score an attack; the scores are then confidential, unless the data are public.
""",
)

Out = Annotated[Path, typer.Option(help="A new directory for what is found.")]
TruthFile = Annotated[
    Path | None,
    typer.Option(help="To score: a config of headcount protect, or a table of persons."),
]


@app.command("reconstruct")
def reconstruct(
    source: Annotated[
        Path, typer.Argument(help="A run or release directory, or a .toml file that lists tables.")
    ],
    out: Out,
    tables: Annotated[
        str,
        typer.Option(help="Tables to make of released counts: sf1, pl94-171, or a TOML file."),
    ] = "sf1",
    together: Annotated[
        str | None, typer.Option(help="Solve the leaf units of this level jointly, as in tract.")
    ] = None,
    on_conflict: Annotated[
        str, typer.Option(help="Tables that contradict each other: report, or least-change.")
    ] = "report",
    variability: Annotated[
        bool, typer.Option(help="Also prove how many records could be others.")
    ] = True,
    solver: Annotated[
        str, typer.Option(help="For what search leaves open: highs, or cp-sat (headcount[attack]).")
    ] = "highs",
    seconds: Annotated[
        float, typer.Option(min=0.001, help="Most for one question; then it is not proven.")
    ] = 10.0,
    truth: TruthFile = None,
) -> None:
    """Rebuild person records from published tables, block by block.

    Writes records.parquet, blocks.parquet, summary.json and summary.md; with --truth also
    agreement.csv. In blocks.parquet, variability is the per cent of records that could be others:
    proven and 0 means that no other records fit, and infinity that nobody was found where somebody
    could be. Proven, it is the largest possible value; with --together it may be larger than
    that, never smaller. Tables that contradict each other are named in moves.txt with the least
    change of all of them that would mend them; if not proven, a smaller one may exist.

    \b
    Example:
      headcount attack reconstruct runs/first --out found
      headcount attack reconstruct tables.toml --together tract --out found

    \b
    A file that lists tables:
      schema = "persons-2010"
      units = "units.csv"             # one row a block, a column for each level
      levels = ["county", "tract", "block"]
      [[table]]
      product = "sf1"
      name = "P12"
      level = "block"
      file = "p12.csv"                # unit, cell, value; or unit, cell, low, high
      zero_hides = 0                  # 2: a 0 may stand for 1 or 2
    """
    from headcount.attacks.kinds.reconstruction import Reconstruct
    from headcount.run.attack import run_reconstruct

    attack = Reconstruct(
        tables=tables,
        together=together or "",
        on_conflict=on_conflict,
        variability=variability,
        solver=solver,
        seconds=seconds,
    )
    _show(
        run_reconstruct(source, out, attack, truth=truth),
        title="records that agree with the truth, % of people",
    )


@app.command("reidentify")
def reidentify(
    source: Annotated[
        Path, typer.Argument(help="What attack reconstruct wrote, or a release of whole people.")
    ],
    out: Out,
    known: Annotated[
        Path | None, typer.Option(help="Named people: person, block, sex, age; CSV or Parquet.")
    ] = None,
    attacker: Annotated[
        str, typer.Option(help="In place of --known, made of the truth: perfect, commercial-like.")
    ] = "",
    coverage: Annotated[float, typer.Option(help="Commercial-like: share of people.")] = 0.95,
    wrong_block: Annotated[float, typer.Option(help="Share with a wrong block.")] = 0.55,
    wrong_age: Annotated[float, typer.Option(help="Share with a wrong age.")] = 0.2,
    wrong_sex: Annotated[float, typer.Option(help="Share with the wrong sex.")] = 0.02,
    orders: Annotated[int, typer.Option(min=1, help="Random orders of ties to score.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Makes the attack repeatable.")] = 0,
    truth: TruthFile = None,
) -> None:
    """Match named people to records on block, sex and age, one to one, and learn race and origin.

    Writes putative.parquet (who was matched, and what is claimed), summary.json and summary.md;
    with --truth also reid.csv: how many claims are right, beside two guesses from the block.

    \b
    Example:
      headcount attack reidentify found --known people.csv --out matches
      headcount attack reidentify found --attacker perfect --truth config.toml --out matches
    """
    from headcount.attacks.kinds.reidentification import Reidentify
    from headcount.evaluate.attackers import Quality
    from headcount.run.attack import run_reidentify

    quality = Quality(
        coverage=coverage, wrong_block=wrong_block, wrong_age=wrong_age, wrong_sex=wrong_sex
    )
    _show(
        run_reidentify(
            source,
            out,
            Reidentify(orders=orders, seed=seed),
            known=known,
            attacker=attacker,
            quality=quality,
            truth=truth,
        ),
        title="claims that are right, % of matches, beside guesses from the block",
        columns=("universe", "putative", "precision_%", "modal_guess_%", "proportional_guess_%"),
    )


@app.command("link")
def link(
    released: Annotated[
        Path, typer.Argument(help="A table of released records, or a release of whole people.")
    ],
    known: Annotated[Path, typer.Option(help="Named people: person, age and the exact columns.")],
    out: Out,
    width: Annotated[int, typer.Option(min=1, help="Years in a bucket of ages.")] = 2,
    exact: Annotated[
        str, typer.Option(help="Columns that must agree besides the age, with commas.")
    ] = "race,household_size",
    secret: Annotated[str, typer.Option(help="The column to be learnt.")] = "hispanic",
    one_to_one: Annotated[
        bool, typer.Option(help="Drop records that several people claim.")
    ] = False,
    truth: Annotated[
        Path | None, typer.Option(help="To score: a table with person and the secret.")
    ] = None,
) -> None:
    """Find the people who fit exactly one released record (Ramachandran et al. 2012).

    Writes links.parquet, summary.json and summary.md; with --truth also linkage.csv. A released
    table with a column person (whose record a row holds) or slot (whose place it has) is scored
    by these too.

    Example: headcount attack link swapped.csv --known people.csv --width 2 --out links
    """
    from headcount.run.link import run_link

    names = [name.strip() for name in exact.split(",") if name.strip()]
    _show(
        run_link(
            released,
            known,
            out,
            age_width=width,
            exact=names,
            secret=secret,
            one_to_one=one_to_one,
            truth=truth,
        ),
        title="matches that are right",
    )


def _show(found: Found, *, title: str, columns: Sequence[str] = ()) -> None:
    from headcount.cli.show import show_table
    from headcount.report.model import CONFIDENTIAL_BANNER

    if not found.public:
        typer.secho(CONFIDENTIAL_BANNER, fg="yellow")
    for line in found.lines:
        typer.echo(line)
    if found.scores is not None:
        show_table(found.scores.select(columns or found.scores.columns), title=title)
    typer.echo(f"written: {found.out}")
