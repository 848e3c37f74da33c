"""The queries of a rendezvous zone and their candidates, as arrays: groups that share coordinates and clock,
in chunks of at most a thousand queries.

The candidates of a query chunk are one chunk of state. Larger ones would cost more to write
when few of their queries change; smaller ones cost a call each.

    unit      clock of the items                                       moments
    rows      how many items with all coordinates came before          integers
    range     the stream's time                                        as the time column
    fraction  the stream's integer time, for windows like RANGE 2.5    fractions
    long      the stream's integer time, for windows beyond 2 ** 52    integers

Moments are kept as float64, so that kernels are compiled for one type; as int64 only where integers are too
large for that: `long` windows, and `range` windows while the stream's times are (*wide*).

The candidates of a query chunk are brought up to date with a batch by the kernel. Their chunk of state names
its queries, so that queries that came or went since it was written are told from those that stayed. It is
put only if something in it changed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.control import Query
from anabranch.chain.state import Arrays, State
from anabranch.families.nearest.kernels import rapf
from anabranch.families.nearest.kernels.arrays import PA, RA, RAPF, Band, Items, Log, Memory, Moments, Queries
from anabranch.families.nearest.kernels.item_boxes import (
    BallItems,
    ItemBoxes,
    boxes_of,
    items_in_balls,
    unknown,
)
from anabranch.families.nearest.kernels.probable_skyband import MEMORY
from anabranch.families.nearest.kernels.rapf import BatchData
from anabranch.families.nearest.space import By, Globe
from anabranch.families.nearest.spec import Nearest
from anabranch.model.arrays import Array, Bools, Floats, Ints
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.terms import TRUE, Term

#: An integer time below this, plus a window below this, is a float64 without rounding.
EXACT = 1 << 52
#: PA knows the chances of an entry that competes for up to so many ranks.
MOST_LIMITS = 1024

_METHODS = {"RAPF": RAPF, "RA": RA, "PA": PA}
_LONGEST = 1 << 61
#: More items than any window has; a greater k is the same as this.
_MOST_NEAREST = 1 << 40


@dataclass(frozen=True)
class QueryGroup:
    by: By
    unit: str
    whole: bool  # moments are integers
    dtype: np.dtype[np.int64] | np.dtype[np.float64]
    globe: Globe | None = None  # where distances are those on a globe
    chunks: list[QueryChunk] = field(default_factory=list)

    @property
    def by_rows(self) -> bool:
        return self.unit == "rows"

    @property
    def never(self) -> np.int64 | np.float64:
        """A moment after all others."""
        return np.float64(math.inf) if self.dtype == np.float64 else np.int64(2**63 - 1)


@dataclass(frozen=True)
class QueryChunk:
    """The queries of a group that are in one chunk of state, by number. For the arrays see
    kernels.arrays.Queries.
    """

    key: str
    names: pa.StringArray
    numbers: Ints
    point: Floats
    k: Ints
    need: Ints
    target: Ints
    upper: Ints
    size: Moments
    recent: Moments
    step: Moments
    first_item: Ints
    mask: Ints
    method: Array
    counted: Bools
    limits_row: Ints
    limits: Ints
    conditions: list[Term]  # the rows of `mask`


def unit_of(stream: Stream, spec: Nearest) -> str:
    if spec.window.by_rows:
        return "rows"
    if stream.time_type is ColumnType.FLOAT:
        return "range"
    if float(spec.window.size) != math.floor(spec.window.size):
        return "fraction"
    return "long" if spec.window.size >= EXACT else "range"


def new_group(stream: Stream, by: By, unit: str, wide: bool) -> QueryGroup:
    """Returns a group without queries. wide: integer times do not fit into a float64."""
    whole = unit in ("rows", "long") or (unit == "range" and stream.time_type is not ColumnType.FLOAT)
    integers = unit == "long" or (unit == "range" and whole and wide)
    kind = np.dtype(np.int64) if integers else np.dtype(np.float64)
    return QueryGroup(by, unit, whole, kind, Globe.of(stream, by))


def groups_of(state: State, stream: Stream, wide: bool) -> list[QueryGroup]:
    """Returns the groups of this zone. Only those chunks of queries are parsed again that changed."""
    keys = state.keys(control.PREFIX)

    def build() -> list[QueryGroup]:
        out: dict[tuple[By, str], QueryGroup] = {}
        for key in keys:
            groups = state.cached(f"groups {wide} {key}", [key], partial(_parsed, state, stream, wide, key))
            for group in groups:
                whole = out.setdefault((group.by, group.unit), new_group(stream, group.by, group.unit, wide))
                whole.chunks.extend(group.chunks)
        return list(out.values())

    return state.cached(f"groups {wide}", keys, build)


def _parsed(state: State, stream: Stream, wide: bool, key: str) -> list[QueryGroup]:
    """Returns the groups of one chunk of queries."""
    active = control.queries(state)
    rows = state.rows(key)
    assert rows is not None
    members: dict[tuple[By, str], list[tuple[Query, Nearest]]] = {}
    for number in sorted(rows.column("number").to_pylist()):
        query = active[number]
        spec = Nearest.from_json(query.spec)
        members.setdefault((spec.by, unit_of(stream, spec)), []).append((query, spec))
    out = []
    for (by, unit), queries in members.items():
        group = new_group(stream, by, unit, wide)
        name = f"{json.dumps([by, unit])}/{key.removeprefix(control.PREFIX)}"
        group.chunks.append(chunk_of(name, group, queries))
        out.append(group)
    return out


def chunk_of(key: str, group: QueryGroup, members: list[tuple[Query, Nearest]]) -> QueryChunk:
    """Returns these queries, given by number, as a chunk of the group."""
    specs = [spec for _, spec in members]
    conditions = list(dict.fromkeys(spec.condition for spec in specs if spec.condition != TRUE))
    guards = [_guards(spec) for spec in specs]
    limits_row, limits = _limits(specs)
    as_moment = int if group.whole else float
    size = np.array([as_moment(min(spec.window.size, _LONGEST)) for spec in specs], group.dtype)
    quarter = size // 4 if group.whole else size / 4
    point = np.array([spec.point for spec in specs], np.float64)
    return QueryChunk(
        key,
        pa.array([query.name for query, _ in members], pa.string()),
        np.array([query.number for query, _ in members], np.int64),
        point if group.globe is None else group.globe.places(point),
        np.array([min(spec.k, _MOST_NEAREST) for spec in specs], np.int64),
        np.array([guard.least for guard in guards], np.int64),
        np.array([guard.target for guard in guards], np.int64),
        np.array([guard.most for guard in guards], np.int64),
        size,
        size - quarter,
        quarter,
        np.array([query.first_item for query, _ in members], np.int64),
        np.array([conditions.index(s.condition) if s.condition != TRUE else -1 for s in specs], np.int64),
        np.array([_METHODS[method_of(spec)] for spec in specs], np.int8),
        np.array([group.by_rows and spec.condition != TRUE for spec in specs], np.bool_),
        limits_row,
        limits,
        conditions,
    )


def method_of(spec: Nearest) -> str:
    """Returns the method; instead of PA it is RAPF, which makes no error, where PA has no limits for k."""
    return "RAPF" if spec.method == "PA" and spec.k > MOST_LIMITS else spec.method


def _guards(spec: Nearest) -> Paces:
    """Returns how many items within the radius keep others out: k recent candidates and some in reserve, or
    for PA its paces.
    """
    if method_of(spec) == "PA":
        assert spec.sigma is not None
        return paces(spec.k, spec.sigma)
    k = min(spec.k, _MOST_NEAREST)
    root = math.sqrt(k)
    return Paces(k, k + int(3 * root) + 1, k + int(6 * root) + 4)


def _limits(specs: list[Nearest]) -> tuple[Ints, Ints]:
    """Returns each query's row of PA's limits, and these: one row per sigma."""
    most = max([spec.k for spec in specs if method_of(spec) == "PA"], default=0)
    sigmas = list(dict.fromkeys(spec.sigma for spec in specs if spec.sigma is not None))
    rows = [candidate_limits(most, sigma) for sigma in sigmas]
    limits = np.array(rows, np.int64).reshape(len(rows), most)
    return np.array([sigmas.index(s.sigma) if s.sigma is not None else -1 for s in specs], np.int64), limits


# the candidates

CANDIDATES = "candidates/"

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


def update_candidates(
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
    key = CANDIDATES + chunk.key
    first, candidates, memory, realigned = _stored(state.get(key), group, chunk)
    batch = BatchData(items, boxes, in_balls, until_wanted)
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
    arrays = state.get(CANDIDATES + chunk.key)
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
    return _unique([_arrays(state, key)["number"] for key in state.keys(CANDIDATES)])


def drop_unused(state: State, live: set[str]) -> None:
    """Drops the chunks of state of all query chunks but these."""
    for key in state.keys(CANDIDATES):
        if key.removeprefix(CANDIDATES) not in live:
            state.drop(key)


def copy_queries(state: State, numbers: Ints) -> tuple[dict[str, Arrays], Ints]:
    """Returns copies of the chunks of state with the candidates of these queries alone, and the numbers of
    the items.
    """
    chunks: dict[str, Arrays] = {}
    for key in state.keys(CANDIDATES):
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


# PA's criterion: which items are worth keeping (docs/decisions/pa-criterion.md)
#
# In a stream in random order, an item that arrives with rank r is among the k nearest at some time of its
# life with probability 2 P(B <= k - 1), where B counts the heads of r + k - 1 tosses of a fair coin. A radius
# misses what is among the k nearest while fewer than k items lie within it.

#: How many windows the pace knows of: weights that fade by 1/e in MEMORY windows count for so many.
_EVIDENCE = 2 * MEMORY


class Paces(NamedTuple):
    """How many items per window come within the radius: it is moved, to `target`, if there are fewer than
    `least` or more than `most`.
    """

    least: int
    target: int
    most: int

    @staticmethod
    def around(target: int) -> Paces:
        root = math.sqrt(target)
        return Paces(math.ceil(target - root / 2), target, math.floor(target + 3 * root / 4))


def chance(rank: int, k: int) -> float:
    """Returns the probability that an item that arrives with this rank is ever among the k nearest."""
    if rank <= k:
        return 1.0
    tosses = rank + k - 1
    heads = np.arange(k - 1)
    ways = np.cumsum(np.log((tosses - heads) / (heads + 1)))  # logarithms: 2 ** tosses has no float
    return 2 * float(np.exp(np.r_[0.0, ways] - tosses * math.log(2)).sum())


@cache
def candidate_limits(most: int, sigma: float) -> tuple[int, ...]:
    """Returns, for k = 1 to `most`, the least number c of nearest items to keep, the k nearest included, such
    that what ranks behind them comes back with probability at most sigma: chance(c + 1, k) <= sigma. With k +
    1 the limit is little more than one greater, so each is sought from the one before.
    """
    limits: list[int] = []
    limit = 0
    for k in range(1, most + 1):
        limit += 1
        while chance(limit + 1, k) > sigma:
            limit += 1
        limits.append(limit)
    return tuple(limits)


def missed(pace: float, k: int) -> float:
    """Returns the share of the reports that a radius with this pace misses.

    The number N of items within it has the negative binomial distribution of the tails before the
    (_EVIDENCE * pace)-th head, of a coin with _EVIDENCE heads to a tail. While N = j < k, a window brings
    about as many reports of items beyond the radius as lie within it, and two for each rank that is open; of
    2 k reports in all.
    """
    heads, within = _EVIDENCE * pace, np.arange(k)
    steps = np.log((heads + within[:-1]) / (within[1:] * (_EVIDENCE + 1)))
    chances = np.exp(heads * math.log(_EVIDENCE / (_EVIDENCE + 1)) + np.r_[0.0, np.cumsum(steps)])
    reports = (heads + within) / (_EVIDENCE + 1) + 2 * (k - within)
    return float((chances * reports).sum()) / (2 * k)


@cache
def paces(k: int, sigma: float) -> Paces:
    """Returns the least paces with which, on average, at most sigma of the reports are missed or false: an
    item that is missed leaves its rank to another.
    """
    low, high = k + 1, 2 * k + 16
    while _error(Paces.around(high), k) > sigma:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if _error(Paces.around(middle), k) <= sigma:
            high = middle
        else:
            low = middle + 1
    return Paces.around(low)


def _error(band: Paces, k: int) -> float:
    return 2 * float(np.mean([missed(pace, k) for pace in range(band.least, band.most + 1)]))
