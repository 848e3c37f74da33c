"""Cores and connections against scikit-learn, which counts the point itself: min_samples = count + 1."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.cluster import DBSCAN

from anabranch.families.clusters.spec import Clusters
from anabranch.model.columns import Column, ColumnType
from anabranch.model.stream import Stream
from anabranch.model.window import Window
from tests.laws.case import Asked, Case, run_local

STREAM = Stream("s", tuple(Column(name, ColumnType.FLOAT) for name in "txyz"), time="t")


@pytest.mark.parametrize("by", [("x",), ("x", "y"), ("x", "y", "z")])
def test_cores_and_connections(by: tuple[str, ...]) -> None:
    rng = np.random.default_rng(len(by))
    centres = rng.random((5, 3))
    points = centres[rng.integers(0, 5, 900)] + rng.normal(0, 0.05, (900, 3))
    items = pa.record_batch({"t": np.arange(900.0), **{name: points[:, i] for i, name in enumerate("xyz")}})
    patterns = [(0.02 * len(by), 3), (0.03 * len(by), 8), (0.05 * len(by), 20), (0.004, 1)]
    window = Window("rows", 400, 125)
    queries = [Clusters(reach, count, by, window) for reach, count in patterns]
    subscriptions = tuple(Asked(f"q{number}", query.to_json()) for number, query in enumerate(queries))
    results = run_local(Case(STREAM, items, subscriptions, "clusters")).results
    for name, (reach, count) in zip(results, patterns, strict=True):
        windows = 0
        for start in range(0, 900 - 400 + 1, 125):
            rows = [row for row in results[name] if row["window_start"] == start]
            cores = {row["id"] - start: row["cluster"] for row in rows if row["role"] == "core"}
            peer = DBSCAN(eps=reach, min_samples=count + 1).fit(points[start : start + 400, : len(by)])
            assert sorted(cores) == sorted(peer.core_sample_indices_.tolist())
            assert {row["id"] - start for row in rows} == set(np.flatnonzero(peer.labels_ >= 0).tolist())
            pairs = {(cluster, int(peer.labels_[core])) for core, cluster in cores.items()}
            assert len(pairs) == len({cluster for cluster, _ in pairs}) == len({label for _, label in pairs})
            windows += bool(cores)
        assert windows
