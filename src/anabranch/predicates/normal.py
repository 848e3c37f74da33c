"""From a condition to its normal form, and why a condition can never be true.

The normal form is an OR of conjunctions, none empty, none implying another; it means the same. There are two
truth values: a comparison with a missing value is false, and NOT turns that into true.

    NOT (a > 5 AND b <= c)            a, b, c int
    -> NOT a > 5 OR NOT b <= c        De Morgan, down to the comparisons
    -> a in [missing, 5]
       OR b missing OR c missing OR b > c
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction
from itertools import chain

from anabranch.model.columns import ColumnType
from anabranch.model.errors import QueryError
from anabranch.model.stream import Stream
from anabranch.predicates.codes import DOMAINS, GREATEST, Position, float_value, hole, intervals
from anabranch.predicates.conjunction import (
    ANY,
    EQUAL,
    GREATER,
    LESS,
    SIGNS,
    Bound,
    Conjunction,
    GapKind,
    Hole,
    Normal,
    mirrored,
)
from anabranch.predicates.graph import ZERO, Weight, closure
from anabranch.predicates.implies import conjunction_implies
from anabranch.predicates.terms import And, Constant, Difference, Not, Or, Term
from anabranch.predicates.text import inner_text, term_text
from anabranch.predicates.tighten import Draft, tighten

#: More alternatives than this, after unfolding, and a query is refused.
LIMIT = 1024
#: So many are tried where one OR meets another, most of which may exclude each other.
MOST_PAIRS = 8 * LIMIT


def normal_form(term: Term, stream: Stream) -> Normal:
    conjunctions = (tighten(draft) for draft in _unfold(term, False, stream))
    return Normal(tuple(sorted(_without_implied(c for c in conjunctions if c is not None))))


def unsatisfiable_reason(term: Term, stream: Stream) -> str | None:
    """None if some item could satisfy the condition, otherwise a sentence that says why none can.

    Here a FLOATS gap counts as on paper: `a >= b + 5 AND a <= b + 3` is refused, though rounding makes it
    true at 1e300.
    """
    if not _impossible([term], stream):
        return None
    parts = list(_conjuncts(term))
    for part in list(parts):  # what can go without making the rest possible had no part in it
        rest = [other for other in parts if other is not part]
        if rest and _impossible(rest, stream):
            parts = rest
    if len(parts) > 1:
        texts = [inner_text(part) for part in parts]
        return f"{', '.join(texts[:-1])} and {texts[-1]} exclude each other"
    if isinstance(parts[0], Or) and parts[0].terms:
        reasons = (unsatisfiable_reason(alternative, stream) for alternative in parts[0].terms)
        return "; ".join(filter(None, reasons))
    return f"{term_text(parts[0])} can never be true"


def _impossible(terms: list[Term], stream: Stream) -> bool:
    normal = normal_form(And(tuple(terms)), stream)
    return all(map(_contradictory, normal.conjunctions))


def _conjuncts(term: Term) -> Iterable[Term]:
    match term:
        case And(terms=terms) if terms:
            for part in terms:
                yield from _conjuncts(part)
        case _:
            yield term


# Unfolding: every step returns alternatives.


def _unfold(term: Term, negated: bool, stream: Stream) -> list[Draft]:
    match term:
        case Constant():
            return _constant(term, negated, stream)
        case Difference():
            return _difference(term, negated, stream)
        case Not(term=inner):
            return _unfold(inner, not negated, stream)
        case And(terms=terms) | Or(terms=terms):
            parts = (_unfold(part, negated, stream) for part in terms)
            return _all_of(parts) if isinstance(term, And) is not negated else _one_of(parts)


def _one_of(parts: Iterable[list[Draft]]) -> list[Draft]:
    return _within_limit([draft for part in parts for draft in part])


def _all_of(parts: Iterable[list[Draft]]) -> list[Draft]:
    drafts = [Draft()]
    for part in parts:
        if len(drafts) * len(part) > MOST_PAIRS:
            raise _too_many(len(drafts) * len(part))
        pairs = (left.joined(right) for left in drafts for right in part)
        drafts = _within_limit([draft for draft in pairs if draft is not None])
    return drafts


def _within_limit(drafts: list[Draft]) -> list[Draft]:
    if len(drafts) <= LIMIT:
        return drafts
    kept: dict[Conjunction, Draft] = {}
    for draft in drafts:
        conjunction = tighten(draft)
        if conjunction is not None:
            kept[conjunction] = draft
    left = [kept[conjunction] for conjunction in _without_implied(kept)]
    if len(left) > LIMIT:
        raise _too_many(len(left))
    return left


def _too_many(alternatives: int) -> QueryError:
    return QueryError(
        f"the condition unfolds into {alternatives} alternatives and {LIMIT} are possible; "
        "use fewer ORs inside ANDs, or split the query"
    )


def _without_implied(conjunctions: Iterable[Conjunction]) -> list[Conjunction]:
    """Those that imply none of the others; of equal ones the first in order.

    Long lists are mostly of the kind `n = 1 OR n = 2 OR ...`. Whoever implies one that fixes a column fixes
    it to the same value, so those are looked up by what they fix instead of compared with all.
    """
    kept: dict[Conjunction, None] = {}
    loose: dict[Conjunction, None] = {}  # those that fix nothing
    fixing: dict[_Fixed, dict[Conjunction, None]] = {}
    for candidate in sorted(conjunctions):
        fixed = _fixed(candidate)
        wider = chain(loose, *(fixing.get(value, ()) for value in fixed))
        if any(conjunction_implies(candidate, other) for other in wider):
            continue
        narrower = fixing.get(fixed[0], {}) if fixed else kept
        for other in [other for other in narrower if conjunction_implies(other, candidate)]:
            del kept[other]
            for home in (loose, *(fixing[value] for value in _fixed(other))):
                home.pop(other, None)
        kept[candidate] = None
        for home in [fixing.setdefault(value, {}) for value in fixed] or [loose]:
            home[candidate] = None
    return list(kept)


#: A column and the one value that it can have.
_Fixed = tuple[str, Position]


def _fixed(conjunction: Conjunction) -> list[_Fixed]:
    return [(bound.column, bound.low) for bound in conjunction.bounds if bound.low == bound.high]


def _type_of(column: str, stream: Stream) -> ColumnType:
    try:
        return stream.type_of(column)
    except KeyError:
        raise QueryError(f"unknown column {column!r} in stream {stream.name}") from None


def _constant(term: Constant, negated: bool, stream: Stream) -> list[Draft]:
    column, kind = term.column, _type_of(term.column, stream)
    left_out = hole(column, kind, term.op, term.value, negated)
    holes = set() if left_out is None else {Hole(column, kind, left_out)}
    found = intervals(column, kind, term.op, term.value, negated)
    return [Draft({column: Bound(column, kind, low, high)}, holes) for low, high in found]


def _difference(term: Difference, negated: bool, stream: Stream) -> list[Draft]:
    left, right = _type_of(term.column, stream), _type_of(term.other, stream)
    _check_types(term, left, right)
    signs = SIGNS[term.op]
    here = _presence(term.column, left) | _presence(term.other, right)
    drafts = _gap(term, left, right, ANY & ~signs if negated else signs, here)
    if negated:
        drafts += [_only_missing(column, kind) for column, kind in ((term.column, left), (term.other, right))]
    return drafts


def _gap(
    term: Difference, left: ColumnType, right: ColumnType, signs: int, here: dict[str, Bound]
) -> list[Draft]:
    """The comparison as one gap, in the one direction that equal comparisons share."""
    names, offset = (term.column, term.other), term.offset
    floats = ColumnType.FLOAT in (left, right)
    if floats and not (left is right and offset == 0):
        if offset == 0 and names[0] > names[1]:
            names, signs = (names[1], names[0]), mirrored(signs)
        # -0.0 becomes 0.0: equal normal forms have equal texts, of which keys are made
        return [Draft(here, set(), {(*names, GapKind.FLOATS, float(offset) + 0.0): signs})]
    whole, signs = _whole(offset, signs)
    if abs(whole) > GREATEST:
        raise QueryError(f"the offset in {term_text(term)} is beyond the range of 64-bit integers")
    if names[0] == names[1]:
        signs &= LESS if whole > 0 else GREATER if whole < 0 else EQUAL
        signs = ANY if signs else 0
    if signs in (0, ANY):
        return [Draft(here)] if signs else []
    if names[0] > names[1]:
        names, whole, signs = (names[1], names[0]), -whole, mirrored(signs)
    kind = GapKind.TEXT if left is ColumnType.STRING else GapKind.CODES
    return [Draft(here, set(), {(*names, kind, whole): signs})]


def _whole(offset: int | float, signs: int) -> tuple[int, int]:
    """Integers and a fraction: a <= b + 1.5 is a <= b + 1, a = b + 1.5 is never true, a != b + 1.5 always."""
    low = math.floor(offset)
    if low == offset:
        return low, signs
    if signs & GREATER:
        return low + 1, ANY if signs & LESS else GREATER | EQUAL
    return low, LESS | EQUAL if signs & LESS else 0


def _presence(column: str, kind: ColumnType) -> dict[str, Bound]:
    return {column: Bound(column, kind, DOMAINS[kind].least, DOMAINS[kind].greatest)}


def _only_missing(column: str, kind: ColumnType) -> Draft:
    return Draft({column: Bound(column, kind, DOMAINS[kind].missing, DOMAINS[kind].missing)})


def _check_types(term: Difference, left: ColumnType, right: ColumnType) -> None:
    if left is not right and not (left.is_number and right.is_number):
        raise QueryError(f"{term.column} is a {left} and {term.other} a {right}: they cannot be compared")
    if not abs(term.offset) <= sys.float_info.max:
        raise QueryError(f"the offset of {term.column} {term.op.value} {term.other} must be a finite number")
    if term.offset and left in (ColumnType.STRING, ColumnType.BOOL):
        raise QueryError(f"{term.other} is a {right}: nothing can be added to it")


# What is impossible on paper, though not in float64.


def _contradictory(conjunction: Conjunction) -> bool:
    """Whether the conjunction's graph over the reals, where nothing is rounded, has a cycle below zero."""
    edges: dict[tuple[str, str], Weight] = {}
    for gap in conjunction.gaps:
        if gap.kind is not GapKind.TEXT:
            offset, loose = Fraction(gap.offset), 1 if gap.signs & EQUAL else 0
            if not gap.signs & GREATER:
                pair, weight = (gap.left, gap.right), (offset, loose)
                edges[pair] = min(weight, edges.get(pair, weight))
            if not gap.signs & LESS:
                pair, weight = (gap.right, gap.left), (-offset, loose)
                edges[pair] = min(weight, edges.get(pair, weight))
    for bound in conjunction.bounds:
        low, high = _real(bound.type, bound.low), _real(bound.type, bound.high)
        if high is not None:
            edges[bound.column, ZERO] = (high, 1)
        if low is not None:
            edges[ZERO, bound.column] = (-low, 1)
    return bool(conjunction.gaps) and closure(edges) is None


def _real(kind: ColumnType, position: Position) -> Fraction | None:
    """The number at a position; None where it is no bound: strings, infinities, the ends of int64."""
    if kind is ColumnType.STRING or position in DOMAINS[kind]:
        return None
    return Fraction(float_value(position)) if kind is ColumnType.FLOAT else Fraction(position)
