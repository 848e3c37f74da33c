"""One Spark query a subscription, and one Anabranch job with all of them, on the same files.

In: photons as parquet files, queries as text. Out: rows times subscriptions a second, by the clock and on the
CPU of all processes, from when every query has done its first batches to the last result; result rows a
subscription. Windows in Spark are in append mode with a watermark of 0, so that both give those that are full
at the last item.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from anabranch.model.job import Engine as Settings
from anabranch.simulate.photons import TIME
from anabranch.spark.engine import Engine
from bench.filters_local import Rate
from bench.memory import cpu_seconds

_WINDOW = re.compile(r"SELECT (?P<call>.+) FROM photons WHERE (?P<where>.+) WINDOW RANGE (\d+) STEP (\d+)$")


def write_files(folder: Path, rows: pa.RecordBatch, files: int) -> None:
    """Photons in files that are read one after the other; `coord.cel.ra` is an element of `coord.cel`."""
    folder.mkdir(parents=True)
    each = rows.num_rows // files
    for place in range(files):
        file = folder / f"part-{place:03d}.parquet"
        pq.write_table(pa.Table.from_batches([_nested(rows.slice(place * each, each))]), file)
        os.utime(file, (place, place))


def _nested(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(_element("", rows))


def _element(prefix: str, rows: pa.RecordBatch) -> pa.StructArray:
    names = [name[len(prefix) :] for name in rows.schema.names if name.startswith(prefix)]
    parts = {
        part: _element(f"{prefix}{part}.", rows) if part not in names else rows.column(prefix + part)
        for part in dict.fromkeys(name.split(".")[0] for name in names)
    }
    return pa.StructArray.from_arrays(list(parts.values()), names=list(parts))


class Contest:
    def __init__(self, spark: SparkSession, folder: Path, warm: int, limit: float) -> None:
        """`warm` batches are not timed. Who takes longer than `limit` seconds has not survived."""
        self.spark, self.folder, self.warm, self.limit = spark, folder, warm, limit
        self.plain = spark.newSession()  # as Spark comes: its own state store, not ours
        for name in ("providerClass", "encodingFormat", "rocksdb.changelogCheckpointing.enabled"):
            self.plain.conf.unset(f"spark.sql.streaming.stateStore.{name}")
        self.source = folder / "source"
        self.schema = spark.read.parquet(str(self.source)).schema
        self.items = ds.dataset(self.source).count_rows()

    def spark_alone(self, queries: Sequence[str]) -> Rate | None:
        out = self._emptied("spark")
        begun = time.perf_counter()
        running = []
        for place, text in enumerate(queries):
            writer = self._answer(text).writeStream.format("parquet").option("path", str(out / f"q{place}"))
            writer = writer.option("checkpointLocation", str(out / f"checkpoint-{place}"))
            running.append(writer.trigger(availableNow=True).start())
        rate = self._steady(running, 1)
        for query in running:
            if not query.awaitTermination(max(1, self.limit - (time.perf_counter() - begun))):
                for late in running:
                    late.stop()
                return None
        self._finish(rate, self.items * len(queries))
        for place in range(len(queries)):
            rate.rows[f"q{place}"] = self.plain.read.parquet(str(out / f"q{place}")).count()
        return rate

    def _answer(self, text: str) -> DataFrame:
        reader = self.plain.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        photons = reader.parquet(str(self.source))
        asked = _WINDOW.match(text)
        if asked is None:
            photons.createOrReplaceTempView("photons")
            return self.plain.sql(text)
        size, step = (f"{length} seconds" for length in asked.groups()[2:])
        timed = photons.where(asked["where"]).withColumn("at", F.timestamp_seconds(F.col(TIME)))
        windows = timed.withWatermark("at", "0 seconds").groupBy(F.window("at", size, step).alias("w"))
        made = windows.agg(F.expr(asked["call"]), F.count("*").alias("items"))
        return made.where(F.col("w.start") >= F.timestamp_seconds(F.lit(0)))  # the stream's first second

    def ours(self, queries: Sequence[str]) -> Rate:
        out = self._emptied("ours")
        with Engine(self.spark, out, settings=Settings(max_files_per_batch=1)) as engine:
            engine.stream("photons", "parquet", path=str(self.source), time=TIME)
            handles = engine.subscribe_many({f"q{place}": text for place, text in enumerate(queries)})
            engine.start()
            rate = self._steady(list(engine.queries.values()), len(queries))
            engine.drain()
            self._finish(rate, self.items * len(queries))
            rate.rows.update({handle.name: engine.results(handle.name).num_rows for handle in handles})
        return rate

    def _steady(self, running: Sequence[StreamingQuery], subscriptions: int) -> Rate:
        """The clocks, and what was done by then, as they stand when every query has done its warm batches."""
        while not all(query.lastProgress and query.lastProgress["batchId"] >= self.warm for query in running):
            for query in running:
                if (error := query.exception()) is not None:
                    raise error
            time.sleep(0.05)
        done = sum(p["numInputRows"] for query in running for p in query.recentProgress)
        return Rate(-done * subscriptions, -time.perf_counter(), -cpu_seconds())

    def _finish(self, rate: Rate, items: int) -> None:
        rate.items += items
        rate.seconds += time.perf_counter()
        rate.cpu += cpu_seconds()

    def _emptied(self, name: str) -> Path:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return self.folder / name
