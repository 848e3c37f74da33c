"""Calls the kernels of the clusters family once, with the types they are called with: see `warm`."""

from __future__ import annotations

import numpy as np

from anabranch.kernels import coretimes, forest, neighbours, roles, searchgrid


def warm_clusters() -> None:
    points = np.zeros((4, 2))
    ranges, limits = np.array([1.0]), np.array([1], np.int32)
    lists, grid, side = neighbours.new_lists(4, 24), searchgrid.new_grid(4), searchgrid.cell_side(1.0)
    searchgrid.fill_grid(grid, points, 0, side)
    neighbours.enter(points, 0, 3, 0, grid, side, 1, lists, ranges, limits)
    neighbours.carry_over(lists, lists, 0, 3)
    times = np.empty(3, np.int32)
    coretimes.core_times(lists, 1.0, 1, 0, 3, times)
    coretimes.cores(lists, 1.0, 1, 0, 3, times)
    cells = forest.new_cells(4, 4, 2)
    forest.into_cells(cells, points, 0, 3, forest.side_of(forest.level_of(1.0, 2), 2))
    trees = forest.new_trees(int(cells.used[0]), 3)
    forest.grow(trees, cells, points, times, 0, 3, 3, 1.0)
    alone = forest.new_trees(3, 3)
    forest.grow_points(alone, grid, side, 1, points, times, 0, 3, 3, 1.0)
    clusters, kinds = np.empty(3, np.int32), np.empty(3, np.uint8)
    count = roles.roles_in(lists, times, cells.cell_of, trees.leader, 1.0, 0, 3, clusters, kinds)
    roles.by_cluster(clusters, count)
    roles.summarise(points, 0, clusters, kinds, count)
