"""What the charts are drawn from."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from anabranch.results.deliveries import Deliveries
from anabranch.results.layout import Layout
from anabranch.results.manifests import Manifest
from anabranch.service import batch_history
from anabranch.service.batch_history import LONGEST_SPAN_S, POINTS, DeliveredBatch, Timeline, points, rates

NOW = 1_000_000.0


def batches(*times: float, items: int = 100) -> list[DeliveredBatch]:
    return [DeliveredBatch(n, NOW + at, (n + 1) * items, 5) for n, at in enumerate(times)]


def test_a_span_is_cut_and_long_ones_are_thinned() -> None:
    seconds = batches(*range(-7000, 1))
    assert len(points(seconds, NOW, 300)) in (POINTS, POINTS + 1)
    thin = points(seconds, NOW, 7200)
    assert len(thin) <= POINTS + 1
    assert sum(point.results for point in thin) == 5 * 7001
    assert (thin[-1].at, thin[-1].items) == (NOW, 700_100)
    five = points(batches(-400, -200, -100), NOW, 300)
    assert [point.at - NOW for point in five] == [-200, -100]


def test_rates_are_of_the_last_seconds() -> None:
    assert rates(batches(-100, -1, 0), NOW) == (100.0, 5.0)  # not of the pause before
    assert rates(batches(-120, -60), NOW) == pytest.approx((100 / 60, 5 / 60))  # batches that take a minute
    assert rates(batches(-62, -61, -60), NOW) == (0.0, 0.0)  # nothing runs now
    assert rates(batches(0), NOW) == (0.0, 0.0)


def test_each_manifest_is_read_once_and_old_ones_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_history, "MANIFESTS_PER_LOOK", 10)
    layout, now = Layout(tmp_path), time.time()
    deliveries = Deliveries(layout)

    def deliver(batch: int, at: float) -> None:
        deliveries.commit("s", Manifest(batch, books={"processed": batch}))
        os.utime(layout.manifests("s") / f"{batch:012d}.json", (at, at))

    for batch in range(40):
        deliver(batch, now - LONGEST_SPAN_S - 15 + batch)  # the first fifteen are too old
    timeline = Timeline(deliveries, "s")
    seen = []
    for _ in range(4):
        timeline.read(now)
        seen.append([one.number for one in timeline.batches])
    assert seen == [[*range(30, 40)], [*range(20, 40)], [*range(15, 40)], [*range(15, 40)]]
    deliver(40, now)
    timeline.read(now)
    assert timeline.batches[-1].number == 40
    timeline.took(40, 1.5)
    assert timeline.batches[-1].seconds == 1.5
