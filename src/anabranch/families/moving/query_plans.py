"""What a zone knows of its queries: each as numbers for the kernels, each distinct condition as one bit of a
report, and those that are cancelled, until their last tick is final.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.chain import control
from anabranch.chain.control import Cancelled, Query
from anabranch.chain.packets import Kind, Packet
from anabranch.chain.state import State
from anabranch.families.moving.kernels.arrays import (
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
from anabranch.families.moving.kernels.object_names import focal_bytes
from anabranch.families.moving.servers import Ticks
from anabranch.families.moving.spec import Box, Circle, KNearest, Moving
from anabranch.model.stream import Time
from anabranch.predicates.terms import TRUE, Term, from_json, to_json

CANCELLED, CONDITIONS = "cancelled", "conditions"

#: The last tick of a query that nobody has cancelled.
ENDLESS = int(NEVER)

MODES = {None: OBJECTS, "count": COUNT, "min(x)": MIN_X, "max(x)": MAX_X, "min(y)": MIN_Y, "max(y)": MAX_Y}
_ALWAYS = json.dumps(to_json(TRUE))


@dataclass(frozen=True)
class MovingPlan:
    """A query in numbers. `point` is a fixed focal point, `focal` the bytes of the focal object's name; both
    are None if no object can have that name. `anchor` are the bytes of the name of the object whose region
    has the assembler: the issuer, else the focal object; None for a fixed point without an issuer.
    """

    number: int
    mode: int
    shape: int
    a: float
    b: float
    k: int
    point: tuple[float, float] | None
    focal: bytes | None
    anchor: bytes | None
    issuer: bool = False  # whether somebody issued it

    @property
    def is_fixed(self) -> bool:
        """Whether its assembler stays in the region of a fixed focal point."""
        return self.point is not None and not self.issuer


def plan_of(query: Query, integers: bool) -> MovingPlan:
    spec = Moving.from_json(query.spec)
    shape, a, b, k, mode = int(CIRCLE), math.inf, 0.0, 0, MODES[spec.value]
    match spec.shape:
        case Circle(radius=radius):
            a = float(radius)
        case Box(width=width, height=height):
            shape, a, b = int(BOX), width / 2, height / 2
        case KNearest(k=wanted):
            k, mode = wanted, NEAREST
    point = focal = None
    if isinstance(spec.focal, str):
        focal = focal_bytes(spec.focal, integers)
    else:
        point = (float(spec.focal[0]), float(spec.focal[1]))
    anchor = focal if spec.issuer is None else focal_bytes(spec.issuer, integers)
    return MovingPlan(query.number, mode, shape, a, b, k, point, focal, anchor, spec.issuer is not None)


def plans(state: State, integers: bool) -> dict[int, MovingPlan]:
    """Returns the plans of the queries of this zone by number; do not change it."""
    keys = state.keys(control.PREFIX)
    return state.cached(
        "plans", keys, lambda: {n: plan_of(query, integers) for n, query in control.queries(state).items()}
    )


def has_nearest(state: State, integers: bool) -> bool:
    """Whether some query is for nearest objects."""
    keys = state.keys(control.PREFIX)
    return state.cached(
        "has nearest", keys, lambda: any(p.mode == NEAREST for p in plans(state, integers).values())
    )


# activation and cancellation


def apply_control(state: State, packet: Packet) -> tuple[list[Query], list[Cancelled]]:
    """Returns the queries that an ACTIVATE or CANCEL packet activates and cancels. A cancelled query is kept
    until its last tick is final (`finish`).
    """
    if packet.kind is Kind.ACTIVATE:
        return control.apply(state, [packet])[0], []
    active = control.queries(state).keys() - cancel_times(state).keys()
    known = packet.rows.filter(
        pa.array([n in active for n in packet.rows.column("number").to_pylist()], pa.bool_())
    )
    if known.num_rows:
        rows = state.rows(CANCELLED)
        state.put(CANCELLED, known if rows is None else pa.concat_batches([rows, known]))
    return [], control.cancelled(Packet(0, 0, Kind.CANCEL, known))


def cancel_times(state: State) -> dict[int, Time | None]:
    """Returns when the queries are cancelled that are not finished yet, by number."""
    rows = state.rows(CANCELLED)
    if rows is None:
        return {}
    return {query.number: query.cancel for query in control.cancelled(Packet(0, 0, Kind.CANCEL, rows))}


def last_ticks(state: State, ticks: Ticks) -> dict[int, int]:
    """Returns the last tick of each cancelled query; -1 for those from before the stream began."""
    times = cancel_times(state).items()
    return {number: -1 if cancel is None else ticks.last_before(cancel) for number, cancel in times}


def finish(state: State, final: int, last: dict[int, int]) -> list[int]:
    """Removes the queries whose last tick is final and returns their numbers."""
    done = [number for number, tick in last.items() if tick <= final]
    if not done:
        return []
    rows = state.rows(CANCELLED)
    assert rows is not None
    is_done = pc.is_in(rows.column("number"), value_set=pa.array(done, pa.int64()))
    control.apply(state, [Packet(0, 0, Kind.CANCEL, rows.filter(is_done))])
    kept = rows.filter(pc.invert(is_done))
    if kept.num_rows:
        state.put(CANCELLED, kept)
    else:
        state.drop(CANCELLED)
    return done


class ListStarts:
    """Where the lists of nearest objects of queries start in one long array. A list of k takes k entries, or
    as many as there are objects: nobody knows how many a query that asks for all of them will get. Entries
    are used again by lists of the same length.
    """

    def __init__(self, first: int = 0) -> None:
        self.end = first
        self.longest = 0  # of all lists so far
        self._objects = 64  # a list need not be longer
        self._free: dict[int, list[int]] = {}
        self._lists: dict[int, tuple[int, int, int]] = {}  # by slot: k, length, start

    def take(self, slot: int, k: int) -> int:
        """Returns where the list of a query begins."""
        length = min(k, self._objects)
        self.longest = max(self.longest, length)
        free = self._free.get(length)
        start = free.pop() if free else self.end
        self.end = max(self.end, start + length)
        self._lists[slot] = (k, length, start)
        return start

    def give_back(self, slot: int) -> None:
        _, length, start = self._lists.pop(slot)
        self._free.setdefault(length, []).append(start)

    def outgrown(self, objects: int) -> list[tuple[int, int, int]]:
        """Returns (slot, k, old start) of the lists that may be too short for so many objects; each has to be
        taken again, and its entries moved.
        """
        if objects <= self._objects:
            return []
        self._objects = max(objects, 2 * self._objects)
        return [(slot, k, start) for slot, (k, length, start) in self._lists.items() if k > length]


# conditions


@lru_cache(100_000)
def _parsed(text: str) -> Term:
    return from_json(json.loads(text))


@dataclass
class _Bit:
    text: str
    users: int
    freed: Time | None = None  # when its last user was cancelled
    idle: int = 0  # batches since the last tick of its last user


#: A bit gets another meaning so many batches after its last tick: results for nearest objects may be a batch
#: late.
_IDLE = 3


@dataclass
class ConditionBits:
    """Conditions as bits of a report: each distinct condition is evaluated once per report, at home, and
    travels as one bit.

    A condition that nobody had before is evaluated on the last reports of all objects when its query is
    activated. Home zones and regions number conditions alike because they see the same activations,
    cancellations and progress in the same order; nothing is exchanged.
    """

    bits: list[_Bit] = field(default_factory=list)
    of_query: dict[int, int] = field(default_factory=dict)
    changed: bool = False

    @staticmethod
    def load(state: State) -> ConditionBits:
        stored: dict[str, Any] | None = state.get_json(CONDITIONS)
        if stored is None:
            return ConditionBits()
        of_query = {int(number): bit for number, bit in stored["of_query"].items()}
        return ConditionBits([_Bit(*bit) for bit in stored["bits"]], of_query)

    def save(self, state: State) -> None:
        if self.changed:
            self.changed = False
            bits = [[bit.text, bit.users, bit.freed, bit.idle] for bit in self.bits]
            state.put_json(CONDITIONS, {"bits": bits, "of_query": self.of_query})

    @property
    def words(self) -> int:
        """How many 64-bit words hold the bits of a report."""
        return max(1, -(-len(self.bits) // 64))

    def add(self, query: Query) -> int:
        """Returns the bit of a query's condition; -1 for the one that always holds."""
        text = json.dumps(query.spec["condition"])
        if text == _ALWAYS:
            return -1
        self.changed = True
        bit = self._find(text)
        self.bits[bit] = _Bit(text, self.bits[bit].users + 1)
        self.of_query[query.number] = bit
        return bit

    def is_new(self, bit: int) -> bool:
        """Whether the query that was added last is the only one with this condition."""
        return bit >= 0 and self.bits[bit].users == 1

    def condition(self, bit: int) -> Term:
        return _parsed(self.bits[bit].text)

    def _find(self, text: str) -> int:
        """Returns the bit that a condition has already, else one that is free, else a new one."""
        for index, bit in enumerate(self.bits):
            if bit.text == text:
                return index
        for index, bit in enumerate(self.bits):
            if bit.users == 0 and bit.idle >= _IDLE:
                return index
        self.bits.append(_Bit(text, 0))
        return len(self.bits) - 1

    def age(self, ticks: Ticks, final: int) -> None:
        """Counts the batches of bits that nobody uses; ticks up to `final` are over."""
        for bit in self.bits:
            if (
                bit.users == 0
                and bit.idle < _IDLE
                and (bit.freed is None or ticks.last_before(bit.freed) <= final)
            ):
                bit.idle += 1
                self.changed = True

    def remove(self, query: Cancelled) -> None:
        index = self.of_query.pop(query.number, None)
        if index is None:
            return
        self.changed = True
        bit = self.bits[index]
        bit.users -= 1
        if bit.users == 0:
            bit.freed = query.cancel

    def needed(self, time: Time) -> list[tuple[int, Term]]:
        """Returns (bit, condition) of those that a report at this time needs: in use, or with a user whose
        last tick is not past.
        """
        return [
            (index, _parsed(bit.text))
            for index, bit in enumerate(self.bits)
            if bit.users > 0 or (bit.freed is not None and bit.freed >= time)
        ]
