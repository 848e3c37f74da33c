"""Which candidates of a band are worth keeping, and until when they are enough (D-ZaLaPS, section 4.1).

In: one query's band. Out: the same entries in order, or fewer of them. Never: a change of the answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.heaps import push, raise_least
from anabranch.kernels.jit import leaf
from anabranch.kernels.skyband import Band, copy, put

Array = np.ndarray[Any, Any]

#: After all numbers.
NOBODY = 1 << 62


@leaf
def rank(band: Band, top: int, count: int) -> None:
    """Sorts the candidates by (distance, number): shell sort, for they are few and often in order already."""
    gap = 1
    while 9 * gap < count - top:
        gap = 3 * gap + 1
    while gap > 0:
        for start in range(top + gap, count):
            dist, number, due = band.dist[start], band.number[start], band.due[start]
            place = start
            while place >= top + gap and (
                band.dist[place - gap] > dist
                or (band.dist[place - gap] == dist and band.number[place - gap] > number)
            ):
                copy(band, place, place - gap)
                place -= gap
            put(band, place, dist, number, due)
        gap //= 3


@leaf
def sweep(band: Band, count: int, k: int, alive: Any) -> int:
    """Drops candidates that are due before `alive`; the count."""
    kept = min(count, k)
    for place in range(kept, count):
        if band.due[place] >= alive:
            copy(band, kept, place)
            kept += 1
    return kept


@leaf
def prune(band: Band, count: int, k: int, alive: Any, heap: Array) -> int:
    """Keeps the strict k-skyband of the entries that are due at `alive` or later; their count. heap:
    int64[k].

    Nearest first, those before an entry are the closer ones: it is dominated if k of them are younger,
    that is, if it is older than the k-th youngest so far, the least of a heap of k.
    """
    rank(band, min(count, k), count)
    kept = 0
    held = 0
    for place in range(count):
        number = band.number[place]
        if band.due[place] < alive:
            continue
        if held < k:
            push(heap, held, number)
            held += 1
        elif number > heap[0]:
            raise_least(heap, k, number)
        else:
            continue
        copy(band, kept, place)
        kept += 1
    return kept


@leaf
def oldest_alive(band: Band, count: int, alive: Any) -> int:
    """The least number among entries that are due at `alive` or later, or NOBODY."""
    oldest, size = NOBODY, np.uint64(count)
    for place in range(size):
        number = band.number[place] if band.due[place] >= alive else NOBODY
        oldest = number if number < oldest else oldest
    return oldest


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
        push(heap, place, band.due[place])
    for place in range(need, count):
        if band.due[place] > heap[0]:
            raise_least(heap, need, band.due[place])
    return heap[0]
