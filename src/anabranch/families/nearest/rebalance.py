"""How queries pass from one rendezvous zone to another while the stream runs (chain/balance).

A zone that has too much to do gives a share of its queries to another: a new split of the space, and for the
other zone the queries beyond it with all that is known of them: candidates, clocks, the items of the recent
buffer and those that are candidates. Results do not change.

Why it is exact. Up to the end of a batch the giver has seen all that its queries need, except items that
wait at homes: those beyond the cells it had told them of. In the next batch homes send the receiver all that
waits, and all that arrives, as they do for a new query; what it got from the giver as well it knows already.
The receiver tells its interest at the end of that batch, with the balls of the queries it took over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.balance import cut
from anabranch.chain.packets import DELIVER, Kind, Packet
from anabranch.chain.state import State, decode_chunk, encode_chunk
from anabranch.families.nearest import interest
from anabranch.families.nearest.interest import ZoneProgress
from anabranch.families.nearest.item_store import ItemStore, RowClock, add_row_clock
from anabranch.families.nearest.query_groups import add_queries, copy_queries
from anabranch.families.nearest.space import CoordinateSpace, Globe, QuerySplit, as_points
from anabranch.families.nearest.spec import Nearest
from anabranch.model.arrays import Ints


def give_queries(state: State, space: CoordinateSpace, zone: int, other: int, share: float) -> list[Packet]:
    """Returns what is sent so that another zone takes over this share of the queries after this batch, and a
    note of it; nothing if they cannot be cut.
    """
    specs = {number: Nearest.from_json(query.spec) for number, query in control.queries(state).items()}
    if not specs:
        return []
    by = Counter(spec.by for spec in specs.values()).most_common(1)[0][0]
    numbers = np.array([number for number, spec in specs.items() if spec.by == by], np.int64)
    coordinates = np.array([specs[number].point for number in numbers.tolist()], np.float64)
    points = as_points(space.stream, by, coordinates)
    widths = [high - low or 1.0 for low, high in space.bounds_of(by)]
    line = cut(list(points.T), share, widths)
    if line is None:
        return []
    axis, where = line
    splits = [*space.splits, QuerySplit(by, zone, axis, where, other)]
    now = CoordinateSpace(space.stream, space.bounds, space.zones, splits)
    given = np.sort(numbers[now.owners(by, points) == other])
    table = [[list(s.by), s.zone, s.axis, s.cut, s.other] for s in splits]
    out = [
        interest.message(interest.SPLITS, depth, every, splits=table, other=other)
        for depth in (interest.HOME, interest.RENDEZVOUS)
        for every in range(space.zones)
    ]
    out += _query_packets(state, other, given, json.dumps(by))
    axes = by if Globe.of(space.stream, by) is None else ("x", "y", "z")
    facts = {
        "axis": axes[axis],
        "at": where,
        "to": other,
        "queries": len(given),
    }
    note = {"family": "nearest", "stage": "rendezvous", "zone": zone, "split": facts}
    return [*out, Packet(DELIVER, 0, Kind.NOTE, facts=note)]


def _query_packets(state: State, other: int, given: Ints, by: str) -> list[Packet]:
    """Returns the queries with these numbers, and all that is known of them."""
    chunks, needed = copy_queries(state, given)
    clock = state.get(RowClock.PREFIX + by)
    if clock is not None:
        chunks[RowClock.PREFIX + by] = clock
    low = ZoneProgress.load(state).low
    rows = pa.record_batch(
        {
            "key": pa.array(list(chunks), pa.string()),
            "body": pa.array([encode_chunk(chunk) for chunk in chunks.values()], pa.binary()),
        }
    )
    queries = [
        chunk.filter(pa.array(np.isin(chunk.column("number").to_numpy(), given)))
        for chunk in (state.rows(key) for key in state.keys(control.PREFIX))
        if chunk is not None
    ]
    out = [
        interest.message(interest.QUERIES, interest.RENDEZVOUS, other, pa.concat_batches(queries), low=low),
        interest.message(interest.CHUNKS, interest.RENDEZVOUS, other, rows),
    ]
    items = ItemStore(state).copy(low, needed)
    return (
        out if items is None else [*out, interest.message(interest.STORED, interest.RENDEZVOUS, other, items)]
    )


def own_queries(state: State, space: CoordinateSpace, zone: int) -> list[Packet]:
    """Returns the queries of a state that belong to a zone of this space, and all that is known of them."""
    numbers: dict[str, list[int]] = {}
    for key in state.keys(control.PREFIX):
        rows = state.rows(key)
        assert rows is not None
        specs = rows.column("spec").to_pylist()
        own = space.owners_of_specs(specs) == zone
        for index in np.flatnonzero(own).tolist():
            numbers.setdefault(json.dumps(json.loads(specs[index])["by"]), []).append(
                rows.column("number")[index].as_py()
            )
    return [
        packet
        for by, given in numbers.items()
        for packet in _query_packets(state, zone, np.array(sorted(given), np.int64), by)
    ]


def receive_queries(state: State, packets: Sequence[Packet]) -> int:
    """Adds the queries that another zone gives, after its table of splits. Returns how many."""
    count = 0
    for packet in packets:
        if interest.is_message(packet, interest.QUERIES):
            count += packet.rows.num_rows
            control.apply(state, [Packet(packet.stage, packet.zone, Kind.ACTIVATE, packet.rows)])
            progress = ZoneProgress.load(state)
            replace(progress, low=min(progress.low, packet.facts["low"])).save(state)
        elif interest.is_message(packet, interest.CHUNKS):
            for key, body in zip(packet.column("key").to_pylist(), packet.column("body"), strict=True):
                chunk = decode_chunk(body.as_py())
                assert isinstance(chunk, dict)
                if key.startswith(RowClock.PREFIX):
                    add_row_clock(state, key, chunk)
                else:
                    add_queries(state, key, chunk)
        elif interest.is_message(packet, interest.STORED):
            ItemStore(state).add_missing(packet.rows)
    return count
