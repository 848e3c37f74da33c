"""The queries of a rendezvous zone as arrays: groups that share coordinates and clock, in chunks of at most a
thousand queries.

The candidates of a query chunk are one chunk of state (candidates.py). Larger ones would cost more to write
when few of their queries change; smaller ones cost a call each.

    unit      clock of the items                                       moments
    rows      how many items with all coordinates came before          integers
    range     the stream's time                                        as the time column
    fraction  the stream's integer time, for windows like RANGE 2.5    fractions
    long      the stream's integer time, for windows beyond 2 ** 52    integers

Moments are kept as float64, so that kernels are compiled for one type; as int64 only where integers are too
large for that: `long` windows, and `range` windows while the stream's times are (*wide*).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.control import Query
from anabranch.chain.state import State
from anabranch.families.nearest.kernels.arrays import PA, RA, RAPF, Moments
from anabranch.families.nearest.kernels.probable_skyband import MEMORY
from anabranch.families.nearest.space import By
from anabranch.families.nearest.spec import Nearest
from anabranch.model.arrays import Array, Bools, Floats, Ints
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.terms import TRUE, Term

#: An integer time below this, plus a window below this, is a float64 without rounding.
EXACT = 1 << 52
#: PA tells the chances of an entry that competes for up to so many ranks.
MOST_LIMITS = 1024

_METHODS = {"RAPF": RAPF, "RA": RA, "PA": PA}
_LONGEST = 1 << 61


@dataclass(frozen=True)
class QueryGroup:
    by: By
    unit: str
    whole: bool  # moments are integers
    dtype: np.dtype[np.int64] | np.dtype[np.float64]
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
    return QueryGroup(by, unit, whole, np.dtype(np.int64) if integers else np.dtype(np.float64))


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
    return QueryChunk(
        key,
        pa.array([query.name for query, _ in members], pa.string()),
        np.array([query.number for query, _ in members], np.int64),
        np.array([spec.point for spec in specs], np.float64),
        np.array([spec.k for spec in specs], np.int64),
        np.array([guard.least for guard in guards], np.int64),
        np.array([guard.target for guard in guards], np.int64),
        np.array([guard.most for guard in guards], np.int64),
        size,
        size - quarter,
        quarter,
        np.array([query.first_item for query, _ in members], np.int64),
        np.array([conditions.index(s.condition) if s.condition != TRUE else -1 for s in specs], np.int64),
        np.array([_METHODS[spec.method] for spec in specs], np.int8),
        np.array([group.by_rows and spec.condition != TRUE for spec in specs], np.bool_),
        limits_row,
        limits,
        conditions,
    )


def _guards(spec: Nearest) -> Paces:
    """Returns how many items within the radius keep others out: k recent candidates and some in reserve, or
    for PA its paces.
    """
    if spec.method == "PA":
        assert spec.sigma is not None
        return paces(spec.k, spec.sigma)
    root = math.sqrt(spec.k)
    return Paces(spec.k, spec.k + int(3 * root) + 1, spec.k + int(6 * root) + 4)


def _limits(specs: list[Nearest]) -> tuple[Ints, Ints]:
    """Returns each query's row of PA's limits, and these: one row per sigma."""
    most = min(max([spec.k for spec in specs if spec.method == "PA"], default=0), MOST_LIMITS)
    sigmas = list(dict.fromkeys(spec.sigma for spec in specs if spec.sigma is not None))
    rows = [candidate_limits(most, sigma) for sigma in sigmas]
    limits = np.array(rows, np.int64).reshape(len(rows), most)
    return np.array([sigmas.index(s.sigma) if s.sigma is not None else -1 for s in specs], np.int64), limits


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
