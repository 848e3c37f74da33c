"""What the parts of a group know of windows, made one: cores, trees and edges as if it were in one zone.

In: what each part knows (`part`), the coordinates of the points. Out: Grown, from which clusters and roles
come as in a group that is not split (`found`). Never: a distance between two points, but to tell which of two
cores is nearer to an edge.

Every point has one owner, whose word on whether it is core holds. The cells of all parts lie side by side;
trees of two parts are joined at the border points of one that are the other's (kernels/merging).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.families.clusters.found import Grown
from anabranch.kernels import cores, merging
from anabranch.kernels.crossings import Touched
from anabranch.kernels.roles import Woods
from anabranch.zones.columns import Array
from anabranch.zones.state import Arrays


def merged(parts: Sequence[Arrays], ranges: Array, counts: Array, starts: Array, points: Array) -> Grown:
    """Cores, trees and edges of windows given by range, as `Part.known` got them.

    points: float64[n, axes], all from the first point of all windows to the newest.
    """
    rank = np.unique(ranges, return_inverse=True)[1]
    due = cores.new_due(rank, counts, starts - starts.min(), int(rank[-1]) + 1)
    masks = np.zeros((len(points), due.counters.shape[1]), np.int64)
    for part in parts:
        masks[part["place"][part["own"]], : part["masks"].shape[1]] = part["masks"][part["own"]]
    woods, cells, shifts = _side_by_side(parts, len(starts), len(points))
    for part, of_rows, shift in zip(parts, cells, shifts, strict=True):
        borders = np.flatnonzero(~part["own"])
        known = part["masks"][borders]
        merging.unite_known(woods, masks, part["place"][borders], known, of_rows.take(borders, axis=1))
        touched = Touched(part["touched point"], part["touched window"], part["touched tree"])
        merging.unite_touched(woods, masks, touched, shift)
    merging.flatten(woods)
    point, core, window = (
        np.concatenate([part[f"edge {name}"] for part in parts]) for name in ("point", "core", "window")
    )
    return Grown(due, masks, woods, merging.nearest_edges(point, core, window, masks, points))


def _side_by_side(
    parts: Sequence[Arrays], windows: int, points: int
) -> tuple[Woods, list[Array], list[Array]]:
    """The trees of all parts, not joined yet; for each part the cells of its rows, int32[runs, rows], and
    where its cells begin, int32[windows].

    A run are windows in which points count as the same cells. Parts may have cut windows into different
    runs; these are cut wherever a part did so.
    """
    edges = np.unique(np.concatenate([part["runs"] for part in parts]))
    run_of = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    each = np.array([np.diff(part["at"]) for part in parts])  # cells by part and window
    shifts = (np.cumsum(each, axis=0) - each).astype(np.int32)
    at = np.concatenate([[0], np.cumsum(each.sum(axis=0))])
    leader, first = np.empty(at[-1], np.int32), np.empty(at[-1], np.int32)
    cell_of = np.zeros((len(edges) - 1, points), np.int32)
    cells = []
    for part, sizes, shift in zip(parts, each, shifts, strict=True):
        to = np.repeat(at[:-1] + shift - part["at"][:-1], sizes) + np.arange(len(part["leader"]))
        leader[to] = part["leader"] + np.repeat(shift, sizes)
        first[to] = part["first"]
        run = np.searchsorted(part["runs"], edges[:-1], side="right") - 1
        of_rows = part["cells"][run] + shift[edges[:-1], None]
        cell_of[:, part["place"][part["own"]]] = of_rows[:, part["own"]]
        cells.append(of_rows)
    return Woods(run_of, cell_of, at, leader, first), cells, list(shifts)
