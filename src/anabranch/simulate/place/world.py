"""The objects and queries of PLACE*, section 6: a unit square of 3 x 3 regions, local objects that stay in
their region, global ones that roam, everybody reporting every 30 seconds.

In: a size and a seed. Out: reports, second by second, and specs of queries around global objects. Never: a
clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.families.moving.spec import Box, KNearest, Moving
from anabranch.model.arrays import Floats, Ints
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream

SIDE = 3
SERVERS = SIDE * SIDE
REPORT_SECONDS = 30
#: How far an object goes between two reports, as a share of the square's side: 500 m where that is 100 km.
STRIDE = 0.005

#: How far from their region's border local objects stay: a point on it belongs to one side only.
_INSIDE = 1e-9

STREAM = Stream(
    "units",
    (
        Column("t", ColumnType.INT),
        Column("o", ColumnType.INT),
        Column("x", ColumnType.FLOAT),
        Column("y", ColumnType.FLOAT),
    ),
    time="t",
    object="o",
    position=("x", "y"),
    tick=1,
    regions=(SIDE, SIDE),
    bounds=((0.0, 1.0), (0.0, 1.0)),
)


@dataclass(frozen=True)
class Size:
    """How many local objects and queries a server has, and how many global objects there are."""

    local: int = 50_000
    roaming: int = 50_000
    queries: int = 1_000

    def scaled(self, scale: float) -> Size:
        counts = (max(1, round(count * scale)) for count in (self.local, self.roaming, self.queries))
        return Size(*counts)

    @property
    def objects(self) -> int:
        return SERVERS * self.local + self.roaming


PAPER = Size()


class World:
    """Objects 0 to `roaming` - 1 are the global ones. Object n reports when the second is n modulo 30."""

    def __init__(self, size: Size, seed: int = 0) -> None:
        self.size, self.second = size, -1
        self._random = np.random.default_rng(seed)
        count = size.objects
        self.positions = self._random.uniform(0, 1, (count, 2))
        self._low, self._high = np.zeros((count, 2)), np.ones((count, 2))
        region = np.arange(count - size.roaming) % SERVERS
        corner = np.stack([region % SIDE, region // SIDE], axis=1) / SIDE
        self._low[size.roaming :], self._high[size.roaming :] = corner + _INSIDE, corner + 1 / SIDE - _INSIDE
        self.positions = self._low + self.positions * (self._high - self._low)
        self._heading = self._random.uniform(0, 2 * np.pi, count)

    def step(self) -> Ints:
        """Returns the objects that report in the next second, at their new positions; they turn back at
        borders.
        """
        self.second += 1
        who = np.arange(self.second % REPORT_SECONDS, self.size.objects, REPORT_SECONDS)
        if self.second >= REPORT_SECONDS:
            self._heading[who] += self._random.normal(0, 0.3, len(who))
            stride = STRIDE * np.stack([np.cos(self._heading[who]), np.sin(self._heading[who])], axis=1)
            moved = self.positions[who] + stride
            kept = np.clip(moved, self._low[who], self._high[who])
            self._heading[who] += np.where((kept != moved).any(axis=1), np.pi, 0.0)
            self.positions[who] = kept
        return who

    def items(self, who: Ints) -> pa.RecordBatch:
        x, y = self.positions[who].T
        columns = {"t": np.full(len(who), self.second), "o": who, "x": x.copy(), "y": y.copy()}
        return pa.record_batch({name: pa.array(column) for name, column in columns.items()})

    def pairs(self) -> Ints:
        """Returns (focal object, issuer) per query: global objects, drawn in the region of each server."""
        region = server_of(self.positions[: self.size.roaming])
        out = []
        for server in range(SERVERS):
            there = np.flatnonzero(region == server)
            there = there if len(there) else np.arange(self.size.roaming)
            out.append(self._random.choice(there, (self.size.queries, 2)))
        return np.concatenate(out)


def server_of(positions: Floats) -> Ints:
    """Returns the regional server of each position: row by row over the square."""
    column, row = np.minimum((positions * SIDE).astype(np.int64), SIDE - 1).T
    return np.asarray(row * SIDE + column)


def range_spec(pair: Ints, share: float, value: str | None = None) -> dict[str, Any]:
    """Returns a square that covers a share of the space around a focal object."""
    side = float(np.sqrt(share))
    return Moving(Box(side, side), str(pair[0]), value=value, issuer=str(pair[1])).to_json()


def nearest_spec(pair: Ints, k: int) -> dict[str, Any]:
    return Moving(KNearest(k), str(pair[0]), issuer=str(pair[1])).to_json()
