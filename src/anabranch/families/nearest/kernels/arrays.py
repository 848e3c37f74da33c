"""The arrays that the kernels of `nearest` work on: queries and what they remember, items,
candidates, results, and scratch space.

*Moments* are points of a query's clock: times, or for ROWS windows counts of eligible items. They are
float64, which holds integers up to 2 ** 53 exactly; where a stream's integer times are larger, they are int64
and the kernels are compiled once more.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from anabranch.model.arrays import Array, Bools, Floats, Ints, Ints32
from anabranch.numeric.jit import leaf, loop

RAPF, RA, PA = 0, 1, 2

Moments: TypeAlias = Array
Moment: TypeAlias = Any


T = TypeVar("T", bound=tuple[Array, ...])


def grown(arrays: T, used: int) -> T:
    """Returns a named tuple of arrays with twice the room, of which the first `used` entries are the same."""
    wider = [np.empty(2 * len(array), array.dtype) for array in arrays]
    for new, old in zip(wider, arrays, strict=True):
        new[:used] = old[:used]
    return type(arrays)(*wider)


def first_of(arrays: T, used: int) -> T:
    """Returns the first `used` entries of a named tuple of arrays."""
    return type(arrays)(*(array[:used] for array in arrays))


class Queries(NamedTuple):
    """One entry per query."""

    point: Floats  # [q, d]
    k: Ints
    need: Ints  # how many guards: k, or for PA the least pace
    target: Ints  # recent candidates when the radius is set
    upper: Ints  # recent candidates at which it shrinks
    size: Moments  # the window's size
    recent: Moments  # how long an item is recent
    step: Moments  # the longest stretch
    first_item: Ints  # number of the first item that the query sees
    end_item: Ints  # number of the first item that it no longer sees
    bound: Moments  # what is due before it has left when the batch is through
    mask: Ints  # row of Items.mask, or -1
    method: np.ndarray[Any, np.dtype[np.int8]]
    counted: Bools  # whether the window counts the items that pass the mask
    limits_row: Ints  # PA: row of `limits`, or -1
    limits: Ints  # [rows, k], see probable_skyband.py


class QueryRow(NamedTuple):
    """One entry of Queries, without its point: numbers are cheaper to hand on than arrays."""

    k: int
    need: int
    target: int
    upper: int
    size: Moment
    recent: Moment
    step: Moment
    first_item: int
    end_item: int
    bound: Moment
    mask: int
    method: int
    counted: bool
    limits_row: int


@leaf
def query_at(queries: Queries, q: int) -> QueryRow:
    return QueryRow(
        queries.k[q],
        queries.need[q],
        queries.target[q],
        queries.upper[q],
        queries.size[q],
        queries.recent[q],
        queries.step[q],
        queries.first_item[q],
        queries.end_item[q],
        queries.bound[q],
        queries.mask[q],
        queries.method[q],
        queries.counted[q],
        queries.limits_row[q],
    )


class Memory(NamedTuple):
    """What a query remembers besides its candidates, one entry per query."""

    radius: Floats
    limit: Ints  # candidates at which to prune
    seen: Ints  # eligible items so far, where they are counted
    pace: Floats  # PA: how many items per window come within the radius
    known: Floats  # PA: the windows of which that is the mean


class Items(NamedTuple):
    """The items in the buffer, then the new ones, by number."""

    position: Floats  # [d, n], NaN where missing
    number: Ints  # [n]
    clock: Moments  # [n], never falling
    mask: Bools  # [m, n]
    first_new: int  # index
    late: Ints  # indices of those in the buffer that no query has seen yet
    now: Moment  # the clock before this batch
    by_rows: int  # 1 if an item leaves with the arrival at its due, 0 if after all arrivals then
    never: Moment  # after all moments
    most_recent: int  # so many items are recent at most
    gamma: float  # the paper's pruning coefficient


class Scratch(NamedTuple):
    item: Ints  # with dist: the items of a stretch within the radius
    dist: Floats
    square: Floats  # squares, or the distances of what is looked for among all items
    numbers: Ints  # a heap, or the numbers of a query's entries, or the items that are looked for
    moments: Moments  # a heap
    radii: Floats  # a heap
    gaps: Floats  # [BUNCHES]
    leaf_gaps: Floats  # [BUNCH]
    some: Floats  # squares of some items at a time


MINUS, PLUS = 0, 1

#: After all numbers.
NOBODY = 1 << 62


class Band(NamedTuple):
    """The entries of one query; only the first `count` of them mean something."""

    dist: Floats
    number: Ints  # the item's number in the stream
    due: Moments  # when the window lets it go


class BandEntry(NamedTuple):
    """An item that arrives, as it becomes an entry of a band."""

    dist: float
    number: int
    due: Moment


class Log(NamedTuple):
    """Results in order: rows of (query, op, moment, item, distance)."""

    query: Ints32
    op: Array  # int8: MINUS or PLUS
    moment: Moments
    number: Ints
    dist: Floats


def new_band(size: int, moments: np.dtype[np.generic]) -> Band:
    """Returns room for `size` entries."""
    return Band(np.empty(size), np.empty(size, np.int64), np.empty(size, moments))


def new_log(size: int, moments: np.dtype[np.generic]) -> Log:
    """Returns room for `size` rows."""
    return Log(
        np.empty(size, np.int32),
        np.empty(size, np.int8),
        np.empty(size, moments),
        np.empty(size, np.int64),
        np.empty(size),
    )


class Room(NamedTuple):
    """Where the queries of a chunk are brought up to date, one after the other."""

    band: Band  # the candidates of the query at hand
    log: Log
    work: Scratch


@loop
def look_up(numbers: Ints, least: int, wanted: Ints, table: Ints32, indices: Ints) -> None:
    """indices[i] = where wanted[i] is among the numbers. table: room for all numbers from `least` on"""
    for index in range(len(numbers)):
        table[numbers[index] - least] = index
    for index in range(len(wanted)):
        indices[index] = table[wanted[index] - least]
