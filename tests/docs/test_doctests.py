"""The examples in the docstrings of what users call."""

from __future__ import annotations

import doctest
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("name", ["Engine", "Handle", "make_session"])
def test_examples(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    from anabranch.spark import engine, session

    spark: SparkSession = request.getfixturevalue("spark" if name == "make_session" else "shared_spark")
    (tmp_path / "photons").mkdir()
    shutil.copy(ROOT / "examples" / "photons" / "photons.parquet", tmp_path / "photons")
    monkeypatch.chdir(tmp_path)
    module = session if name == "make_session" else engine
    (found,) = [
        test
        for test in doctest.DocTestFinder(recurse=False).find(
            getattr(module, name), name, module, extraglobs={"spark": spark}
        )
        if test.examples
    ]
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(found)
    assert runner.summarize(verbose=False).failed == 0
