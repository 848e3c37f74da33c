"""A k beyond all items: memory grows with what is there, not with k, and nothing overflows."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from tests.families.nearest.test_globe import SHIPS, case, nearest
from tests.laws.case import run_local
from tests.oracles.nearest import nearest_oracle

PLANE = replace(SHIPS, metric="euclidean")


@pytest.mark.parametrize("method", ["RAPF", "RA", "PA"])
@pytest.mark.parametrize("k", [1_000_000_000, 2**63 - 1])
def test_as_many_as_there_are(method: str, k: int) -> None:
    spec = replace(nearest(k, (0.5, 0.5), rows=2**62), method=method, sigma=0.001 if method == "PA" else None)
    drawn = case([(index % 17, index % 5) for index in range(120)], spec, stream=PLANE)
    expected = nearest_oracle(drawn)
    tracemalloc.start()
    assert run_local(drawn, cuts=range(0, 120, 30), zones=2).results == expected
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
