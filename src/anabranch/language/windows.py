"""From WINDOW and AT END to a Window of the model, in the stored units of the stream's time.

Comes in: the clauses and the stream. Goes out: a Window. Never: a default for AT END; a Window knows its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from anabranch.language import syntax as s
from anabranch.language.constants import at_most, choice, exact
from anabranch.language.errors import over_limit, refuse
from anabranch.language.numbers import microseconds, multiply, stored
from anabranch.language.scopes import ItemScope
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time
from anabranch.model.window import AtEnd, Window

#: In units of a time that is a number. Shorter windows could not be numbered in 64 bits.
LEAST_LENGTH = 1e-9

SECONDS_IN = {"SECONDS": 1, "MINUTES": 60, "HOURS": 3600, "DAYS": 86400}


def bind_window(clause: s.WindowClause, at_end: s.AtEndClause | None, stream: Stream, text: str) -> Window:
    if clause.unit == "range" and stream.time is None:
        raise refuse(
            f"RANGE needs a time and stream {stream.name} declares none; declare time, or use WINDOW ROWS",
            clause.span,
        )

    def measure(length: s.Length, what: str) -> Time:
        if clause.unit == "rows":
            return rows_length(length, stream, text, what)
        return range_length(length, stream, text, what)

    size = measure(clause.size, f"{clause.unit.upper()} of a window")
    step = size if clause.step is None else measure(clause.step, "STEP of a window")
    _check_overlap(size, step, (clause.step or clause.size).span, stream)
    return Window(clause.unit, size, step, bind_at_end(at_end))


def rows_window(size: s.Expression, step: s.Expression, scope: ItemScope, whats: tuple[str, str]) -> Window:
    """A window that counts items, from two numbers; `whats` is how errors call them."""
    return _from_numbers("rows", rows_length, (size, step), scope, whats)


def range_window(size: s.Expression, step: s.Expression, scope: ItemScope, whats: tuple[str, str]) -> Window:
    """A window over time, from two numbers in units of the stream's time."""
    return _from_numbers("range", range_length, (size, step), scope, whats)


def _from_numbers(
    unit: str,
    measure: Callable[[s.Length, Stream, str, str], Time],
    numbers: tuple[s.Expression, s.Expression],
    scope: ItemScope,
    whats: tuple[str, str],
) -> Window:
    size, step = (
        measure(s.Length(number, None, number.span), scope.stream, scope.text, what)
        for number, what in zip(numbers, whats, strict=True)
    )
    _check_overlap(size, step, numbers[1].span, scope.stream)
    return Window(unit, size, step)


def _check_overlap(size: Time, step: Time, span: s.Span, stream: Stream) -> None:
    """Every item is in size / step windows, and so many are open at any time."""
    windows = math.ceil(Fraction(size) / Fraction(step))
    allowed = stream.limits.windows_per_item
    if windows > allowed:
        shown = f"{windows:,}" if windows < 10**20 else "countless"
        raise over_limit(
            f"it would open {shown} windows per item", "windows_per_item", allowed, "use a larger STEP", span
        )


def bind_at_end(clause: s.AtEndClause | None) -> AtEnd | None:
    return None if clause is None else AtEnd(choice(clause.word, tuple(AtEnd), "AT END"))


def rows_length(length: s.Length, stream: Stream, text: str, what: str) -> Time:
    if length.unit is not None:
        raise refuse(
            f"ROWS counts items and takes no unit; for a length of time write RANGE .. {length.unit}",
            length.span,
        )
    return at_most(length.value, text, what, "window_rows", stream.limits.window_rows)


def range_length(length: s.Length, stream: Stream, text: str, what: str) -> Time:
    value = exact(length.value, text)
    if value <= 0:
        raise refuse(f"{what} must be greater than 0; this is {value}", length.span)
    if stream.time_type is ColumnType.TIMESTAMP:
        seconds = multiply(value, SECONDS_IN[length.unit or "SECONDS"], length.span)
        return stored(microseconds(seconds, length.span), length.span)
    if length.unit is not None:
        raise refuse(
            f"{length.unit} need a timestamp; {stream.time}, the time of stream {stream.name}, is a number, "
            "so write the length as a number in its units",
            length.span,
        )
    size = stored(value, length.span)
    if size < LEAST_LENGTH:
        raise refuse(
            f"{what} is too small; windows are numbered from the first item on, and are at least "
            f"{LEAST_LENGTH:.9f} long",
            length.span,
        )
    return size
