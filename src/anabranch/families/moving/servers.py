"""What the servers of moving have in common: what they are made of, ticks, and what they send each other.

Ticks are the moments origin + n * tick at which results are brought up to date. Between the stages only n
travels. Whole times stay whole: with an int or timestamp column and a whole tick all arithmetic is in int64.
Otherwise it is in float64, and n is the one for which origin + n * tick, as computed, fits; a division only
gives a first guess.

Messages are PARTIAL packets, whose fact `what` says what they are:

| what          | from, to                 | rows                                                            |
|---------------|--------------------------|-----------------------------------------------------------------|
| names         | home to region, assemble | who, name: an object that was not known before                  |
| moves         | home to region           | tick, who, x, y, number, expires, leaves, t0, t1, ...           |
| search        | region to all homes      | bits: the cells that its nearest queries search;                |
|               |                          | facts `box`, and `late`: the last batch needs them, too         |
| records       | home to region           | who, x, y, number, expires, t0, ...: objects in cells new to it |
| nearest moves | home to region           | as moves, of the objects in those cells                         |
| truths        | home to region           | who: those of its objects for which a condition, `bit`, holds   |
| focal         | home to region           | tick, who, x, y, expires: where a focal object is               |
| requests      | home to region           | focal, query, flags: what that means for a query                |
| querying      | home to all of all       | query, zone, region: where its assembler is in the next batch   |
| assemblers    | assemble to assemble     | query, result, result_who: an assembler that moves, followed by |
| table values  | assemble to assemble     | query, sender, joined, value, who: its entries for a value, and |
| table lists   | assemble to assemble     | query, who, zone, x, y, distance, chosen: for nearest objects   |
| fragments     | region to assemble       | tick, query, op, who, x, y, distance; x may be a local value    |
| work          | region to home 0         | none; facts `work` in the last batches, `asked` by somebody     |
| divide        | home 0 to region         | none; facts `other`, `share`: give that zone so much            |
| bounds        | home to region 0         | none; fact `bounds` of its positions, until a layout has come   |
| layout        | region 0 to all of both  | none; fact `bounds`: the grid of regions is over these          |
| splits        | region to all of both    | zone, axis, cut, other: the table of splits (region)            |
| arrivals      | region to region         | as moves: objects whose position is another zone's now          |
| local plans   | region to region         | query, x, y, focal, expires, known: queries that may concern it |

Only final ticks travel, sorted by tick within a packet. `who` is an object's number, `expires` the tick at
which it is gone if it stays silent, and t0, t1, ... are the words of its condition bits. A server gets a
focal object once per report, however many queries follow it; `focal` is the row of that in the focal message
of the same sender.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain.balance import Patience
from anabranch.chain.packets import Kind, Packet
from anabranch.chain.stages import Stage
from anabranch.chain.state import Arrays, State
from anabranch.families.moving.kernels.object_names import Strings, has_integers
from anabranch.families.moving.kernels.region_layout import (
    RegionLayout,
    has_rectangles,
    layout_of,
    metric_of,
    regions_of,
)
from anabranch.model.arrays import Array, Bools, Ints, Words
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time

NAMES, MOVES, FOCAL_UPDATES, FRAGMENTS = "names", "moves", "focal", "fragments"
REQUESTS, SEARCH, RECORDS, NEAREST_MOVES = "requests", "search", "records", "nearest moves"
WORK, DIVIDE, SPLITS, ARRIVALS, LOCAL_PLANS = "work", "divide", "splits", "arrivals", "local plans"
BOUNDS, LAYOUT, TRUTHS = "bounds", "layout", "truths"
QUERYING, ASSEMBLERS = "querying", "assemblers"
TABLE_VALUES, TABLE_LISTS = "table values", "table lists"

#: The paper's messages between servers, as they are counted.
FOCAL_UPDATE, LOCAL_RESULT = "focal update", "local result"
REGISTRATION, UPDATE, DROP = "query registration", "query update", "query drop"
REQUEST_SHIPPING, ASSEMBLER_SHIPPING = "forwarding request shipping", "assembler shipping"

#: The depths of the stages in their chain.
HOME, REGION, ASSEMBLE = 1, 2, 3

#: The number of the last tick that there can be.
MOST_TICKS = 1 << 62

#: The columns of a table of splits.
SPLIT = ("zone", "axis", "cut", "other")

#: Flags of a request: the region participates in the query; the focal object is there (and has not expired).
PARTICIPATES, IS_KNOWN = 1, 2

ORIGIN, FINAL, _SPLITS, _LEARNED, _QUERYING = "origin", "tick", "splits", "bounds", "querying"


class MovingStage(Stage):
    """What every server is made of: the stream's settings, and who covers which part of the plane."""

    def __init__(self, stream: Stream, zones: int, patience: Patience) -> None:
        self.stream, self.zones, self.patience = stream, zones, patience
        self.layout, self.metric = layout_of(stream, zones), metric_of(stream)
        self.integers = has_integers(stream)

    def layout_now(self, state: State) -> RegionLayout:
        """Returns the layout, with the bounds and splits that this zone has got."""
        stored, learned = state.get(_SPLITS), state.get_json(_LEARNED)
        layout = self.layout if learned is None else layout_of(self.stream, self.zones, learned)
        return layout if stored is None else layout._replace(splits=stored["table"])

    def regions_now(self, state: State) -> RegionLayout:
        """Returns the layout with a zone per region: the servers whose messages are counted, however many of
        them are folded into one zone.
        """
        learned = state.get_json(_LEARNED)
        return layout_of(self.stream, regions_of(self.stream), learned)

    def lacks_bounds(self, state: State) -> bool:
        """Whether the grid of regions has to wait for the first positions."""
        is_given = bool(self.stream.bounds) or has_rectangles(self.stream)
        return not is_given and state.get_json(_LEARNED) is None

    def new_layout(self, state: State, packet: Packet) -> RegionLayout:
        """Keeps what a layout or splits message says; returns the layout from now on."""
        if packet.facts["what"] == LAYOUT:
            state.put_json(_LEARNED, packet.facts["bounds"])
        else:
            table = np.column_stack([packet.rows.column(name).to_numpy() for name in SPLIT])
            state.put(_SPLITS, {"table": table})
        return self.layout_now(state)


class QueryingServers:
    """Which zone is the querying server of each query: that whose region its issuer is in or, without an
    issuer, its focal point. Until that is known it follows from the query's number.

    A home that sees an issuer in another region says so to all zones of all stages. From the next batch on
    fragments go to the new server, and the assembler is there before them.
    """

    def __init__(self, state: State, zones: int) -> None:
        self.zones = zones
        stored = state.get(_QUERYING)
        self._at: dict[int, tuple[int, int]] = {}  # zone and region
        if stored is not None:
            query, *where = (stored[name].tolist() for name in ("query", "zone", "region"))
            self._at = dict(zip(query, zip(*where, strict=True), strict=True))
        self._sorted: Ints | None = None
        self._changed = False

    def __contains__(self, number: int) -> bool:
        """Whether it is known where its issuer is."""
        return number in self._at

    def __getitem__(self, number: int) -> int:
        return self.where(number)[0]

    def where(self, number: int) -> tuple[int, int]:
        """Returns (zone, region); the region is -1 until it is known."""
        return self._at.get(number, (number % self.zones, -1))

    def of_all(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Returns the zones and the regions of these queries; a region is -1 until it is known."""
        if self._sorted is None:
            rows = [(number, *where) for number, where in sorted(self._at.items())]
            self._sorted = np.array(rows, np.int64).reshape(-1, 3)
        known, zones, regions = self._sorted.T
        if not len(known):
            return numbers % self.zones, np.full(len(numbers), -1)
        row = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        found = known[row] == numbers
        return np.where(found, zones[row], numbers % self.zones), np.where(found, regions[row], -1)

    def adopt(self, packets: Sequence[Packet], active: Container[int]) -> list[tuple[int, int]]:
        """Takes up querying messages; returns (query, the zone that it was at)."""
        before = []
        for packet in of_kind(packets, QUERYING):
            columns = (packet.rows.column(name).to_pylist() for name in ("query", "zone", "region"))
            for number, zone, region in zip(*columns, strict=True):
                if number in active:
                    before.append((number, self[number]))
                    self._at[number] = (zone, region)
        if before:
            self._at = {number: where for number, where in self._at.items() if number in active}
        self._note_change(bool(before))
        return before

    def remove(self, numbers: Iterable[int]) -> None:
        gone = self._at.keys() & set(numbers)
        for number in gone:
            del self._at[number]
        self._note_change(bool(gone))

    def _note_change(self, changed: bool) -> None:
        if changed:
            self._changed, self._sorted = True, None

    def save(self, state: State) -> None:
        if self._changed:
            self._changed = False
            rows = np.array([(number, *where) for number, where in self._at.items()], np.int64).reshape(-1, 3)
            columns = zip(("query", "zone", "region"), rows.T, strict=True)
            state.put(_QUERYING, {name: column.copy() for name, column in columns})


# ticks


def tick_length(stream: Stream) -> Time:
    """Returns the stream's tick: an int where it is whole and times are."""
    tick = stream.tick
    if stream.time_type is ColumnType.FLOAT:
        return float(tick)
    return int(tick) if float(tick).is_integer() else tick


def at_type(stream: Stream) -> ColumnType:
    """Returns the type of `at`: that of `time`, or float where ticks fall between whole times."""
    assert stream.time_type is not None
    if stream.time_type is ColumnType.INT and isinstance(tick_length(stream), float):
        return ColumnType.FLOAT
    return stream.time_type


@dataclass(frozen=True)
class Ticks:
    origin: Time
    tick: Time

    def times(self, numbers: Array) -> Array:
        """origin + n * tick"""
        return self.origin + numbers * self.tick

    def first_at(self, times: Array) -> Array:
        """Returns the first tick at or after each time (times are not before the origin)."""
        return self._first(times, lambda at: at >= times)

    def first_beyond(self, times: Array, by: Time) -> Array:
        """Returns the first tick T with T - time > by."""
        return self._first(times + by, lambda at: at - times > by)

    def first_after(self, time: Time | None) -> int:
        """Returns the first tick after a time, which is the first of a query that is activated then; 0 where
        no time is given.
        """
        if time is None:
            return 0
        return self._first_one(time, lambda at: at > time)

    def last_before(self, time: Time) -> int:
        """Returns the last tick at or before a time; -1 if there is none."""
        return self.first_after(time) - 1

    def last_until(self, time: Time) -> int:
        """Returns the last tick before a time; -1 if there is none."""
        return self._first_one(time, lambda at: at >= time) - 1

    def _first_one(self, guess: Time, holds: Callable[[Time], bool]) -> int:
        """`_first` for one number."""
        high, step = min(max(int((guess - self.origin) // self.tick), 0), MOST_TICKS), 1
        while high < MOST_TICKS and not holds(self.origin + high * self.tick):
            high, step = min(high + step, MOST_TICKS), 2 * step
        low, step = high - 1, 1
        while low >= 0 and holds(self.origin + low * self.tick):
            high, low, step = low, max(low - step, -1), 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            if holds(self.origin + middle * self.tick):
                high = middle
            else:
                low = middle
        return high

    def _first(self, guess: Array, holds: Any) -> Array:
        """Returns the least n >= 0 for which `holds(origin + n * tick)`, which is false before some moment
        near `guess` and true from then on. The guess is nearly always right; where ticks are closer to each
        other than times can tell, steps are doubled and then halved.
        """
        high = np.clip(np.floor_divide(guess - self.origin, self.tick), 0, MOST_TICKS).astype(np.int64)
        step = 1
        while (short := (high < MOST_TICKS) & ~holds(self.times(high))).any():
            high = np.where(short, np.minimum(high + step, MOST_TICKS), high)
            step = min(2 * step, MOST_TICKS)
        low, step = high - 1, 1
        while (beyond := (low >= 0) & holds(self.times(low))).any():
            high = np.where(beyond, low, high)
            low = np.where(beyond, np.maximum(low - step, -1), low)
            step = min(2 * step, MOST_TICKS)
        while (between := high - low > 1).any():
            middle = low + (high - low) // 2
            is_high = between & holds(self.times(middle))
            high = np.where(is_high, middle, high)
            low = np.where(between & ~is_high, middle, low)
        return high


def final_tick(ticks: Ticks, progress: Mapping[str, Any]) -> int:
    """Returns the last tick that no report, activation or cancellation to come can change; -1 if there is
    none.

    Reports older than `time` do not come any more. Activations and cancellations at a moment before `last`,
    the time of the last item that left order, have been announced. Those between `last` and `time` have not,
    so ticks in between wait for the next item. With lateness = 4:

        the last item that left order has time 5, one with time 14 is still there, so `time` is 10
        a query that is cancelled at 7 is announced before the item at 14
        ticks up to 5 are final, 6 to 9 wait
    """
    if progress["ended"]:
        return ticks.last_before(progress["last"])
    # T < time and T <= last
    return min(ticks.last_until(progress["time"]), ticks.last_before(progress["last"]))


def progress_of(packets: Sequence[Packet]) -> Mapping[str, Any]:
    """Returns what order announced in this batch; nothing, if only back packets have come."""
    return next((packet.facts for packet in packets if packet.kind is Kind.PROGRESS), {})


def ticks_of(stream: Stream, progress: Mapping[str, Any]) -> Ticks | None:
    """Returns the ticks, once the stream has begun."""
    if progress.get("origin") is None:
        return None
    return Ticks(progress["origin"], tick_length(stream))


def ticks_known(state: State, stream: Stream, progress: Mapping[str, Any]) -> Ticks | None:
    """Returns the ticks for a zone that needs them also in a batch of back packets alone."""
    origin = state.get_json(ORIGIN)
    if origin is not None:
        return Ticks(origin, tick_length(stream))
    if progress.get("origin") is not None:
        state.put_json(ORIGIN, progress["origin"])
    return ticks_of(stream, progress)


def put_final(state: State, tick: int) -> None:
    state.put_json(FINAL, tick)


def final_before(state: State) -> int:
    """Returns the last final tick of the batches before, as put; -1 if there is none."""
    tick: int | None = state.get_json(FINAL)
    return -1 if tick is None else tick


# messages


def message(depth: int, zone: int, what: str, columns: dict[str, Array], sender: int, **facts: Any) -> Packet:
    rows = pa.record_batch([pa.array(column) for column in columns.values()], names=list(columns))
    return Packet(depth, zone, Kind.PARTIAL, rows, {"what": what, "from": sender, **facts})


def names_message(depth: int, zone: int, who: Ints, strings: Strings, sender: int) -> Packet:
    offsets, data = strings
    names = pa.BinaryArray.from_buffers(
        pa.binary(), len(who), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    rows = pa.record_batch([pa.array(who), names], names=["who", "name"])
    return Packet(depth, zone, Kind.PARTIAL, rows, {"what": NAMES, "from": sender})


def names_in(packet: Packet) -> tuple[Ints, Strings]:
    """Returns (objects, names) of a names message."""
    column = packet.rows.column("name")
    _, offsets, data = column.buffers()
    edges = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].copy()
    body = np.frombuffer(data, np.uint8).copy() if data is not None else np.zeros(0, np.uint8)
    return packet.rows.column("who").to_numpy().copy(), (edges, body)


def of_kind(packets: Sequence[Packet], *what: str) -> list[Packet]:
    return [packet for packet in packets if packet.kind is Kind.PARTIAL and packet.facts["what"] in what]


def column(packets: Sequence[Packet], name: str, kind: Any) -> Array:
    """Returns a column of several messages one after the other, as an array that can be written to."""
    parts = [packet.rows.column(name).to_numpy(zero_copy_only=False) for packet in packets]
    if not parts:
        return np.zeros(0, kind)
    return np.concatenate(parts).astype(kind, copy=False)


def truths_in(packets: Sequence[Packet], words: int) -> Words:
    """Returns the condition bits of moves, [rows, words]; words that a message lacks are 0."""
    out = np.zeros((sum(packet.rows.num_rows for packet in packets), words), np.uint64)
    first = 0
    for packet in packets:
        for word in range(words):
            if f"t{word}" in packet.rows.schema.names:
                out[first : first + packet.rows.num_rows, word] = packet.rows.column(f"t{word}").to_numpy()
        first += packet.rows.num_rows
    return out


def truth_columns(truths: Words) -> dict[str, Array]:
    return {f"t{word}": truths[:, word].copy() for word in range(truths.shape[1])}


def move_columns(report: Arrays, rows: Ints, leaves: Ints | Bools) -> dict[str, Array]:
    """Returns the columns of a moves message."""
    columns = {name: report[name][rows] for name in ("tick", "who", "x", "y", "number", "expires")}
    columns["leaves"] = leaves.astype(np.uint8)
    return columns | truth_columns(report["truths"][rows])
