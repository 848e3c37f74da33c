"""The coordinate space of a stream: its bounds, which zone is home to which cells, and which zone owns which
queries.

**The space.** For each tuple of columns that queries go by there is a grid of cells, and zones that have
them. Bounds that
the stream does not declare are taken from the first batch that has items: every home says what it saw, every
rendezvous adds it up to the same result and tells the homes. Once known they stay; items beyond belong to the
nearest cell.

A query belongs to the zone of the cell that its point lies in, unless a zone that had too much to do has
given it to another (rebalance.py). All zones know the table of these splits.

**Cells.** A grid is a box of the coordinate space, cut into equal parts along every dimension. Cells are
numbered row by row (the last dimension runs fastest). A point beyond the bounds belongs to the nearest cell,
so the outermost cells reach to infinity.

    resolution 4, bounds (0, 8) x (0, 4)      (1.5, 3.2) -> column 0, row 3 -> cell 3
                                              (99, -7)   -> column 3, row 0 -> cell 12

**Zones** are boxes of cells, made by the splits of a Content-Addressable Network (D-ZaLaPS, section 5.1). The
first zone has all cells; each further one takes the upper half of the largest, along the dimensions in turn.
A zone is never smaller than a cell: where there are more zones than cells, the last ones have none. The same
grid and number of zones give the same zones everywhere.

    resolution 4, 2 dimensions, 5 zones       2 2 1 1       1 took the right half of 0, then 2 and 3 the
                                              2 2 1 1       upper halves of 0 and 1, and 4 the right half
                                              0 4 3 3       of 0's remaining quarter
                                              0 4 3 3
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
from anabranch.chain.items import floats_of
from anabranch.chain.packets import Kind, Packet
from anabranch.chain.state import State
from anabranch.families.nearest.spec import is_on_globe
from anabranch.model.arrays import Floats, Ints, Ints32
from anabranch.model.stream import Stream
from anabranch.numeric.globe import places_on_globe, surface_distances

#: About as many cells as the paper's experiments use, whatever the number of dimensions (section 6.3).
MOST_CELLS = 1 << 16
FINEST = 1024

Bounds = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class CellGrid:
    """`resolution` cells along each dimension of `bounds`."""

    bounds: Bounds
    resolution: int

    @staticmethod
    def over(bounds: Sequence[tuple[float, float]], resolution: int | None = None) -> CellGrid:
        """Returns the grid of this resolution, as far as it has at most 16 * MOST_CELLS cells; without one,
        that with about MOST_CELLS cells: 256 x 256, 16 x 16 x 16 x 16, and 1 cell from 17 dimensions on.
        """
        finest = int((MOST_CELLS if resolution is None else 16 * MOST_CELLS) ** (1 / len(bounds)) + 1e-9)
        resolution = min(resolution or finest, finest)
        return CellGrid(tuple((float(low), float(high)) for low, high in bounds), min(resolution, FINEST))

    @property
    def dimensions(self) -> int:
        return len(self.bounds)

    @property
    def count(self) -> int:
        return int(self.resolution**self.dimensions)

    @property
    def low(self) -> Floats:
        return np.array([low for low, _ in self.bounds], np.float64)

    @property
    def scale(self) -> Floats:
        """Cells per unit of length, along each dimension; 0 where the bounds have no extent, which is then
        one cell.
        """
        widths = np.array([high - low for low, high in self.bounds], np.float64)
        usable = np.isfinite(widths) & (widths > 0)
        return np.where(usable, self.resolution / np.where(usable, widths, 1.0), 0.0)

    def cells_of(self, points: Floats) -> Ints:
        """Returns the cells of points, [n, dimensions]; -1 for a point with a missing coordinate."""
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = (points - self.low) * self.scale
        steps = np.clip(np.nan_to_num(scaled, nan=0.0), 0, self.resolution - 1).astype(np.int64)
        cells = np.zeros(len(points), np.int64)
        for dimension in range(self.dimensions):
            cells = cells * self.resolution + steps[:, dimension]
        cells[np.isnan(points).any(axis=1)] = -1
        return cells

    def whole_box(self) -> CellBox:
        """Returns the box of all cells."""
        return CellBox((0,) * self.dimensions, (self.resolution,) * self.dimensions)


@dataclass(frozen=True)
class CellBox:
    """The cells from `low` (inclusive) to `high` (exclusive) along each dimension. `turn` is the dimension to
    split next.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    turn: int = 0

    @property
    def cells(self) -> int:
        count = 1
        for low, high in zip(self.low, self.high, strict=True):
            count *= high - low
        return count

    @property
    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(low, high) for low, high in zip(self.low, self.high, strict=True))

    def halves(self) -> tuple[CellBox, CellBox] | None:
        """Returns the lower half, which stays, and the upper one, which goes; None for a single cell."""
        dimensions = len(self.low)
        for step in range(dimensions):
            along = (self.turn + step) % dimensions
            middle = (self.low[along] + self.high[along] + 1) // 2
            if middle < self.high[along]:
                turn = (along + 1) % dimensions
                lower = CellBox(self.low, _with(self.high, along, middle), turn)
                return lower, CellBox(_with(self.low, along, middle), self.high, turn)
        return None


def _with(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


def zone_boxes(grid: CellGrid, zones: int) -> list[CellBox]:
    """Returns the boxes of the zones, at most one per cell, in the order in which the zones joined."""
    out = [grid.whole_box()]
    while len(out) < zones:
        largest = max(range(len(out)), key=lambda zone: (out[zone].cells, -zone))
        halves = out[largest].halves()
        if halves is None:
            break
        out[largest] = halves[0]
        out.append(halves[1])
    return out


def zones_of_cells(grid: CellGrid, zones: int) -> Ints32:
    """Returns the zone of every cell, [grid.count]."""
    zone_of = np.empty((grid.resolution,) * grid.dimensions, np.int32)
    for zone, box in enumerate(zone_boxes(grid, zones)):
        zone_of[box.slices] = zone
    return zone_of.reshape(-1)


_BOUNDS, _SPLITS = "space", "splits"

#: The bounds of a column of which nothing is known yet.
_UNIT = (0.0, 1.0)

By = tuple[str, ...]


@dataclass(frozen=True)
class Globe:
    """How queries by longitude and latitude measure where the stream's metric is haversine: places are points
    of the unit sphere, and distances the chords between them, which grow with the way along the surface.
    """

    longitude: int  # which of the columns it is
    unit: str | None

    #: The bounds of a place.
    BOUNDS = ((-1.0, 1.0),) * 3

    @staticmethod
    def of(stream: Stream, by: By) -> Globe | None:
        """Returns None where queries by these columns do not go by the stream's position on a globe."""
        if not is_on_globe(stream, by):
            return None
        return Globe(by.index(stream.position[0]), stream.unit)

    def places(self, degrees: Floats) -> Floats:
        """Returns [n, 3], given [n, 2]; NaN where they name no place."""
        return places_on_globe(degrees[:, self.longitude].copy(), degrees[:, 1 - self.longitude])

    def distances(self, chords: Floats) -> Floats:
        return surface_distances(chords, self.unit)


def is_home_by_cell(stream: Stream, by: By) -> bool:
    """Whether items go home to the zone that has their cell by these columns: those of the stream's position,
    if it is on a globe or its bounds are declared.
    """
    return is_on_globe(stream, by) or (by == stream.position and len(stream.bounds) == len(by) > 0)


def cells_over(stream: Stream, bounds: Bounds) -> CellGrid:
    return CellGrid.over(bounds, stream.nearest_resolution)


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
        self,
        stream: Stream,
        bounds: dict[str, tuple[float, float]],
        zones: int,
        splits: Sequence[QuerySplit] = (),
    ) -> None:
        self.stream, self.bounds, self.zones, self.splits = stream, bounds, zones, tuple(splits)
        self._grids: dict[By, ZoneGrid] = {}

    def grid(self, by: By) -> ZoneGrid:
        if by not in self._grids:
            self._grids[by] = ZoneGrid(cells_over(self.stream, self.bounds_of(by)), self.zones)
        return self._grids[by]

    def bounds_of(self, by: By) -> Bounds:
        """Returns the bounds of each dimension of the points by these columns."""
        return tuple(self.bounds[name] for name in by) if Globe.of(self.stream, by) is None else Globe.BOUNDS

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
            zones[members] = self.owners(by, as_points(self.stream, by, np.array(points[by], np.float64)))
        return zones


def points_of(stream: Stream, rows: pa.RecordBatch, by: By) -> Floats:
    """Returns the points of items by these columns, [n, d], NaN where a coordinate is missing."""
    return as_points(stream, by, np.column_stack([floats_of(rows, name) for name in by]))


def as_points(stream: Stream, by: By, coordinates: Floats) -> Floats:
    """Returns the points that these coordinates name: they themselves, or on a globe places."""
    globe = Globe.of(stream, by)
    return coordinates if globe is None else globe.places(coordinates)


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


def number_columns(stream: Stream) -> list[str]:
    return [column.name for column in stream.columns if column.type.is_number]


def _declared(stream: Stream) -> dict[str, tuple[float, float]]:
    """Returns the bounds that the stream declares, by column of its position."""
    return dict(zip(stream.position, stream.bounds, strict=False))


def measured_extent(rows: pa.RecordBatch, columns: Sequence[str]) -> dict[str, list[float]]:
    """Returns the least and greatest finite value of these columns."""
    out = {}
    for name in columns:
        values = floats_of(rows, name)
        values = values[np.isfinite(values)]
        if len(values):
            out[name] = [float(values.min()), float(values.max())]
    return out


def space_of(stream: Stream, extents: Iterable[dict[str, Any]], zones: int) -> CoordinateSpace:
    """Returns the space, given what every home measured in the first batch that has items."""
    bounds: dict[str, tuple[float, float]] = {}
    for name in number_columns(stream):
        low, high = math.inf, -math.inf
        for extent in extents:
            if name in extent:
                low, high = min(low, extent[name][0]), max(high, extent[name][1])
        bounds[name] = (low, high) if low <= high else _UNIT
    return CoordinateSpace(stream, bounds | _declared(stream), zones)


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
        names = list(dict.fromkeys([*number_columns(stream), *_declared(stream)]))
        return CoordinateSpace(
            stream,
            {name: (low, high) for name, (low, high) in zip(names, stored["bounds"].tolist(), strict=True)},
            zones,
            [QuerySplit(tuple(by), *rest) for by, *rest in state.get_json(_SPLITS) or []],
        )

    return state.cached(_BOUNDS, [_BOUNDS, _SPLITS], build)
