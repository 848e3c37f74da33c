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
from tests.oracles.stream_order import seen, stream_order

Row = dict[str, Any]
Window = tuple[Any, Any, list[Row]]  # start, end, items in stream order
Member = tuple[int, str]  # cluster, role


def clusters_oracle(case: Case) -> dict[str, list[Row]]:
    items, _ = stream_order(case.stream, case.items.to_pylist())
    return {asked.name: _results(case.stream, items, asked) for asked in case.queries}


def _results(stream: Stream, items: list[Row], asked: Asked) -> list[Row]:
    spec = Clusters.from_json(asked.spec)
    windows = [(start, end, rows) for start, end, rows in windows_of(spec, items, asked) if rows]
    out: list[Row] = []
    past: dict[int, Member] = {}  # number of the item -> cluster, role
    names: dict[int, Any] = {}
    next_number = 1
    for start, end, rows in windows:
        found = clusters_of(spec, rows)
        frame = {"window_start": _shown(stream, spec, start), "window_end": _shown(stream, spec, end)}
        names.update({row["#"]: row[stream.id or "#"] for row in rows})
        if spec.emit is Emit.MEMBERS:
            for number, (cluster, role) in sorted(
                found.items(), key=lambda member: (member[1][0], member[0])
            ):
                out.append({**frame, "cluster": cluster, "id": names[number], "role": role})
        elif spec.emit is Emit.SUMMARY:
            out += [{**frame, **line} for line in _summary(spec, rows, found)]
        else:
            changed, past, next_number = changes(past, found, next_number)
            out += [{**frame, **line, "id": names[line["id"]]} for line in changed]
    return out


def windows_of(spec: Clusters, items: list[Row], asked: Asked) -> list[Window]:
    """The windows that come out, full ones first, with the points of each."""
    points = [item for item in seen(items, asked.after, asked.until) if _eligible(spec, item)]
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


def _eligible(spec: Clusters, item: Row) -> bool:
    return holds(spec.condition, item) and all(plain(item[name]) is not None for name in spec.by)


def distance(spec: Clusters, one: Row, other: Row) -> float:
    return math.sqrt(sum((one[name] - other[name]) ** 2 for name in spec.by))


def clusters_of(spec: Clusters, rows: list[Row]) -> dict[int, Member]:
    """Number of the item -> (cluster, role), for members; clusters count from 1 by their earliest member."""
    near = {
        row["#"]: [
            other["#"] for other in rows if other is not row and distance(spec, row, other) <= spec.range
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
                candidates, key=lambda other: (distance(spec, by_number[number], by_number[other]), other)
            )
            of[number] = (group[nearest], "edge")
    earliest: dict[int, int] = {}
    for number in sorted(of):
        earliest.setdefault(of[number][0], len(earliest) + 1)
    return {number: (earliest[of[number][0]], of[number][1]) for number in sorted(of)}


def _summary(spec: Clusters, rows: list[Row], found: dict[int, Member]) -> list[Row]:
    out = []
    for cluster in sorted({cluster for cluster, _ in found.values()}):
        members = [row for row in rows if row["#"] in found and found[row["#"]][0] == cluster]
        roles = [found[row["#"]][1] for row in members]
        axes = [[float(row[name]) for row in members] for name in spec.by]
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
