"""The engine's plan as it came about, beside one made afresh.

In: the control log of a stream's select and aggregate queries. Out: for each condition what it hangs below,
after all that came and went, one by one; and the same for the queries that are left, all at once. Never: a
look at the running job; it applies the same log with the same code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anabranch.families.filters.forest import ROOT, Forest
from anabranch.families.filters.share import Sharing
from anabranch.model.control import Activate, Cancel, Control
from anabranch.model.stream import Stream
from anabranch.predicates.text import normal_text
from anabranch.zones.queries import Active

FAMILY = "filters"
EVERY_ITEM = "every item"


@dataclass(frozen=True)
class Plans:
    """condition -> the one that it hangs below."""

    subscriptions: int
    running: dict[str, str]
    fresh: dict[str, str]

    @property
    def moved(self) -> list[str]:
        return [
            condition for condition, parent in self.running.items() if self.fresh.get(condition) != parent
        ]


def replayed(stream: Stream, log: Iterable[Control]) -> Plans:
    sharing, active = Sharing(stream, 1, ()), dict[int, Active]()
    for control in log:
        if isinstance(control, Activate):
            query = active[control.number] = Active(control.number, control.name, control.spec, 0, None)
            if sharing.knows(query):
                sharing.begin(query)
            else:
                sharing = Sharing(stream, 1, active.values())
        elif isinstance(control, Cancel):
            sharing.cease(control.number)
            active.pop(control.number, None)
    fresh = Sharing(stream, 1, active.values())
    return Plans(len(active), _parents(sharing.conditions.forest), _parents(fresh.conditions.forest))


def _parents(forest: Forest) -> dict[str, str]:
    texts = {node: normal_text(forest.normal(node)) for node in forest.nodes} | {ROOT: EVERY_ITEM}
    return {texts[node]: texts[forest.parent(node)] for node in forest.nodes}
