"""Generated streams, for demonstrations, tests and benchmarks: a Python data source that yields Arrow
batches.

The item at count n follows from n alone, so a replay gives the same items. Options: name (which generator),
rate (items a second), limit (how many in all; endless without), start (the clock's start in seconds since
1970, kept in the offset).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from anabranch.model.errors import JobError
from anabranch.spark import targets

FORMAT = "anabranch_generator"
COUNT = "generated_count"
BLOCK = 20_000
MOST_A_BATCH = 1_000_000


def photons(first: int, count: int) -> dict[str, Any]:
    """Photons over the sky: a background, and a third of them around a supernova remnant near Vela."""
    rng = np.random.default_rng([7, first])
    ra = rng.uniform(0, 360, count)
    dec = np.degrees(np.arcsin(rng.uniform(-1, 1, count)))
    remnant = rng.random(count) < 1 / 3
    ra[remnant] = rng.normal(128.8, 4, remnant.sum())
    dec[remnant] = rng.normal(-45.2, 3, remnant.sum())
    return {
        "det_time": (np.arange(first, first + count) / 1000.0),
        "ra": np.mod(ra, 360),
        "dec": dec,
        "en": rng.pareto(1.7, count) + 0.1,
        "phc": rng.integers(0, 4096, count),
    }


AIRCRAFT = 200


def flights(first: int, count: int) -> dict[str, Any]:
    """Aircraft around Paris, each reporting once a second: they go to and fro on lines of their own, half of
    them from an airport, where they meet.
    """
    number = np.arange(first, first + count)
    second, aircraft = number // AIRCRAFT, number % AIRCRAFT
    rng = np.random.default_rng(11)  # of the aircraft, the same for every block
    low, high = np.array([1.2, 47.9]), np.array([3.6, 49.8])
    ends = rng.uniform(low, high, (2, AIRCRAFT, 2))
    airports = np.array([[2.55, 49.01], [2.36, 48.72], [2.11, 49.45], [1.47, 48.05]])
    ends[0, ::2] = airports[rng.integers(0, len(airports), AIRCRAFT // 2)]
    ends[:, 1] = airports[0] + [[-0.2, 0.0], [0.2, 0.0]]  # one stays near the first of them
    seconds = rng.uniform(600, 1800, AIRCRAFT)
    phase = np.abs((second / seconds[aircraft] + rng.uniform(0, 2, AIRCRAFT)[aircraft]) % 2 - 1)
    place = ends[0, aircraft] + (ends[1] - ends[0])[aircraft] * phase[:, None]
    return {
        "time": second,
        "icao24": np.char.add("39", np.char.zfill(aircraft.astype(str), 4)),
        "longitude": place[:, 0],
        "latitude": place[:, 1],
        "altitude": 11_000 * phase,
    }


SITES = 400


def sensors(first: int, count: int) -> dict[str, Any]:
    """Sites that measure the air, each once in ten minutes: traffic, industry, town and country, and a summer
    smog that comes and goes.
    """
    number = np.arange(first, first + count)
    rng = np.random.default_rng(13)  # of the sites, the same for every block
    kinds = np.array([[90.0, 10.0, 60.0, 40.0], [40, 60, 70, 60], [50, 8, 40, 60], [10, 4, 20, 80]])
    usual = kinds[rng.integers(0, len(kinds), SITES)] * rng.uniform(0.7, 1.3, (SITES, 4))
    places = rng.uniform((5.9, 47.3), (15.0, 54.9), (SITES, 2))
    site, seconds = number % SITES, number / SITES * 600
    noise = np.random.default_rng([13, first]).lognormal(0, 0.25, (count, 4))
    read = usual[site] * noise
    read[:, 3] += 70 * np.maximum(0, np.sin(seconds / 86_400 * 2 * np.pi + site / SITES))
    columns = dict(zip(("no2", "so2", "pm10", "o3"), read.T, strict=True))
    return {
        "time": seconds,
        "site": np.char.add("S", np.char.zfill(site.astype(str), 3)),
        "longitude": places[site, 0],
        "latitude": places[site, 1],
        **columns,
    }


_GENERATORS: dict[str, tuple[str, Callable[[int, int], dict[str, Any]]]] = {
    "photons": ("det_time double, ra double, dec double, en double, phc long", photons),
    "sensors": (
        "time double, site string, longitude double, latitude double, "
        "no2 double, so2 double, pm10 double, o3 double",
        sensors,
    ),
    "targets": (targets.SCHEMA, targets.targets),
    "flights": ("time long, icao24 string, longitude double, latitude double, altitude double", flights),
}


def schema_of(name: str) -> str:
    if name not in _GENERATORS:
        raise JobError(f"there is no generator {name!r}; there are: {', '.join(_GENERATORS)}")
    return _GENERATORS[name][0]


class GeneratorSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return f"{schema_of(self.options.get('name', 'photons'))}, {COUNT} long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return GeneratorReader(dict(self.options))


class Blocks(InputPartition):
    def __init__(self, first: int, stop: int) -> None:
        self.first, self.stop = first, stop


class GeneratorReader(DataSourceStreamReader):
    """The offset is the count of items; how many are due follows from the clock since the first offset was
    taken.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self.generator = options.get("name", "photons")
        self.rate = float(options.get("rate", 10_000))
        self.limit = int(options["limit"]) if "limit" in options else None
        self.begun: tuple[float, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"count": 0}

    def latestOffset(self, start: dict[str, int], limit: Any = None) -> dict[str, int]:
        if self.begun is None:
            self.begun = (time.monotonic() - 1, start["count"])
        since, base = self.begun
        due = base + int((time.monotonic() - since) * self.rate)
        due = min(max(due, start["count"]), start["count"] + MOST_A_BATCH)
        return {"count": due if self.limit is None else min(due, self.limit)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [Blocks(start["count"], end["count"])] if end["count"] > start["count"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Whole blocks are generated, seeded by where they begin, and cut to what is asked for."""
        assert isinstance(partition, Blocks)
        for block in range(partition.first // BLOCK, -(-partition.stop // BLOCK)):
            low = max(partition.first, block * BLOCK)
            high = min(partition.stop, (block + 1) * BLOCK)
            columns = _GENERATORS[self.generator][1](block * BLOCK, BLOCK)
            cut = slice(low - block * BLOCK, high - block * BLOCK)
            arrays = {name: pa.array(values[cut]) for name, values in columns.items()}
            yield pa.record_batch({**arrays, COUNT: pa.array(np.arange(low, high), pa.int64())})
