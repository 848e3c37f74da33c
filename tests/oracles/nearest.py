"""nearest, by brute force: the whole window is ranked again at every moment."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from anabranch.families.nearest.spec import Nearest
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from anabranch.numeric.globe import EARTH_RADIUS
from tests.laws.case import Asked, Case
from tests.oracles.clusters import place
from tests.oracles.conditions import holds, plain
from tests.oracles.stream_order import seen, stream_order

Row = dict[str, Any]

_OWN = ("at", "op", "id", "distance")


def nearest_oracle(case: Case) -> dict[str, list[Row]]:
    items, _ = stream_order(case.stream, case.items.to_pylist())
    return {asked.name: answer(case.stream, items, asked) for asked in case.queries}


def answer(stream: Stream, items: list[Row], asked: Asked) -> list[Row]:
    """Every moment at which the window changes, in order; between two of them the differences of the k
    nearest: first those that stop, nearest first, then those that become, nearest first.
    """
    spec = Nearest.from_json(asked.spec)
    eligible = []
    for item in seen(items, asked.after, asked.until):
        position = [plain(item[name]) for name in spec.by]
        if None in position or not holds(spec.condition, item):
            continue
        far = _distance(stream, spec, position)
        if far is not None:
            eligible.append({**item, "#distance": far})
    rows = []
    before: list[Row] = []
    for at, window in _moments(stream, items, eligible, spec.window, asked.until):
        after = sorted(window, key=lambda item: (item["#distance"], item["#"]))[: spec.k]
        rows += [_row(stream, at, "-", item) for item in before if item not in after]
        rows += [_row(stream, at, "+", item) for item in after if item not in before]
        before = after
    return rows


def _distance(stream: Stream, spec: Nearest, position: list[float]) -> float | None:
    """By the stream's position it is measured as the stream says; None beyond a pole."""
    if stream.metric != "haversine" or sorted(spec.by) != sorted(stream.position):
        return distance(position, spec.point)
    here, there = dict(zip(spec.by, position, strict=True)), dict(zip(spec.by, spec.point, strict=True))
    if abs(here[stream.position[1]]) > 90:
        return None
    chord = distance(list(place(stream, here)), place(stream, there))
    return 2 * EARTH_RADIUS[stream.unit or "km"] * math.asin(min(1.0, chord / 2))


def distance(position: list[float], point: tuple[float, ...]) -> float:
    total = 0.0
    for here, there in zip(position, point, strict=True):
        total += (float(here) - there) * (float(here) - there)
    return math.sqrt(total)


def _moments(
    stream: Stream, items: list[Row], eligible: list[Row], window: Window, cancel: Any
) -> list[tuple[Any, list[Row]]]:
    """(moment, the items in the window right after it): every arrival, and for RANGE every departure."""
    size = window.size
    if window.by_rows:
        return [
            (
                item["#"] if stream.time is None else item["#time"],
                eligible[max(0, index + 1 - int(size)) : index + 1],
            )
            for index, item in enumerate(eligible)
        ]
    # time moves no further than the last item of the stream, nor than the cancellation of the query
    last = max((item["#time"] for item in items), default=0)
    last = last if cancel is None else min(last, cancel)
    arrivals = [(item["#time"], 0, item["#"]) for item in eligible]
    departures = {(item["#time"] + size, 1, 0) for item in eligible if item["#time"] + size <= last}
    out = []
    for time, leaves, number in sorted([*arrivals, *departures]):
        if leaves:  # after all arrivals at this time
            inside = [item for item in eligible if item["#time"] <= time < item["#time"] + size]
        else:
            inside = [item for item in eligible if item["#"] <= number and time <= item["#time"] + size]
        out.append((time, inside))
    return out


def _row(stream: Stream, at: Any, op: str, item: Row) -> Row:
    row = {
        "at": _shown(stream, at),
        "op": op,
        "id": item["#"] if stream.id is None else item[stream.id],
        "distance": item["#distance"],
    }
    for column in stream.columns:
        if column.name == "id" == stream.id:
            continue
        row[f"item.{column.name}" if column.name in _OWN else column.name] = item[column.name]
    return row


def _shown(stream: Stream, at: Any) -> Any:
    if stream.time_type is ColumnType.TIMESTAMP:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
    return at
