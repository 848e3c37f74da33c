"""From WINDOW and AT END to a Window of the model, in the stored units of the stream's time.

Comes in: the clauses and the stream. Goes out: a Window. Never: a default for AT END; a Window knows its own.
"""

from __future__ import annotations

from anabranch.language import syntax as s
from anabranch.language.constants import choice, exact, whole
from anabranch.language.errors import refuse
from anabranch.language.numbers import microseconds, multiply, stored
from anabranch.model.columns import ColumnType
from anabranch.model.stream import Stream, Time
from anabranch.model.window import AtEnd, Window

SECONDS_IN = {"SECONDS": 1, "MINUTES": 60, "HOURS": 3600, "DAYS": 86400}


def bind_window(clause: s.WindowClause, at_end: s.AtEndClause | None, stream: Stream, text: str) -> Window:
    if clause.unit == "range" and stream.time is None:
        raise refuse(
            f"RANGE needs a time and stream {stream.name} declares none; declare time, or use WINDOW ROWS",
            clause.span,
        )

    def measure(length: s.Length, what: str) -> Time:
        if clause.unit == "rows":
            return rows_length(length, text, what)
        return range_length(length, stream, text, what)

    size = measure(clause.size, f"{clause.unit.upper()} of a window")
    step = size if clause.step is None else measure(clause.step, "STEP of a window")
    return Window(clause.unit, size, step, bind_at_end(at_end))


def bind_at_end(clause: s.AtEndClause | None) -> AtEnd | None:
    return None if clause is None else AtEnd(choice(clause.word, tuple(AtEnd), "AT END"))


def rows_length(length: s.Length, text: str, what: str) -> Time:
    if length.unit is not None:
        raise refuse(
            f"ROWS counts items and takes no unit; for a length of time write RANGE .. {length.unit}",
            length.span,
        )
    return whole(length.value, text, what)


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
    if size == 0:
        raise refuse(f"{what} is too small to be told from 0", length.span)
    return size
