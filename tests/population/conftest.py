"""Whatever a test reads person by person is also counted in tiny pieces, with the same outcome."""

import pytest

from headcount.errors import InputError
from headcount.population import Population, microdata, pieces
from headcount.population.people_table import TableOfPeople
from headcount.tabulate import Tabulated

READ = microdata.read_people


@pytest.fixture(autouse=True)
def _counted_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "ROWS", 2)
    monkeypatch.setattr(pieces, "TEXT", 16)
    monkeypatch.setattr(microdata, "read_people", _both)


def _both(table: TableOfPeople) -> Population:
    with pytest.MonkeyPatch.context() as plain:
        plain.setattr(microdata, "read_people", READ)  # counting with record keys reads, too
        return _compared(table)


def _compared(table: TableOfPeople) -> Population:
    refused = None
    try:
        read = READ(table)
    except InputError as error:
        refused = error
    if refused is not None:
        with pytest.raises(type(refused)) as counting:
            microdata.count_people(table)
        assert _said(counting.value) == _said(refused)
        raise refused
    counted = microdata.count_people(table)
    if table.keys is None:
        assert counted.count is not None
        assert (counted.count > 0).all()
    assert Tabulated.of(counted).digest == Tabulated.of(read).digest
    assert counted.reading == read.reading
    assert counted.domain.one_person == read.domain.one_person
    assert (counted.name, counted.public) == (read.name, read.public)
    return read


def _said(error: BaseException) -> str:
    """What an error says; of text that polars cannot read, not what polars says of it."""
    return str(error).partition("content that cannot be read (")[0]
