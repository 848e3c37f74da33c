"""One batch as a rendezvous zone sees it: the recent items and the new ones as arrays for the kernel, and
where the clocks of the queries stand.

Columns, clocks and boxes are computed once for all query groups that share them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from anabranch.chain.arrow_columns import floats_of, numbers_of, times_of
from anabranch.chain.control import Cancelled
from anabranch.chain.state import Arrays, State
from anabranch.families.nearest.candidates import Cancellations
from anabranch.families.nearest.item_store import ItemStore
from anabranch.families.nearest.kernels.arrays import Items, Moments
from anabranch.families.nearest.kernels.item_boxes import BLOCK, ItemBoxes, boxes_of
from anabranch.families.nearest.nearest_messages import Inbox, StreamProgress
from anabranch.families.nearest.query_groups import EXACT, QueryChunk, QueryGroup, groups_of
from anabranch.families.nearest.space import By
from anabranch.model.arrays import Array, Bools, Floats, Ints
from anabranch.model.stream import NUMBER, Stream, Time
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.terms import Term, to_json

#: Before all times, and so that a window's length can be taken from it.
_LONG_AGO = -(1 << 61)

#: Batches with fewer items have blocks that are too small to be kept.
_LEAST_KEPT = 2048


@dataclass(frozen=True)
class ZoneProgress:
    """Where a zone stands after a batch. `low` is the number of the oldest item still in its buffer."""

    stream: StreamProgress = field(default_factory=StreamProgress)
    low: int = 0

    KEY = "progress"

    @classmethod
    def load(cls, state: State) -> ZoneProgress:
        facts = state.get_json(cls.KEY)
        return cls() if facts is None else cls(StreamProgress(*facts[:3]), facts[3])

    def save(self, state: State) -> None:
        stream = self.stream
        state.put_json(self.KEY, [stream.number, stream.last, stream.ended, self.low])


class RendezvousBatch:
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
            )
        items = self._items[key]
        if not chunk.conditions:
            return items
        return items._replace(mask=np.stack([self._mask(condition) for condition in chunk.conditions]))

    def position(self, by: By) -> Floats:
        """Returns the coordinates of the items, [d, n]."""
        if by not in self._positions:
            columns = [self.recent.column(name, partial(floats_of, name=name)) for name in by]
            self._positions[by] = np.stack(columns).astype(np.float64, copy=False)
        return self._positions[by]

    def boxes(self, by: By) -> ItemBoxes:
        if by not in self._boxes:
            many = self._queries[by] > len(self.numbers) - self.first_new
            self._boxes[by] = kept_boxes(
                self.state, by, self.numbers, self.position(by), self.first_new, many
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


# the clock of ROWS windows


@dataclass(frozen=True)
class Arrivals:
    """The new items of a batch, by number: all of them, whether they are known here or only passed by."""

    numbers: Ints
    times: Array  # or the numbers again, where the stream has no time
    present: dict[By, Bools]  # whether an item has all these coordinates


class RowClock:
    """The clock of ROWS windows for one tuple of columns: how many items with all coordinates came before.

    That count is an item's *ordinal*: its number less the items without coordinates up to it. Those are few,
    so only they are stored, and of them only the ones among recent items.

        numbers            0  1  2  3  4  5  6         1 and 4 lack a coordinate
        ordinals           0  0  1  2  2  3  4         theirs are those of the item before

    Items that passed while there was no query are not known here, and count as items without coordinates.
    """

    PREFIX = "clock/"

    def __init__(self, state: State, by: By, arrivals: Arrivals, first_new: int, stop: int) -> None:
        """`first_new` is the number of the first new item, `stop` that of the next batch's first."""
        self.state, self.key = state, self.PREFIX + json.dumps(by)
        stored = state.get(self.key)
        self._lost = int(stored["lost"][0]) if stored is not None else 0
        before = stored["missing"] if stored is not None else np.empty(0, np.int64)
        present = arrivals.present[by]
        self.numbers = arrivals.numbers[present]
        start = int(arrivals.numbers[0]) if len(arrivals.numbers) else stop
        self._lost += start - first_new
        unknown = self.numbers[:0]
        if len(self.numbers) < stop - start:
            unknown = np.setdiff1d(np.arange(start, stop), self.numbers)
        self._missing = np.r_[before, unknown]
        self._changed = stored is None or start > first_new or len(unknown) > 0
        self.first = int(start - self._lost - len(before))
        self._times = arrivals.times[present]

    def of(self, numbers: Ints) -> Ints:
        """Returns the ordinals of items."""
        return np.asarray(
            numbers - self._lost - np.searchsorted(self._missing, numbers, side="right"), np.int64
        )

    @property
    def stop(self) -> int:
        """The ordinal of the next item."""
        return self.first + len(self.numbers)

    def before(self, number: int) -> int:
        """Returns the ordinal of the first item with at least this number, if it is new."""
        return self.first + int(np.searchsorted(self.numbers, number))

    def times(self, ordinals: Moments) -> Array:
        """Returns the times at which the items with these ordinals, all of them new, arrived."""
        return np.asarray(self._times[ordinals.astype(np.int64, copy=False) - self.first])

    def save(self, low: int) -> None:
        """Stores the clock for the next batch, in which items with number >= low may still be needed."""
        old = int(np.searchsorted(self._missing, low))
        if old or self._changed:
            arrays = {"lost": np.array([self._lost + old], np.int64), "missing": self._missing[old:]}
            self.state.put(self.key, arrays)


def add_row_clock(state: State, key: str, clock: Arrays) -> None:
    """Takes over a clock from another zone, if it reaches back farther than the one that is here."""
    stored = state.get(key)
    if stored is None or clock["lost"][0] < stored["lost"][0]:
        state.put(key, clock)


# boxes of earlier batches


@dataclass(frozen=True)
class _KeptBoxes:
    """The boxes of one batch; its first item has the index `origin` in them."""

    numbers: Ints
    origin: int
    boxes: ItemBoxes


def kept_boxes(
    state: State, by: By, numbers: Ints, position: Floats, first_new: int, many: bool
) -> ItemBoxes:
    """Returns the boxes of the items from `first_new` on and, if there are many queries, of those before that
    a worker has kept from earlier batches. Items in no box are looked at one by one, so results do not depend
    on it.

    When a ball grows, what waits beyond it is looked for in the whole buffer. With thousands of queries some
    do in every batch, and boxes of the buffer are worth the copies that put them side by side.

    numbers: [n], ascending; position: [d, n]
    """
    new = boxes_of(position, first_new, BLOCK)
    kept: list[_KeptBoxes] = state.cached(f"boxes {by}", [], list)
    if not many or len(numbers) - first_new < _LEAST_KEPT:
        kept.clear()
        return new
    before = _adjoining(kept, numbers, first_new)
    kept[:] = [*(one for _, one in before), _KeptBoxes(numbers[first_new:].copy(), first_new, new)]
    return _side_by_side(before, new) if before else new


def _adjoining(kept: list[_KeptBoxes], numbers: Ints, first_new: int) -> list[tuple[int, _KeptBoxes]]:
    """Returns those that hold all items before `first_new` from some index on, with that index, oldest first.

    Items may have come to be known late, or by another worker: what does not match ends the row.
    """
    out: list[tuple[int, _KeptBoxes]] = []
    stop = first_new
    for one in reversed(kept):
        first = max(0, stop - len(one.numbers))
        if stop == 0 or not np.array_equal(numbers[first:stop], one.numbers[first - stop :]):
            if out or stop == 0:
                break
            continue  # of a batch that is run again
        out.append((first, one))
        stop = first
    return out[::-1]


def _side_by_side(before: list[tuple[int, _KeptBoxes]], new: ItemBoxes) -> ItemBoxes:
    """Returns one set of boxes, with the items' indices as they are now."""
    parts, starts = [], []
    for part, (first, one) in enumerate(before):
        after = before[part + 1][0] if part + 1 < len(before) else int(new.start[0])
        shift = after - len(one.numbers) - one.origin
        item = one.boxes.item + shift
        item[(one.boxes.item < 0) | (item < first)] = -1
        parts.append(one.boxes._replace(item=item))
        starts.append(np.maximum(first, one.boxes.start[:-1] + shift))
    parts.append(new)
    starts.append(new.start)
    _, *arrays = zip(*parts, strict=True)
    return ItemBoxes(np.concatenate(starts), *(_stacked(list(of_parts)) for of_parts in arrays))


def _stacked(parts: list[Array]) -> Array:
    """Returns all blocks in one array. Some have fewer leaves; what is added for them is never read."""
    shape = np.max([part.shape for part in parts], axis=0)
    out = np.empty((sum(len(part) for part in parts), *shape[1:]), parts[0].dtype)
    first = 0
    for part in parts:
        out[(slice(first, first + len(part)), *(slice(size) for size in part.shape[1:]))] = part
        first += len(part)
    return out
