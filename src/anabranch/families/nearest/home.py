"""First stage: the items' homes. A home keeps recent items and knows which zones are interested in which
cells.

In: from order, items, queries that begin, and progress; from rendezvous (back packets), the space and the
mergers. Out: items for the zones that want them: on arrival if their cell is of interest, and later when
interest has grown to cover it while they were still in the buffer. Never: a look at a query beyond whose
it is.

A zone gets everything where a cell is not enough to decide: before the space is known, in the batch that
brings it a new query or queries of another zone, and in a batch so long that the guards of one of its
queries may leave the window (interest.Merger.holds).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.families.nearest import messages as m
from anabranch.families.nearest import space
from anabranch.families.nearest.interest import ALL, Merger, Table
from anabranch.families.nearest.mail import Progress
from anabranch.families.nearest.owners import owners
from anabranch.families.nearest.rebalance import heard
from anabranch.families.nearest.waiting import Waiting
from anabranch.model.stream import NUMBER, Stream
from anabranch.zones.balance import HURRY, Patience, division
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.stage import Stage
from anabranch.zones.state import State


class Home(Stage):
    name = "home"

    def __init__(self, stream: Stream, zones: int, patience: Patience) -> None:
        self.stream, self.zones, self.patience = stream, zones, patience

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        moved = heard(state, packets)
        where = self._space(state, packets)
        arrived = [packet.rows for packet in packets if packet.kind is Kind.ITEMS]
        items = pa.concat_batches(arrived) if len(arrived) > 1 else arrived[0] if arrived else None
        counters = {m.NOTIFY_RENDEZVOUS: items.num_rows if items is not None else 0}
        if where is None:
            out = self._to_all(items)
        else:
            table = self._heard(state, packets, where)
            out = self._forwarded(state, where, table, items, packets, moved)
            out += self._divided(where, packets)
        counters[m.NOTIFY_INTERESTED] = sum(
            p.rows.num_rows for p in out if m.said(p, m.ITEMS) and p.zone != zone
        )
        return out + m.note(self.name, zone, counters)

    def _space(self, state: State, packets: Sequence[Packet]) -> space.Space | None:
        for packet in packets:
            if m.said(packet, m.SPACE):
                bounds = {name: (low, high) for name, (low, high) in packet.facts["bounds"].items()}
                space.save(state, space.Space(bounds, self.zones))
        return space.load(state, self.stream, self.zones)

    def _to_all(self, items: pa.RecordBatch | None) -> list[Packet]:
        """The first items: for every zone, with what is needed to agree on the space."""
        if items is None:
            return []
        extent = space.measured(items, self.stream)
        out = []
        for zone in range(self.zones):
            out.append(m.say(m.EXTENT, m.RENDEZVOUS, zone, extent=extent))
            out.append(m.say(m.ITEMS, m.RENDEZVOUS, zone, items))
        return out

    def _heard(self, state: State, packets: Sequence[Packet], where: space.Space) -> Table:
        table = Table(state)
        for packet in packets:
            if m.said(packet, m.MERGER):
                cells = where.overlay(tuple(packet.facts["by"])).cells.count
                table.update(packet.facts["zone"], dict(packet.facts), packet.rows, cells)
        return table

    def _forwarded(
        self,
        state: State,
        where: space.Space,
        table: Table,
        items: pa.RecordBatch | None,
        packets: Sequence[Packet],
        moved: set[int],
    ) -> list[Packet]:
        """`moved` are zones that take over queries of others: they get all that is here."""
        progress = Progress.of(packets)
        begun = _zones_of_new(packets, where)
        waiting = Waiting(state, self.zones, items)
        out: list[Packet] = []
        keep: list[tuple[int, int]] = []  # zone, number of the oldest item that it may still want
        for zone in range(self.zones):
            mergers = table.mergers(zone)
            if not mergers and zone not in begun and zone not in moved:
                continue
            if zone in moved:
                rows = waiting.take(zone, np.ones(waiting.size, np.bool_), 0)
            else:
                rows = self._wanted(where, table, waiting, zone, mergers, zone in begun, progress)
            if rows:
                out.append(
                    m.say(m.ITEMS, m.RENDEZVOUS, zone, pa.concat_batches(rows) if len(rows) > 1 else rows[0])
                )
            out += self._passed(where, waiting, zone, mergers)
            lows = [merger.low for merger in mergers if merger.want != ALL]
            if lows:
                keep.append((zone, min(lows)))
        waiting.save(keep)
        return out

    def _divided(self, where: space.Space, packets: Sequence[Packet]) -> list[Packet]:
        """Tells the zone that has far more to do than the others to give some of it away."""
        told = [packet.facts for packet in packets if m.said(packet, m.WORK)]
        patience = HURRY if any(facts["asked"] for facts in told) else self.patience
        work = {facts["zone"]: facts["work"] for facts in told}
        found = division(work, self.zones, len(where.splits), patience) if work else None
        if found is None:
            return []
        return [m.say(m.DIVIDE, m.RENDEZVOUS, found.hot, other=found.other, share=found.share)]

    def _wanted(
        self,
        where: space.Space,
        table: Table,
        waiting: Waiting,
        zone: int,
        mergers: list[Merger],
        begun: bool,
        progress: Progress | None,
    ) -> list[pa.RecordBatch]:
        """The items that a zone wants now and does not have. What waited before and was not wanted is
        looked at again only if a merger grew or does not hold any more.
        """
        if any(
            one.want == ALL or (progress and not one.holds(progress.number, progress.last)) for one in mergers
        ):
            return waiting.take(zone, np.ones(waiting.size, np.bool_), 0)
        first = 0 if any((zone, merger.by) in table.grown for merger in mergers) else waiting.old
        if first == waiting.size:
            return []
        want = np.zeros(waiting.size - first, np.bool_)
        for merger in mergers:
            overlay = where.overlay(merger.by)
            flags = table.flags(zone, merger.by, overlay.cells.count)
            cells = waiting.cells(merger.by, overlay.cells)[first:]
            want |= flags[cells] & (cells >= 0)
        if begun:
            want[waiting.old - first :] = True
        return waiting.take(zone, want, first)

    def _passed(self, where: space.Space, waiting: Waiting, zone: int, mergers: list[Merger]) -> list[Packet]:
        """The new items that the zone does not get, for windows that count them."""
        bys = [merger.by for merger in mergers if merger.counts]
        if not bys:
            return []
        places, columns = waiting.unsent(
            zone, [NUMBER] if self.stream.time is None else [NUMBER, self.stream.time]
        )
        if not len(places):
            return []
        for place, by in enumerate(bys):
            cells = waiting.cells(by, where.overlay(by).cells)
            columns[f"present{place}"] = pa.array(cells[places] >= 0)
        return [m.say(m.PASSED, m.RENDEZVOUS, zone, pa.record_batch(columns), by=[list(by) for by in bys])]


def _zones_of_new(packets: Sequence[Packet], where: space.Space) -> set[int]:
    """The zones that get a query in this batch."""
    out: set[int] = set()
    for packet in packets:
        if packet.kind is Kind.ACTIVATE:
            out.update(owners(packet.column("spec").to_pylist(), where).tolist())
    return out
