"""``headcount ledger``: what was spent on which data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.options import AsJson, print_json

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Keep account of what was spent on which data.",
)

UNITS = (
    "change-one, add-remove, household-change-one, household-add-remove or housing-unit-change-one"
)
LedgerFile = Annotated[Path, typer.Argument(help="The ledger, a SQLite file.")]
DatasetName = Annotated[str, typer.Option(help="The dataset's name.")]


@app.command()
def init(
    ledger: LedgerFile,
    dataset: DatasetName,
    epsilon: Annotated[str, typer.Option(help='Total epsilon, exact: "2", "1/8".')] = "",
    rho: Annotated[str, typer.Option(help="Total rho (zCDP), exact.")] = "",
    delta: Annotated[str, typer.Option(help="With --epsilon: the total is (epsilon, delta).")] = "",
    unit: Annotated[str, typer.Option(help=f"The unit of privacy: {UNITS}.")] = "change-one",
) -> None:
    """Declare a dataset and its total; makes the ledger file if it is not there.

    Example: headcount ledger init census.ledger.sqlite --dataset census-2030 --epsilon 2
    """
    from headcount.privacy import Ledger
    from headcount.privacy.ledger import declared_total

    total = declared_total(epsilon=epsilon, rho=rho, delta=delta, unit=unit)
    book = Ledger.open(ledger) if ledger.exists() else Ledger.create(ledger)
    declared = book.declare(dataset, total=total)
    typer.echo(f"{ledger}: dataset {declared.name!r} with {declared.total}")


@app.command()
def show(ledger: LedgerFile, as_json: AsJson = False) -> None:
    """What is left of each dataset's total, and what the ledger cannot see.

    Example: headcount ledger show census.ledger.sqlite
    """
    from headcount.privacy import Ledger

    book = Ledger.open(ledger)
    balances = [book.balance(declared.name) for declared in book.datasets()]
    if as_json:
        print_json(
            {
                "datasets": [
                    {
                        "name": one.dataset.name,
                        "unit": one.dataset.total.unit.value,
                        "currency": one.dataset.total.currency,
                        "total": one.dataset.total.amount,
                        "spent": one.spent,
                        "remaining": one.remaining,
                        "runs": one.runs,
                        "not_private": one.not_private,
                        "voided": one.voided,
                        "closed": one.closed,
                        "released_exactly": one.invariants,
                    }
                    for one in balances
                ]
            }
        )
        return
    for balance in balances:
        for sentence in balance.sentences():
            typer.echo(sentence)


@app.command()
def history(ledger: LedgerFile, dataset: DatasetName, as_json: AsJson = False) -> None:
    """Every spend on a dataset, oldest first.

    Example: headcount ledger history census.ledger.sqlite --dataset census-2030
    """
    from headcount.privacy import Ledger

    spends = Ledger.open(ledger).history(dataset)
    if as_json:
        print_json(
            {
                "dataset": dataset,
                "runs": [
                    {
                        "run": spend.run_id,
                        "loss": spend.not_private_because or str(spend.loss),
                        "private": not spend.not_private_because,
                        "events": [
                            {"at": event.at, "state": event.state, "why": event.why}
                            for event in spend.events
                        ],
                    }
                    for spend in spends
                ],
            }
        )
        return
    for spend in spends:
        loss = spend.not_private_because or str(spend.loss)
        typer.echo(f"run {spend.run_id}: {loss}")
        for event in spend.events:
            typer.echo(f"  {event.at}  {event.state}{'  ' + event.why if event.why else ''}")


@app.command()
def void(
    ledger: LedgerFile,
    run: Annotated[Path, typer.Option(help="The run's directory.")],
    why: Annotated[str, typer.Option(help="The reason, kept in the ledger.")],
) -> None:
    """Take back the spend of a run that drew no noise and wrote nothing.

    Example: headcount ledger void census.ledger.sqlite --run runs/first --why "wrong file"
    """
    from headcount.privacy import Ledger
    from headcount.release.directory import RunDirectory

    directory = RunDirectory(run)
    facts = directory.require_facts()
    Ledger.open(ledger).void(facts.run_id, why=why, written=directory.written())
    typer.echo(f"run {facts.run_id}: voided")
