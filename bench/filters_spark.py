"""One Spark query a subscription, and one Anabranch job with all of them, on the same files.

In: photons in files (parquet, json, or xml as in the paper), queries as text. Out: rows times subscriptions a
second, by the clock and on the CPU of all processes, from when every query has done its first batches to the
last result; result rows a subscription. Windows in Spark are in append mode with a watermark of 0, so that
both give those that are full at the last item.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from anabranch.model.job import EngineSettings as Settings
from anabranch.simulate.photons import TIME
from anabranch.spark.engine import Engine
from bench.filters_local import Rate
from bench.memory import cpu_seconds

_WINDOW = re.compile(r"SELECT (?P<call>.+) FROM photons WHERE (?P<where>.+) WINDOW RANGE (\d+) STEP (\d+)$")


FORMATS = ("parquet", "json", "xml")
ITEM = "photon"


#: Files a batch: one for each core that reads them.
FILES = 2


def write_files(folder: Path, rows: pa.RecordBatch, files: int, kind: str) -> None:
    """Photons in files, in their order; `coord.cel.ra` is an element of `coord.cel`."""
    folder.mkdir(parents=True)
    each = rows.num_rows // files
    for place in range(files):
        file = folder / f"part-{place:03d}.{kind}"
        part = _nested(rows.slice(place * each, each))
        if kind == "parquet":
            pq.write_table(pa.Table.from_batches([part]), file)
        elif kind == "json":
            file.write_text("".join(f"{json.dumps(item)}\n" for item in part.to_pylist()))
        else:
            items = "".join(f"<{ITEM}>{_xml(item)}</{ITEM}>\n" for item in part.to_pylist())
            file.write_text(f"<photons>\n{items}</photons>\n")
        os.utime(file, (place, place))


def _xml(item: dict[str, Any]) -> str:
    return "".join(
        f"<{name}>{_xml(value) if isinstance(value, dict) else value}</{name}>"
        for name, value in item.items()
    )


def _ddl(rows: pa.RecordBatch) -> str:
    """Spark's schema of these rows."""
    return ", ".join(f"{field.name} {_ddl_type(field.type)}" for field in _nested(rows).schema)


def _ddl_type(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_ddl_type(field.type)}' for field in kind)}>"
    return "double" if pa.types.is_floating(kind) else "bigint"


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
    def __init__(
        self, spark: SparkSession, folder: Path, rows: pa.RecordBatch, batches: int, kind: str
    ) -> None:
        """The same rows for everybody, in files of this kind."""
        self.spark, self.folder, self.kind = spark, folder, kind
        self.plain = spark.newSession()  # as Spark comes: its own state store, not ours
        for name in ("providerClass", "encodingFormat", "rocksdb.changelogCheckpointing.enabled"):
            self.plain.conf.unset(f"spark.sql.streaming.stateStore.{name}")
        self.source = folder / "source"
        self.schema = _ddl(rows)
        self.items = rows.num_rows
        write_files(self.source, rows, batches * FILES, kind)

    def spark_alone(self, queries: Sequence[str], warm: int, limit: float) -> Rate | None:
        """`warm` batches are not timed. Nothing, if it takes longer than `limit` seconds."""
        out = self._emptied("spark")
        begun = time.perf_counter()
        running = []
        for place, text in enumerate(queries):
            writer = self._answer(text).writeStream.format("parquet").option("path", str(out / f"q{place}"))
            writer = writer.option("checkpointLocation", str(out / f"checkpoint-{place}"))
            running.append(writer.trigger(availableNow=True).start())
        rate = self._steady(running, 1, warm)
        for query in running:
            if not query.awaitTermination(max(1, limit - (time.perf_counter() - begun))):
                for late in running:
                    late.stop()
                return None
        self._finish(rate, self.items * len(queries))
        for place in range(len(queries)):
            rate.rows[f"q{place}"] = self.plain.read.parquet(str(out / f"q{place}")).count()
        return rate

    def _answer(self, text: str) -> DataFrame:
        reader = self.plain.readStream.schema(self.schema).option("maxFilesPerTrigger", FILES)
        photons = reader.format(self.kind).option("rowTag", ITEM).load(str(self.source))
        asked = _WINDOW.match(text)
        if asked is None:
            photons.createOrReplaceTempView("photons")
            return self.plain.sql(text)
        size, step = (f"{length} seconds" for length in asked.groups()[2:])
        timed = photons.where(asked["where"]).withColumn("at", F.timestamp_seconds(F.col(TIME)))
        windows = timed.withWatermark("at", "0 seconds").groupBy(F.window("at", size, step).alias("w"))
        made = windows.agg(F.expr(asked["call"]), F.count("*").alias("items"))
        return made.where(F.col("w.start") >= F.timestamp_seconds(F.lit(0)))  # the stream's first second

    def ours(self, queries: Sequence[str], warm: int) -> Rate:
        out = self._emptied("ours")
        with Engine(self.spark, out, settings=Settings(zones=1, max_files_per_batch=FILES)) as engine:
            engine.stream(
                "photons", self.kind, path=str(self.source), schema=self.schema, row=ITEM, time=TIME
            )
            handles = engine.subscribe_many({f"q{place}": text for place, text in enumerate(queries)})
            engine.start()
            rate = self._steady(list(engine.queries.values()), len(queries), warm)
            rate.items = -engine.deliveries.books("photons")["rows_in"] * len(queries)  # Spark counts files
            engine.drain()
            self._finish(rate, self.items * len(queries))
            rate.rows.update({handle.name: engine.results(handle.name).num_rows for handle in handles})
        return rate

    def _steady(self, running: Sequence[StreamingQuery], subscriptions: int, warm: int) -> Rate:
        """The clocks, and what was done by then, as they stand when every query has done its warm batches."""
        seen: dict[tuple[str, int], int] = {}
        reached: set[str] = set()
        while len(reached) < len(running):
            for query in running:
                if (error := query.exception()) is not None:
                    raise error
                for told in query.recentProgress:
                    seen[query.id, told["batchId"]] = told["numInputRows"]
                    if told["batchId"] >= warm:
                        reached.add(query.id)
            time.sleep(0.05)
        return Rate(-sum(seen.values()) * subscriptions, -time.perf_counter(), -cpu_seconds())

    def _finish(self, rate: Rate, items: int) -> None:
        rate.items += items
        rate.seconds += time.perf_counter()
        rate.cpu += cpu_seconds()

    def _emptied(self, name: str) -> Path:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return self.folder / name
