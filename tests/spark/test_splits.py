"""Regions of moving objects and groups of cluster queries that split while a job runs on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.chain.balance import Patience
from anabranch.families.registry import family
from tests.families.clusters import runs as clusters_runs
from tests.families.moving.runs import PLANE, crowd
from tests.oracles.clusters import clusters_oracle
from tests.oracles.moving import moving_oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_splits_on_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.results.deliveries import Deliveries
    from anabranch.results.layout import Layout
    from tests.laws.on_spark import run_on_spark

    monkeypatch.setattr(family("moving"), "patience", Patience(batches=1, hot=0.0, least=1))
    case = crowd(3, PLANE, reports=600)
    outcome = run_on_spark(spark, tmp_path, case, cuts=[200, 400], zones=3, stops=[1])
    assert outcome.results == moving_oracle(case)
    deliveries = Deliveries(Layout(tmp_path / "out"))
    batches = range(deliveries.latest("units") + 1)
    manifests = [deliveries.manifest("units", batch) for batch in batches]
    found = [
        note["split"] for manifest in manifests if manifest for note in manifest.notes if "split" in note
    ]
    assert len(found) >= 2
    assert sum(split["objects"] for split in found) > 0


def test_split_groups_of_clusters_on_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows that are complete with the last item wait for a batch of their own after the stream's end."""
    from anabranch.results.deliveries import Deliveries
    from anabranch.results.layout import Layout
    from tests.laws.on_spark import run_on_spark

    monkeypatch.setattr(family("clusters"), "patience", Patience(batches=1, hot=0.0, least=1))
    case = clusters_runs.crowd(3, items=700)
    outcome = run_on_spark(spark, tmp_path, case, cuts=[150, 300, 450, 600], zones=3, stops=[2])
    assert outcome.results == clusters_oracle(case)
    deliveries = Deliveries(Layout(tmp_path / "out"))
    batches = range(deliveries.latest("s") + 1)
    manifests = [deliveries.manifest("s", batch) for batch in batches]
    notes = [note for manifest in manifests if manifest for note in manifest.notes if "split" in note]
    assert len(notes) >= 2
    assert {note["split"]["to"] for note in notes} != {0}
