"""How queries pass from one rendezvous zone to another while the stream runs (zones/balance).

In: a zone that has too much to do, and what share of it another shall have. Out: a new split, and for the
other zone the queries beyond it with all that is known of them: candidates, clocks, the items of the recent
buffer and those that are candidates. Never: a change of what comes out.

Why it is exact. Up to the end of a batch the giver has seen all that its queries need, but for items that
wait at homes: those beyond the cells it had told them of. In the next batch homes send the taker all that
waits, and all that arrives, as they do for a new query; what it got from the giver as well it knows already.
The taker tells its interest at the end of that batch, with the balls of the queries it took over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from anabranch.families.nearest import candidates, clocks
from anabranch.families.nearest import messages as m
from anabranch.families.nearest.batch import Known
from anabranch.families.nearest.shelf import Shelf
from anabranch.families.nearest.space import Space, Split, adopt
from anabranch.families.nearest.spec import Nearest
from anabranch.zones import queries
from anabranch.zones.balance import cut
from anabranch.zones.columns import Array
from anabranch.zones.packets import DELIVER, Kind, Packet
from anabranch.zones.state import State, decode_chunk, encode_chunk


def given(state: State, where: Space, zone: int, other: int, share: float) -> list[Packet]:
    """What is sent so that another zone takes over this share of the queries after this batch, and a note of
    it; nothing if they cannot be cut.
    """
    specs = {number: Nearest.from_json(query.spec) for number, query in queries.active(state).items()}
    if not specs:
        return []
    by = Counter(spec.by for spec in specs.values()).most_common(1)[0][0]
    numbers = np.array([number for number, spec in specs.items() if spec.by == by], np.int64)
    points = np.array([specs[number].point for number in numbers.tolist()], np.float64)
    widths = [high - low or 1.0 for low, high in (where.bounds[name] for name in by)]
    found = cut(list(points.T), share, widths)
    if found is None:
        return []
    axis, at = found
    splits = [*where.splits, Split(by, zone, axis, at, other)]
    gone = np.sort(numbers[Space(where.bounds, where.zones, splits).owners(by, points) == other])
    table = [[list(s.by), s.zone, s.axis, s.cut, s.other] for s in splits]
    out = [
        m.say(m.SPLITS, stage, every, splits=table, other=other)
        for stage in (m.HOME, m.RENDEZVOUS)
        for every in range(where.zones)
    ]
    out += _luggage(state, other, gone, json.dumps(by))
    facts = {"axis": by[axis], "at": at, "to": other, "queries": len(gone)}
    note = {"family": "nearest", "stage": "rendezvous", "zone": zone, "split": facts}
    return [*out, Packet(DELIVER, 0, Kind.NOTE, facts=note)]


def _luggage(state: State, other: int, gone: Array, by: str) -> list[Packet]:
    """The queries with these numbers, and all that is known of them."""
    chunks, needed = candidates.taken_out(state, gone)
    clock = clocks.PREFIX + by
    held = state.get(clock)
    if held is not None:
        chunks[clock] = held
    known, shelf = Known.load(state), Shelf(state)
    rows = pa.record_batch(
        {
            "key": pa.array(list(chunks), pa.string()),
            "body": pa.array([encode_chunk(chunk) for chunk in chunks.values()], pa.binary()),
        }
    )
    moving = [
        chunk.filter(pa.array(np.isin(chunk.column("number").to_numpy(), gone)))
        for chunk in (state.rows(key) for key in state.keys(queries.PREFIX))
        if chunk is not None
    ]
    out = [
        m.say(m.MOVING, m.RENDEZVOUS, other, pa.concat_batches(moving), low=known.low),
        m.say(m.CHUNKS, m.RENDEZVOUS, other, rows),
    ]
    items = shelf.copied(known.low, needed)
    return out if items is None else [*out, m.say(m.SHELF, m.RENDEZVOUS, other, items)]


def received(state: State, packets: Sequence[Packet]) -> int:
    """Takes up the queries that another zone gives; how many. The table of splits must be known by now."""
    count = 0
    for packet in packets:
        if m.said(packet, m.MOVING):
            count += packet.rows.num_rows
            queries.apply(state, [Packet(packet.stage, packet.zone, Kind.ACTIVATE, packet.rows)])
            known = Known.load(state)
            replace(known, low=min(known.low, packet.facts["low"])).save(state)
        elif m.said(packet, m.CHUNKS):
            for key, body in zip(packet.column("key").to_pylist(), packet.column("body"), strict=True):
                chunk = decode_chunk(body.as_py())
                assert isinstance(chunk, dict)
                if key.startswith(clocks.PREFIX):
                    clocks.put_in(state, key, chunk)
                else:
                    candidates.put_in(state, key, chunk)
        elif m.said(packet, m.SHELF):
            Shelf(state).add_unknown(packet.rows)
    return count


def heard(state: State, packets: Sequence[Packet]) -> set[int]:
    """Adopts a new table of splits, if one came; the zones that get queries by it."""
    others: set[int] = set()
    for packet in packets:
        if m.said(packet, m.SPLITS):
            adopt(state, packet.facts["splits"])
            others.add(packet.facts["other"])
    return others
