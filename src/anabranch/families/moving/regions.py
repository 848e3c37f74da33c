"""The regional server table (RST): which server covers what, known to every home zone alike.

| setting         | regions                                                                             |
|-----------------|-------------------------------------------------------------------------------------|
| [columns, rows] | equal cells over `bounds`, row by row; what lies beyond belongs to the nearest cell |
| rectangles      | the first that contains the point, else the nearest                                 |
| no `bounds`     | cells of a few per cent of the coordinate, whatever its units, dealt to the zones   |

Region r lives in zone r % zones, until a zone is hot and splits (splits.py). Regions decide where work is
done, never what comes out.
"""

from __future__ import annotations

import numpy as np

from anabranch.kernels.moving_arrays import Space
from anabranch.kernels.regions import GRID, LOGARITHMIC, RECTANGLES, Layout
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream

#: Mean radius of the earth in the units that distances on a globe can have.
EARTH_RADIUS = {"km": 6371.0088, "m": 6371008.8, "miles": 6371.0088 / 1.609344}


def layout_of(stream: Stream, zones: int) -> Layout:
    """The regional servers of a stream, folded onto `zones` zones."""
    none = np.zeros((0, 4))
    if stream.regions and isinstance(stream.regions[0], tuple):
        rectangles = np.array(stream.regions, np.float64)
        if (rectangles[:, 2] < rectangles[:, 0]).any() or (rectangles[:, 3] < rectangles[:, 1]).any():
            raise JobError(
                f"stream {stream.name}: a region is (low x, low y, high x, high y), low before high"
            )
        return Layout(RECTANGLES, zones, 0, 0, 0.0, 0.0, 0.0, 0.0, rectangles, none)
    if not stream.bounds:
        return Layout(LOGARITHMIC, zones, 0, 0, 0.0, 0.0, 0.0, 0.0, none, none)
    columns, rows = (int(count) for count in stream.regions)  # type: ignore[arg-type]
    if columns < 1 or rows < 1:
        raise JobError(
            f"stream {stream.name}: regions = [{columns}, {rows}]; at least one column and one row"
        )
    (low_x, high_x), (low_y, high_y) = stream.bounds[:2]
    per_x = columns / (high_x - low_x) if high_x > low_x else 0.0
    per_y = rows / (high_y - low_y) if high_y > low_y else 0.0
    return Layout(GRID, zones, columns, rows, float(low_x), float(low_y), per_x, per_y, none, none)


def space_of(stream: Stream) -> Space:
    """How a stream measures distances."""
    if stream.metric == "euclidean":
        return Space(False, 0.0)
    if stream.metric != "haversine":
        raise JobError(f"stream {stream.name}: metric = {stream.metric!r}; it is euclidean or haversine")
    unit = stream.unit or "km"
    if unit not in EARTH_RADIUS:
        raise JobError(f"stream {stream.name}: unit = {unit!r}; it is one of {', '.join(EARTH_RADIUS)}")
    return Space(True, EARTH_RADIUS[unit])
