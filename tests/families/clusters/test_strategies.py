"""The strategies that are compared give the same clusters: those of the matrix of all distances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.families.clusters.structure import WindowClusters
from anabranch.simulate.clusters.strategies import STRATEGIES
from anabranch.simulate.clusters.strategy import ClusterQuery, run, schedule
from tests.drawn import examples
from tests.oracles.dbscan import dbscan

Results = dict[tuple[int, int], tuple[list[int], list[int], int]]


def _results(name: str, queries: list[ClusterQuery], points: np.ndarray) -> Results:
    out: Results = {}

    def seen(query: int, found: WindowClusters) -> None:
        out[query, found.start] = (found.clusters.tolist(), found.roles.tolist(), found.count)

    cost = run(STRATEGIES[name](queries, points.shape[1]), queries, points, seen)
    assert cost.windows == len(out)
    assert cost.most_bytes > 0
    return out


def _expected(queries: list[ClusterQuery], points: np.ndarray) -> Results:
    out: Results = {}
    for number, query in enumerate(queries):
        for start in range(0, len(points) - query.size + 1, query.slide):
            clusters, roles = dbscan(points[start : start + query.size], query.range, query.count)
            out[number, start] = (clusters.tolist(), roles.tolist(), int(clusters.max(initial=0)))
    return out


#: Quarters on a small field: duplicates, ties, chains, noise and big clusters are frequent.
_POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=60)
_QUERIES = st.lists(
    st.builds(
        ClusterQuery,
        st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.25, 100.0]),
        st.integers(0, 6),
        st.integers(1, 25),
        st.integers(1, 12),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("name", STRATEGIES)
@given(_POINTS, _QUERIES)
@settings(max_examples=examples(60))
def test_clusters_are_those_of_the_oracle(
    name: str, quarters: list[tuple[int, int]], queries: list[ClusterQuery]
) -> None:
    points = np.array(quarters, np.float64) / 4
    assert _results(name, queries, points) == _expected(queries, points)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("axes", [1, 2, 5])
@pytest.mark.slow
def test_streams_long_enough_for_arrays_to_move(name: str, axes: int) -> None:
    rng = np.random.default_rng(axes)
    points = rng.random((6, axes))[rng.integers(0, 6, 5000)] + rng.normal(0, 0.04, (5000, axes))
    points += np.linspace(0, 2, 5000)[:, None]
    queries = [
        ClusterQuery(0.02, 3, 300, 70),
        ClusterQuery(0.1, 12, 250, 250),
        ClusterQuery(0.05, 5, 120, 400),
    ]
    assert _results(name, queries, points) == _expected(queries, points)


def test_the_meta_query_is_the_union_of_all_output_times() -> None:
    """The example of section 6.3: ROWS 10 STEP 4, ROWS 9 STEP 5, ROWS 6 STEP 2."""
    queries = [ClusterQuery(1, 1, 10, 4), ClusterQuery(1, 1, 9, 5), ClusterQuery(1, 1, 6, 2)]
    runs = list(schedule(queries, 15))
    assert [run[:2] for run in runs] == [(0, 6), (6, 8), (8, 9), (9, 10), (10, 12), (12, 14), (14, 15)]
    assert [sorted(due) for _, _, due in runs] == [[2], [2], [1], [0, 2], [2], [0, 1, 2], []]
