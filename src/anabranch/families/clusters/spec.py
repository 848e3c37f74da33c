"""A clusters query as data: density-based clusters in sliding windows (docs/queries.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from anabranch.predicates.terms import TRUE, Term, from_json, to_json


class Emit(StrEnum):
    MEMBERS = "members"
    SUMMARY = "summary"
    CHANGES = "changes"


@dataclass(frozen=True)
class Clusters:
    """Points with at least `count` others within `range` are core; `by` are the coordinate columns."""

    range: float
    count: int
    by: tuple[str, ...]
    window: Window
    condition: Term = TRUE
    emit: Emit = Emit.MEMBERS

    def is_on_globe(self, stream: Stream) -> bool:
        """Whether distances are those on the globe: between the stream's positions, as its metric says."""
        return stream.metric == "haversine" and set(self.by) == set(stream.position)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "clusters",
            "range": self.range,
            "count": self.count,
            "by": list(self.by),
            "window": self.window.to_json(),
            "condition": to_json(self.condition),
            "emit": self.emit.value,
        }

    @staticmethod
    def from_json(spec: dict[str, Any]) -> Clusters:
        return Clusters(
            spec["range"],
            spec["count"],
            tuple(spec["by"]),
            Window.from_json(spec["window"]),
            from_json(spec["condition"]),
            Emit(spec["emit"]),
        )


def exact_window(window: Window, stream: Stream) -> Window:
    """The window in the numbers of its axis: integers for rows, microseconds, whole units of integer time."""
    size, step = float(window.size), float(window.step)
    if window.by_rows or (stream.time_type is ColumnType.INT and size.is_integer() and step.is_integer()):
        return Window(window.unit, int(window.size), int(window.step), window.at_end)
    if stream.time_type is ColumnType.TIMESTAMP:
        return Window(window.unit, round(window.size), round(window.step), window.at_end)
    return Window(window.unit, size, step, window.at_end)


def exact_spec(stream: Stream, spec: dict[str, Any]) -> Clusters:
    """A spec with its window in the numbers of its axis."""
    bound = Clusters.from_json(spec)
    return replace(bound, window=exact_window(bound.window, stream))
