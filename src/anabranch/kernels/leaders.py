"""Trees of cells while they grow, for up to 63 windows at once: a row of leaders a cell, one number a window.

In: which cells belong together in which windows (`forest`). Out: whether two cells are in the same tree. All
windows of two rows are compared or joined at once (`wide`); only where that does not tell, one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.kernels.bits import lowest
from anabranch.kernels.jit import kernel, leaf
from anabranch.kernels.wide import NUMBERS, are, copy, differ, spread

Array = np.ndarray[Any, Any]


class Leaders(NamedTuple):
    """The trees while they grow. A cell has a row once it is linked to another; rows lead on to others, one
    step a window, to the one that stands for the tree, which leads itself. Rows are read and written 64
    numbers at a time: a new one overwrites only what is not in use yet.
    """

    windows: int
    row_of: Array  # int32[cells], or -1
    cell_of: Array  # int32[rows]
    used: Array  # int64[1]: how many rows there are
    linked: Array  # int64[cells]: the windows in which a cell is linked to another
    leader: Array  # int32[rows * windows + NUMBERS]: a row is read with what is behind it


@kernel
def new_leaders(cells: int, rows: int, windows: int) -> Leaders:
    return Leaders(
        windows, np.full(cells, -1, np.int32), np.empty(rows, np.int32), np.zeros(1, np.int64),
        np.zeros(cells, np.int64), np.empty(rows * windows + NUMBERS, np.int32),
    )  # fmt: skip


@leaf
def tree_of(leaders: Leaders, row: int, window: int) -> int:
    """The row that stands for the tree of a row; shortens the way there."""
    leader, windows = leaders.leader, leaders.windows
    while True:
        at = np.uint64(row * windows + window)
        next_ = leader[at]
        if next_ == row:
            return row
        row = leader[np.uint64(next_ * windows + window)]
        leader[at] = row


@leaf
def apart_in(leaders: Leaders, one: int, other: int, both: int) -> int:
    """Those of the windows `both`, in which two cells are linked, in which they are in different trees."""
    apart = 0
    if both:
        here, there = leaders.row_of[one], leaders.row_of[other]
        both &= differ(leaders.leader, here * leaders.windows, there * leaders.windows)
        while both:
            window = lowest(both)
            both &= both - 1
            if tree_of(leaders, here, window) != tree_of(leaders, there, window):
                apart |= 1 << window
    return apart


@leaf
def _link(leaders: Leaders, cell: int, windows: int) -> int:
    """Links a cell in some windows to itself; returns its row."""
    leaders.linked[cell] |= windows
    row = leaders.row_of[cell]
    if row < 0:
        row = leaders.used[0]
        leaders.used[0] += 1
        leaders.row_of[cell], leaders.cell_of[row] = row, cell
        spread(leaders.leader, row * leaders.windows, row)
    return row


@leaf
def join(leaders: Leaders, one: int, other: int, windows: int) -> None:
    """Joins the trees of two cells in windows in which they are in different ones. Mostly one of the two
    leads itself, and then it is led on to where the other is.
    """
    leader, here, there = leaders.leader, _link(leaders, one, windows), _link(leaders, other, windows)
    mine, theirs = here * leaders.windows, there * leaders.windows
    alone = windows & are(leader, mine, here)
    copy(leader, theirs, mine, alone)
    windows &= ~alone
    alone = windows & are(leader, theirs, there)
    copy(leader, mine, theirs, alone)
    windows &= ~alone
    while windows:
        window = lowest(windows)
        windows &= windows - 1
        top = tree_of(leaders, here, window)
        leader[top * leaders.windows + window] = tree_of(leaders, there, window)
