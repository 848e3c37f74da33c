"""What one setting of the experiment measured: the figures 8 to 13 of the paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean

from anabranch.simulate.place.wire import Handoff


@dataclass
class Outcome:
    """`kind` is the curve (objects, count, max, nearest), `at` the place on the x axis: a share or k."""

    kind: str
    at: float
    seconds: int = 0
    local_packets: int = 0
    starts: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    updates: list[float] = field(default_factory=list)
    handoffs: list[Handoff] = field(default_factory=list)  # what it would take to ship each query at the end
    crossings: int = 0  # of issuers from server to server
    enough: float = 1.0  # share of answers for which the search region held k objects at once

    @property
    def figures(self) -> dict[str, float]:
        """By the names of `FIGURES`."""
        shipped = self.handoffs
        return {
            "plan initialization, s": _mean(self.starts),
            "answer update, s": _mean(self.answers),
            "query update, s": _mean(self.updates),
            "handoff, s": _mean([one.seconds for one in shipped]),
            "local result packets a second": self.local_packets / max(self.seconds, 1),
            "handoff packets": _mean([one.packets for one in shipped]),
            "handoff bytes": _mean([one.size for one in shipped]),
        }


#: Figure of the paper -> what it shows.
FIGURES = {
    8: "plan initialization, s",
    9: "answer update, s",
    10: "query update, s",
    11: "handoff, s",
    12: "local result packets a second",
    13: "handoff packets",
}


def _mean(values: list[float] | list[int]) -> float:
    return fmean(values) if values else float("nan")
