"""The arrays that the kernels of `nearest` work on: queries, what they remember, the items of a batch, and
scratch that is made once a batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

RAPF, RA, PA = 0, 1, 2


class Queries(NamedTuple):
    """One row a query. Moments have the type of the clock: times, or for ROWS counts of eligible items."""

    point: Array  # float64[q, d]
    k: Array  # int64
    need: Array  # int64: guards; k, or for PA the candidate limit
    target: Array  # int64: recent candidates when the radius is set
    upper: Array  # int64: recent candidates at which it shrinks
    size: Array  # moment: the window's
    recent: Array  # moment: what counts as recent
    step: Array  # moment: the longest stretch
    start: Array  # int64: the number of the first item that the query sees
    stop: Array  # int64: and of the first that it does not
    bound: Array  # moment: at the end of the batch, what is due before it has left
    mask: Array  # int64: row of the masks, or -1
    method: Array  # int8
    counted: Array  # bool: its window counts the items that pass its mask
    chances: Array  # int64: PA's row of the limits, or -1
    limits: Array  # int64[rows, k]: see probable.py


class Stock(NamedTuple):
    """The candidates of the queries, one query after the other, and what else a query remembers."""

    first: Array  # int64[q + 1]
    dist: Array
    number: Array
    due: Array
    radius: Array  # float64[q]
    limit: Array  # int64[q]: candidates at which to prune
    seen: Array  # int64[q]: eligible items so far, where they are counted
    pace: Array  # float64[q]: PA: how many items a window brings within the radius
    known: Array  # float64[q]: PA: the windows of which that is the mean


class Items(NamedTuple):
    """What the buffer holds, then what is new, by number."""

    place: Array  # float64[d, n], NaN where missing
    number: Array  # int64[n]
    clock: Array  # moment[n], never falling
    mask: Array  # bool[m, n]
    fresh: int  # the first new one
    late: Array  # int64: those in the buffer that no query has seen yet
    now: Any  # the clock before this batch
    rows: int  # 1 if an item leaves with the arrival at its due, 0 if after all arrivals then


class Scratch(NamedTuple):
    near: Array  # int64, with dist: the items of a stretch within the radius
    dist: Array  # float64
    square: Array  # float64: squares, or the distances of what is looked for among all items
    numbers: Array  # int64: a heap, or the numbers of a query's entries, or what is looked for
    moments: Array  # a heap of moments
    radii: Array  # float64: a heap
    gaps: Array  # float64[BUNCHES]
    leaf_gaps: Array  # float64[BUNCH]
    some: Array  # float64: squares of some items at a time
