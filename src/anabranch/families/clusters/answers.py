"""The result tables of the clusters family, filled window by window.

| table | a row is | columns after subscription and window |
|---|---|---|
| clusters | a member of a cluster | cluster, id, role (core, edge) |
| summary | a cluster | cluster, cores, edges, centre, low, high, noise |
| changes | a member that changed | cluster, change, id, role, other: see `changes` |

`centre` is the mean of all members, cores and edges alike; `low` and `high` are the corners of the box around
them. They are lists, one number a coordinate in the order of the query's BY: `[12.5, -3.0]`. `noise` counts
the points of the window in no cluster.

Windows in time are in `window_start` and `window_end`, of the stream's time type (`window_start_float` and
`window_end_float` where a stream of integer time has windows of fractions), windows in rows in `row_start`
and `row_end`. A subscriber sees whichever it is as `window_start` and `window_end`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.families.clusters.changes import CHANGES, Changed
from anabranch.families.clusters.found import Found
from anabranch.families.clusters.points import Points
from anabranch.families.clusters.window import Standing, edge_columns
from anabranch.kernels.roles import CORE, EDGE, by_cluster
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time
from anabranch.zones.columns import ARROW_TYPES, Array, subscription_column
from anabranch.zones.packets import DELIVER, Kind, Packet

MEMBERS_TABLE, SUMMARY_TABLE, CHANGES_TABLE = "clusters", "summary", "changes"
_ROLES = pa.array(["core", "edge"], pa.string())
_CHANGES = pa.array(CHANGES, pa.string())

Window = tuple[Standing, Time, Time]


class Answers:
    """What the windows of one group gave in one step."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._windows: dict[str, list[Window]] = defaultdict(list)
        self._parts: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def members(self, window: Window, found: Found) -> None:
        places = by_cluster(found.clusters, found.count)
        part = {
            "cluster": found.clusters[places],
            "position": places + found.start,
            "role": found.roles[places],
        }
        self._add(MEMBERS_TABLE, window, part)

    def summary(
        self, window: Window, found: Found, numbers: tuple[Array, Array, Array, Array, Array]
    ) -> None:
        cores, edges, centre, low, high = numbers
        noise = np.full(found.count, len(found.clusters) - cores.sum() - edges.sum(), np.int64)
        part = {"cores": cores, "edges": edges, "centre": centre, "low": low, "high": high, "noise": noise}
        self._add(SUMMARY_TABLE, window, {"cluster": np.arange(1, found.count + 1), **part})

    def changes(self, window: Window, changed: Changed) -> None:
        part = {"change": changed.changes, "id": changed.ids, "role": changed.roles, "other": changed.others}
        self._add(CHANGES_TABLE, window, {"cluster": changed.clusters, **part})

    def _add(self, table: str, window: Window, part: dict[str, Any]) -> None:
        if len(part["cluster"]):
            self._windows[table].append(window)
            self._parts[table].append(part)

    def packets(self, points: Points) -> list[Packet]:
        """A packet a table that has rows; `points` are those of the group."""
        out = []
        for table, windows in self._windows.items():
            parts = self._parts[table]
            columns = self._window_columns(windows, [len(part["cluster"]) for part in parts])
            for name in parts[0]:
                if isinstance(parts[0][name], pa.Array):
                    columns[name] = pa.concat_arrays([part[name] for part in parts])
                else:
                    values = np.concatenate([part[name] for part in parts])
                    if name == "position":
                        columns["id"] = points.ids.take(pa.array(values - points.begin))
                    else:
                        columns[name] = _column(name, values)
            rows = pa.record_batch(columns)
            out.append(Packet(DELIVER, 0, Kind.RESULT, rows, {"table": table}))
        return out

    def _window_columns(self, windows: list[Window], lengths: list[int]) -> dict[str, pa.Array]:
        """The subscription and the window of every row."""
        codes: dict[str, int] = {}
        of_window = [codes.setdefault(query.name, len(codes)) for query, _, _ in windows]
        columns = {
            "subscription": subscription_column(
                list(codes), np.repeat(np.array(of_window, np.int32), lengths)
            )
        }
        kept = [edge_columns(query.spec.window, self.stream) for query, _, _ in windows]
        for names in dict.fromkeys(kept):
            elsewhere = np.repeat([other != names for other in kept], lengths)
            columns[names[0]] = _edges([start for _, start, _ in windows], lengths, elsewhere, names[2])
            columns[names[1]] = _edges([end for _, _, end in windows], lengths, elsewhere, names[2])
        return columns


def _edges(edges: list[Time], lengths: list[int], elsewhere: Array, kind: ColumnType) -> pa.Array:
    """An edge of the window of every row, missing where `elsewhere` says so."""
    stored = np.array(edges).astype(np.float64 if kind is ColumnType.FLOAT else np.int64)
    return pa.array(np.repeat(stored, lengths), mask=elsewhere).cast(ARROW_TYPES[kind])


def _column(name: str, values: Array) -> pa.Array:
    if name == "role":  # NOISE: the member has left
        return pa.DictionaryArray.from_arrays(
            pa.array(values - 1, pa.int8(), mask=(values != CORE) & (values != EDGE)), _ROLES
        )
    if name == "change":
        return pa.DictionaryArray.from_arrays(pa.array(values, pa.int8()), _CHANGES)
    if name == "other":
        return pa.array(values, pa.int64(), mask=values == 0)
    if values.ndim == 2:
        return _lists(values)
    return pa.array(values, pa.int64())


def _lists(values: Array) -> pa.Array:
    """Rows of numbers as lists; what is not finite is null."""
    count, axes = values.shape
    flat = values.ravel()
    offsets = np.arange(0, (count + 1) * axes, axes, dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat, mask=~np.isfinite(flat)))
