"""Slices and the windows composed from them, against looking at every item of every window.

Items are put into a derived stream directly, in several batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.chain.state import State
from anabranch.families.filters.derived_streams import WindowShape
from anabranch.families.filters.kernels import cut_slices
from anabranch.families.filters.kernels.cut_slices import ROW, TIME, SliceRows
from anabranch.families.filters.slice_store import IncomingSlices, SliceStore
from anabranch.families.filters.spec import Aggregate, Aggregation, Function
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from tests.drawn import examples

STREAM = Stream("s", (Column("t", ColumnType.INT), Column("n", ColumnType.INT)), time="t")
ALL = (Function.COUNT, Function.MIN, Function.MAX, Function.SUM)
SPEC = Aggregate(tuple(Aggregation(f, "n", f.value) for f in ALL), Window("rows", 1, 1))


@dataclass(frozen=True)
class Item:
    time: int
    value: int | None


@st.composite
def _items(draw: st.DrawFn) -> list[Item]:
    times = sorted(draw(st.lists(st.integers(0, 30), max_size=20)))
    return [Item(time, draw(st.none() | st.integers(-5, 5))) for time in times]


_SHAPES = st.lists(
    st.builds(WindowShape, st.sampled_from([TIME, ROW]), st.integers(1, 9), st.integers(1, 9)),
    min_size=1,
    max_size=4,
)


def _raw(store: SliceStore, items: list[Item], first: int) -> IncomingSlices:
    """Items as they come from `share` for windows in rows: a mask and the value."""
    layout = store.derived.book.raw([1])
    words = [(int(i.value is not None), 0 if i.value is None else i.value) for i in items]
    count = len(items)
    columns = [
        np.arange(first, first + count),
        np.array([item.time for item in items], np.int64),
        np.zeros(count, np.int64),
        np.ones(count, np.int64),
        np.full(count, layout),
        np.arange(count) * 2,
    ]
    return IncomingSlices(
        np.zeros(count, np.int64), SliceRows._make([*columns, np.array(words, np.int64).reshape(-1)])
    )


#: count, least, greatest, sum
Values = tuple[int, int | None, int | None, int | None]


def _decoded(store: SliceStore, words: Any, at: int, layout: int) -> Values:
    where = store.derived.book.arrays.where[layout, :, 1]
    count, least, greatest = (
        int(words[at + where[op]]) for op in (cut_slices.COUNT, cut_slices.MIN, cut_slices.MAX)
    )
    total = int(words[at + where[cut_slices.SUM_INT]])
    return (count, least, greatest, total) if count else (0, None, None, None)


def _plain(items: list[Item]) -> Values:
    values = [item.value for item in items if item.value is not None]
    return (len(values), min(values), max(values), sum(values)) if values else (0, None, None, None)


def _windows(shape: WindowShape, items: list[Item], ended: bool) -> list[tuple[int, int, Any]]:
    """(k, how many items, what they amount to): full windows and, at the end, those that have begun."""
    moments = [item.time if shape.axis == TIME else position for position, item in enumerate(items)]
    if not items:
        return []
    base = moments[0]
    reached = moments[-1] + (shape.axis == ROW)
    out = []
    for k in range(max(100, len(items))):
        start, end = base + k * shape.step, base + k * shape.step + shape.size
        inside = [item for moment, item in zip(moments, items, strict=True) if start <= moment < end]
        if inside and (end <= reached or ended):
            out.append((k, len(inside), _plain(inside)))
    return out


@settings(max_examples=examples(150))
@given(_items(), _SHAPES, st.lists(st.integers(0, 20), max_size=3), st.booleans())
def test_windows_from_slices(
    items: list[Item], shapes: list[WindowShape], cuts: list[int], ended: bool
) -> None:
    store = SliceStore(STREAM)
    slot = store.add(7, SPEC)
    store.derived.set_origin(items[0].time if items else None)
    shape_slots = [store.derived.add_shape(slot, shape) for shape in shapes]
    found: dict[int, list[tuple[int, int, Any]]] = {index: [] for index in shape_slots}
    edges = sorted({0, len(items), *(cut for cut in cuts if cut < len(items))})
    for first, stop in pairwise(edges):
        store.append(_raw(store, items[first:stop], first))
        due = store.due(items[stop - 1].time, ended and stop == len(items))
        next_ = store.derived.shapes["next"]
        each = zip(due.shapes.tolist(), due.stops.tolist(), strict=True)
        counts = {shape: store.count(shape, int(next_[shape]), before) for shape, before in each}
        composed = store.compose(due)
        assert counts == {shape: int((composed.shape == shape).sum()) for shape in counts}
        for index, k, count, layout, at in zip(*map(np.ndarray.tolist, composed[:5]), strict=True):
            found[index].append((k, count, _decoded(store, composed.words, at, layout)))
        store.evict()
    for index, shape in zip(shape_slots, shapes, strict=True):
        assert found[index] == _windows(shape, items, ended)


@settings(max_examples=examples(40))
@given(
    count=st.integers(50, 400),
    shapes=st.lists(
        st.builds(WindowShape, st.sampled_from([TIME, ROW]), st.integers(1, 200), st.integers(1, 60)),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    cuts=st.lists(st.integers(1, 400), max_size=6),
    ended=st.booleans(),
    seed=st.integers(0, 999),
)
def test_windows_of_many_slices(
    count: int, shapes: list[WindowShape], cuts: list[int], ended: bool, seed: int
) -> None:
    """... which are taken in blocks. A window on single rows cuts a slice at every item."""
    random = np.random.default_rng(seed)
    times = np.cumsum(random.integers(0, 2, count)).tolist()
    values = random.integers(-5, 5, count).tolist()
    items = [Item(t, None if v == 4 else v) for t, v in zip(times, values, strict=True)]
    shapes = [*shapes, WindowShape(ROW, 1, 1)]
    store, state = SliceStore(STREAM), State()
    slot = store.add(7, SPEC)
    store.derived.set_origin(items[0].time)
    shape_slots = [store.derived.add_shape(slot, shape) for shape in shapes]
    found: dict[int, list[tuple[int, int, Any]]] = {index: [] for index in shape_slots}
    edges = sorted({0, count, *(cut for cut in cuts if cut < count)})
    for first, stop in pairwise(edges):
        store.append(_raw(store, items[first:stop], first))
        composed = store.compose(store.due(items[stop - 1].time, ended and stop == count))
        for index, k, size, layout, at in zip(*map(np.ndarray.tolist, composed[:5]), strict=True):
            found[index].append((k, size, _decoded(store, composed.words, at, layout)))
        store.evict()
        store.save(state)  # which moves slices together when most are dead
    for index, shape in zip(shape_slots, shapes, strict=True):
        assert found[index] == _windows(shape, items, ended)


@settings(max_examples=examples(100))
@given(_items(), _SHAPES)
def test_no_slice_crosses_an_edge(items: list[Item], shapes: list[WindowShape]) -> None:
    """... and a slice is as long as it can be: it ends where an edge of some window lies."""
    store = SliceStore(STREAM)
    slot = store.add(7, SPEC)
    store.derived.set_origin(items[0].time if items else None)
    for shape in shapes:
        store.derived.add_shape(slot, shape)
    store.append(_raw(store, items, 0))
    closed = store.closed
    begins = [
        *closed.rows.number[: closed.used].tolist(),
        *([int(store.derived.streams["number"][0])] if items else []),
    ]
    assert begins == [n for n in range(len(items)) if n == 0 or _edge_before(n, items, shapes)]
    ends = [*begins[1:], len(items)]
    for row, (first, stop) in enumerate(zip(begins[:-1], ends[:-1], strict=True)):
        assert closed.rows.items[row] == stop - first
        layout, at = int(closed.rows.layout[row]), int(closed.rows.at[row])
        assert _decoded(store, closed.rows.words, at, layout) == _plain(items[first:stop])


def _edge_before(number: int, items: list[Item], shapes: list[WindowShape]) -> bool:
    """Whether a window begins or ends after the item before this one, and not after this one."""
    for shape in shapes:
        before, now, base = number - 1, number, 0
        if shape.axis == TIME:
            before, now, base = items[number - 1].time, items[number].time, items[0].time
        starts = [base + k * shape.step for k in range(40)]
        if any(before < edge <= now for start in starts for edge in (start, start + shape.size)):
            return True
    return False
