"""Whether whatever satisfies one condition satisfies another (StreamGlobe's MATCHPREDICATES, algorithm 3).

In: two conditions in normal form. Out: yes, or not known.
Never: a wrong yes. Between single conjunctions without FLOATS gaps the answer is complete, except that `!=`
between several columns can exclude more than is seen here (three different values in a range of two). For an
OR, each of its conjunctions must imply one of the other's: `a BETWEEN 1 AND 5` is not seen to imply
`a <= 3 OR a >= 2`.
"""

from __future__ import annotations

from functools import lru_cache

from anabranch.predicates import signs as sign
from anabranch.predicates.conjunction import ANY, Conjunction, Gap, GapKind, Normal
from anabranch.predicates.graph import Edges, closure
from anabranch.predicates.tighten import edges_of


def implies(first: Normal, second: Normal) -> bool:
    """Every item that satisfies `first` satisfies `second`."""
    wides = second.conjunctions
    return all(any(conjunction_implies(narrow, wide) for wide in wides) for narrow in first.conjunctions)


def conjunction_implies(narrow: Conjunction, wide: Conjunction) -> bool:
    for bound in wide.bounds:
        held = narrow.bound(bound.column)
        if held is None or held.low < bound.low or held.high > bound.high:
            return False
    for hole in wide.holes:
        held = narrow.bound(hole.column)
        outside = held is not None and not held.low <= hole.position <= held.high
        if not outside and hole not in narrow.holes:
            return False
    return all(not possible_signs(narrow, gap) & ~gap.signs for gap in wide.gaps)


def possible_signs(known: Conjunction, gap: Gap) -> int:
    """The outcomes that a comparison can have on the rows of a conjunction."""
    signs = ANY
    left, right = known.bound(gap.left), known.bound(gap.right)
    if left is not None and right is not None:
        signs &= sign.by_bounds(left, right, gap)
    for other in known.gaps:
        signs &= sign.by_gap(other, gap)
    if gap.kind is not GapKind.FLOATS and known.gaps:
        signs &= sign.by_closure(_closed(known), gap)
    return signs


@lru_cache(maxsize=4096)
def _closed(conjunction: Conjunction) -> Edges:
    closed = closure(edges_of({bound.column: bound for bound in conjunction.bounds}, list(conjunction.gaps)))
    assert closed is not None, "a conjunction of a normal form is satisfiable"
    return closed
