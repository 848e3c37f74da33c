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

import json
import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.chain import control
from anabranch.chain.balance import HURRY, Patience, asked, note_work
from anabranch.chain.control import Cancelled
from anabranch.chain.items import ARROW_TYPES, floats_of, numbers_of, subscription_column, times_of
from anabranch.chain.packets import DELIVER, EMPTY, Kind, Packet, message_note
from anabranch.chain.stages import RescalableStage
from anabranch.chain.state import State
from anabranch.families.nearest import interest, query_groups
from anabranch.families.nearest.interest import (
    Merger,
    OwnMerger,
    QueryBalls,
    StreamProgress,
    ZoneProgress,
    receive_splits,
)
from anabranch.families.nearest.item_store import Arrivals, ItemStore, RowClock
from anabranch.families.nearest.kernels.arrays import PLUS, Items, Log, Moments
from anabranch.families.nearest.kernels.item_boxes import ItemBoxes, kept_boxes
from anabranch.families.nearest.query_groups import (
    EXACT,
    Cancellations,
    ChunkUpdate,
    QueryChunk,
    QueryGroup,
    groups_of,
)
from anabranch.families.nearest.rebalance import give_queries, own_queries, receive_queries
from anabranch.families.nearest.space import (
    By,
    CoordinateSpace,
    Globe,
    activate_own,
    is_home_by_cell,
    load_space,
    points_of,
    remove_others,
    save_space,
    space_of,
)
from anabranch.families.results import SUBSCRIPTION
from anabranch.model.arrays import Array, Bools, Floats, Ints, Ints32
from anabranch.model.columns import ColumnType
from anabranch.model.stream import NUMBER, Stream, Time
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.terms import Term, to_json

TABLE = "nearest"
#: Moments that no integer can say, of windows like RANGE 2.5 over an integer time; `at` is then rounded down.
EXACT_AT = "at.exact"
#: The prefix of an item's columns.
ITEM = "item."

Updates = list[tuple[QueryGroup, ChunkUpdate]]


class Rendezvous(RescalableStage):
    name = "rendezvous"

    def __init__(self, stream: Stream, zones: int, patience: Patience) -> None:
        self.stream, self.zones, self.patience = stream, zones, patience
        self.at_type = ARROW_TYPES[at_type(stream)]

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        inbox = Inbox.of(packets)
        known = load_space(state, self.stream, self.zones) is not None
        out, space = self._space(zone, state, inbox)
        if space is None:  # no item yet: to whom queries belong is open
            control.apply(state, inbox.controls)
            return out
        space, received = self._receive(zone, state, space, packets)
        waited = 0 if known else len(control.queries(state))
        activated = waited + activate_own(state, inbox.controls, space, zone)
        before = ZoneProgress.load(state)
        cancelled = _cancelled(state, inbox)
        progress = inbox.progress or before.stream
        counters = {interest.QUERY_ACTIVATION: activated, interest.QUERY_CANCELLATION: len(cancelled)}
        if before.stream != progress or inbox.items or activated or cancelled or received:
            batch = RendezvousBatch(self.stream, state, inbox, progress, before)
            out += self._update(zone, state, space, batch, cancelled, counters)
        control.apply(state, [packet for packet in inbox.controls if packet.kind is Kind.CANCEL])
        out += self._balance(zone, state, space, inbox, counters, packets)
        return out + message_note(self.name, zone, counters)

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
        return [
            interest.message(interest.SPACE, interest.HOME, home, bounds=bounds) for home in range(self.zones)
        ], space

    # work that is shared between zones

    def rezoned(self, zone: int, before: Sequence[State]) -> State:
        space = load_space(before[0], self.stream, len(before))
        if space is None:
            return before[0].copy()  # no item yet: every zone has all queries
        state = State()
        now = CoordinateSpace(self.stream, space.bounds, self.zones)
        save_space(state, now)
        stands = max((ZoneProgress.load(old).stream for old in before), key=lambda stream: stream.number)
        ZoneProgress(stands, stands.number).save(state)
        for old in before:
            receive_queries(state, own_queries(old, now, zone))
        return state

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
            work = items + len(control.queries(state)) + counters.get(interest.NOTIFY_OWNER, 0)
            requested = asked(packets)
            if due := note_work(state, HURRY if requested else self.patience, work):
                out.append(
                    interest.message(
                        interest.WORK, interest.HOME, 0, zone=zone, work=due, requested=requested
                    )
                )
        for packet in packets:
            if interest.is_message(packet, interest.DIVIDE):
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
        out = [result_packet(self.stream, self.at_type, parts, batch.store)] if parts else []
        counters[interest.NOTIFY_OWNER] = sum(int(np.count_nonzero(part.log.op == PLUS)) for part in parts)
        low = max(min([number, *(update.low for _, update in updates)]), batch.before.low)
        kept = min([low, *(mine.sent.low for mine in own.values() if mine.sent.want == interest.CELLS)])
        counters[interest.MERGER_UPDATE] = counters[interest.LIMIT_RENEWAL] = 0
        for by, mine in own.items():
            members = [(group, update) for group, update in updates if group.by == by]
            if members and not cancelled and not mine.needs_balls:
                continue
            wanted, balls = _wanted(by, members, batch, low, cancelled)
            change = mine.update(wanted, balls, batch.arrived, batch.next_progress())
            if change is not None:
                out += self._merger_packets(zone, space, mine.sent, *change, counters)
        self._clean_up(state, batch.store, updates, kept)
        batch.save_clocks(kept)
        ZoneProgress(batch.progress, kept).save(state)
        return out

    def _merger_packets(
        self,
        zone: int,
        space: CoordinateSpace,
        before: Merger,
        merger: Merger,
        toggled: Ints32,
        counters: dict[str, int],
    ) -> list[Packet]:
        """Returns what this zone tells the homes about one of its mergers: to each which of its own cells
        changed sides, where items go home by these cells; nothing, if it knows all already.
        """
        zone_of = space.grid(merger.by).zone_of if is_home_by_cell(self.stream, merger.by) else None
        facts = merger.facts() | {"zone": zone}
        out = []
        for home in range(self.zones):
            cells = toggled if zone_of is None else toggled[zone_of[toggled] == home]
            update = len(cells) > 0 or merger.want != before.want
            if not update and merger == before:
                continue
            rows = interest.toggled_rows(cells) if len(cells) else EMPTY
            out.append(interest.message(interest.MERGER, interest.HOME, home, rows, **facts))
            name = interest.MERGER_UPDATE if update else interest.LIMIT_RENEWAL
            counters[name] += home != zone
        return out

    def _clean_up(self, state: State, store: ItemStore, updates: Updates, low: int) -> None:
        query_groups.drop_unused(state, {update.chunk.key for _, update in updates})
        store.drop_before(min([low, *(update.oldest for _, update in updates)]))
        store.clean_up(low, lambda: query_groups.candidate_numbers(state))


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
        in_balls = query_groups.items_in_all_balls(
            state, group, batch.position(group.by), boxes, batch.first_new
        )
        for chunk, found in zip(group.chunks, in_balls, strict=True):
            items = batch.items(group, chunk)
            update = query_groups.update_candidates(
                state, group, chunk, items, boxes, found, bound, cancellations, needs_balls
            )
            updates.append((group, update))
            if len(update.log.op):
                at = batch.times_at(group, update.log.moment)
                far = update.log.dist if group.globe is None else group.globe.distances(update.log.dist)
                parts.append(ResultPart(chunk.names, update.log, at, far, group.unit == "fraction"))
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


@dataclass
class Inbox:
    """What a step of rendezvous gets, sorted by what it is."""

    progress: StreamProgress | None
    controls: list[Packet] = field(default_factory=list)  # ACTIVATE and CANCEL, in order
    items: list[pa.RecordBatch] = field(default_factory=list)
    passed: list[Packet] = field(default_factory=list)
    extents: list[dict[str, Any]] = field(default_factory=list)

    @staticmethod
    def of(packets: Sequence[Packet]) -> Inbox:
        inbox = Inbox(StreamProgress.of(packets))
        for packet in packets:
            if packet.kind in (Kind.ACTIVATE, Kind.CANCEL):
                inbox.controls.append(packet)
            elif interest.is_message(packet, interest.ITEMS):
                inbox.items.append(packet.rows)
            elif interest.is_message(packet, interest.PASSED):
                inbox.passed.append(packet)
            elif interest.is_message(packet, interest.EXTENT):
                inbox.extents.append(packet.facts["extent"])
        return inbox


#: A buffer keeps no more items than this for those that wait, unless the stream says otherwise.
MOST_RECENT = 32768

#: Before all times, and so that a window's length can be taken from it.
_LONG_AGO = -(1 << 61)


class RendezvousBatch:
    """One batch as a rendezvous zone sees it: the recent items and the new ones as arrays for the kernel, and
    where the clocks of the queries stand. Columns, clocks and boxes are computed once for all query groups
    that share them.
    """

    def __init__(
        self, stream: Stream, state: State, inbox: Inbox, progress: StreamProgress, before: ZoneProgress
    ) -> None:
        self.stream, self.state, self.before, self.progress = stream, state, before, progress
        self.store = ItemStore(state)
        rows = _by_number(inbox.items)
        if rows is not None and numbers_of(rows)[0] < before.stream.number:
            self.store.add_missing(rows)  # another zone may have brought some
        elif rows is not None:
            self.store.add(rows)
        self.recent = self.store.recent(before.low)
        self.numbers: Ints = _writable(self.recent.number.astype(np.int64, copy=False))
        self.first_new = int(np.searchsorted(self.numbers, before.stream.number))
        self.late = self._late(rows)
        self.arrived = progress.number - before.stream.number
        self.groups = groups_of(state, stream, self._is_wide())
        self._positions: dict[By, Floats] = {}
        self._clocks: dict[tuple[By, str], Moments] = {}
        self._boxes: dict[By, ItemBoxes] = {}
        self._items: dict[tuple[By, str], Items] = {}
        self._queries = Counter[By]()
        for group in self.groups:
            self._queries[group.by] += sum(len(chunk.numbers) for chunk in group.chunks)
        counted = dict.fromkeys(group.by for group in self.groups if group.by_rows)
        arrivals = self._arrivals(inbox, list(counted)) if counted else None
        self._row_clocks = {
            by: RowClock(state, by, arrivals, before.stream.number, progress.number)
            for by in counted
            if arrivals is not None
        }

    def next_progress(self) -> StreamProgress:
        """Returns where the stream may stand after the next batch, if it is at most twice as long as this
        one.
        """
        last, before = self.progress.last, self.before.stream.last
        ahead = None if last is None else last + (2 * (last - before) if before is not None else 0)
        return StreamProgress(self.progress.number + 2 * self.arrived, ahead)

    def _late(self, rows: pa.RecordBatch | None) -> Ints:
        """Returns the indices of items that are known only now, though they are from an earlier batch."""
        if rows is None:
            return np.empty(0, np.int64)
        numbers = numbers_of(rows)
        late = numbers[(numbers < self.before.stream.number) & (numbers >= self.before.low)]
        return np.searchsorted(self.numbers, late).astype(np.int64)

    def _is_wide(self) -> bool:
        """Returns whether some time may not fit into a float64 together with a window."""
        if self.stream.time is None:
            return False
        times = self._times
        ends = [self.before.stream.last, self.progress.last, *times[:1].tolist(), *times[-1:].tolist()]
        return any(abs(time) >= EXACT for time in ends if time is not None)

    # arrays for the kernel

    def items(self, group: QueryGroup, chunk: QueryChunk) -> Items:
        key = (group.by, group.unit)
        if key not in self._items:
            self._items[key] = Items(
                self.position(group.by),
                self.numbers,
                self._clock(group),
                np.empty((0, len(self.numbers)), np.bool_),
                self.first_new,
                self.late,
                group.dtype.type(self._clock_before(group)),
                int(group.by_rows),
                group.never,
                self.stream.nearest_buffer or MOST_RECENT,
                float(self.stream.nearest_gamma),
            )
        items = self._items[key]
        if not chunk.conditions:
            return items
        return items._replace(mask=np.stack([self._mask(condition) for condition in chunk.conditions]))

    def position(self, by: By) -> Floats:
        """Returns the coordinates of the items, [d, n]."""
        if by not in self._positions:
            if Globe.of(self.stream, by) is None:
                columns = [self.recent.column(name, partial(floats_of, name=name)) for name in by]
                self._positions[by] = np.stack(columns).astype(np.float64, copy=False)
            else:
                places = self.recent.column(f"places {by}", lambda rows: points_of(self.stream, rows, by))
                self._positions[by] = np.ascontiguousarray(places.reshape(-1, 3).T)
        return self._positions[by]

    def boxes(self, by: By) -> ItemBoxes:
        if by not in self._boxes:
            many = self._queries[by] > len(self.numbers) - self.first_new
            self._boxes[by] = kept_boxes(
                self.state.cached(f"boxes {by}", [], list),
                self.numbers,
                self.position(by),
                self.first_new,
                many,
            )
        return self._boxes[by]

    def _mask(self, condition: Term) -> Bools:
        name = json.dumps(to_json(condition))
        return self.recent.column(name, lambda rows: evaluate(condition, rows)).astype(np.bool_, copy=False)

    @cached_property
    def _times(self) -> Array:
        return self.recent.column("#time", lambda rows: times_of(rows, self.stream))

    # clocks

    def _arrivals(self, inbox: Inbox, counted: list[By]) -> Arrivals:
        """Returns all new items, whether they are known here or only passed by, by number."""
        new = slice(self.first_new, None)
        numbers = [self.numbers[new]]
        times = [numbers[0] if self.stream.time is None else self._times[new]]
        present: dict[By, list[Array]] = {
            by: [np.asarray(~np.isnan(self.position(by)[:, new]).any(axis=0))] for by in counted
        }
        for packet in inbox.passed:
            numbers.append(numbers_of(packet.rows))
            times.append(numbers[-1] if self.stream.time is None else times_of(packet.rows, self.stream))
            known = [tuple(by) for by in packet.facts["by"]]
            for by in counted:
                if by in known:
                    present[by].append(np.asarray(packet.column(f"present{known.index(by)}")))
                else:
                    present[by].append(np.ones(len(numbers[-1]), np.bool_))
        if len(numbers) == 1:
            return Arrivals(numbers[0], times[0], {by: parts[0] for by, parts in present.items()})
        order = np.argsort(np.concatenate(numbers))
        return Arrivals(
            np.concatenate(numbers)[order],
            np.concatenate(times)[order],
            {by: np.concatenate(parts)[order] for by, parts in present.items()},
        )

    def row_clock(self, by: By) -> RowClock:
        return self._row_clocks[by]

    def _clock(self, group: QueryGroup) -> Moments:
        key = (group.by, group.unit)
        if key not in self._clocks:
            clock = self.row_clock(group.by).of(self.numbers) if group.by_rows else self._times
            self._clocks[key] = _writable(clock.astype(group.dtype, copy=False))
        return self._clocks[key]

    def _clock_before(self, group: QueryGroup) -> int | float:
        """Returns where the group's clock stood before this batch."""
        if group.by_rows:
            return self.row_clock(group.by).first - 1
        return _LONG_AGO if self.before.stream.last is None else self.before.stream.last

    def bound(self, group: QueryGroup) -> int | float:
        """Returns the moment before which all that is due has left when the batch is through. Arrivals at a
        time come before departures at that time, and more of them may follow, unless the stream has ended.
        """
        if group.by_rows:
            return self.row_clock(group.by).stop
        last = self.progress.last
        if last is None:
            return _LONG_AGO
        return _after(last, group) if self.progress.ended else last

    def cancellations(self, group: QueryGroup, cancelled: dict[int, Cancelled]) -> Cancellations:
        """Returns when the queries that are cancelled in this batch end: a departure at that time still
        counts.
        """
        end_item = {number: query.end_item for number, query in cancelled.items()}
        if group.by_rows:
            clock = self.row_clock(group.by)
            return Cancellations(end_item, {number: clock.before(item) for number, item in end_item.items()})
        moments = {
            number: _LONG_AGO if query.cancel is None else _after(query.cancel, group)
            for number, query in cancelled.items()
        }
        return Cancellations(end_item, moments)

    def times_at(self, group: QueryGroup, moments: Moments) -> Array:
        """Returns moments as times, or as item numbers where the stream has no time."""
        if group.by_rows:
            return self.row_clock(group.by).times(moments)
        return moments.astype(np.int64, copy=False) if group.whole else moments

    def save_clocks(self, low: int) -> None:
        """Stores the clocks for the next batch, in which items with number >= low may still be needed."""
        for clock in self._row_clocks.values():
            clock.save(low)
        for key in self.state.keys(RowClock.PREFIX):
            if tuple(json.loads(key.removeprefix(RowClock.PREFIX))) not in self._row_clocks:
                self.state.drop(key)


def _writable(column: Array) -> Array:
    """Returns an array that can be written to: a read-only one, as Arrow lends it, is of another type to a
    kernel, which would be compiled twice.
    """
    return column if column.flags.writeable else column.copy()


def _after(moment: Time, group: QueryGroup) -> Time:
    """Returns the next moment that differs from this one."""
    return int(moment) + 1 if group.whole else math.nextafter(moment, math.inf)


def _by_number(parts: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Returns what the homes sent, in one piece and in stream order."""
    parts = [part for part in parts if part.num_rows]
    if not parts:
        return None
    rows = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
    numbers = rows.column(NUMBER).to_numpy()
    if (np.diff(numbers) < 0).any():
        rows = rows.take(pa.array(np.argsort(numbers)))
    return rows


# results


@dataclass(frozen=True)
class ResultPart:
    """The results of one query chunk; `at` are its moments as times, `names` its subscriptions."""

    names: pa.StringArray
    log: Log
    at: Array
    distance: Floats
    exact: bool = False  # `at` are fractions where the stream's time has none


def at_type(stream: Stream) -> ColumnType:
    return ColumnType.INT if stream.time_type is None else stream.time_type


def result_packet(
    stream: Stream, at_type: pa.DataType, parts: Sequence[ResultPart], store: ItemStore
) -> Packet:
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
        "at": _time_column(at_type, at),
        "op": pa.DictionaryArray.from_arrays(ops, _OPS),
        "id": pa.array(numbers) if stream.id is None else items.column(stream.id),
        "distance": pa.array(_joined([part.distance for part in parts])),
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


def _time_column(kind: pa.DataType, at: Array) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(at, pa.int64()).cast(kind)
    return pa.array(at, kind)
