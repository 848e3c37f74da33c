"""Leaves out the conjunctions of an OR that imply another one.

    a <= 1  OR  a <= 2  OR  b = 5        ->  a <= 2  OR  b = 5

Whoever implies another lies in its box (the bounds of every column), so boxes are compared first, in arrays:
all that bound the same columns at once. Only pairs with holes or gaps are then looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.model.arrays import Array
from anabranch.predicates.conjunction import Conjunction
from anabranch.predicates.implies import conjunction_implies
from anabranch.predicates.work import Work

#: So many comparisons of numbers in arrays are one step.
AT_ONCE = 400


def without_implied(conjunctions: Iterable[Conjunction], work: Work) -> list[Conjunction]:
    """Those that imply none of the others, in order; of equal ones the first."""
    by_key = {_key(conjunction): conjunction for conjunction in conjunctions}
    ordered = [by_key[key] for key in sorted(by_key)]
    if len(ordered) < 2:
        return ordered
    wider: dict[int, list[int]] = {}
    narrower: dict[int, list[int]] = {}
    for narrow, wide in _implied_pairs(ordered, work):
        wider.setdefault(narrow, []).append(wide)
        narrower.setdefault(wide, []).append(narrow)
    kept: dict[int, None] = {}
    for index in range(len(ordered)):
        if any(other in kept for other in wider.get(index, ())):
            continue
        for other in narrower.get(index, ()):
            kept.pop(other, None)
        kept[index] = None
    return [ordered[index] for index in kept]


def _key(conjunction: Conjunction) -> tuple[Any, ...]:
    """Orders conjunctions as they order themselves, in less time."""
    bounds = tuple((bound.column, bound.type, bound.low, bound.high) for bound in conjunction.bounds)
    return bounds, conjunction.holes, conjunction.gaps


def _implied_pairs(ordered: list[Conjunction], work: Work) -> Iterator[tuple[int, int]]:
    """Which conjunction implies which other one, by index."""
    for i, j in _boxes_inside(ordered, work):
        known, wanted = ordered[i], ordered[j]
        if not wanted.is_box:  # a box has nothing but its bounds to be implied
            work.spend(2 + len(wanted.bounds) * len(known.bounds) // 8 + len(wanted.holes))
            work.spend(2 * len(wanted.gaps) * (1 + len(known.gaps)))
            if not conjunction_implies(known, wanted):
                continue
        yield i, j


@dataclass
class _Boxes:
    """Conjunctions that bound the same columns: their indexes, and their bounds as ranks,
    int32[boxes, columns].
    """

    columns: tuple[str, ...]
    rows: list[int]
    low: Array
    high: Array


def _boxes_inside(ordered: list[Conjunction], work: Work) -> Iterator[tuple[int, int]]:
    """The pairs of which the first one's box lies in the second one's."""
    groups = _grouped(ordered, work)
    bits = {column: 1 << (number % 62) for number, column in enumerate(_all_columns(groups))}
    masks = np.array([sum({bits[column] for column in group.columns}) for group in groups], np.int64)
    for group, mask in zip(groups, masks, strict=True):
        work.spend(3 + len(groups) // 100)
        for other in np.nonzero((masks & ~mask) == 0)[0].tolist():  # whoever lies in a box bounds its columns
            wide = groups[other]
            if wide is group and len(group.rows) == 1:
                continue
            work.spend(2 + len(group.rows) * len(wide.rows) * len(wide.columns) // AT_ONCE)
            yield from _pairs_inside(group, wide, work)


def _pairs_inside(narrow: _Boxes, wide: _Boxes, work: Work) -> Iterator[tuple[int, int]]:
    if not set(wide.columns) <= set(narrow.columns):
        return
    inside = np.ones((len(narrow.rows), len(wide.rows)), bool)
    for number, column in enumerate(wide.columns):
        at = narrow.columns.index(column)
        inside &= narrow.low[:, at, None] >= wide.low[:, number]
        inside &= narrow.high[:, at, None] <= wide.high[:, number]
    if narrow is wide:
        np.fill_diagonal(inside, False)
    work.spend(2 * int(np.count_nonzero(inside)))
    for i, j in zip(*(indexes.tolist() for indexes in np.nonzero(inside)), strict=True):
        yield narrow.rows[i], wide.rows[j]


def _grouped(ordered: list[Conjunction], work: Work) -> list[_Boxes]:
    work.spend(sum(len(conjunction.bounds) for conjunction in ordered))
    positions: dict[str, set[Any]] = {}
    rows: dict[tuple[str, ...], list[int]] = {}
    for row, conjunction in enumerate(ordered):
        columns = []
        for bound in conjunction.bounds:
            columns.append(bound.column)
            positions.setdefault(bound.column, set()).update((bound.low, bound.high))
        rows.setdefault(tuple(columns), []).append(row)
    ranks = {
        column: {position: rank for rank, position in enumerate(sorted(found))}
        for column, found in positions.items()
    }
    out = []
    for columns_, members in rows.items():
        low = [[ranks[bound.column][bound.low] for bound in ordered[row].bounds] for row in members]
        high = [[ranks[bound.column][bound.high] for bound in ordered[row].bounds] for row in members]
        shape = len(members), len(columns_)
        out.append(
            _Boxes(
                columns_,
                members,
                np.array(low, np.int32).reshape(shape),
                np.array(high, np.int32).reshape(shape),
            )
        )
    return out


def _all_columns(groups: list[_Boxes]) -> list[str]:
    return sorted({column for group in groups for column in group.columns})
