"""moving, by brute force: at every tick, from the last report of every object (docs/queries.md, moving).

Choices that docs/queries.md leaves open, the same as the family's:
- within a tick, `-` rows come before `+` rows, each by object name;
- a report without a name or with a coordinate that is missing or not finite (on a globe: no latitude) is no
  report;
- a focal object that is gone leaves its queries without an answer: the members leave, with no distance, and a
  value is missing;
- a min or max is a coordinate and the object that has it: it comes out when either changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from anabranch.families.moving.spec import Box, Circle, KNearest, Moving
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from tests.laws.case import Asked, Case
from tests.oracles.conditions import holds, plain
from tests.oracles.stream_order import stream_order

Row = dict[str, Any]
Point = tuple[float, float]

EARTH_RADIUS = {"km": 6371.0088, "m": 6371008.8, "miles": 6371.0088 / 1.609344}


def moving_oracle(case: Case) -> dict[str, list[Row]]:
    items, _ = stream_order(case.stream, case.items.to_pylist())
    seen = [item for item in items if any(_runs(asked, item["#time"]) for asked in case.queries)]
    return {asked.name: _answer(case.stream, items, seen, asked) for asked in case.queries}


def _runs(asked: Asked, time: Any) -> bool:
    """Whether a query runs when an item of this time comes. Items that come while none runs are not seen."""
    return (asked.after is None or time > asked.after) and (asked.until is None or time <= asked.until)


def _answer(stream: Stream, items: list[Row], seen: list[Row], asked: Asked) -> list[Row]:
    spec = Moving.from_json(asked.spec)
    before: set[Any] = set()  # the answer at the last tick
    value: tuple[Any, Any] = (None, None)
    rows: list[Row] = []
    for tick in _ticks(stream, items):
        if (asked.after is not None and tick <= asked.after) or (
            asked.until is not None and tick > asked.until
        ):
            continue
        last = {
            item[stream.object]: item for item in seen if item["#time"] <= tick and _is_report(stream, item)
        }
        known = {name: item for name, item in last.items() if not _gone(stream, item, tick)}
        focal = _focal(stream, spec, known)
        now = _members(stream, spec, known, focal)
        if spec.value is not None:
            if _value(stream, spec, known, now, focal) != value:
                value = _value(stream, spec, known, now, focal)
                rows.append({"at": _shown(stream, tick), "value": value[0], "object": value[1]})
            continue
        for op, names in (("-", before - now), ("+", now - before)):
            for name in sorted(names):
                x, y = _position(stream, last[name])
                row = {"at": _shown(stream, tick), "op": op, "object": name, "x": x, "y": y}
                row["distance"] = None if focal is None else _distance(stream, (x, y), focal)
                if isinstance(spec.shape, KNearest):
                    row["complete"] = len(now) == spec.shape.k
                rows.append(row)
        before = now
    return rows


def _ticks(stream: Stream, items: list[Row]) -> Iterator[Any]:
    n = 0
    while items and items[0]["#time"] + n * stream.tick <= items[-1]["#time"]:
        yield items[0]["#time"] + n * stream.tick
        n += 1


def _is_report(stream: Stream, item: Row) -> bool:
    x, y = (plain(item[column]) for column in stream.position)
    if item[stream.object] is None or x is None or y is None or not math.isfinite(x) or not math.isfinite(y):
        return False
    return stream.metric != "haversine" or abs(y) <= 90


def _gone(stream: Stream, item: Row, tick: Any) -> bool:
    return stream.expire is not None and tick - item["#time"] > stream.expire


def _position(stream: Stream, item: Row) -> Point:
    x, y = stream.position
    return float(item[x]), float(item[y])


def _focal_name(stream: Stream, spec: Moving) -> Any:
    if not isinstance(spec.focal, str):
        return None
    return int(spec.focal) if stream.type_of(stream.object) is ColumnType.INT else spec.focal


def _focal(stream: Stream, spec: Moving, known: dict[Any, Row]) -> Point | None:
    if not isinstance(spec.focal, str):
        return spec.focal
    item = known.get(_focal_name(stream, spec))
    return None if item is None else _position(stream, item)


def _members(stream: Stream, spec: Moving, known: dict[Any, Row], focal: Point | None) -> set[Any]:
    if focal is None:
        return set()
    able = {
        name: _position(stream, item)
        for name, item in known.items()
        if name != _focal_name(stream, spec) and holds(spec.condition, item)
    }
    match spec.shape:
        case Circle(radius=radius):
            return {name for name, point in able.items() if _distance(stream, point, focal) <= radius}
        case Box(width=width, height=height):
            return {name for name, point in able.items() if _in_box(stream, point, focal, width, height)}
        case KNearest(k=k):
            return set(sorted(able, key=lambda name: (_distance(stream, able[name], focal), name))[:k])


def _value(
    stream: Stream, spec: Moving, known: dict[Any, Row], now: set[Any], focal: Point | None
) -> tuple[Any, Any]:
    """(value, the object that has it); (None, None) is a missing value."""
    if focal is None:
        return None, None
    if spec.value == "count":
        return len(now), None
    if not now:
        return None, None
    axis = 0 if spec.value in ("min(x)", "max(x)") else 1
    sign = 1 if spec.value in ("min(x)", "min(y)") else -1
    best, name = min((sign * _position(stream, known[name])[axis], name) for name in now)
    return sign * best, name


def _in_box(stream: Stream, point: Point, focal: Point, width: float, height: float) -> bool:
    dx, dy = abs(point[0] - focal[0]), abs(point[1] - focal[1])
    if stream.metric == "haversine":
        degree = math.pi / 180 * _radius(stream)
        dx = abs(math.remainder(point[0] - focal[0], 360)) * math.cos(math.radians(focal[1])) * degree
        dy = dy * degree
    return dx <= width / 2 and dy <= height / 2


def _distance(stream: Stream, point: Point, focal: Point) -> float:
    if stream.metric != "haversine":
        dx, dy = point[0] - focal[0], point[1] - focal[1]
        return math.sqrt(dx * dx + dy * dy)
    lat, focal_lat = math.radians(point[1]), math.radians(focal[1])
    across = math.sin(math.radians(math.remainder(point[0] - focal[0], 360)) / 2)
    along = math.sin((lat - focal_lat) / 2)
    chord = along * along + math.cos(lat) * math.cos(focal_lat) * across * across
    return 2 * _radius(stream) * math.asin(min(1.0, math.sqrt(chord)))


def _radius(stream: Stream) -> float:
    return EARTH_RADIUS[stream.unit or "km"]


def _shown(stream: Stream, tick: Any) -> Any:
    if stream.time_type is ColumnType.TIMESTAMP:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=tick)
    return tick
