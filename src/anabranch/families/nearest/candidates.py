"""The candidates of a part's queries: one chunk of state, brought up to date with a batch by the kernel.

In: a part, its chunk, the items and when its queries end. Out: what became or ceased to be one of the k
nearest; the chunk, put only if it changed. The chunk names its queries, so that queries that came or went
since it was written are told from those that stayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anabranch.families.nearest.groups import FOREVER, Group, Part
from anabranch.kernels import rapf
from anabranch.kernels.boxes import Boxes, boxes_of
from anabranch.kernels.meeting import Met, meet, nobody_met
from anabranch.kernels.nearest_arrays import Items, Queries, Stock
from anabranch.kernels.skyband import Log
from anabranch.zones import queries
from anabranch.zones.columns import Array
from anabranch.zones.state import Arrays, State

PREFIX = "candidates/"

#: What a chunk has of each query (with its number, `query`), and of each candidate.
_OF_QUERY = ("radius", "limit", "seen", "pace", "known")
_OF_CANDIDATE = ("dist", "number", "due")

#: Pairs of an item and a ball that are held at a time: 12 bytes each, and 16 while they are found.
_MOST_MET = 1 << 22

#: Candidates at which a new query is pruned for the first time.
_FIRST_LIMIT = 64


@dataclass(frozen=True)
class Moved:
    """What a batch did to a part: rows of the log, the radii after it, and until when they hold."""

    part: Part
    log: Log
    low: int  # the number of the oldest item that must stay in the buffer
    oldest: int  # and of the oldest candidate that is in the window
    radius: Array
    until: Array


@dataclass(frozen=True)
class Ending:
    """The queries that end in this batch: the first number that each does not see, and the moment before
    which all that is due has left.
    """

    stop: Mapping[int, int]
    bound: Mapping[int, int | float]


def move(
    state: State,
    group: Group,
    part: Part,
    items: Items,
    boxes: Boxes,
    met: Met,
    bound: int | float,
    ending: Ending,
    ask: bool,
) -> Moved:
    """Brings the part up to date. `met` is what lies in the balls of its queries, if somebody looked; `bound`
    holds for queries that go on; `ask` is whether `until` is wanted.
    """
    key = PREFIX + part.key
    stock, realigned = _stock(state.get(key), group, part)
    after, log, used, oldest, until, changed = rapf.run(
        _queries(group, part, bound, ending), stock, items, boxes, met, group.never, ask
    )
    if realigned or changed.any():
        state.put(key, {"query": part.numbers, **after._asdict()})
    low, eldest = oldest.tolist()
    return Moved(part, Log(*(column[:used] for column in log)), low, eldest, after.radius, until)


def meetings(state: State, group: Group, place: Array, boxes: Boxes, fresh: int) -> list[Met]:
    """For each part, what of the items from `fresh` on lies in the balls of its queries. Only if there are
    more queries than items and not too much comes of it; otherwise, and where queries of a part came or
    went, nobody looks.
    """
    total = sum(len(part.numbers) for part in group.parts)
    if total <= place.shape[1] - fresh:
        return [nobody_met()] * len(group.parts)

    def build() -> Boxes:
        points = np.concatenate([part.point for part in group.parts]).T
        return boxes_of(np.ascontiguousarray(points), 0, total)

    points = state.derived(f"points {group.by} {group.unit}", state.keys(queries.PREFIX), build)
    known = [_radius(state, part) for part in group.parts]
    none = [np.full(len(part.numbers), np.inf) for part in group.parts]
    radius = [other if one is None else one for one, other in zip(known, none, strict=True)]
    met = meet(points, np.concatenate(radius), place, boxes, fresh, _MOST_MET)
    if not len(met.first):
        return [nobody_met()] * len(group.parts)
    out, first = [], 0
    for part, one in zip(group.parts, known, strict=True):
        stop = first + len(part.numbers)
        out.append(nobody_met() if one is None else met._replace(first=met.first[first : stop + 1]))
        first = stop
    return out


def _radius(state: State, part: Part) -> Array | None:
    """The radii of a part's queries, unless queries came or went since they were stored."""
    held = state.get(PREFIX + part.key)
    return held["radius"] if held is not None and _is_of(held, part) else None


def taken_out(state: State, gone: Array) -> tuple[dict[str, Arrays], Array]:
    """Copies of the chunks with the rows of these queries alone, and the numbers of all their candidates."""
    chunks: dict[str, Arrays] = {}
    for key in state.keys(PREFIX):
        held = _arrays(state, key)
        place = np.flatnonzero(np.isin(held["query"], gone))
        if not len(place):
            continue
        sizes = np.diff(held["first"])[place]
        entry = np.concatenate([np.arange(held["first"][p], held["first"][p + 1]) for p in place])
        chunks[key] = {
            "first": np.r_[0, np.cumsum(sizes)],
            **{name: held[name][place] for name in ("query", *_OF_QUERY)},
            **{name: held[name][entry] for name in _OF_CANDIDATE},
        }
    numbers = [chunk["number"] for chunk in chunks.values()]
    return chunks, np.unique(np.concatenate(numbers)) if numbers else np.empty(0, np.int64)


def put_in(state: State, key: str, chunk: Arrays) -> None:
    """Adds rows of queries from another zone to a chunk; the next batch brings them in order."""
    held = state.get(key)
    if held is not None:
        first = np.r_[held["first"], held["first"][-1] + chunk["first"][1:]]
        names = ("query", *_OF_QUERY, *_OF_CANDIDATE)
        chunk = {"first": first, **{name: np.concatenate([held[name], chunk[name]]) for name in names}}
    state.put(key, chunk)


def forget(state: State, live: set[str]) -> None:
    """Drops the chunks of parts that are no more."""
    for key in state.keys(PREFIX):
        if key.removeprefix(PREFIX) not in live:
            state.drop(key)


def numbers(state: State) -> Array:
    """The numbers of all items that are somebody's candidates."""
    parts = [_arrays(state, key)["number"] for key in state.keys(PREFIX)]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def _arrays(state: State, key: str) -> Arrays:
    arrays = state.get(key)
    assert arrays is not None
    return arrays


def _queries(group: Group, part: Part, bound: int | float, ending: Ending) -> Queries:
    stop = np.full(len(part.numbers), FOREVER, np.int64)
    bounds = np.full(len(part.numbers), bound, group.dtype)
    if ending.stop:
        for place, number in enumerate(part.numbers.tolist()):
            if number in ending.stop:
                stop[place] = ending.stop[number]
                bounds[place] = ending.bound[number]
    return Queries(
        part.point,
        part.k,
        part.need,
        part.target,
        part.upper,
        part.size,
        part.recent,
        part.step,
        part.start,
        stop,
        bounds,
        part.mask,
        part.method,
        part.counted,
        part.chances,
        part.limits,
    )


def _is_of(held: Arrays, part: Part) -> bool:
    """Whether a chunk is of the queries that the part has now."""
    return held["query"] is part.numbers or np.array_equal(held["query"], part.numbers)


def _stock(held: Arrays | None, group: Group, part: Part) -> tuple[Stock, bool]:
    """The chunk as the kernel wants it, with a row for each query of the part; whether it had to be
    realigned.
    """
    if held is not None and _is_of(held, part):
        return Stock(**{name: held[name] for name in Stock._fields}), False
    count = len(part.numbers)
    stock = Stock(
        np.zeros(count + 1, np.int64),
        np.empty(0, np.float64),
        np.empty(0, np.int64),
        np.empty(0, group.dtype),
        np.full(count, np.inf),
        np.full(count, _FIRST_LIMIT, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.float64),
        np.zeros(count, np.float64),
    )
    return (stock if held is None else _realigned(held, part, stock)), True


def _realigned(held: Arrays, part: Part, empty: Stock) -> Stock:
    """The rows of queries that stayed, in the part's order, among empty ones for the new."""
    old = {number: place for place, number in enumerate(held["query"].tolist())}
    sizes = np.zeros(len(part.numbers), np.int64)
    spans = []
    for place, number in enumerate(part.numbers.tolist()):
        if number not in old:
            continue
        before = old[number]
        span = slice(held["first"][before], held["first"][before + 1])
        spans.append(np.arange(span.start, span.stop))
        sizes[place] = span.stop - span.start
        for column in _OF_QUERY:
            getattr(empty, column)[place] = held[column][before]
    taken = np.concatenate(spans) if spans else np.empty(0, np.int64)
    first = np.r_[0, np.cumsum(sizes)]
    columns = {name: held[name][taken] for name in _OF_CANDIDATE}
    return empty._replace(first=first, **columns)
