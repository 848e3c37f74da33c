"""The algorithm of the Chandi paper: its tree of views, its lemmas, and the same clusters as everybody's."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.clusters.structure import Pattern, WindowClusters
from anabranch.simulate.clusters.chandi import Chandi, is_more_restricted, levels_of, parents_of, view_tree
from anabranch.simulate.clusters.kernels.integrated_views import label_view
from anabranch.simulate.clusters.strategies import STRATEGIES
from anabranch.simulate.clusters.strategy import ClusterQuery, run
from anabranch.simulate.clusters.workloads import group, moving_targets
from tests.cli.conftest import Command, anabranch
from tests.drawn import examples
from tests.families.clusters.test_growth import is_growth
from tests.oracles.dbscan import dbscan

__all__ = ["anabranch"]

CORE = 1
_PATTERNS = st.lists(
    st.tuples(st.integers(0, 8).map(lambda quarters: quarters / 4), st.integers(0, 6)), min_size=1, max_size=9
)
_QUARTERS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=2, max_size=60)
#: From restricted to relaxed: ranges go up, counts go down.
_PATHS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6).map(
    lambda steps: [
        (sum(up for up, _ in steps[: n + 1]) / 4, 8 - min(8, sum(down for _, down in steps[: n + 1])))
        for n in range(len(steps))
    ]
)


def _chandi(points: np.ndarray, patterns: list[Pattern], slide: int | None = None) -> Chandi:
    """All points in one window; with a slide, predicted windows at every so many points."""
    size = len(points)
    queries = [ClusterQuery(reach, count, size, slide or size) for reach, count in patterns]
    chandi = Chandi(queries, 2)
    chandi.add(points)
    return chandi


def _view(chandi: Chandi, points: np.ndarray, pattern: Pattern, window: int = 0) -> WindowClusters:
    """What is known now of a window, at the view of a pattern."""
    _, order = view_tree([(query.range, query.count) for query in chandi.queries])
    start = int(chandi.windows.starts[window % len(chandi.windows.starts)])
    clusters = np.empty(len(points) - start, np.int32)
    roles = np.empty(len(points) - start, np.uint8)
    count = label_view(
        chandi.view, chandi.tree, chandi.index.points, 0, start, len(points), window, order.index(pattern),
        clusters, roles,
    )  # fmt: skip
    return WindowClusters(start, clusters, roles, count)


# the predicted view tree


def test_the_tree_of_section_5_3() -> None:
    """The paper puts (0.4, 7) and (0.5, 5) on one level; by definition 5.2 the first is more restricted."""
    levels = levels_of([(0.5, 5), (0.4, 7), (0.2, 10), (0.3, 7), (0.4, 8)])
    assert levels == [[(0.2, 10)], [(0.3, 7), (0.4, 8)], [(0.4, 7)], [(0.5, 5)]]
    parents = parents_of(levels)
    assert {parents[0.3, 7], parents[0.4, 8]} == {(0.2, 10)}
    assert (parents[0.4, 7], parents[0.5, 5]) == ((0.4, 8), (0.4, 7))  # ranges count more


def test_the_root_is_virtual_if_no_query_is_the_most_restricted() -> None:
    _, order = view_tree([(0.5, 9), (0.2, 3)])
    assert order[0] == (0.2, 9)
    assert set(order[1:]) == {(0.5, 9), (0.2, 3)}


@given(_PATTERNS)
def test_a_node_is_more_relaxed_than_all_on_its_path(patterns: list[Pattern]) -> None:
    tree, order = view_tree(patterns)
    assert set(order) >= set(patterns)
    for node, pattern in enumerate(order):
        for above in range(node + 1, tree.out[node]):
            assert is_more_restricted(pattern, order[above])
    assert tree.out[0] == len(order)


# the lemmas, on the paper's structure; tests/families/clusters/test_growth has them on ours


@given(_QUARTERS, _PATHS)
@settings(max_examples=examples(40))
def test_lemma_4_1_memberships_on_a_path_are_at_most_twice_the_cores(quarters: list, path: list) -> None:
    points = np.array(quarters) / 4
    chandi = _chandi(points, path)
    cores = {
        int(point)
        for pattern in path
        for point in np.flatnonzero(_view(chandi, points, pattern).roles == CORE)
    }
    links = int(chandi.view.free[3]) + int((chandi.view.root_until >= 0).sum())
    assert len(cores) + links <= 2 * len(cores)


@given(_QUARTERS, _PATTERNS)
@settings(max_examples=examples(40))
def test_lemmas_5_1_5_3_5_5_clusters_grow_along_the_tree(quarters: list, patterns: list[Pattern]) -> None:
    """Same ranges and same counts are among them."""
    points = np.array(quarters) / 4
    chandi = _chandi(points, patterns)
    for child, parent in parents_of(levels_of(patterns)).items():
        small, large = _view(chandi, points, parent), _view(chandi, points, child)
        assert is_growth(points, small, large, child[0])


@pytest.mark.parametrize(
    "path",
    [
        pytest.param([(0.5, count) for count in range(1, 9)], id="5.2: counts"),
        pytest.param([(reach / 4, 6) for reach in range(1, 9)], id="5.4: ranges"),
        pytest.param([(n / 4, 10 - n) for n in range(1, 9)], id="5.7: both"),
    ],
)
@given(quarters=_QUARTERS)
@settings(max_examples=examples(20))
def test_lemmas_5_2_5_4_5_7_memory_is_bounded_whatever_the_queries(quarters: list, path: list) -> None:
    """Fewer exact neighbours per point than the largest count, and no more memberships than cores."""
    points = np.array(quarters) / 4
    chandi = _chandi(points, path)
    assert chandi.view.linked.max() < max(count for _, count in path)
    assert chandi.view.free[3] + (chandi.view.root_until >= 0).sum() <= len(points)


def _growth(small: WindowClusters, large: WindowClusters) -> int:
    """The growth information: cores that are new, and clusters that are united."""
    old, new = small.roles == CORE, large.roles == CORE
    return int((new & ~old).sum()) + small.count - len(set(large.clusters[old].tolist()))


@given(_QUARTERS, _PATHS)
@settings(max_examples=examples(40))
def test_lemma_5_6_the_level_before_leaves_the_least_growth(quarters: list, path: list) -> None:
    points = np.array(quarters) / 4
    chandi = _chandi(points, path)
    views = [_view(chandi, points, pattern) for pattern in dict.fromkeys(path)]
    for index in range(2, len(views)):
        growth = [_growth(views[before], views[index]) for before in range(index)]
        assert growth == sorted(growth, reverse=True)


@given(_QUARTERS, st.tuples(st.integers(0, 8).map(lambda quarters: quarters / 4), st.integers(0, 6)))
@settings(max_examples=examples(40))
def test_lemma_6_2_an_earlier_window_is_a_growth(quarters: list, pattern: Pattern) -> None:
    points = np.array(quarters) / 4
    chandi = _chandi(points, [pattern], slide=5)
    views = [_view(chandi, points, pattern, window) for window in range(chandi.begun)]
    for large, small in pairwise(views):
        assert is_growth(points, small, large, pattern[0])


# what comes out


def test_slots_are_used_again_and_memberships_run_out_of_room() -> None:
    """Streams of many windows; the structure is built again with more room on the way."""
    points, queries = moving_targets(2000), group("all four", 8, 3, shrink=10)
    chandi, found = Chandi(queries, 2), {}
    run(
        chandi,
        queries,
        points,
        lambda query, window: found.update({(query, window.start): window.clusters.tolist()}),
    )
    assert len(chandi.view.to) > 2 * chandi.size
    for number, query in enumerate(queries):
        for start in range(0, 2000 - query.size + 1, query.slide):
            clusters, _ = dbscan(points[start : start + query.size], query.range, query.count)
            assert found[number, start] == clusters.tolist()


def test_all_strategies_print_the_same_hash(anabranch: Command) -> None:
    done = anabranch("simulate", "clusters", "--queries", "4", "--tuples", "1500", "--format", "json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["strategy"] for row in rows] == list(STRATEGIES) == [
        "anabranch", "chandi", "extra-n", "extra-n-rqs", "inc-dbscan", "inc-dbscan-rqs",
    ]  # fmt: skip
    assert all(set(row) == {"strategy", "cpu_ms_per_tuple", "bytes", "clusters"} for row in rows)
    assert len({row["clusters"] for row in rows}) == 1
    assert all(row["cpu_ms_per_tuple"] > 0 and row["bytes"] > 0 for row in rows)


def test_some_strategies_and_some_figures(anabranch: Command) -> None:
    done = anabranch("simulate", "clusters", "--strategies", "chandi,nobody")
    assert done.code == 2
    assert "there is no strategy 'nobody'" in done.err
    asked = ["simulate", "clusters", "--tuples", "1200", "--figures", "22-23", "--data", "trades"]
    done = anabranch(*asked, "--strategies", "chandi,extra-n-rqs", "--format", "json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [(row["queries"], row["strategy"]) for row in rows] == [
        (count, name) for count in (5, 10, 15, 20) for name in ("chandi", "extra-n-rqs")
    ]
