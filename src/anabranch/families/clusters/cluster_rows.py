"""The result tables of the clusters family, filled window by window.

| table | a row is | columns after subscription and window |
|---|---|---|
| clusters | a member of a cluster | cluster, id, role (core, edge) |
| summary | a cluster | cluster, cores, edges, centre, low, high, noise |
| changes | a member that changed | cluster, change, id, role, other: see `changes` |

`centre` is the mean of all members, cores and edges alike; `low` and `high` are the corners of the box around
them. They are lists with one number per coordinate, in the order of the query's BY: `[12.5, -3.0]`. `noise`
counts the points of the window that are in no cluster. A window without a cluster has one row of `summary`:
`cluster`, `centre`, `low` and `high` are missing, `cores` and `edges` are 0. On a globe, longitudes are those
on the side of the cluster's earliest member: the box of a cluster across 180 degrees goes from 179 to 181.

Windows in time are in `window_start` and `window_end`, of the stream's time type (`window_start_float` and
`window_end_float` where a stream of integer time has windows of fractions), windows in rows in `row_start`
and `row_end`. A subscriber sees either as `window_start` and `window_end`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.chain.items import ARROW_TYPES, subscription_column
from anabranch.chain.packets import DELIVER, Kind, Packet
from anabranch.families.clusters.changes import CHANGES, ChangedMembers
from anabranch.families.clusters.kernels.point_roles import CORE, EDGE, ClusterSummary, members_by_cluster
from anabranch.families.clusters.structure import WindowClusters
from anabranch.model.arrays import Array, Ints
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time
from anabranch.model.window import Window

MEMBERS_TABLE, SUMMARY_TABLE, CHANGES_TABLE = "clusters", "summary", "changes"
_ROLES = pa.array(["core", "edge"], pa.string())
_CHANGES = pa.array(CHANGES, pa.string())


class WindowEdges(NamedTuple):
    subscription: str
    window: Window  # of the query, in the numbers of its axis
    start: Time
    end: Time


def window_edge_columns(window: Window, stream: Stream) -> tuple[str, str, ColumnType]:
    """The columns of the result tables for the start and the end of windows, and their type. The window is
    in the numbers of its axis (`exact_window`).
    """
    if window.by_rows:
        return "row_start", "row_end", ColumnType.INT
    assert stream.time_type is not None
    if stream.time_type is ColumnType.INT and isinstance(window.size, float):
        return "window_start_float", "window_end_float", ColumnType.FLOAT
    return "window_start", "window_end", stream.time_type


class ClusterRows:
    """The rows of the windows of one group in one step."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._windows: dict[str, list[WindowEdges]] = defaultdict(list)
        self._columns: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def add_members(self, window: WindowEdges, clusters: WindowClusters) -> None:
        members = members_by_cluster(clusters.clusters, clusters.count)
        columns = {
            "cluster": clusters.clusters[members],
            "position": members + clusters.start,
            "role": clusters.roles[members],
        }
        self._add(MEMBERS_TABLE, window, columns)

    def add_summary(self, window: WindowEdges, clusters: WindowClusters, summary: ClusterSummary) -> None:
        noise = len(clusters.clusters) - summary.cores.sum() - summary.edges.sum()
        columns = {
            "cluster": np.arange(1, clusters.count + 1),
            **summary._asdict(),
            "noise": np.full(clusters.count, noise, np.int64),
        }
        if not clusters.count:  # 0 stands for no cluster
            columns = {
                name: np.zeros((1, *values.shape[1:]), values.dtype) for name, values in columns.items()
            }
            columns["noise"][0] = noise
        self._add(SUMMARY_TABLE, window, columns)

    def add_changes(self, window: WindowEdges, changed: ChangedMembers) -> None:
        columns = {
            "cluster": changed.clusters,
            "change": changed.changes,
            "id": changed.ids,
            "role": changed.roles,
            "other": changed.others,
        }
        self._add(CHANGES_TABLE, window, columns)

    def _add(self, table: str, window: WindowEdges, columns: dict[str, Any]) -> None:
        if len(columns["cluster"]):
            self._windows[table].append(window)
            self._columns[table].append(columns)

    def packets(self, ids: Callable[[Ints], pa.Array]) -> list[Packet]:
        """Returns one packet per table that has rows; `ids` gives the ids of points by their positions."""
        out = []
        for table, windows in self._windows.items():
            parts = self._columns[table]
            columns = self._window_columns(windows, [len(part["cluster"]) for part in parts])
            for name in parts[0]:
                if isinstance(parts[0][name], pa.Array):
                    columns[name] = pa.concat_arrays([part[name] for part in parts])
                else:
                    values = np.concatenate([part[name] for part in parts])
                    if name == "position":
                        columns["id"] = ids(values)
                    else:
                        columns[name] = _column(name, values, columns.get("cluster"))
            rows = pa.record_batch(columns)
            out.append(Packet(DELIVER, 0, Kind.RESULT, rows, {"table": table}))
        return out

    def _window_columns(self, windows: list[WindowEdges], lengths: list[int]) -> dict[str, pa.Array]:
        """The subscription and the window of every row."""
        codes: dict[str, int] = {}
        of_window = [codes.setdefault(window.subscription, len(codes)) for window in windows]
        columns = {
            "subscription": subscription_column(
                list(codes), np.repeat(np.array(of_window, np.int32), lengths)
            )
        }
        kept = [window_edge_columns(window.window, self.stream) for window in windows]
        for names in dict.fromkeys(kept):
            elsewhere = np.repeat([other != names for other in kept], lengths)
            columns[names[0]] = _edges([window.start for window in windows], lengths, elsewhere, names[2])
            columns[names[1]] = _edges([window.end for window in windows], lengths, elsewhere, names[2])
        return columns


def _edges(edges: list[Time], lengths: list[int], elsewhere: Array, kind: ColumnType) -> pa.Array:
    """An edge of the window of every row, missing where `elsewhere` says so."""
    stored = np.array(edges).astype(np.float64 if kind is ColumnType.FLOAT else np.int64)
    return pa.array(np.repeat(stored, lengths), mask=elsewhere).cast(ARROW_TYPES[kind])


def _column(name: str, values: Array, cluster: pa.Array | None) -> pa.Array:
    """`cluster` is that column, which comes first; where it is missing, a summary is of no cluster."""
    if name == "role":  # NOISE: the member has left
        return pa.DictionaryArray.from_arrays(
            pa.array(values - 1, pa.int8(), mask=(values != CORE) & (values != EDGE)), _ROLES
        )
    if name == "change":
        return pa.DictionaryArray.from_arrays(pa.array(values, pa.int8()), _CHANGES)
    if name in ("cluster", "other"):
        return pa.array(values, pa.int64(), mask=values == 0)
    if values.ndim == 2:
        assert cluster is not None
        return _lists(values, cluster.is_null())
    return pa.array(values, pa.int64())


def _lists(values: Array, missing: pa.Array) -> pa.Array:
    """Rows of numbers as lists; what is not finite is null."""
    count, axes = values.shape
    flat = values.ravel()
    offsets = np.arange(0, (count + 1) * axes, axes, dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat, mask=~np.isfinite(flat)), mask=missing)
