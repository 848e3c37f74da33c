"""First stage: the items' homes. A home keeps recent items and knows which zones are interested in which
cells.

In: from order, items, queries that begin, and progress; from rendezvous (back packets), the space and the
mergers. Out: items for the zones that want them: on arrival if their cell is of interest, and later when
interest has grown to cover it while they were still in the buffer. Never: a look at a query beyond whose it
is.

A zone gets everything where a cell is not enough to decide: before the space is known, in the batch that
brings it a new query, and in a batch so long that the guards of one of its queries may leave the window
(interest.Merger.holds).
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
from anabranch.families.nearest.waiting import Waiting
from anabranch.model.stream import NUMBER, Stream
from anabranch.zones.columns import Array
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.stage import Stage
from anabranch.zones.state import State


class Home(Stage):
    name = "home"

    def __init__(self, stream: Stream, zones: int) -> None:
        self.stream, self.zones = stream, zones

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        where = self._space(state, packets)
        arrived = [packet.rows for packet in packets if packet.kind is Kind.ITEMS]
        items = pa.concat_batches(arrived) if len(arrived) > 1 else arrived[0] if arrived else None
        counters = {m.NOTIFY_RENDEZVOUS: items.num_rows if items is not None else 0}
        if where is None:
            out = self._to_all(items)
        else:
            table = self._heard(state, packets, where)
            out = self._forwarded(state, where, table, items, packets)
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
    ) -> list[Packet]:
        progress = Progress.of(packets)
        begun = _zones_of_new(packets, where)
        waiting = Waiting(state, self.zones)
        if items is not None:
            waiting.add(items)
        out: list[Packet] = []
        keep: list[tuple[int, int]] = []  # zone, number of the oldest item that it may still want
        for zone in range(self.zones):
            mergers = table.mergers(zone)
            if not mergers and zone not in begun:
                continue
            rows = []
            for chunk in waiting.chunks():
                want = self._wanted(where, table, waiting, chunk, zone, mergers, zone in begun, progress)
                if want is not None:
                    rows += waiting.take(chunk, zone, want)
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

    def _wanted(
        self,
        where: space.Space,
        table: Table,
        waiting: Waiting,
        chunk: str,
        zone: int,
        mergers: list[Merger],
        begun: bool,
        progress: Progress | None,
    ) -> Array | None:
        """Which items of a chunk a zone wants now; None for none. What waited before and was not wanted is
        looked at again only if a merger grew or does not hold any more.
        """
        new = waiting.is_new(chunk)
        size = waiting.size(chunk)
        if new and begun:
            return np.ones(size, np.bool_)
        want: Array | None = None
        for merger in mergers:
            if merger.want == ALL or (progress and not merger.holds(progress.number, progress.last)):
                return np.ones(size, np.bool_)
            if new or (zone, merger.by) in table.grown:
                overlay = where.overlay(merger.by)
                flags = table.flags(zone, merger.by, overlay.cells.count)
                cells = waiting.cells(chunk, merger.by, overlay.cells)
                here = flags[np.maximum(cells, 0)] & (cells >= 0)
                want = here if want is None else want | here
        return want

    def _passed(self, where: space.Space, waiting: Waiting, zone: int, mergers: list[Merger]) -> list[Packet]:
        """The new items that the zone does not get, for windows that count them."""
        bys = [merger.by for merger in mergers if merger.counts]
        chunk = waiting.new
        if not bys or chunk is None:
            return []
        unsent = ~waiting.sent(chunk)[:, zone]
        if not unsent.any():
            return []
        names = [NUMBER] if self.stream.time is None else [NUMBER, self.stream.time]
        columns = {name: waiting.rows(chunk).column(name).filter(pa.array(unsent)) for name in names}
        for place, by in enumerate(bys):
            cells = waiting.cells(chunk, by, where.overlay(by).cells)
            columns[f"present{place}"] = pa.array(cells[unsent] >= 0)
        return [m.say(m.PASSED, m.RENDEZVOUS, zone, pa.record_batch(columns), by=[list(by) for by in bys])]


def _zones_of_new(packets: Sequence[Packet], where: space.Space) -> set[int]:
    """The zones that get a query in this batch."""
    out: set[int] = set()
    for packet in packets:
        if packet.kind is Kind.ACTIVATE:
            out.update(owners(packet.column("spec").to_pylist(), where).tolist())
    return out
