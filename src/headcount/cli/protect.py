"""``headcount protect``: make a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def protect(
    config: Annotated[Path, typer.Argument(help="A TOML file; see docs/config.md.")],
) -> None:
    """Protect a population as a config file says; the same command resumes an unfinished run.

    The run directory has two halves: release/ is safe to publish, internal/ is not.

    Example config:

    \b
      [population]
      kind = "microdata"              # or "counts", "uniform"
      file = "people.csv"
      units = "tracts.csv"            # public list of units
      [population.geography]
      columns = ["state", "county", "tract"]
      [[population.attribute]]
      name = "age"
      levels = ["minor", "adult"]
      [mechanism]
      name = "geometric"              # or identity, raked, averaged, sampling, topdown
      epsilon = "1/2"
      [run]
      out = "runs/first"
    """
    from headcount.progress import bar
    from headcount.release.receipt import guarantee_from_json
    from headcount.release.store import read_receipt
    from headcount.run.protect import protect_run

    path = protect_run(config, progress=bar)
    receipt = read_receipt(path / "release")
    typer.echo(f"release: {path / 'release'}")
    for sentence in guarantee_from_json(receipt["guarantee"]).sentences():
        typer.echo(f"  {sentence}")
    below = [
        f"{found['negative']:,} of {found['counts']:,} counts at {level!r}"
        for level, found in receipt.get("negative_counts", {}).items()
        if found["negative"]
    ]
    if below:
        typer.echo(
            f"  Below 0: {', '.join(below)}. That is noise; set to 0 one by one, they would add "
            "people."
        )
