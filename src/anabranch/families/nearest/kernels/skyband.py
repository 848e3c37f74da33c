"""The candidates of one query: a relaxed k-skyband in one array (D-ZaLaPS, section 4.1).

The first k entries of a band are the k nearest, the paper's top tree, sorted by (distance, number). Behind
them are the candidates, the paper's candidate tree, in no order: most are never looked at again, and the one
that moves up is found by a look at all of them.

An item dominates another if it is younger and closer. What k others dominate can never be among the k nearest
again. `prune` drops such entries; it is called only now and then, when the band has outgrown its limit.

Every entry knows its `due`: the moment at which the window lets it go. Entries among the k nearest leave at
that moment. Candidates stay until they are pruned, and do not move up once their moment has passed.

    k = 2      distance  1   3 |  6   4       at 12 the entry 3 leaves; of the candidates, 4 is closer,
               due      17  12 | 19  11       but its due, 11, has passed; so 6 moves up
                                              results: at 12, -3, +6
"""

from __future__ import annotations

import math

import numpy as np

from anabranch.families.nearest.kernels.arrays import MINUS, NOBODY, PLUS, Band, BandEntry, Log, Moment
from anabranch.model.arrays import Array
from anabranch.numeric.jit import leaf, zero

# entries


@leaf
def write(log: Log, used: int, query: int, op: int, moment: Moment, number: int, dist: float) -> int:
    log.query[used] = query
    log.op[used] = op
    log.moment[used] = moment
    log.number[used] = number
    log.dist[used] = dist
    return used + 1


@leaf
def copy(band: Band, to: int, entry: int) -> None:
    band.dist[to] = band.dist[entry]
    band.number[to] = band.number[entry]
    band.due[to] = band.due[entry]


@leaf
def put(band: Band, entry: int, dist: float, number: int, due: Moment) -> None:
    band.dist[entry] = dist
    band.number[entry] = number
    band.due[entry] = due


@leaf
def move(source: Band, first: int, band: Band, entry: int, count: int) -> None:
    """Copies `count` entries. Indices are unsigned, so that no loop has to ask whether they count from the
    end.
    """
    a, b, size = np.uint64(first), np.uint64(entry), np.uint64(count)
    for i in range(size):
        band.dist[b + i] = source.dist[a + i]
    for i in range(size):
        band.number[b + i] = source.number[a + i]
    for i in range(size):
        band.due[b + i] = source.due[a + i]


@leaf
def insert(band: Band, top: int, dist: float, number: int, due: Moment) -> None:
    """Inserts an item into the first `top` entries where (distance, number) ranks it. There must be room
    behind them.
    """
    entry = top
    while entry > 0 and (
        band.dist[entry - 1] > dist or (band.dist[entry - 1] == dist and band.number[entry - 1] > number)
    ):
        copy(band, entry, entry - 1)
        entry -= 1
    put(band, entry, dist, number, due)


@leaf
def next_due(band: Band, count: int, k: int, never: Moment) -> Moment:
    """Returns the moment at which the next of the k nearest leaves."""
    soonest = never
    for entry in range(min(count, k)):
        due = band.due[entry]
        soonest = due if due < soonest else soonest
    return soonest


@leaf
def let_go(
    band: Band, count: int, top: int, query: int, leaves: Moment, moment: Moment, log: Log, used: int
) -> tuple[int, int, int]:
    """Removes those of the first `top` entries that are due at `leaves`. Returns (count, top, used).

    Candidates from the end of the band close the gap.
    """
    kept = zero()
    for entry in range(top):
        if band.due[entry] == leaves:
            used = write(log, used, query, MINUS, moment, band.number[entry], band.dist[entry])
        else:
            if kept < entry:
                copy(band, kept, entry)
            kept += 1
    for entry in range(kept, min(top, kept + count - top)):
        copy(band, entry, count - 1 - (entry - kept))
    return count - (top - kept), kept, used


@leaf
def closest(band: Band, count: int, top: int, moment: Moment) -> int:
    """Returns the candidate that ranks first among those that outlive the moment, or -1. Few are the nearest
    so far, so distances are compared first.
    """
    best = -1
    far, number = math.inf, 0
    for entry in range(top, count):
        dist = band.dist[entry]
        if dist > far or band.due[entry] <= moment:
            continue
        if dist < far or best < 0 or band.number[entry] < number:
            best, far, number = entry, dist, band.number[entry]
    return best


@leaf
def move_up(
    band: Band, count: int, top: int, k: int, query: int, leaves: Moment, moment: Moment, log: Log, used: int
) -> tuple[int, int]:
    """Fills the k nearest, of which `top` are left, from the candidates. Returns (count, used)."""
    while top < k and top < count:
        best = closest(band, count, top, leaves)
        if best < 0:
            return top, used  # all candidates have left the window
        dist, number, due = band.dist[best], band.number[best], band.due[best]
        copy(band, best, top)
        insert(band, top, dist, number, due)
        top += 1
        used = write(log, used, query, PLUS, moment, number, dist)
    return count, used


@leaf
def depart(
    band: Band, count: int, k: int, query: int, moment: Moment, log: Log, used: int
) -> tuple[int, int]:
    """Removes what is due at this moment, all at once, and moves others up. Returns (count, used)."""
    count, top, used = let_go(band, count, min(count, k), query, moment, moment, log, used)
    return move_up(band, count, top, k, query, moment, moment, log, used)


@leaf
def arrive(
    band: Band, count: int, k: int, query: int, moment: Moment, item: BandEntry, log: Log, used: int
) -> tuple[int, int]:
    """An item arrives, younger than all others, and nothing leaves with it. Returns (count, used)."""
    dist, number, due = item.dist, item.number, item.due
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
    band: Band, count: int, k: int, query: int, leaves: Moment, moment: Moment, item: BandEntry, log: Log,
    used: int,
) -> tuple[int, int]:  # fmt: skip
    """An item arrives and pushes the entry with the due `leaves` out of the window. Returns (count, used).

    Both happen at once: the one that moves up is the closest of the candidates and the item itself.
    """
    count, top, used = let_go(band, count, min(count, k), query, leaves, moment, log, used)
    put(band, count, item.dist, item.number, item.due)
    return move_up(band, count + 1, top, k, query, leaves, moment, log, used)


# pruning


@leaf
def rank(band: Band, top: int, count: int) -> None:
    """Sorts the candidates by (distance, number): shell sort, as they are few and often in order already."""
    gap = 1
    while 9 * gap < count - top:
        gap = 3 * gap + 1
    while gap > 0:
        for start in range(top + gap, count):
            dist, number, due = band.dist[start], band.number[start], band.due[start]
            entry = start
            while entry >= top + gap and (
                band.dist[entry - gap] > dist
                or (band.dist[entry - gap] == dist and band.number[entry - gap] > number)
            ):
                copy(band, entry, entry - gap)
                entry -= gap
            put(band, entry, dist, number, due)
        gap //= 3


@leaf
def sweep(band: Band, count: int, k: int, alive: Moment) -> int:
    """Drops candidates that are due before `alive`. Returns the count."""
    kept = min(count, k)
    for entry in range(kept, count):
        if band.due[entry] >= alive:
            copy(band, kept, entry)
            kept += 1
    return kept


@leaf
def prune(band: Band, count: int, k: int, alive: Moment, heap: Array) -> int:
    """Keeps the strict k-skyband of the entries that are due at `alive` or later. Returns their count.
    heap: int64[k]

    Nearest first, those before an entry are the closer ones. It is dominated if k of them are younger: if it
    is older than the k-th youngest so far, which is the least of a heap of k.
    """
    rank(band, min(count, k), count)
    kept, size = zero(), zero()
    for entry in range(count):
        number = band.number[entry]
        if band.due[entry] < alive:
            continue
        if size < k:
            push(heap, size, number)
            size += 1
        elif number > heap[0]:
            raise_least(heap, k, number)
        else:
            continue
        copy(band, kept, entry)
        kept += 1
    return kept


@leaf
def oldest_alive(band: Band, count: int, alive: Moment) -> int:
    """Returns the least number among entries that are due at `alive` or later, or NOBODY."""
    oldest, size = NOBODY, np.uint64(count)
    for entry in range(size):
        number = band.number[entry] if band.due[entry] >= alive else NOBODY
        oldest = number if number < oldest else oldest
    return oldest


@leaf
def outlives(band: Band, count: int, need: int, bound: Moment) -> bool:
    """Returns whether at least `need` entries are still there at `bound`: due then or later."""
    for entry in range(count):
        if band.due[entry] >= bound:
            need -= 1
            if need == 0:
                return True
    return False


@leaf
def holds_until(band: Band, count: int, need: int, heap: Array) -> Moment:
    """Returns the latest moment at which `need` entries are still there: the need-th greatest due. heap: room
    for `need` moments.
    """
    for entry in range(need):
        push(heap, entry, band.due[entry])
    for entry in range(need, count):
        if band.due[entry] > heap[0]:
            raise_least(heap, need, band.due[entry])
    return heap[0]


# heaps in arrays, the least value on top


@leaf
def push(heap: Array, size: int, value: Moment) -> None:
    """Adds a value to a heap of `size` values."""
    node = size
    while node > 0 and heap[(node - 1) // 2] > value:
        heap[node] = heap[(node - 1) // 2]
        node = (node - 1) // 2
    heap[node] = value


@leaf
def raise_least(heap: Array, size: int, value: Moment) -> None:
    """Replaces the least of a heap of `size` values by one that is not less."""
    node = 0
    while True:
        child = 2 * node + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[node] = heap[child]
        node = child
    heap[node] = value
