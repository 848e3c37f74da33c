"""A clusters query as data: density-based clusters in sliding windows (docs/queries.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

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
