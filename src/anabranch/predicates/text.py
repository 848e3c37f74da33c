"""Conditions as people read them: in refusals and in `explain`. Never parsed again."""

from __future__ import annotations

from anabranch.model.columns import ColumnType
from anabranch.predicates.codes import AT, DOMAINS, Position, after, before, float_value
from anabranch.predicates.conjunction import SIGNS, Bound, Conjunction, Gap, Normal
from anabranch.predicates.terms import And, Constant, Difference, Not, Or, Term, Value

_OPS = {signs: op.value for op, signs in SIGNS.items()}


def term_text(term: Term) -> str:
    match term:
        case Constant(column=column, op=op, value=value):
            return f"{column} {op.value} {value_text(value)}"
        case Difference(column=column, op=op, other=other, offset=offset):
            return f"{column} {op.value} {_shifted(other, offset)}"
        case And(terms=terms):
            return " and ".join(map(inner_text, terms)) if terms else "true"
        case Or(terms=terms):
            return " or ".join(map(inner_text, terms)) if terms else "false"
        case Not(term=inner):
            return f"not {inner_text(inner)}"


def normal_text(normal: Normal) -> str:
    return " or ".join(map(conjunction_text, normal.conjunctions)) if normal.conjunctions else "false"


def conjunction_text(conjunction: Conjunction) -> str:
    parts = [_bound_text(bound) for bound in conjunction.bounds]
    parts += [f"{hole.column} != {_position_text(hole.type, hole.position)}" for hole in conjunction.holes]
    parts += [_gap_text(gap) for gap in conjunction.gaps]
    return " and ".join(parts) if parts else "true"


def value_text(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower() if isinstance(value, bool) else str(value)


def inner_text(term: Term) -> str:
    compound = isinstance(term, And | Or) and len(term.terms) > 1
    return f"({term_text(term)})" if compound else term_text(term)


def _shifted(column: str, offset: int | float) -> str:
    return f"{column} {'+' if offset > 0 else '-'} {abs(offset)}" if offset else column


def _gap_text(gap: Gap) -> str:
    return f"{gap.left} {_OPS[gap.signs]} {_shifted(gap.right, gap.offset)}"


def _bound_text(bound: Bound) -> str:
    domain = DOMAINS[bound.type]
    if bound.high == domain.missing:
        return f"{bound.column} missing"
    if bound.low == bound.high:
        return f"{bound.column} = {_position_text(bound.type, bound.low)}"
    sides = []
    if bound.low not in (domain.missing, domain.least):
        sides.append(f"{bound.column} {_edge_text(bound.type, bound.low, '>')}")
    if bound.high != domain.greatest:
        sides.append(f"{bound.column} {_edge_text(bound.type, bound.high, '<')}")
    if bound.low == domain.missing:
        return f"({bound.column} missing or {sides[0]})"
    return " and ".join(sides) or f"{bound.column} present"


def _edge_text(kind: ColumnType, position: Position, sign: str) -> str:
    """`<= 4.999999999999999` is said as `< 5.0`, which is the same."""
    if kind is ColumnType.STRING:
        return f"{sign}{'=' if position[2] == AT else ''} {value_text(position[1])}"
    if kind is ColumnType.FLOAT:
        beyond = after(position) if sign == "<" else before(position)
        here, there = _position_text(kind, position), _position_text(kind, beyond)
        return f"{sign} {there}" if len(there) < len(here) else f"{sign}= {here}"
    return f"{sign}= {_position_text(kind, position)}"


def _position_text(kind: ColumnType, position: Position) -> str:
    if kind is ColumnType.STRING:
        return value_text(position[1])
    if kind is ColumnType.FLOAT:
        return repr(float_value(position))
    return value_text(bool(position)) if kind is ColumnType.BOOL else str(position)
