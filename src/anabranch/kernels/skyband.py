"""The candidates of one query: a relaxed k-skyband in one array (D-ZaLaPS, section 4.1).

The first k entries of a band are the answer, the paper's top tree, sorted by (distance, number). Behind
it are the candidates, the paper's candidate tree, in no order: most are never looked at again, and the
one that moves up is found by a look at all of them.

An item dominates another if it is younger and closer; what k others dominate can never be among the k
nearest again. `prune` (pruning.py) drops such entries, and it is called only now and then: when the band has
outgrown its limit.

Every entry knows its `due`: the moment at which the window lets it go. Entries of the answer leave at
their moment; candidates are left alone until they are pruned, and do not move up when their moment has
passed.

    k = 2      distance  1   3 |  6   4       at 12 the entry 3 leaves; of the candidates, 4 is closer,
    but its due
               due      17  12 | 19  11       11 has passed; 6 moves up. Comes out: at 12, -3, +6

Moments are int64 or float64; kernels are compiled for both.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.jit import kernel, leaf

Array = np.ndarray[Any, Any]

MINUS, PLUS = 0, 1


class Band(NamedTuple):
    """The entries of one query; only the first `count` of them mean something."""

    dist: Array  # float64
    number: Array  # int64: the item's number in the stream
    due: Array  # when the window lets it go


class Log(NamedTuple):
    """What comes out, in order: rows of (query, op, moment, item, distance)."""

    query: Array  # int32
    op: Array  # int8: MINUS or PLUS
    moment: Array
    number: Array  # int64
    dist: Array  # float64


@kernel
def new_band(size: int, moments: Array) -> Band:
    """Room for `size` entries; `moments` is any array of moments."""
    return Band(np.empty(size, np.float64), np.empty(size, np.int64), np.empty(size, moments.dtype))


@kernel
def wider_band(band: Band, count: int, size: int) -> Band:
    """The same entries with room for `size`."""
    wider = new_band(size, band.due)
    wider.dist[:count] = band.dist[:count]
    wider.number[:count] = band.number[:count]
    wider.due[:count] = band.due[:count]
    return wider


@kernel
def new_log(size: int, moments: Array) -> Log:
    return Log(
        np.empty(size, np.int32),
        np.empty(size, np.int8),
        np.empty(size, moments.dtype),
        np.empty(size, np.int64),
        np.empty(size, np.float64),
    )


@kernel
def wider_log(log: Log, used: int, size: int) -> Log:
    wider = new_log(size, log.moment)
    wider.query[:used] = log.query[:used]
    wider.op[:used] = log.op[:used]
    wider.moment[:used] = log.moment[:used]
    wider.number[:used] = log.number[:used]
    wider.dist[:used] = log.dist[:used]
    return wider


@leaf
def write(log: Log, used: int, query: int, op: int, moment: Any, number: int, dist: float) -> int:
    log.query[used] = query
    log.op[used] = op
    log.moment[used] = moment
    log.number[used] = number
    log.dist[used] = dist
    return used + 1


@leaf
def copy(band: Band, to: int, place: int) -> None:
    band.dist[to] = band.dist[place]
    band.number[to] = band.number[place]
    band.due[to] = band.due[place]


@leaf
def put(band: Band, place: int, dist: float, number: int, due: Any) -> None:
    band.dist[place] = dist
    band.number[place] = number
    band.due[place] = due


@leaf
def move(source: Any, first: int, band: Band, place: int, count: int) -> None:
    """Copies `count` entries. Places are unsigned, so that no pass has to ask whether they count from the
    end.
    """
    a, b, size = np.uint64(first), np.uint64(place), np.uint64(count)
    for i in range(size):
        band.dist[b + i] = source.dist[a + i]
    for i in range(size):
        band.number[b + i] = source.number[a + i]
    for i in range(size):
        band.due[b + i] = source.due[a + i]


@leaf
def insert(band: Band, top: int, dist: float, number: int, due: Any) -> None:
    """Puts an item into an answer of `top` entries where (distance, number) ranks it. There must be room
    behind them.
    """
    place = top
    while place > 0 and (
        band.dist[place - 1] > dist or (band.dist[place - 1] == dist and band.number[place - 1] > number)
    ):
        copy(band, place, place - 1)
        place -= 1
    put(band, place, dist, number, due)


@leaf
def next_due(band: Band, count: int, k: int, never: Any) -> Any:
    """The moment at which the next entry of the answer leaves."""
    soonest = never
    for place in range(min(count, k)):
        soonest = min(soonest, band.due[place])
    return soonest


@leaf
def let_go(
    band: Band, count: int, top: int, query: int, leaves: Any, moment: Any, log: Log, used: int
) -> tuple[int, int, int]:
    """Lets those of the answer's `top` entries go that are due at `leaves`. (count, top, used)

    The candidates behind close the gap: as many of the last as there are places.
    """
    kept = 0
    for place in range(top):
        if band.due[place] == leaves:
            used = write(log, used, query, MINUS, moment, band.number[place], band.dist[place])
        else:
            if kept < place:
                copy(band, kept, place)
            kept += 1
    for place in range(kept, min(top, kept + count - top)):
        copy(band, place, count - 1 - (place - kept))
    return count - (top - kept), kept, used


@leaf
def closest(band: Band, count: int, top: int, moment: Any) -> int:
    """The candidate that ranks first among those that outlive the moment, or -1. Few are the nearest so far,
    so that is asked first.
    """
    best = -1
    far, number = math.inf, 0
    for place in range(top, count):
        dist = band.dist[place]
        if dist > far or band.due[place] <= moment:
            continue
        if dist < far or best < 0 or band.number[place] < number:
            best, far, number = place, dist, band.number[place]
    return best


@leaf
def move_up(
    band: Band, count: int, top: int, k: int, query: int, leaves: Any, moment: Any, log: Log, used: int
) -> tuple[int, int]:
    """Fills the answer, which has `top` entries, from the candidates. (count, used)"""
    while top < k and top < count:
        best = closest(band, count, top, leaves)
        if best < 0:
            return top, used  # all that is behind the answer has left the window
        dist, number, due = band.dist[best], band.number[best], band.due[best]
        copy(band, best, top)
        insert(band, top, dist, number, due)
        top += 1
        used = write(log, used, query, PLUS, moment, number, dist)
    return count, used


@leaf
def depart(band: Band, count: int, k: int, query: int, moment: Any, log: Log, used: int) -> tuple[int, int]:
    """Lets go what is due at this moment, all at once, and moves others up. (count, used)"""
    count, top, used = let_go(band, count, min(count, k), query, moment, moment, log, used)
    return move_up(band, count, top, k, query, moment, moment, log, used)


@leaf
def arrive(
    band: Band,
    count: int,
    k: int,
    query: int,
    moment: Any,
    dist: float,
    number: int,
    due: Any,
    log: Log,
    used: int,
) -> tuple[int, int]:
    """An item arrives, younger than all others, and nothing leaves the window with it. (count, used)"""
    if count < k:
        insert(band, count, dist, number, due)
        return count + 1, write(log, used, query, PLUS, moment, number, dist)
    if dist >= band.dist[k - 1]:
        put(band, count, dist, number, due)
        return count + 1, used
    used = write(log, used, query, MINUS, moment, band.number[k - 1], band.dist[k - 1])
    copy(band, count, k - 1)
    insert(band, k - 1, dist, number, due)
    return count + 1, write(log, used, query, PLUS, moment, number, dist)


@leaf
def replace(
    band: Band,
    count: int,
    k: int,
    query: int,
    leaves: Any,
    moment: Any,
    dist: float,
    number: int,
    due: Any,
    log: Log,
    used: int,
) -> tuple[int, int]:
    """An item arrives and pushes that entry of the answer out of the window whose due is `leaves`.
    (count, used)

    Both happen at once: the one that moves up is the closest of the candidates and the item itself.
    """
    count, top, used = let_go(band, count, min(count, k), query, leaves, moment, log, used)
    put(band, count, dist, number, due)
    return move_up(band, count + 1, top, k, query, leaves, moment, log, used)
