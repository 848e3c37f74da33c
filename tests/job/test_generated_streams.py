"""The generator of moving targets: no session is needed."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.job.generated_streams import CONVOYS, VEHICLES, targets
from tests.oracles.dbscan import dbscan


def test_the_same_reports_again() -> None:
    one, other = targets(20_000, 500), targets(20_000, 500)
    assert {name: list(values) for name, values in one.items()} == {
        name: list(values) for name, values in other.items()
    }


def test_convoys_meet_and_part() -> None:
    """Seen by their vehicles, convoys 2k and 2k + 1 are together in some hours and apart in others."""
    together = np.zeros((6, CONVOYS // 2))
    for hour in range(6):
        reports = targets(hour * 16_667, 2000)
        convoy = reports["target"] // VEHICLES
        centres = [
            [reports[name][convoy == number].mean() for name in ("latitude", "longitude")]
            for number in range(CONVOYS)
        ]
        apart = np.linalg.norm(np.subtract(centres[::2], centres[1::2]), axis=1)
        together[hour] = apart < 0.01
    assert 0.2 < together.mean() < 0.8
    assert (together.any(axis=0) & ~together.all(axis=0)).sum() > CONVOYS // 4


@pytest.mark.slow
def test_one_report_in_ten_is_in_no_convoy() -> None:
    reports = targets(0, 5000)
    assert 400 < np.count_nonzero(reports["target"] >= CONVOYS * VEHICLES) < 600
    points = np.column_stack([reports["latitude"], reports["longitude"]])
    clusters, _ = dbscan(points, 0.01, 10)
    assert 5 < clusters.max() < CONVOYS
    assert 0.05 < np.mean(clusters == 0) < 0.15
