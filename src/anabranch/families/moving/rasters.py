"""Rasters as zones tell them to homes: the cells that the search regions of a zone's queries cover
(kernels/moving_search).
"""

from __future__ import annotations

import math

import numpy as np

from anabranch.families.moving import messages
from anabranch.kernels.moving_arrays import Space
from anabranch.kernels.moving_search import Raster, bounds, mark
from anabranch.zones.columns import Array
from anabranch.zones.packets import Packet
from anabranch.zones.state import Arrays

#: Columns and rows of a raster.
SIDE = 128

_BOX = ("x", "y", "high_x", "high_y", "per_x", "per_y")

EVERYTHING = Raster(-math.inf, -math.inf, math.inf, math.inf, 0.0, 0.0, 1, 1, np.ones(1, np.uint64))
NOTHING = Raster(math.inf, math.inf, -math.inf, -math.inf, 0.0, 0.0, 1, 1, np.zeros(1, np.uint64))


def raster_of(space: Space, queries: Array) -> Raster:
    """What the search regions of these queries (QUERY) cover together."""
    reach = queries["reach"][queries["number"] >= 0]
    if (reach == math.inf).any():
        return EVERYTHING
    low_x, high_x, low_y, high_y = bounds(space, queries)
    if low_x > high_x:
        return NOTHING
    if space.globe:
        low_x, high_x = max(low_x, -180.0), min(high_x, 180.0)
    bits = np.zeros(SIDE * SIDE // 64, np.uint64)
    per_x, per_y = _per_unit(low_x, high_x), _per_unit(low_y, high_y)
    raster = Raster(low_x, low_y, high_x, high_y, per_x, per_y, SIDE, SIDE, bits)
    mark(space, queries, raster)
    return raster


def _per_unit(low: float, high: float) -> float:
    """Cells per unit; 0, and all in one row, where no number says it."""
    size = high - low
    return SIDE / size if 0.0 < size < math.inf and SIDE / size < math.inf else 0.0


def is_same(one: Raster, other: Raster) -> bool:
    return one[:-1] == other[:-1] and bool(np.array_equal(one.bits, other.bits))


def search_message(home: int, raster: Raster, sender: int, late: bool) -> Packet:
    """`late`: the batch that is over needs it already."""
    arrays = arrays_of(raster)
    facts = {"box": arrays["box"].tolist(), "late": late}
    return messages.message(1, home, messages.SEARCH, {"bits": raster.bits}, sender, **facts)


def told(packet: Packet) -> Raster:
    bits = packet.rows.column("bits").to_numpy().copy()
    return raster_from({"box": np.array(packet.facts["box"], np.float64), "bits": bits})


def arrays_of(raster: Raster) -> Arrays:
    return {"box": np.array([getattr(raster, name) for name in _BOX]), "bits": raster.bits}


def raster_from(arrays: Arrays) -> Raster:
    """The raster of these arrays; everything and nothing are always the two above."""
    if len(arrays["bits"]) == 1:
        return EVERYTHING if arrays["bits"][0] else NOTHING
    box = dict(zip(_BOX, arrays["box"].tolist(), strict=True))
    return Raster(**box, columns=SIDE, rows=SIDE, bits=arrays["bits"])
