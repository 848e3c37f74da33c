"""Streams: what a declaration may say about the columns."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream

COLUMNS = (Column("t", ColumnType.TIMESTAMP), Column("x", ColumnType.FLOAT), Column("s", ColumnType.STRING))


def test_units_of_time() -> None:
    assert Stream("s", COLUMNS, time="t").time_unit == 1_000_000
    assert Stream("s", COLUMNS, time="x").time_unit == 1
    assert Stream("s", COLUMNS).time_type is None


def test_columns_by_name() -> None:
    stream = Stream("s", COLUMNS)
    assert stream.type_of("x") is ColumnType.FLOAT
    assert stream.column("nothing") is None
    with pytest.raises(KeyError):
        stream.type_of("nothing")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"time": "z"}, "time = 'z' is not one of its columns"),
        ({"time": "s"}, "must be a number or a timestamp"),
        ({"id": "z"}, "id = 'z'"),
        ({"object": "z"}, "object = 'z'"),
        ({"position": ("x", "z")}, "position column 'z' is not one of its columns"),
        ({"position": ("s",)}, "position column 's' is a string, not a number"),
        ({"time": "x", "lateness": -1}, "lateness must not be negative"),
    ],
)
def test_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(JobError, match="stream units: ") as caught:
        Stream("units", COLUMNS, **settings)
    assert said in str(caught.value)


def test_names_of_columns() -> None:
    with pytest.raises(JobError, match="must not begin with #"):
        Stream("s", (Column("#n", ColumnType.INT),))
    with pytest.raises(JobError, match="column 'x' is there twice"):
        Stream("s", (Column("x", ColumnType.INT), Column("x", ColumnType.INT)))
