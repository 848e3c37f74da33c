"""Parts of a plane, merged: the clusters of every window are those of the whole, to the last edge."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.families.clusters.group_part import AreaSplit, GroupArea, GroupPart, merge_reports
from anabranch.families.clusters.structure import Labeller, distinct_windows
from anabranch.model.arrays import Array
from tests.drawn import examples
from tests.oracles.dbscan import dbscan

#: Quarters, so that points lie on cuts, on borders and exactly a range apart, and many on each other.
_QUARTERS = st.integers(-6, 6).map(lambda quarters: quarters / 4)
_RANGES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.25, 100.0])
_ODD = st.sampled_from([0.0, 1e-170, -1e-170, 1e15, 1e15 + 0.5, -1e300, float("inf"), -float("inf")])


@st.composite
def _splits(draw: st.DrawFn, axes: int) -> tuple[AreaSplit, ...]:
    """Any zone that owns something gives some of it to any other, also what it does not have, and back."""
    out: list[AreaSplit] = []
    for _ in range(draw(st.integers(1, 5))):
        zone = draw(st.sampled_from([0, *(split.other for split in out)]))
        other = draw(st.integers(0, 3).filter(lambda other, zone=zone: other != zone))
        out.append(AreaSplit(zone, draw(st.integers(0, axes - 1)), draw(_QUARTERS), other))
    return tuple(out)


def _check(
    points: Array, splits: tuple[AreaSplit, ...], patterns: list[tuple[float, int]], starts: list[int]
) -> None:
    """Points are added some at a time; windows are due after each of these steps."""
    zones = GroupArea(0, 0, splits).zones
    parts = [GroupPart(points.shape[1], 0, GroupArea(0, zone, splits)) for zone in zones]
    for part in parts:
        part.set_patterns(patterns)
    labeller, stop = Labeller(), 0
    for more in (len(points) // 2, len(points) - len(points) // 2):
        for part in parts:
            part.add(points[stop : stop + more])
        stop += more
        windows = [(*pattern, start) for pattern in patterns for start in starts if start < stop]
        if not windows:
            continue
        ranges, counts, firsts = (np.array(each) for each in zip(*windows, strict=True))
        order, which = distinct_windows(ranges, counts, firsts)
        parameters = ranges[order], counts[order], firsts[order]
        base = int(firsts.min())
        reports = [part.report(*parameters) for part in parts]
        merged = merge_reports(reports, *parameters, points[base:stop])
        found = labeller.label(merged, stop - base, base)
        for (reach, count, start), kind in zip(windows, which, strict=True):
            clusters, roles = dbscan(points[start:stop], reach, count)
            assert found[kind].start == start
            assert found[kind].clusters.tolist() == clusters.tolist()
            assert found[kind].roles.tolist() == roles.tolist()


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_parts_find_the_clusters_of_the_whole(data: st.DataObject) -> None:
    axes = data.draw(st.integers(1, 4), label="axes")
    coordinate = data.draw(st.sampled_from([_QUARTERS, _QUARTERS | _ODD]), label="odd or not")
    points = data.draw(st.lists(st.tuples(*[coordinate] * axes), min_size=1, max_size=60), label="points")
    patterns = data.draw(
        st.lists(st.tuples(_RANGES, st.integers(0, 6)), min_size=1, max_size=4), label="patterns"
    )
    starts = data.draw(st.lists(st.integers(0, 59), min_size=1, max_size=3), label="starts")
    splits = data.draw(_splits(axes), label="splits")
    with np.errstate(invalid="ignore"):
        _check(np.array(points, np.float64), splits, patterns, starts)


def test_many_windows_in_several_words() -> None:
    random = np.random.default_rng(5)
    points = np.concatenate([random.normal(0, 1, (150, 2)), random.normal(1.5, 0.4, (150, 2))])
    patterns = [(reach, count) for reach in (0.1, 0.2, 0.35, 0.5, 1.0) for count in range(2, 14)]
    splits = (AreaSplit(0, 0, 0.4, 1), AreaSplit(0, 1, 0.0, 2), AreaSplit(1, 1, 0.7, 3))
    _check(random.permutation(points), splits, patterns, [0, 40, 100, 170])


def test_a_border_point_joins_two_clusters_of_a_part() -> None:
    """Cores at -1 and +1 are farther apart than the range; that of the other part is a neighbour of both."""
    points = np.array([[-0.1, -0.9], [-0.1, 0.9], [0.3, 0.0], [-0.2, -0.9], [-0.2, 0.9]])
    _check(points, (AreaSplit(0, 0, 0.0, 1),), [(1.0, 1), (1.0, 2), (1.0, 3)], [0])


def test_edges_belong_to_the_nearest_core_of_any_part() -> None:
    """The edge at 0 is as near to a core of one part as to one of the other: the earlier wins."""
    left, right = [-1.0, -1.25, -1.5, -1.75], [1.0, 1.25, 1.5, 1.75]
    for line in (left + right + [0.0], right + left + [0.0], [0.0, *left, *right]):
        for cut in (0.0, 0.1, -1.0, 1.0):
            _check(np.array(line)[:, None], (AreaSplit(0, 0, cut, 1),), [(1.0, 3), (1.0, 4)], [0])


def test_points_at_infinity_have_no_neighbours() -> None:
    """Not even each other: where a count of 0 makes all points core, each is a cluster of its own."""
    for axes in (1, 2, 3, 4):
        points = np.zeros((12, axes))
        points[[3, 9, 10, 11], -1] = np.inf, np.inf, -np.inf, np.inf
        with np.errstate(invalid="ignore"):
            _check(points, (AreaSplit(0, 0, 0.5, 1),), [(0.25, 0), (0.25, 1)], [0, 2])
