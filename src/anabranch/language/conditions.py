"""From the conditions of the syntax tree to the terms of `predicates`.

Comes in: an expression and the scope of its names. Goes out: a Term in which every comparison is
`column op constant` or `column op column + constant`, with types checked.
Never: simplification beyond constants, nested AND and OR.

A missing value makes a comparison false, and NOT BETWEEN and NOT IN are comparisons like !=:

    a BETWEEN 1 AND 2      -> a >= 1 AND a <= 2
    a NOT BETWEEN 1 AND 2  -> a < 1 OR a > 2     (false where a is missing; NOT (a BETWEEN 1 AND 2) is true)
    a IN (1, 2)            -> a = 1 OR a = 2
    a NOT IN (1, 2)        -> a != 1 AND a != 2
    a - b <= 5             -> a <= b + 5
    5 > a                  -> a < 5
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from anabranch.language import syntax as s
from anabranch.language.errors import refuse
from anabranch.language.numbers import add, divide, microseconds, multiply, stored
from anabranch.language.operands import Flag, Operand, Quantity, Word, described, moment, operand, wrong_types
from anabranch.language.scopes import Scope
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import QueryError
from anabranch.model.stream import MICROSECONDS
from anabranch.predicates.terms import TRUE, And, Constant, Difference, Not, Op, Or, Term

#: The condition that no item satisfies; `bind` refuses a query whose condition comes down to it.
FALSE = Or(())

_HOLDS: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


def condition(expression: s.Expression, scope: Scope) -> Term:
    match expression:
        case s.Compare(left=left, op=op, right=right):
            return _compare(operand(left, scope), op, operand(right, scope), scope)
        case s.AndTerms(terms=terms):
            return conjunction(condition(term, scope) for term in terms)
        case s.OrTerms(terms=terms):
            return disjunction(condition(term, scope) for term in terms)
        case s.Negation(term=term):
            return negation(condition(term, scope))
        case s.InParentheses(inner=inner):
            return condition(inner, scope)
        case s.Between():
            return _between(expression, scope)
        case s.OneOf():
            return _one_of(expression, scope)
    return _bare(operand(expression, scope), scope)


def conjunction(terms: Iterable[Term]) -> Term:
    """AND, with nested ANDs taken in and constants worked out."""
    flat: list[Term] = []
    for term in terms:
        flat += term.terms if isinstance(term, And) else (term,)
    if FALSE in flat:
        return FALSE
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def disjunction(terms: Iterable[Term]) -> Term:
    """OR, with nested ORs taken in and constants worked out."""
    flat: list[Term] = []
    for term in terms:
        flat += term.terms if isinstance(term, Or) else (term,)
    if TRUE in flat:
        return TRUE
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def negation(term: Term) -> Term:
    if term in (TRUE, FALSE):
        return FALSE if term == TRUE else TRUE
    return Not(term)


def _between(between: s.Between, scope: Scope) -> Term:
    value, low, high = (operand(part, scope) for part in (between.value, between.low, between.high))
    if between.negated:
        return disjunction((_compare(value, Op.LT, low, scope), _compare(value, Op.GT, high, scope)))
    return conjunction((_compare(value, Op.GE, low, scope), _compare(value, Op.LE, high, scope)))


def _one_of(one_of: s.OneOf, scope: Scope) -> Term:
    value = operand(one_of.value, scope)
    op, join = (Op.NE, conjunction) if one_of.negated else (Op.EQ, disjunction)
    return join(_compare(value, op, operand(option, scope), scope) for option in one_of.options)


def _bare(it: Operand, scope: Scope) -> Term:
    """A condition without a comparison: TRUE, FALSE or a boolean column."""
    if not isinstance(it, Flag):
        example = f"{scope.shown(it.span)} = 'abc'" if isinstance(it, Word) else f"{scope.shown(it.span)} > 0"
        raise refuse(f"{described(it, scope)}, not a condition; compare it, for example {example}", it.span)
    if it.column is None:
        return TRUE if it.value else FALSE
    return Constant(it.column, Op.EQ, True)


def _compare(left: Operand, op: Op, right: Operand, scope: Scope) -> Term:
    match left, right:
        case Quantity(), Quantity():
            return _compare_quantities(left, op, right, scope)
        case Quantity(stamps=1), Word(column=None):
            return _compare_quantities(left, op, _as_time(right, left, scope), scope)
        case Word(column=None), Quantity(stamps=1):
            return _compare_quantities(_as_time(left, right, scope), op, right, scope)
        case Word(), Word():
            return _compare_alike(left, op, right, scope)
        case Flag(), Flag():
            return _compare_alike(left, op, right, scope)
    raise wrong_types(left, right, scope)


def _as_time(text: Word, other: Quantity, scope: Scope) -> Quantity:
    """A plain string against a timestamp is read as a time."""
    try:
        return Quantity(text.span, stamps=1, stamp_us=moment(text.value, text.span))
    except QueryError as error:
        raise refuse(f"{described(other, scope)}; {error.message}", text.span) from None


def _compare_alike(left: Word | Flag, op: Op, right: Word | Flag, scope: Scope) -> Term:
    """Strings with strings, truth values with truth values."""
    if isinstance(left, Flag) and op not in (Op.EQ, Op.NE):
        shown = scope.shown(left.span)
        raise refuse(
            f"{shown} is true or false; compare it with = or !=, not {op}", s.covering(left.span, right.span)
        )
    if left.column is None and right.column is None:
        return TRUE if _HOLDS[op](left.value, right.value) else FALSE
    if left.column is None:
        left, op, right = right, op.mirrored, left
    assert left.column is not None
    if right.column is None:
        return Constant(left.column, op, right.value)
    return Difference(left.column, op, right.column)


def _compare_quantities(left: Quantity, op: Op, right: Quantity, scope: Scope) -> Term:
    """Bring the columns to the left and the constants to the right: `a + 1 < b - 2` is `a - b < -3`."""
    if left.stamps != right.stamps:
        raise wrong_types(left, right, scope)
    span = s.covering(left.span, right.span)
    columns = (*left.columns, *((-sign, column) for sign, column in right.columns))
    rest = Quantity(
        span,
        number=add(right.number, multiply(-1, left.number, span), span),
        stamp_us=right.stamp_us - left.stamp_us,
    )
    match columns:
        case ():
            return TRUE if _HOLDS[op](0, _number(rest)) else FALSE
        case ((sign, column),):
            value = _in_units(rest, sign, column)
            return Constant(column.name, op if sign > 0 else op.mirrored, value)
        case ((sign, column), (other_sign, other)) if sign == -other_sign:
            _check_same_kind(column, other, span)
            offset = _in_units(rest, sign, column)
            return Difference(column.name, op if sign > 0 else op.mirrored, other.name, offset)
    raise refuse(
        f"{scope.shown(span)} is too much for one comparison: "
        "compare a column with a constant, or with another column plus a constant (a <= b + 5)",
        span,
    )


def _check_same_kind(column: Column, other: Column, span: s.Span) -> None:
    if (column.type is ColumnType.TIMESTAMP) != (other.type is ColumnType.TIMESTAMP):
        first, second = (column, other) if column.type is ColumnType.TIMESTAMP else (other, column)
        raise refuse(f"{first.name} is a timestamp; {second.name} is a number", span)


def _in_units(rest: Quantity, sign: int, column: Column) -> int | float:
    """The constant in the stored units of the column: microseconds for a timestamp."""
    if column.type is ColumnType.TIMESTAMP:
        return stored(sign * (rest.stamp_us + microseconds(rest.number, rest.span)), rest.span)
    return stored(multiply(sign, _number(rest), rest.span), rest.span)


def _number(rest: Quantity) -> s.Exact:
    """As a plain number; a difference of times counts in seconds."""
    if not rest.stamp_us:
        return rest.number
    return add(rest.number, divide(rest.stamp_us, MICROSECONDS, rest.span), rest.span)
