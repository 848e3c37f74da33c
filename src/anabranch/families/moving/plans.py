"""A moving query in numbers, as the kernels want it; and the queries of a zone, until their last tick is
final.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.families.moving.names import focal_bytes
from anabranch.families.moving.spec import Box, Circle, KNearest, Moving
from anabranch.families.moving.ticks import Ticks
from anabranch.kernels.moving_arrays import (
    BOX,
    CIRCLE,
    COUNT,
    MAX_X,
    MAX_Y,
    MIN_X,
    MIN_Y,
    NEAREST,
    NEVER,
    OBJECTS,
)
from anabranch.model.stream import Time
from anabranch.zones import queries
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.queries import Active, Ceased
from anabranch.zones.state import State

CEASING = "ceasing"

MODES = {None: OBJECTS, "count": COUNT, "min(x)": MIN_X, "max(x)": MAX_X, "min(y)": MIN_Y, "max(y)": MAX_Y}


@dataclass(frozen=True)
class Plan:
    """`point` is a fixed focal point, `focal` the bytes of the focal object's name; both None: no object
    can be called that.
    """

    number: int
    name: str
    mode: int
    shape: int
    a: float
    b: float
    k: int
    start: int
    since: Time | None
    point: tuple[float, float] | None
    focal: bytes | None


def plan_of(query: Active, integers: bool) -> Plan:
    spec = Moving.from_json(query.spec)
    shape, a, b, k, mode = CIRCLE, math.inf, 0.0, 0, MODES[spec.value]
    match spec.shape:
        case Circle(radius=radius):
            a = float(radius)
        case Box(width=width, height=height):
            shape, a, b = BOX, width / 2, height / 2
        case KNearest(k=wanted):
            k, mode = wanted, NEAREST
    point = focal = None
    if isinstance(spec.focal, str):
        focal = focal_bytes(spec.focal, integers)
    else:
        point = (float(spec.focal[0]), float(spec.focal[1]))
    return Plan(query.number, query.name, mode, shape, a, b, k, query.start, query.since, point, focal)


def note_control(state: State, packet: Packet) -> tuple[list[Active], list[Ceased]]:
    """What an ACTIVATE or CANCEL packet begins and ends. A query that ends is kept until `finish` says that
    its last tick is final.
    """
    if packet.kind is Kind.ACTIVATE:
        return queries.apply(state, [packet])[0], []
    active = queries.active(state).keys() - ends(state).keys()
    known = packet.rows.filter(
        pa.array([n in active for n in packet.rows.column("number").to_pylist()], pa.bool_())
    )
    if known.num_rows:
        held = state.rows(CEASING)
        state.put(CEASING, known if held is None else pa.concat_batches([held, known]))
    return [], queries.ceased(Packet(0, 0, Kind.CANCEL, known))


def ends(state: State) -> dict[int, Time | None]:
    """The queries that have been cancelled and are not finished, and when they end."""
    rows = state.rows(CEASING)
    if rows is None:
        return {}
    return {end.number: end.until for end in queries.ceased(Packet(0, 0, Kind.CANCEL, rows))}


def last_tick(ticks: Ticks, until: Time | None) -> int:
    """The last tick of a query that ends at `until`; a query that ended before the stream began has none."""
    return -1 if until is None else ticks.until(until)


def last_ticks(state: State, ticks: Ticks) -> dict[int, int]:
    return {number: last_tick(ticks, until) for number, until in ends(state).items()}


def finish(state: State, final: int, last: dict[int, int]) -> list[int]:
    """Forgets the queries whose last tick is final and returns their numbers."""
    done = [number for number, tick in last.items() if tick <= final]
    if not done:
        return []
    held = state.rows(CEASING)
    assert held is not None
    is_done = pc.is_in(held.column("number"), value_set=pa.array(done, pa.int64()))
    queries.apply(state, [Packet(0, 0, Kind.CANCEL, held.filter(is_done))])
    kept = held.filter(pc.invert(is_done))
    if kept.num_rows:
        state.put(CEASING, kept)
    else:
        state.drop(CEASING)
    return done


def plans(state: State, integers: bool) -> dict[int, Plan]:
    """The plans of the queries of this zone by number; do not change it."""
    keys = state.keys(queries.PREFIX)
    return state.derived(
        "plans", keys, lambda: {n: plan_of(query, integers) for n, query in queries.active(state).items()}
    )


def ask_nearest(state: State, integers: bool) -> bool:
    """Whether some query asks for nearest objects."""
    keys = state.keys(queries.PREFIX)
    return state.derived(
        "ask nearest", keys, lambda: any(p.mode == NEAREST for p in plans(state, integers).values())
    )


def controls(packets: Iterable[Packet]) -> list[Packet]:
    return [packet for packet in packets if packet.kind in (Kind.ACTIVATE, Kind.CANCEL)]


#: The last tick of a query that nobody has cancelled.
ENDLESS = int(NEVER)
