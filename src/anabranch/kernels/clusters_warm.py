"""Calls the kernels of the clusters family once, with the types they are called with: see `warm`."""

from __future__ import annotations

import numpy as np

from anabranch.kernels import (
    cells,
    cores,
    crossings,
    forest,
    lists,
    merging,
    nearest_core,
    neighbours,
    ranks,
    roles,
    searchgrid,
    wide,
)


def warm_clusters() -> None:
    points, asked = np.zeros((4, 2)), ranks.new_asked([(1.0, 1)])
    kept, grid, side = lists.new_lists(4, 64), searchgrid.new_grid(4), searchgrid.cell_side(1.0)
    searchgrid.fill_grid(grid, points, 0, side)
    neighbours.enter(points, 0, 3, 0, grid, side, 1, kept, asked)
    lists.recast(kept, points, 3, asked.ranges, asked)
    lists.carry_over(kept, lists.new_lists(4, lists.entries_of(kept, 0, 3)), 0, 0, 3)
    due = cores.new_due(np.array([0]), np.array([1]), np.array([0]), 1)
    masks, reach = wide.rows(3, wide.WORDS), due.reach.reshape(-1, wide.WORDS)
    cores.core_masks(kept, due, 3, masks)
    filled, cell_of = cells.new_cells(4, 4, 2, 0), np.zeros((2, 3), np.int32)
    cells.fill(filled, points, 3, cells.side_of(cells.level_of(1.0, 2), 2))
    trees = forest.grow(filled, points, masks, 0, 1, 0, asked, reach, 1.0, 1.0, cell_of[0])
    cells.move(filled, 1)
    forest.grow_points(points, masks, 0, 1, 0, grid, side, 1, asked, reach, cell_of[1])
    leader, first, at = trees.leader.ravel(), trees.first.ravel(), np.zeros(1, np.int64)
    after = np.array([0, len(leader)])
    woods = roles.Woods(np.array([0]), cell_of[:1], after, leader, first)
    edges = nearest_core.room_for(due, 3, np.empty(0, np.int64))
    nearest_core.edges_in(kept, points, masks, due, 3, edges)
    border = np.zeros(1, np.int32)
    touched = crossings.touched_by(border, points, masks, woods, due, grid, side, 1, asked)
    merging.unite_known(woods, masks, border, masks[:1], cell_of[:1, :1].copy())
    merging.unite_touched(woods, masks, touched, border)
    merging.flatten(woods)
    edges = merging.nearest_edges(*nearest_core.one_by_one(edges), masks, points)
    clusters, kinds, counts = np.zeros(3, np.int32), np.zeros(3, np.uint8), np.zeros(1, np.int32)
    roles.roles_in(masks, woods, edges, due, 3, at, clusters, kinds, counts)
    roles.by_cluster(clusters, 1)
    roles.summarise(points, 0, clusters, kinds, 1)
