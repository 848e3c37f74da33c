"""Runs what is installed in a network on real rows, and measures traffic of links and load of sites.

Rows and bytes are counted. Only how much CPU an operation takes on the reference machine is taken from the
cost model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from anabranch.planning.installed import Added, Installed, Node
from anabranch.planning.network import Pair
from anabranch.simulate.derive import NO_OPERATORS, Operators, derive_counted
from anabranch.simulate.photons import Photons
from anabranch.simulate.windows import StreamSpan


@dataclass
class NetworkLoad:
    """`loads` in CPU seconds per second, `traffic` in bytes per second; `cpu` is what numpy and Arrow took
    here, in seconds per site."""

    seconds: float
    rows: dict[int, pa.RecordBatch] = field(default_factory=dict)
    loads: dict[str, float] = field(default_factory=dict)
    traffic: dict[Pair, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)

    def site_traffic(self, site: str) -> float:
        """Returns the bytes per second that come in and go out."""
        return sum(amount for ends, amount in self.traffic.items() if site in ends)


def execute(
    installed: Installed,
    photons: Mapping[str, Photons],
    seconds: float,
    operators: Operators = NO_OPERATORS,
) -> NetworkLoad:
    """Runs all rows of all streams, which take `seconds` to arrive."""
    network = installed.network
    done = NetworkLoad(
        seconds,
        loads=dict.fromkeys(network.sites, 0.0),
        traffic=dict.fromkeys(network.links, 0.0),
        cpu=dict.fromkeys(network.sites, 0.0),
    )
    added = Added(network, installed.model)
    for node in _parents_first(installed):
        items = photons[node.properties.stream]
        if node.parent is None:
            done.rows[node.number] = items.rows
            continue
        times = items.rows.column(items.stream.time)
        span = StreamSpan(times[0].as_py(), times[-1].as_py())
        parent, came = installed.nodes[node.parent], done.rows[node.parent]
        started = time.thread_time()
        rows, passed = derive_counted(node.properties, parent.properties, came, span, operators)
        done.cpu[node.path[0]] += (time.thread_time() - started) * network.sites[node.path[0]].index
        done.rows[node.number] = rows
        work = installed.model.work_of(
            node.properties, parent.properties, came.num_rows / seconds, passed / seconds
        )
        added.charge(node.path, work, rows.num_rows / seconds, _bytes(rows) / seconds)
    done.loads |= added.loads
    done.traffic |= added.traffic
    return done


def _bytes(rows: pa.RecordBatch) -> int:
    return int(rows.nbytes) if rows.num_rows else 0


def _parents_first(installed: Installed) -> list[Node]:
    out = [installed.nodes[number] for number in installed.sources.values()]
    for node in out:  # grows meanwhile
        out += [installed.nodes[child] for child in sorted(node.children)]
    return out
