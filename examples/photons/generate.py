"""Writes the photons of this example: ten minutes of a small X-ray telescope.

python examples/photons/generate.py [FOLDER]     # writes photons.parquet, by default beside this script
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 400
VELA = (128.8, -45.2)  # right ascension and declination, degrees


def photons(rows: int = ROWS) -> pa.Table:
    """`det_time` in seconds, `ra` and `dec` in degrees, `en` in keV, `phc` the pulse height channel."""
    random = np.random.default_rng(7)
    vela = random.random(rows) < 0.3
    ra = np.where(vela, random.normal(VELA[0], 2.0, rows), random.uniform(0, 360, rows))
    dec = np.where(vela, random.normal(VELA[1], 1.5, rows), random.uniform(-90, 90, rows))
    en = random.exponential(1.2, rows) + 0.1
    columns = {
        "det_time": np.sort(random.uniform(0, 600, rows)).round(1),
        "ra": ra.round(2),
        "dec": dec.round(2),
        "en": en.round(2),
        "phc": (en * 100).astype(np.int64),
    }
    return pa.table(columns)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(photons(), folder / "photons.parquet")


if __name__ == "__main__":
    main()
