"""The clusters family: density-based clusters in sliding windows, for many queries at once (Chandi).

    order --> neighbourhood --> deliver
                |      ^
                +------+  where a group is split: the reports of its parts, with the next batch

A zone of `neighbourhood` gets every item and runs the groups of queries that are assigned to it. Queries over
the same coordinates with the same condition are a group and share one structure. A zone that has far more
work than others gives parts of its groups to them.

An item passes through these files, in this order:

    neighbourhood -> cluster_group                                           it is kept
                         -> structure -> kernels/neighbour_lists             it is added, once for all queries
                         -> structure -> kernels/point_roles, window_forest  a window is due
                         -> cluster_rows                                     its rows
"""

from __future__ import annotations

from typing import Any, ClassVar

from anabranch.chain.balance import Patience
from anabranch.chain.stages import Broadcast, Chain
from anabranch.families.base import Family, Shown, Table
from anabranch.families.clusters.cluster_rows import (
    CHANGES_TABLE,
    MEMBERS_TABLE,
    SUMMARY_TABLE,
    window_edge_columns,
)
from anabranch.families.clusters.neighbourhood import Neighbourhood
from anabranch.families.clusters.spec import Clusters, Emit, exact_window
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream

_INT, _STRING = ColumnType.INT, ColumnType.STRING


class ClustersFamily(Family):
    name: ClassVar[str] = "clusters"
    kinds: ClassVar[tuple[str, ...]] = ("clusters",)
    tables: ClassVar[tuple[Table, ...]] = (Table(MEMBERS_TABLE), Table(SUMMARY_TABLE), Table(CHANGES_TABLE))

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()

    def chain(self, stream: Stream, zones: int) -> Chain:
        return Chain((Neighbourhood(stream, zones, self.patience),), Broadcast(zones))

    def shown(self, stream: Stream, spec: dict[str, Any]) -> tuple[str, tuple[Shown, ...]]:
        query = Clusters.from_json(spec)
        id_type = _INT if stream.id is None else stream.type_of(stream.id)
        match query.emit:
            case Emit.MEMBERS:
                table, columns = MEMBERS_TABLE, {"cluster": _INT, "id": id_type, "role": _STRING}
            case Emit.SUMMARY:
                numbers = dict.fromkeys(("cluster", "cores", "edges"), _INT)
                points = dict.fromkeys(("centre", "low", "high"), ColumnType.POINT)
                table, columns = SUMMARY_TABLE, {**numbers, **points, "noise": _INT}
            case Emit.CHANGES:
                columns = {"cluster": _INT, "change": _STRING, "id": id_type, "role": _STRING, "other": _INT}
                table = CHANGES_TABLE
        start, end, edge = window_edge_columns(exact_window(query.window, stream), stream)
        window = (Shown(start, Column("window_start", edge)), Shown(end, Column("window_end", edge)))
        return table, (*window, *(Shown(name, Column(name, kind)) for name, kind in columns.items()))
