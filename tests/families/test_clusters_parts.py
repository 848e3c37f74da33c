"""Parts of a plane, merged: the clusters of every window are those of the whole, to the last edge."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.families.clusters.areas import Area, Split
from anabranch.families.clusters.found import Labels, distinct
from anabranch.families.clusters.merge import merged
from anabranch.families.clusters.part import Part
from tests.oracles.dbscan import dbscan

Array = np.ndarray[Any, Any]

#: Quarters, so that points lie on cuts, on borders and exactly a range apart, and many on each other.
_PLACES = st.integers(-6, 6).map(lambda quarters: quarters / 4)
_RANGES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.25, 100.0])
_ODD = st.sampled_from([0.0, 1e-170, -1e-170, 1e15, 1e15 + 0.5, -1e300, float("inf"), -float("inf")])


@st.composite
def _splits(draw: st.DrawFn, axes: int) -> tuple[Split, ...]:
    """Any zone that owns something gives some of it to any other, also what it does not have, and back."""
    out: list[Split] = []
    for _ in range(draw(st.integers(1, 5))):
        zone = draw(st.sampled_from([0, *(split.other for split in out)]))
        other = draw(st.integers(0, 3).filter(lambda other, zone=zone: other != zone))
        out.append(Split(zone, draw(st.integers(0, axes - 1)), draw(_PLACES), other))
    return tuple(out)


def _check(
    points: Array, splits: tuple[Split, ...], patterns: list[tuple[float, int]], starts: list[int]
) -> None:
    """Points enter some at a time; windows are due after each of these steps."""
    zones = Area(0, 0, splits).zones
    parts = [Part(points.shape[1], 0, Area(0, zone, splits)) for zone in zones]
    for part in parts:
        part.ask(patterns)
    labels, stop = Labels(), 0
    for more in (len(points) // 2, len(points) - len(points) // 2):
        for part in parts:
            part.append(points[stop : stop + more])
        stop += more
        windows = [(*pattern, start) for pattern in patterns for start in starts if start < stop]
        if not windows:
            continue
        ranges, counts, firsts = (np.array(each) for each in zip(*windows, strict=True))
        order, which = distinct(ranges, counts, firsts)
        asked = ranges[order], counts[order], firsts[order]
        base = int(firsts.min())
        grown = merged([part.known(*asked) for part in parts], *asked, points[base:stop])
        found = labels.found(grown, stop - base, base)
        for (reach, count, start), kind in zip(windows, which, strict=True):
            clusters, roles = dbscan(points[start:stop], reach, count)
            assert found[kind].start == start
            assert found[kind].clusters.tolist() == clusters.tolist()
            assert found[kind].roles.tolist() == roles.tolist()


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_parts_know_what_the_whole_knows(data: st.DataObject) -> None:
    axes = data.draw(st.integers(1, 4), label="axes")
    place = data.draw(st.sampled_from([_PLACES, _PLACES | _ODD]), label="odd or not")
    points = data.draw(st.lists(st.tuples(*[place] * axes), min_size=1, max_size=60), label="points")
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
    splits = (Split(0, 0, 0.4, 1), Split(0, 1, 0.0, 2), Split(1, 1, 0.7, 3))
    _check(random.permutation(points), splits, patterns, [0, 40, 100, 170])


def test_a_border_point_joins_two_clusters_of_a_part() -> None:
    """Cores at -1 and +1 are farther apart than the range; that of the other part is a neighbour of both."""
    points = np.array([[-0.1, -0.9], [-0.1, 0.9], [0.3, 0.0], [-0.2, -0.9], [-0.2, 0.9]])
    _check(points, (Split(0, 0, 0.0, 1),), [(1.0, 1), (1.0, 2), (1.0, 3)], [0])


def test_edges_belong_to_the_nearest_core_of_any_part() -> None:
    """The edge at 0 is as near to a core of one part as to one of the other: the earlier wins."""
    left, right = [-1.0, -1.25, -1.5, -1.75], [1.0, 1.25, 1.5, 1.75]
    for line in (left + right + [0.0], right + left + [0.0], [0.0, *left, *right]):
        for cut in (0.0, 0.1, -1.0, 1.0):
            _check(np.array(line)[:, None], (Split(0, 0, cut, 1),), [(1.0, 3), (1.0, 4)], [0])


def test_points_at_infinity_are_nobodys_neighbours() -> None:
    """Not even each other's: where a count of 0 makes all points core, each is a cluster of its own."""
    for axes in (1, 2, 3, 4):
        points = np.zeros((12, axes))
        points[[3, 9, 10, 11], -1] = np.inf, np.inf, -np.inf, np.inf
        with np.errstate(invalid="ignore"):
            _check(points, (Split(0, 0, 0.5, 1),), [(0.25, 0), (0.25, 1)], [0, 2])
