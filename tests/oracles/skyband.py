"""The true k-skyband, to compare the candidates of RA and PA with."""

from __future__ import annotations

import heapq

import numpy as np

from anabranch.simulate.dzalaps.workload import Workload


def skyband(work: Workload, query: int, k: int, first: int, stop: int) -> int:
    """Returns how many of the items first <= i < stop have fewer than k items that are younger and closer."""
    far = np.sqrt(((work.items[first:stop] - work.queries[query]) ** 2).sum(axis=1))
    youngest: list[int] = []  # of the closer ones, the k youngest
    count = 0
    for item in np.argsort(far, kind="stable").tolist():
        if len(youngest) < k:
            heapq.heappush(youngest, item)
        elif item > youngest[0]:
            heapq.heapreplace(youngest, item)
        else:
            continue
        count += 1
    return count
