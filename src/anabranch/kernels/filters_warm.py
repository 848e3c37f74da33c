"""Calls the kernels of the filters family once, with the types they are called with: see `warm`."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels import edges, fanout, slices, windows


def warm_filters() -> None:
    one, node = np.array([0, 1]), np.zeros(1, np.int32)
    fanout.fan_out(one, node, one, node)
    fanout.owners_of(one, node, np.zeros(1, np.int64), np.full(1, -1))
    edges.first_after(np.int64(0), np.int64(1), np.int64(0), np.int64(1))
    edges.first_after_float(np.float64(0), np.float64(1), 0.0, 1.0)
    for kind in (np.int64, np.float64):
        _warm_slices(kind)


def _warm_slices(kind: Any) -> None:
    """One derived stream with one item and one window in rows of size 1."""
    layouts, shapes, streams = _layouts(), _shapes(), _streams()
    picks, owners = np.zeros(1, np.int64), np.zeros(1, np.int64)
    source, held, out = (_rows(kind, items) for items in (1, 0, 0))
    slices.pick_raw(picks, source, layouts, np.array([1]), picks, np.zeros(2, np.int64))
    rows, words = slices.cut(picks, picks, source, layouts, shapes, streams, held, out, owners)
    slices.refit(held, layouts, picks, picks, np.zeros(1, np.int64))
    lists = windows.Lists(np.full(1, -1), np.full(1, -1), np.full(1, -1))
    given = (picks, kind(0), False, shapes, layouts, streams, held, out, lists)
    for counting in (True, False):
        composed = windows.Composed._make(np.zeros(2, np.int64) for _ in windows.Composed._fields)
        windows.compose(*given, composed, counting)
    windows.first_open(shapes, np.int64(0), kind(0), np.int64(0))
    windows.first_open(shapes, 0, kind(0), np.int64(0))
    windows.settle(picks, shapes, streams, kind(0), True)
    slices.flush(picks, layouts, held, out, rows, words, owners)
    windows.link(picks, picks, lists)
    windows.walk(picks, lists, np.zeros(1, np.int64), owners)
    windows.evict(picks, shapes, out, lists)
    windows.unlink(0, lists)
    there, begin, one = np.zeros(1, np.bool_), np.zeros(1, np.int64), np.array([0, 1])
    windows.spans(picks, picks, picks, picks, one, composed.k, begin, owners)
    windows.lower_int(picks, picks, picks, picks, composed, layouts, np.zeros(1, np.int64), there)
    windows.lower_float(picks, picks, picks, picks, composed, layouts, np.zeros(1), there)


def _layouts() -> slices.Layouts:
    """Layout 0 counts column 0, layout 1 is column 0 as it comes."""
    where = np.full((2, slices.OPERATIONS, 1), -1)
    where[0, slices.COUNT, 0] = where[1, slices.RAW, 0] = 0
    integers = ([0, 1, 2], [slices.COUNT, slices.RAW], [0, 0], [0, 0], [1, 2], [0, 1])
    return slices.Layouts._make([*map(np.array, integers), where, np.zeros((2, 2), np.int64)])


def _rows(kind: Any, items: int) -> slices.Rows:
    """One row: raw if it has an item, otherwise room for a slice."""
    number = np.zeros(1, np.int64)
    layout = np.full(1, min(items, 1))
    columns = [
        number,
        np.zeros(1, kind),
        np.zeros(1, np.int64),
        np.full(1, items),
        layout,
        np.zeros(1, np.int64),
    ]
    return slices.Rows._make([*columns, np.ones(2, np.int64)])


def _shapes() -> slices.Shapes:
    integers = {name: np.zeros(1, np.int64) for name in slices.Shapes._fields}
    integers |= {"axis": np.full(1, slices.ROW), "size": np.ones(1, np.int64), "step": np.ones(1, np.int64)}
    floats = {name: np.ones(1) for name in slices.Shapes._fields if name.endswith("float")}
    return slices.Shapes(**{**integers, **floats, "first": np.array([0, 1])})


def _streams() -> slices.Streams:
    integers = {name: np.zeros(1, np.int64) for name in slices.Streams._fields}
    return slices.Streams(**{**integers, "edge_float": np.zeros(1)})
