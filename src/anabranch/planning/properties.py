"""Properties: what a stream holds, and what a subscription asks for; the two are one thing (StreamGlobe 4.1).

Properties are plain immutable data and equal for what is equal. They do not say how result columns are named
or ordered: that is done where the subscriber is.

    SELECT ra, en FROM photons WHERE ra < 5      stream photons, selection ra < 5, columns {en, ra}
    SELECT avg(en) ... WINDOW RANGE 20 STEP 10   and a window, and the parts {count(*), count(en), sum(en)}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.families.filters.computed_columns import widened
from anabranch.families.filters.spec import Aggregate, Aggregation, Function, Select, normal_of
from anabranch.model.columns import Column, ColumnType
from anabranch.model.operators import Made
from anabranch.model.stream import Stream, Time
from anabranch.model.window import Window
from anabranch.predicates.conjunction import EVERYTHING, Normal
from anabranch.predicates.normal import normal_form
from anabranch.predicates.terms import TRUE, And, Constant, Difference, Not, Or, Term
from anabranch.predicates.text import normal_text

#: The number of a window, from 0; and the count of its items, which every result carries.
WINDOW, ITEMS = "window", "items"


@dataclass(frozen=True, slots=True)
class AggregatePart:
    """A value that travels: min, max, sum or count of a column; an average is a sum and a count."""

    function: Function
    column: str

    @property
    def name(self) -> str:
        return f"{self.function.value}({self.column})"


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Windows over the selected items, `parts` of each, and only those windows that satisfy `having`.

    `having` speaks of `items` and of names such as `avg(en)`. ROWS windows are counted from `activate`,
    the time of the query's activation; RANGE windows from the first item of the registered stream.
    """

    window: Window
    parts: frozenset[AggregatePart]
    having: Normal = EVERYTHING
    activate: Time | None = None

    def to_json(self) -> list[Any]:
        parts = sorted([part.function.value, part.column] for part in self.parts)
        return [self.window.to_json(), parts, self.having.to_json(), self.activate]

    @staticmethod
    def from_json(given: list[Any]) -> Aggregated:
        window, parts, having, activate = given
        found = frozenset(AggregatePart(Function(function), column) for function, column in parts)
        return Aggregated(Window.from_json(window), found, Normal.from_json(having), activate)


@dataclass(frozen=True, slots=True)
class Properties:
    """A stream of items with `columns`, or of aggregates where `aggregated` is set (then `columns` is empty).

    `time` is the reference element: the column that RANGE windows need.
    """

    stream: str
    selection: Normal
    columns: frozenset[str]
    operators: frozenset[Made] = frozenset()
    aggregated: Aggregated | None = None
    time: str | None = None

    def to_json(self) -> list[Any]:
        operators = sorted((one.to_json() for one in self.operators), key=str)
        aggregated = None if self.aggregated is None else self.aggregated.to_json()
        return [
            *(self.stream, self.selection.to_json(), sorted(self.columns), operators, aggregated, self.time)
        ]

    @staticmethod
    def from_json(given: list[Any]) -> Properties:
        stream, selection, columns, operators, aggregated, time = given
        return Properties(
            stream,
            Normal.from_json(selection),
            frozenset(columns),
            frozenset(map(Made.from_json, operators)),
            None if aggregated is None else Aggregated.from_json(aggregated),
            time,
        )

    @property
    def text(self) -> str:
        """For people: photons[en >= 1.3](en, ra), photons[...] avg of 60 every 40."""
        chosen = "" if self.selection == EVERYTHING else f"[{normal_text(self.selection)}]"
        made = "".join(f" {name}" for name in sorted(one.name for one in self.operators))
        if self.aggregated is None:
            return f"{self.stream}{chosen}{made}({', '.join(sorted(self.columns))})"
        window, having = self.aggregated.window, self.aggregated.having
        parts = ", ".join(sorted(part.name for part in self.aggregated.parts)) or ITEMS
        filtered = "" if having == EVERYTHING else f" having {normal_text(having)}"
        length = f"{window.size} {window.unit} every {window.step}"
        return f"{self.stream}{chosen}{made} {parts} of {length}{filtered}"


def source_properties(stream: Stream) -> Properties:
    """Returns the properties of a stream as it was registered: every item with every column."""
    return Properties(
        stream.name, EVERYTHING, frozenset(column.name for column in stream.columns), time=stream.time
    )


def properties_of(spec: Select | Aggregate, stream: Stream, activate: Time | None = None) -> Properties:
    """Returns the properties of a bound query."""
    seen = widened(stream, spec.made)
    selection = normal_of(spec, seen)
    used = frozenset(spec.made)
    if isinstance(spec, Select):
        chosen = frozenset(output.column for output in spec.outputs)
        return Properties(stream.name, selection, chosen, used, time=stream.time)
    parts = frozenset(part for one in spec.aggregations for part in parts_of(one))
    counted_from = activate if spec.window.by_rows else None
    aggregated = Aggregated(spec.window, parts, having_of(spec, seen), counted_from)
    return Properties(stream.name, selection, frozenset(), used, aggregated, stream.time)


def parts_of(aggregation: Aggregation) -> list[AggregatePart]:
    """Returns the parts of an aggregation. `count(*)` needs none: every result carries its count of items."""
    if aggregation.column is None:
        return []
    if aggregation.function is Function.AVG:
        return [AggregatePart(one, aggregation.column) for one in (Function.SUM, Function.COUNT)]
    return [AggregatePart(aggregation.function, aggregation.column)]


def canonical_name(aggregation: Aggregation) -> str:
    if aggregation.column is None:
        return ITEMS
    return f"{aggregation.function.value}({aggregation.column})"


def having_of(spec: Aggregate, stream: Stream) -> Normal:
    """Returns HAVING without the names that the query gave: `avg_en >= 1.3` becomes `avg(en) >= 1.3`."""
    if spec.having == TRUE:
        return EVERYTHING
    names = {one.name: canonical_name(one) for one in spec.aggregations} | {ITEMS: ITEMS}
    columns = {ITEMS: ColumnType.INT}
    for one in spec.aggregations:
        columns[canonical_name(one)] = one.type_in(stream)
    results = Stream("results", tuple(Column(name, kind) for name, kind in columns.items()))
    return normal_form(_renamed(spec.having, names), results)


def _renamed(term: Term, names: Mapping[str, str]) -> Term:
    match term:
        case Constant(column=column, op=op, value=value):
            return Constant(names[column], op, value)
        case Difference(column=column, op=op, other=other, offset=offset):
            return Difference(names[column], op, names[other], offset)
        case And(terms=terms):
            return And(tuple(_renamed(part, names) for part in terms))
        case Or(terms=terms):
            return Or(tuple(_renamed(part, names) for part in terms))
        case Not(term=inner):
            return Not(_renamed(inner, names))
