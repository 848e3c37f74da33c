"""One batch as a rendezvous zone sees it: the recent items and the new ones as arrays, and where the
clocks stand.

In: the mail and the shelf. Out: what the kernel wants, group by group. Columns and grids are made once
for all groups that share them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from anabranch.families.nearest.blocks import boxes
from anabranch.families.nearest.candidates import Ending
from anabranch.families.nearest.clocks import Arrivals, Ordinals
from anabranch.families.nearest.groups import Group, Part
from anabranch.families.nearest.mail import Mail, Progress
from anabranch.families.nearest.shelf import Shelf
from anabranch.families.nearest.space import By
from anabranch.kernels.boxes import Boxes
from anabranch.kernels.nearest_arrays import Items
from anabranch.model.stream import NUMBER, Stream, Time
from anabranch.predicates.evaluate import evaluate
from anabranch.predicates.terms import Term, to_json
from anabranch.zones.columns import Array, floats_of, numbers_of, times_of
from anabranch.zones.queries import Ceased
from anabranch.zones.state import State

KEY = "known"

#: Before all times, and so that a window's length can be taken from it.
_LONG_AGO = -(1 << 61)


@dataclass(frozen=True)
class Known:
    """What a zone knows of the stream after a batch. `low` is the number of the oldest item that is still
    in the buffer.
    """

    progress: Progress = field(default_factory=Progress)
    low: int = 0

    @staticmethod
    def load(state: State) -> Known:
        held = state.get(KEY)
        if held is None:
            return Known()
        *progress, low = json.loads(bytes(held["json"]))
        return Known(Progress(*progress), low)

    def save(self, state: State) -> None:
        body = json.dumps([self.progress.number, self.progress.last, self.progress.ended, self.low]).encode()
        state.put(KEY, {"json": np.frombuffer(body, np.uint8)})


class Batch:
    def __init__(
        self, stream: Stream, state: State, mail: Mail, progress: Progress, known: Known, groups: list[Group]
    ) -> None:
        self.stream, self.state, self.known, self.progress = stream, state, known, progress
        self.shelf = Shelf(state)
        rows = _by_number(mail.items)
        if rows is not None and numbers_of(rows)[0] < known.progress.number:
            self.shelf.add_unknown(rows)  # another zone may have brought some
        elif rows is not None:
            self.shelf.add(rows)
        self.recent = self.shelf.recent(known.low)
        self.numbers = _own(self.recent.number.astype(np.int64, copy=False))
        self.fresh = int(np.searchsorted(self.numbers, known.progress.number))
        self.late = self._late(rows)
        self.arrived = progress.number - known.progress.number
        self._places: dict[By, Array] = {}
        self._clocks: dict[tuple[By, str], Array] = {}
        self._boxes: dict[By, Boxes] = {}
        self._asking = Counter[By]()  # queries
        for group in groups:
            self._asking[group.by] += sum(len(part.numbers) for part in group.parts)
        self._items: dict[tuple[By, str], Items] = {}
        counted = dict.fromkeys(group.by for group in groups if group.by_rows)
        arrivals = self._arrivals(mail, list(counted)) if counted else None
        self._ordinals = {
            by: Ordinals(state, by, arrivals, known.progress.number) for by in counted if arrivals is not None
        }

    def soon(self) -> Progress:
        """Where the stream may stand after the next batch, if it is at most twice as long as this one."""
        last, before = self.progress.last, self.known.progress.last
        ahead = None if last is None else last + (2 * (last - before) if before is not None else 0)
        return Progress(self.progress.number + 2 * self.arrived, ahead)

    def _late(self, rows: pa.RecordBatch | None) -> Array:
        """The places of items that came to be known only now, though they are from an earlier batch."""
        if rows is None:
            return np.empty(0, np.int64)
        numbers = numbers_of(rows)
        late = numbers[(numbers < self.known.progress.number) & (numbers >= self.known.low)]
        return np.searchsorted(self.numbers, late).astype(np.int64)

    def _arrivals(self, mail: Mail, counted: list[By]) -> Arrivals:
        """All new items, known or not, by number."""
        numbers = [self.numbers[self.fresh :]]
        times = [numbers[0] if self.stream.time is None else self._times()[self.fresh :]]
        present: dict[By, list[Array]] = {
            by: [np.asarray(~np.isnan(self.place(by)[:, self.fresh :]).any(axis=0))] for by in counted
        }
        for packet in mail.passed:
            numbers.append(numbers_of(packet.rows))
            times.append(numbers[-1] if self.stream.time is None else times_of(packet.rows, self.stream))
            told = [tuple(by) for by in packet.facts["by"]]
            for by in counted:
                here = (
                    packet.column(f"present{told.index(by)}")
                    if by in told
                    else pa.array([True] * len(numbers[-1]))
                )
                present[by].append(np.asarray(here))
        if len(numbers) == 1:
            return Arrivals(numbers[0], times[0], {by: parts[0] for by, parts in present.items()})
        order = np.argsort(np.concatenate(numbers))
        return Arrivals(
            np.concatenate(numbers)[order],
            np.concatenate(times)[order],
            {by: np.asarray(np.concatenate(parts)[order]) for by, parts in present.items()},
        )

    def _times(self) -> Array:
        return self.recent.column("#time", lambda rows: times_of(rows, self.stream))

    def ordinals(self, by: By) -> Ordinals:
        return self._ordinals[by]

    def place(self, by: By) -> Array:
        """The coordinates of the items, float64[d, n]."""
        if by not in self._places:
            columns = [self.recent.column(name, partial(floats_of, name=name)) for name in by]
            self._places[by] = np.stack(columns).astype(np.float64, copy=False)
        return self._places[by]

    def boxes(self, by: By) -> Boxes:
        if by not in self._boxes:
            many = self._asking[by] > len(self.numbers) - self.fresh
            self._boxes[by] = boxes(self.state, by, self.numbers, self.place(by), self.fresh, many)
        return self._boxes[by]

    def items(self, group: Group, part: Part) -> Items:
        place = (group.by, group.unit)
        if place not in self._items:
            self._items[place] = Items(
                self.place(group.by),
                self.numbers,
                self._clock(group),
                np.empty((0, len(self.numbers)), np.bool_),
                self.fresh,
                self.late,
                group.dtype.type(self._now(group)),
                int(group.by_rows),
            )
        items = self._items[place]
        if not part.conditions:
            return items
        return items._replace(mask=np.stack([self._mask(condition) for condition in part.conditions]))

    def _mask(self, condition: Term) -> Array:
        name = json.dumps(to_json(condition))
        return self.recent.column(name, lambda rows: evaluate(condition, rows)).astype(np.bool_, copy=False)

    def _clock(self, group: Group) -> Array:
        place = (group.by, group.unit)
        if place not in self._clocks:
            if group.by_rows:
                self._clocks[place] = self.ordinals(group.by).of(self.numbers)
            else:
                self._clocks[place] = _own(self._times().astype(group.dtype, copy=False))
        return self._clocks[place]

    def _now(self, group: Group) -> int | float:
        """Where the group's clock stood before this batch."""
        if group.by_rows:
            return self.ordinals(group.by).first - 1
        return _LONG_AGO if self.known.progress.last is None else self.known.progress.last

    def bound(self, group: Group) -> int | float:
        """What is due before this has left when the batch is through. Arrivals at a time come before
        departures at that time, and more of them may follow, unless the stream has ended.
        """
        if group.by_rows:
            return self.ordinals(group.by).stop
        last = self.progress.last
        if last is None:
            return _LONG_AGO
        return _after(last, group) if self.progress.ended else last

    def ending(self, group: Group, ended: dict[int, Ceased]) -> Ending:
        """Where the queries that end in this batch do so: a departure at the end itself still counts."""
        stop = {number: query.stop for number, query in ended.items()}
        if group.by_rows:
            return Ending(stop, {number: self.ordinals(group.by).before(at) for number, at in stop.items()})
        moments = {
            number: _LONG_AGO if query.until is None else _after(query.until, group)
            for number, query in ended.items()
        }
        return Ending(stop, moments)

    def at(self, group: Group, moments: Array) -> Array:
        """Moments as times, or as numbers where the stream has no time."""
        return self.ordinals(group.by).times(moments) if group.by_rows else moments

    def keep_clocks(self, low: int) -> None:
        for ordinals in self._ordinals.values():
            ordinals.keep(low)


def _own(column: Array) -> Array:
    """An array that can be written to: what Arrow lends is of another type to a kernel, which would be
    compiled twice.
    """
    return column if column.flags.writeable else column.copy()


def _after(moment: Time, group: Group) -> Time:
    """The next moment that can be told from this one."""
    return math.nextafter(moment, math.inf) if group.dtype == np.float64 else int(moment) + 1


def _by_number(parts: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    """What the homes sent, in one piece and in stream order."""
    parts = [part for part in parts if part.num_rows]
    if not parts:
        return None
    rows = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
    numbers = rows.column(NUMBER).to_numpy()
    if (np.diff(numbers) < 0).any():
        rows = rows.take(pa.array(np.argsort(numbers)))
    return rows
