"""The candidates of a rendezvous zone's queries: one chunk of state per query chunk, brought up to date with
a batch by the kernel.

A chunk names its queries, so that queries that came or went since it was written are told from those that
stayed. It is put only if something in it changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anabranch.chain import control
from anabranch.chain.state import Arrays, State
from anabranch.families.nearest.kernels import rapf
from anabranch.families.nearest.kernels.arrays import Items, Memory, Moments, Queries
from anabranch.families.nearest.kernels.item_boxes import ItemBoxes, boxes_of
from anabranch.families.nearest.kernels.items_in_balls import BallItems, items_in_balls, unknown
from anabranch.families.nearest.kernels.rapf import BatchData
from anabranch.families.nearest.kernels.skyband import Band, Log
from anabranch.families.nearest.query_groups import QueryChunk, QueryGroup
from anabranch.model.arrays import Floats, Ints

PREFIX = "candidates/"

#: The number of an item that never comes.
_FOREVER = 1 << 62

#: Pairs of an item and a ball that are kept at a time: 12 bytes each, and 16 while they are found.
_MOST_PAIRS = 1 << 22

#: Candidates at which a new query is pruned for the first time.
_FIRST_LIMIT = 64


@dataclass(frozen=True)
class ChunkUpdate:
    """What a batch did to a query chunk: results, the radii after it, and until when they hold."""

    chunk: QueryChunk
    log: Log
    low: int  # the number of the oldest item that must stay in the buffer
    oldest: int  # the number of the oldest candidate that is in the window
    radius: Floats
    until: Moments


@dataclass(frozen=True)
class Cancellations:
    """By query number: the first item that a cancelled query does not see, and the moment before which all
    that is due has left.
    """

    end_item: Mapping[int, int]
    bound: Mapping[int, int | float]


def update(
    state: State,
    group: QueryGroup,
    chunk: QueryChunk,
    items: Items,
    boxes: ItemBoxes,
    in_balls: BallItems,
    bound: int | float,
    cancelled: Cancellations,
    until_wanted: bool,
) -> ChunkUpdate:
    """Brings the candidates of a query chunk up to date. `bound` holds for queries that go on."""
    key = PREFIX + chunk.key
    first, candidates, memory, realigned = _stored(state.get(key), group, chunk)
    batch = BatchData(items, boxes, in_balls, group.never, until_wanted)
    queries = _queries(group, chunk, bound, cancelled)
    after, log, outcome = rapf.run(queries, memory, first, candidates, batch)
    if realigned or outcome.changed.any():
        arrays = {"query": chunk.numbers, "first": outcome.first}
        state.put(key, arrays | after._asdict() | memory._asdict())
    low, oldest = outcome.oldest.tolist()
    return ChunkUpdate(chunk, log, low, oldest, memory.radius, outcome.until)


def _queries(group: QueryGroup, chunk: QueryChunk, bound: int | float, cancelled: Cancellations) -> Queries:
    end_item = np.full(len(chunk.numbers), _FOREVER, np.int64)
    bounds = np.full(len(chunk.numbers), bound, group.dtype)
    if cancelled.end_item:
        for index, number in enumerate(chunk.numbers.tolist()):
            if number in cancelled.end_item:
                end_item[index] = cancelled.end_item[number]
                bounds[index] = cancelled.bound[number]
    return Queries(
        chunk.point,
        chunk.k,
        chunk.need,
        chunk.target,
        chunk.upper,
        chunk.size,
        chunk.recent,
        chunk.step,
        chunk.first_item,
        end_item,
        bounds,
        chunk.mask,
        chunk.method,
        chunk.counted,
        chunk.limits_row,
        chunk.limits,
    )


def items_in_all_balls(
    state: State, group: QueryGroup, position: Floats, boxes: ItemBoxes, first_new: int
) -> list[BallItems]:
    """Returns for each chunk which of the items from `first_new` on lie in the balls of its queries. Only if
    there are more queries than items and not too much comes of it; otherwise, and where queries of a chunk
    came or went, it is unknown.
    """
    total = sum(len(chunk.numbers) for chunk in group.chunks)
    if total <= position.shape[1] - first_new:
        return [unknown()] * len(group.chunks)

    def build() -> ItemBoxes:
        points = np.concatenate([chunk.point for chunk in group.chunks]).T
        return boxes_of(np.ascontiguousarray(points), 0, total)

    points = state.cached(f"points {group.by} {group.unit}", state.keys(control.PREFIX), build)
    stored = [_stored_radius(state, chunk) for chunk in group.chunks]
    radius = [
        np.full(len(chunk.numbers), np.inf) if known is None else known
        for chunk, known in zip(group.chunks, stored, strict=True)
    ]
    found = items_in_balls(points, np.concatenate(radius), position, boxes, first_new, _MOST_PAIRS)
    if not len(found.first):
        return [unknown()] * len(group.chunks)
    out, first = [], 0
    for chunk, known in zip(group.chunks, stored, strict=True):
        stop = first + len(chunk.numbers)
        out.append(unknown() if known is None else found._replace(first=found.first[first : stop + 1]))
        first = stop
    return out


def _stored_radius(state: State, chunk: QueryChunk) -> Floats | None:
    """Returns the radii of a chunk's queries, unless queries came or went since they were stored."""
    arrays = state.get(PREFIX + chunk.key)
    return arrays["radius"] if arrays is not None and _has_queries_of(arrays, chunk) else None


def _has_queries_of(arrays: Arrays, chunk: QueryChunk) -> bool:
    return arrays["query"] is chunk.numbers or np.array_equal(arrays["query"], chunk.numbers)


def _stored(arrays: Arrays | None, group: QueryGroup, chunk: QueryChunk) -> tuple[Ints, Band, Memory, bool]:
    """Returns where the candidates of each query begin, the candidates, what the queries remember, and
    whether they had to be realigned with the chunk's queries.
    """
    if arrays is not None and _has_queries_of(arrays, chunk):
        memory = Memory(*(arrays[name] for name in Memory._fields))
        return arrays["first"], _band(arrays, group), memory, False
    count = len(chunk.numbers)
    memory = Memory(
        np.full(count, np.inf),
        np.full(count, _FIRST_LIMIT, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count),
        np.zeros(count),
    )
    if arrays is None:
        nothing = {"dist": np.empty(0), "number": np.empty(0, np.int64), "due": np.empty(0)}
        return np.zeros(count + 1, np.int64), _band(nothing, group), memory, True
    old = {number: index for index, number in enumerate(arrays["query"].tolist())}
    stayed = [(index, old[number]) for index, number in enumerate(chunk.numbers.tolist()) if number in old]
    now, before = np.array(stayed, np.int64).reshape(-1, 2).T
    for name, column in memory._asdict().items():
        column[now] = arrays[name][before]
    sizes = np.zeros(count, np.int64)
    sizes[now] = np.diff(arrays["first"])[before]
    taken = _entries(arrays["first"], before)
    band = _band(arrays, group)
    entries = Band(band.dist[taken], band.number[taken], band.due[taken])
    return np.r_[0, np.cumsum(sizes)], entries, memory, True


def _band(arrays: Arrays, group: QueryGroup) -> Band:
    """Returns stored candidates; their moments may be of the other type, if times became wide since."""
    return Band(arrays["dist"], arrays["number"], arrays["due"].astype(group.dtype, copy=False))


def _entries(first: Ints, queries: Ints) -> Ints:
    """Returns the indices of the candidates of some queries, given by index."""
    spans = [np.arange(first[query], first[query + 1]) for query in queries.tolist()]
    return np.concatenate([np.empty(0, np.int64), *spans])


def candidate_numbers(state: State) -> Ints:
    """Returns the numbers of all items that are candidates of some query."""
    return _unique([_arrays(state, key)["number"] for key in state.keys(PREFIX)])


def drop_unused(state: State, live: set[str]) -> None:
    """Drops the chunks of state of all query chunks but these."""
    for key in state.keys(PREFIX):
        if key.removeprefix(PREFIX) not in live:
            state.drop(key)


def copy_queries(state: State, numbers: Ints) -> tuple[dict[str, Arrays], Ints]:
    """Returns copies of the chunks of state with the candidates of these queries alone, and the numbers of
    the items.
    """
    chunks: dict[str, Arrays] = {}
    for key in state.keys(PREFIX):
        arrays = _arrays(state, key)
        queries = np.flatnonzero(np.isin(arrays["query"], numbers))
        if not len(queries):
            continue
        sizes = np.diff(arrays["first"])[queries]
        entries = _entries(arrays["first"], queries)
        chunks[key] = {
            "first": np.r_[0, np.cumsum(sizes)],
            **{name: arrays[name][queries] for name in ("query", *Memory._fields)},
            **{name: arrays[name][entries] for name in Band._fields},
        }
    return chunks, _unique([chunk["number"] for chunk in chunks.values()])


def add_queries(state: State, key: str, chunk: Arrays) -> None:
    """Adds candidates of queries from another zone to a chunk of state; the next batch sorts them."""
    arrays = state.get(key)
    if arrays is not None:
        first = np.r_[arrays["first"], arrays["first"][-1] + chunk["first"][1:]]
        names = ("query", *Memory._fields, *Band._fields)
        chunk = {"first": first, **{name: np.concatenate([arrays[name], chunk[name]]) for name in names}}
    state.put(key, chunk)


def _arrays(state: State, key: str) -> Arrays:
    arrays = state.get(key)
    assert arrays is not None
    return arrays


def _unique(parts: list[Ints]) -> Ints:
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
