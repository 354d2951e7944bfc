"""Seeded releases of a run directory are the same to the bit when Spark makes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.spark import spark
from tests.golden.scenes import NAMES, in_directory, published
from tests.golden.test_golden_releases import written

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def context() -> Iterator[Any]:
    with spark() as made:
        yield made


@pytest.mark.parametrize("name", NAMES)
def test_on_spark(name: str, tmp_path: Path, context: Any):
    assert published(in_directory(name, tmp_path, engine="spark")) == written(name)
