"""Readings of 400 sites, one an hour from each, for a day: `python generate.py [--hours 24]` writes
readings/*.parquet.

Most sites are clean. Traffic has its rush hours, two smelters drift with the wind, and summer smog comes in
the afternoon.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SITES = 400
HOUR = 3600


def readings(hour: int) -> pa.Table:
    rng = np.random.default_rng([11, hour])
    site = np.arange(SITES)
    rush = np.exp(-(((hour % 24) - 8) ** 2) / 4) + np.exp(-(((hour % 24) - 18) ** 2) / 4)
    noon = np.exp(-(((hour % 24) - 15) ** 2) / 12)
    busy, near_smelter = site % 8 == 0, site % 50 == hour % 50
    no2 = 15 + np.where(busy, 110, 20) * rush + rng.normal(0, 5, SITES)
    so2 = 5 + np.where(near_smelter, 70, 0) + rng.normal(0, 2, SITES)
    pm10 = 20 + np.where(busy, 60, 10) * rush + rng.normal(0, 6, SITES)
    o3 = 40 + 130 * noon - np.where(busy, 30, 0) + rng.normal(0, 10, SITES)
    time = hour * HOUR + site * HOUR // SITES
    columns = {"no2": no2, "so2": so2, "pm10": pm10, "o3": o3}
    return pa.table(
        {"time_s": time, "site": [f"site-{number:03d}" for number in site]}
        | {name: np.maximum(0.0, values).round(1) for name, values in columns.items()}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    hours = parser.parse_args().hours
    folder = Path(__file__).parent / "readings"
    folder.mkdir(exist_ok=True)
    for hour in range(hours):
        pq.write_table(readings(hour), folder / f"hour-{hour:03d}.parquet")
    print(f"{hours * SITES:,} readings are in {folder}")


if __name__ == "__main__":
    main()
