"""What a regional server keeps in memory, as records: objects by number, queries by slot, the grid over both.

An object's number is dense over the whole stream, so its record is found by it directly. An object is one
cache line, and what is compared of a query is another. `NEVER` is the tick of what does not happen.

Two habits keep the number and size of what numba compiles small: records instead of one array per field, and
numpy integers instead of Python's where a constant is passed to another kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from anabranch.model.arrays import Array, Bytes, Floats, Ints, Ints32, Words
from anabranch.numeric.jit import inner, kernel, leaf

#: A number in a kernel; to numba, int64.
Int = int | np.int64
#: One record of an array of records; in a kernel its fields are attributes.
Record = Any

ZERO: Int = np.int64(0)
ONE: Int = np.int64(1)
NEVER: Int = int(np.iinfo(np.int64).max)

#: Shapes of a range.
CIRCLE: Int = np.int64(0)
BOX: Int = np.int64(1)

#: What the results of a query are.
OBJECTS, COUNT, MIN_X, MAX_X, MIN_Y, MAX_Y, NEAREST = 0, 1, 2, 3, 4, 5, 6

#: What a row of a fragment says (column `op`).
MINUS: Int = np.int64(-1)
PLUS: Int = np.int64(1)
VALUE: Int = np.int64(2)
DROPPED: Int = np.int64(3)
#: As a minus and a plus, of an answer that holds k objects at this tick.
MINUS_OF_K: Int = np.int64(-2)
PLUS_OF_K: Int = np.int64(2)

#: Kinds of a query's events, in the order in which they take effect within a tick.
ENDS, STARTS, FOCAL = 0, 1, 2

#: How far a query's value or list is in doubt within a tick: not at all; already up to date; to be computed
#: again.
UNTOUCHED: Int = np.int64(0)
RENEWED: Int = np.int64(1)
LOST: Int = np.int64(2)

#: The two lists by age: of objects, and of queries by their focal objects.
AGED_OBJECTS: Int = np.int64(0)
AGED_QUERIES: Int = np.int64(1)

#: Tallies of a server: the last mark that was given to an object; how many objects are present; whether the
#: lists of the objects in each cell are kept up to date; how many queries change in this tick.
STAMP, PRESENT, LISTED, CHANGES = 0, 1, 2, 3

#: Objects, and queries with their lists, are stored in blocks of this many.
BLOCK = 4096
QUERY_BLOCK = 256

#: Rows that a kernel makes room for at first.
_FEW_ROWS: Int = np.int64(256)

_FLOAT, _INT, _SHORT, _BYTE = np.float64, np.int64, np.int32, np.uint8

#: An object. One that is not present keeps the position it was last known at.
OBJECT = np.dtype(
    [
        ("x", _FLOAT),
        ("y", _FLOAT),
        ("number", _INT),  # of its last report
        ("expires", _INT),  # the tick at which it is gone if it stays silent
        ("cell", _SHORT),
        ("next", _SHORT),  # in its cell, -1 at the end
        ("previous", _SHORT),
        ("younger", _SHORT),  # the list of present objects by the tick at which they expire
        ("older", _SHORT),
        ("moved", _SHORT),  # index among the objects that move in this tick, else -1
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
        # a circle's radius, half a box's width, or the distance of the k-th nearest (infinite with fewer)
        ("a", _FLOAT),
        ("b", _FLOAT),  # half a box's height
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
        ("fixed", _BYTE),  # its focal point never moves
        ("old_live", _BYTE),
        ("old_x", _FLOAT),
        ("old_y", _FLOAT),
        ("number", _INT),
        ("expires", _INT),  # the tick at which the focal object is gone
        ("younger", _SHORT),  # the list of queries by that tick
        ("older", _SHORT),
        ("value", _FLOAT),  # local count, min or max
        ("who", _INT),  # the object that has it, -1 for none
        ("old_value", _FLOAT),
        ("old_who", _INT),
        ("k", _INT),
        ("listed", _INT),  # how many are in its list
        ("list_start", _INT),
        ("low_column", _SHORT),  # the cells it watches; none if the high column is below the low one
        ("high_column", _SHORT),
        ("low_row", _SHORT),
        ("high_row", _SHORT),
        ("inner_low_column", _SHORT),  # the cells that lie in its range as a whole, likewise
        ("inner_high_column", _SHORT),
        ("inner_low_row", _SHORT),
        ("inner_high_row", _SHORT),
        ("bit", _SHORT),  # its bit in the cells that it watches, -1 for none
        ("place", _SHORT),  # its place among the fences of the grid, -1 if it is none of them
        # a nearest query's search region, see search_circles; the centre is NaN where it has no circle
        ("centre_x", _FLOAT),
        ("centre_y", _FLOAT),
        ("reach", _FLOAT),  # its radius: infinite is everything, minus infinite nothing
        ("need", _FLOAT),  # the radius that the results of this batch need, from the same centre
        ("base", _FLOAT),  # what the first of them needed
        ("stray", _FLOAT),  # how far the focal point was from the centre
        ("slack", _FLOAT),  # how much more a batch needed lately than at its start
    ],
    align=True,
)

#: A fence: a query for a range around a fixed point, as far as it is compared with objects. One cache line.
FENCE = np.dtype(
    [
        ("x", _FLOAT),
        ("y", _FLOAT),
        ("a", _FLOAT),
        ("b", _FLOAT),
        ("number", _INT),
        ("slot", _SHORT),
        ("condition", _SHORT),
        ("mode", _BYTE),
        ("shape", _BYTE),
    ],
    align=True,
)

#: The fences of one word (places word * 64 to word * 64 + 63) at one cell, one bit each: those that watch the
#: cell, and those in which whoever is in the cell is sure to be.
FENCE_BITS = np.dtype([("watched", np.uint64), ("covered", np.uint64), ("word", _INT)], align=True)

#: A report as a regional server gets it. `leaves`: the object is at another server now, or gone.
MOVE = np.dtype(
    [
        ("tick", _INT),
        ("who", _INT),
        ("x", _FLOAT),
        ("y", _FLOAT),
        ("number", _INT),
        ("expires", _INT),
        ("leaves", _BYTE),
    ],
    align=True,
)

#: What happens to a query: it ends, starts, or has its focal point there.
EVENT = np.dtype(
    [
        ("tick", _INT),
        ("slot", _INT),
        ("kind", _INT),
        ("x", _FLOAT),
        ("y", _FLOAT),
        ("focal", _INT),
        ("expires", _INT),
        ("here", _BYTE),
        ("known", _BYTE),
    ],
    align=True,
)

#: An object that changes in a tick: the row of the move with its new state (-1: it expired), and its old
#: state.
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


class NameArrays(NamedTuple):
    """Names as bytes whose order is that of the names: `data[start[who] : start[who] + length[who]]`."""

    start: Ints
    length: Ints32
    data: Bytes


class FenceIndex(NamedTuple):
    """The fences of each cell: bits[first[cell] : first[cell + 1]], by word. Fences that lie near each other
    have places near each other, so that a cell needs few words.
    """

    fences: Array  # FENCE, by place
    first: Ints32  # [cells + 1]
    bits: Array  # FENCE_BITS


class ObjectGrid(NamedTuple):
    """Cells over the part of the plane where most objects are; what lies beyond belongs to the cells at the
    border. Queries that are not among the fences have a bit each in all cells.
    """

    x: float
    y: float
    width: float  # of a cell
    height: float
    columns: int
    rows: int
    first: Ints32  # [cells], the first object of a cell or -1
    watched: Words  # [cells, words], one bit per query that watches the cell
    covered: Words  # [cells, words], one bit per query in which whoever is in the cell is sure to be
    slots: Ints  # [64 * words], the query that has a bit
    fences: FenceIndex


class Metric(NamedTuple):
    """How distances are measured: in the plane, or on a globe of this radius with positions in degrees."""

    globe: bool
    radius: float


class ServerArrays(NamedTuple):
    """The arrays of one regional server. Dirty blocks are those to be stored."""

    objects: Array  # OBJECT
    truths: Words  # [objects, words], one bit per condition
    queries: Array  # QUERY
    lists: Ints  # the lists of nearest objects
    ends: Ints  # [2, 2]: (oldest, youngest) of the lists by age, of objects and of queries
    dirty_objects: Bytes
    dirty_queries: Bytes
    tallies: Ints  # STAMP, PRESENT, LISTED, CHANGES


class MoveBatch(NamedTuple):
    """Moves by tick, at most one per tick and object."""

    records: Array  # MOVE
    truths: Words  # [moves, words], one bit per condition


class TickScratch(NamedTuple):
    """Space that a tick needs, for as many objects and queries as there are."""

    moved: Array  # MOVED, the objects that change in a tick
    old_truths: Words  # [moved, words], their truths before
    changed: Ints  # slots of queries that change
    touched: Ints  # slots of queries whose value or list is in doubt
    hits: Ints
    who: Ints  # a list of nearest objects
    far: Floats  # and their distances


def records(kind: np.dtype[Any], columns: Mapping[str, Array]) -> Array:
    """Returns records from columns of the same names; columns without a field are left out."""
    names = kind.names or ()
    out = np.empty(len(columns[names[0]]), kind)
    for name in names:
        out[name] = columns[name]
    return out


@kernel
def present_objects(
    objects: Array, truths: Words, first: Int
) -> tuple[Ints, Words, Floats, Floats, Ints, Ints]:
    """Returns (who, truths, x, y, number, expires) of the present objects of the block that begins at
    `first`.
    """
    count, last = ZERO, min(first + BLOCK, len(objects))
    for who in range(first, last):
        count += objects[who].present
    numbers, who_truths = np.empty((3, count), np.int64), np.empty((count, truths.shape[1]), np.uint64)
    x, y = np.empty(count), np.empty(count)
    row = ZERO
    for who in range(first, last):
        this = objects[who]
        if this.present:
            numbers[0, row] = who
            numbers[1, row] = this.number
            numbers[2, row] = this.expires
            x[row] = this.x
            y[row] = this.y
            for word in range(truths.shape[1]):
                who_truths[row, word] = truths[who, word]
            row += 1
    return numbers[0], who_truths, x, y, numbers[1], numbers[2]


@kernel
def row_columns(rows: Array) -> tuple[Ints, Ints, Array, Ints, Floats, Floats, Floats]:
    """Returns the columns of rows (ROW), in the order of its fields; `op` as int8."""
    count = len(rows)
    tick, query, who = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    op, x, y, far = np.empty(count, np.int8), np.empty(count), np.empty(count), np.empty(count)
    for index in range(count):
        row = rows[index]
        tick[index] = row.tick
        query[index] = row.query
        op[index] = row.op
        who[index] = row.who
        x[index] = row.x
        y[index] = row.y
        far[index] = row.distance
    return tick, query, op, who, x, y, far


def new_objects(count: int) -> Array:
    """Returns records (OBJECT) of objects that nobody has seen."""
    out = np.zeros(count, OBJECT)
    for name in ("number", "next", "previous", "younger", "older", "moved", "mark"):
        out[name] = -1
    out["expires"] = NEVER
    return out


def new_queries(count: int) -> Array:
    """Returns records (QUERY) of slots that no query has."""
    out = np.zeros(count, QUERY)
    absent = ("number", "focal", "condition", "younger", "older", "who", "old_who", "bit", "place")
    no_cells = ("high_column", "high_row", "inner_high_column", "inner_high_row")
    for name in absent + no_cells:
        out[name] = -1
    out["expires"] = NEVER
    out["centre_x"] = out["centre_y"] = np.nan
    out["reach"] = np.inf
    return out


@inner
def _room(size: Int) -> Array:
    return np.empty(size, ROW)


@inner
def new_rows() -> Array:
    """Returns space for the first rows (ROW)."""
    return _room(_FEW_ROWS)


@inner
def with_room(rows: Array, count: Int, more: Int) -> Array:
    """Returns `rows` (ROW), of which `count` are used, with room for more; at least twice as long if they
    have to grow.
    """
    if count + more <= len(rows):
        return rows
    longer = _room(max(2 * len(rows), count + more))
    for index in range(count):
        longer[index] = rows[index]
    return longer


@leaf
def write_row(
    rows: Array, count: Int, tick: Int, query: Int, op: Int, who: Int, x: float, y: float, distance: float
) -> None:
    """Sets the row (ROW) at `count`, for which there is room."""
    row = rows[count]
    row.tick = tick
    row.query = query
    row.op = op
    row.who = who
    row.x = x
    row.y = y
    row.distance = distance


@inner
def emit(
    rows: Array, count: Int, tick: Int, query: Int, op: Int, who: Int, x: float, y: float, distance: float
) -> Array:
    """Returns `rows` (ROW) with one more at `count`; twice as long if they were full."""
    rows = with_room(rows, count, ONE)
    write_row(rows, count, tick, query, op, who, x, y, distance)
    return rows
