"""Parts of a separate distribution work in protect, evaluate and reports without touching ours."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.config.schema import config_schema
from headcount.errors import ConfigError, PluginError
from headcount.registry import ATTACKS
from headcount.release.store import read_release
from headcount.run.evaluate import evaluate_run
from headcount.run.protect import protect_run
from headcount.testing import ContractError, check_attack
from tests.run.town import write_config, write_town

MODULES = ("toy_parts", "toy_attack")
POINTS = """
[headcount.mechanisms]
toy-shifted = toy_parts:Shifted

[headcount.populations]
toy-village = toy_parts:Village

[headcount.metrics]
toy-above = toy_parts:Above

[headcount.attacks]
toy-first = toy_attack:First
"""
MECHANISM = 'name = "toy-shifted"\nepsilon = 1\nshift = 1000'
MORE = '\n[[metric]]\nname = "toy-above"\nby = 500\n\n[[attack]]\nname = "toy-first"\n'


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with a module and its metadata, as an installer leaves them."""
    site = tmp_path / "site"
    info = site / "toys-0.3.dist-info"
    info.mkdir(parents=True)
    for module in MODULES:
        source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
        (site / f"{module}.py").write_text(source, encoding="utf-8")
        monkeypatch.delitem(sys.modules, module, raising=False)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(site))
    return site


def test_a_mechanism_metric_and_attack_of_others(tmp_path: Path, installed: Path):
    write_town(tmp_path)
    config = write_config(tmp_path, mechanism=MECHANISM)
    config.write_text(config.read_text() + MORE)
    run = protect_run(config)
    receipt = json.loads((run / "release" / "receipt.json").read_text())
    assert receipt["plugins"] == ["mechanism 'toy-shifted' of toys 0.3"]
    said = "Relies on mechanism 'toy-shifted' of toys 0.3, which is not part of headcount"
    assert any(sentence.startswith(said) for sentence in receipt["guarantee"]["sentences"])
    assert receipt["notes"] == {"shift": 1000.0}
    done = evaluate_run(run)
    found = {finding.name: finding for finding in done.evaluation}
    assert found["toy-above"].table["above"][0] > 0
    assert "toy-first" in found
    assert (run / "internal" / "evaluation" / "toy-above.csv").exists()
    report = done.report.read_text()
    assert "Counts that are above the truth, by a toy." in report
    assert "A toy that says the same of everybody." in report


def test_a_population_of_others(tmp_path: Path, installed: Path):
    config = write_config(
        tmp_path, population='kind = "toy-village"\npeople = 90', mechanism='name = "identity"'
    )
    release = protect_run(config) / "release"
    receipt = json.loads((release / "receipt.json").read_text())
    whose = "population 'toy-village' of toys 0.3"
    assert receipt["plugins"] == [whose]
    said = f"Relies on {whose}, which is not part of headcount and was not checked by it."
    assert said in receipt["guarantee"]["sentences"]
    assert read_release(release).guarantee.stated_by == (whose,)


def test_a_population_and_a_mechanism_of_others_are_both_in_the_guarantee(
    tmp_path: Path, installed: Path
):
    village = 'kind = "toy-village"\npeople = 90'
    config = write_config(tmp_path, population=village, mechanism=MECHANISM)
    stated = read_release(protect_run(config) / "release").guarantee.stated_by
    assert stated == (
        "population 'toy-village' of toys 0.3",
        "mechanism 'toy-shifted' of toys 0.3",
    )
    write_town(tmp_path)
    ours = write_config(tmp_path, out="ours")
    assert read_release(protect_run(ours) / "release").guarantee.stated_by == ()


def test_faults_in_the_keys_of_others_are_named_like_ours(tmp_path: Path, installed: Path):
    wrong = MECHANISM.replace("shift = 1000", "shiift = 1000")
    with pytest.raises(ConfigError, match=r"mechanism\.shiift: found an unknown key, .*'shift'\?"):
        protect_run(write_config(tmp_path, mechanism=wrong))
    wrong = MECHANISM.replace("shift = 1000", "shift = 0")
    with pytest.raises(ConfigError, match=r"mechanism\.shift: found 0, expected 1 or more"):
        protect_run(write_config(tmp_path, mechanism=wrong))


def test_others_are_loaded_only_when_they_are_named(tmp_path: Path, installed: Path):
    write_town(tmp_path)
    run = protect_run(write_config(tmp_path))
    evaluate_run(run)
    kinds = config_schema()["properties"]["mechanism"]["anyOf"][0]["oneOf"]
    assert {"toy-shifted"} < {one["title"] for one in kinds}
    assert "plugins" not in json.loads((run / "release" / "receipt.json").read_text())
    assert not set(MODULES) & set(sys.modules)


def test_an_attack_of_others_keeps_the_contract_and_never_loads_the_truth(installed: Path):
    First = ATTACKS.get("toy-first")
    assert inspect.getfile(First) == str(installed / "toy_attack.py")
    check_attack(First())
    loaded = "import sys, toy_attack; print([m for m in sys.modules if m.startswith('headcount.')])"
    paths = os.pathsep.join([str(installed), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", loaded],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "headcount.attacks" in done.stdout
    for room in ("evaluation", "mechanisms"):
        assert f"headcount.{room}" not in done.stdout


def test_an_attack_of_others_that_holds_the_truth_is_caught(installed: Path):
    module = installed / "toy_attack.py"
    more = "import numpy as np\nfrom headcount.evaluation import Truth\n"
    module.write_text(module.read_text().replace("import numpy as np\n", more))
    with pytest.raises(ContractError, match=r"imports headcount\.evaluation, and"):
        check_attack(ATTACKS.get("toy-first")())


def test_the_command_line_takes_them_by_name(tmp_path: Path, installed: Path):
    write_town(tmp_path)
    run = protect_run(write_config(tmp_path))
    asked = ["evaluate", str(run), "--metrics", "toy-above", "--attacks", "none"]
    done = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert done.exit_code == 0
    written = {one.name for one in (run / "internal" / "evaluation").iterdir()}
    assert written == {"toy-above.csv", "report.html"}


def broken(site: Path, module: str, method: str) -> None:
    """Let a method of theirs fail, with a message that has a count in it."""
    file = site / f"{module}.py"
    text = file.read_text()
    head, found, body = text.partition(f"    def {method}(")
    signature, colon, rest = body.partition(":\n")
    assert colon
    fails = "        raise ZeroDivisionError('of 4711')\n"
    file.write_text("".join([head, found, signature, colon, fails, rest]))


def test_a_mechanism_of_others_that_fails_is_named_and_its_message_is_not_shown(
    tmp_path: Path, installed: Path
):
    broken(installed, "toy_parts", "run")
    write_town(tmp_path)
    config = write_config(tmp_path, mechanism=MECHANISM)
    with pytest.raises(PluginError) as caught:
        protect_run(config)
    said = str(caught.value)
    assert said.startswith("mechanism 'toy-shifted' of toys 0.3: found a ZeroDivisionError at ")
    assert "toy_parts.py:" in said
    assert "4711" not in said
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    shown = CliRunner().invoke(app, ["protect", str(config)])
    assert isinstance(shown.exception, PluginError)


@pytest.mark.parametrize(
    ("module", "method", "name"),
    [("toy_parts", "compute", "toy-above"), ("toy_attack", "run", "toy-first")],
)
def test_a_measure_of_others_that_fails_is_left_out_and_nothing_else_is_lost(
    tmp_path: Path, installed: Path, module: str, method: str, name: str
):
    broken(installed, module, method)
    write_town(tmp_path)
    config = write_config(tmp_path)
    config.write_text(config.read_text() + MORE)
    evaluation = evaluate_run(protect_run(config)).evaluation
    (left_out,) = (one for one in evaluation.not_computed if one.name == name)
    assert left_out.why.partition("' of toys 0.3: found a ZeroDivisionError")[1]
    assert "error" in evaluation
    assert {"toy-above", "toy-first"} - {name} <= {one.name for one in evaluation}
