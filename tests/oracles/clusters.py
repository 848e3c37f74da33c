"""clusters, by brute force: every window by itself, every pair of its points, as docs/queries.md says."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import AtEnd
from tests.laws.case import Asked, Case
from tests.oracles.cluster_changes import changes
from tests.oracles.conditions import holds, plain
from tests.oracles.moving import EARTH_RADIUS
from tests.oracles.stream_order import seen, stream_order

Row = dict[str, Any]
Window = tuple[Any, Any, list[Row]]  # start, end, items in stream order
Member = tuple[int, str]  # cluster, role


def clusters_oracle(case: Case) -> dict[str, list[Row]]:
    items, _ = stream_order(case.stream, case.items.to_pylist())
    return {asked.name: _results(case.stream, items, asked) for asked in case.queries}


def _results(stream: Stream, items: list[Row], asked: Asked) -> list[Row]:
    spec = Clusters.from_json(asked.spec)
    windows = [(start, end, rows) for start, end, rows in windows_of(spec, items, asked, stream) if rows]
    out: list[Row] = []
    past: dict[int, Member] = {}  # number of the item -> cluster, role
    names: dict[int, Any] = {}
    next_number = 1
    for start, end, rows in windows:
        found = clusters_of(spec, rows, stream)
        frame = {"window_start": _shown(stream, spec, start), "window_end": _shown(stream, spec, end)}
        names.update({row["#"]: row[stream.id or "#"] for row in rows})
        if spec.emit is Emit.MEMBERS:
            for number, (cluster, role) in sorted(
                found.items(), key=lambda member: (member[1][0], member[0])
            ):
                out.append({**frame, "cluster": cluster, "id": names[number], "role": role})
        elif spec.emit is Emit.SUMMARY:
            out += [{**frame, **line} for line in _summary(stream, spec, rows, found)]
        else:
            changed, past, next_number = changes(past, found, next_number)
            out += [{**frame, **line, "id": names[line["id"]]} for line in changed]
    return out


def windows_of(spec: Clusters, items: list[Row], asked: Asked, stream: Stream | None = None) -> list[Window]:
    """The windows that come out, full ones first, with the points of each."""
    points = [item for item in seen(items, asked.after, asked.until) if _eligible(spec, item, stream)]
    cancelled = asked.until is not None and any(item["#time"] > asked.until for item in items)
    if not items:
        return []
    size, step = spec.window.size, spec.window.step
    full: list[Window] = []
    rest: list[Window] = []  # not full, and holding at least one point
    index = 0
    if spec.window.by_rows:
        while index * step < len(points):
            start = index * step
            (full if start + size <= len(points) else rest).append(
                (start, start + size, points[start : start + size])
            )
            index += 1
    else:
        origin, last = items[0]["#time"], items[-1]["#time"]
        reached = asked.until if cancelled else last
        while origin + index * step <= last:
            start, end = origin + index * step, origin + index * step + size
            index += 1
            if asked.after is None or start > asked.after:
                inside = [point for point in points if start <= point["#time"] < end]
                (full if end <= reached else rest).append((start, end, inside))
        rest = [window for window in rest if window[2]]
    if cancelled or spec.window.end is AtEnd.CUT:
        return full
    if spec.window.end is AtEnd.RUN:
        return full + rest
    nothing_remains = spec.window.by_rows and bool(full) and full[-1][1] == len(points)
    return full if nothing_remains else full + rest[:1]


def _eligible(spec: Clusters, item: Row, stream: Stream | None) -> bool:
    if not holds(spec.condition, item) or any(plain(item[name]) is None for name in spec.by):
        return False
    return stream is None or not _is_on_globe(stream, spec) or abs(item[stream.position[1]]) <= 90


def _is_on_globe(stream: Stream, spec: Clusters) -> bool:
    return stream.metric == "haversine" and sorted(spec.by) == sorted(stream.position)


def place(stream: Stream, row: Row) -> tuple[float, float, float]:
    """The point of the unit sphere; the same place has the same numbers, whatever its longitude is called."""
    longitude, latitude = (float(row[name]) for name in stream.position)
    longitude = math.fmod(longitude, 360)
    longitude = longitude - 360 if longitude >= 180 else longitude + 360 if longitude < -180 else longitude
    across = 0.0 if abs(latitude) == 90 else math.cos(math.radians(latitude))
    east = min(abs(longitude), 180 - abs(longitude))  # as far to both sides of 180 and 90 degrees
    along, beside = math.cos(math.radians(east)), math.sin(math.radians(east))
    if east > 45:
        along, beside = math.sin(math.radians(90 - east)), math.cos(math.radians(90 - east))
    return (
        across * (along if abs(longitude) <= 90 else -along),
        across * math.copysign(beside, longitude),
        math.sin(math.radians(latitude)),
    )


def distance(spec: Clusters, one: Row, other: Row, stream: Stream | None = None) -> float:
    """On a globe the chord, which is exact where the way along the surface would be rounded once more."""
    if stream is not None and _is_on_globe(stream, spec):
        pairs = list(zip(place(stream, one), place(stream, other), strict=True))
    else:
        pairs = [(one[name], other[name]) for name in spec.by]
    return math.sqrt(sum((here - there) ** 2 for here, there in pairs))


def reach_of(spec: Clusters, stream: Stream | None = None) -> float:
    if stream is None or not _is_on_globe(stream, spec):
        return spec.range
    angle = spec.range / EARTH_RADIUS[stream.unit or "km"]
    return 2 * math.sin(angle / 2) if angle < math.pi else math.inf


def clusters_of(spec: Clusters, rows: list[Row], stream: Stream | None = None) -> dict[int, Member]:
    """Number of the item -> (cluster, role), for members; clusters count from 1 by their earliest member."""
    reach = reach_of(spec, stream)
    near = {
        row["#"]: [
            other["#"] for other in rows if other is not row and distance(spec, row, other, stream) <= reach
        ]
        for row in rows
    }
    by_number = {row["#"]: row for row in rows}
    cores = {number for number, others in near.items() if len(others) >= spec.count}
    group = {number: number for number in cores}  # the least core that a core is connected with
    changed = True
    while changed:
        changed = False
        for number in sorted(cores):
            least = min([group[number], *(group[other] for other in near[number] if other in cores)])
            if least < group[number]:
                group[number], changed = least, True
    of: dict[int, tuple[int, str]] = {number: (group[number], "core") for number in cores}
    for number, others in near.items():
        candidates = [other for other in others if other in cores]
        if number not in cores and candidates:
            nearest = min(
                candidates,
                key=lambda other: (distance(spec, by_number[number], by_number[other], stream), other),
            )
            of[number] = (group[nearest], "edge")
    earliest: dict[int, int] = {}
    for number in sorted(of):
        earliest.setdefault(of[number][0], len(earliest) + 1)
    return {number: (earliest[of[number][0]], of[number][1]) for number in sorted(of)}


def _summary(stream: Stream, spec: Clusters, rows: list[Row], found: dict[int, Member]) -> list[Row]:
    if not found:
        none: Row = dict.fromkeys(("cluster", "cores", "edges", "centre", "low", "high"))
        return [{**none, "cores": 0, "edges": 0, "noise": len(rows)}]
    out = []
    for cluster in sorted({cluster for cluster, _ in found.values()}):
        members = [row for row in rows if row["#"] in found and found[row["#"]][0] == cluster]
        roles = [found[row["#"]][1] for row in members]
        axes = [[float(row[name]) for row in members] for name in spec.by]
        if _is_on_globe(stream, spec):  # longitudes on the side of the earliest member
            east = spec.by.index(stream.position[0])
            axes[east] = [each - 360 * round((each - axes[east][0]) / 360) for each in axes[east]]
        out.append(
            {
                "cluster": cluster,
                "cores": roles.count("core"),
                "edges": roles.count("edge"),
                "centre": [sum(axis) / len(axis) for axis in axes],
                "low": [min(axis) for axis in axes],
                "high": [max(axis) for axis in axes],
                "noise": len(rows) - len(found),
            }
        )
    return out


def _shown(stream: Stream, spec: Clusters, edge: Any) -> Any:
    if spec.window.by_rows or stream.time_type is not ColumnType.TIMESTAMP:
        return edge
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=edge)
