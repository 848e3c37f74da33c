"""D-ZaLaPS over a network of peers: the same candidates and mergers as on Spark, one zone of a CAN after the
other.

It takes batches of items, queries that come and go, and peers that join, leave and fail; it counts what is
reported, and how many messages of each kind go from peer to peer. A zone sees only the items that a home sent
it. What a failed peer had is gone unless its neighbours have a copy.

A round is a batch. Peers inform their neighbours once per round. One that is not heard of for PATIENCE rounds
has failed; meanwhile sources keep their items, so that a failure costs time and not results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from anabranch.chain.control import Query
from anabranch.families.nearest import interest
from anabranch.families.nearest.interest import Merger, count_informed
from anabranch.families.nearest.kernels.arrays import PLUS
from anabranch.families.nearest.query_groups import ChunkUpdate
from anabranch.families.nearest.space import CellGrid
from anabranch.families.nearest.spec import Nearest
from anabranch.model.arrays import Array, Floats, Ints, Ints32
from anabranch.model.control_log import Activate
from anabranch.simulate.dzalaps.can import Can
from anabranch.simulate.dzalaps.peers import PeerHomes, PeerZone

PATIENCE = 3

#: Messages of the overlay itself (section 5.3).
NEIGHBOUR_INFORM = "neighbour inform"
JOIN, DEPARTURE, TAKE_OVER, REPLICA = "join", "departure", "take-over", "replica"
HOPS = "hops of notify rendezvous"

#: The messages that a central processor needs, too (section 6.2).
CENTRAL = (interest.NOTIFY_RENDEZVOUS, interest.NOTIFY_OWNER, interest.QUERY_ACTIVATION)

#: How many routes per batch are followed hop by hop.
_ROUTES = 20


class PeerNetwork:
    def __init__(
        self,
        points: Floats,
        grid: CellGrid,
        buffer: int | None = None,
        replicate: bool = False,
        seed: int = 0,
        gamma: float = 0.2,
    ) -> None:
        """One peer, which has all cells. points: [n, d], the items to come; `buffer` is how many of
        them are recent, `gamma` the pruning coefficient.
        """
        self.points, self.grid, self.replicate = points, grid, replicate
        self.rng = np.random.default_rng([seed, 4])
        self.can = Can(grid)
        by = tuple(f"x{dimension}" for dimension in range(grid.dimensions))
        self.zones: list[PeerZone] = [PeerZone(by, buffer, gamma)]
        self.homes = PeerHomes(grid.cells_of(points), grid.count)
        self.counts: Counter[str] = Counter()
        self.reports: list[tuple[Array, Array, Array, Array]] = []  # query, op, at, item
        self.now = 0
        #: holder -> peer -> the holder's copy of what that peer has
        self.copies: dict[int, dict[int, dict[str, Any]]] = {}
        self._with_new_queries: set[int] = set()

    # queries

    def activate(self, queries: Iterable[Activate]) -> None:
        for query in queries:
            spec = Nearest.from_json(query.spec)
            zone = self._zone_at(spec)
            self.zones[zone].queries[query.number] = Query(
                query.number, query.name, query.spec, self.now, None
            )
            self._with_new_queries.add(zone)
            self.counts[interest.QUERY_ACTIVATION] += 1

    def cancel(self, number: int) -> None:
        """From the next item on."""
        for zone in self.zones:
            if zone.queries.pop(number, None) is not None:
                self.counts[interest.QUERY_CANCELLATION] += 1

    @property
    def active(self) -> set[int]:
        return {number for zone in self.zones for number in zone.queries}

    def _zone_at(self, spec: Nearest) -> int:
        return int(self.can.zone_of[self.grid.cells_of(np.array([spec.point]))[0]])

    # items

    def batch(self, size: int) -> None:
        """The next items reach their homes, then the zones that are interested, then the queries' owners."""
        first, stop = self.now, min(self.now + size, len(self.points))
        self.homes.arrive(stop)
        self.counts[interest.NOTIFY_RENDEZVOUS] += stop - first
        self._follow_routes(first, stop)
        sent = {}
        for number in range(len(self.zones)):
            new_query = number in self._with_new_queries
            if new_query or number in self.homes.mergers:
                sent[number] = self.homes.send(number, new_query, first, stop)
        self._count_interested(sent)
        self._with_new_queries.clear()
        changes = []
        for number, items in sent.items():
            zone = self.zones[number]
            update = None
            if zone.queries:
                update = zone.update(self.points, items, first, stop)
                self._report(zone, update)
            change = zone.merge(self.grid, update, first, stop)
            if change is not None:
                changes.append((number, change))
        self._tell(changes)
        self.homes.drop_before(min((merger.low for merger in self.homes.mergers.values()), default=stop))
        self.now = stop
        self._inform()
        if self.replicate:
            self._copy(self.can.peers)

    def _report(self, zone: PeerZone, update: ChunkUpdate) -> None:
        log, queries = update.log, np.array(sorted(zone.queries), np.int64)
        self.counts[interest.NOTIFY_OWNER] += int((log.op == PLUS).sum())
        self.reports.append((queries[log.query], log.op, log.moment.astype(np.int64), log.number))

    def run(self, stop: int, size: int) -> None:
        while self.now < stop:
            self.batch(min(size, stop - self.now))

    def _follow_routes(self, first: int, stop: int) -> None:
        """Some items' ways from a random source to their homes, counted for all."""
        chosen = self.rng.integers(first, stop, min(_ROUTES, stop - first))
        hops = 0
        for item in chosen.tolist():
            source = int(self.rng.integers(len(self.zones)))
            hops += self.can.hops(source, int(self.homes.cell[item]))
        self.counts[HOPS] += round(hops * (stop - first) / max(1, len(chosen)))

    def _count_interested(self, sent: dict[int, Ints]) -> None:
        """An item goes to a peer once, whichever of its zones want it, and not at all to its own home."""
        peers = np.array(self.can.peer_of)
        got: dict[int, list[Ints]] = {}
        for zone, items in sent.items():
            got.setdefault(int(peers[zone]), []).append(items)
        for peer, parts in got.items():
            items = parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
            homes = peers[self.can.zone_of[self.homes.cell[items]]]
            self.counts[interest.NOTIFY_INTERESTED] += int((homes != peer).sum())

    def _tell(self, changes: list[tuple[int, tuple[Merger, Merger, Ints32]]]) -> None:
        """Tells the homes of mergers that changed."""
        peers = np.array(self.can.peer_of, np.int64)[self.can.zone_of]
        for number, (before, merger, toggled) in changes:
            sender = self.can.peer_of[number]
            told = count_informed(before, merger, toggled, peers, sender)
            self.counts[interest.MERGER_UPDATE] += told
            if merger != before:
                self.counts[interest.LIMIT_RENEWAL] += len(self.can.peers) - 1 - told
            self.homes.update(number, merger, toggled)

    def _inform(self) -> None:
        self.counts[NEIGHBOUR_INFORM] += self.can.links

    # peers

    def join(self) -> bool:
        """Adds a peer at a random point. Returns whether there was room."""
        split = self.can.join(int(self.rng.integers(self.grid.count)))
        if split is None:
            return False
        old = self.zones[split.zone]
        new = old.unpack(old.packed())
        for number, query in list(old.queries.items()):
            stays = self._zone_at(Nearest.from_json(query.spec)) == split.zone
            del (new if stays else old).queries[number]
        self.zones.append(new)
        self.homes.split(split.zone, split.new)
        if split.zone in self._with_new_queries:
            self._with_new_queries.add(split.new)
        self.counts[JOIN] += 1
        if self.replicate:
            self._copy({split.peer, self.can.peer_of[split.zone]})
        return True

    def depart(self, peer: int) -> None:
        """Removes a peer that hands over to a neighbour first."""
        heir = self.can.heir(peer)
        for number in self.can.remove(peer, heir):
            self.zones[number] = self.zones[number].unpack(self.zones[number].packed())
        self.copies.pop(peer, None)
        self.counts[DEPARTURE] += 1
        if self.replicate:
            self._copy({heir, *self.can.neighbour_peers(heir)})

    def fail(self, peer: int) -> None:
        """Removes a peer that hands nothing over: what it had is gone, its copies of others included. Its
        neighbours miss it, and one takes over.
        """
        for number in self.can.zones_of(peer):
            self.zones[number] = self.zones[number].emptied()
            self.homes.lose(self._cells_of(number))
        self.copies.pop(peer, None)
        for _ in range(PATIENCE):
            self._inform()
        holders = [holder for holder, copies in self.copies.items() if peer in copies]
        heir = self.can.heir(peer, holders or None)
        copy = self.copies.get(heir, {}).get(peer)
        for number in self.can.remove(peer, heir):
            if copy is not None:
                self.zones[number] = self.zones[number].unpack(copy["zones"][number])
                self.homes.restore(self._cells_of(number), copy["homes"][number])
        for copies in self.copies.values():
            copies.pop(peer, None)
        self.counts[TAKE_OVER] += 1
        if self.replicate:
            self._copy({heir, *self.can.neighbour_peers(heir)})

    def _cells_of(self, zone: int) -> Ints:
        return np.flatnonzero(self.can.zone_of == zone)

    def _copy(self, peers: Iterable[int]) -> None:
        """These peers bring the copies at their neighbours up to date."""
        for peer in peers:
            zones = self.can.zones_of(peer)
            copy = {
                "zones": {number: self.zones[number].packed() for number in zones},
                "homes": {number: self.homes.packed(self._cells_of(number)) for number in zones},
            }
            for neighbour in self.can.neighbour_peers(peer):
                self.copies.setdefault(neighbour, {})[peer] = copy
                self.counts[REPLICA] += 1
