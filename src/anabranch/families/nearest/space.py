"""The coordinate space of a stream: its bounds, which zone is home to which cells, and which zone owns which
queries.

For each tuple of columns that queries go by there is a grid of cells, and zones that have them. Bounds that
the stream does not declare are taken from the first batch that has items: every home says what it saw, every
rendezvous adds it up to the same result and tells the homes. Once known they stay; items beyond belong to the
nearest cell.

A query belongs to the zone of the cell that its point lies in, unless a zone that had too much to do has
given it to another (rebalance.py). All zones know the table of these splits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.arrow_columns import floats_of
from anabranch.chain.cells import CellGrid, zones_of_cells
from anabranch.chain.packets import Kind, Packet
from anabranch.chain.state import State
from anabranch.model.arrays import Floats, Ints
from anabranch.model.stream import Stream

_BOUNDS, _SPLITS = "space", "splits"

#: The bounds of a column of which nothing is known yet.
_UNIT = (0.0, 1.0)

By = tuple[str, ...]


class ZoneGrid:
    """The cells of the space of some columns, and the zones that have them."""

    def __init__(self, grid: CellGrid, zones: int) -> None:
        self.grid = grid
        self.zone_of = zones_of_cells(grid, zones)

    def zones(self, points: Floats) -> Ints:
        """Returns the zones of points, [n, d]; -1 where a coordinate is missing."""
        cells = self.grid.cells_of(points)
        return np.where(cells >= 0, self.zone_of[np.maximum(cells, 0)], -1)


@dataclass(frozen=True)
class QuerySplit:
    """Queries of `zone` whose point lies at or beyond `cut` on the axis belong to `other`."""

    by: By
    zone: int
    axis: int
    cut: float
    other: int


class CoordinateSpace:
    def __init__(
        self, bounds: dict[str, tuple[float, float]], zones: int, splits: Sequence[QuerySplit] = ()
    ) -> None:
        self.bounds, self.zones, self.splits = bounds, zones, tuple(splits)
        self._grids: dict[By, ZoneGrid] = {}

    def grid(self, by: By) -> ZoneGrid:
        if by not in self._grids:
            cells = CellGrid.over([self.bounds[name] for name in by])
            self._grids[by] = ZoneGrid(cells, self.zones)
        return self._grids[by]

    def owners(self, by: By, points: Floats) -> Ints:
        """Returns the rendezvous zones of queries by these columns, given their points."""
        zones = self.grid(by).zones(points)
        for split in self.splits:
            if split.by == by:
                zones[(zones == split.zone) & (points[:, split.axis] >= split.cut)] = split.other
        return zones

    def owners_of_specs(self, specs: Sequence[str]) -> Ints:
        """Returns the rendezvous zones of queries, given their specs as JSON."""
        indices: dict[By, list[int]] = {}
        points: dict[By, list[list[float]]] = {}
        for index, text in enumerate(specs):
            spec = json.loads(text)
            by = tuple(spec["by"])
            indices.setdefault(by, []).append(index)
            points.setdefault(by, []).append(spec["point"])
        zones = np.zeros(len(specs), np.int64)
        for by, members in indices.items():
            zones[members] = self.owners(by, np.array(points[by], np.float64))
        return zones


def points_of(rows: pa.RecordBatch, by: Sequence[str]) -> Floats:
    """Returns the coordinates of items, [n, d], NaN where missing."""
    return np.column_stack([floats_of(rows, name) for name in by])


# queries and their owners: every zone hears of every query, and keeps its own


def activate_own(state: State, controls: Sequence[Packet], space: CoordinateSpace, zone: int) -> int:
    """Activates those queries that belong to this zone. Returns how many."""
    count = 0
    for packet in controls:
        if packet.kind is Kind.ACTIVATE:
            own = space.owners_of_specs(packet.column("spec").to_pylist()) == zone
            if own.any():
                count += int(own.sum())
                rows = packet.rows.filter(pa.array(own))
                control.apply(state, [Packet(packet.stage, zone, Kind.ACTIVATE, rows)])
    return count


def remove_others(state: State, space: CoordinateSpace, zone: int) -> None:
    """Removes the queries of other zones, once it is known, or has changed, to whom they belong."""
    for key in state.keys(control.PREFIX):
        rows = state.rows(key)
        assert rows is not None
        own = space.owners_of_specs(rows.column("spec").to_pylist()) == zone
        if own.all():
            continue
        if own.any():
            state.put(key, rows.filter(pa.array(own)))
        else:
            state.drop(key)


# bounds


def _number_columns(stream: Stream) -> list[str]:
    return [column.name for column in stream.columns if column.type.is_number]


def _declared(stream: Stream) -> dict[str, tuple[float, float]]:
    """Returns the bounds that the stream declares, by column of its position."""
    return dict(zip(stream.position, stream.bounds, strict=False))


def measured_extent(rows: pa.RecordBatch, stream: Stream) -> dict[str, list[float]]:
    """Returns the least and greatest finite value of every number column of these items."""
    out = {}
    for name in _number_columns(stream):
        values = floats_of(rows, name)
        values = values[np.isfinite(values)]
        if len(values):
            out[name] = [float(values.min()), float(values.max())]
    return out


def space_of(stream: Stream, extents: Iterable[dict[str, Any]], zones: int) -> CoordinateSpace:
    """Returns the space, given what every home measured in the first batch that has items."""
    bounds: dict[str, tuple[float, float]] = {}
    for name in _number_columns(stream):
        low, high = math.inf, -math.inf
        for extent in extents:
            if name in extent:
                low, high = min(low, extent[name][0]), max(high, extent[name][1])
        bounds[name] = (low, high) if low <= high else _UNIT
    return CoordinateSpace(bounds | _declared(stream), zones)


# in state


def save_space(state: State, space: CoordinateSpace) -> None:
    state.put(_BOUNDS, {"bounds": np.array(list(space.bounds.values()), np.float64).reshape(-1, 2)})


def save_splits(state: State, splits: list[list[Any]]) -> None:
    """From now on queries belong to zones as this table of splits says."""
    state.put_json(_SPLITS, splits)


def load_space(state: State, stream: Stream, zones: int) -> CoordinateSpace | None:
    """Returns the space as this zone knows it, or None before the first items."""
    stored = state.get(_BOUNDS)
    if stored is None:
        return None

    def build() -> CoordinateSpace:
        names = list(dict.fromkeys([*_number_columns(stream), *_declared(stream)]))
        return CoordinateSpace(
            {name: (low, high) for name, (low, high) in zip(names, stored["bounds"].tolist(), strict=True)},
            zones,
            [QuerySplit(tuple(by), *rest) for by, *rest in state.get_json(_SPLITS) or []],
        )

    return state.cached(_BOUNDS, [_BOUNDS, _SPLITS], build)
