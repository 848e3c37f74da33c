"""The growth lemmas of the Chandi paper, as properties of what the structure finds.

Cluster set 2 is a growth of cluster set 1 if every cluster of set 1 is contained in exactly one of set 2
(definition 4.2). The paper lets an edge point belong to any cluster whose core it touches, ours to that of
its nearest core: so a cluster is contained in another if its cores are, and if each of its edge points is
there too or touches a core there.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.clusters.kernels.neighbour_lists import BOX, neighbour_in
from anabranch.families.clusters.structure import ClusterStructure, Pattern, WindowClusters
from tests.drawn import examples
from tests.oracles.dbscan import distances

CORE, EDGE = 1, 2
_QUARTERS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=2, max_size=70)
_RANGES = st.integers(0, 12).map(lambda quarters: quarters / 4)
_COUNTS = st.integers(0, 8)


def _found(points: np.ndarray, windows: list[tuple[Pattern, int]]) -> list[WindowClusters]:
    structure = ClusterStructure(2)
    structure.set_patterns(pattern for pattern, _ in windows)
    structure.add(points)
    ranges, counts = (np.array([pattern[part] for pattern, _ in windows]) for part in (0, 1))
    return structure.clusters(ranges, counts, np.array([start for _, start in windows]))


def is_growth(points: np.ndarray, small: WindowClusters, large: WindowClusters, reach: float) -> bool:
    """Whether `large`, found with the range `reach`, is a growth of `small`."""
    near = distances(points) <= reach

    def members(found: WindowClusters, cluster: int, role: int) -> set[int]:
        members = np.flatnonzero((found.clusters == cluster) & (found.roles == role))
        return set((members + found.start).tolist())

    for cluster in range(1, small.count + 1):
        cores = members(small, cluster, CORE)
        homes = [other for other in range(1, large.count + 1) if cores & members(large, other, CORE)]
        if len(homes) != 1 or not cores <= members(large, homes[0], CORE):
            return False
        home = members(large, homes[0], CORE)
        for edge in members(small, cluster, EDGE):
            if edge not in home and not any(near[edge, core] for core in home):
                return False
    return True


@given(_QUARTERS, _RANGES, _COUNTS, _COUNTS)
def test_lemma_5_1_a_smaller_count_is_a_growth(quarters: list, reach: float, one: int, other: int) -> None:
    points = np.array(quarters) / 4
    small, large = _found(points, [((reach, max(one, other)), 0), ((reach, min(one, other)), 0)])
    assert is_growth(points, small, large, reach)


@given(_QUARTERS, _RANGES, _RANGES, _COUNTS)
def test_lemma_5_3_a_larger_range_is_a_growth(quarters: list, one: float, other: float, count: int) -> None:
    points = np.array(quarters) / 4
    small, large = _found(points, [((min(one, other), count), 0), ((max(one, other), count), 0)])
    assert is_growth(points, small, large, max(one, other))


@given(_QUARTERS, st.tuples(_RANGES, _RANGES), st.tuples(_COUNTS, _COUNTS))
def test_lemma_5_5_a_more_relaxed_query_is_a_growth(
    quarters: list, reaches: tuple[float, float], counts: tuple[int, int]
) -> None:
    points = np.array(quarters) / 4
    restricted, relaxed = (min(reaches), max(counts)), (max(reaches), min(counts))
    small, large = _found(points, [(restricted, 0), (relaxed, 0)])
    assert is_growth(points, small, large, max(reaches))


@given(_QUARTERS, _RANGES, _COUNTS, st.data())
def test_lemma_6_2_an_earlier_predicted_window_is_a_growth(
    quarters: list, reach: float, count: int, data: st.DataObject
) -> None:
    """What is known now of a window that starts later is contained in that of one that starts earlier."""
    points = np.array(quarters) / 4
    starts = st.integers(0, len(points) - 1)
    earlier, later = sorted([data.draw(starts), data.draw(starts)])
    small, large = _found(points, [((reach, count), later), ((reach, count), earlier)])
    assert is_growth(points, small, large, reach)


def test_it_is_no_growth_without_one_being_more_relaxed() -> None:
    """So the properties above can fail: a larger range with a larger count loses a cluster."""
    points = np.array([[0.0, 0.0], [0.25, 0.0], [3.0, 0.0]])
    small, large = _found(points, [((0.25, 1), 0), ((1.0, 2), 0)])
    assert (small.count, large.count) == (1, 0)
    assert not is_growth(points, small, large, 1.0)


def _bytes(patterns: list[Pattern]) -> int:
    """What a structure keeps of 3,000 points of moving groups in a window of 1,000."""
    rng = np.random.default_rng(3)
    points = rng.random((8, 2))[rng.integers(0, 8, 3000)] + rng.normal(0, 0.05, (3000, 2))
    structure = ClusterStructure(2)
    structure.set_patterns(patterns)
    most = 0
    for start in range(0, 3000, 250):
        structure.drop_before(start - 1000)
        structure.add(points[start : start + 250])
        most = max(most, structure.nbytes)
    return most


def test_lemma_5_2_memory_does_not_grow_with_the_counts_on_a_path() -> None:
    few, many = ([(0.05, int(count)) for count in np.linspace(2, 40, n).round()] for n in (2, 39))
    assert _bytes(many) == _bytes(few)


def test_lemma_5_4_memory_is_bounded_whatever_the_ranges_on_a_path() -> None:
    """The bound is the skyband of exact distances, which knows nothing of queries; many ranges come close."""
    sizes = [_bytes([(float(reach), 10) for reach in np.linspace(0.01, 0.1, n)]) for n in (2, 20, 200, 2000)]
    assert sizes[0] < sizes[1]
    assert sizes[3] < sizes[2] * 1.1


def test_lemma_5_7_memory_does_not_grow_along_a_path_of_both() -> None:
    def path(queries: int) -> list[Pattern]:
        ranges, counts = np.linspace(0.01, 0.1, queries), np.linspace(30, 2, queries).round()
        return [(float(reach), int(count)) for reach, count in zip(ranges, counts, strict=True)]

    sizes = [_bytes(path(queries)) for queries in (5, 50, 500, 2000)]
    assert max(sizes) < sizes[0] * 1.6
    assert sizes[3] < sizes[2] * 1.1


@given(_QUARTERS, st.lists(st.tuples(_RANGES, _COUNTS), min_size=1, max_size=12))
@settings(max_examples=examples(60))
def test_no_list_is_longer_than_the_skyband_of_distances(quarters: list, patterns: list[Pattern]) -> None:
    """Part of lemma 4.1: what is kept per point is bounded by the largest count, not by the queries."""
    points = np.array(quarters) / 4
    structure = ClusterStructure(2)
    structure.set_patterns(patterns)
    structure.add(points)
    near, most = distances(points), max(count for _, count in patterns)
    reach = max(reach for reach, _ in patterns)
    for point in range(len(points)):
        low = structure.lists.at[point] + structure.lists.size[point]
        in_box = {
            neighbour_in(entry) for entry in structure.lists.pool[low : low + structure.lists.new[point]]
        }
        others = [other for other in range(len(points)) if other != point and near[point, other] <= reach]
        others = [other for other in others if other not in in_box]  # these have not replaced others yet
        band = [
            other
            for other in others
            if sum(o > other and near[point, o] <= near[point, other] for o in others) < most
        ]
        assert structure.lists.size[point] <= len(band)
        assert len(in_box) < BOX
