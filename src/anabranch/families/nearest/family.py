"""The nearest family: k-NN queries over sliding windows, after D-ZaLaPS.

order -> home (recent items, who is interested in which cells) -> rendezvous (candidates of the queries) ->
deliver
                ^                                                      |
                +------------- merger updates: cells of interest ------+
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.balance import Patience
from anabranch.chain.items import numbers_of
from anabranch.chain.stages import ByZone, Chain, Slices, Spread
from anabranch.families.base import Family, Shown, Table
from anabranch.families.nearest.home import ItemHome
from anabranch.families.nearest.query_groups import unit_of
from anabranch.families.nearest.rendezvous import EXACT_AT, ITEM, TABLE, Rendezvous, at_type
from anabranch.families.nearest.space import Globe, ZoneGrid, cells_over, is_home_by_cell, points_of
from anabranch.families.nearest.spec import Nearest
from anabranch.model.arrays import Ints
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream

#: The columns of a result that are not the item's.
_OWN = ("at", "op", "id", "distance")


class NearestFamily(Family):
    name = "nearest"
    kinds = ("nearest",)
    tables = (Table(TABLE),)

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()

    def chain(self, stream: Stream, zones: int) -> Chain:
        home, rendezvous = ItemHome(stream, zones, self.patience), Rendezvous(stream, zones, self.patience)
        return Chain((home, rendezvous), self.spread(stream, zones))

    def spread(self, stream: Stream, zones: int) -> Spread:
        """Items go home to the zone of their cell where the stream declares position and bounds, or a
        position on the globe; else any zone will do.
        """
        if zones > 1 and is_home_by_cell(stream, stream.position):
            return ByZone(ZoneOfPosition(stream, zones))
        return Slices(zones)

    def shown(self, stream: Stream, spec: dict[str, Any]) -> tuple[str, tuple[Shown, ...]]:
        return TABLE, shown_columns(stream, Nearest.from_json(spec))


class ZoneOfPosition:
    """The home zone of items by the stream's position; where a coordinate is missing, by their number."""

    def __init__(self, stream: Stream, zones: int) -> None:
        self.stream, self.zones = stream, zones
        on_globe = Globe.of(stream, stream.position) is not None
        self.grid = ZoneGrid(cells_over(stream, Globe.BOUNDS if on_globe else stream.bounds), zones)

    def __call__(self, items: pa.RecordBatch) -> Ints:
        zones = self.grid.zones(points_of(self.stream, items, self.stream.position))
        return np.where(zones >= 0, zones, numbers_of(items) % self.zones)


def shown_columns(stream: Stream, spec: Nearest) -> tuple[Shown, ...]:
    """Returns what a subscriber sees. An item's column whose name is taken is shown as `item.<name>`."""
    at = Shown("at", Column("at", at_type(stream)))
    if unit_of(stream, spec) == "fraction" and stream.time_type is ColumnType.INT:
        at = Shown(EXACT_AT, Column("at", ColumnType.FLOAT))
    id_type = ColumnType.INT if stream.id is None else stream.type_of(stream.id)
    out = [
        at,
        Shown("op", Column("op", ColumnType.STRING)),
        Shown("id", Column("id", id_type)),
        Shown("distance", Column("distance", ColumnType.FLOAT)),
    ]
    for column in stream.columns:
        if column.name == "id" == stream.id:
            continue  # it is there already
        name = ITEM + column.name if column.name in _OWN else column.name
        out.append(Shown(ITEM + column.name, Column(name, column.type)))
    return tuple(out)
