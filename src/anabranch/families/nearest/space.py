"""The coordinate space of a stream: bounds, and one overlay of cells and zones for each tuple of columns that
queries go by.

In: what the stream declares, and the first items. Out: the zone of a point, the cells of items. Bounds that
the stream does not declare are taken from the first batch that has items: every home says what it saw, every
rendezvous adds it up to the same result, and tells the homes. Once known they stay; items beyond belong to
the nearest cell. Whose queries are is another matter: a zone that has too much to do gives some of its own to
another (rebalance.py), and all zones know the table of these splits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.model.stream import Stream
from anabranch.zones.can import zones_of_cells
from anabranch.zones.cells import Cells
from anabranch.zones.columns import Array, floats_of
from anabranch.zones.state import State

KEY, SPLITS = "space", "splits"

#: The bounds of a column of which nothing is known yet.
_UNIT = (0.0, 1.0)

By = tuple[str, ...]


class Overlay:
    """The cells of the space of some columns, and the zones that have them."""

    def __init__(self, cells: Cells, zones: int) -> None:
        self.cells = cells
        self.zone_of = zones_of_cells(cells, zones)

    def zones(self, points: Array) -> Array:
        """The zones of points, float64[n, d]; -1 where a coordinate is missing."""
        cells = self.cells.of(points)
        return np.where(cells >= 0, self.zone_of[np.maximum(cells, 0)], -1)


@dataclass(frozen=True)
class Split:
    """Queries of `zone` by these columns whose point lies at or beyond `cut` on the axis are `other`'s."""

    by: By
    zone: int
    axis: int
    cut: float
    other: int


class Space:
    def __init__(
        self, bounds: dict[str, tuple[float, float]], zones: int, splits: Sequence[Split] = ()
    ) -> None:
        self.bounds, self.zones, self.splits = bounds, zones, tuple(splits)
        self._overlays: dict[By, Overlay] = {}

    def overlay(self, by: By) -> Overlay:
        if by not in self._overlays:
            cells = Cells.over([self.bounds[name] for name in by])
            self._overlays[by] = Overlay(cells, self.zones)
        return self._overlays[by]

    def owners(self, by: By, points: Array) -> Array:
        """The rendezvous zones of queries: those of the cells their points lie in, unless splits say
        otherwise.
        """
        zones = self.overlay(by).zones(points)
        for split in self.splits:
            if split.by == by:
                zones[(zones == split.zone) & (points[:, split.axis] >= split.cut)] = split.other
        return zones


def number_columns(stream: Stream) -> list[str]:
    return [column.name for column in stream.columns if column.type.is_number]


def declared(stream: Stream) -> dict[str, tuple[float, float]]:
    """The bounds that the stream declares, by column of its position."""
    return dict(zip(stream.position, stream.bounds, strict=False))


def points_of(rows: pa.RecordBatch, by: Sequence[str]) -> Array:
    """The coordinates of items, float64[n, d], NaN where missing."""
    return np.column_stack([floats_of(rows, name) for name in by])


def measured(rows: pa.RecordBatch, stream: Stream) -> dict[str, list[float]]:
    """The least and greatest finite value of every number column of these items."""
    out = {}
    for name in number_columns(stream):
        values = floats_of(rows, name)
        values = values[np.isfinite(values)]
        if len(values):
            out[name] = [float(values.min()), float(values.max())]
    return out


def space_of(stream: Stream, seen: Iterable[dict[str, Any]], zones: int) -> Space:
    """The space, given what every home measured in the first batch that has items."""
    bounds: dict[str, tuple[float, float]] = {}
    for name in number_columns(stream):
        low, high = math.inf, -math.inf
        for extents in seen:
            if name in extents:
                low, high = min(low, extents[name][0]), max(high, extents[name][1])
        bounds[name] = (low, high) if low <= high else _UNIT
    return Space(bounds | declared(stream), zones)


def save(state: State, space: Space) -> None:
    state.put(KEY, {"bounds": np.array(list(space.bounds.values()), np.float64).reshape(-1, 2)})


def adopt(state: State, splits: list[list[Any]]) -> None:
    """From now on queries belong to zones as this table of splits says."""
    state.put(SPLITS, {"json": np.frombuffer(json.dumps(splits).encode(), np.uint8)})


def load(state: State, stream: Stream, zones: int) -> Space | None:
    """The space as this zone keeps it, or None before the first items."""
    held = state.get(KEY)
    if held is None:
        return None

    def build() -> Space:
        names = list(dict.fromkeys([*number_columns(stream), *declared(stream)]))
        table = state.get(SPLITS)
        splits = [] if table is None else json.loads(bytes(table["json"]))
        return Space(
            {name: (low, high) for name, (low, high) in zip(names, held["bounds"].tolist(), strict=True)},
            zones,
            [Split(tuple(by), *rest) for by, *rest in splits],
        )

    return state.derived(KEY, [KEY, SPLITS], build)
