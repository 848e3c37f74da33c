"""What select and aggregate queries are bound to, and how a spec travels as JSON.

A spec carries the normal form of its condition, which is computed once, when the query is bound. Specs of
older catalogs do not have it; `normal_of` computes it then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

from anabranch.model.columns import Column, ColumnType
from anabranch.model.operators import Made, with_made
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from anabranch.predicates.conjunction import Normal
from anabranch.predicates.normal import normal_form
from anabranch.predicates.terms import TRUE, Term, from_json, to_json


@dataclass(frozen=True)
class Output:
    """A column of a result: the stream's `column` under the name `name`."""

    column: str
    name: str


@dataclass(frozen=True)
class Select:
    """Items that satisfy `condition`, with the chosen columns. `made` are the computed columns, `normal` is
    the normal form of the condition.
    """

    outputs: tuple[Output, ...]
    condition: Term = TRUE
    made: tuple[Made, ...] = ()
    normal: Normal | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "select",
            "outputs": [[output.column, output.name] for output in self.outputs],
            "condition": to_json(self.condition),
            **_optional_to_json(self),
        }

    @staticmethod
    def from_json(spec: dict[str, Any]) -> Select:
        return Select(
            tuple(Output(*pair) for pair in spec["outputs"]),
            from_json(spec["condition"]),
            *_optional_from_json(spec),
        )


class Function(StrEnum):
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    COUNT = "count"
    AVG = "avg"


#: The column of results with the number of items of a window.
ITEMS = "items"

#: How the names of aggregations begin that only HAVING uses; no column of a user can be called so.
HIDDEN = "having:"


@dataclass(frozen=True)
class Aggregation:
    """`function(column) AS name`; column None is `count(*)`."""

    function: Function
    column: str | None
    name: str

    @property
    def is_shown(self) -> bool:
        return not self.name.startswith(HIDDEN)

    def type_in(self, stream: Stream) -> ColumnType:
        """Returns the type of its values."""
        if self.function is Function.COUNT or self.column is None:
            return ColumnType.INT
        return ColumnType.FLOAT if self.function is Function.AVG else stream.type_of(self.column)


@dataclass(frozen=True)
class AggregateColumn:
    """An aggregation of a query, and the column of the table `aggregate` in which its values are stored."""

    stored: str
    type: ColumnType
    aggregation: Aggregation

    @property
    def name(self) -> str:
        return self.aggregation.name


#: How the names of stored columns begin.
_STORED_AS = {ColumnType.INT: "int", ColumnType.FLOAT: "float", ColumnType.TIMESTAMP: "time"}


@dataclass(frozen=True)
class Aggregate:
    """Aggregates over windows of the items that satisfy `condition`.

    `having` is a condition over the names of the aggregations and `items`. Aggregations that only `having`
    uses are not shown. `made` are the computed columns, `normal` is the normal form of the condition.
    """

    aggregations: tuple[Aggregation, ...]
    window: Window
    condition: Term = TRUE
    having: Term = TRUE
    made: tuple[Made, ...] = ()
    normal: Normal | None = field(default=None, compare=False)

    def columns(self, stream: Stream) -> list[AggregateColumn]:
        """Returns where the results are stored, one column per aggregation.

        The table is one for all aggregate queries of a stream, which name and type their aggregates as they
        like. So it has typed columns that each query fills from the left:

            avg(en) AS mean, count(*) AS n, max(en) AS top      float_0 = mean, int_0 = n, float_1 = top
        """
        filled = dict.fromkeys(_STORED_AS, 0)
        out = []
        for aggregation in self.aggregations:
            kind = aggregation.type_in(stream)
            out.append(AggregateColumn(f"{_STORED_AS[kind]}_{filled[kind]}", kind, aggregation))
            filled[kind] += 1
        return out

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "aggregate",
            "aggregations": [[a.function.value, a.column, a.name] for a in self.aggregations],
            "window": self.window.to_json(),
            "condition": to_json(self.condition),
            "having": to_json(self.having),
            **_optional_to_json(self),
        }

    @staticmethod
    def from_json(spec: dict[str, Any]) -> Aggregate:
        return Aggregate(
            tuple(Aggregation(Function(f), column, name) for f, column, name in spec["aggregations"]),
            Window.from_json(spec["window"]),
            from_json(spec["condition"]),
            from_json(spec["having"]),
            *_optional_from_json(spec),
        )


FiltersSpec = TypeVar("FiltersSpec", bound=Select | Aggregate)


def spec_of(spec: dict[str, Any]) -> Select | Aggregate:
    """Returns a spec from its JSON, whichever of the two it is."""
    return Select.from_json(spec) if spec["kind"] == "select" else Aggregate.from_json(spec)


def normal_of(spec: Select | Aggregate, stream: Stream) -> Normal:
    """Returns the normal form of a query's condition; computes it if the spec does not have it."""
    if spec.normal is not None:
        return spec.normal
    return _computed_normal(json.dumps(to_json(spec.condition)), with_made(stream.columns, spec.made))


def with_normal(spec: FiltersSpec, stream: Stream) -> FiltersSpec:
    """Returns the spec with the normal form of its condition."""
    return replace(spec, normal=normal_of(spec, stream))


@lru_cache(maxsize=65536)
def _computed_normal(condition: str, columns: tuple[Column, ...]) -> Normal:
    """As text, in which 1, 1.0 and true differ. The next zone on a worker has the same conditions."""
    return normal_form(from_json(json.loads(condition)), Stream("", columns))


def _optional_to_json(spec: Select | Aggregate) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if spec.made:
        out["made"] = [each.to_json() for each in spec.made]
    if spec.normal is not None:
        out["normal"] = spec.normal.to_json()
    return out


def _optional_from_json(spec: Mapping[str, Any]) -> tuple[tuple[Made, ...], Normal | None]:
    made = tuple(Made.from_json(each) for each in spec.get("made", ()))
    return made, Normal.from_json(spec["normal"]) if "normal" in spec else None
