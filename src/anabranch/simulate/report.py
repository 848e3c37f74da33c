"""What the experiments say: tables like the paper's 2 and 3, and the numbers behind figures 24 to 27."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from anabranch.planning.matching import shareability_graph
from anabranch.planning.scenario import MBIT
from anabranch.simulate.sharing import StrategyOutcome

KBIT = MBIT / 1000


@dataclass(frozen=True)
class StrategyTable:
    """The first column is text, the others are numbers, one per strategy."""

    title: str
    first: str
    strategies: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "rows": [dict(zip((self.first, *self.strategies), row, strict=True)) for row in self.rows],
        }


def load_table(outcomes: Sequence[StrategyOutcome]) -> StrategyTable:
    """Returns the load in percent of the capacity of each site."""
    network = outcomes[0].optimizer.network
    rows = [
        (name, *(100 * _measured(one).loads[name] / site.capacity for one in outcomes))
        for name, site in network.sites.items()
    ]
    total = (
        "all sites",
        *(sum(float(row[column]) for row in rows) for column in range(1, len(outcomes) + 1)),
    )
    return _table("average load in % of a site", "site", outcomes, [*rows, total])


def traffic_table(outcomes: Sequence[StrategyOutcome]) -> StrategyTable:
    rows = [
        (" - ".join(ends), *(_measured(one).traffic[ends] / KBIT for one in outcomes))
        for ends in outcomes[0].optimizer.network.links
    ]
    totals = ("all links", *(sum(_measured(one).traffic.values()) / KBIT for one in outcomes))
    return _table("average traffic of a link in kbit/s", "link", outcomes, [*rows, totals])


def accumulated_table(outcomes: Sequence[StrategyOutcome]) -> StrategyTable:
    """Returns what comes in and goes out at a site over the whole run, as figures 26 and 27 show it."""
    rows = [
        (name, *(_measured(one).site_traffic(name) * _measured(one).seconds / MBIT for one in outcomes))
        for name in outcomes[0].optimizer.network.sites
    ]
    return _table("accumulated traffic of a site in Mbit", "site", outcomes, rows)


def cpu_table(outcomes: Sequence[StrategyOutcome]) -> StrategyTable:
    rows = [
        (name, *(1000 * _measured(one).cpu[name] for one in outcomes))
        for name in outcomes[0].optimizer.network.sites
    ]
    total = ("all sites", *(1000 * sum(_measured(one).cpu.values()) for one in outcomes))
    return _table("CPU that numpy and Arrow took here in ms", "site", outcomes, [*rows, total])


def registration_table(outcomes: Sequence[StrategyOutcome]) -> StrategyTable:
    """Tables 2 and 3."""
    kinds: dict[str, Callable[[list[float]], float]] = {"average": fmean, "minimum": min, "maximum": max}
    rows = [(name, *(1000 * of(one.seconds) for one in outcomes)) for name, of in kinds.items()]
    return _table("registration of a query in ms", "time", outcomes, rows)


def rejection_table(outcomes: Sequence[StrategyOutcome]) -> StrategyTable:
    row = (f"of {len(outcomes[0].seconds)}", *(len(one.rejected) for one in outcomes))
    return _table("rejected queries, with 10 % of the capacity and links of 1 Mbit/s", "", outcomes, [row])


def graphs(outcome: StrategyOutcome) -> dict[str, Any]:
    """Returns the nodes that run, which is made from which (the dependency graph), and which query could be
    made from which (the shareability graph, without what follows from the rest)."""
    installed, measured = outcome.optimizer.installed, _measured(outcome)
    nodes = [
        {
            "node": node.number,
            "stream": node.properties.text,
            "path": list(node.path),
            "read_by": sorted(node.subscribers),
            "rows": measured.rows[node.number].num_rows,
            "bytes": measured.rows[node.number].nbytes,
        }
        for node in installed.nodes.values()
    ]
    names = list(installed.reads)
    properties = [installed.nodes[installed.reads[name]].properties for name in names]
    shareable = [[names[wide], names[narrow]] for wide, narrow in sorted(shareability_graph(properties))]
    return {"nodes": nodes, "dependencies": sorted(installed.dependencies()), "shareable": shareable}


def _table(
    title: str, first: str, outcomes: Sequence[StrategyOutcome], rows: Sequence[tuple[Any, ...]]
) -> StrategyTable:
    return StrategyTable(title, first, tuple(one.strategy.value for one in outcomes), tuple(rows))


def _measured(outcome: StrategyOutcome) -> Any:
    assert outcome.measured is not None, "the scenario was planned and not run"
    return outcome.measured
