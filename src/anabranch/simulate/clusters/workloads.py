"""The query groups of the Chandi paper's experiments (section 8), and the streams they are asked of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from anabranch.job.generated_streams import BLOCK, targets
from anabranch.model.arrays import Array
from anabranch.simulate.clusters.strategy import ClusterQuery as Query

Random = np.random.Generator

COUNTS, RANGES, SIZES, SLIDES = (2, 20), (0.01, 0.1), (1000, 5000), (500, 5000)
STEP = 500  # the granularity of window parameters


def moving_targets(count: int) -> Array:
    """(latitude, longitude) of the generator `targets`."""
    blocks = [targets(block * BLOCK, BLOCK) for block in range(-(-count // BLOCK))]
    axes = [np.concatenate([block[name] for block in blocks]) for name in ("latitude", "longitude")]
    return np.column_stack(axes)[:count]


def trades(file: Path | None, count: int) -> Array:
    """(price in dollars, time in hours) of recorded trades; without a file, of generated ones: prices that
    go up and down by cents, in bursts.
    """
    if file is None:
        rng = np.random.default_rng(0)
        prices = 100.0 + np.cumsum(rng.choice([-0.01, 0.0, 0.0, 0.01], count))
        prices = np.round(prices + rng.normal(0.0, 0.02, count), 2)
        return np.column_stack([prices, np.cumsum(rng.exponential(rng.choice([1e-5, 3e-4], count)))])
    rows = pq.read_table(file, columns=["time_us", "price"]).slice(0, count)
    hours = (rows["time_us"].to_numpy() - rows["time_us"][0].as_py()) / 3.6e9
    return np.column_stack([rows["price"].to_numpy(), hours])


def _count(rng: Random, most: int = COUNTS[1]) -> int:
    return int(rng.integers(COUNTS[0], most + 1))


def _range(rng: Random) -> float:
    return float(rng.uniform(*RANGES))


def _steps(rng: Random, low: int, high: int) -> int:
    return int(rng.integers(low // STEP, high // STEP + 1)) * STEP


def _overlapping(rng: Random) -> tuple[int, int]:
    """A window and a slide below it."""
    size = _steps(rng, *SIZES)
    return size, _steps(rng, SLIDES[0], size - STEP)


#: Figures 18 to 29: what is arbitrary, and how a query is drawn.
CASES: dict[str, Callable[[Random], Query]] = {
    "count": lambda rng: Query(0.01, _count(rng), 5000, 1000),
    "range": lambda rng: Query(_range(rng), 10, 5000, 1000),
    "win": lambda rng: Query(0.01, 10, _steps(rng, *SIZES), 500),
    "slide": lambda rng: Query(0.01, 10, 5000, _steps(rng, *SLIDES)),
    "count and range": lambda rng: Query(_range(rng), _count(rng), 5000, 1000),
    "win and slide": lambda rng: Query(0.01, 10, *_overlapping(rng)),
    "all four": lambda rng: Query(_range(rng), _count(rng), _steps(rng, *SIZES), _steps(rng, *SLIDES)),
    "scaling": lambda rng: Query(
        _range(rng) / 10, _count(rng, 30), _steps(rng, *SIZES), _steps(rng, *SLIDES)
    ),
}


def group(case: str, count: int, seed: int = 0, shrink: int = 1) -> list[Query]:
    """`count` queries; a smaller group with the same seed is a part of a larger one. Windows and slides are
    those of the paper divided by `shrink`.
    """
    rng = np.random.default_rng([seed, list(CASES).index(case)])
    drawn = [CASES[case](rng) for _ in range(count)]
    return [replace(query, size=query.size // shrink, slide=query.slide // shrink) for query in drawn]
