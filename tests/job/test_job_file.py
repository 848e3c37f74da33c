"""Job files that are right: what is read, with which defaults, from where."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from anabranch.job.declarations import declare, stored_time
from anabranch.job.job_file import load_job
from anabranch.job.sources import missing_paths, reads_own_results
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from anabranch.model.job import EngineSettings
from anabranch.model.operators import Operator
from anabranch.model.subscription import check_name
from tests.job.jobs import GOOD, changed, write_job


def test_a_good_job(tmp_path: Path) -> None:
    job = load_job(write_job(tmp_path))
    photons = job.streams["photons"]
    assert photons.source.format == "parquet"
    assert photons.source.path == str(tmp_path / "photons/*.parquet")
    assert photons.settings == {"time": "det_time", "position": ["ra", "dec"]}
    assert [(s.name, s.activate, s.cancel) for s in job.subscriptions] == [("vela", None, None)]
    assert job.sink.path == tmp_path / "out"
    assert job.engine == EngineSettings()


def test_paths_are_relative_to_the_file_not_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs").mkdir()
    write_job(tmp_path / "jobs", changed(('"photons/*', '"../photons/*'), ('"out"', '"/elsewhere/out"')))
    monkeypatch.chdir(tmp_path)
    job = load_job("jobs/job.toml")
    assert job.streams["photons"].source.path == str(tmp_path / "photons/*.parquet")
    assert str(job.sink.path) == "/elsewhere/out"


def test_urls_stay_and_file_urls_are_paths(tmp_path: Path) -> None:
    remote = load_job(write_job(tmp_path, changed(('"photons/*', '"s3a://bucket/photons/*'))))
    assert remote.streams["photons"].source.path == "s3a://bucket/photons/*.parquet"
    local = load_job(write_job(tmp_path, changed(('"photons/*', '"file:///data/*'))))
    assert local.streams["photons"].source.path == "/data/*.parquet"


def test_every_setting(tmp_path: Path) -> None:
    text = """
    [stream.units]
    source = { format = "csv", path = "u.csv", schema = "t long", header = true, options = { x = 5 } }
    time = "t"
    lateness = 2.5
    id = "t"
    position = ["x", "y"]
    object = "name"
    tick = 5
    regions = [[0, 0, 5, 5], [4, 4, 9, 9]]
    bounds = [[0, 9], [0, 9]]
    metric = "haversine"
    unit = "miles"
    expire = 60

    [stream.more]
    source = { format = "kafka", bootstrap = "localhost:9092", topic = "t", schema = "t long" }

    [sink]
    format = "kafka"
    bootstrap = "localhost:9092"
    topic = "answers"

    [engine]
    zones = 8
    trigger = 0.5
    shuffle_partitions = 4
    max_files_per_batch = 10
    max_bytes_per_batch = 1000000
    checkpoint = "state"
    spark = { "spark.ui.enabled" = true, spark.driver.memory = "2g" }
    """
    job = load_job(write_job(tmp_path, text))
    assert job.subscriptions == ()
    units = job.streams["units"]
    assert units.source.schema == "t long"
    assert units.source.options == {"path": str(tmp_path / "u.csv"), "header": True, "x": 5}
    assert units.settings["regions"] == ((0, 0, 5, 5), (4, 4, 9, 9))
    assert job.streams["more"].source.options == {"bootstrap": "localhost:9092", "topic": "t"}
    assert job.sink.path is None
    assert job.sink.options == {"bootstrap": "localhost:9092", "topic": "answers"}
    assert job.engine.checkpoint == tmp_path / "state"
    assert job.engine.spark == {"spark.ui.enabled": "true", "spark.driver.memory": "2g"}
    assert (job.engine.zones, job.engine.trigger, job.engine.shuffle_partitions) == (8, 0.5, 4)


@pytest.mark.parametrize(
    "source", ['format = "rate"', 'format = "generator", name = "photons", limit = 10, rate = 5']
)
def test_sources_without_a_path(tmp_path: Path, source: str) -> None:
    text = changed(('format = "parquet", path = "photons/*.parquet"', source))
    assert load_job(write_job(tmp_path, text)).streams["photons"].source.path is None


def test_times_of_a_subscription(tmp_path: Path) -> None:
    query = 'query = "SELECT * FROM photons"'
    text = GOOD + f'[[subscription]]\nname = "n"\n{query}\nactivate = 5\ncancel = 7.5\n'
    text += f'[[subscription]]\nname = "d"\n{query}\nactivate = 2026-01-01\ncancel = 2026-01-01T00:00:01Z\n'
    _, number, date = load_job(write_job(tmp_path, text)).subscriptions
    assert (number.activate, number.cancel) == (5, 7.5)
    assert (date.activate, date.cancel) == (datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC))


def test_a_byte_order_mark_and_names_in_any_script(tmp_path: Path) -> None:
    text = "\ufeff" + changed(('"vela"', '"Vela, ségment 2 / «β»"'))
    assert load_job(write_job(tmp_path, text)).subscriptions[0].name == "Vela, ségment 2 / «β»"


# --- declare and times ---

COLUMNS = (
    Column("det_time", ColumnType.FLOAT),
    Column("ra", ColumnType.FLOAT),
    Column("dec", ColumnType.FLOAT),
)


def test_declare_keeps_units_of_a_number(tmp_path: Path) -> None:
    job = load_job(write_job(tmp_path, changed(('time = "det_time"', 'time = "det_time"\nlateness = 2.5'))))
    stream = declare(job.streams["photons"], COLUMNS)
    assert (stream.lateness, stream.tick, stream.position) == (2.5, 1, ("ra", "dec"))


def test_declare_turns_seconds_into_microseconds_for_a_timestamp(tmp_path: Path) -> None:
    job = load_job(
        write_job(tmp_path, changed(('time = "det_time"', 'time = "det_time"\nlateness = 2.5\nexpire = 60')))
    )
    stream = declare(job.streams["photons"], (Column("det_time", ColumnType.TIMESTAMP), *COLUMNS[1:]))
    assert (stream.lateness, stream.tick, stream.expire) == (2_500_000, 1_000_000, 60_000_000)
    assert stored_time(stream, 1.5, "activate") == 1_500_000
    assert (
        stored_time(stream, datetime(1970, 1, 1, 0, 0, 2, 7), "activate") == 2_000_007
    )  # without an offset: UTC
    assert stored_time(stream, None, "activate") is None


def test_declare_names_the_column_that_was_probably_meant(tmp_path: Path) -> None:
    job = load_job(write_job(tmp_path, changed(('time = "det_time"', 'time = "dettime"'))))
    with pytest.raises(
        JobError, match=r"stream photons: time = 'dettime' .* did you mean 'det_time'\? There are: det_time"
    ):
        declare(job.streams["photons"], COLUMNS)


def test_a_date_for_a_stream_whose_time_is_a_number(tmp_path: Path) -> None:
    stream = declare(load_job(write_job(tmp_path)).streams["photons"], COLUMNS)
    with pytest.raises(
        JobError, match="activate: 2026-01-01 00:00:00 is a date, but the time of stream photons"
    ):
        stored_time(stream, datetime(2026, 1, 1), "activate")


def test_a_time_for_a_stream_without_one(tmp_path: Path) -> None:
    job = load_job(write_job(tmp_path, changed(('time = "det_time"\n', ""))))
    with pytest.raises(JobError, match="stream photons has no time"):
        stored_time(declare(job.streams["photons"], COLUMNS), 5, "activate")


# --- names and paths ---


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "a\tb", "\x7f", "x" * 201, "a\u2028b"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(JobError, match=r"cannot be called .* its name must be a text of 1 to 200 characters"):
        check_name(name)


@pytest.mark.parametrize("name", ["a", "x" * 200, "a b", "../a", "a/b#1", "é", "[red]"])
def test_names_that_can(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("path", "reads"),
    [
        ("/d/out", True),
        ("/d/out/*", True),
        ("/d", True),
        ("/d/*", True),
        ("/*/out", True),
        ("/d/out/results/photons", True),
        ("/d/in", False),
        ("/d/*.parquet", False),
        ("/d/in/*/x.json", False),
        ("/d/out2", False),
        ("s3a://d/out", False),
    ],
)
def test_whether_a_job_would_read_its_own_results(path: str, reads: bool) -> None:
    assert reads_own_results(path, Path("/d/out")) is reads


def test_missing_paths(tmp_path: Path) -> None:
    job = load_job(write_job(tmp_path))
    (error,) = missing_paths(job)
    assert f"stream photons: nothing matches {tmp_path}/photons/*.parquet (there is {tmp_path})" in str(error)
    (tmp_path / "photons").mkdir()
    (tmp_path / "photons" / "1.parquet").touch()
    assert not list(missing_paths(job))


def test_a_stream_with_a_schema_may_begin_before_its_files(tmp_path: Path) -> None:
    text = changed(("photons/*.parquet", "nowhere"), ('" }', '", schema = "det_time double" }'))
    assert not list(missing_paths(load_job(write_job(tmp_path, text))))


def test_declare_a_globe(tmp_path: Path) -> None:
    globe = 'metric = "haversine"'
    job = load_job(
        write_job(tmp_path, changed(('time = "det_time"', f'time = "det_time"\n{globe}\nunit = "m"')))
    )
    stream = declare(job.streams["photons"], COLUMNS)
    assert (stream.metric, stream.unit) == ("haversine", "m")
    for settings, said in ({"unit": "m"}, "haversine"), ({"metric": "haversine"}, "longitude, latitude"):
        declaration = replace(job.streams["photons"], settings=settings)
        with pytest.raises(JobError, match=said):
            declare(declaration, COLUMNS)


def test_operators(tmp_path: Path) -> None:
    text = (
        GOOD
        + """
    [operators]
    scale = "my.module:scale"
    word = { function = "other:Class.word", type = "string" }
    """
    )
    operators = load_job(write_job(tmp_path, text)).streams["photons"].operators
    assert operators == (
        Operator("scale", "my.module:scale"),
        Operator("word", "other:Class.word", ColumnType.STRING),
    )
    assert {operator.folder for operator in operators} == {str(tmp_path)}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('scale = "scale"', "must be module:function"),
        ("scale = 5", "scale = 5 cannot be; it must be a text module:function"),
        ('scale = { type = "float" }', "function"),
        ('scale = { function = "m:f", type = "real" }', "type"),
        ('Scale = "m:f"', "cannot be called 'Scale'"),
    ],
)
def test_operators_that_are_wrong(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(JobError) as caught:
        load_job(write_job(tmp_path, f"{GOOD}\n[operators]\n{line}\n"))
    assert said in str(caught.value)
