"""IntView, the structure of the Chandi paper: the predicted views of all queries in all windows as one tree.

    newest window    root -> more relaxed queries ...        a view is a window and a node of the predicted
                      |                                      view tree (`ViewTree`), which is the same in all
    older window     root -> ...                             windows; node 0 is the most restricted query
                      |
    oldest window    root -> ...

The clusters of a view grow along this tree: from the root of a window to the nodes above it (lemma 5.5), and
from the root of a window to that of the window before (lemma 6.2). Nodes are numbered in preorder, so the
nodes above node i are i .. out[i] - 1.

**Types.** A point is core at a node in its oldest windows up to some window; `short` says how many of its
newest windows these leave out.

**Memberships** are stored where they change (section 4). A core leads on to another core at the first view of
a path at which both are in one cluster, and with it at all views beyond. A core has at most one link on a
path, so there are never more than cores on a path: this is the bound of lemma 4.1.

**Exact neighbours** are kept by a point as long as some view needs them: one at which it is not core and they
are neighbours (hybrid neighbourship abstraction).

What figure 17 calls DistributeNeighbor and PropagateNewCore is `_connect`: it goes along every path to the
first view at which two points are neighbours and both core, and no further.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.families.clusters.kernels.neighbour_lists import distance_of
from anabranch.families.clusters.kernels.point_roles import CORE, EDGE, NOISE
from anabranch.model.arrays import Bools, Bytes, Floats, Ints, Ints32
from anabranch.numeric.bits import lowest
from anabranch.numeric.jit import int64, kernel, leaf
from anabranch.simulate.clusters.kernels.range_search import BatchNeighbours

#: Nodes in a word; the sign is left alone.
BITS = 63
#: Is more than a point has windows: it is core in none.
NONE = (1 << 15) - 1


class ViewTree(NamedTuple):
    """The predicted view tree: (range, count) of each node, in preorder."""

    ranges: Floats  # [nodes]
    counts: Ints32  # [nodes]
    out: Ints32  # [nodes]: the first node that is not above this one
    steps: Floats  # [ranks]: all ranges, ascending
    within: Ints  # [ranks + 1, words]: by rank of a distance, the nodes whose range is no less, as bits


class PredictedWindows(NamedTuple):
    """The windows of the meta query, by number modulo `len(starts)`."""

    starts: Ints  # [windows]: position of the first point
    until: Ints  # [windows, nodes]: the end of the last window of a query of this node or one above it
    serves: Ints  # [windows, words]: the nodes of which that has not come, as bits


class IntView(NamedTuple):
    """Points are slots of a ring, position modulo the largest window."""

    position: Ints  # [slots]
    last: Ints  # [slots]: the newest window that holds the point; -1: none
    short: np.ndarray  # int16[slots, nodes]: in how many of its newest windows the point is not core
    core: Ints  # [slots, windows, words]: the same, as bits: the nodes at which the point is core in a window
    need: np.ndarray  # int16[slots, nodes]: before so many neighbours come, it is core in no more windows
    reach: Floats  # [slots]: the largest range at which it is not core in its newest window
    links: Ints32  # [slots]: its newest exact neighbour, an entry of the pool below, or -1
    linked: Ints32  # [slots]: how many these are
    root_to: Ints32  # [slots]: the core that it leads to at the roots of windows
    root_until: Ints  # [slots]: the newest window in which it does; -1: none
    members: Ints32  # [slots, windows]: its memberships at other nodes, an entry of the pool below, or -1
    neighbour: Ints32  # [links]: a position, for its slot may be used again
    away: Floats  # [links]
    older: Ints32  # [links]: the next link of the same point, or of those that are free
    to: Ints32  # [memberships]: the core that it leads to
    node: Ints32  # [memberships]
    more: Ints32  # [memberships]: the next one of the same point and window, or of those that are free
    free: Ints  # [5]: first free link and membership; how many of each are in use; 1: there was no room


class ViewScratch(NamedTuple):
    """Room for what is computed while a point is added."""

    near: Ints32  # [neighbours]: slots, newest first
    far: Floats  # [neighbours]
    was: np.ndarray  # int16[nodes]: `short` before
    todo: Ints  # [jobs, 4]: memberships to add: two points, window, node


def words_for(nodes: int) -> int:
    return -(-nodes // BITS)


def bits_of(nodes: Bools) -> Ints:
    """Truth values of nodes, [rows, nodes], as bits of words, [rows, words]."""
    words = np.zeros((len(nodes), words_for(nodes.shape[1])), np.int64)
    for node in range(nodes.shape[1]):
        words[:, node // BITS] |= nodes[:, node].astype(np.int64) << (node % BITS)
    return words


def new_views(slots: int, nodes: int, windows: int) -> IntView:
    pool = max(64, slots)
    return IntView(
        np.full(slots, -1, np.int64), np.full(slots, -1, np.int64), np.full((slots, nodes), NONE, np.int16),
        np.zeros((slots, windows, words_for(nodes)), np.int64), np.zeros((slots, nodes), np.int16),
        np.zeros(slots), np.full(slots, -1, np.int32), np.zeros(slots, np.int32),
        np.zeros(slots, np.int32), np.full(slots, -1, np.int64), np.full((slots, windows), -1, np.int32),
        np.empty(pool, np.int32), np.empty(pool),
        np.arange(1, pool + 1, dtype=np.int32), np.empty(pool, np.int32), np.empty(pool, np.int32),
        np.arange(1, pool + 1, dtype=np.int32), np.zeros(5, np.int64),
    )  # fmt: skip


def with_room(view: IntView, links: int, members: int) -> IntView:
    """The same with room for at least so many more links and memberships."""
    for least, pools, which in (
        (links, ("neighbour", "away", "older"), 0),
        (members, ("to", "node", "more"), 1),
    ):
        size, used = len(getattr(view, pools[0])), int(view.free[2 + which])
        if size - used >= least:
            continue
        room = max(2 * size, used + least)
        grown = {name: np.resize(getattr(view, name), room) for name in pools}
        chain = grown["older" if which == 0 else "more"]
        chain[size:] = np.arange(size + 1, room + 1)  # the last of the free ones leads to `size` already
        view = view._replace(**grown)
    return view


# the tree


@leaf
def _core_until(view: IntView, point: int, node: int) -> int:
    """The newest window in which a point is core at a node; it is below all that live if there is none."""
    return view.last[point] - int64(view.short[point, node])


# memberships


@leaf
def _first(one: int, other: int) -> bool:
    """Whether `one` is led on to by `other`: at random, so that ways stay short."""
    a = np.uint64(one + 1) * np.uint64(0x9E3779B97F4A7C15)
    b = np.uint64(other + 1) * np.uint64(0x9E3779B97F4A7C15)
    return bool((a ^ (a >> np.uint64(29))) > (b ^ (b >> np.uint64(29))))


@leaf
def _membership(view: IntView, tree: ViewTree, point: int, window: int, node: int) -> int:
    """The entry by which a core leads on to another at a node of a window, or -1."""
    entry = int64(view.members[point, window % view.members.shape[1]])
    while entry >= 0 and not (view.node[entry] <= node < tree.out[view.node[entry]]):
        entry = int64(view.more[entry])
    return entry


@leaf
def find(view: IntView, tree: ViewTree, point: int, window: int, node: int) -> int:
    """The core that stands for the cluster of a core at a view; shortens the way there."""
    before = below = int64(-1)  # the entry, and the core by its root, that led here
    while True:
        if view.root_until[point] >= window:
            to = int64(view.root_to[point])
            if before >= 0:
                view.to[before] = to
            if below >= 0 and view.root_until[point] >= view.root_until[below]:
                view.root_to[below] = to
            before, below = int64(-1), point
        else:
            entry = _membership(view, tree, point, window, node)
            if entry < 0:
                return point
            to, here = int64(view.to[entry]), view.node[entry]
            if before >= 0 and here <= view.node[before] < tree.out[here]:
                view.to[before] = to
            before, below = entry, int64(-1)
        point = to


@leaf
def _move_node(
    view: IntView,
    tree: ViewTree,
    point: int,
    to: int,
    window: int,
    node: int,
    scratch: ViewScratch,
    jobs: int,
) -> int:
    """Takes the memberships of a core at nodes above this one of a window away, for they would be second ones
    on a path; what they led to is to be joined there with `to`.
    """
    row, previous = window % view.members.shape[1], int64(-1)
    entry = int64(view.members[point, row])
    while entry >= 0:
        next_, other = int64(view.more[entry]), int64(view.node[entry])
        if node <= other < tree.out[node]:
            scratch.todo[jobs, 0], scratch.todo[jobs, 1] = view.to[entry], to
            scratch.todo[jobs, 2], scratch.todo[jobs, 3] = window, other
            jobs += 1
            if previous < 0:
                view.members[point, row] = next_
            else:
                view.more[previous] = next_
            _free_membership(view, entry)
        else:
            previous = entry
        entry = next_
    return jobs


@leaf
def _free_membership(view: IntView, entry: int) -> None:
    view.more[entry] = view.free[1]
    view.free[1] = entry
    view.free[3] -= 1


@leaf
def _lead_on(
    view: IntView, tree: ViewTree, one: int, other: int, window: int, node: int, oldest: int,
    scratch: ViewScratch, jobs: int,
) -> int:  # fmt: skip
    """A core that stands for its cluster at a view leads on to another one from there on; returns how many
    memberships are to be added because of that.
    """
    if node == 0:
        for each in range(oldest, window + 1):
            jobs = _move_node(view, tree, one, other, each, int64(0), scratch, jobs)
        if view.root_until[one] >= oldest:
            scratch.todo[jobs, 0], scratch.todo[jobs, 1] = view.root_to[one], other
            scratch.todo[jobs, 2], scratch.todo[jobs, 3] = view.root_until[one], 0
            jobs += 1
        view.root_to[one], view.root_until[one] = other, window
        return jobs
    jobs = _move_node(view, tree, one, other, window, node, scratch, jobs)
    entry, row = view.free[1], window % view.members.shape[1]
    if entry == len(view.to):
        view.free[4] = 1
        return int64(0)
    view.free[1] = view.more[entry]
    view.free[3] += 1
    view.to[entry], view.node[entry], view.more[entry] = other, node, view.members[one, row]
    view.members[one, row] = entry
    return jobs


@leaf
def _unite(
    view: IntView, tree: ViewTree, one: int, other: int, window: int, node: int, oldest: int,
    scratch: ViewScratch,
) -> None:  # fmt: skip
    """Two cores are in the same cluster at a view and all beyond it."""
    todo, jobs = scratch.todo, 1
    todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = one, other, window, node
    while jobs:
        jobs -= 1
        window, node = todo[jobs, 2], todo[jobs, 3]
        one = find(view, tree, todo[jobs, 0], window, node)
        other = find(view, tree, todo[jobs, 1], window, node)
        if one == other:
            continue
        if _first(one, other):
            one, other = other, one
        jobs = _lead_on(view, tree, one, other, window, node, oldest, scratch, jobs)


@leaf
def _connect(
    view: IntView, tree: ViewTree, windows: PredictedWindows, one: int, other: int, far: float, oldest: int,
    scratch: ViewScratch,
) -> None:  # fmt: skip
    """Unites two neighbours at the first view of each path at which both are core, if `one` has become core
    there (it was core at `scratch.was`).
    """
    was = scratch.was
    shared = min(view.last[one], view.last[other])
    done = oldest - 1
    if far <= tree.ranges[0]:
        done = max(done, min(_core_until(view, one, 0), _core_until(view, other, 0), shared))
        if done >= oldest and view.last[one] - was[0] < done:
            _unite(view, tree, one, other, done, int64(0), oldest, scratch)
    rank = int64(np.searchsorted(tree.steps, far))
    for window in range(done + 1, shared + 1):
        row, covered = window % len(windows.starts), int64(0)
        for word in range(view.core.shape[2]):
            bits = view.core[one, row, word] & view.core[other, row, word]
            bits &= windows.serves[row, word] & tree.within[rank, word]
            while bits:
                node = word * BITS + lowest(bits)
                bits &= bits - 1
                if node >= covered:
                    covered = int64(tree.out[node])
                    if view.last[one] - was[node] < window:
                        _unite(view, tree, one, other, window, node, oldest, scratch)


# types and exact neighbours


@leaf
def _set_short(view: IntView, point: int, node: int, less: int) -> None:
    """A point is core at a node in all but so many of its newest windows, if it was not before."""
    last, rows = view.last[point], view.core.shape[1]
    before = max(last - int64(view.short[point, node]), last - rows)
    if last - less > before:
        for window in range(max(before + 1, 0), last - less + 1):
            view.core[point, window % rows, node // BITS] |= int64(1) << (node % BITS)
        view.short[point, node] = less


@leaf
def _update_type(
    view: IntView, tree: ViewTree, point: int, node: int, size: int, scratch: ViewScratch
) -> bool:
    """Finds in which windows a point is core at a node, from its neighbours in scratch, newest first; returns
    whether these have become more.
    """
    short, need, near, last = view.short, view.need, scratch.near, view.last[point]
    wanted, within = int64(tree.counts[node]), tree.ranges[node]
    left, less, begin = wanted, int64(0), last
    for index in range(size):  # the window of the last neighbour that is wanted
        if left == 0:
            break
        if scratch.far[index] <= within:
            left -= 1
            begin = min(begin, view.last[near[index]])
    grew = False
    if left == 0:
        less = last - begin
        grew = less < short[point, node]
        _set_short(view, point, node, less)
    if short[point, node] == 0:
        need[point, node] = 0
        return grew
    until, known = _core_until(view, point, node), int64(0)
    for index in range(size):  # those in the first window in which it is not core yet
        if view.last[near[index]] <= until:
            break
        known += scratch.far[index] <= within
    need[point, node] = wanted - known
    return grew


@leaf
def _update_types(view: IntView, tree: ViewTree, point: int, size: int, scratch: ViewScratch) -> bool:
    """The same for all nodes at which so many neighbours have come that it may be core in one more window.
    What was before is in scratch.was.
    """
    grew, node, nodes = False, int64(0), len(tree.ranges)
    for each in range(nodes):
        scratch.was[each] = view.short[point, each]
    while node < nodes:
        if view.short[point, node] == 0:
            node += 1
            continue
        if view.need[point, node] <= 0:
            grew |= _update_type(view, tree, point, node, size, scratch)
            if view.short[point, node] == 0:  # so it is at all nodes above
                for above in range(node + 1, tree.out[node]):
                    _set_short(view, point, above, int64(0))
                    view.need[point, above] = 0
                node = int64(tree.out[node])
                continue
        node += 1
    return grew


@leaf
def _set_reach(view: IntView, tree: ViewTree, point: int) -> None:
    view.reach[point] = -1.0
    for node in range(len(tree.ranges)):
        if view.short[point, node]:
            view.reach[point] = max(view.reach[point], tree.ranges[node])


@leaf
def _is_needed(view: IntView, tree: ViewTree, point: int, other: int, far: float) -> bool:
    """Whether two points are neighbours at a view at which the first is not core."""
    if far > view.reach[point]:
        return False
    for node in range(len(tree.ranges)):
        if (
            far <= tree.ranges[node]
            and view.short[point, node]
            and view.last[other] > _core_until(view, point, node)
        ):
            return True
    return False


@leaf
def _add_link(view: IntView, point: int, other: int, far: float) -> None:
    entry = view.free[0]
    view.free[0] = view.older[entry]
    view.free[2] += 1
    view.neighbour[entry], view.away[entry] = view.position[other], far
    view.older[entry] = view.links[point]
    view.links[point] = entry
    view.linked[point] += 1


@leaf
def _drop_links(view: IntView, point: int) -> None:
    entry = int64(view.links[point])
    while entry >= 0:
        next_ = int64(view.older[entry])
        view.older[entry] = view.free[0]
        view.free[0] = entry
        view.free[2] -= 1
        entry = next_
    view.links[point], view.linked[point] = -1, 0


@leaf
def _collect(view: IntView, point: int, begin: int, scratch: ViewScratch) -> int:
    """Copies the links of a point to points from position `begin` on into scratch; returns how many."""
    size, entry = int64(0), int64(view.links[point])
    while entry >= 0:
        other = view.neighbour[entry]
        if other < begin:
            break  # all others are older
        scratch.near[size], scratch.far[size] = other % len(view.last), view.away[entry]
        size += 1
        entry = int64(view.older[entry])
    return size


@leaf
def _keep_needed(view: IntView, tree: ViewTree, point: int, size: int, scratch: ViewScratch) -> None:
    """Keeps those of the neighbours in scratch that a view needs."""
    _drop_links(view, point)
    _set_reach(view, tree, point)
    for index in range(size - 1, -1, -1):
        other = int64(scratch.near[index])
        if _is_needed(view, tree, point, other, scratch.far[index]):
            _add_link(view, point, other, scratch.far[index])


@leaf
def _forget(view: IntView, point: int) -> None:
    """A slot is used again: what was in it is in no window any more."""
    _drop_links(view, point)
    view.root_until[point] = -1
    for row in range(view.members.shape[1]):
        entry = int64(view.members[point, row])
        while entry >= 0:
            next_ = int64(view.more[entry])
            _free_membership(view, entry)
            entry = next_
        view.members[point, row] = -1
    for node in range(view.short.shape[1]):
        view.short[point, node] = NONE
        view.need[point, node] = 0
    for row in range(view.core.shape[1]):
        for word in range(view.core.shape[2]):
            view.core[point, row, word] = 0


@leaf
def _neighbour_became_known(
    view: IntView, tree: ViewTree, windows: PredictedWindows, point: int, other: int, far: float, oldest: int,
    begin: int, scratch: ViewScratch,
) -> None:  # fmt: skip
    """A point has a new neighbour: it may be core at more views, and then joins the cores it is linked to."""
    if far > view.reach[point]:
        return
    _add_link(view, point, other, far)
    more = False
    for node in range(len(tree.ranges)):
        if far <= tree.ranges[node] and view.short[point, node]:
            view.need[point, node] -= 1
            more |= view.need[point, node] <= 0
    if not more:
        return
    size = _collect(view, point, begin, scratch)
    if _update_types(view, tree, point, size, scratch):
        for index in range(size):
            _connect(
                view, tree, windows, point, int64(scratch.near[index]), scratch.far[index], oldest, scratch
            )
        _keep_needed(view, tree, point, size, scratch)


@leaf
def _add_point(
    view: IntView, tree: ViewTree, windows: PredictedWindows, point: int, newest: int, oldest: int,
    neighbours: BatchNeighbours, low: int, high: int, scratch: ViewScratch,
) -> None:  # fmt: skip
    slots = len(view.last)
    here, begin = point % slots, windows.starts[oldest % len(windows.starts)]
    _forget(view, here)
    view.position[here], view.last[here] = point, newest
    size = int64(0)
    for entry in range(low, high):  # sorted by insertion: chains of the grid are newest first already
        position = neighbours.near[entry] + neighbours.offset
        if position < begin:
            continue
        index = size
        while index > 0 and view.position[scratch.near[index - 1]] < position:
            scratch.near[index], scratch.far[index] = scratch.near[index - 1], scratch.far[index - 1]
            index -= 1
        scratch.near[index], scratch.far[index] = position % slots, neighbours.far[entry]
        size += 1
    _update_types(view, tree, here, size, scratch)
    _keep_needed(view, tree, here, size, scratch)
    for entry in range(low, high):
        position = neighbours.near[entry] + neighbours.offset
        if position >= begin:
            other = position % slots
            _neighbour_became_known(
                view, tree, windows, other, here, neighbours.far[entry], oldest, begin, scratch
            )
    for node in range(len(tree.ranges)):
        scratch.was[node] = NONE
    for entry in range(low, high):
        position = neighbours.near[entry] + neighbours.offset
        if position >= begin:
            _connect(view, tree, windows, here, position % slots, neighbours.far[entry], oldest, scratch)


@kernel
def add_to_views(
    view: IntView, tree: ViewTree, windows: PredictedWindows, start: int, stop: int, first: int, newest: int,
    oldest: int, neighbours: BatchNeighbours,
) -> int:  # fmt: skip
    """Adds the points at positions start..stop, which the windows oldest..newest hold, with their earlier
    neighbours (UpdateIntView of figure 17); returns where it stopped because there is no room for more links.
    `neighbours` begin with those of the point at `first`.
    """
    slots = len(view.last)
    scratch = ViewScratch(
        np.empty(slots + 1, np.int32), np.empty(slots + 1), np.empty(len(tree.ranges), np.int16),
        np.empty((len(view.to) + slots + 1, 4), np.int64),
    )  # fmt: skip
    for point in range(start, stop):
        low, high = neighbours.ends[point - first], neighbours.ends[point - first + 1]
        if len(view.older) - view.free[2] < 2 * (high - low) + 1:
            return point
        _add_point(view, tree, windows, point, newest, oldest, neighbours, low, high, scratch)
        if view.free[4]:
            return point
    return stop


@kernel
def label_view(
    view: IntView, tree: ViewTree, points: Floats, offset: int, start: int, stop: int, window: int,
    node: int, clusters: Ints32, roles: Bytes,
) -> int:  # fmt: skip
    """Fills clusters and roles of the points at positions start..stop at a view; returns the number of
    clusters.
    """
    slots = len(view.last)
    numbers = np.zeros(slots, np.int32)
    count = 0
    for point in range(start, stop):
        here = point % slots
        role, core = NOISE, here
        if _core_until(view, here, node) >= window:
            role = CORE
        else:
            nearest, distance = int64(-1), np.inf
            entry = int64(view.links[here])
            while entry >= 0:
                other = int64(view.neighbour[entry])
                slot = other % slots
                if (
                    other >= start
                    and view.away[entry] <= tree.ranges[node]
                    and _core_until(view, slot, node) >= window
                ):
                    away = distance_of(points, point - offset, other - offset)
                    if nearest < 0 or away < distance or (away == distance and other < nearest):
                        nearest, distance = other, away
                entry = int64(view.older[entry])
            if nearest >= 0:
                role, core = EDGE, nearest % slots
        roles[point - start] = role
        clusters[point - start] = 0
        if role != NOISE:
            tree_of = find(view, tree, core, window, node)
            if numbers[tree_of] == 0:
                count += 1
                numbers[tree_of] = count
            clusters[point - start] = numbers[tree_of]
    return count
