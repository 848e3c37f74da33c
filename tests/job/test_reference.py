"""The reference of job.toml: every key is described, and its example is accepted."""

from __future__ import annotations

import tomllib
from collections import defaultdict

from anabranch.job.declarations import STREAM_SETTINGS
from anabranch.job.reference import job_reference
from anabranch.job.settings import SPARK_OPTIONS, SinkTable, SourceTable, StreamTable
from anabranch.model.job import SINK_FORMATS, SOURCE_FORMATS
from anabranch.model.limits import DEFAULT_LIMITS


def test_every_key_is_described_with_an_example() -> None:
    keys = defaultdict(list)
    for setting in job_reference():
        keys[setting.table].append(setting.key)
        assert setting.description.endswith("."), setting
        assert setting.must_be != "something else", setting
        assert list(tomllib.loads(setting.example)) == [setting.key], setting
    assert keys["[stream.NAME]"] == [
        "source",
        *sorted(STREAM_SETTINGS, key=list(StreamTable.model_fields).index),
    ]
    assert keys["[[subscription]]"] == ["name", "query", "activate", "cancel", "deliver"]
    assert list(keys) == [
        *("[stream.NAME]", "[stream.NAME] source", "[[subscription]]", "[sink]", "[engine]"),
        *("[limits]", "[operators.NAME]"),
    ]


def test_every_limit_can_be_set() -> None:
    assert [setting.key for setting in job_reference() if setting.table == "[limits]"] == list(
        DEFAULT_LIMITS.to_json()
    )


def test_defaults() -> None:
    defaults = {(setting.table, setting.key): setting.default for setting in job_reference()}
    assert defaults["[stream.NAME]", "source"] is None  # it has to be there
    assert defaults["[stream.NAME]", "id"] == ""
    assert defaults["[stream.NAME]", "regions"] == "[3, 3]"
    assert defaults["[stream.NAME]", "metric"] == '"euclidean"'


def test_every_format_has_its_keys() -> None:
    assert set(SourceTable.KEYS) == set(SOURCE_FORMATS) == {*SPARK_OPTIONS, "generator"}
    assert set(SinkTable.KEYS) == set(SINK_FORMATS)
