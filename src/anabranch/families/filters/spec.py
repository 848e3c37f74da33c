"""What select and aggregate queries are bound to: the properties of the stream that answers them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from anabranch.model.operators import Made
from anabranch.model.window import Window
from anabranch.predicates.terms import TRUE, Term, from_json, to_json


@dataclass(frozen=True)
class Output:
    """A column of a result: the stream's `column` under the name `name`."""

    column: str
    name: str


@dataclass(frozen=True)
class Select:
    """Items that satisfy `condition`, with the chosen columns; `made` are those that operators make."""

    outputs: tuple[Output, ...]
    condition: Term = TRUE
    made: tuple[Made, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "select",
            "outputs": [[output.column, output.name] for output in self.outputs],
            "condition": to_json(self.condition),
            **_made_to_json(self.made),
        }

    @staticmethod
    def from_json(spec: dict[str, Any]) -> Select:
        return Select(
            tuple(Output(*pair) for pair in spec["outputs"]),
            from_json(spec["condition"]),
            _made_from_json(spec),
        )


class Function(StrEnum):
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    COUNT = "count"
    AVG = "avg"


#: How the names of aggregations begin that only HAVING asks for; no user's column can be called so.
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


@dataclass(frozen=True)
class Aggregate:
    """Aggregates over windows of the items that satisfy `condition`.

    `having` is a condition over the names of the aggregations and `items`. Aggregations that only `having`
    asks for are not shown. `made` are columns that operators make.
    """

    aggregations: tuple[Aggregation, ...]
    window: Window
    condition: Term = TRUE
    having: Term = TRUE
    made: tuple[Made, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "aggregate",
            "aggregations": [[a.function.value, a.column, a.name] for a in self.aggregations],
            "window": self.window.to_json(),
            "condition": to_json(self.condition),
            "having": to_json(self.having),
            **_made_to_json(self.made),
        }

    @staticmethod
    def from_json(spec: dict[str, Any]) -> Aggregate:
        return Aggregate(
            tuple(Aggregation(Function(f), column, name) for f, column, name in spec["aggregations"]),
            Window.from_json(spec["window"]),
            from_json(spec["condition"]),
            from_json(spec["having"]),
            _made_from_json(spec),
        )


def _made_to_json(made: tuple[Made, ...]) -> dict[str, Any]:
    return {"made": [each.to_json() for each in made]} if made else {}


def _made_from_json(spec: dict[str, Any]) -> tuple[Made, ...]:
    return tuple(Made.from_json(each) for each in spec.get("made", ()))
