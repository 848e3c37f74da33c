"""D-ZaLaPS over a network of peers: the same candidates and mergers as on Spark, one zone of a CAN after the
other.

In: batches of items, queries that come and go, peers that join, leave and fail. Out: what is reported, and
how many messages of each kind went from peer to peer. Never: an item shown to a zone that no home sent it to;
what a failed peer held is gone unless its neighbours have a copy.

A round is a batch. Peers inform their neighbours once a round. One that is not heard of for PATIENCE rounds
has failed; meanwhile sources keep their items, so that a failure costs time and not results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from anabranch.families.nearest import interest
from anabranch.families.nearest import messages as m
from anabranch.families.nearest.space import Overlay
from anabranch.families.nearest.spec import Nearest
from anabranch.kernels.skyband import PLUS
from anabranch.model.control import Activate
from anabranch.simulate.dzalaps.homes import Homes
from anabranch.simulate.dzalaps.zone import Zone
from anabranch.zones.can import Can
from anabranch.zones.cells import Cells
from anabranch.zones.columns import Array
from anabranch.zones.queries import Active

PATIENCE = 3

#: Messages of the overlay itself (section 5.3).
NEIGHBOUR_INFORM = "neighbour inform"
JOIN, DEPARTURE, TAKE_OVER, REPLICA = "join", "departure", "take-over", "replica"
HOPS = "hops of notify rendezvous"

#: The messages that a central processor needs, too (section 6.2).
CENTRAL = (m.NOTIFY_RENDEZVOUS, m.NOTIFY_OWNER, m.QUERY_ACTIVATION)

#: How many routes a batch are followed hop by hop.
_ROUTES = 20


class Network:
    def __init__(
        self, points: Array, cells: Cells, buffer: int | None = None, replicate: bool = False, seed: int = 0
    ) -> None:
        """One peer, which has all cells. points: float64[n, d], the items to come; `buffer` is how many of
        them are recent.
        """
        self.points, self.cells, self.replicate = points, cells, replicate
        self.rng = np.random.default_rng([seed, 4])
        self.can = Can(cells)
        by = tuple(f"x{place}" for place in range(cells.dimensions))
        self.zones: list[Zone] = [Zone(by, buffer)]
        self.overlay = Overlay(cells, 1)
        self.homes = Homes(cells.of(points), cells.count)
        self.counts: Counter[str] = Counter()
        self.reports: list[tuple[Array, Array, Array, Array]] = []  # query, op, at, item
        self.now = 0
        #: failed peer's copy by holder: holder -> peer -> what it holds
        self.copies: dict[int, dict[int, dict[str, Any]]] = {}
        self._begun: set[int] = set()

    # queries

    def activate(self, asked: Iterable[Activate]) -> None:
        for query in asked:
            spec = Nearest.from_json(query.spec)
            zone = self._zone_at(spec)
            self.zones[zone].queries[query.number] = Active(
                query.number, query.name, query.spec, self.now, None
            )
            self._begun.add(zone)
            self.counts[m.QUERY_ACTIVATION] += 1

    def cancel(self, number: int) -> None:
        """From the next item on."""
        for zone in self.zones:
            if zone.queries.pop(number, None) is not None:
                self.counts[m.QUERY_CANCELLATION] += 1

    @property
    def active(self) -> set[int]:
        return {number for zone in self.zones for number in zone.queries}

    def _zone_at(self, spec: Nearest) -> int:
        return int(self.can.zone_of[self.cells.of(np.array([spec.point]))[0]])

    # items

    def batch(self, size: int) -> None:
        """The next items reach their homes, then the zones that are interested, then the queries' owners."""
        first, stop = self.now, min(self.now + size, len(self.points))
        self.homes.arrive(stop)
        self.counts[m.NOTIFY_RENDEZVOUS] += stop - first
        self._follow_routes(first, stop)
        sent = {}
        for number in range(len(self.zones)):
            merger = self.homes.told.get(number)
            if merger is not None or number in self._begun:
                sent[number] = self.homes.send(number, merger, number in self._begun, first, stop)
        self._count_interested(sent)
        self._begun.clear()
        updates = []
        for number, items in sent.items():
            zone = self.zones[number]
            moved = None
            if zone.queries:
                log, moved = zone.move(self.points, items, first, stop)
                self.counts[m.NOTIFY_OWNER] += int((log.op == PLUS).sum())
                queries = np.array(sorted(zone.queries), np.int64)
                self.reports.append((queries[log.query], log.op, log.moment, log.number))
            update = zone.merge(self.overlay, moved, first, stop)
            if update is not None:
                updates.append((number, update))
        self._tell(updates)
        self.homes.forget(min((merger.low for merger in self.homes.told.values()), default=stop))
        self.now = stop
        self._inform()
        if self.replicate:
            self._copy(self.can.peers)

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

    def _count_interested(self, sent: dict[int, Array]) -> None:
        """An item goes to a peer once, whichever of its zones want it, and not at all to its own home."""
        peers = np.array(self.can.peer_of)
        got: dict[int, list[Array]] = {}
        for zone, items in sent.items():
            got.setdefault(int(peers[zone]), []).append(items)
        for peer, parts in got.items():
            items = parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
            homes = peers[self.can.zone_of[self.homes.cell[items]]]
            self.counts[m.NOTIFY_INTERESTED] += int((homes != peer).sum())

    def _tell(self, updates: list[tuple[int, tuple[interest.Merger, interest.Merger, Array]]]) -> None:
        peers = np.array(self.can.peer_of, np.int64)[self.can.zone_of]
        for number, (before, merger, toggled) in updates:
            me = self.can.peer_of[number]
            self.counts[m.MERGER_UPDATE] += interest.informed(before, merger, toggled, peers, me)
            self.homes.hear(number, merger, toggled)

    def _inform(self) -> None:
        self.counts[NEIGHBOUR_INFORM] += self.can.links

    # peers

    def join(self) -> bool:
        """A new peer at a random point; whether there was room."""
        split = self.can.join(int(self.rng.integers(self.cells.count)))
        if split is None:
            return False
        old = self.zones[split.zone]
        new = old.unpack(old.packed())
        for number, query in list(old.queries.items()):
            stays = self._zone_at(Nearest.from_json(query.spec)) == split.zone
            del (new if stays else old).queries[number]
        self.zones.append(new)
        self.homes.split(split.zone, split.new)
        if split.zone in self._begun:
            self._begun.add(split.new)
        self.counts[JOIN] += 1
        if self.replicate:
            self._copy({split.peer, self.can.peer_of[split.zone]})
        return True

    def depart(self, peer: int) -> None:
        """Hands over to a neighbour and goes."""
        heir = self.can.heir(peer)
        for number in self.can.remove(peer, heir):
            self.zones[number] = self.zones[number].unpack(self.zones[number].packed())
        self.copies.pop(peer, None)
        self.counts[DEPARTURE] += 1
        if self.replicate:
            self._copy({heir, *self.can.peers_near(heir)})

    def fail(self, peer: int) -> None:
        """What the peer held is gone, its copies of others included. Its neighbours miss it, and one takes
        over.
        """
        for number in self.can.zones_of(peer):
            self.zones[number] = self.zones[number].emptied()
            self.homes.lose(self._cells_of(number))
        self.copies.pop(peer, None)
        for _ in range(PATIENCE):
            self._inform()
        holders = [holder for holder, held in self.copies.items() if peer in held]
        heir = self.can.heir(peer, holders or None)
        copy = self.copies.get(heir, {}).get(peer)
        for number in self.can.remove(peer, heir):
            if copy is not None:
                self.zones[number] = self.zones[number].unpack(copy["zones"][number])
                self.homes.restore(self._cells_of(number), copy["homes"][number])
        for held in self.copies.values():
            held.pop(peer, None)
        self.counts[TAKE_OVER] += 1
        if self.replicate:
            self._copy({heir, *self.can.peers_near(heir)})

    def _cells_of(self, zone: int) -> Array:
        return np.flatnonzero(self.can.zone_of == zone)

    def _copy(self, peers: Iterable[int]) -> None:
        """These peers bring the copies at their neighbours up to date."""
        for peer in peers:
            zones = self.can.zones_of(peer)
            held = {
                "zones": {number: self.zones[number].packed() for number in zones},
                "homes": {number: self.homes.packed(self._cells_of(number)) for number in zones},
            }
            for near in self.can.peers_near(peer):
                self.copies.setdefault(near, {})[peer] = held
                self.counts[REPLICA] += 1
