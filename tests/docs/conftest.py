from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.service.conftest import *  # noqa: F403 (the fixtures that serve a sink at `address`)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shared_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session of all tests, also for code that makes one of its own.

    Spark reads relative paths from the folder in which the JVM was started. A reader starts it in the folder
    where the page's files are; here it was started elsewhere, so paths are made absolute.
    """
    from anabranch.spark.engine import Engine

    declare = Engine.stream

    def stream(engine: Engine, name: str, /, **settings: Any) -> Any:
        return declare(engine, name, **settings | {"path": os.path.abspath(settings["path"])})

    monkeypatch.setattr(Engine, "stream", stream)
    for module in ("anabranch.spark.session", "anabranch.spark.run"):
        monkeypatch.setattr(f"{module}.make_session", lambda *args, **settings: spark)
    return spark
