"""Plans: what a new subscription adds to the network, and what that would cost.

In: nothing; plain data that the optimizer makes. Out: the same, for people and machines.
Never: a change of the network; `installed` makes those.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from anabranch.model.errors import QueryError
from anabranch.sharing.network import Pair, Path
from anabranch.sharing.properties import Properties


@dataclass(frozen=True)
class Step:
    """A stream that the plan adds: made at the first site of its path, carried to the last."""

    properties: Properties
    path: Path


@dataclass(frozen=True)
class Widening:
    """A node that runs already is loosened to `properties`, so that it contains the new query, too."""

    node: int
    properties: Properties


@dataclass(frozen=True)
class Plan:
    """Take node `parent`, at the first site of the first step, and make the steps of it, each from the one
    before. Without steps the subscriber reads the node as it is."""

    parent: int
    steps: tuple[Step, ...]
    loads: dict[str, float] = field(default_factory=dict)  # CPU seconds a second that it adds
    traffic: dict[Pair, float] = field(default_factory=dict)  # bytes a second that it adds
    cost: float = 0.0
    full: tuple[str | Pair, ...] = ()  # the sites and links that it would overload
    widening: Widening | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "parent": self.parent,
            "steps": [{"makes": step.properties.text, "path": list(step.path)} for step in self.steps],
            "loads": self.loads,
            "traffic": {" - ".join(ends): bytes_a_second for ends, bytes_a_second in self.traffic.items()},
            "cost": self.cost,
            "overloads": [one if isinstance(one, str) else " - ".join(one) for one in self.full],
            "widens": None if self.widening is None else self.widening.node,
        }


class Rejected(QueryError):
    """No plan without overload; nothing was changed."""

    def __init__(self, name: str, plan: Plan) -> None:
        names = [f"site {one}" if isinstance(one, str) else f"link {' - '.join(one)}" for one in plan.full]
        super().__init__(
            f"subscription {name}: no plan without overload; the best one would overload {', '.join(names)}. "
            "Cancel others, raise capacity or bandwidth, or ask for less"
        )
        self.plan = plan
