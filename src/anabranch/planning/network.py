"""Sites and the links between them (StreamGlobe's super-peer backbone).

Sites have a capacity and a performance index, links a bandwidth; each stream is registered at a site. What
runs there is in `installed`. One site without links is the default: then only work counts, not traffic.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from anabranch.model.errors import JobError

#: The two ends of a link, in order.
Pair = tuple[str, str]
Path = tuple[str, ...]


@dataclass(frozen=True)
class Site:
    """`capacity` is in seconds of CPU per second; work takes `index` times as long as on the reference."""

    name: str
    capacity: float = 1.0
    index: float = 1.0


@dataclass(frozen=True)
class Link:
    """`bandwidth` is in bytes per second, for both directions together."""

    ends: Pair
    bandwidth: float


def pair(one: str, other: str) -> Pair:
    return (one, other) if one <= other else (other, one)


@dataclass
class Network:
    sites: Mapping[str, Site]
    links: Mapping[Pair, Link]
    streams: Mapping[str, str]  # stream -> the site where it is registered
    _ways: dict[tuple[str, str], Path | None] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._neighbours: dict[str, list[str]] = {name: [] for name in self.sites}
        for ends in self.links:
            for one, other in (ends, ends[::-1]):
                if one not in self.sites:
                    raise JobError(
                        f"link {ends[0]} - {ends[1]}: there is no site {one!r}; "
                        f"there are: {', '.join(self.sites)}"
                    )
                self._neighbours[one].append(other)
        for around in self._neighbours.values():
            around.sort()
        for stream, site in self.streams.items():
            if site not in self.sites:
                raise JobError(
                    f"stream {stream}: there is no site {site!r}; there are: {', '.join(self.sites)}"
                )

    @staticmethod
    def single(streams: Iterable[str]) -> Network:
        """Returns a network in which all streams are at one site."""
        return Network({"here": Site("here")}, {}, dict.fromkeys(streams, "here"))

    def scaled(self, capacity: float = 1.0, bandwidth: float | None = None) -> Network:
        """Returns the network with a part of its capacities; `bandwidth` of all links in bytes per second."""
        sites = {name: Site(name, site.capacity * capacity, site.index) for name, site in self.sites.items()}
        links = {ends: Link(ends, bandwidth or link.bandwidth) for ends, link in self.links.items()}
        return Network(sites, links, self.streams)

    def way(self, start: str, end: str) -> Path | None:
        """Returns a way with the fewest links; of several the first by the names of the sites."""
        if (start, end) not in self._ways:
            self._ways[start, end] = self.way_around(start, end)
        return self._ways[start, end]

    def way_around(
        self,
        start: str,
        end: str,
        without_sites: frozenset[str] = frozenset(),
        without_links: frozenset[Pair] = frozenset(),
    ) -> Path | None:
        """Returns a shortest way that avoids some sites, other than its ends, and some links."""

        def weight(one: str, other: str) -> float | None:
            if pair(one, other) in without_links or (other in without_sites and other != end):
                return None
            return 1.0

        return self.lightest_way(start, end, weight)

    def lightest_way(self, start: str, end: str, weight: Callable[[str, str], float | None]) -> Path | None:
        """Returns the way of least weight (Dijkstra). `weight` is that of a step from site to site, None if
        there is no way through."""
        queue: list[tuple[float, Path]] = [(0.0, (start,))]
        done = set()
        while queue:
            length, path = heapq.heappop(queue)
            here = path[-1]
            if here == end:
                return path
            if here in done:
                continue
            done.add(here)
            for there in self._neighbours[here]:
                step = weight(here, there) if there not in done else None
                if step is not None:
                    heapq.heappush(queue, (length + step, (*path, there)))
        return None
