"""Photons for the scenarios: the paper's schema (figure 2), generated or recorded.

`det_time` is the time of observation in seconds; a gap in recorded photons counts as one second.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.model.arrays import Array
from anabranch.model.columns import Column, ColumnType
from anabranch.model.errors import JobError
from anabranch.model.stream import Stream

RA, DEC, EN, TIME = "coord.cel.ra", "coord.cel.dec", "en", "det_time"
#: Photons per second of `det_time` in generated streams.
DENSITY = 50.0

#: The supernova remnant that the paper's queries look at.
VELA = (129.0, -44.5)


@dataclass(frozen=True)
class Photons:
    """Items of a stream, and the point in the sky that queries look at."""

    stream: Stream
    rows: pa.RecordBatch
    centre: tuple[float, float]


def generated(name: str, count: int, seed: int = 0) -> Photons:
    """Returns a background over the sky, and a third of the photons around the remnant."""
    random = np.random.default_rng(seed)
    ra = random.uniform(0, 360, count)
    dec = np.degrees(np.arcsin(random.uniform(-1, 1, count)))
    remnant = random.random(count) < 1 / 3
    ra[remnant] = random.normal(VELA[0] + 2, 4, remnant.sum())
    dec[remnant] = random.normal(VELA[1] - 1, 2.5, remnant.sum())
    columns = {
        RA: np.mod(ra, 360),
        DEC: dec,
        "coord.det.dx": random.integers(0, 512, count),
        "coord.det.dy": random.integers(0, 512, count),
        "phc": random.integers(0, 4096, count),
        EN: random.pareto(1.7, count) + 0.1,
        TIME: np.floor(np.cumsum(random.exponential(1 / DENSITY, count))).astype(np.int64),
    }
    return Photons(
        _stream(name, columns), pa.record_batch({k: pa.array(v) for k, v in columns.items()}), VELA
    )


def recorded(name: str, path: Path, count: int, skip: int = 0) -> Photons:
    """Returns recorded photons; queries look at where most of them come from."""
    try:
        table = pq.read_table(path).slice(skip, count)
        ra, dec, energy, time = (np.asarray(table[column]) for column in ("ra", "dec", "energy", "time_us"))
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise JobError(
            f"{path} cannot be read as photons (parquet with ra, dec, energy, time_us): {error}"
        ) from None
    if not len(ra):
        raise JobError(f"{path} has no photons after the first {skip:,}")
    gaps = np.minimum(np.diff(time, prepend=time[0]), 1_000_000)
    columns = {
        RA: ra.astype(np.float64),
        DEC: dec.astype(np.float64),
        "obs_id": np.asarray(table["obs_id"]).astype(np.int64),
        EN: energy.astype(np.float64),
        TIME: np.cumsum(gaps) // 1_000_000,
    }
    counts, ra_edges, dec_edges = np.histogram2d(ra, dec, bins=(np.arange(0, 361, 2), np.arange(-90, 91, 2)))
    most = np.unravel_index(np.argmax(counts), counts.shape)
    centre = float(ra_edges[most[0]]) + 1, float(dec_edges[most[1]]) + 1
    return Photons(
        _stream(name, columns), pa.record_batch({k: pa.array(v) for k, v in columns.items()}), centre
    )


def _stream(name: str, columns: dict[str, Array]) -> Stream:
    kinds = {"f": ColumnType.FLOAT, "i": ColumnType.INT}
    found = tuple(Column(column, kinds[values.dtype.kind]) for column, values in columns.items())
    return Stream(name, found, time=TIME)
