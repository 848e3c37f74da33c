"""Cases for clusters on few distinct points: duplicates, ties, chains, noise, big clusters are frequent."""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa
from hypothesis import strategies as st

from anabranch.families.clusters.spec import Clusters, Emit
from anabranch.model.columns import ColumnType
from anabranch.model.window import AtEnd, Window
from anabranch.predicates.terms import TRUE, Constant, Op
from tests.laws.case import Case
from tests.laws.customers import Customer
from tests.laws.draw import asked, stream_and_items
from tests.oracles.clusters import clusters_oracle

COLUMNS = {"x": ColumnType.FLOAT, "y": ColumnType.FLOAT, "n": ColumnType.INT, "name": ColumnType.STRING}

#: Distances between quarters: 0 finds duplicates only, 100 finds all, 5 / 4 is a corner of 3, 4, 5.
_RANGES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.25, 2.0, 100.0])
_BY = st.sampled_from(
    [("x",), ("n",), ("x", "y"), ("x", "y"), ("n", "x"), ("x", "y", "n"), ("x", "y", "n", "t")]
)
#: Longitudes and latitudes, drawn as numbers from -3 to 3: around 180 degrees, 0 degrees and the poles.
_PLACES = {"lon": ColumnType.FLOAT, "lat": ColumnType.FLOAT}
_MAPS = [
    lambda lon, lat: (180.0 + lon, 20.0 * lat),  # 0..360
    lambda lon, lat: (math.remainder(180.0 + lon, 360.0), lat),  # -180..180
    lambda lon, lat: (180.0 + lon - 360.0 * round(2 * lat), lat),  # all names of a place
    lambda lon, lat: (60.0 * lon, math.copysign(91.0 - abs(lat), lat)),  # close to the poles, and beyond
]
_DEGREES = st.sampled_from([0.0, 0.3, 1.01, 2.03, 25.7, 179.9, 500.0])
_PER_KM = {None: 1.0, "km": 1.0, "m": 1000.0, "miles": 1 / 1.609344}
_UNITS = st.sampled_from(list(_PER_KM))
_CONDITIONS = st.sampled_from([TRUE, TRUE, TRUE, Constant("n", Op.GE, 0), Constant("x", Op.LT, 1.0)])


@st.composite
def _windows(draw: st.DrawFn) -> Window:
    unit = draw(st.sampled_from(["rows", "rows", "range"]))
    size = draw(st.integers(1, 12) | st.just(50))
    step = draw(st.integers(1, 8))
    return Window(unit, size, step, draw(st.none() | st.sampled_from(list(AtEnd))))


def _on_the_map(
    items: pa.RecordBatch, place: Callable[[float, float], tuple[float, float]]
) -> pa.RecordBatch:
    lon, lat = (items.column(name).to_pylist() for name in ("lon", "lat"))
    both = [
        place(east, north) if east is not None and north is not None else (east, north)
        for east, north in zip(lon, lat, strict=True)
    ]
    for index, name in enumerate(("lon", "lat")):
        column = pa.array([each[index] for each in both], pa.float64())
        items = items.set_column(items.schema.get_field_index(name), name, column)
    return items


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    settings = {"id": "name"} if draw(st.booleans()) else {}
    globe = draw(st.sampled_from([False, False, False, True]))
    if globe:
        settings |= {"metric": "haversine", "position": ("lon", "lat"), "unit": draw(_UNITS)}
    missing = draw(st.booleans())
    stream, items = draw(stream_and_items(COLUMNS | _PLACES, most=40, missing=missing, **settings))
    items = _on_the_map(items, draw(st.sampled_from(_MAPS))) if globe else items
    groups = draw(st.lists(st.tuples(_BY, _CONDITIONS), min_size=1, max_size=3))
    queries = []
    for number in range(draw(st.integers(1, 6))):
        by, condition = draw(st.sampled_from(groups))
        by = draw(st.sampled_from([by, ("lon", "lat"), ("lat", "lon")])) if globe else by
        within = draw(_DEGREES) * 111.2 * _PER_KM[stream.unit] if "lon" in by else draw(_RANGES)
        spec = Clusters(
            within,
            draw(st.integers(0, 5)),
            by,
            draw(_windows()),
            condition,
            draw(st.sampled_from(list(Emit))),
        )
        queries.append(draw(asked(f"q{number}", spec.to_json())))
    return Case(stream, items, tuple(queries), "clusters")


CUSTOMER = Customer("clusters", _cases(), clusters_oracle)
