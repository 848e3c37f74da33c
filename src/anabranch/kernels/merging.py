"""Trees and edges that parts of a plane found, made one: cores that two parts know of join their trees.

Trees are roles.Woods, with the cells of all parts side by side; here places are those of the merged windows.
A border point of one part is another's own: where its owner finds it core, the tree that it has there and all
trees that the part has it in, or finds it touches, are one. An edge belongs to the nearest core that any
part found, the earliest of equally near ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.kernels.bits import lowest
from anabranch.kernels.cores import BITS
from anabranch.kernels.crossings import Touched
from anabranch.kernels.forest import NOBODY
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.nearest_core import Edges, core_in, pair_of
from anabranch.kernels.roles import Woods
from anabranch.kernels.searchgrid import distance_of

Array = np.ndarray[Any, Any]


@leaf
def _root(leader: Array, low: int, cell: int) -> int:
    """The cell that stands for the tree of a cell of a window whose cells begin at `low`; shortens the
    way.
    """
    while leader[low + cell] != cell:
        leader[low + cell] = leader[low + leader[low + cell]]
        cell = leader[low + cell]
    return cell


@leaf
def _unite(leader: Array, first: Array, low: int, one: int, other: int) -> None:
    here, there = _root(leader, low, one), _root(leader, low, other)
    if here != there:
        kept, gone = min(here, there), max(here, there)
        leader[low + gone] = kept
        first[low + kept] = min(first[low + kept], first[low + gone])
        first[low + gone] = NOBODY


@kernel
def unite_known(woods: Woods, masks: Array, place: Array, known: Array, cells: Array) -> None:
    """Joins trees at the border points of a part that it knows to be core.

    masks: int64[points, words], what owners say; place: int32[borders]; known: int64[borders, words], the
    windows in which the part knows it; cells: int32[runs, borders], the cells that they count as there.
    """
    for border in range(len(place)):
        point = place[border]
        for word in range(known.shape[1]):
            bits = known[border, word] & masks[point, word]
            while bits:
                window = word * BITS + lowest(bits)
                bits &= bits - 1
                run = woods.part[window]
                here, there = cells[run, border], woods.cell_of[run, point]
                _unite(woods.leader, woods.first, woods.at[window], here, there)


@kernel
def unite_touched(woods: Woods, masks: Array, touched: Touched, shift: Array) -> None:
    """Joins the trees that border points touch where these are core.

    shift: int32[windows], where the cells of the part that says so begin among those of all parts.
    """
    for link in range(len(touched.point)):
        point, window = touched.point[link], touched.window[link]
        if masks[point, window // BITS] >> (window % BITS) & 1:
            here = touched.tree[link] + shift[window]
            there = woods.cell_of[woods.part[window], point]
            _unite(woods.leader, woods.first, woods.at[window], here, there)


@kernel
def flatten(woods: Woods) -> None:
    """Makes all cells know the one that stands for their tree."""
    for window in range(len(woods.part)):
        low = woods.at[window]
        for cell in range(woods.at[window + 1] - low):
            woods.leader[low + cell] = _root(woods.leader, low, cell)


@kernel
def nearest_edges(points: Array, cores: Array, windows: Array, masks: Array, coordinates: Array) -> Edges:
    """Of all that parts found, the nearest core of each edge in each window; nothing for points that are
    core. points, cores, windows: int32[edges]; coordinates: float64[points, axes]
    """
    count, ends = len(points), np.zeros(masks.shape[1] * BITS + 1, np.int64)
    for window in windows:
        ends[window + 1] += 1
    for window in range(1, len(ends)):
        ends[window] += ends[window - 1]
    order = np.empty(count, np.int64)
    for edge in range(count):
        order[ends[windows[edge]]] = edge
        ends[windows[edge]] += 1
    at = np.full(len(masks), -1, np.int64)  # where the edge of each point is among the chosen ones
    chosen = Edges(np.empty(count, np.int64), np.zeros(len(ends), np.int64), np.zeros(len(ends), np.int64))
    pairs, used, rank = chosen.pairs, 0, 0
    for window in range(len(ends)):
        chosen.begin[window] = used
        while rank < count and windows[order[rank]] == window:
            point, core = points[order[rank]], cores[order[rank]]
            rank += 1
            if masks[point, window // BITS] >> (window % BITS) & 1:
                continue
            held = at[point]
            if held < chosen.begin[window]:
                at[point] = used
                pairs[used] = pair_of(point, core)
                used += 1
                continue
            other = core_in(pairs[held])
            before, now = distance_of(coordinates, point, other), distance_of(coordinates, point, core)
            if now < before or (now == before and core < other):
                pairs[held] = pair_of(point, core)
        chosen.end[window] = used
    return chosen
