"""One Spark session for all tests that need one, started when the first of them asks for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.drawn import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]

# A test's JVM does not live long enough for its second compiler to pay: half the processor time of a run.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

# The first call of a kernel compiles it, or loads it from disk; how long that takes is no property.
hypothesis.settings.register_profile("without a deadline", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("without a deadline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks for the session is marked by that."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from anabranch.spark.session import make_session

    log = tmp_path_factory.mktemp("spark") / "spark.log"
    settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}
    jars = connector_jars()
    if jars:
        settings["spark.jars"] = jars
    session = make_session("anabranch tests", settings, 2, log)
    yield session
    session.stop()


#: The connector of pyspark's own version first; then the newest that Maven had when that one was missing
#: (docs/kafka.md).
CONNECTORS: tuple[dict[str, str], ...] = (
    {},
    {"ANABRANCH_KAFKA_CONNECTOR": "4.2.0", "ANABRANCH_KAFKA_TOKEN_PROVIDER": "4.0.0"},
)


@cache
def connector_jars() -> str:
    """The jars of Spark's Kafka connector, or nothing where Maven cannot be reached."""
    for versions in CONNECTORS:
        found = subprocess.run(
            [ROOT / "tools" / "kafka", "connector"], env=os.environ | versions, capture_output=True, text=True
        )
        if found.returncode == 0:
            return found.stdout.strip()
    return ""


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real broker on loopback."""
    if not connector_jars():
        pytest.skip("Maven cannot be reached: no Kafka connector for Spark")
    data = tmp_path_factory.mktemp("kafka")
    command = [str(ROOT / "tools" / "kafka"), "start", "--port", "0", "--data", str(data), "--background"]
    started = subprocess.run(command, capture_output=True, text=True)
    if started.returncode == 3:
        pytest.skip(f"Maven cannot be reached: {started.stderr.strip().splitlines()[-1]}")
    assert started.returncode == 0, started.stderr
    yield started.stdout.strip()
    subprocess.run([ROOT / "tools" / "kafka", "stop", "--data", str(data)], check=True, capture_output=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a real PostgreSQL server on loopback."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    data = tempfile.mkdtemp(prefix="anabranch-postgres-")  # pytest's own folders are closed to other users
    tool = str(ROOT / "tools" / "postgres")
    started = subprocess.run(
        [tool, "start", "--port", "0", "--data", data, "--background"], capture_output=True, text=True
    )
    if started.returncode == 3:
        shutil.rmtree(data)
        pytest.skip(started.stderr.strip().splitlines()[-1])
    assert started.returncode == 0, started.stderr
    yield started.stdout.strip()
    subprocess.run([tool, "stop", "--data", data], check=True, capture_output=True)
    shutil.rmtree(data)


@pytest.fixture
def postgres_catalog(postgres: str) -> str:
    """The URL of an empty schema for one catalog."""
    import psycopg

    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{postgres}?options=-csearch_path%3D{name}"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The recorded streams beside the project; tests that use them skip where they are absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the recorded streams are not beside the project")
    return folder
