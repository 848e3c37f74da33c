"""Arrays that grow together: an entry has a slot as long as it lives, and slots are used again."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.model.arrays import Array


class Slots:
    """`Slots(count=(np.int64, 0))` has an array `count` in which free slots hold 0. Slots in use are
    `live`.
    """

    def __init__(self, **columns: tuple[Any, Any]) -> None:
        self._fills = columns
        self._free: list[int] = []
        self.size = 0
        self._arrays: dict[str, Array] = {name: np.empty(0, kind) for name, (kind, _) in columns.items()}
        self._live = np.empty(0, bool)

    def __getitem__(self, name: str) -> Array:
        """One entry a slot, free ones included; valid until the next `take`."""
        return self._arrays[name][: self.size]

    @property
    def live(self) -> Array:
        """The slots in use, ascending."""
        return np.flatnonzero(self._live[: self.size])

    def add_column(self, name: str, kind: Any, fill: Any) -> None:
        self._fills[name] = (kind, fill)
        self._arrays[name] = np.full(len(self._live), fill, kind)

    def take(self, **values: Any) -> int:
        slot = self._free.pop() if self._free else self._grown()
        self._live[slot] = True
        for name, value in values.items():
            self._arrays[name][slot] = value
        return slot

    def restore(self, slots: Array) -> None:
        """Takes these slots, of an object that has none yet, in place of those that `take` would have
        given.
        """
        assert self.size == 0
        for _ in range(int(slots.max()) + 1 if len(slots) else 0):
            self._grown()
        self._live[slots] = True
        self._free = np.flatnonzero(~self._live[: self.size])[::-1].tolist()

    def give_back(self, slot: int) -> None:
        self._free.append(slot)
        self._live[slot] = False
        for name, (_, fill) in self._fills.items():
            self._arrays[name][slot] = fill

    def _grown(self) -> int:
        if self.size == len(self._live):
            room = max(16, 2 * self.size)
            for name, (kind, fill) in self._fills.items():
                grown = np.full(room, fill, kind)
                grown[: self.size] = self._arrays[name]
                self._arrays[name] = grown
            live = np.zeros(room, bool)
            live[: self.size] = self._live
            self._live = live
        self.size += 1
        return self.size - 1


def grown(array: Array, room: int, used: int) -> Array:
    """Returns an array with room for `room` entries that begins with the first `used` ones of `array`."""
    more = np.empty((room, *array.shape[1:]), array.dtype)
    more[:used] = array[:used]
    return more


def used_only(codes: Array, values: Array) -> tuple[Array, Array]:
    """The values that the codes refer to, and the codes among these: a packet carries its dictionary with
    it.
    """
    seen = np.zeros(len(values), bool)
    seen[codes] = True
    used = np.flatnonzero(seen)
    place = np.empty(len(values), np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    return values[used], place[codes]
