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

from anabranch.model.columns import ColumnType
from anabranch.model.errors import QueryError
from anabranch.model.limits import DEFAULT_LIMITS
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
from anabranch.predicates.needless import without_implied
from anabranch.predicates.terms import And, Constant, Difference, Not, Or, Term
from anabranch.predicates.text import inner_text, term_text
from anabranch.predicates.tighten import Draft, tighten
from anabranch.predicates.work import Work

#: So many times the limit are tried where one OR meets another, most of which may exclude each other.
TRIED = 8
#: From so many on, those that imply each other are left out before the next OR is met, where no limit says
#: otherwise.
MANY = DEFAULT_LIMITS.conjunctions
#: So many alternatives are named in the reason why none can be true.
SHOWN = 3


def normal_form(term: Term, stream: Stream, work: Work | None = None) -> Normal:
    """`work` bounds what may be spent; LimitError if it takes more."""
    work = work or Work()
    conjunctions = (tighten(draft, work) for draft in _unfold(term, False, stream, work))
    normal = Normal(tuple(without_implied((c for c in conjunctions if c is not None), work)))
    work.check_alternatives(len(normal.conjunctions))
    return normal


def is_possible(normal: Normal, work: Work | None = None) -> bool:
    """Whether some item could satisfy the condition.

    Here a FLOATS gap counts as on paper: `a >= b + 5 AND a <= b + 3` is refused, though rounding makes it
    true at 1e300.
    """
    work = work or Work()
    return not all(_contradictory(conjunction, work) for conjunction in normal.conjunctions)


def unsatisfiable_reason(term: Term, stream: Stream, work: Work | None = None) -> str | None:
    """None if some item could satisfy the condition, otherwise a sentence that says why none can."""
    work = work or Work()
    conjuncts = list(_conjuncts(term))
    unfolded = [_unfold(part, False, stream, work) for part in conjuncts]
    if not _no_way(unfolded, work):
        return None
    parts = [conjuncts[index] for index in _excluding(unfolded, work)]
    if len(parts) > 1:
        texts = [inner_text(part) for part in parts]
        return f"{', '.join(texts[:-1])} and {texts[-1]} exclude each other"
    if isinstance(parts[0], Or) and parts[0].terms:
        shown, rest = parts[0].terms[:SHOWN], len(parts[0].terms[SHOWN:])
        reasons = (unsatisfiable_reason(alternative, stream, work) for alternative in shown)
        return "; ".join(filter(None, (*reasons, f"and so on, {rest} more" if rest else None)))
    return f"{term_text(parts[0])} can never be true"


def _excluding(parts: list[list[Draft]], work: Work) -> list[int]:
    """The fewest parts that exclude each other, each found by halving: the last of the shortest impossible
    beginning is one of them. Parts are lists of alternatives; returns their indexes.
    """
    found: list[int] = []
    rest = len(parts)
    while rest and not (found and _no_way([parts[index] for index in found], work)):
        needed = [parts[index] for index in found]
        below, above = 0, rest  # the first `above` parts and the found ones exclude each other
        while above - below > 1:
            middle = (below + above) // 2
            if _no_way([*parts[:middle], *needed], work):
                above = middle
            else:
                below = middle
        rest = above - 1
        found = [rest, *found]
    return found


def _no_way(parts: list[list[Draft]], work: Work) -> bool:
    conjunctions = (tighten(draft, work) for draft in _all_of(parts, work))
    return all(found is None or _contradictory(found, work) for found in conjunctions)


def _conjuncts(term: Term) -> Iterable[Term]:
    match term:
        case And(terms=terms) if terms:
            for part in terms:
                yield from _conjuncts(part)
        case _:
            yield term


# Unfolding: every step returns alternatives.


def _unfold(term: Term, negated: bool, stream: Stream, work: Work) -> list[Draft]:
    match term:
        case Constant():
            work.spend(6)
            return _constant(term, negated, stream)
        case Difference():
            work.spend(10)
            return _difference(term, negated, stream)
        case Not(term=inner):
            return _unfold(inner, not negated, stream, work)
        case And(terms=terms) | Or(terms=terms):
            parts = [_unfold(part, negated, stream, work) for part in terms]
            return (_all_of if isinstance(term, And) is not negated else _one_of)(parts, work)


def _one_of(parts: list[list[Draft]], work: Work) -> list[Draft]:
    return _within_limit([draft for part in parts for draft in part], work)


def _all_of(parts: list[list[Draft]], work: Work) -> list[Draft]:
    """What is alone needs no copies: it goes into one draft, which then meets the alternatives."""
    common = Draft()
    for part in parts:
        if not part:
            return []
        if len(part) == 1:
            work.spend(part[0].size // 2)
            if not common.join(part[0]):
                return []
    drafts = [common]
    for part in parts:
        if len(part) > 1:
            pairs = len(drafts) * len(part)
            work.check_alternatives(pairs, TRIED if _columns(drafts) & _columns(part) else 1)
            work.spend(3 * pairs + sum(draft.size for draft in drafts) * len(part) // 4)
            work.spend(sum(draft.size for draft in part) * len(drafts))
            joined = (left.joined(right) for left in drafts for right in part)
            drafts = _within_limit([draft for draft in joined if draft is not None], work)
    return drafts


def _columns(drafts: list[Draft]) -> set[str]:
    """Where two ORs share none, no alternative of one excludes one of the other."""
    return {column for draft in drafts for column in draft.bounds}


def _within_limit(drafts: list[Draft], work: Work) -> list[Draft]:
    if len(drafts) <= (MANY if work.limits is None else work.limits.conjunctions):
        return drafts
    kept: dict[Conjunction, Draft] = {}
    for draft in drafts:
        conjunction = tighten(draft, work)
        if conjunction is not None:
            kept[conjunction] = draft
    left = [kept[conjunction] for conjunction in without_implied(kept, work)]
    work.check_alternatives(len(left))
    return left


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


def _contradictory(conjunction: Conjunction, work: Work) -> bool:
    """Whether the conjunction's graph over the reals, where nothing is rounded, has a cycle below zero."""
    if not conjunction.gaps:
        return False
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
    return closure(edges, work) is None


def _real(kind: ColumnType, position: Position) -> Fraction | None:
    """The number at a position; None where it is no bound: strings, infinities, the ends of int64."""
    if kind is ColumnType.STRING or position in DOMAINS[kind]:
        return None
    return Fraction(float_value(position)) if kind is ColumnType.FLOAT else Fraction(position)
