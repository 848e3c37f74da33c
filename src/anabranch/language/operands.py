"""The two sides of a comparison: quantities, words and truth values.

Comes in: an expression of the syntax tree. Goes out: a `Quantity` (columns and constants added up), a `Word`
(strings) or a `Flag` (true or false). Never: a comparison.

A quantity adds up without rounding: `a - b + 60 * 2` is columns ((1, a), (-1, b)) and number 120. Times are
counted by `stamps`: a timestamp has one, the difference of two has none and is a length in seconds, like
every plain number that is added to a timestamp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from anabranch.language import syntax as s
from anabranch.language.errors import refuse, short
from anabranch.language.numbers import add, divide, multiply, time_literal
from anabranch.language.scopes import TYPE_WORDS, Scope
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import QueryError


@dataclass(frozen=True, slots=True)
class Quantity:
    span: s.Span
    columns: tuple[tuple[int, Column], ...] = ()
    number: s.Exact = 0
    stamps: int = 0
    stamp_us: int = 0

    @property
    def is_plain(self) -> bool:
        """A number that no column or time has a part in."""
        return not self.columns and not self.stamps and not self.stamp_us


@dataclass(frozen=True, slots=True)
class Word:
    """A string column or, when `column` is None, a string."""

    span: s.Span
    column: str | None = None
    value: str = ""


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean column or, when `column` is None, TRUE or FALSE."""

    span: s.Span
    column: str | None = None
    value: bool = True


Operand = Quantity | Word | Flag


def operand(expression: s.Expression, scope: Scope) -> Operand:
    match expression:
        case s.Name():
            return _of_column(scope.column(expression), expression.span)
        case s.Number(value=value, span=span):
            return Quantity(span, number=value)
        case s.String(value=text, span=span):
            return Word(span, value=text)
        case s.InParentheses(inner=inner, span=span):
            return replace(operand(inner, scope), span=span)
        case s.Signed(sign=sign, value=value):
            return _sum(((sign, value),), expression.span, scope)
        case s.Sum(parts=parts):
            return _sum(parts, expression.span, scope)
        case s.Product():
            return _product(expression, scope)
        case s.Truth(value=truth, span=span):
            return Flag(span, value=truth)
        case s.Timestamp(value=text, span=span):
            return Quantity(span, stamps=1, stamp_us=moment(text, span))
        case s.Call():
            return _of_column(scope.call(expression), expression.span)
    raise refuse("a condition stands here where a column or a constant is needed", expression.span)


def moment(text: str, span: s.Span) -> int:
    """Microseconds since 1970 of a string that must be a time."""
    stamp_us = time_literal(text)
    if stamp_us is None:
        raise refuse(
            f"'{short(text)}' is not a time; write it as '2026-01-01 00:00:00', in UTC or with its zone",
            span,
        )
    return stamp_us


def described(it: Operand, scope: Scope) -> str:
    """`en is a number`"""
    return f"{scope.shown(it.span)} is {_type_words(it)}"


def wrong_types(left: Operand, right: Operand, scope: Scope) -> QueryError:
    hint = ""
    kinds = {_type_words(left), _type_words(right)}
    if kinds == {TYPE_WORDS[ColumnType.TIMESTAMP], TYPE_WORDS[ColumnType.INT]}:
        hint = "; write a time as TIMESTAMP '2026-01-01 00:00:00'"
    return refuse(
        f"{described(left, scope)}; {described(right, scope)}{hint}", s.covering(left.span, right.span)
    )


def _type_words(it: Operand) -> str:
    match it:
        case Word():
            return TYPE_WORDS[ColumnType.STRING]
        case Flag():
            return TYPE_WORDS[ColumnType.BOOL]
        case Quantity(stamps=0):
            return TYPE_WORDS[ColumnType.INT]
        case Quantity(stamps=1):
            return TYPE_WORDS[ColumnType.TIMESTAMP]
    return "neither a time nor a length of time"


def _of_column(column: Column, span: s.Span) -> Operand:
    match column.type:
        case ColumnType.STRING:
            return Word(span, column.name)
        case ColumnType.BOOL:
            return Flag(span, column.name)
        case ColumnType.TIMESTAMP:
            return Quantity(span, ((1, column),), stamps=1)
    return Quantity(span, ((1, column),))


def _sum(parts: tuple[tuple[int, s.Expression], ...], span: s.Span, scope: Scope) -> Quantity:
    columns: list[tuple[int, Column]] = []
    number: s.Exact = 0
    stamps = stamp_us = 0
    for sign, part in parts:
        it = operand(part, scope)
        if not isinstance(it, Quantity):
            raise refuse(f"{described(it, scope)}; only numbers and times can be added", it.span)
        columns += [(sign * inner, column) for inner, column in it.columns]
        number = add(number, multiply(sign, it.number, span), span)
        stamps += sign * it.stamps
        stamp_us += sign * it.stamp_us
    return Quantity(span, tuple(columns), number, stamps, stamp_us)


def _product(product: s.Product, scope: Scope) -> Quantity:
    number: s.Exact = 1
    for operator, part in product.parts:
        it = operand(part, scope)
        if not isinstance(it, Quantity) or not it.is_plain:
            raise refuse(
                f"{scope.shown(it.span)} cannot be multiplied or divided; only constant numbers can",
                it.span,
            )
        number = (multiply if operator == "*" else divide)(number, it.number, product.span)
    return Quantity(product.span, number=number)
