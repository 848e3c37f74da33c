"""Ticks: the moments origin + n * tick at which results are brought up to date. Between the stages only n
travels.

Whole times stay whole: with an int or timestamp column and a whole tick all arithmetic is in int64. Otherwise
it is in float64, and n is the one for which origin + n * tick, as computed, fits; a division only gives a
first guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.chain.packets import Kind, Packet
from anabranch.chain.state import State
from anabranch.model.arrays import Array
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time

ORIGIN, FINAL = "origin", "tick"


def tick_length(stream: Stream) -> Time:
    """Returns the stream's tick: an int where it is whole and times are."""
    tick = stream.tick
    if stream.time_type is ColumnType.FLOAT:
        return float(tick)
    return int(tick) if float(tick).is_integer() else tick


def at_type(stream: Stream) -> ColumnType:
    """Returns the type of `at`: that of `time`, or float where ticks fall between whole times."""
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
        """Returns the first tick at or after each time (times are not before the origin)."""
        return self._first(times, lambda at: at >= times)

    def first_beyond(self, times: Array, by: Time) -> Array:
        """Returns the first tick T with T - time > by."""
        return self._first(times + by, lambda at: at - times > by)

    def first_after(self, time: Time | None) -> int:
        """Returns the first tick after a time, which is the first of a query that is activated then; 0 where
        no time is given.
        """
        if time is None:
            return 0
        return self._first_one(time, lambda at: at > time)

    def last_before(self, time: Time) -> int:
        """Returns the last tick at or before a time; -1 if there is none."""
        return self.first_after(time) - 1

    def last_until(self, time: Time) -> int:
        """Returns the last tick before a time; -1 if there is none."""
        return self._first_one(time, lambda at: at >= time) - 1

    def _first_one(self, guess: Time, holds: Callable[[Time], bool]) -> int:
        """`_first` for one number."""
        number = max(int((guess - self.origin) // self.tick), 0)
        while not holds(self.origin + number * self.tick):
            number += 1
        while number > 0 and holds(self.origin + (number - 1) * self.tick):
            number -= 1
        return number

    def _first(self, guess: Array, holds: Any) -> Array:
        """Returns the least n >= 0 for which `holds(origin + n * tick)`, which is false before some moment
        near `guess` and true from then on.
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
    """Returns the last tick that no report, activation or cancellation to come can change; -1 if there is
    none.

    Reports older than `time` do not come any more. Activations and cancellations at a moment before `last`,
    the time of the last item that left order, have been announced. Those between `last` and `time` have not,
    so ticks in between wait for the next item. With lateness = 4:

        the last item that left order has time 5, one with time 14 is still there, so `time` is 10
        a query that is cancelled at 7 is announced before the item at 14
        ticks up to 5 are final, 6 to 9 wait
    """
    if progress["ended"]:
        return ticks.last_before(progress["last"])
    # T < time and T <= last
    return min(ticks.last_until(progress["time"]), ticks.last_before(progress["last"]))


def progress_of(packets: Sequence[Packet]) -> Mapping[str, Any]:
    """Returns what order announced in this batch; nothing, if only back packets have come."""
    return next((packet.facts for packet in packets if packet.kind is Kind.PROGRESS), {})


def ticks_of(stream: Stream, progress: Mapping[str, Any]) -> Ticks | None:
    """Returns the ticks, once the stream has begun."""
    if progress.get("origin") is None:
        return None
    return Ticks(progress["origin"], tick_length(stream))


def ticks_known(state: State, stream: Stream, progress: Mapping[str, Any]) -> Ticks | None:
    """Returns the ticks for a zone that needs them also in a batch of back packets alone."""
    origin = state.get_json(ORIGIN)
    if origin is not None:
        return Ticks(origin, tick_length(stream))
    if progress.get("origin") is not None:
        state.put_json(ORIGIN, progress["origin"])
    return ticks_of(stream, progress)


def put_final(state: State, tick: int) -> None:
    state.put_json(FINAL, tick)


def final_before(state: State) -> int:
    """Returns the last final tick of the batches before, as put; -1 if there is none."""
    tick: int | None = state.get_json(FINAL)
    return -1 if tick is None else tick
