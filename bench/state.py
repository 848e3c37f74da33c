"""What a zone with much state adds to a batch: the same stage with and without it, in turns."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from anabranch.chain.packets import Kind, Packet, encode
from anabranch.chain.stages import Broadcast, Chain, Chains, Stage
from anabranch.chain.state import State
from anabranch.model.stream import Stream
from anabranch.spark.operator import Run, StageOperator
from anabranch.spark.rows import DDL, zone_key


class Holder(Stage):
    """Keeps `chunks` chunks of a megabyte and changes `each` of them per batch, one after the other."""

    name, zones = "holder", 1

    def __init__(self, chunks: int, each: float) -> None:
        self.chunks, self.each = chunks, each

    def step(self, zone: int, state: State, packets: Sequence[Packet]) -> list[Packet]:
        if self.chunks and not state.keys():
            for number in range(self.chunks):
                state.put(f"chunk/{number:04d}", {"values": np.zeros(131_072)})
        elif self.chunks:
            counts = state.get("count") or {"count": np.zeros(1, np.int64)}
            counts["count"] += 1
            state.put("count", counts)
            for change in range(max(1, round(self.chunks * self.each))):
                key = f"chunk/{(int(counts['count'][0]) + change) % self.chunks:04d}"
                arrays = state.get(key)
                assert arrays is not None
                arrays["values"][0] += 1
                state.put(key, arrays)
        return []


class HolderFamily:
    """A family whose only stage is a Holder."""

    name = "holder"

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def chain(self, stream: Stream, zones: int) -> Chain:
        return Chain((self.stage,), Broadcast(1))


def added_by_state(spark: SparkSession, folder: Path, megabytes: int, share: float) -> float:
    """Seconds per batch that the state adds, by the medians of many small batches."""
    with_state = [_batch_seconds(spark, folder, Holder(megabytes, share)) for _ in range(2)]
    without = [_batch_seconds(spark, folder, Holder(0, share)) for _ in range(2)]
    return min(with_state) - min(without)


def _batch_seconds(spark: SparkSession, folder: Path, stage: Stage) -> float:
    shutil.rmtree(folder, ignore_errors=True)
    body = encode(Packet(1, 0, Kind.NOTE))
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 20).option("numPartitions", 1).load()
    rows: DataFrame = ticks.selectExpr(
        f"{zone_key(0, 2)} AS key",
        "1 AS stage",
        "0 AS zone",
        "0 AS from_stage",
        "0 AS from_zone",
        "0 AS from_count",
        "'holder' AS family",
    ).selectExpr("*", f"unhex('{body.hex()}') AS body")
    run = Run(str(id(stage)), str(folder), "holder", 2, str(folder / "parcels"))
    operator = StageOperator(run, Chains(Stream("s", ()), [HolderFamily(stage)], 1), [1])
    rows = rows.groupBy("key").transformWithStateInPandas(operator, DDL, "Append", "None")
    query = rows.writeStream.format("noop").option("checkpointLocation", str(folder)).start()
    while len([p for p in query.recentProgress if p["numInputRows"]]) < 18 and not query.exception():
        query.awaitTermination(1)
    query.stop()
    if query.exception():
        raise RuntimeError(str(query.exception()))
    times = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
    return statistics.median(times[-12:]) / 1000
