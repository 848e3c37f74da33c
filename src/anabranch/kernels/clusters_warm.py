"""Calls the kernels of the clusters family once, with the types they are called with: see `warm`."""

from __future__ import annotations

import numpy as np

from anabranch.kernels import cores, forest, lists, neighbours, ranks, roles, searchgrid


def warm_clusters() -> None:
    points, asked = np.zeros((4, 2)), ranks.new_asked([(1.0, 1)])
    kept, grid, side = lists.new_lists(4, 64), searchgrid.new_grid(4), searchgrid.cell_side(1.0)
    searchgrid.fill_grid(grid, points, 0, side)
    neighbours.enter(points, 0, 3, 0, grid, side, 1, kept, asked)
    lists.recast(kept, points, 3, asked.ranges, asked)
    lists.carry_over(kept, lists.new_lists(4, lists.entries_of(kept, 0, 3)), 0, 0, 3)
    due = cores.new_due(np.array([0]), np.array([1]), np.array([0]), [1], 1)
    masks, ordered = np.empty((3, 1), np.int64), lists.in_order(kept, 0, 3)
    cores.core_masks(ordered, kept.bound, due, 3, masks)
    side_of_cells, mask, reach = (
        forest.side_of(forest.level_of(1.0, 2), 2),
        masks[:, 0].copy(),
        due.reach[:, 0].copy(),
    )
    trees = forest.grow(points, mask, 0, 3, side_of_cells, 1, asked, reach)
    forest.grow_points(points, mask, 0, 3, grid, side, 1, 1, asked, reach)
    edges = roles.edges_in(ordered, points, masks, due, 3)
    before, at = np.array([0, trees.leader.shape[1]]), np.zeros(1, np.int64)
    woods = roles.Woods(trees.cell_of.reshape(1, -1), before, trees.leader.ravel(), at)
    clusters, kinds, counts = np.zeros(3, np.int32), np.zeros(3, np.uint8), np.zeros(1, np.int32)
    roles.roles_in(masks, woods, edges, due, 3, at, clusters, kinds, counts)
    roles.by_cluster(clusters, 1)
    roles.summarise(points, 0, clusters, kinds, 1)
