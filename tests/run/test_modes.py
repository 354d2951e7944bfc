"""What is below ``internal/`` is its owner's alone, file by file, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from headcount.evaluation.evaluate import Choice
from headcount.files import make_folder, write_text_atomic
from headcount.run.evaluate import evaluate_run
from headcount.run.protect import protect_run
from tests.run.test_crash import TOPDOWN
from tests.run.town import LEDGER, break_after_rehearsal, make_ledger, write_config, write_town

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files have no mode here")

TOWNS = 'kind = "towns"\npeople = 1000\nattributes = ["race", "hispanic"]'
TABLES = 'tables = { by_race = ["race"], by_both = ["race", "hispanic"] }'
CHAIN = 'name = "swapping"\nrate = "1/10"\n[[mechanism]]\nname = "sampling"\nfraction = 0.5'
RUNS = {
    "geometric": 'name = "geometric"\nepsilon = 1',
    "averaged": 'name = "averaged"\nepsilon = 1',
    "raked": 'name = "raked"\nepsilon = 1',
    "histogram": 'name = "histogram"\nepsilon = 1',
    "identity": 'name = "identity"',
    "topdown": 'name = "topdown"\nepsilon = 1',
    "sampling": 'name = "sampling"\nfraction = 0.5',
    "swapping": 'name = "swapping"\nrate = "1/10"',
    "targeted-swapping": 'name = "targeted-swapping"\nrate = "1/10"\nrisk_variables = ["race"]',
    "person-swapping": 'name = "person-swapping"\nrate = "1/10"\nlevel = "tract"\nkind = "random"',
    "suppression": f'name = "suppression"\n{TABLES}',
    "cell-key": f'name = "cell-key"\n{TABLES}',
    "rounding": f'name = "rounding"\n{TABLES}',
    "chain": f'{CHAIN}\n[[mechanism]]\nname = "geometric"\nepsilon = 1\nunit = "add-remove"',
}


@pytest.fixture
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(getattr(request, "param", 0))
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """Files that are not 0600 and folders that are not 0700, with their mode."""
    found = [(path, path.lstat().st_mode) for path in (folder, *folder.rglob("*"))]
    return [
        f"{path.relative_to(folder.parent)} {stat.S_IMODE(mode):04o}"
        for path, mode in found
        if stat.S_IMODE(mode) != (0o700 if stat.S_ISDIR(mode) else 0o600)
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("method", RUNS)
def test_all_that_a_run_and_its_evaluation_keep_is_closed(tmp_path: Path, method: str):
    config = write_config(tmp_path, population=TOWNS, mechanism=RUNS[method])
    if method == "chain":
        text = config.read_text().replace("[mechanism]\n", "[[mechanism]]\n", 1)
        config.write_text(text)
    run = protect_run(config)
    few = Choice() if method == "suppression" else Choice(metrics=("error",), attacks=())
    evaluate_run(run, choice=few)
    kept = {path.name for path in (run / "internal").rglob("*") if path.is_file()}
    assert {"config.json", "run.json", "report.html"} <= kept
    assert open_to_others(run / "internal") == []
    assert stat.S_IMODE((run / "release" / "manifest.json").stat().st_mode) & 0o044 == 0o044


@pytest.mark.parametrize("umask", [0, 0o022], indirect=True)
def test_so_is_what_a_run_has_while_it_works(
    tmp_path: Path, umask: None, monkeypatch: pytest.MonkeyPatch
):
    write_town(tmp_path)
    make_ledger(tmp_path)
    seen: list[str] = []

    def stop(*_arguments: object, **_named: object) -> None:
        seen.extend(open_to_others(tmp_path / "out" / "internal"))
        raise KeyboardInterrupt

    break_after_rehearsal(monkeypatch, "headcount.run._beforehand.write_release", stop)
    config = write_config(tmp_path, mechanism=TOPDOWN, run=LEDGER)
    with pytest.raises(KeyboardInterrupt):
        protect_run(config)
    assert seen == []
    inside = {path.name for path in (tmp_path / "out" / "internal").iterdir()}
    assert {"run.key", "levels"} <= inside


@pytest.mark.usefixtures("umask")
def test_a_file_is_no_more_open_than_its_folder(tmp_path: Path):
    for mode in (0o700, 0o750, 0o755):
        folder = tmp_path / f"{mode:o}"
        folder.mkdir()
        folder.chmod(mode)
        make_folder(folder / "a" / "b")
        write_text_atomic(folder / "a" / "b" / "text", "some")
        assert stat.S_IMODE((folder / "a" / "b").stat().st_mode) == mode
        assert stat.S_IMODE((folder / "a" / "b" / "text").stat().st_mode) == mode & 0o666
