"""The paper's four scenarios (table 1), and the one with little room (section 6).

| scenario | network                            | sites | streams | queries |
|----------|------------------------------------|-------|---------|---------|
| example  | 3-dimensional hypercube            | 8     | 1       | 4       |
| extended | 3-dimensional hypercube            | 8     | 1       | 25      |
| small    | a triangle, and the source beside  | 4     | 1       | 4       |
| grid     | 4 x 4 grid                         | 16    | 2       | 100     |
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from anabranch.planning.network import Link, Network, Site, pair
from anabranch.planning.scenario import BANDWIDTH, Scenario
from anabranch.simulate.photons import Photons
from anabranch.simulate.workload import example_queries, random_queries


class ScenarioName(StrEnum):
    EXAMPLE = "example"
    EXTENDED = "extended"
    SMALL = "small"
    GRID = "grid"


#: How many streams each needs.
STREAMS = {
    ScenarioName.EXAMPLE: 1,
    ScenarioName.EXTENDED: 1,
    ScenarioName.SMALL: 1,
    ScenarioName.GRID: 2,
}

#: Appendix E: its vertices are the corners of a cube.
CUBE = ((4, 0), (5, 2), (6, 3), (1, 7), (0, 7), (5, 4), (2, 0), (2, 1), (4, 3), (5, 6), (6, 1), (3, 7))
TRIANGLE = ((0, 1), (1, 2), (0, 2), (3, 0))
GRID = tuple((a, b) for a in range(16) for b in (a + 1, a + 4) if b < 16 and (b == a + 4 or b % 4))


def scenario(
    name: ScenarioName, streams: list[Photons], queries: int | None = None, seed: int = 0
) -> Scenario:
    """Returns a scenario of the paper. `queries`: so many random ones in place of the paper's number."""
    names = [photons.stream.name for photons in streams]
    match name:
        case ScenarioName.EXAMPLE | ScenarioName.EXTENDED:
            network = _network(8, CUBE, dict.fromkeys(names, "SP4"))
        case ScenarioName.SMALL:
            network = _network(4, TRIANGLE, dict.fromkeys(names, "SP3"))
        case ScenarioName.GRID:
            network = _network(16, GRID, dict(zip(names, ("SP5", "SP10"), strict=False)))
    if queries is None and name is ScenarioName.EXAMPLE:
        wanted = example_queries(streams[0], ("SP0", "SP2", "SP1", "SP6"))
    elif queries is None and name is ScenarioName.SMALL:
        wanted = example_queries(streams[0], ("SP0", "SP1", "SP2", "SP1"))
    else:
        count = queries or (25 if name is ScenarioName.EXTENDED else 100)
        wanted = random_queries(streams, list(network.sites), count, seed)
    return Scenario(name.value, network, tuple(wanted))


def _network(sites: int, links: Iterable[tuple[int, int]], streams: dict[str, str]) -> Network:
    names = [f"SP{number}" for number in range(sites)]
    ends = [pair(names[one], names[other]) for one, other in links]
    return Network(
        {name: Site(name) for name in names}, {both: Link(both, BANDWIDTH) for both in ends}, streams
    )
