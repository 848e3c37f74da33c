"""The regional server table (RST): which server covers what, known to every zone alike; and how a zone that
has far more to do than the others gives a part of its plane away.

| setting         | regions                                                                             |
|-----------------|-------------------------------------------------------------------------------------|
| [columns, rows] | equal cells over `bounds`, row by row; what lies beyond belongs to the nearest cell |
| rectangles      | the first that contains the point, else the nearest                                 |
| no `bounds`     | cells of a few per cent of the coordinate, whatever its units, spread over zones    |

Region r lives in zone r % zones, until a zone is hot and splits (chain/balance). What a zone had to do are
the moves it got and the rows it sent. In the batch in which all zones adopt a new table of splits, objects
leave one server and enter the other in a tick that is over, where they are: what they leave and what they
enter cancels out. Regions and splits decide where work is done, never what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.chain.balance import cut
from anabranch.chain.packets import DELIVER, Kind, Packet
from anabranch.chain.state import State
from anabranch.families.moving import server_messages as messages
from anabranch.families.moving.kernels.arrays import EVENT, FOCAL, MOVE, Metric, MoveBatch, records
from anabranch.families.moving.kernels.region_layout import (
    GRID,
    LOGARITHMIC,
    RECTANGLES,
    RegionLayout,
    grid_xs,
    participates,
    zones_of,
)
from anabranch.families.moving.regional_server import RegionalServer, moves_in
from anabranch.model.arrays import Array, Floats
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream

#: Mean radius of the earth in the units that distances on a globe can have.
EARTH_RADIUS = {"km": 6371.0088, "m": 6371008.8, "miles": 6371.0088 / 1.609344}

_SPLITS = "splits"
_OF_QUERY = ("x", "y", "focal", "expires", "known")


def layout_of(stream: Stream, zones: int) -> RegionLayout:
    """Returns the regional servers of a stream, folded onto `zones` zones."""
    none = np.zeros((0, 4))
    if stream.regions and isinstance(stream.regions[0], tuple):
        rectangles = np.array(stream.regions, np.float64)
        if (rectangles[:, 2] < rectangles[:, 0]).any() or (rectangles[:, 3] < rectangles[:, 1]).any():
            raise JobError(
                f"stream {stream.name}: a region is (low x, low y, high x, high y), low before high"
            )
        return RegionLayout(RECTANGLES, zones, 0, 0, 0.0, 0.0, 0.0, 0.0, rectangles, none)
    if not stream.bounds:
        return RegionLayout(LOGARITHMIC, zones, 0, 0, 0.0, 0.0, 0.0, 0.0, none, none)
    columns, rows = (int(count) for count in stream.regions)  # type: ignore[arg-type]
    if columns < 1 or rows < 1:
        raise JobError(
            f"stream {stream.name}: regions = [{columns}, {rows}]; at least one column and one row"
        )
    (low_x, high_x), (low_y, high_y) = stream.bounds[:2]
    per_x = columns / (high_x - low_x) if high_x > low_x else 0.0
    per_y = rows / (high_y - low_y) if high_y > low_y else 0.0
    return RegionLayout(GRID, zones, columns, rows, float(low_x), float(low_y), per_x, per_y, none, none)


def metric_of(stream: Stream) -> Metric:
    """Returns how a stream measures distances."""
    if stream.metric == "euclidean":
        return Metric(False, 0.0)
    if stream.metric != "haversine":
        raise JobError(f"stream {stream.name}: metric = {stream.metric!r}; it is euclidean or haversine")
    unit = stream.unit or "km"
    if unit not in EARTH_RADIUS:
        raise JobError(f"stream {stream.name}: unit = {unit!r}; it is one of {', '.join(EARTH_RADIUS)}")
    return Metric(True, EARTH_RADIUS[unit])


# splits


def layout_now(state: State, layout: RegionLayout) -> RegionLayout:
    """Returns the layout with the splits that this zone has got."""
    stored = state.get(_SPLITS)
    return layout if stored is None else layout._replace(splits=stored["table"])


def put_splits(state: State, table: Floats) -> None:
    state.put(_SPLITS, {"table": table})


def split_messages(
    server: RegionalServer, layout: RegionLayout, zone: int, other: int, share: float, tick: int
) -> list[Packet]:
    """Returns messages by which another zone takes over this share of the objects after this batch, and a
    note of it; none if they cannot be cut. All is final up to `tick`. Nothing changes here before all zones
    change.
    """
    present = server.objects[server.objects["present"] != 0]
    found = cut([grid_xs(server.metric, present["x"].copy()), present["y"].copy()], share)
    if found is None:
        return []
    table = np.vstack([layout.splits, (zone, *found, other)])
    columns = {name: table[:, index].copy() for index, name in enumerate(messages.SPLIT)}
    out = [
        messages.message(depth, every, messages.SPLITS, columns, zone, tick=tick)
        for depth in (messages.HOME, messages.REGION)
        for every in range(layout.zones)
    ]
    leaving = _leaving(server, layout._replace(splits=table), zone, tick)
    moves = {name: leaving[name].copy() for name in MOVE.names or ()}
    moves["leaves"][:] = 0
    moves |= messages.truth_columns(server.truths[leaving["who"]])
    # a query whose range reaches into that part is one that this zone participates in: it knows the focal
    # point
    queries = server.queries[(server.queries["number"] >= 0) & (server.queries["here"] != 0)]
    local = {"query": queries["number"].copy()} | {name: queries[name].copy() for name in _OF_QUERY}
    out.append(messages.message(messages.REGION, other, messages.ARRIVALS, moves, zone))
    out.append(messages.message(messages.REGION, other, messages.LOCAL_PLANS, local, zone))
    split = {"axis": "xy"[found[0]], "at": found[1], "to": other, "objects": len(leaving)}
    facts = {"family": "moving", "stage": "region", "zone": zone, "split": split}
    return [*out, Packet(DELIVER, 0, Kind.NOTE, facts=facts)]


def carry_out_split(
    server: RegionalServer, layout: RegionLayout, zone: int, tick: int, packets: Sequence[Packet]
) -> Array:
    """Returns the rows (ROW) of objects that leave and enter this server because of a new layout, in a tick
    that is over.
    """
    leaving = _leaving(server, layout, zone, tick)
    arriving = moves_in(messages.of_kind(packets, messages.ARRIVALS), server)
    moves = MoveBatch(
        np.concatenate([leaving, arriving.records]),
        np.concatenate([server.truths[leaving["who"]], arriving.truths]),
    )
    events = _joined(server, layout, zone, tick, messages.of_kind(packets, messages.LOCAL_PLANS))
    rows = server.run(moves, events, tick)
    server.list_by_age()  # objects that arrived need not be younger than those that were here
    return rows


def _leaving(server: RegionalServer, layout: RegionLayout, zone: int, tick: int) -> Array:
    """Returns moves (MOVE) of the objects whose positions belong to other zones."""
    who = np.flatnonzero(server.objects["present"])
    there = server.objects[who]
    zones = zones_of(server.metric, layout, there["x"].copy(), there["y"].copy())
    who, there = who[zones != zone], there[zones != zone]
    columns = {name: there[name] for name in ("x", "y", "number", "expires")}
    columns |= {"tick": np.full(len(who), tick), "who": who, "leaves": np.ones(len(who), np.uint8)}
    return records(MOVE, columns)


def _joined(
    server: RegionalServer, layout: RegionLayout, zone: int, tick: int, packets: Sequence[Packet]
) -> Array:
    """Returns events (EVENT) of the queries that this server participates in from now on."""
    sent = {
        name: messages.column(packets, name, kind)
        for name, kind in (("query", np.int64), *((name, EVENT[name]) for name in _OF_QUERY))
    }
    events = np.zeros(len(sent["query"]), EVENT)
    for name in _OF_QUERY:
        events[name] = sent[name]
    events["tick"], events["kind"], events["here"] = tick, FOCAL, 1
    events["slot"] = [server.slot_of.get(number, -1) for number in sent["query"].tolist()]
    joins = np.zeros(len(events), bool)
    for row, event in enumerate(events):
        query = server.queries[event["slot"]]
        if event["slot"] < 0 or query["here"]:
            continue
        where = (query["a"], query["b"], event["x"], event["y"])
        joins[row] = participates(server.metric, layout, zone, int(query["shape"]), *where)
    return events[joins]
