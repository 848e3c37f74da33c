"""Writes the data of this example: an hour of sensors in two plants.

python examples/sites/generate.py [FOLDER]     # writes data/presses.parquet and data/ovens.parquet
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 7200


def readings(machines: int, mean: float, spread: float, seed: int) -> pa.Table:
    """`t` in seconds, two readings a second; `vibration` and `power` are asked for by nobody."""
    random = np.random.default_rng(seed)
    columns = {
        "t": np.arange(ROWS) / 2,
        "machine": random.integers(0, machines, ROWS),
        "temperature": random.normal(mean, spread, ROWS).round(2),
        "vibration": random.exponential(1.0, ROWS).round(3),
        "power": random.normal(40, 5, ROWS).round(2),
    }
    return pa.table(columns)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    (folder / "data").mkdir(parents=True, exist_ok=True)
    pq.write_table(readings(12, 70, 12, seed=1), folder / "data" / "presses.parquet")
    pq.write_table(readings(4, 220, 9, seed=2), folder / "data" / "ovens.parquet")


if __name__ == "__main__":
    main()
