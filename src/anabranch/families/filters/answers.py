"""The queries of a zone of `compose`, and their results from composed windows.

In: queries that begin and end; windows, each composed once for all queries of its shape. Out: rows of the
table `aggregate`, all windows of a query together and in order. HAVING is decided here, once for all queries
that have the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.families.filters.outputs import ITEMS, Place, bounds_of, places_of
from anabranch.families.filters.slots import Slots
from anabranch.families.filters.spec import Aggregate
from anabranch.kernels import windows
from anabranch.kernels.edges import NEVER
from anabranch.kernels.slices import FLOAT_TIME, ROW, Layouts, Shapes
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import AtEnd
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.terms import TRUE, Term, to_json
from anabranch.zones.columns import ARROW_TYPES, Array, subscription_column

#: What the state keeps of a query beside its spec: its derived stream, and where its windows in rows begin.
MEMBER = ("number", "stream", "base")

_AT_END = {AtEnd.CUT: 0, AtEnd.GATHER: 1, AtEnd.RUN: 2}


@dataclass
class _Having:
    number: int
    condition: Term
    places: list[Place]
    users: int = 0


class Answers:
    """Query q gets the windows of its shape with low <= k < high."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        integer = np.int64
        self.queries = Slots(
            shape=(integer, 0),
            low=(integer, 0),
            high=(integer, NEVER),
            at_end=(integer, 0),
            having=(integer, -1),
        )
        for name in MEMBER:
            self.queries.add_column(name, integer, -1)
        self._names: list[str] = []
        self._types: dict[str, ColumnType] = {}  # of the places that queries fill
        self._havings: dict[str, _Having] = {}
        self._next_having = 0

    def add(self, name: str, spec: Aggregate, shape: int) -> int:
        slot = self.queries.take(shape=shape, at_end=_AT_END[spec.window.end])
        if slot == len(self._names):
            self._names.append(name)
        self._names[slot] = name
        places = places_of(spec, self.stream)
        for place in places:
            if place.stored not in self._types:
                self._types[place.stored] = place.type
                self.queries.add_column(f"{place.stored} function", np.int64, -1)
                self.queries.add_column(f"{place.stored} column", np.int64, 0)
            self.queries[f"{place.stored} function"][slot] = place.function
            self.queries[f"{place.stored} column"][slot] = place.column
        if spec.having != TRUE:
            having = self._having(spec.having, places)
            having.users += 1
            self.queries["having"][slot] = having.number
        return slot

    def remove(self, slot: int, spec: Aggregate) -> None:
        if spec.having != TRUE:
            key = _having_key(spec.having, places_of(spec, self.stream))
            self._havings[key].users -= 1
            if not self._havings[key].users:
                del self._havings[key]
        self.queries.give_back(slot)

    def members(self) -> dict[str, Array]:
        live = self.queries.live
        return {name: self.queries[name][live] for name in MEMBER}

    def _having(self, condition: Term, places: list[Place]) -> _Having:
        key = _having_key(condition, places)
        if key not in self._havings:
            self._havings[key] = _Having(self._next_having, condition, places)
            self._next_having += 1
        return self._havings[key]

    def at_end(self, shapes: Shapes, passed: Array) -> None:
        """The stream has ended: which of the windows that are not full a query still gets. `passed` is how
        many items each derived stream has had.

        docs/decisions/windows-at-the-end.md
        """
        live = self.queries.live
        live = live[self.queries["high"][live] == NEVER]  # those that were not cancelled
        rule, low = self.queries["at_end"][live], self.queries["low"][live]
        shape = self.queries["shape"][live]
        open_ = shapes.next[shape]
        end_of_full = shapes.base[shape] + (open_ - 1) * shapes.step[shape] + shapes.size[shape]
        all_given = (shapes.axis[shape] == ROW) & (open_ > 0) & (end_of_full == passed[shapes.stream[shape]])
        gathered = np.where(all_given, open_, np.maximum(low, open_) + 1)
        high = np.where(rule == _AT_END[AtEnd.CUT], open_, gathered)
        self.queries["high"][live] = np.where(rule == _AT_END[AtEnd.RUN], NEVER, high)

    def rows(self, composed: windows.Composed, shapes: Shapes, layouts: Layouts) -> pa.RecordBatch | None:
        live = self.queries.live
        blocks = np.searchsorted(composed.shape, np.arange(len(shapes.axis) + 1))
        begin, count = np.empty(len(live), np.int64), np.empty(len(live), np.int64)
        table = self.queries
        windows.spans(live, table["shape"], table["low"], table["high"], blocks, composed.k, begin, count)
        total = int(count.sum())
        if not total:
            return None
        queries = np.repeat(live, count)
        found = np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(total)
        columns = self._bounds(composed, found, shapes)
        columns[ITEMS] = pa.array(composed.items[found])
        for stored, kind in self._types.items():
            if (table[f"{stored} function"][live[count > 0]] >= 0).any():
                columns[stored] = self._lowered(stored, kind, queries, found, composed, layouts)
        rows = pa.record_batch({"subscription": self._subscriptions(queries), **columns})
        return self._kept(rows, queries)

    def _bounds(self, composed: windows.Composed, found: Array, shapes: Shapes) -> dict[str, pa.Array]:
        """Where the windows begin and end, in the columns of their axis: base + k step, and that + size."""
        shape, k = composed.shape[found], composed.k[found]
        axis = shapes.axis[shape]
        base = np.where(axis == ROW, 0, shapes.base[shape])  # positions are told from the activation on
        start = base + k * shapes.step[shape]
        pairs = {False: (start, start + shapes.size[shape])}
        start = shapes.base_float[shape] + k * shapes.step_float[shape]
        pairs[True] = (start, start + shapes.size_float[shape])
        out: dict[str, pa.Array] = {}
        for code in np.unique(axis).tolist():
            first, last, kind = bounds_of(code, self.stream)
            other = axis != code
            for name, values in zip((first, last), pairs[code == FLOAT_TIME], strict=True):
                column = pa.array(values, mask=other if other.any() else None)
                out[name] = column.cast(ARROW_TYPES[kind])
        return out

    def _lowered(
        self,
        stored: str,
        kind: ColumnType,
        queries: Array,
        found: Array,
        composed: windows.Composed,
        layouts: Layouts,
    ) -> pa.Array:
        there = np.empty(len(queries), bool)
        asked = self.queries[f"{stored} function"], self.queries[f"{stored} column"]
        if kind is ColumnType.FLOAT:
            values = np.zeros(len(queries), np.float64)
            windows.lower_float(queries, found, *asked, composed, layouts, values, there)
        else:
            values = np.zeros(len(queries), np.int64)
            windows.lower_int(queries, found, *asked, composed, layouts, values, there)
        return pa.array(values, mask=~there).cast(ARROW_TYPES[kind])

    def _subscriptions(self, queries: Array) -> pa.DictionaryArray:
        used, codes = np.unique(queries, return_inverse=True)
        return subscription_column([self._names[slot] for slot in used.tolist()], codes)

    def _kept(self, rows: pa.RecordBatch, queries: Array) -> pa.RecordBatch | None:
        """The rows that HAVING lets through."""
        conditions = self.queries["having"][queries]
        if not (conditions >= 0).any():
            return rows
        kept = np.ones(len(queries), bool)
        order = np.argsort(conditions, kind="stable")
        by_condition = conditions[order]
        for having in self._havings.values():
            first, stop = np.searchsorted(by_condition, [having.number, having.number + 1])
            if first < stop:
                own = order[first:stop]
                named = {place.name: rows.column(place.stored) for place in having.places}
                seen = pa.record_batch({ITEMS: rows.column(ITEMS), **named}).take(pa.array(own))
                kept[own] = evaluate(having.condition, seen)
        return rows.filter(pa.array(kept)) if kept.any() else None


def _having_key(condition: Term, places: list[Place]) -> str:
    return json.dumps([to_json(condition), [[place.stored, place.name] for place in places]])
