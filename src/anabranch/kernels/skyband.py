"""The candidates of one query: a relaxed k-skyband in one array (D-ZaLaPS, section 4.1).

A band is sorted by (distance, number): its first k entries are the answer, the paper's top tree; the rest is
the candidate tree. An item dominates another if it is younger and closer; what k others dominate can never be
among the k nearest again. `prune` drops such entries, and it is called only now and then: when the band has
outgrown its limit.

Every entry knows its `due`: the moment at which the window lets it go. Entries of the answer leave at their
moment; those behind are left alone, and dropped when it would be their turn to move up and their moment has
passed.

    k = 2      distance  1   3   4   6        at 12 the entry 3 leaves; the next is 4, whose due 11 has
               due      17  12  11  19        passed: dropped; 6 moves up. Comes out: at 12, -3, +6

Moments are int64 or float64; kernels are compiled for both.
"""

from __future__ import annotations

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
def insert(band: Band, count: int, dist: float, number: int, due: Any) -> int:
    """Puts an item where (distance, number) ranks it; the place it got. There must be room; the count grows
    by one.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if band.dist[middle] < dist or (band.dist[middle] == dist and band.number[middle] < number):
            low = middle + 1
        else:
            high = middle
    for place in range(count, low, -1):
        band.dist[place] = band.dist[place - 1]
        band.number[place] = band.number[place - 1]
        band.due[place] = band.due[place - 1]
    band.dist[low] = dist
    band.number[low] = number
    band.due[low] = due
    return low


@leaf
def remove(band: Band, count: int, place: int) -> None:
    """Closes the gap at `place`; the count shrinks by one."""
    for entry in range(place, count - 1):
        band.dist[entry] = band.dist[entry + 1]
        band.number[entry] = band.number[entry + 1]
        band.due[entry] = band.due[entry + 1]


@leaf
def next_due(band: Band, count: int, k: int, never: Any) -> Any:
    """The moment at which the next entry of the answer leaves."""
    soonest = never
    for place in range(min(count, k)):
        soonest = min(soonest, band.due[place])
    return soonest


@leaf
def move_up(
    band: Band, count: int, top: int, k: int, query: int, moment: Any, log: Log, used: int
) -> tuple[int, int]:
    """Fills the answer, which has `top` entries, from those behind it that outlive the moment. (count,
    used)
    """
    while top < k and top < count:
        if band.due[top] <= moment:
            remove(band, count, top)
            count -= 1
        else:
            used = write(log, used, query, PLUS, moment, band.number[top], band.dist[top])
            top += 1
    return count, used


@leaf
def depart(band: Band, count: int, k: int, query: int, moment: Any, log: Log, used: int) -> tuple[int, int]:
    """Lets go what is due at this moment, all at once, and moves others up. (count, used)"""
    top = min(count, k)
    place = 0
    while place < top:
        if band.due[place] == moment:
            used = write(log, used, query, MINUS, moment, band.number[place], band.dist[place])
            remove(band, count, place)
            count -= 1
            top -= 1
        else:
            place += 1
    return move_up(band, count, top, k, query, moment, log, used)


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
    """An item arrives and nothing leaves the window with it: it comes in if it ranks among the k. (count,
    used)
    """
    place = insert(band, count, dist, number, due)
    count += 1
    if place < k:
        if count > k:
            used = write(log, used, query, MINUS, moment, band.number[k], band.dist[k])
        used = write(log, used, query, PLUS, moment, number, dist)
    return count, used


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
    """An item arrives and pushes that entry of the answer out of the window whose due is `leaves`. (count,
    used)

    Both happen at once: what moves up and what comes in are the same one. There is exactly one such entry.
    """
    top = min(count, k)
    for place in range(top):
        if band.due[place] == leaves:
            used = write(log, used, query, MINUS, moment, band.number[place], band.dist[place])
            remove(band, count, place)
            break
    top -= 1
    place = insert(band, count - 1, dist, number, due)
    if place <= top:
        return count, write(log, used, query, PLUS, moment, number, dist)
    while band.due[top] <= leaves:
        remove(band, count, top)
        count -= 1
    return count, write(log, used, query, PLUS, moment, band.number[top], band.dist[top])


@leaf
def _raise_least(heap: Array, size: int, value: Any) -> None:
    """Replaces the least of a heap of `size` values by one that is not less."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value


@leaf
def _push(heap: Array, size: int, value: Any) -> None:
    """Adds a value to a heap of `size` values."""
    place = size
    while place > 0 and heap[(place - 1) // 2] > value:
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = value


@leaf
def prune(band: Band, count: int, k: int, alive: Any, heap: Array) -> int:
    """Keeps the strict k-skyband of the entries that are due at `alive` or later; their count. heap:
    int64[k].

    Entries come nearest first, so those before an entry are the closer ones: it is dominated if k of them are
    younger, that is, if it is older than the k-th youngest so far, the least of a heap of k.
    """
    kept = 0
    held = 0
    for place in range(count):
        number = band.number[place]
        if band.due[place] < alive:
            continue
        if held < k:
            _push(heap, held, number)
            held += 1
        elif number > heap[0]:
            _raise_least(heap, k, number)
        else:
            continue
        band.dist[kept] = band.dist[place]
        band.number[kept] = number
        band.due[kept] = band.due[place]
        kept += 1
    return kept


@leaf
def outlives(band: Band, count: int, need: int, bound: Any) -> bool:
    """Whether at least `need` entries are still there at `bound`: due then or later."""
    for place in range(count):
        if band.due[place] >= bound:
            need -= 1
            if need == 0:
                return True
    return False


@leaf
def holds_until(band: Band, count: int, need: int, heap: Array) -> Any:
    """The latest moment at which `need` entries are still there: the need-th greatest due. heap: room for
    `need` moments.
    """
    for place in range(need):
        _push(heap, place, band.due[place])
    for place in range(need, count):
        if band.due[place] > heap[0]:
            _raise_least(heap, need, band.due[place])
    return heap[0]
