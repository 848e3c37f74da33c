"""The slices that a batch brings to a zone of `compose`, from all of `share`, in the order of the stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.families.filters.derived import DerivedStreams
from anabranch.families.filters.slices import empty_rows
from anabranch.kernels.slices import Rows
from anabranch.zones.columns import Array
from anabranch.zones.packets import Packet


class Incoming:
    """`rows`, and in `slots` the derived stream of each."""

    def __init__(self, slots: Array, rows: Rows) -> None:
        self.slots, self.rows = slots, rows
        self._sorted: tuple[Array, Array, Array] | None = None

    @staticmethod
    def read(partials: Sequence[Packet], derived: DerivedStreams) -> Incoming:
        if not partials:
            return Incoming(np.empty(0, np.int64), empty_rows(0, 0, derived.time_type))
        slots = np.concatenate([_slots(packet, derived) for packet in partials])
        layout = np.concatenate([_layouts(packet, derived) for packet in partials])
        number, time, items = (
            np.concatenate([packet.column(name).to_numpy() for packet in partials])
            for name in ("number", "time", "items")
        )
        words = np.concatenate([packet.column("words").flatten().to_numpy() for packet in partials])
        width = derived.book.arrays.width[layout]
        parts = [number, time, np.zeros(len(number), np.int64), items, layout, np.cumsum(width) - width]
        if (number[1:] < number[:-1]).any():
            order = np.argsort(number, kind="stable")
            parts, slots = [part[order] for part in parts], slots[order]
        return Incoming(slots, Rows._make([*parts, words]))

    def before(self, slot: int, number: int) -> int:
        """How many items of a derived stream came in this batch before item `number` of the stream."""
        if self._sorted is None:
            order = np.argsort(self.slots, kind="stable")
            self._sorted = (self.slots[order], self.rows.number[order], self.rows.items[order])
        slots, numbers, items = self._sorted
        first, stop = np.searchsorted(slots, [slot, slot + 1])
        return int(items[first : first + np.searchsorted(numbers[first:stop], number)].sum())


def _slots(packet: Packet, derived: DerivedStreams) -> Array:
    column = packet.column("stream")
    # A packet for several zones keeps its dictionary when it is dealt out, so some keys may not be from here.
    known = [derived.slot_of.get(key, -1) for key in column.dictionary.to_pylist()]
    slots: Array = np.array(known, np.int64)[column.indices.to_numpy()]
    assert slots.min() >= 0, "slices of a derived stream that no query of this zone asks for"
    return slots


def _layouts(packet: Packet, derived: DerivedStreams) -> Array:
    sent = packet.column("layout").to_numpy()
    used = np.flatnonzero(np.bincount(sent))  # of others, which went to another zone, nothing is known here
    local = np.full(len(packet.facts["layouts"]), -1, np.int64)
    local[used] = derived.book.understood(packet.facts["layouts"][number] for number in used)
    numbers: Array = local[sent]
    return numbers
