"""Second stage: the queries whose points lie in this zone's cells, and the candidates of each.

It gets control and progress from order, and from the homes the items that this zone is interested in and how
many passed by. It sends rows of the result table to delivery, and to the homes the cells of interest as they
changed (back packets, which take effect in the next batch). It never looks at an item that no ball of its
queries reaches, except to count it.

Departures happen up to the time of the last item, not up to the progress of time: with lateness the two
differ, and a cancellation that lies between them is announced only with the first item after it.

The result table has `subscription, at, op, id, distance` and the item's columns as `item.<name>`. `at` is the
time of the arrival that caused the row or the moment at which the window let an item go; where the stream has
no time, the number of the arrival. The rows of a subscription are in order: moment after moment; at one
moment first those that stop being one of the k nearest, nearest first, then those that become one, nearest
first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.arrow_columns import ARROW_TYPES, subscription_column
from anabranch.chain.balance import HURRY, Patience, asked, note_work
from anabranch.chain.packets import DELIVER, Kind, Packet
from anabranch.chain.stages import Stage
from anabranch.chain.state import State
from anabranch.families.nearest import candidates, interest
from anabranch.families.nearest import nearest_messages as m
from anabranch.families.nearest.batch import RendezvousBatch, ZoneProgress
from anabranch.families.nearest.candidates import ChunkUpdate
from anabranch.families.nearest.interest import Merger, OwnMerger, QueryBalls
from anabranch.families.nearest.item_store import ItemStore
from anabranch.families.nearest.kernels.skyband import PLUS, Log
from anabranch.families.nearest.nearest_messages import Inbox
from anabranch.families.nearest.query_groups import QueryGroup
from anabranch.families.nearest.rebalance import give_queries, receive_queries, receive_splits
from anabranch.families.nearest.space import (
    By,
    CoordinateSpace,
    activate_own,
    load_space,
    remove_others,
    save_space,
    space_of,
)
from anabranch.families.results import SUBSCRIPTION
from anabranch.model.arrays import Array, Ints32
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time

TABLE = "nearest"
#: Moments that no integer can say, of windows like RANGE 2.5 over an integer time; `at` is then rounded down.
EXACT_AT = "at.exact"
#: The prefix of an item's columns.
ITEM = "item."

Updates = list[tuple[QueryGroup, ChunkUpdate]]


class Rendezvous(Stage):
    name = "rendezvous"

    def __init__(self, stream: Stream, zones: int, patience: Patience) -> None:
        self.stream, self.zones, self.patience = stream, zones, patience

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        inbox = Inbox.of(packets)
        out, space = self._space(zone, state, inbox)
        if space is None:  # no item yet: to whom queries belong is open
            control.apply(state, inbox.controls)
            return out
        space, received = self._receive(zone, state, space, packets)
        activated = activate_own(state, inbox.controls, space, zone)
        before = ZoneProgress.load(state)
        cancelled = _cancelled(state, inbox)
        progress = inbox.progress or before.stream
        counters = {m.QUERY_ACTIVATION: activated, m.QUERY_CANCELLATION: len(cancelled)}
        if before.stream != progress or inbox.items or activated or cancelled or received:
            batch = RendezvousBatch(self.stream, state, inbox, progress, before)
            out += self._update(zone, state, space, batch, cancelled, counters)
        control.apply(state, [packet for packet in inbox.controls if packet.kind is Kind.CANCEL])
        out += self._balance(zone, state, space, inbox, counters, packets)
        return out + m.counters_note(self.name, zone, counters)

    def _space(self, zone: int, state: State, inbox: Inbox) -> tuple[list[Packet], CoordinateSpace | None]:
        """Returns the space, as soon as there are items; zone 0 tells the homes."""
        space = load_space(state, self.stream, self.zones)
        if space is not None or not inbox.extents:
            return [], space
        save_space(state, space_of(self.stream, inbox.extents, self.zones))
        space = load_space(state, self.stream, self.zones)
        assert space is not None
        remove_others(state, space, zone)
        if zone != 0:
            return [], space
        bounds = {name: list(pair) for name, pair in space.bounds.items()}
        return [m.message(m.SPACE, m.HOME, home, bounds=bounds) for home in range(self.zones)], space

    # work that is shared between zones

    def _receive(
        self, zone: int, state: State, space: CoordinateSpace, packets: Sequence[Packet]
    ) -> tuple[CoordinateSpace, int]:
        """Returns the space with a new table of splits, if one came, and how many queries this zone got by
        it.
        """
        if not receive_splits(state, packets):
            return space, 0
        now = load_space(state, self.stream, self.zones)
        assert now is not None
        remove_others(state, now, zone)
        return now, receive_queries(state, packets)

    def _balance(
        self,
        zone: int,
        state: State,
        space: CoordinateSpace,
        inbox: Inbox,
        counters: dict[str, int],
        packets: Sequence[Packet],
    ) -> list[Packet]:
        """Tells what this zone had to do, when it is time; and gives queries away, if it is told to."""
        if self.zones == 1:
            return []
        out: list[Packet] = []
        if inbox.progress is not None:
            items = sum(rows.num_rows for rows in inbox.items)
            work = items + len(control.queries(state)) + counters.get(m.NOTIFY_OWNER, 0)
            requested = asked(packets)
            if due := note_work(state, HURRY if requested else self.patience, work):
                out.append(m.message(m.WORK, m.HOME, 0, zone=zone, work=due, requested=requested))
        for packet in packets:
            if m.is_message(packet, m.DIVIDE):
                out += give_queries(state, space, zone, packet.facts["other"], packet.facts["share"])
        return out

    # a batch

    def _update(
        self,
        zone: int,
        state: State,
        space: CoordinateSpace,
        batch: RendezvousBatch,
        cancelled: dict[int, control.Cancelled],
        counters: dict[str, int],
    ) -> list[Packet]:
        """Brings the queries up to date with what arrived.

        `low` is the oldest item that may still be inserted when a ball grows. Homes hear of it in the
        next batch; until then they send items as old as the `low` they know, if a ball that grew just now
        reaches them, so this zone's buffer is kept that long.
        """
        bys = dict.fromkeys([*(group.by for group in batch.groups), *interest.merger_columns(state)])
        number = batch.progress.number
        own = {by: OwnMerger(state, by, space.grid(by).grid, number) for by in bys}
        updates, parts = _update_candidates(state, batch, own, cancelled)
        out = [result_packet(self.stream, parts, batch.store)] if parts else []
        counters[m.NOTIFY_OWNER] = sum(int(np.count_nonzero(part.log.op == PLUS)) for part in parts)
        low = max(min([number, *(update.low for _, update in updates)]), batch.before.low)
        kept = min([low, *(mine.sent.low for mine in own.values() if mine.sent.want == interest.CELLS)])
        counters[m.MERGER_UPDATE] = 0
        for by, mine in own.items():
            members = [(group, update) for group, update in updates if group.by == by]
            if members and not cancelled and not mine.needs_balls:
                continue
            wanted, balls = _wanted(by, members, batch, low, cancelled)
            change = mine.update(wanted, balls, batch.arrived, batch.next_progress())
            if change is not None:
                homes = space.grid(by).zone_of
                counters[m.MERGER_UPDATE] += interest.count_informed(mine.sent, *change, homes, zone)
                out += self._merger_packets(zone, *change)
        self._clean_up(state, batch.store, updates, kept)
        batch.save_clocks(kept)
        ZoneProgress(batch.progress, kept).save(state)
        return out

    def _merger_packets(self, zone: int, merger: Merger, toggled: Ints32) -> list[Packet]:
        """Returns what this zone tells the homes about one of its mergers."""
        rows, facts = interest.toggled_rows(toggled), merger.facts() | {"zone": zone}
        return [m.message(m.MERGER, m.HOME, home, rows, **facts) for home in range(self.zones)]

    def _clean_up(self, state: State, store: ItemStore, updates: Updates, low: int) -> None:
        candidates.drop_unused(state, {update.chunk.key for _, update in updates})
        store.drop_before(min([low, *(update.oldest for _, update in updates)]))
        store.clean_up(low, lambda: candidates.candidate_numbers(state))


def _cancelled(state: State, inbox: Inbox) -> dict[int, control.Cancelled]:
    """Returns the queries of this zone that are cancelled in this batch, by number."""
    active = control.queries(state)
    return {
        query.number: query
        for packet in inbox.controls
        if packet.kind is Kind.CANCEL
        for query in control.cancelled(packet)
        if query.number in active
    }


def _update_candidates(
    state: State, batch: RendezvousBatch, own: dict[By, OwnMerger], cancelled: dict[int, control.Cancelled]
) -> tuple[Updates, list[ResultPart]]:
    updates: Updates = []
    parts: list[ResultPart] = []
    for group in batch.groups:
        boxes, bound = batch.boxes(group.by), batch.bound(group)
        cancellations, needs_balls = batch.cancellations(group, cancelled), own[group.by].needs_balls
        in_balls = candidates.items_in_all_balls(
            state, group, batch.position(group.by), boxes, batch.first_new
        )
        for chunk, found in zip(group.chunks, in_balls, strict=True):
            items = batch.items(group, chunk)
            update = candidates.update(
                state, group, chunk, items, boxes, found, bound, cancellations, needs_balls
            )
            updates.append((group, update))
            if len(update.log.op):
                at = batch.times_at(group, update.log.moment)
                parts.append(ResultPart(chunk.names, update.log, at, group.unit == "fraction"))
    return updates, parts


def _wanted(
    by: By, members: Updates, batch: RendezvousBatch, low: int, cancelled: Collection[int]
) -> tuple[Merger, QueryBalls]:
    """Returns the merger of the queries that go on: their balls, and until when all of them have their
    guards.
    """
    numbers, points, radii = [], [], []
    end_item: int | None = None
    end_time: Time | None = None
    counts = False
    for group, update in members:
        stays = np.ones(len(update.chunk.numbers), np.bool_)
        if cancelled:
            stays = ~np.isin(update.chunk.numbers, list(cancelled))
        if not stays.any():
            continue
        numbers.append(update.chunk.numbers[stays])
        points.append(update.chunk.point[stays])
        radii.append(update.radius[stays])
        until = update.until[stays & (update.radius < math.inf) & (update.until < group.never)]
        if not len(until):
            continue
        soonest = until.min().item()
        if group.by_rows:
            spare = batch.progress.number + int(soonest) - batch.row_clock(by).stop
            end_item = spare if end_item is None else min(end_item, spare)
            counts = True
        else:
            end_time = soonest if end_time is None else min(end_time, soonest)
    if not numbers:
        return Merger(by), QueryBalls.none(by)
    order = np.argsort(np.concatenate(numbers))
    balls = QueryBalls(
        np.concatenate(numbers)[order], np.concatenate(points)[order], np.concatenate(radii)[order]
    )
    return Merger(by, interest.CELLS, low, end_item, end_time, counts), balls


# results


@dataclass(frozen=True)
class ResultPart:
    """The results of one query chunk; `at` are its moments as times, `names` its subscriptions."""

    names: pa.StringArray
    log: Log
    at: Array
    exact: bool = False  # `at` are fractions where the stream's time has none


def at_type(stream: Stream) -> ColumnType:
    return ColumnType.INT if stream.time_type is None else stream.time_type


def result_packet(stream: Stream, parts: Sequence[ResultPart], store: ItemStore) -> Packet:
    """Returns the rows of all parts, of which there must be at least one."""
    codes, before = [], 0
    for part in parts:
        codes.append(part.log.query + before)
        before += len(part.names)
    names = pa.concat_arrays([part.names for part in parts])
    numbers = _joined([part.log.number for part in parts])
    items = store.take(numbers)
    at = _joined([np.floor(part.at).astype(np.int64) if part.exact else part.at for part in parts])
    ops = pa.array(_joined([part.log.op for part in parts]))
    columns = {
        SUBSCRIPTION: subscription_column(names, _joined(codes)),
        "at": _time_column(stream, at),
        "op": pa.DictionaryArray.from_arrays(ops, _OPS),
        "id": pa.array(numbers) if stream.id is None else items.column(stream.id),
        "distance": pa.array(_joined([part.log.dist for part in parts])),
    }
    if any(part.exact for part in parts):
        columns[EXACT_AT] = pa.array(_joined([part.at.astype(np.float64) for part in parts]))
    for column in stream.columns:
        columns[ITEM + column.name] = items.column(column.name)
    return Packet(DELIVER, 0, Kind.RESULT, pa.record_batch(columns), {"table": TABLE})


#: By kernels.skyband.MINUS and PLUS.
_OPS = pa.array(["-", "+"], pa.string())


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _time_column(stream: Stream, at: Array) -> pa.Array:
    kind = ARROW_TYPES[at_type(stream)]
    if pa.types.is_timestamp(kind):
        return pa.array(at, pa.int64()).cast(kind)
    return pa.array(at, kind)
