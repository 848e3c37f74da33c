"""What a moving query is bound to: ranges and nearest objects around a focal point (docs/queries.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anabranch.predicates.terms import TRUE, Term, from_json, to_json


@dataclass(frozen=True)
class Circle:
    """Objects at distance <= radius from the focal point."""

    radius: float


@dataclass(frozen=True)
class Box:
    """Objects in a box `width` (along x) by `height` (along y) whose centre is the focal point; the border
    belongs to it.
    """

    width: float
    height: float


@dataclass(frozen=True)
class KNearest:
    """The k objects nearest to the focal point."""

    k: int


Shape = Circle | Box | KNearest


@dataclass(frozen=True)
class Moving:
    """`focal` is an object's name (always a string) or a fixed point (x, y).

    `value` is None for the objects themselves, or one of count, min(x), max(x), min(y), max(y). `issuer` is
    the object that issued the query and may move, too; it changes no result.
    """

    shape: Shape
    focal: str | tuple[float, float]
    condition: Term = TRUE
    value: str | None = None
    issuer: str | None = None

    def to_json(self) -> dict[str, Any]:
        match self.shape:
            case Circle(radius=radius):
                shape: list[Any] = ["circle", radius]
            case Box(width=width, height=height):
                shape = ["box", width, height]
            case KNearest(k=k):
                shape = ["nearest", k]
        return {
            "kind": "moving",
            "shape": shape,
            "focal": self.focal if isinstance(self.focal, str) else list(self.focal),
            "condition": to_json(self.condition),
            "value": self.value,
            "issuer": self.issuer,
        }

    @staticmethod
    def from_json(spec: dict[str, Any]) -> Moving:
        name, *sizes = spec["shape"]
        shape: Shape = {"circle": Circle, "box": Box, "nearest": KNearest}[name](*sizes)
        focal = spec["focal"]
        return Moving(
            shape,
            focal if isinstance(focal, str) else (focal[0], focal[1]),
            from_json(spec["condition"]),
            spec["value"],
            spec["issuer"],
        )
