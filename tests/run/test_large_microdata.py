"""Microdata that do not fit into memory: counted where that is enough, refused where it is not."""

from pathlib import Path

import pytest

from headcount.engines import InOrder
from headcount.errors import InputError
from headcount.population import pieces, text_files
from headcount.population.formats import kinds
from headcount.run import protect
from headcount.run.evaluate import _open_run
from headcount.run.protect import protect_run
from tests.run.town import LEDGER, make_ledger, write_config, write_town


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    make_ledger(tmp_path, total="9")
    return tmp_path


def too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for the list of tracts, but not for 60 people."""
    monkeypatch.setattr(pieces, "TEXT", 100)
    for module in (kinds, text_files):
        monkeypatch.setattr(module, "memory_limit", lambda: 1000)


@pytest.mark.parametrize("name", ["topdown", "geometric", "identity"])
def test_a_release_of_counts_is_the_same_from_a_file_larger_than_memory(town, monkeypatch, name):
    mechanism = f'name = "{name}"' + ("" if name == "identity" else "\nepsilon = 1")
    ways = []
    for out in ("usual", "large"):
        config = write_config(town, mechanism=mechanism, run=f"seed = 7\n{LEDGER}", out=out)
        path = protect_run(config)
        release, prepared = _open_run(path)
        ways.append((prepared.data.digest, release.at("tract").tolist()))
        assert prepared.reading.rows == ((str(town / "people.csv"), 60),)
        too_little_memory(monkeypatch)
    assert ways[0] == ways[1]


def test_a_method_that_changes_records_says_that_they_do_not_fit(town: Path, monkeypatch):
    config = write_config(town, mechanism='name = "sampling"\nfraction = "1/3"')
    too_little_memory(monkeypatch)
    with pytest.raises(InputError, match=r"people.csv: found a file of .* methods that change no"):
        protect_run(config)
    assert not (town / "out").exists()


def test_a_file_that_is_refused_leaves_no_folder_of_an_engine(town: Path, monkeypatch):
    class Handing(InOrder):
        """Makes the folder of the run before it works, as Spark does."""

        def map(self, function, pieces):
            (town / "out/internal").mkdir(parents=True, exist_ok=True)
            return super().map(function, pieces)

    monkeypatch.setattr(protect, "engine_named", lambda *_: Handing())
    too_little_memory(monkeypatch)
    (town / "people.csv").write_text(
        "county,tract,sex,age\n" + "a,a1,f,adult\n" * 60 + "a,a1,x,old\n"
    )
    with pytest.raises(InputError, match=r"column 'sex', line 62: found level 'x'"):
        protect_run(write_config(town, run=f"seed = 7\n{LEDGER}"))
    assert not (town / "out").exists()
