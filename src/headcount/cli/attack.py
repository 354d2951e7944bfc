"""``headcount attack``: what can an attacker do with a release?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from headcount.cli.options import AsJson, OnEngine, print_json
from headcount.cli.show import show_table

if TYPE_CHECKING:
    from headcount.run.attack import Attempt


class _Attacks(TyperGroup):
    """The attacks on files; ``Any`` is click's context or command, which typer keeps to itself."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of that name; of an attack that has none, how it is made."""
        from headcount.errors import ConfigError
        from headcount.registry import ATTACKS, OF_PAPERS

        if args[0] not in self.commands and args[0] in (*ATTACKS.names(), *OF_PAPERS):
            ATTACKS.get(args[0], source="headcount attack")
            raise ConfigError(
                "headcount attack",
                found=repr(args[0]),
                expected=f"{', '.join(self.commands)}; the attack of that name is made by "
                f"headcount evaluate RUN --attacks {args[0]}",
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Attacks,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Attack a release: rebuild records, find named people in them, link two tables, or
subtract areas that overlap.

\b
Examples:
  headcount attack reconstruct runs/first --out found
  headcount attack reidentify found --known people.csv --out matches
  headcount attack link swapped.csv --known people.csv --out links
  headcount attack difference runs/areas runs/grid --out slivers

Give --truth to score an attack; the scores are then confidential, unless the data are public.
""",
)

Out = Annotated[Path, typer.Option(help="A new directory for the results.")]
TruthFile = Annotated[
    Path | None,
    typer.Option(
        help="The truth, to score the attack: a config of headcount protect, or a table of persons."
    ),
]


@app.command("reconstruct")
def reconstruct(
    source: Annotated[
        Path, typer.Argument(help="A run or release directory, or a .toml file that lists tables.")
    ],
    out: Out,
    tables: Annotated[
        str,
        typer.Option(help="Tables to make from released counts: sf1, pl94-171, or a TOML file."),
    ] = "sf1",
    together: Annotated[
        str | None,
        typer.Option(
            help="Solve all leaf units within each unit of this level jointly, for example tract."
        ),
    ] = None,
    on_conflict: Annotated[
        str,
        typer.Option(help="What to do if tables contradict each other: report, or least-change."),
    ] = "report",
    variability: Annotated[
        bool, typer.Option(help="Also prove how many records could be different.")
    ] = True,
    steps: Annotated[
        int,
        typer.Option(
            min=0,
            help="Steps of the solver for one question, the same on every machine (1,000 take "
            "about a second); beyond them the answer is not proven.",
        ),
    ] = 10_000,
    largest_change: Annotated[
        int,
        typer.Option(
            min=0,
            help="Where counts were changed: the largest change, if it is known and the release "
            "does not say it. 0: the smallest one under which all tables can be true.",
        ),
    ] = 0,
    truth: TruthFile = None,
    engine: OnEngine = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild person records from published tables, block by block.

    Writes records.parquet, blocks.parquet, summary.json and summary.md; with --truth also
    agreement.csv. In blocks.parquet, variability is the percentage of records that could be
    different: 0 and proven means that no other records fit, infinity that nobody was found where
    there could be somebody. If proven, it is the largest possible value; with --together it may be
    larger than that, never smaller. Tables that contradict each other are named in moves.txt, with
    the smallest total change that would make them consistent; if not proven, a smaller one may
    exist.

    Where counts were changed (cell keys, rounding) each published one stands for a range, which
    all sums of the release make narrower, and of the records that fit those nearest to the
    published counts are taken.

    \b
    Example:
      headcount attack reconstruct runs/first --out found
      headcount attack reconstruct tables.toml --together tract --out found

    \b
    A file that lists tables:
      schema = "persons-2010"
      units = "units.csv"             # a row for each block, a column for each level
      levels = ["county", "tract", "block"]
      [[table]]
      product = "sf1"
      name = "P12"
      level = "block"
      file = "p12.csv"                # unit, cell, value; or unit, cell, low, high
      zero_hides = 0                  # 2: a 0 may stand for 1 or 2
    """
    from headcount.attacks.reconstruction import Reconstruct
    from headcount.run.attack import open_reconstruct

    attack = Reconstruct(
        tables=tables,
        together=together or "",
        on_conflict=on_conflict,
        variability=variability,
        steps=steps,
        largest_change=largest_change,
    )
    _run(lambda: open_reconstruct(attack, source, truth=truth, engine=engine), out, as_json=as_json)


@app.command("reidentify")
def reidentify(
    source: Annotated[
        Path,
        typer.Argument(
            help="What attack reconstruct wrote, or a release whose counts are whole, 0 or more."
        ),
    ],
    out: Out,
    known: Annotated[
        Path | None, typer.Option(help="Named people: person, block, sex, age; CSV or Parquet.")
    ] = None,
    attacker: Annotated[
        str,
        typer.Option(
            help="Instead of --known, an attacker made from the truth: perfect or commercial-like."
        ),
    ] = "",
    coverage: Annotated[
        float, typer.Option(help="Commercial-like: share of people in the attacker's file.")
    ] = 0.95,
    wrong_block: Annotated[
        float, typer.Option(help="Commercial-like: share with a wrong block.")
    ] = 0.55,
    wrong_age: Annotated[
        float, typer.Option(help="Commercial-like: share with a wrong age.")
    ] = 0.2,
    wrong_sex: Annotated[
        float, typer.Option(help="Commercial-like: share with the wrong sex.")
    ] = 0.02,
    orders: Annotated[
        int, typer.Option(min=1, help="How many random orders of ties to score.")
    ] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Makes the attack repeatable.")] = 0,
    truth: TruthFile = None,
    as_json: AsJson = False,
) -> None:
    """Match named people to records on block, sex and age, one to one, and learn race and origin.

    Writes putative.parquet (who was matched, and what is claimed), summary.json and summary.md;
    with --truth also reid.csv: how many claims are right, beside two guesses from the block.

    \b
    Example:
      headcount attack reidentify found --known people.csv --out matches
      headcount attack reidentify found --attacker perfect --truth config.toml --out matches
    """
    from headcount.attacks.reidentification import Reidentify
    from headcount.evaluation.reidentified import Quality
    from headcount.run.attack import open_reidentify

    attack = Reidentify(orders=orders, seed=seed)
    quality = Quality(
        coverage=coverage, wrong_block=wrong_block, wrong_age=wrong_age, wrong_sex=wrong_sex
    )
    _run(
        lambda: open_reidentify(
            attack, source, known=known, attacker=attacker, quality=quality, truth=truth
        ),
        out,
        as_json=as_json,
    )


@app.command("link")
def link(
    released: Annotated[
        Path,
        typer.Argument(
            help="A table of released records, or a release whose counts are whole, 0 or more."
        ),
    ],
    known: Annotated[
        Path, typer.Option(help="Named people: person, age and the columns of --exact.")
    ],
    out: Out,
    width: Annotated[int, typer.Option(min=1, help="Width of the age buckets, in years.")] = 2,
    exact: Annotated[
        str, typer.Option(help="Columns that must agree besides the age, separated by commas.")
    ] = "race,household_size",
    secret: Annotated[
        str, typer.Option(help="The column that the attacker wants to learn.")
    ] = "hispanic",
    one_to_one: Annotated[
        bool, typer.Option(help="Drop records that several people claim.")
    ] = False,
    truth: Annotated[
        Path | None,
        typer.Option(help="The truth, to score the attack: a table with person and the secret."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the people who fit exactly one released record (Ramachandran et al. 2012).

    Writes links.parquet, summary.json and summary.md; with --truth also linkage.csv. A released
    table with a column person (whose record a row holds) or slot (whose place it has) is scored
    by these too.

    Example: headcount attack link swapped.csv --known people.csv --width 2 --out links
    """
    from headcount.attacks.linkage import Link
    from headcount.run.attack import open_link

    names = tuple(name.strip() for name in exact.split(",") if name.strip())
    attack = Link(age_width=width, exact=names, secret=secret, one_to_one=one_to_one)
    _run(lambda: open_link(attack, released, known=known, truth=truth), out, as_json=as_json)


@app.command("difference")
def difference(
    first: Annotated[Path, typer.Argument(help="A run or release directory of changed tables.")],
    second: Annotated[
        Path, typer.Argument(help="The same of the same people with other units, such as a grid.")
    ],
    out: Out,
    crosswalk: Annotated[
        Path | None,
        typer.Option(
            help="A table with the columns leaf, first and second: the units of both releases that "
            "each leaf lies in. Not needed where both releases have the same leaf units."
        ),
    ] = None,
    level: Annotated[
        str, typer.Option(help="Units of the first release; by default the finest published.")
    ] = "",
    other_level: Annotated[str, typer.Option(help="Units of the second release; likewise.")] = "",
    largest_change: Annotated[
        int,
        typer.Option(
            min=0, help="What you know of the largest change, if the releases do not say it."
        ),
    ] = 0,
    effort: Annotated[
        str,
        typer.Option(
            help="relations: one sum at a time; programs: linear programs; whole: integer programs."
        ),
    ] = "relations",
    sample: Annotated[
        int,
        typer.Option(min=0, help="Pieces attacked by programs or whole numbers; 0 for all."),
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = 0,
    truth: Annotated[
        Path | None,
        typer.Option(help="The truth, to score the attack: a config of headcount protect."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Subtract units of one release from those of another: who lives in the slivers between them?

    Writes slivers.parquet (first, second, table, cell, attacker, low, high), summary.json and
    summary.md; with --truth also slivers.csv.

    Example: headcount attack difference runs/areas runs/grid --out slivers
    """
    from headcount.attacks.differencing import Difference
    from headcount.run.attack import open_difference

    attack = Difference(
        other=second,
        crosswalk=crosswalk,
        level=level,
        other_level=other_level,
        largest_change=largest_change,
        effort=effort,  # type: ignore[arg-type]  # checked there
        sample=sample,
        seed=seed,
    )
    _run(lambda: open_difference(attack, first, truth=truth), out, as_json=as_json)


def _run(opened: Callable[[], Attempt[Any]], out: Path, *, as_json: bool) -> None:
    from headcount.report.model import CONFIDENTIAL_BANNER
    from headcount.run.attack import run_attack

    found = run_attack(opened, out)
    if as_json:
        print_json(
            {
                "written": found.out,
                "confidential": not found.public,
                "in_words": found.lines,
                "scores": dict(found.scores),
            }
        )
        return
    if not found.public:
        typer.secho(CONFIDENTIAL_BANNER, fg="yellow")
    for line in found.lines:
        typer.echo(line)
    for title, table in found.scores.items():
        show_table(table, title=title)
    typer.echo(f"written: {found.out}")
