"""A draft of a conjunction becomes the one form that equal drafts share, or nothing if it can never be true.

A draft has the bounds, holes and gaps that the atoms of a condition say. The Conjunction has the tightest
bounds that follow, and nothing that follows from the rest. It holds for exactly the rows of the draft; where
a FLOATS gap rounds, less is concluded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from anabranch.model.columns import ColumnType
from anabranch.predicates import signs as sign
from anabranch.predicates.codes import AT, DOMAINS, GREATEST, Position, after, before
from anabranch.predicates.conjunction import (
    EQUAL,
    GREATER,
    LESS,
    UNEQUAL,
    Bound,
    Conjunction,
    Gap,
    GapKind,
    Hole,
    mirrored,
)
from anabranch.predicates.graph import ZERO, Edges, Weight, closure, minimal
from anabranch.predicates.work import Work

#: A bound can sharpen a gap and a gap a bound; more rounds than this only help conditions nobody writes.
ROUNDS = 16

GapKey = tuple[str, str, GapKind, int | float]


@dataclass
class Draft:
    """What the atoms of a conjunction say. Columns of gaps have bounds without MISSING."""

    bounds: dict[str, Bound] = field(default_factory=dict)
    holes: set[Hole] = field(default_factory=set)
    gaps: dict[GapKey, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return 1 + len(self.bounds) + len(self.holes) + len(self.gaps)

    def joined(self, other: Draft) -> Draft | None:
        """Both, or None where an interval or a comparison has no outcome left."""
        both = Draft(dict(self.bounds), set(self.holes), dict(self.gaps))
        return both if both.join(other) else None

    def join(self, other: Draft) -> bool:
        """Takes the other one in; False where an interval or a comparison has no outcome left."""
        self.holes |= other.holes
        for column, bound in other.bounds.items():
            known = self.bounds.get(column)
            bound = bound if known is None else _meet(known, bound.low, bound.high)
            if bound.low > bound.high:
                return False
            self.bounds[column] = bound
        for key, signs in other.gaps.items():
            self.gaps[key] = signs & self.gaps.get(key, signs)
            if not self.gaps[key]:
                return False
        return True


def tighten(draft: Draft, work: Work | None = None) -> Conjunction | None:
    work = work or Work()
    work.spend(2 + draft.size)
    if not draft.gaps and not draft.holes:
        left_over = (bound for bound in draft.bounds.values() if not bound.is_full)
        return None if _empty(draft.bounds) else Conjunction(tuple(sorted(left_over, key=_column)))
    bounds = dict(draft.bounds)
    gaps = [Gap(*key, signs) for key, signs in draft.gaps.items()]
    for _ in range(ROUNDS if gaps or draft.holes else 0):
        work.spend(len(draft.holes) + 20 * len(gaps))
        known = bounds.copy(), gaps
        _close_ends(bounds, draft.holes)
        gaps = _round(bounds, gaps, work) if not _empty(bounds) else gaps
        if _empty(bounds) or not all(gap.signs for gap in gaps):
            return None
        if known == (bounds, gaps):
            break
    closed = closure(edges_of(bounds, gaps), work) if gaps else {}
    if closed is None or _empty(bounds):
        return None
    exact = _exact_gaps(closed, bounds, work)
    if any(abs(gap.offset) > GREATEST for gap in exact):  # sums beyond int64: what was written is not
        exact = [gap for gap in gaps if gap.kind is not GapKind.FLOATS and gap.signs != UNEQUAL]
    left = exact + _unequal_gaps(gaps, closed, bounds) + _float_gaps(gaps, bounds, work)
    return Conjunction(
        tuple(sorted((bound for bound in bounds.values() if not bound.is_full), key=_column)),
        tuple(sorted(hole for hole in draft.holes if _inside(bounds.get(hole.column), hole))),
        tuple(sorted(left)),
    )


def _round(bounds: dict[str, Bound], gaps: list[Gap], work: Work) -> list[Gap]:
    """Narrows the bounds by the gaps; returns the gaps, sharpened, and without signs where nothing fits."""
    if not gaps:
        return gaps
    closed = closure(edges_of(bounds, gaps), work)
    if closed is None:
        return [replace(gap, signs=0) for gap in gaps]
    _narrow_by_closure(bounds, closed)
    for gap in gaps:
        if gap.kind is GapKind.FLOATS:
            work.spend(120)  # it searches by halving, four times
            _narrow_by_floats(bounds, gap)
    return [_sharpened(gap, bounds, closed) for gap in gaps]


def edges_of(bounds: dict[str, Bound], gaps: list[Gap]) -> dict[tuple[str, str], Weight]:
    """The graph of the exact gaps, and of the bounds of their columns."""
    edges: dict[tuple[str, str], Weight] = {}

    def add(x: str, y: str, weight: Weight) -> None:
        edges[x, y] = min(weight, edges.get((x, y), weight))

    for gap in gaps:
        if gap.kind is not GapKind.FLOATS:
            exact, text, offset = gap.signs & EQUAL, gap.kind is GapKind.TEXT, int(gap.offset)
            step = 0 if exact or text else -1  # on integers x < y + c is x <= y + c - 1
            loose = 1 if exact or not text else 0
            if not gap.signs & GREATER:
                add(gap.left, gap.right, (offset + step, loose))
            if not gap.signs & LESS:
                add(gap.right, gap.left, (-offset + step, loose))
    ranks = {text: rank for rank, text in enumerate(_text_positions(bounds))}
    for column in sorted({node for pair in edges for node in pair}):
        bound = bounds[column]
        low, high, domain = bound.low, bound.high, DOMAINS[bound.type]
        if bound.type is ColumnType.STRING:
            low, high = ranks[low], ranks[high]
        if bound.high != domain.greatest or bound.type is ColumnType.BOOL:
            add(column, ZERO, (high, 1))
        if bound.low != domain.least or bound.type is ColumnType.BOOL:
            add(ZERO, column, (-low, 1))
    return edges


def _text_positions(bounds: dict[str, Bound]) -> list[Position]:
    """Where text bounds lie, in order. The graph works on their ranks, of which only the order counts."""
    texts = [bound for bound in bounds.values() if bound.type is ColumnType.STRING]
    return sorted({position for bound in texts for position in (bound.low, bound.high)})


def _narrow_by_closure(bounds: dict[str, Bound], closed: Edges) -> None:
    texts = _text_positions(bounds)
    for column, bound in list(bounds.items()):
        upper, lower = closed.get((column, ZERO)), closed.get((ZERO, column))
        low, high = bound.low, bound.high
        if bound.type is ColumnType.STRING:
            if upper is not None:
                high = texts[int(upper[0])]
                high = before(high) if not upper[1] and high[2] == AT else high
            if lower is not None:
                low = texts[-int(lower[0])]
                low = after(low) if not lower[1] and low[2] == AT else low
        else:
            high = int(upper[0]) if upper is not None else high
            low = -int(lower[0]) if lower is not None else low
        bounds[column] = _meet(bound, low, high)


def _narrow_by_floats(bounds: dict[str, Bound], gap: Gap) -> None:
    """left <= round(right + c) bounds left from above by right's high, and right from below by left's low."""
    left, right = bounds[gap.left], bounds[gap.right]
    if left.low > left.high or right.low > right.high:
        return

    def here(p: int) -> float:
        return sign.number(left.type, p)

    def there(p: int) -> float:
        return sign.number(right.type, p) + gap.offset

    below = operator.le if gap.signs & EQUAL else operator.lt
    if not gap.signs & GREATER:
        top, bottom = there(right.high), here(left.low)
        left = replace(left, high=_last(left, lambda p: below(here(p), top)))
        right = replace(right, low=_first(right, lambda p: below(bottom, there(p))))
    if not gap.signs & LESS and left.low <= left.high and right.low <= right.high:
        top, bottom = here(left.high), there(right.low)
        left = replace(left, low=_first(left, lambda p: below(bottom, here(p))))
        right = replace(right, high=_last(right, lambda p: below(there(p), top)))
    bounds[gap.left] = left
    bounds[gap.right] = right if gap.right != gap.left else _meet(left, right.low, right.high)


def _last(bound: Bound, holds: Callable[[int], bool]) -> int:
    """The greatest position of the bound where `holds` is true, for one that is true up to a point."""
    low: int = bound.low
    high: int = bound.high
    if holds(high):
        return high
    low -= 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _first(bound: Bound, holds: Callable[[int], bool]) -> int:
    """The least position of the bound where `holds` is true, for one that is true from a point on."""
    low: int = bound.low
    return low if holds(low) else _last(bound, lambda p: not holds(p)) + 1


def _close_ends(bounds: dict[str, Bound], holes: set[Hole]) -> None:
    """a >= 3 AND a != 3 is a >= 4."""
    for hole in sorted(holes) + sorted(holes, reverse=True):
        bound = bounds.get(hole.column)
        if bound is not None and bound.low == hole.position:
            bounds[hole.column] = replace(bound, low=after(bound.low))
        elif bound is not None and bound.high == hole.position:
            bounds[hole.column] = replace(bound, high=before(bound.high))


def _sharpened(gap: Gap, bounds: dict[str, Bound], closed: Edges) -> Gap:
    """a <= b AND a != b is a < b."""
    possible = sign.by_bounds(bounds[gap.left], bounds[gap.right], gap)
    if gap.kind is not GapKind.FLOATS:
        possible &= sign.by_closure(closed, gap)
    left = gap.signs & possible
    return replace(gap, signs=left) if gap.signs == UNEQUAL or not left else gap


def _exact_gaps(closed: Edges, bounds: dict[str, Bound], work: Work) -> list[Gap]:
    """The minimal graph's edges between columns, as gaps; an edge there and one back are an equality."""
    merged: dict[GapKey, int] = {}
    for (x, y), (value, loose) in minimal(closed, work).items():
        if ZERO in (x, y):
            continue
        kind, offset, signs = GapKind.CODES, int(value), LESS | EQUAL
        if bounds[x].type is ColumnType.STRING:
            kind, offset, signs = GapKind.TEXT, 0, LESS | (EQUAL if loose else 0)
        elif bounds[x].type is ColumnType.FLOAT:  # one position less: strictly less
            offset, signs = 0, LESS | (EQUAL if value == 0 else 0)
        key: GapKey = (x, y, kind, offset) if x < y else (y, x, kind, -offset)
        signs = signs if x < y else mirrored(signs)
        merged[key] = signs & merged.get(key, signs)
    return [Gap(*key, signs) for key, signs in merged.items()]


def _unequal_gaps(gaps: list[Gap], closed: Edges, bounds: dict[str, Bound]) -> list[Gap]:
    exact = [gap for gap in gaps if gap.kind is not GapKind.FLOATS and gap.signs == UNEQUAL]
    return [
        gap
        for gap in exact
        if sign.by_closure(closed, gap) & sign.by_bounds(bounds[gap.left], bounds[gap.right], gap) & EQUAL
    ]


def _float_gaps(gaps: list[Gap], bounds: dict[str, Bound], work: Work) -> list[Gap]:
    """The FLOATS gaps that neither the bounds nor another one of them implies."""
    kept = [gap for gap in gaps if gap.kind is GapKind.FLOATS]
    work.spend(len(kept) * len(kept) // 2)
    for gap in sorted(kept):
        possible = sign.by_bounds(bounds[gap.left], bounds[gap.right], gap)
        for other in kept:
            possible &= sign.by_gap(other, gap) if other is not gap else possible
        if not possible & ~gap.signs:
            kept.remove(gap)
    return kept


def _column(bound: Bound) -> str:
    """There is one bound per column, so this orders them as they order themselves."""
    return bound.column


def _inside(bound: Bound | None, hole: Hole) -> bool:
    return bound is None or bound.low <= hole.position <= bound.high


def _empty(bounds: dict[str, Bound]) -> bool:
    return any(bound.low > bound.high for bound in bounds.values())


def _meet(bound: Bound, low: Position, high: Position) -> Bound:
    if low <= bound.low and high >= bound.high:
        return bound
    return replace(bound, low=max(low, bound.low), high=min(high, bound.high))
