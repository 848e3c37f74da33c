"""A stream as a job declares it becomes the stream of the model, once its columns are known.

A declaration has lengths in the units of `time`; a Stream has them in stored units (microseconds where `time`
is a timestamp). The times of subscriptions are brought into stored units likewise.
"""

from __future__ import annotations

import math
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from anabranch.model.job import LIVE_FORMATS, StreamDeclaration
from anabranch.model.limits import INT64_GREATEST, INT64_LEAST
from anabranch.model.stream import MICROSECONDS, Stream, Time
from anabranch.model.subscription import Moment
from anabranch.model.suggestions import shown, suggestion

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: The settings of a stream, as docs/queries.md describes them.
STREAM_SETTINGS = tuple(
    field.name
    for field in fields(Stream)
    if field.name not in ("name", "columns", "operators", "flow", "limits", "max_ahead")
)

#: Ticks are numbered from the first item on; of shorter ones there would be too many to number.
LEAST_TICK = 0.000001

_LENGTHS = ("lateness", "tick", "expire")

#: How many seconds ahead of the machine's clock an item of a live source may be, if the job does not say it.
DAY_S = 86_400


def declare(declaration: StreamDeclaration, columns: tuple[Column, ...]) -> Stream:
    """Returns the stream of a declaration whose source has these columns."""
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
    if settings.get("tick", 1) < LEAST_TICK:
        raise JobError(f"stream {name}: tick = {settings['tick']} is too short; it must be at least 0.000001")
    in_us = types.get(settings.get("time", "")) is ColumnType.TIMESTAMP
    for key in _LENGTHS:
        if settings.get(key) is not None:
            stored = _microseconds(settings[key]) if in_us else settings[key]
            settings[key] = _in_64_bits(stored, settings[key], f"stream {name}: {key}")
    if in_us:
        settings.setdefault("tick", MICROSECONDS)
    for setting in ("position", "apart"):
        if setting in settings:
            settings[setting] = tuple(settings[setting])
    _check_metric(name, settings)
    _set_max_step(declaration, types.get(settings.get("time", "")), settings)
    return Stream(name, columns, **settings, operators=declaration.operators, limits=declaration.limits)


def _set_max_step(
    declaration: StreamDeclaration, time_type: ColumnType | None, settings: dict[str, Any]
) -> None:
    """Timestamps of a live source are compared with the machine's clock, all other times with those before
    them.
    """
    stamped = time_type is ColumnType.TIMESTAMP
    with_clock = stamped and declaration.source.format in LIVE_FORMATS
    step = settings.pop("max_step", DAY_S if with_clock else None)
    if step is not None and step != "none":
        settings["max_ahead" if with_clock else "max_step"] = _microseconds(step) if stamped else step


def _check_metric(name: str, settings: dict[str, Any]) -> None:
    """A unit of length has a meaning only on a globe; there, positions are longitude and latitude."""
    if settings.get("metric") != "haversine":
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
    """Returns a time that a person gave, in the stored units of the stream's `time`. `what` names it in
    errors.
    """
    if moment is None:
        return None
    if stream.time is None:
        raise JobError(
            f"{what}: stream {stream.name} has no time; declare one (time = ...) or leave the time out"
        )
    if stream.time_type is ColumnType.TIMESTAMP:
        if isinstance(moment, datetime):
            return (utc(moment) - EPOCH) // timedelta(microseconds=1)
        return _in_64_bits(_microseconds(moment) if _is_finite(moment) else moment, moment, what)
    if isinstance(moment, datetime):
        raise JobError(
            f"{what}: {moment} is a date, but the time of stream {stream.name} ({stream.time}) is a number; "
            "give a number in its units"
        )
    if isinstance(moment, float) and stream.time_type is ColumnType.INT and _is_finite(moment):
        _in_64_bits(math.floor(moment), moment, what)
    return _in_64_bits(moment, moment, what)


def _is_finite(moment: Time) -> bool:
    return isinstance(moment, int) or math.isfinite(moment)


def _in_64_bits(stored: Time, given: Time, what: str) -> Time:
    """A time beyond what any item can have would end the job where it meets the items."""
    if not _is_finite(stored) or (isinstance(stored, int) and not INT64_LEAST <= stored <= INT64_GREATEST):
        raise JobError(f"{what}: {shown(given)} is beyond every time that an item can have (64 bits)")
    return stored


def utc(moment: datetime) -> datetime:
    """Returns a date and time with its offset; without one it is meant in UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _microseconds(seconds: Time) -> int:
    return round(seconds * MICROSECONDS)
