"""Every answer to NEAREST is right, and says that it is complete exactly if it holds k objects: slices of the
recorded flights and of the paper's workload. The whole: `python -m bench.moving_nearest --adsb FILE`.
"""

from __future__ import annotations

from pathlib import Path

from anabranch.simulate.place.world import STREAM
from tests.families.moving.nearest_answers import FLIGHTS, Counts, compare, flights, paper


def _check(counts: Counts) -> None:
    assert counts.answers > 100
    assert counts.complete == counts.full > 0.9 * counts.answers
    assert counts.right == counts.complete
    assert counts.right_ticks == counts.ticks


def test_recorded_flights(shared_data: Path) -> None:
    items = flights(shared_data / "moving_adsb.parquet", 10_000)
    focal = sorted(set(items.column("o").to_pylist()))
    _check(compare(FLIGHTS, items, focal, 3))


def test_the_papers_workload() -> None:
    items, focal = paper(0.002, 60)
    _check(compare(STREAM, items, focal, 20))
