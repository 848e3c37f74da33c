"""What each point is in each window: core or edge of which cluster, or noise.

**Cores**, for all windows that are due at once. Windows that are due end with the newest point and differ in
range, count and start. They are the bits of words, 63 per word, in the order of their ranges, and eight words
are computed at once (`numeric/wide`). A neighbour of rank k that arrived at t counts in the windows with a
range of at least that rank that start no later than t: two rows of words, one AND. For each bit there is a
counter that begins `count` below a power of two; the point is core in the windows where it overflows. Seven
neighbours are added at a time, in all windows of eight words at once (carry-save adders): `ones` holds the
lowest bits of all counters, `twos` the next ones, and so on.

    windows             w0 w1 w2 w3         counts 1, 2, 2, 3: the counters begin at 3, 2, 2, 1 of 4
    a neighbour counts      *  *  *         they are 3, 3, 3, 2
    another one             *     *         w1 overflows: the point is core there; w3 is at 3

**Edges.** When trees are known, too (`window_forest`), a point that is not core is an edge of the cluster of
its nearest core, if one is within the range. A point's list is by rank, so the first core in it is the
nearest, unless others have the same rank; then distances are measured, and among equally near ones the
earliest counts. Eight words of windows go along the list at once (`numeric/wide`) until all have found a core
or the rest of the list is out of their ranges.

Then clusters get their numbers, by their earliest members.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64

from anabranch.families.clusters.kernels.neighbour_lists import (
    NeighbourLists,
    distance_of,
    in_order,
    neighbour_in,
    prefetch_list,
    rank_in,
)
from anabranch.families.clusters.kernels.window_forest import BITS, NOBODY, WindowTrees
from anabranch.model.arrays import Bytes, Floats, Ints, Ints32
from anabranch.numeric.bits import highest, lowest
from anabranch.numeric.jit import kernel, leaf, loop, twig, zero
from anabranch.numeric.wide import CHOICES, WORDS, Wide, choose, filled, load, store

NOISE, CORE, EDGE = 0, 1, 2
#: Neighbours that are added at once, and the lowest bits of counters, which they can carry beyond.
_AT_ONCE, _LOW = 7, 3


# cores


class DueWindows(NamedTuple):
    """The windows that are due, by rank; window w is bit w % 63 of word w // 63. Starts ascend. A row has a
    multiple of the words that are computed at once; the last ones may hold no window.
    """

    rank: Ints32  # [windows]
    start_index: Ints32  # [windows]: which of the starts
    starts: Ints32  # [starts]
    reach: Ints  # [(ranks + 1) * words]: by rank, the windows with a range of at least this rank
    alive: Ints  # [(starts + 1) * words]: the windows with one of the first so many starts
    counters: Ints  # [levels + 1, words]: where the counters of all windows begin, from the lowest bits


@kernel
def _set_bits(
    rank: Ints32, start_index: Ints32, below: Ints, reach: Ints, alive: Ints, counters: Ints
) -> None:
    """Fills rows that are all 0. below: [windows], where the counters begin"""
    for window in range(len(rank)):
        word, bit = window // BITS, 1 << (window % BITS)
        reach[rank[window], word] |= bit
        alive[start_index[window] + 1, word] |= bit
        for level in range(len(counters)):
            if below[window] >> level & 1:
                counters[level, word] |= bit
    for row in range(len(reach) - 2, -1, -1):
        for word in range(reach.shape[1]):
            reach[row, word] |= reach[row + 1, word]
    for row in range(1, len(alive)):
        for word in range(alive.shape[1]):
            alive[row, word] |= alive[row - 1, word]


def aligned_rows(count: int, words: int) -> Ints:
    """Rows of words, int64[count, words], each of a multiple of WORDS and none across two lines of a cache
    more than it must be.
    """
    some = np.empty(count * words + WORDS, np.int64)
    skipped = -(some.ctypes.data // some.itemsize) % WORDS
    return some[skipped : skipped + count * words].reshape(count, words)


def words_used(windows: int) -> int:
    """How many words of a row hold windows."""
    return -(-windows // BITS)


def new_due(rank: Ints, count: Ints, start: Ints, ranges: int) -> DueWindows:
    """From the rank, the count and the start of each window; ranks ascend."""
    words, levels = -(-words_used(len(rank)) // WORDS) * WORDS, max(_LOW, int(count.max()).bit_length())
    starts, start_index = np.unique(start.astype(np.int32), return_inverse=True)
    reach, alive, counters = (aligned_rows(each, words) for each in (ranges + 1, len(starts) + 1, levels + 1))
    for some in (reach, alive, counters):
        some[:] = 0
    ranks, starts_of = rank.astype(np.int32), start_index.astype(np.int32)
    _set_bits(ranks, starts_of, (1 << levels) - count.astype(np.int64), reach, alive, counters)
    return DueWindows(ranks, starts_of, starts, reach.ravel(), alive.ravel(), counters)


@leaf
def _counted(due: DueWindows, far: Ints32, since: Ints32, size: int, at: int, counters: Ints) -> Wide:
    """The windows of the words from `at` on in which counters overflow when neighbours 0..size are counted.

    far, since: where the rows of each neighbour begin in due.reach and due.alive. counters: int64[(levels +
    1) * WORDS], where they begin; they are changed.
    """
    reach, alive, levels = due.reach, due.alive, due.counters.shape[0] - 1
    ones, twos, fours = load(counters, 0), load(counters, WORDS), load(counters, 2 * WORDS)
    over = load(counters, levels * WORDS)  # a count of 0 is over from the start
    for index in range(0, size, _AT_ONCE):
        a = load(reach, far[index] + at) & load(alive, since[index] + at)
        b = load(reach, far[index + 1] + at) & load(alive, since[index + 1] + at)
        c = load(reach, far[index + 2] + at) & load(alive, since[index + 2] + at)
        d = load(reach, far[index + 3] + at) & load(alive, since[index + 3] + at)
        e = load(reach, far[index + 4] + at) & load(alive, since[index + 4] + at)
        f = load(reach, far[index + 5] + at) & load(alive, since[index + 5] + at)
        g = load(reach, far[index + 6] + at) & load(alive, since[index + 6] + at)
        odd = ones ^ a  # three full adders of ones give twos
        first = ones & a | odd & b
        ones = odd ^ b
        odd = ones ^ c
        second = ones & c | odd & d
        ones = odd ^ d
        odd = ones ^ e
        third = ones & e | odd & f
        ones = odd ^ f
        fourth = ones & g
        ones = ones ^ g
        odd = twos ^ first
        fifth = twos & first | odd & second
        twos = odd ^ second
        odd = twos ^ third
        sixth = twos & third | odd & fourth
        twos = odd ^ fourth
        odd = fours ^ fifth
        carry = fours & fifth | odd & sixth
        fours = odd ^ sixth
        for level in range(_LOW, levels):
            before = load(counters, level * WORDS)
            store(counters, level * WORDS, before ^ carry)
            carry = carry & before
        over = over | carry
    return over


@leaf
def longest_list(lists: NeighbourLists, start: int, stop: int) -> int:
    """The length of the longest list of points start..stop, boxes included."""
    longest = 0
    for point in range(start, stop):
        longest = max(longest, lists.size[point] + lists.new[point])
    return longest


@leaf
def _alive_at(due: DueWindows, words: int, stop: int, alive_at: Ints32) -> None:
    """Makes alive_at[point] the index in due.alive of the windows that hold a point if it is not too new."""
    started = 0
    for point in range(due.starts[0], stop):
        while started < len(due.starts) and due.starts[started] <= point:
            started += 1
        alive_at[point] = started * words


@leaf
def _core_masks(
    lists: NeighbourLists, due: DueWindows, stop: int, alive_at: Ints32, far: Ints32, since: Ints32,
    counters: Ints, masks: Ints,
) -> None:  # fmt: skip
    levels, words = due.counters.shape[0] - 1, due.counters.shape[1]
    reach, alive, pool = due.reach, due.alive, lists.pool
    for point in range(due.starts[0], stop):
        prefetch_list(lists, point + 4)
        bound, here, begin = lists.bound[point], alive_at[point], lists.at[point]
        size = lists.size[point] + lists.new[point] if bound else 0
        for index in range(size):
            entry = pool[np.uint64(begin + index)]
            far[index], since[index] = rank_in(entry) * words, alive_at[np.uint64(neighbour_in(entry))]
        for index in range(size, size + _AT_ONCE):  # these count nowhere
            far[index] = since[index] = 0
        for at in range(0, words, WORDS):
            holding = load(alive, here + at)
            found = load(reach, bound * words + at) & holding
            if filled(holding & ~found):
                for level in range(levels + 1):
                    for word in range(WORDS):
                        counters[level * WORDS + word] = due.counters[level, at + word]
                found = found | _counted(due, far, since, size, at, counters) & holding
            store(masks, point * words + at, found)


@kernel
def core_masks(lists: NeighbourLists, due: DueWindows, stop: int, masks: Ints) -> None:
    """Makes masks[point, word] the windows in which each point is core. masks: [stop, words]"""
    start, words = due.starts[0], masks.shape[1]
    masks[:start] = 0
    alive_at = np.zeros(stop, np.int32)
    _alive_at(due, words, stop, alive_at)
    longest = longest_list(lists, start, stop)
    far, since = np.empty(longest + _AT_ONCE, np.int32), np.empty(longest + _AT_ONCE, np.int32)
    counters = np.empty(due.counters.shape[0] * WORDS, np.int64)
    _core_masks(lists, due, stop, alive_at, far, since, counters, masks.reshape(-1))


# edges and labels


class EdgePoints(NamedTuple):
    """Points that are edges, window by window, in each by arrival."""

    pairs: Ints  # [room]: a point, and the core whose cluster it belongs to, 32 bits each
    begin: Ints  # [windows]: where those of each window begin
    end: Ints  # [windows]


class WindowLabels(NamedTuple):
    """Clusters and roles of the points of all windows, one window after the other."""

    at: Ints  # [windows]: where those of each window begin
    clusters: Ints32  # [points]: 0 is noise, others count from 1 by earliest member
    roles: Bytes  # [points]
    counts: Ints32  # [windows]: number of clusters


class _NearestCores(NamedTuple):
    """The nearest cores of one point, and room to search for them."""

    cores: Ints32  # [entries + 1]
    found_in: Ints  # [(entries + 1) * WORDS]: for each core, the windows in which it is the nearest
    entries: Ints  # [2 * entries + WORDS]: the list of the point with LAST behind it, then those of one rank
    away: Floats  # [2 * entries + 1]: distances of those of one rank
    rest: Ints  # [WORDS]: the windows that have no core yet


class _Numbering(NamedTuple):
    """Room to number the clusters of a window."""

    bitmap: Ints  # 32 bits per word, all 0: one for each point
    holder: Ints32  # [points]: the tree whose earliest member this is
    of_cell: Ints32  # [cells + 1]: the cluster of each cell


# edges


def room_for_edges(due: DueWindows, stop: int, pairs: Ints) -> EdgePoints:
    """Room for as many edges as windows have points, in `pairs` if these are enough."""
    sizes = stop - due.starts[due.start_index].astype(np.int64)
    after = np.cumsum(sizes)
    if len(pairs) < after[-1]:
        pairs = np.empty(after[-1], np.int64)
    return EdgePoints(pairs, after - sizes, after - sizes)


def edge_columns(edges: EdgePoints) -> tuple[Ints32, Ints32, Ints32]:
    """(points, cores, windows) of all edges."""
    counts = edges.end - edges.begin
    shift = edges.begin - (np.cumsum(counts) - counts)
    pairs = edges.pairs[np.arange(counts.sum()) + np.repeat(shift, counts)]
    point, core = (pairs >> 32).astype(np.int32), pairs.astype(np.int32)
    return point, core, np.repeat(np.arange(len(counts), dtype=np.int32), counts)


@leaf
def pair_of(point: int, core: int) -> int:
    return point * (1 << 32) | core


@leaf
def point_in(pair: int) -> int:
    return pair >> 32


@leaf
def core_in(pair: int) -> int:
    return pair & 0xFFFFFFFF


@leaf
def _add_edges(edges: EdgePoints, point: int, nearest: _NearestCores, count: int, at: int) -> None:
    """Adds a point as an edge of the clusters of its nearest cores, of which there are `count`, each in its
    windows of the words from `at` on.
    """
    pairs, end, found_in = edges.pairs, edges.end, nearest.found_in
    for each in range(count):
        pair = pair_of(point, int64(nearest.cores[each]))
        some = filled(load(found_in, each * WORDS))
        while some:
            word = lowest(some)
            some &= some - 1
            bits, low = found_in[np.uint64(each * WORDS + word)], (at + word) * BITS
            while bits:
                window = np.uint64(low + lowest(bits))
                bits &= bits - 1
                edge = end[window]
                pairs[np.uint64(edge)] = pair
                end[window] = edge + 1


@leaf
def _sort_by_distance(
    nearest: _NearestCores, low: int, high: int, room: int, point: int, points: Floats, masks: Ints,
    words: int, at: int, within: Wide,
) -> int:  # fmt: skip
    """Copies those of entries[low:high] that are core in a window of `within` to entries[room:], the nearest
    first, the earliest of equally near ones; returns where they end.
    """
    entries, away, end = nearest.entries, nearest.away, room
    for each in range(low, high):
        entry = entries[each]
        if not filled(within & load(masks, neighbour_in(entry) * words + at)):
            continue
        distance, index = distance_of(points, point, neighbour_in(entry)), end
        while index > room and (
            away[index - 1] > distance or (away[index - 1] == distance and entries[index - 1] < entry)
        ):
            entries[index], away[index] = entries[index - 1], away[index - 1]
            index -= 1
        entries[index], away[index] = entry, distance
        end += 1
    return end


@twig
def _nearest_of_tied(
    nearest: _NearestCores, low: int, high: int, room: int, point: int, at: int, points: Floats, masks: Ints,
    due: DueWindows, count: int,
) -> int:  # fmt: skip
    """The same as `_find_nearest` for the entries low..high, which are of one rank. The windows that have no
    core yet are in nearest.rest, before and after.
    """
    entries, words, wanted = nearest.entries, due.counters.shape[1], load(nearest.rest, 0)
    within = wanted & load(due.reach, rank_in(entries[low]) * words + at)
    end = _sort_by_distance(nearest, low, high, room, point, points, masks, words, at, within)
    for index in range(room, end):
        neighbour = neighbour_in(entries[index])
        found = within & load(masks, neighbour * words + at)
        store(nearest.found_in, count * WORDS, found)
        nearest.cores[count] = neighbour
        count += filled(found) != 0
        within = within & ~found
        wanted = wanted & ~found
    store(nearest.rest, 0, wanted)
    return count


@leaf
def _find_nearest(
    nearest: _NearestCores, size: int, point: int, at: int, wanted: Wide, points: Floats, masks: Ints,
    due: DueWindows,
) -> int:  # fmt: skip
    """Finds the nearest cores of a point in the windows `wanted` of the words from `at` on; returns how many
    cores these are. One more of each array is overwritten.

    nearest.entries: the list of the point, `size` entries and LAST; there is as much room again. Whether a
    neighbour is the nearest core in any window cannot be predicted: all are written down, most are
    overwritten by the next.
    """
    entries, words = nearest.entries, due.counters.shape[1]
    index = count = zero()
    while index < size:
        entry, low = entries[np.uint64(index)], index
        rank = rank_in(entry)
        within = wanted & load(due.reach, rank * words + at)
        if not filled(within):
            break
        index += 1
        if rank_in(entries[np.uint64(index)]) != rank:
            neighbour = neighbour_in(entry)
            found = within & load(masks, neighbour * words + at)
            store(nearest.found_in, count * WORDS, found)
            nearest.cores[np.uint64(count)] = neighbour
            count += filled(found) != 0
            wanted = wanted & ~found
        else:
            while rank_in(entries[np.uint64(index)]) == rank:
                index += 1
            store(nearest.rest, 0, wanted)
            count = _nearest_of_tied(nearest, low, index, size + 1, point, at, points, masks, due, count)
            wanted = load(nearest.rest, 0)
    return count


@leaf
def _find_edges(
    lists: NeighbourLists, points: Floats, masks: Ints, due: DueWindows, stop: int, nearest: _NearestCores,
    edges: EdgePoints,
) -> None:  # fmt: skip
    """masks: [points * words]"""
    starts, alive, words, started = due.starts, due.alive, due.counters.shape[1], 0
    for point in range(starts[0], stop):
        prefetch_list(lists, point + 4)
        while started < len(starts) and starts[started] <= point:
            started += 1
        top = int(int64(-1))  # the largest rank of a window in which the point is not core
        for at in range(0, words, WORDS):
            wanted = load(alive, started * words + at) & ~load(masks, point * words + at)
            some = filled(wanted)
            if some:
                store(nearest.found_in, 0, wanted)
                word = highest(some)
                top = int64(due.rank[(at + word) * BITS + highest(nearest.found_in[word])])
        if top < 0 or not lists.bound[point]:
            continue
        size = in_order(lists, point, top, nearest.entries)
        for at in range(0, words, WORDS):
            wanted = load(alive, started * words + at) & ~load(masks, point * words + at)
            count = _find_nearest(nearest, size, point, at, wanted, points, masks, due)
            _add_edges(edges, point, nearest, count, at)


@kernel
def find_edges(
    lists: NeighbourLists, points: Floats, masks: Ints, due: DueWindows, stop: int, edges: EdgePoints
) -> None:
    """Adds all edges of all windows to `edges`, which has none yet.

    The list of a point that is not core holds all its neighbours in the window, as they are fewer than
    `count`. masks: [points, words]
    """
    longest = longest_list(lists, due.starts[0], stop)
    nearest = _NearestCores(
        np.empty(longest + 1, np.int32), np.empty((longest + 1) * WORDS, np.int64),
        np.empty(2 * longest + WORDS, np.int64), np.empty(2 * longest + 1, np.float64),
        np.empty(WORDS, np.int64),
    )  # fmt: skip
    _find_edges(lists, points, masks.reshape(-1), due, stop, nearest, edges)


# labels


@leaf
def _number_trees(first: Ints32, low: int, high: int, begin: int, room: _Numbering) -> int:
    """Makes first[low:high] numbers from 1 in the order of what they were; returns how many."""
    bitmap, holder = room.bitmap, room.holder
    for tree in range(low, high):
        if first[tree] != NOBODY:
            index = first[tree] - begin
            bitmap[index >> 5] |= 1 << (index & 31)
            holder[index] = tree
    count = 0
    for word in range(len(bitmap)):
        bits = bitmap[word]
        bitmap[word] = 0
        while bits:
            index = (word << 5) + lowest(bits)
            bits &= bits - 1
            count += 1
            first[holder[index]] = count
    return count


@leaf
def _label_cores(
    mask: Ints,
    bit: int,
    cell_of: Ints32,
    of_cell: Ints32,
    begin: int,
    stop: int,
    at: int,
    labels: WindowLabels,
) -> None:
    """Writes clusters and roles of the cores of one window."""
    clusters, roles, shift = labels.clusters, labels.roles, at - begin
    if stop - begin < CHOICES:
        for point in range(begin, stop):
            roles[shift + point] = mask[point] >> bit & CORE
            clusters[shift + point] = of_cell[cell_of[point]] * roles[shift + point]
        return
    point = begin
    while True:
        choose(mask, point, bit, cell_of, of_cell, clusters, roles, shift + point)
        if point == stop - CHOICES:
            break
        point = min(point + CHOICES, stop - CHOICES)  # some of the last ones may be written twice


@leaf
def _label_window(
    window: int, mask: Ints, cell_of: Ints32, trees: WindowTrees, edges: EdgePoints, due: DueWindows,
    stop: int, room: _Numbering, labels: WindowLabels,
) -> None:  # fmt: skip
    first, leader, pairs, of_cell = trees.first, trees.leader, edges.pairs, room.of_cell
    low, high, at = trees.at[window], trees.at[window + 1], labels.at[window]
    begin = int64(due.starts[due.start_index[window]])
    for edge in range(np.uint64(edges.begin[window]), np.uint64(edges.end[window])):
        cell = np.uint64(low + cell_of[np.uint64(core_in(pairs[edge]))])
        tree = np.uint64(low + leader[cell])
        first[tree] = min(first[tree], point_in(pairs[edge]))
    labels.counts[window] = _number_trees(first, low, high, begin, room)
    for index in range(high - low):
        of_cell[index] = first[low + leader[low + index]]
    _label_cores(mask, window % BITS, cell_of, of_cell, begin, stop, at, labels)
    for edge in range(np.uint64(edges.begin[window]), np.uint64(edges.end[window])):
        member = np.uint64(at - begin + point_in(pairs[edge]))
        labels.clusters[member] = of_cell[np.uint64(cell_of[np.uint64(core_in(pairs[edge]))])]
        labels.roles[member] = EDGE


@kernel
def label_windows(
    masks: Ints, trees: WindowTrees, edges: EdgePoints, due: DueWindows, stop: int, labels: WindowLabels
) -> None:
    """Fills `labels`. trees.first become the numbers of clusters. masks: [points, words]"""
    longest = stop - due.starts[0]
    room = _Numbering(
        np.zeros((longest >> 5) + 1, np.int64), np.empty(longest, np.int32),
        np.zeros(len(trees.leader) + 1, np.int32),
    )  # fmt: skip
    mask = np.empty(len(masks), np.int64)
    for window in range(len(due.rank)):
        if window % BITS == 0:
            for point in range(len(masks)):
                mask[point] = masks[point, window // BITS]
        cell_of = trees.cell_of[trees.run[window]]
        _label_window(window, mask, cell_of, trees, edges, due, stop, room, labels)


# clusters of one window


@kernel
def members_by_cluster(clusters: Ints32, count: int) -> Ints:
    """The indexes of all members, cluster by cluster, in order of arrival: [members] (counting sort)."""
    ends = np.zeros(count + 2, np.int64)
    for cluster in clusters:
        if cluster:
            ends[cluster + 1] += 1
    for cluster in range(1, count + 2):
        ends[cluster] += ends[cluster - 1]
    members = np.empty(ends[count + 1], np.int64)
    for index in range(len(clusters)):
        cluster = clusters[index]
        if cluster:
            members[ends[cluster]] = index
            ends[cluster] += 1
    return members


class ClusterSummary(NamedTuple):
    """The clusters of a window in a few numbers each. The centre is the mean of all members, summed in order
    of arrival; low and high are the corners of the box around them.
    """

    cores: Ints  # [clusters]
    edges: Ints  # [clusters]
    centre: Floats  # [clusters, axes]
    low: Floats
    high: Floats


def summarise(points: Floats, clusters: Ints32, roles: Bytes, count: int) -> ClusterSummary:
    """points: [points, axes] of the window"""
    shape = (count, points.shape[1])
    summary = ClusterSummary(
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(shape),
        np.full(shape, np.inf),
        np.full(shape, -np.inf),
    )
    _summarise(points, clusters, roles, summary)
    return summary


@loop
def _summarise(points: Floats, clusters: Ints32, roles: Bytes, summary: ClusterSummary) -> None:
    cores, edges, centre, low, high = summary
    axes = points.shape[1]
    for index in range(len(clusters)):
        cluster = clusters[index] - 1
        if cluster < 0:
            continue
        if roles[index] == CORE:
            cores[cluster] += 1
        else:
            edges[cluster] += 1
        for axis in range(axes):
            value = points[index, axis]
            centre[cluster, axis] += value
            low[cluster, axis] = min(low[cluster, axis], value)
            high[cluster, axis] = max(high[cluster, axis], value)
    for cluster in range(len(cores)):
        for axis in range(axes):
            centre[cluster, axis] /= cores[cluster] + edges[cluster]
