"""Which outcomes a comparison of two columns can still have, given something else that holds.

For a gap, the outcomes (a set of LESS, EQUAL, GREATER) that bounds, another gap or a closure leave. No
outcome is left out that a row could show. FLOATS gaps round `right + offset`; the rules use only that
rounding is monotone: y <= z gives round(y + c) <= round(z + c).
"""

from __future__ import annotations

from anabranch.model.columns import ColumnType
from anabranch.predicates.codes import Position, float_value
from anabranch.predicates.conjunction import ANY, EQUAL, GREATER, LESS, Bound, Gap, GapKind
from anabranch.predicates.graph import Edges


def number(kind: ColumnType, position: Position) -> float:
    """The value at a position of a number column, as the float64 that FLOATS gaps compare."""
    return float_value(position) if kind is ColumnType.FLOAT else float(position)


def by_bounds(left: Bound, right: Bound, gap: Gap) -> int:
    """a <= 3 and b >= 5 leave a < b only."""
    if gap.kind is GapKind.FLOATS:
        sums = number(right.type, right.low) + gap.offset, number(right.type, right.high) + gap.offset
        return _apart(number(left.type, left.low), number(left.type, left.high), *sums)
    if gap.kind is GapKind.TEXT:
        return _apart(left.low, left.high, right.low, right.high)
    return _apart(left.low, left.high, right.low + gap.offset, right.high + gap.offset)


def by_gap(known: Gap, wanted: Gap) -> int:
    """a < b + 3 leaves a < b + 5 only; a <= b + 3 leaves a <= b + 5, and both outcomes of it:
    1e300 <= 1e300 + 3 is true, and 1e300 < 1e300 + 5 is not."""
    if (known.left, known.right, known.kind) != (wanted.left, wanted.right, wanted.kind):
        return ANY
    if known.offset == wanted.offset:
        return known.signs
    side = LESS if known.offset < wanted.offset else GREATER
    if known.signs & ~(side | EQUAL):
        return ANY
    return side | (known.signs & EQUAL)


def by_closure(closed: Edges, gap: Gap) -> int:
    """CODES and TEXT gaps are exact, so what the graph says holds on rows."""
    signs, offset = ANY, int(gap.offset)
    upper, lower = closed.get((gap.left, gap.right)), closed.get((gap.right, gap.left))
    if upper is not None and upper <= (offset, 1):
        signs &= LESS if upper < (offset, 1) else LESS | EQUAL
    if lower is not None and lower <= (-offset, 1):
        signs &= GREATER if lower < (-offset, 1) else GREATER | EQUAL
    return signs


def _apart(low: Position, high: Position, other_low: Position, other_high: Position) -> int:
    """The outcomes for a left in [low, high] and a right in [other_low, other_high]."""
    signs = 0
    if low < other_high:
        signs |= LESS
    if low <= other_high and other_low <= high:
        signs |= EQUAL
    if high > other_low:
        signs |= GREATER
    return signs
