"""What a nearest query is bound to: k-NN over a sliding window (docs/queries.md, nearest)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anabranch.model.stream import Stream
from anabranch.model.window import Window
from anabranch.predicates.terms import TRUE, Term, from_json, to_json

METHODS = ("RAPF", "RA", "PA")


def is_on_globe(stream: Stream, by: tuple[str, ...]) -> bool:
    """Whether distances by these columns are those on the globe: they are the stream's position, and its
    metric says so.
    """
    return stream.metric == "haversine" and sorted(by) == sorted(stream.position)


@dataclass(frozen=True)
class Nearest:
    """The k items nearest to `point` by the columns `by`, among those in the window (its step does not
    matter).

    `sigma` is the error that PA may make; None for RA and RAPF, which are exact.
    """

    k: int
    point: tuple[float, ...]
    by: tuple[str, ...]
    window: Window
    condition: Term = TRUE
    method: str = "RAPF"
    sigma: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "nearest",
            "k": self.k,
            "point": list(self.point),
            "by": list(self.by),
            "window": self.window.to_json(),
            "condition": to_json(self.condition),
            "method": self.method,
            "sigma": self.sigma,
        }

    @staticmethod
    def from_json(spec: dict[str, Any]) -> Nearest:
        return Nearest(
            spec["k"],
            tuple(spec["point"]),
            tuple(spec["by"]),
            Window.from_json(spec["window"]),
            from_json(spec["condition"]),
            spec["method"],
            spec["sigma"],
        )
