"""Boxes of the items of a batch; and of earlier ones, where there are many queries.

In: the items of the buffer and the new ones. Out: boxes of the new ones, and of as many before them as are
known. Never: stored. A worker keeps the boxes of the batches it has seen, and looks item by item at what is
in none of them; so what is found does not depend on them.

When a ball grows, what waits beyond it is looked for in the whole buffer. With thousands of queries some do
in every batch, and boxes of the buffer are worth the copies that put them side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.families.nearest.space import By
from anabranch.kernels.boxes import BLOCK, Boxes, boxes_of
from anabranch.zones.columns import Array
from anabranch.zones.state import State

#: Batches with fewer items have blocks that are too small to be kept.
_LEAST = 2048


@dataclass(frozen=True)
class _Kept:
    """The boxes of one batch; its first item has the place `origin` in them."""

    numbers: Array
    origin: int
    boxes: Boxes


def boxes(state: State, by: By, numbers: Array, place: Array, fresh: int, many: bool) -> Boxes:
    """The boxes of the items from `fresh` on and, if many queries ask, of those before that are known.

    numbers: int64[n], ascending; place: float64[d, n]
    """
    new = boxes_of(place, fresh, BLOCK)
    known: list[_Kept] = state.derived(f"boxes {by}", [], list)
    if not many or len(numbers) - fresh < _LEAST:
        known.clear()
        return new
    before = _in_a_row(known, numbers, fresh)
    known[:] = [*(kept for _, kept in before), _Kept(numbers[fresh:].copy(), fresh, new)]
    return _side_by_side(before, new) if before else new


def _in_a_row(known: list[_Kept], numbers: Array, fresh: int) -> list[tuple[int, _Kept]]:
    """Those that hold all items before `fresh` from some place on, with where that is, oldest first.

    Items may have come to be known late, or by another worker: what does not match ends the row.
    """
    out: list[tuple[int, _Kept]] = []
    stop = fresh
    for kept in reversed(known):
        first = max(0, stop - len(kept.numbers))
        if stop == 0 or not np.array_equal(numbers[first:stop], kept.numbers[first - stop :]):
            if out or stop == 0:
                break
            continue  # of a batch that is run again
        out.append((first, kept))
        stop = first
    return out[::-1]


def _side_by_side(before: list[tuple[int, _Kept]], new: Boxes) -> Boxes:
    """One set of boxes, with places as they are now."""
    parts, starts = [], []
    for place, (first, kept) in enumerate(before):
        after = before[place + 1][0] if place + 1 < len(before) else int(new.start[0])
        shift = after - len(kept.numbers) - kept.origin
        item = kept.boxes.item + shift
        item[(kept.boxes.item < 0) | (item < first)] = -1
        parts.append(kept.boxes._replace(item=item))
        starts.append(np.maximum(first, kept.boxes.start[:-1] + shift))
    parts.append(new)
    starts.append(new.start)
    _, *arrays = zip(*parts, strict=True)
    return Boxes(np.concatenate(starts), *(_stacked(list(of_parts)) for of_parts in arrays))


def _stacked(parts: list[Array]) -> Array:
    """All blocks in one array. Some have fewer leaves; nobody looks at what is added."""
    shape = np.max([part.shape for part in parts], axis=0)
    out = np.empty((sum(len(part) for part in parts), *shape[1:]), parts[0].dtype)
    first = 0
    for part in parts:
        out[(slice(first, first + len(part)), *(slice(size) for size in part.shape[1:]))] = part
        first += len(part)
    return out
