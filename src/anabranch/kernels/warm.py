"""Calls every kernel once on tiny data, so that a process that forks others has all of them loaded."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from anabranch.kernels.clusters_warm import warm_clusters
from anabranch.kernels.filters_warm import warm_filters
from anabranch.kernels.moving_warm import warm_moving
from anabranch.kernels.nearest_warm import warm_nearest
from anabranch.kernels.select_warm import warm_select

#: One function a family of kernels; those that take longest to compile come first.
WARM_UPS: list[Callable[[], None]] = [warm_nearest, warm_moving, warm_clusters, warm_filters, warm_select]


def warm() -> None:
    for warm_up in WARM_UPS:
        warm_up()


def _call(warm_up: Callable[[], None]) -> None:
    warm_up()


if __name__ == "__main__":  # at set-up: compiles all of them to disk, on all cores
    with ProcessPoolExecutor() as pool:
        list(pool.map(_call, WARM_UPS))
