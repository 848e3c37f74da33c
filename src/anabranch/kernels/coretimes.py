"""Core times: for one (range, count), the number that tells in which windows a point is core.

A point p is core in the window that starts at s exactly if at least `count` of its neighbours within the
range arrived at or after s, and p did too. So its core time is the smaller of its own arrival and the arrival
of its count-th newest neighbour: p is core exactly if s <= coretime(p), whatever the windows.

    arrivals of the neighbours of p = 6 within the range   2  4  5  8  9     count 3: the 3rd newest is 5
    core in windows that start at                          0 .. 5            coretime(p) = min(6, 5) = 5
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.jit import kernel
from anabranch.kernels.neighbours import Lists

Array = np.ndarray[Any, Any]

#: Before every window: the core time of a point that is core in none.
NEVER = -1


@kernel
def cores(lists: Lists, reach: float, count: int, start: int, stop: int, times: Array) -> None:
    """Core times as far as one window needs them: times[p] becomes `start` if p is core there, else NEVER.

    Looks at a list only until it has seen `count` neighbours. Points start..stop, times: int32[stop].
    """
    for point in range(start, stop):
        if reach >= lists.bound[point]:
            times[point] = start
            continue
        seen = 0
        for entry in range(lists.new_size[point]):  # newer than the point, so they are in the window
            seen += lists.new_distance[point, entry] <= reach
        entry = 0
        size = lists.size[point]
        while seen < count and entry < size and lists.distance[point, entry] <= reach:
            seen += lists.near[point, entry] >= start
            entry += 1
        times[point] = start if seen >= count else NEVER


@kernel
def _raise_least(heap: Array, size: int, value: int) -> None:
    """Replaces the least of a heap of `size` values by a greater one."""
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


@kernel
def core_times(lists: Lists, reach: float, count: int, start: int, stop: int, times: Array) -> None:
    """The core times of points start..stop as far as they are at or after `start`; earlier ones become NEVER.

    times: int32[stop]. A heap holds the `count` newest neighbours seen so far; before it is full, NEVER fills
    it.
    """
    heap = np.empty(max(count, 1), np.int32)
    for point in range(start, stop):
        if count == 0 or reach >= lists.bound[point]:
            times[point] = point
            continue
        heap[:] = NEVER
        entry = 0
        size = lists.size[point]
        while entry < size and lists.distance[point, entry] <= reach and heap[0] < point:
            arrival = lists.near[point, entry]
            if arrival >= start and arrival > heap[0]:
                _raise_least(heap, count, arrival)
            entry += 1
        for entry in range(lists.new_size[point]):  # newer than all in the list
            if lists.new_distance[point, entry] <= reach:
                _raise_least(heap, count, lists.new_near[point, entry])
        times[point] = min(point, heap[0])
