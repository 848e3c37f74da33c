"""A stream as a job declares it becomes the stream of the model, once its columns are known.

In: settings with lengths in the units of `time`, and columns. Out: a Stream with lengths in stored units
(microseconds where `time` is a timestamp), and times of subscriptions likewise. Never: a look at where the
stream comes from.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from anabranch.catalog import reading
from anabranch.catalog.reading import Check, Wrong, suggestion
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from anabranch.model.job import StreamDeclaration
from anabranch.model.stream import MICROSECONDS, Stream, Time
from anabranch.model.subscription import Moment

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
METRICS = ("euclidean", "haversine")
UNITS = ("km", "m", "miles")


def _numbers(value: Any, size: int, wanted: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != size:
        raise Wrong(wanted)
    for entry in value:
        if isinstance(entry, bool) or not isinstance(entry, int | float) or not math.isfinite(entry):
            raise Wrong(wanted)
    return value


def _bounds(value: Any) -> tuple[tuple[float, float], ...]:
    wanted = "a pair [least, greatest] a coordinate, such as [[0, 360], [-90, 90]]"
    if not isinstance(value, list) or not value:
        raise Wrong(wanted)
    pairs = [_numbers(entry, 2, wanted) for entry in value]
    if any(low >= high for low, high in pairs):
        raise Wrong(wanted)
    return tuple((float(low), float(high)) for low, high in pairs)


def _regions(value: Any) -> tuple[Any, ...]:
    wanted = (
        "[columns, rows] such as [3, 3], or a list of rectangles [least x, least y, greatest x, greatest y]"
    )
    if not isinstance(value, list) or not value:
        raise Wrong(wanted)
    if isinstance(value[0], list):
        boxes = [tuple(map(float, _numbers(entry, 4, wanted))) for entry in value]
        if any(low_x >= high_x or low_y >= high_y for low_x, low_y, high_x, high_y in boxes):
            raise Wrong(wanted)
        return tuple(boxes)
    if not all(isinstance(entry, int) and entry >= 1 for entry in _numbers(value, 2, wanted)):
        raise Wrong(wanted)
    return tuple(value)


#: The settings of a stream in a job file, and what each must be.
STREAM_CHECKS: dict[str, Check] = {
    "time": reading.text,
    "lateness": reading.at_least_zero,
    "id": reading.text,
    "position": reading.texts,
    "object": reading.text,
    "tick": reading.above_zero,
    "regions": _regions,
    "bounds": _bounds,
    "metric": reading.one_of(METRICS),
    "unit": reading.one_of(UNITS),
    "expire": reading.above_zero,
}

_LENGTHS = ("lateness", "tick", "expire")


def declare(declaration: StreamDeclaration, columns: tuple[Column, ...]) -> Stream:
    """The stream of a declaration whose source has these columns."""
    name, settings = declaration.name, dict(declaration.settings)
    names = [column.name for column in columns]
    for setting in ("time", "id", "object", "position"):
        wanted = settings.get(setting, ())
        for column in (wanted,) if isinstance(wanted, str) else wanted:
            if column not in names:
                raise JobError(
                    f"stream {name}: {setting} = {column!r} is not one of its "
                    f"columns{suggestion(column, names)}"
                )
    types = {column.name: column.type for column in columns}
    if types.get(settings.get("time", "")) is ColumnType.TIMESTAMP:
        settings |= {key: _microseconds(settings[key]) for key in _LENGTHS if key in settings}
        settings.setdefault("tick", MICROSECONDS)
    if "position" in settings:
        settings["position"] = tuple(settings["position"])
    _check_metric(name, settings)
    return Stream(name, columns, **settings, operators=declaration.operators)


def _check_metric(name: str, settings: dict[str, Any]) -> None:
    """A unit of length says something only on a globe; there, positions are longitude and latitude."""
    if settings.get("metric", METRICS[0]) != "haversine":
        if "unit" in settings:
            raise JobError(
                f'stream {name}: unit = {settings["unit"]!r} goes with metric = "haversine"; '
                "euclidean distances are in the units of the position"
            )
    elif len(settings.get("position", ())) != 2:
        raise JobError(
            f'stream {name}: metric = "haversine" needs two columns as position: [longitude, latitude]'
        )


def stored_time(stream: Stream, moment: Moment | None, what: str) -> Time | None:
    """A time that a person gave, in the stored units of the stream's `time`. `what` names it in errors."""
    if moment is None:
        return None
    if stream.time is None:
        raise JobError(
            f"{what}: stream {stream.name} has no time; declare one (time = ...) or leave the time out"
        )
    if stream.time_type is ColumnType.TIMESTAMP:
        if isinstance(moment, datetime):
            return (utc(moment) - EPOCH) // timedelta(microseconds=1)
        return _microseconds(moment)
    if isinstance(moment, datetime):
        raise JobError(
            f"{what}: {moment} is a date, but the time of stream {stream.name} ({stream.time}) is a number; "
            "give a number in its units"
        )
    return moment


def utc(moment: datetime) -> datetime:
    """A date and time without an offset is meant in UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _microseconds(seconds: Time) -> int:
    return round(seconds * MICROSECONDS)
