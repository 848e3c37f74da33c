"""Selections as the optimizer handles them: what is left of one after another, and what contains two.

`residual` is what is left to check on items that have passed another condition, `hull` the tightest box
around two conditions, `term_of` a term that accepts the same rows as a normal form.

    a >= 1 AND a <= b + 2 AND c = 'x'        two parts: {a, b} and {c}
    hull of  a IN [1, 3], b = 5  and  a IN [2, 9]      a IN [1, 9]
"""

from __future__ import annotations

from functools import lru_cache

from anabranch.model.columns import ColumnType
from anabranch.predicates.codes import ABOVE, BELOW, DOMAINS, Position, float_value
from anabranch.predicates.conjunction import EVERYTHING, SIGNS, Bound, Conjunction, Normal
from anabranch.predicates.implies import implies
from anabranch.predicates.terms import And, Constant, Difference, Not, Op, Or, Term, Value

_OPS = {signs: op for op, signs in SIGNS.items()}


def match_predicates(wide: Normal, narrow: Normal) -> bool:
    """MATCHPREDICATES (algorithm 3): every item that satisfies `narrow` satisfies `wide`."""
    return wide == narrow or implies(narrow, wide)


def columns_of(normal: Normal) -> frozenset[str]:
    return frozenset(normal.columns())


@lru_cache(maxsize=65536)
def parts_of(whole: Conjunction) -> frozenset[Conjunction]:
    """Returns the parts of a conjunction that share no column: each can be checked without the others."""
    group = {bound.column: frozenset([bound.column]) for bound in whole.bounds}
    group |= {hole.column: frozenset([hole.column]) for hole in whole.holes}
    for gap in whole.gaps:
        joined = group[gap.left] | group[gap.right]
        group.update(dict.fromkeys(joined, joined))
    return frozenset(_only(whole, columns) for columns in group.values())


def _only(whole: Conjunction, columns: frozenset[str]) -> Conjunction:
    return Conjunction(
        tuple(bound for bound in whole.bounds if bound.column in columns),
        tuple(hole for hole in whole.holes if hole.column in columns),
        tuple(gap for gap in whole.gaps if gap.left in columns),
    )


def residual(narrow: Normal, wide: Normal) -> Normal:
    """Returns what is left to check to select `narrow` from items that satisfy `wide`.

    What both say in the same words is settled: `ra < 5 AND en > 1` from `ra < 5` leaves `en > 1`.
    """
    if narrow == wide:
        return EVERYTHING
    if len(narrow.conjunctions) != 1 or len(wide.conjunctions) != 1:
        return narrow
    inner, outer = narrow.conjunctions[0], wide.conjunctions[0]
    if inner.is_box and outer.is_box:  # every bound is a part
        settled = set(outer.bounds)
        return Normal((Conjunction(tuple(bound for bound in inner.bounds if bound not in settled)),))
    open_parts = sorted(parts_of(inner) - parts_of(outer))
    return Normal(
        (
            Conjunction(
                tuple(bound for part in open_parts for bound in part.bounds),
                tuple(hole for part in open_parts for hole in part.holes),
                tuple(gap for part in open_parts for gap in part.gaps),
            ),
        )
    )


def hull(first: Normal, second: Normal) -> Normal | None:
    """Returns the smallest box around both; None where one of them is not a single conjunction."""
    if len(first.conjunctions) != 1 or len(second.conjunctions) != 1:
        return None
    bounds = []
    for bound in first.conjunctions[0].bounds:
        other = second.conjunctions[0].bound(bound.column)
        if other is not None:
            wide = Bound(bound.column, bound.type, min(bound.low, other.low), max(bound.high, other.high))
            if not wide.is_full:
                bounds.append(wide)
    return Normal((Conjunction(tuple(bounds)),))


@lru_cache(maxsize=65536)
def term_of(normal: Normal) -> Term:
    """Returns a term that accepts the rows that the normal form accepts."""
    if len(normal.conjunctions) == 1:
        return _conjunction_term(normal.conjunctions[0])
    return Or(tuple(map(_conjunction_term, normal.conjunctions)))


def _conjunction_term(conjunction: Conjunction) -> Term:
    terms = [_bound_term(bound) for bound in conjunction.bounds]
    # a hole lets a missing value pass; the bound says whether it may
    terms += [
        Not(Constant(hole.column, Op.EQ, _value(hole.type, hole.position))) for hole in conjunction.holes
    ]
    terms += [Difference(gap.left, _OPS[gap.signs], gap.right, gap.offset) for gap in conjunction.gaps]
    return And(tuple(terms))


def _bound_term(bound: Bound) -> Term:
    domain = DOMAINS[bound.type]
    if bound.is_full:
        return And(())
    if bound.high == domain.missing:
        return Not(_present(bound))
    if bound.low == domain.missing:
        return Not(_beyond(bound))
    sides: list[Term] = []
    if bound.low != domain.least:
        op = Op.GT if bound.type is ColumnType.STRING and bound.low[2] == ABOVE else Op.GE
        sides.append(Constant(bound.column, op, _value(bound.type, bound.low)))
    if bound.high != domain.greatest:
        op = Op.LT if bound.type is ColumnType.STRING and bound.high[2] == BELOW else Op.LE
        sides.append(Constant(bound.column, op, _value(bound.type, bound.high)))
    return And(tuple(sides)) if sides else _present(bound)


def _beyond(bound: Bound) -> Term:
    op = Op.GE if bound.type is ColumnType.STRING and bound.high[2] == BELOW else Op.GT
    return Constant(bound.column, op, _value(bound.type, bound.high))


def _present(bound: Bound) -> Term:
    """Every value equals itself or does not, and a missing one does neither."""
    some = _value(bound.type, DOMAINS[bound.type].least)
    return Or((Constant(bound.column, Op.EQ, some), Constant(bound.column, Op.NE, some)))


def _value(kind: ColumnType, position: Position) -> Value:
    if kind is ColumnType.STRING:
        return str(position[1])
    if kind is ColumnType.FLOAT:
        return float_value(position)
    return bool(position) if kind is ColumnType.BOOL else int(position)
