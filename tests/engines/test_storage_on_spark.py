"""A run on Spark whose files are in S3: workers have their own credentials, the release is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headcount.engines import EngineName
from headcount.run.protect import protect_run
from headcount.storage import storage_at
from headcount.storage.s3 import S3Storage
from tests.engines.spark import spark
from tests.run.town import contents, write_config, write_town
from tests.storage.stores import SECRET, bucket

pytestmark = pytest.mark.spark

TOPDOWN = 'name = "topdown"\nepsilon = 1\n[mechanism.queries]\ncells = { share = 1 }\n'
CREDENTIALS = {
    "spark.executorEnv.AWS_ACCESS_KEY_ID": "tests",
    "spark.executorEnv.AWS_SECRET_ACCESS_KEY": SECRET,
}


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with bucket() as uri:
        yield uri


def tables(town: Path, out: str, engine: EngineName, *, workspace: str = "") -> dict[str, bytes]:
    run = f"seed = 3\n{workspace}"
    made = protect_run(write_config(town, mechanism=TOPDOWN, run=run, out=out), engine=engine)
    found = contents(made / "release")
    return {name: data for name, data in found.items() if name.endswith(".parquet")}


def test_parts_and_truth_in_s3_give_the_release_of_a_disk_on_both_engines(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
):
    write_town(tmp_path)
    parts: list[str] = []
    real, workspace = S3Storage.put_if_absent, f'workspace = "{store}"'

    def noted(storage, name, data):
        if name.endswith(".arrow"):
            parts.append(name)
        return real(storage, name, data)

    monkeypatch.setattr(S3Storage, "put_if_absent", noted)
    expected = tables(tmp_path, "on-disk", "local")
    assert tables(tmp_path, "in-s3", "local", workspace=workspace) == expected
    assert sorted(parts) == ["county/0-2.arrow", "tract/0-5.arrow", "whole/0-1.arrow"]
    parts.clear()
    with spark(CREDENTIALS):
        assert tables(tmp_path, "in-s3-by-spark", "spark", workspace=workspace) == expected
    assert parts == ["whole/0-1.arrow"]  # workers wrote the others
    assert storage_at(store).names() == []
