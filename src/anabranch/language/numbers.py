"""Numbers as they are written, computed with and stored.

Comes in: digits of the text. Goes out: exact numbers (int or Decimal) while a query is read, then what a
spec holds: an int of 64 bits, a finite float, or whole microseconds. Never: NaN, infinity, a silent rounding
of microseconds.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, DecimalException, DivisionByZero, InvalidOperation, Overflow

from anabranch.language.errors import refuse
from anabranch.language.syntax import Exact, Span
from anabranch.model.limits import INT64_GREATEST, INT64_LEAST
from anabranch.model.stream import MICROSECONDS

#: More digits than this cannot be meant, and would only slow the arithmetic down.
_MAX_DIGITS = 400

_EXACT = Context(prec=60, traps=[InvalidOperation, DivisionByZero, Overflow])
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def number_literal(text: str, span: Span) -> Exact:
    """`20` is an int, `20.0` and `2e1` are not."""
    if text.isdigit():
        digits = text.lstrip("0") or "0"
        if len(digits) > 19:
            raise refuse(
                f"{_short(text)} is beyond a whole number of 64 bits; write it with a decimal point", span
            )
        return int(digits)
    value = float(text)
    if math.isinf(value):
        raise refuse(f"{_short(text)} is too great for a number (at most 1.79e308)", span)
    if len(text) > _MAX_DIGITS:
        raise refuse(f"{_short(text)} has too many digits (at most {_MAX_DIGITS})", span)
    return Decimal(text) if value else Decimal(0)


def add(left: Exact, right: Exact, span: Span) -> Exact:
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return _computed(_EXACT.add(Decimal(left), Decimal(right)), span)


def multiply(left: Exact, right: Exact, span: Span) -> Exact:
    try:
        if isinstance(left, int) and isinstance(right, int):
            return _bounded(left * right, span)
        return _computed(_EXACT.multiply(Decimal(left), Decimal(right)), span)
    except DecimalException:
        raise _too_great(span) from None


def divide(left: Exact, right: Exact, span: Span) -> Exact:
    """True division: 7 / 2 is 3.5; 6 / 2 is the whole number 3."""
    if right == 0:
        raise refuse("division by zero", span)
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    try:
        return _computed(_EXACT.divide(Decimal(left), Decimal(right)), span)
    except DecimalException:
        raise _too_great(span) from None


def stored(value: Exact, span: Span) -> int | float:
    """The number as a spec holds it."""
    if isinstance(value, int):
        if not INT64_LEAST <= value <= INT64_GREATEST:
            raise refuse(f"{_short(str(value))} is beyond a whole number of 64 bits", span)
        return value
    return float(_computed(value, span))


def microseconds(seconds: Exact, span: Span) -> int:
    """A length of time in whole microseconds."""
    exact = multiply(seconds, MICROSECONDS, span)
    whole = int(exact)
    if whole != exact:
        raise refuse(
            f"{seconds} seconds are not a whole number of microseconds; times are kept no finer", span
        )
    return whole


def time_literal(text: str) -> int | None:
    """Microseconds since 1970 of an ISO time, UTC when it names no zone; None when it is no time."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def time_text(stamp_us: int) -> str | None:
    """The ISO time of microseconds since 1970; None beyond the years 1 to 9999."""
    try:
        moment = _EPOCH + timedelta(microseconds=stamp_us)
    except OverflowError:
        return None
    return moment.replace(tzinfo=None).isoformat(sep=" ")


def _bounded(value: int, span: Span) -> int:
    # Intermediate results may pass 64 bits (9 * 10 / 10), but may not grow without end.
    if value.bit_length() > 1024:
        raise _too_great(span)
    return value


def _computed(value: Decimal, span: Span) -> Decimal:
    if math.isinf(float(value)):
        raise _too_great(span)
    return value


def _too_great(span: Span) -> Exception:
    return refuse("this comes to a number that is too great (at most 1.79e308)", span)


def _short(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:24]}... ({len(text)} digits)"
