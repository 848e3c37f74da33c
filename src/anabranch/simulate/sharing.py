"""The paper's experiments on data stream sharing (section 6): three strategies on one scenario.

For each strategy: the load of the sites, the traffic of the links, how long registrations took, and which
queries were rejected. All strategies get the same rows and queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from anabranch.families.filters.spec import Aggregate, Select
from anabranch.language.bind import compile_query
from anabranch.model.errors import QueryError
from anabranch.planning.cost import CostModel, Loads
from anabranch.planning.installed import QueryPlan, Rejected
from anabranch.planning.network import Network
from anabranch.planning.optimizer import Bypass, Optimizer, SharingStrategy
from anabranch.planning.properties import Properties, properties_of, source_properties
from anabranch.planning.scenario import MBIT, Question, Scenario
from anabranch.planning.statistics import Statistics
from anabranch.simulate.execute import NetworkLoad, execute
from anabranch.simulate.photons import Photons

#: The experiment with little room: a tenth of the capacity, links of 1 MBit/s.
SCARCE_CAPACITY, SCARCE_BANDWIDTH = 0.1, 1 * MBIT

Spec = Select | Aggregate


@dataclass(frozen=True)
class Settings:
    rate: float = 150.0  # photons per second and stream
    gamma: float = 0.9  # of wide-area links the bandwidth is scarcer than the CPU of the sites
    bypass: Bypass = Bypass.REDUCED
    widen: bool = False
    loads: Loads = field(default_factory=Loads)


@dataclass
class StrategyOutcome:
    """What one strategy did. Without `measured` nothing was run."""

    strategy: SharingStrategy
    optimizer: Optimizer
    seconds: list[float] = field(default_factory=list)  # per registration
    plans: dict[str, QueryPlan] = field(default_factory=dict)
    rejected: list[str] = field(default_factory=list)
    measured: NetworkLoad | None = None


def bound(question: Question, streams: Sequence[Photons]) -> tuple[Spec, Properties]:
    """Returns a question on these streams, bound."""
    known = {photons.stream.name: photons.stream for photons in streams}
    found = compile_query(question.query, known)
    if not isinstance(found.spec, Select | Aggregate):
        raise QueryError(
            f"query {question.name}: only select and aggregate are shared, this is {found.family}"
        )
    return found.spec, properties_of(found.spec, known[found.stream])


def model_of(streams: Sequence[Photons], settings: Settings) -> CostModel:
    """Returns a cost model with statistics of the first tenth of each stream."""
    statistics = {}
    for photons in streams:
        known = statistics[photons.stream.name] = Statistics(photons.stream)
        sample = photons.rows.slice(0, max(1, photons.rows.num_rows // 10))
        known.observe(sample, sample.num_rows / settings.rate)
    return CostModel(statistics, settings.loads, settings.gamma)


def register_all(
    strategy: SharingStrategy,
    network: Network,
    questions: Sequence[Question],
    streams: Sequence[Photons],
    settings: Settings,
) -> StrategyOutcome:
    """Registers one query after the other; those that overload the network are rejected."""
    sources = [source_properties(photons.stream) for photons in streams]
    optimizer = Optimizer(
        network,
        model_of(streams, settings),
        sources,
        strategy,
        settings.bypass,
        settings.widen and strategy is SharingStrategy.STREAM_SHARING,
    )
    outcome = StrategyOutcome(strategy, optimizer)
    for question in questions[:1]:
        bound(question, streams)  # the first one builds the parser
    for question in questions:
        started = time.perf_counter()
        try:
            wanted = bound(question, streams)[1]
            outcome.plans[question.name] = optimizer.register(question.name, wanted, question.site)
        except Rejected:
            outcome.rejected.append(question.name)
        outcome.seconds.append(time.perf_counter() - started)
    return outcome


def compare(
    scenario: Scenario,
    streams: Sequence[Photons],
    settings: Settings,
    progress: Callable[[str], None] = lambda _: None,
) -> list[StrategyOutcome]:
    """Plans and runs the scenario with every strategy."""
    seconds = max(photons.rows.num_rows for photons in streams) / settings.rate
    outcomes = []
    for strategy in SharingStrategy:
        progress(f"{scenario.name}: {strategy.value}")
        outcome = register_all(strategy, scenario.network, scenario.queries, streams, settings)
        by_name = {photons.stream.name: photons for photons in streams}
        outcome.measured = execute(outcome.optimizer.installed, by_name, seconds)
        outcomes.append(outcome)
    return outcomes


def scarce(
    scenario: Scenario,
    streams: Sequence[Photons],
    settings: Settings,
    progress: Callable[[str], None] = lambda _: None,
) -> list[StrategyOutcome]:
    """Plans the queries on the same network with little room: how many are rejected?"""
    network = scenario.network.scaled(SCARCE_CAPACITY, SCARCE_BANDWIDTH)
    outcomes = []
    for strategy in SharingStrategy:
        progress(f"little room: {strategy.value}")
        outcomes.append(register_all(strategy, network, scenario.queries, streams, settings))
    return outcomes
