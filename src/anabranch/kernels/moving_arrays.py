"""What a regional server keeps in memory, as records: objects by number, queries by place, the grid over
both.

An object's number is dense over the whole stream, so records are found by it directly; a query's place is
where a server keeps it. An object is one cache line, and what is compared of a query is another. `NEVER` is
the tick of what does not happen.

Records instead of an array a field, and numpy integers instead of Python's where a constant or a first
count is handed to another kernel: both keep the number and size of what numba compiles small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel

Array = np.ndarray[Any, Any]

#: A number in a kernel; to numba, int64.
Int = int | np.int64

ZERO: Int = np.int64(0)
NEVER: Int = int(np.iinfo(np.int64).max)

#: Shapes of a range.
CIRCLE, BOX = 0, 1

#: What a query answers with.
OBJECTS, COUNT, MIN_X, MAX_X, MIN_Y, MAX_Y, NEAREST = 0, 1, 2, 3, 4, 5, 6

#: What a row of a fragment says (column `op`).
MINUS: Int = np.int64(-1)
PLUS: Int = np.int64(1)
VALUE: Int = np.int64(2)
DROPPED: Int = np.int64(3)

#: Kinds of a query's events, in the order in which they take effect within a tick.
ENDS, STARTS, FOCAL = 0, 1, 2

#: How far a query's value or list is in doubt within a tick: not at all, brought up to date already, to be
#: found anew.
UNTOUCHED: Int = np.int64(0)
RENEWED: Int = np.int64(1)
LOST: Int = np.int64(2)

#: The two lists by age: of objects, and of queries by their focal objects.
AGED_OBJECTS: Int = np.int64(0)
AGED_QUERIES: Int = np.int64(1)

#: Objects, and queries with their lists, are stored in blocks of this many.
BLOCK = 4096
QUERY_BLOCK = 256

_FLOAT, _INT, _SHORT, _BYTE = np.float64, np.int64, np.int32, np.uint8

#: An object. One that is not present keeps the position it was last known at.
OBJECT = np.dtype(
    [
        ("x", _FLOAT),
        ("y", _FLOAT),
        ("number", _INT),  # of its last report
        ("gone", _INT),  # the tick at which it is gone if it stays silent
        ("cell", _SHORT),
        ("after", _SHORT),  # next in its cell, -1 at the end
        ("before", _SHORT),
        ("younger", _SHORT),  # the list of present objects by the tick at which they are gone
        ("older", _SHORT),
        ("moved", _SHORT),  # place among the objects that move in this tick, else -1
        ("mark", _SHORT),  # scratch
        ("present", _BYTE),
    ],
    align=True,
)

#: A query. Old values are those of the tick before, for queries that changed in this tick.
QUERY = np.dtype(
    [
        ("x", _FLOAT),  # the focal point
        ("y", _FLOAT),
        (
            "a",
            _FLOAT,
        ),  # a circle's radius, half a box's width, the distance of the k-th nearest (infinite with fewer)
        ("b", _FLOAT),  # half a box's height
        ("start", _INT),  # the number of the first report it sees
        ("focal", _INT),  # the focal object, -1 for a fixed point
        ("condition", _SHORT),  # its bit among the truths of a report, -1 for none
        ("mode", _BYTE),
        ("shape", _BYTE),
        ("changed", _BYTE),  # in this tick
        ("touched", _BYTE),
        ("started", _BYTE),  # its first tick has come
        ("known", _BYTE),  # its focal point is known
        ("here", _BYTE),  # this server participates
        ("live", _BYTE),  # all three
        ("old_live", _BYTE),
        ("old_x", _FLOAT),
        ("old_y", _FLOAT),
        ("number", _INT),
        ("gone", _INT),  # the tick at which the focal object is gone
        ("younger", _SHORT),  # the list of queries by that tick
        ("older", _SHORT),
        ("value", _FLOAT),  # local count, min or max
        ("who", _INT),  # the object that has it, -1 for none
        ("old_value", _FLOAT),
        ("old_who", _INT),
        ("k", _INT),
        ("held", _INT),  # how many are in its list
        ("first", _INT),  # where its list begins
        ("low_column", _SHORT),  # the cells it watches; none if the high column is below the low one
        ("high_column", _SHORT),
        ("low_row", _SHORT),
        ("high_row", _SHORT),
        ("inner_low_column", _SHORT),  # the cells that lie in its range as a whole, likewise
        ("inner_high_column", _SHORT),
        ("inner_low_row", _SHORT),
        ("inner_high_row", _SHORT),
        (
            "centre_x",
            _FLOAT,
        ),  # a nearest query's search region, see moving_search; NaN where it has no circle
        ("centre_y", _FLOAT),
        ("reach", _FLOAT),  # its radius: infinite is everything, minus infinite nothing
        ("need", _FLOAT),  # the radius that the answers of this batch need, from the same centre
        ("base", _FLOAT),  # what the first of them needed
        ("stray", _FLOAT),  # how far the focal point was from the centre
        ("slack", _FLOAT),  # how much more than at its start a batch came to need, of late
    ],
    align=True,
)

#: A report as a regional server gets it. `leaves`: the object is at another server now, or gone.
MOVE = np.dtype(
    [
        ("tick", _INT),
        ("who", _INT),
        ("x", _FLOAT),
        ("y", _FLOAT),
        ("number", _INT),
        ("gone", _INT),
        ("leaves", _BYTE),
    ],
    align=True,
)

#: What happens to a query: it ends, starts, or has its focal point there.
EVENT = np.dtype(
    [
        ("tick", _INT),
        ("place", _INT),
        ("kind", _INT),
        ("x", _FLOAT),
        ("y", _FLOAT),
        ("focal", _INT),
        ("gone", _INT),
        ("here", _BYTE),
        ("known", _BYTE),
    ],
    align=True,
)

#: An object that changes in a tick: the row of the moves with its new state (-1: gone in silence), and its
#: old state.
MOVED = np.dtype(
    [
        ("who", _INT),
        ("row", _INT),
        ("x", _FLOAT),
        ("y", _FLOAT),
        ("number", _INT),
        ("cell", _INT),
        ("present", _BYTE),
    ],
    align=True,
)

#: A row of a fragment: a plus or minus tuple, or a local value (in `x`).
ROW = np.dtype(
    [
        ("tick", _INT),
        ("query", _INT),
        ("op", _INT),
        ("who", _INT),
        ("x", _FLOAT),
        ("y", _FLOAT),
        ("distance", _FLOAT),
    ],
    align=True,
)


class Names(NamedTuple):
    """Names as bytes whose order is that of the names: `data[start[who] : start[who] + length[who]]`."""

    start: Array  # int64
    length: Array  # int32
    data: Array  # uint8


class Grid(NamedTuple):
    """Cells over the part of the plane where most objects are; what lies beyond belongs to the cells at the
    border.
    """

    x: float
    y: float
    width: float  # of a cell
    height: float
    columns: int
    rows: int
    first: Array  # int32[cells], the first object of a cell or -1
    watched: Array  # uint64[cells, words], one bit a query that watches the cell
    covered: Array  # uint64[cells, words], one bit a query in which whoever is in the cell is sure to be


class Space(NamedTuple):
    """How distances are measured: in the plane, or on a globe of this radius with positions in degrees."""

    globe: bool
    radius: float


class Server(NamedTuple):
    """The arrays of one regional server. Dirty blocks are those to be stored."""

    objects: Array  # OBJECT
    truths: Array  # uint64[objects, words], one bit a condition
    queries: Array  # QUERY
    lists: Array  # int64, the lists of nearest objects
    ends: Array  # int64[2, 2]: (oldest, youngest) of the lists by age, of objects and of queries
    dirty_objects: Array  # uint8
    dirty_queries: Array  # uint8


@kernel
def new_rows(size: Int) -> Array:
    return np.empty(size, ROW)


@kernel
def emit(
    rows: Array, count: Int, tick: Int, query: Int, op: Int, who: Int, x: float, y: float, distance: float
) -> Array:
    """`rows` with one more at `count`; twice as long if they were full."""
    if count == len(rows):
        grown = new_rows(2 * count)
        for place in range(count):
            grown[place] = rows[place]
        rows = grown
    row = rows[count]
    row.tick = tick
    row.query = query
    row.op = op
    row.who = who
    row.x = x
    row.y = y
    row.distance = distance
    return rows
