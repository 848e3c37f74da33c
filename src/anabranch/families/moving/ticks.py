"""Ticks: the moments origin + n * tick at which moving answers are brought up to date; between the stages
only n travels.

Whole times stay whole: with an int or timestamp column and a whole tick all arithmetic is in int64. Otherwise
it is in float64, and n is what the formula origin + n * tick says when it is computed, not what a division
suggests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time
from anabranch.zones.columns import Array
from anabranch.zones.packets import Kind, Packet
from anabranch.zones.state import State

ORIGIN, FINAL = "origin", "tick"


def tick_length(stream: Stream) -> Time:
    """The stream's tick: an int where times are whole and it is."""
    tick = stream.tick
    if stream.time_type is ColumnType.FLOAT:
        return float(tick)
    return int(tick) if float(tick).is_integer() else tick


def at_type(stream: Stream) -> ColumnType:
    """The type of `at`: that of `time`, or float where ticks fall between whole times."""
    assert stream.time_type is not None
    if stream.time_type is ColumnType.INT and isinstance(tick_length(stream), float):
        return ColumnType.FLOAT
    return stream.time_type


@dataclass(frozen=True)
class Ticks:
    origin: Time
    tick: Time

    def times(self, numbers: Array) -> Array:
        """origin + n * tick"""
        return self.origin + numbers * self.tick

    def first_at(self, times: Array) -> Array:
        """The first tick at or after each time (times are not before the origin)."""
        return self._first(times, lambda at: at >= times)

    def first_beyond(self, times: Array, by: Time) -> Array:
        """The first tick T with T - time > by."""
        return self._first(times + by, lambda at: at - times > by)

    def after(self, time: Time | None) -> int:
        """The first tick of a query that is active from `time` on, exclusive; from the origin on if there is
        none.
        """
        if time is None:
            return 0
        return int(self._first(np.array([time]), lambda at: at > time)[0])

    def until(self, time: Time) -> int:
        """The last tick at or before a time; -1 if there is none."""
        return self.after(time) - 1

    def _first(self, guess: Array, holds: Any) -> Array:
        """The least n >= 0 for which `holds(origin + n * tick)`, which is false before some moment near
        `guess` and true from then on.
        """
        numbers = np.maximum(np.floor_divide(guess - self.origin, self.tick), 0).astype(np.int64)
        while True:
            low = ~holds(self.times(numbers))
            if not low.any():
                break
            numbers = numbers + low
        while True:
            high = (numbers > 0) & holds(self.times(numbers - 1))
            if not high.any():
                return numbers
            numbers = numbers - high


def final_tick(ticks: Ticks, progress: Mapping[str, Any]) -> int:
    """The last tick that no report, activation or cancellation to come can change; -1 if there is none.

    Reports older than `time` do not come any more. Activations and cancellations at a moment before `last`,
    the time of the last item that left order, have been announced; those between `last` and `time` have not,
    so ticks in between wait for the next item:

        lateness = 4    left: ... 5    waiting: 14    time = 10    a query that ends at 7 is announced before
        14
                                                                   ticks up to 5 are final, 6 to 9 wait
    """
    if progress["ended"]:
        return ticks.until(progress["last"])
    # T < time and T <= last: the last tick before `time` is the one before the first at or after it
    before = int(ticks.first_at(np.array([progress["time"]]))[0]) - 1
    return min(before, ticks.until(progress["last"]))


def progress_of(packets: Sequence[Packet]) -> Mapping[str, Any]:
    """What order announced in this batch; nothing, if there was only mail from the batch before."""
    return next((packet.facts for packet in packets if packet.kind is Kind.PROGRESS), {})


def ticks_of(stream: Stream, progress: Mapping[str, Any]) -> Ticks | None:
    """The ticks, once the stream has begun."""
    if progress.get("origin") is None:
        return None
    return Ticks(progress["origin"], tick_length(stream))


def ticks_known(state: State, stream: Stream, progress: Mapping[str, Any]) -> Ticks | None:
    """The same for a zone that needs them also in a batch of mail from the batch before."""
    held = state.get(ORIGIN)
    if held is not None:
        return Ticks(held["time"][0].item(), tick_length(stream))
    if progress.get("origin") is not None:
        state.put(ORIGIN, {"time": np.array([progress["origin"]])})
    return ticks_of(stream, progress)


def note_final(state: State, tick: int) -> None:
    state.put(FINAL, {"last": np.array([tick], np.int64)})


def final_before(state: State) -> int:
    """The last tick that is over, as noted; -1 if there is none."""
    held = state.get(FINAL)
    return -1 if held is None else int(held["last"][0])
