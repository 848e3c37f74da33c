"""The queries of a rendezvous zone as arrays: groups that share coordinates and clock, in parts: those of one
chunk of queries, a thousand at most.

In: the queries as zones.queries keeps them. Out: groups of parts; a part's candidates are one chunk of
state (candidates.py). Larger parts would cost more to write when few of their queries change; smaller ones
cost a call each.

    unit      clock of the items                                       moments
    rows      how many items with all coordinates came before          int64
    range     the stream's time                                        as the time column
    fraction  the stream's integer time, for windows like RANGE 2.5    float64
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from anabranch.families.nearest.criterion import Paces, candidate_limits, paces
from anabranch.families.nearest.space import By
from anabranch.families.nearest.spec import Nearest
from anabranch.kernels.nearest_arrays import PA, RA, RAPF
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.predicates.terms import TRUE, Term
from anabranch.zones import queries
from anabranch.zones.columns import Array
from anabranch.zones.queries import Active
from anabranch.zones.state import State

FOREVER = 1 << 62
#: PA tells the chances of an entry that competes for up to so many places.
MOST_LIMITS = 1024

_METHODS = {"RAPF": RAPF, "RA": RA, "PA": PA}
_LONGEST = 1 << 61


@dataclass(frozen=True)
class Group:
    by: By
    unit: str
    dtype: np.dtype[np.int64] | np.dtype[np.float64]
    parts: list[Part] = field(default_factory=list)

    @property
    def by_rows(self) -> bool:
        return self.unit == "rows"

    @property
    def never(self) -> np.int64 | np.float64:
        """A moment after all others."""
        return np.float64(math.inf) if self.dtype == np.float64 else np.int64(2**63 - 1)


@dataclass(frozen=True)
class Part:
    """The queries of a group that are in one chunk, by number. Arrays: kernels.nearest_arrays.Queries."""

    key: str
    names: pa.StringArray
    numbers: Array
    point: Array
    k: Array
    need: Array
    target: Array
    upper: Array
    size: Array
    recent: Array
    step: Array
    start: Array
    mask: Array
    method: Array
    counted: Array
    chances: Array
    limits: Array
    conditions: list[Term]  # the rows of `mask`


def unit_of(stream: Stream, spec: Nearest) -> str:
    if spec.window.by_rows:
        return "rows"
    if stream.time_type is not ColumnType.FLOAT and float(spec.window.size) != math.floor(spec.window.size):
        return "fraction"
    return "range"


def groups(state: State, stream: Stream) -> list[Group]:
    """The groups of this zone. Only those chunks of queries are parsed again that changed."""
    keys = state.keys(queries.PREFIX)

    def build() -> list[Group]:
        out: dict[tuple[By, str], Group] = {}
        for key in keys:
            for made in state.derived(f"groups {key}", [key], partial(_parsed, state, stream, key)):
                whole = out.setdefault((made.by, made.unit), Group(made.by, made.unit, made.dtype))
                whole.parts.extend(made.parts)
        return list(out.values())

    return state.derived("groups", keys, build)


def _parsed(state: State, stream: Stream, key: str) -> list[Group]:
    active = queries.active(state)
    rows = state.rows(key)
    assert rows is not None
    sorted_in: dict[tuple[By, str], list[tuple[Active, Nearest]]] = {}
    for number in sorted(rows.column("number").to_pylist()):
        query = active[number]
        spec = Nearest.from_json(query.spec)
        sorted_in.setdefault((spec.by, unit_of(stream, spec)), []).append((query, spec))
    out = []
    for (by, unit), members in sorted_in.items():
        floats = unit == "fraction" or (unit == "range" and stream.time_type is ColumnType.FLOAT)
        dtype = np.dtype(np.float64) if floats else np.dtype(np.int64)
        group = Group(by, unit, dtype)
        group.parts.append(
            part_of(f"{json.dumps([by, unit])}/{key.removeprefix(queries.PREFIX)}", group, members)
        )
        out.append(group)
    return out


def part_of(key: str, group: Group, members: list[tuple[Active, Nearest]]) -> Part:
    """The part of a group that these queries make, given by number."""
    specs = [spec for _, spec in members]
    conditions = list(dict.fromkeys(spec.condition for spec in specs if spec.condition != TRUE))
    guards = [_guards(spec) for spec in specs]
    chances, limits = _chances(specs)
    as_moment = float if group.dtype == np.float64 else int
    size = np.array([as_moment(min(spec.window.size, _LONGEST)) for spec in specs], group.dtype)
    quarter = size / 4 if group.dtype == np.float64 else size // 4
    return Part(
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
        np.array([query.start for query, _ in members], np.int64),
        np.array([conditions.index(s.condition) if s.condition != TRUE else -1 for s in specs], np.int64),
        np.array([_METHODS[spec.method] for spec in specs], np.int8),
        np.array([group.by_rows and spec.condition != TRUE for spec in specs], np.bool_),
        chances,
        limits,
        conditions,
    )


def _guards(spec: Nearest) -> Paces:
    """How many items within the radius keep others out: k recent candidates and some in reserve, or for PA
    its paces.
    """
    if spec.method == "PA":
        assert spec.sigma is not None
        return paces(spec.k, spec.sigma)
    root = math.sqrt(spec.k)
    return Paces(spec.k, spec.k + int(3 * root) + 1, spec.k + int(6 * root) + 4)


def _chances(specs: list[Nearest]) -> tuple[Array, Array]:
    """PA's limits, one row an error, and each query's row."""
    most = min(max([spec.k for spec in specs if spec.method == "PA"], default=0), MOST_LIMITS)
    sigmas = list(dict.fromkeys(spec.sigma for spec in specs if spec.sigma is not None))
    rows = [candidate_limits(most, sigma) for sigma in sigmas]
    limits = np.array(rows, np.int64).reshape(len(rows), most)
    return np.array([sigmas.index(s.sigma) if s.sigma is not None else -1 for s in specs], np.int64), limits
