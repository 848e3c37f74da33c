"""The cost model (StreamGlobe 4.3): size and frequency of a stream, the work it takes, the cost of a plan.

Only the base loads of the operators and the weight gamma are given; all else comes from statistics. The cost
of a plan follows from what it adds to links and sites, and from what is free there:

    C = gamma * sum over links (u + max(0, u - a) e^(u - a)) + (1 - gamma) * the same over sites

u is the part of a link or site that the plan adds, a the part that is free; beyond that it gets expensive.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anabranch.planning.properties import Properties
from anabranch.planning.statistics import Statistics

#: Bytes of a number on the wire; a result of a window carries its number, the count of its items, and parts.
NUMBER = 8.0


@dataclass(frozen=True)
class Loads:
    """Base loads in CPU seconds on the reference machine: those of an engine that takes items one by one.
    `anabranch simulate sharing --calibrate` measures this machine's instead."""

    select: float = 10e-6  # an item looked at
    project: float = 1e-6  # an item that goes on with fewer columns
    aggregate: float = 6e-6  # an item added to its windows
    combine: float = 4e-6  # a result of a finer window added to coarser ones
    operate: float = 10e-6  # an item given to an operator of a user
    forward: float = 2e-6  # an item sent, and again where it is received


@dataclass(frozen=True)
class Flow:
    """Of a stream, per second: items that satisfy its selection, items that it carries, bytes."""

    selected: float
    frequency: float
    traffic: float


class CostModel:
    def __init__(
        self, statistics: Mapping[str, Statistics], loads: Loads | None = None, gamma: float = 0.5
    ) -> None:
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma = {gamma} is not between 0 and 1")
        self.statistics, self.loads, self.gamma = statistics, loads or Loads(), gamma

    def size(self, stream: Properties) -> float:
        """Returns the bytes of an item of the stream."""
        if stream.aggregated is not None:
            return NUMBER * (2 + len(stream.aggregated.parts))
        known = self.statistics[stream.stream]
        computed = {operator.name for operator in stream.operators}
        return sum(
            NUMBER if column in computed else known.occurrence(column) * known.size(column)
            for column in stream.columns
        )

    def selected(self, stream: Properties) -> float:
        """Returns the items per second that satisfy the selection, before any window."""
        known = self.statistics[stream.stream]
        return known.rate * known.selectivity(stream.selection)

    def frequency(self, stream: Properties) -> float:
        """Returns the items per second of the stream; what HAVING leaves out is not known."""
        items = self.selected(stream)
        if stream.aggregated is None:
            return items
        window, known = stream.aggregated.window, self.statistics[stream.stream]
        if window.by_rows:
            return items / window.step
        per_step = window.step / max(known.increment, 1e-12)  # items of the registered stream
        inside = known.selectivity(stream.selection) * window.size / max(known.increment, 1e-12)
        return known.rate / per_step * -math.expm1(-inside)  # a window without items has no result

    def traffic(self, stream: Properties) -> float:
        """Returns bytes per second."""
        return self.size(stream) * self.frequency(stream)

    def flow(self, stream: Properties) -> Flow:
        frequency = self.frequency(stream)
        return Flow(self.selected(stream), frequency, self.size(stream) * frequency)

    def work(self, narrow: Properties, wide: Properties) -> float:
        """Returns the CPU seconds per second to make one stream from another, on the reference machine."""
        return self.work_of(narrow, wide, self.frequency(wide), self.selected(narrow))

    def work_of(self, narrow: Properties, wide: Properties, came: float, passed: float) -> float:
        """Returns the same when `came` items arrive and `passed` of them satisfy the selection."""
        if narrow == wide:
            return 0.0
        loads = self.loads
        if wide.aggregated is not None:
            assert narrow.aggregated is not None, "items cannot be made from aggregates"
            same = wide.aggregated.window == narrow.aggregated.window
            return came * (loads.project if same else loads.combine)
        total = came * loads.operate * len(narrow.operators - wide.operators)
        if narrow.selection != wide.selection:
            total += came * loads.select
        if narrow.aggregated is not None:
            return total + passed * loads.aggregate
        return total + (passed * loads.project if narrow.columns != wide.columns else 0.0)

    def cost(self, links: Iterable[tuple[float, float]], sites: Iterable[tuple[float, float]]) -> float:
        """Returns C of a plan. For each link and site: (the part that it adds, the part that is free)."""
        return self.gamma * sum(map(_penalised, links)) + (1 - self.gamma) * sum(map(_penalised, sites))


def _penalised(use: tuple[float, float]) -> float:
    added, free = use
    over = added - free
    return added + max(0.0, over) * math.exp(min(over, 500.0))
