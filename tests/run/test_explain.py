"""A page about a release: what it says of each kind, and that a published one knows no more."""

from __future__ import annotations

import re
import shutil
from fractions import Fraction
from math import exp
from pathlib import Path

import pytest

from headcount.cli.app import app
from headcount.errors import RunError
from headcount.noise import TwoSidedGeometric
from headcount.noise.laws import reach
from headcount.run.explain import explain_runs
from headcount.run.protect import protect_run
from tests.run.town import LEDGER, MICRODATA, contents, make_ledger, write_config, write_town

SUPPRESSION = (
    'name = "suppression"\nrule = "complementary"\ntables = { ages = ["sex", "age"] }\n'
    'lowest = "tract"'
)
ROUNDING = 'name = "rounding"\nbase = 5\ntables = { ages = ["sex", "age"] }'


def made(folder: Path, mechanism: str, *, run: str = "", out: str = "out") -> Path:
    """A finished run of a town."""
    if not (folder / "people.csv").exists():
        write_town(folder)
    config = write_config(folder, mechanism=mechanism, run=run, out=out, name=f"{out}.toml")
    protect_run(config)
    return folder / out


def said(run: Path, **more: object) -> str:
    """The text of a page, in one line."""
    return " ".join(explain_runs([run], **more).text.split())  # type: ignore[arg-type]


def test_the_odds_are_those_of_the_guarantee_and_the_noise_that_of_the_receipt(tmp_path: Path):
    run = made(tmp_path, 'name = "geometric"\nepsilon = 1')
    text = explain_runs([run]).text
    changed, added = (100 * e / (1 + e) for e in (exp(1), exp(0.5)))
    row = next(line for line in text.splitlines() if line.startswith("1 in 2 "))
    for found, exact in zip(row.split()[3:], (changed, added), strict=True):
        assert 0 <= float(found) - exact < 0.01
    cell = reach(TwoSidedGeometric(Fraction(1, 2)))
    groups = [line for line in text.splitlines() if line.startswith("every cell")]
    assert float(groups[-1].split()[4]) == cell
    words = " ".join(text.split())
    assert "epsilon 1 when one person's record changes" in words
    assert "random noise on every count of the smallest places" in words
    assert "Not covered: other releases about the same people" in words
    assert re.search(r"SHA-256 of the manifest [0-9a-f]{16}\.", words)
    assert "Nothing is published as it was counted." in words
    assert "No ledger was named" in words


def test_topdown_says_what_is_exact_and_how_sure_of_one_attribute(tmp_path: Path):
    run = made(
        tmp_path,
        'name = "topdown"\nrho = "1/8"\ninvariant = [{ query = "total", level = "whole" }]',
    )
    done = explain_runs([run])
    words = " ".join(done.text.split())
    assert "The bound may fail with a chance of 1 in 10 billion (rho)." in words
    assert "Of one attribute, for somebody who knows all the rest of the record." in words
    assert "Nothing is published as it was counted" not in words
    row = next(line for line in done.text.splitlines() if line.startswith("total"))
    assert row.split() == ["total", "60", "0", "0", "yes"]
    assert "lose k squared times the rho" in words
    assert "16 trial releases on the published counts, as if they were true" in words
    page = done.page.read_text()
    assert "vegaEmbed=" not in page  # no figure, no library
    assert len(page) < 100_000


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        (SUPPRESSION, ("of them withheld", "Every count that is published is as it was counted")),
        (ROUNDING, ("the true count is at most 4 lower or 4 higher", "multiples of a base")),
        (
            'name = "identity"',
            ("no protection at all", "By formula, from the settings of the noise."),
        ),
    ],
)
def test_methods_without_a_guarantee_say_so_and_state_no_odds(tmp_path: Path, mechanism, words):
    run = made(tmp_path, mechanism)
    text = said(run)
    assert "WARNING: No formal guarantee: nothing bounds what the release gives away" in text
    assert "So no odds can be stated." in text
    assert "(no formal guarantee)" in text
    assert "1 in 100" not in text
    for one in words:
        assert one in text


def test_a_page_to_publish_follows_from_the_release_alone(tmp_path: Path):
    make_ledger(tmp_path)
    run = made(tmp_path, 'name = "geometric"\nepsilon = 0.5', run=LEDGER, out="secret-name")
    published = explain_runs([run], publish=True)
    assert published.page.parent == run / "explained"
    copy = tmp_path / "elsewhere"
    shutil.copytree(run / "release", copy)
    again = explain_runs([copy], publish=True, out=tmp_path / "again")
    assert contents(published.page.parent) == contents(again.page.parent)
    page = published.page.read_text() + published.text
    own = explain_runs([run])
    assert own.page.parent == run / "internal" / "explained"
    # What only the house's own page has: the name of the run, the ledger, the banner.
    for only_here in ("secret-name", "remaining", "computed from confidential data"):
        assert only_here in own.page.read_text()
        assert only_here not in page
    assert "Total 2, spent 0.5" in " ".join(own.text.split())


def test_a_seeded_run_is_not_private_and_has_no_page_to_publish(tmp_path: Path):
    run = made(tmp_path, 'name = "geometric"\nepsilon = 1', run="seed = 1")
    text = said(run)
    assert "WARNING: Not private, do not publish: the noise comes from a seed" in text
    assert "1 in 100" not in text
    assert "how sure somebody can become" not in text
    with pytest.raises(RunError, match="found a seeded run, expected a release to publish"):
        explain_runs([run], publish=True)


def test_several_releases_add_up_where_they_can(tmp_path: Path):
    make_ledger(tmp_path)
    first = made(tmp_path, 'name = "geometric"\nepsilon = 0.5', run=LEDGER, out="first")
    second = made(tmp_path, 'name = "geometric"\nepsilon = 0.25', run=LEDGER, out="second")
    text = explain_runs([first, second]).text
    words = " ".join(text.split())
    assert "their losses add up to epsilon 0.75 when one person's record changes" in words
    together = 100 * exp(0.75) / (1 + exp(0.75))
    rows = [line for line in text.splitlines() if line.startswith("1 in 2 ")]
    assert 0 <= float(rows[0].split()[3]) - together < 0.01
    assert len(rows) == 3
    bare = made(tmp_path, SUPPRESSION, run=LEDGER, out="bare")
    words = " ".join(explain_runs([first, bare], out=tmp_path / "both").text.split())
    assert "Together they have no formal guarantee, because bare has none." in words


def test_an_epsilon_and_a_rho_add_up_as_rhos(tmp_path: Path):
    first = made(tmp_path, 'name = "geometric"\nepsilon = 1', out="first")
    other = tmp_path / "other"
    other.mkdir()
    second = made(other, 'name = "topdown"\nrho = "1/2"', out="second")
    words = " ".join(explain_runs([first, second], out=tmp_path / "both").text.split())
    assert "their losses add up to rho 1 when one person's record changes" in words


def test_a_chain_names_its_steps(tmp_path: Path):
    write_town(tmp_path)
    config = tmp_path / "chain.toml"
    config.write_text(
        f'[population]\n{MICRODATA}\n[[mechanism]]\nname = "sampling"\nfraction = "1/2"\n'
        '[[mechanism]]\nname = "geometric"\nepsilon = 1\n[run]\nout = "out"\n'
    )
    protect_run(config)
    text = said(tmp_path / "out")
    assert "some of the people, drawn at random; then Geometric: random noise" in text
    assert "Nothing that is published says how far off counts are" in text


def test_nothing_is_written_into_a_release(tmp_path: Path):
    run = made(tmp_path, 'name = "geometric"\nepsilon = 1')
    for out in (run / "release", run / "release" / "page"):
        with pytest.raises(RunError, match="found a release, whose files stay as they are"):
            explain_runs([run], out=out)
    with pytest.raises(RunError, match="found no release, expected a directory made by"):
        explain_runs([tmp_path])


def test_the_command_prints_the_page_and_where_it_is(tmp_path: Path):
    from typer.testing import CliRunner

    run = made(tmp_path, 'name = "geometric"\nepsilon = 1')
    result = CliRunner().invoke(app, ["explain", str(run), "--publish"])
    assert result.exit_code == 0, result.output
    assert "What it promises" in result.output
    assert f"page: {run / 'explained' / 'page.html'}" in result.output
    quiet = CliRunner().invoke(app, ["explain", str(run), "--quiet"])
    assert "What it promises" not in quiet.output
    assert "page.txt" in quiet.output
